"""The form of any kind, from the JSON Schema of its params: which control a field gets, how its text is read."""
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache

from pydantic import NaiveDatetime
from pydantic.errors import PydanticInvalidForJsonSchema

from webapp.errors import SettingsError

# Form fields that are ours, not the kind's.
RESERVED_FIELDS = {"csrf_token", "form_key", "price", "sample"}
TEXTAREA_FROM_CHARACTERS = 300
# Of a form's text. Any kind takes the least; what more its declared lengths may need, up to the most.
TEXT_BYTES_MIN, TEXT_BYTES_MAX = 1_000_000, 4_000_000
CHARACTER_BYTES_MAX = 4  # in UTF-8
_BY_FORMAT = {"email": "email", "uri": "url", "tel": "tel", "date": "date", "time": "time", "date-time": "datetime-local",
              "binary": None, "password": None}  # bytes come as files; a secret would lie in the database
_LINES = {"text", "textarea", "email", "url", "tel", "date", "time", "datetime-local", "number"}


@dataclass(frozen=True)
class Control:
    """``type``: an input's, or ``textarea``, ``select``, ``checkboxes``, ``lines`` (a list, an entry a line), or
    ``None`` where a form cannot ask. ``spec``: the property; ``shape``: its schema, or its entries', without null."""

    name: str
    type: str | None
    spec: Mapping
    shape: Mapping
    choices: Sequence = ()
    nullable: bool = False
    required: bool = False
    zoned: bool = False


def refuse_what_cannot_be_filled(kind):
    """Raises ``SettingsError``, in one line, for a kind whose form nobody could fill."""
    def refuse(why):
        raise SettingsError(f"The kind {kind.name!r} {why}")
    try:
        found = controls(kind)
    except PydanticInvalidForJsonSchema as error:
        refuse(f"has params that JSON cannot hold: {' '.join(str(error).split())}")
    for control in found.values():
        if control.name in RESERVED_FIELDS:
            refuse(f"has a param {control.name!r}: its form uses that name itself.")
        if control.type is None and control.required:
            refuse(f"has a param {control.name!r} that no form can ask for: make it simpler, or give it a default "
                   "(then only the API takes it).")
        if control.shape.get("maxLength", 0) * CHARACTER_BYTES_MAX > TEXT_BYTES_MAX:
            refuse(f"has a param {control.name!r} of up to {control.shape['maxLength']} characters: at most "
                   f"{TEXT_BYTES_MAX // CHARACTER_BYTES_MAX} can be sent. Take a file instead.")


def text_bytes_max(kind):
    """How much text is taken for this kind, in bytes."""
    needed = sum(CHARACTER_BYTES_MAX * control.shape.get("maxLength", 0) * (control.shape.get("maxItems") or 1)
                 for control in controls(kind).values())
    return min(TEXT_BYTES_MAX, TEXT_BYTES_MIN + needed)


def controls(kind):
    """``{name: Control}`` of a kind's params, in their order."""
    return _controls(kind.params, frozenset(kind.upload_fields))


@cache
def _controls(params, uploads):
    schema = params.model_json_schema()
    parts, required = schema.get("$defs", {}), set(schema.get("required", ()))
    types = {info.alias or name: info.annotation for name, info in params.model_fields.items()}
    found = {}
    for name, spec in schema.get("properties", {}).items():
        shape, nullable = _shape(_as_numbers(spec) if _holds(types.get(name), Decimal) else spec, parts)
        kind = "file" if name in uploads else _type(shape, parts)
        if kind in ("lines", "checkboxes"):
            shape = {**_shape(shape["items"], parts)[0], **{key: shape[key] for key in ("minItems", "maxItems") if key in shape}}
        choices = _choices(shape)
        if kind == "checkbox" and nullable:
            kind, choices = "select", (True, False)
        nullable = nullable or None in shape.get("enum", ())
        if spec.get("form") is False:  # for programs
            kind = None
        found[name] = Control(name, kind, spec, shape, choices, nullable, name in required,
                              shape.get("format") == "date-time" and not _holds(types.get(name), NaiveDatetime))
    return found


def _holds(annotation, wanted):
    return annotation is wanted or any(_holds(part, wanted) for part in getattr(annotation, "__args__", ()))


def _as_numbers(spec):
    """In JSON a Decimal is a number or its text: a form asks for the number."""
    parts = {"anyOf": [_as_numbers(option) for option in spec["anyOf"] if option.get("type") != "string"]} \
        if "anyOf" in spec else {}
    return {**spec, **parts, **({"items": _as_numbers(spec["items"])} if "items" in spec else {})}


def _resolved(spec, parts):
    while "$ref" in spec:
        spec = {**parts[spec["$ref"].rpartition("/")[2]], **{key: spec[key] for key in spec if key != "$ref"}}
    return spec


def _shape(spec, parts):
    """What of a schema a form asks for, and whether it may also be null."""
    spec = _resolved(spec, parts)
    options = [_resolved(option, parts) for option in spec.get("anyOf", [spec])]
    asked = [option for option in options if option.get("type") != "null"]
    nullable, types = len(asked) < len(options), {option.get("type") for option in asked}
    if len(asked) == 1:
        shape = asked[0]
    elif types <= {"integer", "number"}:
        shape = {"type": "number"}
    else:
        shape = {"type": "string"} if types <= {"integer", "number", "string"} else {}
    own = {key: value for key, value in spec.items() if key not in ("anyOf", "default", "title", "description")}
    return {**shape, **own} if "anyOf" in spec else shape, nullable


def _type(shape, parts):
    kind = shape.get("type")
    if _choices(shape):
        return "select"
    if kind == "array" and isinstance(shape.get("items"), dict) and "prefixItems" not in shape:
        entry, nullable = _shape(shape["items"], parts)
        entry_type = None if nullable else _type(entry, parts)
        return "checkboxes" if entry_type == "select" else "lines" if entry_type in _LINES else None
    if kind == "string":
        long = shape.get("maxLength", 0) >= TEXTAREA_FROM_CHARACTERS
        return _BY_FORMAT.get(shape.get("format"), "textarea" if long else "text")
    return {"boolean": "checkbox", "integer": "number", "number": "number"}.get(kind)


def _choices(shape):
    named = shape.get("enum", [shape["const"]] if "const" in shape else ())
    return tuple(choice for choice in named if choice is not None)


def as_text(value):
    """A JSON value as a form shows and sends it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "" if value is None else str(value)


# ---------------------------------------------------------------------------------- what was filled in

def read(kind, texts):
    """Params as ``jobs.parse`` takes them, from ``{name: [text, …]}`` of a form or a command line.

    What is absent has its default; so has what was left empty and can be neither an empty text nor null.
    """
    known, raw = controls(kind), {}
    for name, given in texts.items():
        given = [text.replace("\r\n", "\n") for text in given]  # browsers send it, and count it as one character
        if name in RESERVED_FIELDS or not given:
            continue
        control = known.get(name)
        if control is None:
            raw.update({name: given[-1]} if given[-1] else {})
        elif control.type in ("lines", "checkboxes"):
            entries = [entry for text in given for entry in map(str.strip, text.split("\n")) if entry]
            raw[name] = [_read(control, entry) for entry in entries] if entries or not control.nullable else None
        elif given[-1]:
            raw[name] = _read(control, given[-1])
        elif control.nullable:
            raw[name] = None
        elif control.type in ("text", "textarea") and "format" not in control.shape and not control.required \
                and control.spec.get("default") != "":  # which may break a law that holds for what is filled in
            raw[name] = ""
    return raw


def _read(control, text):
    if control.choices:
        return {as_text(choice): choice for choice in control.choices}.get(text, text)
    if control.zoned and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?", text):
        return f"{text}Z"  # the form says that it asks for UTC
    if control.type is None:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


# ------------------------------------------------------------------------------------- what is asked

def fields(kind, lang, texts=(), files=(), errors=()):
    """The form's fields for its template; a param that has no control is not among them.

    ``texts``: what was filled in, as for ``read``; ``files``: the names of files, by field; ``errors``: by field.
    """
    texts, errors, files = dict(texts), dict(errors), dict(files)
    return [_field(control, lang, texts.get(control.name), files.get(control.name), errors.get(control.name))
            for control in controls(kind).values() if control.type]


def _field(control, lang, texts, file, error):
    spec, shape = {**control.spec, **(control.spec.get("ja", {}) if lang == "ja" else {})}, control.shape
    labels, listed = spec.get("labels", {}), control.type in ("lines", "checkboxes")
    examples = [as_text(example) for example in spec.get("examples", ()) if not isinstance(example, (list, dict))]
    if control.type == "file":
        value = file
    elif texts is None:
        value = _default(control)
    else:
        shown = [text.replace("\r\n", "\n") for text in texts]
        value = shown if listed else shown[-1]
    required = control.required and (not listed or shape.get("minItems", 0) > 0)
    untyped = ("checkbox", "lines", "checkboxes", "file", *(() if shape.get("minLength") else ("text", "textarea")))
    must = required or spec.get("default") not in (None, "") and control.type not in untyped and not control.nullable
    blank = [("", labels.get(""))] if control.type == "select" and (control.nullable or "default" not in spec) else []
    return {
        "name": control.name, "label": spec.get("title") or control.name.replace("_", " ").capitalize(),
        "help": spec.get("description"), "value": "\n".join(value) if control.type == "lines" else value, "error": error,
        "type": control.type, "advanced": spec.get("advanced", False) and not control.required,
        "accept": spec.get("accept"), "required": required and control.type != "checkbox",
        "must": must and control.type not in ("checkbox", "checkboxes"),
        "choices": blank + [(text, labels.get(text, None if isinstance(choice, bool) else text))
                            for choice in control.choices for text in [as_text(choice)]],
        "placeholder": "\n".join(examples) if control.type == "lines" else next(iter(examples), None),
        "minlength": shape.get("minLength"), "maxlength": shape.get("maxLength"), "pattern": _pattern(shape),
        "entries_max": shape.get("maxItems"), "zoned": control.zoned, **_bounds(shape),
    }


def _default(control):
    default = control.spec.get("default")
    if control.type in ("lines", "checkboxes"):
        return [as_text(entry) for entry in default or ()]
    text = as_text(default)
    if control.type == "datetime-local" and default:
        at = datetime.fromisoformat(default)
        text = at.astimezone(UTC).replace(tzinfo=None).isoformat() if at.tzinfo else default
    if control.type in ("datetime-local", "time"):  # a browser's clock has no zone, and ends at milliseconds
        text = re.sub(r"(:\d\d)(\.\d{3})?\d*(Z|[+-]\d\d:\d\d)?$", r"\1\2", text)
    return text


def _bounds(shape):
    """``min``, ``max`` and ``step`` of a number. An input has no bounds that are themselves excluded."""
    one = 1 if shape.get("type") == "integer" else 0
    above, below = shape.get("exclusiveMinimum"), shape.get("exclusiveMaximum")
    return {"min": shape.get("minimum", above if above is None else above + one),
            "max": shape.get("maximum", below if below is None else below - one),
            "step": shape.get("multipleOf", one or "any")}


def _pattern(shape):
    """The pattern as HTML has it (of the whole text, in its stricter syntax), where it can be said there."""
    pattern = shape.get("pattern")
    if pattern is None or "(?" in pattern or "[[" in pattern or "|" in re.sub(r"\([^()]*\)|\[[^]]*\]", "", pattern):
        return None

    def strict(found):  # in a class, what the stricter syntax reserves is escaped
        inside = re.sub(r"(\\.)|([(){}/|&!#%,:;<=>@`~])|^-|-$", lambda one: one[1] or f"\\{one[0]}", found[2])
        return f"[{found[1]}{inside}]"
    pattern = re.sub(r"\[(\^?)((?:\\.|[^\]\\])*)\]", strict, pattern)
    pattern = pattern[1:] if pattern.startswith("^") else f".*{pattern}"
    return pattern[:-1] if pattern.endswith("$") and not pattern.endswith("\\$") else f"{pattern}.*"
