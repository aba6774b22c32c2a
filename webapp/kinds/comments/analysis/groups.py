"""Which comments say the same in other words, spellings or signs.

A text becomes a set of features: its words, or, where a script has no spaces, its pairs of characters.
Two texts say the same where their sets are alike (Jaccard). Order, case, punctuation, emoji and
drawn-out letters make no difference; a negation always does.
"""
import re
import zlib
from array import array
from collections import Counter
from functools import lru_cache
from itertools import chain

from . import language

ALIKE_FROM = 0.65           # of Jaccard's index
FEATURES_MAX = 48           # of a long text: those with the smallest hashes, the same ones in every copy
LEADERS_A_FEATURE = 16      # of the groups that hold a feature: the heaviest and the newest
COMPARED_MAX = 24           # groups that one text is compared with: what bounds the time for hostile texts

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Scripts without spaces: Thai, kana, Chinese characters.
_DENSE_RANGES = "\u0e00-\u0e7f\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_DENSE = re.compile(f"[{_DENSE_RANGES}]")
_DENSE_RUN = re.compile(f"[{_DENSE_RANGES}]+|[^{_DENSE_RANGES}]+")
_DRAWN_OUT = re.compile(r"([^\d\s])\1+")
_DRAWN_OUT_KANA = re.compile("[ーｰ〜~ぁぃぅぇぉっ]")
_NEGATIONS = frozenset("not no never cannot without dont doesnt didnt isnt wasnt cant wont aint".split())
_NEGATION = re.compile("ない(?!です(?:か|よね))|ません|なかった")
_NEGATED = 0x5bd1e995       # any number: what a negated text holds is another feature
_SPELLED = {"u": "you", "ur": "your", "r": "are", "pls": "please", "plz": "please", "whats": "what", "im": "i",
            "thx": "thanks", "ty": "thanks", "luv": "love", "vid": "video", "pt": "part", "n": "and"}
_ENDINGS = re.compile(r"'(?:s|re|m|ll|ve|d)$")
# What may be there or not without changing what is said.
FILLERS = frozenset("a an the so really very just please bro man guys dude lol lmao omg oh and is are was i am my this "
                     "that it its of to in yes yeah wow haha ha "
                    # laughs and the letters that faces are made of: emoji are no words anyway
                    "w xd d p t o ω д".split())
_LAUGHS = frozenset("w 笑 草".split())


def features(text: str) -> array:
    """The features of a text, 32-bit numbers, sorted, at most ``FEATURES_MAX``; of one without words its signs are the
    feature. Empty where there is nothing."""
    return features_of(plain(text))


def plain(text: str) -> str:
    """The text without case, addresses and mentions, in one form (see ``language.prepare``)."""
    return language.prepare(text).lower().replace("<3", " ")


def features_of(bare: str, fillers: frozenset = FILLERS) -> array:
    """``features`` of a text that is ``plain`` already, with other words passed over."""
    read = [_read(word) for word in dict.fromkeys(_WORD.findall(bare))]
    found = ({number for spelled, hashes, _ in read if spelled not in fillers for number in hashes}
             or {number for _, hashes, _ in read for number in hashes}
             or _signs(bare))
    if any([negates for *_, negates in read]):
        found = {number ^ _NEGATED for number in found}
    return array("I", sorted(found)[:FEATURES_MAX])


def _signs(bare: str) -> set[int]:
    """One feature for all signs of a text without words, whatever their order and number."""
    signs = "".join(sorted({*bare} - {" ", "\n"}))
    return {zlib.crc32(signs.encode("utf-8", "replace"))} if signs else set()


@lru_cache(maxsize=1 << 15)     # most words of a video's comments are the same few thousand
def _read(word: str) -> tuple[str, tuple[int, ...], bool]:
    """How the word is spelled, the hashes of its features, and whether it negates."""
    if _DENSE.search(word):
        pieces = _pairs(word)
        return word, tuple(zlib.crc32(piece.encode()) for piece in pieces), bool(_NEGATION.search(word))
    spelled = _SPELLED.get(word) or _ENDINGS.sub("", word)
    negates = spelled in _NEGATIONS or spelled.endswith("n't")
    short = _DRAWN_OUT.sub(r"\1", spelled)
    return short if short in FILLERS else spelled, (zlib.crc32(short.encode()),), negates


def _pairs(word: str) -> list[str]:
    pairs = []
    for run in _DENSE_RUN.findall(_DRAWN_OUT.sub(r"\1", _DRAWN_OUT_KANA.sub("", word))):
        if run in _LAUGHS:
            continue
        if _DENSE.match(run):
            pairs += [run[place:place + 2] for place in range(max(1, len(run) - 1))]
        else:
            pairs.append(run)
    return pairs


def alike(one: set, other: array) -> float:
    """Jaccard's index, 0 to 1; of two long texts estimated from the smallest hashes of their union (bottom-k
    sketch, Cohen & Kaplan 2007)."""
    if len(one) < FEATURES_MAX or len(other) < FEATURES_MAX:
        shared = len(one.intersection(other))
        return shared / (len(one) + len(other) - shared)
    shared = one.intersection(other)
    return sum(number in shared for number in sorted(one.union(other))[:FEATURES_MAX]) / FEATURES_MAX


def cluster(sets: list[array], weights: list[int], alike_from: float = ALIKE_FROM) -> list[list[int]]:
    """The groups that weigh two or more, each a list of places in ``sets``, its leader first; heaviest first.

    Every text is compared with the leaders that share one of its rarest features. Two sets as alike as
    ``alike_from`` must share one of their first ``n − ⌈alike_from·n⌉ + 1`` features in any common order
    (prefix filtering, Chaudhuri, Ganti & Kaushik 2006); rarest first makes the comparisons few. Sets
    without features, and weights below 1, are left out.
    """
    spread = Counter(chain.from_iterable(sets))
    order = {feature: count << 32 | feature for feature, count in spread.items()}      # rarest first
    leaders, groups = {}, {}
    for place in sorted(range(len(sets)), key=lambda one: (-weights[one], one)):
        if not sets[place]:
            continue
        rarest = sorted(sets[place], key=order.__getitem__)
        prefix = [feature for feature in rarest[:int(len(rarest) * (1 - alike_from) + 1e-9) + 1] if spread[feature] > 1]
        leader = _leader(set(rarest), prefix, leaders, sets, alike_from)
        groups.setdefault(place if leader is None else leader, []).append(place)
        if leader is not None:
            continue
        for feature in prefix:
            held = leaders.setdefault(feature, [])
            held.append(place)
            if len(held) > LEADERS_A_FEATURE:
                del held[LEADERS_A_FEATURE // 2]
    heavy = [places for places in groups.values() if len(places) > 1 or weights[places[0]] > 1]
    return sorted(heavy, key=lambda places: (-sum(weights[one] for one in places), places[0]))


def _leader(mine, prefix, leaders, sets, alike_from):
    """The leader most alike, or None."""
    best, compared, least = (alike_from, None), set(), alike_from * len(mine)
    for feature in prefix:
        for other in leaders.get(feature, ()):
            size = len(sets[other])
            if other in compared or size < least or len(mine) < alike_from * size:
                continue
            if len(compared) == COMPARED_MAX:
                return best[1]
            compared.add(other)
            likeness = alike(mine, sets[other])
            if likeness > best[0] or best[1] is None and likeness >= alike_from:
                best = (likeness, other)
    return best[1]
