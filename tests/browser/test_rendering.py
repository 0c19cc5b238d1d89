"""Content from agents in a real browser with scripts: it is rendered but inert."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Opener, World

HTML = """
<link rel=preconnect href={evil}><base href={evil}/>
<meta http-equiv=refresh content="0;url={evil}/gone">
<h1>Report</h1><img src={evil}/pixel.png onerror="document.body.id='ran'">
<script>document.body.id = "ran"; parent.document.title = "ran"</script>
<form action=/sign-out method=post target=_top><button>Approve</button></form>
<a href=/ target=_top>Home</a>
"""
MARKDOWN = "# Plan\n\n![x]({evil}/p.png) <img src=x onerror=alert(1)> [bank]({evil})"


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A listening socket on which no connection may arrive."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def test_html_from_agents_is_rendered_in_an_inert_frame(
    world: World, opened: Opener, ann_state: Any, stranger: socket.socket
) -> None:
    evil = f"http://127.0.0.1:{stranger.getsockname()[1]}"
    files = [
        {"path": "report.html", "format": "html", "content": HTML.replace("{evil}", evil)},
        {"path": "plan.md", "format": "markdown", "content": MARKDOWN.replace("{evil}", evil)},
    ]
    created = world.create(payload={"question": "Go?", "context": {"files": files}})
    page = opened(scripts=True, storage_state=ann_state).new_page()
    page.goto(f"{world.url}/breakpoints/{created['id']}")
    page.locator("iframe.frame").scroll_into_view_if_needed()
    frame = page.frame_locator("iframe.frame")
    frame.get_by_role("heading", name="Report").wait_for()
    before = page.url
    frame.get_by_role("button", name="Approve").click()
    frame.get_by_role("link", name="Home").click()
    assert frame.locator("#ran").count() == 0
    assert frame.get_by_role("heading", name="Report").is_visible()
    assert page.url == before
    assert page.title() != "ran"
    assert page.get_by_role("heading", name="Plan", level=3).is_visible()
    assert page.locator(".rich img").count() == 0
    with pytest.raises(BlockingIOError):
        stranger.accept()
