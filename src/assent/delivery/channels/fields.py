"""Reads and validates a channel's settings; errors point to the invalid setting."""

from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from assent.core.canonical import is_array, pointer_step
from assent.core.errors import InvalidRequest
from assent.delivery.channels.tools import Tools
from assent.kernel.outbound import Transient
from assent.kernel.settings import is_reference

LONGEST = 2_000
MOST = 100


class Fields:
    def __init__(self, settings: Mapping[str, Any], tools: Tools, *, known: frozenset[str]) -> None:
        self._settings = settings
        self._tools = tools
        for name in settings:
            if name not in known:
                raise InvalidRequest.at(f"/settings/{pointer_step(name)}", f"is not one of {', '.join(sorted(known))}")

    def text(self, name: str) -> str:
        found = self.optional(name)
        if found is None:
            raise InvalidRequest.at(f"/settings/{name}", "is required")
        return found

    def optional(self, name: str) -> str | None:
        value = self._settings.get(name)
        return None if value is None else _text(f"/settings/{name}", value)

    def one_of(self, name: str, *choices: str) -> str:
        """Return one of the choices; the first is the default."""
        found = self.optional(name) or choices[0]
        if found not in choices:
            raise InvalidRequest.at(f"/settings/{name}", f"must be one of {', '.join(choices)}")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        value: object = self._settings.get(name, [])
        if not is_array(value) or len(value) > MOST:
            raise InvalidRequest.at(f"/settings/{name}", f"must be a list of at most {MOST} strings")
        return tuple(_text(f"/settings/{name}/{place}", each) for place, each in enumerate(value))

    def number(self, name: str, default: int, *, most: int) -> int:
        value = self._settings.get(name, default)
        # In Python, True and False are integers.
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            raise InvalidRequest.at(f"/settings/{name}", f"must be a whole number from 0 to {most}")
        return value

    def zone(self, name: str) -> str | None:
        found = self.optional(name)
        try:
            return found and ZoneInfo(found).key
        except (OSError, ValueError, KeyError) as error:
            msg = "must be a time zone such as Europe/Berlin or UTC"
            raise InvalidRequest.at(f"/settings/{name}", msg) from error

    def flag(self, name: str) -> bool:
        value = self._settings.get(name, False)
        if not isinstance(value, bool):
            raise InvalidRequest.at(f"/settings/{name}", "must be true or false")
        return value

    def secret(self, name: str) -> "Hidden | None":
        found = self.optional(name)
        return None if found is None else self._hidden(f"/settings/{name}", found)

    def secrets(self, name: str) -> tuple["Hidden", ...]:
        found = enumerate(self.texts(name))
        return tuple(self._hidden(f"/settings/{name}/{place}", each) for place, each in found)

    def _hidden(self, pointer: str, reference: str) -> "Hidden":
        if not is_reference(reference):
            raise InvalidRequest.at(pointer, "must be a reference, env:NAME or file:PATH, not the secret itself")
        try:
            self._tools.resolve(reference)
        except ValueError as error:
            raise InvalidRequest.at(pointer, str(error)) from error
        return Hidden(reference, self._tools)


class Hidden:
    """A reference to a secret. The secret is read on every use, so that a new value takes effect immediately."""

    def __init__(self, reference: str, tools: Tools) -> None:
        self._reference = reference
        self._tools = tools

    def value(self) -> str:
        try:
            return self._tools.resolve(self._reference).strip()
        except ValueError as error:
            raise Transient(f"Cannot read one of this channel's secrets: {error}.", unsent=True) from error


def _text(pointer: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InvalidRequest.at(pointer, f"must be a string of 1 to {LONGEST} characters")
    if not value.isprintable():
        raise InvalidRequest.at(pointer, "must not contain line breaks or invisible characters")
    return value.strip()
