"""One door for HTTP by kinds: a limit on everything, one request for all who ask the same meanwhile,
and a short memory.

A request is a *flight*: a greenlet that belongs to none of its callers. They only wait for it, each
with a time limit of its own, so whoever is cancelled or runs out of time leaves alone and the others
get their answer. When the last has left, the flight is abandoned. Between flights nothing is alive
here but idle connections.
"""
import ipaddress
import logging
import socket
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPException
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlencode, urljoin
from weakref import WeakValueDictionary

import gevent
import urllib3
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.util import Timeout, Url, parse_url

from webapp import db
from webapp.errors import UpstreamUnavailable
from webapp.kinds import Response

ADDRESSES_MAX = 3
PORTS = {"http": 80, "https": 443}
READ_BYTES = 65_536
# What compressing may add to a body that it cannot make smaller.
ENCODING_SLACK_BYTES = 65_536
# Routers forget a silent connection without telling either end: after so long we open new ones.
IDLE_SECONDS_MAX = 30
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Upstream:
    """What the kinds of one process ask other services for. Counted since its start: ``requests``
    (sent, redirects included), ``hits``, ``joined``, and ``failures`` by reason, as told to callers.
    """

    def __init__(self, *, user_agent: str, per_host_max: int = 4, cache_entries_max: int = 2_000,
                 cache_bytes_max: int = 32_000_000):
        self.requests = self.hits = self.joined = 0
        self.failures: Counter[str] = Counter()
        # A site's name may be in any script; a header that cannot be sent would fail every request.
        self._user_agent = "".join(letter for letter in user_agent if " " <= letter <= "~")
        self._per_host_max = per_host_max
        self._cache = _Cache(cache_entries_max, cache_bytes_max)
        self._flights: dict[_Call, _Flight] = {}
        # Weak: a host's gate lives only as long as a flight waits at it or holds it.
        self._gates: WeakValueDictionary[tuple, BoundedSemaphore] = WeakValueDictionary()
        self._pools = urllib3.PoolManager(num_pools=16, maxsize=per_host_max)
        self._last_landing = 0.0
        # It logs whole URLs, keys included: at DEBUG every request, at WARNING those with odd answers.
        logging.getLogger("urllib3").setLevel(logging.ERROR)

    def fetch(self, url: str, *, params: Mapping[str, Any] | None = None,
              headers: Mapping[str, str] | None = None, cache_seconds: float = 0,
              timeout_seconds: float = 30, connect_seconds: float = 5, max_bytes: int = 5_000_000,
              redirects_max: int = 3, admit: Callable[[], None] | None = None) -> Response:
        """The upstream's answer to a GET, whatever its status.

        An equal request under way is joined; an answer stored less than ``cache_seconds`` ago is
        used again (2xx and 404 are stored, nothing else). ``timeout_seconds`` limits all of it: the
        wait for a place, silence, a body that drips; ``connect_seconds`` each attempt to connect;
        ``max_bytes`` the decoded body. Params keep their order, those that are None are left out.
        ``admit``: called before each request of this call's own is sent, so again for a redirect, and where a kept
        connection broke; what it raises is raised here, and no more is sent. The first time it may take however long.
        Raises ``UpstreamUnavailable`` with ``reason`` and ``host``, never the URL: keys travel in it.
        """
        try:
            call = _Call(_with_params(_parse(url), params), _lower(headers), connect_seconds, max_bytes,
                         redirects_max)
            stored = self._cache.get(call, cache_seconds)
            if stored:
                self.hits += 1
                return stored
            outcome = self._wait(call, cache_seconds, timeout_seconds, admit)
            if not isinstance(outcome, Response):
                # An exception for each caller: a shared one would gather the tracebacks of all.
                raise UpstreamUnavailable(**outcome)
            return outcome
        except UpstreamUnavailable as failure:
            self.failures[failure.facts["reason"]] += 1
            raise

    def _wait(self, call, cache_seconds, timeout_seconds, admit):
        """A response, or the facts of a failure."""
        while flight := self._flights.get(call):
            self.joined += 1
            outcome = self._ride(flight, cache_seconds, timeout_seconds)
            if not flight.refusal:
                return outcome
            # Whoever began it was not admitted: whoever joined asks for themselves.
        flight = self._take_off(call, admit)
        outcome = self._ride(flight, cache_seconds, timeout_seconds)
        if flight.refusal:
            raise flight.refusal
        return outcome

    def _ride(self, flight, cache_seconds, timeout_seconds):
        flight.cache_seconds = max(flight.cache_seconds, cache_seconds)
        flight.waiting += 1
        try:
            flight.admitted.wait()
            # Swallows only itself: a job's own deadline, around us, passes through.
            with gevent.Timeout(timeout_seconds, False):
                return flight.greenlet.get()
            return {"reason": "timeout", "host": flight.call.url.host}
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                # Here too, because a greenlet killed before its first switch runs no ``finally``.
                self._land(flight)
                flight.greenlet.kill(block=False)

    def _take_off(self, call, admit):
        if not self._flights and time.time() - self._last_landing > IDLE_SECONDS_MAX:
            self._pools.clear()
        flight = self._flights[call] = _Flight(call, admit)
        flight.greenlet = gevent.spawn(self._fly, flight)
        return flight

    def _land(self, flight):
        if self._flights.get(flight.call) is flight:
            del self._flights[flight.call]
            self._last_landing = time.time()

    def _fly(self, flight):
        try:
            # Before it is admitted: a day that ends meanwhile is not taken for one that had begun.
            asked_at = time.time()
            flight.admit()
            response = replace(self._follow(flight), asked_at=asked_at)
            if response.status == 404 or 200 <= response.status < 300:
                self._cache.put(flight.call, response, flight.cache_seconds)
            return response
        except UpstreamUnavailable as failure:
            return failure.facts
        except _NotAdmitted:
            return None
        finally:
            # Before any waiter wakes: whoever asks from now on must not meet this failure.
            self._land(flight)

    def _follow(self, flight):
        call = flight.call
        url, headers, inside_allowed = call.url, dict(call.headers), True
        for hop in range(call.redirects_max + 1):
            addresses = _resolve(url, call.connect_seconds)
            inside = [_is_inside(address) for address in addresses]
            if any(inside) and not inside_allowed:
                raise UpstreamUnavailable(reason="refused", host=url.host)
            # Only a host that is inside itself (an operator's own choice) may send us there.
            inside_allowed = inside_allowed and all(inside)
            if hop:
                flight.admit()
            response, location = self._hop(flight, url, headers, addresses)
            if not location:
                return response
            source, url = url, _parse(location, base=url)
            # What the caller sends along (keys, cookies) is for the origin that was asked.
            if _origin(url) != _origin(source):
                headers = {}
        raise UpstreamUnavailable(reason="redirects", host=call.url.host)

    def _hop(self, flight, url, headers, addresses):
        """One request, admitted: ``(response, None)``, or ``(None, location)`` of a redirect."""
        headers = {"user-agent": self._user_agent, **headers, "accept-encoding": "gzip", "host": url.netloc}
        with self._gate(url), _failures_named(url.host):
            answer = self._ask_any(flight, url, headers, addresses)
            try:
                location = answer.get_redirect_location()
                if location:
                    return None, location
                body = _read(answer, flight.call.max_bytes, url.host)
            finally:
                # A connection whose answer was read to its end is back in its pool by now.
                answer.close()
                answer.release_conn()
        names = {name.lower(): value for name, value in answer.headers.items()}
        return Response(answer.status, MappingProxyType(names), body, url.url), None

    def _gate(self, url):
        place = url.host, _port(url)
        gate = self._gates.get(place)
        if gate is None:
            gate = self._gates[place] = BoundedSemaphore(self._per_host_max)
        return gate

    def _ask_any(self, flight, url, headers, addresses):
        for address in addresses[:-1]:
            try:
                return self._ask(flight, url, headers, address)
            except (NewConnectionError, ConnectTimeoutError):  # nothing was sent
                continue
        return self._ask(flight, url, headers, addresses[-1])

    def _ask(self, flight, url, headers, address):
        """Connects to the address that was judged, under the name that was asked for: a second
        look-up could answer something else (DNS rebinding)."""
        def ask(pool):
            self.requests += 1
            return pool.urlopen(
                "GET", url.request_uri, headers=headers, retries=False, redirect=False, preload_content=False,
                assert_same_host=False, timeout=Timeout(connect=flight.call.connect_seconds, read=None))

        place = address, _port(url), url.scheme, {"server_hostname": url.host.strip("[]")}
        pool = self._pools.connection_from_host(*place)
        opened = pool.num_connections
        try:
            return ask(pool)
        except ProtocolError:
            if pool.num_connections != opened:
                raise
        # A kept connection that the server was just closing: not the upstream's failure. It may have read the request.
        self._pools.clear()
        flight.admit()
        return ask(self._pools.connection_from_host(*place))


class _Call(NamedTuple):
    """What makes two requests the same, for a flight and for the cache: also the limits that shape
    the outcome, since a small ``max_bytes`` of one caller is not another's failure."""

    url: Url
    headers: tuple[tuple[str, str], ...]
    connect_seconds: float
    max_bytes: int
    redirects_max: int


class _NotAdmitted(Exception):
    """Ends a flight; why is its ``refusal``."""


class _Flight:
    def __init__(self, call, admit):
        self.call = call
        self.greenlet = None
        self.waiting = 0
        self.cache_seconds = 0
        self.refusal = None         # what ``admit`` raised
        self.admitted = Event()     # it has been asked, for the first time
        self._admit = admit

    def admit(self):
        """Before each request."""
        try:
            if self._admit:
                self._admit()
        except Exception as refusal:
            self.refusal = refusal
            raise _NotAdmitted from None
        finally:
            self.admitted.set()


class _Cache:
    """Answers by call: a bounded number of entries and bytes, the least recently used leaves first."""

    def __init__(self, entries_max, bytes_max):
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._entries: OrderedDict[_Call, tuple[float, float, int, Response]] = OrderedDict()
        self._bytes = 0

    def get(self, call, cache_seconds):
        """Fresh enough both for who stored it and for who asks now."""
        if call not in self._entries:
            return None
        stored_at, keep_seconds, _, response = self._entries[call]
        # A clock that was set back makes an age negative: not fresh.
        age_seconds = time.time() - stored_at
        if not 0 <= age_seconds < keep_seconds:
            self._drop(call)
            return None
        if age_seconds >= cache_seconds:
            return None
        self._entries.move_to_end(call)
        return response

    def put(self, call, response, keep_seconds):
        size = 1_000 + len(response.content) + len(response.url) + len(str(call)) + len(str(response.headers))
        if keep_seconds <= 0 or size > self._bytes_max:
            return
        self._drop(call)
        kept = replace(response, from_cache=True)
        self._entries[call] = time.time(), keep_seconds, size, kept
        self._bytes += size
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def _drop(self, call):
        if call in self._entries:
            self._bytes -= self._entries.pop(call)[2]


def _parse(url, base=None):
    """The parts of an http(s) URL, normalised, without fragment. Names and passwords in it are
    refused: they would show in ``Response.url``."""
    try:
        parsed = parse_url(urljoin(base.url, url) if base else url)._replace(fragment=None)
    except ValueError:
        parsed = Url()
    if parsed.scheme not in PORTS or not parsed.host or parsed.auth:
        raise UpstreamUnavailable(reason="refused", host=parsed.host or (base.host if base else ""))
    return parsed


def _with_params(url, params):
    more = urlencode([(name, value) for name, value in (params or {}).items() if value is not None], doseq=True)
    return url._replace(query="&".join(filter(None, (url.query, more))) or None)


def _lower(headers):
    return tuple(sorted((name.lower(), str(value)) for name, value in (headers or {}).items()))


def _port(url):
    return url.port or PORTS[url.scheme]


def _origin(url):
    return url.scheme, url.host, _port(url)


def _resolve(url, connect_seconds):
    found = []
    with gevent.Timeout(connect_seconds, False):
        try:
            found = socket.getaddrinfo(url.host.strip("[]"), _port(url), type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            pass
    if not found:
        raise UpstreamUnavailable(reason="connect", host=url.host)
    return list(dict.fromkeys(info[4][0] for info in found))[:ADDRESSES_MAX]


def _is_inside(address):
    """Not on the public internet: private, loopback, link-local, reserved, in whatever disguise."""
    ip = ipaddress.ip_address(address)
    if ip.version == 6:
        nat64 = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or nat64 or ip
    return not ip.is_global or ip.is_multicast or getattr(ip, "is_site_local", False)


@contextmanager
def _failures_named(host):
    """Turns what urllib3 raises into a reason; its own texts carry URLs and header values."""
    try:
        yield
    except ReadTimeoutError:
        reason = "timeout"
    except (NewConnectionError, ConnectTimeoutError, SSLError):
        reason = "connect"
    except (HTTPError, HTTPException, OSError, zlib.error):
        reason = "protocol"
    except ValueError:
        # A header that cannot be sent, such as a key with a line break at its end.
        reason = "refused"
    else:
        return
    raise UpstreamUnavailable(reason=reason, host=host)


def _read(answer, max_bytes, host):
    """The decoded body. Decoded here, because urllib3 goes on reading for as long as what it reads
    decodes to nothing."""
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise UpstreamUnavailable(reason="protocol", host=host)
    gunzip = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
    if not gunzip and (answer.length_remaining or 0) > max_bytes:
        raise UpstreamUnavailable(reason="too_large", host=host)
    body, turn = bytearray(), db.Turn()
    while raw := answer.read1(READ_BYTES, decode_content=False):
        if gunzip and gunzip.eof:
            raise UpstreamUnavailable(reason="protocol", host=host)
        body += gunzip.decompress(raw, max_bytes + 1 - len(body)) if gunzip else raw
        if len(body) > max_bytes or answer.tell() > max_bytes + ENCODING_SLACK_BYTES:
            raise UpstreamUnavailable(reason="too_large", host=host)
        turn.pass_on()  # a fast server never lets a read wait, and without a switch no time limit takes effect
    if gunzip and answer.tell() and (not gunzip.eof or gunzip.unused_data):
        raise UpstreamUnavailable(reason="protocol", host=host)
    return bytes(body)
