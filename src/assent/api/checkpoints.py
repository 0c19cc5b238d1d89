"""Checkpoints over all events, and proofs from them: for auditors."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query

from assent.api.routing import Who, With, router
from assent.domain.checkpoints import verifier_key
from assent.domain.instants import iso
from assent.domain.receipts import spelt
from assent.services.checkpoints import Consistency, Inclusion
from assent.store.checkpoints import CheckpointKey, StoredCheckpoint
from assent.wire import audit as wire

checkpoints = router("audit")
NEWEST = 2**53 - 1
Number = Annotated[int, Query(ge=1, le=NEWEST)]
Limit = Annotated[int, Query(ge=1, le=200)]


@checkpoints.get("/audit/checkpoints", response_model_exclude_none=True, summary="The signed checkpoints, newest first")
async def list_checkpoints(who: Who, services: With, before: Number = NEWEST, limit: Limit = 50) -> wire.CheckpointPage:
    use_case = partial(services.checkpoints.page, by=who, before=before, limit=limit)
    found = await services.database.read(use_case)
    following = found[-1].number if len(found) == limit and found[-1].number > 1 else None
    return wire.CheckpointPage.model_validate(
        {"items": [checkpoint_body(each) for each in found], "nextBefore": following}
    )


@checkpoints.get(
    "/audit/keys", response_model_exclude_none=True, summary="The public keys that checkpoints are checked with"
)
async def list_checkpoint_keys(who: Who, services: With) -> wire.CheckpointKeyPage:
    found = await services.database.read(partial(services.checkpoints.keys, by=who))
    return wire.CheckpointKeyPage.model_validate({"items": [key_body(each) for each in found]})


@checkpoints.get("/audit/proofs/{subject_id}", summary="Proof that events are in the log")
async def get_inclusion(
    subject_id: str, who: Who, services: With, seq: Number | None = None, checkpoint: Number | None = None
) -> wire.InclusionView:
    use_case = partial(services.checkpoints.inclusion, subject_id=subject_id, by=who, seq=seq, number=checkpoint)
    found = await services.database.read(use_case)
    return wire.InclusionView.model_validate({"id": subject_id} | inclusion_body(found))


@checkpoints.get("/audit/consistency", summary="Proof that the log only grew")
async def get_consistency(
    who: Who, services: With, first: Annotated[int, Query(alias="from", ge=1, le=NEWEST)], to: Number | None = None
) -> wire.ConsistencyView:
    use_case = partial(services.checkpoints.consistency, first=first, second=to, by=who)
    return wire.ConsistencyView.model_validate(consistency_body(await services.database.read(use_case)))


def checkpoint_body(each: StoredCheckpoint) -> dict[str, Any]:
    return {
        "number": each.number,
        "size": each.size,
        "root": each.root,
        "at": iso(each.at),
        "keyId": each.key_id,
        "note": each.note,
    }


def key_body(each: CheckpointKey) -> dict[str, Any]:
    return {
        "keyId": each.key_id,
        "origin": each.origin,
        "publicKey": spelt(each.public),
        "verifierKey": verifier_key(each.origin, each.public),
        "createdAt": iso(each.created_at),
        "createdBy": each.created_by,
        "retiredAt": iso(each.retired_at) if each.retired_at is not None else None,
    }


def inclusion_body(found: Inclusion) -> dict[str, Any]:
    return {
        "checkpoint": checkpoint_body(found.checkpoint),
        "events": [
            {
                "seq": each.leaf.seq,
                "position": each.leaf.position,
                "hash": each.leaf.hash,
                "path": [spelt(part) for part in each.path],
            }
            for each in found.events
        ],
        "waiting": found.waiting,
    }


def consistency_body(found: Consistency) -> dict[str, Any]:
    return {
        "first": checkpoint_body(found.first),
        "second": checkpoint_body(found.second),
        "path": [spelt(part) for part in found.path],
    }
