"""The one list of settings: what each takes, what it refuses in one line, and how they fit together."""
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from webapp import create_app
from webapp.errors import SettingsError
from webapp.served import free_port
from webapp.settings import GRACEFUL_TIMEOUT_SECONDS, SETTINGS, WORKER_CONNECTIONS, Settings

BY_NAME = {setting.name: setting for setting in SETTINGS}
NUMBERS = [name for name, setting in BY_NAME.items() if type(setting.default) in (int, float)]
SWITCHES = [name for name, setting in BY_NAME.items() if isinstance(setting.default, bool)]
RATES = [name for name in BY_NAME if name.startswith("RATE_")]
CHOICES = [setting.name for setting in SETTINGS if setting.choices]


def load(**environ):
    return Settings.load(environ)


def refused(**environ):
    """The one line with which these settings are refused."""
    with pytest.raises(SettingsError) as stopped:
        load(**environ)
    line = str(stopped.value)
    assert line and "\n" not in line
    return line


# ------------------------------------------------------------------------------- each one by itself

def test_with_nothing_set_every_setting_has_its_default():
    made = load()
    for name, setting in BY_NAME.items():
        assert made.values[name] == setting.default and made.source(name) == "default"
        assert re.fullmatch(r"[A-Z][A-Z_]*", name) and setting.help
    assert made.for_kind(_kind()).keys() >= {"MAX_UPLOAD_ROWS", "MAX_UPLOAD_MB"}
    with pytest.raises(AttributeError):
        made.nothing


def test_the_defaults_are_those_of_the_contract():
    expected = {
        "HOST": "127.0.0.1", "PORT": 8000, "DATABASE_PATH": "data/ainori.db", "SECRET_KEY": "", "PRODUCTION": False,
        "PROXY_HOPS": 0, "SITE_NAME": "Ainori", "EXTRA_KINDS": "", "SUPPORT_CONTACT": "", "WORKER_STALE_SECONDS": 30,
        "HEARTBEAT_SECONDS": 5, "RECOVERY_INTERVAL_SECONDS": 60, "DRAIN_SECONDS": 3, "RELEASES_MAX": 10,
        "MAX_RUNNING_JOBS": 50, "MAX_PENDING_JOBS": 1000, "MAX_STREAMS": 200, "MAX_STREAMS_PER_USER": 6,
        "MAX_UPLOAD_MB": 20, "MAX_UPLOAD_ROWS": 50000, "RETENTION_DAYS": 30, "RATE_SIGN_IN": "10/minute",
        "RATE_GUEST_SUBMIT": "30/hour", "BUSY_SECONDS": 5}
    assert {name: BY_NAME[name].default for name in expected} == expected


# Of settings that depend on one another, values that fit together.
FITTING = {"PORT": "9000", "WORKER_STALE_SECONDS": "60", "DRAIN_SECONDS": "5", "MAX_STREAMS": "300"}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_read_and_what_is_none_is_refused_by_name(name):
    setting = BY_NAME[name]
    text = FITTING.get(name, str(type(setting.default)(setting.default + 1)))
    made = load(**{name: f" {text} "})
    assert getattr(made, name.lower()) == type(setting.default)(text) and made.source(name) == "environment"
    assert type(getattr(made, name.lower())) is type(setting.default)
    for bad in ("x", "", "1,5", "1 2", "nan", "inf", "-inf", "0x10", "--1"):
        assert refused(**{name: bad}).startswith(f"{name}={bad!r}"), bad
    assert setting.least is not None, "every number has a limit"
    below = setting.least - 1
    assert refused(**{name: str(below)}) == f"{name}={str(below)!r} must be at least {setting.least}."
    if isinstance(setting.default, int):
        assert refused(**{name: "1.5"}) == f"{name}='1.5' is not a number."


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_read_and_what_is_none_is_refused_by_name(name):
    for on in ("1", "true", "True", "yes", " YES "):
        assert getattr(load(**{name: on}), name.lower()) is True
    for off in ("0", "false", "no", "", "No"):
        assert getattr(load(**{name: off}), name.lower()) is False
    for bad in ("2", "on please", "enabled", "-1"):
        assert refused(**{name: bad}) == f"{name}={bad!r} is not 0 or 1."


@pytest.mark.parametrize("name", RATES)
def test_a_rate_is_so_many_in_a_time(name):
    for good in ("1/second", "10/minute", "5/hour", "100 / day", "2/minutes"):
        assert getattr(load(**{name: good}), name.lower()) == good
    for bad in ("", "10", "0/hour", "-1/hour", "many/hour", "10/fortnight", "10/hour; DROP"):
        assert refused(**{name: bad}) == f"{name}={bad!r} must be like 30/hour."


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_is_one_of_a_few(name):
    for good in BY_NAME[name].choices:
        assert getattr(load(**{name: f" {good} "}), name.lower()) == good
    for bad in ("", "Open", "shut"):
        assert refused(**{name: bad}) == f"{name}={bad!r} must be one of {', '.join(BY_NAME[name].choices)}."


@pytest.mark.parametrize("name", ["DATABASE_PATH", "HOST", "SITE_NAME"])
def test_what_is_needed_is_not_empty(name):
    assert refused(**{name: " "}) == f"{name} must not be empty."


def test_every_setting_is_of_a_sort_that_is_tested_here():
    texts = {"SECRET_KEY", "DATABASE_PATH", "SITE_NAME", "SUPPORT_CONTACT", "HOST", "KINDS", "EXTRA_KINDS",
             "ALERT_URLS", "SITE_URL"}
    assert BY_NAME.keys() == {*NUMBERS, *SWITCHES, *RATES, *CHOICES, *texts}
    assert len(BY_NAME) == len(SETTINGS)


def test_links_for_the_terminal_lead_to_where_the_site_is():
    assert load(SITE_URL="https://a.example.org:8443/").address("/reset?token=x") == "https://a.example.org:8443/reset?token=x"
    assert load(SITE_URL="http://a.example.org", PRODUCTION="1").address("/setup") == "http://a.example.org/setup"
    assert load(PORT="81").address("/setup") == "http://localhost:81/setup"
    for url in ("a.example.org", "ftp://a.example.org", "https://a.example.org/app", "https://a.example.org?x", "https://",
                "https://somebody@a.example.org"):
        assert refused(SITE_URL=url) == f"SITE_URL={url!r} must be like https://example.org, and nothing after that."


def test_lists_may_be_empty_and_spaced():
    made = load(KINDS=" sample , comments,, ", EXTRA_KINDS="")
    assert (made.names("KINDS"), made.names("EXTRA_KINDS")) == (["sample", "comments"], [])
    assert load(KINDS="").kinds() == {}


# ----------------------------------------------------------------------------------------- together

@pytest.mark.parametrize("environ, told", [
    ({"WORKER_STALE_SECONDS": "14.9"}, "WORKER_STALE_SECONDS must be at least 3 times HEARTBEAT_SECONDS"),
    ({"HEARTBEAT_SECONDS": "10.1"}, "WORKER_STALE_SECONDS must be at least 3 times HEARTBEAT_SECONDS"),
    ({"DRAIN_SECONDS": str(GRACEFUL_TIMEOUT_SECONDS - 1.9)}, "DRAIN_SECONDS must be at most"),
    ({"MAX_STREAMS": str(WORKER_CONNECTIONS)}, "MAX_STREAMS must be under"),
    ({"PORT": "65536"}, "PORT=65536 must be at most 65535"),
])
def test_settings_that_do_not_fit_together_are_refused(environ, told):
    assert refused(**environ).startswith(told)


@pytest.mark.parametrize("environ", [
    {"WORKER_STALE_SECONDS": "15"}, {"HEARTBEAT_SECONDS": "10"}, {"DRAIN_SECONDS": str(GRACEFUL_TIMEOUT_SECONDS - 2)},
    {"MAX_STREAMS": str(WORKER_CONNECTIONS - 1)}, {"PORT": "65535"}, {"PORT": "0"}])
def test_settings_that_just_fit_are_taken(environ):
    (name, value), = environ.items()
    assert float(getattr(load(**environ), name.lower())) == float(value)


def test_gunicorn_uses_the_numbers_that_the_settings_are_checked_against():
    config = (ROOT / "gunicorn.conf.py").read_text()
    assert "graceful_timeout = GRACEFUL_TIMEOUT_SECONDS" in config
    assert "worker_connections = WORKER_CONNECTIONS" in config


# ------------------------------------------------------------------------------------ where it is from

def test_the_environment_beats_the_env_file(tmp_path):
    file = tmp_path / ".env"
    file.write_text("# a comment\nSITE_NAME='From the file'\nPORT=9001\nexport MAX_STREAMS=7\nEMPTY\n")
    made = Settings.load({"PORT": "9002"}, dotenv=file)
    assert (made.site_name, made.port, made.max_streams) == ("From the file", 9002, 7)
    assert [made.source(name) for name in ("SITE_NAME", "PORT", "HOST")] == [".env", "environment", "default"]
    assert Settings.load({}, dotenv=tmp_path / "none").port == 8000


def test_a_bad_value_of_the_env_file_is_refused_by_name_too(tmp_path):
    (tmp_path / ".env").write_text("PORT=many\n")
    with pytest.raises(SettingsError, match="PORT='many' is not a number"):
        Settings.load({}, dotenv=tmp_path / ".env")


def test_what_is_given_to_load_is_all_there_is(monkeypatch):
    monkeypatch.setenv("PORT", "9999")
    assert load().port == 8000 and Settings.load().port == 9999


# ----------------------------------------------------------------------------------------- secret key

@pytest.mark.parametrize("key", ["dev", "changeme", "DEV", "Secret", "password", "x" * 31, "short"])
def test_a_key_that_can_be_guessed_is_refused_and_not_shown(key):
    line = refused(SECRET_KEY=key)
    assert line.startswith("SECRET_KEY is too easy to guess") and key not in line.replace("SECRET_KEY", "")


def test_a_key_that_was_set_is_used_and_none_is_made(tmp_path):
    made = load(SECRET_KEY="k" * 32, DATABASE_PATH=str(tmp_path / "a.db"))
    assert made.signing_key() == "k" * 32 and list(tmp_path.iterdir()) == []


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path):
    made = load(DATABASE_PATH=str(tmp_path / "a.db"))
    key, path = made.signing_key(), tmp_path / "secret_key"
    assert len(key) >= 32 and made.signing_key() == key == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert load(DATABASE_PATH=str(tmp_path / "a.db")).signing_key() == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret_key"]


def test_processes_that_start_at_once_make_one_key(tmp_path):
    code = ("import sys; sys.path.insert(0, sys.argv[1]); from webapp.settings import Settings; "
            "s = Settings.load({'DATABASE_PATH': sys.argv[2]}); sys.stdin.read(1); print(s.signing_key())")
    started = [subprocess.Popen([sys.executable, "-c", code, str(ROOT), str(tmp_path / "a.db")], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for process in started:
        process.stdin.write("x")
        process.stdin.flush()
    keys = {process.communicate(timeout=20)[0].strip() for process in started}
    assert len(keys) == 1 and len(keys.pop()) >= 32
    assert [file.name for file in tmp_path.iterdir()] == ["secret_key"]


def test_a_key_file_that_holds_no_key_is_not_used(tmp_path):
    (tmp_path / "secret_key").write_text("short")
    with pytest.raises(SettingsError, match="holds no usable key: delete it"):
        load(DATABASE_PATH=str(tmp_path / "a.db")).signing_key()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    made = load(DATABASE_PATH=str(tmp_path / "file" / "a.db"))
    with pytest.raises(SettingsError, match="Set DATABASE_PATH to where this user may write"):
        made.ready_folders()
    with pytest.raises(SettingsError, match="No SECRET_KEY is set and"):
        made.signing_key()


def test_everything_lies_beside_the_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = load(DATABASE_PATH="deep/down/a.db")
    made.ready_folders()
    assert made.folder == tmp_path / "deep/down"
    assert sorted(path.name for path in made.folder.iterdir()) == ["files", "uploads", "workers"]


# ----------------------------------------------------------------------------------------- production

@pytest.mark.parametrize("variable", ["DYNO", "RENDER", "FLY_APP_NAME", "RAILWAY_ENVIRONMENT", "K_SERVICE"])
def test_a_known_host_is_production(variable):
    made = load(**{variable: "web.1"})
    assert (made.production, made.host, made.proxy_hops) == (True, "0.0.0.0", 1)
    assert variable in made.source("PRODUCTION") and "production" in made.source("HOST")
    assert not load(**{variable: ""}).production


def test_what_was_set_stays_in_production_and_on_a_host():
    made = load(PRODUCTION="1", HOST="10.0.0.1", PROXY_HOPS="0")
    assert (made.production, made.host, made.proxy_hops) == (True, "10.0.0.1", 0)
    made = load(DYNO="web.1", PRODUCTION="0")
    assert (made.production, made.host, made.proxy_hops) == (False, "127.0.0.1", 0)


def test_production_takes_an_empty_file_for_a_vanished_database(settings, tmp_path):
    (tmp_path / "ainori.db").touch()
    with pytest.raises(SettingsError, match="or an empty file"):
        create_app(settings(PRODUCTION=1, KINDS="", EXTRA_KINDS=""))
    assert (tmp_path / "ainori.db").stat().st_size == 0


def test_points_are_not_kept_in_memory():
    with pytest.raises(SettingsError, match="must be a file"):
        load(DATABASE_PATH=":memory:")


def test_a_dotenv_that_is_not_utf8_is_told_in_one_line(tmp_path):
    (tmp_path / ".env").write_bytes("SITE_NAME=相乗り".encode("cp932"))
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        Settings.load({}, dotenv=tmp_path / ".env")


def test_production_creates_no_database_unless_allowed(settings, tmp_path):
    chosen = {"PRODUCTION": 1, "SUPPORT_CONTACT": "help@example.org", "KINDS": "sample", "EXTRA_KINDS": ""}
    with pytest.raises(SettingsError, match="There is no database at .* set ALLOW_NEW_DATABASE=1"):
        create_app(settings(**chosen))
    assert not (tmp_path / "ainori.db").exists()
    create_app(settings(ALLOW_NEW_DATABASE=1, **chosen))
    assert (tmp_path / "ainori.db").exists()
    app = create_app(settings(**chosen))  # the one that is there is opened
    assert app.config["SESSION_COOKIE_SECURE"]


def test_production_takes_no_points_without_a_support_contact(settings):
    with pytest.raises(SettingsError, match="'sample' costs points: set SUPPORT_CONTACT"):
        settings(PRODUCTION=1, EXTRA_KINDS="").kinds()
    assert settings(PRODUCTION=1, EXTRA_KINDS="", SAMPLE_COST=0).kinds()["sample"].cost == 0
    assert settings(PRODUCTION=1, EXTRA_KINDS="", SUPPORT_CONTACT="help@example.org").kinds()
    assert settings(EXTRA_KINDS="").kinds()


def test_cookies_are_secure_in_production_only(settings):
    app = create_app(settings(PRODUCTION=1, ALLOW_NEW_DATABASE=1, KINDS="", EXTRA_KINDS="tests.kinds",
                              SUPPORT_CONTACT="help@example.org"))
    answer = app.test_client().post("/api/kinds/free/jobs", json={})
    assert "Secure" in answer.headers["Set-Cookie"]


# --------------------------------------------------------------------------------- a start of a process

def start(*command, **environ):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=30,
                          env={**kept, **environ})


@pytest.mark.parametrize("environ, told", [
    ({"PORT": "many"}, "PORT='many' is not a number."),
    ({"WORKER_STALE_SECONDS": "1"}, "WORKER_STALE_SECONDS must be at least 3 times"),
    ({"SECRET_KEY": "dev"}, "SECRET_KEY is too easy to guess"),
    ({"KINDS": "nothing"}, "The kind module 'webapp.kinds.nothing' cannot be imported"),
    ({"KINDS": "sample", "SAMPLE_COST": "free"}, "SAMPLE_COST='free' is not a number."),
    ({"PRODUCTION": "1", "KINDS": ""}, "There is no database at"),
])
def test_a_start_with_a_bad_setting_is_one_line_and_no_success(tmp_path, environ, told):
    environ = {"DATABASE_PATH": str(tmp_path / "ainori.db"), "PORT": str(free_port()), **environ}
    asked = start("flask", "--app", "wsgi", "settings", **environ)
    served = start("gunicorn", "wsgi:app", **environ)
    for done in (asked, served):
        assert done.returncode not in (0, None)
        assert "Traceback" not in done.stderr and done.stdout == ""
        line, = [line for line in done.stderr.splitlines() if told in line]
        assert "Ainori cannot start: " in line
    assert asked.stderr.count("\n") == 1, asked.stderr
    if environ.keys() & {"PORT", "WORKER_STALE_SECONDS", "SECRET_KEY"} and "KINDS" not in environ:
        assert served.stderr.count("\n") == 1, served.stderr
    else:  # gunicorn itself tells of its start and its end around that line
        own = [line for line in served.stderr.splitlines() if told not in line and "] [INFO] " not in line]
        assert all("Worker (pid:" in line or "Shutting down: Master" in line or "Reason: " in line for line in own), own


def test_the_database_of_a_start_that_failed_is_not_made(tmp_path):
    start("gunicorn", "wsgi:app", DATABASE_PATH=str(tmp_path / "x" / "ainori.db"), PORT="many")
    assert list(tmp_path.iterdir()) == []


def _kind():
    from pydantic import BaseModel

    from webapp.kinds import Kind
    return Kind(name="own", params=BaseModel, run=print, settings={"OWN": "help"})


def test_only_its_own_list_is_read_from_the_environment():
    """No other module reads the environment: what is not in the list cannot be set, or documented."""
    readers = [path.relative_to(ROOT).as_posix() for path in sorted(Path(ROOT / "webapp").rglob("*.py"))
               if re.search(r"os\.environ|getenv|environb", path.read_text())]
    assert readers == ["webapp/served.py", "webapp/settings.py"], readers
