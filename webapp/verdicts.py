"""What must be true of a file after a server died, was paused or was told to stop: for ``flask crashtest``.

Worked out from the raw rows of that moment alone, with none of the application's own code.
"""
import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass

PENDING, BEFORE, AFTER, SETTLING = "pending", "before the charge", "after the charge", "settling"
RUNNING, FINISHED = "running", "finished before"
STATES = (PENDING, BEFORE, AFTER, RUNNING, SETTLING, FINISHED)
ENDS = ("succeeded", "failed")


# ------------------------------------------------------------------------------------- the raw rows

@dataclass
class Rows:
    """What stands in a file: jobs by id, entries by id, finished steps by job and name, events of each job."""

    jobs: dict
    entries: dict
    steps: dict
    events: dict

    def __post_init__(self):
        self._of_job = {(entry["job_id"], entry["kind"]): entry for entry in self.entries.values()}

    def of(self, job_id):
        """``(consume, refund)``: this job's ledger entries, or ``None``."""
        return self._of_job.get((job_id, "consume")), self._of_job.get((job_id, "refund"))

    def balance(self, user_id, up_to):
        return sum(entry["points"] for entry in self.entries.values()
                   if entry["user_id"] == user_id and entry["id"] <= up_to)

    def state(self, job_id):
        job = self.jobs[job_id]
        if job["status"] == "pending":
            return PENDING
        if job["status"] == "running":
            return RUNNING if not job["cost"] else AFTER if self.of(job_id)[0] else BEFORE
        return SETTLING if job["settlement"] == "due" else FINISHED


def read_live(path):
    """The rows of a file that a server has open. Read-only: closing it changes nothing."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        return _read(connection)


def read_dead(path, folder):
    """The rows of a file whose server is dead, from a copy: the file stays as the dead left it, and the
    next start meets its journal."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for ending in ("", "-wal"):
        if path.with_name(path.name + ending).exists():
            shutil.copyfile(path.with_name(path.name + ending), folder / f"copy.db{ending}")
    with closing(sqlite3.connect(folder / "copy.db")) as connection:
        return _read(connection)


def _read(connection):
    connection.row_factory = sqlite3.Row
    connection.execute("BEGIN")  # one moment for all of it
    events = {}
    for row in connection.execute("SELECT * FROM job_events ORDER BY job_id, seq"):
        events.setdefault(row["job_id"], []).append(dict(row))
    return Rows(
        {row["id"]: dict(row) for row in connection.execute("SELECT * FROM jobs")},
        {row["id"]: dict(row) for row in connection.execute("SELECT * FROM ledger_entries ORDER BY id")},
        {(row["job_id"], row["name"]): dict(row) for row in connection.execute("SELECT * FROM job_steps")}, events)


# -------------------------------------------------------------------------------- what must be true

@dataclass(frozen=True)
class Expected:
    """What must be true of a job that was ``state`` at the kill. ``goes_on``: it is still to be finished."""

    state: str
    goes_on: bool
    status: str | None = None
    code: str | None = None
    money: str | None = None
    attempts_spent: int = 0


def expectation(rows, job_id, dead=True):
    """From the rows at the kill alone. ``dead``: whether what ran them is; else it goes on, only later.

    Pending: nothing had happened, so it goes on. Running: interrupted; its points, if any, return,
    unless its kind may be repeated and attempts are left: then it goes on. Failed and not settled: its
    points return. Final: nothing changes.
    """
    job, (taken, returned) = rows.jobs[job_id], rows.of(job_id)
    state, spent = rows.state(job_id), job["attempts_spent"]
    if state == PENDING or (job["status"] == "running" and not dead):
        return Expected(state, True, attempts_spent=spent)
    if job["status"] == "running":
        spent += 1
        if job["on_interrupt"] == "retry" and spent < job["max_attempts"]:
            return Expected(state, True, attempts_spent=spent)
        return Expected(state, False, "failed", "INTERRUPTED", "refunded" if taken else "none", spent)
    if job["status"] == "failed":
        return Expected(state, False, "failed", job["error_code"], "refunded" if taken else "none", spent)
    money = "refunded" if returned else "consumed" if taken else "none"
    return Expected(state, False, "succeeded", None, money, spent)


def judge(answer, expected, job, rows):
    """What the API's answer is worth: ``true``, ``not yet`` (it claims nothing wrong), or what is wrong with it.

    ``rows``: the file now, for the balance that the sentence names.
    """
    status, code, money = answer["status"], (answer["error"] or {}).get("code"), answer["money"]
    if expected.goes_on:
        if code in ("INTERRUPTED", "TIMED_OUT"):
            return f"says {code}, but it was {expected.state} and goes on"
        return "true"
    if status in ("pending", "running") or (status == "failed" and money == "checking"):
        return "not yet"
    if (status, code, money) != (expected.status, expected.code, expected.money):
        return (f"says {status}, {code}, points {money}; it was {expected.state}, so it must be {expected.status}, "
                f"{expected.code}, points {expected.money}")
    return _judge_sentence(answer["money_message"], expected, job, rows)


def _judge_sentence(sentence, expected, job, rows):
    """The claims are fixed: none used, or returned with the balance after it; never both."""
    claims = []
    if expected.code == "INTERRUPTED":
        claims.append("interrupted")
    if expected.money == "none":
        claims.append("No points were used")
    if expected.money == "refunded":
        returned = rows.of(job["id"])[1]
        if returned is None:
            return "says the points were returned, but the ledger has no such entry"
        claims += [f"{job['cost']} point", "returned", f"balance {rows.balance(job['user_id'], returned['id'])})"]
    said = sentence.replace(",", "")
    missing = [claim for claim in claims if claim not in said]
    if missing or (expected.money != "none") == ("No points were used" in sentence):
        return f"says {sentence!r}, which lacks {missing} or contradicts points {expected.money}"
    return "true"


def check_books(rows):
    """Every breach of the ledger, recomputed from the raw rows."""
    balances, seen = Counter(), Counter()
    for entry in rows.entries.values():
        user, job = entry["user_id"], rows.jobs.get(entry["job_id"])
        balances[user] += entry["points"]
        seen[entry["job_id"], entry["kind"]] += entry["job_id"] is not None
        if entry["balance_after"] != balances[user] or balances[user] < 0:
            yield f"entry {entry['id']} says balance {entry['balance_after']}; the sum is {balances[user]}"
        if entry["kind"] != "grant" and (job is None or job["user_id"] != user or job["cost"] != abs(entry["points"])):
            yield f"entry {entry['id']} ({entry['kind']} {entry['points']}) does not fit its job"
    for (job_id, kind), count in seen.items():
        if count > 1:
            yield f"{rows.jobs[job_id]['number']}: {count} entries of {kind}"
    for job_id, job in rows.jobs.items():
        taken, returned = seen[job_id, "consume"], seen[job_id, "refund"]
        if returned > taken:
            yield f"{job['number']}: returned what was never consumed"
        if job["status"] == "failed" and job["settlement"] == "settled" and taken != returned:
            yield f"{job['number']}: failed and settled, consumed {taken} times, returned {returned} times"


def check_events(rows):
    """Every story that cannot have happened so: attempts that fall (a stale one wrote), more than one end,
    something after the end, a charge or an interruption that the rows do not know."""
    for job_id, job in rows.jobs.items():
        told = rows.events.get(job_id, [])
        names = Counter(event["event"] for event in told)
        steps = {(json.loads(event["data"])["name"], event["attempt"]) for event in told if event["event"] == "step"}
        attempts = [event["attempt"] for event in told]
        ends = [n for n, event in enumerate(told) if event["event"] in ENDS]
        for name, attempts_of_it in Counter(name for name, _attempt in steps).items():
            if attempts_of_it > 1:
                yield f"{job['number']}: step {name!r} was done by {attempts_of_it} attempts"
        if attempts != sorted(attempts):
            yield f"{job['number']}: an attempt wrote after a later one had begun: {attempts}"
        if [told[n]["event"] for n in ends] != [job["status"]] * (job["status"] in ENDS):
            yield f"{job['number']}: is {job['status']}, but its story ends {[told[n]['event'] for n in ends]}"
        if ends and (late := [event["event"] for event in told[ends[0] + 1:] if event["event"] not in
                              ("settled", "unknown", "failed", "succeeded")]):
            yield f"{job['number']}: {late} after its end"
        for event, wanted in (("charged", rows.of(job_id)[0] is not None), ("claimed", job["attempt"]),
                              ("interrupted", job["attempts_spent"]), ("submitted", 1)):
            if names[event] != wanted:
                yield f"{job['number']}: {names[event]} events of {event!r}, it must be {int(wanted)}"
        returned = [json.loads(event["data"])["points"] for event in told if event["event"] in ("settled", "refunded")]
        if job["settlement"] == "settled" and sum(returned) != job["cost"] * (rows.of(job_id)[1] is not None):
            yield f"{job['number']}: its story says {returned} returned, the ledger does not"


def check_drained(before, after, gone):
    """What a server may leave that was told to stop, against the rows before; ``gone``: it has ended, and
    nobody went on since. Nothing is lost, nothing is taken for dead, no attempt is spent by giving back."""
    for job_id, old in before.jobs.items():
        new = after.jobs.get(job_id)
        if new is None:
            yield f"{old['number']} was {old['status']} and is lost"
        elif old["status"] in ENDS and old["settlement"] != "due":
            if new != old:
                yield f"{old['number']} was final and has changed"
        else:
            for wrong in _check_drained(old, new, after.of(job_id), gone):
                yield f"{old['number']} ({before.state(job_id)} when told to stop): {wrong}"


def _check_drained(old, new, entries, gone):
    interrupted = new["error_code"] == "INTERRUPTED"
    if new["attempts_spent"] != old["attempts_spent"] + interrupted:
        yield f"attempts spent {old['attempts_spent']}, then {new['attempts_spent']} ({new['error_code']})"
    if interrupted and old["on_interrupt"] == "retry":
        yield "may be repeated, and was not"
    if new["error_code"] in ("TIMED_OUT", "INTERNAL_ERROR", "KIND_GONE"):
        yield f"ended {new['error_code']}"
    if new["settlement"] == "due" or (gone and new["status"] == "running"):
        yield f"was left {new['status']}, {new['settlement']}"
    if new["status"] == "failed" and (entries[0] is None) != (entries[1] is None):
        yield "failed, and its points were not returned"


def check_steps(before, after):
    """A step that is done stays as it is until its job has succeeded; then all of them are gone."""
    for (job_id, name), step in before.steps.items():
        job = after.jobs.get(job_id)
        if job is not None and job["status"] != "succeeded" and after.steps.get((job_id, name)) != step:
            yield f"step {name!r} of {job['number']} was done and is not as it was"
    for job_id, name in after.steps:
        if after.jobs[job_id]["status"] == "succeeded":
            yield f"step {name!r} of {after.jobs[job_id]['number']} is kept, though its job has succeeded"


def check_rows(before, after, expected, life_charges):
    """What the file must say when everything has ended, against the rows at the kill."""
    for entry_id, entry in before.entries.items():
        if after.entries.get(entry_id) != entry:
            yield f"entry {entry_id} was {entry} at the kill and is {after.entries.get(entry_id)}"
    yield from check_steps(before, after)
    for job_id, old in before.jobs.items():
        new, must = after.jobs.get(job_id), expected[job_id]
        if new is None:
            yield f"{old['number']} ({must.state}) is lost"
            continue
        for wrong in _check_job(old, new, must, after.of(job_id), life_charges):
            yield f"{old['number']} ({must.state} at the kill): {wrong}"


def _check_job(old, new, must, entries, life_charges):
    taken, returned = entries
    if new["status"] not in ("succeeded", "failed") or new["settlement"] not in ("none", "settled"):
        yield f"has not ended: {new['status']}, {new['settlement']}"
    if must.state == FINISHED and any(old[name] != new[name] for name in old):
        yield f"was final and has changed: {[name for name in old if old[name] != new[name]]}"
    if new["attempts_spent"] != must.attempts_spent:
        yield f"attempts spent {new['attempts_spent']}, not {must.attempts_spent}"
    if must.goes_on:
        if new["error_code"] in ("INTERRUPTED", "TIMED_OUT", "INTERNAL_ERROR"):
            yield f"ended {new['error_code']}, but nothing stood in its way"
        if new["status"] == "succeeded" and life_charges and (taken is None or returned is not None):
            yield f"succeeded, consumed: {taken is not None}, returned: {returned is not None}"
        return
    money = "refunded" if returned else "consumed" if taken else "none"
    if (new["status"], new["error_code"], money) != (must.status, must.code, must.money):
        yield (f"{new['status']}, {new['error_code']}, points {money}; it must be {must.status}, {must.code}, "
               f"points {must.money}")
