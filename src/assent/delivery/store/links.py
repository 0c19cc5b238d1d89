"""Channel accounts that are linked to people, and offers to link accounts."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from assent.core.errors import Conflict, NotFound
from assent.db.sql import insert
from assent.db.transaction import Store, Transaction
from assent.people.store.people import COLUMNS as PERSON_COLUMNS
from assent.people.store.people import Person, person_of
from assent.platform.admin_log import AdminLog

INSERT = insert(
    "assent_links",
    ("channel_id", "identity", "person_id", "linked_by", "linked_at"),
    suffix="ON CONFLICT (channel_id, identity) DO NOTHING",
)
SELECT_PERSON = f"""
    SELECT {", ".join(f"p.{column}" for column in PERSON_COLUMNS)}
    FROM assent_links l JOIN assent_people p ON p.id = l.person_id
    WHERE l.channel_id = :channel_id AND l.identity = :identity AND p.active = 1"""
SELECT_IDENTITY = """
    SELECT identity FROM assent_links WHERE channel_id = :channel_id AND person_id = :person_id
    ORDER BY linked_at DESC, identity LIMIT 1"""
SELECT_LINKS = """
    SELECT l.channel_id, l.identity, p.name, l.linked_by, l.linked_at
    FROM assent_links l JOIN assent_people p ON p.id = l.person_id"""
DELETE = "DELETE FROM assent_links WHERE channel_id = :channel_id AND identity = :identity"
INSERT_OFFER = insert("assent_link_offers", ("secret_hash", "channel_id", "identity", "shown_as", "expires_at"))
SELECT_OFFER = """
    SELECT channel_id, identity, shown_as, expires_at FROM assent_link_offers
    WHERE secret_hash = :secret_hash AND expires_at > :now"""
DELETE_OFFER = "DELETE FROM assent_link_offers WHERE secret_hash = :secret_hash AND expires_at > :now"


@dataclass(frozen=True, slots=True)
class Link:
    channel_id: str
    identity: str
    person: str
    """The person's name."""
    linked_by: str
    linked_at: int


@dataclass(frozen=True, slots=True)
class Offer:
    channel_id: str
    identity: str
    shown_as: str
    expires_at: int


class Links(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._log = tx[AdminLog]

    def person_of(self, channel_id: str, identity: str) -> Person | None:
        """Return the person linked to an identity; None if it is not linked or the person has been deactivated."""
        rows = self._session.all(SELECT_PERSON, {"channel_id": channel_id, "identity": identity})
        return person_of(rows[0]) if rows else None

    def identity_of(self, channel_id: str, person_id: str) -> str | None:
        """Return a person's identity on a channel; the most recently linked one if there are several."""
        rows = self._session.all(SELECT_IDENTITY, {"channel_id": channel_id, "person_id": person_id})
        return rows[0][0] if rows else None

    def link(self, channel_id: str, identity: str, *, person_id: str, by: str, now: int) -> None:
        """Link an identity to a person; an existing link is never replaced."""
        row = {
            "channel_id": channel_id,
            "identity": identity,
            "person_id": person_id,
            "linked_by": by,
            "linked_at": now,
        }
        with self._recorded(channel_id, identity, "linked"):
            if self._session.change(INSERT, row) == 1:
                return
        # Includes deactivated people, whose account must not pass to another person.
        linked = self._session.all(SELECT_PERSON.replace(" AND p.active = 1", ""), row)
        if not linked or linked[0][0] != person_id:
            msg = f"{identity} is linked to another person. Unlink it first."
            raise Conflict(msg)

    def unlink(self, channel_id: str, identity: str) -> None:
        with self._recorded(channel_id, identity, "unlinked"):
            if self._session.change(DELETE, {"channel_id": channel_id, "identity": identity}) != 1:
                msg = f"{identity} is not linked to a person on this channel."
                raise NotFound(msg)

    @contextmanager
    def _recorded(self, channel_id: str, identity: str, verb: str) -> Generator[None, None, None]:
        rows = self._session.all("SELECT project_id FROM assent_channels WHERE id = :id", {"id": channel_id})
        project = rows[0][0] if rows else ""
        with self._log.changes("link", f"{channel_id} {identity}", project=project, act=f"account-{verb}"):
            yield

    def of_person(self, person_id: str) -> list[Link]:
        rows = self._session.all(
            f"{SELECT_LINKS} WHERE l.person_id = :person_id ORDER BY l.channel_id, l.identity", {"person_id": person_id}
        )
        return [Link(*row) for row in rows]

    def of_channel(self, channel_id: str) -> list[Link]:
        rows = self._session.all(
            f"{SELECT_LINKS} WHERE l.channel_id = :channel_id ORDER BY p.name, l.identity", {"channel_id": channel_id}
        )
        return [Link(*row) for row in rows]

    def offer(self, secret_hash: str, offer: Offer) -> None:
        row = {
            "secret_hash": secret_hash,
            "channel_id": offer.channel_id,
            "identity": offer.identity,
            "shown_as": offer.shown_as,
            "expires_at": offer.expires_at,
        }
        self._session.write(INSERT_OFFER, [row])

    def find_offer(self, secret_hash: str, *, now: int) -> Offer | None:
        rows = self._session.all(SELECT_OFFER, {"secret_hash": secret_hash, "now": now})
        return Offer(*rows[0]) if rows else None

    def take_offer(self, secret_hash: str, *, now: int) -> Offer | None:
        """Use an offer; return None if it does not exist, has expired, or has already been used."""
        found = self.find_offer(secret_hash, now=now)
        # Of two requests that find the same offer, only the one that deletes it can use it.
        if found is None or self._session.change(DELETE_OFFER, {"secret_hash": secret_hash, "now": now}) != 1:
            return None
        return found

    def forget_offers(self, before: int) -> int:
        return self._session.change("DELETE FROM assent_link_offers WHERE expires_at < :before", {"before": before})
