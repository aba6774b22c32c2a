"""How many comments there were when, and how they felt. All in UTC."""
import math
from datetime import datetime, timedelta, timezone

# Bins by span in days: at most about sixty of them. Estimated times ('3 weeks ago') get wider ones.
_UNITS = ((2, "hour"), (60, "day"), (420, "week"), (1_830, "month"))
_COARSE_UNITS = ((14, "day"), (60, "week"), (730, "month"))


def timeline(times, moods, coarse):
    """Volume and mean mood per bin; empty bins are there. None without any date. ``times``: seconds since
    1970; ``moods``: a score each, or nan; ``coarse``: the times are estimates."""
    if not times:
        return None
    first, last = moment(min(times)), moment(max(times))
    unit = _unit((last - first) / timedelta(days=1), coarse)
    bins = {}
    start = _floor(first, unit)
    while start <= last:
        bins[start] = [0, 0, 0.0]
        start = _next(start, unit)
    count_into(bins, (_floor(moment(at), unit) for at in times), moods)
    return {"unit": unit, "coarse": coarse, "bins": [
        {"start": start.strftime("%Y-%m-%dT%H:%M:%SZ"), **told(entry)} for start, entry in bins.items()]}


def count_into(bins, keys, moods):
    """Count each mood into its bin, ``[comments, scored, sum of scores]``."""
    for key, mood in zip(keys, moods):
        entry = bins[key]
        entry[0] += 1
        if not math.isnan(mood):
            entry[1] += 1
            entry[2] += mood


def told(entry):
    """A bin as the report says it."""
    count, scored, total = entry
    return {"count": count, "scored": scored, "mean": round(total / scored, 4) if scored else None}


def moment(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc)


def iso(seconds):
    """UTC with milliseconds, as everywhere in the API."""
    return moment(seconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _unit(days, coarse):
    return next((unit for limit, unit in (_COARSE_UNITS if coarse else _UNITS) if days <= limit), "year")


def _floor(at, unit):
    at = at.replace(minute=0, second=0, microsecond=0)
    if unit == "hour":
        return at
    at = at.replace(hour=0)
    if unit == "week":
        return at - timedelta(days=at.weekday())
    if unit == "month":
        return at.replace(day=1)
    return at.replace(month=1, day=1) if unit == "year" else at


def _next(start, unit):
    if unit == "month":
        return (start + timedelta(days=32)).replace(day=1)
    if unit == "year":
        return start.replace(year=start.year + 1)
    return start + {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]
