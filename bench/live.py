"""How soon a stored event reaches whoever follows a job live, and what silent streams cost.

    python bench/live.py

A real server, real streams, one job that says a new stage every 50 ms. The time of each event is that of its row
(``job_events.at``, taken when it is inserted, to the millisecond): its commit is counted in, so is whatever the
client needs to read it. Both clocks are this machine's. Then 200 streams of a job that says nothing: the processor
time of the worker, less what it needs without them (each says that it lives every 5 s).
"""
import argparse
import re
import selectors
import socket
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.idle import process_figures  # noqa: E402
from tests.server import Server  # noqa: E402

EVENTS = 200
KIND = """
import time
from pydantic import BaseModel
from webapp.kinds import Kind
class Params(BaseModel):
    events: int
    seconds: float
def run(job, params):
    time.sleep(params.seconds)
    for n in range(params.events):
        time.sleep(0.05)
        job.progress(f"stage {n}", n, params.events)
    return {}
KIND = Kind(name="telling", params=Params, run=run, timeout_seconds=300)
"""


class Streams:
    """Open streams of one job, read by one thread: ``heard`` holds, for each, when each event id first came."""

    def __init__(self, server, token, job_id, count):
        self.heard, self._rest = [{} for _ in range(count)], [b""] * count
        self._selector = selectors.DefaultSelector()
        for n in range(count):
            connection = socket.create_connection(("127.0.0.1", server.port))
            connection.sendall(f"GET /api/jobs/{job_id}/events HTTP/1.1\r\nHost: bench\r\n"
                               f"Authorization: Bearer {token}\r\n\r\n".encode())
            self._selector.register(connection, selectors.EVENT_READ, n)
        self._left = set(range(count))
        self.read_until(lambda: all(self.heard))  # each has told where the job is

    def read_until(self, satisfied):
        """Read until then, or until every stream has ended."""
        while self._left and not satisfied():
            for key, _ in self._selector.select(timeout=0.1):
                data, at = key.fileobj.recv(65536), time.time()
                *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
                for line in lines:
                    if found := re.fullmatch(rb"id: (\d+)", line):
                        self.heard[key.data].setdefault(int(found[1]), at)
                if not data or b"event: done" in lines:
                    self._left.discard(key.data)
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()

    def close(self):
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()
        self._selector.close()


def latencies(server, token, count):
    """Milliseconds from an event's row to its arrival, for each event and stream."""
    job_id = submit(server, token, events=EVENTS, seconds=2)
    streams = Streams(server, token, job_id, count)
    streams.read_until(lambda: False)
    streams.close()
    rows = {row["seq"]: datetime.fromisoformat(row["at"]).timestamp() for row in server.rows(
        "SELECT seq, at FROM job_events WHERE job_id = ? AND data ->> 'stage' LIKE 'stage %'", job_id)}
    found = []
    for heard in streams.heard:
        for seq, stored_at in rows.items():  # told by its own message, or by a later one that stands for both
            found.append(1000 * (min(at for told, at in heard.items() if told >= seq) - stored_at))
    return found


def silent_cost(server, token, count, seconds):
    """Processor seconds of the worker in so many seconds with ``count`` streams that have nothing to say."""
    job_id = submit(server, token, events=0, seconds=seconds + 5)
    streams = Streams(server, token, job_id, count)
    before, ends = process_figures(server.worker_pid())[0], time.monotonic() + seconds
    streams.read_until(lambda: time.monotonic() >= ends)
    spent = process_figures(server.worker_pid())[0] - before
    streams.close()
    server.finished(job_id, token)
    return spent


def submit(server, token, **params):
    return server.post("/api/kinds/telling/jobs", params, token=token).json["job"]["id"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="how long silent streams are watched")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "telling.py").write_text(KIND)
        server = Server(folder, {"EXTRA_KINDS": "telling", "PYTHONPATH": f"{ROOT}:{folder}",
                                 "MAX_STREAMS": 200, "MAX_STREAMS_PER_USER": 200}).start()
        try:
            token = server.add_user()
            print(f"{'streams':>8}{'events':>8}{'median':>10}{'p95':>10}{'max':>10}")
            for count in (1, 50):
                found = latencies(server, token, count)
                print(f"{count:>8}{len(found):>8}{statistics.median(found):>7.1f} ms"
                      f"{statistics.quantiles(found, n=20)[-1]:>7.1f} ms{max(found):>7.1f} ms", flush=True)
            none, many = (silent_cost(server, token, count, seconds) for count in (0, 200))
            print(f"200 silent streams: {(many - none) / seconds:.1%} of one processor "
                  f"({none / seconds:.1%} without them)")
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
