"""The comments of one video from the YouTube Data API v3, for as few of its units as that takes.

Every answer is a step of the job, so that another attempt asks for nothing again, and is remembered for an hour for
others. What is kept of an author is a hash under a key that only this piece of work knows. Shapes, errors and prices
are those of the API's public reference; a request costs one unit, a refused one too.
"""
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from html import unescape
from typing import Any
from urllib.parse import unquote

from webapp.kinds import DailyLimit, JobContext, Refuse, UpstreamUnavailable

# The most the API gives is asked for, so that different caps share pages; fewer where that is more bytes than are read
# in one go without making everybody wait.
PAGE_ITEMS = (100, 20, 4)
PAGE_BYTES_MAX = 2_000_000
TEXT_CHARACTERS_MAX = 10_000    # YouTube's own limit for a comment
CACHE_SECONDS = 3_600
NOTHING_CACHE_SECONDS = 60      # 'there is nothing' is believed for a minute only: it may just have been made public
ANEW_SECONDS = 0.01             # a stored answer that proved useless is asked for again
TIMEOUT_SECONDS = 20
BACKOFF_SECONDS = (1, 2, 4)     # the same page again, so long after the failure, each ± a half
RETRY_AFTER_SECONDS_MAX = 20
BARREN_PAGES_MAX = 5            # in a row, with a token and nothing new
REPLY_UNITS_MAX = 500           # of one piece of work: long tails of replies bring little for a unit
STEP_BYTES_MAX = 800_000
COMMENT_BYTES_MAX = 500         # of the rest of a comment: a time, numbers, names of these
MESSAGE_CHARACTERS_MAX = 300
# So many letters of the key in a row are a part of it, fewer may be a word.
KEY_PART_LETTERS = 8
TITLE_CHARACTERS_MAX = 200
KEY_REFUSED_SECONDS = 300       # a refused key is not tried again for so long; another one is at once

# What is read of a page, and no more: the rest is most of its bytes.
_COMMENT_FIELDS = "snippet(textOriginal,textDisplay,authorChannelId,authorDisplayName,likeCount,publishedAt)"
_FIELDS = {"commentThreads": f"nextPageToken,items(id,snippet(totalReplyCount,topLevelComment(id,{_COMMENT_FIELDS})),"
                             f"replies(comments(id,{_COMMENT_FIELDS})))",
           "comments": f"nextPageToken,items(id,{_COMMENT_FIELDS})"}
_AGAIN = {"processingFailure", "backendError", "internalError", "rateLimitExceeded", "userRateLimitExceeded",
          "RATE_LIMIT_EXCEEDED"}
_USED_UP = {"quotaExceeded", "dailyLimitExceeded"}
_KEY_REFUSED = {"keyInvalid", "keyExpired", "accessNotConfigured", "ipRefererBlocked", "refererNotAllowed",
                "dailyLimitExceededUnreg", "authError", "required", "SERVICE_DISABLED", "CONSUMER_SUSPENDED",
                "CONSUMER_INVALID"}
_GONE = {"commentNotFound", "commentThreadNotFound", "notFound", "forbidden", "invalidPageToken"}
_ESCAPED = bytes(range(32)) + b'"\\'
_refused_keys: dict[bytes, float] = {}   # when, by a hash of key and address


class Ended(Exception):
    """No more can be had now. ``why``: ``upstream``, ``quota``, ``daily_limit``, ``guests_limit``, ``removed``,
    ``comments_disabled``, ``forbidden``; ``refusal``: how the work ends where nothing was had before."""

    def __init__(self, why, refusal):
        self.why, self.refusal = why, refusal
        super().__init__(why)


class _Said(Exception):
    """An error that the API named. ``reason``: the API's word."""

    def __init__(self, reason):
        self.reason = reason
        super().__init__(reason)


class _TooLarge(Exception):
    """A page of more bytes than are read."""


class _Empty(Exception):
    """A page without comments, which is no step: whoever tries again asks again."""

    def __init__(self, page):
        self.page = page
        super().__init__()


@dataclass
class Fetched:
    """``video``: facts for the report; ``threads``: in the API's own shape, authors hashed; ``coverage`` and ``notes``:
    what the threads alone do not tell, for the report."""

    video: dict
    threads: Iterable[dict]
    coverage: dict
    notes: list[dict]


def fetch(job: JobContext, video: str, *, cap: int, order: str, replies: bool, on_progress) -> Fetched:
    """At most ``cap`` comments of this video, replies included where they are wanted. ``on_progress(title, done,
    total)``. Raises ``Refuse``; what breaks off after some comments were had is told by ``coverage``."""
    if not str(job.settings["YOUTUBE_API_KEY"]).strip():    # taken away since this was asked for
        raise not_configured()
    api = _Api(job, video)
    try:
        facts = api.video()
    except Ended as ended:
        raise ended.refusal from None
    kept = _Kept(cap, replies)
    goal = cap if facts["comments"] is None else min(cap, facts["comments"])

    def tell():
        on_progress(facts["title"], kept.count, max(goal, kept.count))
    tell()
    api.tell = tell
    stopped, retry_at, more = None, None, False
    try:
        for more in api.threads(order, kept):
            tell()
        if replies and kept.room:
            for _ in api.replies(kept):
                tell()
    except Ended as ended:
        if not kept.count:
            raise ended.refusal from None
        stopped, retry_at = ended.why, ended.refusal.facts.get("retry_at")
    stopped = stopped or ("repeated_page" if api.went_in_circles else None)
    if not kept.count:
        raise _nothing_said(facts)
    units = facts["units"] + kept.units + api.wasted
    return Fetched(_of_report(facts), kept.threads(), {
        "reported": facts["comments"], "replies_missing": kept.missing if replies and kept.room else 0,
        "partial": stopped is not None, "stopped": stopped, "units": units,
        "fetched_at": min((facts["fetched_at"], *kept.fetched_at)),     # of pages that were remembered the oldest
        **({"retry_at": retry_at} if retry_at else {}),
    }, _notes(facts, kept, more))


def _of_report(facts):
    return {name: facts[name] for name in ("id", "title", "channel", "published_at", "views", "likes", "comments")}


def _notes(facts, kept, more):
    notes = []
    if facts["live"]:
        notes.append({"code": "live_chat_left_out", "count": None})
    if not kept.with_replies:
        notes.append({"code": "replies_left_out", "count": None})
    reported = facts["comments"]
    if not kept.room and (more or kept.cut or (reported or 0) > kept.cap):
        # Without replies it is not known how many of the reported ones were wanted.
        count = reported - kept.cap if kept.with_replies and reported and reported > kept.cap else None
        notes.append({"code": "capped", "count": count})
    return notes


class _Kept:
    """Comments by id, each once, at most ``cap``. A thread is kept with the replies that came along."""

    def __init__(self, cap, with_replies):
        self.cap, self.with_replies = cap, with_replies
        self.units, self.cut, self.ids, self.fetched_at = 0, False, set(), set()
        self._tops, self._replies = {}, {}  # thread id -> comment; -> its replies

    @property
    def count(self):
        return len(self.ids)

    @property
    def room(self):
        return self.cap - len(self.ids)

    def add(self, page):
        """Take what is new."""
        self.units += page["units"]
        self.fetched_at.add(page["fetched_at"])
        for comment in page["comments"]:
            parent = comment.get("parent")
            if comment["id"] in self.ids or parent and parent not in self._tops:
                continue
            if not self.room:
                self.cut = True
                break
            self.ids.add(comment["id"])
            if parent:
                self._replies.setdefault(parent, []).append(comment)
            else:
                self._tops[comment["id"]] = comment

    def lacking(self, parent):
        """How many replies a thread promises beyond those that are here."""
        return max(0, self._tops[parent]["replies"] - len(self._replies.get(parent, ())))

    @property
    def missing(self):
        return sum(map(self.lacking, self._tops))

    def incomplete(self):
        """Ids of threads that lack replies, most lacking first: they bring most for a unit."""
        return sorted((one for one in self._tops if self.lacking(one)), key=self.lacking, reverse=True)

    def threads(self):
        def shaped(comment):
            snippet = {"textOriginal": comment["text"], "likeCount": comment["likes"], "publishedAt": comment["at"]}
            if comment.get("author"):
                snippet["authorChannelId"] = {"value": comment["author"]}
            if comment.get("parent"):
                snippet["parentId"] = comment["parent"]
            return {"id": comment["id"], "snippet": snippet}
        for identifier, top in self._tops.items():
            thread = {"id": identifier, "snippet": {
                "topLevelComment": shaped(top), "totalReplyCount": top["replies"] if self.with_replies else 0}}
            if answers := self._replies.get(identifier):
                thread["replies"] = {"comments": [shaped(one) for one in answers]}
            yield thread


class _Api:
    """What one piece of work asks. ``went_in_circles``: a page named a page that had been read. ``tell``: called between
    what takes a while, to let others have a turn."""

    def __init__(self, job, video):
        self._job, self._id = job, video
        self._key = str(job.settings["YOUTUBE_API_KEY"]).strip()
        self._root = job.settings["YOUTUBE_API_URL"].rstrip("/") + "/youtube/v3/"
        self._items = PAGE_ITEMS[0]
        self._author_key = bytes.fromhex(job.step("author key", lambda: secrets.token_hex(16)))
        self.went_in_circles = False
        self.wasted = 0     # units of this attempt on what brought nothing
        self._video = None
        self.tell = lambda: None

    # -------------------------------------------------------------------------------- what is asked

    def video(self):
        """The video's facts, for one unit."""
        def ask():
            answer, cost = self._get("videos", part="snippet,statistics,status,liveStreamingDetails", id=self._id)
            return {**_facts(self._id, _items(answer)), **cost}
        try:
            self._video = self._job.step("video", ask)
        except _Said as said:
            raise self._refusal(said) from None
        return self._video

    def threads(self, order, kept) -> Iterator[bool]:
        """Threads into ``kept`` until it is full or there are no more; yields after each page whether more follow."""
        about = {"part": "snippet,replies", "videoId": self._id, "order": order}
        start = None
        # A token that is refused: the page that gave it is asked anew, and if that is in vain all from the first on.
        for name in ("threads", "again", "anew"):
            seen = []
            try:
                yield from self._pages("commentThreads", about, name, kept, start, seen)
                return
            except _Said as said:
                if said.reason != "invalidPageToken":
                    raise self._refusal(said) from None
            if name == "again" and start is None:
                break
            start = seen[-1] if seen and name == "threads" else None
        raise _upstream("YouTube refused its own page tokens")

    def replies(self, kept) -> Iterator[bool]:
        """Replies of the threads that lack some, into ``kept``, until it is full."""
        ends_at = kept.units + REPLY_UNITS_MAX
        for parent in kept.incomplete():
            if not kept.room or kept.units >= ends_at:
                return
            try:
                yield from self._pages("comments", {"part": "snippet", "parentId": parent}, f"replies {parent}", kept)
            except _Said as said:
                if said.reason not in _GONE:    # a thread that was deleted meanwhile ends nothing else
                    raise self._refusal(said) from None

    def _pages(self, path, about, name, kept, token=None, seen=None):
        """From the page of this token on; those of the pages that were read are added to ``seen``."""
        seen, ids, barren, place = [] if seen is None else seen, set(), 0, 0
        while kept.room and (not about.get("parentId") or kept.lacking(about["parentId"])):
            place += 1
            mark = blake2b((token or "").encode("utf-8", "replace"), digest_size=4).hexdigest()
            following, known = None, len(ids)
            for part in self._stored(f"{name} {place} {mark}", path, {**about, "pageToken": token}, kept,
                                     anew=name in ("again", "anew")):
                kept.add(part)
                ids.update(comment["id"] for comment in part["comments"])
                following = part["next"]
            seen.append(token)
            yield bool(following)
            # By what this pass has seen: after a refused token it may have to pass through what is kept already.
            barren = 0 if len(ids) > known else barren + 1
            if not following:
                return
            if following in seen or barren == BARREN_PAGES_MAX:
                self.went_in_circles = True
                return
            token = following

    def _stored(self, name, path, about, kept, anew):
        """A page in as many steps as its size takes, each under the limit of a step's output."""
        parts, n = [], 0

        def part():
            if not parts:
                answer, cost = self._page(path, about, ANEW_SECONDS if anew else CACHE_SECONDS)
                self.tell()
                parts.extend(self._split(answer, cost, about.get("parentId"), kept.with_replies))
                self.tell()
            if not parts[0]["comments"]:
                raise _Empty(parts[0])
            return parts[min(n, len(parts) - 1)]
        while True:
            try:
                stored = self._job.step(f"{name} {n}" if n else name, part)
            except _Empty as empty:
                yield empty.page
                return
            yield stored
            n += 1
            if n >= stored["parts"]:
                return

    def _page(self, path, about, cache_seconds):
        """As ``_get``, of fewer items where they are too large, from then on."""
        while True:
            try:
                return self._get(path, cache_seconds, **about, maxResults=self._items, textFormat="plainText",
                                 fields=_FIELDS[path])
            except _TooLarge:
                smaller = [items for items in PAGE_ITEMS if items < self._items]
                if not smaller:
                    raise _upstream("a page is too large") from None
                self._items = smaller[0]

    def _split(self, answer, cost, parent, with_replies):
        following = answer.get("nextPageToken")
        pieces, size = [[]], 0
        for comment in self._comments(_items(answer), parent, with_replies):
            raw = (comment["text"] + comment["id"] + comment.get("parent", "")).encode("utf-8", "replace")
            # At most so many as JSON: quick to tell, which making the JSON is not.
            bytes_ = COMMENT_BYTES_MAX + 6 * len(raw) - 5 * len(raw.translate(None, _ESCAPED))
            if size + bytes_ > STEP_BYTES_MAX:
                pieces.append([])
                size = 0
            pieces[-1].append(comment)
            size += bytes_
        return [{"comments": piece, "next": following if isinstance(following, str) and following else None,
                 "parts": len(pieces), **cost, **({"units": 0} if n else {})} for n, piece in enumerate(pieces)]

    def _comments(self, items, parent, with_replies):
        for item in items:
            snippet = _object(item.get("snippet"))
            if parent:
                yield from self._comment(item, parent)
                continue
            top = _object(snippet.get("topLevelComment"))
            found = list(self._comment({"id": item.get("id"), **top}, None, _count(snippet.get("totalReplyCount"))))
            yield from found
            if with_replies and found:
                for reply in _list(_object(item.get("replies")).get("comments")):
                    yield from self._comment(reply, found[0]["id"])

    def _comment(self, item, parent, replies=0):
        snippet, identifier = _object(item.get("snippet")), item.get("id")
        text = snippet.get("textOriginal") or snippet.get("textDisplay")
        if not (isinstance(identifier, str) and 0 < len(identifier) <= 200 and isinstance(text, str)):
            return
        author = _object(snippet.get("authorChannelId")).get("value") or snippet.get("authorDisplayName")
        at = snippet.get("publishedAt")
        yield {"id": identifier, "text": text[:TEXT_CHARACTERS_MAX], "likes": _count(snippet.get("likeCount"), None),
               "at": at if isinstance(at, str) and len(at) <= 40 else None,
               "author": author and blake2b(str(author).encode("utf-8", "replace"), key=self._author_key,
                                            digest_size=8).hexdigest(),
               **({"parent": parent} if parent else {"replies": replies or 0})}

    # ------------------------------------------------------------------------------ how it is asked

    def _get(self, path, cache_seconds=CACHE_SECONDS, **params) -> tuple[dict, dict]:
        """``(answer, {"units": spent on it, "fetched_at"})``. The same again while the failure is one that passes."""
        spent = []
        try:
            return self._asked(path, cache_seconds, params, spent)
        except BaseException:
            self.wasted += sum(spent)
            raise

    def _asked(self, path, cache_seconds, params, spent):
        for pause in (*BACKOFF_SECONDS, None):
            try:
                response = self._fetch(path, params, cache_seconds, spent)
            except UpstreamUnavailable as failure:
                if failure.facts["reason"] == "too_large" and "maxResults" in params:
                    raise _TooLarge from None
                if failure.facts["reason"] not in ("timeout", "connect", "protocol"):
                    pause = None
                trouble, wait = f"no answer ({failure.facts['reason']})", 0
            else:
                answer = _json_of(response)
                if response.status == 200 and isinstance(answer, dict) and isinstance(answer.get("items", []), list) \
                        and "error" not in answer:
                    return answer, {"units": sum(spent), "fetched_at": _iso(response.asked_at)}
                passes, trouble = self._judge(response, answer)
                pause = pause if passes else None
                wait = _retry_after(response)
                cache_seconds = ANEW_SECONDS if response.status == 200 else cache_seconds
            if pause is None:
                raise _upstream(trouble)
            time.sleep(max(wait, pause * random.uniform(.5, 1.5)))
        raise AssertionError("the last pause is None")

    def _fetch(self, path, params, cache_seconds, spent):
        if key_is_refused(self._job.settings):
            raise Ended("upstream", not_configured())
        params = {**params, "key": self._key}

        def ask(seconds):
            try:
                response = self._job.fetch(self._root + path, params=params, cache_seconds=seconds, units=1,
                                           timeout_seconds=TIMEOUT_SECONDS, max_bytes=PAGE_BYTES_MAX)
            except (UpstreamUnavailable, DailyLimit) as failure:
                spent.append(failure.units)
                raise
            spent.append(response.units)
            return response
        try:
            response = ask(cache_seconds)
            if response.from_cache and cache_seconds > NOTHING_CACHE_SECONDS and (
                    response.status != 200 or not _items(_json_of(response))):
                response = ask(NOTHING_CACHE_SECONDS)
            return response
        except DailyLimit as limit:
            facts = limit.facts
            if facts.get("exhausted"):
                raise Ended("quota", _used_up("QUOTA_EXHAUSTED", facts["retry_at"])) from None
            why = "guests_limit" if facts.get("guests") else "daily_limit"
            raise Ended(why, _used_up("DAILY_LIMIT", facts["retry_at"], guests=bool(facts.get("guests")))) from None

    def _judge(self, response, answer):
        """``(whether the failure passes, what it was)`` of an answer that brought nothing; raises where the API says
        what will not pass."""
        reasons, message = _told(answer, self._key)
        known = {reason: True for reason in reasons}
        if known.keys() & _USED_UP or "per day" in message.lower() and response.status in (403, 429):
            until = self._job.quota_exhausted(response)
            if until <= _iso(time.time()):  # it was yesterday's
                return True, "the allowance of a day that has ended"
            raise Ended("quota", _used_up("QUOTA_EXHAUSTED", until))
        if response.status == 401 or known.keys() & _KEY_REFUSED or "api key not valid" in message.lower() or any(
                reason.startswith("API_KEY_") for reason in known) or "unregistered callers" in message.lower():
            told = " ".join(filter(None, (", ".join(list(known)[:3]), message)))
            _refused_keys[_key_mark(self._job.settings)] = time.time()
            self._job.incident("YOUTUBE_NOT_CONFIGURED", f"YouTube refuses the key (HTTP {response.status}): {told}")
            raise Ended("upstream", not_configured())
        if known.keys() & _AGAIN or response.status >= 500 or response.status in (200, 408, 429):
            return True, f"HTTP {response.status} {next(iter(known), '')}".rstrip()
        if reasons and reasons[0] in _GONE | {"commentsDisabled", "videoNotFound"}:
            raise _Said(reasons[0])
        if response.status == 404:
            raise _Said("notFound")
        return False, " ".join(filter(None, (f"HTTP {response.status}", *list(known)[:1], message)))

    def _refusal(self, said):
        if said.reason == "commentsDisabled":
            return Ended("comments_disabled", _disabled(self._video))
        return Ended("forbidden", forbidden()) if said.reason == "forbidden" else Ended("removed", not_found())


def key_is_refused(settings) -> bool:
    """Whether YouTube has refused this very key within the last minutes: neither a unit nor a wait for another try."""
    at = _refused_keys.get(_key_mark(settings))
    return at is not None and 0 <= time.time() - at < KEY_REFUSED_SECONDS


def _key_mark(settings):
    told = f'{settings["YOUTUBE_API_URL"]} {str(settings["YOUTUBE_API_KEY"]).strip()}'
    return blake2b(told.encode("utf-8", "replace"), digest_size=16).digest()


# ------------------------------------------------------------------------------------ what is said

def not_configured() -> Refuse:
    return Refuse("YOUTUBE_NOT_CONFIGURED", {
        "en": "This site cannot look up videos at present: upload a file with comments instead. "
              "(The operator can set YOUTUBE_API_KEY.)",
        "ja": "現在、このサイトでは動画を検索できません。コメントのファイルをアップロードしてください。"
              "（運営者は YOUTUBE_API_KEY を設定できます。）"}, field="video")


def not_found() -> Refuse:
    return Refuse("VIDEO_NOT_FOUND", {
        "en": "YouTube has no such video, or it is private. Check the address; if it was made public just now, "
              "try again in a few minutes.",
        "ja": "この動画は見つからないか、非公開です。アドレスをご確認ください。公開直後の場合は、数分後にもう一度お試しください。"})


def forbidden() -> Refuse:
    return Refuse("VIDEO_FORBIDDEN", {
        "en": "YouTube does not let this site read the comments of this video: choose another video, or upload a file "
              "with its comments.",
        "ja": "YouTubeがこの動画のコメントの閲覧を許可していません。別の動画を選ぶか、コメントのファイルをアップロードしてください。"})


def _disabled(facts):
    kids = bool(facts and facts["kids"])
    return Refuse("COMMENTS_DISABLED", {
        "en": "Comments are turned off for this video" + (
            ", as they are for every video made for children. " if kids else ". ") + "Choose another video.",
        "ja": "この動画は、" + ("子ども向けの動画のため、" if kids else "") +
              "コメントがオフになっています。別の動画を選んでください。"})


def _nothing_said(facts):
    if counted := facts["comments"]:
        english, japanese = (f"YouTube counts {counted:,} comments on this video but gives out none of them: they may be "
                             "deleted, hidden or still unchecked.",
                             f"YouTubeによるとこの動画のコメントは{counted:,}件ですが、1件も取得できませんでした。削除・非表示・確認待ちの"
                             "可能性があります。")
    else:
        english, japanese = "Nobody has commented on this video yet.", "この動画には、まだコメントがありません。"
    if facts["live"]:
        english += " What is written in a live chat is not among the comments."
        japanese += "ライブチャットの発言はコメントに含まれません。"
    return Refuse("NO_COMMENTS", {"en": english + " Try again later, or choose another video.",
                                  "ja": japanese + "時間をおいてもう一度お試しになるか、別の動画を選んでください。"})


def _used_up(code, retry_at, guests=False):
    english, japanese = _moment(retry_at)
    if guests:
        said = ("What visitors without an account may ask YouTube for in a day is used up: sign in, or try again after "
                f"{english}.", "ログインしていない方が1日にYouTubeへ問い合わせられる分は、終わりました。"
                f"ログインするか、{japanese}より後にもう一度お試しください。")
    elif code == "QUOTA_EXHAUSTED":
        said = (f"YouTube answers this site no more today. Try again after {english}, or upload a file with comments.",
                f"YouTubeから、今日の利用枠は終わったと知らされました。{japanese}より後にもう一度お試しになるか、"
                "コメントのファイルをアップロードしてください。")
    else:
        said = (f"What this site may ask YouTube for in a day is used up. Try again after {english}, or upload a file "
                "with comments.", f"このサイトが1日にYouTubeへ問い合わせられる分は、終わりました。{japanese}より後に"
                "もう一度お試しになるか、コメントのファイルをアップロードしてください。")
    return Refuse(code, dict(zip(("en", "ja"), said, strict=True)), retry_at=retry_at)


def _upstream(trouble):
    return Ended("upstream", Refuse("UPSTREAM_UNAVAILABLE", {
        "en": "YouTube did not answer usably. Try again in a few minutes, or upload a file with comments.",
        "ja": "YouTubeから正しい応答がありませんでした。数分後にもう一度お試しになるか、"
              "コメントのファイルをアップロードしてください。"}, reason=trouble[:MESSAGE_CHARACTERS_MAX]))


def _iso(seconds):
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(retry_at):
    """A time for English readers in UTC and for Japanese ones in Japan's: a kind does not know the visitor's zone."""
    try:
        at = datetime.fromisoformat(retry_at).astimezone(UTC)
    except (TypeError, ValueError):
        return "midnight in California", "米国西海岸の午前0時"
    there = at + timedelta(hours=9)
    return f"{at:%H:%M} UTC on {at.day} {at:%B}", f"{there.month}月{there.day}日{there:%H:%M}（日本時間）"


# ---------------------------------------------------------------------------------- what comes back

def _json_of(response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None


def _told(answer, key):
    """``([reason, …], message)`` of an error body, or of whatever came instead; ``message`` is plain text without
    the key."""
    error = _object(_object(answer).get("error"))
    listed = [*_list(error.get("errors")), *_list(error.get("details"))]
    reasons = [one["reason"] for one in listed if isinstance(one.get("reason"), str)]
    messages = [error.get("message"), *(one.get("message") for one in listed)]
    message = next((one for one in messages if isinstance(one, str)), "")[:5_000]
    message = _without_key(unescape(re.sub(r"<[^<>]*>", "", message)), key)
    message = re.sub(r"\bkey=[^&\s\"'<>]+", "key=…", message)
    return ([re.sub(r"\W", "", reason)[:60] for reason in reasons[:20] if reason == _without_key(reason, key)],
            " ".join(message.split())[:MESSAGE_CHARACTERS_MAX])


def _without_key(text, key):
    """Without any part of the key that can be told, however it is written: split, percent-encoded, in other letters."""
    text, key = unquote(unquote(text)), _plain(key)
    places = [at for at, letter in enumerate(text) if letter.isascii() and letter.isalnum()]
    plain, size, hidden = _plain(text), min(KEY_PART_LETTERS, len(key)), set()
    for part in {key[n:n + size] for n in range(len(key) - size + 1)} - {""}:
        for found in re.finditer(f"(?={part})", plain):
            hidden.update(range(places[found.start()], places[found.start() + size - 1] + 1))
    return re.sub("\0+", "…", "".join("\0" if at in hidden else letter for at, letter in enumerate(text)))


def _plain(text):
    return re.sub(r"[^A-Za-z0-9]", "", text).lower()


def _retry_after(response):
    """Seconds that the answer asks to wait, up to a limit."""
    given = response.headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", given):
        return min(int(given), RETRY_AFTER_SECONDS_MAX)
    try:
        seconds = (parsedate_to_datetime(given) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0
    return min(max(0, seconds), RETRY_AFTER_SECONDS_MAX)


def _facts(identifier, items):
    item = next((one for one in items if one.get("id") in (identifier, None)), None)
    if item is None:
        raise not_found()
    snippet, counts, status = (_object(item.get(name)) for name in ("snippet", "statistics", "status"))
    return {"id": identifier, "title": _line(snippet.get("title")), "channel": _line(snippet.get("channelTitle")),
            "published_at": _line(snippet.get("publishedAt"))[:40] or None,
            **{name: _count(counts.get(of), None) for name, of in (
                ("views", "viewCount"), ("likes", "likeCount"), ("comments", "commentCount"))},
            "live": snippet.get("liveBroadcastContent") in ("live", "upcoming"),
            "kids": status.get("madeForKids") is True}


def _line(value):
    """A text of strangers as one line, without invisible characters."""
    text = " ".join(value[:5_000].split()) if isinstance(value, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:TITLE_CHARACTERS_MAX].strip()


def _count(value, otherwise=0):
    """A whole number of 0 or more, which the API gives as a number or as its text."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10 ** 15 else otherwise


def _object(value):
    return value if isinstance(value, dict) else {}


def _list(value):
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _items(answer):
    return _list(_object(answer).get("items"))
