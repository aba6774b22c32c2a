"""How an English comment feels: one regression over its n-grams and VADER's reading, and idioms and emoji beside it."""
import base64
import json
import math
import re
import string
import struct
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import NamedTuple

from vaderSentiment.vaderSentiment import BOOSTER_DICT

from . import emoji, idioms
from .vader import Vader

WEIGHTS = Path(__file__).parent / "weights" / "english.json"
# The form the weights were trained on: bench/train_english.py reads through this module.
_TOKEN = re.compile(r"\b\w+\b|[^\w\s]")
_STRETCHED = re.compile(r"\b\w*?([^\W\d_])\1{2}\w*", re.IGNORECASE)
# Finds what _RUN finds and more, in a fifth of the time.
THREE_ALIKE = re.compile(r"(.)\1\1", re.IGNORECASE)
_RUN = re.compile(r"([^\W\d_])\1{2,}", re.IGNORECASE)
_INFLECTED = re.compile(r"(\w{3,}?)(?:s|d|ed|ing|ers?|ists?|ly|y|ish)")
_SLIP_FROM_LETTERS = 5
_SLIP_TO_LETTERS = 16

# What an idiom of full weight adds to the logit of its side, and takes from the other's. Emoji beside words count less.
_LOGITS_OF_SIGNS = 5.0


class English(NamedTuple):
    """A score in [-1, 1] and one of the nine emotions."""

    score: float
    emotion: str


class Evidence(NamedTuple):
    """What the regression sees of a text: its words and signs in order, and numbers about all of it.

    ``measures``: VADER's compound, its size, what is good, what is bad; exclamation marks (up to three,
    thirds), whether something is asked (0 or 1), ln(1 + words) / 5.
    """

    words: list[str]
    measures: tuple[float, ...]


def read(text: str, signs: list[emoji.Sign]) -> English:
    """The score and the emotion of a prepared English text and the emoji taken out of it.

    The likeliest of three classes decides, and the score agrees with it. With d = p positive −
    p negative: ½·d in [-¼, ¼] for neutral, ¼ + ¾·d above it for positive, −¼ + ¾·d below for negative.
    Idioms and emoji shift the logits. A text of words nobody knows, or an advertisement, is neutral.
    """
    text = unstretched(text)
    words = tokens(text)
    if idioms.is_advert(text, words):
        return English(0.0, "neutral")
    rest, found = idioms.read(text, words, _only_approving(signs))
    if rest != text:
        words = tokens(rest)
    if not any(map(str.isalpha, rest)):
        return English(emoji.balance(found + signs), emoji.emotion(found + signs) or "neutral")
    polarity, emotions, is_known = model().logits(evidence(rest, words))
    if not is_known:
        polarity = [0.0, 1.0, 0.0]
    negative, neutral, positive = _shifted(polarity, emoji.balance(found))
    is_irony = positive > max(negative, neutral) and emoji.IRONIC in signs and not _approves(signs)
    if is_irony:
        negative, positive = positive, negative
    score = _score(*_shifted((negative, neutral, positive), emoji.beside_words(signs)))
    feeling = model().emotions[emotions.index(max(emotions))] if is_known else "neutral"
    if feeling == "neutral" or found or is_irony:
        feeling = emoji.emotion(found + signs) or feeling
    return English(score, feeling)


def evidence(text: str, words: list[str]) -> Evidence:
    """The evidence in a prepared English text without emoji, idioms and stretched words, and its tokens."""
    valence = vader().read(text)
    return Evidence(words, (valence.compound, abs(valence.compound), valence.good, valence.bad,
                            min(text.count("!"), 3) / 3, float("?" in text), math.log(1 + len(words)) / 5))


def unstretched(text: str) -> str:
    """The text with 'gooood' as 'good' and 'soooo' as 'so'."""
    return _STRETCHED.sub(_short, text) if THREE_ALIKE.search(text) else text


def tokens(text: str) -> list[str]:
    """The words and signs the weights know a text by: lower case, without accents and apostrophes."""
    return _TOKEN.findall(plain(text))


def plain(text: str) -> str:
    """The text in lower case, without accents and apostrophes."""
    text = text.lower().replace("'", "")
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return text


def knows(word: str) -> bool:
    """True for a word, in the form ``plain`` gives, that the weights, VADER or the idioms have."""
    return word in model() or word in vader().lexicon or idioms.knows(word)


def resembles(word: str) -> bool:
    """True for the form of a known word, two known words in one (thumbnail), or a slip within one (awsome)."""
    if (stem := _INFLECTED.fullmatch(word)) and (knows(stem[1]) or knows(stem[1] + "e")):
        return True
    if any(knows(word[:i]) and knows(word[i:]) for i in range(4, len(word) - 2)):
        return True
    if not _SLIP_FROM_LETTERS <= len(word) <= _SLIP_TO_LETTERS:
        return False
    # Between its ends: perfecto and musica are no slips.
    cuts = range(1, len(word) - 1)
    return (any(knows(word[:i] + word[i + 1:]) or knows(word[:i] + word[i + 1] + word[i] + word[i + 2:]) for i in cuts)
            or any(knows(word[:i] + letter + word[i:]) for i in (*cuts, len(word) - 1) for letter in string.ascii_lowercase))


def ngrams(words: list[str]) -> list[str]:
    """The words, and every two that follow each other, with a space between."""
    return words + list(map(" ".join, pairwise(words)))


@cache
def vader() -> Vader:
    """The one VADER of this process; its lexicon is read at the first call."""
    return Vader()


class Model:
    """The regressions for polarity and for emotion, over one dictionary of n-grams.

    ``form`` is what bench/train_english.py writes: ``polarities`` and ``emotions``, the names of the
    3 + 9 columns; ``bias`` and each of ``measures`` (one for each number of ``Evidence``), a number
    for each column; ``faint_length``, see ``logits``; ``terms``, the n-grams, one a line; ``rows``,
    Base85 of 1 + 12 bytes for each n-gram: its idf in steps of ``idf_step``, and its weights in steps
    of the column's ``scale``, plus 128.
    """

    def __init__(self, form: dict) -> None:
        self.emotions: list[str] = form["emotions"]
        self._bias = form["bias"]
        self._measures = list(zip(*form["measures"]))
        self._scale = form["scale"]
        self._faint = (form["faint_length"] / form["idf_step"]) ** 2
        rows = base64.b85decode(form["rows"])
        width = 1 + len(self._bias)
        # A row is one whole number, 32 bits for each of its bytes, so that one product and one sum serve every
        # column. None runs into the next: the 4,000 n-grams of the longest text come to 4,000 · 255² < 2³².
        self._lanes = struct.Struct(f"<{width}I")
        wide = bytearray(4 * len(rows))
        wide[::4] = rows
        self._rows = {term: int.from_bytes(wide[start:start + self._lanes.size], "little")
                      for term, start in zip(form["terms"].split("\n"), range(0, len(wide), self._lanes.size))}

    def __contains__(self, ngram: str) -> bool:
        return ngram in self._rows

    def logits(self, seen: Evidence) -> tuple[list[float], list[float], bool]:
        """The logits of negative, neutral, positive, those of the emotions, and whether a word is known.

        An n-gram that is there n times weighs v = (1 + ln n)·idf, over √(Σv² + faint_length²): a long
        text comes near the length 1, a common word by itself stays faint.
        """
        rows = self._rows
        known = [ngram for ngram in ngrams(seen.words) if ngram in rows]
        counts = Counter(known)
        totals = [start + sum(map(mul, seen.measures, column)) for start, column in zip(self._bias, self._measures)]
        if counts:
            found = [rows[ngram] for ngram in counts]
            factors = [row & 255 for row in found]
            if len(counts) < len(known):
                factors = [round(idf * (1.0 + math.log(n))) for idf, n in zip(factors, counts.values())]
            length = math.sqrt(sum(map(mul, factors, factors)) + self._faint)
            _, *lanes = self._lanes.unpack(sum(map(mul, factors, found)).to_bytes(self._lanes.size, "little"))
            middle = 128 * sum(factors)
            totals = [total + (lane - middle) / length * scale
                      for total, lane, scale in zip(totals, lanes, self._scale)]
        is_known = bool(seen.measures[1]) or any(any(map(str.isalpha, ngram)) for ngram in counts)
        return totals[:3], totals[3:], is_known


@cache
def model() -> Model:
    """The weights of this process, read at the first call."""
    return Model(json.loads(WEIGHTS.read_text("utf-8")))


def _shifted(logits: Sequence[float], shift: float) -> tuple[float, float, float]:
    """The logits after signs had their say."""
    negative, neutral, positive = logits
    return negative - _LOGITS_OF_SIGNS * shift, neutral, positive + _LOGITS_OF_SIGNS * shift


def _score(negative: float, neutral: float, positive: float) -> float:
    """The score from the logits: on the side of the likeliest class, ±¼ its border."""
    highest = max(negative, neutral, positive)
    against, between, for_it = (math.exp(logit - highest) for logit in (negative, neutral, positive))
    lean = (for_it - against) / (against + between + for_it)
    if between >= max(against, for_it):
        return 0.5 * lean
    return 0.75 * lean + math.copysign(0.25, lean)


def _short(match: re.Match[str]) -> str:
    """The form of a stretched word that VADER knows, with two letters or one; else the shorter."""
    twice, once = (_RUN.sub(form, match[0]) for form in (r"\1\1", r"\1"))
    return twice if twice.lower() in vader().lexicon or twice.lower() in BOOSTER_DICT else once


def _approves(signs: list[emoji.Sign]) -> bool:
    return any(weight >= idioms.APPROVING_FROM for _, weight in signs)


def _only_approving(signs: list[emoji.Sign]) -> bool:
    return _approves(signs) and all(weight >= 0 for _, weight in signs)
