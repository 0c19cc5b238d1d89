"""Reviewing end to end: a person in a browser without scripts, and a waiting agent."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opener, World

Background = Callable[..., "Future[dict[str, Any]]"]


def test_a_waiting_agent_receives_an_invited_reviewers_approval(
    world: World, opened: Opener, background: Background
) -> None:
    created = world.create(title="Ship build 4812", payload={"question": "Is it ready?", "context": {"files": [
        {"path": "plan.md", "format": "markdown", "content": "# The plan"},
    ]}})  # fmt: skip
    waiting = background(world.wait_for, created["id"])
    page = opened().new_page()

    page.goto(world.link("bea"))
    page.get_by_role("button", name="Sign in as bea").click()
    expect(page).to_have_url(f"{world.url}/")
    page.get_by_role("link", name="Ship build 4812").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Ship build 4812")
    expect(page.get_by_role("heading", name="The plan", level=3)).to_be_visible()
    page.get_by_label("Comment", exact=True).fill("Go ahead.")
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Approve this?")
    expect(page.get_by_text(created["digest"])).to_be_visible()
    assert not waiting.done(), "nothing is decided before it is confirmed"
    page.get_by_role("button", name="Approve", exact=True).click()

    expect(page.get_by_role("status")).to_contain_text("Approved")
    seen = waiting.result(30)
    assert (seen["decision"], seen["result"]["respondedBy"], seen["result"]["via"]) == ("approved", "bea", "web")
    assert seen["result"]["feedback"] == "Go ahead."


def test_a_rejection_requires_a_reason_that_the_agent_receives(world: World, ann: Page, background: Background) -> None:
    created = world.create()
    waiting = background(world.wait_for, created["id"])
    ann.goto(f"{world.url}/breakpoints/{created['id']}")
    ann.get_by_role("button", name="Reject…").click()
    expect(ann.get_by_role("alert")).to_contain_text("is required when rejecting")
    ann.get_by_label("Comment", exact=True).fill("Not on a Friday.")
    ann.get_by_role("button", name="Reject…").click()
    expect(ann.get_by_role("heading", level=1)).to_have_text("Reject this?")
    ann.get_by_role("button", name="Reject", exact=True).click()
    expect(ann.get_by_role("status")).to_contain_text("Rejected")
    result = waiting.result(30)["result"]
    assert (result["approved"], result["feedback"]) == (False, "Not on a Friday.")


def test_the_agent_receives_the_chosen_option(world: World, ann: Page, background: Background) -> None:
    options = ["Canary 5 %", "Blue/green", "All\nat once"]
    created = world.create(payload={"question": "Which rollout?", "options": options})
    waiting = background(world.wait_for, created["id"])
    ann.goto(f"{world.url}/breakpoints/{created['id']}")
    ann.get_by_role("button", name="All at once…").click()
    expect(ann.get_by_text("Option", exact=True)).to_be_visible()
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(ann.get_by_role("status")).to_contain_text("Approved")
    assert waiting.result(30)["result"]["option"] == "All\nat once"


def test_the_agent_receives_form_answers_with_their_types(world: World, ann: Page, background: Background) -> None:
    form = {
        "properties": {
            "budget": {"type": "integer", "title": "Budget", "minimum": 1},
            "sure": {"type": "boolean", "title": "Sure?"},
            "region": {"type": "string", "enum": ["eu", "us"], "title": "Region"},
            "note": {"type": "string", "title": "Note"},
        },
        "required": ["budget", "sure"],
    }
    created = world.create(payload={"question": "How much?", "form": form})
    waiting = background(world.wait_for, created["id"])
    ann.goto(f"{world.url}/breakpoints/{created['id']}")
    ann.get_by_label("Budget").fill("250")
    ann.get_by_label("No", exact=True).check()
    ann.get_by_label("Region").select_option("us")
    ann.get_by_label("Note").fill("one\ntwo")
    ann.get_by_role("button", name="Approve…").click()
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(ann.get_by_role("status")).to_contain_text("Approved")
    answers = waiting.result(30)["result"]["answers"]
    assert answers == {"budget": 250, "sure": False, "region": "us", "note": "one\ntwo"}


def test_approving_high_risk_requires_typing_the_gate_name(world: World, ann: Page, background: Background) -> None:
    created = world.create(payload={"question": "Drop it?", "risk": "high", "breakpointId": "drop.table"})
    waiting = background(world.wait_for, created["id"])
    ann.goto(f"{world.url}/breakpoints/{created['id']}")
    ann.get_by_role("button", name="Approve…").click()
    ann.get_by_label("Type the gate name to approve").fill("drop.tables")
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(ann.get_by_role("alert")).to_contain_text("Type the gate name exactly as shown")
    assert not waiting.done()
    ann.get_by_label("Type the gate name to approve").fill("drop.table")
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(ann.get_by_role("status")).to_contain_text("Approved")
    assert waiting.result(30)["decision"] == "approved"


def test_a_decision_leads_to_the_next_pending_breakpoint(world: World, ann: Page) -> None:
    soon = world.create(title="The most urgent one", ttlSeconds=600)
    created = world.create()
    ann.goto(f"{world.url}/breakpoints/{created['id']}")
    ann.get_by_role("button", name="Approve…").click()
    ann.get_by_role("button", name="Approve", exact=True).click()
    expect(ann).to_have_url(f"{world.url}/breakpoints/{soon['id']}?after={created['id']}")
    expect(ann.get_by_role("heading", level=1)).to_have_text("The most urgent one")
    ann.get_by_label("Comment", exact=True).fill("Done with it.")
    ann.get_by_role("button", name="Reject…").click()
    ann.get_by_role("button", name="Reject", exact=True).click()


def test_searching_and_commenting_work_with_only_the_keyboard(world: World, ann: Page) -> None:
    created = world.create(title="The zebra crossing")
    ann.goto(f"{world.url}/")
    ann.get_by_label("Search").fill("zebra")
    ann.keyboard.press("Enter")
    expect(ann).to_have_url(re.compile(r"/\?q=zebra&"))
    ann.get_by_role("link", name="The zebra crossing").focus()
    ann.keyboard.press("Enter")
    expect(ann).to_have_url(f"{world.url}/breakpoints/{created['id']}?q=zebra")
    ann.get_by_label("Add a comment").focus()
    ann.keyboard.type("Looks striped.")
    ann.keyboard.press("Tab")
    ann.keyboard.press("Enter")
    expect(ann.get_by_text("Looks striped.")).to_be_visible()


def test_pages_cannot_be_opened_after_signing_out(world: World, opened: Opener) -> None:
    page = opened().new_page()
    page.goto(world.link("bea"))
    page.get_by_role("button", name="Sign in as bea").click()
    page.get_by_role("button", name="Sign out").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.go_back()
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
