"""What a page says about the step before: what was just answered, and how to take it back."""

from dataclasses import dataclass
from functools import partial

from assent.domain.errors import AssentError
from assent.domain.instants import SECOND
from assent.http.addresses import known_id
from assent.services.triage import Marks
from assent.web import render
from assent.web.filters import Filters
from assent.web.frame import Visit

LONGEST_NUMBER = 3
UNDONE = "Taken back: nothing was sent to the agent."
PLAIN = {
    "commented": "Your comment was sent.",
    "claimed": "It is yours now; others see your name on it.",
    "unclaimed": "Your name is off it.",
    "assigned": "It was reassigned.",
    "snoozed": "Snoozed: it leaves your inbox until then.",
    "woken": "It is back in your inbox.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One sentence, the breakpoint it is about, and until when and where it can be undone."""

    text: str
    kind: str = "yes"
    name: str = ""
    address: str = ""
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
        return None  # an address typed by hand; the page itself is fine
    said = PLAIN.get(params.get("said", ""))
    return Notice(text=said) if said else None


async def _answered(visit: Visit, asked: Filters, breakpoint_id: str) -> Notice | None:
    row = await visit.site.inbox.whole(known_id(breakpoint_id), visit.who)
    marks = await visit.site.database.read(
        partial(visit.site.triage.marks, breakpoint_ids=[row.id], person_id=visit.who.id)
    )
    held = marks.get(row.id, Marks()).held
    about = Notice(text="", name=render.headline(row), address=f"/breakpoints/{row.id}{asked.behind}")
    if held is not None:
        seconds = max(1, round((held.due_at - visit.site.clock.now()) / SECOND))
        return Notice(
            text="You approve" if held.approved else "You reject",
            kind="yes" if held.approved else "no",
            name=about.name,
            address=about.address,
            undo=f"/breakpoints/{row.id}/undo{asked.behind}",
            until=held.due_at,
            seconds=seconds,
        )
    mine = next((each for each in await visit.site.inbox.responses(row) if each.person == visit.who.name), None)
    if mine is None:
        return None
    text = "You approved" if mine.approved else "You rejected"
    if row.status == "waiting":
        text = f"{text[:3]} answered {'yes' if mine.approved else 'no'}; others are still asked:"
    return Notice(text=text, kind="yes" if mine.approved else "no", name=about.name, address=about.address)


async def _batch(visit: Visit, asked: Filters, batch: str) -> Notice | None:
    """Tell of a batch what the server still holds of it; the address only says how many there were."""
    count, failed = (number(visit.request.query_params.get(name, "")) for name in ("count", "failed"))
    if not batch.isascii() or not batch.replace("_", "").isalnum():
        return None
    held = await visit.site.database.read(partial(visit.site.holding.held_together, batch=batch, by=visit.who))
    text = f"You answered {count} together."
    if failed:
        text += f" {failed} could not be answered; they are still in the list."
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
