"""The operator's pages: who may, one domain call, and back with a sentence of what was done."""
import secrets

from flask import Blueprint, current_app, flash, g, redirect, render_template, request, url_for
from flask_babel import format_decimal, ngettext
from flask_babel import gettext as _

from webapp import accounts, checks, incidents, jobs, ledger, messages, overview, quotas, web, workers
from webapp.errors import AdminsOnly, AinoriError, AlreadyFinal, InvalidInput, LoginRequired, NotFound

blueprint = Blueprint("admin", __name__, url_prefix="/admin")

SHOWN_MAX = 20
IN_FLIGHT_MAX = 100
USERS_MAX = 50
TEXT_CHARACTERS_MAX = 500


@blueprint.before_request
def admins_only():
    user = web.account()
    if user is None:
        if request.method in web.SAFE_METHODS:
            return redirect(url_for("auth.login", next=request.full_path if request.query_string else request.path), 303)
        raise LoginRequired()
    if not user["is_admin"]:
        raise AdminsOnly()
    if request.method not in web.SAFE_METHODS:
        web.require_session()


@blueprint.after_request
def not_kept(answer):
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _act(back, act):
    """Do what a form asks for, and lead back with the sentence for it, or with why not."""
    try:
        flash(act(), "success")
    except AinoriError as error:
        if current_app.status_of(error) >= 500:
            raise
        flash(messages.refusal(error, current_app.settings.support_contact), "error")
    return redirect(back, 303)


def _typed(name, label):
    """A text that a form must bring. Raises ``InvalidInput``."""
    text = request.form.get(name, "").strip()
    if not text or len(text) > TEXT_CHARACTERS_MAX:
        raise InvalidInput([{"field": name, "type": "value_error", "facts": {}, "message": {
            messages.language(): _("%(label)s: please write something, at most %(n)s characters.", label=label,
                                   n=TEXT_CHARACTERS_MAX)}}])
    return text


def _by():
    return g.viewer["email"]


def _deed(code, what, act, **about):
    return incidents.deed(f"OPERATOR_{code}", g.viewer, what, act, **about)


# ------------------------------------------------------------------------------------ at a glance

@blueprint.get("")
def home():
    counts, open_counts = jobs.unsettled_counts(), incidents.open_counts()
    warnings, living = list(checks.warnings(current_app)), [row for row in _workers() if row["dead"] is False]
    unknown, critical = counts.get(("unknown",), 0), open_counts.get(("critical",), 0)
    return render_template(
        "admin/home.html", needs=list(_needs(unknown, critical, len(warnings))), in_flight=_in_flight(),
        in_flight_count=sum(jobs.in_flight_counts().values()), unknown=[_unknown(row) for row in jobs.unknown(SHOWN_MAX)],
        unknown_count=unknown, incidents=_incidents(incidents.listing(limit=SHOWN_MAX)), open_count=sum(open_counts.values()),
        users_count=accounts.count(), workers_count=len(living), audited=overview.audited, paused=len(jobs.pauses()))


def _needs(unknown, critical, warnings):
    """What the operator should do now, the most important first."""
    if jobs.signals.starting:
        yield _("The server could not begin to work yet: another program holds the file, or the disk is full."), \
            url_for("admin.system")
    if web.storage_refused():
        yield _("The disk refuses to write: make room, or let the server write in its folder."), url_for("admin.system")
    if unknown:
        yield ngettext("The points of %(num)s piece of work are unknown.", "The points of %(num)s pieces of work are unknown.",
                       unknown), "#unknown"
    if overview.audited is not None and overview.audited["breaches"]:
        yield _("The books are not right."), url_for("admin.system", _anchor="books")
    if critical:
        yield ngettext("%(num)s critical incident is open.", "%(num)s critical incidents are open.", critical), "#incidents"
    if warnings:
        yield ngettext("%(num)s warning about the settings.", "%(num)s warnings about the settings.",
                       warnings), url_for("admin.system", _anchor="warnings")


def _title(name):
    kind = current_app.kinds.get(name)
    return kind.title_in(messages.language()) if kind else name


def _asked_by(text):
    """The name that the views give, in the viewer's language."""
    for words, sentence in (("guest ", _("guest")), ("deleted account ", _("deleted account"))):
        if text.startswith(words):
            return f"{sentence} {text.removeprefix(words)}"
    return text


def _name_of(user):
    if user["email"]:
        return user["email"]
    return f"{_('deleted account') if user['deleted_at'] else _('guest')} {user['id']}"


def _in_flight():
    lang, shown = messages.language(), []
    for row in jobs.in_flight(IN_FLIGHT_MAX):
        kind = current_app.kinds.get(row["kind"])
        shown.append({
            **dict(row), "href": url_for("admin.work", job_id=row["job_id"]), "title": _title(row["kind"]),
            "asked_by": _asked_by(row["asked_by"]), "status_label": messages.status_label({**dict(row), "error_code": None}),
            "stage": (kind.stage_in(row["stage"], lang) if kind else row["stage"]) if row["stage"] else None,
            "progress": row["progress"].replace(".0", ""), "age": messages.duration(jobs.age_seconds(row))})
    return shown


def _unknown(job):
    return {"href": url_for("admin.work", job_id=job["id"]), "number": job["number"], "title": _title(job["kind"]),
            "asked_by": _name_of(accounts.by_id(job["user_id"])), "cost": job["cost"], "finished_at": job["finished_at"],
            "kept_by": job["kept_by"]}


def _workers():
    running = {}
    for row in jobs.in_flight(IN_FLIGHT_MAX):
        if row["worker_id"]:
            running.setdefault(row["worker_id"], []).append(
                {"number": row["number"], "href": url_for("admin.work", job_id=row["job_id"])})
    return [{**dict(row), "dead": workers.is_dead(row["id"]), "running": running.get(row["id"], ())}
            for row in workers.listing(SHOWN_MAX)]


@blueprint.get("/search")
def search():
    """A piece of work, by what its owner or a page says of it; else people."""
    typed = request.args.get("q", "").strip()
    found = jobs.find(typed)
    return redirect(url_for("admin.work", job_id=found["id"]) if found else url_for("admin.users", q=typed), 303)


# ------------------------------------------------------------------------------------ work

@blueprint.get("/jobs")
def all_work():
    found = jobs.listing(before=request.args.get("before"), limit=USERS_MAX + 1)
    next_href = url_for("admin.all_work", before=found[USERS_MAX - 1]["id"]) if len(found) > USERS_MAX else None
    return render_template("admin/all_work.html", work=_listed(found[:USERS_MAX]), next_href=next_href)


def _listed(found):
    """Lines of a list of work."""
    return [{"title": _title(row["kind"]), "number": row["number"], "href": url_for("admin.work", job_id=row["id"]),
             "asked_by": _name_of(accounts.by_id(row["user_id"])), "created_at": row["created_at"], "cost": row["cost"],
             "badge": messages.badge(row, "checking" if row["settlement"] == "due" else None),
             "status_label": messages.status_label(row)} for row in jobs.poll_listed(found)]


@blueprint.get("/jobs/<job_id>")
def work(job_id):
    job = jobs.poll(job_id)
    if job is None:
        raise NotFound()
    money, facts = jobs.money(job, job["user_id"])
    in_flight = job["status"] in jobs.IN_FLIGHT
    kind = current_app.kinds.get(job["kind"])
    return render_template(
        "admin/work.html", job=job, title=_title(job["kind"]), asked_by=accounts.by_id(job["user_id"]),
        asked_by_name=_name_of(accounts.by_id(job["user_id"])), status_label=messages.status_label(job),
        message=messages.progress_sentence(kind, job, who="operator"), money=money, money_sentence=_money_sentence(money, facts),
        in_flight=in_flight, cancel_note=_cancel_note(job, money) if in_flight else None, watchers=jobs.watchers(job_id),
        to_settle=job["settlement"] in ("due", "unknown"), timeline=jobs.timeline(job_id))


def _money_sentence(money, facts):
    if money == "consumed":
        return _("%(points)s used.", points=messages.points(facts["points"]))
    if money == "refunded":
        return _("%(points)s used and returned.", points=messages.points(facts["points"]))
    return {"checking": _("Being settled."), "unknown": _("It could not be confirmed whether points were used.")}.get(
        money, _("No points were used."))


def _cancel_note(job, money):
    """What stopping it would mean, said beforehand."""
    if (n := jobs.watchers(job["id"])) > 1:
        return ngettext("%(num)s person waits for it: it ends for all of them.", "%(num)s people wait for it: it ends for all "
                        "of them.", n)
    if money == "consumed":
        return _("Its points have been used already: if you stop it now they are returned.")
    if money == "refunded":
        return _("Its points have been returned already.")
    if money == "unknown":
        return _("It cannot be seen now whether points were used: if you stop it now, what was used is returned.")
    if job["cost"]:
        return _("Nothing has been used yet: if you stop it now, no points are used.")
    return _("It is free.")


@blueprint.post("/jobs/<job_id>/cancel")
def cancel(job_id):
    def act():
        job = _job(job_id)
        if jobs.stop(job_id, _by()) == "cancelled":
            return _("The person who asked has cancelled %(number)s already; it ends when its worker hears of it.",
                     number=job["number"])
        job = jobs.get(job_id)
        _deed("STOP", "stopped", lambda: None, job_id=job_id)  # a stop may wait: no verb
        if job["status"] in jobs.IN_FLIGHT:
            return _("%(number)s is asked to stop; it ends when its worker hears of it.", number=job["number"])
        return _("%(number)s is stopped. %(money)s", number=job["number"],
                 money=_money_sentence(*jobs.money(job, job["user_id"])))
    return _act(url_for("admin.work", job_id=job_id), act)


@blueprint.post("/jobs/<job_id>/settle")
def settle(job_id):
    def act():
        job, note, keep, by = _job(job_id), _typed("note", _("Why")), request.form.get("decision") == "keep", _by()
        try:
            settlement = _deed("SETTLE", f"{'keep' if keep else 'return'}: {note}", job_id=job_id,
                               act=lambda: jobs.settle_by_hand(job_id, keep=keep, by=by, note=note))
        except AlreadyFinal:
            return _("%(number)s was decided before.", number=job["number"])
        job = jobs.get(job_id)
        if settlement == "settled":
            return _("%(number)s is settled. %(money)s", number=job["number"],
                     money=_money_sentence(*jobs.money(job, job["user_id"])))
        if job["kept_by"]:
            return _("%(number)s: recorded. The ledger cannot be read now; as soon as it can, the charge is kept.",
                     number=job["number"])
        return _("%(number)s is still unknown, since the ledger cannot be read. Its points are returned by themselves as "
                 "soon as it can be.", number=job["number"])
    return _act(url_for("admin.work", job_id=job_id), act)


def _job(job_id):
    job = jobs.get(job_id)
    if job is None:
        raise NotFound()
    return job


# ------------------------------------------------------------------------------------ incidents

@blueprint.get("/incidents", endpoint="incidents")
def all_incidents():
    everything = bool(request.args.get("all"))
    found = incidents.listing(everything, web.stored_number(request.args.get("before", "")), USERS_MAX + 1)
    older = found[USERS_MAX - 1]["id"] if len(found) > USERS_MAX else None
    return render_template(
        "admin/incidents.html", incidents=_incidents(found[:USERS_MAX]), everything=everything, codes=_codes(found),
        next_href=older and url_for("admin.incidents", before=older, **({"all": 1} if everything else {})))


def _incidents(rows):
    shown = []
    for row in rows:
        job = jobs.get(row["job_id"]) if row["job_id"] else None
        shown.append({**dict(row), "number": job and job["number"],
                      "href": job and url_for("admin.work", job_id=job["id"]),
                      "person": _name_of(accounts.by_id(row["user_id"])) if row["user_id"] and not job else None,
                      "severity_label": {"info": _("note"), "warning": _("warning")}.get(row["severity"], _("critical")),
                      "is_open": row["acknowledged_at"] is None and row["resolved_at"] is None})
    return shown


def _codes(rows):
    """Codes of which several are open."""
    codes = [row["code"] for row in rows if row["acknowledged_at"] is None and row["resolved_at"] is None]
    return sorted({code for code in codes if codes.count(code) > 1})


@blueprint.post("/incidents/<int:incident_id>/acknowledge")
def acknowledge(incident_id):
    def act():
        if not incidents.acknowledge(incident_id):
            return _("Incident %(n)s was acknowledged before.", n=incident_id)
        return _("Incident %(n)s is acknowledged.", n=incident_id)
    return _act(web.local_path(request.args.get("back", url_for("admin.incidents"))), act)


@blueprint.post("/incidents/acknowledge")
def acknowledge_all():
    def act():
        code = request.form.get("code", "")
        n = incidents.acknowledge_all(code)
        return ngettext("%(num)s incident %(code)s is acknowledged.", "%(num)s incidents %(code)s are acknowledged.", n,
                        code=code)
    return _act(url_for("admin.incidents"), act)


# ------------------------------------------------------------------------------------ people

@blueprint.get("/users")
def users():
    wanted = request.args.get("q", "").strip()
    found = accounts.listing(wanted, web.stored_number(request.args.get("before", "")), USERS_MAX + 1)
    older = found[USERS_MAX - 1]["id"] if len(found) > USERS_MAX else None
    return render_template(
        "admin/users.html", search=wanted, count=accounts.count(),
        users=[{**_account_facts(row), "href": url_for("admin.user", user_id=row["id"])} for row in found[:USERS_MAX]],
        next_href=older and url_for("admin.users", before=older, **({"q": wanted} if wanted else {})))


def _account_facts(user):
    user_id = user["id"]
    return {"id": user_id, "name": _name_of(user), "is_admin": user["is_admin"], "created_at": user["created_at"],
            "deleted_at": user["deleted_at"], "has_token": user["token_hash"] is not None,
            "has_password": user["password_hash"] is not None, "balance": ledger.balance(user_id),
            "available": ledger.available(user_id), "in_flight": jobs.in_flight_of(user_id),
            "sessions": accounts.sessions_count(user_id)}


@blueprint.get("/user/<int:user_id>")
def user(user_id):
    return _user_page(user_id)


def _user_page(user_id, link=None):
    """``link``: a one-time link, shown this once."""
    found = accounts.by_id(user_id)
    if found is None:
        raise NotFound()
    before = web.stored_number(request.args.get("before", ""))
    entries = ledger.statement(user_id, before, limit=USERS_MAX + 1)
    return render_template(
        "admin/user.html", user=_account_facts(found), link=link, last_entry=ledger.last_entry(user_id),
        reset_hours=accounts.RESET_HOURS, points_max=ledger.POINTS_MAX, text_max=TEXT_CHARACTERS_MAX,
        entries=web.movements(entries[:USERS_MAX], "admin.work"),
        work=_listed(jobs.listing(user_id, limit=SHOWN_MAX)),
        next_href=url_for("admin.user", user_id=user_id, before=entries[USERS_MAX - 1]["id"])
        if len(entries) > USERS_MAX else None)


def _person(user_id):
    """An account that somebody has."""
    found = accounts.by_id(user_id)
    if found is None or not found["email"]:
        raise NotFound()
    return found


@blueprint.post("/user/<int:user_id>/grant")
def grant(user_id):
    def act():
        person, n = _person(user_id), web.stored_number(request.form.get("points", ""))
        if n is None or not 1 <= n <= ledger.POINTS_MAX:
            raise InvalidInput([{"field": "points", "type": "value_error", "facts": {}, "message": {
                messages.language(): _("How many points? From 1 to %(n)s.", n=format_decimal(ledger.POINTS_MAX))}}])
        note = _typed("note", _("Why"))
        # What was seen, so that a second press of the button, or a second operator, does not add them again.
        seen = web.stored_number(request.form.get("after", ""))
        balance = _deed("GRANT", f"{n} points: {note}", user_id=user_id, act=lambda: ledger.grant(
            user_id, n, note, after=-1 if seen is None else seen))
        return _("%(points)s added for %(person)s (balance %(balance)s).", points=messages.points(n), person=person["email"],
                 balance=balance)
    return _act(url_for("admin.user", user_id=user_id), act)


@blueprint.post("/user/<int:user_id>/reset")
def reset(user_id):
    """A link that sets a new password, shown in this answer and never again."""
    _person(user_id)
    token = secrets.token_urlsafe(32)
    _deed("RESET_LINK", "a link that sets a new password", lambda: accounts.set_reset(user_id, token), user_id=user_id)
    return _user_page(user_id, link=(current_app.settings.site_url or request.host_url).rstrip("/") + url_for(
        "auth.reset", token=token))


@blueprint.post("/user/<int:user_id>/token")
def remove_token(user_id):
    def act():
        _person(user_id)
        _deed("TOKEN", "access token removed", lambda: accounts.set_token(user_id, None), user_id=user_id)
        return _("The access token no longer works.")
    return _act(url_for("admin.user", user_id=user_id), act)


@blueprint.post("/user/<int:user_id>/sign-out")
def sign_out(user_id):
    def act():
        person = _person(user_id)
        _deed("SIGN_OUT", "signed out everywhere", lambda: accounts.sign_out_everywhere(user_id), user_id=user_id)
        return _("%(person)s is signed out in every browser.", person=person["email"])
    return _act(url_for("admin.user", user_id=user_id), act)


@blueprint.post("/user/<int:user_id>/operator")
def operator(user_id):
    """What gives the most power, or takes it, needs the password of whoever does it."""
    def act():
        person, make = _person(user_id), request.form.get("make") == "1"
        current_app.sign_in_limit.check()
        if not accounts.is_password(g.viewer, request.form.get("current_password", "")):
            raise InvalidInput([{"field": "current_password", "type": "value_error", "facts": {}, "message": {
                messages.language(): _("This is not your password.")}}])
        _deed("ROLE", "made an operator" if make else "no longer an operator", user_id=user_id,
              act=lambda: accounts.set_admin(user_id, make))
        if make:
            return _("%(person)s is an operator now.", person=person["email"])
        return _("%(person)s is no longer an operator.", person=person["email"])
    itself = user_id == g.viewer["id"]  # who is no longer one cannot see this page again
    return _act(url_for("auth.account") if itself else url_for("admin.user", user_id=user_id), act)


# ------------------------------------------------------------------------------------ kinds

@blueprint.get("/kinds")
def kinds():
    lately, pauses, now = overview.lately(), jobs.pauses(), jobs.in_flight_counts()
    none = {"done": 0, "failed": 0, "interrupted": 0, "median_seconds": None}
    shown = []
    for name in [*current_app.kinds, *sorted(pauses.keys() - current_app.kinds.keys())]:
        kind, figures = current_app.kinds.get(name), lately["kinds"].get(name, none)
        shown.append({
            "name": name, "title": _title(name), "on": kind is not None,
            "cost": None if kind is None or callable(kind.cost) else kind.cost, "paused": pauses.get(name),
            "allowance": web.allowance(kind),
            "pending": now.get((name, "pending"), 0), "running": now.get((name, "running"), 0), **figures,
            "median": None if figures["median_seconds"] is None else messages.duration(figures["median_seconds"])})
    return render_template("admin/kinds.html", kinds=shown, days=overview.DAYS, text_max=TEXT_CHARACTERS_MAX)


@blueprint.post("/kinds/<name>/pause")
def pause(name):
    def act():
        web.kind_named(name)
        by, note = _by(), request.form.get("note", "").strip()[:TEXT_CHARACTERS_MAX]
        _deed("PAUSE", f"{name} paused{': ' * bool(note)}{note}", lambda: jobs.pause_kind(name, by, note))
        return _("%(title)s is paused: nothing new is taken, and what is in progress goes on.", title=_title(name))
    return _act(url_for("admin.kinds"), act)


@blueprint.post("/kinds/<name>/reopen")
def reopen(name):
    def act():
        quota = web.kind_named(name).quota
        if quota is not None:
            _deed("QUOTA", f"{name}: its service is asked again today", lambda: quotas.reopen(quota))
        return _("%(title)s asks its service again.", title=_title(name))
    return _act(url_for("admin.kinds"), act)


@blueprint.post("/kinds/<name>/resume")
def resume(name):
    def act():
        if name in jobs.pauses():
            _deed("PAUSE", f"{name} resumed", lambda: jobs.resume_kind(name))
        return _("%(title)s takes new requests again.", title=_title(name))
    return _act(url_for("admin.kinds"), act)


# ------------------------------------------------------------------------------------ the installation

@blueprint.get("/system")
def system():
    found = [*checks.warnings(current_app), *checks.sqlite_version(), *checks.write_lock(),
             *checks.folders(current_app.settings.folder)]
    return render_template(
        "admin/system.html", audited=overview.audited, workers=_workers(), versions=checks.versions(),
        checks=sorted(found, key=lambda check: ("wrong", "note", "good").index(check[0])),
        settings=[row for row in checks.settings(current_app) if row["source"] != "default"])


@blueprint.post("/audit")
def audit():
    def act():
        found = overview.audit()
        if found["breaches"] is None:
            return _("The books could not be checked: the log says why.")
        if found["breaches"]:
            return _("The books are not right: see below.")
        return _("The books are right.")
    return _act(url_for("admin.system", _anchor="books"), act)
