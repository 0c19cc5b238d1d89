"""Experts and their seats: who can answer for an expert, and whether enough different people are eligible."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Directory:
    """A snapshot of the names of a project's people and groups."""

    people: frozenset[str]
    groups: Mapping[str, frozenset[str]]
    owner: str | None

    def carriers(self, expert: str) -> frozenset[str]:
        """Return the people that an expert's name refers to, or an empty set if no person or group has this name."""
        if expert == OWNER:
            return frozenset({self.owner}) if self.owner in self.people else frozenset()
        if expert in self.groups:
            return self.groups[expert] & self.people
        return frozenset({expert}) & self.people


@dataclass(frozen=True, slots=True)
class Seat:
    """A seat for an expert's answer. Experts that did not exist at creation share a seat that the owner can take."""

    name: str
    stands_in_for: tuple[str, ...] = ()
    added: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.stands_in_for)


@dataclass(frozen=True, slots=True)
class Deputy:
    """A person who can answer in addition to the experts, because of an escalation or an expert's absence."""

    name: str
    stands_in_for: str | None = None
    """The absent person, or None for an escalation, which makes the deputy eligible for every seat."""


def seats_for(experts: Sequence[str], directory: Directory) -> tuple[tuple[Seat, ...], tuple[str, ...]]:
    """Return the seats to fill, and any expert names that match no one."""
    names = tuple(dict.fromkeys(experts))
    missing = tuple(name for name in names if not directory.carriers(name))
    carried = tuple(Seat(name) for name in names if name not in missing)
    if not missing:
        return carried, ()
    absent = tuple(name for name in missing if name != OWNER)
    # Unknown experts share one seat, so that the owner does not count more than once.
    apart = (*carried, Seat(OWNER, absent, added=True))
    if answerable([eligible(seat, directory) for seat in apart]):
        return apart, missing
    # The owner can take only one seat. If another seat needs the owner, it also represents the missing experts.
    for index, seat in enumerate(carried):
        if directory.owner in eligible(seat, directory):
            return (*carried[:index], Seat(seat.name, absent), *carried[index + 1 :]), missing
    return apart, missing


def eligible(seat: Seat, directory: Directory, deputies: Sequence[Deputy] = ()) -> frozenset[str]:
    asked = frozenset[str]().union(*(directory.carriers(name) for name in seat.names))
    standing_in = {each.name for each in deputies if each.stands_in_for is None or each.stands_in_for in asked}
    return asked | (standing_in & directory.people)


def in_place_of(seat: Seat, person: str, directory: Directory, deputies: Sequence[Deputy] = ()) -> tuple[str, ...]:
    """Return the names of the absent experts that a person answers for in this seat."""
    if person not in eligible(seat, directory):
        away = [each.stands_in_for for each in deputies if each.name == person and each.stands_in_for is not None]
        return tuple(dict.fromkeys(away)) or (seat.name,)
    return tuple(name for name in seat.stands_in_for if person not in directory.carriers(name))


def seating(people: Iterable[str], options: Sequence[Collection[str]]) -> dict[str, int] | None:
    """Assign a different seat to each person, or return None if that is impossible.

    People are moved to other seats to make room (augmenting paths), so the order of answers does not matter.
    """
    taken: dict[int, str] = {}

    def place(person: str, tried: set[int]) -> bool:
        for index, allowed in enumerate(options):
            if index in tried or person not in allowed:
                continue
            tried.add(index)
            if index not in taken or place(taken[index], tried):
                taken[index] = person
                return True
        return False

    for person in people:
        if not place(person, set()):
            return None
    return {person: index for index, person in taken.items()}


def answerable(options: Sequence[Collection[str]]) -> bool:
    """Return whether each seat can be taken by a different person."""
    # The same search with the roles reversed: each seat is assigned a different person.
    indices = [str(index) for index in range(len(options))]
    people = sorted(frozenset[str]().union(*options)) if options else []
    return seating(indices, [[i for i in indices if person in options[int(i)]] for person in people]) is not None
