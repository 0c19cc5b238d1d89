"""Routes: who is notified of which breakpoints, on which channels, and what happens until there is an answer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from assent.core.breakpoint import Breakpoint
from assent.core.errors import PatternError
from assent.core.patterns.expressions import Subject
from assent.core.patterns.pattern import match, parse
from assent.core.rules import subject_of
from assent.core.seats import OWNER, Directory
from assent.core.timestamps import SECOND

EXPERTS = "experts"
PERSON, GROUP = "person:", "group:"


class StepKind(StrEnum):
    ASK = "ask"
    REMIND = "remind"
    ESCALATE = "escalate"
    TIME_OUT = "time-out"


@dataclass(frozen=True, slots=True)
class Escalation:
    after: int
    """Seconds after the breakpoint was created."""
    to: tuple[str, ...]
    channels: tuple[str, ...] = ()
    """Channels to use; by default, those of the route."""


@dataclass(frozen=True, slots=True)
class Timeout:
    after: int
    then: str
    """`expire` or `reject`: a timeout never approves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route. Channels and people are given by name, and delays in seconds after the breakpoint is created."""

    id: str
    pattern: str
    channels: tuple[str, ...]
    to: tuple[str, ...] = (EXPERTS,)
    fallback: tuple[str, ...] = ()
    remind: tuple[int, ...] = ()
    escalate: tuple[Escalation, ...] = ()
    timeout: Timeout | None = None
    quiet: bool = True
    """Whether to respect quiet hours."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    at: int
    kind: StepKind
    index: int = 0
    """The index of the reminder or escalation in the route."""


def steps(route: Route, created_at: int) -> tuple[Step, ...]:
    """Return the steps to take until there is an answer, in order."""
    later = [Step(created_at + after * SECOND, StepKind.REMIND, n) for n, after in enumerate(route.remind)]
    later += [Step(created_at + each.after * SECOND, StepKind.ESCALATE, n) for n, each in enumerate(route.escalate)]
    if route.timeout is not None:
        later.append(Step(created_at + route.timeout.after * SECOND, StepKind.TIME_OUT))
    return (Step(created_at, StepKind.ASK), *sorted(later, key=lambda each: (each.at, each.kind)))


def chosen(routes: Sequence[Route], asked: Breakpoint) -> Route | None:
    """Return the first route whose pattern matches; an invalid pattern does not match."""
    subject = subject_of(asked)
    return next((each for each in routes if _fits(each.pattern, subject)), None)


def timeout_for(routes: Sequence[Route], subject: Subject) -> Timeout | None:
    """Return the timeout of the first matching route, which sets the deadline if the agent did not set one."""
    route = next((each for each in routes if _fits(each.pattern, subject)), None)
    return route.timeout if route is not None else None


def _fits(pattern: str, subject: Subject) -> bool:
    try:
        # A condition whose value is unknown does not match.
        return match(parse(pattern), subject) is True
    except PatternError:
        return False


def people(to: Iterable[str], asked: Breakpoint, directory: Directory) -> tuple[str, ...]:
    """Return the names of the people that the targets refer to, each once; the default expert is the owner."""
    found: dict[str, None] = {}
    for target in to:
        for expert in _experts(target, asked):
            found |= dict.fromkeys(sorted(directory.carriers(expert)))
    return tuple(found)


def named(to: Iterable[str], asked: Breakpoint) -> tuple[str, ...]:
    """Return the names of the experts to look up for these targets."""
    return tuple(dict.fromkeys(expert for target in to for expert in _experts(target, asked)))


def _experts(target: str, asked: Breakpoint) -> tuple[str, ...]:
    if target == EXPERTS:
        return tuple(name for seat in asked.seats for name in seat.names) or (OWNER,)
    return (target.removeprefix(PERSON).removeprefix(GROUP),)
