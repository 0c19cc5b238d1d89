"""The event page: the event's content and outcome, why each trigger did or did not match, and forms to replay it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.core.canonical import Json, is_array, is_object
from assent.core.errors import AssentError
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Deliveries
from assent.http.query import known_event_id
from assent.runs.model import Run
from assent.runs.store import Runs
from assent.triggers.event import EventState, TriggerEvent, envelope
from assent.triggers.model import FiringState
from assent.triggers.pages.dry_run import Told, Tried, shown, told_trace
from assent.triggers.pages.layout import said, trigger_page
from assent.triggers.store.firings import Firing
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.usecases.dispatch import TriggeringService, WholeEvent
from assent.triggers.usecases.triggers import TriggerService
from assent.web import filters as render
from assent.web.admin import text
from assent.web.guards import reading, ruling
from assent.web.rendering.json_tree import json_tree
from assent.web.site import Site, Visit, redirect, route

RUN = "run_"
LISTED = ("id", "data", "specversion", "datacontenttype")
"""Envelope attributes that are shown elsewhere on the page or are always the same."""


def routes(site: Site) -> list[Route]:
    one = "/events/{event_id}"
    return [
        route(one, reading(event_page), site),
        route(one + "/test", reading(test), site),
        route(one + "/replay", ruling(replay), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Link:
    """An event or a run in the chain of causes."""

    event: TriggerEvent | None = None
    run: Run | None = None
    here: bool = False
    below: "list[Link]" = field(default_factory=list["Link"])


@dataclass(frozen=True, slots=True)
class Sight:
    """A consistent snapshot of an event and everything related to it."""

    whole: WholeEvent
    runs: Mapping[str, Run]
    triggers: Sequence[StoredTrigger]
    source_stands: bool
    titles: Mapping[str, str]
    """The titles, by ID, of the breakpoints that hold the event's firings."""


def look(tx: Transaction, *, visit: Visit, event_id: str) -> Sight:
    whole = visit.site[TriggeringService].event(tx, event_id, by=visit.who)
    runs = dict(whole.runs)
    # Also load the runs that link the events in the chain.
    wanted = {each.causation_id for each in (*whole.chain, whole.event) if (each.causation_id or "").startswith(RUN)}
    for run_id in sorted(each for each in wanted if each and each not in runs):
        found = tx[Runs].find(run_id, project=visit.who.project)
        if found is not None:
            runs[run_id] = found
    source = tx[Sources].find(whole.event.source_id)
    held = [each.breakpoint_id for each in whole.firings if each.breakpoint_id]
    return Sight(
        whole,
        runs,
        visit.site[TriggerService].listed(tx, by=visit.who),
        source is not None and source.removed_at is None,
        tx[Deliveries].titles(held) if held else {},
    )


def sentence(event: TriggerEvent, firings: Sequence[Firing]) -> str:
    """Describe the outcome of an event."""
    if event.state is EventState.RECEIVED:
        return "The event has not been matched against the triggers yet."
    if event.state is EventState.FAILED:
        return "The event could not be processed. Fix the cause, then replay the event or ask the sender to resend it."
    if not firings:
        return "No trigger matched, so no run was started."
    started = len({each.run_id for each in firings if each.run_id})
    held = sum(each.state is FiringState.HELD for each in firings)
    dead = sum(each.state is FiringState.DEAD for each in firings)
    parts = [f"{plural(started, 'run')} started"] if started else []
    parts += [f"{plural(held, 'firing')} held"] if held else []
    parts += [f"{plural(dead, 'firing')} failed"] if dead else []
    matched = plural(len({each.trigger_id for each in firings}), "trigger")
    return f"{matched} matched: {', '.join(parts)}." if parts else f"{matched} matched, but no run was started."


def chain(sight: Sight) -> list[Link]:
    """Return the chain as a tree with the first event at its root. Each node's parent is its cause."""
    events = {each.id: each for each in (*sight.whole.chain, sight.whole.event)}
    # A single event without a cause or a run is not a chain.
    if len(events) == 1 and not sight.whole.runs and not sight.whole.event.causation_id:
        return []
    nodes = {each.id: Link(event=each, here=each.id == sight.whole.event.id) for each in events.values()}
    nodes |= {each.id: Link(run=each) for each in sight.runs.values()}
    roots: list[Link] = []
    for node_id, parent_id in _parents(sight, events):
        parent = nodes.get(parent_id or "")
        (parent.below if parent is not None else roots).append(nodes[node_id])
    return roots


def _parents(sight: Sight, events: Mapping[str, TriggerEvent]) -> Iterator[tuple[str, str | None]]:
    """Yield the ID of each event and run in the chain, in chronological order, with the ID of its cause."""
    found = [(each.received_at, each.id, each.causation_id) for each in events.values()]
    found += [(each.created_at, each.id, each.cause.event_id if each.cause else None) for each in sight.runs.values()]
    for _, node_id, parent_id in sorted(found, key=lambda each: (each[0], each[1])):
        yield node_id, parent_id


def traces(event: TriggerEvent) -> list[Told]:
    """Return the results of all triggers: matches first, then those with the fewest failed conditions."""
    kept = event.trace if is_array(event.trace) else []
    found = [told_trace(dict(each)) for each in kept if is_object(each)]
    return sorted(found, key=lambda each: (not each.matched, bool(each.problem), each.missed, each.trigger))


async def event_page(visit: Visit) -> Response:
    return await _event_page(visit)


async def _event_page(visit: Visit, error: AssentError | None = None) -> Response:
    event_id = known_event_id(visit.request.path_params["event_id"])
    sight = await visit.site.database.read(partial(look, visit=visit, event_id=event_id))
    event = sight.whole.event
    facts = {name: value for name, value in envelope(event).items() if name not in LISTED}
    body = render.pretty(event.arrived.data)
    return await trigger_page(
        "trigger_event.html",
        "events",
        visit=visit,
        error=error,
        problem=said(error) if error else None,
        event=event,
        outcome=sentence(event, sight.whole.firings),
        sight=sight,
        facts=facts,
        view={name: _plain(value) for name, value in event.arrived.view.items()},
        traces=traces(event),
        ids={each.name: each.id for each in sight.triggers},
        firings=sight.whole.firings,
        roots=chain(sight),
        data_tree=partial(json_tree, body),
        data_text=body,
    )


def _plain(value: Json) -> str:
    return ", ".join(map(str, value)) if is_array(value) else str(value)


async def replay(visit: Visit) -> Response:
    """Replay an event as a new one, for all triggers or a single one."""
    event_id = known_event_id(visit.request.path_params["event_id"])
    only = text(visit.form, "trigger")
    use_case = partial(visit.site[TriggeringService].replay, event_id=event_id, by=visit.who, trigger=only)
    try:
        made = await visit.site.database.write(use_case)
    except AssentError as error:
        return await _event_page(visit, error)
    return redirect(f"/events/{made.id}?done=replayed")


async def test(visit: Visit) -> Response:
    """Evaluate the current triggers for an event without starting anything."""
    event_id = known_event_id(visit.request.path_params["event_id"])

    def use_case(tx: Transaction) -> tuple[TriggerEvent, list[Tried]]:
        event = visit.site[TriggeringService].event(tx, event_id, by=visit.who).event
        trials = visit.site[TriggeringService].try_out(tx, by=visit.who, event=event)
        return event, [shown(event, each) for each in trials]

    event, tried = await visit.site.database.read(use_case)
    tried.sort(key=lambda each: (not each.told.matched, each.told.missed, each.told.trigger))
    return await trigger_page("trigger_event_test.html", "events", visit=visit, event=event, tried=tried)
