"""What went wrong in a way the operator should know. Recorded here; listed, told (see alerts.py), acknowledged."""
import json
import logging

from gevent.event import Event

from webapp import db
from webapp.models import Incident

log = logging.getLogger(__name__)

SEVERITIES = ("info", "warning", "critical")
RESTARTED = "RESTARTED"
# The operator is told of the same code at most once in this time; one about no job is counted for so long.
ALERT_REPEAT_SECONDS = 3600
UNTOLD_MAX = 1000
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.CRITICAL}
_OPEN = "acknowledged_at IS NULL AND resolved_at IS NULL"
_LATELY = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{} seconds')".format(ALERT_REPEAT_SECONDS)

recorded = Event()  # something may wait to be told. It only saves time: the table is the truth


@db.verb
def record(severity, scope, code, detail, job_id=None, user_id=None):
    """Record an incident. An open one of the same code about the same job is not recorded twice; one about no job
    that came within the hour with the same ``detail``, and was not told yet, is counted (``times``)."""
    if job_id is not None and db.value(
            "SELECT 1 FROM incidents WHERE job_id = ? AND code = ? AND resolved_at IS NULL", (job_id, code)):
        return
    if job_id is not None or not db.execute(
            "UPDATE incidents SET times = times + 1 WHERE id = (SELECT max(id) FROM incidents WHERE scope = ? "
            f"AND code = ? AND detail = ? AND job_id IS NULL AND alerted_at IS NULL AND {_OPEN} AND at > {_LATELY}) "
            "RETURNING id", (scope, code, detail)):
        db.execute("INSERT INTO incidents (severity, scope, code, detail, job_id, user_id) VALUES (?, ?, ?, ?, ?, ?)",
                   (severity, scope, code, detail, job_id, user_id))
    db.after_commit(recorded.set)
    db.after_commit(lambda: log.log(_LEVELS[severity], "%s %s: %s", scope, code, detail))


@db.verb
def deed(code, by, what, act, *, job_id=None, user_id=None):
    """Do what an operator asked for (``act``, a function that does not yield) and note who did what, in one
    transaction. Nobody needs to look at the note: it stands among those that were seen. Returns what ``act`` does.

    ``by``: the operator's row. ``job_id``, ``user_id``: whom or what it was done to."""
    done = act()
    db.execute("INSERT INTO incidents (severity, scope, code, detail, job_id, user_id, acknowledged_at) "
               f"VALUES ('info', 'admin', ?, ?, ?, ?, {db.NOW})",
               (code, f"{by['email']} (user {by['id']}): {what}", job_id, user_id))
    return done


@db.verb
def resolve(job_id, code):
    """The incident has come right by itself."""
    db.execute(f"UPDATE incidents SET resolved_at = {db.NOW} WHERE job_id = ? AND code = ? AND resolved_at IS NULL",
               (job_id, code))


@db.verb
def acknowledge(incident_id):
    """Somebody has looked at it. Returns whether there was such an open incident."""
    return bool(db.execute(f"UPDATE incidents SET acknowledged_at = {db.NOW} WHERE id = ? AND acknowledged_at IS NULL "
                           "RETURNING id", (incident_id,)))


@db.verb
def acknowledge_all(code):
    """Somebody has looked at all open ones of this code. Returns how many those were."""
    return len(db.execute(f"UPDATE incidents SET acknowledged_at = {db.NOW} WHERE code = ? AND {_OPEN} RETURNING id",
                          (code,)))


@db.verb
def told(incident_ids):
    """The operator has been told of these."""
    db.execute(f"UPDATE incidents SET alerted_at = {db.NOW} WHERE alerted_at IS NULL "
               "AND id IN (SELECT value FROM json_each(?))", (json.dumps(incident_ids),))


def untold():
    """What the operator should hear of and has not: open ones that are critical or of a restart, at most
    ``UNTOLD_MAX``, what is due first, then the oldest. ``number``: of its job. ``wait_seconds``: 0, or until its code may be told again."""
    # A clock that was ahead must not silence anybody: what was told in the future does not count.
    return db.rows(
        "SELECT i.id, i.at, i.severity, i.code, i.detail, i.times, j.number, CASE WHEN t.at > " + _LATELY +
        f" THEN max((julianday(t.at) - julianday('now')) * 86400.0 + {ALERT_REPEAT_SECONDS}, 0.001) ELSE 0 END "
        "AS wait_seconds FROM incidents i LEFT JOIN jobs j ON j.id = i.job_id LEFT JOIN (SELECT code, max(alerted_at) "
        f"AS at FROM incidents WHERE alerted_at <= {db.NOW} GROUP BY code) t ON t.code = i.code "
        f"WHERE (i.severity = 'critical' OR i.code = ?) AND i.alerted_at IS NULL AND {_OPEN} ORDER BY wait_seconds > 0, i.id LIMIT ?",
        (RESTARTED, UNTOLD_MAX))


def listing(everything=False, before=None, limit=500):
    """Incidents, newest first, below the id ``before``; only open ones unless ``everything``."""
    query = Incident.select().order_by(Incident.id.desc()).limit(limit)
    if before is not None:
        query = query.where(Incident.id < before)
    if not everything:
        query = query.where(Incident.acknowledged_at.is_null(), Incident.resolved_at.is_null())
    return db.rows(*query.sql())


def open_counts():
    """``{(severity,): how many}`` of the open ones."""
    return {(row["severity"],): row["n"] for row in db.rows(
        f"SELECT severity, count(*) AS n FROM incidents WHERE {_OPEN} GROUP BY severity")}
