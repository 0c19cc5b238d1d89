"""Logs with correlation ids, and the metrics Prometheus reads."""

import logging
import sys
from functools import lru_cache
from typing import Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Every number we publish, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "assent_http_requests_total", "HTTP requests.", ["method", "route", "status"], registry=self.registry
        )
        self._latency = Histogram(
            "assent_http_request_seconds",
            "Time to answer, without waits and streams.",
            ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 5),
            registry=self.registry,
        )
        self._counts = lru_cache(maxsize=2048)(self._requests.labels)
        self._timers = lru_cache(maxsize=512)(self._latency.labels)
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
        """Count an answer; a wait has no time of its own."""
        self._counts(method, route, status).inc()
        if seconds is not None:
            self._timers(route).observe(seconds)


def configure_logging(style: Literal["text", "json"], level: str) -> None:
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
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
