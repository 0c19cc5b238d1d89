"""Telemetry for operators: logs with correlation ids, Prometheus metrics, and optional spans."""

from assent.telemetry.logs import about, configure_logging, subject
from assent.telemetry.metrics import Figures, Metrics
from assent.telemetry.redaction import redacted
from assent.telemetry.traces import Untraced, tracing

__all__ = ["Figures", "Metrics", "Untraced", "about", "configure_logging", "redacted", "subject", "tracing"]
