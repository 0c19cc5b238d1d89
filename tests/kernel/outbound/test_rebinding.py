"""DNS rebinding: a name that resolves to one address when it is checked and to another when it is used.

127.0.0.1 is allowed and represents the public address; 127.0.0.2 represents the private address and has a server too.
"""

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

import pytest

from assent.kernel.outbound import Outbound, Permanent
from tests.kernel.outbound.receivers import NameServer, Receiver, name_server, receiving, says, says_then_closes

PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"
CLOSING = says_then_closes(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")


@dataclass
class Scene:
    outbound: Outbound
    names: NameServer
    public: Receiver
    private: Receiver

    async def post(self) -> int:
        url = self.public.url("rebinding.test")
        return (await self.outbound.post(url, body=b"{}", headers={})).status


@contextlib.asynccontextmanager
async def scene(script: Iterator[Sequence[str]], *, closing: bool = True) -> AsyncIterator[Scene]:
    answer = CLOSING if closing else says()
    async with (
        receiving(answer, host=PUBLIC) as public,
        receiving(answer, host=PRIVATE, port=public.port) as private,
        name_server(script) as (names, resolver),
    ):
        outbound = Outbound(allow=[ip_network(PUBLIC)], resolver=resolver)
        yield Scene(outbound, names, public, private)
        await outbound.close()


def first_public_then_private() -> Iterator[Sequence[str]]:
    return itertools.chain([[PUBLIC]], itertools.repeat([PRIVATE]))


async def test_the_connection_uses_the_checked_address() -> None:
    async with scene(first_public_then_private()) as rebinding:
        assert await rebinding.post() == 204

        assert rebinding.names.questions == 1, "the name was resolved only once"
        assert rebinding.public.connections == 1
        assert rebinding.private.connections == 0
        assert rebinding.public.heard[0].headers["host"] == f"rebinding.test:{rebinding.public.port}"


async def test_a_hostname_is_checked_again_for_each_new_connection() -> None:
    async with scene(first_public_then_private()) as rebinding:
        await rebinding.post()
        for _ in range(3):
            with pytest.raises(Permanent, match=r"rebinding\.test resolves to a loopback address"):
                await rebinding.post()

        assert rebinding.names.questions == 4
        assert rebinding.public.connections == 1
        assert rebinding.private.connections == 0


async def test_a_rejected_hostname_is_accepted_once_it_resolves_to_a_public_address() -> None:
    async with scene(iter([[PRIVATE], [PUBLIC]])) as rebinding:
        with pytest.raises(Permanent):
            await rebinding.post()
        assert await rebinding.post() == 204
        assert rebinding.private.connections == 0


async def test_a_reused_connection_keeps_the_checked_address() -> None:
    async with scene(first_public_then_private(), closing=False) as rebinding:
        assert [await rebinding.post() for _ in range(3)] == [200, 200, 200]

        assert rebinding.names.questions == 1
        assert rebinding.public.connections == 1
        assert rebinding.private.connections == 0


@pytest.mark.parametrize("mixed", [[PUBLIC, PRIVATE], [PRIVATE, PUBLIC]])
async def test_a_hostname_with_public_and_private_addresses_is_rejected(mixed: list[str]) -> None:
    async with scene(itertools.repeat(mixed)) as rebinding:
        with pytest.raises(Permanent):
            await rebinding.post()
        assert (rebinding.public.connections, rebinding.private.connections) == (0, 0)
