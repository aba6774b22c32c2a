"""VADER, the rules and the lexicon of vaderSentiment, several times faster than the stock analyser."""
import string
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

_NEGATIONS = frozenset(NEGATE)


class Valence(NamedTuple):
    """``compound`` in [-1, 1] as VADER has it; ``good`` and ``bad`` in [0, 1]: the valences on either
    side, each added up and normalised as the compound is: x / √(x² + 15).
    """

    compound: float
    good: float
    bad: float


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
        return self.read(text).compound

    def read(self, text: str) -> "Valence":
        """The compound score, and what is good and what is bad for themselves."""
        if not self._signs.isdisjoint(text):
            text = self._described(text)
        text = text.strip()
        # Without punctuation around it; what would be two letters or fewer may be a face.
        words = [word if len(bare := word.strip(string.punctuation)) <= 2 else bare for word in text.split()]
        lower = [word.lower() for word in words]
        lexicon = self.lexicon
        shouted = 0 if text.islower() else sum(map(str.isupper, words))
        some_shouted = 0 < shouted < len(words)
        sentiments = [
            self._valence(words, lower, i, some_shouted) if word in lexicon and word not in BOOSTER_DICT else 0.0
            for i, word in enumerate(lower)
        ]
        if "but" in lower:
            sentiments = self._but_check(lower, sentiments)
        total = float(sum(sentiments))
        if not total:
            compound = 0.0
        else:
            emphasis = self._punctuation_emphasis(text)
            compound = round(normalize(total + emphasis if total > 0 else total - emphasis), 4)
        good = sum(sentiment for sentiment in sentiments if sentiment > 0)
        return Valence(compound, normalize(good), normalize(good - total))

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
