"""Preferences in a real browser (theme and time zone), copy buttons and name fields."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, World, on_one_database

pytestmark = on_one_database
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(23, 23, 26)"


@pytest.fixture
def root(desk: Desk, world: World) -> Iterator[Page]:
    """A person in New York with a light system theme; the preferences are reset after the test."""
    page = desk("root", timezone_id="America/New_York", color_scheme="light")
    page.goto(f"{world.url}/account")
    yield page
    choose(page, world, theme="System", zone="")


def choose(page: Page, world: World, *, theme: str, zone: str) -> None:
    page.goto(f"{world.url}/account")
    page.get_by_role("radio", name=theme, exact=True).check()
    page.locator("#timeZone").fill(zone)
    page.get_by_role("button", name="Save display preferences").click()
    page.get_by_text("Display preferences saved.").wait_for()


def test_the_chosen_theme_overrides_the_system_theme(root: Page, world: World) -> None:
    assert root.evaluate(BACKGROUND) == LIGHT
    choose(root, world, theme="Dark", zone="")
    root.goto(world.url)
    assert root.evaluate(BACKGROUND) == DARK
    choose(root, world, theme="Light", zone="")
    root.emulate_media(color_scheme="dark")
    root.goto(world.url)
    assert root.evaluate(BACKGROUND) == LIGHT
    choose(root, world, theme="System", zone="")
    assert root.evaluate(BACKGROUND) == DARK


def test_times_use_the_browsers_time_zone_unless_the_account_has_one(root: Page, world: World) -> None:
    root.goto(f"{world.url}/breakpoints/{world.create()['id']}")
    exact, age = root.locator("time[data-shows=exact]").first, root.locator(".lead .from time")
    new_york = re.compile(r"E[SD]T$")
    expect(exact).to_have_text(new_york)
    expect(age).to_have_attribute("title", new_york)
    here = root.url
    choose(root, world, theme="System", zone="Asia/Tokyo")
    root.goto(here)
    root.locator(".scripted").wait_for()
    tokyo = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d JST$")
    expect(exact).to_have_text(tokyo)
    expect(age).to_have_attribute("title", tokyo)


def test_a_copy_button_copies_the_displayed_text_and_announces_it(desk: Desk, world: World) -> None:
    page = desk("ann", permissions=["clipboard-read", "clipboard-write"])
    created = world.create()["id"]
    page.goto(f"{world.url}/breakpoints/{created}")
    page.get_by_role("button", name="Copy breakpoint ID").click()
    expect(page.locator("#announced")).to_have_text("Copied breakpoint ID.")
    assert page.evaluate("navigator.clipboard.readText()") == created
    page.get_by_role("button", name="Copy content hash").click()
    expect(page.locator("#announced")).to_have_text("Copied content hash.")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".digest").text_content()


def test_a_copy_button_works_without_the_clipboard_api(desk: Desk, world: World) -> None:
    page = desk("ann")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"{world.url}/breakpoints/{world.create()['id']}")
    page.evaluate("addEventListener('copy', () => { window.taken = String(getSelection()); })")
    page.get_by_role("button", name="Copy breakpoint ID").click()
    expect(page.locator("#announced")).to_have_text("Copied breakpoint ID.")
    assert page.evaluate("window.taken") == page.locator(".copyable code").first.text_content()


def test_copy_buttons_are_hidden_without_scripts(ann: Page, world: World) -> None:
    ann.goto(f"{world.url}/breakpoints/{world.create()['id']}")
    assert ann.locator("[data-copy]").count() > 2
    assert ann.locator("[data-copy]:visible").count() == 0


def test_a_suggested_member_is_added_to_the_list_immediately(desk: Desk, world: World) -> None:
    page = desk("root")
    page.goto(f"{world.url}/admin/groups")
    members, add = page.get_by_label("Members"), page.get_by_label("Add a member (optional)")
    members.fill("ann")
    add.fill("bea")
    add.press("Tab")
    expect(members).to_have_value("ann\nbea")
    expect(add).to_have_value("")
    expect(page.locator("#announced")).to_have_text("Added bea.")
