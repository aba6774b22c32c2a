"""Hands one message to each channel through Apprise: a process of its own, gone when it is done (see alerts.py).

Apprise takes a quarter of a second and 40 MB to load: in the server that would stall everybody, and stay.
"""
import json
import logging
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait

# A channel that has not answered by then has not taken it. Less than the parent waits.
CHANNEL_SECONDS_MAX = 15


def main():
    """Read ``{urls, message}`` from stdin (another user of the machine can read a command line); print for each
    URL whether its channel took the message, or is usable at all if there is none."""
    os.nice(10)  # the server's users come first
    order = json.load(sys.stdin)
    logging.disable()  # what Apprise says of a failure may name the URL
    import apprise
    urls = order["urls"]
    pool = ThreadPoolExecutor(max_workers=len(urls))
    calls = [pool.submit(_took, apprise, url, order["message"]) for url in urls]
    wait(calls, timeout=CHANNEL_SECONDS_MAX)
    print(json.dumps([call.done() and call.result() for call in calls]), flush=True)
    os._exit(0)  # a channel that hangs is not waited for


def _took(apprise, url, message):
    try:
        channel = apprise.Apprise()
        return bool(channel.add(url) and (message is None or channel.notify(**message)))
    except Exception:
        return False


if __name__ == "__main__":
    main()
