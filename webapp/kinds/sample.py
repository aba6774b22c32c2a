"""A paid job that takes some seconds and asks nobody: to try, to demonstrate and to crash-test."""
import time

from pydantic import BaseModel, Field

from webapp.kinds import JobContext, Kind, Refuse


class Params(BaseModel, extra="forbid"):
    seconds: float = Field(3, ge=0, le=60, title="Seconds of work",
                           json_schema_extra={"ja": {"title": "処理の長さ（秒）"}})
    fail: bool = Field(False, title="Fail at the end",
                       json_schema_extra={"ja": {"title": "最後に失敗させる"}})


def run(job: JobContext, params: Params) -> dict:
    job.progress("prepare", 0, 3)
    _work(job, params, 0, 1)
    job.charge()
    job.progress("work", 1, 3)
    _work(job, params, 1, 3)
    if params.fail:
        raise Refuse("SAMPLE_FAILED", {"en": "It failed at the end, as you asked.",
                                       "ja": "ご希望どおり、最後に失敗しました。"})
    return {"seconds": params.seconds, "thirds": 3}


def _work(job, params, first, last):
    steps = max(1, round(params.seconds / 3 * (last - first) / 0.05))
    for step in range(steps):
        time.sleep(params.seconds / 3 * (last - first) / steps)
        job.progress("work" if first else "prepare", first + (last - first) * (step + 1) / steps, 3)


KIND = Kind(
    name="sample",
    title={"en": "Sample", "ja": "お試し"},
    noun={"en": "sample", "ja": "お試し"},
    description={"en": "A few seconds of pretended work that costs a point: see what happens to it when the "
                       "server stops.",
                 "ja": "1ポイントを使う数秒の模擬処理です。サーバーが止まったとき、ポイントがどうなるかを確かめられます。"},
    params=Params, run=run,
    stages=[("prepare", {"en": "Preparing", "ja": "準備"}), ("work", {"en": "Working", "ja": "処理"})],
    labels={"seconds": {"en": "Seconds of work", "ja": "処理の長さ（秒）"}, "thirds": {"en": "Thirds done", "ja": "終えた区間"}},
    cost=1, exclusive=True, timeout_seconds=120,
)
