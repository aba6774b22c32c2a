"""People: accounts, guests, sessions, API tokens."""
import hashlib
import secrets
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp import db, ledger
from webapp.errors import AdminExists, InvalidInput, JobInFlight, LastAdmin, LinkExpired, NotFound

# OWASP's second recommendation for Argon2id: 19 MiB, which a small instance can spare.
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)

# The hash of a password nobody knows: checked where there is no such account.
NOBODY = ("$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IG9mIG91cnM$"
          "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")

EMAIL_CHARACTERS_MAX = 254   # RFC 5321
PASSWORD_CHARACTERS_MIN = 8  # NIST SP 800-63B: this length, and no rules about what is in it
PASSWORD_CHARACTERS_MAX = 1000
SESSION_DAYS = 365
SESSIONS_MAX = 50            # of one account: the oldest end first
RESET_HOURS = 24
# Stands in the statement in English, as all notes in the file; a page says it in the reader's language.
WELCOME_NOTE = "Welcome points"


# ---------------------------------------------------------------------------------------- passwords

def hash_password(password):
    """Slow on purpose, and it does not yield: in a server use ``hashed``."""
    return _hasher.hash(_as_typed(password))


def _as_typed(password):
    """The same keys give the same password, whichever way a keyboard composes its characters (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password[:PASSWORD_CHARACTERS_MAX])


def check_password(user, password):
    """Whether it is this user's password. Slow on purpose, like ``hash_password``: see ``is_password``."""
    try:
        return _hasher.verify(user["password_hash"] or "", _as_typed(password))
    except (VerificationError, InvalidHashError):
        return False


def hashed(password):
    """``hash_password``, in a thread: others are served meanwhile."""
    return db.store.disk.apply(hash_password, (password,))


def check_new(password, email=None):
    """What is wrong with a new password, and with the address of a new account if given: raises ``InvalidInput`` with
    all of it."""
    problems = []
    if email is not None:
        try:
            _address(email)
        except InvalidInput as error:
            problems += error.facts["errors"]
    if len(password) < PASSWORD_CHARACTERS_MIN:
        problems.append(_problem("password", {"en": f"At least {PASSWORD_CHARACTERS_MIN} characters, please.",
                                              "ja": f"{PASSWORD_CHARACTERS_MIN}文字以上にしてください。"}))
    elif len(password) > PASSWORD_CHARACTERS_MAX:
        problems.append(_problem("password", {"en": f"At most {PASSWORD_CHARACTERS_MAX} characters, please.",
                                              "ja": f"{PASSWORD_CHARACTERS_MAX}文字以内にしてください。"}))
    elif len(set(password)) == 1 or password.casefold() == (email or "").strip().casefold():
        problems.append(_problem("password", {"en": "This one is too easy to guess.",
                                              "ja": "推測されやすいため、別のものにしてください。"}))
    if problems:
        raise InvalidInput(problems)


def is_password(user, password):
    """Whether it is this user's password (``None``: nobody's), checked in a thread. It takes as long for nobody, so
    that the time taken does not tell who has an account."""
    known = user if user is not None else {"password_hash": NOBODY}
    return db.store.disk.apply(check_password, (known, password))


def signed_in_by(email, password):
    """The account that these belong to, or ``None``."""
    user = db.one("SELECT * FROM users WHERE email = ?", (normal(email),))
    return user if is_password(user, password) else None


def new_token():
    """An API token; only its hash is stored, so it can be shown once."""
    return f"ain_{secrets.token_urlsafe(32)}"


def _token_hash(token):
    # The token is long and random: one fast hash is enough, and it makes the look-up an index.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _problem(field, message, type="value_error"):
    return {"field": field, "type": type, "facts": {}, "message": message}


# ----------------------------------------------------------------------------------------- accounts

@db.verb
def add_user(email, password_hash, token=None, is_admin=False, *, lang=None, points=0, note=None):
    """Make an account, with points if any, and return its id. Raises ``InvalidInput`` for an address in use or no
    address."""
    email = _address(email)
    found = db.execute("INSERT INTO users (email, password_hash, token_hash, is_admin, lang) SELECT ?, ?, ?, ?, ? "
                       "WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = ?) ON CONFLICT DO NOTHING RETURNING id",
                       (email, password_hash, token and _token_hash(token), int(is_admin), lang, email))
    if not found:
        raise _in_use(email)
    if points:
        ledger.grant(found[0]["id"], points, note)
    return found[0]["id"]


def normal(email):
    """An address as it is stored: a full-width ＠ of a Japanese keyboard is an @."""
    return unicodedata.normalize("NFKC", email).strip()


def _address(email):
    email = normal(email)
    name, _, host = email.partition("@")
    if not name or not host or "@" in host or len(email) > EMAIL_CHARACTERS_MAX or not email.isprintable() or " " in email:
        shown = "".join(char for char in email[:60] if char.isprintable())
        raise InvalidInput([_problem("email", {"en": f"“{shown}” is not an e-mail address.",
                                               "ja": f"「{shown}」はメールアドレスではありません。"})])
    return email


def _in_use(email):
    return InvalidInput([_problem("email", {"en": f"{email} has an account already.", "ja": f"{email} は登録済みです。"},
                                  type="in_use")])


@db.verb
def register(email, password_hash, session_id, *, lang, welcome_points, guest_id=None):
    """Make an account for whoever sits there, with its welcome points, and sign it in. What was asked for in this
    browser before is its own from now on. Returns its id. Raises ``InvalidInput``."""
    user_id = add_user(email, password_hash, lang=lang, points=welcome_points, note=WELCOME_NOTE)
    sign_in(user_id, session_id, guest_id)
    return user_id


@db.verb
def make_first_admin(user_id):
    """Make this account the operator's. Raises ``AdminExists``."""
    if has_admin():
        raise AdminExists()
    db.execute("UPDATE users SET is_admin = 1 WHERE id = ?", (user_id,))


@db.verb
def set_admin(user_id, is_admin):
    """Make this account an operator's, or no longer. Raises ``LastAdmin`` where nobody would be left."""
    if not is_admin and not db.value("SELECT 1 FROM users WHERE is_admin = 1 AND id <> ? LIMIT 1", (user_id,)):
        raise LastAdmin()
    db.execute("UPDATE users SET is_admin = ? WHERE id = ?", (int(is_admin), user_id))


@db.verb
def change_email(user_id, email):
    """The address to sign in with. Raises ``InvalidInput``."""
    email = _address(email)
    if db.value("SELECT 1 FROM users WHERE email = ? AND id <> ?", (email, user_id)):
        raise _in_use(email)
    db.execute("UPDATE users SET email = ? WHERE id = ?", (email, user_id))


@db.verb
def change_password(user_id, password_hash, session_id, guest_id=None):
    """Set a new password, and end every session but this new one."""
    db.execute("UPDATE users SET password_hash = ?, reset_hash = NULL, reset_expires_at = NULL WHERE id = ?",
               (password_hash, user_id))
    sign_out_everywhere(user_id)
    sign_in(user_id, session_id, guest_id)


@db.verb
def set_reset(user_id, token):
    """Let whoever has this token set a new password, once, within ``RESET_HOURS``; the one before stops working."""
    db.execute("UPDATE users SET reset_hash = ?, reset_expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?) "
               "WHERE id = ?", (_token_hash(token), f"{RESET_HOURS} hours", user_id))


def by_reset(token):
    """The account whose password this token may set, or ``None``."""
    return db.one(f"SELECT * FROM users WHERE reset_hash = ? AND reset_expires_at > {db.NOW}", (_token_hash(token),))


@db.verb
def reset_password(token, password_hash, session_id, guest_id=None):
    """``change_password``, with a token of ``set_reset``, which is used up. The API token goes too. Raises
    ``LinkExpired``."""
    user = by_reset(token)
    if user is None:
        raise LinkExpired()
    set_token(user["id"], None)  # whoever lost one may have lost the other
    change_password(user["id"], password_hash, session_id, guest_id)


@db.verb
def set_token(user_id, token):
    """Replace the API token: the one before stops working. ``None``: none any more."""
    db.execute("UPDATE users SET token_hash = ? WHERE id = ?", (token and _token_hash(token), user_id))


@db.verb
def set_lang(user_id, lang):
    """The language this person reads."""
    db.execute("UPDATE users SET lang = ? WHERE id = ?", (lang, user_id))


@db.verb
def delete(user_id):
    """Forget who this is: what is left of the account is a number that its ledger entries name. Not while it waits for
    work in flight that nobody else waits for: raises ``JobInFlight``; nor the only operator: raises ``LastAdmin``.
    (What it had asked for is deleted by ``recovery``.)"""
    way = db.value(
        "SELECT j.id FROM job_watchers w JOIN jobs j ON j.id = w.job_id WHERE w.user_id = ?1 AND w.left_at IS NULL AND j.status "
        "IN ('pending', 'running') AND NOT EXISTS (SELECT 1 FROM job_watchers o WHERE o.job_id = j.id AND o.user_id <> ?1 "
        "AND o.left_at IS NULL) LIMIT 1", (user_id,))
    if way is not None:
        raise JobInFlight(job_id=way)
    user = by_id(user_id)
    if user["is_admin"]:
        set_admin(user_id, False)
    db.execute("UPDATE kind_pauses SET paused_by = ? WHERE paused_by = ?", (f"deleted account {user_id}", user["email"]))
    sign_out_everywhere(user_id)
    db.execute(f"UPDATE users SET email = NULL, password_hash = NULL, token_hash = NULL, guest_key = NULL, reset_hash = "
               f"NULL, reset_expires_at = NULL, is_admin = 0, lang = NULL, deleted_at = {db.NOW} WHERE id = ?", (user_id,))
    db.execute(f"UPDATE job_watchers SET left_at = {db.NOW} WHERE user_id = ? AND left_at IS NULL", (user_id,))


def has_admin():
    return db.value("SELECT 1 FROM users WHERE is_admin = 1 LIMIT 1") is not None


def listing(search="", before=None, limit=50):
    """Accounts, newest first, below the id ``before``; with ``search``, those whose address contains it, else deleted
    ones too. Guests are not among them."""
    wanted, values = "email IS NOT NULL OR deleted_at IS NOT NULL", []
    if search:
        wanted, values = "instr(lower(email), lower(?))", [search]
    values += [before if before is not None else 2**62, limit]
    return db.look(lambda rows: rows(  # there may be many guests in between
        f"SELECT * FROM users WHERE ({wanted}) AND id < ? ORDER BY id DESC LIMIT ?", values))


def count():
    """How many accounts there are."""
    return db.value("SELECT count(*) FROM users WHERE email IS NOT NULL")


def by_token(token):
    return db.one("SELECT * FROM users WHERE token_hash = ?", (_token_hash(token),))


def by_id(user_id):
    return db.one("SELECT * FROM users WHERE id = ?", (user_id,))


def by_email(email):
    """The account with this address. Raises ``NotFound``."""
    user = db.one("SELECT * FROM users WHERE email = ?", (normal(email),))
    if user is None:
        raise NotFound(email=email)
    return user


# ----------------------------------------------------------------------------------------- sessions

def new_session_id():
    """What the cookie of a browser that signs in will say."""
    return secrets.token_urlsafe(24)


@db.verb
def sign_in(user_id, session_id, guest_id=None):
    """Open a session for this account; what its guest asked for comes along."""
    if guest_id is not None:  # where that cannot be stored, nobody is signed in without it
        take_along(guest_id, user_id)
    db.execute("INSERT INTO sessions (id, user_id) VALUES (?, ?)", (session_id, user_id))
    db.execute("DELETE FROM sessions WHERE user_id = ?1 AND id NOT IN (SELECT id FROM sessions WHERE user_id = ?1 "
               "ORDER BY created_at DESC, rowid DESC LIMIT ?2)", (user_id, SESSIONS_MAX))


_LIVE = f"created_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{SESSION_DAYS} days')"


def by_session(session_id):
    """The account that a session of this id signs in, or ``None``."""
    return db.one(f"SELECT * FROM users WHERE id = (SELECT user_id FROM sessions WHERE id = ? AND {_LIVE})", (session_id,))


def sessions_count(user_id):
    """In how many browsers this account is signed in."""
    return db.value(f"SELECT count(*) FROM sessions WHERE user_id = ? AND {_LIVE}", (user_id,))


@db.verb
def sign_out(session_id):
    """End a session: its cookie, and any copy of it, signs nobody in any more."""
    db.execute("DELETE FROM sessions WHERE id = ?", (session_id,))


@db.verb
def sign_out_everywhere(user_id):
    """End every session of this account."""
    db.execute("DELETE FROM sessions WHERE user_id = ?", (user_id,))


# ------------------------------------------------------------------------------------------- guests

@db.verb
def add_guest(lang, key=None):
    """Somebody known by a cookie only; returns the id. The same ``key`` is the same guest: two requests
    of one new browser may come at once."""
    found = db.value("SELECT id FROM users WHERE guest_key = ?", (key,))
    return found or db.execute("INSERT INTO users (lang, guest_key) VALUES (?, ?) RETURNING id", (lang, key))[0]["id"]


@db.verb
def take_along(guest_id, user_id):
    """A guest has signed in: what was asked for in this browser is that person's from now on."""
    # The same rows: whose it is is told by who asked first.
    db.execute("UPDATE OR IGNORE job_watchers SET user_id = ? WHERE user_id = ?", (user_id, guest_id))
    # Where that person watched it already, they wait as the guest did, who no longer does: their cancel must end it.
    db.execute("UPDATE job_watchers SET left_at = NULL WHERE user_id = ? AND job_id IN (SELECT job_id FROM job_watchers "
               "WHERE user_id = ? AND left_at IS NULL)", (user_id, guest_id))
    db.execute(f"UPDATE job_watchers SET left_at = {db.NOW} WHERE user_id = ? AND left_at IS NULL", (guest_id,))
    db.execute("UPDATE users SET merged_into = ? WHERE id = ?", (user_id, guest_id))  # a late request finds them


def command_line_user():
    """The one guest in whose name free work on the command line runs; returns the id."""
    return add_guest("en", "command line")
