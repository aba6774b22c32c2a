"""``flask crashtest``: strike a real server down, again and again, and check what stands afterwards.

A trial: several people submit; a blow falls at a moment drawn over the measured life of a job, or at
one chosen statement of the writer; the rows at that moment are read from a copy of the dead file; the
server starts again on that file. What must be true then is worked out from those rows alone
(``verdicts.py``), with none of the application's own code.
"""
import hashlib
import http.client
import importlib.util
import json
import os
import random
import secrets
import shutil
import signal
import sqlite3
import statistics
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

from webapp import forms, verdicts
from webapp.kinds import discover
from webapp.served import START_SECONDS_MAX, Server, multipart
from webapp.verdicts import AFTER, BEFORE, ENDS, FINISHED, PENDING, RUNNING, SETTLING, STATES, read_dead, read_live

# How the server is struck, and how often each, of those that are asked for.
BLOWS = {
    "kill": 10,       # SIGKILL to the whole group, at a random moment
    "statement": 5,   # the same, just before one statement of the writer
    "term": 2,        # SIGTERM to the master, as a host does before it ends or moves it
    "hup": 2,         # SIGHUP: a new worker beside the old one
    "stop": 3,        # SIGSTOP beyond stale, and SIGCONT; alone, beside a second server, or taken for dead by it
}
# The blow that shows that a protection is missing.
BLOWS_OF_BREAK = {"fence": ["stop"], "settle": ["kill"], "reap": ["kill"]}
ANY = "any moment"
# Every state that a life passes through is aimed at until this share of the kills has hit it.
AIMED_SHARE = 0.15
SHARE_LEAST = 0.1
EXTRA_TRIALS_MAX = 2  # times the trials asked for, if a state has not been hit often enough
FILE_TRIALS = 50      # then a new file: reading all of it each time must stay quick
POINTS_EACH = 1_000_000
# Short, so that a trial meets what is on both sides of them.
LIMITS = {"DRAIN_SECONDS": "0.2", "HEARTBEAT_SECONDS": "0.25", "WORKER_STALE_SECONDS": "1",
          "RECOVERY_INTERVAL_SECONDS": "0.5"}
STALE_SECONDS = 1.0
BARE_STARTS_MAX = 3  # so many bare starts may pass until the truth is told
EXIT_SECONDS_MAX = 5


@dataclass(frozen=True)
class Work:
    """What is submitted: ``params`` as JSON, or beside a ``file`` as ``{name: [text, …]}``. ``failing``: params that
    fail after the charge, if the kind has such; ``quick``: params that end at once, to see that nobody is locked out."""

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
    """One blow, and what came of it."""

    number: int
    blow: str
    aim: str
    struck_after_seconds: float = 0.0
    kills: int = 0
    states: Counter = field(default_factory=Counter)
    outcomes: Counter = field(default_factory=Counter)
    truth_ms: float | None = None
    told_at_once: int = 0
    jobs: list = field(default_factory=list)
    breaches: list = field(default_factory=list)
    notes: list = field(default_factory=list)


class CrashTest:
    """Trials on throw-away files. ``slots`` fewer than ``people``: so somebody always waits.

    ``blows``: those that fall, of ``BLOWS``. ``broken``: a protection that is taken out of the server.
    """

    def __init__(self, folder, work, *, kinds, people=5, slots=3, seed=0, within_ms=1000, blows=tuple(BLOWS),
                 broken=None):
        self.folder, self.work, self.within_ms = Path(folder), work, within_ms
        self.random, self.seed = random.Random(seed), seed
        self.people_count, self.slots, self.blows, self.broken = people, slots, tuple(blows), broken
        self._environ = {**LIMITS, "KINDS": kinds, "MAX_RUNNING_JOBS": str(slots)}
        self.server, self.people, self.trials, self.life, self.repeats = None, [], [], {}, False
        self.bare_ms = 0.0
        self.statements, self.recovery_statements = Counter(), Counter()  # name: how often it was struck at
        self._sent = self._files = 0
        self._known_breaches = set()
        self._pool = ThreadPoolExecutor(people + 1)

    # ------------------------------------------------------------------------------------ beginning

    def begin(self):
        """Start, make people, and measure the life of a job: seconds from the request to each event."""
        self._new_file()
        self.bare_ms = self._bare_start_ms()
        lives = [self._live(self.work.params, person) for person in self.people[:3]]
        self.life = {event: statistics.median(life[event] for life in lives) for event in lives[0]}
        self.repeats = all(job["on_interrupt"] == "retry" for job in read_live(self.server.database).jobs.values())
        if self.work.failing is not None:
            failed = self._live(self.work.failing, self.people[0])
            self.life |= {event: failed[event] for event in ("failed", "settled") if event in failed}
        if "statement" in self.blows:
            self._learn_statements()
        return self.life

    def _bare_start_ms(self):
        """From the open port to an answer where there is nothing to recover: what this machine is worth."""
        self.server.kill()
        opened = self._serve()
        self.server.request("GET", "/healthz")
        return (time.monotonic() - opened) * 1000

    @property
    def truth_ms_max(self):
        """As promised; on a machine where a bare start alone takes a good part of that, some of those."""
        return max(self.within_ms, BARE_STARTS_MAX * self.bare_ms)

    def finish(self):
        """No trial more: what the operator's audit says of the last file belongs to the last trial."""
        self._breach(self.trials[-1], self.close_file())

    def close(self):
        if self.server is not None:
            self.server.kill()
        self._pool.shutdown(wait=False)

    def _new_file(self):
        self._files += 1
        folder = self.folder / str(self._files)
        folder.mkdir(parents=True)
        self.server = Server(folder, self._environ)
        self._serve()
        self.server.request("GET", "/healthz")  # the file is there when somebody has been answered
        self.people = self._add_people()

    def close_file(self):
        """No trial more on this file. Returns what the operator's own audit says against it."""
        done = self.server.flask("audit")
        self.server.kill()
        return [f"flask audit says: {done.stdout}{done.stderr}"] if done.returncode else []

    def _serve(self, server=None, **orders):
        """Start the server, with the sabotage that is ordered. Returns the moment its port was open."""
        server = server or self.server
        self._order(server, orders)
        return server.start()

    def _order(self, server, orders):
        if self.broken is not None:
            orders = {**orders, "break": self.broken}
        server.app = "webapp.sabotage:serve()" if orders else "wsgi:app"
        (server.folder / "sabotage.json").write_text(json.dumps(orders))

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
        if answer.status == 200:
            raise RuntimeError(f"{self.work.kind} answers from a finished result: let requests differ, with {{n}} in the "
                               "value of a --param")
        if answer.status == 400 and (errors := answer.json().get("errors")):
            raise RuntimeError(f"{self.work.kind} was not accepted. Give what it needs: " + "; ".join(
                f"--param {error['field']}=… ({error['message']})" for error in errors))
        if answer.status != 202:
            raise RuntimeError(f"{self.work.kind} was not accepted: {answer.status} {answer.body.decode()[:500]}")
        job_id = answer.json()["job"]["id"]
        self._until_ended()
        with closing(sqlite3.connect(self.server.database, timeout=10)) as connection:
            events = connection.execute("SELECT event, at FROM job_events WHERE job_id = ? ORDER BY seq DESC",
                                        (job_id,)).fetchall()
        return {event: max(datetime.fromisoformat(at).timestamp() - sent_at, 0.0) for event, at in events}

    def _learn_statements(self):
        """What the writer runs in a life of the work, and in the recovery from a kill in the middle of one."""
        path = self.server.folder / "statements"
        self.server.kill()
        self._serve(trace=str(path))
        self.server.request("GET", "/healthz")
        begun = len(path.read_text().splitlines())
        for params in (self.work.params, self.work.failing):
            if params is not None:
                self._live(params, self.people[0])
        lived = len(path.read_text().splitlines())
        for person in self.people:
            self._submit(person, self.work.params)
        time.sleep((self.life.get("charged", self.life["claimed"]) + self.seconds) / 2)
        self.server.kill()
        struck = len(path.read_text().splitlines())
        self._serve(trace=str(path))
        self.server.request("GET", "/healthz")
        recovered = len(path.read_text().splitlines())
        self._until_ended()
        names = path.read_text().splitlines()
        self.statements = Counter(dict.fromkeys(names[begun:lived], 0))
        self.recovery_statements = Counter(dict.fromkeys(names[struck:recovered], 0))
        self.server.kill()
        self._serve()

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

    # ------------------------------------------------------------------------------- what comes next

    @property
    def killed(self):
        """The trials whose blow was an abrupt death."""
        return [trial for trial in self.trials if trial.kills]

    def hits(self, state):
        """How many kills found at least one job in this state."""
        return sum(1 for trial in self.killed if trial.states[state])

    def next_trial(self):
        """The next blow, drawn by weight; a kill is aimed at the state hit least while that is hit too rarely."""
        blow = self.random.choices(self.blows, [BLOWS[blow] for blow in self.blows])[0]
        rarest = min(self.wanted, key=self.hits)
        rare = self.hits(rarest) < AIMED_SHARE * (len(self.killed) + 1)
        return self.run(blow, rarest if blow == "kill" and rare else ANY)

    def missed(self):
        """States hit in less than a tenth of the kills."""
        return [state for state in self.wanted if self.killed and self.hits(state) < SHARE_LEAST * len(self.killed)]

    def enough(self, trials):
        """Whether so many trials are done, and each state has been hit in a tenth of the kills."""
        return len(self.trials) >= trials and (not self.missed() or self.broken is not None)

    # ------------------------------------------------------------------------------------- one trial

    def run(self, blow, aim=ANY):
        """One trial: submit, strike, look at the file, go on, check."""
        trial = Trial(len(self.trials) + 1, blow, aim)
        if self.trials and len(self.trials) % FILE_TRIALS == 0:
            self._breach(trial, self.close_file())
            self._new_file()
        known = set(read_live(self.server.database).jobs)
        before, expected = getattr(self, f"_{blow}")(trial, known)
        self._until_ended()
        after = read_live(self.server.database)
        self._breach(trial, verdicts.check_rows(before, after, expected, self.charges))
        self._breach(trial, verdicts.check_books(after))
        self._breach(trial, verdicts.check_events(after))
        for job_id in trial.jobs:
            trial.outcomes[expected[job_id].state, _outcome(after, job_id)] += 1
        self.trials.append(trial)
        return trial

    def _breach(self, trial, found):
        """Add what was not found by an earlier trial: a file that is wrong stays wrong."""
        new = [breach for breach in found if breach not in self._known_breaches]
        trial.breaches += new
        self._known_breaches.update(new)

    def _look(self, trial, rows, known, dead=True):
        """What must become of everything that stands in these rows."""
        expected = {job_id: verdicts.expectation(rows, job_id, dead) for job_id in rows.jobs}
        trial.jobs = [job_id for job_id in rows.jobs if job_id not in known]
        trial.states = Counter(expected[job_id].state for job_id in trial.jobs)
        return expected

    def _kill(self, trial, known):
        """SIGKILL to all of it, at a random moment; sometimes once more while the next start recovers."""
        twice = trial.aim == SETTLING and (self.work.failing is None or self.random.random() < 0.5)
        watch = trial.aim == SETTLING and not twice
        asked, sent_at = self._everybody(watch)
        if watch:
            for one in asked:
                one.result()
            self._until_due(self._waves * self.life.get("failed", self.seconds) + 1)
        else:
            self._wait_for_moment(trial, sent_at)
        return self._after_death(trial, known, asked, sent_at, twice)

    def _statement(self, trial, known):
        """SIGKILL just before one statement of the writer, in a life or while a start recovers."""
        if self.recovery_statements and self.random.random() < 0.3:
            asked, sent_at = self._everybody()
            self._wait_for_moment(trial, sent_at)
            return self._after_death(trial, known, asked, sent_at, twice=True)
        name = min(self.statements, key=lambda name: (self.statements[name], self.random.random()))
        self.server.kill()
        # Not before the first submit: a start runs some of the same statements.
        self._serve(kill_at=name, times=self.random.randint(1, 1 + self.people_count // 2), after="_climb")
        asked, sent_at = self._everybody(self.work.failing is not None and self.random.random() < 0.5)
        ends = sent_at + self._waves * self.seconds + 1
        while self.server.process.poll() is None and time.monotonic() < ends:
            time.sleep(0.005)
        self._note_statement(trial, self.statements, name)
        return self._after_death(trial, known, asked, sent_at)

    def _note_statement(self, trial, counter, name):
        reached = self.server.process.poll() is not None
        counter[name] += 1
        trial.notes.append(f"at '{name}'" if reached else f"'{name}' was not reached")

    def _after_death(self, trial, known, asked, sent_at, twice=False):
        """Make sure that it is dead, start it again, and hear what everybody is told."""
        trial.struck_after_seconds = time.monotonic() - sent_at
        self.server.kill()
        trial.kills += 1
        answers = [one.result() for one in asked]  # all of them, before another server could hear them
        before = read_dead(self.server.database, self.folder / "dead")
        if twice:
            before = self._kill_in_recovery(trial, before)
        expected = self._look(trial, before, known)
        self._check_accepted(trial, answers, before)
        opened = self._serve()
        self._check_truth(trial, self.server, opened, before, expected)
        self._check_nobody_is_locked_out(trial, before, expected)
        return before, expected

    def _kill_in_recovery(self, trial, first):
        """Start again, and kill again between reap and settle, or at a statement. Returns the rows then."""
        if self.recovery_statements and self.random.random() < 0.5:
            name = min(self.recovery_statements, key=lambda name: (self.recovery_statements[name],
                                                                   self.random.random()))
            self._order(self.server, {"kill_at": name, "times": self.random.randint(1, 2)})
            self.server.launch()
            ends = time.monotonic() + 3
            while self.server.process.poll() is None and time.monotonic() < ends:
                time.sleep(0.005)
            self._note_statement(trial, self.recovery_statements, name)
        else:
            locks = self._locks()
            self._order(self.server, {})
            self.server.launch()
            ends = time.monotonic() + START_SECONDS_MAX
            while not self._locks() - locks and time.monotonic() < ends:
                pass  # recovery begins when the new worker's lock file is there
            self._until_due(0.5)
        self.server.kill()
        trial.kills += 1
        second = read_dead(self.server.database, self.folder / "dead")
        self._breach(trial, verdicts.check_steps(first, second))
        for job_id, job in first.jobs.items():
            must, now = verdicts.expectation(first, job_id), second.jobs.get(job_id)
            untouched = now is not None and (now["status"], now["attempt"]) == (job["status"], job["attempt"])
            if not must.goes_on and not untouched and (now is None or now["error_code"] != must.code):
                trial.breaches.append(f"{job['number']} was {must.state}; after a start that was killed: {now}")
        return second

    def _term(self, trial, known):
        """Told to stop as a host does it: it drains, and is gone within seconds."""
        asked, sent_at = self._everybody()
        self._wait_for_moment(trial, sent_at)
        at_signal, told_at = read_live(self.server.database), time.monotonic()
        self.server.send(signal.SIGTERM, whole_group=False)
        code = self.server.wait()
        if code != 0 or time.monotonic() - told_at > EXIT_SECONDS_MAX:
            trial.breaches.append(f"ended with {code}, {time.monotonic() - told_at:.1f} s after it was told to")
        answers = [one.result() for one in asked]
        before = read_dead(self.server.database, self.folder / "dead")
        self._breach(trial, verdicts.check_drained(at_signal, before, gone=True))
        expected = self._look(trial, before, known)
        self._check_accepted(trial, answers, before, may_refuse=True)
        opened = self._serve()
        self._check_truth(trial, self.server, opened, before, expected)
        self._check_nobody_is_locked_out(trial, before, expected)
        return before, expected

    def _hup(self, trial, known):
        """A reload: a new worker serves beside the old one, which drains."""
        asked, sent_at = self._everybody()
        self._wait_for_moment(trial, sent_at)
        at_signal, old = read_live(self.server.database), {int(path.name.partition("-")[0]) for path in self._locks()}
        self.server.send(signal.SIGHUP, whole_group=False)
        answers = [one.result() for one in asked]
        ends = time.monotonic() + START_SECONDS_MAX
        while any(map(_lives, old)) or not self._locks():  # until then it hears some of what is asked, and refuses
            if time.monotonic() > ends:
                raise RuntimeError(f"no new worker alone {START_SECONDS_MAX} s after the reload")
            time.sleep(0.01)
        self._until_ended()
        before = read_live(self.server.database)
        self._breach(trial, verdicts.check_drained(at_signal, before, gone=False))
        expected = self._look(trial, before, known)
        trial.states = Counter(at_signal.state(job_id) for job_id in at_signal.jobs if job_id not in known)
        self._check_accepted(trial, answers, before, may_refuse=True)
        self._check_truth(trial, self.server, time.monotonic(), before, expected)
        self._check_nobody_is_locked_out(trial, before, expected)
        return before, expected

    def _stop(self, trial, known):
        """Paused beyond stale, and continued: nobody may take it for dead, whatever its heartbeat says; but if
        its lock file is gone they must, and then it may write nothing more."""
        asked, sent_at = self._everybody()
        self._wait_for_moment(trial, sent_at)
        beside = self.broken == "fence" or self.random.random() < 0.7
        taken_for_dead = beside and (self.broken == "fence" or self.random.random() < 0.5)
        self._pause(between_transactions=beside)
        stopped_at = time.monotonic()
        before = read_live(self.server.database)
        expected = self._look(trial, before, known, dead=taken_for_dead)
        trial.notes.append("taken for dead" if taken_for_dead else "beside another" if beside else "alone")
        if taken_for_dead:
            for path in self._locks():
                path.unlink()
        other = None
        if beside:
            other = Server(self.server.folder, self._environ)
            opened = max(self._serve(other), stopped_at + STALE_SECONDS + 0.1)
            time.sleep(max(opened - time.monotonic(), 0))
            self._check_truth(trial, other, opened, before, expected)
        else:
            time.sleep(STALE_SECONDS + 0.2)
        self.server.send(signal.SIGCONT)
        answers = [one.result() for one in asked]
        self._check_accepted(trial, answers, read_live(self.server.database))
        self._check_nobody_is_locked_out(trial, before, expected)
        self._until_ended()
        if taken_for_dead:  # it has no lock file any more
            self.server.kill(signal.SIGTERM)
            self._serve()
        if other is not None:
            other.kill(signal.SIGTERM)
        return before, expected

    def _pause(self, between_transactions):
        """SIGSTOP. Within a transaction it keeps the write lock from everybody until it goes on."""
        while True:
            self.server.send(signal.SIGSTOP)
            if not between_transactions:
                return
            with closing(sqlite3.connect(self.server.database, timeout=0, isolation_level=None)) as connection:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError:
                    self.server.send(signal.SIGCONT)
            time.sleep(0.005)

    def _locks(self):
        return set((self.server.folder / "workers").glob("*.lock"))

    # --------------------------------------------------------------------------------- the moment

    def _everybody(self, failing=False):
        """All submit, the first at once, the others a little later. Returns what they will be answered."""
        sent_at = time.monotonic()
        later = [0.0, *(self.random.uniform(0, self.seconds / 3) for _ in self.people[1:])]
        return [self._pool.submit(self._submit_at, sent_at + offset, person, self._params(failing))
                for offset, person in zip(later, self.people, strict=True)], sent_at

    def _wait_for_moment(self, trial, sent_at):
        time.sleep(max(sent_at + self._moment(trial.aim) - time.monotonic(), 0))
        trial.struck_after_seconds = time.monotonic() - sent_at

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
        self._until("SELECT 1 FROM jobs WHERE settlement = 'due' LIMIT 1", seconds, pause=0)

    def _until_ended(self):
        self._until("SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE status IN ('pending', 'running') "
                    "OR settlement = 'due')", 10 if self.broken else
                    60 + 2 * self.people_count * self.life.get("succeeded", 60))

    def _until(self, sql, seconds, pause=0.01):
        ends = time.monotonic() + seconds
        with closing(sqlite3.connect(f"{self.server.database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            while time.monotonic() < ends:
                if connection.execute(sql).fetchone():
                    return
                time.sleep(pause)

    # --------------------------------------------------------------------------------------- checks

    def _check_accepted(self, trial, answers, rows, may_refuse=False):
        """What was accepted is there. ``None``: nothing was promised. ``may_refuse``: while it shuts down."""
        for answer in answers:
            if answer is None or (may_refuse and answer.status == 503):
                continue
            if answer.status not in (200, 202):
                trial.breaches.append(f"a submit was refused: {answer.status} {answer.body.decode()[:300]}")
            elif answer.json()["job"]["id"] not in rows.jobs:
                trial.breaches.append(f"{answer.json()['job']['number']} was accepted and is lost")

    def _check_truth(self, trial, server, opened, before, expected):
        """Ask for every job until the whole truth is told; never may anything else be."""
        waiting, at_once = list(trial.jobs), True
        ends = opened + max(5.0, 3 * self.truth_ms_max / 1000)
        while waiting and time.monotonic() < ends:
            told = []
            for job_id in waiting:  # all are asked before any answer is looked into: only the server's time counts
                answer = server.request("GET", f"/api/jobs/{job_id}", token=self._owner(before.jobs[job_id]).token,
                                        headers={"Accept-Language": "en"})
                told.append((job_id, answer, time.monotonic()))
            rows = read_live(server.database)
            self._breach(trial, verdicts.check_steps(before, rows))
            for job_id, answer, told_at in told:
                job = before.jobs[job_id]
                verdict = (verdicts.judge(answer.json(), expected[job_id], job, rows) if answer.status == 200
                           else f"is answered with {answer.status}")
                if verdict == "not yet":
                    continue
                waiting.remove(job_id)
                trial.told_at_once += at_once and verdict == "true"
                trial.truth_ms = (told_at - opened) * 1000
                if verdict != "true":
                    trial.breaches.append(f"{job['number']} ({expected[job_id].state} at the blow) {verdict}")
            at_once = False
        if waiting:
            trial.breaches.append(f"no truth about {[before.jobs[job_id]['number'] for job_id in waiting]} after "
                                  f"{time.monotonic() - opened:.1f} s")
        elif trial.truth_ms is not None and trial.truth_ms > self.truth_ms_max:
            trial.breaches.append(f"the truth took {trial.truth_ms:.0f} ms; at most {self.truth_ms_max:.0f} here, where "
                                  f"a start with nothing to recover answers after {self.bare_ms:.0f}")

    def _check_nobody_is_locked_out(self, trial, before, expected):
        """Whoever's work has ended can ask again at once."""
        busy = {before.jobs[job_id]["user_id"] for job_id in trial.jobs if expected[job_id].goes_on}
        busy |= {job["user_id"] for job in read_live(self.server.database).jobs.values()
                 if job["id"] not in before.jobs and job["status"] not in ENDS}  # heard when it went on
        for person in self.people:
            if person.id not in busy:
                answer = self._submit(person, self.work.quick or self.work.params)
                if answer.status != 202:
                    trial.breaches.append(f"person {person.id} is locked out: {answer.status} "
                                          f"{answer.body.decode()[:300]}")

    # --------------------------------------------------------------------------------------- asking

    def _owner(self, job):
        return next(person for person in self.people if person.id == job["user_id"])

    def _submit(self, person, params):
        path = f"/api/kinds/{self.work.kind}/jobs"
        self._sent += 1  # another content each time, or a finished result would be the answer
        params = json.loads(json.dumps(params).replace("{n}", str(self._sent)))
        if self.work.file is None:
            return self.server.request("POST", path, params, token=person.token)
        content = self.work.file.read_bytes() + b"\n" * self._sent
        body, headers = multipart(params, self.work.upload_field, self.work.file.name, content)
        return self.server.request("POST", path, body, token=person.token, headers=headers)

    def _submit_at(self, moment, person, params):
        """The answer, or ``None`` if the server died before it came."""
        time.sleep(max(moment - time.monotonic(), 0))
        try:
            return self._submit(person, params)
        except (OSError, http.client.HTTPException):
            return None


def _lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


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
    notes = f" ({'; '.join(trial.notes)})" if trial.notes else ""
    return (f"{trial.number:4}  {trial.blow} at {trial.struck_after_seconds:6.3f} s{twice}: {states or 'no job'}; "
            f"{truth}{notes}")


def _life(life):
    return ", ".join(f"{event} {seconds * 1000:.0f}" for event, seconds in sorted(life.items(), key=lambda one: one[1]))


def report(test):
    """The lines that sum up all trials."""
    trials = test.trials
    blows = Counter(trial.blow for trial in trials)
    yield ""
    yield (f"{len(trials)} trials ({', '.join(f'{count} {blow}' for blow, count in blows.most_common())}), "
           f"{sum(trial.kills for trial in trials)} kills of the server, "
           f"{sum(trial.states.total() - trial.states[FINISHED] for trial in trials)} jobs in flight or due at a blow; "
           f"seed {test.seed}")
    yield f"{'state at the blow':<20}{'kills':>7}{'jobs':>7}   what became of them"
    outcomes = sum((trial.outcomes for trial in trials), Counter())
    for state in STATES:
        jobs = sum(trial.states[state] for trial in trials)
        if jobs or state in test.wanted:
            became = "; ".join(f"{count} {what}" for (at, what), count in sorted(outcomes.items()) if at == state)
            yield f"{state:<20}{test.hits(state):>7}{jobs:>7}   {became}"
    yield from _report_truth(trials)
    yield (f"a start with nothing to recover answers {test.bare_ms:.0f} ms after the open port; the truth may take "
           f"{test.truth_ms_max:.0f}")
    for name, counter in (("a life", test.statements), ("recovery", test.recovery_statements)):
        if counter:
            yield f"statements of {name} struck at: {sum(map(bool, counter.values()))} of {len(counter)}"
    for state in test.missed():
        yield f"NOT HIT OFTEN ENOUGH: {state}"
    breaches = [(trial.number, breach) for trial in trials for breach in trial.breaches]
    yield f"breaches: {len(breaches)}"
    for number, breach in breaches:
        yield f"  trial {number}: {breach}"


def _report_truth(trials):
    times = sorted(trial.truth_ms for trial in trials if trial.truth_ms is not None and trial.blow != "hup")
    if times:
        p95 = times[min(len(times) - 1, round(0.95 * (len(times) - 1)))]
        yield (f"from the open port to the truth about every job, ms: min {times[0]:.0f}, median "
               f"{statistics.median(times):.0f}, p95 {p95:.0f}, max {times[-1]:.0f}")
    asked = sum(len(trial.jobs) for trial in trials if trial.truth_ms is not None)
    told = sum(trial.told_at_once for trial in trials)
    yield f"told in the very first answer: {told} of {asked}"


# -------------------------------------------------------------------------------------- the command

def _work(kind, params, file):
    """What to submit for this kind."""
    if file is not None and kind.upload_field is None:
        raise _CannotWork(f"The kind {kind.name!r} takes no file.")
    if kind.name == "sample" and not params:
        return Work("sample", {"seconds": 0.6}, {"seconds": 0.6, "fail": True}, {"seconds": 0})
    if file is None and kind.sample:
        file = kind.home / kind.sample
    if file is None:
        params = forms.read(kind, params)
    return Work(kind.name, params, file=file, upload_field=kind.upload_field)


def name_and_value(_context, _parameter, texts):
    """Of ``--param name=value``, repeated: ``{name: [text, …]}``, as ``forms.read`` takes it."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _value) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not like name=value.")
    texts = {}
    for name, _equals, value in pairs:
        texts.setdefault(name, []).append(value)
    return texts


@click.command("crashtest")
@click.argument("kind", default="sample")
@click.option("--trials", default=20, show_default=True, type=click.IntRange(1), help="Blows.")
@click.option("--blow", "blows", multiple=True, type=click.Choice(list(BLOWS)),
              help="How the server is struck, may be given again; all of them if not given.")
@click.option("--break", "broken", type=click.Choice(list(BLOWS_OF_BREAK)),
              help="Take this protection out of the server first: the test must then report breaches.")
@click.option("--seed", type=int, help="Draws the same moments again.")
@click.option("--people", default=5, show_default=True, type=click.IntRange(1, 50), help="Who submit in each trial.")
@click.option("--within-ms", default=1000, show_default=True, help="From the open port to the truth, at most.")
@click.option("--param", "params", multiple=True, callback=name_and_value, metavar="NAME=VALUE",
              help="Of the kind; of a list, once for each entry; {n} in a value becomes another number for each request.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="What a kind with an upload is given.")
def command(kind, trials, blows, broken, seed, people, within_ms, params, file):
    """Strike a real server down at random moments and chosen statements, and check what stands afterwards.

    Blows: kill (SIGKILL at a random moment), statement (SIGKILL just before one statement of the
    database's writer), term (SIGTERM), hup (a reload), stop (SIGSTOP beyond stale, then SIGCONT). It
    runs on a throw-away file, never on yours. Exit code 1 on any breach; 3 if a protection was taken
    out and nothing was noticed.
    """
    from flask import current_app
    _refuse_what_cannot_work(kind, current_app.kinds, blows, broken)
    kinds, known = current_app.settings.names("KINDS"), current_app.kinds.get(kind)
    if known is None:
        kinds, known = [*kinds, kind], discover([kind], ())[kind]
    work, folder = _work(known, params, file), Path(tempfile.mkdtemp(prefix="ainori-crashtest-"))
    test = CrashTest(folder, work, kinds=",".join(kinds), people=people,
                     slots=max(1, people * 3 // 5), seed=secrets.randbits(32) if seed is None else seed,
                     within_ms=within_ms, blows=blows or BLOWS_OF_BREAK.get(broken, BLOWS), broken=broken)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is not left behind
    code = 1
    try:
        code = _all_trials(test, kind, trials)
    except (RuntimeError, OSError, http.client.HTTPException) as error:
        click.echo(f"The crash test could not go on: {error}\n{test.server.log_end()}", err=True)
    finally:
        test.close()
        if code and broken is None:
            click.echo(f"The files and the server's logs are kept in {folder}", err=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(code)


class _CannotWork(click.ClickException):
    """In one line, without the usage."""

    exit_code = 2


def _refuse_what_cannot_work(kind, kinds_on, blows, broken):
    """Before anything is made or started. A built-in kind that is off is switched on for the test."""
    built_in = kind.isidentifier() and importlib.util.find_spec(f"webapp.kinds.{kind}") is not None
    if kind not in kinds_on and not built_in:
        raise _CannotWork(f"There is no kind {kind!r} here. The kinds that are on: {', '.join(kinds_on) or 'none'}.")
    shown_by = BLOWS_OF_BREAK.get(broken, blows)
    if blows and not set(blows) & set(shown_by):
        raise _CannotWork(f"--break {broken} is looked for with --blow {' or '.join(shown_by)}, and --blow "
                          f"{', '.join(blows)} would not show it: leave --blow out.")


def _all_trials(test, kind, trials):
    """Run them and report. Returns the exit code."""
    click.echo(f"a life of {kind}, ms after the request: {_life(test.begin())}")
    while not test.enough(trials) and len(test.trials) < trials * (1 + EXTRA_TRIALS_MAX):
        trial = test.next_trial()
        click.echo(_line(trial))
        for breach in trial.breaches:
            click.echo(f"      BREACH: {breach}")
    test.finish()
    click.echo("\n".join(report(test)))
    if test.broken is not None and not any(trial.breaches for trial in test.trials):
        click.echo(f"{test.broken} was taken out, and nothing was noticed", err=True)
        return 3
    return int(not test.enough(trials) or any(trial.breaches for trial in test.trials))
