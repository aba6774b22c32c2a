"""What rows and ledger say as a whole: how the last 30 days went, whether the books are right. Both are long looks,
taken in a thread or a process of their own: nobody waits for them but who asks."""
import json
import logging
import sys
from contextlib import nullcontext
from datetime import date, timedelta

import gevent
from gevent.lock import BoundedSemaphore

from webapp import ROOT, commands, db
from webapp.errors import CommandFailed
from webapp.jobs import LOOKUP_FAILED
from webapp.measure import clock
from webapp.messages import INTERRUPTIONS

log = logging.getLogger(__name__)

DAYS = 30
KEPT_SECONDS = 20  # a crowd at the public page is one look
AUDIT_SECONDS_MAX = 600

# Events expire, rows of jobs and the ledger do not: so these are asked. All columns are of the index jobs_ended.
_SINCE = f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{DAYS} days')"
_ENDED = f"finished_at IS NOT NULL AND finished_at > {_SINCE}"
_BY_INTERRUPTION = ("(status = 'failed' AND attempt > 0 AND error_code IN ("
                    + ", ".join(f"'{code}'" for code in sorted(INTERRUPTIONS)) + "))")
_INTERRUPTED = f"(attempts_spent > 0 OR releases > 0 OR {_BY_INTERRUPTION})"
_COUNTS = (
    f"SELECT kind, substr(finished_at, 1, 10) AS day, sum(status = 'succeeded') AS done, sum(status = 'failed') AS "
    f"failed, sum({_INTERRUPTED}) AS interrupted, sum({_INTERRUPTED} AND status = 'succeeded') AS resumed, "
    f"sum({_BY_INTERRUPTION}) AS ended FROM jobs WHERE {_ENDED} GROUP BY 1, 2")
_MEDIANS = (
    "SELECT kind, avg(seconds) AS seconds FROM (SELECT kind, seconds, count(*) OVER (PARTITION BY kind) AS n, "
    "row_number() OVER (PARTITION BY kind ORDER BY seconds) AS place FROM (SELECT kind, (julianday(finished_at) - "
    f"julianday(started_at)) * 86400.0 AS seconds FROM jobs WHERE {_ENDED} AND status = 'succeeded')) "
    "WHERE place IN ((n + 1) / 2, (n + 2) / 2) GROUP BY kind")
_RETURNED = ("SELECT count(*) AS times, coalesce(sum(points), 0) AS points FROM ledger_entries WHERE kind = 'refund' "
             f"AND job_id IN (SELECT id FROM jobs WHERE {_ENDED} AND {_BY_INTERRUPTION})")
_UNKNOWN = f"SELECT count(DISTINCT job_id) FROM incidents WHERE code = ? AND at > {_SINCE}"
_TOTALS = ("done", "failed", "interrupted", "resumed", "ended")


# ------------------------------------------------------------------------------------ the last days

def lately():
    """How the last ``DAYS`` days went, of all work that ended since ``since``: ``done``, ``failed``, ``interrupted``
    (the server stopped, or a limit of time passed), of those ``resumed`` by themselves and done, ``ended`` by it, and
    ``other`` (they went on, and ended for another reason); ``returned``: points returned to the ``ended`` ones;
    ``unknown_lately``: of how many it could not be said for a while; now ``unknown`` and ``due``; ``kinds``: by name,
    the same with ``median_seconds`` from the first start to the end of what is done; ``days``: by date.

    At most ``KEPT_SECONDS`` old. Raises what reading raises.
    """
    global _kept
    with _one_looks:
        if _kept is None or _kept[0] is not db.store or clock() - _kept[1] > KEPT_SECONDS:
            _kept = (db.store, clock(), db.look(_figures))
        return _kept[2]


_kept = None  # (of which file, when, what)
_one_looks = BoundedSemaphore(1)


def _figures(rows):
    counts, since = rows(_COUNTS), rows(f"SELECT {_SINCE} AS since, {db.NOW} AS now")[0]
    medians = {row["kind"]: row["seconds"] for row in rows(_MEDIANS)}
    returned = rows(_RETURNED)[0]
    unsettled = {row["settlement"]: row["n"] for row in rows(
        "SELECT settlement, count(*) AS n FROM jobs WHERE settlement IN ('due', 'unknown') GROUP BY settlement")}
    total = _sum(counts)
    return {
        **total, "since": since["since"], "now": since["now"],
        "other": total["interrupted"] - total["resumed"] - total["ended"],
        "returned": returned["points"], "returned_times": returned["times"],
        "unknown_lately": rows(_UNKNOWN, (LOOKUP_FAILED,))[0][0],
        "unknown": unsettled.get("unknown", 0), "due": unsettled.get("due", 0),
        "kinds": {kind: {**_sum([row for row in counts if row["kind"] == kind]), "median_seconds": medians.get(kind)}
                  for kind in sorted({row["kind"] for row in counts})},
        "days": [{"day": day, **_sum([row for row in counts if row["day"] == day])}
                 for day in _days(since["since"], since["now"])]}


def _sum(counts):
    return {name: sum(row[name] for row in counts) for name in _TOTALS}


def _days(first, last):
    day, last = date.fromisoformat(first[:10]), date.fromisoformat(last[:10])
    while day <= last:
        yield day.isoformat()
        day += timedelta(days=1)


# ---------------------------------------------------------------------------------------- the books

audited = None  # of this process's latest audit: what ``audit`` returned


def audit():
    """Audit the file, in a process of its own however large the ledger: ``{at, seconds, entries, jobs, breaches}``, kept
    in ``audited``; ``breaches`` is ``None`` where that failed. Who asks while one is under way gets that one's."""
    global audited
    asked = clock()
    with _one_audits:
        if audited is None or audited["began"] < asked:
            began, at = clock(), db.now()
            audited = {"began": began, "at": at, **_audited(), "seconds": clock() - began}
        return audited


_one_audits = BoundedSemaphore(1)


def _audited():
    try:
        with gevent.Timeout(AUDIT_SECONDS_MAX, TimeoutError()):
            return json.loads(commands.run([sys.executable, "-m", "webapp.ledger", db.store.path.resolve()], cwd=ROOT,
                                           slots=nullcontext()))
    except (CommandFailed, OSError, ValueError) as error:
        reason = error.facts["stderr"].strip().rpartition("\n")[2] if isinstance(error, CommandFailed) else repr(error)
        log.error("the books could not be audited: %s", reason)
        return {"entries": None, "jobs": None, "breaches": None, "reason": reason}
