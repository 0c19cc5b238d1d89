"""Rules in a real browser: live testing, creating, disabling, removing, and “always approve”."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.people.usecases.people import PeopleService
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database
from tests.support.nodes import running_node


@pytest.fixture(scope="module")
def rosa_state(world: World, chromium: Browser) -> Any:
    """The cookies of a person who can manage rules and decide."""

    async def make() -> None:
        async with running_node(world.settings) as node:

            def use_case(tx: Transaction) -> None:
                roles = frozenset({Role.RULE_ADMIN, Role.REVIEWER})
                node.assent[PeopleService].create_person(tx, "rosa", project="default", roles=roles)

            await node.assent.database.write(use_case)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, make()).result()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(world.link("rosa"))
    page.get_by_role("button", name="Sign in as rosa").click()
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def rosa(opened: Opener, rosa_state: Any) -> Iterator[Page]:
    """A page with scripts for Rosa; errors in the console or a script fail the test."""
    page = opened(scripts=True, storage_state=rosa_state).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    assert complaints == []


def asked(world: World, gate: str, **body: Any) -> str:
    """Create a breakpoint at this gate; return its path."""
    payload = {"question": "Restart the service?", "breakpointId": gate}
    return f"/breakpoints/{world.create(title='Restart', tags=['staging'], payload=payload, **body)['id']}"


def test_a_rule_can_be_tested_created_and_removed(world: World, rosa: Page) -> None:
    asked(world, "browser.restart")
    rosa.goto(f"{world.url}/rules/new")
    pattern = rosa.get_by_label("Pattern", exact=True)
    pattern.press_sequentially("browser.restart(colour")
    alert = rosa.locator("#trial [role=alert]")
    expect(alert).to_contain_text("column")
    expect(alert.locator(".caret")).to_have_text("^")
    pattern.fill("browser.restart(tags contains 'staging')")
    expect(rosa.locator("#trial .parts")).to_contain_text("tags contains 'staging'")
    expect(rosa.locator("#backtest")).to_contain_text("The rule would have approved 1 of them")
    expect(rosa.locator("#backtest canvas")).to_be_visible()
    rosa.get_by_label("Reason").fill("Routine.")
    rosa.get_by_role("button", name="Save rule").click()
    expect(rosa.get_by_role("heading", level=1)).to_have_text("browser.restart(tags contains 'staging')")
    created = world.create(tags=["staging"], payload={"question": "?", "breakpointId": "browser.restart"})
    assert created["status"] == "released"

    rosa.get_by_role("link", name="Remove…").click()
    rosa.get_by_label("Reason").fill("Only a test.")
    rosa.get_by_role("button", name="Remove rule").click()
    expect(rosa.get_by_role("status").filter(has_text="removed")).to_be_visible()
    created = world.create(tags=["staging"], payload={"question": "?", "breakpointId": "browser.restart"})
    assert created["status"] == "waiting"


def test_always_approve_saves_a_rule_and_leaves_the_breakpoint_pending(world: World, rosa: Page) -> None:
    one = asked(world, "browser.always", agentId="ops-bot")
    rosa.goto(f"{world.url}{one}/always")
    expect(rosa.get_by_label("Pattern", exact=True)).to_have_value("browser.always(tags contains 'staging')")
    expect(rosa.get_by_text("does not approve this breakpoint")).to_be_visible()
    rosa.get_by_role("button", name="Save rule").click()
    expect(rosa.get_by_text("This breakpoint is still pending.")).to_be_visible()
    expect(rosa.get_by_role("link", name=re.compile("^Review "))).to_have_attribute("href", f"{one}#decide")
    payload = {"question": "?", "breakpointId": "browser.always"}
    assert world.create(agentId="ops-bot", tags=["staging"], payload=payload)["status"] == "released"


def test_rules_can_be_managed_without_scripts(world: World, opened: Opener, rosa_state: Any) -> None:
    asked(world, "browser.plain")
    page = opened(storage_state=rosa_state).new_page()
    page.goto(f"{world.url}/rules/test")
    page.get_by_label("Pattern", exact=True).fill("browser.plain")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#backtest")).to_contain_text("match")
    page.get_by_text("By day as a table").click()
    expect(page.locator("#backtest table").last).to_be_visible()
    page.get_by_role("link", name="Create a rule with this pattern").click()
    page.get_by_label("Reason").fill("Without scripts.")
    page.get_by_role("button", name="Save rule").click()
    expect(page.get_by_text("Without scripts.")).to_be_visible()
    page.get_by_label("Reason for disabling the rule").fill("Enough.")
    page.get_by_role("button", name="Disable rule").click()
    expect(page.locator(".state.rule-disabled")).to_be_visible()


@on_one_database
def test_pages_pass_axe_and_do_not_scroll_sideways(world: World, opened: Opener, rosa_state: Any) -> None:
    long = "averylongwordwithoutanyplacetobreakit" * 4
    one = asked(world, f"browser.{long}", agentId=long)
    pattern = f"browser.*(tags contains 'staging' AND title != '{long}')"
    paths = ("/rules", "/rules/new", f"/rules/test?pattern={pattern}", "/rules/test?pattern=a(b", "/rules/import")
    page = opened(scripts=True, storage_state=rosa_state).new_page()
    for path in (*paths, f"{one}/always"):
        page.goto(world.url + path)
        assert_accessible(page, path)
    page.goto(f"{world.url}/rules")
    if page.locator("td.main a").count():
        page.locator("td.main a").first.click()
        assert_accessible(page, "a rule")
