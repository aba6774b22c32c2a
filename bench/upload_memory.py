"""What the largest uploads cost the child process of the kind ``comments``: seconds and peak memory.

``python bench/upload_memory.py`` makes files of about 20 MB and 50,000 comments in awkward shapes, runs
the real child on each, prints a table, and ends with 1 if one of them passes 110 MB.
"""
import csv
import functools
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1] / "webapp" / "kinds" / "comments"
ROWS = 50_000
LIMIT_MB = 110


def main():
    if sys.argv[1:2] == ["--one"]:
        return measure(*sys.argv[2:])
    worst = 0
    print(f"{'file':<24}{'MB':>6}  {'what':<8}{'seconds':>8}{'peak MB':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SHAPES.items():
            path = Path(folder, name)
            make(path)
            for verb in ("check", "report"):
                # A process of its own each: the peak of finished children only ever rises.
                line = subprocess.run([sys.executable, __file__, "--one", verb, str(path)], capture_output=True,
                                      text=True, check=True).stdout
                seconds, peak = map(float, line.split())
                worst = max(worst, peak)
                print(f"{name:<24}{path.stat().st_size / 1e6:>6.1f}  {verb:<8}{seconds:>8.2f}{peak:>9.0f}", flush=True)
    return 0 if worst < LIMIT_MB else 1


def measure(verb, path):
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "analysis", verb, path, f"--name={path}"], cwd=HOME, check=True,
                   stdout=subprocess.DEVNULL)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024      # kibibytes on Linux
    print(time.monotonic() - start, peak)
    return 0


@functools.cache
def words():
    return (HOME / "sample.csv").read_text("utf-8").split()


def sentence(chance, length):
    start = chance.randrange(len(words()) - 80)
    return " ".join(words()[start:start + 80])[:length] + " 😂"


def yt_dlp(path):
    chance = random.Random(1)
    comments = [{"id": f"Ug{n}", "parent": "root", "text": sentence(chance, 260), "like_count": n % 97,
                 "author": f"@user{n}", "author_id": f"UC{n}", "timestamp": 1_700_000_000 + n} for n in range(ROWS)]
    path.write_text(json.dumps({"extractor": "youtube", "comments": comments}, ensure_ascii=False), "utf-8")


def table(path):
    chance = random.Random(2)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "likes", "published_at", "author"])
        writer.writerows((n, sentence(chance, 370), n % 97, 1_700_000_000 + n, f"@user{n}") for n in range(ROWS))


def japanese(path):
    line = "この動画は本当に最高でした。泣きました、もう一回見ます😭"
    path.write_text("".join(f"{line * 7}{n}\n" for n in range(ROWS)), "utf-16")


def half_width(path):
    path.write_bytes(("本文\n" + ("ｽｺﾞｲ" * 97 + "です\n") * (ROWS - 1)).encode("cp932"))


def new_words(path):
    chance = random.Random(3)
    letters = str.maketrans("0123456789", "ghijklmnop")
    path.write_text("".join("love " + " ".join(f"{chance.randrange(1 << 32):x}".translate(letters) for _ in range(42))
                            + " 😂\n" for _ in range(ROWS)), "utf-8")


def emoji(path):
    path.write_text(json.dumps(["😂❤🎉👍" * 26] * ROWS, ensure_ascii=False), "utf-8")


SHAPES = {"yt-dlp.info.json": yt_dlp, "table.csv": table, "utf-16 japanese.txt": japanese,
          "cp932 half-width.csv": half_width, "never the same word.txt": new_words, "emoji.json": emoji}

if __name__ == "__main__":
    sys.exit(main())
