"""Endpoints for auditors: signed checkpoints that cover all events, and proofs."""

from functools import partial
from typing import Annotated

from fastapi import Query

from assent.audit.usecases.checkpoints import CheckpointService
from assent.audit.views import checkpoint_body, consistency_body, inclusion_body, key_body
from assent.contracts import audit as wire
from assent.http.endpoint import Who, With, router
from assent.http.query import LIMIT

checkpoints = router("audit")
NEWEST = 2**53 - 1
Number = Annotated[
    int | None, Query(ge=1, le=NEWEST, description="Number of the checkpoint. Default: the latest checkpoint.")
]
Seq = Annotated[int | None, Query(ge=1, le=NEWEST, description="Event number (`seq`). Default: all events.")]
From = Annotated[int, Query(alias="from", ge=1, le=NEWEST, description="Number of the earlier checkpoint.")]
Before = Annotated[int, Query(ge=1, le=NEWEST, description="The `nextBefore` value from the previous page.")]
Limit = Annotated[int, Query(ge=1, le=200, description=LIMIT)]


@checkpoints.get(
    "/audit/checkpoints", response_model_exclude_none=True, summary="Lists the signed checkpoints, newest first"
)
async def list_checkpoints(who: Who, services: With, before: Before = NEWEST, limit: Limit = 50) -> wire.CheckpointPage:
    use_case = partial(services[CheckpointService].page, by=who, before=before, limit=limit)
    found = await services.database.read(use_case)
    following = found[-1].number if len(found) == limit and found[-1].number > 1 else None
    return wire.CheckpointPage.of({"items": [checkpoint_body(each) for each in found], "nextBefore": following})


@checkpoints.get(
    "/audit/keys",
    response_model_exclude_none=True,
    summary="Lists the public keys for verifying checkpoints, newest first",
)
async def list_checkpoint_keys(who: Who, services: With) -> wire.CheckpointKeyPage:
    found = await services.database.read(partial(services[CheckpointService].keys, by=who))
    return wire.CheckpointKeyPage.of({"items": [key_body(each) for each in found]})


@checkpoints.get("/audit/proofs/{subject_id}", summary="Proves that events are in the log")
async def get_inclusion(
    subject_id: str, who: Who, services: With, seq: Seq = None, checkpoint: Number = None
) -> wire.Inclusion:
    use_case = partial(services[CheckpointService].inclusion, subject_id=subject_id, by=who, seq=seq, number=checkpoint)
    found = await services.database.read(use_case)
    return wire.Inclusion.of({"id": subject_id} | inclusion_body(found))


@checkpoints.get("/audit/consistency", summary="Proves that the log was append-only between two checkpoints")
async def get_consistency(who: Who, services: With, first: From, to: Number = None) -> wire.Consistency:
    use_case = partial(services[CheckpointService].consistency, first=first, second=to, by=who)
    return wire.Consistency.of(consistency_body(await services.database.read(use_case)))
