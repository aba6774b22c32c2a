"""What a person meets on the pages, beyond what the API does: prices shown, forms kept, work taken along."""
import html
import re
import sqlite3

import gevent
import pytest
from flask import url_for

from tests.conftest import Person
from webapp import accounts, create_app, db, jobs, ledger


def _field(page, name):
    return re.search(rf'name="{name}" value="([^"]*)"', page).group(1)


@pytest.fixture
def signed_in(app):
    """A browser with an account that has points."""
    def make(app=app, points=5):
        user_id = accounts.add_user("p@example.org", accounts.hash_password("right"), accounts.new_token())
        ledger.grant(user_id, points, "for a test")
        client = app.test_client()
        _sign_in(client)
        client.user_id = user_id
        return client
    return make


def _sign_in(client):
    page = client.get("/login").text
    answer = client.post("/login", data={"email": "p@example.org", "password": "right",
                                         "csrf_token": _field(page, "csrf_token")})
    assert answer.status_code == 303
    return answer


def _send(client, path, page, **fields):
    return client.post(path, data={"csrf_token": _field(page, "csrf_token"), "form_key": _field(page, "form_key"),
                                   "price": _field(page, "price"), **fields})


def test_nobody_pays_a_price_that_was_not_shown(settings, signed_in):
    client = signed_in()
    page = client.get("/kinds/slow").text
    db.close_store()
    dearer = create_app(settings(SLOW_COST=3)).test_client()
    dearer.set_cookie("ainori", client.get_cookie("ainori").value)
    answer = _send(dearer, "/kinds/slow", page, text="typed")
    assert answer.status_code == 409 and "This costs 3 points now" in answer.text and 'value="typed"' in answer.text
    assert len(jobs.listing()) == 0
    assert _send(dearer, "/kinds/slow", answer.text, text="typed").status_code == 303
    assert jobs.listing()[0]["cost"] == 3


def test_a_price_that_depends_on_the_choices_is_said_before_it_is_paid(signed_in):
    client = signed_in()
    page = client.get("/kinds/choosy").text
    assert _send(client, "/kinds/choosy", page, text="plain").status_code == 303  # free: nothing to confirm
    told = _send(client, "/kinds/choosy", page, text="dear")
    assert told.status_code == 409 and "This costs 1 point now" in told.text
    assert _send(client, "/kinds/choosy", told.text, text="dear").status_code == 303


def test_trying_again_asks_the_price_of_now(signed_in):
    client = signed_in()
    _send(client, "/kinds/refusing", client.get("/kinds/refusing").text)
    job_id = jobs.listing()[0]["id"]
    jobs.cancel(job_id, client.user_id)
    page = client.get(f"/jobs/{job_id}").text
    assert _field(page, "price") == "1"
    refused = client.post(f"/jobs/{job_id}/retry", data={"csrf_token": _field(page, "csrf_token"), "price": "0"})
    assert refused.headers["Location"] == f"/jobs/{job_id}" and len(jobs.listing()) == 1
    assert "This costs 1 point now" in client.get(f"/jobs/{job_id}").text
    assert _send(client, f"/jobs/{job_id}/retry", page).headers["Location"] != f"/jobs/{job_id}"


def test_what_a_guest_asked_for_goes_along_when_they_sign_in(app, person):
    someone = Person(app, "p@example.org", 0)
    known = accounts.hash_password("right")
    db.store.write(lambda: db.execute("UPDATE users SET password_hash = ? WHERE id = ?", (known, someone.id)))
    client = app.test_client()
    page = client.get("/kinds/free").text
    job_id = _send(client, "/kinds/free", page, text="mine").headers["Location"].rpartition("/")[2]
    _sign_in(client)
    assert client.get(f"/jobs/{job_id}").status_code == 200 and job_id in client.get("/history").text
    assert someone.get(f"/api/jobs/{job_id}").status_code == 200
    assert someone.post(f"/api/jobs/{job_id}/cancellation").json["error"]["code"] == "CANCELLED"


def test_a_form_whose_token_is_stale_is_kept(signed_in):
    client = signed_in()
    page = client.get("/kinds/slow").text
    client.post("/logout", data={"csrf_token": _field(page, "csrf_token")})
    _sign_in(client)
    answer = _send(client, "/kinds/slow", page, text="typed with care")
    assert answer.status_code == 403 and 'value="typed with care"' in answer.text
    assert _send(client, "/kinds/slow", answer.text, text="typed with care").status_code == 303


def test_no_refusal_speaks_of_more_than_its_own_request(service, person):
    """A cancellation that could not be stored must not say that no points were used: they were."""
    someone = person()
    job_id = someone.submit("slow", seconds=30).json["job"]["id"]
    with gevent.Timeout(10):
        while someone.job(job_id)["money"] != "consumed":
            gevent.sleep(0.01)
    other = sqlite3.connect(db.store.path, isolation_level=None)
    db.store.busy_seconds = 0.1
    other.execute("BEGIN IMMEDIATE")
    answer = someone.post(f"/api/jobs/{job_id}/cancellation")
    other.execute("ROLLBACK")
    other.close()
    assert answer.status_code == 503 and "This request was not stored and used no points" in answer.json["title"]


def test_only_what_is_accepted_counts_against_a_guest(settings):
    client = create_app(settings(RATE_GUEST_SUBMIT="2/hour")).test_client()
    send = lambda **params: client.post("/api/kinds/free/jobs", json=params, headers={  # noqa: E731
        "X-CSRF-Token": _field(client.get("/kinds/free").text, "csrf_token")}).status_code
    assert [send(seconds="x") for _ in range(5)] == [400] * 5
    assert [send(), send(), send()] == [202, 202, 429]


def test_the_generic_result_page_names_what_it_shows_in_both_languages(service, signed_in):
    client = signed_in()
    job_id = _send(client, "/kinds/sample", client.get("/kinds/sample").text, seconds="0").headers["Location"]
    with gevent.Timeout(10):
        while "Thirds done" not in client.get(job_id).text:
            gevent.sleep(0.02)
    client.set_cookie("lang", "ja")
    assert "終えた区間" in client.get(job_id).text
    assert "終えた区間" in client.get(f"{job_id}/report.html").text


# --------------------------------------------------------------------- what is somebody else's, or nowhere

NOWHERE = "01k0000000000000000000000z"


def test_a_404_of_one_piece_of_work_says_the_number_and_is_the_same_whether_it_exists(settings):
    app = create_app(settings(SUPPORT_CONTACT="help@example.org"))
    owner, other = Person(app, "o@example.org", 3), Person(app, "x@example.org", 3)
    job_id = owner.submit("slow").json["job"]["id"]
    for look in (other.get, app.test_client().get):
        theirs, nowhere = look(f"/jobs/{job_id}"), look(f"/jobs/{NOWHERE}")
        assert theirs.status_code == nowhere.status_code == 404
        told = [re.sub('name="csrf_token" value="[^"]*"', "", answer.text) for answer in (theirs, nowhere)]  # it has a time
        assert told[0] == told[1].replace(NOWHERE, job_id)
        assert f'class="number">{job_id}<' in theirs.text and "they are not lost" in theirs.text
        assert "mailto:help@example.org" in theirs.text and jobs.get(job_id)["number"] not in theirs.text
    assert app.test_cli_runner().invoke(args=["jobs", "show", job_id]).exit_code == 0
    assert "sign in" not in other.get(f"/jobs/{job_id}").text


def test_who_is_not_signed_in_is_led_there_and_back(app, signed_in):
    client = signed_in()
    page = client.get("/kinds/slow").text
    path = _send(client, "/kinds/slow", page, text="mine").headers["Location"]
    client.post("/logout", data={"csrf_token": _field(page, "csrf_token")})
    told = client.get(path)
    assert told.status_code == 404 and f'href="/login?next={path}"' in told.text
    form = client.get(f"/login?next={path}").text
    back = client.post("/login", data={"csrf_token": _field(form, "csrf_token"), "next": path,
                                       "email": "p@example.org", "password": "right"})
    assert back.headers["Location"] == path and client.get(path).status_code == 200


def test_who_asks_too_early_for_a_report_of_their_own_is_not_told_that_it_is_somebody_elses(app, person):
    someone = person()
    answer = someone.get(f"/jobs/{someone.submit('free').json['job']['id']}/report.html")
    assert answer.status_code == 404 and "somebody else" not in answer.text


@pytest.mark.parametrize("path", ["/jobs/x", "/jobs/" + "u" * 26, "/jobs/" + "0" * 27, "/jobs/%00", "/nowhere"])
def test_what_is_no_number_of_ours_is_not_given_as_one(client, path):
    answer = client.get(path)
    assert answer.status_code == 404 and "tell us this number" not in answer.text


# ------------------------------------------------------------------------------------------- history

@pytest.fixture
def ended(service, person):
    """Somebody with one piece of work of each ending: its id by how it ended."""
    someone = person(points=9)
    made = {name: someone.submit(kind, **params).json["job"]["id"] for name, kind, params in (
        ("succeeded", "paid", {}), ("failed", "refusing", {}), ("cancelled", "slow", {"seconds": 30}))}
    with gevent.Timeout(10):
        while someone.job(made["cancelled"])["money"] != "consumed":
            gevent.sleep(0.01)
    someone.post(f"/api/jobs/{made['cancelled']}/cancellation")
    for job_id in made.values():
        someone.finished(job_id)
    someone.made = made
    return someone


def _listed(page):
    return re.findall(r'class="stretched title" href="/jobs/(\w+)"', page)


def test_cancelled_is_its_own_status_in_the_history(ended):
    made = ended.made
    assert _listed(ended.get("/history").text) == [made["cancelled"], made["failed"], made["succeeded"]]
    for status in ("succeeded", "failed", "cancelled"):
        page = ended.get(f"/history?status={status}").text
        assert _listed(page) == [made[status]] and re.findall(r'class="badge (\w+)"', page) == [status]
        assert f'value="{status}" selected' in page
    assert "kept (balance" in ended.get("/history?status=cancelled").text
    failed = ended.get("/history?status=failed").text
    assert "Not today." in failed and "has been returned" in failed
    assert [job["id"] for job in ended.get("/api/jobs?status=cancelled").json["jobs"]] == [made["cancelled"]]
    assert {job["id"] for job in ended.get("/api/jobs?status=failed").json["jobs"]} == {made["cancelled"], made["failed"]}
    assert 'class="badge cancelled"' in ended.get(f"/jobs/{made['cancelled']}").text


def test_filters_and_pager_keep_each_other(app, person):
    someone = person(points=0)
    ids = [someone.submit("free", text=str(n)).json["job"]["id"] for n in range(22)]
    someone.submit("shared")
    page = someone.get("/history?kind=free&status=pending").text
    older, = re.findall(r'class="pager"><a class="btn quiet" href="([^"]+)"', page)
    assert _listed(page) == ids[:1:-1]
    page = someone.get(older.replace("&amp;", "&")).text
    assert _listed(page) == [ids[1], ids[0]] and "pager" not in page
    assert 'value="free" selected' in page and 'value="pending" selected' in page


@pytest.mark.parametrize("query", ["status=x", "kind=x", "kind=%00&status=%27", "status=failed&kind=free", "cursor=0"])
def test_a_filter_that_finds_nothing_has_a_way_back(app, person, query):
    someone = person()
    someone.submit("free")
    answer = someone.get(f"/history?{query}")
    assert answer.status_code == 200 and not _listed(answer.text) and 'href="/history">Show everything' in answer.text


@pytest.mark.parametrize("cursor", ["x", "%00", "-1", "9" * 40, "%F0%9F%98%80", "%FF"])
def test_a_cursor_that_nobody_gave_out_is_harmless(app, person, cursor):
    someone = person()
    someone.submit("free")
    assert [someone.get(f"/{page}?cursor={cursor}").status_code for page in ("history", "points")][0] == 200
    assert someone.get(f"/points?cursor={cursor}").status_code == 200


def test_a_kind_that_is_gone_can_still_be_filtered_by(ended, app):
    del app.kinds["paid"]
    page = ended.get("/history?kind=paid").text
    assert _listed(page) == [ended.made["succeeded"]] and 'value="paid" selected' in page


def test_a_retry_is_recognised(ended):
    again = ended.post(f"/api/jobs/{ended.made['failed']}/retry").json["job"]["id"]
    ended.finished(again)
    page = ended.get("/history?kind=refusing").text
    assert _listed(page) == [again, ended.made["failed"]] and page.count("Tried again") == 1
    assert f'href="/jobs/{ended.made["failed"]}"' in ended.get(f"/jobs/{again}").text


# ---------------------------------------------------------------------------------- points, the receipt

def _statement(someone, lang="en"):
    """Each movement as text: what, the number's link, why, how many, the balance."""
    page = someone.get("/points", headers={"Accept-Language": lang}).text
    rows = re.findall(r"<tr>\s*<td>(.*?)</tr>", page.partition("<tbody>")[2], re.S)
    return [" ".join(re.sub(r"<time.*?</time>|<[^>]+>", " ", row).split()) for row in rows], page


def test_every_movement_says_what_for_and_why_in_the_viewers_language(ended):
    number = {name: jobs.get(job_id)["number"] for name, job_id in ended.made.items()}
    ledger.grant(ended.id, 2, "Welcome points")
    lines, page = _statement(ended)
    assert lines[0] == "Welcome points +2 9" and lines[-1] == "for a test +9 9"
    assert sorted(line.rpartition(" ")[0] for line in lines[1:-1]) == sorted([
        f"Used for Paid {number['succeeded']} −1", f"Used for Refusing {number['failed']} −1",
        f"Returned for Refusing {number['failed']} Not today. +1",
        f"Used for Slow {number['cancelled']} Kept: cancelled after it had been used. −1"])
    assert all(f'href="/jobs/{job_id}">{number[name]}</a>' in page for name, job_id in ended.made.items())
    japanese = " ".join(_statement(ended, "ja")[0])
    assert "登録時のポイント +2" in japanese and "今日はできません。 +1" in japanese and "お返しはありません。" in japanese


@pytest.mark.parametrize("ends, why", [
    ("INTERRUPTED", "The server stopped while this was being worked on."),
    ("TIMED_OUT", "This took longer than allowed and was stopped."),
    ("the kind", "It brought nothing."), ("an operator", "Looked it up.")])
def test_what_was_returned_says_why(app, person, ends, why):
    someone = person()
    job_id = someone.submit("slow").json["job"]["id"]
    attempt = jobs.claim("w", ["slow"])[0]["attempt"]
    jobs.charge(job_id, attempt)
    if ends == "the kind":
        jobs.refund(job_id, attempt, "It brought nothing.")
    else:
        jobs.fail(job_id, attempt, "INTERRUPTED" if ends == "an operator" else ends)
        if ends == "an operator":
            jobs.settle_by_hand(job_id, keep=False, by="ann", note="Looked it up.")
    assert _statement(someone)[0][0] == f"Returned for Slow {jobs.get(job_id)['number']} {why} +1 3"


def test_what_is_set_aside_is_said_with_a_link(app, person):
    someone = person(points=5)
    waits, charged = (someone.submit(kind).json["job"]["id"] for kind in ("paid", "slow"))
    jobs.charge(charged, jobs.claim("w", ["slow"])[0]["attempt"])
    _lines, page = _statement(someone)
    aside = page.partition('class="promised"')[2].partition("</ul>")[0]
    assert re.findall(r'href="/jobs/(\w+)"', aside) == [waits] and "1 is set aside" in page and "use 3 now" in page
    assert '<p class="big">4' in page


def _receipt(page):
    ticket = page.partition('class="ticket-body"')[2].partition("</section>")[0]
    return dict(re.findall(r"<dt>(.*?)</dt><dd[^>]*>(.*?)</dd>", ticket))


def test_the_receipt_says_what_was_used_returned_and_kept(ended):
    receipt = {name: _receipt(ended.get(f"/jobs/{job_id}").text) for name, job_id in ended.made.items()}
    told = {name: {label: lines.get(label) for label in ("Outcome", "Used", "Returned", "Kept")}
            for name, lines in receipt.items()}
    assert told == {
        "succeeded": {"Outcome": "Done", "Used": "1 point", "Returned": None, "Kept": None},
        "failed": {"Outcome": "Failed", "Used": "1 point", "Returned": "1 point", "Kept": None},
        "cancelled": {"Outcome": "Cancelled", "Used": "1 point", "Returned": None, "Kept": "1 point"}}
    for lines in receipt.values():
        assert all("<time" in lines[label] for label in ("Sent", "Started", "Ended"))


def test_trying_again_says_that_finished_steps_are_not_repeated(app, person):
    someone = person()
    plain, stepped = (someone.submit(kind).json["job"]["id"] for kind in ("paid", "again"))
    for job in jobs.claim("w", ["paid", "again"], most=2):
        if job["id"] == stepped:
            jobs.keep_step(stepped, 1, "fetch", "{}")
        jobs.fail(job["id"], 1, "INTERNAL_ERROR")
    assert "1 finished step is not repeated." in someone.get(f"/jobs/{stepped}").text
    page = someone.get(f"/jobs/{plain}").text
    assert "finished step" not in page and "Costs 1 point; you have 3." in page


# ------------------------------------------------------------------------------ while you were away

def _dies(someone):
    job_id = someone.submit("slow").json["job"]["id"]
    jobs.charge(job_id, jobs.claim("dead", ["slow"])[0]["attempt"])
    (db.store.path.parent / "workers" / "dead.lock").touch()
    return job_id


@pytest.mark.parametrize("path, status", [
    ("/", 200), ("/kinds/slow", 200), ("/history", 200), ("/history?status=x", 200), ("/points", 200), ("/nowhere", 404),
    (f"/jobs/{NOWHERE}", 404), ("/kinds/nothing", 404), ("/account", 200), ("/language", 405)])
def test_every_page_tells_of_an_interruption_errors_included(app, person, path, status):
    someone = person()
    job_id = _dies(someone)
    answer = someone.get(path)
    assert answer.status_code == status and "While you were away" in answer.text
    assert f'href="/jobs/{job_id}"' in answer.text and "The 1 point it had used has been returned (balance 3)." in answer.text


def test_only_seeing_its_page_ends_it(app, person):
    someone, other = person(), person()
    job_id = _dies(someone)
    client = someone._client
    for look in (lambda: someone.get("/history"), lambda: someone.job(job_id), lambda: other.get(f"/jobs/{job_id}"),
                 lambda: client.head(f"/jobs/{job_id}", headers=someone.headers)):
        look()
        assert "While you were away" in someone.get("/").text
    assert "While you were away" not in someone.get(f"/jobs/{job_id}").text + someone.get("/").text


def test_a_guest_is_told_too(app):
    client = app.test_client()
    job_id = _send(client, "/kinds/free", client.get("/kinds/free").text, text="x").headers["Location"].rpartition("/")[2]
    jobs.claim("dead", ["free"])
    (db.store.path.parent / "workers" / "dead.lock").touch()
    assert all("While you were away" in client.get(path).text for path in ("/", "/login", "/nowhere"))
    assert client.get(f"/jobs/{job_id}").status_code == 200 and "While you were away" not in client.get("/login").text


@pytest.mark.parametrize("broken", ["ledger_entries", "job_watchers"])
def test_a_database_that_cannot_be_read_breaks_no_page(app, person, broken):
    someone = person()
    job_id = _dies(someone)
    jobs.poll(job_id)
    db.store.write(lambda: db.execute(f"ALTER TABLE {broken} RENAME TO hidden"))
    answers = {path: someone.get(path) for path in ("/", "/nowhere", "/history", f"/jobs/{job_id}")}
    db.store.write(lambda: db.execute(f"ALTER TABLE hidden RENAME TO {broken}"))
    assert all("</html>" in answer.text for answer in answers.values())
    assert (answers["/"].status_code, answers["/nowhere"].status_code) == (200, 404)
    if broken == "ledger_entries":  # one part that fails takes no other along
        assert answers["/history"].status_code == answers[f"/jobs/{job_id}"].status_code == 200
        assert "While you were away" in answers["/"].text


# ---------------------------------------------------------------------------------------- the language button

def _button(page):
    """What the language button of a page sends."""
    form = re.search(r'<form class="language".*?</form>', page, re.DOTALL).group(0)
    return {"csrf_token": _field(form, "csrf_token"), "next": html.unescape(_field(form, "next")), "lang": "ja"}


def test_the_language_button_leads_to_a_page_whatever_form_was_answered(app, signed_in):
    client = signed_in()
    accounts.set_admin(client.user_id, True)
    job_id = jobs.listing()[0]["id"] if _send(client, "/kinds/slow", client.get("/kinds/slow").text).status_code == 303 else None
    values, asked = {"job_id": job_id, "kind": "slow", "name": "slow", "user_id": client.user_id, "incident_id": 1}, 0
    for rule in app.url_map.iter_rules():
        if "POST" not in rule.methods or rule.rule.startswith("/api/"):
            continue
        with app.test_request_context():
            path = url_for(rule.endpoint, **{name: values[name] for name in rule.arguments})
        answer = client.post("/language", data={**_button(client.get("/").text), "next": path})
        there = client.get(answer.headers["Location"], follow_redirects=True)
        above = answer.headers["Location"].rstrip("/")
        assert there.status_code in (200, 404, 410) and (path == above or path.startswith(f"{above}/")), path
        assert there.status_code == 200 or rule.endpoint in ("auth.reset", "auth.setup"), path
        asked += 1
    assert asked > 20


@pytest.mark.parametrize("path, leads_to", [
    ("/account/password", "/account"), ("/kinds/slow", "/kinds/slow"), ("/language", "/"), ("/nowhere/at/all", "/nowhere/at/all"),
    ("/admin/incidents/7/acknowledge?back=/x", "/admin/incidents"), ("/history?status=failed", "/history?status=failed")])
def test_of_an_address_for_forms_only_the_nearest_page_is_shown(client, path, leads_to):
    assert client.post("/language", data={**_button(client.get("/").text), "next": path}).headers["Location"] == leads_to


def test_a_form_that_comes_back_keeps_where_to_go_next_in_another_language(app, client):
    user_id = accounts.add_user("p@example.org", accounts.hash_password("right"))
    accounts.set_reset(user_id, "one-time")
    page = client.get("/login?next=/points").text
    wrong = client.post("/login", data={"csrf_token": _field(page, "csrf_token"), "next": "/points", "email": "p@example.org",
                                        "password": "wrong"})
    assert wrong.status_code == 401 and _button(wrong.text)["next"] == "/login?next=%2Fpoints"
    there = client.get(client.post("/language", data=_button(wrong.text)).headers["Location"])
    assert _field(there.text.partition('action="/login"')[2], "next") == "/points"
    short = client.post("/reset", data={"csrf_token": _field(there.text, "csrf_token"), "token": "one-time", "password": "x"})
    assert _button(short.text)["next"] == "/reset?token=one-time"


def test_signing_in_from_the_answer_to_a_form_leads_to_a_page(client):
    answer = client.post(f"/jobs/{NOWHERE}/cancel", data={"csrf_token": _field(client.get("/").text, "csrf_token")})
    assert answer.status_code == 404 and f'href="/login?next=/jobs/{NOWHERE}"' in answer.text
    assert "/cancel" not in answer.text
