"""Triggers in a real browser: from a failed build to a run that a person approves, and the layout of every page."""

import hashlib
import hmac
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import Opener, World, on_one_database, running, signed_in_state

LONG = "averylongwordwithoutanyplacetobreakit" * 6
SECRET = "it is a secret to everybody"
FIX = """
    from assent import process

    def find_reason(repo, sha):
        return {"reason": f"{repo}@{sha}: a test is red"}

    @process
    async def fix_ci(inputs, ctx):
        "Looks why a build is red, asks, and repairs it."
        found = await ctx.task(find_reason, inputs["repo"], inputs["sha"])
        ctx.log("found the reason", found)
        review = await ctx.breakpoint(f"Push the repair of {inputs['repo']}?", title="Push the repair")
        return {"pushed": review.approved, "because": inputs["event"]["type"]}
"""


@pytest.fixture(scope="module")
def watched_world(kind: str, postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server with the secret of a GitHub webhook and a process that repairs failed builds."""
    folder: Path = tmp_path_factory.mktemp("triggers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_HOOK_SECRET", SECRET)
        patch.setenv("ASSENT_CHANNEL_SECRETS", "env:*")
        with running(kind, folder, postgres_url, undo_seconds=0) as found:
            processes = found.settings.process_folder
            processes.mkdir(parents=True, exist_ok=True)
            (processes / "fix_ci.py").write_text(textwrap.dedent(FIX))
            yield found


@pytest.fixture(scope="module")
def seats(watched_world: World, chromium: Browser) -> dict[str, Any]:
    return {name: signed_in_state(watched_world, chromium, name) for name in ("ann", "root")}


@pytest.fixture
def root(opened: Opener, seats: dict[str, Any]) -> Page:
    """A page without scripts for a person who has every role."""
    return opened(storage_state=seats["root"]).new_page()


@pytest.fixture
def ann(opened: Opener, seats: dict[str, Any]) -> Page:
    return opened(storage_state=seats["ann"]).new_page()


def set_up(root: Page, world: World, name: str) -> None:
    """Create a GitHub source with the form."""
    root.goto(f"{world.url}/sources")
    root.get_by_role("link", name="GitHub", exact=True).click()
    root.get_by_label("Name", exact=True).fill(name)
    root.get_by_label("Secrets", exact=True).fill("env:GITHUB_HOOK_SECRET")
    root.get_by_role("button", name="Create source").click()
    expect(root.locator(".notice")).to_contain_text("Created.")
    expect(root.locator(".copyable", has_text=f"/hooks/{name}")).to_be_visible()


def write(root: Page, world: World, name: str, source: str, *, hold: bool = False) -> None:
    """Create a trigger with the form, after testing it there."""
    root.goto(f"{world.url}/triggers/new")
    root.get_by_label("Name", exact=True).fill(name)
    pattern = f"github.workflow-run.completed(source = '{source}' AND branch = 'main' AND conclusion = 'failure')"
    root.get_by_label("Events", exact=True).fill(pattern)
    root.get_by_label("Process", exact=True).select_option("fix-ci")
    root.get_by_label("Inputs (optional)").fill("repo = {{ event.repo }}\nsha = {{ event.sha }}")
    if hold:
        root.get_by_label("Require approval before the run starts").check()
    root.get_by_role("button", name="Test trigger").click()
    expect(root.locator(".verdict")).to_be_visible()
    expect(root.get_by_label("Events", exact=True)).to_have_value(pattern)
    root.get_by_role("button", name="Create trigger").click()
    expect(root.locator(".notice")).to_contain_text("Created.")


def post(world: World, source: str, delivery: str, **changes: Any) -> httpx2.Response:
    """Post a signed event about a failed build, as GitHub does."""
    run = {
        "id": 30433642, "name": "CI", "head_branch": "main", "head_sha": "acb5820ced9479c074f688cc328bf03f341a511d",
        "conclusion": "failure", "event": "push", "status": "completed", "run_attempt": 1,
        "html_url": "https://github.com/acme/shop/actions/runs/30433642", "display_title": "Charge once",
    }  # fmt: skip
    body = {
        "action": "completed",
        "workflow_run": run | changes,
        "workflow": {"name": "CI", "path": ".github/workflows/ci.yml"},
        "repository": {"full_name": "acme/shop", "html_url": "https://github.com/acme/shop"},
        "sender": {"login": "octocat", "type": "User"},
    }
    raw = json.dumps(body).encode()
    headers = {
        "content-type": "application/json",
        "x-github-event": "workflow_run",
        "x-github-delivery": delivery,
        "x-hub-signature-256": "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest(),
    }
    return httpx2.post(f"{world.url}/hooks/{source}", content=raw, headers=headers, timeout=60)


def follow(page: Page, world: World, event: str, state: str) -> None:
    """Wait until the list shows the event in this state, then open it."""
    page.goto(f"{world.url}/events")
    row = page.locator("tr", has=page.locator(f'a[href="/events/{event}"]'))
    while not row.get_by_text(state, exact=True).count():
        page.reload()
    page.locator(f'a[href="/events/{event}"]').first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("github.workflow-run.completed")


def waiting_run(page: Page) -> None:
    """Reload a run's page until the run waits for an answer."""
    while not page.get_by_text("Waiting for an answer.").count():
        page.reload()


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Approve", exact=True).click()


def finished(page: Page, world: World, run: str) -> None:
    page.goto(world.url + run)
    while page.locator(".run-state .state").inner_text() not in {"done", "failed"}:
        page.reload()
    expect(page.locator(".run-state .state")).to_have_text("done")
    expect(page.get_by_text('"pushed": true').first).to_be_visible()


def test_a_failed_build_starts_a_run_that_finishes_after_approval(watched_world: World, root: Page, ann: Page) -> None:
    world = watched_world
    set_up(root, world, "github")
    write(root, world, "fix-red-main", "github")
    answer = post(world, "github", "d-1")
    assert answer.status_code == 202, answer.text
    event = answer.json()["eventId"]
    again = post(world, "github", "d-1")
    assert (again.status_code, again.json()["duplicate"]) == (200, True), "sent again, it starts nothing"

    follow(ann, world, event, "matched")
    expect(ann.locator(".lead-line")).to_contain_text("1 trigger matched: 1 run started.")
    expect(ann.locator(".trace").first).to_contain_text("conclusion = 'failure'")
    ann.get_by_role("link", name="Run of fix-ci").click()
    run = ann.url.removeprefix(world.url)
    waiting_run(ann)
    ann.locator(".run-waits a").click()
    approve(ann)
    finished(ann, world, run)

    ann.get_by_role("link", name="this event").click()
    expect(ann).to_have_url(f"{world.url}/events/{event}")
    ann.goto(f"{world.url}/runs?trigger=fix-red-main")
    expect(ann.locator("tbody tr")).to_have_count(1)
    expect(ann.locator("tbody")).to_contain_text("trigger fix-red-main")
    ann.get_by_role("link", name="event that started this run").click()
    expect(ann).to_have_url(f"{world.url}/events/{event}")


def test_a_trigger_with_a_hold_requires_approval_before_the_run_starts(
    watched_world: World, root: Page, ann: Page
) -> None:
    world = watched_world
    set_up(root, world, "github-held")
    write(root, world, "held-red-main", "github-held", hold=True)
    event = post(world, "github-held", "h-1").json()["eventId"]
    follow(ann, world, event, "1 held")
    expect(ann.locator("#firings")).to_contain_text("waiting for approval")
    ann.locator('#firings a[href^="/breakpoints/"]').click()
    approve(ann)
    ann.goto(f"{world.url}/events/{event}")
    while not ann.get_by_role("link", name="Run of fix-ci").count():
        ann.reload()
    ann.get_by_role("link", name="Run of fix-ci").click()
    run = ann.url.removeprefix(world.url)
    waiting_run(ann)
    ann.locator(".run-waits a").click()
    approve(ann)
    finished(ann, world, run)


def test_an_event_with_an_invalid_signature_is_counted_but_not_stored(watched_world: World, root: Page) -> None:
    world = watched_world
    set_up(root, world, "github-strict")
    headers = {"x-github-event": "push", "x-hub-signature-256": "sha256=" + "0" * 64}
    answer = httpx2.post(
        f"{world.url}/hooks/github-strict", json={"ref": "refs/heads/main"}, headers=headers, timeout=60
    )
    assert answer.status_code == 401
    root.goto(f"{world.url}/sources")
    row = root.locator("tr", has_text="github-strict")
    while not row.get_by_text("1 time").count():
        root.reload()
    root.goto(f"{world.url}/events?source=github-strict")
    expect(root.get_by_text("No events match these filters")).to_be_visible()


def test_new_events_appear_live_in_the_list(watched_world: World, root: Page, opened: Opener, seats: Any) -> None:
    world = watched_world
    set_up(root, world, "github-live")
    page = opened(scripts=True, storage_state=seats["ann"]).new_page()
    page.goto(f"{world.url}/events?source=github-live")
    expect(page.get_by_text("No events match these filters")).to_be_visible()
    event = post(world, "github-live", "l-1", head_branch="dev").json()["eventId"]
    expect(page.locator(f'a[href="/events/{event}"]').first).to_be_visible(timeout=60_000)


@on_one_database
def test_pages_pass_axe_and_do_not_scroll_sideways(
    watched_world: World, root: Page, opened: Opener, seats: dict[str, Any]
) -> None:
    world, name = watched_world, "seen"
    set_up(root, world, name)
    source = root.url.partition("?")[0].removeprefix(world.url)
    write(root, world, name, name, hold=True)
    trigger = root.url.partition("?")[0].removeprefix(world.url)
    event = post(world, name, "s-1", display_title=LONG, name=LONG).json()["eventId"]
    follow(root, world, event, "1 held")
    root.goto(f"{world.url}/sources/new?kind=schedule")
    root.get_by_label("Name", exact=True).fill("nightly")
    root.get_by_label("Cron expression", exact=True).fill("30 2 * * 1-5")
    root.get_by_label("Time zone (optional)").fill("Europe/Paris")
    root.get_by_role("button", name="Create source").click()
    expect(root.locator(".notice")).to_contain_text("Created.")
    paths = [
        "/triggers", "/triggers/new", f"/triggers/new?event={event}", trigger, f"{trigger}/remove", "/events",
        "/events?type=nothing", f"/events/{event}", f"/events/{event}/test", "/firings", "/firings?state=held",
        "/firings?state=dead", "/sources", "/sources/new?kind=webhook", source, f"{source}/remove", "/schedule",
        "/runs",
    ]  # fmt: skip
    page = opened(scripts=True, storage_state=seats["root"]).new_page()
    for path in paths:
        page.goto(world.url + path)
        assert_accessible(page, path)
    page.goto(f"{world.url}/triggers/new?event={event}")
    page.get_by_role("button", name="Test trigger").click()
    expect(page.locator(".verdict").or_(page.get_by_role("alert"))).to_be_visible()
    assert_accessible(page, "a trial")
