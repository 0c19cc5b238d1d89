"""Reads and validates a source's settings. Errors point to the invalid setting."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.canonical import Json, is_array, is_object, pointer_step
from assent.core.durations import seconds
from assent.core.errors import InvalidRequest, Unavailable
from assent.kernel.settings import is_reference
from assent.triggers import templates
from assent.triggers.event import EVENT_ATTRIBUTES, Trust
from assent.triggers.sources.tools import SourceTools

COMMON = frozenset({"trust", "expect_every", "max_bytes", "per_minute", "dedup"})
"""Settings shared by all sources. `expect_every` is the time without events after which an alarm is raised."""
MAX_BYTES, MOST_BYTES = 1024 * 1024, 25 * 1024 * 1024
PER_MINUTE, MOST_PER_MINUTE = 60_000, 10_000_000
MOST_SECRETS = 10
LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Secrets:
    """A sender's signing secrets (several during rotation). They are read each time they are used."""

    references: tuple[str, ...]
    tools: SourceTools

    def values(self) -> list[str]:
        """Return the secrets that are readable and not empty, or raise Unavailable if there are none."""
        found: list[str] = []
        why = "all of them are empty"
        for each in self.references:
            try:
                value = self.tools.resolve(each).strip()
            except ValueError as error:
                why = str(error)
                continue
            if value:
                found.append(value)
        if not found:
            msg = f"Cannot read any of this source's secrets: {why}."
            raise Unavailable(msg)
        return found


class Fields:
    def __init__(self, settings: Mapping[str, Any], tools: SourceTools, *, known: frozenset[str]) -> None:
        self._settings = settings
        self.tools = tools
        # Reject unknown settings, because a misspelled one would otherwise have no effect.
        every = known | COMMON
        for name in settings:
            if name not in every:
                raise InvalidRequest.at(f"/settings/{pointer_step(name)}", f"is not one of {', '.join(sorted(every))}")
        self.max_bytes = self.number("max_bytes", MAX_BYTES, least=1, most=MOST_BYTES)
        self.per_minute = self.number("per_minute", PER_MINUTE, least=1, most=MOST_PER_MINUTE)
        self.trust = Trust(self.one_of("trust", *Trust))
        self.dedup = self.template("dedup")
        self._expected()

    def text(self, name: str) -> str | None:
        value: object = self._settings.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST or not value.isprintable():
            raise InvalidRequest.at(f"/settings/{name}", f"must be a string of 1 to {LONGEST} characters on one line")
        return value.strip()

    def one_of(self, name: str, *choices: str) -> str:
        """Return the selected choice. The first choice is the default."""
        found = self.text(name) or choices[0]
        if found not in choices:
            raise InvalidRequest.at(f"/settings/{name}", f"must be one of {', '.join(choices)}")
        return found

    def number(self, name: str, default: int, *, least: int, most: int) -> int:
        value = self._settings.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidRequest.at(f"/settings/{name}", f"must be a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        value = self._settings.get(name, False)
        if not isinstance(value, bool):
            raise InvalidRequest.at(f"/settings/{name}", "must be true or false")
        return value

    def length(self, name: str, default: str) -> float:
        """Return a duration in seconds."""
        try:
            return seconds(self.text(name) or default)
        except ValueError as error:
            raise InvalidRequest.at(f"/settings/{name}", str(error)) from error

    def template(self, name: str) -> str | None:
        found = self.text(name)
        templates.check(found, EVENT_ATTRIBUTES, f"/settings/{name}")
        return found

    def mapping(self, name: str) -> dict[str, Json]:
        value: object = self._settings.get(name, {})
        if not is_object(value):
            raise InvalidRequest.at(f"/settings/{name}", "must be a mapping")
        return dict(value)

    def secrets(self, name: str = "secrets") -> Secrets:
        """Return the secrets, or raise InvalidRequest if the setting is missing or a secret is unreadable."""
        found = self.optional_secrets(name)
        if found is None:
            msg = "is required: without a secret, events cannot be verified"
            raise InvalidRequest.at(f"/settings/{name}", msg)
        return found

    def optional_secrets(self, name: str) -> Secrets | None:
        value: object = self._settings.get(name, [])
        given = [value] if isinstance(value, str) else value
        if not is_array(given) or len(given) > MOST_SECRETS:
            raise InvalidRequest.at(f"/settings/{name}", f"must be a list of at most {MOST_SECRETS} references")
        for place, each in enumerate(given):
            self._readable(f"/settings/{name}/{place}", each)
        return Secrets(tuple(given), self.tools) if given else None

    def _readable(self, pointer: str, reference: object) -> None:
        if not isinstance(reference, str) or not is_reference(reference):
            raise InvalidRequest.at(pointer, "must be a reference, env:NAME or file:PATH, not the secret itself")
        try:
            found = self.tools.resolve(reference)
        except ValueError as error:
            raise InvalidRequest.at(pointer, str(error)) from error
        if not found.strip():
            raise InvalidRequest.at(pointer, f"{reference} is empty")

    def _expected(self) -> None:
        if "expect_every" in self._settings and not self.length("expect_every", ""):
            raise InvalidRequest.at("/settings/expect_every", "must be a duration such as 30m, 2h or 1d")
