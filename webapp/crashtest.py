"""``flask crashtest``: kill a real server with SIGKILL at random moments, and check what stands afterwards.

A trial: several people submit; the server's whole process group dies at a moment drawn over the
measured life of a job; the rows at that moment are read from a copy of the dead file; the server
starts again on that file. What must be true then is worked out from those rows alone, with none of
the application's own code: this module imports nothing of ours but the path of the code.
"""
import hashlib
import http.client
import json
import os
import random
import secrets
import select
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import click

from webapp import ROOT

PENDING, BEFORE, AFTER, SETTLING = "pending", "before the charge", "after the charge", "settling"
RUNNING, FINISHED = "running", "finished before"
ANY = "any moment"
STATES = (PENDING, BEFORE, AFTER, RUNNING, SETTLING, FINISHED)
# Every state that a life passes through is aimed at until this share of the kills has hit it.
AIMED_SHARE = 0.15
SHARE_LEAST = 0.1
EXTRA_TRIALS_MAX = 2  # times the trials asked for, if a state has not been hit often enough
POINTS_EACH = 1_000_000
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 15


# ------------------------------------------------------------------------------------ a real server

@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Server:
    """This code as it is served: gunicorn in a process group of its own, on a free loopback port.

    ``folder`` holds the file and the log (``server.log``), and stays when the server dies. Settings
    that would reach out of it (production, alerts) are off; ``environ`` has the last word.
    """

    def __init__(self, folder, environ=()):
        self.folder, self.port = Path(folder), _free_port()
        self.database, self.log = self.folder / "ainori.db", self.folder / "server.log"
        self.environ = {
            **{name: value for name, value in os.environ.items()
               if name not in ("WEB_CONCURRENCY", "GUNICORN_CMD_ARGS")},
            "DATABASE_PATH": str(self.database), "HOST": "127.0.0.1", "PORT": str(self.port), "PRODUCTION": "0",
            "PROXY_HOPS": "0", "SECRET_KEY": "", "ALERT_URLS": "", **dict(environ)}
        self.process = self._alive = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Start; returns the moment (``time.monotonic()``) at which the port was open. Raises ``RuntimeError``."""
        # Every process of the server holds this pipe: it ends when the last of them is dead, which a
        # signal of 0 to the group does not tell where nobody buries the dead.
        self._alive, held = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", "wsgi:app"], cwd=ROOT, env=self.environ, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, pass_fds=(held,))
        os.close(held)
        ends = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode} while it started")
            if self._port_is_open():
                return time.monotonic()
            time.sleep(0.002)
        raise RuntimeError(f"the server's port did not open within {START_SECONDS_MAX} s")

    def kill(self, number=signal.SIGKILL):
        """The signal to the whole process group, master and worker at once; returns when all of it is dead."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass
        self.wait()

    def wait(self, seconds=STOP_SECONDS_MAX):
        """Wait until every process of the server is dead."""
        self.process.wait(seconds)
        if not select.select([self._alive], [], [], seconds)[0]:
            raise RuntimeError(f"a process of the server still lives {seconds} s after its master")
        ends = time.monotonic() + seconds
        while self._is_open() and time.monotonic() < ends:
            time.sleep(0.002)  # the kernel closes what a dead process held one by one, the pipe perhaps first
        os.close(self._alive)
        # The kernel closes a dying process's files one by one: the port may outlive the pipe by a moment,
        # and must not be taken for the next server's.
        while self._port_is_open():
            time.sleep(0.001)
        self.process = self._alive = None

    def _port_is_open(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def _is_open(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                # A port of its own range, closed, can be connected to itself.
                return connection.getsockname() != connection.getpeername()
        except OSError:
            return False

    def flask(self, *args):
        """Run a ``flask`` command on this server's file; returns the completed process."""
        return subprocess.run([sys.executable, "-m", "flask", "--app", "wsgi", *args], cwd=ROOT, env=self.environ,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)

    def log_end(self, lines=20):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def request(self, method, path, body=None, *, token=None, headers=(), timeout=10):
        """One request on a connection of its own (no proxy). ``body``: bytes, or anything JSON takes."""
        headers = {"Connection": "close", **dict(headers)}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.headers), answer.read())
        finally:
            connection.close()


def multipart(fields, upload_field, name, content):
    """``(body, headers)`` of a form with one file, as a browser sends it."""
    boundary = f"----{secrets.token_hex(12)}"
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, value in fields.items()]
    name = name.replace('"', "_").replace("\r", "_").replace("\n", "_")
    parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{upload_field}"; filename="{name}"\r\n'
                 "Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
    return (b"".join(parts) + f"--{boundary}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"})


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ------------------------------------------------------------------------------------- the raw rows

@dataclass
class Rows:
    """What stands in a file: jobs by id, entries by id, finished steps by job and name."""

    jobs: dict
    entries: dict
    steps: dict

    def __post_init__(self):
        self._of_job = {(entry["job_id"], entry["kind"]): entry for entry in self.entries.values()}

    def of(self, job_id):
        """``(consume, refund)``: this job's ledger entries, or ``None``."""
        return self._of_job.get((job_id, "consume")), self._of_job.get((job_id, "refund"))

    def balance(self, user_id, up_to):
        return sum(entry["points"] for entry in self.entries.values()
                   if entry["user_id"] == user_id and entry["id"] <= up_to)

    def state(self, job_id):
        job = self.jobs[job_id]
        if job["status"] == "pending":
            return PENDING
        if job["status"] == "running":
            return RUNNING if not job["cost"] else AFTER if self.of(job_id)[0] else BEFORE
        return SETTLING if job["settlement"] == "due" else FINISHED


def read_live(path):
    """The rows of a file that a server has open. Read-only: closing it changes nothing."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        return _read(connection)


def read_dead(path, folder):
    """The rows of a file whose server is dead, from a copy: the file stays as the dead left it, and the
    next start meets its journal."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for ending in ("", "-wal"):
        if path.with_name(path.name + ending).exists():
            shutil.copyfile(path.with_name(path.name + ending), folder / f"copy.db{ending}")
    with closing(sqlite3.connect(folder / "copy.db")) as connection:
        return _read(connection)


def _read(connection):
    connection.row_factory = sqlite3.Row
    connection.execute("BEGIN")  # one moment for all of it
    return Rows(
        {row["id"]: dict(row) for row in connection.execute("SELECT * FROM jobs")},
        {row["id"]: dict(row) for row in connection.execute("SELECT * FROM ledger_entries ORDER BY id")},
        {(row["job_id"], row["name"]): dict(row) for row in connection.execute("SELECT * FROM job_steps")})


# -------------------------------------------------------------------------------- what must be true

@dataclass(frozen=True)
class Expected:
    """What must be true of a job that was ``state`` at the kill. ``goes_on``: it is still to be finished."""

    state: str
    goes_on: bool
    status: str | None = None
    code: str | None = None
    money: str | None = None
    attempts_spent: int = 0


def expectation(rows, job_id):
    """From the rows at the kill alone.

    Pending: nothing had happened, so it goes on. Running: interrupted; its points, if any, return,
    unless its kind may be repeated and attempts are left: then it goes on. Failed and not settled: its
    points return. Final: nothing changes.
    """
    job, (taken, returned) = rows.jobs[job_id], rows.of(job_id)
    state, spent = rows.state(job_id), job["attempts_spent"]
    if state == PENDING:
        return Expected(state, True, attempts_spent=spent)
    if job["status"] == "running":
        spent += 1
        if job["on_interrupt"] == "retry" and spent < job["max_attempts"]:
            return Expected(state, True, attempts_spent=spent)
        return Expected(state, False, "failed", "INTERRUPTED", "refunded" if taken else "none", spent)
    if job["status"] == "failed":
        return Expected(state, False, "failed", job["error_code"], "refunded" if taken else "none", spent)
    money = "refunded" if returned else "consumed" if taken else "none"
    return Expected(state, False, "succeeded", None, money, spent)


def judge(answer, expected, job, rows):
    """What the API's answer is worth: ``true``, ``not yet`` (it claims nothing wrong), or what is wrong with it.

    ``rows``: the file now, for the balance that the sentence names.
    """
    status, code, money = answer["status"], (answer["error"] or {}).get("code"), answer["money"]
    if expected.goes_on:
        if code in ("INTERRUPTED", "TIMED_OUT"):
            return f"says {code}, but it was {expected.state} and goes on"
        return "true"
    if status in ("pending", "running") or (status == "failed" and money == "checking"):
        return "not yet"
    if (status, code, money) != (expected.status, expected.code, expected.money):
        return (f"says {status}, {code}, points {money}; it was {expected.state}, so it must be {expected.status}, "
                f"{expected.code}, points {expected.money}")
    return _judge_sentence(answer["money_message"], expected, job, rows)


def _judge_sentence(sentence, expected, job, rows):
    """The claims are fixed: none used, or returned with the balance after it; never both."""
    claims = []
    if expected.code == "INTERRUPTED":
        claims.append("interrupted")
    if expected.money == "none":
        claims.append("No points were used")
    if expected.money == "refunded":
        returned = rows.of(job["id"])[1]
        if returned is None:
            return "says the points were returned, but the ledger has no such entry"
        claims += [f"{job['cost']} point", "returned", f"balance {rows.balance(job['user_id'], returned['id'])})"]
    said = sentence.replace(",", "")
    missing = [claim for claim in claims if claim not in said]
    if missing or (expected.money != "none") == ("No points were used" in sentence):
        return f"says {sentence!r}, which lacks {missing} or contradicts points {expected.money}"
    return "true"


def check_books(rows):
    """Every breach of the ledger, recomputed from the raw rows."""
    balances, seen = Counter(), Counter()
    for entry in rows.entries.values():
        user, job = entry["user_id"], rows.jobs.get(entry["job_id"])
        balances[user] += entry["points"]
        seen[entry["job_id"], entry["kind"]] += entry["job_id"] is not None
        if entry["balance_after"] != balances[user] or balances[user] < 0:
            yield f"entry {entry['id']} says balance {entry['balance_after']}; the sum is {balances[user]}"
        if entry["kind"] != "grant" and (job is None or job["user_id"] != user or job["cost"] != abs(entry["points"])):
            yield f"entry {entry['id']} ({entry['kind']} {entry['points']}) does not fit its job"
    for (job_id, kind), count in seen.items():
        if count > 1:
            yield f"{rows.jobs[job_id]['number']}: {count} entries of {kind}"
    for job_id, job in rows.jobs.items():
        taken, returned = seen[job_id, "consume"], seen[job_id, "refund"]
        if returned > taken:
            yield f"{job['number']}: returned what was never consumed"
        if job["status"] == "failed" and job["settlement"] == "settled" and taken != returned:
            yield f"{job['number']}: failed and settled, consumed {taken} times, returned {returned} times"


def check_rows(before, after, expected, life_charges):
    """What the file must say when everything has ended, against the rows at the kill."""
    for entry_id, entry in before.entries.items():
        if after.entries.get(entry_id) != entry:
            yield f"entry {entry_id} was {entry} at the kill and is {after.entries.get(entry_id)}"
    for key, step in before.steps.items():
        if after.steps.get(key) != step:
            yield f"step {key[1]!r} of {before.jobs[key[0]]['number']} was done and is not as it was"
    for job_id, old in before.jobs.items():
        new, must = after.jobs.get(job_id), expected[job_id]
        if new is None:
            yield f"{old['number']} ({must.state}) is lost"
            continue
        for wrong in _check_job(old, new, must, after.of(job_id), life_charges):
            yield f"{old['number']} ({must.state} at the kill): {wrong}"


def _check_job(old, new, must, entries, life_charges):
    taken, returned = entries
    if new["status"] not in ("succeeded", "failed") or new["settlement"] not in ("none", "settled"):
        yield f"has not ended: {new['status']}, {new['settlement']}"
    if must.state == FINISHED and any(old[name] != new[name] for name in old):
        yield f"was final and has changed: {[name for name in old if old[name] != new[name]]}"
    if new["attempts_spent"] != must.attempts_spent:
        yield f"attempts spent {new['attempts_spent']}, not {must.attempts_spent}"
    if must.goes_on:
        if new["error_code"] in ("INTERRUPTED", "TIMED_OUT", "INTERNAL_ERROR"):
            yield f"ended {new['error_code']}, but nothing stood in its way"
        if new["status"] == "succeeded" and life_charges and (taken is None or returned is not None):
            yield f"succeeded, consumed: {taken is not None}, returned: {returned is not None}"
        return
    money = "refunded" if returned else "consumed" if taken else "none"
    if (new["status"], new["error_code"], money) != (must.status, must.code, must.money):
        yield (f"{new['status']}, {new['error_code']}, points {money}; it must be {must.status}, {must.code}, "
               f"points {must.money}")


# --------------------------------------------------------------------------------------- the trials

@dataclass(frozen=True)
class Work:
    """What is submitted. ``failing``: params that fail after the charge, if the kind has such;
    ``quick``: params that end at once, to see that nobody is locked out."""

    kind: str
    params: dict
    failing: dict | None = None
    quick: dict | None = None
    file: Path | None = None
    upload_field: str | None = None


@dataclass
class Person:
    id: int
    token: str


@dataclass
class Trial:
    """One kill, and what came of it."""

    number: int
    aim: str
    killed_after_seconds: float = 0.0
    kills: int = 1
    states: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    truth_ms: float | None = None
    told_at_once: int = 0
    jobs: list = field(default_factory=list)
    breaches: list = field(default_factory=list)


class CrashTest:
    """Trials on one throw-away file. ``slots`` fewer than ``people``: so somebody always waits."""

    def __init__(self, folder, work, *, kinds, people=5, slots=3, seed=0, within_ms=1000):
        self.folder, self.work, self.within_ms = Path(folder), work, within_ms
        self.random, self.seed = random.Random(seed), seed
        self.server = Server(folder, {"KINDS": kinds, "MAX_RUNNING_JOBS": str(slots)})
        self.people_count, self.slots = people, slots
        self.people, self.trials, self.life, self.repeats = [], [], {}, False
        self._sent = 0
        self._pool = ThreadPoolExecutor(people + 1)

    # ------------------------------------------------------------------------------------ beginning

    def begin(self):
        """Start, make people, and measure the life of a job: seconds from the request to each event."""
        self.server.start()
        self._ask("GET", "/healthz")
        self.people = self._add_people()
        lives = [self._live(self.work.params, person) for person in self.people[:3]]
        self.life = {event: statistics.median(life[event] for life in lives) for event in lives[0]}
        self.repeats = all(job["on_interrupt"] == "retry" for job in read_live(self.server.database).jobs.values())
        if self.work.failing is not None:
            failed = self._live(self.work.failing, self.people[0])
            self.life |= {event: failed[event] for event in ("failed", "settled") if event in failed}
        return self.life

    def close(self):
        self.server.kill()
        self._pool.shutdown(wait=False)

    def _add_people(self):
        """Plain rows: nothing in the file needs functions of the application."""
        made = []
        with closing(sqlite3.connect(self.server.database, timeout=10)) as connection, connection:
            for n in range(self.people_count):
                token = f"ain_{secrets.token_urlsafe(32)}"
                user_id = connection.execute(
                    "INSERT INTO users (email, token_hash) VALUES (?, ?)",
                    (f"person{n + 1}@example.org", hashlib.sha256(token.encode()).hexdigest())).lastrowid
                connection.execute("INSERT INTO ledger_entries (user_id, kind, points, balance_after, note) "
                                   "VALUES (?, 'grant', ?, ?, 'crash test')", (user_id, POINTS_EACH, POINTS_EACH))
                made.append(Person(user_id, token))
        return made

    def _live(self, params, person):
        sent_at = time.time()
        answer = self._submit(person, params)
        if answer.status != 202:
            raise RuntimeError(f"{self.work.kind} was not accepted: {answer.status} {answer.body.decode()[:500]}")
        job_id = answer.json()["job"]["id"]
        self._until_ended()
        with closing(sqlite3.connect(self.server.database, timeout=10)) as connection:
            events = connection.execute("SELECT event, at FROM job_events WHERE job_id = ? ORDER BY seq DESC",
                                        (job_id,)).fetchall()
        return {event: max(datetime.fromisoformat(at).timestamp() - sent_at, 0.0) for event, at in events}

    @property
    def charges(self):
        return "charged" in self.life

    @property
    def seconds(self):
        """From the request to the end of the work."""
        return self.life.get("succeeded") or self.life["failed"]

    @property
    def wanted(self):
        """The states that a kill of this kind can hit."""
        states = [PENDING, *((BEFORE, AFTER) if self.charges else (RUNNING,))]
        return [*states, SETTLING] if self.work.failing is not None or not self.repeats else states

    # ------------------------------------------------------------------------------------- one trial

    def hits(self, state):
        """How many kills found at least one job in this state."""
        return sum(1 for trial in self.trials if trial.states[state])

    def next_aim(self):
        """The state hit least, while it has been hit too rarely; else any moment of the whole life."""
        rarest = min(self.wanted, key=self.hits)
        return rarest if self.hits(rarest) < AIMED_SHARE * (len(self.trials) + 1) else ANY

    def enough(self, trials):
        """Whether so many trials are done, and each state has been hit in a tenth of them."""
        done = len(self.trials)
        return done >= trials and all(self.hits(state) >= SHARE_LEAST * done for state in self.wanted)

    def run(self, aim):
        """One trial: submit, kill, look at the dead file, start again, check."""
        trial = Trial(len(self.trials) + 1, aim)
        known = set(read_live(self.server.database).jobs)
        twice = aim == SETTLING and (self.work.failing is None or self.random.random() < 0.5)
        answers = self._submit_and_kill(trial, watch=aim == SETTLING and not twice)
        before = read_dead(self.server.database, self.folder / "dead")
        if twice:
            before = self._kill_in_recovery(trial, before)
        expected = {job_id: expectation(before, job_id) for job_id in before.jobs}
        trial.jobs = [job_id for job_id in before.jobs if job_id not in known]
        trial.states = Counter(expected[job_id].state for job_id in trial.jobs)
        for answer in answers:
            self._check_accepted(trial, answer, before)
        opened = self.server.start()
        self._check_truth(trial, opened, before, expected)
        self._check_nobody_is_locked_out(trial, before, expected)
        audit = self._pool.submit(self.server.flask, "audit")
        self._until_ended()
        after = read_live(self.server.database)
        trial.breaches += check_rows(before, after, expected, self.charges)
        trial.breaches += check_books(after)
        if audit.result().returncode != 0:
            trial.breaches.append(f"flask audit says: {audit.result().stdout}{audit.result().stderr}")
        for job_id in trial.jobs:
            trial.outcomes[expected[job_id].state, _outcome(after, job_id)] += 1
        self.trials.append(trial)
        return trial

    def _submit_and_kill(self, trial, watch):
        """Everybody submits, the first at once, the others a little later; then the blow. Returns the answers."""
        sent_at = time.monotonic()
        later = [0.0, *(self.random.uniform(0, self.seconds / 3) for _ in self.people[1:])]
        moment = self._moment(trial.aim)
        asked = [self._pool.submit(self._submit_at, sent_at + offset, person, self._params(watch))
                 for offset, person in zip(later, self.people, strict=True)]
        if watch:
            for one in asked:
                one.result()
            self._until_due(self._waves * self.life.get("failed", self.seconds) + 1)
        else:
            time.sleep(max(sent_at + moment - time.monotonic(), 0))
        trial.killed_after_seconds = time.monotonic() - sent_at
        self.server.kill()
        return [one.result() for one in asked]  # all of them, before another server could hear them

    def _moment(self, aim):
        """Seconds after the first request, drawn evenly over where the measured life has this state."""
        claimed, ends = self.life["claimed"], self.seconds
        charged = self.life.get("charged", claimed)
        gap = aim == PENDING and self.random.random() < 0.5  # between submit and claim; else in the queue
        begin, end = (0, claimed * 1.5) if gap else {
            PENDING: (claimed, ends), BEFORE: (claimed, charged), AFTER: (charged, ends), RUNNING: (claimed, ends),
        }.get(aim, (0, self._waves * ends))
        return self.random.uniform(begin, end)

    @property
    def _waves(self):
        return -(-self.people_count // self.slots)

    def _params(self, failing):
        if self.work.failing is not None and (failing or self.random.random() < 0.3):
            return self.work.failing
        return self.work.params

    def _until_due(self, seconds):
        """Return the moment a failed job stands in the file whose points are not settled: a window of about
        a millisecond, so this looks without a pause."""
        ends = time.monotonic() + seconds
        with closing(sqlite3.connect(f"{self.server.database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            while time.monotonic() < ends:
                if connection.execute("SELECT 1 FROM jobs WHERE settlement = 'due' LIMIT 1").fetchone():
                    return

    def _kill_in_recovery(self, trial, first):
        """Start again, and kill again between reap and settle. Returns the rows then."""
        workers = self.server.database.parent / "workers"
        locks = set(os.listdir(workers))
        self.server.start()
        ends = time.monotonic() + START_SECONDS_MAX
        while not set(os.listdir(workers)) - locks and time.monotonic() < ends:
            pass  # recovery begins when the new worker's lock file is there
        self._until_due(0.5)
        self.server.kill()
        trial.kills += 1
        second = read_dead(self.server.database, self.folder / "dead")
        for job_id, job in first.jobs.items():
            must, now = expectation(first, job_id), second.jobs.get(job_id)
            untouched = now is not None and (now["status"], now["attempt"]) == (job["status"], job["attempt"])
            if not must.goes_on and not untouched and (now is None or now["error_code"] != must.code):
                trial.breaches.append(f"{job['number']} was {must.state}; after a start that was killed: {now}")
        return second

    # --------------------------------------------------------------------------------------- checks

    def _check_accepted(self, trial, answer, before):
        if answer is None:
            return  # nothing was promised
        if answer.status not in (200, 202):
            trial.breaches.append(f"a submit was refused: {answer.status} {answer.body.decode()[:300]}")
        elif answer.json()["job"]["id"] not in before.jobs:
            trial.breaches.append(f"{answer.json()['job']['number']} was accepted and is lost")

    def _check_truth(self, trial, opened, before, expected):
        """Ask for every job until the whole truth is told; never may anything else be."""
        waiting, at_once = list(trial.jobs), True
        ends = opened + max(5.0, 3 * self.within_ms / 1000)
        while waiting and time.monotonic() < ends:
            told = []
            for job_id in waiting:  # all are asked before any answer is looked into: only the server's time counts
                answer = self._ask("GET", f"/api/jobs/{job_id}", person=self._owner(before.jobs[job_id]),
                                   headers={"Accept-Language": "en"})
                told.append((job_id, answer, time.monotonic()))
            rows = read_live(self.server.database)
            for job_id, answer, told_at in told:
                job = before.jobs[job_id]
                verdict = (judge(answer.json(), expected[job_id], job, rows) if answer.status == 200
                           else f"is answered with {answer.status}")
                if verdict == "not yet":
                    continue
                waiting.remove(job_id)
                trial.told_at_once += at_once and verdict == "true"
                trial.truth_ms = (told_at - opened) * 1000
                if verdict != "true":
                    trial.breaches.append(f"{job['number']} ({expected[job_id].state} at the kill) {verdict}")
            at_once = False
        if waiting:
            trial.breaches.append(f"no truth about {[before.jobs[job_id]['number'] for job_id in waiting]} after "
                                  f"{time.monotonic() - opened:.1f} s")
        elif trial.truth_ms is not None and trial.truth_ms > self.within_ms:
            trial.breaches.append(f"the truth took {trial.truth_ms:.0f} ms")

    def _check_nobody_is_locked_out(self, trial, before, expected):
        """Whoever's work has ended can ask again at once."""
        busy = {before.jobs[job_id]["user_id"] for job_id in trial.jobs if expected[job_id].goes_on}
        for person in self.people:
            if person.id not in busy:
                answer = self._submit(person, self.work.quick or self.work.params)
                if answer.status != 202:
                    trial.breaches.append(f"person {person.id} is locked out: {answer.status} "
                                          f"{answer.body.decode()[:300]}")

    def _until_ended(self):
        ends = time.monotonic() + 60 + 2 * self.people_count * self.life.get("succeeded", 60)
        while time.monotonic() < ends:
            if all(job["status"] in ("succeeded", "failed") and job["settlement"] != "due"
                   for job in read_live(self.server.database).jobs.values()):
                return
            time.sleep(0.02)

    # --------------------------------------------------------------------------------------- asking

    def _owner(self, job):
        return next(person for person in self.people if person.id == job["user_id"])

    def _ask(self, method, path, body=None, person=None, headers=()):
        return self.server.request(method, path, body, token=person and person.token, headers=headers)

    def _submit(self, person, params):
        path = f"/api/kinds/{self.work.kind}/jobs"
        if self.work.file is None:
            return self._ask("POST", path, params, person)
        self._sent += 1  # another content each time, or a finished result would be the answer
        content = self.work.file.read_bytes() + b"\n" * self._sent
        body, headers = multipart(params, self.work.upload_field, self.work.file.name, content)
        return self._ask("POST", path, body, person, headers)

    def _submit_at(self, moment, person, params):
        """The answer, or ``None`` if the server died before it came."""
        time.sleep(max(moment - time.monotonic(), 0))
        try:
            return self._submit(person, params)
        except (OSError, http.client.HTTPException):
            return None


def _outcome(rows, job_id):
    job, (taken, returned) = rows.jobs[job_id], rows.of(job_id)
    how = "interrupted" if job["error_code"] == "INTERRUPTED" else job["status"]
    points = "points returned" if returned else "points used" if taken else "no points used"
    return f"{how}, {points}"


# --------------------------------------------------------------------------------------- the report

def _line(trial):
    states = ", ".join(f"{count} {state}" for state in STATES if (count := trial.states[state]))
    truth = f"truth after {trial.truth_ms:4.0f} ms" if trial.truth_ms is not None else "nothing was stored yet"
    twice = ", and again in recovery" if trial.kills == 2 else ""
    return f"{trial.number:4}  killed at {trial.killed_after_seconds:6.3f} s{twice}: {states or 'no job'}; {truth}"


def _life(life):
    return ", ".join(f"{event} {seconds * 1000:.0f}" for event, seconds in sorted(life.items(), key=lambda one: one[1]))


def report(test):
    """The lines that sum up all trials."""
    trials = test.trials
    yield ""
    yield (f"{len(trials)} trials, {sum(trial.kills for trial in trials)} kills of the server, "
           f"{sum(trial.states.total() - trial.states[FINISHED] for trial in trials)} jobs in flight or due at a kill; "
           f"seed {test.seed}")
    yield f"{'state at the kill':<20}{'kills':>7}{'jobs':>7}   what became of them"
    outcomes = sum((trial.outcomes for trial in trials), Counter())
    for state in STATES:
        jobs = sum(trial.states[state] for trial in trials)
        if jobs or state in test.wanted:
            became = "; ".join(f"{count} {what}" for (at, what), count in sorted(outcomes.items()) if at == state)
            yield f"{state:<20}{test.hits(state):>7}{jobs:>7}   {became}"
    times = sorted(trial.truth_ms for trial in trials if trial.truth_ms is not None)
    if times:
        p95 = times[min(len(times) - 1, round(0.95 * (len(times) - 1)))]
        yield (f"from the open port to the truth about every job, ms: min {times[0]:.0f}, median "
               f"{statistics.median(times):.0f}, p95 {p95:.0f}, max {times[-1]:.0f}")
    told, asked = sum(trial.told_at_once for trial in trials), sum(len(trial.jobs) for trial in trials)
    yield f"told in the very first answer: {told} of {asked}"
    missed = [state for state in test.wanted if test.hits(state) < SHARE_LEAST * len(trials)]
    for state in missed:
        yield f"NOT HIT OFTEN ENOUGH: {state}"
    breaches = [(trial.number, breach) for trial in trials for breach in trial.breaches]
    yield f"breaches: {len(breaches)}"
    for number, breach in breaches:
        yield f"  trial {number}: {breach}"


# -------------------------------------------------------------------------------------- the command

def _work(name, params, file, kind):
    """What to submit for this kind. ``kind``: the application's ``Kind``, or ``None`` if it is off here."""
    if name == "sample" and not params:
        return Work("sample", {"seconds": 0.6}, {"seconds": 0.6, "fail": True}, {"seconds": 0})
    upload_field = kind.upload_field if kind is not None else "file"
    if file is None and kind is not None and kind.sample:
        file = str(kind.home / kind.sample)
    return Work(name, dict(params), file=Path(file) if file else None, upload_field=upload_field)


def _param(_context, _option, values):
    pairs = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals:
            raise click.BadParameter(f"{value!r} is not like name=value")
        try:
            pairs.append((name, json.loads(text)))
        except ValueError:
            pairs.append((name, text))
    return tuple(pairs)


@click.command("crashtest")
@click.argument("kind", default="sample")
@click.option("--trials", default=20, show_default=True, type=click.IntRange(1), help="Kills of the server.")
@click.option("--seed", type=int, help="Draws the same moments again.")
@click.option("--people", default=5, show_default=True, type=click.IntRange(1, 50), help="Who submit in each trial.")
@click.option("--within-ms", default=1000, show_default=True, help="From the open port to the truth, at most.")
@click.option("--param", "params", multiple=True, callback=_param, metavar="NAME=VALUE", help="Of the kind.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False), help="What a kind with an upload is given.")
def command(kind, trials, seed, people, within_ms, params, file):
    """Kill a real server with SIGKILL at random moments and check what stands afterwards.

    It runs on a throw-away file, never on yours. Exit code 1 on any breach.
    """
    from flask import current_app
    known = current_app.kinds.get(kind) if current_app else None
    kinds = current_app.settings.names("KINDS") if current_app else []
    if known is None:
        kinds = [*kinds, kind]
    folder = Path(tempfile.mkdtemp(prefix="ainori-crashtest-"))
    test = CrashTest(folder, _work(kind, params, file, known), kinds=",".join(kinds), people=people,
                     slots=max(1, people * 3 // 5), seed=secrets.randbits(32) if seed is None else seed,
                     within_ms=within_ms)
    failed = True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is not left behind
    try:
        click.echo(f"a life of {kind}, ms after the request: {_life(test.begin())}")
        while not test.enough(trials) and len(test.trials) < trials * (1 + EXTRA_TRIALS_MAX):
            click.echo(_line(trial := test.run(test.next_aim())))
            for breach in trial.breaches:
                click.echo(f"      BREACH: {breach}")
        click.echo("\n".join(report(test)))
        failed = not test.enough(trials) or any(trial.breaches for trial in test.trials)
    except (RuntimeError, OSError, http.client.HTTPException) as error:
        click.echo(f"The crash test could not go on: {error}\n{test.server.log_end()}", err=True)
    finally:
        test.close()
        if failed:
            click.echo(f"The file and the server's log are kept in {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise SystemExit(1)
