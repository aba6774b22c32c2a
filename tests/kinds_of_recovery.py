"""Kinds for real servers that die, and a server's disguises: another clock, a process id that is used again."""
import os
import signal
import time
import types

from pydantic import BaseModel

from tests import wallclock
from webapp import db, workers
from webapp.kinds import JobContext, Kind


class Work(BaseModel):
    text: str = "x"
    seconds: float = 0
    if "TEST_NEW_PARAMS" in os.environ:  # a deploy has changed them: what is stored no longer loads
        needed: int


def poison(job: JobContext, params):
    """Takes its process along, each time, once the file named by the text is there."""
    job.charge()
    job.progress("poison", 0, 1)
    while not os.path.exists(params.text):
        time.sleep(0.02)
    time.sleep(params.seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def work(job: JobContext, params):
    job.charge()
    job.progress("work", 0, 1)
    job.step("begun", lambda: job.attempt)
    job.rows([{"text": params.text}])
    for n in range(round(params.seconds / 0.02)):
        time.sleep(0.02)
        job.progress("work", n, params.seconds / 0.02)
    return {"begun": job.step("begun", lambda: job.attempt)}


KINDS = [
    Kind(name="poison", params=Work, run=poison, cost=1, on_interrupt="retry", max_attempts=3),
    Kind(name="fickle", params=Work, run=work, cost=1, timeout_seconds=60),
    Kind(name="fickle_again", params=Work, run=work, cost=1, on_interrupt="retry", max_attempts=3, timeout_seconds=60),
    Kind(name="brief", params=Work, run=work, cost=1, on_interrupt="retry", max_attempts=2, timeout_seconds=1),
]

if "TEST_CLOCK" in os.environ:
    wallclock.follow(os.environ["TEST_CLOCK"])
    db.on_connect.append(wallclock.let_python_rule)
if "TEST_PID" in os.environ:  # what a worker believes its process id to be
    workers.os = types.SimpleNamespace(**{**vars(os), "getpid": lambda: int(os.environ["TEST_PID"])})
