"""A schedule: time itself is the source, and every instant of its line of cron is an event."""

from collections.abc import Mapping
from typing import Any

from assent.domain import schedules
from assent.sources.fields import Fields
from assent.sources.tools import SourceTools

KIND = "schedule"


def make(settings: Mapping[str, Any], tools: SourceTools) -> None:
    """Check the settings; the ticks are made by services/ticking."""
    Fields(settings, tools, known=schedules.NAMES)
    schedules.read(settings)
