"""What this process measures about itself, as plain numbers: counted where it happens, read by ``metrics``."""
import logging
import time
from bisect import bisect_left
from collections import Counter

log = logging.getLogger(__name__)

# Computing for longer than this without letting others run is a stall: every page waits.
STALL_SECONDS = 0.05
STALL_SAID_SECONDS = 60
NAMED_MAX = 5


def clock():
    """Seconds that neither freezegun nor whoever sets the wall clock changes: waiting is about real time."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Histogram:
    """How many values were at most each of ``bounds``, and their sum."""

    def __init__(self, *bounds):
        self.bounds, self.sum = bounds, 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value):
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self):
        """``[(bound, how many up to it)]``; the last bound is ``inf``."""
        total, found = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found


class HubLag:
    """How late the hub wakes whoever is due, while work runs here: ``seconds``, ``stalls`` by kind of what ran
    then, and the ``worst``, with the numbers and kinds of what ran then."""

    def __init__(self):
        self.seconds = Histogram(.005, .01, .025, .05, .1, .25, .5, 1)
        self.stalls = Counter()
        self.worst = 0.0, "", ""
        self._said_at, self._unsaid = float("-inf"), 0

    def add(self, seconds, running):
        """Woken so late, while these jobs (rows) were running. A stall is logged, at most once a minute."""
        self.seconds.add(seconds)
        if seconds > self.worst[0]:
            self.worst = seconds, _named(job["number"] for job in running), _named({job["kind"] for job in running})
        if seconds <= STALL_SECONDS:
            return
        self.stalls.update({job["kind"] for job in running})
        self._unsaid += 1
        if clock() - self._said_at >= STALL_SAID_SECONDS:
            log.warning("the server stood still for %.0f ms while this ran: %s (%s stalls since this was last said)",
                        seconds * 1000, _named(f"{job['number']} ({job['kind']})" for job in running), self._unsaid)
            self._said_at, self._unsaid = clock(), 0


def _named(names):
    names = sorted(names)
    more = [f"and {len(names) - NAMED_MAX} more"] if len(names) > NAMED_MAX else []
    return ", ".join(names[:NAMED_MAX] + more)
