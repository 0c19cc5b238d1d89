"""Channels and routes as returned by the server."""

from typing import Any

import msgspec

from assent.sdk.values import Value


class Channel(Value, frozen=True, kw_only=True):
    id: str
    name: str
    type: str
    enabled: bool
    source: str
    callback_url: str
    created_by: str
    created_at: str
    updated_at: str
    settings: dict[str, Any] | None = None
    """Visible to admins only; secrets are shown as references."""
    disabled_because: str | None = None
    problem: str | None = None
    """Why the channel cannot work with these settings, or None if it can."""
    ok_at: str | None = None
    failed_at: str | None = None
    last_error: str | None = None
    heard_at: str | None = None


class Channels(Value, frozen=True, kw_only=True):
    items: list[Channel]


class ChannelTest(Value, frozen=True, kw_only=True):
    ok: bool
    detail: str
    sent: bool


class ChannelLink(Value, frozen=True, kw_only=True):
    identity: str
    person: str
    linked_by: str
    linked_at: str


class ChannelLinks(Value, frozen=True, kw_only=True):
    items: list[ChannelLink]


class Route(Value, frozen=True, kw_only=True):
    id: str
    pattern: str
    channels: list[str]
    to: list[str]
    enabled: bool
    source: str
    created_by: str
    created_at: str
    updated_at: str
    fallback: list[str] = msgspec.field(default_factory=list[str])
    remind: list[str] = msgspec.field(default_factory=list[str])
    escalate: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    timeout: dict[str, str] | None = None
    quiet: bool = True
    note: str | None = None


class Routes(Value, frozen=True, kw_only=True):
    items: list[Route]


class Telling(Value, frozen=True, kw_only=True):
    channel: str
    person: str | None = None
    """None if the channel has its own destination."""
    not_before: str | None = None


class RouteStep(Value, frozen=True, kw_only=True):
    kind: str
    at: str
    told: list[Telling]
    then: str | None = None


class RouteCheck(Value, frozen=True, kw_only=True):
    """Where a breakpoint would be sent: channels, recipients and times."""

    steps: list[RouteStep]
    warnings: list[str]
    route_id: str | None = None
    pattern: str | None = None
