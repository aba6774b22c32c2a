"""The distinct texts of all comments: who says the same, what they ask, the strongest examples.

Spam repeated a hundred times is one saying with a count: one voice where words and examples are chosen. What many say
or ask is ranked by its voices: its authors, and each comment whose author is not known; what is spam comes last.
"""
import re
import unicodedata
from hashlib import blake2b
from heapq import nsmallest

from . import groups

EXCERPT_CHARACTERS_MAX = 240
EXAMPLES_MAX = 5
EXAMPLES_CONSIDERED = 60
EXAMPLES_ALIKE_MAX = 0.5        # more alike than this is the same example again
ASKS_ALIKE_FROM = 0.6
ENDING_CHARACTERS_MAX = 30
# The same this often, by at most one author for so many comments, is spam.
SPAM_COPIES_MIN = 5
SPAM_COPIES_AN_AUTHOR = 3

_ASK_FILLERS = groups.FILLERS | frozenset(
    "what which where when who how why do does did can could would will should you your we me us please know tell "
    "anyone someone anybody there here be been get got have has for on in at with by from make made new some any "
    "if name called title love see like want need more hope maybe also again one".split())
_ASK_ENDINGS = re.compile(
    r"(?:を|って|は|が|も|の)*(?:教えて|おしえて|お願い(?:し|いたし|致し)|希望|知りたい|ほしい|欲しい|して|(?:くだ|下)さい|ください|なん|何)*"
    r"(?:でしょうか|ですか|ますか|ませんか|ください|下さい|です|ます|かな|の|か|ね|よ)*$")
_SIGNS_AT_END = re.compile(r"[\W_]+$")


class Saying:
    """One distinct text. ``text``: its first characters; ``count``: how many comments are it; ``likes``: of all
    of them, None where unknown; ``authors``: numbers of those known; ``unsigned``: comments of nobody known."""

    __slots__ = ("_text", "language", "label", "score", "emotion", "count", "likes", "authors", "unsigned", "features",
                 "asked", "place")

    def __init__(self, comment, scored, features, asked, place):
        self._text = shortened(" ".join(comment.text[:4 * EXCERPT_CHARACTERS_MAX].split())).encode("utf-8", "replace")
        self.language, self.label, self.score, self.emotion = scored
        self.features, self.asked, self.place = features, asked, place
        self.count, self.likes, self.authors, self.unsigned = 0, None, (), 0

    def repeat(self, likes, author):
        self.count += 1
        if likes is not None:
            self.likes = likes + (self.likes or 0)
        if author is None:
            self.unsigned += 1
        elif author in self.authors:
            return
        elif not self.authors:
            self.authors = (author,)        # as most texts have it: a tenth of a set
        elif isinstance(self.authors, tuple):
            self.authors = {*self.authors, author}
        else:
            self.authors.add(author)

    @property
    def text(self):
        return self._text.decode()

    @property
    def spam(self):
        return _is_spam(self.count, self.authors, self.unsigned)


def _is_spam(count, authors, unsigned):
    """The same many times from few authors; never said where no author is known."""
    return count >= SPAM_COPIES_MIN and bool(authors) and (len(authors) + unsigned) * SPAM_COPIES_AN_AUTHOR <= count


def fingerprint(text):
    """The same for texts that differ in case, width, space or final punctuation."""
    bare = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!。、!?… ") or text
    return blake2b(bare.encode("utf-8", "replace"), digest_size=8).digest()


def shortened(text):
    return text if len(text) <= EXCERPT_CHARACTERS_MAX else text[:EXCERPT_CHARACTERS_MAX - 1].rstrip() + "…"


def same(sayings):
    """Groups that say the same, a mapping each (see ``_told``), those of most voices first."""
    places = groups.cluster([one.features for one in sayings], [one.count for one in sayings])
    found = [_told([sayings[place] for place in members]) for members in places]
    return sorted(found, key=lambda one: (one["spam"], -one["voices"], -one["count"]))


def asked(sayings, kind):
    """What is asked, of this ``kind``, mapping by mapping; what many people ask, or like, first."""
    asking = [one for one in sayings if one.asked and one.asked.kind == kind]
    sets = [_asking_features(one) for one in asking]
    grouped = groups.cluster(sets, [one.count for one in asking], ASKS_ALIKE_FROM)
    alone = set(range(len(asking))).difference(*grouped)
    found = []
    for members in [*grouped, *([place] for place in alone)]:
        members = [asking[place] for place in members]
        # Of what one person wrote ten times, and of ten who ask, the most liked wording is shown.
        first = min(members, key=lambda one: (-(one.likes or 0), one.place))
        found.append({**_told(members), "text": first.asked.sentence, "language": first.language})
    # A like is one more who asks, as in the like-weighted mood.
    return sorted(found, key=lambda one: (one["spam"], -one["voices"] - (one["likes"] or 0), -one["voices"],
                                         -one["count"], one["text"]))


def _asking_features(saying):
    sentence = groups.plain(saying.asked.sentence)
    if saying.language == "ja":
        bare = _SIGNS_AT_END.sub("", sentence)
        # Only the end is searched: the pattern's time grows with the cube of the length.
        ending = bare[-ENDING_CHARACTERS_MAX:]
        sentence = bare[:len(bare) - len(ending)] + _ASK_ENDINGS.sub("", ending, count=1) or sentence
    return groups.features_of(sentence, _ASK_FILLERS)


def _told(members):
    """``count``: comments; ``wordings``: distinct texts; ``authors``: None unless all are known; ``voices``: those
    known, and each comment of nobody known; ``mean``: mood."""
    scored = sum(one.count for one in members if one.score is not None)
    total = sum(one.count * one.score for one in members if one.score is not None)
    likes = [one.likes for one in members if one.likes is not None]
    count, unsigned = sum(one.count for one in members), sum(one.unsigned for one in members)
    authors = set().union(*(one.authors for one in members))
    return {"text": members[0].text, "language": members[0].language, "count": count,
            "wordings": len(members), "authors": None if unsigned else len(authors), "voices": len(authors) + unsigned,
            "likes": sum(likes) if likes else None, "mean": round(total / scored, 3) if scored else None,
            "spam": _is_spam(count, authors, unsigned)}


def strongest(sayings, label):
    """The strongest examples of a side: spam after all else, what can be read whole before a lone emoji or an essay,
    then score, likes, order; no two alike."""
    ranked = nsmallest(EXAMPLES_CONSIDERED, (one for one in sayings if one.label == label), key=_rank)
    chosen = []
    while ranked and len(chosen) < EXAMPLES_MAX:
        one = ranked.pop(0)
        chosen.append(one)
        ranked = [other for other in ranked if not _alike(one, other)]
    return [{"text": one.text, "score": round(one.score, 3), "emotion": one.emotion, "likes": one.likes,
             "count": one.count, "language": one.language} for one in chosen]


def _rank(saying):
    text = saying.text
    readable = len(text) < EXCERPT_CHARACTERS_MAX and len(re.findall(r"\w", text)) >= 8
    return saying.spam, not readable, -round(abs(saying.score), 2), -(saying.likes or 0), saying.place


def _alike(one, other):
    return bool(one.features and other.features) and groups.alike(
        set(one.features), other.features) > EXAMPLES_ALIKE_MAX
