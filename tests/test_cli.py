"""The command line: what an operator types, what comes out, and that no command disturbs a server."""
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from tests.server import ROOT, Server
from webapp import accounts, create_app, db, incidents, jobs, ledger
from webapp.kinds import Refuse
from webapp.settings import Settings


@pytest.fixture
def flask(app):
    """Run a command in this process; returns click's result (``stdout``, ``stderr``)."""
    runner = app.test_cli_runner()

    def run(*args, code=0):
        done = runner.invoke(args=[str(arg) for arg in args])
        assert done.exit_code == code, (args, done.output, done.exception)
        return done
    return run


@pytest.fixture
def shell(tmp_path):
    """A data folder without a server: ``shell.flask(…)`` runs the real command in a process of its own."""
    return Server(tmp_path)


class Command:
    """The real command, running beside the test."""

    def __init__(self, server, *args):
        self.process = subprocess.Popen([sys.executable, "-m", "flask", "--app", "wsgi", *args], cwd=ROOT,
                                        env=server.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.server = server

    def until_charged(self, seconds=15):
        """Wait until its job is charged; returns the job's row."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            assert self.process.poll() is None, self.process.communicate()
            try:
                found = self.server.rows("SELECT j.* FROM jobs j JOIN ledger_entries l ON l.job_id = j.id "
                                         "WHERE j.status = 'running'")
            except sqlite3.OperationalError:
                found = []  # it is just being created
            if found:
                return found[0]
            time.sleep(0.02)
        raise AssertionError("its job was not charged")

    def end(self, number=None, seconds=15):
        """Send it a signal if given, and wait; returns ``(exit code, stdout, stderr)``."""
        if number is not None:
            self.process.send_signal(number)
        stdout, stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode, stdout, stderr


@pytest.fixture
def command():
    started = []

    def start(server, *args):
        started.append(Command(server, *args))
        return started[-1]
    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate(timeout=10)


def one_line(stderr):
    assert stderr.startswith("Error: ") and stderr.count("\n") == 1 and "Traceback" not in stderr, stderr
    return stderr


# ------------------------------------------------------------------------------------------- set-up

def test_settings_tell_value_source_and_help_and_no_secret(settings):
    secret = "a secret that must not be read here"
    app = create_app(settings(SECRET_KEY=secret, SLOW_COST=7, YOUTUBE_API_KEY="abc-secret"))
    app.settings._for_kinds.clear()
    app.kinds["free"] = replace(app.kinds["free"], settings={
        "YOUTUBE_API_KEY": "the key", "YOUTUBE_API_URL": ("https://example.org", "where it is asked")})
    done = app.test_cli_runner().invoke(args=["settings", "--json"])
    assert secret not in done.stdout and "abc-secret" not in done.stdout
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert found["SECRET_KEY"]["value"] == found["YOUTUBE_API_KEY"]["value"] == "(set, not shown)"
    assert found["KINDS"] == {"name": "KINDS", "value": "sample", "source": "environment",
                              "help": found["KINDS"]["help"]}
    assert (found["BUSY_SECONDS"]["value"], found["BUSY_SECONDS"]["source"]) == (5.0, "default")
    assert (found["SLOW_COST"]["value"], found["SLOW_COST"]["source"]) == (7, "environment")
    assert (found["SLOW_TIMEOUT_SECONDS"]["value"], found["SLOW_TIMEOUT_SECONDS"]["source"]) == (60, "default")
    assert (found["YOUTUBE_API_URL"]["value"], found["YOUTUBE_API_URL"]["help"]) == ("https://example.org",
                                                                                     "where it is asked")
    assert all(row["help"] for row in found.values())


def test_what_the_env_file_says_is_not_called_the_environment(tmp_path):
    (tmp_path / ".env").write_text("SITE_NAME=Written\nPORT=9000\n")
    # The flask command has put the file's lines into the environment before anybody looks.
    loaded = Settings.load({"SITE_NAME": "Written", "PORT": "9001"}, dotenv=tmp_path / ".env")
    assert (loaded.site_name, loaded.source("SITE_NAME")) == ("Written", ".env")
    assert (loaded.port, loaded.source("PORT")) == (9001, "environment")


def test_init_db_makes_the_file_and_says_where(shell):
    done = shell.flask("init-db")
    assert done.stdout == f"{shell.database.resolve()} is ready: schema version 4.\n"


def test_flask_run_refuses_in_one_line_and_names_make_run(shell):
    for args in (["run"], ["run", "--debug"]):
        done = shell.flask(*args, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "make run" in done.stderr


def test_a_bad_setting_stops_a_command_with_one_line(shell):
    shell.environ["PORT"] = "many"
    done = shell.flask("audit", check=False)
    assert (done.returncode, done.stderr) == (1, "Ainori cannot start: PORT='many' is not a number.\n")


def test_wsgi_is_found_by_its_name_and_a_command_ends_clean(shell):
    done = subprocess.run([sys.executable, "-m", "flask", "audit"], cwd=ROOT, env=shell.environ, capture_output=True,
                          text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "") and "The books are right" in done.stdout
    # Its connections were closed: a WAL left behind would be the next one's to recover.
    assert sorted(path.name for path in shell.folder.iterdir()) == ["ainori.db", "files", "secret_key", "uploads",
                                                                    "workers"]
    assert not shell.rows("SELECT * FROM workers")


# ------------------------------------------------------------------------------------------- people

def test_an_account_is_shown_its_password_and_token_once(flask, client):
    made = json.loads(flask("users", "add", "who@example.org", "--points", 2, "--json").stdout)
    assert list(made) == ["email", "password", "token"] and made["email"] == "who@example.org"
    user = accounts.by_email("who@example.org")
    assert accounts.check_password(user, made["password"]) and not user["is_admin"]
    answer = client.get("/api/points", headers={"Authorization": f"Bearer {made['token']}"})
    assert (answer.json["balance"], len(answer.json["entries"])) == (2, 1)
    assert made["token"] not in str([dict(row) for row in db.rows("SELECT * FROM users")])


def test_an_account_begins_with_no_points_unless_they_are_given(flask):
    flask("users", "add", "boss@example.org", "--admin")
    user = accounts.by_email("boss@example.org")
    assert user["is_admin"] and not ledger.statement(user["id"])


def test_a_refused_account_leaves_nothing_behind(flask):
    flask("users", "add", "who@example.org")
    one_line(flask("users", "add", "WHO@example.org", "--points", 5, code=1).stderr)
    assert db.value("SELECT count(*) FROM users") == 1 and not db.value("SELECT count(*) FROM ledger_entries")


def test_a_new_token_ends_the_one_before(flask, client):
    old = json.loads(flask("users", "add", "who@example.org", "--json").stdout)["token"]
    new = flask("users", "token", "who@example.org").stdout.strip()
    for token, status in ((old, 401), (new, 200)):
        assert client.get("/api/points", headers={"Authorization": f"Bearer {token}"}).status_code == status


def test_points_granted_stand_in_the_statement_with_their_note(flask, person):
    someone = person(points=0)
    assert flask("points", "grant", someone.email, 3, "--note", "thanks").stdout == (
        f"3 points granted to {someone.email} (balance 3).\n")
    statement = json.loads(flask("points", "statement", someone.email, "--json").stdout)
    assert (statement["balance"], statement["available"]) == (3, 3)
    entry, = statement["entries"]
    assert (entry["kind"], entry["points"], entry["note"]) == ("grant", 3, "thanks")
    assert "thanks" in flask("points", "statement", someone.email).stdout


# --------------------------------------------------------------------------- refusals and listings

@pytest.mark.parametrize("args", [
    ("users", "add", "nobody"), ("users", "token", "nobody@example.org"),
    ("points", "grant", "nobody@example.org", "1", "--note", "x"), ("points", "statement", "nobody@example.org"),
    ("jobs", "show", "0000-0000"), ("jobs", "cancel", "0000-0000"), ("incidents", "ack", "1"),
    ("jobs", "settle", "0000-0000", "--keep", "--note", "x"), ("jobs", "run", "nothing"), ("jobs", "run", "paid"),
    ("jobs", "run", "sample", "--param", "seconds=many"), ("jobs", "run", "paid", "--file", "setup.cfg"),
    ("jobs", "run", "free", "--user", "nobody@example.org"), ("kinds", "new", "Bad-Name"), ("kinds", "new", "json"),
    ("kinds", "new", "sample"), ("backup", "setup.cfg"),
], ids=lambda args: " ".join(args[:3]))
def test_a_refusal_is_one_line_on_stderr_and_exit_code_1(flask, args, monkeypatch):
    monkeypatch.chdir(ROOT)
    done = flask(*args, code=1)
    one_line(done.stderr)
    assert done.stdout == ""
    assert not db.value("SELECT count(*) FROM jobs") and not db.value(
        "SELECT count(*) FROM workers WHERE stopped_at IS NULL")


@pytest.mark.parametrize("args", [("jobs", "list"), ("incidents", "list"), ("kinds", "list"), ("settings",),
                                  ("doctor",), ("audit",), ("reap",)], ids=" ".join)
def test_listings_are_given_as_json_too(flask, args):
    assert json.loads(flask(*args, "--json").stdout) is not None
    assert flask(*args).stdout


# --------------------------------------------------------------------------------------------- jobs

def test_jobs_are_listed_by_status_and_only_looked_at(flask, person):
    someone = person(points=2)
    made = someone.submit("slow").json["job"]
    someone.submit("paid")
    someone.post(f"/api/jobs/{made['id']}/cancellation")
    listed = json.loads(flask("jobs", "list", "--json", "--status", "pending").stdout)
    assert [(job["kind"], job["asked_by"], job["money"]) for job in listed] == [("paid", someone.email, "none")]
    assert made["number"] in flask("jobs", "list").stdout


def test_a_job_is_shown_with_its_events_ledger_and_incidents(flask, service, person):
    someone = person(points=1)
    made = someone.submit("broken").json["job"]
    someone.finished(made["id"])
    shown = json.loads(flask("jobs", "show", made["number"].lower(), "--json").stdout)
    assert (shown["id"], shown["money"], shown["settlement"]) == (made["id"], "refunded", "settled")
    assert {(row["source"], row["what"]) for row in shown["timeline"]} >= {
        ("event", "submitted"), ("event", "charged"), ("event", "settled"), ("ledger", "consume -1"),
        ("ledger", "refund 1"), ("incident", "warning INTERNAL_ERROR")}
    assert "has been returned (balance 1)" in flask("jobs", "show", made["id"]).stdout


def test_a_cancelled_job_is_told_with_its_points(flask, person):
    someone = person(points=1)
    made = someone.submit("paid").json["job"]
    assert flask("jobs", "cancel", made["number"]).stdout == f"{made['number']}: stopped. No points were used.\n"
    one_line(flask("jobs", "cancel", made["number"], code=1).stderr)
    assert someone.job(made["id"])["error"]["code"] == "STOPPED"


def test_a_stop_by_the_operator_returns_the_points_and_somebodys_own_cancel_is_told_as_theirs(flask, person):
    someone = person(points=2)
    stopped, own = (someone.submit(kind).json["job"] for kind in ("paid", "slow"))
    for made in (stopped, own):
        jobs.charge(made["id"], jobs.claim("nobody", [made["kind"]])[0]["attempt"])
    jobs.cancel(own["id"], someone.id)
    assert "asked to stop" in flask("jobs", "cancel", stopped["number"]).stdout
    assert "has cancelled it already" in flask("jobs", "cancel", own["number"]).stdout
    for made in (stopped, own):
        jobs.fail(made["id"], 1, "CANCELLED")
        jobs.settle(made["id"])
    assert "The operator stopped this. The 1 point it had used has been returned (balance 1)." in flask(
        "jobs", "show", stopped["number"]).stdout
    told = flask("jobs", "show", own["number"]).stdout
    assert "The person who asked cancelled it." in told and "The person who asked cancelled after 1 point" in told
    assert "You cancelled" not in told
    flask("audit")


def charged_and_failed(person):
    """Somebody, and the id of a job of theirs that was charged and failed, and is not settled yet."""
    someone = person(points=1)
    job_id = someone.submit("paid").json["job"]["id"]
    claimed, = jobs.claim("nobody", ["paid"])
    jobs.charge(job_id, claimed["attempt"])
    jobs.fail(job_id, claimed["attempt"], "INTERRUPTED")
    return someone, job_id


def unknown(person):
    """Somebody, and the number of a charged job of theirs whose points could not be confirmed."""
    someone, job_id = charged_and_failed(person)
    _sql("ALTER TABLE ledger_entries RENAME TO mislaid")
    assert jobs.settle(job_id) == "unknown"
    _sql("ALTER TABLE mislaid RENAME TO ledger_entries")
    return someone, jobs.get(job_id)["number"]


def _sql(*statements):
    """As somebody with a shell of their own would; it does not wait for a lock."""
    connection = sqlite3.connect(db.store.path, timeout=0)
    try:
        with connection:
            for statement in statements:
                connection.execute(statement)
    finally:
        connection.close()


def test_an_unknown_job_is_settled_by_hand_with_a_refund_and_its_note(flask, person):
    someone, number = unknown(person)
    done = flask("jobs", "settle", number, "--refund", "--note", "looked it up")
    assert "has been returned (balance 1)" in done.stdout
    assert ledger.statement(someone.id)[0]["note"] == "looked it up" and not incidents.listing()
    assert "nothing to settle" in one_line(flask("jobs", "settle", number, "--keep", "--note", "x", code=1).stderr)


def test_an_unknown_job_is_settled_by_hand_with_the_charge_kept(flask, person):
    someone, number = unknown(person)
    assert "is kept" in flask("jobs", "settle", number, "--keep", "--note", "it was delivered").stdout
    job = jobs.find(number)
    assert (job["settlement"], job["kept_note"], someone.balance()) == ("settled", "it was delivered", 0)
    assert job["kept_by"]


def test_settling_needs_a_decision(flask, person):
    _someone, number = unknown(person)
    assert "--refund or --keep" in flask("jobs", "settle", number, "--note", "x", code=2).stderr


# ------------------------------------------------------------------------------------- jobs run here

def test_a_job_run_here_prints_its_result_and_nothing_else(flask, person):
    someone = person(points=1)
    done = flask("jobs", "run", "sample", "--param", "seconds=0.3", "--user", someone.email)
    assert json.loads(done.stdout) == {"seconds": 0.3, "thirds": 3}
    assert "1 point was used (balance 0)." in done.stderr and "Working" in done.stderr
    job = db.one("SELECT * FROM jobs")
    assert (job["status"], job["user_id"], job["attempt"]) == ("succeeded", someone.id, 1)
    worker = db.one("SELECT * FROM workers")
    assert (worker["role"], worker["pid"]) == ("command", os.getpid()) and worker["stopped_at"]
    assert not list((db.store.path.parent / "workers").iterdir())


def test_a_job_run_here_that_fails_tells_why_and_what_became_of_the_points(flask, person):
    someone = person(points=1)
    done = flask("jobs", "run", "refusing", "--user", someone.email, code=1)
    assert done.stdout == "" and "Not today. The 1 point it had used has been returned (balance 1)." in done.stderr
    assert someone.balance() == 1


def test_a_job_run_here_claims_nobody_elses(flask, person):
    someone = person(points=1)
    waiting = someone.submit("free", text="theirs").json["job"]["id"]
    assert json.loads(flask("jobs", "run", "free", "--param", "text=ours").stdout) == {"text": "ours"}
    assert (jobs.get(waiting)["status"], jobs.get(waiting)["attempt"]) == ("pending", 0)


def test_what_the_kind_refuses_is_said_in_its_words(app, flask):
    def check(context, params):
        raise Refuse("NOT_A_POEM", {"en": "This is no poem.", "ja": "詩ではありません。"}, lines=0)
    app.kinds["free"] = replace(app.kinds["free"], check=check)
    assert one_line(flask("jobs", "run", "free", code=1).stderr) == "Error: This is no poem.\n"


def test_one_in_flight_is_named(flask, person):
    someone = person(points=2)
    number = someone.submit("slow").json["job"]["number"]
    assert number in one_line(flask("jobs", "run", "slow", "--user", someone.email, code=1).stderr)


def test_without_points_nothing_is_run(flask, person):
    someone = person(points=0)
    assert "costs 1 point" in one_line(flask("jobs", "run", "paid", "--user", someone.email, code=1).stderr)
    assert not jobs.listing()


def test_free_work_is_one_guests_and_nobody_can_be_that_guest(flask, client):
    flask("jobs", "run", "free")
    guest = db.one("SELECT * FROM users")
    assert guest["email"] is None and accounts.command_line_user() == guest["id"]
    for token in ("command line", guest["token_hash"]):
        assert client.get("/api/points", headers={"Authorization": f"Bearer {token}"}).status_code == 401


def test_a_file_given_to_a_job_is_read_by_it_and_then_gone(flask, person, tmp_path):
    someone, log = person(points=1), tmp_path / "log"
    file = tmp_path / "input.txt"
    file.write_text(str(log))
    done = flask("jobs", "run", "stepping", "--file", file, "--user", someone.email)
    assert json.loads(done.stdout) == {"counted": 1} and log.read_text() == "step by attempt 1\n"
    assert file.exists() and not list((tmp_path / "uploads").iterdir())


def test_a_fresh_result_is_printed_again_and_not_made_again(flask, person, service):
    someone = person()
    someone.finished(someone.submit("shared", text="same").json["job"]["id"])
    # This process is a worker already, and stays one; a command is a process of its own.
    done = subprocess.run([sys.executable, "-m", "flask", "jobs", "run", "shared", "--param", "text=same"], cwd=ROOT,
                          env={**os.environ, "DATABASE_PATH": str(db.store.path), "KINDS": "",
                               "EXTRA_KINDS": "tests.kinds"}, capture_output=True, text=True, timeout=30)
    assert json.loads(done.stdout) == {"text": "same"} and "still fresh" in done.stderr
    assert db.value("SELECT count(*) FROM jobs") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_ctrl_c_ends_a_job_that_may_not_be_repeated_and_returns_its_points(shell, command, number):
    shell.add_user(points=1)
    running = command(shell, "jobs", "run", "slow", "--param", "seconds=30", "--user", "person@example.org")
    job = running.until_charged()
    code, stdout, stderr = running.end(number)
    assert (code, stdout) == (1, "") and "has been returned (balance 1)" in stderr and "Traceback" not in stderr
    after, = shell.rows("SELECT * FROM jobs WHERE id = ?", job["id"])
    assert (after["status"], after["error_code"], after["settlement"]) == ("failed", "INTERRUPTED", "settled")
    assert shell.rows("SELECT stopped_at FROM workers")[0]["stopped_at"]
    assert not list((shell.folder / "workers").iterdir())


@pytest.mark.parametrize("beside", [True, False], ids=["server running", "server started later"])
def test_ctrl_c_gives_back_a_job_that_may_be_repeated_and_a_server_finishes_it(shell, command, server, beside):
    if beside:
        live = server()
    token = shell.add_user(points=1)
    running = command(shell, "jobs", "run", "again", "--param", "seconds=1", "--user", "person@example.org")
    job = running.until_charged()
    code, _stdout, stderr = running.end(signal.SIGINT)
    assert code == 1 and f"{job['number']} is given back" in stderr
    if not beside:
        live = server()
    finished = live.finished(job["id"], token)
    assert (finished["status"], finished["attempt"], finished["attempts_spent"]) == ("succeeded", 2, 0)
    assert [entry["kind"] for entry in shell.rows("SELECT kind FROM ledger_entries")] == ["grant", "consume"]


# ------------------------------------------------------------------------------- beside a live server

def test_commands_neither_steal_nor_kill_what_a_server_runs(server):
    live = server()
    token = live.add_user()
    made = live.post("/api/kinds/slow/jobs", {"seconds": 50}, token=token).json["job"]
    assert live.flask("reap").stdout.startswith("0 interrupted, 0 waiting again, 0 points returned")
    assert "The books are right" in live.flask("audit").stdout
    listed = json.loads(live.flask("jobs", "list", "--json", "--status", "running").stdout)
    assert [job["id"] for job in listed] == [made["id"]]
    live.flask("jobs", "show", made["number"])
    live.flask("doctor")
    live.flask("backup", str(live.folder / "backup"))
    before, = live.rows("SELECT * FROM jobs")
    assert (before["status"], before["attempt"], before["attempts_spent"]) == ("running", 1, 0)
    assert [row["role"] for row in live.rows("SELECT role FROM workers")] == ["server"]
    time.sleep(0.6)
    assert live.get(f"/api/jobs/{made['id']}", token=token).json["progress"] > before["progress"]


def test_a_server_leaves_alone_what_a_command_runs(server, command):
    live = server()
    token = live.add_user()
    running = command(live, "jobs", "run", "slow", "--param", "seconds=1.5", "--user", "person@example.org")
    job = running.until_charged()
    seen = live.get(f"/api/jobs/{job['id']}", token=token).json
    assert (seen["status"], seen["money"]) == ("running", "consumed")
    live.flask("reap")
    code, stdout, _stderr = running.end()
    assert (code, json.loads(stdout)) == (0, {"text": "x"})
    assert live.get(f"/api/jobs/{job['id']}", token=token).json["attempt"] == 1
    worker, = live.rows("SELECT w.role FROM job_events e JOIN workers w ON w.id = e.data ->> 'worker' "
                        "WHERE e.event = 'claimed'")
    assert worker["role"] == "command"


def test_a_job_whose_command_was_killed_is_settled_by_the_next_poll(server, command):
    live = server()
    token = live.add_user(points=1)
    running = command(live, "jobs", "run", "slow", "--param", "seconds=30", "--user", "person@example.org")
    job = running.until_charged()
    running.end(signal.SIGKILL)
    seen = live.get(f"/api/jobs/{job['id']}", token=token).json
    assert (seen["status"], seen["error"]["code"], seen["money"]) == ("failed", "INTERRUPTED", "refunded")
    assert live.get("/api/points", token=token).json["balance"] == 1


def test_a_job_whose_command_was_killed_is_settled_by_reap(shell, command):
    shell.add_user(points=1)
    running = command(shell, "jobs", "run", "slow", "--param", "seconds=30", "--user", "person@example.org")
    running.until_charged()
    running.end(signal.SIGKILL)
    assert shell.flask("reap").stdout == "1 interrupted, 0 waiting again, 1 point returned, 0 unknown.\n"
    assert shell.flask("reap").stdout == "0 interrupted, 0 waiting again, 0 points returned, 0 unknown.\n"
    shell.flask("audit")


def test_a_cancel_from_the_command_line_reaches_a_running_server(server):
    live = server(HEARTBEAT_SECONDS=0.2)
    token = live.add_user()
    made = live.post("/api/kinds/slow/jobs", {"seconds": 30, "text": "late"}, token=token).json["job"]
    live.until("SELECT 1 FROM jobs WHERE status = 'running'")
    assert "asked to stop" in live.flask("jobs", "cancel", made["number"]).stdout
    done = live.finished(made["id"], token)
    assert (done["error"]["code"], done["money"]) == ("STOPPED", "none")


# ---------------------------------------------------------------------------------------- operation

def test_audit_lists_a_breach_and_exits_1(flask, person):
    someone = person(points=3)
    trigger, = db.rows("SELECT name, sql FROM sqlite_master WHERE name = 'ledger_entries_append_only_update'")
    _sql(f"DROP TRIGGER {trigger['name']}")
    _sql("UPDATE ledger_entries SET balance_after = 4")
    done = flask("audit", code=1)
    assert re.search(r"entry \d+: says balance 4", done.stdout) and "1 found" in one_line(done.stderr)
    assert len(json.loads(flask("audit", "--json", code=1).stdout)["breaches"]) == 1
    _sql("UPDATE ledger_entries SET balance_after = 3")
    _sql(trigger["sql"])
    assert "The books are right: 1 ledger entries" in flask("audit").stdout and someone.balance() == 3


def test_an_audit_sees_one_moment_of_the_books(app, person, monkeypatch):
    """Between its look at the entries and its look at the jobs another process may settle something."""
    someone, job_id = charged_and_failed(person)
    look = db.rows

    def meanwhile(sql, parameters=()):
        if "FROM jobs" in sql:
            try:
                _sql("INSERT INTO ledger_entries (user_id, job_id, kind, points, balance_after) "
                     f"VALUES ({someone.id}, '{job_id}', 'refund', 1, 1)", "UPDATE jobs SET settlement = 'settled'")
            except sqlite3.OperationalError:
                pass  # it is not let in
        return look(sql, parameters)
    monkeypatch.setattr(db, "rows", meanwhile)
    assert ledger.audit() == []


def test_incidents_are_listed_until_acknowledged(flask):
    incidents.record("warning", "test", "SOMETHING", "it happened")
    listed, = json.loads(flask("incidents", "list", "--json").stdout)
    assert (listed["code"], listed["detail"]) == ("SOMETHING", "it happened")
    flask("incidents", "ack", listed["id"])
    assert flask("incidents", "list").stdout == "There are none.\n"
    assert "SOMETHING" in flask("incidents", "list", "--all").stdout
    one_line(flask("incidents", "ack", listed["id"], code=1).stderr)


def test_doctor_tells_versions_sizes_folders_and_warnings(flask):
    found = {row["what"]: row for row in json.loads(flask("doctor", "--json").stdout)}
    assert sqlite3.sqlite_version in found["SQLite"]["detail"]
    assert {found[what]["verdict"] for what in ("file", "application", "schema version", "integrity", "foreign keys",
                                                "folder", "free disk space")} == {"good"}
    assert "WAL" in found["file"]["detail"]
    assert found["operator"]["verdict"] == found["SUPPORT_CONTACT"]["verdict"] == "note"


def test_doctor_finds_a_damaged_file_and_writes_nothing(flask, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    flask("users", "add", "who@example.org")
    flask("backup", folder / "copy")
    sound = folder / "copy" / "ainori.db"
    assert "wrong" not in flask("doctor", sound).stdout
    content = bytearray(sound.read_bytes())
    content[4096:4200] = b"\xff" * 104  # the first page after the header's
    damaged, no_database, foreign = folder / "damaged.db", folder / "text.db", folder / "foreign.db"
    damaged.write_bytes(content)
    no_database.write_text("not a database" * 500)
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE others (id)")
    connection.close()
    for path in (damaged, no_database, foreign):
        before = sorted(folder.iterdir()), path.read_bytes()
        done = flask("doctor", path, code=1)
        assert "wrong" in done.stdout and "Something is wrong" in one_line(done.stderr)
        assert (sorted(folder.iterdir()), path.read_bytes()) == before


def verdicts(flask, code=0):
    return {row["what"]: (row["verdict"], row["detail"]) for row in json.loads(flask("doctor", "--json", code=code).stdout)}


def test_doctor_says_what_is_missing_unknown_open_or_locked_elsewhere(flask, person):
    _someone, number = unknown(person)
    found = verdicts(flask)
    assert found["tables"] == ("good", "all there") and found["write lock"] == ("good", "free")
    assert found["unknown points"][0] == "note" and "of 1: `flask jobs list --status failed`" in found["unknown points"][1]
    assert found["incidents"] == ("note", "1 critical ones are open: `flask incidents list` shows them")
    jobs.settle(jobs.find(number)["id"])
    with locked():
        found = verdicts(flask)
        assert found["write lock"][0] == "note" and "another program holds the file locked" in found["write lock"][1]
    assert "unknown points" not in found and "incidents" not in found


@pytest.mark.parametrize("table", ["ledger_entries", "jobs", "users", "incidents"])
def test_doctor_names_a_missing_table(flask, table):
    _sql(f"ALTER TABLE {table} RENAME TO mislaid")
    found = verdicts(flask, code=1)
    assert found["tables"][0] == "wrong" and f"missing: {table}. " in found["tables"][1]
    _sql(f"ALTER TABLE mislaid RENAME TO {table}")
    assert verdicts(flask)["tables"][0] == "good"


@contextmanager
def locked():
    """Another program holds the file locked."""
    with closing(sqlite3.connect(db.store.path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("args", [("audit",), ("points", "grant", "person1@example.org", "1", "--note", "x"),
                                  ("jobs", "cancel", "NUMBER"), ("users", "token", "person1@example.org"),
                                  ("incidents", "ack", "1")], ids=" ".join)
def test_a_command_that_another_program_keeps_out_names_the_file_and_says_what_to_do(flask, person, args):
    number = person().submit("free").json["job"]["number"]
    db.store.busy_seconds = 0.1
    with locked():
        said = one_line(flask(*(number if arg == "NUMBER" else arg for arg in args), code=1).stderr)
    assert f"holds {db.store.path.resolve()} locked: close the file there" in said and "points" not in said


@pytest.mark.parametrize("args", [("audit",), ("points", "statement", "person1@example.org"),
                                  ("points", "grant", "person1@example.org", "1", "--note", "x")], ids=" ".join)
def test_a_command_that_misses_a_table_names_it_and_says_what_to_do(flask, person, args):
    person()
    _sql("ALTER TABLE ledger_entries RENAME TO mislaid")
    said = one_line(flask(*args, code=1).stderr)
    _sql("ALTER TABLE mislaid RENAME TO ledger_entries")
    assert f"{db.store.path.resolve()} has no table ledger_entries" in said and "restore the file from a backup" in said


# ------------------------------------------------------------------------------------------- backup

@pytest.fixture
def busy_site(app, person, tmp_path):
    """A site with an account, a file that waits to be read, and one that a job saved."""
    someone = person(points=2)
    (tmp_path / "uploads" / "job-file").write_bytes(b"input")
    (tmp_path / "uploads" / "incoming-0123").write_bytes(b"half an upload")
    (tmp_path / "files" / "job").mkdir()
    (tmp_path / "files" / "job" / ".rows.jsonl").write_bytes(b"{}\n")
    return someone


def check_copy(folder, someone):
    assert sorted(path.name for path in folder.iterdir()) == ["ainori.db", "files", "uploads"]
    with sqlite3.connect(folder / "ainori.db") as connection:
        assert connection.execute("SELECT email, balance_after FROM users JOIN ledger_entries ON user_id = users.id"
                                  ).fetchall() == [(someone.email, 2)]
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    assert [path.name for path in (folder / "uploads").iterdir()] == ["job-file"]
    assert (folder / "files" / "job" / ".rows.jsonl").read_bytes() == b"{}\n"


def test_a_backup_holds_the_rows_and_the_files_and_is_for_the_owner_only(flask, busy_site, tmp_path):
    flask("backup", tmp_path / "copy")
    check_copy(tmp_path / "copy", busy_site)
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob(".ainori-backup-*"))


def test_a_backup_in_one_file_holds_the_same(flask, busy_site, tmp_path):
    flask("backup", tmp_path / "copy.tar.gz")
    assert (tmp_path / "copy.tar.gz").stat().st_mode & 0o077 == 0
    with tarfile.open(tmp_path / "copy.tar.gz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    check_copy(tmp_path / "unpacked" / "ainori-backup", busy_site)


def test_a_backup_overwrites_nothing(flask, tmp_path):
    full, file = tmp_path / "full", tmp_path / "copy.tar.gz"
    full.mkdir()
    (full / "precious").write_text("x")
    file.write_text("x")
    for dest in (full, file, tmp_path / "uploads" / "copy"):
        one_line(flask("backup", dest, code=1).stderr)
    assert [path.name for path in full.iterdir()] == ["precious"] and file.read_text() == "x"
    (tmp_path / "empty").mkdir()
    flask("backup", tmp_path / "empty")
    assert (tmp_path / "empty" / "ainori.db").exists()


def test_a_site_restored_from_a_backup_works(shell, server):
    shell.add_user(points=2)
    shell.flask("backup", str(shell.folder / "copy"))
    restored = Server(shell.folder / "copy")
    assert "person@example.org" in restored.flask("points", "statement", "person@example.org").stdout
    assert restored.flask("audit").returncode == 0


# -------------------------------------------------------------------------------------------- kinds

def test_a_new_kind_works_as_it_is_written(shell, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    environ = {**shell.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}

    def flask(*args, **more):
        return subprocess.run([sys.executable, "-m", "flask", "--app", f"{ROOT}/wsgi.py", *args], cwd=folder,
                              env={**environ, **more}, capture_output=True, text=True, timeout=30)
    made = flask("kinds", "new", "word_count")
    assert made.returncode == 0 and "EXTRA_KINDS=tests.kinds,word_count" in made.stdout
    on = {"EXTRA_KINDS": "tests.kinds,word_count"}
    listed = {kind["name"]: kind for kind in json.loads(flask("kinds", "list", "--json", **on).stdout)}
    assert listed["word_count"]["title"] == "Word count" and listed["word_count"]["params"] == "text"
    done = flask("jobs", "run", "word_count", "--param", "text=One two. Three.", **on)
    assert json.loads(done.stdout)["words"] == 3, done.stderr
    refused = flask("jobs", "run", "word_count", "--param", "text=...", **on)
    assert refused.returncode == 1 and "There is no sentence in it." in refused.stderr
    assert flask("kinds", "new", "word_count").returncode == 1
