"""JSON representations of holds, checkpoints, keys and proofs, for the API and the commands."""

from typing import Any

from assent.audit.checkpoint import verifier_key
from assent.audit.store.checkpoints import CheckpointKey, StoredCheckpoint
from assent.audit.store.retention import Hold
from assent.audit.usecases.checkpoints import Consistency, Inclusion
from assent.core.receipts import spelt
from assent.core.timestamps import iso


def hold_body(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "breakpointId": hold.breakpoint_id,
        "reason": hold.reason,
        "placedBy": hold.placed_by,
        "placedAt": iso(hold.placed_at),
        "liftedBy": hold.lifted_by,
        "liftedAt": iso(hold.lifted_at) if hold.lifted_at is not None else None,
    }


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
