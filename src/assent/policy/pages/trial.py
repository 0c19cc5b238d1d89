"""Tests a pattern while it is being edited: shows syntax errors, or matches and a back-test."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.charts import Chart, Series
from assent.core.errors import InvalidRequest, PatternError
from assent.core.patterns.expressions import MISSING
from assent.core.patterns.pattern import Finding
from assent.core.rulebook import RuleAction
from assent.policy.backtest import Effect, Outcome
from assent.policy.rule_warnings import warnings
from assent.policy.store.backtest import Named
from assent.policy.usecases.backtest import DAY, BacktestService, Report, Run, Wanted
from assent.policy.usecases.pattern_preview import Example, Explained, explained
from assent.web.site import Site, Visit, page, route

DAYS = 30
LISTED = 20
MAX_PATTERN = 4000
MAX_SHOWN = 200
ACTIONS = {
    RuleAction.AUTO.value: "Approve automatically",
    RuleAction.NEVER.value: "Always require human approval",
}
_COLUMNS: Sequence[tuple[str, str, tuple[Outcome, ...]]] = (
    ("approved by people", "yes", (Outcome.APPROVED,)),
    ("rejected by people", "no", (Outcome.REJECTED,)),
    ("auto-approved", "accent", (Outcome.AUTO,)),
    ("expired or cancelled", "edge", (Outcome.EXPIRED, Outcome.TIMED_OUT, Outcome.CANCELLED)),
    ("still pending", "wait-dot", (Outcome.WAITING,)),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A syntax error in a pattern: a message, the line, and the text before the error."""

    text: str
    line: str
    before: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the pattern, evaluated against an example."""

    part: str
    actual: str
    held: str


@dataclass(frozen=True, slots=True)
class Backtest:
    """A back-test report for display."""

    report: Report
    chart: Chart

    @property
    def approves(self) -> bool:
        return self.report.wanted.action == RuleAction.AUTO

    @property
    def numbers(self) -> list[tuple[str, int]]:
        return [(name, _sum(self.report.counts.outcomes, which)) for name, _, which in _COLUMNS]

    @property
    def stopped(self) -> int:
        return self.report.counts.effects[Effect.STOPPED]

    @property
    def purged(self) -> int:
        return self.report.counts.effects[Effect.PURGED]

    @property
    def rejections(self) -> Sequence[Named]:
        return self.report.items.get(Outcome.REJECTED, ())

    @property
    def waiting(self) -> Sequence[Named]:
        return self.report.items.get(Outcome.WAITING, ())

    def count(self, outcome: str) -> int:
        return self.report.counts.outcomes[Outcome(outcome)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A pattern and its test results, which are empty if the pattern is empty."""

    pattern: str = ""
    action: str = RuleAction.AUTO.value
    problem: Problem | None = None
    explained: Explained | None = None
    backtest: Backtest | None = None

    @property
    def warnings(self) -> list[str]:
        return warnings(self.pattern, self.action)

    @property
    def later(self) -> str:
        """The URL of the page with the back-test."""
        return "/rules/test?" + urlencode({"pattern": self.pattern, "action": self.action})

    def parts(self, example: Example) -> list[Part]:
        return [Part(each.part, _actual(each), _held(each)) for each in example.findings]


def asked_action(given: Mapping[str, str]) -> str:
    action = given.get("action") or RuleAction.AUTO.value
    if action not in ACTIONS:
        raise InvalidRequest.at("action", f"must be {' or '.join(ACTIONS)}")
    return action


async def tried(visit: Visit, pattern: str, action: str, *, backtest: bool = True) -> Trial:
    """Parse and explain a pattern and, if requested, back-test it."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidRequest.at("pattern", f"must have at most {MAX_PATTERN:,} characters")
    if not pattern.strip():
        return Trial(pattern=pattern, action=action)
    try:
        # `never` rules match loosely.
        found = await explained(visit.site.database, pattern, by=visit.who, loose=action != RuleAction.AUTO)
    except PatternError as error:
        return Trial(pattern=pattern, action=action, problem=problem_of(pattern, error))
    if not backtest:
        return Trial(pattern=pattern, action=action, explained=found)
    wanted = Wanted(pattern=pattern, action=action, days=DAYS, limit=LISTED)
    run = await visit.site[BacktestService].prepare(wanted, by=visit.who)
    return Trial(pattern=pattern, action=action, explained=found, backtest=await looked_back(visit, run))


async def looked_back(visit: Visit, run: Run) -> Backtest:
    report = await visit.site[BacktestService].report(run, daily=True)
    return Backtest(report, _chart(report))


async def test(visit: Visit) -> Response:
    """Show the page for testing a pattern, or only the part that a script requests."""
    params = visit.request.query_params
    pattern, action = params.get("pattern", ""), asked_action(params)
    region = visit.region
    # A back-test is slow, so the script requests it separately, after the visitor has stopped typing.
    trial = await tried(visit, pattern, action, backtest=region != "trial")
    template = {"trial": "rules_trial.html", "backtest": "rules_backtest.html"}.get(region or "", "rules_test.html")
    return page(template, visit=visit, now=visit.site.clock.now(), trial=trial, actions=ACTIONS)


def routes(site: Site) -> list[Route]:
    return [route("/rules/test", test, site)]


def problem_of(pattern: str, error: PatternError) -> Problem:
    lines = pattern.split("\n")
    place: dict[str, Any] = dict(error.details)
    n = min(int(place.get("line", 1)), len(lines)) - 1
    column = int(place.get("column", 1)) - 1
    return Problem(error.message, lines[n], lines[n][:column])


def _actual(finding: Finding) -> str:
    if finding.actual is MISSING:
        return "not given"
    text = json.dumps(finding.actual, ensure_ascii=False, default=list)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def _held(finding: Finding) -> str:
    return finding.note or "unknown" if finding.held is None else "matched" if finding.held else "did not match"


def _chart(report: Report) -> Chart:
    first, last = report.window.since // DAY, (report.window.until - 1) // DAY
    at = [n * DAY for n in range(first, last + 1)]
    days = [report.counts.days.get(each, Counter[Outcome]()) for each in at]
    verb = "approved" if report.wanted.action == RuleAction.AUTO else "sent to a reviewer"
    return Chart(
        id="by-day",
        title="By day",
        summary=f"Breakpoints that the rule would have {verb}, by creation day and outcome.",
        kind="bars",
        unit="count",
        step=DAY,
        at=at,
        series=[Series(name, token, [_sum(each, which) for each in days]) for name, token, which in _COLUMNS],
    )


def _sum(counts: Mapping[Outcome, int], which: Sequence[Outcome]) -> int:
    return sum(counts.get(each, 0) for each in which)
