"""People's notification preferences."""

import contextlib
from collections.abc import Mapping, Sequence

import msgspec

from assent.core.errors import InvalidRequest
from assent.db.sql import among, insert, to_json
from assent.db.transaction import Store, Transaction
from assent.people.preferences import Preferences, read, written
from assent.platform.admin_events import INSTALLATION
from assent.platform.admin_log import AdminLog

UPSERT = insert(
    "assent_preferences",
    ("person_id", "content", "updated_at"),
    suffix="ON CONFLICT (person_id) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at",
)


class PreferenceStore(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def of(self, person_ids: Sequence[str]) -> Mapping[str, Preferences]:
        """Return the stored preferences by person ID; omit preferences that cannot be read."""
        test, params = among("person_id", person_ids, self._session.dialect)
        rows = self._session.all(f"SELECT person_id, content FROM assent_preferences WHERE {test}", params)
        found: dict[str, Preferences] = {}
        for person_id, content in rows:
            with contextlib.suppress(InvalidRequest, msgspec.MsgspecError):
                found[person_id] = read(msgspec.json.decode(content))
        return found

    def put(self, person_id: str, preferences: Preferences, *, now: int) -> None:
        row = {"person_id": person_id, "content": to_json(written(preferences)), "updated_at": now}
        act = "preferences-changed"
        with self._log.changes("notification-preferences", person_id, project=INSTALLATION, act=act):
            self._session.write(UPSERT, [row])
