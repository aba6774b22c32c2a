"""Comments of a table (CSV, TSV), and the lines of a text."""
import csv
import io
import re

from .fields import (SOMETHING, Comment, author_of, clean, day_first_of, is_html, is_reply_of, joined_pieces, likes_of,
                     role_of, roles_of, time_of, without_markup)
from .refusals import Unreadable, no_column, no_comments, too_many

LINE_CHARACTERS_MAX = 1 << 17       # what follows in the same line is passed over
FIELD_CHARACTERS_MAX = 1 << 18      # a longer CSV field is an opening quote that nobody closed
COLUMNS_MAX = 1_000
LINES_MAX = 1_000_000               # empty ones too: twenty million of them fit into an upload
SAMPLE_ROWS = 30
TITLE_ROWS_MAX = 10
NO_DELIMITER = "\x1f"
FAR = 1 << 30       # the position of a column that is not there
_OURS = {"text", "language", "label", "score", "emotion"}      # the columns of our own export
_GUARDED = re.compile(r"'(?=\s*[=+\-@＝＋－＠\t\r\n])")
_QUESTION = re.compile(r"[?？]$|(?:ください|下さい|ですか|ましたか)[。.？?]?$")
_VIDEO_ID = re.compile(r"(?=.*(?:[\d_-]|[a-z][A-Z]))[\w-]{11}", re.ASCII)


def table_in_text(start):
    """The separator of the table that a text file is, or None: its first line, or one below a title, names
    the comments; or tabs, which nobody types, give every line the same number of columns."""
    for delimiter in ",;\t":
        rows = _sample_rows(start, delimiter)
        if rows and len(rows[0]) > 1 and "text" in roles_of(rows[0]) or _header_below(rows, is_table=False):
            return delimiter
    rows = _sample_rows(start, "\t")
    if len(rows) > 1 and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
        return "\t"
    return None


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


def _escapes(start):
    """Whether a quote within a quoted cell is written ``\\"``, as databases do, and not doubled."""
    return bool(re.search(r'(?m)(?:^|[,;\t|])"(?:[^"\\]|\\.)*\\"\w', start)) and not re.search(r'\w""|""\w', start)


def _table_lines(stream, escapes):
    """The lines with quotes doubled in place of ``escapes``, and with the quote closed whose end was passed over."""
    for line in lines(stream):
        if escapes and '\\"' in line:
            line = line.replace('\\"', '""')
        if len(line) == LINE_CHARACTERS_MAX and line[-1] not in "\r\n" and line.count('"') % 2:
            line += '"\n'
        yield line


def _is_blank(row):
    return len(row) <= COLUMNS_MAX and not any(SOMETHING.search(cell) for cell in row)


def _sample_rows(start, delimiter, quoting=csv.QUOTE_MINIMAL):
    """The first rows that are not blank, exactly as ``_rows`` will see them."""
    rows = []
    try:
        stream = io.StringIO(start, newline="")
        for row in csv.reader(_table_lines(stream, _escapes(start)), delimiter=delimiter, quoting=quoting):
            if not _is_blank(row):
                rows.append(row)
            if len(rows) == SAMPLE_ROWS:
                break
    except csv.Error:
        pass
    return rows


def _header_below(rows, is_table=True):
    """Where the header is that follows some lines of a title, or 0: it names the comments and has more
    cells that are filled than any line above. Where commas may as well be a part of comments, it must name
    something else too, or, in what is known to be a table, be as wide as what follows."""
    most = 0
    for place, row in enumerate(rows[:TITLE_ROWS_MAX + 1]):
        filled = sum(bool(cell.strip()) for cell in row[:COLUMNS_MAX])
        if place and filled > most and len(row) <= COLUMNS_MAX:
            roles, below = roles_of(row), rows[place + 1:]
            even = is_table and below and all(len(one) == len(row) for one in below)
            if "text" in roles and (len(roles) > 1 or even):
                return place
        most = max(most, filled)
    return 0


def _delimiter(start, usual):
    """The separator whose header names the comments; else the one that gives every row the same
    number of columns, two or more; else none: commas are then a part of the comments, unless there are
    so many that the file must be a table after all."""
    best, widest = (0, 0, NO_DELIMITER), 0
    for delimiter in dict.fromkeys((usual, ",", ";", "\t", "|")):
        rows = _sample_rows(start, delimiter)
        if not rows:
            continue
        header = _header_below(rows)
        width = len(rows[header])
        named = width > 1 and "text" in roles_of(rows[header])
        even = width > 1 and sum(len(row) == width for row in rows[header:]) >= 0.9 * len(rows[header:])
        if delimiter == "|" and not named:
            continue        # a sign that comments have, too
        widest = max(widest, width)
        best = max(best, (2 * named + even, width if named or even else 0, delimiter), key=lambda one: one[:2])
    if (best[1] or widest) > COLUMNS_MAX:
        raise _too_wide()
    return best[2]


def table(reading, stream, start, usual):
    """The comments of the table in ``stream``, which begins with ``start``; ``usual``: its separator unless
    the table itself tells. Sets ``reading.column``. Raises ``Unreadable``."""
    hinted = False
    if found := re.match(r"sep=([,;\t|])\r?\n", start, re.I):       # Excel's own hint
        delimiter, start, hinted = found[1], start[found.end():], True
    else:
        delimiter = _delimiter(start, usual)
    escapes = _escapes(start)
    quoting = csv.QUOTE_MINIMAL if _quotes_close(stream, delimiter, escapes) else csv.QUOTE_NONE
    sample = _sample_rows(start, delimiter, quoting)
    titles = _header_below(sample)
    columns, has_header = _columns(sample[titles:])
    at = columns.get("at", FAR)
    day_first = day_first_of(row[at] for row in sample if len(row) > at)
    stream.seek(0)
    rows = csv.reader(_table_lines(stream, escapes), delimiter=delimiter, quoting=quoting)
    if hinted:
        next(rows, None)
    rows = _below(rows, titles)
    return _rows(reading, rows, columns, has_header, delimiter, day_first)


def _below(rows, titles):
    """Without the first rows, not counting blank ones."""
    for row in rows:
        if titles and not _is_blank(row):
            titles -= 1
        elif not titles:
            yield row


def _quotes_close(stream, delimiter, escapes):
    """False if a quote is opened and never closed: it would swallow the rest of the file."""
    for strict in (True, False):        # only the strict reader minds a quote still open at the end
        stream.seek(0)
        try:
            for _ in csv.reader(_table_lines(stream, escapes), delimiter=delimiter, strict=strict):
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
        if len(header) > 1:
            columns = roles_of([name if role_of(name) is None or role_of(name)[0] != "text"
                                or not _is_wordless(rows[1:], place) else "" for place, name in enumerate(header)])
        if "text" not in columns:
            raise no_column(header)
        return columns, True
    asked = [place for place, name in enumerate(header) if _QUESTION.search(name.strip())]
    if len(header) > 1 and asked and (columns or _is_header(rows)):     # a form's answers below its questions
        return {**columns, "text": max(asked, key=lambda place: sum(len(row[place]) for row in rows[1:] if
                                                                    len(row) > place))}, True
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


def _is_wordless(rows, column):
    """Whether a column called 'Comments' counts them, or one called 'Content' holds the ids of videos."""
    cells = [row[column].strip() for row in rows if column < len(row) and row[column].strip()]
    ids = sum(bool(_VIDEO_ID.fullmatch(cell)) for cell in cells)
    return len(cells) > 1 and (all(map(_is_number, cells)) or ids >= 0.8 * len(cells))


def _is_number(cell):
    return bool(re.fullmatch(r"[\s\d.,:/+\-%TZ]+", cell) and re.search(r"\d", cell))


def _rows(reading, rows, columns, has_header, delimiter, day_first):
    at = {role: columns.get(role, FAR) for role in ("text", "likes", "at", "author", "parent", "reply")}
    text, html, ours, header, width = at["text"], False, False, None, None

    def cell(role):
        return row[at[role]] if at[role] < len(row) else None
    for row in rows:
        if width is None:
            if _is_blank(row):
                continue
            width = len(row)
            if has_header and text < width:
                header, reading.column, html = _bare(row), clean(row[text])[:60], is_html(clean(row[text]))
                ours = _OURS <= set(header)
                continue
        if len(row) <= text or not row[text] and len(row) <= width:
            reading.counts["empty"] += bool(row)
            continue
        if header and row[text].strip("\ufeff ") == header[text] and _bare(row) == header:
            continue        # tables put one after another, each with its header
        if len(row) > width:
            row = _rejoined(row, width, at, delimiter, day_first)
            reading.counts["uneven"] += len(row) > width
        words = _GUARDED.sub("", row[text], count=1) if ours and row[text].startswith("'") else row[text]
        words = without_markup(words) if html else joined_pieces(words)
        yield Comment(words, likes_of(cell("likes")), time_of(cell("at"), day_first), author_of(cell("author")),
                      is_reply_of(cell("parent"), cell("reply")))


def _rejoined(row, width, at, delimiter, day_first):
    """A row wider than the table as one that is not, if likes and time then are what they should be: without what is
    empty at its end, or with its comment, which nobody quoted, put together again. Else the row as it is."""
    text, more = at["text"], len(row) - width

    def fits(cells):
        likes, moment = (cells[at[role]].strip() if text < at[role] < width else "" for role in ("likes", "at"))
        return not (likes and likes_of(likes) is None or moment and time_of(moment, day_first) is None)
    joined = [*row[:text], delimiter.join(row[text:text + more + 1]), *row[text + more + 1:]]
    cut = [] if text + 1 == width or any(map(str.strip, row[width:])) else [row[:width]]
    return next(filter(fits, [*cut, joined]), row)


def _bare(row):
    return [cell.strip("\ufeff ") for cell in row[:COLUMNS_MAX]]


def _too_wide():
    return Unreadable("UNSUPPORTED_FORMAT",
                      f"The table has more than {COLUMNS_MAX:,} columns, the most this site reads. Keep the column "
                      "with the comments and those about likes, dates and authors, and upload that.",
                      f"表の列が、読み込める上限の{COLUMNS_MAX:,}列を超えています。コメントの列と、高評価数・日時・"
                      "投稿者の列だけを残して、アップロードしてください。", limit_columns=COLUMNS_MAX)
