"""Lost, aborted and failed live refreshes are retried; until then, the page does not show “Live”."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request, Route, expect

from tests.browser.conftest import Desk, World


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


def lost(route: Route) -> None:
    route.abort("connectionreset")


def aborted(route: Route) -> None:
    route.abort("aborted")


def failed(route: Route) -> None:
    route.fulfill(status=503, content_type="text/html", body="<h1>Unavailable</h1>")


Fault = Callable[[Route], None]
FAULTS = pytest.mark.parametrize("fault", [lost, aborted, failed])


def region(request: Request) -> str:
    return request.headers.get("hx-target", "").rpartition("#")[2]


def fail_next(page: Page, wanted: str, fault: Fault, *, times: int = 1) -> list[Route]:
    """Make only the next refreshes of a region fail."""
    met: list[Route] = []

    def handle(route: Route) -> None:
        if region(route.request) == wanted and len(met) < times:
            met.append(route)
            fault(route)
        else:
            route.continue_()

    page.route(re.compile("."), handle)
    return met


def at_list(page: Page, world: World, path: str) -> None:
    page.goto(f"{world.url}{path}")
    expect(page.locator("#connection")).to_have_text("Live")


@FAULTS
def test_a_failed_refresh_of_the_list_is_retried(world: World, desk: Desk, tag: str, fault: Fault) -> None:
    page = desk()
    at_list(page, world, f"/?tag={tag}")
    tab = page.locator("#tabs a[aria-current] .count")
    expect(tab).to_have_text("0")
    before = int(page.locator(".rail [data-waiting-count]").first.inner_text() or 0)
    met = fail_next(page, "rows", fault, times=2)
    world.create(title="Out of the blue", tags=[tag])
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    expect(page.locator("#rows .row .title")).to_have_text(["Out of the blue"])
    expect(tab).to_have_text("1")
    expect(page).to_have_title(re.compile(rf"^\({before + 1}\) "))
    expect(page.locator("#connection")).to_have_text("Live")
    assert len(met) == 2


@FAULTS
def test_a_failed_refresh_of_the_detail_is_retried(world: World, desk: Desk, tag: str, fault: Fault) -> None:
    made = world.create(title="Read closely", tags=[tag])
    page = desk()
    at_list(page, world, f"/breakpoints/{made['id']}?tag={tag}")
    met = fail_next(page, "live", fault)
    world.comment(made["id"], "One more thing.")
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    expect(page.locator("#live")).to_contain_text("One more thing.")
    expect(page.locator("#connection")).to_have_text("Live")
    assert len(met) == 1


def test_a_refresh_delayed_by_an_open_menu_runs_when_it_closes(world: World, desk: Desk, tag: str) -> None:
    made = world.create(title="Read closely", tags=[tag])
    page = desk()
    at_list(page, world, f"/breakpoints/{made['id']}?tag={tag}")
    page.locator("summary", has_text="Snooze").click()
    with page.expect_response(lambda response: region(response.request) == "rows"):
        world.comment(made["id"], "One more thing.")
    expect(page.locator("#standing details[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    page.locator("#headline").focus()
    expect(page.locator("#standing details[open]")).to_have_count(0)
    expect(page.locator("#live")).to_contain_text("One more thing.")
