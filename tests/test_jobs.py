"""The state machine, from the outside: what is submitted, joined, refused, cancelled, tried again."""
import re

import gevent
import pytest

from webapp import accounts, db, jobs, ledger, workers
from webapp.errors import AlreadyFinal, LostFence, NotFound


def test_a_paid_job_lives_its_life(service, person):
    someone = person(points=3)
    answer = someone.submit("paid")
    assert answer.status_code == 202 and answer.headers["Location"] == f"/api/jobs/{answer.json['job']['id']}"
    job = someone.finished(answer.json["job"]["id"])
    assert (job["status"], job["money"], job["result"]) == ("succeeded", "consumed", {"done": True})
    assert job["money_message"] == "1 point was used (balance 2)."
    assert someone.balance() == 2
    story = [event["event"] for event in jobs.events(job["id"])]
    assert story == ["submitted", "claimed", "charged", "succeeded"]


# ------------------------------------------------------------------------------------- the ladder

def test_the_same_key_finds_the_same_job_and_other_params_are_refused(app, person):
    someone = person()
    first = someone.submit("free", key="k", text="a")
    again = someone.submit("free", key="k", text="a")
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json["job"]["id"] == first.json["job"]["id"]
    assert (again.json["joined"], again.json["cached"]) == (False, False)
    other = someone.submit("free", key="k", text="b")
    assert other.status_code == 422 and other.json["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert len(jobs.listing()) == 1


def test_a_key_is_one_persons_own(app, person):
    one, two = person(), person()
    assert one.submit("free", key="k").json["job"]["id"] != two.submit("free", key="k").json["job"]["id"]


def test_fifty_requests_for_the_same_thing_are_one_job(app, person):
    people = [person(points=0) for _ in range(5)]
    asks = [gevent.spawn(people[n % 5].submit, "shared", text="same") for n in range(50)]
    answers = [ask.get() for ask in asks]
    assert len({answer.json["job"]["id"] for answer in answers}) == 1
    assert sum(not answer.json["joined"] for answer in answers) == 1
    assert jobs.watchers(answers[0].json["job"]["id"]) == 5


def test_a_retry_after_a_join_finds_the_same_job(app, person):
    owner, joiner = person(), person()
    job_id = owner.submit("shared", text="x").json["job"]["id"]
    joined = joiner.submit("shared", key="mine", text="x")
    again = joiner.submit("shared", key="mine", text="x")
    assert joined.json["joined"] and joined.status_code == 202
    assert again.status_code == 200 and again.json["job"]["id"] == job_id


def test_a_fresh_result_is_reused_and_becomes_visible(service, person):
    one, two = person(), person()
    job_id = one.submit("shared", text="x").json["job"]["id"]
    one.finished(job_id)
    assert two.get(f"/api/jobs/{job_id}").status_code == 404
    answer = two.submit("shared", text="x")
    assert answer.status_code == 200 and answer.json["cached"] and answer.json["job"]["id"] == job_id
    assert two.job(job_id)["result"] == {"text": "x"}


def test_an_exclusive_kind_has_one_in_flight_and_says_which(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    refused = someone.submit("slow")
    assert refused.status_code == 409 and refused.json["code"] == "JOB_IN_FLIGHT"
    assert refused.json["job_id"] == job_id and refused.headers["Location"] == f"/api/jobs/{job_id}"
    assert person().submit("slow").status_code == 202


def test_twenty_submits_at_once_of_an_exclusive_kind_make_one_job(app, person):
    someone = person(points=20)
    codes = [greenlet.get().status_code for greenlet in [gevent.spawn(someone.submit, "slow") for _ in range(20)]]
    assert sorted(codes) == [202] + [409] * 19


def test_one_point_cannot_start_two_paid_jobs(app, person):
    someone = person(points=1)
    assert someone.submit("paid").status_code == 202
    refused = someone.submit("refusing")
    assert refused.status_code == 402
    assert (refused.json["code"], refused.json["cost"], refused.json["balance"]) == ("INSUFFICIENT_POINTS", 1, 0)
    assert someone.balance() == 1 and len(jobs.listing()) == 1


def test_a_guest_may_run_what_is_free_and_is_asked_to_sign_in_for_the_rest(app, client):
    assert client.post("/api/kinds/paid/jobs", json={}).status_code == 401
    assert db.value("SELECT count(*) FROM users") == 0  # a refusal leaves nobody behind
    answer = client.post("/api/kinds/free/jobs", json={})
    assert answer.status_code == 202
    assert client.get(f"/api/jobs/{answer.json['job']['id']}").status_code == 200
    assert app.test_client().get(f"/api/jobs/{answer.json['job']['id']}").status_code == 404


def test_a_full_queue_refuses_and_stores_nothing(settings, person, monkeypatch):
    from webapp import create_app
    app = create_app(settings(MAX_PENDING_JOBS=2))
    client = app.test_client()
    assert [client.post("/api/kinds/free/jobs", json={}, headers=_token(client)).status_code
            for _ in range(3)] == [202, 202, 503]
    assert len(jobs.listing()) == 2


def _token(client, made={}):
    if made.get("store") is not db.store:
        made["store"], made["token"] = db.store, accounts.new_token()
        accounts.add_user("queue@example.org", None, made["token"])
    return {"Authorization": f"Bearer {made['token']}"}


def test_an_orphan_in_the_way_is_reaped_not_joined(app, person):
    someone = person(points=3)
    job_id = someone.submit("slow").json["job"]["id"]
    _die_with(job_id)
    answer = someone.submit("slow")
    assert answer.status_code == 202 and answer.json["job"]["id"] != job_id
    assert someone.job(job_id)["error"]["code"] == "INTERRUPTED"


def test_a_precheck_says_what_a_submit_would_and_stores_nothing(app, person):
    someone = person(points=1)
    ask = lambda kind, **params: someone.post(f"/api/kinds/{kind}/precheck", json=params).json  # noqa: E731
    assert ask("paid") == {"ok": True, "cost": 1, "balance": 1, "in_flight_job_id": None, "would_join": False,
                           "cached": False, "reasons": []}
    assert ask("free", seconds="x")["reasons"] == ["INVALID_INPUT"]
    assert len(jobs.listing()) == 0
    job_id = someone.submit("slow").json["job"]["id"]
    assert ask("slow")["reasons"] == ["JOB_IN_FLIGHT"] and ask("slow")["in_flight_job_id"] == job_id
    assert ask("paid")["reasons"] == ["INSUFFICIENT_POINTS"]
    shared = someone.submit("shared", text="x").json["job"]["id"]
    assert ask("shared", text="x") | {"balance": None} == {
        "ok": True, "cost": 0, "balance": None, "in_flight_job_id": shared, "would_join": True, "cached": False,
        "reasons": []}
    assert app.test_client().post("/api/kinds/paid/precheck", json={}).json["reasons"] == ["LOGIN_REQUIRED"]
    assert someone.get("/api/kinds/slow/precheck").json["reasons"] == ["JOB_IN_FLIGHT"]


# ------------------------------------------------------------------------------------- the fence

def _claim(worker="somebody"):
    """As a worker that is not this process."""
    return jobs.claim(worker, ["paid", "free", "slow", "again", "shared", "refusing", "sample"])[0]


def _die_with(job_id):
    """Claim it as a worker whose lock file nobody holds: a dead one."""
    path = db.store.path.parent / "workers" / "dead.lock"
    path.touch()
    job = _claim("dead")
    assert job["id"] == job_id
    return job


def test_a_stale_attempt_cannot_write_anything(app, person):
    someone = person()
    job_id = someone.submit("again").json["job"]["id"]
    stale = _die_with(job_id)
    assert jobs.poll(job_id)["status"] == "pending"
    fresh = _claim()
    assert fresh["attempt"] == 2
    for write in (lambda: jobs.charge(job_id, 1), lambda: jobs.succeed(job_id, 1, "{}"),
                  lambda: jobs.fail(job_id, 1, "X"), lambda: jobs.progress(job_id, 1, "s", 0, {}),
                  lambda: jobs.keep_step(job_id, 1, "s", "{}"), lambda: jobs.refund(job_id, 1, "r"),
                  lambda: jobs.release(job_id, 1, 10), lambda: jobs.time_out(job_id, 1),
                  lambda: jobs.keep_file(job_id, 1, "f", "t", 1)):
        try:
            write()
        except LostFence:
            continue
        raise AssertionError("a stale attempt wrote")
    assert stale["attempt"] == 1 and jobs.get(job_id)["status"] == "running" and someone.balance() == 3


def test_a_charge_is_once_over_all_attempts(app, person):
    someone = person()
    job_id = someone.submit("again").json["job"]["id"]
    path = db.store.path.parent / "workers" / "dead.lock"
    path.touch()
    job = _claim("dead")
    assert jobs.charge(job_id, job["attempt"]) is True
    jobs.poll(job_id)
    job = _claim("dead")
    assert jobs.charge(job_id, job["attempt"]) is False
    assert someone.balance() == 2


def test_recovered_attempts_run_one_at_a_time(app, person):
    people = [person() for _ in range(3)]
    for one in people:
        one.submit("again")
    (db.store.path.parent / "workers" / "dead.lock").touch()
    taken = jobs.claim("dead", ["again"], most=3)
    for job in taken:
        jobs.poll(job["id"])
    assert len(jobs.claim("next", ["again"], most=3)) == 1
    people[0].submit("free")
    assert [job["kind"] for job in jobs.claim("next", ["again", "free"], most=3)] == ["free"]


# ------------------------------------------------------------------------------------- cancelling

def test_cancelled_while_pending_nothing_is_used(app, person):
    someone = person()
    job_id = someone.submit("paid").json["job"]["id"]
    answer = someone.post(f"/api/jobs/{job_id}/cancellation")
    assert answer.status_code == 202
    assert (answer.json["error"]["code"], answer.json["money"]) == ("CANCELLED", "none")
    assert someone.post(f"/api/jobs/{job_id}/cancellation").json["code"] == "ALREADY_FINAL"
    assert someone.balance() == 3


def test_cancelled_before_the_charge_nothing_is_used(service, person):
    someone = person()
    job_id = someone.submit("slow", text="late", seconds=20).json["job"]["id"]
    _until(lambda: someone.job(job_id)["stage"] == "after")
    someone.post(f"/api/jobs/{job_id}/cancellation")
    job = someone.finished(job_id)
    assert (job["error"]["code"], job["money"], someone.balance()) == ("CANCELLED", "none", 3)
    assert job["money_message"] == "No points were used."


def test_cancelled_after_the_charge_it_is_kept_and_said(service, person):
    someone = person()
    job_id = someone.submit("slow", seconds=20).json["job"]["id"]
    _until(lambda: someone.job(job_id)["money"] == "consumed")
    assert someone.post(f"/api/jobs/{job_id}/cancellation").status_code == 202
    job = someone.finished(job_id)
    assert (job["error"]["code"], job["money"], someone.balance()) == ("CANCELLED", "consumed", 2)
    assert "kept" in job["money_message"]


def test_a_job_that_dies_with_a_cancellation_standing_is_cancelled(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    job = _die_with(job_id)
    jobs.charge(job_id, job["attempt"])
    # Requested while it still lived.
    db.store.write(db.execute, f"UPDATE jobs SET cancel_requested_at = {db.NOW} WHERE id = ?", (job_id,))
    job = someone.job(job_id)
    assert (job["status"], job["error"]["code"], job["money"]) == ("failed", "CANCELLED", "consumed")
    assert jobs.get(job_id)["settlement"] == "settled" and someone.balance() == 2


@pytest.mark.parametrize("how", ["api", "page", "command line"])
def test_what_had_died_before_it_was_cancelled_was_interrupted_and_its_points_return(app, person, how):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    jobs.charge(job_id, _die_with(job_id)["attempt"])
    if how == "api":
        assert someone.post(f"/api/jobs/{job_id}/cancellation").json["code"] == "ALREADY_FINAL"
    elif how == "page":
        assert someone.post(f"/jobs/{job_id}/cancel").status_code == 303
    else:
        assert app.test_cli_runner().invoke(args=["jobs", "cancel", job_id]).exit_code == 1
    job = someone.job(job_id)
    assert (job["error"]["code"], job["money"], someone.balance()) == ("INTERRUPTED", "refunded", 3)


def test_what_died_and_goes_on_by_itself_can_be_cancelled(app, person):
    someone = person()
    job_id = someone.submit("again").json["job"]["id"]
    jobs.charge(job_id, _die_with(job_id)["attempt"])
    assert jobs.cancel(job_id, someone.id) == "requested"
    job = someone.job(job_id)
    assert (job["error"]["code"], job["money"], job["attempts_spent"]) == ("CANCELLED", "consumed", 1)


@pytest.mark.parametrize("look", ["submit", "precheck", "points", "page"])
def test_points_that_a_dead_workers_work_holds_lock_nobody_out(app, person, look):
    """Whoever comes finds out: no poll of that job is needed, nor the scheduler."""
    someone = person(points=1)
    held = someone.submit("refusing").json["job"]["id"]
    jobs.charge(held, _die_with(held)["attempt"])
    if look == "submit":
        assert someone.submit("paid").status_code == 202
    elif look == "precheck":
        assert someone.post("/api/kinds/paid/precheck", json={}).json["ok"]
    elif look == "points":
        assert someone.get("/api/points").json["available"] == 1
    else:
        assert "interrupted" in someone.get("/").text
    assert jobs.get(held)["settlement"] == "settled" and someone.balance() == 1


def test_a_precheck_judges_what_is_in_the_way_as_a_submit_does(app, person):
    someone = person()
    _die_with(someone.submit("slow").json["job"]["id"])
    found = someone.post("/api/kinds/slow/precheck", json={}).json
    assert found["ok"] and found["in_flight_job_id"] is None and found["reasons"] == []


def test_after_a_cancellation_nothing_is_charged(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    job = _claim()
    jobs.cancel(job_id, someone.id)
    try:
        jobs.charge(job_id, job["attempt"])
    except LostFence as lost:
        assert lost.facts["cancelled"]
    assert someone.balance() == 3


def test_a_cancel_only_leaves_what_others_wait_for_and_the_last_who_waits_ends_it(app, person):
    owner, joiner = person(), person()
    job_id = owner.submit("shared", text="x").json["job"]["id"]
    joiner.submit("shared", text="x")
    assert owner.post(f"/api/jobs/{job_id}/cancellation").json["status"] == "pending"
    assert jobs.get(job_id)["cancel_requested_at"] is None
    owner.submit("shared", text="x")
    assert joiner.post(f"/api/jobs/{job_id}/cancellation").json["status"] == "pending"
    joiner.submit("shared", text="x")
    for _ in range(2):  # a second press leaves no second time
        assert owner.post(f"/api/jobs/{job_id}/cancellation").json["status"] == "pending"
    assert [event["event"] for event in jobs.events(job_id)].count("left") == 3
    answer = joiner.post(f"/api/jobs/{job_id}/cancellation").json
    assert (answer["error"]["code"], answer["error"]["message"]) == ("CANCELLED", "You cancelled this.")
    assert owner.job(job_id)["error"]["message"] == "You had left this; the last person who waited for it cancelled it."
    assert "You asked to cancel." in joiner.get(f"/jobs/{job_id}").text
    assert "You asked to cancel." not in owner.get(f"/jobs/{job_id}").text


@pytest.mark.parametrize("account_left", [False, True])
def test_what_a_guest_joined_and_their_account_watches_too_is_ended_by_their_cancel(app, person, account_left):
    someone, other, guest = person(), person(), accounts.add_guest("en", "key")
    job_id = other.submit("shared", text="x").json["job"]["id"]
    someone.submit("shared", text="x")
    order = jobs.order(app.kinds["shared"], app.kinds["shared"].params(text="x"), jobs.Asker(guest, True), settings={})
    assert jobs.submit(order, max_pending=10).outcome == "joined"
    if account_left:
        jobs.cancel(job_id, someone.id)
    accounts.take_along(guest, someone.id)
    assert jobs.cancel(job_id, other.id) == "left"
    assert LAST in someone.get(f"/jobs/{job_id}").text
    assert jobs.cancel(job_id, someone.id) == "requested" and jobs.get(job_id)["error_code"] == "CANCELLED"


HERE = "Others wait for the same: it goes on for them, and you only leave."
LAST = "Nobody else waits for it: if you cancel now, it ends."
GONE = "You have left this. It goes on for the others; the result will still be in your history."


@pytest.mark.parametrize("left, presses, sentence", [
    ("", "A", HERE), ("", "B", HERE), ("A", "A", GONE), ("B", "B", GONE), ("A", "B", LAST), ("B", "A", LAST),
    ("A, who asks again", "A", HERE), ("A, who asks again", "B", HERE)])
def test_what_is_said_of_a_cancel_of_shared_work_is_what_then_happens(app, person, left, presses, sentence):
    people = {"A": person(), "B": person()}  # A asks, B joins
    job_id = [one.submit("shared", text="x").json["job"]["id"] for one in people.values()][0]
    if left:
        people[left[0]].post(f"/api/jobs/{job_id}/cancellation")
    if "again" in left:
        people[left[0]].submit("shared", text="x")
    who = people[presses]
    page = who.get(f"/jobs/{job_id}").text
    assert [said for said in (HERE, LAST, GONE) if said in page] == [sentence]
    assert ("data-cancel hidden" in page) == (sentence == GONE)
    assert ("You may close this page" in page) == (sentence != GONE)
    assert ("data-together hidden" in page) == (sentence != HERE)
    waiting = jobs.watchers(job_id)
    who.post(f"/jobs/{job_id}/cancel", data={"money": "none"})
    assert jobs.get(job_id)["status"] == ("failed" if sentence == LAST else "pending")
    assert jobs.watchers(job_id) == waiting - (sentence == HERE)


def test_alone_what_is_shared_ends(app, person):
    someone = person()
    job_id = someone.submit("shared", text="x").json["job"]["id"]
    assert LAST in someone.get(f"/jobs/{job_id}").text
    assert jobs.cancel(job_id, someone.id) == "requested"


# ------------------------------------------------------------------- what was shown when it was cancelled

def _charged_meanwhile(someone):
    """A job whose page was read before its charge, and what the page's form says."""
    job_id = someone.submit("slow").json["job"]["id"]
    attempt = _claim()["attempt"]
    page = someone.get(f"/jobs/{job_id}").text
    assert "Nothing has been used" in page
    shown = re.search('name="money" value="([a-z]*)"', page)[1]
    jobs.charge(job_id, attempt)
    return job_id, shown


def test_a_cancel_that_was_promised_to_cost_nothing_cancels_nothing_that_costs(app, person):
    someone = person()
    job_id, shown = _charged_meanwhile(someone)
    page = someone.post(f"/jobs/{job_id}/cancel", data={"money": shown}, follow_redirects=True).text
    assert "1 point has been used meanwhile: if you cancel now it is not returned. Press again if that is right." in page
    assert jobs.get(job_id)["cancel_requested_at"] is None
    shown = re.search('name="money" value="([a-z]*)"', page)[1]
    someone.post(f"/jobs/{job_id}/cancel", data={"money": shown})
    assert jobs.get(job_id)["cancel_requested_at"] is not None


@pytest.mark.parametrize("sent", [{"json": {"money": "none"}}, {"data": {"money": "none"}}])
def test_a_program_may_say_what_it_was_shown(app, person, sent):
    someone = person()
    job_id, _ = _charged_meanwhile(someone)
    refused = someone.post(f"/api/jobs/{job_id}/cancellation", **sent)
    assert (refused.status_code, refused.json["code"], refused.json["cost"]) == (409, "MONEY_DIFFERS", 1)
    assert jobs.get(job_id)["cancel_requested_at"] is None
    for broken in ("{", "[]"):
        assert someone.post(f"/api/jobs/{job_id}/cancellation", data=broken, content_type="application/json").status_code == 400
    assert jobs.get(job_id)["cancel_requested_at"] is None
    assert someone.post(f"/api/jobs/{job_id}/cancellation", json={"money": "consumed"}).status_code == 202


def test_where_the_ledger_cannot_be_read_no_cancel_promises_anything(app, person):
    someone = person()
    job_id, shown = _charged_meanwhile(someone)
    db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    page = someone.post(f"/jobs/{job_id}/cancel", data={"money": shown}, follow_redirects=True).text
    db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))
    assert page.count("It cannot be seen now whether points have been used") == 2 and "Nothing has been used" not in page
    assert jobs.get(job_id)["cancel_requested_at"] is None


# ---------------------------------------------------------------------------- the operator stops it

@pytest.mark.parametrize("ending", ["its worker hears of it", "its worker dies", "time", "a drain", "its own refusal"])
@pytest.mark.parametrize("kind", ["slow", "again"])
def test_what_the_operator_stops_after_the_charge_is_returned_and_said(app, person, ending, kind):
    someone = person()
    job_id = someone.submit(kind).json["job"]["id"]
    attempt = _claim()["attempt"]
    jobs.charge(job_id, attempt)
    assert jobs.stop(job_id, "the operator") == "requested" == jobs.stop(job_id, "another")
    page = someone.get(f"/jobs/{job_id}").text
    assert "data-cancel hidden" in page and "points that it has used are returned" in page
    assert f">{ENDS}, and the 1 point it has used would be returned.</p>" in page
    {"its worker hears of it": lambda: jobs.fail(job_id, attempt, "CANCELLED"),
     "its worker dies": lambda: _die(job_id), "time": lambda: jobs.time_out(job_id, attempt),
     "a drain": lambda: jobs.release(job_id, attempt, 10),
     "its own refusal": lambda: jobs.fail(job_id, attempt, "NO", {"message": "You did this."})}[ending]()
    returned = "The 1 point it had used has been returned (balance 3)."
    assert f"The operator stopped this. {returned}" in someone.get("/").text  # until it was seen
    job = someone.job(job_id)
    assert (job["error"]["code"], job["error"]["message"]) == ("STOPPED", "The operator stopped this.")
    assert (job["money"], job["money_message"], someone.balance()) == ("refunded", returned, 3)
    assert "The operator stopped this." in someone.get("/points").text
    history = someone.get("/history").text
    assert ">Stopped<" in history and "The operator stopped this." in history and returned in history
    page = someone.get(f"/jobs/{job_id}").text
    assert "The operator asked it to stop." in page and "You asked to cancel" not in page and "You cancelled" not in page
    assert "the operator" not in page and "The operator stopped this." not in someone.get("/").text
    assert jobs.get(job_id)["stopped_by"] == "the operator" and ledger.audit() == []


def test_what_the_operator_stops_before_the_charge_used_nothing(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    assert jobs.stop(job_id, "me") == "requested"
    job = someone.job(job_id)
    assert (job["error"]["code"], job["money_message"], someone.balance()) == ("STOPPED", "No points were used.", 3)
    with pytest.raises(AlreadyFinal):
        jobs.stop(job_id, "me")
    with pytest.raises(NotFound):
        jobs.stop("nothing", "me")


def test_who_cancels_what_the_operator_is_stopping_keeps_the_right_to_their_points(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    attempt = _claim()["attempt"]
    jobs.charge(job_id, attempt)
    jobs.stop(job_id, "me")
    jobs.cancel(job_id, someone.id, "none")
    jobs.fail(job_id, attempt, "CANCELLED")
    assert (someone.job(job_id)["error"]["code"], someone.balance()) == ("STOPPED", 3)


def test_the_audit_finds_points_kept_of_what_the_operator_stopped(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    attempt = _claim()["attempt"]
    jobs.charge(job_id, attempt)
    jobs.cancel(job_id, someone.id)
    jobs.fail(job_id, attempt, "CANCELLED")
    jobs.settle(job_id)
    assert ledger.audit() == []
    db.store.write(db.execute, "UPDATE jobs SET stopped_by = 'me' WHERE id = ?", (job_id,))
    assert len(ledger.audit()) == 1
    db.store.write(db.execute, "UPDATE jobs SET stopped_by = NULL WHERE id = ?", (job_id,))


# ------------------------------------------------------------------------ if the server stopped now

ENDS = "If the server stopped now: it would end"
GOES_ON = "If the server stopped now: it would go on by itself afterwards"
IF_STOPPED = {  # what has happened to it, and what its page says then
    "waits": ("slow", "", f"{GOES_ON}. No points have been used yet."),
    "before the charge": ("slow", "claim", f"{ENDS}, and no points would be used."),
    "after the charge": ("slow", "claim charge", f"{ENDS}, and the 1 point it has used would be returned."),
    "returned by the kind": ("slow", "claim charge refund", f"{ENDS}. Its points have been returned already."),
    "cancelled before the charge": ("slow", "claim cancel", f"{ENDS}, and no points would be used."),
    "cancelled after the charge": ("slow", "claim charge cancel",
                                   f"{ENDS}. You cancelled after 1 point had been used: it is kept."),
    "returned, then cancelled": ("slow", "claim charge refund cancel", f"{ENDS}. Its points have been returned already."),
    "repeatable, before the charge": ("again", "claim", f"{GOES_ON}. No points have been used yet."),
    "repeatable, after the charge": ("again", "claim charge", f"{GOES_ON}, and the 1 point would not be used twice."),
    "repeatable, returned": ("again", "claim charge refund", f"{GOES_ON}. Its points have been returned already."),
    "repeatable, waits again": ("again", "claim charge die", f"{GOES_ON}, and the 1 point would not be used twice."),
    "repeatable, cancelled": ("again", "claim charge cancel",
                              f"{ENDS}. You cancelled after 1 point had been used: it is kept."),
    "its last attempt": ("again", "claim charge die claim die claim",
                         f"{ENDS}, and the 1 point it has used would be returned."),
    "its last attempt, not charged": ("again", "claim die claim die claim", f"{ENDS}, and no points would be used."),
}


def _die(job_id):
    """The worker of this job dies: nobody holds its lock file."""
    (db.store.path.parent / "workers" / "somebody.lock").touch()
    jobs.poll(job_id)
    (db.store.path.parent / "workers" / "somebody.lock").unlink()


@pytest.mark.parametrize("state", IF_STOPPED)
def test_what_is_said_of_a_stop_is_what_then_happens(app, person, state):
    kind, happened, sentence = IF_STOPPED[state]
    someone = person(points=3)
    job_id = someone.submit(kind).json["job"]["id"]
    for step in happened.split():
        attempt = jobs.get(job_id)["attempt"]
        {"claim": _claim, "charge": lambda: jobs.charge(job_id, attempt), "die": lambda: _die(job_id),
         "refund": lambda: jobs.refund(job_id, attempt, "brought nothing"),
         "cancel": lambda: jobs.cancel(job_id, someone.id)}[step]()
    page = someone.get(f"/jobs/{job_id}").text
    assert f">{sentence}</p>" in page and page.count("If the server stopped now") == 1
    before = someone.balance()
    _die(job_id)
    told, came_back = someone.job(job_id), someone.balance() - before
    if sentence.startswith(GOES_ON):
        assert told["status"] == "pending" and came_back == 0
        _claim()
        assert jobs.charge(job_id, jobs.get(job_id)["attempt"]) is ("No points have been used yet" in sentence)
    else:
        assert told["status"] == "failed" and came_back == ("would be returned" in sentence)
        assert told["money"] == ("refunded" if "returned" in sentence else "consumed" if "kept" in sentence else "none")


def test_of_what_is_free_or_shared_or_over_no_stop_is_spoken(service, person):
    someone = person()
    free = someone.submit("shared", seconds=30).json["job"]["id"]
    over = someone.finished(someone.submit("paid").json["job"]["id"])["id"]
    assert "If the server stopped" not in someone.get(f"/jobs/{free}").text + someone.get(f"/jobs/{over}").text


def test_a_ledger_that_cannot_be_read_leaves_the_page_and_says_nothing_of_a_stop(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    _claim()
    db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    answer = someone.get(f"/jobs/{job_id}")
    db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))
    assert answer.status_code == 200 and "If the server stopped" not in answer.text


# ------------------------------------------------------------------------------------- who else waits

def test_everybody_reads_how_many_others_wait_for_the_same(app, person):
    people = [person(points=0) for _ in range(3)]
    job_id, *_ = [one.submit("shared", text="x").json["job"]["id"] for one in people]
    people[1].submit("shared", key="once more", text="x")  # one person, whatever they send
    assert [one.job(job_id)["others"] for one in people] == [2, 2, 2]
    assert "Shared with 2 others" in people[0].get(f"/jobs/{job_id}").text
    people[2].post(f"/api/jobs/{job_id}/cancellation")
    assert [one.job(job_id)["others"] for one in people] == [1, 1, 2]
    assert "Shared with 1 other:" in people[0].get(f"/jobs/{job_id}").text


def test_nobody_else_waits_for_what_is_not_shared_or_over(service, person):
    one, two = person(), person()
    for who in (one, two):
        job_id = who.submit("shared", text="x").json["job"]["id"]
    assert [one.finished(job_id)["others"], two.job(job_id)["others"]] == [0, 0]
    assert one.job(one.submit("slow", seconds=30).json["job"]["id"])["others"] == 0


def test_who_waits_reads_how_many_are_before_it(app, person):
    first, second, third = (person().submit("paid").json["job"] for _ in range(3))
    assert [job["message"] for job in (first, second, third)] == [
        "Waiting for a free place.", "Waiting for a free place: 1 before it.", "Waiting for a free place: 2 before it."]


# ------------------------------------------------------------------------------------- endings

def test_a_refusal_returns_the_point_and_says_why_in_both_languages(service, person):
    someone = person()
    job_id = someone.submit("refusing").json["job"]["id"]
    job = someone.finished(job_id)
    assert job["error"] == {"code": "NOT_TODAY", "message": "Not today.", "why": "tired"}
    assert (job["money"], someone.balance()) == ("refunded", 3)
    assert "returned (balance 3)" in job["money_message"]
    japanese = someone.get(f"/api/jobs/{job_id}", headers={"Accept-Language": "ja"}).json
    assert japanese["error"]["message"] == "今日はできません。"


def test_a_bug_returns_the_point_tells_the_operator_and_shows_no_secret(service, person):
    someone = person()
    job = someone.finished(someone.submit("broken").json["job"]["id"])
    assert (job["error"]["code"], job["money"], someone.balance()) == ("INTERNAL_ERROR", "refunded", 3)
    assert "secret" not in str(job)
    incident = db.one("SELECT * FROM incidents")
    assert incident["severity"] == "warning" and "ZeroDivisionError" in incident["detail"]


def test_an_attempt_that_swallows_everything_is_timed_out(service, person):
    someone = person()
    job = someone.finished(someone.submit("stubborn").json["job"]["id"])
    assert (job["error"]["code"], job["money"], someone.balance()) == ("TIMED_OUT", "refunded", 3)


def test_a_failed_job_is_tried_again_as_a_new_one(service, person):
    someone = person()
    old = someone.finished(someone.submit("refusing").json["job"]["id"])
    answer = someone.post(f"/api/jobs/{old['id']}/retry")
    assert answer.status_code == 202 and answer.json["job"]["retry_of"] == old["id"]
    assert someone.finished(answer.json["job"]["id"])["error"]["code"] == "NOT_TODAY"
    fine = someone.finished(someone.submit("paid").json["job"]["id"])
    assert someone.post(f"/api/jobs/{fine['id']}/retry").json["code"] == "NOT_RETRYABLE"


def test_what_cannot_be_confirmed_is_unknown_and_corrected_when_the_ledger_answers(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    job = _die_with(job_id)
    jobs.charge(job_id, job["attempt"])
    db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    told = someone.job(job_id)
    assert told["money"] == "unknown" and told["number"] in told["money_message"]
    assert db.value("SELECT count(*) FROM v_incidents_open WHERE code = 'REAP_CONSUME_LOOKUP_FAILED'") == 1
    someone.job(job_id)
    assert db.value("SELECT count(*) FROM incidents") == 1  # told once, however often it is tried
    db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))
    told = someone.job(job_id)
    assert told["money"] == "refunded" and "returned (balance 3)" in told["money_message"]
    assert db.value("SELECT count(*) FROM v_incidents_open") == 0 and ledger.balance(someone.id) == 3


def test_an_operator_may_keep_the_charge_and_that_is_said(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    job = _die_with(job_id)
    jobs.charge(job_id, job["attempt"])
    jobs.reap(job_id)
    assert jobs.get(job_id)["settlement"] == "due"
    assert jobs.settle_by_hand(job_id, keep=True, by="operator", note="the work was delivered") == "settled"
    told = someone.job(job_id)
    assert told["money"] == "consumed" and "kept" in told["money_message"] and someone.balance() == 2


def test_the_neutral_sentence_never_stands_after_a_crash_between_reap_and_settle(app, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    _die_with(job_id)
    jobs.reap(job_id)  # and nothing more: the process died here
    assert someone.job(job_id)["money_message"] == "The work was interrupted. No points were used."


def test_a_running_row_of_this_worker_without_an_attempt_here_is_orphaned(service, person):
    someone = person()
    job_id = someone.submit("slow", seconds=30).json["job"]["id"]
    _until(lambda: someone.job(job_id)["money"] == "consumed")
    workers.current.attempts.clear()
    assert someone.job(job_id)["error"]["code"] == "INTERRUPTED"
    assert someone.balance() == 3


def _until(condition, seconds=10):
    with gevent.Timeout(seconds):
        while not condition():
            gevent.sleep(0.01)


def test_what_was_written_into_a_row_by_hand_breaks_no_page(app, person):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    _claim()
    db.store.write(db.execute, "UPDATE jobs SET progress_note = '[1, 2]', error_facts = '7' WHERE id = ?", (job_id,))
    assert someone.job(job_id)["status"] == "running" and someone.get(f"/jobs/{job_id}").status_code == 200
    jobs.cancel(job_id, someone.id)
    db.store.write(db.execute, "UPDATE jobs SET status = 'failed', error_code = 'CANCELLED', settlement = 'due', "
                   f"finished_at = {db.NOW}, worker_id = NULL, deadline_at = NULL WHERE id = ?", (job_id,))
    assert someone.job(job_id)["error"]["code"] == "CANCELLED" and someone.get("/api/jobs").status_code == 200
