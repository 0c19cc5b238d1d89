"""Projects and the policy of the one that is looked at."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from assent.domain.canonical import canonical, sha256
from assent.domain.counting import DEFAULT_FLOOR
from assent.domain.errors import AssentError, InvalidRequest
from assent.services.people import DEFAULT_PROJECT
from assent.store.projects import Project
from assent.store.transaction import Transaction
from assent.web.admin.frame import Question, admin_page, checked, listed, number, question_page, text
from assent.web.frame import Site, Visit, redirect, route
from assent.web.guards import managing
from assent.wire import projects as wire

HOUR = 3600
_FIELDS = (
    "maxTtlHours",
    "unknownExperts",
    "autoApproveAfterN",
    "autoApproveFloor",
    "autoApproveCounts",
    "alwaysBreakOn",
    "ticketTags",
    "shown",
)
_POLICY = (
    "maxTtlSeconds",
    "unknownExperts",
    "autoApproveAfterN",
    "autoApproveFloor",
    "autoApproveCounts",
    "alwaysBreakOn",
    "ticketTags",
)


def routes(site: Site) -> list[Route]:
    return [
        route("/admin/projects", managing(projects), site),
        route("/admin/projects", managing(create), site, method="POST"),
        route("/admin/projects/{project_id}", managing(change), site, method="POST"),
        route("/admin/projects/{project_id}/remove", managing(remove), site, method="POST"),
        route("/admin/policy", managing(policy_form), site, method="POST"),
        route("/admin/policy/confirmed", managing(put_policy), site, method="POST"),
    ]


async def projects(visit: Visit) -> Response:
    return await _projects_page(visit)


async def _projects_page(visit: Visit, error: AssentError | None = None) -> Response:
    def use_case(tx: Transaction) -> tuple[list[tuple[Project, str]], Mapping[str, Any]]:
        seen = [each for each in tx.projects.every() if visit.who.everywhere or each.id == visit.who.project]
        owners = {each.id: found.name for each in seen if (found := tx.people.find(each.owner_id or ""))}
        return [(each, owners.get(each.id, "")) for each in seen], tx.projects.get(visit.who.project).policy

    found, policy = await visit.site.database.read(use_case)
    return await admin_page(
        "admin_projects.html",
        "projects",
        visit=visit,
        error=error,
        projects=found,
        policy=policy,
        shown=mark(policy),
        default=DEFAULT_PROJECT,
    )


def mark(policy: Mapping[str, Any]) -> str:
    """Name a policy, so that a form can say which one it was made from."""
    return sha256(canonical(dict(policy)))[:16]


async def create(visit: Visit) -> Response:
    try:
        asked = checked(
            wire.CreateProject,
            id=text(visit.form, "id") or "",
            name=text(visit.form, "name"),
            owner=text(visit.form, "owner"),
        )
        make = partial(
            visit.site.people.create_project,
            project_id=asked.id,
            name=asked.name or asked.id,
            owner=asked.owner,
            by=visit.who,
        )
        await visit.site.database.write(make)
    except AssentError as error:
        return await _projects_page(visit, error)
    return redirect("/admin/projects?done=created")


async def change(visit: Visit) -> Response:
    project_id = visit.request.path_params["project_id"]
    try:
        asked = checked(wire.ChangeProject, name=text(visit.form, "name"), owner=text(visit.form, "owner"))
        changes = asked.model_dump(exclude_none=True)
        use_case = partial(visit.site.people.change_project, project_id=project_id, changes=changes, by=visit.who)
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _projects_page(visit, error)
    return redirect("/admin/projects?done=saved")


async def remove(visit: Visit) -> Response:
    """Remove a project whose id was typed as confirmation."""
    project_id = visit.request.path_params["project_id"]
    try:
        if text(visit.form, "confirmation") != project_id:
            raise InvalidRequest.at("/confirmation", f"type {project_id} to remove the project; nothing was removed")
        await visit.site.database.write(partial(visit.site.projects.remove, project_id=project_id, by=visit.who))
    except AssentError as error:
        return await _projects_page(visit, error)
    visit.site.authenticator.forget()
    visit.site.sessions.forget_everybody()
    visit.site.ingress.forget()
    await visit.site.projects.close_now(visit.site.database)
    # Nobody manages a removed project, so its own admin has no page of projects any more.
    return redirect("/" if project_id == visit.who.project else "/admin/projects?done=removed")


def asked_policy(form: Mapping[str, str]) -> dict[str, Any]:
    """Read the policy's fields from the form; one that was left empty is not set."""
    hours = number(form, "maxTtlHours")
    asked = checked(
        wire.Policy,
        maxTtlSeconds=hours * HOUR if hours is not None else None,
        unknownExperts=text(form, "unknownExperts"),
        autoApproveAfterN=text(form, "autoApproveAfterN"),
        autoApproveFloor=number(form, "autoApproveFloor"),
        autoApproveCounts=text(form, "autoApproveCounts"),
        alwaysBreakOn=listed(form, "alwaysBreakOn"),
        ticketTags=listed(form, "ticketTags"),
    )
    found = asked.model_dump(by_alias=True, exclude_none=True)
    return {name: found.get(name) for name in _POLICY}


async def policy_form(visit: Visit) -> Response:
    """Say what the new policy means before it holds."""
    try:
        asked = asked_policy(visit.form)
    except AssentError as error:
        return await _projects_page(visit, error)
    hours = visit.form.get("maxTtlHours", "").strip()
    tags: list[str] = asked["alwaysBreakOn"] or []
    tickets: list[str] = asked["ticketTags"] or []
    question = Question(
        title="Change the policy?",
        consequences=(
            f"No deadline is later than {hours} hours." if hours else "Deadlines have no limit of the project.",
            f"A person is always asked where one of these tags is: {', '.join(tags)}."
            if tags
            else "No tag by itself makes sure that a person is asked.",
            f"What carries one of these tags is approved with a ticket in Jira only: {', '.join(tickets)}."
            if tickets
            else "No tag demands a ticket in Jira.",
            "Agents may not have themselves approved after n approvals."
            if asked["autoApproveAfterN"] == "ignore"
            else f"Agents may ask to be approved after {asked['autoApproveFloor'] or DEFAULT_FLOOR} or more approvals.",
            "Only approvals of the same question count."
            if asked["autoApproveCounts"] == "question"
            else "Approvals of the same gate count; those of a tool call only with the same arguments and directory.",
            "A breakpoint that names an unknown expert is refused."
            if asked["unknownExperts"] == "refuse"
            else "A breakpoint that names an unknown expert is taken, with a warning.",
            "It holds for what is raised from now on.",
        ),
        action="/admin/policy/confirmed",
        button="Change the policy",
        back="/admin/projects",
        carried={name: visit.form.get(name, "") for name in _FIELDS},
    )
    return question_page(visit, question)


async def put_policy(visit: Visit) -> Response:
    try:
        changes = asked_policy(visit.form)
        await change_policy(visit, changes, visit.form.get("shown", ""))
    except AssentError as error:
        return await _projects_page(visit, error)
    return redirect("/admin/projects?done=saved")


async def change_policy(visit: Visit, changes: Mapping[str, Any], shown: str) -> None:
    """Change these fields of the policy, unless it has become another one since it was shown."""

    def use_case(tx: Transaction) -> None:
        visit.site.people.change_policy(tx, changes, unchanged=lambda policy: mark(policy) == shown, by=visit.who)

    await visit.site.database.write(use_case)
    visit.site.authenticator.forget()
