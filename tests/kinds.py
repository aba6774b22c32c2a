"""Kinds that tests run: each does one thing."""
import hashlib
import os
import time

from pydantic import BaseModel

from webapp.kinds import DailyLimit, JobContext, Kind, Quota, Refuse, Upload


class Nothing(BaseModel):
    pass


class Text(BaseModel):
    text: str = "x"
    seconds: float = 0
    file: Upload | None = None


def paid(job: JobContext, params):
    job.charge()
    return {"done": True}


def slow(job: JobContext, params):
    job.progress("before", 0, 2)
    deadline = params.seconds
    if params.text != "late":
        job.charge()
    job.progress("after", 1, 2)
    for n in range(round(deadline / 0.02)):
        time.sleep(0.02)
        job.progress("after", n, deadline / 0.02)
    return {"text": params.text}


def shared(job: JobContext, params):
    for n in range(round(params.seconds / 0.02)):
        time.sleep(0.02)
        job.progress("work", n, params.seconds / 0.02)
    return {"text": params.text}


def stubborn(job: JobContext, params):
    """A kind that swallows whatever it can, and never reports progress."""
    job.charge()
    while True:
        try:
            time.sleep(3600)
        except Exception:
            pass


def broken(job: JobContext, params):
    job.charge()
    raise ZeroDivisionError("a bug with a secret in it")


def refusing(job: JobContext, params):
    job.charge()
    raise Refuse("NOT_TODAY", {"en": "Not today.", "ja": "今日はできません。"}, why="tired")


def stepping(job: JobContext, params):
    """Counts its steps' runs in a file, so that a test sees what a retry repeats."""
    with job.open(params.file) as file:
        log = file.read().decode()

    def count():
        with open(log, "a") as counter:
            counter.write(f"step by attempt {job.attempt}\n")
        return {"counted": 1}
    job.charge()
    job.step("count", count)
    job.progress("wait", 0, 1)
    for n in range(round(params.seconds / 0.02)):
        time.sleep(0.02)
        job.progress("wait", n, params.seconds / 0.02)
    return job.step("count", count)


KINDS = [
    Kind(name="paid", params=Nothing, run=paid, cost=1),
    Kind(name="free", params=Text, run=shared),
    Kind(name="slow", params=Text, run=slow, cost=1, exclusive=True, timeout_seconds=60),
    Kind(name="again", params=Text, run=slow, cost=1, on_interrupt="retry", max_attempts=3, timeout_seconds=60),
    Kind(name="shared", params=Text, run=shared, share_key=lambda params: params.text, cache_seconds=60),
    Kind(name="stubborn", params=Nothing, run=stubborn, cost=1, timeout_seconds=1),
    Kind(name="broken", params=Nothing, run=broken, cost=1),
    Kind(name="choosy", params=Text, run=paid, cost=lambda params: 1 if params.text == "dear" else 0),
    Kind(name="refusing", params=Nothing, run=refusing, cost=1),
    Kind(name="stepping", params=Text, run=stepping, cost=1, on_interrupt="retry", max_attempts=3),
]


def commanding(job: JobContext, params):
    """Runs a command in a process of its own: ``sleep`` for as long as the text says."""
    job.charge()
    job.run_command(["sleep", params.text])
    return {"slept": params.text}


class Pace(BaseModel):
    before: float = 0  # seconds, the charge
    after: float = 0
    text: str = ""
    file: Upload | None = None


def paced(job: JobContext, params):
    """Charges and ends after so many seconds, whatever becomes of its progress; a step in between."""
    for stage, seconds in (("before", params.before), ("after", params.after)):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(0.05)
            job.progress(stage, 0, 1)
        if stage == "before":
            job.charge()
            job.step("charged", lambda: {"by": job.attempt})
    if params.text:
        job.save_file("text.txt", params.text.encode(), "text/plain")
    return {"step": job.step("charged", lambda: {"by": job.attempt}), "text": params.text}


def bulky(job: JobContext, params):
    return {"text": "x" * 900_000}


KINDS += [Kind(name="bulky", params=Nothing, run=bulky),
          Kind(name="paced", params=Pace, run=paced, cost=1, timeout_seconds=150),
          Kind(name="paced_again", params=Pace, run=paced, cost=1, timeout_seconds=150, on_interrupt="retry"),
          Kind(name="hasty", params=Pace, run=paced, cost=1, timeout_seconds=5),
          Kind(name="hasty_alone", params=Pace, run=paced, cost=1, timeout_seconds=5, exclusive=True)]
KINDS.append(Kind(name="commanding", params=Text, run=commanding, cost=1, on_interrupt="retry", max_attempts=3))


class Ask(BaseModel):
    url: str
    patient: bool = False  # ends with what there is, where no more may be asked
    times: int = 1


def metered(job: JobContext, params):
    """Asks a service whose requests are counted: ``url``, with a number behind it where that is asked for."""
    units, statuses = 0, []
    try:
        for n in range(params.times):
            answer = job.fetch(params.url + (f"/{n}" if params.times > 1 else ""), cache_seconds=60, units=1)
            units += answer.units
            statuses.append(answer.status)
            if answer.status == 403:
                raise Refuse("USED_UP", "Used up.", retry_at=job.quota_exhausted(answer))
            if answer.status == 401:
                job.incident("KEY_REFUSED", "the service refuses the key")
    except DailyLimit:
        if not params.patient:
            raise
        job.do_not_reuse()
    return {"units": units, "statuses": statuses}


KINDS.append(Kind(
    name="metered", params=Ask, run=metered, share_key=lambda params: f"{params.url}*{params.times}", cache_seconds=3600,
    stages=[("look", "Looking"), ("wait", "Waiting", lambda params: params.patient)],
    settings={"METERED_PER_DAY": (10, "units a day; 0: no cap"), "METERED_HOST": ("h", "of what", "[a-z]+")},
    quota=Quota("metered", "METERED_PER_DAY", "America/Los_Angeles", lambda params: not params.url.endswith("/free"))))
KINDS.append(Kind(
    name="metered_paid", params=Ask, run=metered, cost=1, settings={"METERED_PAID_PER_DAY": (0, "units a day; 0: no cap")},
    quota=Quota("metered_paid", "METERED_PAID_PER_DAY", "America/Los_Angeles")))


class Items(BaseModel):
    items: list[str]


def counting(job: JobContext, params):
    """A paid life of several steps: a kill finds some of them done."""
    job.charge()
    for n in range(6):
        job.step(f"s{n}", lambda: time.sleep(0.1) or job.attempt)
        job.progress("count", n, 6)
    return {"items": params.items}


KINDS.append(Kind(name="counting", params=Items, run=counting, cost=1, on_interrupt="retry"))


def blocking(job: JobContext, params):
    """Computes without ever letting others run: the whole server stands still."""
    ends = time.clock_gettime(time.CLOCK_MONOTONIC) + params.seconds
    while time.clock_gettime(time.CLOCK_MONOTONIC) < ends:
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10_000)
    return {}


KINDS.append(Kind(name="blocking", params=Text, run=blocking))


def deaf(job: JobContext, params):
    """Works so long without a word, whatever it is told."""
    job.charge()
    ends = time.monotonic() + params.seconds
    while (left := ends - time.monotonic()) > 0:
        try:
            time.sleep(left)
        except BaseException:
            pass
    return {}


KINDS.append(Kind(name="deaf", params=Text, run=deaf, cost=1))


# A real server is given other limits by its environment: seconds that a test does not want to wait for.
if "TEST_START_PATIENCE_SECONDS" in os.environ:
    from webapp import service
    service.START_PATIENCE_SECONDS = float(os.environ["TEST_START_PATIENCE_SECONDS"])
if "TEST_STREAM_SECONDS" in os.environ:
    from webapp import live
    live.ALIVE_SECONDS = live.LOOK_SECONDS = 0.1
    live.STREAM_SECONDS_MAX = float(os.environ["TEST_STREAM_SECONDS"])
