"""``GET /openapi.json``: the API described, made from the kinds that are on and from the models of their params."""
from flask import current_app

from webapp import __version__, rows, web
from webapp.kinds import Rows, in_language

_ID = {"name": "job_id", "in": "path", "required": True, "schema": {"type": "string"}}
_CSRF = {"name": "X-CSRF-Token", "in": "header", "schema": {"type": "string"},
         "description": "The token of the page; only needed with the session cookie."}
_TIME = {"type": "string", "format": "date-time", "examples": ["2026-11-30T12:34:56.789Z"]}
_MAYBE_TIME = {**_TIME, "type": ["string", "null"]}
_MAYBE_TEXT = {"type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 0}


def register(app):
    @app.get("/openapi.json")
    def openapi():
        return document(current_app)


def document(app):
    """The OpenAPI 3.1 description of this site's API, as JSON values: one pair of paths for each kind that is on."""
    schemas = {"Job": _JOB, "Problem": _PROBLEM, "Points": _POINTS, "Precheck": _PRECHECK, "Kind": _KIND,
               "Submission": _SUBMISSION}
    paths = {"/api/kinds": {"get": _operation("listKinds", "What this site offers", _json(
        "The kinds that are on.", _object({"kinds": _array(_ref("Kind"))})))}}
    for kind in app.kinds.values():
        schemas.update(_params_schemas(kind))
        paths.update(_kind_paths(kind))
    return {
        "openapi": "3.1.0",
        "info": {"title": app.settings.site_name, "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}, {}],
        "paths": {**paths, **_JOB_PATHS, **_export_paths(app.kinds), **_POINTS_PATHS, **_HEALTH_PATHS},
        "components": {
            "schemas": schemas,
            "responses": {"Problem": {
                "description": "Refused: `code` says why, and what was refused is told by extra members.",
                "content": {"application/problem+json": {"schema": _ref("Problem")}}}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "The API token of an account."},
                "cookie": {"type": "apiKey", "in": "cookie", "name": app.config["SESSION_COOKIE_NAME"],
                           "description": "The session of a browser; a newcomer is given one as a guest."}}},
    }


_DESCRIPTION = """Work that takes minutes and costs points. A submit is answered at once; poll the job, or follow its
events, until it is final. Every answer about a job says what happened to the points. Errors are RFC 9457 problems.
Somebody else's job is 404."""


# ------------------------------------------------------------------------------------- small pieces

def _ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties, optional=()):
    return {"type": "object", "properties": properties,
            "required": [name for name in properties if name not in optional]}


def _array(items):
    return {"type": "array", "items": items}


def _header(description, kind="string"):
    return {"description": description, "schema": {"type": kind}}


def _content(description, media_type, schema, **headers):
    answer = {"description": description, "content": {media_type: {"schema": schema}}}
    return {**answer, "headers": headers} if headers else answer


def _json(description, schema, **headers):
    return {"200": _content(description, "application/json", schema, **headers)}


def _refusals(*statuses):
    return {str(status): {"$ref": "#/components/responses/Problem"} for status in statuses}


def _operation(operation_id, summary, responses, refusals=(), parameters=(), body=None):
    made = {"operationId": operation_id, "summary": summary}
    if parameters:
        made["parameters"] = list(parameters)
    if body:
        made["requestBody"] = body
    # A bad token, and anything that is wrong on our side, can be the answer to every call.
    return {**made, "responses": {**responses, **_refusals(*sorted({401, *refusals})),
                                  "default": {"$ref": "#/components/responses/Problem"}}}


def _query(name, description, schema=None):
    return {"name": name, "in": "query", "description": description, "schema": schema or {"type": "string"}}


# ------------------------------------------------------------------------------------------- schemas

_JOB = _object({
    "id": {"type": "string"},
    "number": {"type": "string", "description": "What a person tells support.", "examples": ["7K3F-92QD"]},
    "kind": {"type": "string"},
    "status": {"enum": ["pending", "running", "succeeded", "failed"]},
    "stage": _MAYBE_TEXT,
    "progress": {"type": "number", "minimum": 0, "maximum": 1, "description": "Of the stage."},
    "message": {"type": "string", "description": "What it is doing, in the caller's language."},
    "attempt": {**_COUNT, "description": "Claims so far; may pass max_attempts after releases."},
    "attempts_spent": {**_COUNT, "description": "Attempts that died or timed out: what the limit is about."},
    "max_attempts": {"type": "integer", "minimum": 1},
    "others": {**_COUNT, "description": "Other people who wait for the same; 0 where it is not shared, or final."},
    "interruptions": {**_array(_object({
        "attempt": _COUNT, "reason": {"enum": ["orphaned", "timed_out", "drained"]}, "at": _TIME,
        "message": {"type": "string"}})), "description": "Attempts that were ended from outside, and why."},
    "cost": {**_COUNT, "description": "The price quoted at submit, and what is charged, in points."},
    "money": {"enum": ["none", "consumed", "refunded", "checking", "unknown"],
              "description": "What happened to the caller's points; a joiner reads none."},
    "money_message": {"type": "string"},
    "error": {"oneOf": [{"type": "null"}, {**_object({"code": {"type": "string"}, "message": {"type": "string"}}),
                                           "additionalProperties": True}]},
    "result": {"description": "What the kind returned; null until it succeeded, and in lists and events."},
    "files": _array(_object({"name": {"type": "string"}, "media_type": {"type": "string"}, "size_bytes": _COUNT,
                             "href": {"type": "string", "format": "uri-reference"}})),
    "if_stopped": {**_MAYBE_TEXT, "description": "Of paid work in flight: what a stop of the server would mean for it "
                   "and its points. Null in lists, as are the next three."},
    "stay_note": {**_MAYBE_TEXT, "description": "Of work in flight: what becomes of it, or that a cancellation stands."},
    "cancel_note": {**_MAYBE_TEXT, "description": "What a cancellation would mean; null where there is none to ask for."},
    "others_message": {**_MAYBE_TEXT, "description": "That others wait for the same, where they do."},
    "retry_of": {**_MAYBE_TEXT, "description": "The id of the failed job that this one tries again."},
    "cancel_requested_at": _MAYBE_TIME,
    "created_at": _TIME,
    "started_at": _MAYBE_TIME,
    "finished_at": _MAYBE_TIME,
    "links": _object({name: {"type": "string", "format": "uri-reference"}
                      for name in ("self", "events", "page", "csv", "json")}, optional=("csv", "json")),
})

_PROBLEM = {**_object({
    "type": {"type": "string", "format": "uri-reference"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
    "code": {"type": "string", "description": "Stable; what a program should look at."},
    "errors": _array(_object({"field": {"type": "string"}, "message": {"type": "string"}})),
    "missing": {**_COUNT, "description": "Of INSUFFICIENT_POINTS: how many more points are needed."},
}, optional=("errors", "missing")), "additionalProperties": True}

_POINTS = _object({
    "balance": _COUNT,
    "available": {**_COUNT, "description": "Balance less what work in flight will still cost."},
    "entries": _array(_object({
        "id": {"type": "integer"}, "kind": {"enum": ["grant", "consume", "refund"]},
        "points": {"type": "integer", "description": "Signed."}, "balance_after": _COUNT, "job_id": _MAYBE_TEXT,
        "note": _MAYBE_TEXT, "created_at": _TIME})),
    "next_cursor": _MAYBE_TEXT,
})

_PRECHECK = _object({
    "ok": {"type": "boolean"},
    "cost": {"type": ["integer", "null"], "description": "null where it depends on params that were not given."},
    "balance": {**_COUNT, "description": "Available points."},
    "in_flight_job_id": _MAYBE_TEXT,
    "would_join": {"type": "boolean"},
    "cached": {"type": "boolean"},
    "reasons": _array({"type": "string"}),
    "errors": _PROBLEM["properties"]["errors"],
    "message": {"type": "string"},
    "retry_at": {**_TIME, "description": "With DAILY_LIMIT: when to ask again."},
}, optional=("errors", "message", "retry_at"))

_KIND = _object({
    "name": {"type": "string"}, "title": {"type": "string"}, "noun": {"type": "string"},
    "description": {"type": "string"},
    "cost": {"type": ["integer", "null"], "description": "null where it depends on the params."},
    "limits": _object({"timeout_seconds": _COUNT, "max_attempts": _COUNT, "exclusive": {"type": "boolean"},
                       "shared": {"type": "boolean"}, "cache_seconds": _COUNT, "max_upload_mb": _COUNT}),
    "upload_field": _MAYBE_TEXT,
    "paused": {"type": ["object", "null"], "description": "While it takes nothing new: since when, and why.",
               "properties": {"since": {"type": "string"}, "note": _MAYBE_TEXT}, "required": ["since", "note"]},
    "stages": _array(_object({"name": {"type": "string"}, "title": {"type": "string"}})),
    "params": {"type": "object", "description": "JSON Schema of the params."},
})

_SUBMISSION = _object({
    "job": _ref("Job"),
    "joined": {"type": "boolean", "description": "The same was in flight already: this is that job."},
    "cached": {"type": "boolean", "description": "A result that is still fresh."}})


def _params_schemas(kind):
    """The schema of a kind's params, and those it refers to, under names that no other kind uses."""
    schema = web.params_schema(kind, "en")
    parts = {f"{kind.name}.{name}": part for name, part in schema.pop("$defs", {}).items()}
    return {name: _moved(part, kind.name) for name, part in {**parts, _params_name(kind): schema}.items()}


def _params_name(kind):
    return f"{kind.name}.params"


def _moved(part, prefix):
    """The same schema, its references turned from the schema's own root to the document's components."""
    if isinstance(part, list):
        return [_moved(item, prefix) for item in part]
    if not isinstance(part, dict):
        return part
    moved = {name: _moved(value, prefix) for name, value in part.items() if name != "ja"}
    if isinstance(part.get("$ref"), str):
        moved["$ref"] = part["$ref"].replace("#/$defs/", f"#/components/schemas/{prefix}.")
    return moved


# --------------------------------------------------------------------------------------------- paths

def _kind_paths(kind):
    noun, body = kind.noun_in("en"), _body(kind)
    name = "".join(part.title() for part in kind.name.split("_"))
    refusals = (400, 402, 403, 409, 413, 415, 422, 429, 503)
    there = {"Location": _header("The job."), "Retry-After": _header("Seconds until it is worth asking.", "integer")}
    submitted = {
        "202": _content("Accepted and on disk; or joined.", "application/json", _ref("Submission"), **there),
        "200": _content("There already: a fresh result, or what this Idempotency-Key made.", "application/json",
                        _ref("Submission"), **there)}
    key = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 200},
           "description": "The same key with the same params is the same job."}
    checked = _json("What a submit would meet.", _ref("Precheck"))
    return {
        f"/api/kinds/{kind.name}/precheck": {
            "get": _operation(f"standing{name}", f"Whether a {noun} could be asked for now", checked),
            "post": _operation(f"precheck{name}", "What a submit with these params would meet; stores nothing", checked,
                               (400, 403, 413, 415, 503), [_CSRF], body)},
        f"/api/kinds/{kind.name}/jobs": {
            "post": {**_operation(f"submit{name}", kind.title_in("en"), submitted, refusals, [key, _CSRF], body),
                     "description": in_language(kind.description, "en")}}}


def _body(kind):
    """Params as a form, and as JSON where they can do without a file."""
    schema, upload = _ref(_params_name(kind)), kind.upload_field
    content = {"multipart/form-data": {"schema": schema}}
    if upload is None or not kind.params.model_fields[upload].is_required():
        content = {"application/json": {"schema": schema}, **content}
    return {"content": content}


_FINAL_TOO = (403, 404, 409, 503)
_JOB_PATHS = {
    "/api/jobs": {"get": _operation(
        "listJobs", "The caller's own jobs, newest first",
        _json("A page of 20.", _object({"jobs": _array(_ref("Job")), "next_cursor": _MAYBE_TEXT})),
        parameters=[_query("cursor", "next_cursor of the page before."), _query("kind", "Only this kind."),
                    _query("status", "Only these. `cancelled`: of the failed ones those that their owner ended.",
                           {"enum": [*_JOB["properties"]["status"]["enum"], "cancelled"]})])},
    "/api/jobs/{job_id}": {"get": _operation(
        "getJob", "One job, as it is now",
        {**_json("The job.", _ref("Job"), ETag=_header("Of this answer."),
                 **{"Retry-After": _header("Seconds until it is worth asking again, while in flight.", "integer")}),
         "304": {"description": "Unchanged since the ETag in If-None-Match."}}, (404,),
        [_ID, {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}])},
    "/api/jobs/{job_id}/events": {"get": _operation(
        "followJob", "Server-sent events: `progress`, then `done`; data is a Job without its result; in silence `alive`, every 5 s",
        {"200": _content("A stream, ended by the server before 55 s; come back with Last-Event-ID.",
                         "text/event-stream", {"type": "string"}),
         "204": {"description": "Nothing was missed, and it is final."}}, (404, 503),
        [_ID, {"name": "Last-Event-ID", "in": "header", "schema": {"type": "string"}},
         _query("after", "Like Last-Event-ID, where headers cannot be set.", {"type": "integer"})])},
    "/api/jobs/{job_id}/cancellation": {"post": _operation(
        "cancelJob", "End it, or only leave if others wait for it; what was charged already is kept",
        {"202": _content("The job.", "application/json", _ref("Job"))}, (400, *_FINAL_TOO), [_ID, _CSRF],
        {"content": dict.fromkeys(("application/json", "application/x-www-form-urlencoded"), {"schema": _object(
            {"money": {**_JOB["properties"]["money"], "description": "As it was when this was decided: 409 MONEY_DIFFERS if it "
                       "was none and points have been used meanwhile."}}, optional=("money",))})})},
    "/api/jobs/{job_id}/retry": {"post": _operation(
        "retryJob", "A failed job once more, as a new one with the same input",
        {"202": _content("Accepted and on disk.", "application/json", _ref("Submission")),
         "200": _content("There already.", "application/json", _ref("Submission"))}, (*_FINAL_TOO, 402), [_ID, _CSRF])},
    "/api/jobs/{job_id}/files/{name}": {"get": _operation(
        "getFile", "A file that the job saved",
        {"200": {"description": "The file.", "content": {"application/octet-stream": {}}}}, (404,),
        [_ID, {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}])},
}


def _export_paths(kinds):
    """The exports; what their rows can be narrowed down by depends on the kinds that are on."""
    filters = {}
    for kind in kinds.values():
        for column, choices in kind.rows.filters.items():
            filters.setdefault(kind.rows.query_name(column), {})[kind.name] = [
                choice or kind.rows.EMPTY for choice in choices]
    asked = [_ID, _query("q", "Only rows in which all of these words occur; case, width and kind of kana make no difference.",
                         {"type": "string", "maxLength": rows.SEARCH_CHARACTERS_MAX})]
    asked += [_query(name, f"Only rows of this value; of the kinds {', '.join(by_kind)}. `{Rows.EMPTY}`: with nothing there.",
                     {"enum": list(dict.fromkeys(choice for choices in by_kind.values() for choice in choices))})
              for name, by_kind in filters.items()]
    table = {"200": _content("UTF-8 with a byte order mark.", "text/csv", {"type": "string"})}
    objects = _json("One object a row.", _array({"type": "object"}))
    return {f"/api/jobs/{{job_id}}/export.{form}": {"get": _operation(
        f"export{form.title()}", f"The job's rows as {form.upper()}, all or those that are asked for", answers, (400, 404), asked)}
        for form, answers in (("csv", table), ("json", objects))}


_POINTS_PATHS = {"/api/points": {"get": _operation(
    "getPoints", "Balance and statement, newest first", _json("A page of 50.", _ref("Points")),
    parameters=[_query("cursor", "next_cursor of the page before.")])}}
_HEALTH_PATHS = {
    "/metrics": {"get": {**_operation("readMetrics", "The worker's figures, for an admin's bearer token", {
        "200": _content("Prometheus text.", "text/plain", {"type": "string"})}, (403,)), "security": [{"bearer": []}]}},
    "/healthz": {"get": {"operationId": "isAlive", "summary": "Whether the process serves", "security": [], "responses":
                         _json("It does.", _object({"status": {"const": "ok"}}))}},
    "/readyz": {"get": {"operationId": "isReady", "summary": "Whether it can take work", "security": [], "responses": {
        **_json("It can.", _object({"status": {"const": "ready"}})),
        "503": _content("It cannot; the reasons: starting, draining, database: …, disk space, storage.", "application/json",
                        _object({"status": {"const": "unavailable"}, "reasons": _array({"type": "string"})}))}}},
}
