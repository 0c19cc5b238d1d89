"""What was told to whom, and how often it was tried."""

from typing import Literal

from assent.wire.words import Strict

DeliveryState = Literal["pending", "sending", "sent", "answered", "superseded", "dead"]


class DeliveryView(Strict):
    id: str
    breakpoint_id: str
    channel: str
    recipient: str
    type: str
    seq: int
    state: DeliveryState
    attempts: int
    next_attempt_at: str | None = None
    last_error: str | None = None
    created_at: str
    updated_at: str


class AttemptView(Strict):
    n: int
    at: str
    worker: str
    milliseconds: int | None = None
    status: int | None = None
    error: str | None = None


class DeliveryWithLog(DeliveryView):
    log: list[AttemptView]


class DeliveryPage(Strict):
    items: list[DeliveryView]
    next_cursor: str | None = None
