"""Seats: who can answer for which expert, compared with a brute-force search."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from assent.core.seats import OWNER, Directory, Seat, answerable, eligible, in_place_of, seating, seats_for

PEOPLE = ("ann", "bob", "cid", "dee")
GROUPS = ("ops", "legal")
GHOSTS = ("ghost", "tpyo")


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    people = frozenset(draw(st.lists(st.sampled_from(PEOPLE), unique=True)))
    names = draw(st.lists(st.sampled_from(GROUPS), unique=True))
    groups = {name: frozenset(draw(st.lists(st.sampled_from(PEOPLE), unique=True))) for name in names}
    return Directory(people, groups, draw(st.sampled_from([None, *PEOPLE])))


experts_named = st.lists(st.sampled_from([*PEOPLE, *GROUPS, *GHOSTS, OWNER]), min_size=1, max_size=5)
options_of_seats = st.lists(st.frozensets(st.sampled_from(PEOPLE)), max_size=4)


def can_be_seated(people: list[str], options: list[frozenset[str]]) -> bool:
    """Try every assignment of people to different seats."""
    return any(
        all(person in options[index] for person, index in zip(people, chosen, strict=True))
        for chosen in permutations(range(len(options)), len(people))
    )


def can_be_answered(options: list[frozenset[str]]) -> bool:
    """Try every assignment of seats to different people."""
    return any(
        all(person in allowed for person, allowed in zip(chosen, options, strict=True))
        for chosen in permutations(PEOPLE, len(options))
    )


@given(st.lists(st.sampled_from(PEOPLE), unique=True), options_of_seats)
def test_everyone_gets_a_seat_if_and_only_if_an_assignment_exists(
    people: list[str], options: list[frozenset[str]]
) -> None:
    places = seating(people, options)
    assert (places is not None) == can_be_seated(people, options)
    if places is not None:
        assert set(places) == set(people)
        assert len(set(places.values())) == len(people), "a seat holds only one person"
        assert all(person in options[index] for person, index in places.items())


@given(st.permutations(PEOPLE), options_of_seats)
def test_the_order_of_answers_does_not_affect_seat_availability(
    order: list[str], options: list[frozenset[str]]
) -> None:
    assert (seating(order, options) is None) == (seating(sorted(order), options) is None)


@given(options_of_seats)
def test_the_answerable_check_agrees_with_a_brute_force_search(options: list[frozenset[str]]) -> None:
    assert answerable(options) == can_be_answered(options)


@given(directories(), experts_named)
def test_every_expert_has_exactly_one_seat_and_missing_experts_share_one(
    directory: Directory, experts: list[str]
) -> None:
    seats, missing = seats_for(experts, directory)
    assert set(missing) == {name for name in experts if not directory.carriers(name)}
    named = [name for seat in seats for name in seat.names]
    wanted = set(experts) | ({OWNER} if missing else set())
    assert set(named) <= wanted
    assert set(experts) - {OWNER} <= set(named)
    assert len([name for name in named if name != OWNER]) == len(set(experts) - {OWNER})
    assert sum(bool(set(seat.names) & set(missing)) for seat in seats) <= 1
    assert len(seats) <= len(set(experts))


@given(directories(), experts_named)
def test_the_owner_can_take_the_seat_of_missing_experts(directory: Directory, experts: list[str]) -> None:
    seats, missing = seats_for(experts, directory)
    if not missing or not directory.carriers(OWNER):
        return
    assert directory.owner is not None
    standing_in = [seat for seat in seats if set(seat.names) & set(missing)]
    assert [directory.owner in eligible(seat, directory) for seat in standing_in] == [True]
    assert set(in_place_of(standing_in[0], directory.owner, directory)) == set(missing) - {OWNER}


@given(directories(), experts_named)
def test_only_experts_and_the_owner_get_seats(directory: Directory, experts: list[str]) -> None:
    seats, missing = seats_for(experts, directory)
    for seat in seats:
        may = frozenset[str]().union(*(directory.carriers(name) for name in seat.names))
        allowed = frozenset[str]().union(*(directory.carriers(name) for name in experts))
        if missing:
            allowed |= directory.carriers(OWNER)
        assert may <= allowed
        assert eligible(seat, directory) == may


@given(directories(), experts_named)
def test_an_unknown_name_never_makes_a_breakpoint_unanswerable(directory: Directory, experts: list[str]) -> None:
    carried = [name for name in dict.fromkeys(experts) if directory.carriers(name)]
    if not answerable([directory.carriers(name) for name in carried]):
        return
    seats, _ = seats_for(experts, directory)
    assert answerable([options for seat in seats if (options := eligible(seat, directory))])


@given(directories(), st.permutations([*PEOPLE[:2], *GROUPS[:1], *GHOSTS]))
def test_the_order_of_experts_does_not_change_who_can_answer(directory: Directory, experts: list[str]) -> None:
    def voices(names: list[str]) -> tuple[int, frozenset[str]]:
        seats, _ = seats_for(names, directory)
        return len(seats), frozenset[str]().union(*(eligible(seat, directory) for seat in seats))

    assert voices(experts) == voices(sorted(experts))


def test_a_former_member_of_the_project_cannot_answer() -> None:
    directory = Directory(frozenset({"bob"}), {"ops": frozenset({"ann", "bob"})}, "ann")
    assert directory.carriers("ann") == frozenset()
    assert directory.carriers("ops") == {"bob"}
    assert directory.carriers(OWNER) == frozenset()


def test_an_expert_who_is_listed_twice_has_one_seat() -> None:
    directory = Directory(frozenset({"ann"}), {}, "ann")
    assert seats_for(["ann", "ann"], directory) == ((Seat("ann"),), ())


def test_an_owner_who_is_an_expert_answers_for_missing_experts_in_the_same_seat() -> None:
    directory = Directory(frozenset({"ann"}), {}, "ann")
    assert seats_for(["ann", "ghost"], directory) == ((Seat("ann", ("ghost",)),), ("ghost",))


def test_an_owner_who_is_not_an_expert_gets_an_added_seat() -> None:
    directory = Directory(frozenset({"ann", "bob"}), {}, "ann")
    seats, missing = seats_for(["bob", "ghost", "tpyo"], directory)
    assert [seat.names for seat in seats] == [("bob",), (OWNER, "ghost", "tpyo")]
    assert missing == ("ghost", "tpyo")
