"""Python's clock rules SQL too; and, in a real server, a test moves both by writing a number of seconds into a file."""
import datetime
import sqlite3
import time

_plain = sqlite3.connect(":memory:", check_same_thread=False)
_DATE_FUNCTIONS = ("strftime", "date", "time", "datetime", "julianday", "unixepoch")


def let_python_rule(connection):
    """For ``db.on_connect``: SQLite's own date functions take their 'now' from ``time.time()``."""
    for name in _DATE_FUNCTIONS:
        connection.create_function(name, -1, _on_pythons_time(name))  # 0 would leave cached statements on real time
    connection.create_function("current_timestamp", 0, lambda: _now()[:19])


def _on_pythons_time(name):
    """SQLite's own function, its 'now' (also the one left out) taken from Python's clock."""
    def function(*args):
        if len(args) == (1 if name == "strftime" else 0):
            args = (*args, "now")
        args = [_now() if arg == "now" else arg for arg in args]
        return _plain.execute(f"SELECT {name}({','.join('?' * len(args))})", args).fetchone()[0]
    return function


def _now():
    now = datetime.datetime.fromtimestamp(time.time(), datetime.timezone.utc)
    return now.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def follow(path):
    """From now on the wall clock of this process is off by what this file says. The monotonic one is not."""
    real = time.time

    def moved():
        with open(path) as file:
            return real() + float(file.read() or 0)
    time.time = moved
