"""Pattern previews: each part of a pattern is evaluated for past breakpoints."""

from functools import partial

import pytest

from assent.audit.usecases.retention import RetentionService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.access import Kind, Principal, Role
from assent.core.errors import Forbidden, PatternError
from assent.people.usecases.people import PeopleService
from assent.policy.usecases.pattern_preview import SHOWN, explained
from tests.db.making import AGENT, create
from tests.support.nodes import ManualClock, Node

VIEWER = Principal(kind=Kind.PERSON, id="per_v", name="vera", project="default", roles=frozenset({Role.VIEWER}))
ADMIN = Principal(kind=Kind.PERSON, id="per_a", name="adm", project="default", roles=frozenset({Role.ADMIN}))


@pytest.mark.parametrize("glob", ["deploy.api", "deploy.*"])
async def test_a_pattern_is_explained_with_the_newest_breakpoints_of_matching_gates(
    node: Node, clock: ManualClock, glob: str
) -> None:
    raised = []
    for tag in ("prod", "staging", "prod", "staging"):
        raised.append(await create(node, {"breakpointId": "deploy.api"}, tags=[tag]))
        await create(node, {"breakpointId": "other"})
        clock.advance(1)
    found = await explained(node.assent.database, f"{glob}(tags contains 'staging' AND payload.cost < 5)", by=VIEWER)
    assert [each.id for each in found.examples] == raised[::-1][:SHOWN]
    assert [each.held for each in found.examples] == [None, False, None]
    newest = found.examples[0]
    assert [(each.part, each.held, each.note) for each in newest.findings] == [
        (glob, True, ""),
        ("tags contains 'staging'", True, ""),
        ("payload.cost < 5", None, "not given"),
    ]


async def test_purged_breakpoints_are_not_used_as_examples(node: Node, clock: ManualClock) -> None:
    await create(node, {"breakpointId": "old"}, ttlSeconds=5)
    clock.advance(6)
    await node.assent.database.write(node.assent[BreakpointService].time_out_due)
    await node.assent.database.write(
        partial(node.assent[PeopleService].put_policy, policy={"retentionDays": 1}, by=ADMIN)
    )
    clock.advance(3 * 86_400)
    await node.assent.database.write(node.assent[RetentionService].purge_due)
    for pattern in ("old", "ol*"):
        assert (await explained(node.assent.database, pattern, by=VIEWER)).examples == []


async def test_invalid_patterns_and_agents_are_rejected(node: Node) -> None:
    with pytest.raises(PatternError):
        await explained(node.assent.database, "a(tags", by=VIEWER)
    with pytest.raises(Forbidden):
        await explained(node.assent.database, "a", by=AGENT)
