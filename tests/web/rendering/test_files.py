"""Files are rendered by their actual content, and omissions are reported."""

import json
from typing import Any

import pytest
from markupsafe import Markup

from assent.breakpoints.pages import file_contents as files
from assent.breakpoints.store.files import FileEntry
from assent.web.rendering.cache import PER_ENTRY, Cache
from assent.web.rendering.frame import framed
from assent.web.rendering.rendered import Rendered
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import signed_in


def shown(content: bytes | None, said: str = "text", room: int = files.PAGE_CHARACTERS) -> files.ShownFile:
    return files.shown_file(FileEntry(0, "a/b", said, None, "0" * 64, None, content), room=room)


def test_a_file_without_content_is_shown_as_missing() -> None:
    assert shown(None).kind == "missing"


def test_a_truncated_file_reports_the_number_of_omitted_lines() -> None:
    made = shown(b"line\n" * (files.MAX_LINES + 7))
    assert (made.text.count("\n"), made.more_lines) == (files.MAX_LINES, 7)
    assert "Only the beginning is shown. The file size is 10 KiB." in made.notes


def test_a_short_file_is_shown_in_full() -> None:
    made = shown(b"one\ntwo\n")
    assert (made.kind, made.text, made.more_lines) == ("text", "one\ntwo\n", 0)


def test_a_single_overlong_line_is_truncated() -> None:
    made = shown(b"x" * (files.MAX_CHARACTERS + 1))
    assert (len(made.text), made.more_lines) == (files.MAX_CHARACTERS, 1)


@pytest.mark.parametrize("said", ["markdown", "json", "html", "diff", "code"])
@pytest.mark.parametrize("room", [0, -5])
def test_a_file_beyond_the_pages_text_limit_is_replaced_by_a_note(said: str, room: int) -> None:
    made = shown(b"x\n", said, room)
    assert (made.text, made.more_lines, made.notes) == (
        "",
        1,
        ("Not shown because the page has reached its text limit.",),
    )


@pytest.mark.parametrize(
    ("content", "said", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image", "image"),
        (b"GIF89a<script>", "text", "image"),
        (b"<svg onload=alert(1)>", "image", "binary"),
        (b"<script>alert(1)</script>", "html", "frame"),
        (b"# a", "markdown", "rich"),
        (b"\x7fELF\x00\x00", "text", "binary"),
        (b"\xff\xfe not utf-8", "text", "text"),
    ],
)
def test_detected_content_overrides_the_format_claimed_by_the_agent(content: bytes, said: str, kind: str) -> None:
    assert shown(content, said).kind == kind


def test_the_same_text_is_rendered_differently_in_each_format() -> None:
    assert len({shown(b"# a\n", said).html for said in ("markdown", "text", "diff", "json")}) == 4


def test_the_cache_evicts_the_least_recently_used_entry() -> None:
    kept = Cache(3 * (PER_ENTRY + 40))
    made: list[str] = []

    def get(key: str) -> None:
        def render() -> Rendered:
            made.append(key)
            return Rendered(Markup("x" * 10))

        kept.get(key, render)

    for key in "abcaada":
        get(key)
    assert made == ["a", "b", "c", "d"]
    get("b")
    assert made[4:] == ["b"], "the longest unused went"
    assert kept.bytes == 3 * (PER_ENTRY + 40)


def test_the_cache_skips_timed_out_and_oversized_results() -> None:
    kept = Cache(1_000)
    kept.get("hurried", lambda: Rendered(Markup("x"), hurried=True))
    kept.get("large", lambda: Rendered(Markup("x" * 1_000)))
    assert kept.bytes == 0


@pytest.mark.parametrize("tag", ["link", "base", "META", "Link"])
def test_elements_that_contact_other_servers_are_disabled_in_frames(tag: str) -> None:
    assert framed(f"<p><{tag} href=//evil.example>".encode()) == f"<p><x-{tag} href=//evil.example>"


FILES: list[dict[str, Any]] = [
    {"path": "a.md", "format": "markdown", "content": "# Plan\n\n<script>alert(1)</script>"},
    {"path": "a.html", "format": "html", "content": "<h1>Hi</h1><script>alert(1)</script>"},
    {"path": "a.json", "format": "json", "content": json.dumps({"n": list(range(500))})},
    {"path": "a.diff", "format": "diff", "content": "@@ -1 +1 @@\n-a\n+b\n"},
    {"path": "a.txt", "format": "text", "content": "x\n" * 5000},
    {"path": "gone.txt", "format": "text"},
]


async def _page(node: Node) -> tuple[str, Page, Any]:
    browser = await signed_in(node)
    created = await node.create(payload={"question": "Go?", "context": {"files": FILES}})
    one = f"/breakpoints/{created['id']}"
    return one, await browser.page(one), browser


async def test_a_page_shows_every_file_with_links_to_its_full_content(node: Node) -> None:
    one, page, _ = await _page(node)
    for n in range(5):
        assert page.links().count(f"{one}/files/{n}") == 2
    assert "3,000 more lines." in page.text
    assert "The agent listed this file but did not provide it." in page.text
    assert [copy["data-copy"] for copy in page.all("button") if "data-copy" in copy][:5] == [
        f"#file-{n}-source" for n in range(5)
    ]
    assert {frame["src"] for frame in page.all("iframe")} == {f"{one}/files/1/frame"}
    assert [frame.get("sandbox") for frame in page.all("iframe")] == [""]


async def test_framed_html_is_served_in_a_sandbox_without_scripts(node: Node) -> None:
    one, _, browser = await _page(node)
    answer = await browser.get(f"{one}/files/1/frame")
    policy = answer.headers["content-security-policy"]
    assert answer.text == "<h1>Hi</h1><script>alert(1)</script>"
    assert policy.startswith("sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("n", ["0", "5", "9", "-1", "x"])
async def test_only_existing_html_files_have_a_frame(node: Node, n: str) -> None:
    one, _, browser = await _page(node)
    assert (await browser.get(f"{one}/files/{n}/frame")).status_code == 404


async def test_reading_a_frame_requires_signing_in(node: Node) -> None:
    one, _, browser = await _page(node)
    browser.client.cookies.clear()
    assert (await browser.get(f"{one}/files/1/frame")).status_code == 303
