"""Seats: the one that was added for experts nobody carries."""

from assent.domain.routing import Directory, Seat, seats_for

DIRECTORY = Directory(frozenset({"ann", "bob"}), {"ops": frozenset({"bob"})}, "ann")


def test_a_seat_that_was_asked_for_is_not_an_added_one() -> None:
    seats, missing = seats_for(["owner", "ops"], DIRECTORY)
    assert (seats, missing) == ((Seat("owner", (), added=False), Seat("ops", (), added=False)), ())


def test_the_seat_of_the_owner_in_place_of_others_is_marked_as_added() -> None:
    seats, missing = seats_for(["ops", "ghost"], DIRECTORY)
    assert seats == (Seat("ops"), Seat("owner", ("ghost",), added=True))
    assert [seat.added for seat in seats] == [False, True]
    assert missing == ("ghost",)


def test_nobody_carries_the_owner_where_the_owner_has_left() -> None:
    gone = Directory(frozenset({"bob"}), {}, "ann")
    assert gone.carriers("owner") == frozenset()
    assert DIRECTORY.carriers("owner") == frozenset({"ann"})
