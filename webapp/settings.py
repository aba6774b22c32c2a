"""The one list of settings: name, default, unit in the name, help. Read from the environment."""
import math
import os
import re
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from webapp.errors import SettingsError

# Where a host says by a variable of its own that this is a public deployment.
_HOST_VARIABLES = ("DYNO", "RENDER", "FLY_APP_NAME", "RAILWAY_ENVIRONMENT", "K_SERVICE")
_SECRET_NAME = re.compile(r"_(KEY|TOKEN|SECRET|PASSWORD)$")  # of a setting of a kind
_WEAK_KEYS = {"dev", "changeme", "change-me", "secret", "secret-key", "secretkey", "password", "test"}
# The longest that gunicorn lets a worker finish (gunicorn.conf.py uses this same number).
GRACEFUL_TIMEOUT_SECONDS = 10
WORKER_CONNECTIONS = 1000


@dataclass(frozen=True)
class Setting:
    name: str
    default: object
    help: str
    least: float | None = None
    choices: tuple = ()
    secret: bool = False
    pattern: str = ""  # a regular expression for the whole of a text

    def parse(self, text: str):
        """The value that ``text`` stands for; raises ``SettingsError`` with what would be right."""
        told = self.name if self.secret else f"{self.name}={text!r}"
        try:
            if isinstance(self.default, bool):
                return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False,
                        "": False}[text.strip().lower()]
            if isinstance(self.default, int):
                value = int(text)
            elif isinstance(self.default, float):
                value = float(text)
            else:
                value = text.strip()
        except (KeyError, ValueError):
            wanted = "0 or 1" if isinstance(self.default, bool) else "a number"
            raise SettingsError(f"{told} is not {wanted}.") from None
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsError(f"{told} is not a number.")
        if self.least is not None and value < self.least:
            raise SettingsError(f"{told} must be at least {self.least}.")
        if self.choices and value not in self.choices:
            raise SettingsError(f"{told} must be one of {', '.join(self.choices)}.")
        if self.pattern and not re.fullmatch(self.pattern, value):
            raise SettingsError(f"{told} is not of the form {self.pattern}: it is {self.help}.")
        return value


# What a first deployment needs comes first.
SETTINGS = (
    Setting("SECRET_KEY", "", "signs cookies; made once and kept beside the database if empty", secret=True),
    Setting("DATABASE_PATH", "data/ainori.db", "the single file; its folder holds uploads/, files/, workers/"),
    Setting("SITE_NAME", "Ainori", "what the pages call this site"),
    Setting("SITE_URL", "", "where people find this site, for the links that the log and the command line give"),
    Setting("SUPPORT_CONTACT", "", "address or URL in the 'contact support' sentence"),
    Setting("REGISTRATION", "open", "whether people can make an account by themselves", choices=("open", "closed")),
    Setting("WELCOME_POINTS", 3, "granted once, at registration", least=0),
    Setting("ALERT_URLS", "", "Apprise URLs that hear of critical incidents and of interrupted work, by comma or blank",
            secret=True),
    Setting("HOST", "127.0.0.1", "address to listen on (0.0.0.0 in production)"),
    Setting("PORT", 8000, "port to listen on", least=0),
    Setting("PRODUCTION", False, "secure cookies, no new database unless allowed; 1 on known hosts"),
    Setting("ALLOW_NEW_DATABASE", False, "lets a production start create its database"),
    Setting("PROXY_HOPS", 0, "proxies in front that set X-Forwarded-For (1 in production)", least=0),
    Setting("KINDS", "comments", "built-in kinds that are on, comma-separated; may be empty"),
    Setting("EXTRA_KINDS", "", "modules that define KIND or KINDS, comma-separated"),
    Setting("WORKER_STALE_SECONDS", 30.0, "where a lock file cannot tell: a heartbeat older than this is a dead worker's", least=0.1),
    Setting("HEARTBEAT_SECONDS", 5.0, "how often a worker with work in flight says it lives", least=0.05),
    Setting("RECOVERY_INTERVAL_SECONDS", 60.0, "the recovery scheduler's tick while anything is in flight or due",
            least=0.05),
    Setting("DRAIN_SECONDS", 3.0, "what running work gets at SIGTERM or SIGINT", least=0),
    Setting("RELEASES_MAX", 10, "releases of one job by drains before an attempt is counted", least=1),
    Setting("MAX_RUNNING_JOBS", 50, "at once in this process", least=1),
    Setting("MAX_PENDING_JOBS", 1000, "waiting, before new ones get 503", least=1),
    Setting("MAX_STREAMS", 200, "live progress streams at once", least=1),
    Setting("MAX_STREAMS_PER_USER", 6, "of one person", least=1),
    Setting("MAX_UPLOAD_MB", 20, "largest upload", least=1),
    Setting("MAX_UPLOAD_ROWS", 50000, "most rows read from an upload", least=1),
    Setting("RETENTION_DAYS", 30, "results, files and events of finished work; the ledger stays for ever", least=1),
    Setting("RATE_GUEST_SUBMIT", "30/hour", "of one client address without an account"),
    Setting("RATE_SIGN_IN", "10/minute", "tries to sign in from one client address"),
    Setting("RATE_REGISTER", "5/hour", "accounts made from one client address"),
    Setting("BUSY_SECONDS", 5.0, "how long a request waits for the write lock before 503", least=0.05),
)


@dataclass
class Settings:
    """The values by lower-case name, and where each came from (``default``, ``environment``, ``.env``)."""

    values: dict
    sources: dict
    environ: dict
    from_file: dict
    _for_kinds: dict = field(default_factory=dict, repr=False)

    def __getattr__(self, name):
        try:
            return self.__dict__["values"][name.upper()]
        except KeyError:
            raise AttributeError(name) from None

    @classmethod
    def load(cls, environ=None, dotenv=None):
        """Read and check all settings; the real environment beats ``.env``.

        ``environ``: ``os.environ`` if not given. ``dotenv``: path of a ``.env`` file, or none.
        Raises ``SettingsError`` with one clear line.
        """
        environ = dict(os.environ if environ is None else environ)
        from_file = {}
        if dotenv and Path(dotenv).is_file():
            from dotenv import dotenv_values
            try:
                from_file = {name: value for name, value in dotenv_values(dotenv).items() if value is not None}
            except UnicodeDecodeError:
                raise SettingsError(f"{dotenv} is not UTF-8 text: save it as that.") from None
        merged = {**from_file, **environ}
        self = cls({}, {}, merged, from_file)
        for setting in SETTINGS:
            text = merged.get(setting.name)
            self.values[setting.name] = setting.default if text is None else setting.parse(text)
            self.sources[setting.name] = self.source(setting.name)
        self._adapt_to_host()
        self._check_relations()
        return self

    def source(self, name):
        """Where a setting, a kind's own too, is taken from: ``default``, ``environment`` or ``.env``."""
        if name not in self.environ:
            return self.sources.get(name, "default")
        # The flask command puts what .env says into the environment itself.
        return ".env" if self.from_file.get(name) == self.environ[name] else "environment"

    def _adapt_to_host(self):
        def default(name, value, source):
            if self.sources[name] == "default":
                self.values[name], self.sources[name] = value, source
        for variable in _HOST_VARIABLES:
            if self.environ.get(variable):
                default("PRODUCTION", True, f"default, since {variable} is set")
                break
        if self.production:
            default("HOST", "0.0.0.0", "default in production")
            default("PROXY_HOPS", 1, "default in production")

    def _check_relations(self):
        if self.worker_stale_seconds < 3 * self.heartbeat_seconds:
            raise SettingsError("WORKER_STALE_SECONDS must be at least 3 times HEARTBEAT_SECONDS: a busy "
                                "worker must not look dead.")
        if self.drain_seconds + 2 > GRACEFUL_TIMEOUT_SECONDS:
            raise SettingsError(f"DRAIN_SECONDS must be at most {GRACEFUL_TIMEOUT_SECONDS - 2}: gunicorn kills "
                                f"what takes longer than {GRACEFUL_TIMEOUT_SECONDS} s to stop.")
        if self.max_streams >= WORKER_CONNECTIONS:
            raise SettingsError(f"MAX_STREAMS must be under {WORKER_CONNECTIONS}, the connections of the server.")
        for name in ("RATE_GUEST_SUBMIT", "RATE_SIGN_IN", "RATE_REGISTER"):
            if not re.fullmatch(r"\s*[1-9]\d*\s*/\s*(second|minute|hour|day)s?\s*", self.values[name]):
                raise SettingsError(f"{name}={self.values[name]!r} must be like 30/hour.")
        for name in ("DATABASE_PATH", "HOST", "SITE_NAME"):
            if not self.values[name]:
                raise SettingsError(f"{name} must not be empty.")
        for n, url in enumerate(self.alert_channels(), 1):
            if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*://\S", url):  # it may hold a password: it is not shown
                raise SettingsError(f"ALERT_URLS: number {n} is no Apprise URL, like mailto://… or json://….")
        if self.site_url and not re.fullmatch(r"https?://[^/?#@\s]+/?", self.site_url):
            raise SettingsError(f"SITE_URL={self.site_url!r} must be like https://example.org, and nothing after that.")
        if self.port > 65535:
            raise SettingsError(f"PORT={self.port} must be at most 65535.")
        if self.database_path == ":memory:":
            raise SettingsError("DATABASE_PATH must be a file: points that live in memory are gone at the next restart.")
        key = self.values["SECRET_KEY"]
        if key and (key.lower() in _WEAK_KEYS or len(key) < 32):
            raise SettingsError("SECRET_KEY is too easy to guess: leave it empty (one is made and kept beside the "
                                "database) or set one of at least 32 characters.")

    def address(self, path):
        """Where a page of this site is found, for somebody at a terminal: behind a host's proxy only they, or SITE_URL,
        know its name."""
        if self.site_url:
            return self.site_url.rstrip("/") + path
        if self.production:
            return f"https://(your site){path}"
        host = "localhost" if self.host in ("127.0.0.1", "::1", "0.0.0.0", "::") else self.host
        return f"http://{host}:{self.port}{path}"

    # ------------------------------------------------------------------------------------- folders

    @property
    def folder(self) -> Path:
        """Where the database lies, absolute; ``uploads``, ``files`` and ``workers`` are beside it."""
        return Path(self.database_path).resolve().parent

    def ready_folders(self):
        for folder in (self.folder, *(self.folder / name for name in ("uploads", "files", "workers"))):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SettingsError(f"The folder {folder} cannot be created ({error.strerror}). "
                                    "Set DATABASE_PATH to where this user may write.") from error

    def signing_key(self) -> str:
        """SECRET_KEY, or the one kept beside the database with mode 0600, made at the first start."""
        if self.values["SECRET_KEY"]:
            return self.values["SECRET_KEY"]
        path = self.folder / "secret_key"
        if not path.exists():
            self._make_key(path)
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            path.chmod(0o600)
        key = path.read_text().strip()
        if len(key) < 32:
            raise SettingsError(f"{path} holds no usable key: delete it (everybody is signed out) and start again.")
        return key

    def _make_key(self, path):
        # Whole before it has its name: two processes that start at once use the same key.
        unnamed = path.with_name(f"secret_key.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(unnamed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
            try:
                os.link(unnamed, path)
            except FileExistsError:
                pass
            finally:
                unnamed.unlink()
        except OSError as error:
            raise SettingsError(f"No SECRET_KEY is set and {path} cannot be written ({error.strerror}).") from error

    # --------------------------------------------------------------------------------------- kinds

    def names(self, setting) -> list[str]:
        return [name.strip() for name in self.values[setting].split(",") if name.strip()]

    def alert_channels(self) -> list[str]:
        """The URLs of ALERT_URLS. A comma within one stays: it separates only before the next."""
        parts = re.split(r"[\s,]+(?=[A-Za-z][A-Za-z0-9+.-]*://)|\s+", self.alert_urls)
        return [url for part in parts if (url := part.strip(","))]

    def for_kind(self, kind) -> dict:
        """What the kind reads as ``job.settings``: its own settings, and the limits on uploads.

        Raises ``SettingsError``."""
        made = self._for_kinds.get(kind.name)
        if made is None:
            own = {setting.name: setting.parse(self.environ[setting.name]) if setting.name in self.environ
                   else setting.default for setting in own_settings(kind)}
            made = self._for_kinds[kind.name] = MappingProxyType({
                **own, "MAX_UPLOAD_ROWS": str(self.max_upload_rows), "MAX_UPLOAD_MB": str(self.max_upload_mb)})
        return made

    def kinds(self) -> dict:
        """The kinds that are on, with ``<KIND>_COST`` and ``<KIND>_TIMEOUT_SECONDS`` applied."""
        from dataclasses import replace

        from webapp.kinds import discover
        kinds = discover(self.names("KINDS"), self.names("EXTRA_KINDS"))
        known = {setting.name for setting in SETTINGS}
        for name, kind in kinds.items():
            own = {setting.name: setting for setting in kind_settings(kind)}
            for clash in known & (own.keys() | kind.settings.keys()):
                raise SettingsError(f"The kind {name!r} would use the setting {clash}, which means something else.")
            known |= own.keys() | kind.settings.keys()
            changes = {}
            for setting, attribute in zip(own.values(), ("cost", "timeout_seconds"), strict=True):
                if setting.name in self.environ:
                    changes[attribute] = setting.parse(self.environ[setting.name])
            if callable(kind.cost) and "cost" in changes:
                changes["cost"] = _priced(kind.cost, changes["cost"])
            kinds[name] = replace(kind, **changes)
            self.for_kind(kind)
            paid = callable(kinds[name].cost) or kinds[name].cost > 0
            if self.production and paid and not self.support_contact:
                raise SettingsError(f"The kind {name!r} costs points: set SUPPORT_CONTACT, the address people write "
                                    "to when their points cannot be confirmed.")
        return kinds


def _priced(own_cost, points):
    """A kind's own function says what costs anything; the setting says how much."""
    return lambda params: points if own_cost(params) > 0 else 0


def own_settings(kind) -> list[Setting]:
    """The settings that a kind declares itself."""
    found = []
    for name, spec in kind.settings.items():
        default, help, pattern = (*spec, "")[:3] if isinstance(spec, tuple) else ("", spec, "")
        found.append(Setting(name, default, help, least=0 if isinstance(default, int) else None, pattern=pattern,
                             secret=bool(_SECRET_NAME.search(name))))
    return found


def kind_settings(kind) -> list[Setting]:
    """The two settings every kind has."""
    prefix = kind.name.upper()
    cost = kind.cost if isinstance(kind.cost, int) else 0
    return [Setting(f"{prefix}_COST", cost, f"points that {kind.name} costs", least=0),
            Setting(f"{prefix}_TIMEOUT_SECONDS", kind.timeout_seconds, "for each attempt", least=1)]
