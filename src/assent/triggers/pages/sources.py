"""Source pages: a list with each source's health, and forms to create, change and remove a source."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from assent.core.access import Permission
from assent.core.canonical import Json, is_array
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.delivery.pages.channel_forms import OTHERS, Form, asked, values
from assent.delivery.usecases.channels import FROM_FILE
from assent.triggers.pages.layout import Fault, known_id, pointer_of, said, trigger_page
from assent.triggers.pages.source_forms import form_of
from assent.triggers.sources.registry import KINDS
from assent.triggers.store.sources import StoredSource
from assent.triggers.usecases.sources import SourceService
from assent.triggers.usecases.triggers import TriggerService, naming
from assent.triggers.usecases.webhooks import Ingress
from assent.web import filters as render
from assent.web.admin import Question, outdated, question_page, text
from assent.web.guards import managing, reading
from assent.web.site import Site, Visit, redirect, route

UNUSUAL = "No events for longer than usual."


def routes(site: Site) -> list[Route]:
    one = "/sources/{source_id}"
    return [
        route("/sources", reading(listing), site),
        route("/sources", managing(create), site, method="POST"),
        route("/sources/new", managing(new_form), site),
        route(one, reading(source), site),
        route(one, managing(change), site, method="POST"),
        route(one + "/switch", managing(switch), site, method="POST"),
        route(one + "/remove", managing(remove_form), site),
        route(one + "/remove", managing(remove), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Health:
    state: str
    """One of `heard` (has sent events), `new`, `silent`, `failing` and `off`."""
    error: str | None = None


def health(stored: StoredSource, problem: str | None, now: int) -> Health:
    """Return the health of a source; the worst state takes precedence."""
    if not stored.enabled:
        return Health("off")
    if problem is not None:
        return Health("failing", problem)
    if stored.silent_at is not None and stored.silent_at <= now:
        return Health("silent", f"No events for longer than {stored.settings.get('expect_every')}.")
    if stored.alarm_id is not None:
        return Health("silent", UNUSUAL)
    return Health("heard" if stored.heard_at is not None else "new")


@dataclass(frozen=True, slots=True)
class Entry:
    source: StoredSource
    title: str
    health: Health
    address: str
    """The webhook URL; empty if the source does not receive webhooks."""

    @property
    def fixed(self) -> bool:
        return self.source.origin == FROM_FILE


def entry(visit: Visit, stored: StoredSource) -> Entry:
    return Entry(
        stored,
        form_of(stored.kind).title,
        _health(visit, stored),
        visit.site[SourceService].address(stored, visit.site.base_url),
    )


def _health(visit: Visit, stored: StoredSource) -> Health:
    """Return the health of a source. Only admins, who can see its settings, can see the reason."""
    found = health(stored, _problem(visit, stored) or stored.problem, visit.site.clock.now())
    if found.error is None or visit.who.may(Permission.MANAGE):
        return found
    return Health(found.state, UNUSUAL if found.state == "silent" else "Only admins can see the reason.")


def _problem(visit: Visit, stored: StoredSource) -> str | None:
    """Return the error in a source's current settings, or None."""
    try:
        visit.site[SourceService].check(stored.kind, stored.settings)
    except InvalidRequest as error:
        return fault(error, form_of(stored.kind)).text
    return None


async def listing(visit: Visit) -> Response:
    return await _listing_page(visit)


async def _listing_page(visit: Visit, error: AssentError | None = None) -> Response:
    found = await visit.site.database.read(partial(visit.site[SourceService].listed, by=visit.who))
    return await trigger_page(
        "trigger_sources.html",
        "sources",
        visit=visit,
        error=error,
        problem=said(error) if error else None,
        entries=[entry(visit, each) for each in found],
        kinds={name: form_of(name) for name in KINDS},
        plural=plural,
    )


def fault(error: AssentError, form: Form) -> Fault:
    """Find the form field for the JSON pointer of an error."""
    pointer, detail = pointer_of(error)
    parts = pointer.strip("/").split("/")
    if parts[0] == "settings" and len(parts) > 1:
        named = next((each for each in form.fields if each.name == parts[1]), None)
        return Fault(f"{named.label}: {detail}", named.id) if named else Fault(f"{parts[1]}: {detail}", OTHERS)
    return Fault(said(error), parts[0] if parts[0] in {"name", OTHERS} else None)


async def new_form(visit: Visit) -> Response:
    return await _new_page(visit, visit.request.query_params.get("kind", ""))


async def _new_page(visit: Visit, kind: str, error: AssentError | None = None) -> Response:
    if kind not in KINDS:
        msg = "This kind of source does not exist."
        raise NotFound(msg)
    form = form_of(kind)
    return await trigger_page(
        "trigger_source_new.html",
        "sources",
        visit=visit,
        error=error,
        kind=kind,
        form=form,
        values=values(form, {}, visit.form),
        typed=visit.form,
        fault=fault(error, form) if error else None,
    )


async def create(visit: Visit) -> Response:
    kind = visit.form.get("kind", "")
    try:
        settings = {name: value for name, value in asked(form_of(kind), visit.form, {}).items() if value is not None}
        name = text(visit.form, "name") or ""
        use_case = partial(visit.site[SourceService].create, name=name, kind=kind, settings=settings, by=visit.who)
        made = await visit.site.database.write(use_case)
    except AssentError as error:
        return await _new_page(visit, kind, error)
    return redirect(f"/sources/{made.id}?done=created")


async def _stored(visit: Visit) -> StoredSource:
    name = known_id(visit, "source_id", "source")
    return await visit.site.database.read(lambda tx: visit.site[SourceService].known(tx, name, by=visit.who))


async def source(visit: Visit) -> Response:
    return await _source_page(visit)


async def _source_page(visit: Visit, error: AssentError | None = None, *, editing: bool = False) -> Response:
    stored = await _stored(visit)
    form = form_of(stored.kind)
    manages = visit.who.may(Permission.MANAGE)
    return await trigger_page(
        "trigger_source.html",
        "sources",
        visit=visit,
        error=error,
        entry=entry(visit, stored),
        source=stored,
        form=form,
        # Only admins can see the settings.
        values=values(form, stored.settings if manages else {}, visit.form if editing else {}),
        fault=fault(error, form) if error else None,
        fixed=stored.origin == FROM_FILE,
        shown={name: _plain(value) for name, value in stored.settings.items()} if manages else {},
        plural=plural,
    )


def _plain(value: Json) -> str:
    if is_array(value):
        return "\n".join(map(str, value))
    return value if isinstance(value, str) else render.pretty(value)


async def change(visit: Visit) -> Response:
    name = known_id(visit, "source_id", "source")

    def use_case(tx: Transaction) -> StoredSource:
        current = visit.site[SourceService].known(tx, name, by=visit.who)
        # Do not overwrite a change that someone else has made since the form was opened.
        if visit.form.get("shown") != str(current.updated_at):
            raise outdated("source")
        changes: dict[str, Any] = {"settings": asked(form_of(current.kind), visit.form, current.settings)}
        return visit.site[SourceService].change(tx, current.id, changes, by=visit.who)

    try:
        saved = await visit.site.database.write(use_case)
        visit.site[Ingress].forget()
    except AssentError as error:
        return await _source_page(visit, error, editing=isinstance(error, InvalidRequest))
    return redirect(f"/sources/{saved.id}?done=saved")


async def switch(visit: Visit) -> Response:
    name = known_id(visit, "source_id", "source")
    enabled = visit.form.get("enabled") == "yes"
    try:
        await visit.site.database.write(
            lambda tx: visit.site[SourceService].change(tx, name, {"enabled": enabled}, by=visit.who)
        )
        visit.site[Ingress].forget()
    except AssentError as error:
        return await _source_page(visit, error)
    return redirect(f"/sources/{name}?done={'on' if enabled else 'off'}")


async def remove_form(visit: Visit) -> Response:
    stored = await _stored(visit)
    mentions = await visit.site.database.read(partial(_mentions, visit=visit, name=stored.name))
    named = ", ".join(mentions)
    question = Question(
        title=f"Remove source {stored.name}?",
        consequences=(
            "New events sent to it are rejected, as if the source had never existed.",
            "Its past events remain in the history.",
            *([f"These triggers refer to it and will no longer match its events: {named}."] if mentions else []),
        ),
        action=f"/sources/{stored.id}/remove",
        button="Remove source",
        back=f"/sources/{stored.id}",
        carried={},
        place="triggers",
    )
    return question_page(visit, question)


def _mentions(tx: Transaction, *, visit: Visit, name: str) -> Sequence[str]:
    return [each.name for each in naming(visit.site[TriggerService].listed(tx, by=visit.who), name)]


async def remove(visit: Visit) -> Response:
    name = known_id(visit, "source_id", "source")
    try:
        await visit.site.database.write(lambda tx: visit.site[SourceService].remove(tx, name, by=visit.who))
        visit.site[Ingress].forget()
    except AssentError as error:
        return await _source_page(visit, error)
    return redirect("/sources?done=removed")
