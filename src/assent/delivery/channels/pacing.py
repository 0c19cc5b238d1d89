"""Rate limits: how many messages a recipient receives, and whether the rest are combined into a digest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND

MESSAGES, SECONDS, DIGEST = "paceMessages", "paceSeconds", "digest"
SETTINGS = frozenset({MESSAGES, SECONDS, DIGEST})
"""The settings for rate limits; they are removed before a channel receives its settings."""
AUTO, NEVER = "auto", "never"
MAX_MESSAGES, MAX_SECONDS = 1_000, 3_600


@dataclass(frozen=True, slots=True)
class Pacing:
    messages: int
    seconds: int = 60
    digest: bool = True
    """Whether messages beyond the limit are combined; otherwise, each is sent separately when the window allows."""

    @property
    def window(self) -> int:
        """The window in microseconds."""
        return self.seconds * SECOND


def pacing_of(settings: Mapping[str, Any], default: Pacing) -> Pacing:
    """Return the limits in a channel's settings; raise InvalidRequest for values that are out of range."""
    digest = settings.get(DIGEST, AUTO)
    if digest not in {AUTO, NEVER}:
        raise InvalidRequest.at(f"/settings/{DIGEST}", f"must be {AUTO} or {NEVER}")
    return Pacing(
        _number(settings, MESSAGES, default.messages, MAX_MESSAGES),
        _number(settings, SECONDS, default.seconds, MAX_SECONDS),
        digest == AUTO,
    )


def without_pacing(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in SETTINGS}


def _number(settings: Mapping[str, Any], name: str, default: int, largest: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise InvalidRequest.at(f"/settings/{name}", f"must be a whole number from 1 to {largest:,}")
    return value
