"""Reads fields of untrusted payloads. Invalid or missing values are omitted, and no function raises an error."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from assent.core.canonical import Json, is_array, is_object
from assent.core.timestamps import SECOND, from_iso
from assent.runs.model import MARK
from assent.triggers.event import VIEW

LONGEST = 4_000
"""Maximum length of a string in the view, in characters."""
MOST = 1_000
"""Maximum number of items in a list in the view."""
LONGEST_SUBJECT = 500
LONGEST_TYPE = 200
MOST_MARKS = 20
CI_COMPLETED = "ci.completed"
_NO_COMMIT = re.compile(r"0{7,64}")
_UNUSUAL = re.compile(r"[^a-z0-9.]+")
_RUN = re.compile(re.escape(MARK) + r"\s{0,3}(run_[0-9a-z]{1,60})", re.ASCII)
_LAST_MOMENT = 253_402_300_799
_IN_MILLISECONDS = 100_000_000_000
_MOST_SAFE = 2**53 - 1
_ENDINGS = frozenset(
    {
        "success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required", "stale",
        "startup_failure", "unstable", "not_built", "unauthorized", "warning",
    }
)  # fmt: skip
"""The possible results of a build. A build in any other state (queued, running, in_progress) has not ended."""
_CONCLUSIONS = {
    "successful": "success",
    "passed": "success",
    "failed": "failure",
    "error": "failure",
    "canceled": "cancelled",
    "aborted": "cancelled",
    "stopped": "cancelled",
    "timedout": "timed_out",
    "timeout": "timed_out",
    "expired": "timed_out",
    "not_run": "skipped",
    "infrastructure_fail": "failure",
}
"""Maps other providers' results to GitHub's names."""


@dataclass(frozen=True, slots=True)
class Told:
    """A provider's event with common field names."""

    type: str
    view: Mapping[str, Json] = field(default_factory=dict[str, Json])
    subject: str | None = None
    occurred_at: int | None = None
    id: str | None = None
    """The ID of the event, if the body contains one."""
    said: tuple[str, ...] | None = None
    """The event's new text, which is searched for run marks. None means that the whole body is searched."""


def at(value: Json, *path: str | int) -> Json:
    for step in path:
        if isinstance(step, int):
            value = value[step] if is_array(value) and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if is_object(value) else None
    return value


def text(value: Json, *path: str | int) -> str | None:
    """Return a non-empty string, or an integer as a string."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return str(found).strip()[:LONGEST] or None


def number(value: Json, *path: str | int) -> int | None:
    found = at(value, *path)
    good = isinstance(found, int) and not isinstance(found, bool) and abs(found) <= _MOST_SAFE
    return found if good else None


def items(value: Json, *path: str | int) -> list[Json]:
    found = at(value, *path)
    return list(found[:MOST]) if is_array(found) else []


def texts(values: Iterable[Json]) -> list[str]:
    """Return the distinct strings, up to the maximum number for a list."""
    found: dict[str, None] = {}
    for each in values:
        spelt = text(each)
        if spelt is not None:
            found[spelt] = None
        if len(found) >= MOST:
            break
    return list(found)


def named(value: Json, name: str, *path: str | int) -> list[str]:
    """Return the field `name` of each object in a list."""
    return texts(at(each, name) for each in items(value, *path))


def said(value: Json, *path: str | int) -> str:
    """Return a string without truncating it, because a run's mark is usually at the end."""
    found = at(value, *path)
    return found if isinstance(found, str) else "" if found is None else msgspec.json.encode(found).decode()


def messages(value: Json, *path: str | int) -> tuple[str, ...]:
    """Return the commit messages."""
    return tuple(said(each, "message") for each in items(value, *path))


def marks(*written: str) -> tuple[str, ...]:
    """Return the distinct runs whose marks the texts contain, or only the first and last runs if there are too many."""
    found = list(dict.fromkeys(run for each in written for run in _RUN.findall(each)))
    half = MOST_MARKS // 2
    return tuple(found if len(found) <= MOST_MARKS else [*found[:half], *found[-half:]])


def first_line(value: Json, *path: str | int) -> str | None:
    found = text(value, *path)
    return found.splitlines()[0] if found else None


def moment(value: Json, *path: str | int) -> int | None:
    """Return a time in microseconds: RFC 3339, or seconds or milliseconds since 1970."""
    found = at(value, *path)
    if isinstance(found, str):
        try:
            read = from_iso(found.replace(" UTC", "Z").strip())
        except (ValueError, OverflowError):
            return None
        return read if 0 <= read <= _LAST_MOMENT * SECOND else None
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _LAST_MOMENT * 1000:
        return None
    # In seconds, larger numbers would be thousands of years in the future, so they must be milliseconds.
    return int(found * 1000) if found > _IN_MILLISECONDS else int(found * SECOND)


def branch_of(ref: str | None) -> str | None:
    """Return the branch that a ref refers to, or None for a tag."""
    if ref is None or not ref.startswith("refs/"):
        return ref
    return ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else None


def commit(value: Json, *path: str | int) -> str | None:
    """Return a commit hash, or None if it is missing or consists of zeros."""
    found = text(value, *path)
    return None if found is None or _NO_COMMIT.fullmatch(found) else found


def conclusion(value: Json, *path: str | int) -> str | None:
    """Return a build's result, using GitHub's name for it, or None if the build has not ended."""
    found = (text(value, *path) or "").lower()
    ended = _CONCLUSIONS.get(found, found)
    return ended if ended in _ENDINGS else None


def changed_paths(commits: Iterable[Json]) -> list[str]:
    return texts(path for each in commits for name in ("added", "modified", "removed") for path in items(each, name))


def word(value: Json) -> str:
    """Return part of an event type in lowercase, with all characters except letters, digits and dots replaced by
    hyphens.
    """
    return _UNUSUAL.sub("-", (text(value) or "").lower()).strip("-.")[:100]


def named_type(*parts: Json) -> str:
    """Join the non-empty parts of an event type."""
    return ".".join(found for found in map(word, parts) if found)[:LONGEST_TYPE]


def view(**names: Json) -> dict[str, Json]:
    """Return the known fields that are not empty."""
    return {name: names[name] for name in VIEW if name in names and names[name] not in (None, "", [])}


def path_of(url: str | None) -> str | None:
    """Return `owner/name` from a repository URL in https, ssh or scp-like form."""
    if url is None:
        return None
    rest = re.sub(r"^[a-z+]+://[^/]+/|^[^/@]+@[^:/]+:", "", url.strip(), flags=re.IGNORECASE)
    return rest.strip("/").removesuffix(".git") or None


def place(repo: str | None, *parts: str | None) -> str | None:
    """Return the subject of an event: the repository and the first non-empty part."""
    detail = next((each for each in parts if each), "")
    found = f"{repo or ''}{detail}"
    return found[:LONGEST_SUBJECT] or None


def after(mark: str, value: str | int | None) -> str | None:
    return None if value is None else f"{mark}{value}"
