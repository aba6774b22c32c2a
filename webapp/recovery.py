"""The sleeping scheduler: what to reap, settle and expire. One pass is one function."""
import json
import logging
import os
import shutil
import sqlite3
import time
from collections import Counter
from dataclasses import dataclass

import gevent

from webapp import db, incidents, jobs, workers
from webapp.errors import AinoriError

log = logging.getLogger(__name__)

EXPIRE_EVERY_SECONDS = 3600
# Deleted in batches with a pause between, so that others go first; what is over the most waits for the next hour.
EXPIRE_AT_ONCE = 50
EXPIRE_MOST = 20_000
EXPIRE_PAUSE_SECONDS = 0.05
DAY_SECONDS = 86400
# A deadline is passed when the clock is beyond it; looking a moment later finds it so.
AFTER_DEADLINE_SECONDS = 0.05
# Between two looks while another process runs something: so soon it is known when that one has died.
OTHERS_LOOK_SECONDS = 1
# Between two looks at what stays overdue (a clock that was set, say), and after one that a locked file or a full
# disk put off.
LOOK_AGAIN_SECONDS = 0.5
PUT_OFF_SECONDS = 5


passes = 0  # since this process began: metrics read it


@dataclass
class Found:
    """What one pass did: jobs ``interrupted`` (failed) or ``resumed`` (pending again), ``points`` returned,
    jobs whose points are ``unknown``."""

    interrupted: int = 0
    resumed: int = 0
    points: int = 0
    unknown: int = 0

    def sentence(self, seconds):
        points = "1 point" if self.points == 1 else f"{self.points} points"
        resumed = f", {self.resumed} resumed" if self.resumed else ""
        return f"{self.interrupted} interrupted, {points} returned, {self.unknown} unknown, {seconds:.1f} s{resumed}"


def one_pass(found=None):
    """Reap whatever is orphaned or timed out, and settle whatever is due. Safe to run at any time, twice at once.
    ``found``: of a pass that was cut short, to be added to."""
    global passes
    passes += 1
    found, dead = found or Found(), set()
    found.unknown = 0
    newest_before = _newest_entry()
    # The plus keeps the planner off the primary key: in its order it would read every job there ever was.
    suspects = [job for job in db.rows("SELECT * FROM jobs WHERE status = 'running' ORDER BY +id")
                if jobs.suspicious(job)]
    jobs.let_the_living_end(suspects)
    for job in suspects:
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
    if jobs.any_pending():
        jobs.signals.pending.set()  # another process may have left it
    return found


def _newest_entry():
    try:
        return db.value("SELECT max(id) FROM ledger_entries") or 0
    except sqlite3.Error:
        return 0  # a ledger that cannot be read is settle's to speak of, and no reason not to start


def at_start(kinds, found=None):
    """A server's start, before it answers anybody (or, of a locked file, before it judges anything): one pass, and
    the jobs whose kind is gone (not while another server lives, which may still know it). ``found``: as in
    ``one_pass``."""
    found = one_pass(found)
    for job in db.rows("SELECT id, kind, params FROM jobs WHERE status = 'pending'"):
        if not _loads(kinds, job) and not _others_live():
            _fail_gone(job)
            found.interrupted += 1
    _forget_dead_workers()
    return found


def _fail_gone(job):
    jobs.fail_gone(job["id"])
    jobs.settle(job["id"])


def _loads(kinds, job):
    try:
        kinds[job["kind"]].params.model_validate_json(job["params"])
    except Exception:  # whatever a kind's own checks do with params of another version
        return False
    return True


def fail_unknown(kinds):
    """A server that knew the kind may have lived when this one started, or have given work back since (a reload):
    if it has ended, nobody else would ever claim it."""
    for job in db.rows("SELECT id, kind FROM jobs WHERE status = 'pending'"):
        if job["kind"] not in kinds and not _others_live():
            _fail_gone(job)


def _others_live():
    mine = workers.current.id if workers.current is not None else None
    return any(workers.is_dead(path.stem) is False for path in (db.store.path.parent / "workers").glob("*.lock")
               if path.stem != mine)


def _forget_dead_workers():
    for path in (db.store.path.parent / "workers").glob("*.lock"):
        if workers.is_dead(path.stem):
            workers.forget(path.stem)


# ---------------------------------------------------------------------------------------- scheduler

def schedule(interval_seconds, kinds):
    """The scheduler's loop: it waits without a timer while nothing is in flight or due."""
    while True:
        jobs.signals.watch.wait()
        jobs.signals.watch.clear()
        least = 0
        while (pause := _pause_before_look(interval_seconds)) is not None:
            gevent.sleep(max(pause, least))
            least = min(_look(kinds), interval_seconds)


def _pause_before_look(interval_seconds):
    try:
        return next_look_seconds(interval_seconds)
    except AinoriError as error:
        log.warning("it cannot be told when to look next: %s", error)
        return interval_seconds


def _look(kinds):
    """One pass, whatever comes of it. Returns the least seconds before the next."""
    try:
        one_pass()
        fail_unknown(kinds)
        jobs.signals.pending.set()  # another process may have given something back, unheard here,
        incidents.recorded.set()    # or recorded what the operator should hear of
        return LOOK_AGAIN_SECONDS
    except AinoriError as error:
        log.warning("a recovery pass was put off: %s", error)
    except Exception:
        log.exception("a recovery pass failed")
    return PUT_OFF_SECONDS


def next_look_seconds(interval_seconds):
    """Seconds until the next pass: the interval, or the next deadline if sooner; ``None`` when nothing
    is in flight or due (``unknown`` keeps nobody awake). What another process runs is looked at more often:
    only its own end tells a process that it died."""
    # Two halves, each said in the words of its index: one condition with OR would read every job there ever was.
    row = db.one("SELECT min((julianday(deadline_at) - julianday('now')) * 86400.0) AS seconds, count(*) AS n, "
                 "max(worker_id <> ?) AS others FROM ("
                 "SELECT deadline_at, worker_id FROM jobs WHERE status IN ('pending', 'running') UNION ALL "
                 "SELECT NULL, NULL FROM jobs WHERE settlement IN ('due', 'unknown') AND settlement = 'due')",
                 (workers.current.id if workers.current is not None else "",))
    if not row["n"]:
        return None
    if row["others"]:
        interval_seconds = min(interval_seconds, OTHERS_LOOK_SECONDS)
    if row["seconds"] is None:
        return interval_seconds
    return min(interval_seconds, max(row["seconds"], 0) + AFTER_DEADLINE_SECONDS)


# ------------------------------------------------------------------------------------------- expiry

_expired_at = 0.0


def expire_now_and_then(retention_days):
    """Off the back of a request: at most once an hour, in small batches. Never the ledger."""
    global _expired_at
    if abs(time.time() - _expired_at) >= EXPIRE_EVERY_SECONDS:  # a clock that was set back must not end it
        _expired_at = time.time()
        gevent.spawn(_logged, lambda: expire(retention_days))


def _logged(delete):
    try:
        delete()
    except Exception as error:
        log.warning("expired data could not be deleted: %s", error)


def expire(retention_days):
    """Delete results, files, events and steps of work finished more than ``retention_days`` ago, inputs of
    work failed more than a day ago, what workers left behind. Returns what was deleted, by sort. Work whose
    points are not settled keeps its story: somebody has to decide by it."""
    # A clock set forward while this process runs makes nothing old: it may be set back again.
    early = max(0.0, workers.clock() - workers.current.clock) if workers.current is not None else 0.0
    age = f"-{retention_days * DAY_SECONDS + early:.3f} seconds"
    deleted = Counter(results=_in_batches(lambda: _expire_results(age)), of_deleted=_in_batches(_expire_of_deleted))
    _expire_folders()
    deleted["incidents"] = _in_batches(lambda: _expire_incidents(age))
    deleted["inputs"] = _expire_inputs(jobs.INPUT_KEPT_HOURS * 3600 + early)
    deleted["workers"] = _expire_workers(age)
    return deleted


def _in_batches(expire_some):
    count = 0
    while count < EXPIRE_MOST and (n := expire_some()):
        count += n
        if n < EXPIRE_AT_ONCE:
            break
        gevent.sleep(EXPIRE_PAUSE_SECONDS)
    return count


def _expire_results(age):
    found = db.rows("SELECT id FROM jobs WHERE finished_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) "
                    "AND expired_at IS NULL AND settlement NOT IN ('due', 'unknown') LIMIT ?", (age, EXPIRE_AT_ONCE))
    for job in found:
        _expire_job(job["id"])
    return len(found)


def forget_deleted():
    """Delete, by the way, what deleted accounts had asked for, unless somebody else asked for the same."""
    gevent.spawn(_logged, lambda: (_in_batches(_expire_of_deleted), _expire_folders()))


def _expire_of_deleted():
    found = db.rows(
        "SELECT * FROM jobs WHERE id IN (SELECT w.job_id FROM users u JOIN job_watchers w ON w.user_id = u.id "
        "WHERE u.deleted_at IS NOT NULL) AND (expired_at IS NULL OR params <> '{}') AND settlement NOT IN ('due', 'unknown') "
        "AND status IN ('succeeded', 'failed') AND NOT EXISTS (SELECT 1 FROM job_watchers w JOIN users u "
        "ON u.id = w.user_id WHERE w.job_id = jobs.id AND u.deleted_at IS NULL AND w.left_at IS NULL) LIMIT ?",
        (EXPIRE_AT_ONCE,))
    for job in found:
        jobs.forget_inputs(job)
        _expire_job(job["id"], whole=True)
    return len(found)


@db.verb
def _expire_job(job_id, whole=False):
    """``whole``: also what was asked for, and why it failed."""
    if whole:
        db.execute("UPDATE jobs SET params = '{}', error_facts = CASE WHEN error_facts IS NOT NULL THEN '{}' END WHERE id = ?",
                   (job_id,))
    for table in ("job_events", "job_steps", "job_files"):
        db.execute(f"DELETE FROM {table} WHERE job_id = ?", (job_id,))
    db.execute(f"UPDATE jobs SET result = NULL, progress_note = NULL, expired_at = {db.NOW} WHERE id = ?", (job_id,))


@db.verb
def _expire_incidents(age):
    return len(db.execute(
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE coalesce(acknowledged_at, resolved_at) < "
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) LIMIT ?) RETURNING id", (age, EXPIRE_AT_ONCE)))


def _expire_folders():
    """Files of what has expired: after the row says so, for a crash between must not leave them for ever."""
    files, turn = db.store.path.parent / "files", db.Turn()
    for name in db.store.disk.apply(os.listdir, (files,)) if files.exists() else ():
        if db.value("SELECT expired_at IS NULL FROM jobs WHERE id = ?", (name,)) != 1:
            db.store.disk.apply(shutil.rmtree, (files / name, True))
        turn.pass_on()


def _expire_inputs(kept_seconds):
    """Files nobody needs: of no job, of a finished one, or of one that failed too long ago."""
    count, turn = 0, db.Turn()
    uploads = db.store.path.parent / "uploads"
    for path in db.store.disk.apply(_not_changed_since, (uploads, time.time() - kept_seconds)) if uploads.exists() else ():
        needed = db.value(
            "SELECT 1 FROM jobs WHERE id = ? AND (status IN ('pending', 'running') OR (status = 'failed' "
            "AND finished_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)))",
            (path.name.partition("-")[0], f"-{kept_seconds:.3f} seconds"))
        if not needed:
            db.store.disk.apply(path.unlink, (True,))
            count += 1
        turn.pass_on()
    return count


def _not_changed_since(folder, moment):
    """In a thread: thousands of entries are looked at while others are served."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.stat().st_mtime < moment:
                    found.append(folder / entry.name)
            except FileNotFoundError:
                pass  # a job that ended meanwhile
    return found


def _expire_workers(age):
    """Rows and lock files of workers long gone, when no running job names them."""
    gone = [row["id"] for row in db.rows(
        "SELECT id FROM workers WHERE heartbeat_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) LIMIT ?",
        (age, 10 * EXPIRE_AT_ONCE)) if workers.is_dead(row["id"]) is not False]
    for worker_id in _delete_workers(gone) if gone else ():
        workers.forget(worker_id)
    return len(gone)


@db.verb
def _delete_workers(ids):
    found = db.execute("DELETE FROM workers WHERE id IN (SELECT value FROM json_each(?)) AND NOT EXISTS ("
                       "SELECT 1 FROM jobs WHERE status = 'running' AND worker_id = workers.id) RETURNING id",
                       (json.dumps(ids),))
    return [row["id"] for row in found]
