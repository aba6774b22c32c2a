"""The operator hears of critical incidents and of interrupted work: once, later, or not at all, and nobody waits for it."""
import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager

import gevent
import pytest
from gevent.event import Event
from gevent.pool import Pool
from gevent.pywsgi import WSGIServer

from tests.test_crash import EXIT_SECONDS_MAX, RETURNED, ledger, submit, until, until_charged
from tests.test_torn import rename, submitted_and_charged
from webapp import alerts, create_app, db, incidents, jobs, recovery
from webapp.alerts import Alerts
from webapp.errors import SettingsError
from webapp.service import Service

HOUR = 3600
MOMENT = 0.001  # the clock's grain
PATH = "hook-of-the-test"  # as good as a password


class Channel:
    """A real web hook: what it received, and what it answers. ``status`` 0: nothing, until it is closed."""

    def __init__(self):
        self.received, self.statuses, self.asked = [], [200], 0
        self._closed = Event()
        self._server = WSGIServer(("127.0.0.1", 0), self._app, log=None, error_log=None, spawn=Pool())

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self._server.stop(timeout=1)

    @property
    def url(self):
        return f"json://127.0.0.1:{self._server.server_port}/{PATH}"

    def _app(self, environ, start_response):
        status = self.statuses[min(self.asked, len(self.statuses) - 1)]
        self.asked += 1
        message = json.loads(environ["wsgi.input"].read())
        if not status:
            self._closed.wait()
        if status == 200:
            self.received.append(message)
        start_response(f"{status or 500} Said", [("Content-Length", "0")])
        return [b""]

    def messages(self):
        return [message["message"] for message in self.received]


@pytest.fixture
def channel():
    with Channel() as one:
        yield one


@pytest.fixture(autouse=True)
def never_through_a_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def wait_until(true, seconds=20):
    with gevent.Timeout(seconds, AssertionError("it never came")):
        while not (found := true()):
            gevent.sleep(0.02)
    return found


def told(server, is_told="alerted_at IS NOT NULL"):
    return {row["code"]: row["n"] for row in server.rows(
        f"SELECT code, sum(times) AS n FROM incidents WHERE {is_told} GROUP BY code")}


def untold(server):
    return told(server, "alerted_at IS NULL")


def interrupted(server, people=1):
    """A server that was killed with the paid work of so many people in it; returns ``[(token, job id)]``."""
    made = []
    for n in range(people):
        token = server.add_user(f"person{n}@example.org")
        made.append((token, submit(server, token, "slow", seconds=60)))
    for _token, job_id in made:
        until_charged(server, job_id)
    server.kill()
    return made


# ------------------------------------------------------------------------------------ real servers

def test_one_alert_after_a_restart_that_found_interrupted_work(server, channel):
    one = server(ALERT_URLS=channel.url, SITE_NAME="Rides")
    (token, job_id), _other = interrupted(one, people=2)
    assert channel.asked == 0, "nothing has happened yet that anybody should hear of"
    one.start()
    assert wait_until(lambda: told(one)) == {"RESTARTED": 1}
    (message,) = channel.received
    assert re.search(r"\nRESTARTED: 2 interrupted, 2 points returned, 0 unknown, \d+\.\d s\n", message["message"])
    assert message["title"] == "Rides: RESTARTED" and message["message"].startswith("Rides: 1 incident.\n")
    assert "flask incidents list" in message["message"] and "flask jobs show NUMBER" in message["message"]
    assert "@" not in message["message"] and message["type"] == "warning"
    one.kill(signal.SIGTERM)
    one.start()  # and what found nothing says nothing
    one.finished(submit(one, token, "sample", seconds=0), token=token)
    one.kill(signal.SIGTERM)
    assert len(channel.received) == 1 and untold(one) == {}


def test_a_crash_loop_is_told_once_and_what_ends_it_at_once(server, channel):
    one = server(ALERT_URLS=channel.url)
    token = one.add_user()
    job_id = submit(one, token, "again", seconds=60)
    for attempt, heard in ((1, 1), (2, 1), (3, 2)):
        until(one, "SELECT 1 FROM jobs WHERE id = ? AND attempt = ? AND stage = 'after'", job_id, attempt)
        one.kill()
        one.start()
        wait_until(lambda heard=heard: len(told(one)) == heard)
    restarted, spent = channel.messages()
    assert "RESTARTED: 0 interrupted, 0 points returned, 0 unknown" in restarted and ", 1 resumed" in restarted
    number = one.rows("SELECT number FROM jobs")[0]["number"]
    assert f"\nATTEMPTS_SPENT: {number}\n" in spent and "RESTARTED" not in spent
    assert channel.received[1]["type"] == "failure"
    assert told(one) == {"RESTARTED": 1, "ATTEMPTS_SPENT": 1}
    wait_until(lambda: untold(one) == {"RESTARTED": 2})  # told when the hour is over


def test_what_another_process_recorded_is_told_after_the_next_pass(server, channel):
    one = server(ALERT_URLS=channel.url, RECOVERY_INTERVAL_SECONDS=0.2)
    token = one.add_user()
    with closing(sqlite3.connect(one.database, timeout=10)) as connection, connection:
        connection.execute("INSERT INTO incidents (severity, scope, code, detail) VALUES ('critical', 's', 'ODD', 'd')")
    submit(one, token, "slow", seconds=60)
    assert wait_until(lambda: told(one)) == {"ODD": 1}
    assert "\nODD: d\n" in channel.messages()[0]


@contextmanager
def refusing():
    with Channel() as one:
        one.statuses = [500]
        yield one.url


@contextmanager
def nobody_there():
    with Channel() as one:
        url = one.url
    yield url


@contextmanager
def not_a_channel():
    yield f"nosuch://{PATH}"


@pytest.mark.parametrize("broken", [refusing, nobody_there, not_a_channel])
def test_a_channel_that_fails_hurts_nothing(server, broken):
    with broken() as url:
        one = server(ALERT_URLS=url)
        ((token, job_id),) = interrupted(one)
        one.start()
        scheme = url.partition(":")[0]
        wait_until(lambda: f"channel 1 of ALERT_URLS ({scheme}) did not take an alert" in one.log.read_text())
        assert one.get(f"/api/jobs/{job_id}", token=token).json["money_message"] == RETURNED
        assert one.finished(submit(one, token, "sample", seconds=0), token=token)["status"] == "succeeded"
        assert one.get("/healthz").status == 200 and untold(one) == {"RESTARTED": 1}
        one.signal_master(signal.SIGTERM)
        began = time.monotonic()
        one.wait()
        assert time.monotonic() - began < EXIT_SECONDS_MAX and one.process.returncode == 0
        assert PATH not in one.log.read_text()


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_while_a_channel_hangs_work_goes_on_and_the_server_ends_in_time(server, channel, number):
    channel.statuses = [0]
    one = server(ALERT_URLS=f"{channel.url}?rto=14")  # Apprise itself would wait four seconds
    ((token, _job_id),) = interrupted(one)
    one.start()
    wait_until(lambda: channel.asked)
    (child,) = children(one.worker_pid())
    for _ in range(5):
        began = time.monotonic()
        assert one.get("/healthz").status == 200
        assert time.monotonic() - began < 1
    assert one.finished(submit(one, token, "sample", seconds=0), token=token)["status"] == "succeeded"
    assert lives(child), "all that was done while it hung"
    began = time.monotonic()
    one.kill(number)
    assert time.monotonic() - began < EXIT_SECONDS_MAX
    wait_until(lambda: not lives(child), 3)
    assert untold(one) == {"RESTARTED": 1}
    channel.statuses = [200]
    one.start()  # better late than never
    wait_until(lambda: told(one) == {"RESTARTED": 1})


def test_with_no_channel_no_process_is_started(server):
    one = server(ALERT_URLS="")
    ((token, _job_id),) = interrupted(one)
    one.start()
    assert one.finished(submit(one, token, "sample", seconds=0), token=token)["status"] == "succeeded"
    assert untold(one) == {"RESTARTED": 1} and children(one.worker_pid()) == []
    assert "alert" not in one.log.read_text()


# -------------------------------------------------------------------- the ledger that cannot be read

def rename_in(server, table, name):
    with closing(sqlite3.connect(server.database, timeout=10)) as connection:
        connection.execute(f"ALTER TABLE {table} RENAME TO {name}")


def unknown(server, channel):
    """Paid work interrupted, and the ledger out of reach: a started server, and ``(token, job id, number)``."""
    one = server(ALERT_URLS=channel.url, SUPPORT_CONTACT="help@example.org")
    ((token, job_id),) = interrupted(one)
    rename_in(one, "ledger_entries", "hidden")
    one.start()
    until(one, "SELECT 1 FROM jobs WHERE settlement = 'unknown'")  # the port is open before the start has recovered
    return one, token, job_id, one.rows("SELECT number FROM jobs")[0]["number"]


def settlement(server, job_id):
    return server.rows("SELECT settlement FROM jobs WHERE id = ?", job_id)[0]["settlement"]


def test_unknown_is_told_to_user_and_operator_and_corrected_by_the_next_poll(server, channel):
    one, token, job_id, number = unknown(server, channel)
    for _ in range(2):
        job = one.get(f"/api/jobs/{job_id}", token=token).json
        assert (job["status"], job["money"]) == ("failed", "unknown")
        assert job["money_message"] == ("The work was interrupted and we could not confirm your points. "
                                        f"Please tell us number {number} at help@example.org.")
    assert wait_until(lambda: told(one)) == {"RESTARTED": 1, jobs.LOOKUP_FAILED: 1}
    (message,) = channel.messages()
    assert message.startswith("Ainori: 2 incidents.\n") and f"\n{jobs.LOOKUP_FAILED}: {number}\n" in message
    assert "\nRESTARTED: 1 interrupted, 0 points returned, 1 unknown, " in message and "example.org" not in message
    rename_in(one, "hidden", "ledger_entries")
    job = one.get(f"/api/jobs/{job_id}", token=token).json
    assert (job["money"], job["money_message"]) == ("refunded", RETURNED)
    assert [row["code"] for row in one.rows("SELECT code FROM v_incidents_open")] == ["RESTARTED"]
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)] and len(channel.received) == 1


def test_unknown_is_corrected_by_a_restart_that_nobody_polls(server, channel):
    one, _token, job_id, _number = unknown(server, channel)
    one.kill(signal.SIGTERM)
    rename_in(one, "hidden", "ledger_entries")
    one.start()
    until(one, "SELECT 1 FROM jobs WHERE settlement = 'settled'")
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]
    assert one.rows("SELECT resolved_at FROM incidents WHERE code = ?", jobs.LOOKUP_FAILED)[0]["resolved_at"]


def test_an_operator_decides_about_what_is_unknown_and_a_decision_stands(server, channel):
    one, token, job_id, number = unknown(server, channel)

    def settle(how, note="looked it up"):
        done = one.flask("jobs", "settle", number, how, "--note", note, check=False)
        return done.returncode, done.stdout + done.stderr
    code, said = settle("--refund")
    assert code == 1 and f"{number} is still unknown" in said and "are returned by themselves as soon as" in said
    code, said = settle("--keep", "it was delivered")
    assert code == 0 and f"{number}: recorded." in said and "as soon as it can, the charge is kept" in said
    one.environ["LOGNAME"] = "somebody-else"
    code, said = settle("--keep")
    assert code == 0 and f"{number}: recorded." in said and ": it was delivered)" in said
    code, said = settle("--refund")  # too late
    assert code == 1 and f"{number} is decided: " in said and "kept the charge (it was delivered)" in said
    rename_in(one, "hidden", "ledger_entries")
    assert one.get(f"/api/jobs/{job_id}", token=token).json["money"] == "consumed"
    assert ledger(one, job_id) == [("consume", -1)] and settlement(one, job_id) == "settled"
    for how in ("--refund", "--keep"):
        code, said = settle(how)
        assert code == 1 and f"{number} has nothing to settle" in said and "Traceback" not in said
    assert one.flask("audit").returncode == 0


@pytest.mark.parametrize("how, money, entries", [
    ("--refund", "refunded", [("consume", -1), ("refund", 1)]), ("--keep", "consumed", [("consume", -1)])])
def test_an_operator_settles_when_the_ledger_answers_again_and_nobody_has_looked_yet(server, channel, how, money, entries):
    one, token, job_id, number = unknown(server, channel)
    rename_in(one, "hidden", "ledger_entries")
    done = one.flask("jobs", "settle", number, how, "--note", "looked it up")
    assert f"{number} is settled." in done.stdout
    assert one.get(f"/api/jobs/{job_id}", token=token).json["money"] == money and ledger(one, job_id) == entries
    assert [row["code"] for row in one.rows("SELECT code FROM v_incidents_open")] == ["RESTARTED"]


def test_unknown_keeps_no_scheduler_awake_and_the_pass_for_other_work_corrects_it(settings):
    app = create_app(settings(RECOVERY_INTERVAL_SECONDS=0.05))
    from tests.conftest import Person
    someone = Person(app, "p@example.org", 3)
    job = submitted_and_charged(someone)
    rename("ledger_entries", "hidden")
    running = Service(app).start()
    try:
        assert jobs.get(job)["settlement"] == "unknown"
        wait_until(lambda: not jobs.signals.watch.is_set())
        assert recovery.next_look_seconds(60) is None
        rename("hidden", "ledger_entries")
        gevent.sleep(0.3)  # six ticks, if it ticked
        assert jobs.get(job)["settlement"] == "unknown"
        someone.submit("free", seconds=0.5)
        wait_until(lambda: jobs.get(job)["settlement"] == "settled")
        assert someone.balance() == 3
    finally:
        running.stop()


# ---------------------------------------------------------------------------- when, and how often

@pytest.fixture
def telling(settings, channel, monkeypatch):
    """The telling part of a server, whose looks a test calls itself; it does not wait long between tries."""
    monkeypatch.setattr(alerts, "RETRY_PAUSES_SECONDS", (0.01, 0.01, 0.01))
    app = create_app(settings(ALERT_URLS=channel.url))
    telling = Alerts(app.settings)
    telling.app = app
    return telling


def critical(code="ODD", detail="d", job_id=None):
    incidents.record("critical", "s", code, detail, job_id)


@pytest.mark.parametrize("after, heard", [(HOUR - MOMENT, 1), (HOUR, 2), (HOUR + MOMENT, 2)])
def test_the_same_code_is_told_once_an_hour_and_what_came_meanwhile_then(clock, telling, channel, after, heard):
    critical(detail="first")
    assert telling.look() is None and len(channel.received) == 1
    clock(10)
    critical(detail="second")
    clock(20)
    critical(detail="third")
    assert telling.look() == pytest.approx(HOUR - 20, abs=0.1), "one timer, to the moment"
    clock(after)
    pause = telling.look()
    assert len(channel.received) == heard
    if heard == 1:
        assert 0 < pause < 0.1
    else:
        assert pause is None and "\nODD: third; second\n" in channel.messages()[1]
        assert channel.messages()[1].startswith("Ainori: 2 incidents.\n")


def test_another_code_is_told_at_once(clock, telling, channel):
    critical("ODD")
    telling.look()
    critical("ODD")
    critical("EVEN")
    telling.look()
    assert "EVEN" in channel.messages()[1] and "ODD" not in channel.messages()[1]


def test_a_restart_of_the_server_forgets_nothing(clock, telling, channel):
    critical()
    telling.look()
    critical()
    assert Alerts(telling.app.settings).look() > 0 and len(channel.received) == 1


def test_a_clock_that_was_ahead_silences_nobody(clock, telling, channel):
    clock(10 * HOUR)
    critical()
    telling.look()
    clock(0)
    critical()
    telling.look()
    assert len(channel.received) == 2


@pytest.mark.parametrize("after, rows", [(HOUR - MOMENT, [2]), (HOUR, [1, 1]), (HOUR + MOMENT, [1, 1])])
def test_one_about_no_job_is_counted_for_an_hour(clock, app, after, rows):
    incidents.record("warning", "s", "ODD", "the same")
    clock(after)
    incidents.record("warning", "s", "ODD", "the same")
    assert [row["times"] for row in db.rows("SELECT times FROM incidents ORDER BY id")] == rows


@pytest.mark.parametrize("apart", ["UPDATE incidents SET acknowledged_at = '2026'", "UPDATE incidents SET resolved_at = '2026'",
                                   "UPDATE incidents SET alerted_at = '2026'", "UPDATE incidents SET scope = 'other'",
                                   "UPDATE incidents SET code = 'EVEN'", "UPDATE incidents SET detail = 'other'"])
def test_only_the_same_that_is_open_and_untold_is_counted(clock, app, apart):
    incidents.record("warning", "s", "ODD", "first")
    with closing(sqlite3.connect(db.store.path, isolation_level=None)) as connection:
        connection.execute(apart)
    incidents.record("warning", "s", "ODD", "first")
    assert [row["times"] for row in db.rows("SELECT times FROM incidents")] == [1, 1]


def test_of_several_restarts_the_one_message_has_the_figures_of_each(telling, channel):
    busy, calm = "2 interrupted, 2 points returned, 0 unknown, 0.4 s", "1 interrupted, 0 points returned, 0 unknown, 0.1 s"
    for detail in (busy, calm, busy, calm, calm):
        incidents.record("warning", "recovery", incidents.RESTARTED, detail)
    assert telling.look() is None
    (message,) = channel.messages()
    assert f"\nRESTARTED: {calm} (3 times); {busy} (2 times)\n" in message and "Ainori: 5 incidents.\n" in message
    assert {row["detail"]: row["times"] for row in db.rows("SELECT * FROM incidents")} == {busy: 2, calm: 3}


def test_more_details_than_fit_are_counted(clock, telling, channel):
    for n in range(alerts.NUMBERS_TOLD_MAX + 2):
        incidents.record("critical", "s", "ODD", f"{n} of them")
    telling.look()
    assert "; 2 of them and 2 more since 2026-03-01T12:00:00.000Z\n" in channel.messages()[0]


def test_about_jobs_each_is_recorded_and_told_by_its_number(telling, channel, person):
    someone = person()
    made = [someone.submit("free").json["job"] for _ in range(12)]
    for job in made:
        critical(detail="of p@example.org", job_id=job["id"])
        critical(detail="of p@example.org", job_id=job["id"])  # an open one about the same job
    assert telling.look() is None
    (message,) = channel.messages()
    numbers = ", ".join(job["number"] for job in made[:1:-1])
    assert message.startswith("Ainori: 12 incidents.\n") and f"\nODD: {numbers} and 2 more since 20" in message
    assert "@" not in message
    assert db.value("SELECT count(*) FROM incidents WHERE alerted_at IS NOT NULL") == 12


def test_more_than_can_be_told_at_once_leaves_the_rest_for_later(telling, channel, monkeypatch):
    monkeypatch.setattr(incidents, "UNTOLD_MAX", 2)
    critical("ODD")
    telling.look()
    for n in range(3):
        incidents.record("critical", str(n), "ODD", "d")  # not due, and older than what is
    critical("EVEN")
    assert telling.look() > 0 and "\nEVEN: d\n" in channel.messages()[1]


@pytest.mark.parametrize("severity, code, heard", [
    ("critical", "ODD", 1), ("warning", "RESTARTED", 1), ("warning", "INTERNAL_ERROR", 0), ("info", "ODD", 0)])
def test_what_is_told(telling, channel, severity, code, heard):
    incidents.record(severity, "s", code, "d")
    assert telling.look() is None and channel.asked == heard


@pytest.mark.parametrize("come_right", [lambda job: incidents.acknowledge(1), lambda job: incidents.resolve(job, "ODD")])
def test_what_has_come_right_before_it_could_be_told_is_not_told(telling, channel, person, come_right):
    job = person().submit("free").json["job"]["id"]
    critical(job_id=job)
    come_right(job)
    assert telling.look() is None and channel.asked == 0


# ------------------------------------------------------------------------------- channels that fail

def test_a_channel_that_fails_twice_is_tried_again_and_told_once(telling, channel):
    channel.statuses = [500, 500, 200]
    critical()
    assert telling.look() is None
    assert (channel.asked, len(channel.received)) == (3, 1) and db.value("SELECT alerted_at FROM incidents")


def test_given_up_it_waits_for_the_next_incident_and_then_tells_both(telling, channel, caplog):
    channel.statuses = [500]
    critical("ODD")
    assert telling.look() is None and channel.asked == 4
    assert "no channel of ALERT_URLS took an alert" in caplog.text and PATH not in caplog.text
    assert telling.look() is None and channel.asked == 4, "the same again is not tried"
    channel.statuses = [200]
    critical("EVEN")
    telling.look()
    assert "\nODD: d\n" in channel.messages()[0] and "\nEVEN: d\n" in channel.messages()[0]


def test_given_up_the_next_start_tells(telling, channel):
    channel.statuses = [500]
    critical()
    telling.look()
    channel.statuses = [200]
    Alerts(telling.app.settings).look()
    assert len(channel.received) == 1


def test_it_is_told_when_one_of_several_channels_took_it(settings, channel, caplog):
    create_app(given := settings(ALERT_URLS=f"nosuch://{PATH},{channel.url}"))
    critical()
    assert Alerts(given).look() is None
    assert len(channel.received) == 1 and db.value("SELECT alerted_at FROM incidents")
    assert "channel 1 of ALERT_URLS (nosuch) did not take" in caplog.text and PATH not in caplog.text


def test_a_process_that_takes_too_long_is_ended(telling, channel, monkeypatch):
    monkeypatch.setattr(alerts, "SEND_SECONDS_MAX", 2)
    channel.statuses, others = [0], children(os.getpid())
    sending = gevent.spawn(alerts.send, [f"{channel.url}?rto=14"], {"title": "t", "body": "b"})
    (child,) = wait_until(lambda: [pid for pid in children(os.getpid()) if pid not in others and lives(pid)])
    assert sending.get(timeout=10) == [False] and not lives(child)


def test_of_two_servers_on_one_file_one_tells(telling, channel):
    critical()
    with closing(_Lock(telling.folder)):
        assert telling._tell(incidents.untold()) is False and channel.asked == 0
    assert telling._tell(incidents.untold()) is True and channel.asked == 1


class _Lock:
    """The other server, which is just telling."""

    def __init__(self, folder):
        self._descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self):
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def test_the_loop_tells_what_is_recorded_and_survives_a_look_that_fails(telling, channel, caplog):
    loop = gevent.spawn(telling.run)
    try:
        critical("ODD")
        wait_until(lambda: channel.received)
        wait_until(lambda: db.value("SELECT alerted_at FROM incidents"))
        telling.folder, folder = telling.folder / "gone", telling.folder
        critical("EVEN")
        wait_until(lambda: "the operator could not be told" in caplog.text)
        telling.folder = folder
        critical("PRIME")
        wait_until(lambda: len(channel.received) == 2)
        assert "EVEN" in channel.messages()[1] and "PRIME" in channel.messages()[1] and not loop.dead
    finally:
        loop.kill()


# ------------------------------------------------------------------------------ settings and commands

@pytest.mark.parametrize("text, urls", [
    ("", []), (" , ", []), ("json://a", ["json://a"]), ("json://a,tgram://b", ["json://a", "tgram://b"]),
    ("json://a tgram://b\n  mailto://c", ["json://a", "tgram://b", "mailto://c"]), ("json://a, ,tgram://b,", ["json://a", "tgram://b"]),
    ("mailto://u:p@h?to=a@x,b@y, json://a", ["mailto://u:p@h?to=a@x,b@y", "json://a"])])
def test_channels_are_separated_by_commas_or_blanks(settings, text, urls):
    assert settings(ALERT_URLS=text).alert_channels() == urls


@pytest.mark.parametrize("text", ["secret", "json://a secret", "://secret", "json://", "json://a\nsecret"])
def test_what_is_no_url_stops_the_start_and_is_not_shown(settings, text):
    with pytest.raises(SettingsError, match="ALERT_URLS: number [12] is no Apprise URL") as refused:
        settings(ALERT_URLS=text)
    assert "secret" not in str(refused.value)


@pytest.fixture
def flask(settings, channel):
    def run(*args, urls, code=0):
        app = create_app(settings(ALERT_URLS=urls))
        done = app.test_cli_runner().invoke(args=list(args))
        assert done.exit_code == code, (done.output, done.exception)
        assert PATH not in done.output
        return done
    return run


def test_a_test_message_says_whether_it_arrived(flask, channel):
    assert flask("alerts", "test", urls=channel.url).stdout == "1 (json): arrived\n"
    assert channel.messages() == ["This is a test: alerts of Ainori arrive here."]
    done = flask("alerts", "test", urls=f"{channel.url} nosuch://{PATH}", code=1)
    assert done.stdout == "1 (json): arrived\n2 (nosuch): did not arrive\n" and len(channel.received) == 2
    assert "ALERT_URLS is not set" in flask("alerts", "test", urls="", code=1).stderr


def test_doctor_names_a_channel_that_cannot_be_used_and_sends_nothing(flask, channel):
    warned = [row for row in json.loads(flask("doctor", "--json", urls=f"{channel.url},nosuch://{PATH}").stdout)
              if row["what"] == "ALERT_URLS"]
    assert [row["verdict"] for row in warned] == ["note"] and "number 2 (nosuch)" in warned[0]["detail"]
    assert channel.asked == 0
    assert "ALERT_URLS" not in flask("doctor", urls=channel.url).stdout


def test_settings_do_not_show_the_channels(flask, channel):
    assert "(set, not shown)" in re.search("ALERT_URLS .*", flask("settings", urls=channel.url).stdout)[0]


def test_the_list_of_incidents_says_whether_the_operator_was_told(flask, telling, channel):
    critical("ODD")
    telling.look()
    critical("EVEN")
    listed = {row["code"]: row for row in json.loads(flask("incidents", "list", "--json", urls=channel.url).stdout)}
    assert listed["ODD"]["alerted_at"] and listed["EVEN"]["alerted_at"] is None and listed["ODD"]["times"] == 1
    viewed = {row["code"]: row["alerted_at"] for row in db.rows("SELECT * FROM v_incidents_open")}
    assert viewed == {code: row["alerted_at"] for code, row in listed.items()}


def test_resolved_incidents_expire_too(clock, app, person):
    job = person().submit("free").json["job"]["id"]
    critical(job_id=job)
    incidents.resolve(job, "ODD")
    critical("EVEN")
    clock(30 * 86400 + MOMENT)
    recovery.expire(30)
    assert [row["code"] for row in incidents.listing(everything=True)] == ["EVEN"]
