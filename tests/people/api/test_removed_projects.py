"""Removing a project cancels its open breakpoints and runs and rejects new ones; its history remains readable."""

from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.access import PROJECT_REMOVED, Role
from assent.core.terms import Answer
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import NewToken, PeopleService
from assent.triggers.usecases.remove_projects import BATCH
from tests.db.making import creation, person, rows, stored
from tests.runs.conftest import Works
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.until import until

SHOP = "shop"
HOOK = {"name": "hook", "kind": "webhook", "settings": {"secrets": ["env:HOOK_SECRET"], "verify": "standard"}}


async def open_shop(node: Node) -> dict[str, str]:
    """Create a second project with its own agent and people; return their tokens."""

    def use_case(tx: Transaction) -> dict[str, str]:
        owner = tx[People].get_by_name("owner")
        tx[Projects].add(Project(SHOP, "Shop", owner.id, {}, tx.now()))
        for name in ("admin", "auditor", "reviewer"):
            node.assent[PeopleService].create_person(tx, f"shop-{name}", project=SHOP, roles=frozenset({Role(name)}))
        made = {"agent": NewToken(kind="agent", name="bot")} | {
            name: NewToken(kind="admin", name=name, person=f"shop-{name}", roles=frozenset({Role(name)}))
            for name in ("admin", "auditor", "reviewer")
        }
        create = partial(node.assent[PeopleService].create_token, tx, project=SHOP, by="system:test")
        return {name: create(new)[1] for name, new in made.items()}

    return await node.assent.database.write(use_case)


async def remove(node: Node, token: str, project: str = SHOP) -> tuple[int, str]:
    answer = await node.call("DELETE", f"/api/projects/{project}", token)
    return answer.status_code, answer.json()["code"] if answer.content else ""


async def mark_removed(node: Node) -> None:
    """Remove the project, but leave the open breakpoints to the scheduler, as after a crash."""
    await node.assent.database.write(lambda tx: tx[Projects].remove(SHOP, now=tx.now()))


@pytest.fixture
async def node(settings: Settings) -> Any:
    async with running_node(settings) as running:
        yield running


async def test_only_admins_can_remove_projects_and_the_default_project_is_protected(node: Node) -> None:
    shop = await open_shop(node)
    stranger = await node.person("stranger", "admin")
    assert await remove(node, shop["reviewer"]) == (403, "forbidden")
    assert await remove(node, shop["agent"]) == (403, "forbidden")
    assert await remove(node, stranger) == (404, "not_found")
    assert await remove(node, await node.token("admin"), "nowhere") == (404, "not_found")
    assert await remove(node, await node.token("admin"), "default") == (409, "conflict")
    assert await remove(node, shop["admin"]) == (204, "")
    assert await remove(node, shop["admin"]) == (409, "project_removed")
    assert await remove(node, await node.token("admin")) == (409, "project_removed")
    again = await node.call("POST", "/api/projects", await node.token("admin"), json={"id": SHOP})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    listed = (await node.call("GET", "/api/projects", await node.token("admin"))).json()["items"]
    assert {each["id"]: bool(each.get("removedAt")) for each in listed} == {"default": False, SHOP: True}


NEW = [
    ("agent", "POST", "/api/breakpoints", {"agentId": "a", "payload": {"question": "Go?"}}),
    ("agent", "POST", "/api/runs", {"process": "deploy", "agentId": "a"}),
    ("admin", "POST", "/api/rules", {"pattern": "a.*", "action": "auto-approve"}),
    ("admin", "POST", "/api/tokens", {"kind": "agent", "name": "late"}),
    ("reviewer", "POST", "/api/tokens", {"kind": "reviewer", "name": "late"}),
    ("admin", "POST", "/api/triggers", {"id": "late", "on": "push", "run": "deploy"}),
    ("admin", "POST", "/api/sources", HOOK),
    ("admin", "POST", "/api/people", {"name": "late", "roles": ["reviewer"]}),
    ("admin", "PUT", "/api/policy", {"retentionDays": 1}),
    ("admin", "PATCH", f"/api/projects/{SHOP}", {"name": "Other"}),
]


async def test_a_removed_project_is_read_only(node: Node) -> None:
    shop = await open_shop(node)
    asked = (await node.create(shop["agent"]))["id"]
    assert await remove(node, shop["admin"]) == (204, "")
    refused = {path: await node.call(verb, path, shop[who], json=body) for who, verb, path, body in NEW}
    assert {path: (each.status_code, each.json().get("code")) for path, each in refused.items()} == dict.fromkeys(
        refused, (409, "project_removed")
    )
    late = await node.feedback(asked, shop["reviewer"], approved=True)
    assert late.status_code == 409
    status = (await node.call("GET", f"/api/breakpoints/{asked}/status", shop["agent"])).json()
    assert status["status"] == "cancelled"
    shown = (await node.call("GET", f"/api/breakpoints/{asked}", shop["auditor"])).json()
    assert shown["result"]["approved"] is False
    acts = (await node.call("GET", "/api/audit/events?type=project-removed", shop["auditor"])).json()["items"]
    assert [each["actor"] for each in acts] == ["person:shop-admin"]
    assert (await node.assent[AuditService].verify()).findings == []


async def test_an_admin_of_all_projects_cannot_change_a_removed_project(node: Node) -> None:
    await open_shop(node)
    root = await node.token("admin")
    assert await remove(node, root) == (204, "")
    token = await node.call("POST", "/api/tokens", root, json={"kind": "agent", "name": "late", "project": SHOP})
    assert (token.status_code, token.json()["code"]) == (409, "project_removed")
    changed = await node.call("PATCH", f"/api/projects/{SHOP}", root, json={"name": "Other"})
    assert (changed.status_code, changed.json()["code"]) == (409, "project_removed")


async def test_a_node_with_stale_data_rejects_breakpoints_in_a_removed_project(node: Node) -> None:
    shop = await open_shop(node)
    await node.create(shop["agent"])
    await mark_removed(node)
    body = {"agentId": "agent-1", "payload": {"question": "Go?"}}
    answer = await node.call("POST", "/api/breakpoints", shop["agent"], json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "project_removed")


async def test_the_scheduler_completes_a_removal_after_a_crash(node: Node) -> None:
    shop = await open_shop(node)
    asked = [(await node.create(shop["agent"]))["id"] for _ in range(3)]
    untouched = (await node.create())["id"]
    await mark_removed(node)
    statement = "SELECT status, ended_by FROM assent_breakpoints WHERE project_id = :shop"
    ended = await until(partial(rows, node, statement, shop=SHOP), lambda found: all(each[1] for each in found))
    assert list(ended) == [("cancelled", str(PROJECT_REMOVED))] * len(asked)
    assert (await stored(node, untouched)).status == "waiting"
    assert (await node.assent[AuditService].verify()).findings == []


async def test_many_breakpoints_are_cancelled_in_batches(settings: Settings, clock: ManualClock) -> None:
    async with running_node(settings, clock=clock) as node:
        await open_shop(node)
        agent = await person(node, "asker", "reviewer", project=SHOP)

        def many(tx: Transaction) -> None:
            for _ in range(BATCH + 1):
                creation(node, by=agent)(tx)

        await node.assent.database.write(many)
        assert await remove(node, await node.token("admin")) == (204, "")
        statement = "SELECT count(*) FROM assent_breakpoints WHERE project_id = :shop AND status = 'waiting'"
        await until(partial(rows, node, statement, shop=SHOP), lambda found: found[0][0] == 0)


async def test_removing_a_project_drops_answers_that_are_still_in_their_undo_window(
    settings: Settings, clock: ManualClock
) -> None:
    async with running_node(settings.model_copy(update={"undo_seconds": 6}), clock=clock) as node:
        shop = await open_shop(node)
        ann = await person(node, "ann", "reviewer", project=SHOP)
        asked = (await node.create(shop["agent"]))["id"]
        hold = partial(
            node.assent[HoldingService].hold,
            breakpoint_id=asked,
            answer=Answer(approved=True),
            by=ann,
            via="web",
            batch=None,
        )
        assert await node.assent.database.write(hold, locks=asked) is not None
        assert await remove(node, shop["admin"]) == (204, "")
        kinds = [each.type for each in await node.assent[InboxService].history(asked)]
        assert kinds == ["created", "answer-dropped", "cancelled"]
        unsent = await node.assent.database.read(partial(node.assent[HoldingService].unsent, by=ann))
        assert [each.why for each in unsent] == ["The project was removed."]


async def test_sources_and_triggers_are_removed_with_the_project(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    shop = await open_shop(node)
    body = {"name": "tick", "kind": "schedule", "settings": {"cron": "30 2 * * *"}}
    made = await node.call("POST", "/api/sources", shop["admin"], json=body)
    assert made.status_code == 201, made.text
    assert await remove(node, shop["admin"]) == (204, "")
    left = await rows(node, "SELECT next_at FROM assent_sources WHERE project_id = :shop", shop=SHOP)
    assert list(left) == [(None,)]
    assert (await node.call("GET", "/api/sources", shop["auditor"])).json()["items"] == []


PROCESS = """
    @process
    async def deploy(inputs, ctx):
        await ctx.breakpoint("Deploy?")
        return {"deployed": True}
"""


async def test_removing_a_project_cancels_suspended_runs(settings: Settings) -> None:
    async with running_node(settings, worker=True) as node:
        shop = await open_shop(node)
        works = Works(node, settings, shop["agent"], shop["reviewer"])
        works.write("deploy", PROCESS)
        run_id = await works.start("deploy")
        (step,) = await works.asked(run_id)
        await works.until(run_id, lambda run: run["state"] == "suspended")
        assert await remove(node, shop["admin"]) == (204, "")
        run = await works.ended(run_id)
        assert run["state"] == "cancelled"
        lines = await works.journal(run_id)
        assert [each["type"] for each in lines] == ["started", "asked", "cancelled"]
        assert lines[-1]["data"] == {"by": str(PROJECT_REMOVED)}
        ended = await stored(node, step["breakpointId"], SHOP)
        assert (ended.status, ended.ended_by) == ("cancelled", PROJECT_REMOVED)
        retried = await node.call("POST", f"/api/runs/{run_id}/retry", shop["agent"])
        assert (retried.status_code, retried.json()["code"]) == (409, "project_removed")
