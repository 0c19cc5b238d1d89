"""Reads assent.yaml: the parts that it configures, their line numbers, and their problems."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from assent.core.canonical import Json, is_array, is_object, pointer_key
from assent.core.errors import AssentError, InvalidRequest
from assent.kernel.yaml_file import LARGEST, Place, Unreadable
from assent.kernel.yaml_file import read as read_yaml

NAME = "assent.yaml"
PARTS = ("channels", "routes", "sources", "triggers")
"""Parts that can be changed while a node is running; all other settings take effect at the next start."""
Built = TypeVar("Built")


class Misplaced(InvalidRequest):
    """An invalid value in assent.yaml; the message contains its position."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    name: str
    value: Mapping[str, Json]
    places: Mapping[str, Place]

    def place(self, pointer: str) -> Place | None:
        """Return the position of a value, or of the nearest enclosing value in the file."""
        while pointer and pointer not in self.places:
            pointer = pointer.rpartition("/")[0]
        return self.places.get(pointer)


@dataclass(frozen=True, slots=True)
class Problem:
    pointer: str
    text: str
    place: Place | None = None
    file: str | None = None

    def __str__(self) -> str:
        where = f"{self.file} line {self.place.line}: " if self.place and self.file else ""
        what = shown(self.pointer)
        return f"{where}{what}: {self.text}" if what else f"{where}{self.text}"


@dataclass(frozen=True, slots=True)
class Given:
    """The configuration of a node, and the file that contains the parts in `in_file`; other parts are not from it."""

    parts: Mapping[str, Any]
    file: ConfigFile | None = None
    in_file: frozenset[str] = frozenset()

    def place(self, pointer: str) -> Place | None:
        part = pointer.split("/")[1] if pointer else ""
        return self.file.place(pointer) if self.file is not None and part in self.in_file else None


@dataclass(slots=True)
class Problems:
    """Collects problems, so that all of them are reported at once."""

    given: Given
    found: list[Problem] = field(default_factory=list[Problem])

    def add(self, pointer: str, text: str) -> None:
        self.found.append(self._problem(pointer, text))

    def told(self) -> list[str]:
        """Return all problems as sentences, in the order of the file."""
        return [str(each) for each in sorted(self.found, key=lambda each: each.place.line if each.place else 0)]

    def misplaced(self, pointer: str, text: str) -> Misplaced:
        return Misplaced(str(self._problem(pointer, text)))

    def listed(self, part: str) -> Sequence[Json]:
        value: Json = self.given.parts.get(part)
        if value is None:
            return ()
        if not is_array(value):
            self.add(f"/{part}", "must be a list")
            return ()
        return value

    def named(self, part: str) -> Mapping[str, Json]:
        value: Json = self.given.parts.get(part)
        if value is None:
            return {}
        if not is_object(value):
            self.add(f"/{part}", "must map names to values")
            return {}
        return value

    def made(self, pointer: str, build: Callable[[str, Mapping[str, Json]], Built], given: Json) -> Iterator[Built]:
        """Yield the built value, or record a problem and yield nothing."""
        if not is_object(given):
            self.add(pointer, "must be a mapping")
            return
        try:
            yield build(pointer, given)
        except AssentError as error:
            self.add(*in_place(pointer, error))

    def _problem(self, pointer: str, text: str) -> Problem:
        place = self.given.place(pointer)
        return Problem(pointer, text, place, self.given.file.name if place and self.given.file else None)


def read_file(path: Path, name: str = NAME) -> ConfigFile | None:
    """Read the file; return None if it does not exist. Raises Unreadable, or OSError if it cannot be opened."""
    try:
        with path.open("rb") as file:
            document = read_yaml(file.read(LARGEST + 1))
    except FileNotFoundError:
        return None
    if not is_object(document.value):
        msg = "must be a mapping of settings"
        raise Unreadable(msg)
    return ConfigFile(name, document.value, document.places)


def unreadable(name: str, error: Exception) -> Problem:
    """Return the problem that explains why a file cannot be read."""
    if isinstance(error, Unreadable):
        return Problem("", error.text if error.place else f"{name} {error.text}", error.place, name)
    said = error.strerror if isinstance(error, OSError) else None
    return Problem("", f"{name} cannot be read: {said or error}")


def in_place(pointer: str, error: AssentError) -> tuple[str, str]:
    """Return the pointer within the file, and what is wrong there."""
    errors: object = error.details.get("errors")
    if is_array(errors) and errors and is_object(errors[0]):
        first = cast("Mapping[str, str]", errors[0])
        inside = first["pointer"]
        return pointer if inside == "/" else f"{pointer}{inside}", first["detail"]
    return pointer, error.message


def shown(pointer: str) -> str:
    """Return a pointer in a readable form: triggers[0]/on."""
    _, _, rest = pointer.partition("/")
    part, slash, inside = rest.partition("/")
    number, more, deeper = inside.partition("/")
    # Sources are a mapping, so a number is a name there.
    read = f"{part}[{number}]{more}{deeper}" if number.isdigit() and part != "sources" else f"{part}{slash}{inside}"
    return pointer_key(read)
