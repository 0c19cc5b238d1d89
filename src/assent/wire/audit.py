"""The JSON shapes of checkpoints and proofs; no behaviour."""

from assent.wire.words import Strict


class CheckpointView(Strict):
    """`note` is what was signed, with the signature; the rest is read from it."""

    number: int
    size: int
    root: str
    at: str
    key_id: str
    note: str


class CheckpointPage(Strict):
    items: list[CheckpointView]
    next_before: int | None = None


class CheckpointKeyView(Strict):
    key_id: str
    origin: str
    public_key: str
    verifier_key: str
    created_at: str
    created_by: str
    retired_at: str | None = None


class CheckpointKeyPage(Strict):
    items: list[CheckpointKeyView]


class IncludedEvent(Strict):
    """`path` is the hashes from the event's own up to the root, in base64."""

    seq: int
    position: int
    hash: str
    path: list[str]


class InclusionView(Strict):
    id: str
    checkpoint: CheckpointView
    events: list[IncludedEvent]
    waiting: int


class ConsistencyView(Strict):
    first: CheckpointView
    second: CheckpointView
    path: list[str]
