"""What a comment is made of: its text, likes, time and author, and the names by which files call them."""
import html
import re
import unicodedata
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

NAME_CHARACTERS_MAX = 60            # no known column or key has a longer name
SOMETHING = re.compile(r"[^\s\ufeff\0\x1e]")


class Comment(NamedTuple):
    """``at``: seconds since 1970 in UTC; ``author``: whatever identifies the writer, not to be kept.
    All but ``text`` may be None where the file does not say."""

    text: str
    likes: int | None = None
    at: float | None = None
    author: str | None = None
    is_reply: bool | None = None


# Only entities that end with a semicolon: HTML also knows '&copy' without one, and would turn the
# address '?a=1&copy=2' into a copyright sign.
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
_BREAK = re.compile(r"<br\s*/?>", re.I)
_MARKUP = re.compile(r"</?(?:a|b|i|s|u|em|strong|del|strike|span|img|p|div)(?:\s[^<>]*)?/?>", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text):
    """The text as a person wrote it: entities unescaped (doubly escaped ones too), ``<br>`` a new
    line, no control characters, no lone surrogates, no space around. Other markup stays text."""
    text = text.strip("\ufeff \t\r\n\0")
    if "<" in text:
        text = _BREAK.sub("\n", text)
    if "&" in text:
        for _ in range(2):
            text = _BREAK.sub("\n", _ENTITY.sub(lambda found: html.unescape(found[0]), text))
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if _CONTROL.search(text):
        text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.strip()


def without_markup(text):
    """The API's ``textDisplay`` is HTML unless plain text was asked for: take its tags away."""
    return _MARKUP.sub("", _BREAK.sub("\n", text)) if "<" in text else text


_NAMES = {
    "text": ("textoriginal", "textdisplay", "text", "commenttext", "comment", "content", "body", "message",
             "commentbody", "commentcontent", "fulltext", "reviewtext", "review", "tweet", "post", "本文",
             "コメント本文", "コメント内容", "コメント", "内容", "テキスト", "メッセージ", "感想", "レビュー",
             "口コミ", "クチコミ", "投稿内容", "comments"),
    "likes": ("likecount", "likes", "like", "votecount", "votes", "upvotes", "thumbsup", "高評価数", "高評価",
              "いいね数", "いいね", "いいね!"),
    "at": ("publishedat", "publishedtime", "timestamp", "createdat", "datetime", "published", "created",
           "createdutc", "date", "time", "updatedat", "投稿日時", "日時", "投稿日", "日付", "公開日"),
    "author": ("authorchannelid", "authorid", "userid", "author", "authordisplayname", "authorname", "username",
               "user", "name", "投稿者", "ユーザー名", "ユーザー", "名前"),
    "reply": ("parentid", "parent", "isreply", "replyto", "返信", "返信先"),
}
_ROLE = {name: (role, rank) for role, names in _NAMES.items() for rank, name in enumerate(names)}
_known_keys = {}
_JOINTS = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x1f _-"))


def plain(name):
    """The name to compare, "" for one too long to be known: normalising takes a time that grows with
    the square of a run of combining marks."""
    if len(name) > NAME_CHARACTERS_MAX:
        return ""
    if name.isascii():      # the same, but much faster: a file may have a million different keys
        return name.translate(_JOINTS).lower()
    return re.sub(r"[\s_\-]+", "", unicodedata.normalize("NFKC", name).casefold()).strip("\ufeff")


def role_of(name):
    """``(role, rank)`` of a column or key, or None; names repeat by the ten thousand, so remembered."""
    if len(name) > NAME_CHARACTERS_MAX:
        return None
    try:
        return _known_keys[name]
    except KeyError:
        role = _ROLE.get(plain(name))
        if len(_known_keys) < 5_000:
            _known_keys[name] = role
        return role


def roles_of(names):
    """For each role the best of these names' positions."""
    best = {}
    for position, name in enumerate(names):
        found = role_of(name)
        if found and (found[0] not in best or found[1] < best[found[0]][0]):
            best[found[0]] = (found[1], position)
    return {role: position for role, (_, position) in best.items()}


_UNITS = {"k": 1_000, "m": 1_000_000, "千": 1_000, "万": 10_000}


def likes_of(value):
    """A whole number, 0 or more, out of 12, "1,234", "1.2K" or "3万"; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([km千万]?)",
                             unicodedata.normalize("NFKC", value.strip()[:60]).strip().replace(",", "").lower()[:30])
        if not found:
            return None
        value = float(found[1]) * _UNITS.get(found[2], 1)
    if isinstance(value, (int, float)) and 0 <= value < 1e12:
        return int(value)
    return None


_EARLIEST, _LATEST = 946_684_800, 4_102_444_800     # the years 2000 to 2100
_DATE = re.compile(r"(\d{4})[/.年](\d{1,2})[/.月](\d{1,2})日?(?:[\sT]*(\d{1,2})[:時](\d{1,2})(?:[:分](\d{1,2}))?)?")


def time_of(value):
    """Seconds since 1970 out of a number (seconds or milliseconds), ISO 8601, 2024/1/2 3:04 or
    2024年1月2日; UTC where no zone is given; None where it cannot be told, as in 1/2/2024."""
    if isinstance(value, str):
        value = unicodedata.normalize("NFKC", value.strip()[:60]).strip()[:40]
        if re.fullmatch(r"\d{9,13}(\.\d+)?", value):
            value = float(value)
    if isinstance(value, bool) or value is None or value == "":
        return None
    if isinstance(value, (int, float)):
        if not 0 <= value < 1e15:       # an integer may have too many digits for a division
            return None
        seconds = value / 1000 if value > 1e11 else value
        return float(seconds) if _EARLIEST <= seconds < _LATEST else None
    if not isinstance(value, str):
        return None
    try:
        found = _DATE.match(value)
        moment = (datetime(*(int(part or 0) for part in found.groups())) if found
                  else datetime.fromisoformat(value))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        seconds = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return seconds if _EARLIEST <= seconds < _LATEST else None


def reply_of(value):
    if value is None or isinstance(value, bool):
        return bool(value)
    return str(value).strip().casefold() not in ("", "root", "0", "false", "no", "none", "null", "nan", "いいえ")


def author_of(value):
    if isinstance(value, dict):
        value = value.get("value") or value.get("id") or value.get("name")
    return str(value)[:200] if isinstance(value, (str, int)) and value != "" else None
