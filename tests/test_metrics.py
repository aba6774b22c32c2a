"""What /metrics says, who may read it, and that idle is idle."""
import json
import logging
import re
import sqlite3
import time

import gevent
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import ROOT, Person
from webapp import db, jobs, measure, recovery, workers

DOCUMENTED = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def figures_of(text):
    """``{name or name{label="value", …}: number}``, read as Prometheus does."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family.name
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.fixture
def admin(app):
    made = Person(app, "admin@example.org", 0)
    db.store.write(lambda: db.execute("UPDATE users SET is_admin = 1 WHERE id = ?", (made.id,)))
    made.figures = lambda: figures_of(made.get("/metrics").text)
    return made


# ------------------------------------------------------------------------------------------ reading

def test_only_an_admins_bearer_token_reads_it(app, client, person, admin):
    assert client.get("/metrics").json["code"] == "TOKEN_REQUIRED"
    client.post("/api/kinds/free/jobs", json={})  # a guest from now on
    for who in (client, app.test_client()):
        with who.session_transaction() as session:
            session.setdefault("user_id", admin.id)  # the admin too, with a cookie only
        answer = who.get("/metrics")
        assert answer.status_code == 401 and answer.mimetype == "application/problem+json"
        assert answer.headers["WWW-Authenticate"] == "Bearer" and "ainori_" not in answer.text
    wrong = client.get("/metrics", headers={"Authorization": "Bearer nobody's"})
    assert (wrong.status_code, wrong.json["code"]) == (401, "BAD_TOKEN")
    refused = person().get("/metrics", headers={"Accept-Language": "ja"})
    assert (refused.status_code, refused.json["code"]) == (403, "ADMINS_ONLY") and "管理者" in refused.json["title"]
    answer = admin.get("/metrics")
    assert answer.status_code == 200 and answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store" and "Set-Cookie" not in answer.headers


def test_every_figure_is_documented_and_nothing_else(service, admin):
    families = {family.name for family in text_string_to_metric_families(admin.get("/metrics").text)}
    documented = {name.removesuffix("_total") for name in re.findall(r"`(ainori_\w+)`", DOCUMENTED)}
    own = {name for name in families if not name.startswith("ainori_process_")}
    assert own == documented, own ^ documented
    assert all(name.startswith("ainori_") for name in families)


def test_reading_writes_nothing_and_wakes_nobody(app, person, admin):
    person().submit("paid")
    admin.get("/metrics")
    jobs.signals.pending.clear()
    jobs.signals.watch.clear()

    def stands():
        files = [db.store.path.with_name(f"{db.store.path.name}{end}").stat() for end in ("", "-wal")]
        return (db.store.commits, db.store.verbs, recovery.passes), [(file.st_size, file.st_mtime_ns) for file in files]
    before = stands()
    for _ in range(5):
        figures = admin.figures()
        assert figures['ainori_jobs_in_flight{kind="paid",status="pending"}'] == 1
    assert stands() == before
    assert [figures[f'ainori_db_size_bytes{{file="{name}"}}'] for name in ("main", "wal")] == [
        size for size, _ in before[1]]
    assert not jobs.signals.pending.is_set() and not jobs.signals.watch.is_set()


def statements(act):
    """What a reading makes the database do: the plan of each statement."""
    said = []
    db.store.read_connection.set_trace_callback(said.append)
    try:
        act()
    finally:
        db.store.read_connection.set_trace_callback(None)
    return {sql: [row["detail"] for row in db.rows(f"EXPLAIN QUERY PLAN {sql}")] for sql in said}


@pytest.mark.parametrize("what", ["metrics", "scheduler", "pass"])
def test_however_many_jobs_there_were_only_those_in_flight_or_due_are_read(app, admin, what):
    act = {"metrics": admin.figures, "scheduler": lambda: recovery.next_look_seconds(60),
           "pass": recovery.one_pass}[what]
    plans = statements(act)
    assert any("jobs" in sql for sql in plans)
    narrow = re.compile(r"INDEX (jobs_queue|jobs_running|jobs_in_flight_of_user|jobs_to_settle|users_token)\b")
    for sql, plan in plans.items():
        for step in plan:
            if re.match(r"(SCAN|SEARCH) (jobs|users)\b", step):
                assert narrow.search(step), (sql, plan)
            if re.match(r"SCAN incidents\b", step):
                assert "INDEX incidents_open" in step, (sql, plan)


# ------------------------------------------------------------------------------------------ counting

def wait_ended(service):
    """Until no attempt is left, not even one whose end nobody sees in its job."""
    with gevent.Timeout(10):
        while service.runner._supervisors:
            gevent.sleep(0.01)


def test_what_attempts_came_to_is_counted_by_kind_and_outcome(service, person, admin):
    someone = person(points=9)
    before = admin.figures()
    for kind in ("paid", "refusing", "broken"):
        someone.finished(someone.submit(kind).json["job"]["id"])
    slow = someone.submit("slow", seconds=30).json["job"]["id"]
    with gevent.Timeout(10):
        while not service.runner.attempts:
            gevent.sleep(0.01)
    now = admin.figures()
    assert now['ainori_jobs_in_flight{kind="slow",status="running"}'] == 1
    someone.post(f"/api/jobs/{slow}/cancellation")
    someone.finished(slow)
    wait_ended(service)
    after = admin.figures()

    def more(name):
        return after.get(name, 0) - before.get(name, 0)
    for kind, outcome in (("paid", "succeeded"), ("refusing", "refused"), ("broken", "failed"), ("slow", "cancelled")):
        for each in ("succeeded", "refused", "failed", "cancelled", "timed_out", "lost"):
            name = f'ainori_attempts_ended_total{{kind="{kind}",outcome="{each}"}}'
            assert name in before and more(name) == (each == outcome), name
        assert more(f'ainori_attempt_duration_seconds_count{{kind="{kind}"}}') == 1
        assert more(f'ainori_attempt_duration_seconds_bucket{{kind="{kind}",le="+Inf"}}') == 1
    assert more('ainori_points_returned_total{kind="refusing"}') == 1 and more("ainori_db_commits_total") >= 4
    assert more('ainori_points_returned_total{kind="paid"}') == 0
    assert after['ainori_incidents_open{severity="warning"}'] == 1  # of the bug
    assert after['ainori_jobs_in_flight{kind="slow",status="running"}'] == 0


def test_an_end_that_somebody_else_had_written_counts_as_lost(service, person, admin):
    someone = person()
    job_id = someone.submit("commanding", text="0.5").json["job"]["id"]
    with gevent.Timeout(10):
        while someone.balance() == 3:
            gevent.sleep(0.01)
    db.store.write(lambda: db.execute(
        "UPDATE jobs SET status = 'failed', settlement = 'due', error_code = 'INTERRUPTED', "
        f"finished_at = {db.NOW}, worker_id = NULL, deadline_at = NULL WHERE id = ?", (job_id,)))
    wait_ended(service)
    figures = admin.figures()
    assert figures['ainori_attempts_ended_total{kind="commanding",outcome="lost"}'] == 1
    assert figures['ainori_attempts_ended_total{kind="commanding",outcome="succeeded"}'] == 0
    assert figures['ainori_jobs_unsettled{settlement="due"}'] == 1
    assert someone.finished(job_id)["money"] == "refunded"


def test_interruptions_are_counted_when_they_are_on_disk(app, person, admin):
    someone = person()
    workers._register("gone", "server")
    for kind in ("paid", "again"):
        someone.submit(kind)
        assert jobs.claim("gone", {kind: app.kinds[kind]})
    (db.store.path.parent / "workers" / "gone.lock").touch()  # nobody holds it
    before, passes = dict(jobs.interrupted), recovery.passes

    def undone(job_id):
        jobs.reap(job_id)
        raise ZeroDivisionError
    for row in db.rows("SELECT id FROM jobs"):
        with pytest.raises(ZeroDivisionError):
            db.store.write(undone, row["id"])
    assert dict(jobs.interrupted) == before
    recovery.one_pass()
    after = admin.figures()
    for kind, status in (("paid", "failed"), ("again", "pending")):
        name = f'ainori_jobs_interrupted_total{{kind="{kind}",reason="orphaned",status="{status}"}}'
        assert after[name] == before.get((kind, "orphaned", status), 0) + 1
    assert after["ainori_recovery_passes_total"] == passes + 1


def test_a_histogram_counts_a_value_at_its_bound():
    histogram = measure.Histogram(.1, 1)
    for value in (.05, .1, .5, 1, 7):
        histogram.add(value)
    assert histogram.cumulative() == [(.1, 2), (1, 4), (float("inf"), 5)] and histogram.sum == pytest.approx(8.65)


# ------------------------------------------------------------------------------------------- hub lag

def test_who_stops_the_hub_is_named(service, person, admin, caplog):
    someone = person(points=0)
    with caplog.at_level(logging.WARNING, "webapp.measure"):
        numbers = []
        for _ in range(2):
            job = someone.finished(someone.submit("blocking", seconds=0.3).json["job"]["id"])
            numbers.append(job["number"])
    figures = admin.figures()
    worst, = (name for name in figures if name.startswith("ainori_hub_lag_worst_seconds"))
    assert figures[worst] >= 0.2 and 'kinds="blocking"' in worst and any(number in worst for number in numbers)
    assert figures['ainori_hub_stalls_total{kind="blocking"}'] >= 1
    assert figures["ainori_hub_lag_seconds_count"] - figures['ainori_hub_lag_seconds_bucket{le="0.1"}'] >= 1
    said = [record.getMessage() for record in caplog.records if "stood still" in record.getMessage()]
    assert len(said) == 1 and any(f"{number} (blocking)" in said[0] for number in numbers)  # once a minute, however often


def test_a_lag_among_many_names_a_few():
    lag = measure.HubLag()
    lag.add(0.2, [{"number": f"N-{n}", "kind": "a" if n % 2 else "b"} for n in range(9)])
    assert lag.worst == (0.2, "N-0, N-1, N-2, N-3, N-4, and 4 more", "a, b") and lag.stalls == {"a": 1, "b": 1}
    lag.add(0.05, [{"number": "N", "kind": "c"}])
    assert "c" not in lag.stalls and lag.worst[0] == 0.2


# ------------------------------------------------------------------------------------- idle is idle

STILL = ("ainori_recovery_passes_total", "ainori_db_commits_total", "ainori_db_verbs_total",
         "ainori_hub_lag_seconds_count")
TICK_SECONDS = 0.05


class Watched:
    """A real server whose scheduler ticks twenty times a second, and who asks it."""

    def __init__(self, server):
        self.server = server(RECOVERY_INTERVAL_SECONDS=TICK_SECONDS, SUPPORT_CONTACT="help@example.org")
        self.token = self.server.add_user(points=9)
        made = self.server.flask("users", "add", "admin@example.org", "--admin", "--json")
        self._admin = json.loads(made.stdout)["token"]

    def figures(self):
        answer = self.server.get("/metrics", token=self._admin)
        assert answer.status == 200, answer.text
        return figures_of(answer.text)

    def idle(self):
        """Wait until nothing is in flight or due and what was awake has gone to sleep; the figures then."""
        ends = time.monotonic() + 20
        before = self.figures()
        while time.monotonic() < ends:
            time.sleep(4 * TICK_SECONDS)
            now = self.figures()
            if not any(count for name, count in now.items() if name.startswith("ainori_jobs_in_flight")) and all(
                    now[name] == before[name] for name in STILL):
                return now
            before = now
        raise AssertionError({name: (before[name], now[name]) for name in STILL})

    def stands_still(self, seconds):
        before = self.idle()
        time.sleep(seconds)
        after = self.figures()
        assert {name: after[name] for name in STILL} == {name: before[name] for name in STILL}
        return after

    def submit(self, kind, **params):
        answer = self.server.post(f"/api/kinds/{kind}/jobs", params, token=self.token)
        assert answer.status == 202, answer.text
        return answer.json["job"]["id"]

    def wait_charged(self, job_id):
        ends = time.monotonic() + 10
        while not self.server.rows("SELECT 1 FROM ledger_entries WHERE job_id = ?", job_id):
            assert time.monotonic() < ends, "not charged"
            time.sleep(0.01)


def test_idle_is_idle_whatever_the_work_came_to(server):
    watched = Watched(server)
    one = watched.server
    before = watched.stands_still(0.5)

    def ended_somehow(kind, **params):
        job_id = watched.submit(kind, **params)
        return one.finished(job_id, token=watched.token)["status"], job_id
    assert ended_somehow("slow", seconds=0.5)[0] == "succeeded"
    after = watched.stands_still(3)  # sixty of the scheduler's ticks
    assert all(after[name] > before[name] for name in STILL)  # they do move

    assert ended_somehow("refusing")[0] == ended_somehow("broken")[0] == "failed"
    cancelled = watched.submit("slow", seconds=30)
    watched.wait_charged(cancelled)
    assert one.post(f"/api/jobs/{cancelled}/cancellation", token=watched.token).status == 202
    other = one.add_user("other@example.org")
    first = watched.submit("shared", text="same", seconds=1.5)
    joined = one.post("/api/kinds/shared/jobs", {"text": "same", "seconds": 1.5}, token=other)
    assert joined.json["joined"] and joined.json["job"]["id"] == first
    again = watched.stands_still(1)
    assert again["ainori_recovery_passes_total"] > after["ainori_recovery_passes_total"]
    assert again['ainori_attempts_ended_total{kind="slow",outcome="cancelled"}'] == 1


def test_points_that_stay_unknown_keep_nobody_awake(server):
    watched = Watched(server)
    job_id = watched.submit("stubborn")
    watched.wait_charged(job_id)
    connection = sqlite3.connect(watched.server.database, timeout=10)
    connection.execute("ALTER TABLE ledger_entries RENAME TO hidden")  # it times out after a second
    job = watched.server.finished(job_id, token=watched.token)
    assert (job["error"]["code"], job["money"]) == ("TIMED_OUT", "unknown")
    figures = watched.stands_still(2)
    assert figures['ainori_jobs_unsettled{settlement="unknown"}'] == 1
    assert figures['ainori_incidents_open{severity="critical"}'] == 1
    connection.execute("ALTER TABLE hidden RENAME TO ledger_entries")
    connection.close()
    assert watched.server.finished(job_id, token=watched.token)["money"] == "refunded"
    after = watched.stands_still(0.5)
    assert after['ainori_jobs_unsettled{settlement="unknown"}'] == 0
    assert after['ainori_incidents_open{severity="critical"}'] == 0
    assert after['ainori_points_returned_total{kind="stubborn"}'] == 1
