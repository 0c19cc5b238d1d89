"""The layout of the admin pages, form fields that are validated like API requests, and the confirmation page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.responses import Response

from assent.contracts.models import read
from assent.core.access import Permission, Role
from assent.core.errors import AssentError, InvalidRequest, PreconditionFailed
from assent.http.problems import STATUS, from_validation
from assent.web.site import Visit, large_page, page

Model = TypeVar("Model")
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
    "off": "Disabled. Nothing is sent through this channel until you enable it again.",
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
    """Render an admin page; after an error, with the submitted values and the reason."""
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
    """Return the message of an error without JSON pointers, which are for programs."""
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    if not isinstance(error, InvalidRequest) or not found:
        return error.message
    first = found[0]
    name = first["pointer"].strip("/").partition("/")[0]
    label = "".join(f" {each.lower()}" if each.isupper() else each for each in name)
    return f"{label.capitalize()}: {first['detail']}" if label else first["detail"]


def outdated(what: str) -> PreconditionFailed:
    """Return the error for a form that was opened before the object's latest change."""
    msg = f"This {what} has changed since you opened the page. Review the current values, then save again."
    return PreconditionFailed(msg)


def checked(model: type[Model], **given: Any) -> Model:  # noqa: ANN401  # the values of a JSON body
    """Validate a form in the same way as an API request."""
    # Empty fields are omitted, so that the model's defaults apply.
    try:
        return read(model, {name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise from_validation(error) from error


def text(form: Mapping[str, str], name: str) -> str | None:
    """Return the submitted text, or None if it is empty."""
    return form.get(name, "").strip() or None


def number(form: Mapping[str, str], name: str) -> int | None:
    typed = text(form, name)
    if typed is None:
        return None
    if not (typed.isascii() and typed.isdigit() and len(typed) < 12):  # noqa: PLR2004  # valid numbers are shorter
        raise InvalidRequest.at(f"/{name}", "must be a whole number")
    return int(typed)


def listed(form: Mapping[str, str], name: str) -> list[str] | None:
    """Return the names in a field, separated by spaces, commas or line breaks."""
    return form.get(name, "").replace(",", " ").split() or None


def ticked(form: Mapping[str, str], prefix: str = "role-") -> list[str]:
    return [role.value for role in Role if form.get(prefix + role.value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A confirmation page before an action that is hard to undo."""

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
    """Show a secret once, in a response that is not cached; the secret is not stored."""
    return page("admin_secret.html", visit=visit, title=title, secret=secret, hints=hints, back=back)
