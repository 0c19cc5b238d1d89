"""CircleCI: completed workflows and jobs."""

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
    commit,
    conclusion,
    moment,
    named_type,
    path_of,
    place,
    text,
    view,
)
from assent.triggers.sources.signatures import circleci
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})
_PARTS_OF_SLUG = 3


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(CIRCLECI, fields, circleci(fields.secrets()))


def read(headers: Headers, body: Json) -> Told:
    event = text(body, "type") or text(headers.get("circleci-event-type")) or "unknown"
    name, _, action = event.partition("-")
    vcs = at(body, "pipeline", "vcs")
    repo, branch = _repo(body), text(vcs, "branch")
    part = at(body, name)
    actor = text(vcs, "commit", "author", "name")
    return Told(
        type=named_type("circleci", name, action),
        subject=place(repo, after("@", branch or commit(vcs, "revision"))),
        occurred_at=moment(body, "happened_at"),
        id=text(body, "id"),
        view=view(
            repo=repo,
            branch=branch,
            ref=text(vcs, "tag") or branch,
            sha=commit(vcs, "revision"),
            actor=actor,
            actortype="user" if actor else None,
            action=action,
            conclusion=conclusion(part, "status"),
            title=text(part, "name"),
            url=text(body, "workflow", "url"),
            tags=[CI_COMPLETED] if event == "workflow-completed" else [],
        ),
    )


CIRCLECI = Provider("circleci", read, kept=("circleci-event-type",))


def _repo(body: Json) -> str | None:
    """Return `owner/name` from a slug such as github/owner/name. Newer slugs contain only IDs."""
    slug = text(body, "project", "slug") or ""
    host, *rest = slug.split("/")
    if len(rest) == _PARTS_OF_SLUG - 1 and host in {"gh", "github", "bb", "bitbucket"}:
        return "/".join(rest)
    return path_of(text(body, "pipeline", "vcs", "origin_repository_url")) or text(body, "project", "name")
