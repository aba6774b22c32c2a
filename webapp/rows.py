"""The rows that a job left, read: which are wanted, in which order, which of them stand on a page.

Their file has one JSON text a line, tens of thousands of them at times. It is never in memory whole: a page is one pass
over it, which lets others have their turn, and of what it sorts it keeps where the lines begin.
"""
import functools
import heapq
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from webapp import db, forms
from webapp.errors import InvalidInput
from webapp.kinds import Rows

PAGE_ROWS = 50
PAGES_MAX = 200
SEARCH_CHARACTERS_MAX = 200
MARKS_MAX = 100  # in one text: each takes its time to be written, in which nobody else is served
MARKED_CHARACTERS_MAX = 10_000  # of one text: what stands behind them is shown without marks
JOINED_MAX = 32  # characters of one mark and its accents
FOLDED_AT_ONCE = 128  # characters: to put combining ones into their order takes the square of their number
_TO_KATAKANA = {code: code + 0x60 for code in (*range(0x3041, 0x3097), 0x309D, 0x309E)}
_TO_HIRAGANA = {katakana: hiragana for hiragana, katakana in _TO_KATAKANA.items()}
# Half-width voicing marks and the later parts of a Hangul syllable: one character with what stands before them.
_JOINING = {*"\uff9e\uff9f", *map(chr, range(0x1160, 0x1200))}


@dataclass(frozen=True)
class Wanted:
    """Which rows are asked for. ``search``: as it was typed; ``words``: its words, all of which must occur;
    ``chosen``: ``{column: the cell as text}``; ``order``: a name of ``spec.orders`` or ``""``; ``page``: from 1 on."""

    spec: Rows
    search: str = ""
    words: Sequence[re.Pattern] = ()
    chosen: Mapping[str, str] = field(default_factory=dict)
    order: str = ""
    page: int = 1

    @property
    def narrows(self):
        return bool(self.words or self.chosen)

    def matches(self, row):
        """Whether it is among them: every condition holds."""
        if any(forms.as_text(row.get(column)) != value for column, value in self.chosen.items()):
            return False
        if not self.words:
            return True
        searched = [self.spec.text] if self.spec.text else self.spec.columns or row
        text = _folded("\n".join(forms.as_text(row.get(column)) for column in searched))
        return all(word.search(text) for word in self.words)

    def query(self, **others):
        """The conditions as an address has them, for ``url_for``."""
        conditions = {self.spec.query_name(column): value or Rows.EMPTY for column, value in self.chosen.items()}
        return {**({"q": self.search} if self.search else {}), **conditions, **others}


def wanted(spec, texts):
    """What the query of an address (``texts``: a mapping of texts) asks for, as a ``Wanted``; names that are not ours are
    passed over. Raises ``InvalidInput`` for a choice or an order that there is not, or a search that is too long."""
    problems, chosen, search, order = [], {}, texts.get("q", "").strip(), texts.get("order", "")
    if len(search) > SEARCH_CHARACTERS_MAX:
        problems.append({"field": "q", "type": "string_too_long", "facts": {"max_length": SEARCH_CHARACTERS_MAX},
                         "message": "too long"})
    for column, choices in spec.filters.items():
        name = spec.query_name(column)
        if (asked := texts.get(name, "")) == "":
            continue
        value = "" if asked == Rows.EMPTY else asked
        if value not in choices:
            problems.append(_no_choice(name, [choice or Rows.EMPTY for choice in choices]))
        chosen[column] = value
    if order and order not in spec.orders:
        problems.append(_no_choice("order", spec.orders))
    if problems:
        raise InvalidInput(problems)
    page = texts.get("page", "")
    page = min(max(1, int(page)), PAGES_MAX) if re.fullmatch("[0-9]{1,9}", page) else 1
    # One that is typed again, be it in the other kana, is the same: a text would be searched for it once more.
    words = {_pattern(phrase or word, whole=bool(phrase)): None for phrase, word in _SEARCHED.findall(_folded(search))}
    return Wanted(spec, search, [re.compile(word) for word in words], chosen, order, page)


def _no_choice(name, choices):
    return {"field": name, "type": "literal_error", "facts": {"expected": ", ".join(map(repr, choices))},
            "message": "no such choice"}


def lines(path):
    """The lines of such a file as texts; now and then others have a turn."""
    with path.open("rb") as file:
        for _at, line in _lines(file):
            yield line.decode()


def _lines(file):
    turn, at = db.Turn(), 0
    for line in file:
        turn.pass_on()
        yield at, line
        at += len(line)


# -------------------------------------------------------------------------------------------- a page

@dataclass(frozen=True)
class Page:
    """``rows``: those of this page; ``total``, ``matched``: how many there are, and match; ``number`` of ``pages``, the
    last one where fewer match; ``cut``: more match than pages hold."""

    rows: Sequence[Mapping]
    total: int
    matched: int
    number: int
    pages: int
    cut: bool


def page(path, wanted):
    """The ``Page`` that is wanted, in one pass over the file; memory for ``PAGE_ROWS`` times its number at most."""
    counted = {"total": 0, "matched": 0}
    _title, column, descending = wanted.spec.orders.get(wanted.order, (None, None, False))

    def matching(file):
        for at, line in _lines(file):
            counted["total"] += 1
            row = json.loads(line.decode()) if wanted.narrows or column else None
            if row is None or wanted.matches(row):
                counted["matched"] += 1
                yield _rank(row.get(column), descending) if column else None, at

    kept = PAGE_ROWS * wanted.page
    with path.open("rb") as file:
        if column:
            taken = heapq.nlargest if descending else heapq.nsmallest
            places = [at for _rank, at in taken(kept, matching(file), key=lambda found: found[0])]
        else:
            places = [at for n, (_rank, at) in enumerate(matching(file)) if n < kept]
        pages = max(1, -(-counted["matched"] // PAGE_ROWS))
        number = min(wanted.page, pages)
        rows = []
        for at in places[PAGE_ROWS * (number - 1):]:
            file.seek(at)
            rows.append(json.loads(file.readline().decode()))
    return Page(rows, **counted, number=number, pages=min(pages, PAGES_MAX), cut=pages > PAGES_MAX)


def _rank(value, descending):
    """What rows are sorted by: an empty cell comes last either way, numbers do not meet texts."""
    if value is None or value == "":
        return not descending, False, 0
    number = isinstance(value, (int, float))
    return descending, not number, value if number else str(value)


# -------------------------------------------------------------------------------------------- words

# What a phone writes and what a keyboard does; how an emoji is drawn; what is left of a Turkish capital.
_ALIKE = (("’", "'"), ("‘", "'"), ("ʼ", "'"), ("“", '"'), ("”", '"'), ("\ufe0f", ""), ("\ufe0e", ""), ("i\u0307", "i"))


def _folded(text):
    """The same for full and half width, capitals and small letters, curly and straight quotation marks."""
    if text.isascii():
        return text.lower()
    folded = "".join(unicodedata.normalize("NFKC", text[begin:end]).casefold() for begin, end in _pieces(text))
    for one, other in _ALIKE:
        folded = folded.replace(one, other)
    return folded


def _pieces(text):
    """Where to cut a text so that each piece is folded as it would be in the whole; a hostile one is cut even so."""
    begin = 0
    while begin < len(text):
        end = begin + FOLDED_AT_ONCE
        while end < min(len(text), begin + 2 * FOLDED_AT_ONCE) and _joins(text[end]):
            end += 1
        yield begin, min(end, len(text))
        begin = end


def _joins(char):
    return char in _JOINING or unicodedata.category(char)[0] == "M"


# What stands between quotation marks as one, or a word.
_SEARCHED = re.compile(r'"\s*([^"]*[^"\s])\s*"|([^\s"]+)')
_LATIN = "0-9a-z_\u00df-\u024f"


def _pattern(word, whole=False):
    """Finds a folded word in folded text, in hiragana as in katakana. (To fold texts that far would take ten times as
    long as to look for both.) ``whole``: not as a part of a longer word in Latin letters, or of a longer time as in 11:23."""
    kana = word.translate(_TO_KATAKANA), word.translate(_TO_HIRAGANA)
    letters = "".join(re.escape(one) if one == other else f"[{one}{other}]" for one, other in zip(*kana))
    # What stands before it is looked at last: a pattern that begins with a letter is found in a fraction of the time.
    begins = rf"(?<![{_LATIN}]{letters})(?<!\d:{letters})" if whole and re.match(f"[{_LATIN}]", word) else ""
    ends = rf"(?![{_LATIN}])(?!:\d)" if whole and re.search(f"[{_LATIN}]$", word) else ""
    return letters + begins + ends


def marker(words):
    """A function that takes a text to its parts, ``[(part, whether it is one of the words)]``, which together are the text;
    at most ``MARKS_MAX`` are. One serves a whole page: in between others have their turn."""
    turn = db.Turn()
    # Many side by side are one; at one place the longest.
    of_words = re.compile(f"(?:{'|'.join(sorted((word.pattern for word in words), key=len, reverse=True))})+")
    longest = max((len(word.pattern) for word in words), default=0)

    def mark(text):
        turn.pass_on()
        parts, at = [], 0
        for begin, end in _marks(of_words, longest, text[:MARKED_CHARACTERS_MAX], turn) if words else ():
            parts += [(text[at:begin], False), (text[begin:end], True)]
            at = end
        return [part for part in (*parts, (text[at:], False)) if part[0]]
    return mark


def _marks(pattern, longest, text, turn):
    """``[[begin, end]]`` of what the pattern finds, in order; what overlaps or touches is one."""
    folded, spans = _spelled_out(text, turn)
    marks, at = [], 0
    while found := pattern.search(folded, at):
        turn.pass_on()
        at = max(found.start() + 1, found.end() - longest)  # another word may begin within the last one
        begin, end = spans[found.start()][0], spans[found.end() - 1][1]
        if marks and begin <= marks[-1][1]:
            marks[-1][1] = max(end, marks[-1][1])
        elif len(marks) == MARKS_MAX:
            break
        else:
            marks.append([begin, end])
    return marks


def _spelled_out(text, turn):
    """The folded text, and for each of its characters where in ``text`` that which it comes from begins and ends."""
    folded, spans = [], []
    for begin, end in _pieces(text):
        turn.pass_on()
        piece = _folded(text[begin:end])
        if text.isascii() or piece == text[begin:end] and not any(map(_joins, piece)):  # ten times as fast
            folded.append(piece)
            spans += zip(range(begin, end), range(begin + 1, end + 1))
            continue
        while begin < end:
            behind = begin + 1
            while behind < min(end, begin + JOINED_MAX) and _joins(text[behind]):
                behind += 1
            part = _folded_part(text[begin:behind])
            folded.append(part)
            spans += [(begin, behind)] * len(part)
            begin = behind
    return "".join(folded), spans


_folded_part = functools.lru_cache(4096)(_folded)
