"""The server of ``webapp.served`` with what tests ask of it: redirects followed, rows, accounts, what must succeed."""
import contextlib
import json
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

from webapp import ROOT, served

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


class Server(served.Server):
    """``folder`` holds the database and stays when the server is killed and started again."""

    def __init__(self, folder, environ=()):
        super().__init__(folder, {"KINDS": "sample,comments", "EXTRA_KINDS": "tests.kinds", "PYTHONPATH": str(ROOT),
                                  "RATE_GUEST_SUBMIT": "1000/hour",
                                  **{name: str(value) for name, value in dict(environ).items()}})
        self.environ.pop("CI", None)
        self.arguments = self.environ.get("TEST_GUNICORN_ARGS", "").split()

    # ---------------------------------------------------------------------------------- life, death

    def start(self, seconds=20):
        """Start, and return when the port answers."""
        try:
            super().start(seconds)
        except RuntimeError as error:
            raise AssertionError(f"{error}:\n{self.log.read_text()}") from None
        return self

    def signal_master(self, number):
        self.send(number, whole_group=False)

    def worker_pid(self):
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return int(found.stdout.split()[0])

    def stop(self):
        self.send(signal.SIGCONT)
        self.kill()

    # ---------------------------------------------------------------------------------------- asking

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

    def until(self, sql, *parameters, seconds=20, pause=0.005):
        """The first row, as soon as there is one."""
        ends = time.monotonic() + seconds
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=5)) as connection:
            while time.monotonic() < ends:
                if found := connection.execute(sql, parameters).fetchone():
                    return found
                if pause:
                    time.sleep(pause)
        raise AssertionError(f"never seen: {sql} {parameters}\n{self.log.read_text()[-3000:]}")

    def add_user(self, email="person@example.org", points=3):
        """An account, made by the command line as an operator would; returns its token."""
        made = self.flask("users", "add", email, "--points", str(points), "--json")
        return json.loads(made.stdout)["token"]

    def flask(self, *args, check=True):
        done = super().flask(*args)
        if check and done.returncode != 0:
            raise AssertionError(f"flask {' '.join(args)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done
