"""The deliveries API: lists, attempts, permissions and retries."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import STATES, Attempt, Deliveries, Delivery
from assent.kernel.settings import Settings
from tests.support.nodes import ManualClock, Node, running_node

URL = "https://hooks.example.org/assent/s3cr3t?key=t0p"
WHERE = "https://hooks.example.org/…"
UNKNOWN = "dlv_" + "0" * 26


async def listed(node: Node, query: str = "", token: str | None = None) -> dict[str, Any]:
    answer = await node.call("GET", f"/api/deliveries?{query}", token or await node.token("viewer"))
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def ids(node: Node, query: str = "", token: str | None = None) -> list[str]:
    return [each["id"] for each in (await listed(node, query, token))["items"]]


async def raised(node: Node, token: str | None = None, **body: Any) -> tuple[str, str]:
    """Create a breakpoint with a callback, and return its ID and the ID of its only delivery."""
    breakpoint_id = (await node.create(token, **({"callbackUrl": URL} | body)))["id"]
    admin = await node.token("admin")
    (delivery,) = await ids(node, f"breakpointId={breakpoint_id}", admin)
    return breakpoint_id, delivery


async def attempted(node: Node, delivery_id: str, state: str, *, error: str | None, project: str = "default") -> None:
    """Record an attempt exactly as a worker would."""

    def use_case(tx: Transaction) -> None:
        now = tx.now()
        found = tx[Deliveries].get(delivery_id, project=project)
        assert tx[Deliveries].claim(found, worker="w-1", now=now, lease=now + 40 * SECOND)
        claimed = replace(found, attempts=found.attempts + 1, state=state, next_at=now + 5 * SECOND, last_error=error)
        tx[Deliveries].finish_attempt(found.id, Attempt(claimed.attempts, now, "w-1", 12, 500 if error else 200, error))
        assert tx[Deliveries].record(claimed, now=now)

    await node.assent.database.write(use_case)


async def stored(node: Node, delivery_id: str) -> Delivery:
    return await node.assent.database.read(lambda tx: tx[Deliveries].get(delivery_id, project="default"))


async def retry(node: Node, delivery_id: str, token: str | None = None, **options: Any) -> httpx2.Response:
    path = f"/api/deliveries/{delivery_id}/retry"
    return await node.call("POST", path, token or await node.token("admin"), **options)


async def test_a_callback_has_a_delivery_for_each_event(node: Node, clock: ManualClock) -> None:
    breakpoint_id, _ = await raised(node)
    clock.advance(1)
    await node.feedback(breakpoint_id, await node.token("reviewer"), release=True)

    found = (await listed(node))["items"]

    assert [(each["type"], each["seq"]) for each in found] == [("released", 3), ("responded", 2), ("created", 1)]
    assert {(each["breakpointId"], each["channel"], each["state"]) for each in found} == {
        (breakpoint_id, "callback", "pending")
    }


async def test_a_breakpoint_without_a_callback_url_has_no_deliveries(node: Node) -> None:
    await node.create()
    assert await listed(node) == {"items": []}


async def test_only_a_pending_delivery_has_a_next_attempt(node: Node, clock: ManualClock) -> None:
    _, delivery = await raised(node)
    (fresh,) = (await listed(node))["items"]
    await attempted(node, delivery, "pending", error="hooks.example.org answered 500.")
    (failed,) = (await listed(node))["items"]
    clock.advance(5)
    await attempted(node, delivery, "sent", error=None)
    (sent,) = (await listed(node))["items"]

    assert fresh["nextAttemptAt"] == fresh["createdAt"]
    assert (fresh["attempts"], "lastError" in fresh) == (0, False)
    assert (failed["state"], failed["attempts"]) == ("pending", 1)
    assert failed["lastError"] == "hooks.example.org answered 500."
    assert failed["nextAttemptAt"] > failed["updatedAt"]
    assert (sent["state"], sent["attempts"]) == ("sent", 2)
    assert not {"nextAttemptAt", "lastError"} & set(sent)


async def test_a_delivery_shows_every_attempt(node: Node, clock: ManualClock) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "pending", error="No answer.")
    clock.advance(5)
    await attempted(node, delivery, "sent", error=None)

    found = (await node.call("GET", f"/api/deliveries/{delivery}", await node.token("viewer"))).json()

    first, second = found["log"]
    assert (first["n"], first["worker"], first["milliseconds"], first["error"]) == (1, "w-1", 12, "No answer.")
    assert (second["n"], second["status"], "error" in second) == (2, 200, False)
    assert first["at"] < second["at"]
    (in_the_list,) = (await listed(node))["items"]
    assert {name: value for name, value in found.items() if name != "log"} == in_the_list


async def test_the_filters_narrow_the_list(node: Node, clock: ManualClock) -> None:
    (one, first), (two, second) = await raised(node), await raised(node)
    await attempted(node, first, "dead", error="hooks.example.org answered 400.")

    assert await ids(node, "state=dead") == [first]
    assert await ids(node, "state=pending") == [second]
    assert await ids(node, f"breakpointId={two}&channel=callback&state=pending") == [second]
    assert await ids(node, f"breakpointId={one}&state=pending") == []
    assert await ids(node, "channel=slack") == []
    assert await ids(node, "breakpointId=nonsense") == []
    clock.advance(1)
    assert set(await ids(node)) == {first, second}


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("stat=dead", "query stat"),
        ("breakpoint=bp_1", "query breakpoint"),
        ("breakpoint_id=bp_1", "query breakpoint_id"),
        ("created_by_id=x", "query created_by_id"),
        ("state=DEAD", "query state"),
        ("state=", "query state"),
        ("state=dead&state=sent", "query state"),
        ("channel=a%00b", "query channel"),
        ("limit=0", "query limit"),
        ("limit=201", "query limit"),
        ("limit=5.0", "query limit"),
        ("cursor=nonsense", "query cursor"),
        (f"cursor={UNKNOWN}%0a", "query cursor"),
        (f"breakpointId={'x' * 1001}", "query breakpointId"),
    ],
)
async def test_an_unknown_filter_is_rejected(shared: Node, query: str, where: str) -> None:
    answer = await shared.call("GET", f"/api/deliveries?{query}", await shared.token("viewer"))
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, where)


async def test_every_state_is_a_valid_filter(shared: Node) -> None:
    for state in STATES:
        assert await ids(shared, f"state={state}") == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
@pytest.mark.parametrize("kind", ["viewer", "agent"])
async def test_paging_returns_every_delivery_exactly_once(node: Node, limit: int, kind: str) -> None:
    """All deliveries have the same timestamp, and the two agents' deliveries alternate."""
    other = await node.token("agent", name="other")
    for _ in range(4):
        await node.create(callbackUrl=URL)
        await node.create(other, callbackUrl=URL)
    token = await node.token(kind)
    whole = await ids(node, "limit=200", token)
    walked: list[str] = []
    cursor = ""
    while True:
        page = await listed(node, f"limit={limit}{cursor}", token)
        walked += [each["id"] for each in page["items"]]
        assert len(page["items"]) <= limit
        if "nextCursor" not in page:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert walked == whole
    assert len(set(whole)) == (4 if kind == "agent" else 8)


async def test_new_deliveries_do_not_affect_paging_in_progress(node: Node, clock: ManualClock) -> None:
    made: list[str] = []
    for _ in range(3):
        clock.advance(1)
        made.append((await raised(node))[1])
    first = await listed(node, "limit=2")
    clock.advance(1)
    await raised(node)
    second = await listed(node, f"limit=2&cursor={first['nextCursor']}")
    assert [each["id"] for each in first["items"] + second["items"]] == made[::-1]


async def test_an_agent_can_read_only_the_deliveries_for_its_own_breakpoints(node: Node) -> None:
    mine, other = await node.token("agent"), await node.token("agent", name="other")
    breakpoint_id, delivery = await raised(node, mine)
    _, theirs = await raised(node, other)

    assert await ids(node, "", mine) == [delivery]
    assert await ids(node, "", other) == [theirs]
    assert await ids(node, f"breakpointId={breakpoint_id}", other) == []
    assert (await node.call("GET", f"/api/deliveries/{delivery}", mine)).status_code == 200
    hidden = await node.call("GET", f"/api/deliveries/{delivery}", other)
    never = await node.call("GET", f"/api/deliveries/{UNKNOWN}", other)
    assert hidden.status_code == never.status_code == 404
    assert hidden.json()["detail"].replace(delivery, UNKNOWN) == never.json()["detail"]


async def test_deliveries_in_another_project_return_404(node: Node) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "elsewhere"})
    stranger = await node.person("stranger", "admin", project="elsewhere")
    breakpoint_id, delivery = await raised(node)
    await attempted(node, delivery, "dead", error="No.")

    assert await ids(node, "", stranger) == []
    assert await ids(node, f"breakpointId={breakpoint_id}", stranger) == []
    assert (await node.call("GET", f"/api/deliveries/{delivery}", stranger)).status_code == 404
    assert (await retry(node, delivery, stranger)).status_code == 404
    assert (await stored(node, delivery)).state == "dead"


@pytest.mark.parametrize("delivery_id", ["nonsense", "dlv_1", UNKNOWN, UNKNOWN + "0", "bp_" + "0" * 26, "%00"])
async def test_an_invalid_delivery_id_returns_404(shared: Node, delivery_id: str) -> None:
    admin = await shared.token("admin")
    assert (await shared.call("GET", f"/api/deliveries/{delivery_id}", admin)).status_code == 404
    assert (await retry(shared, delivery_id)).status_code == 404


async def test_only_the_agent_and_admins_see_the_full_recipient_url(node: Node) -> None:
    _, delivery = await raised(node)
    seen: dict[str, set[str]] = {}
    for kind in ("agent", "admin", "viewer", "reviewer", "auditor", "rule-admin"):
        token = await node.token(kind) if kind in {"agent", "admin"} else await node.person(f"a-{kind}", kind)
        one = (await node.call("GET", f"/api/deliveries/{delivery}", token)).json()
        (item,) = (await listed(node, "", token))["items"]
        seen[kind] = {one["recipient"], item["recipient"]}

    assert seen["agent"] == seen["admin"] == {URL}
    assert seen["viewer"] == seen["reviewer"] == seen["auditor"] == seen["rule-admin"] == {WHERE}


async def test_retrying_a_failed_delivery_queues_it_immediately(node: Node, clock: ManualClock) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "dead", error="hooks.example.org answered 410.")
    clock.advance(3600)

    answer = await retry(node, delivery)

    revived = answer.json()
    assert (answer.status_code, revived["state"], revived["attempts"]) == (200, "pending", 1)
    assert revived["nextAttemptAt"] == revived["updatedAt"]
    assert revived["recipient"] == URL
    assert await ids(node, "state=dead") == []
    queued = "SELECT count(*) FROM {} WHERE workflow_uuid LIKE :key"
    table = "workflow_status" if node.assent.database.dialect == "sqlite" else "dbos.workflow_status"
    rows = await node.assent.database.fetch_page(queued.format(table), {"key": f"deliver:{delivery}:1:retry:%"})
    assert rows[0][0] == 1, "a job was queued for a worker"


async def test_a_sent_callback_can_be_resent(node: Node) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "sent", error=None)

    answer = await retry(node, delivery)

    assert (answer.status_code, answer.json()["state"]) == (200, "pending")
    assert (await stored(node, delivery)).state == "pending"


@pytest.mark.parametrize("state", ["pending", "answered", "superseded"])
async def test_a_pending_answered_or_superseded_delivery_cannot_be_retried(node: Node, state: str) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, state, error=None)
    before = await stored(node, delivery)

    answer = await retry(node, delivery)

    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert await stored(node, delivery) == before


async def test_retrying_a_delivery_twice_returns_409(node: Node) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "dead", error="No.")
    assert [(await retry(node, delivery)).status_code for _ in range(2)] == [200, 409]


async def test_a_retry_request_with_body_fields_is_rejected(node: Node) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "dead", error="No.")
    assert (await retry(node, delivery, json={"force": True})).status_code == 422
    assert (await stored(node, delivery)).state == "dead"


@pytest.mark.parametrize("kind", ["agent", "viewer", "reviewer", "rule-admin", "auditor"])
async def test_only_admins_can_retry_deliveries(node: Node, kind: str) -> None:
    _, delivery = await raised(node)
    await attempted(node, delivery, "dead", error="No.")
    assert (await retry(node, delivery, await node.token(kind))).status_code == 403
    assert (await stored(node, delivery)).state == "dead"


BAD_CALLBACKS = {
    "a private address": "http://10.0.0.1/hook",
    "this machine": "http://localhost:7373/api/breakpoints",
    "this machine in IPv6": "http://[::1]/",
    "the metadata of a cloud": "http://169.254.169.254/latest/meta-data",
    "an address in one number": "http://2130706433/",
    "a password": "https://ann:hunter2@example.org/",
    "a fragment": "https://example.org/#part",
    "a port of mail": "https://example.org:25/",
    "no such port": "https://example.org:99999/",
    "letters outside ASCII": "https://exämple.org/",
    "no host": "https:///hook",
}


@pytest.mark.parametrize("url", BAD_CALLBACKS.values(), ids=BAD_CALLBACKS)
async def test_a_breakpoint_with_a_forbidden_callback_url_is_rejected(shared: Node, url: str) -> None:
    body = {"agentId": "a", "payload": {"question": "?"}, "callbackUrl": url}
    answer = await shared.call("POST", "/api/breakpoints", await shared.token("agent"), json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/callbackUrl")
    assert "hunter2" not in answer.text
    assert (await listed(shared))["items"] == []


async def test_callback_addresses_allowed_by_the_operator_are_accepted(sqlite_settings: Settings) -> None:
    settings = sqlite_settings.model_copy(update={"outbound_allow": ("10.1.0.0/16", "127.0.0.0/8")})
    async with running_node(settings) as node:
        for url in ("http://10.1.2.3/hook", "http://127.0.0.1:8080/"):
            assert (await node.create(callbackUrl=url))["callbackUrl"] == url
        body = {"agentId": "a", "payload": {"question": "?"}, "callbackUrl": "http://10.2.0.1/hook"}
        refused = await node.call("POST", "/api/breakpoints", await node.token("agent"), json=body)
        assert refused.status_code == 422
