"""The Japanese words that carry a feeling, found in a text in whatever form they are written.

A word is listed once, in its dictionary form, with its word class; its conjugations, its spelling in
katakana and how it is drawn out or doubled in speech (すっごい, やべえ, うまーーい) follow by rule.
"""
import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LEXICON = Path(__file__).parent / "weights" / "ja_lexicon.json"

# The kana in order, row by row: あいうえお. A row's fifth is its sound, the column its vowel.
_ROWS = ("あいうえお かきくけこ がぎぐげご さしすせそ ざじずぜぞ たちつてと だぢづでど なにぬねの はひふへほ "
         "ばびぶべぼ ぱぴぷぺぽ まみむめも や ゆ よ らりるれろ わ").split()
_ENDS_IN = {vowel: "".join(row[column] for row in _ROWS if len(row) == 5) for column, vowel in enumerate("あいうえお")}
_ENDS_IN["あ"] += "やわゃ"
_ENDS_IN["う"] += "ゆゅ"
_ENDS_IN["お"] += "よょ"
_SMALL = dict(zip("あいうえお", "ぁぃぅぇぉ"))
_KATAKANA = {ord(kana): ord(kana) + 0x60 for kana in map(chr, range(0x3041, 0x3097))}

# A sound drawn out: its vowel twice or more, once in small, or strokes. One vowel may belong to the word.
_DRAWN_OUT = re.compile("|".join(
    # 気持ちいい is not drawn out.
    f"(?<=[{kana}{kana.translate(_KATAKANA)}])(?:[{both}]{{{3 if vowel == 'い' else 2},}}|[{small}])[{both}ー〜~]*"
    for vowel, kana in _ENDS_IN.items()
    for small in [_SMALL[vowel] + _SMALL[vowel].translate(_KATAKANA)]
    for both in [vowel + vowel.translate(_KATAKANA) + small]) + "|(?<=[ぁ-んァ-ヶ一-龠])[ー〜~]+|っっ+|ッッ+")

# What may follow an adjective's stem; without it the letters are another word (うま|れる).
_ADJECTIVE_TAIL = re.compile(
    r"ー?(?:[いイ]|か(?:っ|ろ|らぬ|け[んえど]|(?![らなけ]))|く(?:な[いかくさ]|ね[えー]?|)|ぐ(?:な[いか]|ね)|な(?:い|かった)"
    r"|けれ|さ(?![いせれん])|そう?|す(?:ぎ|ぎる)|過ぎ|み(?![たるれ])"
    r"|ゅ?う(?:な[いか]|て|[はも]な)|ん[じねやか]|が[りるっ]|[すさ]ん|ッ|っ(?![てたち])|ー|(?=[^ぁ-んァ-ヶ一-龠々]|$))")
_TOO_MUCH_TAIL = re.compile("ー?(?:す(?:ぎ|ん)|過ぎ)")
# An e-stem is said with a long vowel: やべえ, すげー.
_SPOKEN_TAIL = re.compile("[えエーっッ]")
_ANY_TAIL = re.compile("")

# Godan verbs: the dictionary form's last kana → what a stem goes on with.
_GODAN = {"う": "わいうえおっ", "く": "かきくけこい", "ぐ": "がぎぐげごい", "す": "さしすせそ", "つ": "たちつてとっ",
          "ぬ": "なにぬねのん", "ぶ": "ばびぶべぼん", "む": "まみむめもん", "る": "らりるれろっ"}
_KATAKANA_FROM_CHARACTERS = 3


class Word(NamedTuple):
    """A form of a word: its emotion ('' for one that only swallows) and weight in [-1, 1].

    ``ambivalent``: as much praise as blame; what stands around it decides. ``closed``: a phrase that
    holds its own negation, so that none after it counts.
    """

    emotion: str
    weight: float
    ambivalent: bool
    closed: bool
    tail: re.Pattern[str]


class Match(NamedTuple):
    """Where a word stands; ``end`` is the end of its stem, where a negation may begin."""

    start: int
    end: int
    word: Word


class _Lexicon(NamedTuple):
    words: dict[str, Word]
    first: re.Pattern[str]
    # First character → the lengths of the forms it begins, the longest first.
    lengths: dict[str, list[int]]


def even(text: str) -> str:
    """The text with every drawn-out sound as one stroke: 'すげえええ', 'すげぇ' and 'すげ〜' are 'すげー'."""
    return _DRAWN_OUT.sub(lambda match: match[0][0] if match[0][0] in "っッ" else "ー", text)


def find(text: str) -> list[Match]:
    """The words in a text made even, in their order, the longest at each place."""
    lexicon = load()
    found = []
    place = lexicon.first.search(text)
    while place:
        start = place.start()
        end = start + 1
        for length in lexicon.lengths[text[start]]:
            word = lexicon.words.get(text[start:start + length])
            if word and (tail := word.tail.match(text, start + length)):
                # Its own last letters must not begin another word: 嬉し|い|いね.
                end = tail.end()
                if word.emotion:
                    found.append(Match(start, start + length, word))
                break
        place = lexicon.first.search(text, end)
    return found


@cache
def load() -> _Lexicon:
    """The lexicon, read once and conjugated."""
    words: dict[str, Word] = {}
    derived: dict[str, Word] = {}
    for group in json.loads(_LEXICON.read_text("utf-8"))["groups"]:
        meaning = (group.get("emotion", ""), group.get("weight", 0.0), group.get("ambivalent", False),
                   group["class"] == "phrase")
        for listed in " ".join(group["words"]).split():
            (stem, tail), *others = forms(unicodedata.normalize("NFKC", listed).lower(), group["class"])
            words.setdefault(stem, Word(*meaning, tail))
            for form, tail in others:
                derived.setdefault(form, Word(*meaning, tail))
    # What is listed comes before what only a rule makes.
    words = derived | words
    lengths: dict[str, set[int]] = {}
    for form in words:
        lengths.setdefault(form[0], set()).add(len(form))
    return _Lexicon(words, re.compile("[" + re.escape("".join(lengths)) + "]"),
                    {first: sorted(found, reverse=True) for first, found in lengths.items()})


def forms(word: str, word_class: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every stem a word is found by, with what must follow it.

    Classes: 'adjective' (in い), 'excess' (the same, only with すぎる), 'godan' and 'ichidan' verbs,
    'noun' (a noun, na-adjective, interjection: as it is), 'phrase' (as it is, and not denied by what
    follows), 'swallow' (as it is, and says nothing).
    """
    for form, tail in _CONJUGATED[word_class](word):
        form = even(form)
        yield form, tail
        if re.fullmatch("[ぁ-んー]+", form) and (
                word_class == "adjective"
                or word_class in ("noun", "godan", "ichidan") and len(form) >= _KATAKANA_FROM_CHARACTERS):
            yield form.translate(_KATAKANA), tail


def _adjective(word: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    stem = word.removesuffix("い")
    yield stem, _ADJECTIVE_TAIL
    last = stem[-1]
    for row in _ROWS:
        # ai and oi are said ee.
        if len(row) == 5 and last in (row[0], row[4]):
            yield stem[:-1] + row[3], _SPOKEN_TAIL
    if re.fullmatch("[ぁ-ん]{2}", stem):
        yield f"{stem[0]}っ{stem[1]}", _ANY_TAIL


def _excess(word: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    yield word.removesuffix("い"), _TOO_MUCH_TAIL


def _godan(word: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    return ((word[:-1] + kana, _ANY_TAIL) for kana in _GODAN[word[-1]])


def _ichidan(word: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    yield word.removesuffix("る"), _ANY_TAIL


def _unchanged(word: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    yield word, _ANY_TAIL


_CONJUGATED = {"adjective": _adjective, "excess": _excess, "godan": _godan, "ichidan": _ichidan,
               "noun": _unchanged, "phrase": _unchanged, "swallow": _unchanged}
