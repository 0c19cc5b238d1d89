"""The available kinds of sources. To add a kind, create a module next to this one and list it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assent.triggers.ports import Hook, Watcher
from assent.triggers.sources import (
    bitbucket,
    circleci,
    files,
    git,
    gitea,
    github,
    gitlab,
    jenkins,
    jira,
    schedule,
    webhook,
)
from assent.triggers.sources.fields import COMMON
from assent.triggers.sources.tools import SourceTools

__all__ = ["COMMON", "KINDS", "SourceKind", "Way"]


class Way(StrEnum):
    """How a source's events arrive."""

    HOOK = "hook"
    """The sender calls /hooks/{source}."""
    WATCH = "watch"
    """A node watches the source on its machine."""
    CLOCK = "clock"
    """The scheduler creates the events."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A kind of source."""

    name: str
    way: Way
    make: Callable[[Mapping[str, Any], SourceTools], Hook | Watcher | None]
    """Creates a source from its settings, or raises InvalidRequest.at("/settings/…", …) for an invalid setting.

    Returns None for a schedule, whose settings are only validated.
    """
    secrets: frozenset[str] = frozenset()
    """The settings that must be references to secrets."""


KINDS: dict[str, SourceKind] = {
    "bitbucket": SourceKind("bitbucket", Way.HOOK, bitbucket.make, bitbucket.SECRETS),
    "circleci": SourceKind("circleci", Way.HOOK, circleci.make, circleci.SECRETS),
    "forgejo": SourceKind("forgejo", Way.HOOK, gitea.make_forgejo, gitea.SECRETS),
    "gitea": SourceKind("gitea", Way.HOOK, gitea.make_gitea, gitea.SECRETS),
    "github": SourceKind("github", Way.HOOK, github.make, github.SECRETS),
    "gitlab": SourceKind("gitlab", Way.HOOK, gitlab.make, gitlab.SECRETS),
    "jenkins": SourceKind("jenkins", Way.HOOK, jenkins.make, jenkins.SECRETS),
    "jira": SourceKind("jira", Way.HOOK, jira.make, jira.SECRETS),
    "webhook": SourceKind("webhook", Way.HOOK, webhook.WebhookSource, webhook.SECRETS),
    "files": SourceKind("files", Way.WATCH, files.FilesSource),
    "git": SourceKind("git", Way.WATCH, git.GitSource),
    "schedule": SourceKind("schedule", Way.CLOCK, schedule.make),
}
