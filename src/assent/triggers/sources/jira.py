"""Jira events about issues, comments, sprints and versions."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from assent.core.canonical import Json
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.hook import Headers, Provider, ProviderHook
from assent.triggers.sources.reading import Told, at, items, moment, named_type, said, text, texts, view
from assent.triggers.sources.signatures import hub
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(JIRA, fields, hub("x-hub-signature", fields.secrets()))


def read(headers: Headers, body: Json) -> Told:
    del headers
    event = (text(body, "webhookEvent") or "unknown").removeprefix("jira:")
    thing, _, action = event.partition("_")
    user = at(body, "user") or at(body, "comment", "updateAuthor") or at(body, "comment", "author")
    actor = text(user, "name") or text(user, "displayName") or text(user, "accountId")
    issue = at(body, "issue")
    key = text(issue, "key")
    return Told(
        type=named_type("jira", thing, action),
        subject=key or text(body, "project", "key"),
        occurred_at=moment(body, "timestamp"),
        view=view(
            actor=actor,
            actortype=None if actor is None else "bot" if text(user, "accountType") == "app" else "user",
            action=action,
            title=text(issue, "fields", "summary"),
            url=_address(issue, key),
            labels=texts(items(issue, "fields", "labels")),
        ),
        said=_said(thing, action, body),
    )


JIRA = Provider(
    "jira",
    read,
    ids=("x-atlassian-webhook-identifier",),
    kept=("x-atlassian-webhook-identifier", "x-atlassian-webhook-retry", "x-atlassian-webhook-flow"),
)


def _said(thing: str, action: str, body: Json) -> tuple[str, ...] | None:
    """Return only the new text in an event. Other text in the payload may be older and written by other people."""
    if at(body, "comment"):
        return (said(body, "comment", "body"),)
    if thing != "issue":
        return None
    if action == "created":
        return said(body, "issue", "fields", "summary"), said(body, "issue", "fields", "description")
    return tuple(said(each, "toString") for each in items(body, "changelog", "items"))


def _address(issue: Json, key: str | None) -> str | None:
    """Return the URL of the issue's page; the body contains only its API URL."""
    own = text(issue, "self")
    if own is None or key is None:
        return None
    try:
        place = urlsplit(own)
    except ValueError:
        return None
    context = place.path.partition("/rest/")[0]
    return f"{place.scheme}://{place.netloc}{context}/browse/{key}" if place.netloc else None
