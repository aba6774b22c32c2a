"""Laws of the comments of a video: every unit is needed, what was had is not asked for twice, the key stays here."""
import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import gevent
import pytest

from tests.server import Server
from tests.upstreams import Answer
from tests.youtube import (
    ERRORS,
    KEY,
    KEY_BLOCKED,
    KEY_INVALID,
    PER_DAY,
    SERVICE_DISABLED,
    UNTIL,
    FakeYouTube,
    Job,
    Video,
    answer,
    comment,
    error,
    thread,
    threads,
)
from webapp import create_app
from webapp.errors import SettingsError
from webapp.kinds import Refuse, comments
from webapp.kinds.comments import youtube
from webapp.upstream import Upstream

ID = "dQw4w9WgXcQ"


@pytest.fixture
def fake():
    with FakeYouTube() as server:
        yield server


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(youtube, "BACKOFF_SECONDS", (.004, .004, .004))
    monkeypatch.setattr(youtube, "ANEW_SECONDS", .001)
    youtube._refused_keys.clear()


def fetched(job, cap=1_000, order="relevance", replies=True):
    return youtube.fetch(job, ID, cap=cap, order=order, replies=replies, on_progress=lambda *_: None)


def texts(found):
    return [text for one in found.threads for text in (
        one["snippet"]["topLevelComment"]["snippet"]["textOriginal"],
        *(reply["snippet"]["textOriginal"] for reply in one.get("replies", {}).get("comments", ())))]


def refusal(job, **options):
    with pytest.raises(Refuse) as caught:
        fetched(job, **options)
    said = caught.value.message
    assert said["en"].endswith((".", ".)")) and re.search("[ぁ-ん]", said["ja"]) and "<" not in str(said)
    assert KEY not in str(caught.value) + str(said)
    return caught.value


# ---------------------------------------------------------------------------------- paging and units

def test_a_video_costs_one_unit_and_one_for_each_hundred_threads(fake):
    fake.videos[ID] = Video(threads(250), reported=250)
    job = Job(fake)
    found = fetched(job)
    assert len(texts(found)) == 250 and fake.requests == {"videos": 1, "commentThreads": 3}
    assert found.coverage | {"fetched_at": 0} == {"reported": 250, "replies_missing": 0, "partial": False, "stopped": None,
                                                  "units": 4, "fetched_at": 0}
    assert found.video == {"id": ID, "title": "A <b>video</b> & more", "channel": "A channel", "views": 12345, "likes": 67,
                           "published_at": "2024-01-01T00:00:00Z", "comments": 250}
    assert found.notes == [] and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.coverage["fetched_at"])


def test_what_is_asked_is_what_the_api_wants(fake):
    fake.videos[ID] = Video([thread("a", replies=9)])
    fetched(Job(fake), order="time")
    [(_, video), (_, page), (_, replies)] = fake.asked_for
    assert video == {"part": "snippet,statistics,status,liveStreamingDetails", "id": ID, "key": KEY}
    shape = {"maxResults": "100", "textFormat": "plainText", "key": KEY}
    snippet = "snippet(textOriginal,textDisplay,authorChannelId,authorDisplayName,likeCount,publishedAt)"
    assert page == {"part": "snippet,replies", "videoId": ID, "order": "time", **shape,
                    "fields": f"nextPageToken,items(id,snippet(totalReplyCount,topLevelComment(id,{snippet})),"
                              f"replies(comments(id,{snippet})))"}
    assert replies == {"part": "snippet", "parentId": "a", **shape, "fields": f"nextPageToken,items(id,{snippet})"}


@pytest.mark.parametrize("cap, units", [(1, 2), (100, 2), (101, 3), (300, 4), (10_000, 4)])
def test_no_unit_is_spent_that_the_cap_makes_useless(fake, cap, units):
    fake.videos[ID] = Video(threads(300), reported=300)
    assert len(texts(fetched(Job(fake), cap=cap))) == min(cap, 300) and fake.units == units


def test_the_cap_counts_replies_too_and_says_how_many_there_are_beyond_it(fake):
    fake.videos[ID] = Video(threads(100, replies=9), reported=1_000)
    found = fetched(Job(fake), cap=250)
    assert len(texts(found)) == 250 and fake.requests == {"videos": 1, "commentThreads": 1}
    assert found.notes == [{"code": "capped", "count": 750}] and found.coverage["replies_missing"] == 0
    found = fetched(Job(fake), cap=50, replies=False)
    assert len(texts(found)) == 50
    assert found.notes == [{"code": "replies_left_out", "count": None}, {"code": "capped", "count": None}]


def test_a_cap_that_is_just_enough_is_no_cap(fake):
    fake.videos[ID] = Video(threads(100), reported=100)
    assert fetched(Job(fake), cap=100).notes == []


def test_the_threads_that_lack_most_replies_are_completed_first(fake):
    fake.videos[ID] = Video([thread("few", replies=7), thread("many", replies=260), thread("none"),
                             thread("not along", replies=12, inline=0), thread("all", replies=3)], reported=287)
    found = fetched(Job(fake))
    asked = [asked["parentId"] for name, asked in fake.asked_for if name == "comments"]
    assert asked == ["many", "many", "many", "not along", "few"] and len(texts(found)) == 5 + 7 + 260 + 12 + 3
    assert found.coverage["replies_missing"] == 0 and found.coverage["units"] == fake.units == 7


def test_replies_are_asked_for_only_while_the_cap_leaves_room(fake):
    fake.videos[ID] = Video([thread("a", replies=150), thread("b", replies=50)], reported=202)
    assert len(texts(fetched(Job(fake), cap=60))) == 60
    assert [asked["parentId"] for name, asked in fake.asked_for if name == "comments"] == ["a"]


def test_replies_that_are_not_wanted_cost_nothing_and_are_not_called_missing(fake):
    fake.videos[ID] = Video(threads(3, replies=50))
    found = fetched(Job(fake), replies=False)
    assert len(texts(found)) == 3 and fake.units == 2 and found.coverage["replies_missing"] == 0
    assert all(one["snippet"]["totalReplyCount"] == 0 for one in fetched(Job(fake), replies=False).threads)


def test_replies_that_cannot_be_had_are_counted(fake):
    fake.videos[ID] = Video([thread("a", replies=8, total=12), thread("gone", replies=20)])
    fake.fail("comments", error("commentNotFound"))
    found = fetched(Job(fake))
    assert found.coverage["replies_missing"] == 4 + 15 and not found.coverage["partial"]


def test_long_tails_of_replies_end_at_a_limit(fake, monkeypatch):
    monkeypatch.setattr(youtube, "REPLY_UNITS_MAX", 3)
    fake.videos[ID] = Video(threads(10, replies=6))
    found = fetched(Job(fake))
    assert fake.requests["comments"] == 3 and found.coverage["replies_missing"] == 7


def test_different_caps_and_other_people_share_pages_for_an_hour(fake):
    fake.videos[ID] = Video(threads(300))
    upstream = Upstream(user_agent="tests")
    for cap, units in ((100, 2), (200, 3), (150, 3), (1_000, 4)):
        found = fetched(Job(fake, upstream=upstream), cap=cap)
        assert fake.units == units
    assert found.coverage["units"] == 1     # what this one spent


def test_a_report_says_when_its_oldest_page_was_fetched(fake):
    fake.videos[ID] = Video(threads(300))
    upstream = Upstream(user_agent="tests")
    earliest = fetched(Job(fake, upstream=upstream), cap=150).coverage["fetched_at"]
    time.sleep(.01)
    for cap, units in ((150, 0), (300, 1)):
        found = fetched(Job(fake, upstream=upstream), cap=cap)
        assert (found.coverage["fetched_at"], found.coverage["units"]) == (earliest, units)
    # Pages may be older than what is known of the video.
    upstream._cache._drop(next(iter(upstream._cache._entries)))
    assert fetched(Job(fake, upstream=upstream), cap=100).coverage["fetched_at"] > earliest
    fake.requests.clear()


def test_units_of_a_failed_request_that_two_share_are_one_s(fake):
    fake.videos[ID] = Video(threads(300))
    upstream = Upstream(user_agent="tests")
    broken = Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", delay_seconds=.1)
    fetched(Job(fake, upstream=upstream), cap=100)      # now the next that is sent is the second page
    before = fake.units
    fake.pages["commentThreads"] = {"at-100": broken}
    found = [gevent.spawn(fetched, Job(fake, upstream=upstream), cap=cap) for cap in (200, 300)]
    gevent.joinall(found, raise_error=True)
    assert all(one.value.coverage["stopped"] == "upstream" for one in found) and upstream.joined
    assert sum(one.value.coverage["units"] for one in found) == fake.units - before


# -------------------------------------------------------------------------------------- awkward pages

def page(items, following=None):
    from tests.youtube import _shaped
    return {"items": [_shaped(one) for one in items], **({"nextPageToken": following} if following else {})}


def test_an_empty_page_with_a_token_goes_on(fake):
    fake.videos[ID] = Video()
    fake.pages["commentThreads"] = {None: page([], "b"), "b": page([], "c"), "c": page(threads(2))}
    found = fetched(Job(fake))
    assert len(texts(found)) == 2 and found.coverage["stopped"] is None


def test_empty_pages_without_end_are_ended(fake):
    fake.videos[ID] = Video()
    fake.pages["commentThreads"] = {None: page(threads(2), "0")} | {str(n): page([], str(n + 1)) for n in range(99)}
    found = fetched(Job(fake))
    assert (found.coverage["stopped"], found.coverage["partial"]) == ("repeated_page", True)
    assert fake.requests["commentThreads"] == 1 + youtube.BARREN_PAGES_MAX


@pytest.mark.parametrize("pages", [{None: ("a", 0), "a": ("a", 5)}, {None: ("a", 0), "a": ("b", 5), "b": ("a", 10)}])
def test_a_repeated_token_ends_paging_and_is_told(fake, pages):
    fake.videos[ID] = Video()
    fake.pages["commentThreads"] = {
        token: page(threads(5, start), following) for token, (following, start) in pages.items()}
    found = fetched(Job(fake))
    assert found.coverage["stopped"] == "repeated_page" and fake.requests["commentThreads"] == len(pages)
    assert len(texts(found)) == 5 * len(pages)


def test_a_refused_token_restarts_once_without_the_cache_and_without_doubles(fake):
    fake.videos[ID] = Video(threads(150))
    fake.pages["commentThreads"] = {"old": error("invalidPageToken")}
    upstream, first = Upstream(user_agent="tests"), page(threads(100), "old")
    fake.fail("commentThreads", answer(first))
    found = fetched(Job(fake, upstream=upstream))
    assert len(texts(found)) == 150 and fake.requests["commentThreads"] == 4 and not found.coverage["partial"]


@pytest.mark.parametrize("pages", [1, 2, 5, 7])
def test_a_refused_token_costs_the_page_that_gave_it_and_no_comment(fake, pages):
    fake.videos[ID] = Video(threads(2_000))
    fake.fail("commentThreads", *[answer(page(threads(100, n * 100), f"at-{n * 100 + 100}")) for n in range(pages)],
              error("invalidPageToken"))
    job = Job(fake)
    found = fetched(job, order="relevance")
    assert len(texts(found)) == 1_000 and not found.coverage["partial"]
    assert fake.requests["commentThreads"] == 10 + 2 and found.coverage["units"] == fake.units
    second = fetched(Job(fake, steps=job.steps))
    assert len(texts(second)) == 1_000 and not second.coverage["partial"]


def test_where_the_page_that_gave_it_is_stale_too_all_are_asked_anew(fake):
    fake.videos[ID] = Video(threads(1_000))
    old = [answer(page(threads(100, n * 100), f"old-{n + 1}")) for n in range(7)]
    fake.fail("commentThreads", *old, error("invalidPageToken"))    # of page 8, then the token of page 7 itself
    found = fetched(Job(fake))
    assert len(texts(found)) == 1_000 and not found.coverage["partial"]
    assert fake.requests["commentThreads"] == 7 + 1 + 1 + 10


def test_a_first_page_refused_as_if_it_had_a_token_ends(fake):
    fake.videos[ID] = Video()
    fake.pages["commentThreads"] = {None: error("invalidPageToken")}
    assert refusal(Job(fake)).code == "UPSTREAM_UNAVAILABLE" and fake.requests["commentThreads"] == 2


def test_a_token_refused_twice_leaves_what_there_is(fake):
    fake.videos[ID] = Video()
    fake.pages["commentThreads"] = {None: page(threads(3), "old"), "old": error("invalidPageToken")}
    found = fetched(Job(fake))
    assert (found.coverage["stopped"], len(texts(found))) == ("upstream", 3)


def test_odd_items_are_passed_over_and_doubles_dropped(fake):
    fake.videos[ID] = Video()
    odd = [None, 5, "x", [], {}, {"id": 5}, {"id": "a", "snippet": None}, {"id": "b", "snippet": {"topLevelComment": []}},
           {"id": "c", "snippet": {"topLevelComment": {"snippet": {"textDisplay": None}}}}]
    good = page([thread("t", "one", likes=None, at=None), thread("t", "the same"), thread("u", "two", replies=1)])["items"]
    good[2]["replies"]["comments"] += [good[2]["replies"]["comments"][0], None, comment("t", parent="u")]
    good[0]["snippet"]["totalReplyCount"] = "many"
    fake.pages["commentThreads"] = {None: {"items": odd + good, "nextPageToken": 7}}
    assert texts(fetched(Job(fake))) == ["one", "two", "Reply 0 I hate it"]


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "&amp;#39;", "a<br>b", "שלום \u202eabc", "Z̸̢̛" * 300, "a\0b",
                                  "\ud800 lone", "😂😂", "👍"])
def test_what_strangers_write_arrives_as_a_row(fake, text):
    fake.videos[ID] = Video([thread("a", text)])
    job = Job(fake)
    comments.run(job, comments.Params(video=ID))
    assert len(job.exported) == 1 and job.exported[0]["text"]


@pytest.mark.parametrize("text, sizes", [("あ" * 9_900, [100, 20] + [4] * 25), ("x" * 5_000, [100] + [20] * 5)])
def test_a_page_too_large_to_be_read_is_asked_for_in_smaller_ones(fake, text, sizes):
    fake.videos[ID] = Video(threads(100, replies=5), reported=600)
    for one in fake.videos[ID].threads:
        for said in (one["top"], *one["replies"]):
            said["snippet"]["textOriginal"] = said["snippet"]["textDisplay"] = text
    found = fetched(Job(fake))
    assert len(texts(found)) == 600 and not found.coverage["partial"]
    assert [int(asked["maxResults"]) for name, asked in fake.asked_for if name == "commentThreads"] == sizes
    assert found.coverage["units"] == fake.units


def test_a_page_that_is_too_large_however_few_it_holds_ends(fake, monkeypatch):
    monkeypatch.setattr(youtube, "PAGE_BYTES_MAX", 1_000)
    fake.videos[ID] = Video([thread("a", text="x" * 2_000)])
    assert refusal(Job(fake)).code == "UPSTREAM_UNAVAILABLE" and fake.requests["commentThreads"] == 3


def test_a_page_too_large_for_a_step_is_kept_in_several(fake):
    fake.videos[ID] = Video(threads(40, replies=4), reported=200)
    for one in fake.videos[ID].threads:
        one["top"]["snippet"]["textOriginal"] = "😂\n" * 3_000 + "\x01" * 4_500   # shortened to 10,000 characters
    job = Job(fake)
    found = texts(fetched(job))
    assert len(found) == 200 and max(map(len, found)) == 10_000 and fake.units == 2
    assert len([name for name in job.steps if name.startswith("threads")]) > 1
    assert len(texts(fetched(Job(fake, steps=job.steps)))) == 200 and fake.units == 2


# ------------------------------------------------------------------------------------ another attempt

def test_another_attempt_asks_for_nothing_that_is_there(fake):
    fake.videos[ID] = Video(threads(150) + [thread("a", replies=250)], reported=401)
    job = Job(fake)
    first = fetched(job)
    units = fake.units
    second = fetched(Job(fake, steps=job.steps, allowed=0))
    assert fake.units == units == second.coverage["units"] and list(second.threads) == list(first.threads)


def test_another_attempt_goes_on_where_the_first_broke_off(fake):
    fake.videos[ID] = Video(threads(400))
    job = Job(fake, allowed=3)
    first = fetched(job)
    assert len(texts(first)) == 200 and first.coverage["stopped"] == "daily_limit"
    youtube._refused_keys[youtube._key_mark(job.settings)] = time.time()
    assert len(texts(fetched(Job(fake, steps=job.steps)))) == 200, "what is there is no matter of the key"
    youtube._refused_keys.clear()
    second = fetched(Job(fake, steps=job.steps))
    assert len(texts(second)) == 400 and fake.units == 5 == second.coverage["units"]


def test_of_an_author_only_a_hash_is_kept_and_another_one_each_time(fake):
    fake.videos[ID] = Video([thread("a", author="Somebody"), thread("b", author="Somebody"), thread("c", author="Else")])
    hashes = []
    for _ in range(2):
        job = Job(fake)
        found = list(fetched(job).threads)
        assert "Somebody" not in json.dumps(found) + json.dumps(job.steps)
        hashes.append([one["snippet"]["topLevelComment"]["snippet"]["authorChannelId"]["value"] for one in found])
    assert hashes[0][0] == hashes[0][1] != hashes[0][2] and not set(hashes[0]) & set(hashes[1])


# --------------------------------------------------------------------------------------------- errors

FINAL = [("commentsDisabled", "COMMENTS_DISABLED"), ("videoNotFound", "VIDEO_NOT_FOUND"), ("forbidden", "VIDEO_FORBIDDEN")]
KEY_ERRORS = {name: error(name) for name in ("keyInvalid", "accessNotConfigured", "ipRefererBlocked")} | {
    "not valid": KEY_INVALID, "disabled": SERVICE_DISABLED, "blocked": KEY_BLOCKED, "401": answer({}, 401)}
PASSING = {
    "processingFailure": error("processingFailure"), "backendError": error("backendError"), "500": Answer(b"oops", 500),
    "502 HTML": Answer(b"<html><b>Bad Gateway</b>" + KEY.encode(), 502), "429": answer({"error": {"code": 429}}, 429),
    "rateLimitExceeded": error("rateLimitExceeded"), "userRateLimitExceeded": error("userRateLimitExceeded"),
    "200 HTML": Answer(b"<html>a captive portal</html>"), "200 list": answer([]), "200 empty": Answer(b""),
    "200 odd items": answer({"items": {"a": 1}}), "200 error": answer({"error": {"message": 5, "errors": "x"}}),
    "broken off": Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
}
LASTING = {"unknown": error("invalidValue"), "HTML": Answer(b"<html>no", 400), "no reason": answer({"error": {"errors": [{}]}}, 403),
           "odd": answer({"error": [1]}, 400), "text": answer("x", 400), "reason of another type": answer({"error": {"errors": [
               {"reason": {"a": 1}}, None]}}, 400)}


@pytest.mark.parametrize("reason, code", FINAL)
def test_what_will_not_change_is_refused_at_once(fake, reason, code):
    fake.videos[ID] = Video(threads(3))
    fake.fail("commentThreads", error(reason))
    assert refusal(Job(fake)).code == code and fake.units == 2


def test_a_video_that_is_not_there_costs_one_unit(fake):
    assert refusal(Job(fake)).code == "VIDEO_NOT_FOUND" and fake.units == 1


def test_a_video_made_public_just_now_is_found_after_a_minute(fake, monkeypatch):
    upstream = Upstream(user_agent="tests")
    refusal(Job(fake, upstream=upstream))
    fake.videos[ID] = Video(threads(1))
    refusal(Job(fake, upstream=upstream))
    assert fake.units == 1
    monkeypatch.setattr(youtube, "NOTHING_CACHE_SECONDS", 0)
    assert len(texts(fetched(Job(fake, upstream=upstream)))) == 1 and fake.units == 3


def test_comments_that_are_off_for_children_say_so(fake):
    fake.videos[ID] = Video(disabled=True, kids=True)
    said = refusal(Job(fake)).message
    assert "children" in said["en"] and "子ども" in said["ja"]


@pytest.mark.parametrize("live", ["none", "live"])
def test_no_comments_yet_is_its_own_answer(fake, live):
    fake.videos[ID] = Video(reported=0, live=live)
    refused = refusal(Job(fake))
    assert refused.code == "NO_COMMENTS" and ("live chat" in refused.message["en"]) == (live == "live")


@pytest.mark.parametrize("pages", [1, 5])
def test_nothing_is_not_remembered_for_another_try(fake, pages):
    fake.videos[ID] = Video(reported=0)
    fake.pages["commentThreads"] = {f"t{n}" if n else None: answer({"items": [], **({"nextPageToken": f"t{n + 1}"}
                                    if n + 1 < pages else {})}) for n in range(pages)}
    first = Job(fake)
    assert refusal(first).code == "NO_COMMENTS"
    fake.pages.clear()
    fake.videos[ID].threads = threads(5)
    again = Job(fake, steps=first.steps)
    assert len(texts(fetched(again))) == 5 and fake.requests["videos"] == 1


def test_comments_that_are_counted_and_not_given_are_not_said_not_to_be(fake):
    fake.videos[ID] = Video(reported=1_500)
    refused = refusal(Job(fake))
    assert refused.code == "NO_COMMENTS" and "1,500" in refused.message["en"] and "1,500" in refused.message["ja"]
    assert "Nobody" not in refused.message["en"]


def test_replies_that_were_not_wanted_are_said_to_be_left_out(fake):
    fake.videos[ID] = Video([thread("a", replies=3)])
    assert fetched(Job(fake), replies=False).notes == [{"code": "replies_left_out", "count": None}]


def test_the_chat_of_a_live_video_is_not_among_its_comments_and_that_is_said(fake):
    fake.videos[ID] = Video(threads(1), live="upcoming")
    assert fetched(Job(fake)).notes == [{"code": "live_chat_left_out", "count": None}]


@pytest.mark.parametrize("path", ["videos", "commentThreads"])
@pytest.mark.parametrize("name", KEY_ERRORS)
def test_a_refused_key_tells_the_operator_and_never_the_key(fake, name, path):
    fake.videos[ID] = Video(threads(3))
    fake.fail(path, KEY_ERRORS[name])
    job = Job(fake)
    assert refusal(job).code == "YOUTUBE_NOT_CONFIGURED" and fake.requests[path] == 1
    [(code, detail)] = job.incidents
    assert code == "YOUTUBE_NOT_CONFIGURED" and KEY not in detail and "<" not in detail and len(detail) < 500


def test_a_refused_key_is_left_alone_for_minutes_and_another_is_not(fake, monkeypatch):
    fake.videos[ID] = Video(threads(3))
    fake.fail("videos", KEY_INVALID)
    job, asked = Job(fake), comments.Params(video=ID)
    comments.check(job, asked)
    refusal(job)
    for _ in range(2):
        assert refusal(Job(fake)).code == "YOUTUBE_NOT_CONFIGURED" and fake.units == 1
    with pytest.raises(Refuse):
        comments.check(job, asked)
    assert comments.unavailable(job.settings)["video"] == comments.trouble(job.settings) == youtube.not_configured().message
    other = Job(fake, key="another")
    comments.check(other, asked)
    assert comments.unavailable(other.settings) == {} and comments.trouble(other.settings) is None
    monkeypatch.setattr(youtube, "KEY_REFUSED_SECONDS", 0)
    assert len(texts(fetched(Job(fake)))) == 3


@pytest.mark.parametrize("path", ["videos", "commentThreads"])
@pytest.mark.parametrize("name, said", [("quotaExceeded", error("quotaExceeded")), ("daily", error("dailyLimitExceeded")),
                                        ("per day", PER_DAY)])
def test_a_used_up_quota_is_told_to_everybody_and_when_it_is_renewed(fake, name, said, path):
    fake.videos[ID] = Video(threads(3))
    fake.fail(path, said)
    job = Job(fake)
    refused = refusal(job)
    assert (refused.code, refused.facts["retry_at"], job.exhausted) == ("QUOTA_EXHAUSTED", UNTIL, 1)
    assert "08:00 UTC on 1 December" in refused.message["en"] and "12月1日17:00（日本時間）" in refused.message["ja"]


def test_a_quota_used_up_yesterday_is_asked_again_today(fake):
    fake.videos[ID] = Video(threads(3))
    fake.fail("commentThreads", error("quotaExceeded"))
    job = Job(fake)
    job.until = "2026-01-01T08:00:00.000Z"
    found = fetched(job)
    assert (len(texts(found)), found.coverage["partial"], found.coverage["units"]) == (3, False, 3)


@pytest.mark.parametrize("limit, why, code", [((False, True), "quota", "QUOTA_EXHAUSTED"),
                                              ((False, False), "daily_limit", "DAILY_LIMIT"),
                                              ((True, False), "guests_limit", "DAILY_LIMIT")])
def test_over_a_limit_nothing_is_sent_and_what_there_is_makes_a_report(fake, limit, why, code):
    fake.videos[ID] = Video(threads(250))
    refused = refusal(Job(fake, allowed=0, limit=limit))
    assert (refused.code, refused.facts["retry_at"], fake.units) == (code, UNTIL, 0)
    assert ("sign in" in refused.message["en"]) == (why == "guests_limit")
    job = Job(fake, allowed=2, limit=limit)
    found = fetched(job)
    assert (len(texts(found)), found.coverage["stopped"], job.exhausted) == (100, why, 0)
    assert found.coverage["retry_at"] == UNTIL


@pytest.mark.parametrize("name", PASSING)
def test_a_failure_that_passes_is_asked_again_and_leaves_no_trace(fake, name):
    fake.videos[ID] = Video(threads(3))
    fake.fail("commentThreads", *[PASSING[name]] * 3)
    found = fetched(Job(fake))
    assert len(texts(found)) == 3 and not found.coverage["partial"] and fake.requests["commentThreads"] == 4
    assert found.coverage["units"] == 5


@pytest.mark.parametrize("name", PASSING)
def test_one_that_does_not_pass_ends_after_four_requests(fake, name):
    fake.videos[ID] = Video(threads(3))
    fake.fail("commentThreads", *[PASSING[name]] * 9)
    assert refusal(Job(fake)).code == "UPSTREAM_UNAVAILABLE" and fake.requests["commentThreads"] == 4


@pytest.mark.parametrize("path", ["videos", "commentThreads"])
@pytest.mark.parametrize("name", LASTING)
def test_an_error_that_nobody_knows_is_not_asked_again(fake, name, path):
    fake.videos[ID] = Video(threads(3))
    fake.fail(path, LASTING[name])
    assert refusal(Job(fake)).code == "UPSTREAM_UNAVAILABLE" and fake.requests[path] == 1


def test_a_service_that_cannot_be_reached_is_unavailable(fake):
    job = Job(fake)
    job.settings["YOUTUBE_API_URL"] = "http://127.0.0.1:1"
    assert refusal(job).code == "UPSTREAM_UNAVAILABLE"


@pytest.mark.parametrize("breaks, stopped", [(PASSING["500"], "upstream"), (error("quotaExceeded"), "quota"),
                                             (LASTING["unknown"], "upstream"), (KEY_INVALID, "upstream")])
def test_what_breaks_off_in_the_middle_leaves_a_partial_result(fake, breaks, stopped):
    fake.videos[ID] = Video(threads(300), reported=300)
    fake.pages["commentThreads"] = {"at-200": breaks}
    job = Job(fake)
    report = comments.run(job, comments.Params(video=ID))
    assert not job.reusable and report["coverage"]["analysed"] == 200 == len(job.exported)
    assert (report["coverage"]["partial"], report["coverage"]["stopped"]) == (True, stopped)
    assert report["coverage"]["units"] == fake.units, "those of what was refused too"
    assert report["source"]["format"] == "youtube" and report["source"]["video"]["title"] == "A <b>video</b> & more"


@pytest.mark.parametrize("reason, stopped", [("commentsDisabled", "comments_disabled"), ("videoNotFound", "removed"),
                                             ("forbidden", "forbidden"), ("notFound", "removed")])
def test_what_was_had_before_a_video_closed_is_kept(fake, reason, stopped):
    fake.videos[ID] = Video(threads(400), reported=400)
    fake.pages["commentThreads"] = {"at-300": error(reason, status=404 if reason == "notFound" else None)}
    job = Job(fake)
    report = comments.run(job, comments.Params(video=ID))
    assert not job.reusable and report["coverage"]["analysed"] == 300
    assert (report["coverage"]["partial"], report["coverage"]["stopped"]) == (True, stopped)
    assert report["coverage"]["units"] == fake.units == 5


@pytest.mark.parametrize("reason, stopped", [("commentsDisabled", "comments_disabled"), ("videoNotFound", "removed")])
def test_a_video_that_closes_while_replies_are_fetched_keeps_what_was_had(fake, reason, stopped):
    fake.videos[ID] = Video(threads(9, replies=20))
    fake.fail("comments", error(reason))
    found = fetched(Job(fake))
    assert (found.coverage["stopped"], len(texts(found)), fake.requests["comments"]) == (stopped, 54, 1)


def test_replies_that_break_off_leave_the_threads(fake):
    fake.videos[ID] = Video(threads(2, replies=20))
    fake.fail("comments", error("quotaExceeded"))
    found = fetched(Job(fake))
    assert found.coverage["stopped"] == "quota" and len(texts(found)) == 12 and found.coverage["replies_missing"] == 30


@pytest.mark.parametrize("given, waits", [("3", 3), ("9999", 20), ("-1", 0), ("soon", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)])
def test_the_service_says_how_long_to_wait_within_a_limit(fake, monkeypatch, given, waits):
    pauses = []
    monkeypatch.setattr(youtube.time, "sleep", pauses.append)
    fake.videos[ID] = Video(threads(3))
    fake.fail("commentThreads", error("rateLimitExceeded", headers={"Retry-After": given}))
    fetched(Job(fake))
    assert [round(pause) for pause in pauses] == [waits]


def test_pauses_grow_and_are_never_the_same(fake, monkeypatch):
    pauses = []
    monkeypatch.setattr(youtube.time, "sleep", pauses.append)
    monkeypatch.setattr(youtube, "BACKOFF_SECONDS", (1, 2, 4))
    fake.fail("videos", *[Answer(b"", 500)] * 4)
    refusal(Job(fake))
    assert all(base / 2 <= pause <= base * 1.5 for base, pause in zip((1, 2, 4), pauses, strict=True)) and len(set(pauses)) == 3


@pytest.mark.parametrize("reason", ERRORS)
def test_no_error_shows_markup_or_the_key(reason):
    reasons, message = youtube._told(json.loads(error(reason).body), KEY)
    assert reasons == [reason] and message and not re.search(r"[<>]|AIza", message)


OTHER_KEY = "AIzaSyD-9tSrke72PouQMnMX_a7eZSW0jkFMBWY"
ENCODED = "".join(f"%{ord(letter):02x}" for letter in OTHER_KEY)


@pytest.mark.parametrize("written", [
    OTHER_KEY, OTHER_KEY.lower(), " ".join(OTHER_KEY), OTHER_KEY[:20] + "\n" + OTHER_KEY[20:], OTHER_KEY[:12] + "...",
    "…" + OTHER_KEY[-9:], ENCODED, ENCODED.replace("%", "%25"), ENCODED.upper().replace("%2D", "-"),
    f"key%3D{ENCODED}%26x", "\u200b".join(OTHER_KEY), "".join(f"&#{ord(letter)};" for letter in OTHER_KEY),
    "".join(f"<i>{letter}</i>" for letter in OTHER_KEY)])
def test_no_part_of_the_key_is_told_however_it_is_written(written):
    body = {"error": {"message": f"The key ({written}) is 100% wrong for 東京.", "errors": [{"reason": written}]}}
    reasons, message = youtube._told(body, OTHER_KEY)
    assert "The key (" in message and ") is 100% wrong for 東京." in message
    told = re.sub("[^a-z0-9]", "", "".join([*reasons, message]).lower())
    key = re.sub("[^a-z0-9]", "", OTHER_KEY.lower())
    assert not [part for part in range(len(key) - 7) if key[part:part + 8] in told]


@pytest.mark.parametrize("key", ["", " \n", KEY, OTHER_KEY, f" {KEY}\r\n"])
def test_a_key_that_may_be_one_is_taken(settings, key):
    app = create_app(settings(KINDS="comments", EXTRA_KINDS="", YOUTUBE_API_KEY=key))
    assert app.settings.for_kind(app.kinds["comments"])["YOUTUBE_API_KEY"] == key.strip()


@pytest.mark.parametrize("key", [f'"{KEY}"', f"{KEY[:20]} {KEY[20:]}", f"{KEY[:20]}\r\n{KEY[20:]}", "x" * 9_000, "your-key-here",
                                 f"key={KEY}", f"‘{KEY}’", KEY.replace("a", "а")])
def test_what_can_be_no_key_stops_the_start_and_is_not_shown(settings, key):
    with pytest.raises(SettingsError, match="YOUTUBE_API_KEY is not of the form") as refused:
        create_app(settings(KINDS="comments", EXTRA_KINDS="", YOUTUBE_API_KEY=key))
    assert key not in str(refused.value) and KEY[4:20] not in str(refused.value)


# ------------------------------------------------------------------------------------------- the kind

def test_a_run_tells_how_far_it_is_and_exports_every_comment(fake):
    fake.videos[ID] = Video(threads(250), reported=260, title="x" * 500)
    job = Job(fake)
    report = comments.run(job, comments.Params(video=f"https://youtu.be/{ID}"))
    assert list(dict.fromkeys(stage for stage, *_ in job.said)) == comments.KIND.stages_of(comments.Params(video=ID))
    told = [message["en"] for stage, *_, message in job.said if stage == "fetch"]
    assert list(dict.fromkeys(line.rpartition(": ")[2] for line in told)) == ["0 of 260", "100 of 260", "200 of 260", "250 of 260"]
    assert all(len(line) < 120 for line in told)
    assert len(job.exported) == 250 and job.reusable and report["coverage"]["reported"] == 260
    assert KEY not in json.dumps([report, job.said, job.exported, job.steps], default=str)


def test_without_a_key_a_video_is_refused_before_anything_is_stored_and_a_file_is_not(fake):
    job = Job(fake, key=" ")
    with pytest.raises(Refuse) as caught:
        comments.check(job, comments.Params(video=ID))
    assert (caught.value.code, caught.value.facts) == ("YOUTUBE_NOT_CONFIGURED", {"field": "video"})
    comments.check(Job(fake), comments.Params(video=ID))
    assert refusal(job).code == "YOUTUBE_NOT_CONFIGURED" and fake.units == 0


# ----------------------------------------------------------------------------------- a whole server

@pytest.fixture
def server(tmp_path, fake):
    one = Server(tmp_path, {"YOUTUBE_API_KEY": KEY, "YOUTUBE_API_URL": fake.url("")}).start()
    yield one
    one.stop()


def grep(folder, words):
    return [path for path in folder.rglob("*") if path.is_file() and words in path.read_bytes()]


def test_sixty_people_in_four_spellings_are_one_piece_of_work(server, fake, tmp_path):
    fake.videos[ID] = Video(threads(150), reported=150)
    fake.delay_seconds = .3
    spellings = [ID, f"https://youtu.be/{ID}?si=x", f"https://m.youtube.com/watch?list=PL1&v={ID}",
                 f"見て「https://www.youtube.com/shorts/{ID}」"]
    with ThreadPoolExecutor(12) as pool:
        asked = list(pool.map(lambda n: server.post("/api/kinds/comments/jobs", {"video": spellings[n % 4]}), range(60)))
    assert {one.status for one in asked} == {202} and len({one.json["job"]["id"] for one in asked}) == 1
    cookie = {"Cookie": asked[0].headers["Set-Cookie"].partition(";")[0]}
    job = server.finished(asked[0].json["job"]["id"], headers=cookie)
    assert job["status"] == "succeeded" and job["result"]["coverage"]["analysed"] == 150
    assert fake.requests == {"videos": 1, "commentThreads": 2}
    assert server.rows("SELECT spent, spent_by_guests FROM quota_days")[0][:] == (3, 3)
    server.stop()
    assert not grep(tmp_path, KEY.encode())     # rows, steps, results, logs


def test_a_killed_server_asks_again_for_nothing_that_it_had(server, fake, tmp_path):
    fake.videos[ID] = Video(threads(500), reported=500)
    fake.delay_seconds = .2
    asked = server.post("/api/kinds/comments/jobs", {"video": ID})
    cookie = {"Cookie": asked.headers["Set-Cookie"].partition(";")[0]}
    ends = time.monotonic() + 20
    while len(server.rows("SELECT 1 FROM job_steps WHERE name LIKE 'threads%'")) < 2:
        assert time.monotonic() < ends
        time.sleep(.02)
    server.send(signal.SIGKILL)
    server.start()
    job = server.finished(asked.json["job"]["id"], headers=cookie, seconds=60)
    assert (job["status"], job["result"]["coverage"]["analysed"], job["attempt"]) == ("succeeded", 500, 2)
    # The page that was under way when it died is the only one that may have been asked for twice.
    assert fake.requests["videos"] == 1 and fake.requests["commentThreads"] <= 6
    server.stop()
    assert not grep(tmp_path, KEY.encode())


def test_a_refused_key_stands_nowhere(server, fake, tmp_path):
    fake.videos[ID] = Video(threads(3))
    fake.fail("videos", KEY_ERRORS["accessNotConfigured"])
    asked = server.post("/api/kinds/comments/jobs", {"video": ID})
    job = server.finished(asked.json["job"]["id"], headers={"Cookie": asked.headers["Set-Cookie"].partition(";")[0]})
    assert job["error"]["code"] == "YOUTUBE_NOT_CONFIGURED"
    assert server.rows("SELECT severity FROM incidents WHERE code = 'YOUTUBE_NOT_CONFIGURED'")[0][0] == "critical"
    shown = server.flask("settings").stdout + server.flask("incidents", "list").stdout
    assert "YOUTUBE_API_KEY" in shown and KEY not in shown
    server.stop()
    assert not grep(tmp_path, KEY.encode())


def test_a_site_without_a_key_says_so_at_the_field(tmp_path):
    server = Server(tmp_path).start()
    try:
        refused = server.post("/api/kinds/comments/jobs", {"video": ID})
        assert refused.json["code"] == "YOUTUBE_NOT_CONFIGURED" and server.rows("SELECT 1 FROM jobs") == []
        assert server.post("/api/kinds/comments/jobs", {}).json["errors"][0]["field"] == "file"
    finally:
        server.stop()
