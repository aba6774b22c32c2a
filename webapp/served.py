"""This code as it is served: a real gunicorn in a process group of its own, to demonstrate and to test with.

It imports nothing of ours but the path of the code: what a test asks it is asked from outside.
"""
import contextlib
import http.client
import json
import os
import random
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from webapp import ROOT

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 15


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    def json(self):
        return json.loads(self.body)


class Server:
    """gunicorn on a free loopback port; ``folder`` holds the file and the log (``server.log``), and stays when
    the server dies.

    Settings that would reach out of the folder (production, alerts) are off; ``environ`` has the last
    word. ``app``: what gunicorn serves.
    """

    def __init__(self, folder, environ=(), app="wsgi:app"):
        self.folder, self.port, self.app = Path(folder), free_port(), app
        self.under, self.arguments = (), ()  # a command that runs the server; what gunicorn is told beside the app
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

    # ------------------------------------------------------------------------------------ life, death

    def start(self, seconds=START_SECONDS_MAX):
        """Start; returns the moment (``time.monotonic()``) at which the port was open. Raises ``RuntimeError``."""
        self.launch()
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode} while it started")
            if self._port_is_open():
                return time.monotonic()
            time.sleep(0.002)
        raise RuntimeError(f"the server's port did not open within {seconds} s")

    def launch(self):
        """Start, and do not wait until it answers."""
        # Every process of the server holds this pipe: it ends when the last of them is dead, which a
        # signal of 0 to the group does not tell where nobody buries the dead.
        self._alive, held = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.under, sys.executable, "-m", "gunicorn", self.app, *self.arguments], cwd=ROOT, env=self.environ,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=(held,))
        os.close(held)

    def send(self, number, whole_group=True):
        """To master and worker at once, as Ctrl-C does; or, as a host does, to the master alone."""
        if self._alive is None:
            return
        try:
            (os.killpg if whole_group else os.kill)(self.process.pid, number)
        except ProcessLookupError:
            pass

    def kill(self, number=signal.SIGKILL):
        """The signal to the whole process group; returns when all of it is dead. Once dead, nothing happens."""
        if self._alive is not None:
            self.send(number)
            self.wait()

    def wait(self, seconds=STOP_SECONDS_MAX):
        """Wait until every process of the server is dead. Returns the exit code; raises ``RuntimeError``."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the server still lives {seconds} s after it was told to stop") from None
        if not select.select([self._alive], [], [], seconds)[0]:
            raise RuntimeError(f"a process of the server still lives {seconds} s after its master")
        # The kernel closes a dying process's files one by one: the port may outlive the pipe by a moment,
        # and must not be taken for the next server's.
        ends = time.monotonic() + seconds
        while self._port_is_open() and time.monotonic() < ends:
            time.sleep(0.001)
        os.close(self._alive)
        self._alive = None
        return code

    def _port_is_open(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                # A port of its own range, closed, can be connected to itself.
                return connection.getsockname() != connection.getpeername()
        except OSError:
            return False

    # ---------------------------------------------------------------------------------------- asking

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
    """``(body, headers)`` of a form with one file, as a browser sends it. ``fields``: ``{name: [text, …]}``."""
    boundary = f"----{secrets.token_hex(12)}"
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, values in fields.items() for value in values]
    name = name.replace('"', "_").replace("\r", "_").replace("\n", "_")
    parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{upload_field}"; filename="{name}"\r\n'
                 "Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
    return (b"".join(parts) + f"--{boundary}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"})


def free_port():
    """A port nobody listens on. Below those that systems give to outgoing connections: nothing takes it while the
    server that it is for is down."""
    while True:
        port = random.randrange(16_384, 32_768)
        with socket.socket() as probe:
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
