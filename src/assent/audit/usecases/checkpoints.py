"""Signs checkpoints that cover all events with the installation's key, and proves inclusion and consistency."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from assent.audit import merkle
from assent.audit.checkpoint import BadCheckpoint, Checkpoint, check, entry, key_id, sign
from assent.audit.store.checkpoints import CheckpointKey, Checkpoints, Leaf, StoredCheckpoint
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.core.access import Actor, Kind, Permission, Principal
from assent.core.errors import Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from assent.core.receipts import KEY_BYTES, public_key, spelt
from assent.db.transaction import Transaction
from assent.kernel.keyring import Keyring, Sealed
from assent.people.store.secrets import Secrets, StoredSecret
from assent.people.usecases.people import DEFAULT_PROJECT
from assent.platform.admin_events import INSTALLATION, chain_of, is_admin_chain
from assent.platform.admin_log import AdminLog
from assent.policy.store.rules import Rules

CHECKPOINT_BATCH = 250
"""Maximum number of events per checkpoint. On SQLite, creating a checkpoint blocks other writers."""
SECRET = "checkpoint"  # noqa: S105  # the name of the stored secret
MAKER = Actor(Kind.SYSTEM, "checkpoints")
ANCHOR_JOB = "anchor"
ORIGIN_BYTES = 8
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Included:
    """Proof that an event is in the log: its position, and the path from the event to a checkpoint's root."""

    leaf: Leaf
    path: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Proofs for the events of a breakpoint, rule or admin event chain, and the checkpoint that they refer to."""

    checkpoint: StoredCheckpoint
    events: Sequence[Included]
    waiting: int
    """Number of events that the checkpoint does not cover."""


@dataclass(frozen=True, slots=True)
class Consistency:
    """Proof that the log at one checkpoint is a prefix of the log at another."""

    first: StoredCheckpoint
    second: StoredCheckpoint
    path: Sequence[bytes]


class CheckpointService:
    def __init__(self, keyring: Keyring, random: Callable[[int], bytes], *, tells: bool = False) -> None:
        """Create the service; if `tells` is True, each checkpoint queues a job for the webhook."""
        self._keyring = keyring
        self._random = random
        self._tells = tells
        self._trouble: str | None = None

    def make(self, tx: Transaction) -> int:
        """Add new events to the log and sign a checkpoint, on one node at a time; return the number of events."""
        if not tx[Checkpoints].alone():
            return 0
        if not tx[Checkpoints].unsigned(limit=1):
            return 0
        try:
            key = self._keys(tx)[0]
            seed = self._seed(tx, key)
        except Unavailable as error:
            # For example, on a node without keys. Log it only once; the metric of unsigned events shows if it persists.
            if self._trouble != error.message:
                _log.error("checkpoint_not_signed", error=error.message)
            self._trouble = error.message
            return 0
        self._trouble = None
        # Read the events after the key, because creating the first key records an event.
        events = tx[Checkpoints].unsigned(limit=CHECKPOINT_BATCH)
        self._extend(tx, events, key, seed)
        return len(events)

    def _extend(self, tx: Transaction, events: Sequence[tuple[str, int, str]], key: CheckpointKey, seed: bytes) -> None:
        last = tx[Checkpoints].last()
        tree = _tree(tx, last)
        leaves = [Leaf(subject, seq, tree.size + n, hash_) for n, (subject, seq, hash_) in enumerate(events)]
        nodes = [whole for each in leaves for whole in tree.add(merkle.leaf(entry(each.hash)))]
        number = last.number + 1 if last else 1
        # Even if the clock was set back, a checkpoint must not be older than the previous one.
        at = max(tx.now(), last.at) if last else tx.now()
        signed = Checkpoint(origin=key.origin, number=number, size=tree.size, root=tree.root(), at=at)
        tx[Checkpoints].extend(leaves, nodes)
        tx[Checkpoints].add(
            StoredCheckpoint(number, signed.size, signed.root.hex(), at, key.key_id, sign(signed, seed))
        )
        if self._tells:
            tx.enqueue(ANCHOR_JOB, key=str(number), payload={"number": number})

    def keys(self, tx: Transaction, *, by: Principal) -> list[CheckpointKey]:
        by.require(Permission.AUDIT)
        return tx[Checkpoints].every_key()

    def rotate(self, tx: Transaction, *, by: Principal) -> list[CheckpointKey]:
        """Start signing with a new key; earlier signatures remain valid."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        if not by.everywhere:
            msg = (
                "Checkpoints cover all projects. Only an admin with access to all projects can rotate the checkpoint "
                "key."
            )
            raise Forbidden(msg)
        found = tx[Secrets].newest(DEFAULT_PROJECT, SECRET, limit=1)
        now = tx.now()
        if not tx[Checkpoints].alone() or (found and not tx[Secrets].retire(found[0], now=now)):
            msg = "A checkpoint is being created, or the key was just rotated. Try again."
            raise Conflict(msg)
        older = tx[Checkpoints].every_key()
        tx[Checkpoints].retire_key(now=now)
        origin = older[0].origin if older else self._origin()
        self._add(tx, version=found[0].version + 1 if found else 1, by=by.actor, origin=origin)
        return tx[Checkpoints].every_key()

    def page(self, tx: Transaction, *, by: Principal, before: int, limit: int) -> list[StoredCheckpoint]:
        """Return checkpoints, newest first."""
        by.require(Permission.AUDIT)
        return tx[Checkpoints].before(before, limit=limit)

    def inclusion(
        self, tx: Transaction, subject_id: str, *, by: Principal, seq: int | None = None, number: int | None = None
    ) -> Inclusion:
        """Prove that the events of a breakpoint, rule or admin event chain, or one event, are in the log."""
        by.require(Permission.AUDIT)
        version = _version(tx, subject_id, by=by)
        checkpoint = _checkpoint(tx, number)
        leaves = [each for each in tx[Checkpoints].places(subject_id) if each.position < checkpoint.size]
        chosen = [each for each in leaves if seq in (None, each.seq)]
        if seq is not None and not chosen:
            msg = f"Event {seq} of {subject_id} is not in checkpoint {checkpoint.number}."
            raise NotFound(msg)
        included = [Included(each, _path(tx, each.position, checkpoint.size)) for each in chosen]
        return Inclusion(checkpoint, included, version - len(leaves))

    def consistency(self, tx: Transaction, first: int, second: int | None, *, by: Principal) -> Consistency:
        """Prove that the log was append-only between two checkpoints."""
        by.require(Permission.AUDIT)
        one, other = _checkpoint(tx, first), _checkpoint(tx, second)
        if one.size > other.size:
            raise InvalidRequest.at("from", "must not be later than the other checkpoint")
        try:
            path = merkle.consistency(tx[Checkpoints].kept, one.size, other.size)
        except LookupError as error:
            raise _not_whole() from error
        return Consistency(one, other, path)

    def _keys(self, tx: Transaction) -> list[CheckpointKey]:
        found = tx[Checkpoints].every_key()
        if not found:
            self._add(tx, version=1, by=MAKER, origin=self._origin())
            found = tx[Checkpoints].every_key()
        if not found or found[0].retired_at is not None:
            msg = "The checkpoint keys in the database are incomplete. Rotate them: assent audit rotate-key."
            raise Unavailable(msg)
        return found

    def _origin(self) -> str:
        return f"assent.log/{self._random(ORIGIN_BYTES).hex()}"

    def _add(self, tx: Transaction, *, version: int, by: Actor, origin: str) -> None:
        seed = self._random(KEY_BYTES)
        sealed = self._keyring.seal(spelt(seed), DEFAULT_PROJECT, SECRET, version)
        row = StoredSecret(DEFAULT_PROJECT, SECRET, version, sealed.ciphertext, sealed.key_id, tx.now(), str(by))
        if tx[Secrets].add(row):
            public = public_key(seed)
            key = CheckpointKey(version, key_id(origin, public), origin, public, row.created_at, row.created_by)
            tx[Checkpoints].add_key(key)

    def _seed(self, tx: Transaction, key: CheckpointKey) -> bytes:
        """Return the signing key, after checking that it matches the published public key."""
        rows = tx[Secrets].newest(DEFAULT_PROJECT, SECRET, limit=1)
        if rows and rows[0].version == key.version:
            seed = base64.b64decode(self._keyring.open(Sealed(rows[0].key_id, rows[0].ciphertext), *rows[0].place))
            if public_key(seed) == key.public and key_id(key.origin, key.public) == key.key_id:
                return seed
        msg = (
            "The checkpoint key in the database does not match its public key, so it cannot be used. Rotate it: "
            "assent audit rotate-key."
        )
        raise Unavailable(msg)


def _tree(tx: Transaction, last: StoredCheckpoint | None) -> merkle.Growing:
    """Return the log's current tree; raise if it does not match the last signed checkpoint."""
    if last is None:
        return merkle.Growing()
    keys = {each.key_id: each.public for each in tx[Checkpoints].every_key()}
    try:
        signed = check(last.note, keys)
        tree = merkle.grown(tx[Checkpoints].kept, last.size)
    except (BadCheckpoint, LookupError) as error:
        raise _not_whole() from error
    if (signed.size, signed.root, signed.number) != (last.size, tree.root(), last.number):
        raise _not_whole()
    return tree


def _not_whole() -> Unavailable:
    said = "The event log does not match the last signed checkpoint, so no further checkpoints will be signed."
    return Unavailable(f"{said} Run: assent audit verify")


def _checkpoint(tx: Transaction, number: int | None) -> StoredCheckpoint:
    found = tx[Checkpoints].last() if number is None else tx[Checkpoints].find(number)
    if found is None:
        msg = "No checkpoint has been signed yet." if number is None else f"Checkpoint {number} not found."
        raise NotFound(msg)
    return found


def _path(tx: Transaction, position: int, size: int) -> list[bytes]:
    try:
        return merkle.inclusion(tx[Checkpoints].kept, position, size)
    except LookupError as error:
        raise _not_whole() from error


def _version(tx: Transaction, subject_id: str, *, by: Principal) -> int:
    """Return the number of events of a breakpoint, rule or admin event chain in this project."""
    if is_admin_chain(subject_id):
        return _chain_version(tx, subject_id, by)
    project = by.project
    if subject_id.startswith("rule-"):
        return tx[Rules].get(subject_id, project=project).version
    return tx[Breakpoints].look(subject_id, project=project).version


def _chain_version(tx: Transaction, chain_id: str, by: Principal) -> int:
    seen = (by.project, INSTALLATION) if by.everywhere else (by.project,)
    version = tx[AdminLog].version(chain_id, projects=seen)
    own = chain_id in map(chain_of, seen) or not chain_id.startswith(chain_of(""))
    if version == 0 or not own:
        msg = f"Admin event chain {chain_id} not found in this project."
        raise NotFound(msg)
    return version
