"""Strategies: registered functions that determine how responses become a decision.

A strategy receives each person's current vote, in order of arrival, and the number of seats (experts). It returns the
decision, or None if the outcome is still open.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Decision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Vote:
    person: str
    approved: bool
    after_reset_by: str | None = None
    """Admins who could have given this answer, because they reset the person's access, which is still unconfirmed."""


Strategy: TypeAlias = Callable[[Sequence[Vote], int], Decision | None]

STRATEGIES: dict[str, Strategy] = {}
NEEDS_EXPERTS: frozenset[str] = frozenset({"collect-all", "quorum"})


def strategy(name: str) -> Callable[[Strategy], Strategy]:
    """Register a strategy under the name that agents use."""

    def register(function: Strategy) -> Strategy:
        STRATEGIES[name] = function
        return function

    return register


def verdict(name: str, votes: Sequence[Vote], seats: int) -> Decision | None:
    """Apply a strategy to each person's latest answer. People whose access was reset share a vote with the admin."""
    # A changed vote keeps the position of the person's first vote.
    latest = {vote.person: vote for vote in votes}
    return STRATEGIES[name](_voices(latest), seats)


def _voices(latest: Mapping[str, Vote]) -> tuple[Vote, ...]:
    """Merge the votes of each admin and the people whose access the admin reset. One rejection counts for all."""
    voices: dict[str, set[str]] = {}
    for vote in latest.values():
        together = {vote.person, *resetters(vote.after_reset_by)}
        for name in tuple(together):
            together |= voices.get(name, set())
        voices |= dict.fromkeys(together, together)
    merged: dict[str, Vote] = {}
    for vote in latest.values():
        voice = min(voices[vote.person])
        earlier = merged.get(voice)
        merged[voice] = vote if earlier is None or (earlier.approved and not vote.approved) else earlier
    return tuple(merged.values())


def resetters(names: str | None) -> tuple[str, ...]:
    """Return the admins in `after_reset_by`, which lists one or more: `ann, bob`."""
    return tuple(names.split(", ")) if names else ()


@strategy("single")
@strategy("first-response-wins")
def first_response(votes: Sequence[Vote], seats: int) -> Decision | None:
    del seats
    return _outcome(approved=votes[0].approved) if votes else None


@strategy("collect-all")
def collect_all(votes: Sequence[Vote], seats: int) -> Decision | None:
    # all() of an empty list is true, but there must not be a decision without votes.
    if len(votes) < seats or not votes:
        return None
    return _outcome(approved=all(vote.approved for vote in votes))


@strategy("quorum")
def quorum(votes: Sequence[Vote], seats: int) -> Decision | None:
    """Decide as soon as the outcome cannot change; a tie is a rejection."""
    majority = seats // 2 + 1
    approvals = sum(vote.approved for vote in votes)
    if approvals >= majority:
        return Decision.APPROVED
    still_open = max(seats - len(votes), 0)
    if approvals + still_open < majority:
        return Decision.REJECTED
    return None


def _outcome(*, approved: bool) -> Decision:
    return Decision.APPROVED if approved else Decision.REJECTED
