"""Receipts in the SDK: the digest equals the server's, and anything that does not match is rejected."""

import base64
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.contracts import receipts as wire
from assent.core.receipts import key_id, public_key, spelt
from assent.kernel.settings import Settings
from assent.sdk import protocol, receipts
from assent.sdk.client import Assent
from assent.sdk.errors import (
    InvalidReceipt,
    InvalidRequest,
    NoReceipt,
    ReceiptExpired,
    ReceiptMismatch,
    ReceiptUsed,
    UnexpectedAnswer,
)
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Lost, Pace, Reply
from assent.sdk.receipts import Receipt, ReceiptKey, content_digest
from tests.core.test_receipts import APPROVAL, ID, KEYS, NOW, issued
from tests.sdk.test_protocol import World
from tests.support.nodes import prepared, server

SECONDS = NOW / 1_000_000


@dataclass(frozen=True)
class Place:
    """A running server and its tokens."""

    url: str
    agent_token: str
    reviewer_token: str

    def agent(self) -> Assent:
        return Assent(self.url, self.agent_token)

    def approved(self, **asking: Any) -> str:
        with self.agent() as agent:
            made = agent.create("Shall I?", **({"agent_id": "tester"} | asking))
        with Assent(self.url, self.reviewer_token) as reviewer:
            return reviewer.approve(made.id).id


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Settings(data_dir=tmp_path_factory.mktemp("receipts") / "data")
    agent, reviewer = prepared(made, "agent", "reviewer")
    with server(made) as process:
        yield Place(process.url, agent, reviewer)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = st.text("abcXYZ 0-9é漢", min_size=1, max_size=10).filter(str.strip)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
contents = st.one_of(
    st.builds(lambda text: {"content": text}, texts),
    st.builds(lambda data: {"contentBase64": base64.b64encode(data).decode()}, st.binary(max_size=30)),
    st.just({}),
)
entries = st.builds(
    lambda path, content, language: {"path": path, "format": "text", **content, **language},
    names,
    contents,
    st.sampled_from([{}, {"language": "python"}, {"language": None}]),
)
payloads = st.fixed_dictionaries(
    {},
    optional={
        "question": texts,
        "tags": st.lists(names, max_size=3),
        "breakpointId": st.text("abc.-", min_size=1, max_size=9),
        "options": st.lists(names, min_size=1, max_size=3, unique=True),
        "attempt": st.integers(0, 9),
        "hardStop": st.booleans(),
        "context": st.fixed_dictionaries({}, optional={"files": st.lists(entries, max_size=2), "more": values}),
        "anything": values,
        "\U0001f600": values,
        "\ufb33": values,
    },
)
bodies = st.fixed_dictionaries(
    {"agentId": names, "payload": payloads},
    optional={"title": names, "runId": names, "tags": st.lists(names, max_size=3), "priority": st.just("high")},
)


@settings(max_examples=150)
@given(body=bodies)
def test_the_client_computes_the_same_digest_as_the_server(place: Place, body: Any) -> None:
    answer = httpx2.post(
        f"{place.url}/api/breakpoints",
        content=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {place.agent_token}", "Content-Type": "application/json"},
        timeout=60,
    )

    assert answer.status_code == 201, answer.text
    assert content_digest(body, project="default") == answer.json()["digest"]
    assert content_digest(body, project="other") != answer.json()["digest"]


def test_the_digest_covers_inline_and_uploaded_files(place: Place) -> None:
    files = [
        ContextFile("plan.md", "markdown", "# Größe\n".encode()),
        ContextFile("a.bin", "image", b"\x00\xff"),
        ContextFile("big.txt", "text", b"x" * (protocol.INLINE_BYTES + 1)),
    ]
    asking: Any = {"agent_id": "a", "title": "T", "tags": ("x", "y"), "payload": {"pair": (1, 2.5)}}
    with place.agent() as agent:
        raised = agent.create("Go?", files=files, **asking)
    body = protocol.creation("Go?", asking)

    assert content_digest(body, files, project="default") == raised.digest
    for other in (files[:2], [files[0], ContextFile("a.bin", "image", b"\x00\xfe"), files[2]], list(reversed(files))):
        assert content_digest(body, other, project="default") != raised.digest


@pytest.mark.parametrize(
    "body", [{}, {"agentId": "a"}, {"agentId": "a", "payload": 1}, {"agentId": "a", "payload": {"x": float("nan")}}]
)
def test_an_invalid_breakpoint_has_no_digest(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        content_digest(body, project="default")


def test_a_receipt_can_be_consumed_only_once(place: Place) -> None:
    body = protocol.creation("Shall I?", {"agent_id": "tester", "payload": {"size": 3}})
    with place.agent() as agent:
        receipt = agent.receipt(place.approved(payload={"size": 3}))
        digest = content_digest(body, project=receipt.approval.project)
        use = agent.consume_receipt(receipt, digest=digest)
        with pytest.raises(ReceiptUsed, match="was used at"):
            agent.consume_receipt(receipt, digest=digest)

    assert (use.breakpoint_id, use.nonce) == (receipt.approval.breakpoint_id, receipt.approval.nonce)


def test_different_arguments_are_rejected_without_consuming_the_receipt(place: Place) -> None:
    other = protocol.creation("Shall I?", {"agent_id": "tester", "payload": {"size": 4}})
    with place.agent() as agent:
        receipt = agent.receipt(place.approved(payload={"size": 3}))
        with pytest.raises(ReceiptMismatch, match="digest"):
            agent.consume_receipt(receipt, digest=content_digest(other, project="default"))
        others: list[dict[str, Any]] = [{"gate": "other"}, {"agent_id": "other"}, {"project": "other"}]
        for expected in others:
            with pytest.raises(ReceiptMismatch):
                agent.consume_receipt(receipt, **expected)
        agent.consume_receipt(receipt)


def test_a_pinned_key_is_trusted_instead_of_the_keys_from_the_server(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.agent() as agent:
        receipt = agent.receipt(place.approved())
        (ours,) = agent.receipt_keys().items
        monkeypatch.setenv("ASSENT_RECEIPT_KEY", spelt(public_key(b"\x07" * 32)))
        with pytest.raises(InvalidReceipt, match="is not trusted"):
            agent.consume_receipt(receipt)
        monkeypatch.setenv("ASSENT_RECEIPT_KEY", "nonsense")
        with pytest.raises(InvalidReceipt, match="not a public key"):
            agent.consume_receipt(receipt)
        monkeypatch.setenv("ASSENT_RECEIPT_KEY", ours.public_key)
        agent.consume_receipt(receipt)


def test_waiting_and_rejected_breakpoints_have_no_receipt(place: Place) -> None:
    with place.agent() as agent, Assent(place.url, place.reviewer_token) as reviewer:
        made = agent.create("No?", agent_id="a")
        with pytest.raises(NoReceipt, match="waiting"):
            agent.receipt(made.id)
        reviewer.reject(made.id)
        with pytest.raises(NoReceipt, match="rejected"):
            agent.receipt(made.id)


def test_check_rejects_expired_and_mismatched_receipts() -> None:
    receipts.check(issued(), KEYS, now=SECONDS, digest=APPROVAL.digest)
    with pytest.raises(ReceiptExpired):
        receipts.check(issued(), KEYS, now=SECONDS + 3600)
    with pytest.raises(ReceiptMismatch):
        receipts.check(issued(), KEYS, now=SECONDS, digest="0" * 64)


def said(body: Any, status: int = 200) -> Reply:
    return Reply(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


def fetched(reply: Reply, breakpoint_id: str = ID) -> Receipt:
    result: Receipt = World([(0, reply)]).run(lambda pace: receipts.fetching(breakpoint_id, pace=pace, patience=0))
    return result


def test_receipts_from_the_server_are_parsed_strictly() -> None:
    text = issued().text()

    assert fetched(said(text.encode())) == issued()
    for wrong in (
        text.replace('"version":1', '"version":1,"version":1'),
        text.replace('"version":1', '"version":1,"more":1'),
        text.replace('"version":1', '"version":3'),
        "{}",
        "[]",
    ):
        with pytest.raises(InvalidReceipt):
            fetched(said(wrong.encode()))
    with pytest.raises(UnexpectedAnswer):
        fetched(said(b"<html>"))
    with pytest.raises(ReceiptMismatch):
        fetched(said(text.encode()), "bp_" + "1" * 26)


def used(**changes: Any) -> Reply:
    told = {"breakpointId": ID, "nonce": APPROVAL.nonce, "usedAt": "t", "usedBy": "agent:a"}
    return said(told | changes)


def consuming(pace: Pace) -> Any:
    return receipts.consuming(issued(), key="k", pace=pace, patience=10)


def test_a_consume_request_whose_response_was_lost_is_retried_with_the_same_key() -> None:
    world = World([(0, Lost("broken", sent=True)), (0, said({}, 503)), (0, used())])

    assert world.run(consuming).used_by == "agent:a"
    assert [each.headers["Idempotency-Key"] for each in world.requests] == ["k"] * 3
    assert len({each.body for each in world.requests}) == 1


@pytest.mark.parametrize("changes", [{"nonce": "0" * 64}, {"breakpointId": "bp_x"}])
def test_a_response_about_another_receipt_is_rejected(changes: dict[str, str]) -> None:
    with pytest.raises(UnexpectedAnswer, match="a different receipt"):
        World([(0, used(**changes))]).run(consuming)


def test_an_invalid_receipt_is_not_consumed() -> None:
    def flow(pace: Pace) -> Any:
        return receipts.accepting(
            issued(), keys=KEYS, now=SECONDS, key=uuid.uuid4().hex, pace=pace, patience=0, digest="0" * 64
        )

    world = World([])
    with pytest.raises(ReceiptMismatch):
        world.run(flow)
    assert world.requests == []


def key(**changes: Any) -> ReceiptKey:
    public = public_key(b"\x01" * 32)
    fields = {"key_id": key_id(public), "public_key": spelt(public), "state": "current", "project": "default"}
    return ReceiptKey(**(fields | {"created_at": "t", "created_by": "x"} | changes))


def test_revoked_keys_are_not_trusted_and_mislabeled_keys_are_rejected() -> None:
    assert receipts.trusted([key()]) == receipts.trusted([key(state="retired")]) == KEYS
    assert receipts.trusted([key(state="revoked")]) == {}
    for wrong in (key(key_id="rkey_0000000000000000"), key(public_key="x"), key(public_key="")):
        with pytest.raises(InvalidReceipt):
            receipts.trusted([wrong])


def test_pinned_returns_none_without_a_key_and_raises_for_an_invalid_one() -> None:
    assert receipts.pinned({}) is None
    assert receipts.pinned({"ASSENT_RECEIPT_KEY": " "}) is None
    assert receipts.pinned({"ASSENT_RECEIPT_KEY": spelt(public_key(b"\x01" * 32))}) == KEYS
    with pytest.raises(InvalidReceipt):
        receipts.pinned({"ASSENT_RECEIPT_KEY": "x"})


def test_the_wire_model_has_every_receipt_field() -> None:
    msgspec.convert(issued().body(), wire.Receipt)
    assert set(json.loads(issued().text())) <= set(wire.Receipt.__struct_encode_fields__)
