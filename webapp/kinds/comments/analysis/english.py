"""How an English comment feels: VADER for half, n-gram weights learnt from GoEmotions for half."""
import json
import math
import re
import string
import unicodedata
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from vaderSentiment.vaderSentiment import (
    BOOSTER_DICT,
    C_INCR,
    N_SCALAR,
    NEGATE,
    SentimentIntensityAnalyzer,
    normalize,
    scalar_inc_dec,
)

from . import emoji

_WEIGHTS = Path(__file__).parent / "weights"
# The form the weights were trained on: bench/train_english.py uses this very expression.
TOKEN = re.compile(r"\b\w[\w']*\b|[^\w\s]")

# Said of what is bad, and among friends of what is very good: an approving emoji decides.
_SLANG = re.compile(r"\b(?:sick|insane|crazy|mad|wicked|killer|killing|killed|deadly|dope|nasty|filthy|savage|"
                    r"fire|beast|brutal|ridiculous|stupid|disgusting|criminal|damn|bad ?ass|hard)\b(?! (?:of|at|to)\b)",
                    re.IGNORECASE)
_APPROVING_FROM = 1.0

_NEGATIONS = frozenset(NEGATE)


class English(NamedTuple):
    """A score in [-1, 1] and one of the nine emotions."""

    score: float
    emotion: str


def read(text: str, signs: list[emoji.Sign]) -> English:
    """The score and the emotion of a prepared English text and the emoji taken out of it.

    score = ½·VADER's compound + ½·(p positive − p negative), and what the emoji add.
    """
    if signs and _only_approving(signs):
        text = _SLANG.sub(" ", text)
    weights = _weights()
    polarity, emotions = weights.logits(tokens(text))
    score = 0.5 * vader().compound(text) + 0.5 * _lean(polarity)
    feeling = weights.emotions[emotions.index(max(emotions))]
    if not signs:
        return English(score, feeling)
    if not any(map(str.isalpha, text)):
        return English(emoji.balance(signs), emoji.emotion(signs))
    if feeling == "neutral":
        feeling = emoji.emotion(signs)
    return English(max(-1.0, min(1.0, score + emoji.beside_words(signs))), feeling)


def tokens(text: str) -> list[str]:
    """The words and signs the weights know a text by: lower case, without accents."""
    text = text.lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return TOKEN.findall(text)


@cache
def vader() -> "Vader":
    """The one VADER of this process; its lexicon is read at the first call."""
    return Vader()


class Vader(SentimentIntensityAnalyzer):
    """VADER's compound score, equal to the stock analyser's and without its repeated work.

    Rules and constants are those of Hutto and Gilbert, "VADER: A Parsimonious Rule-based Model for
    Sentiment Analysis of Social Media Text" (ICWSM 2014), as vaderSentiment 3.3 has them. What differs
    is cost only: words are put into lower case once, and the rules run for words of the lexicon.
    """

    def __init__(self) -> None:
        super().__init__()
        self._signs = frozenset(self.emojis)

    def compound(self, text: str) -> float:
        """The compound score in [-1, 1], to four digits."""
        if not self._signs.isdisjoint(text):
            text = self._described(text)
        text = text.strip()
        words = [_bare(word) for word in text.split()]
        lower = [word.lower() for word in words]
        lexicon = self.lexicon
        shouted = sum(map(str.isupper, words))
        some_shouted = 0 < shouted < len(words)
        sentiments = [
            self._valence(words, lower, i, some_shouted) if word in lexicon and word not in BOOSTER_DICT else 0.0
            for i, word in enumerate(lower)
        ]
        if "but" in lower:
            sentiments = self._but_check(lower, sentiments)
        total = float(sum(sentiments))
        if not total:
            return 0.0
        emphasis = self._punctuation_emphasis(text)
        return round(normalize(total + emphasis if total > 0 else total - emphasis), 4)

    def _described(self, text: str) -> str:
        """Emoji as words. The spaces are the stock analyser's: they decide what is one word."""
        parts = []
        after_space = True
        for sign in text:
            description = self.emojis.get(sign)
            if description is None:
                parts.append(sign)
                after_space = sign == " "
            else:
                parts.append(description if after_space else " " + description)
                after_space = False
        return "".join(parts)

    def _valence(self, words: list[str], lower: list[str], i: int, some_shouted: bool) -> float:
        """What the lexicon's word at ``i`` adds, after the three words before it had their say."""
        lexicon = self.lexicon
        word = lower[i]
        valence = lexicon[word]
        if word == "kind" and lower[i + 1:i + 2] == ["of"]:
            return 0.0
        if word == "no" and i + 1 < len(lower) and lower[i + 1] in lexicon:
            valence = 0.0
        if "no" in lower[max(0, i - 2):i] or i > 2 and lower[i - 3] == "no" and lower[i - 1] in ("or", "nor"):
            valence = lexicon[word] * N_SCALAR
        if some_shouted and words[i].isupper():
            valence = self._shout(valence)
        for distance, damping in ((1, 1.0), (2, 0.95), (3, 0.9)):
            if i < distance:
                break
            before = lower[i - distance]
            if before in lexicon:
                continue
            if before in BOOSTER_DICT:
                valence += scalar_inc_dec(words[i - distance], valence, some_shouted) * damping
            valence *= _negation(lower, i, distance)
            if distance == 3:
                valence = self._special_idioms_check(valence, lower[i - 3:i + 3], 3)
        if i and lower[i - 1] == "least":
            valence = self._least_check(valence, lower, i)
        return valence

    @staticmethod
    def _shout(valence: float) -> float:
        return valence + C_INCR if valence > 0 else valence - C_INCR


class _Weights:
    """Both sets of weights under one dictionary, so that a text's n-grams are looked up once."""

    def __init__(self, polarity: dict, emotion: dict) -> None:
        self.emotions: list[str] = emotion["classes"]
        self._polarity_bias = polarity["bias"]
        self._emotion_bias = emotion["bias"]
        # n-gram → (polarity's idf and row, emotion's idf and row), each row with the scale in it.
        self._terms = {
            ngram: (*_row(polarity, ngram), *_row(emotion, ngram))
            for ngram in polarity["terms"].keys() | emotion["terms"].keys()
        }

    def logits(self, words: list[str]) -> tuple[list[float], list[float]]:
        """The logits of the polarities and of the emotions; the biases alone for unknown words."""
        terms = self._terms
        counts: dict[str, int] = {}
        for ngram in words:
            if ngram in terms:
                counts[ngram] = counts.get(ngram, 0) + 1
        for pair in pairwise(words):
            ngram = " ".join(pair)
            if ngram in terms:
                counts[ngram] = counts.get(ngram, 0) + 1
        polarity, emotion = [], []
        for ngram, n in counts.items():
            idf, row, emotion_idf, emotion_row = terms[ngram]
            frequency = 1.0 if n == 1 else 1.0 + math.log(n)
            if idf:
                polarity.append((frequency * idf, row))
            if emotion_idf:
                emotion.append((frequency * emotion_idf, emotion_row))
        return _sum(self._polarity_bias, polarity), _sum(self._emotion_bias, emotion)


@cache
def _weights() -> _Weights:
    return _Weights(*(json.loads((_WEIGHTS / name).read_text("utf-8"))
                      for name in ("en_polarity_4000.json", "en_emotion_3000.json")))


def _row(model: dict, ngram: str) -> tuple[float, tuple[float, ...]]:
    idf, *row = model["terms"].get(ngram, (0.0,))
    return idf, tuple(model["scale"] * weight for weight in row)


def _sum(bias: list[float], rows: list[tuple[float, tuple[float, ...]]]) -> list[float]:
    """bias + Σ weight·row over the vector of weights at length 1."""
    if not rows:
        return bias
    norm = math.sqrt(sum(weight * weight for weight, _ in rows))
    factors = [weight / norm for weight, _ in rows]
    return [start + sum(map(float.__mul__, factors, column))
            for start, column in zip(bias, zip(*(row for _, row in rows)))]


def _lean(logits: list[float]) -> float:
    """p positive − p negative."""
    negative, neutral, positive = map(math.exp, logits)
    return (positive - negative) / (negative + neutral + positive)


def _negation(lower: list[str], i: int, distance: int) -> float:
    """What a negation ``distance`` words before ``i`` multiplies a valence by; 1 without one."""
    before = lower[i - distance]
    if distance > 1 and before == "never" and {"so", "this"} & set(lower[i - distance + 1:i][:2]):
        return 1.25
    if distance == 3 and lower[i - 1] in ("so", "this"):
        return 1.25
    if distance > 1 and before == "without" and "doubt" in lower[i - distance + 1:i]:
        return 1.0
    return N_SCALAR if before in _NEGATIONS or "n't" in before else 1.0


def _bare(word: str) -> str:
    """The word without punctuation around it; what would be two letters or fewer may be a face."""
    stripped = word.strip(string.punctuation)
    return word if len(stripped) <= 2 else stripped


def _only_approving(signs: list[emoji.Sign]) -> bool:
    return (any(weight >= _APPROVING_FROM for _, weight in signs)
            and all(weight >= 0 for _, weight in signs))
