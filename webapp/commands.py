"""Commands that kinds run: in a process group of their own, and never outliving who asked.

A command started for a job outlives its worker's SIGKILL unless the kernel ends it: a retry would
run a second copy beside it.
"""
import ctypes
import os
import signal
from collections import deque
from contextlib import nullcontext

import gevent
from gevent import subprocess
from gevent.lock import BoundedSemaphore

from webapp.errors import Busy, CommandFailed, Refuse

_PR_SET_PDEATHSIG = 1
_STDERR_KEPT_BYTES = 4000
_LINE_BYTES_MAX = 16_000_000
# Each command is a process with memory of its own; small instances have one core.
_slots = BoundedSemaphore(max(1, min(os.cpu_count() or 1, 4)))
# Looking at an input before it is accepted is quick; it does not queue behind work that takes minutes.
_check_slots = BoundedSemaphore(2)
CHECK_WAIT_SECONDS = 10
CHECK_SECONDS_MAX = 20

try:
    _prctl = ctypes.CDLL(None, use_errno=True).prctl  # Linux
except (OSError, AttributeError):
    _prctl = None


def check(args, **options):
    """``run`` for an input that somebody waits to have accepted. Raises ``Busy`` where many do, and
    ``Refuse`` for one that takes too long to look at."""
    if not _check_slots.acquire(timeout=CHECK_WAIT_SECONDS):
        raise Busy()
    late = gevent.Timeout(CHECK_SECONDS_MAX)
    try:
        late.start()
        return run(args, slots=nullcontext(), **options)
    except gevent.Timeout as timeout:
        if timeout is not late:
            raise
        raise Refuse("TOO_SLOW_TO_READ", {
            "en": "This file takes too long to look at. Try a smaller or simpler one. Nothing was stored.",
            "ja": "このファイルは確認に時間がかかりすぎます。もっと小さいか簡単なファイルをお試しください。保存はされていません。"}) from None
    finally:
        late.close()
        _check_slots.release()


def run(args, *, on_line=None, cwd=None, input=None, slots=_slots):
    """What ``JobContext.run_command`` promises."""
    with slots:
        parent = os.getpid()

        def lead_a_group_and_die_with_the_server():
            os.setsid()
            if _prctl is not None:
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:  # it died before we asked
                    os._exit(1)
        process = subprocess.Popen(
            [str(arg) for arg in args], cwd=cwd, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lead_a_group_and_die_with_the_server)
        helpers = [gevent.spawn(_last_words, process.stderr)]
        if input is not None:
            helpers.append(gevent.spawn(_feed, process.stdin, input))
        try:
            output = _read(process.stdout, on_line)
            returncode = process.wait()
            if returncode != 0:
                _kill_group(process)  # what it left behind may hold its stderr open
                raise CommandFailed(returncode=returncode, stderr=helpers[0].get().decode("utf-8", "replace"))
            return output
        finally:
            _kill_group(process)
            gevent.killall(helpers)
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe is not None:
                    pipe.close()


def _read(pipe, on_line):
    if on_line is None:
        return pipe.read()
    for line in iter(lambda: pipe.readline(_LINE_BYTES_MAX), b""):
        on_line(line)
    return b""


def _last_words(pipe):
    kept, size = deque(), 0
    for chunk in iter(lambda: pipe.read1(4096) if hasattr(pipe, "read1") else pipe.read(4096), b""):
        kept.append(chunk)
        size += len(chunk)
        while size - len(kept[0]) > _STDERR_KEPT_BYTES:
            size -= len(kept.popleft())
    return b"".join(kept)


def _feed(pipe, data):
    try:
        pipe.write(data)
        pipe.close()
    except OSError:
        pass  # it ended without reading: its return code tells


def _kill_group(process):
    """The whole group, children of the command included, whether or not the command itself still lives."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
