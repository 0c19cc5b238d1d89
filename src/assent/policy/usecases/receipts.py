"""Receipts: issued for approvals, signed with the project's key, and consumed at most once."""

import base64
from collections.abc import Callable, Sequence

from assent.audit.store.retention import Holds
from assent.breakpoints.store.breakpoints import Breakpoints
from assent.breakpoints.store.idempotency import Idempotency
from assent.breakpoints.usecases.lifecycle import Once, sees
from assent.core.access import Actor, Kind, Permission, Principal, is_anything
from assent.core.breakpoint import Breakpoint
from assent.core.errors import Conflict, Forbidden, NoReceipt, NotFound, ReceiptMismatch, Unavailable
from assent.core.patterns.globs import glob_matches
from assent.core.receipts import (
    KEY_BYTES,
    Approval,
    Receipt,
    Use,
    already_used,
    approval_of,
    check,
    check_time,
    key_id,
    public_key,
    sign,
    spelt,
)
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.keyring import Keyring, Sealed
from assent.people.store.secrets import Secrets, StoredSecret
from assent.platform.epochs import Epochs
from assent.policy.store.receipts import Receipts, StoredKey

SECRET = "receipt"  # noqa: S105  # the name of the stored secret
MAKER = Actor(Kind.SYSTEM, "receipts")


class ReceiptService:
    def __init__(self, keyring: Keyring, random: Callable[[int], bytes], *, good_for: int) -> None:
        """Create the service; a receipt is valid for `good_for` seconds after the decision."""
        self._keyring = keyring
        self._random = random
        self._good_for = good_for * SECOND

    def issue(self, tx: Transaction, breakpoint_id: str, *, by: Principal) -> Receipt:
        """Return a signed receipt for an approval, creating the project's first key if necessary."""
        by.require(Permission.READ)
        current = tx[Breakpoints].look(breakpoint_id, project=by.project)
        if not sees(by, current.created_by_id):
            msg = f"Breakpoint {breakpoint_id} not found in this project."
            raise NotFound(msg)
        approval, now = _approval(tx, breakpoint_id, project=by.project), tx.now()
        key = self._keys(tx, by.project)[0]
        receipt = Receipt(
            approval=approval,
            issued_at=max(now, approval.decided_at),
            expires_at=approval.decided_at + self._good_for,
            key_id=key.key_id,
            used=tx[Receipts].find_use(breakpoint_id),
        )
        check_time(receipt, now)
        return sign(receipt, self._seed(tx, key))

    def consume(self, tx: Transaction, receipt: Receipt, *, by: Principal, once: Once | None = None) -> Use:
        """Consume a receipt once, as the agent that created the breakpoint or as its named consumer."""
        by.require(Permission.CREATE)
        tx.acting(by)
        told, now = receipt.approval, tx.now()
        # A retried request gets the same response, even if the receipt has expired in the meantime.
        if once is not None and tx[Idempotency].find(by.id, once.key, fingerprint=once.fingerprint):
            return _used(tx, told)
        check(receipt, trusted(tx[Receipts].keys(by.project)), now=now, project=by.project)
        # A token that is limited to other gates cannot use the receipt.
        by.require_speaks_for(None, told.gate)
        # A valid signature is not sufficient, because the breakpoint may have been purged or restored since then.
        if _approval(tx, told.breakpoint_id, project=by.project) != told:
            msg = f"This receipt does not match breakpoint {told.breakpoint_id}."
            raise ReceiptMismatch(msg)
        if not may_consume(by, tx[Breakpoints].look(told.breakpoint_id, project=by.project)):
            msg = "Only the agent that created the breakpoint, or the consumer named at creation, can use this receipt."
            raise Forbidden(msg)
        # Another request with the same idempotency key may have been committed since the first check.
        if once is not None and tx[Idempotency].claim(
            by.id, once.key, fingerprint=once.fingerprint, breakpoint_id=told.breakpoint_id, now=now
        ):
            return _used(tx, told)
        use = Use(now, str(by.actor))
        if not tx[Receipts].use(told, use, key_id=receipt.key_id):
            raise already_used(told, _used(tx, told))
        return use

    def keys(self, tx: Transaction, *, by: Principal) -> list[StoredKey]:
        """Return the project's public keys, newest first. Use a write transaction, because this may create a key."""
        by.require(Permission.READ)
        return self._keys(tx, by.project)

    def rotate(self, tx: Transaction, *, by: Principal, revoke: bool = False) -> list[StoredKey]:
        """Start signing with a new key; with `revoke`, receipts signed with older keys become invalid."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        found = tx[Secrets].newest(by.project, SECRET, limit=1)
        now = tx.now()
        if found and not tx[Secrets].retire(found[0], now=now):
            msg = f"Another admin rotated the receipt key of {by.project} at the same time. Check the current key."
            raise Conflict(msg)
        tx[Receipts].retire(by.project, now=now)
        if revoke:
            tx[Receipts].revoke_retired(by.project, now=now)
        self._add(tx, by.project, version=found[0].version + 1 if found else 1, by=by.actor)
        return self._keys(tx, by.project)

    def _keys(self, tx: Transaction, project: str) -> list[StoredKey]:
        if not tx[Receipts].keys(project):
            # If two nodes do this concurrently, the second insert waits and does nothing; both nodes read the same key.
            self._add(tx, project, version=1, by=MAKER)
        found = tx[Receipts].keys(project)
        if not found or found[0].state != "current":
            msg = "The receipt keys in the database are incomplete. Rotate them: assent receipt rotate-key."
            raise Unavailable(msg)
        return found

    def _add(self, tx: Transaction, project: str, *, version: int, by: Actor) -> None:
        seed = self._random(KEY_BYTES)
        sealed = self._keyring.seal(spelt(seed), project, SECRET, version)
        row = StoredSecret(project, SECRET, version, sealed.ciphertext, sealed.key_id, tx.now(), str(by))
        # False if another node created the key first.
        if tx[Secrets].add(row):
            public = public_key(seed)
            tx[Receipts].add_key(StoredKey(project, version, key_id(public), public, row.created_at, row.created_by))

    def _seed(self, tx: Transaction, key: StoredKey) -> bytes:
        """Return the signing key after verifying that it matches the published public key."""
        rows = tx[Secrets].newest(key.project, SECRET, limit=1)
        if rows and rows[0].version == key.version:
            seed = base64.b64decode(self._keyring.open(Sealed(rows[0].key_id, rows[0].ciphertext), *rows[0].place))
            if public_key(seed) == key.public:
                return seed
        msg = (
            "The receipt key in the database does not match its public key, so it cannot be used. Rotate it: assent "
            "receipt rotate-key."
        )
        raise Unavailable(msg)


def may_consume(by: Principal, asked: Breakpoint) -> bool:
    """Return whether a principal created the breakpoint or has a token for only the creator's or consumer's agentId."""
    if asked.created_by_id == by.id:
        return True
    if by.kind is not Kind.AGENT or is_anything(by.agent_ids):
        # A token that may claim any agentId does not prove which agent is using it.
        return False
    consumer = asked.payload.get("consumer")
    wanted = [asked.agent_id, *([consumer] if isinstance(consumer, str) else [])]
    return any(_covers(bound, name) for bound in by.agent_ids for name in wanted)


def _covers(bound: str, name: str) -> bool:
    """Return whether a token's agentId pattern matches a name or, if the name is a pattern, is at least as narrow."""
    return glob_matches(name, bound) or ("*" not in name and glob_matches(bound, name))


def trusted(keys: Sequence[StoredKey]) -> dict[str, bytes]:
    return {each.key_id: each.public for each in keys if each.state != "revoked"}


def _approval(tx: Transaction, breakpoint_id: str, *, project: str) -> Approval:
    current = tx[Breakpoints].look(breakpoint_id, project=project)
    if current.ended_at is not None and current.ended_at <= tx[Epochs].last():
        msg = (
            f"{breakpoint_id} was decided before a backup was restored, so its receipt is void. Create a new "
            "breakpoint."
        )
        raise NoReceipt(msg)
    purged = tx[Holds].purged_at(breakpoint_id, project=project) is not None
    return approval_of(current, tx[Breakpoints].responses(breakpoint_id) if current.votes else (), purged=purged)


def _used(tx: Transaction, approval: Approval) -> Use:
    use = tx[Receipts].find_use(approval.breakpoint_id)
    if use is None:
        msg = f"{approval.breakpoint_id} was changed at the same time, so its receipt is no longer valid."
        raise NoReceipt(msg)
    return use
