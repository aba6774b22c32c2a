"""What the browser's and the API's front ends share: who asks, what came in, how a refusal is answered."""
import hashlib
import ipaddress
import json
import os
import secrets
import time
from dataclasses import replace
from urllib.parse import urlencode

import gevent
from babel import Locale
from flask import Request, Response, current_app, g, request, session, url_for
from flask.sessions import SecureCookieSessionInterface
from flask_babel import get_locale
from flask_wtf.csrf import CSRFError, CSRFProtect
from itsdangerous import SignatureExpired, TimestampSigner
from limits import parse as parse_rate
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from werkzeug.exceptions import BadRequest, HTTPException, RequestEntityTooLarge
from werkzeug.routing import IntegerConverter

from webapp import accounts, db, forms, jobs, ledger, messages, quotas, rows, workers
from webapp.errors import (
    AdminsOnly,
    AinoriError,
    BadCsrfToken,
    BadToken,
    FileTooLarge,
    InvalidInput,
    LoginRequired,
    RateLimited,
    SessionRequired,
    StorageUnavailable,
    TextTooLarge,
    TokenRequired,
    UnknownKind,
    UnsupportedMediaType,
)
from webapp.kinds import LANGUAGES, Quota, Rows, Upload, in_language

JSON_BYTES_MAX = forms.TEXT_BYTES_MIN
# What of a refused upload is still read (and thrown away), so that the browser gets to see the answer.
DISCARDED_BYTES_MAX = 200_000_000
DISCARD_SECONDS_MAX = 20
# So long after it kept somebody out, a lock on the file is spoken of: nobody may have tried since.
LOCKED_SAID_SECONDS = 30
# Wrong passwords for one account, from however many addresses.
GUESSES_RATE = "100/hour"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}

csrf = CSRFProtect()


class Signer(TimestampSigner):
    """Also takes what was signed before the clock was set back: it is signed, and not old."""

    def unsign(self, value, max_age=None, return_timestamp=False):
        try:
            return super().unsign(value, max_age, return_timestamp)
        except SignatureExpired as expired:
            if expired.date_signed.timestamp() <= self.get_timestamp():
                raise
            return super().unsign(value, None, return_timestamp)


class Sessions(SecureCookieSessionInterface):
    """Signed cookies, as Flask has them; the signer is made once and not at each request."""

    _signer = None

    def get_signing_serializer(self, app):
        if self._signer is None:
            self._signer = super().get_signing_serializer(app)
            self._signer.signer = Signer
        return self._signer


# --------------------------------------------------------------------------------- uploads come in

class Incoming:
    """A file part of a form, written straight to where uploads are kept, its hash taken on the way.

    What the disk says against it waits for ``complete``: the rest of the form is still read. Of what is larger
    than an upload may be, the rest is thrown away.
    """

    def __init__(self, folder):
        self.path = folder / f"incoming-{secrets.token_hex(8)}"
        self.size = 0
        self._bytes_max = current_app.settings.max_upload_mb * 1024 * 1024
        self._hash = hashlib.sha256()
        self._turn = db.Turn()
        self._file, self._error = None, None
        try:
            folder.mkdir(parents=True, exist_ok=True)  # somebody may have tidied it away
            self._file = open(self.path, "w+b")
        except OSError as error:
            self._error = error

    def write(self, data):
        self.size += len(data)
        self._hash.update(data)
        if self._error is None and self.size <= self._bytes_max:
            try:
                self._file.write(data)
            except OSError as error:
                self._error = error
        self._turn.pass_on()  # a body that is there already is read without ever waiting
        return len(data)

    def complete(self):
        """All of it is in the file. Raises what the disk said against it."""
        if self._error is not None:
            raise self._error
        self._file.flush()

    def seek(self, *_):
        """The parser is done and goes back to the beginning; we read it by its path."""

    @property
    def sha256(self):
        return self._hash.hexdigest()

    def close(self):
        if self._file is not None:
            try:
                self._file.close()
            except OSError:
                pass  # what it still held of a file that was refused, or will be deleted

    def discard(self):
        self.close()
        try:
            self.path.unlink(missing_ok=True)
        except OSError:
            pass  # a folder that became read-only: expiry deletes it


class StoredNumber(IntegerConverter):
    """``<int:…>`` in an address: what cannot be a row's number is no address of ours."""

    regex = "[0-9]{1,18}"


class UploadRequest(Request):
    """A request whose files never pass through memory whole."""

    def _get_file_stream(self, total_content_length, content_type, filename=None, content_length=None):
        incoming = Incoming(current_app.settings.folder / "uploads")
        g.setdefault("incoming", []).append(incoming)
        return incoming

    def make_form_data_parser(self):
        parser = super().make_form_data_parser()
        parser.silent = False  # half a form must not count as an empty one
        return parser

    def _load_form_data(self):
        try:
            super()._load_form_data()
        except ValueError as error:
            raise BadRequest(str(error)) from None


def discard_incoming(_error=None):
    """What was not adopted by a job is deleted when the request ends."""
    for incoming in g.pop("incoming", ()):
        incoming.discard()


def received(kind):
    """``(raw params, {field: Received})`` of this request, JSON or form. Raises ``InvalidInput``, ``FileTooLarge``,
    ``TextTooLarge``, ``UnsupportedMediaType``."""
    if request.mimetype == "application/json" or not _has_body():
        return _from_json(), {}
    if request.mimetype not in ("multipart/form-data", "application/x-www-form-urlencoded"):
        raise UnsupportedMediaType()
    texts, bytes_max = request.form.to_dict(flat=False), forms.text_bytes_max(kind)
    if sum(len(text.encode()) for given in texts.values() for text in given) > bytes_max:
        raise TextTooLarge(limit_mb=bytes_max // 10**6)
    raw, files = forms.read(kind, texts), {}
    for name, part in request.files.items():
        if not part.filename and not part.stream.size:
            continue  # the browser sends an empty part for a field left empty
        limit_mb = current_app.settings.max_upload_mb
        if part.stream.size > limit_mb * 1024 * 1024:
            raise FileTooLarge(limit_mb=limit_mb, field=name)
        part.stream.complete()
        files[name] = jobs.Received(part.stream.path, Upload(
            name=_file_name(part.filename), size=part.stream.size, sha256=part.stream.sha256))
    return raw, files


def _file_name(name):
    """What the visitor's computer called it, without folders or control characters; at most 100 characters."""
    name = (name or "").replace("\\", "/").rpartition("/")[2]
    name = "".join(char for char in name if char.isprintable()).strip()
    return name[-100:] or "file"


def _has_body():
    return bool(request.content_length or request.headers.get("Transfer-Encoding"))


def _from_json():
    if not _has_body():
        return {}
    data = request.get_data()
    if request.content_length is None and len(data) >= JSON_BYTES_MAX:
        raise RequestEntityTooLarge  # a body of unknown length is cut there, without a word
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        raise InvalidInput([{"field": "", "type": "json_invalid", "facts": {}, "message": "not a JSON object"}])
    return raw


# ------------------------------------------------------------------------------------- who asks

def identify():
    """Find out who asks, before each request: a bearer token, else the signed cookie, else nobody."""
    g.viewer, g.by_token = None, False
    if request.endpoint in ("static", "api.healthz", "api.readyz"):
        return
    g.by_token = request.headers.get("Authorization", "").partition(" ")[0].lower() == "bearer"
    try:
        g.viewer = _known()
    except (db.Error, AinoriError):
        if request.endpoint != "status.status":  # that one answers everybody, always
            raise
        g.unreadable = True
    if g.by_token:
        if g.viewer is None and not g.get("unreadable"):
            raise BadToken()
    elif request.method not in SAFE_METHODS:
        _refuse_forged()


def _known():
    """Whom the token or the cookie of this request stands for now, or ``None``."""
    if g.by_token:
        return accounts.by_token(request.headers["Authorization"].partition(" ")[2].strip())
    if session.get("session"):
        return accounts.by_session(session["session"])
    if session.get("user_id") is None:
        return None
    known = accounts.by_id(session["user_id"])  # a guest; an account is never known by its number alone
    return known if known is not None and is_guest(known) else None


def is_guest(user):
    return user["email"] is None and user["deleted_at"] is None and user["merged_into"] is None


def account():
    """Whoever is signed in, or ``None`` for a guest or nobody."""
    return g.viewer if g.viewer is not None and g.viewer["email"] else None


def require_session():
    """Raises ``SessionRequired`` for an access token: a program acts for somebody, and is not that person."""
    if g.by_token:
        raise SessionRequired()


def require_admin_token():
    """Raises ``TokenRequired`` or ``AdminsOnly`` unless an admin's bearer token came with this request."""
    if not g.by_token:
        raise TokenRequired()
    if not g.viewer["is_admin"]:
        raise AdminsOnly()


def _refuse_forged():
    """A browser's unsafe request with a cookie needs its page's token. One without a cookie carries no
    power to abuse, but its answer would set one: so not across sites either."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise BadCsrfToken()
    if request.endpoint == "auth.logout" and g.viewer is None:
        return  # a stale tab: there is nobody to be signed out
    if current_app.session_interface.get_cookie_name(current_app) in request.cookies:
        try:
            csrf.protect()
        except CSRFError:
            raise BadCsrfToken() from None


def limit_body():
    """Only a form in parts may be large. A page's is read to its end where something is too large, within reason:
    the form comes back with what was typed."""
    if request.mimetype != "multipart/form-data":  # it is decoded at once, in which time nobody else is served
        request.max_content_length = request.max_form_memory_size = JSON_BYTES_MAX
        return
    named = request.view_args or {}
    kind = current_app.kinds.get(named.get("kind", named.get("name")))
    request.max_form_memory_size = JSON_BYTES_MAX if kind is None else forms.text_bytes_max(kind)
    if request.endpoint == "pages.submit":
        request.max_form_memory_size = forms.TEXT_BYTES_MAX
        request.max_content_length = max(DISCARDED_BYTES_MAX, request.max_content_length)


def viewer_id():
    """The asker's user id, or -1 (nobody's)."""
    return g.viewer["id"] if g.viewer is not None else -1


def asker():
    """Who asks, as somebody who can own work: a newcomer becomes a guest, known by a signed cookie."""
    if g.viewer is None:
        lang = messages.language()
        # The page's CSRF secret tells one browser from another before it has a name.
        secret = session.get("csrf_token")
        key = hashlib.sha256(secret.encode()).hexdigest() if secret else None
        g.viewer = accounts.by_id(accounts.add_guest(lang, key))
        session["user_id"] = g.viewer["id"]
        session.permanent = True
    return jobs.Asker(g.viewer["id"], g.viewer["email"] is None, messages.language())


def preview_asker():
    """Like ``asker``, but nobody is made: what only asks stores nothing."""
    if g.viewer is not None:
        return asker()
    return jobs.Asker(-1, True, messages.language())


_LOCALES = {lang: Locale(lang) for lang in LANGUAGES}


def choose_language():
    """By account, then cookie, then what the browser prefers. A program says what it wants with each request."""
    viewer = g.get("viewer")
    chosen = [viewer["lang"]] if viewer is not None else []
    chosen.insert(1 if viewer is not None and viewer["email"] else 0, request.cookies.get("lang"))
    if not (g.get("by_token") and request.accept_languages):
        for lang in chosen:
            if lang in _LOCALES:
                return _LOCALES[lang]
    for tag, quality in request.accept_languages:  # best_match would prefer a less wanted 'en' to 'ja-JP'
        lang = tag.lower().replace("_", "-").partition("-")[0]
        if quality > 0 and lang in _LOCALES:
            return _LOCALES[lang]
    return _LOCALES["en"]


class Limit:
    """So many of one action for one client address, as in ``30/hour``."""

    def __init__(self, action, rate, times=1):
        one = parse_rate(rate)
        self._action, self._rate = action, type(one)(one.amount * times, one.multiples)
        self._storage, self._clock = MemoryStorage(), workers.clock()
        self._limiter = MovingWindowRateLimiter(self._storage)

    def check(self, what=None):
        """Count this request, of its client, or of ``what``. Raises ``RateLimited``."""
        self._refuse_unless(self._limiter.hit, what)

    def ask(self, what=None):
        """Raises ``RateLimited`` as ``check`` would, and counts nothing."""
        self._refuse_unless(self._limiter.test, what)

    def _refuse_unless(self, allows, what):
        if self._clock - (clock := workers.clock()) >= self._rate.get_expiry():
            self._storage.reset()  # set back so far that a window would be full for as long again
        self._clock = clock
        whose = what or _network(request.remote_addr)
        if not allows(self._rate, self._action, whose):
            resets_at, _ = self._limiter.get_window_stats(self._rate, self._action, whose)
            raise RateLimited(retry_after_seconds=max(1, round(resets_at - time.time())))


def _network(address):
    """Of whom an address is: with IPv6 a home has 2^64 of them."""
    try:
        found = ipaddress.ip_address(address or "?")
    except ValueError:
        return "?"
    found = getattr(found, "ipv4_mapped", None) or found
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))


def set_limits(app):
    settings = app.settings
    app.guest_limit = Limit("guest-submit", settings.rate_guest_submit)
    app.guest_try_limit = Limit("guest-try", settings.rate_guest_submit, times=10)
    app.sign_in_limit = Limit("sign-in", settings.rate_sign_in)
    app.register_limit = Limit("register", settings.rate_register)
    app.guess_limit = Limit("guess", GUESSES_RATE)


# -------------------------------------------------------------------------------- one domain call

def kind_named(name):
    kind = current_app.kinds.get(name)
    if kind is None:
        raise UnknownKind(kind=name)
    return kind


def order_of(kind, raw, files, who, idempotency_key=None, shown_price=None):
    params = jobs.parse(kind, raw, files)
    return jobs.order(kind, params, who, settings=current_app.settings.for_kind(kind), files=files,
                      idempotency_key=idempotency_key, shown_price=shown_price)


def submit(kind, raw, files, idempotency_key=None, form_key=None, shown_price=None):
    """Check and accept this request's order. Returns a ``Submission``.

    ``form_key`` was minted when the form was rendered: with the fields it makes the idempotency key,
    so that a double click is one job, and an edited form after 'back' is another.
    """
    who = _still_asks(preview_asker())
    if who.is_guest:
        current_app.guest_try_limit.check()  # also what is refused costs a look at it
        current_app.guest_limit.ask()
    order = order_of(kind, raw, files, who, idempotency_key, shown_price)  # refused here, it leaves no guest behind
    if form_key:
        order = replace(order, idempotency_key=f"form:{form_key}:{order.params_hash[:16]}")
    if who.user_id == -1:
        who = asker()
        order = replace(order, asker=who, exclusive_key=jobs.exclusive_key(kind, who.user_id))
    if who.is_guest:
        current_app.guest_limit.check()
    return jobs.submit(order, max_pending=current_app.settings.max_pending_jobs, files=files)


def standing(kind, who):
    """What can be said before there are params: ``{in_flight_job_id, reasons}``, of one that is in the way, of points
    that would not do; and ``retry_at`` where whatever is asked needs a unit that is not to be had."""
    cost = 0 if callable(kind.cost) else kind.cost
    way = jobs.exclusive_in_flight(kind, who.user_id)
    short = cost > 0 and not who.is_guest and cost > ledger.available(who.user_id)
    reasons = (["LOGIN_REQUIRED"] if cost and who.is_guest else ["JOB_IN_FLIGHT"] if way
               else ["INSUFFICIENT_POINTS"] if short else ["KIND_PAUSED"] if kind.name in jobs.pauses() else [])
    limit = None if reasons or kind.quota is None or kind.quota.used is not Quota.used else over_allowance(kind, who)
    return {"in_flight_job_id": way, **({"reasons": [limit.code], "retry_at": limit.facts["retry_at"]} if limit else
                                        {"reasons": reasons})}


def _still_asks(who):
    """Who asks was found out before the body came, which may have taken minutes. A guest who has signed in meanwhile
    asks for what is free in that account's name. Raises ``LoginRequired`` where a session or an account has ended."""
    if who.user_id == -1:
        return who
    if who.is_guest:
        merged = accounts.by_id(who.user_id)["merged_into"]
        return replace(who, user_id=merged) if merged else who
    if _known() is None:
        raise LoginRequired(cost=0)
    return who


def retry(job, key=None, shown_price=None):
    """A failed job of this caller's once more. Returns a ``Submission``. ``key``: as for ``submit``."""
    who, kind, settings = asker(), current_app.kinds.get(job["kind"]), current_app.settings
    if who.is_guest:
        current_app.guest_limit.check()
    return jobs.retry(kind, job, who, settings=settings.for_kind(kind) if kind else {}, form_key=key,
                      shown_price=shown_price, max_pending=settings.max_pending_jobs)


def movements(entries, endpoint):
    """Ledger entries as the lines of a statement; the work that one is about is shown at ``endpoint``."""
    lines = []
    for entry in entries:
        what, why = messages.movement(current_app.kinds.get(entry["for_kind"]), entry)
        lines.append({**entry, "what": what, "why": why,
                      "href": url_for(endpoint, job_id=entry["job_id"]) if entry["job_id"] else None})
    return lines


def job_json(job, listed=False):
    return messages.job_json(job, viewer_id(), current_app.kinds, current_app.settings.support_contact,
                             with_result=not listed, with_notes=not listed)


def rows_spec(job):
    """How the rows of this job are read, even where its kind is no longer offered."""
    kind = current_app.kinds.get(job["kind"])
    return kind.rows if kind is not None else Rows()


def wanted_rows(job):
    """Which of a job's rows this request's address asks for. Raises ``InvalidInput``."""
    return rows.wanted(rows_spec(job), request.args)


def retry_after_seconds(job):
    """When to come back: soon at first, then ever less often. ``None`` for what is final and settled."""
    if job["status"] not in jobs.IN_FLIGHT and job["settlement"] != "due":
        return None
    age = jobs.age_seconds(job)
    return 1 if age < 30 else 2 if age < 120 else 5 if age < 600 else 10


def kind_json(kind, lang):
    """What ``GET /api/kinds`` says of a kind."""
    return {
        "name": kind.name, "title": kind.title_in(lang), "noun": kind.noun_in(lang),
        "description": in_language(kind.description, lang),
        "cost": None if callable(kind.cost) else kind.cost, "paused": _paused(kind),
        "limits": {"timeout_seconds": kind.timeout_seconds, "max_attempts": kind.attempts_max,
                   "exclusive": kind.exclusive, "shared": kind.share_key is not None,
                   "cache_seconds": kind.cache_seconds, "max_upload_mb": current_app.settings.max_upload_mb},
        "upload_field": kind.upload_field,
        "stages": [{"name": name, "title": in_language(title, lang)} for name, title, *_when in kind.stages],
        "params": params_schema(kind, lang),
    }


def _paused(kind):
    """``{since, note}`` while the operator lets it take nothing new, else ``None``."""
    try:
        paused = jobs.pauses().get(kind.name)
    except (db.Error, AinoriError):  # what is on offer is told even so; a submit says what is wrong
        return None
    return paused and {"since": paused["created_at"], "note": paused["note"]}


def allowance(kind):
    """How today stands for the metered service this kind asks (a ``quotas.Standing``); ``None`` where it asks none."""
    if kind is None or kind.quota is None:
        return None
    return quotas.standing(kind.quota, current_app.settings.for_kind(kind)[kind.quota.setting])


def over_allowance(kind, who):
    """The ``DailyLimit`` that work of this kind would meet where it needs a unit; or ``None``."""
    day = allowance(kind)
    return day and day.refusal(who.is_guest, kind.quota.least)


def params_schema(kind, lang):
    """The JSON Schema of a kind's params, its texts in this language."""
    schema = kind.params.model_json_schema()
    schema.get("$defs", {}).pop("Upload", None)
    for name, field in schema.get("properties", {}).items():
        translated = field.pop("ja", None)
        if lang == "ja" and translated:
            field.update(translated)
        if name in kind.upload_fields:
            for key in ("$ref", "anyOf", "allOf", "default"):
                field.pop(key, None)
            field.update({"type": "string", "format": "binary"})
    if not schema.get("$defs"):
        schema.pop("$defs", None)
    return schema


# ------------------------------------------------------------------------------------- refusals

def as_refusal(error):
    """Any error of a request as one of ours, and its HTTP status."""
    if isinstance(error, AinoriError) and (status := current_app.status_of(error)) != 500:
        return error, status
    if isinstance(error, RequestEntityTooLarge):
        return _too_large(), 413
    refusal = AinoriError()
    if isinstance(error, HTTPException):
        refusal.code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.code, "BAD_REQUEST")
        if refusal.code == "BAD_REQUEST":
            refusal.facts = {"reason": error.description}  # for whoever wrote the program that asked
        return refusal, error.code
    if isinstance(error, OSError) and db.is_disk(error):
        current_app.logger.warning("%s %s: %s", request.method, request.path, error)
        db.refused_by_the_disk(error)
        return StorageUnavailable(reason="disk"), 503
    if isinstance(error, db.Error) and not isinstance(error, db.IntegrityError):  # the file, not the request
        current_app.logger.error("%s %s: the database said: %s", request.method, request.path, error)
        return StorageUnavailable(reason="database"), 503
    current_app.logger.exception("%s %s failed", request.method, request.path)
    return refusal, 500


def _too_large():
    """What of a body was too large: the file, if one came or the form was not even begun to be read, or its text."""
    limit_mb, in_parts = current_app.settings.max_upload_mb, request.mimetype == "multipart/form-data"
    unread = (request.content_length or 0) > request.max_content_length
    if in_parts and (unread or any(part.size > limit_mb * 1024 * 1024 for part in g.get("incoming", ()))):
        return FileTooLarge(limit_mb=limit_mb)
    return TextTooLarge(limit_mb=(request.max_form_memory_size if in_parts else request.max_content_length) // 10**6)


def read_to_the_end(answer):
    """Of what is refused the rest is read too: closing on a client that is still sending resets the
    connection, and it would never see why."""
    if answer.status_code >= 400 and _has_body():
        _discard_body()
    return answer


def _discard_body():
    stream, left, turn = request.environ["wsgi.input"], DISCARDED_BYTES_MAX, db.Turn()
    with gevent.Timeout(DISCARD_SECONDS_MAX, False):
        try:
            while left > 0 and (chunk := stream.read(65536)):
                left -= len(chunk)
                turn.pass_on()
        except Exception:
            pass  # whatever is wrong with it: the answer is made


def problem(error):
    """An RFC 9457 answer for any error of a request: ``code`` and the facts as extra members."""
    refusal, status = as_refusal(error)
    title = messages.refusal(refusal, current_app.settings.support_contact)
    body = {**refusal.facts, "type": "about:blank", "title": title, "status": status, "detail": title,
            "code": refusal.code}
    if isinstance(refusal, InvalidInput):
        body["errors"] = messages.field_errors(refusal)
    answer = Response(current_app.json.dumps(body), status=status, mimetype="application/problem+json")
    if refusal.code == "JOB_IN_FLIGHT":
        answer.headers["Location"] = f"/api/jobs/{refusal.facts['job_id']}"
    if status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    if status == 405:
        answer.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
    after = retry_seconds_of(refusal, status)
    if after is not None:
        answer.headers["Retry-After"] = str(after)
    return answer


def retry_seconds_of(error, status):
    """The Retry-After of a refusal, or ``None``."""
    if "retry_after_seconds" in error.facts:
        return error.facts["retry_after_seconds"]
    known = {"KIND_PAUSED": 300, "KIND_FAILED": 300, "QUEUE_FULL": 30, "SHUTTING_DOWN": 5, "BUSY": 2}
    return known.get(error.code, 10) if status == 503 else None


def local_path(path):
    """A path on this site to go to; the start page for anything that might lead elsewhere (``//evil``, ``/\\t/evil``).
    Of an address that only takes forms, the nearest above it that shows a page."""
    path = path or "/"
    if path[:1] != "/" or path[1:2] in ("/", "\\") or any(ord(char) <= 32 or char == "\\" for char in path):
        return "/"
    addresses, (shown, _mark, _query) = current_app.url_map.bind(""), path.partition("?")
    if not (methods := addresses.allowed_methods(shown)) or "GET" in methods:
        return path
    while "GET" not in addresses.allowed_methods(shown):
        shown = shown.rpartition("/")[0] or "/"
    return shown


def this_page():
    """The path that shows this page again, also where a form was answered: its hidden fields then say what the query did."""
    if request.query_string:
        return local_path(request.full_path)
    kept = {}
    if request.method == "POST" and request.mimetype == "application/x-www-form-urlencoded":
        try:
            kept = {name: text for name in ("next", "token") if (text := request.form.get(name))}
        except HTTPException:
            pass  # it could not be read: that is what the page says
    path = local_path(request.path)
    return f"{path}?{urlencode(kept)}" if kept and path == request.path else path


def stored_number(text):
    """What a client sends back of a number it was given (a cursor, an event's id), or ``None``."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def locale_name():
    return str(get_locale() or "en")


def database_figures():
    """``commits`` and ``verbs`` of this process, ``main_bytes`` and ``wal_bytes`` of the file."""
    path = str(db.store.path)
    sizes = {name: os.path.getsize(file) if os.path.exists(file) else 0
             for name, file in (("main_bytes", path), ("wal_bytes", f"{path}-wal"))}
    return {"commits": db.store.commits, "verbs": db.store.verbs, **sizes}


def storage_refused():
    """Whether the disk refused a write, and none has succeeded since."""
    return db.store.refused.is_set()


def storage_locked():
    """Whether somebody was lately refused since another program holds the file locked, and nobody was served since."""
    at = db.store.locked_out_at
    return at is not None and db.clock() - at < LOCKED_SAID_SECONDS


def disk_space_bytes(folder):
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
