"""Keeps text from a form that was not accepted, and shows it again on the error page or after sign-in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import escape
from starlette.requests import Request

from assent.core.secrets import is_mark_of, person_mark
from assent.http.sessions import form_of

MAX_KEPT_BYTES = 128 * 1024
"""Maximum size of a kept form in bytes of HTML: enough for a comment of 20,000 escaped characters and for answers.

A page contains each text up to three times, and is sent even to clients that are not signed in.
"""
MAX_BODY_BYTES = 3 * MAX_KEPT_BYTES
"""The size of the largest kept form if all bytes are percent-encoded; longer requests are not parsed."""
ACTION = "kept-action"
OWNER = "kept-for"
PREFIX = "kept."
LABELS = {
    "comment": "Comment",
    "text": "Comment",
    "why": "Reason",
    "because": "Reason",
    "note": "Note",
    "reason": "Reason",
    "pattern": "Pattern",
    "file": "File",
    "inputs": "Inputs",
    "name": "Name",
}
"""Fields with text written by people; if the page has no form for the text, it is shown with these labels."""
_ANSWERS = ("field-", "edit-")
_NEVER = frozenset({"csrf", OWNER, "password", "username", "old", "new", "again"})
# A path on this server; a second leading slash would make it the URL of another server.
_PATH = re.compile(r"/[0-9a-z][!-\[\]-~]{0,1999}")


class TooLongError(Exception):
    """The form contains more text than the server keeps for clients that are not signed in."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not accepted: its action and fields, without the CSRF token and passwords.

    Because it is submitted again without a CSRF token, the server only shows it again and does not process it.
    """

    action: str
    fields: Mapping[str, str]
    owner: str
    """The mark of the person who opened the form."""

    def is_of(self, person_id: str | None) -> bool:
        return person_id is not None and is_mark_of(self.owner, person_id)

    @property
    def texts(self) -> Sequence[tuple[str, str]]:
        return texts(self.fields)

    @property
    def carried(self) -> Mapping[str, str]:
        """The hidden fields that store this form in the sign-in form."""
        return {ACTION: self.action, OWNER: self.owner} | {PREFIX + name: value for name, value in self.fields.items()}


def texts(form: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the submitted text with labels."""
    found = [(_label(name), text) for name, text in form.items()]
    return [(label, text) for label, text in found if label and text.strip()]


def _label(name: str) -> str:
    return LABELS.get(name, "Answer" if name.startswith(_ANSWERS) else "")


def owner_of(form: Mapping[str, str]) -> str:
    """Return the mark of the person who opened a form, from the CSRF token or else from a separate field."""
    return person_mark(form.get("csrf", "")) or form.get(OWNER, "")


async def from_request(request: Request, *, whole: bool) -> Kept | None:
    """Return a form that was submitted without a session, or None if it does not contain text.

    If the page can show the form again (`whole`), keep all fields; otherwise, keep only text to copy.
    """
    if len(await request.body()) > MAX_BODY_BYTES:
        raise TooLongError
    form = await form_of(request)
    query = f"?{request.url.query}" if request.url.query else ""
    fields = form if whole else {name: value for name, value in form.items() if _label(name)}
    return _kept(request.url.path + query, fields, owner_of(form))


def from_sign_in(form: Mapping[str, str]) -> Kept | None:
    """Return the form kept in a sign-in form, or None if it is too long and thus did not come from our page."""
    fields = {name.removeprefix(PREFIX): value for name, value in form.items() if name.startswith(PREFIX)}
    try:
        return _kept(form.get(ACTION, ""), fields, form.get(OWNER, ""))
    except TooLongError:
        return None


def _kept(action: str, form: Mapping[str, str], owner: str) -> Kept | None:
    fields = {name: value for name, value in form.items() if name not in _NEVER}
    is_local = _PATH.fullmatch(action) is not None and not urlsplit(action).netloc
    if not is_local or not texts(fields):
        return None
    room = MAX_KEPT_BYTES
    for text in (*fields, *fields.values(), owner):
        # Text that is already too long before escaping does not have to be escaped.
        room -= len(text) if len(text) > room else len(escape(text).encode())
        if room < 0:
            raise TooLongError
    return Kept(action, fields, owner)
