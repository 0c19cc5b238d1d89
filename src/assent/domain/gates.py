"""The canonical identity of a question across runs."""

import re

from anyascii import anyascii

from assent.domain.canonical import sha256

MAX_GATE = 200
_OUTSIDE = re.compile(r"[^a-z0-9.]+")


def slug(title: str) -> str:
    """Return the gate a title stands for; different titles never share a fallback."""
    text = _OUTSIDE.sub("-", anyascii(title).lower()).strip("-")[:MAX_GATE].rstrip("-")
    # Points and hyphens alone say nothing: "…?…" and "…!…" must not be one gate.
    if not text.strip(".-"):
        return f"breakpoint-{sha256(title.encode())[:8]}"
    return text
