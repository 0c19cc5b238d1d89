"""Claude Code's HTTP hook: holds the request until a decision is made. On failure, a non-2xx status blocks the call."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import msgspec
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from assent.breakpoints.api import views
from assent.breakpoints.api.breakpoints import raised
from assent.breakpoints.api.listing import documented, known_filters
from assent.breakpoints.api.streams import HEARTBEAT
from assent.breakpoints.api.waiting import check_quota, until_due
from assent.breakpoints.store.reading import Query, StatusRow, Whole
from assent.breakpoints.usecases.inbox import InboxService
from assent.contracts.breakpoints import Status
from assent.contracts.claude_code import ClaudeHook, ClaudeHookOutput
from assent.core.access import Permission, Principal
from assent.core.claude_code import DOOR, LONGEST_TTL, TTL_SECONDS, Hook, again, deferred, read_hook, spoken, tool_call
from assent.core.draft import draft
from assent.core.errors import (
    InvalidRequest,
    ReceiptExpired,
    ReceiptMismatch,
    ReceiptUsed,
    Unauthenticated,
    Unavailable,
)
from assent.core.tool_calls import ToolCall, refused
from assent.db.transaction import Transaction
from assent.http.endpoint import JSON, Services, Who, With, router
from assent.http.waiters import Woken, parked
from assent.policy.usecases.receipts import ReceiptService
from assent.sdk.claude_code import judged, question
from assent.sdk.errors import has_no_receipts
from assent.sdk.tool_calls import Terms

ATTEMPTS = 10
NEWEST = 50
_NAMES: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 200}}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "ttl": {
        "type": "integer",
        "minimum": 1,
        "maximum": LONGEST_TTL,
        "default": TTL_SECONDS,
        "description": "Number of seconds until the deadline.",
    },
    "defer": {"type": "boolean", "default": False, "description": "Whether to return `defer` instead of waiting."},
    "editable": _NAMES | {"description": "Argument that reviewers can change. Repeatable."},
    "agentId": {"type": "string", "minLength": 1, "maxLength": 200, "default": DOOR, "description": "ID of the agent."},
    "tag": _NAMES | {"description": "Tag of the breakpoint. Repeatable."},
    "expert": _NAMES | {"description": "Person or group to ask. Repeatable."},
    "risk": {"enum": ["low", "medium", "high"], "description": "Risk level of the breakpoint."},
}

claude_hooks = router("hooks")


@claude_hooks.post(
    "/hooks/claude",
    response_model=ClaudeHookOutput,
    openapi_extra=documented(_PARAMETERS),
    summary="Asks whether Claude Code may run a tool and waits for the decision",
)
async def claude_hook(body: ClaudeHook, request: Request, who: Who, services: With) -> Response:
    who.require(Permission.CREATE)
    given = known_filters(request, frozenset(_PARAMETERS))
    hook = read_hook(body.model_dump(exclude_unset=True))
    nonce = services.ids.new("call", services.clock.now())
    call = tool_call(hook, editable=given.getlist("editable"), nonce=nonce)
    terms = Terms(agent_id=given.get("agentId", DOOR), ttl_seconds=_ttl(given.get("ttl")))
    if given.getlist("tag"):
        terms["tags"] = given.getlist("tag")
    if given.getlist("expert"):
        terms["expert"] = given.getlist("expert")
    if "risk" in given:
        terms["risk"] = given["risk"]
    desk = _Desk(request, services, who, hook, terms)
    said = await desk.settled(call, defer=_flag(given.get("defer")) and hook.may_defer)
    return Response(json.dumps(said), headers={"Cache-Control": "no-store"}, media_type=JSON)


def _ttl(text: str | None) -> int:
    if text is None:
        return TTL_SECONDS
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LONGEST_TTL)) and 1 <= int(text) <= LONGEST_TTL):
        raise InvalidRequest.at("query ttl", f"must be a whole number of seconds from 1 to {LONGEST_TTL}")
    return int(text)


def _flag(text: str | None) -> bool:
    if text not in {None, "true", "false"}:
        raise InvalidRequest.at("query defer", "must be true or false")
    return text == "true"


@dataclass(frozen=True, slots=True)
class _Found:
    """The question about a call."""

    row: Whole
    own: bool
    """Whether the question was created for this exact call."""


@dataclass(frozen=True, slots=True)
class _Desk:
    """A single hook request, from question to answer."""

    request: Request
    services: Services
    who: Principal
    hook: Hook
    terms: Terms

    async def settled(self, call: ToolCall, *, defer: bool) -> dict[str, Any]:
        """Ask, and return the response for the client; each approval is used by at most one call."""
        used = False
        for _ in range(ATTEMPTS):
            found = await self._found(call, only_waiting=used)
            if found.row.status == "waiting" and defer:
                return deferred(self.hook, breakpoint_id=found.row.id)
            status = await self._ended(found.row)
            verdict = judged(self.hook, call, msgspec.json.decode(views.status(status, ()), type=Status))
            if not verdict.approved or await self._used(found):
                return spoken(self.hook, verdict)
            used = True
            call = again(call, found.row.id)
        return spoken(self.hook, refused("Approved, but the approval has already been used or has expired."))

    async def _found(self, call: ToolCall, *, only_waiting: bool) -> _Found:
        """Return this session's question about the same call, or create one."""
        body = question(self.hook, call, self.terms)
        # If the newest approval has been used, ignore older ones: they have been used too, or are outdated.
        row = await self._find_alike(body, ("waiting",) if only_waiting else ("waiting", "released"))
        if row is not None:
            return _Found(row, own=_call_id(row) == call.call_id)
        new = await raised(self.services, self.who, body, key=call.key)
        row = await self.services[InboxService].whole(new, self.who) if isinstance(new, str) else new
        return _Found(row, own=True)

    async def _find_alike(self, body: dict[str, Any], statuses: tuple[str, ...]) -> Whole | None:
        """Return this session's question with the same content: a pending one if possible, otherwise the newest."""
        query = Query(
            project=self.who.project,
            statuses=statuses,
            agent_id=body["agentId"],
            run_id=body["runId"],
            gate=body["payload"]["breakpointId"],
            created_by_id=self.who.id,
            limit=NEWEST,
        )
        rows = await self.services[InboxService].page(query)
        likely = [row for row in rows if row.question == body["payload"]["question"] and row.decision != "rejected"]
        # The page is newest first and the sort is stable, so pending questions come first, then the newest.
        for each in sorted(likely, key=lambda row: row.status != "waiting"):
            row = await self.services[InboxService].whole(each.id, self.who)
            # Every call has its own ID, so compare the digest with the ID that was stored.
            shown = {**body, "payload": {**body["payload"], "callId": _call_id(row)}}
            if draft(shown).digest(self.who.project) == row.digest:
                return row
        return None

    async def _ended(self, found: Whole) -> StatusRow:
        """Wait until the breakpoint ends; raise if the client disconnects, the token is revoked or the node stops."""
        services, who = self.services, self.who
        if found.status != "waiting":
            return await services[InboxService].status(found.id, who)
        check_quota(services, who)
        # Excludes the request from the latency metrics, because its duration depends on the reviewers.
        self.request.scope["waited"] = True
        # Register before reading the status, so that a decision made in between still wakes the waiter.
        waiter = services.hub.register(found.id, who.token_id or who.id, by_agent=True)
        try:
            while (row := await services[InboxService].status(found.id, who)).status == "waiting":
                woken = await parked(waiter, min(HEARTBEAT, until_due(services, row)), self.request.receive)
                if woken not in {Woken.CHANGED, Woken.TIMEOUT}:
                    _stop(woken)
                services.hub.rearm(waiter)
            return row
        finally:
            services.hub.remove(waiter)

    async def _used(self, found: _Found) -> bool:
        """Consume an approval; return False if it has been used before or is too old."""
        # A client that is gone cannot run the call, so keep the approval for the resumed session.
        if await self.request.is_disconnected():
            _stop(Woken.GONE)
        use_case = partial(self._use, breakpoint_id=found.row.id, digest=found.row.digest)
        try:
            await self.services.database.write(use_case, locks=found.row.id)
        except (ReceiptUsed, ReceiptExpired):
            return False
        except Unavailable as error:
            if not has_no_receipts(error):
                raise
            # Without proof that the approval is unused, only the call that it was created for may use it.
            return found.own
        return True

    def _use(self, tx: Transaction, *, breakpoint_id: str, digest: str) -> None:
        receipt = self.services[ReceiptService].issue(tx, breakpoint_id, by=self.who)
        if receipt.approval.digest != digest:
            raise ReceiptMismatch
        self.services[ReceiptService].consume(tx, receipt, by=self.who)


def _call_id(row: Whole) -> Any:  # noqa: ANN401  # any JSON
    return msgspec.json.decode(row.payload, type=dict[str, Any]).get("callId")


def _stop(woken: Woken) -> NoReturn:
    """Raise an error with the reason for the missing answer; the question stays pending until the session resumes."""
    if woken is Woken.GONE:
        raise ClientDisconnect
    if woken is Woken.REVOKED:
        msg = "This token was revoked."
        raise Unauthenticated(msg)
    msg = "This node is shutting down, and no answer has arrived, so the tool was not run."
    raise Unavailable(msg)
