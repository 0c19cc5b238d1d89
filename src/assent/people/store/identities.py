"""People's identities at identity providers."""

from assent.core.errors import Conflict, NotFound
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.platform.admin_events import INSTALLATION
from assent.platform.admin_log import AdminLog

INSERT = insert(
    "assent_identities",
    ("issuer", "subject", "person_id", "linked_at", "linked_by"),
    suffix="ON CONFLICT (issuer, subject) DO NOTHING",
)
SELECT = "SELECT person_id FROM assent_identities WHERE issuer = :issuer AND subject = :subject"
SELECT_OF = """
    SELECT issuer, subject, linked_at, linked_by FROM assent_identities
    WHERE person_id = :person_id ORDER BY issuer, subject"""
DELETE = "DELETE FROM assent_identities WHERE issuer = :issuer AND subject = :subject AND person_id = :person_id"


class Identities(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def add(self, issuer: str, subject: str, *, person_id: str, by: str, now: int) -> None:
        """Link a subject to a person; an existing link is never replaced."""
        row = {"issuer": issuer, "subject": subject, "person_id": person_id, "linked_at": now, "linked_by": by}
        with self._log.changes("identity", f"{issuer} {subject}", project=INSTALLATION, act="identity-linked"):
            if self._session.change(INSERT, row) != 1:
                msg = "This subject is already linked to another person."
                raise Conflict(msg)

    def find(self, issuer: str, subject: str) -> str | None:
        rows = self._session.all(SELECT, {"issuer": issuer, "subject": subject})
        return rows[0][0] if rows else None

    def of(self, person_id: str) -> list[tuple[str, str, int, str]]:
        """Return the issuer, subject, link time and linking actor of each identity."""
        return [(row[0], row[1], row[2], row[3]) for row in self._session.all(SELECT_OF, {"person_id": person_id})]

    def remove(self, issuer: str, subject: str, *, person_id: str) -> None:
        with self._log.changes("identity", f"{issuer} {subject}", project=INSTALLATION, act="identity-unlinked"):
            if self._session.change(DELETE, {"issuer": issuer, "subject": subject, "person_id": person_id}) != 1:
                msg = "This subject is not linked to this person."
                raise NotFound(msg)
