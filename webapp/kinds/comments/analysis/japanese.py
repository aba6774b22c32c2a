"""How a Japanese comment feels, from a lexicon of substrings; no tokenizer and no dictionary."""
import json
import re
import unicodedata
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from . import emoji

_LEXICON = Path(__file__).parent / "weights" / "ja_lexicon.json"

NEGATION_MAX_CHARACTERS = 9
NEGATED_BY = -0.8
CONCEDED_BY = 0.7

_CLAUSE_END = re.compile(r"[。、,.!?\n「」()]")
# Holds a negation's letters without denying anything: 'must be', 'only', 'cannot stop', 'surely' …
_NO_NEGATION = re.compile(r"かもしれな|かもしれません|しかな|違いな|違いありません|止まらな|とまらな|たまらな|堪らな|半端な|ハンパな|"
                          r"(?:じゃ|では)な(?:い|いです)か|じゃない?[?]|くない[?]|ませんか|なくちゃ|なきゃ|なければ|ないと|ないわけ|"
                          r"まず|必ず|思わず|おもわず|相変わらず|はず|ずっと|ずつ|恥ず|ずる|ずれ|ずば|いずれ|わずか")
_NEGATION = re.compile(r"な(?:い|かっ|く)|なし$|ません|ず(?:$|に|、)|ねえ|ねぇ|ねーよ|へん(?:$|で)|んかった")
# What stands before 'but' counts less than what stands after it.
_CONCESSION = re.compile(r"けれど|けど|(?<!も)のに(?!お)|ですが|ますが|ましたが|でしたが")
_SAYS_SOMETHING = re.compile(r"\w{2,}")


# Shed when moved as much as when sad.
_TEARS = "泣涙"
_CRYING_FACE = emoji.TABLE["😭"]


class Japanese(NamedTuple):
    """A score in [-1, 1] and one of the nine emotions."""

    score: float
    emotion: str


class _Match(NamedTuple):
    start: int
    end: int
    emotion: str
    weight: float


def read(text: str, signs: list[emoji.Sign]) -> Japanese:
    """The score and the emotion of a prepared Japanese text and the emoji taken out of it.

    score = Σ weights / √n over the n words and signs found. A negation soon after a word turns it
    round at 0.8; what is conceded ('…けど') counts 0.7.
    """
    text = text.lower()
    matches = _matches(text)
    concessions = [match.start() for match in _CONCESSION.finditer(text)
                   if _SAYS_SOMETHING.search(text, match.end())]
    found = [_in_context(text, match, following, concessions)
             for match, following in zip(matches, [*(m.start for m in matches[1:]), len(text)])]
    found += signs + emoji.emoticons(text) + emoji.laughter(text)
    found = _without_happy_tears(found, [text[match.start] in _TEARS for match in matches])
    return Japanese(emoji.balance(found), emoji.emotion(found) or "neutral")


def _matches(text: str) -> list[_Match]:
    """The lexicon's words in a text, the longest at each place; one that swallows is left out."""
    lexicon = _lexicon()
    found = []
    place = lexicon.first.search(text)
    while place:
        start = place.start()
        end = start + 1
        for length in lexicon.lengths[text[start]]:
            entry = lexicon.entries.get(text[start:start + length])
            if entry and start + length <= len(text):
                end = start + length
                if entry[0]:
                    found.append(_Match(start, end, *entry))
                break
        place = lexicon.first.search(text, end)
    return found


def _in_context(text: str, match: _Match, following: int, concessions: list[int]) -> emoji.Sign:
    """The match as a sign, after negation and concession. The next match has its own negation."""
    emotion, weight = match.emotion, match.weight
    after = text[match.end:min(match.end + NEGATION_MAX_CHARACTERS, following)]
    clause = _NO_NEGATION.sub("＿", _CLAUSE_END.split(after, maxsplit=1)[0] + _asked(after))
    if _NEGATION.search(clause):
        emotion = "sadness" if weight > 0 else "neutral"
        weight *= NEGATED_BY
    if any(match.end <= concession for concession in concessions):
        weight *= CONCEDED_BY
    return emotion, weight


def _without_happy_tears(found: list[emoji.Sign], are_tears: list[bool]) -> list[emoji.Sign]:
    """Without the tears, where what else was said is glad: 'moved to tears' is not a sad thing."""
    dry = [sign for sign, tears in zip_longest(found, are_tears, fillvalue=False)
           if not (tears and sign[1] < 0) and sign != _CRYING_FACE]
    return dry if sum(weight for _, weight in dry) > 0 else found


def _asked(after: str) -> str:
    """The question mark that ends the clause: 'isn't it good?' denies nothing."""
    end = _CLAUSE_END.search(after)
    return "?" if end and end[0] == "?" else ""


class _Lexicon(NamedTuple):
    entries: dict[str, tuple[str | None, float]]
    first: re.Pattern[str]
    # First character → the lengths of the entries it begins, the longest first.
    lengths: dict[str, list[int]]


@cache
def _lexicon() -> _Lexicon:
    """Read once. Laughter is left out: emoji.laughter counts it, wherever it stands."""
    entries = {unicodedata.normalize("NFKC", key).lower(): (emotion, weight)
               for key, (emotion, weight) in json.loads(_LEXICON.read_text("utf-8"))["entries"].items()}
    for laugh in ("(笑)", "ww", "www", "笑笑", "草"):
        del entries[laugh]
    lengths: dict[str, set[int]] = {}
    for key in entries:
        lengths.setdefault(key[0], set()).add(len(key))
    return _Lexicon(entries, re.compile("[" + re.escape("".join(lengths)) + "]"),
                    {first: sorted(found, reverse=True) for first, found in lengths.items()})
