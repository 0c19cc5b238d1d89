"""Schedules, which create an event at every time that matches a cron expression."""

from collections.abc import Mapping
from typing import Any

from assent.domain import schedules
from assent.sources.fields import Fields
from assent.sources.tools import SourceTools

KIND = "schedule"


def make(settings: Mapping[str, Any], tools: SourceTools) -> None:
    """Validate the settings; the scheduler creates the events."""
    Fields(settings, tools, known=schedules.NAMES)
    schedules.read(settings)
