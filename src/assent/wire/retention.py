"""Legal holds."""

from typing import Annotated

from pydantic import StringConstraints

from assent.wire.words import Strict


class PlaceHold(Strict):
    breakpoint_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """Default: the whole project. Rejected if the breakpoint's content is already purged."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class HoldView(Strict):
    id: str
    breakpoint_id: str | None = None
    """Null for a hold on the whole project."""
    reason: str
    placed_by: str
    placed_at: str
    lifted_by: str | None = None
    lifted_at: str | None = None


class HoldPage(Strict):
    items: list[HoldView]
