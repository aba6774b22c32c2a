"""What is said: in both languages, complete, with the fixed claims about points, and never the word job."""
import ast
import configparser
import io
import json
import re
from datetime import datetime, timezone
from html.parser import HTMLParser

import jinja2
import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from freezegun import freeze_time
from jinja2 import nodes

from tests.conftest import ROOT, Person
from webapp import create_app, db, jobs, messages

LANGUAGES = ("en", "ja")
CATALOGUES = ROOT / "webapp" / "translations"
BUILT_IN_KINDS = sorted(path.stem for path in (ROOT / "webapp" / "kinds").iterdir()
                        if path.suffix == ".py" and path.stem != "__init__" or (path / "__init__.py").is_file())
THE_WORD = re.compile(r"\bjobs?\b|ジョブ", re.IGNORECASE)


# ------------------------------------------------------------------------------------ the catalogue

@pytest.fixture(scope="module")
def extracted():
    """Every text of the code and the templates, as the catalogue names it: a text, or a tuple of plural forms."""
    config = configparser.ConfigParser()
    config.read(ROOT / "babel.cfg", encoding="utf-8")
    methods = [(pattern.strip(), method.strip()) for method, pattern in
               (section.split(":", 1) for section in config.sections())]
    found = {message[2] for message in extract_from_dir(ROOT, methods)}
    assert len(found) > 200 and "The work was interrupted. No points were used." in found
    return found


@pytest.fixture(scope="module")
def japanese():
    with (CATALOGUES / "ja" / "LC_MESSAGES" / "messages.po").open("rb") as file:
        return read_po(file, "ja")


def forms(text):
    return text if isinstance(text, tuple) else (text,)


def placeholders(text):
    return set(re.findall(r"%\((\w+)\)[a-z]", text))


def test_every_text_is_translated(extracted, japanese):
    missing = [text for text in extracted
               if japanese.get(text) is None or japanese.get(text).fuzzy or not all(forms(japanese.get(text).string))]
    assert not missing, f"run make messages and translate: {missing}"
    assert not japanese.obsolete
    no_longer_used = [message.id for message in japanese if message.id and message.id not in extracted]
    assert not no_longer_used, f"run make messages: {no_longer_used}"


def test_the_compiled_catalogue_is_up_to_date(japanese):
    compiled = io.BytesIO()
    write_mo(compiled, japanese)
    stored = (CATALOGUES / "ja" / "LC_MESSAGES" / "messages.mo").read_bytes()
    assert stored == compiled.getvalue(), "run make messages"


def test_every_translation_has_the_placeholders_of_its_text(japanese):
    for message in japanese:
        names = set().union(*map(placeholders, forms(message.id)))
        for text in forms(message.string) if message.id else ():
            assert placeholders(text) == names, (message.id, text)
            if names:
                assert "%" not in text % dict.fromkeys(names, "")


def test_japanese_punctuation_is_full_width_and_its_digits_are_not(japanese):
    for message in japanese:
        for text in forms(message.string) if message.id else ():
            assert not re.search("[０-９Ａ-Ｚａ-ｚ％]", text), text
            assert not re.search(r"[ぁ-んァ-ヶー一-龠][,.:;!?]|[,.!?](?=[ぁ-んァ-ヶ一-龠])", text), text
            if "残高%(balance)s)" not in text:  # as in the fixed sentence
                assert not re.search(r"(?<!%)\(", text), text


# ------------------------------------------------------------------------- nothing is said past it

# Names that are the same in every language; each language's own name for itself.
NOT_TRANSLATED = re.compile(r"API|CSV|JSON|English|日本語|相乗り")
# What scripts name that is no word of theirs: header fields, keys, ends of data attributes.
NAMES = {"Accept", "Date", "Files", "Escape", "Enter", "Checking"}
READ_ATTRIBUTES = ("alt", "aria-label", "aria-description", "placeholder", "title", "label", "summary")
TEMPLATES = sorted([*(ROOT / "webapp" / "templates").rglob("*.html"), *(ROOT / "webapp" / "kinds").rglob("*.html")])


class Literal(HTMLParser):
    """The words that stand in a page's source as they are."""

    def __init__(self, html):
        super().__init__()
        self.words, self._unread = [], 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._unread += tag in ("script", "style")
        for name, value in attrs:
            if name in READ_ATTRIBUTES or (name == "value" and dict(attrs).get("type") in ("submit", "button", "reset")):
                self.handle_data(value or "")

    def handle_endtag(self, tag):
        self._unread -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._unread:
            self.words += re.findall(r"[^\W\d_]{2,}", NOT_TRANSLATED.sub("", data))


def literal_words(source):
    """What of a template reaches the page and is in no catalogue: its own text, and texts in its expressions that no
    ``_()`` holds."""
    tree = jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source)
    attributes = {id(output) for block in tree.find_all(nodes.AssignBlock)  # set aside for a tag
                  if re.match(r'\s*[a-z-]+="', "".join(part.data for part in block.find_all(nodes.TemplateData)))
                  for output in block.find_all(nodes.Output)}
    html = "".join(part.data if isinstance(part, nodes.TemplateData) else "0" for output in tree.find_all(nodes.Output)
                   if id(output) not in attributes for part in output.nodes)
    said = {id(constant) for call in tree.find_all(nodes.Call) if getattr(call.node, "name", "") in ("_", "gettext", "ngettext")
            for constant in call.find_all(nodes.Const)}
    loose = [constant.value for output in tree.find_all(nodes.Output) for constant in output.find_all(nodes.Const)
             if id(constant) not in said and isinstance(constant.value, str)]
    return Literal(html).words + [text for text in loose if re.search(r"[a-z]{2,}[.…]? [A-Za-z]{2,}|[ぁ-んァ-ヶ一-龠]", text)]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_word_of_a_template_is_in_the_catalogue(path):
    assert literal_words(path.read_text(encoding="utf-8")) == []


def test_a_word_that_is_not_would_be_found():
    assert literal_words("<p>Hello {{ _('you') }}</p>") == ["Hello"]
    assert literal_words("<img alt='A picture'>{% if x %}<b title='{{ _('yes') }}'>{% else %}no{% endif %}") == ["picture", "no"]
    assert literal_words("{{ 'Not at all' if x else _('All right') }}{{ '、' }}") == ["Not at all"]
    assert literal_words("<style>p { color: red }</style><a class='btn' href='/x'>API</a>{# a note #}") == []


def test_scripts_hold_no_words():
    for path in sorted((ROOT / "webapp" / "static").glob("*.js")):
        code = re.sub(r'(?m)(^|\s)//.*$|/\*.*?\*/|"use strict"|Error\("[^"]*"\)', "", path.read_text(encoding="utf-8"))
        texts = [text for found in re.findall(r"""("[^"\n]*")|('[^'\n]*')|(`[^`]*`)""", code) for text in found]
        assert texts, path
        spoken = [text for text in texts if re.search(r"[A-Z][a-z]+ [a-z]|^.[A-Z][a-z]{2,}.$|[ぁ-んァ-ヶ一-龠]", text)
                  and not re.search(r"[\[.#>]", text) and text.strip('"') not in NAMES]
        assert spoken == [], path


@pytest.mark.parametrize("name", BUILT_IN_KINDS)
def test_everything_a_kind_says_of_itself_is_said_in_japanese(settings, name):
    kind = create_app(settings(KINDS=name, EXTRA_KINDS="")).kinds[name]
    for text in (kind.title, kind.noun, kind.description, *(title for _name, title, *_when in kind.stages)):
        assert set(text) == set(LANGUAGES) and all(text.values()), text
        assert re.search("[ぁ-んァ-ヶ一-龠]", text["ja"]), text
    for field, shape in kind.params.model_json_schema().get("properties", {}).items():
        japanese = shape.get("ja", {})
        for said in {"title", "description", "labels"} & shape.keys() - ({"description"} if "$ref" in shape else set()):
            assert japanese.get(said), f"{name}.{field}: its {said} has no Japanese"
        assert shape.get("labels", {}).keys() == japanese.get("labels", {}).keys(), field


# ------------------------------------------------------------------------------------ times, figures

@pytest.mark.parametrize("lang, value, style, day, said", [
    ("en", "2026-11-30T14:59:59.999Z", "", None, "30 Nov 2026, 14:59 UTC"),
    ("ja", "2026-11-30T14:59:59.999Z", "", None, "2026年11月30日 23:59 JST"),
    ("en", "2026-11-30T15:00:00.000Z", "", None, "30 Nov 2026, 15:00 UTC"),
    ("ja", "2026-11-30T15:00:00.000Z", "", None, "2026年12月1日 00:00 JST"),
    ("en", "2026-12-31T23:59:59.000Z", "", None, "31 Dec 2026, 23:59 UTC"),
    ("ja", "2026-12-31T23:59:59.000Z", "", None, "2027年1月1日 08:59 JST"),
    ("ja", "2028-02-28T15:00:00Z", "", None, "2028年2月29日 00:00 JST"),
    ("ja", "2026-11-30T14:59:59Z", "time", "2026-11-30T14:00:00Z", "23:59:59 JST"),
    ("ja", "2026-11-30T15:00:00Z", "time", "2026-11-30T14:00:00Z", "12月1日 00:00:00 JST"),
    ("en", "2026-11-30T15:00:00Z", "time", "2026-11-30T14:00:00Z", "15:00:00 UTC"),
    ("en", "2026-12-01T00:00:00Z", "time", "2026-11-30T23:59:59Z", "1 Dec, 00:00:00 UTC"),
    ("ja", "2026-12-01T00:00:00Z", "time", "2026-11-30T23:59:59Z", "09:00:00 JST"),
    ("ja", datetime(2026, 11, 30, 15, tzinfo=timezone.utc), "", None, "2026年12月1日 00:00 JST"),
    ("en", "written by hand", "", None, None), ("ja", None, "", None, None), ("ja", 7, "time", None, None)])
def test_a_time_is_japans_on_a_japanese_page_and_utc_on_an_english_one(app, lang, value, style, day, said):
    with app.test_request_context(headers={"Accept-Language": lang}):
        assert messages.moment(value, style, day) == said


@pytest.mark.parametrize("lang, shown", [("en", "30 Nov 2026, 15:00 UTC"), ("ja", "2026年12月1日 00:00 JST")])
def test_pages_and_the_report_as_one_file_show_such_times(someone, lang, shown):
    with freeze_time("2026-11-30 15:00:00"):
        job_id = someone.submit("free").json["job"]["id"]
        job, = jobs.claim("dead", ["free"])
        jobs.succeed(job_id, job["attempt"], json.dumps({"n": 1}))
        for path in ("/history", f"/jobs/{job_id}", f"/jobs/{job_id}/report.html"):
            page = someone.get(path, headers={"Accept-Language": lang}).text
            assert f'<time datetime="2026-11-30T15:00:00.000Z" data-local="">{shown}</time>' in page


@pytest.mark.parametrize("lang, said", [("en", "1,000 points"), ("ja", "1,000ポイント")])
def test_a_thousand_points_are_written_with_a_separator(app, lang, said):
    with app.test_request_context(headers={"Accept-Language": lang}):
        assert messages.points(1000) == said
    someone = Person(app, "rich@example.org", points=1000)
    assert '<p class="big">1,000<span>' in someone.get("/points", headers={"Accept-Language": lang}).text


@pytest.mark.parametrize("lang, said", [("en", "The request could not be read."), ("ja", "送られた内容を読み取れませんでした。")])
def test_what_cannot_be_read_is_refused_in_our_words(client, lang, said):
    refused = client.post("/api/kinds/free/jobs", data=b"--x\r\nhalf", headers={
        "Content-Type": "multipart/form-data; boundary=x", "Accept-Language": lang})
    assert refused.status_code == 400 and refused.json["code"] == "BAD_REQUEST"
    assert refused.json["detail"].startswith(said) and "form-data" not in refused.json["detail"]
    assert "form-data" in refused.json["reason"]  # for whoever wrote the program


# ------------------------------------------------------------------------------- the fixed sentences

CONTACT = "help@example.org"
SAID = {
    "checking": {"en": "The work was interrupted. We are checking what happened…",
                 "ja": "処理が途中で止まりました。状況を確認しています。"},
    "none": {"en": "The work was interrupted. No points were used.",
             "ja": "処理が途中で止まりました。ポイントは使われていません。"},
    "refunded": {"en": "The work was interrupted. The 1 point it had used has been returned (balance 3).",
                 "ja": "処理が途中で止まりました。使われた1ポイントはお返ししました(残高3)。"},
    "unknown": {"en": "The work was interrupted and we could not confirm your points. "
                      "Please tell us number {number} at {contact}.",
                "ja": "処理が途中で止まりました。ポイントの状況を確認できませんでした。"
                      "受付番号 {number} を添えて {contact} へお知らせください。"},
}
UNREACHABLE = {"en": "Cannot reach the server. Trying again; you may close this page.",
               "ja": "サーバーにつながりません。自動でつなぎ直しています。この画面は閉じてもかまいません。"}


@pytest.fixture
def someone(settings):
    return Person(create_app(settings(SUPPORT_CONTACT=CONTACT)), "person@example.org", points=3)


def interrupted(person, money):
    """A paid job whose worker died, and what a look at it finds: ``money``."""
    job_id = person.submit("slow").json["job"]["id"]
    (db.store.path.parent / "workers" / "dead.lock").touch()
    job, = jobs.claim("dead", ["slow"])
    if money != "none":
        jobs.charge(job_id, job["attempt"])
    if money == "checking":
        jobs.reap(job_id)
        db.store.write_connection.execute("PRAGMA query_only = on")  # nothing can be settled yet
    elif money == "unknown":
        db.store.write(lambda: db.execute("ALTER TABLE ledger_entries RENAME TO hidden"))
    return job_id


def repaired(money):
    if money == "checking":
        db.store.write_connection.execute("PRAGMA query_only = off")
    elif money == "unknown":
        db.store.write(lambda: db.execute("ALTER TABLE hidden RENAME TO ledger_entries"))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("money", SAID)
def test_after_an_interruption_the_fixed_sentence_is_said(someone, money, lang):
    job_id = interrupted(someone, money)
    told = someone.get(f"/api/jobs/{job_id}", headers={"Accept-Language": lang}).json
    assert told["money"] == money
    assert told["money_message"] == SAID[money][lang].format(number=told["number"], contact=CONTACT)
    repaired(money)
    assert someone.job(job_id)["money"] == ("none" if money == "none" else "refunded")


@pytest.mark.parametrize("lang, sentence", [("en", "No points were used."), ("ja", "ポイントは使われていません。")])
def test_what_never_began_is_not_called_interrupted(someone, lang, sentence):
    waits, began = (someone.submit(kind).json["job"]["id"] for kind in ("slow", "paid"))
    claimed, = jobs.claim("dead", ["paid"])
    assert jobs.fail(began, claimed["attempt"], "KIND_GONE")
    jobs.fail_gone(waits)
    told = {job_id: someone.get(f"/api/jobs/{job_id}", headers={"Accept-Language": lang}).json for job_id in (waits, began)}
    assert {told[job_id]["error"]["code"] for job_id in told} == {"KIND_GONE"}
    assert told[waits]["money_message"] == sentence
    assert told[began]["money_message"] == SAID["none"][lang]
    labels = someone.get("/history", headers={"Accept-Language": "en"}).text
    assert labels.count(">Failed<") == labels.count(">Interrupted<") == 1


@pytest.mark.parametrize("lang, recorded", [("en", "recorded for the operator"), ("ja", "運営者向けに記録しました")])
def test_nobody_reads_that_the_operator_was_told_who_may_not_have_been(app, lang, recorded):
    with app.test_request_context(headers={"Accept-Language": lang}):
        event = {"event": "unknown", "data": None, "attempt": 1}
        job = {"error_code": "INTERNAL_ERROR", "error_facts": None, "attempts_spent": 1}
        for sentence in (messages.event_sentence(None, event), messages.error_sentence(job)):
            assert recorded in sentence


@pytest.mark.parametrize("lang", LANGUAGES)
def test_without_a_contact_the_number_is_still_said(app, person, lang):
    someone = person()
    told = someone.get(f"/api/jobs/{interrupted(someone, 'unknown')}", headers={"Accept-Language": lang}).json
    assert told["money"] == "unknown" and told["number"] in told["money_message"] and "{" not in told["money_message"]
    repaired("unknown")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_several_points_are_returned_in_one_sentence(app, lang):
    job = {"error_code": "INTERRUPTED", "number": "N", "status": "failed", "cost": 2, "kept_by": None, "attempt": 1}
    with app.test_request_context(headers={"Accept-Language": lang}):
        said = messages.money_sentence(job, "refunded", {"points": 2, "balance": 5})
    assert said == {"en": "The work was interrupted. The 2 points it had used have been returned (balance 5).",
                    "ja": "処理が途中で止まりました。使われた2ポイントはお返ししました(残高5)。"}[lang]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_page_in_flight_knows_what_to_say_when_the_server_is_out_of_reach(someone, lang):
    job_id = someone.submit("slow").json["job"]["id"]
    page = Page(someone.get(f"/jobs/{job_id}", headers={"Accept-Language": lang}).text)
    assert page.attributes["data-unreachable"] == UNREACHABLE[lang]


@pytest.mark.parametrize("lang, sentences", [
    ("en", {"seconds": "Must be at most 60.", "fail": "This must be yes or no."}),
    ("ja", {"seconds": "60以下で入力してください。", "fail": "「はい」か「いいえ」で指定してください。"})])
def test_what_is_wrong_with_a_field_is_said_in_the_viewers_language(app, person, lang, sentences):
    refused = person().post("/api/kinds/sample/jobs", json={"seconds": 61, "fail": "perhaps"},
                            headers={"Accept-Language": lang})
    assert {problem["field"]: problem["message"] for problem in refused.json["errors"]} == sentences
    assert refused.json["title"] == (" " if lang == "en" else "").join(sentences.values())


# ------------------------------------------------------------------------------------- the word job

class Page(HTMLParser):
    """What a visitor of a page may read: its text, and the attributes that hold text."""

    READ = ("title", "alt", "placeholder", "aria-label", "data-label", "data-title", "data-once", "data-done", "data-now",
            "data-todo", "data-unreachable", "data-too-large")

    def __init__(self, html):
        super().__init__()
        self.texts, self.attributes, self._unread = [], {}, 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._unread += tag in ("script", "style")
        self.attributes.update({name: value for name, value in attrs if name.startswith(self.READ)})

    def handle_endtag(self, tag):
        self._unread -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._unread:
            self.texts.append(data)

    def read(self):
        return [*self.texts, *filter(None, self.attributes.values())]


def values(data):
    """Every text in a JSON value; the names of its fields are the API's."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [text for value in data for text in values(value)]
    return [data] if isinstance(data, str) else []


def free_of_the_word(texts):
    texts = list(texts)
    assert texts
    assert not [text for text in texts if THE_WORD.search(text)]


def test_no_text_of_the_catalogue_has_the_word(extracted, japanese):
    free_of_the_word(form for text in extracted for form in forms(text))
    free_of_the_word(form for message in japanese if message.id for form in forms(message.string))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_nothing_said_of_the_kinds_has_the_word(settings, lang):
    app = create_app(settings(KINDS=",".join(BUILT_IN_KINDS), EXTRA_KINDS=""))
    told = app.test_client().get("/api/kinds", headers={"Accept-Language": lang}).json
    assert {"comments", "sample"} <= set(BUILT_IN_KINDS) and f'"{BUILT_IN_KINDS[0]}"' in json.dumps(told)
    free_of_the_word(values(told))


def test_no_sentence_in_the_code_of_a_kind_has_the_word():
    texts = []
    for path in (ROOT / "webapp" / "kinds").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        not_said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        # The declarations of the package itself are told to whoever writes a kind.
        if path.parent.name != "kinds" or path.stem != "__init__":
            texts += [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)
                      and isinstance(node.value, str) and id(node) not in not_said
                      and (" " in node.value or not node.value.isascii())]
    free_of_the_word(texts)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_page_and_no_answer_has_the_word(someone, lang):
    def get(path):
        return someone.get(path, headers={"Accept-Language": lang})
    waiting = someone.submit("sample").json["job"]["id"]
    ended = interrupted(someone, "refunded")
    for path in ("/", "/kinds/sample", f"/jobs/{waiting}", f"/jobs/{ended}", "/history", "/points", "/login", "/nowhere"):
        free_of_the_word(Page(get(path).text).read())
    for job_id in (waiting, ended):
        told = get(f"/api/jobs/{job_id}").json
        free_of_the_word([told["message"], told["money_message"], *values(told["error"])])
    for refused in (someone.post(f"/api/jobs/{ended}/cancellation", headers={"Accept-Language": lang}),
                    someone.post("/api/kinds/sample/jobs", json={}, headers={"Accept-Language": lang}),
                    get("/api/jobs/nothing"), get("/api/nowhere")):
        assert refused.status_code >= 400
        free_of_the_word([refused.json["title"], refused.json["detail"]])
