"""API endpoints for people and groups."""

from functools import partial
from typing import Annotated

from fastapi import Path, Response

from assent.contracts import people as wire
from assent.contracts.shape import json_of
from assent.contracts.words import Handle
from assent.core.access import roles
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.endpoint import Manager, PeopleReader, Sent, With, router
from assent.people.authenticator import Authenticator
from assent.people.store.people import EVERYWHERE, People, Person
from assent.people.usecases.people import PeopleService

people = router("people")
PersonName = Annotated[Handle, Path()]


@people.get("/people", summary="Lists this project's people")
async def list_people(who: PeopleReader, services: With) -> wire.PersonPage:
    def use_case(tx: Transaction) -> list[wire.Person]:
        return [_view(tx, each, who.project) for each in services[PeopleService].everybody(tx, by=who)]

    return wire.PersonPage(items=await services.database.read(use_case))


@people.post("/people", status_code=201, summary="Adds a person")
async def create_person(body: Sent[wire.CreatePerson], who: Manager, services: With) -> wire.Person:
    def use_case(tx: Transaction) -> wire.Person:
        tx.acting(who)
        person = services[PeopleService].create_person(
            tx,
            body.name,
            project=who.project,
            roles=roles(body.roles),
            display_name=body.display_name,
            email=body.email,
            password=body.password,
            by=who,
        )
        return _view(tx, person, who.project)

    return await services.database.write(use_case)


@people.get("/people/{name}", summary="Gets a person")
async def get_person(name: PersonName, who: PeopleReader, services: With) -> wire.Person:
    return await services.database.read(
        lambda tx: _view(tx, services[PeopleService].known(tx, name, by=who), who.project)
    )


@people.patch("/people/{name}", summary="Updates a person")
async def change_person(name: PersonName, body: Sent[wire.ChangePerson], who: Manager, services: With) -> wire.Person:
    changes = json_of(body)

    def use_case(tx: Transaction) -> wire.Person:
        person = services[PeopleService].known(tx, name, by=who)
        return _view(tx, services[PeopleService].change_person(tx, person.name, changes, by=who), who.project)

    changed = await services.database.write(use_case)
    # Otherwise, cached principals would keep their old roles for up to a second.
    services[Authenticator].forget()
    return changed


@people.post(
    "/people/{name}/confirm", summary="Confirms a person's access after another admin has set it up or reset it"
)
async def confirm_person(name: PersonName, who: Manager, services: With) -> wire.Person:
    def use_case(tx: Transaction) -> wire.Person:
        return _view(tx, services[PeopleService].confirm_reset(tx, name, by=who), who.project)

    confirmed = await services.database.write(use_case)
    services[Authenticator].forget()
    return confirmed


@people.get("/groups", summary="Lists this project's groups")
async def list_groups(who: PeopleReader, services: With) -> wire.GroupPage:
    groups = await services.database.read(lambda tx: tx[People].groups(who.project))
    return wire.GroupPage(items=[wire.Group(name=name, members=members) for name, members in groups.items()])


@people.put("/groups/{name}", summary="Creates a group or replaces its members")
async def put_group(name: PersonName, body: Sent[wire.PutGroup], who: Manager, services: With) -> wire.Group:
    await services.database.write(partial(services[PeopleService].put_group, name=name, members=body.members, by=who))
    return wire.Group(name=name, members=sorted(set(body.members)))


@people.delete("/groups/{name}", status_code=204, summary="Removes a group")
async def remove_group(name: PersonName, who: Manager, services: With) -> Response:
    await services.database.write(partial(services[PeopleService].remove_group, name=name, by=who))
    return Response(status_code=204)


def _view(tx: Transaction, person: Person, project: str) -> wire.Person:
    grants = tx[People].grants(person.id)
    held = grants.get(project, frozenset()) | grants.get(EVERYWHERE, frozenset())
    return wire.Person.of(
        {
            "id": person.id,
            "name": person.name,
            "displayName": person.display_name,
            "email": person.email,
            "roles": [role.value for role in sorted(held)],
            "active": person.active,
            # The names of other projects are not shown.
            "home": person.home if person.home in {project, EVERYWHERE} else None,
            "resetBy": person.reset_by,
            "createdAt": iso(person.created_at),
        }
    )
