"""What ``flask crashtest`` serves instead of ``wsgi:app``: the same application, with a bomb in it.

``sabotage.json`` beside the database says what it is to do; without that file it does nothing.

- ``{"kill_at": statement, "times": n, "after": verb}``: the whole process group dies just before the writer
  runs this statement for the n-th time; ``after``: counted from that verb's first run on
- ``{"trace": file}``: the writer's statements are written there as they run, in those same words
- ``{"break": "fence" | "settle" | "reap"}``: the named protection is taken out. A crash test that then
  finds nothing checks nothing.
"""
import json
import os
import re
import signal
from collections import Counter

from webapp import ROOT, db, jobs, ledger
from webapp.runner import Runner
from webapp.settings import Settings

STATEMENT_CHARACTERS = 60
_VALUE = re.compile(r"'(?:[^']|'')*'?|\b[0-9]+(?:\.[0-9]+)?\b")


def read_orders(folder):
    """What to do, or nothing."""
    path = folder / "sabotage.json"
    return json.loads(path.read_text()) if path.exists() else {}


# ------------------------------------------------------------------------------------- by statement

def watch_statements(heard):
    """Call ``heard(statement)`` before each one that the writer runs.

    A statement is told by its verb, its first words, and how often that verb has run it already:
    ``claim: INSERT INTO job_events …``, ``claim: INSERT INTO job_events … (2)``. Reading is left out.
    """
    def listen(connection):
        if connection.execute("PRAGMA query_only").fetchone()[0]:
            return
        state = {"call": None, "seen": Counter()}

        def before(sql):
            # What a trigger runs is told as a comment.
            if sql.startswith(("--", "SELECT", "PRAGMA")):
                return
            call = db.store._call if db.store is not None else None
            if call is not state["call"]:
                state["call"], state["seen"] = call, Counter()
            name = call.function.__name__ if call is not None else "writer"
            # The values stand in it: left out, they would make each run another statement.
            words = f"{name}: {_VALUE.sub('?', ' '.join(sql[:500].split()))[:STATEMENT_CHARACTERS]}"
            state["seen"][words] += call is not None
            times = state["seen"][words]
            heard(words if times < 2 else f"{words} ({times})")
        connection.set_trace_callback(before)
    db.on_connect.append(listen)


def kill_at(statement, times, after=""):
    state = {"counting": False, "left": times}

    def heard(name):
        state["counting"] = state["counting"] or name.startswith(after)
        state["left"] -= state["counting"] and name == statement
        if state["left"] == 0:
            os.killpg(os.getpgrp(), signal.SIGKILL)
    watch_statements(heard)


def trace(path):
    # Straight to the system: what is in a buffer is lost when the process is killed.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    watch_statements(lambda name: os.write(file, f"{name}\n".encode()))


# ------------------------------------------------------------------------ protections, taken out

def break_fence():
    """An attempt writes on, whoever the job is by now; and nobody tells it that it has lost it."""
    def any_row(job_id, attempt):
        return db.one("SELECT * FROM jobs WHERE id = ?", (job_id,))

    def unfenced(job_id, attempt, assignments, *values):
        db.execute(f"UPDATE jobs SET {assignments} WHERE id = ?", (*values, job_id))
        return any_row(job_id, attempt)
    jobs._fence, jobs._fenced = any_row, unfenced
    Runner.beat = lambda self: None


def break_settle():
    """What an interrupted job consumed is said to be settled, and kept."""
    ledger.refund = lambda job_id, note=None: 0
    settled = jobs.settle.__wrapped__

    def settle(job_id, note=None):
        db.execute("UPDATE jobs SET kept_by = 'sabotage', kept_note = 'sabotage' WHERE id = ? "
                   "AND settlement IN ('due', 'unknown')", (job_id,))
        return settled(job_id, note)
    jobs.settle = db.verb(settle)


def break_reap():
    """Nobody is ever found dead."""
    jobs._judge = lambda job: None


BREAKS = {"fence": break_fence, "settle": break_settle, "reap": break_reap}


def serve():
    """The application, with what is ordered done to it first."""
    orders = read_orders(Settings.load(dotenv=ROOT / ".env").folder)
    if "trace" in orders:
        trace(orders["trace"])
    if "kill_at" in orders:
        kill_at(orders["kill_at"], orders["times"], orders.get("after", ""))
    if "break" in orders:
        BREAKS[orders["break"]]()
    from wsgi import app  # opens the database: after the hooks
    return app
