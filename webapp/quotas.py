"""Daily allowances of metered services: what a day has spent, and whether more may be. Sole writer of ``quota_days``.

A day is the service's own: it begins at midnight in the quota's time zone. Units are counted before a request is
sent: a process that dies in between has counted one too many, never one too few.

That a day is used up is said of the day on which the service was asked, also where the answer comes after midnight.
Services renew an allowance a little late, or by another clock than ours: in a day's first hour it is believed for ten
minutes, then one request tries again; later it stands until the day ends.
"""
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from webapp import db
from webapp.errors import DailyLimit

LATE_RENEWAL = timedelta(hours=1)
BELIEVED_AT_FIRST = timedelta(minutes=10)


@dataclass(frozen=True)
class Standing:
    """A quota today. ``cap``: units a day, 0 for none; guests get half of it. ``resets_at``: UTC, as our JSON's text.
    ``exhausted_until``: so too, while the service says that nothing is left. ``service``: what people call whom it is
    of."""

    day: str
    resets_at: str
    resets_in_seconds: int
    cap: int
    spent: int
    spent_by_guests: int
    exhausted_until: str | None = None
    exhausted_for_seconds: int = 0
    service: object = None

    @property
    def exhausted(self):
        return self.exhausted_until is not None

    def refusal(self, is_guest, units=1):
        """The ``DailyLimit`` that so many units more would meet: the service's own word, or the site's cap; or ``None``."""
        if self.exhausted:
            return self._limit(exhausted=True)
        if self.cap and self.spent + units > self.cap:
            return self._limit()
        if self.cap and is_guest and self.spent_by_guests + units > self.cap // 2:
            return self._limit(guests=True)
        return None

    def _limit(self, guests=False, exhausted=False):
        at, seconds = ((self.exhausted_until, self.exhausted_for_seconds) if exhausted else
                       (self.resets_at, self.resets_in_seconds))
        return DailyLimit(service=self.service, guests=guests, exhausted=exhausted, retry_at=at,
                          retry_after_seconds=seconds)


def standing(quota, cap):
    """How the day stands for this ``kinds.Quota``."""
    now = _now()
    day = _day(quota.time_zone, now)
    row = db.one("SELECT * FROM quota_days WHERE quota = ? AND day = ?", (quota.name, day.name))
    spent = (row["spent"], row["spent_by_guests"]) if row else (0, 0)
    said = row["exhausted_at"] if row else None
    until = day.exhausted_until(datetime.fromisoformat(said)) if said else now
    return Standing(day.name, _text(day.ends), _seconds(day.ends - now), cap, *spent, service=quota.service,
                    **({"exhausted_until": _text(until), "exhausted_for_seconds": _seconds(until - now)}
                       if until > now else {}))


@db.verb
def spend(quota, cap, user_id, units):
    """Count ``units`` about to be spent for this person. Raises ``DailyLimit``, and counts nothing then."""
    is_guest = bool(db.value("SELECT email IS NULL FROM users WHERE id = ?", (user_id,)))
    now = standing(quota, cap)
    if refusal := now.refusal(is_guest, units):
        raise refusal
    _count(quota.name, now.day, units, units if is_guest else 0)


@db.verb
def exhaust(quota, asked_at):
    """The service itself says that the allowance is used up, whatever we have counted: that of the day on which it was
    asked (``asked_at``: as ``time.time()`` has it). Returns until when; that is past where the day has ended since."""
    now = _now()
    # No day that has not begun: a clock may have been set back meanwhile.
    day = _day(quota.time_zone, min(datetime.fromtimestamp(asked_at, UTC), now))
    _count(quota.name, day.name, 0, 0)
    db.execute("UPDATE quota_days SET exhausted_at = ? WHERE quota = ? AND day = ?", (_text(now), quota.name, day.name))
    return _text(day.exhausted_until(now))


@db.verb
def reopen(quota):
    """Knock again today, although the service had said no: its allowance was raised, or the key is another one."""
    return bool(db.execute("UPDATE quota_days SET exhausted_at = NULL WHERE quota = ? AND day = ? "
                           "AND exhausted_at IS NOT NULL RETURNING day",
                           (quota.name, _day(quota.time_zone, _now()).name)))


def _count(name, day, units, by_guests):
    # No upsert: a law refuses every INSERT of a day that is there.
    if not db.execute("UPDATE quota_days SET spent = spent + ?, spent_by_guests = spent_by_guests + ? "
                      "WHERE quota = ? AND day = ? RETURNING day", (units, by_guests, name, day)):
        db.execute("INSERT INTO quota_days (quota, day, spent, spent_by_guests) VALUES (?, ?, ?, ?)",
                   (name, day, units, by_guests))


class _Day(NamedTuple):
    name: str
    begins: datetime
    ends: datetime

    def exhausted_until(self, said_at):
        early = said_at - self.begins < LATE_RENEWAL
        return min(said_at + BELIEVED_AT_FIRST, self.ends) if early else self.ends


def _now():
    return datetime.fromisoformat(db.value(f"SELECT {db.NOW}"))  # by the database's clock


def _day(time_zone, moment):
    zone = _zone(time_zone)
    date = moment.astimezone(zone).date()
    # By the calendar: a day on which clocks change has 23 or 25 hours.
    return _Day(date.isoformat(), *(datetime.combine(date + timedelta(days=n), time(), zone).astimezone(UTC)
                                    for n in (0, 1)))


def _text(moment):
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(span):
    return max(1, round(span.total_seconds()))


_zone = cache(ZoneInfo)
