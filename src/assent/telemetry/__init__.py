"""What an operator sees: logs with correlation ids, the metrics Prometheus reads, and spans if they are asked for."""

from assent.telemetry.logs import about, configure_logging, subject
from assent.telemetry.metrics import Figures, Metrics
from assent.telemetry.redaction import redacted
from assent.telemetry.traces import Untraced, tracing

__all__ = ["Figures", "Metrics", "Untraced", "about", "configure_logging", "redacted", "subject", "tracing"]
