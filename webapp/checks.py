"""What of an installation its operator should look at: ``flask doctor`` says it, and the operator's page.

Each check yields ``(verdict, what, detail)``; verdict ``good``, ``note`` (think about it) or ``wrong``.
"""
import os
import platform
import re
import sqlite3

from webapp import __version__, accounts, alerts, db, web
from webapp.errors import Busy, StorageUnavailable
from webapp.messages import _
from webapp.settings import SETTINGS, kind_settings, own_settings

FREE_DISK_BYTES_LOW = 200_000_000
LOCK_SECONDS = 1.0  # so long the write lock is waited for; a server's own writes hold it much shorter
# Below 3.51.3 a file can be damaged when two processes write and checkpoint at the same moment.
WAL_RESET_FIXED = (3, 51, 3)


# ------------------------------------------------------------------------------------ what is there

def versions():
    """``{what: version}`` of all that runs this site."""
    return {"Ainori": __version__, "Python": platform.python_version(), "SQLite": sqlite3.sqlite_version,
            _("schema"): str(db.value("PRAGMA user_version"))}


def settings(app):
    """Every setting, a kind's own too: rows ``name``, ``value`` (a secret is not shown), ``source``, ``help``."""
    found = app.settings
    listed = [{"name": setting.name, "value": _shown(setting.name, found.values[setting.name], setting.secret),
               "source": found.source(setting.name), "help": setting.help} for setting in SETTINGS]
    for kind in app.kinds.values():
        for setting, value in zip(kind_settings(kind), (kind.cost, kind.timeout_seconds), strict=True):
            listed.append({"name": setting.name, "value": "by its params" if callable(value) else value,
                           "source": found.source(setting.name), "help": setting.help})
        values = found.for_kind(kind)
        for setting in own_settings(kind):
            listed.append({"name": setting.name, "value": _shown(setting.name, values[setting.name], setting.secret),
                           "source": found.source(setting.name), "help": setting.help})
    return listed


def _shown(name, value, secret):
    if not secret:
        return value
    if value:
        return "(set, not shown)"
    return "(made here, not shown)" if name == "SECRET_KEY" else ""


# ------------------------------------------------------------------------------------ what to look at


def sqlite_version():
    if sqlite3.sqlite_version_info < WAL_RESET_FIXED:
        yield ("note", "SQLite", _("%(version)s; before 3.51.3 two processes that write and checkpoint at one moment can, very "
                                   "rarely, damage the file: keep to one server, and make backups",
                                   version=sqlite3.sqlite_version))
    else:
        yield "good", "SQLite", sqlite3.sqlite_version


def has_table(name):
    return db.value("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)) is not None


def write_lock():
    """Whether the file can be written now."""
    try:
        with db.patience(LOCK_SECONDS):
            db.wait_for_lock()
        yield "good", _("write lock"), _("free")
    except Busy:
        yield ("note", _("write lock"), _("another program holds the file locked, and nothing can be stored: close the "
                                          "file there"))
    except StorageUnavailable as error:
        yield ("wrong", _("write lock"), _("the file cannot be written: %(reason)s", reason=error.facts["reason"]))


def folders(folder):
    for each in (folder, *(folder / name for name in ("uploads", "files", "workers"))):
        writable = os.access(each, os.W_OK | os.X_OK)
        yield ("good" if writable else "wrong", _("folder"),
               _("%(path)s is writable", path=each) if writable else _("%(path)s is not writable", path=each))
    free = web.disk_space_bytes(folder)
    yield "good" if free >= FREE_DISK_BYTES_LOW else "wrong", _("free disk space"), f"{free / 1e6:,.0f} MB"


def warnings(app):
    """What of the settings an operator should think about again."""
    settings, paid = app.settings, [kind.name for kind in app.kinds.values() if callable(kind.cost) or kind.cost]
    if settings.production and settings.allow_new_database:
        yield ("note", "ALLOW_NEW_DATABASE", _("still set: unset it after the first start, or a vanished disk will look "
                                               "like an empty site"))
    if not settings.production and settings.host not in ("127.0.0.1", "::1", "localhost"):
        yield ("note", "HOST", _("%(host)s is open to others without PRODUCTION=1 (secure cookies)", host=settings.host))
    if paid and not settings.support_contact:
        yield ("note", "SUPPORT_CONTACT", _("not set, and %(kinds)s costs points: people need somebody to ask",
                                            kinds=", ".join(paid)))
    for n, usable in enumerate(_usable_channels(app), 1):
        if not usable:
            yield "note", "ALERT_URLS", _(
                "number %(n)s (%(scheme)s) is no channel that Apprise can use: nobody hears of incidents through it",
                n=n, scheme=alerts.scheme(settings.alert_channels()[n - 1]))
    if not app.kinds:
        yield "note", "KINDS", _("no kind is on: this site offers nothing")
    if has_table("users") and not accounts.has_admin():
        yield "note", _("operator"), _("there is no admin yet: `flask users add EMAIL --admin` makes one")


def _usable_channels(app):
    """Asked once for each process: that takes a process of its own, and settings stay as they are."""
    if "usable_channels" not in app.extensions:
        urls = app.settings.alert_channels()
        app.extensions["usable_channels"] = alerts.send(urls, None) if urls else ()
    return app.extensions["usable_channels"]
