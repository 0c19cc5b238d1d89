"""The channels API: managing and testing channels, and linking accounts to people."""

from functools import partial
from typing import Annotated, Any

from fastapi import Path, Query, Response

from assent.contracts import channels as shapes
from assent.contracts.shape import given
from assent.core.access import Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.delivery.store.channels import StoredChannel
from assent.delivery.store.links import Link
from assent.delivery.usecases.channel_test import Prober
from assent.delivery.usecases.channels import ChannelService
from assent.delivery.usecases.links import LinkService
from assent.http.endpoint import Manager, PeopleReader, Sent, With, router

channels = router("channels")
ChannelId = Annotated[str, Path(pattern=r"^ch_[0-9a-z]{1,60}$")]
IdentityQuery = Annotated[shapes.Identity, Query(description="ID of the account on the channel.")]


@channels.get("/channels", response_model_exclude_none=True, summary="Lists this project's channels")
async def list_channels(who: PeopleReader, services: With) -> shapes.Channels:
    def use_case(tx: Transaction) -> list[StoredChannel]:
        return services[ChannelService].listed(tx, by=who)

    found = await services.database.read(use_case)
    view = partial(_view, who=who, service=services[ChannelService], base_url=services.settings.base_url)
    return shapes.Channels(items=[view(each) for each in found])


@channels.post("/channels", status_code=201, response_model_exclude_none=True, summary="Creates a channel")
async def create_channel(body: Sent[shapes.CreateChannel], who: Manager, services: With) -> shapes.Channel:
    def use_case(tx: Transaction) -> StoredChannel:
        return services[ChannelService].create(tx, body.name, body.type, body.settings, by=who, enabled=body.enabled)

    return _view(await services.database.write(use_case), who, services[ChannelService], services.settings.base_url)


@channels.get("/channels/{channel_id}", response_model_exclude_none=True, summary="Gets a channel")
async def show_channel(channel_id: ChannelId, who: PeopleReader, services: With) -> shapes.Channel:
    found = await services.database.read(partial(services[ChannelService].known, channel_id=channel_id, by=who))
    return _view(found, who, services[ChannelService], services.settings.base_url)


@channels.patch("/channels/{channel_id}", response_model_exclude_none=True, summary="Updates a channel")
async def change_channel(
    channel_id: ChannelId, body: Sent[shapes.ChangeChannel], who: Manager, services: With
) -> shapes.Channel:
    changes = given(body)
    for name, value in changes.items():
        if value is None:
            raise InvalidRequest.at(f"/{name}", "cannot be null")
    use_case = partial(services[ChannelService].change, channel_id=channel_id, changes=changes, by=who)
    return _view(await services.database.write(use_case), who, services[ChannelService], services.settings.base_url)


@channels.delete("/channels/{channel_id}", status_code=204, summary="Removes a channel that no route uses")
async def remove_channel(channel_id: ChannelId, who: Manager, services: With) -> Response:
    await services.database.write(partial(services[ChannelService].remove, channel_id=channel_id, by=who))
    return Response(status_code=204)


@channels.post("/channels/{channel_id}/test", summary="Checks a channel's settings and optionally sends a test message")
async def test_channel(
    channel_id: ChannelId, body: Sent[shapes.TryChannel], who: Manager, services: With
) -> shapes.ChannelTest:
    found = await services[Prober].test(channel_id, by=who, send=body.send)
    return shapes.ChannelTest(ok=found.ok, detail=found.detail, sent=found.sent)


@channels.get("/channels/{channel_id}/links", summary="Lists a channel's linked accounts")
async def list_links(channel_id: ChannelId, who: Manager, services: With) -> shapes.ChannelLinks:
    found = await services.database.read(partial(services[LinkService].of_channel, channel_id=channel_id, by=who))
    return shapes.ChannelLinks(items=[_link(each) for each in found])


@channels.put("/channels/{channel_id}/links", summary="Links an account on a channel to a person")
async def put_link(
    channel_id: ChannelId, body: Sent[shapes.LinkBody], who: Manager, services: With
) -> shapes.ChannelLink:
    def use_case(tx: Transaction) -> Link:
        return services[LinkService].link(tx, channel_id, body.identity, body.person, by=who)

    return _link(await services.database.write(use_case))


@channels.delete("/channels/{channel_id}/links", status_code=204, summary="Unlinks an account")
async def remove_link(channel_id: ChannelId, identity: IdentityQuery, who: Manager, services: With) -> Response:
    use_case = partial(services[LinkService].unlink, channel_id=channel_id, identity=identity, by=who)
    await services.database.write(use_case)
    return Response(status_code=204)


def _link(link: Link) -> shapes.ChannelLink:
    return shapes.ChannelLink.of(
        {
            "identity": link.identity,
            "person": link.person,
            "linkedBy": link.linked_by,
            "linkedAt": iso(link.linked_at),
        }
    )


def _view(stored: StoredChannel, who: Principal, service: ChannelService, base_url: str) -> shapes.Channel:
    return shapes.Channel.of(channel_body(stored, who, service, base_url))


def channel_body(stored: StoredChannel, who: Principal, service: ChannelService, base_url: str) -> dict[str, Any]:
    """Return a channel for the API; only admins see its settings, in which secrets are references."""
    manages = who.may(Permission.MANAGE)
    return {
        "id": stored.id,
        "name": stored.name,
        "type": stored.type,
        "settings": dict(stored.settings) if manages else None,
        "enabled": stored.enabled,
        "disabledBecause": stored.disabled_because,
        "problem": service.problem(stored) if manages else None,
        "source": stored.source,
        "callbackUrl": f"{base_url}/callbacks/{stored.id}",
        "createdBy": stored.created_by,
        "createdAt": iso(stored.created_at),
        "updatedAt": iso(stored.updated_at),
        "okAt": _at(stored.ok_at),
        "failedAt": _at(stored.failed_at),
        "lastError": stored.last_error if manages else None,
        "heardAt": _at(stored.heard_at),
    }


def _at(at: int | None) -> str | None:
    return None if at is None else iso(at)
