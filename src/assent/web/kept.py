"""Text that a person typed into a form that was not accepted: carried through a sign-in, or shown on the error page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

ACTION = "kept-action"
PREFIX = "kept."
LABELS = {
    "comment": "Comment",
    "text": "Comment",
    "why": "Why",
    "because": "Why",
    "note": "Note",
    "reason": "Reason",
    "pattern": "Pattern",
    "file": "File",
    "inputs": "Inputs",
    "name": "Name",
}
"""Fields with text that people write; shown where no form has room for them."""
_ANSWERS = ("field-", "edit-")
_NEVER = frozenset({"csrf", "password", "username", "old", "new", "again"})
# A path of this server; the second character is not a slash, which would name another one.
_PATH = re.compile(r"/[0-9a-z][!-\[\]-~]{0,1999}")


@dataclass(frozen=True, slots=True)
class Kept:
    """A form that was not accepted: where it goes and what is in it, without its key and without passwords.

    It is only ever sent without a key, so the server shows it again and does nothing else.
    """

    action: str
    fields: Mapping[str, str]

    @property
    def texts(self) -> Sequence[tuple[str, str]]:
        return texts(self.fields)

    @property
    def carried(self) -> Mapping[str, str]:
        """The fields as the sign-in form carries them."""
        return {ACTION: self.action} | {PREFIX + name: value for name, value in self.fields.items()}


def texts(form: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the text that was typed into a form, with labels."""
    found = [(LABELS.get(name, "Answer" if name.startswith(_ANSWERS) else ""), text) for name, text in form.items()]
    return [(label, text) for label, text in found if label and text.strip()]


def from_form(request: Request, form: Mapping[str, str]) -> Kept | None:
    """Keep a form that was sent without a session, if anything was typed into it."""
    query = f"?{request.url.query}" if request.url.query else ""
    return _kept(request.url.path + query, form)


def from_sign_in(form: Mapping[str, str]) -> Kept | None:
    """Read the form that a sign-in carries."""
    fields = {name.removeprefix(PREFIX): value for name, value in form.items() if name.startswith(PREFIX)}
    return _kept(form.get(ACTION, ""), fields)


def _kept(action: str, form: Mapping[str, str]) -> Kept | None:
    fields = {name: value for name, value in form.items() if name not in _NEVER}
    is_local = _PATH.fullmatch(action) is not None and not urlsplit(action).netloc
    return Kept(action, fields) if is_local and texts(fields) else None
