"""The channels there are: a new one is a file or folder beside this one, and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assent.channels import apprise
from assent.channels.email import channel as email
from assent.channels.jira import channel as jira
from assent.channels.slack import channel as slack
from assent.channels.tools import Tools
from assent.channels.webhook.channel import WebhookChannel
from assent.ports import Channel


@dataclass(frozen=True, slots=True)
class ChannelKind:
    """One type of channel, before it has settings."""

    name: str
    make: Callable[[Mapping[str, Any], Tools], Channel]
    """Read the settings and return the channel, or raise InvalidRequest.at("/settings/…", …) for what is wrong."""
    personal: Callable[[Mapping[str, Any]], bool]
    """Whether it reaches persons one by one; otherwise it has one place of its own, and messages go there once."""
    secrets: frozenset[str]
    """The settings that must be references to secrets."""
    paced: bool = True
    """Whether it is people who get the messages: too many at once are told in one."""
    edits: bool = False
    """Whether closing changes the message that is there, instead of sending another."""
    follows: bool = False
    """Whether it wants to be told every event, and not only what asks and what ends."""


KINDS: dict[str, ChannelKind] = {
    "apprise": ChannelKind("apprise", apprise.AppriseChannel, personal=lambda _: False, secrets=apprise.SECRETS),
    "email": ChannelKind("email", email.EmailChannel, personal=email.personal, secrets=email.SECRETS),
    "jira": ChannelKind(
        "jira", jira.JiraChannel, personal=lambda _: False, secrets=jira.SECRETS, paced=False, edits=True
    ),
    "slack": ChannelKind("slack", slack.SlackChannel, personal=slack.personal, secrets=slack.SECRETS, edits=True),
    "webhook": ChannelKind(
        "webhook",
        WebhookChannel,
        personal=lambda _: False,
        secrets=frozenset({"secrets"}),
        paced=False,
        follows=True,
    ),
}
