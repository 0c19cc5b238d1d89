"""Schedules, which create an event each time their cron expression matches."""

from collections.abc import Mapping
from typing import Any

from assent.triggers import schedules
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.tools import SourceTools

KIND = "schedule"


def make(settings: Mapping[str, Any], tools: SourceTools) -> None:
    """Validate the settings; the scheduler creates the events."""
    Fields(settings, tools, known=schedules.NAMES)
    schedules.read(settings)
