"""A breakpoint whose agent lost its connection is marked for reviewers, but stays pending."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.absent_agents import AbsentAgentWatch
from assent.breakpoints.store.absent_agents import AbsentAgents
from assent.kernel.settings import Settings
from tests.support.nodes import Node, running_node
from tests.support.until import until
from tests.web.visitors import signed_in

READERS = itertools.count()
MARK = "agent not connected"


@asynccontextmanager
async def waiting(node: Node, breakpoint_id: str, token: str) -> AsyncIterator[None]:
    """Hold a wait open inside the block, then drop the connection."""
    call = asyncio.ensure_future(node.call("GET", f"/api/breakpoints/{breakpoint_id}/status?wait=30", token))

    async def waiters() -> int:
        return node.assent.hub.waiters

    await until(waiters, bool)
    try:
        yield
    finally:
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def lost(node: Node, breakpoint_id: str, token: str) -> None:
    async with waiting(node, breakpoint_id, token):
        pass
    await node.assent[AbsentAgentWatch].note(grace=0)


async def shown(node: Node, breakpoint_id: str) -> tuple[bool, bool]:
    """Return whether the inbox and the breakpoint's page show the mark to a reviewer."""
    reader = await signed_in(node, f"reader-{next(READERS)}", "reviewer")
    pages = [(await reader.get(path)).text for path in ("/", f"/breakpoints/{breakpoint_id}")]
    return MARK in pages[0], MARK in pages[1]


async def test_a_lost_connection_marks_the_breakpoint_without_ending_it(node: Node) -> None:
    agent = await node.token("agent")
    asked = (await node.create())["id"]
    assert await shown(node, asked) == (False, False)
    await lost(node, asked, agent)
    assert await shown(node, asked) == (True, True)
    status = (await node.call("GET", f"/api/breakpoints/{asked}/status", agent)).json()
    assert status["status"] == "waiting"


async def test_the_mark_disappears_when_the_agent_waits_again(node: Node) -> None:
    agent = await node.token("agent")
    asked = (await node.create())["id"]
    await lost(node, asked, agent)
    async with waiting(node, asked, agent):
        await node.assent[AbsentAgentWatch].note()
        assert await shown(node, asked) == (False, False)


async def test_the_mark_disappears_when_the_agent_polls_again(node: Node) -> None:
    agent = await node.token("agent")
    asked = (await node.create())["id"]
    await lost(node, asked, agent)
    await node.call("GET", f"/api/breakpoints/{asked}/status", agent)
    await node.assent[AbsentAgentWatch].note()
    assert await shown(node, asked) == (False, False)


async def test_an_agent_that_polls_within_the_grace_period_is_not_absent(node: Node) -> None:
    agent = await node.token("agent")
    asked = (await node.create())["id"]
    async with waiting(node, asked, agent):
        pass
    await node.assent[AbsentAgentWatch].note()
    assert await shown(node, asked) == (False, False)


async def test_a_disconnecting_reviewer_does_not_set_the_mark(node: Node) -> None:
    reviewer = await node.token("reviewer")
    asked = (await node.create())["id"]
    await lost(node, asked, reviewer)
    assert await shown(node, asked) == (False, False)


async def test_an_agent_that_never_waited_is_not_absent(node: Node) -> None:
    asked = (await node.create())["id"]
    await node.assent[AbsentAgentWatch].note(grace=0)
    assert await shown(node, asked) == (False, False)


async def test_an_answer_to_an_absent_agent_is_kept_for_it(node: Node) -> None:
    agent, reviewer = await node.token("agent"), await node.token("reviewer")
    asked = (await node.create())["id"]
    await lost(node, asked, agent)
    await node.feedback(asked, reviewer, approved=True)
    status = (await node.call("GET", f"/api/breakpoints/{asked}/status?wait=30", agent)).json()
    assert (status["status"], status["decision"]) == ("released", "approved")
    assert (await node.assent[AuditService].verify()).findings == []


async def test_another_node_removes_the_mark(postgres_settings: Settings) -> None:
    async with running_node(postgres_settings) as first, running_node(postgres_settings) as second:
        agent = await first.token("agent")
        asked = (await first.create())["id"]
        await lost(first, asked, agent)
        assert await shown(second, asked) == (True, True)
        async with waiting(second, asked, agent):
            await second.assent[AbsentAgentWatch].note()
            assert await shown(first, asked) == (False, False)


async def test_polling_after_a_restart_removes_the_mark(settings: Settings) -> None:
    async with running_node(settings) as node:
        agent = await node.token("agent")
        asked = (await node.create())["id"]
        await lost(node, asked, agent)
    async with running_node(settings) as node:
        assert await shown(node, asked) == (True, True)
        await node.call("GET", f"/api/breakpoints/{asked}/status", agent)
        await node.assent[AbsentAgentWatch].note()
        assert await shown(node, asked) == (False, False)


async def test_a_node_marks_absent_agents_automatically(node: Node) -> None:
    node.assent[AbsentAgentWatch].grace_seconds = 0
    asked = (await node.create())["id"]
    async with waiting(node, asked, await node.token("agent")):
        pass

    async def marked() -> dict[str, int]:
        return await node.assent.database.read(lambda tx: tx[AbsentAgents].since([asked]))

    assert asked in await until(marked, bool)
