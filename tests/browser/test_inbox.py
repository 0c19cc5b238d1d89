"""The inbox with scripts: keyboard shortcuts, undo, bulk answers, live updates and concurrent reviewers."""

import re
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, World

Background = Callable[..., "Future[dict[str, Any]]"]


@pytest.fixture
def tag(request: pytest.FixtureRequest) -> str:
    """A tag that is unique to each test, so that the test's list contains only its own breakpoints."""
    return re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:90]


def at_list(page: Page, world: World, tag: str, more: str = "") -> None:
    """Open the test's list and wait for live updates to be connected."""
    page.goto(f"{world.url}/?tag={tag}{more}")
    expect(page.locator("#connection")).to_have_text("Live")


def rows(page: Page) -> Any:
    return page.locator("#rows .row .title")


def headline(page: Page) -> Any:
    return page.locator("#headline")


def test_the_list_can_be_cleared_with_only_the_keyboard(
    world: World, desk: Desk, background: Background, tag: str
) -> None:
    made = [world.create(title=f"Item {n}", tags=[tag], ttlSeconds=3600 + n) for n in range(3)]
    waits = [background(world.wait_for, each["id"]) for each in made]
    page = desk()
    at_list(page, world, tag)

    page.keyboard.press("j")
    expect(headline(page)).to_have_text("Item 0")
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_contain_text("Approve this?")
    page.keyboard.press("Enter")
    expect(headline(page)).to_have_text("Item 1")
    expect(headline(page)).to_be_focused()
    expect(page.locator("#notice")).to_contain_text("Approved Item 0.")

    page.keyboard.press("r")
    expect(page.locator("#comment")).to_be_focused()
    page.keyboard.type("Not today.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Reject this?")
    page.keyboard.press("Enter")
    expect(headline(page)).to_have_text("Item 2")

    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#detail")).to_contain_text(re.compile(r"All clear.|No results\. .* pending"))
    outcomes = [(each.result(30)["decision"], each.result(30)["result"].get("feedback")) for each in waits]
    assert outcomes == [("approved", None), ("rejected", "Not today."), ("approved", None)]


def test_keyboard_shortcuts_move_the_cursor_search_and_show_help(world: World, desk: Desk, tag: str) -> None:
    for n in range(3):
        world.create(title=f"Item {n}", tags=[tag], ttlSeconds=3600 + n)
    page = desk()
    at_list(page, world, tag)
    for key, shown in (("j", "Item 0"), ("j", "Item 1"), ("j", "Item 2"), ("j", "Item 2"), ("k", "Item 1")):
        page.keyboard.press(key)
        expect(headline(page)).to_have_text(shown)
        expect(page.locator(".row.here .title")).to_have_text(shown)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("jjj")
    expect(headline(page)).to_have_text("Item 1")
    page.get_by_label("Search").blur()
    page.keyboard.press("c")
    expect(page.get_by_label("Add a comment")).to_be_focused()


def test_rapid_key_presses_open_the_correct_item(world: World, desk: Desk, tag: str) -> None:
    for n in range(12):
        world.create(title=f"Item {n:02}", tags=[tag], ttlSeconds=3600 + n)
    page = desk()
    at_list(page, world, tag)
    for _ in range(8):
        page.keyboard.press("j")
    expect(page.locator(".row.here .title")).to_have_text("Item 07")
    expect(headline(page)).to_have_text("Item 07")


def test_the_approve_key_never_acts_on_an_item_that_is_not_visible(world: World, desk: Desk, tag: str) -> None:
    world.create(title="Unread", tags=[tag])
    page = desk()
    at_list(page, world, tag)
    page.keyboard.press("a")
    expect(headline(page)).to_have_text("Unread")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_escape_closes_the_confirmation_without_deciding(world: World, desk: Desk, tag: str) -> None:
    created = world.create(title="Wait", tags=[tag])
    page = desk()
    page.goto(f"{world.url}/breakpoints/{created['id']}")
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert world.status(created["id"])["status"] == "waiting"


def test_an_option_can_be_chosen_with_its_number_key(
    world: World, desk: Desk, background: Background, tag: str
) -> None:
    payload = {"question": "Which?", "options": ["Canary", "Blue/green", "All at once"]}
    created = world.create(tags=[tag], payload=payload)
    waiting = background(world.wait_for, created["id"])
    page = desk()
    page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("2")
    expect(page.get_by_role("dialog")).to_contain_text("Blue/green")
    page.keyboard.press("Enter")
    assert waiting.result(30)["result"]["option"] == "Blue/green"


def test_the_dialog_requires_the_gate_name_for_high_risk(
    world: World, desk: Desk, background: Background, tag: str
) -> None:
    created = world.create(tags=[tag], payload={"question": "Drop?", "risk": "high", "breakpointId": "drop.it"})
    waiting = background(world.wait_for, created["id"])
    page = desk()
    page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
    page.keyboard.press("a")
    box = page.get_by_label("Type the gate name to approve")
    expect(box).to_be_focused()
    page.keyboard.type("drop.them")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Type the gate name exactly as shown")
    assert not waiting.done()
    box.fill("drop.it")
    page.keyboard.press("Enter")
    assert waiting.result(30)["decision"] == "approved"


def test_editable_arguments_can_be_changed_before_approving(
    world: World, desk: Desk, background: Background, tag: str
) -> None:
    payload = {"question": "Pay?", "arguments": {"amount": 5, "to": "ann"}, "editable": ["amount"]}
    created = world.create(tags=[tag], payload=payload)
    waiting = background(world.wait_for, created["id"])
    page = desk()
    page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
    page.get_by_label("Change amount").fill("3")
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("dialog")).to_contain_text("Changed amount")
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    assert waiting.result(30)["result"]["edits"] == {"amount": 3}


def test_an_undone_answer_is_never_visible_to_the_agent(patient_world: World, patient_desk: Desk, tag: str) -> None:
    created = patient_world.create(title="Think twice", tags=[tag])
    patient_world.create(title="The next one", tags=[tag])
    page = patient_desk()
    at_list(page, patient_world, tag)
    page.keyboard.press("j")
    expect(headline(page)).to_have_text("Think twice")
    page.keyboard.press("a")
    expect(page.get_by_role("dialog")).to_contain_text("You can undo your answer until then.")
    page.keyboard.press("Enter")
    expect(headline(page)).to_have_text("The next one")
    expect(page.locator("#notice")).to_contain_text("Approved Think twice.")
    expect(page.locator(".row", has_text="Think twice")).to_contain_text("approving…")
    assert patient_world.status(created["id"])["version"] == created["version"]
    page.keyboard.press("z")
    expect(headline(page)).to_have_text("Think twice")
    expect(page.locator("#notice")).to_contain_text("Undone.")
    expect(page.locator(".row", has_text="Think twice")).not_to_contain_text("approving…")
    assert patient_world.status(created["id"])["version"] == created["version"]


def test_a_bulk_answer_can_be_undone_in_one_step(patient_world: World, patient_desk: Desk, tag: str) -> None:
    same = {"breakpointId": "star.repo", "question": "Star?"}
    made = [patient_world.create(title=f"Star {n}", tags=[tag], ttlSeconds=3600 + n, payload=same) for n in range(3)]
    stop = patient_world.create(title="Hard stop", tags=[tag], ttlSeconds=3700, payload=same | {"hardStop": True})
    page = patient_desk()
    at_list(page, patient_world, tag)
    for _ in range(4):
        page.keyboard.press("j")
        page.keyboard.press("x")
    expect(page.locator("[data-picked]")).to_have_text("4 selected")
    page.get_by_role("button", name="Approve selected…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Approve 3 breakpoints?")
    expect(dialog).to_contain_text("Hard stop: hard stop")
    dialog.get_by_role("button", name="Approve 3").click()
    expect(page.locator("#notice")).to_contain_text("Answered 3 breakpoints.")
    expect(page.locator(".row", has_text="approving…")).to_have_count(3)
    page.locator("#notice").get_by_role("button", name="Undo").click()
    expect(page.locator("#notice")).to_contain_text("Undone.")
    expect(page.locator(".row", has_text="approving…")).to_have_count(0)
    for each in (*made, stop):
        assert patient_world.status(each["id"])["status"] == "waiting"


def test_a_reviewer_sees_another_reviewers_decision_live(world: World, desk: Desk, tag: str) -> None:
    created = world.create(title="Who is first", tags=[tag])
    ann, bea = desk("ann"), desk("bea")
    for page in (ann, bea):
        page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
        expect(page.locator("#connection")).to_have_text("Live")
    bea.locator("#comment").fill("My draft")
    ann.keyboard.press("a")
    expect(ann.get_by_role("dialog")).to_be_visible()
    ann.keyboard.press("Enter")

    expect(bea.locator("#standing")).to_contain_text("approved by ann")
    expect(bea.locator("#comment")).to_have_value("My draft")
    expect(rows(bea)).to_have_count(0)
    bea.get_by_role("button", name="Reject…").click()
    expect(bea.get_by_role("alert")).to_contain_text("Too late. It was approved by ann")
    assert world.status(created["id"])["decision"] == "approved"


def test_live_changes_never_move_the_row_at_the_cursor(world: World, desk: Desk, tag: str) -> None:
    for n in range(40):
        world.create(title=f"Item {n:02}", tags=[tag], ttlSeconds=7200 + n)
    page = desk()
    at_list(page, world, tag)
    row = page.locator(".row", has_text="Item 30")
    row.scroll_into_view_if_needed()
    row.locator(".title").click()
    expect(headline(page)).to_have_text("Item 30")
    page.locator("#comment").fill("A draft")
    before = row.bounding_box()
    for n in range(3):
        world.create(title=f"Urgent {n}", tags=[tag], ttlSeconds=900 + n)
    expect(page.locator("#new-items")).to_have_text("3 new")
    after = row.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) <= 1
    expect(page.locator(".row.here .title")).to_have_text("Item 30")
    expect(page.locator("#comment")).to_have_value("A draft")
    page.locator("#new-items").click()
    expect(page.locator(".row", has_text="Urgent 0")).to_be_in_viewport()


def test_new_items_appear_live_and_update_the_counts(world: World, desk: Desk, tag: str) -> None:
    page = desk()
    at_list(page, world, tag)
    expect(page.locator("#rows")).to_contain_text("No results")
    count = page.locator(".rail [data-waiting-count]").first
    before = int(count.inner_text() or 0)
    world.create(title="Out of the blue", tags=[tag])
    expect(rows(page)).to_have_text(["Out of the blue"])
    expect(count).to_have_text(str(before + 1))
    expect(page).to_have_title(f"({before + 1}) Inbox · Assent")


def test_all_tabs_share_one_stream(world: World, desk: Desk, tag: str) -> None:
    first = desk()
    at_list(first, world, tag)
    tabs = [first, *(first.context.new_page() for _ in range(7))]
    for page in tabs[1:]:
        at_list(page, world, tag)
    world.create(title="For every tab", tags=[tag])
    for page in tabs:
        expect(rows(page)).to_have_text(["For every tab"])
    first.close()
    world.create(title="After the first tab closed", tags=[tag])
    for page in tabs[1:]:
        expect(rows(page)).to_have_count(2)


def test_a_lost_connection_is_shown_and_restored(world: World, desk: Desk, tag: str) -> None:
    page = desk()
    at_list(page, world, tag)
    page.context.set_offline(offline=True)
    expect(page.locator("#connection")).to_have_text("Offline")
    world.create(title="Meanwhile", tags=[tag])
    page.context.set_offline(offline=False)
    expect(rows(page)).to_have_text(["Meanwhile"])


def test_a_failed_answer_is_reported_and_keeps_the_typed_text(world: World, desk: Desk, tag: str) -> None:
    created = world.create(title="No network", tags=[tag])
    page = desk()
    page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
    expect(page.locator("#connection")).to_have_text("Live")
    page.locator("#comment").fill("What I typed")
    page.context.set_offline(offline=True)
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("alert")).to_contain_text("Could not reach the server")
    expect(page.locator("#comment")).to_have_value("What I typed")
    page.context.set_offline(offline=False)
    page.get_by_role("button", name="Approve…").click()
    expect(page.get_by_role("dialog")).to_contain_text("What I typed")
    assert world.status(created["id"])["status"] == "waiting"


def test_a_breakpoint_can_be_claimed_reassigned_and_snoozed(world: World, desk: Desk, tag: str) -> None:
    created = world.create(title="Mine now", tags=[tag])
    ann, bea = desk("ann"), desk("bea")
    at_list(bea, world, tag)
    ann.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}")
    expect(ann.locator("#connection")).to_have_text("Live")
    ann.keyboard.press("m")
    expect(ann.locator("#standing")).to_contain_text("claimed by ann")
    expect(bea.locator(".row")).to_contain_text("claimed by ann")
    ann.locator("summary", has_text="Reassign").click()
    ann.get_by_label("Reassign to").fill("nobody-at-all")
    ann.get_by_role("button", name="Reassign").click()
    expect(ann.get_by_role("alert")).to_contain_text("person nobody-at-all not found")
    ann.locator("summary", has_text="Reassign").click()
    ann.get_by_label("Reassign to").fill("bea")
    ann.get_by_role("button", name="Reassign").click()
    expect(ann.locator("#standing")).to_contain_text("claimed by bea")
    bea.goto(f"{world.url}/?tag={tag}&mine=1")
    expect(rows(bea)).to_have_text(["Mine now"])

    bea.keyboard.press("j")
    expect(headline(bea)).to_have_text("Mine now")
    bea.keyboard.press("s")
    bea.get_by_role("button", name="1 hour").click()
    expect(bea.locator("#standing")).to_contain_text("snoozed")
    expect(rows(bea)).to_have_count(0)
    bea.goto(f"{world.url}/?tag={tag}&snoozed=1")
    expect(rows(bea)).to_have_text(["Mine now"])
    ann.goto(f"{world.url}/?tag={tag}")
    expect(rows(ann)).to_have_text(["Mine now"])


def test_a_view_can_be_saved_opened_and_removed(world: World, desk: Desk, tag: str) -> None:
    world.create(title="In the view", tags=[tag])
    page = desk()
    at_list(page, world, tag, "&sort=newest")
    page.get_by_placeholder("View name").fill(f"My {tag}"[:50])
    page.get_by_role("button", name="Save view").click()
    page.goto(f"{world.url}/")
    page.get_by_role("link", name=f"My {tag}"[:50]).click()
    expect(page).to_have_url(re.compile(f"sort=newest&tag={tag}"))
    expect(rows(page)).to_have_text(["In the view"])
    page.get_by_role("button", name="remove the view").click()
    expect(page.get_by_role("link", name=f"My {tag}"[:50])).to_have_count(0)


def test_the_palette_finds_actions_and_shows_their_shortcuts(world: World, desk: Desk, tag: str) -> None:
    world.create(title="Found", tags=[tag])
    page = desk()
    at_list(page, world, tag)
    page.keyboard.press("Control+k")
    palette = page.locator("#palette")
    expect(palette).to_be_visible()
    page.keyboard.type("next in")
    expect(palette.locator("li:visible")).to_have_count(1)
    expect(palette.locator("li:visible kbd")).to_have_text("j")
    page.keyboard.press("Enter")
    expect(headline(page)).to_have_text("Found")
    page.keyboard.press("Control+k")
    page.keyboard.type("go to rules")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{world.url}/rules")
    expect(page.locator("#connection")).to_have_text("Live")
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page).to_have_url(f"{world.url}/")


def test_single_key_shortcuts_can_be_disabled(world: World, desk: Desk, tag: str) -> None:
    world.create(title="Left alone", tags=[tag])
    page = desk()
    at_list(page, world, tag)
    page.keyboard.press("?")
    page.get_by_label("Enable single-key shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("j")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    expect(headline(page)).to_have_count(0)


def test_a_phone_shows_either_the_list_or_a_breakpoint(
    world: World, desk: Desk, background: Background, tag: str
) -> None:
    created = world.create(title="On the way", tags=[tag])
    waiting = background(world.wait_for, created["id"])
    page = desk(width=390, has_touch=True, is_mobile=True)
    page.goto(f"{world.url}/?tag={tag}")
    expect(page.locator("#detail")).to_be_hidden()
    rows(page).tap()
    expect(headline(page)).to_have_text("On the way")
    expect(page.locator("#list")).to_be_hidden()
    approve = page.get_by_role("button", name="Approve…")
    expect(approve).to_be_in_viewport()
    approve.tap()
    page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).tap()
    assert waiting.result(30)["decision"] == "approved"


def test_a_permalink_survives_signing_in(world: World, opened: Any, tag: str) -> None:
    created = world.create(title="Linked", tags=[tag])
    page = opened(scripts=True).new_page()
    page.goto(f"{world.url}/breakpoints/{created['id']}?tag={tag}&sort=newest")
    link = world.link("bea")
    after = page.locator("input[name=next]").first.get_attribute("value")
    page.goto(f"{link}?next={after.replace('&', '%26') if after else ''}")
    page.get_by_role("button", name="Sign in as bea").click()
    expect(page).to_have_url(f"{world.url}/breakpoints/{created['id']}?tag={tag}&sort=newest")


def test_times_are_shown_in_the_readers_time_zone(world: World, desk: Desk, tag: str) -> None:
    created = world.create(tags=[tag], ttlSeconds=300)
    page = desk(timezone_id="Asia/Tokyo", locale="en-GB")
    page.goto(f"{world.url}/breakpoints/{created['id']}")
    expect(page.locator("#standing .due")).to_have_class(re.compile("urgent"))
    expect(page.locator("#standing time")).to_have_text(re.compile(r"in 4:\d\d min"))
    expect(page.locator("#standing time")).to_have_attribute("title", re.compile(r"GMT\+9|JST"))


def test_browser_notifications_can_be_turned_on_and_off(world: World, desk: Desk) -> None:
    page = desk(permissions=["notifications"])
    page.goto(f"{world.url}/")
    button = page.locator("[data-action=notify]")
    expect(button).to_have_text("Turn on notifications")
    button.click()
    expect(button).to_have_text("Turn off notifications")
    page.reload()
    expect(button).to_have_text("Turn off notifications")
    button.click()
    expect(button).to_have_text("Turn on notifications")
