"""Every mutating endpoint either records an administrative event or is listed with the reason why it does not."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from assent.settings import Settings
from tests.store.making import rows
from tests.support.nodes import Node, running_node

OWN = "has its own chain: the events of the breakpoint"
NOTHING = "changes nothing"
RUN = "an agent's own run; cancelling or retrying another principal's records run-cancelled or run-retried"
NOT_ADMINISTRATIVE = {
    "POST /api/breakpoints": OWN,
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
RECORDED_ELSEWHERE = {
    "DELETE /api/triggers/{trigger_id}": "trigger-removed",
    "PATCH /api/triggers/{trigger_id}": "trigger-changed",
    "POST /api/breakpoints/{breakpoint_id}/always-approve": "rule-created",
    "POST /api/deliveries/{delivery_id}/retry": "delivery-retried",
    "POST /api/firings/{firing_id}/discard": "firing-discarded",
    "POST /api/firings/{firing_id}/retry": "firing-retried",
    "POST /api/people/{name}/confirm": "person-changed",
    "POST /api/receipts/consume": "receipt-used",
    "POST /api/rules/import": "rule-created",
    "PUT /api/people/{name}/preferences": "preferences-changed",
    "PUT /api/routes/order": "route-moved",
    "POST /api/runs/{run_id}/cancel": "run-cancelled",
    "POST /api/runs/{run_id}/retry": "run-retried",
    "POST /api/trigger-events/{event_id}/replay": "event-replayed",
    "POST /api/triggers": "trigger-created",
    "POST /api/triggers/{trigger_id}/resume": "trigger-changed",
    "POST /api/triggers/{trigger_id}/suspend": "trigger-changed",
}
"""Endpoints that need more than one request to be performed here; the stores record the acts named."""


@dataclass(frozen=True)
class Act:
    """A request by an admin, and the type of the event that it must leave; `keep` names the id it returns."""

    endpoint: str
    body: Any
    type: str
    names: dict[str, str] = field(default_factory=dict[str, str])
    keep: str = ""


WEBHOOK = {"url": "https://hook.example.com/a", "secrets": ["env:HOOK_SECRET"]}
ACTS = [
    Act("POST /api/people", {"name": "zoe", "roles": ["reviewer"]}, "person-created"),
    Act("PATCH /api/people/{name}", {"displayName": "Zoe Z"}, "person-changed", {"name": "zoe"}),
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
    Act("DELETE /api/routes/{route_id}", None, "route-removed"),
    Act("DELETE /api/channels/{channel_id}", None, "channel-removed"),
    Act(
        "POST /api/sources",
        {"name": "tick", "kind": "schedule", "settings": {"cron": "30 2 * * *"}},
        "source-created",
        keep="source_id",
    ),
    Act("PATCH /api/sources/{source_id}", {"enabled": False}, "source-changed"),
    Act("DELETE /api/sources/{source_id}", None, "source-removed"),
]


def classified() -> set[str]:
    performed = {each.endpoint.partition("?")[0] for each in ACTS}
    return performed | set(NOT_ADMINISTRATIVE) | set(RECORDED_ELSEWHERE)


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
    assert sorted(found - classified()) == [], "list it with the act that it records, or why it records none"
    assert sorted(classified() - found) == []


async def test_every_act_leaves_an_event_with_actor_before_and_after(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    kept: dict[str, str] = {}
    async with running_node(settings) as node:
        owner = await node.token("admin")
        for act in ACTS:
            method, _, path = act.endpoint.partition(" ")
            options = {} if act.body is None else {"json": act.body}
            answer = await node.call(method, path.format(**kept, **act.names), owner, **options)
            assert answer.status_code < 300, (act.endpoint, answer.text)
            if act.keep:
                kept[act.keep] = answer.json()["id"]
            await assert_recorded(node, act)
        assert (await node.assent.audit.verify()).findings == []


async def assert_recorded(node: Node, act: Act) -> None:
    newest = """SELECT actor, metadata FROM assent_admin_events WHERE type = :type
        ORDER BY at DESC, seq DESC LIMIT 1"""
    found = await rows(node, newest, type=act.type)
    assert found, act.endpoint
    actor, metadata = found[0][0], msgspec.json.decode(found[0][1])
    assert actor == "person:owner", act.endpoint
    assert metadata["via"].startswith("token:tok_"), act.endpoint
    assert metadata["before"] != metadata["after"], act.endpoint
