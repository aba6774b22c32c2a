"""How fast the engine is, as ratios in one run, and how much it needs. Prints; asserts nothing.

    python bench/engine.py

Lives: a paid no-op job's whole life through HTTP (submit, claim, charge, finish; timed until the last has
finished), against a bare Flask POST on the same gunicorn with the same worker; 16 clients each. Upload: the largest allowed file (20 MB, 50,000
rows) is analysed while others ask for a page; how long they wait, and what the processes hold in memory. Rows: a page of
its rows, searched and sorted, against reading their file line by line as JSON in this process; and again how others wait.
Start: from the process to the first 200. Idle: resident memory of the worker.
"""
import argparse
import contextlib
import csv
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.server import Server  # noqa: E402
from webapp.served import free_port  # noqa: E402

CLIENTS = 16
BARE = """
from gevent import monkey; monkey.patch_all()
from flask import Flask, request
app = Flask(__name__)
@app.post("/bare")
def bare():
    return {"ok": bool(request.get_json())}, 202
"""
KIND = """
from pydantic import BaseModel
from webapp.kinds import Kind
class Params(BaseModel):
    pass
def run(job, params):
    job.charge()
    return {}
KIND = Kind(name="noop", params=Params, run=run, cost=1)
"""

ASKER = """
import http.client, json, select, sys, time
connection, waits = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30), []
while not select.select([sys.stdin], [], [], 0.005)[0]:
    began = time.perf_counter()
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    waits.append((time.perf_counter() - began) * 1000)
print(json.dumps(waits))
"""


def clients(port, count, seconds, act):
    """``act(connection, n)`` again and again by ``count`` threads for ``seconds``; how often it was done, a second."""
    done, ends = [0] * count, time.monotonic() + seconds

    def work(n):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while time.monotonic() < ends:
            act(connection, n)
            done[n] += 1
    threads = [threading.Thread(target=work, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def ask(connection, method, path, body=None, headers=()):
    connection.request(method, path, body, dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.read()


def lives_against_bare(folder, seconds, rounds):
    (folder / "bare_app.py").write_text(BARE)
    (folder / "noop_kind.py").write_text(KIND)
    path = f"{folder}{os.pathsep}{ROOT}"
    port = free_port()
    bare = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "bare_app:app", "-k", "gevent", "-w", "1", "--no-control-socket", "-b",
         f"127.0.0.1:{port}", "--log-level", "error"], cwd=folder, env={**os.environ, "PYTHONPATH": path})
    server = Server(folder, {"EXTRA_KINDS": "noop_kind", "PYTHONPATH": path, "MAX_RUNNING_JOBS": 200, "MAX_PENDING_JOBS": 100_000}).start()
    tokens = [server.add_user(f"person{n}@example.org", points=10_000_000) for n in range(CLIENTS)]

    def post(connection, n):
        ask(connection, "POST", "/bare", b'{"a": 1}', {"Content-Type": "application/json"})

    def submit(connection, n):
        status, body = ask(connection, "POST", "/api/kinds/noop/jobs", b"{}",
                           {"Authorization": f"Bearer {tokens[n]}", "Content-Type": "application/json"})
        if status != 202:
            raise RuntimeError(body)

    try:
        time.sleep(1)
        ratios = []
        for _ in range(rounds):
            bare_rate = clients(port, CLIENTS, seconds, post)
            before, began = _finished(server), time.monotonic()
            clients(server.port, CLIENTS, seconds, submit)
            while server.rows("SELECT 1 FROM jobs WHERE status IN ('pending', 'running') LIMIT 1"):
                time.sleep(0.01)
            life_rate = (_finished(server) - before) / (time.monotonic() - began)
            ratios.append(life_rate / bare_rate)
            print(f"  bare POST {bare_rate:7.0f}/s   paid lives {life_rate:6.0f}/s   {life_rate / bare_rate:.0%}")
        print(f"a paid no-op job's life / a bare Flask POST: median {statistics.median(ratios):.0%}")
    finally:
        server.stop()
        bare.kill()


def _finished(server):
    return server.rows("SELECT count(*) FROM jobs WHERE status = 'succeeded'")[0][0]


def memory_mb(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def children(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
    return [int(child) for child in found] + [grand for child in found for grand in children(child)]


def start_and_idle(folder):
    seconds = []
    for _ in range(5):
        server = Server(folder)
        began = time.monotonic()
        server.start()
        while server.get("/healthz").status != 200:
            pass
        seconds.append(time.monotonic() - began)
        server.get("/")
        worker = server.worker_pid()
        held = memory_mb(worker), memory_mb(server.process.pid)
        server.stop()
    print(f"start to first 200: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")
    print(f"idle after one page: worker {held[0]:.0f} MB, master {held[1]:.0f} MB resident")


def largest_upload(folder):
    """20 MB of 50,000 long comments, and as many as people write them (the labelled set, over and over)."""
    rows = 50_000
    line = "this video is really good and i love how the music fits, but the ending made me sad and a bit angry too 😀 "
    text = (line * 4)[:20_000_000 // rows - 12]
    long = json.dumps([{"text": f"{n} {text}"} for n in range(rows)], ensure_ascii=False).encode()
    with (ROOT / "tests" / "data" / "youtube_comments_en_labelled.csv").open(encoding="utf-8") as file:
        real = [row["text"] for row in csv.DictReader(file)]
    real = json.dumps([f"{real[n % len(real)]} {n}" for n in range(rows)], ensure_ascii=False).encode()
    server = Server(folder).start()
    try:
        server.get("/")
        for name, content in (("long comments", long), ("real comments", real)):
            _read_rows(server, *_upload(server, name, content))
    finally:
        server.stop()


@contextlib.contextmanager
def others_wait(server):
    """What others wait meanwhile, in milliseconds, sorted: the list is filled at the end."""
    # In a process of its own: what this one computes must not look like a stall of the server.
    asker, waits = subprocess.Popen([sys.executable, "-c", ASKER, str(server.port)], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True), []
    try:
        yield waits
    finally:
        waits += sorted(json.loads(asker.communicate()[0]))


def _told(waits):
    return (f"others meanwhile ({len(waits)} requests): median {statistics.median(waits):.1f} ms, p99 "
            f"{waits[int(len(waits) * .99)]:.1f} ms, worst {waits[-1]:.1f} ms")


def _upload(server, name, content):
    """The analysed job, and the cookie of whom it belongs to."""
    peak, stop = {"worker": 0.0, "children": 0.0}, threading.Event()

    def watch_memory():
        worker = server.worker_pid()
        while not stop.is_set():
            peak["worker"] = max(peak["worker"], memory_mb(worker))
            try:
                peak["children"] = max(peak["children"], sum(memory_mb(child) for child in children(worker)))
            except OSError:
                pass
            time.sleep(0.05)
    watcher = threading.Thread(target=watch_memory)
    with others_wait(server) as waits:
        watcher.start()
        began = time.monotonic()
        answer = server.upload("comments", "big.json", content)
        accepted = time.monotonic() - began
        cookie = answer.headers["Set-Cookie"].split(";")[0]
        job = server.finished(answer.json["job"]["id"], seconds=300, headers={"Cookie": cookie})
        took = time.monotonic() - began - accepted
        stop.set()
        watcher.join()
    analysed = job["result"]["coverage"]["analysed"]
    print(f"{name}: {len(content) / 1e6:.1f} MB, {analysed:,} of them; accepted in {accepted:.1f} s, report {took:.1f} s "
          f"later: {analysed / took:,.0f} comments/s")
    print(f"  {_told(waits)}")
    print(f"  peak resident: worker {peak['worker']:.0f} MB + helper process {peak['children']:.0f} MB = "
          f"{peak['worker'] + peak['children']:.0f} MB")
    return job, cookie


def _read_rows(server, job, cookie):
    """Pages of its rows, each three times: the median, and as so many times the reading of the file."""
    path, reading = server.database.parent / "files" / job["id"] / ".rows.jsonl", []
    for _ in range(3):
        began = time.monotonic()
        with path.open("rb") as file:
            for line in file:
                json.loads(line)
        reading.append(time.monotonic() - began)
    reading = statistics.median(reading)
    print(f"  rows: {path.stat().st_size / 1e6:.1f} MB, read in {reading:.2f} s")
    for query in ("page=2", "q=good&label=positive", "q=good&order=likes&page=200"):
        took = []
        with others_wait(server) as waits:
            for _ in range(3):
                began = time.monotonic()
                answer = server.get(f"{job['links']['page']}/rows?{query}", headers={"Cookie": cookie})
                took.append(time.monotonic() - began)
                if answer.status != 200:
                    raise RuntimeError(answer.status)
        print(f"    {query}: {statistics.median(took):.2f} s, {statistics.median(took) / reading:.1f} times that; {_told(waits)}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=4, help="of each measurement of the lives")
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    for part in (start_and_idle, lambda folder: lives_against_bare(folder, options.seconds, options.rounds),
                 largest_upload):
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder))


if __name__ == "__main__":
    main()
