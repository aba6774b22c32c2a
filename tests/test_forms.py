"""The form of any kind: what it asks for, what it makes of the answers, and what it keeps when it is refused."""
import datetime
import io
import json
import re
import sqlite3
from html.parser import HTMLParser
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, create_model

from tests.kinds_of_forms import Part
from webapp import accounts, create_app, db, forms, jobs, ledger, web
from webapp.errors import SettingsError
from webapp.kinds import Kind, Upload

FILLED = {
    "short": ["Ann"], "code": ["B-22"], "long": ["two\r\nlines"], "maybe": [""], "whole": ["6"], "maybe_whole": [""],
    "real": ["1.5"], "exact": ["2.25"], "ticked": ["false"], "maybe_ticked": ["false"], "choice": ["a"],
    "must_choose": ["20"], "maybe_choice": [""], "size": ["2"], "maybe_size": ["1"], "day": ["2026-12-01"],
    "clock": ["14:30"], "at": ["2026-12-01T08:15"], "aware": ["2026-12-01T08:15:30"], "naive": ["2026-12-01T08:15"],
    "address": ["https://example.org/a?b"], "mail": ["a@example.org"],
    "ident": ["12345678-1234-5678-1234-567812345678"], "tags": ["red\r\n\r\n  dark blue \r\n"], "numbers": ["1\r\n2"],
    "amounts": ["1.5"], "several": ["", "p", "r"], "sizes": ["", "2"], "hidden": ["5"]}
READ = {
    "short": "Ann", "code": "B-22", "long": "two\nlines", "maybe": None, "whole": 6, "maybe_whole": None, "real": 1.5,
    "exact": "2.25", "ticked": False, "maybe_ticked": False, "choice": "a", "must_choose": 20, "maybe_choice": None,
    "size": 2, "maybe_size": 1, "day": "2026-12-01", "clock": "14:30:00", "at": "2026-12-01T08:15:00Z",
    "aware": "2026-12-01T08:15:30Z", "naive": "2026-12-01T08:15:00", "address": "https://example.org/a?b",
    "mail": "a@example.org", "ident": "12345678-1234-5678-1234-567812345678", "tags": ["red", "dark blue"],
    "numbers": [1, 2], "amounts": ["1.5"], "several": ["p", "r"], "sizes": [2], "parts": [], "extra": {}, "hidden": 5}


class Page(HTMLParser):
    """What a browser would send of the form that starts something, untouched, and what is said of its fields."""

    def __init__(self, text):
        super().__init__()
        self.text, self.sends, self.tags, self.labels = text, {}, {}, {}
        self._inside, self._area, self._select, self._label = False, None, None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self._inside = attrs.get("id") == "form" if tag == "form" else self._inside
        if not self._inside:
            return
        name = attrs.get("name")
        if tag in ("input", "select", "textarea") and attrs.get("type") != "hidden":
            self.tags.setdefault(name, {"tag": tag, **attrs})
        if tag == "label":
            self._label = attrs["for"]
        elif tag == "input" and (attrs.get("type") != "checkbox" or "checked" in attrs) and attrs["type"] != "file":
            self.sends.setdefault(name, []).append(attrs.get("value", ""))
        elif tag == "textarea":
            self._area = name
            self.sends[name] = [""]
        elif tag == "select":
            self._select = name
        elif tag == "option" and ("selected" in attrs or self._select not in self.sends):
            self.sends[self._select] = [attrs["value"]]  # without a chosen one, a browser sends the first

    def handle_data(self, data):
        if self._area:
            self.sends[self._area] = [data.removeprefix("\n")]
        elif self._label:
            self.labels[self._label] = data.strip()
            self._label = None

    def handle_endtag(self, tag):
        self._area = None if tag == "textarea" else self._area
        self._inside = False if tag == "form" else self._inside

    def error(self, name):
        found = re.search(rf'id="f-{name}-error"><span>(.*?)</span>', self.text)
        return found and found[1]


@pytest.fixture
def app(settings):
    return create_app(settings(EXTRA_KINDS="tests.kinds,tests.kinds_of_forms", MAX_UPLOAD_MB=1))


@pytest.fixture
def signed_in(app):
    """A browser's client with an account; ``points`` of it."""
    def make(points=5):
        user_id = accounts.add_user("p@example.org", accounts.hash_password("right"), accounts.new_token())
        if points:
            ledger.grant(user_id, points, "for a test")
        client = app.test_client()
        token = re.search('name="csrf_token" value="([^"]*)"', client.get("/login").text)[1]
        assert client.post("/login", data={"email": "p@example.org", "password": "right",
                                           "csrf_token": token}).status_code == 303
        return client
    return make


def params_of(answer):
    assert answer.status_code == 303, answer.text
    return json.loads(jobs.get(answer.headers["Location"].rpartition("/")[2])["params"])


def send(client, kind, page, **changed):
    return client.post(f"/kinds/{kind}", data={**page.sends, **changed})


# --------------------------------------------------------------------------------- what is asked, and read

def test_an_untouched_form_asks_for_what_the_api_does_by_itself(client, person):
    page = Page(client.get("/kinds/everything").text)
    by_form = params_of(send(client, "everything", page, short="Ann", must_choose="10"))
    by_api = person().submit("everything", short="Ann", must_choose=10).json["job"]["id"]
    assert by_form.pop("at") == "2026-11-30T00:00:00Z"  # the same moment
    known = json.loads(jobs.get(by_api)["params"])
    assert known.pop("at") == "2026-11-30T09:00:00+09:00" and by_form == known


def test_a_link_fills_the_form_in_and_what_it_says_is_looked_at_when_it_is_sent(client):
    page = Page(client.get("/kinds/everything", query_string={**FILLED, "at": "2026-12-01T08:15"}).text)
    assert page.sends == {**{name: [text.replace("\r\n", "\n") for text in texts] for name, texts in FILLED.items()},
                          **{name: page.sends[name] for name in forms.RESERVED_FIELDS & page.sends.keys()}}
    assert params_of(send(client, "everything", page)) == READ
    untouched, one = Page(client.get("/kinds/everything").text), Page(client.get("/kinds/everything?short=Ann&whole=99").text)
    assert one.sends["short"] == ["Ann"] and one.sends["ticked"] == untouched.sends["ticked"]
    assert client.post("/kinds/everything", data=one.sends).status_code == 400


def test_a_link_fills_in_no_file_and_nothing_of_ours_and_folds_nothing_away(client):
    evil = '"><script>alert(1)</script>'
    text = client.get("/kinds/everything", query_string={"short": evil, "must_choose": evil, "form_key": "mine", "price": "0",
                                                         "tags": evil, "no_such": "NOSUCH"}).text
    assert "<script>alert" not in text and 'value="mine"' not in text and Page(text).sends["short"] == [evil]
    assert "NOSUCH" not in Page(text).sends and "data-choose-again" not in client.get("/kinds/stepping?file=/etc/passwd").text
    assert '<details class="options">' in text
    assert '<details class="options" open>' in client.get("/kinds/everything?hidden=4").text


def test_a_link_fills_in_the_form_of_the_only_kind_on_the_first_page(settings):
    client = create_app(settings(EXTRA_KINDS="")).test_client()
    assert Page(client.get("/?seconds=7").text).sends["seconds"] == ["7"]


def test_every_field_is_read_as_it_was_filled_in(client):
    page = Page(client.get("/kinds/everything").text)
    assert FILLED.keys() == page.sends.keys() - forms.RESERVED_FIELDS
    assert READ.keys() == forms.controls(client.application.kinds["everything"]).keys()
    assert params_of(send(client, "everything", page, **FILLED)) == READ


def test_the_api_reads_a_form_in_the_same_way_and_takes_what_a_form_cannot_ask(client):
    answer = client.post("/api/kinds/everything/jobs", data={**FILLED, "extra": '{"a": 1}', "parts": '[{"name": "n"}]'},
                         content_type="multipart/form-data", headers={"X-CSRF-Token": ""})
    known = json.loads(jobs.get(answer.json["job"]["id"])["params"])
    assert known == {**READ, "extra": {"a": 1}, "parts": [{"name": "n"}]}
    given = {**READ, "long": "two\nlines"}
    answer = client.post("/api/kinds/everything/precheck", json=given, headers={"X-CSRF-Token": Page(
        client.get("/kinds/everything").text).sends["csrf_token"][0]})
    assert answer.json["ok"], answer.json


def test_the_command_line_reads_them_too(app):
    texts = [f"{name}={text}" for name, given in FILLED.items() for text in given]
    done = app.test_cli_runner().invoke(args=["jobs", "run", "everything", *[part for text in [
        *texts, 'extra={"a": 1}'] for part in ("--param", text)]])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {**READ, "extra": {"a": 1}}


def test_what_the_schema_knows_the_browser_is_told(client):
    tags = Page(client.get("/kinds/everything").text).tags

    def told(name, *facts):
        return tuple(tags[name].get(fact) for fact in facts)
    assert told("short", "type", "maxlength", "placeholder") == ("text", "20", "Anna") and "required" in tags["short"]
    assert told("code", "pattern", "title") == ("[A-Z]-[0-9]+", "A letter, a dash, digits.")
    assert told("long", "tag", "maxlength") == ("textarea", "2000")
    assert told("whole", "type", "min", "max", "step") == ("number", "0", "9", "3")
    assert told("real", "min", "max", "step") == ("0", "2", "any")
    assert told("exact", "type", "min") == ("number", "1.0")
    assert [tags[name].get("type") for name in ("day", "clock", "at", "address", "mail", "ticked", "several")] == [
        "date", "time", "datetime-local", "url", "email", "checkbox", "checkbox"]
    assert [tags[name]["tag"] for name in ("tags", "must_choose", "maybe_ticked")] == ["textarea", "select", "select"]
    assert "required" in tags["must_choose"] and "required" in tags["whole"]  # emptied it would mean nothing
    assert not any("required" in tags[name] for name in ("maybe", "maybe_whole", "ticked", "tags", "mail", "clock"))
    assert "extra" not in tags and "parts" not in tags


@pytest.mark.parametrize("lang, names, said", [
    ("en", {"f-short": "Name", "f-choice": "Choice", "f-tags": "Tags", "f-several": "Pea"},
     ("In UTC.", "One on each line. At most 3.", ">Second<", ">No<")),
    ("ja", {"f-short": "名前", "f-choice": "選択", "f-tags": "タグ", "f-several": "Pea"},
     ("協定世界時（UTC）です。", "1行に1つずつ入力してください。最大3件です。", ">二番<", ">いいえ<"))])
def test_it_speaks_the_visitors_language(client, lang, names, said):
    page = Page(client.get("/kinds/everything", headers={"Accept-Language": lang}).text)
    assert {name: page.labels[name] for name in names} == names
    assert all(text in page.text for text in said), [text for text in said if text not in page.text]


def test_a_pattern_is_told_only_where_html_means_the_same():
    told = {pattern: forms._pattern({"pattern": pattern}) for pattern in (
        "^[A-Z]-[0-9]+$", "abc", "^[\\w.-]+@x$", "^(a|b)$", "^a|b$", "(?i)a", "^a")}
    assert told == {"^[A-Z]-[0-9]+$": "[A-Z]-[0-9]+", "abc": ".*abc.*", "^[\\w.-]+@x$": r"[\w.\-]+@x",
                    "^(a|b)$": "(a|b)", "^a|b$": None, "(?i)a": None, "^a": "a.*"}


class Particular(BaseModel):
    at: datetime.datetime = datetime.datetime(2026, 11, 30, 9, 15, 30, 123456)
    aware: datetime.datetime = datetime.datetime(2026, 11, 30, 9, 15, 30, 5, tzinfo=datetime.timezone.utc)
    clock: datetime.time = datetime.time(9, 15, 30, 123456, tzinfo=datetime.timezone.utc)
    perhaps: str = Field("", min_length=2)
    letters: str = Field("", pattern="^[A-Z]+$")
    preset: str = Field("ab", min_length=2)
    mixed: Literal["a", "b or c", "it's", 1] = "a"


@pytest.fixture
def particular(app):
    app.kinds["particular"] = Kind(name="particular", params=Particular, run=print)


def test_what_a_form_offers_by_itself_can_be_sent(client, particular):
    page = Page(client.get("/kinds/particular").text)
    # What a browser takes for a time: no zone, at most milliseconds.
    assert {name: page.sends[name] for name in ("at", "aware", "clock")} == {
        "at": ["2026-11-30T09:15:30.123"], "aware": ["2026-11-30T09:15:30.000"], "clock": ["09:15:30.123"]}
    params = params_of(send(client, "particular", page))
    assert (params["perhaps"], params["letters"]) == ("", "") and params["at"].startswith("2026-11-30T09:15:30.123")
    assert "required" not in page.tags["perhaps"] and "required" in page.tags["preset"]


def test_what_may_be_empty_but_not_short_says_how_long(client, particular):
    page = Page(client.get("/kinds/particular").text)
    for sent, said in (({"perhaps": "x"}, "At least 2 characters."), ({"preset": ""}, "At least 2 characters."),
                       ({"mixed": "z"}, "Must be one of: a, b or c, it&#39;s, 1.")):
        answer = send(client, "particular", page, **sent)
        assert answer.status_code == 400 and Page(answer.text).error(*sent) == said


def in_parts(texts, file=b""):
    """A form as a page sends it. (Flask's own encoder leaves files open.)"""
    parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n' for name, text in texts.items()]
    last = '--b\r\nContent-Disposition: form-data; name="file"; filename="words.txt"\r\n\r\n'
    body = "".join(parts).encode() + (last.encode() + file + b"\r\n" if file else b"") + b"--b--\r\n"
    return {"data": body, "content_type": "multipart/form-data; boundary=b"}


def test_a_text_that_is_too_long_comes_back_with_the_rest(client):
    def post(**texts):
        return client.post("/kinds/sending", **in_parts({"csrf_token": page.sends["csrf_token"][0], **texts}, b"words"))
    page = Page(client.get("/kinds/sending").text)
    assert 'enctype="multipart/form-data"' in client.get("/kinds/everything").text
    answer = post(title="x" * 600_000, tags="kept")
    assert answer.status_code == 400 and Page(answer.text).error("title") == "At most 20 characters."
    answer = post(title="kept", tags="日" * 400_000)
    assert answer.status_code == 413 and Page(answer.text).sends["title"] == ["kept"]
    assert "more text than can be sent at once: at most 1 MB" in answer.text and "file is too large:" not in answer.text
    answer = post(title="x" * 4_000_001)  # even more is not read to its end
    assert answer.status_code == 413 and "at most 4 MB" in answer.text and "file is too large:" not in answer.text
    assert jobs.listing() == []


def test_a_declared_length_can_be_sent_in_any_script(app, client, person):
    class Long(BaseModel):
        text: str = Field("", max_length=400_000)
    app.kinds["long"] = Kind(name="long", params=Long, run=print)
    page = Page(client.get("/kinds/long").text)
    form = in_parts({"csrf_token": page.sends["csrf_token"][0], "text": "𠮷" * 400_000})
    assert params_of(client.post("/kinds/long", **form))["text"] == "𠮷" * 400_000
    assert person().post("/api/kinds/long/jobs", **in_parts({"text": "𠮷" * 400_000})).status_code == 202


# ------------------------------------------------------------------------------------- refused at start

@pytest.mark.parametrize("fields, said", [
    ({"part": (Part, ...)}, "'part' that no form can ask for"),
    ({"table": (dict[str, int], ...)}, "'table' that no form can ask for"),
    ({"parts": (list[Part], ...)}, "'parts' that no form can ask for"),
    ({"files": (list[Upload], ...)}, "'files' that no form can ask for"),
    ({"any": (Any, ...)}, "'any' that no form can ask for"),
    ({"word": (SecretStr, ...)}, "'word' that no form can ask for"),
    ({"data": (bytes, ...)}, "'data' that no form can ask for"),
    ({"price": (int, 1)}, "'price': its form uses that name itself."),
    ({"what": (object, ...)}, "'what' that no form can ask for"),
    ({"call": (type(len), None)}, "params that JSON cannot hold"),
    ({"text": (str, Field("", max_length=1_000_001))}, "'text' of up to 1000001 characters: at most 1000000 can be sent."),
    ({"lines": (list[Annotated[str, Field(max_length=2_000_000)]], [])}, "'lines' of up to 2000000 characters")])
def test_a_kind_whose_form_nobody_can_fill_in_stops_the_start(settings, monkeypatch, fields, said):
    params = create_model("P", __config__={"arbitrary_types_allowed": True}, **fields)
    monkeypatch.setattr("tests.kinds_of_forms.KINDS", [Kind(name="unfillable", params=params, run=lambda job, p: {})])
    with pytest.raises(SettingsError, match=re.escape(said)) as refused:
        create_app(settings(EXTRA_KINDS="tests.kinds_of_forms"))
    assert str(refused.value).startswith("The kind 'unfillable' has ") and "\n" not in str(refused.value)


def test_what_no_form_can_ask_is_left_to_the_api_where_it_has_a_default():
    class P(BaseModel):
        part: Part = Part(name="x")
        table: dict[str, int] | None = None
    kind = Kind(name="k", params=P, run=lambda job, p: {})
    forms.refuse_what_cannot_be_filled(kind)
    assert forms.fields(kind, "en") == []


# --------------------------------------------------------------------------- what is wrong, and what is kept

WRONG = {"short": "", "code": "b", "whole": "4", "maybe_whole": "x", "real": "3", "exact": "1.234", "must_choose": "30",
         "day": "soon", "clock": "late", "at": "then", "address": "nowhere", "tags": "1\n2\n3\n4", "numbers": "1\nx",
         "hidden": "9"}


@pytest.mark.parametrize("lang, said", [
    ("en", {"short": "This is needed.", "whole": "Must be a multiple of 3.", "real": "Must be at most 2.",
            "exact": "At most 2 digits after the point.", "must_choose": "Must be one of: 10, 20.",
            "day": "This must be a date, as in 2026-11-30.", "clock": "This must be a time, as in 14:30.",
            "at": "This must be a date and a time, as in 2026-11-30T14:30.", "tags": "At most 3 are allowed.",
            "address": "This must be an address, as in https://example.org.",
            "numbers": "“x”: This must be a whole number.", "hidden": "Must be at most 5."}),
    ("ja", {"short": "必須項目です。", "numbers": "「x」：整数で入力してください。"})])
def test_each_mistake_is_told_beside_its_field_and_in_the_summary(client, lang, said):
    page = Page(client.get("/kinds/everything").text)
    answer = client.post("/kinds/everything", data={**page.sends, **WRONG}, headers={"Accept-Language": lang})
    again = Page(answer.text)
    assert answer.status_code == 400 and {name: again.error(name) for name in said} == said
    assert all(again.error(name) and f'<a href="#f-{name}">' in answer.text for name in WRONG)
    assert all(again.tags[name].get("aria-invalid") == "true" for name in WRONG)
    if lang == "ja":
        assert not any(re.search("[a-z]{4}", again.error(name)) for name in set(WRONG) - {"address"})
    kept = {name: [text] for name, text in WRONG.items() if name != "must_choose"}  # which is none of the choices
    assert {name: again.sends[name] for name in kept} == kept
    assert '<details class="options" open>' in answer.text  # one of them is folded away


def _kept(answer, kind, **more):
    """The form came back with everything that was sent, and says that the files must be chosen again."""
    page = Page(answer.text)
    wanted = {"title": ["kept <b>"], "tags": ["a\nb"], "topics": ["", "sea"], "loud": ["false"], "level": ["4"], **more}
    assert {name: page.sends.get(name) for name in wanted} == wanted
    for name in ("first.txt", "second.txt"):
        assert f"Please choose the file again: {name}" in answer.text
    return page


def _sending(page, **changed):
    return {**page.sends, "title": "kept <b>", "tags": "a\r\nb", "topics": ["", "sea"], "loud": "false", "level": "4",
            "file": ("first.txt", b"1"), "other": ("second.txt", b"2"), **changed}


def _post(client, kind, fields):
    """A form with files, as a browser sends it; whole in memory, whatever its size."""
    parts = []
    for name, given in fields.items():
        for text in given if isinstance(given, list) else [given]:
            file, content = text if isinstance(text, tuple) else (None, text.encode())
            parts.append(f'--of-the-test\r\nContent-Disposition: form-data; name="{name}"'.encode()
                         + (f'; filename="{file}"'.encode() if file else b"") + b"\r\n\r\n" + content + b"\r\n")
    return client.post(f"/kinds/{kind}", data=b"".join(parts) + b"--of-the-test--\r\n",
                       content_type="multipart/form-data; boundary=of-the-test")


def test_a_refused_form_keeps_everything_whatever_the_refusal(settings, app, signed_in, client):
    someone = signed_in(points=3)
    page = Page(someone.get("/kinds/dear").text)

    def refused(status, who=someone, kind="dear", **changed):
        answer = _post(who, kind, _sending(page, **changed))
        assert answer.status_code == status
        return answer
    _kept(refused(400, tags=["a", "b", "c"]), "dear", tags=["a\nb\nc"])
    _kept(refused(403, csrf_token="stale"), "dear")
    _kept(refused(413, kind="sending", file=("first.txt", b"x" * (3 << 20))), "sending")
    assert _kept(refused(409, price="2"), "dear").sends["price"] == ["3"]
    page = Page(client.get("/kinds/dear").text)
    asked = refused(401, who=client)
    _kept(asked, "dear")
    assert '<a href="/login?next=/kinds/dear">Sign in</a>' in asked.text
    page = Page(someone.get("/kinds/dear").text)
    assert refused(303).headers["Location"].startswith("/jobs/")
    way = jobs.listing()[0]["id"]
    in_the_way = refused(409, title="other")
    _kept(in_the_way, "dear", title=["other"])
    assert f'No points were used for this request. <a href="/jobs/{way}">See it</a>' in in_the_way.text
    jobs.signals.draining = True
    _kept(refused(503), "dear")
    jobs.signals.draining = False
    other = sqlite3.connect(db.store.path, isolation_level=None)
    db.store.busy_seconds = 0.1
    other.execute("BEGIN IMMEDIATE")
    _kept(refused(503, kind="sending"), "sending")
    other.execute("ROLLBACK")
    other.close()
    assert len(jobs.listing()) == 1 and len(list((db.store.path.parent / "uploads").iterdir())) == 2


def test_too_many_attempts_of_a_guest_keep_the_form(settings):
    client = create_app(settings(EXTRA_KINDS="tests.kinds_of_forms", RATE_GUEST_SUBMIT="1/hour")).test_client()
    page = Page(client.get("/kinds/sending").text)
    assert _post(client, "sending", _sending(page)).status_code == 303
    answer = _post(client, "sending", _sending(page, title="kept <b>", form_key="another"))
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0
    _kept(answer, "sending")


def test_a_refusal_of_a_field_stands_beside_it(client):
    page = Page(client.get("/kinds/sending").text)
    answer = _post(client, "sending", _sending(page, title="refused"))
    assert answer.status_code == 400 and Page(answer.text).error("file") == "Not this file."
    too_large = _post(client, "sending", _sending(page, other=("big.txt", b"x" * (3 << 20))))
    assert too_large.status_code == 413
    assert Page(too_large.text).error("other") == "The file is too large: at most 1 MB. Nothing was stored."


def test_an_upload_that_is_much_too_large_fills_no_disk(app):
    with app.test_request_context():
        incoming = web.Incoming(app.settings.folder / "uploads")
    for _ in range(6):
        incoming.write(b"x" * (1 << 19))
    incoming.complete()
    stored_bytes = incoming.path.stat().st_size
    incoming.discard()
    assert incoming.size == 3 << 20 and stored_bytes == 1 << 20


def test_the_sample_from_a_card_has_the_defaults(settings):
    client = create_app(settings(KINDS="comments,sample")).test_client()
    card = re.search(r'<form method="post" action="/kinds/comments".*?</form>', client.get("/").text, re.DOTALL)[0]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', card))
    known = params_of(client.post("/kinds/comments", data=fields))
    assert known["include_replies"] is True and known["file"]["name"] == "sample.csv"


# ----------------------------------------------------------------------------- what is said before it is pressed

def test_how_many_points_are_missing_is_said(app, person, signed_in):
    answer = person(points=1).post("/api/kinds/dear/jobs", data={"file": (io.BytesIO(b"1"), "a.txt")})
    assert (answer.status_code, answer.json["cost"], answer.json["balance"], answer.json["missing"]) == (402, 3, 1, 2)
    assert "2 more are needed" in answer.json["title"]
    someone = signed_in(points=2)
    page = Page(someone.get("/kinds/dear").text)
    assert 'Costs 3 points; you have 2. 1 more is needed. <a href="/points">' in page.text
    assert "disabled" not in page.text
    refused = _post(someone, "dear", _sending(page))
    assert refused.status_code == 402 and "1 more is needed" in refused.text and '<a href="/points">' in refused.text
    _kept(refused, "dear")


def test_one_in_flight_and_signing_in_are_said_before_the_button_is_pressed(client, signed_in):
    assert '<a href="/login?next=/kinds/dear">Sign in first.</a>' in client.get("/kinds/dear").text
    someone = signed_in()
    page = Page(someone.get("/kinds/dear").text)
    assert "in progress already" not in page.text
    way = _post(someone, "dear", _sending(page)).headers["Location"]
    told = someone.get("/kinds/dear").text
    assert f'it has to end before the next can start. <a href="{way}">See it</a>' in told
    assert "disabled" not in told and "in progress already" not in client.get("/kinds/dear").text


def test_the_schema_shows_every_upload_as_a_file(client):
    listed = {kind["name"]: kind for kind in client.get("/api/kinds").json["kinds"]}["sending"]["params"]["properties"]
    assert [listed[name]["format"] for name in ("file", "other")] == ["binary", "binary"]


@pytest.mark.parametrize("key, closed", [("", True), ("a-key-of-the-usual-form", False)])
@pytest.mark.parametrize("lang, why", [("en", "upload a file instead"), ("ja", "代わりにファイルを")])
def test_what_a_site_cannot_take_is_closed_and_says_why(settings, key, closed, lang, why):
    client = create_app(settings(KINDS="comments", EXTRA_KINDS="", YOUTUBE_API_KEY=key)).test_client()
    page = client.get("/kinds/comments", headers={"Accept-Language": lang}).text
    (video,) = re.findall(r"<input[^>]*name=\"video\"[^>]*>", page)
    assert (" disabled" in video) == closed == (why in page)
    assert (page.index('name="video"') > page.index('name="file"')) == closed, "below what can be used"
