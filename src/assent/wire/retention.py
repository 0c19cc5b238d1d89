"""Legal holds."""

from typing import Annotated

from pydantic import StringConstraints

from assent.wire.words import Strict


class PlaceHold(Strict):
    breakpoint_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class HoldView(Strict):
    id: str
    breakpoint_id: str | None = None
    reason: str
    placed_by: str
    placed_at: str
    lifted_by: str | None = None
    lifted_at: str | None = None


class HoldPage(Strict):
    items: list[HoldView]
