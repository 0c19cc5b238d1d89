"""What the pages of the administration share: fields that are checked as the API checks them, one last question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from assent.domain.access import Permission, Role
from assent.domain.errors import AssentError, InvalidRequest, PreconditionFailed
from assent.http.problems import STATUS, from_validation
from assent.web.frame import Visit, large_page, page

Model = TypeVar("Model", bound=BaseModel)
PLACES = (
    ("people", "People", Permission.MANAGE),
    ("groups", "Groups", Permission.MANAGE),
    ("tokens", "Tokens", Permission.MANAGE),
    ("projects", "Projects", Permission.MANAGE),
    ("channels", "Channels", Permission.MANAGE),
    ("routes", "Routes", Permission.RULES),
    ("retention", "Retention", Permission.AUDIT),
    ("audit", "Audit log", Permission.AUDIT),
)
DONE = {
    "saved": "Saved.",
    "closed": "Account closed. Its sessions have ended.",
    "mailed": (
        "The link is being sent by email. The person has been signed out, and their existing tokens have been revoked."
    ),
    "confirmed": "Access confirmed. New decisions are no longer flagged.",
    "opened": "Account reopened.",
    "removed": "Removed.",
    "revoked": "Token revoked. It stops working within seconds.",
    "created": "Created.",
    "placed": "Legal hold placed.",
    "lifted": "Legal hold lifted.",
    "on": "Enabled.",
    "off": "Disabled. Nothing is sent through it until you enable it again.",
    "linked": "Account linked.",
    "unlinked": "Account unlinked.",
    "moved": "Moved.",
}


async def admin_page(
    template: str,
    place: str,
    *,
    visit: Visit,
    error: AssentError | None = None,
    **values: Any,  # noqa: ANN401
) -> Response:
    """Render a page of the administration; after a form that failed, with what was typed and why."""
    return await large_page(
        template,
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        now=visit.site.clock.now(),
        place=place,
        sections=[(name, label) for name, label, permission in PLACES if visit.who.may(permission)],
        problem=words(error) if error else None,
        done=DONE.get(visit.request.query_params.get("done", "")) if not error else None,
        typed=visit.form,
        **values,
    )


def words(error: AssentError) -> str:
    """Say what is wrong without the pointers that programs read."""
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    if not isinstance(error, InvalidRequest) or not found:
        return error.message
    first = found[0]
    name = first["pointer"].strip("/").partition("/")[0]
    label = "".join(f" {each.lower()}" if each.isupper() else each for each in name)
    return f"{label.capitalize()}: {first['detail']}" if label else first["detail"]


def outdated(what: str) -> PreconditionFailed:
    """Return the error for a form that was opened before the latest change."""
    msg = f"This {what} has changed since you opened the page. Review the current values, then save again."
    return PreconditionFailed(msg)


def checked(model: type[Model], **given: Any) -> Model:  # noqa: ANN401  # a body as the API would get it
    """Hold a form to what the API holds its callers to."""
    try:
        return model.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise from_validation(error) from error


def text(form: Mapping[str, str], name: str) -> str | None:
    """Return what was typed, None for nothing."""
    return form.get(name, "").strip() or None


def number(form: Mapping[str, str], name: str) -> int | None:
    typed = text(form, name)
    if typed is None:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) < 12):  # noqa: PLR2004  # more than any limit of ours
        raise InvalidRequest.at(f"/{name}", "must be a whole number")
    return int(typed)


def listed(form: Mapping[str, str], name: str) -> list[str] | None:
    """Read a list from a field: names between spaces, commas or line ends."""
    return form.get(name, "").replace(",", " ").split() or None


def ticked(form: Mapping[str, str], prefix: str = "role-") -> list[str]:
    return [role.value for role in Role if form.get(prefix + role.value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked once more before something happens that is hard to undo."""

    title: str
    consequences: Sequence[str]
    action: str
    button: str
    back: str
    carried: Mapping[str, str]
    place: str = "admin"


def question_page(visit: Visit, question: Question) -> Response:
    return page("admin_confirm.html", visit=visit, question=question)


def secret_page(visit: Visit, *, title: str, secret: str, hints: Sequence[str], back: str) -> Response:
    """Show a secret in the answer itself, which no cache keeps: it is stored nowhere, so it cannot be shown again."""
    return page("admin_secret.html", visit=visit, title=title, secret=secret, hints=hints, back=back)
