"""Telemetry for operators: logs with correlation IDs, Prometheus metrics, and optional spans."""

from assent.kernel.telemetry.logs import about, configure_logging, subject
from assent.kernel.telemetry.metrics import Figures, Metrics
from assent.kernel.telemetry.redaction import redacted
from assent.kernel.telemetry.traces import Untraced, tracing

__all__ = ["Figures", "Metrics", "Untraced", "about", "configure_logging", "redacted", "subject", "tracing"]
