"""Every law of schema.sql broken once: through the app's own connection and from a foreign shell.

The laws are read from the file itself (named CHECKs, unique indexes and keys, triggers that refuse), so
a law without a case fails here. A foreign shell leaves foreign keys and recursive triggers off.
"""
import random
import re
import shutil
import sqlite3
import subprocess

import peewee
import pytest

from tests.conftest import ROOT
from webapp import db, ledger, models

SHELL = shutil.which("sqlite3")


def quoted(value):
    return "NULL" if value is None else str(value) if isinstance(value, (int, float)) else f"'{value}'"


def insert(table, how="INSERT", **values):
    return f"{how} INTO {table} ({', '.join(values)}) VALUES ({', '.join(map(quoted, values.values()))})"


def job(id, how="INSERT", **values):
    return insert("jobs", how, id=id, **{"number": f"N-{id}", "kind": "k", "user_id": 1, "timeout_seconds": 60,
                                         "cost": 1, "params": "{}", "params_hash": "h", **values})


def entry(how="INSERT", **values):
    return insert("ledger_entries", how, **values)


def claimed(id):
    return f"UPDATE jobs SET status = 'running', attempt = 1, worker_id = 'w', deadline_at = '2030' WHERE id = '{id}'"


def failed(id, more=""):
    return (f"UPDATE jobs SET status = 'failed', settlement = 'due', error_code = 'INTERRUPTED', finished_at = '2026', "
            f"worker_id = NULL, deadline_at = NULL {more} WHERE id = '{id}'")


# A file in which something of everything has happened, lawfully. User 1 has 3 points, user 2 has 1.
HISTORY = [
    "INSERT INTO users (email, token_hash) VALUES ('a@example.org', 'ta'), ('b@example.org', 'tb')",
    "INSERT INTO users (lang, guest_key) VALUES ('en', 'ga')",
    entry(user_id=1, kind="grant", points=6, balance_after=6), entry(user_id=2, kind="grant", points=1, balance_after=1),
    job("pending", exclusive_key="x:1"), job("shared", cost=0, share_key="s"), job("other"),
    job("running", exclusive_key="y:1", max_attempts=3), claimed("running"),
    job("charged"), claimed("charged"),
    entry(user_id=1, job_id="charged", kind="consume", points=-1, balance_after=5),
    job("due"), claimed("due"), entry(user_id=1, job_id="due", kind="consume", points=-1, balance_after=4), failed("due"),
    job("settled"), claimed("settled"), entry(user_id=1, job_id="settled", kind="consume", points=-1, balance_after=3),
    failed("settled"), entry(user_id=1, job_id="settled", kind="refund", points=1, balance_after=4),
    "UPDATE jobs SET settlement = 'settled' WHERE id = 'settled'",
    job("kept"), claimed("kept"), entry(user_id=1, job_id="kept", kind="consume", points=-1, balance_after=3),
    failed("kept"), "UPDATE jobs SET kept_by = 'me', kept_note = 'seen' WHERE id = 'kept'",
    "UPDATE jobs SET settlement = 'settled' WHERE id = 'kept'",
    job("done", cost=0), claimed("done"),
    "UPDATE jobs SET status = 'succeeded', finished_at = '2026', result = '{}', worker_id = NULL, deadline_at = NULL "
    "WHERE id = 'done'",
    insert("job_events", job_id="due", seq=1, event="submitted", attempt=0),
    insert("job_steps", job_id="due", name="one", output="1", attempt=1),
    insert("job_files", job_id="done", name="a.txt", media_type="text/plain", size_bytes=1),
    insert("job_watchers", job_id="due", user_id=1, request_hash="h"),
    insert("job_watchers", job_id="due", user_id=1, idempotency_key="key", request_hash="h"),
    insert("workers", id="w", role="server", host="here", pid=1),
    insert("incidents", severity="critical", scope="settle", code="C", detail="d", job_id="due"),
]
HISTORY_OF_ACCOUNTS = [
    insert("sessions", id="s", user_id=1), insert("kind_pauses", kind="k", paused_by="a@example.org"),
    insert("users", lang="en"), "UPDATE users SET deleted_at = '2026', lang = NULL WHERE id = 4",
]
HISTORY_OF_QUOTAS = [insert("quota_days", quota="q", day="2026-11-30", spent=5, spent_by_guests=2)]

# law: statements that each break it and no other. (``WITHOUT``: laws that stand in front of it.)
BROKEN = {
    "users_admin_is_known": [insert("users", is_admin=2, email="c@example.org"), insert("users", is_admin=1)],
    "users_email_is_one_address": [insert("users", email="no address"), insert("users", email="two@example.org x")],
    "users_email": [insert("users", email="A@Example.org"), "UPDATE users SET email = 'a@example.org' WHERE id = 3"],
    "users_token": [insert("users", token_hash="ta"), "UPDATE users SET token_hash = 'ta' WHERE id = 3"],
    "users_guest": [insert("users", guest_key="ga"), "UPDATE users SET guest_key = 'ga' WHERE id = 2"],
    "users_keep_ledger": ["DELETE FROM users WHERE id = 1", "DELETE FROM users"],
    "users_never_replaced": [
        insert("users", "INSERT OR REPLACE", email="A@example.org"), insert("users", "REPLACE", id=1),
        insert("users", "INSERT OR REPLACE", token_hash="ta")],
    "users_never_replaced_by_update": [
        "UPDATE OR REPLACE users SET email = 'a@example.org' WHERE id = 2", "UPDATE users SET id = 9 WHERE id = 1",
        "UPDATE OR REPLACE users SET id = 1 WHERE id = 3", "UPDATE OR REPLACE users SET rowid = 1 WHERE id = 3",
        "UPDATE users SET rowid = 9 WHERE id = 1", "UPDATE OR REPLACE users SET token_hash = 'ta' WHERE id = 3"],

    "users_deleted_is_nobody": [
        *(f"UPDATE users SET {change} WHERE id = 4" for change in (
            "email = 'd@example.org'", "password_hash = 'x'", "token_hash = 'x'", "guest_key = 'x'", "reset_hash = 'x'")),
        "UPDATE users SET deleted_at = '2026' WHERE id = 1", "UPDATE users SET deleted_at = '2026' WHERE id = 3"],
    "jobs_of_nobody_gone": [job("new", user_id=4)],
    "users_deleted_stays": ["UPDATE users SET deleted_at = NULL WHERE id = 4",
                            "UPDATE users SET deleted_at = '2027' WHERE id = 4"],
    "sessions(id)": [insert("sessions", id="s", user_id=2)],
    "kind_pauses(kind)": [insert("kind_pauses", kind="k", paused_by="b@example.org")],
    "quota_days(quota, day)": [insert("quota_days", quota="q", day="2026-11-30")],
    "quota_days_never_replaced": [
        insert("quota_days", "INSERT OR REPLACE", quota="q", day="2026-11-30"),
        insert("quota_days", "REPLACE", rowid=1, quota="r", day="2026-11-30")],
    "quota_days_only_rise": [
        "UPDATE quota_days SET spent = 4", "UPDATE quota_days SET spent_by_guests = 1", "UPDATE quota_days SET quota = 'r'",
        "UPDATE quota_days SET day = '2026-12-01'", "UPDATE quota_days SET rowid = 7"],
    "quota_days_guests_are_a_part": [
        "UPDATE quota_days SET spent_by_guests = 6", insert("quota_days", quota="r", day="2026-11-30", spent_by_guests=-1)],
    "quota_days_day": [insert("quota_days", quota="r", day="today"), insert("quota_days", quota="r", day="2026-13-01")],
    "jobs_reusable": ["UPDATE jobs SET reusable = 2 WHERE id = 'done'"],

    "jobs_status": ["UPDATE jobs SET status = 'odd' WHERE id = 'pending'", job("new", status="odd")],
    "jobs_settlement": ["UPDATE jobs SET settlement = 'odd' WHERE id = 'pending'", job("new", settlement="odd")],
    "jobs_failed_is_settled_or_due": [failed("pending", ", settlement = 'none'"),
                                      "UPDATE jobs SET settlement = 'due' WHERE id = 'pending'"],
    "jobs_finished_exactly_when_final": [failed("pending", ", finished_at = NULL"), job("new", finished_at="2026")],
    "jobs_worker_exactly_when_running": [job("new", worker_id="w"), claimed("pending").replace("'w'", "NULL")],
    "jobs_deadline_exactly_when_running": [job("new", deadline_at="2030"),
                                           claimed("pending").replace("'2030'", "NULL")],
    "jobs_failed_says_why": [failed("pending", ", error_code = NULL"), job("new", error_code="X")],
    "jobs_result_only_when_succeeded": [job("new", result="{}"), "UPDATE jobs SET result = '{}' WHERE id = 'due'"],
    "jobs_attempts": [
        job("new", max_attempts=0), job("new", attempts_spent=1), job("new", releases=1),
        "UPDATE jobs SET attempts_spent = 2 WHERE id = 'running'", "UPDATE jobs SET releases = 2 WHERE id = 'running'"],
    "jobs_on_interrupt": [job("new", on_interrupt="maybe")],
    "jobs_limits": [job("new", timeout_seconds=0), job("new", cost=-1), job("new", progress=1.1),
                    "UPDATE jobs SET progress = -0.1 WHERE id = 'running'"],
    "jobs_paid_is_not_shared": [job("new", share_key="another")],
    "jobs_kept_by_somebody_for_a_reason": [
        "UPDATE jobs SET kept_by = 'me' WHERE id = 'due'", "UPDATE jobs SET kept_note = 'so' WHERE id = 'due'"],
    "jobs_stopped_is_asked": ["UPDATE jobs SET stopped_by = 'me' WHERE id = 'running'"],
    "jobs_json": [job("new", params="{"), job("new", progress_note="{"),
                  "UPDATE jobs SET error_facts = '{' WHERE id = 'due'", "UPDATE jobs SET result = 'x' WHERE id = 'done'"],
    "jobs_one_in_flight": [job("new", exclusive_key="x:1"), job("new", exclusive_key="y:1", user_id=2)],
    "jobs_one_shared_flight": [job("new", cost=0, share_key="s")],
    "jobs_one_in_flight_stays": [job("new", how, exclusive_key=key)
                                 for how in ("INSERT", "INSERT OR REPLACE") for key in ("x:1", "y:1")],
    "jobs_one_shared_flight_stays": [job("new", how, cost=0, share_key="s") for how in ("INSERT", "REPLACE")],
    "jobs(id)": [job("due", number="other")],
    "jobs(number)": [job("new", number="N-due")],
    "jobs_born_pending": [job("new", status="running", worker_id="w", deadline_at="2030"), job("new", attempt=1),
                          job("new", status="failed", settlement="settled", error_code="X", finished_at="2026")],
    "jobs_never_replaced": [
        job("due", "INSERT OR REPLACE", number="other"), job("new", "INSERT OR REPLACE", number="N-due"),
        job("pending", "REPLACE"), job("new", "INSERT OR REPLACE", rowid=1), job("new", rowid=1)],
    "jobs_never_deleted": [f"DELETE FROM jobs WHERE id = '{id}'" for id in ("pending", "running", "due", "settled")],
    "jobs_quote": [
        *(f"UPDATE jobs SET {change} WHERE id = 'due'" for change in (
            "id = 'x'", "number = 'x'", "kind = 'x'", "user_id = 2", "cost = 0", "created_at = 'x'", "rowid = 999",
            "share_key = 'x'", "exclusive_key = 'x'")),
        "UPDATE OR REPLACE jobs SET id = 'due' WHERE id = 'pending'",
        "UPDATE OR REPLACE jobs SET number = 'N-due' WHERE id = 'pending'",
        "UPDATE OR REPLACE jobs SET exclusive_key = 'y:1' WHERE id = 'pending'",
        "UPDATE OR REPLACE jobs SET share_key = 's' WHERE id = 'pending'",
        "UPDATE OR REPLACE jobs SET rowid = (SELECT rowid FROM jobs WHERE id = 'due') WHERE id = 'pending'"],
    "jobs_moves": [
        # final is final
        *(f"UPDATE jobs SET status = 'pending', settlement = 'none', error_code = NULL, result = NULL, "
          f"finished_at = NULL WHERE id = '{id}'" for id in ("due", "settled", "done")),
        claimed("done").replace("attempt = 1", "attempt = 2, finished_at = NULL, result = NULL"),
        "UPDATE jobs SET status = 'succeeded', settlement = 'none', error_code = NULL WHERE id = 'due'",
        failed("done", ", result = NULL"),
        "UPDATE jobs SET finished_at = '2027' WHERE id = 'done'", "UPDATE jobs SET error_code = 'Y' WHERE id = 'due'",
        "UPDATE jobs SET attempt = 2 WHERE id = 'done'",
        "UPDATE jobs SET cancel_requested_at = '2026' WHERE id = 'due'",
        # settlement goes one way, and what an operator decided stays
        "UPDATE jobs SET settlement = 'due' WHERE id = 'settled'",
        "UPDATE jobs SET settlement = 'unknown' WHERE id = 'settled'",
        "UPDATE jobs SET settlement = 'none' WHERE id = 'due'",
        "UPDATE jobs SET kept_by = NULL, kept_note = NULL WHERE id = 'kept'",
        # from pending
        "UPDATE jobs SET status = 'succeeded', finished_at = '2026' WHERE id = 'pending'",
        claimed("pending").replace("attempt = 1", "attempt = 0"), claimed("pending").replace("attempt = 1", "attempt = 2"),
        "UPDATE jobs SET attempt = 1 WHERE id = 'pending'",
        # from running
        "UPDATE jobs SET worker_id = 'thief' WHERE id = 'running'", "UPDATE jobs SET attempt = 2 WHERE id = 'running'",
        "UPDATE jobs SET attempt = 0 WHERE id = 'running'",
        "UPDATE jobs SET status = 'pending', worker_id = NULL, deadline_at = NULL, attempt = 0 WHERE id = 'running'"],
    "jobs_settled_truth": ["UPDATE jobs SET settlement = 'settled' WHERE id = 'due'",
                           failed("charged", ", settlement = 'settled'")],

    "job_events(job_id, seq)": [insert("job_events", job_id="due", seq=1, event="x", attempt=0)],
    "job_events_json": [insert("job_events", job_id="due", seq=2, event="x", attempt=0, data="{")],
    "job_events_never_changed": ["UPDATE job_events SET event = 'other'", "UPDATE OR REPLACE job_events SET seq = 2"],
    "job_events_never_replaced": [insert("job_events", how, job_id="due", seq=1, event="x", attempt=0)
                                  for how in ("INSERT", "INSERT OR REPLACE")],
    "job_steps(job_id, name)": [insert("job_steps", job_id="due", name="one", output="2", attempt=1)],
    "job_steps_json": [insert("job_steps", job_id="due", name="two", output="{", attempt=1)],
    "job_files(job_id, name)": [insert("job_files", job_id="done", name="a.txt", media_type="x/y", size_bytes=2)],
    "job_watchers_idempotency": [
        insert("job_watchers", job_id="done", user_id=1, idempotency_key="key", request_hash="h")],
    "job_watchers_once": [insert("job_watchers", job_id="due", user_id=1, request_hash="h")],

    "ledger_entries_kind": [
        entry(user_id=1, kind="gift", points=1, balance_after=4), entry(user_id=1, kind="grant", points=0, balance_after=3),
        entry(user_id=1, kind="grant", points=-1, balance_after=2),
        entry(user_id=1, kind="grant", points=1, balance_after=4, job_id="done")],
    "ledger_entries_ids_ascend": [entry(how, id=-1, user_id=1, kind="grant", points=1, balance_after=4)
                                  for how in ("INSERT", "INSERT OR REPLACE")],
    "ledger_entries_never_negative": [entry(user_id=3, kind="consume", points=-1, balance_after=-1, job_id="poor")],
    "ledger_entries_once_per_job": [
        entry(user_id=1, kind="consume", points=-1, balance_after=2, job_id="charged"),
        entry(user_id=1, kind="refund", points=1, balance_after=4, job_id="settled")],
    "ledger_entries_append_only_update": [
        "UPDATE ledger_entries SET points = 100", "UPDATE ledger_entries SET note = 'x' WHERE id = 1",
        "UPDATE OR REPLACE ledger_entries SET id = 1 WHERE id = 2", "UPDATE OR REPLACE ledger_entries SET rowid = 77",
        "UPDATE OR REPLACE ledger_entries SET job_id = 'due' WHERE job_id = 'settled' AND kind = 'consume'",
        "UPDATE OR IGNORE ledger_entries SET balance_after = 9"],
    "ledger_entries_append_only_delete": ["DELETE FROM ledger_entries WHERE id = 1", "DELETE FROM ledger_entries"],
    "ledger_entries_append_only_insert": [
        *(entry(how, id=id, user_id=1, kind="grant", points=1, balance_after=4)
          for how in ("INSERT", "INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE") for id in (0, 1, 7, 9, 10**15)),
        entry("INSERT OR REPLACE", user_id=1, kind="refund", points=1, balance_after=4, job_id="settled"),
        entry("INSERT OR REPLACE", user_id=1, kind="consume", points=-1, balance_after=2, job_id="charged")],
    "ledger_entries_balance": [
        entry(user_id=1, kind="grant", points=1, balance_after=3), entry(user_id=1, kind="grant", points=1, balance_after=5),
        entry(user_id=3, kind="grant", points=1, balance_after=2)],
    "ledger_entries_known_user": [entry(user_id=99, kind="grant", points=1, balance_after=1)],
    "ledger_entries_consume_lawful": [
        entry(user_id=1, kind="consume", points=-1, balance_after=2, job_id="pending"),        # not running
        entry(user_id=1, kind="consume", points=-1, balance_after=2, job_id="done"),
        entry(user_id=1, kind="consume", points=-1, balance_after=2, job_id="nowhere"),
        entry(user_id=2, kind="consume", points=-1, balance_after=0, job_id="running"),        # another's
        entry(user_id=1, kind="consume", points=-2, balance_after=1, job_id="running"),        # another price
        entry(user_id=1, kind="consume", points=-1, balance_after=2, job_id="cancelled")],
    "ledger_entries_refund_lawful": [
        entry(user_id=1, kind="refund", points=1, balance_after=4, job_id="running"),          # never consumed
        entry(user_id=1, kind="refund", points=2, balance_after=5, job_id="due"),
        entry(user_id=2, kind="refund", points=1, balance_after=2, job_id="due")],

    "workers(id)": [insert("workers", id="w", role="server", host="here", pid=2)],
    "workers_role": [insert("workers", id="v", role="boss", host="here", pid=2)],
    "incidents_severity": [insert("incidents", severity="odd", scope="s", code="C", detail="d")],
}
# Where several laws forbid the same, these stand in front; without them this one must still hold.
WITHOUT = {
    "users_email": ["users_never_replaced", "users_never_replaced_by_update"],
    "users_token": ["users_never_replaced", "users_never_replaced_by_update"],
    "users_guest": ["users_never_replaced", "users_never_replaced_by_update"],
    "jobs_status": ["jobs_moves", "jobs_born_pending"],
    "jobs_settlement": ["jobs_moves"],
    "jobs_failed_is_settled_or_due": ["jobs_moves"],
    "jobs_one_in_flight": ["jobs_one_in_flight_stays"],
    "jobs_one_shared_flight": ["jobs_one_shared_flight_stays"],
    "jobs(id)": ["jobs_never_replaced"],
    "quota_days(quota, day)": ["quota_days_never_replaced"],
    "jobs(number)": ["jobs_never_replaced"],
    "job_events(job_id, seq)": ["job_events_never_replaced"],
    "ledger_entries_once_per_job": ["ledger_entries_append_only_insert"],
}
# What must have happened for a case to be about its law alone.
FIRST = {
    "ledger_entries_never_negative": [job("poor", user_id=3), claimed("poor")],
    "ledger_entries_consume_lawful": [
        job("cancelled"), claimed("cancelled"), "UPDATE jobs SET cancel_requested_at = '2026' WHERE id = 'cancelled'"],
}


def laws(connection):
    """``{name: what SQLite says when it is broken}`` of all laws in the file."""
    found = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind == "table" and not name.startswith("sqlite_"):
            for check in re.findall(r"CONSTRAINT (\w+)", sql):
                found[check] = f"CHECK constraint failed: {check}"
            for _, index, unique, origin, _ in connection.execute(f"PRAGMA index_list({name})").fetchall():
                columns = [row[2] for row in connection.execute(f"PRAGMA index_info({index})").fetchall()]
                if unique:
                    law = index if origin == "c" else f"{name}({', '.join(columns)})"
                    found[law] = f"UNIQUE constraint failed: {', '.join(f'{name}.{column}' for column in columns)}"
        if kind == "trigger":
            (law,) = re.findall(r"RAISE ?\(ABORT, '(\w+):", sql)
            found[name] = f"{law}: "
    return found


def run(connection, *statements):
    for statement in statements:
        connection.execute(statement)
    connection.commit()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The file of HISTORY, made once."""
    path = tmp_path_factory.mktemp("schema") / "ainori.db"
    db.prepare(path, ROOT / "schema.sql", ROOT / "migrations")
    connection = sqlite3.connect(path)
    run(connection, *HISTORY, *HISTORY_OF_ACCOUNTS, *HISTORY_OF_QUOTAS)
    connection.close()
    return path


@pytest.fixture
def file(template, tmp_path):
    return shutil.copy(template, tmp_path / "ainori.db")


def contents(path):
    connection = sqlite3.connect(path)
    try:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in sorted(tables)}
    finally:
        connection.close()


def through_the_app(path, statement):
    """What the app's own connection says to it, in a verb; ``None`` if it does it."""
    db.open_store(path, schema=ROOT / "schema.sql", migrations=ROOT / "migrations")
    try:
        db.store.write(lambda: db.execute(statement))
    except sqlite3.IntegrityError as error:
        return str(error)
    return None


def through_a_foreign_shell(path, statement):
    if SHELL:
        done = subprocess.run([SHELL, "-batch", "-bail", str(path)], input=f"{statement};\n", capture_output=True,
                              text=True)
        return None if done.returncode == 0 else done.stderr
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA foreign_keys = off")
        connection.execute("PRAGMA recursive_triggers = off")
        connection.execute(statement)
    except sqlite3.IntegrityError as error:
        return str(error)
    finally:
        connection.close()
    return None


DOORS = {"app": through_the_app, "shell": through_a_foreign_shell}


def test_every_law_has_a_case_that_breaks_it(template):
    connection = sqlite3.connect(template)
    assert BROKEN.keys() == laws(connection).keys()
    connection.close()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("law", BROKEN)
def test_the_law_is_kept_and_says_its_name(law, door, file):
    connection = sqlite3.connect(file)
    says = laws(connection)[law]
    for trigger in WITHOUT.get(law, ()):
        connection.execute(f"DROP TRIGGER {trigger}")
    run(connection, *FIRST.get(law, ()))
    connection.close()
    before = contents(file)
    for statement in BROKEN[law]:
        refused = DOORS[door](file, statement)
        assert refused is not None, f"{door} was allowed to: {statement}"
        assert says in refused, statement
        assert contents(file) == before, statement


DROPPED = dict(reversed(found) for found in re.findall(
    r"^CREATE (TRIGGER|UNIQUE INDEX) (\w+)", (ROOT / "schema.sql").read_text(), re.MULTILINE))


@pytest.mark.parametrize("law", DROPPED)
def test_without_the_law_the_same_is_done(law, file):
    """So it is not there for nothing: no other law would have refused."""
    connection = sqlite3.connect(file, isolation_level=None)
    for trigger in WITHOUT.get(law, ()):
        connection.execute(f"DROP TRIGGER {trigger}")
    run(connection, *FIRST.get(law, ()), f"DROP {DROPPED[law].removeprefix('UNIQUE ')} {law}")
    done = []
    for statement in BROKEN[law]:
        connection.execute("BEGIN")
        try:
            done.append(connection.execute(statement))
        except sqlite3.IntegrityError:
            pass  # some ways are closed twice
        connection.execute("ROLLBACK")
    connection.close()
    assert done


# -------------------------------------------------------------------------------- any statement at all

HOW = ["", " OR REPLACE", " OR IGNORE", " OR FAIL", " OR ROLLBACK"]
TIMES = ["2026", "2027", None]
ANY = {"status": ["pending", "running", "failed", "succeeded"], "settlement": ["none", "due", "settled", "unknown"],
       "error_code": ["CANCELLED", "X", None], "kind": ["grant", "consume", "refund"], "exclusive_key": ["x:1", "y:1", None],
       "share_key": ["s", None], "email": ["a@example.org", "b@example.org", None], "token_hash": ["ta", "tb", None],
       "guest_key": ["ga", None],
       **dict.fromkeys(("params", "result", "data"), ["{}", None]), "params_hash": ["h"], "kept_by": ["me", None],
       **dict.fromkeys(("finished_at", "deadline_at", "cancel_requested_at", "worker_id", "created_at"), TIMES)}


class Vandal:
    """Statements at random, often nearly lawful ones, as from a shell without foreign keys."""

    def __init__(self, connection, seed):
        self.connection, self.chance, self.made = connection, random.Random(seed), 0
        self.columns = {table: ["rowid", *(column[1] for column in columns_of(connection, table))]
                        for table in ("users", "jobs", "ledger_entries")}

    def statement(self):
        self.made += 1
        return self.chance.choice([self.anything_new, self.anything_changed, self.an_entry, self.a_move, self.a_move])()

    def job(self):
        return self.connection.execute("SELECT id FROM jobs ORDER BY (rowid * ?) % 97 LIMIT 1",
                                       (self.chance.randrange(97),)).fetchone()[0]

    def value(self, column):
        if column in ("id", "job_id", "number") and self.chance.random() < 0.7:
            return self.job()
        return self.chance.choice(ANY.get(column, [-1, 0, 1, 2, 3, 5, 9, 12, None, "x"]))

    def anything_new(self):
        table = self.chance.choice(list(self.columns))
        more = {column: self.value(column) for column in self.chance.sample(self.columns[table], 2)}
        how = f"INSERT{self.chance.choice(HOW)}"
        if table == "jobs":
            return job(more.pop("id", f"new {self.made}"), how, **{"exclusive_key": self.value("exclusive_key"), **more})
        if table == "ledger_entries":
            return self.an_entry(**more)
        return insert(table, how, **more)

    def anything_changed(self):
        table = self.chance.choice(list(self.columns))
        changes = ", ".join(f"{column} = {quoted(self.value(column))}"
                            for column in self.chance.sample(self.columns[table], self.chance.choice([1, 2, 4])))
        where = self.chance.choice(["1", f"rowid = {self.chance.randrange(1, 30)}"])
        if self.chance.random() < 0.2:
            return f"DELETE FROM {table} WHERE {where}"
        return f"UPDATE{self.chance.choice(HOW)} {table} SET {changes} WHERE {where}"

    def an_entry(self, **more):
        user, points = self.chance.choice([1, 2, 3]), self.chance.choice([-1, -1, 1, 2])
        before = self.connection.execute("SELECT balance_after FROM ledger_entries WHERE user_id = ? ORDER BY id DESC",
                                         (user,)).fetchone()
        kind = "consume" if points < 0 else self.chance.choice(["grant", "refund"])
        return entry(f"INSERT{self.chance.choice(HOW)}", **{
            "user_id": user, "points": points, "balance_after": points + (before[0] if before else 0), "kind": kind,
            "job_id": None if kind == "grant" else self.job(), **more})

    def a_move(self):
        id = self.job()
        return self.chance.choice([
            claimed(id), failed(id), f"UPDATE jobs SET settlement = 'settled' WHERE id = '{id}'",
            f"UPDATE jobs SET cancel_requested_at = '2026' WHERE id = '{id}'",
            failed(id).replace("INTERRUPTED", "CANCELLED"),
            f"UPDATE jobs SET kept_by = 'me', kept_note = 'x' WHERE id = '{id}'",
            f"UPDATE jobs SET kept_by = NULL, kept_note = NULL WHERE id = '{id}'",
            f"UPDATE jobs SET status = 'pending', worker_id = NULL, deadline_at = NULL WHERE id = '{id}'",
            f"UPDATE jobs SET status = 'succeeded', finished_at = '2026', worker_id = NULL, deadline_at = NULL "
            f"WHERE id = '{id}'"])


@pytest.mark.parametrize("seed", range(3))
def test_no_statements_from_a_shell_break_the_books_or_rewrite_the_ledger(seed, file):
    db.open_store(file, schema=ROOT / "schema.sql", migrations=ROOT / "migrations")
    connection = sqlite3.connect(file, isolation_level=None)  # foreign keys and recursive triggers are off
    vandal, done, ledger_before = Vandal(connection, seed), [], []
    for _ in range(4000):
        statement = vandal.statement()
        try:
            connection.execute(statement)
        except sqlite3.Error:
            continue
        done.append(statement)
        now = connection.execute("SELECT * FROM ledger_entries ORDER BY id").fetchall()
        assert now[:len(ledger_before)] == ledger_before, statement
        ledger_before = now
        if len(done) % 10 == 0:
            breaches = [breach for breach in ledger.audit() if "refers to a row" not in breach]
            assert not breaches, (breaches, done[-10:])
    db.close_store()  # what refers to nothing is no breach here: foreign keys were off
    assert len(done) > 300 and len(ledger_before) > 10
    connection.close()


# --------------------------------------------------------------------------- lawful from any shell

def shell(path, statement):
    refused = through_a_foreign_shell(path, statement)
    assert refused is None, refused


def test_a_foreign_shell_can_grant_by_hand_and_the_app_counts_it(file):
    shell(file, "INSERT INTO ledger_entries (user_id, kind, points, balance_after, note) "
                "SELECT 1, 'grant', 5, balance_after + 5, 'by hand' FROM ledger_entries WHERE user_id = 1 "
                "ORDER BY id DESC LIMIT 1")
    db.open_store(file, schema=ROOT / "schema.sql", migrations=ROOT / "migrations")
    assert ledger.balance(1) == 8
    newest = ledger.statement(1)[0]
    assert (newest["note"], newest["id"]) == ("by hand", 8)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", newest["created_at"])
    assert ledger.grant(1, 1, "by the app") == 9


def test_a_foreign_shell_may_give_the_next_id_itself(file):
    shell(file, entry(id=8, user_id=2, kind="grant", points=1, balance_after=2))
    shell(file, entry(user_id=2, kind="grant", points=1, balance_after=3))
    assert [row[0] for row in contents(file)["ledger_entries"]] == list(range(1, 10))


def test_defaults_fill_in_what_a_foreign_shell_leaves_out(file):
    shell(file, job("new"))
    shell(file, "INSERT INTO users (email) VALUES ('c@example.org')")
    shell(file, claimed("new"))
    connection = sqlite3.connect(file)
    connection.row_factory = sqlite3.Row
    row = connection.execute("SELECT * FROM jobs WHERE id = 'new'").fetchone()
    assert (row["status"], row["attempt"], row["settlement"], row["progress"], row["on_interrupt"], row["lang"]) == (
        "running", 1, "none", 0.0, "fail", "en")
    assert row["created_at"].endswith("Z")
    connection.close()


def test_a_foreign_shell_can_delete_what_no_law_keeps(file):
    shell(file, "DELETE FROM jobs WHERE id = 'done'")
    shell(file, "DELETE FROM users WHERE id = 3")


def test_nothing_in_the_file_needs_a_function_of_ours(template):
    connection = sqlite3.connect(template)
    known = {row[0] for row in connection.execute("SELECT DISTINCT name FROM pragma_function_list")}
    words = {"values", "check", "in", "exists", "jobs", "users", "index", "and", "or", "not", "when", "as", "raise", "key",
             "references", "case", "on", "default"}
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
        sql = re.sub(r"--.*", "", re.sub(r"'[^']*'", "''", sql))
        called = {word.lower() for word in re.findall(r"\b(\w+) ?\(", sql)}
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        assert called - known - words - tables == set(), name
    connection.close()


# ------------------------------------------------------------------------------- tables and models

def columns_of(connection, table):
    return connection.execute(f"PRAGMA table_info({table})").fetchall()


def tables_of(connection):
    return {row[1]: row for row in connection.execute("PRAGMA table_list").fetchall()
            if row[2] == "table" and not row[1].startswith("sqlite_")}


def test_every_table_is_strict(template):
    connection = sqlite3.connect(template)
    assert {name for name, row in tables_of(connection).items() if not row[5]} == set()
    connection.close()


def test_models_mirror_the_schema(template):
    connection = sqlite3.connect(template)
    of_table = {model._meta.table_name: model for model in vars(models).values()
                if isinstance(model, type) and issubclass(model, peewee.Model) and model is not peewee.Model}
    assert of_table.keys() == tables_of(connection).keys()
    sorts = {"TEXT": (peewee.TextField,), "INTEGER": (peewee.IntegerField, peewee.AutoField), "REAL": (peewee.FloatField,)}
    for table, model in of_table.items():
        columns = columns_of(connection, table)
        fields = model._meta.sorted_fields
        assert [field.column_name for field in fields] == [column[1] for column in columns], table
        for field, (_, name, sort, not_null, _, in_key) in zip(fields, columns, strict=True):
            assert field.null == (not not_null and not in_key), f"{table}.{name}"
            assert isinstance(field, sorts[sort]), f"{table}.{name}"
        key = model._meta.primary_key
        names = key.field_names if isinstance(key, peewee.CompositeKey) else (key.name,)
        assert list(names) == [column[1] for column in sorted(columns, key=lambda c: c[5]) if column[5]], table
    connection.close()


# ------------------------------------------------------------------------------------------- views

def view(path, sql):
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_every_view_can_be_selected(template):
    names = [row["name"] for row in view(template, "SELECT name FROM sqlite_master WHERE type = 'view'")]
    assert names == ["v_in_flight", "v_job_timeline", "v_statement", "v_incidents_open"]
    for name in names:
        assert view(template, f"SELECT * FROM {name}"), name


def test_v_in_flight_shows_who_waits_for_what_and_whether_it_is_charged(template):
    found = {row["job_id"]: row for row in view(template, "SELECT * FROM v_in_flight")}
    assert found.keys() == {"pending", "shared", "other", "running", "charged"}
    assert {id: row["charged"] for id, row in found.items() if row["charged"]} == {"charged": 1}
    assert found["running"]["asked_by"] == "a@example.org" and found["running"]["worker_id"] == "w"
    assert found["pending"]["number"] == "N-pending" and found["pending"]["progress"] == "0.0 %"


def test_v_job_timeline_tells_events_money_and_incidents(template):
    told = {(row["source"], row["what"], row["detail"])
            for row in view(template, "SELECT * FROM v_job_timeline WHERE job_id = 'due'")}
    assert told == {("event", "submitted", None), ("ledger", "consume -1", "balance 4"), ("incident", "critical C", "d")}


def test_v_statement_is_everyones_points_in_order(template):
    lines = [tuple(row)[:1] + tuple(row)[3:8] for row in view(template, "SELECT * FROM v_statement WHERE user_id = 1")]
    assert lines[0] == ("a@example.org", "grant", 6, 6, None, None)
    assert lines[-1] == ("a@example.org", "consume", -1, 3, "N-kept", "k")
    assert [line[3] for line in lines] == [6, 5, 4, 3, 4, 3]


def test_v_incidents_open_leaves_out_what_is_acknowledged_or_resolved(file):
    assert [row["code"] for row in view(file, "SELECT * FROM v_incidents_open")] == ["C"]
    for column in ("acknowledged_at", "resolved_at"):
        shell(file, insert("incidents", severity="info", scope="s", code=column, detail="d", **{column: "2026"}))
    assert [row["code"] for row in view(file, "SELECT * FROM v_incidents_open")] == ["C"]
