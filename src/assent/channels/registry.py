"""The channels there are: a new one is a file or folder beside this one, and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assent.channels import apprise
from assent.channels.email import channel as email
from assent.channels.jira import channel as jira
from assent.channels.pacing import Pacing, pacing_of, without_pacing
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
    proofs: frozenset[str]
    """The settings by which it knows whose an answer is: whoever sets them could answer as somebody else."""
    pacing: Pacing | None = None
    """The default limits where people read the messages; None for programs, which get every message at once."""
    edits: bool = False
    """Whether closing changes the message that is there, instead of sending another."""
    follows: bool = False
    """Whether it wants to be told every event, and not only what asks and what ends."""
    by_address: bool = False
    """Whether it takes answers from everybody's own e-mail address, and not only from those who are linked."""


def _paced(make: Callable[[Mapping[str, Any], Tools], Channel]) -> Callable[[Mapping[str, Any], Tools], Channel]:
    """Check the limits and keep them from the channel itself, which knows nothing of other messages."""

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
        # It answers as one person, who alone changes it.
        proofs=frozenset(),
        follows=True,
    ),
}
