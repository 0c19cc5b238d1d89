"""Manages projects' callback secrets, and re-encrypts stored secrets with a new key."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from assent.core.access import Actor, Kind, Permission, Principal
from assent.core.errors import Conflict, NotFound, Unavailable
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.kernel.keyring import Keyring, Sealed
from assent.people.store.projects import Projects
from assent.people.store.secrets import Secrets, StoredSecret

CALLBACK = "callback"
GRACE = 24 * 3600 * SECOND
BATCH = 200
START = ("", "", 0)
MAKER = Actor(Kind.SYSTEM, "secrets")
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CallbackSecret:
    """A secret for signing callbacks: `whsec_` and 32 random bytes in base64, as in Standard Webhooks."""

    value: str = field(repr=False)
    version: int
    created_at: int
    created_by: str
    valid_until: int | None = None


@dataclass(frozen=True, slots=True)
class Rotated:
    """The result of a batch; `after` is the position where the next batch starts, or None after the last batch."""

    resealed: int
    unreadable: int
    after: tuple[str, str, int] | None


class SecretService:
    def __init__(self, keyring: Keyring, random: Callable[[int], bytes]) -> None:
        self._keyring = keyring
        self._random = random

    def callback_secrets(self, tx: Transaction, project: str) -> list[CallbackSecret]:
        """Return the valid secrets, newest first: two for a day after a rotation, otherwise one.

        This creates the first secret if necessary, so it requires a write transaction.
        """
        if not tx[Secrets].newest(project, CALLBACK, limit=1):
            # If two nodes do this concurrently, the second insert waits and then does nothing, and both nodes read the
            # same secret.
            self._add(tx, project, version=1, by=MAKER)
        current, *before = tx[Secrets].newest(project, CALLBACK, limit=2)
        now = tx.now()
        still_valid = [each for each in before if each.retired_at is not None and now < each.retired_at + GRACE]
        return [self._opened(current), *self._readable(still_valid)]

    def show_callback_secrets(self, tx: Transaction, project: str, *, by: Principal) -> list[CallbackSecret]:
        _require_admin(tx, project, by)
        return self.callback_secrets(tx, project)

    def rotate_callback_secret(self, tx: Transaction, project: str, *, by: Principal) -> list[CallbackSecret]:
        """Create a new secret. The previous secret stays valid for a day; earlier secrets become invalid."""
        _require_admin(tx, project, by)
        found = tx[Secrets].newest(project, CALLBACK, limit=1)
        if found and not tx[Secrets].retire(found[0], now=tx.now()):
            msg = f"Another admin rotated the callback secret of {project} at the same time. Check the current secret."
            raise Conflict(msg)
        self._add(tx, project, version=found[0].version + 1 if found else 1, by=by.actor)
        return self.callback_secrets(tx, project)

    def rotate_key(self, tx: Transaction, *, after: tuple[str, str, int] = START) -> Rotated:
        """Re-encrypt a batch of secrets with the newest key; count and skip secrets that cannot be decrypted."""
        newest = self._keyring.newest()
        rows = tx[Secrets].under_other_keys(newest, after=after, limit=BATCH)
        resealed = unreadable = 0
        for row in rows:
            try:
                plain = self._keyring.open(Sealed(row.key_id, row.ciphertext), *row.place)
            except Unavailable:
                unreadable += 1
                continue
            sealed = self._keyring.seal(plain, *row.place)
            resealed += tx[Secrets].reseal(row, ciphertext=sealed.ciphertext, key_id=sealed.key_id)
        return Rotated(resealed, unreadable, rows[-1].place if len(rows) == BATCH else None)

    def _add(self, tx: Transaction, project: str, *, version: int, by: Actor) -> None:
        value = "whsec_" + base64.b64encode(self._random(32)).decode()
        sealed = self._keyring.seal(value, project, CALLBACK, version)
        row = StoredSecret(project, CALLBACK, version, sealed.ciphertext, sealed.key_id, tx.now(), str(by))
        tx[Secrets].add(row)

    def _opened(self, row: StoredSecret) -> CallbackSecret:
        value = self._keyring.open(Sealed(row.key_id, row.ciphertext), *row.place)
        until = None if row.retired_at is None else row.retired_at + GRACE
        return CallbackSecret(value, row.version, row.created_at, row.created_by, until)

    def _readable(self, rows: list[StoredSecret]) -> list[CallbackSecret]:
        """Omit older secrets that cannot be decrypted, so that rotation works after a key has been lost."""
        found: list[CallbackSecret] = []
        for row in rows:
            try:
                found.append(self._opened(row))
            except Unavailable:
                _log.warning("old_secret_unreadable", project=row.project, version=row.version, key_id=row.key_id)
        return found


def _require_admin(tx: Transaction, project: str, by: Principal) -> None:
    by.require(Permission.MANAGE)
    tx.acting(by)
    if project != by.project and not by.everywhere:
        # The same error, whether or not the project exists.
        msg = f"Project {project} not found."
        raise NotFound(msg)
    tx[Projects].get(project)
