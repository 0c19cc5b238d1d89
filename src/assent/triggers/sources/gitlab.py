"""GitLab, authenticated by signing tokens or by the older secret token, which is sent in plain text."""

import re
from collections.abc import Mapping
from typing import Any

from assent.core.canonical import Json
from assent.core.errors import InvalidRequest
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.hook import Headers, Provider, ProviderHook
from assent.triggers.sources.reading import (
    CI_COMPLETED,
    Told,
    after,
    at,
    branch_of,
    changed_paths,
    commit,
    conclusion,
    first_line,
    items,
    messages,
    moment,
    named,
    named_type,
    number,
    place,
    said,
    text,
    view,
)
from assent.triggers.sources.signatures import any_of, standard_webhooks, token
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets", "signing_tokens"})
ENDED = frozenset({"success", "failed", "canceled", "skipped"})
_BOT = re.compile(r"(?:project|group)_\d+_bot.*|ghost|support-bot|alert-bot")
_KINDS = {"build": "job"}


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    tokens, plain = fields.optional_secrets("signing_tokens"), fields.optional_secrets("secrets")
    checks = [
        *([standard_webhooks(tokens, setting="signing_tokens")] if tokens else []),
        *([token("x-gitlab-token", plain)] if plain else []),
    ]
    if not checks:
        msg = "is required unless secrets is set: without either, events cannot be verified"
        raise InvalidRequest.at("/settings/signing_tokens", msg)
    return ProviderHook(GITLAB, fields, any_of(checks))


def read(_: Headers, body: Json) -> Told:
    kind = text(body, "object_kind") or text(body, "event_name") or "unknown"
    about = at(body, "object_attributes")
    repo = text(body, "project", "path_with_namespace") or text(body, "repository", "path_with_namespace")
    found = _PARTS.get(kind, _other)(body)
    action = _action(kind, body)
    ends = kind == "pipeline" and action == "completed"
    actor = text(body, "user_username") or text(body, "user", "username") or text(body, "user", "name")
    return Told(
        type=named_type("gitlab", _KINDS.get(kind, kind), action),
        subject=place(repo, _numbered(kind, body), after("@", found.get("branch") or found.get("sha"))),
        occurred_at=_when(about, body),
        view=view(
            repo=repo,
            actor=actor,
            actortype=None if actor is None else "bot" if _BOT.fullmatch(actor) else "user",
            action=action,
            title=_title(body, about),
            url=text(about, "url") or text(body, "project", "web_url"),
            labels=named(body, "title", "labels") or named(about, "title", "labels"),
            tags=[CI_COMPLETED] if ends else [],
            **found,
        ),
        said=_said(kind, body),
    )


GITLAB = Provider(
    "gitlab",
    read,
    ids=("idempotency-key",),
    kept=(
        "x-gitlab-event",
        "x-gitlab-event-uuid",
        "x-gitlab-webhook-uuid",
        "x-gitlab-instance",
        "idempotency-key",
        "webhook-id",
    ),
)


def _action(kind: str, body: Json) -> str | None:
    if kind == "pipeline":
        status = text(body, "object_attributes", "status")
        return "completed" if status in ENDED else status
    if kind == "build":
        status = text(body, "build_status")
        return "completed" if status in ENDED else status
    action = text(body, "object_attributes", "action") or text(body, "action")
    return "merged" if kind == "merge_request" and action == "merge" else action


def _said(kind: str, body: Json) -> tuple[str, ...] | None:
    """Return only the new text in an event. Other text in the payload may be older and written by other people."""
    about = at(body, "object_attributes")
    if kind in {"push", "tag_push"}:
        return (*messages(body, "commits"), said(body, "message"))
    if kind == "note":
        return (said(about, "note"),)
    if kind not in {"merge_request", "issue", "work_item"}:
        return None
    action, changes = text(about, "action"), at(body, "changes")
    written = action == "open" or (action == "update" and any(at(changes, name) for name in ("title", "description")))
    # GitLab sets `oldrev` only if commits were pushed to the merge request.
    pushed = said(about, "last_commit", "message") if text(about, "oldrev") else ""
    return (said(about, "title"), said(about, "description"), pushed) if written else (pushed,)


def _push(body: Json) -> dict[str, Json]:
    ref = text(body, "ref")
    return {
        "ref": ref,
        "branch": branch_of(ref),
        "sha": commit(body, "checkout_sha") or commit(body, "after"),
        "before": commit(body, "before"),
        "paths": changed_paths(items(body, "commits")),
    }


def _merge_request(body: Json) -> dict[str, Json]:
    """Return the fields of a merge request, with the target branch as `branch` and the source branch as `ref`."""
    about = at(body, "object_attributes")
    merged = text(about, "action") == "merge"
    landed = commit(about, "merge_commit_sha") or commit(about, "squash_commit_sha") if merged else None
    return {
        "branch": text(about, "target_branch"),
        "ref": text(about, "source_branch"),
        "sha": landed or commit(about, "last_commit", "id"),
        "before": commit(about, "oldrev"),
    }


def _pipeline(body: Json) -> dict[str, Json]:
    about = at(body, "object_attributes")
    ref = text(about, "ref")
    return {
        "ref": ref,
        "branch": None if at(about, "tag") is True else ref,
        "sha": commit(about, "sha"),
        "before": commit(about, "before_sha"),
        "conclusion": conclusion(about, "status"),
    }


def _build(body: Json) -> dict[str, Json]:
    ref = text(body, "ref")
    return {
        "ref": ref,
        "branch": None if at(body, "tag") is True else ref,
        "sha": commit(body, "sha"),
        "before": commit(body, "before_sha"),
        "conclusion": conclusion(body, "build_status"),
    }


def _other(body: Json) -> dict[str, Json]:
    return {"ref": text(body, "ref") or text(body, "tag"), "sha": commit(body, "commit", "id")}


_PARTS = {
    "push": _push,
    "tag_push": _push,
    "merge_request": _merge_request,
    "pipeline": _pipeline,
    "build": _build,
}


def _numbered(kind: str, body: Json) -> str | None:
    own = number(body, "object_attributes", "iid")
    if kind == "merge_request":
        return after("!", own)
    if kind in {"issue", "work_item"}:
        return after("#", own)
    return after("!", number(body, "merge_request", "iid")) or after("#", number(body, "issue", "iid"))


def _title(body: Json, about: Json) -> str | None:
    found = text(about, "title") or text(body, "merge_request", "title") or text(body, "issue", "title")
    return found or text(body, "build_name") or text(body, "commit", "title") or _last_message(body)


def _last_message(body: Json) -> str | None:
    return text(body, "commits", -1, "title") or first_line(body, "commits", -1, "message")


def _when(about: Json, body: Json) -> int | None:
    names = ("updated_at", "finished_at", "created_at")
    times = [moment(about, name) for name in names] + [moment(body, "commits", -1, "timestamp")]
    return next((each for each in times if each is not None), None)
