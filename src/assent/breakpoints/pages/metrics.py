"""The Metrics page: pending breakpoints, decision times and outcomes, as charts and tables."""

from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.charts import Chart, Series, duration, outcome_label, percent
from assent.breakpoints.usecases.metrics import OUTCOMES, PERIODS, Insights, MetricsService, Step
from assent.core.errors import InvalidRequest
from assent.core.plurals import plural
from assent.policy.pages.gates import address
from assent.web.site import Site, Visit, page, route

USUAL = "7d"
TOKENS = {
    "approved": "yes",
    "rejected": "no",
    "auto": "accent",
    "expired": "edge",
    "cancelled": "muted",
    "waiting": "wait-dot",
}


def routes(site: Site) -> list[Route]:
    return [route("/insights", insights, site)]


async def insights(visit: Visit) -> Response:
    name = visit.request.query_params.get("period") or USUAL
    if name not in PERIODS:
        raise InvalidRequest.at("period", f"must be one of {', '.join(PERIODS)}")
    found = await visit.site[MetricsService].insights(PERIODS[name], by=visit.who)
    return page(
        "metrics.html",
        visit=visit,
        now=found.now,
        found=found,
        periods=PERIODS.values(),
        charts=[_waiting(found), _times(found), _shares(found)],
        outcomes=OUTCOMES,
        duration=duration,
        percent=percent,
        address=address,
        label=outcome_label,
    )


def _waiting(found: Insights) -> Chart:
    now, most = found.steps[-1].waiting, max(each.waiting for each in found.steps)
    return Chart(
        id="waiting",
        title="Pending",
        summary=f"{now:,} pending now, peak {most:,}.",
        kind="lines",
        unit="count",
        step=found.period.step,
        at=[each.since for each in found.steps],
        series=[Series("pending", "wait-dot", [each.waiting for each in found.steps])],
    )


def _times(found: Insights) -> Chart:
    taken = found.times
    summary = "No decisions yet."
    if taken:
        summary = (
            f"Of {plural(taken.count, 'decision')}, 50% took less than {duration(taken.p50)}, 90% less than "
            f"{duration(taken.p90)} and 99% less than {duration(taken.p99)}."
        )
    return Chart(
        id="times",
        title="Decision time",
        summary=f"{summary} Grouped by creation time.",
        kind="lines",
        unit="seconds",
        step=found.period.step,
        at=[each.since for each in found.steps],
        series=[
            Series("p50", "yes", [each.times.p50 if each.times else None for each in found.steps]),
            Series("p90", "wait-dot", [each.times.p90 if each.times else None for each in found.steps]),
            Series("p99", "no", [each.times.p99 if each.times else None for each in found.steps]),
        ],
    )


def _shares(found: Insights) -> Chart:
    told = ", ".join(
        f"{percent(found.whole.share(each))} {outcome_label(each)}" for each in OUTCOMES if found.whole.outcomes[each]
    )
    return Chart(
        id="shares",
        title="Outcomes",
        summary=f"{plural(found.raised, 'breakpoint')}: {told}." if told else "No breakpoints.",
        kind="bars",
        unit="percent",
        step=found.period.step,
        at=[each.since for each in found.steps],
        series=[
            Series(outcome_label(name), TOKENS[name], [_share(each, name) for each in found.steps]) for name in OUTCOMES
        ],
    )


def _share(step: Step, outcome: str) -> float | None:
    return step.outcomes[outcome] / step.looked_at if step.looked_at else None
