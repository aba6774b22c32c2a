"""Laws of the report: its arithmetic, what many say, what they ask, the statistics, and its page."""
import csv
import json
import math
import random
import re
import statistics
import time
from array import array
from pathlib import Path
from urllib.parse import urlencode

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_comments import HOME, YT_DLP, child, reported
from webapp import messages
from webapp.kinds.comments.analysis import asks, figures, groups, moments, scoring, words
from webapp.kinds.comments.analysis import report as reporting
from webapp.kinds.comments.analysis.reading import Comment

ROOT = HOME.parents[1]


# --- the report's arithmetic --------------------------------------------------------------------

def test_every_figure_agrees_with_the_rows(tmp_path):
    source = list(csv.DictReader((HOME / "sample.csv").read_text("utf-8").splitlines()))
    data = [{"text": one["text"], "likes": n % 7, "timestamp": 1_700_000_000 + n * 86_400} for n, one in enumerate(source)]
    report, rows = reported(tmp_path, json.dumps(data), "x.json")
    scored = [row for row in rows if row[2]]
    scores = [row[3] for row in scored]
    polarity, coverage = report["polarity"], report["coverage"]
    assert coverage["analysed"] == len(rows) == len(source) and coverage["scored"] == len(scored)
    for label in ("positive", "neutral", "negative"):
        mine = [row for row in scored if row[2] == label]
        assert polarity["counts"][label] == len(mine)
        assert polarity["shares"][label] == pytest.approx(len(mine) / len(scored), abs=1e-4)
        assert polarity["like_weighted"][label] == pytest.approx(
            sum(1 + row[5] for row in mine) / sum(1 + row[5] for row in scored), abs=1e-4)
    mean, reach = statistics.mean(scores), 1.96 * statistics.stdev(scores) / math.sqrt(len(scores))
    assert polarity["mean"] == pytest.approx(mean, abs=2e-4)
    assert polarity["interval"] == pytest.approx([mean - reach, mean + reach], abs=5e-4)
    assert sum(one["count"] for one in report["emotions"]) == sum(bool(row[4]) for row in scored)
    assert sum(one["count"] for one in report["histogram"]) == len(scored)
    for one in report["histogram"][1:-1]:
        assert one["count"] == sum(one["from"] <= score < one["to"] for score in scores)
    assert coverage["by_language"] == dict(sorted(
        ((language, sum(row[1] == language for row in rows)) for language in {row[1] for row in rows}),
        key=lambda one: (-one[1], one[0])))
    bins = report["timeline"]["bins"]
    assert sum(one["count"] for one in bins) == len(rows) and sum(one["scored"] for one in bins) == len(scored)
    first = [row[3] for row in scored if bins[0]["start"] <= row[6] < bins[1]["start"]]
    assert bins[0]["mean"] == pytest.approx(statistics.mean(first), abs=2e-4)
    assert (coverage["from"], coverage["to"]) == (rows[0][6], rows[-1][6])


NOTHING_MORE = {}, {}, {"reported": 0, "in_file": 0, "replies_missing": None}, []


def gathered(*entries, spoken="en", emotion="joy"):
    """A report over (text, score[, likes, at, author])."""
    one = reporting.Report("m", "1")
    for text, score, *more in entries:
        label = "" if score is None else "positive" if score > .25 else "negative" if score < -.25 else "neutral"
        one.add(Comment(text, *more), scoring.Scored(spoken, label, score, emotion if label else ""),
                lambda text, language: text.lower().split(), asks.find(text, spoken), moments.named(text))
    return one


def made(*entries, **more):
    return gathered(*entries, **more).result(*NOTHING_MORE)


@pytest.mark.parametrize("scores, code", [
    ([.9, .9, -.9], "mostly_positive"), ([-.9, -.9, .9], "mostly_negative"), ([0, 0, .9], "mostly_neutral"),
    ([.9] * 4 + [-.9] * 2 + [0] * 3, "more_positive"), ([-.9] * 4 + [.9] * 2 + [0] * 3, "more_negative"),
    ([.9] * 10 + [-.9] * 10 + [0] * 3, "mixed"), ([None], "nothing_scored")])
def test_the_headline_says_what_prevails(scores, code):
    assert made(*((f"t{n}", score) for n, score in enumerate(scores)))["headline"]["code"] == code


@pytest.mark.parametrize("counts, code, count", [   # positive, neutral, negative
    ((1, 0, 0), "mostly_positive", 1), ((0, 1, 0), "mostly_neutral", 1), ((0, 0, 1), "mostly_negative", 1),
    ((1, 0, 1), "mixed", 1), ((5, 0, 5), "mixed", 5), ((50, 1, 49), "mixed", 50), ((49, 2, 49), "mixed", 49),
    ((500, 1, 499), "mixed", 500), ((54, 0, 46), "mixed", 54),
    ((55, 0, 45), "mostly_positive", 55), ((1, 1, 1), "mixed", 1),
    ((0, 5, 5), "more_negative", 5), ((5, 5, 0), "more_positive", 5), ((1, 1, 0), "more_positive", 1),
    ((2, 0, 1), "mostly_positive", 2),
    ((50, 10, 40), "more_positive", 50), ((501, 100, 400), "more_positive", 501), ((25, 50, 25), "mixed", 25),
    ((0, 51, 49), "mostly_neutral", 51), ((10, 80, 10), "mostly_neutral", 80), ((6, 0, 5), "mixed", 6)])
def test_the_headline_is_true_at_a_tie_and_at_the_brink(counts, code, count):
    told = reporting.headline(dict(zip(words.LABELS, counts)))
    assert told == {"code": code, "count": count, "of": sum(counts)}


@given(st.tuples(*[st.integers(0, 60) | st.integers(0, 60_000)] * 3))
def test_the_headline_is_true_of_all_counts(counts):
    by, scored = dict(zip(words.LABELS, counts)), sum(counts)
    code, count, of = reporting.headline(by).values()
    how, _, side = code.partition("_")
    assert of == scored and (code == "nothing_scored") == (not scored)
    if how == "mostly":     # in whole percent too
        assert count == by[side] and count * 2 > scored and float(f"{count / scored:.2f}") > .5
        assert side == "neutral" or by[side] - by[{"positive": "negative"}.get(side, "positive")] >= scored / 10
    elif how == "more":
        assert count == by[side] and by[side] - by[{"positive": "negative"}.get(side, "positive")] >= scored / 10
    elif how == "mixed":
        assert abs(by["positive"] - by["negative"]) < scored / 10
        assert min(by["positive"], by["negative"]) >= .19 * scored
    turned = reporting.headline(dict(zip(words.LABELS, counts[::-1])))
    swapped = {"positive": "negative", "negative": "positive"}.get(side, side)
    assert turned == {"code": f"{how}_{swapped}" if side else code, "count": count, "of": of}


@pytest.mark.parametrize("many, few", [(29, True), (30, False)])
def test_fewer_than_thirty_scored_comments_are_warned_about(many, few):
    assert made(*((f"t{n}", .5) for n in range(many)))["polarity"]["few"] is few


def test_one_comment_has_a_mean_but_no_interval():
    polarity = made(("t", .5))["polarity"]
    assert polarity["mean"] == .5 and polarity["interval"] is None and polarity["like_weighted"] is None


def test_a_word_of_one_side_is_found_on_that_side_and_spam_counts_once():
    found = made(*[(f"crash again {n}", -.8) for n in range(9)], *[(f"lovely again {n}", .8) for n in range(9)],
                 *[("spam spam", .8)] * 50)["keywords"]
    assert found["negative"][0]["word"] == "crash" and found["positive"][0]["word"] == "lovely"
    assert not {"again", "spam"} & {one["word"] for side in found.values() for one in side}


def test_the_memory_for_words_is_bounded(monkeypatch):
    monkeypatch.setattr(words, "HELD_MAX", 50)
    one = reporting.Report("m", "1")
    for n in range(500):
        one.add(Comment(f"crash w{n} v{n}"), scoring.Scored("en", "negative", -.5, ""), lambda text, _: text.split())
        assert len(one.words.words) <= 50
    assert ("en", "crash") in one.words.words


def test_words_are_seldom_forgotten_however_many_common_ones_are_held(monkeypatch):
    monkeypatch.setattr(words, "HELD_MAX", 100)
    forgotten, forget = [], words.Words._forget
    monkeypatch.setattr(words.Words, "_forget", lambda self: (forgotten.append(1), forget(self)))
    held = words.Words()
    for n in range(200):
        held.add("en", "positive", [f"common{n // 2}"])
    for n in range(5000):
        held.add("en", "positive", [f"rare{n}"])
    assert 10 < len(forgotten) <= 5000 / 50 + 1 and len(held.words) <= 100


def test_a_word_or_a_moment_that_one_person_repeats_is_one_voice():
    ads = [(f"buy gizmo {n} at 1:23", .9, 0, None, "ad") for n in range(9)]
    told = made(*ads, *[(f"lovely tune {n}", .8, 0, None, f"a{n}") for n in range(4)],
                *[(f"awful noise {n}", -.8, 0, None, f"b{n}") for n in range(9)])
    assert "gizmo" not in {one["word"] for one in told["keywords"]["positive"]} and told["times"] == []
    [moment] = made(*ads, ("see 1:23", .1, 0, None, "b"))["times"]
    assert moment["comments"] == 10
    many = made(*ads, ("1:23", 0, 0, None, "b"), *[("4:56", 0, 0, None, author) for author in "abc"])["times"]
    assert [one["time"] for one in many] == ["4:56", "1:23"]


def test_times_of_the_video_are_counted_once_a_comment_and_clock_times_are_not():
    times = made(("1:23 and 1:23 wow", .5), ("at １：２３", -.5), ("1:02:03 yes", .1), ("see 1:02:03", .3),
                 ("at 8:30 pm", 0), ("by 8:30 pm", 0), ("12:345 2:1 1:2:3", 0))["times"]
    assert [(one["time"], one["seconds"], one["comments"], one["mean"]) for one in times] == [
        ("1:23", 83, 2, 0.0), ("1:02:03", 3723, 2, .2)]
    assert times[0]["quote"] == "1:23 and 1:23 wow"


def test_the_quote_of_a_moment_is_its_most_liked_comment():
    assert made(("1:23 a", .5, 1), ("1:23 b", .5, 7), ("1:23 c", .5, 7))["times"][0]["quote"] == "1:23 b"


@pytest.mark.parametrize("days, coarse, unit", [
    (0, False, "hour"), (2, False, "hour"), (3, False, "day"), (60, False, "day"), (61, False, "week"), (421, False, "month"),
    (2000, False, "year"), (36_000, False, "year"), (3, True, "day"), (15, True, "week"), (61, True, "month"), (731, True, "year")])
def test_the_timelines_bins_follow_the_span_and_include_empty_ones(days, coarse, unit):
    one = reporting.Report("m", "1")
    for at in (1_000_000_000, 1_000_000_000 + days * 86_400):
        one.add(Comment("t", at=float(at)), scoring.Scored("en", "neutral", .1, ""), lambda *_: [])
    line = one.result({}, {}, {"reported": 2, "in_file": 2, "replies_missing": None, "coarse": coarse}, [])["timeline"]
    assert (line["unit"], line["coarse"]) == (unit, coarse) and len(line["bins"]) <= 101
    assert sum(one["count"] for one in line["bins"]) == 2 and line["bins"][-1]["count"] >= 1
    assert all(one["mean"] is None for one in line["bins"] if not one["count"])


# --- headline -----------------------------------------------------------------------------------

def test_the_headline_names_emotions_and_how_many_ask():
    headline = made(*[(f"music is great {n}", .8) for n in range(40)], *[("what song is this?", 0)] * 3)["headline"]
    assert headline["code"] == "mostly_positive" and headline["emotions"] == ["joy"] and headline["asking"] == 3
    few = made(("music", .8), ("hm", 0))["headline"]
    assert few["emotions"] == [] and few["asking"] == 0


# --- what many say ------------------------------------------------------------------------------

@pytest.mark.parametrize("one, other", [
    ("What song is this?!", "what is this song"), ("Sooo good to see you!!! 😍😍", "so good to see u"),
    ("best teacher ever thank you", "Thank you, BEST teacher ever <3"), ("この曲最高！！！", "この曲最高ーーw"),
    ("続編お願いします！", "続編お願いします🙏🙏")])
def test_spelling_signs_and_order_make_no_difference_to_what_is_said(one, other):
    assert groups.alike(set(groups.features(one)), set(groups.features(other))) == 1


@pytest.mark.parametrize("one, other", [
    ("I love this song", "I don't love this song"), ("最高の動画", "最高ではない動画"), ("part 2 was good", "part 3 was bad"),
    ("", "😂"), ("great camera work", "great guitar solo")])
def test_what_says_something_else_is_kept_apart(one, other):
    assert groups.cluster([groups.features(one), groups.features(other)], [1, 1]) == []


def test_a_group_counts_its_comments_wordings_authors_and_likes():
    [group] = made(("Best teacher ever!", .9, 3, None, "a"), ("best teacher ever 😍", .5, 4, None, "b"),
                   ("Best teacher EVER", .7, None, None, "a"), ("nothing to do with it", 0))["groups"]
    assert (group["text"], group["count"], group["wordings"], group["authors"], group["likes"], group["mean"]) == (
        "Best teacher ever!", 3, 2, 2, 7, pytest.approx(.8, abs=.11))
    assert group["spam"] is False


@pytest.mark.parametrize("authors, spam", [("aaaaaa", True), ("aaabbb", True), ("abcdef", False), ([None] * 6, False),
                                           (["a", *[None] * 5], False)])
def test_the_same_text_from_few_authors_is_marked_as_spam(authors, spam):
    [group] = made(*[("earn money fast here", .5, 0, None, author) for author in authors])["groups"]
    assert group["count"] == 6 and group["spam"] is spam
    assert group["authors"] == (None if None in [*authors] else len(set(authors)))


def test_what_most_people_say_goes_before_what_one_repeats():
    told = made(*[("earn money fast here", .9, 0, None, "ad")] * 10,
                *[("best teacher ever", .6, 0, None, author) for author in "abc"],
                *[("nice to be here", .5, 0, None, "d")] * 4)
    assert [(one["text"], one["count"], one["voices"], one["spam"]) for one in told["groups"]] == [
        ("best teacher ever", 3, 3, False), ("nice to be here", 4, 1, False), ("earn money fast here", 10, 1, True)]
    assert told["examples"]["positive"][-1]["text"] == "earn money fast here"
    [alone] = made(*[("earn money fast here", .9, 0, None, "ad")] * 10)["examples"]["positive"]
    assert alone["text"] == "earn money fast here"


def test_the_same_in_other_words_from_one_person_is_spam_too_and_a_text_that_others_write_is_not():
    ads = [(f"earn money fast here now {filler}", .5, 0, None, "ad") for filler in ("", "a", "an", "the", "so", "to")]
    [spam] = made(*ads)["groups"]
    assert spam["spam"] is True and spam["wordings"] > 1
    [many] = made(*[("best teacher ever", .5, 0, None, "a")] * 5,
                  *[("best teacher ever so", .5, 0, None, f"b{n}") for n in range(9)])["groups"]
    assert many["spam"] is False


def test_grouping_hostile_texts_ends_soon():
    """Fifty words that everybody uses, in 20,000 different choices: every text resembles many others a little."""
    choose = random.Random(1)
    sets = [array("I", sorted(choose.sample(range(60), 30))) for _ in range(20_000)]
    began = time.process_time()
    groups.cluster(sets, [1] * len(sets))
    assert time.process_time() - began < 20


# --- what they ask ------------------------------------------------------------------------------

@pytest.mark.parametrize("text", [
    "What song is this?", "what song is this", "whats the song at 2:31?", "Song name?", "Which camera do you use?",
    "Can you tell me how you made this?", "Does anyone know the name of the song", "When is the next video coming out?",
    "Are you going to tour in Japan?", "Great video! What mic is that?", "I was wondering what mic you use",
    "この曲なんですか？", "曲名教えてください", "カメラは何を使っていますか", "続編はありますか？", "2:31の曲なに？",
    "次はいつ投稿するのかな？", "質問です。マイクは何を使ってますか"])
def test_a_question_to_the_creator_is_found(text):
    assert ask(text) == "question"


@pytest.mark.parametrize("text", [
    "can you make a tutorial on this", "Could you please react to BTS next?", "Part 2?", "part 2 please", "We need a part 2",
    "I'd love to see you play Zelda", "more videos like this please", "Please add Spanish subtitles", "bring back the old intro!",
    "You should react to Pink Floyd", "続編お願いします！", "パート2希望", "もっと動画出してほしい", "解説動画を作ってください",
    "大阪にも来てください", "登録者100万人記念の動画を作ってください", "高評価の商品を紹介してほしいです", "フォロワー企画やってください",
    "サブチャンネルも作ってください", "うちの猫の動画も紹介してください", "シェアハウスの動画もっと出してほしい",
    "2期はよ", "フルで聴きたい！", "概要欄に曲名を載せていただけると嬉しいです", "次は北海道に来てください"])
def test_a_request_to_the_creator_is_found(text):
    assert ask(text) == "request"


@pytest.mark.parametrize("text", [
    "who's watching in 2024?", "anyone else crying?", "Am I the only one who cried?", "How is this not famous?",
    "Why is this in my recommended?", "Can we appreciate the editing?", "can you imagine the pressure?", "What a masterpiece",
    "what the hell?", "This is amazing, isn't it?", "He said \"what song is this?\" and I died", "please subscribe to my channel",
    "please stay healthy", "When I was a kid I loved this", "I need this in my life", "?", "", "please continue your great work",
    "2024年に見てる人いる？", "泣いたの私だけ？", "天才ですか？", "最高じゃないですか", "これからも頑張ってください！",
    "よろしくお願いします", "なにこれ？", "え？", "「この曲なんですか？」って聞かれた", "私のチャンネルも見てください",
    "なんでこんなに可愛いの？", "何度見ても泣ける", "素晴らしいとしか言えない",
    "チャンネル登録お願いします", "登録・高評価お願いします", "高評価とチャンネル登録よろしくお願いします", "フォローしてください", "相互登録お願いします",
    "僕のチャンネル登録お願いします", "うちのチャンネルにも遊びに来てください", "ライブ見に来てください", "俺の動画も見てほしいです",
    "歌ってみた投稿したので聴いてください", "拡散お願いします", "プロフから飛んできてください", "登録してもらえると嬉しいです", "いいね押してください",
    "グッドボタンお願いします", "LINE追加お願いします", "応援お願いします", "シェアしてください", "ポチッとお願いします"])
def test_what_is_not_asked_of_the_creator_is_nothing(text):
    assert ask(text) == ""


def ask(text):
    found = asks.find(text, "ja" if re.search("[ぁ-んァ-ヶ一-龠]", text) else "en")
    return found.kind if found else ""


def test_the_sentence_that_asks_is_kept_and_a_request_goes_before_a_question():
    assert asks.find("I love it. What song is this? Bye.", "en") == ("question", "What song is this?")
    assert asks.find("What song is this? please make a part 2", "en").kind == "request"
    assert len(asks.find("word " * 100 + "can you make a video on rust " + "word " * 100, "en").sentence) < 170


def test_what_many_ask_is_one_question_with_a_count():
    top = made(("What song is this?", 0), ("song name?", 0, 2), ("whats this song??", 0), ("What camera do you use?", 0))
    assert top["asks"]["question"]["comments"] == 4 and top["asks"]["request"] == {"comments": 0, "top": []}
    assert [(one["text"], one["count"]) for one in top["asks"]["question"]["top"]] == [
        ("song name?", 3), ("What camera do you use?", 1)]
    japanese = made(("曲名教えてください", 0), ("曲名を教えて下さい🙏", 0), ("続編お願いします！", 0), ("続編お願いします🙏🙏", 0), spoken="ja")
    assert [japanese["asks"][kind]["top"][0]["count"] for kind in ("question", "request")] == [2, 2]


def asking(text, authors, likes=0):
    return [(text, 0, likes, None, author) for author in authors]


@pytest.mark.parametrize("entries, asked", [
    (asking("What song is this?", "a" * 10), None),
    (asking("What song is this?", "a" * 4), None),
    (asking("What song is this?", "a" * 10) + asking("Which camera do you use?", "bcd"),
     ("Which camera do you use?", 3, 3, False)),
    (asking("What song is this?", "aaaabc") + asking("Which camera do you use?", "abcd"),
     ("Which camera do you use?", 4, 4, False)),
    (asking("What song is this?", "aabc"), ("What song is this?", 4, 3, False)),
    (asking("What song is this?", "abc") + asking("part 2 please", "abc"), ("What song is this?", 3, 3, True)),
    (asking("What song is this?", [None] * 4), ("What song is this?", 4, None, False)),
    (asking("What song is this?", [*"aab", None]), ("What song is this?", 4, None, False))])
def test_what_is_asked_most_is_what_most_people_ask(entries, asked):
    told = made(*entries)["headline"]["asked"]
    assert (told and tuple(told[name] for name in ("text", "count", "people", "tied"))) == asked


def test_questions_are_listed_by_who_asks_them_and_spam_last():
    top = made(*asking("What song is this?", "a" * 10, 9), *asking("Which camera do you use?", "bcd"),
               *asking("When is the next video?", "e"))["asks"]["question"]["top"]
    assert [(one["text"], one["count"]) for one in top] == [
        ("Which camera do you use?", 3), ("When is the next video?", 1), ("What song is this?", 10)]


# --- examples -----------------------------------------------------------------------------------

def test_the_strongest_examples_are_not_the_same_again():
    examples = made(*[(f"I love this song so very much {n}", .9) for n in range(9)], ("what a wonderful teacher you are", .85))
    assert len(examples["examples"]["positive"]) == 2


# --- statistics ---------------------------------------------------------------------------------

def test_the_statistics_agree_with_the_report(tmp_path):
    data = [{"text": f"{one['text']} 1:23", "likes": n % 7, "timestamp": 1_700_000_000 + n * 3_600}
            for n, one in enumerate(csv.DictReader((HOME / "sample.csv").read_text("utf-8").splitlines()))]
    (tmp_path / "x.json").write_text(json.dumps(data))
    lines = child("report", tmp_path / "x.json", "--name=x.json")
    report, = (line["report"] for line in lines if "report" in line)
    table, = (line["statistics"] for line in lines if "statistics" in line)
    counts = report["polarity"]["counts"]
    for crossed in ("language_by_label", "emotion_by_label"):
        for label in counts:
            assert sum(row.get(label, 0) for row in table[crossed].values()) == counts[label]
    assert table["scores"]["n"] == report["coverage"]["scored"] and table["likes"]["n"] == len(data)
    assert sum(one["comments"] for one in table["likes"]["buckets"]) == len(data)
    for calendar in ("hours", "weekdays", "days"):
        assert sum(one["count"] for one in table[calendar]) == len(data)
    assert table["moments"][0]["time"] == "1:23" and table["moments"][0]["comments"] == len(data)
    assert len(table["words"]) == 200 and all(one["z"] * 0 == 0 for one in table["words"] + table["pairs"])
    assert table["coverage"] == report["coverage"] and table["left_out"] == {}


def test_the_statistics_are_bounded(monkeypatch):
    monkeypatch.setattr(figures, "BYTES_MAX", 40_000)
    one = gathered(*[(f"can you make video number{n} on topic{n} 1:{n % 60:02}", 0) for n in range(400)])
    table = one.statistics(one.result(*NOTHING_MORE))
    assert len(json.dumps(table)) <= 40_000 and table["left_out"]["requests"] + len(table["requests"]) == 400


@pytest.mark.parametrize("p, value", [(1, 1), (10, 1), (11, 2), (50, 5), (99, 10), (100, 10)])
def test_a_percentile_is_the_nearest_rank(p, value):
    assert figures.percentile(list(range(1, 11)), p) == value


# --- beside the file ----------------------------------------------------------------------------

ABOUT = {"source": {"format": "youtube", "video": {
            "id": "-abcdefghi1", "title": "<b>T</b>", "channel": "C & D", "published_at": "2024-01-02T03:04:05Z",
            "views": 12_345, "likes": None, "comments": 1_200}},
         "coverage": {"reported": 1_200, "replies_missing": 35, "partial": True, "stopped": "quota", "units": 12,
                      "fetched_at": "2026-01-02T03:04:05.000Z"},
         "notes": [{"code": "live_chat_left_out", "count": None}, {"code": "capped", "count": 3}]}


def test_what_is_known_beside_the_file_is_merged_and_shown(tmp_path):
    (tmp_path / "x").write_text("I love it at 1:23\n1:23 wow\n한국어 댓글입니다\n")
    options = {"max_comments": None, "order": None, "include_replies": None}
    lines = child("report", tmp_path / "x", "--name=x.txt", f"--about={json.dumps(ABOUT)}", f"--options={json.dumps(options)}")
    result, = (line["report"] for line in lines if "report" in line)
    assert result["source"]["format"] == "youtube" and result["source"]["encoding"] == "utf-8"
    assert result["coverage"] | ABOUT["coverage"] == result["coverage"] and result["coverage"]["analysed"] == 3
    assert result["coverage"]["notes"] == ABOUT["notes"]
    html = page(result)
    assert '<a href="https://www.youtube.com/watch?v=-abcdefghi1&amp;t=83s" rel="noopener noreferrer" target="_blank">1:23</a>' in html
    assert "<b>T</b>" not in html and "C &amp; D" in html and "12,345" in html and ">Likes<" not in html
    for said in ("3 of 1,200 comments analysed; 35 replies missing; 1 in other languages, which are not scored.",
                 "daily allowance at YouTube ran out", "12 units", "2026-01-02 03:04", "live chat", "3 more comments of the video"):
        assert said in html, said


def test_each_reason_to_stop_has_its_sentence(tmp_path):
    result, _ = reported(tmp_path, "I love it", "x.txt")
    said = set()
    for stopped in (None, "upstream", "quota", "daily_limit", "guests_limit", "repeated_page", "removed",
                    "comments_disabled", "forbidden"):
        html = page(result | {"coverage": result["coverage"] | {"partial": True, "stopped": stopped}})
        said.add(re.findall(r'report-warning">([^<]*)<', html)[0])
    assert len(said) == 9 and "report-warning\">Not all" not in page(result)


def test_rows_wider_than_the_header_have_their_sentence(tmp_path):
    result, _ = reported(tmp_path, "text,likes\nWell, never,many\nok,1\n", "x.csv")
    assert result["coverage"]["notes"] == [{"code": "entries_uneven", "count": 1}]
    assert "1 row has more cells than the header" in page(result)


def test_replies_stay_where_the_choice_was_not_applied(tmp_path):
    _, rows = reported(tmp_path, "text,parent\na,\nb,x\n", "x.csv", include_replies=None, max_comments=None, order=None)
    assert len(rows) == 2


def test_the_child_names_the_columns_of_its_rows(tmp_path):
    (tmp_path / "x").write_text("What song is this at 1:23?\nI love it\n")
    lines = child("report", tmp_path / "x", "--name=x.txt")
    columns, = (line["columns"] for line in lines if isinstance(line, dict) and "columns" in line)
    rows = [dict(zip(columns, row, strict=True)) for line in lines if isinstance(line, list) for row in line]
    assert [(row["asks"], row["times"]) for row in rows] == [("question", "1:23"), ("", "")]
    assert columns[:5] == ["text", "language", "label", "score", "emotion"]


# --- the page -----------------------------------------------------------------------------------

def page(result, **context):
    folders = jinja2.FileSystemLoader([ROOT / "templates", HOME])
    env = jinja2.Environment(loader=folders, autoescape=True, undefined=jinja2.StrictUndefined)
    env.filters["figure"] = messages.figure
    return env.get_template("result.html").render(
        result=result, job={"links": {"self": "/api/jobs/1"}}, lang="en", _=lambda text, **more: text % more if more else text,
        ngettext=lambda one, many, num: (one if num == 1 else many) % {"num": num},
        url_for=lambda endpoint, **values: f"/{endpoint}?{urlencode(values)}", **context)


def headline_of(html):
    """The first sentence and those that follow it."""
    found = re.search(r'report-headline">(.*?)</p>\s*<p class="report-lead">(.*?)</p>', html, re.S)
    return " ".join(re.sub("<.*?>", "", " ".join(found.groups())).split())


@pytest.mark.parametrize("entries, said", [
    ([("t", .5)], "The only scored comment is positive."),
    ([("t", .5), ("v", -.5)], "Mixed: positive and negative comments are about as many."),
    (asking("What song is this?", "aabc"), "Mostly neutral: 4 of 4 scored comments. Joy stands out. "
     "4 comments ask the creator something. Most often: ‘What song is this?’ (3 people)."),
    (asking("What song is this?", "abc") + asking("part 2 please", [*"abc", None]),
     "Mostly neutral: 7 of 7 scored comments. Joy stands out. 7 comments ask the creator something. "
     "Most often: ‘part 2 please’ (4 comments)."),
    (asking("What song is this?", "abc") + asking("part 2 please", "abc"),
     "Mostly neutral: 6 of 6 scored comments. Joy stands out. 6 comments ask the creator something. "
     "Among the most frequent: ‘What song is this?’ (3 people)."),
    ([(f"lovely tune {n}", .8) for n in range(36)] + [("what song is this?", -.8)] * 4,
     "Mostly positive: 90% of 40 scored comments. Joy stands out. "
     "4 comments ask the creator something. Most often: ‘what song is this?’ (4 comments).")])
def test_the_headline_is_a_sentence_for_few_and_many(entries, said):
    assert headline_of(page(made(*entries) | {"source": {"title": None}})) == said


def test_only_emoji_and_only_korean_are_said_to_be_that(tmp_path):
    assert headline_of(page(reported(tmp_path, "😂\n😍\n🔥\n", "x.txt")[0])).endswith("All hold only emoji and signs, no words.")
    assert headline_of(page(reported(tmp_path, "한국어 댓글입니다\n", "x.txt")[0])).endswith("Most are in Korean.")
    tied = reported(tmp_path, "한국어 댓글입니다\nДобрый день, как дела\n", "x.txt")[0]
    assert headline_of(page(tied)).endswith("of emoji alone.")


@pytest.mark.parametrize("days, said", [
    ([0, 1, 1], True), ([0, 1], False), ([0, 0, 1, 1], False), ([0, 0, 1, 1, 2, 2, 2], True)])
def test_the_fullest_day_is_named_only_if_there_is_one(days, said):
    entries = [(f"t{n}", .5, 0, 1_700_000_000 + 10 * 86_400 * day) for n, day in enumerate(days)]
    html = page(made(*entries) | {"source": {"title": None}})
    assert ("Most comments:" in html) is said


@pytest.mark.parametrize("emotions, said", [
    ({"joy": 9, "love": 9}, ["joy", "love"]), ({"joy": 9, "love": 9, "anger": 9}, []),
    ({"joy": 9, "love": 5, "anger": 5}, ["joy"]),
    ({"joy": 9, "love": 6, "anger": 5}, ["joy", "love"]), ({"joy": 9, "love": 3}, ["joy"]), ({}, [])])
def test_no_emotion_stands_out_that_others_equal(emotions, said):
    shown = [{"emotion": name, "count": count, "share": count / 100} for name, count in emotions.items()]
    assert reporting._above_all(shown) == said


def test_a_result_stored_by_version_one_is_still_shown():
    old = json.loads((Path(__file__).parent / "data" / "comments-result-version-1.json").read_text("utf-8"))
    html = page(old, rows_href="/jobs/1/rows")
    assert "More positive than negative: 41% of 115" in html and "124 comments analysed" in html
    assert "What they ask the creator" not in html and "What many say alike" not in html
    assert "half VADER" in html and "1:23" in html


def test_figures_lead_to_their_comments_but_not_in_the_file_to_keep(tmp_path):
    content = "I love it 1:23\nlovely 1:23\nWhat song is this?\n" + "I hate this crash\n" * 3
    result, _ = reported(tmp_path, content, "x.txt")
    html = page(result, rows_href="/jobs/1/rows")
    for query in ("label=negative", "emotion=love", "language=en", "asks=question&amp;order=likes", "q=%221%3A23%22"):
        assert f'href="/jobs/1/rows?{query}"' in html, query
    assert '<form class="report-search" method="get" action="/jobs/1/rows"' in html and 'name="q"' in html
    for alone in (page(result), page(result, rows_href="/jobs/1/rows", standalone=True)):
        assert "/rows" not in alone and "Read the comments" not in alone and "<form" not in alone


def test_scales_and_dates_of_the_timeline_are_stated(tmp_path):
    data = [{"text": f"I love it {n}", "timestamp": 1_700_000_000 + n * 86_400} for n in range(30)]
    html = page(reported(tmp_path, json.dumps(data), "x.json")[0])
    axes = re.findall(r'<svg class="chart-axis".*?</svg>', html, re.S)
    assert axes[0] == axes[1] and len(re.findall(r"\d{4}-\d\d-\d\d", axes[0])) == 5
    assert "<span>1</span><span>0</span>" in html and "<span>▲ +1</span><span>0</span><span>▼ −1</span>" in html


def test_the_page_shows_the_figures_links_the_exports_and_escapes_the_comments(tmp_path):
    nasty = "<script>alert(1)</script> Thank you, I love \"this\" video <img src=x onerror=alert(1)>"
    data = YT_DLP | {"title": "<b>t</b>", "comments": [
        {"id": str(n), "parent": "root", "text": f"{nasty} 1:23 {n}", "timestamp": 1_700_000_000 + n} for n in range(40)]}
    result, _ = reported(tmp_path, json.dumps(data), "x.info.json")
    html = page(result)
    assert "Mostly positive: 100% of 40 scored comments." in html and "estimates" in html
    assert "/api/jobs/1/export.csv" in html and "/api/jobs/1/export.json" in html
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html and "<b>t</b>" not in html
    assert " style=" not in html and not re.search(r"\son\w+=", re.sub(r"&lt;.*?&gt;", "", html))


def test_every_picture_of_the_page_has_words_and_every_empty_chart_says_so(tmp_path):
    html = page(reported(tmp_path, "I love it\nI hate it", "x.txt")[0])
    assert "Fewer than 30" in html and "The file gives no dates." in html and "No time is named by two people." in html
    for picture in re.findall(r"<svg.*?</svg>", html, re.S):
        assert 'aria-hidden="true"' in picture or ('role="img"' in picture and "<title>" in picture)
    html = page(reported(tmp_path, "한국어 댓글입니다", "x.txt")[0])
    assert "No comment could be scored" in html and "No emotions were found." in html


@pytest.mark.parametrize("text, kind", [
    ("Song name please?", "question"), ("これ何て曲？", "question"), ("when next episode", "question"),
    ("jacket link?", "question"), ("字幕つけて", "request"),
    ("@bob what do you mean?", None), ("can you not?", None), ("How are you so talented?", None),
    ("皆さんも作ってみてください!", None), ("もっとこの人の動画が増えてほしいくらい好き", None), ("さすがですね（笑）税金で旅行ですか", None),
])
def test_what_is_said_to_others_in_praise_or_in_scorn_asks_the_creator_nothing(text, kind):
    found = asks.find(text, scoring.score(text).language)
    assert (found and found.kind) == kind


def test_groups_and_duplicates_agree_on_texts_of_one_word():
    result = made(*[(text, 0) for text in ("FIRST", "first!!", "First", "second")])
    assert [(one["text"], one["count"]) for one in result["groups"]] == [("FIRST", 3)]
    assert result["duplicates"]["most_repeated"] <= 3


def test_signs_without_words_are_grouped_like_words():
    result = made(*[(text, .5) for text in ("😂😂😂", "😂", "😂 😂", "❤")])
    assert [(one["text"], one["count"]) for one in result["groups"]] == [("😂😂😂", 3)]


def test_the_strongest_examples_are_the_strongest():
    texts = ("he lied about everything", "the ending was a waste", "worst camera of all", "never buying it again",
             "the sound is broken", "this ruined my whole day")
    entries = [(text, -1 + n / 100) for n, text in enumerate(texts)]
    examples = made(*entries, ("a weak complaint of another kind", -.6), emotion="anger")["examples"]["negative"]
    assert [one["text"] for one in examples] == list(texts[:5])


def test_a_japanese_word_that_is_denied_is_no_keyword():
    assert scoring.keywords("間違いない、半端ない、完璧じゃない", "ja") == []
    assert scoring.keywords("間違いが多い動画編集", "ja") == ["間違", "動画編集"]
