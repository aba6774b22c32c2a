"""The pages: parse, one domain call, render; post, redirect, get. They work with scripts off."""
import re
import secrets
import shutil
from pathlib import Path

from flask import (
    Blueprint,
    Response,
    current_app,
    flash,
    g,
    redirect,
    render_template,
    request,
    url_for,
)
from flask_babel import gettext as _
from jinja2 import FileSystemBytecodeCache

from werkzeug.exceptions import HTTPException

from webapp import accounts, forms, jobs, ledger, messages, recovery, runner, web
from webapp import rows as stored
from webapp.errors import (
    AinoriError,
    InsufficientPoints,
    InvalidInput,
    JobInFlight,
    LoginRequired,
    MoneyDiffers,
    NotFound,
    PriceDiffers,
)
from webapp.kinds import Upload, in_language

blueprint = Blueprint("pages", __name__)

CONTENT_SECURITY_POLICY = ("default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
                           "form-action 'self'; frame-ancestors 'none'")
# Later than usual: not by a little, and not of what takes a moment.
LATE_TIMES, LATE_SECONDS = 1.5, 5
# Of the text of a row: from how much on it is folded, and what stands before the fold.
FOLDED_FROM_CHARACTERS, SHOWN_CHARACTERS, LONGEST_WORD_CHARACTERS = 700, 400, 40


# --------------------------------------------------------------------------------------- what to do

@blueprint.get("/")
def home():
    kinds = [_kind_view(kind) for kind in current_app.kinds.values()]
    if len(kinds) == 1:  # its form stands here
        [only] = current_app.kinds.values()
        kinds[0].update(_form_view(only, _from_address(only)))
    return render_template("pages/home.html", kinds=kinds, form_key=_form_key(), from_address=request.args)


@blueprint.get("/kinds/<kind>")
def kind(kind):
    known = web.kind_named(kind)
    return _form_page(known, texts=_from_address(known), from_address=request.args)


def _from_address(kind):
    """What a link fills in of the form: ``{name: [text, …]}``. It is looked at when the form is sent, like what is typed."""
    return {name: texts for name, texts in request.args.to_dict(flat=False).items() if name in forms.controls(kind)}


@blueprint.post("/kinds/<kind>")
def submit(kind):
    """Whatever it raises, ``_error`` gives the form back with what was filled in."""
    known = web.kind_named(kind)
    raw, files = web.received(known)
    if request.form.get("sample") and known.sample:  # instead of whatever was filled in
        raw, files = {}, {known.upload_field: _sample(known)}
    submission = web.submit(known, raw, files, form_key=request.form.get("form_key", ""),
                            shown_price=request.form.get("price"))
    recovery.expire_now_and_then(current_app.settings.retention_days)
    return redirect(url_for("pages.job", job_id=submission.job_id), 303)


def _sample(kind):
    """The bundled sample, as an upload."""
    source = kind.home / kind.sample
    incoming = web.Incoming(current_app.settings.folder / "uploads")
    g.setdefault("incoming", []).append(incoming)
    with source.open("rb") as file:
        shutil.copyfileobj(file, incoming)
    incoming.complete()
    return jobs.Received(incoming.path, Upload(name=source.name, size=incoming.size, sha256=incoming.sha256))


def _form_again(kind, refusal, status):
    """The form with what was filled in, what is wrong with it beside its field, and what to do."""
    texts, files = _filled_in()
    known, errors, context = forms.controls(kind), {}, {}
    if isinstance(refusal, InvalidInput):
        for problem in messages.field_errors(refusal):
            name, _dot, entry = problem["field"].partition(".")
            if name in known and known[name].type:
                errors.setdefault(name, _of_entry(kind, texts, name, entry, problem["message"]))
            else:
                context["form_error"] = problem["message"]
    else:
        said = messages.refusal(refusal, current_app.settings.support_contact)
        if refusal.facts.get("field") in known:
            errors[refusal.facts["field"]] = said
        else:
            context["form_error"] = said
    if isinstance(refusal, PriceDiffers):
        context["price"] = refusal.facts["cost"]
    answer = _form_page(kind, texts=texts, files=files, errors=errors, **context, **_way_on(refusal))
    after = web.retry_seconds_of(refusal, status)
    return answer, status, {} if after is None else {"Retry-After": str(after)}


def _filled_in():
    """``({name: [text, …]}, {name: file name})`` of the form, as far as it can be read."""
    try:
        return request.form.to_dict(flat=False), {name: part.filename for name, part in request.files.items()
                                                  if part.filename}
    except HTTPException:
        return {}, {}


def _of_entry(kind, texts, name, entry, message):
    """What is wrong with one entry of a list names it."""
    entries = forms.read(kind, texts).get(name)
    if not entry.isdecimal() or not isinstance(entries, list) or int(entry) >= len(entries):
        return message
    return _("“%(entry)s”: %(message)s", entry=entries[int(entry)], message=message)


def _way_on(refusal):
    """Where a refusal leads."""
    if isinstance(refusal, JobInFlight):
        return {"form_error_href": url_for("pages.job", job_id=refusal.facts["job_id"]), "form_error_link_text": _("See it")}
    if isinstance(refusal, LoginRequired):
        return {"form_error_href": url_for("auth.login", next=request.path), "form_error_link_text": _("Sign in")}
    if isinstance(refusal, InsufficientPoints):
        return {"form_error_href": url_for("pages.points"), "form_error_link_text": _("See your points")}
    return {}


def _form_page(kind, texts=(), files=(), errors=(), **context):
    view = {**_kind_view(kind), **_form_view(kind, texts, files, errors)}
    return render_template("pages/kind.html", kind=view, fields=view["fields"], form_key=_form_key(), **context)


def _form_view(kind, texts=(), files=(), errors=()):
    """The form's fields, where one of these that is in flight already is, and what of its service is used up."""
    way = limit = None
    try:
        who = web.preview_asker()
        way, limit = web.standing(kind, who)["in_flight_job_id"], web.over_allowance(kind, who)
    except Exception:  # a form must render when the database cannot be read
        current_app.logger.warning("the form of %s could not read the database", kind.name)
    return {"fields": _opened(kind, forms.fields(kind, messages.language(), texts, files, errors)),
            "upload_limit_mb": current_app.settings.max_upload_mb,
            "limit_note": limit and messages.over_allowance(limit),
            "in_flight_href": url_for("pages.job", job_id=way) if way else None}


def _opened(kind, fields):
    """The fields; those this site cannot take say why, closed, below what it can."""
    reasons = kind.unavailable(current_app.settings.for_kind(kind)) if kind.unavailable else {}
    shown = [{**field, "closed": in_language(reasons.get(field["name"]), messages.language())} for field in fields]
    return sorted(shown, key=lambda field: bool(field["closed"]))


def _form_key():
    return secrets.token_urlsafe(12)


def _kind_view(kind):
    view = web.kind_json(kind, messages.language())
    labels = {key: in_language(text, messages.language()) for key, text in kind.labels.items()}
    return {**view, "href": url_for("pages.kind", kind=kind.name), "sample": kind.sample, "labels": labels}


# ------------------------------------------------------------------------------------ one and many

@blueprint.get("/jobs/<job_id>")
def job(job_id):
    viewer = web.viewer_id()
    if not jobs.visible(job_id, viewer):
        raise NotFound()
    after = jobs.last_event(job_id)  # before the job is read: what is stored meanwhile is told again, not missed
    row = jobs.poll(job_id)
    kind = current_app.kinds.get(row["kind"])
    view = web.job_json(row)
    final = row["status"] not in jobs.IN_FLIGHT
    if final and row["settlement"] != "due" and request.method == "GET":
        jobs.saw(row, viewer)
    answer = render_template(
        "pages/job.html", job=view, kind=_known_kind(kind, row), status_label=messages.status_label(row),
        badge=messages.badge(row, view["money"]), stages=_stages(kind, row), events=_receipt(kind, row),
        **_times(row), account=_account(row),
        after=after, age_seconds=jobs.age_seconds(row),
        money_class=view["money"], **_trying_again(kind, row), result=view["result"],
        result_template=_result_template(kind), exports=_exports(view), **_rows_link(row, view))
    return answer, {"Cache-Control": "no-store"}


def _rows_link(row, view):
    """``rows_href``, the address of the page with its rows, where it left any that are kept, and ``rows_text``."""
    if "csv" not in view["links"] or not row["rows_count"]:
        return {}
    return {"rows_href": url_for("pages.rows", job_id=row["id"]),
            "rows_text": _("Read all %(what)s (%(count)s)", what=_rows_noun(web.rows_spec(row)),
                           count=messages.figure(row["rows_count"]))}


def _times(row):
    """``elapsed`` since it began, or how long it ``took``, as a clock shows it; of what is in flight how long it
    ``usually`` takes, from when on that is long (``late_after``, seconds), and whether it is ``late``."""
    if row["status"] not in jobs.IN_FLIGHT:
        took = jobs.seconds_between(row["started_at"], row["finished_at"])
        return {"took": None if took is None else messages.clock(max(1, took))}
    elapsed = jobs.age_seconds(row, "started_at" if row["started_at"] else "created_at") or 0
    usual = jobs.usual_seconds(row["kind"])
    times = {"elapsed": messages.clock(elapsed), "usually": None, "late_after": None, "late": False}
    if usual is None:
        return times
    late_after = round(LATE_TIMES * usual + LATE_SECONDS)
    return {**times, "usually": messages.duration(usual), "late_after": late_after,
            "late": row["status"] == "running" and elapsed > late_after}


def _account(row):
    """The receipt's lines about points: ``[(label, how many)]``; none for what is free, or somebody else's."""
    if not row["cost"] or row["user_id"] != web.viewer_id():
        return []
    money, facts = jobs.money(row, row["user_id"])
    if money in ("checking", "unknown"):
        return [(_("Used"), _("not confirmed yet"))]
    n = messages.points(facts.get("points", 0))
    lines = [(_("Used"), n)]
    if money == "refunded":
        lines.append((_("Returned"), n))
    elif money == "consumed" and row["status"] == "failed":
        lines.append((_("Kept"), n))
    return lines + ([(_("Balance then"), messages.points(facts["balance"]))] if "balance" in facts else [])


def _trying_again(kind, row):
    not_again = jobs.retryable(row)
    again = kind is not None and not_again is None
    return {"retry_price": jobs.price_again(kind, row) if again else None, "form_key": _form_key(),
            "steps_kept": jobs.steps_kept(row["id"]) if again else 0, "input_gone": not_again == "INPUT_GONE"}


@blueprint.get("/jobs/<job_id>/report.html")
def report(job_id):
    """The report as one file that needs no server: to keep, to send."""
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    row = jobs.poll(job_id)
    if row["status"] != "succeeded" or not row["result"]:
        raise NotFound()
    kind = current_app.kinds.get(row["kind"])
    view = web.job_json(row)
    static = Path(current_app.static_folder)
    sheets = [*sorted((static / "vendor").glob("*.css")), static / "ainori.css", static / "charts.css"]
    page = render_template(
        "pages/report_file.html", standalone=True, job=view, kind=_known_kind(kind, row), result=view["result"],
        result_template=_result_template(kind), title=_known_kind(kind, row)["title"], generated=row["finished_at"],
        money_class=view["money"], inline_css="\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets))
    return Response(page, mimetype="text/html", headers={
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
        "Content-Disposition": f'inline; filename="{row["kind"]}-{row["number"]}.html"'})


@blueprint.get("/jobs/<job_id>/rows")
def rows(job_id):
    """All that a job left, to read: searched, filtered, sorted, a page at a time."""
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    row = jobs.poll(job_id)
    if row["rows_count"] is None:  # not there yet, or never will be: the page of the job says which
        return redirect(url_for("pages.job", job_id=job_id), 303)
    spec, path = web.rows_spec(row), None if row["expired_at"] else runner.rows_path(row)
    context = {"job": web.job_json(row, listed=True), "kind": _known_kind(current_app.kinds.get(row["kind"]), row),
               "what": _rows_noun(spec), "page": None, "form_error": None,
               "given": {name: text for name, text in request.args.items() if text}}
    if path is None:
        return render_template("pages/rows.html", **context, kept=False), 410
    try:
        wanted = web.wanted_rows(row)
    except InvalidInput as error:
        context["form_error"] = messages.refusal(error)
        return render_template("pages/rows.html", **context, **_rows_form(spec), kept=True), 400
    context["page"] = page = stored.page(path, wanted)
    mark = stored.marker(wanted.words)
    # One after another, as the template writes them: between two of them others have their turn.
    shown = (_shown_row(spec, mark, one) for one in page.rows)
    return render_template("pages/rows.html", **context, **_rows_form(spec), kept=True, shown=shown,
                           **_rows_ways(row, wanted, page))


def _rows_noun(spec):
    return in_language(spec.noun, messages.language()) or _("rows")


def _rows_form(spec):
    """``selects`` of its form: ``[{name, label, any, choices}]``, the filters and the order; which are chosen is ``given``."""
    lang = messages.language()
    selects = [{"name": spec.query_name(column), "label": in_language(spec.columns.get(column, column), lang), "any": _("Any"),
                "choices": [(value or spec.EMPTY, in_language(text, lang)) for value, text in choices.items()]}
               for column, choices in spec.filters.items()]
    if spec.orders:
        selects.append({"name": "order", "label": _("Order"), "any": _("As they came"),
                        "choices": [(name, in_language(title, lang)) for name, (title, *_by) in spec.orders.items()]})
    return {"selects": selects, "search_max": stored.SEARCH_CHARACTERS_MAX}


def _rows_ways(row, wanted, page):
    """Where a page of rows leads: to its neighbours, and to its rows as a file."""
    def turned(number):
        order = {"order": wanted.order} if wanted.order else {}
        return url_for("pages.rows", job_id=row["id"], **wanted.query(**order, page=number))
    return {"first": stored.PAGE_ROWS * (page.number - 1) + 1,
            "previous_href": turned(page.number - 1) if page.number > 1 else None,
            "next_href": turned(page.number + 1) if page.number < page.pages else None, "narrowed": wanted.narrows,
            "downloads": [(url_for("api.export", job_id=row["id"], form=form, **wanted.query()), form.upper())
                          for form in ("csv", "json")]}


def _shown_row(spec, mark, row):
    """One row for its card: the ``parts`` of its text, those behind the fold (``folded``), and its ``cells``, each with a
    ``title`` and what is in it: a ``text``, a ``moment``, or ``parts`` where it was searched."""
    lang, text = messages.language(), forms.as_text(row.get(spec.text)) if spec.text else ""
    cells = []
    for column in spec.columns or row:
        value = row.get(column)
        if column == spec.text or value is None or value == "" or value == []:
            continue
        title = in_language(spec.columns.get(column, column), lang)
        cells.append({"title": title, **_shown_cell(spec, mark, column, value)})
    parts, fold = mark(text), _fold(text)
    return {"parts": _cut(parts, 0, fold), "folded": _cut(parts, fold, len(text)), "cells": cells}


def _fold(text):
    """How many characters of a text stand before its fold: all of a short one; else up to a space, if one is near."""
    if len(text) < FOLDED_FROM_CHARACTERS:
        return len(text)
    space = text.rfind(" ", SHOWN_CHARACTERS - LONGEST_WORD_CHARACTERS, SHOWN_CHARACTERS)
    return SHOWN_CHARACTERS if space < 0 else space


def _shown_cell(spec, mark, column, value):
    lang, choices = messages.language(), spec.filters.get(column, {})
    if forms.as_text(value) in choices:
        return {"text": in_language(choices[forms.as_text(value)], lang)}
    if isinstance(value, bool):
        return {"text": _("Yes") if value else _("No")}
    if isinstance(value, (int, float)):
        return {"text": messages.number(value)}
    if isinstance(value, list):
        value = ("、" if lang == "ja" else ", ").join(map(forms.as_text, value))
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value) and messages.moment(value):
        return {"moment": value}
    text = forms.as_text(value)
    return {"text": text} if spec.text else {"parts": mark(text)}


def _cut(parts, begin, end):
    """The parts of a text (as ``rows.marker`` has them) between two places in it."""
    found, at = [], 0
    for part, hit in parts:
        inside = part[max(0, begin - at):max(0, end - at)]
        if inside:
            found.append((inside, hit))
        at += len(part)
    return found


def _known_kind(kind, row):
    """What a page says of a kind, even of one that is no longer offered."""
    if kind is not None:
        return _kind_view(kind)
    return {"name": None, "title": row["kind"], "noun": row["kind"], "cost": row["cost"]}


def _title(row):
    kind = current_app.kinds.get(row["kind"])
    return kind.title_in(messages.language()) if kind else row["kind"]


def _result_template(kind):
    return f"kinds/{kind.name}/result.html" if kind is not None and kind.result_template else None


def _exports(view):
    names = {"csv": _("Table (CSV)"), "json": _("Data (JSON)")}
    exports = [{"href": view["links"][form], "label": label} for form, label in names.items() if form in view["links"]]
    if view["result"] is not None:
        exports.append({"href": url_for("pages.report", job_id=view["id"]), "label": _("Report (one file)")})
    return exports


def _stages(kind, row):
    """Every declared stage as done, now or to come; one that was not declared is shown as it is named."""
    if kind is None:
        return []
    try:
        names = kind.stages_of(kind.params.model_validate_json(row["params"]))
    except Exception:  # params of another version, or gone
        names = kind.stages_of(None)
    if row["stage"] and row["stage"] not in names:
        names.append(row["stage"])
    waits = row["status"] == "pending"  # to be tried again: the stage is that of the attempt before
    now = names.index(row["stage"]) if row["stage"] in names and not waits else -1
    return [{"name": name, "title": kind.stage_in(name, messages.language()),
             "state": "done" if place < now or row["status"] == "succeeded" else "now" if place == now else "todo"}
            for place, name in enumerate(names)]


def _receipt(kind, row):
    lines, begun, who = [], set(), messages.reader(row, web.viewer_id())
    for event in jobs.events(row["id"]):
        text = messages.event_sentence(kind, event, who)
        if event["event"] == "progress":
            if (event["attempt"], text) in begun:
                continue
            begun.add((event["attempt"], text))
        if event["event"] in ("charged", "refunded", "settled", "unknown") and row["user_id"] != web.viewer_id():
            continue
        if text and (not lines or lines[-1]["text"] != text):
            lines.append({"at": event["at"], "text": text})
    return lines


@blueprint.post("/jobs/<job_id>/cancel")
def cancel(job_id):
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    try:
        if jobs.cancel(job_id, web.viewer_id(), request.form.get("money")) == "left":
            flash(_("You have left. It goes on for the others."))
    except AinoriError as error:
        flash(messages.refusal(error), "warning" if isinstance(error, MoneyDiffers) else "message")
    return redirect(url_for("pages.job", job_id=job_id), 303)


@blueprint.post("/jobs/<job_id>/retry")
def retry(job_id):
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    try:
        submission = web.retry(jobs.poll(job_id), request.form.get("form_key", ""), request.form.get("price"))
    except JobInFlight as error:
        flash(messages.refusal(error))
        return redirect(url_for("pages.job", job_id=error.facts["job_id"]), 303)
    except AinoriError as error:
        flash(messages.refusal(error), "error")
        return redirect(url_for("pages.job", job_id=job_id), 303)
    return redirect(url_for("pages.job", job_id=submission.job_id), 303)


@blueprint.get("/history")
def history():
    limit, cursor = 20, request.args.get("cursor")
    current = {"kind": request.args.get("kind", ""), "status": request.args.get("status", "")}
    # Here what was cancelled is not among what failed.
    status = "unfinished" if current["status"] == "failed" else current["status"]
    found = jobs.listing(web.viewer_id(), kind=current["kind"], status=status, before=cursor, limit=limit + 1)
    next_href = None
    if len(found) > limit:
        kept = {name: value for name, value in current.items() if value}
        next_href = url_for("pages.history", **kept, cursor=found[limit - 1]["id"])
    return render_template(
        "pages/history.html", jobs=[_listed(row) for row in jobs.poll_listed(found[:limit])], next_href=next_href,
        current=current, filtered=any(current.values()) or cursor, kinds=_kinds_to_show(current["kind"], found),
        statuses=[("pending", _("Waiting")), ("running", _("In progress")), ("succeeded", _("Done")),
                  ("failed", _("Failed or interrupted")), ("cancelled", _("Cancelled"))])


def _listed(row):
    """One line of the history. Why it failed is said unless the sentence about the points says it."""
    view = web.job_json(row, listed=True)
    told = row["error_code"] is None or row["error_code"] in (*messages.INTERRUPTIONS, "CANCELLED")
    return {**view, "title": _title(row), "href": url_for("pages.job", job_id=row["id"]),
            "status_label": messages.status_label(row), "badge": messages.badge(row, view["money"]),
            "reason": None if told else view["error"]["message"]}


def _kinds_to_show(chosen, found):
    """Those of the filter: what is on, and one that no longer is if this person had it done."""
    kinds = {name: kind.title_in(messages.language()) for name, kind in current_app.kinds.items()}
    if found and chosen:
        kinds.setdefault(chosen, chosen)
    return kinds


@blueprint.get("/points")
def points():
    if web.account() is None:
        return redirect(url_for("auth.login", next=request.path), 303)
    user_id = g.viewer["id"]
    jobs.look_after(user_id)
    found = ledger.statement(user_id, web.stored_number(request.args.get("cursor", "")), limit=51)
    return render_template(
        "pages/points.html", total=ledger.balance(user_id), available=ledger.available(user_id),
        promised=[{**row, "title": _title(row)} for row in ledger.promised(user_id)],
        entries=web.movements(found[:50], "pages.job"),
        next_href=url_for("pages.points", cursor=found[49]["id"]) if len(found) > 50 else None)


# ---------------------------------------------------------------------------------------- language

@blueprint.post("/language")
def language():
    answer, lang = redirect(web.local_path(request.form.get("next")), 303), request.form.get("lang")
    if lang in ("en", "ja"):
        answer.set_cookie("lang", lang, max_age=365 * 86400, samesite="Lax", httponly=True,
                          secure=current_app.settings.production)
        if g.viewer is not None and g.viewer["lang"] != lang:
            accounts.set_lang(g.viewer["id"], lang)
    return answer


# ------------------------------------------------------------------------------- every page, and errors

def _context():
    viewer = g.get("viewer")
    context = {"site_name": current_app.settings.site_name, "lang": messages.language(), "viewer": None,
               "this_page": web.this_page(), "balance": None, "unseen": [], "support_contact": current_app.settings.support_contact,
               "registration_open": current_app.settings.registration == "open"}
    if viewer is None:
        return context
    context["viewer"] = {"is_guest": viewer["email"] is None, "email": viewer["email"],
                         "is_admin": bool(viewer["is_admin"])}
    parts = {"looked_after": lambda: jobs.look_after(viewer["id"]),
             "balance": lambda: ledger.available(viewer["id"]) if viewer["email"] else None,
             "unseen": lambda: [_unseen(row) for row in jobs.unseen(viewer["id"])
                                if request.path != f"/jobs/{row['id']}"]}
    for name, look in parts.items():
        try:
            context[name] = look()
        except Exception:  # an error page must render when the database, or a part of it, cannot be read
            current_app.logger.warning("the page's frame could not read its %s", name)
    return context


def _unseen(row):
    money, facts = jobs.money(row, g.viewer["id"])
    said = messages.money_sentence(row, money, facts, current_app.settings.support_contact)
    if row["error_code"] == "STOPPED":  # of an interruption the sentence about the points says so
        said = messages.error_sentence(row) + ("" if messages.language() == "ja" else " ") + said
    return {"title": _title(row), "number": row["number"],
            "href": url_for("pages.job", job_id=row["id"]),
            "sentence": said}


def _error(error):
    """Any error: a problem for the API, a page that says what to do for a person."""
    if (request.path.startswith("/api/") or request.path == "/metrics"
            or request.accept_mimetypes.best == "application/json"):
        return web.problem(error)
    refusal, status = web.as_refusal(error)
    if request.endpoint == "pages.submit" and request.view_args["kind"] in current_app.kinds:
        return _form_again(current_app.kinds[request.view_args["kind"]], refusal, status)
    heading = {404: _("This page does not exist"), 410: _("This link no longer works"), 403: _("Not accepted"),
               413: _("Too much was sent"), 429: _("Too many requests"),
               503: _("Not available at the moment")}.get(status, _("This did not work"))
    page = render_template("pages/error.html", **{
        "heading": heading, "sentence": messages.refusal(refusal, current_app.settings.support_contact),
        **(_lost(refusal) if status == 404 else {})})
    answer = Response(page, status=status, mimetype="text/html")
    after = web.retry_seconds_of(refusal, status)
    if after is not None:
        answer.headers["Retry-After"] = str(after)
    return answer


def _lost(refusal):
    """What a 404 says. About one piece of work: the number to tell us, and where to sign in; the same whether it
    exists or not."""
    job_id = (request.view_args or {}).get("job_id", "").lower()
    if request.endpoint not in ("pages.job", "pages.rows", "pages.cancel", "pages.retry") or not jobs.is_id(job_id):
        return {"sentence": _("Perhaps the address is mistyped, or the page is no longer there.")} \
            if refusal.code == NotFound.code and request.endpoint is None else {}
    viewer = g.get("viewer")
    signed_in = viewer is not None and viewer["email"] is not None
    return {"heading": _("We cannot show you this"), "lost_number": job_id,
            "sentence": _("It does not exist, or somebody else asked for it."),
            "login_href": None if signed_in else url_for("auth.login", next=url_for("pages.job", job_id=job_id))}


def _headers(answer):
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.headers.setdefault("Referrer-Policy", "same-origin")
    if answer.mimetype == "text/html":
        answer.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        # After signing out, going back must not show what only a signed-in person sees.
        signed_in = request.endpoint != "static" and g.get("viewer") is not None and g.viewer["email"]
        answer.headers.setdefault("Cache-Control", "no-store" if signed_in else "private, no-cache")
        answer.vary.update(("Cookie", "Accept-Language"))
    return answer


class CompiledPages(FileSystemBytecodeCache):
    """Compiling a page takes tens of milliseconds in which nobody is served: once for each version is
    enough. Where it cannot be kept (a full disk), it is compiled once for each start."""

    def dump_bytecode(self, bucket):
        try:
            super().dump_bytecode(bucket)
        except OSError:
            pass


def register(app):
    try:
        app.jinja_env.bytecode_cache = CompiledPages()
    except (OSError, RuntimeError):
        app.logger.info("no folder for temporary files: pages are compiled at each start")
    app.jinja_env.filters.update(moment=messages.moment, figure=messages.figure)
    app.context_processor(_context)
    app.register_error_handler(Exception, _error)
    app.after_request(_headers)
