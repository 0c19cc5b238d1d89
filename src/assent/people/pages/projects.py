"""The Projects page: list, create, change and remove projects, and change the current project's policy."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import projects as wire
from assent.contracts.shape import json_of
from assent.core.canonical import canonical, sha256
from assent.core.counting import DEFAULT_FLOOR
from assent.core.errors import AssentError, InvalidRequest
from assent.core.plurals import plural
from assent.db.transaction import Transaction
from assent.people.authenticator import Authenticator
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import DEFAULT_PROJECT, PeopleService
from assent.triggers.usecases.remove_projects import ProjectService
from assent.triggers.usecases.webhooks import Ingress
from assent.web.admin import Question, admin_page, checked, listed, number, question_page, text
from assent.web.guards import managing
from assent.web.site import Site, Visit, redirect, route

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
    def use_case(tx: Transaction) -> tuple[list[tuple[Project, str]], Mapping[str, Any], list[tuple[str, str]]]:
        seen = [each for each in tx[Projects].every() if visit.who.everywhere or each.id == visit.who.project]
        owners = {each.id: found.name for each in seen if (found := tx[People].find(each.owner_id or ""))}
        shown = [(each, owners.get(each.id, "")) for each in seen]
        people = visit.site[PeopleService].suggested(tx, by=visit.who)
        return shown, tx[Projects].get(visit.who.project).policy, people

    found, policy, people = await visit.site.database.read(use_case)
    return await admin_page(
        "admin_projects.html",
        "projects",
        visit=visit,
        error=error,
        projects=found,
        people=people,
        policy=policy,
        shown=mark(policy),
        default=DEFAULT_PROJECT,
    )


def mark(policy: Mapping[str, Any]) -> str:
    """Return a hash of a policy, which a form submits so that concurrent changes are detected."""
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
            visit.site[PeopleService].create_project,
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
        changes = json_of(asked)
        use_case = partial(
            visit.site[PeopleService].change_project, project_id=project_id, changes=changes, by=visit.who
        )
        await visit.site.database.write(use_case)
    except AssentError as error:
        return await _projects_page(visit, error)
    return redirect("/admin/projects?done=saved")


async def remove(visit: Visit) -> Response:
    """Remove a project if its ID was typed as confirmation."""
    project_id = visit.request.path_params["project_id"]
    try:
        if text(visit.form, "confirmation") != project_id:
            raise InvalidRequest.at("/confirmation", f"type {project_id} to confirm")
        await visit.site.database.write(partial(visit.site[ProjectService].remove, project_id=project_id, by=visit.who))
    except AssentError as error:
        return await _projects_page(visit, error)
    # Cached principals, sessions and sources still belong to an open project.
    visit.site[Authenticator].forget()
    visit.site.sessions.forget_everybody()
    visit.site[Ingress].forget()
    await visit.site[ProjectService].close_now(visit.site.database)
    # After removing the current project, the admin can no longer open the Projects page.
    return redirect("/" if project_id == visit.who.project else "/admin/projects?done=removed")


def asked_policy(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the submitted policy, with None for empty fields."""
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
    found = json_of(asked)
    return {name: found.get(name) for name in _POLICY}


async def policy_form(visit: Visit) -> Response:
    """Explain the consequences of the new policy before it is saved."""
    try:
        asked = asked_policy(visit.form)
    except AssentError as error:
        return await _projects_page(visit, error)
    hours = visit.form.get("maxTtlHours", "").strip()
    tags: list[str] = asked["alwaysBreakOn"] or []
    tickets: list[str] = asked["ticketTags"] or []
    floor = asked["autoApproveFloor"] or DEFAULT_FLOOR
    question = Question(
        title="Change the policy?",
        consequences=(
            f"Deadlines are limited to {hours} {'hour' if hours == '1' else 'hours'}."
            if hours
            else "Deadlines are not limited.",
            f"Breakpoints with any of these tags always require human approval: {', '.join(tags)}."
            if tags
            else "No tags require human approval.",
            f"Breakpoints with any of these tags require a Jira ticket for approval: {', '.join(tickets)}."
            if tickets
            else "No tags require a Jira ticket.",
            "Agents cannot request auto-approval after N approvals."
            if asked["autoApproveAfterN"] == "ignore"
            else f"Agents can request auto-approval after at least {plural(floor, 'approval')}.",
            "Only approvals of the same question count."
            if asked["autoApproveCounts"] == "question"
            else (
                "Approvals at the same gate count. For tool calls, only approvals with the same arguments and "
                "directory count."
            ),
            "Breakpoints cannot be assigned to an unknown person or group."
            if asked["unknownExperts"] == "refuse"
            else "Breakpoints assigned to an unknown person or group are accepted with a warning.",
            "The policy applies to breakpoints created from now on.",
        ),
        action="/admin/policy/confirmed",
        button="Change policy",
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
    """Change these fields of the policy, unless it has changed since it was shown."""

    def use_case(tx: Transaction) -> None:
        visit.site[PeopleService].change_policy(
            tx, changes, unchanged=lambda policy: mark(policy) == shown, by=visit.who
        )

    await visit.site.database.write(use_case)
    visit.site[Authenticator].forget()
