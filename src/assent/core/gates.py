"""Gates: stable names that identify the same question across runs."""

import re

from anyascii import anyascii

from assent.core.canonical import sha256

MAX_GATE = 200
_OUTSIDE = re.compile(r"[^a-z0-9.]+")


def slug(title: str) -> str:
    """Return the gate for a title. If no characters are usable, the gate contains a hash of the title instead."""
    text = _OUTSIDE.sub("-", anyascii(title).lower()).strip("-")[:MAX_GATE].rstrip("-")
    # Titles such as "…?…" and "…!…" are reduced to dots and hyphens, and must not share a gate.
    if not text.strip(".-"):
        return f"breakpoint-{sha256(title.encode())[:8]}"
    return text
