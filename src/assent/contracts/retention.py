"""Shapes of legal holds."""

from typing import Annotated

from assent.contracts.shape import Limits, Shape


class PlaceHold(Shape, frozen=True, kw_only=True):
    breakpoint_id: Annotated[str, Limits(min_length=1, max_length=64)] | None = None
    """ID of the breakpoint to protect. Default: the whole project. The request is rejected if the breakpoint's content
    has already been purged.
    """
    reason: Annotated[str, Limits(min_length=1, max_length=1000)]
    """Reason for the legal hold."""


class Hold(Shape, frozen=True, kw_only=True):
    id: str
    breakpoint_id: str | None = None
    """ID of the protected breakpoint, or null if the hold applies to the whole project."""
    reason: str
    placed_by: str
    placed_at: str
    lifted_by: str | None = None
    lifted_at: str | None = None


class HoldPage(Shape, frozen=True, kw_only=True):
    items: list[Hold]
