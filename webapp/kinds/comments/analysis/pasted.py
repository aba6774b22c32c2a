"""Comments that somebody selected on the video's page and pasted into a text file.

Such a text is, for each comment, the writer's handle, its age, its lines, how many like it, 'Reply' and how many
replies there are; around them stands what else the page shows.
"""
import re

from .fields import Comment, likes_of

_HANDLE = re.compile(r"@[^\s@]{1,60}")
_AGE = re.compile(r"(?:\d{1,3} ?(?:second|minute|hour|day|week|month|year)s? ago|\d{1,3} ?(?:秒|分|時間|日|週間|か月|ヶ月|カ月|年)前)"
                  r"(?: ?[(（](?:edited|編集済み)[)）])?")
_BUTTONS = re.compile(r"Reply|\d{1,6} repl(?:y|ies)|Read more|Show less|Translate to .{1,30}|Pinned by .{1,60}|"
                      r"返信|\d{1,6} ?件の返信|続きを読む|一部を表示|.{1,30}に翻訳|.{1,60}さんによって固定されています")
_COUNT = re.compile(r"\d[\d.,]{0,8} ?[KM千万]?")


def looks_pasted(start):
    """Whether handles with an age below stand there twice: once may be in a comment."""
    lines = [line.strip() for line in start.splitlines() if line.strip()]
    return sum(_begins(*pair) for pair in zip(lines, lines[1:])) > 1


def pasted(lines):
    """The comments of such lines. Their ages are passed over: when the page was copied is not known."""
    handle, body, before = None, [], None
    for line in lines:
        line = line.strip()
        if not line:
            continue
        if before is not None and _begins(before, line):
            if handle:
                yield _comment(handle, body)
            handle, body, before = before, [], None
            continue
        if before is not None:
            body.append(before)
        before = line
        if not handle:
            body.clear()        # the page's head
    if handle:
        yield _comment(handle, [*body, before] if before is not None else body)


def _begins(handle, age):
    return bool(_HANDLE.fullmatch(handle) and _AGE.fullmatch(age))


def _comment(handle, body):
    likes = None
    while len(body) > 1 and (_BUTTONS.fullmatch(body[-1]) or likes is None and _COUNT.fullmatch(body[-1])):
        last = body.pop()
        if not _BUTTONS.fullmatch(last):
            likes = likes_of(last)
    return Comment("\n".join(body), likes, author=handle)
