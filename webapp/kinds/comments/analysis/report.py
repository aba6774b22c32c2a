"""What all comments together say: counts, means and their uncertainty, in words of no language.

``Report.add`` takes one comment at a time and keeps numbers and the beginnings of distinct texts, so that
50,000 comments fit a small instance; ``Report.result`` and ``Report.statistics`` are mappings of JSON values,
the same for the same comments.
"""
import math
from array import array
from collections import Counter
from functools import cached_property

from . import figures, groups, sayings
from .moments import Moments
from .timeline import iso, timeline
from .words import LABELS, Words

FEW = 30                        # fewer scored comments than this: say that the figures are shaky
GROUPS_MAX = 8
GROUP_COMMENTS_MIN = 3
ASKED_VOICES_MIN = 3            # to be in the first sentence
ASKS_MAX = 6
MOMENTS_MAX = 10
MOMENT_VOICES_MIN = 2
# An emotion 'above all': held by so many scored comments; the second also by half as many as the first.
EMOTION_COMMENTS_MIN = 3
EMOTION_SHARE_MIN = 0.05
HISTOGRAM_BINS = 20
NINETY_FIVE = 1.959964


class Report:
    """Add comments, then take the ``result`` and the ``statistics``."""

    def __init__(self, method, version):
        self.method, self.version = method, version
        self.analysed = 0
        self.labels, self.languages = Counter(), Counter()      # language: (language, label) → comments
        self.emotions = Counter()                               # (emotion, label) → comments
        self.places = Counter()                                 # ('reply' | 'thread' | 'unknown', label) → comments
        self.asking = Counter()
        self.liked = Counter()                                  # label → 1 + likes, summed
        self.likes, self.lengths = array("q"), array("I")
        self.scores = array("d")
        self.times, self.moods = array("d"), array("d")
        self.authors = {}                                       # hash → a number
        self.sayings = {}
        self.words, self.pairs = Words(), Words()
        self.moments = Moments()

    def add(self, comment, scored, keywords, asked=None, named=()):
        """``comment``: text, likes, at, author, is_reply; ``scored``: language, label, score, emotion;
        ``keywords``: a function of (text, language), asked only for a text not seen before; ``asked``: what
        ``asks.find`` found; ``named``: what ``moments.named`` found."""
        self.analysed += 1
        self._count(comment, scored, asked)
        author = None if comment.author is None else self.authors.setdefault(comment.author, len(self.authors))
        key = sayings.fingerprint(comment.text)
        saying = self.sayings.get(key)
        if saying is None:
            saying = self.sayings[key] = self._new_saying(comment, scored, keywords, asked, author)
        saying.repeat(comment.likes, author)
        self.moments.add(named, scored.score, saying, comment.likes, author)

    def _count(self, comment, scored, asked):
        self.languages[scored.language, scored.label] += 1
        place = "unknown" if comment.is_reply is None else "reply" if comment.is_reply else "thread"
        self.places[place, scored.label] += 1
        self.asking[asked.kind if asked else ""] += 1
        self.lengths.append(len(comment.text))
        if comment.likes is not None:
            self.likes.append(min(comment.likes, 1 << 62))
        if comment.at is not None:
            self.times.append(comment.at)
            self.moods.append(math.nan if scored.score is None else scored.score)
        if scored.label:
            self.labels[scored.label] += 1
            self.liked[scored.label] += 1 + (comment.likes or 0)
            self.scores.append(scored.score)
        if scored.emotion:
            self.emotions[scored.emotion, scored.label] += 1

    def _new_saying(self, comment, scored, keywords, asked, author):
        bare = groups.plain(comment.text)
        if scored.label:
            words = keywords(comment.text, scored.language)
            self.words.add(scored.language, scored.label, words, author)
            self.pairs.add(scored.language, scored.label, figures.pairs(bare, words), author)
        return sayings.Saying(comment, scored, groups.features_of(bare), asked, self.analysed)

    @cached_property
    def _groups(self):
        return sayings.same(list(self.sayings.values()))

    @cached_property
    def _asked(self):
        return {kind: sayings.asked(self.sayings.values(), kind) for kind in ("question", "request")}

    def result(self, source, options, coverage, notes):
        """The whole report, a mapping of JSON values well under 100 KB; shares are 0 to 1 and of the
        scored comments; ``None`` is what cannot be said. ``coverage``: what reading found out, merged
        into the counts here; ``notes``: ``{"code", "count"}`` each."""
        polarity, emotions = self._polarity(), self._emotions()
        copies = [one.count for one in self.sayings.values()]
        repeated = self.analysed - len(copies)
        return {
            "source": source, "options": options,
            "headline": {**headline(polarity["counts"]), "emotions": _above_all(emotions),
                         "asking": self.asking["question"] + self.asking["request"], "asked": self._asked_most()},
            "coverage": self._coverage(coverage, notes),
            "polarity": polarity, "emotions": emotions,
            "timeline": timeline(self.times, self.moods, coverage.get("coarse", False)),
            "histogram": histogram(self.scores),
            "keywords": self.words.keywords(),
            "examples": {label: sayings.strongest(self.sayings.values(), label) for label in ("positive", "negative")},
            "times": self.moments.table(MOMENT_VOICES_MIN, MOMENTS_MAX),
            "groups": [one for one in self._groups
                       if one["count"] >= GROUP_COMMENTS_MIN][:GROUPS_MAX],
            "asks": {kind: {"comments": self.asking[kind], "top": self._asked[kind][:ASKS_MAX]}
                     for kind in ("question", "request")},
            "duplicates": {"count": repeated, "share": share(repeated, self.analysed),
                           "most_repeated": max(copies) if max(copies, default=1) > 1 else 0},
            "method": self.method, "version": self.version,
        }

    def _asked_most(self):
        """What so many people ask that it belongs into the first sentence, or None: ``count`` comments by ``people``
        (None where some are not known); ``tied``: as many ask something else. Spam never is."""
        found = [one for found in self._asked.values() for one in found if not one["spam"]]
        top = max(found, key=lambda one: one["voices"], default=None)
        if top is None or top["voices"] < ASKED_VOICES_MIN:
            return None
        return {**{name: top[name] for name in ("text", "language", "count")}, "people": top["authors"],
                "tied": [one["voices"] for one in found].count(top["voices"]) > 1}

    def statistics(self, result):
        """More than a page can show, for people who go on calculating; see ``figures.statistics``."""
        return figures.statistics(self, result, self._groups, self._asked)

    def _coverage(self, coverage, notes):
        scored = len(self.scores)
        by_language = Counter()
        for (language, _), count in self.languages.items():
            by_language[language] += count
        return {
            "partial": False, **{name: value for name, value in coverage.items() if name != "coarse"},
            "analysed": self.analysed, "scored": scored, "not_scored": self.analysed - scored,
            "replies": sum(count for (place, _), count in self.places.items() if place == "reply"),
            "by_language": dict(sorted(by_language.items(), key=lambda one: (-one[1], one[0]))),
            "authors": len(self.authors) or None,
            "from": iso(min(self.times)) if self.times else None,
            "to": iso(max(self.times)) if self.times else None,
            "undated": self.analysed - len(self.times), "notes": notes,
        }

    def _polarity(self):
        """Mean with its 95 % interval by the normal approximation, mean ± 1.96·s/√n."""
        n = len(self.scores)
        mean = math.fsum(self.scores) / n if n else None
        interval = None
        if n > 1:
            reach = NINETY_FIVE * deviation(self.scores, mean) / math.sqrt(n)
            interval = [round(max(-1.0, mean - reach), 4), round(min(1.0, mean + reach), 4)]
        liked = sum(self.liked.values())
        return {
            "counts": {label: self.labels[label] for label in LABELS},
            "shares": {label: share(self.labels[label], n) for label in LABELS} if n else None,
            "like_weighted": ({label: share(self.liked[label], liked) for label in LABELS}
                              if self.likes and n else None),
            "mean": None if mean is None else round(mean, 4), "interval": interval, "few": n < FEW,
            "median": round(figures.percentile(sorted(self.scores), 50), 4) if n else None,
        }

    def _emotions(self):
        counts = Counter()
        for (emotion, _), count in self.emotions.items():
            counts[emotion] += count
        return [{"emotion": emotion, "count": count, "share": share(count, len(self.scores))}
                for emotion, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]


def headline(counts):
    """The report in one code with its two figures, true in words whatever the counts are. In this order:

    - ``nothing_scored``: there is nothing to say anything of.
    - ``mostly_neutral``: more than half are neutral, whatever the rest says.
    - ``mixed``: the two sides are less than a tenth of all apart, even if one is a little more than half. About half
      are neutral at most, so each side is about a fifth at least: there are two.
    - ``mostly_positive``, ``mostly_negative``: more than half are on this side.
    - ``more_positive``, ``more_negative``: there is more of one side than of the other, of which there may be none; how
      many are neutral it does not say.

    More than half is so in whole percent too, as the page says it: 501 of 1,001 would read 'mostly: 50%'."""
    scored = sum(counts.values())
    if not scored:
        return {"code": "nothing_scored", "count": 0, "of": 0}
    mostly = [label for label in LABELS if counts[label] * 200 > scored * 101]
    side = "positive" if counts["positive"] >= counts["negative"] else "negative"
    if mostly == ["neutral"]:
        return {"code": "mostly_neutral", "count": counts["neutral"], "of": scored}
    if abs(counts["positive"] - counts["negative"]) * 10 < scored:
        return {"code": "mixed", "count": counts[side], "of": scored}
    return {"code": f"mostly_{side}" if mostly else f"more_{side}", "count": counts[side], "of": scored}


def _above_all(emotions):
    """The one or two emotions that prevail among the comments that show one: none that as many do as another, unless
    just these two."""
    shown = [one for one in emotions if one["emotion"] != "neutral" and one["count"] >= EMOTION_COMMENTS_MIN
             and one["share"] >= EMOTION_SHARE_MIN]
    behind = shown[2]["count"] if len(shown) > 2 else 0
    return [one["emotion"] for one in shown[:2] if one["count"] * 2 >= shown[0]["count"] and one["count"] > behind]


def histogram(scores):
    """How many scores are where, from −1 to 1."""
    counts = [0] * HISTOGRAM_BINS
    for score in scores:
        # Times ten, not divided by 0.1: 0.3 / 0.1 is 2.9999…, a bin too low.
        counts[min(HISTOGRAM_BINS - 1, max(0, math.floor(round((score + 1) * HISTOGRAM_BINS / 2, 9))))] += 1
    width = 2 / HISTOGRAM_BINS
    return [{"from": round(-1 + width * place, 2), "to": round(-1 + width * (place + 1), 2), "count": count}
            for place, count in enumerate(counts)]


def deviation(scores, mean):
    """The standard deviation of a sample of two and more."""
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


def share(part, whole):
    return round(part / whole, 4) if whole else None
