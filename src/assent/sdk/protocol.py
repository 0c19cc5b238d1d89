"""The client's protocol without I/O: requests as values, parsing of responses, and decisions about retries.

A flow is a generator. It yields the next step, a `Request`, a `Pause` or a `Tell`, and is sent the outcome: a `Reply`
or a `Lost`, nothing, or what the listener `Said`. Its return value is the result. A client performs the steps, so that
the sync and async clients share every decision made here. Time and randomness come from `Pace`. A `Cancellation` is
what the client performs if the program exits before the flow has ended.
"""

import contextlib
import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeAlias, TypedDict, TypeGuard, TypeVar, cast
from urllib.parse import quote

import msgspec

from assent.contracts.backtest import Backtest, BacktestLine
from assent.contracts.breakpoints import Breakpoint, UploadedFile
from assent.core.fields import BODY_FIELDS, BY_NAME, BY_WIRE, check_choices, misspelled, refuse_unknown_fields
from assent.sdk.errors import (
    AssentError,
    InvalidRequest,
    NotFound,
    UnexpectedAnswer,
    Unreachable,
    from_problem,
)
from assent.sdk.files import ContextFile
from assent.sdk.keywords import refuse_unknown

FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
INLINE_BYTES = 256 * 1024
BACKTEST_SECONDS = 600.0
TEST_SECONDS = 60.0
LONGEST_LINE = 16 * 1024 * 1024
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_RUN_ID = re.compile(r"run_[0-9a-z]{1,60}")
_RULE_ID = re.compile(r"rule-[0-9a-z]{1,60}")
_CHANNEL_ID = re.compile(r"ch_[0-9a-z]{1,60}")
_ROUTE_ID = re.compile(r"rt_[0-9a-z]{1,60}")
_EVENT_ID = re.compile(r"evt_[0-9a-z]{1,60}")
_FIRING_ID = re.compile(r"fir_[0-9a-z]{1,60}")
_TRY_AGAIN = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_GOOD = range(200, 300)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request; `repeatable` if sending it twice has no more effect than sending it once."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    repeatable: bool = True
    within: float | None = None
    """Seconds within which the response must arrive, including connecting."""
    patient_for: float = 0.0
    """Seconds for which the server may deliberately delay its response."""
    on_line: Callable[[bytes], None] | None = None
    """Called with each line as it arrives; the reply then contains only the last line."""


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float
    because: str
    """The problem, if any; otherwise empty."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Call a listener, and send back what it returns; an async client awaits an async listener."""

    listener: Callable[[Any], object]
    news: object


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    """With lowercase names."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Lost:
    """No response arrived; `sent` if the server may have received the request anyway."""

    reason: str
    sent: bool


@dataclass(frozen=True, slots=True)
class Said:
    """The return value of a listener."""

    answer: object


@dataclass(frozen=True, slots=True)
class Cancellation:
    """How to cancel the flow's question if the program leaves it because of a signal, its exit or an exception."""

    flow: "Callable[[], Flow[object]]"
    waits_for: str | None = None
    """The breakpoint, if another call created it. In this case, it is cancelled only when the program ends."""


Deed: TypeAlias = Request | Pause | Tell
Step: TypeAlias = Deed | Cancellation
Outcome: TypeAlias = Reply | Lost | Said | None
Flow: TypeAlias = Generator[Step, Outcome, Result]


class Lines:
    """Splits incoming bytes into lines at line feeds only, because JSON can contain other line separators."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, chunk: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        # A server that never ends a line would otherwise exhaust memory.
        if len(self._rest) > LONGEST_LINE:
            msg = "A line in the response is too long. Check ASSENT_URL."
            raise UnexpectedAnswer(msg)
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> list[bytes]:
        """Return the bytes after the last line feed."""
        return [self._rest] if self._rest else []


@dataclass(frozen=True, slots=True)
class Pace:
    """The clock and the source of randomness for a flow."""

    now: Callable[[], float]
    chance: Callable[[], float]

    def pause(self, failures: int, *, at_least: float = 0.0) -> float:
        """Return how long to wait after this many failures: increasing, capped, never zero, and randomized."""
        grown: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
        # Randomized, so that clients that lost the same server do not reconnect at the same moment.
        return max(at_least, grown * (0.5 + self.chance() / 2))


def address(breakpoint_id: str, *more: str) -> str:
    if not _ID.fullmatch(breakpoint_id):
        msg = f"{breakpoint_id[:60]!r} is not a breakpoint ID. Example: bp_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/breakpoints", breakpoint_id, *more))


def delivery_address(delivery_id: str, *more: str) -> str:
    if not _ID.fullmatch(delivery_id):
        msg = f"{delivery_id[:60]!r} is not a delivery ID. Example: dlv_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/deliveries", delivery_id, *more))


def rule_address(rule_id: str, *more: str) -> str:
    if not _RULE_ID.fullmatch(rule_id):
        msg = f"{rule_id[:60]!r} is not a rule ID. Example: rule-01k9…"
        raise NotFound(msg)
    return "/".join(("/api/rules", rule_id, *more))


def run_address(run_id: str, *more: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        msg = f"{run_id[:60]!r} is not a run ID. Example: run_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/runs", run_id, *(quote(each, safe="/") for each in more)))


def channel_address(channel_id: str, *more: str) -> str:
    if not _CHANNEL_ID.fullmatch(channel_id):
        msg = f"{channel_id[:60]!r} is not a channel ID. Example: ch_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/channels", channel_id, *more))


def route_address(route_id: str) -> str:
    if not _ROUTE_ID.fullmatch(route_id):
        msg = f"{route_id[:60]!r} is not a route ID. Example: rt_01k9…"
        raise NotFound(msg)
    return f"/api/routes/{route_id}"


def source_address(source: str) -> str:
    return f"/api/sources/{quote(source, safe='')}"


def trigger_address(trigger: str, *more: str) -> str:
    return "/".join(("/api/triggers", quote(trigger, safe=""), *more))


def event_address(event_id: str, *more: str) -> str:
    if not _EVENT_ID.fullmatch(event_id):
        msg = f"{event_id[:60]!r} is not an event ID. Example: evt_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/trigger-events", event_id, *more))


def firing_address(firing_id: str, *more: str) -> str:
    if not _FIRING_ID.fullmatch(firing_id):
        msg = f"{firing_id[:60]!r} is not a firing ID. Example: fir_01k9…"
        raise NotFound(msg)
    return "/".join(("/api/firings", firing_id, *more))


def preferences_address(person: str) -> str:
    return f"/api/people/{quote(person, safe='')}/preferences"


def reading(path: str, query: Sequence[tuple[str, str]] = ()) -> Request:
    return Request(method="GET", path=path, query=query)


def sending(path: str, body: Mapping[str, Any], *, key: str) -> Request:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    encoded = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    return Request(method="POST", path=path, headers=headers, body=encoded)


def writing(
    path: str, body: Mapping[str, Any], *, method: str = "POST", query: Sequence[tuple[str, str]] = ()
) -> Request:
    """Return a write request. It is not repeated, because it could take effect twice or fail the second time."""
    encoded = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    headers = {"Content-Type": "application/json"}
    return Request(method=method, path=path, query=query, headers=headers, body=encoded, repeatable=False)


def asking_routes(body: Mapping[str, Any]) -> Request:
    """Return a request to check routes, which changes nothing and can be repeated."""
    return replace(writing("/api/routes/check", body), repeatable=True)


def asking_rules(body: Mapping[str, Any]) -> Request:
    """Return a request to check rules against a hypothetical breakpoint, which changes nothing and can be repeated."""
    return replace(writing("/api/rules/check", body), repeatable=True)


def backtesting(body: Mapping[str, Any], *, on_progress: Callable[[int, int], None] | None = None) -> Request:
    """Return a request to back-test a rule, which changes nothing and can be repeated."""
    asked = replace(writing("/api/rules/backtest", body), repeatable=True, patient_for=BACKTEST_SECONDS)
    if on_progress is None:
        return asked

    def told(line: bytes) -> None:
        with contextlib.suppress(msgspec.MsgspecError):
            progress = msgspec.json.decode(line, type=BacktestLine).progress
            if progress is not None:
                on_progress(progress.scanned, progress.total)

    return replace(asked, headers={**asked.headers, "Accept": "application/x-ndjson"}, on_line=told)


def tested(line: BacktestLine) -> Backtest:
    """Return the result in the last line of a back-test."""
    if line.problem is not None:
        raise from_problem(line.problem, status=HTTPStatus.OK)
    if line.result is None:
        msg = "The response ended before the result arrived. Try again."
        raise UnexpectedAnswer(msg)
    return line.result


def removing(path: str, query: Sequence[tuple[str, str]] = ()) -> Request:
    """Return a request to remove an object. It is not repeated, because the object would not be found again."""
    return Request(method="DELETE", path=path, query=query, repeatable=False)


def removing_rule(rule_id: str, *, why: str | None) -> Request:
    query = [("why", why)] if why else []
    return Request(method="DELETE", path=rule_address(rule_id), query=query, repeatable=False)


def commenting(breakpoint_id: str, text: str, *, key: str) -> Request:
    return sending(address(breakpoint_id, "feedback"), {"comment": text}, key=key)


def ending(breakpoint_id: str) -> Request:
    """Return a request to cancel a breakpoint. It is not repeated, because the breakpoint would already have ended."""
    return Request(method="POST", path=address(breakpoint_id, "cancel"), repeatable=False)


def retrying(delivery_id: str) -> Request:
    """Return a request to retry a dead delivery. It is not repeated, because the delivery would no longer be dead."""
    return Request(method="POST", path=delivery_address(delivery_id, "retry"), repeatable=False)


def uploading(content: bytes) -> Request:
    headers = {"Content-Type": "application/octet-stream"}
    return Request(method="POST", path="/api/files", headers=headers, body=content)


def asking_status(breakpoint_id: str, *, wait: float = 0.0) -> Request:
    query = [("wait", f"{wait:.3f}")] if wait else []
    return Request(method="GET", path=address(breakpoint_id, "status"), query=query, patient_for=wait)


class Asking(TypedDict, total=False):
    """The arguments that create a breakpoint, as declared in `assent.core.fields`, with their types."""

    agent_id: str
    run_id: str | None
    title: str | None
    tags: Sequence[str] | None
    ttl_seconds: int | None
    on_timeout: str | None
    priority: str | None
    callback_url: str | None
    breakpoint_id: str | None
    """The gate: the name of this question across runs."""
    expert: str | Sequence[str] | None
    strategy: str | None
    options: Sequence[str] | None
    form: Mapping[str, Any] | None
    risk: str | None
    hard_stop: bool | None
    editable: Sequence[str] | None
    """Names of the values that the reviewer can change."""
    attempt: int | None
    previous_feedback: str | None
    consumer: str | None
    auto_approve_after_n: int | None
    present_always_approve: bool | None
    context: Mapping[str, Any] | None
    payload: Mapping[str, Any] | None
    """Payload fields with their JSON names, and anything else to show."""
    extra: Mapping[str, Any] | None
    """Anything else to show; cannot contain the names of known fields."""


class Filters(TypedDict, total=False):
    """Filters for a list of breakpoints."""

    status: str | Sequence[str] | None
    tag: str | Sequence[str] | None
    agent_id: str | None
    run_id: str | None
    gate: str | None
    expert: str | None
    assigned_to: str | None
    created_after: str | None
    created_before: str | None
    q: str | None
    sort: str | None
    limit: int | None
    cursor: str | None
    counts: bool | None


class DeliveryFilters(TypedDict, total=False):
    """Filters for a list of deliveries."""

    breakpoint_id: str | None
    state: str | None
    channel: str | None
    limit: int | None
    cursor: str | None


class RunFilters(TypedDict, total=False):
    state: str | None
    process: str | None
    event_id: str | None
    trigger: str | None
    limit: int | None
    cursor: str | None


class HistoryFilters(TypedDict, total=False):
    """Filters for a history."""

    gate: str | None
    agent_id: str | None
    limit: int | None
    cursor: str | None


class Expected(TypedDict, total=False):
    """The values expected in a receipt; omitted values are not compared."""

    project: str | None
    gate: str | None
    agent_id: str | None
    digest: str | None


class Answering(TypedDict, total=False):
    """The fields of a reviewer's answer."""

    comment: str | None
    option: str | None
    answers: Mapping[str, Any] | None
    edits: Mapping[str, Any] | None
    confirm: str | None
    digest: str | None


class RuleFields(TypedDict, total=False):
    """The fields of a rule besides its pattern and action; `why` is recorded in its history."""

    note: str | None
    mode: str
    expires_at: str | None
    enabled: bool
    order: int
    why: str


class RouteFields(TypedDict, total=False):
    """The fields of a route besides its pattern and channels; durations are written as 30m, 2h or 1d."""

    to: Sequence[str]
    fallback: Sequence[str]
    remind: Sequence[str]
    escalate: Sequence[Mapping[str, Any]]
    timeout: Mapping[str, str] | None
    quiet: bool
    note: str | None
    enabled: bool


class RouteChanges(RouteFields, total=False):
    """The fields of a route that can be changed."""

    pattern: str
    channels: Sequence[str]


class RuleChanges(RuleFields, total=False):
    """The fields of a rule that can be changed; None removes `note` or `expires_at`."""

    pattern: str
    action: str


class Supposed(TypedDict, total=False):
    """A hypothetical breakpoint."""

    title: str | None
    tags: Sequence[str] | None
    expert: str | Sequence[str] | None
    agent_id: str | None
    run_id: str | None
    risk: str | None
    priority: str | None
    strategy: str | None
    attempt: int | None
    hard_stop: bool | None
    auto_approve_after_n: int | None
    payload: Mapping[str, Any] | None


NOT_ASSENT = "The response is not from an Assent server. Check ASSENT_URL."
Question: TypeAlias = str | Mapping[str, Any] | None
"""A question, or an entire breakpoint as an object with the API's field names."""


def opened(question: Question, asking: Asking) -> tuple[str | None, Asking]:
    """Return the question and its arguments, which can also be given as an object with the API's field names."""
    if question is None or isinstance(question, str):
        return question, asking
    if not isinstance(question, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped
        msg = f"The question must be a string, or an object with a question field, not {type(question).__name__}."
        raise InvalidRequest(msg)
    refuse_unknown_fields([*question], BY_WIRE, where="")
    named: dict[str, Any] = {BY_WIRE[key].name: value for key, value in question.items()}
    # Silently preferring one of two values could ask a different question than intended.
    if twice := next((name for name in asking if name in named), None):
        msg = f"{twice} is set twice: as an argument and in the object."
        raise InvalidRequest(msg)
    text: str | None = named.pop("question", None)
    return text, cast("Asking", named | asking)


def creation(question: Question, asking: Asking) -> dict[str, Any]:
    """Return the body that creates a breakpoint; raise for anything that the server would misread."""
    text, arguments = opened(question, asking)
    given: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
    refuse_unknown("create", given, BY_NAME)
    check_choices(given)
    payload = _payload(given.pop("payload", {}), given.pop("extra", {}))
    body: dict[str, Any] = {camel(name): given.pop(name) for name in list(given) if camel(name) in BODY_FIELDS}
    said = {camel(name): value for name, value in given.items()}
    if text is not None:
        said["question"] = text
    for name, value in said.items():
        if name in payload and payload[name] != value:
            msg = f"{name} is set twice: as an argument and in the payload."
            raise InvalidRequest(msg)
    whole = payload | said
    _check_question(whole.get("question"))
    # Checked last, because a misspelled field may be in the payload as well as in the arguments.
    misspelled(whole)
    return body | {"payload": whole}


def _payload(payload: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    for key in extra:
        if (field := BY_WIRE.get(key) or BY_NAME.get(key)) is not None:
            msg = f"extra contains the key {key!r}, which is a breakpoint field. Use {field.name}=… instead."
            raise InvalidRequest(msg)
        if key in payload and payload[key] != extra[key]:
            msg = f"{key} is set twice: in payload and in extra."
            raise InvalidRequest(msg)
    return {**payload, **extra}


def _check_question(question: object) -> None:
    if not isinstance(question, str) or not question.strip():
        msg = "A breakpoint requires a question, which is the text that reviewers respond to."
        raise InvalidRequest(msg)


def with_files(body: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    if not entries:
        return body
    payload: Mapping[str, Any] = body["payload"]
    context: Mapping[str, Any] = payload.get("context") or {}
    files = [*(context.get("files") or ()), *entries]
    return {**body, "payload": {**payload, "context": {**context, "files": files}}}


def filtered(filters: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return filters as query parameters, without those that are None."""
    query: list[tuple[str, str]] = []
    given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    for name, value in given.items():
        values: Sequence[Any] = [value] if isinstance(value, str | int) else value
        query += [(camel(name), str(each).lower() if isinstance(each, bool) else str(each)) for each in values]
    return query


def named(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with their JSON names."""
    return {camel(name): value for name, value in fields.items()}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def parsed(reply: Reply, kind: type[Result]) -> Result:
    """Return the value in a successful reply; otherwise, raise the error that the reply describes."""
    if reply.status not in _GOOD:
        raise problem(reply)
    if kind is bytes:
        return cast("Result", reply.body)
    try:
        return msgspec.json.decode(reply.body or b"null", type=kind)
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(NOT_ASSENT, status=reply.status) from error


def problem(reply: Reply) -> AssentError:
    try:
        body = msgspec.json.decode(reply.body, type=dict[str, Any])
    except msgspec.MsgspecError:
        body = {}
    # An error in JSON without a code comes from a proxy or another service.
    if "code" in body:
        return from_problem(body, status=reply.status)
    msg = f"The response (status {reply.status}) is not from an Assent server. Check ASSENT_URL."
    return UnexpectedAnswer(msg, status=reply.status)


def performed(request: Request, kind: type[Result], *, pace: Pace, patience: float) -> Flow[Result]:
    """Send a request until it is answered; give up after `patience` seconds without an answer."""
    started, failures = pace.now(), 0
    while True:
        outcome = yield request
        if answers(outcome):
            return parsed(outcome, kind)
        failures += 1
        pause = pace.pause(failures, at_least=retry_after(outcome))
        if not _may_repeat(request, outcome) or pace.now() + pause - started > patience:
            raise given_up(outcome)
        yield Pause(pause, trouble(outcome))


LEAST_SECONDS = 1.0
"""The minimum for any call, so that `timeout=0` still asks once without waiting."""


def bounded(flow: Flow[Result], *, pace: Pace, seconds: float | None) -> Flow[Result]:
    """Perform a flow within this many seconds, including connecting and retries; then raise Unreachable."""
    if seconds is None:
        return (yield from flow)
    ends, outcome, because = pace.now() + max(seconds, LEAST_SECONDS), None, "no response"
    while True:
        try:
            step = flow.send(outcome)
        except StopIteration as done:
            result: Result = done.value
            return result
        left = ends - pace.now()
        if isinstance(step, Pause):
            because = step.because or because
            step = Pause(max(0.0, min(step.seconds, left)), step.because)
        elif isinstance(step, Request):
            # Raise only before a request: a pause is shortened instead, and supplies the reason for the error.
            if left <= 0:
                flow.close()
                waited = f"{round(seconds, 1):g}"
                msg = f"{because}; gave up after {waited} {'second' if waited == '1' else 'seconds'}"
                raise Unreachable(msg)
            step = replace(step, within=left)
        outcome = yield step


def creating(
    body: Mapping[str, Any], files: Sequence[ContextFile], *, key: str, pace: Pace, patience: float
) -> Flow[Breakpoint]:
    """Upload the files that are too large to be included, then create the breakpoint."""
    entries: list[Mapping[str, Any]] = []
    room = INLINE_BYTES
    for file in files:
        room -= len(file.content)
        if room >= 0:
            entries.append(file.entry())
            continue
        # The file is uploaded, so a smaller one after it can still be included.
        room += len(file.content)
        uploaded = yield from performed(uploading(file.content), UploadedFile, pace=pace, patience=patience)
        entries.append(file.entry(sha256=uploaded.sha256))
    # The upload is repeatable by content, and creation by its key, so the whole flow can be retried.
    request = sending("/api/breakpoints", with_files(body, entries), key=key)
    return (yield from performed(request, Breakpoint, pace=pace, patience=patience))


def answers(outcome: Outcome) -> TypeGuard[Reply]:
    return isinstance(outcome, Reply) and outcome.status not in _TRY_AGAIN


def trouble(outcome: Outcome) -> str:
    return f"the server returned status {outcome.status}" if isinstance(outcome, Reply) else _reason(outcome)


def _reason(outcome: Outcome) -> str:
    return outcome.reason if isinstance(outcome, Lost) else "no response"


def _may_repeat(request: Request, outcome: Outcome) -> bool:
    if isinstance(outcome, Lost):
        return request.repeatable or not outcome.sent
    # The rate limit rejected the request before it had any effect.
    return request.repeatable or (isinstance(outcome, Reply) and outcome.status == HTTPStatus.TOO_MANY_REQUESTS)


def retry_after(outcome: Outcome) -> float:
    """Return the seconds in the Retry-After header. A date is ignored, because it depends on the server's clock."""
    text = outcome.headers.get("retry-after", "") if isinstance(outcome, Reply) else ""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0  # noqa: PLR2004  # a day at most


def given_up(outcome: Outcome) -> AssentError:
    error = problem(outcome) if isinstance(outcome, Reply) else Unreachable(_reason(outcome))
    return Unreachable(trouble(outcome)) if isinstance(error, UnexpectedAnswer) else error
