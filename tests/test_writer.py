"""The one writer: verbs in groups, whole or not at all, answered when they are on disk."""
import errno
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import gevent
import pytest
from gevent.event import Event

from tests import conftest
from tests.conftest import ROOT, Person
from webapp import accounts, create_app, db, incidents, jobs, ledger
from webapp.errors import Busy, StorageUnavailable
from webapp.service import Service

STALL_SECONDS = 0.2  # what another process's lock may cost the hub at most: generous, for a noisy machine


@pytest.fixture
def open_store(tmp_path):
    def make(busy_seconds=5.0):
        path = tmp_path / "ainori.db"
        db.open_store(path, schema=ROOT / "schema.sql", migrations=ROOT / "migrations", busy_seconds=busy_seconds)
        return db.store
    return make


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def user(store):
    return accounts.add_guest("en")


def from_outside(path, sql):
    """What another program sees in the file now."""
    connection = sqlite3.connect(path, timeout=0)
    try:
        return connection.execute(sql).fetchone()[0]
    finally:
        connection.close()


GRANTS = "SELECT count(*) FROM ledger_entries"

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=10, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


@contextmanager
def another_process(script, path):
    """Another process that holds something of the file, and a function that makes it let go."""
    process = subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"

    def let_go():
        if process.poll() is None:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.wait(10)
    try:
        yield let_go
    finally:
        let_go()
        process.stdin.close()
        process.stdout.close()


@contextmanager
def longest_stall():
    """Measures how long the hub was not served, at worst, as ``[seconds]``."""
    worst = [0.0]

    def tick():
        before = conftest._real_time()
        while True:
            gevent.sleep(0.005)
            now = conftest._real_time()
            worst[0] = max(worst[0], now - before - 0.005)
            before = now
    ticking = gevent.spawn(tick)
    gevent.sleep(0.02)
    try:
        yield worst
    finally:
        ticking.kill()


def together(*functions):
    """Call them in one go, so that they wait for the writer together; their values or exceptions."""
    greenlets = [gevent.spawn(outcome, function) for function in functions]
    gevent.joinall(greenlets)
    return [greenlet.value for greenlet in greenlets]


def outcome(function):
    try:
        return function()
    except Exception as error:
        return error


# -------------------------------------------------------------------------------------- group commit

def test_verbs_that_wait_together_share_a_commit(store, user):
    before = store.commits
    balances = together(*[lambda: ledger.grant(user, 1, "x")] * 200)
    assert balances == list(range(1, 201))  # first come, first served
    assert 2 <= store.commits - before <= 20


def test_a_group_is_bounded_in_number(store, user):
    before = store.commits
    together(*[lambda: ledger.grant(user, 1, "x")] * (3 * db.GROUP_VERBS_MAX))
    assert store.commits - before >= 3


def test_a_group_is_bounded_in_time(store, user):
    @db.verb
    def slow():
        ends = conftest._real_time() + db.GROUP_SECONDS_MAX / 2
        while conftest._real_time() < ends:
            pass
        ledger.grant(user, 1, "x")
    before = store.commits
    together(*[slow] * 12)
    assert store.commits - before >= 4


def test_an_exception_undoes_its_verb_alone(store, user):
    @db.verb
    def half_done():
        ledger.grant(user, 10, "undone")
        raise ValueError("no")
    before = store.commits
    answers = together(lambda: ledger.grant(user, 1, "x"), half_done, lambda: ledger.grant(user, 1, "y"))
    assert (answers[0], str(answers[1]), answers[2]) == (1, "no", 2)
    assert store.commits - before == 1
    assert from_outside(store.path, GRANTS) == 2


def test_a_group_of_failures_commits_nothing(store, user):
    @db.verb
    def fails():
        ledger.grant(user, 10, "undone")
        raise ValueError("no")
    before = store.commits
    together(fails, fails)
    assert store.commits == before and from_outside(store.path, GRANTS) == 0


def test_a_law_broken_by_one_verb_does_not_harm_its_group(store, user):
    @db.verb
    def unlawful():
        db.execute("UPDATE ledger_entries SET points = 100")
    answers = together(lambda: ledger.grant(user, 1, "x"), unlawful, lambda: ledger.grant(user, 1, "y"))
    assert answers[0] == 1 and isinstance(answers[1], sqlite3.IntegrityError) and answers[2] == 2


def test_a_verb_within_a_verb_runs_inline_and_falls_with_it(store, user):
    @db.verb
    def outer(fail):
        assert ledger.grant(user, 1, "one") == 1
        assert ledger.grant(user, 1, "two") == 2   # it sees what was just written
        assert ledger.balance(user) == 2
        if fail:
            raise ValueError("no")
    before = store.commits
    with pytest.raises(ValueError):
        outer(True)
    assert from_outside(store.path, GRANTS) == 0
    outer(False)
    assert from_outside(store.path, GRANTS) == 2 and store.commits - before == 1


def test_a_savepoint_undoes_a_part_alone(store, user):
    @db.verb
    def partly():
        ledger.grant(user, 1, "kept")
        with pytest.raises(ValueError):
            with db.savepoint():
                ledger.grant(user, 5, "undone")
                raise ValueError("no")
        return ledger.grant(user, 1, "kept too")
    assert partly() == 2
    assert from_outside(store.path, GRANTS) == 2


# ------------------------------------------------------------------------------------ truth on disk

def test_nobody_is_answered_before_it_is_on_disk(store, user):
    def grant_and_look():
        balance = ledger.grant(user, 1, "x")
        assert from_outside(store.path, f"SELECT max(balance_after) FROM ledger_entries WHERE user_id = {user}") >= balance
    assert together(*[grant_and_look] * 60) == [None] * 60


def test_nobody_sees_a_group_in_flight(store, user):
    @db.verb
    def look_meanwhile():
        ledger.grant(user, 1, "x")
        return (from_outside(store.path, GRANTS), store.read_connection.execute(GRANTS).fetchall()[0][0],
                db.value(GRANTS))
    assert look_meanwhile() == (0, 0, 1)


def test_the_reader_sees_whole_verbs_only(store, user):
    @db.verb
    def two():
        ledger.grant(user, 1, "x")
        ledger.grant(user, 1, "y")
    seen, done = set(), []

    def write():
        for _ in range(40):
            two()
        done.append(True)
    writers = [gevent.spawn(write) for _ in range(3)]
    while len(done) < 3:
        seen.add(db.value(GRANTS))
        gevent.sleep(0)
    gevent.joinall(writers)
    assert len(seen) > 10 and all(n % 2 == 0 for n in seen)


def test_a_failed_commit_is_told_to_everyone_and_stores_nothing(store, user):
    @db.verb
    def breaks_the_commit():
        db.execute("PRAGMA defer_foreign_keys = on")
        db.execute("INSERT INTO job_watchers (job_id, user_id, request_hash) VALUES ('nowhere', ?, 'h')", (user,))
    answers = together(lambda: ledger.grant(user, 1, "x"), breaks_the_commit, lambda: ledger.grant(user, 1, "y"))
    assert [type(answer) for answer in answers] == [sqlite3.IntegrityError] * 3
    assert from_outside(store.path, GRANTS) == 0
    assert ledger.grant(user, 1, "again") == 1


def test_writes_belong_to_verbs_and_the_reader_cannot(store):
    with pytest.raises(AssertionError):
        db.execute("DELETE FROM workers")
    with pytest.raises(AssertionError):
        db.after_commit(print)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        store.read_connection.execute("DELETE FROM workers")


# ---------------------------------------------------------------------------------------- effects

def test_effects_come_after_the_commit_and_before_the_answer(store, user):
    story = []

    @db.verb
    def with_effect():
        ledger.grant(user, 1, "x")
        db.after_commit(lambda: story.append(("effect", from_outside(store.path, GRANTS))))
        story.append("verb")
    with_effect()
    story.append("answer")
    assert story == ["verb", ("effect", 1), "answer"]


def test_what_is_undone_has_no_effects(store, user):
    happened = []

    @db.verb
    def fails():
        db.after_commit(lambda: happened.append("no"))
        raise ValueError("no")

    @db.verb
    def works():
        db.after_commit(lambda: happened.append("yes"))
    together(works, fails, works)
    assert happened == ["yes", "yes"]


def test_an_effect_that_fails_harms_nobody(store, user):
    @db.verb
    def bad_effect():
        db.after_commit(lambda: 1 / 0)
        return "stored"
    assert bad_effect() == "stored"
    assert ledger.grant(user, 1, "x") == 1


# ------------------------------------------------------------------------------ somebody has the lock

def test_busy_withdraws_the_verb_for_good(open_store):
    store = open_store(busy_seconds=0.3)
    user, ran = accounts.add_guest("en"), []

    @db.verb
    def counted():
        ran.append(True)
        return ledger.grant(user, 1, "x")
    with another_process(HOLD, store.path) as let_go:
        began = conftest._real_time()
        with pytest.raises(Busy):
            counted()
        assert 0.3 <= conftest._real_time() - began < 2
        let_go()
    gevent.sleep(0.2)
    assert ran == [] and from_outside(store.path, GRANTS) == 0
    assert counted() == 1


def test_each_has_a_patience_of_its_own(open_store):
    store = open_store(busy_seconds=0.2)
    user = accounts.add_guest("en")

    def patient():
        with db.patience(10):
            return ledger.grant(user, 1, "x")
    with another_process(HOLD, store.path) as let_go:
        gevent.spawn_later(0.8, let_go)
        answers = together(patient, lambda: ledger.grant(user, 1, "y"), patient)
    assert answers[0] == 1 and isinstance(answers[1], Busy) and answers[2] == 2
    with another_process(HOLD, store.path):  # and the patience ends with its block
        with pytest.raises(Busy):
            ledger.grant(user, 1, "z")


def test_finished_work_waits_longer_than_a_request(settings):
    """What is asked in a request is answered BUSY; what a worker has done is not thrown away."""
    app = create_app(settings(BUSY_SECONDS=0.2))
    service, someone = Service(app).start(), Person(app, "p@example.org", 3)
    try:
        job = someone.submit("slow", text="x", seconds=0.3).json["job"]["id"]
        gevent.sleep(0.1)
        with another_process(HOLD, db.store.path) as let_go:
            refused = someone.submit("paid")
            assert (refused.status_code, refused.json["code"]) == (503, "BUSY")
            assert "Retry-After" in refused.headers
            gevent.sleep(0.5)
            assert someone.job(job)["status"] == "running"
            let_go()
        assert someone.finished(job)["status"] == "succeeded"
        assert someone.balance() == 2
        assert from_outside(db.store.path, "SELECT count(*) FROM jobs") == 1
    finally:
        service.stop()


def test_a_start_waits_longer_than_a_request(settings):
    app = create_app(settings(BUSY_SECONDS=0.1))
    with another_process(HOLD, db.store.path) as let_go:
        gevent.spawn_later(0.6, let_go)
        service = Service(app).start()
    assert not jobs.signals.starting
    service.stop()


def test_a_start_whose_recovery_is_cut_short_by_a_lock_goes_on_from_there(app, person, monkeypatch):
    monkeypatch.setattr("webapp.service.START_PATIENCE_SECONDS", 0.3)
    someone = person()
    job_id = someone.submit("paid").json["job"]["id"]
    [claimed] = jobs.claim("dead", ["paid"])
    jobs.charge(job_id, claimed["attempt"])
    jobs.signals.listeners[job_id] = {reaped := Event()}
    with closing(sqlite3.connect(db.store.path, isolation_level=None)) as tool:
        locking = gevent.spawn(lambda: reaped.wait() and tool.execute("BEGIN IMMEDIATE"))
        gevent.sleep(0)
        (db.store.path.parent / "workers" / "dead.lock").touch()  # nobody holds it: a fact
        service = Service(app).start()
        try:
            locking.get()
            assert jobs.signals.starting and someone.job(job_id)["money"] == "checking"
            tool.execute("ROLLBACK")
            assert someone.finished(job_id)["money"] == "refunded"
            with gevent.Timeout(5):
                while jobs.signals.starting:
                    gevent.sleep(0.01)
            assert [row["detail"].rpartition(",")[0] for row in incidents.listing()] == [
                "1 interrupted, 1 point returned, 0 unknown"]
            assert from_outside(db.store.path, "SELECT count(*) FROM workers") == 1
        finally:
            service.stop()


def test_a_poll_answers_what_is_stored_while_the_file_is_locked(app, person):
    someone = person()
    job = someone.submit("paid").json["job"]["id"]

    @db.verb
    def left_by_the_dead():
        db.execute("UPDATE jobs SET status = 'running', attempt = 1, worker_id = 'dead', deadline_at = '2020' WHERE id = ?",
                   (job,))
    left_by_the_dead()
    with another_process(HOLD, db.store.path):
        began = conftest._real_time()
        assert someone.job(job)["status"] == "running"
        assert conftest._real_time() - began < 2
    assert someone.job(job)["status"] == "failed"


def test_a_listing_of_a_locked_file_looks_once_and_not_once_for_each(app, person):
    someone = person(points=15)
    made = [someone.submit("paid").json["job"]["id"] for _ in range(15)]
    jobs.claim("dead", ["paid"], most=15)
    for job in made:
        jobs.fail(job, 1, "INTERRUPTED")
    for path in ("/api/jobs", "/history"):
        with another_process(HOLD, db.store.path):
            began = conftest._real_time()
            assert someone.get(path).status_code == 200
            assert conftest._real_time() - began < 8 * jobs.POLL_PATIENCE_SECONDS
    assert [someone.job(job)["money"] for job in made] == ["none"] * 15


def test_a_foreign_lock_of_three_seconds_stalls_nobody(store, user):
    with another_process(HOLD, store.path) as let_go, longest_stall() as worst:
        gevent.spawn_later(3, let_go)
        began = conftest._real_time()
        balances = together(*[lambda: ledger.grant(user, 1, "x")] * 20)
        took = conftest._real_time() - began
    assert balances == list(range(1, 21))
    assert 2.9 < took < 4.5
    assert worst[0] < STALL_SECONDS


def test_a_caller_killed_while_it_waits_does_not_stop_its_verb(store, user):
    with another_process(HOLD, store.path) as let_go:
        waiting = gevent.spawn(ledger.grant, user, 1, "of the killed")
        gevent.sleep(0.1)
        waiting.kill()
        assert waiting.ready()
        behind = gevent.spawn(ledger.grant, user, 1, "behind it")
        gevent.sleep(0)
        let_go()
        assert behind.get(timeout=5) == 2
    assert [row["note"] for row in ledger.statement(user)] == ["behind it", "of the killed"]


def test_a_caller_that_stops_waiting_finds_its_next_verb_behind_the_first(store, user):
    with another_process(HOLD, store.path) as let_go:
        with gevent.Timeout(0.1, False):
            ledger.grant(user, 1, "gave up")
        gevent.spawn_later(0.1, let_go)
        assert ledger.grant(user, 1, "next") == 2


# ---------------------------------------------------------------------------------------- full disk

@contextmanager
def full_disk(store):
    pages = store.write_connection.execute("PRAGMA page_count").fetchone()[0]
    store.write_connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    try:
        yield
    finally:
        store.write_connection.execute("PRAGMA max_page_count = 1000000000").fetchone()


def test_a_full_disk_undoes_the_whole_group_and_tells_everyone(store, user):
    happened = []

    @db.verb
    def small():
        db.after_commit(lambda: happened.append("small"))
        return ledger.grant(user, 1, "x")

    @db.verb
    def large():
        db.execute("INSERT INTO incidents (severity, scope, code, detail) VALUES ('info', 's', 'C', ?)", ("x" * 100_000,))

    with full_disk(store):
        answers = together(small, large, small)
        assert [type(answer) for answer in answers[:2]] == [StorageUnavailable] * 2
        # What had not begun was not lost: it may have gone into the next group.
        assert answers[2] == 1 or isinstance(answers[2], StorageUnavailable)
        stored = 1 if answers[2] == 1 else 0
        assert from_outside(store.path, GRANTS) == stored and happened == ["small"] * stored
        assert not store.write_connection.in_transaction
    assert large() is None and small() == stored + 1


def test_a_verb_that_swallows_a_full_disk_is_not_believed(store, user):
    @db.verb
    def swallows():
        try:
            db.execute("INSERT INTO incidents (severity, scope, code, detail) VALUES ('info', 's', 'C', ?)",
                       ("x" * 100_000,))
        except sqlite3.OperationalError:
            return "all is well"
    with full_disk(store):
        answers = together(lambda: ledger.grant(user, 1, "x"), swallows)
    assert [type(answer) for answer in answers] == [StorageUnavailable] * 2
    assert from_outside(store.path, GRANTS) == 0


def test_a_verb_that_goes_on_after_a_full_disk_writes_nothing(store, user):
    @db.verb
    def goes_on(part):
        try:
            db.execute("INSERT INTO incidents (severity, scope, code, detail) VALUES ('info', 's', 'C', ?)",
                       ("x" * 100_000,))
        except sqlite3.OperationalError:
            if part:
                with db.savepoint():
                    pass
            ledger.grant(user, 1, "on its own")
    with full_disk(store):
        for part in (False, True):
            with pytest.raises(StorageUnavailable):
                goes_on(part)
    assert from_outside(store.path, GRANTS) == 0


def test_a_poll_answers_what_is_stored_where_nothing_can_be_written(app, person):
    someone = person()
    job = someone.submit("paid").json["job"]["id"]
    jobs.claim("dead", ["paid"])
    jobs.fail(job, 1, "INTERRUPTED")
    db.store.write_connection.execute("PRAGMA query_only = on")
    answer = someone.get(f"/api/jobs/{job}")
    assert (answer.status_code, answer.json["money"]) == (200, "checking")
    assert someone.submit("paid").json["code"] == "STORAGE_UNAVAILABLE"
    db.store.write_connection.execute("PRAGMA query_only = off")
    assert someone.job(job)["money"] == "none"


def test_a_folder_of_ours_that_may_not_be_written_is_the_disk_and_another_one_is_a_bug(store, monkeypatch):
    denied = [PermissionError(errno.EACCES, "no", str(store.path.parent / "uploads" / "x")),
              PermissionError(errno.EACCES, "no", "uploads/x"), PermissionError(errno.EACCES, "no", "/elsewhere/x"),
              PermissionError(errno.EACCES, "no"), PermissionError(errno.EACCES, "no", 3), OSError(errno.ENOSPC, "full")]
    monkeypatch.chdir(store.path.parent)
    assert [db.is_disk(error) for error in denied] == [True, True, False, False, False, True]


# ------------------------------------------------------------------------------------- reading BUSY

# As while another process recovers the write-ahead log: its header is unreadable and both locks are held.
RECOVER = """
import fcntl, sys
shm = open(sys.argv[1] + "-shm", "r+b", buffering=0)
for byte in (120, 122):
    fcntl.lockf(shm, fcntl.LOCK_EX, 1, byte)
shm.write(bytes(96))
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_reader_waits_while_another_process_recovers_the_file(store, user):
    ledger.grant(user, 1, "x")
    with another_process(RECOVER, store.path) as let_go, longest_stall() as worst:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.read_connection.execute(GRANTS).fetchall()
        gevent.spawn_later(0.5, let_go)
        began = conftest._real_time()
        assert ledger.balance(user) == 1
        assert conftest._real_time() - began >= 0.3
    assert worst[0] < STALL_SECONDS
    assert ledger.grant(user, 1, "y") == 2


def test_a_reader_that_waited_too_long_says_busy(open_store):
    store = open_store(busy_seconds=0.2)
    with another_process(RECOVER, store.path), pytest.raises(Busy):
        db.value(GRANTS)
    assert db.value(GRANTS) == 0


# ------------------------------------------------------------------------------- the test of the test

def test_the_suite_notices_a_switch_inside_a_verb(store):
    @db.verb
    def sleeps():
        gevent.sleep(0)
    assert conftest._switches == []
    sleeps()
    assert conftest._switches and conftest._switches[0].endswith("sleeps")
    conftest._switches.clear()


def test_the_suite_notices_a_patched_wait_inside_a_verb(store):
    @db.verb
    def waits():
        time.sleep(0.001)
    waits()
    assert conftest._switches
    conftest._switches.clear()


def test_an_ordinary_verb_does_not_switch(store, user):
    together(*[lambda: ledger.grant(user, 1, "x")] * 50)
    assert conftest._switches == []
