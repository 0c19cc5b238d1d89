"""Edge cases of seats: the added seat for missing experts, and answers on behalf of others."""

import pytest

from assent.core.seats import Deputy, Directory, Seat, eligible, in_place_of, seats_for

DIRECTORY = Directory(frozenset({"ann", "bob"}), {"ops": frozenset({"bob"})}, "ann")


def test_a_requested_seat_is_not_marked_as_added() -> None:
    seats, missing = seats_for(["owner", "ops"], DIRECTORY)
    assert (seats, missing) == ((Seat("owner", (), added=False), Seat("ops", (), added=False)), ())


def test_the_owners_seat_for_missing_experts_is_marked_as_added() -> None:
    seats, missing = seats_for(["ops", "ghost"], DIRECTORY)
    assert seats == (Seat("ops"), Seat("owner", ("ghost",), added=True))
    assert [seat.added for seat in seats] == [False, True]
    assert missing == ("ghost",)


def test_an_owner_who_left_the_project_cannot_answer() -> None:
    gone = Directory(frozenset({"bob"}), {}, "ann")
    assert gone.carriers("owner") == frozenset()
    assert DIRECTORY.carriers("owner") == frozenset({"ann"})


MANY = Directory(frozenset({"ann", "bob", "cat", "dan"}), {"ops": frozenset({"bob"})}, "ann")
OPS = Seat("ops")


@pytest.mark.parametrize(
    ("deputies", "allowed"),
    [
        ([], {"bob"}),
        ([Deputy("cat")], {"bob", "cat"}),
        ([Deputy("cat", "bob")], {"bob", "cat"}),
        ([Deputy("cat", "dan")], {"bob"}),
        ([Deputy("cat", "dan"), Deputy("dan")], {"bob", "dan"}),
        ([Deputy("eve")], {"bob"}),
        ([Deputy("eve", "bob")], {"bob"}),
    ],
    ids=["nobody", "an escalation", "for who was asked", "for somebody else", "one of two", "left", "left, for bob"],
)
def test_a_deputy_can_answer_for_an_expert_or_after_an_escalation(deputies: list[Deputy], allowed: set[str]) -> None:
    assert eligible(OPS, MANY, deputies) == allowed


@pytest.mark.parametrize(
    ("person", "deputies", "whom"),
    [
        ("bob", [], ()),
        ("bob", [Deputy("bob", "cat")], ()),
        ("cat", [Deputy("cat", "bob")], ("bob",)),
        ("cat", [Deputy("cat", "bob"), Deputy("dan", "ann"), Deputy("cat", "bob")], ("bob",)),
        ("cat", [Deputy("cat", "bob"), Deputy("cat", "ann")], ("bob", "ann")),
        ("cat", [Deputy("cat")], ("ops",)),
        ("cat", [Deputy("cat"), Deputy("dan", "bob")], ("ops",)),
    ],
)
def test_an_answer_records_the_experts_on_whose_behalf_it_was_given(
    person: str, deputies: list[Deputy], whom: tuple[str, ...]
) -> None:
    assert in_place_of(OPS, person, MANY, deputies) == whom
