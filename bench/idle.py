"""Whether an idle server is idle: what its worker writes, looks at and wakes for while nothing is in flight.

    python bench/idle.py [--minutes 10]

Starts a real server on a throw-away folder, lets one paid job succeed, one fail and one be cancelled, waits
until nothing is in flight, and reads /metrics then and at the end of the wait. Prints both figures, and the
processor time and voluntary context switches of the worker (all its threads) in between; gunicorn wakes
once a second to tell its master that the worker lives. Ends with 1 if a figure that must stand still moved.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.server import Server  # noqa: E402

STILL = ("ainori_recovery_passes_total", "ainori_db_commits_total", "ainori_db_verbs_total", "ainori_hub_lag_seconds_count")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder:
        # Ticking every second while there is something to watch: in the wait it would show.
        server = Server(folder, {"RECOVERY_INTERVAL_SECONDS": 1, "HEARTBEAT_SECONDS": 1, "EXTRA_KINDS": ""}).start()
        try:
            return measure(server, minutes)
        finally:
            server.stop()


def measure(server, minutes):
    admin = json.loads(server.flask("users", "add", "admin@example.org", "--admin", "--json").stdout)["token"]
    at_start = figures(server, admin)
    for job in work(server):
        print(f"{job['number']}: {job['status']}, points {job['money']}")
    before = when_idle(server, admin)
    worker = server.worker_pid()
    process_before = process_figures(worker)
    print(f"idle for {minutes:g} minutes", flush=True)
    time.sleep(minutes * 60)
    cpu_seconds, switches = (now - then for then, now in zip(process_before, process_figures(worker), strict=True))
    after = figures(server, admin)
    print(f"\n{'':<32}{'at start':>10}{'worked':>10}{'idle':>10}")
    for name in STILL:
        print(f"{name:<32}{at_start[name]:>10.0f}{before[name]:>10.0f}{after[name]:>10.0f}")
    print(f"\nworker, while idle: {cpu_seconds:.2f} s of processor, {switches} voluntary context switches "
          f"({switches / minutes / 60:.2f} a second)")
    moved = [name for name in STILL if after[name] != before[name]]
    dead = [name for name in STILL if before[name] <= at_start[name]]
    print(f"MOVED: {', '.join(moved)}" if moved else "Nothing moved while idle.")
    print(f"NEVER MOVED, so this proves nothing: {', '.join(dead)}" if dead else "All of them had moved before.")
    return 1 if moved or dead else 0


def work(server):
    """One paid job that succeeds, one that fails, one that is cancelled; each when it is final and settled."""
    token = server.add_user(points=3)
    for params in ({"seconds": 3}, {"seconds": 3, "fail": True}, {"seconds": 30}):
        job_id = server.post("/api/kinds/sample/jobs", params, token=token).json["job"]["id"]
        if params["seconds"] == 30:
            time.sleep(1)
            server.post(f"/api/jobs/{job_id}/cancellation", token=token)
        yield server.finished(job_id, token=token)


def when_idle(server, admin):
    """The figures when nothing is in flight, and the last timers of what was have run out."""
    while any(count for name, count in figures(server, admin).items() if "jobs_in_flight" in name):
        time.sleep(0.1)
    time.sleep(3)  # the tick and the heartbeat that were waiting already
    return figures(server, admin)


def figures(server, admin):
    """``{name and labels: number}``."""
    text = server.get("/metrics", token=admin).text
    return {name: float(value) for name, value in re.findall(r"^(ainori_\S+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)}


def process_figures(pid):
    """``(processor seconds, voluntary context switches)`` of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    switches = sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read_text(), re.MULTILINE)[1])
                   for status in Path(f"/proc/{pid}/task").glob("*/status"))
    return cpu_seconds, switches


if __name__ == "__main__":
    sys.exit(main())
