"""Text that a person typed into a form that was not accepted: carried through a sign-in, or shown on the error page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from markupsafe import escape
from starlette.requests import Request

from assent.domain.secrets import is_mark_of, person_mark
from assent.http.sessions import form_of

MAX_KEPT_BYTES = 128 * 1024
"""Limit of a kept form in bytes of HTML: a comment of 20,000 characters, each escaped, and answers.

Clients that are not signed in get these pages too, and each text is in them up to three times.
"""
MAX_BODY_BYTES = 3 * MAX_KEPT_BYTES
"""A form is at most this long when every byte of its text is percent-encoded; a longer one need not be read."""
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
"""Fields with text that people write; shown where no form has room for them."""
_ANSWERS = ("field-", "edit-")
_NEVER = frozenset({"csrf", OWNER, "password", "username", "old", "new", "again"})
# A path of this server; the second character is not a slash, which would name another one.
_PATH = re.compile(r"/[0-9a-z][!-\[\]-~]{0,1999}")


class TooLongError(Exception):
    """A form has more text than pages for everybody repeat."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not accepted: where it goes and what is in it, without its key and without passwords.

    It is only ever sent without a key, so the server shows it again and does nothing else.
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
        """The fields as the sign-in form carries them."""
        return {ACTION: self.action, OWNER: self.owner} | {PREFIX + name: value for name, value in self.fields.items()}


def texts(form: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the text that was typed into a form, with labels."""
    found = [(_label(name), text) for name, text in form.items()]
    return [(label, text) for label, text in found if label and text.strip()]


def _label(name: str) -> str:
    return LABELS.get(name, "Answer" if name.startswith(_ANSWERS) else "")


def owner_of(form: Mapping[str, str]) -> str:
    """Return the mark of the person who opened a form; a form without its key carries it in a field of its own."""
    return person_mark(form.get("csrf", "")) or form.get(OWNER, "")


async def from_request(request: Request, *, whole: bool) -> Kept | None:
    """Keep a form that was sent without a session, if anything was typed into it.

    All of its fields are kept only if its page can fill them in again (`whole`), otherwise the text for copying.
    """
    if len(await request.body()) > MAX_BODY_BYTES:
        raise TooLongError
    form = await form_of(request)
    query = f"?{request.url.query}" if request.url.query else ""
    fields = form if whole else {name: value for name, value in form.items() if _label(name)}
    return _kept(request.url.path + query, fields, owner_of(form))


def from_sign_in(form: Mapping[str, str]) -> Kept | None:
    """Read the form that a sign-in carries; one that is too long did not come from our sign-in page."""
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
        # A text that is too long as it is need not be escaped.
        room -= len(text) if len(text) > room else len(escape(text).encode())
        if room < 0:
            raise TooLongError
    return Kept(action, fields, owner)
