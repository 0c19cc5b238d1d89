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
    """Allowed characters: `a-z`, digits, `.`, `_` and `-`."""
    type: ChannelType
    """`webhook`, `slack`, `email`, `jira` or `apprise`."""
    settings: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Settings for this channel type. Secrets must be references: `env:NAME` or `file:PATH`."""
    enabled: bool = True


class ChangeChannel(Strict):
    name: ChannelName | None = None
    """Can be changed only while no route uses the old name."""
    settings: dict[str, Any] | None = None
    """Settings to change. To remove a setting, set it to null."""
    enabled: bool | None = None


class ChannelView(Strict):
    id: str
    name: str
    type: str
    settings: dict[str, Any] | None = None
    """Shown to admins only. Secrets are shown as references."""
    enabled: bool
    disabled_because: str | None = None
    problem: str | None = None
    """Why the configuration does not work. Shown to admins only."""
    source: str
    """`file` for channels defined in assent.yaml, which cannot be edited here."""
    callback_url: str
    """URL that the provider calls."""
    created_by: str
    created_at: str
    updated_at: str
    ok_at: str | None = None
    """Time of the last success."""
    failed_at: str | None = None
    """Time of the last failure."""
    last_error: str | None = None
    """Shown to admins only."""
    heard_at: str | None = None
    """Time of the last inbound message."""


class ChannelPage(Strict):
    items: list[ChannelView]


class TryChannel(Strict):
    send: bool = False
    """Also send a test message."""


class ChannelTest(Strict):
    ok: bool
    detail: str
    """Result of the test. A failed test also returns status 200."""
    sent: bool


class EscalationLevel(Strict):
    after: Length
    """Time after creation. Must increase with each level."""
    to: Targets
    """Additional recipients, who may answer from then on."""
    channels: ChannelNames | None = None


class RouteTimeout(Strict):
    after: Length
    then: Literal["expire", "reject"]


class RouteFields(Strict):
    to: Targets | None = None
    """`experts` (default), `owner`, `group:NAME` or `person:NAME`."""
    fallback: ChannelNames | None = None
    """Channels to try in order if a delivery fails."""
    remind: Annotated[list[Length], Field(max_length=20)] | None = None
    """Reminder times after creation, in increasing order, such as `["30m", "2h"]`."""
    escalate: Annotated[list[EscalationLevel], Field(max_length=20)] | None = None
    """Escalation levels."""
    timeout: RouteTimeout | None = None
    """Timeout and its outcome."""
    quiet: bool | None = None
    """If false, quiet hours are ignored."""
    note: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    enabled: bool | None = None
    """Default: true."""


class CreateRoute(RouteFields):
    pattern: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    """Pattern that selects breakpoints."""
    channels: Annotated[list[ChannelName], Field(min_length=1, max_length=20)]
    """Channel names."""


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
    """`file` for routes defined in assent.yaml. They come first and cannot be edited here."""
    created_by: str
    created_at: str
    updated_at: str


class RoutePage(Strict):
    items: list[RouteView]


class RouteOrder(Strict):
    ids: Annotated[list[Annotated[str, StringConstraints(max_length=64)]], Field(max_length=1000)]
    """IDs of all routes in the new order, except those defined in assent.yaml."""


class CheckRoutes(Strict):
    breakpoint_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = None
    """ID of a pending breakpoint."""
    breakpoint: CreateBreakpoint | None = None
    """Hypothetical breakpoint, instead of breakpointId."""


class TellingView(Strict):
    channel: str
    person: str | None = None
    """Omitted if the channel posts to a room."""
    not_before: str | None = None
    """End of the person's quiet hours."""


class RouteStepView(Strict):
    kind: Literal["ask", "remind", "escalate", "time-out"]
    at: str
    told: list[TellingView]
    """Recipients."""
    then: str | None = None


class RouteCheck(Strict):
    route_id: str | None = None
    pattern: str | None = None
    steps: list[RouteStepView]
    warnings: list[str]
    """Problems, such as steps that would not notify anyone."""


class QuietBody(Strict):
    from_: Annotated[WallTime, Field(alias="from")]
    """Such as `22:00`."""
    to: WallTime
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """Such as `Europe/Berlin`."""


class AwayBody(Strict):
    deputy: Handle
    """Reviewer who answers on the person's behalf."""
    from_: Annotated[Moment | None, Field(alias="from")] = None
    """Start time."""
    until: Moment | None = None
    """End time."""


class PreferencesBody(Strict):
    channels: ChannelNames | None = None
    """Channels in order of preference. They replace the route's channels that reach people."""
    quiet: QuietBody | None = None
    """Quiet hours."""
    away: AwayBody | None = None
    """Absence."""


class LinkBody(Strict):
    identity: Identity
    """Account on the channel, such as `T01:U02` in Slack. Must not be linked to another person."""
    person: Handle


class LinkView(Strict):
    identity: str
    person: str
    linked_by: str
    linked_at: str


class LinkPage(Strict):
    items: list[LinkView]
