"""What a person meets on the pages, beyond what the API does: prices shown, forms kept, work taken along."""
import re
import sqlite3

import gevent
import pytest

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
