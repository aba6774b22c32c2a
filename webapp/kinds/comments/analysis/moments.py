"""Moments of the video that comments name: '1:23'."""
import re
import unicodedata

HELD_MAX = 20_000

_TIME = re.compile(r"(?<![\d:.])(?:(\d{1,2}):)?([0-5]?\d):([0-5]\d)(?![\d:])(?!\s*[ap]\.?m\b)", re.I)


def named(text: str) -> list[int]:
    """The moments a text names, each once, in seconds, in the order they come in. A time of day
    ('8:30 pm') is none."""
    if ":" not in text and "：" not in text:
        return []
    found = _TIME.findall(unicodedata.normalize("NFKC", text))
    return list(dict.fromkeys(int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
                              for hours, minutes, seconds in found))


def clock(seconds: int) -> str:
    """'1:23' or '1:02:03'."""
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Moments:
    """``add`` one comment after another, then take the ``table``."""

    def __init__(self):
        # seconds → [comments, scored, sum of scores, likes of the quoted comment, its saying, voices, the last author]
        self._held = {}

    def add(self, seconds, score, saying, likes, author=None):
        """``saying``: what the comment says, for the quote: of the most liked comment, the first among equals."""
        for at in seconds:
            if at not in self._held and len(self._held) >= HELD_MAX:
                continue
            entry = self._held.setdefault(at, [0, 0, 0.0, -1, None, 0, None])
            entry[0] += 1
            if score is not None:
                entry[1] += 1
                entry[2] += score
            if (likes or 0) > entry[3]:
                entry[3:5] = [likes or 0, saying]
            if author is None or author != entry[6]:    # whoever goes on alone is one voice
                entry[5:] = [entry[5] + 1, author]

    def table(self, least, most):
        """What ``least`` voices or more name, what most do first, at most ``most`` of it. ``comments``: all of them;
        ``mean``: the mood of those comments, or None."""
        ranked = sorted(((at, *entry) for at, entry in self._held.items() if entry[5] >= least),
                        key=lambda one: (-one[6], -one[1], one[0]))[:most]
        return [{"time": clock(at), "seconds": at, "comments": count,
                 "mean": round(total / scored, 3) if scored else None,
                 "quote": saying.text, "language": saying.language, "likes": likes}
                for at, count, scored, total, likes, saying, *_ in ranked]
