"""The sleeping scheduler: what to reap, settle and expire. One pass is one function."""
import logging
import shutil
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass

import gevent

from webapp import db, jobs, workers
from webapp.errors import AinoriError

log = logging.getLogger(__name__)

EXPIRE_EVERY_SECONDS = 3600
EXPIRE_AT_ONCE = 50
# A deadline is passed when the clock is beyond it; looking a moment later finds it so.
AFTER_DEADLINE_SECONDS = 0.05


@dataclass
class Found:
    """What one pass did: jobs ``interrupted`` (failed) or ``resumed`` (pending again), ``points`` returned,
    jobs whose points are ``unknown``."""

    interrupted: int = 0
    resumed: int = 0
    points: int = 0
    unknown: int = 0


def one_pass():
    """Reap whatever is orphaned or timed out, and settle whatever is due. Safe to run at any time, twice at once."""
    found, dead = Found(), set()
    newest_before = _newest_entry()
    for job in db.rows("SELECT * FROM jobs WHERE status = 'running' ORDER BY id"):
        if jobs.suspicious(job):
            after = jobs.reap(job["id"])
            if after is not None:
                dead.add(job["worker_id"])
                found.resumed += after["status"] == "pending"
                found.interrupted += after["status"] == "failed"
    for row in db.rows("SELECT id FROM jobs WHERE settlement IN ('due', 'unknown') ORDER BY id"):
        if jobs.settle(row["id"]) == "unknown":
            found.unknown += 1
        else:
            returned = db.value("SELECT points FROM ledger_entries WHERE job_id = ? AND kind = 'refund' AND id > ?",
                                (row["id"], newest_before))
            found.points += returned or 0
    for worker_id in dead:
        workers.forget(worker_id)
    if db.value("SELECT 1 FROM jobs WHERE status = 'pending' LIMIT 1"):
        jobs.signals.pending.set()  # another process may have left it
    return found


def _newest_entry():
    try:
        return db.value("SELECT max(id) FROM ledger_entries") or 0
    except sqlite3.Error:
        return 0  # a ledger that cannot be read is settle's to speak of, and no reason not to start


def at_start(kinds):
    """A server's start, before it answers anybody: one pass, and the jobs whose kind is gone."""
    found = one_pass()
    for job in db.rows("SELECT id, kind, params FROM jobs WHERE status = 'pending'"):
        if not _loads(kinds, job):
            jobs.fail_gone(job["id"])
            jobs.settle(job["id"])
            found.interrupted += 1
    _forget_dead_workers()
    return found


def _loads(kinds, job):
    try:
        kinds[job["kind"]].params.model_validate_json(job["params"])
    except (KeyError, ValueError):
        return False
    return True


def _forget_dead_workers():
    for path in (db.store.path.parent / "workers").glob("*.lock"):
        if workers.is_dead(path.stem):
            workers.forget(path.stem)


# ---------------------------------------------------------------------------------------- scheduler

def schedule(interval_seconds):
    """The scheduler's loop: it waits without a timer while nothing is in flight or due."""
    while True:
        jobs.signals.watch.wait()
        jobs.signals.watch.clear()
        while (pause := next_look_seconds(interval_seconds)) is not None:
            gevent.sleep(pause)
            try:
                one_pass()
                jobs.signals.pending.set()  # another process may have given something back, unheard here
            except AinoriError as error:
                log.warning("a recovery pass was put off: %s", error)
            except Exception:
                log.exception("a recovery pass failed")


def next_look_seconds(interval_seconds):
    """Seconds until the next pass: the interval, or the next deadline if sooner; ``None`` when nothing
    is in flight or due (``unknown`` keeps nobody awake)."""
    row = db.one("SELECT min((julianday(deadline_at) - julianday('now')) * 86400.0) AS seconds, count(*) AS n "
                 "FROM jobs WHERE status IN ('pending', 'running') OR settlement = 'due'")
    if not row["n"]:
        return None
    if row["seconds"] is None:
        return interval_seconds
    return min(interval_seconds, max(row["seconds"], 0) + AFTER_DEADLINE_SECONDS)


# ------------------------------------------------------------------------------------------- expiry

_expired_at = 0.0


def expire_now_and_then(retention_days):
    """Off the back of a request: at most once an hour, a small batch. Never the ledger."""
    global _expired_at
    if time.time() - _expired_at >= EXPIRE_EVERY_SECONDS:
        _expired_at = time.time()
        gevent.spawn(_expire_logged, retention_days)


def _expire_logged(retention_days):
    try:
        expire(retention_days)
    except Exception as error:
        log.warning("expired data could not be deleted: %s", error)


def expire(retention_days):
    """Delete results, files, events and steps of work finished more than ``retention_days`` ago, and
    inputs of work failed more than a day ago. Returns what was deleted, by sort. Work whose points are not
    settled keeps its story: somebody has to decide by it."""
    deleted = Counter()
    for job in db.rows("SELECT * FROM jobs WHERE finished_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) "
                       "AND expired_at IS NULL AND settlement NOT IN ('due', 'unknown') LIMIT ?",
                       (f"-{retention_days} days", EXPIRE_AT_ONCE)):
        _expire_job(job["id"])
        deleted["results"] += 1
    _expire_folders()
    deleted["incidents"] += _expire_incidents(f"-{retention_days} days")
    deleted["inputs"] += _expire_inputs()
    return deleted


@db.verb
def _expire_job(job_id):
    for table in ("job_events", "job_steps", "job_files"):
        db.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))
    db.execute(f"UPDATE jobs SET result = NULL, progress_note = NULL, expired_at = {db.NOW} WHERE id = ?", (job_id,))


@db.verb
def _expire_incidents(age):
    return len(db.execute("DELETE FROM incidents WHERE acknowledged_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) "
                          "RETURNING id", (age,)))


def _expire_folders():
    """Files of what has expired: after the row says so, for a crash between must not leave them for ever."""
    for folder in (db.store.path.parent / "files").iterdir():
        if db.value("SELECT expired_at IS NULL FROM jobs WHERE id = ?", (folder.name,)) != 1:
            shutil.rmtree(folder, ignore_errors=True)


def _expire_inputs():
    """Files nobody needs: of no job, of a finished one, or of one that failed more than a day ago."""
    count = 0
    for path in (db.store.path.parent / "uploads").iterdir():
        old = path.stat().st_mtime < time.time() - jobs.INPUT_KEPT_HOURS * 3600
        if not old:
            continue
        needed = db.value(
            "SELECT 1 FROM jobs WHERE id = ? AND (status IN ('pending', 'running') OR (status = 'failed' "
            "AND finished_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)))",
            (path.name.partition("-")[0], f"-{jobs.INPUT_KEPT_HOURS} hours"))
        if not needed:
            path.unlink(missing_ok=True)
            count += 1
    return count
