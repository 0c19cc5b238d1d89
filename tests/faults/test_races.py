"""Exactly one decision counts and nothing gets stuck, no matter how many people decide concurrently on two nodes."""

import random
import sys

import pytest

from assent.kernel.settings import Settings
from tests.faults.races import arena, counted_once, decided_once
from tests.support.lanes import scaled

BREAKPOINTS = scaled(2_000, __name__)
COUNTED = scaled(400, __name__)


@pytest.mark.timeout(600)
async def test_exactly_one_of_two_deciders_an_expirer_and_a_canceller_succeeds(
    postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with arena(postgres_settings, seed=random.randrange(2**32)) as players:
        tally = await decided_once(players, postgres_settings, BREAKPOINTS)
    with capsys.disabled():
        sys.stdout.write(f"\nraces: {tally.told()}\n")
    assert tally.wrong == []
    assert tally.races >= BREAKPOINTS
    assert set(tally.winners) > {"ann", "bob", "admin", "agent"}, "each actor, and the deadline, must win at least once"


@pytest.mark.timeout(600)
async def test_simultaneous_votes_settle_every_breakpoint_once(
    postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    async with arena(postgres_settings, seed=random.randrange(2**32)) as players:
        tally = await counted_once(players, postgres_settings, COUNTED)
    with capsys.disabled():
        sys.stdout.write(f"\nvotes: {tally.told()}\n")
    assert tally.wrong == []
    assert tally.races >= COUNTED
