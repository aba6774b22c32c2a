"""The working part of a server process: recovery, runner and scheduler, started and stopped together."""
import gc
import logging
import sys
import time

import gevent

from webapp import db, jobs, recovery
from webapp.runner import Runner

log = logging.getLogger(__name__)

# A commit runs in a thread; when it is done, the thread waits this long for a busy hub to let it say so.
SWITCH_SECONDS = 0.001
# New objects before the collector looks for cycles: each request makes some hundreds, with none in them.
COLLECT_FROM = 10_000

# A server does not fail to start because somebody has the file open in a browser tool. Less than
# gunicorn's time-out for a worker that does not answer.
START_PATIENCE_SECONDS = 30


class Service:
    def __init__(self, app):
        self.app = app
        self.runner = Runner(app.kinds, app.settings, app.upstream)
        self._scheduler = None

    def start(self, role="server"):
        """Register as a worker, recover what a dead one left, then claim."""
        began = time.perf_counter()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # what was loaded until now stays: no collection need look through it
        gc.set_threshold(COLLECT_FROM)
        with db.patience(START_PATIENCE_SECONDS):
            self.runner.start(role)
            found = recovery.at_start(self.app.kinds)
        if found.interrupted or found.resumed or found.points or found.unknown:
            log.warning("after a restart: %s interrupted, %s resumed, %s points returned, %s unknown, %.1f s",
                        found.interrupted, found.resumed, found.points, found.unknown, time.perf_counter() - began)
        self._scheduler = gevent.spawn(recovery.schedule, self.app.settings.recovery_interval_seconds,
                                       self.app.kinds)
        jobs.signals.watch.set()  # what was in flight before this start is to be watched too
        self.runner.begin()
        return self

    def stop(self):
        """Drain. May be called twice; returns when nothing of ours runs any more."""
        self.runner.drain()
        if self._scheduler is not None:
            self._scheduler.kill()


def start(app):
    return Service(app).start()
