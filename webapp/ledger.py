"""Points: the sole writer of ``ledger_entries``. A balance is the last entry's ``balance_after``.

``python -m webapp.ledger FILE`` audits a file in a process of its own (see overview.py).
"""
import json
import os
import sys

from webapp import db
from webapp.errors import InsufficientPoints, StatementMoved

POINTS_MAX = 1_000_000_000  # of one grant


@db.verb
def grant(user_id, points, note, after=None):
    """Add points, and return the new balance. ``note`` says why; it stands in the person's statement. ``after``: the
    id of the last entry that whoever grants has seen (0: none); raises ``StatementMoved`` if there is a later one."""
    if after is not None and after != last_entry(user_id):
        raise StatementMoved()
    return _add(user_id, None, "grant", points, balance(user_id), note)


@db.verb
def consume(user_id, job_id, cost):
    """Take the cost of a running job, and return the new balance.

    Raises ``InsufficientPoints``. That the job runs, is this user's, costs this and has not been
    charged is the database's law (``ledger_entries_consume_lawful``, ``…_once_per_job``).
    """
    points = balance(user_id)
    if points < cost:
        raise InsufficientPoints(cost=cost, balance=points)
    return _add(user_id, job_id, "consume", -cost, points, None)


@db.verb
def refund(job_id, note=None):
    """Return what the job consumed, once. Returns the points returned now: 0 if there is nothing to."""
    taken = consumed(job_id)
    if taken is None or refunded(job_id) is not None:
        return 0
    _add(taken["user_id"], job_id, "refund", -taken["points"], balance(taken["user_id"]), note)
    return -taken["points"]


def _add(user_id, job_id, kind, points, before, note):
    after = before + points
    db.execute("INSERT INTO ledger_entries (user_id, job_id, kind, points, balance_after, note) "
               "VALUES (?, ?, ?, ?, ?, ?)", (user_id, job_id, kind, points, after, note))
    return after


def balance(user_id):
    """Points this person has, those promised to work in flight included."""
    return db.value("SELECT balance_after FROM ledger_entries WHERE user_id = ? ORDER BY id DESC LIMIT 1",
                    (user_id,)) or 0


def available(user_id, except_job=None):
    """Balance less the quoted costs of this person's own work in flight that is not charged yet:
    one point cannot start two paid jobs."""
    return db.value(
        "SELECT coalesce((SELECT balance_after FROM ledger_entries WHERE user_id = ?1 ORDER BY id DESC LIMIT 1), 0) "
        "- coalesce((SELECT sum(cost) FROM jobs WHERE user_id = ?1 AND status IN ('pending', 'running') AND id IS NOT ?2 "
        "AND NOT EXISTS (SELECT 1 FROM ledger_entries l WHERE l.job_id = jobs.id AND l.kind = 'consume')), 0)",
        (user_id, except_job))


def promised(user_id):
    """This person's own work in flight that is not charged yet, oldest first: what ``available`` sets aside."""
    return db.rows("SELECT id, number, kind, cost FROM jobs WHERE user_id = ? AND status IN ('pending', 'running') AND cost > 0 "
                   "AND NOT EXISTS (SELECT 1 FROM ledger_entries l WHERE l.job_id = jobs.id AND l.kind = 'consume') "
                   "ORDER BY id", (user_id,))


def last_entry(user_id):
    """The id of this person's newest entry, or 0."""
    return db.value("SELECT max(id) FROM ledger_entries WHERE user_id = ?", (user_id,)) or 0


def consumed(job_id):
    """The entry that charged this job, or ``None``."""
    return db.one("SELECT * FROM ledger_entries WHERE job_id = ? AND kind = 'consume'", (job_id,))


def refunded(job_id):
    """The entry that returned this job's points, or ``None``."""
    return db.one("SELECT * FROM ledger_entries WHERE job_id = ? AND kind = 'refund'", (job_id,))


def of_job(job_id):
    """The entries of this job: at most one that consumed and one that returned."""
    return db.rows("SELECT * FROM ledger_entries WHERE job_id = ?", (job_id,))


def statement(user_id, before=None, limit=50):
    """Entries of one person, newest first, below the id ``before``; with the job's number and kind, how it ended, and
    whether its points were ``returned``."""
    return db.rows(
        "SELECT l.*, j.number, j.kind AS for_kind, j.error_code, j.error_facts, j.attempts_spent, j.kept_by, "
        "EXISTS (SELECT 1 FROM ledger_entries r WHERE r.job_id = l.job_id AND r.kind = 'refund') AS returned "
        "FROM ledger_entries l LEFT JOIN jobs j ON j.id = l.job_id WHERE l.user_id = ? AND l.id < ? ORDER BY l.id DESC LIMIT ?",
        (user_id, before if before is not None else 2**62, limit))


# ------------------------------------------------------------------------------------------- audit

@db.verb
def audit():
    """Every breach found, as sentences; empty if the books are right.

    A verb, though it writes nothing: it must see one moment of the books, not entries of before a refund and
    jobs of after.
    """
    return breaches(db.rows)


def breaches(rows):
    """``audit`` of the one moment that ``rows(sql)`` reads.

    Recomputes everything from the raw rows with arithmetic of its own: it shares no statement with
    the verbs above or the triggers, so that a mistake there cannot hide itself.
    """
    entries = rows("SELECT id, user_id, job_id, kind, points, balance_after, created_at FROM ledger_entries")
    jobs = {row["id"]: row for row in rows(
        "SELECT id, number, user_id, status, settlement, cost, error_code, cancel_requested_at, stopped_by, kept_by FROM jobs")}
    users = {row["id"] for row in rows("SELECT id FROM users")}
    return [*_audit_balances(entries, users), *_audit_entries(entries, jobs), *_audit_jobs(entries, jobs),
            *_audit_file(rows)]


def _audit_balances(entries, users):
    running = {}
    for entry in sorted(entries, key=lambda entry: entry["id"]):
        user = entry["user_id"]
        running[user] = running.get(user, 0) + entry["points"]
        if user not in users:
            yield f"entry {entry['id']}: there is no user {user}"
        if entry["balance_after"] != running[user]:
            yield (f"entry {entry['id']}: says balance {entry['balance_after']} for user {user}, the sum of all "
                   f"before it is {running[user]}")
        if running[user] < 0:
            yield f"entry {entry['id']}: user {user} is at {running[user]}"


def _audit_entries(entries, jobs):
    taken, returned = {}, {}
    for entry in entries:
        job, name = jobs.get(entry["job_id"]), f"entry {entry['id']}"
        if entry["kind"] == "grant":
            if entry["job_id"] is not None or entry["points"] <= 0:
                yield f"{name}: a grant of {entry['points']} for job {entry['job_id']}"
            continue
        if job is None:
            yield f"{name}: a {entry['kind']} for a job that does not exist"
            continue
        book = taken if entry["kind"] == "consume" else returned
        if entry["job_id"] in book:
            yield f"{name}: a second {entry['kind']} for {job['number']}"
        book[entry["job_id"]] = entry
        if entry["user_id"] != job["user_id"]:
            yield f"{name}: a {entry['kind']} for {job['number']}, which is another user's"
        if abs(entry["points"]) != job["cost"] or (entry["points"] < 0) != (entry["kind"] == "consume"):
            yield f"{name}: a {entry['kind']} of {entry['points']} for {job['number']}, quoted at {job['cost']}"
    for job_id, entry in returned.items():
        if job_id not in taken:
            yield f"entry {entry['id']}: returns what {jobs[job_id]['number']} never consumed"
        elif taken[job_id]["id"] > entry["id"]:
            yield f"entry {entry['id']}: returned before it was consumed"


def _audit_jobs(entries, jobs):
    kinds_of = {}
    for entry in entries:
        kinds_of.setdefault(entry["job_id"], set()).add(entry["kind"])
    for job_id, job in jobs.items():
        booked = kinds_of.get(job_id, set())
        kept = job["kept_by"] is not None or (
            job["error_code"] == "CANCELLED" and job["cancel_requested_at"] and not job["stopped_by"])
        if job["settlement"] == "settled" and booked == {"consume"} and not kept:
            yield f"{job['number']}: settled, but its points were neither returned, cancelled nor kept"
        if job["status"] == "succeeded" and job["cost"] == 0 and booked:
            yield f"{job['number']}: free, but in the ledger"


def _audit_file(rows):
    for row in rows("PRAGMA foreign_key_check"):
        yield f"{row['table']} row {row['rowid']} refers to a row of {row['parent']} that does not exist"


def main(path):
    """Audit one file, and print ``{entries, jobs, breaches}``."""
    os.nice(10)  # the server's users come first
    with db.snapshot(path) as rows:
        print(json.dumps({"entries": rows("SELECT count(*) FROM ledger_entries")[0][0],
                          "jobs": rows("SELECT count(*) FROM jobs")[0][0], "breaches": breaches(rows)}))


if __name__ == "__main__":
    main(sys.argv[1])
