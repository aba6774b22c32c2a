"""What the comments of a video cost of the YouTube Data API's quota, for three shapes of a video.

    python bench/youtube.py

Against a server on this machine that answers in the API's shapes (at most 100 threads a page, at most 5 replies along
with each): the numbers are of requests, one unit each, and do not depend on the machine. The shapes are made up.
"""
import sys
from pathlib import Path

from gevent import monkey

monkey.patch_all()

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.youtube import FakeYouTube, Job, Video, thread, threads  # noqa: E402
from webapp.kinds.comments import youtube  # noqa: E402

SHAPES = {
    "remarks: 6,000 threads, one in ten with 1 reply": [thread(f"t{n}", replies=int(n % 10 == 0)) for n in range(6_000)],
    "talk: 1,500 threads, one in five with 12 replies": [thread(f"t{n}", replies=12 * (n % 5 == 0)) for n in range(1_500)],
    "quarrel: 60 threads of 150 replies": threads(60, replies=150),
}
CAPS = (1_000, 10_000)


def measured(found, cap, replies):
    """``(comments, units)`` of one piece of work that finds nothing remembered."""
    with FakeYouTube() as server:
        server.videos["dQw4w9WgXcQ"] = Video(found, reported=sum(1 + one["total"] for one in found))
        fetched = youtube.fetch(Job(server), "dQw4w9WgXcQ", cap=cap, order="relevance", replies=replies,
                                on_progress=lambda *_: None)
        comments = sum(1 + len(one.get("replies", {}).get("comments", ())) for one in fetched.threads)
        assert fetched.coverage["units"] == server.units
        return comments, server.units


def main():
    print(f"{'shape of the video':50} {'replies':>8} {'at most':>8} {'comments':>9} {'units':>6} {'per 1,000':>10}")
    for shape, found in SHAPES.items():
        for replies in (True, False):
            for cap in CAPS:
                comments, units = measured(found, cap, replies)
                print(f"{shape:50} {'yes' if replies else 'no':>8} {cap:8,} {comments:9,} {units:6,} "
                      f"{units * 1_000 / comments:10.1f}")


if __name__ == "__main__":
    main()
