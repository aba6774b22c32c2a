"""Real servers, really killed, stopped and reloaded; what must stand afterwards is read from the rows."""
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from tests.server import Server

NONE_USED = "The work was interrupted. No points were used."
RETURNED = "The work was interrupted. The 1 point it had used has been returned (balance 3)."
EXIT_SECONDS_MAX = 5


def submit(server, token, kind, **params):
    answer = server.post(f"/api/kinds/{kind}/jobs", params, token=token)
    assert answer.status == 202, answer.text
    return answer.json["job"]["id"]


def until(server, sql, *parameters):
    """The first row, as soon as there is one: looked for without a pause, to meet moments of a millisecond."""
    return server.until(sql, *parameters, pause=0)


def until_charged(server, job_id):
    until(server, "SELECT 1 FROM ledger_entries WHERE job_id = ? AND kind = 'consume'", job_id)


def until_running(server, job_id):
    until(server, "SELECT 1 FROM jobs WHERE id = ? AND status = 'running' AND stage IS NOT NULL", job_id)


def job_row(server, job_id):
    return dict(server.rows("SELECT * FROM jobs WHERE id = ?", job_id)[0])


def ledger(server, job_id):
    return [(row["kind"], row["points"]) for row in
            server.rows("SELECT kind, points FROM ledger_entries WHERE job_id = ? ORDER BY id", job_id)]


def told(server, token, job_id):
    """What one poll says, the very first after the start included."""
    job = server.get(f"/api/jobs/{job_id}", token=token).json
    return job["status"], (job["error"] or {}).get("code"), job["money"], job["money_message"]


def seconds_to_exit(server):
    began = time.monotonic()
    server.wait()
    return time.monotonic() - began


def restart(server):
    server.start()  # returns when the port is open: nobody has been answered yet
    return server


# --------------------------------------------------------------------------------------- kill -9

def test_killed_before_the_charge_no_points_were_used(server):
    one = server()
    token = one.add_user()
    job_id = submit(one, token, "sample", seconds=20)
    until_running(one, job_id)
    one.kill()
    assert (job_row(one, job_id)["status"], ledger(one, job_id)) == ("running", [])
    restart(one)
    assert told(one, token, job_id) == ("failed", "INTERRUPTED", "none", NONE_USED)
    assert ledger(one, job_id) == [] and job_row(one, job_id)["settlement"] == "settled"
    submit(one, token, "sample", seconds=0)  # and nobody is locked out


def test_killed_after_the_charge_the_point_is_returned_once(server):
    one = server()
    token = one.add_user()
    job_id = submit(one, token, "slow", seconds=20)
    until_charged(one, job_id)
    one.kill()
    assert (job_row(one, job_id)["status"], ledger(one, job_id)) == ("running", [("consume", -1)])
    restart(one)
    assert told(one, token, job_id) == ("failed", "INTERRUPTED", "refunded", RETURNED)
    one.kill()
    restart(one)  # a second recovery of the same file returns nothing more
    assert told(one, token, job_id) == ("failed", "INTERRUPTED", "refunded", RETURNED)
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]
    assert one.get("/api/points", token=token).json["balance"] == 3
    assert one.flask("audit").returncode == 0


def test_killed_while_pending_it_goes_on_as_if_nothing_had_happened(server):
    one = server(MAX_RUNNING_JOBS=1)
    token = one.add_user()
    in_front = submit(one, token, "slow", seconds=20)
    waiting = submit(one, token, "sample", seconds=0)
    until_charged(one, in_front)
    one.kill()
    assert job_row(one, waiting)["status"] == "pending"
    restart(one)
    assert told(one, token, in_front)[:3] == ("failed", "INTERRUPTED", "refunded")
    job = one.finished(waiting, token=token)
    assert (job["status"], job["money"], job["attempt"], job["attempts_spent"]) == ("succeeded", "consumed", 1, 0)
    assert ledger(one, waiting) == [("consume", -1)]


def test_killed_between_fail_and_settle_the_point_is_returned(server):
    one = server()
    token = one.add_user(points=50)
    for _ in range(30):  # the window is about a millisecond
        job_id = submit(one, token, "sample", seconds=0, fail=True)
        until(one, "SELECT 1 FROM jobs WHERE id = ? AND settlement <> 'none'", job_id)
        one.kill()
        at_the_kill = job_row(one, job_id)["settlement"], ledger(one, job_id)
        restart(one)
        if at_the_kill == ("due", [("consume", -1)]):
            break
    else:
        pytest.fail("never killed between fail and settle")
    status, code, money, sentence = told(one, token, job_id)
    assert (status, code, money) == ("failed", "SAMPLE_FAILED", "refunded")
    assert sentence == "The 1 point it had used has been returned (balance 50)."
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]


def test_a_kind_that_may_be_repeated_goes_on_without_its_finished_steps_or_a_second_charge(server, tmp_path):
    one = server()
    token, log = one.add_user(), tmp_path / "steps.log"
    job_id = one.upload("stepping", "path.txt", str(log).encode(), {"seconds": 1}, token=token).json["job"]["id"]
    until(one, "SELECT 1 FROM job_steps WHERE job_id = ?", job_id)
    until(one, "SELECT 1 FROM jobs WHERE id = ? AND stage = 'wait'", job_id)
    one.kill()
    restart(one)
    assert told(one, token, job_id)[0] in ("pending", "running")
    job = one.finished(job_id, token=token)
    assert (job["status"], job["attempt"], job["attempts_spent"], job["money"]) == ("succeeded", 2, 1, "consumed")
    assert log.read_text() == "step by attempt 1\n"
    assert ledger(one, job_id) == [("consume", -1)]


def test_killed_again_and_again_a_repeatable_kind_ends_with_its_points_returned(server):
    one = server()
    token = one.add_user()
    job_id = submit(one, token, "again", seconds=20)
    for attempt in (1, 2, 3):
        until(one, "SELECT 1 FROM jobs WHERE id = ? AND attempt = ? AND stage = 'after'", job_id, attempt)
        one.kill()
        restart(one)
    assert told(one, token, job_id) == ("failed", "INTERRUPTED", "refunded", RETURNED)
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]
    critical = one.rows("SELECT code FROM incidents WHERE severity = 'critical'")
    assert [row["code"] for row in critical] == ["ATTEMPTS_SPENT"]


def test_the_children_of_a_job_die_with_its_worker(server):
    one = server()
    token, seconds = one.add_user(), f"61.{os.getpid()}"
    job_id = submit(one, token, "commanding", text=seconds)
    ends = time.monotonic() + 5
    while not _sleeping(seconds) and time.monotonic() < ends:
        time.sleep(0.02)
    assert len(_sleeping(seconds)) == 1
    one.kill()  # the group of master and worker; the command has one of its own
    ends = time.monotonic() + 2
    while _sleeping(seconds) and time.monotonic() < ends:
        time.sleep(0.02)
    assert _sleeping(seconds) == [], "a retry would run a second one beside it"
    assert job_row(one, job_id)["status"] == "running"


def _sleeping(seconds):
    found = subprocess.run(["ps", "-eo", "pid=,stat=,args="], capture_output=True, text=True).stdout.splitlines()
    return [line for line in found if line.split()[2:] == ["sleep", seconds] and "Z" not in line.split()[1]]


# ---------------------------------------------------------------------------------------- drain

def to_the_master(one, number):
    one.signal_master(number)


def to_the_group(one, number):
    """As Ctrl-C does: master and worker at once; the master's own signal follows."""
    os.killpg(one.process.pid, number)


@pytest.fixture
def connect():
    """Connections that stay open for as long as the test."""
    made = []

    def connection(one):
        made.append(http.client.HTTPConnection("127.0.0.1", one.port, timeout=10))
        return made[-1]
    yield connection
    for one in made:
        one.close()


def open_stream(connection, token, job_id):
    connection.request("GET", f"/api/jobs/{job_id}/events", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.readline().startswith(b"retry:")
    return answer


def keep_alive(connection):
    """Has been answered, and stays open."""
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read()
    return connection


@pytest.mark.parametrize("number, blow", [(signal.SIGTERM, to_the_master), (signal.SIGINT, to_the_group)])
@pytest.mark.parametrize("busy", ["idle", "keep-alive", "stream", "running"])
def test_told_to_stop_it_is_gone_within_five_seconds(server, connect, busy, number, blow):
    one = server()
    one.get("/healthz")
    if busy == "keep-alive":
        keep_alive(connect(one))
    if busy in ("stream", "running"):
        token = one.add_user()
        job_id = submit(one, token, "again", seconds=30)
        until_charged(one, job_id)
    if busy == "stream":
        stream = open_stream(connect(one), token, job_id)
    blow(one, number)
    assert seconds_to_exit(one) < EXIT_SECONDS_MAX
    assert one.process.returncode == 0
    assert list((one.folder / "workers").iterdir()) == [], "it said goodbye"
    if busy == "stream":
        assert b"event: progress" in stream.read(), "the stream ended whole"


@pytest.mark.parametrize("number, blow", [(signal.SIGTERM, to_the_master), (signal.SIGINT, to_the_group)])
def test_a_drain_releases_what_may_be_repeated_and_settles_the_rest(server, connect, number, blow):
    one = server(DRAIN_SECONDS=0.5)
    token = one.add_user()
    repeatable, final, paid = (submit(one, token, "again", seconds=1.5), submit(one, token, "slow", seconds=30),
                               submit(one, token, "again", seconds=0.2))
    for job_id in (repeatable, final, paid):
        until_charged(one, job_id)
    waiting = keep_alive(connect(one))
    blow(one, number)
    time.sleep(0.15)
    waiting.request("POST", "/api/kinds/free/jobs", json.dumps({}), {"Content-Type": "application/json",
                                                                     "Authorization": f"Bearer {token}"})
    refused = waiting.getresponse()
    assert (refused.status, json.loads(refused.read())["code"]) == (503, "SHUTTING_DOWN")
    assert refused.headers["Retry-After"]
    assert seconds_to_exit(one) < EXIT_SECONDS_MAX
    row = job_row(one, repeatable)
    assert (row["status"], row["attempts_spent"], row["releases"], row["worker_id"]) == ("pending", 0, 1, None)
    row = job_row(one, final)
    assert (row["status"], row["error_code"], row["settlement"]) == ("failed", "INTERRUPTED", "settled")
    assert ledger(one, final) == [("consume", -1), ("refund", 1)]
    assert job_row(one, paid)["status"] == "succeeded", "what ends within DRAIN_SECONDS ends well"
    assert len(one.rows("SELECT 1 FROM jobs")) == 3, "what was refused is not stored"
    restart(one)
    assert told(one, token, final)[:3] == ("failed", "INTERRUPTED", "refunded")
    job = one.finished(repeatable, token=token)
    assert (job["status"], job["attempt"], job["attempts_spent"]) == ("succeeded", 2, 0)
    assert ledger(one, repeatable) == [("consume", -1)]


# ------------------------------------------------------------------------- two workers on one file

def worker_pids(one):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(one.process.pid)], capture_output=True, text=True)
    return {int(pid) for pid in found.stdout.split()}


def until_workers(one, wanted, seconds=10):
    ends = time.monotonic() + seconds
    while not wanted(worker_pids(one)):
        assert time.monotonic() < ends, (worker_pids(one), one.log.read_text()[-3000:])
        time.sleep(0.02)
    return worker_pids(one)


def test_a_reload_reaps_nothing_that_lives_and_gives_back_the_rest(server):
    one = server(DRAIN_SECONDS=3)
    token = one.add_user(points=5)
    short, long = submit(one, token, "slow", seconds=2.6), submit(one, token, "again", seconds=4.5)
    until_charged(one, short), until_charged(one, long)
    first = worker_pids(one)
    to_the_master(one, signal.SIGHUP)
    until_workers(one, lambda pids: pids - first and pids & first)
    until(one, "SELECT 1 WHERE (SELECT count(*) FROM workers) = 2")  # the new one has recovered what it found
    time.sleep(0.2)
    assert {job_row(one, short)["status"], job_row(one, long)["status"]} == {"running"}, "the old one lives"
    assert told(one, token, short)[0] == "running"
    assert one.finished(short, token=token)["status"] == "succeeded"
    until_workers(one, lambda pids: not pids & first)
    job = one.finished(long, token=token)
    assert (job["status"], job["attempts_spent"], job["attempt"]) == ("succeeded", 0, 2)
    assert [ledger(one, job_id) for job_id in (short, long)] == [[("consume", -1)], [("consume", -1)]]
    assert len(worker_pids(one)) == 1


def test_an_old_worker_that_is_killed_in_its_drain_is_found_without_being_asked_for(server):
    one = server(DRAIN_SECONDS=4)  # RECOVERY_INTERVAL_SECONDS is its default, a minute
    token = one.add_user()
    job_id = submit(one, token, "slow", seconds=30)
    until_charged(one, job_id)
    (old,) = worker_pids(one)
    to_the_master(one, signal.SIGHUP)
    until(one, "SELECT 1 WHERE (SELECT count(*) FROM workers) = 2")
    os.kill(old, signal.SIGKILL)
    until(one, "SELECT 1 FROM jobs WHERE id = ? AND settlement = 'settled'", job_id)
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]


def test_whoever_comes_during_a_reload_is_not_refused(server):
    one = server(DRAIN_SECONDS=2)
    token = one.add_user()
    until_charged(one, submit(one, token, "again", seconds=8))
    first = worker_pids(one)
    to_the_master(one, signal.SIGHUP)
    until_workers(one, lambda pids: pids - first)
    time.sleep(0.02)  # the old one hears of it a moment after the new one was begun
    answers = []
    while worker_pids(one) & first:
        answers.append(one.post("/api/kinds/free/jobs", {"text": str(len(answers))}, token=token).status)
    assert len(answers) > 5 and set(answers) == {202}, answers


def test_a_second_server_on_the_file_touches_only_what_the_first_one_left_dead(server):
    one = server()
    token = one.add_user()
    job_id = submit(one, token, "slow", seconds=1.5)
    until_charged(one, job_id)
    other = server()
    assert told(other, token, job_id)[0] == "running"
    assert one.finished(job_id, token=token)["status"] == "succeeded"
    job_id = submit(one, token, "slow", seconds=20)
    until_charged(one, job_id)
    one.kill()
    began = time.monotonic()
    assert told(other, token, job_id)[:3] == ("failed", "INTERRUPTED", "refunded")
    assert time.monotonic() - began < 1


def pause(one):
    """SIGSTOP, between two transactions: stopped within one it would keep the write lock from everybody."""
    while True:
        os.killpg(one.process.pid, signal.SIGSTOP)
        with closing(sqlite3.connect(one.database, timeout=0, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError:
                os.killpg(one.process.pid, signal.SIGCONT)
        time.sleep(0.005)


def test_a_paused_server_is_not_taken_for_a_dead_one(server):
    one = server(HEARTBEAT_SECONDS=0.1, WORKER_STALE_SECONDS=0.5, RECOVERY_INTERVAL_SECONDS=0.1)
    token = one.add_user()
    job_id = submit(one, token, "slow", seconds=2)
    until_charged(one, job_id)
    pause(one)
    other = server(HEARTBEAT_SECONDS=0.1, WORKER_STALE_SECONDS=0.5, RECOVERY_INTERVAL_SECONDS=0.1)
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        assert told(other, token, job_id)[0] == "running", "its lock says that it lives, whatever its heartbeat"
        time.sleep(0.05)
    os.killpg(one.process.pid, signal.SIGCONT)
    assert one.finished(job_id, token=token)["status"] == "succeeded"
    assert ledger(one, job_id) == [("consume", -1)]


@pytest.mark.parametrize("later", [0, 0.05, 0.15])
def test_told_to_stop_while_its_worker_only_begins_it_is_gone_at_once(server, later):
    one = server()
    one.kill()
    begun = one.log.read_text().count("Booting worker")
    one.launch()
    ends = time.monotonic() + 20
    while one.log.read_text().count("Booting worker") == begun:
        assert time.monotonic() < ends
        time.sleep(0.001)
    time.sleep(later)
    to_the_master(one, signal.SIGTERM)
    told_at = time.monotonic()
    assert one.wait() == 0 and time.monotonic() - told_at < 5


# -------------------------------------------------------------------------------------- one worker

def test_there_is_one_worker_whatever_is_asked_for(server):
    one = server(WEB_CONCURRENCY=4, GUNICORN_CMD_ARGS="-w 4")
    one.get("/healthz")
    to_the_master(one, signal.SIGTTIN)
    time.sleep(0.5)
    assert len(worker_pids(one)) == 1
    assert [row[0] for row in one.rows("SELECT count(*) FROM workers")] == [1]
    assert one.get("/healthz").status == 200


def refused_to_start(one):
    """The log of a server that ended by itself."""
    try:
        one.start()
        one.process.wait(10)
    except AssertionError:
        pass  # it ended before its port was open
    finally:
        one.stop()
    assert one.process.returncode == 4, one.log.read_text()
    return one.log.read_text()


def test_preload_is_refused_in_words(tmp_path):
    assert "start without --preload" in refused_to_start(Server(tmp_path, {"TEST_GUNICORN_ARGS": "--preload"}))


def test_an_app_that_cannot_start_says_why_once_and_ends(tmp_path):
    log = refused_to_start(Server(tmp_path, {"KINDS": "nonsense"}))
    assert log.count("Ainori cannot start: The kind module 'webapp.kinds.nonsense' cannot be imported") == 1
