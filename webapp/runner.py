"""Greenlets that run attempts in this process: claim, heartbeat, deadline, outcome, drain."""
import json
import logging
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import gevent
from gevent import monkey
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from gevent.threadpool import ThreadPool

from webapp import commands, db, incidents, jobs, measure, quotas, workers
from webapp.errors import (
    AiUnavailable,
    AinoriError,
    Busy,
    DailyLimit,
    InsufficientPoints,
    LostFence,
    Refuse,
    SettingsError,
    StorageUnavailable,
    UpstreamUnavailable,
)
from webapp.kinds import JobContext, Upload, in_language

log = logging.getLogger(__name__)

# Work that is done is not thrown away because somebody has the file open in a browser tool.
WORK_PATIENCE_SECONDS = 600
PROGRESS_STORED_SECONDS = 0.25
# How far it is may be told later: the work does not wait for a locked file.
PROGRESS_PATIENCE_SECONDS = 0.1
RESULT_BYTES_MAX = 1_000_000
CLAIMS_AT_ONCE_MAX = 20
KILL_SECONDS = 1.0
# A drain waits this long for a claim under way, and for what it stopped to end.
CLAIM_LAST_SECONDS = 0.5
STOP_SECONDS = 1.5
STORE_SECONDS = 0.8
# A goodbye that cannot be stored is none: the lock file, dropped with the process, says the same.
GOODBYE_SECONDS = 0.5
CHUNK_BYTES = 128_000
LAG_LOOK_SECONDS = 0.05
# How an attempt can end; the last: it could not be stored how.
OUTCOMES = ("succeeded", "refused", "failed", "cancelled", "timed_out", "drained", "lost", "unstored")
ROWS_FILE = ".rows.jsonl"

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_threads = None  # for in_thread, made when first needed


class _Stop(BaseException):
    """Thrown into a running kind. No ``except Exception`` of a kind catches it."""

    def __init__(self, reason):
        self.reason = reason  # cancelled, timed_out, drained, lost
        super().__init__(reason)


class Attempt(JobContext):
    """One attempt at one job: what ``run`` is given as ``job``."""

    ai_available = False

    def __init__(self, job, kind, params, settings, upstream):
        self.id, self.user_id, self.attempt = job["id"], job["user_id"], job["attempt"]
        self.lang = (params.lang if "lang" in type(params).model_fields else None) or job["lang"]
        self.settings = settings
        self.rows_count = None
        self.reusable = True
        self.over = Event()        # it has returned, or is asked to stop
        self.stop_reason = None
        self._job, self._kind, self._params, self._upstream = job, kind, params, upstream
        self._stored_at, self._turn = {}, db.Turn()  # by stage

    def stop(self, reason):
        """Ask for the end of this attempt; its supervisor does the rest."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.over.set()

    # ------------------------------------------------------------------------ for the kind's run

    def step(self, name, fn):
        stored = jobs.step_output(self.id, name)
        if stored is None:
            stored = _json(fn(), f"the step {name!r}")
            _fenced(jobs.keep_step, self.id, self.attempt, name, stored)
        return json.loads(stored)

    def progress(self, stage, done=None, total=None, message=None):
        now = db.clock()
        if now - self._stored_at.get(stage, -PROGRESS_STORED_SECONDS) < PROGRESS_STORED_SECONDS:
            self._turn.pass_on()
            return
        self._stored_at[stage] = now
        fraction = min(max(done / total, 0.0), 1.0) if done is not None and total else 0.0
        note = {name: value for name, value in (("done", done), ("total", total), ("message", message))
                if value is not None}
        try:
            with db.patience(PROGRESS_PATIENCE_SECONDS):
                cancelled = _fenced(jobs.progress, self.id, self.attempt, stage, fraction, note)
        except (Busy, StorageUnavailable):
            self._stored_at[stage] = db.clock() + 1
            return
        if cancelled:
            raise _Stop("cancelled")

    def charge(self):
        _fenced(jobs.charge, self.id, self.attempt)

    def refund(self, reason):
        _fenced(jobs.refund, self.id, self.attempt, in_language(reason, self.lang))

    def ai(self, prompt, *, data, schema):
        raise AiUnavailable(reason="not_configured")

    def fetch(self, url, *, params=None, headers=None, cache_seconds=0, timeout_seconds=30, max_bytes=5_000_000,
              units=0):
        if units and self._kind.quota is None:
            raise ValueError(f"fetch with units needs a quota, which the kind {self._kind.name!r} does not declare")
        spent = 0

        def spend():
            nonlocal spent
            with db.patience(WORK_PATIENCE_SECONDS):
                quotas.spend(self._kind.quota, self.settings[self._kind.quota.setting], self.user_id, units)
            spent += units
        try:
            response = self._upstream.fetch(url, params=params, headers=headers, cache_seconds=cache_seconds,
                                            timeout_seconds=timeout_seconds, max_bytes=max_bytes,
                                            admit=spend if units else None)
        except (UpstreamUnavailable, DailyLimit) as failure:
            failure.units = spent
            raise
        return replace(response, units=spent)

    def quota_exhausted(self, answer):
        quota = self._kind.quota
        until = quotas.exhaust(quota, answer.asked_at)
        incidents.record("warning", "kinds", "QUOTA_EXHAUSTED", f"{quota.name}: nothing is asked before {until}")
        return until

    def incident(self, code, detail):
        incidents.record("critical", "kinds", code, f"{self._kind.name}: {detail}")

    def do_not_reuse(self):
        self.reusable = False

    def parallel(self, calls):
        def outcome(fn):
            gevent.getcurrent().write_patience_seconds = WORK_PATIENCE_SECONDS
            try:
                return fn()
            except BaseException as error:  # what is no Exception would end the greenlet, or the server
                if isinstance(error, _Stop):
                    self.stop(error.reason)
                return error
        greenlets = {name: gevent.spawn(outcome, fn) for name, fn in calls.items()}
        try:
            gevent.joinall(greenlets.values())
        finally:
            gevent.killall(greenlets.values())
        outcomes = {name: greenlet.value for name, greenlet in greenlets.items()}
        for value in outcomes.values():
            if isinstance(value, BaseException) and not isinstance(value, Exception):
                raise value
        return outcomes

    def open(self, upload):
        for name in type(self._params).model_fields:
            if getattr(self._params, name) == upload and isinstance(upload, Upload):
                return open(jobs.input_path(self.id, name), "rb")
        raise ValueError("job.open takes a file of this job's params")

    def save_file(self, name, data, media_type):
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name):
            raise ValueError(f"{name!r} is not a file name: letters, digits, . _ - (at most 100)")
        self._write_file(name, lambda file: file.write(data))
        _fenced(jobs.keep_file, self.id, self.attempt, name, media_type, len(data))

    def rows(self, rows):
        def write(file):
            count, chunk = 0, bytearray()
            for row in rows:
                line = row if isinstance(row, bytes) else _encode(dict(row)).encode("utf-8", "replace")
                chunk += line.rstrip(b"\n") + b"\n"
                count += 1
                if len(chunk) >= CHUNK_BYTES:
                    db.store.disk.apply(file.write, (bytes(chunk),))  # a full disk cache would stall the hub
                    chunk.clear()
                self._turn.pass_on()
            file.write(chunk)
            return count
        self.rows_count = self._write_file(ROWS_FILE, write)

    def in_thread(self, fn):
        global _threads
        if _threads is None:
            _threads = ThreadPool(4)
        return _threads.apply(fn)

    def run_command(self, args, *, on_line=None, cwd=None, input=None):
        return commands.run(args, on_line=on_line, cwd=cwd, input=input)

    def _write_file(self, name, write):
        """Whole or not at all, durable, under the final name only when complete."""
        folder = files_folder(self.id)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{name}.{self.attempt}"
        try:
            with unfinished.open("wb") as file:
                returned = write(file)
                file.flush()
                db.store.disk.apply(os.fsync, (file.fileno(),))
            unfinished.rename(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
        return returned


def files_folder(job_id) -> Path:
    return db.store.path.parent / "files" / job_id


def rows_path(job):
    """The file with the rows that a job left, one JSON text a line, or ``None`` if there are none."""
    path = files_folder(job["id"]) / ROWS_FILE
    return path if job["rows_count"] is not None and path.is_file() else None


class Runner:
    """This process as a worker. ``start`` registers it; ``drain`` ends it."""

    def __init__(self, kinds, settings, upstream):
        self.kinds, self.settings, self.upstream = kinds, settings, upstream
        self.attempts = {}   # (job id, attempt) -> Attempt: one that lost its fence may end beside its successor
        # Since this process began, for the metrics.
        self.ended = Counter()  # attempts, by (kind, outcome)
        self.durations = {}     # kind -> Histogram
        self.lag = measure.HubLag()
        self._supervisors = {}  # greenlet -> the job it runs
        self._working = Event()
        self._loops = []
        self._drained = None
        self._claiming = BoundedSemaphore(1)

    def start(self, role="server"):
        """Take the lock file, insert the workers row; claims begin with ``begin``."""
        if not monkey.is_module_patched("threading"):
            raise SettingsError("gevent must be patched in before anything else: start with `gunicorn wsgi:app`.")
        if db.store.pid != os.getpid():
            raise SettingsError("The database was opened before this process was forked: start without --preload.")
        return workers.start(self.settings.folder / "workers", role)

    def begin(self):
        """Claim what is pending from now on."""
        self._loops = [gevent.spawn(self._claim_loop), gevent.spawn(self._heartbeat_loop), gevent.spawn(self._lag_loop)]
        jobs.signals.pending.set()

    def begin_one(self, job):
        """Run this one job, claimed already, and claim nothing else: a command that works for itself."""
        self._loops = [gevent.spawn(self._heartbeat_loop)]
        self._set_going(job)

    # ------------------------------------------------------------------------------------- loops

    def _claim_loop(self):
        while True:
            jobs.signals.pending.wait()
            jobs.signals.pending.clear()
            try:
                while self.claim_some():
                    pass
            except Exception as error:
                log.warning("could not claim: %s", error)
                gevent.sleep(1)
                jobs.signals.pending.set()

    def claim_some(self):
        """Claim as many as there are free slots, and set them going. Returns how many."""
        with self._claiming:
            free = min(self.settings.max_running_jobs - len(self._supervisors), CLAIMS_AT_ONCE_MAX)
            if free <= 0 or jobs.signals.draining or not jobs.any_pending():  # an empty claim would commit
                return 0
            claimed = jobs.claim(workers.current.id, self.kinds, free)
            for job in claimed:
                self._set_going(job)
            return len(claimed)

    def _set_going(self, job):
        supervisor = gevent.spawn(self.run, job)
        self._supervisors[supervisor] = job
        self._working.set()
        supervisor.link(self._gone)

    def _gone(self, supervisor):
        self._supervisors.pop(supervisor, None)
        if not self._supervisors:
            self._working.clear()
        jobs.signals.pending.set()

    def _heartbeat_loop(self):
        while True:
            self._working.wait()  # no timer while there is nothing to do
            try:
                self.beat()
            except Exception as error:
                log.warning("could not beat: %s", error)
            gevent.sleep(self.settings.heartbeat_seconds)

    def _lag_loop(self):
        while True:
            self._working.wait()  # no timer while there is nothing to do
            due = db.clock() + LAG_LOOK_SECONDS
            gevent.sleep(LAG_LOOK_SECONDS)
            if self._supervisors:
                self.lag.add(max(0, db.clock() - due), self._supervisors.values())

    def beat(self):
        """Say that this worker lives; hear of cancellations and lost fences from other processes."""
        jobs.beat(workers.current.id)
        if workers.current.keep_lock():
            log.warning("the lock file %s was gone and is put back", workers.current.path)
        ours = {row["id"]: row for row in db.rows(
            "SELECT id, attempt, cancel_requested_at FROM jobs WHERE worker_id = ?", (workers.current.id,))}
        for (job_id, number), attempt in list(self.attempts.items()):
            row = ours.get(job_id)
            if row is None or row["attempt"] != number:
                attempt.stop("lost")
            elif row["cancel_requested_at"] is not None:
                attempt.stop("cancelled")

    # ----------------------------------------------------------------------------------- attempts

    def run(self, job):
        """Run one claimed job to its outcome and store it. Every ending passes here."""
        gevent.getcurrent().write_patience_seconds = WORK_PATIENCE_SECONDS
        key, began, outcome = (job["id"], job["attempt"]), db.clock(), "unstored"
        try:
            outcome, facts = self._outcome(job)
            workers.current.ended.add(key)
            self._store_end(job, outcome, facts)
        except LostFence:
            outcome = "lost"  # somebody else has judged it: nothing more of ours may be written
        except Exception:
            # It could not be stored how it ended. Whoever looks next finds a running row without an
            # attempt in this process, and reaps it: the truth, if later.
            outcome = "unstored"
            log.exception("the end of %s could not be stored", job["number"])
        finally:
            workers.current.attempts.discard(key)
            workers.current.ended.discard(key)
            self.ended[job["kind"], outcome] += 1
            self.durations.setdefault(job["kind"], measure.Histogram(.1, .5, 1, 5, 15, 60, 180, 600)).add(
                db.clock() - began)

    def _outcome(self, job):
        """``(outcome, facts)``; outcome: succeeded, refused, failed, cancelled, timed_out, drained, lost."""
        kind = self.kinds[job["kind"]]
        try:
            params = kind.params.model_validate_json(job["params"])
        except Exception:  # whatever a kind's own checks do with params of another version
            return "refused", {"code": "KIND_GONE"}
        attempt = Attempt(job, kind, params, self.settings.for_kind(kind), self.upstream)
        self.attempts[job["id"], job["attempt"]] = attempt
        stopper = jobs.signals.stoppers[job["id"]] = lambda: attempt.stop("cancelled")
        working = gevent.spawn(_work, kind, attempt, params)
        working.rawlink(lambda _: attempt.over.set())
        try:
            attempt.over.wait(timeout=job["timeout_seconds"])
            if not working.ready():
                reason = attempt.stop_reason or "timed_out"
                working.kill(_Stop(reason), timeout=KILL_SECONDS)
                return reason, {}
            return working.value
        finally:
            working.kill(block=False)
            del self.attempts[job["id"], job["attempt"]]
            if jobs.signals.stoppers.get(job["id"]) is stopper:
                del jobs.signals.stoppers[job["id"]]

    def _store_end(self, job, outcome, facts):
        """Store how it ended, trying again for as long as the disk refuses: what is true does not change by that."""
        ends, pause = db.clock() + WORK_PATIENCE_SECONDS, 0.05
        while True:
            try:
                return self._finish(job, outcome, dict(facts))
            except StorageUnavailable:
                if db.clock() > ends:  # a result may be too large for what room there is; this is small
                    return self._finish(job, "refused", {"code": StorageUnavailable.code})
            gevent.sleep(pause)
            pause = min(2 * pause, jobs.END_RETRY_SECONDS)

    def _finish(self, job, outcome, facts):
        job_id, attempt = job["id"], job["attempt"]
        if outcome == "succeeded":
            jobs.succeed(job_id, attempt, **facts)
            if self.kinds[job["kind"]].upload_field:
                jobs.forget_inputs(job)
            return
        if outcome == "lost":
            return
        if outcome == "drained":
            after = jobs.release(job_id, attempt, self.settings.releases_max)
        elif outcome == "timed_out":
            after = jobs.time_out(job_id, attempt)
        elif outcome == "cancelled":
            after = jobs.fail(job_id, attempt, "CANCELLED")
        else:
            if outcome == "failed":
                incidents.record("warning", "runner", "INTERNAL_ERROR", facts.pop("detail"), job_id, job["user_id"])
            after = jobs.fail(job_id, attempt, facts.pop("code"), facts)
        if after["settlement"] == "due":
            jobs.settle(job_id)

    # --------------------------------------------------------------------------------------- drain

    def drain(self):
        """Running work gets ``DRAIN_SECONDS``, then is given back or failed and settled. Once; later
        callers wait for the first. An optimisation: SIGKILL instead ends in the same books."""
        jobs.signals.draining = True
        if self._drained is None:
            self._drained = gevent.spawn(self._drain)
        self._drained.join()

    def _drain(self):
        ends = db.clock() + self.settings.drain_seconds
        with gevent.Timeout(CLAIM_LAST_SECONDS, False), self._claiming:
            pass  # what was being claimed when the drain began is set going, to be drained too
        gevent.joinall(list(self._supervisors), timeout=max(0, ends - db.clock()))
        ends = db.clock() + STOP_SECONDS
        while self._supervisors and db.clock() < ends:
            for attempt in list(self.attempts.values()):  # also one that has only just begun
                attempt.stop("drained")
            gevent.joinall(list(self._supervisors), timeout=0.05)
            if not self.attempts:  # all that is left is storing how they ended, and a locked file may stay locked
                ends = min(ends, db.clock() + STORE_SECONDS)
        gevent.killall(self._loops)
        if not self._supervisors and workers.current is not None:
            try:
                with db.patience(GOODBYE_SECONDS):
                    workers.stop()
            except (Busy, StorageUnavailable) as error:
                log.warning("left without a goodbye: %s", error)


def _work(kind, attempt, params):
    """Call the kind; what came of it as ``(outcome, facts)``."""
    gevent.getcurrent().write_patience_seconds = WORK_PATIENCE_SECONDS
    try:
        result = _json(kind.run(attempt, params), "the result")
        return "succeeded", {"result": result, "rows_count": attempt.rows_count, "reusable": attempt.reusable}
    except _Stop as stop:
        return stop.reason, {}
    except Refuse as refusal:
        return "refused", {**refusal.facts, "code": refusal.code, "message": refusal.message}
    except (InsufficientPoints, UpstreamUnavailable, AiUnavailable, DailyLimit, Busy, StorageUnavailable) as error:
        return "refused", {**error.facts, "code": error.code}
    except OSError as error:
        if db.is_disk(error):
            return "refused", {"code": db.refused_by_the_disk(error).code}
        return "failed", _bug(kind, error)
    except BaseException as error:  # sys.exit() too: in a greenlet it would end the server
        return "failed", _bug(kind, error)


def _bug(kind, error):
    """What the operator reads of a kind's bug: its name and the kind's own line, not what it says (it may
    hold what nobody should read)."""
    log.error("%s failed", kind.name, exc_info=error)
    trace, own, place = error.__traceback__, None, "?"
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f"{Path(file).name}:{trace.tb_lineno}"
        if kind.home is not None and file != __file__ and Path(file).is_relative_to(kind.home):
            own = place
        trace = trace.tb_next
    detail = str(error) if isinstance(error, AinoriError) else type(error).__name__
    return {"code": "INTERNAL_ERROR", "detail": f"{kind.name}: {detail} at {own or place}"}


def _fenced(verb, *args):
    """What an attempt writes; a lost fence stops the kind in a way that no ``except Exception`` catches."""
    try:
        return verb(*args)
    except LostFence as lost:
        raise _Stop("cancelled" if lost.facts.get("cancelled") else "lost") from None


def _json(value, what):
    text = _encode(value)
    # Lone surrogates cannot be stored; what they stood for was not text to begin with.
    text = text.encode("utf-8", "replace").decode()
    if len(text.encode()) > RESULT_BYTES_MAX:
        raise ValueError(f"{what} is larger than {RESULT_BYTES_MAX} bytes: keep rows and files apart")
    return text
