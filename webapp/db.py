"""One SQLite file: one writing connection with its greenlet and group commit, one for reading.

A verb that writes is a plain function that runs to completion without yielding. Calling it puts it
into the writer's queue and waits: the writer takes what is waiting, runs each verb in a savepoint of
its own, commits once, outside the hub, and only then answers all callers. Nobody is told anything
that is not on disk. Within a verb, other verbs run inline and reads see what was just written.
"""
import errno
import functools
import logging
import os
import sqlite3
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path

import gevent
import peewee
from gevent.event import AsyncResult, Event
from gevent.threadpool import ThreadPool

from webapp.errors import DISK_ERRNOS, Busy, SettingsError, StorageUnavailable
from webapp.measure import clock

log = logging.getLogger(__name__)

APPLICATION_ID = 1095323215
SQLITE_OLDEST = (3, 38, 0)
NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
# A group is closed at this many verbs, or after this long, so that the hub never waits on it.
GROUP_VERBS_MAX = 100
GROUP_SECONDS_MAX = 0.02
# What a start waits for another process that is creating or migrating the same file.
PREPARE_SECONDS_MAX = 30
SNAPSHOT_BUSY_SECONDS = 5  # another process is just opening or closing the file
_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_STORAGE_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
                  sqlite3.SQLITE_PERM}
_NETWORK_FILESYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse", "fuse.sshfs", "9p"}

Error, IntegrityError = sqlite3.DatabaseError, sqlite3.IntegrityError

# The test suite's seams: called with each new sqlite3 connection, and when a verb begins and ends.
on_connect = []

store = None  # the one open file of this process


def open_store(path, *, schema, migrations, busy_seconds=5.0, may_create=True):
    """Open the file (creating or migrating it first) and make it this process's store."""
    global store
    close_store()
    path = Path(path).resolve()  # what lies beside it is found from any folder: Flask takes relative ones from its own
    prepare(path, Path(schema), Path(migrations), may_create=may_create)
    store = Store(path, busy_seconds)
    return store


def close_store():
    global store
    if store is not None:
        store.close()
        store = None


class _Call:
    __slots__ = ("function", "args", "kwargs", "result", "expires", "effects", "error", "value")

    def __init__(self, function, args, kwargs, expires):
        self.function, self.args, self.kwargs = function, args, kwargs
        self.expires = expires
        self.result = AsyncResult()
        self.effects = []
        self.error = self.value = None


class Store:
    """The connections to one file. Use the functions of this module; they find it."""

    def __init__(self, path, busy_seconds):
        self.path = path
        self.busy_seconds = busy_seconds
        self.pid = os.getpid()
        self.commits = self.verbs = 0  # since it was opened: metrics read them
        self.in_verb = None          # the greenlet that runs a verb now: it must not switch
        self.refused = Event()       # the disk has refused something; cleared by who has seen it work again
        self.refusal = None          # the latest: what it said
        self.locked_out_at = None    # when somebody last could not have the write lock in time, unless it was had since
        self._call = None
        self._queue = deque()
        self._waiting = Event()
        self._pool = ThreadPool(1)   # commits only: nothing else may wait in front of one
        self.disk = ThreadPool(2)    # making files durable blocks too
        self._looks = ThreadPool(1)  # reading much takes long
        self._open_writer()
        self._reader = _connect(path, {"query_only": 1})
        self.read_connection = self._reader.connection()
        self._greenlet = gevent.spawn(self._serve)

    def _open_writer(self):
        self._writer = _connect(self.path, {"synchronous": "full", "foreign_keys": 1, "recursive_triggers": 1,
                                            "journal_size_limit": 16_000_000, "wal_autocheckpoint": 1000,
                                            "cache_size": -8_000})
        self.write_connection = self._writer.connection()

    def close(self):
        self._greenlet.kill()
        self._pool.kill()
        self.disk.kill()
        self._looks.kill()
        self._reader.close()
        self._writer.close()

    # -------------------------------------------------------------------------------------- writing

    def write(self, function, *args, **kwargs):
        """Run a verb in the writer and return what it returns, when it is on disk.

        Raises what the verb raises, ``Busy`` if the write lock could not be had in time (the verb
        was withdrawn: it did not and will not run), ``StorageUnavailable`` if the disk refused.
        """
        if self.in_verb is gevent.getcurrent():
            return function(*args, **kwargs)
        patience = getattr(gevent.getcurrent(), "write_patience_seconds", self.busy_seconds)
        call = _Call(function, args, kwargs, clock() + patience)
        self._queue.append(call)
        self._waiting.set()
        return call.result.get()

    def _serve(self):
        while True:
            self._waiting.wait()
            self._waiting.clear()
            while self._queue:
                self._write_group()

    def _write_group(self):
        """One transaction: begin, run what is waiting, commit, answer."""
        group = []
        try:
            if not self._begin():
                return
            self._run_verbs(group)
            if any(call.error is None for call in group):
                failed = self._pool.apply(self._commit)
                if failed is not None:
                    raise failed
                self.commits += 1
            else:
                self.write_connection.execute("ROLLBACK")
        except BaseException as error:
            self._undo()
            if not isinstance(error, Exception):
                raise
            self._fail_group(group, error)
        self._answer(group)

    def _commit(self):
        """In the thread. What it raises is returned: the pool would print it as somebody's bug."""
        try:
            self.write_connection.execute("COMMIT")
        except sqlite3.Error as error:
            return error

    def _undo(self):
        """Back to no transaction. A connection that cannot even roll back is replaced: closing it does."""
        try:
            if self.write_connection.in_transaction:
                self.write_connection.execute("ROLLBACK")
        except sqlite3.Error:
            log.critical("the writing connection cannot roll back; it is opened anew", exc_info=True)
            self._writer.close()
            self._open_writer()

    def _begin(self):
        """Take the write lock; meanwhile those whose patience ends are told, and never run."""
        pause = 0.002
        while self._queue:
            try:
                self.write_connection.execute("BEGIN IMMEDIATE")
                self.locked_out_at = None
                return True
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    self._turn_away(error)
                    return False
            now = clock()
            patient = [call for call in self._queue if call.expires > now]
            for call in self._queue:
                if call.expires <= now:
                    self.locked_out_at = now
                    call.result.set_exception(Busy())
            self._queue = deque(patient)
            gevent.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        return False

    def _turn_away(self, error):
        """Everybody who waits is told; nothing of theirs ran."""
        waiting, self._queue = self._queue, deque()
        for call in waiting:
            call.result.set_exception(_translated(error))

    def _run_verbs(self, group):
        closes = clock() + GROUP_SECONDS_MAX
        while self._queue and len(group) < GROUP_VERBS_MAX and (not group or clock() < closes):
            call = self._queue.popleft()
            group.append(call)
            self._run_verb(call)
            if not self.write_connection.in_transaction:
                # SQLite rolled the whole transaction back by itself (disk full, I/O error): what ran
                # before in this group is gone too, and a further verb would commit on its own.
                raise call.error or sqlite3.OperationalError("the transaction was lost")

    def _run_verb(self, call):
        connection = self.write_connection
        self.verbs += 1
        self._call, self.in_verb = call, gevent.getcurrent()
        try:
            connection.execute("SAVEPOINT verb")
            call.value = call.function(*call.args, **call.kwargs)
            if connection.in_transaction:
                connection.execute("RELEASE verb")
        except BaseException as error:
            call.error = error
            call.effects.clear()
            if connection.in_transaction:
                connection.execute("ROLLBACK TO verb")
                connection.execute("RELEASE verb")
        finally:
            self.in_verb = self._call = None

    def _fail_group(self, group, error):
        for call in group:
            call.effects.clear()
            call.error = _translated(error)

    def _answer(self, group):
        for call in group:
            for effect in call.effects:
                try:
                    effect()
                except Exception:
                    log.exception("an effect after a commit failed")
        for call in group:
            if call.error is not None:
                call.result.set_exception(_translated(call.error))
            else:
                call.result.set(call.value)

    # -------------------------------------------------------------------------------------- reading

    def rows(self, sql, parameters=()):
        """All rows, at once. In a verb: of the transaction in flight; elsewhere: committed ones."""
        if self.in_verb is gevent.getcurrent():
            return self.write_connection.execute(sql, parameters).fetchall()
        expires = clock() + self.busy_seconds
        while True:
            try:
                return self.read_connection.execute(sql, parameters).fetchall()
            except sqlite3.OperationalError as error:
                # A reader meets BUSY too, when another process opens or closes the file.
                if not _is_busy(error) or clock() > expires:
                    raise _translated(error) from error
            gevent.sleep(0.01)

    def look(self, function):
        """``function(rows)`` in a thread, for a long look at one moment of the file: others are served meanwhile."""
        def looked():
            try:
                with snapshot(self.path) as rows:
                    return function(rows), None
            except sqlite3.Error as error:
                return None, error  # else the pool would print it as somebody's bug
        found, error = self._looks.apply(looked)
        if error is not None:
            raise _translated(error) from error
        return found


@contextmanager
def snapshot(path):
    """``rows(sql, parameters)`` of one moment of this file, through a connection of its own that cannot write. It
    blocks: not for the hub."""
    connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None,
                                 timeout=SNAPSHOT_BUSY_SECONDS)
    try:
        connection.row_factory = sqlite3.Row
        for hook in on_connect:
            hook(connection)
        connection.execute("BEGIN")
        yield lambda sql, parameters=(): connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


# How long a long computation may run before others have their turn.
FAIR_SECONDS = 0.01


class Turn:
    """Fairness for long computations: ``pass_on()`` as often as you like lets others run every ``FAIR_SECONDS``."""

    def __init__(self):
        self.began = clock()

    def pass_on(self):
        if clock() - self.began >= FAIR_SECONDS:
            # Not sleep(0): that only lets run what is ready, again and again, before the loop looks
            # whether a request has come in (tens of callbacks later).
            gevent.sleep(0.0001)
            self.began = clock()


def _is_busy(error):
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY_CODES


def _translated(error):
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", None)
        if _is_busy(error):
            return Busy()
        if code is None or code & 0xFF in _STORAGE_CODES:
            return refused_by_the_disk(error)
    return error


def refused_by_the_disk(error):
    """What SQLite or the system said, as a ``StorageUnavailable``; the operator is to hear of it."""
    refusal = StorageUnavailable(reason=getattr(error, "strerror", None) or str(error))
    if store is not None:
        store.refusal = refusal
        store.refused.set()
    refusal.__cause__ = error
    return refusal


def is_full(error):
    """Whether a refusal of the disk, or an ``OSError``, says that there is no room: that may pass."""
    cause = error.__cause__ if isinstance(error, StorageUnavailable) else error
    return (getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
            or getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT))


def is_disk(error):
    """Whether an ``OSError`` is the disk's: full, broken, or a folder of ours that may no longer be written."""
    if error.errno in (errno.EACCES, errno.EPERM) and isinstance(error.filename, (str, bytes)) and store is not None:
        return Path(os.fsdecode(error.filename)).resolve().is_relative_to(store.path.parent.resolve())
    return error.errno in DISK_ERRNOS


def _connect(path, pragmas):
    """A peewee database of one connection, busy time-out 0: waiting inside SQLite stops every greenlet."""
    database = peewee.SqliteDatabase(str(path), pragmas=pragmas, timeout=0, thread_safe=False, autoconnect=False,
                                     check_same_thread=False)
    expires = clock() + 10
    while True:
        try:
            database.connect()
            break
        except (peewee.OperationalError, sqlite3.OperationalError) as error:
            # Another process is just opening or closing the file.
            if "locked" not in str(error) or clock() > expires:
                raise SettingsError(f"The database {path} cannot be opened: {error}.") from error
            time.sleep(0.05)
    connection = database.connection()
    connection.row_factory = sqlite3.Row
    for hook in on_connect:
        hook(connection)
    return database


# ------------------------------------------------------------------------------------- module verbs

def verb(function):
    """Mark a function that writes: it runs in the writer, whole or not at all, and does not yield."""
    @functools.wraps(function)
    def queued(*args, **kwargs):
        return store.write(function, *args, **kwargs)
    queued.is_verb = True
    return queued


def rows(sql, parameters=()):
    return store.rows(sql, parameters)


def look(function):
    """What ``function(rows)`` returns, called in a thread with ``rows(sql, parameters)`` of one moment of the file."""
    return store.look(function)


def one(sql, parameters=()):
    """The first row, or ``None``."""
    found = store.rows(sql, parameters)
    return found[0] if found else None


def value(sql, parameters=()):
    """The first column of the first row, or ``None``."""
    row = one(sql, parameters)
    return row[0] if row else None


def execute(sql, parameters=()):
    """Run one statement inside a verb, read it to its end, and return its rows (of RETURNING)."""
    assert store.in_verb is gevent.getcurrent(), "writes happen inside a verb"
    # Not read to its end, a RETURNING statement keeps its transaction from ever committing.
    return _in_transaction().execute(sql, parameters).fetchall()


def _in_transaction():
    """The writing connection. After a full disk SQLite has rolled back by itself: what a verb that does not
    notice then writes would commit on its own."""
    connection = store.write_connection
    if not connection.in_transaction:
        raise sqlite3.OperationalError("the transaction was lost")
    return connection


def after_commit(effect):
    """Call ``effect()`` when this verb is on disk, before its caller is answered. It must not block."""
    assert store.in_verb is gevent.getcurrent(), "effects belong to a verb"
    store._call.effects.append(effect)


@contextmanager
def savepoint():
    """Inside a verb: a part that may fail without undoing the rest."""
    connection = _in_transaction()
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


def wait_for_lock():
    """Returns when the write lock was there to be had. Raises what ``write`` raises."""
    store.write(lambda: None)


def now():
    """The database's clock, as text."""
    return value(f"SELECT {NOW}")


@contextmanager
def patience(seconds):
    """Verbs called by this greenlet wait this long for the write lock before ``Busy``."""
    greenlet = gevent.getcurrent()
    before = getattr(greenlet, "write_patience_seconds", None)
    greenlet.write_patience_seconds = seconds
    try:
        yield
    finally:
        if before is None:
            del greenlet.write_patience_seconds
        else:
            greenlet.write_patience_seconds = before


# ------------------------------------------------------------------- creating and migrating the file

def prepare(path, schema, migrations, may_create=True):
    """Create the file from schema.sql, or bring it to the newest version. Safe when two do it at once.

    Raises ``SettingsError`` for a file that is not ours, newer than this code, on a network volume,
    or missing where it may not be created.
    """
    if sqlite3.sqlite_version_info < SQLITE_OLDEST:
        raise SettingsError(f"SQLite {sqlite3.sqlite_version} is too old: 3.38 or newer is needed.")
    _refuse_network_volume(path)
    empty = not path.exists() or path.stat().st_size == 0
    if empty and not may_create:
        raise SettingsError(f"There is no database at {path}, or an empty file. In production it is not created by itself, since a "
                            "vanished disk must not look like an empty shop: set ALLOW_NEW_DATABASE=1 for the first "
                            "start.")
    steps = _migration_files(migrations)
    newest = max(steps, default=1)
    try:
        connection = sqlite3.connect(path, timeout=PREPARE_SECONDS_MAX, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise SettingsError(f"The database {path} cannot be opened: {error}.") from error
    try:
        version = _version(connection, path)
        if version == 0:
            _create(connection, schema, newest)
        elif version > newest:
            raise SettingsError(f"The database {path} has schema version {version}; this code knows {newest}. "
                                "Deploy the newer code again, or restore the backup made before it.")
        elif version < newest:
            _backup_before(connection, path, version)
            for number in range(version + 1, newest + 1):
                _migrate(connection, number, steps[number])
        _turn_on_wal(connection)
    except sqlite3.DatabaseError as error:
        raise SettingsError(f"The database {path} cannot be used: {error}.") from error
    finally:
        connection.close()


def _migration_files(folder):
    """``{version: path}`` of ``0002_what.sql`` and on, without gaps."""
    found = {int(file.name[:4]): file for file in sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))}
    if sorted(found) != list(range(2, len(found) + 2)):
        raise SettingsError(f"The files in {folder} must be numbered 0002, 0003, … without gaps.")
    return found


def _version(connection, path):
    # The tables first: another process may be creating them, with the rest, in one transaction.
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if tables and application_id != APPLICATION_ID:
        raise SettingsError(f"{path} is a database of another program: set DATABASE_PATH to another file.")
    return version if tables else 0


def _create(connection, schema, newest):
    connection.execute("BEGIN IMMEDIATE")
    if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        for statement in _statements(schema.read_text(encoding="utf-8")):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
    connection.execute("COMMIT")


def _turn_on_wal(connection):
    """It stays on in the file; a copy that was put back may have lost it. SQLite does not wait here by
    itself while another process has the file open for the same purpose."""
    expires = clock() + PREPARE_SECONDS_MAX
    while True:
        try:
            connection.execute("PRAGMA journal_mode = wal").fetchall()
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or clock() > expires:
                raise
            time.sleep(0.02)


def _migrate(connection, number, file):
    """One file, one transaction. Foreign keys are off while tables are rebuilt (setting it inside
    the transaction would do nothing, and the rebuild would delete the children), and checked after."""
    connection.execute("PRAGMA foreign_keys = off")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < number:  # the other process was not faster
            for statement in _statements(file.read_text(encoding="utf-8")):
                connection.execute(statement)
            if connection.execute("PRAGMA foreign_key_check").fetchall():
                raise SettingsError(f"{file.name} leaves rows that refer to nothing; nothing was changed.")
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _backup_before(connection, path, version):
    """A whole copy of the file as it is now, made under the write lock: another process may be migrating
    too, and a copy left by a migration that failed long ago is not what anybody wants back."""
    target = path.with_name(f"{path.name}.version-{version}.backup")
    unfinished = target.with_name(f"{target.name}.unfinished")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] == version:
            unfinished.unlink(missing_ok=True)
            source, copy = sqlite3.connect(path), sqlite3.connect(unfinished)
            try:
                source.backup(copy)
            finally:
                source.close()
                copy.close()
            unfinished.replace(target)
            log.warning("migrating %s from schema version %s; a copy is in %s", path, version, target)
    finally:
        connection.execute("ROLLBACK")


def _statements(script):
    """The statements of an SQL script, one by one (``executescript`` would commit between them)."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            if statement.strip():
                yield statement
            statement = ""
    if statement.strip() and not all(line.strip().startswith("--") or not line.strip()
                                     for line in statement.splitlines()):
        raise SettingsError("An SQL file ends within a statement.")


def _refuse_network_volume(path):
    """WAL needs shared memory between processes: on a network volume it corrupts."""
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return
    folder, best, kind = str(path.resolve().parent), "", ""
    for line in mounts:
        _, point, filesystem, *_ = line.split(" ")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, filesystem
    if kind in _NETWORK_FILESYSTEMS:
        raise SettingsError(f"{path} lies on a network volume ({kind}), where SQLite's WAL is not safe: set "
                            "DATABASE_PATH to a local disk.")
