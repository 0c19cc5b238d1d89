"""Endpoints for legal holds."""

from functools import partial
from typing import Annotated

from fastapi import Path, Response

from assent.audit.store.retention import Hold
from assent.audit.usecases.retention import RetentionService
from assent.audit.views import hold_body
from assent.contracts import retention as wire
from assent.http.endpoint import Auditor, Manager, Sent, With, router
from assent.http.query import known_id

retention = router("retention")
HoldId = Annotated[str, Path(pattern="^hold_[0-9a-z]{26}$")]


@retention.get("/holds", summary="Lists this project's legal holds, including lifted holds")
async def list_holds(who: Auditor, services: With) -> wire.HoldPage:
    holds = await services.database.read(partial(services[RetentionService].every, by=who))
    return wire.HoldPage(items=[_view(each) for each in holds])


@retention.post("/holds", status_code=201, summary="Protects a breakpoint or the entire project from being purged")
async def place_hold(body: Sent[wire.PlaceHold], who: Manager, services: With) -> wire.Hold:
    breakpoint_id = known_id(body.breakpoint_id) if body.breakpoint_id is not None else None
    use_case = partial(services[RetentionService].place, by=who, reason=body.reason, breakpoint_id=breakpoint_id)
    return _view(await services.database.write(use_case))


@retention.delete("/holds/{hold_id}", status_code=204, summary="Lifts a legal hold")
async def lift_hold(hold_id: HoldId, who: Manager, services: With) -> Response:
    await services.database.write(partial(services[RetentionService].lift, hold_id=hold_id, by=who))
    return Response(status_code=204)


def _view(hold: Hold) -> wire.Hold:
    return wire.Hold.of(hold_body(hold))
