"""Signing in with an identity provider, in a real browser with its cookies and redirects."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import expect

from assent.kernel.settings import Settings
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener
from tests.support.nodes import prepared, server
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, Provider, provider


@pytest.fixture
def idp() -> Iterator[Provider]:
    with provider(claims={"sub": "24", "preferred_username": "kim", "groups": ["staff"]}) as running:
        yield running


@pytest.fixture
def url(idp: Provider, tmp_path: Path) -> Iterator[str]:
    settings = Settings(data_dir=tmp_path / "data")
    # In another thread, because Playwright's event loop occupies this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(prepared, settings).result()
    with server(
        settings,
        log=tmp_path / "log",
        oidc_issuer=idp.url,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret=CLIENT_SECRET,
        oidc_name="Example ID",
        oidc_create_people="true",
        oidc_roles="staff=reviewer",
        outbound_allow="127.0.0.0/8",
    ) as process:
        yield process.url


def test_signing_in_with_the_identity_provider_returns_to_the_page(url: str, idp: Provider, opened: Opener) -> None:
    context = opened(scripts=True)
    page = context.new_page()
    page.goto(f"{url}/runs")
    assert_accessible(page, "the choice")
    page.get_by_role("link", name="Sign in with Example ID").click()
    expect(page).to_have_url(f"{url}/runs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    assert {each["name"] for each in context.cookies()} == {"assent_session"}, "the journey's cookie is gone"
    assert len(idp.asked) == 1


def test_a_denial_by_the_identity_provider_is_explained(url: str, idp: Provider, opened: Opener) -> None:
    idp.refuses = "access_denied"
    page = opened(scripts=True).new_page()
    page.goto(f"{url}/sign-in")
    page.get_by_role("link", name="Sign in with Example ID").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Could not sign in with Example ID")
    assert_accessible(page, "a refusal")
