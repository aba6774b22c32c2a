"""Comments of a table (CSV, TSV), and the lines of a text."""
import csv
import io
import re

from .fields import SOMETHING, Comment, author_of, clean, likes_of, plain, reply_of, roles_of, time_of, without_markup
from .refusals import Unreadable, no_column, no_comments, too_many

LINE_CHARACTERS_MAX = 1 << 17       # what follows in the same line is passed over
FIELD_CHARACTERS_MAX = 1 << 18      # a longer CSV field is an opening quote that nobody closed
COLUMNS_MAX = 1_000
LINES_MAX = 1_000_000               # empty ones too: twenty million of them fit into an upload
SAMPLE_ROWS = 30
NO_DELIMITER = "\x1f"
FAR = 1 << 30       # the position of a column that is not there


def table_in_text(start):
    """A text file is a table only if its first line has two columns or more and names the comments."""
    line = next(lines(io.StringIO(start.lstrip(), newline="")))
    return any(len(row) > 1 and "text" in roles_of(row)
               for delimiter in ",;\t" for row in csv.reader([line], delimiter=delimiter))


def whole_lines(start):
    """Without the last line, which goes on in the next piece of the file, unless it is the only one."""
    whole = start[:max(start.rfind("\n"), start.rfind("\r")) + 1]
    return whole if whole.strip() else start


def lines(stream):
    """The lines, none longer than the limit: a file may be a single one of 20 MB."""
    goes_on, count = False, 0
    while line := stream.readline(LINE_CHARACTERS_MAX):
        if not goes_on:
            count += 1
            if count > LINES_MAX:
                raise too_many("lines", "行数", LINES_MAX, limit_lines=LINES_MAX)
            yield line.replace("\0", "") if "\0" in line else line
        goes_on = line[-1] not in "\r\n"


def _is_blank(row):
    return len(row) <= COLUMNS_MAX and not any(SOMETHING.search(cell) for cell in row)


def _sample_rows(start, delimiter, quoting=csv.QUOTE_MINIMAL):
    """The first rows that are not blank, exactly as ``_rows`` will see them."""
    rows = []
    try:
        for row in csv.reader(lines(io.StringIO(start, newline="")), delimiter=delimiter, quoting=quoting):
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
        named = width > 1 and "text" in roles_of(rows[0])
        even = width > 1 and sum(len(row) == width for row in rows) >= 0.9 * len(rows)
        best = max(best, (2 * named + even, width if named or even else 0, delimiter), key=lambda one: one[:2])
    if (best[1] or widest) > COLUMNS_MAX:
        raise _too_wide()
    return best[2]


def table(reading, stream, extension, start):
    skip = 0
    if found := re.match(r"sep=([,;\t|])\r?\n", start, re.I):       # Excel's own hint
        delimiter, start, skip = found[1], start[found.end():], 1
    else:
        delimiter = _delimiter(start, extension)
    quoting = csv.QUOTE_MINIMAL if _quotes_close(stream, delimiter) else csv.QUOTE_NONE
    columns, has_header = _columns(_sample_rows(start, delimiter, quoting))
    stream.seek(0)
    rows = csv.reader(lines(stream), delimiter=delimiter, quoting=quoting)
    for _ in range(skip):
        next(rows, None)
    return _rows(reading, rows, columns, has_header, delimiter)


def _quotes_close(stream, delimiter):
    """False if a quote is opened and never closed: it would swallow the rest of the file."""
    for strict in (True, False):        # only the strict reader minds a quote still open at the end
        stream.seek(0)
        try:
            for _ in csv.reader(lines(stream), delimiter=delimiter, strict=strict):
                pass
            return True
        except csv.Error as error:
            if "unexpected end" in str(error) or "field larger" in str(error):
                return False
    return True


def _columns(rows):
    """``(role → position, whether the first row is a header)``. Raises ``Unreadable``."""
    if not rows:
        raise no_comments()
    header = rows[0]
    if len(header) > COLUMNS_MAX:
        raise _too_wide()
    columns = roles_of(header)
    if "text" in columns:
        return columns, True
    if all(len(row) == 1 for row in rows):
        return {"text": 0}, False
    if _is_header(rows):
        raise no_column(header)
    width = min(COLUMNS_MAX, max(len(row) for row in rows))
    letters = [sum(len(re.findall(r"[^\W\d_]", row[column])) for row in rows if column < len(row))
               for column in range(width)]
    if max(letters) < 2 * len(rows):
        raise no_column(header)
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
                is_markup = plain(reading.column) == "textdisplay"
                continue
        if len(row) <= text:
            reading.counts["empty"] += bool(row)
            continue
        # A last column that nobody quoted: its commas belong to the comment.
        words = delimiter.join(row[text:]) if text + 1 == width < len(row) else row[text]
        yield Comment(without_markup(words) if is_markup else words, likes_of(cell("likes")), time_of(cell("at")),
                      author_of(cell("author")), None if at["reply"] == FAR else reply_of(cell("reply")))


def _too_wide():
    return Unreadable("UNSUPPORTED_FORMAT",
                      f"The table has more than {COLUMNS_MAX:,} columns, the most this site reads. Keep the column "
                      "with the comments and those about likes, dates and authors, and upload that.",
                      f"表の列が、読み込める上限の{COLUMNS_MAX:,}列を超えています。コメントの列と、高評価数・日時・"
                      "投稿者の列だけを残して、アップロードしてください。", limit_columns=COLUMNS_MAX)
