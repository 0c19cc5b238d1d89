"""Links channel accounts to people: an admin sets the link, or the person confirms one that the channel sent."""

from collections.abc import Callable
from dataclasses import dataclass

from assent.core.access import Kind, Permission, Principal
from assent.core.errors import Forbidden, InvalidRequest, NotFound
from assent.core.secrets import secret, secret_hash, well_formed
from assent.core.timestamps import SECOND
from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.links import Link, Links, Offer
from assent.delivery.usecases.channels import ChannelService
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService, mark_reset

OFFER_LIFE = 15 * 60 * SECOND
"""Short, because any signed-in person who accepts the link is linked to the account that requested it."""
LONGEST = 255


@dataclass(frozen=True, slots=True)
class Offered:
    channel: StoredChannel
    offer: Offer


class LinkService:
    def __init__(self, people: PeopleService, channels: ChannelService, random: Callable[[int], bytes]) -> None:
        self._people = people
        self._channels = channels
        self._random = random

    def of_channel(self, tx: Transaction, channel_id: str, *, by: Principal) -> list[Link]:
        by.require(Permission.MANAGE)
        tx.acting(by)
        return tx[Links].of_channel(self._channels.known(tx, channel_id, by=by).id)

    def link(self, tx: Transaction, channel_id: str, identity: str, name: str, *, by: Principal) -> Link:
        """Link a channel account to a person, unless another project manages the person's account."""
        by.require(Permission.MANAGE)
        tx.acting(by)
        channel = self._channels.known(tx, channel_id, by=by)
        person = self._people.known(tx, name, by=by)
        self._people.refuse_foreign(tx, person, by)
        _check(identity)
        # An admin who links their own account to another person could answer as that person, so this is recorded.
        mark_reset(tx, person, way="channel", by=by)
        tx[Links].link(channel.id, identity, person_id=person.id, by=str(by.actor), now=tx.now())
        return next(each for each in tx[Links].of_channel(channel.id) if each.identity == identity)

    def unlink(self, tx: Transaction, channel_id: str, identity: str, *, by: Principal) -> None:
        by.require(Permission.MANAGE)
        tx.acting(by)
        tx[Links].unlink(self._channels.known(tx, channel_id, by=by).id, identity)

    def unlink_own(self, tx: Transaction, channel_id: str, identity: str, *, by: Principal) -> None:
        """Unlink one of the caller's own accounts."""
        tx.acting(by)
        if Link(channel_id, identity, by.name, "", 0) not in map(_bare, tx[Links].of_person(by.id)):
            msg = "This account is not linked to you."
            raise NotFound(msg)
        tx[Links].unlink(channel_id, identity)

    def offer(self, tx: Transaction, channel_id: str, identity: str, *, shown_as: str) -> str:
        """Create a link for an unlinked account on the channel and return its secret; opening it changes nothing."""
        _check(identity)
        now = tx.now()
        tx[Links].forget_offers(now)
        # Only the hash is stored, so that reading the database does not reveal usable links.
        plain = secret("link", self._random(32))
        offer = Offer(channel_id, identity, shown_as[:LONGEST] or identity, now + OFFER_LIFE)
        tx[Links].offer(secret_hash(plain), offer)
        return plain

    def look(self, tx: Transaction, plain: str, *, by: Principal) -> Offered:
        """Return the account that a link would connect, without using the link."""
        found = tx[Links].find_offer(secret_hash(plain), now=tx.now()) if well_formed(plain) else None
        return self._offered(tx, found, by)

    def accept(self, tx: Transaction, plain: str, *, by: Principal) -> Offered:
        """Link the channel account that requested the link to the signed-in person."""
        tx.acting(by)
        now = tx.now()
        offered = self._offered(tx, tx[Links].take_offer(secret_hash(plain), now=now), by)
        offer = offered.offer
        tx[Links].link(offer.channel_id, offer.identity, person_id=by.id, by=str(by.actor), now=now)
        return offered

    def _offered(self, tx: Transaction, offer: Offer | None, by: Principal) -> Offered:
        if by.kind is not Kind.PERSON:
            msg = "Only people can link accounts."
            raise Forbidden(msg)
        channel = tx[Channels].find(offer.channel_id) if offer else None
        if offer is None or channel is None or channel.removed_at is not None:
            msg = "This link has expired or was already used. Request a new one through the channel."
            raise NotFound(msg)
        if not tx[People].live_roles(by.id, project=channel.project, token_id=by.token_id, now=tx.now()):
            msg = "You do not have a role in this channel's project."
            raise Forbidden(msg)
        return Offered(channel, offer)


def _bare(link: Link) -> Link:
    return Link(link.channel_id, link.identity, link.person, "", 0)


def _check(identity: str) -> None:
    if not 1 <= len(identity) <= LONGEST or not identity.isprintable():
        raise InvalidRequest.at("/identity", f"must be 1 to {LONGEST} visible characters")
