"""Every verb torn at every statement: the file is as before, and the verb can be run again.

Each verb is run once to learn its statements. Then, on fresh copies of the same file, the n-th statement
fails; and again, in a process of its own, the process dies instead of it.
"""
import fcntl
import importlib
import inspect
import json
import os
import pkgutil
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gevent
import pytest

import webapp
from tests.conftest import ROOT
from tests.kinds import KINDS
from tests.test_schema import contents
from webapp import accounts, db, incidents, jobs, ledger, quotas, recovery, workers
from webapp.errors import AinoriError

KINDS = {kind.name: kind for kind in KINDS}
QUOTA = KINDS["metered"].quota
DEAD = "dead-worker"  # its lock file lies there, and nobody holds it


def open_store(path):
    db.open_store(path, schema=ROOT / "schema.sql", migrations=ROOT / "migrations")


@pytest.fixture(autouse=True)
def signals_as_at_a_start():
    jobs.signals.__init__()


# ------------------------------------------------------------------------------------- what is torn

class World:
    """An open file with a user who has points, and what scenarios need."""

    def __init__(self):
        self.user = accounts.add_user("a@example.org", None, "token a")
        self.other = accounts.add_user("b@example.org", None, "token b")
        ledger.grant(self.user, 9, "to begin with")
        workers._register(DEAD, "server")

    def order(self, kind, user=None, key=None, retry_of=None, **params):
        kind = KINDS[kind]
        return jobs.order(kind, kind.params(**params), jobs.Asker(user or self.user, False), settings={},
                          idempotency_key=key, retry_of=retry_of)

    def pending(self, kind, **options):
        return jobs._climb(self.order(kind, **options), 100).job_id

    def running(self, kind, **options):
        job = self.pending(kind, **options)
        assert [row["id"] for row in jobs.claim(DEAD, list(KINDS))] == [job]
        return job

    def charged(self, kind, **options):
        job = self.running(kind, **options)
        jobs.charge(job, 1)
        return job

    def live(self):
        """Its worker is not dead after all: somebody holds the lock file."""
        fcntl.flock(os.open(db.store.path.parent / "workers" / f"{DEAD}.lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)

    def failed(self, kind, code="INTERRUPTED", **options):
        job = self.charged(kind, **options)
        jobs.fail(job, 1, code)
        return job


@dataclass
class Scenario:
    """``act`` made ready in a ``World``: a function without arguments that calls the verb.

    ``settles``: the verb brings points into order. If a statement of that fails it may also end as
    ``unknown``, with an incident; ``settles`` is what whoever comes next does.
    """

    verb: str
    ready: object
    settles: object = None

    def __str__(self):
        return f"{self.verb} {self.ready.__name__.strip('_')}"


SCENARIOS = []


def scenario(verb, settles=None):
    def add(ready):
        SCENARIOS.append(Scenario(verb, ready, settles))
        return ready
    return add


def settle_next(act):
    jobs.poll(act.job)


def decide_again(act):
    act()


@scenario("ledger.grant")
def to_a_user(world):
    return lambda: ledger.grant(world.user, 2, "x")


@scenario("ledger.grant")
def after_what_was_seen(world):
    return lambda: ledger.grant(world.user, 2, "x", after=1)


@scenario("ledger.consume")
def of_a_running_job(world):
    job = world.running("paid")
    return lambda: ledger.consume(world.user, job, 1)


@scenario("ledger.refund")
def of_a_consumed_job(world):
    job = world.failed("paid")
    return lambda: ledger.refund(job, "x")


@scenario("incidents.record")
def about_a_job(world):
    job = world.failed("paid")
    return lambda: incidents.record("critical", "s", "C", "d", job, world.user)


@scenario("incidents.resolve")
def an_open_one(world):
    job = world.failed("paid")
    incidents.record("critical", "s", "C", "d", job, world.user)
    return lambda: incidents.resolve(job, "C")


@scenario("incidents.acknowledge")
def an_open_incident(world):
    incidents.record("critical", "s", "C", "d")
    return lambda: incidents.acknowledge(1)


@scenario("accounts.add_user")
def somebody(world):
    return lambda: accounts.add_user("c@example.org", None, "token c")


@scenario("accounts.add_guest")
def a_guest(world):
    return lambda: accounts.add_guest("en", "key of its cookie")


@scenario("accounts.take_along")
def a_guests_work(world):
    guest = accounts.add_guest("en", "key of its cookie")
    world.pending("free", user=guest)
    return lambda: accounts.take_along(guest, world.user)


@scenario("ledger.audit")
def of_the_books(world):
    world.failed("paid")
    return ledger.audit


@scenario("accounts.set_token")
def another_token(world):
    return lambda: accounts.set_token(world.user, "new token")


@scenario("accounts.add_user")
def with_points(world):
    return lambda: accounts.add_user("c@example.org", None, "token c", points=3)


@scenario("accounts.register")
def a_guest_who_registers(world):
    guest = accounts.add_guest("en", "key of its cookie")
    world.pending("free", user=guest)
    return lambda: accounts.register("c@example.org", "hash", "session", lang="ja", welcome_points=3, guest_id=guest)


@scenario("accounts.make_first_admin")
def the_operator(world):
    return lambda: accounts.make_first_admin(world.user)


@scenario("accounts.sign_in")
def one_browser_too_many(world):
    for n in range(accounts.SESSIONS_MAX):
        accounts.sign_in(world.user, f"session {n}")
    return lambda: accounts.sign_in(world.user, "session")


@scenario("accounts.sign_out")
def of_one_browser(world):
    accounts.sign_in(world.user, "one")
    accounts.sign_in(world.user, "two")
    return lambda: accounts.sign_out("one")


@scenario("accounts.sign_out_everywhere")
def of_all_browsers(world):
    accounts.sign_in(world.user, "one")
    accounts.sign_in(world.user, "two")
    return lambda: accounts.sign_out_everywhere(world.user)


@scenario("incidents.deed")
def a_deed(world):
    by = {"id": world.other, "email": "b@example.org"}
    return lambda: incidents.deed("OPERATOR_TOKEN", by, "access token removed",
                                  lambda: accounts.set_token(world.user, None), user_id=world.user)


@scenario("accounts.set_admin")
def one_operator_of_two(world):
    accounts.make_first_admin(world.user)
    accounts.set_admin(world.other, True)
    return lambda: accounts.set_admin(world.user, False)


@scenario("accounts.change_email")
def another_address(world):
    return lambda: accounts.change_email(world.user, "new@example.org")


@scenario("accounts.change_password")
def another_password(world):
    accounts.sign_in(world.user, "one")
    return lambda: accounts.change_password(world.user, "new hash", "session")


@scenario("accounts.set_reset")
def a_link(world):
    return lambda: accounts.set_reset(world.user, "one-time")


@scenario("accounts.reset_password")
def by_a_link(world):
    accounts.sign_in(world.user, "one")
    accounts.set_reset(world.user, "one-time")
    return lambda: accounts.reset_password("one-time", "new hash", "session")


@scenario("accounts.set_lang")
def another_language(world):
    return lambda: accounts.set_lang(world.user, "ja")


@scenario("accounts.delete")
def somebody_who_leaves(world):
    accounts.sign_in(world.user, "one")
    jobs.settle(world.failed("paid"))
    return lambda: accounts.delete(world.user)


@scenario("workers._register")
def a_worker(world):
    return lambda: workers._register("another", "server")


@scenario("workers._unregister")
def a_worker_that_stops(world):
    return lambda: workers._unregister(DEAD)


@scenario("workers.beat")
def a_worker_that_lives(world):
    return lambda: workers.beat(DEAD)


@scenario("jobs.beat")
def whose_clock_was_set(world):
    world.charged("paid")
    set_clock(DEAD, workers.clock() - 3600)
    return lambda: jobs.beat(DEAD)


@db.verb
def set_clock(worker_id, clock):
    db.execute("UPDATE workers SET clock = ? WHERE id = ?", (clock, worker_id))


@scenario("jobs._climb")
def new(world):
    order = world.order("slow", key="k")
    return lambda: jobs._climb(order, 100)


@scenario("jobs._climb")
def repeated(world):
    world.pending("paid", key="k")
    order = world.order("paid", key="k")
    return lambda: jobs._climb(order, 100)


@scenario("jobs._climb")
def joined(world):
    world.pending("shared")
    order = world.order("shared", user=world.other)
    return lambda: jobs._climb(order, 100)


@scenario("jobs._climb")
def cached(world):
    jobs.succeed(world.running("shared"), 1, "{}")
    order = world.order("shared", user=world.other)
    return lambda: jobs._climb(order, 100)


@scenario("jobs._climb")
def past_an_orphan(world):
    world.charged("slow")
    order = world.order("slow")
    return lambda: jobs._climb(order, 100)


@scenario("jobs._climb")
def tried_again(world):
    job = world.charged("again")
    jobs.keep_step(job, 1, "one", "1")
    jobs.fail(job, 1, "X")
    order = world.order("again", retry_of=job)
    return lambda: jobs._climb(order, 100)


@scenario("jobs.pause_kind")
def a_kind(world):
    return lambda: jobs.pause_kind("paid", "op@example.org", "Back at noon.")


@scenario("jobs.resume_kind")
def a_paused_kind(world):
    jobs.pause_kind("paid", "op@example.org")
    return lambda: jobs.resume_kind("paid")


@scenario("quotas.spend")
def the_first_unit_of_a_day(world):
    return lambda: quotas.spend(QUOTA, 10, world.user, 1)


@scenario("quotas.spend")
def one_more_unit(world):
    quotas.spend(QUOTA, 10, world.user, 1)
    return lambda: quotas.spend(QUOTA, 10, world.user, 1)


@scenario("quotas.exhaust")
def a_day_of_which_nothing_was_spent(world):
    return lambda: quotas.exhaust(QUOTA, time.time())


@scenario("quotas.reopen")
def a_day_that_was_used_up(world):
    quotas.exhaust(QUOTA, time.time())
    return lambda: quotas.reopen(QUOTA)


@scenario("jobs.claim")
def three_of_the_queue(world):
    for text in "abc":
        world.pending("free", text=text)
    return lambda: jobs.claim(DEAD, list(KINDS), 3)


@scenario("jobs.progress")
def of_a_stage_again(world):
    job = world.running("paid")
    jobs.progress(job, 1, "work", 0.1, {})
    return lambda: jobs.progress(job, 1, "work", 0.5, {"done": 1})


@scenario("jobs.charge")
def once(world):
    job = world.running("paid")
    return lambda: jobs.charge(job, 1)


@scenario("jobs.refund")
def while_it_goes_on(world):
    job = world.charged("paid")
    return lambda: jobs.refund(job, 1, "nothing came of it")


@scenario("jobs.keep_step")
def a_step(world):
    job = world.running("again")
    return lambda: jobs.keep_step(job, 1, "one", '{"a": 1}')


@scenario("jobs.keep_file")
def over_another(world):
    job = world.running("again")
    jobs.keep_file(job, 1, "a.txt", "text/plain", 1)
    return lambda: jobs.keep_file(job, 1, "a.txt", "text/csv", 2)


@scenario("jobs.succeed")
def with_a_result(world):
    job = world.charged("paid")
    return lambda: jobs.succeed(job, 1, '{"a": 1}', 3)


@scenario("jobs.fail")
def with_facts(world):
    job = world.charged("paid")
    return lambda: jobs.fail(job, 1, "UPSTREAM_UNAVAILABLE", {"host": "h"})


@scenario("jobs.release")
def back_into_the_queue(world):
    job = world.charged("again")
    return lambda: jobs.release(job, 1, 10)


@scenario("jobs.release")
def of_what_may_not_be_repeated(world):
    job = world.charged("paid")
    return lambda: jobs.release(job, 1, 10)


@scenario("jobs.time_out")
def to_failure(world):
    job = world.charged("paid")
    return lambda: jobs.time_out(job, 1)


@scenario("jobs.time_out")
def to_another_attempt(world):
    job = world.charged("again")
    return lambda: jobs.time_out(job, 1)


@scenario("jobs._cancel", settle_next)
def while_pending(world):
    job = world.pending("paid")
    act = lambda: jobs._cancel(job, world.user)  # noqa: E731
    act.job = job
    return act


@scenario("jobs._cancel")
def while_running(world):
    job = world.charged("paid")
    world.live()
    return lambda: jobs._cancel(job, world.user)


@scenario("jobs._cancel", settle_next)
def of_what_has_died(world):
    job = world.charged("paid")
    act = lambda: jobs._cancel(job, world.user)  # noqa: E731
    act.job = job
    return act


@scenario("jobs._cancel")
def a_joiner_leaves(world):
    job = world.pending("shared")
    jobs._climb(world.order("shared", user=world.other), 100)
    return lambda: jobs._cancel(job, world.other)


@scenario("jobs._stop", settle_next)
def stopped_while_pending(world):
    job = world.pending("paid")
    act = lambda: jobs._stop(job, "me")  # noqa: E731
    act.job = job
    return act


@scenario("jobs._stop")
def stopped_while_running(world):
    job = world.charged("paid")
    world.live()
    return lambda: jobs._stop(job, "me")


@scenario("jobs.settle", settle_next)
def what_the_operator_stopped_after_the_charge(world):
    job = world.charged("paid")
    world.live()
    jobs._stop(job, "me")
    jobs.fail(job, 1, "CANCELLED")
    act = lambda: jobs.settle(job)  # noqa: E731
    act.job = job
    return act


@scenario("jobs.reap")
def a_paid_orphan(world):
    job = world.charged("paid")
    return lambda: jobs.reap(job)


@scenario("jobs.reap")
def an_orphan_that_is_tried_again(world):
    job = world.charged("again")
    return lambda: jobs.reap(job)


@scenario("jobs.reap")
def an_orphan_with_its_attempts_spent(world):
    job = world.charged("again")
    for attempt in (1, 2):
        assert jobs.time_out(job, attempt)["status"] == "pending"
        jobs.claim(DEAD, list(KINDS))
    return lambda: jobs.reap(job)


@scenario("jobs.settle", settle_next)
def what_was_consumed(world):
    job = world.failed("paid")
    act = lambda: jobs.settle(job)  # noqa: E731
    act.job = job
    return act


@scenario("jobs.settle", settle_next)
def what_was_never_consumed(world):
    job = world.running("paid")
    jobs.fail(job, 1, "X")
    act = lambda: jobs.settle(job)  # noqa: E731
    act.job = job
    return act


@scenario("jobs.settle", settle_next)
def what_was_cancelled_after_the_charge(world):
    job = world.charged("paid")
    db.store.write(db.execute, f"UPDATE jobs SET cancel_requested_at = {db.NOW} WHERE id = ?", (job,))
    jobs.fail(job, 1, "CANCELLED")
    act = lambda: jobs.settle(job)  # noqa: E731
    act.job = job
    return act


@scenario("jobs.settle_by_hand", decide_again)
def keeping_it(world):
    job = world.failed("paid")
    act = lambda: jobs.settle_by_hand(job, keep=True, by="me", note="seen")  # noqa: E731
    act.job = job
    return act


@scenario("jobs.settle_by_hand", decide_again)
def returning_it(world):
    job = world.failed("paid")
    act = lambda: jobs.settle_by_hand(job, keep=False, by="me", note="seen")  # noqa: E731
    act.job = job
    return act


@scenario("jobs.fail_gone")
def a_kind_that_went(world):
    job = world.pending("paid")
    return lambda: jobs.fail_gone(job)


@scenario("jobs.mark_seen")
def an_ending(world):
    job = world.failed("paid")
    return lambda: jobs.mark_seen(job, world.user)


@scenario("incidents.record")
def about_no_job_again(world):
    incidents.record("warning", "s", "C", "first")
    return lambda: incidents.record("warning", "s", "C", "second")


@scenario("incidents.acknowledge_all")
def all_of_a_code(world):
    for detail in "one", "two":
        incidents.record("critical", "s", "C", detail)
    return lambda: incidents.acknowledge_all("C")


@scenario("incidents.told")
def of_open_ones(world):
    incidents.record("critical", "s", "C", "d")
    incidents.record("critical", "s", "D", "d")
    return lambda: incidents.told([1, 2])


@scenario("recovery._expire_job")
def an_old_one(world):
    job = world.running("shared")
    jobs.keep_step(job, 1, "one", "1")
    jobs.keep_file(job, 1, "a.txt", "text/plain", 1)
    jobs.succeed(job, 1, "{}")
    return lambda: recovery._expire_job(job)


@scenario("recovery._expire_job")
def of_a_deleted_account(world):
    job = world.running("shared")
    jobs.succeed(job, 1, "{}")
    return lambda: recovery._expire_job(job, whole=True)


@scenario("recovery._expire_incidents")
def acknowledged_ones(world):
    incidents.record("info", "s", "C", "d")
    incidents.acknowledge(1)
    time.sleep(0.01)
    return lambda: recovery._expire_incidents("-0 days")


@scenario("recovery._delete_workers")
def one_long_gone(world):
    return lambda: recovery._delete_workers([DEAD])


def all_verbs():
    found = set()
    for module in pkgutil.walk_packages(webapp.__path__, "webapp."):
        if module.name.endswith("__main__") or module.name.startswith("webapp.kinds."):
            continue
        for thing in vars(importlib.import_module(module.name)).values():
            if inspect.isfunction(thing) and getattr(thing, "is_verb", False):
                found.add(f"{thing.__module__.removeprefix('webapp.')}.{thing.__qualname__}")
    return found


def test_every_verb_has_a_scenario():
    assert all_verbs() == {scenario.verb for scenario in SCENARIOS}


# ---------------------------------------------------------------------------------------- tearing

class Torn:
    """The writing connection; its statement number ``at`` (from 1) is not run: ``instead`` is called."""

    def __init__(self, connection, at=None, instead=None):
        self._connection, self._at, self._instead = connection, at, instead
        self.statements = []

    @property
    def in_transaction(self):
        return self._connection.in_transaction

    def execute(self, sql, *parameters):
        self.statements.append(sql)
        if len(self.statements) == self._at:
            self._instead()
        return self._connection.execute(sql, *parameters)


def tear(act, at=None, instead=None):
    """Run it torn; returns the statements that were begun."""
    torn = db.store.write_connection = Torn(db.store.write_connection, at, instead)
    try:
        act()
    except (AinoriError, sqlite3.Error):
        pass
    finally:
        db.store.write_connection = torn._connection
    return torn.statements


def fail():
    raise sqlite3.OperationalError("torn here")


def die():
    os._exit(9)


def run_and_die(path, act, at):
    """In a process of its own: it ends at that statement, without a word to anybody."""
    child = os.fork()
    if child == 0:
        try:
            open_store(path)
            tear(act, at, die)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def timeless(found):
    """Rows without their times."""
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "T", json.dumps(found)))


def as_unknown(before, after):
    """Whether nothing changed but that a job's points are unknown, with an incident."""
    return ([row[4] for row in after["incidents"]].count(jobs.LOOKUP_FAILED) == 1
            and after["ledger_entries"] == before["ledger_entries"]
            and "unknown" in {row[20] for row in after["jobs"]})


@pytest.fixture
def original(tmp_path):
    """The path of a file to be, with a dead worker beside it."""
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / f"{DEAD}.lock").touch()
    return tmp_path / "original.db"


def learn(scenario, original):
    """Make the file ready and run the verb on a copy: ``(act, before, end, statements)``."""
    open_store(original)
    act = scenario.ready(World())
    db.close_store()
    whole = shutil.copy(original, original.with_name("whole.db"))
    open_store(whole)
    statements = tear(act)
    db.close_store()
    before, end = contents(original), contents(whole)
    assert end != before or scenario.ready in (repeated, of_the_books)
    return act, before, end, statements


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_verb_with_a_failing_statement_leaves_the_file_as_it_was_and_can_be_run_again(scenario, original):
    act, before, end, statements = learn(scenario, original)
    copy = shutil.copy(original, original.with_name("copy.db"))
    open_store(copy)
    for n, statement in enumerate(statements, 1):
        where = f"statement {n} of {len(statements)}: {statement}"
        tear(act, n, fail)
        after = contents(copy)
        if after == before:
            continue
        assert scenario.settles and as_unknown(before, after), where
        scenario.settles(act)
        now = contents(copy)
        assert timeless(now["ledger_entries"]) == timeless(end["ledger_entries"]), where
        assert jobs.get(act.job)["settlement"] == "settled" and not incidents.listing(), where
        assert ledger.audit() == [], where
        db.close_store()
        shutil.copy(original, copy)
        open_store(copy)
    act()
    assert timeless(contents(copy)) == timeless(end)
    assert ledger.audit() == []


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_process_that_dies_within_a_verb_leaves_the_file_as_it_was_for_the_next(scenario, original):
    act, before, end, statements = learn(scenario, original)
    copy = original.with_name("copy.db")
    for n, statement in enumerate(statements, 1):
        where = f"statement {n} of {len(statements)}: {statement}"
        shutil.copy(original, copy)
        run_and_die(copy, act, n)
        assert contents(copy) == before, where
        open_store(copy)
        act()
        assert timeless(contents(copy)) == timeless(end), where
        assert ledger.audit() == [], where
        db.close_store()


# ------------------------------------------------------------------ between reaping and settling

def submitted_and_charged(someone, kind="paid", **params):
    job = someone.submit(kind, **params).json["job"]["id"]
    workers._register(DEAD, "server") if not db.value("SELECT 1 FROM workers WHERE id = ?", (DEAD,)) else None
    (db.store.path.parent / "workers" / f"{DEAD}.lock").touch()
    assert [row["id"] for row in jobs.claim(DEAD, [kind])] == [job]
    jobs.charge(job, 1)
    return job


def test_whoever_polls_after_a_reap_that_nobody_settled_settles(person):
    someone = person(points=3)
    job = submitted_and_charged(someone)
    jobs.reap(job)
    assert jobs.get(job)["settlement"] == "due" and someone.balance() == 2
    shown = someone.job(job)
    assert (shown["status"], shown["money"], someone.balance()) == ("failed", "refunded", 3)
    assert shown["money_message"] == "The work was interrupted. The 1 point it had used has been returned (balance 3)."


def test_a_pass_settles_what_a_reap_left_due(person):
    someone = person(points=3)
    jobs.reap(submitted_and_charged(someone))
    found = recovery.one_pass()
    assert (found.points, found.unknown, someone.balance()) == (1, 0, 3)


def test_two_settles_at_once_return_the_points_once(person):
    someone = person(points=3)
    job = submitted_and_charged(someone)
    jobs.reap(job)
    gevent.joinall([gevent.spawn(jobs.settle, job) for _ in range(5)], raise_error=True)
    assert someone.balance() == 3
    assert [event["event"] for event in jobs.events(job)].count("settled") == 1


def test_two_reaps_at_once_interrupt_once(person):
    someone = person(points=3)
    job = submitted_and_charged(someone, "again", text="x")
    reaped = [gevent.spawn(jobs.reap, job) for _ in range(5)]
    gevent.joinall(reaped, raise_error=True)
    assert sum(greenlet.value is not None for greenlet in reaped) == 1
    assert (jobs.get(job)["status"], jobs.get(job)["attempts_spent"]) == ("pending", 1)


REAP = """
import sys
from pathlib import Path
from webapp import db, jobs
path, root, *ids = sys.argv[1:]
db.open_store(Path(path), schema=Path(root, "schema.sql"), migrations=Path(root, "migrations"), busy_seconds=30)
print("ready", flush=True)
sys.stdin.readline()
for job in ids:
    jobs.reap(job)
    jobs.settle(job)
"""


def test_processes_that_reap_and_settle_at_once_return_the_points_once(person):
    someone = person(points=20)
    ids = [submitted_and_charged(someone) for _ in range(20)]
    assert someone.balance() == 0
    processes = [subprocess.Popen([sys.executable, "-c", REAP, db.store.path, ROOT, *ids], cwd=ROOT,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert someone.balance() == 20
    for job in ids:
        told = [event["event"] for event in jobs.events(job)]
        assert told == ["submitted", "claimed", "charged", "interrupted", "failed", "settled"]


PROBE = """
import sys
from pathlib import Path
from webapp import db, workers
path, root = map(Path, sys.argv[1:])
db.open_store(path, schema=root / "schema.sql", migrations=root / "migrations")
print("ready", flush=True)
while True:
    for file in (path.parent / "workers").glob("*.lock"):
        if workers.is_dead(file.stem):
            workers.forget(file.stem)
"""


def test_a_worker_that_is_just_starting_is_never_taken_for_dead(app):
    """Others look for dead workers' lock files all the time."""
    folder = db.store.path.parent / "workers"
    with subprocess.Popen([sys.executable, "-c", PROBE, db.store.path, ROOT], cwd=ROOT, stdout=subprocess.PIPE) as probe:
        try:
            assert probe.stdout.readline() == b"ready\n"
            for _ in range(300):
                started = workers.Worker(folder, "server")
                assert started.path.exists()
                started.stop()
        finally:
            probe.kill()


# ------------------------------------------------------------------ the ledger that cannot be read

def rename(one, other):
    connection = sqlite3.connect(db.store.path, timeout=5)
    connection.execute(f"ALTER TABLE {one} RENAME TO {other}")
    connection.close()


def test_points_are_unknown_while_the_ledger_cannot_be_read_and_right_when_it_can(settings):
    from tests.conftest import Person
    app = webapp.create_app(settings(SUPPORT_CONTACT="help@example.org"))
    someone = Person(app, "p@example.org", 3)
    job = submitted_and_charged(someone)
    rename("ledger_entries", "hidden")
    number = jobs.get(job)["number"]
    for _ in range(3):  # every look tries again
        answer = someone.get(f"/api/jobs/{job}")
        assert answer.status_code == 200
        assert (answer.json["status"], answer.json["money"]) == ("failed", "unknown")
        assert answer.json["money_message"] == (
            "The work was interrupted and we could not confirm your points. "
            f"Please tell us number {number} at help@example.org.")
        assert "Retry-After" not in answer.headers
    (open_incident,) = incidents.listing()
    assert (open_incident["code"], open_incident["severity"]) == (jobs.LOOKUP_FAILED, "critical")
    assert recovery.one_pass().unknown == 1 and recovery.next_look_seconds(60) is None  # it keeps nobody awake
    assert someone.get("/api/jobs").json["jobs"][0]["money"] == "unknown"

    rename("hidden", "ledger_entries")
    shown = someone.job(job)
    assert (shown["money"], someone.balance()) == ("refunded", 3)
    assert shown["money_message"] == "The work was interrupted. The 1 point it had used has been returned (balance 3)."
    assert incidents.listing() == [] and len(incidents.listing(everything=True)) == 1
    told = [event["event"] for event in jobs.events(job)]
    assert told.count("unknown") == 1 and told[-1] == "settled"


def test_a_pass_corrects_what_was_unknown(person):
    someone = person(points=3)
    job = submitted_and_charged(someone)
    rename("ledger_entries", "hidden")
    assert recovery.one_pass().unknown == 1
    rename("hidden", "ledger_entries")
    assert recovery.one_pass().points == 1
    assert (jobs.get(job)["settlement"], someone.balance()) == ("settled", 3)


def test_an_operator_may_keep_what_is_unknown(person):
    someone = person(points=3)
    job = submitted_and_charged(someone)
    rename("ledger_entries", "hidden")
    assert recovery.one_pass().unknown == 1
    assert jobs.settle_by_hand(job, keep=True, by="me", note="the work was delivered by mail") == "unknown"
    rename("hidden", "ledger_entries")
    shown = someone.job(job)
    assert (shown["money"], someone.balance()) == ("consumed", 2)
    assert jobs.get(job)["kept_note"] == "the work was delivered by mail"


def test_who_keeps_what_is_unknown_first_has_decided(person):
    """A second operator finds it decided, not an error of the database."""
    someone = person(points=3)
    job = submitted_and_charged(someone)
    rename("ledger_entries", "hidden")
    assert recovery.one_pass().unknown == 1
    assert jobs.settle_by_hand(job, keep=True, by="one", note="delivered by mail") == "unknown"
    assert jobs.settle_by_hand(job, keep=True, by="two", note="delivered by hand") == "unknown"
    rename("hidden", "ledger_entries")
    assert jobs.settle_by_hand(job, keep=True, by="two", note="delivered by hand") == "settled"
    row = jobs.get(job)
    assert (row["kept_by"], row["kept_note"], someone.balance()) == ("one", "delivered by mail", 2)


def test_a_running_job_shows_unknown_points_rather_than_an_error(person):
    someone = person(points=3)
    job = someone.submit("paid").json["job"]["id"]
    jobs.claim("somebody", ["paid"])
    rename("ledger_entries", "hidden")
    answer = someone.get(f"/api/jobs/{job}")
    assert (answer.status_code, answer.json["status"], answer.json["money"]) == (200, "running", "unknown")
    rename("hidden", "ledger_entries")
    assert someone.job(job)["money"] == "none"


def test_the_scenarios_are_run_in_files_that_have_a_worker_known_to_be_dead(tmp_path):
    """The test of the tests: reaping here is by proof."""
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / f"{DEAD}.lock").touch()
    open_store(Path(tmp_path / "ainori.db"))
    assert workers.is_dead(DEAD) is True and workers.is_dead("nobody") is None


def test_a_claim_between_two_reaps_is_not_undone_by_the_second(person):
    """All in one group of the writer: the second reaper's suspicion was about the attempt before."""
    someone = person(points=3)
    job = submitted_and_charged(someone, "again", text="x")
    worker = workers.start(db.store.path.parent / "workers", "server")
    try:
        together = [gevent.spawn(jobs.reap, job), gevent.spawn(jobs.claim, worker.id, ["again"]), gevent.spawn(jobs.reap, job)]
        gevent.joinall(together, raise_error=True)
        row = jobs.get(job)
        assert (row["status"], row["attempt"], row["attempts_spent"], row["worker_id"]) == ("running", 2, 1, worker.id)
        jobs.succeed(job, 2, "{}")
    finally:
        workers.stop()
