"""Files that hold no comments as text: each is named, with what to do instead."""
import os

from .refusals import empty, unsupported

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


def head_of(path):
    with open(path, "rb") as file:
        return file.read(1 << 16)


def refuse_what_is_no_text(head, name):
    if not head.strip(b"\0 \t\r\n"):
        # Zeros for a start may be anything; all zeros, or nothing, is empty.
        if len(head) < 1 << 16:
            raise empty()
        if b"\0" in head:
            raise unsupported({"en": "a binary file", "ja": "バイナリファイル"})
    extension = os.path.splitext(name)[1].lower()
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")):
        if b"xl/" in head[:4096] and extension not in _SHEET:
            extension = ".xlsx"
        if extension in _SHEET:
            en, ja = _SHEET[extension]
            raise unsupported({"en": en, "ja": ja}, _TO_CSV)
        if head.startswith(b"PK"):
            raise unsupported({"en": "a zip archive", "ja": "ZIPアーカイブ"}, _EXTRACT)
        raise unsupported({"en": "an Office document", "ja": "Office文書"}, _TO_CSV)
    if head.startswith(_PACKED):
        raise unsupported({"en": "a compressed file", "ja": "圧縮ファイル"}, _EXTRACT)
    if head[4:8] == b"ftyp":
        raise unsupported({"en": "a video or image", "ja": "動画または画像"})
    for magic, en, ja in _MAGIC:
        if head.startswith(magic):
            raise unsupported({"en": en, "ja": ja})
