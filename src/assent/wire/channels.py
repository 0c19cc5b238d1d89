"""The JSON shapes of channels, routes, preferences and links; no behaviour."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from assent.wire.breakpoints import CreateBreakpoint
from assent.wire.words import Handle, Moment, Strict

ChannelName = Annotated[str, StringConstraints(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
ChannelType = Annotated[str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9_-]+$")]
Identity = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Length = Annotated[str, StringConstraints(min_length=2, max_length=20, pattern=r"^[0-9dhms]+$")]
Target = Annotated[str, StringConstraints(min_length=1, max_length=110, pattern=r"^[^\x00-\x1f\x7f]+$")]
ChannelNames = Annotated[list[ChannelName], Field(max_length=20)]
Targets = Annotated[list[Target], Field(min_length=1, max_length=20)]
WallTime = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class CreateChannel(Strict):
    name: ChannelName
    type: ChannelType
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    enabled: bool = True


class ChangeChannel(Strict):
    name: ChannelName | None = None
    settings: dict[str, Any] | None = None
    enabled: bool | None = None


class ChannelView(Strict):
    id: str
    name: str
    type: str
    settings: dict[str, Any] | None = None
    enabled: bool
    disabled_because: str | None = None
    problem: str | None = None
    source: str
    callback_url: str
    created_by: str
    created_at: str
    updated_at: str
    ok_at: str | None = None
    failed_at: str | None = None
    last_error: str | None = None
    heard_at: str | None = None


class ChannelPage(Strict):
    items: list[ChannelView]


class TryChannel(Strict):
    send: bool = False


class ChannelTest(Strict):
    ok: bool
    detail: str
    sent: bool


class EscalationLevel(Strict):
    after: Length
    to: Targets
    channels: ChannelNames | None = None


class RouteTimeout(Strict):
    after: Length
    then: Literal["expire", "reject"]


class RouteFields(Strict):
    to: Targets | None = None
    fallback: ChannelNames | None = None
    remind: Annotated[list[Length], Field(max_length=20)] | None = None
    escalate: Annotated[list[EscalationLevel], Field(max_length=20)] | None = None
    timeout: RouteTimeout | None = None
    quiet: bool | None = None
    note: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    enabled: bool | None = None


class CreateRoute(RouteFields):
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=20)]


class ChangeRoute(RouteFields):
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=4000)] | None = None
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=20)] | None = None


class RouteView(Strict):
    id: str
    pattern: str
    channels: list[str]
    to: list[str]
    fallback: list[str] | None = None
    remind: list[str] | None = None
    escalate: list[EscalationLevel] | None = None
    timeout: RouteTimeout | None = None
    quiet: bool = True
    note: str | None = None
    enabled: bool
    source: str
    created_by: str
    created_at: str
    updated_at: str


class RoutePage(Strict):
    items: list[RouteView]


class RouteOrder(Strict):
    ids: Annotated[list[Annotated[str, StringConstraints(max_length=64)]], Field(max_length=1000)]


class CheckRoutes(Strict):
    breakpoint_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    breakpoint: CreateBreakpoint | None = None


class TellingView(Strict):
    channel: str
    person: str | None = None
    not_before: str | None = None


class RouteStepView(Strict):
    kind: Literal["ask", "remind", "escalate", "time-out"]
    at: str
    told: list[TellingView]
    then: str | None = None


class RouteCheck(Strict):
    route_id: str | None = None
    pattern: str | None = None
    steps: list[RouteStepView]
    warnings: list[str]


class QuietBody(Strict):
    from_: Annotated[WallTime, Field(alias="from")]
    to: WallTime
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=100)]


class AwayBody(Strict):
    deputy: Handle
    from_: Annotated[Moment | None, Field(alias="from")] = None
    until: Moment | None = None


class PreferencesBody(Strict):
    channels: ChannelNames | None = None
    quiet: QuietBody | None = None
    away: AwayBody | None = None


class LinkBody(Strict):
    identity: Identity
    person: Handle


class LinkView(Strict):
    identity: str
    person: str
    linked_by: str
    linked_at: str


class LinkPage(Strict):
    items: list[LinkView]
