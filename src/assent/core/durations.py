"""Durations as text: 500ms, 30s, 30m, 2h, 1d, 1h30m."""

import math
import re

# Parsing and formatting require this order, from the largest to the smallest unit.
UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_TEXT = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", re.ASCII)


def seconds(text: str) -> float:
    """Parse a duration into seconds, as an integer if possible. Raises ValueError."""
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        msg = "must be a duration, for example 500ms, 30s, 30m, 2h or 1d"
        raise ValueError(msg)
    length = sum(int(number or 0) * size for number, size in zip(found.groups(), UNITS.values(), strict=True))
    return length / 1_000 if length % 1_000 else length // 1_000


def whole_seconds(text: str) -> int:
    """Parse a duration and round it up to whole seconds. Raises ValueError."""
    return math.ceil(seconds(text))


def duration(length: float) -> str:
    """Format seconds so that `seconds` can parse them."""
    left = round(length * 1_000)
    parts: list[str] = []
    for unit, size in UNITS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
