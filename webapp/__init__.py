"""Ainori: minutes-long jobs inside one Flask process, and the truth about the points they cost."""
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
__version__ = "0.1.0"


def create_app(settings=None):
    """The application, its database open. It starts no worker: gunicorn.conf.py does.

    ``settings``: a ``Settings``; read from the environment and ``.env`` if not given. Stops the process
    with one clear line where a setting is unusable.
    """
    # Imported here: a kind's helper process imports this package too, and should not pay for Flask.
    from webapp.errors import SettingsError
    try:
        return _create_app(settings)
    except SettingsError as error:
        if settings is not None:
            raise
        raise SystemExit(f"Ainori cannot start: {error}") from None


def _create_app(settings):
    from datetime import timedelta

    from flask import Flask
    from flask_babel import Babel
    from jinja2 import ChoiceLoader, PrefixLoader
    from jinja2.loaders import FileSystemLoader
    from werkzeug.middleware.proxy_fix import ProxyFix

    from webapp import accounts, admin, api, auth, cli, db, forms, jobs, metrics, openapi, pages, status, upstream, web
    from webapp.settings import Settings

    settings = settings or Settings.load(dotenv=ROOT / ".env")
    kinds = settings.kinds()
    for kind in kinds.values():
        forms.refuse_what_cannot_be_filled(kind)
    settings.ready_folders()
    app = Flask(__name__)
    app.request_class = web.UploadRequest
    app.url_map.converters["int"] = web.StoredNumber
    app.session_interface = web.Sessions()
    app.settings, app.kinds, app.status_of = settings, kinds, status_of
    app.runner = None  # of the service, where one is started
    web.set_limits(app)
    app.setup_token = None  # of the service, while there is no operator
    app.upstream = upstream.Upstream(user_agent=f"Ainori/{__version__} ({settings.site_name})")
    app.config.update(
        SECRET_KEY=settings.signing_key(), SESSION_COOKIE_NAME="ainori", SESSION_COOKIE_SAMESITE="Lax", SESSION_REFRESH_EACH_REQUEST=False,
        SESSION_COOKIE_SECURE=settings.production, PERMANENT_SESSION_LIFETIME=timedelta(days=accounts.SESSION_DAYS),
        MAX_CONTENT_LENGTH=settings.max_upload_mb * 1024 * 1024 + max(
            map(forms.text_bytes_max, kinds.values()), default=forms.TEXT_BYTES_MIN),
        WTF_CSRF_CHECK_DEFAULT=False, WTF_CSRF_TIME_LIMIT=None, BABEL_DEFAULT_LOCALE="en",
        BABEL_TRANSLATION_DIRECTORIES=str(ROOT / "webapp" / "translations"))
    app.json.ensure_ascii = False
    app.json.sort_keys = False
    if settings.proxy_hops:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=settings.proxy_hops, x_proto=settings.proxy_hops, x_host=0)
    db.open_store(settings.database_path, schema=ROOT / "schema.sql", migrations=ROOT / "migrations",
                  busy_seconds=settings.busy_seconds,
                  may_create=settings.allow_new_database or not settings.production)
    jobs.signals.__init__()
    jobs.signals.stale_seconds = settings.worker_stale_seconds

    # A kind's own result page lies beside its module.
    app.jinja_loader = ChoiceLoader([app.jinja_loader, PrefixLoader({"kinds": PrefixLoader(
        {name: FileSystemLoader(kind.home) for name, kind in kinds.items()})})])
    Babel(app, locale_selector=web.choose_language)
    web.csrf.init_app(app)
    app.before_request(web.limit_body)
    app.before_request(web.identify)
    app.after_request(web.read_to_the_end)
    app.teardown_request(web.discard_incoming)
    for room in (api, pages, auth, status, admin, metrics):
        app.register_blueprint(room.blueprint)
    for room in (pages, api, openapi, metrics, cli):
        room.register(app)
    return app


# The one map from refusal to HTTP status; what is not here is a 500.
_STATUS = {
    "INVALID_INPUT": 400, "BAD_TOKEN": 401, "LOGIN_REQUIRED": 401, "TOKEN_REQUIRED": 401, "INSUFFICIENT_POINTS": 402,
    "ADMINS_ONLY": 403, "CSRF": 403, "REGISTRATION_CLOSED": 403, "SESSION_REQUIRED": 403,
    "LINK_EXPIRED": 410, "ADMIN_EXISTS": 410,
    "NOT_FOUND": 404, "UNKNOWN_KIND": 404, "JOB_IN_FLIGHT": 409, "PRICE_DIFFERS": 409, "ALREADY_FINAL": 409, "NOT_RETRYABLE": 409,
    "MONEY_DIFFERS": 409, "STATEMENT_MOVED": 409, "LAST_ADMIN": 409,
    "FILE_TOO_LARGE": 413, "TEXT_TOO_LARGE": 413, "UNSUPPORTED_MEDIA_TYPE": 415, "IDEMPOTENCY_KEY_REUSED": 422, "RATE_LIMITED": 429,
    "BUSY": 503, "QUEUE_FULL": 503, "TOO_MANY_STREAMS": 503, "SHUTTING_DOWN": 503, "KIND_PAUSED": 503,
    "KIND_FAILED": 503, "DAILY_LIMIT": 503, "STORAGE_UNAVAILABLE": 503,
}


def status_of(error):
    """The HTTP status of a refusal."""
    from webapp.errors import Refuse
    return _STATUS.get(error.code, 400 if isinstance(error, Refuse) else 500)
