"""Real servers whose file is locked, whose disk is full, read-only or slow. They answer; nothing is charged for
what is refused; what runs ends as it would have, when the file can be written again."""
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import gevent
import pytest

from tests.server import Server
from tests.test_crash import job_row, ledger, refused_to_start, submit, told
from tests.test_writer import HOLD, another_process

# What an answer may take beside all that runs on this machine, and far less than any lock here lasts.
ANSWER_SECONDS_MAX = 5      # half of what the lock is held at the least: nobody waits for its end
EXCLUSIVE = HOLD.replace("IMMEDIATE", "EXCLUSIVE")
FOR_OURSELVES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]


@pytest.fixture
def site(tmp_path):
    """Start servers, each in a folder of its own or in that of another one."""
    started = []

    def start(name="one", *, folder=None, under=(), begin=True, **environ):
        folder = folder or tmp_path / name
        folder.mkdir(exist_ok=True)
        one = Server(folder, environ)
        one.log, one.under = tmp_path / f"{name}.log", list(under)
        started.append(one)
        return one.start() if begin else one
    yield start
    for one in started:
        one.stop()


class Looking:
    """Asks a server again and again; ``worst`` is the longest answer in seconds, by path, ``bad`` what was no 200."""

    def __init__(self, one, paths, token=None, every_seconds=0.05):
        self.one, self.paths, self.token, self.every_seconds = one, paths, token, every_seconds
        self.worst, self.times, self.bad = dict.fromkeys(paths, 0.0), [], []

    def __enter__(self):
        self._greenlets = [gevent.spawn(self._look, path) for path in self.paths]
        return self

    def __exit__(self, *_):
        gevent.killall(self._greenlets)

    def _look(self, path):
        while True:
            began = time.monotonic()
            answer = self.one.get(path, token=self.token)
            took = time.monotonic() - began
            self.worst[path] = max(self.worst[path], took)
            self.times.append(took)
            if answer.status != 200:
                self.bad.append((path, answer.status, answer.body[:200]))
            gevent.sleep(self.every_seconds)

    def found_well(self, seconds_max=ANSWER_SECONDS_MAX):
        assert [looking.exception for looking in self._greenlets if looking.exception is not None] == []
        assert self.bad == []
        assert max(self.worst.values()) < seconds_max, self.worst


def pages_of(job_id):
    return ["/healthz", "/", "/history", "/points", "/login", "/kinds/paced", f"/jobs/{job_id}", f"/api/jobs/{job_id}",
            "/api/jobs", "/api/points", "/api/kinds"]


def refusals(one, token):
    """What is answered to a request by JSON, with a file, in a form; what was typed stays in the form."""
    def form():
        return one.request("POST", "/kinds/paced", b"text=what+was+typed&price=1", token=token,
                           headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"})
    asked = [gevent.spawn(one.post, "/api/kinds/paced/jobs", {}, token=token), gevent.spawn(form),
             gevent.spawn(one.upload, "paced", "a.txt", b"x" * 300_000, token=token)]
    answers = [asking.get() for asking in asked]
    assert [answer.status for answer in answers] == [503] * 3, [answer.text for answer in answers]
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert "what was typed" in answers[1].text
    assert answers[0].json["code"] == answers[2].json["code"]
    return answers[0].json["code"]


def until(one, sql, *parameters, seconds=20):
    """Returns when there is such a row; others in this process have their turn meanwhile."""
    ends = time.monotonic() + seconds
    while not one.rows(sql, *parameters):
        assert time.monotonic() < ends, f"never seen: {sql}\n{one.log.read_text()[-3000:]}"
        gevent.sleep(0.05)


def until_charged(one, job_id):
    until(one, "SELECT 1 FROM ledger_entries WHERE job_id = ? AND kind = 'consume'", job_id)


def what_is_stored(one):
    return ([row[0] for row in one.rows("SELECT count(*) FROM jobs")], one.rows("SELECT max(id) FROM ledger_entries")[0][0],
            sorted(path.name for path in (one.folder / "uploads").iterdir()))


def end_of(one, token, job_id, **options):
    job = one.finished(job_id, token=token, **options)
    return job["status"], (job["error"] or {}).get("code"), job["money"], job["attempt"]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ----------------------------------------------------------------------------------------- locked

def locked(one, other, script, seconds):
    """Everything that may run while another program holds the write lock for so long; the second server looks on."""
    token = one.add_user(points=50)
    due = submit(one, token, "paced", after=0)
    one.finished(due, token=token)  # nobody has looked at its page yet
    jobs = {
        "charges meanwhile": submit(one, token, "paced", before=1.5, after=1),
        "ends meanwhile": submit(one, token, "paced", after=1.5),
        "ends after": submit(one, token, "paced", after=seconds + 2),
        "may be repeated": submit(one, token, "paced_again", before=1.5, after=1),
        "cancelled": submit(one, token, "paced", after=seconds + 20),
        "ends in time": submit(one, token, "hasty", after=1.5),
        "takes too long": submit(one, token, "hasty", after=seconds + 20)}
    for name in ("ends meanwhile", "ends after", "cancelled", "ends in time", "takes too long"):
        until_charged(one, jobs[name])
    before = what_is_stored(one)
    with another_process(script, one.database) as let_go, Looking(one, pages_of(due), token) as looking, \
            Looking(other, [f"/api/jobs/{jobs['ends in time']}", "/healthz"], token) as looking_on:
        ends = time.monotonic() + seconds
        began = time.monotonic()
        assert refusals(one, token) == "BUSY"
        assert time.monotonic() - began > 1
        cancelling = one.post(f"/api/jobs/{jobs['cancelled']}/cancellation", token=token)
        assert (cancelling.status, cancelling.json["code"]) == (503, "BUSY")
        assert what_is_stored(one) == before
        gevent.sleep(max(0, ends - time.monotonic()))
        for name, job_id in jobs.items():
            assert (name, told(one, token, job_id)[0]) == (name, "running")
        looking.found_well()
        looking_on.found_well()
        let_go()
        reaping = one.flask("reap")  # a command, like the second server, at the very moment it is free
    assert reaping.stdout.startswith("0 interrupted, 0 waiting again"), reaping.stdout
    assert one.post(f"/api/jobs/{jobs['cancelled']}/cancellation", token=token).status == 202
    ended = {name: end_of(one, token, job_id) for name, job_id in jobs.items()}
    well = ("succeeded", None, "consumed", 1)
    assert ended == {**dict.fromkeys(jobs, well), "cancelled": ("failed", "CANCELLED", "consumed", 1),
                     "takes too long": ("failed", "TIMED_OUT", "refunded", 1)}
    assert one.get("/api/points", token=token).json["balance"] == 50 - len(jobs)
    assert one.flask("audit").returncode == 0
    assert one.rows("SELECT * FROM incidents") == []
    return looking.worst


def read_for_ten_seconds(one):
    """The write-ahead log grows while it lasts, and is cut again after it."""
    token, wal = one.add_user(points=50), one.folder / "ainori.db-wal"
    with closing(sqlite3.connect(one.database, isolation_level=None)) as tool:
        tool.execute("BEGIN")
        count = tool.execute("SELECT count(*) FROM jobs").fetchone()
        ends = time.monotonic() + 10
        made = [submit(one, token, "bulky") for _ in range(30)]
        assert {end_of(one, token, job_id)[0] for job_id in made} == {"succeeded"}
        with Looking(one, ["/healthz", "/history"], token) as looking:
            gevent.sleep(max(0, ends - time.monotonic()))
        looking.found_well()
        assert tool.execute("SELECT count(*) FROM jobs").fetchone() == count
        assert wal.stat().st_size > 20_000_000
        tool.execute("COMMIT")
    for _ in range(3):
        end_of(one, token, submit(one, token, "paced"))
    assert wal.stat().st_size <= 16_100_000


def side_by_side(*calls):
    """Cases with servers of their own that mostly wait."""
    asked = [gevent.spawn(*call) for call in calls]
    try:
        gevent.joinall(asked, raise_error=True)
    finally:
        gevent.killall(asked)
    return [asking.value for asking in asked]


def test_another_program_holds_the_lock_for_ten_seconds_and_for_sixty_or_reads_for_ten(site):
    often = {"RECOVERY_INTERVAL_SECONDS": 0.5}
    ten, sixty, read = site("ten", **often), site("sixty", **often), site("read")
    print(side_by_side((locked, ten, site("ten too", folder=ten.folder, **often), EXCLUSIVE, 10),
                       (locked, sixty, site("sixty too", folder=sixty.folder, **often), HOLD, 60),
                       (read_for_ten_seconds, read)))


def told_to_stop(one, busy, seconds_max):
    token = one.add_user()
    if busy:
        charged, asking = submit(one, token, "paced", after=60), submit(one, token, "paced_again", before=1)
        until_charged(one, charged)
    with another_process(HOLD, one.database):
        if busy:
            gevent.sleep(1.5)  # the second one waits for its charge
        one.signal_master(signal.SIGTERM)
        began = time.monotonic()
        one.wait()
        assert time.monotonic() - began < seconds_max
        assert one.process.returncode == 0
    one.start()
    if busy:
        assert told(one, token, charged)[:3] == ("failed", "INTERRUPTED", "refunded")
        assert end_of(one, token, asking) == ("succeeded", None, "consumed", 2)
    assert one.get("/api/points", token=token).json["balance"] == (2 if busy else 3)
    newest = one.rows("SELECT id FROM workers ORDER BY started_at DESC")[0]["id"]
    assert [path.stem for path in (one.folder / "workers").iterdir()] == [newest]
    assert one.flask("audit").returncode == 0


def killed(one):
    token = one.add_user()
    charged, asking = submit(one, token, "paced", after=1), submit(one, token, "paced", before=1)
    until_charged(one, charged)
    with another_process(HOLD, one.database) as let_go:
        gevent.sleep(1.5)  # both wait: one with its charge, one with its end
        one.kill()
        gevent.spawn_later(2, let_go)
        one.start()  # the port is open, and who asks now is answered when the lock is gone
        assert told(one, token, charged)[:3] == ("failed", "INTERRUPTED", "refunded")
    assert told(one, token, asking)[:3] == ("failed", "INTERRUPTED", "none")
    assert ledger(one, charged) == [("consume", -1), ("refund", 1)] and ledger(one, asking) == []


def told_to_stop_before_work_began(one, serves):
    """While it waits for the lock and answers nobody, or while it serves already."""
    assert one.get("/api/kinds").status == 200  # the file is made
    one.kill()
    locks = set((one.folder / "workers").iterdir())
    with another_process(HOLD, one.database):
        one.start()
        if serves:
            assert "starting" in one.get("/readyz").json["reasons"]
            asking = gevent.spawn(one.post, "/api/kinds/paced/jobs")
            gevent.sleep(0.2)
        else:
            gevent.sleep(1)
        one.signal_master(signal.SIGTERM)
        began = time.monotonic()
        one.wait()
        assert time.monotonic() - began < 5
        assert one.process.returncode == 0
        if serves:
            gevent.kill(asking)
            assert set((one.folder / "workers").iterdir()) == locks
    one.start()
    assert one.get("/api/kinds").status == 200 and "starting" not in one.get("/readyz").text
    assert "Traceback" not in one.log.read_text(), one.log.read_text()


def test_told_to_stop_or_killed_while_the_file_is_locked_it_is_soon_gone_and_tells_the_truth_later(site):
    side_by_side(
        (told_to_stop, site("idle"), False, 4),  # it does not wait for a goodbye that cannot be stored
        (told_to_stop, site("busy"), True, 5),
        (killed, site("kill")),
        (told_to_stop_before_work_began, site("patient", TEST_START_PATIENCE_SECONDS=30), False),
        (told_to_stop_before_work_began, site("serves", TEST_START_PATIENCE_SECONDS=0.5), True))


WAITS, WORKS = "pages are served, work begins when it lets go", "can be written again: work begins"


def started(one):
    """Pages and polls answer what is stored; the truth follows when the lock is gone."""
    token = one.add_user()
    charged = submit(one, token, "paced", after=60)
    until_charged(one, charged)
    one.kill()
    with another_process(HOLD, one.database) as let_go:
        one.start()
        assert told(one, token, charged)[0] == "running"  # it does not wait for the lock
        before = what_is_stored(one)
        with Looking(one, pages_of(charged), token) as looking:
            assert refusals(one, token) == "BUSY"
            assert what_is_stored(one) == before
            ready = one.get("/readyz")
            assert ready.status == 503 and "starting" in ready.json["reasons"]
            asking = gevent.spawn(submit, one, token, "paced")  # in the queue behind the start itself
            gevent.sleep(0.5)
            let_go()
            assert one.finished(charged, token=token, seconds=5)["error"]["code"] == "INTERRUPTED"
            looking.found_well()
    assert told(one, token, charged)[2] == "refunded" and ledger(one, charged) == [("consume", -1), ("refund", 1)]
    assert end_of(one, token, asking.get()) == ("succeeded", None, "consumed", 1)
    assert "starting" not in one.get("/readyz").text
    until(one, "SELECT 1 FROM incidents WHERE code = 'RESTARTED' AND detail LIKE '1 interrupted, 1 point returned, 0 unknown, %'")
    log = one.log.read_text()
    assert log.count(WAITS) == log.count(WORKS) == 1 and "Traceback" not in log, log
    assert one.flask("audit").returncode == 0


def reloaded(one):
    """The new worker serves, whoever holds the file; what the old one could not even give back goes on afterwards."""
    token, old = one.add_user(), one.worker_pid()
    fails, again = submit(one, token, "paced", after=60), submit(one, token, "paced_again", after=8)
    for job_id in (fails, again):
        until_charged(one, job_id)
    with another_process(HOLD, one.database) as let_go, \
            Looking(one, ["/healthz", "/history", f"/api/jobs/{again}"], token, every_seconds=0.1) as looking:
        one.signal_master(signal.SIGHUP)
        ends = time.monotonic() + 30
        while WAITS not in one.log.read_text() or Path(f"/proc/{old}").exists():
            assert time.monotonic() < ends, one.log.read_text()
            gevent.sleep(0.05)
        seen = len(looking.times)
        assert refusals(one, token) == "BUSY"
        assert len(looking.times) > seen
        assert [told(one, token, job_id)[0] for job_id in (fails, again)] == ["running"] * 2
        let_go()
        assert one.finished(fails, token=token, seconds=5)["money"] == "refunded"
        assert end_of(one, token, again) == ("succeeded", None, "consumed", 2)
        looking.found_well(seconds_max=10)  # its patience, and what loading the code takes
    print(looking.worst)
    assert one.process.poll() is None and one.worker_pid() != old
    assert "Traceback" not in one.log.read_text(), one.log.read_text()
    assert one.flask("audit").returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which worker has gone")
def test_started_or_reloaded_while_the_file_is_locked_it_serves_and_begins_to_work_when_it_can(site):
    side_by_side((started, site("start", TEST_START_PATIENCE_SECONDS=1, BUSY_SECONDS=2)),
                 (reloaded, site("reload", TEST_START_PATIENCE_SECONDS=2, DRAIN_SECONDS=0.5, BUSY_SECONDS=2)))


# ------------------------------------------------------------------------------------------- full

@pytest.fixture
def disk(tmp_path):
    """Mount small disks; give their folders."""
    mounted = []

    def mount(name="disk"):
        if sys.platform != "linux" or os.geteuid() != 0:
            pytest.skip("mounting a small disk needs root on Linux")
        folder = tmp_path / name
        folder.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
        mounted.append(folder)
        return folder
    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder, but_bytes=0):
    """A file that leaves so much room on its disk. Returns its path."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
        if but_bytes:
            file.truncate(max(0, os.fstat(file.fileno()).st_size - but_bytes))
    return filler


def full_while_it_works(one):
    token, disk = one.add_user(points=50), one.folder
    jobs = {"ends meanwhile": submit(one, token, "paced", after=2), "charges meanwhile": submit(one, token, "paced", before=2),
            "ends in time": submit(one, token, "hasty", after=2), "takes too long": submit(one, token, "hasty", after=60),
            "saves a file": submit(one, token, "paced", after=2, text="x" * 50_000)}
    for name in jobs.keys() - {"charges meanwhile"}:
        until(one, "SELECT 1 FROM job_steps WHERE job_id = ?", jobs[name])
    before = what_is_stored(one)
    filler = fill(disk)
    with Looking(one, pages_of(jobs["ends meanwhile"]), token) as looking:
        assert refusals(one, token) == "STORAGE_UNAVAILABLE"
        assert what_is_stored(one) == before
        assert set(one.get("/readyz").json["reasons"]) == {"disk space", "storage"}
        gevent.sleep(4)  # all have ended, and cannot say so
        assert {told(one, token, job_id)[0] for job_id in jobs.values()} == {"running"}
        assert what_is_stored(one) == before and {path.name for path in (disk / "files").rglob("*")} <= {jobs["saves a file"]}
        looking.found_well()
    used = cpu_seconds(one.worker_pid())
    gevent.sleep(3)
    assert cpu_seconds(one.worker_pid()) - used < 1.5, "it spins"
    filler.unlink()
    ended = {name: end_of(one, token, job_id) for name, job_id in jobs.items()}
    assert ended == {
        "ends meanwhile": ("succeeded", None, "consumed", 1), "ends in time": ("succeeded", None, "consumed", 1),
        "charges meanwhile": ("failed", "STORAGE_UNAVAILABLE", "none", 1),
        "takes too long": ("failed", "TIMED_OUT", "refunded", 1),
        "saves a file": ("failed", "STORAGE_UNAVAILABLE", "refunded", 1)}
    until(one, "SELECT 1 FROM incidents WHERE severity = 'critical' AND code = 'STORAGE_UNAVAILABLE'")
    assert len(one.rows("SELECT 1 FROM incidents")) == 1
    log = one.log.read_text()
    assert log.count(": the disk refuses: ") == 1 and "Traceback" not in log, log
    assert end_of(one, token, submit(one, token, "paced"))[0] == "succeeded"
    assert "storage" not in one.get("/readyz").json["reasons"]
    assert one.flask("audit").returncode == 0


def killed_when_full(one):
    token = one.add_user()
    job_id = submit(one, token, "paced", after=1)
    until_charged(one, job_id)
    filler = fill(one.folder)
    gevent.sleep(2)  # it has ended, and cannot say so
    one.kill()
    assert ledger(one, job_id) == [("consume", -1)]
    filler.unlink()
    one.start()
    assert told(one, token, job_id)[:3] == ("failed", "INTERRUPTED", "refunded")
    assert one.flask("audit").returncode == 0


@pytest.mark.parametrize("environ, kilobytes", [({}, 0), ({"SECRET_KEY": "k" * 40}, 0), ({"SECRET_KEY": "k" * 40}, 64)])
def test_a_start_on_a_full_disk_says_so_once_and_ends(site, disk, environ, kilobytes):
    folder = disk()
    fill(folder, kilobytes * 1024)
    log = refused_to_start(site(folder=folder, begin=False, **environ))
    assert log.count("Ainori cannot start: ") == 1 and "Traceback" not in log, log


def test_a_worker_that_starts_on_a_full_disk_serves_and_begins_to_work_when_there_is_room(site, disk):
    """The file is there; what was interrupted is settled when that can be stored. A reload does not end the site."""
    one = site(folder=disk())
    token = one.add_user()
    job_id = submit(one, token, "paced", after=60)
    until_charged(one, job_id)
    one.kill()
    # Somebody looks into the file, and its log is empty: no room is left that was taken before.
    reader = sqlite3.connect(one.database)
    reader.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    filler = fill(one.folder)
    one.start()
    with closing(reader), Looking(one, pages_of(job_id), token) as looking:
        assert refusals(one, token) == "STORAGE_UNAVAILABLE"
        assert "starting" in one.get("/readyz").json["reasons"]
        one.signal_master(signal.SIGHUP)
        gevent.sleep(2)
        assert told(one, token, job_id)[0] == "running"
        filler.unlink()
        job = one.finished(job_id, token=token, seconds=10)
        looking.found_well(seconds_max=10)
    assert (job["error"]["code"], job["money"]) == ("INTERRUPTED", "refunded")
    assert ledger(one, job_id) == [("consume", -1), ("refund", 1)]
    assert end_of(one, token, submit(one, token, "paced")) == ("succeeded", None, "consumed", 1)
    log = one.log.read_text()
    assert log.count("pages are served, work begins when there is room") in (1, 2) and "Traceback" not in log, log
    assert one.flask("audit").returncode == 0


def whatever_room_is_left(one):
    """A life is whole or not: accepted or refused, charged and kept or not charged, or returned."""
    token = one.add_user(points=100)
    seen, wal = set(), one.folder / "ainori.db-wal"
    for kilobytes in [*range(0, 68, 4), 96, 128, 192]:
        filler = fill(one.folder, kilobytes * 1024)
        answer = one.post("/api/kinds/paced/jobs", {"text": "x" * 3000}, token=token)
        if answer.status == 202:
            gevent.sleep(0.3)
        filler.unlink()
        if answer.status == 202:
            ended = end_of(one, token, answer.json["job"]["id"])
            seen.add(ended[:3])
            assert ended[:3] in {("succeeded", None, "consumed"), ("failed", "STORAGE_UNAVAILABLE", "none"),
                                 ("failed", "STORAGE_UNAVAILABLE", "refunded")}, kilobytes
        else:
            assert answer.json["code"] == "STORAGE_UNAVAILABLE"
            seen.add("refused")
    print(seen)
    assert {"refused", ("succeeded", None, "consumed")} <= seen and len(seen) > 2
    assert one.flask("audit").returncode == 0
    assert one.rows("PRAGMA integrity_check")[0][0] == "ok"
    assert wal.stat().st_size < 5_000_000


def test_a_full_disk_refuses_what_is_new_keeps_what_ran_and_tears_nothing(site, disk):
    side_by_side((full_while_it_works, site("works", folder=disk("a"), RECOVERY_INTERVAL_SECONDS=0.5)),
                 (killed_when_full, site("killed", folder=disk("b"))),
                 (whatever_room_is_left, site("room", folder=disk("c"))))


# -------------------------------------------------------------------------------------- read-only

@contextmanager
def read_only(*folders):
    for folder in folders:
        folder.chmod(0o555)
    try:
        yield
    finally:
        for folder in folders:
            folder.chmod(0o755)


def as_anybody():
    """What runs a server so that mode bits mean something to it."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv to give that up")
    return FOR_OURSELVES


def test_a_folder_that_becomes_read_only_refuses_files_and_harms_nobody(site, tmp_path):
    one = site(under=as_anybody())
    token = one.add_user(points=50)
    ends = submit(one, token, "paced", after=2)
    saves = submit(one, token, "paced", after=1.5, text="to be saved")
    held = one.upload("paced", "a.txt", b"kept", {"after": "1.5"}, token=token).json["job"]["id"]
    for job_id in (ends, saves, held):
        until_charged(one, job_id)
    before = what_is_stored(one)
    with read_only(one.folder, *(one.folder / name for name in ("uploads", "files", "workers"))), \
            Looking(one, pages_of(ends), token) as looking:
        refused = one.upload("paced", "a.txt", b"x" * 300_000, token=token)
        assert (refused.status, refused.json["code"]) == (503, "STORAGE_UNAVAILABLE") and refused.headers["Retry-After"]
        boundary = "b"
        form = (f'--{boundary}\r\nContent-Disposition: form-data; name="text"\r\n\r\nwhat was typed\r\n'
                f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n--{boundary}--\r\n')
        page = one.request("POST", "/kinds/paced", form.encode(), token=token, headers={
            "Content-Type": f"multipart/form-data; boundary={boundary}", "Accept": "text/html"})
        assert page.status == 503 and "what was typed" in page.text
        assert what_is_stored(one) == before
        assert end_of(one, token, ends) == ("succeeded", None, "consumed", 1)  # the open file can be written
        assert end_of(one, token, saves) == ("failed", "STORAGE_UNAVAILABLE", "refunded", 1)
        assert end_of(one, token, held) == ("succeeded", None, "consumed", 1)
        looking.found_well()
    assert end_of(one, token, submit(one, token, "paced", text="saved"))[0] == "succeeded"
    assert one.upload("paced", "a.txt", b"x", token=token).status == 202
    assert {row["code"] for row in one.rows("SELECT code FROM incidents")} == {"STORAGE_UNAVAILABLE"}
    assert "Traceback" not in one.log.read_text(), one.log.read_text()
    assert one.flask("audit").returncode == 0


def test_a_start_in_a_read_only_folder_says_so_once_and_ends(site, tmp_path):
    one = site(begin=False, under=as_anybody())
    with read_only(one.folder):
        log = refused_to_start(one)
        assert log.count("Ainori cannot start: ") == 1 and "Traceback" not in log, log
    one.start()
    assert one.get("/api/kinds").status == 200
    one.kill()
    with read_only(one.folder, one.folder / "workers"):
        log = refused_to_start(one)
        assert log.count("Ainori cannot start: ") == 2 and "Traceback" not in log, log


def files_take_nothing(one):
    token = one.add_user(points=50)
    ends, asks = submit(one, token, "paced", after=1.5), submit(one, token, "paced", before=1.5)
    saves, late = submit(one, token, "paced", after=1.5, text="x"), submit(one, token, "hasty", after=60)
    for job_id in (ends, saves, late):
        until_charged(one, job_id)
    before, worker = what_is_stored(one), one.worker_pid()
    limits = resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    with Looking(one, pages_of(ends), token) as looking:
        assert refusals(one, token) == "STORAGE_UNAVAILABLE"
        assert "storage" in one.get("/readyz").json["reasons"]
        gevent.sleep(4)
        assert what_is_stored(one) == before
        assert {told(one, token, job_id)[0] for job_id in (ends, asks, saves, late)} == {"running"}
        looking.found_well()
    resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)
    assert end_of(one, token, ends) == ("succeeded", None, "consumed", 1)
    assert end_of(one, token, asks) == ("failed", "STORAGE_UNAVAILABLE", "none", 1)
    assert end_of(one, token, saves) == ("failed", "STORAGE_UNAVAILABLE", "refunded", 1)
    assert end_of(one, token, late) == ("failed", "TIMED_OUT", "refunded", 1)
    until(one, "SELECT 1 FROM incidents WHERE severity = 'critical' AND code = 'STORAGE_UNAVAILABLE'")
    assert one.worker_pid() == worker and one.flask("audit").returncode == 0


def its_word_comes_first(one, other):
    """What a living worker could not store yet comes before what another one thinks of it."""
    assert [server.get("/api/kinds").status for server in (one, other)] == [200, 200]
    token = one.add_user(points=50)
    polled, in_the_way = submit(one, token, "hasty", after=1.5), submit(one, token, "hasty_alone", after=1.5)
    for job_id in (polled, in_the_way):
        until_charged(one, job_id)
    worker = one.worker_pid()
    limits = resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    until(one, "SELECT 1 FROM jobs WHERE id = ? AND deadline_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-0.5 seconds')",
          in_the_way)
    resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)
    asked = side_by_side((told, other, token, polled), (submit, other, token, "hasty_alone"))
    assert asked[0][:3] == ("succeeded", None, "consumed")
    assert job_row(one, in_the_way)["status"] == "succeeded" and end_of(one, token, asked[1])[0] == "succeeded"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits the files of another process")
def test_files_that_may_not_be_written_refuse_what_is_new_and_keep_what_ran(site):
    first = site("first")
    side_by_side((files_take_nothing, site(RECOVERY_INTERVAL_SECONDS=0.5)),
                 (its_word_comes_first, first, site("second", folder=first.folder)))


# -------------------------------------------------------------------------------------------- slow

SLOW_SYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int slow(const char *name, int file) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    char link[64], path[512], line[640];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    int size = snprintf(line, sizeof line, "%s %s\n", syscall(SYS_gettid) == getpid() ? "hub" : "thread", path);
    int told = open(getenv("SYNCS_TOLD"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (told >= 0 && write(told, line, size) != size) abort();
    close(told);
    usleep(50000);
    return real(file);
}

int fsync(int file) { return slow("fsync", file); }
int fdatasync(int file) { return slow("fdatasync", file); }
"""


@pytest.fixture
def slow_sync(tmp_path):
    """The environment in which each sync takes 50 ms more and is told, and the file of what was told."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("slowing down a disk's sync needs a C compiler (cc) on Linux")
    source, library, syncs = tmp_path / "slow.c", tmp_path / "slow.so", tmp_path / "syncs"
    source.write_text(SLOW_SYNC)
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SYNCS_TOLD": str(syncs)}, syncs


def test_a_disk_whose_sync_takes_fifty_milliseconds_keeps_nobody_else_waiting(site, slow_sync):
    environ, syncs = slow_sync
    one = site(**environ)
    token = one.add_user(points=50)
    assert one.get("/api/kinds").status == 200
    syncs.write_text("")  # a start may sync as it likes: nobody waits for it yet
    with Looking(one, ["/healthz", "/"], token, every_seconds=0.01) as looking:
        asked = [gevent.spawn(submit, one, token, "paced", before=0.05 * (n % 5), after=0.1, text="x" * 1000)
                 for n in range(20)]
        uploads = [gevent.spawn(one.upload, "paced", "a.txt", b"x" * 500_000, token=token) for _ in range(3)]
        asked += [gevent.spawn(submit, one, token, "bulky") for _ in range(8)]
        made = [asking.get() for asking in asked] + [asking.get().json["job"]["id"] for asking in uploads]
        assert {end_of(one, token, job_id, seconds=60)[0] for job_id in made} == {"succeeded"}
    told_of = [line.split(" ", 1) for line in syncs.read_text().splitlines()]
    parts = {part for _, path in told_of for part in Path(path).parts}
    assert parts >= {"ainori.db", "ainori.db-wal", "uploads", "files"}, "a checkpoint and files among them"
    assert [path for where, path in told_of if where == "hub"] == [], "a sync on the hub stops everybody"
    times = sorted(looking.times)
    print(f"{len(told_of)} syncs; answers: median {times[len(times) // 2]:.4f} s, p99 {times[len(times) * 99 // 100]:.4f} s")
    assert one.get("/api/points", token=token).json["balance"] == 27
    assert one.flask("audit").returncode == 0


# ------------------------------------------------------------------------------------- looked into

VIEWS = ("v_in_flight", "v_job_timeline", "v_statement", "v_incidents_open")


def test_somebody_who_looks_into_the_file_and_writes_to_it_harms_nobody(site):
    one = site()
    token = one.add_user(points=50)
    running = submit(one, token, "paced", after=3)
    until_charged(one, running)
    with closing(sqlite3.connect(one.database, isolation_level=None, timeout=5)) as tool:
        for view in VIEWS:
            tool.execute(f"SELECT * FROM {view}").fetchall()
        number = job_row(one, running)["number"]
        assert (number, 1) in tool.execute("SELECT number, charged FROM v_in_flight").fetchall()
        tool.execute("INSERT INTO ledger_entries (user_id, kind, points, balance_after, note) SELECT user_id, 'grant', 5, "
                     "balance_after + 5, 'by hand' FROM ledger_entries ORDER BY id DESC LIMIT 1")
        tool.execute("UPDATE users SET lang = 'ja' WHERE email IS NOT NULL")
        with pytest.raises(sqlite3.IntegrityError, match="append_only"):
            tool.execute("UPDATE ledger_entries SET points = 100")
    assert one.get("/api/points", token=token).json["balance"] == 54
    assert "ポイント" in one.get("/points", token=token).text
    assert end_of(one, token, running) == ("succeeded", None, "consumed", 1)
    assert one.flask("audit").returncode == 0
