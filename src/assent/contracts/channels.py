"""Shapes of channels, routes, preferences and linked accounts."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import Handle, Moment

ChannelName = Annotated[str, Limits(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
ChannelType = Annotated[str, Limits(min_length=1, max_length=40, pattern=r"^[a-z0-9_-]+$")]
Identity = Annotated[str, Limits(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]
Length = Annotated[str, Limits(min_length=2, max_length=20, pattern=r"^[0-9dhms]+$")]
Target = Annotated[str, Limits(min_length=1, max_length=110, pattern=r"^[^\x00-\x1f\x7f]+$")]
ChannelNames = Annotated[list[ChannelName], Limits(max_length=20)]
Targets = Annotated[list[Target], Limits(min_length=1, max_length=20)]
WallTime = Annotated[str, Limits(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class CreateChannel(Shape, frozen=True, kw_only=True):
    name: ChannelName
    """Name of the channel. It can contain `a-z`, digits, `.`, `_` and `-`."""
    type: ChannelType
    """Type of the channel: `webhook`, `slack`, `email`, `jira` or `apprise`."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Settings for this type of channel. Secrets must be references in the form `env:NAME` or `file:PATH`."""
    enabled: bool = True
    """Whether the channel is enabled."""


class ChangeChannel(Shape, frozen=True, kw_only=True):
    name: ChannelName | UnsetType | None = UNSET
    """New name. You can rename a channel only if no route uses the old name."""
    settings: dict[str, Any] | UnsetType | None = UNSET
    """Settings to change. To remove a setting, set it to null."""
    enabled: bool | UnsetType | None = UNSET


class Channel(Shape, frozen=True, kw_only=True):
    id: str
    name: str
    type: str
    settings: dict[str, Any] | None = None
    """Settings of the channel. Only admins can see them. Secrets are shown as references."""
    enabled: bool
    disabled_because: str | None = None
    problem: str | None = None
    """Why the configuration does not work. Only admins can see this."""
    source: str
    """`file` if the channel is defined in `assent.yaml`. Such channels cannot be edited through the API."""
    callback_url: str
    """URL that the provider sends requests to."""
    created_by: str
    created_at: str
    updated_at: str
    ok_at: str | None = None
    """Time of the last successful delivery or test."""
    failed_at: str | None = None
    """Time of the last failed delivery or test."""
    last_error: str | None = None
    """Most recent error. Only admins can see this."""
    heard_at: str | None = None
    """Time at which the last inbound message arrived."""


class Channels(Shape, frozen=True, kw_only=True):
    items: list[Channel]


class TryChannel(Shape, frozen=True, kw_only=True):
    send: bool = False
    """Whether to also send a test message."""


class ChannelTest(Shape, frozen=True, kw_only=True):
    ok: bool
    detail: str
    """Result of the test. The response status is 200 even if the test failed."""
    sent: bool


class EscalationLevel(Shape, frozen=True, kw_only=True):
    after: Length
    """Delay after the breakpoint is created, such as `1h`. It must increase with each level."""
    to: Targets
    """Additional recipients. They are also allowed to answer once this level is reached."""
    channels: ChannelNames | None = None
    """Channels for the additional recipients."""


class RouteTimeout(Shape, frozen=True, kw_only=True):
    after: Length
    """Delay after the breakpoint is created, such as `1d`."""
    then: Literal["expire", "reject"]
    """What happens at the timeout."""


class RouteFields(Shape, frozen=True, kw_only=True):
    to: Targets | UnsetType | None = UNSET
    """Recipients: `experts` (default), `owner`, `group:NAME` or `person:NAME`."""
    fallback: ChannelNames | UnsetType | None = UNSET
    """Channels to try, in order, if a delivery fails."""
    remind: Annotated[list[Length], Limits(max_length=20)] | UnsetType | None = UNSET
    """Delays until reminders are sent, measured from when the breakpoint is created, in increasing order, such as
    `["30m", "2h"]`.
    """
    escalate: Annotated[list[EscalationLevel], Limits(max_length=20)] | UnsetType | None = UNSET
    """Levels of escalation, in order."""
    timeout: RouteTimeout | UnsetType | None = UNSET
    """Timeout of the breakpoint, and what happens then."""
    quiet: bool | UnsetType | None = UNSET
    """Whether to respect quiet hours. If `false`, people are notified at any hour."""
    note: Annotated[str, Limits(min_length=1, max_length=500)] | UnsetType | None = UNSET
    """Note about the route."""
    enabled: bool | UnsetType | None = UNSET
    """Whether the route is enabled. Default: `true`."""


class CreateRoute(RouteFields, frozen=True, kw_only=True):
    pattern: Annotated[str, Limits(min_length=1, max_length=4000)]
    """Pattern that determines which breakpoints the route applies to."""
    channels: Annotated[list[ChannelName], Limits(min_length=1, max_length=20)]
    """Names of the channels to use."""


class ChangeRoute(RouteFields, frozen=True, kw_only=True):
    pattern: Annotated[str, Limits(min_length=1, max_length=4000)] | UnsetType | None = UNSET
    channels: Annotated[list[ChannelName], Limits(min_length=1, max_length=20)] | UnsetType | None = UNSET


class Route(Shape, frozen=True, kw_only=True):
    id: str
    pattern: str
    channels: list[str]
    to: list[str]
    fallback: list[str] = msgspec.field(default_factory=list[str])
    remind: list[str] = msgspec.field(default_factory=list[str])
    escalate: Annotated[list[dict[str, Any]], DocumentedAs(list[EscalationLevel])] = msgspec.field(
        default_factory=list[dict[str, Any]]
    )
    """Levels of escalation, in order."""
    timeout: Annotated[dict[str, str], DocumentedAs(RouteTimeout)] | None = None
    quiet: bool = True
    note: str | None = None
    enabled: bool
    source: str
    """`file` if the route is defined in `assent.yaml`. Such routes are evaluated first and cannot be edited through the
    API.
    """
    created_by: str
    created_at: str
    updated_at: str


class Routes(Shape, frozen=True, kw_only=True):
    items: list[Route]


class RouteOrder(Shape, frozen=True, kw_only=True):
    ids: Annotated[list[Annotated[str, Limits(max_length=64)]], Limits(max_length=1000)]
    """IDs of all routes in the new order, except for routes that are defined in `assent.yaml`."""


class Telling(Shape, frozen=True, kw_only=True):
    channel: str
    person: str | None = None
    """Recipient. Omitted if the channel posts to a chat room."""
    not_before: str | None = None
    """End of the person's quiet hours, if the message is held until then."""


class RouteStep(Shape, frozen=True, kw_only=True):
    kind: Annotated[str, DocumentedAs(Literal["ask", "remind", "escalate", "time-out"])]
    """What happens in this step."""
    at: str
    told: list[Telling]
    """Recipients who are notified in this step."""
    then: str | None = None


class RouteCheck(Shape, frozen=True, kw_only=True):
    route_id: str | None = None
    pattern: str | None = None
    steps: list[RouteStep]
    """Steps of the route, in order."""
    warnings: list[str]
    """Warnings, for example about steps that would not notify anyone."""


class QuietBody(Shape, frozen=True, kw_only=True):
    from_: WallTime = msgspec.field(name="from")
    """Time at which quiet hours start, such as `22:00`."""
    to: WallTime
    """Time at which quiet hours end."""
    timezone: Annotated[str, Limits(min_length=1, max_length=100)]
    """Time zone, such as `Europe/Berlin`."""


class AwayBody(Shape, frozen=True, kw_only=True):
    deputy: Handle
    """Reviewer who answers on the person's behalf."""
    from_: Moment | None = msgspec.field(default=None, name="from")
    """Time at which the absence starts."""
    until: Moment | None = None
    """Time at which the absence ends."""


class PreferencesBody(Shape, frozen=True, kw_only=True):
    channels: ChannelNames | None = None
    """Channels in order of preference. They replace the channels of a route that notify individual people."""
    quiet: QuietBody | None = None
    """Hours during which the person is not notified."""
    away: AwayBody | None = None
    """Period during which a deputy answers on the person's behalf."""


class LinkBody(Shape, frozen=True, kw_only=True):
    identity: Identity
    """Account on the channel, such as `T01:U02` in Slack. It must not be linked to another person."""
    person: Handle
    """Username of the person."""


class ChannelLink(Shape, frozen=True, kw_only=True):
    identity: str
    person: str
    linked_by: str
    linked_at: str


class ChannelLinks(Shape, frozen=True, kw_only=True):
    items: list[ChannelLink]
