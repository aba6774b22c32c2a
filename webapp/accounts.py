"""People: accounts, guests, API tokens."""
import hashlib
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from webapp import db
from webapp.errors import InvalidInput, NotFound

# OWASP's second recommendation for Argon2id: 19 MiB, which a small instance can spare.
_hasher = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)

# The hash of a password nobody knows: checked where there is no such account.
NOBODY = ("$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IG9mIG91cnM$"
          "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")


def hash_password(password):
    """Slow on purpose, and it does not yield: in a server call it in a thread."""
    return _hasher.hash(password)


def check_password(user, password):
    """Whether it is this user's password. Slow on purpose, like ``hash_password``."""
    try:
        return _hasher.verify(user["password_hash"] or "", password)
    except (VerificationError, InvalidHashError):
        return False


def signed_in_by(email, password):
    """The account that these belong to, or ``None``. Checked against nobody too, so that the time taken
    does not tell who has an account; in a thread, for it is slow on purpose."""
    user = db.one("SELECT * FROM users WHERE email = ?", (email.strip(),))
    known = user if user is not None else {"password_hash": NOBODY}
    right = db.store.disk.apply(check_password, (known, password))
    return user if right else None


def new_token():
    """An API token; only its hash is stored, so it can be shown once."""
    return f"ain_{secrets.token_urlsafe(32)}"


def _token_hash(token):
    # The token is long and random: one fast hash is enough, and it makes the look-up an index.
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@db.verb
def add_user(email, password_hash, token, is_admin=False):
    """Make an account and return its id. Raises ``InvalidInput`` for an address in use or no address."""
    email = email.strip()
    if email.count("@") != 1 or " " in email or email.startswith("@") or email.endswith("@") or len(email) > 254:
        raise InvalidInput([{"field": "email", "type": "email", "facts": {},
                             "message": {"en": f"{email!r} is not an e-mail address.",
                                         "ja": f"{email!r} はメールアドレスではありません。"}}])
    found = db.execute("INSERT INTO users (email, password_hash, token_hash, is_admin) SELECT ?, ?, ?, ? "
                       "WHERE NOT EXISTS (SELECT 1 FROM users WHERE email = ?) ON CONFLICT DO NOTHING RETURNING id",
                       (email, password_hash, _token_hash(token), int(is_admin), email))
    if not found:
        raise InvalidInput([{"field": "email", "type": "in_use", "facts": {},
                             "message": {"en": f"{email} has an account already.",
                                         "ja": f"{email} は登録済みです。"}}])
    return found[0]["id"]


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
    db.execute("UPDATE OR IGNORE job_watchers SET user_id = ? WHERE user_id = ? AND left_at IS NULL",
               (user_id, guest_id))
    # Where that person watched it already the guest no longer waits: their cancel must end it.
    db.execute(f"UPDATE job_watchers SET left_at = {db.NOW} WHERE user_id = ? AND left_at IS NULL", (guest_id,))


def command_line_user():
    """The one guest in whose name free work on the command line runs; returns the id."""
    return add_guest("en", "command line")


@db.verb
def set_token(user_id, token):
    """Replace the API token: the one before stops working."""
    db.execute("UPDATE users SET token_hash = ? WHERE id = ?", (_token_hash(token), user_id))


def by_token(token):
    return db.one("SELECT * FROM users WHERE token_hash = ?", (_token_hash(token),))


def by_id(user_id):
    return db.one("SELECT * FROM users WHERE id = ?", (user_id,))


def by_email(email):
    """The account with this address. Raises ``NotFound``."""
    user = db.one("SELECT * FROM users WHERE email = ?", (email.strip(),))
    if user is None:
        raise NotFound(email=email)
    return user
