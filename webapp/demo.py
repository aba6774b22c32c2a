"""``make demo``: see it work, against a really started server on a throw-away folder.

A report on a file of comments, then a paid piece of work whose server is killed with ``kill -9`` after
the charge. Every figure printed is taken from an answer of the API. No keys, no network.
"""
import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
import unicodedata
from pathlib import Path

from webapp import ROOT
from webapp.served import Server, multipart

SAMPLE = ROOT / "webapp" / "kinds" / "comments" / "sample.csv"
REPORT = "demo-report.html"
EMAIL = "demo@example.org"
JOB_SECONDS_MAX = 600
TRUTH_SECONDS_MAX = 10
LABELS = ("positive", "neutral", "negative")


class DemoFailed(Exception):
    """What went wrong, in words."""


def main(argv=None):
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make demo", description="See it work: make demo, or make demo SAMPLE=file")
    parser.add_argument("sample", nargs="?", default=str(SAMPLE), help="a file of comments (CSV, TSV, JSON, text)")
    sample = Path(parser.parse_args(argv).sample).expanduser()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that cannot show Japanese is no reason to stop
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="ainori-demo-"))
    # Nothing that the environment or a .env says may reach out of here, or change what the demo tells.
    server = Server(folder, {"KINDS": "comments,sample", "EXTRA_KINDS": "", "SAMPLE_COST": "1", "AI_BASE_URL": "",
                             "AI_API_KEY": "", "YOUTUBE_API_KEY": "", "SUPPORT_CONTACT": ""})
    try:
        return _demo(server, sample)
    except (DemoFailed, RuntimeError, OSError, KeyError, ValueError) as error:
        what = str(error) if isinstance(error, (DemoFailed, RuntimeError, OSError)) else f"unexpected answer: {error!r}"
        print(f"\n{_style('The demo failed', 31)}: {what}", file=sys.stderr)
        if log := server.log_end():
            print(f"\nThe end of the server's log:\n{log}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _demo(server, sample):
    try:
        content = sample.read_bytes()
    except OSError as error:
        raise DemoFailed(f"{sample} cannot be read: {error.strerror}") from None
    server.start()
    _say(f"{_style('Ainori', 1)}: a real server on {server.url}, with a folder that is thrown away afterwards.")
    _heading(1, f"A report on {_plain(sample.name)}, free of charge")
    job, cookie = _report(server, sample.name, content)
    _print_report(job)
    page = server.request("GET", f"{job['links']['page']}/report.html", headers=cookie)
    if page.status != 200:
        raise DemoFailed(f"the report as a file was answered with {page.status}")
    _heading(2, "A paid piece of work, and kill -9 after the charge")
    _killed_after_the_charge(server)
    path = Path.cwd() / REPORT
    path.write_bytes(page.body)
    server.kill(signal.SIGTERM)
    _say(f"\nThe report, one file that needs no server: {_style(str(path), 1)}")
    _say(f"Try it yourself: {_style('make run', 1)}")
    return 0


# ------------------------------------------------------------------------------------- the report

def _report(server, name, content):
    """Submit the file as a visitor without an account; returns the finished job and the visitor's cookie."""
    body, headers = multipart({}, "file", name, content)
    answer = _checked(server.request("POST", "/api/kinds/comments/jobs", body, timeout=120,
                                     headers={**headers, "Accept-Language": "en"}), 202)
    job = answer.json()["job"]
    cookie = {"Cookie": answer.headers.get("Set-Cookie", "").partition(";")[0], "Accept-Language": "en"}
    _say(f"   Accepted ({answer.status}), number {job['number']}. {job['money_message']}")
    ends, shown = time.monotonic() + JOB_SECONDS_MAX, None
    while job["status"] in ("pending", "running"):
        if time.monotonic() > ends:
            raise DemoFailed(f"no report after {JOB_SECONDS_MAX} s")
        shown = _show_progress(job, shown)
        time.sleep(0.05)
        job = _job(server, job, headers=cookie)
    if job["status"] != "succeeded":
        raise DemoFailed(f"{job['error']['message']} {job['money_message']}")
    _show_progress(job, shown)
    if sys.stdout.isatty():
        _say("")
    return job, cookie


def _show_progress(job, shown):
    """On a terminal one bar that moves; elsewhere a line for each stage. Returns what is shown now."""
    if sys.stdout.isatty():
        full = round(job["progress"] * 24)
        text = f"   {'█' * full}{'░' * (24 - full)}  {_plain(job['message'])}"
        print(f"\r\x1b[K{_cut(text, _width() - 1)}", end="", flush=True)
    elif (job["status"], job["stage"]) != shown:
        _say(f"   {_plain(job['message'])}")
    return job["status"], job["stage"]


def _print_report(job):
    result = job["result"]
    coverage, polarity = result["coverage"], result["polarity"]
    _say(f"\n   {_style(_headline(result['headline']), 1)}")
    _say(f"   {coverage['analysed']:,} comments analysed, {coverage['scored']:,} of them scored; by language: "
         + ", ".join(f"{_plain(name)} {count:,}" for name, count in coverage["by_language"].items()))
    _say("")
    colours = {"positive": 32, "neutral": 37, "negative": 31}
    for label in LABELS:
        _bar(label, polarity["counts"][label], (polarity["shares"] or {}).get(label), colours[label])
    if polarity["mean"] is not None:
        interval = polarity["interval"]
        within = f" (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f})" if interval else ""
        _say(f"   mean mood {polarity['mean']:+.2f}{within}, from −1 to +1")
    emotions = [one for one in result["emotions"] if one["emotion"] != "neutral"][:5]
    if emotions:
        _say("\n   Strongest feelings")
        for one in emotions:
            _bar(one["emotion"], one["count"], one["share"], 36)
    for side in ("positive", "negative"):
        words = [_plain(one["word"]) for one in result["keywords"][side][:8]]
        if words:
            _say(f"\n   Words of the {side} ones: {', '.join(words)}")
        for example in result["examples"].get(side, [])[:1]:
            _say(_cut(f"   “{_plain(example['text'])}”", _width() - 10) + f" {example['score']:+.2f}")
    _say(f"\n   {_style(_plain(job['money_message']), 32)}")


def _headline(headline):
    count, of = f"{headline['count']:,}", f"{headline['of']:,}"
    return {
        "more_positive": f"More positive than negative: {count} of {of} scored comments are positive.",
        "more_negative": f"More negative than positive: {count} of {of} scored comments are negative.",
        "mixed": "Mixed: positive and negative comments are about as many.",
        "nothing_scored": "No comment could be scored.",
    }.get(headline["code"],
          f"{_plain(headline['code']).replace('_', ' ').capitalize()}: {count} of {of} scored comments.")


def _bar(name, count, share, colour):
    full = round((share or 0) * 40)
    percent = "" if share is None else f"{share:6.1%}"
    _say(f"   {_plain(name):<10}{count:>7,} {percent}  {_style('█' * full, colour)}")


# ------------------------------------------------------------------------------------- the kill

def _killed_after_the_charge(server):
    person = _add_person(server)
    _say(f"   flask users add {EMAIL} --points 3")
    began = time.monotonic()
    job = _checked(server.request("POST", "/api/kinds/sample/jobs", {"seconds": 3}, token=person["token"],
                                  headers={"Accept-Language": "en"}), 202).json()["job"]
    _moment(began, f"accepted, number {job['number']}; it costs {job['cost']}. {job['money_message']}")
    while job["money"] != "consumed":
        if job["status"] not in ("pending", "running") or time.monotonic() - began > 30:
            raise DemoFailed(f"the sample was not charged: {job['status']}, {job['money_message']}")
        time.sleep(0.02)
        job = _job(server, job, token=person["token"])
    _moment(began, f"{job['status']}, {job['progress']:.0%}. {job['money_message']}")
    group = server.process.pid
    server.kill()
    _moment(began, f"{_style('kill -9', 31)} to process group {group}: server and worker are dead")
    opened = server.start()
    _moment(began, "started again on the same file; the port is open")
    job, truth_ms = _truth(server, job, person, opened)
    entries = _checked(server.request("GET", "/api/points", token=person["token"]), 200).json()
    _say("\n   What the user sees now")
    for lang in ("en", "ja"):
        said = _job(server, job, token=person["token"], headers={"Accept-Language": lang})["money_message"]
        _say(f"   {lang}  {_style(_plain(said), 1)}")
    _print_ledger(job, entries)
    _say(f"\n   From the port being open to the truth: {_style(f'{truth_ms:.0f} ms', 32)}")


def _add_person(server):
    made = server.flask("users", "add", EMAIL, "--points", "3", "--json")
    if made.returncode != 0:
        raise DemoFailed(f"flask users add: {made.stdout}{made.stderr}")
    return json.loads(made.stdout)


def _truth(server, job, person, opened):
    """The job when it is known what happened, and the milliseconds that took since the port was open."""
    while True:
        job = _job(server, job, token=person["token"])
        told_ms = (time.monotonic() - opened) * 1000
        if job["status"] == "failed" and job["money"] != "checking":
            break
        if told_ms > TRUTH_SECONDS_MAX * 1000:
            raise DemoFailed(f"{TRUTH_SECONDS_MAX} s after the start it still says: {job['status']}, "
                             f"{job['money_message']}")
    if job["money"] != "refunded":
        raise DemoFailed(f"the point was charged and not returned: {job['money_message']}")
    return job, told_ms


def _print_ledger(job, points):
    lines = [entry for entry in reversed(points["entries"]) if entry["job_id"] == job["id"]]
    if [entry["kind"] for entry in lines] != ["consume", "refund"]:
        raise DemoFailed(f"the ledger should have a consume and a refund, and has {lines}")
    _say("\n   The ledger (GET /api/points)")
    for entry in lines:
        _say(f"   #{entry['id']}  {entry['created_at']}  {entry['kind']:<8}{entry['points']:+d}   "
             f"balance {entry['balance_after']}")


# ------------------------------------------------------------------------------------- asking, saying

def _job(server, job, **options):
    return _checked(server.request("GET", job["links"]["self"], **{"headers": {"Accept-Language": "en"}, **options}),
                    200).json()


def _checked(answer, status):
    if answer.status == status:
        return answer
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer.body.decode(errors="replace")[:500]
    raise DemoFailed(f"{detail} ({answer.status})")


def _say(text):
    print(text, flush=True)


def _heading(number, text):
    _say(f"\n{_style(f'{number}  {text}', 1)}\n")


def _moment(began, text):
    _say(f"   {time.monotonic() - began:5.2f} s  {text}")


def _style(text, code):
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() else text


def _width():
    return min(shutil.get_terminal_size((100, 24)).columns, 120)


def _plain(text):
    """Strangers' words, without what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in str(text))


def _cut(text, width):
    """At most so many columns; an East Asian character takes two."""
    used = 0
    for place, char in enumerate(text):
        used += 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > width:
            return text[:max(place - 1, 0)] + "…"
    return text


if __name__ == "__main__":
    sys.exit(main())
