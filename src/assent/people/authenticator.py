"""Resolves tokens to principals, which are cached only briefly so that revocations take effect within seconds."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from assent.core.access import Kind, Principal, Role, roles
from assent.core.errors import Unauthenticated
from assent.core.secrets import secret_hash, well_formed
from assent.db.sql import Row
from assent.db.transaction import Transaction
from assent.kernel.ports import Clock, Database
from assent.people.store.people import EVERYWHERE
from assent.people.store.tokens import SELECT_PRINCIPAL, SELECT_VALID

REMEMBER_SECONDS = 1.0
"""How long another node may still accept a token after it is revoked."""
TOUCH_SECONDS = 60.0
"""The minimum time between recorded uses of a token, so that not every request causes a write."""
MAX_REMEMBERED = 50_000


class Authenticator:
    def __init__(self, database: Database[Transaction], clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[float, Principal]] = {}
        self._touched: dict[str, float] = {}
        self._used: dict[str, int] = {}

    async def principal(self, authorization: str) -> Principal:
        """Return the principal of an Authorization header, or raise Unauthenticated."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            msg = (
                "Missing bearer token. Send the header Authorization: Bearer TOKEN. Create a token with "
                "assent token create."
            )
            raise Unauthenticated(msg)
        known = self._known.get(token)
        now = time.monotonic()
        if known is not None and known[0] > now:
            # The token may have expired since it was cached.
            return self._unexpired(known[1])
        principal = await self._look_up(token)
        # Entries are valid for only a second, so dropping all of them costs little.
        if len(self._known) > MAX_REMEMBERED:
            self._known.clear()
        self._known[token] = (now + REMEMBER_SECONDS, principal)
        self._note_use(principal, now)
        return principal

    async def still_valid(self, token_id: str) -> bool:
        return bool(await self._database.fetch(SELECT_VALID, {"id": token_id, "now": self._clock.now()}))

    def forget(self) -> None:
        """Clear the cache after a permission is revoked; other nodes keep their caches for up to a second."""
        self._known.clear()

    def take_used(self) -> list[tuple[str, int]]:
        used, self._used = list(self._used.items()), {}
        return used

    async def _look_up(self, token: str) -> Principal:
        rows: Sequence[Row] = ()
        # Do not query the database for a malformed token.
        if well_formed(token):
            rows = await self._database.fetch(SELECT_PRINCIPAL, {"secret_hash": secret_hash(token)})
        if not rows:
            msg = "Invalid or revoked token. Create one with assent token create."
            raise Unauthenticated(msg)
        return self._unexpired(_principal(rows))

    def _unexpired(self, principal: Principal) -> Principal:
        if principal.expires_at is not None and principal.expires_at <= self._clock.now():
            msg = "This token has expired."
            raise Unauthenticated(msg)
        return principal

    def _note_use(self, principal: Principal, now: float) -> None:
        token_id = principal.token_id
        if token_id is not None and self._touched.get(token_id, 0.0) < now:
            self._touched[token_id] = now + TOUCH_SECONDS
            self._used[token_id] = self._clock.now()


def _principal(rows: Sequence[Row]) -> Principal:
    (token_id, project, kind, name, person_id, carried, gates, agent_ids, quota, expires_at, person, active, *_) = rows[
        0
    ]
    policy: dict[str, Any] = msgspec.json.decode(rows[0][14])
    removed = rows[0][17] is not None
    if kind != Kind.PERSON:
        return Principal(
            kind=Kind(kind),
            id=rows[0][16],
            name=name,
            project=project,
            gates=tuple(_list(gates)),
            agent_ids=tuple(_list(agent_ids)),
            processes=tuple(_list(rows[0][15])),
            creates_per_minute=quota,
            token_id=token_id,
            expires_at=expires_at,
            policy=policy,
            project_removed=removed,
        )
    if not active:
        msg = "This person's account is closed."
        raise Unauthenticated(msg)
    # The person may have lost some of these roles since the token was created.
    asked = roles(_list(carried))
    held = roles(row[13] for row in rows if row[13] is not None)
    everywhere = roles(row[13] for row in rows if row[12] == EVERYWHERE)
    return Principal(
        kind=Kind.PERSON,
        id=person_id,
        name=person,
        project=project,
        roles=asked & held,
        everywhere=Role.ADMIN in asked & everywhere,
        creates_per_minute=quota,
        token_id=token_id,
        expires_at=expires_at,
        policy=policy,
        project_removed=removed,
    )


def _list(text: str) -> list[Any]:
    return msgspec.json.decode(text, type=list[Any])
