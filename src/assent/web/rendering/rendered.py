"""What a renderer hands back: safe HTML, and what the reader must know about it."""

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class Rendered:
    html: Markup
    notes: tuple[str, ...] = ()
    hurried: bool = False
    """It was given up for lack of time; a calmer moment may do better."""


class TooSlow(Exception):
    """Laying it out takes longer than the page waits."""
