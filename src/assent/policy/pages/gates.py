"""Gate pages: a list with statistics, and a page for each gate with its history and the rules that match it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import quote, urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.charts import duration, outcome_label, percent
from assent.breakpoints.store.reading import Query, decode_cursor, encode_cursor
from assent.breakpoints.usecases.history import HistoryService, Past, response_seconds
from assent.breakpoints.usecases.metrics import GATE_DAYS, GATE_LOOKED_AT, OUTCOMES, MetricsService
from assent.core.errors import InvalidRequest, NotFound
from assent.core.exact_calls import is_whole_tool
from assent.core.gates import MAX_GATE
from assent.core.patterns.expressions import Subject
from assent.core.rulebook import Rule
from assent.core.rules import propose
from assent.policy.pages.rules import state
from assent.policy.pages.trial import ACTIONS
from assent.policy.usecases.rules import RuleService
from assent.web.site import Site, Visit, page, route

PAGE = 50
_DOTS = {".", ".."}
"""Browsers treat these as relative path segments, even if they are percent-encoded."""


def routes(site: Site) -> list[Route]:
    return [route("/gates", listing, site), route("/gates/{gate:path}", gate_page, site)]


def address(gate: str) -> str:
    return f"/gates?{urlencode({'gate': gate})}" if gate in _DOTS else f"/gates/{quote(gate, safe='')}"


def known_gate(gate: str) -> str:
    # PostgreSQL rejects NUL characters, which would result in an internal error.
    if not gate or len(gate) > MAX_GATE or "\x00" in gate:
        msg = f"Gate {gate[:60]!r} not found in this project."
        raise NotFound(msg)
    return gate


async def listing(visit: Visit) -> Response:
    params = visit.request.query_params
    if params.get("gate", "").strip():
        return await _gate_page(visit, known_gate(params["gate"].strip()))
    after = params.get("after", "")
    if len(after) > MAX_GATE or "\x00" in after:
        raise InvalidRequest.at("after", "is not a gate")
    found = await visit.site[MetricsService].gates(after=after, by=visit.who)
    return page(
        "gates.html",
        visit=visit,
        now=visit.site.clock.now(),
        found=found,
        after=after,
        days=GATE_DAYS,
        looked_at=GATE_LOOKED_AT,
        address=address,
        duration=duration,
        percent=percent,
        label=outcome_label,
        next_page=f"/gates?{urlencode({'after': found.lines[-1].gate})}" if found.more else None,
    )


async def gate_page(visit: Visit) -> Response:
    return await _gate_page(visit, known_gate(visit.request.path_params["gate"]))


@dataclass(frozen=True, slots=True)
class Line:
    past: Past
    took: str


async def _gate_page(visit: Visit, gate: str) -> Response:
    query = Query(project=visit.who.project, gate=gate, limit=PAGE)
    cursor = visit.request.query_params.get("cursor")
    asked = query if not cursor else _from(query, cursor)
    found = await visit.site[HistoryService].page(asked)
    if not found and not cursor:
        msg = f"No breakpoints found at gate {gate!r} in this project."
        raise NotFound(msg)
    now = visit.site.clock.now()
    standing = await visit.site[HistoryService].standing(query)
    fitting = partial(visit.site[RuleService].fitting, project=visit.who.project, gate=gate, now=now)
    rules: Sequence[Rule] = await visit.site.database.read(fitting)
    here = address(gate)
    # The history returns one more breakpoint than requested if there is another page.
    more = urlencode({"cursor": encode_cursor(query, found[PAGE - 1].row)}) if len(found) > PAGE else ""
    return page(
        "gates_one.html",
        visit=visit,
        now=now,
        gate=gate,
        here=here,
        standing=standing,
        outcomes=OUTCOMES,
        lines=[Line(each, duration(response_seconds(each.row))) for each in found[:PAGE]],
        rules=[(rule, state(rule, now)) for rule in rules],
        actions=ACTIONS,
        duration=duration,
        percent=percent,
        label=outcome_label,
        continued=bool(cursor),
        next_page=f"{here}{'&' if '?' in here else '?'}{more}" if more else None,
        write_address=_write_address(gate),
    )


def _write_address(gate: str) -> str:
    """Return the URL of the new-rule form for a gate. No pattern is suggested for gates that cover an entire tool."""
    return "/rules/new" if is_whole_tool(gate) else "/rules/new?" + urlencode({"pattern": propose(Subject(gate, {}))})


def _from(query: Query, cursor: str) -> Query:
    return replace(query, cursor=decode_cursor(cursor, sort=query.sort))
