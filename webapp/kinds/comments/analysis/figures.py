"""The statistics beside the report: everything it counted, for people who go on calculating.

A mapping of JSON values, bounded to ``BYTES_MAX``; counts are of comments, times in UTC.
"""
import json
import re
from bisect import bisect_right
from collections import defaultdict

from .timeline import count_into, moment, told

BYTES_MAX = 1_000_000
WORDS_MAX = 200
LIST_MAX = 1_000            # of groups, moments, questions, requests
DAYS_MAX = 4_000            # the latest ones
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
LIKES_FROM = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000, 100_000)
FORMULAS = {
    "score": "in [-1, 1]; label positive above 0.25, negative below -0.25, neutral between",
    "interval": "95 % by the normal approximation: mean ± 1.959964 · s / √n, s the sample's standard deviation",
    "like_weighted": "share of the sum of 1 + likes",
    "percentiles": "nearest rank: the smallest value with at least p % of the values at or below it",
    "z": "log-odds with an informative Dirichlet prior (Monroe, Colaresi & Quinn 2008, eq. 16-22), the comment as "
         "the unit; positive: more common in positive comments",
    "groups": "Jaccard's index of the sets of words (pairs of characters in Japanese) at 0.65 and above with the "
              "group's first text; of questions and requests 0.6",
    "voices": "different authors, and each comment whose author is not known; what most voices say comes first",
    "spam": "what says the same five times or more, at most one author for three comments; last in its list",
}
_LATIN_WORD = re.compile("[a-z\u00df-\u00f6\u00f8-\u024f][a-z\u00df-\u00f6\u00f8-\u024f']*")


def pairs(bare: str, words: list[str]) -> list[str]:
    """The pairs of neighbours in a plain English text that are both in ``words``."""
    known = set(words)
    if len(known) < 2:
        return []
    found = _LATIN_WORD.findall(bare)
    if "'s" in bare:
        found = [word.removesuffix("'s") for word in found]
    return [f"{one} {other}" for one, other in zip(found, found[1:]) if one in known and other in known]


def percentile(ordered, p):
    """The smallest of the ``ordered`` values with at least ``p`` percent at or below it (nearest rank)."""
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def statistics(report, result, groups, asked):
    """See the module. ``groups``, ``asked``: all of them; ``left_out``: how many of a list are not here."""
    table = {
        "method": report.method, "version": report.version, "formulas": FORMULAS,
        **{name: result[name] for name in ("source", "options", "coverage", "polarity", "histogram")},
        "language_by_label": _crossed(report.languages), "emotion_by_label": _crossed(report.emotions),
        "place_by_label": _crossed(report.places),
        "asks": {kind or "none": count for kind, count in sorted(report.asking.items())},
        "scores": _distribution(report.scores), "likes": _likes(report.likes),
        "characters": _distribution(report.lengths),
        **_calendar(report),
        "words": report.words.table(WORDS_MAX), "pairs": report.pairs.table(WORDS_MAX),
        "groups": groups[:LIST_MAX], "moments": report.moments.table(1, LIST_MAX),
        "questions": asked["question"][:LIST_MAX], "requests": asked["request"][:LIST_MAX],
    }
    return _fitting(table, {"groups": len(groups), "questions": len(asked["question"]),
                            "requests": len(asked["request"])})


def _crossed(counts):
    """``{row: {label: comments}}``; the label of what was not scored is 'none'."""
    table = defaultdict(dict)
    for (row, label), count in sorted(counts.items()):
        table[row][label or "none"] = count
    return dict(table)


def _distribution(values):
    """None without values."""
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    mean = sum(ordered) / n
    spread = (sum((value - mean) ** 2 for value in ordered) / (n - 1)) ** 0.5 if n > 1 else None
    return {"n": n, "mean": round(mean, 4), "deviation": None if spread is None else round(spread, 4),
            "least": ordered[0], "most": ordered[-1],
            "percentiles": {str(p): percentile(ordered, p) for p in PERCENTILES}}


def _likes(likes):
    """Of the comments whose likes are known; ``from``: so many and up to the next."""
    buckets = dict.fromkeys(LIKES_FROM, 0)
    for count in likes:
        buckets[LIKES_FROM[bisect_right(LIKES_FROM, max(0, count)) - 1]] += 1
    told_of = _distribution(likes)
    return told_of and {**told_of, "sum": sum(likes),
                        "buckets": [{"from": least, "comments": count} for least, count in buckets.items()]}


def _calendar(report):
    """By hour, by weekday (0 is Monday), by day (those with comments). Empty without dates."""
    hours, weekdays, days = ({n: [0, 0, 0.0] for n in range(24)}, {n: [0, 0, 0.0] for n in range(7)},
                             defaultdict(lambda: [0, 0, 0.0]))
    moments = [moment(at) for at in report.times]
    count_into(hours, (at.hour for at in moments), report.moods)
    count_into(weekdays, (at.weekday() for at in moments), report.moods)
    count_into(days, (at.date().isoformat() for at in moments), report.moods)
    return {name: [{key: n, **told(entry)} for n, entry in sorted(table.items())[-DAYS_MAX:]] if moments else []
            for name, key, table in (("hours", "hour", hours), ("weekdays", "weekday", weekdays),
                                     ("days", "date", days))}


def _fitting(table, known):
    """The table with its longest lists cut until it fits; ``left_out`` says by how much."""
    long = ("groups", "moments", "questions", "requests", "days")
    sizes = {name: [len(json.dumps(one)) + 1 for one in table[name]] for name in long}
    spare = BYTES_MAX - 1_000 - (len(json.dumps(table)) - sum(map(sum, sizes.values())))
    while (excess := sum(map(sum, sizes.values())) - spare) > 0 and any(sizes.values()):
        largest = max(long, key=lambda name: sum(sizes[name]))
        while sizes[largest] and excess > 0:
            excess -= sizes[largest].pop()
            if len(sizes[largest]) % 50 == 0:
                break
    for name in long:
        known[name] = known.get(name, len(table[name])) - len(sizes[name])
        table[name] = table[name][:len(sizes[name])]
    return {**table, "left_out": {name: count for name, count in known.items() if count}}
