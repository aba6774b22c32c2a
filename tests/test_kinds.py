"""The public surface for a job kind: what a kind's file may count on, in real attempts."""
import csv
import functools
import io
import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import gevent
import pytest
from gevent import monkey
from gevent.event import Event
from greenlet import GreenletExit
from pydantic import BaseModel, Field

from tests.conftest import Person
from tests.kinds import Text
from tests.server import ROOT
from tests.upstreams import Answer, CannedUpstream
from webapp import commands, create_app, db, jobs, ledger
from webapp.errors import Busy, SettingsError
from webapp.kinds import (
    AiUnavailable,
    CommandFailed,
    InsufficientPoints,
    Kind,
    Quota,
    Refuse,
    Rows,
    Upload,
    UpstreamUnavailable,
)
from webapp.service import Service

# As the contract shows it to whoever writes a first kind.
EXAMPLE = '''
"""Summarise a text with the configured AI. Costs a point."""
from pydantic import BaseModel, Field
from webapp.kinds import Kind, JobContext, Refuse

class Params(BaseModel):
    text: str = Field(title="Text", max_length=20_000)

class Summary(BaseModel):
    title: str
    points: list[str] = Field(max_length=5)

def run(job: JobContext, params: Params) -> dict:
    parts = job.step("split", lambda: params.text.split("\\n\\n"))   # stored: a retry does not repeat it
    if not any(parts):
        raise Refuse("NOTHING_TO_READ", "There is no text to summarise.")   # ends the job with this reason
    if not job.ai_available:
        raise Refuse("AI_NOT_CONFIGURED", "This site has no AI configured. No points were used.")
    job.charge()                                                     # consumes the quoted cost: once, ever, for this job
    job.progress("read", done=1, total=2)                            # also where cancel and time-out take effect
    return job.ai("Summarise.", data=parts, schema=Summary).model_dump()

KIND = Kind(name="summary", title={"en": "Summary", "ja": "要約"}, noun={"en": "summary", "ja": "要約"},
            params=Params, run=run,
            stages=[("read", {"en": "Reading", "ja": "読み込み"})],
            cost=1,                      # a number, or a function of params; a cost and a share key together are refused at start
            exclusive=True,              # one in flight per user and kind, else 409
            share_key=None,              # or a function of params: same key joins the job in flight
            cache_seconds=0,             # with a share key: reuse a finished result this long
            timeout_seconds=300,         # per attempt
            on_interrupt="fail",         # or "retry" with max_attempts=3
            settings={})                 # names and help of its own settings; read as job.settings
'''


class Nothing(BaseModel):
    pass


class Texts(BaseModel):
    text: str = "x"
    n: int = 0
    lang: str | None = None
    file: Upload | None = None


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported, in a folder of its own; returns its name."""
    made = []

    def write(code, **beside):
        folder = tmp_path / f"of-{len(made)}"
        folder.mkdir()
        name = f"kinds_of_{tmp_path.name.translate(str.maketrans('[]-', '___'))}_{len(made)}"
        (folder / f"{name}.py").write_text(textwrap.dedent(code))
        for file, text in beside.items():
            (folder / file.replace("_html", ".html")).write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        made.append(name)
        return name
    yield write
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture
def offer(app, service):
    """Offer a kind, at work: ``name = offer(run, cost=1)``."""
    def make(run, name="own", params=Texts, **options):
        app.kinds[name] = Kind(name=name, params=params, run=run, **options)
        return name
    return make


@pytest.fixture
def did(offer, person):
    """What becomes of a job of a kind made of this function alone."""
    def make(run, who=None, params=(), **options):
        who = who or person()
        answer = who.submit(offer(run, **options), **dict(params))
        assert answer.status_code == 202, answer.json
        return who.finished(answer.json["job"]["id"])
    return make


def incidents():
    return [(row["severity"], row["code"], row["detail"]) for row in db.rows("SELECT * FROM incidents ORDER BY id")]


def story(job_id, event):
    return [json.loads(row["data"]) for row in jobs.events(job_id) if row["event"] == event]


def uploads(app):
    return sorted(path.name for path in (app.settings.folder / "uploads").iterdir())


def submit_file(who, kind, content=b"words", name="words.txt", **fields):
    return who.post(f"/api/kinds/{kind}/jobs", data={"file": (io.BytesIO(content), name), **fields})


# --------------------------------------------------------------------------------------- discovery

def test_the_example_of_the_contract_works_as_it_is_written(settings, module, person):
    app = create_app(settings(EXTRA_KINDS=module(EXAMPLE)))
    service = Service(app).start()
    try:
        someone = Person(app, "reader@example.org", 1)
        job = someone.finished(someone.submit("summary", text="one\n\ntwo").json["job"]["id"])
        assert (job["status"], job["error"]["code"], job["money"]) == ("failed", "AI_NOT_CONFIGURED", "none")
        assert job["error"]["message"] == "This site has no AI configured. No points were used."
        assert jobs.step_output(job["id"], "split") == '["one", "two"]'
        job = someone.finished(someone.submit("summary", text="").json["job"]["id"])
        assert job["error"]["code"] == "NOTHING_TO_READ" and someone.balance() == 1
        assert someone.submit("summary").json["errors"] == [{"field": "text", "message": "This is needed."}]
        page = someone.get("/kinds/summary", headers={"Accept-Language": "ja"}).text
        assert "要約" in page and '<textarea' in page
    finally:
        service.stop()


def test_the_example_of_the_documents_works_as_it_is_written(settings, module):
    code, *_others = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "kinds.md").read_text(encoding="utf-8"), re.DOTALL)
    app = create_app(settings(EXTRA_KINDS=module(code)))
    service = Service(app).start()
    someone = Person(app, "reader@example.org", 1)
    job = someone.finished(someone.submit("summary", text="one\n\nthree").json["job"]["id"])
    service.stop()
    assert (job["result"], job["money"]) == ({"paragraphs": 2, "longest": 5}, "consumed")


KIND_OF = """
    from pydantic import BaseModel
    from webapp.kinds import Kind, Rows

    class Params(BaseModel):
        pass

    def kind(name, **options):
        return Kind(name=name, params=Params, run=lambda job, params: None, **options)
"""


@pytest.mark.parametrize("code, told", [
    ("import a_module_that_is_not_there", "cannot be imported: ModuleNotFoundError: No module named"),
    ("1 / 0", "cannot be imported: ZeroDivisionError"),
    ("def run(:", "cannot be imported: SyntaxError"),
    ("raise ValueError('of\\n\\ntwo lines')", "ValueError: of two lines"),
    ("x = 1", "defines neither KIND = Kind(…) nor KINDS"),
    ("KIND = None", "defines neither KIND = Kind(…) nor KINDS"),
    ("KINDS = [3]", "defines neither KIND = Kind(…) nor KINDS"),
    (KIND_OF + "    KINDS = [kind('one'), kind('one')]", "Two kinds are called 'one'"),
    (KIND_OF + "    KIND = kind('sample')", "Two kinds are called 'sample'"),
    (KIND_OF + "    KIND = kind('Upper')", "needs a name of lower-case letters"),
    (KIND_OF + "    KIND = kind('a/../b')", "needs a name of lower-case letters"),
    (KIND_OF + "    KIND = kind('x' * 41)", "needs a name of lower-case letters"),
    (KIND_OF + "    KIND = kind('')", "needs a name of lower-case letters"),
    (KIND_OF + "    KIND = kind('one', cost=1, share_key=lambda params: 'x')", "both a cost and a share key"),
    (KIND_OF + "    KIND = kind('one', cost=-1)", "needs cost: a whole number of at least 0 or a function"),
    (KIND_OF + "    KIND = kind('one', cost=0.5)", "needs cost: a whole number of at least 0 or a function"),
    (KIND_OF + "    KIND = kind('one', cache_seconds=60)", "cache_seconds but no share key"),
    (KIND_OF + "    KIND = kind('one', timeout_seconds=0)", "needs timeout_seconds: a whole number of at least 1"),
    (KIND_OF + "    KIND = kind('one', max_attempts=0)", "needs max_attempts: a whole number of at least 1"),
    (KIND_OF + "    KIND = kind('one', on_interrupt='pray')", "on_interrupt"),
    (KIND_OF + "    KIND = Kind(name='one', params=dict, run=print)", "needs params: a pydantic model"),
    (KIND_OF + "    KIND = Kind(name='one', params=Params, run='run')", "needs run"),
    (KIND_OF + "    KIND = kind('one', rows={'text': 'text'})", "needs rows: a Rows(…); found {'text': 'text'}"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(columns={'a': 'A'}, text='b'))", "a column 'b' which is not among their columns"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(columns={'a': 'A'}, filters={'b': {'x': 'X'}}))", "a column 'b' which is not"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(columns={'a': 'A'}, orders={'o': ('O', 'b', True)}))", "a column 'b' which is not"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(orders={'o': 'b'}))", "needs rows.orders['o']: ("),
    (KIND_OF + "    KIND = kind('one', rows=Rows(filters={'a': {}}))", "a filter of rows by 'a' whose choices are none"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(filters={'a': {True: 'Yes'}}))", "needs rows.filters['a']: a dict by name"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(filters={'a': {'-': 'None'}}))", "a filter of rows by 'a' whose choices are none"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(filters={'page': {'x': 'X'}}))", "filters its rows by 'page', a name that"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(filters={'a': {'x': 'X'}, 'b': {'x': 'X'}}, query_names={'b': 'a'}))",
     "filters its rows by 'a', a name that"),
    (KIND_OF + "    KIND = kind('one', rows=Rows(query_names={'b': 'a'}))", "a query name for 'b', by which its rows cannot be"),
    (KIND_OF + "    KIND = kind('one', settings={'PORT': 'its own'})", "would use the setting PORT"),
    (KIND_OF + "    KIND = kind('one', settings={'SAMPLE_COST': 'its own'})", "would use the setting SAMPLE_COST"),
    (KIND_OF + "    KIND = kind('one', settings={'ONE_COST': 'its own'})", "would use the setting ONE_COST"),
    (KIND_OF + "    KIND = kind('comments')", "has the name of a built-in one, which is off"),
    (KIND_OF + "    KIND = kind('one', title=3)", "'one' needs title: a text (or a dict of it by language) or None; found 3."),
    (KIND_OF + "    KIND = kind('one', quota=dict(name='q'))", "needs quota: a Quota(…) or None; found {'name': 'q'}."),
    ("KINDS = 3", "defines neither KIND = Kind(…) nor KINDS"),
])
def test_a_module_that_offers_no_usable_kind_stops_the_start_with_one_line(settings, module, code, told):
    with pytest.raises(SettingsError) as stopped:
        create_app(settings(EXTRA_KINDS=module(code)))
    line = str(stopped.value)
    assert told in line and "\n" not in line, line


class Awaited:
    async def __call__(self, *args):
        """Never runs."""


async def never_runs(job, params):
    """A coroutine that nobody awaits."""


def yields(job, params):
    yield 1


def of_other_arguments(function):
    @functools.wraps(function)
    def run(*args):
        return function(*args, None)
    return run


CAP = {"CAP": (5, "units a day")}


@pytest.mark.parametrize("wrong, told", [
    ({"name": 3}, "needs name: a text; found 3"),
    ({"title": {"en": 3}}, "needs title: a text (or a dict of it by language) or None; found {'en': 3}"),
    ({"description": ["a"]}, "needs description: a text"),
    ({"params": Nothing()}, "needs params: a pydantic model (the class); found Nothing()"),
    ({"run": never_runs}, "needs run: a function that takes 2 arguments (no async def, no yield); found async def never_runs"),
    ({"run": functools.partial(never_runs)}, "needs run: "), ({"run": Awaited()}, "needs run: "),
    ({"run": yields}, "found def yields(job, params), with yield"),
    ({"run": lambda job: None}, "needs run: a function that takes 2 arguments (no async def, no yield); found def <lambda>(job)"),
    ({"check": "x"}, "needs check: a function that takes 2 arguments"), ({"check": lambda params: None}, "needs check: "),
    ({"unavailable": "x"}, "needs unavailable: a function that takes 1 argument (no async def, no yield) or None; found 'x'"),
    ({"trouble": lambda: None}, "needs trouble: "), ({"share_key": lambda *, params: "x"}, "needs share_key: "),
    ({"cost": True}, "needs cost: "), ({"cost": "1"}, "needs cost: "), ({"cost": lambda: 1}, "needs cost: "),
    ({"exclusive": "no"}, "needs exclusive: True or False; found 'no'"), ({"exclusive": 1}, "needs exclusive: "),
    ({"cache_seconds": -1}, "needs cache_seconds: a whole number of at least 0; found -1"),
    ({"timeout_seconds": True}, "needs timeout_seconds: a whole number of at least 1; found True"),
    ({"on_interrupt": []}, "needs on_interrupt: 'fail' or 'retry'; found []"),
    ({"stages": ["look"]}, "needs stages[0]: "), ({"stages": "look"}, "needs stages: a list"),
    ({"stages": [("look",)]}, "found ('look',)"), ({"stages": [("a", "A", lambda: True)]}, "needs stages[0]: "),
    ({"stages": [("a", "A"), ("a", "B")]}, "has two stages called 'a'"),
    ({"labels": ["a"]}, "needs labels: a dict by name, of each a text (or a dict of it by language); found ['a']"),
    ({"labels": {"a": 3}}, "needs labels['a']: a text (or a dict of it by language); found 3"),
    ({"labels": {3: "a"}}, "found the key 3"),
    ({"sample": "not-there.txt", "params": Texts}, "has a sample that is not there: put 'not-there.txt' beside its module"),
    ({"sample": "test_kinds.py"}, "no params field of type Upload"),
    ({"home": "x"}, "needs home: a Path(…) or None; found 'x'"),
    ({"settings": ["A"]}, "needs settings: a dict by name"), ({"settings": {"A": 3}}, "needs settings['A']: "),
    ({"settings": {"A": (-5, "help")}}, "needs settings['A']: "), ({"settings": {"A": ("x", 3)}}, "needs settings['A']: "),
    ({"settings": {"A": (3, "help", "[0-9]")}}, "needs settings['A']: "), ({"settings": {"A": ()}}, "needs settings['A']: "),
    ({"settings": {"a_key": "help"}}, "has a setting 'a_key' whose name is not of upper-case letters"),
    ({"settings": {"A": ("", "help", "[")}}, "has a setting 'A' whose form '[' is no regular expression"),
    ({"settings": {"A": ("B", "help", "[a-z]")}}, "has a setting 'A' whose default 'B' is not of its form [a-z]"),
    ({"quota": Quota("q", "CAP", least="1")}, "needs quota.least: a whole number of at least 0; found '1'"),
    ({"quota": Quota("q", "CAP", least=-3)}, "needs quota.least: "),
    ({"quota": Quota("q", "CAP", service=3)}, "needs quota.service: "),
    ({"quota": Quota("q", "CAP", used=True)}, "needs quota.used: a function that takes 1 argument"),
    ({"quota": Quota("q", "CAP", used=lambda a, b: True)}, "found def <lambda>(a, b)"),
    ({"quota": Quota("q", ["CAP"])}, "needs quota.setting: a text"),
    ({"quota": Quota("q", "NONE")}, "has a quota whose setting 'NONE'"),
    ({"quota": Quota("q", "CAP", "America")}, "in an unknown time zone 'America'"),
    ({"rows": Rows(columns=["a"])}, "needs rows.columns: a dict by name"),
    ({"rows": Rows(text=3)}, "needs rows.text: a text or None"),
    ({"rows": Rows(orders={"o": ("O", "a", "down")})}, "needs rows.orders['o']: "),
    ({"rows": Rows(filters={"a": "x"})}, "needs rows.filters['a']: "),
    ({"noun": 10 ** 400}, "needs noun: "),
])
def test_a_declaration_of_another_type_says_what_is_needed_and_what_was_found(wrong, told):
    with pytest.raises(SettingsError, match=re.escape(told)) as stopped:
        Kind(**{"name": "one", "params": Nothing, "run": print, "settings": CAP, "home": Path(__file__).parent, **wrong})
    line = str(stopped.value)
    assert line.startswith(f"The kind {wrong.get('name', 'one')!r} ") and "\n" not in line and len(line) < 500, line


@pytest.mark.parametrize("right", [
    {"run": of_other_arguments(lambda job, params, more: {})}, {"run": functools.partial(lambda more, job, params: {}, 1)},
    {"run": lambda *args: {}}, {"cost": len}, {"stages": (["a", "A"], ("b", {"ja": "B"}, lambda params: True))},
    {"settings": {"A": ("", "help", "[a-z]+"), "B": (0, "help"), "C": (0.5, "help"), "D": (True, "help")}},
    {"sample": "test_kinds.py", "params": Texts}, {"quota": Quota("q", "CAP", least=0, service={"ja": "Q"})},
])
def test_what_fits_is_taken_as_it_is(right):
    Kind(**{"name": "one", "params": Nothing, "run": print, "settings": CAP, "home": Path(__file__).parent, **right})


def test_a_built_in_kind_that_does_not_exist_is_named(settings):
    with pytest.raises(SettingsError, match="webapp.kinds.nothing"):
        create_app(settings(KINDS="nothing"))


def test_no_kinds_at_all_is_a_site_too(settings):
    app = create_app(settings(KINDS="", EXTRA_KINDS=""))
    assert app.test_client().get("/api/kinds").json == {"kinds": []}
    assert app.test_client().get("/").status_code == 200


def test_kinds_may_be_several_in_one_module(settings, module):
    found = settings(KINDS="", EXTRA_KINDS=module(KIND_OF + "    KINDS = [kind('one'), kind('two', cost=2)]")).kinds()
    assert list(found) == ["one", "two"] and found["two"].cost == 2


# --------------------------------------------------------------------- cost, time-out, names, settings

def test_the_cost_and_the_time_out_of_a_kind_can_be_set(settings):
    found = settings(PAID_COST=5, PAID_TIMEOUT_SECONDS=7, FREE_COST=2).kinds()
    assert (found["paid"].cost, found["paid"].timeout_seconds, found["free"].cost) == (5, 7, 2)
    assert found["refusing"].cost == 1


@pytest.mark.parametrize("name, value, told", [
    ("PAID_COST", "-1", "PAID_COST='-1' must be at least 0."),
    ("PAID_COST", "1.5", "PAID_COST='1.5' is not a number."),
    ("PAID_TIMEOUT_SECONDS", "0", "PAID_TIMEOUT_SECONDS='0' must be at least 1."),
    ("SHARED_COST", "1", "The kind 'shared' has both a cost and a share key"),
])
def test_an_unusable_cost_or_time_out_stops_the_start(settings, name, value, told):
    with pytest.raises(SettingsError, match=re.escape(told)):
        settings(**{name: value}).kinds()


def test_the_cost_that_was_set_is_quoted_and_charged(settings):
    app = create_app(settings(PAID_COST=2))
    service = Service(app).start()
    someone = Person(app, "x@example.org", 5)
    job = someone.finished(someone.submit("paid").json["job"]["id"])
    service.stop()
    assert (job["cost"], job["money"], someone.balance()) == (2, "consumed", 3)


def test_a_cost_may_depend_on_the_params(offer, person, client):
    name = offer(lambda job, params: job.charge(), cost=lambda params: params.n)
    someone = person(points=3)
    precheck = someone.post(f"/api/kinds/{name}/precheck", json={"n": 2}).json
    assert (precheck["ok"], precheck["cost"]) == (True, 2)
    for n, balance in ((0, 3), (2, 1)):
        job = someone.finished(someone.submit(name, n=n).json["job"]["id"])
        assert (job["cost"], job["money"]) == (n, "consumed" if n else "none") and someone.balance() == balance
    refused = someone.submit(name, n=2)
    assert refused.status_code == 402 and (refused.json["cost"], refused.json["balance"]) == (2, 1)
    assert client.post(f"/api/kinds/{name}/jobs", json={"n": 0}).status_code == 202  # a guest, where it is free


def test_a_set_cost_is_the_price_of_what_costs_anything(settings):
    cost = settings(CHOOSY_COST=3).kinds()["choosy"].cost
    assert (cost(Text(text="dear")), cost(Text(text="plain"))) == (3, 0)


def test_names_are_a_text_or_one_for_each_language(app, client):
    for name, title in (("plain", "Plain"), ("two", {"en": "Two", "ja": "二つ"}), ("japanese", {"ja": "日本語だけ"}),
                        ("nameless_kind", None)):
        app.kinds[name] = Kind(name=name, params=Nothing, run=print, title=title, noun=title,
                               stages=[("first", title or "First")])
    seen = {lang: {kind["name"]: kind for kind in client.get("/api/kinds", headers={"Accept-Language": lang}).json["kinds"]}
            for lang in ("en", "ja")}
    assert [seen[lang]["two"]["title"] for lang in ("en", "ja")] == ["Two", "二つ"]
    assert [seen[lang]["plain"]["noun"] for lang in ("en", "ja")] == ["Plain", "Plain"]
    assert [seen[lang]["japanese"]["title"] for lang in ("en", "ja")] == ["日本語だけ", "日本語だけ"]
    assert seen["ja"]["nameless_kind"]["title"] == "Nameless kind"
    assert seen["ja"]["two"]["stages"] == [{"name": "first", "title": "二つ"}]


def test_a_kind_reads_settings_of_its_own(settings, module):
    app = create_app(settings(EXTRA_KINDS=module(KIND_OF + """
    KIND = Kind(name="own", params=Params, run=lambda job, params: dict(job.settings),
                settings={"OWN_URL": ("https://example.org", "where to ask"), "OWN_KEY": "its key"})"""), OWN_KEY="k"))
    service = Service(app).start()
    someone = Person(app, "x@example.org", 0)
    job = someone.finished(someone.submit("own").json["job"]["id"])
    service.stop()
    assert job["result"] == {"OWN_URL": "https://example.org", "OWN_KEY": "k", "MAX_UPLOAD_ROWS": "50000",
                             "MAX_UPLOAD_MB": "20"}


def test_a_kind_knows_whose_work_it_does_and_in_which_language(offer, person):
    name = offer(lambda job, params: [job.id, job.user_id, job.attempt, job.lang, job.ai_available])
    someone = person()
    for headers, params, lang in (({}, {}, "en"), ({"Accept-Language": "ja"}, {}, "ja"),
                                  ({"Accept-Language": "ja"}, {"lang": "en"}, "en")):
        made = someone.post(f"/api/kinds/{name}/jobs", json=params, headers=headers).json["job"]
        assert someone.finished(made["id"])["result"] == [made["id"], someone.id, 1, lang, False]


# -------------------------------------------------------------------------------------------- step

def test_a_step_returns_what_json_gives_back(did):
    def run(job, params):
        first = job.step("shapes", lambda: {1: (1, 2), "none": None})
        assert first == {"1": [1, 2], "none": None}
        assert job.step("nothing", lambda: None) is None
        assert job.step("nothing", lambda: 1 / 0) is None  # done is done, whatever it gave
        return job.step("shapes", lambda: 1 / 0)
    assert did(run)["result"] == {"1": [1, 2], "none": None}


def test_a_retry_repeats_no_step_and_no_charge(did):
    ran = []

    def run(job, params):
        ran.append((job.attempt, job.step("first", lambda: ran.append("first") or [job.attempt])))
        job.charge()
        if job.attempt == 1:
            time.sleep(60)
        return job.step("second", lambda: "second")
    job = did(run, cost=1, on_interrupt="retry", max_attempts=2, timeout_seconds=1)
    assert ran == ["first", (1, [1]), (2, [1])]
    assert (job["result"], job["attempt"], job["attempts_spent"], job["money"]) == ("second", 2, 1, "consumed")


def test_trying_again_reuses_the_steps_of_what_failed(offer, person):
    ran, someone = [], person()

    def run(job, params):
        job.step("dear", lambda: ran.append(1))
        if len(someone.get("/api/jobs").json["jobs"]) == 1:
            raise Refuse("NOT_YET", "Not yet.")
        return "done"
    job = someone.finished(someone.submit(offer(run)).json["job"]["id"])
    again = someone.finished(someone.post(f"/api/jobs/{job['id']}/retry").json["job"]["id"])
    assert (again["result"], again["retry_of"], ran) == ("done", job["id"], [1])


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "x" * 1_000_001, object()], ids=["set", "nan", "large", "object"])
def test_a_step_that_is_not_small_json_is_a_bug(did, value):
    job = did(lambda job, params: job.step("odd", lambda: value))
    assert job["error"]["code"] == "INTERNAL_ERROR" and jobs.step_output(job["id"], "odd") is None


# ---------------------------------------------------------------------------------------- progress

def test_progress_is_stored_at_most_four_times_a_second_and_a_new_stage_always(did):
    def run(job, params):
        began = time.monotonic()
        for stage in ("one", "two", "three"):
            job.progress(stage, 0, 10)
        calls = 0
        while time.monotonic() - began < 1:
            calls += 1
            job.progress("three", calls % 10, 10)
        return calls
    job = did(run)
    told = story(job["id"], "progress")
    seqs = [row["seq"] for row in jobs.events(job["id"])]
    assert [note["stage"] for note in told] == ["one", "two", "three", "three"]  # of each the first and the latest
    assert job["result"] > 100
    assert 6 <= seqs[-1] <= 2 + 3 + 4 + 1  # submitted, claimed, the first of each stage, four in a second, succeeded


def test_two_stages_side_by_side_do_not_flood_the_file(did):
    def run(job, params):
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            job.progress("left", 1, 2)
            job.progress("right", 1, 2)
    job = did(run)
    assert jobs.events(job["id"])[-1]["seq"] <= 3 + 2 * 3


def test_progress_is_a_fraction_of_its_stage(did, person):
    someone = person()

    def run(job, params):
        seen = []
        for n, (done, total) in enumerate([(1, 4), (9, 4), (-1, 4), (None, None), (3, 0), (3, None)]):
            job.progress(f"measure {n}", done, total)
            seen.append(someone.job(job.id)["progress"])
        return seen
    job = did(run, someone)
    assert job["result"] == [0.25, 1, 0, 0, 0, 0] and job["progress"] == 1


@pytest.mark.parametrize("message, en, ja", [
    (None, "Reading: 420 of 1,000", "読み込み: 1,000件中420件"),
    ("Page 7", "Page 7", "Page 7"),
    ({"en": "Page 7", "ja": "7ページ目"}, "Page 7", "7ページ目")])
def test_progress_is_told_in_the_kinds_words_or_by_its_stage(offer, person, message, en, ja):
    told, go_on = Event(), Event()

    def run(job, params):
        job.progress("read", 420, 1000, message)
        told.set()
        go_on.wait()
    someone = person()
    job_id = someone.submit(offer(run, stages=[("read", {"en": "Reading", "ja": "読み込み"})])).json["job"]["id"]
    told.wait(5)
    seen = [someone.get(f"/api/jobs/{job_id}", headers={"Accept-Language": lang}).json["message"] for lang in ("en", "ja")]
    go_on.set()
    someone.finished(job_id)
    assert seen[0] == en and (message is None or seen[1] == ja)
    assert message is not None or seen[1].startswith("読み込み")


# ------------------------------------------------------------------------------------------- money

def test_charging_twice_consumes_once(did, person):
    someone = person(points=3)

    def run(job, params):
        job.charge()
        job.charge()
        return "done"
    assert did(run, someone, cost=2)["money"] == "consumed" and someone.balance() == 1


def test_what_costs_nothing_may_be_charged(did, person):
    someone = person(points=1)
    assert did(lambda job, params: job.charge(), someone)["money"] == "none"
    assert [row["kind"] for row in ledger.statement(someone.id)] == ["grant"]


def test_a_kind_may_catch_that_the_points_no_longer_suffice(offer, person):
    someone = person(points=1)

    def run(job, params):
        _another_job_takes_the_point(someone)
        try:
            job.charge()
        except InsufficientPoints as error:
            return {"preview only": error.facts}
    job = someone.finished(someone.submit(offer(run, cost=1)).json["job"]["id"])
    assert job["result"] == {"preview only": {"cost": 1, "balance": 0, "missing": 1}}
    assert (job["money"], job["money_message"]) == ("none", "No points were used.")


def test_points_that_no_longer_suffice_end_a_job_that_does_not_catch_it(offer, person):
    someone = person(points=1)

    def run(job, params):
        _another_job_takes_the_point(someone)
        job.charge()
    job = someone.finished(someone.submit(offer(run, cost=1)).json["job"]["id"])
    assert (job["error"]["code"], job["money"]) == ("INSUFFICIENT_POINTS", "none")


def _another_job_takes_the_point(someone):
    """As a shell on the file can: it writes a job past the ladder, which knows that the point is promised."""
    @db.verb
    def insert():
        db.execute("INSERT INTO jobs (id, number, kind, user_id, cost, timeout_seconds, params, params_hash) "
                   "VALUES ('thief', 'THIEF', 'paid', ?, 1, 60, '{}', '-')", (someone.id,))
    insert()
    jobs.signals.pending.set()
    with gevent.Timeout(5):
        while jobs.get("thief")["status"] != "succeeded":
            gevent.sleep(0.01)


def test_paid_work_that_brought_nothing_is_returned_while_the_job_goes_on(did, person):
    someone = person(points=3)

    def run(job, params):
        job.charge()
        job.refund({"en": "the service had nothing", "ja": "データがありませんでした"})
        job.refund("again")
        job.charge()  # once, ever
        return {"map only": True}
    job = did(run, someone, cost=1)
    assert (job["status"], job["money"], job["result"]) == ("succeeded", "refunded", {"map only": True})
    assert job["money_message"] == "The 1 point it had used has been returned (balance 3)."
    entries = someone.get("/api/points").json["entries"]
    assert [(entry["kind"], entry["points"], entry["note"]) for entry in entries[:2]] == [
        ("refund", 1, "the service had nothing"), ("consume", -1, None)]
    assert "the service had nothing" in someone.get("/points").text


def test_a_return_without_a_charge_returns_nothing(did, person):
    someone = person(points=3)
    assert did(lambda job, params: job.refund("nothing"), someone, cost=1)["money"] == "none"
    assert someone.balance() == 3


def test_ai_that_is_not_configured_can_be_caught(did):
    def run(job, params):
        try:
            job.ai("Summarise.", data=[], schema=Nothing)
        except AiUnavailable as error:
            return error.code
    assert did(run)["result"] == "AI_UNAVAILABLE"


# ------------------------------------------------------------------------------------------- fetch

def test_fifty_jobs_that_ask_for_the_same_are_one_request(offer, person):
    """Hole 5, the stampede: the cache is cold and all ask at once."""
    with CannedUpstream() as upstream:
        url = upstream.answer("/tile", Answer(b'{"depth": 3}', delay_seconds=1.5))
        name, someone = offer(lambda job, params: job.fetch(url, cache_seconds=60).json()), person()
        asked = [gevent.spawn(someone.submit, name) for _ in range(50)]
        done = [someone.finished(ask.get().json["job"]["id"], seconds=20) for ask in asked]
        assert [job["result"] for job in done] == [{"depth": 3}] * 50
        assert upstream.asked("/tile") == 1
        someone.finished(someone.submit(name).json["job"]["id"])
        assert upstream.asked("/tile") == 1  # and from memory while it is fresh


def test_an_upstream_that_fails_ends_the_job_with_its_host_and_returns_the_point(did, person):
    someone = person(points=1)
    with CannedUpstream() as upstream:
        url = upstream.answer("/", Answer(raw=b"this is not HTTP\r\n"))

        def run(job, params):
            job.charge()
            job.fetch(url)
        job = did(run, someone, cost=1)
    assert (job["error"]["code"], job["error"]["host"], job["error"]["reason"]) == (
        "UPSTREAM_UNAVAILABLE", "127.0.0.1", "protocol")
    assert "127.0.0.1" in job["error"]["message"] and job["money"] == "refunded" and someone.balance() == 1
    assert incidents() == []  # not a bug of ours


def test_an_answer_of_any_status_is_the_kinds_to_judge(did):
    with CannedUpstream() as upstream:
        url = upstream.answer("/gone", Answer(b"gone", 410, {"X-Why": "moved"}))

        def run(job, params):
            answer = job.fetch(url, params={"q": "東京", "none": None})
            return [answer.status, answer.text, answer.headers["x-why"]]
        assert did(run)["result"] == [410, "gone", "moved"]
        assert upstream.seen[0].query == "q=%E6%9D%B1%E4%BA%AC"


# ---------------------------------------------------------------------------------------- parallel

def test_parallel_gives_a_value_or_the_error_for_each(did):
    def run(job, params):
        def fail():
            raise UpstreamUnavailable(reason="timeout", host="h")
        began = time.monotonic()
        found = job.parallel({"value": lambda: 1, "none": lambda: None, "error": fail, "bug": lambda: 1 / 0,
                              **{f"slow {n}": lambda: time.sleep(0.2) for n in range(10)}})
        assert isinstance(found["error"], UpstreamUnavailable) and isinstance(found["bug"], ZeroDivisionError)
        assert time.monotonic() - began < 1
        return [found["value"], found["none"], list(found)[:4], job.parallel({})]
    assert did(run)["result"] == [1, None, ["value", "none", "error", "bug"], {}]


def test_steps_and_the_charge_may_run_side_by_side(did, person):
    someone = person(points=3)

    def run(job, params):
        found = job.parallel({"a": lambda: job.step("a", lambda: "A"), "b": lambda: job.step("b", lambda: "B"),
                              "c": job.charge, "d": job.charge})
        assert found["c"] is None and found["d"] is None
        return found
    assert did(run, someone, cost=1)["result"] == {"a": "A", "b": "B", "c": None, "d": None}
    assert someone.balance() == 2


def test_a_cancel_stops_everything_that_runs_side_by_side(offer, person):
    ticks, ended = [], []

    def run(job, params):
        def work(n):
            try:
                while True:
                    ticks.append(n)
                    time.sleep(0.01)
            finally:
                ended.append(n)
        return job.parallel({n: lambda n=n: work(n) for n in range(5)})
    someone = person(points=1)
    job_id = someone.submit(offer(run, cost=1)).json["job"]["id"]
    with gevent.Timeout(5):
        while len(set(ticks)) < 5:
            gevent.sleep(0.01)
    someone.post(f"/api/jobs/{job_id}/cancellation")
    job = someone.finished(job_id)
    assert (job["error"]["code"], job["money"], sorted(ended)) == ("CANCELLED", "none", list(range(5)))
    count = len(ticks)
    gevent.sleep(0.1)
    assert len(ticks) == count


def test_who_hears_of_a_cancel_first_stops_the_others(app, offer, person):
    ended = []

    def run(job, params):
        def sleep():
            try:
                time.sleep(60)
            finally:
                ended.append("sleeper")

        def tell():
            while True:
                job.progress("wait")
                time.sleep(0.05)
        return job.parallel({"sleep": sleep, "tell": tell})
    someone = person()
    job_id = someone.submit(offer(run)).json["job"]["id"]
    _wait_until(lambda: someone.job(job_id)["stage"] == "wait")
    _write_from_another_process(app, "UPDATE jobs SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")
    began = time.monotonic()
    assert someone.finished(job_id)["error"]["code"] == "CANCELLED"
    assert time.monotonic() - began < 2 and ended == ["sleeper"]


@pytest.mark.parametrize("error", [SystemExit, GreenletExit, KeyboardInterrupt])
def test_what_would_end_a_process_ends_the_job_from_within_parallel_too(did, error):
    def run(job, params):
        def leave():
            raise error
        return str(job.parallel({"leave": leave}))
    job = did(run)
    assert (job["status"], job["error"]["code"]) == ("failed", "INTERNAL_ERROR")


# ---------------------------------------------------------------------------------- files come in

def test_an_upload_is_read_and_gone_when_its_job_succeeded(app, offer, person):
    someone = person()

    def run(job, params):
        with job.open(params.file) as file:
            content = file.read()
        assert Path(file.name).is_file()
        return [content.decode(), params.file.name, params.file.size]
    answer = submit_file(someone, offer(run), "言葉".encode(), "言葉.txt")
    job = someone.finished(answer.json["job"]["id"])
    assert job["result"] == ["言葉", "言葉.txt", 6]
    _wait_until(lambda: not uploads(app))


def test_an_upload_is_kept_when_its_job_failed_and_trying_again_works_with_it(app, offer, person):
    someone, failing = person(), [True]

    def run(job, params):
        with job.open(params.file) as file:
            if failing:
                raise Refuse("NOT_YET", "Not yet.")
            return file.read().decode()
    job = someone.finished(submit_file(someone, offer(run), n="3").json["job"]["id"])
    assert uploads(app) == [f"{job['id']}-file"]
    failing.clear()
    again = someone.post(f"/api/jobs/{job['id']}/retry")
    assert again.status_code == 202
    done = someone.finished(again.json["job"]["id"])
    assert (done["result"], done["retry_of"]) == ("words", job["id"])
    _wait_until(lambda: uploads(app) == [f"{job['id']}-file"])


def test_without_its_input_a_job_cannot_be_tried_again(app, offer, person):
    someone = person()

    def run(job, params):
        raise Refuse("NO", "No.")
    job = someone.finished(submit_file(someone, offer(run)).json["job"]["id"])
    (app.settings.folder / "uploads" / f"{job['id']}-file").unlink()
    refused = someone.post(f"/api/jobs/{job['id']}/retry")
    assert refused.status_code == 409 and (refused.json["code"], refused.json["reason"]) == ("NOT_RETRYABLE", "INPUT_GONE")
    assert refused.json["detail"] == "The file you sent is no longer kept: please send it again."


def test_only_a_file_of_this_jobs_params_can_be_opened(did):
    def run(job, params):
        for odd in (None, "/etc/passwd", Upload(name="x", size=1, sha256="a")):
            with pytest.raises(ValueError, match="file of this job's params"):
                job.open(odd)
    assert did(run)["status"] == "succeeded"


def test_a_check_that_refuses_stores_nothing_and_keeps_no_file(app, offer, person):
    def check(context, params):
        with context.open(params.file) as file:
            told = context.run_command(["cat"], input=file.read())
        raise Refuse("UNREADABLE", {"en": "It cannot be read.", "ja": "読めません。"}, found=told.decode(),
                     lang=context.lang, rows=context.settings["MAX_UPLOAD_ROWS"])
    name, someone = offer(lambda job, params: None, check=check), person()
    refused = submit_file(someone, name)
    assert refused.status_code == 400
    assert {key: refused.json[key] for key in ("code", "detail", "found", "lang", "rows")} == {
        "code": "UNREADABLE", "detail": "It cannot be read.", "found": "words", "lang": "en", "rows": "50000"}
    assert jobs.listing() == [] and uploads(app) == []
    asked = someone.post(f"/api/kinds/{name}/precheck", data={"file": (io.BytesIO(b"x"), "x")})
    assert asked.status_code == 200 and asked.json["reasons"] == ["UNREADABLE"] and uploads(app) == []


def test_for_a_share_key_an_upload_counts_as_its_content(offer, person):
    name = offer(lambda job, params: "done", share_key=lambda params: params.file.sha256, cache_seconds=60)
    one, two = person(), person()
    first = submit_file(one, name, b"same", "a.txt").json
    one.finished(first["job"]["id"])
    second = submit_file(two, name, b"same", "b.txt").json
    assert second["cached"] and second["job"]["id"] == first["job"]["id"]
    assert not submit_file(two, name, b"other", "a.txt").json["cached"]


# ----------------------------------------------------------------------------------- files go out

def test_a_file_is_served_as_it_was_saved(did, person):
    someone = person()

    def run(job, params):
        job.save_file("map.png", b"first", "text/plain")
        job.save_file("map.png", b"\x89PNG", "image/png")
        job.save_file("a-b_c.1.txt", "文".encode(), "text/plain")
    job = did(run, someone)
    assert [(file["name"], file["media_type"], file["size_bytes"]) for file in job["files"]] == [
        ("a-b_c.1.txt", "text/plain", 3), ("map.png", "image/png", 4)]
    answer = someone.get(job["files"][1]["href"], buffered=True)
    assert (answer.data, answer.mimetype) == (b"\x89PNG", "image/png")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_name_that_is_none_is_refused(did):
    def run(job, params):
        for name in ("", ".", "..", "../x", "a/b", "a\\b", ".hidden", ".rows.jsonl", "a b", "文", "x\n", "x\0", "x" * 101,
                     "/etc/passwd"):
            with pytest.raises(ValueError, match="is not a file name"):
                job.save_file(name, b"x", "text/plain")
    job = did(run)
    assert job["status"] == "succeeded" and job["files"] == []


def test_no_path_leads_out_of_a_jobs_folder(app, did, person):
    someone = person()

    def run(job, params):
        job.save_file("map.png", b"x", "image/png")
        job.rows([{"a": 1}])
    job = did(run, someone)
    for path in ("..%2f..%2fainori.db", "../../ainori.db", ".rows.jsonl", "%2e%2e/%2e%2e/secret_key", "map.png%00",
                 "MAP.PNG", ""):
        assert someone.get(f"/api/jobs/{job['id']}/files/{path}").status_code == 404, path


def test_files_of_what_failed_are_not_served(did, person):
    someone = person()

    def run(job, params):
        job.save_file("half.txt", b"x", "text/plain")
        job.rows([{"a": 1}])
        raise Refuse("NO", "No.")
    job = did(run, someone)
    assert job["files"] == [] and "csv" not in job["links"]
    for path in ("files/half.txt", "export.csv", "export.json"):
        assert someone.get(f"/api/jobs/{job['id']}/{path}").status_code == 404


ROWS = [
    {"text": "=1+1", "n": -5}, {"text": "+1", "n": 1}, {"text": "-1", "n": None}, {"text": "@cmd", "n": 0.5},
    {"text": "\t=1", "n": True}, {"text": "\r=1", "n": 0}, {"text": "  =1+1", "n": 0}, {"text": "\n=1", "n": 0},
    {"text": 'a,b "quoted"\nand a second line', "n": 0}, {"text": "日本語 🗾 \u2028 é", "n": 0}, {"text": "", "n": 0},
    {"text": "1+1=2", "n": 0},
]


def test_rows_are_exported_as_they_are_and_no_cell_is_a_formula(did, person):
    someone = person()
    job = did(lambda job, params: job.rows(iter(ROWS)), someone)
    exported = someone.get(job["links"]["json"])
    assert exported.json == ROWS and exported.mimetype == "application/json"
    table = someone.get(job["links"]["csv"])
    assert table.mimetype == "text/csv" and table.data.startswith(b"\xef\xbb\xbf")
    assert re.search(rf'attachment; filename="own-{job["number"]}\.csv"', table.headers["Content-Disposition"])
    rows = list(csv.DictReader(io.StringIO(table.data.decode("utf-8-sig"), newline="")))
    assert list(rows[0]) == ["text", "n"] and len(rows) == len(ROWS)
    for before, after in zip(ROWS, rows, strict=True):
        risky = before["text"].lstrip(" ")[:1] in tuple("=+-@\t\r\n")
        assert after["text"] == ("'" if before["text"] and risky else "") + before["text"]
    assert [row["n"] for row in rows[:5]] == ["-5", "1", "", "0.5", "True"]


def test_a_column_is_no_formula_either(did, person):
    someone = person()
    job = did(lambda job, params: job.rows([{"=cmd()": 1}]), someone)
    assert someone.get(job["links"]["csv"]).data.decode("utf-8-sig").splitlines() == ["'=cmd()", "1"]


def test_the_first_rows_keys_are_the_columns(did, person):
    someone = person()
    job = did(lambda job, params: job.rows([{"a": 1, "b": 2}, {"b": 4, "c": 5}]), someone)
    assert someone.get(job["links"]["csv"]).data.decode("utf-8-sig").splitlines() == ["a,b", "1,2", ",4"]


def test_no_rows_are_an_empty_table_and_none_asked_for_is_no_table(did, person):
    someone = person()
    job = did(lambda job, params: job.rows([]), someone)
    assert someone.get(job["links"]["json"]).json == []
    assert someone.get(job["links"]["csv"]).data == b"\xef\xbb\xbf"
    job = did(lambda job, params: None, someone)
    assert "csv" not in job["links"]
    assert someone.get(f"/api/jobs/{job['id']}/export.csv").status_code == 404


def test_many_rows_let_others_run(did, person):
    someone, gaps = person(), []

    def run(job, params):
        job.rows({"n": n, "text": "x" * 50} for n in range(60_000))
    with _ticking(gaps):
        job = did(run, someone)
        assert someone.get(job["links"]["csv"]).data.count(b"\n") == 60_001
    assert max(gaps) < 0.25


@pytest.mark.parametrize("row", [{"n": float("nan")}, {"o": object()}, 3])
def test_rows_that_are_not_json_are_a_bug_and_leave_no_file(app, did, row):
    job = did(lambda job, params: job.rows([{"n": 1}, row]))
    assert job["error"]["code"] == "INTERNAL_ERROR"
    assert list((app.settings.folder / "files" / job["id"]).iterdir()) == []


# ---------------------------------------------------------------------------------- blocking work

def test_what_blocks_in_a_thread_stops_nobody_else(did):
    block, gaps = monkey.get_original("time", "sleep"), []
    with _ticking(gaps):
        job = did(lambda job, params: job.in_thread(lambda: block(0.5) or "woken"))
    assert job["result"] == "woken" and max(gaps) < 0.3


def test_work_in_a_thread_is_left_behind_by_a_cancel(offer, person):
    block, someone, began = monkey.get_original("time", "sleep"), person(), []

    def run(job, params):
        began.append(1)
        job.in_thread(lambda: block(3))
    job_id = someone.submit(offer(run)).json["job"]["id"]
    _wait_until(lambda: began)
    someone.post(f"/api/jobs/{job_id}/cancellation")
    asked = time.monotonic()
    assert someone.finished(job_id)["error"]["code"] == "CANCELLED" and time.monotonic() - asked < 2


def test_an_error_in_a_thread_is_the_kinds_to_catch(did):
    def run(job, params):
        with pytest.raises(ZeroDivisionError):
            job.in_thread(lambda: 1 / 0)
        return "caught"
    assert did(run)["result"] == "caught"


def test_a_command_gives_its_output_all_at_once_or_line_by_line(did, tmp_path):
    def run(job, params):
        lines = []
        assert job.run_command(["sh", "-c", "echo one; printf two"], on_line=lines.append) == b""
        assert lines == [b"one\n", b"two"]
        assert job.run_command(["cat"], input=b"x" * 300_000) == b"x" * 300_000
        assert job.run_command(["true"], input=b"x" * 300_000) == b""  # it need not read
        return job.run_command(["pwd"], cwd=tmp_path).decode().strip()
    assert did(run)["result"] == str(tmp_path)


def test_a_command_that_fails_says_how_and_why(did):
    def run(job, params):
        with pytest.raises(CommandFailed) as failed:
            job.run_command(["sh", "-c", "echo out; echo sorry >&2; exit 3"])
        assert failed.value.facts == {"returncode": 3, "stderr": "sorry\n"}
        with pytest.raises(CommandFailed) as failed:
            job.run_command([sys.executable, "-c", "import sys; sys.stderr.write('x' * 100000 + 'end'); sys.exit(1)"])
        assert failed.value.facts["stderr"].endswith("end") and len(failed.value.facts["stderr"]) < 10_000
        with pytest.raises(FileNotFoundError):
            job.run_command(["no-such-command"])
        job.run_command(["false"])
    job = did(run, timeout_seconds=20)
    assert job["error"]["code"] == "INTERNAL_ERROR" and "COMMAND_FAILED" in incidents()[0][2]


def test_what_a_failed_command_left_behind_holds_nobody_up(did, tmp_path):
    def run(job, params):
        with pytest.raises(CommandFailed):
            job.run_command(["sh", "-c", f"sleep 300 >/dev/null & echo $! >{tmp_path}/pid; exit 1"])
    assert did(run)["status"] == "succeeded"
    assert not _lives(int((tmp_path / "pid").read_text()))


def test_a_command_ends_when_the_server_drains(settings, tmp_path):
    app = create_app(settings(DRAIN_SECONDS=0))
    someone, pid = Person(app, "x@example.org", 1), tmp_path / "pid"

    def run(job, params):
        job.charge()
        job.run_command(["sh", "-c", f"echo $$ >{pid}; exec sleep 300"])
    app.kinds["own"] = Kind(name="own", params=Texts, run=run, cost=1)
    service = Service(app).start()
    job_id = someone.submit("own").json["job"]["id"]
    _wait_until(lambda: pid.exists() and pid.read_text())
    service.stop()
    assert not _lives(int(pid.read_text()))
    job = someone.job(job_id)
    assert (job["error"]["code"], job["money"]) == ("INTERRUPTED", "refunded")


def test_what_is_just_being_claimed_when_a_drain_begins_is_drained_too(settings, monkeypatch):
    app = create_app(settings(DRAIN_SECONDS=0))
    someone = Person(app, "x@example.org", 0)
    claim = jobs.claim
    began = Event()

    def claim_and_be_told_late(*args):  # it is on disk before its caller hears of it, on a busy hub long before
        claimed = claim(*args)
        if claimed:
            began.set()
            gevent.sleep(0.1)
        return claimed
    monkeypatch.setattr(jobs, "claim", claim_and_be_told_late)
    service = Service(app).start()
    job_id = someone.submit("free", seconds=60).json["job"]["id"]
    began.wait(5)
    service.stop()
    assert jobs.get(job_id)["error_code"] == "INTERRUPTED" and jobs.get(job_id)["settlement"] == "settled"


@pytest.mark.parametrize("ending", ["cancelled", "timed out", "refused by its own line"])
def test_a_command_ends_with_its_job_and_its_children_too(offer, person, tmp_path, ending):
    pids, someone = tmp_path / "pids", person()

    def on_line(line):
        if ending == "refused by its own line":
            raise Refuse("ENOUGH", "Enough.")

    def run(job, params):
        job.run_command(["sh", "-c", f"sh -c 'echo $$ >{pids}; sleep 300 & echo $! >>{pids}; echo go; wait' & "
                                     f"wait"], on_line=on_line)
    job_id = someone.submit(offer(run, timeout_seconds=1 if ending == "timed out" else 60)).json["job"]["id"]
    _wait_until(lambda: pids.exists() and pids.read_text().count("\n") == 2)
    if ending == "cancelled":
        someone.post(f"/api/jobs/{job_id}/cancellation")
    job = someone.finished(job_id)
    assert job["error"]["code"] == {"cancelled": "CANCELLED", "timed out": "TIMED_OUT"}.get(ending, "ENOUGH")
    _wait_until(lambda: not any(_lives(int(pid)) for pid in pids.read_text().split()))


# ----------------------------------------------------------------------------------- how it ends

def test_a_result_that_is_not_small_json_returns_the_point_and_tells_the_operator(did, person):
    someone = person(points=1)
    for n, result in enumerate(({1, 2}, object(), float("nan"), {"deep": float("inf")}, "x" * 1_000_001, {(1, 2): 3},
                                b"bytes", Nothing())):
        def run(job, params, result=result):
            job.charge()
            return result
        job = did(run, someone, cost=1)
        assert (job["status"], job["error"]["code"], job["money"]) == ("failed", "INTERNAL_ERROR", "refunded")
        assert someone.balance() == 1
        severity, code, detail = incidents()[n]
        assert (severity, code) == ("warning", "INTERNAL_ERROR") and detail.startswith("own: ") and len(detail) < 300


def test_a_result_of_a_megabyte_is_stored(did):
    assert len(did(lambda job, params: "x" * 999_998)["result"]) == 999_998


def test_half_a_character_in_a_result_harms_nobody(did):
    assert did(lambda job, params: {"text": "a\ud800b"})["result"] == {"text": "a?b"}


class Odd(BaseException):
    pass


def test_whatever_a_kind_raises_it_ends_truthfully_and_the_server_lives(did, person):
    someone = person(points=1)
    for error in (SystemExit, GreenletExit, KeyboardInterrupt, Odd, MemoryError, RecursionError, StopIteration,
                  GeneratorExit):
        def run(job, params, error=error):
            job.charge()
            raise error
        job = did(run, someone, cost=1)
        assert (job["status"], job["error"]["code"], job["money"]) == ("failed", "INTERNAL_ERROR", "refunded"), error
        assert error.__name__ in incidents()[-1][2]
    assert did(lambda job, params: "still here", someone)["result"] == "still here"


def test_a_kind_that_catches_everything_it_can_is_cancelled_all_the_same(offer, person):
    def run(job, params):
        while True:
            try:
                job.progress("wait")
                time.sleep(0.01)
            except Exception:
                pass
    someone = person()
    job_id = someone.submit(offer(run)).json["job"]["id"]
    _wait_until(lambda: someone.job(job_id)["stage"] == "wait")
    someone.post(f"/api/jobs/{job_id}/cancellation")
    began = time.monotonic()
    assert someone.finished(job_id)["error"]["code"] == "CANCELLED" and time.monotonic() - began < 2


@pytest.mark.parametrize("call", ["charge", "progress", "step", "refund", "save_file"])
def test_a_cancel_from_another_process_cannot_be_swallowed(app, offer, person, call):
    """A shell, or a server beside this one, writes the request; the kind's next call hears of it."""
    waiting, go_on = [], []

    def run(job, params):
        waiting.append(job.id)
        while not go_on:
            time.sleep(0.01)
        try:
            {"charge": job.charge, "progress": lambda: job.progress("next"), "step": lambda: job.step("s", lambda: 1),
             "refund": lambda: job.refund("x"), "save_file": lambda: job.save_file("x", b"x", "text/plain")}[call]()
        except Exception:
            pass
        return "a free lunch"
    someone = person(points=1)
    job_id = someone.submit(offer(run, cost=1)).json["job"]["id"]
    _wait_until(lambda: waiting)
    change = ("UPDATE jobs SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
              if call in ("charge", "progress") else
              # judged dead by somebody who was wrong: everything this attempt writes is fenced off
              "UPDATE jobs SET status = 'failed', settlement = 'due', error_code = 'INTERRUPTED', error_facts = '{}', "
              "worker_id = NULL, deadline_at = NULL, finished_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")
    _write_from_another_process(app, change)
    go_on.append(True)
    job = someone.finished(job_id)
    assert (job["status"], job["result"], job["money"]) == ("failed", None, "none")
    assert job["error"]["code"] == ("CANCELLED" if call in ("charge", "progress") else "INTERRUPTED")


def test_a_refusal_carries_its_facts_and_speaks_both_languages(did, person):
    someone = person()

    def run(job, params):
        raise Refuse("OUT_OF_JAPAN", {"en": "That is not in Japan.", "ja": "日本国内ではありません。"}, lat=1.5)
    job = did(run, someone)
    assert job["error"] == {"code": "OUT_OF_JAPAN", "message": "That is not in Japan.", "lat": 1.5}
    japanese = someone.get(f"/api/jobs/{job['id']}", headers={"Accept-Language": "ja"}).json
    assert japanese["error"]["message"] == "日本国内ではありません。"


# ------------------------------------------------------------------------------------ result pages

RESULTS = [
    None, 0, "", "text", True, 1e300, [], {}, [1, "a", None, [2, {"b": 3}]],
    {"items": 1, "keys": [2], "values": {"get": "x"}}, [{"a": 1, "b": 2}, {"a": 3, "b": None}],
    [{"a": 1}, {"b": 2}, 3], {"text": "two\nlines", "url": "https://example.org/?a=b&c"}, {"日本": "語 🗾"},
    json.loads("[" * 60 + "]" * 60), [{"n": n, "m": n} for n in range(500)], {"": {"": ""}},
]


def test_any_json_has_a_page(did, person):
    someone = person()
    for n, result in enumerate(RESULTS):
        job = did(lambda job, params, result=result: result, someone)
        for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/report.html"):
            answer = someone.get(path, headers={"Accept-Language": ("en", "ja")[n % 2]})
            assert answer.status_code == 200, (result, answer.text)


def test_a_result_page_runs_nobodys_script(did, person):
    someone, evil = person(), "<script>alert(1)</script>"
    job = did(lambda job, params: {evil: evil, "list": [evil], "rows": [{evil: evil, "b": "javascript:alert(1)"}],
                                   "link": "https://x/'\"><script>alert(1)</script>"}, someone)
    for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/report.html"):
        page = someone.get(path).text
        assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
        assert 'href="javascript:' not in page


def test_a_kinds_own_result_page_is_used(settings, module):
    own = module(KIND_OF + "    KIND = Kind(name='own', params=Params, run=lambda job, params: {'word': '<b>'})",
                 result_html="<p class=\"of-its-own\">{{ result.word }} {{ job.number }} {{ lang }}</p>")
    app = create_app(settings(EXTRA_KINDS=own))
    service = Service(app).start()
    someone = Person(app, "x@example.org", 0)
    job = someone.finished(someone.submit("own").json["job"]["id"])
    for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/report.html"):
        assert f'<p class="of-its-own">&lt;b&gt; {job["number"]} en</p>' in someone.get(path).text
    service.stop()


# ------------------------------------------------------------------------------------------ params

class Form(BaseModel, extra="forbid"):
    text: str = Field(max_length=5)
    number: float = Field(0, ge=0, le=10)
    yes: bool = False


@pytest.mark.parametrize("raw, field", [
    ({}, "text"), ({"text": "too long"}, "text"), ({"text": "x", "number": -1}, "number"), ({"text": 3}, "text"),
    ({"text": "x", "number": "many"}, "number"), ({"text": "x", "yes": "perhaps"}, "yes"), ({"text": "x", "z": 1}, "z"),
    ({"text": "\ud800"}, "text"), ({"text": None}, "text"), ({"text": ["x"]}, "text")])
def test_params_are_checked_and_each_problem_names_its_field(app, client, raw, field):
    app.kinds["own"] = Kind(name="own", params=Form, run=print)
    for lang in ("en", "ja"):
        refused = client.post("/api/kinds/own/jobs", data=json.dumps(raw), content_type="application/json",
                              headers={"Accept-Language": lang})
        assert refused.status_code == 400 and refused.json["code"] == "INVALID_INPUT"
        assert [error["field"] for error in refused.json["errors"]] == [field] and refused.json["errors"][0]["message"]
    assert jobs.listing() == []


# ----------------------------------------------------------------------------------------- helpers

def _write_from_another_process(app, sql):
    subprocess.run([sys.executable, "-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=10); "
                    "c.execute(sys.argv[2]); c.commit()", str(app.settings.database_path), sql], check=True)


def _wait_until(true, seconds=5):
    with gevent.Timeout(seconds):
        while not true():
            gevent.sleep(0.01)


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class _ticking:
    """Fills ``gaps`` with the seconds between turns of a greenlet that wants one every 5 ms."""

    def __init__(self, gaps):
        self.gaps = gaps

    def __enter__(self):
        self._ticker = gevent.spawn(self._tick)

    def __exit__(self, *_):
        self._ticker.kill()

    def _tick(self):
        last = time.monotonic()
        while True:
            gevent.sleep(0.005)
            now = time.monotonic()
            self.gaps.append(now - last)
            last = now


# ----------------------------------------------------------------------- checks and a disk with limits

@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
def test_a_full_disk_is_named_and_the_point_returned(did):
    def run(job, params):
        job.charge()
        with open("/dev/full", "w") as file:
            file.write("x")
    job = did(run, cost=1)
    assert (job["error"]["code"], job["money"]) == ("STORAGE_UNAVAILABLE", "refunded")
    assert db.value("SELECT count(*) FROM incidents WHERE code = 'INTERNAL_ERROR'") == 0


def test_a_look_at_an_input_that_takes_too_long_is_ended_and_told(app, monkeypatch):
    monkeypatch.setattr(commands, "CHECK_SECONDS_MAX", 0.2)
    with pytest.raises(Refuse, match="TOO_SLOW_TO_READ"):
        commands.check(["sleep", "61.7"])
    assert not subprocess.run(["pgrep", "-f", "sleep 61.7"], capture_output=True, text=True).stdout


def test_looks_at_inputs_do_not_queue_without_a_word(app, monkeypatch):
    monkeypatch.setattr(commands, "CHECK_WAIT_SECONDS", 0.1)
    looking = [gevent.spawn(commands.check, ["sleep", "61.8"]) for _ in range(2)]
    try:
        with gevent.Timeout(10):
            while not commands._check_slots.locked():
                gevent.sleep(0.01)
        with pytest.raises(Busy):
            commands.check(["true"])
    finally:
        gevent.killall(looking)
    assert commands.check(["echo", "free again"]) == b"free again\n"


def test_an_uploads_folder_that_was_tidied_away_is_made_again(app, person):
    (app.settings.folder / "uploads").rmdir()
    answer = person().post("/api/kinds/free/jobs", data={"file": (io.BytesIO(b"content"), "a.txt")})
    assert answer.status_code == 202 and len(list((app.settings.folder / "uploads").iterdir())) == 1
