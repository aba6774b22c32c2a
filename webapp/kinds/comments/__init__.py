"""How people feel in the comments of a video: from a file with comments, in English and Japanese.

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

from webapp.kinds import InputContext, JobContext, Kind, Refuse, Upload

_HERE = Path(__file__).parent
_ROWS_IN_MEMORY_BYTES = 1 << 20


class Params(BaseModel, extra="forbid"):
    file: Upload | None = Field(
        None, validate_default=True, title="Comments file",
        description="JSON, CSV, TSV or plain text with one comment a line; yt-dlp's .info.json and saved "
                    "pages of the YouTube Data API too.",
        json_schema_extra={"accept": ".json,.jsonl,.ndjson,.csv,.tsv,.txt", "ja": {
            "title": "コメントのファイル",
            "description": "JSON・CSV・TSV、または1行に1コメントのテキスト。yt-dlpの.info.jsonや、"
                           "YouTube Data APIのページを保存したものも使えます。"}})
    max_comments: int | None = Field(
        None, ge=1, le=10_000, title="Comments at most", description="Empty: all comments of the file.",
        json_schema_extra={"advanced": True, "ja": {"title": "コメント数の上限", "description": "空欄ならファイルのすべてのコメント。"}})
    order: Literal["relevance", "time"] = Field(
        "relevance", title="Which ones, if there are more",
        json_schema_extra={"advanced": True, "labels": {"relevance": "Most liked first", "time": "Newest first"},
                           "ja": {"title": "上限を超えるときの選び方",
                                  "labels": {"relevance": "高評価の多い順", "time": "新しい順"}}})
    include_replies: bool = Field(True, title="Include replies",
                                  json_schema_extra={"advanced": True, "ja": {"title": "返信も含める"}})
    lang: Literal["en", "ja"] | None = Field(
        None, title="Language of the report", description="Empty: yours.",
        json_schema_extra={"advanced": True, "labels": {"en": "English", "ja": "日本語"},
                           "ja": {"title": "レポートの言語", "description": "空欄なら表示中の言語。",
                                  "labels": {"en": "English", "ja": "日本語"}}})

    @field_validator("file")
    @classmethod
    def _is_there(cls, file):
        if file is None:
            raise PydanticCustomError("file_missing", "Choose a file with comments.",
                                      {"ja": "コメントの入ったファイルを選んでください。"})
        return file


def share_key(params: Params) -> str:
    """The same content with the same choices. The result holds no words of ours, so the language
    makes no difference; nor does the order where nothing is left out."""
    order = params.order if params.max_comments else "-"
    return f"file:{params.file.sha256}:{params.max_comments or 'all'}:{order}:{int(params.include_replies)}"


def check(context: InputContext, params: Params) -> None:
    """Refuse at once what cannot be read, while the visitor still has the form before them."""
    with context.open(params.file) as file:
        answer = context.run_command(_command("check", file, context, params), cwd=_HERE)
    for line in answer.splitlines():
        _refuse_if_told(json.loads(line))


def run(job: JobContext, params: Params) -> dict:
    """The report; see ``analysis.report.Report.result`` for its shape. Its rows go to the exports."""
    report = None
    # Rows wait as the bytes they came in: 50,000 of them as Python objects are ten times as large.
    with tempfile.SpooledTemporaryFile(_ROWS_IN_MEMORY_BYTES) as rows:
        def on_line(line):
            nonlocal report
            if line.startswith(b"["):
                rows.write(line.rstrip(b"\r\n") + b"\n")
                return
            said = json.loads(line)
            _refuse_if_told(said)
            if "progress" in said:
                _progress(job, **said["progress"])
            report = said.get("report", report)

        job.progress("read", 0, params.file.size)
        with job.open(params.file) as file:
            job.run_command(_command("report", file, job, params), cwd=_HERE, on_line=on_line)
        rows.seek(0)
        job.rows(_rows(job, rows))
    return report


def _command(verb, file, context, params):
    options = params.model_dump(include={"max_comments", "order", "include_replies"})
    # The child has another working directory. Of the name only its ending matters, and what somebody
    # called a file may hold characters that no command line takes.
    ending = os.path.splitext(params.file.name)[1].encode("ascii", "replace").decode().replace("\0", "?")[-20:]
    return [sys.executable, "-m", "analysis", verb, os.path.abspath(file.name), f"--name=file{ending}",
            f"--max-rows={int(context.settings['MAX_UPLOAD_ROWS'])}", f"--options={json.dumps(options)}"]


def _refuse_if_told(said):
    if refusal := said.get("refusal"):
        raise Refuse(refusal["code"], refusal["message"], **refusal["facts"])


_MESSAGES = {
    "read": {"en": "Reading the file: {done:,} of {total:,} bytes", "ja": "ファイルを読み込んでいます: {total:,}バイト中{done:,}"},
    "analyse": {"en": "Analysing comments: {done:,} of {total:,}", "ja": "コメントを分析しています: {total:,}件中{done:,}件"},
    "summarise": {"en": "Summarising", "ja": "集計しています"},
}


def _progress(job, stage, done, total):
    job.progress(stage, done, total, {lang: text.format(done=done, total=total)
                                      for lang, text in _MESSAGES[stage].items()})


def _rows(job, lines):
    columns = ("text", "language", "label", "score", "emotion", "likes", "published_at", "is_reply", "author")
    for line in lines:
        job.progress("summarise", 1, 1)     # a batch of at most a hundred rows: let others have a turn
        for cells in json.loads(line):
            yield dict(zip(columns, cells))


KIND = Kind(
    name="comments",
    title={"en": "Feelings in the comments", "ja": "コメント欄の気持ち"},
    noun={"en": "report", "ja": "レポート"},
    description={"en": "Upload the comments of a video and see how people feel, about what, and how it changed over "
                       "time.",
                 "ja": "動画のコメントをアップロードすると、視聴者の気持ちと話題、その移り変わりが分かります。"},
    params=Params, run=run, check=check,
    stages=[("read", {"en": "Reading the file", "ja": "ファイルの読み込み"}),
            ("analyse", {"en": "Analysing comments", "ja": "コメントの分析"}),
            ("summarise", {"en": "Summarising", "ja": "集計"})],
    cost=0, exclusive=False, share_key=share_key, cache_seconds=6 * 3600,
    timeout_seconds=600, on_interrupt="retry", max_attempts=3,
    sample="sample.csv",
)
