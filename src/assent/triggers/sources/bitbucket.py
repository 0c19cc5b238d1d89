"""Bitbucket Cloud and Bitbucket Data Center, whose field names differ."""

from collections.abc import Mapping
from typing import Any

from assent.core.canonical import Json
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.hook import Headers, Provider, ProviderHook
from assent.triggers.sources.reading import (
    CI_COMPLETED,
    Told,
    after,
    at,
    branch_of,
    commit,
    conclusion,
    first_line,
    items,
    messages,
    moment,
    named_type,
    number,
    place,
    said,
    text,
    view,
)
from assent.triggers.sources.signatures import hub
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})
_TYPES = {
    "repo:push": ("push", None),
    "repo:refs_changed": ("push", None),
    "pullrequest:fulfilled": ("pull-request", "merged"),
    "pr:merged": ("pull-request", "merged"),
    "repo:commit_status_created": ("commit-status", "created"),
    "repo:commit_status_updated": ("commit-status", "updated"),
}
_GROUPS = {"pullrequest": "pull-request", "pr": "pull-request"}
_WRITES = frozenset({"created", "opened", "updated", "modified"})
_RUNNING = "INPROGRESS"
_ACTOR = (
    "username", "name", "account_id", "slug", "uuid", "nickname", "display_name", "displayName", "emailAddress", "id",
)  # fmt: skip
"""Data Center sends a username. Cloud sends an account ID; all other names in its payloads can change."""


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(BITBUCKET, fields, hub("x-hub-signature", fields.secrets()))


def read(headers: Headers, body: Json) -> Told:
    event = text(headers.get("x-event-key")) or text(body, "eventKey") or "unknown"
    group, action = _TYPES.get(event, (None, None))
    if group is None:
        first, _, action = event.partition(":")
        group = _GROUPS.get(first, first)
    found = _status(body) if group == "commit-status" else _change(body) if group == "push" else _pull_request(body)
    repo = _repo(body)
    pull = _pull(body)
    actor = _actor(body)
    return Told(
        type=named_type("bitbucket", group, action),
        subject=place(repo, after("#", number(pull, "id")), after("@", found.get("branch") or found.get("sha"))),
        occurred_at=moment(pull, "updated_on") or moment(pull, "updatedDate") or moment(body, "date"),
        view={
            **view(
                repo=repo,
                actor=actor,
                actortype=_actor_type(actor, body),
                action=action,
                title=text(pull, "title") or first_line(body, "push", "changes", 0, "new", "target", "message"),
                url=_url(pull, body),
            ),
            **view(**found),
        },
        said=_said(event, group, body),
    )


BITBUCKET = Provider(
    "bitbucket",
    read,
    ids=("x-request-uuid", "x-request-id"),
    kept=("x-event-key", "x-hook-uuid", "x-request-uuid", "x-request-id", "x-attempt-number"),
)


def _said(event: str, group: str, body: Json) -> tuple[str, ...] | None:
    """Return only the new text in an event. Other text in the payload may be older and written by other people."""
    if at(body, "comment"):
        return said(body, "comment", "content", "raw"), said(body, "comment", "text")
    if group == "push":
        cloud = [each for change in items(body, "push", "changes") for each in messages(change, "commits")]
        tips = [said(change, "new", "target", "message") for change in items(body, "push", "changes")]
        return (*cloud, *tips, *messages(body, "commits"), said(body, "toCommit", "message"))
    if group not in {"pull-request", "issue"}:
        return None
    about = _pull(body) if group == "pull-request" else at(body, "issue")
    words = (said(about, "title"), said(about, "description"), said(about, "content", "raw"))
    return words if event.partition(":")[2] in _WRITES else ()


def _pull(body: Json) -> Json:
    return at(body, "pullrequest") or at(body, "pullRequest")


def _repo(body: Json) -> str | None:
    where = at(body, "repository") or at(_pull(body), "toRef", "repository")
    if text(where, "full_name"):
        return text(where, "full_name")
    key, slug = text(where, "project", "key"), text(where, "slug")
    return f"{key}/{slug}" if key and slug else slug


def _change(body: Json) -> dict[str, Json]:
    """Return the first change in a push. A push to several branches is a single event."""
    cloud, center = at(body, "push", "changes", 0), at(body, "changes", 0)
    if cloud is not None:
        where = at(cloud, "new") or at(cloud, "old")
        name = text(where, "name")
        return {
            "ref": name,
            "branch": name if text(where, "type") in {"branch", "named_branch"} else None,
            "sha": commit(cloud, "new", "target", "hash"),
            "before": commit(cloud, "old", "target", "hash"),
        }
    ref = text(center, "refId") or text(center, "ref", "id")
    return {
        "ref": ref,
        "branch": branch_of(ref),
        "sha": commit(center, "toHash"),
        "before": commit(center, "fromHash"),
    }


def _pull_request(body: Json) -> dict[str, Json]:
    pull = _pull(body)
    merged = commit(pull, "merge_commit", "hash") or commit(pull, "properties", "mergeCommit", "id")
    head = commit(pull, "source", "commit", "hash") or commit(pull, "fromRef", "latestCommit")
    return {
        "branch": text(pull, "destination", "branch", "name") or text(pull, "toRef", "displayId"),
        "ref": text(pull, "source", "branch", "name") or text(pull, "fromRef", "displayId"),
        "sha": merged or head,
    }


def _status(body: Json) -> dict[str, Json]:
    status = at(body, "commit_status")
    state = text(status, "state")
    return {
        "branch": text(status, "refname"),
        "sha": commit(status, "commit", "hash"),
        "conclusion": conclusion(status, "state"),
        "title": text(status, "name"),
        "url": text(status, "url"),
        "tags": [CI_COMPLETED] if state and state.upper() != _RUNNING else [],
    }


def _actor(body: Json) -> str | None:
    """Return the account's most stable name, because users can change their display name to another user's."""
    found = (text(body, "actor", name) for name in _ACTOR)
    return next(filter(None, found), None)


def _actor_type(actor: str | None, body: Json) -> str | None:
    if actor is None:
        return None
    kind = (text(body, "actor", "type") or "user").lower()
    return "user" if kind in {"user", "normal"} else "bot"


def _url(pull: Json, body: Json) -> str | None:
    change = at(body, "push", "changes", 0)
    own = text(pull, "links", "html", "href") or text(pull, "links", "self", 0, "href")
    return own or text(change, "links", "html", "href") or text(body, "repository", "links", "html", "href")
