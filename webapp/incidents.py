"""What went wrong in a way the operator should know. Recorded here; listed and acknowledged."""
import logging

from webapp import db
from webapp.models import Incident

log = logging.getLogger(__name__)

SEVERITIES = ("info", "warning", "critical")
# Of what nobody ever acknowledges there may be any number; how many are open is asked for every few seconds.
COUNTED_MAX = 10_000


@db.verb
def record(severity, scope, code, detail, job_id=None, user_id=None):
    """Record an incident; an open one of the same code about the same job is not recorded twice."""
    if job_id is not None and db.value(
            "SELECT 1 FROM incidents WHERE job_id = ? AND code = ? AND resolved_at IS NULL", (job_id, code)):
        return
    db.execute("INSERT INTO incidents (severity, scope, code, detail, job_id, user_id) VALUES (?, ?, ?, ?, ?, ?)",
               (severity, scope, code, detail, job_id, user_id))
    db.after_commit(lambda: log.log(
        {"info": logging.INFO, "warning": logging.WARNING, "critical": logging.CRITICAL}[severity],
        "%s %s: %s", scope, code, detail))


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


def listing(everything=False):
    """Incidents, newest first; only open ones unless ``everything``."""
    query = Incident.select().order_by(Incident.id.desc()).limit(500)
    if not everything:
        query = query.where(Incident.acknowledged_at.is_null(), Incident.resolved_at.is_null())
    return db.rows(*query.sql())


def open_counts():
    """``{(severity,): how many}`` of the open ones among the newest ``COUNTED_MAX``."""
    return {(row["severity"],): row["n"] for row in db.rows(
        "SELECT severity, count(*) AS n FROM (SELECT severity, acknowledged_at, resolved_at FROM incidents "
        "ORDER BY id DESC LIMIT ?) WHERE acknowledged_at IS NULL AND resolved_at IS NULL GROUP BY severity",
        (COUNTED_MAX,))}
