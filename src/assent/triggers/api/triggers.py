"""API for triggers: create, change, suspend, resume and validate them."""

import asyncio
import contextlib
from collections.abc import Generator, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import Path, Response

from assent.contracts import triggers as shapes
from assent.contracts.shape import given, json_of
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.core.triggers_json import respelt, spelt, unspelt
from assent.db.transaction import Transaction
from assent.http.endpoint import NO_FIELDS, PeopleReader, RuleWriter, Sent, Services, With, router
from assent.runs.processes import FolderOfProcesses
from assent.triggers.file_format import written
from assent.triggers.model import Trigger
from assent.triggers.store.triggers import StoredTrigger
from assent.triggers.usecases.config_reload import Reloading
from assent.triggers.usecases.triggers import TriggerService

triggers = router("triggers")
TriggerId = Annotated[shapes.TriggerName, Path(description="ID or name of the trigger.")]
_NEEDED = ("on", "run", "enabled")


@contextlib.contextmanager
def as_the_api_names_it() -> Generator[None, None, None]:
    """Convert the field names in errors from the assent.yaml format to the JSON API's."""
    try:
        yield
    except InvalidRequest as error:
        raise respelt(error) from None


async def load_processes(services: Services) -> None:
    """Load the process files before a transaction begins, so that a slow file does not keep it open."""
    await asyncio.to_thread(services[FolderOfProcesses].every)


@triggers.get("/triggers", response_model_exclude_none=True, summary="Lists this project's triggers")
async def list_triggers(who: PeopleReader, services: With) -> shapes.Triggers:
    found = await services.database.read(partial(services[TriggerService].listed, by=who))
    return shapes.Triggers(items=await _views(found, services), problems=services[Reloading].told_to(who) or None)


@triggers.post("/triggers", status_code=201, response_model_exclude_none=True, summary="Creates a trigger")
async def create_trigger(body: Sent[shapes.CreateTrigger], who: RuleWriter, services: With) -> shapes.Trigger:
    said = unspelt(json_of(body))
    await load_processes(services)
    with as_the_api_names_it():
        made = await services.database.write(partial(services[TriggerService].create, body=said, by=who))
    return await _view(made, services)


@triggers.post("/triggers/check", response_model_exclude_none=True, summary="Validates a trigger without saving it")
async def check_trigger(body: Sent[shapes.CreateTrigger], who: PeopleReader, services: With) -> shapes.TriggerBody:
    del who
    said = unspelt(json_of(body))
    with as_the_api_names_it():
        # Use a thread, because validation may load the process file.
        found = await asyncio.to_thread(services[TriggerService].check, said)
    return shapes.TriggerBody.of(trigger_fields(found))


@triggers.get("/triggers/{trigger_id:trigger}", response_model_exclude_none=True, summary="Gets a trigger")
async def show_trigger(trigger_id: TriggerId, who: PeopleReader, services: With) -> shapes.Trigger:
    found = await services.database.read(lambda tx: services[TriggerService].known(tx, trigger_id, by=who))
    return await _view(found, services)


@triggers.patch("/triggers/{trigger_id:trigger}", response_model_exclude_none=True, summary="Updates a trigger")
async def change_trigger(
    trigger_id: TriggerId, body: Sent[shapes.ChangeTrigger], who: RuleWriter, services: With
) -> shapes.Trigger:
    # Fields that were not sent stay unchanged, and null removes a value.
    said = given(body)
    for name in _NEEDED:
        if name in said and said[name] is None:
            raise InvalidRequest.at(f"/{name}", "cannot be null")
    changes = unspelt(said)

    def use_case(tx: Transaction) -> StoredTrigger:
        return services[TriggerService].change(
            tx, services[TriggerService].known(tx, trigger_id, by=who).id, changes, by=who
        )

    await load_processes(services)
    with as_the_api_names_it():
        changed = await services.database.write(use_case)
    return await _view(changed, services)


@triggers.delete(
    "/triggers/{trigger_id:trigger}", status_code=204, summary="Removes a trigger; runs that it has started continue"
)
async def remove_trigger(trigger_id: TriggerId, who: RuleWriter, services: With) -> Response:
    def use_case(tx: Transaction) -> None:
        services[TriggerService].remove(tx, services[TriggerService].known(tx, trigger_id, by=who).id, by=who)

    await services.database.write(use_case)
    return Response(status_code=204)


@triggers.post(
    "/triggers/{trigger_id:trigger}/suspend",
    response_model_exclude_none=True,
    summary="Suspends a trigger and queues its events",
)
async def suspend_trigger(
    trigger_id: TriggerId, body: Sent[shapes.SuspendTrigger], who: RuleWriter, services: With
) -> shapes.Trigger:
    def use_case(tx: Transaction) -> StoredTrigger:
        known = services[TriggerService].known(tx, trigger_id, by=who)
        return services[TriggerService].suspend(tx, known.id, by=who, because=body.because)

    return await _view(await services.database.write(use_case), services)


@triggers.post(
    "/triggers/{trigger_id:trigger}/resume",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Resumes a trigger and processes its queued events",
)
async def resume_trigger(trigger_id: TriggerId, who: RuleWriter, services: With) -> shapes.Trigger:
    def use_case(tx: Transaction) -> StoredTrigger:
        return services[TriggerService].resume(tx, services[TriggerService].known(tx, trigger_id, by=who).id, by=who)

    return await _view(await services.database.write(use_case), services)


async def _view(stored: StoredTrigger, services: Services) -> shapes.Trigger:
    [found] = await _views([stored], services)
    return found


async def _views(found: Sequence[StoredTrigger], services: Services) -> list[shapes.Trigger]:
    def problems() -> list[str | None]:
        # Reading process signatures can take a while, so do not block the event loop.
        return [
            services[FolderOfProcesses].problem(each.trigger.run, dict(each.trigger.inputs), complete=False)
            for each in found
        ]

    wrong = await asyncio.to_thread(problems)
    return [shapes.Trigger.of(trigger_body(each, problem)) for each, problem in zip(found, wrong, strict=True)]


def trigger_body(stored: StoredTrigger, problem: str | None) -> dict[str, Any]:
    return {
        **trigger_fields(stored.trigger),
        "id": stored.id,
        "because": stored.because,
        "problem": problem,
        "version": stored.version,
        "origin": stored.origin,
        "createdBy": stored.created_by,
        "createdAt": iso(stored.created_at),
        "updatedBy": stored.updated_by,
        "updatedAt": iso(stored.updated_at),
        "firedAt": iso(stored.fired_at) if stored.fired_at is not None else None,
        "alarmId": stored.alarm_id,
    }


def trigger_fields(trigger: Trigger) -> dict[str, Any]:
    """Return a trigger with the field names of the JSON API."""
    return {"enabled": True} | spelt(written(trigger))
