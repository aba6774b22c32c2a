"""The description of the API and the API itself say the same."""
import re

import pytest

from webapp import accounts, openapi

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def document(client):
    answer = client.get("/openapi.json")
    assert answer.status_code == 200 and answer.mimetype == "application/json"
    return answer.json


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method, operation


def parts(value):
    """Every object within a JSON value."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from parts(each)


def target(document, ref):
    found = document
    for name in ref.removeprefix("#/").split("/"):
        found = found[name]
    return found


def mismatches(document, schema, value, where="$"):
    """Where a value is not what the schema says; a key that the schema does not name is one too."""
    if "$ref" in schema:
        yield from mismatches(document, target(document, schema["$ref"]), value, where)
        return
    if "oneOf" in schema:
        if not any(not list(mismatches(document, one, value, where)) for one in schema["oneOf"]):
            yield f"{where}: none of its forms"
        return
    if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r}"
    types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None),
             "object": dict, "array": list}
    wanted = schema.get("type", list(types))
    if not any(isinstance(value, types[name]) for name in ([wanted] if isinstance(wanted, str) else wanted)):
        yield f"{where}: {value!r} is no {wanted}"
    if isinstance(value, dict) and "properties" in schema:
        for missing in set(schema.get("required", ())) - value.keys():
            yield f"{where}: {missing} is missing"
        if not schema.get("additionalProperties"):
            for unknown in value.keys() - schema["properties"].keys():
                yield f"{where}: {unknown} is not described"
        for name in value.keys() & schema["properties"].keys():
            yield from mismatches(document, schema["properties"][name], value[name], f"{where}.{name}")
    if isinstance(value, list):
        for n, item in enumerate(value):
            yield from mismatches(document, schema.get("items", {}), item, f"{where}[{n}]")


def as_described(document, path, method, answer):
    """The answer's body, which is what the document promises for its status."""
    promised = document["paths"][path][method]["responses"][str(answer.status_code)]
    if "$ref" in promised:
        promised = target(document, promised["$ref"])
    schema = promised["content"][answer.mimetype]["schema"]
    assert not list(mismatches(document, schema, answer.json))
    return answer.json


def test_every_route_of_the_api_is_described_and_nothing_else(app, document):
    routes = set()
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:[^:<>]+:)?(\w+)>", r"{\1}", rule.rule)
        if not path.startswith("/api/"):
            continue
        paths = [path]
        if path.startswith("/api/kinds/{name}"):
            paths = [path.replace("{name}", name) for name in app.kinds]
        if path.endswith("export.{form}"):
            paths = [path.replace("{form}", form) for form in ("csv", "json")]
        routes |= {(each, method.lower()) for each in paths for method in rule.methods - {"HEAD", "OPTIONS"}}
    described = {(path, method) for path, method, _ in operations(document)}
    assert {pair for pair in described if pair[0].startswith("/api/")} == routes


def test_what_is_described_beside_the_api_is_there(client, document):
    token = accounts.new_token()
    accounts.add_user("admin@example.org", None, token, is_admin=True)
    for path, method, operation in operations(document):
        if not path.startswith("/api/"):
            headers = {} if operation["security"] == [] else {"Authorization": f"Bearer {token}"}
            answer = client.open(path, method=method.upper(), headers=headers)
            assert answer.status_code == 200 and answer.mimetype in operation["responses"]["200"]["content"]


def test_every_reference_leads_somewhere(document):
    references = [part["$ref"] for part in parts(document) if isinstance(part.get("$ref"), str)]
    assert references
    for ref in references:
        assert ref.startswith("#/components/") and isinstance(target(document, ref), dict)


def test_every_operation_is_whole(document):
    assert document["openapi"].startswith("3.1.") and {"title", "version"} <= document["info"].keys()
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    for path, _method, operation in operations(document):
        parameters = operation.get("parameters", [])
        in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path))
        assert all(parameter["required"] for parameter in parameters if parameter["in"] == "path")
        assert all({"name", "in", "schema"} <= parameter.keys() for parameter in parameters)
        for status, answer in operation["responses"].items():
            assert status == "default" or re.fullmatch(r"[1-5]\d\d", status)
            assert "$ref" in answer or answer["description"]
    for name in document["components"]["schemas"]:
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    used = {name for choice in document["security"] for name in choice}
    assert used == document["components"]["securitySchemes"].keys()


def test_the_cookie_of_the_description_is_the_one_that_is_set(client, document):
    answer = client.post("/api/kinds/free/jobs", json={})
    assert document["components"]["securitySchemes"]["cookie"]["name"] in answer.headers["Set-Cookie"]


def test_params_are_those_of_the_kind_and_a_file_is_sent_as_a_form(document):
    body = document["paths"]["/api/kinds/sample/jobs"]["post"]["requestBody"]["content"]
    params = target(document, body["application/json"]["schema"]["$ref"])
    assert params["properties"]["seconds"]["maximum"] == 60 and "ja" not in params["properties"]["seconds"]
    form = document["paths"]["/api/kinds/stepping/jobs"]["post"]["requestBody"]["content"]["multipart/form-data"]
    file = target(document, form["schema"]["$ref"])["properties"]["file"]
    assert (file["type"], file["format"]) == ("string", "binary")


def test_models_within_params_keep_apart_between_kinds(app):
    from pydantic import BaseModel

    from webapp.kinds import Kind

    def params(field):
        class Place(BaseModel):
            __annotations__ = {field: int}

        class Params(BaseModel):
            places: list[Place]
        return Params
    for name, field in (("one", "lat"), ("two", "lon")):
        app.kinds[name] = Kind(name=name, params=params(field), run=lambda job, params: None)
    schemas = openapi.document(app)["components"]["schemas"]
    assert schemas["one.params"]["properties"]["places"]["items"] == {"$ref": "#/components/schemas/one.Place"}
    assert list(schemas["one.Place"]["properties"]) == ["lat"] and list(schemas["two.Place"]["properties"]) == ["lon"]


def test_real_answers_are_as_described(document, service, person):
    someone = person(points=2)
    jobs, one, submit = "/api/jobs", "/api/jobs/{job_id}", "/api/kinds/paid/jobs"
    made = as_described(document, submit, "post", someone.submit("paid"))["job"]
    for kind in ("refusing", "broken", "free"):
        job = as_described(document, f"/api/kinds/{kind}/jobs", "post", someone.submit(kind))["job"]
        someone.finished(job["id"])
        as_described(document, one, "get", someone.get(f"/api/jobs/{job['id']}"))
    finished = someone.finished(made["id"])
    assert finished["status"] == "succeeded" and finished["money"] == "consumed"
    as_described(document, one, "get", someone.get(f"/api/jobs/{made['id']}"))
    assert len(as_described(document, jobs, "get", someone.get(jobs))["jobs"]) >= 4
    assert as_described(document, "/api/points", "get", someone.get("/api/points"))["entries"]
    as_described(document, "/api/kinds", "get", someone.get("/api/kinds"))
    for method in ("get", "post"):
        as_described(document, "/api/kinds/paid/precheck", method,
                     someone._client.open("/api/kinds/paid/precheck", method=method.upper(), headers=someone.headers))


def test_real_refusals_are_as_described(document, app, person, client):
    someone = person(points=1)
    submit, cancel = "/api/kinds/sample/jobs", "/api/jobs/{job_id}/cancellation"
    assert as_described(document, submit, "post", someone.submit("sample", seconds="x"))["errors"]
    assert as_described(document, submit, "post", client.post(submit, json={}))["code"] == "LOGIN_REQUIRED"
    made = as_described(document, submit, "post", someone.submit("sample"))["job"]
    assert as_described(document, submit, "post", someone.submit("sample"))["job_id"] == made["id"]
    as_described(document, "/api/kinds/sample/precheck", "post", someone.post("/api/kinds/sample/precheck", json={
        "seconds": -1}))
    cancelled = as_described(document, cancel, "post", someone.post(f"/api/jobs/{made['id']}/cancellation"))
    assert cancelled["error"]["code"] == "CANCELLED" and cancelled["cancel_requested_at"]
    assert as_described(document, cancel, "post",
                        someone.post(f"/api/jobs/{made['id']}/cancellation"))["code"] == "ALREADY_FINAL"
    assert as_described(document, "/api/jobs/{job_id}", "get", someone.get("/api/jobs/nobodys"))["code"] == "NOT_FOUND"
