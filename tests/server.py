"""A real server: gunicorn in a process of its own, on a free port, on a data folder of the test's."""
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


class Server:
    """``folder`` holds the database and stays when the server is killed and started again."""

    def __init__(self, folder, environ=()):
        self.folder, self.port = Path(folder), free_port()
        self.database = self.folder / "ainori.db"
        self.environ = {
            **{name: value for name, value in os.environ.items() if name not in ("CI", "WEB_CONCURRENCY")},
            "DATABASE_PATH": str(self.database), "PORT": str(self.port), "KINDS": "sample,comments",
            "EXTRA_KINDS": "tests.kinds", "RATE_GUEST_SUBMIT": "1000/hour", "PYTHONPATH": str(ROOT), "ALERT_URLS": "",
            **{name: str(value) for name, value in dict(environ).items()}}
        self.process = None
        self.log = self.folder / "server.log"
        self.under = []  # a command that the server is run by

    # ---------------------------------------------------------------------------------- life, death

    def start(self, seconds=20):
        """Start, and return when the port answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.under, sys.executable, "-m", "gunicorn", "wsgi:app", *self.environ.get("TEST_GUNICORN_ARGS", "").split()],
                cwd=ROOT, env=self.environ, stdout=log, stderr=log, start_new_session=True)
        self.wait_until_open(seconds)
        return self

    def wait_until_open(self, seconds=20):
        """Returns the moment (``time.monotonic()``) at which the port was open."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return time.monotonic()
            except OSError:
                time.sleep(0.005)
        raise AssertionError(f"the port did not open in {seconds} s:\n{self.log.read_text()}")

    def kill(self, number=signal.SIGKILL):
        """A signal to master and worker at once, and wait for their end."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)
        self.wait_ended()

    def wait_ended(self, seconds=15):
        self.process.wait(seconds)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:  # the worker too: it is not our child, but of our group
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.005)
        raise AssertionError("the worker outlived its master")

    def signal_master(self, number):
        os.kill(self.process.pid, number)

    def worker_pid(self):
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return int(found.stdout.split()[0])

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)

    # ---------------------------------------------------------------------------------------- asking

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def request(self, method, path, body=None, token=None, headers=(), timeout=30):
        headers = dict(headers)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if isinstance(body, (dict, list)):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        asked = urllib.request.Request(self.url + path, data=body, headers=headers, method=method)
        try:
            with _opener.open(asked, timeout=timeout) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.headers, error.read())

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, {} if body is None else body, **options)

    def upload(self, kind, name, content, fields=(), token=None, headers=()):
        """A multipart form with one file, as a browser sends it."""
        boundary = "----of-the-test"
        parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
                 for key, value in dict(fields).items()]
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                     "Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n")
        body = b"".join(parts) + f"--{boundary}--\r\n".encode()
        return self.request("POST", f"/api/kinds/{kind}/jobs", body, token=token, headers={
            **dict(headers), "Content-Type": f"multipart/form-data; boundary={boundary}"})

    def finished(self, job_id, token=None, seconds=30, **options):
        """The job when it is final and settled."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            job = self.get(f"/api/jobs/{job_id}", token=token, **options).json
            if job["status"] in ("succeeded", "failed") and job["money"] != "checking":
                return job
            time.sleep(0.02)
        raise AssertionError(f"not finished in {seconds} s: {job}\n{self.log.read_text()[-3000:]}")

    # ------------------------------------------------------------------------------------- the file

    def rows(self, sql, *parameters):
        """What stands in the file, read by a connection of its own."""
        connection = sqlite3.connect(self.database, timeout=10)
        connection.row_factory = sqlite3.Row
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def add_user(self, email="person@example.org", points=3):
        """An account, made by the command line as an operator would; returns its token."""
        made = self.flask("users", "add", email, "--points", str(points), "--json")
        return json.loads(made.stdout)["token"]

    def flask(self, *args, check=True):
        done = subprocess.run([sys.executable, "-m", "flask", "--app", "wsgi", *args], cwd=ROOT, env=self.environ,
                              capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise AssertionError(f"flask {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done
