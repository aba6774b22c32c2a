"""Codes and facts to sentences, in the viewer's language: the one place where money is put into words.

English is the source; ``translations/`` holds the others. Everything here runs in a request (or under
``flask_babel.force_locale``), whose locale is the viewer's.
"""
import json
import re
from datetime import datetime, timedelta, timezone

from flask_babel import format_datetime, format_decimal, get_locale, gettext, ngettext

from webapp import jobs
from webapp.kinds import in_language

# Endings that came from outside the work itself.
INTERRUPTIONS = {"INTERRUPTED", "TIMED_OUT", "KIND_GONE"}


def language():
    locale = get_locale()
    return locale.language if locale is not None and locale.language in ("en", "ja") else "en"


def _(text, **facts):
    """The text in the viewer's language. English is the source and needs no look-up."""
    if language() == "en":
        return text % facts if facts else text
    return gettext(text, **facts)


def points(n):
    return ngettext("%(num)s point", "%(num)s points", figure(n))


class Figure(int):
    """A number that is written as 1,000, and still is one where a sentence depends on how many."""

    def __str__(self):
        return format(self, ",")


def figure(value):
    """A whole number as a ``Figure``; anything else as it is."""
    return Figure(value) if type(value) is int else value


def number(value):
    """Any number as it is read: 1,234 or −0.713, three digits after the point at most."""
    return format_decimal(value).replace("-", "−")


# ------------------------------------------------------------------------------------------- times

# Japan has no summer time: its offset needs no time zone database.
_ZONES = {"en": timezone.utc, "ja": timezone(timedelta(hours=9))}
_MOMENTS = {"en": {"": "d MMM y, HH:mm 'UTC'", "time": "HH:mm:ss 'UTC'", "later": "d MMM, HH:mm:ss 'UTC'"},
            "ja": {"": "y年M月d日 HH:mm 'JST'", "time": "HH:mm:ss 'JST'", "later": "M月d日 HH:mm:ss 'JST'"}}


def moment(value, style="", day=None):
    """A time as text, labelled with its zone: Japan's on Japanese pages, UTC on English ones. ``value``: our JSON's
    text, or a datetime; what is neither is ``None``. ``style``: ``time`` leaves the day out unless it differs from
    that of ``day``."""
    lang = language()
    at, since = _local(value, lang), _local(day, lang)
    if at is None:
        return None
    if style == "time" and since is not None and since.date() != at.date():
        style = "later"
    return format_datetime(at, _MOMENTS[lang][style], rebase=False)


def _local(value, lang):
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).astimezone(_ZONES[lang])
    except (TypeError, ValueError, OverflowError):
        return None  # written by hand


def as_sentence(text):
    """What somebody typed, with an end that more can follow."""
    text = text.strip()
    return text if text[-1:] in ".!?…。！？" else text + ("." if text.isascii() else "。")


# ---------------------------------------------------------------------------------------- refusals

def refusal(error, support_contact=""):
    """The sentence for a refusal: what is wrong, and what to do."""
    facts = error.facts
    code = error.code
    if hasattr(error, "message"):
        return in_language(error.message, language())
    if code == "INVALID_INPUT":
        between = "" if language() == "ja" else " "
        return (between.join(problem["message"] for problem in field_errors(error))
                or _("Please check what you entered."))
    make = _REFUSALS.get(code)
    if make is None:
        return _("Something went wrong on our side. Please try again.")
    return make(facts)


_REFUSALS = {
    "UNKNOWN_KIND": lambda f: _("There is nothing of this name here."),
    "NOT_FOUND": lambda f: _("This does not exist, or it is not yours. If you paid points for it, tell us its number, which "
                             "your statement of points shows: nothing is lost."),
    "LOGIN_REQUIRED": lambda f: _("This costs points: please sign in first.") if f.get("cost") else
    _("Please sign in first."),
    "BAD_TOKEN": lambda f: _("This access token is not valid. Ask the operator for a new one."),
    "TOKEN_REQUIRED": lambda f: _("This is for programs of the operator: send an admin's access token."),
    "ADMINS_ONLY": lambda f: _("This is for the operator only, and your account is not an admin's."),
    "SESSION_REQUIRED": lambda f: _("This is done on the page, by whoever is signed in there: an access token cannot."),
    "REGISTRATION_CLOSED": lambda f: _("Accounts on this site are made by whoever runs it: please ask them."),
    "LINK_EXPIRED": lambda f: _("This link has been used, replaced, or is too old. If you have just used it, all is done: please "
                                "sign in. Otherwise ask for a new one."),
    "ADMIN_EXISTS": lambda f: _("This site has its operator already, so this link does nothing any more. Please sign in."),
    "KIND_PAUSED": lambda f: _("This is paused for now: %(note)s Nothing was started and nothing was used.",
                               note=as_sentence(f["note"])) if f.get("note") else
    _("This is paused for now. Nothing was started and nothing was used; please try again later."),
    "DAILY_LIMIT": lambda f: _("What visitors without an account may ask of %(service)s today is used up: sign in, or try again "
                               "after %(time)s. Nothing was started and nothing was used.", **_metered(f))
    if f.get("guests") else
    _("What this site may ask of %(service)s in a day is used up. Please try again after %(time)s. Nothing was started and "
      "nothing was used.", **_metered(f)),
    "CSRF": lambda f: _("This page was opened before you signed in or out, or came from elsewhere. Nothing was started; please "
                        "press the button again."),
    "INSUFFICIENT_POINTS": lambda f: ngettext(
        "This costs %(cost)s and you have %(balance)s available: %(num)s more is needed. Nothing was started and nothing "
        "was used.",
        "This costs %(cost)s and you have %(balance)s available: %(num)s more are needed. Nothing was started and nothing "
        "was used.", f["missing"], cost=points(f["cost"]), balance=points(f["balance"])),
    "PRICE_DIFFERS": lambda f: _("This costs %(cost)s now. Nothing was started and nothing was used: press the button again "
                                 "if that is right.", cost=points(f["cost"])),
    "MONEY_DIFFERS": lambda f: ngettext(
        "%(num)s point has been used meanwhile: if you cancel now it is not returned. Press again if that is right.",
        "%(num)s points have been used meanwhile: if you cancel now they are not returned. Press again if that is right.",
        figure(f["cost"])) if f["money"] == "consumed" else
    _("It cannot be seen now whether points have been used: what has been used is not returned if you cancel now. Press again "
      "if that is right."),
    "STATEMENT_MOVED": lambda f: _("Points were booked for this person since the page was opened, so nothing was added: "
                                   "look at the statement, then press the button again if that is right."),
    "LAST_ADMIN": lambda f: _("This is the only operator: make another one first."),
    "JOB_IN_FLIGHT": lambda f: _("You already have one of these in progress. No points were used for this request."),
    "ALREADY_FINAL": lambda f: _("It has already finished: there is nothing to cancel."),
    "NOT_RETRYABLE": lambda f: {
        "NOT_FAILED": _("Only what has failed can be tried again."),
        "INPUT_GONE": _("The file you sent is no longer kept: please send it again."),
        "KIND_GONE": _("This site no longer offers this."),
    }.get(f.get("reason"), _("This cannot be tried again.")),
    "IDEMPOTENCY_KEY_REUSED": lambda f: _("This key was used for another request. Use a new key. No points were used."),
    "FILE_TOO_LARGE": lambda f: _("The file is too large: at most %(limit)s MB. Nothing was stored.",
                                  limit=f.get("limit_mb")),
    "TEXT_TOO_LARGE": lambda f: _("This is more text than can be sent at once: at most %(limit)s MB. Nothing was started.",
                                  limit=f.get("limit_mb")),
    "KIND_FAILED": lambda f: _("This cannot be started at the moment: something is wrong with it on our side, which has been "
                               "recorded for the operator. No points were used."),
    "UNSUPPORTED_MEDIA_TYPE": lambda f: _("Send JSON, or a form with the file. Nothing was stored."),
    "RATE_LIMITED": lambda f: ngettext(
        "Too many requests from your address. Please wait %(num)s minute and try again. Nothing was started.",
        "Too many requests from your address. Please wait %(num)s minutes and try again. Nothing was started.",
        -(-f.get("retry_after_seconds", 60) // 60)),
    "BUSY": lambda f: _("The same is just being cancelled. This request was not stored and used no points; please try "
                        "again in a moment.") if f.get("reason") == "cancelling" else
    _("Too much is going on at the moment. This request was not stored and used no points; please try again in a moment."),
    "QUEUE_FULL": lambda f: _("Too much is waiting at the moment. This request was not stored and used no points; please try "
                              "again later."),
    "TOO_MANY_STREAMS": lambda f: _("Too many live views are open. The page asks again by itself."),
    "SHUTTING_DOWN": lambda f: _("The server is restarting. This request was not stored and used no points; please try again "
                                 "in a moment."),
    "STORAGE_UNAVAILABLE": lambda f: _("The server cannot read or store what it needs at the moment. This request used no "
                                       "points; please try again later."),
    "METHOD_NOT_ALLOWED": lambda f: _("This address does not answer that method."),
    "BAD_REQUEST": lambda f: _("The request could not be read. Nothing was stored and no points were used; please go back and try "
                               "again."),
}


def over_allowance(limit):
    """A ``DailyLimit``, said before anything is asked for."""
    if limit.facts["guests"]:
        return _("What visitors without an account may ask of %(service)s today is used up: sign in, or try again after "
                 "%(time)s.", **_metered(limit.facts))
    return _ERRORS["DAILY_LIMIT"](limit.facts)


def _metered(facts):
    """Whose allowance it is, and when it is renewed."""
    return {"service": in_language(facts.get("service"), language()) or _("this service"),
            "time": moment(facts.get("retry_at")) or "?"}


def field_errors(error):
    """``[{field, message}]`` of an ``InvalidInput``, in the viewer's language."""
    lang = language()
    return [{"field": problem["field"], "message": _field_message(problem, lang)} for problem in error.facts["errors"]]


def _field_message(problem, lang):
    if not isinstance(problem["message"], str):
        return in_language(problem["message"], lang)
    facts = problem.get("facts", {})
    make = _FIELD_MESSAGES.get(problem.get("type"))
    if make is not None:
        return make(facts)
    if problem["message"].startswith("value is not a valid email address"):  # of EmailStr, whose type says nothing
        return _("This must be an e-mail address, as in name@example.org.")
    if lang in facts:  # a kind's own validation, with its words in both languages
        return facts[lang]
    text = problem["message"].removeprefix("Value error, ")
    return text[:1].upper() + text[1:]


def _number(bound):
    return format_decimal(bound) if isinstance(bound, (int, float)) else bound


def _choices(expected):
    """Pydantic's ``'a', 'b' or 3`` without its English."""
    named = [quoted or bare for _quote, quoted, bare in re.findall(
        r"""(?:^|, | or )(?:(['"])(.*?)\1|([^'",]+?))(?=$|, | or )""", expected)]
    return ("、" if language() == "ja" else ", ").join(named)


_FIELD_MESSAGES = {
    "missing": lambda f: _("This is needed."),
    "string_too_short": lambda f: _("At least %(n)s characters.", n=_number(f["min_length"])) if f["min_length"] > 1
    else _("This is needed."),
    "string_too_long": lambda f: _("At most %(n)s characters.", n=_number(f["max_length"])),
    "string_type": lambda f: _("This must be text."),
    "string_unicode": lambda f: _("This must be text."),
    "greater_than_equal": lambda f: _("Must be at least %(n)s.", n=_number(f["ge"])),
    "greater_than": lambda f: _("Must be more than %(n)s.", n=_number(f["gt"])),
    "less_than_equal": lambda f: _("Must be at most %(n)s.", n=_number(f["le"])),
    "less_than": lambda f: _("Must be less than %(n)s.", n=_number(f["lt"])),
    "int_parsing": lambda f: _("This must be a whole number."),
    "int_from_float": lambda f: _("This must be a whole number."),
    "int_type": lambda f: _("This must be a whole number."),
    "float_parsing": lambda f: _("This must be a number."),
    "float_type": lambda f: _("This must be a number."),
    "finite_number": lambda f: _("This must be a number."),
    "decimal_parsing": lambda f: _("This must be a number."),
    "decimal_type": lambda f: _("This must be a number."),
    "decimal_max_places": lambda f: _("At most %(n)s digits after the point.", n=f["decimal_places"]),
    "decimal_max_digits": lambda f: _("At most %(n)s digits.", n=f["max_digits"]),
    "multiple_of": lambda f: _("Must be a multiple of %(n)s.", n=_number(f["multiple_of"])),
    "too_short": lambda f: ngettext("At least %(num)s is needed.", "At least %(num)s are needed.", f["min_length"]),
    "too_long": lambda f: ngettext("At most %(num)s is allowed.", "At most %(num)s are allowed.", f["max_length"]),
    "list_type": lambda f: _("This must be a list."),
    "set_type": lambda f: _("This must be a list."),
    "string_pattern_mismatch": lambda f: _("This does not have the form that is asked for."),
    "url_parsing": lambda f: _("This must be an address, as in https://example.org."),
    "url_scheme": lambda f: _("This must be an address that begins with %(schemes)s.",
                              schemes=_choices(f["expected_schemes"])),
    "uuid_parsing": lambda f: _("This does not have the form that is asked for."),
    **dict.fromkeys(("date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact", "date_type"),
                    lambda f: _("This must be a date, as in 2026-11-30.")),
    **dict.fromkeys(("time_parsing", "time_type"), lambda f: _("This must be a time, as in 14:30.")),
    **dict.fromkeys(("datetime_parsing", "datetime_from_date_parsing", "datetime_type"),
                    lambda f: _("This must be a date and a time, as in 2026-11-30T14:30.")),
    **dict.fromkeys(("date_past", "datetime_past"), lambda f: _("This must be in the past.")),
    **dict.fromkeys(("date_future", "datetime_future"), lambda f: _("This must be in the future.")),
    "timezone_aware": lambda f: _("This needs its time zone, as in 2026-11-30T14:30Z."),
    "timezone_naive": lambda f: _("This must be without a time zone, as in 2026-11-30T14:30."),
    "time_delta_parsing": lambda f: _("This must be a length of time, as in 1:30:00."),
    "bool_parsing": lambda f: _("This must be yes or no."),
    "bool_type": lambda f: _("This must be yes or no."),
    "literal_error": lambda f: _("Must be one of: %(choices)s.", choices=_choices(f["expected"])),
    "enum": lambda f: _("Must be one of: %(choices)s.", choices=_choices(f["expected"])),
    "extra_forbidden": lambda f: _("There is no such field."),
    "model_type": lambda f: _("Please choose a file."),
    "json_invalid": lambda f: _("Send a JSON object."),
}


# ------------------------------------------------------------------------------------------ money

def money_sentence(job, money, facts, support_contact="", who="asker"):
    """What happened to the points. After an interruption the claims are fixed: none used, returned,
    being checked, or not to be confirmed (with the number to tell us). ``who``: as for ``error_sentence``."""
    interrupted = _was_interrupted(job)
    if money == "checking":
        return _("The work was interrupted. We are checking what happened…")
    if money == "unknown":
        return _unknown_sentence(job, support_contact)
    if money == "refunded":
        n, balance = figure(facts["points"]), figure(facts["balance"])
        if interrupted:
            return ngettext(
                "The work was interrupted. The %(num)s point it had used has been returned (balance %(balance)s).",
                "The work was interrupted. The %(num)s points it had used have been returned (balance %(balance)s).",
                n, balance=balance)
        return ngettext("The %(num)s point it had used has been returned (balance %(balance)s).",
                        "The %(num)s points it had used have been returned (balance %(balance)s).", n, balance=balance)
    if money == "consumed":
        return _consumed_sentence(job, facts, who)
    if interrupted:
        return _("The work was interrupted. No points were used.")
    if job["status"] in jobs.IN_FLIGHT:
        return _("No points have been used yet.") if job["cost"] else _("This is free.")
    return _("No points were used.")


def _was_interrupted(job):
    """Whether it ended from outside, and had begun: what never began was not interrupted."""
    return job["error_code"] in INTERRUPTIONS and job["attempt"] > 0


def _unknown_sentence(job, contact):
    if contact:
        return _("The work was interrupted and we could not confirm your points. Please tell us number %(number)s at "
                 "%(contact)s.", number=job["number"], contact=contact)
    return _("The work was interrupted and we could not confirm your points. Please tell us number %(number)s.",
             number=job["number"])


def _consumed_sentence(job, facts, who):
    n, balance = figure(facts["points"]), figure(facts["balance"])
    if job["error_code"] == "CANCELLED" and who == "operator":
        return ngettext("The person who asked cancelled after %(num)s point had been used: it is kept (balance %(balance)s).",
                        "The person who asked cancelled after %(num)s points had been used: they are kept (balance "
                        "%(balance)s).", n, balance=balance)
    if job["error_code"] == "CANCELLED":
        return ngettext("You cancelled after %(num)s point had been used: it is kept (balance %(balance)s).",
                        "You cancelled after %(num)s points had been used: they are kept (balance %(balance)s).",
                        n, balance=balance)
    if job["kept_by"]:
        return ngettext("%(num)s point was used and is kept; the operator has looked at it (balance %(balance)s).",
                        "%(num)s points were used and are kept; the operator has looked at it (balance %(balance)s).",
                        n, balance=balance)
    return ngettext("%(num)s point was used (balance %(balance)s).",
                    "%(num)s points were used (balance %(balance)s).", n, balance=balance)


def cancel_sentence(job, money, others):
    """What a cancel would mean, said beforehand."""
    if others:
        return _("Others wait for the same: it goes on for them, and you only leave.")
    if job["share_key"]:
        return _("Nobody else waits for it: if you cancel now, it ends.")
    if money == "consumed":
        return _("The points have been used already: if you cancel now they are not returned.")
    if money == "refunded":
        return _("Its points have been returned already: if you cancel now, none are used.")
    if money == "unknown":
        return _("It cannot be seen now whether points have been used: what has been used is not returned if you cancel now.")
    return _("Nothing has been used: if you cancel now, no points are used.") if job["cost"] else \
        _("It is free: if you cancel now, it ends without a result.")


def stay_sentence(job, left, others):
    """What becomes of work in flight if this person does nothing, or has ``left`` it already."""
    if job["stopped_by"]:
        return _("The operator is stopping this. If it ends without a result, points that it has used are returned.") \
            if job["cost"] else _("The operator is stopping this.")
    if job["cancel_requested_at"]:
        return _("You have left this, and it is being cancelled.") if left else \
            _("You have asked to cancel this: it ends in a moment.")
    if left and others:
        return _("You have left this. It goes on for the others; the result will still be in your history.")
    return _("You may close this page. The work goes on, and the result will be in your history.")


def others_sentence(n):
    return ngettext("Shared with %(num)s other: it is done once, for both of you.",
                    "Shared with %(num)s others: it is done once, for all of you.", n)


def if_stopped_sentence(goes_on, outcome, n):
    """What would become of paid work and its points if the server stopped now (``jobs.if_stopped``)."""
    if goes_on and outcome == "none":
        return _("If the server stopped now: it would go on by itself afterwards. No points have been used yet.")
    if outcome == "none":
        return _("If the server stopped now: it would end, and no points would be used.")
    if goes_on and outcome != "refunded":
        return ngettext(
            "If the server stopped now: it would go on by itself afterwards, and the %(num)s point would not be used twice.",
            "If the server stopped now: it would go on by itself afterwards, and the %(num)s points would not be used twice.",
            n)
    if goes_on:
        return _("If the server stopped now: it would go on by itself afterwards. Its points have been returned already.")
    if outcome == "refunded":
        return _("If the server stopped now: it would end. Its points have been returned already.")
    if outcome == "kept":
        return ngettext("If the server stopped now: it would end. You cancelled after %(num)s point had been used: it is kept.",
                        "If the server stopped now: it would end. You cancelled after %(num)s points had been used: "
                        "they are kept.", n)
    return ngettext("If the server stopped now: it would end, and the %(num)s point it has used would be returned.",
                    "If the server stopped now: it would end, and the %(num)s points it has used would be returned.", n)


def movement(kind, entry):
    """A ledger entry in a person's statement: ``(what it was for, why)``. ``kind``: as it is known here, or ``None``."""
    note = _("Welcome points") if entry["note"] == "Welcome points" else entry["note"] or ""
    if entry["kind"] == "grant":
        return note or _("Added"), ""
    title = kind.title_in(language()) if kind else entry["for_kind"]
    if entry["kind"] == "refund":
        return (_("Returned for %(title)s", title=title),
                note or (error_sentence(entry) if entry["error_code"] else ""))
    why = ""
    if entry["kept_by"]:
        why = _("Kept: the operator has looked at it.")
    elif entry["error_code"] == "CANCELLED" and not entry["returned"]:
        why = _("Kept: cancelled after it had been used.")
    return _("Used for %(title)s", title=title), why


# -------------------------------------------------------------------------------------------- time

def duration(seconds):
    """About how long, as a person says it."""
    if seconds < 57.5:
        n = max(1, round(seconds) if seconds < 10 else 5 * round(seconds / 5))
        return ngettext("about %(num)s second", "about %(num)s seconds", n)
    if seconds < 59.5 * 60:
        return ngettext("about %(num)s minute", "about %(num)s minutes", max(1, round(seconds / 60)))
    return ngettext("about %(num)s hour", "about %(num)s hours", max(1, round(seconds / 3600)))


def clock(seconds):
    """So long, as a clock shows it: 0:42, 12:03, 1:00:00."""
    minutes, seconds = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


# ------------------------------------------------------------------------------------------- errors

def error_sentence(job, who="asker"):
    """Why a job failed. ``who`` reads it: the ``asker``, one who had ``left`` it to others, or the ``operator``."""
    code = job["error_code"]
    facts = _object(job["error_facts"])
    if facts.get("message"):
        return in_language(facts["message"], language())
    make = _CANCELLED[who] if code == "CANCELLED" and who != "asker" else _ERRORS.get(code)
    sentence = make(facts) if make else _("It could not be finished (%(code)s).", code=code)
    if code in INTERRUPTIONS and job["attempts_spent"] > 1:
        sentence += ("" if language() == "ja" else " ") + _("It was tried %(n)s times.", n=job["attempts_spent"])
    return sentence


_ERRORS = {
    "INTERRUPTED": lambda f: _("The server stopped while this was being worked on."),
    "TIMED_OUT": lambda f: _("This took longer than allowed and was stopped."),
    "CANCELLED": lambda f: _("You cancelled this."),
    "STOPPED": lambda f: _("The operator stopped this."),
    "INSUFFICIENT_POINTS": lambda f: _("Your points no longer sufficed when the work began to cost."),
    "UPSTREAM_UNAVAILABLE": lambda f: _("The service at %(host)s did not answer. Please try again later.",
                                        host=f.get("host", "?")),
    "DAILY_LIMIT": lambda f: _("What this site may ask of %(service)s in a day is used up. Please try again after %(time)s.",
                               **_metered(f)),
    "KIND_GONE": lambda f: _("This site has changed and no longer offers this as it was asked for."),
    "AI_UNAVAILABLE": lambda f: _("The AI did not answer. Please try again later."),
    "STORAGE_UNAVAILABLE": lambda f: _("The server could not store anything. Please try again later."),
    "BUSY": lambda f: _("The database was busy for too long. Please try again."),
    "INTERNAL_ERROR": lambda f: _("Something went wrong on our side; it has been recorded for the operator."),
}


_CANCELLED = {
    "left": lambda f: _("You had left this; the last person who waited for it cancelled it."),
    "operator": lambda f: _("The person who asked cancelled it."),
}


def interruption_sentence(job, reason, is_last=True):
    """What happened to an attempt, and that it goes on by itself where it does."""
    happened = {"timed_out": _("This took longer than allowed and was stopped."),
                "drained": _("The server was restarted while this was being worked on.")}.get(
                    reason, _("The server stopped while this was being worked on."))
    if job["status"] not in jobs.IN_FLIGHT or not is_last:
        return happened
    goes_on = _("It goes on by itself: try %(n)s of %(max)s.", n=job["attempts_spent"] + 1, max=job["max_attempts"]) \
        if job["attempts_spent"] else _("It goes on by itself.")
    return happened + ("" if language() == "ja" else " ") + goes_on


def _interruptions(job):
    found = jobs.interruptions(job)
    return [{"attempt": row["attempt"], "reason": row["reason"], "at": row["at"],
             "message": interruption_sentence(job, row["reason"], row is found[-1])} for row in found]


def _object(text):
    """The JSON object that stands in a row. Something else that was written there by hand breaks no page."""
    found = json.loads(text or "{}")
    return found if isinstance(found, dict) else {}


def badge(job, money):
    """The look of its status: one of the four, or ``cancelled``; what is being checked looks as if it waited."""
    if money == "checking":
        return "pending"
    return "cancelled" if job["status"] == "failed" and job["error_code"] == "CANCELLED" else job["status"]


def status_label(job):
    if job["status"] == "failed" and job["error_code"] == "CANCELLED":
        return _("Cancelled")
    if job["status"] == "failed" and job["error_code"] == "STOPPED":
        return _("Stopped")
    if job["status"] == "failed" and _was_interrupted(job):
        return _("Interrupted")
    return {"pending": _("Waiting"), "running": _("In progress"), "succeeded": _("Done"),
            "failed": _("Failed")}[job["status"]]


def progress_sentence(kind, job, before=0, who="asker"):
    """What it is doing now: '<stage>: 420 of 1,000', or the kind's own words. ``before``: how many wait before it.
    ``who``: as for ``error_sentence``."""
    lang = language()
    note = _object(job["progress_note"])
    if job["status"] == "pending":
        if job["attempt"]:
            return _("Waiting to be tried again.")
        return _("Waiting for a free place: %(n)s before it.", n=before) if before else _("Waiting for a free place.")
    if job["status"] == "succeeded":
        return _("Done.")
    if job["status"] == "failed":
        return error_sentence(job, who)
    if note.get("message"):
        return in_language(note["message"], lang)
    stage = kind.stage_in(job["stage"], lang) if kind else (job["stage"] or "")
    if not stage:
        return _("Starting.")
    if note.get("done") is not None and note.get("total"):
        return _("%(stage)s: %(done)s of %(total)s", stage=stage, done=format_decimal(round(note["done"])),
                 total=format_decimal(round(note["total"])))
    return stage


def event_sentence(kind, event, who="asker"):
    """One line of the receipt, or ``None`` for what only the live view needs. ``who``: as for ``error_sentence``."""
    if event["event"] == "cancel_requested" and who == "left":
        return _("The last person who waited for it asked to cancel.")
    data = {**json.loads(event["data"] or "{}"), "attempt": event["attempt"]}
    if event["event"] == "progress":
        stage = kind.stage_in(data.get("stage"), language()) if kind else data.get("stage")
        return stage or None
    make = _EVENTS.get(event["event"])
    return make(data) if make else None


_EVENTS = {
    "submitted": lambda d: _("Accepted; it costs %(cost)s.", cost=points(d["cost"])) if d.get("cost") else _("Accepted."),
    "joined": lambda d: _("Somebody else asked for the same and shares this."),
    "left": lambda d: _("Somebody who shared this has left."),
    "claimed": lambda d: _("Started again.") if d["attempt"] > 1 else _("Started."),
    "charged": lambda d: _("%(points)s used (balance %(balance)s).", points=points(d["points"]), balance=figure(d["balance"])),
    "refunded": lambda d: _("%(points)s returned (balance %(balance)s).", points=points(d["points"]),
                            balance=figure(d["balance"])),
    "released": lambda d: _("The server was restarted: this goes back into the queue."),
    "interrupted": lambda d: _("Took too long and was stopped.") if d.get("reason") == "timed_out"
    else _("Interrupted: the server stopped."),
    "cancel_requested": lambda d: _("You asked to cancel."),
    "stop_requested": lambda d: _("The operator asked it to stop."),
    "succeeded": lambda d: _("Finished."),
    "failed": lambda d: _("Ended without a result."),
    "settled": lambda d: _("%(points)s returned (balance %(balance)s).", points=points(d["points"]), balance=figure(d["balance"]))
    if d.get("points") else None,
    "unknown": lambda d: _("Your points could not be confirmed; this has been recorded for the operator."),
}


# ---------------------------------------------------------------------------------- the Job as JSON

def reader(job, viewer_id):
    """Who this is to a job: ``asker``, or ``left`` who waits for it no longer."""
    return "left" if job["share_key"] and jobs.has_left(job["id"], viewer_id) else "asker"


def job_json(job, viewer_id, kinds, support_contact="", with_result=True, with_notes=True):
    """A job as the contract shows it to this person. ``with_notes``: with what only its own page has to say."""
    kind = kinds.get(job["kind"])
    # Not in a stream or a list, where it would be said once and stand while the queue moves on.
    before = jobs.place(job) if with_result and job["status"] == "pending" and not job["attempt"] else 0
    money, facts = jobs.money(job, viewer_id)
    who = reader(job, viewer_id)
    path = f"/api/jobs/{job['id']}"
    error = None
    if job["status"] == "failed":
        own = _object(job["error_facts"])
        own.pop("message", None)
        error = {**own, "code": job["error_code"], "message": error_sentence(job, who)}
    return {
        "id": job["id"], "number": job["number"], "kind": job["kind"], "status": job["status"], "stage": job["stage"],
        "progress": round(job["progress"], 4), "message": progress_sentence(kind, job, before, who),
        "attempt": job["attempt"], "attempts_spent": job["attempts_spent"], "max_attempts": job["max_attempts"], "cost": job["cost"],
        "others": jobs.others(job, viewer_id), "interruptions": _interruptions(job), "money": money,
        "money_message": money_sentence(job, money, facts, support_contact), "error": error,
        "result": json.loads(job["result"]) if with_result and job["result"] else None,
        "files": [{"name": file["name"], "media_type": file["media_type"], "size_bytes": file["size_bytes"],
                   "href": f"{path}/files/{file['name']}"} for file in jobs.files(job["id"])]
        if job["status"] == "succeeded" else [],
        **_notes(job, viewer_id, money, with_notes),
        "retry_of": job["retry_of"], "cancel_requested_at": job["cancel_requested_at"], "created_at": job["created_at"],
        "started_at": job["started_at"], "finished_at": job["finished_at"],
        "links": {"self": path, "events": f"{path}/events", "page": f"/jobs/{job['id']}",
                  **({"csv": f"{path}/export.csv", "json": f"{path}/export.json"} if job["rows_count"] is not None
                     and not job["expired_at"] else {})},
    }


def _notes(job, viewer_id, money, wanted):
    """What is said beside work in flight; null where there is nothing to say, and of what is final. ``cancel_note``: null
    where there is nothing to cancel for this person."""
    notes = dict.fromkeys(("if_stopped", "stay_note", "cancel_note", "others_message"))
    if not wanted or job["status"] not in jobs.IN_FLIGHT:
        return notes
    left, others = reader(job, viewer_id) == "left", jobs.others(job, viewer_id)
    if job["cost"] and job["user_id"] == viewer_id and (found := jobs.if_stopped(job)):  # whoever joined pays nothing
        notes["if_stopped"] = if_stopped_sentence(*found)
    if not job["cancel_requested_at"] and not (left and others):
        notes["cancel_note"] = cancel_sentence(job, money, others)
    if others and not left:
        notes["others_message"] = others_sentence(others)
    return {**notes, "stay_note": stay_sentence(job, left, others)}
