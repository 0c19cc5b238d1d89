"""The list of breakpoints: filters kept in the address, saved views, counts, and more of it on demand."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from assent.domain.errors import AssentError, InvalidRequest
from assent.domain.instants import SECOND, from_iso
from assent.http.addresses import STATUSES
from assent.http.problems import STATUS
from assent.services.triage import Marks
from assent.store.reading import COUNT_CAP, Mine, Query, Snoozer, Summary, decode_cursor, encode_cursor
from assent.store.transaction import Transaction
from assent.web import render
from assent.web.filters import ALL, MOST, SORTS, STEP, Filters, filters
from assent.web.frame import Site, Visit, message_page, page, redirect, route
from assent.web.notices import Notice, notice_of

STORE_SORTS = {"deadline": "deadline", "newest": "-created", "oldest": "created"}
DAY = 24 * 3600 * SECOND
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(text: str, name: str, *, after: int = 0) -> int | None:
    if not text:
        return None
    try:
        if _DATE.fullmatch(text):
            return from_iso(f"{text}T00:00:00Z") + after
    except ValueError:
        pass
    raise InvalidRequest.at(name, "must be a day such as 2026-11-16")


async def query(visit: Visit, asked: Filters) -> Query:
    sort = STORE_SORTS[asked.order]
    who, me = visit.who, Snoozer(visit.who.id, visit.site.clock.now())
    names: Sequence[str] = ()
    if asked.mine:
        names = await visit.site.database.read(partial(visit.site.people.expert_names, by=who))
    return Query(
        project=who.project,
        statuses=STATUSES if asked.status == ALL else (asked.status,),
        tags=asked.tags,
        experts_any=(asked.expert,) if asked.expert else (),
        agent_id=asked.agent or None,
        run_id=asked.run or None,
        gate=asked.gate or None,
        created_after=_day(asked.since, "since"),
        created_before=_day(asked.until, "until", after=DAY),
        q=asked.q or None,
        mine=Mine(who.id, tuple(names)) if asked.mine else None,
        snoozed_by=me if asked.snoozed else None,
        not_snoozed_by=None if asked.snoozed or asked.status != "waiting" else me,
        sort=sort,
        limit=asked.rows,
        cursor=decode_cursor(asked.cursor, sort=sort) if asked.cursor else None,
    )


@dataclass(frozen=True, slots=True)
class Item:
    row: Summary
    tags: list[str]
    deadline: render.Deadline | None


def item(row: Summary, now: int) -> Item:
    return Item(row, msgspec.json.decode(row.tags, type=list[str]), render.deadline(row, now))


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    address: str
    count: str
    current: bool


@dataclass(frozen=True, slots=True)
class View:
    name: str
    address: str
    current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Everything the list pane shows."""

    asked: Filters
    now: int
    items: list[Item]
    total: str
    waiting: int
    tabs: list[Tab]
    cleared: str
    marks: Mapping[str, Marks]
    more: str | None = None
    next_page: str | None = None
    views: list[View] = field(default_factory=list[View])
    sorts: Mapping[str, str] = field(default_factory=lambda: SORTS)

    @property
    def waiting_text(self) -> str:
        return _count({"waiting": self.waiting}, "waiting") if self.waiting else ""


async def listed(visit: Visit, asked: Filters) -> Listing:
    wanted = await query(visit, asked)
    rows = await visit.site.inbox.page(wanted)
    shown = rows[: asked.rows]
    counts = await visit.site.inbox.reader.counts(replace(wanted, statuses=STATUSES, cursor=None))
    marks, views = await visit.site.database.read(
        partial(_personal, visit=visit, ids=[row.id for row in shown], asked=asked)
    )
    now = visit.site.clock.now()
    further = len(rows) > asked.rows
    grows = further and not asked.cursor and asked.rows < MOST
    return Listing(
        asked=asked,
        now=now,
        items=[item(row, now) for row in shown],
        total=_count(counts, asked.status),
        waiting=await _waiting(visit) if asked.narrowed else counts["waiting"],
        tabs=_tabs(asked, counts),
        cleared=Filters(status=asked.status, sort=asked.sort).address(),
        marks=marks,
        views=views,
        more=asked.address(shown=str(min(MOST, asked.rows + STEP))) if grows else None,
        next_page=asked.address(shown="", cursor=encode_cursor(wanted, shown[-1])) if further and not grows else None,
    )


async def _waiting(visit: Visit) -> int:
    """Count what waits in the whole inbox, for the navigation and the title."""
    whole = await query(visit, Filters())
    return (await visit.site.inbox.reader.counts(whole))["waiting"]


def _personal(
    tx: Transaction, *, visit: Visit, ids: list[str], asked: Filters
) -> tuple[Mapping[str, Marks], list[View]]:
    marks = visit.site.triage.marks(tx, ids, person_id=visit.who.id)
    here = replace(asked, cursor="", shown="").query
    views = [
        View(each.name, f"/?{each.query}", each.query == here) for each in visit.site.views.every(tx, by=visit.who)
    ]
    return marks, views


async def listing(visit: Visit) -> Response:
    """Show the list; a script of ours gets the rows alone."""
    asked = filters(visit.request.query_params)
    if visit.region == "rows":
        return page("rows_refreshed.html", visit=visit, list=await listed(visit, asked))
    return await list_page(visit, asked, await notice_of(visit, asked))


async def list_page(visit: Visit, asked: Filters, notice: Notice | None) -> Response:
    shown = await listed(visit, asked)
    if visit.region is not None:
        response = page("moved.html", visit=visit, list=shown, asked=asked, notice=notice)
        response.headers["HX-Push-Url"] = asked.address()
        return response
    return page("inbox.html", visit=visit, list=shown, asked=asked, notice=notice, waiting_count=shown.waiting_text)


def _tabs(asked: Filters, counts: Mapping[str, int]) -> list[Tab]:
    return [
        Tab(
            status,
            asked.address(status=status, sort="", shown="", cursor=""),
            _count(counts, status),
            asked.status == status,
        )
        for status in (*STATUSES, ALL)
    ]


def _count(counts: Mapping[str, int], status: str) -> str:
    """Counts stop at a cap, and say so."""
    found = sum(counts.values()) if status == ALL else counts[status]
    capped = any(counts[each] >= COUNT_CAP for each in (counts if status == ALL else (status,)))
    return f"{found:,}{'+' if capped else ''}"


async def save_view(visit: Visit) -> Response:
    asked = filters(QueryParams(visit.form.get("query", "")))
    kept = replace(asked, cursor="", shown="")
    use_case = partial(visit.site.views.save, name=visit.form.get("name", ""), query=kept.query, by=visit.who)
    try:
        await visit.site.database.write(use_case)
    except AssentError as error:
        return message_page("The view was not saved", error.message, status=STATUS[type(error)], visit=visit)
    return redirect(kept.address())


async def remove_view(visit: Visit) -> Response:
    await visit.site.database.write(partial(visit.site.views.remove, name=visit.form.get("name", ""), by=visit.who))
    return redirect("/")


async def to_list(_: Visit) -> Response:
    """Lead a reload of a form's address back to the list."""
    return redirect("/")


def routes(site: Site) -> list[Route]:
    return [
        route("/", listing, site),
        route("/views", save_view, site, method="POST"),
        route("/views/remove", remove_view, site, method="POST"),
        *(route(path, to_list, site) for path in ("/views", "/views/remove")),
    ]
