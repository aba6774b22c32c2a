"""The operator's pages: who may, and what each button changes in the file."""
import json
import re
import sqlite3
from urllib.parse import urlencode

import gevent
import pytest

from tests.kinds import Nothing
from webapp import accounts, create_app, db, incidents, jobs, ledger, messages, overview, workers
from webapp.errors import SettingsError
from webapp.kinds import Kind


def token_of(page):
    return re.search(r'name="csrf_token" value="([^"]*)"', page).group(1)


class Browser:
    """Somebody signed in, in a browser."""

    def __init__(self, app, email, is_admin=False):
        self.client, self.email = app.test_client(), email
        self.id = accounts.add_user(email, accounts.hash_password("right"), is_admin=is_admin)
        page = self.client.get("/login").text
        done = self.client.post("/login", data={"email": email, "password": "right", "csrf_token": token_of(page)})
        assert done.status_code == 303

    def get(self, path):
        return self.client.get(path)

    def press(self, path, page="/admin", **fields):
        """Send a form of ``page``, and return the page that it leads to."""
        answer = self.client.post(path, data={"csrf_token": token_of(self.get(page).text), **fields})
        return self.get(answer.headers["Location"]) if answer.status_code == 303 else answer


@pytest.fixture
def app(settings):
    return create_app(settings(SUPPORT_CONTACT="help@example.org", KINDS="sample,comments"))


@pytest.fixture
def operator(app):
    return Browser(app, "op@example.org", is_admin=True)


def rules(app):
    """``(method, path)`` of every address of these pages, as the application knows them."""
    found = []
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("admin."):
            path = re.sub(r"<int:\w+>", "1", re.sub(r"<\w+>", "paid", rule.rule))
            found += [(method, path) for method in sorted(rule.methods - {"HEAD", "OPTIONS"})]
    return found


def everything_stored():
    return {name: [tuple(row) for row in db.rows(f"SELECT * FROM {name}")] for name in (
        "users", "jobs", "ledger_entries", "incidents", "kind_pauses")}


# ------------------------------------------------------------------------------------------- who may

def test_only_operators_come_in(app, operator):
    account, guest, newcomer = Browser(app, "p@example.org"), app.test_client(), app.test_client()
    guest.post("/api/kinds/free/jobs", json={})
    before, addresses = everything_stored(), rules(app)
    assert len(addresses) > 15 and {method for method, _path in addresses} == {"GET", "POST"}
    for method, path in addresses:
        for somebody in (guest, newcomer):
            token = token_of(somebody.get("/login").text)
            answer = somebody.open(path, method=method, data={"csrf_token": token} if method == "POST" else None)
            assert answer.status_code == (401 if method == "POST" else 303), path
            assert method == "POST" or answer.headers["Location"].startswith("/login?next=/admin"), path
        token = token_of(account.get("/account").text)
        answer = account.client.open(path, method=method, data={"csrf_token": token} if method == "POST" else None)
        assert answer.status_code == 403 and "your account is not an admin" in answer.text, path
        if method == "POST":
            forged = operator.client.post(path, data={"code": "C", "points": 1, "note": "x", "make": "1"})
            assert forged.status_code == 403 and "Nothing was started" in forged.text, path
    assert everything_stored() == before


def test_a_bearer_may_too_and_the_link_is_for_operators_only(app, person, operator):
    someone = person()
    assert someone.get("/admin").status_code == 403
    assert 'href="/admin"' not in someone.get("/").text and 'href="/admin"' in operator.get("/").text
    accounts.set_admin(someone.id, True)
    assert someone.get("/admin").status_code == 200
    assert someone.get("/admin").headers["Cache-Control"] == "no-store"


def test_every_page_of_it_renders_in_both_languages(app, operator, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    for lang in ("en", "ja"):
        operator.client.set_cookie("lang", lang)
        accounts.set_lang(operator.id, lang)
        for path in ("/admin", "/admin/incidents", "/admin/incidents?all=1", "/admin/users", f"/admin/user/{someone.id}",
                     "/admin/kinds", "/admin/system", f"/admin/jobs/{job_id}"):
            page = operator.get(path)
            assert page.status_code == 200 and f'<html lang="{lang}">' in page.text, path
            words = re.sub(r"<[^>]*>", " ", page.text)
            assert not re.search(r"\bjobs?\b(?!_)|ジョブ", words.replace("flask jobs", ""), re.IGNORECASE), path
    for path in ("/admin/jobs/none", "/admin/user/999"):
        assert operator.get(path).status_code == 404


# ------------------------------------------------------------------------------------------- work

def test_nothing_needs_the_operator_until_something_does(app, operator, person):
    assert "Nothing needs you." in operator.get("/admin").text
    incidents.record("critical", "s", "C", "it burns")
    page = operator.get("/admin").text
    assert "1 critical incident is open." in page and "it burns" in page and "Nothing needs you." not in page


def test_what_is_in_flight_is_told_and_stopped_and_its_points_return(service, app, operator, person):
    someone = person()
    job_id = someone.submit("slow", seconds=60).json["job"]["id"]
    with gevent.Timeout(10):
        while someone.job(job_id)["money"] != "consumed":
            gevent.sleep(0.01)
    page = operator.get("/admin").text
    assert someone.job(job_id)["number"] in page and "person1@example.org" in page and "1 point used" in page
    assert "if you stop it now they are returned" in operator.get(f"/admin/jobs/{job_id}").text
    assert "is asked to stop" in operator.press(f"/admin/jobs/{job_id}/cancel").text
    job = someone.finished(job_id)
    assert job["error"]["code"] == "STOPPED" and job["money"] == "refunded" and someone.balance() == 3
    assert "already finished" in operator.press(f"/admin/jobs/{job_id}/cancel").text


def test_before_the_charge_a_stop_costs_nothing_and_it_ends_for_everybody(app, operator, person):
    someone, other = person(), person()
    job_id = someone.submit("slow").json["job"]["id"]
    assert "no points are used" in operator.get(f"/admin/jobs/{job_id}").text
    assert "is stopped. No points were used." in operator.press(f"/admin/jobs/{job_id}/cancel").text
    shared = someone.submit("shared").json["job"]["id"]
    assert other.submit("shared").json["joined"]
    assert "2 people wait for it: it ends for all of them" in operator.get(f"/admin/jobs/{shared}").text
    assert "is stopped" in operator.press(f"/admin/jobs/{shared}/cancel").text
    assert [who.job(shared)["error"]["code"] for who in (someone, other)] == ["STOPPED", "STOPPED"]


def test_a_cancel_of_who_asked_stands_and_is_told_as_theirs(app, operator, person):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    jobs.charge(job_id, jobs.claim("nobody", ["slow"])[0]["attempt"])
    jobs.cancel(job_id, someone.id)
    assert "has cancelled it: it ends when" in operator.get(f"/admin/jobs/{job_id}").text
    assert "has cancelled" in operator.press(f"/admin/jobs/{job_id}/cancel").text
    jobs.fail(job_id, 1, "CANCELLED")
    assert (someone.job(job_id)["error"]["code"], someone.job(job_id)["money"]) == ("CANCELLED", "consumed")
    page = operator.get(f"/admin/jobs/{job_id}").text
    assert "The person who asked cancelled it." in page and "You cancelled" not in page


def test_what_a_guest_took_along_can_be_cancelled(app, operator):
    guest = accounts.add_guest("en", "key")
    kind = app.kinds["free"]
    order = jobs.order(kind, kind.params(), jobs.Asker(guest, True), settings={})
    job_id = jobs.submit(order, max_pending=10).job_id
    accounts.take_along(guest, operator.id)
    assert "is stopped" in operator.press(f"/admin/jobs/{job_id}/cancel").text
    assert jobs.get(job_id)["status"] == "failed"


@pytest.fixture
def unreadable():
    """Rename the ledger away, and back."""
    def rename(one, other):
        connection = sqlite3.connect(db.store.path, timeout=10)
        connection.execute(f"ALTER TABLE {one} RENAME TO {other}")
        connection.close()
    yield rename
    if db.value("SELECT 1 FROM sqlite_master WHERE name = 'hidden'"):
        rename("hidden", "ledger_entries")


def charged_and_dead(someone):
    job_id = someone.submit("slow").json["job"]["id"]
    workers._register("w", "server")
    assert jobs.claim("w", ["slow"])
    jobs.charge(job_id, 1)
    jobs.fail(job_id, 1, "INTERRUPTED")
    return job_id


@pytest.mark.parametrize("decision", ["keep", "return"])
def test_unknown_points_are_settled_by_hand(app, operator, person, unreadable, decision):
    someone = person()
    job_id = charged_and_dead(someone)
    unreadable("ledger_entries", "hidden")
    jobs.poll(job_id)
    page = operator.get("/admin").text
    assert "The points of 1 piece of work are unknown." in page and jobs.get(job_id)["number"] in page
    refused = operator.press(f"/admin/jobs/{job_id}/settle", decision=decision, note=" ")
    assert "please write something" in refused.text and jobs.get(job_id)["kept_by"] is None
    done = operator.press(f"/admin/jobs/{job_id}/settle", decision=decision, note="seen the log")
    if decision == "keep":
        assert "recorded" in done.text
        assert jobs.get(job_id)["kept_by"] == "op@example.org"
    else:
        assert "is still unknown" in done.text
    unreadable("hidden", "ledger_entries")
    if decision == "return":
        assert "is settled. 1 point used and returned." in operator.press(
            f"/admin/jobs/{job_id}/settle", page="/admin/users", decision=decision, note="seen the log").text
        assert ledger.refunded(job_id)["note"] == "seen the log"
    else:
        jobs.poll(job_id)
    assert jobs.get(job_id)["settlement"] == "settled" and someone.balance() == (2 if decision == "keep" else 3)
    assert "was decided before" in operator.press(f"/admin/jobs/{job_id}/settle", decision="keep", note="x").text
    assert "Nothing needs you." in operator.get("/admin").text


def test_incidents_are_acknowledged_one_or_all_of_a_code(app, operator):
    for code, detail in (("A", "one"), ("B", "two"), ("B", "three"), ("C", "four")):
        incidents.record("warning", "s", code, detail)
    assert "Incident 1 is acknowledged." in operator.press("/admin/incidents/1/acknowledge").text
    assert "acknowledged before" in operator.press("/admin/incidents/1/acknowledge").text
    for back, leads_to in (("/admin", "/admin"), ("//evil.example", "/")):  # where the button was, and nowhere else
        answer = operator.client.post(f"/admin/incidents/1/acknowledge?back={back}", data={
            "csrf_token": token_of(operator.get("/admin").text)})
        assert answer.headers["Location"] == leads_to
    assert "2 incidents B are acknowledged." in operator.press("/admin/incidents/acknowledge", code="B").text
    assert [row["code"] for row in incidents.listing()] == ["C"]
    page = operator.get("/admin/incidents").text
    assert "four" in page and "three" not in page
    assert "three" in operator.get("/admin/incidents?all=1").text


def test_the_history_of_incidents_is_paged(app, operator):
    for n in range(60):
        incidents.record("info", "s", f"C{n}", "d")
    page = operator.get("/admin/incidents").text
    older = re.search(r'href="([^"]*before=[^"]*)"', page).group(1).replace("&amp;", "&")
    assert "<code>C59</code>" in page and "<code>C9</code>" not in page and "<code>C9</code>" in operator.get(older).text


# ------------------------------------------------------------------------------------------- people

def test_points_are_granted_once_for_each_look_at_the_statement(app, operator, person):
    someone = person(points=2)
    page, path = f"/admin/user/{someone.id}", f"/admin/user/{someone.id}/grant"
    seen = re.search(r'name="after" value="(\d+)"', operator.get(page).text).group(1)
    assert "5 points added for person1@example.org (balance 7)." in operator.press(
        path, page, points="5", note="for the delay", after=seen).text
    again = operator.press(path, page, points="5", note="for the delay", after=seen)
    assert "nothing was added" in again.text and someone.balance() == 7
    for fields in ({"points": "0"}, {"points": "-1"}, {"points": "x"}, {"points": "1" * 12}, {"note": ""}, {"after": ""}):
        operator.press(path, page, **{"points": "5", "note": "x", "after": str(ledger.last_entry(someone.id)), **fields})
    assert someone.balance() == 7 and ledger.statement(someone.id)[0]["note"] == "for the delay"
    assert "for the delay" in operator.get(page).text


def test_a_link_for_a_new_password_is_shown_once_and_works(app, operator, person):
    someone = person()
    answer = operator.press(f"/admin/user/{someone.id}/reset")
    link = re.search(r"http://localhost/reset\?token=([\w-]+)", answer.text).group(1)
    assert accounts.by_reset(link)["id"] == someone.id and answer.headers["Cache-Control"] == "no-store"
    assert link not in operator.get(f"/admin/user/{someone.id}").text
    assert app.test_client().get(f"/reset?token={link}").status_code == 200


def test_sessions_and_tokens_are_ended(app, operator, person):
    someone, other = person(), Browser(app, "p@example.org")
    assert operator.press(f"/admin/user/{someone.id}/token").status_code == 200
    assert someone.get("/api/points").status_code == 401
    assert "is signed out in every browser" in operator.press(f"/admin/user/{other.id}/sign-out").text
    assert other.get("/points").status_code == 303


def test_somebody_is_always_the_operator(app, operator, person):
    someone = person()
    path = f"/admin/user/{operator.id}/operator"
    right = {"current_password": "right"}
    assert "This is the only operator" in operator.press(path, make="0", **right).text
    for wrong in ({}, {"current_password": "wrong"}):
        told = operator.press(f"/admin/user/{someone.id}/operator", make="1", **wrong)
        assert "This is not your password." in told.text and not accounts.by_id(someone.id)["is_admin"]
    assert "is an operator now." in operator.press(f"/admin/user/{someone.id}/operator", make="1", **right).text
    operator.press(path, make="0", **right)
    assert [accounts.by_id(user)["is_admin"] for user in (operator.id, someone.id)] == [0, 1]
    assert operator.get("/admin").status_code == 403


def test_people_are_found_by_their_address_newest_first(app, operator):
    for n in range(60):
        accounts.add_user(f"somebody{n}@example.org", None)
    accounts.add_guest("en", "key")
    page = operator.get("/admin/users").text
    older = re.search(r'href="([^"]*before=[^"]*)"', page).group(1).replace("&amp;", "&")
    assert page.index("somebody59@") < page.index("somebody58@") and "somebody3@" not in page
    assert "somebody3@" in operator.get(older).text and "guest" not in page
    found = operator.get("/admin/users?q=BODY7@").text
    assert "somebody7@" in found and "somebody17@" not in found.replace("somebody7@", "")
    assert "Nobody like that" in operator.get("/admin/users?q=%25").text


def test_a_deleted_account_is_shown_as_such_and_takes_no_action(app, operator, person):
    someone = person(points=2)
    accounts.delete(someone.id)
    assert f"deleted account {someone.id}" in operator.get("/admin/users").text
    page = operator.get(f"/admin/user/{someone.id}").text
    assert "has deleted the account" in page and "/grant" not in page
    for action in ("grant", "reset", "token", "sign-out", "operator"):
        answer = operator.press(f"/admin/user/{someone.id}/{action}", points="1", note="x", after="1", make="1")
        assert answer.status_code == 404 or "does not exist" in answer.text, action
    assert ledger.balance(someone.id) == 2 and accounts.by_id(someone.id)["is_admin"] == 0


@pytest.mark.parametrize("typed", [
    "{number}", "  {lower} ", "{bare}", "{spaced}", "{wide}", "{id}", "{upper_id}", "{misread}"])
def test_a_piece_of_work_is_found_by_what_its_owner_reads_out(app, operator, person, typed):
    job = person().submit("slow").json["job"]
    number = job["number"]
    answer = operator.get("/admin/search?" + urlencode({"q": typed.format(
        number=number, lower=number.lower(), bare=number.replace("-", ""), spaced=" ".join(number).replace("-", "–"),
        wide="".join(chr(ord(char) + 0xFEE0) for char in number), id=job["id"], upper_id=job["id"].upper(),
        misread=job["id"].replace("0", "o").replace("1", "l"))}))
    assert answer.headers["Location"] == f"/admin/jobs/{job['id']}"


def test_the_time_of_asking_is_not_called_what_was_asked_for(app, operator, person):
    job_id = person().submit("slow").json["job"]["id"]
    accounts.set_lang(operator.id, "ja")
    page = operator.get(f"/admin/jobs/{job_id}").text
    assert re.search(r"<dt>受付</dt><dd><time", page) and "内容" not in page


def test_what_is_no_work_is_looked_for_among_people(app, operator, person):
    someone = person()
    found = operator.client.get("/admin/search?q=PERSON1@", follow_redirects=True).text
    assert f'href="/admin/user/{someone.id}"' in found and 'value="PERSON1@"' in found
    assert "Neither a piece of work" in operator.client.get("/admin/search?q=83AH-3YEY", follow_redirects=True).text
    for path in ("/admin", "/admin/incidents", "/admin/jobs", "/admin/kinds", "/admin/system", f"/admin/user/{someone.id}"):
        assert operator.get(path).text.count('action="/admin/search"') == 1, path


def test_the_latest_work_is_listed_everybodys_and_each_persons(app, operator, person):
    someone, guest = person(), app.test_client()
    first = someone.submit("free", text="0").json["job"]
    theirs = guest.post("/api/kinds/free/jobs", json={"text": "a guest's"}).json["job"]
    made = [someone.submit("free", text=str(n)).json["job"] for n in range(1, 50)]
    page = operator.get("/admin/jobs").text
    assert page.index(made[-1]["number"]) < page.index(made[-2]["number"]) < page.index(theirs["number"])
    assert first["number"] not in page and "person1@example.org" in page
    older = re.search(r'href="([^"]*before=[^"]*)"', page).group(1)
    assert first["number"] in operator.get(older).text and theirs["number"] not in operator.get(older).text
    page = operator.get(f"/admin/user/{someone.id}").text
    assert made[-20]["number"] in page and made[-21]["number"] not in page and theirs["number"] not in page
    their_page = re.search(r'href="(/admin/user/\d+)"', operator.get(f"/admin/jobs/{theirs['id']}").text).group(1)
    page = operator.get(their_page).text
    assert theirs["number"] in page and made[-1]["number"] not in page and "/grant" not in page


def test_what_an_operator_does_is_noted_with_the_deed_and_needs_nobody(app, operator, person):
    someone = person()
    path, job_id = f"/admin/user/{someone.id}", someone.submit("slow").json["job"]["id"]
    operator.press(f"{path}/grant", points="5", note="for the delay", after=str(ledger.last_entry(someone.id)))
    operator.press(f"{path}/grant", points="5", note="twice", after="1")  # refused: not done, not noted
    operator.press(f"{path}/reset")
    operator.press(f"{path}/token")
    operator.press(f"{path}/sign-out")
    operator.press(f"{path}/operator", make="1", current_password="right")
    operator.press("/admin/kinds/slow/pause", note="Back at noon")
    operator.press("/admin/kinds/slow/resume")
    operator.press("/admin/kinds/slow/resume")  # nothing to do
    operator.press(f"/admin/jobs/{job_id}/cancel")
    noted = [(row["code"], row["user_id"]) for row in incidents.listing(everything=True)][::-1]
    assert noted == [*((f"OPERATOR_{code}", someone.id) for code in ("GRANT", "RESET_LINK", "TOKEN", "SIGN_OUT", "ROLE")),
                     ("OPERATOR_PAUSE", None), ("OPERATOR_PAUSE", None), ("OPERATOR_STOP", None)]
    page = operator.get("/admin/incidents?all=1").text
    assert f"op@example.org (user {operator.id}): 5 points: for the delay" in page and f'href="{path}"' in page
    assert incidents.listing() == [] and incidents.untold() == [] and "Nothing needs you." in operator.get("/admin").text


def test_the_password_for_making_operators_cannot_be_guessed_for_long(settings, person):
    app = create_app(settings(RATE_SIGN_IN="3/hour"))
    operator = Browser(app, "op@example.org", is_admin=True)
    someone = accounts.add_user("p@example.org", None)
    for said in ("not your password", "not your password", "Too many requests"):
        assert said in operator.press(f"/admin/user/{someone}/operator", make="1", current_password="guess").text
    assert "Too many requests" in operator.press(f"/admin/user/{someone}/operator", make="1", current_password="right").text
    assert not accounts.by_id(someone)["is_admin"]


@pytest.mark.parametrize("number", ["9" * 23, "9223372036854775808", "１２", "-1", "0"])
def test_a_number_that_no_row_can_have_is_not_found(app, operator, number):
    for path in (f"/admin/user/{number}", f"/admin/user/{number}/grant", f"/admin/incidents/{number}/acknowledge"):
        answer = operator.get(path) if path.endswith(number) else operator.press(path, points="1", note="x", after="1")
        assert answer.status_code == 404 or "does not exist" in answer.text or "acknowledged before" in answer.text, path
    for path in ("/admin/users?before=", "/admin/incidents?before=", f"/admin/user/{operator.id}?before=", "/points?cursor="):
        assert operator.get(path + number).status_code == 200, path


# ------------------------------------------------------------------------------------------- kinds

def test_a_paused_kind_takes_nothing_new_and_says_why(app, operator, person):
    someone, other = person(), person()
    before = someone.submit("shared").json["job"]["id"]
    first = someone.submit("slow", key="k").json["job"]["id"]
    for kind in ("shared", "slow"):
        assert "is paused" in operator.press(f"/admin/kinds/{kind}/pause", note="Back at noon").text
    refused = other.submit("slow")
    assert (refused.status_code, refused.json["code"], refused.json["note"]) == (503, "KIND_PAUSED", "Back at noon")
    assert refused.headers["Retry-After"] == "300" and "Back at noon. Nothing was started" in refused.json["title"]
    # What needs nothing new is served: the same key, what is in flight, who joins it.
    assert someone.submit("slow", key="k").json["job"]["id"] == first
    assert someone.submit("slow").json["code"] == "JOB_IN_FLIGHT"
    assert other.submit("shared").json == {**other.submit("shared").json, "joined": True}
    assert other.submit("shared", text="other").json["code"] == "KIND_PAUSED"
    assert len(jobs.listing()) == 2 and jobs.get(before)["status"] == "pending"
    page = app.test_client().get("/kinds/slow").text
    assert page.index("Back at noon") < page.index("<form class=\"form\"")
    told = {kind["name"]: kind["paused"] for kind in other.get("/api/kinds").json["kinds"]}
    assert told["slow"]["note"] == "Back at noon" and told["free"] is None
    assert "takes new requests again" in operator.press("/admin/kinds/slow/resume").text
    assert other.submit("slow").status_code == 202


def test_a_fresh_result_is_served_while_paused(service, operator, person):
    someone, other = person(), person()
    someone.finished(someone.submit("shared").json["job"]["id"])
    jobs.pause_kind("shared", "op@example.org")
    assert other.submit("shared").json["cached"] is True


def test_the_ladder_asks_for_points_first_and_precheck_tells_the_same(app, person):
    poor, rich = person(points=0), person()
    jobs.pause_kind("slow", "op@example.org")
    for someone, code in ((poor, "INSUFFICIENT_POINTS"), (rich, "KIND_PAUSED")):
        assert someone.submit("slow").json["code"] == code
        for method in (someone.get, someone.post):
            assert method("/api/kinds/slow/precheck").json["reasons"] == [code]
            assert method("/api/kinds/slow/precheck").json["ok"] is False
    jobs.pause_kind("comments", "op@example.org")  # it needs a file: only what needs no input can be said yet
    assert rich.get("/api/kinds/comments/precheck").json["reasons"] == ["KIND_PAUSED"]


def test_trying_again_meets_the_pause_too(app, operator, person):
    someone = person()
    job_id = charged_and_dead(someone)
    jobs.settle(job_id)
    jobs.pause_kind("slow", "op@example.org", "ただいま準備中です")
    answer = someone.post(f"/api/jobs/{job_id}/retry")
    assert answer.status_code == 503 and answer.json["code"] == "KIND_PAUSED"
    assert len(jobs.listing()) == 1 and someone.balance() == 3


def test_a_paused_form_keeps_what_was_typed(app, operator):
    jobs.pause_kind("free", "op@example.org", "Back at noon.")
    page = operator.get("/kinds/free").text
    form_key = re.search(r'name="form_key" value="([^"]*)"', page).group(1)
    answer = operator.client.post("/kinds/free", data={"csrf_token": token_of(page), "form_key": form_key,
                                                       "price": "0", "text": "typed with care"})
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "300"
    assert 'value="typed with care"' in answer.text and "Nothing was started" in answer.text


def test_pausing_on_the_command_line(app):
    def flask(*args):
        done = app.test_cli_runner().invoke(args=["kinds", *args])
        return done.exit_code, done.output
    assert flask("pause", "nothing")[0] == 1
    code, said = flask("pause", "paid", "--note", "Back at noon.")
    assert code == 0 and "paid is paused" in said and jobs.pauses()["paid"]["note"] == "Back at noon."
    assert flask("pause", "paid")[0] == 0 and jobs.pauses()["paid"]["note"] is None
    listed = {kind["name"]: kind["paused_since"] for kind in json.loads(flask("list", "--json")[1])}
    assert listed["paid"] == jobs.pauses()["paid"]["created_at"] and listed["free"] is None
    assert flask("resume", "paid")[0] == 0 and flask("resume", "paid")[0] == 1 and not jobs.pauses()


def test_how_kinds_went_is_told(service, operator, person):
    someone = person()
    someone.finished(someone.submit("paid").json["job"]["id"])
    row = re.search(r'id="kind-paid".*?</section>', operator.get("/admin/kinds").text, re.DOTALL).group(0)
    figures = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*)</dd>", row))
    assert figures["Done"] == "1" and figures["Failed"] == "0" and figures["Usual time"] != "—"


def test_what_somebody_typed_ends_as_a_sentence():
    assert [messages.as_sentence(text) for text in ("Back at noon", "Back at noon. ", "正午に再開", "再開します。")] == [
        "Back at noon.", "Back at noon.", "正午に再開。", "再開します。"]


# ------------------------------------------------------------------------------------------- the installation

def test_the_books_are_checked_by_a_process_of_its_own(app, operator, person):
    overview.audited = None
    someone = person(points=3)
    assert "Not checked" in operator.get("/admin/system").text
    assert "The books are right." in operator.press("/admin/audit").text
    assert (overview.audited["entries"], overview.audited["breaches"]) == (1, [])
    connection = sqlite3.connect(db.store.path)
    trigger = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'ledger_entries_append_only_update'").fetchone()[0]
    connection.execute("DROP TRIGGER ledger_entries_append_only_update")
    connection.execute("UPDATE ledger_entries SET balance_after = 9")
    connection.commit()
    page = operator.press("/admin/audit").text
    assert f"says balance 9 for user {someone.id}" in page and "The books are not right." in operator.get("/admin").text
    connection.execute("UPDATE ledger_entries SET balance_after = 3")
    connection.execute(trigger)
    connection.commit()
    connection.close()
    overview.audited = None


def test_an_audit_writes_nothing_and_waits_for_no_lock(app, operator, person):
    person(points=3)
    other = sqlite3.connect(db.store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert overview.audit()["breaches"] == []
    finally:
        other.execute("ROLLBACK")
        other.close()
        overview.audited = None


def test_two_who_ask_at_once_are_one_audit(app):
    began = []
    real = overview._audited

    def counted():
        began.append(1)
        return real()
    overview._audited, overview.audited = counted, None
    try:
        asked = [gevent.spawn(overview.audit) for _ in range(3)]
        gevent.joinall(asked, timeout=60)
        assert len({id(one.value) for one in asked}) <= 2 and len(began) <= 2
    finally:
        overview._audited, overview.audited = real, None


def test_who_lives_is_told_by_the_lock(service, app, operator):
    (db.store.path.parent / "workers" / "dead.lock").touch()
    workers._register("dead", "server")
    page = operator.get("/admin/system").text
    listed = dict(re.findall(r'badge \w+">(\w+)</span>\s*<span><strong>server</strong>.*?"number">([^<]*)<', page))
    assert listed == {"alive": workers.current.id, "dead": "dead"}


def test_warnings_and_settings_are_shown_and_secrets_are_not(settings):
    secret = "a very long secret that nobody should ever see here"
    app = create_app(settings(SECRET_KEY=secret, SITE_NAME="Over there", HOST="0.0.0.0"))
    page = Browser(app, "op@example.org", is_admin=True).get("/admin/system").text
    assert "Over there" in page and secret not in page and "open to others without PRODUCTION=1" in page
    assert "costs points: people need somebody to ask" in page and "sample, paid" in page


SECRETS = ("PASS", "PWD", "AUTH", "CREDENTIALS", "DSN", "WEBHOOK_URL", "API_KEYS", "BEARER", "KEY_ID", "KEY", "ANYTHING")


def test_whatever_a_kind_calls_its_secret_it_is_not_shown(settings, monkeypatch):
    """Anywhere: a name does not tell, so of a kind's own settings only numbers and what is as declared are shown."""
    own = {**{f"OWN_{name}": "help" for name in SECRETS}, "OWN_PER_DAY": (5, "help"), "OWN_RATE": (0.5, "help"),
           "OWN_URL": ("https://example.org", "help"), "OWN_FORM": ("", "help", "[0-9]+"), "OWN_EMPTY": ("x", "help")}
    monkeypatch.setattr("tests.kinds.KINDS", [Kind(name="own", params=Nothing, run=print, settings=own)])
    kept = {f"OWN_{name}": f"https://me:mellon-{n}@example.org/?key=mellon" for n, name in enumerate(SECRETS)}
    app = create_app(settings(**kept, OWN_PER_DAY=7, OWN_RATE=1.5, OWN_EMPTY="", KINDS=""))
    done = app.test_cli_runner().invoke(args=["settings", "--json"])
    found = {row["name"]: row["value"] for row in json.loads(done.stdout)}
    assert {found[name] for name in kept} == {"(set, not shown)"}
    assert [found[f"OWN_{name}"] for name in ("PER_DAY", "RATE", "URL", "FORM", "EMPTY")] == [
        7, 1.5, "https://example.org", "", ""]
    for args in (["settings"], ["doctor"], ["kinds", "list"], ["kinds", "list", "--json"]):
        assert "mellon" not in app.test_cli_runner().invoke(args=args).output, args
    operator = Browser(app, "op@example.org", is_admin=True)
    for path in ("/admin/system", "/admin", "/admin/kinds", "/status"):
        assert "mellon" not in operator.get(path).text, path
    for name, said in (("OWN_PER_DAY", "is not a number"), ("OWN_RATE", "is not a number"), ("OWN_FORM", "is not of the form")):
        with pytest.raises(SettingsError, match=said) as stopped:
            create_app(settings(**{name: "mellon", "KINDS": ""}))
        assert name in str(stopped.value) and "mellon" not in str(stopped.value)
