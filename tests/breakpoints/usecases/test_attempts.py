"""The previous attempt at a breakpoint, on both databases."""

from functools import partial
from typing import Any

from assent.breakpoints.usecases.attempts import Previous, previous
from assent.breakpoints.usecases.inbox import InboxService
from tests.support.nodes import ManualClock, Node


async def _previous(node: Node, breakpoint_id: str) -> Previous | None:
    row = await node.assent[InboxService].reader.whole(breakpoint_id)
    assert row is not None
    return await node.assent.database.read(partial(previous, row=row))


def _asked(content: str) -> dict[str, Any]:
    file = {"path": "a.txt", "format": "text", "content": content}
    return {"runId": "r", "payload": {"question": "Go?", "breakpointId": "g", "context": {"files": [file]}}}


async def test_the_previous_attempt_is_the_latest_breakpoint_with_the_same_gate_and_run(
    node: Node, clock: ManualClock
) -> None:
    ids: list[str] = []
    for content in "abc":
        ids.append((await node.create(**_asked(content)))["id"])
        clock.advance(1)
    await node.create(**_asked("x") | {"runId": "other"})
    assert await _previous(node, ids[0]) is None
    found = [await _previous(node, each) for each in ids[1:]]
    assert [each and each.row.id for each in found] == ids[:2]
    assert found[1] is not None
    (pair,) = found[1].pairs
    assert (pair.changed, pair.contents) == (True, (b"b", b"c"))


async def test_unchanged_files_are_not_read(node: Node, clock: ManualClock) -> None:
    await node.create(**_asked("a"))
    clock.advance(1)
    two = await node.create(**_asked("a"))
    found = await _previous(node, two["id"])
    assert found is not None
    assert [(pair.changed, pair.contents) for pair in found.pairs] == [(False, None)]


async def test_the_previous_attempt_includes_its_comments_and_responses(node: Node, clock: ManualClock) -> None:
    one = await node.create(**_asked("a"))
    await node.feedback(one["id"], await node.token("reviewer"), approved=False, comment="Not yet.")
    clock.advance(1)
    two = await node.create(**_asked("b"))
    found = await _previous(node, two["id"])
    assert found is not None
    assert [said.comment for said in found.comments] == ["Not yet."]
    assert [response.approved for response in found.responses] == [False]
