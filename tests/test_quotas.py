"""Daily allowances: every unit counted once, before it is spent; capped, renewed at the service's own midnight."""
import json
import time
from datetime import UTC, datetime

import gevent
import pytest
from freezegun import freeze_time

from tests.conftest import Person
from tests.upstreams import Answer, CannedUpstream
from webapp import create_app, db, jobs, quotas
from webapp.errors import DailyLimit, SettingsError, UpstreamUnavailable
from webapp.kinds import Quota
from webapp.runner import Attempt
from webapp.service import Service

LOS_ANGELES = Quota("q", "Q", "America/Los_Angeles")


@pytest.fixture
def service_asked():
    with CannedUpstream() as server:
        yield server


@pytest.fixture
def site(settings):
    """A running application with this cap; the last one stands."""
    running = []

    def start(cap=10):
        app = create_app(settings(METERED_PER_DAY=cap))
        running.append(Service(app).start())
        return app
    yield start
    for one in running:
        one.stop()


def guest(app):
    """Every request is another guest's."""
    return lambda **params: app.test_client().post("/api/kinds/metered/jobs", json=params)


def spent(name="metered"):
    row = db.one("SELECT sum(spent) AS n, sum(spent_by_guests) AS guests FROM quota_days WHERE quota = ?", (name,))
    return row["n"] or 0, row["guests"] or 0


# ------------------------------------------------------------------------------------------- a day

@pytest.mark.parametrize("now, day, resets_at", [
    ("2026-11-30T07:59:59.999Z", "2026-11-29", "2026-11-30T08:00:00.000Z"),
    ("2026-11-30T08:00:00.000Z", "2026-11-30", "2026-12-01T08:00:00.000Z"),
    ("2026-11-30T08:00:00.001Z", "2026-11-30", "2026-12-01T08:00:00.000Z"),
    ("2026-03-08T08:00:00.000Z", "2026-03-08", "2026-03-09T07:00:00.000Z"),  # 23 hours: summer time begins
    ("2026-11-01T07:00:00.000Z", "2026-11-01", "2026-11-02T08:00:00.000Z"),  # 25 hours: it ends
])
def test_a_day_is_the_service_s_own(app, now, day, resets_at):
    with freeze_time(now):
        standing = quotas.standing(LOS_ANGELES, 10)
    assert (standing.day, standing.resets_at) == (day, resets_at)


def test_what_was_spent_is_forgotten_at_midnight_and_not_before(app):
    user = Person(app, "a@example.org", 0).id
    with freeze_time("2026-11-30T07:59:59.999Z"):
        quotas.spend(LOS_ANGELES, 1, user, 1)
        with pytest.raises(DailyLimit) as refused:
            quotas.spend(LOS_ANGELES, 1, user, 1)
    assert refused.value.facts == {"service": None, "guests": False, "exhausted": False, "retry_at": "2026-11-30T08:00:00.000Z",
                                   "retry_after_seconds": 1}
    with freeze_time("2026-11-30T08:00:00.000Z"):
        quotas.spend(LOS_ANGELES, 1, user, 1)
    assert spent("q") == (2, 0)


def test_a_refused_unit_is_not_counted_and_0_is_no_cap(app):
    user = Person(app, "a@example.org", 0).id
    for _ in range(3):
        quotas.spend(LOS_ANGELES, 0, user, 5)
    with pytest.raises(DailyLimit):
        quotas.spend(LOS_ANGELES, 15, user, 1)
    assert spent("q") == (15, 0)


def test_guests_get_half_and_nobody_more_than_all(app):
    user = Person(app, "a@example.org", 0).id
    visitor = db.verb(lambda: db.execute("INSERT INTO users (guest_key) VALUES ('g') RETURNING id")[0][0])()
    for _ in range(2):
        quotas.spend(LOS_ANGELES, 5, visitor, 1)
    with pytest.raises(DailyLimit) as refused:
        quotas.spend(LOS_ANGELES, 5, visitor, 1)
    assert refused.value.facts["guests"]
    for _ in range(3):
        quotas.spend(LOS_ANGELES, 5, user, 1)
    for who in (user, visitor):
        with pytest.raises(DailyLimit) as refused:
            quotas.spend(LOS_ANGELES, 5, who, 1)
        assert not refused.value.facts["guests"]
    assert spent("q") == (5, 2)


def test_what_the_service_says_stands_until_midnight_or_until_it_is_reopened(app):
    user = Person(app, "a@example.org", 0).id
    with freeze_time("2026-11-30T12:00:00Z") as clock:
        for _ in range(2):
            assert quotas.exhaust(LOS_ANGELES, time.time()) == "2026-12-01T08:00:00.000Z"
        clock.move_to("2026-12-01T07:59:59.999Z")
        with pytest.raises(DailyLimit) as refused:
            quotas.spend(LOS_ANGELES, 0, user, 1)
        assert refused.value.facts["exhausted"]
        assert quotas.reopen(LOS_ANGELES) and not quotas.reopen(LOS_ANGELES)
        quotas.spend(LOS_ANGELES, 0, user, 1)
        quotas.exhaust(LOS_ANGELES, time.time())
        clock.move_to("2026-12-01T08:00:00Z")
        quotas.spend(LOS_ANGELES, 0, user, 1)


def seconds(text):
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("midnight", ["2026-11-30T08:00:00", "2026-03-08T08:00:00", "2026-03-09T07:00:00", "2026-11-01T07:00:00",
                                      "2026-11-02T08:00:00"])  # a usual one; before and after the days of 23 and 25 hours
@pytest.mark.parametrize("asked, told, closes", [(-.1, .2, False), (-20, 0, False), (-20, -.001, True), (0, .2, True), (.001, 20, True)])
def test_a_refusal_closes_the_day_on_which_it_was_asked(app, midnight, asked, told, closes):
    user, at = Person(app, "a@example.org", 0).id, seconds(midnight + "Z")
    with freeze_time(datetime.fromtimestamp(at + asked, UTC)) as clock:
        quotas.spend(LOS_ANGELES, 0, user, 1)
        clock.move_to(datetime.fromtimestamp(at + told, UTC))
        until = seconds(quotas.exhaust(LOS_ANGELES, at + asked))
        assert quotas.standing(LOS_ANGELES, 0).exhausted == closes
        # Of yesterday: until its end, which is past. Of a day's beginning: some minutes, for services renew a little late.
        assert round(until, 3) == (round(at + told + 600, 3) if asked >= 0 else at)
        clock.move_to(datetime.fromtimestamp(max(until, at), UTC))
        quotas.spend(LOS_ANGELES, 0, user, 1)


@pytest.mark.parametrize("told, believed_seconds", [("08:00:00.2", 600), ("08:10:01", 600), ("08:59:59.9", 600), ("09:00:00", 82_800),
                                                    ("09:30:00", 81_000)])
def test_in_the_first_hour_of_a_day_a_refusal_is_believed_for_minutes(app, told, believed_seconds):
    user = Person(app, "a@example.org", 0).id
    with freeze_time(f"2026-11-30T{told}Z") as clock:
        until = quotas.exhaust(LOS_ANGELES, time.time())
        with pytest.raises(DailyLimit) as refused:
            quotas.spend(LOS_ANGELES, 0, user, 1)
        assert refused.value.facts | {"service": 0} == {"service": 0, "guests": False, "exhausted": True, "retry_at": until,
                                                        "retry_after_seconds": believed_seconds}
        clock.move_to(datetime.fromtimestamp(time.time() + believed_seconds - .5, UTC))
        assert quotas.standing(LOS_ANGELES, 0).exhausted
        clock.tick(.5)
        quotas.spend(LOS_ANGELES, 0, user, 1)


def test_a_clock_set_back_closes_no_day_that_has_not_begun(app):
    with freeze_time("2026-11-30T12:00:00Z"):
        quotas.exhaust(LOS_ANGELES, time.time() + 86_400)
        assert quotas.standing(LOS_ANGELES, 0).exhausted
    assert db.value("SELECT count(*) FROM quota_days") == 1


# ------------------------------------------------------------------------------------ what is counted

def test_a_request_is_counted_once_whoever_shares_it(site, service_asked):
    app = site()
    url = service_asked.answer("/a", Answer(b"{}", delay_seconds=0.2))
    people = [Person(app, f"p{n}@example.org", 0) for n in range(4)]
    # Four jobs (their share keys differ) ask for the same at once, then one more from the cache.
    ids = [person.submit("metered", url=f"{url}#{n}").json["job"]["id"] for n, person in enumerate(people)]
    results = [person.finished(job)["result"]["units"] for person, job in zip(people, ids)]
    later = people[0].submit("metered", url=f"{url}#later").json["job"]["id"]
    assert people[0].finished(later)["result"]["units"] == 0
    assert sorted(results) == [0, 0, 0, 1]
    assert service_asked.asked("/a") == 1 and spent() == (1, 0)


def test_an_answer_that_is_no_use_is_counted_too(site, service_asked):
    person = Person(site(), "a@example.org", 0)
    job = person.submit("metered", url=service_asked.url("/none"), times=3).json["job"]["id"]
    assert person.finished(job)["result"] == {"units": 3, "statuses": [404, 404, 404]}
    assert spent() == (3, 0)


@pytest.mark.parametrize("answers, cap, units, came_of_it", [
    ([Answer(status=302, headers={"Location": "/b"})], 10, 2, "succeeded"),
    ([Answer(status=302, headers={"Location": "/a"})], 10, 4, "UPSTREAM_UNAVAILABLE"),
    ([Answer(status=302, headers={"Location": "/a"})], 3, 3, "DAILY_LIMIT"),
    ([Answer(raw=b""), Answer(b"{}")], 10, 1, "UPSTREAM_UNAVAILABLE"),
])
def test_a_request_that_leads_to_others_is_counted_for_each(site, service_asked, answers, cap, units, came_of_it):
    person = Person(site(cap), "a@example.org", 0)
    job = person.finished(person.submit("metered", url=service_asked.answer("/a", *answers)).json["job"]["id"])
    assert (job["error"]["code"] if job["error"] else job["status"]) == came_of_it
    assert len(service_asked.seen) == units and spent() == (units, 0)
    if not job["error"]:
        assert job["result"]["units"] == units


def test_a_day_with_connections_that_break_spends_no_more_than_its_cap(site, service_asked):
    """A kept connection whose request is answered by nothing is asked again: that costs too."""
    person, ends = Person(site(cap=20), "a@example.org", 0), []
    while len(ends) < 11:
        broken = [Answer(raw=b"")] if ends else []
        url = service_asked.answer(f"/{len(ends)}", *broken, Answer(b"{}"))
        ends.append(person.finished(person.submit("metered", url=url).json["job"]["id"])["status"])
    assert ends == ["succeeded"] * 10 + ["failed"]
    assert len(service_asked.seen) == spent()[0] == 20
    assert person.submit("metered", url=service_asked.url("/more")).status_code == 503


@pytest.mark.parametrize("used, told", [(0, 4), (7, 3)])
def test_a_failure_says_all_that_it_cost(site, service_asked, used, told):
    app = site()
    user = Person(app, "a@example.org", 0).id
    quota, kind = app.kinds["metered"].quota, app.kinds["metered"]
    if used:
        quotas.spend(quota, 10, user, used)
    row = {"id": "j", "user_id": user, "attempt": 1, "lang": "en"}
    job = Attempt(row, kind, kind.params(url="u"), app.settings.for_kind(kind), app.upstream)
    with pytest.raises((UpstreamUnavailable, DailyLimit)) as failed:
        job.fetch(service_asked.answer("/a", Answer(status=302, headers={"Location": "/a"})), units=1)
    assert failed.value.units == told == len(service_asked.seen) and spent() == (used + told, 0)


def test_whoever_joined_a_request_that_was_not_admitted_asks_for_themselves(site, service_asked):
    """A guest's share may be used up where an account's is not."""
    upstream, url, seen = site().upstream, service_asked.answer("/a", Answer(b"{}")), []

    def refused():
        gevent.sleep(0.1)
        raise DailyLimit(guests=True)
    first = gevent.spawn(lambda: upstream.fetch(url, admit=refused))
    gevent.sleep(0.02)
    second = gevent.spawn(lambda: upstream.fetch(url, admit=lambda: seen.append("admitted")))
    with pytest.raises(DailyLimit):
        first.get()
    assert second.get().status == 200 and seen == ["admitted"]
    assert service_asked.asked("/a") == 1


# --------------------------------------------------------------------------------------- at the cap

def test_at_the_cap_a_submit_is_refused_with_the_time_and_nothing_is_stored(site, service_asked):
    app = site(cap=2)
    person = Person(app, "a@example.org", 0)
    url = service_asked.answer("/a", Answer(b"{}"))
    done = person.submit("metered", url=url + "?1").json["job"]["id"]
    person.finished(done)
    person.finished(person.submit("metered", url=url + "?2").json["job"]["id"])
    before = db.value("SELECT count(*) FROM jobs")
    answer = person.submit("metered", url=url + "?3")
    standing = quotas.standing(app.kinds["metered"].quota, 2)
    assert answer.status_code == 503 and answer.json["code"] == "DAILY_LIMIT"
    assert answer.json["retry_at"] == standing.resets_at
    assert abs(int(answer.headers["Retry-After"]) - standing.resets_in_seconds) <= 1
    assert "nothing was used" in answer.json["detail"]
    assert db.value("SELECT count(*) FROM jobs") == before
    assert person.post("/api/kinds/metered/precheck", json={"url": url + "?3"}).json["reasons"] == ["DAILY_LIMIT"]
    # What is fresh is still shared, and what needs no unit is still done.
    assert person.submit("metered", url=url + "?1").json["cached"]
    assert person.submit("metered", url=service_asked.url("/free")).status_code == 202
    page = app.test_client().post("/kinds/metered", data={"url": url + "?4"}, headers={"Accept-Language": "ja"})
    assert page.status_code in (400, 503)


def test_what_the_service_has_used_up_is_refused_like_the_cap(site, service_asked):
    app = site(cap=0)
    person, points = Person(app, "a@example.org", 0), Person(app, "b@example.org", 9)
    url = service_asked.answer("/a", Answer(b"{}"))
    done = person.submit("metered", url=url).json["job"]["id"]
    person.finished(done)
    slow = person.submit("metered", url=service_asked.answer("/slow", Answer(b"{}", delay_seconds=3))).json["job"]["id"]
    with gevent.Timeout(5):
        while not service_asked.asked("/slow"):
            gevent.sleep(0.01)
    until = {kind: quotas.exhaust(app.kinds[kind].quota, time.time()) for kind in ("metered", "metered_paid")}
    before = db.value("SELECT count(*) FROM jobs")
    for who, kind in ((person, "metered"), (points, "metered_paid")):
        answer = who.submit(kind, url=url + "?new")
        assert (answer.status_code, answer.json["code"], answer.json["exhausted"]) == (503, "DAILY_LIMIT", True)
        assert answer.json["retry_at"] == until[kind] and int(answer.headers["Retry-After"]) > 1
        told = who.post(f"/api/kinds/{kind}/precheck", json={"url": url + "?new"}).json
        assert (told["ok"], told["reasons"], told["retry_at"]) == (False, ["DAILY_LIMIT"], until[kind])
    assert db.value("SELECT count(*) FROM jobs") == before
    assert points.get("/api/points").json["available"] == 9
    # Before there are params it is said where all work needs a unit.
    told = points.get("/api/kinds/metered_paid/precheck").json
    assert (told["ok"], told["reasons"], told["retry_at"]) == (False, ["DAILY_LIMIT"], until["metered_paid"])
    assert person.get("/api/kinds/metered/precheck").json["reasons"] == []
    # What there is, is under way or needs no unit is still had.
    assert person.submit("metered", url=url).json["cached"]
    assert points.submit("metered", url=service_asked.url("/slow")).json["job"]["id"] == slow
    assert person.submit("metered", url=service_asked.url("/free")).status_code == 202
    for kind in ("metered", "metered_paid"):
        assert quotas.reopen(app.kinds[kind].quota)
    assert points.submit("metered_paid", url=url + "?new").status_code == 202


def test_in_a_day_s_first_hour_it_is_refused_for_ten_minutes_only(app):
    person, kind = Person(app, "a@example.org", 0), app.kinds["metered"]
    order = jobs.order(kind, kind.params(url="u"), jobs.Asker(person.id, False, "en"), settings=app.settings.for_kind(kind))
    with freeze_time("2026-11-30T08:30:00Z") as clock:
        quotas.exhaust(kind.quota, time.time())
        clock.move_to("2026-11-30T08:39:59Z")
        assert jobs.preview(order)["retry_at"] == "2026-11-30T08:40:00.000Z"
        clock.move_to("2026-11-30T08:40:00Z")
        assert jobs.preview(order)["reasons"] == []


@pytest.mark.parametrize("lang, said, guests_said", [
    ("en", "Results that exist already, and what does not need it, can still be had.", "sign in, or try again after"),
    ("ja", "お試しください。すでにある結果や、この枠を使わないものは、引き続きご利用いただけます。", "ログインする")])
@pytest.mark.parametrize("address", ["/kinds/metered", "/"])
def test_the_form_says_that_no_more_may_be_asked(settings, lang, said, guests_said, address):
    app = create_app(settings(METERED_PER_DAY=2, **({"KINDS": "comments", "EXTRA_KINDS": "", "YOUTUBE_UNITS_PER_DAY": 4}
                                                    if address == "/" else {})))
    [kind] = [kind for kind in app.kinds.values() if kind.quota and kind.name in ("metered", "comments")]

    def page():
        return app.test_client().get(address, headers={"Accept-Language": lang}).text
    assert said not in page()
    quotas.spend(kind.quota, 0, db.verb(lambda: db.execute("INSERT INTO users (guest_key) VALUES ('g') RETURNING id")[0][0])(),
                 kind.quota.least)
    assert said in page() and guests_said in page()
    quotas.exhaust(kind.quota, time.time())
    assert said in page() and guests_said not in page()
    quotas.reopen(kind.quota)
    quotas.spend(kind.quota, 0, Person(app, "a@example.org", 0).id, kind.quota.least)
    assert said in page() and guests_said not in page()


def test_a_guest_at_half_is_told_to_sign_in(site, service_asked):
    app = site(cap=2)
    asked, url = guest(app), service_asked.answer("/a", Answer(b"{}"))
    assert asked(url=url + "?1").status_code == 202
    with gevent.Timeout(5):
        while spent() != (1, 1):
            gevent.sleep(0.01)
    answer = asked(url=url + "?2")
    assert answer.status_code == 503 and answer.json["guests"] and "sign in" in answer.json["detail"]
    assert Person(app, "a@example.org", 0).submit("metered", url=url + "?2").status_code == 202


def test_in_the_middle_work_may_end_with_what_there_is_which_no_later_asker_gets(site, service_asked):
    app = site(cap=3)
    person = Person(app, "a@example.org", 0)
    job = person.submit("metered", url=service_asked.url("/x"), times=5, patient=True).json["job"]["id"]
    assert person.finished(job)["result"] == {"units": 3, "statuses": [404] * 3}
    assert service_asked.asked("/x/3") == 0
    assert db.value("SELECT reusable FROM jobs WHERE id = ?", (job,)) == 0
    assert person.submit("metered", url=service_asked.url("/x"), times=5, patient=True).status_code == 503
    assert person.job(job)["status"] == "succeeded"


def test_in_the_middle_work_that_cannot_go_on_says_when(site, service_asked):
    person = Person(site(cap=3), "a@example.org", 0)
    job = person.submit("metered", url=service_asked.url("/x"), times=5).json["job"]["id"]
    error = person.finished(job)["error"]
    assert error["code"] == "DAILY_LIMIT" and error["retry_at"].endswith(":00:00.000Z")
    assert "try again after" in error["message"]


def test_a_service_that_has_had_enough_is_left_alone_by_all(site, service_asked):
    app = site()
    person, url = Person(app, "a@example.org", 0), service_asked.answer("/a", Answer(b"no", 403))
    job = person.submit("metered", url=url).json["job"]["id"]
    assert person.finished(job)["error"]["code"] == "USED_UP"
    with pytest.raises(DailyLimit) as refused:  # what had been taken on before
        quotas.spend(app.kinds["metered"].quota, 0, person.id, 1)
    assert refused.value.facts["exhausted"]
    assert service_asked.asked("/a") == 1 and spent() == (1, 0)
    assert [row["code"] for row in db.rows("SELECT code FROM incidents")] == ["QUOTA_EXHAUSTED"]
    assert quotas.reopen(app.kinds["metered"].quota)
    person.finished(person.submit("metered", url=f"{url}?again").json["job"]["id"])
    assert service_asked.asked("/a") == 2


# -------------------------------------------------------------------------------- for the operator

def test_an_incident_of_a_kind_names_it_and_is_critical(site, service_asked):
    person = Person(site(), "a@example.org", 0)
    url = service_asked.answer("/a", Answer(b"no", 401))
    person.finished(person.submit("metered", url=url).json["job"]["id"])
    row = db.one("SELECT * FROM incidents")
    assert (row["severity"], row["code"]) == ("critical", "KEY_REFUSED")
    assert row["detail"] == "metered: the service refuses the key"


def test_the_stages_are_those_of_these_params(app):
    kind = app.kinds["metered"]
    assert kind.stages_of(kind.params(url="u")) == ["look"]
    assert kind.stages_of(kind.params(url="u", patient=True)) == ["look", "wait"]
    assert kind.stages_of(None) == ["look"]
    assert kind.stage_in("wait", "en") == "Waiting"


@pytest.mark.parametrize("name, value", [("METERED_PER_DAY", "many"), ("METERED_PER_DAY", "-1"), ("METERED_HOST", "H 1")])
def test_a_setting_of_a_kind_that_cannot_be_stops_the_start(settings, name, value):
    with pytest.raises(SettingsError, match=name):
        create_app(settings(**{name: value}))


def test_settings_of_a_kind_are_what_their_default_is(settings):
    app = create_app(settings(METERED_PER_DAY="7"))
    own = app.settings.for_kind(app.kinds["metered"])
    assert (own["METERED_PER_DAY"], own["METERED_HOST"]) == (7, "h")


def test_the_command_line_says_how_the_day_stands(app):
    run = app.test_cli_runner().invoke
    quota = app.kinds["metered"].quota
    with freeze_time("2026-11-30T12:00:00Z"):
        quotas.exhaust(quota, time.time())
        assert "until 2026-12-01T08:00:00.000Z" in run(args=["kinds", "list", "--json"]).output
    quotas.exhaust(quota, time.time())
    listed = json.loads(run(args=["kinds", "list", "--json"]).output)
    quota = next(kind["quota"] for kind in listed if kind["name"] == "metered")
    assert quota.startswith("0 of 10 today, used up until ")
    assert "asks its service again" in run(args=["kinds", "reopen", "metered"]).output
    again = run(args=["kinds", "reopen", "metered"])
    assert again.exit_code == 1 and "No service that metered asks" in again.output
    assert run(args=["kinds", "reopen", "paid"]).exit_code == 1


def test_steps_are_kept_for_another_attempt_and_no_longer(service, app, person):
    one = person()
    job = one.submit("paced", before=0, after=0).json["job"]["id"]
    assert one.finished(job)["result"]["step"] == {"by": 1}
    assert jobs.steps_kept(job) == 0
