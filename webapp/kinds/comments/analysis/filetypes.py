"""Files that hold no comments as text: each is named, with what to do instead."""
import os
import re
import struct

from .fields import clean
from .refusals import Unreadable, empty, unsupported

HEAD_BYTES = 1 << 16
ADDRESS_CHARACTERS_MAX = 200
_TO_CSV = {"en": "Open it, choose 'Save as' or 'Export', then 'CSV UTF-8', and upload that file.",
           "ja": "開いて「名前を付けて保存」または「書き出し」で「CSV UTF-8」を選び、そのファイルをアップロードしてください。"}
_TO_TEXT = {"en": "Open it, copy the comments, save them as plain text with one comment a line, and upload that file.",
            "ja": "開いてコメントをコピーし、1行に1コメントのテキストファイルとして保存して、アップロードしてください。"}
_UNLOCK = {"en": "Open it with its password, choose 'Save as', then 'CSV UTF-8', and upload that file.",
           "ja": "パスワードを入力して開き、「名前を付けて保存」で「CSV UTF-8」を選び、そのファイルをアップロードしてください。"}
_EXTRACT = {"en": "Extract it first, and upload the file inside.",
            "ja": "先に展開し、中のファイルをアップロードしてください。"}
_DOWNLOAD = {"en": "The contents are still in the cloud. Open it there, download it as CSV, and upload that file.",
             "ja": "中身はまだクラウドにあります。そこで開いてCSV形式でダウンロードし、アップロードしてください。"}
_EXCEL = ("an Excel workbook", "Excelブック", _TO_CSV)
_PROTECTED = ("a file protected with a password", "パスワードで保護されたファイル", _UNLOCK)
_WORD = ("a Word document", "Word文書", _TO_TEXT)
_SLIDES = ("a presentation", "プレゼンテーション", _TO_TEXT)
_SPREADSHEET = ("a spreadsheet", "表計算ファイル", _TO_CSV)
_DOCUMENT = ("a text document", "文書ファイル", _TO_TEXT)
_COMPRESSED = ("a compressed file", "圧縮ファイル", _EXTRACT)
_PLACEHOLDER = ("only a link to a file in a cloud", "クラウド上のファイルへのリンク", _DOWNLOAD)
_SUBTITLES = ("a subtitle file", "字幕ファイル", None)
_PAGE = ("a web page or XML file", "WebページまたはXMLファイル", None)
_BINARY = ("a binary file", "バイナリファイル", None)
_IMAGE, _SOUND, _VIDEO = ("an image", "画像", None), ("a sound", "音声", None), ("a video", "動画", None)
_PROGRAM = ("a program", "プログラム", None)
# Longer than the four letters many formats begin with: 'RIFF of the year!' is a comment.
_MAGIC = [(re.compile(begins, re.S), what) for begins, what in (
    (rb"%PDF-", ("a PDF", "PDF", _TO_TEXT)),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a|II\*\0|MM\0\*|\0\0\x01\0|BM.{4}\0{4}|RIFF.{4}WEBP", _IMAGE),
    (rb"\0\0..ftyp", ("a video or image", "動画または画像", None)), (rb"\x1aE\xdf\xa3|RIFF.{4}AVI ", _VIDEO),
    (rb"OggS\0", ("a sound or video", "音声・動画", None)), (rb"ID3[\x02-\x04]|fLaC\0|RIFF.{4}WAVE", _SOUND),
    (rb"SQLite format 3\0", ("a database", "データベース", None)), (rb"PAR1\x15", ("a Parquet file", "Parquetファイル", None)),
    (rb"\{\\rtf", ("a rich text document", "リッチテキスト文書", _TO_TEXT)), (rb"\x7fELF|MZ\x90", _PROGRAM),
    (rb"L\0\0\0\x01\x14\x02\0", ("a shortcut", "ショートカット", None)),
    (rb"\x1f\x8b|7z\xbc\xaf|Rar!\x1a|BZh[1-9]1AY|\xfd7zXZ|\x28\xb5\x2f\xfd", _COMPRESSED),
)]
# What a zip archive is by what is in it, at or near its beginning or in its directory.
_IN_ZIP = (
    (b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet", _SPREADSHEET),
    (b"mimetypeapplication/vnd.oasis.opendocument.presentation", _SLIDES),
    (b"mimetypeapplication/vnd.oasis.opendocument", _DOCUMENT), (b"mimetypeapplication/epub", _DOCUMENT),
)
_FOLDERS = (("xl/", _EXCEL), ("word/", _WORD), ("ppt/", _SLIDES))
_NUMBERS = ("a Numbers document", "Numbersの書類", _TO_CSV)
_BY_NAME = {".xlsx": _EXCEL, ".xlsm": _EXCEL, ".ods": _SPREADSHEET, ".numbers": _NUMBERS, ".docx": _WORD, ".pptx": _SLIDES}
_IWORK = {".pages": _DOCUMENT, ".key": _SLIDES}
_READABLE = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")


def head_of(path):
    with open(path, "rb") as file:
        return file.read(HEAD_BYTES)


def extension_of(name):
    return os.path.splitext(name)[1].lower()


def _refuse(what, advice=None):
    en, ja, usual = what
    raise unsupported({"en": en, "ja": ja}, advice or usual)


# --- what the first bytes tell ------------------------------------------------------------------

def refuse_what_is_no_text(path, head, name):
    """Raises ``Unreadable`` for an empty file and for one whose first bytes tell what it is."""
    if not head.strip(b"\0 \t\r\n"):
        # Zeros for a start may be anything; all zeros, or nothing, is empty.
        if len(head) < HEAD_BYTES:
            raise empty()
        if b"\0" in head:
            _refuse(_BINARY)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        _refuse_zip(path, head, extension_of(name))
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        _refuse(_ole(path, head, extension_of(name)))
    if head.startswith(b"bplist"):
        _refuse_property_list(head)
    for begins, what in _MAGIC:
        if begins.match(head):
            _refuse(what)


def _refuse_zip(path, head, extension):
    for begins, what in _IN_ZIP:
        if begins in head[:200]:
            _refuse(what)
    names, locked = _names_in_zip(path)
    for folder, what in _FOLDERS:
        if any(name.startswith(folder) for name in names) or not names and folder.encode() in head[:4096]:
            _refuse(what)
    if b"Index/Document.iwa" in head or any(name in ("Index.zip", "Index/Document.iwa") for name in names):
        _refuse(_IWORK.get(extension, _NUMBERS))
    if not names and extension in _BY_NAME:  # cut short or damaged: all there is to go by
        _refuse(_BY_NAME[extension])
    files = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX/")]
    readable = [name for name in files if extension_of(name) in _READABLE]
    advice = None
    if len(readable) == 1:
        inside = clean(os.path.basename(readable[0]))[:100]
        advice = {"en": f"Extract it first, and upload the file ‘{inside}’ inside.",
                  "ja": f"先に展開し、中のファイル「{inside}」をアップロードしてください。"}
        if locked:
            advice = {"en": f"It has a password. {advice['en']}", "ja": f"パスワードが付いています。{advice['ja']}"}
    _refuse(("a zip archive", "ZIPアーカイブ", _EXTRACT), advice)


def _names_in_zip(path):
    """``(the names in the archive, whether one needs a password)`` from its directory at the end, as far
    as that fits into ``HEAD_BYTES``: an upload could hold hundreds of thousands. [APPNOTE.TXT 4.3.12]"""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - HEAD_BYTES))
        tail = file.read(HEAD_BYTES)
        end = tail.rfind(b"PK\x05\x06")
        if not 0 <= end <= len(tail) - 22:
            return [], False
        file.seek(int.from_bytes(tail[end + 16:end + 20], "little"))
        directory = file.read(HEAD_BYTES)
    names, locked, at = [], False, 0
    while directory[at:at + 4] == b"PK\x01\x02" and at + 46 <= len(directory):
        flags, = struct.unpack_from("<H", directory, at + 8)
        name, extra, comment = struct.unpack_from("<HHH", directory, at + 28)
        names.append(_zip_name(directory[at + 46:at + 46 + name]))
        locked = locked or bool(flags & 1)
        at += 46 + name + extra + comment
    return names, locked


def _zip_name(name):
    """Windows in Japan writes names in its own code page, and nothing says so."""
    for encoding in ("utf-8", "cp932"):
        try:
            return name.decode(encoding)
        except UnicodeDecodeError:
            continue
    return name.decode("cp437")


def _ole(path, head, extension):
    """Which of the old Office formats, by the names in the first sector of its directory. [MS-CFB 2.2]"""
    shift, = struct.unpack_from("<H", head.ljust(64, b"\0"), 30)
    first, = struct.unpack_from("<I", head.ljust(64, b"\0"), 48)
    with open(path, "rb") as file:
        file.seek(min((first + 1) << min(shift, 16), os.path.getsize(path)))
        directory = file.read(4096)
    for name, what in (("EncryptedPackage", _PROTECTED), ("Workbook", _EXCEL), ("Book", _EXCEL),
                       ("WordDocument", _WORD), ("PowerPoint Document", _SLIDES)):
        if name.encode("utf-16-le") + b"\0\0" in directory:
            return what
    return _EXCEL if extension == ".xls" else ("an Office document", "Office文書", _TO_CSV)


def _refuse_property_list(head):
    if b"NSURLNameKey" in head:
        _refuse(_PLACEHOLDER)
    if b"WebMainResource" in head:
        _refuse_page(head.decode("ascii", "ignore"))
    if found := re.search(rb"https?://[!-~]{1,2000}", head):
        address = found[0].decode()
        # The byte before the text counts its characters, where they are few enough for one.
        _refuse_address(address[:head[found.start() - 1]] if head[found.start() - 2:found.start() - 1] == b"\x10"
                        else address)
    _refuse(("a property list", "プロパティリスト", None))


# --- what the first characters tell -------------------------------------------------------------

_VIDEO_ADDRESS = re.compile(
    r"(?:https?://)?(?:[a-z]{1,20}\.)?"
    r"(?:youtube(?:-nocookie)?\.com/(?:watch\?\S{0,200}?\bv=|shorts/|live/|embed/|v/)|youtu\.be/)[\w-]{11}\S*", re.I)
_LINK_FILE = re.compile(r"\s*\[(?:InternetShortcut|Desktop Entry)\]", re.I)
_SUBTITLE = re.compile(r"\s*(?:WEBVTT|\[Script Info\]|\d{1,9}\s*\n\d\d:\d\d:\d\d[,.]\d{3} --> )")


def refuse_what_has_no_comments(start, extension, goes_on):
    """Raises ``Unreadable`` for a text that is something else: subtitles, a web page, a link. ``start``:
    its first characters; ``goes_on``: there are more."""
    if extension in (".srt", ".vtt", ".ass") or _SUBTITLE.match(start.replace("\r", "")[:2_000]):
        _refuse(_SUBTITLES)
    if re.match(r"\s*<(!doctype|html|\?xml|svg)|(From|MIME-Version): .*\n[^<]{0,2000}multipart/related", start[:4_000],
                re.I):
        _refuse_markup(start[:HEAD_BYTES], extension)
    if goes_on or len(start) > 4_000:
        return      # the rest is short
    if _LINK_FILE.match(start):
        found = re.search(r"^URL=(\S+)", start, re.I | re.M)
        _refuse_address(found[1] if found else "")
    if re.search(r'"doc_id"\s*:', start) and start.lstrip().startswith("{"):
        _refuse(_PLACEHOLDER)
    if _VIDEO_ADDRESS.fullmatch(start.strip().strip('"<>')):
        _refuse_address(start.strip().strip('"<>'))


def _refuse_markup(start, extension):
    if "Excel.Sheet" in start[:500] or "schemas-microsoft-com:office:excel" in start or extension == ".xls":
        _refuse(_EXCEL)
    if re.search(r"<!DOCTYPE plist", start[:500]):
        found = re.search(r"<key>URL</key>\s*<string>([^<]*)</string>", start)
        _refuse_address(clean(found[1]) if found else "")
    _refuse_page(start)


def _refuse_page(start):
    found = _VIDEO_ADDRESS.search(start[:HEAD_BYTES])
    if not found and not re.search(r"youtube\.com", start[:HEAD_BYTES], re.I):
        _refuse(_PAGE)
    address = re.match(r"[^\s\"'<>&;)]*", found[0])[0] if found else ""
    raise Unreadable(
        "COMMENTS_NOT_INCLUDED",
        "This is a saved page of YouTube. The comments are not in it: the page fetches them later. Paste the video's "
        f"address instead{f': {address}' if address else ''}",
        "これはYouTubeのページを保存したファイルで、コメントは含まれていません（コメントは後から読み込まれます）。"
        f"代わりに動画のアドレスを貼り付けてください{f'：{address}' if address else '。'}",
        **({"address": address} if address else {}))


def _refuse_address(address):
    address = address[:ADDRESS_CHARACTERS_MAX]
    if not _VIDEO_ADDRESS.fullmatch(address):
        _refuse(("only a link", "リンクだけのファイル", None))
    raise Unreadable(
        "COMMENTS_NOT_INCLUDED",
        f"This file holds only the address of a video. Paste it as the video's address instead: {address}",
        f"このファイルには動画のアドレスしか入っていません。代わりに、動画のアドレスとして貼り付けてください：{address}",
        address=address)
