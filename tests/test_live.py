"""Live progress: streams of stored events, their places, and their ends."""
import http.client
import json
import re
import signal
import socket
import sqlite3
import time

import gevent
import pytest

from tests.conftest import Person
from tests.server import Server
from webapp import create_app, jobs, live
from webapp.errors import Busy


def frames(chunks):
    """The events of a stream as ``(id, event, data)``; signs of life as ``(None, 'alive', data)``."""
    for frame in "".join(chunk if isinstance(chunk, str) else chunk.decode() for chunk in chunks).split("\n\n"):
        if frame.startswith(":"):  # a comment, for programs; and an event, for pages
            _comment, event, data = frame.split("\n")
            assert event == "event: alive"
            yield None, "alive", data.removeprefix("data: ")
        elif frame.startswith("id: "):
            lines = dict(line.split(": ", 1) for line in frame.split("\n"))
            yield int(lines["id"]), lines["event"], json.loads(lines["data"])


def listen(someone, job_id, after=None):
    return someone.get(f"/api/jobs/{job_id}/events", headers={"Last-Event-ID": str(after)} if after else {})


def test_a_stream_tells_what_is_stored_and_ends_with_done(service, person):
    someone = person()
    job_id = someone.submit("slow", seconds=0.3).json["job"]["id"]
    answer = listen(someone, job_id)
    assert (answer.status_code, answer.mimetype, answer.headers["X-Accel-Buffering"]) == (200, "text/event-stream", "no")
    chunks = list(answer.response)
    assert re.fullmatch(rb"retry: \d{4}\n\n", chunks[0])
    told = list(frames(chunks))
    ids = [seq for seq, *_ in told]
    assert ids == sorted(set(ids)) and ids[-1] == jobs.events(job_id)[-1]["seq"]
    assert [event for _, event, _ in told] == ["progress"] * (len(told) - 1) + ["done"] and len(told) >= 3
    last = told[-1][2]
    assert (last["status"], last["money"], last["result"]) == ("succeeded", "consumed", None)
    assert last.keys() == someone.job(job_id).keys()


def test_a_stream_speaks_the_language_of_whoever_listens(app, person):
    someone = person()
    path = someone.submit("paid").json["job"]["links"]["events"]
    told = []
    for lang in ("ja", "en"):
        answer = someone.get(path, headers={"Accept-Language": lang})
        chunks = iter(answer.response)
        next(chunks)
        told += frames([next(chunks)])
        answer.close()
    japanese, english = (job["money_message"] for *_, job in told)
    assert re.search("[ぁ-ん]", japanese) and english == "No points have been used yet."


def test_what_is_said_beside_work_in_flight_comes_with_the_job_but_not_in_lists(app, person):
    someone = person()
    notes = ("if_stopped", "cancel_note", "others_message")
    job = someone.submit("paid").json["job"]
    assert job["if_stopped"] and "no points are used" in job["cancel_note"] and job["others_message"] is None
    chunks = iter(someone.get(job["links"]["events"]).response)
    (_, _, told), = (next(chunks), list(frames([next(chunks)])))[1]
    chunks.close()
    assert [told[note] for note in notes] == [job[note] for note in notes]
    listed, = someone.get("/api/jobs").json["jobs"]
    assert listed.keys() == job.keys() and not any(listed[note] for note in notes)
    someone.post(f"{job['links']['self']}/cancellation")
    ended = someone.job(job["id"])
    assert ended["status"] == "failed" and not any(ended[note] for note in notes)


def test_done_is_not_said_before_the_points_are_settled(service, person):
    someone = person()
    job_id = someone.submit("broken").json["job"]["id"]
    told = list(frames(listen(someone, job_id).response))
    assert told[-1][1] == "done" and told[-1][2]["money"] == "refunded"
    assert all(event == "progress" and job["money"] in ("checking", "consumed", "none", "refunded")
               for _, event, job in told[:-1])


def test_a_stream_resumes_without_gaps_or_repeats(service, person):
    someone = person()
    job_id = someone.submit("slow", seconds=0.4).json["job"]["id"]
    seen, after, streams = [], None, 0
    while not seen or seen[-1][1] != "done":
        answer, streams = listen(someone, job_id, after), streams + 1
        chunks = iter(answer.response)
        got = []
        while len(got) < 1:  # one event of each stream, then the line breaks
            got = list(frames([next(chunks)]))
        answer.close()
        seen += got
        after = seen[-1][0]
    ids = [seq for seq, *_ in seen]
    assert streams >= 3 and ids == sorted(set(ids)) and ids[-1] == jobs.events(job_id)[-1]["seq"]
    assert listen(someone, job_id, after).status_code == 204  # nothing was missed: the browser stops asking


def test_whoever_comes_late_is_told_the_end_at_once(service, person):
    someone = person()
    job_id = someone.submit("paid").json["job"]["id"]
    someone.finished(job_id)
    last = jobs.events(job_id)[-1]["seq"]
    for after in (None, 1, last - 1):
        told = list(frames(listen(someone, job_id, after).response))
        assert [(seq, event) for seq, event, _ in told] == [(last, "done")]
    assert listen(someone, job_id, last).status_code == 204
    assert someone.get(f"/api/jobs/{job_id}/events?after={last}").status_code == 204


def test_done_is_told_even_where_the_end_came_between_two_looks(app, person, monkeypatch):
    """A commit happens in a thread: the job may be read before it, and its events after it."""
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    real, moved = jobs.poll, []

    def poll_just_before_the_end(asked):
        row = real(asked)
        if len(moved) == 1 and not jobs.get(asked)["finished_at"]:
            jobs._cancel(asked, someone.id)
        moved.append(row["status"])
        return row
    monkeypatch.setattr(jobs, "poll", poll_just_before_the_end)
    told = list(frames(listen(someone, job_id).response))
    assert told[-1][1] == "done" and told[-1][2]["status"] == "failed"


def test_what_another_process_writes_is_told_too(app, person, monkeypatch):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    chunks = iter(listen(someone, job_id).response)
    assert next(chunks) and list(frames([next(chunks)]))[0][1] == "progress"
    with sqlite3.connect(app.settings.database_path) as other:
        other.execute("INSERT INTO job_events (job_id, seq, event, attempt, data) VALUES (?, 7, 'progress', 0, '{}')",
                      (job_id,))
    other.close()
    assert list(frames([next(chunks)]))[0][0] == 7


def test_a_silent_stream_says_that_it_lives_and_is_ended_in_time(app, person, monkeypatch):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    for name, seconds in (("ALIVE_SECONDS", 0.1), ("LOOK_SECONDS", 0.02), ("STREAM_SECONDS_MAX", 0.5)):
        monkeypatch.setattr(live, name, seconds)
    began = time.monotonic()
    told = [event for _, event, _ in frames(listen(someone, job_id).response)]
    assert live.ALIVE.startswith(":") and "\ndata: {}\n" in live.ALIVE  # without data a browser drops an event
    assert 0.4 < time.monotonic() - began < 1.5
    assert told[0] == "progress" and 2 <= told[1:].count("alive") == len(told) - 1 <= 5
    assert not jobs.signals.listeners


def test_the_limits_of_a_stream_are_those_of_the_hosts():
    assert live.ALIVE_SECONDS <= 5 and live.TAKE_SECONDS == 15 and 45 <= live.STREAM_SECONDS_MAX < 55 and live.LOOK_SECONDS <= 1


def test_streams_have_caps_for_the_server_and_for_each_person(settings):
    app = create_app(settings(MAX_STREAMS=3, MAX_STREAMS_PER_USER=2))
    someone, other, third = (Person(app, f"{name}@example.org", 0) for name in "abc")
    ids = {who: who.submit("free").json["job"]["id"] for who in (someone, other, third)}

    def open_one(who):
        return listen(who, ids[who])  # its place is taken, whether it is read or not
    first, second = open_one(someone), open_one(someone)
    refused = open_one(someone)
    assert (refused.status_code, refused.json["code"], refused.json["per_user_max"]) == (503, "TOO_MANY_STREAMS", 2)
    assert int(refused.headers["Retry-After"]) >= 1
    kept = open_one(other)
    refused = open_one(third)
    assert (refused.status_code, refused.json["code"], refused.json["total_max"]) == (503, "TOO_MANY_STREAMS", 3)
    second.close()  # whoever leaves makes a place free
    assert open_one(third).status_code == 200
    for answer in (first, kept):
        answer.close()
    assert third.get(f"/api/jobs/{ids[third]}").status_code == 200  # polling always works


def test_streams_end_when_the_server_drains(app, person):
    someone = person()
    chunks = iter(listen(someone, someone.submit("free").json["job"]["id"]).response)
    next(chunks), next(chunks)
    jobs.signals.draining = True
    began = time.monotonic()
    assert list(chunks) == [] and time.monotonic() - began < 2
    assert not app.streams.open


def test_an_event_stored_while_the_stream_is_busy_is_told_at_once(app, person, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 60)  # nothing but the signal wakes it
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    chunks = iter(listen(someone, job_id).response)
    next(chunks), next(chunks)
    jobs.cancel(job_id, someone.id)  # while the last message is on its way out
    with gevent.Timeout(10):
        assert list(frames(chunks))[-1][1] == "done"


def test_those_who_were_cut_off_together_do_not_all_come_back_at_once(app, person):
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    asked = set()
    for _ in range(12):
        answer = listen(someone, job_id)
        asked.add(int(re.fullmatch(rb"retry: (\d+)\n\n", next(iter(answer.response)))[1]))
        answer.close()
    assert len(asked) > 3 and 1000 <= min(asked) and max(asked) <= 5000


def test_a_stream_ends_whole_when_the_file_cannot_be_read(app, person, monkeypatch):
    someone = person()
    chunks = iter(listen(someone, someone.submit("free").json["job"]["id"]).response)
    next(chunks)

    def refuse(*_):
        raise Busy()
    monkeypatch.setattr(jobs, "events", refuse)
    assert list(chunks) == [] and not app.streams.open and not jobs.signals.listeners


# ------------------------------------------------------------------------------ clients that go away

def test_a_stream_that_nobody_reads_leaves_no_place_and_no_listener(app, person):
    """The client went before the first byte; something on the way to the server failed."""
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    app.streams.keep(someone.id, live.follow(job_id, 0, str))
    assert not app.streams.open and not jobs.signals.listeners


def test_a_closed_client_is_noticed_at_the_next_look(app, person, monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    ours, theirs = socket.socketpair()
    stream = live.follow(job_id, jobs.last_event(job_id), str, ours)
    next(stream), next(stream)
    theirs.sendall(b"GET / HTTP/1.1")  # to say something early is not to leave
    with gevent.Timeout(0.3, False):
        assert next(stream, None) is not None, "it left a client that is there"
    theirs.close()
    stream = live.follow(job_id, jobs.last_event(job_id), str, ours)
    next(stream), next(stream)
    ours.recv(100)
    with gevent.Timeout(live.ALIVE_SECONDS / 2):
        assert next(stream, "over") == "over"
    assert ours.gettimeout() is None
    ours.close()


def test_a_client_that_takes_nothing_does_not_keep_its_place(app, person, monkeypatch):
    monkeypatch.setattr(live, "TAKE_SECONDS", 0.2)
    someone = person()
    job_id = someone.submit("free").json["job"]["id"]
    ours, theirs = socket.socketpair()
    stream = app.streams.keep(someone.id, live.follow(job_id, 0, lambda job: "x" * 20_000_000, ours))
    with gevent.Timeout(10), pytest.raises(TimeoutError):
        for chunk in stream:
            ours.sendall(chunk.encode())  # as the server does
    stream.close()
    assert not app.streams.open
    ours.close()
    theirs.close()


# ------------------------------------------------------------------------------------- real servers

@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One real server for what only a real one can show."""
    server = Server(tmp_path_factory.mktemp("live"), {
        "TEST_STREAM_SECONDS": "20", "MAX_STREAMS_PER_USER": "2", "DRAIN_SECONDS": "0.5", "KINDS": "sample"}).start()
    server.token = server.add_user(points=50)
    yield server
    server.stop()


def test_a_place_is_free_again_when_the_client_vanished(running):
    job_id = running.post("/api/kinds/slow/jobs", {"seconds": 50, "text": "late"}, token=running.token).json["job"]["id"]
    head = (f"GET /api/jobs/{job_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n\r\n").encode()
    connections = []
    for _ in range(2):
        connections.append(socket.create_connection(("127.0.0.1", running.port), timeout=10))
        connections[-1].sendall(head)
        assert b"retry: " in connections[-1].recv(65536) + connections[-1].recv(65536)
    assert running.get(f"/api/jobs/{job_id}/events", token=running.token).status == 503
    for connection in connections:
        connection.close()
    ends = time.monotonic() + 5
    while True:  # the next comments are written to nobody
        again = socket.create_connection(("127.0.0.1", running.port), timeout=10)
        again.sendall(head)
        status = again.recv(65536).split(b"\r\n")[0]
        again.close()
        if b" 200 " in status:
            break
        assert b" 503 " in status and time.monotonic() < ends
        time.sleep(0.05)
    running.post(f"/api/jobs/{job_id}/cancellation", token=running.token)
    running.finished(job_id, running.token)


def test_asking_for_the_head_of_a_stream_keeps_no_place(running):
    job_id = running.post("/api/kinds/free/jobs", {"seconds": 20}, token=running.token).json["job"]["id"]
    for _ in range(4):
        answer = running.request("HEAD", f"/api/jobs/{job_id}/events", token=running.token)
        assert (answer.status, answer.body) == (200, b"")
    running.post(f"/api/jobs/{job_id}/cancellation", token=running.token)
    running.finished(job_id, running.token)


def test_a_stream_tells_what_another_process_does_and_how_it_dies(server):
    """Nobody else asks: the stream itself finds out."""
    one = server()
    token = one.add_user()
    job_id = one.post("/api/kinds/slow/jobs", {"seconds": 60}, token=token).json["job"]["id"]
    while not one.rows("SELECT 1 FROM ledger_entries WHERE job_id = ?", job_id):
        time.sleep(0.02)
    other = server(KINDS="sample")
    connection = http.client.HTTPConnection("127.0.0.1", other.port, timeout=20)
    connection.request("GET", f"/api/jobs/{job_id}/events", headers={"Authorization": f"Bearer {token}"})
    stream, told = connection.getresponse(), b""
    while told.count(b"event: progress") < 3:
        told += stream.read1(65536)
    one.kill()
    while b"event: done" not in told:
        data = stream.read1(65536)
        assert data, "it ended without the end"
        told += data
    connection.close()
    last = list(frames([told]))[-1]
    assert (last[1], last[2]["status"], last[2]["money"]) == ("done", "failed", "refunded")


def test_a_real_servers_stream_is_instant_and_ends_when_it_drains(running):
    """Last of this file: it stops the server."""
    job_id = running.post("/api/kinds/slow/jobs", {"seconds": 50}, token=running.token).json["job"]["id"]
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
    connection.request("GET", f"/api/jobs/{job_id}/events", headers={"Authorization": f"Bearer {running.token}"})
    stream, told = connection.getresponse(), b""
    while b"event: progress" not in told:
        told += stream.read1(65536)
    began = time.monotonic()
    running.signal_master(signal.SIGTERM)
    while chunk := stream.read1(65536):
        told += chunk
    assert time.monotonic() - began < 5
    running.wait()
    assert time.monotonic() - began < 8
    connection.close()
    row, = running.rows("SELECT * FROM jobs WHERE id = ?", job_id)
    assert (row["status"], row["error_code"], row["settlement"]) == ("failed", "INTERRUPTED", "settled"), running.log.read_text()
