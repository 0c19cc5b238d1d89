"""A receipt is valid only exactly as signed: nothing can be changed, added, removed or parsed differently."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assent.core.canonical import canonical
from assent.core.errors import AssentError, InvalidReceipt, ReceiptExpired, ReceiptMismatch, ReceiptUsed
from assent.core.receipts import (
    MAY_BE_AHEAD,
    Approval,
    Approver,
    Receipt,
    Use,
    check,
    key_id,
    loads,
    nonce,
    parse,
    public_key,
    read_keys,
    sign,
    spelt,
)
from tests.support.receipts import holds

SEED, OTHER_SEED = b"\x01" * 32, b"\x02" * 32
PUBLIC = public_key(SEED)
KEYS = {key_id(PUBLIC): PUBLIC}
NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
ID = "bp_" + "0" * 26
EVENT = "e" * 64

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.none() | st.dictionaries(texts, values, max_size=3)
approvers = st.builds(Approver, texts, texts, st.integers(0, NOW), st.none() | texts, st.booleans())
approvals = st.builds(
    Approval,
    breakpoint_id=st.just(ID),
    project=texts,
    gate=texts,
    agent_id=texts,
    digest=st.just("d" * 64),
    event=st.just(EVENT),
    nonce=st.just(nonce(ID, EVENT)),
    decided_at=st.integers(NOW - HOUR, NOW - 1),
    approvers=st.lists(approvers, min_size=1, max_size=3).map(tuple),
    option=st.none() | texts,
    answers=objects,
    edits=objects,
)
APPROVAL = Approval(
    breakpoint_id=ID,
    project="default",
    gate="deploy.production",
    agent_id="ci-bot",
    digest="d" * 64,
    event=EVENT,
    nonce=nonce(ID, EVENT),
    decided_at=NOW - 5,
    approvers=(Approver("person:ann", "web", NOW - 6), Approver("person:bob", "api", NOW - 5, "ops", override=True)),
    option="10 %",
    answers={"why": "x", "n": 1.5},
    edits={"size": 3, "deep": {"list": [True, None, "é"]}},
)


def issued(approval: Approval = APPROVAL, seed: bytes = SEED, **changes: Any) -> Receipt:
    fields: dict[str, Any] = {
        "issued_at": NOW - 1,
        "expires_at": NOW + HOUR,
        "key_id": key_id(public_key(seed)),
    } | changes
    return sign(Receipt(approval=approval, **fields), seed)


@given(approvals)
def test_every_receipt_can_be_verified_after_a_round_trip(approval: Approval) -> None:
    receipt = issued(approval)
    again = loads(receipt.text().encode())

    check(again, KEYS, now=NOW)
    assert again.text() == receipt.text()


@given(approvals)
def test_a_verifier_written_from_the_documentation_accepts_only_valid_receipts(approval: Approval) -> None:
    receipt, at = issued(approval), datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=NOW)

    assert holds(receipt.text().encode(), spelt(PUBLIC), at=at)
    assert not holds(receipt.text().encode(), spelt(public_key(OTHER_SEED)), at=at)
    assert not holds(receipt.text().encode(), spelt(PUBLIC), at=at + timedelta(hours=1))


def test_the_signature_covers_the_prefix_and_the_canonical_receipt() -> None:
    """This must never change, because third-party programs verify receipts."""
    receipt = issued()
    rest = {name: value for name, value in json.loads(receipt.text()).items() if name != "signature"}

    assert receipt.signed_bytes() == b"assent-receipt/1\n" + canonical(rest)
    signature = Ed25519PrivateKey.from_private_bytes(SEED).sign(receipt.signed_bytes())
    assert json.loads(receipt.text())["signature"] == base64.b64encode(signature).decode()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every value in a JSON value."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from places(each, (*path, name))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def changed(path: tuple[Any, ...], new: Any) -> Any:
    body = json.loads(issued(used=Use(NOW - 2, "agent:x")).text())
    at(body, path[:-1])[path[-1]] = new
    return body


BODY = json.loads(issued(used=Use(NOW - 2, "agent:x")).text())
PLACES = list(places(BODY))


def refused(value: Any) -> None:
    with pytest.raises(InvalidReceipt):
        check(parse(value), KEYS, now=NOW)


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
@settings(max_examples=25)
@given(data=st.data())
def test_changing_any_value_invalidates_a_receipt(path: tuple[Any, ...], data: st.DataObject) -> None:
    old = at(BODY, path)
    like = {str: texts, int: st.integers(-9, 9), float: st.floats(-9, 9), bool: st.booleans()}.get(type(old), values)
    new = data.draw(like | values)
    assume(canonical([new]) != canonical([old]))

    refused(changed(path, new))


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_removing_any_field_invalidates_a_receipt(path: tuple[Any, ...]) -> None:
    body = json.loads(json.dumps(BODY))
    del at(body, path[:-1])[path[-1]]

    refused(body)


@pytest.mark.parametrize("path", [(), ("approvers", 0), ("used",), ("edits",), ("answers",)], ids=str)
def test_adding_any_field_invalidates_a_receipt(path: tuple[Any, ...]) -> None:
    body = json.loads(json.dumps(BODY))
    at(body, path)["more"] = 1

    refused(body)


def test_flipping_any_signature_bit_invalidates_a_receipt() -> None:
    receipt = issued()
    for bit in range(512):
        flipped = bytearray(receipt.signature)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidReceipt, match="modified"):
            check(replace(receipt, signature=bytes(flipped)), KEYS, now=NOW)


def test_removing_the_use_record_from_a_used_receipt_invalidates_it() -> None:
    body = {name: value for name, value in BODY.items() if name != "used"}

    refused(body)
    with pytest.raises(ReceiptUsed, match="agent:x"):
        check(parse(BODY), KEYS, now=NOW)


TEXT = issued().text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '"receipt"',
        "{}",
        TEXT[:-1],
        TEXT + "x",
        TEXT.replace('"project":"default"', '"project":"default","project":"default"'),
        TEXT.replace('"version":1', '"version":2'),
        TEXT.replace('"version":1', '"version":1.0'),
        TEXT.replace('"version":1', '"version":true'),
        TEXT.replace('"version":1', '"version":"1"'),
        TEXT.replace('"option":"10 %"', '"option":null'),
        TEXT.replace('"override":true', '"override":false'),
        TEXT.replace('"decision":"approved"', '"decision":"rejected"'),
        TEXT.replace("Z", "+00:00", 1),
        TEXT.replace("T", " ", 1),
        TEXT.replace("1.5", "NaN"),
        TEXT.replace('"size":3', '"size":9007199254740993'),
        TEXT.replace('=="', '="'),
        TEXT.replace('=="', '==\\n"'),
        TEXT.replace('"approvers":[', '"approvers":[1,'),
        "\ufeff" + TEXT,
    ],
)  # fmt: skip
def test_malformed_receipts_are_rejected(text: str) -> None:
    assert text != TEXT
    with pytest.raises(InvalidReceipt):
        loads(text.encode())


def test_invalid_utf8_and_oversized_receipts_are_rejected() -> None:
    for text in (b"\xff", b" " * (2 * 1024 * 1024 + 1), b"[" * 1000):
        with pytest.raises(InvalidReceipt):
            loads(text)


def test_the_error_for_a_newer_receipt_version_recommends_an_upgrade() -> None:
    with pytest.raises(InvalidReceipt, match="newer version of Assent"):
        parse({"version": 2, "whatever": True})


@given(st.binary(max_size=200) | texts.map(str.encode) | values.map(lambda value: json.dumps(value).encode()))
def test_parsing_arbitrary_input_raises_invalid_receipt(text: bytes) -> None:
    with pytest.raises(InvalidReceipt):
        loads(text)


def test_an_unknown_key_and_a_key_with_the_wrong_id_are_rejected() -> None:
    receipt = issued()
    other = public_key(OTHER_SEED)
    for keys in ({}, {key_id(other): other}, {receipt.key_id: other}):
        with pytest.raises(InvalidReceipt, match="is not trusted"):
            check(receipt, keys, now=NOW)
    with pytest.raises(InvalidReceipt, match="is not trusted"):
        check(issued(seed=OTHER_SEED), KEYS, now=NOW)


def test_a_signature_without_the_receipt_prefix_is_rejected() -> None:
    """The prefix prevents signatures of other kinds of messages from being used for receipts."""
    receipt = issued()
    signature = Ed25519PrivateKey.from_private_bytes(SEED).sign(canonical(receipt.statement()))

    with pytest.raises(InvalidReceipt, match="modified"):
        check(replace(receipt, signature=signature), KEYS, now=NOW)


def test_a_receipt_is_valid_until_its_expiry() -> None:
    receipt = issued()
    check(receipt, KEYS, now=receipt.expires_at - 1)
    for late in (0, 1, HOUR * 9000):
        with pytest.raises(ReceiptExpired):
            check(receipt, KEYS, now=receipt.expires_at + late)


def test_verification_fails_if_the_clock_is_far_behind() -> None:
    receipt = issued()
    check(receipt, KEYS, now=receipt.issued_at - MAY_BE_AHEAD)
    with pytest.raises(InvalidReceipt, match="clock"):
        check(receipt, KEYS, now=receipt.issued_at - MAY_BE_AHEAD - 1)


@pytest.mark.parametrize(
    "changes",
    [{"issued_at": NOW - 6}, {"expires_at": NOW - 1}, {"expires_at": NOW - 2}],
    ids=["issued before the decision", "expired when issued", "expired before"],
)
def test_signed_receipts_with_times_out_of_order_are_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidReceipt, match="out of order"):
        check(issued(**changes), KEYS, now=NOW - 3)


@pytest.mark.parametrize("field", ["project", "gate", "agent_id", "digest"])
def test_a_receipt_is_valid_only_for_its_own_project_gate_agent_and_content(field: str) -> None:
    check(issued(), KEYS, now=NOW, **{field: getattr(APPROVAL, field)})
    for other in ("", "other", getattr(APPROVAL, field) + "x", getattr(APPROVAL, field).upper()):
        with pytest.raises(ReceiptMismatch):
            check(issued(), KEYS, now=NOW, **{field: other})


def test_the_signature_is_verified_before_anything_else() -> None:
    """Without a valid signature, no field can be trusted, not even the expiration time."""
    wrong = replace(issued(), signature=bytes(64), expires_at=NOW - HOUR, used=Use(NOW, "x"))
    with pytest.raises(InvalidReceipt, match="modified"):
        check(wrong, KEYS, now=NOW, digest="other")


def test_only_the_canonical_encoding_of_a_public_key_is_accepted() -> None:
    one, two = spelt(PUBLIC), spelt(public_key(OTHER_SEED))

    assert read_keys(one) == KEYS
    assert read_keys(f" {one},{two}\n") == KEYS | {key_id(public_key(OTHER_SEED)): public_key(OTHER_SEED)}
    for text in ("", ",", "x", one[:-1], one + one, f"{one},x", one.replace("=", ""), spelt(bytes(31)), "\u00e9" * 44):
        with pytest.raises(InvalidReceipt, match="not a public key"):
            read_keys(text)


def test_receipt_errors_are_complete_sentences() -> None:
    receipt = issued()
    said = []
    for attempt in (
        lambda: loads(b"{}"),
        lambda: check(receipt, {}, now=NOW),
        lambda: check(receipt, KEYS, now=NOW + HOUR),
        lambda: check(receipt, KEYS, now=NOW, gate="other"),
        lambda: read_keys("x"),
    ):
        with pytest.raises(AssentError) as refusal:
            attempt()
        said.append(refusal.value.message)
    assert all(each.endswith(".") and each[0].isupper() for each in said), said
