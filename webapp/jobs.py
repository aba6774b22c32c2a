"""The state machine of a job: every change of a job's state is a verb of this file.

    submit ──▶ pending ──claim──▶ running ──▶ succeeded
                   ▲                 │ ├────▶ failed ──settle──▶ settled | unknown
                   └──── release ────┘

``(id, attempt)`` is the fence: whatever an attempt writes, it writes ``WHERE id = ? AND attempt = ?
AND status = 'running'``. Nothing returned means that the job is no longer its own (``LostFence``):
stop, write nothing.
"""
import hashlib
import json
import logging
import os
import re
import secrets
import sqlite3
import statistics
import time
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import gevent
from gevent.event import Event
from pydantic import ValidationError

from webapp import commands, db, incidents, ledger, quotas, workers
from webapp.errors import (
    AinoriError,
    AlreadyFinal,
    Busy,
    CommandFailed,
    IdempotencyKeyReused,
    InvalidInput,
    JobInFlight,
    KindFailed,
    KindPaused,
    InsufficientPoints,
    LoginRequired,
    LostFence,
    MoneyDiffers,
    NotFound,
    NotRetryable,
    PriceDiffers,
    QueueFull,
    ShuttingDown,
    StorageUnavailable,
)
from webapp.kinds import InputContext, Kind, Upload
from webapp.models import Job, JobWatcher

log = logging.getLogger(__name__)

NOW = db.NOW
LOOKUP_FAILED = "REAP_CONSUME_LOOKUP_FAILED"
IN_FLIGHT = ("pending", "running")
# What a verb needs of a row it has changed: not params and result, which may be large.
_CORE = ("id, number, kind, user_id, status, attempt, attempts_spent, releases, on_interrupt, cost, worker_id, "
         "cancel_requested_at, stopped_by, settlement, error_code")
# How it ends where that was asked for: by whom decides about its points (``settling``).
STOPPED, CANCELLED = "STOPPED", "CANCELLED"
_ASKED_END = f"CASE WHEN stopped_by IS NOT NULL THEN '{STOPPED}' ELSE '{CANCELLED}' END"
STALE_SECONDS_DEFAULT = 30.0
INPUT_KEPT_HOURS = 24
# Of what is wrong with a request: anybody can send a megabyte of fields that do not exist.
PROBLEMS_TOLD_MAX = 50
# What a poll or a reap waits for the write lock: the poll then answers what is stored.
POLL_PATIENCE_SECONDS = 0.25
# A worker that could not store how its work ended tries at least this often, and whoever finds it overdue lets
# it go first for twice as long.
END_RETRY_SECONDS = 1.0
# What 'usually' goes by: the newest successes of a kind, among so many of any kind.
USUAL_OF_LEAST, USUAL_OF_MOST, USUAL_LOOK_BACK_JOBS = 3, 20, 1000
_encode = json.JSONEncoder(ensure_ascii=False).encode
_encode_params = json.JSONEncoder(sort_keys=True, ensure_ascii=False, allow_nan=False).encode
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U


class Signals:
    """In-process wake-ups, set when a change is on disk. They only save time: the table is the truth."""

    def __init__(self):
        self.pending = Event()    # something may be claimed
        self.watch = Event()      # something is in flight or due: the recovery scheduler must be awake
        self.listeners = {}       # job id -> set of Events: somebody follows this job live
        self.stoppers = {}        # job id -> function that stops its attempt in this process
        self.starting = False     # this process serves, but could not recover yet: it judges nobody
        self.draining = False     # this process is shutting down: nothing new is accepted
        self.stale_seconds = STALE_SECONDS_DEFAULT

    def changed(self, job_id):
        for event in self.listeners.get(job_id, ()):
            event.set()


signals = Signals()

# What this process has done since it began, for the metrics.
interrupted = Counter()      # attempts that did not end by themselves, by (kind, reason, the job's status after)
points_returned = Counter()  # by settling, by kind


# ---------------------------------------------------------------------------------- identifiers

def new_id():
    """Sorts by time (within this process even two of one millisecond, and when the clock is set back), cannot
    be guessed: 48 bits of milliseconds, 80 of chance, as ULID does."""
    global _newest
    number = (int(time.time() * 1000) << 80) | secrets.randbits(80)
    if number >> 80 <= _newest >> 80:
        number = _newest + 1 + secrets.randbits(64)
    _newest = number
    return _base32(number, 26).lower()


_newest = 0


def new_number():
    """What a person reads out to support: eight characters that are not mistaken for others."""
    text = _base32(secrets.randbits(40), 8)
    return f"{text[:4]}-{text[4:]}"


def _base32(number, digits):
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(5 * digits - 5, -1, -5))


# --------------------------------------------------------------------------------------- submit

@dataclass(frozen=True)
class Asker:
    """Who asks: ``user_id``, whether it is a guest, and the language of the answer."""

    user_id: int
    is_guest: bool
    lang: str = "en"


@dataclass
class Received:
    """An uploaded file on its way in: already written to ``path``, not yet anybody's."""

    path: Path
    upload: Upload


@dataclass(frozen=True)
class Order:
    """A checked request for work, as the ladder takes it."""

    kind: Kind
    asker: Asker
    params: str
    params_hash: str
    cost: int
    share_key: str | None
    exclusive_key: str | None
    quota: tuple | None = None  # of the service it will ask, and its cap
    idempotency_key: str | None = None
    retry_of: str | None = None
    id: str = field(default_factory=new_id)
    number: str = field(default_factory=new_number)


@dataclass(frozen=True)
class Submission:
    """``outcome``: ``new``, ``joined``, ``cached`` (a finished result) or ``repeated`` (same key). ``job``: the
    row of a new one."""

    job_id: str
    outcome: str
    job: object = None


def parse(kind, raw, files=()):
    """The params as the kind's model, from JSON values or form texts. Raises ``InvalidInput``, ``KindFailed``.

    ``files``: ``{field: Received}``.
    """
    values, files = dict(raw), dict(files)
    for name in files.keys() - set(kind.upload_fields):  # a part's name makes a path: only names of ours
        raise InvalidInput([{"field": name, "type": "extra_forbidden", "facts": {}, "message": "no such field"}])
    for name in kind.upload_fields:
        if isinstance(values.get(name), dict):  # a description of a file that nobody received
            raise InvalidInput([{"field": name, "type": "model_type", "facts": {}, "message": "not a file"}])
    for name, received in files.items():
        values[name] = received.upload.model_dump()
    return _said(kind, "params", _validated, kind, values)


def _validated(kind, values):
    try:
        return kind.params.model_validate(values)
    except ValidationError as error:
        raise InvalidInput([
            {"field": ".".join(str(part) for part in problem["loc"]) or (kind.upload_field or ""),
             "type": "model_type" if problem["loc"][:1] and problem["loc"][0] in kind.upload_fields
             and problem["type"] == "missing" else problem["type"], "message": problem["msg"],
             "facts": {name: value if isinstance(value, (str, int, float)) else str(value)
                       for name, value in problem.get("ctx", {}).items()}}
            for problem in error.errors(include_url=False, include_input=False)[:PROBLEMS_TOLD_MAX]]) from None


def order(kind, params, asker, *, settings, files=(), idempotency_key=None, retry_of=None, shown_price=None):
    """Check the request in all that needs no transaction. ``shown_price``: what a page said it costs, as text.

    Raises ``LoginRequired``, ``PriceDiffers``, the kind's refusal, or ``KindFailed``.
    """
    cost = _said(kind, "cost", _price, kind, params)
    if cost > 0 and asker.is_guest:
        raise LoginRequired(cost=cost)
    if shown_price is not None and cost > 0 and shown_price != str(cost):
        raise PriceDiffers(cost=cost)
    text = _storable(params)
    if kind.check is not None:
        _said(kind, "check", kind.check, _Check(asker.lang, settings, dict(files)), params)
    share_key = _said(kind, "share_key", kind.share_key, params) if kind.share_key else None
    metered = kind.quota is not None and _said(kind, "quota", kind.quota.used, params)
    return Order(
        kind=kind, asker=asker, params=text, params_hash=_hash(kind.name, text), cost=cost,
        share_key=None if share_key is None else _hash(kind.name, str(share_key)),
        exclusive_key=exclusive_key(kind, asker.user_id),
        quota=(kind.quota, settings[kind.quota.setting]) if metered else None,
        idempotency_key=idempotency_key, retry_of=retry_of)


def _said(kind, name, function, *args):
    """What a function of the kind's own says. Its bug is the operator's affair: an incident, and ``KindFailed``."""
    try:
        return function(*args)
    except Exception as error:
        if isinstance(error, AinoriError) and not isinstance(error, CommandFailed):
            raise
        if isinstance(error, OSError) and db.is_disk(error):
            raise
        log.exception("the kind %s failed in its %s", kind.name, name)
        incidents.record("warning", "kinds", "KIND_FAILED", f"{kind.name}: {type(error).__name__} in its {name}")
        raise KindFailed(kind=kind.name) from error


def _price(kind, params):
    cost = kind.cost(params) if callable(kind.cost) else kind.cost
    if not isinstance(cost, int) or not 0 <= cost <= ledger.POINTS_MAX:
        raise TypeError(f"the cost of {kind.name!r} must be a whole number of points from 0 to {ledger.POINTS_MAX}, not {cost!r}")
    return cost


def _storable(params):
    try:
        text = _encode_params(params.model_dump(mode="json"))
        text.encode()
    except ValueError:  # endless numbers, halves of characters
        raise InvalidInput([{"field": "", "type": "not_storable", "facts": {}, "message": {
            "en": "It holds a number or a character that cannot be stored.",
            "ja": "保存できない数値または文字が含まれています。"}}]) from None
    return text


def submit(order, *, max_pending, files=()):
    """Accept the order, or refuse it and store nothing. When this returns, it is on disk.

    The ladder: the idempotency key's job · a fresh result · join · in flight (``JobInFlight``) ·
    available balance (``InsufficientPoints``) · limits (``KindPaused``, ``DailyLimit``, ``QueueFull``) · insert.
    """
    if signals.draining:
        raise ShuttingDown()
    kept = []
    try:
        for name, received in dict(files).items():
            kept.append(input_path(order.id, name))
            _keep_input(kept[-1], received)
        if order.exclusive_key is not None or order.share_key is not None:
            let_the_living_end([way for way in [_in_the_way(order)] if way and _in_doubt(way)])
        try:
            submission = _climb(order, max_pending)
        except InsufficientPoints:
            if not look_after(order.asker.user_id):
                raise
            submission = _climb(order, max_pending)
    except Exception:  # refused. Who was merely stopped while waiting leaves a verb behind that still runs
        _forget_files(kept)
        raise
    if submission.outcome != "new":
        _forget_files(kept)
    return submission


def preview(order):
    """What ``submit`` would answer, storing nothing: ``{in_flight_job_id, would_join, cached, reasons}``."""
    found = {"in_flight_job_id": None, "would_join": False, "cached": False, "reasons": []}
    if signals.draining:
        found["reasons"].append(ShuttingDown.code)
    if _fresh(order):
        return {**found, "cached": True}
    way = _in_the_way(order)
    if way is not None and _in_doubt(way):
        poll(way["id"])
        way = _in_the_way(order)
    if way is not None:
        found["in_flight_job_id"] = way["id"]
        shared = order.share_key is not None and way["share_key"] == order.share_key
        found["would_join"] = shared and way["cancel_requested_at"] is None
        if not found["would_join"]:
            found["reasons"].append(Busy.code if shared else JobInFlight.code)
    elif order.cost > ledger.available(order.asker.user_id):
        found["reasons"].append(InsufficientPoints.code)
    elif order.kind.name in pauses():
        found["reasons"].append(KindPaused.code)
    elif limit := _over_allowance(order):
        found["reasons"].append(limit.code)
        found["retry_at"] = limit.facts["retry_at"]
    return found


@db.verb
def _climb(order, max_pending):
    return _repeated(order) or _cached(order) or _insert(order, max_pending)


def _repeated(order):
    if order.idempotency_key is None:
        return None
    row = db.one("SELECT job_id, request_hash FROM job_watchers WHERE user_id = ? AND idempotency_key = ?",
                 (order.asker.user_id, order.idempotency_key))
    if row is None:
        return None
    if row["request_hash"] != order.params_hash:
        raise IdempotencyKeyReused(job_id=row["job_id"])
    return Submission(row["job_id"], "repeated")


def _fresh(order):
    if order.share_key is None or not order.kind.cache_seconds:
        return None
    return db.one(
        "SELECT id FROM jobs WHERE kind = ? AND share_key = ? AND status = 'succeeded' AND result IS NOT NULL AND reusable "
        f"AND finished_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) AND finished_at <= {NOW} "  # no clock set back
        "ORDER BY finished_at DESC LIMIT 1",
        (order.kind.name, order.share_key, f"-{order.kind.cache_seconds} seconds"))


def _cached(order):
    row = _fresh(order)
    if row is None:
        return None
    _watch(row["id"], order)
    return Submission(row["id"], "cached")


def _insert(order, max_pending):
    if db.value("SELECT deleted_at FROM users WHERE id = ?", (order.asker.user_id,)):
        raise LoginRequired(cost=order.cost)  # deleted while the request was under way
    # The indexes decide: insert, and when nothing came back look at what is in the way. An orphan
    # in the way is reaped, not joined; then the way may be free.
    while not (inserted := _inserted(order)):
        way = _in_the_way(order)
        if way is None or _judge(way):
            continue
        if order.share_key is not None and way["share_key"] == order.share_key:
            if way["cancel_requested_at"] is not None:
                raise Busy(reason="cancelling")  # nobody rides along on what is just being ended
            _watch(way["id"], order)
            _event(way, "joined")
            return Submission(way["id"], "joined")
        raise JobInFlight(job_id=way["id"])
    # From here on a refusal undoes the insert with the savepoint of this verb.
    if order.cost > 0:
        available = ledger.available(order.asker.user_id, except_job=order.id)
        if order.cost > available:
            raise InsufficientPoints(cost=order.cost, balance=available)
    _refuse_paused(order.kind.name)
    if limit := _over_allowance(order):
        raise limit
    if db.value("SELECT count(*) FROM jobs WHERE status = 'pending'") > max_pending:
        raise QueueFull(max_pending=max_pending)
    db.execute(_WATCH, (order.id, order.asker.user_id, order.idempotency_key, order.params_hash))
    if order.retry_of is not None:
        db.execute("INSERT INTO job_steps (job_id, name, output, attempt) "
                   "SELECT ?, name, output, 0 FROM job_steps WHERE job_id = ?", (order.id, order.retry_of))
    _event({"id": order.id, "attempt": 0}, "submitted", cost=order.cost)
    db.after_commit(_wake)
    return Submission(order.id, "new", inserted[0])


# Each half says it all, so that each is found by the index that it names the law of.
_IN_THE_WAY = ("((status IN ('pending', 'running') AND exclusive_key = ?) "
               "OR (status IN ('pending', 'running') AND kind = ? AND share_key = ?))")


def _inserted(order):
    kind = order.kind
    return db.execute(
        "INSERT INTO jobs (id, number, kind, user_id, cost, share_key, exclusive_key, on_interrupt, max_attempts, "
        "timeout_seconds, lang, params, params_hash, retry_of) SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? "
        f"WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE {_IN_THE_WAY}) ON CONFLICT DO NOTHING RETURNING *",
        (order.id, order.number, kind.name, order.asker.user_id, order.cost, order.share_key, order.exclusive_key,
         kind.on_interrupt, kind.attempts_max, kind.timeout_seconds, order.asker.lang, order.params,
         order.params_hash, order.retry_of, order.exclusive_key, kind.name, order.share_key))


def _in_the_way(order):
    """One INSERT that breaks two unique indexes names either: so look, the one to join first."""
    return db.one(
        f"SELECT * FROM jobs WHERE {_IN_THE_WAY} ORDER BY share_key IS NOT ? LIMIT 1",
        (order.exclusive_key, order.kind.name, order.share_key, order.share_key))


_WATCH = ("INSERT INTO job_watchers (job_id, user_id, idempotency_key, request_hash) VALUES (?, ?, ?, ?) "
          "ON CONFLICT DO NOTHING")


def _watch(job_id, order):
    user_id = order.asker.user_id
    db.execute(_WATCH, (job_id, user_id, order.idempotency_key, order.params_hash))
    db.execute("UPDATE job_watchers SET left_at = NULL WHERE job_id = ? AND user_id = ?", (job_id, user_id))


def _wake():
    signals.pending.set()
    signals.watch.set()


# ----------------------------------------------------------------------------------------- pauses

@db.verb
def pause_kind(kind, by, note=None):
    """Let this kind take nothing new until ``resume_kind``: what is in flight goes on, and is still joined, and what
    is fresh still served. ``note``: why, in words for users. Paused already, it has the new note."""
    db.execute("INSERT INTO kind_pauses (kind, paused_by, note) VALUES (?, ?, ?) ON CONFLICT (kind) DO UPDATE "
               "SET paused_by = excluded.paused_by, note = excluded.note", (kind, by, (note or "").strip() or None))


@db.verb
def resume_kind(kind):
    """Let this kind take new work again. Returns whether it was paused."""
    return bool(db.execute("DELETE FROM kind_pauses WHERE kind = ? RETURNING kind", (kind,)))


def pauses():
    """``{kind: row}`` of the kinds that take nothing new: ``paused_by``, ``note`` (or ``None``), ``created_at``."""
    return {row["kind"]: row for row in db.rows("SELECT * FROM kind_pauses")}


def _over_allowance(order):
    """The ``DailyLimit`` of the metered service that this will ask, or ``None``."""
    if order.quota is None:
        return None
    quota, cap = order.quota
    return quotas.standing(quota, cap).refusal(order.asker.is_guest, quota.least)


def _refuse_paused(kind):
    paused = pauses().get(kind)
    if paused is not None:
        raise KindPaused(kind=kind, note=paused["note"])


# ------------------------------------------------------------------------------------ an attempt

@db.verb
def claim(worker_id, kinds, most=1, job_id=None):
    """Take up to ``most`` of the oldest pending jobs for this worker: running, attempt + 1, a deadline.

    ``job_id``: that one or none. Returns their rows. After an abrupt death the recovered attempts run
    one at a time, so that a poison input does not take innocent ones along again.
    """
    claimed = []
    _follow_clock(worker_id)  # before a deadline of the clock as it is now is written
    while len(claimed) < most and not signals.draining:  # asked for before the drain, and run after it began
        job = _claim_oldest(worker_id, json.dumps(list(kinds)), job_id)
        if job is None:
            break
        claimed.append(job)
    return claimed


def _claim_oldest(worker_id, kinds, job_id):
    found = db.execute(
        f"UPDATE jobs SET status = 'running', attempt = attempt + 1, worker_id = ?, "
        f"started_at = coalesce(started_at, {NOW}), stage = NULL, progress = 0, progress_note = NULL, "
        "deadline_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', timeout_seconds || ' seconds') "
        "WHERE status = 'pending' AND id = (SELECT id FROM jobs WHERE status = 'pending' "
        "AND id = coalesce(?, id) AND kind IN (SELECT value FROM json_each(?)) AND (attempts_spent = 0 OR NOT EXISTS ("
        "SELECT 1 FROM jobs other WHERE other.status = 'running' AND other.attempts_spent > 0)) "
        "ORDER BY created_at, id LIMIT 1) RETURNING *",
        (worker_id, job_id, kinds))
    if not found:
        return None
    job = found[0]
    _event(job, "claimed", worker=worker_id)
    if workers.current is not None and workers.current.id == worker_id:
        # At once, for the next verb of this group: a running row of ours that is not in here counts as
        # orphaned. (If this is undone, an attempt that never began stays in the set and means nothing.)
        if not workers.current.attempts:
            workers.beat(worker_id)  # it was idle, and idle workers do not beat
        workers.current.attempts.add((job["id"], job["attempt"]))
    return job


@db.verb
def beat(worker_id):
    """Say that this worker lives. If the wall clock was set, the deadlines of what it runs move along."""
    _follow_clock(worker_id)
    workers.beat(worker_id)


def _follow_clock(worker_id):
    """The work has had no less and no more time because a clock was set."""
    seconds = workers.jump_seconds(worker_id, alive=True)
    if not seconds:
        return
    moved = db.execute("UPDATE jobs SET deadline_at = strftime('%Y-%m-%dT%H:%M:%fZ', deadline_at, ?) "
                       f"WHERE worker_id = ? AND status = 'running' RETURNING {_CORE}",
                       (f"{seconds:.3f} seconds", worker_id))
    for job in moved:
        _event(job, "deadline_moved", reason="clock_set", seconds=round(seconds, 1))
    db.execute("UPDATE workers SET clock = round(clock + ?, 1) WHERE id = ?", (seconds, worker_id))
    workers.beat(worker_id)  # the time of the last one is of the clock as it was
    db.after_commit(lambda: log.warning("the clock was set by %+.1f s: the deadlines of %s running jobs move along",
                                        seconds, len(moved)))


def _fenced(job_id, attempt, assignments, *values):
    """Update a job that is still this attempt's, and return its row; ``LostFence`` if it is not."""
    found = db.execute(f"UPDATE jobs SET {assignments} WHERE id = ? AND attempt = ? AND status = 'running' "
                       f"RETURNING {_CORE}", (*values, job_id, attempt))
    if not found:
        raise LostFence(job_id=job_id, attempt=attempt)
    return found[0]


def _fence(job_id, attempt):
    """The row of a job that is still this attempt's: a look is enough, for nobody else writes within a verb."""
    job = db.one(f"SELECT {_CORE} FROM jobs WHERE id = ? AND attempt = ? AND status = 'running'", (job_id, attempt))
    if job is None:
        raise LostFence(job_id=job_id, attempt=attempt)
    return job


@db.verb
def progress(job_id, attempt, stage, fraction, note):
    """Store how far it is. Returns whether a cancellation has been requested."""
    note = _encode(note)
    job = _fenced(job_id, attempt, "stage = ?, progress = ?, progress_note = ?", stage, fraction, note)
    seq = _event(job, "progress", stage=stage, progress=fraction, note=json.loads(note))
    # When a stage began and how far it is are enough to tell the story; sequence numbers are never reused.
    db.execute("DELETE FROM job_events WHERE job_id = ?1 AND seq < ?2 AND event = 'progress' AND attempt = ?3 "
               "AND data ->> 'stage' = ?4 AND seq > (SELECT min(seq) FROM job_events WHERE job_id = ?1 "
               "AND event = 'progress' AND attempt = ?3 AND data ->> 'stage' = ?4)", (job_id, seq, attempt, stage))
    return job["cancel_requested_at"] is not None


@db.verb
def charge(job_id, attempt):
    """Consume the quoted cost, once over all attempts. Returns whether points were consumed now.

    Raises ``InsufficientPoints``; ``LostFence``, also when a cancellation was requested before.
    """
    job = _fence(job_id, attempt)
    if job["cost"] == 0 or ledger.consumed(job_id) is not None:
        return False
    if job["cancel_requested_at"] is not None:
        raise LostFence(job_id=job_id, cancelled=True)
    balance = ledger.consume(job["user_id"], job_id, job["cost"])
    _event(job, "charged", points=job["cost"], balance=balance)
    return True


@db.verb
def refund(job_id, attempt, reason):
    """Return what was charged while the job goes on. Returns the points returned now."""
    job = _fence(job_id, attempt)
    points = ledger.refund(job_id, reason)
    if points:
        _event(job, "refunded", points=points, balance=ledger.balance(job["user_id"]))
    return points


@db.verb
def keep_step(job_id, attempt, name, output):
    """Store a finished step's output (JSON text): a retry does not repeat it."""
    job = _fence(job_id, attempt)
    db.execute("INSERT INTO job_steps (job_id, name, output, attempt) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
               (job_id, name, output, attempt))
    _event(job, "step", name=name)


def step_output(job_id, name):
    """The stored output of a finished step, as JSON text, or ``None``."""
    return db.value("SELECT output FROM job_steps WHERE job_id = ? AND name = ?", (job_id, name))


@db.verb
def keep_file(job_id, attempt, name, media_type, size_bytes):
    """Record a file that lies in ``files/<job_id>/`` already."""
    _fence(job_id, attempt)
    db.execute("INSERT INTO job_files (job_id, name, media_type, size_bytes) VALUES (?, ?, ?, ?) "
               "ON CONFLICT (job_id, name) DO UPDATE SET media_type = excluded.media_type, "
               "size_bytes = excluded.size_bytes", (job_id, name, media_type, size_bytes))


@db.verb
def succeed(job_id, attempt, result, rows_count=None, reusable=True):
    """Finish with ``result`` (JSON text): status, result and the last event in one transaction. What the steps had
    kept for another attempt goes. ``reusable``: whether later askers may be given it."""
    job = _fenced(job_id, attempt,
                  f"status = 'succeeded', progress = 1, result = ?, rows_count = ?, reusable = ?, finished_at = {NOW}, "
                  "worker_id = NULL, deadline_at = NULL", result, rows_count, int(reusable))
    db.execute("DELETE FROM job_steps WHERE job_id = ?", (job_id,))
    _ended(job, "succeeded")


@db.verb
def fail(job_id, attempt, code, facts=None):
    """End in failure, and return the row. What happened to the points is not said here: ``settle`` comes next."""
    job = _fenced(job_id, attempt,
                  "status = 'failed', settlement = 'due', "
                  "error_facts = CASE WHEN cancel_requested_at IS NULL THEN ? ELSE '{}' END, "
                  f"error_code = CASE WHEN cancel_requested_at IS NULL THEN ? ELSE {_ASKED_END} END, "
                  f"finished_at = {NOW}, worker_id = NULL, deadline_at = NULL",
                  _encode(facts or {}), code)
    _ended(job, "failed", code=job["error_code"])
    return job


@db.verb
def release(job_id, attempt, releases_max):
    """Give the job back unharmed (this server is shutting down): pending again, no attempt spent.

    A kind that may not be repeated, a standing cancellation, or too many releases make it an
    interruption like any other. Returns the job's row.
    """
    job = _fenced(job_id, attempt, "releases = releases + 1")
    if (job["on_interrupt"] == "fail" or job["cancel_requested_at"] is not None or job["releases"] > releases_max):
        return _interrupt(job, "INTERRUPTED", "drained", "attempt = ?", (attempt,))
    _event(job, "released", reason="drained", worker=job["worker_id"])
    job = _fenced(job_id, attempt, "status = 'pending', worker_id = NULL, deadline_at = NULL")
    db.after_commit(_wake)
    return job


@db.verb
def time_out(job_id, attempt):
    """The attempt's own verdict, when its deadline has passed: follows its kind. Returns the job's row."""
    job = _fence(job_id, attempt)
    return _interrupt(job, "TIMED_OUT", "timed_out", "attempt = ?", (attempt,))


# --------------------------------------------------------------------------------- cancel, retry

def cancel(job_id, user_id, shown_money=None):
    """End it if nobody else waits for it, else only leave. Raises ``NotFound``, ``AlreadyFinal``, ``MoneyDiffers``.

    Before the charge nothing is consumed; after it the charge is kept. But what had died before it could
    hear of this was interrupted, and its points return. ``shown_money``: what the page had said of its points.
    Returns ``left`` or ``requested``.
    """
    poll(job_id)
    outcome = _cancel(job_id, user_id, shown_money)
    if outcome == "final":
        raise AlreadyFinal(job_id=job_id, status=get(job_id)["status"])
    return outcome


@db.verb
def _cancel(job_id, user_id, shown_money=None):
    job = _after_judgement(_watched(job_id, user_id))
    if job["status"] not in IN_FLIGHT:
        return "final"
    if _others_wait(job_id, user_id):
        if db.execute(f"UPDATE job_watchers SET left_at = {NOW} WHERE job_id = ? AND user_id = ? AND left_at IS NULL "
                      "RETURNING id", (job_id, user_id)):
            _event(job, "left")
        return "left"
    if job["cancel_requested_at"] is None:
        if shown_money == "none" and (now := money(job, user_id)[0]) in ("consumed", "unknown"):
            raise MoneyDiffers(cost=job["cost"], money=now)
        db.execute(f"UPDATE jobs SET cancel_requested_at = {NOW} WHERE id = ?", (job_id,))
        _event(job, "cancel_requested")
    return _end_as_asked(job)


def stop(job_id, by):
    """The operator ends it, for everybody who waits for it: what it has used is returned. Raises ``NotFound``,
    ``AlreadyFinal``.

    Where its owner has cancelled it already, that stays. Returns ``requested``, or then ``cancelled``.
    """
    poll(job_id)
    outcome = _stop(job_id, by)
    if outcome == "final":
        raise AlreadyFinal(job_id=job_id, status=get(job_id)["status"])
    return outcome


@db.verb
def _stop(job_id, by):
    job = get(job_id)
    if job is None:
        raise NotFound(job_id=job_id)
    job = _after_judgement(job)
    if job["status"] not in IN_FLIGHT:
        return "final"
    if job["cancel_requested_at"] is None:
        db.execute(f"UPDATE jobs SET cancel_requested_at = {NOW}, stopped_by = ? WHERE id = ?", (by, job_id))
        _event(job, "stop_requested", by=by)
    elif job["stopped_by"] is None:
        return "cancelled"
    return _end_as_asked(job)


def _after_judgement(job):
    """The row of a job that is to be ended: what had died before was interrupted (a file that was locked, or a
    death since the poll)."""
    if not _judge(job):
        return job
    settle(job["id"])
    return get(job["id"])


def _end_as_asked(job):
    """What waits ends at once; what runs is told to stop."""
    job_id = job["id"]
    if job["status"] == "pending":
        ended = db.execute(
            f"UPDATE jobs SET status = 'failed', settlement = 'due', error_code = {_ASKED_END}, error_facts = '{{}}', "
            f"finished_at = {NOW} WHERE id = ? AND status = 'pending' RETURNING {_CORE}", (job_id,))
        _ended(ended[0], "failed", code=ended[0]["error_code"])
        settle(job_id)
    else:
        db.after_commit(lambda: signals.stoppers.get(job_id, bool)())
    return "requested"


def retryable(job):
    """Why a job cannot be tried again (a code), or ``None`` if it can."""
    if job["status"] != "failed":
        return "NOT_FAILED"
    return "INPUT_GONE" if any(not path.exists() for path in inputs_of(job).values()) else None


def price_again(kind, job):
    """What this job's input would cost now, or ``None`` where that cannot be said."""
    try:
        return _price(kind, kind.params.model_validate_json(job["params"]))
    except Exception:  # whatever a kind's own code does with params of another version
        return None


def retry(kind, job, asker, *, settings, max_pending, form_key=None, shown_price=None):
    """A failed job once more: a new job with the same input, linked to the old one, reusing its steps."""
    reason = "KIND_GONE" if kind is None else retryable(job)
    if reason:
        raise NotRetryable(reason=reason, job_id=job["id"])
    params = json.loads(job["params"])
    files = {name: _copy_input(path, params[name]) for name, path in inputs_of(job).items()}
    try:
        model = parse(kind, {name: value for name, value in params.items() if name not in files}, files)
        made = order(kind, model, asker, settings=settings, files=files, retry_of=job["id"], shown_price=shown_price,
                     idempotency_key=f"retry:{job['id']}:{form_key}" if form_key else None)
        return submit(made, max_pending=max_pending, files=files)
    finally:
        _forget_files(received.path for received in files.values())


# ------------------------------------------------------------------------------- reap and settle

def poll(job_id):
    """The job's row as a poll sees it: if its worker is dead or its deadline has passed it is reaped,
    and what is due is settled, first. ``None`` if there is no such job. If the database is busy or the disk
    full, or this process has not recovered yet, what is stored is the answer."""
    job = get(job_id)
    if job is None:
        return None
    if job["status"] in IN_FLIGHT:  # another process may have accepted it, or given it back, unheard here
        signals.watch.set()
        if job["status"] == "pending":
            signals.pending.set()
    if signals.starting:
        return job  # the start's own recovery comes first, and tells the operator of all it found
    try:
        with db.patience(POLL_PATIENCE_SECONDS):
            if _in_doubt(job):
                let_the_living_end([job])
                reap(job_id)
                job = get(job_id)
            if job["settlement"] in ("due", "unknown"):
                settle(job_id)
                job = get(job_id)
    except (Busy, StorageUnavailable):
        pass
    return job


def poll_listed(found):
    """The rows of a listing, each as a poll sees it. Of a file that is locked one look is enough for all."""
    shown, worth_it = [], True
    for job in found:
        if worth_it and (job["status"] == "running" or job["settlement"] in ("due", "unknown")):
            began = db.clock()
            job = poll(job["id"])
            worth_it = db.clock() - began < POLL_PATIENCE_SECONDS
        shown.append(job)
    return shown


def look_after(user_id):
    """Look at this person's own work as a poll would: points that a dead worker's work holds are theirs again.
    Returns whether anything came of it."""
    before = db.rows("SELECT * FROM jobs WHERE user_id = ?1 AND status IN ('pending', 'running') UNION ALL "
                     "SELECT * FROM jobs WHERE user_id = ?1 AND settlement IN ('due', 'unknown')", (user_id,))
    state = [(job["status"], job["attempt"], job["settlement"]) for job in before]
    return state != [(job["status"], job["attempt"], job["settlement"]) for job in poll_listed(before)]


def _in_doubt(job):
    return job["status"] == "running" and suspicious(job)


def suspicious(job):
    """A cheap look, before a transaction is opened: might this running job be orphaned or timed out?"""
    mine = workers.current is not None and job["worker_id"] == workers.current.id
    if mine and (job["id"], job["attempt"]) not in workers.current.attempts:
        return True
    if mine and (job["id"], job["attempt"]) in workers.current.ended:
        return False
    if job["deadline_at"] < db.now() or workers.jump_seconds(job["worker_id"], alive=True):
        return True
    return not mine and workers.is_dead(job["worker_id"]) is not False


def let_the_living_end(suspects):
    """Before running jobs are judged: a worker that lives ends its attempts itself, in time or not. Where the
    file was locked or the disk full it could not say so yet: as soon as it can, its word comes first."""
    mine = workers.current and workers.current.id
    if any(job["worker_id"] != mine and workers.is_dead(job["worker_id"]) is False for job in suspects):
        db.wait_for_lock()
        gevent.sleep(2 * END_RETRY_SECONDS)


@db.verb
def reap(job_id):
    """Interrupt this job if it is orphaned or timed out. Returns its row if it was, else ``None``."""
    job = get(job_id)
    return _judge(job) if job is not None and job["status"] == "running" else None


def _judge(job):
    """Orphaned (its worker is dead) and timed out (its deadline has passed) are two verdicts, never
    mixed. Each is judged by the statement that acts on it, by the database's clock."""
    if job["status"] != "running":
        return None
    worker_id, proof = job["worker_id"], (job["worker_id"], job["attempt"])
    mine = workers.current is not None and worker_id == workers.current.id
    dead = (job["id"], job["attempt"]) not in workers.current.attempts if mine else workers.is_dead(worker_id)
    if dead:
        return _interrupt(job, "INTERRUPTED", "orphaned", "worker_id = ? AND attempt = ?", proof)
    # Its times are of its own clock: one that was set since makes nobody late or dead.
    jump = workers.jump_seconds(worker_id, alive=dead is False)
    if dead is None:  # it cannot be asked: an old heartbeat must do
        found = _interrupt(
            job, "INTERRUPTED", "orphaned",
            "worker_id = ? AND attempt = ? AND coalesce((SELECT heartbeat_at FROM workers WHERE id = worker_id), "
            "started_at) < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)",
            (*proof, f"{-signals.stale_seconds - jump:.3f} seconds"))
        if found:
            return found
    if mine and (job["id"], job["attempt"]) in workers.current.ended:
        return None  # whether it ended in time, its end says, which is only waiting to be stored
    return _interrupt(job, "TIMED_OUT", "timed_out",
                      "attempt = ? AND deadline_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?)",
                      (job["attempt"], f"{-jump:.3f} seconds"))


def _interrupt(job, code, reason, verdict, values):
    """End an attempt that did not end itself: pending again while the kind allows, else failed.

    ``verdict``: the condition, judged in the same statement. Returns the row, or ``None`` if the
    verdict does not hold (somebody else was faster, or it lives).
    """
    again = _tried_again()
    found = db.execute(
        f"UPDATE jobs SET status = CASE WHEN {again} THEN 'pending' ELSE 'failed' END, "
        f"settlement = CASE WHEN {again} THEN 'none' ELSE 'due' END, "
        f"error_code = CASE WHEN {again} THEN NULL WHEN cancel_requested_at IS NOT NULL THEN {_ASKED_END} ELSE ? END, "
        f"error_facts = '{{}}', finished_at = CASE WHEN {again} THEN NULL ELSE {NOW} END, "
        "attempts_spent = attempts_spent + 1, worker_id = NULL, deadline_at = NULL "
        f"WHERE id = ? AND status = 'running' AND {verdict} RETURNING {_CORE}", (code, job["id"], *values))
    if not found:
        return None
    after = found[0]
    _event(after, "interrupted", reason=reason, worker=job["worker_id"])
    db.after_commit(lambda: interrupted.update({(after["kind"], reason, after["status"]): 1}))
    if after["status"] == "pending":
        db.after_commit(_wake)
        return after
    _ended(after, "failed", code=after["error_code"])
    if after["on_interrupt"] == "retry" and after["cancel_requested_at"] is None:
        incidents.record("critical", "recovery", "ATTEMPTS_SPENT",
                         f"{after['number']} ({after['kind']}) was interrupted {after['attempts_spent']} times and is "
                         "not tried again.", after["id"], after["user_id"])
    return after


def _tried_again():
    """Whether an attempt that is interrupted now is followed by another: a condition on the job's row."""
    return "(on_interrupt = 'retry' AND attempts_spent + 1 < max_attempts AND cancel_requested_at IS NULL)"


def settling(job):
    """What settling this job does to its points, or would do if it failed as it stands: ``(outcome, points)``.

    ``none``: nothing was used; ``refunded``: returned already, by the kind; ``kept``: its owner cancelled after
    the charge, or an operator kept it; ``returned``: they are returned.
    """
    entries = {entry["kind"]: entry["points"] for entry in ledger.of_job(job["id"])}
    points = -entries.get("consume", 0)
    if not points or "refund" in entries:
        return ("refunded" if points else "none"), points
    cancelled = (job["cancel_requested_at"] is not None and job["stopped_by"] is None
                 and job["error_code"] in (None, "CANCELLED"))
    return ("kept" if cancelled or job["kept_by"] else "returned"), points


def if_stopped(job):
    """What would become of a job in flight if the server stopped now, without a word: ``(goes_on, outcome,
    points)``. ``goes_on``: it stays in the queue, or another attempt follows; else it ends, and ``settling``
    says how. ``None`` where the ledger cannot be read."""
    if job["attempt"] == 0 and job["status"] == "pending":
        return True, "none", 0  # nothing is charged before it runs: that is a law of the ledger
    try:
        goes_on = job["status"] == "pending" or bool(
            db.value(f"SELECT {_tried_again()} FROM jobs WHERE id = ?", (job["id"],)))
        return (goes_on, *settling(job))
    except Exception:  # as for ``money``: looking breaks no page
        return None


@db.verb
def settle(job_id, note=None):
    """Bring the points of a failed job into order, as ``settling`` says: what it consumed is returned, unless
    its owner cancelled after the charge or an operator kept it. Idempotent; may be torn and run twice at once.

    If the ledger cannot be read, the job is ``unknown`` and the operator is told; every later call
    tries again. ``note`` stands with a refund in the statement. Returns the settlement.
    """
    job = get(job_id)
    if job is None or job["settlement"] not in ("due", "unknown"):
        return job and job["settlement"]
    try:
        with db.savepoint():
            outcome, _ = settling(job)
            points = ledger.refund(job_id, note) if outcome == "returned" else 0
            db.execute("UPDATE jobs SET settlement = 'settled' WHERE id = ?", (job_id,))
            _event(job, "settled", points=points, balance=ledger.balance(job["user_id"]))
        incidents.resolve(job_id, LOOKUP_FAILED)
        if points:
            db.after_commit(lambda: points_returned.update({job["kind"]: points}))
        return "settled"
    except sqlite3.Error as error:
        if not db.store.write_connection.in_transaction:
            raise  # the disk, not the ledger: nothing of this is stored
        if job["settlement"] == "due":
            db.execute("UPDATE jobs SET settlement = 'unknown' WHERE id = ?", (job_id,))
            _event(job, "unknown")
        incidents.record("critical", "settle", LOOKUP_FAILED,
                         f"The points of {job['number']} could not be confirmed: {error}. Every later look tries "
                         "again; flask jobs settle decides by hand.", job_id, job["user_id"])
        return "unknown"


@db.verb
def settle_by_hand(job_id, *, keep, by, note):
    """An operator's decision about a job whose points are unknown: return them, or keep the charge.

    Kept is kept, also while the ledger cannot be read yet. Raises ``AlreadyFinal``.
    """
    job = get(job_id)
    if job is None:
        raise NotFound(job_id=job_id)
    if job["settlement"] not in ("due", "unknown"):
        raise AlreadyFinal(job_id=job_id, status=job["settlement"])
    if job["kept_by"] and not keep:
        raise AlreadyFinal(job_id=job_id, status="kept")
    if keep and not job["kept_by"]:
        db.execute("UPDATE jobs SET kept_by = ?, kept_note = ? WHERE id = ?", (by, note, job_id))
    return settle(job_id, note)


@db.verb
def fail_gone(job_id):
    """A stored job whose kind or params no longer load: failed, and settled next. Only a server's
    start says so, and only of jobs no living worker runs."""
    found = db.execute(
        "UPDATE jobs SET status = 'failed', settlement = 'due', error_code = 'KIND_GONE', error_facts = '{}', "
        f"finished_at = {NOW} WHERE id = ? AND status = 'pending' RETURNING {_CORE}", (job_id,))
    if found:
        _ended(found[0], "failed", code="KIND_GONE")


# ----------------------------------------------------------------------------------------- events

def _event(job, event, **data):
    """Add to the job's story, and return the sequence number. Whoever follows it live is woken."""
    job_id = job["id"]
    found = db.execute(
        "INSERT INTO job_events (job_id, seq, event, attempt, data) VALUES "
        "(?, (SELECT coalesce(max(seq), 0) + 1 FROM job_events WHERE job_id = ?), ?, ?, ?) RETURNING seq",
        (job_id, job_id, event, job["attempt"], _encode(data)))
    db.after_commit(lambda: signals.changed(job_id))
    return found[0]["seq"]


def _ended(job, event, **data):
    _event(job, event, **data)
    db.after_commit(_wake)  # a slot is free; what is due wants to be settled


# ----------------------------------------------------------------------------------------- looking

def get(job_id):
    """The job's row, or ``None``."""
    return db.one("SELECT * FROM jobs WHERE id = ?", (job_id,))


def is_id(text):
    """Whether this text has the form of a job's id; not whether there is one."""
    return len(text) == 26 and set(text.upper()) <= set(_ALPHABET)


def find(text):
    """The job with this id or number, or ``None``. As a person types it: in any case, wide letters, with or without
    blanks and dashes, and O, I, L for what looks like them."""
    typed = re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", text)).upper().translate(str.maketrans("OIL", "011"))
    return db.one("SELECT * FROM jobs WHERE id = ? OR number = ?", (typed.lower(), f"{typed[:4]}-{typed[4:]}"))


def _watched(job_id, user_id):
    job = db.one("SELECT * FROM jobs WHERE id = ? AND EXISTS (SELECT 1 FROM job_watchers w WHERE w.job_id = jobs.id "
                 "AND w.user_id = ?)", (job_id, user_id))
    if job is None:
        raise NotFound(job_id=job_id)
    return job


def visible(job_id, user_id):
    """Whether this person asked for that job: somebody else's does not exist for them."""
    return db.value("SELECT 1 FROM job_watchers WHERE job_id = ? AND user_id = ?", (job_id, user_id)) is not None


def events(job_id, after=0):
    """The job's story from the sequence number ``after`` on."""
    return db.rows("SELECT * FROM job_events WHERE job_id = ? AND seq > ? ORDER BY seq", (job_id, after))


def last_event(job_id):
    """The sequence number of the latest event."""
    return db.value("SELECT max(seq) FROM job_events WHERE job_id = ?", (job_id,)) or 0


def interruptions(job):
    """How attempts at this job were ended from outside: rows ``attempt``, ``reason`` (``orphaned``, ``timed_out``,
    ``drained``), ``at``, oldest first."""
    if not (job["attempts_spent"] or job["releases"]):
        return []
    return db.rows("SELECT attempt, data ->> 'reason' AS reason, at FROM job_events WHERE job_id = ? "
                   "AND event IN ('interrupted', 'released') ORDER BY seq", (job["id"],))


def exclusive_in_flight(kind, user_id):
    """The id of this person's job of an exclusive kind that is in flight, or ``None``."""
    if not kind.exclusive:
        return None
    return db.value("SELECT id FROM jobs WHERE status IN ('pending', 'running') AND exclusive_key = ?",
                    (exclusive_key(kind, user_id),))


def exclusive_key(kind, user_id):
    return f"{kind.name}:{user_id}" if kind.exclusive else None


def age_seconds(job, since="created_at"):
    """Since it was asked for (or began: ``started_at``), by the database's clock."""
    return seconds_between(job[since], "now")


def seconds_between(earlier, later):
    """To the millisecond; ``None`` where one of them is no time."""
    return db.value("SELECT round((julianday(?) - julianday(?)) * 86400.0, 3)", (later, earlier))


def files(job_id):
    return db.rows("SELECT * FROM job_files WHERE job_id = ? ORDER BY name", (job_id,))


def watchers(job_id):
    """How many people wait for it."""
    return db.value("SELECT count(DISTINCT user_id) FROM job_watchers WHERE job_id = ? AND left_at IS NULL", (job_id,))


def others(job, user_id):
    """How many other people wait for the same; 0 for what is final or not shared."""
    if job["share_key"] is None or job["status"] not in IN_FLIGHT:
        return 0
    return _others_wait(job["id"], user_id)


def _others_wait(job_id, user_id):
    return db.value("SELECT count(DISTINCT user_id) FROM job_watchers WHERE job_id = ? AND left_at IS NULL "
                    "AND user_id <> ?", (job_id, user_id))


def has_left(job_id, user_id):
    """Whether this person asked for it and then left it to the others."""
    return db.value("SELECT min(left_at IS NOT NULL) FROM job_watchers WHERE job_id = ? AND user_id = ?",
                    (job_id, user_id)) == 1


def place(job):
    """How many wait before it, of any kind: the oldest is claimed first."""
    return db.value("SELECT count(*) FROM jobs WHERE status = 'pending' AND (created_at, id) < (?, ?)",
                    (job["created_at"], job["id"]))


def usual_seconds(kind):
    """How long this kind works as a rule, from claim to finish: the median of its newest successes that nothing
    interrupted. ``None`` where too few of them are known."""
    # By the index that expiry has, never further back than a look may cost; of the rows that do not count only
    # what stands before their results is read.
    found = [row["seconds"] for row in db.rows(
        "SELECT (julianday(finished_at) - julianday(started_at)) * 86400 AS seconds FROM jobs WHERE rowid IN ("
        "SELECT j.rowid FROM (SELECT rowid, finished_at FROM jobs WHERE finished_at IS NOT NULL AND expired_at IS NULL "
        "ORDER BY finished_at DESC LIMIT ?) newest CROSS JOIN jobs j ON j.rowid = newest.rowid "
        "WHERE j.kind = ? AND j.status = 'succeeded' AND j.attempts_spent = 0 AND j.releases = 0 "
        "ORDER BY newest.finished_at DESC LIMIT ?) AND finished_at >= started_at",
        (USUAL_LOOK_BACK_JOBS, kind, USUAL_OF_MOST))]
    return statistics.median(found) if len(found) >= USUAL_OF_LEAST else None


def steps_kept(job_id):
    """How many finished steps a retry would not repeat."""
    return db.value("SELECT count(*) FROM job_steps WHERE job_id = ?", (job_id,))


def listing(user_id=None, *, kind=None, status=None, before=None, limit=20):
    """Jobs (without params and result), newest first, below the id ``before``; of one person if given.

    ``status``: also ``cancelled``, which is a part of ``failed``, and ``unfinished``, the rest of it.
    """
    columns = [column for name, column in Job._meta.fields.items() if name not in ("params", "result")]
    query = Job.select(*columns).order_by(Job.id.desc()).limit(limit)
    if user_id is not None:
        query = query.where(Job.id.in_(JobWatcher.select(JobWatcher.job_id).where(JobWatcher.user_id == user_id)))
    if kind:
        query = query.where(Job.kind == kind)
    if status in ("cancelled", "unfinished"):
        query = query.where(Job.status == "failed", (Job.error_code == "CANCELLED") == (status == "cancelled"))
    elif status:
        query = query.where(Job.status == status)
    if before:
        query = query.where(Job.id < before)
    return db.rows(*query.sql())


def in_flight(limit):
    """Rows of ``v_in_flight``, oldest first."""
    return db.rows("SELECT * FROM v_in_flight LIMIT ?", (limit,))


def unknown(limit):
    """Jobs whose points are unknown, oldest first."""
    return db.rows("SELECT * FROM jobs WHERE settlement = 'unknown' ORDER BY id LIMIT ?", (limit,))


def timeline(job_id):
    """All that happened to this job, in order: rows ``at``, ``source`` (event, ledger, incident), ``what``, ``detail``."""
    return db.rows("SELECT at, source, what, detail FROM v_job_timeline WHERE job_id = ?", (job_id,))


def in_flight_of(user_id):
    """How many this person has in flight."""
    return db.value("SELECT count(*) FROM jobs WHERE user_id = ? AND status IN ('pending', 'running')", (user_id,))


def any_pending():
    """Whether something waits to be claimed."""
    return db.value("SELECT 1 FROM jobs WHERE status = 'pending' LIMIT 1") is not None


def in_flight_counts():
    """``{(kind, status): how many}`` of what is waiting or running."""
    return {(row["kind"], row["status"]): row["n"] for row in db.rows(
        "SELECT kind, status, count(*) AS n FROM jobs WHERE status IN ('pending', 'running') GROUP BY kind, status")}


def unsettled_counts():
    """``{(settlement,): how many}`` of what is due or unknown."""
    return {(row["settlement"],): row["n"] for row in db.rows(
        "SELECT settlement, count(*) AS n FROM jobs WHERE settlement IN ('due', 'unknown') GROUP BY settlement")}


def unseen(user_id):
    """What was interrupted, or stopped by the operator, while this person was away."""
    return db.rows(  # from the person's own rows: this is asked for every page
        "SELECT j.* FROM (SELECT DISTINCT job_id FROM job_watchers WHERE user_id = ? AND seen_at IS NULL) w "
        "CROSS JOIN jobs j ON j.id = w.job_id WHERE j.status = 'failed' AND j.expired_at IS NULL "
        "AND j.error_code IN ('INTERRUPTED', 'TIMED_OUT', 'KIND_GONE', 'STOPPED') ORDER BY j.id DESC LIMIT 5", (user_id,))


def saw(job, user_id):
    """This person has been shown how it ended. Stored where that is possible: looking must not depend on it."""
    if not db.one("SELECT 1 FROM job_watchers WHERE job_id = ? AND user_id = ? AND seen_at IS NULL",
                  (job["id"], user_id)):
        return
    try:
        with db.patience(POLL_PATIENCE_SECONDS):
            mark_seen(job["id"], user_id)
    except (Busy, StorageUnavailable):
        pass


@db.verb
def mark_seen(job_id, user_id):
    """This person has seen how it ended."""
    db.execute(f"UPDATE job_watchers SET seen_at = {NOW} WHERE job_id = ? AND user_id = ? AND seen_at IS NULL",
               (job_id, user_id))


def money(job, user_id):
    """What happened to the asker's points, computed from the ledger at every look.

    Returns ``(money, facts)``: ``none``, ``consumed``, ``refunded``, ``checking`` or ``unknown``;
    facts ``points`` and ``balance`` (after the entry). Never raises: a ledger that cannot be read
    is ``unknown``.
    """
    if user_id != job["user_id"]:
        return "none", {"shared": True}  # whoever joined pays nothing
    if job["attempt"] == 0 and job["status"] == "pending":
        return "none", {}  # nothing is charged before it runs: that is a law of the ledger
    try:
        entries = {entry["kind"]: entry for entry in ledger.of_job(job["id"])}
    except Exception:
        return "unknown", {}
    taken, returned = entries.get("consume"), entries.get("refund")
    if returned is not None:
        return "refunded", {"points": returned["points"], "balance": returned["balance_after"]}
    if job["settlement"] == "due":
        return "checking", {}
    if taken is None:
        return "none", {}
    if job["settlement"] == "unknown":
        return "unknown", {}
    return "consumed", {"points": -taken["points"], "balance": taken["balance_after"]}


# ------------------------------------------------------------------------------------------ inputs

class _Check(InputContext):
    """What a kind's ``check`` sees: the files are where they arrived."""

    def __init__(self, lang, settings, files):
        self.lang, self.settings = lang, settings
        self._paths = {received.upload.sha256: received.path for received in files.values()}

    def open(self, upload):
        return open(self._paths[upload.sha256], "rb")

    def run_command(self, args, *, on_line=None, cwd=None, input=None):
        return commands.check(args, on_line=on_line, cwd=cwd, input=input)


def input_path(job_id, name):
    return db.store.path.parent / "uploads" / f"{job_id}-{name}"


def inputs_of(job):
    """``{field: path}`` of the files this job was given."""
    return {name: input_path(job["id"], name) for name, value in json.loads(job["params"]).items()
            if isinstance(value, dict) and value.keys() == {"name", "size", "sha256"}}


def _keep_input(target, received):
    """Make the file durable under the job's name, before the job is on disk: nothing accepted is lost."""
    def keep():
        descriptor = os.open(received.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(received.path, target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    db.store.disk.apply(keep)  # an fsync blocks: not on the hub


def _copy_input(path, facts):
    """A second name for the same content (files are never changed), for a job that tries again."""
    link = path.with_name(f"incoming-{secrets.token_hex(8)}")
    os.link(path, link)
    os.utime(link)  # it is new: not what expiry takes for left behind
    return Received(link, Upload(**facts))


def _forget_files(paths):
    for path in paths:
        try:
            Path(path).unlink(missing_ok=True)
        except OSError:
            pass  # a folder that became read-only: expiry deletes what nobody needs


def forget_inputs(job):
    _forget_files(inputs_of(job).values())


def _hash(*texts):
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
