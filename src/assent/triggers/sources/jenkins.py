"""Jenkins with its Notification plugin, which authenticates with a secret URL or a bearer token instead of signing."""

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
    number,
    path_of,
    place,
    text,
    view,
)
from assent.triggers.sources.signatures import PATH, bearer, path
from assent.triggers.sources.tools import SourceTools

SECRETS = frozenset({"secrets"})


def make(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS | {"verify"})
    how = fields.one_of("verify", PATH, "bearer")
    return ProviderHook(JENKINS, fields, (path if how == PATH else bearer)(fields.secrets()))


def read(_: Headers, body: Json) -> Told:
    build = at(body, "build")
    scm = at(build, "scm")
    phase = (text(build, "phase") or "unknown").lower()
    branch = text(scm, "branch")
    name = text(body, "name")
    return Told(
        type=named_type("jenkins", "build", phase),
        subject=place(name, after("#", number(build, "number"))),
        occurred_at=moment(build, "timestamp"),
        view=view(
            repo=path_of(text(scm, "url")),
            branch=branch.removeprefix("refs/heads/").removeprefix("origin/") if branch else None,
            ref=branch,
            sha=commit(scm, "commit"),
            action=phase,
            conclusion=conclusion(build, "status"),
            title=text(body, "display_name") or name,
            url=text(build, "full_url") or text(build, "url"),
            tags=[CI_COMPLETED] if phase == "completed" else [],
        ),
    )


JENKINS = Provider("jenkins", read)
