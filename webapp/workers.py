"""Which process runs jobs, and the proof that it is dead: a lock file the kernel drops with it.

``flock``, never ``lockf``: closing any second descriptor of a file drops a ``lockf`` lock while its
owner lives. A forked child inherits the descriptor, and with it the lock: so children close it at
once (closing is not unlocking), or the dead worker would count as alive for as long as they run.
"""
import fcntl
import os
import secrets
import socket

from webapp import db

current = None  # this process as a worker; a command-line process usually is none


class Worker:
    """This process, registered as one that runs jobs. Order: lock, then the row, then the first claim."""

    def __init__(self, folder, role):
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"  # never reused, unlike a process id
        self.path = folder / f"{self.id}.lock"
        self.attempts = set()  # (job id, attempt) of what this process runs
        self.ended = set()     # those of them whose end is waiting to be stored
        # Locked before it has the name that others look for: they would take it for a dead worker's.
        unnamed = self.path.with_suffix(".new")
        self._descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self.path)
        _register(self.id, role)

    def stop(self):
        """Say goodbye: nothing of ours is in flight any more."""
        _unregister(self.id)
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
    db.execute("INSERT INTO workers (id, role, host, pid) VALUES (?, ?, ?, ?)",
               (worker_id, role, socket.gethostname(), os.getpid()))


@db.verb
def _unregister(worker_id):
    db.execute(f"UPDATE workers SET stopped_at = {db.NOW} WHERE id = ?", (worker_id,))


@db.verb
def beat(worker_id):
    """Say that this worker lives."""
    db.execute(f"UPDATE workers SET heartbeat_at = {db.NOW} WHERE id = ?", (worker_id,))


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
