"""Every mutating endpoint either records an admin event or is listed here with the reason it does not."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from assent.audit.usecases.verify import AuditService
from assent.kernel.settings import Settings
from tests.api.outside import SECRET, pushed, source, write_process
from tests.delivery.api.test_deliveries import attempted, raised
from tests.policy.api.test_receipts import approved, receipt_of
from tests.policy.api.test_rules_file import file_of
from tests.support.admin_events import Log, assert_recorded, failed_run, queued_run
from tests.support.nodes import Node, running_node
from tests.triggers.api.test_trigger_events import dead

OWN = "has its own chain: the events of the breakpoint"
NOTHING = "changes nothing"
RUN = "an agent's own run; cancelling or retrying another principal's records run-cancelled or run-retried"
NOT_ADMINISTRATIVE = {
    "POST /api/breakpoints": OWN,
    "POST /api/breakpoints/{breakpoint_id}/always-approve": f"proposes a rule, {NOTHING}; saving it is POST /api/rules",
    "POST /api/breakpoints/{breakpoint_id}/cancel": OWN,
    "POST /api/breakpoints/{breakpoint_id}/expire": OWN,
    "POST /api/breakpoints/{breakpoint_id}/feedback": OWN,
    "POST /api/channels/{channel_id}/test": NOTHING,
    "POST /api/files": "content of a breakpoint, covered by its digest",
    "POST /api/hooks/claude": OWN,
    "POST /api/routes/check": NOTHING,
    "POST /api/rules/backtest": NOTHING,
    "POST /api/rules/check": NOTHING,
    "POST /api/runs": RUN,
    "POST /api/trigger-events/test": NOTHING,
    "POST /api/triggers/check": NOTHING,
}
Kept: TypeAlias = dict[str, Any]
"""The ids returned by earlier requests, keyed by the placeholders used in paths and bodies."""


@dataclass(frozen=True)
class Act:
    """A request by an admin or an agent, and the type of the event that it must record."""

    endpoint: str
    body: Any
    """The request body, or a function that creates it from the kept ids."""
    type: str
    names: dict[str, str] = field(default_factory=dict[str, str])
    keep: str = ""
    """The name under which the returned id is kept."""
    prepare: Callable[[Node, Kept], Awaitable[None]] | None = None
    """Runs before the request, and may record events of its own."""
    by: str = "admin"


async def reset_by_another_admin(node: Node, _: Kept) -> None:
    ann = await node.person("ann", "admin")
    answer = await node.call("PATCH", "/api/people/zoe", ann, json={"password": "a long enough password"})
    assert answer.json()["resetBy"] == "ann", answer.text


async def write_second_route(node: Node, kept: Kept) -> None:
    body = {"pattern": "b.*", "channels": ["hook"]}
    kept["second_route"] = (await node.call("POST", "/api/routes", await node.token("admin"), json=body)).json()["id"]


async def remove_second_route(node: Node, kept: Kept) -> None:
    await node.call("DELETE", f"/api/routes/{kept['second_route']}", await node.token("admin"))


async def set_up_source_and_process(node: Node, _: Kept) -> None:
    write_process(node)
    await source(node)


async def hold_a_firing(node: Node, kept: Kept) -> None:
    """Send an event to the suspended trigger."""
    delivery = f"d-{len(kept)}-{kept.get('event_id')}"
    kept["event_id"] = await pushed(node, delivery=delivery)
    path = f"/api/firings?eventId={kept['event_id']}"
    [firing] = (await node.call("GET", path, await node.token("admin"))).json()["items"]
    kept["firing_id"] = firing["id"]


async def give_up_a_firing(node: Node, kept: Kept) -> None:
    await hold_a_firing(node, kept)
    await dead(node, kept["firing_id"])


async def give_up_a_delivery(node: Node, kept: Kept) -> None:
    _, kept["delivery_id"] = await raised(node)
    await attempted(node, kept["delivery_id"], "dead", error="hooks.example.org answered 400.")


async def start_a_run(node: Node, kept: Kept) -> None:
    kept["run_id"] = await queued_run(node, "fix-ci")


async def fail_a_run(node: Node, kept: Kept) -> None:
    kept["run_id"] = await failed_run(node, "fix-ci")


async def issue_a_receipt(node: Node, kept: Kept) -> None:
    kept["receipt"] = (await receipt_of(node, await approved(node))).json()


WEBHOOK = {"url": "https://hook.example.com/a", "secrets": ["env:HOOK_SECRET"]}
ACTS = [
    Act("POST /api/people", {"name": "zoe", "roles": ["reviewer"]}, "person-created"),
    Act("PATCH /api/people/{name}", {"displayName": "Zoe Z"}, "person-changed", {"name": "zoe"}),
    Act("POST /api/people/{name}/confirm", {}, "person-changed", {"name": "zoe"}, prepare=reset_by_another_admin),
    Act(
        "PUT /api/people/{name}/preferences",
        {"quiet": {"from": "22:00", "to": "06:00", "timezone": "Europe/Berlin"}},
        "preferences-changed",
        {"name": "zoe"},
    ),
    Act("PUT /api/groups/{name}", {"members": ["zoe"]}, "group-created", {"name": "ops"}),
    Act("DELETE /api/groups/{name}", None, "group-removed", {"name": "ops"}),
    Act("POST /api/tokens", {"kind": "agent", "name": "bot"}, "token-created", keep="token_id"),
    Act("DELETE /api/tokens/{token_id}", None, "token-revoked"),
    Act("POST /api/projects", {"id": "second", "name": "Second"}, "project-created"),
    Act("PATCH /api/projects/{project_id}", {"name": "First"}, "project-changed", {"project_id": "default"}),
    Act("DELETE /api/projects/{project_id}", None, "project-removed", {"project_id": "second"}),
    Act("PUT /api/policy", {"alwaysBreakOn": ["prod"]}, "policy-changed"),
    Act("POST /api/projects/{project_id}/callback-secret/rotate", None, "secret-created", {"project_id": "default"}),
    Act("POST /api/receipts/keys/rotate", {}, "receipt-key-created"),
    Act("POST /api/holds", {"reason": "Court"}, "hold-placed", keep="hold_id"),
    Act("DELETE /api/holds/{hold_id}", None, "hold-lifted"),
    Act("POST /api/rules", {"pattern": "a.*", "action": "auto-approve"}, "rule-created", keep="rule_id"),
    Act("PATCH /api/rules/{rule_id}", {"note": "Checked."}, "rule-changed"),
    Act("DELETE /api/rules/{rule_id}", None, "rule-removed"),
    Act("POST /api/rules/import", file_of("c.*"), "rule-created"),
    Act(
        "POST /api/channels",
        {"name": "hook", "type": "webhook", "settings": WEBHOOK},
        "channel-created",
        keep="channel_id",
    ),
    Act("PATCH /api/channels/{channel_id}", {"enabled": False}, "channel-changed"),
    Act("PUT /api/channels/{channel_id}/links", {"identity": "U1", "person": "zoe"}, "account-linked"),
    Act("DELETE /api/channels/{channel_id}/links?identity=U1", None, "account-unlinked"),
    Act("POST /api/routes", {"pattern": "a.*", "channels": ["hook"]}, "route-created", keep="route_id"),
    Act("PATCH /api/routes/{route_id}", {"enabled": False}, "route-changed"),
    Act(
        "PUT /api/routes/order",
        lambda kept: {"ids": [kept["second_route"], kept["route_id"]]},
        "route-moved",
        prepare=write_second_route,
    ),
    Act("DELETE /api/routes/{route_id}", None, "route-removed"),
    Act("DELETE /api/channels/{channel_id}", None, "channel-removed", prepare=remove_second_route),
    Act(
        "POST /api/sources",
        {"name": "tick", "kind": "schedule", "settings": {"cron": "30 2 * * *"}},
        "source-created",
        keep="source_id",
    ),
    Act("PATCH /api/sources/{source_id}", {"enabled": False}, "source-changed"),
    Act("DELETE /api/sources/{source_id}", None, "source-removed"),
    Act(
        "POST /api/triggers",
        {"name": "fix-red-main", "on": "github.push(branch = 'main')", "run": "fix-ci"},
        "trigger-created",
        keep="trigger_id",
        prepare=set_up_source_and_process,
    ),
    Act("PATCH /api/triggers/{trigger_id}", {"note": "Repairs main."}, "trigger-changed"),
    Act("POST /api/triggers/{trigger_id}/suspend", {"because": "Too many."}, "trigger-changed"),
    Act("POST /api/firings/{firing_id}/discard", None, "firing-discarded", prepare=hold_a_firing),
    Act("POST /api/firings/{firing_id}/retry", None, "firing-retried", prepare=give_up_a_firing),
    Act("POST /api/trigger-events/{event_id}/replay", {}, "event-replayed"),
    Act("POST /api/triggers/{trigger_id}/resume", None, "trigger-changed"),
    Act("POST /api/runs/{run_id}/cancel", None, "run-cancelled", prepare=start_a_run),
    Act("POST /api/runs/{run_id}/retry", None, "run-retried", prepare=fail_a_run),
    Act("DELETE /api/triggers/{trigger_id}", None, "trigger-removed"),
    Act("POST /api/deliveries/{delivery_id}/retry", None, "delivery-retried", prepare=give_up_a_delivery),
    Act(
        "POST /api/receipts/consume",
        lambda kept: {"receipt": kept["receipt"]},
        "receipt-used",
        prepare=issue_a_receipt,
        by="agent",
    ),
]


def classified() -> set[str]:
    performed = {each.endpoint.partition("?")[0] for each in ACTS}
    return performed | set(NOT_ADMINISTRATIVE)


async def documented(node: Node) -> set[str]:
    paths = (await node.call("GET", "/openapi.json")).json()["paths"]
    return {
        f"{method.upper()} {path}"
        for path, operations in paths.items()
        for method in operations
        if method in {"post", "put", "patch", "delete"}
    }


async def test_every_mutating_endpoint_is_classified(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        found = await documented(node)
    assert sorted(found - classified()) == [], "add it to ACTS, or to NOT_ADMINISTRATIVE with a reason"
    assert sorted(classified() - found) == []


async def test_every_administrative_request_records_the_actor_and_the_old_and_new_values(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    monkeypatch.setenv("HUB_SECRET", SECRET)
    kept: Kept = {}
    async with running_node(settings) as node:
        log = Log(node)
        for act in ACTS:
            if act.prepare is not None:
                await act.prepare(node, kept)
            await log.new()
            method, _, path = act.endpoint.partition(" ")
            body = act.body(kept) if callable(act.body) else act.body
            options = {} if body is None else {"json": body}
            answer = await node.call(method, path.format(**(kept | act.names)), await node.token(act.by), **options)
            assert answer.status_code < 300, (act.endpoint, answer.text)
            if act.keep:
                kept[act.keep] = answer.json()["id"]
            actor = "person:owner" if act.by == "admin" else "agent:"
            assert_recorded(await log.new(), act.type, act.endpoint, actor=actor, via="token:tok_")
        assert (await node.assent[AuditService].verify()).findings == []


async def test_a_proposed_rule_is_not_saved_and_records_no_event(sqlite_settings: Settings) -> None:
    async with running_node(sqlite_settings) as node:
        asked = (await node.create())["id"]
        admin = await node.token("admin")
        log = Log(node)
        await log.new()
        answer = await node.call("POST", f"/api/breakpoints/{asked}/always-approve", admin)
        assert answer.status_code == 200, answer.text
        assert await log.new() == []
        assert (await node.call("GET", "/api/rules", admin)).json()["items"] == []
