"""Predicts who would be notified about a breakpoint, on which channels and when, without notifying anyone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.usecases.create import Raised, Ready, experts_of
from assent.core.access import Permission, Principal
from assent.core.breakpoint import NEVER, Breakpoint, Status
from assent.core.draft import Draft
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.routes import Route, Step, StepKind, Timeout, chosen, named, people, steps
from assent.delivery.store.channels import Channels
from assent.delivery.store.routes import Routes
from assent.delivery.usecases.notification_plan import ticket_channels
from assent.delivery.usecases.recipients import PLACE, Plan, reaches
from assent.people.preferences import LONGEST_CHAIN, NONE, deputy
from assent.people.store.people import People
from assent.people.store.preferences import PreferenceStore
from assent.policy.usecases.rules import Question, RuleService


@dataclass(frozen=True, slots=True)
class Telling:
    """A message that would be sent."""

    channel: str
    person: str | None
    """None for a channel with a fixed destination."""
    not_before: int | None = None
    """When the person's quiet hours end, if they delay the message."""


@dataclass(frozen=True, slots=True)
class ForecastStep:
    kind: StepKind
    at: int
    told: tuple[Telling, ...] = ()
    then: str | None = None
    """How a timeout would end the breakpoint."""


@dataclass(frozen=True, slots=True)
class Forecast:
    route: Route | None
    steps: tuple[ForecastStep, ...]
    warnings: tuple[str, ...]


class RouteCheck:
    def __init__(self, rules: RuleService) -> None:
        self._rules = rules

    def of_breakpoint(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> Forecast:
        by.require(Permission.READ_PEOPLE)
        return forecast(tx, tx[Breakpoints].get(breakpoint_id, project=by.project))

    def of_draft(self, tx: Transaction, draft: Draft, *, by: Principal) -> Forecast:
        """Check the route of the breakpoint that the caller would create by submitting this draft now."""
        by.require(Permission.READ_PEOPLE)
        now = tx.now()
        question = Question.of(draft)
        recommendation = self._rules.recommend(tx, by.project, question, now=now)
        timeout = self._rules.route_timeout(tx, by.project, question)
        raised = Raised(draft, by, draft.digest(by.project), "bp_supposed", now, timeout)
        return forecast(tx, Ready.of(raised, recommendation, experts_of(tx, draft, by)).new)


def forecast(tx: Transaction, asked: Breakpoint) -> Forecast:
    if asked.status is not Status.WAITING:
        by_rule = asked.ended_by is not None and asked.ended_by.kind == "rule"
        how = "A rule approves this breakpoint" if by_rule else "This breakpoint has already ended"
        return Forecast(None, (), (f"{how}; no notifications are sent.",))
    route = chosen([each.route for each in tx[Routes].in_project(asked.project) if each.enabled], asked)
    tickets = ticket_channels(tx, asked)
    if tickets:
        route = route or Route(id="", pattern="*", channels=())
        route = replace(route, channels=tuple(dict.fromkeys((*route.channels, *tickets))))
    if route is None:
        return Forecast(
            None, (), ("No route matches. The breakpoint appears in the inbox, but no notifications are sent.",)
        )
    # The breakpoint's actual deadline can differ from the route's timeout.
    ending = replace(route, timeout=_deadline(asked))
    foreseen = tuple(_step(tx, asked, ending, each) for each in steps(ending, asked.created_at))
    return Forecast(route, foreseen, tuple(_warnings(tx, asked, route, foreseen)))


def _deadline(asked: Breakpoint) -> Timeout | None:
    """Return the breakpoint's deadline, which the agent, the route or the project's limit may have set."""
    if asked.due_at == NEVER:
        return None
    return Timeout((asked.due_at - asked.created_at) // SECOND, asked.on_timeout)


def _step(tx: Transaction, asked: Breakpoint, route: Route, step: Step) -> ForecastStep:
    if step.kind is StepKind.TIME_OUT:
        return ForecastStep(step.kind, step.at, then=route.timeout.then if route.timeout else None)
    if step.kind is StepKind.ESCALATE:
        level = route.escalate[step.index]
        plan = Plan(level.channels or route.channels, route.fallback, quiet=False)
        return ForecastStep(step.kind, step.at, _told(tx, asked, level.to, plan, step.at))
    plan = Plan(route.channels, route.fallback, route.quiet and step.kind is StepKind.ASK)
    return ForecastStep(step.kind, step.at, _told(tx, asked, route.to, plan, step.at))


def _told(tx: Transaction, asked: Breakpoint, to: Sequence[str], plan: Plan, at: int) -> tuple[Telling, ...]:
    meant = people(to, asked, tx[People].directory(asked.project, named(to, asked)))
    present = list(dict.fromkeys(_stands_in(tx, asked.project, each, at) for each in meant))
    return tuple(
        Telling(
            each.channel.name,
            None if each.recipient == PLACE else each.recipient.partition(":")[2],
            each.not_before or None,
        )
        for each in reaches(tx, asked.project, present, plan, now=at)
    )


def _stands_in(tx: Transaction, project: str, person: str, at: int) -> str:
    """Return the person or, if they are absent, the deputy who would be asked instead."""
    found = person
    for _ in range(LONGEST_CHAIN):
        known = tx[People].find_by_name(found)
        instead = deputy(tx[PreferenceStore].of([known.id]).get(known.id, NONE), at) if known else None
        if instead is None or instead == person:
            break
        found = instead
    return found if found in tx[People].directory(project, [found]).people else person


def _warnings(tx: Transaction, asked: Breakpoint, route: Route, foreseen: Sequence[ForecastStep]) -> list[str]:
    known = {each.name: each for each in tx[Channels].in_project(asked.project)}
    found = [f"Channel {name} not found." for name in route.channels if name not in known]
    found += [
        f"The channel {name} is disabled." for name in route.channels if name in known and not known[name].enabled
    ]
    found += [
        f"The {each.kind.value} step would not notify any recipients."
        for each in foreseen
        if each.kind is not StepKind.TIME_OUT and not each.told
    ]
    return found
