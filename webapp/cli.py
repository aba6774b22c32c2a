"""The command line. A command is never a worker: it adopts, beats and reaps nothing, unless its purpose says so."""
import functools
import getpass
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import click
import gevent
from flask import current_app
from flask.cli import AppGroup, run_command
from flask_babel import force_locale
from gevent.event import Event

from webapp import (
    ROOT,
    accounts,
    alerts,
    checks,
    crashtest,
    db,
    forms,
    incidents,
    jobs,
    ledger,
    messages,
    quotas,
    recovery,
    web,
    workers,
)
from webapp.errors import (
    AinoriError,
    AlreadyFinal,
    Busy,
    FileTooLarge,
    InvalidInput,
    JobInFlight,
    LoginRequired,
    NotFound,
    SettingsError,
    StorageUnavailable,
    UnknownKind,
)
from webapp.kinds import Upload
from webapp.runner import Runner, files_folder

LISTED_MAX = 1000
FOLLOW_SECONDS = 0.1


class _Commands(AppGroup):
    """Commands that speak English and tell a refusal in one line."""

    def command(self, *args, **options):
        add = super().command(*args, **options)
        return lambda function: add(_in_one_line(function))


def _in_one_line(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        with force_locale("en"):
            try:
                return function(*args, **kwargs)
            except AinoriError as error:
                raise click.ClickException(_sentence(error)) from error
            except BrokenPipeError:
                raise  # whoever read us has seen enough: click ends quietly
            except sqlite3.Error as error:
                raise click.ClickException(_said_of_the_file(error)) from error
            except OSError as error:
                raise click.ClickException(str(error)) from error
    return run


_top = _Commands()
_users = _Commands("users", help="Accounts and their API tokens.")
_points = _Commands("points", help="What people have and how it came about.")
_jobs = _Commands("jobs", help="Look at work, do it here, end it.")
_incidents = _Commands("incidents", help="What the operator should know.")
_alerts = _Commands("alerts", help="How the operator hears of it.")
_kinds = _Commands("kinds", help="The kinds of work that are on; a new one.")


def register(app):
    """Give the flask command its commands; refuse ``flask run``, whose server would run no work."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().call_on_close(db.close_store)
        if context.command is run_command:
            raise SystemExit("flask run would start a server that does no work: use `make run` instead.")
    for command in (*_top.commands.values(), _users, _points, _jobs, _incidents, _alerts, _kinds,
                    crashtest.command):
        app.cli.add_command(command)


# ------------------------------------------------------------------------------- how things are said

as_json = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
limit_option = click.option("--limit", type=click.IntRange(1, LISTED_MAX), default=50, show_default=True,
                            help="How many, newest first.")


def _sentence(error):
    """A refusal as one line: what is wrong, and what to do about it on a command line."""
    if isinstance(error, InvalidInput):
        return " ".join(f"{problem['field']}: {problem['message']}".removeprefix(": ")
                        for problem in messages.field_errors(error))
    if isinstance(error, UnknownKind):
        return f"There is no kind {error.facts['kind']!r} here. The kinds that are on: {', '.join(current_app.kinds)}."
    if isinstance(error, LoginRequired):
        return f"This costs {messages.points(error.facts['cost'])}: say whose with --user EMAIL."
    if isinstance(error, JobInFlight):
        return f"{messages.refusal(error)} It is {jobs.get(error.facts['job_id'])['number']}."
    if isinstance(error, Busy) and not error.facts:
        return f"Another program holds {db.store.path.resolve()} locked: close the file there, then try again."
    if isinstance(error, StorageUnavailable):
        return (f"{db.store.path.resolve()} cannot be read or written: {error.facts['reason']}. Look at the room on its "
                "disk, and at who may write there.")
    if error.code in (AinoriError.code, SettingsError.code):
        return str(error)
    return messages.refusal(error, current_app.settings.support_contact)


def _said_of_the_file(error):
    """What SQLite said; of a missing table with the file, and what to do."""
    missing = re.search(r"no such table: (?:main\.)?(\w+)", str(error))
    if missing is None:
        return str(error)
    return (f"{db.store.path.resolve()} has no table {missing[1]}; another program has dropped or renamed it: put it back, or restore the "
            "file from a backup. `flask doctor` lists all that is missing.")


def _print_json(value):
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _listing(rows, as_json):
    """Rows (dicts with the same keys) as JSON, or as a table."""
    if as_json:
        _print_json(rows)
        return
    if not rows:
        click.echo("There are none.")
        return
    table = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else " ".join(str(value).split())


def _account(email):
    try:
        return accounts.by_email(email)
    except NotFound:
        raise click.ClickException(f"There is no account with the address {email}.") from None


def _job(text):
    job = jobs.find(text)
    if job is None:
        raise click.ClickException(f"There is no job with the id or number {text}.")
    return job


def _asked_by(job):
    return accounts.by_id(job["user_id"])["email"] or f"guest {job['user_id']}"


def _money_of(job):
    """What happened to the points of this job's owner, as a sentence."""
    money, facts = jobs.money(job, job["user_id"])
    return messages.money_sentence(job, money, facts, current_app.settings.support_contact, who="operator")


# ------------------------------------------------------------------------------------------- set-up

@_top.command("init-db")
def init_db():
    """Create the database, or bring it to the newest version. Every start does this by itself."""
    version = db.value("PRAGMA user_version")
    click.echo(f"{db.store.path.resolve()} is ready: schema version {version}.")


@_top.command("settings")
@as_json
def settings(as_json):
    """Every setting with its value, where that comes from, and what it means; a secret is not shown."""
    _listing(checks.settings(current_app), as_json)


# ------------------------------------------------------------------------------------------- people

@_users.command("add")
@click.argument("email")
@click.option("--points", "n", type=click.IntRange(0, ledger.POINTS_MAX), default=0, help="Points to begin with.")
@click.option("--admin", is_flag=True, help="An operator, who sees everything.")
@as_json
def users_add(email, n, admin, as_json):
    """Make an account. Its password and its API token are shown once, now."""
    made = {"email": email.strip(), "password": secrets.token_urlsafe(12), "token": accounts.new_token()}
    accounts.add_user(made["email"], accounts.hash_password(made["password"]), made["token"], admin, points=n)
    if as_json:
        _print_json(made)
        return
    for name, value in made.items():
        click.echo(f"{name + ':':<10}{value}")


@_users.command("token")
@click.argument("email")
@as_json
def users_token(email, as_json):
    """Give an account a new API token, shown once, now. The one before stops working."""
    user, token = _account(email), accounts.new_token()
    accounts.set_token(user["id"], token)
    if as_json:
        _print_json({"email": user["email"], "token": token})
    else:
        click.echo(token)


@_users.command("reset")
@click.argument("email")
@as_json
def users_reset(email, as_json):
    """A link that sets a new password for an account: once, and within a day. The one before stops working."""
    user, token = _account(email), secrets.token_urlsafe(32)
    accounts.set_reset(user["id"], token)
    link = current_app.settings.address(f"/reset?token={token}")
    if as_json:
        _print_json({"email": user["email"], "link": link})
    else:
        click.echo(link)


@_points.command("grant")
@click.argument("email")
@click.argument("n", type=click.IntRange(1, ledger.POINTS_MAX))
@click.option("--note", required=True, help="Why: it stands in the person's statement.")
def points_grant(email, n, note):
    """Add N points to an account."""
    user = _account(email)
    balance = ledger.grant(user["id"], n, note)
    click.echo(f"{messages.points(n)} granted to {user['email']} (balance {balance}).")


@_points.command("statement")
@click.argument("email")
@limit_option
@as_json
def points_statement(email, limit, as_json):
    """Balance and ledger entries of an account."""
    user = _account(email)
    entries = [{"id": entry["id"], "at": entry["created_at"], "kind": entry["kind"], "points": entry["points"],
                "balance_after": entry["balance_after"], "number": entry["number"], "for": entry["for_kind"],
                "note": entry["note"]} for entry in ledger.statement(user["id"], limit=limit)]
    balance, available = ledger.balance(user["id"]), ledger.available(user["id"])
    if as_json:
        _print_json({"email": user["email"], "balance": balance, "available": available, "entries": entries})
        return
    click.echo(f"{user['email']}: {messages.points(balance)}, of which {available} available.")
    _listing(entries, as_json)


# --------------------------------------------------------------------------------------------- jobs

@_jobs.command("list")
@click.option("--status", type=click.Choice(["pending", "running", "succeeded", "failed"]))
@limit_option
@as_json
def jobs_list(status, limit, as_json):
    """Jobs, newest first, as they are stored."""
    _listing([{"number": job["number"], "id": job["id"], "kind": job["kind"], "asked_by": _asked_by(job),
               "status": job["status"], "stage": job["stage"], "progress": round(job["progress"], 4),
               "attempt": job["attempt"], "cost": job["cost"], "money": jobs.money(job, job["user_id"])[0],
               "settlement": job["settlement"], "error": job["error_code"], "created_at": job["created_at"]}
              for job in jobs.listing(status=status, limit=limit)], as_json)


@_jobs.command("show")
@click.argument("job_id", metavar="ID")
@as_json
def jobs_show(job_id, as_json):
    """One job by its id or number, and all that happened to it: events, ledger entries, incidents."""
    job = _job(job_id)
    timeline = [dict(row) for row in jobs.timeline(job["id"])]
    shown = messages.job_json(job, job["user_id"], current_app.kinds, current_app.settings.support_contact)
    if as_json:
        _print_json({**shown, "asked_by": _asked_by(job), "settlement": job["settlement"], "timeline": timeline})
        return
    message = messages.progress_sentence(current_app.kinds.get(job["kind"]), job, who="operator")
    click.echo(f"{job['number']} ({job['id']}): {job['kind']}, asked for by {_asked_by(job)}")
    click.echo(f"{job['status']}, settlement {job['settlement']}, attempt {job['attempt']} ({job['attempts_spent']} of "
               f"{job['max_attempts']} spent, {job['releases']} released), cost {job['cost']}. {message} {_money_of(job)}")
    _listing(timeline, as_json)


@_jobs.command("cancel")
@click.argument("job_id", metavar="ID")
def jobs_cancel(job_id):
    """Stop a job as the operator, for everybody who waits for it: points that it has used are returned."""
    job = _job(job_id)
    outcome = jobs.stop(job["id"], _operator())
    job = jobs.get(job["id"])
    if outcome == "cancelled":
        click.echo(f"{job['number']}: the person who asked has cancelled it already; it ends when its worker hears of it. "
                   f"{_money_of(job)}")
    elif job["status"] in jobs.IN_FLIGHT:
        click.echo(f"{job['number']}: asked to stop; it ends when its worker hears of it. {_money_of(job)}")
    else:
        click.echo(f"{job['number']}: stopped. {_money_of(job)}")


@_jobs.command("settle")
@click.argument("job_id", metavar="ID")
@click.option("--refund/--keep", "refund", default=None, help="Return the points, or keep the charge.")
@click.option("--note", required=True, help="Why.")
def jobs_settle(job_id, refund, note):
    """Decide by hand about a job whose points are due or unknown."""
    if refund is None:
        raise click.UsageError("Say either --refund or --keep.")
    job = _job(job_id)
    try:
        settlement = jobs.settle_by_hand(job["id"], keep=not refund, by=_operator(), note=note)
    except AlreadyFinal as error:
        if error.facts["status"] == "kept":
            raise click.ClickException(f"{job['number']} is decided: {job['kept_by']} kept the charge "
                                       f"({job['kept_note']}). It is settled when the ledger can be read.") from None
        raise click.ClickException(f"{job['number']} has nothing to settle ({job['status']}, settlement "
                                   f"{job['settlement']}). {_money_of(job)}") from None
    job = jobs.get(job["id"])
    if settlement == "settled":
        click.echo(f"{job['number']} is settled. {_money_of(job)}")
    elif job["kept_by"]:
        click.echo(f"{job['number']}: recorded. The ledger cannot be read now; as soon as it can, the charge is kept "
                   f"({job['kept_by']}: {job['kept_note']}). Nothing more has to be done.")
    else:
        raise click.ClickException(f"{job['number']} is still {settlement}: the ledger cannot be read, so nothing can "
                                   "be returned now. The points are returned by themselves as soon as it can be read; "
                                   "`flask doctor` and `flask incidents list` say what is wrong.")


def _operator():
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"user {os.getuid()}"


# ------------------------------------------------------------------------------------- jobs run here

@_jobs.command("run")
@click.argument("kind_name", metavar="KIND")
@click.option("--param", "params", multiple=True, metavar="K=V", callback=crashtest.name_and_value,
              help="May be repeated; of a list, once for each entry.")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Where the kind takes one.")
@click.option("--user", "email", help="Whose work it is, and whose points; needed for what costs points.")
def jobs_run(kind_name, params, file, email):
    """Do one job in this process, from submit to settlement; its result comes out as JSON.

    Progress is shown on stderr. Exit code 1 if it did not succeed. Ctrl-C gives it back, or ends it and
    returns its points, as a server's restart would.
    """
    kind = web.kind_named(kind_name)
    user_id = _account(email)["id"] if email else accounts.command_line_user()
    who = jobs.Asker(user_id, is_guest=not email)
    runner = Runner(current_app.kinds, current_app.settings, current_app.upstream)
    with _interruptible() as interrupted:
        runner.start("command")
        try:
            submission = _submit(kind, params, file, who)
            # This one alone: what others wait for is a server's work. If a server was faster, we only follow.
            for claimed in jobs.claim(workers.current.id, [kind.name], job_id=submission.job_id):
                runner.begin_one(claimed)
            _follow(submission.job_id, kind, interrupted)
        finally:
            for attempt in list(runner.attempts.values()):
                attempt.stop("drained")
            runner.drain()
    _tell_end(jobs.poll(submission.job_id), user_id)


def _submit(kind, params, file, who):
    files = {}
    try:
        if file is not None:
            if kind.upload_field is None:
                raise click.ClickException(f"The kind {kind.name!r} takes no file.")
            files[kind.upload_field] = _received(file)
        order = web.order_of(kind, forms.read(kind, params), files, who)
        submission = jobs.submit(order, max_pending=current_app.settings.max_pending_jobs, files=files)
    finally:
        for received in files.values():
            received.path.unlink(missing_ok=True)
    if submission.outcome != "new":
        said = {"joined": "the same is in flight already", "cached": "a result of it is still fresh"}
        click.echo(f"Not started anew: {said[submission.outcome]}.", err=True)
    return submission


def _received(file):
    """A copy of the file, as an upload arrives. Raises ``FileTooLarge``."""
    limit_mb = current_app.settings.max_upload_mb
    if file.stat().st_size > limit_mb * 1024 * 1024:
        raise FileTooLarge(limit_mb=limit_mb)
    incoming = web.Incoming(current_app.settings.folder / "uploads")
    with closing(incoming), file.open("rb") as source:
        shutil.copyfileobj(source, incoming)
        incoming.complete()
    return jobs.Received(incoming.path, Upload(name=file.name[-100:], size=incoming.size, sha256=incoming.sha256))


@contextmanager
def _interruptible():
    """An event that Ctrl-C and its like set. Python's own way would raise in whichever greenlet is running,
    perhaps in the middle of a verb."""
    interrupted = Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # What is ignored stays so: nohup means it.
    watchers = [gevent.signal_handler(number, interrupted.set) for number, handler in before.items()
                if handler is not signal.SIG_IGN]
    try:
        yield interrupted
    finally:
        for watcher in watchers:
            watcher.cancel()
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _follow(job_id, kind, interrupted):
    """Show the job's progress until it is final and settled, or until somebody interrupts."""
    with click.progressbar(length=100, file=sys.stderr, show_eta=False, label=kind.title_in("en")) as bar:
        while not interrupted.wait(timeout=FOLLOW_SECONDS):
            job = jobs.poll(job_id)
            if job["status"] in jobs.IN_FLIGHT:  # how it ended is said by what comes after
                bar.label = messages.progress_sentence(kind, job)
            bar.pos = round(job["progress"] * 100)
            bar.render_progress()
            if job["status"] not in jobs.IN_FLIGHT and job["settlement"] != "due":
                return


def _tell_end(job, user_id):
    shown = messages.job_json(job, user_id, current_app.kinds, current_app.settings.support_contact)
    number, money = job["number"], shown["money_message"]
    if job["status"] == "succeeded":
        click.echo(f"{number} is done. {money}", err=True)
        _print_json(shown["result"])
        for file in shown["files"]:
            click.echo(f"Saved: {files_folder(job['id']) / file['name']}", err=True)
    elif job["status"] == "failed":
        raise click.ClickException(f"{number} has failed. {shown['error']['message']} {money}")
    elif job["status"] == "pending":
        raise click.ClickException(f"{number} is given back: it waits, and a running server goes on with it; "
                                   f"`flask jobs cancel {number}` ends it. {money}")
    else:
        raise click.ClickException(f"{number} goes on, and is no longer watched here: `flask jobs show {number}` tells "
                                   f"how it stands. {money}")


# ---------------------------------------------------------------------------------------- operation

@_top.command("reap")
@as_json
def reap(as_json):
    """One recovery pass: interrupt what is orphaned or timed out, settle what is due. Safe at any time."""
    found = recovery.one_pass()
    if as_json:
        _print_json(vars(found))
        return
    click.echo(f"{found.interrupted} interrupted, {found.resumed} waiting again, {messages.points(found.points)} "
               f"returned, {found.unknown} unknown.")


@_top.command("audit")
@as_json
def audit(as_json):
    """Recompute every balance and every law of the books from the raw rows. Exit code 1 on a breach."""
    breaches = ledger.audit()
    if as_json:
        _print_json({"breaches": breaches})
    for breach in () if as_json else breaches:
        click.echo(breach)
    if breaches:
        raise click.ClickException(f"The books are not right: {len(breaches)} found.")
    if not as_json:
        click.echo(f"The books are right: {db.value('SELECT count(*) FROM ledger_entries')} ledger entries, "
                   f"{db.value('SELECT count(*) FROM jobs')} jobs.")


@_incidents.command("list")
@click.option("--all", "everything", is_flag=True, help="Acknowledged and resolved ones too.")
@as_json
def incidents_list(everything, as_json):
    """Open incidents, newest first."""
    _listing([{name: row[name] for name in ("id", "at", "severity", "scope", "code", "job_id", "detail", "times",
                                            "alerted_at", "resolved_at", "acknowledged_at")}
              for row in incidents.listing(everything)], as_json)


@_incidents.command("ack")
@click.argument("incident_id", metavar="ID", type=click.IntRange(1, 2**62))
def incidents_ack(incident_id):
    """Say that somebody has looked at an incident."""
    if not incidents.acknowledge(incident_id):
        raise click.ClickException(f"There is no incident {incident_id} that waits to be acknowledged.")
    click.echo(f"Incident {incident_id} is acknowledged.")


@_alerts.command("test")
def alerts_test():
    """Send one message to every channel of ALERT_URLS, and say whether it arrived. Exit code 1 if one did not."""
    settings = current_app.settings
    urls = settings.alert_channels()
    if not urls:
        raise click.ClickException("ALERT_URLS is not set: nobody hears of incidents, they are only listed.")
    took = alerts.send(urls, {"title": f"{settings.site_name}: test", "notify_type": "info",
                              "body": f"This is a test: alerts of {settings.site_name} arrive here."})
    for n, (url, arrived) in enumerate(zip(urls, took, strict=True), 1):
        click.echo(f"{n} ({alerts.scheme(url)}): {'arrived' if arrived else 'did not arrive'}")
    if not all(took):
        raise click.ClickException("Not every channel took it: `apprise -vv -b test URL` says why.")


# ------------------------------------------------------------------------------------------- doctor

@_top.command("doctor")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@as_json
def doctor(file, as_json):
    """Examine this installation, or only a database FILE (a backup, say), which is read and never written.

    Exit code 1 if something is wrong; a warning is none.
    """
    newest = db.value("PRAGMA user_version")
    found = [*checks.sqlite_version(), *_examined(file or db.store.path, newest)]
    if file is None:
        found += [*_unsettled(), *checks.write_lock(), *checks.folders(current_app.settings.folder),
                  *checks.warnings(current_app)]
    listed = [{"verdict": verdict, "what": what, "detail": detail} for verdict, what, detail in found]
    _listing(listed, as_json)
    if any(verdict == "wrong" for verdict, _what, _detail in found):
        raise click.ClickException("Something is wrong: see above.")


def _examined(path, newest):
    """Verdicts on one database file, through a connection that cannot write."""
    yield "good", "file", f"{path.resolve()}, {_size(path)}, WAL {_size(path.with_name(path.name + '-wal'))}"
    with closing(_open_read_only(path)) as connection:
        try:
            ours = connection.execute("PRAGMA application_id").fetchone()[0] == db.APPLICATION_ID
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            damages = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.DatabaseError as error:
            yield "wrong", "integrity", str(error)
            return
    yield ("good", "application", "Ainori's") if ours else ("wrong", "application", "a database of another program")
    yield ("good" if version == newest else "note" if version < newest else "wrong", "schema version",
           f"{version}; this code's is {newest}")
    if ours and version == newest:
        missing = ", ".join(name for name in _tables_of_schema() if name not in tables)
        yield ("wrong", "tables", f"missing: {missing}. Another program has dropped or renamed them: put them back, or "
                                  "restore the file from a backup") if missing else ("good", "tables", "all there")
    yield ("good", "integrity", "ok") if damages == ["ok"] else ("wrong", "integrity", "; ".join(damages))
    yield ("good", "foreign keys", "ok") if not broken else ("wrong", "foreign keys", f"{len(broken)} rows refer to "
                                                                                      "nothing")


def _tables_of_schema():
    return re.findall(r"^CREATE TABLE (\w+)", (ROOT / "schema.sql").read_text("utf-8"), re.MULTILINE)


def _unsettled():
    """What waits for the operator."""
    unknown = jobs.unsettled_counts().get(("unknown",)) if checks.has_table("jobs") else 0
    if unknown:
        yield ("note", "unknown points", f"of {unknown}: `flask jobs list --status failed` shows which (money unknown), "
                                         "`flask jobs settle` decides")
    critical = incidents.open_counts().get(("critical",)) if checks.has_table("incidents") else 0
    if critical:
        yield "note", "incidents", f"{critical} critical ones are open: `flask incidents list` shows them"


def _open_read_only(path):
    # With nobody's WAL beside it the file is complete in itself; opened plainly, it would be given one.
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    return sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=10)


def _size(path):
    return f"{path.stat().st_size / 1e6:,.1f} MB" if path.exists() else "none"


# ------------------------------------------------------------------------------------------- backup

@_top.command("backup")
@click.argument("dest", type=click.Path(path_type=Path))
def backup(dest):
    """Copy the database, uploads/ and files/ of a running site into the new folder DEST, or into DEST.tar.gz.

    Nothing is overwritten, and nothing is left behind unless the whole copy is sound. The key that signs
    cookies is not copied. To restore, stop the server, and put the copies in place of the originals, with
    old -wal and -shm files removed.
    """
    dest = dest.absolute()
    if dest.exists() and not (dest.is_dir() and not any(dest.iterdir())):
        raise click.ClickException(f"{dest} exists, and nothing is overwritten: name another.")
    folder = db.store.path.resolve().parent
    if any(dest.is_relative_to(folder / name) for name in ("uploads", "files")):
        raise click.ClickException(f"{dest} lies within what is copied: name another.")
    dest.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ainori-backup-", dir=dest.parent) as partial:
        partial = Path(partial)
        copy = partial / "copy"
        copy.mkdir(mode=0o700)
        _copy_all(folder, copy)
        if dest.name.endswith((".tar.gz", ".tgz")):
            packed = partial / "packed"
            with os.fdopen(os.open(packed, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                with tarfile.open(fileobj=file, mode="w:gz") as archive:
                    archive.add(copy, arcname="ainori-backup")
                _make_durable(file)
            packed.rename(dest)
        else:
            copy.rename(dest)
    click.echo(f"{dest} holds a sound copy.")


def _copy_all(folder, copy):
    """Files first, then the rows that name them, then the files that came meanwhile: none is missing."""
    _copy_new_files(folder, copy)
    target = copy / db.store.path.name
    with closing(sqlite3.connect(target)) as connection:
        db.store.read_connection.backup(connection)
        found = [row[0] for row in connection.execute("PRAGMA integrity_check(10)")]
    if found != ["ok"]:
        raise click.ClickException(f"The copy is not sound, so it is not kept: {'; '.join(found)}")
    with target.open("rb+") as file:
        _make_durable(file)
    _copy_new_files(folder, copy)


def _copy_new_files(folder, copy):
    for name in ("uploads", "files"):
        for path in [copy / name, *(folder / name).rglob("*")]:
            target = copy / path.relative_to(folder) if path != copy / name else path
            if path.is_dir() or target == path:
                target.mkdir(exist_ok=True)
            elif not path.name.startswith("incoming-") and not target.exists():
                _copy_file(path, target)


def _copy_file(path, target):
    try:
        shutil.copy2(path, target)
    except FileNotFoundError:
        return  # its job is done with it
    with target.open("rb+") as file:
        _make_durable(file)


def _make_durable(file):
    file.flush()
    os.fsync(file.fileno())


# -------------------------------------------------------------------------------------------- kinds

@_kinds.command("list")
@as_json
def kinds_list(as_json):
    """The kinds that are on."""
    pauses = jobs.pauses()
    _listing([{"name": kind.name, "title": kind.title_in("en"),
               "cost": "by its params" if callable(kind.cost) else kind.cost, "exclusive": kind.exclusive,
               "shared": kind.share_key is not None, "on_interrupt": kind.on_interrupt,
               "max_attempts": kind.attempts_max, "timeout_seconds": kind.timeout_seconds,
               "paused_since": pauses[kind.name]["created_at"] if kind.name in pauses else None,
               "quota": _allowance(kind),
               "params": ", ".join(kind.params.model_fields), "home": str(kind.home)}
              for kind in current_app.kinds.values()], as_json)


@_kinds.command("pause")
@click.argument("name")
@click.option("--note", help="Why, in words for users.")
def kinds_pause(name, note):
    """Let a kind take nothing new for now. What is in flight goes on."""
    jobs.pause_kind(web.kind_named(name).name, _operator(), note)
    click.echo(f"{name} is paused: it takes nothing new until `flask kinds resume {name}`. What is in flight goes on.")


@_kinds.command("resume")
@click.argument("name")
def kinds_resume(name):
    """Let a paused kind take new work again."""
    if not jobs.resume_kind(name):  # also one that is no longer on
        raise click.ClickException(f"{name} is not paused.")
    click.echo(f"{name} takes new work again.")


def _allowance(kind):
    standing = web.allowance(kind)
    if standing is None:
        return None
    return (f"{standing.spent:,} of {standing.cap:,} today" if standing.cap else f"{standing.spent:,} today") + (
        f", used up until {standing.exhausted_until}" if standing.exhausted else "")


@_kinds.command("reopen")
@click.argument("name")
def kinds_reopen(name):
    """Ask a metered service again today that had said its allowance was used up."""
    quota = web.kind_named(name).quota
    if quota is None or not quotas.reopen(quota):
        raise click.ClickException(f"No service that {name} asks has said that today's allowance is used up.")
    click.echo(f"{name} asks its service again.")


@_kinds.command("new")
@click.argument("name")
def kinds_new(name):
    """Write a kind that works, NAME.py, into the current folder, to be made your own."""
    path = Path.cwd() / f"{name}.py"
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise click.ClickException(f"{name!r} is no name for a kind: lower-case letters, digits and _ (at most 40).")
    if path.exists() or name in current_app.kinds or importlib.util.find_spec(name) is not None:
        raise click.ClickException(f"{name} exists already, as a file, a kind or a Python module: choose another name.")
    path.write_text(_TEMPLATE.replace("NAME", name).replace("TITLE", name.replace("_", " ").capitalize()), "utf-8")
    others = [*current_app.settings.names("EXTRA_KINDS"), name]
    click.echo(f"{path} is written. Switch it on with EXTRA_KINDS={','.join(others)} (in .env, say); this folder must "
               "be the server's own, or on PYTHONPATH.")
    click.echo(f"Try it: flask jobs run {name} --param text='One two. Three.'")


_TEMPLATE = '''"""TITLE: counts the words of a text, sentence by sentence. Make it your own."""
from pydantic import BaseModel, Field

from webapp.kinds import JobContext, Kind, Refuse


class Params(BaseModel, extra="forbid"):
    """What is asked for. The form, the API's checks and its description are made from this."""

    text: str = Field(title="Text", min_length=1, max_length=20_000,
                      json_schema_extra={"ja": {"title": "文章"}})


def run(job: JobContext, params: Params) -> dict:
    """The work itself. What it returns must be JSON (at most 1 MB), and is shown as the result."""
    # A step's output is stored: if this attempt is interrupted, the next one does not repeat it.
    sentences = job.step("split", lambda: [part.strip() for part in params.text.split(".") if part.strip()])
    if not sentences:
        # Ends the job with this reason; what was charged is returned.
        raise Refuse("NOTHING_TO_READ", {"en": "There is no sentence in it.", "ja": "文がありません。"})
    # job.charge()    # with cost=1 below: takes the point, once for this job. Ask for it just before
    #                 # the part that costs you money, and not before you know that it can be done.
    counts = []
    for sentence in sentences:
        # Shown at once; also where a cancellation or the time-out takes effect.
        job.progress("count", done=len(counts), total=len(sentences))
        counts.append({"sentence": sentence, "words": len(sentence.split())})
    return {"words": sum(count["words"] for count in counts), "sentences": counts}


KIND = Kind(
    name="NAME",
    title={"en": "TITLE", "ja": "TITLE"},
    noun={"en": "count", "ja": "集計"},          # what people call one of these
    params=Params,
    run=run,
    stages=[("count", {"en": "Counting", "ja": "集計"})],
    labels={"words": {"en": "Words", "ja": "語数"}, "sentences": {"en": "Sentences", "ja": "文"}},  # of the result's keys
    cost=0,                    # points, or a function of params
    exclusive=False,           # True: one in flight for each person
    timeout_seconds=60,        # for each attempt
    on_interrupt="retry",      # it may be repeated; "fail" if it may not
    max_attempts=3,
)
'''
