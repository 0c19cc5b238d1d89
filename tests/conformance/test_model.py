"""The same commands produce the same outcomes and state in the model, SQLite and PostgreSQL."""

import os
import random
import sys
from typing import Any

import pytest

from assent.kernel.settings import Settings
from tests.conformance.model import World, distinct
from tests.conformance.walk import Diverged, Walk, walk
from tests.support.lanes import scaled

STEPS = max(8_000, scaled(20_000, __name__))
RULES = {"rule:#", "rule:autoApproveAfterN"}


def enders(run: Walk) -> set[str]:
    """Return the actors that ended breakpoints, with `#` instead of rule numbers."""
    return {bp["ended_by"].rstrip("0123456789") for bp in run.world.breakpoints if bp["ended_by"]}


def complete(run: Walk) -> bool:
    """Return whether the walk has enough steps and enough rare outcomes, or five times as many steps."""
    return run.steps >= STEPS and (enders(run) >= RULES or run.steps >= 5 * STEPS)


@pytest.mark.timeout(1200)
async def test_the_model_and_both_databases_always_agree(
    sqlite_settings: Settings, postgres_settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("ASSENT_TEST_SEED") or random.randrange(2**32))
    run = await walk([sqlite_settings, postgres_settings], seed=seed, enough=complete)
    with capsys.disabled():
        sys.stdout.write(f"\n{run.told()}\n")
    assert run.steps >= STEPS
    assert {bp["status"] for bp in run.world.breakpoints} == {"waiting", "released", "expired", "cancelled"}
    assert enders(run) >= RULES


async def test_a_model_that_accepts_late_answers_is_detected(
    sqlite_settings: Settings, postgres_settings: Settings
) -> None:
    """An error in the model or a database is detected within a few thousand steps."""

    class Lenient(World):
        def late(self, bp: dict[str, object]) -> str | None:
            del bp
            return None

    with pytest.raises(Diverged):
        await walk([sqlite_settings, postgres_settings], seed=1, enough=lambda run: run.steps >= STEPS, world=Lenient)


async def test_a_model_that_treats_unknown_as_true_is_detected(
    sqlite_settings: Settings, postgres_settings: Settings
) -> None:
    class Hopeful(World):
        def holds(self, rule: dict[str, Any], spec: dict[str, Any]) -> bool | None:
            held = super().holds(rule, spec)
            return rule["action"] == "auto-approve" if held is None else held

    with pytest.raises(Diverged, match="auto"):
        await walk([sqlite_settings, postgres_settings], seed=1, enough=lambda run: run.steps >= STEPS, world=Hopeful)


def test_the_model_finds_distinct_people_correctly() -> None:
    assert distinct([{"a"}, {"a", "b"}])
    assert not distinct([{"a"}, {"a"}])
    assert distinct([])
