"""Laws of the report on comments: what they ask, what many say alike, moments, the page of every result."""
import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from flask import render_template
from flask_babel import force_locale

from tests.conftest import ROOT
from webapp import create_app
from webapp.kinds import comments
from webapp.kinds.comments.analysis import asks, figures, groups, moments

HOME = Path(comments.__file__).parent
FIRST_VERSION = ROOT / "tests" / "data" / "comments-result-version-1.json"


def child(path, *arguments):
    done = subprocess.run([sys.executable, "-m", "analysis", "report", str(path), *arguments], cwd=HOME,
                          capture_output=True, timeout=120, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    single = {name: value for line in lines if isinstance(line, dict) for name, value in line.items()}
    return single, [row for line in lines if isinstance(line, list) for row in line]


def analysed(tmp_path, entries, **about):
    path = tmp_path / "upload"
    path.write_text(json.dumps(entries), "utf-8")
    return child(path, "--name=x.json", f"--about={json.dumps(about)}")


# --- what they ask ------------------------------------------------------------------------------

@pytest.mark.parametrize("text, spoken, kind", [
    ("What camera do you use?", "en", "question"), ("Hey, where did you buy this?", "en", "question"),
    ("song name?", "en", "question"), ("Anyone know what the song is", "en", "question"),
    ("Please make a part 2", "en", "request"), ("Could you do a tutorial on this?", "en", "request"),
    ("I'd love to see a video about Rust", "en", "request"),
    ("どのカメラを使っていますか？", "ja", "question"), ("曲名を教えてください", "ja", "question"),
    ("おすすめの本はありますか", "ja", "question"),
    ("続きをお願いします！", "ja", "request"), ("字幕をつけてほしいです", "ja", "request"),
])
def test_what_is_asked_of_the_creator_is_found(text, spoken, kind):
    assert asks.find(text, spoken).kind == kind


@pytest.mark.parametrize("text, spoken", [
    ("Who's watching in 2024?", "en"), ("Anyone else crying?", "en"), ("How is this not famous?", "en"),
    ("He asked \"what camera do you use?\" and left", "en"), ("Please subscribe to my channel", "en"),
    ("Please stay healthy", "en"), ("Great video", "en"), ("", "en"),
    ("2024年に見てる人いますか？", "ja"), ("これ最高じゃない？", "ja"), ("天才ですか？", "ja"), ("体に気をつけてください", "ja"),
    ("「どこで買えますか？」と言われた", "ja"), ("妹に教えてもらって来ました", "ja"), ("教えてくれてありがとう", "ja"), ("え？", "ja"),
    ("¿Qué cámara usas?", "other"), ("どこですか？", "ko"),
])
def test_what_is_asked_of_others_or_of_nobody_is_not(text, spoken):
    assert asks.find(text, spoken) is None


def test_a_request_comes_before_a_question_and_an_endless_text_shows_where_it_asks():
    assert asks.find("What is this song? Please make more.", "en").kind == "request"
    found = asks.find("so " * 100 + "can you make a tutorial", "en")
    assert len(found.sentence) <= asks.SENTENCE_CHARACTERS_MAX + 2 and "can you make" in found.sentence


# --- what many say alike ------------------------------------------------------------------------

def clustered(*texts):
    return groups.cluster([groups.features(text) for text in texts], [1] * len(texts))


@pytest.mark.parametrize("one, other", [
    ("This song is beautiful", "THIS SONG IS BEAUTIFUL!!! 😍😍"), ("best song ever", "bessst sonnng everrr"),
    ("love this melody forever", "forever this melody love"), ("この曲が本当に好きです", "この曲が本当に好きです！！😭"),
    ("最高の動画だった", "最高の動画だったーーー"),
])
def test_texts_that_differ_in_case_signs_length_or_order_say_the_same(one, other):
    assert clustered(one, other) == [[0, 1]]


@pytest.mark.parametrize("one, other", [
    ("this song is beautiful", "this song is not beautiful"), ("the camera broke", "the music played"),
    ("この曲が好きです", "この曲が好きではない"), ("猫がかわいい動画", "犬の散歩を見た"), ("😍", "😭"), ("", ""),
])
def test_texts_that_say_different_things_stay_apart(one, other):
    assert clustered(one, other) == []


def test_one_long_text_five_hundred_times_is_one_saying_of_bounded_size(tmp_path):
    text = " ".join(f"word{n}" for n in range(1_250))[:10_000]
    assert len(groups.features(text)) == groups.FEATURES_MAX
    said, rows = analysed(tmp_path, [{"text": text, "author": f"a{n}"} for n in range(500)])
    assert len(rows) == 500
    [group] = said["report"]["groups"]
    assert (group["count"], group["wordings"], group["authors"], group["spam"]) == (500, 1, 500, False)
    assert len(group["text"]) <= 240


@pytest.mark.parametrize("authors, spam", [([1] * 6, True), ([1, 2] * 3, True), ([1, 2, 3] * 2, False), ([None] * 6, False)])
def test_the_same_text_from_few_authors_looks_like_spam(tmp_path, authors, spam):
    entries = [{"text": "Click here for free money", "author": one and f"a{one}"} for one in authors]
    assert analysed(tmp_path, entries)[0]["report"]["groups"][0]["spam"] is spam


# --- moments ------------------------------------------------------------------------------------

@pytest.mark.parametrize("text, seconds", [
    ("1:23", [83]), ("at 1:02:03 wow", [3723]), ("１：２３が好き", [83]), ("0:05 and 0:05 and 0:10", [5, 10]), ("59:59", [3599]),
    ("10:30 am", []), ("at 8:30pm", []), ("8:30 p.m.", []), ("12:345", []), ("1:2", []), ("1:2:3", []), ("1:75", []), ("none", [])])
def test_moments_of_the_video_are_read_and_times_of_day_are_not(text, seconds):
    assert moments.named(text) == seconds


def test_a_moment_is_quoted_by_its_most_liked_comment(tmp_path):
    said, rows = analysed(tmp_path, [{"text": "1:23 great", "likes": 1}, {"text": "love 1:23", "likes": 9}])
    [one] = said["report"]["times"]
    assert (one["time"], one["seconds"], one["comments"], one["quote"], one["likes"]) == ("1:23", 83, 2, "love 1:23", 9)
    assert said["columns"][-2:] == ["asks", "times"] and [row[-1] for row in rows] == ["1:23", "1:23"]


# --- statistics, size ---------------------------------------------------------------------------

def test_the_statistics_agree_with_the_report_and_what_is_known_beside_the_file_is_merged(tmp_path):
    source = [row["text"] for row in csv.DictReader((HOME / "sample.csv").read_text("utf-8").splitlines())]
    said, _ = analysed(tmp_path, [{"text": text, "likes": n} for n, text in enumerate(source)],
                       source={"video": {"id": "abc"}}, coverage={"reported": 999, "partial": True},
                       notes=[{"code": "capped", "count": 3}])
    report, table = said["report"], said["statistics"]
    assert report["source"]["video"] == {"id": "abc"} and report["coverage"]["notes"][-1]["code"] == "capped"
    assert report["coverage"]["reported"] == 999 and report["coverage"]["partial"] is True
    for name in ("source", "options", "coverage", "polarity", "histogram"):
        assert table[name] == report[name]
    labels = report["polarity"]["counts"]
    assert {label: sum(by.get(label, 0) for by in table["language_by_label"].values()) for label in labels} == labels
    assert sum(one["comments"] for one in table["likes"]["buckets"]) == table["likes"]["n"] == len(source)
    assert table["asks"].get("question", 0) == report["asks"]["question"]["comments"]


def test_many_different_comments_give_a_bounded_result(tmp_path):
    said, _ = analysed(tmp_path, [{"text": f"Can you make a video about w{n} x{n} y{n}? {n % 60}:{n % 59:02} " + "z" * 300,
                                   "likes": n, "timestamp": 1_000_000_000 + n * 86_400} for n in range(5_000)])
    assert len(json.dumps(said["report"])) < 200_000
    assert len(json.dumps(said["statistics"])) < figures.BYTES_MAX and said["statistics"]["left_out"]


# --- the page -----------------------------------------------------------------------------------

@pytest.fixture
def app(settings):
    return create_app(settings(KINDS="comments", EXTRA_KINDS=""))


def page(app, result, lang, **more):
    with app.test_request_context(), force_locale(lang):
        return render_template("kinds/comments/result.html", result=result, job={"links": {"self": "/api/jobs/1"}},
                               lang=lang, **more)


@pytest.mark.parametrize("lang, sentence", [("en", "of 900 comments analysed"), ("ja", "900")])
@pytest.mark.parametrize("standalone", [False, True])
def test_a_result_of_the_first_version_is_still_shown(app, lang, sentence, standalone):
    result = json.loads(FIRST_VERSION.read_text("utf-8"))
    assert result["version"] == "1" and "groups" not in result and "asks" not in result
    result["coverage"].update(reported=900, replies_missing=7)
    html = page(app, result, lang, standalone=standalone)
    assert sentence in html and "7" in html and "report-asks" not in html
    assert ("export.csv" in html) is not standalone


REASONS = ("upstream", "quota", "daily_limit", "guests_limit", "repeated_page", None)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_every_reason_for_a_part_of_the_comments_has_its_sentence(app, lang):
    result, said = json.loads(FIRST_VERSION.read_text("utf-8")), set()
    for reason in REASONS:
        result["coverage"].update(partial=True, stopped=reason)
        said.add(re.search(r'report-warning">(.*?)</p>', page(app, result, lang))[1])
    assert len(said) == len(REASONS) and (lang == "en" or all(re.search("[ぁ-ん]", one) for one in said))


@pytest.mark.parametrize("texts, en", [
    (["I love this"], "The only scored comment is positive."), (["한국어 댓글입니다"] * 3, "No comment could be scored"),
    (["😍😍"] * 40, "Nearly all hold only emoji"), (["I love it", "I love this", "I hate this"], "2 of 3"),
    (["I love this"] * 40, "Mostly positive: 100% of 40"),
    (["I love this"] * 20 + ["I hate this"] * 20, "positive")])
def test_the_headline_fits_how_many_could_be_read(app, tmp_path, texts, en):
    result = analysed(tmp_path, [{"text": text} for text in texts])[0]["report"]
    assert en in page(app, result, "en")
    assert re.search("[ぁ-ん]", re.search(r'report-headline">(.*?)</p>', page(app, result, "ja"), re.S)[1])
