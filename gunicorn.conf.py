"""How gunicorn runs the app: one gevent worker, which is also the one that runs jobs.

The runner starts here, in the worker, after the app was loaded and before the first request is
answered (but for a file that another program holds locked: then as soon as it lets go); a ``flask …`` command
imports the same app and starts nothing.
"""
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from webapp.errors import SettingsError  # noqa: E402
from webapp.settings import GRACEFUL_TIMEOUT_SECONDS, WORKER_CONNECTIONS, Settings  # noqa: E402

try:
    _settings = Settings.load(dotenv=Path(__file__).resolve().parent / ".env")
except SettingsError as error:
    sys.exit(f"Ainori cannot start: {error}")

bind = f"{_settings.host}:{_settings.port}"
worker_class = "gevent"
workers = 1
worker_connections = WORKER_CONNECTIONS
preload_app = False          # the database must be opened by the process that uses it
max_requests = 0             # a worker that is replaced by count kills what it runs
timeout = 60
graceful_timeout = GRACEFUL_TIMEOUT_SECONDS
keepalive = 2
control_socket_disable = True
accesslog = None
# The first signal wins; a worker must have ended by itself this long after it.
EXIT_SECONDS = 4.8
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def on_starting(server):
    """With --preload the database is open already, in the wrong process; this master would only hang."""
    if server.cfg.preload_app:
        server.log.error("Ainori cannot start: its database must be opened by the worker: start without --preload.")
        sys.exit(4)


def nworkers_changed(server, new_value, old_value):
    """One worker, whatever WEB_CONCURRENCY, GUNICORN_CMD_ARGS or SIGTTIN say: two would each run jobs."""
    if new_value != 1:
        server.log.warning("Ainori runs one worker; %s were asked for", new_value)
        server.num_workers = 1


def post_fork(server, worker):
    """An app that cannot start says why, once, and ends the server: after any other exit code than 4
    gunicorn would start workers again for ever. Told to stop before it serves, it just goes: nothing of its own
    runs yet, and it may be waiting for a locked file."""
    load_wsgi = worker.load_wsgi
    worker.handle_exit = worker.handle_quit = lambda *_: os._exit(0)
    # At once: until gunicorn sets them, which it does when all is imported, a signal would go into the queue of a
    # master that this process no longer is.
    for number in STOP_SIGNALS:
        signal.signal(number, worker.handle_exit)

    def load_or_end():
        try:
            load_wsgi()
        except SystemExit as end:
            worker.log.error("%s", end)
            sys.exit(4)
    worker.load_wsgi = load_or_end


def post_worker_init(worker):
    """Start the runner: recover first, then claim; only after this returns are requests answered. It does not wait
    for ever for a locked file: recovery and claims then follow."""
    from wsgi import app

    from webapp import service
    try:
        worker.ainori = service.start(app)
    except SettingsError as error:
        worker.log.error("Ainori cannot start: %s", error)
        sys.exit(4)  # gunicorn's code for an app that failed to load: the master stops too
    _wrap_signals(worker)


def _wrap_signals(worker):
    """TERM, INT and QUIT all drain: Ctrl-C reaches master and worker, and the master's QUIT follows."""
    import gevent

    def begin_to_stop(*_):
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        worker.alive = False
        # Only a mark and new greenlets: this runs between any two instructions, perhaps inside a verb.
        gevent.spawn(_leave_to_successor)
        gevent.spawn(worker.ainori.stop)
        gevent.spawn_later(EXIT_SECONDS, os._exit, 0)

    worker.handle_exit = worker.handle_quit = begin_to_stop
    for number in STOP_SIGNALS:
        signal.signal(number, begin_to_stop)


def _leave_to_successor():
    """In a reload the next worker listens on the same socket: who comes from now on waits a moment for it, where
    this one could only refuse. (gunicorn closes its servers a second later, and names them nowhere.)"""
    import gc

    from gevent.server import StreamServer
    master = os.getppid()
    try:
        workers_now = Path(f"/proc/{master}/task/{master}/children").read_text().split()
    except OSError:  # not on this system: then it refuses
        return
    if len(workers_now) > 1:
        for server in gc.get_objects():
            if type(server) is StreamServer:
                server.stop_accepting()


def worker_exit(server, worker):
    if getattr(worker, "ainori", None) is not None:
        worker.ainori.stop()
