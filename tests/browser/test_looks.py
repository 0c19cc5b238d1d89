"""Every page is accessible, fits on phones, and never runs scripts from agents."""

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import ConsoleMessage, Dialog, Page, Request

from tests.browser.accessibility import DESK, PHONE, assert_accessible, assert_no_sideways_scroll
from tests.browser.conftest import Opener, World, on_one_database
from tests.web.corpus import XSS

pytestmark = on_one_database
LONG = "averylongwordwithoutanyplacetobreakit" * 6
RICH: dict[str, Any] = {
    "agentId": f"agent-{LONG}"[:200],
    "title": f"Deploy {LONG}",
    "tags": ["prod", LONG[:100]],
    "ttlSeconds": 86400,
    "payload": {
        "question": f"Deploy {LONG} to production?\n\nSecond line.",
        "breakpointId": f"deploy.{LONG}"[:200],
        "risk": "high",
        "attempt": 2,
        "previousFeedback": LONG,
        "expert": ["ann", "bea"],
        "strategy": "quorum",
        "options": ["Canary", LONG],
        "form": {
            "properties": {
                "budget": {"type": "integer", "title": f"Budget {LONG}"[:150], "description": LONG},
                "sure": {"type": "boolean"},
                "region": {"type": "string", "enum": ["eu", LONG]},
                "note": {"type": "string"},
            },
            "required": ["budget"],
        },
        "context": {
            "files": [
                {"path": f"src/{LONG}.py", "format": "code", "content": f"x = '{LONG * 10}'\n" * 50},
                {"path": "missing.log", "format": "text"},
                {"path": "dot.gif", "format": "image", "contentBase64": "R0lGODlhAQABAAAAACwAAAAAAQABAAAC"},
            ]
        },
    },
}


def _sign_in(page: Page, world: World, one: str) -> None:
    del one
    page.goto(f"{world.url}/sign-in")


def _link(page: Page, world: World, one: str) -> None:
    del one
    page.goto(world.link("bea"))


def _list(page: Page, world: World, one: str) -> None:
    del one
    page.goto(f"{world.url}/?status=all&tag=prod&sort=newest")


def _detail(page: Page, world: World, one: str) -> None:
    page.goto(world.url + one)


def _reject_without_reason(page: Page, world: World, one: str) -> None:
    page.goto(world.url + one)
    page.get_by_role("button", name="Reject…").click()
    page.get_by_text("is required when rejecting").first.wait_for()


def _confirm(page: Page, world: World, one: str) -> None:
    page.goto(world.url + one)
    page.get_by_label("Budget").fill("5")
    page.get_by_role("button", name="Canary").click()
    page.get_by_label("Type the gate name to approve").wait_for()


def _bulk(page: Page, world: World, one: str) -> None:
    del one
    page.goto(f"{world.url}/?tag=prod")
    page.locator(".pick input").first.dispatch_event("click")
    page.get_by_role("button", name="Reject selected…").click()
    page.get_by_label("Reason (sent to each agent)").or_(page.get_by_text("Not included")).first.wait_for()


def _help(page: Page, world: World, one: str) -> None:
    page.goto(world.url + one)
    page.locator("body").press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()


def _palette(page: Page, world: World, one: str) -> None:
    page.goto(world.url + one)
    page.locator("body").press("Control+k")
    page.get_by_role("combobox", name="Find an action").wait_for()


def _problem(page: Page, world: World, one: str) -> None:
    del one
    page.goto(f"{world.url}/problems/already_ended")


Going = Callable[[Page, World, str], None]
PAGES: dict[str, Going] = {
    "sign-in": _sign_in,
    "link": _link,
    "list": _list,
    "detail": _detail,
    "reject without reason": _reject_without_reason,
    "confirm": _confirm,
    "bulk": _bulk,
    "help": _help,
    "palette": _palette,
    "problem": _problem,
}
SIGNED_OUT = {"sign-in", "link", "problem"}


@pytest.fixture(scope="module")
def rich(world: World) -> str:
    return f"/breakpoints/{world.create(**RICH)['id']}"


@pytest.mark.parametrize(("width", "other"), [(PHONE, 320), (DESK, 768)])
@pytest.mark.parametrize("name", PAGES)
def test_pages_pass_axe_and_do_not_scroll_sideways(
    world: World, opened: Opener, ann_state: Any, rich: str, name: str, width: int, other: int
) -> None:
    page = opened(scripts=True, width=width, storage_state=None if name in SIGNED_OUT else ann_state).new_page()
    PAGES[name](page, world, rich)
    assert_accessible(page, name, [width])
    assert_no_sideways_scroll(page, name, other)


def test_buttons_are_large_enough_to_tap(world: World, opened: Opener, ann_state: Any, rich: str) -> None:
    """At least 24 px (WCAG 2.5.8), and 48 px for the Approve and Reject buttons."""
    page = opened(scripts=True, width=PHONE, storage_state=ann_state).new_page()
    page.goto(world.url + rich)
    for name in ("Canary…", "Reject…"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["height"] >= 48
    for button in page.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) >= 24


FORMATS = ("markdown", "html", "code", "text", "diff", "json")
AT_ONCE = 24


def test_agent_content_never_runs_scripts_or_contacts_other_servers(
    world: World, opened: Opener, ann_state: Any
) -> None:
    """Even with every attack in every field, there are no dialogs, requests to other servers or policy violations.

    Frames with HTML from agents are exempt: there, the content security policy is expected to block scripts.
    """
    page = opened(scripts=True, storage_state=ann_state).new_page()
    seen: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        seen.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def hear(message: ConsoleMessage) -> None:
        if not message.location["url"].endswith(("/frame", "about:srcdoc")):
            seen.append(f"console {message.text}")

    def failed(request: Request) -> None:
        if request.failure != "csp":
            seen.append(f"request {request.url} ({request.failure})")

    page.on("dialog", dismiss)
    page.on("requestfinished", lambda request: seen.append(f"request {request.url}"))
    page.on("requestfailed", failed)
    page.on("console", hear)
    for start in range(0, len(XSS), AT_ONCE):
        attacks = XSS[start : start + AT_ONCE]
        created = world.create(**_attacking(attacks))
        one = f"{world.url}/breakpoints/{created['id']}"
        page.goto(one)
        page.locator("#connection").wait_for()
        page.goto(f"{one}/files/1/frame")
        page.goto(f"{world.url}/?run={quote(attacks[0], safe='')}")
    bad = [each for each in seen if not each.startswith(f"request {world.url}/")]
    assert not bad, "\n".join(bad)


def _attacking(attacks: Sequence[str]) -> dict[str, Any]:
    together = "\n".join(attacks)
    files = [{"path": f"{n} {attacks[n]}", "format": each, "content": together} for n, each in enumerate(FORMATS)]
    return {
        "agentId": attacks[0],
        "runId": attacks[0],
        "title": attacks[-1],
        "tags": [text[:100] for text in attacks],
        "payload": {
            "question": together,
            "options": list(attacks),
            "previousFeedback": together,
            "attempt": 2,
            **dict.fromkeys(attacks, together),
            "form": {"properties": {text: {"type": "string", "title": text, "default": text} for text in attacks}},
            "context": {"files": files},
        },
    }
