"""API endpoints for projects, their policies and their callback secrets."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

from fastapi import Path, Response

from assent.contracts import projects as wire
from assent.contracts.shape import json_of
from assent.contracts.words import Handle
from assent.core.access import Principal
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.endpoint import NO_FIELDS, Manager, PeopleReader, Sent, With, router
from assent.people.authenticator import Authenticator
from assent.people.store.people import People
from assent.people.store.projects import Project, Projects
from assent.people.usecases.people import PeopleService
from assent.people.usecases.secrets import CallbackSecret, SecretService
from assent.people.views import callback_body
from assent.triggers.usecases.remove_projects import ProjectService
from assent.triggers.usecases.webhooks import Ingress

projects = router("projects")
ProjectId = Annotated[Handle, Path()]


@projects.get("/projects", summary="Lists the projects that you can see")
async def list_projects(who: PeopleReader, services: With) -> wire.ProjectPage:
    def use_case(tx: Transaction) -> list[wire.Project]:
        return [_view(tx, each) for each in tx[Projects].every() if who.everywhere or each.id == who.project]

    return wire.ProjectPage(items=await services.database.read(use_case))


@projects.post("/projects", status_code=201, summary="Creates a project")
async def create_project(body: Sent[wire.CreateProject], who: Manager, services: With) -> wire.Project:
    def use_case(tx: Transaction) -> wire.Project:
        services[PeopleService].create_project(tx, body.id, body.name or body.id, body.owner, by=who)
        return _view(tx, tx[Projects].get(body.id))

    return await services.database.write(use_case)


@projects.patch("/projects/{project_id}", summary="Renames a project or changes its owner")
async def change_project(
    project_id: ProjectId, body: Sent[wire.ChangeProject], who: Manager, services: With
) -> wire.Project:
    changes = json_of(body)

    def use_case(tx: Transaction) -> wire.Project:
        services[PeopleService].change_project(tx, project_id, changes, by=who)
        return _view(tx, tx[Projects].get(project_id))

    return await services.database.write(use_case)


@projects.delete("/projects/{project_id}", status_code=204, summary="Removes a project")
async def remove_project(project_id: ProjectId, who: Manager, services: With) -> None:
    await services.database.write(partial(services[ProjectService].remove, project_id=project_id, by=who))
    # Cached principals and sources still belong to an open project.
    services[Authenticator].forget()
    services[Ingress].forget()
    # The removal is committed. If this node crashes now, the scheduler cancels the rest.
    await services[ProjectService].close_now(services.database)


@projects.get("/projects/{project_id}/callback-secret", summary="Gets the signing secrets for callbacks, newest first")
async def show_callback_secret(
    project_id: ProjectId, who: Manager, services: With, response: Response
) -> wire.CallbackSecretPage:
    found = await services.database.write(
        partial(services[SecretService].show_callback_secrets, project=project_id, by=who)
    )
    return _secrets(found, response)


@projects.post(
    "/projects/{project_id}/callback-secret/rotate",
    dependencies=NO_FIELDS,
    summary="Rotates the signing secret; the previous secret remains valid for a day",
)
async def rotate_callback_secret(
    project_id: ProjectId, who: Manager, services: With, response: Response
) -> wire.CallbackSecretPage:
    found = await services.database.write(
        partial(services[SecretService].rotate_callback_secret, project=project_id, by=who)
    )
    return _secrets(found, response)


@projects.get("/policy", response_model_exclude_none=True, summary="Gets this project's policy")
async def get_policy(who: PeopleReader, services: With) -> wire.Policy:
    return await services.database.read(partial(_policy, by=who))


@projects.put("/policy", response_model_exclude_none=True, summary="Replaces this project's policy")
async def put_policy(body: Sent[wire.Policy], who: Manager, services: With) -> wire.Policy:
    policy = json_of(body)
    await services.database.write(partial(services[PeopleService].put_policy, policy=policy, by=who))
    services[Authenticator].forget()
    return body


def _policy(tx: Transaction, *, by: Principal) -> wire.Policy:
    return wire.Policy.of(dict(tx[Projects].get(by.project).policy))


def _secrets(found: Sequence[CallbackSecret], response: Response) -> wire.CallbackSecretPage:
    response.headers["Cache-Control"] = "no-store"
    return wire.CallbackSecretPage.of({"items": [callback_body(each) for each in found]})


def _view(tx: Transaction, project: Project) -> wire.Project:
    owner = tx[People].find(project.owner_id) if project.owner_id else None
    return wire.Project.of(
        {
            "id": project.id,
            "name": project.name,
            "owner": owner.name if owner else None,
            "createdAt": iso(project.created_at),
            "removedAt": iso(project.removed_at) if project.removed_at is not None else None,
        }
    )
