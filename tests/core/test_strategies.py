"""Properties that hold for every registered strategy."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.strategies import NEEDS_EXPERTS, STRATEGIES, Decision, Vote, verdict

PEOPLE = [f"person-{n}" for n in range(7)]
every_strategy = pytest.mark.parametrize("name", sorted(STRATEGIES))
counting = pytest.mark.parametrize("name", sorted(NEEDS_EXPERTS))


@st.composite
def ballots(draw: st.DrawFn, least: int = 0) -> tuple[list[Vote], int]:
    """Draw votes by different people, at most one for each seat."""
    seats = draw(st.integers(max(least, 1), len(PEOPLE)))
    people = draw(st.permutations(PEOPLE))[: draw(st.integers(least, seats))]
    return [Vote(person, draw(st.booleans())) for person in people], seats


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Vote], int]:
    """Draw votes in which people can vote again."""
    seats = draw(st.integers(1, len(PEOPLE)))
    speakers = st.sampled_from(PEOPLE[:seats])
    return draw(st.lists(st.builds(Vote, speakers, st.booleans()), max_size=12)), seats


def settled_at(name: str, votes: Sequence[Vote], seats: int) -> Decision | None:
    """Add the votes one by one and return the first decision."""
    for count in range(len(votes) + 1):
        decision = verdict(name, votes[:count], seats)
        if decision is not None:
            return decision
    return None


@every_strategy
@given(ballots())
def test_a_verdict_never_flips_as_responses_are_added(name: str, ballot: tuple[list[Vote], int]) -> None:
    votes, seats = ballot
    verdicts = [verdict(name, votes[:count], seats) for count in range(len(votes) + 1)]
    first = next((each for each in verdicts if each is not None), None)
    after = verdicts[verdicts.index(first) :] if first is not None else []
    assert set(after) <= {first}


@every_strategy
@given(ballots(), st.data())
def test_an_early_decision_matches_the_decision_after_all_votes(
    name: str, ballot: tuple[list[Vote], int], data: st.DataObject
) -> None:
    votes, seats = ballot
    missing = [person for person in PEOPLE if person not in {vote.person for vote in votes}][: seats - len(votes)]
    rest = [Vote(person, data.draw(st.booleans())) for person in missing]
    early = verdict(name, votes, seats)
    if early is not None:
        assert verdict(name, [*votes, *rest], seats) is early


@every_strategy
@given(conversations())
def test_later_votes_by_other_people_do_not_change_a_decision(name: str, conversation: tuple[list[Vote], int]) -> None:
    votes, seats = conversation
    for count in range(len(votes)):
        decision = verdict(name, votes[:count], seats)
        spoke = {vote.person for vote in votes[:count]}
        if decision is not None and votes[count].person not in spoke:
            assert verdict(name, votes[: count + 1], seats) is decision


@every_strategy
@given(ballots(least=1))
def test_a_decision_is_made_once_all_experts_have_answered(name: str, ballot: tuple[list[Vote], int]) -> None:
    votes, _ = ballot
    assert verdict(name, votes, len(votes)) is not None


@every_strategy
@given(st.integers(0, 7))
def test_no_decision_is_made_without_answers(name: str, seats: int) -> None:
    assert verdict(name, [], max(seats, 1)) is None


@counting
@given(ballots(), st.randoms(use_true_random=False))
def test_the_order_of_responses_does_not_matter(name: str, ballot: tuple[list[Vote], int], random: Random) -> None:
    votes, seats = ballot
    shuffled = list(votes)
    random.shuffle(shuffled)
    assert verdict(name, shuffled, seats) is verdict(name, votes, seats)


@every_strategy
@given(conversations())
def test_only_the_latest_vote_of_each_person_counts(name: str, conversation: tuple[list[Vote], int]) -> None:
    votes, seats = conversation
    order = list(dict.fromkeys(vote.person for vote in votes))
    last = {vote.person: vote for vote in votes}
    assert verdict(name, votes, seats) is verdict(name, [last[person] for person in order], seats)


@every_strategy
@given(conversations())
def test_votes_without_an_approval_never_approve(name: str, conversation: tuple[list[Vote], int]) -> None:
    votes, seats = conversation
    refusals = [Vote(vote.person, approved=False) for vote in votes]
    assert verdict(name, refusals, seats) is not Decision.APPROVED


@every_strategy
@given(ballots())
def test_withdrawing_an_approval_never_leads_to_an_approval(name: str, ballot: tuple[list[Vote], int]) -> None:
    votes, seats = ballot
    if verdict(name, votes, seats) is Decision.APPROVED:
        return
    for index, vote in enumerate(votes):
        if vote.approved:
            weaker = [*votes[:index], Vote(vote.person, approved=False), *votes[index + 1 :]]
            assert verdict(name, weaker, seats) is not Decision.APPROVED


ENOUGH: dict[str, Callable[[int, int], bool]] = {
    "collect-all": lambda approvals, seats: approvals == seats,
    "quorum": lambda approvals, seats: 2 * approvals > seats,
}


@counting
@given(conversations())
def test_an_approval_requires_enough_approving_votes(name: str, conversation: tuple[list[Vote], int]) -> None:
    votes, seats = conversation
    approvals = sum({vote.person: vote.approved for vote in votes}.values())
    if verdict(name, votes, seats) is Decision.APPROVED:
        assert ENOUGH[name](approvals, seats)


@counting
@given(ballots())
def test_unanimous_votes_by_the_experts_approve(name: str, ballot: tuple[list[Vote], int]) -> None:
    _, seats = ballot
    assert verdict(name, [Vote(person, approved=True) for person in PEOPLE[:seats]], seats) is Decision.APPROVED


@pytest.mark.parametrize("half", [1, 2, 3])
def test_a_tied_quorum_is_a_rejection(half: int) -> None:
    votes = [Vote(person, approved=n < half) for n, person in enumerate(PEOPLE[: 2 * half])]
    assert verdict("quorum", votes, 2 * half) is Decision.REJECTED


@given(ballots())
def test_a_quorum_decides_as_soon_as_its_outcome_cannot_change(ballot: tuple[list[Vote], int]) -> None:
    votes, seats = ballot
    missing = [person for person in PEOPLE if person not in {vote.person for vote in votes}][: seats - len(votes)]
    outcomes = set()
    for pattern in range(2 ** len(missing)):
        rest = [Vote(person, approved=bool(pattern >> n & 1)) for n, person in enumerate(missing)]
        approvals = sum(vote.approved for vote in [*votes, *rest])
        outcomes.add(Decision.APPROVED if 2 * approvals > seats else Decision.REJECTED)
    assert verdict("quorum", votes, seats) is (outcomes.pop() if len(outcomes) == 1 else None)


@given(ballots(least=1))
def test_collect_all_waits_for_every_expert(ballot: tuple[list[Vote], int]) -> None:
    votes, seats = ballot
    assert (verdict("collect-all", votes, seats) is None) == (len(votes) < seats)


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - NEEDS_EXPERTS))
@given(ballots(least=1))
def test_the_first_response_wins(name: str, ballot: tuple[list[Vote], int]) -> None:
    votes, seats = ballot
    assert settled_at(name, votes, seats) is (Decision.APPROVED if votes[0].approved else Decision.REJECTED)


@pytest.mark.parametrize(
    ("votes", "decision"),
    [
        ([Vote("ann", True), Vote("bob", True, "ann")], None),
        ([Vote("bob", True, "ann"), Vote("cem", True, "ann")], None),
        ([Vote("bob", True, "ann, cem"), Vote("cem", True)], None),
        ([Vote("bob", True, "ann"), Vote("ann", True, "bob")], None),
        ([Vote("bob", True, "ann"), Vote("cem", True)], Decision.APPROVED),
        ([Vote("ann", True), Vote("bob", True)], Decision.APPROVED),
        ([Vote("ann", True), Vote("bob", False, "ann"), Vote("cem", True)], Decision.REJECTED),
    ],
)
def test_an_admin_and_the_people_whose_access_they_reset_count_as_one_vote(
    votes: list[Vote], decision: Decision | None
) -> None:
    assert verdict("collect-all", votes, 2) is decision
    assert verdict("collect-all", votes[::-1], 2) is decision


def test_an_admin_and_the_people_whose_access_they_reset_cannot_form_a_quorum() -> None:
    together = [Vote("ann", True), Vote("bob", True, "ann"), Vote("cem", True, "ann")]
    assert verdict("quorum", together, 3) is None
    assert verdict("quorum", [*together, Vote("dan", True)], 3) is Decision.APPROVED
