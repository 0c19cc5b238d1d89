"""The list of breakpoints: filters kept in the address, counts, the next page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response

from assent.domain.errors import InvalidRequest
from assent.http.addresses import STATUSES
from assent.store.reading import COUNT_CAP, Query, Summary, decode_cursor, encode_cursor
from assent.web import render
from assent.web.frame import Visit, page

ALL = "all"
SORTS = {"deadline": "Most urgent first", "newest": "Newest first"}
PAGE = 50
MAX_FILTER = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the person asked to see, as it stands in the address."""

    status: str = "waiting"
    tags: tuple[str, ...] = ()
    agent: str = ""
    gate: str = ""
    q: str = ""
    sort: str = ""
    cursor: str = ""

    @property
    def order(self) -> str:
        """What waits is sorted by urgency, what has ended by age, unless told otherwise."""
        return self.sort or ("deadline" if self.status == "waiting" else "newest")

    @property
    def narrowed(self) -> bool:
        return bool(self.tags or self.agent or self.gate or self.q)

    def address(self, **changes: str) -> str:
        changed = replace(self, **changes)  # type: ignore[arg-type]  # every field that is changed here is text
        named = [(name, getattr(changed, name)) for name in ("status", "agent", "gate", "q", "sort", "cursor")]
        given = [(name, value) for name, value in named if value and (name, value) != ("status", "waiting")]
        text = urlencode([*given, *(("tag", tag) for tag in changed.tags)])
        return f"/?{text}" if text else "/"


def filters(params: QueryParams) -> Filters:
    """Read the filters; a field of the form that was left empty is no filter."""
    for name, value in params.multi_items():
        if len(value) > MAX_FILTER or "\x00" in value:
            raise InvalidRequest.at(name[:20], f"must have at most {MAX_FILTER} characters and no NUL")
    found = Filters(
        status=params.get("status") or "waiting",
        tags=tuple(dict.fromkeys(tag.strip() for tag in params.getlist("tag") if tag.strip())),
        agent=params.get("agent", "").strip(),
        gate=params.get("gate", "").strip(),
        q=params.get("q", "").strip(),
        sort=params.get("sort", ""),
        cursor=params.get("cursor", ""),
    )
    if found.status not in {*STATUSES, ALL} or found.order not in SORTS:
        raise InvalidRequest.at("status or sort", "is not one that this list knows")
    return found


def query(asked: Filters, project: str) -> Query:
    sort = "deadline" if asked.order == "deadline" else "-created"
    return Query(
        project=project,
        statuses=STATUSES if asked.status == ALL else (asked.status,),
        tags=asked.tags,
        agent_id=asked.agent or None,
        gate=asked.gate or None,
        q=asked.q or None,
        sort=sort,
        limit=PAGE,
        cursor=decode_cursor(asked.cursor, sort=sort) if asked.cursor else None,
    )


@dataclass(frozen=True, slots=True)
class Item:
    row: Summary
    tags: list[str]
    deadline: render.Deadline | None


async def listing(visit: Visit) -> Response:
    asked = filters(visit.request.query_params)
    wanted = query(asked, visit.who.project)
    rows = await visit.site.inbox.page(wanted)
    shown = rows[:PAGE]
    counts = await visit.site.inbox.reader.counts(replace(wanted, statuses=STATUSES, cursor=None))
    now = visit.site.clock.now()
    return page(
        "list.html",
        visit=visit,
        now=now,
        asked=asked,
        sorts=SORTS,
        items=[item(row, now) for row in shown],
        tabs=_tabs(asked, counts),
        total=_count(counts, asked.status),
        waiting=counts["waiting"],
        cleared=Filters(status=asked.status, sort=asked.sort).address(),
        next_page=asked.address(cursor=encode_cursor(wanted, rows[PAGE - 1])) if len(rows) > PAGE else None,
    )


def item(row: Summary, now: int) -> Item:
    return Item(row, msgspec.json.decode(row.tags, type=list[str]), render.deadline(row, now))


@dataclass(frozen=True, slots=True)
class Tab:
    name: str
    address: str
    count: str
    current: bool


def _tabs(asked: Filters, counts: Mapping[str, int]) -> list[Tab]:
    return [
        Tab(status, asked.address(status=status, sort="", cursor=""), _count(counts, status), asked.status == status)
        for status in (*STATUSES, ALL)
    ]


def _count(counts: Mapping[str, int], status: str) -> str:
    """Counts stop at a cap, and say so."""
    found = sum(counts.values()) if status == ALL else counts[status]
    capped = any(counts[each] >= COUNT_CAP for each in (counts if status == ALL else (status,)))
    return f"{found:,}{'+' if capped else ''}"
