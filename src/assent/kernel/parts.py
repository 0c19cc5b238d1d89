"""A registry of a node's parts by class, so that features can find each other without a central list."""

from typing import TypeVar

PartT = TypeVar("PartT")


class Parts:
    def __init__(self) -> None:
        self._parts: dict[type, object] = {}

    def add(self, part: PartT) -> PartT:
        """Add a part, which other features look up by its class, and return it."""
        self._parts[type(part)] = part
        return part

    def find(self, kind: type[PartT]) -> PartT | None:
        """Return a part, or None if this node does not have it."""
        found = self._parts.get(kind)
        return found if isinstance(found, kind) else None

    def __getitem__(self, kind: type[PartT]) -> PartT:
        found = self.find(kind)
        if found is None:
            raise LookupError(kind)
        return found
