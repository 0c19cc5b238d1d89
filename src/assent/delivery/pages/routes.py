"""Route pages: a list that can be reordered, forms to create, change and remove routes, and a dry run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route as Address

from assent.contracts.create import CreateBreakpoint
from assent.core.access import Permission
from assent.core.draft import Draft, draft
from assent.core.durations import duration
from assent.core.errors import AssentError, InvalidRequest, NotFound, PatternError, PreconditionFailed
from assent.core.seats import OWNER
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.routes import EXPERTS, GROUP, PERSON, Route, StepKind
from assent.delivery.routes_file import MOST
from assent.delivery.store.channels import Channels
from assent.delivery.store.routes import Routes, StoredRoute
from assent.delivery.usecases.channels import FROM_FILE
from assent.delivery.usecases.route_check import Forecast, ForecastStep, RouteCheck
from assent.delivery.usecases.routes import RouteService
from assent.http.query import known_id
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from assent.web.admin import Question, admin_page, checked, listed, outdated, question_page, text, words
from assent.web.guards import ruling
from assent.web.site import Site, Visit, redirect, route

ROWS = 3
"""Number of escalation levels in an empty form."""
THEN = {"expire": "it expires", "reject": "it is rejected"}
_ID = re.compile(r"[0-9a-z_]{1,60}", re.ASCII)
_SIMPLE = ("pattern", "channels", "to", "fallback", "remind", "note")
_RISKS = ("", "low", "medium", "high")


def routes(site: Site) -> list[Address]:
    one = "/admin/routes/{route_id}"
    return [
        route("/admin/routes", ruling(listing), site),
        route("/admin/routes", ruling(create), site, method="POST"),
        route("/admin/routes/new", ruling(new_form), site),
        route("/admin/routes/try", ruling(attempt), site),
        route(one, ruling(route_page), site),
        route(one, ruling(change), site, method="POST"),
        route(one + "/move", ruling(move), site, method="POST"),
        route(one + "/remove", ruling(remove_form), site),
        route(one + "/remove", ruling(remove), site, method="POST"),
    ]


def named(targets: Sequence[str]) -> str:
    """Describe the targets of a route, such as “the owner and the group security”."""
    return _together([_target(each) for each in targets])


def _target(target: str) -> str:
    if target == EXPERTS:
        return "the assigned reviewers"
    if target == OWNER:
        return "the owner"
    if target.startswith(GROUP):
        return f"the group {target.removeprefix(GROUP)}"
    return target.removeprefix(PERSON)


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def does(of: Route) -> list[str]:
    """Describe a route in one sentence per step."""
    said = [
        f"Notifies {named(of.to)} on {_together(of.channels)}" + (", even during quiet hours" if not of.quiet else "")
    ]
    if of.fallback:
        said.append(f"If that fails, tries {_together(of.fallback)}")
    if of.remind:
        said.append(f"Sends reminders after {_together([duration(each) for each in of.remind])}")
    for level in of.escalate:
        where = f" on {_together(level.channels)}" if level.channels else ""
        said.append(f"After {duration(level.after)}, also notifies {named(level.to)}{where}")
    if of.timeout is not None:
        said.append(f"After {duration(of.timeout.after)}, {THEN[of.timeout.then]}")
    return said


@dataclass(frozen=True, slots=True)
class Entry:
    stored: StoredRoute
    does: Sequence[str]
    fixed: bool
    first: bool
    """Whether this is the first route that can be moved."""
    last: bool
    """Whether this is the last route that can be moved."""


async def listing(visit: Visit) -> Response:
    return await _listing_page(visit)


async def _listing_page(visit: Visit, error: AssentError | None = None) -> Response:
    found = await visit.site.database.read(partial(visit.site[RouteService].listed, by=visit.who))
    movable = [each.id for each in found if each.source != FROM_FILE]
    entries = [
        Entry(each, does(each.route), each.source == FROM_FILE, each.id in movable[:1], each.id in movable[-1:])
        for each in found
    ]
    return await admin_page("admin_routes.html", "routes", visit=visit, error=error, entries=entries, risks=_RISKS)


@dataclass(frozen=True, slots=True)
class Level:
    """One escalation level in a form."""

    n: int
    after: str = ""
    to: str = ""
    channels: str = ""

    @property
    def empty(self) -> bool:
        return not (self.after or self.to or self.channels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The values of the route form."""

    pattern: str = ""
    channels: str = ""
    to: str = EXPERTS
    fallback: str = ""
    remind: str = ""
    timeout: str = ""
    then: str = "expire"
    note: str = ""
    levels: tuple[Level, ...] = ()
    quiet: bool = True
    enabled: bool = True

    @classmethod
    def of(cls, form: Mapping[str, str]) -> "Typed":
        simple = {name: form.get(name, "").strip() for name in (*_SIMPLE, "timeout", "then")}
        simple["to"] = _lines([each for each in (simple["to"], form.get("add-to", "").strip()) if each])
        levels = tuple(
            Level(n, *(form.get(f"escalate-{n}-{name}", "").strip() for name in ("after", "to", "channels")))
            for n in range(MOST)
        )
        return cls(**simple, levels=levels, quiet="quiet" in form, enabled="enabled" in form)

    @classmethod
    def from_route(cls, stored: StoredRoute) -> "Typed":
        of = stored.route
        return cls(
            pattern=of.pattern,
            channels=" ".join(of.channels),
            to=_lines(of.to),
            fallback=" ".join(of.fallback),
            remind=" ".join(map(duration, of.remind)),
            timeout=duration(of.timeout.after) if of.timeout else "",
            then=of.timeout.then if of.timeout else "expire",
            note=of.note or "",
            levels=tuple(
                Level(n, duration(each.after), _lines(each.to), " ".join(each.channels))
                for n, each in enumerate(of.escalate)
            ),
            quiet=of.quiet,
            enabled=stored.enabled,
        )

    @property
    def filled(self) -> list[Level]:
        return [each for each in self.levels if not each.empty]

    @property
    def shown(self) -> list[Level]:
        """The levels to show: all that are filled in, and at least one empty level if the maximum allows it."""
        last = max((each.n for each in self.filled), default=-1)
        known = {each.n: each for each in self.levels}
        return [known.get(n, Level(n)) for n in range(min(MOST, max(ROWS, last + 2)))]

    def body(self) -> dict[str, Any]:
        """Return the body for the API, with None for empty fields."""
        levels = [
            {"after": each.after, "to": _targets(each.to)}
            | ({"channels": _names(each.channels)} if each.channels else {})
            for each in self.filled
        ]
        return {
            "pattern": self.pattern,
            "channels": _names(self.channels),
            "to": _targets(self.to),
            "fallback": _names(self.fallback) or None,
            "remind": _names(self.remind) or None,
            "escalate": levels or None,
            "timeout": {"after": self.timeout, "then": self.then} if self.timeout else None,
            "quiet": self.quiet,
            "note": self.note or None,
        }

    def control(self, pointer: str) -> str | None:
        """Return the form control for a JSON pointer into a route."""
        parts = pointer.strip("/").split("/")
        if parts[0] == "escalate" and len(parts) > 1 and parts[1].isdigit() and int(parts[1]) < len(self.filled):
            below = parts[2] if parts[2:] and parts[2] in {"after", "to", "channels"} else "after"
            return f"escalate-{self.filled[int(parts[1])].n}-{below}"
        if parts[0] == "timeout":
            return "then" if parts[1:] == ["then"] else "timeout"
        return parts[0] if parts[0] in _SIMPLE else None


def _lines(targets: Sequence[str]) -> str:
    return "\n".join(targets)


def _names(typed: str) -> list[str]:
    return typed.replace(",", " ").split()


def _targets(typed: str) -> list[str]:
    """Split targets at line breaks and commas, but not at spaces, because group names can contain them."""
    return [each.strip() for each in typed.replace(",", "\n").splitlines() if each.strip()]


@dataclass(frozen=True, slots=True)
class Fault:
    text: str
    control: str | None = None


def fault(error: AssentError, typed: Typed) -> Fault:
    found: Sequence[Mapping[str, str]] = dict(error.details).get("errors") or ()  # type: ignore[assignment]
    if isinstance(error, PatternError):
        return Fault(error.message, "pattern")
    pointer = found[0]["pointer"] if found else ""
    return Fault(words(error), typed.control(pointer))


async def new_form(visit: Visit) -> Response:
    return await _form_page(visit, Typed(pattern=visit.request.query_params.get("pattern", "")[:4000]))


async def _form_page(
    visit: Visit, typed: Typed, error: AssentError | None = None, stored: StoredRoute | None = None
) -> Response:
    def use_case(tx: Transaction) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        project = visit.who.project
        channels = [each.name for each in tx[Channels].in_project(project)]
        return channels, sorted(tx[People].groups(project)), visit.site[PeopleService].suggested(tx, by=visit.who)

    channels, groups, people = await visit.site.database.read(use_case)
    return await admin_page(
        "admin_route.html",
        "routes",
        visit=visit,
        error=error,
        route=typed,
        stored=stored,
        fixed=stored is not None and stored.source == FROM_FILE,
        does=does(stored.route) if stored else (),
        channels=channels,
        groups=groups,
        people=people,
        then=THEN,
        fault=fault(error, typed) if error else None,
    )


async def create(visit: Visit) -> Response:
    typed = Typed.of(visit.form)
    try:
        body = {name: value for name, value in typed.body().items() if value is not None}
        use_case = partial(visit.site[RouteService].create, body=body, by=visit.who, enabled=typed.enabled)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _form_page(visit, typed, error)
    return redirect("/admin/routes?done=created")


def _known_id(visit: Visit) -> str:
    route_id: str = visit.request.path_params["route_id"]
    if not _ID.fullmatch(route_id):
        msg = f"Route {route_id[:60]!r} not found in this project."
        raise NotFound(msg)
    return route_id


async def _stored(visit: Visit) -> StoredRoute:
    route_id = _known_id(visit)
    return await visit.site.database.read(lambda tx: tx[Routes].get(route_id, project=visit.who.project))


async def route_page(visit: Visit) -> Response:
    stored = await _stored(visit)
    return await _form_page(visit, Typed.from_route(stored), stored=stored)


async def change(visit: Visit) -> Response:
    route_id, typed = _known_id(visit), Typed.of(visit.form)

    def use_case(tx: Transaction) -> None:
        _require_shown(visit, tx[Routes].get(route_id, project=visit.who.project))
        changes = typed.body() | {"enabled": typed.enabled}
        visit.site[RouteService].change(tx, route_id, changes, by=visit.who)

    try:
        await visit.site.database.write(use_case)
    except PreconditionFailed as error:
        stored = await _stored(visit)
        return await _form_page(visit, Typed.from_route(stored), error, stored)
    except AssentError as error:
        return await _form_page(visit, typed, error, await _stored(visit))
    return redirect("/admin/routes?done=saved")


def _require_shown(visit: Visit, current: StoredRoute) -> None:
    # The form replaces the whole route, so it must not overwrite changes that the user has not seen.
    if visit.form.get("shown") != str(current.updated_at):
        raise outdated("route")


async def move(visit: Visit) -> Response:
    """Swap a route with the previous or next one."""
    route_id = _known_id(visit)
    step = -1 if visit.form.get("direction") == "up" else 1

    def use_case(tx: Transaction) -> None:
        visit.who.require(Permission.RULES)
        # Two simultaneous moves must not both start from the same order.
        tx[Routes].wait_for_others(visit.who.project)
        ids = [each.id for each in tx[Routes].in_project(visit.who.project) if each.source != FROM_FILE]
        if route_id not in ids:
            msg = "This route cannot be moved. It was removed or is defined in assent.yaml."
            raise NotFound(msg)
        here = ids.index(route_id)
        there = min(max(here + step, 0), len(ids) - 1)
        ids[here], ids[there] = ids[there], ids[here]
        visit.site[RouteService].reorder(tx, ids, by=visit.who)

    try:
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _listing_page(visit, error)
    return redirect("/admin/routes?done=moved")


async def remove_form(visit: Visit) -> Response:
    stored = await _stored(visit)
    question = Question(
        title=f"Remove the route for {stored.route.pattern}?",
        consequences=(
            *does(stored.route),
            "New breakpoints use the next matching route. If no route matches, no notifications are sent.",
            "Breakpoints that already use this route continue to use it.",
        ),
        action=f"/admin/routes/{stored.id}/remove",
        button="Remove route",
        back=f"/admin/routes/{stored.id}",
        carried={},
    )
    return question_page(visit, question)


async def remove(visit: Visit) -> Response:
    route_id = _known_id(visit)
    try:
        await visit.site.database.write(partial(visit.site[RouteService].remove, route_id=route_id, by=visit.who))
    except AssentError as error:
        return await _listing_page(visit, error)
    return redirect("/admin/routes?done=removed")


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One step of a forecast, in words."""

    step: ForecastStep
    when: str
    what: str


def foreseen(found: Forecast) -> list[Foreseen]:
    began = found.steps[0].at if found.steps else 0
    return [Foreseen(each, _when(each.at - began), _what(each)) for each in found.steps]


def _when(later: int) -> str:
    return f"After {duration(later // SECOND)}" if later else "Immediately"


def _what(step: ForecastStep) -> str:
    if step.kind is StepKind.TIME_OUT:
        return THEN.get(step.then or "", "it ends")
    verbs = {StepKind.ASK: "notified", StepKind.REMIND: "reminded", StepKind.ESCALATE: "also notified"}
    return verbs[step.kind] if step.told else f"no one is {verbs[step.kind]}"


async def attempt(visit: Visit) -> Response:
    """Show where a breakpoint would be routed, without sending notifications."""
    asked = {
        name: visit.request.query_params.get(name, "").strip() for name in ("gate", "tags", "agent", "expert", "risk")
    }
    breakpoint_id = visit.request.query_params.get("breakpoint", "").strip()
    found, error = None, None
    try:
        if breakpoint_id:
            check = partial(visit.site[RouteCheck].of_breakpoint, breakpoint_id=known_id(breakpoint_id), by=visit.who)
        else:
            check = partial(visit.site[RouteCheck].of_draft, draft=_supposed(asked), by=visit.who)
        found = await visit.site.database.read(check)
    except AssentError as refused:
        error = refused
    return await admin_page(
        "admin_routes_try.html",
        "routes",
        visit=visit,
        error=error,
        asked=asked | {"breakpoint": breakpoint_id},
        risks=_RISKS,
        found=found,
        does=does(found.route) if found and found.route and found.route.channels else (),
        steps=foreseen(found) if found else (),
    )


def _supposed(asked: Mapping[str, str]) -> Draft:
    if not asked["gate"]:
        raise InvalidRequest.at("/gate", "enter the breakpoint’s gate")
    payload = {
        "question": "Where would this go?",
        "breakpointId": asked["gate"],
        "expert": listed(asked, "expert"),
        "risk": text(asked, "risk"),
    }
    body = checked(
        CreateBreakpoint,
        agentId=asked["agent"] or "an agent",
        title=asked["gate"],
        tags=listed(asked, "tags"),
        payload={name: value for name, value in payload.items() if value is not None},
    )
    return draft(body.model_dump(by_alias=True, exclude_none=True))
