"""Shapes of deliveries and their attempts."""

from typing import Annotated, Literal

from assent.contracts.shape import DocumentedAs, Shape

DeliveryState = Literal["pending", "sending", "sent", "answered", "superseded", "dead"]


class Delivery(Shape, frozen=True, kw_only=True):
    id: str
    """ID of the delivery, sent with each callback as `webhook-id`."""
    breakpoint_id: str
    channel: str
    recipient: str
    """Recipient of the message. If it is a URL, only agents and admins can see its path."""
    type: str
    """Type of the event."""
    seq: int
    """Number of the event in the breakpoint's history."""
    state: Annotated[str, DocumentedAs(DeliveryState)]
    """State of the delivery."""
    attempts: int
    next_attempt_at: str | None = None
    """Earliest time of the next attempt. Set while the delivery is pending. If an earlier message has to be sent first,
    the attempt is made later.
    """
    last_error: str | None = None
    created_at: str
    updated_at: str


class Attempt(Shape, frozen=True, kw_only=True):
    n: int
    at: str
    worker: str
    milliseconds: int | None = None
    """Duration of the attempt. Omitted while the attempt is in progress, or if its worker crashed."""
    status: int | None = None
    error: str | None = None


class DeliveryWithLog(Delivery, frozen=True, kw_only=True):
    log: list[Attempt]
    """All attempts, oldest first."""


class DeliveryPage(Shape, frozen=True, kw_only=True):
    items: list[Delivery]
    next_cursor: str | None = None
