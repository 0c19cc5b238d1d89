"""Slow connections and fast typing: late responses are discarded, and an answer is submitted only once."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Desk, World


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


Two = tuple[dict[str, Any], dict[str, Any], Page]


@pytest.fixture
def two(world: World, desk: Desk, tag: str) -> Two:
    """Two breakpoints, and a page on which the first one is open."""
    first = world.create(title="The first", tags=[tag], ttlSeconds=3600)
    second = world.create(title="The second", tags=[tag], ttlSeconds=3700)
    page = desk()
    page.goto(f"{world.url}/?tag={tag}")
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("j")
    expect(page.locator("#headline")).to_have_text("The first")
    return first, second, page


def open_second(page: Page) -> None:
    page.keyboard.press("j")
    expect(page.locator("#headline")).to_have_text("The second")


def hold(page: Page, wanted: Callable[[Route], bool]) -> list[Route]:
    """Hold the matching requests until the test releases them."""
    held: list[Route] = []
    page.route(re.compile("."), lambda route: held.append(route) if wanted(route) else route.continue_())
    return held


def release(page: Page, held: list[Route]) -> None:
    """Release the requests, and wait until the page has processed their responses."""
    for route in held:
        with page.expect_response(route.request.url):
            route.continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")


def test_a_late_refresh_does_not_change_another_item(world: World, two: Two) -> None:
    first, _, page = two
    target = f"/breakpoints/{first['id']}"
    held = hold(page, lambda route: target in route.request.url and "#live" in route.request.headers["hx-target"])
    with page.expect_request(lambda request: target in request.url):
        world.comment(first["id"], "About the first only")
    open_second(page)
    release(page, held)
    expect(page.locator("#live")).not_to_contain_text("About the first only")
    expect(page.locator("#headline")).to_have_text("The second")


def test_a_late_confirmation_does_not_open_over_another_item(world: World, two: Two) -> None:
    first, second, page = two
    held = hold(page, lambda route: route.request.url.partition("?")[0].endswith("/confirm"))
    with page.expect_request(re.compile("/confirm")):
        page.keyboard.press("a")
    open_second(page)
    release(page, held)
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Enter")
    assert {world.status(each["id"])["status"] for each in (first, second)} == {"waiting"}


def test_pressing_enter_twice_submits_a_single_answer(world: World, two: Two) -> None:
    first, second, page = two
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("#headline")).to_have_text("The second")
    assert len([url for url in posts if "/decide" in url]) == 1
    assert world.status(first["id"])["decision"] == "approved"
    assert world.status(second["id"])["status"] == "waiting"


def test_a_gateway_error_does_not_remove_the_list(world: World, two: Two, tag: str) -> None:
    _, _, page = two
    address = re.compile(rf"/\?tag={tag}")
    page.route(address, lambda route: route.fulfill(status=502, content_type="text/html", body="<h1>Bad gateway</h1>"))
    with page.expect_response(address):
        world.create(title="The third", tags=[tag])
    expect(page.locator("#connection")).to_have_text("Reconnecting…")
    expect(page.locator("#rows .row")).to_have_count(2)
    page.unroute(address)
    world.create(title="The fourth", tags=[tag])
    expect(page.locator("#rows .row")).to_have_count(4)
    expect(page.locator("#connection")).to_have_text("Live")


def test_an_answer_whose_response_was_lost_is_not_reported_as_unsent(world: World, two: Two) -> None:
    first, _, page = two

    def lose(route: Route) -> None:
        route.fetch(max_redirects=0)
        route.abort()

    page.route(re.compile("/decide"), lose)
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("or its response was lost")
    assert world.status(first["id"])["decision"] == "approved"


def test_pressing_enter_in_a_form_field_does_not_submit_an_answer(world: World, desk: Desk, tag: str) -> None:
    form = {"properties": {"budget": {"type": "integer", "title": "Budget"}}}
    created = world.create(tags=[tag], payload={"question": "How much?", "form": form})
    page = desk()
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.goto(f"{world.url}/breakpoints/{created['id']}")
    page.get_by_label("Budget").fill("5")
    page.get_by_label("Budget").press("Enter")
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Approve this?")
    assert len(posts) == 1
