"""Asking without a server: local rules, the terminal and a journal, using the same code as the server."""

import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from assent.contracts import breakpoints as shapes
from assent.contracts.create import CreateBreakpoint
from assent.contracts.shape import plain
from assent.core.access import Actor, Kind
from assent.core.breakpoint import (
    NEVER,
    Action,
    Breakpoint,
    Event,
    Response,
    Status,
    advance,
    answered,
    approve_by_rule,
    cancel,
    record,
    release,
    response_body,
    terms_of,
    time_out,
    unanswered,
)
from assent.core.canonical import Json, is_object, strict_loads
from assent.core.counting import differences
from assent.core.draft import MAX_FILES, Draft, draft
from assent.core.errors import AssentError, InvalidRequest, TooLarge
from assent.core.old_rules import ALWAYS_APPROVE, sentence, unnamed_in
from assent.core.rulebook import Rule, RuleAction
from assent.core.rules import STOPS, Recommendation, Source, propose, recommend, subject_of
from assent.core.seats import Seat
from assent.core.strategies import NEEDS_EXPERTS, Decision, Vote, verdict
from assent.core.terms import Terms
from assent.core.timestamps import SECOND, iso
from assent.sdk.errors import CannotAsk
from assent.sdk.local_journal import Journal
from assent.sdk.local_rules import RULES, LocalRules, add_rule, read_rules
from assent.sdk.local_shown import show
from assent.sdk.local_talk import Said, talk
from assent.sdk.local_terminal import Late, Person, open_terminal
from assent.sdk.user import user
from assent.sdk.visible import visible

PROJECT, VIA = "local", "terminal"
NO_TERMINAL = Actor(Kind.SYSTEM, "no-terminal")
NO_QUORUM = Actor(Kind.SYSTEM, "one-person")


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """The environment of a local question: the folder, user, clock, new IDs, and how to ask the person."""

    folder: Path
    user: str
    now: Callable[[], int]
    new_id: Callable[[str], str]
    person: Callable[[int | None], Person | None]
    """Takes the number of seconds left to answer."""

    @property
    def journal(self) -> Journal:
        return Journal(self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a local breakpoint ended."""

    id: str
    gate: str
    status: shapes.Status
    auto_approval: Mapping[str, Json]
    rule_problem: str | None
    unseen: bool
    """True if no one could be asked (no terminal, or the strategy requires several people) and it was rejected."""

    def asked(self) -> shapes.BreakpointResult:
        """Return the result; raise CannotAsk if no one could be asked, so that a retry loop does not spin."""
        if self.unseen:
            raise CannotAsk(self.result.feedback or "", result=plain(self.result))
        return self.result

    @property
    def result(self) -> shapes.BreakpointResult:
        assert self.status.result is not None, "it has ended"
        return self.status.result


def folder() -> Path:
    """Return the folder with this machine's journal and rules."""
    chosen = os.environ.get("ASSENT_LOCAL_DIR")
    return Path(chosen).expanduser() if chosen else Path.home() / ".assent"


def desk(person: Callable[[int | None], Person | None] = open_terminal) -> Desk:
    """Return the desk of the user who runs this process."""
    return Desk(folder=folder(), user=user(), now=_now, new_id=_new_id, person=person)


def _now() -> int:
    return time.time_ns() // 1000


def _new_id(prefix: str) -> str:
    return f"{prefix}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


def ask(body: Mapping[str, Any], at: Desk) -> Outcome:
    """Create a local breakpoint, have it answered by a rule or in the terminal, and record everything."""
    wanted = _draft(body)
    journal, rules = at.journal, read_rules(at.folder)
    recommendation, old = _recommended(rules, wanted, journal, now=at.now())
    asked = _raised(wanted, recommendation, journal, at)
    if recommendation.recommended:
        rule = recommendation.matched_rule or recommendation.source.value
        ended, event = approve_by_rule(asked, rule, at=at.now(), why=recommendation.why())
        journal.append([event])
    else:
        ended, events = _asked(asked, wanted, rules, recommendation, old, at)
        journal.append(events)
    return _outcome(ended, recommendation, rules.problem or old.problem)


def _draft(body: Mapping[str, Any]) -> Draft:
    """Validate the body as strictly as the server does."""
    try:
        sent = strict_loads(json.dumps(body, allow_nan=False).encode())
        CreateBreakpoint.model_validate(sent)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidRequest.at("/" + "/".join(map(str, first["loc"])), str(first["msg"])) from error
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"The payload is not valid JSON: {error}.") from error
    wanted = draft(sent)
    if sum(len(file.content or b"") for file in wanted.files) > MAX_FILES:
        raise TooLarge(f"The files exceed {MAX_FILES:,} bytes in total.")
    return wanted


@dataclass(frozen=True, slots=True)
class _Old:
    """Rules from an older version that would have approved a call without checking all of it."""

    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    """By rule ID, a sentence about what the rule does not check."""

    @property
    def problem(self) -> str | None:
        return " ".join(self.rules.values()) or None


def _recommended(rules: LocalRules, wanted: Draft, journal: Journal, *, now: int) -> tuple[Recommendation, _Old]:
    old: dict[str, str] = {}
    while True:
        found = _recommended_without(old, rules, wanted, journal, now=now)
        missing = unnamed_in(found.matched, wanted.gate, wanted.payload) if found.recommended and found.matched else ()
        if not missing or found.matched is None:
            return found, _Old(old)
        # Evaluate again without this rule, because another rule may still approve the call.
        old[found.matched.id] = sentence(found.matched.id, missing)


def _recommended_without(
    old: Collection[str], rules: LocalRules, wanted: Draft, journal: Journal, *, now: int
) -> Recommendation:
    counting = rules.counting
    counted = journal.streak(wanted.gate, wanted.agent_id, counting.key(wanted.payload), key=counting.key)
    consecutive = len(counted)
    if rules.problem is not None:
        return Recommendation(
            recommended=False,
            reason=rules.problem,
            source=Source.PROMPT,
            matched=None,
            consecutive_approvals=consecutive,
            trace=(),
            shadow_matches=(),
        )
    after_n: Json = wanted.payload.get("autoApproveAfterN")
    found = recommend(
        rules.book(without=old),
        subject_of(wanted),
        hard_stop=wanted.payload.get("hardStop") is True,
        plain=Terms.of(wanted.gate, wanted.payload).plain,
        after_n=counting.threshold(after_n if isinstance(after_n, int) else None, wanted.payload),
        consecutive=consecutive,
        now=now,
    )
    if found.source is not Source.AFTER_N:
        return found
    differed = differences(wanted.payload, counted.values())
    return replace(found, counted=tuple(counted), differed=differed)


def _raised(wanted: Draft, recommendation: Recommendation, journal: Journal, at: Desk) -> Breakpoint:
    """Record the question before asking it."""
    now, ttl = at.now(), wanted.ttl_seconds
    actor = Actor(Kind.AGENT, wanted.agent_id)
    new = Breakpoint(
        id=at.new_id("local_"),
        project=PROJECT,
        agent_id=wanted.agent_id,
        run_id=wanted.run_id,
        title=wanted.title,
        gate=wanted.gate,
        payload=wanted.payload,
        tags=wanted.tags,
        seats=tuple(Seat(name) for name in wanted.experts),
        strategy=wanted.strategy,
        risk=wanted.risk,
        priority=wanted.priority,
        on_timeout=wanted.on_timeout or "expire",
        ttl_seconds=ttl,
        callback_url=None,
        digest=wanted.digest(PROJECT),
        created_at=now,
        created_by=actor,
        created_by_id=str(actor),
        due_at=now + ttl * SECOND if ttl is not None else NEVER,
        auto_approval=recommendation.body(),
        warnings=wanted.warnings,
    )
    metadata: dict[str, Json] = {
        "digest": new.digest,
        "terms": terms_of(new),
        "agentId": new.agent_id,
        "gate": new.gate,
        "autoApproval": new.auto_approval,
        "title": new.title,
        "tags": list(new.tags),
        "runId": new.run_id,
        "payload": new.payload,
        "user": at.user,
    }
    new, event = record(new, "created", actor=actor, at=now, metadata=metadata)
    journal.append([event])
    return new


def _asked(
    asked: Breakpoint, wanted: Draft, rules: LocalRules, recommendation: Recommendation, old: _Old, at: Desk
) -> tuple[Breakpoint, list[Event]]:
    if asked.strategy in NEEDS_EXPERTS and len(asked.seats) > 1:
        names = ", ".join(seat.name for seat in asked.seats)
        reason = f"{asked.strategy} requires answers from {names}, but only one person can answer here. Use a server."
        return _refused(asked, NO_QUORUM, reason, at)
    person = at.person(asked.ttl_seconds)
    if person is None:
        reason = "No reviewer could be asked: there is no terminal, and ASSENT_URL and ASSENT_TOKEN are not set."
        return _refused(asked, NO_TERMINAL, " ".join(filter(None, [reason, rules.problem, old.problem])), at)
    try:
        pattern = _pattern(asked, rules, recommendation)
        renew = 'Answer "always" to replace it with a rule for exactly this call.' if old.rules and pattern else None
        problem = " ".join(filter(None, [rules.problem, old.problem, renew]))
        show(person.console, asked, wanted.files, problem=problem or None)
        said = talk(person, Terms.of(asked.gate, asked.payload), _values(asked.payload), pattern=pattern)
        if said.always and pattern is not None:
            _write_rule(person, pattern, at, instead_of=old.rules)
    except Late:
        return _timed_out(asked, at)
    except KeyboardInterrupt:
        # Record the cancellation before Ctrl-C ends the program.
        _, event = cancel(asked, actor=Actor(Kind.PERSON, at.user), at=at.now())
        at.journal.append([event])
        raise
    finally:
        person.close()
    return _answered(asked, said, at)


def _refused(asked: Breakpoint, by: Actor, reason: str, at: Desk) -> tuple[Breakpoint, list[Event]]:
    """Reject on behalf of the system, because no person can approve the breakpoint here."""
    result = unanswered(Status.RELEASED) | {
        "decision": Decision.REJECTED.value,
        "respondedBy": str(by),
        "response": reason,
        "feedback": reason,
    }
    ended, event = release(asked, Decision.REJECTED, actor=by, at=at.now(), result=result)
    return ended, [event]


def _timed_out(asked: Breakpoint, at: Desk) -> tuple[Breakpoint, list[Event]]:
    ended, event = time_out(asked, at=at.now())
    return ended, [event]


def _answered(asked: Breakpoint, said: Said, at: Desk) -> tuple[Breakpoint, list[Event]]:
    now, answer = at.now(), said.answer
    # The person may have finished typing after the deadline.
    if asked.overdue(now):
        return _timed_out(asked, at)
    response = Response(
        person=at.user,
        approved=answer.approved,
        at=now,
        via=VIA,
        comment=answer.comment,
        option=answer.option,
        answers=answer.answers,
        edits=answer.edits,
        seat=asked.seats[0].name if len(asked.seats) == 1 else None,
        digest=asked.digest,
    )
    actor = Actor(Kind.PERSON, at.user)
    changed, first = advance(asked, Action.RESPOND, actor=actor, at=now, metadata=response_body(response))
    decision = verdict(asked.strategy, [Vote(at.user, answer.approved)], len(asked.seats)) or Decision.REJECTED
    result = answered(decision, [response], last=response)
    ended, second = release(changed, decision, actor=actor, at=now, result=result)
    return ended, [first, second]


def _pattern(asked: Breakpoint, rules: LocalRules, recommendation: Recommendation) -> str | None:
    """Return the pattern of the rule that "always" would add, or None if it would not be applied."""
    unwanted = asked.payload.get("presentAlwaysApprove") is False
    if unwanted or rules.problem is not None or recommendation.source in STOPS:
        return None
    try:
        return propose(subject_of(asked))
    except InvalidRequest:  # only a rule for an entire tool is possible
        return None


def _write_rule(person: Person, pattern: str, at: Desk, *, instead_of: Collection[str]) -> None:
    rule = Rule(
        id=at.new_id("rule-"),
        pattern=pattern,
        action=RuleAction.AUTO.value,
        source=ALWAYS_APPROVE,
        created_by=str(Actor(Kind.PERSON, at.user)),
        created_at=at.now(),
    )
    try:
        add_rule(at.folder, rule, instead_of=instead_of)
    except AssentError as error:
        # The person has approved this call, and the rule concerns only later calls.
        person.console.print(f"Approved, but the rule was not saved: {visible(error.message)}", style="yellow")
    else:
        person.console.print(f"Saved as {rule.id} in {at.folder / RULES}.", style="dim", soft_wrap=True)


def _values(payload: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the values that a reviewer may edit: the fields of the payload, and the arguments of a call."""
    arguments: Json = payload.get("arguments")
    return {**payload, **arguments} if is_object(arguments) else payload


def _outcome(ended: Breakpoint, recommendation: Recommendation, rule_problem: str | None) -> Outcome:
    status = shapes.Status(
        status=ended.status.value,
        updated_at=iso(ended.updated_at),
        decision=ended.decision.value if ended.decision else None,
        result=msgspec.convert(ended.result, shapes.BreakpointResult),
    )
    return Outcome(
        id=ended.id,
        gate=ended.gate,
        status=status,
        auto_approval=recommendation.body(),
        rule_problem=rule_problem,
        unseen=ended.ended_by in {NO_TERMINAL, NO_QUORUM},
    )
