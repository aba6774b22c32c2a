"""Accounts by the people themselves: what begins a session, what ends it, what is kept and what is forgotten."""
import html
import json
import re
import unicodedata
from urllib.parse import urlencode

import pytest

from tests.conftest import Person
from webapp import accounts, create_app, db, jobs, ledger, recovery, web
from webapp.errors import LoginRequired

EMAIL, PASSWORD = "p@example.org", "a short sentence"
DAY, HOUR = 86400, 3600


class Browser:
    """A browser with its own cookies, which sends the forms of the pages it is shown."""

    def __init__(self, app):
        self.client, self.page = app.test_client(), None

    def get(self, path, **headers):
        answer = self.client.get(path, headers=headers)
        self.page = answer.text
        return answer

    def send(self, path, form=None, **fields):
        """Open ``form`` (or the account's page), then send the form at ``path``."""
        self.get(form or "/account")
        return self.post(path, **fields)

    def post(self, path, **fields):
        token = re.search(r'name="csrf_token" value="([^"]*)"', self.page).group(1)
        answer = self.client.post(path, data={"csrf_token": token, **fields})
        self.page = answer.text or self.page
        return answer

    def register(self, email=EMAIL, password=PASSWORD, **fields):
        return self.send("/register", "/register", email=email, password=password, **fields)

    def sign_in(self, email=EMAIL, password=PASSWORD, **fields):
        return self.send("/login", "/login", email=email, password=password, **fields)

    def signed_in_as(self):
        found = re.search(r'<p class="lead">([^< ·]+@[^< ·]+)', self.get("/account").text)
        return found and found.group(1)

    @property
    def cookie(self):
        return self.client.get_cookie("ainori").value


@pytest.fixture
def browser(app):
    return lambda app=app: Browser(app)


def user(email=EMAIL):
    return db.one("SELECT * FROM users WHERE email = ?", (email,))


# ---------------------------------------------------------------------------------------- registering

def test_who_registers_is_signed_in_and_has_the_welcome_points(browser):
    someone = browser()
    assert someone.register(next="/points").headers["Location"] == "/points"
    assert someone.signed_in_as() == EMAIL
    entries = ledger.statement(user()["id"])
    assert [(entry["kind"], entry["points"], entry["note"]) for entry in entries] == [("grant", 3, "Welcome points")]


def test_welcome_points_can_be_none(settings, browser):
    someone = browser(create_app(settings(WELCOME_POINTS=0)))
    someone.register()
    assert someone.signed_in_as() == EMAIL and ledger.statement(user()["id"]) == []


def test_what_a_guest_started_is_theirs_after_registering(browser):
    someone = browser()
    job_id = someone.send("/kinds/free", "/kinds/free", text="mine", form_key="k").headers["Location"].rpartition("/")[2]
    someone.register()
    assert job_id in someone.get("/history").text and someone.get(f"/jobs/{job_id}").status_code == 200


def test_a_second_press_signs_in_and_a_stranger_does_not_get_in(browser):
    browser().register()
    again, stranger = browser(), browser()
    assert again.register(email=EMAIL.upper()).status_code == 303 and again.signed_in_as() == EMAIL
    refused = stranger.register(password="another sentence")
    assert refused.status_code == 400 and "has an account already" in refused.text and stranger.signed_in_as() is None
    assert len(ledger.statement(user()["id"])) == 1, "welcome points are granted once"


@pytest.mark.parametrize("email, password, said", [
    ("nobody", PASSWORD, "is not an e-mail address"), ("a@b@c", PASSWORD, "is not an e-mail address"),
    ("@example.org", PASSWORD, "is not an e-mail address"), ("a b@example.org", PASSWORD, "is not an e-mail address"),
    ("a\x01@example.org", PASSWORD, "is not an e-mail address"), ("x" * 255 + "@a", PASSWORD, "is not an e-mail address"),
    (EMAIL, "seven77", "At least 8 characters"),
    (EMAIL, "x" * 1001, "At most 1000 characters"), (EMAIL, "aaaaaaaaaa", "too easy to guess"),
    (EMAIL, EMAIL.upper(), "too easy to guess")])
def test_bad_input_says_what_to_do_and_keeps_the_address(browser, email, password, said):
    someone = browser()
    answer = someone.register(email, password)
    assert answer.status_code == 400 and said in html.unescape(answer.text)
    assert f'value="{html.escape(email)}"' in answer.text and 'aria-invalid="true"' in answer.text
    assert db.value("SELECT count(*) FROM users") == 0


def test_only_accounts_that_are_made_count_against_an_address(settings, browser):
    app = create_app(settings(RATE_REGISTER="2/hour"))
    for _ in range(4):
        assert browser(app).register(password="short").status_code == 400
    assert browser(app).register("a@example.org").status_code == 303
    assert browser(app).register("b@example.org").status_code == 303
    refused = browser(app).register("c@example.org")
    assert refused.status_code == 429 and "Too many requests" in refused.text and 'value="c@example.org"' in refused.text


def test_where_registration_is_closed_the_operator_makes_accounts(settings, browser):
    app = create_app(settings(REGISTRATION="closed"))
    someone = browser(app)
    assert "/register" not in someone.get("/login").text
    answer = someone.get("/register")
    assert answer.status_code == 403 and "whoever runs it" in answer.text
    assert someone.post("/register", email=EMAIL, password=PASSWORD).status_code == 403
    assert user() is None


# ------------------------------------------------------------------------------------------- sessions

def test_nothing_of_a_session_before_signing_in_is_kept(browser):
    browser().register()
    someone = browser()
    someone.get("/kinds/free")
    page = someone.page
    someone.post("/kinds/free", text="x", form_key="k")
    before = someone.cookie
    someone.sign_in()
    assert someone.cookie != before
    stale = re.search(r'name="csrf_token" value="([^"]*)"', page).group(1)
    assert someone.client.post("/logout", data={"csrf_token": stale}).status_code == 403
    assert someone.signed_in_as() == EMAIL
    planted = browser()
    planted.client.set_cookie("ainori", before)
    assert planted.signed_in_as() is None


def test_signing_out_ends_every_copy_of_the_cookie_and_no_other_browser(app, browser):
    phone, laptop, thief = browser(), browser(), browser()
    phone.register()
    laptop.sign_in()
    thief.client.set_cookie("ainori", laptop.cookie)
    assert thief.signed_in_as() == EMAIL
    assert laptop.send("/logout").status_code == 303
    assert laptop.signed_in_as() is None and thief.signed_in_as() is None and phone.signed_in_as() == EMAIL


def test_signing_out_everywhere(browser):
    phone, laptop, other = browser(), browser(), browser()
    phone.register()
    laptop.sign_in()
    other.register("other@example.org")
    assert "In 2 browsers" in phone.get("/account").text
    phone.post("/logout", everywhere="1")
    assert phone.signed_in_as() is None and laptop.signed_in_as() is None
    assert other.signed_in_as() == "other@example.org"


@pytest.mark.parametrize("seconds, who", [(365 * DAY - 1, EMAIL), (365 * DAY, None), (365 * DAY + 1, None)])
def test_a_session_lasts_a_year(clock, browser, seconds, who):
    someone = browser()
    someone.register()
    session = db.value("SELECT id FROM sessions")
    clock(seconds)
    found = accounts.by_session(session)
    assert (found and found["email"]) == who


def test_of_too_many_sessions_the_oldest_end(app):
    user_id = accounts.add_user(EMAIL, None)
    for n in range(accounts.SESSIONS_MAX + 2):
        accounts.sign_in(user_id, f"session {n}")
    assert [accounts.by_session(f"session {n}") is not None for n in (0, 1, 2, accounts.SESSIONS_MAX + 1)] == [
        False, False, True, True]


def test_an_account_is_never_known_by_its_number_alone(app, browser):
    user_id = accounts.add_user(EMAIL, None)
    someone = browser()
    with someone.client.session_transaction() as session:
        session["user_id"] = user_id
    assert someone.signed_in_as() is None and someone.client.get("/api/points").status_code == 401


@pytest.mark.parametrize("goal", ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example",
                                  "\\/evil.example", "/ /evil.example", "javascript:alert(1)", "%2f%2fevil"])
def test_signing_in_leads_nowhere_else(browser, goal):
    someone = browser()
    someone.register()
    for path in ("/login", "/register"):
        answer = someone.client.get(path, query_string={"next": goal})
        assert answer.status_code == 303 and answer.headers["Location"] == "/"


# --------------------------------------------------------------------------------------- the account

def test_a_new_password_ends_the_other_sessions(browser):
    here, elsewhere = browser(), browser()
    here.register()
    elsewhere.sign_in()
    wrong = here.send("/account/password", current_password="guessed it", password="another sentence")
    assert wrong.status_code == 403 and "not your password" in wrong.text
    short = here.send("/account/password", current_password=PASSWORD, password="short")
    assert short.status_code == 400 and "At least 8" in short.text
    assert elsewhere.signed_in_as() == EMAIL
    assert here.send("/account/password", current_password=PASSWORD, password="another sentence").status_code == 303
    assert here.signed_in_as() == EMAIL and elsewhere.signed_in_as() is None
    assert browser().sign_in().status_code == 401 and browser().sign_in(password="another sentence").status_code == 303


def test_a_new_address(browser):
    here = browser()
    here.register()
    browser().register("taken@example.org")
    taken = here.send("/account/email", email="Taken@example.org", current_password=PASSWORD)
    assert taken.status_code == 400 and "has an account already" in taken.text
    assert here.send("/account/email", email="P@example.org", current_password=PASSWORD).status_code == 303
    assert here.send("/account/email", email="new@example.org", current_password=PASSWORD).status_code == 303
    assert here.signed_in_as() == "new@example.org" and browser().sign_in().status_code == 401


def test_an_access_token_is_shown_once_replaced_and_removed(app, browser):
    here = browser()
    here.register()
    made = re.search(r"ain_[\w-]+", here.send("/account/token").text).group(0)
    assert made not in here.get("/account").text
    asks = lambda token: app.test_client().get("/api/points", headers={"Authorization": f"Bearer {token}"})  # noqa: E731
    assert asks(made).json["balance"] == 3
    second = re.search(r"ain_[\w-]+", here.send("/account/token").text).group(0)
    assert asks(made).status_code == 401 and asks(second).status_code == 200
    here.send("/account/token", remove="1")
    assert asks(second).status_code == 401


def test_every_change_needs_the_token_of_its_page(app, browser):
    here = browser()
    here.register()
    paths = [rule.rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith("auth.") and "POST" in rule.methods]
    assert len(paths) >= 9
    for path in paths:
        if path not in ("/login", "/register", "/reset", "/setup"):
            answer = here.client.post(path, data={"current_password": PASSWORD, "password": "another sentence"})
            assert answer.status_code == 403, path
    assert here.signed_in_as() == EMAIL


def test_who_is_not_signed_in_has_no_account_page(app, browser):
    stranger = browser()
    assert stranger.get("/account").headers["Location"].startswith("/login?next=")
    stranger.get("/login")
    for path in ("/account/email", "/account/password", "/account/token", "/account/delete"):
        assert stranger.post(path).status_code == 401, path


# ---------------------------------------------------------------------------------- one-time links

@pytest.mark.parametrize("seconds, works", [(0, True), (24 * HOUR - 1, True), (24 * HOUR, False), (24 * HOUR + 1, False)])
def test_a_link_sets_a_new_password_within_a_day(clock, browser, seconds, works):
    browser().register()
    accounts.set_reset(user()["id"], "one-time")
    clock(seconds)
    someone = browser()
    assert someone.get("/reset?token=one-time").status_code == (200 if works else 410)
    if works:
        assert someone.post("/reset", token="one-time", password="another sentence").status_code == 303
        assert someone.signed_in_as() == EMAIL


def test_a_link_works_once_ends_every_session_and_is_replaced_by_the_next(browser):
    here, someone = browser(), browser()
    here.register()
    accounts.set_reset(user()["id"], "first")
    accounts.set_reset(user()["id"], "second")
    assert someone.get("/reset?token=first").status_code == 410
    someone.get("/reset?token=second")
    assert someone.post("/reset", token="second", password="short").status_code == 400  # and is not used up by that
    assert someone.post("/reset", token="second", password="another sentence").status_code == 303
    assert someone.signed_in_as() == EMAIL and here.signed_in_as() is None
    assert browser().get("/reset?token=second").status_code == 410
    assert "one-time" not in json.dumps([dict(row) for row in db.rows("SELECT * FROM users")])


def test_without_a_link_it_is_said_how_to_come_by_one(settings, browser):
    answer = browser(create_app(settings(SUPPORT_CONTACT="help@example.org"))).get("/reset")
    assert answer.status_code == 200 and "help@example.org" in answer.text


def test_a_password_lost_and_set_again_through_a_real_server(server):
    running = server(REGISTRATION="closed")
    running.add_user(EMAIL, points=2)
    link = running.flask("users", "reset", EMAIL).stdout.strip()
    assert re.fullmatch(rf"http://localhost:{running.port}/reset\?token=[\w-]+", link)
    page = running.get(link.partition(str(running.port))[2])
    assert page.status == 200 and EMAIL in page.text


def _setup_tokens(running):
    """Those that its log names, from the first start to the latest."""
    assert running.get("/healthz").status == 200  # it serves: all that a start says is said
    return re.findall(rf"http://localhost:{running.port}/setup\?token=([\w-]+)", running.log.read_text())


def test_the_first_operator_is_made_by_the_address_in_the_log(server):
    running = server()
    (first,) = _setup_tokens(running)
    assert running.get(f"/setup?token={first}x").status == 410
    running.kill()
    token = _setup_tokens(running.start())[-1]
    assert token != first and running.get(f"/setup?token={first}").status == 410
    page = running.get(f"/setup?token={token}")
    fields = {"token": token, "email": EMAIL, "password": PASSWORD,
              "csrf_token": re.search(r'name="csrf_token" value="([^"]*)"', page.text).group(1)}
    answer = running.request("POST", "/setup", urlencode(fields).encode(), headers={
        "Cookie": page.headers["Set-Cookie"].partition(";")[0], "Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status == 200  # after the redirect
    assert [row["email"] for row in running.rows("SELECT email FROM users WHERE is_admin = 1")] == [EMAIL]
    assert running.get(f"/setup?token={token}").status == 410
    running.kill()
    assert _setup_tokens(running.start())[-1] == token, "with an operator there is no address any more"


def test_an_account_there_is_becomes_the_operators_only_by_its_password(app, browser):
    browser().register()
    app.setup_token = "from the log"
    someone = browser()
    someone.get("/setup?token=from+the+log")
    assert someone.post("/setup", token="from the log", email=EMAIL, password="a wrong one").status_code == 400
    assert not accounts.has_admin()
    assert someone.post("/setup", token="from the log", email=EMAIL, password=PASSWORD).status_code == 303
    assert user()["is_admin"] == 1


# ------------------------------------------------------------------------------------------- deleting

def _asked(kind, user_id, **params):
    order = jobs.order(kind, kind.params(**params), jobs.Asker(user_id, False), settings={})
    return jobs.submit(order, max_pending=100).job_id


def _finished(kind, user_id, **params):
    job_id = _asked(kind, user_id, **params)
    if jobs.claim("a worker", [kind.name], job_id=job_id):
        jobs.charge(job_id, 1)
        jobs.succeed(job_id, 1, '{"private": "answer"}')
    return job_id


def test_a_deleted_account_is_forgotten_and_its_ledger_stays(app, browser, person):
    here, other = browser(), person()
    here.register()
    user_id = user()["id"]
    paid, both = _finished(app.kinds["paid"], user_id), _finished(app.kinds["shared"], user_id, text="ours")
    assert _finished(app.kinds["shared"], other.id, text="ours") == both
    entries = ledger.statement(user_id)
    assert "2 points are lost" in here.get("/account").text
    assert here.send("/account/delete", current_password="guessed it").status_code == 403
    assert here.send("/account/delete", current_password=PASSWORD).status_code == 303
    recovery.expire(30)
    assert here.signed_in_as() is None and browser().sign_in().status_code == 401
    row = accounts.by_id(user_id)
    assert row["deleted_at"] and not any(row[name] for name in ("email", "password_hash", "token_hash", "is_admin"))
    assert ledger.statement(user_id) == entries and ledger.audit() == []
    assert jobs.get(paid)["result"] is None and jobs.get(paid)["params"] == "{}"
    assert other.job(both)["result"] == {"private": "answer"}, "who asked for the same keeps it"
    assert f"deleted account {user_id}" in {row["user"] for row in db.rows("SELECT user FROM v_statement")}
    assert browser().register().status_code == 303, "the address is free again"


def test_an_account_with_work_in_flight_is_not_deleted(app, browser):
    here = browser()
    here.register()
    job_id = _asked(app.kinds["slow"], user()["id"])
    answer = here.send("/account/delete", current_password=PASSWORD)
    assert answer.status_code == 409 and f"/jobs/{job_id}" in answer.text and here.signed_in_as() == EMAIL


# ------------------------------------------------------------------------------------------- language

def test_language_by_account_then_cookie_then_browser(browser):
    here, elsewhere = browser(), browser()
    japanese = {"Accept-Language": "ja"}
    lang = lambda who, **headers: re.search(r'<html lang="(\w+)"', who.get("/", **headers).text).group(1)  # noqa: E731
    assert lang(here) == "en" and lang(here, **japanese) == "ja"
    here.register()
    assert lang(here, **japanese) == "en", "the account's, which is the one it was made in"
    here.send("/language", lang="ja")
    elsewhere.sign_in()
    assert lang(elsewhere) == "ja", "an account takes its language along"
    assert user()["lang"] == "ja"
    stranger = browser()
    stranger.send("/language", "/login", lang="ja")
    assert lang(stranger) == "ja", "a cookie"


def test_a_program_is_answered_in_the_language_it_asks_for(app):
    someone = Person(app, EMAIL, 0)
    accounts.set_lang(someone.id, "ja")
    title = lambda **headers: someone.get("/api/jobs/none", headers=headers).json["title"]  # noqa: E731
    assert title(**{"Accept-Language": "en"}).startswith("This does not exist")
    assert not title().isascii()


# --------------------------------------------------------------------------- what may come in between

class Upload:
    """A form with a file whose rest comes when the test says so: who asks is known long before."""

    def __init__(self, browser, path, fields, between):
        page = browser.get(path).text
        token = re.search(r'name="csrf_token" value="([^"]*)"', page).group(1)
        parts = {"csrf_token": token, "form_key": "k", "price": re.search(r'name="price" value="(\d*)"', page).group(1),
                 **fields}
        self.body = "".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
                            for name, value in parts.items()).encode() + b"--b--\r\n"
        self.between, self.at = between, 0

    def read(self, size=-1):
        if self.at == 0:
            self.at = 20
            return self.body[:20]
        if self.between is not None:
            between, self.between = self.between, None
            between()
        first, self.at = self.at, len(self.body) if size < 0 else min(len(self.body), self.at + size)
        return self.body[first:self.at]

    def send(self, browser, path):
        return browser.client.post(path, environ_overrides={
            "wsgi.input": self, "CONTENT_TYPE": "multipart/form-data; boundary=b", "CONTENT_LENGTH": str(len(self.body))})


@pytest.mark.parametrize("how", ["signed out everywhere", "deleted", "still there"])
def test_a_slow_request_does_not_outlive_its_session_or_account(app, browser, how):
    here = browser()
    here.register()
    user_id = user()["id"]
    between = {"signed out everywhere": lambda: accounts.sign_out_everywhere(user_id),
               "deleted": lambda: accounts.delete(user_id), "still there": lambda: None}[how]
    answer = Upload(here, "/kinds/slow", {"text": "mine"}, between).send(here, "/kinds/slow")
    if how == "still there":
        assert answer.status_code == 303 and len(jobs.listing()) == 1
    else:
        assert answer.status_code == 401 and jobs.listing() == [] and len(ledger.statement(user_id)) == 1


def test_what_a_guest_sent_while_registering_elsewhere_is_the_accounts(app, browser):
    here = browser()
    here.send("/kinds/free", "/kinds/free", text="first", form_key="a")
    guest = db.value("SELECT id FROM users WHERE email IS NULL")

    def register_in_another_tab():
        accounts.register(EMAIL, None, "session", lang="en", welcome_points=3, guest_id=guest)
    answer = Upload(here, "/kinds/free", {"text": "late"}, register_in_another_tab).send(here, "/kinds/free")
    assert answer.status_code == 303 and "Set-Cookie" not in answer.headers, "the fresh sign-in's cookie stays"
    assert jobs.visible(answer.headers["Location"].rpartition("/")[2], user()["id"])
    paid = Upload(here, "/kinds/free", {"text": "x"}, None)
    assert here.signed_in_as() is None and paid.send(here, "/kinds/slow").status_code == 401, "a guest's cookie pays nothing"


def test_a_row_of_a_deleted_account_gets_no_work(app):
    gone = accounts.add_user(EMAIL, None)
    kind = app.kinds["free"]
    accounts.delete(gone)
    with pytest.raises(LoginRequired):
        _asked(kind, gone)


def test_history_of_a_guest_is_kept_whole_also_what_they_had_left(app, browser, person):
    here, owner = browser(), person()
    both = owner.submit("shared", text="ours").json["job"]["id"]
    here.send("/kinds/shared", "/kinds/shared", text="ours", form_key="k")
    guest = db.value("SELECT id FROM users WHERE email IS NULL")
    assert jobs.cancel(both, guest) == "left"
    here.register()
    assert both in here.get("/history").text and here.get(f"/jobs/{both}").status_code == 200


def test_shared_work_that_others_wait_for_keeps_no_account(app, browser, person):
    here, other = browser(), person()
    here.register()
    both = _asked(app.kinds["shared"], user()["id"], text="ours")
    assert here.send("/account/delete", current_password=PASSWORD).status_code == 409
    assert other.submit("shared", text="ours").json["joined"]
    assert here.send("/account/delete", current_password=PASSWORD).status_code == 303
    assert other.job(both)["status"] == "pending"


def test_the_only_operator_stays(browser):
    here, second = browser(), browser()
    here.register()
    accounts.make_first_admin(user()["id"])
    told = here.send("/account/delete", current_password=PASSWORD)
    assert told.status_code == 409 and "only operator" in told.text and accounts.has_admin()
    second.register("second@example.org")
    accounts.set_admin(user("second@example.org")["id"], True)
    jobs.pause_kind("free", EMAIL, "")
    assert here.send("/account/delete", current_password=PASSWORD).status_code == 303
    assert EMAIL not in jobs.pauses()["free"]["paused_by"]


# ------------------------------------------------------------------------------------ access tokens

def test_a_token_reads_and_works_but_changes_no_account(app, person):
    someone = person()
    assert someone.get("/account").status_code == 200
    for path in ("/account/token", "/account/password", "/account/email", "/account/delete", "/logout"):
        answer = someone.post(path, data={"everywhere": "1", "remove": "1"}, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json["code"]) == (403, "SESSION_REQUIRED"), path
    accounts.set_admin(someone.id, True)
    assert someone.get("/admin").status_code == 200
    assert someone.post(f"/admin/user/{someone.id}/reset").status_code == 403
    assert someone.get("/api/points").status_code == 200


def test_a_password_set_by_a_link_ends_the_token_too(app, browser):
    here = browser()
    here.register()
    token = re.search(r"ain_[\w-]+", here.send("/account/token").text).group(0)
    accounts.set_reset(user()["id"], "one-time")
    other = browser()
    other.get("/reset?token=one-time")
    other.post("/reset", token="one-time", password="another sentence")
    assert app.test_client().get("/api/points", headers={"Authorization": f"Bearer {token}"}).status_code == 401


# ------------------------------------------------------------------------------------------- the rest

def test_back_after_signing_out_shows_nothing(browser):
    here = browser()
    assert "no-store" not in here.get("/").headers["Cache-Control"]
    here.register()
    for path in ("/", "/history", "/points", "/account", "/kinds/free", "/nowhere", "/status"):
        assert here.get(path).headers["Cache-Control"] == "no-store", path


def test_signing_out_twice_is_no_error(browser):
    here = browser()
    here.register()
    here.get("/account")
    page = here.page
    here.post("/logout")
    here.page = page
    assert here.post("/logout").status_code == 303


@pytest.mark.parametrize("typed", ["ｐ＠ｅｘａｍｐｌｅ．ｏｒｇ", " p@example.org ", "P@Example.org"])
def test_an_address_is_the_same_from_every_keyboard(browser, typed):
    browser().register()
    assert browser().sign_in(typed).status_code == 303


def test_a_password_is_the_same_however_its_characters_are_composed(browser):
    browser().register(password=unicodedata.normalize("NFC", "がんばるÄ１２34"))
    assert browser().sign_in(password=unicodedata.normalize("NFD", "がんばるÄ1234")).status_code == 303


def test_a_long_address_is_not_shown_whole(browser):
    assert "x" * 100 not in re.sub('value="[^"]*"', "", browser().register("x" * 5000).text)


def test_an_ipv6_home_is_one_client(settings, browser):
    app = create_app(settings(RATE_SIGN_IN="3/minute", PROXY_HOPS=1))
    def tries(address):
        client = app.test_client()
        page = client.get("/login").text
        token = re.search(r'name="csrf_token" value="([^"]*)"', page).group(1)
        return client.post("/login", data={"csrf_token": token, "email": EMAIL, "password": "x"},
                           headers={"X-Forwarded-For": address})
    assert [tries(f"2001:db8::{n}").status_code for n in range(1, 6)] == [401, 401, 401, 429, 429]
    assert tries("2001:db8:0:1::1").status_code == 401
    assert [tries(f"::ffff:192.0.2.{n}").status_code for n in (1, 1, 1, 1, 2)] == [401, 401, 401, 429, 401]
    assert int(tries("2001:db8::9").headers["Retry-After"]) > 0


def test_wrong_passwords_for_one_account_are_counted_over_all_addresses(settings, browser, monkeypatch):
    monkeypatch.setattr(web, "GUESSES_RATE", "3/hour")
    app = create_app(settings(RATE_SIGN_IN="1000/minute"))
    browser(app).register()
    assert [browser(app).sign_in(password=f"wrong {n}").status_code for n in range(5)] == [401, 401, 401, 429, 429]
    assert browser(app).sign_in("other@example.org", "wrong").status_code == 401
