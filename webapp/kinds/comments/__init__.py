"""How people feel in the comments of a video, in English and Japanese: from the video's address, or from a file.

All computing happens in a child process (``python -m analysis``); here its lines are handed on.
"""
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from webapp.kinds import InputContext, JobContext, Kind, Quota, Refuse, Upload

from . import youtube
from .address import NotAVideo, video_id
from .rows import ROWS

_HERE = Path(__file__).parent
_VIDEO_COMMENTS_DEFAULT = 1_000
_ROWS_IN_MEMORY_BYTES = 1 << 20


class Params(BaseModel, extra="forbid"):
    video: str | None = Field(
        None, title="Address of a YouTube video", examples=["https://www.youtube.com/watch?v=…"],
        description="As your browser or the app’s share button gives it. Or choose a file below.",
        json_schema_extra={"ja": {
            "title": "YouTube動画のアドレス", "examples": ["https://www.youtube.com/watch?v=…"],
            "description": "ブラウザやアプリの「共有」で表示されるものを貼り付けてください。下でファイルを選ぶこともできます。"}})
    file: Upload | None = Field(
        None, validate_default=True, title="Comments file",
        description="Instead of an address: JSON, CSV, TSV or plain text with one comment a line; yt-dlp's "
                    ".info.json and saved pages of the YouTube Data API too.",
        json_schema_extra={"accept": ".json,.jsonl,.ndjson,.csv,.tsv,.txt", "ja": {
            "title": "コメントのファイル",
            "description": "アドレスの代わりに使えます。JSON・CSV・TSV、または1行に1コメントのテキスト。yt-dlpの.info.jsonや、"
                           "YouTube Data APIのページを保存したものも使えます。"}})
    max_comments: int | None = Field(
        None, ge=1, le=10_000, title="Comments at most", description="Empty: 1,000 of a video, all of a file.",
        json_schema_extra={"advanced": True, "ja": {
            "title": "コメント数の上限", "description": "空欄なら、動画は1,000件まで、ファイルはすべて。"}})
    order: Literal["relevance", "time"] = Field(
        "relevance", title="Which ones, if there are more",
        json_schema_extra={"advanced": True, "labels": {"relevance": "Most liked first", "time": "Newest first"},
                           "ja": {"title": "上限を超えるときの選び方",
                                  "labels": {"relevance": "高評価の多い順", "time": "新しい順"}}})
    include_replies: bool = Field(True, title="Include replies",
                                  json_schema_extra={"advanced": True, "ja": {"title": "返信も含める"}})
    lang: Literal["en", "ja"] | None = Field(
        None, title="Language", description="Makes no difference to a report: its page is in each reader's own language.",
        json_schema_extra={"form": False, "ja": {
            "title": "言語", "description": "レポートには影響しません。読む人それぞれの言語で表示されます。"}})

    @field_validator("video", mode="before")
    @classmethod
    def _is_a_video(cls, video):
        if not isinstance(video, str):
            return video
        if not video.strip():
            return None
        try:
            return video_id(video)
        except NotAVideo as refusal:
            # The text may hold anything, and in a template of pydantic's braces mean something.
            raise PydanticCustomError(f"video_{refusal.reason}", "{en}", refusal.message) from None

    @field_validator("file")
    @classmethod
    def _is_one_of_two(cls, file, info):
        if "video" in info.data and file is None and info.data["video"] is None:
            raise PydanticCustomError("file_missing", "Give the address of a video, or choose a file with comments.", {
                "ja": "動画のアドレスを入力するか、コメントの入ったファイルを選んでください。"})
        if file is not None and info.data.get("video") is not None:
            raise PydanticCustomError("file_and_video", "Give the address of a video or a file, not both: empty one of "
                                      "the two.", {"ja": "動画のアドレスとファイルは、どちらか一方だけにしてください。"})
        return file

    @property
    def cap(self) -> int:
        """The most comments of a video."""
        return self.max_comments or _VIDEO_COMMENTS_DEFAULT


def share_key(params: Params) -> str:
    """The same video, or the same content, with the same choices. The result holds no words of ours, so the language
    makes no difference; nor does the order where nothing is left out of a file."""
    if params.video is not None:
        return f"video:{params.video}:{params.cap}:{params.order}:{int(params.include_replies)}"
    order = params.order if params.max_comments else "-"
    return f"file:{params.file.sha256}:{params.max_comments or 'all'}:{order}:{int(params.include_replies)}"


def check(context: InputContext, params: Params) -> None:
    """Refuse at once what cannot be read or looked up, while the visitor still has the form before them."""
    if params.video is not None:
        if not context.settings["YOUTUBE_API_KEY"].strip() or youtube.key_is_refused(context.settings):
            raise youtube.not_configured()
        return
    with context.open(params.file) as file:
        answer = context.run_command(_file_command("check", file, context, params), cwd=_HERE)
    for line in answer.splitlines():
        _refuse_if_told(json.loads(line))


def unavailable(settings) -> dict:
    """Without a key no video can be looked up: said on the form, before anybody types an address."""
    if settings["YOUTUBE_API_KEY"].strip():
        told = trouble(settings)
        return {"video": told} if told else {}
    return {"video": {"en": "This site has no key for YouTube yet, so it cannot look up videos: upload a file instead.",
                      "ja": "このサイトにはYouTubeのキーがまだないため、動画を調べられません。代わりにファイルをアップロードしてください。"}}


def trouble(settings) -> dict | None:
    return youtube.not_configured().message if youtube.key_is_refused(settings) else None


def run(job: JobContext, params: Params) -> dict:
    """The report; see ``analysis.report.Report.result`` for its shape. Its rows go to the exports."""
    if params.video is not None:
        return _run_video(job, params)
    job.progress("read", 0, params.file.size)
    with job.open(params.file) as file:
        return _report(job, _file_command("report", file, job, params))


def _run_video(job, params):
    job.progress("lookup", message=_LOOKING_UP)
    fetched = youtube.fetch(job, params.video, cap=params.cap, order=params.order, replies=params.include_replies,
                            on_progress=lambda title, done, total: _progress(job, "fetch", done, total, title=title))
    if fetched.coverage["partial"]:
        job.do_not_reuse()
    about = {"source": {"format": "youtube", "video": fetched.video}, "coverage": fetched.coverage,
             "notes": fetched.notes}
    with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".jsonl") as file:
        for thread in fetched.threads:
            file.write(json.dumps({"items": [thread]}) + "\n")
            job.progress("analyse")     # thousands of long comments take a while: let others have a turn
        file.flush()
        return _report(job, _command("report", file, ".jsonl", params.cap, params, about), shows_reading=False)


def _report(job, command, shows_reading=True):
    """What the child says, handed on; see the docstring of ``analysis.__main__`` for its lines."""
    last = {}   # what it says once: columns, report, statistics
    # Rows wait as the bytes they came in: 50,000 of them as Python objects are ten times as large.
    with tempfile.SpooledTemporaryFile(_ROWS_IN_MEMORY_BYTES) as rows:
        def on_line(line):
            if line.startswith(b"["):
                rows.write(line.rstrip(b"\r\n") + b"\n")
                return
            said = json.loads(line)
            _refuse_if_told(said)
            if progress := said.pop("progress", None):
                if shows_reading or progress["stage"] != "read":
                    _progress(job, **progress)
            last.update(said)

        job.run_command(command, cwd=_HERE, on_line=on_line)
        rows.seek(0)
        job.rows(_rows(job, last["columns"], rows))
    job.save_file("statistics.json", json.dumps(last["statistics"], ensure_ascii=False).encode("utf-8", "replace"),
                  "application/json")
    return last["report"]


def _file_command(verb, file, context, params):
    # Of a file's name only its ending matters, and what somebody called it may hold characters that no command line
    # takes.
    ending = os.path.splitext(params.file.name)[1].encode("ascii", "replace").decode().replace("\0", "?")[-20:]
    return _command(verb, file, ending, int(context.settings["MAX_UPLOAD_ROWS"]), params)


def _command(verb, file, ending, rows_max, params, about=None):
    options = params.model_dump(include={"max_comments", "order", "include_replies"})
    if about:   # the child is told how many were wanted, not that the choice was left to us
        options["max_comments"] = params.cap
    # The child has another working directory.
    return [sys.executable, "-m", "analysis", verb, os.path.abspath(file.name), f"--name=file{ending}",
            f"--max-rows={rows_max}", f"--options={json.dumps(options)}",
            *([f"--about={json.dumps(about)}"] if about else [])]


def _refuse_if_told(said):
    if refusal := said.get("refusal"):
        raise Refuse(refusal["code"], refusal["message"], **refusal["facts"])


_LOOKING_UP = {"en": "Looking up the video", "ja": "動画を確認しています"}
_TITLE_CHARACTERS_SHOWN_MAX = 60
_MESSAGES = {
    "fetch": {"en": "Fetching comments of “{title}”: {done:,} of {total:,}",
              "ja": "「{title}」のコメントを取得しています: {total:,}件中{done:,}件"},
    "read": {"en": "Reading the file: {done:,} of {total:,} bytes", "ja": "ファイルを読み込んでいます: {total:,}バイト中{done:,}"},
    "analyse": {"en": "Analysing comments: {done:,} of {total:,}", "ja": "コメントを分析しています: {total:,}件中{done:,}件"},
    "summarise": {"en": "Summarising", "ja": "集計しています"},
}


def _progress(job, stage, done, total, title=""):
    if len(title) > _TITLE_CHARACTERS_SHOWN_MAX:
        title = title[:_TITLE_CHARACTERS_SHOWN_MAX - 1] + "…"
    job.progress(stage, done, total, {lang: text.format(done=done, total=total, title=title)
                                      for lang, text in _MESSAGES[stage].items()})


def _rows(job, columns, lines):
    for line in lines:
        job.progress("summarise", 1, 1)     # a batch of at most a hundred rows: let others have a turn
        for cells in json.loads(line):
            yield dict(zip(columns, cells, strict=True))


def _is_video(params):
    return params.video is not None


def _is_file(params):
    return params.file is not None


KIND = Kind(
    name="comments",
    title={"en": "Feelings in the comments", "ja": "コメント欄の気持ち"},
    noun={"en": "report", "ja": "レポート"},
    description={"en": "Give a YouTube video, or upload its comments, and see how people feel, about what, and how it "
                       "changed over time.",
                 "ja": "YouTube動画のアドレスを入力するか、コメントをアップロードすると、視聴者の気持ちと話題、その移り変わりが分かります。"},
    params=Params, run=run, check=check, unavailable=unavailable, trouble=trouble,
    stages=[("lookup", {"en": "Looking up the video", "ja": "動画の確認"}, _is_video),
            ("fetch", {"en": "Fetching comments", "ja": "コメントの取得"}, _is_video),
            ("read", {"en": "Reading the file", "ja": "ファイルの読み込み"}, _is_file),
            ("analyse", {"en": "Analysing comments", "ja": "コメントの分析"}),
            ("summarise", {"en": "Summarising", "ja": "集計"})],
    cost=0, exclusive=False, share_key=share_key, cache_seconds=6 * 3600,
    timeout_seconds=600, on_interrupt="retry", max_attempts=3,
    settings={
        "YOUTUBE_API_KEY": ("", "key of the YouTube Data API v3, as it gives it; without one only files are taken",
                            r"([A-Za-z0-9_.-]{20,100})?"),
        "YOUTUBE_API_URL": ("https://youtube.googleapis.com", "where that API is: https://host, without a path",
                            r"https?://[A-Za-z0-9.\[\]:-]+/?"),
        "YOUTUBE_UNITS_PER_DAY": (10_000, "units of that API's quota that a day may use (guests half); 0: no cap"),
    },
    quota=Quota("youtube", setting="YOUTUBE_UNITS_PER_DAY", time_zone="America/Los_Angeles", used=_is_video,
                least=2, service="YouTube"),  # the video, and a first page
    sample="sample.csv", rows=ROWS,
)
