"""The available channel types: to add one, create a file or folder next to this one and list it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assent.delivery.channels import apprise
from assent.delivery.channels.email import channel as email
from assent.delivery.channels.jira import channel as jira
from assent.delivery.channels.pacing import Pacing, pacing_of, without_pacing
from assent.delivery.channels.slack import channel as slack
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.webhook.channel import WebhookChannel
from assent.delivery.ports import Channel


@dataclass(frozen=True, slots=True)
class ChannelKind:
    """A type of channel."""

    name: str
    make: Callable[[Mapping[str, Any], Tools], Channel]
    """Creates a channel from its settings; raises InvalidRequest.at("/settings/…", …) for an invalid setting."""
    personal: Callable[[Mapping[str, Any]], bool]
    """Whether each recipient gets their own message; otherwise, one message goes to the channel's fixed destination."""
    secrets: frozenset[str]
    """The settings that must be references to secrets."""
    proofs: frozenset[str]
    """The settings that authenticate answers: a person who changes them could answer as someone else."""
    pacing: Pacing | None = None
    """The default rate limit; None for channels without a rate limit, such as webhooks."""
    edits: bool = False
    """Whether closing edits the existing message instead of sending another one."""
    follows: bool = False
    """Whether the channel receives every event, not only requests for approval and their outcomes."""
    by_address: bool = False
    """Whether people are identified by their email address instead of a linked account."""


def _paced(make: Callable[[Mapping[str, Any], Tools], Channel]) -> Callable[[Mapping[str, Any], Tools], Channel]:
    """Validate the rate limits, and remove them from the settings, because the channel itself does not use them."""

    def made(settings: Mapping[str, Any], tools: Tools) -> Channel:
        pacing_of(settings, Pacing(1))
        return make(without_pacing(settings), tools)

    return made


KINDS: dict[str, ChannelKind] = {
    "apprise": ChannelKind(
        "apprise",
        _paced(apprise.AppriseChannel),
        personal=lambda _: False,
        secrets=apprise.SECRETS,
        proofs=frozenset(),
        pacing=Pacing(20),
    ),
    "email": ChannelKind(
        "email",
        _paced(email.EmailChannel),
        personal=email.personal,
        secrets=email.SECRETS,
        proofs=email.PROOFS,
        pacing=Pacing(10),
        by_address=True,
    ),
    "jira": ChannelKind(
        "jira",
        jira.JiraChannel,
        personal=lambda _: False,
        secrets=jira.SECRETS,
        proofs=jira.PROOFS,
        edits=True,
    ),
    "slack": ChannelKind(
        "slack",
        _paced(slack.SlackChannel),
        personal=slack.personal,
        secrets=slack.SECRETS,
        proofs=slack.PROOFS,
        edits=True,
        pacing=Pacing(30),
    ),
    "webhook": ChannelKind(
        "webhook",
        WebhookChannel,
        personal=lambda _: False,
        secrets=frozenset({"secrets"}),
        # The program answers on behalf of one person, and only that person or the operator can set this up.
        proofs=frozenset(),
        follows=True,
    ),
}
