"""The main page workflows, on SQLite and PostgreSQL."""

import asyncio

import pytest

from assent.kernel.settings import Settings
from tests.support.nodes import Node
from tests.web.visitors import link, person, signed_in, visitor


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found.model_copy(update={"undo_seconds": 0})


async def test_a_reviewer_can_sign_in_read_decide_and_sign_out(node: Node) -> None:
    await person(node, "ann", "reviewer")
    created = await node.create(tags=["prod"], payload={"question": "Deploy the zebra?", "context": {"files": [
        {"path": "plan.md", "format": "markdown", "content": "# Plan"},
    ]}})  # fmt: skip
    one = f"/breakpoints/{created['id']}"
    agent = await node.token("agent")
    waiting = asyncio.create_task(node.call("GET", f"/api/breakpoints/{created['id']}/status?wait=30", agent))
    browser = visitor(node)
    await browser.sign_in("ann")
    for query in ("", "?tag=prod", "?q=zebra", "?status=all&sort=newest", "?agent=agent-1&sort=deadline"):
        assert one + query in (await browser.page(f"/{query}")).links()
    assert (await browser.get(f"{one}/files/0")).text == "# Plan"
    assert (await browser.send(one, "/comment", text="Looking.")).status_code == 303

    assert (await browser.decide(created["id"], "approve", comment="Go.")).status_code == 303

    while (seen := (await waiting).json())["status"] == "waiting":
        waiting = asyncio.create_task(node.call("GET", f"/api/breakpoints/{created['id']}/status?wait=30", agent))
    assert (seen["decision"], seen["result"]["feedback"]) == ("approved", "Go.")
    await browser.send("/", "/sign-out")
    assert (await browser.get("/")).status_code == 303


async def test_a_link_used_concurrently_signs_in_only_one_client(node: Node) -> None:
    await person(node, "ann", "reviewer", password=None)
    path = f"/sign-in/{await link(node, 'ann')}"
    answers = await asyncio.gather(*(visitor(node).post(path, {}) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [303, 401, 401, 401, 401]


async def test_the_loser_of_two_concurrent_decisions_gets_a_409(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    created = await node.create()
    yes = await ann.confirmation(created["id"], "approve")
    no = await bea.confirmation(created["id"], "reject", comment="No.")
    answers = await asyncio.gather(ann.post(yes.action, yes.fields), bea.post(no.action, no.fields))
    assert sorted(answer.status_code for answer in answers) == [303, 409]
