"""A breakpoint's page: its question and content, the answers and comments, and the answer form."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.api.content import SANDBOX, file_response
from assent.breakpoints.pages import presentation
from assent.breakpoints.pages.attempts import ShownAttempt, shown_attempt
from assent.breakpoints.pages.file_contents import PAGE_CHARACTERS, Excerpt, ShownFile, excerpt, shown_files
from assent.breakpoints.pages.filters import Filters, asked_in
from assent.breakpoints.pages.listing import Item, item, listed, query
from assent.breakpoints.pages.notices import Notice, notice_of
from assent.breakpoints.store.files import FileEntry, Files
from assent.breakpoints.store.reading import Query, Whole, decode_cursor, encode_cursor
from assent.breakpoints.usecases.attempts import Previous, previous
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService, Standing
from assent.breakpoints.usecases.triage import Marks, TriageService
from assent.core import breakpoint as domain
from assent.core.access import Permission
from assent.core.errors import AlreadyEnded, AssentError, DigestMismatch, InvalidRequest, NotFound
from assent.core.exact_calls import is_offered
from assent.core.terms import Terms, answer_place
from assent.core.timestamps import from_iso
from assent.db.transaction import Transaction
from assent.delivery.pages.deliveries import Item as Told
from assent.delivery.pages.deliveries import told
from assent.http.problems import STATUS
from assent.http.query import known_id
from assent.web import filters as render
from assent.web import forms
from assent.web.rendering.frame import framed
from assent.web.rendering.json_tree import json_tree
from assent.web.site import HTML, Site, Visit, large_page, route

MAX_FILE_NUMBER = 3
FRAME_HEADERS = {
    "Content-Security-Policy": f"{SANDBOX}; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
    # Links in the HTML could otherwise trigger DNS requests, which can leak data.
    "X-DNS-Prefetch-Control": "off",
    "Cache-Control": "private, no-store",
}
STRATEGIES = {
    "single": "the first answer decides",
    "first-response-wins": "the first answer decides",
    "collect-all": "every expert must approve",
    "quorum": "a majority of experts decides",
}
# Fields that the page shows separately; if there are others, the payload is expanded so that they are not overlooked.
_KNOWN = frozenset(
    {
        "question", "title", "context", "expert", "tags", "strategy", "previousFeedback", "attempt", "breakpointId",
        "autoApproveAfterN", "presentAlwaysApprove", "options", "form", "hardStop", "risk", "editable",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error in a submitted form, and the control that it refers to."""

    title: str
    text: str
    control: str | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """An expert, the expert's answer, and the absent people that the expert answers for."""

    expert: str
    stands_in_for: Sequence[str]
    response: domain.Response | None


async def load(visit: Visit) -> Whole:
    breakpoint_id: str = visit.request.path_params["breakpoint_id"]
    return await visit.site[InboxService].whole(known_id(breakpoint_id), visit.who)


async def detail(visit: Visit) -> Response:
    row = await load(visit)
    if visit.region == "live":
        return await large_page("refreshed.html", visit=visit, asked=asked_in(visit.request), **await _live(visit, row))
    return await detail_page(visit, row)


async def detail_page(
    visit: Visit, row: Whole, error: AssentError | None = None, *, notice: Notice | None = None
) -> Response:
    """Show a breakpoint. After an error, also show the submitted values and the reason."""
    asked = asked_in(visit.request)
    notice = notice or await notice_of(visit, asked)
    values = await _values(visit, row, asked, error)
    status = STATUS[type(error)] if error else 200
    if visit.region is None:
        listed_rows = await listed(visit, asked)
        about = {"list": listed_rows, "notice": notice, "waiting_count": listed_rows.waiting}
        return await large_page("inbox.html", status=status, visit=visit, asked=asked, **about, **values)
    # A script opened the page from the list, so send the list only if the previous action changed it.
    stepped = notice is not None or error is not None or visit.request.method == "POST"
    changed = {"list": await listed(visit, asked), "notice": notice} if stepped else {}
    response = await large_page("moved.html", status=status, visit=visit, asked=asked, **changed, **values)
    if stepped:
        response.headers["HX-Push-Url"] = f"/breakpoints/{row.id}{asked.behind}"
    return response


async def _live(visit: Visit, row: Whole) -> dict[str, Any]:
    """Return the values that can change while the page is open."""
    inbox, now = visit.site[InboxService], visit.site.clock.now()
    responses = await inbox.responses(row)

    def use_case(tx: Transaction) -> tuple[Marks | None, list[Told]]:
        marks = visit.site[TriageService].marks(tx, [row.id], person_id=visit.who.id)
        return marks.get(row.id), told(tx, row.id, visit.who)

    mark, shown = await visit.site.database.read(use_case)
    return {
        "now": now,
        "row": row,
        "item": item(row, now),
        "mark": mark,
        "told": shown,
        "voices": _voices(row, responses),
        "responses": responses,
        "comments": await inbox.feedback(row),
        "events": await inbox.history(row.id),
    }


async def _values(visit: Visit, row: Whole, asked: Filters, error: AssentError | None) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    live = await _live(visit, row)
    standing, why_not = await _standing(visit, row)
    read, attempt = await visit.site.database.read(partial(_read_content, row=row, payload=payload))
    # Rendering can take a long time, so it runs outside both the event loop and the transaction.
    files, compared = await asyncio.to_thread(_shown_content, row, read, attempt)
    may_comment = row.status == "waiting" and visit.who.may(Permission.COMMENT)
    return live | {
        "back": asked.address(),
        "payload": payload,
        "payload_text": render.pretty(payload),
        "payload_tree": partial(json_tree, row.payload),
        "payload_open": bool(payload.keys() - _KNOWN),
        "auto_approval": msgspec.json.decode(row.auto_approval),
        "warnings": msgspec.json.decode(row.warnings),
        "strategy": STRATEGIES.get(row.strategy, row.strategy),
        "mine": next((each for each in live["responses"] if each.person == visit.who.name), None),
        "files": files,
        "previous": compared,
        "may_comment": may_comment,
        "standing": standing,
        "why_not": why_not,
        "always": standing is not None and _offers_always(visit, row.gate, payload),
        "typed": visit.form,
        "inputs": forms.inputs(payload["form"], visit.form) if payload.get("form") else [],
        "edits": forms.edits(payload, visit.form),
        "trouble": trouble(error, payload) if error else None,
        "not_sent": _not_sent(visit.form, payload, may_answer=standing is not None, may_comment=may_comment),
        "upcoming": await upcoming(visit, row, asked) if row.status != "waiting" else None,
    }


def _not_sent(
    form: Mapping[str, str], payload: Mapping[str, Any], *, may_answer: bool, may_comment: bool
) -> list[tuple[str, str]]:
    """Return labels and submitted text for which the page no longer has a form."""
    answered = [] if may_answer else [("Comment", form.get("comment", "")), *forms.filled_in(payload, form)]
    found = answered if may_comment else [*answered, ("Comment", form.get("text", ""))]
    return [(label, text) for label, text in found if text.strip()]


def _read_content(tx: Transaction, *, row: Whole, payload: Mapping[str, Any]) -> tuple[list[Excerpt], Previous | None]:
    return _files(tx, row=row, payload=payload), previous(tx, row)


def _shown_content(
    row: Whole, read: Sequence[Excerpt], attempt: Previous | None
) -> tuple[list[ShownFile], ShownAttempt | None]:
    return shown_files(read), shown_attempt(attempt, row) if attempt else None


def _offers_always(visit: Visit, gate: str, payload: Mapping[str, Any]) -> bool:
    """Return whether to offer a rule. Rules are never offered for a hard stop or for all calls of a tool."""
    return (
        visit.who.may(Permission.RULES)
        and payload.get("presentAlwaysApprove") is not False
        and payload.get("hardStop") is not True
        and is_offered(gate, payload)
    )


async def _standing(visit: Visit, row: Whole) -> tuple[Standing | None, str | None]:
    """Return in what capacity the visitor may answer, or why they may not."""
    if row.status != "waiting":
        return None, None
    use_case = partial(visit.site[BreakpointService].standing, breakpoint_id=row.id, by=visit.who)
    try:
        return await visit.site.database.read(use_case), None
    except AssentError as error:
        return None, error.message


def _voices(row: Whole, responses: Sequence[domain.Response]) -> list[Voice]:
    seats: list[tuple[str, list[str], bool]] = msgspec.json.decode(row.seats)
    given = {each.seat: each for each in responses if each.seat}
    return [Voice(name, absent, given.get(name)) for name, absent, _ in seats]


def _files(tx: Transaction, *, row: Whole, payload: Mapping[str, Any]) -> list[Excerpt]:
    """Read the context files one at a time, and keep only the parts that are shown."""
    context: Mapping[str, Any] = payload.get("context") or {}
    named: Sequence[Mapping[str, Any]] = context.get("files") or []
    room = PAGE_CHARACTERS
    read: list[Excerpt] = []
    for n, entry in enumerate(named):
        missing = FileEntry(n, entry["path"], entry["format"], None, None, None)
        found = tx[Files].get_entry(row.id, n, project=row.project_id) if entry.get("sha256") else missing
        read.append(excerpt(found, room=room))
        room -= len(read[-1].shown.text)
    return read


async def upcoming(visit: Visit, row: Whole, asked: Filters) -> Item | None:
    """Return the next pending breakpoint after this one in the list, or the first one in the list."""
    wanted = await query(visit, replace(asked, status="waiting", cursor="", shown=""))
    below = replace(wanted, cursor=decode_cursor(encode_cursor(wanted, row), sort=wanted.sort))
    return await _first_open(visit, row, below) or await _first_open(visit, row, wanted)


async def _first_open(visit: Visit, row: Whole, wanted: Query) -> Item | None:
    """Return the first breakpoint in a list, except this one, that the visitor can answer but has not answered yet."""
    found = await visit.site[InboxService].page(wanted)
    marks = await visit.site.database.read(
        partial(visit.site[TriageService].marks, breakpoint_ids=[each.id for each in found], person_id=visit.who.id)
    )
    now = visit.site.clock.now()
    open_ones = (
        each
        for each in found
        if each.id != row.id and each.created_by_id != visit.who.id and not marks.get(each.id, Marks()).held
    )
    return next((item(each, now) for each in open_ones), None)


def trouble(error: AssentError, payload: Mapping[str, Any]) -> Trouble:
    if isinstance(error, AlreadyEnded):
        return _too_late(error)
    if isinstance(error, DigestMismatch):
        text = "The content differs from what your page showed, so nothing was sent. Review it below before you answer."
        return Trouble("The content has changed", text)
    if isinstance(error, InvalidRequest):
        return _at_control(error, payload)
    return Trouble("Nothing was changed", error.message)


def _too_late(error: AlreadyEnded) -> Trouble:
    standing: Mapping[str, Any] = dict(error.details).get("standing") or {}  # type: ignore[assignment]
    what = standing.get("decision") or standing.get("status") or "ended"
    was = "It" if what in {"expired", "ended"} else "It was"
    return Trouble(
        "Too late",
        f"{was} {what} {presentation.ended_by(standing.get('by'))}",
        ended_at=from_iso(standing["at"]) if standing.get("at") else None,
    )


_LABELS = {"/comment": ("Comment", "comment"), "/option": ("Option", "option-0"), "/text": ("Comment", "new-comment")}


def _at_control(error: InvalidRequest, payload: Mapping[str, Any]) -> Trouble:
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    pointer, text = (found[0]["pointer"], found[0]["detail"]) if found else ("", error.message)
    labels = dict(_LABELS)
    for each in forms.inputs(payload["form"], {}) if payload.get("form") else ():
        labels[answer_place(each.name)] = (each.label, each.id)
    for edit in forms.edits(payload, {}):
        labels[forms.edit_place(edit.name)] = (edit.name, edit.id)
    label, control = labels.get(pointer, ("", None))
    return Trouble("Not sent yet", f"{label}: {text}" if label else text, control)


async def file(visit: Visit) -> Response:
    return file_response(await _entry(visit))


async def frame(visit: Visit) -> Response:
    """Serve an agent's HTML for the frame on the page. Headers disable scripts even if the URL is opened directly."""
    entry = await _entry(visit)
    if entry.format != "html":
        msg = "Only HTML files can be shown in a frame."
        raise NotFound(msg)
    document = await asyncio.to_thread(framed, entry.content or b"")
    return Response(document, 200, FRAME_HEADERS, HTML)


async def _entry(visit: Visit) -> FileEntry:
    row, n = await load(visit), visit.request.path_params["n"]
    if not (n.isascii() and n.isdigit() and len(n) <= MAX_FILE_NUMBER):
        msg = "File not found."
        raise NotFound(msg)
    return await visit.site.database.read(lambda tx: tx[Files].get_entry(row.id, int(n), project=row.project_id))


def terms(row: Whole) -> Terms:
    return Terms.of(row.gate, msgspec.json.decode(row.payload))


def routes(site: Site) -> list[Route]:
    one = "/breakpoints/{breakpoint_id}"
    return [
        route(one, detail, site),
        route(one + "/files/{n}", file, site),
        route(one + "/files/{n}/frame", frame, site),
    ]
