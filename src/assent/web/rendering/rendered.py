"""The result of a renderer: safe HTML, and notes for the reader."""

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Rendered:
    html: Markup
    notes: tuple[str, ...] = ()
    hurried: bool = False
    """Whether rendering timed out; a later attempt may succeed, so the result is not cached."""


class TooSlow(Exception):
    """Rendering exceeded its timeout."""
