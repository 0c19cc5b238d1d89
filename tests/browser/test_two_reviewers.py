"""Two reviewers in the same undo window: each sees the other's answer live, and conflicts are reported."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Desk, Opener, World, signed_in_state


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


def decide(page: Page, decision: str, reason: str = "") -> None:
    page.locator("#comment").fill(reason)
    page.get_by_role("button", name=f"{decision}…").click()
    confirm = page.get_by_role("dialog") if page.evaluate("document.documentElement.className") else page
    confirm.get_by_role("button", name=decision, exact=True).click()


def opened_by(page: Page, world: World, made: dict[str, Any], tag: str) -> None:
    page.goto(f"{world.url}/breakpoints/{made['id']}?tag={tag}")
    expect(page.locator("#connection")).to_have_text("Live")


def test_a_rejection_overrides_a_pending_approval_and_notifies_the_approver(
    patient_world: World, patient_desk: Desk, tag: str
) -> None:
    made = patient_world.create(title="Deploy now", tags=[tag])
    ann, bea = patient_desk("ann"), patient_desk("bea")
    for page in (ann, bea):
        opened_by(page, patient_world, made, tag)
    decide(ann, "Approve", "Looks fine to me.")
    expect(ann.locator("#notice")).to_contain_text("Approved Deploy now.")

    pending = re.compile(r"ann is approving, \d+ s")
    expect(bea.locator("#standing")).to_contain_text(pending)
    expect(bea.locator(".row", has_text="Deploy now")).to_contain_text(pending)
    decide(bea, "Reject", "The tests are red.")

    expect(ann.locator("#unsent")).to_contain_text(
        "Your approval was not sent. Deploy now: bea rejected the breakpoint."
    )
    expect(ann.locator("#notice .toast")).to_have_count(0)
    expect(bea.locator("#notice")).to_contain_text("This cancelled the pending approval by ann.")
    seen = patient_world.status(made["id"])
    assert seen["decision"] == "rejected"
    assert {each["comment"] for each in seen["feedback"]} == {"The tests are red.", "Looks fine to me."}
    ann.locator("#unsent").get_by_role("button", name="Dismiss").click()
    expect(ann.locator("#unsent .toast")).to_have_count(0)


def test_an_undone_answer_disappears_from_the_other_reviewers_page(
    patient_world: World, patient_desk: Desk, tag: str
) -> None:
    made = patient_world.create(title="Deploy now", tags=[tag])
    ann, bea = patient_desk("ann"), patient_desk("bea")
    for page in (ann, bea):
        opened_by(page, patient_world, made, tag)
    decide(ann, "Reject", "Wait.")
    expect(bea.locator("#standing")).to_contain_text("ann is rejecting")
    bea.locator("#comment").fill("Go ahead.")
    bea.get_by_role("button", name="Approve…").click()
    expect(bea.get_by_role("alert")).to_contain_text("ann is rejecting this.")
    expect(bea.locator("#comment")).to_have_value("Go ahead.")
    ann.keyboard.press("z")
    expect(bea.locator("#standing")).not_to_contain_text("ann is rejecting")
    assert patient_world.status(made["id"])["status"] == "waiting"


def test_without_scripts_the_next_page_notifies_the_approver(
    patient_world: World, chromium: Browser, opened: Opener, tag: str
) -> None:
    made = patient_world.create(title="Deploy now", tags=[tag])
    pages = [opened(storage_state=signed_in_state(patient_world, chromium, name)).new_page() for name in ("ann", "bea")]
    ann, bea = pages
    for page, decision, reason in ((ann, "Approve", "Looks fine."), (bea, "Reject", "The tests are red.")):
        page.goto(f"{patient_world.url}/breakpoints/{made['id']}?tag={tag}")
        page.locator("#comment").fill(reason)
        page.get_by_role("button", name=f"{decision}…").click()
        page.get_by_role("button", name=decision, exact=True).click()
    ann.reload()
    expect(ann.locator("#unsent")).to_contain_text(
        "Your approval was not sent. Deploy now: bea rejected the breakpoint."
    )
    ann.locator("#unsent").get_by_role("button", name="Dismiss").click()
    expect(ann.locator("#unsent .toast")).to_have_count(0)
    assert patient_world.status(made["id"])["decision"] == "rejected"
