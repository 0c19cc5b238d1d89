"""Answering a breakpoint: a confirmation page that states the consequences, and the answer itself."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.detail import detail_page, load, terms, upcoming
from assent.breakpoints.pages.filters import Filters, asked_in
from assent.breakpoints.pages.listing import to_list
from assent.breakpoints.pages.notices import NOTHING_TO_UNDO, UNDONE, Notice
from assent.breakpoints.pages.unsent import unsent_notices
from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.lifecycle import BreakpointService, Standing
from assent.breakpoints.usecases.triage import Marks, TriageService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.errors import AlreadyEnded, AssentError, ConfirmationRequired, DigestMismatch, InvalidRequest
from assent.core.plurals import plural
from assent.core.strategies import NEEDS_EXPERTS
from assent.core.terms import MAX_TEXT, Answer, reason
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.sessions import local_path
from assent.web import forms
from assent.web.site import Site, Visit, large_page, page, redirect, route

APPROVE, REJECT = "approve", "reject"
UNPROCESSABLE = 422
_CARRIED = ("decision", "digest", "comment", "option")
_CARRIED_PREFIXES = ("field-", "edit-")


@dataclass(frozen=True, slots=True)
class Said:
    """A submitted form field, for the confirmation page."""

    label: str
    value: str


async def confirm(visit: Visit) -> Response:
    """Show the consequences of an answer without submitting it."""
    row = await load(visit)
    try:
        answer = answer_of(visit.form, row)
        if answer.digest != row.digest:
            raise DigestMismatch(shown=answer.digest, stored=row.digest)
        # Reviewers type the gate name on the confirmation page, so check the rest as if they had already typed it.
        terms(row).check(replace(answer, confirm=row.gate))
        if row.status != "waiting":
            raise _ended(row)
        check = partial(
            visit.site[BreakpointService].check, breakpoint_id=row.id, answer=replace(answer, confirm=row.gate)
        )
        await visit.site.database.read(partial(check, by=visit.who))
        return await _confirm_page(visit, row, answer)
    except AssentError as error:
        return await _refused(visit, row, error)


async def _refused(visit: Visit, row: Whole, error: AssentError) -> Response:
    """Show the breakpoint's page with the submitted values and the error, even if a script requested the dialog."""
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
    use_case = partial(visit.site[HoldingService].hold, breakpoint_id=row.id, answer=answer, by=visit.who, via="web")
    try:
        await visit.site.database.write(use_case, locks=row.id)
    except ConfirmationRequired:
        return await _confirm_page(visit, row, answer, retry=True)
    except AssentError as error:
        # Load the breakpoint again, because the error may be due to a change.
        return await detail_page(visit, await load(visit), error)
    return await onwards(visit, row)


async def onwards(visit: Visit, row: Whole) -> Response:
    """Redirect to the next pending breakpoint, and show a notice about the one just answered."""
    asked = asked_in(visit.request)
    following = await upcoming(visit, row, asked)
    path = f"/breakpoints/{following.row.id}" if following else "/"
    return redirect(with_word(path, asked, "after", row.id))


def with_word(path: str, asked: Filters, name: str, value: str) -> str:
    return f"{path}{asked.behind}{'&' if asked.behind else '?'}{name}={value}"


async def undo(visit: Visit) -> Response:
    """Undo a pending answer and put it back into the form, or show the current state."""
    row = await load(visit)
    use_case = partial(visit.site[HoldingService].take_back, breakpoint_id=row.id, by=visit.who)
    try:
        taken = await visit.site.database.write(use_case, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    typed = forms.typed_again(msgspec.json.decode(row.payload), taken) if taken else {}
    notice = Notice(text=UNDONE if taken else NOTHING_TO_UNDO, kind="yes" if taken else "no")
    return await detail_page(replace(visit, form=typed), await load(visit), notice=notice)


async def comment(visit: Visit) -> Response:
    row = await load(visit)
    try:
        text = _text(visit.form, "text") or ""
        if not text:
            raise InvalidRequest.at("/text", "cannot be empty")
        use_case = partial(
            visit.site[BreakpointService].comment, breakpoint_id=row.id, comment=text, by=visit.who, once=None
        )
        await visit.site.database.write(use_case, locks=row.id)
    except AssentError as error:
        return await detail_page(visit, await load(visit), error)
    return redirect(with_word(f"/breakpoints/{row.id}", asked_in(visit.request), "said", "commented") + "#comments")


async def dismiss(visit: Visit) -> Response:
    """Remove a notice about an answer that did not take effect."""
    use_case = partial(visit.site[HoldingService].dismiss, unsent_id=visit.form.get("id", ""), by=visit.who)
    await visit.site.database.write(use_case)
    # Without scripts, return to the page that showed the notice; the header could name any site, so keep only its path.
    if visit.region is None:
        shown = urlsplit(visit.request.headers.get("referer", ""))
        return redirect(local_path(shown.path + (f"?{shown.query}" if shown.query else "")))
    left = await visit.site.database.read(partial(unsent_notices, holding=visit.site[HoldingService], by=visit.who))
    return page("unsent.html", visit=replace(visit, values={**visit.values, "unsent": left}))


async def draft(visit: Visit, error: AssentError) -> Response:
    """Show the submitted values in their form again."""
    return await detail_page(visit, await load(visit), error)


async def back(visit: Visit) -> Response:
    """Redirect a reload, or a return from the sign-in page, to the page with the form."""
    row = await load(visit)
    return redirect(f"/breakpoints/{row.id}{asked_in(visit.request).behind}")


def answer_of(form: Mapping[str, str], row: Whole) -> Answer:
    """Return the answer in a submitted form; a rejection contains only its reason."""
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    decision, said = form.get("decision"), _text(form, "comment")
    # An empty digest never matches, so a form without a digest is refused.
    digest = form.get("digest", "")
    if decision == REJECT:
        return Answer(approved=False, comment=reason(said), digest=digest)
    # Options can be shown as buttons that replace Approve.
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
    # isdigit() alone accepts characters that int() rejects, such as superscripts.
    if not (index.isascii() and index.isdigit() and len(index) < 4 and int(index) < len(options)):  # noqa: PLR2004
        raise InvalidRequest.at("/option", "choose one")
    return options[int(index)]


def _ended(row: Whole) -> AlreadyEnded:
    standing = {"status": row.status, "decision": row.decision, "by": row.ended_by, "at": iso(row.ended_at or 0)}
    return AlreadyEnded(standing=standing)


async def _confirm_page(visit: Visit, row: Whole, answer: Answer, *, retry: bool = False) -> Response:
    standing, mark = await visit.site.database.read(partial(_capacity, visit=visit, breakpoint_id=row.id))
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
        changed=forms.changes(msgspec.json.decode(row.payload), answer),
        consequences=consequences(row, answer, standing, mark, undo_seconds=visit.site[HoldingService].seconds),
        typed_gate=row.risk == "high" and answer.approved,
        retry=retry,
    )
    if in_dialog:
        response.headers["HX-Retarget"] = "#dialog"
    return response


def _capacity(tx: Transaction, *, visit: Visit, breakpoint_id: str) -> tuple[Standing, Marks]:
    standing = visit.site[BreakpointService].standing(tx, breakpoint_id, by=visit.who)
    marks = visit.site[TriageService].marks(tx, [breakpoint_id], person_id=visit.who.id)
    return standing, marks.get(breakpoint_id, Marks())


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


def consequences(
    row: Whole, answer: Answer, standing: Standing, mark: Marks | None = None, *, undo_seconds: int = 0
) -> list[str]:
    """Describe the consequences of an answer, each in its own sentence."""
    mark = mark or Marks()
    seats: list[object] = msgspec.json.decode(row.seats)
    stopped = [] if answer.approved else [each.person for each in mark.pending if each.approved]
    if row.strategy in NEEDS_EXPERTS and not standing.override:
        found = [
            f"Your answer is one of {plural(len(seats), 'vote')}.",
            "You can change it until a decision is reached.",
        ]
    else:
        found = [_effect(answer, 0 if stopped else undo_seconds)]
    if stopped:
        found.insert(0, "Your rejection takes effect immediately and cancels their approval.")
        found.insert(0, f"{', '.join(stopped)} {'is' if len(stopped) == 1 else 'are'} approving this.")
    if mark.held:
        found.insert(0, f"This replaces your pending {'approval' if mark.held.approved else 'rejection'}.")
    if standing.override:
        found.insert(
            0,
            (
                "You are not an assigned reviewer. As an admin, you can decide on your own. Your answer is recorded "
                "as an override."
            ),
        )
    if standing.in_place_of:
        found.insert(0, f"You are answering in place of {', '.join(standing.in_place_of)}.")
    if standing.after_reset_by:
        by = standing.after_reset_by
        found.append(
            f"Your answer is flagged with “access reset by {by}”. Your answer and an answer from {by} count as a "
            "single vote."
        )
    return found


def _effect(answer: Answer, undo_seconds: int) -> str:
    effect = "The agent continues" if answer.approved else "The agent receives your rejection and the reason"
    if undo_seconds:
        return f"{effect} in {plural(undo_seconds, 'second')}. You can undo your answer until then."
    return f"{effect} immediately. This cannot be undone."


def routes(site: Site) -> list[Route]:
    one = "/breakpoints/{breakpoint_id}"
    return [
        route("/unsent/dismiss", dismiss, site, method="POST"),
        route("/unsent/dismiss", to_list, site),
        route(one + "/comment", comment, site, method="POST", draft=draft),
        route(one + "/confirm", confirm, site, method="POST", draft=draft),
        route(one + "/decide", decide, site, method="POST", draft=draft),
        route(one + "/undo", undo, site, method="POST"),
        *(route(one + form, back, site) for form in ("/comment", "/confirm", "/decide", "/undo")),
    ]
