"""Read the comments out of whatever file somebody has: piece by piece, so that the largest upload
never stands in memory as a whole (one emoji makes Python keep four bytes for each character).

Formats: yt-dlp's ``.info.json``, saved pages of the YouTube Data API, JSON, JSON lines, CSV, TSV, plain
text and what was copied from a video's page, told apart by their content; the file's name only decides
where the content does not. Each has a module of its own; all share what a comment is (``fields``) and why
a file cannot be used (``refusals``).
"""
import csv
import os

from .encoding import encoding_of
from .fields import Comment, clean
from .filetypes import extension_of, head_of, refuse_what_has_no_comments, refuse_what_is_no_text
from .json_comments import JsonComments, looks_like_json
from .pasted import looks_pasted, pasted
from .refusals import Unreadable, empty, no_comments, unsupported
from .tables import FIELD_CHARACTERS_MAX, lines, table, table_in_text, whole_lines

TEXT_CHARACTERS_MAX = 10_000   # YouTube's own limit for a comment
CHUNK_CHARACTERS = 1 << 18


class Reading:
    """Iterate once to get the ``Comment``s, in the file's order; then the attributes are final.

    Raises ``Unreadable``, at the latest at the end. ``coarse``: the times are yt-dlp's estimates.
    ``reported``: how many comments there are by the file's own word, or None. ``replies_missing``:
    known only for API pages. ``counts``: of empty, shortened, repeated entries, and of rows with more cells than the
    header.
    """

    def __init__(self, path, name, max_rows):
        self.path, self.name, self.max_rows = path, name or "", max_rows
        self.size = os.path.getsize(path)
        self.format = self.encoding = self.column = self.title = self.reported = None
        self.replies_missing = None
        self.repaired = self.coarse = False
        self.rows = 0
        self.counts = {"empty": 0, "shortened": 0, "repeated": 0, "uneven": 0}
        self._stream = None

    def __iter__(self):
        head = head_of(self.path)
        refuse_what_is_no_text(self.path, head, self.name)
        self.encoding, errors = encoding_of(self.path, head)
        self.repaired = errors != "strict"
        extension = extension_of(self.name)
        with open(self.path, encoding=self.encoding, errors=errors, newline="") as stream:
            self._stream = stream
            start = _start(stream).lstrip("\ufeff\0")
            if not start.strip():
                raise empty()
            csv.field_size_limit(FIELD_CHARACTERS_MAX)
            try:
                for comment in self._source(extension, start, goes_on=bool(stream.read(1))):
                    if comment := self._accept(comment):
                        yield comment
            except csv.Error:
                raise unsupported({"en": "a damaged table", "ja": "壊れた表"}) from None
        if not self.rows:
            raise no_comments(self.counts["empty"])

    @property
    def share_done(self):
        """How much of the file has been read, 0 to 1."""
        stream = self._stream
        if stream is None or stream.closed or not self.size:
            return 1.0 if stream is not None else 0.0
        return min(1.0, stream.buffer.tell() / self.size)

    def _source(self, extension, start, goes_on):
        self._stream.seek(0)
        refuse_what_has_no_comments(start, extension, goes_on)
        if looks_like_json(start):
            return JsonComments(self, self._stream)
        if goes_on:
            start = whole_lines(start)
        usual = {".csv": ",", ".tsv": "\t", ".tab": "\t"}.get(extension) or table_in_text(start)
        if extension in (".json", ".jsonl", ".ndjson") and not usual:
            return JsonComments(self, self._stream)
        if not usual:
            self.format = "text"
            found = lines(self._stream)
            return pasted(found) if looks_pasted(start) else (Comment(line) for line in found)
        self.format = "csv"
        return table(self, self._stream, start, usual)

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


def _start(stream):
    """The first characters; more where the file begins with nothing but space."""
    while chunk := stream.read(CHUNK_CHARACTERS):
        if chunk.strip("\ufeff\0 \t\r\n\u3000"):
            return chunk
    return ""
