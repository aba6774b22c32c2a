"""What all comments together say: counts, means and their uncertainty, in words of no language.

``Report.add`` takes one comment at a time and keeps numbers, not texts, so that 50,000 comments fit
a small instance; ``Report.result`` is a mapping of JSON values, the same for the same comments.
"""
import math
import re
import unicodedata
from array import array
from collections import Counter
from datetime import datetime, timedelta, timezone
from hashlib import blake2b

LABELS = ("positive", "neutral", "negative")
FEW = 30                        # fewer scored comments than this: say that the figures are shaky
EXAMPLES_MAX = 5
EXAMPLE_CHARACTERS_MAX = 240
KEYWORDS_MAX = 12
WORDS_HELD_MAX = 60_000         # beyond it rare words are forgotten, so that a hostile file cannot fill the memory
WORD_CHARACTERS_MAX = 40
KEYWORD_Z_MIN = 1.0             # a word worth showing; nothing is claimed to be proven
KEYWORD_COMMENTS_MIN = 2
PRIOR_COMMENTS = 100
TIMES_MAX = 10
TIMES_HELD_MAX = 20_000
HISTOGRAM_BINS = 20
NINETY_FIVE = 1.959964

_TIME = re.compile(r"(?<![\d:.])(?:(\d{1,2}):)?([0-5]?\d):([0-5]\d)(?![\d:])(?!\s*[ap]\.?m\b)", re.I)


class Report:
    """Add comments, then take the ``result``. ``source``, ``options`` and the first ``coverage``
    facts are the caller's; see ``result`` for the shape."""

    def __init__(self, method, version):
        self.method, self.version = method, version
        self.analysed = self.replies = 0
        self.labels, self.emotions, self.languages = Counter(), Counter(), Counter()
        self.liked = Counter()              # label → 1 + likes, summed
        self.likes_known = False
        self.scores = array("d")
        self.moments, self.moods = array("d"), array("d")
        self.authors, self.texts = set(), set()
        self.repeats = Counter()
        self.duplicates = 0
        self.words = {}                     # (language, word) → distinct comments with it, by label
        self.voices = {}                    # language → distinct comments, by label
        self.times = {}
        self.examples = {"positive": [], "negative": []}

    def add(self, comment, scored, keywords):
        """``comment``: text, likes, at, author, is_reply; ``scored``: language, label, score, emotion;
        ``keywords``: a function of (text, language), asked only for a text not seen before."""
        self.analysed += 1
        self.replies += bool(comment.is_reply)
        self.languages[scored.language] += 1
        if comment.author is not None:
            self.authors.add(comment.author)
        if comment.at is not None:
            self.moments.append(comment.at)
            self.moods.append(math.nan if scored.score is None else scored.score)
        if scored.label:
            self._count(comment, scored)
        self._count_times(comment.text, scored.score)
        # Spam repeated a hundred times is one voice where words and examples are chosen.
        key = _fingerprint(comment.text)
        if key in self.texts:
            self.duplicates += 1
            self.repeats[key] += 1
            return
        self.texts.add(key)
        if scored.label:
            self._count_words(scored, keywords(comment.text, scored.language))
            if scored.label in self.examples:
                self._consider(comment, scored)

    def _count(self, comment, scored):
        self.labels[scored.label] += 1
        self.liked[scored.label] += 1 + (comment.likes or 0)
        self.likes_known = self.likes_known or comment.likes is not None
        self.scores.append(scored.score)
        if scored.emotion:
            self.emotions[scored.emotion] += 1

    def _count_words(self, scored, words):
        column = LABELS.index(scored.label)
        self.voices.setdefault(scored.language, [0, 0, 0])[column] += 1
        for word in sorted(set(words)):
            if len(word) <= WORD_CHARACTERS_MAX:
                self.words.setdefault((scored.language, word), [0, 0, 0])[column] += 1
        floor = 1
        while len(self.words) > WORDS_HELD_MAX:
            self.words = {word: counts for word, counts in self.words.items() if sum(counts) > floor}
            floor += 1

    def _count_times(self, text, score):
        if ":" not in text and "：" not in text:
            return
        seen = set()
        for hours, minutes, seconds in _TIME.findall(unicodedata.normalize("NFKC", text)):
            seen.add(int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds))
        for at in seen:
            if at in self.times or len(self.times) < TIMES_HELD_MAX:
                entry = self.times.setdefault(at, [0, 0, 0.0])
                entry[0] += 1
                if score is not None:
                    entry[1] += 1
                    entry[2] += score

    def _consider(self, comment, scored):
        """Keep the strongest: what can be read whole before a lone emoji or an essay, then score,
        likes, order."""
        text = " ".join(comment.text.split())
        readable = len(text) <= EXAMPLE_CHARACTERS_MAX and len(re.findall(r"\w", text)) >= 8
        rank = (not readable, -round(abs(scored.score), 2), -(comment.likes or 0), self.analysed)
        held = self.examples[scored.label]
        if len(held) == EXAMPLES_MAX and rank >= held[-1][0]:
            return
        held.append((rank, {
            "text": _shortened(text), "score": round(scored.score, 3), "emotion": scored.emotion,
            "likes": comment.likes, "language": scored.language}))
        held.sort(key=lambda one: one[0])
        del held[EXAMPLES_MAX:]

    def result(self, source, options, coverage, notes):
        """The whole report, a mapping of JSON values well under 100 KB; shares are 0 to 1 and of the
        scored comments; ``None`` is what cannot be said. ``coverage``: what reading found out, merged
        into the counts here; ``notes``: ``{"code", "count"}`` each."""
        polarity = self._polarity()
        return {
            "source": source, "options": options,
            "headline": _headline(polarity["counts"]),
            "coverage": self._coverage(coverage, notes),
            "polarity": polarity,
            "emotions": [{"emotion": emotion, "count": count, "share": _share(count, len(self.scores))}
                         for emotion, count in sorted(self.emotions.items(), key=lambda one: (-one[1], one[0]))],
            "timeline": self._timeline(coverage.get("coarse", False)),
            "histogram": _histogram(self.scores),
            "keywords": self._keywords(),
            "examples": {label: [example for _, example in held] for label, held in self.examples.items()},
            "times": self._times(),
            "duplicates": {"count": self.duplicates, "share": _share(self.duplicates, self.analysed),
                           "most_repeated": max(self.repeats.values()) + 1 if self.repeats else 0},
            "method": self.method, "version": self.version,
        }

    def _coverage(self, coverage, notes):
        scored = len(self.scores)
        return {
            "analysed": self.analysed, "scored": scored, "not_scored": self.analysed - scored,
            "reported": coverage["reported"], "in_file": coverage["in_file"],
            "replies": self.replies, "replies_missing": coverage["replies_missing"], "partial": False,
            "by_language": dict(sorted(self.languages.items(), key=lambda one: (-one[1], one[0]))),
            "authors": len(self.authors) or None,
            "from": _iso(min(self.moments)) if self.moments else None,
            "to": _iso(max(self.moments)) if self.moments else None,
            "undated": self.analysed - len(self.moments), "notes": notes,
        }

    def _polarity(self):
        """Mean with its 95 % interval by the normal approximation, mean ± 1.96·s/√n."""
        n = len(self.scores)
        mean = math.fsum(self.scores) / n if n else None
        interval = None
        if n > 1:
            deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in self.scores) / (n - 1))
            reach = NINETY_FIVE * deviation / math.sqrt(n)
            interval = [round(max(-1.0, mean - reach), 4), round(min(1.0, mean + reach), 4)]
        liked = sum(self.liked.values())
        return {
            "counts": {label: self.labels[label] for label in LABELS},
            "shares": {label: _share(self.labels[label], n) for label in LABELS} if n else None,
            "like_weighted": ({label: _share(self.liked[label], liked) for label in LABELS}
                              if self.likes_known and n else None),
            "mean": None if mean is None else round(mean, 4), "interval": interval, "few": n < FEW,
        }

    def _keywords(self):
        """Words that set one side apart: log-odds of a comment holding the word, with an informative
        Dirichlet prior, as a z-score (Monroe, Colaresi & Quinn 2008, 'Fightin' Words', eq. 16–22, with
        the comment as the unit so that a word said ten times by one person counts once)."""
        found = {"positive": [], "negative": []}
        for (language, word), by in self.words.items():
            z = _log_odds(by, self.voices[language])
            side = "positive" if z > 0 else "negative"
            here = by[LABELS.index(side)]
            if abs(z) >= KEYWORD_Z_MIN and here >= KEYWORD_COMMENTS_MIN:
                found[side].append({"word": word, "language": language, "comments": sum(by),
                                    "on_this_side": here, "z": round(abs(z), 2)})
        return {side: sorted(words, key=lambda one: (-one["z"], -one["comments"], one["word"]))[:KEYWORDS_MAX]
                for side, words in found.items()}

    def _times(self):
        """Moments of the video that two comments or more name, most named first."""
        named = [(at, *entry) for at, entry in self.times.items() if entry[0] > 1]
        named = sorted(named, key=lambda one: (-one[1], one[0]))[:TIMES_MAX]
        return [{"time": _clock(at), "seconds": at, "comments": count,
                 "mean": round(total / scored, 3) if scored else None}
                for at, count, scored, total in named]

    def _timeline(self, coarse):
        """Volume and mean mood per bin, in UTC; empty bins are there. None without any date."""
        if not self.moments:
            return None
        first, last = _moment(min(self.moments)), _moment(max(self.moments))
        unit = _unit((last - first) / timedelta(days=1), coarse)
        bins = {}
        start = _floor(first, unit)
        while start <= last:
            bins[start] = [0, 0, 0.0]
            start = _next(start, unit)
        for moment, mood in zip(self.moments, self.moods):
            entry = bins[_floor(_moment(moment), unit)]
            entry[0] += 1
            if not math.isnan(mood):
                entry[1] += 1
                entry[2] += mood
        return {"unit": unit, "coarse": coarse, "bins": [
            {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), "count": count, "scored": scored,
             "mean": round(total / scored, 4) if scored else None}
            for start, (count, scored, total) in bins.items()]}


def _share(part, whole):
    return round(part / whole, 4) if whole else None


def _fingerprint(text):
    """The same for texts that differ in case, width, space or final punctuation."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(".!。、!?… ") or text
    return blake2b(plain.encode("utf-8", "replace"), digest_size=8).digest()


def _shortened(text):
    return text if len(text) <= EXAMPLE_CHARACTERS_MAX else text[:EXAMPLE_CHARACTERS_MAX - 1].rstrip() + "…"


def _headline(counts):
    """The report in one code with its two figures."""
    scored = sum(counts.values())
    if not scored:
        return {"code": "nothing_scored", "count": 0, "of": 0}
    label = max(LABELS, key=lambda one: counts[one])
    if counts[label] * 2 >= scored:
        return {"code": f"mostly_{label}", "count": counts[label], "of": scored}
    side = "positive" if counts["positive"] >= counts["negative"] else "negative"
    if abs(counts["positive"] - counts["negative"]) * 10 < scored:
        return {"code": "mixed", "count": counts[side], "of": scored}
    return {"code": f"more_{side}", "count": counts[side], "of": scored}


def _histogram(scores):
    counts = [0] * HISTOGRAM_BINS
    for score in scores:
        # Times ten, not divided by 0.1: 0.3 / 0.1 is 2.9999…, a bin too low.
        counts[min(HISTOGRAM_BINS - 1, max(0, math.floor(round((score + 1) * HISTOGRAM_BINS / 2, 9))))] += 1
    width = 2 / HISTOGRAM_BINS
    return [{"from": round(-1 + width * place, 2), "to": round(-1 + width * (place + 1), 2), "count": count}
            for place, count in enumerate(counts)]


def _log_odds(by, voices):
    """Positive where the word is more common in positive comments. Unlike a word among all words, a
    word among comments may be in most of them: the variance needs the comments without it too."""
    prior = PRIOR_COMMENTS * (sum(by) + 0.5) / (sum(voices) + 1)
    odds = variance = 0.0
    for sign, column in ((1, 0), (-1, 2)):
        holding = by[column] + prior
        without = voices[column] + PRIOR_COMMENTS - holding
        odds += sign * math.log(holding / without)
        variance += 1 / holding + 1 / without
    return odds / math.sqrt(variance)


def _clock(seconds):
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _moment(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc)


def _iso(seconds):
    """UTC with milliseconds, as everywhere in the API."""
    return _moment(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# Bins by span in days: at most about sixty of them. Estimated times ('3 weeks ago') get wider ones.
_UNITS = ((2, "hour"), (60, "day"), (420, "week"), (1_830, "month"))
_COARSE_UNITS = ((14, "day"), (60, "week"), (730, "month"))


def _unit(days, coarse):
    return next((unit for limit, unit in (_COARSE_UNITS if coarse else _UNITS) if days <= limit), "year")


def _floor(moment, unit):
    moment = moment.replace(minute=0, second=0, microsecond=0)
    if unit == "hour":
        return moment
    moment = moment.replace(hour=0)
    if unit == "week":
        return moment - timedelta(days=moment.weekday())
    if unit == "month":
        return moment.replace(day=1)
    return moment.replace(month=1, day=1) if unit == "year" else moment


def _next(start, unit):
    if unit == "month":
        return (start + timedelta(days=32)).replace(day=1)
    if unit == "year":
        return start.replace(year=start.year + 1)
    return start + {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]
