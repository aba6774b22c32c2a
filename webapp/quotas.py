"""Daily allowances of metered services: what a day has spent, and whether more may be. Sole writer of ``quota_days``.

A day is the service's own: it begins at midnight in the quota's time zone. Units are counted before a request is
sent: a process that dies in between has counted one too many, never one too few.
"""
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from webapp import db
from webapp.errors import DailyLimit


@dataclass(frozen=True)
class Standing:
    """A quota today. ``cap``: units a day, 0 for none; guests get half of it. ``resets_at``: UTC, as our JSON's text.
    ``service``: what people call whom it is of."""

    day: str
    resets_at: str
    resets_in_seconds: int
    cap: int
    spent: int
    spent_by_guests: int
    exhausted: bool
    service: object = None

    def refuse_over_cap(self, is_guest, units=1):
        """Raise ``DailyLimit`` where ``units`` more would be more than the site's own cap."""
        if self.cap and self.spent + units > self.cap:
            raise self.limit()
        if self.cap and is_guest and self.spent_by_guests + units > self.cap // 2:
            raise self.limit(guests=True)

    def limit(self, guests=False, exhausted=False):
        return DailyLimit(service=self.service, guests=guests, exhausted=exhausted, retry_at=self.resets_at,
                          retry_after_seconds=self.resets_in_seconds)


def standing(quota, cap):
    """How the day stands for this ``kinds.Quota``."""
    day, resets_at, seconds = _today(quota.time_zone)
    row = db.one("SELECT * FROM quota_days WHERE quota = ? AND day = ?", (quota.name, day))
    spent = (row["spent"], row["spent_by_guests"], row["exhausted_at"] is not None) if row else (0, 0, False)
    return Standing(day, resets_at, seconds, cap, *spent, service=quota.service)


@db.verb
def spend(quota, cap, user_id, units):
    """Count ``units`` about to be spent for this person. Raises ``DailyLimit``, and counts nothing then."""
    is_guest = bool(db.value("SELECT email IS NULL FROM users WHERE id = ?", (user_id,)))
    now = standing(quota, cap)
    if now.exhausted:
        raise now.limit(exhausted=True)
    now.refuse_over_cap(is_guest, units)
    _count(quota.name, now.day, units, units if is_guest else 0)


@db.verb
def exhaust(quota):
    """The service itself says that today's allowance is used up, whatever we have counted. Returns until when."""
    day, resets_at, _seconds = _today(quota.time_zone)
    _count(quota.name, day, 0, 0)
    db.execute(f"UPDATE quota_days SET exhausted_at = coalesce(exhausted_at, {db.NOW}) WHERE quota = ? AND day = ?",
               (quota.name, day))
    return resets_at


@db.verb
def reopen(quota):
    """Knock again today, although the service had said no: its allowance was raised, or the key is another one."""
    day, _resets_at, _seconds = _today(quota.time_zone)
    return bool(db.execute("UPDATE quota_days SET exhausted_at = NULL WHERE quota = ? AND day = ? "
                           "AND exhausted_at IS NOT NULL RETURNING day", (quota.name, day)))


def _count(name, day, units, by_guests):
    # No upsert: a law refuses every INSERT of a day that is there.
    if not db.execute("UPDATE quota_days SET spent = spent + ?, spent_by_guests = spent_by_guests + ? "
                      "WHERE quota = ? AND day = ? RETURNING day", (units, by_guests, name, day)):
        db.execute("INSERT INTO quota_days (quota, day, spent, spent_by_guests) VALUES (?, ?, ?, ?)",
                   (name, day, units, by_guests))


def _today(time_zone):
    """``(day, when it ends as text, in how many seconds)``, by the database's clock."""
    now = datetime.fromisoformat(db.value(f"SELECT {db.NOW}"))
    zone = _zone(time_zone)
    local = now.astimezone(zone)
    # By the calendar: a day on which clocks change has 23 or 25 hours.
    ends = datetime.combine(local.date() + timedelta(days=1), time(), zone).astimezone(UTC)
    return (local.date().isoformat(), ends.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            max(1, round((ends - now).total_seconds())))


_zone = cache(ZoneInfo)
