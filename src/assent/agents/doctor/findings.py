"""Findings about an agent's gates: their severity, where the problem is, and how to fix it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import SplitResult, urlsplit

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.secrets import PREFIXES, well_formed

TOKEN, URL = "ASSENT_TOKEN", "ASSENT_URL"
_LONGEST_NUMBER = 12


class Severity(StrEnum):
    PROBLEM = "problem"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Place:
    """A file with a JSON pointer into it, or a URL or variable name without a pointer."""

    where: str
    pointer: str | None = None

    def at(self, *keys: str | int) -> "Place":
        return replace(self, pointer="".join([self.pointer or "", *(f"/{pointer_step(key)}" for key in keys)]))


def number(value: float) -> str:
    """Format a number without unnecessary decimal places."""
    return str(value) if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check, even if nothing is wrong."""

    check: str
    severity: Severity
    place: Place
    what: str
    todo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file with JSON settings, or the reason why it cannot be read."""

    path: str
    content: Json = None
    managed: bool = False
    """Whether the organization manages this file, so that users cannot change it."""
    trouble: str = ""

    @property
    def place(self) -> Place:
        return Place(self.path, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine on which the settings are used: its variables, programs, server and project."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    runs: Callable[[str], bool] = bool
    """Whether a program with this name can be started."""
    server: str = ""
    """The URL of the server that this machine uses."""
    project: str = ""
    """The agent's working folder."""


@dataclass(frozen=True, slots=True)
class Access:
    """An agent's token and its server's URL. If the URL is None, the token is for the server set in the environment."""

    place: Place
    token: str
    url: str | None = None


def problem(check: str, place: Place, what: str, todo: str) -> Finding:
    return Finding(check=check, severity=Severity.PROBLEM, place=place, what=what, todo=todo)


def warning(check: str, place: Place, what: str, todo: str) -> Finding:
    return Finding(check=check, severity=Severity.WARNING, place=place, what=what, todo=todo)


def fine(check: str, place: Place, what: str) -> Finding:
    return Finding(check=check, severity=Severity.OK, place=place, what=what)


def worst_first(findings: Iterable[Finding]) -> Sequence[Finding]:
    order = list(Severity)
    return sorted(findings, key=lambda each: order.index(each.severity))


def counted(findings: Iterable[Finding], severity: Severity) -> int:
    return sum(each.severity is severity for each in findings)


def at(content: Json, *keys: str) -> Json:
    """Return the value at these keys, or None if it does not exist."""
    for key in keys:
        content = content.get(key) if is_object(content) else None
    return content


def texts(content: Json) -> Mapping[str, str]:
    """Return the members of an object whose values are strings."""
    return {key: value for key, value in content.items() if isinstance(value, str)} if is_object(content) else {}


def items(content: Json) -> Sequence[Json]:
    return content if is_array(content) else ()


def effective(documents: Sequence[Document], *keys: str) -> tuple[Place, Json] | None:
    """Return a setting and its place, from the last document that has it."""
    for document in reversed(documents):
        value = at(document.content, *keys)
        if value is not None:
            return document.place.at(*keys), value
    return None


def same_server(url: str, other: str) -> bool:
    return _origin(url) == _origin(other)


def same_host(url: str, other: str) -> bool:
    return split(url).hostname == split(other).hostname


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = split(url)
    try:
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # the port is not valid
        return url, None, None


def split(url: str) -> SplitResult:
    """Split a URL. If it is invalid, all parts are empty."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def whole_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def is_persons(token: str) -> bool:
    return token.startswith(PREFIXES["person"])


def access_findings(access: Access) -> Iterator[Finding]:
    """Check the form and the kind of an agent's token; the token itself is never shown."""
    if not well_formed(access.token):
        what = "This is not a valid Assent token: it may be truncated or mistyped."
        yield problem("token-form", access.place, what, "Copy the token again, without quotes or spaces.")
    elif is_persons(access.token):
        what = (
            "This is a person's token. Anyone who has it can approve on that person's behalf, so an agent must not "
            "use it."
        )
        todo = "Give the agent its own token: assent token create --kind agent --name NAME."
        yield warning("token-kind", access.place, what, todo)
    elif not access.token.startswith(PREFIXES["agent"]):
        what = "This is not an agent token, so it cannot create breakpoints."
        todo = "Create one with assent token create --kind agent --name NAME."
        yield problem("token-kind", access.place, what, todo)


def unreadable(document: Document) -> Finding:
    what = f"This file cannot be read ({document.trouble}), so its gates are not active."
    return problem("unreadable", Place(document.path), what, "Fix the file: it must contain one JSON object.")
