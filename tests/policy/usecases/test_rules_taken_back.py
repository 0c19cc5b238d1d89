"""A rule whose transaction was rolled back never approves a breakpoint."""

import asyncio
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.core.patterns.expressions import Subject
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import Guess, Question, RuleService
from tests.db.making import adding, create, creation, stored
from tests.support.nodes import Node, running_node
from tests.support.until import until


async def test_a_rolled_back_rule_is_never_applied(node: Node) -> None:
    def spoil(tx: Transaction) -> None:
        tx[Rules].turn_page("default")
        msg = "after having written"
        raise InvalidRequest(msg)

    def doomed(tx: Transaction) -> None:
        """Add a rule, apply it in the same transaction, and fail."""
        adding(node, "go", "auto-approve")(tx)
        creation(node, {"breakpointId": "go"})(tx)
        spoil(tx)

    await create(node, {"breakpointId": "go"})
    with pytest.raises(InvalidRequest):
        await node.assent.database.write(doomed)
    await node.assent.database.write(adding(node, "go", "never-auto-approve"))
    made = await stored(node, await create(node, {"breakpointId": "go"}))
    assert made.status == "waiting"
    assert made.auto_approval["reason"].startswith("Matched never-auto-approve rule")


async def test_a_retried_batch_applies_the_rules_created_by_the_retry(node: Node) -> None:
    """Transactions that share a commit with a failing one are retried, and their rows get new IDs."""

    def fails(tx: Transaction) -> None:
        tx[Rules].turn_page("default")
        msg = "after having written"
        raise InvalidRequest(msg)

    use_cases: list[Any] = [adding(node, "go", "auto-approve"), creation(node, {"breakpointId": "go"}), fails]
    together = (node.assent.database.write(each, locks=str(n)) for n, each in enumerate(use_cases))
    outcomes: list[Any] = await asyncio.gather(*together, return_exceptions=True)
    added, made, failed = outcomes
    assert isinstance(failed, InvalidRequest)
    found = await stored(node, made.id)
    assert str(found.ended_by) == f"rule:{added.id}"


async def test_a_node_preloads_rules_before_the_first_request(settings: Settings) -> None:
    async with running_node(settings) as first:
        await first.assent.database.write(adding(first, "go", "auto-approve"))
    question = Question(subject=Subject("go", {}), gate="go", agent_id="ci")
    async with running_node(settings) as node:

        async def guess() -> Guess | None:
            return node.assent[RuleService].guess("default", question, now=node.assent.clock.now())

        found = await until(guess, lambda each: each is not None)
        assert found is not None
        assert found.recommendation.recommended
