"""What a comment is made of: its text, likes, time and author, and the names by which files call them."""
import functools
import html
import json
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
             "commentbody", "commentcontent", "commenttextoriginal", "commenttextdisplay", "fulltext", "reviewtext",
             "review", "feedback", "tweet", "post", "本文", "コメント本文", "コメント内容", "コメントテキスト", "コメント",
             "内容", "テキスト", "メッセージ", "感想", "ご感想", "ご意見", "ご意見ご感想", "レビュー", "口コミ", "クチコミ",
             "投稿内容", "comments", "html", "自由記述", "自由回答", "自由記述欄", "ご意見ご要望", "発言", "発言内容", "回答", "回答内容", "書き込み",
             "kommentar", "kommentare", "commentaire", "commentaires", "comentario", "comentarios", "comentário",
             "comentários", "commento", "commenti", "texte", "texto", "testo", "mensaje", "mensagem", "nachricht",
             "avis", "комментарий", "комментарии", "текст", "отзыв", "сообщение", "댓글", "내용", "评论", "評論", "评论内容",
             "留言", "內容", "opinion", "remark", "remarks", "response", "answer"),
    "likes": ("likecount", "likes", "like", "votecount", "votes", "upvotes", "ups", "thumbsup", "高評価数", "高評価",
              "いいね数", "いいね", "いいね!"),
    "at": ("publishedat", "publishedtime", "timestamp", "timeparsed", "createdat", "commentcreatetimestamp", "datetime",
           "published", "created", "タイムスタンプ", "createdutc", "date", "time", "updatedat", "投稿日時",
           "コメント作成タイムスタンプ", "作成日時", "日時", "投稿日", "日付", "公開日"),
    "author": ("authorchannelid", "authorid", "userid", "author", "authordisplayname", "authorname", "username",
               "user", "name", "投稿者", "投稿者名", "ユーザー名", "ユーザー", "名前"),
    "parent": ("parentid", "parent", "parentcommentid", "replyto", "replytocid", "返信先", "親コメントid"),
    "reply": ("isreply", "reply", "返信"),
}
HTML_NAMES = {"textdisplay", "commenttextdisplay", "html"}     # their text is HTML
_ROLE = {name: (role, rank) for role, names in _NAMES.items() for rank, name in enumerate(names)}
_ASKED = re.compile(r"(?:動画の|その他)?(?:ご意見|ご感想|自由記述|自由回答)(?!.*(?:数|id|日時?|番号)$)")     # a form's longer names
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


def _core(name):
    """A plain name without what tables put around it: 'snippet.topLevelComment.snippet.textOriginal' of a
    flattened page, 'コメント（任意）', 'コメントの内容'."""
    name = re.sub(r"\([^()]*\)", "", name).removesuffix(".value").rpartition(".")[2]
    return name if name.isascii() else re.sub("[の・]", "", name)


def role_of(name):
    """``(role, rank)`` of a column or key, or None; names repeat by the ten thousand, so remembered."""
    if len(name) > NAME_CHARACTERS_MAX:
        return None
    try:
        return _known_keys[name]
    except KeyError:
        simple = plain(name)
        role = _ROLE.get(simple) or _ROLE.get(_core(simple)) or (("text", len(_ROLE)) if _ASKED.match(simple) else None)
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


@functools.lru_cache(maxsize=64)
def is_html(name):
    """Whether what stands under this name is HTML."""
    return plain(name) in HTML_NAMES or _core(plain(name)) in HTML_NAMES


# --- values -------------------------------------------------------------------------------------

_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9, "千": 1e3, "천": 1e3, "万": 1e4, "만": 1e4, "億": 1e8}
_LIKES = re.compile(r"\+?(\d+(?:[., ']\d+)*) ?([kmb千천万만億]?)(?: ?(?:likes?|votes?|件|回|いいね))?")


def _narrow(value):
    """A short text to compare; normalising a long one may take for ever, as in ``plain``."""
    return unicodedata.normalize("NFKC", value.strip()[:60]).strip()[:40]


def likes_of(value):
    """A whole number, 0 or more, out of 12, "1,234", "1.234", "1.2K", "3,4k" or "3万"; else None."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        found = _LIKES.fullmatch(_narrow(value).lower())
        if not found:
            return None
        digits, unit = found.groups()
        # Three digits after a mark are thousands, unless a unit follows a point: 1.234K. Others are decimals.
        if re.fullmatch(r"\d{1,3}([., '])\d{3}(\1\d{3})*", digits) and not (unit and "." in digits):
            digits = re.sub(r"\D", "", digits)
        try:
            value = float(digits.replace(",", ".")) * _UNITS.get(unit, 1)
        except ValueError:      # several different marks
            return None
    if isinstance(value, (int, float)) and 0 <= value < 1e12:
        return round(value)
    return None


_EARLIEST, _LATEST = 946_684_800, 4_102_444_800     # the years 2000 to 2100
_DAYS_TO_1970 = 25_569      # a spreadsheet counts its days from the end of 1899
_CLOCK = (r"(?:[\sT,]*(?:\([^()]{1,9}\))?\s*(?P<half>午前|午後)?\s*(?P<hour>\d{1,2})[:時](?P<minute>\d{1,2})"
          r"(?:[:分](?P<second>\d{1,2}))?(?:\s*(?P<noon>[ap]\.?m))?"
          r"(?:\s*(?P<sign>[+-])(?P<ahead>\d\d):?(?P<minutes>\d\d))?)?")
_MONTHS = {month: number for number, month in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_DATES = [re.compile(date + _CLOCK, re.I) for date in (
    r"(?P<year>\d{4})\s?[-/.年]\s?(?P<month>\d{1,2})\s?[-/.月]\s?(?P<day>\d{1,2})[日.]?",
    r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})",
    r"(?:[a-z]{3,9},? )?(?P<name>[a-z]{3})[a-z]{0,6}\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>\d{4})",
    r"(?:[a-z]{3,9},? )?(?P<day>\d{1,2})\.? (?P<name>[a-z]{3})[a-z]{0,6}\.? (?P<year>\d{4})")]
_SLASHES = {day_first: re.compile(date + _CLOCK, re.I) for day_first, date in (
    (True, r"(?P<day>\d{1,2})[/-](?P<month>\d{1,2})[/-](?P<year>\d{4})"),
    (False, r"(?P<month>\d{1,2})[/-](?P<day>\d{1,2})[/-](?P<year>\d{4})"))}


def time_of(value, day_first=None):
    """Seconds since 1970 out of a number (seconds, milliseconds, or a spreadsheet's days since 1900), ISO
    8601, 2024/1/2 3:04, 2024年1月2日, 2.1.2024 or 'Jan 2, 2024'; UTC where no zone is given. None where it
    cannot be told: '3 weeks ago', or 1/2/2024 if ``day_first`` does not say which is the day."""
    if isinstance(value, str):
        value = _narrow(value)
        if re.fullmatch(r"\d{5}(\.\d+)?|\d{9,13}(\.\d+)?", value):
            value = float(value)
    if isinstance(value, bool) or value is None or value == "":
        return None
    if isinstance(value, (int, float)):
        if not 0 <= value < 1e15:       # an integer may have too many digits for a division
            return None
        seconds = value / 1000 if value > 1e11 else value if value > 1e5 else (value - _DAYS_TO_1970) * 86_400
    elif isinstance(value, str):
        seconds = _seconds(value, day_first)
    else:
        return None
    return float(seconds) if seconds is not None and _EARLIEST <= seconds < _LATEST else None


def _seconds(text, day_first):
    try:
        moment = _moment(re.sub(r"\s*(utc|gmt)$", "+00:00", text, flags=re.I), day_first)
        if moment is None:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None


def _moment(text, day_first):
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    patterns = _DATES if day_first is None else [*_DATES, _SLASHES[day_first]]
    found = next((found for pattern in patterns if (found := pattern.match(text))), None)
    if not found:
        return None
    said = found.groupdict()
    month = _MONTHS.get(said["name"].lower(), 0) if said.get("name") else int(said["month"])
    hour = int(said["hour"] or 0)
    half = (said["half"] or said["noon"] or "").lower()
    if half:
        hour = hour % 12 + 12 * half.startswith(("午後", "p"))
    zone = None
    if said["sign"]:
        ahead = timedelta(hours=int(said["ahead"]), minutes=int(said["minutes"]))
        zone = timezone(ahead if said["sign"] == "+" else -ahead)
    return datetime(int(said["year"]), month, int(said["day"]), hour, int(said["minute"] or 0),
                    int(said["second"] or 0), tzinfo=zone)


def day_first_of(values):
    """Whether dates like 13/2/2024 begin with the day: True, False, or None where these do not tell."""
    found = [match for value in values if (match := re.match(r"\s*(\d{1,2})[/-](\d{1,2})[/-]\d{4}(?!\d)", value))]
    day, month = (any(int(match[place]) > 12 for match in found) for place in (1, 2))
    return day if day != month else None


def is_reply_of(parent, flag):
    """Whether a comment is a reply, by the id of what it answers or by a yes or no; None where ``flag`` is
    neither: 'reply' also names what the shop answered. ``parent`` is None if there is no such key."""
    if parent is not None:
        return str(parent).strip().casefold() not in ("", "root", "0", "false", "no", "none", "null", "nan", "いいえ")
    if flag is None:
        return None
    flag = str(flag).strip().casefold()
    return True if flag in ("true", "yes", "1", "はい", "○") else False if flag in ("false", "no", "0", "いいえ") else None


_PIECE = json.JSONDecoder()
_BETWEEN_PIECES = re.compile(r"[,\s]*")


def joined_pieces(text):
    """Google Takeout keeps a comment as pieces, ``{"text":"Nice "},{"text":"one"}``: their text."""
    if not text.startswith('{"'):
        return text
    pieces, at = [], 0
    try:
        while at < len(text):
            piece, at = _PIECE.raw_decode(text, at)
            pieces.append(piece.get("text") or "")
            at = _BETWEEN_PIECES.match(text, at).end()
        return "".join(pieces) or text
    except (ValueError, TypeError, AttributeError, RecursionError):
        return text


def author_of(value):
    """What identifies a writer, at most 200 characters, or None."""
    if isinstance(value, dict):
        value = value.get("value") or value.get("id") or value.get("name")
    return str(value)[:200] if isinstance(value, (str, int)) and value != "" else None
