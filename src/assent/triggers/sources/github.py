"""GitHub, and the payloads of Gitea and Forgejo, which have the same format."""

from collections.abc import Callable, Mapping
from functools import partial
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
from assent.triggers.sources.signatures import hub
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})
ENDS = frozenset({"workflow_run", "check_suite"})
"""Events about the result of an entire build. Other events are about individual jobs or checks."""
_WRITTEN = {"issues": "issue", "pull_request": "pull_request", "discussion": "discussion"}
_WRITES = frozenset({"opened", "created", "edited"})
_ABOUT = ("pull_request", "workflow_run", "workflow_job", "check_suite", "check_run", "release", "deployment_status")


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(GITHUB, fields, hub("x-hub-signature-256", fields.secrets()))


def read(headers: Headers, body: Json, *, kind: str, event_header: str) -> Told:
    event = text(headers.get(event_header)) or "unknown"
    found = _READERS.get(event, _other)(body)
    repo = text(body, "repository", "full_name")
    action = _action(event, body)
    ends = event in ENDS and action == "completed"
    about = _about(event, body)
    return Told(
        type=named_type(kind, event, action),
        subject=place(repo, after("#", _numbered(body)), after("@", found.get("branch") or found.get("sha"))),
        occurred_at=moment(about, "updated_at") or moment(body, "head_commit", "timestamp"),
        view={
            **view(
                repo=repo,
                actor=_actor(body),
                actortype=_actor_type(body),
                action=action,
                title=_title(body, about),
                url=text(about, "html_url") or text(body, "compare") or text(body, "repository", "html_url"),
                labels=named(body, "name", "pull_request", "labels") or named(body, "name", "issue", "labels"),
                tags=[CI_COMPLETED] if ends else [],
            ),
            **view(**found),
        },
        said=_said(event, body),
    )


GITHUB = Provider(
    "github",
    partial(read, kind="github", event_header="x-github-event"),
    ids=("x-github-delivery",),
    kept=("x-github-event", "x-github-delivery", "x-github-hook-id", "x-github-hook-installation-target-type"),
)


def _action(event: str, body: Json) -> str | None:
    action = text(body, "action")
    # GitHub reports merging a pull request only as closing it.
    merged = event == "pull_request" and action == "closed" and at(body, "pull_request", "merged") is True
    return "merged" if merged else action


def _about(event: str, body: Json) -> Json:
    """Return the object that the event is about. It contains the URL and the time."""
    for name in ("comment", "review") if event.endswith(("_comment", "_review")) else ():
        if at(body, name):
            return at(body, name)
    return next((at(body, name) for name in (*_ABOUT, "issue", "run") if at(body, name)), None)


def _said(event: str, body: Json) -> tuple[str, ...] | None:
    """Return only the new text in an event. Other text in the payload may be older and written by other people."""
    if event == "push":
        return (*messages(body, "commits"), said(body, "head_commit", "message"))
    if event.endswith("_comment") and at(body, "comment"):
        return (said(body, "comment", "body"),)
    if at(body, "review"):
        return said(body, "review", "body"), said(body, "review", "content")
    about = _WRITTEN.get(event)
    if about is None:
        return None
    return (said(body, about, "title"), said(body, about, "body")) if text(body, "action") in _WRITES else ()


def _push(body: Json) -> dict[str, Json]:
    ref = text(body, "ref")
    commits = [*items(body, "commits"), at(body, "head_commit")]
    return {
        "ref": ref,
        "branch": branch_of(ref),
        "sha": commit(body, "after"),
        "before": commit(body, "before"),
        "paths": changed_paths(commits),
    }


def _pull_request(body: Json) -> dict[str, Json]:
    """Return the fields of a pull request, with the target branch as `branch` and the source branch as `ref`."""
    pull = at(body, "pull_request")
    merged = at(pull, "merged") is True
    return {
        "branch": text(pull, "base", "ref"),
        "ref": text(pull, "head", "ref"),
        "sha": (commit(pull, "merge_commit_sha") if merged else None) or commit(pull, "head", "sha"),
        "before": commit(body, "before"),
    }


def _built(name: str, body: Json) -> dict[str, Json]:
    build = at(body, name)
    return {
        "branch": text(build, "head_branch") or text(build, "check_suite", "head_branch"),
        "sha": commit(build, "head_sha"),
        "before": commit(build, "before"),
        "conclusion": conclusion(build, "conclusion"),
        "attempt": number(build, "run_attempt"),
    }


def _status(body: Json) -> dict[str, Json]:
    return {
        "branch": text(body, "branches", 0, "name"),
        "sha": commit(body, "sha"),
        "conclusion": conclusion(body, "state"),
        "url": text(body, "target_url"),
        "title": text(body, "context"),
    }


def _deployment(body: Json) -> dict[str, Json]:
    ref = text(body, "deployment", "ref")
    return {
        "ref": ref,
        "branch": branch_of(ref),
        "sha": commit(body, "deployment", "sha"),
        "conclusion": conclusion(body, "deployment_status", "state"),
    }


def _ref(body: Json) -> dict[str, Json]:
    ref = text(body, "ref")
    return {"ref": ref, "branch": branch_of(ref) if text(body, "ref_type") == "branch" else None}


def _action_run(body: Json) -> dict[str, Json]:
    """Return the fields of a Forgejo Actions run."""
    run = at(body, "run")
    return {
        "branch": branch_of(text(run, "prettyref")),
        "sha": commit(run, "commit_sha"),
        "conclusion": conclusion(run, "status"),
        "tags": [CI_COMPLETED],
    }


def _other(body: Json) -> dict[str, Json]:
    return {"ref": text(body, "release", "tag_name")}


_READERS: Mapping[str, Callable[[Json], dict[str, Json]]] = {
    "push": _push,
    "pull_request": _pull_request,
    "pull_request_review": _pull_request,
    "pull_request_review_comment": _pull_request,
    "workflow_run": partial(_built, "workflow_run"),
    "workflow_job": partial(_built, "workflow_job"),
    "check_suite": partial(_built, "check_suite"),
    "check_run": partial(_built, "check_run"),
    "status": _status,
    "deployment_status": _deployment,
    "create": _ref,
    "delete": _ref,
    "action_run_success": _action_run,
    "action_run_failure": _action_run,
    "action_run_recover": _action_run,
}


def _numbered(body: Json) -> int | None:
    found = number(body, "pull_request", "number")
    return number(body, "issue", "number") if found is None else found


def _title(body: Json, about: Json) -> str | None:
    places = ((body, "pull_request", "title"), (body, "issue", "title"), (about, "display_title"), (about, "title"))
    found = next((each for each in (text(*spot) for spot in places) if each), None)
    return found or text(about, "name") or first_line(body, "head_commit", "message")


def _actor(body: Json) -> str | None:
    return text(body, "sender", "login") or text(body, "sender", "username") or text(body, "pusher", "name")


def _actor_type(body: Json) -> str | None:
    actor = _actor(body)
    if actor is None:
        return None
    bot = text(body, "sender", "type") == "Bot" or actor.endswith("[bot]")
    return "bot" if bot else "user"
