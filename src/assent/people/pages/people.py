"""People pages: list, invite and change people, their roles, sign-in links and identities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import people as wire
from assent.contracts.shape import json_of
from assent.core.access import Principal, Role, roles
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.db.transaction import Transaction
from assent.delivery.usecases.account_messages import last_failure
from assent.people.authenticator import Authenticator
from assent.people.store.identities import Identities
from assent.people.store.people import EVERYWHERE, People, Person
from assent.people.store.projects import Projects
from assent.people.usecases.oidc import OidcService
from assent.people.usecases.people import PeopleService
from assent.platform.admin_events import AdminEvent
from assent.web.admin import Question, admin_page, checked, question_page, secret_page, text, ticked
from assent.web.guards import managing
from assent.web.site import Site, Visit, redirect, route

ROLES = {
    Role.VIEWER: "can read everything",
    Role.REVIEWER: "can answer breakpoints",
    Role.RULE_ADMIN: "can manage rules",
    Role.AUDITOR: "can verify and export the audit log",
    Role.ADMIN: "can manage people, tokens and projects",
}
_MAX_NAME = 64


def routes(site: Site) -> list[Route]:
    one = "/admin/people/{name}"
    return [
        route("/admin/people", managing(people), site),
        route("/admin/people", managing(create), site, method="POST"),
        route(one, managing(person), site),
        route(one + "/details", managing(change_details), site, method="POST"),
        route(one + "/roles", managing(change_roles), site, method="POST"),
        route(one + "/link", managing(make_link), site, method="POST"),
        route(one + "/confirm", managing(confirm), site, method="POST"),
        route(one + "/close", managing(close_form), site),
        route(one + "/close", managing(close), site, method="POST"),
        route(one + "/open", managing(reopen), site, method="POST"),
        route(one + "/identities", managing(add_identity), site, method="POST"),
        route(one + "/identities/remove", managing(remove_identity), site, method="POST"),
    ]


@dataclass(frozen=True, slots=True)
class Listed:
    """A person with their roles in this project and in all projects, and the number of other projects with roles."""

    person: Person
    here: list[str]
    everywhere: list[str]
    elsewhere: int


async def people(visit: Visit) -> Response:
    return await _people_page(visit)


async def _people_page(visit: Visit, error: AssentError | None = None) -> Response:
    found = await visit.site.database.read(partial(_everybody, site=visit.site, by=visit.who))
    chosen = ticked(visit.form) if error else [Role.REVIEWER.value]
    return await admin_page(
        "admin_people.html", "people", visit=visit, error=error, people=found, roles=ROLES, ticked=chosen
    )


def _everybody(tx: Transaction, *, site: Site, by: Principal) -> list[Listed]:
    return [_listed(tx, each, by.project) for each in site[PeopleService].everybody(tx, by=by)]


def _listed(tx: Transaction, person: Person, project: str) -> Listed:
    grants = tx[People].grants(person.id)
    return Listed(
        person,
        sorted(grants.get(project, ())),
        sorted(grants.get(EVERYWHERE, ())),
        len(grants.keys() - {project, EVERYWHERE}),
    )


async def create(visit: Visit) -> Response:
    """Create a person, and show their sign-in link unless it is sent by email."""
    site, form = visit.site, visit.form
    try:
        asked = checked(
            wire.CreatePerson,
            name=text(form, "name") or "",
            displayName=text(form, "displayName"),
            email=text(form, "email"),
            roles=ticked(form),
        )

        def use_case(tx: Transaction) -> str | None:
            tx.acting(visit.who)
            site[PeopleService].create_person(
                tx,
                asked.name,
                project=visit.who.project,
                roles=roles(asked.roles),
                display_name=asked.display_name,
                email=asked.email,
                by=visit.who,
            )
            return site[PeopleService].invite(tx, asked.name, purpose="invitation", by=visit.who)

        link = await site.database.write(use_case)
    except AssentError as error:
        return await _people_page(visit, error)
    if link is None:
        return redirect(f"/admin/people/{asked.name}?done=mailed")
    return _link_page(visit, asked.name, link, f"{asked.name} has been invited")


def _link_page(visit: Visit, name: str, link: str, title: str) -> Response:
    hints = [
        f"Share this link only with {name}. The first person to use it is signed in as {name}.",
        "The link can be used once and expires in 24 hours. You won’t see it again.",
    ]
    if name != visit.who.name:
        hints.append(
            f"Because you have seen this link, {name}’s decisions are flagged with “access reset by "
            f"{visit.who.name}”. Until another admin confirms {name}’s access under People, an answer from {name} and "
            "an answer from you count as a single vote."
        )
    address = f"{visit.site.sessions.hosts.base_url(visit.request)}/sign-in/{link}"
    return secret_page(visit, title=title, secret=address, hints=hints, back=f"/admin/people/{name}")


def _name(visit: Visit) -> str:
    name: str = visit.request.path_params["name"]
    # PostgreSQL rejects NUL characters, which would result in an internal error.
    if len(name) > _MAX_NAME or "\x00" in name:
        msg = "This person does not exist."
        raise NotFound(msg)
    return name


@dataclass(frozen=True, slots=True)
class Sight:
    """A person as shown to an admin."""

    person: Person
    grants: Mapping[str, frozenset[Role]]
    projects: list[str]
    groups: list[str]
    identities: list[tuple[str, str, int, str]]
    is_managed: bool
    """Whether this admin may change the account itself, and not only its roles."""
    is_mailed: bool
    """Whether sign-in links are sent to the person by email."""
    failed: AdminEvent | None
    """The last message about the account that could not be sent."""


async def person(visit: Visit) -> Response:
    return await _person_page(visit)


async def _person_page(visit: Visit, error: AssentError | None = None) -> Response:
    sight = await visit.site.database.read(partial(_look, visit=visit, name=_name(visit)))
    return await admin_page(
        "admin_person.html",
        "people",
        visit=visit,
        error=error,
        sight=sight,
        roles=ROLES,
        provider=visit.site.provider,
        himself=sight.person.id == visit.who.id,
        everywhere=sorted(sight.grants.get(EVERYWHERE, ())),
    )


def _look(tx: Transaction, *, visit: Visit, name: str) -> Sight:
    by = visit.who
    found = visit.site[PeopleService].known(tx, name, by=by)
    grants = tx[People].grants(found.id)
    # Only admins of all projects may see the names of other projects.
    projects = [each.id for each in tx[Projects].every() if by.everywhere or each.id == by.project]
    seen = {project: held for project, held in grants.items() if project in {*projects, EVERYWHERE}}
    groups = tx[People].group_names(found.id, project=by.project)
    people = visit.site[PeopleService]
    return Sight(
        found,
        seen,
        projects,
        sorted(groups),
        tx[Identities].of(found.id),
        is_managed=people.manages(tx, found, by=by),
        is_mailed=people.mail_channel(tx, found, project=by.project) is not None,
        failed=last_failure(tx, found),
    )


async def change_details(visit: Visit) -> Response:
    name = _name(visit)
    try:
        asked = checked(wire.ChangePerson, displayName=text(visit.form, "displayName"), email=text(visit.form, "email"))
        changes = json_of(asked)
        await _write(visit, partial(_change, site=visit.site, name=name, changes=changes, by=visit.who))
    except AssentError as error:
        return await _person_page(visit, error)
    return redirect(f"/admin/people/{name}?done=saved")


def _change(tx: Transaction, *, site: Site, name: str, changes: Mapping[str, object], by: Principal) -> None:
    site[PeopleService].change_person(tx, site[PeopleService].known(tx, name, by=by).name, changes, by=by)


async def _write(visit: Visit, use_case: partial[None]) -> None:
    await visit.site.database.write(use_case)
    visit.site[Authenticator].forget()


async def change_roles(visit: Visit) -> Response:
    name, project = _name(visit), text(visit.form, "project") or visit.who.project
    granted = roles(ticked(visit.form))

    def use_case(tx: Transaction) -> None:
        found = visit.site[PeopleService].known(tx, name, by=visit.who)
        if found.id == visit.who.id and project == visit.who.project and Role.ADMIN not in granted:
            held = tx[People].grants(found.id).get(EVERYWHERE, frozenset())
            # Prevents admins from locking themselves out by accident.
            if Role.ADMIN not in held:
                raise InvalidRequest.at("/roles", "you cannot remove your own admin role")
        visit.site[PeopleService].grant(tx, found.name, project, granted, by=visit.who)

    try:
        await _write(visit, partial(use_case))
    except AssentError as error:
        return await _person_page(visit, error)
    return redirect(f"/admin/people/{name}?done=saved")


async def make_link(visit: Visit) -> Response:
    name = _name(visit)
    try:
        use_case = partial(visit.site[PeopleService].invite, name=name, purpose="reset", by=visit.who)
        link = await visit.site.database.write(use_case)
    except AssentError as error:
        return await _person_page(visit, error)
    # The reset has revoked the person's tokens, which may still be cached.
    visit.site[Authenticator].forget()
    if link is None:
        return redirect(f"/admin/people/{name}?done=mailed")
    return _link_page(visit, name, link, f"Sign-in link for {name}")


async def confirm(visit: Visit) -> Response:
    name = _name(visit)
    try:
        await visit.site.database.write(partial(visit.site[PeopleService].confirm_reset, name=name, by=visit.who))
    except AssentError as error:
        return await _person_page(visit, error)
    visit.site[Authenticator].forget()
    return redirect(f"/admin/people/{name}?done=confirmed")


async def close_form(visit: Visit) -> Response:
    found = await visit.site.database.read(partial(visit.site[PeopleService].known, name=_name(visit), by=visit.who))
    question = Question(
        title=f"Close {found.name}’s account?",
        consequences=(
            f"{found.name} will be signed out everywhere, and their tokens will stop working within seconds.",
            "Their past decisions do not change. Breakpoints that only they can answer stay pending.",
            "You can reopen the account later.",
        ),
        action=f"/admin/people/{found.name}/close",
        button="Close account",
        back=f"/admin/people/{found.name}",
        carried={},
    )
    return question_page(visit, question)


async def close(visit: Visit) -> Response:
    return await _set_active(visit, active=False)


async def reopen(visit: Visit) -> Response:
    return await _set_active(visit, active=True)


async def _set_active(visit: Visit, *, active: bool) -> Response:
    name = _name(visit)
    try:
        await _write(visit, partial(_change, site=visit.site, name=name, changes={"active": active}, by=visit.who))
    except AssentError as error:
        return await _person_page(visit, error)
    return redirect(f"/admin/people/{name}?done={'opened' if active else 'closed'}")


async def add_identity(visit: Visit) -> Response:
    name, subject = _name(visit), text(visit.form, "subject") or ""
    try:
        oidc = visit.site.parts.find(OidcService)
        if oidc is None:
            raise InvalidRequest.at("/subject", "no identity provider is configured on this server")
        link = partial(
            visit.site[PeopleService].link_identity,
            name=name,
            issuer=oidc.issuer,
            subject=subject,
            by=visit.who,
        )
        await visit.site.database.write(link)
    except AssentError as error:
        return await _person_page(visit, error)
    return redirect(f"/admin/people/{name}?done=saved")


async def remove_identity(visit: Visit) -> Response:
    name, form = _name(visit), visit.form
    try:
        issuer, subject = form.get("issuer", ""), form.get("subject", "")
        unlink = partial(
            visit.site[PeopleService].unlink_identity, name=name, issuer=issuer, subject=subject, by=visit.who
        )
        await visit.site.database.write(unlink)
    except AssentError as error:
        return await _person_page(visit, error)
    return redirect(f"/admin/people/{name}?done=removed")
