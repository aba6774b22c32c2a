"""Windows just before, at and just after each threshold, through the poll: the database's clock decides."""
import datetime
import io
import os
import sqlite3
import subprocess
import sys
import time

import gevent
import pytest

from tests.conftest import ROOT, START, Person
from webapp import create_app, db, incidents, jobs, messages, recovery, workers
from webapp.runner import files_folder
from webapp.service import Service

MOMENT = 0.001  # the clock's grain
BEFORE, AT, AFTER = -MOMENT, 0, MOMENT
STALE = 30  # WORKER_STALE_SECONDS
HOUR, DAY = 3600, 86400
JAPANESE = (ROOT / "webapp" / "translations" / "ja" / "LC_MESSAGES" / "messages.mo").exists()


@pytest.fixture
def someone(clock, person):
    return person(points=3)


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def worker():
    """Make a worker of another process. Its lock file is ``held`` (it lives), ``free`` (it is dead) or ``gone``."""
    processes = []

    def make(lock, name="w"):
        workers._register(name, "server")
        path = db.store.path.parent / "workers" / f"{name}.lock"
        if lock == "held":
            processes.append(subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE,
                                              stdout=subprocess.PIPE))
            assert processes[-1].stdout.readline() == b"held\n"
        elif lock == "free":
            path.touch()
        return name
    make.processes = processes
    yield make
    for process in processes:
        process.communicate(b"\n")


def working(someone, worker_id, kind, charged=True, **params):
    """A job of this kind that this worker has claimed (and charged)."""
    job = someone.submit(kind, **params).json["job"]["id"]
    assert [row["id"] for row in jobs.claim(worker_id, [kind])] == [job]
    if charged:
        jobs.charge(job, jobs.get(job)["attempt"])
    return job


def ended(someone, job):
    """``(status, error code)`` as a poll tells it."""
    shown = someone.job(job)
    return shown["status"], shown["error"] and shown["error"]["code"]


def until(condition, seconds=5):
    with gevent.Timeout(seconds):
        while not condition():
            gevent.sleep(0.02)


RUNNING, INTERRUPTED, TIMED_OUT = ("running", None), ("failed", "INTERRUPTED"), ("failed", "TIMED_OUT")


# ---------------------------------------------------------------------------------------- deadline

@pytest.mark.parametrize("moment, verdict", [(BEFORE, RUNNING), (AT, RUNNING), (AFTER, TIMED_OUT)])
def test_a_job_is_timed_out_when_its_deadline_has_passed_and_never_earlier(clock, someone, worker, moment, verdict):
    job = working(someone, worker("held"), "slow")
    clock(60 + moment)
    assert ended(someone, job) == verdict
    assert someone.balance() == (2 if verdict == RUNNING else 3)


@pytest.mark.parametrize("moment, n", [(BEFORE, 0), (AT, 0), (AFTER, 1)])
def test_a_pass_judges_as_a_poll_does(clock, someone, worker, moment, n):
    working(someone, worker("held"), "slow")
    clock(60 + moment)
    assert recovery.one_pass().interrupted == n


def test_the_deadline_is_that_of_the_attempt_not_of_the_job(clock, someone, worker):
    job = working(someone, worker("held"), "again")
    clock(61)
    assert ended(someone, job) == ("pending", None)
    jobs.claim("w", ["again"])
    clock(61 + 60)
    assert ended(someone, job) == RUNNING
    clock(61 + 60 + MOMENT)
    assert ended(someone, job) == ("pending", None)


def test_a_pending_job_has_no_deadline(clock, someone):
    job = someone.submit("slow").json["job"]["id"]
    clock(DAY)
    assert ended(someone, job) == ("pending", None)


# --------------------------------------------------------------------------------------- heartbeat

@pytest.mark.parametrize("moment, verdict", [(BEFORE, RUNNING), (AT, RUNNING), (AFTER, INTERRUPTED)])
def test_where_the_lock_file_is_gone_an_old_heartbeat_is_a_dead_worker(clock, someone, worker, moment, verdict):
    job = working(someone, worker("gone"), "slow")
    clock(STALE + moment)
    assert ended(someone, job) == verdict
    assert someone.balance() == (2 if verdict == RUNNING else 3)


@pytest.mark.parametrize("moment, verdict", [(AT, RUNNING), (AFTER, INTERRUPTED)])
def test_each_heartbeat_begins_the_window_again(clock, someone, worker, moment, verdict):
    job = working(someone, worker("gone"), "slow")
    clock(20)
    workers.beat("w")
    clock(20 + STALE + moment)
    assert ended(someone, job) == verdict


def test_a_lock_file_removed_under_a_living_worker_leaves_its_heartbeat_to_tell(clock, someone, worker):
    job = working(someone, worker("held"), "slow")
    clock(STALE + 5)
    assert ended(someone, job) == RUNNING
    (db.store.path.parent / "workers" / "w.lock").unlink()
    workers.beat("w")
    assert ended(someone, job) == RUNNING
    clock(2 * STALE + 5 - MOMENT)  # just before the deadline of 60 s would be past anyway
    assert ended(someone, job)[1] != "INTERRUPTED"


def test_a_worker_that_holds_its_lock_file_lives_however_old_its_heartbeat(clock, someone, worker):
    job = working(someone, worker("held"), "free", charged=False, text="x")
    clock(300 - MOMENT)
    assert ended(someone, job) == RUNNING


def test_a_worker_whose_lock_file_nobody_holds_is_dead_at_once(clock, someone, worker):
    job = working(someone, worker("free"), "slow")
    assert ended(someone, job) == INTERRUPTED and someone.balance() == 3


def test_a_worker_that_said_goodbye_is_dead_at_once(clock, someone, worker):
    job = working(someone, worker("gone"), "slow")
    assert ended(someone, job) == RUNNING
    workers._unregister("w")
    assert ended(someone, job) == INTERRUPTED


def test_the_stale_setting_is_obeyed(clock, settings, worker):
    app = create_app(settings(WORKER_STALE_SECONDS=3, HEARTBEAT_SECONDS=1))
    someone = Person(app, "p@example.org", 3)
    job = working(someone, worker("gone"), "slow")
    clock(3)
    assert ended(someone, job) == RUNNING
    clock(3 + MOMENT)
    assert ended(someone, job) == INTERRUPTED


def test_a_process_never_judges_itself_dead(clock, service, someone):
    job = someone.submit("free", text="x", seconds=5).json["job"]["id"]
    until(lambda: ended(someone, job) == RUNNING)
    service.runner._loops[1].kill()  # it has not beaten for long, as if the machine had slept
    clock(299)
    workers.current.path.unlink()
    assert ended(someone, job) == RUNNING
    assert someone.post(f"/api/jobs/{job}/cancellation").status_code == 202
    someone.finished(job)


# ------------------------------------------------------------------------------------ two verdicts

def events_of(job, event):
    return [row for row in jobs.events(job) if row["event"] == event]


@pytest.mark.parametrize("lock", ["free", "gone"])
def test_orphaned_and_timed_out_at_once_is_orphaned_once(clock, someone, worker, lock):
    job = working(someone, worker(lock), "slow")
    clock(61)
    for _ in range(3):
        assert ended(someone, job) == INTERRUPTED
    (told,) = events_of(job, "interrupted")
    assert '"orphaned"' in told["data"] and someone.balance() == 3
    assert jobs.get(job)["attempts_spent"] == 1


@pytest.mark.parametrize("lock", ["held", "gone"])
def test_a_slow_job_is_not_a_dead_one(clock, someone, worker, lock):
    job = working(someone, worker(lock), "slow")
    clock(60.5)
    workers.beat("w")
    assert ended(someone, job) == TIMED_OUT
    (told,) = events_of(job, "interrupted")
    assert '"timed_out"' in told["data"]


# ------------------------------------------------------------------------------- attempts and retries

def test_a_time_out_of_what_may_be_repeated_spends_an_attempt_and_no_points(clock, someone, worker):
    job = working(someone, worker("held"), "again")
    for spent in (1, 2):
        clock(61 * spent)
        shown = someone.job(job)
        assert (shown["status"], shown["attempts_spent"], shown["attempt"]) == ("pending", spent, spent)
        assert (shown["money"], shown["message"]) == ("consumed", "Waiting to be tried again.")
        assert shown["error"] is None and someone.balance() == 2
        jobs.claim("w", ["again"])
        assert jobs.charge(job, spent + 1) is False
    clock(61 * 3)
    assert ended(someone, job) == TIMED_OUT
    row = jobs.get(job)
    assert (row["attempt"], row["attempts_spent"], row["settlement"], someone.balance()) == (3, 3, "settled", 3)
    (incident,) = incidents.listing()
    assert (incident["code"], incident["severity"], incident["job_id"]) == ("ATTEMPTS_SPENT", "critical", job)


def test_deaths_and_time_outs_spend_the_same_attempts(clock, someone, worker):
    job = working(someone, worker("free"), "again")
    assert ended(someone, job) == ("pending", None)
    jobs.claim(worker("held", "v"), ["again"])
    clock(61)
    assert ended(someone, job) == ("pending", None)
    jobs.claim("w", ["again"])
    assert ended(someone, job) == INTERRUPTED
    assert [incident["code"] for incident in incidents.listing()] == ["ATTEMPTS_SPENT"]


def test_what_failed_once_only_is_no_incident(clock, someone, worker):
    job = working(someone, worker("free"), "slow")
    assert ended(someone, job) == INTERRUPTED and incidents.listing() == []


def test_an_attempt_that_lost_its_fence_does_not_take_its_successor_along(clock, service, someone):
    job = someone.submit("again", text="x", seconds=1).json["job"]["id"]
    until(lambda: service.runner.attempts.keys() == {(job, 1)} and someone.job(job)["money"] == "consumed")
    clock(61)  # its deadline has passed, and a poll sees it before it does itself
    assert someone.job(job)["attempts_spent"] == 1
    until(lambda: service.runner.attempts.keys() == {(job, 2)})  # the first has ended, the second goes on
    for _ in range(5):
        assert ended(someone, job) == RUNNING
    service.runner.beat()
    shown = someone.finished(job)
    assert (shown["status"], shown["attempt"], shown["attempts_spent"], shown["money"]) == ("succeeded", 2, 1, "consumed")
    until(lambda: workers.current.attempts == set())
    assert service.runner.attempts == {} and jobs.signals.stoppers == {}


def test_what_lost_its_fence_leaves_its_successors_cancel_alone(clock, service, someone):
    job = someone.submit("again", text="x", seconds=1).json["job"]["id"]
    until(lambda: someone.job(job)["money"] == "consumed")
    clock(61)
    assert someone.job(job)["attempts_spent"] == 1
    until(lambda: service.runner.attempts.keys() == {(job, 2)})
    assert someone.post(f"/api/jobs/{job}/cancellation").status_code == 202
    shown = someone.finished(job, seconds=0.8)
    assert (shown["error"]["code"], shown["money"]) == ("CANCELLED", "consumed")


# ----------------------------------------------------------------------------------- shared results

@pytest.mark.parametrize("moment, fresh", [(BEFORE, True), (AT, False), (AFTER, False)])
def test_a_shared_result_is_reused_while_fresh(clock, someone, worker, person, moment, fresh):
    clock(-100)
    job = working(someone, worker("held"), "shared", charged=False, text="x")
    clock(0)
    jobs.succeed(job, 1, '{"text": "x"}')
    clock(60 + moment)  # from its end, not from its beginning
    other = person()
    answer = other.submit("shared", text="x")
    assert (answer.status_code, answer.json["cached"], answer.json["job"]["id"] == job) == (
        (200, True, True) if fresh else (202, False, False))
    assert other.post("/api/kinds/shared/precheck", json={"text": "x"}).json["cached"] is fresh


# -------------------------------------------------------------------------------------- Retry-After

def test_the_poll_says_when_to_come_back_and_ever_later(clock, someone):
    job = someone.submit("slow").json["job"]["id"]
    said = []
    for seconds in (0, 29.9, 30.1, 119.9, 120.1, 599.9, 600.1, DAY):
        clock(seconds)
        said.append(int(someone.get(f"/api/jobs/{job}").headers["Retry-After"]))
    assert said == [1, 1, 2, 2, 5, 5, 10, 10]


def test_a_final_job_has_no_retry_after(clock, someone, worker):
    job = working(someone, worker("free"), "slow")
    answer = someone.get(f"/api/jobs/{job}")
    assert answer.json["status"] == "failed" and "Retry-After" not in answer.headers


# ------------------------------------------------------------------------------------------- expiry

def uploaded(someone, worker_id, seconds):
    """A job with a file that was uploaded at that moment of the frozen clock."""
    answer = someone.post("/api/kinds/stepping/jobs", data={"file": (io.BytesIO(b"text"), "a.txt")},
                          content_type="multipart/form-data")
    job = answer.json["job"]["id"]
    assert [row["id"] for row in jobs.claim(worker_id, ["stepping"])] == [job]
    path = jobs.input_path(job, "file")
    moment = START.replace(tzinfo=datetime.timezone.utc).timestamp() + seconds
    os.utime(path, (moment, moment))
    return job, path


@pytest.mark.parametrize("moment, kept", [(BEFORE, True), (AT, False), (AFTER, False)])
def test_an_input_is_kept_a_day_after_its_job_failed(clock, someone, worker, moment, kept):
    clock(-HOUR)
    job, path = uploaded(someone, worker("held"), -HOUR)
    clock(0)
    jobs.fail(job, 1, "X")
    jobs.settle(job)
    clock(jobs.INPUT_KEPT_HOURS * HOUR + moment)
    assert recovery.expire(30)["inputs"] == (0 if kept else 1)
    assert path.exists() == kept
    assert (jobs.retryable(jobs.get(job)) is None) == kept


def test_an_input_is_kept_while_its_job_is_not_final(clock, someone, worker):
    clock(0)
    job, path = uploaded(someone, worker("held"), 0)
    clock(29 * DAY)
    recovery.expire(30)
    assert path.exists()


def test_an_upload_that_became_nobodys_is_deleted_after_a_day(clock, app):
    path = db.store.path.parent / "uploads" / "incoming-0123456789abcdef"
    path.touch()
    moment = START.replace(tzinfo=datetime.timezone.utc).timestamp()
    os.utime(path, (moment, moment))
    clock(DAY)
    recovery.expire(30)
    assert path.exists()
    clock(DAY + MOMENT)
    recovery.expire(30)
    assert not path.exists()


@pytest.mark.parametrize("moment, kept", [(BEFORE, True), (AT, True), (AFTER, False)])
def test_results_events_and_files_are_kept_for_the_retention_and_the_ledger_for_ever(clock, someone, worker, moment,
                                                                                     kept):
    clock(-HOUR)
    job = working(someone, worker("held"), "slow")
    jobs.keep_step(job, 1, "one", "1")
    jobs.keep_file(job, 1, "a.txt", "text/plain", 1)
    files_folder(job).mkdir()
    (files_folder(job) / "a.txt").write_text("x")
    (files_folder(job) / ".rows.jsonl").write_text("{}")
    clock(0)
    jobs.succeed(job, 1, '{"a": 1}', 1)
    clock(30 * DAY + moment)
    assert recovery.expire(30)["results"] == (0 if kept else 1)
    shown = someone.job(job)
    assert (shown["status"], shown["money"]) == ("succeeded", "consumed")
    assert (shown["result"] is not None) == bool(shown["files"]) == ("csv" in shown["links"]) == kept
    assert files_folder(job).exists() == kept
    assert jobs.steps_kept(job) == 0, "they were for another attempt"
    for table in ("job_events", "job_files"):
        assert bool(db.value(f"SELECT count(*) FROM {table} WHERE job_id = ?", (job,))) == kept, table
    assert someone.get("/api/points").json["balance"] == 2
    assert recovery.expire(30)["results"] == 0  # once


def test_a_story_stays_until_its_points_are_settled(clock, someone, worker):
    """Else who has to decide finds nothing to go by, and what is told next begins at number 1 again."""
    clock(0)
    job = working(someone, worker("free"), "slow")
    db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    assert someone.job(job)["money"] == "unknown"
    clock(31 * DAY)
    try:
        assert recovery.expire(30)["results"] == 0
    finally:
        db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))
    assert someone.job(job)["money"] == "refunded"
    told = [event["event"] for event in jobs.events(job)]
    assert told == ["submitted", "claimed", "charged", "interrupted", "failed", "unknown", "settled"]
    assert recovery.expire(30)["results"] == 1 and jobs.events(job) == []


@pytest.mark.parametrize("moment, kept", [(AT, True), (AFTER, False)])
def test_acknowledged_incidents_expire_and_open_ones_stay(clock, app, moment, kept):
    incidents.record("warning", "s", "SEEN", "d")
    incidents.record("critical", "s", "OPEN", "d")
    incidents.acknowledge(1)
    clock(30 * DAY + moment)
    recovery.expire(30)
    assert [row["code"] for row in incidents.listing(everything=True)] == (["OPEN", "SEEN"] if kept else ["OPEN"])


def test_expiry_comes_at_most_once_an_hour(clock, app, monkeypatch):
    runs = []
    monkeypatch.setattr(recovery, "_logged", runs.append)
    monkeypatch.setattr(recovery, "_expired_at", time.time())
    for seconds, n in ((HOUR - 1, 0), (HOUR, 1), (HOUR + 1, 1), (2 * HOUR, 2)):
        clock(seconds)
        recovery.expire_now_and_then(30)
        gevent.sleep(0)
        assert len(runs) == n, seconds


# ---------------------------------------------------------------------------------------- scheduler

def test_the_scheduler_looks_at_the_next_deadline_and_sleeps_when_there_is_nothing(clock, someone, worker):
    assert recovery.next_look_seconds(60) is None
    job = someone.submit("slow").json["job"]["id"]
    assert recovery.next_look_seconds(60) == 60
    jobs.claim(worker("held"), ["slow"])
    clock(50)
    assert recovery.next_look_seconds(60) == recovery.OTHERS_LOOK_SECONDS, "only its death tells of itself"
    clock(59.5)
    assert recovery.next_look_seconds(60) == pytest.approx(0.5 + recovery.AFTER_DEADLINE_SECONDS, abs=0.01)
    clock(70)
    assert recovery.next_look_seconds(60) == pytest.approx(recovery.AFTER_DEADLINE_SECONDS, abs=0.01)
    jobs.reap(job)
    assert recovery.next_look_seconds(60) == 60  # it is due
    jobs.settle(job)
    assert recovery.next_look_seconds(60) is None


def test_what_another_process_had_in_flight_is_watched_from_the_start_on(settings, worker):
    """In real time: nobody polls and nobody submits, yet its death is noticed."""
    app = create_app(settings(RECOVERY_INTERVAL_SECONDS=0.1))
    someone = Person(app, "p@example.org", 3)
    job = working(someone, worker("held"), "slow")
    jobs.signals.watch.clear()  # it was another process that accepted it
    service = Service(app).start()
    try:
        gevent.sleep(0.3)
        assert jobs.get(job)["status"] == "running"
        worker.processes[0].kill()
        until(lambda: jobs.get(job)["settlement"] == "settled")
        assert (jobs.get(job)["error_code"], someone.balance()) == ("INTERRUPTED", 3)
    finally:
        service.stop()


@pytest.fixture
def watching(settings, worker):
    """A service that looks often, somebody with points, and the shell of another process on its file."""
    app = create_app(settings(RECOVERY_INTERVAL_SECONDS=0.1))
    someone, service = Person(app, "p@example.org", 3), Service(app).start()
    gevent.sleep(0.05)  # it has looked, and sleeps: there is nothing
    connection = sqlite3.connect(db.store.path, timeout=5, isolation_level=None)
    for sql in ("INSERT INTO jobs (id, number, kind, user_id, timeout_seconds, cost, params, params_hash) "
                "VALUES ('theirs', 'N', 'slow', ?, 60, 1, '{}', 'h')",
                "INSERT INTO job_watchers (job_id, user_id, request_hash) VALUES ('theirs', ?, 'h')"):
        connection.execute(sql, (someone.id,))
    yield someone, connection
    connection.close()
    service.stop()


THEY_CLAIM = "UPDATE jobs SET status = 'running', attempt = attempt + 1, worker_id = 'w', deadline_at = '2999'"
THEY_RELEASE = "UPDATE jobs SET status = 'pending', worker_id = NULL, deadline_at = NULL, releases = 1"


def test_a_look_at_another_processes_job_has_it_watched_from_then_on(watching, worker):
    someone, theirs = watching
    worker("held")
    theirs.execute(THEY_CLAIM)
    assert ended(someone, "theirs") == RUNNING
    worker.processes[0].kill()
    until(lambda: jobs.get("theirs")["error_code"] == "INTERRUPTED")


def test_a_look_at_what_another_process_accepted_has_it_claimed(watching):
    someone, _ = watching
    gevent.sleep(0.2)
    assert jobs.get("theirs")["status"] == "pending"
    someone.job("theirs")
    until(lambda: jobs.get("theirs")["status"] == "succeeded")


def test_what_another_process_gives_back_while_it_is_watched_is_claimed(watching, worker):
    someone, theirs = watching
    worker("held")
    theirs.execute(THEY_CLAIM)
    assert ended(someone, "theirs") == RUNNING
    theirs.execute(THEY_RELEASE)
    until(lambda: jobs.get("theirs")["status"] == "succeeded")


# ----------------------------------------------------------------------------------------- messages

SENTENCES = {
    "en": {"running": "1 point was used (balance 2).",
           "none": "The work was interrupted. No points were used.",
           "refunded": "The work was interrupted. The 1 point it had used has been returned (balance 3).",
           "checking": "The work was interrupted. We are checking what happened…"},
    "ja": {"none": "処理が途中で止まりました。ポイントは使われていません。",
           "refunded": "処理が途中で止まりました。使われた1ポイントはお返ししました(残高3)。",
           "checking": "処理が途中で止まりました。状況を確認しています。"},
}


@pytest.mark.parametrize("lang", ["en", *["ja"] * JAPANESE])
@pytest.mark.parametrize("lock, seconds", [("held", 60), ("gone", STALE)])
@pytest.mark.parametrize("charged", [False, True])
def test_the_sentence_changes_at_the_threshold_and_says_what_happened_to_the_points(
        clock, someone, worker, lang, lock, seconds, charged):
    job = working(someone, worker(lock), "slow", charged=charged)

    def said():
        return someone.get(f"/api/jobs/{job}", headers={"Accept-Language": lang}).json["money_message"]
    before = said()
    for moment in (BEFORE, AT):
        clock(seconds + moment)
        assert said() == before
    clock(seconds + AFTER)
    assert said() == SENTENCES[lang]["refunded" if charged else "none"]


@pytest.mark.parametrize("lang", ["en", *["ja"] * JAPANESE])
def test_the_neutral_sentence_stands_only_while_it_is_checked(clock, someone, worker, lang):
    job = working(someone, worker("free"), "slow")
    jobs.reap(job)
    db.store.write_connection.execute("PRAGMA query_only = on")  # nothing can be settled yet
    answer = someone.get(f"/api/jobs/{job}", headers={"Accept-Language": lang})
    assert answer.json["money_message"] == SENTENCES[lang]["checking"] and "Retry-After" in answer.headers
    db.store.write_connection.execute("PRAGMA query_only = off")
    answer = someone.get(f"/api/jobs/{job}", headers={"Accept-Language": lang})
    assert answer.json["money_message"] == SENTENCES[lang]["refunded"] and "Retry-After" not in answer.headers


def test_times_are_utc_in_milliseconds_of_the_databases_clock(clock, someone, worker):
    clock(0.123)
    job = working(someone, worker("held"), "slow")
    shown = someone.job(job)
    assert shown["created_at"] == shown["started_at"] == "2026-03-01T12:00:00.123Z"
    assert jobs.get(job)["deadline_at"] == "2026-03-01T12:01:00.123Z"


def test_whoever_joins_is_not_cancelled_by_somebody_else(clock, app, person, worker):
    owner, joiner = person(), person()
    job = working(owner, worker("held"), "shared", charged=False, text="x")
    owner.post(f"/api/jobs/{job}/cancellation")
    assert joiner.post("/api/kinds/shared/precheck", json={"text": "x"}).json["reasons"] == ["BUSY"]
    answer = joiner.submit("shared", text="x")
    assert answer.status_code == 503 and "being cancelled" in answer.json["title"]
    jobs.fail(job, 1, "CANCELLED")
    assert joiner.submit("shared", text="x").status_code == 202


# ---------------------------------------------------------------------------- how long it usually takes

def _worked(someone, clock, at, seconds, interrupted=False):
    """One success that took so long from claim to finish, after it had waited for 100 s."""
    clock(at)
    job = someone.submit("paced_again").json["job"]["id"]
    clock(at + 100)
    attempt = jobs.claim("w", ["paced_again"])[0]["attempt"]
    if interrupted:
        jobs.release(job, attempt, 10)
        attempt = jobs.claim("w", ["paced_again"])[0]["attempt"]
    clock(at + 100 + seconds)
    jobs.succeed(job, attempt, "{}")


def test_usually_is_the_median_of_the_newest_that_nothing_interrupted(clock, person, worker, monkeypatch):
    worker("held")
    someone = person(points=100)
    for n, seconds in enumerate((50, 40)):
        _worked(someone, clock, 1000 * n, seconds)
    assert jobs.usual_seconds("paced_again") is None  # two say little
    _worked(someone, clock, 2000, 140, interrupted=True)
    assert jobs.usual_seconds("paced_again") is None
    _worked(someone, clock, 3000, 10)
    assert jobs.usual_seconds("paced_again") == pytest.approx(40, abs=0.01) and jobs.usual_seconds("slow") is None
    for n in range(40):
        _worked(someone, clock, 10_000 + 1000 * n, 30 if n < 20 else 100)
    assert jobs.usual_seconds("paced_again") == pytest.approx(100, abs=0.01)  # what is older no longer counts
    monkeypatch.setattr(jobs, "USUAL_LOOK_BACK_JOBS", 20)
    assert jobs.usual_seconds("paced_again") == pytest.approx(100, abs=0.01)  # nor is it looked at


@pytest.mark.parametrize("moment, late", [(BEFORE, False), (AT, False), (AFTER, True)])
def test_longer_than_usual_is_said_after_one_and_a_half_times_and_five_seconds(clock, person, worker, moment, late):
    worker("held")
    someone = person(points=9)
    for n in range(3):
        _worked(someone, clock, 1000 * n, 40)
    clock(5000)
    job = working(someone, "w", "paced_again")
    clock(5000 + 1.5 * 40 + 5 + moment)
    page = someone.get(f"/jobs/{job}").text
    assert "about 40 seconds" in page and 'data-late-after-seconds="65"' in page
    assert ('data-late-after-seconds="65">This is taking longer' in page) == late


def test_what_waits_is_not_said_to_be_worked_on(clock, person, worker):
    worker("held")
    someone = person(points=9)
    for n in range(3):
        _worked(someone, clock, 1000 * n, 40)
    clock(5000)
    job = someone.submit("paced_again").json["job"]["id"]
    clock(5500)
    assert 'data-late-after-seconds="65" hidden>' in someone.get(f"/jobs/{job}").text


@pytest.mark.parametrize("seconds, en, ja", [
    (0.2, "about 1 second", "約1秒"), (9.4, "about 9 seconds", "約9秒"), (38, "about 40 seconds", "約40秒"),
    (57.4, "about 55 seconds", "約55秒"), (57.5, "about 1 minute", "約1分"), (89, "about 1 minute", "約1分"),
    (91, "about 2 minutes", "約2分"), (3569, "about 59 minutes", "約59分"), (3570, "about 1 hour", "約1時間"),
    (5500, "about 2 hours", "約2時間")])
def test_a_duration_is_said_as_people_do(app, seconds, en, ja):
    for lang, said in (("en", en), ("ja", ja)):
        with app.test_request_context(headers={"Accept-Language": lang}):
            assert messages.duration(seconds) == said
