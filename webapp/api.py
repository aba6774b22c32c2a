"""The JSON API: parse, one domain call, answer. Errors are RFC 9457 problems with ``code`` and facts."""
import csv
import hashlib
import io
import json

from flask import Blueprint, Response, current_app, g, jsonify, request, send_from_directory
from flask_babel import force_locale
from werkzeug.exceptions import BadRequest

from webapp import jobs, ledger, live, messages, recovery, rows, runner, web
from webapp.errors import InvalidInput, LoginRequired, NotFound

blueprint = Blueprint("api", __name__)

FREE_DISK_BYTES_MIN = 50_000_000


# ------------------------------------------------------------------------------------------- kinds

@blueprint.get("/api/kinds")
def kinds():
    return {"kinds": [web.kind_json(kind, messages.language()) for kind in current_app.kinds.values()]}


@blueprint.route("/api/kinds/<name>/precheck", methods=["GET", "POST"])
def precheck(name):
    kind, who = web.kind_named(name), web.preview_asker()
    raw, files = web.received(kind) if request.method == "POST" else ({}, {})
    jobs.look_after(who.user_id)
    balance = ledger.available(who.user_id) if who.user_id != -1 else 0
    answer = {"ok": False, "cost": None if callable(kind.cost) else kind.cost, "balance": balance,
              "in_flight_job_id": None, "would_join": False, "cached": False, "reasons": []}
    try:
        order = web.order_of(kind, raw, files, who)
    except InvalidInput as error:
        if request.method == "GET":  # nothing was entered yet: only what needs no input is said
            found = web.standing(kind, who)
            return {**answer, **found, "ok": not found["reasons"]}
        return {**answer, "reasons": [error.code], "errors": messages.field_errors(error)}
    except LoginRequired as error:
        return {**answer, "cost": error.facts["cost"], "reasons": [error.code]}
    except Exception as error:
        refusal, status = web.as_refusal(error)
        if status >= 500:
            raise
        return {**answer, "reasons": [refusal.code], "message": messages.refusal(refusal)}
    found = jobs.preview(order)
    recovery.expire_now_and_then(current_app.settings.retention_days)
    return {**answer, **found, "cost": order.cost, "ok": not found["reasons"]}


@blueprint.post("/api/kinds/<name>/jobs")
def submit(name):
    kind = web.kind_named(name)
    raw, files = web.received(kind)
    return submission_answer(web.submit(kind, raw, files, _idempotency_key()))


def _idempotency_key():
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > 200:
        raise InvalidInput([{"field": "Idempotency-Key", "type": "string_too_long", "facts": {"max_length": 200},
                             "message": "too long"}])
    return f"api:{key}" if key else None


def submission_answer(submission):
    """202 for what is in flight, 200 for what was there already."""
    recovery.expire_now_and_then(current_app.settings.retention_days)
    job = submission.job or jobs.poll(submission.job_id)
    answer = jsonify(job=web.job_json(job), joined=submission.outcome == "joined",
                     cached=submission.outcome == "cached")
    answer.status_code = 202 if submission.outcome in ("new", "joined") else 200
    answer.headers["Location"] = f"/api/jobs/{job['id']}"
    answer.headers["Retry-After"] = "1"
    return answer


# -------------------------------------------------------------------------------------------- jobs

def _own(job_id):
    """The job, reaped and settled if need be; somebody else's does not exist."""
    if not jobs.visible(job_id, web.viewer_id()):
        raise NotFound()
    return jobs.poll(job_id)


@blueprint.get("/api/jobs")
def listing():
    limit = 20
    found = jobs.listing(web.viewer_id(), kind=request.args.get("kind"), status=request.args.get("status"),
                         before=request.args.get("cursor"), limit=limit + 1)
    return {"jobs": [web.job_json(job, listed=True) for job in jobs.poll_listed(found[:limit])],
            "next_cursor": found[limit - 1]["id"] if len(found) > limit else None}


@blueprint.get("/api/jobs/<job_id>")
def job(job_id):
    row = _own(job_id)
    body = current_app.json.dumps(web.job_json(row))
    answer = Response(body, mimetype="application/json")
    answer.set_etag(hashlib.sha256(body.encode()).hexdigest()[:32])
    after = web.retry_after_seconds(row)
    if after is not None:
        answer.headers["Retry-After"] = str(after)
    return answer.make_conditional(request)


@blueprint.post("/api/jobs/<job_id>/cancellation")
def cancellation(job_id):
    _own(job_id)
    jobs.cancel(job_id, web.viewer_id(), _shown_money())
    answer = jsonify(web.job_json(jobs.poll(job_id)))
    answer.status_code = 202
    return answer


def _shown_money():
    """What the caller was told of the points, if they say so: JSON or a form field."""
    if request.mimetype != "application/json" or not request.get_data():
        return request.form.get("money")
    try:
        return request.get_json().get("money")
    except (BadRequest, AttributeError):  # a guard that cannot be read must not be passed over
        raise InvalidInput([{"field": "", "type": "json_invalid", "facts": {}, "message": "no JSON object"}]) from None


@blueprint.post("/api/jobs/<job_id>/retry")
def retry(job_id):
    return submission_answer(web.retry(_own(job_id), _idempotency_key()))


@blueprint.get("/api/jobs/<job_id>/files/<name>")
def file(job_id, name):
    row = _own(job_id)
    known = {file["name"]: file for file in jobs.files(job_id)}
    if row["status"] != "succeeded" or name not in known:
        raise NotFound()
    answer = send_from_directory(runner.files_folder(job_id), name, mimetype=known[name]["media_type"],
                                 as_attachment=True)
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer


@blueprint.get("/api/jobs/<job_id>/export.<any(csv, json):form>")
def export(job_id, form):
    row = _own(job_id)
    path = runner.rows_path(row) if row["status"] == "succeeded" else None
    if path is None:
        raise NotFound()
    wanted = web.wanted_rows(row)
    answer = Response((_as_csv if form == "csv" else _as_json)(rows.lines(path), wanted),
                      mimetype="text/csv" if form == "csv" else "application/json")
    answer.headers["Content-Disposition"] = f'attachment; filename="{row["kind"]}-{row["number"]}.{form}"'
    return answer


def _as_json(lines, wanted):
    yield "["
    between = ""
    for line in lines:
        if not wanted.narrows or wanted.matches(json.loads(line)):
            yield f"{between}\n" + line.rstrip("\n")
            between = ","
    yield "\n]\n"


def _as_csv(lines, wanted):
    """With a byte order mark, without which spreadsheets read UTF-8 as something else. The columns are those of the first
    row, wanted or not."""
    buffer = io.StringIO()
    writer = None
    yield "\ufeff"
    for line in lines:
        row = json.loads(line)
        if writer is None:
            writer = csv.DictWriter(buffer, list(row), extrasaction="ignore")
            writer.writerow({name: _neutralised(name) for name in row})
        if wanted.matches(row):
            writer.writerow({name: _neutralised(value) for name, value in row.items()})
        if buffer.tell() > 32_000:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _neutralised(value):
    """A cell that a spreadsheet would run as a formula is made text."""
    if isinstance(value, str) and value.lstrip(" ")[:1] in ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n"):
        return "'" + value
    return value


# ----------------------------------------------------------------------------------- live progress

@blueprint.get("/api/jobs/<job_id>/events")
def events(job_id):
    """Server-sent events from the stored ones: ``progress`` until ``done``."""
    row = _own(job_id)
    last = request.headers.get("Last-Event-ID", request.args.get("after", "0"))
    after = web.stored_number(last) or 0
    if after and live.all_said(row) and not jobs.events(job_id, after):
        return Response(status=204)
    app, viewer, locale = current_app._get_current_object(), web.viewer_id(), web.locale_name()

    def as_text(job):
        with app.app_context(), force_locale(locale):
            return app.json.dumps(messages.job_json(job, viewer, app.kinds, app.settings.support_contact,
                                                    with_result=False))
    stream = live.follow(job_id, after, as_text, request.environ.get("gunicorn.socket"))
    answer = Response(app.streams.keep(viewer, stream), mimetype="text/event-stream")
    answer.headers["X-Accel-Buffering"] = "no"
    return answer


# ------------------------------------------------------------------------------------------ points

@blueprint.get("/api/points")
def points():
    if g.viewer is None:
        raise LoginRequired(cost=0)
    user_id = g.viewer["id"]
    jobs.look_after(user_id)
    found = ledger.statement(user_id, web.stored_number(request.args.get("cursor", "")), limit=51)
    return {"balance": ledger.balance(user_id), "available": ledger.available(user_id),
            "entries": [{name: entry[name] for name in ("id", "kind", "points", "balance_after", "job_id", "note",
                                                        "created_at")} for entry in found[:50]],
            "next_cursor": str(found[49]["id"]) if len(found) > 50 else None}


# ------------------------------------------------------------------------------------------ health

@blueprint.get("/healthz")
def healthz():
    """While the process serves. It touches no database: a busy file is no reason to restart."""
    return {"status": "ok"}


@blueprint.get("/readyz")
def readyz():
    reasons = []
    if jobs.signals.starting:
        reasons.append("starting")
    if jobs.signals.draining:
        reasons.append("draining")
    try:
        jobs.get("")
    except Exception as error:
        reasons.append(f"database: {error}")
    if web.disk_space_bytes(current_app.settings.folder) < FREE_DISK_BYTES_MIN:
        reasons.append("disk space")
    if web.storage_refused():
        reasons.append("storage")
    return ({"status": "unavailable", "reasons": reasons}, 503) if reasons else {"status": "ready"}


def _headers(answer):
    if request.path.startswith("/api/"):
        answer.headers["Cache-Control"] = "no-store"
    return answer


def register(app):
    app.streams = live.Streams(app.settings.max_streams, app.settings.max_streams_per_user)
    app.after_request(_headers)
