"""Delivery pages: list deliveries with their outcome, and retry failed ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from assent.core.access import Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.delivery.message import Purpose
from assent.delivery.routes import PERSON
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import CALLBACK, STATES, Attempt, Deliveries, Delivery
from assent.delivery.usecases.outbox import DeliveryService
from assent.delivery.usecases.recipients import PLACE
from assent.http.query import DELIVERY_ID, known_delivery_id, without_path
from assent.web.site import Site, Visit, page, redirect, route

PAGE = 50
MAX_FILTER = 100
MOST_IN_LINE = 200
MOST_TOLD = 200
SAID = {
    Purpose.ASK: "request",
    Purpose.REMIND: "reminder",
    Purpose.ESCALATE: "escalation",
    Purpose.TELL: "update",
    Purpose.CLOSE: "outcome",
}
ROOMS = {"slack": "Slack channel", "webhook": "webhook", "jira": "Jira project", "email": "address list"}
"""The destination of channels that do not send messages to each person, by type."""
MEANS = {
    "pending": "waiting to be sent",
    "sending": "being sent",
    "sent": "delivered",
    "answered": "answered from this message",
    "superseded": "no longer needed",
    "dead": "failed, no more retries",
}
DONE = {"retried": "Retrying now.", "none": "Nothing to retry."}


def routes(site: Site) -> list[Route]:
    one = "/deliveries/{delivery_id}"
    return [
        route("/deliveries", listing, site),
        route("/deliveries/retry", retry_all, site, method="POST"),
        route(one, delivery_page, site),
        route(one + "/retry", retry, site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Place:
    """The destination of a delivery: a channel, which may have been removed, or a callback."""

    name: str
    type: str
    id: str = ""
    """Empty if the channel does not have a page."""


@dataclass(frozen=True, slots=True)
class Item:
    delivery: Delivery
    place: Place
    whom: str
    title: str
    """The title of the breakpoint."""

    @property
    def what(self) -> str:
        """A description of the message; for a callback, the name of the event."""
        return self.delivery.type if self.delivery.channel == CALLBACK else SAID[Purpose(self.delivery.purpose)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters in the URL."""

    state: str = ""
    channel: str = ""
    breakpoint: str = ""
    cursor: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.state or self.channel or self.breakpoint)

    @property
    def wanted(self) -> dict[str, str]:
        given = {"state": self.state, "channel": self.channel, "breakpoint_id": self.breakpoint}
        return {name: value for name, value in given.items() if value}

    def address(self, **changes: str) -> str:
        changed = replace(self, **changes)
        given = [(name, getattr(changed, name)) for name in ("state", "channel", "breakpoint", "cursor")]
        text = urlencode([(name, value) for name, value in given if value])
        return f"/deliveries?{text}" if text else "/deliveries"


def filters(params: QueryParams) -> Filters:
    found = Filters(**{name: params.get(name, "").strip() for name in ("state", "channel", "breakpoint", "cursor")})
    if found.state and found.state not in STATES:
        raise InvalidRequest.at("state", f"must be one of {', '.join(STATES)}")
    if found.cursor and not DELIVERY_ID.fullmatch(found.cursor):
        raise InvalidRequest.at("cursor", "is not a cursor from this list")
    for name in ("channel", "breakpoint"):
        value: str = getattr(found, name)
        if len(value) > MAX_FILTER or "\x00" in value:
            raise InvalidRequest.at(name, f"must have at most {MAX_FILTER} characters and must not contain NUL")
    return found


async def listing(visit: Visit) -> Response:
    asked = filters(visit.request.query_params)

    def use_case(tx: Transaction) -> tuple[list[Item], list[StoredChannel]]:
        project = visit.who.project
        rows = tx[Deliveries].page(project, asked.wanted, after=asked.cursor, limit=PAGE + 1)
        return items(tx, rows, visit.who), tx[Channels].in_project(project)

    found, channels = await visit.site.database.read(use_case)
    return page(
        "deliveries.html",
        visit=visit,
        now=visit.site.clock.now(),
        asked=asked,
        states=MEANS,
        channels=channels,
        callback=CALLBACK,
        items=found[:PAGE],
        # The query reads one extra row to detect whether there is a next page.
        next_page=asked.address(cursor=found[PAGE - 1].delivery.id) if len(found) > PAGE else None,
        done=_done(visit.request.query_params),
    )


def _done(params: QueryParams) -> str | None:
    count = params.get("retried", "")
    if count.isascii() and count.isdigit() and len(count) <= 3 and int(count):  # noqa: PLR2004  # a batch is smaller
        return f"Retrying {plural(int(count), 'delivery', 'deliveries')}."
    return DONE.get(params.get("done", ""))


def items(tx: Transaction, rows: Iterable[Delivery], who: Principal) -> list[Item]:
    listed = list(rows)
    known = places(tx, {each.channel for each in listed})
    titles = tx[Deliveries].titles(list({each.breakpoint_id for each in listed}))
    return [
        Item(
            each,
            known[each.channel],
            whom(each.recipient, known[each.channel].type, who),
            titles.get(each.breakpoint_id, each.breakpoint_id),
        )
        for each in listed
    ]


def places(tx: Transaction, channels: Iterable[str]) -> Mapping[str, Place]:
    return {each: _place(each, tx[Channels].find(each) if each != CALLBACK else None) for each in channels}


def _place(channel: str, stored: StoredChannel | None) -> Place:
    if channel == CALLBACK:
        return Place("callback", "callback")
    if stored is None:
        return Place(channel, "unknown")
    return Place(stored.name, stored.type, stored.id if stored.removed_at is None else "")


def whom(recipient: str, kind: str, who: Principal) -> str:
    """Return the recipient's name; only admins see the path of a callback URL, which may contain a secret."""
    if recipient == PLACE:
        return ROOMS.get(kind, "everyone in the channel")
    if recipient.startswith(PERSON):
        return recipient.removeprefix(PERSON)
    return recipient if who.may(Permission.MANAGE) else without_path(recipient)


def told(tx: Transaction, breakpoint_id: str, who: Principal) -> list[Item]:
    """Return the last delivery about a breakpoint for each channel and recipient."""
    rows = tx[Deliveries].page(who.project, {"breakpoint_id": breakpoint_id}, after="", limit=MOST_TOLD)
    last: dict[tuple[str, str], Delivery] = {}
    for each in rows:
        key = (each.channel, each.recipient)
        # The rows are sorted by ID, which is not always the order of the events.
        if key not in last or each.seq > last[key].seq:
            last[key] = each
    return items(tx, sorted(last.values(), key=lambda each: each.id), who)


@dataclass(frozen=True, slots=True)
class Whole:
    item: Item
    attempts: Sequence[Attempt]
    line: Sequence[Item]
    """All deliveries to the same recipient about the same breakpoint, in order."""

    @property
    def ahead(self) -> int:
        """How many deliveries must be sent before this one."""
        mine = self.item.delivery
        return sum(
            1
            for each in self.line
            if each.delivery.seq < mine.seq
            and each.delivery.state in {"pending", "sending"}
            and not each.delivery.digested
        )


async def delivery_page(visit: Visit) -> Response:
    delivery_id = known_delivery_id(visit.request.path_params["delivery_id"])
    whole = await visit.site.database.read(partial(_whole, delivery_id=delivery_id, who=visit.who))
    return page(
        "delivery.html",
        visit=visit,
        now=visit.site.clock.now(),
        whole=whole,
        item=whole.item,
        delivery=whole.item.delivery,
        states=MEANS,
        done=_done(visit.request.query_params),
    )


def _whole(tx: Transaction, *, delivery_id: str, who: Principal) -> Whole:
    found = tx[Deliveries].get(delivery_id, project=who.project)
    wanted: dict[str, Any] = {"breakpoint_id": found.breakpoint_id, "channel": found.channel}
    rows = tx[Deliveries].page(who.project, wanted, after="", limit=MOST_IN_LINE)
    line = sorted((each for each in rows if each.recipient == found.recipient), key=lambda each: each.seq)
    (item,) = items(tx, [found], who)
    return Whole(item, tx[Deliveries].attempts(delivery_id), items(tx, line, who))


async def retry(visit: Visit) -> Response:
    delivery_id = known_delivery_id(visit.request.path_params["delivery_id"])
    await visit.site.database.write(partial(visit.site[DeliveryService].retry, delivery_id=delivery_id, by=visit.who))
    return redirect(f"/deliveries/{delivery_id}?done=retried")


async def retry_all(visit: Visit) -> Response:
    """Retry all failed deliveries of a channel."""
    channel = visit.form.get("channel", "")[:MAX_FILTER]
    count = await visit.site.database.write(
        partial(visit.site[DeliveryService].retry_all, channel=channel, by=visit.who)
    )
    told_so = {"retried": str(count)} if count else {"done": "none"}
    return redirect("/deliveries?" + urlencode({"channel": channel} | told_so))
