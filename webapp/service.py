"""The working part of a server process: recovery, runner and scheduler, started and stopped together."""
import gc
import logging
import math
import secrets
import sys
import time

import gevent

from webapp import accounts, db, incidents, jobs, recovery, workers
from webapp.alerts import Alerts
from webapp.errors import AinoriError, Busy, SettingsError, StorageUnavailable
from webapp.runner import Runner

log = logging.getLogger(__name__)

# A commit runs in a thread; when it is done, the thread waits this long for a busy hub to let it say so.
SWITCH_SECONDS = 0.001
# New objects before the collector looks for cycles: each request makes some hundreds, with none in them.
COLLECT_FROM = 10_000

# A server does not fail to start because somebody has the file open in a browser tool: after this long, in which
# nobody is answered, it serves what is stored.
START_PATIENCE_SECONDS = 5
# Between two looks whether a disk that refused takes something again.
STORAGE_LOOK_SECONDS = 2


class Service:
    def __init__(self, app):
        self.app = app
        self.runner = app.runner = Runner(app.kinds, app.settings, app.upstream)
        self._loops = []
        self._worker, self._found = None, recovery.Found()

    def start(self, role="server"):
        """Register as a worker, recover what a dead one left, then claim. Where the file stays locked or the disk is
        full all this happens as soon as it can be written, and this returns before. Raises ``SettingsError``
        where it can never be."""
        began = time.perf_counter()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # what was loaded until now stays: no collection need look through it
        gc.set_threshold(COLLECT_FROM)
        try:
            with db.patience(START_PATIENCE_SECONDS):
                self._take_over(role, began)
        except Busy:
            log.warning("Another program holds %s locked: pages are served, work begins when it lets go", db.store.path)
            self._serve_first(role, began)
        except (StorageUnavailable, OSError) as error:  # the latter: no lock file can be made
            if db.is_full(error):
                log.critical("The disk of %s is full: pages are served, work begins when there is room", db.store.path)
                self._serve_first(role, began)
            elif isinstance(error, OSError):
                raise SettingsError(f"{error.filename} cannot be written ({error.strerror}).") from error
            else:
                raise SettingsError(f"The database {db.store.path} takes nothing: {error.facts['reason']}.") from error
        return self

    def _serve_first(self, role, began):
        jobs.signals.starting = True
        self._loops = [gevent.spawn(self._take_over_later, role, began)]

    def _take_over(self, role, began):
        """Register, recover, begin to claim. Where it raises, another call goes on from there."""
        if self._worker is None:
            self._worker = self.runner.start(role)
        recovery.at_start(self.app.kinds, self._found)
        if any(vars(self._found).values()):
            incidents.record("warning", "recovery", incidents.RESTARTED,
                             self._found.sentence(time.perf_counter() - began))
        jobs.signals.starting = False
        self._loops += [gevent.spawn(recovery.schedule, self.app.settings.recovery_interval_seconds, self.app.kinds),
                        gevent.spawn(watch_storage)]
        if self.app.settings.alert_channels():
            self._loops.append(gevent.spawn(Alerts(self.app.settings).run))
        jobs.signals.watch.set()  # what was in flight before this start is to be watched too
        self.runner.begin()
        if not accounts.has_admin():
            # Of this process alone: what stands in an old log opens nothing.
            self.app.setup_token = secrets.token_urlsafe(24)
            log.warning("This site has no operator yet. Open this address to become the first: %s",
                        self.app.settings.address(f"/setup?token={self.app.setup_token}"))

    def _take_over_later(self, role, began):
        """The greenlet of a start that serves already: first in the writer's queue when the lock is free."""
        while jobs.signals.starting:
            try:
                with db.patience(math.inf):
                    self._take_over(role, began)
                log.warning("%s can be written again: work begins", db.store.path)
            except (AinoriError, OSError) as error:
                if not db.is_full(error):  # that has been said
                    log.warning("work cannot begin yet: %s", error)
                gevent.sleep(STORAGE_LOOK_SECONDS)
            except Exception:
                log.exception("work cannot begin yet")
                gevent.sleep(recovery.PUT_OFF_SECONDS)

    def stop(self):
        """Drain. May be called twice; returns when nothing of ours runs any more."""
        gevent.killall(self._loops)
        self.runner.drain()


def watch_storage():
    """The operator hears of a disk that refuses: in the log at once, as an incident when it can be stored."""
    while True:
        db.store.refused.wait()
        reason = db.store.refusal.facts["reason"]
        log.critical("storage STORAGE_UNAVAILABLE: the disk refuses: %s", reason)
        while not _storage_works(reason):
            gevent.sleep(STORAGE_LOOK_SECONDS)
        db.store.refused.clear()
        log.warning("storage works again")
        gevent.sleep(STORAGE_LOOK_SECONDS)


def _storage_works(reason):
    try:
        workers.beat(workers.current.id)  # small, and stored again and again
        if not any(row["code"] == StorageUnavailable.code for row in incidents.listing()):
            incidents.record("critical", "storage", StorageUnavailable.code,
                             f"The disk refused for a while: {reason}. What was asked for meanwhile used no points. "
                             f"Look at the room in {db.store.path.parent}, and at who may write there.")
        return True
    except (AinoriError, db.Error):
        return False


def start(app):
    return Service(app).start()
