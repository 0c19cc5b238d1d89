"""Notices about the previous action, such as an answer, and how to undo it."""

from dataclasses import dataclass, replace
from functools import partial

from assent.breakpoints.pages import presentation
from assent.breakpoints.pages.filters import Filters
from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.triage import Marks, TriageService
from assent.breakpoints.usecases.undo_window import HoldingService
from assent.core.errors import AssentError
from assent.core.plurals import plural
from assent.core.timestamps import SECOND
from assent.http.query import known_id
from assent.web.site import Visit

LONGEST_NUMBER = 3
UNDONE = "Undone. The agent was not notified."
NOTHING_TO_UNDO = "Nothing to undo. You do not have an unsent answer here."
PLAIN = {
    "commented": "Comment sent.",
    "claimed": "Claimed. Other reviewers can see your name on it.",
    "unclaimed": "Unclaimed.",
    "assigned": "Reassigned.",
    "snoozed": "Snoozed. It returns to your inbox later.",
    "woken": "Unsnoozed. It is back in your inbox.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The result of the last action, the breakpoint it concerns, and how long and where it can be undone."""

    text: str
    kind: str = "yes"
    about: str = ""
    name: str = ""
    address: str = ""
    more: str = ""
    typed: str = ""
    undo: str = ""
    until: int | None = None
    seconds: int = 0


async def notice_of(visit: Visit, asked: Filters) -> Notice | None:
    params = visit.request.query_params
    try:
        if after := params.get("after"):
            return await _answered(visit, asked, after)
        if batch := params.get("batch"):
            return await _batch(visit, asked, batch)
    except AssentError:
        return None  # the URL was edited, but the page itself is valid
    said = PLAIN.get(params.get("said", ""))
    return Notice(text=said) if said else None


async def _answered(visit: Visit, asked: Filters, breakpoint_id: str) -> Notice | None:
    row = await visit.site[InboxService].whole(known_id(breakpoint_id), visit.who)
    marks = await visit.site.database.read(
        partial(visit.site[TriageService].marks, breakpoint_ids=[row.id], person_id=visit.who.id)
    )
    held = marks.get(row.id, Marks()).held
    mine = next((each for each in await visit.site[InboxService].responses(row) if each.person == visit.who.name), None)
    said = held or mine
    if said is None:
        return None
    notice = Notice(
        text="Approved" if said.approved else "Rejected",
        kind="yes" if said.approved else "no",
        about=row.id,
        name=presentation.headline(row),
        address=f"/breakpoints/{row.id}{asked.behind}",
    )
    if held is None:
        return replace(notice, more=await _aftermath(visit, row))
    return replace(
        notice,
        undo=f"/breakpoints/{row.id}/undo{asked.behind}",
        until=held.due_at,
        seconds=max(1, round((held.due_at - visit.site.clock.now()) / SECOND)),
    )


async def _aftermath(visit: Visit, row: Whole) -> str:
    """Describe the effect of an answer on other reviewers."""
    if row.status == "waiting":
        return "Other reviewers still need to answer."
    dropped = [
        each.metadata for each in await visit.site[InboxService].history(row.id) if each.type == "answer-dropped"
    ]
    stopped = [str(each["person"]) for each in dropped if each.get("approved") and each["person"] != visit.who.name]
    if row.ended_by != str(visit.who.actor) or not stopped:
        return ""
    return f"This cancelled the pending approval by {', '.join(stopped)}."


async def _batch(visit: Visit, asked: Filters, batch: str) -> Notice | None:
    """Describe a batch. The number of answers comes from the URL, and the pending answers come from the database."""
    count, failed = (number(visit.request.query_params.get(name, "")) for name in ("count", "failed"))
    if not batch.isascii() or not batch.replace("_", "").isalnum():
        return None
    held = await visit.site.database.read(partial(visit.site[HoldingService].held_together, batch=batch, by=visit.who))
    text = f"Answered {plural(count, 'breakpoint')}."
    if failed:
        text += f" {failed} could not be answered."
    if not held:
        return Notice(text=text)
    until = min(each.due_at for each in held)
    return Notice(
        text=text,
        undo=f"/bulk/undo{asked.behind}{'&' if asked.behind else '?'}batch={batch}&count={count}",
        until=until,
        seconds=max(1, round((until - visit.site.clock.now()) / SECOND)),
    )


def number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else 0
