"""The JSON API from the outside: its answers, its refusals, uploads, health."""
import dataclasses
import hashlib
import io
import json
import re
import socket
import sqlite3
import subprocess
import sys
import time

import gevent
import pytest
from pydantic import BaseModel, field_validator

from tests.conftest import Person
from tests.server import Server
from webapp import create_app, db, incidents, jobs, ledger, messages, web
from webapp.errors import AinoriError
from webapp.kinds import Kind
from webapp.service import Service
from webapp.settings import Settings

NOT_OURS = "/api/jobs/01hzzzzzzzzzzzzzzzzzzzzzzz"


def problem(answer, status, code):
    """An RFC 9457 problem, checked; its members."""
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json"), answer.text
    body = answer.json
    assert (body["type"], body["status"], body["code"]) == ("about:blank", status, code)
    assert body["title"] and body["detail"] and "%(" not in body["detail"]
    if answer.request.path.startswith("/api/"):
        assert answer.headers["Cache-Control"] == "no-store"
    assert ("Retry-After" in answer.headers) == (status in (429, 503))
    if "Retry-After" in answer.headers:
        assert int(answer.headers["Retry-After"]) >= 1
    return body


def uploads(app):
    return sorted(path.name for path in (app.settings.folder / "uploads").iterdir())


def form(content=b"words", name="words.txt", **fields):
    """What a client sends for a form with a file. (Flask's own encoder leaves files open.)"""
    parts = [f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, value in fields.items()]
    parts.append(f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content)
    return {"data": b"".join(parts) + b"\r\n--b--\r\n", "content_type": "multipart/form-data; boundary=b"}


@pytest.fixture
def site(settings):
    """An application with settings of the test's own, and somebody with points."""
    def make(points=3, **values):
        app = create_app(settings(**values))
        return app, Person(app, "somebody@example.org", points)
    return make


# ---------------------------------------------------------------------------------------- problems

def test_every_refusal_says_its_facts_in_both_languages(app, person, client):
    someone = person(points=1)
    job_id = someone.submit("slow", key="k").json["job"]["id"]
    final = someone.submit("free").json["job"]["id"]
    someone.post(f"/api/jobs/{final}/cancellation")
    other = person(points=0)

    def submit(kind, who=someone, key=None, **params):
        return lambda lang: who.post(f"/api/kinds/{kind}/jobs", json=params, headers={
            "Accept-Language": lang, **({"Idempotency-Key": key} if key else {})})
    cases = [
        (submit("free", seconds="x"), 400, "INVALID_INPUT", {"errors"}),
        (lambda lang: client.post("/api/kinds/paid/jobs", json={}, headers={"Accept-Language": lang}),
         401, "LOGIN_REQUIRED", {"cost"}),
        (lambda lang: client.get("/api/jobs", headers={"Accept-Language": lang, "Authorization": "Bearer of-nobody"}),
         401, "BAD_TOKEN", set()),
        (submit("paid", other), 402, "INSUFFICIENT_POINTS", {"cost", "balance"}),
        (lambda lang: other.get(f"/api/jobs/{job_id}", headers={"Accept-Language": lang}), 404, "NOT_FOUND", set()),
        (lambda lang: other.get("/api/nothing", headers={"Accept-Language": lang}), 404, "NOT_FOUND", set()),
        (submit("nothing"), 404, "UNKNOWN_KIND", {"kind"}),
        (lambda lang: someone._client.delete("/api/kinds", headers={"Accept-Language": lang}), 405,
         "METHOD_NOT_ALLOWED", set()),
        (submit("slow"), 409, "JOB_IN_FLIGHT", {"job_id"}),
        (lambda lang: someone.post(f"/api/jobs/{final}/cancellation", headers={"Accept-Language": lang}),
         409, "ALREADY_FINAL", {"job_id"}),
        (lambda lang: someone.post(f"/api/jobs/{job_id}/retry", headers={"Accept-Language": lang}),
         409, "NOT_RETRYABLE", {"reason"}),
        (lambda lang: someone.post("/api/kinds/free/jobs", data="x", content_type="text/plain",
                                   headers={"Accept-Language": lang}), 415, "UNSUPPORTED_MEDIA_TYPE", set()),
        (submit("slow", key="k", text="other"), 422, "IDEMPOTENCY_KEY_REUSED", {"job_id"}),
    ]
    for ask, status, code, facts in cases:
        english, japanese = (problem(ask(lang), status, code) for lang in ("en", "ja"))
        assert facts <= english.keys(), code
        assert english["detail"] != japanese["detail"] and re.search("[ぁ-ん]", japanese["detail"]), code
    assert len(jobs.listing()) == 2


def test_an_account_is_answered_in_its_own_language_unless_the_browser_chose(app, client):
    answers = {header: client.get("/api/nothing", headers={"Accept-Language": header}).json["detail"]
               for header in ("ja", "ja-JP,en;q=0.5", "fr,ja;q=0.5,en;q=0.1", "fr", "", "xx;;;q=huge", "ja;q=0,fr")}
    assert answers["ja"] == answers["ja-JP,en;q=0.5"] == answers["fr,ja;q=0.5,en;q=0.1"] != answers["fr"]
    assert answers["fr"] == answers[""] == answers["xx;;;q=huge"] == answers["ja;q=0,fr"]
    client.set_cookie("lang", "ja")
    assert client.get("/api/nothing", headers={"Accept-Language": "en"}).json["detail"] == answers["ja"]


def test_what_is_not_signed_in_is_told_how_and_what_is_not_allowed_what_is(app, client):
    assert client.post("/api/kinds/paid/jobs", json={}).headers["WWW-Authenticate"] == "Bearer"
    assert client.get("/api/points").headers["WWW-Authenticate"] == "Bearer"
    assert client.delete("/api/kinds").headers["Allow"] == "GET, HEAD, OPTIONS"


def test_one_in_flight_is_found_by_its_location(app, person):
    someone = person()
    made = someone.submit("slow")
    assert made.headers["Location"] == f"/api/jobs/{made.json['job']['id']}" and made.headers["Retry-After"] == "1"
    refused = someone.submit("slow")
    assert refused.headers["Location"] == made.headers["Location"]
    assert problem(refused, 409, "JOB_IN_FLIGHT")["job_id"] == made.json["job"]["id"]


def test_a_guest_who_asks_too_often_is_told_when_to_come_back(site):
    app, someone = site(RATE_GUEST_SUBMIT="2/hour")
    client = app.test_client()
    assert [app.test_client().post("/api/kinds/free/jobs", json={}).status_code for _ in range(2)] == [202, 202]
    refused = app.test_client().post("/api/kinds/free/jobs", json={})
    told = problem(refused, 429, "RATE_LIMITED")
    assert 0 < told["retry_after_seconds"] <= 3600 and refused.headers["Retry-After"] == str(told["retry_after_seconds"])
    # By the real address, not by a header that anybody can send.
    assert client.post("/api/kinds/free/jobs", json={}, headers={"X-Forwarded-For": "9.9.9.9"}).status_code == 429
    assert client.post("/api/kinds/free/jobs", json={}, environ_base={"REMOTE_ADDR": "9.9.9.9"}).status_code == 202
    assert someone.submit("free").status_code == 202  # an account is not limited


def test_trying_again_counts_as_asking(site):
    app, _ = site(RATE_GUEST_SUBMIT="2/hour")
    client, path = app.test_client(), None
    path = client.post("/api/kinds/free/jobs", json={}).headers["Location"]
    token = {"X-CSRF-Token": re.search(r'name="csrf_token" value="([^"]+)"', client.get("/").text).group(1)}
    client.post(f"{path}/cancellation", headers=token)
    codes = [client.post(f"{path}/retry", headers=token).status_code for _ in range(2)]
    assert codes == [202, 429] and len(jobs.listing()) == 2


def test_a_retry_twice_by_the_same_key_is_one(app, person):
    someone = person()
    path = someone.submit("free").headers["Location"]
    someone.post(f"{path}/cancellation")
    answers = [someone.post(f"{path}/retry", headers={"Idempotency-Key": key}) for key in ("k", "k", "other")]
    assert [answer.status_code for answer in answers] == [202, 200, 202]
    assert answers[0].json["job"]["id"] == answers[1].json["job"]["id"] and len(jobs.listing()) == 3
    assert someone.post(f"{path}/retry", headers={"Idempotency-Key": "x" * 201}).status_code == 400


def test_a_megabyte_of_mistakes_is_answered_shortly(app, person):
    body = json.dumps({f"a{n}": 1 for n in range(70_000)})
    began = time.monotonic()
    refused = person().post("/api/kinds/sample/jobs", data=body, content_type="application/json")
    assert len(problem(refused, 400, "INVALID_INPUT")["errors"]) == 50 and time.monotonic() - began < 1


def test_behind_a_proxy_the_address_it_saw_counts(site):
    app, _ = site(RATE_GUEST_SUBMIT="1/hour", PROXY_HOPS=1)
    codes = [app.test_client().post("/api/kinds/free/jobs", json={}, headers={"X-Forwarded-For": seen}).status_code
             for seen in ("1.1.1.1", "2.2.2.2", "forged, 1.1.1.1")]
    assert codes == [202, 202, 429]


def test_too_much_waiting_is_refused_and_nothing_is_stored(site):
    app, someone = site(MAX_PENDING_JOBS=1)
    assert someone.submit("free").status_code == 202
    refused = someone.post("/api/kinds/free/jobs", **form())
    assert problem(refused, 503, "QUEUE_FULL")["max_pending"] == 1 and refused.headers["Retry-After"] == "30"
    assert len(jobs.listing()) == 1 and uploads(app) == []


def test_a_server_that_shuts_down_accepts_nothing(app, person):
    someone = person()
    jobs.signals.draining = True
    assert problem(someone.post("/api/kinds/paid/jobs", json={}), 503, "SHUTTING_DOWN")
    assert problem(someone.post("/api/kinds/free/jobs", **form()), 503, "SHUTTING_DOWN") and uploads(app) == []
    assert "SHUTTING_DOWN" in someone.post("/api/kinds/paid/precheck", json={}).json["reasons"]
    ready = someone.get("/readyz")
    assert ready.status_code == 503 and ready.json["reasons"] == ["draining"]
    assert jobs.listing() == [] and someone.balance() == 3


def test_a_file_locked_by_another_program_is_busy_and_nothing_is_stored(site):
    app, someone = site(BUSY_SECONDS=0.2)
    with _locked_elsewhere(app):
        assert problem(someone.submit("paid"), 503, "BUSY")
        assert problem(someone.post("/api/kinds/free/jobs", **form()), 503, "BUSY")
        assert problem(app.test_client().post("/api/kinds/free/jobs", json={}), 503, "BUSY")
        assert someone.get("/api/jobs").status_code == 200  # reading goes on
    assert jobs.listing() == [] and uploads(app) == []
    assert someone.submit("paid").status_code == 202  # and comes back by itself


def test_a_full_disk_is_storage_unavailable_and_nothing_is_charged(app, person):
    someone = person()
    pages = db.store.write_connection.execute("PRAGMA page_count").fetchone()[0]
    db.store.write_connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    try:
        refused = [someone.submit("free", text="x" * 20_000) for _ in range(3)][-1]
        assert problem(refused, 503, "STORAGE_UNAVAILABLE")
    finally:
        db.store.write_connection.execute("PRAGMA max_page_count = 1000000").fetchall()
    assert someone.submit("free", text="x" * 20_000).status_code == 202


def test_a_table_that_cannot_be_read_is_storage_unavailable_and_one_line_in_the_log(app, person, caplog):
    someone = person()
    db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    try:
        answers = [someone.get(path) for path in ("/api/points", "/points")]
    finally:
        db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))
    assert problem(answers[0], 503, "STORAGE_UNAVAILABLE")["detail"].startswith("The server cannot read or store")
    assert answers[1].status_code == 503 and "cannot read or store" in answers[1].text
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"GET {path}: the database said: no such table: ledger_entries" for path in ("/api/points", "/points")]
    assert not any(record.exc_info for record in caplog.records)


def test_a_bug_of_ours_is_a_500_without_its_secrets(app, person):
    @app.get("/api/broken")
    def broken():
        raise ValueError("a secret")
    answer = person().get("/api/broken")
    assert "secret" not in answer.text
    assert problem(answer, 500, "INTERNAL_ERROR")["detail"] == "Something went wrong on our side. Please try again."


def test_a_command_that_fails_in_a_check_is_a_bug_of_ours_and_tells_nothing(app, person):
    def check(context, params):
        context.run_command(["sh", "-c", "echo a secret >&2; exit 1"])
    app.kinds["own"] = Kind(name="own", params=app.kinds["free"].params, run=print, check=check)
    answer = person().post("/api/kinds/own/jobs", **form())
    assert "secret" not in answer.text and problem(answer, 503, "KIND_FAILED") and uploads(app) == []


class Odd(BaseModel):
    text: str = "x"

    @field_validator("text")
    @classmethod
    def refuse_nothing(cls, text):
        return text if text != "odd" else {}["nothing"]


@pytest.mark.parametrize("own, where", [
    ({"cost": lambda params: 1 // 0}, "cost"), ({"cost": lambda params: -1}, "cost"), ({"cost": lambda params: 1.5}, "cost"),
    ({"cost": lambda params: 2**63}, "cost"), ({"check": lambda context, params: {}["nothing"]}, "check"),
    ({"share_key": lambda params: params.nothing}, "share_key"), ({}, "params")])
def test_what_a_kind_gets_wrong_before_anything_is_stored_is_an_incident(app, person, client, own, where):
    app.kinds["own"] = Kind(name="own", params=Odd, run=print, **own)
    someone, params = person(), {"text": "typed" if own else "odd"}
    for answer in (someone.post("/api/kinds/own/jobs", json=params), someone.post("/api/kinds/own/precheck", json=params)):
        told = problem(answer, 503, "KIND_FAILED")
        assert "No points were used" in told["title"] and answer.headers["Retry-After"] == "300"
    page = client.post("/kinds/own", data=params)
    assert page.status_code == 503 and "recorded for the operator" in page.text and f'value="{params["text"]}"' in page.text
    incident, = incidents.listing()
    assert (incident["severity"], incident["code"], incident["times"]) == ("warning", "KIND_FAILED", 3)
    assert incident["detail"].startswith("own: ") and incident["detail"].endswith(f" in its {where}")
    assert jobs.listing() == [] and someone.balance() == 3


def test_the_page_of_what_failed_stays_when_its_price_can_no_longer_be_said(app, person):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    jobs.cancel(job_id, someone.id)
    app.kinds["free"] = dataclasses.replace(app.kinds["free"], cost=lambda params: 1 // 0)
    assert someone.get(f"/jobs/{job_id}").status_code == 200


def test_saved_files_are_served_where_the_database_path_is_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = create_app(Settings.load({"DATABASE_PATH": "data/ainori.db", "KINDS": "", "EXTRA_KINDS": "tests.kinds"}))
    someone, running = Person(app, "somebody@example.org", 1), Service(app).start()
    try:
        job = someone.finished(someone.submit("paced", text="words").json["job"]["id"])
        for folder in (tmp_path, tmp_path / "data", "/"):  # wherever the process is by then
            monkeypatch.chdir(folder)
            answer = someone.get(job["files"][0]["href"])
            assert answer.data == b"words"
            answer.close()
        assert db.store.path == tmp_path / "data" / "ainori.db"
    finally:
        running.stop()


def test_an_odd_request_is_never_a_server_error(app, person):
    """What anybody can send."""
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    long = "9" * 5000
    for path in ("/api/jobs?cursor=%00", "/api/jobs?cursor=%ED%A0%80", "/api/jobs?status=x&kind=%27", "/api/jobs/%00",
                 f"/api/points?cursor={long}", "/api/points?cursor=%C2%B2", "/api/points?cursor=-1", f"/api/jobs/{long}",
                 "/api/jobs/%2e%2e/events", f"/api/jobs/{job_id}/files/%00", f"/api/jobs/{job_id}/export.xml",
                 "/api/kinds/%00/precheck"):
        assert someone.get(path).status_code in (200, 404), path
    for event_id in (long, "²", "-1", "x", "1.5"):
        answer = someone.get(f"/api/jobs/{job_id}/events", headers={"Last-Event-ID": event_id})
        next(iter(answer.response))
        answer.close()
        assert answer.status_code == 200
    for body in ("", "[]", "null", "3", "{", "[" * 100_000, '{"text": "\\ud800"}', '{"\\ud800": 1}', '{"seconds": NaN}',
                 '{"seconds": 1e999}', '{"seconds": ' + long + "}", b"\xff\xfe\x00", '{"seconds": {"a": []}}'):
        for kind in ("free", "sample"):
            answer = someone.post(f"/api/kinds/{kind}/jobs", data=body, content_type="application/json")
            assert answer.status_code == (202 if body == "" or (body == '{"\\ud800": 1}' and kind == "free") else 400), (
                kind, body[:20], answer.text)
            if answer.status_code == 202:
                someone.post(f"/api/jobs/{answer.json['job']['id']}/cancellation")
    for name in ("zzz", "a/../../b", "text", "x" * 5000):
        refused = someone.post("/api/kinds/free/jobs", data={name: (io.BytesIO(b"x"), "n")})
        assert problem(refused, 400, "INVALID_INPUT")["errors"] == [{"field": name, "message": "There is no such field."}]
    assert uploads(app) == []


def test_a_file_that_nobody_sent_cannot_be_claimed(app, person):
    """Whoever knows a content's hash must not be given what others found out about it."""
    forged = {"file": {"name": "x", "size": 1, "sha256": "a" * 64}}
    app.kinds["own"] = Kind(name="own", params=app.kinds["free"].params, run=print, cache_seconds=60,
                            share_key=lambda params: params.file.sha256)
    for path in ("jobs", "precheck"):
        answer = person().post(f"/api/kinds/own/{path}", json=forged)
        assert answer.json["errors"] == [{"field": "file", "message": "Please choose a file."}]
    assert jobs.listing() == []


# ------------------------------------------------------------------------------- reading, and paging

def test_a_job_that_has_not_changed_is_304(app, person):
    someone = person()
    path = someone.submit("slow").headers["Location"]
    first = someone.get(path)
    assert first.headers["ETag"] and first.headers["Retry-After"] == "1" and first.headers["Cache-Control"] == "no-store"
    same = someone.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (same.status_code, same.data, same.headers["ETag"]) == (304, b"", first.headers["ETag"])
    assert same.headers["Retry-After"] == "1" and same.headers["Cache-Control"] == "no-store"
    someone.post(f"{path}/cancellation")
    changed = someone.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200 and "Retry-After" not in changed.headers


def test_jobs_are_paged_newest_first(app, person):
    someone = person(points=0)
    made = [someone.submit("free", text=str(n)).json["job"]["id"] for n in range(45)]
    assert made == sorted(made)
    seen, cursor, pages = [], "", 0
    while cursor is not None:
        page = someone.get(f"/api/jobs?cursor={cursor}").json
        seen += [job["id"] for job in page["jobs"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert seen == made[::-1] and pages == 3
    assert all("params" not in job and job["result"] is None for job in page["jobs"])


def test_a_full_last_page_has_no_next(app, person):
    someone = person()
    for _ in range(20):
        someone.submit("free")
    assert someone.get("/api/jobs").json["next_cursor"] is None


def test_jobs_are_found_by_kind_and_status(app, person):
    someone = person()
    slow, free = (someone.submit(kind).json["job"]["id"] for kind in ("slow", "free"))
    someone.post(f"/api/jobs/{free}/cancellation")
    found = lambda query: [job["id"] for job in someone.get(f"/api/jobs?{query}").json["jobs"]]  # noqa: E731
    assert found("kind=slow") == found("status=pending") == [slow]
    assert found("kind=free&status=failed") == [free] and found("kind=slow&status=failed") == []
    assert person().get("/api/jobs").json == {"jobs": [], "next_cursor": None}


def test_points_are_paged_newest_first(app, person):
    someone = person(points=0)
    for n in range(101):
        ledger.grant(someone.id, 1, f"grant {n}")
    first = someone.get("/api/points").json
    assert (first["balance"], first["available"], len(first["entries"])) == (101, 101, 50)
    assert first["entries"][0].keys() == {"id", "kind", "points", "balance_after", "job_id", "note", "created_at"}
    second = someone.get(f"/api/points?cursor={first['next_cursor']}").json
    third = someone.get(f"/api/points?cursor={second['next_cursor']}").json
    notes = [entry["note"] for page in (first, second, third) for entry in page["entries"]]
    assert notes == [f"grant {n}" for n in reversed(range(101))] and third["next_cursor"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["entries"][0]["created_at"])


def test_available_points_are_those_not_promised_yet(app, person):
    someone = person(points=3)
    someone.submit("paid")
    points = someone.get("/api/points").json
    assert (points["balance"], points["available"], len(points["entries"])) == (3, 2, 1)


def test_no_answer_of_the_api_is_kept_by_others(service, person):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    someone.finished(job_id)
    for path in ("/api/kinds", "/api/jobs", f"/api/jobs/{job_id}", f"/api/jobs/{job_id}/events", "/api/points",
                 "/api/nothing", "/api/kinds/paid/precheck"):
        assert someone.get(path).headers["Cache-Control"] == "no-store", path


# --------------------------------------------------------------------------------------- who asks

def test_somebody_elses_job_does_not_exist(app, service, person):
    owner, other = person(), person()
    app.kinds["own"] = Kind(name="own", params=app.kinds["paid"].params, run=_with_files, cost=1)
    job_id = owner.submit("own").json["job"]["id"]
    owner.finished(job_id)
    paths = [("get", f"/api/jobs/{job_id}{tail}") for tail in
             ("", "/events", "/export.csv", "/export.json", "/files/a.txt")]
    paths += [("post", f"/api/jobs/{job_id}{tail}") for tail in ("/cancellation", "/retry")]
    paths += [("get", f"/jobs/{job_id}"), ("get", f"/jobs/{job_id}/report.html")]
    paths += [("post", f"/jobs/{job_id}/cancel"), ("post", f"/jobs/{job_id}/retry")]
    for method, path in paths:
        own = getattr(owner, method)(path, buffered=True)
        assert own.status_code != 404, path
        theirs, nobodys = getattr(other, method)(path), getattr(app.test_client(), method)(path)
        assert (theirs.status_code, nobodys.status_code) == (404, 404), path
        known = getattr(other, method)(path.replace(job_id, "01hzzzzzzzzzzzzzzzzzzzzzzz"))
        strip = lambda answer: re.sub(f'{job_id}|01hzz+|name="csrf_token" value="[^"]*"', "", answer.text)  # noqa: E731
        assert strip(theirs) == strip(known), f"{path} tells that the job exists"


def _with_files(job, params):
    job.save_file("a.txt", b"x", "text/plain")
    job.rows([{"a": 1}])
    return {}


def test_a_token_beats_a_cookie_and_nobody_is_made_by_looking(app, person):
    someone, client = person(), app.test_client()
    mine = client.post("/api/kinds/free/jobs", json={})
    assert "ainori=" in mine.headers["Set-Cookie"] and "HttpOnly" in mine.headers["Set-Cookie"]
    assert "SameSite=Lax" in mine.headers["Set-Cookie"] and "Secure" not in mine.headers["Set-Cookie"]
    path = mine.headers["Location"]
    assert client.get(path).status_code == 200
    assert client.get(path, headers=someone.headers).status_code == 404
    users = db.value("SELECT count(*) FROM users")
    for path in ("/api/jobs", "/api/kinds", "/api/kinds/paid/precheck", "/api/points"):
        assert "ainori=" not in app.test_client().get(path).headers.get("Set-Cookie", ""), path
    for path in ("/", "/history", "/kinds/free"):
        app.test_client().get(path)  # its forms need a cookie, and still nobody is made
    app.test_client().post("/api/kinds/free/precheck", json={})
    assert db.value("SELECT count(*) FROM users") == users


def test_a_guest_is_known_by_a_cookie_that_cannot_be_made_up(app):
    client = app.test_client()
    path = client.post("/api/kinds/free/jobs", json={}).headers["Location"]
    cookie = client.get_cookie("ainori").value
    forger = app.test_client()
    forger.set_cookie("ainori", cookie[:-3] + "abc")
    assert forger.get(path).status_code == 404
    forger.set_cookie("ainori", cookie)
    assert forger.get(path).status_code == 200


def test_a_wrong_token_is_refused_even_beside_a_good_cookie(app):
    client = app.test_client()
    client.post("/api/kinds/free/jobs", json={})
    for header in ("Bearer wrong", "Bearer ", "bearer x y", "Bearer \xff"):
        problem(client.get("/api/jobs", headers={"Authorization": header}), 401, "BAD_TOKEN")
    assert client.get("/api/jobs", headers={"Authorization": "Basic eDp5"}).status_code == 200


def test_an_unsafe_request_with_a_cookie_needs_the_pages_token(app, person):
    client = app.test_client()
    path = client.post("/api/kinds/free/jobs", json={}).headers["Location"]
    page = client.get("/").text
    token = re.search(r'name="csrf_token" value="([^"]+)"', page).group(1)
    unsafe = [("/api/kinds/free/jobs", {}), (f"{path}/cancellation", {}), (f"{path}/retry", {}), ("/kinds/free", {}),
              ("/logout", {}), ("/language", {})]
    for where, _ in unsafe:
        for headers in ({}, {"X-CSRF-Token": "wrong"}, {"X-CSRF-Token": token[:-2]}):
            refused = client.post(where, json={} if where.startswith("/api/") else None,
                                  headers={**headers, "Accept": "application/json"})
            assert problem(refused, 403, "CSRF"), where
    assert len(jobs.listing()) == 1 and jobs.listing()[0]["status"] == "pending"
    assert client.post("/api/kinds/free/jobs", json={}, headers={"X-CSRF-Token": token}).status_code == 202
    assert client.post("/api/kinds/free/jobs", data={"csrf_token": token}).status_code == 202
    assert client.post("/api/kinds/free/jobs", **form(csrf_token=token)).status_code == 202
    other = app.test_client()
    other.post("/api/kinds/free/jobs", json={})
    assert other.post("/api/kinds/free/jobs", json={}, headers={"X-CSRF-Token": token}).status_code == 403
    # A bearer needs none, even where a browser adds its cookie.
    someone = person()
    assert client.post("/api/kinds/free/jobs", json={}, headers=someone.headers).status_code == 202


@pytest.mark.parametrize("site_of_page, status", [("cross-site", 403), ("same-site", 403), ("same-origin", 202),
                                                  ("none", 202)])
def test_another_sites_page_makes_nobody_a_guest(app, site_of_page, status):
    answer = app.test_client().post("/api/kinds/free/jobs", data={}, headers={"Sec-Fetch-Site": site_of_page})
    assert answer.status_code == status
    assert db.value("SELECT count(*) FROM users") == (status == 202)
    if status == 403:
        problem(answer, 403, "CSRF")


# ----------------------------------------------------------------------------------------- uploads

@pytest.mark.parametrize("sent, kept", [
    ("comments.csv", "comments.csv"), ("../../etc/passwd", "passwd"), ("C:\\Users\\me\\a.csv", "a.csv"),
    ("日本 語.csv", "日本 語.csv"), ("a\x00b\x07.csv", "ab.csv"), ("x" * 200 + ".csv", "x" * 96 + ".csv"),
    ("..", ".."), ("/", "file"), ("   ", "file"), ("<b>.csv", "<b>.csv")])
def test_an_uploads_name_is_a_name_and_no_path(app, sent, kept):
    assert web._file_name(sent) == kept


def test_an_upload_is_kept_under_a_name_of_ours(app, person):
    someone = person()
    for name in ("../../x.csv", "a/b", "日本.csv"):
        job_id = someone.post("/api/kinds/free/jobs", **form(name=name)).json["job"]["id"]
        params = json.loads(jobs.get(job_id)["params"])
        assert params["file"]["name"] == name.rpartition("/")[2]
        assert f"{job_id}-file" in uploads(app)
    assert len(uploads(app)) == 3 and not [path for path in app.settings.folder.iterdir() if "x.csv" in path.name]


def test_an_upload_over_the_limit_is_413_and_leaves_nothing(site):
    app, someone = site(MAX_UPLOAD_MB=1)
    exactly = someone.post("/api/kinds/free/jobs", **form(b"x" * 1024 * 1024))
    assert exactly.status_code == 202
    for size in (1024 * 1024 + 1, 3 * 1024 * 1024):
        refused = someone.post("/api/kinds/free/jobs", **form(b"x" * size))
        told = problem(refused, 413, "FILE_TOO_LARGE")
        assert told["limit_mb"] == 1 and "1 MB" in told["detail"]
    assert uploads(app) == [f"{exactly.json['job']['id']}-file"] and len(jobs.listing()) == 1


def test_a_body_that_is_no_upload_is_at_most_a_megabyte(app, person):
    someone = person()
    for body, content_type in ((json.dumps({"text": "x" * 1_000_000}), "application/json"),
                               ("text=" + "x" * 1_000_000, "application/x-www-form-urlencoded")):
        refused = someone.post("/api/kinds/free/jobs", data=body, content_type=content_type)
        told = problem(refused, 413, "TEXT_TOO_LARGE")
        assert told["limit_mb"] == 1 and "file" not in told["detail"]
    assert someone.submit("free", text="x" * 900_000).status_code == 202


def test_a_form_field_too_long_for_memory_is_refused(app, person):
    someone = person()
    for sizes in ((1_000_001, 0), (600_000, 600_000)):  # one field, or all together
        refused = someone.post("/api/kinds/free/jobs", **form(**{name: "x" * size for name, size in zip("ab", sizes)}))
        assert problem(refused, 413, "TEXT_TOO_LARGE")["limit_mb"] == 1
    assert uploads(app) == [] and jobs.listing() == []
    assert someone.post("/api/kinds/free/jobs", **form(text="日本語" * 111_000)).status_code == 202


@pytest.mark.parametrize("body", [b"", b"--b", b"--c\r\n\r\nx\r\n--c--", form()["data"][:-20], form()["data"][:40],
                                  form()["data"].replace(b"\r\n\r\n", b"\r\n", 1), form()["data"].replace(b"--b", b"--B")])
def test_half_a_form_is_not_an_empty_one(app, person, body):
    someone = person()
    refused = someone.post("/api/kinds/free/jobs", data=body, content_type="multipart/form-data; boundary=b")
    if body:
        problem(refused, 400, "BAD_REQUEST")
    assert len(jobs.listing()) == (body == b"") and uploads(app) == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "", "application/octet-stream"])
def test_another_media_type_is_415(app, person, content_type):
    refused = person().post("/api/kinds/free/jobs", data="x", content_type=content_type)
    assert problem(refused, 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_refused_submit_keeps_no_file(app, person):
    someone = person(points=0)
    app.kinds["dear"] = Kind(name="dear", params=app.kinds["free"].params, run=print, cost=1, exclusive=True)
    assert someone.post("/api/kinds/dear/jobs", **form()).status_code == 402
    assert someone.post("/api/kinds/free/jobs", **form(seconds="x")).status_code == 400
    assert app.test_client().post("/api/kinds/dear/jobs", **form()).status_code == 401
    ledger.grant(someone.id, 5, "-")
    kept = someone.post("/api/kinds/dear/jobs", **form()).json["job"]["id"]
    assert someone.post("/api/kinds/dear/jobs", **form()).status_code == 409
    assert someone.post("/api/kinds/free/precheck", **form()).json["ok"]
    assert uploads(app) == [f"{kept}-file"]


def test_the_same_upload_again_by_the_same_key_is_kept_once(app, person):
    someone = person()
    answers = [someone.post("/api/kinds/free/jobs", headers={"Idempotency-Key": "k"}, **form()) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 200] and len(uploads(app)) == 1
    other = someone.post("/api/kinds/free/jobs", headers={"Idempotency-Key": "k"}, **form(b"other"))
    assert problem(other, 422, "IDEMPOTENCY_KEY_REUSED") and len(uploads(app)) == 1


# --------------------------------------------------------------------------- health, and real servers

def test_healthz_touches_no_database_and_readyz_says_what_is_wrong(app, client, monkeypatch):
    assert client.get("/healthz").json == {"status": "ok"} and client.get("/readyz").json == {"status": "ready"}
    monkeypatch.setattr(web, "disk_space_bytes", lambda folder: 1000)
    assert client.get("/readyz").json == {"status": "unavailable", "reasons": ["disk space"]}
    monkeypatch.undo()
    reader, db.store.read_connection = db.store.read_connection, sqlite3.connect(":memory:")
    db.store.read_connection.close()
    try:
        for headers in ({}, {"Authorization": "Bearer whatever"}):
            assert client.get("/healthz", headers=headers).status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503 and answer.json["reasons"][0].startswith("database")
    finally:
        db.store.read_connection = reader


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One real server for what only a real one can show."""
    server = Server(tmp_path_factory.mktemp("api"), {
        "TEST_STREAM_SECONDS": "20", "MAX_UPLOAD_MB": "2", "MAX_STREAMS_PER_USER": "2", "BUSY_SECONDS": "0.3", "DRAIN_SECONDS": "0.5",
        "KINDS": "sample"}).start()
    server.token = server.add_user(points=50)
    yield server
    server.stop()


def test_a_real_server_answers_health_while_its_file_is_locked(running):
    with _locked_elsewhere(running.database):
        assert running.get("/healthz").status == 200
        assert running.get("/readyz").status == 200  # it can be read
        assert running.post("/api/kinds/free/jobs", token=running.token).json["code"] == "BUSY"


def _raw(server, head, body=b"", token=None, close_after=None):
    """Send bytes as they are; what came back, or nothing if this end hung up after ``close_after`` bytes."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    connection.sendall(head.replace("\n", "\r\n").encode() + b"Host: x\r\nConnection: close\r\nAuthorization: Bearer "
                       + server.token.encode() + b"\r\n\r\n")
    try:
        if close_after is not None:
            connection.sendall(body[:close_after])
            time.sleep(0.3)
            return b""
        connection.sendall(body)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer
    finally:
        connection.close()


def _chunked(body, size=50_000):
    pieces = [body[n:n + size] for n in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


POST = "POST /api/kinds/free/jobs HTTP/1.1\n"
AS_FORM = "Content-Type: multipart/form-data; boundary=b\n"
CHUNKED = "Transfer-Encoding: chunked\n"


def test_an_upload_of_unknown_length_is_taken_and_bounded(running):
    answer = _raw(running, POST + AS_FORM + CHUNKED, _chunked(form(b"words")["data"]))
    assert b" 202 " in answer.split(b"\r\n")[0], answer
    job = json.loads(answer.split(b"\r\n\r\n")[1])["job"]
    running.finished(job["id"], running.token)
    assert json.loads(running.rows("SELECT params FROM jobs WHERE id = ?", job["id"])[0][0])["file"]["size"] == 5
    for content_type, size in ((AS_FORM, 4_000_000), ("Content-Type: application/json\n", 1_200_000)):
        body = _chunked(form(b"x" * size)["data"] if "multipart" in content_type else b'{"text": "' + b"x" * size + b'"}')
        answer = _raw(running, POST + content_type + CHUNKED, body)
        assert b" 413 " in answer.split(b"\r\n")[0], answer[:500]
        assert (b"FILE_TOO_LARGE" if content_type == AS_FORM else b"TEXT_TOO_LARGE") in answer, answer[:500]
    answer = _raw(running, POST + "Content-Type: text/plain\n" + CHUNKED, _chunked(b'{"text": "x"}'))
    assert b" 415 " in answer.split(b"\r\n")[0]
    _nothing_incoming(running)


def test_an_aborted_upload_leaves_nothing(running):
    before = running.rows("SELECT count(*) FROM jobs")[0][0]
    body = form(b"x" * 1_500_000)["data"]
    _raw(running, POST + AS_FORM + f"Content-Length: {len(body)}\n", body, close_after=700_000)
    _raw(running, POST + AS_FORM + CHUNKED, _chunked(body), close_after=700_000)
    _nothing_incoming(running)
    assert running.rows("SELECT count(*) FROM jobs")[0][0] == before


def test_uploads_at_once_do_not_mix(running):
    contents = [bytes([65 + n]) * (1_000_000 + n) for n in range(6)]
    asked = [gevent.spawn(running.upload, "free", f"{n}.txt", content, token=running.token)
             for n, content in enumerate(contents)]
    for content, ask in zip(contents, asked, strict=True):
        job = running.finished(ask.get().json["job"]["id"], running.token)
        file = json.loads(running.rows("SELECT params FROM jobs WHERE id = ?", job["id"])[0][0])["file"]
        assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    _nothing_incoming(running)


def test_an_upload_over_the_limit_is_answered_by_a_real_server_too(running):
    refused = running.upload("free", "x.txt", b"x" * 9_000_000, token=running.token)
    assert (refused.status, refused.json["code"], refused.json["limit_mb"]) == (413, "FILE_TOO_LARGE", 2)
    _nothing_incoming(running)


@pytest.mark.parametrize("kind, headers, status, code", [
    ("free", {"Authorization": "Bearer wrong"}, 401, "BAD_TOKEN"), ("nothing", {}, 404, "UNKNOWN_KIND"),
    ("free", {"Sec-Fetch-Site": "cross-site"}, 403, "CSRF"), ("free", {"Cookie": "ainori=x"}, 403, "CSRF"),
    ("slow", {}, 401, "LOGIN_REQUIRED")])
def test_whoever_is_refused_while_still_sending_sees_why(running, kind, headers, status, code):
    """Closing at once would reset the connection, and the client would never see the answer."""
    refused = running.upload(kind, "x.txt", b"x" * 2_000_000, headers=headers)
    assert (refused.status, refused.json["code"]) == (status, code)
    _nothing_incoming(running)


def _nothing_incoming(server, seconds=5):
    ends = time.monotonic() + seconds
    while left := [path.name for path in (server.folder / "uploads").iterdir() if path.name.startswith("incoming-")]:
        assert time.monotonic() < ends, left
        time.sleep(0.02)


# ----------------------------------------------------------------------------------------- helpers

class _locked_elsewhere:
    """Another process holds the file's write lock."""

    def __init__(self, where):
        self._path = getattr(where, "settings", None) and where.settings.database_path or where

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10); "
             "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()", str(self._path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"locked\n"

    def __exit__(self, *_):
        self._process.communicate(timeout=10)


def test_every_code_that_a_request_can_be_refused_with_has_a_status(app):
    """A refusal that nobody mapped would be answered as a bug of ours."""
    unmapped = {error.code for error in _all(AinoriError) if app.status_of(error()) == 500}
    assert unmapped == {"BAD_SETTING", "UPSTREAM_UNAVAILABLE", "AI_UNAVAILABLE", "COMMAND_FAILED", "LOST_FENCE"}
    assert "SHUTTING_DOWN" in messages._REFUSALS


def _all(error):
    for one in error.__subclasses__():
        if one.__name__ != "Refuse":
            yield type(one.__name__, (AinoriError,), {"code": one.code})
