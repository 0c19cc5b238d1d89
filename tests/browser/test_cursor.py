"""The position of the cursor after a decision, scrolling, menus, and argument editors."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, World, on_one_database

pytestmark = on_one_database


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


def at(page: Page, world: World, path: str) -> None:
    page.goto(f"{world.url}{path}")
    expect(page.locator("#connection")).to_have_text("Live")


def approve(page: Page) -> None:
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")


def headline(page: Page) -> Any:
    return page.locator("#headline")


def test_a_decision_opens_the_next_row_instead_of_the_first(world: World, desk: Desk, tag: str) -> None:
    risky = {"question": "Deploy?", "risk": "high", "breakpointId": "deploy.prod"}
    first = world.create(title="Row 0", tags=[tag], ttlSeconds=3600, payload=risky)
    made = [world.create(title=f"Row {n}", tags=[tag], ttlSeconds=3600 + n) for n in range(1, 6)]
    page = desk()
    at(page, world, f"/breakpoints/{made[2]['id']}?tag={tag}")
    approve(page)
    expect(headline(page)).to_have_text("Row 4")
    expect(page.locator(".row.here .title")).to_have_text("Row 4")
    approve(page)
    expect(headline(page)).to_have_text("Row 5")
    expect(page.locator(".row.here .title")).to_have_text("Row 5")
    approve(page)
    # After the last row, the cursor wraps to the top, where the first key press must not act on a high-risk item.
    expect(headline(page)).to_have_text("Row 0")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("a")
    expect(headline(page)).to_be_focused()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert not [url for url in asked if f"{first['id']}/confirm" in url], "the first press only shows the item"
    page.keyboard.press("a")
    expect(page.get_by_label("Type the gate name to approve")).to_be_visible()


def test_the_open_breakpoints_row_is_scrolled_into_view(world: World, desk: Desk, tag: str) -> None:
    made = [world.create(title=f"Row {n:02}", tags=[tag], ttlSeconds=3600 + n) for n in range(40)]
    page = desk()
    at(page, world, f"/breakpoints/{made[35]['id']}?tag={tag}")
    expect(page.locator(".row", has_text="Row 35")).to_be_in_viewport()


def test_opening_a_menu_closes_any_other_and_escape_closes_the_open_menu(world: World, desk: Desk, tag: str) -> None:
    made = world.create(title="Menus", tags=[tag])
    page = desk()
    at(page, world, f"/breakpoints/{made['id']}?tag={tag}")
    opened = page.locator("#standing details[open]")
    page.locator("summary", has_text="Reassign").click()
    expect(opened).to_contain_text("Reassign to")
    page.locator("summary", has_text="Snooze").click()
    expect(opened).to_have_count(1)
    expect(opened).to_contain_text("1 hour")
    page.keyboard.press("Escape")
    expect(opened).to_have_count(0)
    expect(page.locator("summary", has_text="Snooze")).to_be_focused()


def test_on_a_phone_always_approve_is_far_from_approve(world: World, desk: Desk, tag: str) -> None:
    made = world.create(title="On the way", tags=[tag])
    page = desk("root", width=390, has_touch=True, is_mobile=True)
    page.goto(f"{world.url}/breakpoints/{made['id']}")
    always = page.get_by_role("link", name="Always approve…")
    expect(always).to_have_count(1)
    upper, lower = always.bounding_box(), page.get_by_role("button", name="Approve…").bounding_box()
    assert upper is not None
    assert lower is not None
    assert lower["y"] - (upper["y"] + upper["height"]) >= 120


def test_a_search_without_results_shows_the_number_of_pending_breakpoints(world: World, desk: Desk, tag: str) -> None:
    world.create(title="Behind the search", tags=[tag])
    page = desk()
    at(page, world, "/?q=zebra-in-the-mist")
    said = re.compile(r"No results for “zebra-in-the-mist”\. \d+ pending")
    expect(page.locator("#rows")).to_contain_text(said)
    expect(page.locator("#detail")).to_contain_text(said)
    expect(page.locator("#detail")).not_to_contain_text("All clear")


def test_argument_editors_match_the_type_of_the_value(world: World, desk: Desk, tag: str) -> None:
    arguments = {"command": "make deploy", "replicas": 3, "force": False, "hosts": ["a"]}
    payload = {"question": "Go?", "arguments": arguments, "editable": [*arguments]}
    made = world.create(tags=[tag], payload=payload)
    page = desk()
    at(page, world, f"/breakpoints/{made['id']}?tag={tag}")
    page.get_by_label("Change command").fill("make deploy-staging")
    page.get_by_label("Change replicas").fill("2")
    page.get_by_role("group", name="Change force").get_by_label("Yes").check()
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("dialog")).to_contain_text("make deploy → make deploy-staging")
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Approved")
    found = world.status(made["id"])["result"]["edits"]
    assert found == {"command": "make deploy-staging", "replicas": 2, "force": True}
