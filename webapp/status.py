"""``/status``: whether it works now, and how the last days went. For everybody; nothing personal stands in it."""
from datetime import date

from flask import Blueprint, current_app, g, render_template
from flask_babel import format_date, ngettext
from flask_babel import gettext as _

from webapp import jobs, messages, overview, web
from webapp.kinds import in_language

blueprint = Blueprint("status", __name__)


@blueprint.get("/status")
def status():
    """Answers also when nothing can be read, and says so."""
    try:
        lately, pauses, troubles = overview.lately(), jobs.pauses(), _troubles()
    except Exception:
        current_app.logger.warning("the status page could not read the database", exc_info=True)
        lately, pauses, troubles = None, {}, []
    if g.get("unreadable"):
        lately = None
    return render_template(
        "status/status.html", lately=lately, days=overview.DAYS, now=_now(lately is not None, pauses, troubles),
        troubles=troubles, paused=[{"title": kind.title_in(messages.language()), "note": pauses[name]["note"]}
                for name, kind in current_app.kinds.items() if name in pauses],
        kinds=_kinds(lately), chart=_chart(lately))


def _troubles():
    """What does not work of kinds that take new work: ``[{title, note}]``."""
    def notes(kind):
        day = web.allowance(kind)
        if day is not None and day.exhausted:
            service = in_language(day.service, messages.language())
            yield _("%(service)s says that this site’s allowance is used up. It is asked again after %(time)s.",
                    service=service or _("this service"), time=messages.moment(day.exhausted_until))
        if kind.trouble and (told := kind.trouble(current_app.settings.for_kind(kind))):
            yield in_language(told, messages.language())
    return [{"title": kind.title_in(messages.language()), "note": note}
            for kind in current_app.kinds.values() for note in notes(kind)]


def _now(readable, pauses, troubles):
    """``(tone, sentence, what that means)``."""
    if not readable:
        return ("bad", _("Nothing can be read at the moment"),
                _("What was accepted is kept, and goes on as soon as the database can be read again."))
    if web.storage_refused() or web.storage_locked():
        return ("bad", _("Nothing new can be stored at the moment"),
                _("Pages and results can be read. New requests are refused, and use no points."))
    if jobs.signals.starting or jobs.signals.draining:
        return ("warn", _("The server is restarting"),
                _("New requests are taken again in a moment. What is in progress goes on, or its points are returned."))
    paused = [name for name in current_app.kinds if name in pauses]
    if paused and len(paused) == len(current_app.kinds):
        return "warn", _("Everything is paused for now"), _("What is in progress goes on.")
    if paused:
        return "warn", _("It works; some of it is paused for now"), _("What is in progress goes on.")
    if troubles:
        return "warn", _("It works; some of it does not for now"), _("New requests are taken.")
    return "good", _("Everything works"), _("New requests are taken.")


def _kinds(lately):
    if lately is None:
        return []
    return [{"title": kind.title_in(messages.language()), "done": lately["kinds"][name]["done"],
             "interrupted": lately["kinds"][name]["interrupted"],
             "median": messages.duration(lately["kinds"][name]["median_seconds"])
             if lately["kinds"][name]["median_seconds"] is not None else "—"}
            for name, kind in current_app.kinds.items() if name in lately["kinds"]]


def _chart(lately):
    """Each day's finished work: what went through, and what was interrupted on the way."""
    if lately is None:
        return None
    days = [{"label": format_date(date.fromisoformat(day["day"]), "medium"), "iso": day["day"],
             "interrupted": day["interrupted"], "rest": day["done"] + day["failed"] - day["interrupted"]}
            for day in lately["days"]]
    total, hit = lately["done"] + lately["failed"], lately["interrupted"]
    summary = ngettext("%(num)s piece of work ended in these days", "%(num)s pieces of work ended in these days", total)
    return {"days": days, "summary": f"{summary}{'、' if messages.language() == 'ja' else ', '}" + ngettext(
        "%(num)s of them was interrupted.", "%(num)s of them were interrupted.", hit)}
