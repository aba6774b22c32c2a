"""Read the comments out of whatever file somebody has: piece by piece, so that the largest upload
never stands in memory as a whole (one emoji makes Python keep four bytes for each character).

Formats: yt-dlp's ``.info.json``, saved pages of the YouTube Data API, JSON, JSON lines, CSV, TSV and
plain text, told apart by their content; the file's name only decides where the content does not.
"""
import codecs
import csv
import html
import io
import json
import os
import re
import unicodedata
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

TEXT_CHARACTERS_MAX = 10_000   # YouTube's own limit for a comment
HEADERS_SHOWN_MAX = 20
CHUNK_BYTES = 1 << 20
CHUNK_CHARACTERS = 1 << 18
WHOLE_CHARACTERS_MAX = 1 << 20      # a JSON object up to this size is decoded at once
VALUE_CHARACTERS_MAX = 1 << 22      # no single JSON value may be larger
LINE_CHARACTERS_MAX = 1 << 17       # what follows in the same line is passed over
FIELD_CHARACTERS_MAX = 1 << 18      # a longer CSV field is an opening quote that nobody closed
NAME_CHARACTERS_MAX = 60            # no known column or key has a longer name
COLUMNS_MAX = 1_000
LINES_MAX = 1_000_000               # empty ones too: twenty million of them fit into an upload
ENTRIES_MAX = 300_000               # of a JSON document, likewise
CUT_CHARACTERS_MAX = 64             # a token that the end of a piece cut apart is shorter
SAMPLE_CHARACTERS = 20_000
SAMPLE_ROWS = 30
NO_DELIMITER = "\x1f"
FAR = 1 << 30       # the position of a column that is not there


class Comment(NamedTuple):
    """``at``: seconds since 1970 in UTC; ``author``: whatever identifies the writer, not to be kept.
    All but ``text`` may be None where the file does not say."""

    text: str
    likes: int | None = None
    at: float | None = None
    author: str | None = None
    is_reply: bool | None = None


class Unreadable(Exception):
    """Why the file cannot be used: ``code``, ``message`` (a dict by language), ``facts``."""

    def __init__(self, code, en, ja, **facts):
        super().__init__(code)
        self.code, self.message, self.facts = code, {"en": en, "ja": ja}, facts


class Reading:
    """Iterate once to get the ``Comment``s, in the file's order; then the attributes are final.

    Raises ``Unreadable``, at the latest at the end. ``coarse``: the times are yt-dlp's estimates.
    ``reported``: how many comments there are by the file's own word, or None. ``replies_missing``:
    known only for API pages. ``counts``: of empty, shortened, repeated entries.
    """

    def __init__(self, path, name, max_rows):
        self.path, self.name, self.max_rows = path, name or "", max_rows
        self.size = os.path.getsize(path)
        self.format = self.encoding = self.column = self.title = self.reported = None
        self.replies_missing = None
        self.repaired = self.coarse = False
        self.rows = 0
        self.counts = {"empty": 0, "shortened": 0, "repeated": 0}
        self._stream = None

    def __iter__(self):
        head = _head(self.path)
        _refuse_what_is_no_text(head, self.name)
        self.encoding, errors = _encoding(self.path, head)
        self.repaired = errors != "strict"
        extension = os.path.splitext(self.name)[1].lower()
        with open(self.path, encoding=self.encoding, errors=errors, newline="") as stream:
            self._stream = stream
            start = _start(stream).lstrip("\ufeff\0")
            if not start.strip():
                raise _empty()
            csv.field_size_limit(FIELD_CHARACTERS_MAX)
            try:
                for comment in self._source(extension, start, goes_on=bool(stream.read(1))):
                    if comment := self._accept(comment):
                        yield comment
            except csv.Error:
                raise _unsupported({"en": "a damaged table", "ja": "壊れた表"}) from None
        if not self.rows:
            raise _no_comments()

    @property
    def share_done(self):
        """How much of the file has been read, 0 to 1."""
        stream = self._stream
        if stream is None or stream.closed or not self.size:
            return 1.0 if stream is not None else 0.0
        return min(1.0, stream.buffer.tell() / self.size)

    def _source(self, extension, start, goes_on):
        self._stream.seek(0)
        if re.match(r"\s*WEBVTT", start) or extension in (".srt", ".vtt"):
            raise _unsupported({"en": "a subtitle file", "ja": "字幕ファイル"})
        if re.match(r"\s*<(!doctype|html|\?xml)", start, re.I):
            raise _unsupported({"en": "a web page or XML file", "ja": "WebページまたはXMLファイル"})
        if extension in (".json", ".jsonl", ".ndjson") or _looks_like_json(start):
            return _JsonComments(self, self._stream)
        if extension not in (".csv", ".tsv") and not _table_in_text(start):
            self.format = "text"
            return (Comment(line) for line in _lines(self._stream))
        self.format = "csv"
        return _table(self, self._stream, extension, _whole_lines(start) if goes_on else start)

    def _accept(self, comment):
        text = clean(comment.text)
        if not text:
            self.counts["empty"] += self.format != "text"      # blank lines between comments are no entries
            return None
        if len(text) > TEXT_CHARACTERS_MAX:
            self.counts["shortened"] += 1
            text = text[:TEXT_CHARACTERS_MAX]
        self.rows += 1
        if self.rows > self.max_rows:
            raise Unreadable(
                "FILE_TOO_LARGE",
                f"The file has more than {self.max_rows:,} comments, the most this site reads at once. "
                "Split it, or remove some.",
                f"ファイルのコメントが、一度に読み込める上限の{self.max_rows:,}件を超えています。"
                "分割するか、減らしてください。", limit_rows=self.max_rows)
        return comment._replace(text=text)


# --- text ---------------------------------------------------------------------------------------

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


# --- names of columns and keys, values ------------------------------------------------------------

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


def _plain(name):
    """The name to compare, "" for one too long to be known: normalising takes a time that grows with
    the square of a run of combining marks."""
    if len(name) > NAME_CHARACTERS_MAX:
        return ""
    if name.isascii():      # the same, but much faster: a file may have a million different keys
        return name.translate(_JOINTS).lower()
    return re.sub(r"[\s_\-]+", "", unicodedata.normalize("NFKC", name).casefold()).strip("\ufeff")


def _role(name):
    """``(role, rank)`` of a column or key, or None; names repeat by the ten thousand, so remembered."""
    if len(name) > NAME_CHARACTERS_MAX:
        return None
    try:
        return _known_keys[name]
    except KeyError:
        role = _ROLE.get(_plain(name))
        if len(_known_keys) < 5_000:
            _known_keys[name] = role
        return role


def _roles(names):
    """For each role the best of these names' positions."""
    best = {}
    for position, name in enumerate(names):
        found = _role(name)
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


def _reply_of(value):
    if value is None or isinstance(value, bool):
        return bool(value)
    return str(value).strip().casefold() not in ("", "root", "0", "false", "no", "none", "null", "nan", "いいえ")


def _author_of(value):
    if isinstance(value, dict):
        value = value.get("value") or value.get("id") or value.get("name")
    return str(value)[:200] if isinstance(value, (str, int)) and value != "" else None


# --- what the bytes are ---------------------------------------------------------------------------

def _empty():
    return Unreadable("FILE_EMPTY", "The file is empty. Choose one that holds comments.",
                      "ファイルが空です。コメントの入ったファイルを選んでください。")


def _no_comments():
    return Unreadable("NO_COMMENTS", "The file holds no comments: every entry is empty.",
                      "ファイルにコメントがありません（すべて空です）。")


def _no_column(headers, json_keys=False):
    headers = [clean(header[:1_000])[:60] for header in headers[:HEADERS_SHOWN_MAX]]
    seen = ", ".join(headers)
    where_en, where_ja = ("key", "キー") if json_keys else ("column", "列")
    return Unreadable("NO_COMMENT_COLUMN",
                      f"No {where_en} with comments was found. Name it 'text' or 'comment'. Seen: {seen}.",
                      f"コメントの{where_ja}が見つかりません。「text」または「コメント」という名前にしてください。"
                      f"見つかった{where_ja}：{seen}。", headers=headers)


def _too_many(what_en, what_ja, limit, **facts):
    return Unreadable("FILE_TOO_LARGE",
                      f"The file has more than {limit:,} {what_en}, the most this site reads at once, counting "
                      "empty ones. Remove the empty ones, or split the file.",
                      f"ファイルの{what_ja}が、一度に読み込める上限の{limit:,}を超えています（空のものも含みます）。"
                      "空のものを削除するか、ファイルを分割してください。", **facts)


def _too_wide():
    return Unreadable("UNSUPPORTED_FORMAT",
                      f"The table has more than {COLUMNS_MAX:,} columns, the most this site reads. Keep the column "
                      "with the comments and those about likes, dates and authors, and upload that.",
                      f"表の列が、読み込める上限の{COLUMNS_MAX:,}列を超えています。コメントの列と、高評価数・日時・"
                      "投稿者の列だけを残して、アップロードしてください。", limit_columns=COLUMNS_MAX)


def _unsupported(what, advice=None):
    advice = advice or {"en": "Upload JSON, CSV, TSV or plain text with one comment a line.",
                        "ja": "JSON・CSV・TSV、または1行に1コメントのテキストをアップロードしてください。"}
    return Unreadable("UNSUPPORTED_FORMAT", f"This is {what['en']}, which cannot be read. {advice['en']}",
                      f"これは{what['ja']}で、読み込めません。{advice['ja']}", format=what["en"])


_TO_CSV = {"en": "Open it, choose 'Save as' or 'Export', then 'CSV UTF-8', and upload that file.",
           "ja": "開いて「名前を付けて保存」または「書き出し」で「CSV UTF-8」を選び、そのファイルをアップロードしてください。"}
_EXTRACT = {"en": "Extract it first, and upload the file inside.",
            "ja": "先に展開し、中のファイルをアップロードしてください。"}
_SHEET = {".xlsx": ("an Excel workbook", "Excelブック"), ".xlsm": ("an Excel workbook", "Excelブック"),
          ".xls": ("an Excel workbook", "Excelブック"), ".numbers": ("a Numbers document", "Numbersの書類"),
          ".ods": ("a spreadsheet", "表計算ファイル")}
_MAGIC = (
    (b"%PDF", "a PDF", "PDF"), (b"\x89PNG", "an image", "画像"), (b"\xff\xd8\xff", "an image", "画像"),
    (b"GIF8", "an image", "画像"), (b"RIFF", "an image, sound or video", "画像・音声・動画"),
    (b"BM\x00", "an image", "画像"), (b"\x1aE\xdf\xa3", "a video", "動画"), (b"OggS", "a sound or video", "音声・動画"),
    (b"ID3", "a sound", "音声"), (b"SQLite format 3\0", "a database", "データベース"),
    (b"{\\rtf", "a rich text document", "リッチテキスト文書"), (b"\x7fELF", "a program", "プログラム"),
    (b"MZ\x90", "a program", "プログラム"), (b"PAR1", "a Parquet file", "Parquetファイル"),
    (b"bplist", "a property list", "プロパティリスト"),
)
_PACKED = (b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


def _head(path):
    with open(path, "rb") as file:
        return file.read(1 << 16)


def _refuse_what_is_no_text(head, name):
    if not head.strip(b"\0 \t\r\n"):
        # Zeros for a start may be anything; all zeros, or nothing, is empty.
        if len(head) < 1 << 16:
            raise _empty()
        if b"\0" in head:
            raise _unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    extension = os.path.splitext(name)[1].lower()
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")):
        if b"xl/" in head[:4096] and extension not in _SHEET:
            extension = ".xlsx"
        if extension in _SHEET:
            en, ja = _SHEET[extension]
            raise _unsupported({"en": en, "ja": ja}, _TO_CSV)
        if head.startswith(b"PK"):
            raise _unsupported({"en": "a zip archive", "ja": "ZIPアーカイブ"}, _EXTRACT)
        raise _unsupported({"en": "an Office document", "ja": "Office文書"}, _TO_CSV)
    if head.startswith(_PACKED):
        raise _unsupported({"en": "a compressed file", "ja": "圧縮ファイル"}, _EXTRACT)
    if head[4:8] == b"ftyp":
        raise _unsupported({"en": "a video or image", "ja": "動画または画像"})
    for magic, en, ja in _MAGIC:
        if head.startswith(magic):
            raise _unsupported({"en": en, "ja": ja})


def _encoding(path, head):
    """``(encoding, errors)``. A byte order mark decides; then zeros in every second byte; then the
    first of UTF-8, the Japanese code pages and cp1252 that decodes the whole file and looks right."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"),
                       (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF16_LE, "utf-16"),
                       (codecs.BOM_UTF16_BE, "utf-16")):
        if head.startswith(mark):
            return name, "strict" if _decodes(path, name)[0] else "replace"
    valid, sample = _decodes(path, "utf-8")
    if name := _utf16(head, valid):
        return name, "strict" if _decodes(path, name)[0] else "replace"
    if valid:
        return "utf-8", "strict"
    legacy = [(_japanese(text), name) for name in ("cp932", "euc_jp")
              for ok, text in [_decodes(path, name)] if ok]
    likely, name = max(legacy, default=(0, ""))
    if likely >= 0.2:
        return name, "strict"
    _, sample = _decodes(path, "utf-8", "replace")
    if len(sample.replace(" ", "")) >= 10 * sample.count("\ufffd"):
        return "utf-8", "replace"       # a few broken characters in a good file, or one cut in two
    ok, sample = _decodes(path, "cp1252")
    if ok and _western(head, sample):
        return "cp1252", "strict"
    if head.count(b"\0") or len(re.findall(rb"[\x01-\x08\x0e-\x1f]", head)) > len(head) / 100:
        raise _unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    raise Unreadable("BAD_ENCODING",
                     "The characters of this file cannot be read. Save it again as UTF-8 (in Excel: "
                     "'CSV UTF-8') and upload that.",
                     "ファイルの文字コードを読み取れません。UTF-8（Excelでは「CSV UTF-8」）で保存し直して、"
                     "アップロードしてください。")


def _decodes(path, encoding, errors="strict"):
    """Whether the whole file decodes, and its first non-ASCII characters, with a space for what is
    between."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    sample = []
    taken = 0
    with open(path, "rb") as file:
        try:
            while chunk := file.read(CHUNK_BYTES):
                text = decoder.decode(chunk)
                if taken < SAMPLE_CHARACTERS and not text.isascii():
                    sample.append(re.sub(r"[\x00-\x7f]+", " ", text)[:SAMPLE_CHARACTERS])
                    taken += len(sample[-1])
            decoder.decode(b"", True)
        except UnicodeError:
            return False, ""
    return True, "".join(sample)


def _utf16(head, is_utf8):
    """UTF-16 without its mark: the byte order in which kana and ASCII appear. Zeros that strayed into
    UTF-8 must not count: there every fifth byte has to be one."""
    if is_utf8 and head.count(0) < len(head) / 5:
        return None

    def usual(order):
        text = head[:len(head) // 2 * 2].decode(order, "replace")
        return len(re.findall(r"[\t\n\r -~\u3000-\u30ff]", text)) / max(1, len(text))
    share, order = max((usual(order), order) for order in ("utf-16-be", "utf-16-le"))
    return order if share > 0.2 else None


def _japanese(sample):
    """The share of kana and full-width signs. Half-width kana in a row count for less: EUC-JP read as
    cp932 gives nothing else, and Latin text gives single ones."""
    full = len(re.findall(r"[\u3000-\u30ff\uff01-\uff60]", sample))
    half = sum(map(len, re.findall(r"[\uff61-\uff9f]{3,}", sample)))
    return (full + 0.3 * half) / (len(sample) - sample.count(" ")) if sample.strip() else 0


def _western(head, sample):
    letters = len(re.findall(r"[À-ÖØ-öø-ÿŠšŽžŒœŸ“”‘’–—…€«»¡¿°ª\xa0º ]", sample))
    high = len(re.findall(rb"[\x80-\xff]", head))
    return letters >= 0.9 * len(sample) and high <= 0.3 * len(head)


def _start(stream):
    """The first characters; more where the file begins with nothing but space."""
    while chunk := stream.read(CHUNK_CHARACTERS):
        if chunk.strip("\ufeff\0 \t\r\n\u3000"):
            return chunk
    return ""


# --- tables ---------------------------------------------------------------------------------------

def _table_in_text(start):
    """A text file is a table only if its first line has two columns or more and names the comments."""
    line = next(_lines(io.StringIO(start.lstrip(), newline="")))
    return any(len(row) > 1 and "text" in _roles(row)
               for delimiter in ",;\t" for row in csv.reader([line], delimiter=delimiter))


def _whole_lines(start):
    """Without the last line, which goes on in the next piece of the file, unless it is the only one."""
    whole = start[:max(start.rfind("\n"), start.rfind("\r")) + 1]
    return whole if whole.strip() else start


def _lines(stream):
    """The lines, none longer than the limit: a file may be a single one of 20 MB."""
    goes_on, count = False, 0
    while line := stream.readline(LINE_CHARACTERS_MAX):
        if not goes_on:
            count += 1
            if count > LINES_MAX:
                raise _too_many("lines", "行数", LINES_MAX, limit_lines=LINES_MAX)
            yield line.replace("\0", "") if "\0" in line else line
        goes_on = line[-1] not in "\r\n"


def _is_blank(row):
    return len(row) <= COLUMNS_MAX and not any(_SOMETHING.search(cell) for cell in row)


def _sample_rows(start, delimiter, quoting=csv.QUOTE_MINIMAL):
    """The first rows that are not blank, exactly as ``_rows`` will see them."""
    rows = []
    try:
        for row in csv.reader(_lines(io.StringIO(start, newline="")), delimiter=delimiter, quoting=quoting):
            if not _is_blank(row):
                rows.append(row)
            if len(rows) == SAMPLE_ROWS:
                break
    except csv.Error:
        pass
    return rows


def _delimiter(start, extension):
    """The separator whose header names the comments; else the one that gives every row the same
    number of columns, two or more; else none: commas are then a part of the comments, unless there are
    so many that the file must be a table after all."""
    usual = "\t" if extension == ".tsv" else ","
    best, widest = (0, 0, NO_DELIMITER), 0
    for delimiter in dict.fromkeys((usual, ",", ";", "\t")):
        rows = _sample_rows(start, delimiter)
        if not rows:
            continue
        width = len(rows[0])
        widest = max(widest, width)
        named = width > 1 and "text" in _roles(rows[0])
        even = width > 1 and sum(len(row) == width for row in rows) >= 0.9 * len(rows)
        best = max(best, (2 * named + even, width if named or even else 0, delimiter), key=lambda one: one[:2])
    if (best[1] or widest) > COLUMNS_MAX:
        raise _too_wide()
    return best[2]


def _table(reading, stream, extension, start):
    skip = 0
    if found := re.match(r"sep=([,;\t|])\r?\n", start, re.I):       # Excel's own hint
        delimiter, start, skip = found[1], start[found.end():], 1
    else:
        delimiter = _delimiter(start, extension)
    quoting = csv.QUOTE_MINIMAL if _quotes_close(stream, delimiter) else csv.QUOTE_NONE
    columns, has_header = _columns(_sample_rows(start, delimiter, quoting))
    stream.seek(0)
    rows = csv.reader(_lines(stream), delimiter=delimiter, quoting=quoting)
    for _ in range(skip):
        next(rows, None)
    return _rows(reading, rows, columns, has_header, delimiter)


def _quotes_close(stream, delimiter):
    """False if a quote is opened and never closed: it would swallow the rest of the file."""
    for strict in (True, False):        # only the strict reader minds a quote still open at the end
        stream.seek(0)
        try:
            for _ in csv.reader(_lines(stream), delimiter=delimiter, strict=strict):
                pass
            return True
        except csv.Error as error:
            if "unexpected end" in str(error) or "field larger" in str(error):
                return False
    return True


def _columns(rows):
    """``(role → position, whether the first row is a header)``. Raises ``Unreadable``."""
    if not rows:
        raise _no_comments()
    header = rows[0]
    if len(header) > COLUMNS_MAX:
        raise _too_wide()
    columns = _roles(header)
    if "text" in columns:
        return columns, True
    if all(len(row) == 1 for row in rows):
        return {"text": 0}, False
    if _is_header(rows):
        raise _no_column(header)
    width = min(COLUMNS_MAX, max(len(row) for row in rows))
    letters = [sum(len(re.findall(r"[^\W\d_]", row[column])) for row in rows if column < len(row))
               for column in range(width)]
    if max(letters) < 2 * len(rows):
        raise _no_column(header)
    return {"text": letters.index(max(letters))}, False


def _is_header(rows):
    """Short names above numbers, or above something clearly longer than they are."""
    header, below = rows[0], rows[1:]
    if any(not cell.strip() or len(cell) > 40 or _is_number(cell) for cell in header):
        return False
    one_word = all(len(name) <= 25 and len(name.split()) == 1 for name in header)
    for position, name in enumerate(header):
        cells = [row[position] for row in below if position < len(row) and row[position].strip()]
        if cells and all(_is_number(cell) for cell in cells):
            return True
        if one_word and cells and sum(map(len, cells)) / len(cells) > 2.5 * len(name):
            return True
    return not below and all(len(cell.split()) == 1 for cell in header)


def _is_number(cell):
    return bool(re.fullmatch(r"[\s\d.,:/+\-%TZ]+", cell) and re.search(r"\d", cell))


def _rows(reading, rows, columns, has_header, delimiter):
    at = {role: columns.get(role, FAR) for role in ("text", "likes", "at", "author", "reply")}
    text, is_markup, width = at["text"], False, None

    def cell(role):
        return row[at[role]] if at[role] < len(row) else None
    for row in rows:
        if width is None and not _is_blank(row):
            width = len(row)
            if has_header and text < width:
                reading.column = clean(row[text])[:60]
                is_markup = _plain(reading.column) == "textdisplay"
                continue
        if len(row) <= text:
            reading.counts["empty"] += bool(row)
            continue
        # A last column that nobody quoted: its commas belong to the comment.
        words = delimiter.join(row[text:]) if text + 1 == width < len(row) else row[text]
        yield Comment(without_markup(words) if is_markup else words, likes_of(cell("likes")), time_of(cell("at")),
                      _author_of(cell("author")), None if at["reply"] == FAR else _reply_of(cell("reply")))


# --- JSON -----------------------------------------------------------------------------------------

_UNFINISHED = object()
_SOMETHING = re.compile(r"[^\s\ufeff\0\x1e]")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_DEPTH_MAX = 6
# Keys that hold the list of comments, and keys that only wrap it.
_LISTS = {"comments", "items", "data", "results", "threads", "pages", "entries", "response", "コメント"}
_WRAPPERS = _LISTS - {"comments", "コメント"}
_YT_DLP = {"extractor", "extractor_key", "webpage_url", "formats", "automatic_captions", "_version"}


def _looks_like_json(start):
    """'[Verse 1] what a song' is a comment, not JSON."""
    return bool(re.match(r'\s*(\[\s*([{\["\]]|null|-?\d+\s*[,\]])|\{\s*["}])', start))


class _Cursor:
    """JSON text that is read as it is needed. ``peek`` and ``whole`` move over white space."""

    def __init__(self, stream):
        self.stream, self.text, self.at, self.line, self.ended = stream, "", 0, 1, False

    def more(self):
        rest = len(self.text) - self.at
        new = self.stream.read(max(CHUNK_CHARACTERS, rest))
        self.line += self.text.count("\n", 0, self.at)
        self.text = self.text[self.at:] + new
        self.at = 0
        self.ended = not new

    def peek(self):
        """The next character that is not white space, or "" at the end."""
        while True:
            found = _SOMETHING.search(self.text, self.at)
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
        line = self.line + self.text.count("\n", 0, self.at)
        return Unreadable("UNSUPPORTED_FORMAT",
                          f"This JSON cannot be read: the value that begins in line {line} {en}. "
                          "Upload the list of comments alone.",
                          f"このJSONは読み込めません。{line}行目から始まる値{ja}。"
                          "コメントの一覧だけをアップロードしてください。", line=line)

    def fail(self, at):
        line = self.line + self.text.count("\n", 0, at)
        raise Unreadable("INVALID_JSON",
                         f"The file is not valid JSON: see line {line}. It may have been cut short; save it again.",
                         f"ファイルがJSONとして正しくありません（{line}行目）。途中で切れている可能性があります。"
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


class _JsonComments:
    """The comments of a JSON document, of many after one another, or of JSON lines."""

    def __init__(self, reading, stream):
        self.reading, self.cursor = reading, _Cursor(stream)
        self.keys = {}          # seen where no comment was: an ordered set
        self.ids = set()
        self.is_yt_dlp = self.has_list = False
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
        # Other sites' extractors may know the exact time; YouTube's page says '3 weeks ago'.
        if reading.format == "yt-dlp":
            reading.coarse = not self.extractor or self.extractor.lower().startswith("youtube")
        if not self.found and not reading.counts["empty"]:
            self._explain()

    def _count(self, entries):
        self.entries += entries
        if self.entries > ENTRIES_MAX:
            raise _too_many("entries", "項目数", ENTRIES_MAX, limit_entries=ENTRIES_MAX)

    def _explain(self):
        if self.is_yt_dlp and not self.has_list:
            raise Unreadable(
                "COMMENTS_NOT_INCLUDED",
                "This is a yt-dlp file without comments. Run yt-dlp --write-comments --skip-download with "
                "the video's address, and upload the new .info.json.",
                "コメントが入っていないyt-dlpのファイルです。動画のアドレスで yt-dlp --write-comments "
                "--skip-download を実行し、新しい .info.json をアップロードしてください。")
        if self.keys and not self.has_list:
            raise _no_column(list(self.keys), json_keys=True)

    def _take(self, key, value):
        if key is not None and _plain(key) not in _LISTS:
            self._member(key, value)
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
        elif key == "comment_count" and isinstance(value, int):
            self.reading.reported = likes_of(value)
        elif key == "title" and isinstance(value, str):
            self.reading.title = clean(value)[:200]

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
        inner = {key: _plain(key) for key, one in value.items() if isinstance(one, (list, dict))}
        lists = [key for key, plain in inner.items() if plain in _LISTS]
        wrapped = any(inner[key] in _WRAPPERS for key in lists)
        names = list(value)
        roles = _roles(names)
        text = names[roles["text"]] if "text" in roles else None
        if text is not None and isinstance(value[text], (list, dict)):
            if not wrapped and text not in lists:
                lists.append(text)
            text = None
        if wrapped or text is None or (value.keys() & _YT_DLP):
            yield from self._wrapper(value, lists, depth)
            return
        if self._repeated(value):
            return
        member = {role: value[names[position]] for role, position in roles.items()}
        if {"parent", "id"} <= value.keys() or "_time_text" in value:
            self.reading.format = "yt-dlp"
        self.reading.column = self.reading.column or text[:60]
        yield self._comment(text, member)
        for name in ("replies", "comments"):
            for reply in self._comments(value.get(name), depth + 1) if isinstance(value.get(name), list) else ():
                yield reply._replace(is_reply=True)

    def _wrapper(self, value, lists, depth):
        for key in value:
            self._member(key, value[key])
        for key in lists if depth < _DEPTH_MAX else ():
            yield from self._comments(value[key], depth + 1)

    def _comment(self, text_key, member):
        text = member["text"]
        if not isinstance(text, str):
            text = "" if text is None or isinstance(text, (bool, list, dict)) else str(text)
        if _plain(text_key) == "textdisplay":
            text = without_markup(text)
        return Comment(text, likes_of(member.get("likes")), time_of(member.get("at")),
                       _author_of(member.get("author")),
                       _reply_of(member["reply"]) if "reply" in member else None)

    def _repeated(self, value):
        """Pages saved at different moments overlap: the same id counts once."""
        identifier = value.get("id")
        if not isinstance(identifier, str) or not identifier:
            return False
        if identifier in self.ids:
            self.reading.counts["repeated"] += 1
            return True
        self.ids.add(identifier)
        return False

    def _api(self, value):
        """A commentThread with its inline replies, or a comment, of the YouTube Data API."""
        snippet = value["snippet"]
        top = snippet.get("topLevelComment")
        if not isinstance(top, dict):
            yield from self._api_comment(value, bool(snippet.get("parentId")))
            return
        replies = value.get("replies")
        replies = replies.get("comments") if isinstance(replies, dict) else None
        replies = [one for one in replies or () if isinstance(one, dict)] if isinstance(replies, list) else []
        # The same thread on two pages must not count its missing replies twice.
        first = len(self.ids)
        yield from self._api_comment(top, False)
        if len(self.ids) > first or "id" not in top:
            missing = max(0, (likes_of(snippet.get("totalReplyCount")) or 0) - len(replies))
            self.reading.replies_missing = (self.reading.replies_missing or 0) + missing
        for reply in replies:
            yield from self._api_comment(reply, True)

    def _api_comment(self, value, is_reply):
        snippet = value.get("snippet")
        names = list(snippet) if isinstance(snippet, dict) else []
        roles = _roles(names)
        if "text" not in roles:
            for key in names:
                self._member(key, None)
            return
        if self._repeated(value):
            return
        self.reading.format = "youtube-api"
        member = {role: snippet[names[position]] for role, position in roles.items()}
        yield self._comment(names[roles["text"]], member)._replace(is_reply=is_reply)
