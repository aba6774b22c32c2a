"""Comments of a JSON document, of JSON lines, or of many documents one after another."""
import json
import re

from .fields import (SOMETHING, Comment, author_of, clean, is_html, is_reply_of, likes_of, plain, roles_of, time_of,
                     without_markup)
from .refusals import HEADERS_SHOWN_MAX, Unreadable, no_column, too_many, unsupported

CHUNK_CHARACTERS = 1 << 18
WHOLE_CHARACTERS_MAX = 1 << 20      # a JSON object up to this size is decoded at once
VALUE_CHARACTERS_MAX = 1 << 22      # no single JSON value may be larger
ENTRIES_MAX = 300_000               # of a JSON document
KEYS_LOOKED_AT_MAX = 100
CUT_CHARACTERS_MAX = 64             # a token that the end of a piece cut apart is shorter
_UNFINISHED = object()
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_DEPTH_MAX = 6
# Keys that hold the list of comments, and keys that only wrap it.
_LISTS = {"comments", "items", "data", "results", "threads", "pages", "entries", "response", "コメント"}
_WRAPPERS = _LISTS - {"comments", "コメント"}
_YT_DLP = {"extractor", "extractor_key", "webpage_url", "formats", "automatic_captions", "_version"}
_IDS = ("id", "cid")      # the latter is youtube-comment-downloader's
# Of what has no comments, the keys that tell what it is.
_OTHERS = {
    "replayChatItemAction": {"en": "a recording of a live chat", "ja": "ライブチャットの記録"},
    "wireMagic": {"en": "a subtitle file", "ja": "字幕ファイル"},
    "videoDetails": {"en": "a description of a video", "ja": "動画の情報"},
}


def looks_like_json(start):
    """'[Verse 1] what a song' is a comment, not JSON."""
    return bool(re.match(r'\s*(\[\s*([{\["\]]|null|-?\d+\s*[,\]])|\{\s*["}])', start))


class _Cursor:
    """JSON text that is read as it is needed. ``peek`` and ``whole`` move over white space."""

    def __init__(self, stream):
        self.stream, self.text, self.at, self.line, self.ended = stream, "", 0, 1, False
        self.passed = 0         # characters of this line that are no longer in ``text``

    def more(self):
        rest = len(self.text) - self.at
        new = self.stream.read(max(CHUNK_CHARACTERS, rest))
        self.line, self.passed = self._place(self.at)
        self.text = self.text[self.at:] + new
        self.at = 0
        self.ended = not new

    def _place(self, at):
        """``(line, characters before it in the line)``."""
        breaks = self.text.count("\n", 0, at)
        return self.line + breaks, at - self.text.rfind("\n", 0, at) - 1 if breaks else self.passed + at

    def peek(self):
        """The next character that is not white space, or "" at the end."""
        while True:
            found = SOMETHING.search(self.text, self.at)
            if found:
                self.at = found.start()
                return self.text[self.at]
            self.at = len(self.text)
            if self.ended:
                return ""
            self.more()

    def take(self, characters):
        found = self.peek()
        if not found or found not in characters:
            self.fail(self.at)
        self.at += 1
        return found

    def whole(self, limit):
        """The value here, or ``_UNFINISHED`` if it does not end within ``limit`` characters."""
        while True:
            at = self.at
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
                # A number may go on in the next piece.
                if end < len(self.text) or self.ended:
                    self.at = end
                    return value
            except json.JSONDecodeError as error:
                at = error.pos
                if at < len(self.text) - CUT_CHARACTERS_MAX and not error.msg.startswith("Unterminated"):
                    self.fail(at)       # reading on would not mend it
            except RecursionError:
                raise self.beyond("is nested too deeply", "は、入れ子が深すぎます") from None
            except ValueError:
                raise self.beyond("has a number with thousands of digits", "に、桁数が多すぎる数値があります") from None
            if self.ended:
                self.fail(at)
            if len(self.text) - self.at > limit:
                return _UNFINISHED
            self.more()

    def beyond(self, en, ja):
        """For what may well be valid, but is more than can be read."""
        line, _ = self._place(self.at)
        return Unreadable("UNSUPPORTED_FORMAT",
                          f"This JSON cannot be read: the value that begins in line {line} {en}. "
                          "Upload the list of comments alone.",
                          f"このJSONは読み込めません。{line}行目から始まる値{ja}。"
                          "コメントの一覧だけをアップロードしてください。", line=line)

    def fail(self, at):
        line, before = self._place(at)
        raise Unreadable("INVALID_JSON",
                         f"The file is not valid JSON: see line {line}, character {before + 1:,}. It may have been cut "
                         "short; save it again.",
                         f"ファイルがJSONとして正しくありません（{line}行目の{before + 1:,}文字目）。途中で切れている可能性があります。"
                         "保存し直してください。", line=line)


def _too_large(cursor):
    return cursor.beyond(f"goes on for more than {VALUE_CHARACTERS_MAX:,} characters, or a quote or bracket is missing",
                         f"が{VALUE_CHARACTERS_MAX:,}文字を超えているか、引用符や括弧が閉じられていません")


def _walk(cursor, key=None, depth=0):
    """``(key, value)`` for what the document is made of: elements of its lists, under the list's key,
    and members of objects that are too large to be decoded at once."""
    kind = cursor.peek()
    if kind == "[" and depth < _DEPTH_MAX:
        cursor.take("[")
        empty = cursor.peek() == "]"
        if empty:
            yield key, []
        while not empty:
            yield from _walk(cursor, key, depth + 1)
            if cursor.take(",]") == "]":
                return
        cursor.take("]")
        return
    value = cursor.whole(WHOLE_CHARACTERS_MAX if kind == "{" and depth < _DEPTH_MAX else VALUE_CHARACTERS_MAX)
    if value is not _UNFINISHED:
        yield key, value
        return
    if kind != "{" or depth >= _DEPTH_MAX:
        raise _too_large(cursor)
    cursor.take("{")
    while True:
        if cursor.peek() != '"':
            cursor.fail(cursor.at)
        name = cursor.whole(VALUE_CHARACTERS_MAX)
        if name is _UNFINISHED:
            raise _too_large(cursor)
        cursor.take(":")
        yield from _walk(cursor, name, depth + 1)
        if cursor.take(",}") == "}":
            return


def _said_by(error):
    """``(message, reason)`` of an error of the YouTube Data API, without its markup and any key."""
    if isinstance(error, str):
        return clean(error[:2_000])[:300], ""
    errors = error.get("errors")
    first = errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], dict) else {}
    reason = first.get("reason") or error.get("status") or ""
    message = without_markup(str(error.get("message") or error.get("code") or "?")[:2_000])
    return re.sub(r"\bkey=[\w-]+", "key=…", clean(message))[:300], clean(str(reason)[:60])


def _recorded(response):
    """What the API answered, if it did, in one entry of a browser's recording (HAR); else an empty list."""
    content = response.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    if isinstance(text, str) and '"youtube#' in text[:1_000]:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return []


def _rows_of(value):
    """The values of an object that is a list by another name: a column of a data frame by row number, or
    comments by their ids."""
    if isinstance(value, dict) and value and (all(key.isdigit() for key in value)
                                              or all(isinstance(one, dict) for one in value.values())):
        return list(value.values())
    return value


def _holds_comments(value):
    """Whether an object under an unknown key, or the first of a list, is an answer of the API, a recording,
    or a comment: words alone may be anybody's, so one with likes or an author."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return False
    if str(value.get("kind")).startswith("youtube#") or isinstance(value.get("entries"), list):
        return True
    roles = roles_of(list(value)[:KEYS_LOOKED_AT_MAX])
    return "text" in roles and bool(roles.keys() & {"likes", "author"})


def _comment(value, names, roles):
    """The comment in an object of these keys, one of which is its text."""
    member = {role: value[names[position]] for role, position in roles.items()}
    text = member["text"]
    if not isinstance(text, str):
        text = "" if text is None or isinstance(text, (bool, list, dict)) else str(text)
    if is_html(names[roles["text"]]):
        text = without_markup(text)
    return Comment(text, likes_of(member.get("likes")), time_of(member.get("at")), author_of(member.get("author")),
                   is_reply_of((member["parent"] or "") if "parent" in member else None, member.get("reply")))


class JsonComments:
    """The comments of a JSON document, of many after one another, or of JSON lines: iterate once. Sets what the
    file says about itself in ``reading``. Raises ``Unreadable``."""

    def __init__(self, reading, stream):
        self.reading, self.cursor = reading, _Cursor(stream)
        self.names, self.roles = None, {}
        self.keys = {}          # seen where no comment was: an ordered set
        self.ids = set()
        self.is_yt_dlp = self.has_list = False
        self.threads, self.answers = {}, {}     # how many replies each thread says to have; how many there are
        self.titles = set()
        self.kinds = {}         # of the API's answers: an ordered set
        self.error = None       # what the API answered instead
        self.extractor = ""
        self.found = self.entries = 0

    def __iter__(self):
        reading, documents = self.reading, 0
        reading.format = "json"
        while self.cursor.peek():
            documents += 1
            for key, value in _walk(self.cursor):
                self._count(1)
                for comment in self._take(key, value):
                    self.found += 1
                    yield comment
            if self.cursor.peek() == ",":       # lines of an array whose brackets were cut away
                self.cursor.at += 1
        if reading.format == "json" and documents > 1:
            reading.format = "json-lines"
        if self.threads:
            reading.replies_missing = sum(max(0, said - self.answers.get(thread, 0))
                                          for thread, said in self.threads.items())
        reading.title = self.titles.pop() if len(self.titles) == 1 else None     # of several videos, none
        # Other sites' extractors may know the exact time; YouTube's page says '3 weeks ago'.
        if reading.format == "yt-dlp":
            reading.coarse = reading.coarse or not self.extractor or self.extractor.lower().startswith("youtube")
        if not self.found and not reading.counts["empty"]:
            self._explain()

    def _count(self, entries):
        self.entries += entries
        if self.entries > ENTRIES_MAX:
            raise too_many("entries", "項目数", ENTRIES_MAX, limit_entries=ENTRIES_MAX)

    def _explain(self):
        if self.error:
            raise self._was_refused()
        if self.is_yt_dlp and not self.has_list:
            raise Unreadable(
                "COMMENTS_NOT_INCLUDED",
                "This is a yt-dlp file without comments. Run yt-dlp --write-comments --skip-download with "
                "the video's address, and upload the new .info.json.",
                "コメントが入っていないyt-dlpのファイルです。動画のアドレスで yt-dlp --write-comments "
                "--skip-download を実行し、新しい .info.json をアップロードしてください。")
        others = [kind for kind in self.kinds if not kind.startswith("comment")]
        if others:
            raise Unreadable(
                "COMMENTS_NOT_INCLUDED",
                f"This is an answer of the YouTube Data API, but not about comments: {others[0]}. Save the answer of "
                "commentThreads, and upload that.",
                f"YouTube Data APIの応答ですが、コメントのものではありません：{others[0]}。commentThreadsの応答を保存して、"
                "アップロードしてください。", kind=others[0])
        for key, what in _OTHERS.items():
            if key in self.keys:
                raise unsupported(what)
        if self.keys and not self.has_list:
            raise no_column(list(self.keys), json_keys=True)

    def _was_refused(self):
        said, reason = self.error
        because = f" ({reason})" if reason else ""
        return Unreadable(
            "NO_COMMENTS",
            f"The file holds no comments but an error: “{said}”{because}. Ask for the comments again, and upload "
            "what comes then.",
            f"ファイルの中身はコメントではなく、エラーです：「{said}」{because}。コメントを取得し直して、アップロードしてください。",
            **({"reason": reason} if reason else {}))

    def _take(self, key, value):
        if key is not None and plain(key) not in _LISTS:
            self._member(key, value)
            if _holds_comments(value):
                yield from self._comments(value, 1)
        elif key is not None and value is None:
            return
        elif value == []:
            self.has_list = True
        else:
            yield from self._comments(value, 0)

    def _member(self, key, value):
        """One member of an object that describes the comments."""
        if len(self.keys) < HEADERS_SHOWN_MAX:
            self.keys[key[:1_000]] = True
        if key in _YT_DLP:
            self.is_yt_dlp = True
        if key == "extractor" and isinstance(value, str):
            self.extractor = value
        elif key == "comment_count" and likes_of(value) is not None:
            self.reading.reported = (self.reading.reported or 0) + likes_of(value)
        elif key == "title" and isinstance(value, str) and len(self.titles) < 2:
            self.titles.add(clean(value[:1_000])[:200])
        elif key == "kind" and isinstance(value, str) and value.startswith("youtube#"):
            self.kinds[clean(value.removeprefix("youtube#")[:40])] = True
        elif key == "error" and value and isinstance(value, (dict, str)):
            self.error = _said_by(value)

    def _comments(self, value, depth):
        if isinstance(value, str):
            yield Comment(value)
        elif isinstance(value, list):
            self.has_list = self.has_list or not value
            self._count(len(value))
            for one in value:
                if depth < _DEPTH_MAX:
                    yield from self._comments(one, depth + 1)
        elif isinstance(value, dict):
            yield from self._object(value, depth)
        else:
            self.reading.counts["empty"] += value is None

    def _object(self, value, depth):
        if isinstance(value.get("snippet"), dict):
            yield from self._api(value)
            return
        if isinstance(value.get("request"), dict) and isinstance(value.get("response"), dict):
            yield from self._comments(_recorded(value["response"]), depth + 1)
            return
        inner = {key: plain(key) for key, one in value.items() if isinstance(one, (list, dict))}
        lists = [key for key, simple in inner.items() if simple in _LISTS]
        wrapped = bool(lists) and any(inner[key] in _WRAPPERS for key in lists)
        names = list(value)
        if names != self.names:     # most objects have the keys of the one before
            self.names, self.roles = names, roles_of(names)
        text = names[self.roles["text"]] if "text" in self.roles else None
        if text in inner:
            if not wrapped and text not in lists:
                lists.append(text)
            text = None
        elif text is not None and isinstance(value[text], (int, float)) and plain(text) == "comments":
            text = None     # how many there are
        if wrapped or text is None or (value.keys() & _YT_DLP):
            yield from self._wrapper(value, lists, depth)
            return
        comment = self._comment(value, text)
        # Of any program's objects the id may be the video's or the writer's.
        if not self._repeated(value, comment.text, comment.author):
            yield comment
            yield from self._below(value, depth) if inner else ()

    def _below(self, value, depth):
        for name in ("replies", "comments"):
            for reply in self._comments(value.get(name), depth + 1) if isinstance(value.get(name), list) else ():
                yield reply._replace(is_reply=True)

    def _wrapper(self, value, lists, depth):
        for key in value:
            self._member(key, value[key])
        for key in value if depth < _DEPTH_MAX else ():
            if key in lists:
                yield from self._comments(_rows_of(value[key]), depth + 1)
            elif _holds_comments(value[key]):
                yield from self._comments(value[key], depth + 1)

    def _comment(self, value, text_key):
        """Of an object whose keys have been looked at."""
        if "_time_text" in value or "parent" in value and "id" in value:
            self.reading.format = "yt-dlp"
        self.reading.coarse = self.reading.coarse or "time_parsed" in value     # youtube-comment-downloader's guess
        self.reading.column = self.reading.column or text_key[:60]
        return _comment(value, self.names, self.roles)

    def _repeated(self, value, *same):
        """Pages saved at different moments overlap: the same id, with the ``same`` beside it, counts once."""
        identifier = next((value[key] for key in _IDS if key in value), None)
        if not isinstance(identifier, str) or not identifier:
            return False
        key = hash((identifier, *same))
        if key in self.ids:
            self.reading.counts["repeated"] += 1
            return True
        self.ids.add(key)
        return False

    def _api(self, value):
        """A commentThread with its inline replies, or a comment, of the YouTube Data API."""
        snippet = value["snippet"]
        top = snippet.get("topLevelComment")
        if not isinstance(top, dict):
            yield from self._api_comment(value, snippet.get("parentId"))
            return
        replies = value.get("replies")
        replies = replies.get("comments") if isinstance(replies, dict) else None
        replies = [one for one in replies or () if isinstance(one, dict)] if isinstance(replies, list) else []
        thread = str(top.get("id", len(self.threads)))
        self.threads[thread] = likes_of(snippet.get("totalReplyCount")) or 0
        yield from self._api_comment(top, None)
        for reply in replies:
            yield from self._api_comment(reply, thread)

    def _api_comment(self, value, parent):
        snippet = value.get("snippet")
        names = list(snippet) if isinstance(snippet, dict) else []
        roles = roles_of(names)
        if "text" not in roles:
            self._member("kind", value.get("kind"))
            for key in names:
                self._member(key, None)
            return
        if self._repeated(value):
            return
        self.reading.format = "youtube-api"
        if parent:
            self.answers[str(parent)] = self.answers.get(str(parent), 0) + 1
        yield _comment(snippet, names, roles)._replace(is_reply=bool(parent))
