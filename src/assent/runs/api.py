"""The API for processes and runs."""

import asyncio
from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import Response

from assent.breakpoints.api.breakpoints import once_of
from assent.breakpoints.api.listing import MAX_LIMIT, documented, page_limit, single_filters
from assent.contracts import runs as wire
from assent.contracts.shape import json_of
from assent.core.access import Permission, Principal
from assent.core.canonical import Json
from assent.core.errors import InvalidRequest, NotFound
from assent.core.timestamps import iso
from assent.http.endpoint import NO_FIELDS, REPEATED, Sent, Services, Who, With, router
from assent.http.query import CURSOR, EVENT_ID, LIMIT, RUN_ID, known_run_id
from assent.runs.model import SETTLED, Cause, Run, RunState, Step, StepKind
from assent.runs.ports import FoundProcess
from assent.runs.processes import FolderOfProcesses
from assent.runs.usecases.runs import NewRun, RunService, WholeRun

runs = router("runs")
_LIMIT = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50, "description": LIMIT}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "state": {"type": "string", "enum": [each.value for each in RunState], "description": "Run state to filter by."},
    "process": {"type": "string", "description": "Process name to filter by."},
    "eventId": {
        "type": "string",
        "pattern": f"^{EVENT_ID.pattern}$",
        "description": "ID of the event that started the runs.",
    },
    "trigger": {"type": "string", "description": "Name of the trigger that started the runs."},
    "limit": _LIMIT,
    "cursor": {"type": "string", "pattern": f"^{RUN_ID.pattern}$", "description": CURSOR},
}
_JOURNAL: dict[str, dict[str, Any]] = {
    "after": {
        "type": "integer",
        "minimum": 0,
        "default": 0,
        "description": "Return only entries with a higher `seq` than this.",
    },
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 500, "description": LIMIT},
}


@runs.get("/processes", response_model_exclude_none=True, summary="Lists the processes that this node can run")
async def list_processes(who: Who, services: With) -> wire.ProcessList:
    who.require(Permission.READ)
    found = await asyncio.to_thread(services[FolderOfProcesses].every)
    return wire.ProcessList(items=[_process(each) for each in found])


@runs.post(
    "/runs",
    status_code=201,
    response_model_exclude_none=True,
    summary="Starts a run; repeating a request with the same Idempotency-Key does not start another run",
    openapi_extra={
        "parameters": [
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}, "description": REPEATED}
        ]
    },
)
async def start_run(request: Request, body: Sent[wire.StartRun], who: Who, services: With) -> wire.Run:
    who.require(Permission.CREATE)
    # Loading a changed file executes its code, which must not block the event loop.
    found = await asyncio.to_thread(services[FolderOfProcesses].find, body.process)
    if found is None:
        raise await _unknown(services, body.process)
    services.creates.take(who.token_id or who.id, per_minute=who.creates_per_minute, what="runs")
    inputs: Json = body.inputs if body.inputs is not None else {}
    new = NewRun(body.process, found.version, inputs, body.agent_id or body.process)
    once = once_of(request.headers.get("idempotency-key"), json_of(body, nulls=True), "run")
    run = await services.database.write(partial(services[RunService].start, new=new, by=who, once=once))
    return _whole(WholeRun(run, [], []))


async def _unknown(services: Services, name: str) -> NotFound:
    every = await asyncio.to_thread(services[FolderOfProcesses].every)
    broken = next((each for each in every if each.name == name and each.problem), None)
    if broken is not None:
        return NotFound(f"The process {name!r} cannot be run: {broken.file} {broken.problem}.")
    known = ", ".join(each.name for each in every if each.problem is None)
    hint = f"available processes: {known}" if known else f"add it to {services.settings.process_folder.name}/"
    return NotFound(f"Process {name!r} not found; {hint}.")


@runs.get(
    "/runs",
    response_model_exclude_none=True,
    openapi_extra=documented(_PARAMETERS),
    summary="Lists runs, newest first",
)
async def list_runs(request: Request, who: Who, services: With) -> wire.RunPage:
    given = single_filters(request, _PARAMETERS)
    if given.get("state", "done") not in set(RunState):
        raise InvalidRequest.at("query state", f"must be one of {', '.join(RunState)}")
    cursor = given.pop("cursor", None)
    if cursor is not None and not RUN_ID.fullmatch(cursor):
        raise InvalidRequest.at("query cursor", "is not a valid cursor")
    limit = page_limit(given.pop("limit", None))
    filters = _columns(given)
    found = await services.database.read(
        partial(services[RunService].page, filters=filters, by=who, before=cursor, limit=limit + 1)
    )
    # The query reads one extra row to detect whether there is another page.
    more = found[limit - 1].id if len(found) > limit else None
    return wire.RunPage.of({"items": [run_body(each) for each in found[:limit]], "nextCursor": more})


@runs.get("/runs/{run_id}", response_model_exclude_none=True, summary="Gets a run with its steps and files")
async def get_run(run_id: str, who: Who, services: With) -> wire.Run:
    return await _read(services, run_id, who)


@runs.get(
    "/runs/{run_id}/journal",
    response_model_exclude_none=True,
    openapi_extra=documented(_JOURNAL),
    summary="Lists a run's journal entries in order",
)
async def get_journal(run_id: str, request: Request, who: Who, services: With) -> wire.JournalPage:
    given = single_filters(request, _JOURNAL)
    after, limit = _number(given, "after", 0, 2**53), _number(given, "limit", 500, 1000)
    found = await services.database.read(
        partial(services[RunService].journal, run_id=known_run_id(run_id), by=who, after=after, limit=max(1, limit))
    )
    lines = [
        wire.JournalLine(seq=each.seq, at=iso(each.at), type=each.type, path=each.path, data=dict(each.data))
        for each in found
    ]
    return wire.JournalPage(items=lines)


@runs.get("/runs/{run_id}/files/{path:path}", response_class=Response, summary="Downloads a file from a run")
async def get_run_file(run_id: str, path: str, who: Who, services: With) -> Response:
    content = await services.database.read(
        partial(services[RunService].content, run_id=known_run_id(run_id), path=path, by=who)
    )
    # A process chose this content, so browsers must download it instead of displaying it.
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@runs.post(
    "/runs/{run_id}/cancel",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Cancels a run and its pending breakpoints",
)
async def cancel_run(run_id: str, who: Who, services: With) -> wire.Run:
    await services.database.write(partial(services[RunService].cancel, run_id=known_run_id(run_id), by=who))
    return await _read(services, run_id, who)


@runs.post(
    "/runs/{run_id}/retry",
    dependencies=NO_FIELDS,
    response_model_exclude_none=True,
    summary="Resumes a failed run from the step that failed",
)
async def retry_run(run_id: str, who: Who, services: With) -> wire.Run:
    await services.database.write(partial(services[RunService].retry, run_id=known_run_id(run_id), by=who))
    return await _read(services, run_id, who)


async def _read(services: Services, run_id: str, who: Principal) -> wire.Run:
    return _whole(await services.database.read(partial(services[RunService].get, run_id=known_run_id(run_id), by=who)))


def _number(given: dict[str, str], name: str, default: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    # int() raises an error for thousands of digits, so limit the length first.
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)) or int(text) > most:
        raise InvalidRequest.at(f"query {name}", f"must be a whole number up to {most}")
    return int(text)


def _columns(given: dict[str, str]) -> dict[str, str]:
    """Return the filters by column name."""
    if "eventId" in given and not EVENT_ID.fullmatch(given["eventId"]):
        raise InvalidRequest.at("query eventId", "is not an event ID; event IDs look like evt_01k9…")
    columns = {"eventId": "event_id", "trigger": "trigger_name"}
    return {columns.get(name, name): value for name, value in given.items()}


def run_body(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "process": run.process,
        "state": run.state.value,
        "agentId": run.agent_id,
        "startedBy": run.started_by,
        "cause": _cause(run.cause) if run.cause is not None else None,
        "createdAt": iso(run.created_at),
        "updatedAt": iso(run.updated_at),
        "endedAt": iso(run.ended_at) if run.ended_at is not None else None,
        "error": dict(run.error) if run.error else None,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {"eventId": cause.event_id, "trigger": cause.trigger, "depth": cause.depth}


def _whole(found: WholeRun) -> wire.Run:
    run = found.run
    more: dict[str, Any] = {
        "version": run.version,
        "inputs": run.inputs,
        "output": run.output,
        "steps": [_step(each) for each in found.steps],
        "files": [{"path": each.path, "sha256": each.sha256, "size": each.size} for each in found.files],
    }
    return wire.Run.of(run_body(run) | more)


def _step(step: Step) -> dict[str, Any]:
    # Sleeps and unfinished steps store internal wake-up times in their outcome.
    told = step.kind is not StepKind.SLEEP and step.state in SETTLED
    return {
        "path": step.path,
        "kind": step.kind.value,
        "name": step.name,
        "state": step.state.value,
        "attempts": step.attempts,
        "startedAt": iso(step.started_at),
        "endedAt": iso(step.ended_at) if step.ended_at is not None else None,
        "breakpointId": step.breakpoint_id,
        "outcome": step.outcome if told else None,
        "error": dict(step.error) if step.error else None,
    }


def _process(found: FoundProcess) -> wire.ProcessInfo:
    return wire.ProcessInfo(
        name=found.name,
        file=found.file,
        version=found.version,
        description=found.description,
        problem=found.problem,
    )
