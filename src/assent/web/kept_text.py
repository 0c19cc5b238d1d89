"""Keeps the text of a form that was not accepted, to show it again after signing in or on the error page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import escape
from starlette.requests import Request

from assent.core.secrets import is_mark_of, person_mark
from assent.http.sessions import form_of

MAX_KEPT_BYTES = 128 * 1024
"""Maximum size of a kept form in bytes of HTML: a comment of 20,000 escaped characters, and answers.

Clients that are not signed in also receive these pages, which contain each text up to three times.
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
"""Fields with text by people, which is shown with these labels if the page does not have a form for it."""
_ANSWERS = ("field-", "edit-")
_NEVER = frozenset({"csrf", OWNER, "password", "username", "old", "new", "again"})
# A path on this server; a second slash would make it the URL of another server.
_PATH = re.compile(r"/[0-9a-z][!-\[\]-~]{0,1999}")


class TooLongError(Exception):
    """A form has more text than is kept for clients that are not signed in."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not accepted: its action and fields, without CSRF token and passwords.

    It is always submitted without a CSRF token, so the server only shows it again.
    """

    action: str
    fields: Mapping[str, str]
    owner: str
    """The person mark of the person who opened the form."""

    def is_of(self, person_id: str | None) -> bool:
        return person_id is not None and is_mark_of(self.owner, person_id)

    @property
    def texts(self) -> Sequence[tuple[str, str]]:
        return texts(self.fields)

    @property
    def carried(self) -> Mapping[str, str]:
        """The hidden fields of the sign-in form."""
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

    If its page can be filled in again (`whole`), all fields are kept, otherwise only text to copy.
    """
    if len(await request.body()) > MAX_BODY_BYTES:
        raise TooLongError
    form = await form_of(request)
    query = f"?{request.url.query}" if request.url.query else ""
    fields = form if whole else {name: value for name, value in form.items() if _label(name)}
    return _kept(request.url.path + query, fields, owner_of(form))


def from_sign_in(form: Mapping[str, str]) -> Kept | None:
    """Return the form that is kept in a sign-in form; None if it is too long, because our page did not create it."""
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
        # Text that is too long without escaping does not have to be escaped.
        room -= len(text) if len(text) > room else len(escape(text).encode())
        if room < 0:
            raise TooLongError
    return Kept(action, fields, owner)
