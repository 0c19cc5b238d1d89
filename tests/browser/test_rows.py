"""The rows of the list: their layout, headlines, filter links and consistent counts."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import DESK, HEIGHT, PHONE, assert_accessible
from tests.browser.conftest import Desk, World, on_one_database

pytestmark = on_one_database
PUSH = {
    "tool": "Bash",
    "arguments": {"command": "git push --force"},
    "question": "Run Bash?",
    "breakpointId": "tool.bash",
}


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


def at(page: Page, world: World, path: str) -> None:
    page.goto(f"{world.url}{path}")
    expect(page.locator("#connection")).to_have_text("Live")


def titles(page: Page) -> Any:
    return page.locator("#rows .row .title")


def shown_counts(page: Page) -> dict[str, str]:
    """Return the number of pending breakpoints from every place that shows it."""
    return {
        "title": (re.match(r"\((.+?)\)", page.title()) or ["", ""])[1],
        "navigation": page.locator(".rail [data-waiting-count]").first.text_content() or "",
        "list": page.locator("#rows .rows-head").get_attribute("data-waiting") or "",
        "tab": page.locator(".tabs a", has_text="Pending").locator(".count").text_content() or "",
        "icon": str("waiting" in (page.locator("link[rel=icon]").get_attribute("href") or "")),
    }


def test_twelve_rows_fit_in_900_pixels(world: World, desk: Desk, tag: str) -> None:
    asks = {"question": "Shall I deploy it?", "breakpointId": "deploy.production", "risk": "medium"}
    for n in range(14):
        world.create(
            title=f"Deploy version 4.{n} of the shop to production in all regions",
            agentId="deployment-agent-of-the-shop",
            tags=[tag, "production", "irreversible", f"version-{n}"],
            ttlSeconds=3600 + n,
            payload=asks,
        )
    page = desk(width=DESK)
    at(page, world, f"/?tag={tag}&sort=deadline")
    page.locator("details.more").evaluate("each => { each.open = false; }")
    boxes = [row.bounding_box() for row in page.locator(".row").all()[:12]]
    assert all(box is not None and box["y"] + box["height"] <= HEIGHT for box in boxes), boxes[-1]
    line = page.locator(".row").first
    age, due = line.locator(".age").bounding_box(), line.locator(".due").bounding_box()
    title, agent = line.locator(".title").bounding_box(), line.locator(".whence").bounding_box()
    assert age
    assert due
    assert title
    assert agent
    assert abs(age["y"] - title["y"]) < title["height"] < due["y"] - age["y"] + 1, "the age is beside the title"
    assert due["y"] < agent["y"] + agent["height"], "the deadline is beside the agent"


@pytest.mark.parametrize("width", [DESK, PHONE])
def test_a_row_shows_the_rarest_tags_and_never_truncates_its_deadline(
    world: World, desk: Desk, tag: str, width: int
) -> None:
    for n in range(3):
        world.create(title=f"Row {n}", tags=[tag, "common", f"only-{n}"], ttlSeconds=7200 + n)
    page = desk(width=width)
    at(page, world, f"/?tag={tag}") if width == DESK else page.goto(f"{world.url}/?tag={tag}")
    expect(page.locator(".row").nth(1).locator(".tag")).to_have_text(["only-1", "common"])
    for due in page.locator(".row .due").all():
        box = due.bounding_box()
        assert box
        assert box["x"] + box["width"] <= width


def test_the_action_is_used_as_the_headline_everywhere(world: World, desk: Desk, tag: str) -> None:
    made = world.create(title="Ship it", tags=[tag], payload=PUSH)
    world.create(title="Bash", tags=[tag], payload=PUSH | {"arguments": {"command": "ls\nrm\u202e -r"}})
    page = desk()
    at(page, world, f"/?tag={tag}&sort=oldest")
    expect(titles(page)).to_have_text(["git push --force Ship it", "ls ⏎ rm⟦U+202E⟧ -r"])
    expect(page.locator(".row .code")).to_have_count(2)
    titles(page).first.click()
    expect(page.locator("#headline")).to_have_text("git push --force")
    expect(page.locator(".lead .also")).to_have_text("Ship it")
    expect(page).to_have_title(re.compile(r"\) git push --force · Assent$"))
    page.goto(f"{world.url}/breakpoints/{made['id']}?tag={tag}")
    expect(page).to_have_title(re.compile(r"\) git push --force · Assent$"))
    assert_accessible(page, "a command")


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("place", ["the row", "the detail"])
def test_agent_gate_and_tag_links_filter_the_list(world: World, desk: Desk, tag: str, place: str, width: int) -> None:
    agent, gate = f"agent-{tag}"[:100], f"gate.{tag}"[:100]
    payload = {"question": "Go?", "breakpointId": gate}
    made = world.create(title="Wanted", tags=[f"{tag}-rare"], agentId=agent, payload=payload)
    world.create(title="Another agent", tags=[f"{tag}-rare"], payload=payload)
    world.create(title="Another tag", agentId=agent, payload=payload)
    whole = {"Wanted", "Another agent", "Another tag"}
    page = desk(width=width)
    for name, expected in (
        (agent, whole - {"Another agent"}),
        (gate, whole),
        (f"{tag}-rare", whole - {"Another tag"}),
    ):
        page.goto(f"{world.url}/?gate={gate}")
        if place == "the detail":
            page.goto(f"{world.url}/breakpoints/{made['id']}")
        scope = page.locator(".lead" if place == "the detail" else f"#row-{made['id']}")
        scope.get_by_role("link", name=name, exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.locator("#headline")).to_have_count(0)
        expect(titles(page)).to_have_count(len(expected))
        assert set(titles(page).all_text_contents()) == expected


def test_counts_in_the_tabs_title_and_icon_always_agree(world: World, desk: Desk, tag: str) -> None:
    page = desk()
    made = [world.create(title=f"Count {n}", tags=[tag], ttlSeconds=7200 + n) for n in range(3)]
    at(page, world, "/")
    before = shown_counts(page)
    amount = int(before["title"])
    assert before == dict.fromkeys(("title", "navigation", "list", "tab"), str(amount)) | {"icon": "True"}

    def expect_everywhere(count: int) -> None:
        expect(page).to_have_title(re.compile(rf"^\({count}\) "))
        assert shown_counts(page) == dict.fromkeys(("title", "navigation", "list", "tab"), str(count)) | {
            "icon": "True"
        }

    world.create(title="Count 3", tags=[tag], ttlSeconds=7300)
    expect_everywhere(amount + 1)  # a live change
    page.locator(".row", has_text="Count 0").locator(".title").click()
    expect(page.locator("#headline")).to_have_text("Count 0")
    expect_everywhere(amount + 1)  # an opened item
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#headline")).to_have_text("Count 1")
    expect_everywhere(amount)  # a decision
    expect(page).to_have_title(f"({amount}) Count 1 · Assent")
    page.locator("summary", has_text="Snooze").click()
    page.get_by_role("button", name="1 hour").click()
    expect(page.locator("#standing")).to_contain_text("snoozed")
    expect_everywhere(amount - 1)  # a snooze
    for tab in ("Decided", "All"):
        page.locator(".tabs a", has_text=tab).click()
        expect(page.locator(".tabs a[aria-current]")).to_contain_text(tab)
        expect_everywhere(amount - 1)  # another tab
    page.goto(f"{world.url}/?tag={tag}")
    narrowed = shown_counts(page)
    assert (narrowed["title"], narrowed["navigation"], narrowed["tab"]) == (str(amount - 1), str(amount - 1), "2")
    expect(page.locator(".summary")).to_contain_text(re.compile(rf"^2 pending, .* {amount - 1} pending in total\."))
    assert len(made) == 3


def test_the_open_row_stays_visible_when_new_rows_arrive_above(world: World, desk: Desk, tag: str) -> None:
    for n in range(30):
        world.create(title=f"Row {n:02}", tags=[tag], ttlSeconds=7200 + n)
    page = desk()
    at(page, world, f"/?tag={tag}")
    page.keyboard.press("k")
    expect(page.locator("#headline")).to_have_text("Row 29")
    expect(page.locator(".row.here")).to_be_in_viewport(ratio=1)
    page.keyboard.press("j")
    for _ in range(29):
        page.keyboard.press("k")
    expect(page.locator("#headline")).to_have_text("Row 00")
    for n in range(15):
        world.create(title=f"Urgent {n:02}", tags=[tag], ttlSeconds=600 + n)
    expect(page.locator(".row")).to_have_count(45)
    expect(page.locator(".row.here .title")).to_have_text("Row 00")
    expect(page.locator(".row.here")).to_be_in_viewport(ratio=1)
