"""Runs in a real browser, with and without scripts: starting, live updates and cancelling."""

import textwrap
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database

SHIP = """
    from assent import process

    def build(version):
        return {"image": f"app:{version}"}

    @process
    async def ship(inputs, ctx):
        "Builds, then asks."
        built = await ctx.task(build, inputs["version"])
        ctx.log("built the image", built)
        await ctx.save_file("plan.md", "# Plan")
        review = await ctx.breakpoint("Ship it?", title="Ship it now")
        return {"shipped": review.approved}
"""


@pytest.fixture
def root(world: World, opened: Opener, states: dict[str, Any]) -> Page:
    """A page with scripts for a person who has every role, and a process to run."""
    folder = world.settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ship.py").write_text(textwrap.dedent(SHIP))
    return opened(scripts=True, storage_state=states["root"]).new_page()


def start(page: Page, world: World) -> str:
    page.goto(f"{world.url}/runs")
    page.get_by_role("link", name="Start a run…").click()
    page.get_by_label("ship").check()
    page.get_by_label("Inputs").fill('{"version": ')
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("The inputs are not valid JSON")
    expect(page.get_by_label("Inputs")).to_have_value('{"version": ')
    page.get_by_label("Inputs").fill('{"version": "7"}')
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("ship")
    return page.url.rpartition("/")[2]


def test_a_run_page_updates_live_until_the_run_is_done(
    world: World, root: Page, opened: Opener, states: dict[str, Any]
) -> None:
    start(root, world)
    expect(root.get_by_text("Waiting for an answer.")).to_be_visible(timeout=60_000)
    expect(root.locator(".log")).to_contain_text("built the image")
    ann = opened(storage_state=states["ann"]).new_page()
    address = root.locator(".run-waits a").get_attribute("href")
    ann.goto(f"{world.url}{address}")
    ann.get_by_role("button", name="Approve…").click()
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(root.locator(".run-state")).to_contain_text("done", timeout=60_000)
    root.reload()
    expect(root.get_by_text('"shipped": true').first).to_be_visible()
    with root.expect_download() as download:
        root.get_by_role("link", name="plan.md").click()
    assert download.value.suggested_filename == "plan.md"


def test_cancelling_a_run_requires_confirmation(world: World, root: Page) -> None:
    run_id = start(root, world)
    expect(root.get_by_text("Waiting for an answer.")).to_be_visible(timeout=60_000)
    root.get_by_role("link", name="Cancel…").click()
    expect(root.get_by_role("heading", level=1)).to_have_text("Cancel this run?")
    expect(root.get_by_text("Its pending breakpoint is cancelled")).to_be_visible()
    root.get_by_role("button", name="Cancel run").click()
    expect(root).to_have_url(f"{world.url}/runs/{run_id}")
    expect(root.locator(".run-state")).to_contain_text("cancelled")


@on_one_database
def test_pages_pass_axe_and_do_not_scroll_sideways(
    world: World, root: Page, opened: Opener, states: dict[str, Any]
) -> None:
    run_id = start(root, world)
    expect(root.get_by_text("Waiting for an answer.")).to_be_visible(timeout=60_000)
    page = opened(scripts=True, storage_state=states["root"]).new_page()
    for path in ("/runs", "/runs?state=failed&process=x", "/runs/start", f"/runs/{run_id}", f"/runs/{run_id}/cancel"):
        page.goto(world.url + path)
        assert_accessible(page, path)
