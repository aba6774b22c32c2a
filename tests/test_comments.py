"""Laws of the kind ``comments``: what is read from a file, what is refused, what its process answers."""
import csv
import json
import math
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from webapp.kinds import Refuse, Upload, comments
from webapp.kinds.comments.analysis import json_comments
from webapp.kinds.comments.analysis.fields import Comment, clean, likes_of, time_of
from webapp.kinds.comments.analysis.reading import Reading, Unreadable

HOME = Path(comments.__file__).parent


def read(tmp_path, content, name="file.txt", encoding="utf-8", max_rows=50_000):
    path = tmp_path / "upload"
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    reading = Reading(str(path), name, max_rows)
    return list(reading), reading


def texts(tmp_path, content, name="file.txt", **more):
    return [comment.text for comment in read(tmp_path, content, name, **more)[0]]


def refusal(tmp_path, content, name="file.txt", **more):
    with pytest.raises(Unreadable) as caught:
        read(tmp_path, content, name, **more)
    assert caught.value.message["en"] and re.search(r"[ぁ-ん]", caught.value.message["ja"])
    return caught.value


def child(*arguments):
    """The real child process; its lines, parsed."""
    done = subprocess.run([sys.executable, "-m", "analysis", *map(str, arguments)], cwd=HOME, capture_output=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.isascii()
    return [json.loads(line) for line in done.stdout.splitlines()]


def reported(tmp_path, content, name="file.txt", **options):
    path = tmp_path / "upload"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    lines = child("report", path, f"--name={name}", f"--options={json.dumps(options)}")
    rows = [row for line in lines if isinstance(line, list) for row in line]
    last = [line for line in lines if isinstance(line, dict) and ("report" in line or "refusal" in line)]
    assert len(last) == 1
    return last[0].get("report") or last[0], rows


def thread(identifier, text, replies=(), total=None, **snippet):
    top = {"id": identifier, "snippet": {"textDisplay": text, **snippet}}
    one = {"kind": "youtube#commentThread", "id": identifier,
           "snippet": {"topLevelComment": top, "totalReplyCount": len(replies) if total is None else total}}
    if replies:
        one["replies"] = {"comments": [{"id": f"{identifier}.{n}", "snippet": {"textDisplay": words, "parentId": identifier}}
                                       for n, words in enumerate(replies)]}
    return one


YT_DLP = {"id": "x", "title": "A &amp; B", "extractor": "youtube", "formats": [{"url": "u"}], "comment_count": 9,
          "comments": [
              {"id": "a", "parent": "root", "text": "Great", "like_count": 3, "author": "@me", "author_id": "UC1",
               "timestamp": 1_700_000_000, "_time_text": "1 year ago"},
              {"id": "b", "parent": "a", "text": "No", "like_count": None, "author": None, "timestamp": None}]}


# --- formats ------------------------------------------------------------------------------------

def test_a_yt_dlp_file_gives_replies_likes_estimated_times_and_the_reported_count(tmp_path):
    found, reading = read(tmp_path, json.dumps(YT_DLP), "x.info.json")
    assert found == [Comment("Great", 3, 1_700_000_000.0, "UC1", False), Comment("No", None, None, None, True)]
    assert (reading.format, reading.coarse, reading.reported, reading.title) == ("yt-dlp", True, 9, "A & B")


def test_the_exact_times_of_another_site_are_not_called_estimates(tmp_path):
    assert read(tmp_path, json.dumps(YT_DLP | {"extractor": "BiliBili"}), "x.info.json")[1].coarse is False


@pytest.mark.parametrize("present", ["null", "missing"])
def test_a_yt_dlp_file_without_comments_says_how_to_get_them(tmp_path, present):
    data = {**YT_DLP, "comments": None}
    if present == "missing":
        del data["comments"]
    error = refusal(tmp_path, json.dumps(data), "x.info.json")
    assert error.code == "COMMENTS_NOT_INCLUDED" and "--write-comments" in error.message["ja"]


def test_a_large_yt_dlp_file_without_comments_is_told_apart_too(tmp_path):
    data = {**YT_DLP, "comments": None, "formats": [{"url": "u" * 500}] * 5000}
    assert refusal(tmp_path, json.dumps(data), "x.info.json").code == "COMMENTS_NOT_INCLUDED"


def test_an_empty_list_of_comments_is_no_comments(tmp_path):
    assert refusal(tmp_path, json.dumps(YT_DLP | {"comments": []}), "x.info.json").code == "NO_COMMENTS"
    assert refusal(tmp_path, "[]", "x.json").code == "NO_COMMENTS"
    assert refusal(tmp_path, '{"kind": "youtube#commentThreadListResponse", "items": []}', "x.json").code == "NO_COMMENTS"


def test_saved_api_pages_are_read_with_inline_replies_as_one_page_or_a_list(tmp_path):
    page = {"kind": "youtube#commentThreadListResponse", "nextPageToken": "t", "items": [
        thread("a", "Tom &amp; <b>Jerry</b><br>at <a href=\"https://x/?t=83\">1:23</a>", ["yes"], likeCount=5,
               publishedAt="2024-01-02T03:04:05Z", authorDisplayName="@me", authorChannelId={"value": "UC9"}),
        thread("b", "many", total=12)]}
    other = {"items": [thread("a", "the same again"), thread("c", "x <3 y")]}
    found, reading = read(tmp_path, json.dumps(page), "page.json")
    assert [one.text for one in found] == ["Tom & Jerry\nat 1:23", "yes", "many"]
    assert found[0] == Comment("Tom & Jerry\nat 1:23", 5, 1_704_164_645.0, "UC9", False) and found[1].is_reply
    assert reading.format == "youtube-api" and reading.replies_missing == 12
    found, reading = read(tmp_path, json.dumps([page, other]), "pages.json")
    assert [one.text for one in found] == ["Tom & Jerry\nat 1:23", "yes", "many", "x <3 y"]
    assert reading.counts["repeated"] == 1 and reading.replies_missing == 12
    one_after_another = json.dumps(page, indent=2) + "\n" + json.dumps(other)
    assert len(texts(tmp_path, one_after_another, "pages.json")) == 4
    assert texts(tmp_path, json.dumps({"items": [{"id": "r", "snippet": {"textOriginal": "a<b", "parentId": "q"}}]}),
                 "replies.json") == ["a<b"]


@pytest.mark.parametrize("content, expected", [
    ('["one", "two"]', ["one", "two"]),
    ('["one", null, "", 5]', ["one"]),
    ('[{"comment": "one"}, {"Comment": "two"}]', ["one", "two"]),
    ('[{"コメント": "良い"}]', ["良い"]),
    ('[{"本文": "良い", "いいね": 3}]', ["良い"]),
    ('{"data": [{"body": "one"}], "message": "success"}', ["one"]),
    ('{"comments": ["one", "two"]}', ["one", "two"]),
    ('{"results": {"items": [{"content": "one"}]}}', ["one"]),
    ('[{"text": "one", "replies": [{"text": "two"}]}]', ["one", "two"]),
    ('{"text": "one"}\n{"text": "two"}\n\n{"text": "three"}', ["one", "two", "three"]),
    ('"one"\n"two"', ["one", "two"]),
    ('\ufeff[ "one" ]\n', ["one"]),
    ('[{"text": 2024}, {"text": {"a": 1}}, {"text": "x", "likes": NaN}]', ["2024", "x"]),
])
def test_json_in_any_usual_shape_is_read(tmp_path, content, expected):
    assert texts(tmp_path, content, "x.json") == expected


def test_json_is_told_by_its_content_and_a_comment_in_brackets_is_not_json(tmp_path):
    assert texts(tmp_path, '[{"text": "one"}]', "x.txt") == ["one"]
    assert texts(tmp_path, "[Verse 1] what a song\n{wow}", "x.txt") == ["[Verse 1] what a song", "{wow}"]


@pytest.mark.parametrize("content, line", [
    ('[\n"one",\n"two"\n', 4), ('[\n{"text": "one"},\n{"text": oops}\n]', 3), ("hello", 1), ('{"text": "a"', 1),
    ('["x",\n,' + "," * 5_000_000, 2),
])
def test_broken_json_is_refused_with_its_line(tmp_path, content, line):
    error = refusal(tmp_path, content, "x.json")
    assert (error.code, error.facts) == ("INVALID_JSON", {"line": line})


def test_broken_json_of_one_line_says_at_which_character(tmp_path):
    long = '[' + '{"text": "words"}, ' * 50_000
    for content, character in (('[{"text": "a"},{"text": "b', "25"), (long + "oops]", f"{len(long) + 1:,}")):
        error = refusal(tmp_path, content, "x.json")
        assert f"line 1, character {character}." in error.message["en"] and f"{character}文字目" in error.message["ja"]


def test_a_table_that_is_called_json_is_read(tmp_path):
    assert texts(tmp_path, "author,text\nA,ok\n", "x.json") == ["ok"]


@pytest.mark.parametrize("content, name, all_empty", [("{}", "x.json", False), ("[]", "x.json", False), ("5", "x.json", False),
                                                      ("text,likes\n", "x.csv", False), ("text,likes\n,3\n", "x.csv", True)])
def test_only_entries_that_are_there_are_called_empty(tmp_path, content, name, all_empty):
    error = refusal(tmp_path, content, name)
    assert error.code == "NO_COMMENTS" and ("empty" in error.message["en"]) == ("空" in error.message["ja"]) == all_empty


@pytest.mark.parametrize("content, line, en, ja", [
    ('[{"text": "x"},\n{"text": "y", "a": ' + "[" * 5_000 + "]" * 5_000 + "}]", 2, "nested too deeply", "入れ子が深すぎ"),
    ('{"a":' * 100_000 + "1" + "}" * 100_000, 1, "nested too deeply", "入れ子が深すぎ"),
    ('[{"likes": ' + "9" * 5_000 + "}]", 1, "thousands of digits", "桁数が多すぎ"),
    ('["one",\n"' + "x" * 9_000_000 + '"]', 2, "4,194,304 characters", "4,194,304文字"),
    ('{"' + "x" * 9_000_000 + '": 1}', 1, "4,194,304 characters", "4,194,304文字"),
])
def test_json_that_is_more_than_can_be_read_is_not_called_cut_short(tmp_path, content, line, en, ja):
    error = refusal(tmp_path, content, "x.json")
    assert (error.code, error.facts) == ("UNSUPPORTED_FORMAT", {"line": line})
    assert en in error.message["en"] and ja in error.message["ja"] and "cut short" not in error.message["en"]


def test_json_broken_far_inside_a_large_file_is_refused_with_its_line(tmp_path):
    lines = ['{"text": "%s"}' % ("word " * 50)] * 20_000
    lines[15_000] = '{"text": oops}'
    error = refusal(tmp_path, "[\n" + ",\n".join(lines) + "\n]", "x.json")
    assert (error.code, error.facts["line"]) == ("INVALID_JSON", 15_002)


def test_json_without_comments_names_the_keys_it_has(tmp_path):
    error = refusal(tmp_path, '[{"id": 1, "score": 2}]', "x.json")
    assert error.code == "NO_COMMENT_COLUMN" and error.facts["headers"] == ["id", "score"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["text", " Comment ", "COMMENT_TEXT", "本文", "コメント", "ＴＥＸＴ", "textDisplay"])
def test_a_table_is_read_with_any_delimiter_and_header(tmp_path, delimiter, header):
    path = tmp_path / "made.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([["id", header, "Likes", "published at", "author", "parent id"],
                          [1, "a, b; c\td \"quoted\"\nsecond line", "1,234", "2024-01-02", "me", ""],
                          [2, "良い", "", "", "you", "1"], [3, "", 1, "", "", ""]])
    found, reading = read(tmp_path, path.read_bytes(), "x.csv")
    assert found == [Comment("a, b; c\td \"quoted\"\nsecond line", 1234, 1_704_153_600.0, "me", False),
                     Comment("良い", None, None, "you", True)]
    assert reading.counts["empty"] == 1


@pytest.mark.parametrize("content, expected", [
    ("I love it,5\nI hate it,1\n", ["I love it", "I hate it"]),
    ("5,I love it\n1,I hate it\n", ["I love it", "I hate it"]),
    ("I love it, really\nNo\nWell, well, well\n", ["I love it, really", "No", "Well, well, well"]),
    ("text\nyes, it is\nno\n", ["yes, it is", "no"]),
    ("id,text\n1,yes, it is, really\n2,no\n", ["yes, it is, really", "no"]),
    ("sep=;\ntext;likes\nyes;3\n", ["yes"]),
    ('text,likes\n"never closed,3\nx,1\n', ['"never closed', "x"]),
    ('text,likes\n"so "quoted" he said",3\n"never closed,3\n' + "x,1\n" * 80_000, 80_002),
    ("great video,positive\nbad video,negative\n", ["great video", "bad video"]),
])
def test_awkward_tables_give_their_comments(tmp_path, content, expected):
    found = texts(tmp_path, content, "x.csv", max_rows=90_000)
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize("content, headers", [
    ("id,score\n1,3\n2,5\n", ["id", "score"]),
    ("名前,備考\n太郎,とても面白い動画だったのでまた見たいです\n", ["名前", "備考"]),
    ("id,when\n", ["id", "when"]),
])
def test_a_table_without_comments_names_its_columns(tmp_path, content, headers):
    error = refusal(tmp_path, content, "x.csv")
    assert error.code == "NO_COMMENT_COLUMN" and error.facts["headers"] == headers
    assert headers[0] in error.message["en"] and headers[0] in error.message["ja"]


def test_a_table_whose_first_lines_are_long_is_still_a_table(tmp_path):
    error = refusal(tmp_path, "a,b\n" + ("word " * 20_000 + ",5\n") * 5, "x.csv")
    assert (error.code, error.facts) == ("NO_COMMENT_COLUMN", {"headers": ["a", "b"]})


@pytest.mark.parametrize("content, expected", [
    ("x" * 140_000 + ",text\n1,hello\n", 2), ('"a\nb",text\n1,"hello\n2,x\n', 2), ("\t,\t\nid,text\n1,hello\n", ["hello"]),
])
def test_the_header_that_is_judged_is_the_header_that_is_read(tmp_path, content, expected):
    found = texts(tmp_path, content, "x.csv")
    assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize("name, content", [
    ("x.csv", ",".join(f"n{n}" for n in range(50_000)) + "\n" + "x," * 49_999 + "x\n"),
    ("x.csv", ",".join(f"name {n}" for n in range(20_000)) + "\n" + "hello there," * 20_000 + "\n"),
    ("x.csv", "text" + ",b" * 1_000 + "\n" + "x," * 1_000 + "x\n"), ("x.txt", "text" + ",b" * 20_000 + "\nx\n"),
    ("x.tsv", "\t".join(["n"] * 1_001) + "\n"), ("x.csv", "sep=|\n" + "a|" * 1_000 + "text\n"), ("x.csv", "," * 5_000_000),
])
def test_a_table_of_too_many_columns_is_refused_and_not_taken_for_text(tmp_path, name, content):
    error = refusal(tmp_path, content, name)
    assert (error.code, error.facts) == ("UNSUPPORTED_FORMAT", {"limit_columns": 1_000})
    assert "1,000 columns" in error.message["en"] and "1,000列" in error.message["ja"]
    assert texts(tmp_path, "text" + ",b" * 999 + "\nhello" + ",1" * 999, "x.csv") == ["hello"]


def test_a_table_with_a_header_only_has_no_comments(tmp_path):
    assert refusal(tmp_path, "text,likes\n", "x.csv").code == "NO_COMMENTS"
    assert refusal(tmp_path, "text,likes\n ,3\n", "x.csv").code == "NO_COMMENTS"


def test_plain_text_is_one_comment_a_line_and_a_table_in_it_is_a_table(tmp_path):
    assert texts(tmp_path, "one, two\r\n\r\nthree\rfour", "x.txt") == ["one, two", "three", "four"]
    assert texts(tmp_path, "text,likes\none,2\n", "x.txt") == ["one"]
    assert texts(tmp_path, "no ending", "") == ["no ending"]


# --- encodings ----------------------------------------------------------------------------------

JAPANESE = "本文,高評価\nこの動画は最高でした,3\n泣いた、もう一回見る,1\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp932", "euc_jp"])
@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.txt"])
def test_every_usual_encoding_is_read(tmp_path, encoding, name):
    content = {"x.csv": JAPANESE, "x.txt": "この動画は最高でした\n泣いた、もう一回見る\n",
               "x.json": '[{"text": "この動画は最高でした"},\n{"text": "泣いた、もう一回見る"}]'}[name]
    assert texts(tmp_path, content, name, encoding=encoding) == ["この動画は最高でした", "泣いた、もう一回見る"]


def test_utf16_with_a_mark_of_either_order_is_read(tmp_path):
    for order, mark in (("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")):
        assert texts(tmp_path, mark + JAPANESE.encode(order), "x.csv") == ["この動画は最高でした", "泣いた、もう一回見る"]


def test_western_text_is_not_taken_for_japanese(tmp_path):
    words = ["Schöne Grüße, das Café war großartig", "C’est déjà l’été – voilà", "señor, ¿qué pasa? niño"]
    assert texts(tmp_path, "\n".join(words), "x.txt", encoding="cp1252") == words


def test_bytes_that_are_no_encoding_are_refused(tmp_path):
    assert refusal(tmp_path, bytes(range(128, 256)) * 20, "x.txt").code == "BAD_ENCODING"


def test_utf8_cut_within_a_character_is_read(tmp_path):
    found, reading = read(tmp_path, "最高でした\n泣いた".encode()[:-1], "x.txt")
    assert [one.text for one in found] == ["最高でした", "泣い�"] and reading.repaired


def test_a_stray_zero_does_not_make_utf16_of_a_file(tmp_path):
    assert texts(tmp_path, "one\0 more\nçéà\0\n", "x.txt") == ["one more", "çéà"]


# --- refusals -----------------------------------------------------------------------------------

@pytest.mark.parametrize("content", [b"", b"  \n\t\r\n", b"\xef\xbb\xbf", b"\0\0\0", "\u3000\n".encode()])
@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.json"])
def test_an_empty_file_is_called_empty(tmp_path, content, name):
    assert refusal(tmp_path, content, name).code == "FILE_EMPTY"


@pytest.mark.parametrize("magic, name, word", [
    (b"%PDF-1.7\n", "x.csv", "PDF"), (b"\x89PNG\r\n\x1a\n", "x.txt", "image"), (b"\xff\xd8\xff\xe0", "x.jpg", "image"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1", "x.xls", "Excel"), (b"\x1f\x8b\x08", "x.json.gz", "compressed"),
    (b"\0\0\0\x18ftypmp42", "x.mp4", "video"), (b"{\\rtf1 hello}", "x.json", "rich text"),
    (b"<!DOCTYPE html><p>hi", "x.txt", "web page"), (b"WEBVTT\n\n00:01", "x.txt", "subtitle"),
    (b"SQLite format 3\0", "x.db", "database"), (bytes(range(256)) * 8, "x.csv", "binary"),
])
def test_what_is_no_text_is_named(tmp_path, magic, name, word):
    error = refusal(tmp_path, magic + b"\x01\x02", name)
    assert error.code == "UNSUPPORTED_FORMAT" and word in error.message["en"]


@pytest.mark.parametrize("inside, name, word, advice", [
    ("xl/workbook.xml", "x.xlsx", "Excel", "CSV UTF-8"), ("xl/workbook.xml", "x.csv", "Excel", "CSV UTF-8"),
    ("Index/Document.iwa", "x.numbers", "Numbers", "CSV UTF-8"), ("comments.csv", "x.zip", "zip", "Extract"),
])
def test_a_packed_file_says_what_to_do(tmp_path, inside, name, word, advice):
    path = tmp_path / "packed"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(inside, "x")
    error = refusal(tmp_path, path.read_bytes(), name)
    assert error.code == "UNSUPPORTED_FORMAT" and word in error.message["en"] and advice in error.message["en"]


def test_one_row_more_than_allowed_is_refused_with_the_limit(tmp_path):
    assert len(texts(tmp_path, "a\n\nb\nc", max_rows=3)) == 3
    error = refusal(tmp_path, "a\nb\nc\nd", max_rows=3)
    assert (error.code, error.facts) == ("FILE_TOO_LARGE", {"limit_rows": 3})


def test_endless_blank_lines_or_empty_entries_are_refused_with_the_limit(tmp_path):
    for name in ("x.txt", "x.csv"):
        assert refusal(tmp_path, "text" + "\n" * 1_000_001, name).facts == {"limit_lines": 1_000_000}
    for content in ("[" + "{}," * 300_000 + "{}]", '[{"comments": [' + "1," * 300_000 + "1]}]", "{}\n" * 300_001):
        assert refusal(tmp_path, content, "x.json").facts == {"limit_entries": 300_000}


def test_white_space_before_the_first_comment_is_passed_over(tmp_path):
    assert texts(tmp_path, "\n" * 100_000 + "x") == ["x"]
    assert refusal(tmp_path, "\n" * 100_000).code == refusal(tmp_path, "\ufeff\ufeff\x85").code == "FILE_EMPTY"


def test_japanese_messages_have_full_width_signs():
    source = "".join((HOME / "analysis" / f"{name}.py").read_text(encoding="utf-8") for name in (
        "reading", "refusals", "filetypes", "encoding", "tables", "json_comments"))
    assert not re.findall(r"[ぁ-んァ-ヶ一-龥、。」}][(:)](?=[^\n\"']*[ぁ-ん])", source)


# --- awkward comments ---------------------------------------------------------------------------

@pytest.mark.parametrize("given, meant", [
    ("it&#39;s", "it's"), ("it&amp;#39;s", "it's"), ("a<br>b<BR />c", "a\nb\nc"), ("a&lt;br&gt;b", "a\nb"),
    ("?a=1&copy=2 &copy; AT&T", "?a=1&copy=2 © AT&T"), ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("a\0b\x1bc", "abc"), ("\ufeff text \r\n", "text"), ("\ud83d\ude00 \ud83d x", "😀 � x"), ("😂😂", "😂😂"),
    ("مرحبا", "مرحبا"), ("Z̴̛a̵l̷g̸o̴", "Z̴̛a̵l̷g̸o̴"), ("I <3 you & me", "I <3 you & me"), ("&#0;&#xD800;x", "��x"),
])
def test_a_comment_is_read_as_it_was_written(given, meant):
    assert clean(given) == meant
    clean(given).encode()


@pytest.mark.parametrize("given, meant", [
    (5, 5), ("1,234", 1234), ("1.2K", 1200), ("3万", 30000), ("１２", 12), (None, None), ("", None), ("many", None),
    (-1, None), (math.nan, None), (math.inf, None), (True, None), (2.0, 2)])
def test_likes_are_whole_numbers_or_unknown(given, meant):
    assert likes_of(given) == meant


@pytest.mark.parametrize("given, meant", [
    (1_700_000_000, 1_700_000_000), (1_700_000_000_000, 1_700_000_000), ("1700000000", 1_700_000_000),
    ("2023-11-14T22:13:20Z", 1_700_000_000), ("2023-11-15T07:13:20+09:00", 1_700_000_000),
    ("2023/11/14 22:13:20", 1_700_000_000), ("2023年11月14日 22時13分20", 1_700_000_000), ("20231114", 1_699_920_000),
    (None, None), ("", None), (0, None), (10 ** 400, None), ("yesterday", None), ("2023-13-45", None), (math.nan, None), (1e300, None),
    ("1/2/2024", None), (True, None)])
def test_times_are_seconds_in_utc_or_unknown(given, meant):
    assert time_of(given) == meant


def test_a_comment_longer_than_any_real_one_is_cut_and_counted(tmp_path):
    found, reading = read(tmp_path, "x" * 10_001 + "\n" + "y" * 10_000)
    assert [len(one.text) for one in found] == [10_000, 10_000] and reading.counts["shortened"] == 1


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x"])
@pytest.mark.parametrize("piece", ["word ", "x", '"', '"" ', "a;"])
def test_an_endless_line_of_anything_never_breaks_the_reader(tmp_path, name, piece):
    try:
        assert len(texts(tmp_path, piece * (2_000_000 // len(piece)), name)) <= 1
    except Unreadable as error:
        assert error.code == "UNSUPPORTED_FORMAT" and piece == "a;"


@pytest.mark.parametrize("name", ["x.txt", "x.csv"])
def test_a_file_that_is_one_endless_line_is_one_comment(tmp_path, name):
    assert [len(text) for text in texts(tmp_path, "wow😂" * 500_000 + "\nnext", name)] == [10_000, 4]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_where_a_piece_of_the_file_ends_makes_no_difference(tmp_path, monkeypatch, size):
    page = {"title": "t", "extractor": "youtube", "formats": [[1.5, -20, None, True]], "comment_count": 1234,
            "comments": [{"id": str(n), "parent": "root", "text": "héllo \"é\\ud83d\\ude00\"", "like_count": 10 * n,
                          "replies": [{"text": "日本", "likes": n}]} for n in range(12)]}
    content = json.dumps(page, indent=1, ensure_ascii=False)
    whole, about = read(tmp_path, content, "x.json")
    monkeypatch.setattr(json_comments, "CHUNK_CHARACTERS", size)
    monkeypatch.setattr(json_comments, "WHOLE_CHARACTERS_MAX", 600)      # a comment, not the page
    pieces, again = read(tmp_path, content, "x.json")
    assert pieces == whole and len(whole) == 24
    assert (again.reported, again.title, again.format, again.coarse) == (1234, "t", "yt-dlp", True)
    with pytest.raises(Unreadable) as caught:
        read(tmp_path, content.replace('"like_count": 70', '"like_count": oops'), "x.json")
    assert caught.value.facts == {"line": 1 + content[:content.index('"like_count": 70')].count("\n")}


# --- the child process --------------------------------------------------------------------------

def test_a_check_says_ok_or_refuses_and_never_loads_the_analysers(tmp_path):
    (tmp_path / "good").write_text("I love it")
    (tmp_path / "bad").write_text("[oops")
    assert child("check", tmp_path / "good", "--name=x.txt") == [{"ok": True}]
    [line] = child("check", tmp_path / "bad", "--name=x.json")
    assert line["refusal"]["code"] == "INVALID_JSON" and line["refusal"]["facts"] == {"line": 1}


def test_rows_come_in_the_files_order_with_scores_and_never_a_name(tmp_path):
    data = [{"text": f"I love this {n}", "author": "Jane Roe" if n % 2 else "John Doe", "likes": n,
             "published_at": "2024-01-02T03:04:05Z"} for n in range(250)]
    data[7]["text"] = "한국어 댓글입니다"
    report, rows = reported(tmp_path, json.dumps(data), "x.json")
    assert [row[0] for row in rows] == [one["text"] for one in data]
    assert rows[0][1:7] == ["en", "positive", rows[0][3], rows[0][4], 0, "2024-01-02T03:04:05.000Z"] and rows[0][3] > 0.25
    assert rows[7][1:5] == ["ko", "", None, ""]
    assert "Jane" not in json.dumps([report, rows]) and len({row[8] for row in rows}) == 2 == report["coverage"]["authors"]
    _, again = reported(tmp_path, json.dumps(data), "x.json")
    assert again[0][8] != rows[0][8], "the key of the authors' hashes is kept nowhere"


def test_the_report_is_the_same_for_the_same_file(tmp_path):
    content = (HOME / "sample.csv").read_bytes()
    assert reported(tmp_path, content, "s.csv")[0] == reported(tmp_path, content, "s.csv")[0]


def test_only_other_languages_are_not_called_neutral(tmp_path):
    report, _ = reported(tmp_path, "한국어 댓글입니다\n정말 좋아요 이 영상", "x.txt")
    assert report["headline"]["code"] == "nothing_scored" and report["polarity"]["counts"]["neutral"] == 0
    assert report["coverage"]["by_language"] == {"ko": 2} and report["coverage"]["not_scored"] == 2
    assert report["polarity"]["mean"] is None and report["polarity"]["shares"] is None


def test_one_long_text_five_hundred_times_is_one_example_and_many_duplicates(tmp_path):
    report, rows = reported(tmp_path, ("I love this. " * 800)[:10_000].strip() + "\n", "x.txt")
    assert len(rows) == 1
    report, rows = reported(tmp_path, (("I love this. " * 800)[:9_999] + "\n") * 500, "x.txt")
    assert len(rows) == 500 and report["duplicates"] == {"count": 499, "share": 0.998, "most_repeated": 500}
    assert len(report["examples"]["positive"]) == 1 and len(report["examples"]["positive"][0]["text"]) <= 240
    assert len(json.dumps(report)) < 20_000


LIKED = "text,likes,date,parent\na one,1,2024-01-03,\nb two,9,2024-01-01,\nc three,5,2024-01-02,x\nd four,,2024-01-04,\n"


@pytest.mark.parametrize("options, kept, note", [
    ({}, "abcd", None),
    ({"max_comments": 2, "order": "relevance"}, "bc", {"code": "left_out_less_liked", "count": 2}),
    ({"max_comments": 2, "order": "time"}, "ad", {"code": "left_out_older", "count": 2}),
    ({"include_replies": False}, "abd", {"code": "replies_left_out", "count": 1}),
    ({"max_comments": 4}, "abcd", None),
])
def test_the_choices_decide_which_comments_are_kept(tmp_path, options, kept, note):
    report, rows = reported(tmp_path, LIKED, "x.csv", **options)
    assert "".join(row[0][0] for row in rows) == kept
    assert report["coverage"]["notes"] == ([note] if note else []) and report["coverage"]["in_file"] == 4


def test_a_file_of_replies_without_replies_is_refused(tmp_path):
    answer, _ = reported(tmp_path, "text,parent\na,x\n", "x.csv", include_replies=False)
    assert answer["refusal"]["code"] == "NO_COMMENTS"


# --- the kind -----------------------------------------------------------------------------------

class Context:
    """The part of a JobContext that the kind uses, over the real child process."""

    lang, settings = "en", {"MAX_UPLOAD_ROWS": "3"}

    def __init__(self, path):
        self.path, self.said, self.exported, self.files = path, [], [], {}

    def open(self, upload):
        return open(self.path, "rb")

    def run_command(self, args, *, on_line=None, cwd=None, input=None):
        done = subprocess.run(args, cwd=cwd, capture_output=True, check=True)
        if on_line is None:
            return done.stdout
        for line in done.stdout.splitlines(keepends=True):
            on_line(line)

    def progress(self, stage, done=None, total=None, message=None):
        self.said.append((stage, done, total))

    def rows(self, rows):
        self.exported = list(rows)

    def save_file(self, name, data, media_type):
        self.files[name] = json.loads(data)


def params(name="x.txt", **more):
    return comments.Params(file=Upload(name=name, size=1, sha256="a" * 64), **more)


def test_a_run_reports_progress_exports_every_comment_and_returns_plain_json(tmp_path):
    (tmp_path / "upload").write_text("I love it\nI hate it\n=HYPERLINK(1)\n")
    job = Context(tmp_path / "upload")
    result = comments.run(job, params())
    assert json.loads(json.dumps(result)) == result and result["coverage"]["analysed"] == 3
    assert [row["text"] for row in job.exported] == ["I love it", "I hate it", "=HYPERLINK(1)"]
    assert list(job.exported[0])[:9] == ["text", "language", "label", "score", "emotion", "likes", "published_at",
                                         "is_reply", "author"]
    stages = comments.KIND.stages_of(params())
    assert list(dict.fromkeys(stage for stage, *_ in job.said)) == stages == ["read", "analyse", "summarise"]
    assert ("analyse", 3, 3) in job.said and list(job.files) == ["statistics.json"]


def test_the_check_refuses_with_code_message_and_facts_before_anything_is_stored(tmp_path):
    (tmp_path / "upload").write_text("a\nb\nc\nd\n")
    with pytest.raises(Refuse) as caught:
        comments.check(Context(tmp_path / "upload"), params())
    assert caught.value.code == "FILE_TOO_LARGE" and caught.value.facts == {"limit_rows": 3}
    assert set(caught.value.message) == {"en", "ja"}


@pytest.mark.parametrize("name", ["-x.csv", "a\0b.c\0sv", "x.\udcffcsv", "../x.csv", "日本.ｃｓｖ", "x" * 5000, ""])
def test_no_name_of_a_file_reaches_the_command_line(tmp_path, name):
    (tmp_path / "upload").write_text("I love it")
    comments.check(Context(tmp_path / "upload"), params(name))


def test_the_share_key_is_the_content_and_what_changes_the_result():
    assert comments.share_key(params("a.txt", lang="ja")) == comments.share_key(params("b.txt", order="time"))
    assert len({comments.share_key(params(**more)) for more in (
        {}, {"max_comments": 5}, {"max_comments": 5, "order": "time"}, {"include_replies": False})}) == 4


@pytest.mark.parametrize("wrong, where", [
    ({"max_comments": 0}, "max_comments"), ({"max_comments": 10_001}, "max_comments"), ({"order": "x"}, "order"),
    ({"lang": "fr"}, "lang"), ({"video": "x"}, "video"), ({"file": None}, "file")])
def test_wrong_params_are_refused_at_their_field(wrong, where):
    with pytest.raises(ValidationError) as caught:
        comments.Params(**{"file": Upload(name="x", size=1, sha256="a"), **wrong})
    assert [error["loc"] for error in caught.value.errors()] == [(where,)]


@pytest.mark.parametrize("given, en, ja", [({}, "or choose a file", "ファイルを選んで"), ({"video": " "}, "or choose a file", "選んで"),
                                           ({"video": "dQw4w9WgXcQ", "file": {"name": "x", "size": 1, "sha256": "a"}}, "not both", "一方だけ")])
def test_one_of_the_two_is_needed_and_not_both(given, en, ja):
    with pytest.raises(ValidationError) as caught:
        comments.Params(**given)
    [error] = caught.value.errors()
    assert error["loc"] == ("file",) and en in error["msg"] and ja in error["ctx"]["ja"]


def test_the_contract_of_the_kind():
    kind = comments.KIND
    assert (kind.cost, kind.exclusive, kind.cache_seconds, kind.timeout_seconds) == (0, False, 21_600, 600)
    assert (kind.on_interrupt, kind.max_attempts, kind.upload_field) == ("retry", 3, "file")
    said = json.dumps([kind.title, kind.noun, kind.description, [stage[:2] for stage in kind.stages],
                       kind.params.model_json_schema()["properties"]], ensure_ascii=False)
    assert not re.search(r"\bjobs?\b|ジョブ", said, re.I)
    assert (HOME / kind.sample).is_file()


def test_the_child_needs_nothing_of_the_application():
    for path in (HOME / "analysis").glob("*.py"):
        assert not re.search(r"^\s*(from|import) (webapp|flask|gevent|pydantic)\b", path.read_text(), re.M), path


# --- size ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", ["emoji.json", "half-width kana.csv"])
def test_the_largest_upload_is_checked_quickly_and_in_little_memory(tmp_path, shape):
    path = tmp_path / "upload"
    if shape == "emoji.json":       # characters of four bytes, as a plain json.load would keep them
        path.write_text(json.dumps([{"id": str(n), "text": "😂 what a nice video " * 16, "author": f"@{n}"}
                                    for n in range(50_000)], ensure_ascii=False))
    else:                           # one byte each in the file, three in UTF-8
        path.write_bytes(("本文\n" + "これはすごい、" * 20 + "\n" + ("ｽｺﾞｲ" * 97 + "です\n") * 49_999).encode("cp932"))
    assert 18_000_000 < path.stat().st_size < 21_000_000
    measure = ("import resource, subprocess, sys, time; start = time.monotonic(); "
               "subprocess.run([sys.executable, '-m', 'analysis', *sys.argv[1:]], check=True, stdout=sys.stderr); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, time.monotonic() - start)")
    done = subprocess.run([sys.executable, "-c", measure, "check", path, f"--name={shape}"], cwd=HOME,
                          capture_output=True, check=True, timeout=60)
    assert done.stderr.strip() == b'{"ok":true}'
    peak_mb, seconds = map(float, done.stdout.split())
    assert peak_mb < 110 and seconds < 10


@pytest.fixture(scope="module")
def usual_seconds(tmp_path_factory):
    """What this machine takes for an ordinary file of some megabytes: 100,000 rows."""
    start = time.process_time()
    found = texts(tmp_path_factory.mktemp("usual"), "text,likes\n" + "an ordinary comment about a song,3\n" * 100_000, "usual.csv",
                  max_rows=100_000)
    assert len(found) == 100_000
    return time.process_time() - start


@pytest.mark.parametrize("name, content", [
    ("names.csv", ",".join(f"name{n}" for n in range(900)) + "\n" + ("word," * 899 + "word\n") * 40),
    ("digits.csv", "a,b\n" + ("1" * 8_000 + "x,2\n") * 30),
    ("marks.csv", "text,likes,date\n" + ("x," + "\u0301\u0323" * 30_000 + "," + "\u0301\u0323" * 30_000 + "\n") * 20),
    ("long key.json", '{"' + "\u0301\u0323" * 200_000 + '": [' + "1," * 200_000 + "1]}"),
    ("keys.json", "[" + ",".join("{" + ",".join(f'"{n:x}": []' for n in range(start, start + 50_000)) + "}"
                                 for start in range(0, 500_000, 50_000)) + "]"),
    ("wrappers.json", '[{"text": "x"' + "".join(f',"{"-" * n}{"_" * m}items": []' for n in range(50) for m in range(300))
     + "}]"),
    ("empty rows.csv", "text,b\n" + ",\n" * 900_000), ("empty entries.json", "[" + '{"text": ""},' * 299_999 + "{}]"),
    ("quotes.csv", "text,b\n" + '"\n"x,\n' * 400_000),
], ids=lambda value: value if len(value) < 30 else "")
def test_a_hostile_file_takes_no_longer_than_its_size_warrants(tmp_path, usual_seconds, name, content):
    start = time.process_time()
    try:
        texts(tmp_path, content, name)
    except Unreadable:
        pass
    assert time.process_time() - start < 6 * usual_seconds
