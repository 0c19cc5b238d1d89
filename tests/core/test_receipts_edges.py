"""The exact content of receipts, and the details of receipt errors."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from assent.core.access import Actor, Kind
from assent.core.breakpoint import NEVER, Breakpoint, Response, answered, approve_by_rule, cancel, record, release
from assent.core.errors import AssentError, InvalidReceipt, NoReceipt, ReceiptExpired, ReceiptMismatch, ReceiptUsed
from assent.core.importing import VIA
from assent.core.receipts import (
    Approval,
    Approver,
    Receipt,
    Use,
    already_used,
    approval_of,
    check,
    check_time,
    key_id,
    loads,
    nonce,
    parse,
    public_key,
    spelt,
)
from assent.core.strategies import Decision
from assent.core.timestamps import iso
from tests.core.test_receipts import APPROVAL, EVENT, HOUR, ID, KEYS, NOW, OTHER_SEED, PUBLIC, issued

ANN, BOT = Actor(Kind.PERSON, "ann"), Actor(Kind.AGENT, "ci-bot")
BODY: dict[str, Any] = json.loads(issued(used=Use(NOW - 2, "agent:x")).text())
TEXT = issued().text().encode()
MIB = 1024 * 1024


def asked(**changes: Any) -> Breakpoint:
    fields: dict[str, Any] = {
        "id": ID, "project": "shop", "agent_id": "ci-bot", "run_id": None, "title": None, "gate": "deploy",
        "payload": {"question": "Go?"}, "tags": (), "seats": (), "strategy": "single", "risk": None,
        "priority": "normal", "on_timeout": "expire", "ttl_seconds": None, "callback_url": None, "digest": "d" * 64,
        "created_at": NOW, "created_by": BOT, "created_by_id": "tok_1", "due_at": NEVER, "auto_approval": {},
        "warnings": (),
    }  # fmt: skip
    return record(Breakpoint(**fields | changes), "created", actor=BOT, at=NOW)[0]


YES = Response("ann", approved=True, at=NOW + 1, via="slack")


def decided(*responses: Response, decision: Decision = Decision.APPROVED, **more: Any) -> Breakpoint:
    result = answered(decision, responses, last=responses[-1]) | more
    return release(asked(), decision, actor=ANN, at=NOW + 7, result=result)[0]


def refusal(error: type[AssentError], attempt: Any) -> AssentError:
    with pytest.raises(error) as refused:
        attempt()
    assert type(refused.value) is error
    return refused.value


def test_a_receipt_contains_the_approved_content_and_the_releasing_event() -> None:
    current = decided(replace(YES, option="10 %", answers={"why": "x"}, edits={"size": 3}))
    found = approval_of(current, [YES], purged=False)
    assert found == Approval(
        breakpoint_id=ID,
        project="shop",
        gate="deploy",
        agent_id="ci-bot",
        digest="d" * 64,
        event=current.head,
        nonce=hashlib.sha256(f"assent-receipt-nonce/1\n{ID}\n{current.head}".encode()).hexdigest(),
        decision="approved",
        decided_at=NOW + 7,
        approvers=(Approver("person:ann", "slack", NOW + 1, None, override=False),),
        option="10 %",
        answers={"why": "x"},
        edits={"size": 3},
    )


def test_a_receipt_omits_fields_without_a_value() -> None:
    body = approval_of(decided(YES), [YES], purged=False).body()
    assert body.keys().isdisjoint({"option", "answers", "edits"})
    assert body["approvers"] == [{"by": "person:ann", "via": "slack", "at": iso(NOW + 1)}]


def test_a_receipt_lists_only_approvers_with_their_seats() -> None:
    no = Response("bob", approved=False, at=NOW + 2, via="web", seat="ops")
    also = Response("cem", approved=True, at=NOW + 3, via="api", seat="legal", override=True)
    found = approval_of(decided(YES, no, also), [YES, no, also], purged=False)
    assert [each.body() for each in found.approvers] == [
        {"by": "person:ann", "via": "slack", "at": iso(NOW + 1)},
        {"by": "person:cem", "via": "api", "at": iso(NOW + 3), "expert": "legal", "override": True},
    ]


def test_the_receipt_for_an_auto_approval_lists_only_the_rule() -> None:
    current, _ = approve_by_rule(asked(), "rule-1", at=NOW + 4)
    assert approval_of(current, [YES], purged=False).approvers == (Approver("rule:rule-1", "rule", NOW + 4),)


def test_a_receipt_can_be_issued_without_a_stored_result() -> None:
    found = approval_of(decided(YES).but(result=None), [YES], purged=False)
    assert (found.option, found.answers, found.edits) == (None, None, None)


@pytest.mark.parametrize(
    ("current", "word", "standing"),
    [
        (asked(), "waiting", {"status": "waiting", "decision": None}),
        (cancel(asked(), actor=BOT, at=NOW)[0], "cancelled", {"status": "cancelled", "decision": None}),
        (
            decided(replace(YES, approved=False), decision=Decision.REJECTED),
            "rejected",
            {"status": "released", "decision": "rejected"},
        ),
    ],
    ids=["waiting", "cancelled", "rejected"],
)
def test_the_error_for_an_unapproved_breakpoint_includes_its_state(
    current: Breakpoint, word: str, standing: dict[str, Any]
) -> None:
    refused = refusal(NoReceipt, lambda: approval_of(current, [], purged=False))
    assert refused.message == f"{ID} is {word}. Only approved breakpoints have a receipt."
    assert refused.details == {"standing": standing}


def test_purged_and_imported_breakpoints_do_not_have_a_receipt() -> None:
    assert "was purged" in refusal(NoReceipt, lambda: approval_of(decided(YES), [YES], purged=True)).message
    imported = decided(YES, via=VIA)
    assert "was imported" in refusal(NoReceipt, lambda: approval_of(imported, [YES], purged=False)).message


def test_a_receipt_contains_only_the_documented_fields() -> None:
    assert {name: value for name, value in BODY.items() if name != "signature"} == {
        "version": 1,
        "breakpointId": ID,
        "project": "default",
        "gate": "deploy.production",
        "agentId": "ci-bot",
        "digest": "d" * 64,
        "event": EVENT,
        "nonce": nonce(ID, EVENT),
        "decision": "approved",
        "decidedAt": iso(NOW - 5),
        "approvers": [
            {"by": "person:ann", "via": "web", "at": iso(NOW - 6)},
            {"by": "person:bob", "via": "api", "at": iso(NOW - 5), "expert": "ops", "override": True},
        ],
        "option": "10 %",
        "answers": {"why": "x", "n": 1.5},
        "edits": {"size": 3, "deep": {"list": [True, None, "é"]}},
        "issuedAt": iso(NOW - 1),
        "expiresAt": iso(NOW + HOUR),
        "keyId": "rkey_" + hashlib.sha256(b"assent-receipt-key/1\n" + PUBLIC).hexdigest()[:16],
        "used": {"at": iso(NOW - 2), "by": "agent:x"},
    }


def test_a_receipt_is_a_single_line_of_ascii_without_whitespace() -> None:
    text = issued().text()
    assert text.isascii()
    assert text.replace("10 %", "").split() == [text.replace("10 %", "")]
    assert text.startswith('{"version":1,"breakpointId":"')


PLAIN = Approval(
    breakpoint_id=ID,
    project="default",
    gate="go",
    agent_id="bot",
    digest="d" * 64,
    event=EVENT,
    nonce=nonce(ID, EVENT),
    decided_at=NOW - 5,
    approvers=(Approver("person:ann", "web", NOW - 5),),
)
"""An approval without optional fields."""


def test_the_receipt_for_a_minimal_approval_omits_optional_fields() -> None:
    receipt = issued(PLAIN)
    check(loads(receipt.text().encode()), KEYS, now=NOW)
    assert PLAIN.body().keys() == APPROVAL.body().keys() - {"option", "answers", "edits"}
    assert PLAIN.body()["decision"] == "approved"
    assert PLAIN.approvers[0].body() == {"by": "person:ann", "via": "web", "at": iso(NOW - 5)}


def test_equal_approvals_are_hashable_and_deduplicated() -> None:
    again = loads(issued().text().encode()).approval
    assert {APPROVAL, again, PLAIN} == {PLAIN, again}


def test_an_unsigned_receipt_has_an_empty_signature_and_is_rejected() -> None:
    unsigned = Receipt(approval=PLAIN, issued_at=NOW - 1, expires_at=NOW + HOUR, key_id=key_id(PUBLIC))
    assert unsigned.body()["signature"] == ""
    assert "modified" in refusal(InvalidReceipt, lambda: check(unsigned, KEYS, now=NOW)).message
    assert "64 bytes" in refusal(InvalidReceipt, lambda: loads(unsigned.text().encode())).message


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_nan_and_infinity_cannot_be_serialized(number: float) -> None:
    unsigned = Receipt(approval=replace(PLAIN, edits={"n": number}), issued_at=NOW, expires_at=NOW + 1, key_id="k")
    with pytest.raises(ValueError, match="not JSON compliant"):
        unsigned.text()


def test_receipts_larger_than_2_mib_are_rejected() -> None:
    assert loads(TEXT.ljust(2 * MIB)).approval == APPROVAL
    refused = refusal(InvalidReceipt, lambda: loads(TEXT.ljust(2 * MIB + 1)))
    assert refused.message == "The receipt is too large."


def test_an_error_lists_unknown_fields() -> None:
    body = BODY | {"zeal": 1, "also": None}
    assert refusal(InvalidReceipt, lambda: parse(body)).message == "Unknown receipt fields: also, zeal."
    deep = BODY | {"used": BODY["used"] | {"more": 1}}
    assert refusal(InvalidReceipt, lambda: parse(deep)).message == "The receipt is not in canonical form."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("breakpointId", "bp_1"),
        ("breakpointId", ID.upper()),
        ("project", None),
        ("gate", 7),
        ("agentId", []),
        ("digest", "D" * 64),
        ("event", "e" * 63),
        ("nonce", "n" * 64),
        ("decision", "approved!"),
        ("keyId", "rkey_1"),
        ("signature", 7),
        ("option", None),
        ("decidedAt", 7),
    ],
)
def test_an_error_names_the_invalid_field(field: str, value: Any) -> None:
    refused = refusal(InvalidReceipt, lambda: parse(BODY | {field: value}))
    assert refused.message == f"This receipt's {field} field is missing or not valid."
    without = {name: each for name, each in BODY.items() if name != field}
    if field != "option":
        assert refusal(InvalidReceipt, lambda: parse(without)).message == refused.message


@pytest.mark.parametrize("field", ["decidedAt", "issuedAt", "expiresAt"])
@pytest.mark.parametrize("text", ["", "soon", "2027-01-15", "2027-01-15T08:00:00Z", "9999-12-31T23:59:59-23:00"])
def test_an_error_names_the_field_with_an_invalid_time(field: str, text: str) -> None:
    refused = refusal(InvalidReceipt, lambda: parse(BODY | {field: text}))
    assert refused.message == f"This receipt's {field} field is not a valid time."


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"answers": []}, "This receipt's answers field is not an object."),
        ({"edits": None}, "This receipt's edits field is not an object."),
        ({"used": "yes"}, "This receipt's used field is not an object."),
        ({"approvers": []}, "This receipt's approvers field is missing."),
        ({"approvers": {"by": "person:ann"}}, "This receipt's approvers field is missing."),
        ({"approvers": [*BODY["approvers"], 7]}, "This receipt's approvers field is missing."),
        (
            {"approvers": [BODY["approvers"][0] | {"override": False}]},
            "This receipt's override field is not true.",
        ),
        ({"approvers": [BODY["approvers"][0] | {"override": 1}]}, "This receipt's override field is not true."),
        ({"signature": spelt(bytes(63))}, "This receipt's signature is not 64 bytes in base64."),
    ],
)
def test_an_error_names_the_field_with_the_wrong_type(change: dict[str, Any], what: str) -> None:
    assert refusal(InvalidReceipt, lambda: parse(BODY | change)).message == what


@pytest.mark.parametrize("value", [None, [], "receipt", 7])
def test_a_receipt_must_be_a_json_object(value: Any) -> None:
    assert refusal(InvalidReceipt, lambda: parse(value)).message == "A receipt must be a JSON object."


@pytest.mark.parametrize(
    ("name", "field"), [("project", "project"), ("gate", "gate"), ("agent_id", "agent"), ("digest", "digest")]
)
def test_a_mismatch_error_includes_the_expected_and_actual_values(name: str, field: str) -> None:
    refused = refusal(ReceiptMismatch, lambda: check(issued(), KEYS, now=NOW, **{name: "other"}))
    found = getattr(APPROVAL, name)
    assert refused.details == {"field": field, "expected": "other", "found": found}
    assert refused.message == f"This receipt is for the {field} {found}, not for other."


def test_the_error_for_a_used_receipt_includes_the_time_and_user() -> None:
    use = Use(NOW - 2, "agent:x")
    refused = refusal(ReceiptUsed, lambda: check(issued(used=use), KEYS, now=NOW))
    assert refused.details == already_used(APPROVAL, use).details == {"usedAt": iso(NOW - 2), "usedBy": "agent:x"}
    assert refused.message == f"The receipt for {ID} was used at {iso(NOW - 2)} by agent:x. Create a new breakpoint."


@pytest.mark.parametrize("use", [None, Use(NOW - 2, "agent:x")])
def test_the_error_for_an_expired_receipt_includes_its_expiry_and_use(use: Use | None) -> None:
    receipt = issued(used=use)
    check_time(receipt, NOW + HOUR - 1)
    refused = refusal(ReceiptExpired, lambda: check_time(receipt, NOW + HOUR))
    told = {"decidedAt": iso(NOW - 5), "expiresAt": iso(NOW + HOUR)}
    assert refused.details == told | ({"used": {"at": iso(NOW - 2), "by": "agent:x"}} if use else {})
    assert refused.message == f"The receipt for {ID} expired at {iso(NOW + HOUR)}. Create a new breakpoint."


def test_the_error_for_an_untrusted_key_names_it() -> None:
    other = key_id(public_key(OTHER_SEED))
    refused = refusal(InvalidReceipt, lambda: check(issued(seed=OTHER_SEED), KEYS, now=NOW))
    assert refused.details == {"keyId": other}
    assert other in refused.message


@pytest.mark.parametrize(("behind", "right"), [(300_000_000, True), (300_000_001, False)])
def test_verification_tolerates_a_clock_up_to_five_minutes_behind(behind: int, *, right: bool) -> None:
    receipt = issued()
    if right:
        check(receipt, KEYS, now=receipt.issued_at - behind)
    else:
        refusal(InvalidReceipt, lambda: check(receipt, KEYS, now=receipt.issued_at - behind))


def test_a_receipt_can_be_issued_at_the_decision_and_expire_a_microsecond_later() -> None:
    check(issued(issued_at=APPROVAL.decided_at, expires_at=APPROVAL.decided_at + 1), KEYS, now=APPROVAL.decided_at)
