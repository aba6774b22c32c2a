"""The pages: parse, one domain call, render; post, redirect, get. They work with scripts off."""
import secrets
import shutil
from pathlib import Path
from urllib.parse import urlencode

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

from webapp import accounts, jobs, ledger, messages, recovery, web
from webapp.errors import (
    AinoriError,
    InsufficientPoints,
    InvalidInput,
    JobInFlight,
    LoginRequired,
    NotFound,
    PriceDiffers,
)
from webapp.kinds import Upload

blueprint = Blueprint("pages", __name__)

CONTENT_SECURITY_POLICY = ("default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
                           "form-action 'self'; frame-ancestors 'none'")
TEXTAREA_FROM_CHARACTERS = 300


# --------------------------------------------------------------------------------------- what to do

@blueprint.get("/")
def home():
    kinds = [_kind_view(kind, _fields(kind)) for kind in current_app.kinds.values()]
    return render_template("pages/home.html", kinds=kinds, **_form_context())


@blueprint.get("/kinds/<kind>")
def kind(kind):
    known = web.kind_named(kind)
    return render_template("pages/kind.html", kind=_kind_view(known), fields=_fields(known), **_form_context())


@blueprint.post("/kinds/<kind>")
def submit(kind):
    known, raw = web.kind_named(kind), {}
    try:
        raw, files = _form(known)
        submission = web.submit(known, raw, files, form_key=request.form.get("form_key", ""),
                                shown_price=request.form.get("price"))
    except (AinoriError, OSError) as error:  # the form was read by then
        return _form_again(known, raw or request.form.to_dict(), error)
    recovery.expire_now_and_then(current_app.settings.retention_days)
    return redirect(url_for("pages.job", job_id=submission.job_id), 303)


def _form(kind):
    """The form's values; with the sample button, the bundled sample instead of an upload."""
    raw, files = web.received(kind)
    for name, info in kind.params.model_fields.items():
        if info.annotation is bool and name not in raw:
            raw[name] = False  # a browser sends nothing for a box that is not ticked
    if request.form.get("sample") and kind.sample:
        files = {kind.upload_field: _sample(kind)}
    return raw, files


def _sample(kind):
    source = kind.home / kind.sample
    incoming = web.Incoming(current_app.settings.folder / "uploads")
    g.setdefault("incoming", []).append(incoming)
    with source.open("rb") as file:
        shutil.copyfileobj(file, incoming)
    incoming.complete()
    return jobs.Received(incoming.path, Upload(name=source.name, size=incoming.size, sha256=incoming.sha256))


def _form_again(kind, raw, error):
    """The form with what was typed, and what to do; one in flight leads to it."""
    refusal, status = web.as_refusal(error)
    errors, context = {}, {"form_error": None}
    if isinstance(refusal, InvalidInput):
        known = kind.params.model_fields
        for problem in messages.field_errors(refusal):
            if problem["field"] in known:
                errors.setdefault(problem["field"], problem["message"])
            else:
                context["form_error"] = problem["message"]
    else:
        context["form_error"] = messages.refusal(refusal, current_app.settings.support_contact)
    if isinstance(refusal, JobInFlight):
        context.update(form_error_href=url_for("pages.job", job_id=refusal.facts["job_id"]),
                       form_error_link_text=_("See it"))
    if isinstance(refusal, LoginRequired):
        context.update(form_error_href=url_for("auth.login", next=request.path), form_error_link_text=_("Sign in"))
    if isinstance(refusal, InsufficientPoints):
        context.update(form_error_href=url_for("pages.points"), form_error_link_text=_("See your points"))
    if isinstance(refusal, PriceDiffers):
        context["price"] = refusal.facts["cost"]
    answer = render_template("pages/kind.html", kind=_kind_view(kind), fields=_fields(kind, raw, errors),
                             **_form_context(), **context)
    headers = {}
    after = web.retry_seconds_of(refusal, status)
    if after is not None:
        headers["Retry-After"] = str(after)
    return answer, status, headers


def _form_context():
    return {"form_key": secrets.token_urlsafe(12), "upload_limit_mb": current_app.settings.max_upload_mb}


def _kind_view(kind, fields=()):
    view = web.kind_json(kind, messages.language())
    return {**view, "href": url_for("pages.kind", kind=kind.name), "sample": kind.sample, "fields": fields}


def _fields(kind, raw=None, errors=None):
    """The form's fields, from the JSON Schema of the kind's params."""
    schema = web.params_schema(kind, messages.language())
    required = set(schema.get("required", ()))
    return [_field(name, spec, kind, required, raw, (errors or {}).get(name))
            for name, spec in schema.get("properties", {}).items()]


def _field(name, spec, kind, required, raw, error):
    options = [option for option in spec.get("anyOf", [spec]) if option.get("type") != "null"]
    shape = {**(options[0] if options else {}), **{key: value for key, value in spec.items() if key != "anyOf"}}
    choices = shape.get("enum") or ([shape["const"]] if "const" in shape else None)
    optional = len(options) < len(spec.get("anyOf", [spec]))
    value = spec.get("default") if raw is None else raw.get(name)
    labels = spec.get("labels", {})
    field = {
        "name": name, "label": spec.get("title", name), "help": spec.get("description"), "value": value,
        "required": name in required, "error": error, "advanced": spec.get("advanced", False),
        "accept": spec.get("accept"), "maxlength": shape.get("maxLength"),
        "min": shape.get("minimum", shape.get("exclusiveMinimum")),
        "max": shape.get("maximum", shape.get("exclusiveMaximum")), "step": None, "choices": (), "type": "text",
    }
    if name == kind.upload_field:
        field.update(type="file", value=None)
    elif choices:
        blank = [("", labels.get("", "—"))] if optional else []
        field.update(type="select", choices=blank + [(choice, labels.get(str(choice), choice)) for choice in choices])
    elif shape.get("type") == "boolean":
        field["type"] = "checkbox"
    elif shape.get("type") in ("integer", "number"):
        field.update(type="number", step="1" if shape["type"] == "integer" else "any")
    elif (field["maxlength"] or 0) >= TEXTAREA_FROM_CHARACTERS:
        field["type"] = "textarea"
    return field


# ------------------------------------------------------------------------------------ one and many

@blueprint.get("/jobs/<job_id>")
def job(job_id):
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    row = jobs.poll(job_id)
    kind = current_app.kinds.get(row["kind"])
    view = web.job_json(row)
    others = max(0, jobs.watchers(job_id) - 1)
    final = row["status"] not in jobs.IN_FLIGHT
    if final and row["settlement"] != "due":
        jobs.saw(row, web.viewer_id())
    not_again = jobs.retryable(row)
    again = kind is not None and not_again is None
    answer = render_template(
        "pages/job.html", job=view, kind=_known_kind(kind, row), status_label=messages.status_label(row),
        stages=_stages(kind, row), events=_receipt(kind, row), others=others, can_cancel=not final,
        cancel_note=messages.cancel_sentence(row, jobs.first_asker(job_id) != web.viewer_id(), view["money"], others),
        money_class=view["money"],
        retry_price=jobs.price_again(kind, row) if again else None, form_key=secrets.token_urlsafe(12),
        input_gone=not_again == "INPUT_GONE", result=view["result"], result_template=_result_template(kind),
        exports=_exports(view))
    return answer, {"Cache-Control": "no-store"}


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


def _known_kind(kind, row):
    """What a page says of a kind, even of one that is no longer offered."""
    if kind is not None:
        return _kind_view(kind)
    return {"name": None, "title": row["kind"], "noun": row["kind"], "cost": row["cost"]}


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
    names = [name for name, _title in kind.stages]
    if row["stage"] and row["stage"] not in names:
        names.append(row["stage"])
    waits = row["status"] == "pending"  # to be tried again: the stage is that of the attempt before
    now = names.index(row["stage"]) if row["stage"] in names and not waits else -1
    return [{"name": name, "title": kind.stage_in(name, messages.language()),
             "state": "done" if place < now or row["status"] == "succeeded" else "now" if place == now else "todo"}
            for place, name in enumerate(names)]


def _receipt(kind, row):
    lines = []
    for event in jobs.events(row["id"]):
        text = messages.event_sentence(kind, event)
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
        if jobs.cancel(job_id, web.viewer_id()) == "left":
            flash(_("You have left. It goes on for the others."))
    except AinoriError as error:
        flash(messages.refusal(error))
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
    limit, kinds = 20, current_app.kinds
    current = {"kind": request.args.get("kind", ""), "status": request.args.get("status", "")}
    found = jobs.listing(web.viewer_id(), **current, before=request.args.get("cursor"), limit=limit + 1)
    shown = []
    for row in jobs.poll_listed(found[:limit]):
        shown.append({**web.job_json(row, with_result=False), "title": _known_kind(kinds.get(row["kind"]), row)["title"],
                      "href": url_for("pages.job", job_id=row["id"]), "status_label": messages.status_label(row),
                      "when": row["created_at"]})
    next_href = None
    if len(found) > limit:
        kept = {name: value for name, value in current.items() if value}
        next_href = f"{url_for('pages.history')}?{urlencode({**kept, 'cursor': found[limit - 1]['id']})}"
    return render_template(
        "pages/history.html", jobs=shown, next_href=next_href, current=current,
        kinds=[{"name": name, "title": kind.title_in(messages.language())} for name, kind in kinds.items()],
        statuses=[("pending", _("Waiting")), ("running", _("In progress")), ("succeeded", _("Done")),
                  ("failed", _("Not finished"))])


@blueprint.get("/points")
def points():
    if web.account() is None:
        return redirect(url_for("auth.login", next=request.path), 303)
    user_id = g.viewer["id"]
    jobs.look_after(user_id)
    found = ledger.statement(user_id, web.stored_number(request.args.get("cursor", "")), limit=51)
    return render_template(
        "pages/points.html", balance=ledger.balance(user_id), available=ledger.available(user_id),
        entries=[{"when": entry["created_at"], "text": movement(entry), "points": entry["points"],
                  "balance_after": entry["balance_after"],
                  "href": url_for("pages.job", job_id=entry["job_id"]) if entry["job_id"] else None}
                 for entry in found[:50]],
        next_href=url_for("pages.points", cursor=found[49]["id"]) if len(found) > 50 else None)


def movement(entry):
    """A line of a statement in words."""
    kind = current_app.kinds.get(entry["for_kind"])
    title = kind.title_in(messages.language()) if kind else entry["for_kind"]
    if entry["kind"] == "grant":
        return entry["note"] or _("Added")
    if entry["kind"] == "consume":
        return _("Used for %(title)s, number %(number)s", title=title, number=entry["number"])
    reason = entry["note"] or {"CANCELLED": _("cancelled"), "TIMED_OUT": _("it took too long"),
                               "INTERRUPTED": _("it was interrupted")}.get(entry["error_code"], _("it did not finish"))
    return _("Returned for %(title)s, number %(number)s: %(reason)s", title=title, number=entry["number"], reason=reason)


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
               "balance": None, "unseen": [], "support_contact": current_app.settings.support_contact,
               "registration_open": current_app.settings.registration == "open"}
    if viewer is None:
        return context
    context["viewer"] = {"is_guest": viewer["email"] is None, "email": viewer["email"],
                         "is_admin": bool(viewer["is_admin"])}
    try:
        jobs.look_after(viewer["id"])
        context["balance"] = ledger.available(viewer["id"]) if viewer["email"] else None
        context["unseen"] = [_unseen(row) for row in jobs.unseen(viewer["id"])
                             if request.path != f"/jobs/{row['id']}"]
    except Exception:  # an error page must render when the database cannot be read
        current_app.logger.warning("the page's frame could not read the database")
    return context


def _unseen(row):
    kind = current_app.kinds.get(row["kind"])
    money, facts = jobs.money(row, g.viewer["id"])
    return {"title": kind.title_in(messages.language()) if kind else row["kind"], "number": row["number"],
            "href": url_for("pages.job", job_id=row["id"]),
            "sentence": messages.money_sentence(row, money, facts, current_app.settings.support_contact)}


def _error(error):
    """Any error: a problem for the API, a page that says what to do for a person."""
    if (request.path.startswith("/api/") or request.path == "/metrics"
            or request.accept_mimetypes.best == "application/json"):
        return web.problem(error)
    refusal, status = web.as_refusal(error)
    if request.endpoint == "pages.submit" and status in (403, 413) and request.view_args["kind"] in current_app.kinds:
        typed = {} if status == 413 else request.form.to_dict()  # nothing of it was done: the form keeps it
        return _form_again(current_app.kinds[request.view_args["kind"]], typed, error)
    heading = {404: _("This page does not exist"), 403: _("Not accepted"), 413: _("The file is too large"),
               429: _("Too many requests"), 503: _("Not available at the moment")}.get(
                   status, _("This did not work"))
    page = render_template("pages/error.html", heading=heading,
                           sentence=messages.refusal(refusal, current_app.settings.support_contact))
    answer = Response(page, status=status, mimetype="text/html")
    after = web.retry_seconds_of(refusal, status)
    if after is not None:
        answer.headers["Retry-After"] = str(after)
    return answer


def _headers(answer):
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.headers.setdefault("Referrer-Policy", "same-origin")
    if answer.mimetype == "text/html":
        answer.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        answer.headers.setdefault("Cache-Control", "private, no-cache")
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
    app.context_processor(_context)
    app.register_error_handler(Exception, _error)
    app.after_request(_headers)
