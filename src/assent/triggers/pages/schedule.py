"""The Schedule page: the next and latest ticks of each schedule in its time zone and in UTC, and missed ticks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import InvalidRequest
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import FROM_FILE
from assent.runs.pages import duration
from assent.triggers import schedules
from assent.triggers.event import TriggerEvent
from assent.triggers.pages.layout import pointer_of, trigger_page
from assent.triggers.schedules import ON_TIME, Missed, Schedule
from assent.triggers.store.sources import StoredSource
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.sources import SourceService
from assent.web.guards import reading
from assent.web.site import Site, Visit, route

KIND = "schedule"
AHEAD = 5
LAST = 5
MOST_MISSED = 1_000
"""The maximum number of missed ticks that are counted."""
MEANS = {
    Missed.LAST: "after downtime, only the last missed tick fires",
    Missed.SKIP: "missed ticks are skipped",
    Missed.ALL: "after downtime, all missed ticks fire",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def routes(site: Site) -> list[Route]:
    return [route("/schedule", reading(schedule), site)]


@dataclass(frozen=True, slots=True)
class Instant:
    at: int
    local: str
    utc: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick that fired, and the number of missed ticks before it."""

    event: TriggerEvent
    instant: Instant
    late: int
    missed: int

    @property
    def on_time(self) -> bool:
        return self.late <= ON_TIME

    @property
    def lateness(self) -> str:
        return duration(self.late)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    source: StoredSource
    zone: str = ""
    cron: str = ""
    means: str = ""
    ahead: Sequence[Instant] = ()
    ticks: Sequence[Tick] = ()
    overdue: bool = False
    problem: str | None = None
    fixed: bool = False


def instant(at: int, zone: ZoneInfo) -> Instant:
    moment = _EPOCH + timedelta(microseconds=at)
    return Instant(
        at, moment.astimezone(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z"), moment.strftime("%Y-%m-%d %H:%M:%S")
    )


def entry(tx: Transaction, source: StoredSource, *, visit: Visit) -> Entry:
    fixed = source.origin == FROM_FILE
    try:
        found = schedules.read(source.settings)
    except InvalidRequest as error:
        return Entry(source=source, problem=pointer_of(error)[1], fixed=fixed)
    zone = ZoneInfo(str(source.settings.get("timezone", "UTC")))
    now = visit.site.clock.now()
    events = visit.site[TriggeringService].events(
        tx, {"source_id": source.id}, by=visit.who, before=None, limit=LAST + 1
    )
    return Entry(
        source=source,
        zone=zone.key,
        cron=found.cron,
        means=MEANS[found.missed],
        ahead=[instant(each, zone) for each in islice(found.after(now), AHEAD)] if source.enabled else (),
        # Replays did not fire at a scheduled time.
        ticks=ticks(found, [each for each in events if each.replay_of is None], zone),
        overdue=source.enabled and source.next_at is not None and source.next_at < now - ON_TIME,
        problem=source.problem,
        fixed=fixed,
    )


def ticks(found: Schedule, events: Sequence[TriggerEvent], zone: ZoneInfo) -> list[Tick]:
    """Return the latest ticks, newest first, each with the number of missed ticks before it."""
    told: list[Tick] = []
    for n, event in enumerate(events[:LAST]):
        at = event.arrived.occurred_at or event.received_at
        earlier = events[n + 1].arrived.occurred_at if n + 1 < len(events) else None
        missed = _between(found, earlier, at) if earlier is not None else 0
        told.append(Tick(event, instant(at, zone), max(0, event.received_at - at), missed))
    return told


def _between(found: Schedule, earlier: int, later: int) -> int:
    passed = takewhile(lambda each: each < later, found.after(earlier))
    return sum(1 for _ in islice(passed, MOST_MISSED))


def look(tx: Transaction, *, visit: Visit) -> list[Entry]:
    sources = visit.site[SourceService].listed(tx, by=visit.who)
    return [entry(tx, each, visit=visit) for each in sources if each.kind == KIND]


async def schedule(visit: Visit) -> Response:
    entries = await visit.site.database.read(partial(look, visit=visit))
    return await trigger_page("trigger_schedule.html", "schedule", visit=visit, entries=entries, most=MOST_MISSED)
