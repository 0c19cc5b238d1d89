"""Logs with correlation ids, and the metrics Prometheus reads."""

import logging
import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """Every number we publish, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        self.decisions = Counter(
            "assent_decisions_total", "Breakpoints that ended.", ["status"], registry=self.registry
        )
        self.created = Counter("assent_breakpoints_created_total", "Breakpoints created.", registry=self.registry)
        self.waiters = Gauge("assent_waiters", "Agents waiting on this node.", registry=self.registry)
        self.streams = Gauge("assent_streams", "Inboxes listening on this node.", registry=self.registry)
        self.pending = Gauge(
            "assent_pending_breakpoints", "Breakpoints that wait for a person.", registry=self.registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float | None) -> None:
        """Count an answer; a wait has no time. Plain numbers: the library's locks cost more than a look-up."""
        key = (method, route, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        if seconds is None:
            return
        found = self._times.get(route)
        if found is None:
            found = self._times[route] = ([0] * (len(BUCKETS) + 1), [0.0])
        found[0][bisect_left(BUCKETS, seconds)] += 1
        found[1][0] += seconds

    def collect(self) -> Iterator[Metric]:
        """Give Prometheus the requests counted so far."""
        requests = CounterMetricFamily("assent_http_requests", "HTTP requests.", labels=["method", "route", "status"])
        for (method, route, status), count in self._counts.items():
            requests.add_metric([method, route, str(status)], count)
        yield requests
        latency = HistogramMetricFamily(
            "assent_http_request_seconds", "Time to answer, without waits and streams.", labels=["route"]
        )
        for route, (counts, total) in self._times.items():
            bounds = [*(str(bound) for bound in BUCKETS), "+Inf"]
            latency.add_metric([route], list(zip(bounds, accumulate(counts), strict=True)), total[0])
        yield latency


def configure_logging(style: Literal["text", "json"], level: str) -> None:
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # A traceback with its variables would print tokens.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
