"""The list of breakpoints, with filters in the URL, saved views, counts and pagination."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages import presentation
from assent.breakpoints.pages.filters import ALL, MAX_FILTER, MOST, SORTS, STATUS_NAMES, STEP, Filters, filters
from assent.breakpoints.pages.notices import Notice, notice_of
from assent.breakpoints.search_words import indexed_words, is_found, sought_words
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.reading import COUNT_CAP, Mine, Query, Snoozer, Summary, decode_cursor, encode_cursor
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.triage import Marks, TriageService
from assent.breakpoints.usecases.views import ViewService
from assent.core.access import Permission
from assent.core.errors import AssentError, InvalidRequest
from assent.core.headlines import Headline
from assent.core.timestamps import SECOND, from_iso
from assent.db.transaction import Transaction
from assent.http.problems import STATUS
from assent.http.query import STATUSES
from assent.people.usecases.people import PeopleService
from assent.web.site import Site, Visit, message_page, page, redirect, route

STORE_SORTS = {"deadline": "deadline", "newest": "-created", "oldest": "created"}
DAY = 24 * 3600 * SECOND
SUGGESTION_ROWS, MAX_SUGGESTIONS = 200, 8
MOST_TAGS_IN_ROW = 3
LONGEST_READ = 16_384
"""Maximum length of payloads read for row headlines; rows with longer payloads show the title, question or gate."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _day(text: str, name: str, *, after: int = 0) -> int | None:
    if not text:
        return None
    try:
        if _DATE.fullmatch(text):
            return from_iso(f"{text}T00:00:00Z") + after
    except ValueError:
        pass
    raise InvalidRequest.at(name, "must be a date such as 2026-11-16")


async def query(visit: Visit, asked: Filters) -> Query:
    sort = STORE_SORTS[asked.order]
    who, me = visit.who, Snoozer(visit.who.id, visit.site.clock.now())
    names: Sequence[str] = ()
    if asked.mine:
        names = await visit.site.database.read(partial(visit.site[PeopleService].expert_names, by=who))
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
        # Only pending breakpoints can be snoozed.
        not_snoozed_by=None if asked.snoozed or asked.status != "waiting" else me,
        sort=sort,
        limit=asked.rows,
        cursor=decode_cursor(asked.cursor, sort=sort) if asked.cursor else None,
    )


@dataclass(frozen=True, slots=True)
class Item:
    row: Summary
    tags: list[str]
    deadline: presentation.Deadline | None
    headline: Headline
    telling: Sequence[str] = ()
    """The tags that the row shows."""


def item(row: Summary, now: int, payload: str | None = None) -> Item:
    tags = msgspec.json.decode(row.tags, type=list[str])
    return Item(row, tags, presentation.deadline(row, now), presentation.heading(row, payload))


def _told_apart(items: Sequence[Item], asked: Filters) -> list[Item]:
    """Choose the tags that each row shows: the rarest tags in the list, excluding those in the filter."""
    counts = Counter(tag for each in items for tag in each.tags)
    return [
        replace(
            each,
            telling=sorted((tag for tag in each.tags if tag not in asked.tags), key=lambda tag: counts[tag])[
                :MOST_TAGS_IN_ROW
            ],
        )
        for each in items
    ]


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
    """The contents of the list pane."""

    asked: Filters
    now: int
    items: list[Item]
    total: str
    waiting: str
    """Number of pending breakpoints in the entire inbox, for the navigation, title and icon; empty instead of 0."""
    tabs: list[Tab]
    cleared: str
    marks: Mapping[str, Marks]
    first_run: bool = False
    """True if the project has never had a breakpoint."""
    more: str | None = None
    next_page: str | None = None
    views: list[View] = field(default_factory=list[View])
    reviewers: Sequence[tuple[str, str]] = ()
    """Suggested assignees as pairs of name and full name; only for full pages."""
    sorts: Mapping[str, str] = field(default_factory=lambda: SORTS)

    @property
    def status_text(self) -> str:
        """The noun or status after the total."""
        if self.asked.status == ALL:
            return "breakpoint" if self.total == "1" else "breakpoints"
        return STATUS_NAMES[self.asked.status].lower()


async def listed(visit: Visit, asked: Filters) -> Listing:
    wanted = await query(visit, asked)
    rows = await visit.site[InboxService].page(wanted)
    shown = rows[: asked.rows]
    further = len(rows) > asked.rows
    counts = await _counts(visit, asked, wanted)
    if not further and not asked.cursor:
        counts[asked.status] = len(shown)  # ignore changes since the rows were read; the next refresh shows them
    marks, views, reviewers, payloads = await visit.site.database.read(
        partial(_personal, visit=visit, ids=[row.id for row in shown], asked=asked)
    )
    now = visit.site.clock.now()
    # “Show more” extends the list up to its maximum length; after that, the list is paginated.
    grows = further and not asked.cursor and asked.rows < MOST
    return Listing(
        asked=asked,
        now=now,
        items=_told_apart([item(row, now, payloads.get(row.id)) for row in shown], asked),
        total=_count(counts, asked.status),
        waiting=await _waiting(visit) if asked.narrowed else _shown_count(counts),
        first_run=asked.status == "waiting" and not (asked.narrowed or asked.cursor or counts[ALL]),
        tabs=_tabs(asked, counts),
        cleared=Filters(status=asked.status, sort=asked.sort).address(),
        marks=marks,
        views=views,
        reviewers=reviewers,
        more=asked.address(shown=str(min(MOST, asked.rows + STEP))) if grows else None,
        next_page=asked.address(shown="", cursor=encode_cursor(wanted, shown[-1])) if further and not grows else None,
    )


async def _counts(visit: Visit, asked: Filters, wanted: Query) -> dict[str, int]:
    """Count the breakpoints in each tab; the numbers do not depend on the current tab."""
    reader, me = visit.site[InboxService].reader, Snoozer(visit.who.id, visit.site.clock.now())
    every = replace(wanted, statuses=STATUSES, cursor=None)
    if asked.snoozed:
        found = await reader.counts(every)
        return found | {ALL: sum(found.values())}
    found = await reader.counts(replace(every, not_snoozed_by=me))
    snoozed = await reader.counts(replace(every, statuses=("waiting",), not_snoozed_by=None, snoozed_by=me))
    # Unlike the “Pending” tab, the “All” tab includes snoozed breakpoints.
    return found | {ALL: sum(found.values()) + snoozed["waiting"]}


async def _waiting(visit: Visit) -> str:
    whole = await query(visit, Filters())
    return _shown_count(await visit.site[InboxService].reader.counts(whole))


def _shown_count(counts: Mapping[str, int]) -> str:
    return _count(counts, "waiting") if counts["waiting"] else ""


def _personal(
    tx: Transaction, *, visit: Visit, ids: list[str], asked: Filters
) -> tuple[Mapping[str, Marks], list[View], list[tuple[str, str]], Mapping[str, str]]:
    marks = visit.site[TriageService].marks(tx, ids, person_id=visit.who.id)
    # A view remains current on subsequent pages of its list.
    here = replace(asked, cursor="", shown="").query
    views = [
        View(each.name, f"/?{each.query}", each.query == here)
        for each in visit.site[ViewService].every(tx, by=visit.who)
    ]
    assigns = visit.region is None and (visit.who.may(Permission.DECIDE) or visit.who.may(Permission.OVERRIDE))
    reviewers = visit.site[PeopleService].suggested(tx, by=visit.who, reviewers=True) if assigns else []
    return marks, views, reviewers, tx[Breakpoints].payloads(ids, longest=LONGEST_READ)


async def listing(visit: Visit) -> Response:
    """Show the list, or only its rows if a script requests them."""
    asked = filters(visit.request.query_params)
    if visit.region == "rows":
        shown = await listed(visit, asked)
        # The first-run guide sends `first`, and must react only once to the first breakpoint.
        arrived = "first" in visit.request.query_params and not shown.first_run
        return page("rows_refreshed.html", visit=visit, list=shown, arrived=arrived)
    return await list_page(visit, asked, await notice_of(visit, asked))


@dataclass(frozen=True, slots=True)
class Suggestion:
    kind: str
    value: str
    address: str


async def suggestions(visit: Visit) -> Response:
    """Suggest filters for the last word in the search field: gates, agents and tags from the newest results."""
    asked = replace(filters(visit.request.query_params), cursor="", shown="")
    # The URL was opened directly, but only a script can insert the suggestions into a page.
    if visit.region is None:
        return redirect(asked.address())
    *before, typed = asked.q.split() or [""]
    sought = sought_words(typed)
    found: Counter[tuple[str, str]] = Counter()
    if sought:
        wanted = replace(await query(visit, replace(asked, q=typed, sort="newest")), limit=SUGGESTION_ROWS)
        for row in await visit.site[InboxService].page(wanted):
            tags = msgspec.json.decode(row.tags, type=list[str])
            named = [("Gate", row.gate), ("Agent", row.agent_id), *(("Tag", tag) for tag in tags)]
            # The row may have matched because of other words, such as those in its question.
            found.update(each for each in named if is_found(sought, indexed_words(each[1])))
    rest = replace(asked, q=" ".join(before))
    shown = [
        Suggestion(kind, value, _narrowed(rest, kind, value).address())
        for kind, value in sorted(found, key=lambda each: (-found[each], each))
        if len(value) <= MAX_FILTER
    ]
    return page("suggestions.html", visit=visit, suggestions=shown[:MAX_SUGGESTIONS])


def _narrowed(asked: Filters, kind: str, value: str) -> Filters:
    if kind == "Tag":
        return replace(asked, tags=tuple(dict.fromkeys((*asked.tags, value))))
    return replace(asked, gate=value) if kind == "Gate" else replace(asked, agent=value)


async def list_page(visit: Visit, asked: Filters, notice: Notice | None) -> Response:
    shown = await listed(visit, asked)
    address = visit.site.sessions.hosts.base_url(visit.request)
    if visit.region is not None:
        response = page("moved.html", visit=visit, list=shown, asked=asked, notice=notice, address=address)
        response.headers["HX-Push-Url"] = asked.address()
        return response
    return page(
        "inbox.html",
        visit=visit,
        list=shown,
        asked=asked,
        notice=notice,
        address=address,
        waiting_count=shown.waiting,
    )


def _tabs(asked: Filters, counts: Mapping[str, int]) -> list[Tab]:
    return [
        Tab(
            STATUS_NAMES[status],
            asked.address(status=status, sort="", shown="", cursor=""),
            _count(counts, status),
            asked.status == status,
        )
        for status in (*STATUSES, ALL)
    ]


def _count(counts: Mapping[str, int], status: str) -> str:
    """Format a count; a plus sign shows that counting stopped at the limit."""
    capped = any(counts[each] >= COUNT_CAP for each in (STATUSES if status == ALL else (status,)))
    return f"{counts[status]:,}{'+' if capped else ''}"


async def save_view(visit: Visit) -> Response:
    asked = filters(QueryParams(visit.form.get("query", "")))
    kept = replace(asked, cursor="", shown="")
    use_case = partial(visit.site[ViewService].save, name=visit.form.get("name", ""), query=kept.query, by=visit.who)
    try:
        await visit.site.database.write(use_case)
    except AssentError as error:
        return message_page("The view was not saved", error.message, status=STATUS[type(error)], visit=visit)
    return redirect(kept.address())


async def remove_view(visit: Visit) -> Response:
    await visit.site.database.write(
        partial(visit.site[ViewService].remove, name=visit.form.get("name", ""), by=visit.who)
    )
    return redirect("/")


async def to_list(_: Visit) -> Response:
    """Redirect a reload of a form's URL to the list."""
    return redirect("/")


def routes(site: Site) -> list[Route]:
    return [
        route("/", listing, site),
        route("/suggestions", suggestions, site),
        route("/views", save_view, site, method="POST"),
        route("/views/remove", remove_view, site, method="POST"),
        *(route(path, to_list, site) for path in ("/views", "/views/remove")),
    ]
