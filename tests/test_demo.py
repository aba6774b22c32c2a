"""``make demo``, really run: what it prints is what a visitor is told."""
import os
import re
import socket
import subprocess
import sys

from tests.server import ROOT


def run_demo(folder, *args):
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "TMPDIR": str(folder)}
    return subprocess.run([sys.executable, "-m", "webapp.demo", *args], cwd=folder, env=environ, capture_output=True,
                          text=True, timeout=120)


def test_the_demo_tells_the_truth_and_leaves_one_file(tmp_path):
    with socket.socket() as other:  # another server may run on the port of `make run`
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(("127.0.0.1", 8000))
            other.listen()
        except OSError:
            pass  # one runs there already
        done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The work was interrupted. The 1 point it had used has been returned (balance 3)." in done.stdout
    assert re.search(r"^   ja  \S", done.stdout, re.MULTILINE)
    assert re.search(r"#2 .* consume -1   balance 2\n   #3 .* refund  \+1   balance 3\n", done.stdout)
    assert int(re.search(r"From the port being open to the truth: (\d+) ms", done.stdout)[1]) < 5000
    assert re.search(r"[\d,]+ comments analysed", done.stdout) and "make run" in done.stdout
    assert "\x1b" not in done.stdout, "no colours where nobody sees them"
    assert not list(tmp_path.glob("ainori-demo-*")), "the throw-away folder is thrown away"
    page = (tmp_path / "demo-report.html").read_text()
    assert "<style" in page and not re.search(r"""(src|href)=["']?(/|https?:)""", page), "it needs no server"


def test_the_demo_takes_a_file_and_says_what_is_wrong_with_it(tmp_path):
    (tmp_path / "mine.txt").write_text("I love this so much!\nThis is terrible.\n")
    done = run_demo(tmp_path, "mine.txt")
    assert done.returncode == 0 and "2 comments analysed" in done.stdout, done.stdout + done.stderr
    (tmp_path / "picture.csv").write_bytes(bytes(range(256)) * 8)
    done = run_demo(tmp_path, "picture.csv")
    assert done.returncode == 1 and "The demo failed: " in done.stderr and "The end of the server's log" in done.stderr
    done = run_demo(tmp_path, "nowhere.csv")
    assert done.returncode == 1 and "nowhere.csv cannot be read: No such file" in done.stderr
