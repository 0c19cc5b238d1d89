"""Trigger pages: a list with each trigger's state, and forms to create, change, test, suspend and remove a trigger."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.core.errors import AssentError, PreconditionFailed
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import FROM_FILE
from assent.runs.ports import FoundProcess
from assent.runs.processes import FolderOfProcesses
from assent.triggers.file_format import written
from assent.triggers.model import FiringState, TriggerState
from assent.triggers.pages.dry_run import Tried, against_newest
from assent.triggers.pages.forms import LABELS, STATES, WHEN_FULL, Typed, fault
from assent.triggers.pages.layout import known_id, said, trigger_page
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.usecases.config_reload import Reloading
from assent.triggers.usecases.dispatch import TriggeringService
from assent.triggers.usecases.triggers import TriggerService
from assent.web.admin import Question, outdated, question_page, text
from assent.web.guards import reading, ruling
from assent.web.site import Site, Visit, redirect, route

RECENT = 10
MAX_ID = 80


def routes(site: Site) -> list[Route]:
    one = "/triggers/{trigger_id}"
    return [
        route("/triggers", reading(listing), site),
        route("/triggers", ruling(create), site, method="POST"),
        route("/triggers/new", ruling(new_form), site),
        route(one, reading(trigger), site),
        route(one, ruling(change), site, method="POST"),
        route(one + "/suspend", ruling(suspend), site, method="POST"),
        route(one + "/resume", ruling(resume), site, method="POST"),
        route(one + "/remove", ruling(remove_form), site),
        route(one + "/remove", ruling(remove), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Entry:
    """A trigger in the list."""

    stored: StoredTrigger
    held: int
    dead: int
    problem: str | None

    @property
    def fixed(self) -> bool:
        return self.stored.origin == FROM_FILE


def entries(tx: Transaction, *, visit: Visit) -> list[tuple[StoredTrigger, int, int]]:
    found = visit.site[TriggerService].listed(tx, by=visit.who)
    counts = tx[Firings].counts_by_trigger(visit.who.project)
    held, dead = FiringState.HELD.value, FiringState.DEAD.value
    return [(each, counts.get((each.id, held), 0), counts.get((each.id, dead), 0)) for each in found]


async def processes(visit: Visit) -> Sequence[FoundProcess]:
    return await asyncio.to_thread(visit.site[FolderOfProcesses].every)


def wrong(process: str, known: Sequence[FoundProcess]) -> str | None:
    """Explain why a process cannot run, or return None if it can."""
    found = next((each for each in known if each.name == process), None)
    if found is None:
        return f"Process {process} not found on this server."
    return found.problem


async def listing(visit: Visit) -> Response:
    return await _listing_page(visit)


async def _listing_page(visit: Visit, error: AssentError | None = None) -> Response:
    found = await visit.site.database.read(partial(entries, visit=visit))
    known = await processes(visit)
    return await trigger_page(
        "triggers.html",
        "triggers",
        visit=visit,
        error=error,
        problem=said(error) if error else None,
        entries=[Entry(each, held, dead, wrong(each.trigger.run, known)) for each, held, dead in found],
        problems=visit.site[Reloading].told_to(visit.who),
        sources=await visit.site.database.read(lambda tx: len(tx[Sources].in_project(visit.who.project))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The content of the form page, except for the field values."""

    stored: StoredTrigger | None = None
    error: AssentError | None = None
    tried: Sequence[Tried] | None = None
    event: str = ""
    """The event that a draft is tested against first."""


async def new_form(visit: Visit) -> Response:
    """Show a form prefilled from `event`, or an empty form; with `try`, drafts are tested against that event first."""
    asked = visit.request.query_params.get("event", "")[:MAX_ID]
    if not asked:
        return await _form_page(visit, Typed(), Shown(event=visit.request.query_params.get("try", "")[:MAX_ID]))
    body = await visit.site.database.read(partial(visit.site[TriggeringService].sketch, event_id=asked, by=visit.who))
    return await _form_page(visit, Typed.from_body(body), Shown(event=asked))


async def _form_page(visit: Visit, typed: Typed, shown: Shown) -> Response:
    found = await processes(visit)
    stored, error = shown.stored, shown.error
    firings: list[Firing] = []
    if stored is not None:
        wanted = {"trigger_id": stored.id}
        use_case = partial(
            visit.site[TriggeringService].firings, filters=wanted, by=visit.who, before=None, limit=RECENT
        )
        firings = list(await visit.site.database.read(use_case))
    return await trigger_page(
        "trigger.html",
        "triggers",
        visit=visit,
        error=error,
        fault=fault(error) if error else None,
        stored=stored,
        fixed=stored is not None and stored.origin == FROM_FILE,
        problem=wrong(stored.trigger.run, found) if stored else None,
        typed=typed,
        processes=[each.name for each in found if each.problem is None],
        labels=LABELS,
        states=STATES,
        when_full=WHEN_FULL,
        firings=firings,
        tried=shown.tried,
        about=shown.event,
    )


async def create(visit: Visit) -> Response:
    typed, event = Typed.of(visit.form), visit.form.get("event", "")[:MAX_ID]
    try:
        if visit.form.get("do") == "try":
            return await _form_page(visit, typed, Shown(event=event, tried=await _tried(visit, typed, event)))
        made = await visit.site.database.write(
            partial(visit.site[TriggerService].create, body=typed.body(), by=visit.who),
        )
    except AssentError as error:
        return await _form_page(visit, typed, Shown(error=error, event=event))
    return redirect(f"/triggers/{made.id}?done=created")


async def _tried(visit: Visit, typed: Typed, event: str) -> list[Tried]:
    body = typed.body()
    draft = await asyncio.to_thread(visit.site[TriggerService].check, body)
    # Test a disabled trigger as if it were enabled, to show what it would do.
    draft = replace(draft, state=TriggerState.ENABLED)
    return await visit.site.database.read(partial(against_newest, visit=visit, draft=draft, first=event))


async def _stored(visit: Visit) -> StoredTrigger:
    name = known_id(visit, "trigger_id", "trigger")
    return await visit.site.database.read(partial(_known, visit=visit, name=name))


def _known(tx: Transaction, *, visit: Visit, name: str) -> StoredTrigger:
    return visit.site[TriggerService].known(tx, name, by=visit.who)


async def trigger(visit: Visit) -> Response:
    stored = await _stored(visit)
    return await _form_page(visit, Typed.from_body(written(stored.trigger)), Shown(stored=stored))


async def change(visit: Visit) -> Response:
    stored, typed = await _stored(visit), Typed.of(visit.form)

    def use_case(tx: Transaction) -> None:
        current = _known(tx, visit=visit, name=stored.id)
        # Do not overwrite a change that someone else has made since the form was opened.
        if visit.form.get("shown") != str(current.version):
            raise outdated("trigger")
        visit.site[TriggerService].change(tx, current.id, _changes(current, typed), by=visit.who)

    try:
        if visit.form.get("do") == "try":
            return await _form_page(visit, typed, Shown(stored=stored, tried=await _tried(visit, typed, "")))
        await visit.site.database.write(use_case)
    # Show the current values, because the submitted ones are based on an outdated version.
    except PreconditionFailed as error:
        stored = await _stored(visit)
        return await _form_page(visit, Typed.from_body(written(stored.trigger)), Shown(stored=stored, error=error))
    except AssentError as error:
        return await _form_page(visit, typed, Shown(stored=stored, error=error))
    return redirect(f"/triggers/{stored.id}?done=saved")


def _changes(current: StoredTrigger, typed: Typed) -> dict[str, object]:
    """Return all fields of the form, with None for those that were removed."""
    body = typed.body()
    # An update keeps fields that it does not mention, so cleared fields must be removed explicitly.
    gone = dict.fromkeys(written(current.trigger).keys() - body.keys() - {"enabled"})
    return gone | body


async def suspend(visit: Visit) -> Response:
    because = text(visit.form, "because")
    return await _switched(visit, partial(visit.site[TriggerService].suspend, because=because), "suspended")


async def resume(visit: Visit) -> Response:
    return await _switched(visit, visit.site[TriggerService].resume, "resumed")


async def _switched(visit: Visit, switch: Callable[..., StoredTrigger], done: str) -> Response:
    name = known_id(visit, "trigger_id", "trigger")
    try:
        await visit.site.database.write(lambda tx: switch(tx, name, by=visit.who))
    except AssentError as error:
        return await _listing_page(visit, error)
    back = "/triggers" if visit.form.get("back") == "list" else f"/triggers/{name}"
    return redirect(f"{back}?done={done}")


async def remove_form(visit: Visit) -> Response:
    stored = await _stored(visit)
    question = Question(
        title=f"Remove trigger {stored.name}?",
        consequences=(
            f"Events that match {stored.trigger.on} will no longer start {stored.trigger.run}.",
            "Held firings will not start runs. Runs that have already started continue.",
            "The trigger's past events and firings remain in the history.",
        ),
        action=f"/triggers/{stored.id}/remove",
        button="Remove trigger",
        back=f"/triggers/{stored.id}",
        carried={},
        place="triggers",
    )
    return question_page(visit, question)


async def remove(visit: Visit) -> Response:
    name = known_id(visit, "trigger_id", "trigger")
    try:
        await visit.site.database.write(lambda tx: visit.site[TriggerService].remove(tx, name, by=visit.who))
    except AssentError as error:
        return await _listing_page(visit, error)
    return redirect("/triggers?done=removed")
