"""The public status: counted from rows and ledger, over exactly thirty days, and there when nothing can be read."""
import re
import sqlite3
import time

import pytest

from tests.conftest import Person
from webapp import accounts, create_app, db, jobs, overview, quotas, recovery, web, workers
from webapp.kinds.comments import youtube

MOMENT, DAY = 0.001, 86400
BEFORE, AT, AFTER = -MOMENT, 0, MOMENT
DEAD = "dead-worker"


@pytest.fixture
def someone(person):
    workers._register(DEAD, "server")
    (db.store.path.parent / "workers" / f"{DEAD}.lock").touch()  # nobody holds it
    return person(points=100)


def running(someone, kind, charged=True):
    job_id = someone.submit(kind).json["job"]["id"]
    attempt = claimed(job_id)
    if charged:
        jobs.charge(job_id, attempt)
    return job_id


def claimed(job_id):
    return jobs.claim(DEAD, [jobs.get(job_id)["kind"]], job_id=job_id)[0]["attempt"]


def interrupted(job_id):
    """Whoever polls finds its worker dead."""
    jobs.poll(job_id)
    assert jobs.get(job_id)["attempts_spent"]
    return job_id


def figures():
    return db.look(overview._figures)


def page(app, lang="en"):
    overview._kept = None
    answer = app.test_client().get("/status", headers={"Accept-Language": lang})
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", answer.text))


# ------------------------------------------------------------------------------------------- what counts

def test_each_ending_is_counted_as_what_it_was(app, someone):
    jobs.succeed(running(someone, "paid"), 1, "{}")
    went_on = interrupted(running(someone, "again"))
    jobs.succeed(went_on, claimed(went_on), "{}")
    given_back = running(someone, "again")
    jobs.release(given_back, 1, 10)
    jobs.succeed(given_back, claimed(given_back), "{}")
    interrupted(running(someone, "paid"))                     # ended by it, 1 point returned
    interrupted(running(someone, "paid", charged=False))      # ended by it, nothing to return
    too_slow = running(someone, "slow")
    jobs.time_out(too_slow, 1)
    jobs.settle(too_slow)                                     # ended by it, 1 point returned
    other = interrupted(running(someone, "again"))
    jobs.fail(other, claimed(other), "NOT_TODAY")
    jobs.settle(other)                                        # went on, and ended for a reason of its own
    bug = running(someone, "broken")
    jobs.fail(bug, 1, "INTERNAL_ERROR")
    jobs.settle(bug)                                          # returned too, but not after an interruption
    gone = someone.submit("paid").json["job"]["id"]
    jobs.fail_gone(gone)
    jobs.settle(gone)                                         # had not begun: nothing was interrupted
    running(someone, "paid")                                  # not ended
    found = figures()
    assert {name: found[name] for name in ("done", "failed", "interrupted", "resumed", "ended", "other", "returned")} == {
        "done": 3, "failed": 6, "interrupted": 6, "resumed": 2, "ended": 3, "other": 1, "returned": 2}
    assert (found["unknown"], found["due"], found["unknown_lately"]) == (0, 0, 0)
    assert found["kinds"]["again"]["interrupted"] == 3 and found["kinds"]["again"]["done"] == 2
    assert found["days"][-1]["interrupted"] == 6 and sum(day["done"] for day in found["days"]) == 3
    text = page(app)
    assert "2 went on by themselves and were done. 3 ended there. 1 went on and ended for another reason." in text
    assert "Points returned after interruptions 2" in text


def test_one_person_is_never_named(app, someone):
    job_id = interrupted(running(someone, "paid"))
    text = page(app)
    assert someone.email not in text and jobs.get(job_id)["number"] not in text and job_id not in text
    assert not re.search(r"\bjobs?\b|ジョブ", text + page(app, "ja"), re.IGNORECASE)


@pytest.mark.parametrize("off, counted", [(BEFORE, 1), (AT, 0), (AFTER, 0)])
def test_thirty_days_are_thirty_days(clock, someone, off, counted):
    interrupted(running(someone, "paid"))
    job_id = running(someone, "paid")
    jobs.succeed(job_id, 1, "{}")
    clock(30 * DAY + off)
    found = figures()
    assert (found["done"], found["interrupted"], found["ended"], found["returned"]) == (counted,) * 4
    assert len(found["kinds"]) == counted and sum(day["done"] for day in found["days"]) == counted


def test_what_has_expired_still_counts(clock, app, someone):
    resumed = interrupted(running(someone, "again"))
    jobs.succeed(resumed, claimed(resumed), "{}")
    interrupted(running(someone, "paid"))
    clock(5 * DAY)
    recovery.expire(1)
    assert db.value("SELECT count(*) FROM job_events") == 0
    found = figures()
    assert (found["done"], found["resumed"], found["ended"], found["returned"]) == (1, 1, 1, 1)


@pytest.mark.parametrize("seconds, median", [([4], 4), ([1, 9, 2], 2), ([1, 2, 4, 9], 3)])
def test_the_usual_time_is_the_median(clock, someone, seconds, median):
    at = 0
    for took in seconds:
        clock(at)
        job_id = running(someone, "paid")
        clock(at + took)
        jobs.succeed(job_id, 1, "{}")
        at += 100
    assert figures()["kinds"]["paid"]["median_seconds"] == pytest.approx(median, abs=0.01)


def test_what_cannot_be_confirmed_is_told_and_later_that_it_could(app, someone):
    job_id = running(someone, "paid")
    rename = sqlite3.connect(db.store.path, timeout=10, isolation_level=None)
    rename.execute("ALTER TABLE ledger_entries RENAME TO hidden")
    jobs.poll(job_id)
    assert jobs.get(job_id)["settlement"] == "unknown"
    assert "Nothing can be read at the moment" in page(app)
    rename.execute("ALTER TABLE hidden RENAME TO ledger_entries")
    rename.close()
    found = figures()
    assert (found["unknown"], found["unknown_lately"]) == (1, 1)
    assert "The points of 1 piece of work cannot be confirmed now" in page(app)
    jobs.poll(job_id)
    found = figures()
    assert (found["unknown"], found["unknown_lately"], found["returned"]) == (0, 1, 1)
    assert "have been since" in page(app)


def test_large_results_are_not_read(app):
    for sql in (overview._COUNTS, overview._MEDIANS):
        plan = " ".join(row["detail"] for row in db.rows(f"EXPLAIN QUERY PLAN {sql}"))
        assert "USING COVERING INDEX jobs_ended (finished_at>?)" in plan and "SCAN jobs" not in plan
    plan = " ".join(row["detail"] for row in db.rows(f"EXPLAIN QUERY PLAN {overview._RETURNED}"))
    assert "INDEX jobs_ended (finished_at>?)" in plan


def test_a_crowd_is_one_look(app, someone):
    first = overview.lately()
    assert overview.lately() is first
    overview._kept = (overview._kept[0], overview._kept[1] - overview.KEPT_SECONDS - 1, first)
    assert overview.lately() is not first


def test_another_file_is_another_look(settings, someone, tmp_path):
    jobs.succeed(running(someone, "paid"), 1, "{}")
    assert overview.lately()["done"] == 1
    create_app(settings(DATABASE_PATH=tmp_path / "other.db"))
    assert overview.lately()["done"] == 0


# ------------------------------------------------------------------------------------------- how it is now

def test_it_is_public_and_linked_from_everywhere(app):
    client = app.test_client()
    answer = client.get("/status")
    assert answer.status_code == 200
    assert "Everything works" in answer.text and "Nothing has ended in these days." in answer.text
    assert 'href="/status"' in client.get("/").text
    assert "正常に動作しています" in page(app, "ja")


def test_what_is_paused_is_said_by_its_title(app):
    jobs.pause_kind("sample", "op@example.org", "Back at noon.")
    jobs.pause_kind("gone", "op@example.org", "no longer on")
    text = page(app)
    assert "some of it is paused for now" in text and "Sample : Back at noon." in text
    assert "op@example.org" not in text and "no longer on" not in text
    for name in app.kinds:
        jobs.pause_kind(name, "op@example.org")
    assert "Everything is paused for now" in page(app)


def test_a_restart_and_a_full_disk_are_said(app):
    for name in ("starting", "draining"):
        setattr(jobs.signals, name, True)
        assert "The server is restarting" in page(app)
        setattr(jobs.signals, name, False)
    db.store.refused.set()
    assert "Nothing new can be stored at the moment" in page(app)
    db.store.refused.clear()
    assert "Everything works" in page(app)


def test_a_file_that_another_program_holds_locked_is_said(app, person):
    someone = person()
    other = sqlite3.connect(db.store.path, isolation_level=None)
    db.store.busy_seconds = 0.1
    other.execute("BEGIN IMMEDIATE")
    assert "Everything works" in page(app), "nobody has been refused yet"
    assert someone.submit("free").json["code"] == "BUSY"
    assert "Nothing new can be stored at the moment" in page(app)
    other.execute("ROLLBACK")
    other.close()
    assert someone.submit("free").status_code == 202
    assert "Everything works" in page(app)


@pytest.mark.parametrize("ago, said", [(20, True), (30, False), (31, False)])
def test_a_lock_is_spoken_of_for_half_a_minute(app, ago, said):
    db.store.locked_out_at = db.clock() - ago
    assert web.storage_locked() is said


@pytest.mark.parametrize("table", ["jobs", "users", "kind_pauses"])
def test_it_answers_when_nothing_can_be_read(app, table):
    client = app.test_client()
    someone = Person(app, "p@example.org", 0)
    form = client.get("/login").text
    db.store.write(lambda: db.execute("UPDATE users SET password_hash = ? WHERE id = ?",
                                      (accounts.hash_password("right"), someone.id)))
    csrf = re.search(r'name="csrf_token" value="([^"]*)"', form).group(1)
    assert client.post("/login", data={"email": "p@example.org", "password": "right", "csrf_token": csrf}).status_code == 303
    rename = sqlite3.connect(db.store.path, timeout=10, isolation_level=None)
    rename.execute("PRAGMA legacy_alter_table = on")
    rename.execute(f"ALTER TABLE {table} RENAME TO hidden")
    overview._kept = None
    answer = client.get("/status")
    assert answer.status_code == 200 and "Nothing can be read at the moment" in answer.text
    rename.execute(f"ALTER TABLE hidden RENAME TO {table}")
    rename.close()
    assert "Everything works" in client.get("/status").text


@pytest.mark.parametrize("lang, works, said", [("en", "some of it does not for now", "says that this site’s allowance is used up"),
                                               ("ja", "一部は現在", "利用枠を使い切った")])
def test_a_service_that_has_had_enough_is_said_until_it_is_asked_again(app, lang, works, said):
    assert works not in page(app, lang)
    quotas.exhaust(app.kinds["metered"].quota, time.time())
    shown = page(app, lang)
    assert works in shown and said in shown and "Metered" in shown
    quotas.reopen(app.kinds["metered"].quota)
    assert works not in page(app, lang) and said not in page(app, lang)


def test_a_key_that_is_refused_is_said_by_its_kind(settings):
    app = create_app(settings(KINDS="comments", YOUTUBE_API_KEY="a-key-that-is-refused"))
    told = youtube.not_configured().message
    assert told["en"] not in page(app)
    youtube._refused_keys[youtube._key_mark(app.settings.for_kind(app.kinds["comments"]))] = time.time()
    try:
        assert told["en"] in page(app) and told["ja"] in page(app, "ja") and "some of it does not for now" in page(app)
    finally:
        youtube._refused_keys.clear()
