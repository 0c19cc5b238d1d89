"""The inbox of a project without breakpoints: a guide with working snippets, until the first request arrives live."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import DESK, PHONE, assert_accessible
from tests.browser.conftest import Opener, World, running, signed_in_state, watched

SNIPPETS = ("environment", "curl", "python", "claude", "mcp")


@pytest.fixture
def empty(postgres_url: str, tmp_path: Path) -> Iterator[World]:
    """A server without breakpoints."""
    with running("sqlite", tmp_path, postgres_url, undo_seconds=0) as found:
        yield found


@pytest.fixture
def state(empty: World, chromium: Browser) -> Any:
    return signed_in_state(empty, chromium, "root")


def snippet(page: Page, name: str) -> str:
    return page.locator(f"#snippet-{name}").text_content() or ""


def environment(world: World) -> dict[str, str]:
    return os.environ | {"ASSENT_TOKEN": world.agent}


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_the_empty_inbox_shows_the_first_request_live(empty: World, state: Any, opened: Opener, width: int) -> None:
    page = watched(opened(scripts=True, storage_state=state, width=width).new_page())
    page.goto(empty.url)
    waiting = page.get_by_text("Waiting for the first request")
    expect(waiting).to_be_in_viewport()
    expect(page.locator("#connection")).to_have_text("Live")
    made = empty.create(title="The very first")
    expect(page.locator("#first-request")).to_contain_text("The first request has arrived.")
    expect(waiting).to_have_count(0)
    expect(page.locator(".row .title")).to_have_text(["The very first"])
    expect(page).to_have_title("(1) Inbox · Assent")
    page.get_by_role("link", name="Review it").click()
    expect(page).to_have_url(f"{empty.url}/breakpoints/{made['id']}")
    page.goto(empty.url)
    expect(page.get_by_text("Connect your first agent")).to_have_count(0)


def test_every_snippet_contains_the_server_url_even_without_scripts(empty: World, state: Any, opened: Opener) -> None:
    page = opened(storage_state=state).new_page()
    page.goto(empty.url)
    for name in SNIPPETS:
        assert empty.url in snippet(page, name), name
    expect(page.locator("#snippet-mcp")).to_be_hidden()
    page.locator("summary", has_text="MCP").click()
    expect(page.locator("#snippet-mcp")).to_be_visible()
    expect(page.locator("#snippet-curl")).to_be_hidden()
    expect(page.get_by_role("link", name="Create an agent token")).to_be_visible()


def test_the_snippets_work_unmodified_and_are_copied_in_full(
    empty: World, state: Any, opened: Opener, tmp_path: Path
) -> None:
    context = opened(scripts=True, storage_state=state, permissions=["clipboard-read", "clipboard-write"])
    page = watched(context.new_page())
    page.goto(empty.url)
    page.get_by_role("button", name="Copy the curl command").click()
    expect(page.locator("#announced")).to_have_text("Copied the curl command.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == snippet(page, "curl")
    program = snippet(page, "python")
    shell = shutil.which("sh") or "/bin/sh"
    subprocess.run([shell, "-c", copied], env=environment(empty), check=True, capture_output=True)
    expect(page.locator(".row .title")).to_have_text(["Deploy version 1.4?"])
    script = tmp_path / "ask.py"
    script.write_text(program)
    asking = subprocess.Popen([sys.executable, str(script)], env=environment(empty))
    expect(page.locator(".row .title")).to_have_text(["Deploy version 1.4?"] * 2)
    asking.terminate()
    asking.wait()


def test_a_cleared_inbox_says_that_nothing_is_pending(empty: World, state: Any, opened: Opener) -> None:
    page = watched(opened(scripts=True, storage_state=state).new_page())
    made = empty.create(title="The only one")
    page.goto(f"{empty.url}/breakpoints/{made['id']}")
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#detail")).to_contain_text("All clear. Nothing is pending.")
    expect(page.locator("#rows")).to_contain_text("No pending approvals.")
    expect(page.get_by_text("Connect your first agent")).to_have_count(0)
    expect(page).to_have_title("Inbox · Assent")


def test_the_guide_passes_axe_and_does_not_scroll_sideways(empty: World, state: Any, opened: Opener) -> None:
    page = watched(opened(scripts=True, storage_state=state).new_page())
    page.goto(empty.url)
    expect(page.locator("#connection")).to_have_text("Live")
    assert_accessible(page, "the guide")
