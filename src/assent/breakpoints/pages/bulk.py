"""Bulk answers for a gate's breakpoints, with a single undo. High-risk ones and those that need input are excluded."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.pages.detail import trouble
from assent.breakpoints.pages.filters import MOST, Filters, asked_in, filters
from assent.breakpoints.pages.listing import list_page, to_list
from assent.breakpoints.pages.notices import UNDONE, Notice, number
from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.errors import AssentError, InvalidRequest
from assent.core.terms import MAX_TEXT, Answer, Terms
from assent.db.transaction import Transaction
from assent.http.problems import STATUS
from assent.http.query import known_id
from assent.web.site import Site, Visit, large_page, redirect, route

PICK = "pick-"
UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True)
class Chosen:
    """The selected breakpoints that can be answered together, and those that cannot, with the reasons."""

    rows: list[Whole]
    left_out: list[tuple[Whole, str]]

    @property
    def gate(self) -> str:
        return self.rows[0].gate if self.rows else ""


async def confirm(visit: Visit) -> Response:
    """List the breakpoints that would be answered, without answering them."""
    return await _confirm_page(visit, await _chosen(visit))


async def decide(visit: Visit) -> Response:
    approved, comment = _approved(visit), visit.form.get("comment", "").strip()
    chosen = await _chosen(visit)
    if not approved and not comment:
        return await _confirm_page(visit, chosen, problem="A reason is required. It is sent to the agents.")
    if len(comment) > MAX_TEXT:
        long = f"The comment has {len(comment):,} characters, but the limit is {MAX_TEXT:,}. Shorten it."
        return await _confirm_page(visit, chosen, problem=long)
    batch = await visit.site.database.write(_new_batch)
    refused = [(row, f"Answer this breakpoint individually: {why.rstrip('.')}.") for row, why in chosen.left_out]
    answer = Answer(approved=approved, comment=comment or None)
    for row in chosen.rows:
        # Use one transaction per breakpoint, so that a breakpoint decided in the meantime does not affect the others.
        # The form contains the digests that the confirmation page showed, so a changed breakpoint is refused.
        answer = replace(answer, digest=visit.form.get(f"{PICK}{row.id}", ""))
        use_case = partial(
            visit.site[HoldingService].hold, breakpoint_id=row.id, answer=answer, by=visit.who, via="web", batch=batch
        )
        try:
            await visit.site.database.write(use_case, locks=row.id)
        except AssentError as error:
            refused.append((row, trouble(error, {}).text))
    # Leave a notice for each refused answer, because the redirect can report only how many there are.
    for row, why in refused:
        refuse = partial(visit.site[HoldingService].refuse, breakpoint_id=row.id, answer=answer, by=visit.who, why=why)
        await visit.site.database.write(refuse)
    asked = _asked(visit)
    given = len(chosen.rows) + len(chosen.left_out) - len(refused)
    word = f"batch={batch}&count={given}&failed={len(refused)}"
    return redirect(f"/{asked.behind}{'&' if asked.behind else '?'}{word}")


async def draft(visit: Visit, error: AssentError) -> Response:
    return await _confirm_page(visit, await _chosen(visit), problem=error.message, status=STATUS[type(error)])


async def undo(visit: Visit) -> Response:
    """Undo a batch's pending answers, and report how many answers have already taken effect."""
    params = visit.request.query_params
    use_case = partial(visit.site[HoldingService].take_back_batch, batch=params.get("batch", ""), by=visit.who)
    asked = replace(asked_in(visit.request), cursor="", shown="")
    try:
        undone = await visit.site.database.write(use_case)
    except AssentError as error:
        return await list_page(visit, asked, Notice(text=error.message, kind="no"))
    taken, typed = len(undone.breakpoint_ids), undone.comment or ""
    given = max(0, number(params.get("count", "")) - taken)
    if not given:
        return await list_page(visit, asked, Notice(text=UNDONE, typed=typed))
    text = f"Undone: {taken}. Already sent: {given}."
    return await list_page(visit, asked, Notice(text=text, typed=typed, kind="no"))


def _new_batch(tx: Transaction) -> str:
    return tx.new_id("batch")


def _approved(visit: Visit) -> bool:
    decision = visit.form.get("decision")
    if decision not in {"approve", "reject"}:
        raise InvalidRequest.at("/decision", "choose Approve or Reject")
    return decision == "approve"


def _asked(visit: Visit) -> Filters:
    return replace(filters(QueryParams(visit.form.get("query", ""))), cursor="", shown="")


async def _chosen(visit: Visit) -> Chosen:
    ids = [name.removeprefix(PICK) for name in visit.form if name.startswith(PICK)]
    if len(ids) > MOST:
        raise InvalidRequest.at("selection", f"contains more than {MOST} breakpoints. Select fewer.")
    rows = [await visit.site[InboxService].whole(known_id(each), visit.who) for each in ids]
    gate, approved = rows[0].gate if rows else "", _approved(visit)
    reasons = [(row, why_alone(row, gate, approved=approved) or await _why_not(visit, row)) for row in rows]
    return Chosen([row for row, why in reasons if why is None], [(row, why) for row, why in reasons if why])


async def _why_not(visit: Visit, row: Whole) -> str | None:
    """Return why the visitor cannot answer in bulk: not eligible, or eligible only by override or as a deputy."""
    use_case = partial(visit.site[BreakpointService].standing, breakpoint_id=row.id, by=visit.who)
    try:
        standing = await visit.site.database.read(use_case)
    except AssentError as error:
        return error.message
    if standing.override:
        return "your answer would override the assigned reviewers"
    return f"you would be answering in place of {', '.join(standing.in_place_of)}" if standing.in_place_of else None


def why_alone(row: Whole, gate: str, *, approved: bool) -> str | None:
    """Return why a breakpoint must be answered individually, or None if it can be answered with others at its gate."""
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    alone = {
        "already decided": row.status != "waiting",
        "different gate": row.gate != gate,
        "high risk": row.risk == "high",
        "hard stop": payload.get("hardStop") is True,
        "irreversible": payload.get("irreversible") is True or "irreversible" in msgspec.json.decode(row.tags),
        "needs additional input": approved and not Terms.of(row.gate, payload).plain,
    }
    return next((why for why, holds in alone.items() if holds), None)


async def _confirm_page(
    visit: Visit, chosen: Chosen, *, problem: str | None = None, status: int = UNPROCESSABLE
) -> Response:
    nothing = None if chosen.rows or chosen.left_out else "Select at least one breakpoint first."
    response = await large_page(
        "dialog.html" if visit.region else "bulk.html",
        status=status if problem else 200,
        visit=visit,
        inner="bulk_body.html",
        approved=_approved(visit),
        chosen=chosen.rows,
        left_out=chosen.left_out,
        gate=chosen.gate,
        comment=visit.form.get("comment", ""),
        query=_asked(visit).query,
        undo_seconds=visit.site[HoldingService].seconds,
        trouble=problem or nothing,
    )
    if visit.region:
        response.headers["HX-Retarget"] = "#dialog"
    return response


def routes(site: Site) -> list[Route]:
    return [
        route("/bulk/confirm", confirm, site, method="POST", draft=draft),
        route("/bulk/decide", decide, site, method="POST", draft=draft),
        route("/bulk/undo", undo, site, method="POST"),
        *(route(path, to_list, site) for path in ("/bulk/confirm", "/bulk/decide", "/bulk/undo")),
    ]
