"""Tells the operator of critical incidents and of a restart that found interrupted work, through ALERT_URLS.

A greenlet that waits without a timer while nothing is to be told. The sending is done by a process of its own
(notify.py): whatever a channel does, requests, work, start and drain do not wait for it.
"""
import fcntl
import json
import logging
import os
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext

import gevent

from webapp import ROOT, commands, db, incidents
from webapp.errors import CommandFailed

log = logging.getLogger(__name__)

# More than the process itself gives its channels.
SEND_SECONDS_MAX = 25
# A channel that fails is tried again after these pauses, then no more until the next incident or start.
RETRY_PAUSES_SECONDS = (10, 60, 300)
# It was sent: to note that, somebody who has the file open is waited for longer than usual.
NOTE_PATIENCE_SECONDS = 600
NUMBERS_TOLD_MAX = 10
# After the moment at which a code may be told again; looking a moment later finds it so.
AFTER_WAIT_SECONDS = 0.05


class Alerts:
    """What ``start`` and ``stop`` of a server hold: tells what waits now, and what is recorded from now on."""

    def __init__(self, settings):
        self.urls, self.site_name = settings.alert_channels(), settings.site_name
        self.folder = settings.folder / "workers"
        self._given_up = set()  # (id, times) of what no channel took

    def run(self):
        """The greenlet's loop."""
        while True:
            incidents.recorded.clear()
            pause = None
            try:
                pause = self.look()
            except Exception as error:  # a file that is busy or full: the next incident or start tells
                log.warning("the operator could not be told: %s", type(error).__name__)
            incidents.recorded.wait(timeout=pause)

    def look(self):
        """Tell what is due, with a few tries. Returns the seconds until more is, ``None`` if nothing waits."""
        for pause in (0, *RETRY_PAUSES_SECONDS):
            gevent.sleep(pause)
            due = [row for row in incidents.untold() if row["wait_seconds"] == 0]
            if _marks(due) <= self._given_up or self._tell(due):
                break
        else:
            self._given_up = _marks(due)
            log.warning("no channel of ALERT_URLS took an alert: not tried again before the next incident or start")
        waits = [row["wait_seconds"] for row in incidents.untold() if row["wait_seconds"] > 0]
        return min(waits) + AFTER_WAIT_SECONDS if waits else None

    def _tell(self, due):
        """Send one message about all of it. Returns whether somebody took it."""
        with _alone(self.folder) as alone:
            if not alone:
                return False  # another server on this file is just telling: look again later
            took = send(self.urls, message(self.site_name, due))
            for n, (url, did) in enumerate(zip(self.urls, took, strict=True), 1):
                if not did:
                    log.warning("channel %s of ALERT_URLS (%s) did not take an alert", n, scheme(url))
            if not any(took):
                return False
            with db.patience(NOTE_PATIENCE_SECONDS):
                incidents.told([row["id"] for row in due])
            return True


def _marks(rows):
    return {(row["id"], row["times"]) for row in rows}


@contextmanager
def _alone(folder):
    """Whether no other process on this file is telling. The lock of the folder: the kernel drops it with us."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        try:
            yield True
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # gevent closes a folder's descriptor some time later
    finally:
        os.close(descriptor)


def send(urls, message):
    """Hand a message (``None``: only look whether they are usable) to each channel, in a process of its own.

    Returns for each URL whether it took it. Never raises, and takes at most ``SEND_SECONDS_MAX``.
    """
    order = json.dumps({"urls": urls, "message": message}).encode()
    try:
        with gevent.Timeout(SEND_SECONDS_MAX, False):
            return json.loads(commands.run([sys.executable, "-m", "webapp.notify"], cwd=ROOT, input=order,
                                           slots=nullcontext()))
    except (CommandFailed, OSError, ValueError) as error:
        # Not what it said: that may name a URL.
        log.warning("the process that sends alerts failed (%s): is all of requirements.txt installed?",
                    error.facts["returncode"] if isinstance(error, CommandFailed) else type(error).__name__)
    return [False] * len(urls)


def message(site_name, rows):
    """What the operator reads: what happened, how often, the numbers, what to do. Nothing of a job but its number:
    no address, no input. What is about no job is told by its detail."""
    by_code = {}
    for row in reversed(rows):  # the newest first
        by_code.setdefault(row["code"], []).append(row)
    count = sum(row["times"] for row in rows)
    lines = [f"{site_name}: {count} incident{'s' if count != 1 else ''}.", "", *map(_line, by_code.values()), "",
             "`flask incidents list` lists them, `flask jobs show NUMBER` tells all about one piece of work, "
             "`flask incidents ack ID` says that you have seen one."]
    critical = any(row["severity"] == "critical" for row in rows)
    return {"title": f"{site_name}: {', '.join(by_code)}", "body": "\n".join(lines),
            "notify_type": "failure" if critical else "warning"}


def _line(rows):
    """All of one code: numbers of jobs, or details (which have commas of their own), each with how often it came."""
    times = Counter()
    for row in rows:
        times[row["number"] or row["detail"]] += row["times"]
    shown = list(times.items())[:NUMBERS_TOLD_MAX]
    more = times.total() - sum(n for _what, n in shown)
    between = ", " if all(row["number"] for row in rows) else "; "
    return (f"{rows[0]['code']}: " + between.join(what + (f" ({n} times)" if n > 1 else "") for what, n in shown)
            + (f" and {more} more since {rows[-1]['at']}" if more else ""))


def scheme(url):
    """All of a URL that may be shown."""
    return url.partition("://")[0]
