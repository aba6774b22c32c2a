"""``GET /metrics``: this worker's figures as Prometheus text, for an admin's bearer token. It reads, and writes nothing."""
from flask import Blueprint, Response, current_app
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from webapp import __version__, incidents, jobs, recovery, web
from webapp.runner import OUTCOMES

blueprint = Blueprint("metrics", __name__)


@blueprint.get("/metrics")
def metrics():
    web.require_admin_token()
    answer = Response(generate_latest(current_app.metrics), content_type=CONTENT_TYPE_PLAIN_0_0_4)
    answer.headers["Cache-Control"] = "no-store"
    return answer


class Figures:
    """All of them, read anew at each look. Those that count begin at 0 with the process."""

    def __init__(self, app):
        self._app = app

    def collect(self):
        yield _gauge("build_info", "The version that runs.", {(__version__,): 1}, "version")
        yield from self._database()
        yield from _recovery()
        yield from self._in_flight()
        if self._app.runner is not None:
            yield from _attempts(self._app.runner, self._app.kinds)
            yield from _hub(self._app.runner.lag)
        yield from self._outside()

    def _database(self):
        found = web.database_figures()
        yield _counter("db_commits", "Commits to the database.", found["commits"])
        yield _counter("db_verbs", "Writes asked for; a commit takes along all that are waiting.", found["verbs"])
        yield _gauge("db_size_bytes", "Size of the database file and of its write-ahead log.",
                     {("main",): found["main_bytes"], ("wal",): found["wal_bytes"]}, "file")
        yield _gauge("disk_free_bytes", "Room left where the database lies.",
                     web.disk_space_bytes(self._app.settings.folder))

    def _in_flight(self):
        zeros = {(kind, status): 0 for kind in self._app.kinds for status in jobs.IN_FLIGHT}
        yield _gauge("jobs_in_flight", "Jobs waiting or running now, of all workers on this file.",
                     zeros | jobs.in_flight_counts(), "kind", "status")
        yield _gauge("jobs_unsettled", "Failed jobs whose points are still due to be settled, or unknown.",
                     {("due",): 0, ("unknown",): 0} | jobs.unsettled_counts(), "settlement")
        yield _gauge("incidents_open", "Incidents that nobody has acknowledged and that did not come right.",
                     {(severity,): 0 for severity in incidents.SEVERITIES} | incidents.open_counts(), "severity")

    def _outside(self):
        days = {(kind.quota.name,): web.allowance(kind) for kind in self._app.kinds.values() if kind.quota is not None}
        yield _gauge("quota_spent_units", "Units of a metered service's daily allowance that today has used.",
                     {quota: day.spent for quota, day in days.items()}, "quota")
        yield _gauge("quota_cap_units", "The most that a day may use of it; 0: no cap.",
                     {quota: day.cap for quota, day in days.items()}, "quota")
        yield _gauge("quota_exhausted", "1 while the service says that today's is used up.",
                     {quota: int(day.exhausted) for quota, day in days.items()}, "quota")
        upstream = self._app.upstream
        yield _gauge("streams_open", "Live progress streams now.", self._app.streams.open.total())
        yield _counter("upstream_requests", "Requests sent to other services, redirects included.", upstream.requests)
        yield _counter("upstream_cache_hits", "Requests answered from memory instead.", upstream.hits)
        yield _counter("upstream_joined", "Requests that shared an equal one under way.", upstream.joined)
        yield _counter("upstream_failures", "Requests without a usable answer.",
                       {(reason,): count for reason, count in upstream.failures.items()}, "reason")


def _recovery():
    yield _counter("recovery_passes", "Passes over what is in flight or due.", recovery.passes)
    yield _counter("jobs_interrupted", "Attempts that did not end by themselves, and what became of their job.",
                   jobs.interrupted, "kind", "reason", "status")
    yield _counter("points_returned", "Points returned by settling failed jobs.",
                   {(kind,): points for kind, points in jobs.points_returned.items()}, "kind")


def _attempts(runner, kinds):
    zeros = {(kind, outcome): 0 for kind in kinds for outcome in OUTCOMES}
    yield _counter("attempts_ended", "Attempts of this worker, by how they ended.", zeros | runner.ended,
                   "kind", "outcome")
    yield _histogram("attempt_duration_seconds", "From the claim to the stored end.",
                     {(kind,): seconds for kind, seconds in runner.durations.items()}, "kind")


def _hub(lag):
    worst, numbers, kinds = lag.worst
    yield _histogram("hub_lag_seconds", "How late the event loop wakes, looked at 20 times a second while work runs.",
                     {(): lag.seconds})
    yield _gauge("hub_lag_worst_seconds", "The largest since the start, and what ran then.", {(numbers, kinds): worst},
                 "jobs", "kinds")
    yield _counter("hub_stalls", "Lags above 50 ms while work of this kind ran.",
                   {(kind,): count for kind, count in lag.stalls.items()}, "kind")


# ------------------------------------------------------------------------------------- small pieces

def _gauge(name, text, values, *labels):
    return _family(GaugeMetricFamily, name, text, values, labels)


def _counter(name, text, values, *labels):
    return _family(CounterMetricFamily, name, text, values, labels)


def _family(form, name, text, values, labels):
    """``values``: a number, or ``{label values: number}``."""
    family = form(f"ainori_{name}", text, labels=labels)
    for key, value in (values if isinstance(values, dict) else {(): values}).items():
        family.add_metric(key, value)
    return family


def _histogram(name, text, values, *labels):
    family = HistogramMetricFamily(f"ainori_{name}", text, labels=labels)
    for key, histogram in values.items():
        buckets = [("+Inf" if bound == float("inf") else f"{bound:g}", count) for bound, count in histogram.cumulative()]
        family.add_metric(key, buckets, histogram.sum)
    return family


def register(app):
    app.metrics = CollectorRegistry()
    app.metrics.register(Figures(app))
    ProcessCollector(namespace="ainori", registry=app.metrics)  # memory, processor, open files, start
