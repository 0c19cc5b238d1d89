"""Checks of `assent doctor` that contact the server, including a test breakpoint that is cancelled afterwards."""

import contextlib
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version

import msgspec

from assent.agents.doctor.findings import TOKEN, Access, Finding, Place, Severity, fine, problem, warning
from assent.agents.doctor.server_checks import Seen, clock, reached, versions
from assent.console import output
from assent.console.signals import stoppable
from assent.core.canonical import Json
from assent.core.claude_code import DOOR
from assent.core.gates import slug
from assent.core.old_rules import sentence, unnamed
from assent.core.rulebook import Rule
from assent.sdk import protocol
from assent.sdk.client import Assent
from assent.sdk.errors import AlreadyEnded, AssentError, Forbidden, StillWaiting
from assent.sdk.protocol import Asking, Flow, Lost, Outcome, Reply

PATIENCE = 2.0
WHOLE_TOOLS = ("Bash", "Edit", "Write", "WebFetch", "mcp__server__tool")
"""Tools whose calls differ only in arguments: a rule that approves a call without arguments approves every call."""
NOBODY = "nobody"
"""Sent as the token where no token is required."""
TAG = "doctor"
TITLE = "Test breakpoint from assent doctor"
TTL = 300


class _About(msgspec.Struct):
    title: str
    version: str


class _Description(msgspec.Struct):
    info: _About


class _Named(msgspec.Struct):
    id: str
    name: str = ""
    pattern: str = ""


class _OnClaimedIds(msgspec.Struct):
    items: list[_Named]
    tokens: list[_Named]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The outcome of a test breakpoint. Durations are measured from the previous step, in seconds."""

    breakpoint_id: str
    status: str
    create_seconds: float
    stream_seconds: float | None = None
    end_seconds: float | None = None
    answered_by: str | None = None


def server_findings(url: str) -> tuple[bool, list[Finding]]:
    """Check the server without a token, and return whether further checks make sense."""
    # The URL may belong to another service, which must not receive a real token.
    with Assent(url, NOBODY, patience=0) as assent:
        seen = _seen(assent, "/readyz")
        first = reached(seen)
        if seen.status is None:
            return False, [first]
        found = [first, *clock(seen), *versions(assent.url, _version(assent), version("assent"))]
    return first.severity is Severity.OK, found


def _once(path: str) -> Flow[Outcome]:
    return (yield protocol.reading(path))


def _seen(assent: Assent, path: str) -> Seen:
    sent = time.time()
    outcome = assent.perform(_once(path))
    received = time.time()
    if not isinstance(outcome, Reply):
        reason = outcome.reason if isinstance(outcome, Lost) else "no response"
        return Seen(url=assent.url, detail=reason)
    good = outcome.status == HTTPStatus.OK
    detail = outcome.body[:100].decode(errors="replace") if good else protocol.problem(outcome).message
    date = outcome.headers.get("date", "")
    return Seen(url=assent.url, status=outcome.status, detail=detail, date=date, sent=sent, received=received)


def _version(assent: Assent) -> str | None:
    outcome = assent.perform(_once("/openapi.json"))
    if not isinstance(outcome, Reply) or outcome.status != HTTPStatus.OK:
        return None
    with contextlib.suppress(msgspec.MsgspecError):
        about = msgspec.json.decode(outcome.body, type=_Description).info
        return about.version if about.title == "Assent" else None
    return None


def token_findings(url: str, accesses: Iterable[Access]) -> Iterator[Finding]:
    """Check whether the server accepts each token."""
    for access in accesses:
        try:
            with Assent(url, access.token, patience=PATIENCE) as assent:
                assent.list(limit=1)
        except AssentError as error:
            todo = f"Create a token with `assent token create --kind agent --name NAME` and set {TOKEN} to it."
            yield problem("token", access.place, f"The server rejected this token: {error.message}", todo)
        else:
            yield fine("token", access.place, "The server accepted this token.")


def rule_findings(url: str, access: Access, agents: Sequence[str]) -> Iterator[Finding]:
    """Check whether a rule approves entire tools, by asking about calls without arguments."""
    with Assent(url, access.token, patience=0) as assent:
        for agent in agents:
            approved = {each: rule for each in WHOLE_TOOLS if (rule := _approving(assent, each, agent))}
            for rule in dict.fromkeys(approved.values()):
                names = ", ".join(each for each, by in approved.items() if by == rule)
                what = f"{rule} approves every call to {names} by {agent}, regardless of the arguments."
                todo = (
                    "Limit it to specific arguments and a directory, or remove it. To list the rules: assent rule list"
                )
                yield problem("rule-wide", Place(url), what, todo)


def _approving(assent: Assent, tool: str, agent: str) -> str:
    payload: dict[str, Json] = {"tool": tool, "arguments": {}, "door": DOOR}
    try:
        found = assent.check_rules(slug(f"tool.{tool}"), agent_id=agent, payload=payload)
    except AssentError:  # a token that may not ask about this gate or agent cannot get the call approved either
        return ""
    return (f"The rule {found.matched_rule}" if found.matched_rule else "The server") if found.recommended else ""


def claim_findings(url: str, accesses: Iterable[Access]) -> Iterator[Finding]:
    """Report rules for agent IDs that tokens can claim without proof, using the first token that may read them."""
    for access in accesses:
        with Assent(url, access.token, patience=PATIENCE) as assent:
            outcome = assent.perform(_once("/api/rules/claimed"))
        if not isinstance(outcome, Reply) or outcome.status != HTTPStatus.OK:
            continue
        found = msgspec.json.decode(outcome.body, type=_OnClaimedIds)
        if found.items:
            rules = ", ".join(f"{output.visible(each.pattern[:100])} ({each.id})" for each in found.items)
            tokens = ", ".join(f"{output.visible(each.name)} ({each.id})" for each in found.tokens)
            what = (
                "These rules require an agentId, so they do not apply to tokens that can claim any agent ID:"
                f" {rules}. Tokens: {tokens}."
            )
            todo = (
                "Replace these tokens with `assent token create --agent-id ID --same-agent-as OLD`,"
                " then revoke the old ones."
            )
            yield warning("rule-claimed", Place(url), what, todo)
        return


def old_rule_findings(url: str, accesses: Iterable[Access]) -> Iterator[Finding]:
    """Report rules that an older version's “Always approve” wrote, using the first token that may read rules."""
    for access in accesses:
        try:
            with Assent(url, access.token, patience=PATIENCE) as assent:
                rules = assent.rules()
        except AssentError:
            continue
        for each in rules:
            stored = Rule(id=each.id, pattern=each.pattern, action=each.action, source=each.source)
            if each.enabled and not each.removed_at and (missing := unnamed(stored)):
                what = f"{sentence(each.id, missing)} It approves calls that its author was not shown."
                todo = (
                    f"Remove it with `assent rule remove {each.id}`."
                    " The next question will offer a rule for that exact call."
                )
                yield warning("rule-old", Place(url), what, todo)
        return


def live_findings(
    access: Access, asking: Asking, *, url: str, wait: float | None
) -> tuple[Live | None, Sequence[Finding]]:
    """Create a breakpoint, receive it from the stream and cancel it; or wait for an answer if `wait` is given."""
    place = Place(url)
    with stoppable(), Assent(url, access.token, patience=PATIENCE) as assent:
        started = time.monotonic()
        try:
            raised = assent.create(_question(wait), **asking)
        except Forbidden as error:
            what = f"The test breakpoint could not be created with this token: {error.message}"
            todo = "Use --gate and --agent-id to choose a gate and an agent ID that the token allows."
            return None, [warning("live", access.place, what, todo)]
        except AssentError as error:
            what = f"The test breakpoint could not be created: {error.message}"
            return None, [problem("live", place, what, "Fix this first. Until then, agents cannot ask questions.")]
        made = Live(breakpoint_id=raised.id, status=raised.status, create_seconds=_since(started))
        with _taken_back(assent, raised.id):
            return _tried(assent, made, place) if wait is None else _answered(assent, made, place, wait)


def _question(wait: float | None) -> str:
    if wait is None:
        return "This is a test that will be cancelled immediately. Nothing depends on the answer."
    return "This is a test. Please approve or reject it. Nothing depends on the answer."


def _since(moment: float) -> float:
    return round(time.monotonic() - moment, 3)


@contextlib.contextmanager
def _taken_back(assent: Assent, breakpoint_id: str) -> Generator[None, None, None]:
    """Cancel the test breakpoint in any case, so that it does not stay in an inbox."""
    try:
        yield
    finally:
        try:
            assent.cancel(breakpoint_id)
        except AlreadyEnded:
            pass
        except AssentError as error:
            shown = output.visible(breakpoint_id)
            output.remark(
                f"The test breakpoint {shown} could not be cancelled: {output.visible(error.message)}", style="yellow"
            )


def _tried(assent: Assent, made: Live, place: Place) -> tuple[Live, Sequence[Finding]]:
    started = time.monotonic()
    events = assent.stream(made.breakpoint_id)
    try:
        next(events)
        heard = _since(started)
        again = time.monotonic()
        assent.cancel(made.breakpoint_id)
        last = [each.type for each in events][-1:]
    except (AssentError, StopIteration) as error:
        said = error.message if isinstance(error, AssentError) else "it ended immediately"
        what = f"The test breakpoint was created, but its event stream could not be read: {said}"
        todo = "If the server is behind a proxy, disable response buffering for text/event-stream."
        return made, [problem("live", place, what, todo)]
    ended = Live(
        breakpoint_id=made.breakpoint_id,
        status=last[0] if last else made.status,
        create_seconds=made.create_seconds,
        stream_seconds=heard,
        end_seconds=_since(again),
    )
    times = (
        f"created in {_ms(ended.create_seconds)}, streamed in {_ms(heard)} and cancelled in {_ms(ended.end_seconds)}"
    )
    return ended, [fine("live", place, f"The test breakpoint was {times}.")]


def _ms(seconds: float | None) -> str:
    return f"{(seconds or 0) * 1000:.0f} ms"


def _answered(assent: Assent, made: Live, place: Place, wait: float) -> tuple[Live, Sequence[Finding]]:
    shown = f"{assent.url}/breakpoints/{made.breakpoint_id}"
    output.remark(f"Waiting for an answer to the test breakpoint: {output.visible(shown)}")
    started = time.monotonic()
    try:
        status = assent.wait(made.breakpoint_id, timeout=wait)
    except StillWaiting:
        what = f"The test breakpoint was not answered within {wait:g} s."
        todo = "To see who was notified, run `assent delivery list`. Then check your channels and routes."
        return made, [problem("live", place, what, todo)]
    except AssentError as error:
        what = f"Could not wait for an answer to the test breakpoint: {error.message}"
        return made, [problem("live", place, what, "Fix this first. Agents wait for answers in the same way.")]
    by = status.result.responded_by if status.result is not None else None  # a rejection is falsy
    ended = Live(
        breakpoint_id=made.breakpoint_id,
        status=status.status,
        create_seconds=made.create_seconds,
        end_seconds=_since(started),
        answered_by=by,
    )
    if by is None:
        what = f"The test breakpoint ended without an answer: {status.status}."
        return ended, [problem("live", place, what, "Run `assent doctor --wait` again and answer the test breakpoint.")]
    return ended, [fine("live", place, f"The test breakpoint was answered by {by} after {_since(started):.1f} s.")]
