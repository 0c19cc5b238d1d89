"""All calls of a client, as flows that the synchronous and asynchronous clients perform."""

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from assent.contracts.backtest import Backtest, BacktestLine
from assent.contracts.breakpoints import (
    Breakpoint,
    BreakpointPage,
    BreakpointResult,
    Event,
    Events,
    Feedback,
    Status,
    UploadedFile,
)
from assent.contracts.channels import (
    Channel,
    ChannelLink,
    ChannelLinks,
    Channels,
    ChannelTest,
    Route,
    RouteCheck,
    Routes,
)
from assent.contracts.deliveries import Delivery, DeliveryPage, DeliveryWithLog
from assent.contracts.history import HistoryPage
from assent.contracts.rules import Rule, RuleCheck, RuleEvent, RuleEvents, Rules, ShadowReport
from assent.contracts.rules_file import RulesImported
from assent.contracts.runs import JournalLine, JournalPage, ProcessInfo, ProcessList, Run, RunPage
from assent.contracts.tokens import CreatedToken
from assent.sdk import protocol
from assent.sdk.errors import (
    InvalidReceipt,
    NotApproved,
    RateLimited,
    ReceiptMismatch,
    StillWaiting,
    Unavailable,
    Unreachable,
    has_no_receipts,
    passed,
)
from assent.sdk.files import ContextFile
from assent.sdk.leaving import LAST_WORDS
from assent.sdk.protocol import (
    Answering,
    Asking,
    DeliveryFilters,
    Expected,
    Filters,
    Flow,
    HistoryFilters,
    Pause,
    Question,
    RouteChanges,
    RouteFields,
    RuleChanges,
    RuleFields,
    RunFilters,
    Supposed,
)
from assent.sdk.trigger_calls import TriggerCalls
from assent.sdk.waits import Audience, waiting

if TYPE_CHECKING:
    from assent.sdk.receipts import Keys, Receipt, ReceiptKeys, ReceiptUse

Result = TypeVar("Result")
MAX_OWN = 10_000
LOOK_SECONDS = 1.0
"""Seconds between two requests while waiting for a run."""


def _key_is_pinned() -> bool:
    return bool(os.environ.get("ASSENT_RECEIPT_KEY", "").strip())


def granted(ended: Status) -> BreakpointResult:
    """Return the result of an approval; raise for anything else, or if the status contradicts the result."""
    result = passed(ended.result)
    if not ended.approved:
        raise NotApproved(result=result)
    return result


@dataclass(frozen=True, slots=True)
class Calls(TriggerCalls):
    """All calls to a server, which retry for `patience` seconds while it is unreachable."""

    now: Callable[[], float] = time.time
    """Returns the current time in seconds, used to check whether receipts have expired."""
    created: "dict[str, Mapping[str, Any]]" = field(default_factory=dict[str, "Mapping[str, Any]"])
    """The bodies of breakpoints created here, by ID, if a receipt key is pinned: a receipt must match them."""
    own: "dict[str, None]" = field(default_factory=dict[str, None])
    """The newest breakpoints created here without a key from the caller. Later programs cannot find them again."""
    checks_receipts: bool = True
    """Whether to verify approvals with ASSENT_RECEIPT_KEY; a caller with its own keys verifies them itself."""

    def create(
        self,
        question: Question = None,
        *,
        files: Sequence[ContextFile] = (),
        idempotency_key: str | None = None,
        **asking: Unpack[Asking],
    ) -> Flow[Breakpoint]:
        """Create a breakpoint once, even if the request has to be repeated."""
        body = protocol.creation(question, asking)
        key = idempotency_key or uuid.uuid4().hex
        made = yield from protocol.creating(body, files, key=key, pace=self.pace, patience=self.patience)
        if _key_is_pinned():
            # The receipt is compared with what was sent, because the server's own copy could have been replaced.
            self.created[made.id] = protocol.with_files(body, [file.entry() for file in files])
        if idempotency_key is None:
            self.own[made.id] = None
            # Limits the memory of a long-lived client that creates breakpoints without waiting for them.
            if len(self.own) > MAX_OWN:
                del self.own[next(iter(self.own))]
        return made

    def require_approval(
        self,
        question: Question = None,
        *,
        files: Sequence[ContextFile] = (),
        timeout: float | None = None,
        on_comment: Callable[[Feedback], object] | None = None,
        **asking: Unpack[Asking],
    ) -> Flow[BreakpointResult]:
        """Ask, wait, and return the result of an approval; raise Rejected, Expired or Cancelled otherwise."""
        key = uuid.uuid4().hex
        flow = ask_and_wait(self, key, question, asking, files=files, timeout=timeout, on_comment=on_comment)
        return granted((yield from flow))

    def get(self, breakpoint_id: str) -> Flow[Breakpoint]:
        return self._perform(protocol.reading(protocol.address(breakpoint_id)), Breakpoint)

    def status(self, breakpoint_id: str) -> Flow[Status]:
        """Return the status. If ASSENT_RECEIPT_KEY pins a key, raise if an approval lacks a receipt signed with it."""
        found = yield from self._perform(protocol.asking_status(breakpoint_id), Status)
        yield from check_pinned(self, breakpoint_id, found)
        return found

    def wait(
        self,
        breakpoint_id: str,
        *,
        timeout: float | None = None,
        patience: float | None = None,
        on_event: Callable[[Event], object] | None = None,
        on_comment: Callable[[Feedback], object] | None = None,
    ) -> Flow[Status]:
        """Wait until a breakpoint ends and return its status; raise StillWaiting after `timeout` seconds.

        The wait continues after restarts; Unreachable is raised after `patience` seconds without any response.
        `on_event` is called with every event, and `on_comment` with every comment by a person. If `on_comment` returns
        a string, it is sent as the agent's reply. If ASSENT_RECEIPT_KEY pins a key, an approval without a receipt
        signed with that key raises an error. If the program ends while it waits for a breakpoint that it created
        without an idempotency key, the breakpoint is cancelled.
        """
        patience = self.patience if patience is None else patience
        wanted = on_event is not None or on_comment is not None
        audience = Audience(on_event=on_event, on_comment=on_comment) if wanted else None
        if breakpoint_id in self.own:
            yield protocol.Cancellation(
                lambda: replace(self, patience=LAST_WORDS).cancel(breakpoint_id), waits_for=breakpoint_id
            )
        ended = yield from waiting(breakpoint_id, pace=self.pace, patience=patience, timeout=timeout, audience=audience)
        # An ended breakpoint needs no cancellation, even if its receipt turns out to be invalid below.
        self.own.pop(breakpoint_id, None)
        yield from check_pinned(self, breakpoint_id, ended)
        return ended

    def list(self, **filters: Unpack[Filters]) -> Flow[BreakpointPage]:
        return self._perform(protocol.reading("/api/breakpoints", protocol.filtered(filters)), BreakpointPage)

    def events(self, breakpoint_id: str) -> Flow[Sequence[Event]]:
        return (yield from self._perform(protocol.reading(protocol.address(breakpoint_id, "events")), Events)).items

    def comment(self, breakpoint_id: str, text: str) -> Flow[Breakpoint]:
        return self.feedback(breakpoint_id, {"comment": text})

    def approve(self, breakpoint_id: str, /, **answer: Unpack[Answering]) -> Flow[Breakpoint]:
        """Approve a breakpoint; optional: `comment`, `option`, `answers`, `edits`, `confirm`, `digest` (as shown)."""
        return self.feedback(breakpoint_id, {"release": True, "approved": True, **answer})

    def reject(self, breakpoint_id: str, /, **answer: Unpack[Answering]) -> Flow[Breakpoint]:
        return self.feedback(breakpoint_id, {"release": True, "approved": False, **answer})

    def feedback(self, breakpoint_id: str, body: Mapping[str, Any]) -> Flow[Breakpoint]:
        """Submit a feedback body once, even if the request has to be repeated."""
        said = {name: value for name, value in body.items() if value is not None}
        path = protocol.address(breakpoint_id, "feedback")
        return self._perform(protocol.sending(path, said, key=uuid.uuid4().hex), Breakpoint)

    def cancel(self, breakpoint_id: str) -> Flow[Breakpoint]:
        return self._perform(protocol.ending(breakpoint_id), Breakpoint)

    def upload(self, content: bytes) -> Flow[UploadedFile]:
        """Upload content, which is stored once per project. Use its `sha256` in a breakpoint's context files."""
        return self._perform(protocol.uploading(content), UploadedFile)

    def file(self, breakpoint_id: str, n: int) -> Flow[bytes]:
        """Return the content of a breakpoint's context file, where 0 is the first."""
        return self._perform(protocol.reading(protocol.address(breakpoint_id, "files", str(n))), bytes)

    def create_token(self, kind: str, name: str, *, expires_in_seconds: int | None = None) -> Flow[CreatedToken]:
        """Create a token for the person who owns this client's token."""
        body = {"kind": kind, "name": name, "expiresInSeconds": expires_in_seconds}
        given = {field: value for field, value in body.items() if value is not None}
        return self._perform(protocol.writing("/api/tokens", given), CreatedToken)

    def receipt(self, breakpoint_id: str) -> "Flow[Receipt]":
        """Fetch the signed receipt of an approval, without verifying it."""
        from assent.sdk import receipts  # noqa: PLC0415  # rarely needed and slow to import

        return receipts.fetching(breakpoint_id, pace=self.pace, patience=self.patience)

    def receipt_keys(self) -> "Flow[ReceiptKeys]":
        """Return the public keys of the project's receipts, including those that are no longer used."""
        from assent.sdk import receipts  # noqa: PLC0415  # the same

        return receipts.listing_keys(pace=self.pace, patience=self.patience)

    def consume_receipt(
        self,
        receipt: "Receipt",
        *,
        keys: "Keys | None" = None,
        idempotency_key: str | None = None,
        **expected: Unpack[Expected],
    ) -> "Flow[ReceiptUse]":
        """Check a receipt against the expected values and consume it; raise if anything does not match.

        The trusted keys are `keys`, else those in ASSENT_RECEIPT_KEY, else those that the server lists.
        """
        from assent.sdk import receipts  # noqa: PLC0415  # the same

        return receipts.accepting(
            receipt,
            keys=receipts.pinned(os.environ) if keys is None else keys,
            now=self.now(),
            key=idempotency_key or uuid.uuid4().hex,
            pace=self.pace,
            patience=self.patience,
            **expected,
        )

    def processes(self) -> Flow[Sequence[ProcessInfo]]:
        """List the processes on the server, including those that cannot run, with the reason."""
        return (yield from self._perform(protocol.reading("/api/processes"), ProcessList)).items

    def start_run(
        self,
        process: str,
        inputs: Any = None,  # noqa: ANN401  # any JSON
        *,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Flow[Run]:
        """Start a run once, even if the request has to be repeated."""
        body = {"process": process, "inputs": inputs} | ({"agentId": agent_id} if agent_id else {})
        return self._perform(protocol.sending("/api/runs", body, key=idempotency_key or uuid.uuid4().hex), Run)

    def run(self, run_id: str) -> Flow[Run]:
        return self._perform(protocol.reading(protocol.run_address(run_id)), Run)

    def runs(self, **filters: Unpack[RunFilters]) -> Flow[RunPage]:
        return self._perform(protocol.reading("/api/runs", protocol.filtered(filters)), RunPage)

    def wait_for_run(self, run_id: str, *, timeout: float | None = None) -> Flow[Run]:
        """Wait until a run ends and return it; raise StillWaiting after `timeout` seconds."""
        started = self.pace.now()
        while not (found := (yield from self.run(run_id))).ended:
            if timeout is not None and self.pace.now() - started >= timeout:
                msg = f"Timed out after {timeout:g} s; run {run_id} is {found.state}."
                raise StillWaiting(msg)
            yield Pause(LOOK_SECONDS, "")
        return found

    def journal(self, run_id: str, *, after: int = 0) -> Flow[Sequence[JournalLine]]:
        """List the lines of a run's journal with a number above `after`, at most 500 at a time."""
        path = protocol.run_address(run_id, "journal")
        return (yield from self._perform(protocol.reading(path, [("after", str(after))]), JournalPage)).items

    def run_file(self, run_id: str, path: str) -> Flow[bytes]:
        """Return a file that a run saved."""
        return self._perform(protocol.reading(protocol.run_address(run_id, "files", path)), bytes)

    def cancel_run(self, run_id: str) -> Flow[Run]:
        """Cancel a run and its pending breakpoints."""
        return self._perform(protocol.writing(protocol.run_address(run_id, "cancel"), {}), Run)

    def retry_run(self, run_id: str) -> Flow[Run]:
        """Resume a failed run from the step that failed."""
        return self._perform(protocol.writing(protocol.run_address(run_id, "retry"), {}), Run)

    def deliveries(self, **filters: Unpack[DeliveryFilters]) -> Flow[DeliveryPage]:
        """List the deliveries for breakpoints that this token can see, newest first."""
        return self._perform(protocol.reading("/api/deliveries", protocol.filtered(filters)), DeliveryPage)

    def delivery(self, delivery_id: str) -> Flow[DeliveryWithLog]:
        """Return a delivery with all of its attempts."""
        return self._perform(protocol.reading(protocol.delivery_address(delivery_id)), DeliveryWithLog)

    def retry_delivery(self, delivery_id: str) -> Flow[Delivery]:
        """Retry a dead delivery immediately; admins only."""
        return self._perform(protocol.retrying(delivery_id), Delivery)

    def history(self, **filters: Unpack[HistoryFilters]) -> Flow[HistoryPage]:
        """List past breakpoints and their outcomes, newest first; with a gate, also return its statistics."""
        return self._perform(protocol.reading("/api/history", protocol.filtered(filters)), HistoryPage)

    def rules(self) -> Flow[Sequence[Rule]]:
        """List the project's rules in evaluation order."""
        return (yield from self._perform(protocol.reading("/api/rules"), Rules)).items

    def rule(self, rule_id: str) -> Flow[Rule]:
        """Return a rule, even if it has been removed."""
        return self._perform(protocol.reading(protocol.rule_address(rule_id)), Rule)

    def rule_events(self, rule_id: str) -> Flow[Sequence[RuleEvent]]:
        return (yield from self._perform(protocol.reading(protocol.rule_address(rule_id, "events")), RuleEvents)).items

    def add_rule(self, pattern: str, action: str = "auto-approve", **fields: Unpack[RuleFields]) -> Flow[Rule]:
        body = {"pattern": pattern, "action": action} | protocol.named(fields)
        return self._perform(protocol.writing("/api/rules", body), Rule)

    def change_rule(self, rule_id: str, **changes: Unpack[RuleChanges]) -> Flow[Rule]:
        """Update only the given fields."""
        request = protocol.writing(protocol.rule_address(rule_id), protocol.named(changes), method="PATCH")
        return self._perform(request, Rule)

    def remove_rule(self, rule_id: str, *, why: str | None = None) -> Flow[None]:
        """Remove a rule; its past decisions stay in the history."""
        yield from self._perform(protocol.removing_rule(rule_id, why=why), NoneType)

    def check_rules(self, gate: str, **supposed: Unpack[Supposed]) -> Flow[RuleCheck]:
        """Check whether a hypothetical breakpoint would be auto-approved, without creating it."""
        given = {name: value for name, value in supposed.items() if value is not None}
        return self._perform(protocol.asking_rules({"breakpointId": gate} | protocol.named(given)), RuleCheck)

    def export_rules(self) -> Flow[dict[str, Any]]:
        """Return the rules in the format of rules.json."""
        return self._perform(protocol.reading("/api/rules/export"), dict[str, Any])

    def import_rules(
        self, document: Mapping[str, Any], *, dry_run: bool = False, replace: bool = False, why: str | None = None
    ) -> Flow[RulesImported]:
        """Import the rules in a rules.json file, all or nothing; `replace` removes rules that are not in the file."""
        query = [("dryRun", str(dry_run).lower()), ("replace", str(replace).lower())] + ([("why", why)] if why else [])
        return self._perform(protocol.writing("/api/rules/import", document, query=query), RulesImported)

    def backtest(
        self,
        pattern: str,
        action: str = "auto-approve",
        *,
        days: int = 30,
        limit: int = 50,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Flow[Backtest]:
        """Back-test a rule against the last `days` days; `on_progress` receives the number scanned and the total."""
        body = {"pattern": pattern, "action": action, "days": days, "limit": limit}
        request = protocol.backtesting(body, on_progress=on_progress)
        if on_progress is None:
            return (yield from self._perform(request, Backtest))
        return protocol.tested((yield from self._perform(request, BacktestLine)))

    def shadow(self, rule_id: str, *, days: int = 30, limit: int = 50) -> Flow[ShadowReport]:
        """Return the results of a rule in shadow mode, and what people decided."""
        query = [("days", str(days)), ("limit", str(limit))]
        return self._perform(protocol.reading(protocol.rule_address(rule_id, "shadow"), query), ShadowReport)

    def channels(self) -> Flow[Sequence[Channel]]:
        """List the project's channels."""
        return (yield from self._perform(protocol.reading("/api/channels"), Channels)).items

    def channel(self, channel_id: str) -> Flow[Channel]:
        return self._perform(protocol.reading(protocol.channel_address(channel_id)), Channel)

    def add_channel(self, name: str, kind: str, settings: Mapping[str, Any], *, enabled: bool = True) -> Flow[Channel]:
        """Create a channel; specify secrets as env:NAME or file:PATH, which the server resolves."""
        body = {"name": name, "type": kind, "settings": dict(settings), "enabled": enabled}
        return self._perform(protocol.writing("/api/channels", body), Channel)

    def change_channel(
        self,
        channel_id: str,
        *,
        name: str | None = None,
        settings: Mapping[str, Any] | None = None,
        enabled: bool | None = None,
    ) -> Flow[Channel]:
        """Update only the given fields; a setting that is None is removed."""
        given = {"name": name, "settings": settings, "enabled": enabled}
        body = {field: value for field, value in given.items() if value is not None}
        return self._perform(protocol.writing(protocol.channel_address(channel_id), body, method="PATCH"), Channel)

    def remove_channel(self, channel_id: str) -> Flow[None]:
        """Remove a channel that is not used by any route."""
        yield from self._perform(protocol.removing(protocol.channel_address(channel_id)), NoneType)

    def test_channel(self, channel_id: str, *, send: bool = False) -> Flow[ChannelTest]:
        """Test a channel's settings; `send` also sends a test message."""
        request = protocol.writing(protocol.channel_address(channel_id, "test"), {"send": send})
        return self._perform(replace(request, patient_for=protocol.TEST_SECONDS), ChannelTest)

    def channel_links(self, channel_id: str) -> Flow[Sequence[ChannelLink]]:
        """List a channel's linked accounts."""
        request = protocol.reading(protocol.channel_address(channel_id, "links"))
        return (yield from self._perform(request, ChannelLinks)).items

    def link(self, channel_id: str, identity: str, person: str) -> Flow[ChannelLink]:
        """Link an account on a channel to a person."""
        body = {"identity": identity, "person": person}
        path = protocol.channel_address(channel_id, "links")
        return self._perform(protocol.writing(path, body, method="PUT"), ChannelLink)

    def unlink(self, channel_id: str, identity: str) -> Flow[None]:
        path = protocol.channel_address(channel_id, "links")
        yield from self._perform(protocol.removing(path, [("identity", identity)]), NoneType)

    def routes(self) -> Flow[Sequence[Route]]:
        """List the project's routes in evaluation order."""
        return (yield from self._perform(protocol.reading("/api/routes"), Routes)).items

    def add_route(self, pattern: str, channels: Sequence[str], **fields: Unpack[RouteFields]) -> Flow[Route]:
        body = {"pattern": pattern, "channels": [*channels], **fields}
        return self._perform(protocol.writing("/api/routes", body), Route)

    def change_route(self, route_id: str, **changes: Unpack[RouteChanges]) -> Flow[Route]:
        """Update only the given fields."""
        return self._perform(protocol.writing(protocol.route_address(route_id), changes, method="PATCH"), Route)

    def remove_route(self, route_id: str) -> Flow[None]:
        yield from self._perform(protocol.removing(protocol.route_address(route_id)), NoneType)

    def order_routes(self, route_ids: Sequence[str]) -> Flow[Sequence[Route]]:
        """Reorder the routes; `route_ids` lists all of them except those from assent.yaml."""
        request = protocol.writing("/api/routes/order", {"ids": [*route_ids]}, method="PUT")
        return (yield from self._perform(request, Routes)).items

    def check_routes(
        self, breakpoint_id: str | None = None, *, supposed: Mapping[str, Any] | None = None
    ) -> Flow[RouteCheck]:
        """Check where an existing or hypothetical breakpoint would be sent, without sending anything."""
        body = {"breakpointId": breakpoint_id} if breakpoint_id is not None else {"breakpoint": supposed}
        return self._perform(protocol.asking_routes(body), RouteCheck)

    def preferences(self, person: str) -> Flow[dict[str, Any]]:
        """Return a person's notification preferences: channels, quiet hours and deputy."""
        return self._perform(protocol.reading(protocol.preferences_address(person)), dict[str, Any])

    def set_preferences(self, person: str, preferences: Mapping[str, Any]) -> Flow[dict[str, Any]]:
        """Replace a person's notification preferences."""
        request = protocol.writing(protocol.preferences_address(person), preferences, method="PUT")
        return self._perform(request, dict[str, Any])


def ask_and_wait(  # noqa: PLR0913  # the parts of a question
    calls: Calls,
    key: str,
    question: Question,
    asking: Asking,
    *,
    files: Sequence[ContextFile] = (),
    timeout: float | None = None,
    on_comment: Callable[[Feedback], object] | None = None,
) -> Flow[Status]:
    """Create a breakpoint and wait until it ends; `timeout` covers both, including connecting and retries."""

    def flow() -> Flow[Status]:
        started = calls.pace.now()
        yield cancellation(calls, key, question, asking, files=files)
        raised = yield from calls.create(question, files=files, idempotency_key=key, **asking)
        left = None if timeout is None else max(0.0, timeout - (calls.pace.now() - started))
        return (yield from calls.wait(raised.id, timeout=left, on_comment=on_comment))

    return protocol.bounded(flow(), pace=calls.pace, seconds=timeout)


def cancellation(
    calls: Calls, key: str, question: Question, asking: Asking, *, files: Sequence[ContextFile] = ()
) -> protocol.Cancellation:
    """Return a step that cancels a question. The key identifies it, because its ID may not have arrived yet."""

    def flow() -> Flow[Breakpoint]:
        hurried = replace(calls, patience=LAST_WORDS)
        # The same key makes this return the existing breakpoint instead of creating a second one.
        raised = yield from hurried.create(question, files=files, idempotency_key=key, **asking)
        return (yield from hurried.cancel(raised.id))

    return protocol.Cancellation(flow)


def check_pinned(calls: Calls, breakpoint_id: str, status: Status) -> Flow[None]:
    """If a key is pinned, raise for an approval without a receipt signed with it for the content created here."""
    if not status.approved or not calls.checks_receipts or not _key_is_pinned():
        return
    from assent.sdk import receipts  # noqa: PLC0415  # the same

    keys = receipts.pinned(os.environ)
    assert keys is not None, "the variable is set"
    receipt = yield from receipt_if_any(calls, breakpoint_id)
    if receipt is None:
        msg = "A receipt key is pinned, but the server does not issue receipts, so the approval cannot be verified."
        raise InvalidReceipt(msg)
    body = calls.created.get(breakpoint_id)
    digest = None if body is None else receipts.content_digest(body, project=receipt.approval.project)
    receipts.check(receipt, keys, now=calls.now(), digest=digest)
    # The digest covers the question but not the edits, which the receipt signs separately.
    if (receipt.approval.edits or {}) != ((status.result and status.result.edits) or {}):
        raise ReceiptMismatch("The changes in the receipt differ from those in the answer.")


def receipt_if_any(calls: Calls, breakpoint_id: str) -> "Flow[Receipt | None]":
    """Fetch a receipt; return None, without retrying, if the server does not issue receipts."""
    try:
        # A server without a signing key responds 503, which would otherwise be retried until the patience runs out.
        return (yield from replace(calls, patience=0.0).receipt(breakpoint_id))
    except (Unavailable, Unreachable, RateLimited) as error:
        if isinstance(error, Unavailable) and has_no_receipts(error):
            return None
    return (yield from calls.receipt(breakpoint_id))
