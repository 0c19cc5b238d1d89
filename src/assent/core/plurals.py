"""Formats counts for use in sentences."""


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count and its noun, such as "1 event" or "2,000 events"; `many` is for irregular plurals."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
