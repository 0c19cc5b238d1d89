"""Answering: first a page that says exactly what will happen, then the answer itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from assent.domain.errors import AlreadyEnded, AssentError, ConfirmationRequired, DigestMismatch, InvalidRequest
from assent.domain.instants import iso
from assent.domain.strategies import NEEDS_EXPERTS
from assent.domain.terms import MAX_TEXT, Answer
from assent.services.breakpoints import Standing
from assent.store.reading import Whole
from assent.web import forms, render
from assent.web.detail import detail_page, load, terms, upcoming
from assent.web.filters import Filters, asked_in
from assent.web.frame import Visit, large_page, redirect
from assent.web.notices import UNDONE, Notice

APPROVE, REJECT = "approve", "reject"
UNPROCESSABLE = 422
_CARRIED = ("decision", "digest", "comment", "option")
_CARRIED_PREFIXES = ("field-", "edit-")


@dataclass(frozen=True, slots=True)
class Said:
    """One filled-in field, for reading it once more."""

    label: str
    value: str


async def confirm(visit: Visit) -> Response:
    """Show what will happen; nothing does yet."""
    row = await load(visit)
    try:
        answer = answer_of(visit.form, row)
        if answer.digest != row.digest:
            raise DigestMismatch(shown=answer.digest, stored=row.digest)
        terms(row).check(replace(answer, confirm=row.gate))
        if row.status != "waiting":
            raise _ended(row)
        return await _confirm_page(visit, row, answer)
    except AssentError as error:
        return await _refused(visit, row, error)


async def _refused(visit: Visit, row: Whole, error: AssentError) -> Response:
    """Show the page with what was typed and what is wrong with it, in place of the dialog where one was asked for."""
    response = await detail_page(visit, row, error)
    if visit.region == "dialog":
        response.headers["HX-Retarget"] = "#detail"
    return response


async def decide(visit: Visit) -> Response:
    row = await load(visit)
    try:
        answer = answer_of(visit.form, row)
    except AssentError as error:
        return await detail_page(visit, row, error)
    return await _decide(visit, row, answer)


async def _decide(visit: Visit, row: Whole, answer: Answer) -> Response:
    use_case = partial(visit.site.holding.hold, breakpoint_id=row.id, answer=answer, by=visit.who, via="web")
    try:
        await visit.site.database.write(use_case, locks=row.id)
    except ConfirmationRequired:
        return await _confirm_page(visit, row, answer, retry=True)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    return await onwards(visit, row.id)


async def onwards(visit: Visit, breakpoint_id: str) -> Response:
    """Lead to the next one that waits, with a word about the one just answered."""
    asked = asked_in(visit.request)
    following = await upcoming(visit, breakpoint_id, asked)
    path = f"/breakpoints/{following.row.id}" if following else "/"
    return redirect(with_word(path, asked, "after", breakpoint_id))


def with_word(path: str, asked: Filters, name: str, value: str) -> str:
    return f"{path}{asked.behind}{'&' if asked.behind else '?'}{name}={value}"


async def undo(visit: Visit) -> Response:
    """Take back an answer whose window has not ended, and leave it in the form; otherwise show what stands."""
    row = await load(visit)
    use_case = partial(visit.site.holding.take_back, breakpoint_id=row.id, by=visit.who)
    try:
        taken = await visit.site.database.write(use_case, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    typed = forms.typed_again(msgspec.json.decode(row.payload), taken) if taken else {}
    return await detail_page(replace(visit, form=typed), await load(visit), notice=Notice(text=UNDONE))


async def comment(visit: Visit) -> Response:
    row = await load(visit)
    try:
        text = _text(visit.form, "text") or ""
        if not text:
            raise InvalidRequest.at("/text", "write something first")
        use_case = partial(visit.site.breakpoints.comment, breakpoint_id=row.id, comment=text, by=visit.who, once=None)
        await visit.site.database.write(use_case, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    return redirect(with_word(f"/breakpoints/{row.id}", asked_in(visit.request), "said", "commented") + "#comments")


async def back(visit: Visit) -> Response:
    """Lead a reload, or a return from signing in, to the page the form stands on."""
    row = await load(visit)
    return redirect(f"/breakpoints/{row.id}{asked_in(visit.request).behind}")


def answer_of(form: Mapping[str, str], row: Whole) -> Answer:
    """Read the answer that a form carries; a rejection carries its reason and nothing else."""
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    decision, said = form.get("decision"), _text(form, "comment")
    # An empty digest matches nothing: whoever cannot say what they were shown decides nothing.
    digest = form.get("digest", "")
    if decision == REJECT:
        if said is None:
            raise InvalidRequest.at("/comment", "say why, so that the agent can do better")
        return Answer(approved=False, comment=said, digest=digest)
    # An option that is a button of its own is pressed instead of Approve.
    if decision != APPROVE and not (decision is None and "option" in form):
        raise InvalidRequest.at("/decision", "choose Approve or Reject")
    return Answer(
        approved=True,
        comment=said,
        option=_option(form.get("option", ""), payload.get("options") or ()),
        answers=forms.answers(payload["form"], form) if payload.get("form") else None,
        edits=forms.edited(payload, form),
        confirm=form.get("confirm"),
        digest=digest,
    )


def _text(form: Mapping[str, str], name: str) -> str | None:
    text = form.get(name, "").strip()
    if len(text) > MAX_TEXT:
        raise InvalidRequest.at(f"/{name}", f"is longer than {MAX_TEXT:,} characters")
    return text or None


def _option(index: str, options: list[str] | tuple[()]) -> str | None:
    if not options:
        return None
    if not (index.isascii() and index.isdigit() and len(index) < 4 and int(index) < len(options)):  # noqa: PLR2004
        raise InvalidRequest.at("/option", "pick one")
    return options[int(index)]


def _ended(row: Whole) -> AlreadyEnded:
    standing = {"status": row.status, "decision": row.decision, "by": row.ended_by, "at": iso(row.ended_at or 0)}
    return AlreadyEnded(standing=standing)


async def _confirm_page(visit: Visit, row: Whole, answer: Answer, *, retry: bool = False) -> Response:
    standing = await visit.site.database.read(
        partial(visit.site.breakpoints.standing, breakpoint_id=row.id, by=visit.who)
    )
    carried = {
        name: value for name, value in visit.form.items() if name in _CARRIED or name.startswith(_CARRIED_PREFIXES)
    }
    in_dialog = visit.region is not None
    response = await large_page(
        "dialog.html" if in_dialog else "confirm.html",
        status=UNPROCESSABLE if retry else 200,
        visit=visit,
        inner="confirm_body.html",
        asked=asked_in(visit.request),
        row=row,
        answer=answer,
        carried=carried,
        filled_in=_filled_in(row, answer),
        changed=[(name, render.pretty(value)) for name, value in (answer.edits or {}).items()],
        consequences=consequences(row, answer, standing, undo_seconds=visit.site.holding.seconds),
        typed_gate=row.risk == "high" and answer.approved,
        retry=retry,
    )
    if in_dialog:
        response.headers["HX-Retarget"] = "#dialog"
    return response


def _filled_in(row: Whole, answer: Answer) -> list[Said]:
    if not answer.answers:
        return []
    form: Mapping[str, Any] = msgspec.json.decode(row.payload)["form"]
    return [
        Said(each.label, _shown(answer.answers[each.name]))
        for each in forms.inputs(form, {})
        if each.name in answer.answers
    ]


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def consequences(row: Whole, answer: Answer, standing: Standing, *, undo_seconds: int = 0) -> list[str]:
    """Say what follows from the answer, in sentences."""
    seats: list[object] = msgspec.json.decode(row.seats)
    if row.strategy in NEEDS_EXPERTS and not standing.override:
        found = [
            f"Your answer counts as one of {len(seats)}.",
            "You may change it until the breakpoint is decided.",
        ]
    else:
        goes_on = "The agent goes on at once." if answer.approved else "The agent is told no, with your reason."
        later = "The agent goes on" if answer.approved else "The agent is told no, with your reason,"
        found = [goes_on, "This cannot be undone."]
        if undo_seconds:
            found = [f"{later} in {undo_seconds} seconds; until then you can undo it."]
    if standing.override:
        found.insert(0, "You are not among the people asked: as an admin you decide alone, recorded as an override.")
    if standing.in_place_of:
        found.insert(0, f"You answer in place of {', '.join(standing.in_place_of)}.")
    return found
