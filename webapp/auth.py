"""Accounts, by the people themselves: register, sign in and out, the account's page, one-time links."""
import secrets

from flask import Blueprint, current_app, flash, g, redirect, render_template, request, session, url_for
from flask_babel import gettext as _

from webapp import accounts, ledger, messages, recovery, web
from webapp.errors import (
    AdminExists,
    AinoriError,
    InvalidInput,
    JobInFlight,
    LinkExpired,
    LoginRequired,
    RegistrationClosed,
)

blueprint = Blueprint("auth", __name__)


@blueprint.after_request
def not_kept(answer):
    answer.headers["Cache-Control"] = "no-store"
    return answer


@blueprint.before_request
def by_oneself():
    if request.method == "POST":
        web.require_session()


# ------------------------------------------------------------------------------- register, sign in, out

@blueprint.route("/register", methods=["GET", "POST"])
def register():
    if web.account() is not None:
        return redirect(_goal(), 303)
    if current_app.settings.registration == "closed":
        raise RegistrationClosed()
    errors, answer = {}, (200,)
    if request.method == "POST":
        try:
            _registered(current_app.register_limit)
            flash(_("Welcome! Your account is made, and you are signed in."), "success")
            return redirect(_goal(), 303)
        except AinoriError as error:
            errors, *answer = _problems(error)
    return render_template("auth/register.html", **_typed(), errors=errors,
                           welcome_points=current_app.settings.welcome_points), *answer


def _registered(limit):
    """Make an account, or take the one there is where the password is its password, and sign in. Returns its id."""
    email, password = request.form.get("email", ""), request.form.get("password", "")
    accounts.check_new(password, email)
    limit.check()
    try:
        session_id = accounts.new_session_id()
        user_id = accounts.register(email, accounts.hashed(password), session_id, lang=messages.language(),
                                    welcome_points=current_app.settings.welcome_points, guest_id=_guest_id())
        _begin(session_id)
        return user_id
    except InvalidInput:  # a second press of the button, most likely
        user = _who_signs_in(email, password)
        if user is None:
            raise
        _sign_in(user)
        return user["id"]


@blueprint.route("/login", methods=["GET", "POST"])
def login():
    if web.account() is not None:
        return redirect(_goal(), 303)
    errors, answer = {}, (200,)
    if request.method == "POST":
        try:
            user = _who_signs_in(request.form.get("email", ""), request.form.get("password", ""))
            if user is not None:
                _sign_in(user)
                return redirect(_goal(), 303)
            errors, answer = {"": _("E-mail or password is not right.")}, (401,)
        except AinoriError as error:
            errors, *answer = _problems(error)
    return render_template("auth/login.html", **_typed(), errors=errors), *answer


def _who_signs_in(email, password):
    whose = accounts.normal(email).casefold()[:accounts.EMAIL_CHARACTERS_MAX] or "?"
    current_app.sign_in_limit.check()
    current_app.guess_limit.ask(whose)
    user = accounts.signed_in_by(email, password)
    if user is None:
        current_app.guess_limit.check(whose)
    return user


@blueprint.route("/logout", methods=["GET", "POST"])
def logout():
    """Ends this browser's session, for every copy of its cookie; with ``everywhere``, all of the account's."""
    if request.method == "GET":  # typed, or kept as a bookmark: the button is there
        return redirect(url_for("auth.account"), 303)
    user = web.account()
    if user is not None and request.form.get("everywhere"):
        accounts.sign_out_everywhere(user["id"])
    elif session.get("session"):
        accounts.sign_out(session["session"])
    session.clear()
    flash(_("You are signed out."))
    return redirect(url_for("pages.home"), 303)


def _sign_in(user):
    session_id = accounts.new_session_id()
    accounts.sign_in(user["id"], session_id, _guest_id())
    _begin(session_id)


def _begin(session_id):
    """From now on this browser is signed in. Nothing of the session before is kept."""
    session.clear()
    session["session"] = session_id
    session.permanent = True


def _guest_id():
    return g.viewer["id"] if g.viewer is not None and web.is_guest(g.viewer) else None


def _goal():
    return web.local_path(request.values.get("next"))


def _typed():
    return {"next": _goal(), "email": request.form.get("email", "")}


def _problems(error):
    """``({field: sentence}, status, headers)`` of a refusal that is shown in its form; what belongs to no field has the
    name ''."""
    refusal, status = web.as_refusal(error)
    after = web.retry_seconds_of(refusal, status)
    headers = {} if after is None else {"Retry-After": str(after)}
    if isinstance(refusal, InvalidInput):
        return {problem["field"]: problem["message"] for problem in messages.field_errors(refusal)}, status, headers
    return {"": messages.refusal(refusal, current_app.settings.support_contact)}, status, headers


# -------------------------------------------------------------------------------------- one's account

@blueprint.get("/account")
def account():
    return _account_page()


def _account_page(form=None, errors=None, status=200, headers=(), token=None):
    """``form``: the one that ``errors`` are of. ``token``: a new one, shown this once."""
    user = web.account()
    if user is None:
        return redirect(url_for("auth.login", next=url_for("auth.account")), 303)
    answer = render_template(
        "auth/account.html", user=user, form=form, errors=errors or {}, token=token,
        sessions=accounts.sessions_count(user["id"]), points_left=ledger.balance(user["id"]),
        email=request.form.get("email", user["email"]))
    return answer, status, dict(headers)


def _change(name, change):
    """One form of the account's page, for which the password must be right."""
    user = web.account()
    if user is None:
        raise LoginRequired()
    try:
        current_app.sign_in_limit.check()
        if not accounts.is_password(user, request.form.get("current_password", "")):
            return _account_page(name, {"current_password": _("This is not your password.")}, 403)
        change(user)
    except JobInFlight as error:
        return _account_page(name, {"": _("Something of yours is still in progress: cancel it, or wait for its end."),
                                    "href": url_for("pages.job", job_id=error.facts["job_id"])}, 409)
    except AinoriError as error:
        return _account_page(name, *_problems(error))
    return redirect(url_for("auth.account") if name != "delete" else url_for("pages.home"), 303)


@blueprint.post("/account/email")
def email():
    def change(user):
        accounts.change_email(user["id"], request.form.get("email", ""))
        flash(_("Your e-mail address is changed: sign in with the new one from now on."), "success")
    return _change("email", change)


@blueprint.post("/account/password")
def password():
    def change(user):
        accounts.check_new(request.form.get("password", ""), user["email"])
        session_id = accounts.new_session_id()
        accounts.change_password(user["id"], accounts.hashed(request.form["password"]), session_id)
        _begin(session_id)
        flash(_("Your password is changed. Every other browser is signed out."), "success")
    return _change("password", change)


@blueprint.post("/account/delete")
def delete():
    def change(user):
        accounts.delete(user["id"])
        recovery.forget_deleted()
        session.clear()
        flash(_("Your account is deleted."))
    return _change("delete", change)


@blueprint.post("/account/token")
def token():
    """A new API token, shown in the answer and never again; or none any more."""
    user = web.account()
    if user is None:
        raise LoginRequired()
    made = None if request.form.get("remove") else accounts.new_token()
    accounts.set_token(user["id"], made)
    if made is None:
        flash(_("The access token no longer works."), "success")
        return redirect(url_for("auth.account"), 303)
    return _account_page(token=made)


# ------------------------------------------------------------------------------------- one-time links

@blueprint.route("/reset", methods=["GET", "POST"])
def reset():
    """With a link of the operator's: a new password. Without one: how to come by it."""
    token = request.values.get("token", "")
    if not token and request.method == "GET":
        return render_template("auth/reset.html", user=None, errors={})
    user = accounts.by_reset(token)
    if user is None:
        raise LinkExpired()
    errors, answer = {}, (200,)
    if request.method == "POST":
        try:
            accounts.check_new(request.form.get("password", ""), user["email"])
            session_id = accounts.new_session_id()
            accounts.reset_password(token, accounts.hashed(request.form["password"]), session_id, _guest_id())
            _begin(session_id)
            flash(_("Your password is set, and you are signed in here; every other browser is signed out."), "success")
            return redirect(url_for("pages.home"), 303)
        except AinoriError as error:
            errors, *answer = _problems(error)
    return render_template("auth/reset.html", user=user, token=token, errors=errors), *answer


@blueprint.route("/setup", methods=["GET", "POST"])
def setup():
    """With the link of the server's log, while there is no operator: makes the first one."""
    token, right = request.values.get("token", ""), current_app.setup_token
    if accounts.has_admin():
        raise AdminExists()
    if right is None or not secrets.compare_digest(token.encode(), right.encode()):
        raise LinkExpired()
    errors, answer = {}, (200,)
    if request.method == "POST":
        try:
            accounts.make_first_admin(_registered(current_app.sign_in_limit))
            current_app.setup_token = None
            flash(_("You are the operator of this site now."), "success")
            return redirect(url_for("auth.account"), 303)
        except AinoriError as error:
            errors, *answer = _problems(error)
    return render_template("auth/setup.html", **_typed(), token=token, errors=errors), *answer
