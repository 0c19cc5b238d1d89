"""Browser sessions and one-time links; only hashes of their secrets are stored."""

from dataclasses import dataclass

from assent.db.sql import insert
from assent.db.transaction import Store

INSERT = insert(
    "assent_sessions", ("id_hash", "person_id", "csrf", "created_at", "seen_at", "expires_at", "must_set_password")
)
SELECT = """
    SELECT s.id_hash, s.person_id, p.name, s.csrf, s.created_at, s.seen_at, s.expires_at, s.project_id,
           s.must_set_password, p.theme, p.time_zone
    FROM assent_sessions s JOIN assent_people p ON p.id = s.person_id
    WHERE s.id_hash = :id_hash AND s.expires_at > :now AND p.active = 1"""
SELECT_OF = """
    SELECT s.id_hash, s.person_id, '', '', s.created_at, s.seen_at, s.expires_at, s.project_id
    FROM assent_sessions s WHERE s.person_id = :person_id AND s.expires_at > :now
    ORDER BY s.created_at DESC, s.id_hash LIMIT :limit"""
CHOOSE = "UPDATE assent_sessions SET project_id = :project_id WHERE id_hash = :id_hash AND person_id = :person_id"
INSERT_LINK = insert("assent_sign_in_links", ("secret_hash", "person_id", "purpose", "expires_at", "used_at"))
# A single UPDATE, so that only one of two concurrent requests can use a link.
USE_LINK = """
    UPDATE assent_sign_in_links SET used_at = :now
    WHERE secret_hash = :secret_hash AND used_at IS NULL AND expires_at > :now"""
VOID_LINKS = "UPDATE assent_sign_in_links SET used_at = :now WHERE person_id = :person_id AND used_at IS NULL"


@dataclass(frozen=True, slots=True)
class BrowserSession:
    id_hash: str
    person_id: str
    person: str
    csrf: str
    created_at: int
    seen_at: int
    expires_at: int
    project: str | None = None
    must_set_password: bool = False
    theme: str | None = None
    time_zone: str | None = None


class Sessions(Store):
    def add(self, new: BrowserSession) -> None:
        row = {
            "id_hash": new.id_hash,
            "person_id": new.person_id,
            "csrf": new.csrf,
            "created_at": new.created_at,
            "seen_at": new.seen_at,
            "expires_at": new.expires_at,
            "must_set_password": int(new.must_set_password),
        }
        self._session.write(INSERT, [row])

    def find(self, id_hash: str, *, now: int) -> BrowserSession | None:
        rows = self._session.all(SELECT, {"id_hash": id_hash, "now": now})
        return BrowserSession(*rows[0]) if rows else None

    def of(self, person_id: str, *, now: int, limit: int) -> list[BrowserSession]:
        """Return a person's active sessions, newest first, without their CSRF tokens."""
        params = {"person_id": person_id, "now": now, "limit": limit}
        return [BrowserSession(*row) for row in self._session.all(SELECT_OF, params)]

    def choose(self, id_hash: str, person_id: str, project: str) -> None:
        """Set the session's current project."""
        self._session.change(CHOOSE, {"id_hash": id_hash, "person_id": person_id, "project_id": project})

    def remove(self, id_hash: str) -> None:
        self._session.change("DELETE FROM assent_sessions WHERE id_hash = :id_hash", {"id_hash": id_hash})

    def remove_all(self, person_id: str) -> None:
        self._session.change("DELETE FROM assent_sessions WHERE person_id = :person_id", {"person_id": person_id})

    def add_link(self, secret_hash: str, person_id: str, *, purpose: str, expires_at: int) -> None:
        row = {
            "secret_hash": secret_hash,
            "person_id": person_id,
            "purpose": purpose,
            "expires_at": expires_at,
            "used_at": None,
        }
        self._session.write(INSERT_LINK, [row])

    def link_holder(self, secret_hash: str, *, now: int) -> str | None:
        statement = """
            SELECT person_id FROM assent_sign_in_links
            WHERE secret_hash = :secret_hash AND used_at IS NULL AND expires_at > :now"""
        rows = self._session.all(statement, {"secret_hash": secret_hash, "now": now})
        return rows[0][0] if rows else None

    def use_link(self, secret_hash: str, *, now: int) -> tuple[str, str] | None:
        """Use a link, and return its person and purpose, or None if the link is used, expired or unknown."""
        if self._session.change(USE_LINK, {"secret_hash": secret_hash, "now": now}) != 1:
            return None
        statement = "SELECT person_id, purpose FROM assent_sign_in_links WHERE secret_hash = :secret_hash"
        person_id, purpose = self._session.all(statement, {"secret_hash": secret_hash})[0]
        return person_id, purpose

    def void_links(self, person_id: str, *, now: int) -> None:
        """Invalidate all unused links of a person."""
        self._session.change(VOID_LINKS, {"person_id": person_id, "now": now})
