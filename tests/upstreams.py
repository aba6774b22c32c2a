"""A real HTTP server on a loopback address that gives canned answers and counts who asked."""
import socket
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import gevent
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer


@dataclass(frozen=True)
class Answer:
    """``drip_seconds``: between the bytes of the body. ``endless``: after the body, these bytes again
    and again until the client leaves. ``raw``: these bytes instead of all else, then the connection is
    closed."""

    body: bytes = b"ok"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0
    drip_seconds: float = 0
    endless: bytes | None = None
    raw: bytes | None = None


class Seen(NamedTuple):
    path: str
    query: str
    headers: dict[str, str]
    connection: tuple


class CannedUpstream:
    """``with CannedUpstream() as server: server.answer("/a", Answer(b"hello")); get(server.url("/a"))``.

    Several answers for a path are given in turn, the last one again and again; an unknown path is a
    404. ``seen``: what was asked, in order; ``parallel_max``: the most that were open at once;
    ``broken_off``: how many answers the client did not wait for; ``sent_bytes``: of bodies.
    """

    def __init__(self, address="127.0.0.1", tls_context=None):
        self.seen = []
        self.parallel = self.parallel_max = self.broken_off = self.sent_bytes = 0
        self._answers = {}
        self._given = Counter()
        # A pool of our own: without one, stopping the server leaves its handlers running.
        tls = {"ssl_context": tls_context} if tls_context else {}
        self._server = WSGIServer((address, 0), self._app, log=None, error_log=None, spawn=Pool(),
                                  handler_class=_Handler, **tls)
        self._scheme = "https" if tls_context else "http"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(timeout=0)

    @property
    def port(self):
        return self._server.server_port

    def url(self, path="/", host=None):
        return f"{self._scheme}://{host or self._server.server_host}:{self.port}{path}"

    def answer(self, path, *answers):
        """What ``path`` answers from now on; returns its URL."""
        self._answers[path] = answers
        self._given[path] = 0
        return self.url(path)

    def asked(self, path):
        return sum(seen.path == path for seen in self.seen)

    def _app(self, environ, start_response):
        path = environ["PATH_INFO"]
        headers = {name[5:].replace("_", "-").lower(): value
                   for name, value in environ.items() if name.startswith("HTTP_")}
        self.seen.append(Seen(path, environ["QUERY_STRING"], headers, (environ["REMOTE_ADDR"], environ["REMOTE_PORT"])))
        answer = self._chosen(path, environ["QUERY_STRING"])
        self.parallel += 1
        self.parallel_max = max(self.parallel_max, self.parallel)
        return self._body(answer, environ, start_response)

    def _chosen(self, path, query):
        answers = self._answers.get(path, (Answer(b"no such path", 404),))
        self._given[path] += 1
        return answers[min(self._given[path], len(answers)) - 1]

    def _body(self, answer, environ, start_response):
        try:
            gevent.sleep(answer.delay_seconds)
            if answer.raw is not None:
                environ["ainori.handler"].send_raw(answer.raw)
                return
            headers = dict(answer.headers)
            if answer.endless is None:
                headers.setdefault("Content-Length", str(len(answer.body)))
            start_response(f"{answer.status} Canned", list(headers.items()))
            for piece in _pieces(answer):
                self.sent_bytes += len(piece)
                yield piece
        except GeneratorExit:
            self.broken_off += 1
            raise
        finally:
            self.parallel -= 1


def _pieces(answer):
    if answer.drip_seconds:
        for byte in answer.body:
            yield bytes([byte])
            gevent.sleep(answer.drip_seconds)
    else:
        yield answer.body
    while answer.endless is not None:
        yield answer.endless
        gevent.sleep(0)


class _Handler(WSGIHandler):
    def handle(self):
        # Head and body are two writes: with Nagle's algorithm every answer takes 40 ms.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().handle()

    def get_environ(self):
        return {**super().get_environ(), "ainori.handler": self}

    def send_raw(self, data):
        self.socket.sendall(data)
        self.close_connection = True

    def log_error(self, *_):
        """A client that leaves is what these tests are about."""

    def handle_error(self, *_):
        self.close_connection = True
