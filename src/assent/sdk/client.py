"""The synchronous client: performs what the protocol decides, and decides nothing itself."""

import os
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx2

from assent.sdk import protocol
from assent.sdk.errors import AssentError
from assent.sdk.files import ContextFile
from assent.sdk.protocol import (
    Asking,
    DeliveryFilters,
    Filters,
    Flow,
    HistoryFilters,
    Lost,
    Outcome,
    Pace,
    Reply,
    Request,
    RuleChanges,
    RuleFields,
    Step,
    Supposed,
)
from assent.sdk.values import (
    Backtest,
    BacktestLine,
    Breakpoint,
    Delivery,
    DeliveryPage,
    DeliveryWithLog,
    Event,
    Events,
    HistoryPage,
    Page,
    Rule,
    RuleCheck,
    RuleEvent,
    RuleEvents,
    Rules,
    RulesImported,
    ShadowReport,
    Status,
)

Result = TypeVar("Result")

DEFAULT_URL = "http://127.0.0.1:7373"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class BadAddress(AssentError):
    """The address or the token cannot be used as they are."""

    code = "bad_address"


class Assent:
    """A server, as an agent or a reviewer sees it.

    `patience` is how many seconds a call goes on trying while the server cannot be reached; `on_trouble` is told of it.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience: float = 10.0,
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self.url = _checked_url(url or os.environ.get("ASSENT_URL") or DEFAULT_URL)
        self._patience = patience
        self._on_trouble = on_trouble
        self._pace = Pace(time.monotonic, random.random)
        self._http = httpx2.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {_checked_token(token or os.environ.get('ASSENT_TOKEN'))}"},
            # A proxy meant for the internet cannot reach this machine's own loopback.
            trust_env=httpx2.URL(self.url).host not in _LOOPBACK,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def create(
        self,
        question: str | None = None,
        *,
        files: Sequence[ContextFile] = (),
        idempotency_key: str | None = None,
        **asking: Unpack[Asking],
    ) -> Breakpoint:
        """Raise a breakpoint, once, however often the request has to be sent."""
        body = protocol.creation(question, asking)
        key = idempotency_key or uuid.uuid4().hex
        return self._run(protocol.creating(body, files, key=key, pace=self._pace, patience=self._patience))

    def get(self, breakpoint_id: str) -> Breakpoint:
        return self._perform(protocol.reading(protocol.address(breakpoint_id)), Breakpoint)

    def status(self, breakpoint_id: str) -> Status:
        return self._perform(protocol.asking_status(breakpoint_id), Status)

    def wait(self, breakpoint_id: str, *, timeout: float | None = None, patience: float | None = None) -> Status:
        """Return how it ended, however long that takes; raise StillWaiting after `timeout` seconds.

        Restarts and draining nodes go unnoticed; Unreachable is raised after `patience` seconds without any answer.
        """
        patience = self._patience if patience is None else patience
        return self._run(protocol.waiting(breakpoint_id, pace=self._pace, patience=patience, timeout=timeout))

    def list(self, **filters: Unpack[Filters]) -> Page:
        return self._perform(protocol.reading("/api/breakpoints", protocol.filtered(filters)), Page)

    def events(self, breakpoint_id: str) -> Sequence[Event]:
        return self._perform(protocol.reading(protocol.address(breakpoint_id, "events")), Events).items

    def comment(self, breakpoint_id: str, text: str) -> Breakpoint:
        return self.feedback(breakpoint_id, {"comment": text})

    def approve(self, breakpoint_id: str, **answer: Any) -> Breakpoint:  # noqa: ANN401  # the API's own fields
        """Approve; `comment`, `option`, `answers`, `edits`, `confirm` and the `digest` that was shown may go along."""
        return self.feedback(breakpoint_id, {"release": True, "approved": True} | answer)

    def reject(self, breakpoint_id: str, **answer: Any) -> Breakpoint:  # noqa: ANN401  # the API's own fields
        return self.feedback(breakpoint_id, {"release": True, "approved": False} | answer)

    def feedback(self, breakpoint_id: str, body: Mapping[str, Any]) -> Breakpoint:
        """Say what the body says, once."""
        said = {name: value for name, value in body.items() if value is not None}
        path = protocol.address(breakpoint_id, "feedback")
        return self._perform(protocol.sending(path, said, key=uuid.uuid4().hex), Breakpoint)

    def cancel(self, breakpoint_id: str) -> Breakpoint:
        return self._perform(protocol.ending(breakpoint_id), Breakpoint)

    def deliveries(self, **filters: Unpack[DeliveryFilters]) -> DeliveryPage:
        """Return what was sent about the breakpoints this token sees, newest first."""
        return self._perform(protocol.reading("/api/deliveries", protocol.filtered(filters)), DeliveryPage)

    def delivery(self, delivery_id: str) -> DeliveryWithLog:
        """Return one, with every attempt."""
        return self._perform(protocol.reading(protocol.delivery_address(delivery_id)), DeliveryWithLog)

    def retry_delivery(self, delivery_id: str) -> Delivery:
        """Try a dead one again, at once; for admins."""
        return self._perform(protocol.retrying(delivery_id), Delivery)

    def history(self, **filters: Unpack[HistoryFilters]) -> HistoryPage:
        """Return what became of past breakpoints, newest first; with a gate, how that gate fares as well."""
        return self._perform(protocol.reading("/api/history", protocol.filtered(filters)), HistoryPage)

    def rules(self) -> Sequence[Rule]:
        """Return the rules of the project, in the order they are asked."""
        return self._perform(protocol.reading("/api/rules"), Rules).items

    def rule(self, rule_id: str) -> Rule:
        """Return a rule, also one that was removed."""
        return self._perform(protocol.reading(protocol.rule_address(rule_id)), Rule)

    def rule_events(self, rule_id: str) -> Sequence[RuleEvent]:
        return self._perform(protocol.reading(protocol.rule_address(rule_id, "events")), RuleEvents).items

    def add_rule(self, pattern: str, action: str = "auto-approve", **fields: Unpack[RuleFields]) -> Rule:
        body = {"pattern": pattern, "action": action} | protocol.named(fields)
        return self._perform(protocol.writing("/api/rules", body), Rule)

    def change_rule(self, rule_id: str, **changes: Unpack[RuleChanges]) -> Rule:
        """Change what is given and leave the rest."""
        request = protocol.writing(protocol.rule_address(rule_id), protocol.named(changes), method="PATCH")
        return self._perform(request, Rule)

    def remove_rule(self, rule_id: str, *, why: str | None = None) -> None:
        """Remove a rule; what it decided stays explained."""
        self._perform(protocol.removing_rule(rule_id, why=why), NoneType)

    def check_rules(self, gate: str, **supposed: Unpack[Supposed]) -> RuleCheck:
        """Ask whether a person would have to be asked about such a breakpoint; nothing is raised."""
        given = {name: value for name, value in supposed.items() if value is not None}
        return self._perform(protocol.asking_rules({"breakpointId": gate} | protocol.named(given)), RuleCheck)

    def export_rules(self) -> dict[str, Any]:
        """Return the rules as a rules.json."""
        return self._perform(protocol.reading("/api/rules/export"), dict[str, Any])

    def import_rules(
        self, document: Mapping[str, Any], *, dry_run: bool = False, replace: bool = False, why: str | None = None
    ) -> RulesImported:
        """Take over a rules.json, all of it or nothing; `replace` removes the rules that are not in it."""
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
    ) -> Backtest:
        """Return what a rule would have done in the last days; `on_progress` is told how many of how many are read."""
        body = {"pattern": pattern, "action": action, "days": days, "limit": limit}
        request = protocol.backtesting(body, on_progress=on_progress)
        if on_progress is None:
            return self._perform(request, Backtest)
        return protocol.tested(self._perform(request, BacktestLine))

    def shadow(self, rule_id: str, *, days: int = 30, limit: int = 50) -> ShadowReport:
        """Return what a rule in shadow said, and what people did."""
        query = [("days", str(days)), ("limit", str(limit))]
        return self._perform(protocol.reading(protocol.rule_address(rule_id, "shadow"), query), ShadowReport)

    def _perform(self, request: Request, kind: type[Result]) -> Result:
        return self._run(protocol.performed(request, kind, pace=self._pace, patience=self._patience))

    def _run(self, flow: Flow[Result]) -> Result:
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: Result = done.value
                return result
            outcome = self._do(step)

    def _do(self, step: Step) -> Outcome:
        if isinstance(step, Request):
            return self._send(step)
        if self._on_trouble is not None:
            self._on_trouble(step.because)
        time.sleep(step.seconds)
        return None

    def _send(self, request: Request) -> Reply | Lost:
        try:
            with self._http.stream(
                request.method,
                request.path,
                params=list(request.query),
                headers=dict(request.headers),
                content=request.body,
                timeout=httpx2.Timeout(ANSWER_SECONDS + request.patient_for, connect=CONNECT_SECONDS),
            ) as response:
                body = response.read() if request.on_line is None else _last_line(response, request.on_line)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return Lost(f"no connection to {self.url} ({_spoken(error)})", sent=False)
        except httpx2.RequestError as error:
            return Lost(f"the connection to {self.url} broke ({_spoken(error)})", sent=True)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(response.status_code, headers, body)


def _last_line(response: httpx2.Response, on_line: Callable[[bytes], None]) -> bytes:
    last = b""
    for line in response.iter_lines():
        last = line.encode()
        on_line(last)
    return last


def _spoken(error: Exception) -> str:
    return str(error) or type(error).__name__


def _checked_url(url: str) -> str:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        msg = f"ASSENT_URL is {url!r}, which is not an address; it looks like {DEFAULT_URL}."
        raise BadAddress(msg) from error
    if parts.scheme not in {"http", "https"} or not parts.host:
        msg = f"ASSENT_URL is {url!r}; it must begin with http:// or https://, as in {DEFAULT_URL}."
        raise BadAddress(msg)
    return url.rstrip("/")


def _checked_token(token: str | None) -> str:
    if not token:
        msg = "Set ASSENT_TOKEN to a token; assent token create --kind reviewer --name YOU makes one."
        raise BadAddress(msg)
    if not (token.isascii() and token.isprintable()) or " " in token:
        msg = "ASSENT_TOKEN holds characters that no token has; copy it again, without quotes and blanks."
        raise BadAddress(msg)
    return token
