"""Real SQLite files, real servers, no mocks. gevent is patched in before anything else is imported."""
from gevent import monkey

monkey.patch_all()

import datetime  # noqa: E402
import gc  # noqa: E402
import math  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import gevent  # noqa: E402
import greenlet  # noqa: E402
import pytest  # noqa: E402
from freezegun import freeze_time  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import wallclock  # noqa: E402
from tests.server import Server  # noqa: E402
from webapp import accounts, create_app, db, jobs, ledger, recovery  # noqa: E402
from webapp.service import Service  # noqa: E402
from webapp.settings import Settings  # noqa: E402

# ------------------------------------------------------------------------------ freezegun rules SQL

db.on_connect.append(wallclock.let_python_rule)
START = datetime.datetime(2026, 3, 1, 12, 0, 0)


class Clock:
    """Stands still; ``clock(seconds)`` sets it to so long after the start."""

    def __init__(self, frozen):
        self._frozen = frozen

    def __call__(self, seconds):
        self._frozen.move_to(START + datetime.timedelta(milliseconds=round(seconds * 1000)))


@pytest.fixture
def clock():
    with freeze_time(START, tick=False) as frozen:
        yield Clock(frozen)

# --------------------------------------------------------------------- no switch inside a transaction

_switches = []


def _watch_switches(event, args):
    store = db.store
    if event in ("switch", "throw") and store is not None and store.in_verb is not None and args[0] is store.in_verb:
        _switches.append(f"greenlet switch inside a verb: {store._call.function.__qualname__}")


def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # what every test finds: a sweep for greenlets after each of them need not see it


@pytest.fixture(autouse=True)
def nothing_switches_inside_a_verb():
    _switches.clear()
    before = greenlet.settrace(_watch_switches)
    yield
    greenlet.settrace(before)
    assert not _switches, _switches[0]


@pytest.fixture(autouse=True)
def the_books_are_right_and_nothing_is_left_running():
    yield
    if db.store is not None:
        breaches = ledger.audit()
        db.close_store()
        jobs.signals.draining = False
        assert not breaches, "\n".join(breaches)
    assert abs(time.time() - _real_time()) < 60, "a test left time frozen"
    with gevent.Timeout(10, False):  # what is just ending may end
        while left := _greenlets():
            gevent.sleep(0.01)
    gevent.killall(left, timeout=2)
    assert not left, f"greenlets left running: {left}"


def _greenlets():
    """Those that live. Sweeping is slow, so only where something seems left."""
    if not _living():
        return []
    gc.collect()
    return _living()


def _living():
    return [found for found in gc.get_objects() if isinstance(found, gevent.Greenlet) and found]


def _real_time():
    return time.clock_gettime(time.CLOCK_REALTIME)


# ------------------------------------------------------------------------------------- applications

@pytest.fixture
def settings(tmp_path):
    """Make settings: every test has a file of its own."""
    def make(**values):
        environ = {"DATABASE_PATH": str(tmp_path / "ainori.db"), "KINDS": "sample", "EXTRA_KINDS": "tests.kinds",
                   "RATE_GUEST_SUBMIT": "1000/hour", **{name: str(value) for name, value in values.items()}}
        return Settings.load(environ)
    return make


@pytest.fixture
def app(settings):
    """The application on a fresh file. No worker runs: what is submitted stays pending."""
    return create_app(settings())


@pytest.fixture
def service(app):
    """The application's working part, started: what is submitted is worked on."""
    running = Service(app).start()
    yield running
    running.stop()


@pytest.fixture
def client(app):
    return app.test_client()


class Person:
    """An account with a token, and a client that uses it."""

    def __init__(self, app, email, points):
        self.email, self.token = email, accounts.new_token()
        self.id = accounts.add_user(email, None, self.token)
        if points:
            ledger.grant(self.id, points, "for a test")
        self._client, self.headers = app.test_client(), {"Authorization": f"Bearer {self.token}"}

    def get(self, path, **options):
        return self._client.get(path, headers={**self.headers, **options.pop("headers", {})}, **options)

    def post(self, path, **options):
        return self._client.post(path, headers={**self.headers, **options.pop("headers", {})}, **options)

    def submit(self, kind, key=None, **params):
        return self.post(f"/api/kinds/{kind}/jobs", json=params, headers={"Idempotency-Key": key} if key else {})

    def job(self, job_id):
        return self.get(f"/api/jobs/{job_id}").json

    def finished(self, job_id, seconds=10):
        """The job when it is final and settled."""
        with gevent.Timeout(seconds):
            while True:
                job = self.job(job_id)
                if job["status"] in ("succeeded", "failed") and job["money"] != "checking":
                    return job
                gevent.sleep(0.01)

    def balance(self):
        return ledger.balance(self.id)


@pytest.fixture
def person(app):
    """Make people with points."""
    made = []

    def make(points=3, email=None):
        made.append(email)
        return Person(app, email or f"person{len(made)}@example.org", points)
    return make


@pytest.fixture
def server(tmp_path):
    """Start real servers (gunicorn, in processes of their own) on one data folder."""
    started = []

    def start(**environ):
        started.append(Server(tmp_path, environ).start())
        return started[-1]
    yield start
    for one in started:
        one.stop()


@pytest.fixture(autouse=True)
def no_expiry_by_the_way():
    recovery._expired_at = math.nan  # an hour since then is never over
