"""Receipts over HTTP: issued to authorized callers, verifiable by anyone, and usable once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assent.core.receipts import spelt
from assent.policy.store.receipts import Receipts
from assent.policy.usecases.receipts import ReceiptService
from tests.support.nodes import ManualClock, Node
from tests.support.receipts import holds

CONSUME, KEYS, ROTATE = "/api/receipts/consume", "/api/receipts/keys", "/api/receipts/keys/rotate"


async def approved(node: Node, **body: Any) -> str:
    made = await node.create(**body)
    answer = await node.feedback(made["id"], await node.token("reviewer"), release=True)
    assert answer.json()["decision"] == "approved", answer.text
    return str(made["id"])


async def receipt_of(node: Node, breakpoint_id: str, token: str | None = None) -> Any:
    return await node.call("GET", f"/api/breakpoints/{breakpoint_id}/receipt", token or await node.token("agent"))


async def consume(node: Node, receipt: Any, token: str | None = None, **headers: str) -> Any:
    who = token or await node.token("agent")
    return await node.call("POST", CONSUME, who, json={"receipt": receipt}, headers=headers)


def moment(clock: ManualClock) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=clock.now())


async def test_a_verifier_written_from_the_documentation_accepts_a_receipt(node: Node, clock: ManualClock) -> None:
    payload = {"question": "Größe?", "breakpointId": "deploy.😀"}
    answer = await receipt_of(node, await approved(node, payload=payload))
    keys = (await node.call("GET", KEYS, await node.token("agent"))).json()["items"]

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert [each["state"] for each in keys] == ["current"]
    assert holds(answer.content, keys[0]["publicKey"], at=moment(clock))
    assert answer.json()["gate"] == "deploy.😀"


async def test_a_receipt_can_be_used_once_and_a_second_use_reports_the_first(node: Node) -> None:
    breakpoint_id = await approved(node)
    receipt = (await receipt_of(node, breakpoint_id)).json()
    first, second = await consume(node, receipt), await consume(node, receipt)

    assert first.status_code == 200
    assert {"breakpointId": breakpoint_id, "nonce": receipt["nonce"]}.items() <= first.json().items()
    assert (second.status_code, second.json()["code"]) == (409, "receipt_used")
    assert (second.json()["usedAt"], second.json()["usedBy"]) == (first.json()["usedAt"], first.json()["usedBy"])
    shown = (await receipt_of(node, breakpoint_id)).json()
    assert shown["used"] == {"at": first.json()["usedAt"], "by": first.json()["usedBy"]}


async def test_using_a_receipt_does_not_change_the_breakpoints_history(node: Node) -> None:
    breakpoint_id = await approved(node)
    address = f"/api/breakpoints/{breakpoint_id}"
    agent = await node.token("agent")
    before = [(await node.call("GET", f"{address}{more}", agent)).text for more in ("", "/events")]
    await consume(node, (await receipt_of(node, breakpoint_id)).json())

    assert [(await node.call("GET", f"{address}{more}", agent)).text for more in ("", "/events")] == before


async def test_only_one_of_many_simultaneous_requests_uses_a_receipt(node: Node) -> None:
    receipt = (await receipt_of(node, await approved(node))).json()
    found = await asyncio.gather(*(consume(node, receipt) for _ in range(12)))

    assert sorted(each.status_code for each in found) == [200, *[409] * 11]


async def test_a_retried_request_gets_the_same_response(node: Node) -> None:
    receipt = (await receipt_of(node, await approved(node))).json()
    first = await consume(node, receipt, **{"idempotency-key": "k1"})
    again = await consume(node, receipt, **{"idempotency-key": "k1"})
    other = await consume(node, receipt, **{"idempotency-key": "k2"})

    assert first.json() == again.json()
    assert (again.status_code, other.status_code) == (200, 409)


@pytest.mark.parametrize("field", ["digest", "gate", "agentId", "project", "expiresAt", "nonce", "keyId", "signature"])
async def test_an_altered_receipt_is_rejected_and_stays_unused(node: Node, field: str) -> None:
    receipt = (await receipt_of(node, await approved(node))).json()
    other = receipt[field].replace(receipt[field][5], "1" if receipt[field][5] != "1" else "2", 1)
    refused = await consume(node, receipt | {field: other})

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_receipt")
    assert (await consume(node, receipt)).status_code == 200


@pytest.mark.parametrize("receipt", [{}, {"version": 2}, {"version": 1}, {"version": 1, "signature": "x"}])
async def test_an_invalid_receipt_returns_422(node: Node, receipt: Any) -> None:
    refused = await consume(node, receipt)

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_receipt")


@pytest.mark.parametrize("body", [{}, {"receipt": 1}, {"receipt": None}, {"receipt": {}, "more": 1}, []])
async def test_a_body_without_a_receipt_returns_422(node: Node, body: Any) -> None:
    refused = await node.call("POST", CONSUME, await node.token("agent"), json=body)

    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


async def test_a_duplicate_field_in_a_receipt_is_rejected(node: Node) -> None:
    receipt = (await receipt_of(node, await approved(node))).text
    twice = receipt.replace('"project":"default"', '"project":"default","project":"default"')
    headers = {"content-type": "application/json"}
    agent = await node.token("agent")
    refused = await node.call("POST", CONSUME, agent, content=f'{{"receipt":{twice}}}', headers=headers)

    assert (refused.status_code, refused.json()["code"]) == (400, "malformed_json")


async def test_only_an_approval_has_a_receipt(node: Node) -> None:
    waiting, rejected = await node.create(), await node.create()
    await node.feedback(rejected["id"], await node.token("reviewer"), approved=False)

    for made, standing in ((waiting, "waiting"), (rejected, "released")):
        refused = await receipt_of(node, made["id"])
        assert (refused.status_code, refused.json()["code"]) == (409, "no_receipt")
        assert refused.json()["standing"]["status"] == standing


async def test_an_expired_approval_has_no_receipt(node: Node, clock: ManualClock) -> None:
    breakpoint_id = await approved(node)
    receipt = (await receipt_of(node, breakpoint_id)).json()
    clock.advance(3600)
    late, unused = await receipt_of(node, breakpoint_id), await consume(node, receipt)

    for refused in (late, unused):
        assert (refused.status_code, refused.json()["code"]) == (409, "receipt_expired")
        assert refused.json()["expiresAt"] == receipt["expiresAt"]


async def test_another_agent_can_use_a_receipt_only_as_its_named_consumer(node: Node) -> None:
    deployer = await node.token("agent", name="deployer", agent_ids=("deploy-bot",))
    stranger = await node.token("agent", name="stranger")
    breakpoint_id = await approved(node, payload={"question": "Deploy?", "consumer": "deploy-*"})
    receipt = (await receipt_of(node, breakpoint_id)).json()

    assert (await receipt_of(node, breakpoint_id, deployer)).status_code == 404
    for who in (stranger, await node.person("rey", "reviewer"), await node.token("admin")):
        assert (await consume(node, receipt, who)).status_code == 403
    assert (await consume(node, receipt, deployer)).json()["usedBy"] == "agent:deployer"


async def test_another_project_sees_neither_the_receipt_nor_the_keys(node: Node) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "shop"})
    neighbour = await node.token("agent", project="shop")
    breakpoint_id = await approved(node)
    receipt = (await receipt_of(node, breakpoint_id)).json()
    keys = (await node.call("GET", KEYS, neighbour)).json()["items"]

    assert (await receipt_of(node, breakpoint_id, neighbour)).status_code == 404
    assert receipt["keyId"] not in {each["keyId"] for each in keys}
    assert (await consume(node, receipt, neighbour)).json()["code"] == "invalid_receipt"
    assert (await consume(node, receipt)).status_code == 200


async def test_a_viewer_cannot_use_a_receipt(node: Node) -> None:
    receipt = (await receipt_of(node, await approved(node))).json()
    viewer = await node.person("vera", "viewer")

    assert (await receipt_of(node, receipt["breakpointId"], viewer)).status_code == 200
    assert (await consume(node, receipt, viewer)).status_code == 403


async def test_only_admins_can_rotate_keys_and_old_keys_stay_listed(node: Node, clock: ManualClock) -> None:
    admin, agent = await node.token("admin"), await node.token("agent")
    receipt = await receipt_of(node, await approved(node))
    assert (await node.call("POST", ROTATE, agent, json={})).status_code == 403
    assert (await node.call("POST", ROTATE, admin, json={"revoke": "yes"})).status_code == 422
    rotated = (await node.call("POST", ROTATE, admin, json={})).json()["items"]
    revoked = (await node.call("POST", ROTATE, admin, json={"revoke": True})).json()["items"]

    assert [each["state"] for each in rotated] == ["current", "retired"]
    assert holds(receipt.content, rotated[1]["publicKey"], at=moment(clock))
    assert [each["state"] for each in revoked] == ["current", "revoked", "revoked"]
    assert (await node.call("GET", KEYS, agent)).json()["items"] == revoked
    assert (await consume(node, receipt.json())).json()["code"] == "invalid_receipt"


async def test_the_private_key_is_never_shown(node: Node) -> None:
    text = (await receipt_of(node, await approved(node))).text
    keys = (await node.call("GET", KEYS, await node.token("admin"))).text

    def seed(tx: Any) -> bytes:
        return node.assent[ReceiptService]._seed(tx, tx[Receipts].keys("default")[0])

    secret = await node.assent.database.read(seed)
    for spelling in (spelt(secret), secret.hex()):
        assert spelling not in text + keys
