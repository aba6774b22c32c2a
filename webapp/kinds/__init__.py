"""The public surface for a job kind: everything a kind's file needs, and nothing more.

A kind is one module (or package) that defines ``KIND = Kind(…)`` or ``KINDS = [Kind(…), …]``. It
imports neither Flask, gevent nor the database; what it needs comes through the ``JobContext`` that
its ``run`` is given. The form, validation, API, OpenAPI, command line and a generic result page are
made from the pydantic model of its params.
"""
import importlib
import importlib.util
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Literal, Union, get_args, get_origin
from zoneinfo import ZoneInfo

from pydantic import BaseModel

from webapp import declared
from webapp.errors import (
    AiUnavailable,
    CommandFailed,
    DailyLimit,
    InsufficientPoints,
    Refuse,
    SettingsError,
    UpstreamUnavailable,
)

__all__ = [
    "AiUnavailable", "CommandFailed", "DailyLimit", "InsufficientPoints", "JobContext", "Kind", "Quota", "Refuse",
    "Response", "Rows", "Text", "Upload", "UpstreamUnavailable", "discover", "in_language",
]

LANGUAGES = ("en", "ja")
# Either one text for all, or a text for each language.
Text = str | Mapping[str, str]
# A setting's default; what a number is, may not be less than 0.
_Default = str | bool | Annotated[int, 0] | float


def in_language(text: Text | None, lang: str) -> str:
    """The text for ``lang``; English, then any, where that language is missing."""
    if text is None or isinstance(text, str):
        return text or ""
    return text.get(lang) or text.get("en") or next(iter(text.values()), "")


class Upload(BaseModel, frozen=True):
    """A file somebody uploaded: declare a params field ``file: Upload | None``; read it with
    ``job.open(params.file)``. ``name`` is what the visitor's computer called it (never a path);
    ``size`` in bytes; ``sha256`` of the content, in hex."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Response:
    """What an upstream answered, whatever its status. ``headers``: lower-case names. ``units``: what this very call
    spent of the kind's quota; 0 where it was answered from the cache, or shared another's request. ``asked_at``: when
    this was asked for, by whomever, as ``time.time()`` has it."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    from_cache: bool = False
    units: int = 0
    asked_at: float = 0

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON; raises ``ValueError`` where it is not."""
        import json
        return json.loads(self.content)


class InputContext(ABC):
    """What a kind's ``check`` may use, before anything is stored."""

    lang: str
    settings: Mapping[str, str]

    @abstractmethod
    def open(self, upload: Upload) -> BinaryIO:
        """The uploaded file, opened for reading in binary; ``.name`` is its path."""

    @abstractmethod
    def run_command(self, args: Sequence[str], *, on_line: Callable[[bytes], None] | None = None,
                    cwd: str | Path | None = None, input: bytes | None = None) -> bytes:
        """Run a command in a process group of its own, and return what it printed.

        With ``on_line`` each line of its output is handed over as it comes, and nothing is
        returned. Killed on cancel, time-out and drain, and when this server dies. Raises
        ``CommandFailed`` if it ends with anything but 0. At most a few run at once; the others wait.
        """


class JobContext(InputContext):
    """What a running attempt may use. Every method is a place where cancel and time-out take
    effect: they stop ``run`` by raising something no ``except Exception`` catches."""

    id: str
    user_id: int
    lang: str
    attempt: int
    settings: Mapping[str, str]
    ai_available: bool

    @abstractmethod
    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        """The stored output of this step, or ``fn()``'s, stored: a retry does not repeat it.
        Returns what JSON gives back."""

    @abstractmethod
    def progress(self, stage: str, done: float | None = None, total: float | None = None,
                 message: Text | None = None) -> None:
        """Tell the user how far it is. Call it as often as you like, also to be fair to others in
        a long computation: at most four a second are stored, a new stage always."""

    @abstractmethod
    def charge(self) -> None:
        """Consume the quoted cost: once, ever, for this job. Raises ``InsufficientPoints``."""

    @abstractmethod
    def refund(self, reason: Text) -> None:
        """Return what was charged while the job goes on: paid work that brought nothing."""

    @abstractmethod
    def ai(self, prompt: str, *, data: Any, schema: type[BaseModel]) -> BaseModel:
        """The configured AI's answer, checked by ``schema``. Raises ``AiUnavailable``."""

    @abstractmethod
    def fetch(self, url: str, *, params: Mapping[str, Any] | None = None,
              headers: Mapping[str, str] | None = None, cache_seconds: float = 0,
              timeout_seconds: float = 30, max_bytes: int = 5_000_000, units: int = 0) -> Response:
        """GET with limits on time, size and redirects; the same request by several jobs at once is
        one request. Answers of any status are returned; raises ``UpstreamUnavailable``.

        ``units``: what each request that is really sent costs of the kind's quota, counted before (a redirect is one
        more); raises ``DailyLimit``, and sends no more, where today's are used up. What a failure cost is its ``units``."""

    @abstractmethod
    def quota_exhausted(self, answer: Response) -> str:
        """With this answer the service itself says that the allowance of the day on which it was asked is used up:
        until that is renewed nobody's ``fetch`` with ``units`` is sent. Returns until when (UTC, text); that is past
        where the day has ended since."""

    @abstractmethod
    def incident(self, code: str, detail: str) -> None:
        """Tell the operator what only they can mend, such as a key that is refused. Keep secrets out of ``detail``."""

    @abstractmethod
    def do_not_reuse(self) -> None:
        """This result is for those who have asked by now: whoever asks later starts anew, whatever the kind's
        ``cache_seconds``. For what is partial."""

    @abstractmethod
    def parallel(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """Run them side by side: for each name its value, or the exception it raised."""

    @abstractmethod
    def save_file(self, name: str, data: bytes, media_type: str) -> None:
        """Keep a file with the result, served under ``/api/jobs/<id>/files/<name>``."""

    @abstractmethod
    def rows(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """What the exports serve, one mapping a row; the first row's keys are the columns."""

    @abstractmethod
    def in_thread(self, fn: Callable[[], Any]) -> Any:
        """``fn()`` in a real thread of a small pool, for calls that block."""


@dataclass(frozen=True)
class Quota:
    """The daily allowance of a metered service that a kind asks. ``setting``: the name of the kind's setting, a whole
    number, that caps the units of a day (0: no cap; guests get half of it); ``time_zone``: whose midnight renews it,
    such as ``America/Los_Angeles``; ``used``: a function of params, whether work with these spends of it; ``least``:
    the units without which work cannot even begin to be of use; ``service``: what people call it."""

    name: str
    setting: str
    time_zone: str = "UTC"
    used: Callable[[Any], bool] = lambda params: True
    least: Annotated[int, 0] = 1
    service: Text | None = None


@dataclass(frozen=True)
class Rows:
    """How the rows that a kind leaves are read on their page. Everything is optional: without it the page shows every
    column as it is named, and searches in all.

    noun: what many of them are called. columns: what each is called, in the order in which a row shows them; others are
    not shown. text: the column that is read first, and alone searched. filters: for a column its choices, by the cell
    as text (``true`` and ``false`` for a bool, ``""`` for an empty one); the choices are also what such a cell says.
    orders: by name ``(title, column, descending)``; without one rows stand as they were left. query_names: what the
    address calls a column that is filtered by, where it is not the column's name.
    """

    noun: Text | None = None
    columns: Mapping[str, Text] = field(default_factory=dict)
    text: str | None = None
    filters: Mapping[str, Mapping[str, Text]] = field(default_factory=dict)
    orders: Mapping[str, tuple[Text, str, bool]] = field(default_factory=dict)
    query_names: Mapping[str, str] = field(default_factory=dict)

    EMPTY = "-"  # how an address asks for an empty cell: what a form leaves empty is no condition
    RESERVED = ("q", "order", "page")

    def query_name(self, column: str) -> str:
        return self.query_names.get(column, column)

    def problems(self) -> Iterable[str]:
        """What is wrong with it, each as the rest of a sentence about the kind."""
        used = [*([self.text] if self.text is not None else []), *self.filters, *(order[1] for order in self.orders.values())]
        for column in used if self.columns else ():
            if column not in self.columns:
                yield f"has rows that use a column {column!r} which is not among their columns."
        for column, choices in self.filters.items():
            if not choices or self.EMPTY in choices:
                yield f"has a filter of rows by {column!r} whose choices are none, or {self.EMPTY!r}."
        for column in self.query_names:
            if column not in self.filters:
                yield f"has a query name for {column!r}, by which its rows cannot be filtered."
        names = [self.query_name(column) for column in self.filters]
        for name in names:
            if name in self.RESERVED or names.count(name) > 1:
                yield f"filters its rows by {name!r}, a name that the address of their page uses otherwise."


@dataclass(frozen=True)
class Kind:
    """One kind of job. Everything but ``name``, ``params`` and ``run`` is optional.

    cost: points, or a function of params. exclusive: one in flight per user. share_key: a function
    of params; the same key joins the job in flight, and for ``cache_seconds`` its finished result.
    on_interrupt: ``fail``, or ``retry`` up to ``max_attempts``. check: called with
    ``(InputContext, params)`` before anything is stored; it may raise ``Refuse``. unavailable: a function of the
    kind's settings: for a param that this site cannot take, why; its form shows it closed. trouble: a function of the
    kind's settings: what of it does not work for now, or ``None``; the status page says it. stages: ``(name, title)``,
    or ``(name, title, function of params)`` for one that not all work passes through. settings: ``{name: help}``,
    ``{name: (default, help)}`` or ``{name: (default, help, regular expression)}``; a whole number as default takes
    whole numbers of 0 or more. sample: a file
    beside the kind's module, offered on its form to try at once; its first params field of type
    ``Upload`` takes it. labels: what the keys of its result are called on the generic result page.
    rows: how its rows are read, see ``Rows``. result_template: ``result.html`` beside the module, if there is one.
    """

    name: str
    params: type[BaseModel]
    run: Callable[[JobContext, Any], Any]
    title: Text | None = None
    noun: Text | None = None
    description: Text | None = None
    stages: Sequence[tuple[str, Text] | tuple[str, Text, Callable[[Any], bool]]] = ()
    cost: Annotated[int, 0] | Callable[[Any], int] = 0
    exclusive: bool = False
    share_key: Callable[[Any], str | None] | None = None
    cache_seconds: Annotated[int, 0] = 0
    timeout_seconds: Annotated[int, 1] = 300
    on_interrupt: Literal["fail", "retry"] = "fail"
    max_attempts: Annotated[int, 1] = 3
    settings: Mapping[str, str | tuple[_Default, str] | tuple[str, str, str]] = field(default_factory=dict)
    quota: Quota | None = None
    check: Callable[[InputContext, Any], None] | None = None
    unavailable: Callable[[Mapping[str, Any]], Mapping[str, Text]] | None = None
    trouble: Callable[[Mapping[str, Any]], Text | None] | None = None
    sample: str | None = None
    labels: Mapping[str, Text] = field(default_factory=dict)
    rows: Rows = field(default_factory=Rows)
    home: Path | None = None

    def __post_init__(self):
        for why in self._problems():
            raise SettingsError(f"The kind {self.name!r} {why}")

    def _problems(self) -> Iterable[str]:
        """What is wrong with it, each as the rest of a sentence; after the first, others may raise."""
        yield from (f"needs {problem}." for problem in declared.problems(self))
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", self.name):
            yield "needs a name of lower-case letters, digits and _ (at most 40)."
        if self.share_key is not None and self.cost != 0:
            yield "has both a cost and a share key: whoever joins would use what another paid for."
        if self.cache_seconds and self.share_key is None:
            yield "has cache_seconds but no share key."
        names = [stage[0] for stage in self.stages]
        for name in names:
            if names.count(name) > 1:
                yield f"has two stages called {name!r}: give each a name of its own."
        for name, spec in self.settings.items():
            yield from (f"has a setting {name!r} {why}" for why in _setting_problems(name, spec))
        if self.quota is not None:
            yield from self._quota_problems()
        yield from self.rows.problems()
        if self.sample is not None and self.upload_field is None:
            yield f"has a sample {self.sample!r}, but no params field of type Upload that takes it."
        if self.sample is not None and self.home is not None and not (self.home / self.sample).is_file():
            yield f"has a sample that is not there: put {self.sample!r} beside its module, in {self.home}."

    def _quota_problems(self) -> Iterable[str]:
        spec = self.settings.get(self.quota.setting)
        if not isinstance(spec, (tuple, list)) or type(spec[0]) is not int:
            yield f"has a quota whose setting {self.quota.setting!r} is not one of its settings with a whole number."
        try:
            ZoneInfo(self.quota.time_zone)
        except (KeyError, ValueError, OSError):  # unknown, no name at all, a folder of them
            yield f"has a quota in an unknown time zone {self.quota.time_zone!r}."

    @property
    def attempts_max(self) -> int:
        return self.max_attempts if self.on_interrupt == "retry" else 1

    def title_in(self, lang: str) -> str:
        return in_language(self.title, lang) or self.name.replace("_", " ").capitalize()

    def noun_in(self, lang: str) -> str:
        return in_language(self.noun, lang) or self.title_in(lang)

    def stage_in(self, stage: str | None, lang: str) -> str:
        for name, title, *_when in self.stages:
            if name == stage:
                return in_language(title, lang)
        return stage or ""

    def stages_of(self, params: Any) -> list[str]:
        """The names of the stages that work with these params passes through, in order; ``None``: of any work."""
        return [name for name, _title, *when in self.stages
                if not when or params is not None and when[0](params)]

    @property
    def upload_fields(self) -> list[str]:
        """The names of the params fields that take a file."""
        return [name for name, info in self.params.model_fields.items() if info.annotation is Upload
                or get_origin(info.annotation) in (Union, UnionType) and Upload in get_args(info.annotation)]

    @cached_property
    def upload_field(self) -> str | None:
        """The first of them: the one that a sample or ``--file`` is for."""
        return next(iter(self.upload_fields), None)

    @property
    def result_template(self) -> Path | None:
        path = self.home / "result.html" if self.home else None
        return path if path and path.is_file() else None


def _setting_problems(name: str, spec: Any) -> Iterable[str]:
    """What is wrong with one that a kind declares, each as the rest of a sentence about it."""
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        yield "whose name is not of upper-case letters, digits and _."
    if not isinstance(spec, str) and len(spec) == 3:
        try:
            if not re.fullmatch(spec[2], spec[0]) and spec[0]:
                yield f"whose default {spec[0]!r} is not of its form {spec[2]}."
        except re.error as error:
            yield f"whose form {spec[2]!r} is no regular expression: {error}."


def discover(built_in: Iterable[str], extra_modules: Iterable[str]) -> dict[str, Kind]:
    """The kinds by name: built-in ones (modules of this package) and those of other modules.

    Raises ``SettingsError``, in one line, for a module that cannot be imported, defines no kind, or a
    name that occurs twice.
    """
    from dataclasses import replace
    found: dict[str, Kind] = {}
    modules = [f"{__name__}.{name}" for name in built_in] + list(extra_modules)
    for module_name in modules:
        try:
            module = importlib.import_module(module_name)
        except SettingsError:
            raise
        except Exception as error:  # whatever its code does while it is loaded
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise SettingsError(f"The kind module {module_name!r} cannot be imported: {told}") from error
        kinds = [module.KIND] if hasattr(module, "KIND") else getattr(module, "KINDS", None)
        if not kinds or not isinstance(kinds, (list, tuple)) or not all(isinstance(kind, Kind) for kind in kinds):
            raise SettingsError(f"The module {module_name!r} defines neither KIND = Kind(…) nor KINDS = [Kind(…), …].")
        for kind in kinds:
            if kind.name in found:
                raise SettingsError(f"Two kinds are called {kind.name!r}; the second is in {module_name!r}.")
            own = f"{__name__}.{kind.name}"  # what it left in a file, and what is said of it, is of another kind
            if module_name != own and importlib.util.find_spec(own) is not None:
                raise SettingsError(f"The kind {kind.name!r} of {module_name!r} has the name of a built-in one, which is "
                                    "off: choose another name.")
            found[kind.name] = replace(kind, home=kind.home or Path(module.__file__).parent)
    return found
