"""Gates and metrics in a real browser, with charts and without scripts."""

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database


@pytest.fixture(autouse=True, scope="module")
def some(world: World) -> None:
    for gate in ("metrics.deploy", "metrics.<script>alert(1)</script>", "metrics/" + "long" * 40):
        world.create(payload={"question": "Deploy?", "breakpointId": gate})


@on_one_database
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_in_both_color_schemes(world: World, opened: Opener, ann_state: Any, scheme: str) -> None:
    page = opened(scripts=True, color_scheme=scheme, storage_state=ann_state).new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for period in ("24 hours", "7 days", "30 days"):
        page.goto(f"{world.url}/insights")
        page.get_by_role("link", name=period).click()
        expect(page.locator("figure canvas")).to_have_count(3)
        expect(page.get_by_role("link", name=period)).to_have_attribute("aria-current", "page")
    page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
    expect(page.locator("figure canvas")).to_have_count(3)
    assert complaints == []


def test_without_scripts_metrics_are_shown_in_tables(world: World, opened: Opener, ann_state: Any) -> None:
    page = opened(storage_state=ann_state).new_page()
    page.goto(f"{world.url}/insights?period=24h")
    expect(page.locator("figure canvas")).to_have_count(0)
    page.get_by_text("Pending as a table").click()
    expect(page.get_by_role("region", name="Pending as a table").locator("tbody tr")).to_have_count(24)


def test_each_gate_links_to_its_page(world: World, opened: Opener, ann_state: Any) -> None:
    page = opened(storage_state=ann_state).new_page()
    page.goto(f"{world.url}/gates")
    page.get_by_role("link", name="metrics.<script>alert(1)</script>").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("metrics.<script>alert(1)</script>")
    page.goto(f"{world.url}/gates")
    page.get_by_label("Find a gate").fill("metrics.deploy")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("metrics.deploy")


@on_one_database
@pytest.mark.parametrize("path", ["/gates", "/gates/metrics.deploy", "/insights", "/insights?period=30d"])
def test_pages_pass_axe_and_do_not_scroll_sideways(world: World, opened: Opener, ann_state: Any, path: str) -> None:
    page = opened(scripts=True, storage_state=ann_state).new_page()
    page.goto(world.url + path)
    assert_accessible(page, path)
