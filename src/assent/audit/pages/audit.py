"""The audit log pages: list, verify and export all events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from assent.audit.store.event_log import ADMIN, BREAKPOINT, Logged, LogQuery, decode_place, encode_place
from assent.audit.usecases.event_log import EventLogService
from assent.audit.usecases.verify_job import Checking, CheckingService
from assent.core.access import Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import SECOND, from_iso
from assent.platform.admin_events import ACTS
from assent.web.admin import admin_page
from assent.web.guards import auditing
from assent.web.site import HEADERS, Site, Visit, large_page, redirect, route

PAGE = 50
MAX_FILTER = 200
MAX_METADATA = 2_000
MOST_FINDINGS = 200
MAX_CHANGES = 12
MAX_CHANGE = 200
DAY = 24 * 3600 * SECOND
TYPES = ("created", "commented", "responded", "warned", "released", "expired", "cancelled", "purged")
KINDS = {BREAKPOINT: "breakpoint events", ADMIN: "admin events"}
NAMES = ("kind", "actor", "type", "gate", "since", "until", "cursor")
MEDIA = {"csv": "text/csv; charset=utf-8", "json": "application/json"}


def routes(site: Site) -> list[Route]:
    return [
        route("/admin/audit", auditing(audit), site),
        route("/admin/audit/export.csv", auditing(export_csv), site),
        route("/admin/audit/export.json", auditing(export_json), site),
        route("/admin/audit/verify", auditing(verify), site, method="POST"),
        route("/admin/audit/checks/{checking_id}", auditing(checking), site),
        route("/admin/audit/checks/{checking_id}/live", auditing(checking_live), site),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters in the URL. Both dates are inclusive and in UTC."""

    kind: str = ""
    actor: str = ""
    type: str = ""
    gate: str = ""
    since: str = ""
    until: str = ""
    cursor: str = ""

    @property
    def narrowed(self) -> bool:
        return bool(self.kind or self.actor or self.type or self.gate or self.since or self.until)

    def address(self, path: str = "/admin/audit", **changes: str) -> str:
        changed = replace(self, **changes)
        text = urlencode([(name, value) for name in NAMES if (value := getattr(changed, name))])
        return f"{path}?{text}" if text else path

    def query(self, by: Principal) -> LogQuery:
        return LogQuery(
            project=by.project,
            everywhere=by.everywhere,
            kind=self.kind if self.kind in KINDS else None,
            actor=self.actor or None,
            type=self.type or None,
            gate=self.gate or None,
            since=_day(self.since, "since") if self.since else None,
            until=_day(self.until, "until") + DAY if self.until else None,
        )


def _day(text: str, name: str) -> int:
    try:
        return from_iso(text[:10]) if len(text) == 10 else from_iso("")  # noqa: PLR2004  # 2026-11-16
    except ValueError as error:
        raise InvalidRequest.at(name, "must be a date, such as 2026-11-16") from error


def filters(params: QueryParams) -> Filters:
    for name in NAMES:
        if len(params.get(name, "")) > MAX_FILTER or "\x00" in params.get(name, ""):
            raise InvalidRequest.at(name, f"must have at most {MAX_FILTER} characters and must not contain NUL")
    return Filters(**{name: params.get(name, "").strip() for name in NAMES})


@dataclass(frozen=True, slots=True)
class Row:
    event: Logged
    metadata: str
    more: int
    act: "Act | None" = None


@dataclass(frozen=True, slots=True)
class Act:
    """An admin event for display: its subject, how it was submitted and what changed."""

    subject: str
    via: str
    changes: Sequence[tuple[str, str, str]]


def _row(event: Logged) -> Row:
    told = "" if event.metadata in {"{}", "null"} else event.metadata
    act = _act(msgspec.json.decode(event.metadata)) if event.admin else None
    return Row(event, told[:MAX_METADATA], max(0, len(told) - MAX_METADATA), act)


def _act(metadata: Mapping[str, Any]) -> Act:
    before: Mapping[str, Any] = metadata.get("before") or {}
    after: Mapping[str, Any] = metadata.get("after") or {}
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    changes = [(name, _short(before.get(name)), _short(after.get(name))) for name in names[:MAX_CHANGES]]
    return Act(str(metadata.get("subject", "")), str(metadata.get("via", "")), changes)


def _short(value: object) -> str:
    text = "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_CHANGE else f"{text[:MAX_CHANGE]}…"


async def audit(visit: Visit) -> Response:
    asked = filters(visit.request.query_params)
    before = decode_place(asked.cursor) if asked.cursor else None
    query = asked.query(visit.who)
    found = await visit.site[EventLogService].page(query, by=visit.who, before=before, limit=PAGE + 1)
    return await admin_page(
        "admin_audit.html",
        "audit",
        visit=visit,
        asked=asked,
        types=(*TYPES, *ACTS),
        kinds=KINDS,
        rows=[_row(each) for each in found[:PAGE]],
        next_page=asked.address(cursor=encode_place(found[PAGE - 1].place)) if len(found) > PAGE else None,
        exports=[(kind.upper(), asked.address(f"/admin/audit/export.{kind}", cursor="")) for kind in MEDIA],
        latest=visit.site[CheckingService].latest(by=visit.who),
    )


async def export_csv(visit: Visit) -> Response:
    return _export(visit, "csv")


async def export_json(visit: Visit) -> Response:
    return _export(visit, "json")


def _export(visit: Visit, kind: str) -> Response:
    """Stream all matching events; an error aborts the download, so that an incomplete file is noticed."""
    query = filters(visit.request.query_params).query(visit.who)
    headers = dict(HEADERS) | {"Content-Disposition": f'attachment; filename="assent-events.{kind}"'}
    return StreamingResponse(visit.site[EventLogService].export(query, kind, by=visit.who), 200, headers, MEDIA[kind])


async def verify(visit: Visit) -> Response:
    return redirect(f"/admin/audit/checks/{visit.site[CheckingService].start(by=visit.who).id}")


async def checking(visit: Visit) -> Response:
    return await admin_page("admin_check.html", "audit", visit=visit, **_told(_checking(visit)))


async def checking_live(visit: Visit) -> Response:
    return await large_page("admin_check_live.html", visit=visit, now=visit.site.clock.now(), **_told(_checking(visit)))


def _checking(visit: Visit) -> Checking:
    return visit.site[CheckingService].get(visit.request.path_params["checking_id"], by=visit.who)


def _told(made: Checking) -> dict[str, Any]:
    found = made.so_far.findings
    return {"check": made, "findings": found[:MOST_FINDINGS], "more_findings": max(0, len(found) - MOST_FINDINGS)}
