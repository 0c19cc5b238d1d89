"""Channels, routes, deliveries and linked accounts in a real browser."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Page, expect

from assent.db.transaction import Transaction
from assent.delivery.channels.registry import KINDS
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.usecases.links import LinkService
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database
from tests.support.nodes import Node, running_node

LONG = "averylongwordwithoutanyplacetobreakit" * 6
Made = TypeVar("Made")


@pytest.fixture
def root(opened: Opener, states: dict[str, Any]) -> Page:
    """A page without scripts for a person who has every role."""
    return opened(storage_state=states["root"]).new_page()


def run_on_node(world: World, work: Callable[[Node], Awaitable[Made]]) -> Made:
    """Run `work` on the server's data from a second node.

    It runs in another thread because Playwright's event loop occupies this one.
    """

    async def run() -> Made:
        async with running_node(world.settings) as node:
            return await work(node)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, run()).result()


def set_up(root: Page, world: World, name: str) -> None:
    root.goto(f"{world.url}/admin/channels")
    root.get_by_role("link", name="Email", exact=True).click()
    root.get_by_label("Name", exact=True).fill(name)
    root.get_by_label("Mail server", exact=True).fill("mail.invalid")
    root.get_by_label("Sender", exact=True).fill("Assent <assent@example.org>")
    root.get_by_role("button", name="Create channel").click()
    expect(root.locator(".notice")).to_contain_text("Created.")


def write(root: Page, world: World, channel: str, pattern: str) -> None:
    root.goto(f"{world.url}/admin/routes/new")
    root.get_by_label("Pattern").fill(pattern)
    root.get_by_label("Channels", exact=True).fill(channel)
    root.get_by_label("Recipients", exact=True).fill("person:ann")
    root.get_by_label("Remind after (optional)").fill("30m")
    root.get_by_role("button", name="Create route").click()
    expect(root.locator(".notice")).to_contain_text("Created.")


def remove(root: Page, world: World, channel: str) -> None:
    """Remove the channel and its route, so that they do not notify about breakpoints in other tests."""
    root.goto(f"{world.url}/admin/routes")
    root.locator("tr", has_text=channel).get_by_role("link").first.click()
    root.get_by_role("link", name="Remove…").click()
    root.get_by_role("button", name="Remove route").click()
    root.goto(f"{world.url}/admin/channels")
    root.get_by_role("link", name=channel).click()
    root.get_by_role("link", name="Remove…").click()
    root.get_by_role("button", name="Remove channel").click()
    expect(root.locator(".notice")).to_contain_text("Removed.")


def test_a_new_channel_receives_notifications_through_a_route(world: World, root: Page) -> None:
    set_up(root, world, "letters")
    root.get_by_role("button", name="Check settings").click()
    expect(root.get_by_role("alert")).to_contain_text("Test failed.")
    expect(root.locator(".state").first).to_have_text("failing")
    write(root, world, "letters", "delegated.*")
    root.get_by_label("Gate", exact=True).fill("delegated.web")
    root.get_by_role("button", name="Test").click()
    expect(root.locator(".forecast")).to_contain_text("ann on letters is notified")
    created = world.create(title="Told by letter", payload={"question": "Well?", "breakpointId": "delegated.web"})
    root.goto(f"{world.url}/deliveries?breakpoint={created['id']}")
    while not root.get_by_role("link", name="Told by letter").count():
        root.reload()
    root.get_by_role("link", name="Told by letter").click()
    expect(root.get_by_role("heading", level=1)).to_have_text("Told by letter")
    expect(root.locator("dl.facts")).to_contain_text("letters")
    root.get_by_role("link", name="Told by letter").click()
    expect(root.locator("#told-title")).to_have_text("Notifications")
    expect(root.locator("#live")).to_contain_text("ann on letters")
    remove(root, world, "letters")


def test_a_channel_identity_can_be_linked_to_an_account(world: World, opened: Opener, states: dict[str, Any]) -> None:
    offered = run_on_node(world, _offer_link)
    stranger = opened().new_page()
    stranger.goto(world.url + offered)
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Sign in")
    ann = opened(storage_state=states["ann"]).new_page()
    ann.goto(world.url + offered)
    ann.reload()
    expect(ann.get_by_role("heading", level=1)).to_have_text("Link this account?")
    ann.get_by_role("button", name="Link account").click()
    expect(ann.locator("#links")).to_contain_text("T9:U9 on offering")
    ann.goto(world.url + offered)
    expect(ann.get_by_role("heading", level=1)).to_have_text("This link no longer works")
    ann.goto(f"{world.url}/account")
    ann.get_by_role("button", name="Unlink T9:U9 on offering").click()
    expect(ann.locator("#links")).not_to_contain_text("T9:U9")


async def _offer_link(node: Node) -> str:
    def use_case(tx: Transaction) -> str:
        found = tx[Channels].by_name("default", "offering")
        if found is None:
            settings = {"token": "env:NOT_SET"}
            found = StoredChannel(
                id=tx.new_id("ch"), project="default", name="offering", type="slack", settings=settings
            )
            tx[Channels].add(found)
        return f"/link/{node.assent[LinkService].offer(tx, found.id, 'T9:U9', shown_as='Ann ' + LONG)}"

    return await node.assent.database.write(use_case)


@on_one_database
def test_pages_pass_axe_and_do_not_scroll_sideways(
    world: World, opened: Opener, root: Page, states: dict[str, Any]
) -> None:
    name = "seen"
    set_up(root, world, name)
    channel = root.url.partition("?")[0].removeprefix(world.url)
    write(root, world, name, f"looked.at.{LONG}"[:200])
    created = world.create(
        title=LONG, payload={"question": "?", "breakpointId": "x"}, callbackUrl="https://x.invalid/a"
    )
    paths = [
        "/deliveries", f"/deliveries?breakpoint={created['id']}", "/deliveries?state=dead&channel=callback",
        "/admin/channels", channel, f"{channel}/remove", "/admin/routes", "/admin/routes/new",
        f"/admin/routes/try?gate=looked.at.{LONG}"[:200], "/account", run_on_node(world, _offer_link),
        *(f"/admin/channels/new?type={kind}" for kind in sorted(KINDS)),
    ]  # fmt: skip
    page = opened(scripts=True, storage_state=states["root"]).new_page()
    page.goto(f"{world.url}/deliveries?breakpoint={created['id']}")
    paths.append(page.locator("td.main a").first.get_attribute("href") or "")
    page.goto(f"{world.url}/admin/routes")
    paths.append(page.locator("td code").first.locator("..").get_attribute("href") or "")
    for path in paths:
        page.goto(world.url + path)
        assert_accessible(page, path)
    remove(root, world, name)
