"""The admin pages in a real browser: people, tokens and the audit log."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database

PATHS = (
    "/admin/people", "/admin/people/ann", "/admin/people/ann/close", "/admin/groups", "/admin/tokens",
    "/admin/projects", "/admin/retention", "/admin/audit", "/account",
)  # fmt: skip


@pytest.fixture
def root(opened: Opener, states: dict[str, Any]) -> Page:
    """A page without scripts for a person who has every role."""
    return opened(storage_state=states["root"]).new_page()


@pytest.mark.parametrize("scripts", [False, True])
def test_an_invited_person_can_set_a_password_and_sign_in_with_it(
    world: World, root: Page, opened: Opener, *, scripts: bool
) -> None:
    name = f"ivy-{scripts}".lower()
    root.goto(f"{world.url}/admin/people")
    root.get_by_label("Name", exact=True).fill(name)
    root.get_by_role("button", name="Invite").click()
    ivy = opened(scripts=scripts).new_page()
    ivy.goto(root.locator("#secret").inner_text())
    ivy.get_by_role("button", name=f"Sign in as {name}").click()
    expect(ivy.get_by_role("heading", level=1)).to_have_text("Set a password")
    for path in ("/", "/account", "/rules", "/runs"):
        ivy.goto(world.url + path)
        expect(ivy.get_by_role("heading", level=1)).to_have_text("Set a password")
    if scripts:
        assert_accessible(ivy, "set a password")
    ivy.get_by_label("New password").fill("a long enough password")
    ivy.get_by_label("Confirm password").fill("a long enough password")
    ivy.get_by_role("button", name="Set password").click()
    expect(ivy).to_have_url(f"{world.url}/runs")

    again = opened(scripts=scripts).new_page()
    again.goto(f"{world.url}/sign-in")
    again.get_by_label("Name").fill(name)
    again.get_by_label("Password").fill("a long enough password")
    again.get_by_role("button", name="Sign in").click()
    expect(again).to_have_url(f"{world.url}/")


def test_closing_an_invited_persons_account_signs_them_out(world: World, root: Page, opened: Opener) -> None:
    root.goto(f"{world.url}/admin/people")
    root.get_by_label("Name", exact=True).fill("zoe")
    root.get_by_label("Full name (optional)").fill("Zoe Z.")
    root.get_by_role("button", name="Invite").click()
    expect(root.get_by_role("heading", level=1)).to_have_text("zoe has been invited")
    link = root.locator("#secret").inner_text()
    zoe = opened().new_page()
    zoe.goto(link)
    zoe.get_by_role("button", name="Sign in as Zoe Z.").click()
    zoe.get_by_label("New password").fill("a long enough password")
    zoe.get_by_label("Confirm password").fill("a long enough password")
    zoe.get_by_role("button", name="Set password").click()
    expect(zoe).to_have_url(f"{world.url}/")
    root.get_by_role("link", name="I’ve copied it").click()
    root.get_by_role("link", name="Close account…").click()
    root.get_by_role("button", name="Close account").click()
    expect(root.locator(".notice")).to_contain_text("Account closed.")
    zoe.wait_for_timeout(1_100)  # sessions are cached for a second
    zoe.goto(f"{world.url}/account")
    expect(zoe.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_token_is_shown_once_and_can_be_revoked(world: World, root: Page) -> None:
    root.goto(f"{world.url}/admin/tokens")
    root.get_by_label("Name", exact=True).fill("nightly build")
    root.get_by_label("Gates (optional)").fill("deploy.*")
    root.get_by_role("button", name="Create token").click()
    secret = root.locator("#secret").inner_text()
    assert secret.startswith("asta_")
    root.get_by_role("link", name="I’ve copied it").click()
    expect(root.get_by_text(secret)).to_have_count(0)
    root.get_by_role("link", name="Revoke… nightly build").first.click()
    root.get_by_role("button", name="Revoke").click()
    expect(root.locator(".notice")).to_contain_text("Token revoked.")


def test_an_auditor_can_verify_and_export_the_audit_log(world: World, opened: Opener, states: dict[str, Any]) -> None:
    created = world.create(title="For the auditor")
    page = opened(scripts=True, storage_state=states["root"]).new_page()
    page.goto(f"{world.url}/admin/audit?type=created")
    expect(page.get_by_role("link", name="For the auditor").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert created["id"] in download.value.path().read_text()
    page.get_by_role("button", name="Verify audit log").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Verification")
    expect(page.get_by_text("No problems found.")).to_be_visible(timeout=60_000)


@on_one_database
def test_pages_pass_axe_and_do_not_scroll_sideways(world: World, opened: Opener, states: dict[str, Any]) -> None:
    page = opened(scripts=True, storage_state=states["root"]).new_page()
    world.create(title="averylongwordwithoutanyplacetobreakit" * 6)
    for path in PATHS:
        page.goto(world.url + path)
        assert_accessible(page, path)
