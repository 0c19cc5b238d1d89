"""One breakpoint: what is asked, everything that came with it, who said what, and the forms to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from assent.domain import breakpoint as domain
from assent.domain.access import Permission
from assent.domain.errors import AlreadyEnded, AssentError, DigestMismatch, InvalidRequest, NotFound
from assent.domain.instants import from_iso
from assent.domain.terms import Terms
from assent.http.addresses import known_id
from assent.http.files import file_response
from assent.http.problems import STATUS
from assent.services.breakpoints import Standing
from assent.store.files import FileEntry
from assent.store.reading import Query, Summary, Whole
from assent.store.transaction import Transaction
from assent.web import forms, render
from assent.web.frame import Visit, large_page
from assent.web.listing import Item, item

MAX_FILE_NUMBER = 3
STRATEGIES = {
    "single": "the first answer decides",
    "first-response-wins": "the first answer decides",
    "collect-all": "every expert must approve",
    "quorum": "a majority of the experts decides",
}
# What has a place of its own on the page; anything else the agent sent is opened so that nobody overlooks it.
_KNOWN = frozenset(
    {
        "question", "title", "context", "expert", "tags", "strategy", "previousFeedback", "attempt", "breakpointId",
        "autoApproveAfterN", "presentAlwaysApprove", "options", "form", "hardStop", "risk", "editable",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong with a form, in words, and at which control."""

    title: str
    text: str
    control: str | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """One expert that was asked, and the answer given for it."""

    expert: str
    stands_in_for: Sequence[str]
    response: domain.Response | None


async def load(visit: Visit) -> Whole:
    breakpoint_id: str = visit.request.path_params["breakpoint_id"]
    return await visit.site.inbox.whole(known_id(breakpoint_id), visit.who)


async def detail(visit: Visit) -> Response:
    return await detail_page(visit, await load(visit))


async def detail_page(visit: Visit, row: Whole, error: AssentError | None = None) -> Response:
    """Show a breakpoint; after a form that failed, with what was typed and why it failed."""
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    inbox, now = visit.site.inbox, visit.site.clock.now()
    responses = await inbox.responses(row)
    standing, why_not = await _standing(visit, row)
    mine = next((each for each in responses if each.person == visit.who.name), None)
    done = "done" in visit.request.query_params and mine is not None
    return await large_page(
        "detail.html",
        status=STATUS[type(error)] if error else 200,
        visit=visit,
        now=now,
        row=row,
        item=item(row, now),
        payload=payload,
        payload_text=render.pretty(payload),
        payload_open=bool(payload.keys() - _KNOWN),
        auto_approval=msgspec.json.decode(row.auto_approval),
        warnings=msgspec.json.decode(row.warnings),
        strategy=STRATEGIES.get(row.strategy, row.strategy),
        voices=_voices(row, responses),
        responses=responses,
        mine=mine,
        done=done,
        files=await visit.site.database.read(partial(_files, row=row, payload=payload)),
        comments=await inbox.feedback(row),
        events=await inbox.events(row.id),
        may_comment=row.status == "waiting" and visit.who.may(Permission.COMMENT),
        standing=standing,
        why_not=why_not,
        typed=visit.form,
        inputs=forms.inputs(payload["form"], visit.form) if payload.get("form") else [],
        trouble=trouble(error, payload) if error else None,
        upcoming=await _upcoming(visit, row) if done or row.status != "waiting" else None,
    )


async def _standing(visit: Visit, row: Whole) -> tuple[Standing | None, str | None]:
    """Say as whom the visitor may answer, or why not."""
    if row.status != "waiting":
        return None, None
    use_case = partial(visit.site.breakpoints.standing, breakpoint_id=row.id, by=visit.who)
    try:
        return await visit.site.database.read(use_case), None
    except AssentError as error:
        return None, error.message


def _voices(row: Whole, responses: Sequence[domain.Response]) -> list[Voice]:
    seats: list[tuple[str, list[str], bool]] = msgspec.json.decode(row.seats)
    given = {each.seat: each for each in responses if each.seat}
    return [Voice(name, absent, given.get(name)) for name, absent, _ in seats]


def _files(tx: Transaction, *, row: Whole, payload: Mapping[str, Any]) -> list[render.ShownFile]:
    """Read one file at a time and keep only what is shown of it."""
    context: Mapping[str, Any] = payload.get("context") or {}
    named: Sequence[Mapping[str, Any]] = context.get("files") or []
    room = render.PAGE_CHARACTERS
    shown: list[render.ShownFile] = []
    for n, entry in enumerate(named):
        missing = FileEntry(n, entry["path"], entry["format"], None, None, None)
        found = tx.files.get_entry(row.id, n, project=row.project_id) if entry.get("sha256") else missing
        shown.append(render.shown_file(found, room=room))
        room -= len(shown[-1].text)
    return shown


async def _upcoming(visit: Visit, row: Whole) -> Item | None:
    """Find the most urgent one that is left, apart from this one and what the visitor raised."""
    wanted = Query(project=row.project_id, statuses=("waiting",), sort="deadline", limit=10)
    found: list[Summary] = await visit.site.inbox.page(wanted)
    now = visit.site.clock.now()
    return next((item(each, now) for each in found if each.id != row.id and each.created_by_id != visit.who.id), None)


def trouble(error: AssentError, payload: Mapping[str, Any]) -> Trouble:
    if isinstance(error, AlreadyEnded):
        return _too_late(error)
    if isinstance(error, DigestMismatch):
        text = "Its content differs from what your page showed. Nothing was changed; read it below before you decide."
        return Trouble("It is not what you were shown", text)
    if isinstance(error, InvalidRequest):
        return _at_control(error, payload)
    return Trouble("Nothing was changed", error.message)


def _too_late(error: AlreadyEnded) -> Trouble:
    standing: Mapping[str, Any] = dict(error.details).get("standing") or {}  # type: ignore[assignment]
    what = standing.get("decision") or standing.get("status") or "ended"
    return Trouble(
        "Too late",
        f"It was {what} by {render.person(standing.get('by'))}",
        ended_at=from_iso(standing["at"]) if standing.get("at") else None,
    )


_LABELS = {"/comment": ("Comment", "comment"), "/option": ("Option", "option-0"), "/text": ("Comment", "new-comment")}


def _at_control(error: InvalidRequest, payload: Mapping[str, Any]) -> Trouble:
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    pointer, text = (found[0]["pointer"], found[0]["detail"]) if found else ("", error.message)
    labels = dict(_LABELS)
    for each in forms.inputs(payload["form"], {}) if payload.get("form") else ():
        labels[f"/answers/{each.name}"] = (each.label, each.id)
    label, control = labels.get(pointer, ("", None))
    return Trouble("Not sent yet", f"{label}: {text}" if label else text, control)


async def file(visit: Visit) -> Response:
    row, n = await load(visit), visit.request.path_params["n"]
    if not (n.isascii() and n.isdigit() and len(n) <= MAX_FILE_NUMBER):
        msg = "There is no such file."
        raise NotFound(msg)
    entry = await visit.site.database.read(lambda tx: tx.files.get_entry(row.id, int(n), project=row.project_id))
    return file_response(entry)


def terms(row: Whole) -> Terms:
    return Terms.of(row.gate, msgspec.json.decode(row.payload))
