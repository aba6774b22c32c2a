"""Reading what a job left: searched, filtered, sorted and paged, in bounded memory, on its page and in the exports."""
import html
import json
import re
import time
import tracemalloc
from dataclasses import replace

import gevent
import pytest
from pydantic import BaseModel
from werkzeug.datastructures import MultiDict

from webapp import db, runner
from webapp import rows as stored
from webapp.errors import InvalidInput
from webapp.kinds import Kind, Rows
from webapp.kinds.comments.rows import ROWS as COMMENTS

SPEC = Rows(noun={"en": "remarks", "ja": "発言"}, columns={"text": "Text", "label": {"en": "Mood", "ja": "気分"}, "likes": "Likes",
                                                       "at": "When", "reply_to": "Reply"},
            text="text", query_names={"reply_to": "reply"},
            filters={"label": {"good": {"en": "Fine", "ja": "良好"}, "bad": "Bad", "": "None"},
                     "reply_to": {"true": "A reply", "false": "Its own"}},
            orders={"likes": ("Most liked", "likes", True), "few": ("Least liked", "likes", False),
                    "old": ("Oldest", "at", False)})
REMARKS = [
    {"text": "Good <b>music</b>", "label": "good", "likes": 3, "at": "2026-03-01T10:00:00Z", "reply_to": False, "author": "aki"},
    {"text": "ｶﾞｯﾂ と すごい", "label": "bad", "likes": None, "at": None, "reply_to": True, "author": "music"},
    {"text": "MUSIC, ﬁne", "label": None, "likes": 1234, "at": "2025-03-01T10:00:00Z", "reply_to": False, "author": None},
    {"text": "がっつ　スゴイ", "label": "", "likes": -5, "at": "2026-02-01T10:00:00Z", "reply_to": True, "author": "x"},
]


class Nothing(BaseModel):
    pass


@pytest.fixture
def left(app, service, person):
    """A finished job that left these rows: ``(its owner, its page's path)``."""
    def make(rows, spec=SPEC, who=None):
        who = who or person()
        app.kinds["leaving"] = Kind(name="leaving", params=Nothing, run=lambda job, params: job.rows(iter(rows)), rows=spec)
        job = who.finished(who.submit("leaving").json["job"]["id"])
        assert job["status"] == "succeeded", job
        return who, f"/jobs/{job['id']}"
    return make


@pytest.fixture
def file(tmp_path, app):
    """Rows as a file."""
    def make(rows):
        path = tmp_path / "rows.jsonl"
        path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
        return path
    return make


def found(path, spec=SPEC, **texts):
    return stored.page(path, stored.wanted(spec, MultiDict(texts)))


def texts(page):
    """The texts on a page of HTML, in their order, as they are read."""
    return [html.unescape(re.sub("<[^>]+>", "", one)) for one in re.findall(r'dir="auto">(.*?)</p>', page, re.DOTALL)]


# ------------------------------------------------------------------------------------- what matches

@pytest.mark.parametrize("typed, places", [
    ("", [0, 1, 2, 3]), ("music", [0, 2]), ("ＭＵＳＩＣ", [0, 2]), ("fine", [2]), ("ガッツ", [1, 3]), ("がっつ", [1, 3]),
    ("すごい　ｶﾞｯﾂ", [1, 3]), ("good music", [0]), ("good すごい", []), ("aki", []), (".*", []), ("<b>", [0]), ("[", []),
])
def test_a_search_needs_every_word_and_knows_no_case_width_or_kana(file, typed, places):
    page = found(file(REMARKS), q=typed)
    assert page.rows == [REMARKS[n] for n in places]
    assert (page.total, page.matched) == (4, len(places))


@pytest.mark.parametrize("text, typed, marked", [
    ("I don’t know", "don't", "don’t"), ("I don't know", "don’t", "don't"), ("so ❤️!", "❤", "❤️"), ("so ❤!", "❤️", "❤"),
    ("İstanbul!", "istanbul", "İstanbul"), ("istanbul", "İSTANBUL", "istanbul"), ("a cats paw", "“cat”", None),
    ("the ‘cat’", "“the 'cat'”", "the ‘cat’"),
])
def test_what_a_phone_writes_and_what_a_keyboard_does_is_the_same(file, text, typed, marked):
    page = found(file([{"text": text}]), q=typed)
    assert page.matched == (marked is not None)
    if marked:
        wanted = stored.wanted(SPEC, MultiDict({"q": typed}))
        assert [part for part, is_word in stored.marker(wanted.words)(text) if is_word] == [marked]


@pytest.mark.parametrize("asked, places", [
    ({"label": "good"}, [0]), ({"label": "-"}, [2, 3]), ({"reply": "true"}, [1, 3]), ({"reply": "false", "label": "-"}, [2]),
    ({"label": ""}, [0, 1, 2, 3]), ({"likes": "3", "utm_source": "x"}, [0, 1, 2, 3]), ({"reply": "true", "q": "ガッツ"}, [1, 3]),
])
def test_filters_hold_together_and_a_name_that_is_none_is_passed_over(file, asked, places):
    assert found(file(REMARKS), **asked).rows == [REMARKS[n] for n in places]


@pytest.mark.parametrize("order, places", [("", [0, 1, 2, 3]), ("likes", [2, 0, 3, 1]), ("few", [3, 0, 2, 1]), ("old", [2, 3, 0, 1])])
def test_rows_are_sorted_with_empty_cells_last_either_way(file, order, places):
    assert found(file(REMARKS), order=order).rows == [REMARKS[n] for n in places]


def test_cells_of_several_types_are_sorted_too(file):
    rows = [{"likes": value} for value in ("b", 2, True, [1], None, 1.5, "")]
    for order in ("likes", "few"):
        assert len(found(file(rows), order=order).rows) == 7


@pytest.mark.parametrize("typed, places", [
    ('"art"', [0]), ("art", [0, 1]), ('"ART at"', [0]), ('"1:23"', [0]), ("1:23", [0, 2, 3]), ('"鳥肌"', [3]), ('"', [0, 1, 2, 3]),
    ('"art" "1:23"', [0]), ('"art', [0, 1]),
])
def test_between_quotation_marks_a_word_is_no_part_of_another_and_a_time_none_of_a_longer(file, typed, places):
    remarks = [{"text": text} for text in ("art at 1:23", "party at noon", "11:23 and 1:23:45", "鳥肌が立った1:23:45")]
    page = found(file(remarks), Rows(text="text", columns={"text": "Text"}), q=typed)
    assert [remarks.index(row) for row in page.rows] == places


@pytest.mark.parametrize("asked", [{"label": "awful"}, {"order": "prettiest"}, {"q": "x" * 201}, {"reply": "True"}])
def test_a_choice_that_there_is_not_is_refused_and_named(asked):
    with pytest.raises(InvalidInput) as refused:
        stored.wanted(SPEC, MultiDict(asked))
    assert [problem["field"] for problem in refused.value.facts["errors"]] == list(asked)


@pytest.mark.parametrize("spec", [Rows(), Rows(columns={"a": "A", "b": "B"})])
def test_without_a_text_all_that_is_shown_is_searched(file, spec):
    path = file([{"a": 1, "b": "word", "c": "deep"}, {"a": "2", "b": None, "c": "other"}])
    assert found(path, spec, q="word").matched == 1
    assert found(path, spec, q="deep").matched == (0 if spec.columns else 1)


# ----------------------------------------------------------------------------------------- pages

def test_every_row_stands_on_one_page(file):
    path = file({"text": f"n{n}", "likes": n % 7} for n in range(1234))
    for order in ("", "likes"):
        pages = [found(path, order=order, page=str(n)) for n in range(1, 26)]
        assert [len(page.rows) for page in pages] == [50] * 24 + [34] and pages[0].pages == 25
        told = [row["text"] for page in pages for row in page.rows]
        assert sorted(told) == sorted(f"n{n}" for n in range(1234))
        assert order or told == [f"n{n}" for n in range(1234)]


@pytest.mark.parametrize("typed, number", [("0", 1), ("-1", 1), ("x", 1), ("3", 3), ("99", 3), ("9" * 30, 1), ("٣", 1)])
def test_a_page_that_there_is_not_is_the_nearest(file, typed, number):
    page = found(file({"text": str(n)} for n in range(120)), page=typed)
    assert page.number == number and page.rows[0]["text"] == str(50 * (number - 1))


def test_what_no_page_holds_is_said(file, monkeypatch):
    monkeypatch.setattr(stored, "PAGES_MAX", 2)
    page = found(file({"text": str(n)} for n in range(120)), page="3")
    assert (page.number, page.pages, page.cut) == (2, 2, True)
    assert not found(file({"text": str(n)} for n in range(100))).cut


def test_a_file_is_never_in_memory_whole_and_others_have_their_turn(file):
    path = file({"text": f"word {n} " + "long " * 60, "label": "good", "likes": n} for n in range(20_000))
    waits = []

    def other():
        while True:
            began = time.perf_counter()
            gevent.sleep(0.001)
            waits.append(time.perf_counter() - began)
    watching = gevent.spawn(other)
    try:
        for order in ("", "likes"):
            tracemalloc.start()
            page = found(path, q="WORD", label="good", order=order, page="100")
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert page.matched == 20_000 and peak < path.stat().st_size / 4, peak
        waits.clear()
        began = time.perf_counter()
        found(path, q="word", label="good", order="likes")
        took = time.perf_counter() - began
    finally:
        watching.kill()
    assert len(waits) > 3 and max(waits) < took / 2, (took, max(waits, default=None))


# ------------------------------------------------------------------------------------------ marks

@pytest.mark.parametrize("text, typed, marked", [
    ("Good music, MUSIC", "music", ["music", "MUSIC"]), ("ｶﾞｯﾂとガッツとがっつ", "がっつ", ["ｶﾞｯﾂ", "ガッツ", "がっつ"]),
    ("a ﬁne day", "ne", ["ne"]), ("a ﬁne day", "in", ["ﬁn"]), ("か\u3099つ", "が", ["か\u3099"]), ("abcd", "bc ab", ["abc"]),
    ("あいあいう", "いう あい あ", ["あいあいう"]), ('party art artist', '"art"', ["art"]),
    ("x\u0302 x", "x", ["x\u0302", "x"]),
    ("\u1112\u1161\u11abguk", "한", ["\u1112\u1161\u11ab"]), ("Straße", "STRASSE", ["Straße"]), ("İstanbul", "stan", ["stan"]),
    ("none", "x", []), ("", "x", []), ("㌔", "ロ", ["㌔"]),
])
def test_words_are_marked_as_they_were_written(text, typed, marked):
    parts = stored.marker(stored.wanted(SPEC, MultiDict({"q": typed})).words)(text)
    assert "".join(part for part, _ in parts) == text
    assert [part for part, hit in parts if hit] == marked


@pytest.mark.parametrize("before", ["", "b"])
def test_a_text_full_of_hits_is_marked_at_its_beginning_only(before):
    text = before + "ab" * 5000
    parts = stored.marker(stored.wanted(SPEC, MultiDict({"q": "a"})).words)(text)
    assert "".join(part for part, _ in parts) == text and not parts[-1][1]
    assert stored.MARKS_MAX - 1 <= sum(hit for _, hit in parts) <= stored.MARKS_MAX


ACCENTS = "a" + "\u0301\u0323" * 5000  # an accent below belongs before one above: each pair has to be turned round
KANA = [chr(code) for code in range(0x3041, 0x3095)]


@pytest.mark.parametrize("text, typed", [
    ("あ" * 10_000, "あ " * 100), ("あ!" * 5000, "あ"), ("あ" * 10_000, "あ" * 199 + "い"), (ACCENTS, "a"),
    (ACCENTS * 3, ACCENTS[:200]),
    ("!" * 9900 + "".join(KANA), " ".join(KANA)), ("".join(KANA) * 100, " ".join(KANA)),
    ("abcdefghijklmnop" * 620 + " a b c", " ".join(f'"{letter}"' for letter in "abcdefghijklmnop")),
    ("a" * 10_000, f'"{"a" * 190}"'),
])
def test_no_search_whatever_it_looks_for_holds_the_others_up(file, monkeypatch, text, typed):
    held, last = [], [time.thread_time()]

    def pass_on(_turn):
        held.append(time.thread_time() - last[0])
        last[0] = time.thread_time()
    monkeypatch.setattr(db.Turn, "pass_on", pass_on)
    wanted = stored.wanted(SPEC, MultiDict({"q": typed.strip()[:200]}))
    pass_on(None)
    stored.page(file([{"text": text}] * 3), wanted)
    pass_on(None)
    mark = stored.marker(wanted.words)
    for _ in range(3):
        mark(text)
    pass_on(None)
    assert max(held) < 0.05, max(held)


def test_a_word_that_is_typed_again_is_looked_for_once():
    for typed, words in (("あ ア ｱ あ", 1), ('Art art "art" "ART"', 2), ("a b", 2)):
        assert len(stored.wanted(SPEC, MultiDict({"q": typed})).words) == words


def test_what_stands_far_behind_is_shown_without_marks():
    text = "n" * stored.MARKED_CHARACTERS_MAX + "x"
    assert stored.marker(stored.wanted(SPEC, MultiDict({"q": "x"})).words)(text) == [(text, False)]


# ------------------------------------------------------------------------------------------- pages

def test_the_page_of_the_job_leads_to_its_rows_and_these_back(left):
    who, path = left(REMARKS)
    assert re.search(rf'href="{path}/rows">Read all remarks \(4\)<', who.get(path).text)
    page = who.get(f"{path}/rows")
    assert page.status_code == 200 and f'href="{path}"' in page.text and "4 in all." in page.text
    assert texts(page.text) == [row["text"] for row in REMARKS]
    assert "1,234" in page.text and "2026" in page.text and "author" not in page.text


def test_what_was_asked_for_stands_in_the_form_and_in_the_downloads(left):
    who, path = left(REMARKS)
    page = who.get(f"{path}/rows?q=ガッツ&reply=true&order=likes").text
    assert 'value="ガッツ"' in page and '<option value="true" selected' in page and '<option value="likes" selected' in page
    assert "2 of 4 match." in page and texts(page)[0] == "がっつ　スゴイ" and "<mark>ｶﾞｯﾂ</mark>" in page
    hrefs = [html.unescape(href) for href in re.findall(r'href="(/api/[^"]*)"', page)]
    assert len(hrefs) == 2 and [row["text"] for row in who.get(hrefs[1]).json] == ["ｶﾞｯﾂ と すごい", "がっつ　スゴイ"]


def test_a_page_of_rows_leads_to_its_neighbours_with_what_was_asked(left):
    who, path = left({"text": f"n{n} word", "likes": n, "label": "good"} for n in range(120))
    page = who.get(f"{path}/rows?q=word&label=good&order=likes&page=2").text
    hrefs = [html.unescape(href) for href in re.findall(rf'href="({path}/rows\?[^"]*)"', page)]
    assert [texts(who.get(href).text)[0] for href in hrefs] == ["n119 word", "n19 word"] and 'start="51"' in page


def test_strangers_words_are_escaped_marked_or_not(left):
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    who, path = left([{"text": evil * 20, evil: evil, "label": evil, "likes": evil}], replace(SPEC, columns={}))
    for query in ("", "?q=script", "?q=<script>", f"?q={evil}", f"?label={evil}", f"?order={evil}&q={evil}"):
        page = who.get(f"{path}/rows{query}").text
        assert "<script>alert" not in page and "<img" not in page


def test_a_long_text_is_folded_and_opened_where_a_word_lies_behind_the_fold(left):
    who, path = left([{"text": "x" * 900 + " needle"}, {"text": "short needle"}])
    page = who.get(f"{path}/rows").text
    assert page.count("<details><summary>The rest</summary>") == 1
    assert texts(page) == ["x" * 400 + "…", "x" * 500 + " needle", "short needle"]
    who, words = left([{"text": "word " * 200}], who=who)
    assert texts(who.get(f"{words}/rows").text)[0].endswith("word…")
    assert "<details open><summary>The rest" in who.get(f"{path}/rows?q=NEEDLE").text


def test_a_page_of_rows_is_in_the_viewers_language(left):
    who, path = left(REMARKS)
    page = who.get(f"{path}/rows?label=good", headers={"Accept-Language": "ja"}).text
    assert "発言一覧" in page and "良好" in page and "気分" in page and "4件のうち1件が該当します。" in page


def test_a_refused_choice_keeps_what_was_typed_and_says_what_there_is(left):
    who, path = left(REMARKS)
    page = who.get(f"{path}/rows?q=kept&label=awful")
    assert page.status_code == 400 and 'value="kept"' in page.text and "Must be one of: good, bad, -." in page.text


def test_somebody_elses_rows_do_not_exist(left, person, app):
    who, path = left(REMARKS)
    other = person()
    for look in (other.get, app.test_client().get):
        theirs, nowhere = look(f"{path}/rows"), look("/jobs/01k0000000000000000000000z/rows")
        assert theirs.status_code == nowhere.status_code == 404 and "We cannot show you this" in theirs.text
        assert look(f"/api{path}/export.csv?q=music").status_code == 404


def test_rows_that_are_no_longer_kept_are_said_to_be_gone(left):
    who, path = left(REMARKS)
    db.store.write(lambda: db.execute(f"UPDATE jobs SET expired_at = {db.NOW}"))
    page = who.get(f"{path}/rows")
    assert page.status_code == 410 and "The result is no longer kept" in page.text and f'href="{path}"' in page.text
    assert "/rows" not in who.get(path).text


def test_rows_whose_file_is_lost_are_said_to_be_gone(left):
    who, path = left(REMARKS)
    runner.rows_path({"id": path.rpartition("/")[2], "rows_count": 4}).unlink()
    assert who.get(f"{path}/rows").status_code == 410


def test_work_without_rows_leads_to_its_own_page(app, person):
    who = person()
    path = f"/jobs/{who.submit('slow').json['job']['id']}"
    answer = who.get(f"{path}/rows")
    assert answer.status_code == 303 and answer.headers["Location"] == path and "/rows" not in who.get(path).text


def test_a_kind_that_is_gone_and_no_rows_at_all_have_a_page(left, app):
    who, path = left([])
    assert "Nothing here" in who.get(f"{path}/rows").text and "/rows" not in who.get(path).text
    who, path = left(REMARKS)
    del app.kinds["leaving"]
    page = who.get(f"{path}/rows?q=aki&label=good").text
    assert "1 of 4 match." in page and "<mark>aki</mark>" in page and "author" in page


def test_cells_say_what_they_hold(left):
    row = {"flag": True, "share": -0.71349, "many": 1234567, "list": ["0:42", "1:30"], "none": None, "empty": "", "deep": {"a": [1]},
           "year": "20260101", "at": "2026-03-01T10:00:00Z", "notatime": "2026-13-01T10:00:00Z"}
    who, path = left([row], Rows())
    page = who.get(f"{path}/rows").text
    cells = {name: re.sub("<[^>]+>", "", cell) for name, cell in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)}
    assert cells == {"flag": "Yes", "share": "−0.713", "many": "1,234,567", "list": "0:42, 1:30", "deep": "{&#39;a&#39;: [1]}",
                     "year": "20260101", "at": "1 Mar 2026, 10:00 UTC", "notatime": "2026-13-01T10:00:00Z"}


# ----------------------------------------------------------------------------------------- exports

def test_an_export_gives_the_rows_that_are_asked_for(left):
    who, path = left(REMARKS)
    api = f"/api{path}/export"
    assert who.get(f"{api}.json?label=-&q=music").json == [REMARKS[2]]
    assert who.get(f"{api}.json").json == REMARKS and who.get(f"{api}.json?q=nowhere").json == []
    table = who.get(f"{api}.csv?label=bad").data.decode("utf-8-sig").splitlines()
    assert table == ["text,label,likes,at,reply_to,author", "ｶﾞｯﾂ と すごい,bad,,,True,music"]
    assert len(who.get(f"{api}.csv?q=nowhere").data.decode("utf-8-sig").splitlines()) == 1


def test_an_export_refuses_a_choice_that_there_is_not(left):
    who, path = left(REMARKS)
    refused = who.get(f"/api{path}/export.csv?label=Bad")
    assert refused.status_code == 400 and refused.json["code"] == "INVALID_INPUT"
    assert refused.json["errors"] == [{"field": "label", "message": "Must be one of: good, bad, -."}]


# ---------------------------------------------------------------------------------------- comments

def test_comments_are_read_by_what_their_analysis_says(file):
    assert list(Kind(name="x", params=Nothing, run=print, rows=COMMENTS).rows.problems()) == []
    path = file([{"text": "Why?", "label": "negative", "score": -0.5, "is_reply": True, "asks": "question", "likes": 2},
                 {"text": "Wow", "label": "positive", "score": 0.9, "is_reply": False, "asks": "", "likes": 0},
                 {"text": "…", "label": "", "score": None, "is_reply": False}])
    for texts, places in (({"label": "-"}, [2]), ({"asks": "question", "reply": "true"}, [0]), ({"order": "most-negative"}, [0, 1, 2]),
                          ({"order": "most-positive", "asks": "-"}, [1, 2]), ({"order": "likes"}, [0, 1, 2])):
        assert [("Why?", "Wow", "…").index(row["text"]) for row in found(path, COMMENTS, **texts).rows] == places
