"""Takes screenshots of every page (light, dark and phone): `python -m tests.browser.screenshots [--out FOLDER]`."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Page, sync_playwright

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.browser.chromium import FLAGS, NONE, executable
from tests.browser.conftest import World, signed_in_state
from tests.browser.lifelike import SECRETS, Lifelike, seed
from tests.support.nodes import server

UNDO_SECONDS = 60
ROOT = Path(__file__).parents[2]
DESK, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
MODES: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESK, "color_scheme": "light"},
    "dark": {"viewport": DESK, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "is_mobile": True, "has_touch": True},
}
README = {"inbox.png": "light/release.png", "metrics-dark.png": "dark/metrics.png", "phone.png": "phone/release.png"}


@dataclass
class Scene:
    """A page to take a screenshot of, and the data that it shows."""

    page: Page
    world: World
    story: Lifelike
    run: str

    def go(self, path: str) -> None:
        self.page.goto(self.world.url + path)

    def waiting(self, title: str) -> None:
        """Open a pending breakpoint by its title."""
        self.go("/")
        address = self.page.locator("#rows .title", has_text=title).first.get_attribute("href")
        self.go(address or "/")

    @property
    def is_phone(self) -> bool:
        return self.page.viewport_size == PHONE


def _to(path: str) -> Callable[[Scene], None]:
    return lambda scene: scene.go(path)


def _link(scene: Scene) -> None:
    scene.page.goto(scene.world.link("jonas"))


def _detail(scene: Scene) -> None:
    scene.go(f"/breakpoints/{scene.story.ledger}")


def _release(scene: Scene) -> None:
    scene.waiting("Deploy shop 4.12")


def _files(scene: Scene) -> None:
    _detail(scene)
    scene.page.locator(".file", has_text="rehearsal.json").last.scroll_into_view_if_needed()


def _pictures(scene: Scene) -> None:
    _detail(scene)
    scene.page.locator(".file", has_text="rehearsal.log").last.scroll_into_view_if_needed()


def _history(scene: Scene) -> None:
    _detail(scene)
    scene.page.locator(".history, #live").last.scroll_into_view_if_needed()
    scene.page.locator("main.detail").evaluate("each => each.scrollTo(0, each.scrollHeight)")
    scene.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")


def _ended(scene: Scene) -> None:
    scene.go(f"/breakpoints/{scene.story.ended}")


def _confirm(scene: Scene) -> None:
    scene.waiting("Deploy shop 4.12")
    scene.page.get_by_role("button", name="Approve…").click()
    scene.page.get_by_role("dialog").wait_for()


def _typed(scene: Scene) -> None:
    scene.waiting("Drop the index")
    scene.page.get_by_role("button", name="Approve…").click()
    scene.page.get_by_role("dialog").wait_for()


def _bulk(scene: Scene) -> None:
    scene.go("/?tag=routine")
    for box in scene.page.locator(".pick input").all():
        box.dispatch_event("click")
    scene.page.get_by_role("button", name="Approve selected…").click()
    scene.page.get_by_role("dialog").wait_for()


def _toast(scene: Scene) -> None:
    scene.waiting("Publish the release notes")
    scene.page.get_by_role("button", name="Approve…").click()
    scene.page.get_by_role("dialog").get_by_role("button", name="Approve", exact=True).click()
    scene.page.locator("#notice").get_by_role("button", name="Undo").wait_for()


def _undone(scene: Scene) -> None:
    scene.page.locator("#notice").get_by_role("button", name="Undo").click()
    scene.page.locator("#notice", has_text="Undone").wait_for()


def _help(scene: Scene) -> None:
    scene.go("/")
    scene.page.keyboard.press("?")
    scene.page.locator("#help").wait_for()


def _palette(scene: Scene) -> None:
    scene.go("/")
    scene.page.keyboard.press("Control+k")
    scene.page.locator("#palette").wait_for()


def _menu(scene: Scene) -> None:
    scene.go("/")
    if scene.is_phone:
        scene.page.locator(".menu > summary").click()


def _always(scene: Scene) -> None:
    scene.waiting("Publish the release notes")
    scene.go(scene.page.url.removeprefix(scene.world.url).partition("?")[0] + "/always")


def _rule(scene: Scene) -> None:
    scene.go("/rules")
    scene.page.get_by_role("link", name="docs.publish").first.click()
    scene.page.get_by_role("heading", level=1, name="docs.publish").wait_for()


def _new_rule(scene: Scene) -> None:
    scene.go("/rules/new?pattern=deploy.production(tags contains 'prod')")
    scene.page.locator("#backtest canvas").first.wait_for()


def _metrics(scene: Scene) -> None:
    scene.go("/insights?period=30d")
    scene.page.locator("figure canvas").nth(2).wait_for()


def _run(scene: Scene) -> None:
    scene.go(f"/runs/{scene.run}")
    scene.page.get_by_text("Waiting for an answer.").wait_for()


def _about(path: str) -> Callable[[Scene], None]:
    """Open a page whose path contains an ID from the story, such as `{chat}` or `{dead}`."""
    return lambda scene: scene.go(path.format(**vars(scene.story)))


def _tried(scene: Scene) -> None:
    scene.go(f"/triggers/new?event={scene.story.event}")
    scene.page.get_by_role("button", name="Test trigger").click()
    scene.page.locator(".verdict").wait_for()


def _run_part(part: str) -> Callable[[Scene], None]:
    return lambda scene: scene.go(f"/runs/{scene.run}/{part}")


Going = Callable[[Scene], None]
SIGNED_OUT: dict[str, Going] = {
    "sign-in": _to("/sign-in"),
    "link": _link,
    "problem": _to("/problems/already_ended"),
}
EMPTY: dict[str, Going] = {f"empty-{name}": _to(path) for name, path in (
    ("inbox", "/"), ("rules", "/rules"), ("gates", "/gates"), ("metrics", "/insights"), ("runs", "/runs"),
    ("triggers", "/triggers"), ("events", "/events"), ("firings", "/firings"), ("sources", "/sources"),
    ("schedule", "/schedule"),
)}  # fmt: skip
SIGNED_IN: dict[str, Going] = {
    "inbox": _to("/"), "inbox-all": _to("/?status=all"), "no-match": _to("/?tag=nothing"), "menu": _menu,
    "release": _release,
    "detail": _detail, "detail-files": _files, "detail-pictures": _pictures, "detail-history": _history,
    "ended": _ended, "tool-call": lambda scene: scene.waiting("Edit settings"),
    "options": lambda scene: scene.waiting("Choose how"),
    "form": lambda scene: scene.waiting("Set up"),
    "confirm": _confirm, "confirm-typed": _typed, "bulk": _bulk, "toast": _toast, "undone": _undone,
    "help": _help, "palette": _palette, "always": _always,
    "rules": _to("/rules"), "rule": _rule, "rule-new": _new_rule, "rule-import": _to("/rules/import"),
    "gates": _to("/gates"), "gate": _to("/gates/deploy.production"), "metrics": _metrics,
    "runs": _to("/runs"), "run": _run, "run-cancel": _run_part("cancel"), "run-start": _to("/runs/start"),
    "triggers": _to("/triggers"), "trigger": _about("/triggers/{trigger}"), "trigger-tried": _tried,
    "trigger-new": _about("/triggers/new?event={event}"), "events": _to("/events"), "event": _about("/events/{event}"),
    "event-test": _about("/events/{event}/test"), "firings": _to("/firings"), "sources": _to("/sources"),
    "firings-held": _to("/firings?state=held"), "firings-dead": _to("/firings?state=dead"),
    "source": _about("/sources/{github}"), "source-new": _to("/sources/new?kind=schedule"),
    "schedule": _to("/schedule"),
    "people": _to("/admin/people"), "person": _to("/admin/people/jonas"), "groups": _to("/admin/groups"),
    "tokens": _to("/admin/tokens"), "projects": _to("/admin/projects"), "retention": _to("/admin/retention"),
    "deliveries": _to("/deliveries"), "deliveries-dead": _to("/deliveries?state=dead"),
    "delivery": _about("/deliveries/{dead}"), "channels": _to("/admin/channels"),
    "channel": _about("/admin/channels/{chat}"), "channel-new": _to("/admin/channels/new?type=slack"),
    "channel-remove": _about("/admin/channels/{chat}/remove"),
    "routes": _to("/admin/routes"), "route-new": _to("/admin/routes/new"),
    "route-try": _to("/admin/routes/try?gate=billing.migrate&expert=mia+priya"),
    "link-identity": _about("/link/{offer}"),
    "audit": _to("/admin/audit"), "account": _to("/account"), "not-found": _to("/runs/run_nothing"),
}  # fmt: skip
IN_VIEW = {
    "release", "inbox", "inbox-all", "no-match", "menu",
    "detail", "detail-files", "detail-pictures", "detail-history", "ended",
    "tool-call", "options", "form", "confirm", "confirm-typed", "bulk", "toast", "undone", "help", "palette",
    "empty-inbox",
}  # fmt: skip
"""Screenshots of only the visible part, because a pane scrolls instead of the page or an overlay covers it."""


def started(world: World, admin: str) -> str:
    """Start two runs over the API; return the one that waits for an answer."""
    headers = {"authorization": f"Bearer {admin}"}
    found = ""
    for process, inputs in (("nightly-tidy", {"days": 30}), ("release", {"version": "4.12"})):
        body = {"process": process, "inputs": inputs}
        answer = httpx2.post(f"{world.url}/api/runs", headers=headers, json=body, timeout=60)
        answer.raise_for_status()
        found = answer.json()["id"]
    return found


def _shoot(browser: Browser, world: World, story: Lifelike, out: Path, only: set[str]) -> None:
    run = started(world, story.admin)
    states = {name: signed_in_state(world, browser, name) for name in ("mia", "nils")}
    parts: list[tuple[dict[str, Going], Any]] = [
        (SIGNED_IN, states["mia"]),
        (EMPTY, states["nils"]),
        (SIGNED_OUT, None),
    ]
    for mode, options in MODES.items():
        folder = out / mode
        folder.mkdir(parents=True, exist_ok=True)
        for scenes, state in parts:
            context = browser.new_context(storage_state=state, reduced_motion="reduce", **options)
            scene = Scene(context.new_page(), world, story, run)
            for name, going in scenes.items():
                if only and name not in only:
                    continue
                going(scene)
                if not scene.is_phone and name in IN_VIEW:
                    scene.page.mouse.move(0, 0)
                scene.page.screenshot(path=folder / f"{name}.png", full_page=name not in IN_VIEW)
            context.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages; all of them when none is given")
    given = parser.parse_args()
    path = executable()
    if path is None:
        sys.stderr.write(NONE + "\n")
        return 1
    with tempfile.TemporaryDirectory() as kept, ThreadPoolExecutor(1) as thread:
        settings = Settings(data_dir=Path(kept) / "data", undo_seconds=UNDO_SECONDS)
        migrate(settings)
        # In another thread, because Playwright's event loop occupies this one.
        story = thread.submit(asyncio.run, seed(settings)).result()
        log = Path(kept) / "server.log"
        with (
            server(settings, log=log, undo_seconds=str(UNDO_SECONDS), **SECRETS) as process,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
            _shoot(browser, World(process.url, settings, story.agent), story, given.out, set(given.only))
            browser.close()
    if not given.only:
        images = ROOT / "docs" / "images"
        images.mkdir(parents=True, exist_ok=True)
        for name, taken in README.items():
            shutil.copyfile(given.out / taken, images / name)
    sys.stdout.write(f"The pictures are in {given.out}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
