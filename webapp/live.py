"""Live progress: a stream of a job's stored events, instant within this process, right across all."""
import random
from collections import Counter
from socket import MSG_PEEK

from gevent.event import Event

from webapp import db, jobs
from webapp.errors import Busy, StorageUnavailable, TooManyStreams

STREAM_SECONDS_MAX = 50   # hosts cut streams at 30 to 60 s: we end them first, and the browser comes back
ALIVE_SECONDS = 5         # of silence: hosts cut those too, a page asks; and a client without a goodbye fails only a write
TAKE_SECONDS = 15         # within which a client has to take what is written
LOOK_SECONDS = 1          # another process may have written; within this one a signal makes it instant
RETRY_MS = 1500, 3000     # when to come back: not everybody at once after a restart
# The comment is for programs, the event for pages, which hear no comments. It has no id: it is not stored.
ALIVE = ": still here\nevent: alive\ndata: {}\n\n"


def all_said(job):
    """``done`` only when a job is final and its points are settled (or unknown)."""
    return job["status"] not in jobs.IN_FLIGHT and job["settlement"] != "due"


def follow(job_id, after, as_text, client=None):
    """Server-sent events from the sequence number ``after`` on, ids from stored rows only. ``as_text(job)``
    makes the data. Ends after ``done``, at the time limit, when this server shuts down, and when the ``client``
    (its socket, where there is one) has closed, or takes nothing for ``TAKE_SECONDS``.

    What comes first is empty: to ask for it registers, and nothing stored from then on is missed.
    """
    changed = Event()
    ends = spoke_at = db.clock()
    ends += STREAM_SECONDS_MAX
    jobs.signals.listeners.setdefault(job_id, set()).add(changed)
    try:
        if client is not None:
            client.settimeout(TAKE_SECONDS)
        yield ""
        yield f"retry: {random.randint(*RETRY_MS)}\n\n"
        while db.clock() < ends and not jobs.signals.draining:
            changed.clear()
            # The job after its events: never older than what is told of it. (A commit happens in a thread.)
            news, job = jobs.events(job_id, after), jobs.poll(job_id)
            if all_said(job):
                news = jobs.events(job_id, after)
            if news or all_said(job):
                after = news[-1]["seq"] if news else after
                yield f"id: {after}\nevent: {'done' if all_said(job) else 'progress'}\ndata: {as_text(job)}\n\n"
                spoke_at = db.clock()
            if all_said(job):
                return
            changed.wait(timeout=LOOK_SECONDS)
            if client is not None and _has_closed(client):
                return
            if db.clock() - spoke_at >= ALIVE_SECONDS:
                yield ALIVE
                spoke_at = db.clock()
    except (Busy, StorageUnavailable):
        pass  # the operator hears of it elsewhere; the client comes back, and polls meanwhile
    finally:
        if client is not None:
            client.settimeout(None)  # it may serve another request
        listeners = jobs.signals.listeners.get(job_id, set())
        listeners.discard(changed)
        if not listeners:
            jobs.signals.listeners.pop(job_id, None)


def _has_closed(client):
    """Whether the other end has closed. A first write to it would still succeed, and the next be seconds later."""
    client.settimeout(0)
    try:
        return client.recv(1, MSG_PEEK) == b""
    except (BlockingIOError, ValueError):  # nothing to read; TLS, which cannot peek
        return False
    except OSError:
        return True
    finally:
        client.settimeout(TAKE_SECONDS)


class Streams:
    """Places for live streams: bounded for the server and for each person, freed when the stream ends."""

    def __init__(self, total_max, per_user_max):
        self.total_max, self.per_user_max = total_max, per_user_max
        self.open = Counter()

    def keep(self, user_id, stream):
        """The stream, begun and counted until it ends. Raises ``TooManyStreams`` over the caps."""
        if self.open.total() >= self.total_max or self.open[user_id] >= self.per_user_max:
            raise TooManyStreams(total_max=self.total_max, per_user_max=self.per_user_max)
        stream = self._counted(user_id, stream)
        # Begun here: the caps are exact, and one that is dropped unread (HEAD, a client gone already) still ends.
        next(stream)
        return stream

    def _counted(self, user_id, stream):
        self.open[user_id] += 1
        try:
            yield from stream
        finally:
            self.open[user_id] -= 1
            if not self.open[user_id]:
                del self.open[user_id]
