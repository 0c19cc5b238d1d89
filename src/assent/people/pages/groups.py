"""Group pages: list, create, change and remove groups of people."""

from collections.abc import Mapping
from functools import partial

from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import people as wire
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from assent.web.admin import Question, admin_page, checked, listed, question_page, text
from assent.web.guards import managing
from assent.web.site import Site, Visit, redirect, route


def routes(site: Site) -> list[Route]:
    return [
        route("/admin/groups", managing(groups), site),
        route("/admin/groups", managing(put_group), site, method="POST"),
        route("/admin/groups/{name}/remove", managing(remove_form), site),
        route("/admin/groups/{name}/remove", managing(remove), site, method="POST"),
    ]


async def groups(visit: Visit) -> Response:
    return await _groups_page(visit)


async def _groups_page(visit: Visit, error: AssentError | None = None) -> Response:
    def use_case(tx: Transaction) -> tuple[Mapping[str, list[str]], list[tuple[str, str]]]:
        return tx[People].groups(visit.who.project), visit.site[PeopleService].suggested(tx, by=visit.who)

    found, people = await visit.site.database.read(use_case)
    edited = visit.request.query_params.get("edit", "")
    return await admin_page(
        "admin_groups.html",
        "groups",
        visit=visit,
        error=error,
        groups=found,
        people=people,
        edited=edited if edited in found else "",
    )


async def put_group(visit: Visit) -> Response:
    """Create a group, or set the members of an existing group; a new group must not replace an existing group."""
    try:
        name = checked(wire.CreatePerson, name=text(visit.form, "name") or "").name
        named = [*(listed(visit.form, "members") or []), *(listed(visit.form, "add-member") or [])]
        members = checked(wire.PutGroup, members=list(dict.fromkeys(named))).members

        def use_case(tx: Transaction) -> None:
            if not visit.form.get("edit") and name in tx[People].groups(visit.who.project):
                raise InvalidRequest.at("/name", f"a group named {name} already exists; edit it instead")
            visit.site[PeopleService].put_group(tx, name, members, by=visit.who)

        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _groups_page(visit, error)
    return redirect("/admin/groups?done=saved")


async def remove_form(visit: Visit) -> Response:
    name = visit.request.path_params["name"]
    members = (await visit.site.database.read(lambda tx: tx[People].groups(visit.who.project))).get(name)
    if members is None:
        msg = "This group does not exist."
        raise NotFound(msg)
    question = Question(
        title=f"Remove group {name}?",
        consequences=(
            (f"This group has {plural(len(members), 'member')}. Their accounts are not affected."),
            "Breakpoints that are already assigned to this group keep their reviewers.",
        ),
        action=f"/admin/groups/{name}/remove",
        button="Remove group",
        back="/admin/groups",
        carried={},
    )
    return question_page(visit, question)


async def remove(visit: Visit) -> Response:
    name = visit.request.path_params["name"]
    await visit.site.database.write(partial(visit.site[PeopleService].remove_group, name=name, by=visit.who))
    return redirect("/admin/groups?done=removed")
