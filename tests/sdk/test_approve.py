"""`@approve`: the function runs only if this exact call was approved."""

import asyncio
import base64
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from assent import AsyncAssent, approve, require_approval
from assent.contracts.breakpoints import Breakpoint, BreakpointSummary
from assent.core.receipts import Approval, Approver, Receipt, key_id, public_key, sign, spelt
from assent.core.timestamps import iso
from assent.kernel.settings import Settings
from assent.sdk.arguments import HIDDEN
from assent.sdk.client import Assent
from assent.sdk.errors import (
    ArgumentsRefused,
    AssentError,
    Cancelled,
    CannotAsk,
    DigestMismatch,
    Expired,
    InvalidReceipt,
    InvalidRequest,
    NotApproved,
    ReceiptExpired,
    ReceiptMismatch,
    ReceiptUsed,
    Rejected,
    Unreachable,
)
from assent.sdk.gating import Gate, gate_of
from assent.sdk.receipts import content_digest
from tests.sdk.scripted import Hang, Line, Say, scripted
from tests.sdk.test_client import ID, WHOLE
from tests.support.nodes import free_port, prepared, server
from tests.support.until import until

SEED = b"s" * 32
MICRO = 1_000_000


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the configured server, and use a separate journal."""
    for name in ("ASSENT_URL", "ASSENT_TOKEN", "ASSENT_AGENT_ID", "ASSENT_RECEIPT_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSENT_LOCAL_DIR", str(tmp_path / "local"))


class Bank:
    """Makes payments that require approval, and records them."""

    def __init__(self) -> None:
        self.paid: list[tuple[Any, ...]] = []

    def pay(self, amount: int, to: str, *, password: str = "s3cret") -> str:
        self.paid.append((amount, to, password))
        return f"paid {amount}"

    def gated(self, client: Any = None, **options: Any) -> Callable[..., str]:
        @approve("Pay {amount} to {to}?", client=client, hide=("password",), agent_id="bank", **options)
        def pay(amount: int, to: str, *, password: str = "s3cret") -> str:
            return self.pay(amount, to, password=password)

        return pay

    def gated_async(self, client: Any = None, **options: Any) -> Callable[..., Any]:
        @approve("Pay {amount} to {to}?", client=client, hide=("password",), agent_id="bank", **options)
        async def pay(amount: int, to: str, *, password: str = "s3cret") -> str:
            return self.pay(amount, to, password=password)

        return pay


def nothing(amount: int, *rest: int, **more: int) -> None:
    raise AssertionError(amount, rest, more)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"editable": ("amout",)}, ValueError),
        ({"editable": ("rest",)}, ValueError),
        ({"editable": ("more",)}, ValueError),
        ({"editable": ("amount",), "hide": ("amount",)}, ValueError),
        ({"editable": "amount"}, TypeError),
        ({"hide": "password"}, TypeError),
        ({"ttl_second": 5}, TypeError),
        ({"title": "{nobody}"}, ValueError),
        ({"question": "{nobody}"}, ValueError),
        ({"client": object()}, TypeError),
        ({"hide": ("amount",), "auto_approve_after_n": 3}, InvalidRequest),
        ({"client": AsyncAssent("http://127.0.0.1:9", "t")}, TypeError),
    ],
)
def test_invalid_options_are_rejected_when_the_function_is_decorated(
    options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        approve(**options)(nothing)


def test_using_approve_without_parentheses_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="parentheses"):
        approve(nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", [int, Bank, property(nothing), 5])
def test_only_functions_can_be_gated(what: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        approve()(what)


def test_a_gated_function_keeps_its_name_and_docstring() -> None:
    gated = approve()(nothing)

    assert (gated.__name__, gated.__doc__, gated.__wrapped__) == ("nothing", None, nothing)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "gate"),
    [("bank.pay", "call.bank.pay"), ("__main__.pay", "call.main.pay"), ("m.f.<locals>.g", "call.m.f.local.g")],
)
def test_a_gate_is_named_after_the_module_and_the_function(function: str, gate: str) -> None:
    assert gate_of(function) == gate


def asked_of(**options: Any) -> dict[str, Any]:
    def pay(amount: int, to: str = "ann", *rest: int, password: str = "s3cret", **more: Any) -> None:
        raise AssertionError(amount, to, rest, password, more)

    gate = Gate.of(pay, "Pay {amount}?", editable=("amount",), hide=("password",), terms=options)  # type: ignore[arg-type]
    return gate.asked(gate.bind(5, "bob", 1, note="n")).body


def test_reviewers_see_the_function_and_all_of_its_arguments() -> None:
    body = asked_of(ttl_seconds=60, tags=lambda amount, *_, **__: [f"over-{amount - 1}"], title="Pay {to}", risk="low")
    payload = body["payload"]

    assert payload["question"] == "Pay 5?"
    assert payload["function"].endswith("asked_of.<locals>.pay")
    assert payload["arguments"] == {
        "amount": 5, "to": "bob", "rest": [1], "password": HIDDEN, "more": {"note": "n"},
    }  # fmt: skip
    assert (payload["editable"], payload["risk"], len(payload["callDigest"])) == (["amount"], "low", 64)
    assert payload["hidden"] == ["password"]
    assert (body["ttlSeconds"], body["tags"], body["title"]) == (60, ["over-4"], "Pay bob")


def test_the_former_name_of_ttl_seconds_is_still_accepted() -> None:
    assert asked_of(ttl=60)["ttlSeconds"] == asked_of(ttl_seconds=60)["ttlSeconds"] == 60


def test_passing_both_ttl_and_ttl_seconds_is_rejected() -> None:
    with pytest.raises(TypeError, match="ttl_seconds"):
        asked_of(ttl=60, ttl_seconds=60)


def test_the_agent_id_defaults_to_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENT_AGENT_ID", "payer")

    assert asked_of()["agentId"] == "payer"


async def test_nothing_runs_without_a_server_or_a_terminal() -> None:
    bank = Bank()

    with pytest.raises(CannotAsk):
        await asyncio.to_thread(bank.gated(), 5, "ann")
    with pytest.raises(CannotAsk):
        await bank.gated_async()(5, "ann")
    with pytest.raises(CannotAsk):
        await asyncio.to_thread(require_approval, "Shall I?")
    assert bank.paid == []


async def test_an_unreachable_server_does_not_count_as_approval() -> None:
    bank, url = Bank(), f"http://127.0.0.1:{free_port()}"

    with Assent(url, "t", patience=0) as client, pytest.raises(Unreachable):
        bank.gated(client)(5, "ann")
    async with AsyncAssent(url, "t", patience=0) as other:
        with pytest.raises(Unreachable):
            await bank.gated_async(other)(5, "ann")
    assert bank.paid == []


@pytest.mark.parametrize("said", [None, 0, "", "False", True])
def test_the_approval_is_skipped_only_if_the_predicate_returns_exactly_false(said: Any) -> None:
    bank = Bank()

    with pytest.raises(CannotAsk):
        bank.gated(when=lambda *_, **__: said)(5, "ann")
    assert bank.paid == []


async def test_a_call_that_needs_no_approval_runs_immediately() -> None:
    bank = Bank()

    def over_ten(amount: int, to: str, *, password: str) -> bool:
        return amount > 10 or (to, password) == ("", "")

    assert bank.gated(when=over_ten)(5, "ann") == "paid 5"
    assert await bank.gated_async(when=over_ten)(7, to="bob") == "paid 7"
    assert bank.paid == [(5, "ann", "s3cret"), (7, "bob", "s3cret")]


def test_an_exception_in_the_predicate_blocks_the_call() -> None:
    bank = Bank()

    with pytest.raises(ZeroDivisionError):
        bank.gated(when=lambda *_, **__: 1 // 0)(5, "ann")
    assert bank.paid == []


def test_invalid_arguments_raise_before_a_breakpoint_is_created() -> None:
    with pytest.raises(TypeError, match="missing"):
        Bank().gated()(5)


def body_of(amount: int = 5, to: str = "ann") -> dict[str, Any]:
    gate = Gate.of(
        pay_for_body, "Pay {amount} to {to}?", editable=("amount",), hide=("password",), terms={"agent_id": "bank"}
    )
    return gate.asked(gate.bind(amount, to)).body


def pay_for_body(amount: int, to: str, *, password: str = "s3cret") -> str:
    BANK.pay(amount, to, password=password)
    return f"paid {amount}"


BANK = Bank()


@dataclass
class Court:
    """The server's responses after the question, correctly signed unless a test changes them."""

    digest: str
    edits: dict[str, Any] | None = None
    seed: bytes = SEED
    lasts: int = 600

    def receipt(self) -> Receipt:
        now = time.time_ns() // 1000
        approval = Approval(
            breakpoint_id=ID, project="default", gate=body_of()["payload"]["breakpointId"], agent_id="bank",
            digest=self.digest, event="e" * 64, nonce="f" * 64, decided_at=now - 2000 * MICRO,
            approvers=(Approver("person:ann", "api", now - 2000 * MICRO),), edits=self.edits,
        )  # fmt: skip
        blank = Receipt(
            approval=approval, issued_at=now - 1000 * MICRO, expires_at=now + self.lasts * MICRO,
            key_id=key_id(public_key(self.seed)),
        )  # fmt: skip
        return sign(blank, self.seed)

    def script(self, receipt: Receipt | None = None) -> list[Line]:
        public = public_key(SEED)
        key = {
            "keyId": key_id(public), "publicKey": spelt(public), "state": "current", "project": "default",
            "createdAt": "t", "createdBy": "s",
        }  # fmt: skip
        result = {
            "approved": True, "status": "released", "decision": "approved", "auto": False,
            "allResponses": [{"approved": True} | ({"edits": self.edits} if self.edits else {})],
        } | ({"edits": self.edits} if self.edits else {})  # fmt: skip
        use = {"breakpointId": ID, "nonce": "f" * 64, "usedAt": iso(0), "usedBy": "agent:bank"}
        return [
            Say(201, WHOLE | {"digest": content_digest(body_of(), project="default")}),
            Say(200, {"status": "released", "decision": "approved", "updatedAt": "t", "result": result}),
            Say(200, (receipt or self.receipt()).body()),
            Say(200, {"items": [key]}),
            Say(200, use),
        ]


def gated(client: Any) -> Callable[..., str]:
    return approve("Pay {amount} to {to}?", editable=("amount",), hide=("password",), agent_id="bank", client=client)(
        pay_for_body
    )


@pytest.fixture
def court() -> Court:
    BANK.paid.clear()
    return Court(content_digest(body_of(), project="default"))


def tried(script: list[Line], error: type[Exception] | None = None) -> list[str]:
    """Call the gated function against the script, and return the requested paths."""
    expectation: Any = pytest.raises(error) if error else contextlib.nullcontext()
    with scripted(script) as fake, Assent(fake.url, "t", patience=0) as client, expectation:
        gated(client)(5, "ann")
    assert bool(BANK.paid) is (error is None)
    return [heard.path for heard in fake.heard]


def test_the_receipt_is_fetched_verified_and_consumed_before_the_function_runs(court: Court) -> None:
    assert tried(court.script())[2:] == [
        f"/api/breakpoints/{ID}/receipt",
        "/api/receipts/keys",
        "/api/receipts/consume",
    ]
    assert BANK.paid == [(5, "ann", "s3cret")]


def test_edits_confirmed_by_the_receipt_are_applied(court: Court) -> None:
    court.edits = {"amount": 3}
    tried(court.script())

    assert BANK.paid == [(3, "ann", "s3cret")]


@pytest.mark.parametrize("edits", [{"to": "eve"}, {"amount": "5"}, {"amount": 3, "password": "x"}, {"nothing": 1}])
def test_invalid_edits_are_rejected_without_consuming_the_receipt(court: Court, edits: dict[str, Any]) -> None:
    court.edits = edits

    assert len(tried(court.script(), ArgumentsRefused)) == 2


def test_a_receipt_for_different_arguments_is_rejected(court: Court) -> None:
    court.digest = content_digest(body_of(amount=6), project="default")

    assert "/api/receipts/consume" not in tried(court.script(), ReceiptMismatch)


def test_a_receipt_for_different_edits_is_rejected(court: Court) -> None:
    court.edits = {"amount": 3}
    other = replace(court, edits={"amount": 4}).receipt()

    assert "/api/receipts/consume" not in tried(court.script(other), ReceiptMismatch)


def test_a_tampered_receipt_is_rejected(court: Court) -> None:
    good = court.receipt()
    altered = replace(good, approval=replace(good.approval, nonce="0" * 64))

    assert "/api/receipts/consume" not in tried(court.script(altered), InvalidReceipt)


def test_a_receipt_signed_with_an_unknown_key_is_rejected(court: Court) -> None:
    court.seed = b"x" * 32

    assert "/api/receipts/consume" not in tried(court.script(), InvalidReceipt)


def test_a_pinned_key_overrides_the_keys_from_the_server(court: Court, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", spelt(public_key(b"x" * 32)))

    assert len(tried(court.script(), InvalidReceipt)) == 3


def test_an_expired_receipt_is_rejected(court: Court) -> None:
    court.lasts = -500

    assert "/api/receipts/consume" not in tried(court.script(), ReceiptExpired)


def test_a_consumed_receipt_is_rejected(court: Court) -> None:
    used = Say(409, {"code": "receipt_used", "detail": "Used."})

    tried([*court.script()[:4], used], ReceiptUsed)


@pytest.mark.parametrize("place", [2, 3, 4])
def test_a_missing_receipt_does_not_count_as_approval(court: Court, place: int) -> None:
    script = court.script()
    script[place] = Say(404, {"code": "not_found", "detail": "No."})

    tried(script, AssentError)


def test_a_different_digest_from_the_server_does_not_count_as_approval(court: Court) -> None:
    script = court.script()
    script[0] = Say(201, WHOLE | {"digest": "0" * 64})

    tried(script, DigestMismatch)


async def test_cancelling_an_awaited_call_cancels_its_breakpoint() -> None:
    hang, bank = Hang(), Bank()
    with scripted([Say(201, WHOLE), hang, Say(200, WHOLE | {"status": "cancelled"})]) as fake:
        async with AsyncAssent(fake.url, "t") as client:
            calling = asyncio.create_task(bank.gated_async(client)(5, "ann"))
            await hang.client_came()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling

    assert [heard.path.rpartition("/")[2] for heard in fake.heard][-1] == "cancel"
    assert bank.paid == []


@dataclass
class House:
    url: str
    agent: str
    reviewer: Assent

    def cancel(self, asked: Breakpoint) -> None:
        with Assent(self.url, self.agent) as agent:
            agent.cancel(asked.id)

    async def answer(self, gate: str, act: Callable[[Breakpoint], object]) -> None:
        """Wait for the question, then act as its reviewer."""

        async def look() -> list[BreakpointSummary]:
            return (await asyncio.to_thread(self.reviewer.list, gate=gate, status="waiting")).items

        (found,) = await until(look, bool)
        act(await asyncio.to_thread(self.reviewer.get, found.id))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("house") / "data")
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process, Assent(process.url, reviewer, patience=120) as person:
        yield House(process.url, agent, person)


@pytest.fixture
def at_home(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("ASSENT_URL", house.url)
    monkeypatch.setenv("ASSENT_TOKEN", house.agent)
    return house


async def test_an_approved_sync_or_async_call_runs_with_its_arguments(at_home: House) -> None:
    bank = Bank()

    def yes(asked: Breakpoint) -> None:
        assert (asked.question, asked.payload["arguments"]["password"]) == ("Pay 5 to ann?", HIDDEN)
        at_home.reviewer.approve(asked.id, digest=asked.digest)

    plain = asyncio.create_task(asyncio.to_thread(bank.gated(breakpoint_id="pay.plain"), 5, "ann"))
    await at_home.answer("pay.plain", yes)
    assert await plain == "paid 5"
    awaited = asyncio.create_task(bank.gated_async(breakpoint_id="pay.awaited")(5, to="ann"))
    await at_home.answer("pay.awaited", yes)
    assert await awaited == "paid 5"
    assert bank.paid == [(5, "ann", "s3cret")] * 2


async def test_the_call_runs_with_the_reviewers_edits(at_home: House) -> None:
    bank = Bank()
    calling = asyncio.create_task(bank.gated_async(breakpoint_id="pay.edited", editable=("amount",))(5, "ann"))
    await at_home.answer("pay.edited", lambda asked: at_home.reviewer.approve(asked.id, edits={"amount": 3}))

    assert await calling == "paid 3"


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda house, asked: house.reviewer.reject(asked.id, comment="No."), Rejected),
        (lambda house, asked: house.cancel(asked), Cancelled),
    ],
)
async def test_a_rejected_or_cancelled_call_does_not_run(
    at_home: House, act: Callable[[House, Breakpoint], object], error: type[NotApproved]
) -> None:
    bank, gate = Bank(), f"pay.{error.code}"
    calling = asyncio.create_task(bank.gated_async(breakpoint_id=gate)(5, "ann"))
    await at_home.answer(gate, lambda asked: act(at_home, asked))

    with pytest.raises(error):
        await calling
    assert bank.paid == []


@pytest.mark.usefixtures("at_home")
@pytest.mark.parametrize(("on_timeout", "error"), [("expire", Expired), ("reject", Rejected)])
async def test_a_call_does_not_run_after_its_deadline(on_timeout: str, error: type[NotApproved]) -> None:
    bank = Bank()

    with pytest.raises(error):
        await bank.gated_async(breakpoint_id="pay.late", ttl_seconds=1, on_timeout=on_timeout)(5, "ann")
    assert bank.paid == []


async def test_a_call_whose_argument_changed_during_the_review_does_not_run(at_home: House) -> None:
    files, removed = ["a.txt"], list[str]()

    @approve("Remove {paths}?", breakpoint_id="rm", agent_id="a")
    async def remove(paths: list[str]) -> None:
        removed.extend(paths)

    def add_one_and_approve(asked: Breakpoint) -> None:
        files.append("b.txt")
        at_home.reviewer.approve(asked.id)

    calling = asyncio.create_task(remove(files))
    await at_home.answer("rm", add_one_and_approve)

    with pytest.raises(ArgumentsRefused):
        await calling
    assert removed == []


async def test_the_receipt_of_a_completed_call_cannot_be_reused(at_home: House) -> None:
    bank = Bank()
    calling = asyncio.create_task(bank.gated_async(breakpoint_id="pay.once")(5, "ann"))
    await at_home.answer("pay.once", lambda asked: at_home.reviewer.approve(asked.id))
    await calling
    (asked,) = at_home.reviewer.list(gate="pay.once").items

    async with AsyncAssent() as agent:
        receipt = await agent.receipt(asked.id)
        assert receipt.used is not None
        with pytest.raises(ReceiptUsed):
            await agent.consume_receipt(receipt)


def test_terminal_approvals_are_disabled_by_a_pinned_receipt_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASSENT_URL", "ASSENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", base64.b64encode(bytes(range(32))).decode())
    ran: list[str] = []
    with pytest.raises(InvalidReceipt, match="do not have receipts"):
        approve()(lambda: ran.append("it"))()
    assert ran == []
