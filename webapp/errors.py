"""Every refusal, one class each, carrying its facts.

A refusal says what was refused, never how it is shown: the HTTP status is the one map in
``webapp/__init__.py``, the sentence in the viewer's language is made in ``webapp/messages.py``.
"""
import errno


class AinoriError(Exception):
    """The base of all that this application refuses. ``code`` is stable; ``facts`` are JSON values."""

    code = "INTERNAL_ERROR"

    def __init__(self, **facts):
        self.facts = facts
        super().__init__(self.code, facts)

    def __str__(self):
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
        return f"{self.code} ({facts})" if facts else self.code


class SettingsError(AinoriError):
    """A setting or a kind's declaration is unusable: the start stops with this one line."""

    code = "BAD_SETTING"

    def __init__(self, line):
        super().__init__(line=line)

    def __str__(self):
        return self.facts["line"]


class InvalidInput(AinoriError):
    """``errors``: a list of ``{"field", "message"}``; the message is a text or a dict by language."""

    code = "INVALID_INPUT"

    def __init__(self, errors):
        super().__init__(errors=errors)


class Refuse(AinoriError):
    """A job kind's own refusal. ``message`` is a text, or a dict by language ``{"en": …, "ja": …}``.

    Raised while the job runs it ends the job with this reason; raised by the kind's ``check`` it
    refuses the request, and nothing is stored.
    """

    def __init__(self, code, message, **facts):
        self.code = code
        self.message = message
        super().__init__(**facts)


class TextTooLarge(AinoriError):
    """More text was sent than is taken; there is no file to blame."""

    code = "TEXT_TOO_LARGE"


class KindFailed(AinoriError):
    """A function of the kind's own failed before anything was stored; an incident tells the operator."""

    code = "KIND_FAILED"


class UnknownKind(AinoriError):
    code = "UNKNOWN_KIND"


class NotFound(AinoriError):
    code = "NOT_FOUND"


class LoginRequired(AinoriError):
    code = "LOGIN_REQUIRED"


class BadToken(AinoriError):
    code = "BAD_TOKEN"


class TokenRequired(AinoriError):
    """Only a bearer token will do here: no session, no guest."""

    code = "TOKEN_REQUIRED"


class AdminsOnly(AinoriError):
    code = "ADMINS_ONLY"


class SessionRequired(AinoriError):
    """Done by whoever is signed in on a page, not by an access token."""

    code = "SESSION_REQUIRED"


class RegistrationClosed(AinoriError):
    code = "REGISTRATION_CLOSED"


class LinkExpired(AinoriError):
    """A one-time link was used, replaced, or is too old."""

    code = "LINK_EXPIRED"


class AdminExists(AinoriError):
    """The first operator is there already: this link makes no other."""

    code = "ADMIN_EXISTS"


class BadCsrfToken(AinoriError):
    code = "CSRF"


class InsufficientPoints(AinoriError):
    """``cost``, ``balance`` (available: not already promised to work in flight) and ``missing``, in points."""

    code = "INSUFFICIENT_POINTS"

    def __init__(self, cost, balance):
        super().__init__(cost=cost, balance=balance, missing=cost - balance)


class StatementMoved(AinoriError):
    """Something was booked since the page was opened that this was decided on: nothing is booked twice."""

    code = "STATEMENT_MOVED"


class LastAdmin(AinoriError):
    """Somebody must be the operator."""

    code = "LAST_ADMIN"


class PriceDiffers(AinoriError):
    """What this costs now, ``cost``, is not what the page had shown: nobody pays a price unseen."""

    code = "PRICE_DIFFERS"


class MoneyDiffers(AinoriError):
    """What happened to the points is not what the page had shown that was cancelled on: ``money`` now, and ``cost``."""

    code = "MONEY_DIFFERS"


class JobInFlight(AinoriError):
    """``job_id``: the one in the way."""

    code = "JOB_IN_FLIGHT"


class AlreadyFinal(AinoriError):
    code = "ALREADY_FINAL"


class NotRetryable(AinoriError):
    """Only a failed job whose input is still there can be tried again. ``reason``: a code."""

    code = "NOT_RETRYABLE"


class IdempotencyKeyReused(AinoriError):
    code = "IDEMPOTENCY_KEY_REUSED"


class FileTooLarge(AinoriError):
    """``limit_mb``; ``field``, where it is one of a form's."""

    code = "FILE_TOO_LARGE"


class UnsupportedMediaType(AinoriError):
    code = "UNSUPPORTED_MEDIA_TYPE"


class RateLimited(AinoriError):
    """``retry_after_seconds``."""

    code = "RATE_LIMITED"


class Busy(AinoriError):
    """Another program holds the database's write lock: nothing was stored."""

    code = "BUSY"


class QueueFull(AinoriError):
    code = "QUEUE_FULL"


class TooManyStreams(AinoriError):
    """Live progress by stream is full for now: polling works as well."""

    code = "TOO_MANY_STREAMS"


class KindPaused(AinoriError):
    """The operator lets this kind take nothing new for now. ``kind``; ``note``: why, or ``None``."""

    code = "KIND_PAUSED"


class DailyLimit(AinoriError):
    """A metered service's allowance for today is used up. ``exhausted``: by the service's own word, else by the site's
    cap; ``guests``: only the share of those without an account; ``service``: what people call it; ``retry_at``;
    ``retry_after_seconds``. ``units``: what this very ``fetch`` had spent before, on redirects."""

    code = "DAILY_LIMIT"
    units = 0


class ShuttingDown(AinoriError):
    code = "SHUTTING_DOWN"


class StorageUnavailable(AinoriError):
    """The disk is full or cannot be written: nothing was stored."""

    code = "STORAGE_UNAVAILABLE"


# What the system says when a disk is full or cannot be written (or a file may not grow: a limit of the host's).
DISK_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG}


class UpstreamUnavailable(AinoriError):
    """A service that a kind asks did not answer usably. ``reason`` is one of ``connect``,
    ``timeout``, ``too_large``, ``redirects``, ``refused``, ``protocol``; ``host``. ``units``: what this
    very call spent of a quota all the same; 0 where it shared another's request."""

    code = "UPSTREAM_UNAVAILABLE"
    units = 0


class AiUnavailable(AinoriError):
    code = "AI_UNAVAILABLE"


class CommandFailed(AinoriError):
    """A command that a job ran ended with ``returncode``; ``stderr`` is the end of what it said."""

    code = "COMMAND_FAILED"


class LostFence(AinoriError):
    """This attempt no longer owns its job: stop, write nothing."""

    code = "LOST_FENCE"
