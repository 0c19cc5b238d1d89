"""All Prometheus metrics."""

import platform
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from assent.core.timestamps import SECOND
from assent.kernel.ports import Ended, Hint

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
DECISION_BUCKETS = (
    1.0, 5.0, 15.0, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 8 * HOUR, DAY, 3 * DAY, 7 * DAY,
)  # fmt: skip
LATENESS_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, MINUTE, 5 * MINUTE, HOUR)
BATCH_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 65.0)
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
ATTEMPT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Figures:
    """Values read from the database every few seconds; counts stop at a maximum."""

    pending: int = 0
    oldest_pending_seconds: float = 0.0
    deliveries: Mapping[str, int] = field(default_factory=dict[str, int])
    delivery_lag_seconds: float = 0.0
    unsigned_events: int = 0
    checkpoint_age_seconds: float = 0.0


class Spread:
    """A histogram of plain numbers, for the event loop's thread only: the library's locks cost more than a lookup."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def give(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        bounds = [*(str(bound) for bound in self.bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self.counts), strict=True)), self.total)


class Metrics:
    """All metrics, in their own registry.

    Requests and commits are counted on the event loop, in plain numbers. Workers run in other threads and use the
    library's counters, which are thread-safe.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, Spread] = {}
        self._ends: dict[str, int] = {}
        self._decisions: dict[tuple[str, str], Spread] = {}
        self._late = Spread(LATENESS_BUCKETS)
        self._batches = Spread(BATCH_BUCKETS)
        self._commits = Spread(COMMIT_BUCKETS)
        self._events = 0
        self._figures = Figures()
        self._figures_at: float | None = None
        self._queue: Mapping[str, int] = {}
        self.created = Counter("assent_breakpoints_created_total", "Breakpoints created.", registry=self.registry)
        self.waiters = Gauge("assent_waiters", "Agents waiting on this node.", registry=self.registry)
        self.streams = Gauge("assent_streams", "Open inbox pages connected to this node.", registry=self.registry)
        self._queue_lag = Gauge(
            "assent_queue_lag_seconds", "Age of the oldest job that is ready to run.", registry=self.registry
        )
        self._workers = Gauge("assent_workers", "Live workers across all nodes.", registry=self.registry)
        self._failures = Counter(
            "assent_job_failures_total", "Failed background jobs.", ["job"], registry=self.registry
        )
        self._attempts = Counter(
            "assent_delivery_attempts_total",
            "Delivery attempts.",
            ["channel", "outcome"],
            registry=self.registry,
        )
        self._attempt_seconds = Histogram(
            "assent_delivery_attempt_seconds",
            "Duration of a delivery attempt.",
            ["channel"],
            buckets=ATTEMPT_BUCKETS,
            registry=self.registry,
        )
        self._reloads = Counter(
            "assent_config_reloads_total", "Reloads of assent.yaml.", ["result"], registry=self.registry
        )
        self._anchors = Counter(
            "assent_anchors_total",
            "Checkpoints published outside the database.",
            ["channel", "outcome"],
            registry=self.registry,
        )
        Info("assent_build", "Assent and Python versions on this node.", registry=self.registry).info(
            {"version": version("assent"), "python": platform.python_version()}
        )

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count a response; `seconds` is None for waits and streams, whose duration is not a response time."""
        key = (method, route, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        if seconds is None:
            return
        found = self._times.get(route)
        if found is None:
            found = self._times[route] = Spread(BUCKETS)
        found.counts[bisect_left(BUCKETS, seconds)] += 1
        found.total += seconds

    def committed(self, hints: Sequence[Hint]) -> None:
        """Count the events and decisions that a commit of this node has written."""
        for hint in hints:
            self._events += hint.events
            if hint.ended is not None:
                self._ends[hint.status] = self._ends.get(hint.status, 0) + 1
                self._end(hint.ended)

    def _end(self, ended: Ended) -> None:
        if ended.decision is not None:
            key = (ended.decision, ended.by)
            found = self._decisions.get(key)
            if found is None:
                found = self._decisions[key] = Spread(DECISION_BUCKETS)
            found.add(ended.after / SECOND)
        if ended.late is not None:
            self._late.add(ended.late / SECOND)

    def batch(self, size: int, seconds: float) -> None:
        """Count one commit, and the use cases it contained."""
        self._batches.add(size)
        self._commits.add(seconds)

    def delivery_attempt(self, channel: str, outcome: str, seconds: float) -> None:
        """Count an attempt; `channel` is a type, such as slack, never a name chosen by a person."""
        self._attempts.labels(channel, outcome).inc()
        self._attempt_seconds.labels(channel).observe(seconds)

    def anchored(self, channel: str, outcome: str, checkpoints: int) -> None:
        """Count checkpoints whose publication to the `file` or the `webhook` succeeded or failed."""
        self._anchors.labels(channel, outcome).inc(checkpoints)

    def config_reloaded(self, result: str) -> None:
        """Count a reload of assent.yaml: `applied`, or `refused` because of a mistake in it."""
        self._reloads.labels(result).inc()

    def queue(self, depth: Mapping[str, int], oldest_seconds: float) -> None:
        """Set the number of jobs in each state, and how long the oldest job that is ready to run has waited."""
        self._queue = dict(depth)
        self._queue_lag.set(oldest_seconds)

    def job_failed(self, name: str) -> None:
        """Count a failed background job; `name` is its kind, not its ID."""
        self._failures.labels(name).inc()

    def workers(self, alive: int) -> None:
        self._workers.set(alive)

    def figures(self, figures: Figures) -> None:
        """Set the values that were read from the database."""
        self._figures, self._figures_at = figures, time.monotonic()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that are counted in plain numbers, for the registry."""
        yield from self._requests()
        yield from self._endings()
        yield from self._commit_figures()
        yield from self._database_figures()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily("assent_http_requests", "HTTP requests.", labels=["method", "route", "status"])
        for (method, route, status), count in self._counts.items():
            requests.add_metric([method, route, str(status)], count)
        yield requests
        latency = HistogramMetricFamily(
            "assent_http_request_seconds", "Response time, excluding waits and streams.", labels=["route"]
        )
        for route, spread in self._times.items():
            spread.give(latency, [route])
        yield latency

    def _endings(self) -> Iterator[Metric]:
        ends = CounterMetricFamily("assent_decisions", "Breakpoints ended.", labels=["status"])
        for status, count in self._ends.items():
            ends.add_metric([status], count)
        yield ends
        decisions = HistogramMetricFamily(
            "assent_decision_seconds", "Time from creation to decision.", labels=["decision", "by"]
        )
        for (decision, by), spread in self._decisions.items():
            spread.give(decisions, [decision, by])
        yield decisions
        late = HistogramMetricFamily(
            "assent_expiry_lateness_seconds", "Delay between a breakpoint's deadline and the time when it ended."
        )
        self._late.give(late)
        yield late

    def _commit_figures(self) -> Iterator[Metric]:
        yield CounterMetricFamily("assent_events_written", "Events added to the audit log.", value=self._events)
        batches = HistogramMetricFamily("assent_commit_batch_size", "Number of use cases in each commit.")
        self._batches.give(batches)
        yield batches
        commits = HistogramMetricFamily("assent_commit_seconds", "Duration of a commit, including its use cases.")
        self._commits.give(commits)
        yield commits

    def _database_figures(self) -> Iterator[Metric]:
        figures = self._figures
        yield _gauge("assent_pending_breakpoints", "Pending breakpoints.", figures.pending)
        yield _gauge(
            "assent_oldest_pending_seconds",
            "Age of the oldest pending breakpoint.",
            figures.oldest_pending_seconds,
        )
        yield _by_state("assent_deliveries", "Open and dead deliveries.", figures.deliveries)
        yield _gauge(
            "assent_delivery_lag_seconds",
            "Age of the oldest due delivery.",
            figures.delivery_lag_seconds,
        )
        yield _gauge(
            "assent_unsigned_events", "Events that are not yet covered by a checkpoint.", figures.unsigned_events
        )
        yield _gauge(
            "assent_checkpoint_age_seconds",
            "Time since the last checkpoint was signed.",
            figures.checkpoint_age_seconds,
        )
        age = float("inf") if self._figures_at is None else time.monotonic() - self._figures_at
        yield _gauge("assent_figures_age_seconds", "Time since the database metrics were last updated.", age)
        yield _by_state("assent_queue_jobs", "Jobs in the queue.", self._queue)


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _by_state(name: str, meaning: str, counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=["state"])
    for state, count in counts.items():
        family.add_metric([state], count)
    return family
