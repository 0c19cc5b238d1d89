"""Auto-approval: evaluates rules, tags and counts in order of precedence, and explains the result.

never-auto-approve rule > alwaysBreakOn tag, hardStop, high risk, open questions and files that configure gates >
auto-approve rule > autoApproveAfterN > prompt.

Unknown results count against an approval: `never` rules match, and auto-approve rules do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from assent.core.call_digests import CALL_DIGEST, call_digest
from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import InvalidRequest
from assent.core.exact_calls import exact_call
from assent.core.patterns.expressions import MISSING, Literal, Subject, Truth, listed
from assent.core.patterns.grammar import MAX_LENGTH, QUOTES, sayable
from assent.core.patterns.pattern import Finding, explain
from assent.core.plurals import plural
from assent.core.protected_paths import protected
from assent.core.rulebook import Compiled, Rule, Rulebook

_LETTERS, _ELEMENTS = 200, 20


class Source(StrEnum):
    """Sources of a recommendation, in order of precedence."""

    NEVER = "never-auto-approve"
    ALWAYS_BREAK_ON = "alwaysBreakOn"
    HARD_STOP = "hardStop"
    RISK = "risk"
    QUESTIONS = "questions"
    PROTECTED = "protected-path"
    AUTO = "auto-approve"
    AFTER_N = "autoApproveAfterN"
    PROMPT = "prompt"


STOPS = frozenset(
    {Source.NEVER, Source.ALWAYS_BREAK_ON, Source.HARD_STOP, Source.RISK, Source.QUESTIONS, Source.PROTECTED}
)


@dataclass(frozen=True, slots=True)
class Step:
    """A source that was evaluated, and whether it decided."""

    source: Source
    held: Truth
    recommended: bool | None
    """None if the next source is to be evaluated."""
    text: str = ""
    compiled: Compiled | None = None
    subject: Subject | None = None

    @property
    def rule(self) -> Rule | None:
        return self.compiled.rule if self.compiled else None

    @property
    def said(self) -> str:
        # Built on demand, because there can be thousands of rules that did not match.
        if self.compiled is None:
            return self.text
        rule = f"{self.source.value} rule: {self.rule}"
        if self.held is False:
            return f"Did not match {rule}."
        if self.held:
            return f"Matched {rule}."
        unknown = " and ".join(f"{each.part} is unknown ({each.note})" for each in self.findings() if each.held is None)
        if self.source is Source.AUTO:
            return f"Did not match {rule}; {unknown}."
        if self.compiled.pattern is None:
            return f"Matched {rule}; its pattern is invalid, so it blocks every auto-approval."
        return f"Matched {rule}; {unknown}, so a match cannot be ruled out."

    def findings(self) -> list[Finding]:
        """Return the result of each part of the rule's pattern."""
        pattern = self.compiled.pattern if self.compiled else None
        if pattern is None or self.subject is None:
            return []
        return explain(pattern, self.subject, loose=self.source is Source.NEVER)

    def body(self) -> dict[str, Json]:
        body: dict[str, Json] = {"source": self.source.value, "reason": self.said, "held": self.held}
        if self.compiled:
            body["rule"] = self.compiled.rule.id
            body["findings"] = [_finding_body(each) for each in self.findings()]
        return body


def _finding_body(finding: Finding) -> dict[str, Json]:
    body: dict[str, Json] = {"part": finding.part, "held": finding.held}
    return body if finding.actual is MISSING else body | {"actual": _shown(finding.actual)}


def _shown(value: Json) -> Json:
    """Shorten a value, because payloads can be large."""
    if is_array(value):
        return [_shown(each) for each in value[:_ELEMENTS]] + ["…"] * (len(value) > _ELEMENTS)
    if is_object(value):
        return "{…}"
    return f"{value[:_LETTERS]}…" if isinstance(value, str) and len(value) > _LETTERS else value


@dataclass(frozen=True, slots=True)
class ShadowMatch:
    """A matching rule in shadow mode, and what it would have recommended if it had been live."""

    rule: Rule
    recommended: bool

    def body(self) -> dict[str, Json]:
        return {"rule": self.rule.id, "recommended": self.recommended}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    recommended: bool
    reason: str
    source: Source
    matched: Rule | None
    consecutive_approvals: int
    trace: tuple[Step, ...]
    shadow_matches: tuple[ShadowMatch, ...]
    agent_id_claimed: bool = False
    counts_as: str | None = None
    """Key that approvals must share with this breakpoint to be counted."""
    counted: tuple[str, ...] = ()
    """IDs of the counted approvals, if the count decided."""
    differed: tuple[str, ...] = ()
    """Fields in which the payload differs from those of the counted approvals."""

    @property
    def matched_rule(self) -> str | None:
        return self.matched.id if self.matched else None

    def why(self) -> dict[str, Json]:
        """Return additional metadata for the release event: the approvals that the decision is based on."""
        if self.source is not Source.AFTER_N:
            return {}
        return {"countedApprovals": list(self.counted), "differed": list(self.differed)}

    def body(self) -> dict[str, Json]:
        """Return the `autoApproval` field of a breakpoint."""
        body: dict[str, Json] = {"recommended": self.recommended, "reason": self.reason}
        if self.matched:
            body["matchedRule"] = self.matched.id
        return body | {"consecutiveApprovals": self.consecutive_approvals}


@dataclass(frozen=True, slots=True)
class _Question:
    book: Rulebook
    subject: Subject
    fitting: Sequence[Compiled]
    hard_stop: bool
    plain: bool
    after_n: int
    consecutive: int


def recommend(  # noqa: PLR0913  # everything that affects the result
    book: Rulebook,
    subject: Subject,
    *,
    hard_stop: bool,
    after_n: int | None,
    consecutive: int,
    now: int,
    plain: bool = True,
) -> Recommendation:
    """Evaluate each source in order until one decides.

    `plain` means that an approval does not require an option or form answers.
    """
    fitting = book.fitting(subject.name, now)
    question = _Question(book, subject, fitting, hard_stop, plain, after_n or 0, consecutive)
    trace: list[Step] = []
    for step in _voices(question):
        trace.append(step)
        if step.recommended is not None:
            break
    last = trace[-1]
    return Recommendation(
        recommended=last.recommended is True,
        reason=last.said,
        source=last.source,
        matched=last.rule,
        consecutive_approvals=consecutive,
        trace=tuple(trace),
        shadow_matches=tuple(_shadows(fitting, subject, stopped=last.source in STOPS)),
        agent_id_claimed="agentId" in subject.claimed,
    )


def _voices(question: _Question) -> Iterator[Step]:
    subject = question.subject
    # Steps are generated lazily, so that nothing is evaluated after the source that decides.
    live = [each for each in question.fitting if each.live]
    yield from (_never(each, subject) for each in live if each.stops)
    yield from _stops(question)
    yield from _protects(question)
    yield from (_auto(each, subject) for each in live if not each.stops)
    yield from _counted(question)
    yield Step(Source.PROMPT, held=True, recommended=False, text=_prompted(question))


def _never(compiled: Compiled, subject: Subject) -> Step:
    held = compiled.holds(subject)
    # Unknown counts as a match.
    return Step(Source.NEVER, held, None if held is False else False, compiled=compiled, subject=subject)


def _auto(compiled: Compiled, subject: Subject) -> Step:
    held = compiled.holds(subject)
    return Step(Source.AUTO, held, True if held else None, compiled=compiled, subject=subject)


def _stops(question: _Question) -> Iterator[Step]:
    """Yield the reasons, other than rules, why the project or the agent requires a human decision."""
    values = question.subject.values
    tags: Sequence[Any] = listed(values.get("tags"))
    tag = next((each for each in tags if question.book.breaks_on(each)), None)
    if tag is not None:
        text = f"The tag {tag!r} always requires human approval (alwaysBreakOn)."
        yield Step(Source.ALWAYS_BREAK_ON, held=True, recommended=False, text=text)
    if question.hard_stop:
        yield Step(Source.HARD_STOP, held=True, recommended=False, text="The agent requires human approval (hardStop).")
    if values.get("risk") == "high":
        yield Step(Source.RISK, held=True, recommended=False, text="High risk: requires human approval.")
    if not question.plain:
        text = "It requires an option or form answers, which only a person can give."
        yield Step(Source.QUESTIONS, held=True, recommended=False, text=text)


def _protects(question: _Question) -> Iterator[Step]:
    """Yield a stop if the call may change a file that configures gates."""
    payload: Json = question.subject.values.get("payload")
    why = protected(question.subject.name, payload) if is_object(payload) else None
    if why is not None:
        yield Step(Source.PROTECTED, held=True, recommended=False, text=why)


def _counted(question: _Question) -> Iterator[Step]:
    """Yield the result of autoApproveAfterN, if its threshold is at least 1."""
    if question.after_n < 1:
        return
    reached = question.consecutive >= question.after_n
    text = (
        f"Approved by people {plural(question.consecutive, 'time')} in a row; autoApproveAfterN is {question.after_n}."
    )
    yield Step(Source.AFTER_N, reached, True if reached else None, text)


def _prompted(question: _Question) -> str:
    if question.after_n < 1:
        return f"No rule matches {question.subject.name}."
    return f"No rule matches {question.subject.name}; {question.consecutive} of {question.after_n} approvals in a row."


def _shadows(fitting: Iterable[Compiled], subject: Subject, *, stopped: bool) -> Iterator[ShadowMatch]:
    for each in fitting:
        if not each.live:
            held = each.holds(subject)
            if held or (each.stops and held is None):
                yield ShadowMatch(each.rule, recommended=not each.stops and not stopped)


class Asked(Protocol):
    """The fields of a draft or breakpoint that rules use."""

    @property
    def gate(self) -> str: ...
    @property
    def agent_id(self) -> str: ...
    @property
    def run_id(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def strategy(self) -> str: ...
    @property
    def risk(self) -> str | None: ...
    @property
    def priority(self) -> str: ...
    @property
    def payload(self) -> Mapping[str, Json]: ...


def subject_of(asked: Asked, *, claimed: bool = False) -> Subject:
    """Return what rules see of a breakpoint. The experts are those that were requested, not the current seats.

    `claimed` means that the agent ID is unverified.
    """
    payload = asked.payload
    if tuple(payload.get("tags") or ()) != asked.tags:
        # Also show tags from outside the payload to rules on payload.tags, so that moving a tag does not hide it.
        payload = {**payload, "tags": list(asked.tags)}
    digest = call_digest(payload)
    if payload.get(CALL_DIGEST) != digest:
        # Never use a digest that the agent sent, even if no digest can be computed: a false digest would match rules
        # for a different call.
        payload = {name: value for name, value in payload.items() if name != CALL_DIGEST}
        payload |= {CALL_DIGEST: digest} if digest is not None else {}
    values: dict[str, Any] = {
        "tags": asked.tags,
        "expert": asked.payload.get("expert"),
        "agentId": asked.agent_id,
        "runId": asked.run_id,
        "title": asked.title,
        "risk": asked.risk,
        "priority": asked.priority,
        "attempt": asked.payload.get("attempt"),
        "strategy": asked.strategy,
        "payload": payload,
    }
    return Subject(asked.gate, values, frozenset({"agentId"}) if claimed else frozenset())


def propose(subject: Subject) -> str:
    """Return the narrowest pattern for similar breakpoints: the same gate, agent and call, and at least these tags.

    It matches the subject itself. Conditions that a pattern cannot express, or that do not fit, are omitted, except
    for the call: raises InvalidRequest instead of suggesting a rule for a whole tool.
    """
    glob = "".join("*" if sign in "()" or sign.isspace() or not sayable(sign) else sign for sign in subject.name)
    glob = f"*{glob[1:]}" if glob[:1] in QUOTES else glob
    payload: Mapping[str, Json] = subject.values.get("payload") or {}
    needed, readable = exact_call(subject.name, payload)
    before: list[str] = []
    if "*" in glob:  # a star replaces characters that a glob cannot contain, so also require the exact gate
        before += _said("payload.breakpointId", "=", payload.get("breakpointId"))
    if "agentId" not in subject.claimed:
        before += _said("agentId", "=", subject.values.get("agentId"))
    after = [part for tag in listed(subject.values.get("tags")) for part in _said("tags", "contains", tag)]
    kept = MAX_LENGTH - len(glob) - len("()")
    while len(" AND ".join(parts := [*before, *readable, *needed, *after])) > kept:
        # Drop conditions until the pattern fits, but never those that identify the call.
        shorter = after or readable or before
        if not shorter:
            raise InvalidRequest("No rule can be suggested: a pattern for exactly this call would be too long.")
        shorter.pop()
    return f"{glob}({' AND '.join(parts)})" if parts else glob


def _said(path: str, operator: str, value: Json) -> list[str]:
    return [f"{path} {operator} {Literal.of(value).text}"] if isinstance(value, str) and sayable(value) else []
