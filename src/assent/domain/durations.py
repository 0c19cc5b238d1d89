"""Lengths of time as people write them: 30m, 2h, 1d, 1h30m."""

import re

UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_TEXT = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)


def seconds(text: str) -> int:
    """Read a duration; raises ValueError."""
    found = _TEXT.fullmatch(text)
    if not text or found is None:
        msg = "must be a length of time such as 30m, 2h or 1d"
        raise ValueError(msg)
    return sum(int(number or 0) * size for number, size in zip(found.groups(), UNITS.values(), strict=True))


def duration(length: int) -> str:
    """Write seconds the way they are read."""
    parts: list[str] = []
    for unit, size in UNITS.items():
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
