"""What was told to whom, and how often it was tried."""

from typing import Literal

from assent.wire.words import Strict

DeliveryState = Literal["pending", "sending", "sent", "answered", "superseded", "dead"]


class DeliveryView(Strict):
    id: str
    """Sent as `webhook-id` in callbacks."""
    breakpoint_id: str
    channel: str
    recipient: str
    """Recipient. Agents and admins see the complete URL; everyone else sees it without its path."""
    type: str
    """Event type."""
    seq: int
    """Event number."""
    state: DeliveryState
    attempts: int
    next_attempt_at: str | None = None
    """Set while the delivery is pending. If an earlier message must be sent first, the attempt happens later."""
    last_error: str | None = None
    created_at: str
    updated_at: str


class AttemptView(Strict):
    n: int
    at: str
    worker: str
    milliseconds: int | None = None
    """Omitted while the attempt is running, or if its worker crashed."""
    status: int | None = None
    error: str | None = None


class DeliveryWithLog(DeliveryView):
    log: list[AttemptView]


class DeliveryPage(Strict):
    items: list[DeliveryView]
    next_cursor: str | None = None
