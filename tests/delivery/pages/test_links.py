"""The account link page: viewing it has no effect, and confirming it links the account only once."""

import asyncio

import pytest

from assent.db.transaction import Transaction
from assent.delivery.store.channels import Channels
from assent.delivery.store.links import Links
from assent.delivery.usecases.links import LinkService
from assent.kernel.settings import Settings
from tests.delivery.usecases import delegating
from tests.support.nodes import ManualClock, Node
from tests.web.corpus import XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, signed_in, visitor

SLACK = {"token": "env:SLACK_TOKEN"}


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def offered(node: Node, identity: str = "T1:U2", shown_as: str = "Ann A. in Slack") -> tuple[str, str]:
    """Create a link offer on a channel, and return the channel's ID and the link's path."""

    def use_case(tx: Transaction) -> tuple[str, str]:
        found = tx[Channels].by_name("default", "chat")
        assert found is not None
        return found.id, node.assent[LinkService].offer(tx, found.id, identity, shown_as=shown_as)

    if not await node.assent.database.read(lambda tx: tx[Channels].every()):
        await delegating.channel(node, "chat", "slack", **SLACK)
    channel_id, secret = await node.assent.database.write(use_case)
    return channel_id, f"/link/{secret}"


async def linked(node: Node, channel_id: str, identity: str = "T1:U2") -> str | None:
    found = await node.assent.database.read(lambda tx: tx[Links].person_of(channel_id, identity))
    return found.name if found else None


async def test_viewing_a_link_has_no_effect_and_confirming_it_works_only_once(node: Node) -> None:
    browser, other = await signed_in(node, "ann"), await signed_in(node, "bea")
    channel_id, address = await offered(node)
    for _ in range(3):
        page = await browser.page(address)
    said = " ".join(page.text.split())
    assert "Ann A. in Slack on the Slack channel chat will be linked to your account, ann" in said
    assert "Continue only if you requested this link yourself" in said
    assert await linked(node, channel_id) is None
    answer = await browser.send(address, address)
    assert answer.headers["location"] == "/account?done=linked#links"
    assert await linked(node, channel_id) == "ann"
    assert "T1:U2" in (await browser.page("/account")).text
    for visiting in (browser, other):
        gone = await visiting.get(address)
        assert gone.status_code == 404
        assert "no longer works" in gone.text
        key = (await visiting.page("/account")).form("/sign-out").fields
        again = await visiting.post(address, key)
        assert again.status_code == 404
    assert await linked(node, channel_id) == "ann"


async def test_signed_out_visitors_are_redirected_to_sign_in(node: Node) -> None:
    channel_id, address = await offered(node)
    stranger = visitor(node)
    for method in ("GET", "HEAD"):
        answer = await stranger.client.request(method, address)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/sign-in?next=%2Flink%2F")
    refused = await stranger.post(address, {})
    assert refused.status_code == 303
    assert refused.headers["location"].startswith("/sign-in")
    assert await linked(node, channel_id) is None


async def test_a_form_without_a_csrf_token_or_from_another_origin_is_rejected(node: Node) -> None:
    browser = await signed_in(node, "ann")
    channel_id, address = await offered(node)
    fields = (await browser.page(address)).form(address).fields
    assert (await browser.post(address, {})).status_code == 403
    assert (await browser.post(address, fields, origin="https://evil.example")).status_code == 403
    assert await linked(node, channel_id) is None


async def test_an_expired_or_unknown_link_returns_404(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node, "ann")
    channel_id, address = await offered(node)
    form = (await browser.page(address)).form(address)
    clock.advance(16 * 60)
    for answer in (await browser.get(address), await browser.post(address, form.fields)):
        assert answer.status_code == 404
        assert "has expired or was already used" in answer.text
    for wrong in ("/link/x", f"{address}x", "/link/astl_" + "0" * 49, "/link/%00"):
        assert (await browser.get(wrong)).status_code == 404, wrong
    assert await linked(node, channel_id) is None


async def test_only_one_of_several_concurrent_confirmations_succeeds(node: Node) -> None:
    browsers = [await signed_in(node, f"p{n}") for n in range(6)]
    channel_id, address = await offered(node)
    forms = [(await each.page(address)).form(address) for each in browsers]

    async def say_yes(browser: Visitor, n: int) -> int:
        return (await browser.post(address, forms[n].fields)).status_code

    answers = await asyncio.gather(*(say_yes(each, n) for n, each in enumerate(browsers)))
    assert sorted(answers) == [303] + [404] * 5
    assert await linked(node, channel_id) == f"p{answers.index(303)}"


async def test_an_account_linked_to_one_person_cannot_be_linked_to_another(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    channel_id, first = await offered(node)
    await ann.send(first, first)
    _, second = await offered(node)
    answer = await bea.send(second, second)
    assert answer.status_code == 409
    assert await linked(node, channel_id) == "ann"


async def test_people_can_unlink_only_their_own_accounts(node: Node) -> None:
    ann, bea = await signed_in(node, "ann"), await signed_in(node, "bea")
    channel_id, address = await offered(node)
    await ann.send(address, address)
    form = (await ann.page("/account")).form("/account/unlink")
    key = (await bea.page("/account")).form("/sign-out").fields
    assert (await bea.post(form.action, form.fields | key)).status_code == 404
    assert await linked(node, channel_id) == "ann"
    answer = await ann.post(form.action, form.fields)
    assert answer.headers["location"] == "/account?done=unlinked#links"
    assert await linked(node, channel_id) is None


async def test_account_names_from_channels_are_escaped(node: Node) -> None:
    browser = await signed_in(node, "ann")
    _, address = await offered(node)
    plain = (await browser.page(address)).structure
    for n, text in enumerate(XSS[:40]):
        _, address = await offered(node, f"T1:U{n}", shown_as=text)
        answer = await browser.get(address)
        assert answer.status_code == 200
        assert Page(answer.text).structure == plain
