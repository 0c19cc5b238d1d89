"""Every secret and ID on a page has a copy button."""

import re

import pytest

from assent.delivery.store.routes import Routes
from tests.delivery.pages.test_deliveries import dead
from tests.delivery.usecases import delegating
from tests.policy.pages.test_rules import write
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, signed_in


def copied(page: Page) -> set[str]:
    return {each["data-what"] for each in page.all("button") if "data-copy" in each}


async def admin(node: Node) -> Visitor:
    return await signed_in(node, "root", "admin", "reviewer")


async def test_a_breakpoint_page_has_copy_buttons_for_its_ids(node: Node) -> None:
    created = await node.create(runId="nightly-7")
    page = await (await signed_in(node)).page(f"/breakpoints/{created['id']}")
    assert copied(page) >= {"breakpoint ID", "run ID", "content hash", "the payload"}
    assert created["id"] in page.text


async def test_a_new_token_is_shown_once_with_a_copy_button(node: Node) -> None:
    root = await admin(node)
    for path, kind in (("/admin/tokens", "agent"), ("/account", "reviewer")):
        action = "/account/tokens" if path == "/account" else path
        page = Page((await root.send(path, action, name="ci", kind=kind)).text)
        assert copied(page) == {"the secret"}
        assert re.search("ast[a-z]_[0-9A-Za-z]{20}", page.text)


async def test_a_sign_in_link_has_a_copy_button(node: Node) -> None:
    root = await admin(node)
    page = Page((await root.send("/admin/people", "/admin/people", name="bea")).text)
    assert "/sign-in/" in page.text
    assert copied(page) == {"the secret"}


async def test_admin_pages_have_copy_buttons_for_their_ids(node: Node) -> None:
    root = await admin(node)
    await node.token("agent")
    delivery = await dead(node)
    channel = await delegating.channel(node, "mail", "email")
    await delegating.route(node, "mail")
    [route] = await node.assent.database.read(lambda tx: tx[Routes].in_project("default"))
    rule = await write(root, "deploy.*")
    for path, what in (
        ("/admin/tokens", "token ID"),
        (f"/admin/channels/{channel}", "channel ID"),
        (f"/admin/routes/{route.id}", "route ID"),
        (rule, "rule ID"),
        (f"/deliveries/{delivery}", "delivery ID"),
    ):
        page = await root.page(path)
        assert what in copied(page), path


@pytest.mark.parametrize("path", ["/", "/rules", "/account"])
async def test_every_page_has_a_live_region_for_copy_announcements(node: Node, path: str) -> None:
    page = await (await signed_in(node)).page(path)
    assert [each["aria-live"] for each in page.all("p") if each.get("id") == "announced"] == ["polite"]
