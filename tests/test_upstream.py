"""The laws of ``fetch``, each against a real server on a loopback address."""
import contextlib
import gc
import gzip
import itertools
import logging
import os
import socket
import ssl
import subprocess
import sys
import time
import traceback
import tracemalloc

import gevent
import pytest
from freezegun import freeze_time

from tests.upstreams import Answer, CannedUpstream
from webapp import upstream as upstream_module
from webapp.errors import DailyLimit, UpstreamUnavailable
from webapp.upstream import Upstream, _is_inside

SECRET = "s3cret-key"
REAL_GETADDRINFO = socket.getaddrinfo


@pytest.fixture
def server():
    with CannedUpstream() as server:
        yield server


@pytest.fixture
def upstream():
    upstream = Upstream(user_agent="Ainori-test")
    yield upstream
    assert at_rest(upstream)


def at_rest(upstream):
    """No flight is left, and no gate."""
    gevent.sleep(0.01)
    if upstream._gates:
        gc.collect()
    return not upstream._flights and not upstream._gates


def flights_alive():
    return [found for found in gc.get_objects() if type(found) is gevent.Greenlet and not found.dead
            and getattr(found._run, "__func__", None) is Upstream._fly]


def failure(upstream, url, **limits):
    """The facts of the failure; it must be one."""
    with pytest.raises(UpstreamUnavailable) as raised:
        upstream.fetch(url, **limits)
    return raised.value.facts


def reason(upstream, url, **limits):
    return failure(upstream, url, **limits)["reason"]


@pytest.fixture
def names(monkeypatch):
    """``names["a.example"] = ["127.0.0.2", "127.0.0.1"]``: the answers to its look-ups in turn, the
    last one again and again. 127.0.0.2 counts as an address on the public internet."""
    names, asked = {}, {}

    def getaddrinfo(host, *args, **kwargs):
        if host in names:
            asked[host] = asked.get(host, -1) + 1
            host = names[host][min(asked[host], len(names[host]) - 1)]
        return REAL_GETADDRINFO(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(upstream_module, "_is_inside",
                        lambda address: address != "127.0.0.2" and _is_inside(address))
    return names


# What is asked, and what is answered

def test_an_answer_of_any_status_is_returned(server, upstream):
    for status in (200, 201, 304, 403, 404, 429, 500, 503):
        body = b"" if status == 304 else b"body of %d" % status
        url = server.answer(f"/{status}", Answer(body, status, {"X-Thing": "Yes"}))
        response = upstream.fetch(url)
        assert (response.status, response.content, response.headers["x-thing"]) == (status, body, "Yes")
        assert (response.url, response.from_cache) == (url, False)


def test_params_keep_their_order_and_leave_out_none(server, upstream):
    url = server.answer("/p", Answer())
    upstream.fetch(url + "?z=0#part", params={"b": "é&", "a": [1, 2], "c": None, "d": ""})
    assert server.seen[0].query == "z=0&b=%C3%A9%26&a=1&a=2&d="


def test_our_user_agent_is_sent_unless_the_kind_has_its_own(server, upstream):
    url = server.answer("/ua", Answer())
    upstream.fetch(url)
    upstream.fetch(url, headers={"User-Agent": "kind", "Host": "elsewhere", "X-Number": 3})
    assert [seen.headers["user-agent"] for seen in server.seen] == ["Ainori-test", "kind"]
    assert server.seen[1].headers["x-number"] == "3"
    assert {seen.headers["host"] for seen in server.seen} == {f"127.0.0.1:{server.port}"}


def test_a_site_s_name_in_any_script_can_be_sent(server):
    Upstream(user_agent="Ainori/1 (相乗り\n)").fetch(server.answer("/ua", Answer()))
    assert server.seen[0].headers["user-agent"] == "Ainori/1 ()"


def test_requests_one_after_another_share_a_connection(server, upstream):
    url = server.answer("/k", Answer())
    for _ in range(3):
        upstream.fetch(url)
    assert len({seen.connection for seen in server.seen}) == 1


def test_a_connection_idle_for_long_is_not_trusted(server, upstream):
    url = server.answer("/k", Answer())
    with freeze_time("2030-01-01") as clock:
        upstream.fetch(url)
        clock.tick(30)
        upstream.fetch(url)
        clock.tick(31)
        upstream.fetch(url)
    assert [seen.connection == server.seen[0].connection for seen in server.seen] == [True, True, False]


def test_a_kept_connection_that_the_server_just_closed_is_not_a_failure(server, upstream):
    url = server.answer("/k", Answer(), Answer(raw=b""), Answer(b"again"))
    upstream.fetch(url)
    assert upstream.fetch(url).content == b"again"


def test_a_new_connection_closed_without_an_answer_is_not_asked_again(server, upstream):
    assert reason(upstream, server.answer("/k", Answer(raw=b""))) == "protocol"
    assert server.asked("/k") == 1


def test_only_http_urls_without_a_password_are_asked(upstream):
    for url in ("ftp://a.example/", "file:///etc/passwd", "a.example/x", "//a.example/", "http://", "", "http://[::1/",
                "http://a.example:99999/", "http://user:pass@127.0.0.1/", "javascript:alert(1)"):
        assert reason(upstream, url) == "refused"


# Single-flight

def test_fifty_at_once_are_one_request(server, upstream):
    url = server.answer("/s", Answer(b"shared", delay_seconds=0.1))
    callers = [gevent.spawn(upstream.fetch, url, params={"q": 1}, headers={"X": "1"}) for _ in range(50)]
    responses = [caller.get() for caller in callers]
    assert server.asked("/s") == 1
    assert {(response.content, response.from_cache) for response in responses} == {(b"shared", False)}
    assert (upstream.requests, upstream.joined, upstream.hits) == (1, 49, 0)


@pytest.mark.parametrize("difference", [
    {"params": {"b": 2, "a": 1}}, {"headers": {"Authorization": "other"}}, {"max_bytes": 10}, {"redirects_max": 0},
])
def test_requests_that_differ_do_not_share(server, upstream, difference):
    url = server.answer("/s", Answer(delay_seconds=0.05))
    same = {"params": {"a": 1, "b": 2}, "headers": {"Authorization": "one"}}
    callers = [gevent.spawn(upstream.fetch, url, **same), gevent.spawn(upstream.fetch, url, **{**same, **difference})]
    gevent.joinall(callers, raise_error=True)
    assert server.asked("/s") == 2


def test_the_same_in_other_letters_is_shared(server, upstream):
    server.answer("/s", Answer(delay_seconds=0.05))
    urls = [f"http://localhost:{server.port}/s", f"HTTP://LOCALHOST:{server.port}/x/../s#top"]
    gevent.joinall([gevent.spawn(upstream.fetch, url, headers={name: "1"})
                    for url, name in zip(urls, ("X-A", "x-a"), strict=True)], raise_error=True)
    assert server.asked("/s") == 1


def test_a_failed_leader_poisons_nobody_after_it(server, upstream):
    """The first to wake asks again while the others still wait for the failed flight."""
    url = server.answer("/s", Answer(raw=b"garbage\r\n\r\n", delay_seconds=0.05), Answer(b"well"))
    after = []

    def fail_then_ask():
        assert reason(upstream, url) == "protocol"
        after.append(upstream.fetch(url).content)

    gevent.joinall([gevent.spawn(fail_then_ask) for _ in range(5)], raise_error=True)
    assert after == [b"well"] * 5
    assert server.asked("/s") == 2
    assert upstream.failures == {"protocol": 5}


def test_each_waiter_gets_an_exception_of_its_own(server, upstream):
    url = server.answer("/s", Answer(raw=b"garbage\r\n\r\n", delay_seconds=0.05))
    caught = []

    def ask():
        try:
            upstream.fetch(url)
        except UpstreamUnavailable as error:
            caught.append(error)

    gevent.joinall([gevent.spawn(ask) for _ in range(3)])
    assert len({id(error) for error in caught}) == 3
    assert server.asked("/s") == 1
    assert all(error.__context__ is None for error in caught)


@pytest.mark.parametrize("who", ["leader", "follower"])
@pytest.mark.parametrize("how", ["killed", "killed before the flight began", "own limit", "the job's deadline"])
def test_who_leaves_early_leaves_alone(server, upstream, who, how):
    url = server.answer("/s", Answer(b"for the others", delay_seconds=0.15))

    def leave():
        with gevent.Timeout(0.05 if how == "the job's deadline" else None) as deadline:
            try:
                upstream.fetch(url, timeout_seconds=0.05 if how == "own limit" else 30)
            except gevent.Timeout as passed_through:
                assert passed_through is deadline
                return "deadline"
            except UpstreamUnavailable as error:
                return error.facts["reason"]

    order = [leave, lambda: upstream.fetch(url).content, lambda: upstream.fetch(url).content]
    callers = [gevent.spawn(ask) for ask in (order if who == "leader" else reversed(order))]
    leaver = callers[0 if who == "leader" else -1]
    if how.startswith("killed"):
        gevent.sleep(0.05 if how == "killed" else 0)
        leaver.kill()
    left_with = leaver.get()
    assert {"own limit": "timeout", "the job's deadline": "deadline"}.get(how) in (left_with, None)
    assert [caller.get() for caller in callers if caller is not leaver] == [b"for the others"] * 2
    assert server.asked("/s") == 1


def test_a_flight_without_waiters_is_abandoned(server, upstream):
    url = server.answer("/s", Answer(b"x" * 2_000, drip_seconds=0.01))
    callers = [gevent.spawn(upstream.fetch, url, cache_seconds=60) for _ in range(3)]
    gevent.sleep(0.05)
    assert len(flights_alive()) == 1
    gevent.killall(callers)
    assert at_rest(upstream)
    assert not flights_alive()
    gevent.sleep(0.05)
    assert (server.broken_off, server.parallel) == (1, 0)
    server.answer("/s", Answer(b"new"))
    assert upstream.fetch(url, cache_seconds=60).content == b"new"


def test_a_caller_stopped_before_its_flight_began_leaves_nothing_behind(server, upstream):
    url = server.answer("/s", Answer())
    caller = gevent.spawn(upstream.fetch, url)
    # Runs after the caller's first switch and before the first one of its flight.
    gevent.get_hub().loop.run_callback(caller.throw, gevent.GreenletExit)
    caller.join()
    assert at_rest(upstream)
    assert server.seen == []


def test_a_follower_may_wait_longer_than_its_leader(server, upstream):
    url = server.answer("/s", Answer(b"late", delay_seconds=0.2))
    leader = gevent.spawn(reason, upstream, url, timeout_seconds=0.1)
    follower = gevent.spawn(upstream.fetch, url, timeout_seconds=5)
    assert (leader.get(), follower.get().content) == ("timeout", b"late")


# The memory

@pytest.mark.parametrize("seconds, from_cache", [(0, True), (59, True), (60, False), (61, False)])
def test_an_answer_is_fresh_until_its_seconds_are_over(server, upstream, seconds, from_cache):
    url = server.answer("/c", Answer(b"first"), Answer(b"second"))
    with freeze_time("2030-01-01 12:00:00") as clock:
        assert upstream.fetch(url, cache_seconds=60).from_cache is False
        clock.tick(seconds)
        response = upstream.fetch(url, cache_seconds=60)
    assert (response.from_cache, response.content) == (from_cache, b"first" if from_cache else b"second")
    assert upstream.hits == from_cache


def test_who_asks_decides_how_old_is_too_old(server, upstream):
    url = server.answer("/c", Answer(b"first"), Answer(b"second"))
    with freeze_time("2030-01-01 12:00:00") as clock:
        upstream.fetch(url, cache_seconds=60)
        clock.tick(10)
        assert upstream.fetch(url, cache_seconds=11).from_cache
        assert upstream.fetch(url, cache_seconds=10).content == b"second"
        assert upstream.fetch(url, cache_seconds=0).from_cache is False
        clock.tick(5)
        assert upstream.fetch(url, cache_seconds=3_600).from_cache
        clock.tick(5)
        # Whoever stored it said ten seconds.
        assert upstream.fetch(url, cache_seconds=3_600).from_cache is False


def test_a_clock_set_back_makes_nothing_fresh(server, upstream):
    url = server.answer("/c", Answer())
    with freeze_time("2030-01-01"):
        upstream.fetch(url, cache_seconds=60)
    with freeze_time("2029-12-31"):
        assert upstream.fetch(url, cache_seconds=60).from_cache is False


@pytest.mark.parametrize("status, kept", [
    (200, True), (203, True), (404, True), (400, False), (403, False), (429, False), (500, False), (503, False)])
def test_only_success_and_not_found_are_kept(server, upstream, status, kept):
    url = server.answer("/c", Answer(b"x", status))
    upstream.fetch(url, cache_seconds=60)
    assert upstream.fetch(url, cache_seconds=60).from_cache is kept


def test_a_joiner_who_wants_it_kept_has_it_kept(server, upstream):
    url = server.answer("/c", Answer(delay_seconds=0.05))
    gevent.joinall([gevent.spawn(upstream.fetch, url, cache_seconds=seconds) for seconds in (0, 60, 0)])
    assert upstream.fetch(url, cache_seconds=60).from_cache


def test_another_caller_s_key_opens_no_stored_answer(server, upstream):
    url = server.answer("/c", Answer())
    upstream.fetch(url, headers={"Authorization": "one"}, cache_seconds=60)
    assert not upstream.fetch(url, headers={"Authorization": "two"}, cache_seconds=60).from_cache


def test_the_memory_is_bounded_and_the_least_used_leaves(server):
    upstream = Upstream(user_agent="t", cache_entries_max=3)
    urls = [server.answer(f"/{n}", Answer()) for n in range(4)]
    for url in (*urls[:3], urls[0], urls[3]):
        upstream.fetch(url, cache_seconds=60)
    assert [upstream.fetch(url, cache_seconds=60).from_cache for url in (urls[0], urls[2], urls[3])] == [True] * 3
    assert not upstream.fetch(urls[1], cache_seconds=60).from_cache


def test_the_memory_is_bounded_in_bytes(server):
    upstream = Upstream(user_agent="t", cache_bytes_max=50_000)
    urls = [server.answer(f"/{n}", Answer(b"x" * 15_000)) for n in range(6)]
    for _ in range(2):
        for url in urls:
            upstream.fetch(url, cache_seconds=60)
            assert upstream._cache._bytes <= 50_000
    assert len(upstream._cache._entries) == 3
    too_big = server.answer("/big", Answer(b"x" * 60_000))
    upstream.fetch(too_big, cache_seconds=60)
    assert not upstream.fetch(too_big, cache_seconds=60).from_cache
    assert upstream._cache._bytes == sum(entry[2] for entry in upstream._cache._entries.values())


def test_a_shared_answer_cannot_be_changed(server, upstream):
    response = upstream.fetch(server.answer("/c", Answer()))
    with pytest.raises(TypeError):
        response.headers["x"] = "y"


# Limits

@pytest.mark.parametrize("answer", [
    Answer(delay_seconds=3), Answer(b"x" * 500, drip_seconds=0.02), Answer(b"then silence", endless=b""),
], ids=["silent", "dripping", "silent in the middle"])
def test_the_time_limit_is_for_all_of_it(server, upstream, answer):
    url = server.answer("/t", answer)
    began = time.perf_counter()
    assert reason(upstream, url, timeout_seconds=0.2) == "timeout"
    assert 0.15 < time.perf_counter() - began < 1


def test_a_dripping_head_does_not_hold_us(server, upstream):
    raw = socket.create_server(("127.0.0.1", 0))

    def drip():
        client, _ = raw.accept()
        with client, contextlib.suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: yes\r\n" * 50:
                client.sendall(bytes([byte]))
                gevent.sleep(0.02)

    dripping = gevent.spawn(drip)
    with raw, gevent.Timeout(5):
        assert reason(upstream, f"http://127.0.0.1:{raw.getsockname()[1]}/", timeout_seconds=0.2) == "timeout"
        dripping.join()


def test_a_stream_that_decodes_to_nothing_ends(server, upstream):
    head, empty_block = gzip.compress(b"")[:10], b"\x00\x00\x00\xff\xff" * 2_000
    url = server.answer("/t", Answer(head, headers={"Content-Encoding": "gzip"}, endless=empty_block))
    assert reason(upstream, url, max_bytes=1_000) == "too_large"


def test_the_time_limit_holds_while_the_clock_is_frozen(server, upstream):
    url = server.answer("/t", Answer(b"x" * 500, drip_seconds=0.02))
    with gevent.Timeout(5), freeze_time("2030-01-01"):
        assert reason(upstream, url, timeout_seconds=0.1) == "timeout"


def test_a_fast_endless_body_lets_others_run(upstream):
    """From a process of its own, since a server in ours would have to let us wait; compressed, so that
    it is always faster than we are."""
    flood = ("import os, socket, zlib; s = socket.create_server(('127.0.0.1', 0)); gzip = zlib.compressobj(wbits=31)\n"
             "block = gzip.compress(os.urandom(500_000).hex().encode()) + gzip.flush(zlib.Z_FULL_FLUSH)\n"
             "print(s.getsockname()[1], flush=True); c, _ = s.accept(); c.recv(9999)\n"
             "c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Encoding: gzip\\r\\n\\r\\n' + block[:10])\n"
             "while True: c.sendall(block[10:])")
    process = subprocess.Popen([sys.executable, "-c", flood], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        with process.stdout:
            url = f"http://127.0.0.1:{int(process.stdout.readline())}/"
        caller = gevent.spawn(reason, upstream, url, max_bytes=60_000_000)
        turns = [time.perf_counter()]
        while not caller.ready():
            gevent.sleep(0)
            turns.append(time.perf_counter())
        assert caller.get() == "too_large"
        longest = max(after - before for before, after in itertools.pairwise(turns))
        assert longest < (turns[-1] - turns[0]) / 3
    finally:
        process.kill()
        process.wait()


def test_a_body_of_the_limit_is_read_and_one_byte_more_is_not(server, upstream):
    assert len(upstream.fetch(server.answer("/m", Answer(b"x" * 1_000)), max_bytes=1_000).content) == 1_000
    assert reason(upstream, server.answer("/m", Answer(b"x" * 1_001)), max_bytes=1_000) == "too_large"


def test_a_body_announced_as_too_large_is_not_waited_for(server, upstream):
    url = server.answer("/m", Answer(b"x", headers={"Content-Length": "5000001"}, endless=b""))
    assert reason(upstream, url, timeout_seconds=0.3) == "too_large"


def test_no_more_than_the_limit_is_read(server, upstream):
    url = server.answer("/m", Answer(endless=b"x" * 50_000))
    assert reason(upstream, url, max_bytes=100_000) == "too_large"
    gevent.sleep(0.05)
    assert server.broken_off == 1
    # The rest was in the buffers of two sockets.
    assert server.sent_bytes < 20_000_000


def test_a_compressed_body_is_decoded(server, upstream):
    body = os.urandom(3_000) * 40
    url = server.answer("/z", Answer(gzip.compress(body), headers={"Content-Encoding": "gzip"}))
    assert upstream.fetch(url, max_bytes=len(body)).content == body
    assert server.seen[0].headers["accept-encoding"] == "gzip"


def test_a_gzip_bomb_is_not_unpacked(server, upstream):
    bomb = gzip.compress(b"\0" * 30_000_000)
    url = server.answer("/z", Answer(bomb, headers={"Content-Encoding": "gzip"}))
    tracemalloc.start()
    try:
        assert reason(upstream, url, max_bytes=1_000_000) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 6_000_000
    finally:
        tracemalloc.stop()


def test_no_more_than_four_at_once_are_asked_of_a_host(server, upstream):
    urls = [server.answer(f"/{n}", Answer(delay_seconds=0.03)) for n in range(12)]
    gevent.joinall([gevent.spawn(upstream.fetch, url) for url in urls], raise_error=True)
    assert server.parallel_max == 4
    assert len(server.seen) == 12


def test_waiting_for_a_place_counts_as_time(server, upstream):
    slow = [server.answer(f"/{n}", Answer(delay_seconds=0.3)) for n in range(4)]
    others = [gevent.spawn(upstream.fetch, url) for url in slow]
    gevent.sleep(0.05)
    assert reason(upstream, server.answer("/last", Answer()), timeout_seconds=0.1) == "timeout"
    gevent.joinall(others, raise_error=True)
    assert server.asked("/last") == 0
    assert upstream.fetch(server.url("/last")).status == 200


def test_a_slow_host_is_in_nobody_else_s_way(server, upstream):
    callers = [gevent.spawn(upstream.fetch, server.answer(f"/{n}", Answer(delay_seconds=0.3))) for n in range(6)]
    with CannedUpstream() as other:
        gevent.sleep(0.02)
        assert upstream.fetch(other.answer("/o", Answer()), timeout_seconds=0.2).status == 200
    gevent.joinall(callers, raise_error=True)


# Named failures

def test_a_refused_connection_is_named(upstream):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        facts = failure(upstream, f"http://127.0.0.1:{taken.getsockname()[1]}/?key={SECRET}")
    assert facts == {"reason": "connect", "host": "127.0.0.1"}


def test_a_host_that_does_not_take_the_connection_is_named(upstream):
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        gevent.sleep(0.05)
        assert reason(upstream, f"http://127.0.0.1:{full.getsockname()[1]}/", connect_seconds=0.1) == "connect"


def test_an_unknown_host_is_named(upstream, names):
    names["nowhere.example"] = ["256.256.256.256"]
    assert failure(upstream, "http://nowhere.example/") == {"reason": "connect", "host": "nowhere.example"}
    assert reason(upstream, f"http://{'a' * 64}.example/") in ("connect", "refused")


def test_slow_names_count_as_connecting(upstream, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: gevent.sleep(5))
    with gevent.Timeout(1):
        assert reason(upstream, "http://slow.example/", connect_seconds=0.05) == "connect"


@pytest.mark.parametrize("addresses", [("127.0.0.9", "127.0.0.1"), ("127.0.0.1", "127.0.0.9")])
def test_any_address_of_a_host_will_do(server, upstream, monkeypatch, addresses):
    both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, server.port)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **kwargs: both if host == "two.example"
                        else REAL_GETADDRINFO(host, *args, **kwargs))
    assert upstream.fetch(server.url(host="two.example")).content == b"no such path"


@pytest.mark.parametrize("raw", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly ",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly \r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nonly \r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"cut off" * 99)[:-9],
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip at all",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"more") + b"than one",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nnot asked for",
    b"HTTP/1.1 999999 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"\x00\xff\xfe garbage", b"SSH-2.0-OpenSSH\r\n", b"",
])
def test_half_an_answer_and_garbage_are_named(server, upstream, raw):
    assert failure(upstream, server.answer("/g", Answer(raw=raw))) == {"reason": "protocol", "host": "127.0.0.1"}


def test_failures_carry_no_keys(server, upstream):
    server.answer("/g", Answer(raw=b"garbage\r\n\r\n"))
    server.answer("/loop", Answer(status=302, headers={"Location": f"/loop?key={SECRET}"}))
    server.answer("/ftp", Answer(status=302, headers={"Location": f"ftp://127.0.0.1/?key={SECRET}"}))
    server.answer("/slow", Answer(delay_seconds=1))
    server.answer("/big", Answer(b"x" * 100))
    calls = [(server.url(path), SECRET) for path in ("/g", "/loop", "/ftp", "/slow", "/big")]
    calls += [("http://127.0.0.1:1/", SECRET), (f"http://u:{SECRET}@127.0.0.1/", ""), (f"nothttp://{SECRET}/a", ""),
              (server.url("/x"), SECRET + "\nbroken"), (server.url("/x"), SECRET + "鍵")]
    for url, key in calls:
        with pytest.raises(UpstreamUnavailable) as raised:
            upstream.fetch(url, params={"key": SECRET}, headers={"Authorization": key, "X-Key": key},
                           timeout_seconds=0.2, max_bytes=50)
        error = raised.value
        told = "".join(map(str, (error, repr(error), error.facts, error.__cause__, error.__context__)))
        shown = "".join(traceback.format_exception(error))
        if not url.startswith("nothttp"):
            assert SECRET not in told + shown


def test_logs_carry_no_keys(server, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    for raw in (b"HTTP/1.1 200 OK\r\nbad header\r\n : x\r\n\r\n", b"HTTP/1.1 204 OK\r\n\r\n", b""):
        with contextlib.suppress(UpstreamUnavailable):
            upstream.fetch(server.answer("/l", Answer(raw=raw)), params={"key": SECRET}, headers={"X-Key": SECRET})
    assert SECRET not in caplog.text


# Redirects

def test_redirects_are_followed_up_to_the_limit(server, upstream):
    for n in range(5):
        server.answer(f"/{n}", Answer(status=(301, 302, 303, 307, 308)[n], headers={"Location": f"{n + 1}?n={n}#part"}))
    server.answer("/5", Answer(b"arrived"))
    response = upstream.fetch(server.url("/2"))
    assert (response.content, response.url) == (b"arrived", server.url("/5?n=4"))
    assert failure(upstream, server.url("/1")) == {"reason": "redirects", "host": "127.0.0.1"}
    assert upstream.fetch(server.url("/1"), redirects_max=4).content == b"arrived"


def test_a_redirect_loop_ends(server, upstream):
    url = server.answer("/loop", Answer(status=302, headers={"Location": "/loop"}))
    assert reason(upstream, url) == "redirects"
    assert server.asked("/loop") == 4


AWAY = Answer(status=302, headers={"Location": "/b"})
DROPPED = Answer(raw=b"")


@pytest.mark.parametrize("kept, answers, may, sent, came_of_it", [
    (False, [Answer()], 9, 1, 200),
    (False, [DROPPED, Answer()], 9, 1, "protocol"),
    (True, [DROPPED, Answer()], 9, 2, 200),
    (True, [DROPPED, DROPPED, Answer()], 9, 2, "protocol"),
    (True, [DROPPED, Answer()], 1, 1, "no more"),
    (False, [AWAY], 9, 2, 404),
    (False, [AWAY], 1, 1, "no more"),
    (False, [Answer(status=302, headers={"Location": "/a"})], 9, 4, "redirects"),
    (False, [Answer(status=302, headers={"Location": "/a"})], 3, 3, "no more"),
    (False, [Answer(status=302, headers={"Location": "ftp://127.0.0.1/"})], 9, 1, "refused"),
    (False, [AWAY], 0, 0, "no more"),
])
def test_every_request_is_admitted_before_it_is_sent(server, upstream, kept, answers, may, sent, came_of_it):
    """What is sent again, or on, is one more; refused in between, it is the last."""
    if kept:
        upstream.fetch(server.answer("/kept", Answer()))
    server.seen.clear()
    seen_at = []

    def admit():
        if len(seen_at) == may:
            raise DailyLimit()
        seen_at.append(len(server.seen))
    try:
        found = upstream.fetch(server.answer("/a", *answers), admit=admit).status
    except UpstreamUnavailable as failure:
        found = failure.facts["reason"]
    except DailyLimit:
        found = "no more"
    assert (found, len(server.seen), seen_at) == (came_of_it, sent, list(range(sent)))


@pytest.mark.parametrize("addresses", [("127.0.0.9", "127.0.0.1"), ("127.0.0.1", "127.0.0.9")])
def test_an_address_that_takes_no_connection_is_not_admitted_again(server, upstream, monkeypatch, addresses):
    monkeypatch.setattr(upstream_module, "_resolve", lambda url, seconds: addresses)
    admitted = []
    assert upstream.fetch(server.answer("/a", Answer()), admit=lambda: admitted.append(1)).status == 200
    assert len(admitted) == len(server.seen) == 1


@pytest.mark.parametrize("raised", [DailyLimit(), OSError("disk"), ValueError(), TimeoutError()])
def test_what_admit_raises_between_two_requests_is_raised_and_whoever_joined_asks_for_themselves(server, upstream, raised):
    url, mine = server.answer("/a", Answer(status=302, headers={"Location": "/b"}, delay_seconds=.1)), []

    def admit():
        mine.append(1)
        if len(mine) == 2:
            raise raised
    first = gevent.spawn(upstream.fetch, url, admit=admit)
    gevent.sleep(.02)
    second, others = gevent.spawn(upstream.fetch, server.url("/a"), admit=lambda: others.append(1)), []
    with pytest.raises(type(raised)):
        first.get()
    assert second.get().status == 404 and len(others) == 2
    assert (server.asked("/a"), server.asked("/b")) == (2, 1)


def test_a_redirect_without_a_target_is_an_answer(server, upstream):
    assert upstream.fetch(server.answer("/r", Answer(b"where?", 302))).content == b"where?"


@pytest.mark.parametrize("target", [
    "ftp://127.0.0.1/x", "file:///etc/passwd", "gopher://x/", "http://[bad/", "http://u:p@127.0.0.1/"])
def test_a_redirect_leaves_http_for_nothing(server, upstream, target):
    url = server.answer("/r", Answer(status=302, headers={"Location": target}))
    assert reason(upstream, url) == "refused"


def test_the_caller_s_headers_stay_with_the_host_they_were_meant_for(server, upstream):
    with CannedUpstream() as other:
        other.answer("/there", Answer(status=302, headers={"Location": server.url("/back")}))
        server.answer("/same", Answer(status=302, headers={"Location": "/go"}))
        server.answer("/go", Answer(status=302, headers={"Location": other.url("/there")}))
        server.answer("/back", Answer())
        keys = {"Authorization": SECRET, "Cookie": SECRET, "X-Api-Key": SECRET}
        upstream.fetch(server.url("/same"), headers=keys)
        told = [(seen.path, SECRET in seen.headers.values()) for seen in server.seen + other.seen]
        assert other.seen[0].headers["user-agent"] == "Ainori-test"
    assert told == [("/same", True), ("/go", True), ("/back", False), ("/there", False)]


@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"])
def test_a_public_host_cannot_send_us_inside(upstream, names, target):
    names["public.example"] = ["127.0.0.2"]
    with CannedUpstream("127.0.0.2") as public, CannedUpstream() as private:
        public.answer("/r", Answer(status=302, headers={"Location": private.url("/", host=target)}))
        assert reason(upstream, public.url("/r", host="public.example")) == "refused"
        assert private.seen == []


def test_a_public_host_cannot_send_us_inside_by_a_detour(upstream, names):
    names["public.example"] = ["127.0.0.2"]
    with CannedUpstream() as private, CannedUpstream("127.0.0.2") as public:
        public.answer("/r", Answer(status=302, headers={"Location": private.url("/secret")}))
        private.answer("/out", Answer(status=302, headers={"Location": public.url("/r", host="public.example")}))
        assert failure(upstream, private.url("/out")) == {"reason": "refused", "host": "127.0.0.1"}
        assert private.asked("/secret") == 0


def test_a_host_inside_may_send_us_inside(server, upstream):
    with CannedUpstream("127.0.0.3") as other:
        url = server.answer("/r", Answer(status=302, headers={"Location": other.answer("/", Answer(b"inside"))}))
        assert upstream.fetch(url).content == b"inside"


def test_a_name_that_changes_its_address_cannot_send_us_inside(upstream, names):
    names["rebind.example"] = ["127.0.0.2", "127.0.0.1"]
    with CannedUpstream("127.0.0.2") as public:
        public.answer("/r", Answer(status=302, headers={"Location": "/again"}))
        assert reason(upstream, public.url("/r", host="rebind.example")) == "refused"


def test_we_connect_to_the_address_that_was_judged(upstream, names):
    names["first.example"], names["rebind.example"] = ["127.0.0.2"], ["127.0.0.2", "127.0.0.1"]
    with CannedUpstream("127.0.0.2") as public:
        public.answer("/r", Answer(status=302, headers={"Location": public.url("/x", host="rebind.example")}))
        public.answer("/x", Answer(b"the judged one"))
        assert upstream.fetch(public.url("/r", host="first.example")).content == b"the judged one"
        assert public.seen[1].headers["host"] == f"rebind.example:{public.port}"


@pytest.mark.parametrize("address, inside", [
    ("8.8.8.8", False), ("2606:4700::1111", False), ("::ffff:8.8.8.8", False), ("64:ff9b::808:808", False),
    ("127.0.0.1", True), ("10.1.2.3", True), ("172.16.0.1", True), ("192.168.1.1", True), ("169.254.169.254", True),
    ("100.64.0.1", True), ("0.0.0.0", True), ("224.0.0.1", True), ("255.255.255.255", True), ("::1", True),
    ("::", True), ("fe80::1", True), ("fe80::1%lo", True), ("fc00::1", True), ("fec0::1", True), ("ff02::1", True),
    ("::ffff:10.0.0.1", True), ("2002:7f00:1::", True), ("64:ff9b::7f00:1", True), ("198.18.0.1", True),
])
def test_what_is_inside(address, inside):
    assert _is_inside(address) is inside


# TLS

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a certificate for ``localhost`` only."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("the openssl command is not installed")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    return context, str(cert)


def test_a_certificate_must_be_trusted_and_bear_the_name_that_was_asked(certificate, upstream, monkeypatch):
    context, cert = certificate
    with CannedUpstream(tls_context=context) as server:
        server.answer("/", Answer(b"over TLS"))
        assert reason(upstream, server.url(host="localhost")) == "connect"
        monkeypatch.setenv("SSL_CERT_FILE", cert)
        assert upstream.fetch(server.url(host="localhost")).content == b"over TLS"
        assert reason(upstream, server.url(host="127.0.0.1")) == "connect"
        assert len(server.seen) == 1


# Idle

def test_nothing_is_alive_while_idle(server, upstream):
    urls = [server.answer(f"/{n}", Answer()) for n in range(20)]
    for url in urls:
        upstream.fetch(url, cache_seconds=60)
    server.answer("/late", Answer(delay_seconds=1))
    reason(upstream, server.url("/late"), timeout_seconds=0.05)
    assert at_rest(upstream)
    assert not flights_alive()
