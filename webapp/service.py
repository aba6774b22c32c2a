"""The working part of a server process: recovery, runner and scheduler, started and stopped together."""
import gc
import sys
import time

import gevent

from webapp import db, incidents, jobs, recovery
from webapp.alerts import Alerts
from webapp.runner import Runner

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
        self.runner = app.runner = Runner(app.kinds, app.settings, app.upstream)
        self._scheduler = self._alerts = None

    def start(self, role="server"):
        """Register as a worker, recover what a dead one left, then claim."""
        began = time.perf_counter()
        sys.setswitchinterval(SWITCH_SECONDS)
        gc.freeze()  # what was loaded until now stays: no collection need look through it
        gc.set_threshold(COLLECT_FROM)
        with db.patience(START_PATIENCE_SECONDS):
            self.runner.start(role)
            found = recovery.at_start(self.app.kinds)
            if any(vars(found).values()):
                incidents.record("warning", "recovery", incidents.RESTARTED,
                                 found.sentence(time.perf_counter() - began))
        if self.app.settings.alert_channels():
            self._alerts = gevent.spawn(Alerts(self.app.settings).run)
        self._scheduler = gevent.spawn(recovery.schedule, self.app.settings.recovery_interval_seconds)
        jobs.signals.watch.set()  # what was in flight before this start is to be watched too
        self.runner.begin()
        return self

    def stop(self):
        """Drain. May be called twice; returns when nothing of ours runs any more."""
        self.runner.drain()
        for greenlet in (self._scheduler, self._alerts):  # what was not told yet, the next start tells
            if greenlet is not None:
                greenlet.kill()


def start(app):
    return Service(app).start()
