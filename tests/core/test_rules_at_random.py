"""Checks the properties of auto-approval on thousands of random rulebooks, faster than Hypothesis can."""

import os
import random
import sys
from dataclasses import replace
from typing import Any

import pytest

from assent.core.patterns.expressions import Subject
from assent.core.rulebook import Rule, Rulebook
from assent.core.rules import recommend
from tests.support.lanes import scaled

WORLDS = scaled(20_000, __name__)
ATTRIBUTES = ("agentId", "runId", "attempt", "risk", "payload")
PREDICATES = (
    "agentId = 'a'", "agentId != 'a'", "agentId in ('a', 'b')", "runId startswith 'a'", "runId matches '*b'",
    "attempt < 2", "attempt = 1", "risk = 'low'", "risk > 'low'", "payload.x = 1", "payload.x contains 'a'",
    "payload.x != null", "payload.y.z = true", "tags contains 'a'", "tags matches 'b*'", "expert = 'a'",
    "expert != 'b'",
)  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    "tags": ((), ("a",), ("b",), ("a", "b")),
    "expert": (None, "a", ("b",), ("a", "c")),
    "agentId": ("a", "b", "c", None),
    "runId": ("a", "ab", "c", None),
    "attempt": (0, 1, 2, None),
    "risk": ("low", "medium", None),
    "payload": ({"x": 1}, {"x": "a"}, {"x": ["a", 1]}, {"x": None}, {"y": {"z": True}}, {"y": {"z": False}}, {}),
}


def expression(chance: random.Random, depth: int = 2) -> str:
    kind = chance.random()
    if depth == 0 or kind < 0.3:
        return chance.choice(PREDICATES)
    if kind < 0.5:
        return f"NOT ({expression(chance, depth - 1)})"
    joint = chance.choice((" AND ", " OR "))
    return f"({joint.join(expression(chance, depth - 1) for _ in range(2))})"


def some_rules(chance: random.Random, pool: list[str], action: str | None = None) -> list[Rule]:
    return [
        Rule(
            id=f"rule-{chance.random()}",
            pattern=chance.choice(pool),
            action=action or chance.choice(("auto-approve", "auto-approve", "never-auto-approve")),
            order=chance.randrange(3),
        )
        for _ in range(chance.randint(1, 2))
    ]


class World:
    """A random rulebook with a breakpoint, and variations of both."""

    def __init__(self, chance: random.Random, pool: list[str], known: Rulebook) -> None:
        self.chance, self.pool, self.known = chance, pool, known
        self.rules = some_rules(chance, pool)
        self.values = {name: chance.choice(values) for name, values in VALUES.items()}

    def approved(self, rules: list[Rule] | None = None, *, break_on: tuple[str, ...] = (), **more: Any) -> bool:
        values = {**self.values, **more}
        book = Rulebook.of(self.rules if rules is None else rules, break_on, before=self.known)
        return recommend(
            book,
            Subject("gate.x", values),
            hard_stop=values.get("hardStop") is True,
            after_n=None,
            consecutive=0,
            now=0,
        ).recommended

    def changed(self, name: str, value: Any) -> bool:
        more: dict[str, Any] = {name: value}
        return self.approved(**more)

    def check(self) -> bool:
        approved = self.approved()
        assert not self.approved(hardStop=True), "hardStop requires a person"
        assert not self.approved(risk="high"), "high risk requires a person"
        left_out = self.chance.choice(ATTRIBUTES)
        assert self.changed(left_out, None) <= approved, f"leaving out {left_out} must not cause an approval"
        self._check_rules(approved=approved)
        self._check_unnamed(approved=approved)
        return approved

    def _check_rules(self, *, approved: bool) -> None:
        never = some_rules(self.chance, self.pool, "never-auto-approve")
        auto = some_rules(self.chance, self.pool, "auto-approve")
        ways: tuple[dict[str, Any], ...] = ({"enabled": False}, {"expires_at": 0}, {"mode": "shadow"})
        idle = [replace(rule, **self.chance.choice(ways)) for rule in [*never, *auto]]
        assert self.approved([*self.rules, *never]) <= approved, "more never rules must not cause an approval"
        assert self.approved(break_on=("a",)) <= approved, "more tags to break on must not cause an approval"
        assert self.approved([*self.rules, *auto]) >= approved, "more auto rules must not prevent an approval"
        assert self.approved([*self.rules, *idle]) == approved, "rules that are not in force must have no effect"

    def _check_unnamed(self, *, approved: bool) -> None:
        named = " ".join(rule.pattern for rule in self.rules)
        for name, values in VALUES.items():
            if name not in named:
                assert self.changed(name, self.chance.choice(values)) == approved, f"no rule names {name}"


@pytest.mark.timeout(600)
def test_thousands_of_random_rulebooks_satisfy_the_laws(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("ASSENT_TEST_SEED") or random.randrange(2**32))
    chance = random.Random(seed)
    pool = [f"{chance.choice(('*', 'gate.*', '*.x'))}({expression(chance)})" for _ in range(500)]
    known = Rulebook.of(Rule(id=text, pattern=text, action="auto-approve") for text in pool)
    approved = 0
    for n in range(WORLDS):
        world = World(chance, pool, known)
        try:
            approved += world.check()
        except AssertionError as error:
            error.add_note(f"seed {seed}, world {n}: {world.rules} {world.values}")
            raise
    with capsys.disabled():
        sys.stdout.write(f"\n{WORLDS} worlds, {approved} approved, seed {seed}\n")
    assert WORLDS // 10 < approved < WORLDS * 9 // 10
