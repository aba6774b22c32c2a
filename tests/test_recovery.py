"""Recovery, case by case, on real servers: clocks that are set, process ids used again, lock files deleted by hand,
poison, kinds and prices that a deploy changed, data that expires. What must stand is read from the rows."""
import hashlib
import http.client
import json
import os
import signal
import sqlite3
import time
import urllib.error
from contextlib import closing

import gevent
import pytest

from tests.server import ROOT, Server
from tests.test_crash import ledger, submit, worker_pids
from webapp import db, jobs, recovery, workers
from webapp import ledger as books

HOUR, DAY = 3600, 86400
KINDS = "tests.kinds,tests.kinds_of_recovery"
# Times in the wall clock are what these tests are about; waiting for real ones is not.
QUICK = {"EXTRA_KINDS": KINDS, "HEARTBEAT_SECONDS": 0.1, "WORKER_STALE_SECONDS": 1, "RECOVERY_INTERVAL_SECONDS": 0.2}
# Nobody hears of anything by a heartbeat within the test.
SLOW_HEART = {**QUICK, "HEARTBEAT_SECONDS": 20, "WORKER_STALE_SECONDS": 60}
EXIT_SECONDS_MAX = 5
PASSES_SECONDS = 0.7  # several passes of the scheduler


class Clock:
    """The wall clock of every server and command started with ``environ``."""

    def __init__(self, path):
        self.path = path
        self.environ = {"TEST_CLOCK": str(path)}
        self.set(0)

    def set(self, seconds):
        unfinished = self.path.with_suffix(".new")
        unfinished.write_text(str(seconds))
        unfinished.rename(self.path)


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path / "clock")


def account(one, points=3):
    """Somebody with points, and a token; put into the file as the command line would."""
    token = "token of the test"
    one.get("/healthz")  # the port is open before the file is made
    with closing(sqlite3.connect(one.database, timeout=10)) as connection, connection:
        connection.execute("INSERT INTO users (email, token_hash) VALUES ('person@example.org', ?)",
                           (hashlib.sha256(token.encode()).hexdigest(),))
        connection.execute("INSERT INTO ledger_entries (user_id, kind, points, balance_after) "
                           "VALUES (last_insert_rowid(), 'grant', ?, ?)", (points, points))
    return token


until = Server.until


def until_at_work(one, *job_ids, attempt=1):
    for job_id in job_ids:
        until(one, "SELECT 1 FROM jobs JOIN ledger_entries l ON l.job_id = jobs.id AND l.kind = 'consume' "
              "WHERE jobs.id = ? AND status = 'running' AND stage IS NOT NULL AND attempt = ?", job_id, attempt)


def row(one, job_id):
    return dict(one.rows("SELECT * FROM jobs WHERE id = ?", job_id)[0])


def ending(one, job_id):
    """``(status, error code, attempts spent, settlement)`` as stored: nobody is asked, nothing is set off."""
    job = row(one, job_id)
    return job["status"], job["error_code"], job["attempts_spent"], job["settlement"]


def events(one, job_id, event):
    return [json.loads(found["data"]) for found in
            one.rows("SELECT data FROM job_events WHERE job_id = ? AND event = ? ORDER BY seq", job_id, event)]


def critical(one):
    return [found["code"] for found in one.rows("SELECT code FROM incidents WHERE severity = 'critical'")]


def books_are_right(one):
    db.open_store(one.database, schema=ROOT / "schema.sql", migrations=ROOT / "migrations")
    assert books.audit() == []


def signal_all(one, number):
    os.killpg(one.process.pid, number)


def pause(one):
    """SIGSTOP, between two transactions: stopped within one it would keep the write lock from everybody."""
    while True:
        signal_all(one, signal.SIGSTOP)
        with closing(sqlite3.connect(one.database, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                signal_all(one, signal.SIGCONT)
        time.sleep(0.005)


def change(one, sql, *parameters):
    """A hand in the file, from any SQLite shell."""
    with closing(sqlite3.connect(one.database, timeout=10)) as connection, connection:
        connection.execute(sql, parameters)


def worker_of(one, job_id):
    return until(one, "SELECT worker_id FROM jobs WHERE id = ? AND worker_id IS NOT NULL", job_id)[0]


def lock_file(one, worker_id):
    return one.folder / "workers" / f"{worker_id}.lock"


def die_without_lock_file(one, worker_id):
    pause(one)  # nobody puts it back, and nobody finds it unlocked
    lock_file(one, worker_id).unlink()
    one.kill()


def nobody_is_judged(servers, token, job_id, seconds=PASSES_SECONDS):
    """Polled by all and passed over by all schedulers, it goes on."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for one in servers:
            assert one.get(f"/api/jobs/{job_id}", token=token).json["status"] == "running"
    assert ending(servers[0], job_id) == ("running", None, 0, "none")


def reaped_by_hand(one):
    found = json.loads(one.flask("reap", "--json").stdout)
    return found["interrupted"] + found["resumed"]


# ------------------------------------------------------------------------------- the wall clock is set

@pytest.mark.parametrize("jump, n", [(HOUR, 1), (-HOUR, 2), (31 * DAY, 2)])
def test_a_clock_that_is_set_makes_nobody_late_or_dead(server, clock, jump, n):
    servers = [server(**SLOW_HEART, **clock.environ, MAX_RUNNING_JOBS=1) for _ in range(n)]
    token = account(servers[0])
    running = submit(servers[0], token, "fickle", seconds=30)
    until_at_work(servers[0], running)
    late = [submit(servers[0], token, "fickle_again")]  # waits, or the other server runs it
    clock.set(jump)
    nobody_is_judged(servers, token, running)
    assert reaped_by_hand(servers[0]) == 0
    late.append(submit(servers[-1], token, "broken"))  # comes to be due
    clock.set(0)
    nobody_is_judged(servers, token, running)
    servers[0].post(f"/api/jobs/{running}/cancellation", token=token)
    ends = [servers[-1].finished(job_id, token=token) for job_id in late]
    assert [(job["status"], job["money"], job["attempts_spent"]) for job in ends] == [
        ("succeeded", "consumed", 0), ("failed", "refunded", 0)]
    assert servers[0].finished(running, token=token)["error"]["code"] == "CANCELLED"
    assert critical(servers[0]) == []
    books_are_right(servers[0])


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_the_heartbeat_moves_the_deadlines_along_and_says_so(server, clock, jump):
    one = server(**QUICK, **clock.environ, MAX_RUNNING_JOBS=1)  # no free slot: no claim does it either
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=2)
    until_at_work(one, job_id)
    before = row(one, job_id)["deadline_at"]
    clock.set(jump)
    (after, moved) = until(one, "SELECT deadline_at, (julianday(deadline_at) - julianday(?)) * 86400 FROM jobs "
                           "WHERE id = ? AND deadline_at <> ?", before, job_id, before)
    assert moved == pytest.approx(jump, abs=1)
    assert [event["seconds"] for event in events(one, job_id, "deadline_moved")] == [pytest.approx(jump, abs=1)]
    assert one.finished(job_id, token=token)["status"] == "succeeded"
    assert "the clock was set" in one.log.read_text()


def test_what_is_claimed_after_the_clock_was_set_has_its_deadline_by_the_new_one(server, clock):
    one = server(**SLOW_HEART, **clock.environ)
    token = account(one)
    first = submit(one, token, "fickle", seconds=30)
    until_at_work(one, first)
    clock.set(-HOUR)
    second = submit(one, token, "fickle", seconds=30)
    until_at_work(one, second)
    nobody_is_judged([one], token, second)
    deadlines = [row(one, job_id)["deadline_at"] for job_id in (first, second)]
    assert deadlines == sorted(deadlines), "that of the first moved along"


def test_the_attempts_own_timer_judges_however_the_clock_is_set(server, clock):
    one = server(**QUICK, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "brief", seconds=30)
    until_at_work(one, job_id)
    clock.set(-HOUR)
    until(one, "SELECT 1 FROM jobs WHERE id = ? AND attempt = 2", job_id)
    clock.set(HOUR)
    until(one, "SELECT 1 FROM jobs WHERE id = ? AND settlement = 'settled'", job_id)
    assert ending(one, job_id) == ("failed", "TIMED_OUT", 2, "settled")
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]


def test_a_deadline_is_found_passed_by_others_also_after_the_clock_was_set_back(server, clock):
    """Without a poll: the scheduler of the other server looks at the deadline, not at its interval."""
    slow = {**SLOW_HEART, "RECOVERY_INTERVAL_SECONDS": 1}
    one = server(**slow, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "brief", seconds=30)
    until_at_work(one, job_id)
    pause(one)
    clock.set(-HOUR)
    other = server(**slow, **clock.environ, MAX_RUNNING_JOBS=1)
    until(other, "SELECT 1 FROM jobs WHERE id = ? AND attempt = 2", job_id)
    assert [event["reason"] for event in events(other, job_id, "interrupted")][:1] == ["timed_out"]
    signal_all(one, signal.SIGCONT)


def test_a_paused_worker_without_its_lock_file_is_not_stale_because_the_clock_was_set(server, clock):
    one, other = server(**SLOW_HEART, **clock.environ), server(**SLOW_HEART, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=3)
    until_at_work(one, job_id)
    pause(one)
    lock_file(one, worker_of(one, job_id)).unlink()
    clock.set(HOUR)
    nobody_is_judged([other], token, job_id)
    signal_all(one, signal.SIGCONT)
    assert other.finished(job_id, token=token)["status"] == "succeeded"


def test_a_dead_worker_without_its_lock_file_is_found_out_though_the_clock_was_set_back(server, clock):
    one = server(**QUICK, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=30)
    until_at_work(one, job_id)
    other = server(**QUICK, **clock.environ)  # only now: either could have taken the work
    die_without_lock_file(one, worker_of(one, job_id))
    clock.set(-HOUR)
    assert other.finished(job_id, token=token)["error"]["code"] == "INTERRUPTED"
    assert ledger(other, job_id) == [("consume", -1), ("refund", 1)]


def test_a_deadline_that_is_overdue_without_a_jump_is_timed_out_on_a_poll(server):
    one = server(**SLOW_HEART)
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=30)
    until_at_work(one, job_id)
    change(one, "UPDATE jobs SET deadline_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 seconds') "
           "WHERE id = ?", job_id)
    job = one.get(f"/api/jobs/{job_id}", token=token).json
    assert (job["status"], job["error"]["code"], job["money"]) == ("failed", "TIMED_OUT", "refunded")


def test_after_the_clock_was_set_back_cookies_hold_and_the_newest_comes_first(server, clock):
    one = server(**QUICK, **clock.environ)
    clock.set(31 * DAY)
    answer = one.post("/api/kinds/free/jobs", {})
    cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    token = account(one)
    first = submit(one, token, "free")
    clock.set(0)
    assert one.get(f"/api/jobs/{answer.json['job']['id']}", headers=cookie).status == 200
    second = submit(one, token, "free")
    assert [job["id"] for job in one.get("/api/jobs", token=token).json["jobs"]] == [second, first]
    shown = one.get(f"/api/jobs/{first}", token=token)
    assert shown.json["status"] == "succeeded" or int(shown.headers["Retry-After"]) >= 1


def test_waiting_is_measured_by_a_clock_that_nobody_sets():
    assert abs(db.clock() - time.clock_gettime(time.CLOCK_MONOTONIC)) < 60


def test_a_full_window_of_requests_does_not_outlast_a_clock_that_was_set_back(server, clock):
    one = server(**{**QUICK, **clock.environ, "RATE_GUEST_SUBMIT": "1/hour"})
    clock.set(31 * DAY)
    statuses = [one.post("/api/kinds/free/jobs", {}).status for _ in range(2)]
    clock.set(0)
    assert [*statuses, one.post("/api/kinds/free/jobs", {}).status] == [202, 429, 202]


# ------------------------------------------------------------------------------------ process ids again

def test_a_process_id_used_again_protects_nobody_and_condemns_nobody(server):
    one, other = (server(**QUICK, TEST_PID=4242, MAX_RUNNING_JOBS=1) for _ in range(2))
    token = account(one)
    dying = submit(one, token, "fickle", seconds=30)
    until_at_work(one, dying)
    living = submit(other, token, "fickle", seconds=1.5)
    until_at_work(one, living)
    assert worker_of(one, dying) != worker_of(one, living)
    assert [found["pid"] for found in one.rows("SELECT pid FROM workers")] == [4242, 4242]
    one.kill()
    until(other, "SELECT 1 FROM jobs WHERE id = ? AND settlement = 'settled'", dying)  # without a poll
    assert ending(other, dying) == ("failed", "INTERRUPTED", 1, "settled")
    assert other.finished(living, token=token)["status"] == "succeeded"
    books_are_right(other)


# ------------------------------------------------------------------------- lock files deleted by hand

def test_a_living_worker_puts_its_lock_file_back(server):
    patient = {**QUICK, "WORKER_STALE_SECONDS": 20}
    one, other = server(**patient), server(**patient)
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=3)
    until_at_work(one, job_id)
    path = lock_file(one, worker_of(one, job_id))
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    nobody_is_judged([other, one], token, job_id)
    assert reaped_by_hand(one) == 0
    assert path.exists(), "under its own id, and held: it was taken for alive"
    assert other.finished(job_id, token=token)["status"] == "succeeded"


@pytest.mark.parametrize("kind", ["fickle", "fickle_again"])
def test_paused_beyond_stale_without_its_lock_file_it_is_reaped_and_then_writes_nothing(server, kind):
    one = server(**QUICK)
    token = account(one)
    job_id = submit(one, token, kind, seconds=1.5)
    until_at_work(one, job_id)
    until(one, "SELECT 1 FROM job_steps WHERE job_id = ?", job_id)
    worker_id = worker_of(one, job_id)
    pause(one)
    lock_file(one, worker_id).unlink()
    other = server(**QUICK)
    until(other, "SELECT 1 FROM job_events WHERE job_id = ? AND event = 'interrupted'", job_id)
    assert events(other, job_id, "interrupted") == [{"reason": "orphaned", "worker": worker_id}]
    signal_all(one, signal.SIGCONT)
    job = other.finished(job_id, token=token)
    time.sleep(PASSES_SECONDS)  # the stale attempt has had its time to do harm
    assert job == other.get(f"/api/jobs/{job_id}", token=token).json
    if kind == "fickle":
        assert (job["status"], job["money"], job["attempts_spent"]) == ("failed", "refunded", 1)
        assert ledger(other, job_id) == [("consume", -1), ("refund", 1)]
    else:
        assert (job["status"], job["attempt"], job["attempts_spent"]) == ("succeeded", 2, 1)
        assert (ledger(other, job_id), job["result"]) == ([("consume", -1)], {"begun": 1})
    assert len(events(other, job_id, "succeeded") + events(other, job_id, "failed")) == 1
    assert one.get("/healthz").status == 200
    assert [found[0] for found in one.rows("SELECT count(*) FROM jobs WHERE status = 'running'")] == [0]


def test_a_dead_worker_without_its_lock_file_is_reaped_when_its_heartbeat_is_stale(server):
    one = server(**QUICK)
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=30)
    until_at_work(one, job_id)
    other = server(**QUICK)
    other.get("/healthz")
    die_without_lock_file(one, worker_of(one, job_id))
    until(other, "SELECT 1 FROM jobs WHERE id = ? AND settlement = 'settled'", job_id)  # without a poll
    assert ending(other, job_id) == ("failed", "INTERRUPTED", 1, "settled")


# ------------------------------------------------------------------------------------------- poison

def told(one, token, job_id):
    """A poll of a server whose worker may just be dying."""
    ends = time.monotonic() + 20
    while True:
        try:
            return one.get(f"/api/jobs/{job_id}", token=token, timeout=10).json
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            assert time.monotonic() < ends, one.log.read_text()[-3000:]
            time.sleep(0.05)


def until_final(one, token, *job_ids, seconds=40):
    """All of them, final and settled; meanwhile never two recovered attempts at once."""
    ends, found = time.monotonic() + seconds, {}
    while len(found) < len(job_ids):
        assert time.monotonic() < ends, (found, one.log.read_text()[-3000:])
        for job_id in job_ids:
            (recovered,) = one.rows("SELECT count(*) FROM jobs WHERE status = 'running' AND attempts_spent > 0")
            assert recovered[0] <= 1
            job = told(one, token, job_id)
            if job["status"] in ("succeeded", "failed") and job["money"] != "checking":
                found[job_id] = job
        time.sleep(0.02)
    return [found[job_id] for job_id in job_ids]


def test_poison_is_stopped_and_takes_nobody_along_twice(server, tmp_path):
    one = server(**QUICK, MAX_RUNNING_JOBS=4)
    token = account(one, points=9)
    poison = submit(one, token, "poison", text=str(tmp_path / "go"), seconds=0.5)
    again = [submit(one, token, "fickle_again", seconds=1) for _ in range(2)]
    once = submit(one, token, "fickle", seconds=30)
    waiting = submit(one, token, "fickle_again")
    until_at_work(one, poison, *again, once)
    assert row(one, waiting)["status"] == "pending"
    (tmp_path / "go").touch()
    ended, *others, told_once, waited = until_final(one, token, poison, *again, once, waiting)
    assert (ended["status"], ended["error"]["code"], ended["attempts_spent"], ended["money"]) == (
        "failed", "INTERRUPTED", 3, "refunded")
    assert "It was tried 3 times." in ended["error"]["message"]
    assert critical(one) == ["ATTEMPTS_SPENT"]
    for job in (*others, waited):
        assert (job["status"], job["money"]) == ("succeeded", "consumed") and job["attempt"] <= 2, job
    assert (told_once["error"]["code"], told_once["money"]) == ("INTERRUPTED", "refunded")
    assert one.get("/healthz").status == 200 and one.process.poll() is None
    assert one.get("/api/points", token=token).json["balance"] == 6
    books_are_right(one)


def test_recovered_attempts_run_one_at_a_time_across_servers_and_fresh_ones_pass_them(server):
    one = server(**QUICK)
    token = account(one, points=9)
    again = [submit(one, token, "fickle_again", seconds=1.2) for _ in range(3)]
    until_at_work(one, *again)
    one.kill()
    servers = [server(**QUICK), server(**QUICK)]
    until(servers[0], "SELECT 1 FROM jobs WHERE status = 'running' AND attempts_spent = 1")
    fresh = submit(servers[1], token, "fickle")
    assert servers[0].finished(fresh, token=token)["status"] == "succeeded"
    left = servers[0].rows("SELECT 1 FROM jobs WHERE status = 'pending' AND attempts_spent = 1")
    assert left, "it did not wait for the recovered ones"
    found = until_final(servers[0], token, *again)
    assert [(job["status"], job["attempt"]) for job in found] == [("succeeded", 2)] * 3


# ------------------------------------------------------------------------------------ releases, bounded

def test_releases_are_bounded(server):
    one = server(**QUICK, RELEASES_MAX=1, DRAIN_SECONDS=0)
    token = account(one)
    job_id = submit(one, token, "fickle_again", seconds=30)
    counted = []
    for attempt in range(1, 5):
        until_at_work(one, job_id, attempt=attempt)
        if attempt == 1:
            one.signal_master(signal.SIGHUP)
        else:
            one.signal_master(signal.SIGTERM)
            one.wait()
            job = row(one, job_id)
            counted.append((job["status"], job["releases"], job["attempts_spent"]))
            one.start()
    assert counted == [("pending", 2, 1), ("pending", 3, 2), ("failed", 4, 3)]
    job = one.finished(job_id, token=token)
    assert (job["error"]["code"], job["money"], critical(one)) == ("INTERRUPTED", "refunded", ["ATTEMPTS_SPENT"])
    assert [found["reason"] for found in job["interruptions"]] == ["drained"] * 4
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]


# ------------------------------------------------------------------------- what a deploy has changed

def renders(one, token, job_id, *texts):
    """The page and all that leads to it, in both languages."""
    for lang in ("en", "ja"):
        for path in (f"/jobs/{job_id}", "/history", "/api/jobs", f"/api/jobs/{job_id}", "/points"):
            answer = one.get(path, token=token, headers={"Accept-Language": lang})
            assert answer.status == 200, (path, answer.text)
    page = one.get(f"/jobs/{job_id}", token=token).text
    for text in texts:
        assert text in page


GONE = "This site has changed and no longer offers this as it was asked for."


@pytest.mark.parametrize("deploy", [{"EXTRA_KINDS": "tests.kinds"}, {"EXTRA_KINDS": KINDS, "TEST_NEW_PARAMS": "1"}])
def test_work_whose_kind_or_params_no_longer_load_is_failed_and_settled(server, deploy):
    one = server(**QUICK, MAX_RUNNING_JOBS=2)
    token = account(one, points=9)
    finished = submit(one, token, "fickle", text="kept")
    assert one.finished(finished, token=token)["status"] == "succeeded"
    once, again = submit(one, token, "fickle", seconds=30), submit(one, token, "fickle_again", seconds=30)
    until_at_work(one, once, again)
    waiting = submit(one, token, "fickle_again")
    one.kill()
    one.environ.update(deploy)
    one.flask("reap")
    assert row(one, waiting)["status"] == "pending", "a shell does not give this verdict"
    one.start()
    found = [one.get(f"/api/jobs/{job_id}", token=token).json for job_id in (once, again, waiting)]
    assert [(job["status"], job["error"]["code"], job["money"]) for job in found] == [
        ("failed", "INTERRUPTED", "refunded"), ("failed", "KIND_GONE", "refunded"), ("failed", "KIND_GONE", "none")]
    renders(one, token, again, GONE, "The 1 point it had used has been returned")
    renders(one, token, waiting, GONE, "No points were used.")
    renders(one, token, once, "The server stopped while this was being worked on.")
    renders(one, token, finished)
    assert one.get(f"/api/jobs/{finished}", token=token).json["result"] == {"begun": 1}
    assert "kept" in one.get(f"/api/jobs/{finished}/export.csv", token=token).text
    assert one.post(f"/api/jobs/{waiting}/retry", token=token).status in (400, 409)
    assert one.get("/api/points", token=token).json["balance"] == 8
    books_are_right(one)


def test_what_an_older_server_gives_back_is_not_left_to_nobody(server):
    """A reload that removed the kind: the new server has started when the old one gives its work back."""
    one = server(**QUICK, DRAIN_SECONDS=0, MAX_RUNNING_JOBS=1)
    token = account(one)
    job_id = submit(one, token, "fickle_again", seconds=30)
    until_at_work(one, job_id)
    other = server(**{**QUICK, "EXTRA_KINDS": "tests.kinds"})
    other.get("/healthz")
    waiting = submit(one, token, "fickle_again")
    nobody_is_judged([other], token, job_id)
    assert row(other, waiting)["status"] == "pending", "the old one lives, and knows the kind"
    one.signal_master(signal.SIGTERM)
    one.wait()
    for gone in (job_id, waiting):
        until(other, "SELECT 1 FROM jobs WHERE id = ? AND settlement = 'settled'", gone)
    assert ending(other, waiting) == ("failed", "KIND_GONE", 0, "settled")
    assert ending(other, job_id) == ("failed", "KIND_GONE", 0, "settled")
    assert ledger(other, job_id) == [("consume", -1), ("refund", 1)]


def test_a_price_changed_by_a_deploy_does_not_touch_quotes_already_made(server):
    one = server(**QUICK, MAX_RUNNING_JOBS=2)
    token = account(one, points=4)
    once, again = submit(one, token, "fickle", seconds=30), submit(one, token, "fickle_again", seconds=2)
    until_at_work(one, once, again)
    waiting = submit(one, token, "fickle_again")
    one.kill()
    one.environ.update(FICKLE_COST="5", FICKLE_AGAIN_COST="5")
    one.start()
    for job_id, money in ((once, "refunded"), (again, "consumed"), (waiting, "consumed")):
        job = one.finished(job_id, token=token)
        assert (job["cost"], job["money"]) == (1, money)
    assert [ledger(one, job_id) for job_id in (once, again, waiting)] == [
        [("consume", -1), ("refund", 1)], [("consume", -1)], [("consume", -1)]]
    refused = one.post(f"/api/jobs/{once}/retry", token=token)
    assert (refused.status, refused.json["cost"], refused.json["balance"]) == (402, 5, 2)
    assert 'name="price" value="5"' in one.get(f"/jobs/{once}", token=token).text
    one.flask("points", "grant", "person@example.org", "3", "--note", "for a test")
    tried = one.post(f"/api/jobs/{once}/retry", token=token).json["job"]
    assert (tried["cost"], tried["retry_of"]) == (5, once)
    books_are_right(one)


# ------------------------------------------------------------------------------- attempts and reasons

def test_attempts_and_their_reasons_are_visible_to_users_and_operators(server):
    one = server(**QUICK, DRAIN_SECONDS=0)
    token = account(one)
    job_id = submit(one, token, "fickle_again", seconds=30)
    until_at_work(one, job_id)
    dead = worker_of(one, job_id)
    one.kill()
    one.start()
    until_at_work(one, job_id, attempt=2)
    says = {"en": "The server stopped while this was being worked on. It goes on by itself: try 2 of 3.",
            "ja": "処理の途中でサーバーが止まりました。自動で続けます。3回中2回目です。"}
    for lang, text in says.items():
        asks = {"token": token, "headers": {"Accept-Language": lang}}
        job = one.get(f"/api/jobs/{job_id}", **asks).json
        assert [(found["attempt"], found["reason"], found["message"]) for found in job["interruptions"]] == [
            (1, "orphaned", text)]
        page = one.get(f"/jobs/{job_id}", **asks).text
        assert text in page
    one.signal_master(signal.SIGTERM)
    one.wait()
    one.start()
    until_at_work(one, job_id, attempt=3)
    change(one, "UPDATE jobs SET deadline_at = '2000-01-01T00:00:00.000Z' WHERE id = ?", job_id)
    job = one.get(f"/api/jobs/{job_id}", token=token).json
    assert [found["reason"] for found in job["interruptions"]] == ["orphaned", "drained", "timed_out"]
    assert job["interruptions"][-1]["message"] == ("This took longer than allowed and was stopped. "
                                                   "It goes on by itself: try 3 of 3.")
    shown = one.flask("jobs", "show", job_id).stdout
    assert "(2 of 3 spent, 1 released)" in shown
    for reason in ("orphaned", "drained", "timed_out", dead):
        assert reason in shown


# ------------------------------------------------------------------------------------------- expiry

def expiry_has_run(one, token):
    """Set it off as somebody who asks for work does, and return when it is through: workers come last."""
    change(one, "INSERT INTO workers (id, role, host, pid, heartbeat_at) "
           "VALUES ('old', 'server', 'h', 1, '2000-01-01')")
    assert one.post("/api/kinds/free/precheck", {}, token=token).status == 200
    ends = time.monotonic() + 20
    while one.rows("SELECT 1 FROM workers WHERE id = 'old'"):
        assert time.monotonic() < ends, one.log.read_text()[-3000:]
        time.sleep(0.02)


def restart_at(one, clock, seconds):
    one.kill()
    clock.set(seconds)
    one.start()


def test_an_input_of_interrupted_work_is_kept_a_day_for_another_try(server, clock):
    one = server(**QUICK, **clock.environ)
    token = account(one)
    job_id = one.upload("slow", "a.txt", b"text", {"seconds": 30}, token=token).json["job"]["id"]
    until_at_work(one, job_id)
    one.kill()
    one.start()
    assert one.finished(job_id, token=token)["error"]["code"] == "INTERRUPTED"
    file = one.folder / "uploads" / f"{job_id}-file"
    restart_at(one, clock, 24 * HOUR - 60)
    expiry_has_run(one, token)
    assert file.read_bytes() == b"text"
    assert "Try again" in one.get(f"/jobs/{job_id}", token=token).text
    answer = one.post(f"/api/jobs/{job_id}/retry", token=token)
    assert (answer.status, answer.json["job"]["retry_of"]) == (202, job_id)
    restart_at(one, clock, 24 * HOUR + 60)
    expiry_has_run(one, token)
    assert not file.exists()
    page = one.get(f"/jobs/{job_id}", token=token).text
    assert "Try again" not in page and "The file you sent is no longer kept: please send it again." in page
    refused = one.post(f"/api/jobs/{job_id}/retry", token=token)
    assert (refused.status, refused.json["code"]) == (409, "NOT_RETRYABLE")
    assert "no longer kept" in refused.json["detail"]


def test_old_results_go_in_batches_off_the_back_of_a_request_and_the_ledger_stays(server, clock):
    one = server(**QUICK, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "fickle", text="kept")
    one.finished(job_id, token=token)
    with closing(sqlite3.connect(one.database, timeout=10)) as connection, connection:  # more than one batch
        for n in range(120):
            connection.execute("INSERT INTO jobs (id, number, kind, user_id, timeout_seconds, cost, params, "
                               "params_hash) VALUES (?, ?, 'free', 1, 1, 0, '{}', 'h')", (f"old{n}", f"O{n}"))
            connection.execute("UPDATE jobs SET status = 'running', attempt = 1, worker_id = 'w', deadline_at = 'd' "
                               "WHERE id = ?", (f"old{n}",))
            connection.execute("UPDATE jobs SET status = 'succeeded', result = '{}', worker_id = NULL, "
                               "deadline_at = NULL, finished_at = '2000-01-01' WHERE id = ?", (f"old{n}",))
        connection.execute("INSERT INTO incidents (severity, scope, code, detail, acknowledged_at) "
                           "VALUES ('info', 's', 'SEEN', 'd', '2000-01-01')")
    old_worker = one.rows("SELECT id FROM workers")[0]["id"]
    entries = [tuple(entry) for entry in one.rows("SELECT * FROM ledger_entries")]
    restart_at(one, clock, 31 * DAY)
    for path in ("/healthz", "/readyz", "/static/ainori.css", "/openapi.json"):
        one.get(path)
    time.sleep(PASSES_SECONDS)
    assert row(one, job_id)["result"] is not None, "nobody sets it off but who asks for work"
    expiry_has_run(one, token)
    assert row(one, job_id)["result"] is None and not (one.folder / "files" / job_id).exists()
    assert one.rows("SELECT 1 FROM jobs WHERE result IS NOT NULL AND id LIKE 'old%'") == []
    for table in ("job_events", "job_steps", "job_files"):
        assert one.rows(f"SELECT 1 FROM {table} WHERE job_id = ?", job_id) == [], table
    assert one.rows("SELECT 1 FROM incidents") == []
    assert one.rows("SELECT 1 FROM workers WHERE id = ?", old_worker) == []
    assert [tuple(entry) for entry in one.rows("SELECT * FROM ledger_entries")] == entries
    renders(one, token, job_id, "The result is no longer kept. The receipt stays.")
    assert one.get(f"/api/jobs/{job_id}/export.csv", token=token).status == 404
    change(one, "INSERT INTO workers (id, role, host, pid, heartbeat_at) VALUES ('w', 'server', 'h', 1, '2000-01-01')")
    one.post("/api/kinds/free/precheck", {}, token=token)
    time.sleep(PASSES_SECONDS)
    assert one.rows("SELECT 1 FROM workers WHERE id = 'w'"), "at most once an hour"
    books_are_right(one)


def test_a_clock_set_forward_while_it_runs_makes_nothing_old(server, clock):
    one = server(**QUICK, **clock.environ)
    token = account(one)
    job_id = submit(one, token, "fickle")
    one.finished(job_id, token=token)
    clock.set(31 * DAY)
    expiry_has_run(one, token)
    clock.set(0)
    assert one.get(f"/api/jobs/{job_id}", token=token).json["result"] == {"begun": 1}


@pytest.mark.parametrize("expire_some", [lambda: recovery._expire_folders(), lambda: recovery._expire_inputs(DAY)])
def test_thousands_of_entries_are_looked_through_while_others_are_served(service, expire_some):
    folder, turns = db.store.path.parent, []
    for n in range(3000):
        (folder / "uploads" / f"incoming-{n}").touch()
        os.utime(folder / "uploads" / f"incoming-{n}", (0, 0))
        (folder / "files" / f"nobodys{n}").mkdir()

    def others():
        while True:
            gevent.sleep(0.001)
            turns.append(db.clock())
    ticking = gevent.spawn(others)
    try:
        expire_some()
    finally:
        ticking.kill()
    assert [] in (list((folder / "files").iterdir()), list((folder / "uploads").iterdir()))
    assert len(turns) > 20, "a walk that stops the hub leaves none"


def make_old(*names):
    def insert():
        for name in names:
            db.execute("INSERT INTO workers (id, role, host, pid) VALUES (?, 'server', 'h', 1)", (name,))
        db.execute("UPDATE workers SET heartbeat_at = '2000-01-01T00:00:00.000Z'")
    db.store.write(insert)


def test_a_worker_that_lives_is_not_forgotten_however_long_it_was_idle(service):
    make_old("gone")
    assert recovery.expire(30)["workers"] == 1
    assert [found["id"] for found in db.rows("SELECT id FROM workers")] == [workers.current.id]
    assert workers.current.path.exists()


def test_a_worker_that_running_work_names_is_not_forgotten(settings, person):
    person().submit("slow")
    jobs.claim("named", ["slow"])
    make_old("named", "gone")
    recovery.expire(30)
    assert [found["id"] for found in db.rows("SELECT id FROM workers")] == ["named"]


# ---------------------------------------------------------------------------------------- scheduler

def test_an_orphan_of_another_server_is_found_without_a_poll(server):
    one, other = server(**QUICK), None
    token = account(one)
    job_id = submit(one, token, "fickle_again", seconds=0.6)
    until_at_work(one, job_id)
    other = server(**QUICK)
    one.kill()
    until(other, "SELECT 1 FROM jobs WHERE id = ? AND status = 'succeeded'", job_id)
    assert (row(other, job_id)["attempt"], ledger(other, job_id)) == (2, [("consume", -1)])


# -------------------------------------------------------------------------------------- one worker

def test_more_workers_asked_for_while_work_runs_disturb_nothing(server):
    one = server(**QUICK, WEB_CONCURRENCY=3, GUNICORN_CMD_ARGS="--workers=4 --threads=3")
    token = account(one)
    job_id = submit(one, token, "fickle", seconds=1.5)
    until_at_work(one, job_id)
    before = worker_pids(one)
    for _ in range(3):
        one.signal_master(signal.SIGTTIN)
    assert one.finished(job_id, token=token)["status"] == "succeeded"
    assert worker_pids(one) == before and len(before) == 1
    assert [found[0] for found in one.rows("SELECT count(*) FROM workers")] == [1]


def test_preload_is_refused_wherever_it_is_asked_for(tmp_path):
    one = Server(tmp_path, {"GUNICORN_CMD_ARGS": "--preload -w 2"})
    with pytest.raises(AssertionError, match="start without --preload"):
        one.start()
    one.stop()
    assert one.process.returncode == 4


def test_a_drain_with_everything_open_ends_in_time_and_in_the_right_books(server):
    one = server(**QUICK, MAX_RUNNING_JOBS=3)
    token = account(one, points=9)
    again, once, deaf = (submit(one, token, "fickle_again", seconds=30), submit(one, token, "fickle", seconds=30),
                         submit(one, token, "commanding", text="30"))
    waiting = submit(one, token, "fickle_again")
    until_at_work(one, again, once)
    until(one, "SELECT 1 FROM ledger_entries WHERE job_id = ?", deaf)
    streams = []
    for job_id in (again, once, deaf, waiting):
        streams.append(http.client.HTTPConnection("127.0.0.1", one.port, timeout=10))
        streams[-1].request("GET", f"/api/jobs/{job_id}/events", headers={"Authorization": f"Bearer {token}"})
        assert streams[-1].getresponse().status == 200
    began = time.monotonic()
    one.signal_master(signal.SIGTERM)
    one.signal_master(signal.SIGTERM)  # somebody is impatient
    one.wait()
    assert time.monotonic() - began < EXIT_SECONDS_MAX and one.process.returncode == 0
    assert [row(one, job_id)["status"] for job_id in (again, once, deaf, waiting)] == [
        "pending", "failed", "pending", "pending"]
    assert ending(one, once) == ("failed", "INTERRUPTED", 1, "settled")
    assert [ending(one, job_id)[2] for job_id in (again, deaf, waiting)] == [0, 0, 0], "a drain spends no attempt"
    assert ledger(one, once) == [("consume", -1), ("refund", 1)] and ledger(one, waiting) == []
    assert list((one.folder / "workers").iterdir()) == []
    for stream in streams:
        stream.close()
