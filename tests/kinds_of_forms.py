"""Kinds whose params are of every type that a form can ask for, and one that gives back what it was given."""
import datetime
import decimal
import enum
import uuid
from typing import Literal

from pydantic import AwareDatetime, BaseModel, Field, HttpUrl, NaiveDatetime

from webapp.kinds import JobContext, Kind, Refuse, Upload


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Part(BaseModel):
    name: str


def in_japanese(title, **more):
    return {"ja": {"title": title, **more.pop("ja", {})}, **more}


class Everything(BaseModel, extra="forbid"):
    short: str = Field(title="Name", max_length=20, examples=["Anna"], json_schema_extra=in_japanese("名前"))
    code: str = Field("A-1", title="Code", pattern=r"^[A-Z]-[0-9]+$", description="A letter, a dash, digits.")
    long: str = Field("", title="Text", max_length=2000)
    maybe: str | None = Field("preset", title="Remark")
    whole: int = Field(3, ge=0, lt=10, multiple_of=3)
    maybe_whole: int | None = Field(7, title="Perhaps a number")
    real: float = Field(0.5, gt=0, le=2)
    exact: decimal.Decimal = Field(decimal.Decimal("1.50"), ge=1, decimal_places=2)
    ticked: bool = True
    maybe_ticked: bool | None = None
    choice: Literal["a", "b"] = Field("b", json_schema_extra=in_japanese(
        "選択", labels={"a": "First", "b": "Second"}, ja={"labels": {"a": "一番", "b": "二番"}}))
    must_choose: Literal[10, 20]
    maybe_choice: Literal["x", "y"] | None = "x"
    size: Size = Size.SMALL
    maybe_size: Size | None = None
    day: datetime.date = datetime.date(2026, 11, 30)
    clock: datetime.time | None = None
    at: datetime.datetime = datetime.datetime(2026, 11, 30, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=9)))
    aware: AwareDatetime | None = None
    naive: NaiveDatetime | None = None
    address: HttpUrl | None = None
    mail: str = Field("", json_schema_extra={"format": "email"})
    ident: uuid.UUID | None = None
    tags: list[str] = Field(["one", "two"], max_length=3, title="Tags", json_schema_extra=in_japanese("タグ"))
    numbers: list[int] | None = None
    amounts: list[decimal.Decimal] = []
    several: list[Literal["p", "q", "r"]] = Field(["q"], title="Several", json_schema_extra={"labels": {"p": "Pea"}})
    sizes: set[Size] = set()
    parts: list[Part] = []
    extra: dict[str, int] = {}
    hidden: int = Field(1, le=5, title="Rarely needed", json_schema_extra={"advanced": True})


class Sending(BaseModel):
    title: str = Field("", max_length=20, title="Title")
    tags: list[str] = Field([], max_length=2, title="Tags")
    topics: list[Literal["sea", "sky"]] = Field(["sky"], title="Topics")
    loud: bool = Field(True, title="Loud")
    level: int = Field(1, le=5, title="Level", json_schema_extra={"advanced": True})
    file: Upload = Field(title="First file", json_schema_extra={"accept": ".txt"})
    other: Upload | None = Field(None, title="Second file")


def echo(job: JobContext, params):
    return params.model_dump(mode="json")


def sent(job: JobContext, params):
    with job.open(params.file) as file:
        return {"bytes": len(file.read()), "loud": params.loud, "tags": params.tags, "topics": params.topics}


def check(context, params):
    if params.title == "refused":
        raise Refuse("NOT_THIS_FILE", {"en": "Not this file.", "ja": "このファイルは使えません。"}, field="file")


KINDS = [
    Kind(name="everything", params=Everything, run=echo),
    Kind(name="sending", params=Sending, run=sent, check=check),
    Kind(name="dear", params=Sending, run=sent, cost=3, exclusive=True),
]
