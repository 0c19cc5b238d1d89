"""Text is kept if the session ends while a person is typing, even with scripts or after signing in from another tab."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Desk, World

REASON = "Not on a Friday.\nThe tests are red."


@pytest.mark.parametrize("step", ["open the dialog", "confirm"])
def test_a_reason_typed_with_scripts_is_kept_when_the_session_ends(
    patient_world: World, patient_desk: Desk, step: str
) -> None:
    made = patient_world.create(title="Deploy now")
    page = patient_desk("ann")
    page.goto(f"{patient_world.url}/breakpoints/{made['id']}")
    page.locator("#comment").fill(REASON)
    if step == "confirm":
        page.get_by_role("button", name="Reject…").click()
        expect(page.get_by_role("dialog")).to_be_visible()
    page.context.clear_cookies()
    button = "Reject" if step == "confirm" else "Reject…"
    page.get_by_role("button", name=button, exact=step == "confirm").click()
    expect(page.get_by_role("alert")).to_contain_text("Your session has ended, so nothing was sent.")
    expect(page.locator("#kept-1")).to_have_value(REASON)

    other = page.context.new_page()
    other.goto(patient_world.link("ann"))
    other.get_by_role("button", name="Sign in as ann").click()
    expect(other.locator("#unsent")).to_be_attached()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was sent")
    expect(page.locator("#comment")).to_have_value(REASON)
    assert patient_world.status(made["id"])["status"] == "waiting"


def test_text_too_long_for_the_sign_in_page_stays_in_the_form(patient_world: World, patient_desk: Desk) -> None:
    payload = {"question": "Deploy?", "editable": ["plan"], "arguments": {"plan": "x" * 200_000}}
    made = patient_world.create(title="Deploy now", payload=payload)
    page = patient_desk("ann")
    page.goto(f"{patient_world.url}/breakpoints/{made['id']}")
    page.locator("#comment").fill(REASON)
    page.context.clear_cookies()
    page.get_by_role("button", name="Reject…").click()
    expect(page.locator("#notice")).to_contain_text("Your session has ended, so nothing was sent.")
    expect(page.locator("#comment")).to_have_value(REASON)

    other = page.context.new_page()
    other.goto(patient_world.link("ann"))
    other.get_by_role("button", name="Sign in as ann").click()
    expect(other.locator("#unsent")).to_be_attached()
    page.get_by_role("button", name="Reject…").click()
    expect(page.get_by_role("alert")).to_contain_text("This form is from an earlier session")
    expect(page.locator("#comment")).to_have_value(REASON)
    assert patient_world.status(made["id"])["status"] == "waiting"


def test_a_form_is_not_submitted_under_another_persons_account(patient_world: World, patient_desk: Desk) -> None:
    made = patient_world.create(title="Deploy now")
    page = patient_desk("ann")
    page.goto(f"{patient_world.url}/breakpoints/{made['id']}")
    page.locator("#comment").fill(REASON)
    other = page.context.new_page()
    other.goto(patient_world.link("bea"))
    other.get_by_role("button", name="Sign in as bea").click()
    expect(other.locator("#unsent")).to_be_attached()
    page.get_by_role("button", name="Reject…").click()
    expect(page.locator("#notice")).to_contain_text("You are now signed in to a different account")
    expect(page.locator("#comment")).to_have_value(REASON)
