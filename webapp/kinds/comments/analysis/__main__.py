"""The child process: ``python -m analysis check|report PATH …``, so that no computation ever holds
up the server's event loop.

It answers on standard output, one ASCII JSON value a line:
``{"progress": {"stage", "done", "total"}}`` · ``{"columns": [name, …]}`` once, before ``[[…], …]``, some rows with
their cells in that order · ``{"report": …}`` · ``{"statistics": …}``, at most about 1 MB · ``{"ok": true}`` after a
check · ``{"refusal": {"code", "message", "facts"}}``.
It ends with 0 after a refusal too: anything else is a crash.
"""
import argparse
import functools
import json
import os
import secrets
import sys
import time
from datetime import datetime, timezone
from hashlib import blake2b

from .reading import Comment, Reading, Unreadable

COLUMNS = ("text", "language", "label", "score", "emotion", "likes", "published_at", "is_reply", "author",
           "asks", "times")
BATCH_ROWS = 100
BATCH_CHARACTERS = 20_000
PROGRESS_SECONDS = 0.1


def main(arguments=None):
    options = _arguments(arguments)
    try:
        os.nice(5)      # the server, on the same small machine, comes first
    except OSError:
        pass
    try:
        comments, reading = _read(options)
        if options.command == "check":
            _say({"ok": True})
        else:
            _report(comments, reading, json.loads(options.options), json.loads(options.about))
    except Unreadable as refusal:
        _say({"refusal": {"code": refusal.code, "message": refusal.message, "facts": refusal.facts}})
    sys.stdout.flush()
    return 0


def _arguments(arguments):
    parser = argparse.ArgumentParser(prog="analysis")
    parser.add_argument("command", choices=("check", "report"))
    parser.add_argument("path")
    parser.add_argument("--name", default="", help="what the file was called; only its ending counts")
    parser.add_argument("--max-rows", type=int, default=50_000)
    parser.add_argument("--options", default="{}", help="JSON: max_comments, order, include_replies; null: not applied")
    parser.add_argument("--about", default="{}",
                        help="JSON: source, coverage, notes; what is known of the comments beside the file")
    return parser.parse_args(arguments)


def _say(value):
    # ASCII: a lone surrogate, or a locale without UTF-8, must not end the process.
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")


def _progress(stage, done, total):
    _say({"progress": {"stage": stage, "done": done, "total": total}})
    sys.stdout.flush()


def _read(options):
    """All comments, with their text as UTF-8 (a str with one emoji takes four bytes a character) and
    their author as a hash whose key nobody keeps; nothing for a check."""
    key = secrets.token_bytes(16)
    reading = Reading(options.path, options.name, options.max_rows)
    comments, said = [], time.monotonic()
    for comment in reading:
        if options.command == "check":
            continue
        author = comment.author and blake2b(comment.author.encode("utf-8", "replace"), key=key, digest_size=6)
        comments.append(comment._replace(text=comment.text.encode(), author=author and author.hexdigest()))
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            _progress("read", round(reading.share_done * reading.size), reading.size)
    return comments, reading


def _report(comments, reading, options, about):
    from . import asks, moments, scoring       # here, not above: a check does without the weights
    from .report import Report
    chosen, notes = _choose(comments, reading, options)
    score = functools.lru_cache(maxsize=256)(scoring.score)     # one long text five hundred times is read once
    find = functools.lru_cache(maxsize=256)(asks.find)
    report = Report(scoring.METHOD, scoring.VERSION)
    batch, held, total = [], 0, len(chosen)
    _say({"columns": COLUMNS})
    _progress("analyse", 0, total)
    chosen.reverse()
    while chosen:
        comment = chosen.pop()      # its memory is needed for what is counted
        comment = comment._replace(text=comment.text.decode())
        scored = score(comment.text)
        asked, named = find(comment.text, scored.language), moments.named(comment.text)
        report.add(comment, scored, scoring.keywords, asked, named)
        batch.append(_row(comment, scored, asked, " ".join(map(moments.clock, named))))
        held += len(comment.text)
        if len(batch) == BATCH_ROWS or held > BATCH_CHARACTERS or not chosen:
            _say(batch)
            _progress("analyse", total - len(chosen), total)
            batch, held = [], 0
    _progress("summarise", 0, 1)
    result = report.result(*_known(reading, options, notes, about))
    _say({"report": result})
    _say({"statistics": report.statistics(result)})
    _progress("summarise", 1, 1)


def _known(reading, options, notes, about):
    """Source, options, coverage and notes as the file tells them, and then as ``about`` does."""
    return (
        {"format": reading.format, "encoding": reading.encoding, "column": reading.column, "title": reading.title,
         **about.get("source", {})},
        {name: options.get(name) for name in ("max_comments", "order", "include_replies")},
        {"reported": reading.reported if reading.reported is not None else reading.rows, "in_file": reading.rows,
         "replies_missing": reading.replies_missing, "coarse": reading.coarse, **about.get("coverage", {})},
        notes + about.get("notes", []))


def _choose(comments, reading, options):
    """``(the comments to analyse, in the file's order; what to say about the others)``; ``comments``
    itself is cut down to them."""
    notes = [{"code": f"entries_{what}", "count": count} for what, count in reading.counts.items() if count]
    if reading.repaired:
        notes.append({"code": "characters_repaired", "count": None})
    if reading.coarse:
        notes.append({"code": "times_estimated", "count": None})
    chosen = comments
    if options.get("include_replies") is False:
        chosen = [comment for comment in comments if not comment.is_reply]
        if len(chosen) < len(comments):
            notes.append({"code": "replies_left_out", "count": len(comments) - len(chosen)})
        if not chosen:
            raise Unreadable("NO_COMMENTS", "The file holds replies only. Choose to include replies.",
                             "ファイルには返信しかありません。「返信も含める」を選んでください。")
    most = options.get("max_comments")
    if most and len(chosen) > most:
        newest = options.get("order") == "time"
        by = (lambda one: -(one.at or 0)) if newest else (lambda one: -(one.likes or 0))
        # Sorting keeps the file's order among equals: without likes or dates the first ones stay.
        places = sorted(range(len(chosen)), key=lambda place: by(chosen[place]))[:most]
        notes.append({"code": "left_out_older" if newest else "left_out_less_liked", "count": len(chosen) - most})
        chosen = [chosen[place] for place in sorted(places)]
    comments[:] = chosen        # the caller's list is the same one, so that nothing keeps the others alive
    return comments, notes


def _row(comment: Comment, scored, asked, times):
    at = None
    if comment.at is not None:
        at = datetime.fromtimestamp(comment.at, timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"
    return (comment.text, scored.language, scored.label, scored.score if scored.score is None else
            round(scored.score, 4), scored.emotion, comment.likes, at, comment.is_reply, comment.author,
            asked.kind if asked else "", times)


if __name__ == "__main__":
    sys.exit(main())
