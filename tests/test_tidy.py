"""About the code itself: who imports whom, what is documented, how long a function may be."""
import ast
import importlib
import re
import subprocess
import sys
from operator import attrgetter

import pytest

from tests.conftest import ROOT
from webapp import errors, messages
from webapp.settings import SETTINGS

# Leftwards only: a room imports rooms of the lines above its own, never of its own or below.
ROOMS = [
    {"declared", "errors", "measure", "notify", "served", "verdicts"},
    {"settings"},
    {"db"},
    {"models"},
    {"ledger", "incidents", "workers"},
    {"accounts"},
    {"kinds"},
    {"upstream", "commands", "forms", "quotas"},
    {"jobs", "alerts", "rows"},
    {"runner"},
    {"recovery"},
    {"service", "sabotage"},
    {"messages", "live"},
    {"web", "overview"},
    {"crashtest", "checks"},
    {"pages", "auth", "api", "openapi", "metrics", "status", "admin", "cli"},
    {"demo"},
]
LINE = {room: n for n, rooms in enumerate(ROOMS) for room in rooms}
# The one import against the stream, with its reason.
EXCEPTIONS = {("settings", "kinds"): "which kinds are on is a setting; imported only when they are asked for"}
FRONT_ENDS = {"pages", "auth", "api", "openapi", "metrics", "status", "admin"}
# Where a library that shapes a whole program may be used.
ONLY_IN = {
    "flask": {"web", "pages", "auth", "api", "openapi", "metrics", "status", "admin", "cli", "crashtest", "__init__"},
    "flask_babel": {"messages", "web", "pages", "auth", "api", "status", "admin", "cli", "__init__"},
    "peewee": {"db", "models"},
    "apprise": {"notify"},  # a process of its own
    "prometheus_client": {"metrics"},
    "sqlite3": {"db", "jobs", "recovery", "cli", "checks", "crashtest", "verdicts"},  # jobs, recovery: a ledger that cannot be read
}
# Machinery of kinds: the public surface, and nothing else of ours.
FOR_KINDS = {"webapp.kinds", "webapp.errors"}
NOT_FOR_KINDS = {"flask", "flask_babel", "gevent", "greenlet", "peewee", "sqlite3"}
FUNCTION_LINES_MAX = 60


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Every module that a file imports, at its top or within a function, as dotted names."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:  # a kind's own package; ours write their imports in full
                assert "kinds" in path.parts and path.parent.name != "kinds", path
                continue
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path):
    """The rooms of this application that a file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("webapp.") and name.split(".")[1] in LINE}


def modules():
    return {path.stem: path for path in sorted((ROOT / "webapp").glob("*.py"))} | {
        "kinds": ROOT / "webapp" / "kinds" / "__init__.py"}


def kind_files():
    return sorted(path for path in (ROOT / "webapp" / "kinds").rglob("*.py") if path != modules()["kinds"])


def tracked():
    """Every text file of the project."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True,
                            capture_output=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [  # an unpacked archive
        path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")
        if not any(part.startswith(".") or part in ("data", "__pycache__") for part in path.relative_to(ROOT).parts)]
    for name in names:
        if (ROOT / name).is_file():
            try:
                yield name, (ROOT / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


# ------------------------------------------------------------------------------------------- rooms

def test_every_module_has_its_room():
    assert modules().keys() - {"__init__"} == LINE.keys()


def test_rooms_import_leftwards_only():
    wrong = [f"{room} imports {other}" for room, path in modules().items() if room != "__init__"
             for other in sorted(rooms_of(path)) if LINE[other] >= LINE[room] and (room, other) not in EXCEPTIONS]
    assert not wrong, wrong
    for room, other in EXCEPTIONS:
        assert other in rooms_of(modules()[room]), "an exception that is no longer needed"


def test_front_ends_never_import_the_database():
    for room in FRONT_ENDS:
        assert not rooms_of(modules()[room]) & {"db", "models"}, room


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_in_its_rooms(library):
    used_in = {room for room, path in modules().items()
               if any(name.split(".")[0] == library for name in imports(path))}
    assert used_in <= ONLY_IN[library]


def test_built_in_kinds_use_the_public_surface_only():
    assert len(kind_files()) >= 2
    for path in kind_files():
        found = set(imports(path))
        package = ".".join(path.relative_to(ROOT).parts[:3]).removesuffix(".py")
        ours = {name for name in found if name.startswith("webapp")}
        allowed = {name for name in ours if any(name == door or name.startswith(f"{door}.")
                                                for door in (*FOR_KINDS, package))}
        from_other_kinds = {name for name in ours if re.match(r"webapp\.kinds\.[a-z]", name)
                            and (ROOT / "webapp" / "kinds" / name.split(".")[2]).is_dir() and package not in name}
        assert ours == allowed and not from_other_kinds, (path.name, ours)
        assert not {name.split(".")[0] for name in found} & NOT_FOR_KINDS, path.name


def test_the_public_surface_needs_neither_web_server_nor_database():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; import webapp.kinds; "
         f"print(sorted({sorted(NOT_FOR_KINDS)!r} & sys.modules.keys()))".replace("sorted([", "sorted(set([").replace(
             "] & ", "]) & ")], cwd=ROOT, text=True, capture_output=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_what_is_public_of_kinds_is_there():
    from webapp import kinds
    assert all(hasattr(kinds, name) for name in kinds.__all__) and kinds.__all__ == sorted(kinds.__all__)


def test_nothing_at_import_starts_work():
    """Importing any module opens no file of data and starts no greenlet: work begins in wsgi.py."""
    code = ("import sys, importlib, gc, gevent; before = set(sys.argv[1:]);\n"
            "for name in before: importlib.import_module('webapp.' + name)\n"
            "from webapp import db, workers\n"
            "assert db.store is None and workers.current is None\n"
            "assert not [g for g in gc.get_objects() if isinstance(g, gevent.Greenlet)]")
    names = [name for name in modules() if name != "__init__"]
    done = subprocess.run([sys.executable, "-c", code, *names], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------------------- documents

def read(*names):
    """The documents of these names. They must be there."""
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


def as_documented(value):
    if isinstance(value, bool):
        return f"`{int(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value != "" else "empty"


def test_every_setting_is_documented_with_its_default():
    rows = dict(re.findall(r"^\| `([A-Z<][A-Z_<>]+)` \| ([^|]*?) \|", read("docs/operations.md"), re.MULTILINE))
    for setting in SETTINGS:
        assert rows.get(setting.name) == as_documented(setting.default), setting.name
    assert rows.keys() == {setting.name for setting in SETTINGS} | {"<KIND>_COST", "<KIND>_TIMEOUT_SECONDS"}


def test_documents_name_no_setting_that_does_not_exist():
    known = {setting.name for setting in SETTINGS}
    own = {"CI", "SAMPLE"}  # of make
    named = set(re.findall(r"\b([A-Z][A-Z]+(?:_[A-Z]+)*)=", read("README.md", "docs/operations.md", "docs/kinds.md",
                                                                  "docs/architecture.md", "docs/api.md")))
    unknown = {name for name in named - known - own if not name.endswith(("_COST", "_TIMEOUT_SECONDS"))}
    assert not unknown


def test_everything_about_a_kind_is_documented():
    from dataclasses import fields
    from inspect import signature

    from webapp.kinds import JobContext, Kind, Quota, Response
    text = read("docs/kinds.md")
    asking, metered = text.split("## Asking a service")[1].split("## A metered service")
    for name in (*list(signature(JobContext.fetch).parameters)[2:], *(field.name for field in fields(Response)), "text", "json"):
        assert re.search(rf"`{name}[`(]", asking), name
    assert all(f"{field.name}=" in metered for field in fields(Quota) if field.name != "name")
    for field in fields(Kind):
        if field.name not in ("home",):  # found by itself
            assert f"`{field.name}`" in text, field.name
    for name in sorted(JobContext.__abstractmethods__ | set(JobContext.__annotations__)):
        if not name.startswith("ai"):  # no AI can be configured in this version
            assert re.search(rf"`{name}[`(]", text), name


def test_every_endpoint_is_documented(app):
    text = read("docs/api.md")
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:[^:>]*:)?(\w+)>", "<>", rule.rule)
        if not path.startswith(("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json")):
            continue
        documented = {re.sub(r"<\w+>", "<>", found) for found in re.findall(r"(?:/api|…)?/[\w./<>-]+", text)}
        documented |= {found.replace("…", "/api/jobs/<>") for found in documented}
        candidates = {path.replace("export.<>", f"export.{form}") for form in ("csv", "json")}
        assert candidates <= documented, path


def test_every_command_is_documented(app):
    text = read("docs/operations.md")
    group = app.cli.commands

    def leaves(commands, prefix="flask"):
        for name, command in commands.items():
            if getattr(command, "commands", None):
                yield from leaves(command.commands, f"{prefix} {name}")
            else:
                yield f"{prefix} {name}"
    missing = [command for command in leaves(group) if f"`{command}" not in text and command not in text]
    assert [command for command in missing if command != "flask run"] == []


def test_every_link_of_the_documents_leads_somewhere():
    for name, text in tracked():
        if name.endswith(".md"):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
                if "://" not in target:
                    assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"


def test_pinned_requirements_are_pinned():
    for name in ("requirements.txt", "requirements-dev.txt"):
        for line in read(name).splitlines():
            if line.strip() and not line.startswith(("#", "-r")):
                assert re.match(r"[A-Za-z0-9_.-]+(\[[a-z,]+\])?==[\w.]+", line), line


# ------------------------------------------------------------------------------------------- codes

def codes_in(*rooms):
    """Texts in the code that look like a code: WORDS_IN_CAPITALS."""
    for room in rooms:
        for node in ast.walk(tree(modules()[room])):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(
                    r"[A-Z]{3,}(_[A-Z]+)*", node.value):
                yield node.value


def raised():
    """The refusals that some code raises, by class name."""
    names = set()
    for path in [*modules().values(), *kind_files()]:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                names.add(getattr(target, "id", getattr(target, "attr", "")))
    return names


# Said only to operators (an incident, a line of a start), or never said.
FOR_OPERATORS = {"QUOTA_EXHAUSTED", "BAD_SETTING", "LOST_FENCE", "COMMAND_FAILED", "REAP_CONSUME_LOOKUP_FAILED", "ATTEMPTS_SPENT",
                 "RESTARTED"}


def test_every_refusal_that_is_raised_has_a_sentence():
    said = messages._REFUSALS.keys() | messages._ERRORS.keys() | {"INVALID_INPUT"} | FOR_OPERATORS
    for name in sorted(raised()):
        refusal = getattr(errors, name, None)
        if refusal is not None and refusal not in (errors.AinoriError, errors.Refuse):
            assert refusal.code in said, name


def test_every_code_that_work_ends_with_has_a_sentence():
    reasons = {"NOT_FAILED", "INPUT_GONE", "KIND_GONE"}  # of NOT_RETRYABLE
    no_codes = {"GET", "HEAD", "OPTIONS", "POST", "NFKC", "OIL", "INVALID_INPUT"}  # that has its sentences by field
    for code in sorted({*codes_in("jobs", "runner", "recovery", "web", "api", "pages")} - FOR_OPERATORS - no_codes):
        assert code in messages._ERRORS or code in messages._REFUSALS or code in reasons, code


def test_every_sentence_has_a_code_that_occurs():
    known = {cls.code for cls in vars(errors).values() if isinstance(cls, type) and hasattr(cls, "code")}
    used = known | set(codes_in("jobs", "runner", "recovery", "web"))
    assert messages._REFUSALS.keys() | messages._ERRORS.keys() <= used


def test_every_incident_is_documented():
    documented = set(re.findall(r"^\| (?:info|warning|critical) \| `(\w+)` \|", read("docs/operations.md"), re.MULTILINE))
    recorded = set()
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "incidents.record":
                code, module = node.args[2], importlib.import_module(f"webapp.{name}")
                if ast.unparse(code) == "code":
                    continue  # a kind's own, below
                recorded.add(code.value if isinstance(code, ast.Constant) else attrgetter(ast.unparse(code))(module))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "_deed":
                recorded.add(f"OPERATOR_{node.args[0].value}")
    for path in kind_files():
        recorded |= {node.args[0].value for node in ast.walk(tree(path))
                     if isinstance(node, ast.Call) and ast.unparse(node.func) == "job.incident"}
    assert recorded == documented


# -------------------------------------------------------------------------------------------- form

def python_files():
    return [path for folder in ("webapp", "bench", "tests") for path in sorted((ROOT / folder).rglob("*.py"))] + [
        ROOT / "wsgi.py", ROOT / "gunicorn.conf.py"]


def test_a_function_fits_a_screen():
    long = [f"{path.relative_to(ROOT)}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
            for path in python_files() if "tests" not in path.parts for node in ast.walk(tree(path))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX]
    assert not long, long


def test_every_module_says_what_it_is_for():
    missing = [str(path.relative_to(ROOT)) for path in python_files()
               if not ast.get_docstring(tree(path)) and path.read_text().strip()]
    assert not missing, missing


def test_nothing_is_left_to_do_and_nobodys_machine_is_named():
    # Put together here, so that this file does not hold what it looks for.
    wrong = re.compile("|".join((
        r"(?-i:\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b)", r"(?<![\w.])/wo" + r"rk/",
        r"(?<![\w.])/ro" + r"ot/", r"(?<![\w.])/ho" + r"me/\w", "/Us" + "ers/", r"\bcl" + r"aude\b", r"\banthro" + r"pic\b",
        r"\bAI assist" + "ant", r"pip\.con" + "f", r"\bsand" + r"box(ed)?\b (session|machine)")), re.IGNORECASE)
    found = [f"{name}:{n}: {line.strip()[:100]}" for name, text in tracked()
             if not name.startswith("webapp/static/vendor") and "/data/" not in name
             for n, line in enumerate(text.splitlines(), 1) if wrong.search(line)]
    assert not found, found


def test_one_word_for_one_thing():
    """'Cancelled' has two l's; what is in use is named as in the documents."""
    odd = re.compile(r"\bcancel" + r"(ed|ing|ation)\b(?<!cancellation)", re.IGNORECASE)
    found = [f"{name}:{n}" for name, text in tracked() if name.endswith((".py", ".html", ".md", ".sql", ".js"))
             and "vendor" not in name for n, line in enumerate(text.splitlines(), 1) if odd.search(line)]
    assert not found, found


def test_lines_are_not_endless():
    long = [f"{name}:{n}" for name, text in tracked() if name.endswith(".py") and not name.startswith("bench")
            for n, line in enumerate(text.splitlines(), 1) if len(line) > 140]
    assert not long, long
