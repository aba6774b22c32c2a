"""Which process runs jobs, and the proof that it is dead: a lock file the kernel drops with it.

``flock``, never ``lockf``: closing any second descriptor of a file drops a ``lockf`` lock while its
owner lives. A forked child inherits the descriptor, and with it the lock: so children close it at
once (closing is not unlocking), or the dead worker would count as alive for as long as they run.

A wall clock that is set while work runs must not make that work look late: each worker keeps what its
clock showed against the monotonic one, and others reckon its times by that.
"""
import fcntl
import os
import secrets
import socket
import time
from pathlib import Path

from webapp import db

# The wall clock was set when it differs by this much from what it was; less is the clock being slewed.
CLOCK_STEP_SECONDS = 1.0
_READ_TOGETHER_SECONDS = 0.1
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

current = None  # this process as a worker; a command-line process usually is none


def clock():
    """The wall clock less the monotonic one, in seconds (to a tenth): changes only when the wall clock is set, or
    after the machine slept. The same for all processes since one boot."""
    while True:
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < _READ_TOGETHER_SECONDS:  # else it was paused between the two
            return round(wall - after, 1)


def _boot_id():
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


class Worker:
    """This process, registered as one that runs jobs. Order: lock, then the row, then the first claim."""

    def __init__(self, folder, role):
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"  # never reused, unlike a process id
        self.path = folder / f"{self.id}.lock"
        self.attempts = set()  # (job id, attempt) of what this process runs
        self.ended = set()     # those of them whose end is waiting to be stored
        self.clock = clock()   # as it was at the start
        self._descriptor = None
        self._take_lock()
        try:
            _register(self.id, role)
        except BaseException:
            self._drop_lock()  # else what did not register would count as one that lives
            raise

    def _take_lock(self):
        # Locked before it has the name that others look for: they would take it for a dead worker's.
        unnamed = self.path.with_suffix(".new")
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self.path)
        self._close()
        self._descriptor = descriptor

    def keep_lock(self):
        """Put the lock file back if somebody has deleted or replaced it. Returns whether that was needed."""
        try:
            if os.path.samestat(os.stat(self.path), os.fstat(self._descriptor)):
                return False
        except FileNotFoundError:
            self.path.parent.mkdir(exist_ok=True)
        self._take_lock()
        return True

    def stop(self):
        """Say goodbye: nothing of ours is in flight any more."""
        _unregister(self.id)
        self._drop_lock()

    def _drop_lock(self):
        self.path.unlink(missing_ok=True)  # while we still hold it: nobody can mistake a new file for ours
        self._close()

    def _close(self):
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def start(folder, role):
    """Register this process as a worker and return it."""
    global current
    current = Worker(folder, role)
    return current


def stop():
    global current
    if current is not None:
        current.stop()
        current = None


def _in_child():
    if current is not None:
        current._close()


os.register_at_fork(after_in_child=_in_child)


@db.verb
def _register(worker_id, role):
    db.execute("INSERT INTO workers (id, role, host, pid, clock, boot_id) VALUES (?, ?, ?, ?, ?, ?)",
               (worker_id, role, socket.gethostname(), os.getpid(), clock(), _boot_id()))


@db.verb
def _unregister(worker_id):
    db.execute(f"UPDATE workers SET stopped_at = {db.NOW} WHERE id = ?", (worker_id,))


@db.verb
def beat(worker_id):
    """Say that this worker lives."""
    db.execute(f"UPDATE workers SET heartbeat_at = {db.NOW} WHERE id = ?", (worker_id,))


def jump_seconds(worker_id, alive):
    """How far the wall clock was set since this worker wrote its times: they read so much too early. 0.0 where
    it was not, or where nobody can say (another machine, another boot). ``alive``: that is a fact."""
    row = db.one("SELECT clock, boot_id FROM workers WHERE id = ?", (worker_id,))
    if row is None or row["clock"] is None:
        return 0.0
    if not alive and (row["boot_id"] is None or row["boot_id"] != _boot_id()):
        return 0.0
    seconds = clock() - row["clock"]
    return seconds if abs(seconds) >= CLOCK_STEP_SECONDS else 0.0


def is_dead(worker_id):
    """True or False as a fact; ``None`` where it cannot be asked (the lock file is gone without a
    goodbye, or on another machine): then only a stale heartbeat tells."""
    if current is not None and worker_id == current.id:
        return False  # a process never judges itself dead, however long it was paused
    path = db.store.path.parent / "workers" / f"{worker_id}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # never creates it
    except OSError:
        return True if db.value("SELECT stopped_at FROM workers WHERE id = ?", (worker_id,)) else None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two may ask at once
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def listing(limit=50):
    """Workers that have not said goodbye, newest first; ``is_dead`` tells which of them live."""
    return db.rows("SELECT * FROM workers WHERE stopped_at IS NULL ORDER BY started_at DESC LIMIT ?", (limit,))


def forget(worker_id):
    """Remove the lock file of a worker found dead, when none of its jobs is left. Held while unlinked."""
    path = db.store.path.parent / "workers" / f"{worker_id}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except OSError:
        pass
    finally:
        os.close(descriptor)
