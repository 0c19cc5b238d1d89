"""The search field, and its suggestions with keyboard and mouse."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Desk, World, on_one_database

pytestmark = on_one_database


def typed(page: Page, world: World, text: str) -> None:
    page.goto(f"{world.url}/")
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("/")
    page.keyboard.type(text)


def suggestions(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


def test_search_matches_prefixes_cjk_text_ids_agents_and_gates(world: World, desk: Desk) -> None:
    payload = {"question": "検索環境を更新しますか？", "breakpointId": "search.rollout"}
    made = world.create(title="Reindex the shards", agentId="finder-bot", payload=payload)
    page = desk()
    for q in ("reind", "環境を", made["id"], made["id"][:-2], "finder", "rollou", "search.roll"):
        typed(page, world, q)
        page.keyboard.press("Enter")
        expect(page.locator("#rows .row .title")).to_have_text("Reindex the shards")
        expect(page.locator("#q")).to_have_value(q)


def test_suggestions_can_be_selected_with_the_keyboard(world: World, desk: Desk) -> None:
    world.create(title="First suggestion", agentId="quokka-bot", tags=["quokka"], payload={"question": "?"})
    page = desk()
    typed(page, world, "first quok")
    field, options = page.get_by_role("combobox", name="Search"), suggestions(page)
    expect(options).to_have_text(["Agent quokka-bot", "Tag quokka"])
    expect(field).to_have_attribute("aria-expanded", "true")
    assert_accessible(page, "suggestions", [1280])
    for key, chosen in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", None), ("ArrowUp", 1), ("ArrowUp", 0)):
        page.keyboard.press(key)
        expect(page.locator("[role=option][aria-selected=true]")).to_have_count(0 if chosen is None else 1)
        if chosen is not None:
            expect(options.nth(chosen)).to_have_attribute("aria-selected", "true")
            expect(field).to_have_attribute("aria-activedescendant", f"suggestion-{chosen + 1}")
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_have_value("first quok")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{world.url}/?q=first&tag=quokka")
    expect(page.locator("#rows .row .title")).to_have_text("First suggestion")


def test_suggestions_can_be_selected_with_the_mouse(world: World, desk: Desk) -> None:
    world.create(title="By mouse", payload={"question": "?", "breakpointId": "wombat.feed"})
    page = desk()
    typed(page, world, "womb")
    page.get_by_role("listbox", name="Suggestions").get_by_role("option", name="Gate wombat.feed").click()
    expect(page).to_have_url(f"{world.url}/?gate=wombat.feed")


def test_enter_searches_for_the_typed_text_unless_a_suggestion_is_selected(world: World, desk: Desk) -> None:
    world.create(title="Typed", tags=["numbat"])
    page = desk()
    typed(page, world, "numb")
    expect(suggestions(page)).to_have_text("Tag numbat")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]q=numb(&|$)"))
    expect(page.locator("#rows .row .title")).to_have_text("Typed")


def test_suggestions_close_when_the_field_loses_focus(world: World, desk: Desk) -> None:
    world.create(tags=["bilby"])
    page = desk()
    typed(page, world, "bilb")
    expect(suggestions(page)).to_have_count(1)
    page.keyboard.press("Tab")
    expect(suggestions(page)).to_have_count(0)
