"""The previous attempt: its feedback, and the changes since then."""

from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, signed_in


def asked(question: str = "Go?", *files: dict[str, Any], run: str | None = "r1", **payload: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"payload": {"question": question, "breakpointId": "gate.one", **payload}}
    if files:
        body["payload"]["context"] = {"files": list(files)}
    return body | ({"runId": run} if run else {})


def text(path: str, content: str, said: str = "text") -> dict[str, Any]:
    return {"path": path, "format": said, "content": content}


async def second(
    node: Node, clock: ManualClock, first: dict[str, Any], then: dict[str, Any]
) -> tuple[Visitor, str, Page]:
    """Create a breakpoint, reject it and create another one; return the ID of the first and the page of the second."""
    browser = await signed_in(node)
    one = await node.create(**first)
    await node.feedback(one["id"], await node.token("reviewer"), approved=False, comment="Smaller steps, please.")
    clock.advance(1)
    two = await node.create(**then)
    return browser, one["id"], await browser.page(f"/breakpoints/{two['id']}")


def difference(page: Page) -> str:
    return " ".join(page.text.split("Changed since the previous attempt")[1].split("Files from the agent")[0].split())


async def test_feedback_on_the_previous_attempt_appears_above_the_changes(node: Node, clock: ManualClock) -> None:
    _, one, page = await second(node, clock, asked("Go?"), asked("Go slowly?"))
    assert f"/breakpoints/{one}" in page.links()
    assert page.text.index("Smaller steps, please.") < page.text.index("Changed since the previous attempt")
    assert "rejected" in page.text


async def test_the_diff_covers_the_question_payload_and_files(node: Node, clock: ManualClock) -> None:
    _, _, page = await second(
        node,
        clock,
        asked("Go?", text("a.txt", "one\ntwo\n"), text("old.txt", "x"), score=82, kept=1),
        asked("Go slowly?", text("a.txt", "one\n2\n"), text("new.txt", "y"), score=85, kept=1, attempt=2),
    )
    seen = difference(page)
    for part in ("-Go?", "+Go slowly?", '- "score": 82', '+ "score": 85', "File a.txt", "-two", "+2"):
        assert part in seen, part
    assert "New file new.txt" in seen
    assert "File removed old.txt" in seen
    assert '- "kept"' not in seen
    assert '"attempt"' not in seen


async def test_an_unchanged_attempt_is_reported_as_unchanged(node: Node, clock: ManualClock) -> None:
    same = asked("Go?", text("a.txt", "one\n"))
    _, _, page = await second(
        node, clock, same, asked("Go?", text("a.txt", "one\n"), attempt=2, previousFeedback="none")
    )
    assert "No changes since the previous attempt" in page.text
    assert "Changed since" not in page.text


@pytest.mark.parametrize(
    "then",
    [
        asked("Go?", run=None),
        asked("Go?", run="r2"),
        {"runId": "r1", "payload": {"question": "Go?", "breakpointId": "gate.two"}},
    ],
    ids=["no run", "another run", "another gate"],
)
async def test_a_breakpoint_in_another_run_or_at_another_gate_is_not_a_previous_attempt(
    node: Node, clock: ManualClock, then: dict[str, Any]
) -> None:
    _, _, page = await second(node, clock, asked("Go?"), then)
    assert "previous attempt" not in page.text
    assert "Smaller steps" not in page.text


async def test_the_first_attempt_has_no_previous_attempt(node: Node, clock: ManualClock) -> None:
    browser, one, _ = await second(node, clock, asked("Go?"), asked("Go?"))
    assert "previous attempt" not in (await browser.page(f"/breakpoints/{one}")).text


async def test_files_that_cannot_be_compared_have_a_note(node: Node, clock: ManualClock) -> None:
    image = {"path": "b.png", "format": "image"}
    _, _, page = await second(
        node,
        clock,
        asked("Go?", text("a.txt", "x" * 300_000), image | {"contentBase64": "iVBORw0KGgo="}, text("c", "x")),
        asked(
            "Go?",
            text("a.txt", "y" * 300_000),
            image | {"contentBase64": "iVBORw0KGgoK"},
            {"path": "c", "format": "text"},
        ),
    )
    seen = difference(page)
    assert seen.count("The file is not text or is too long to compare here") == 2
    assert "Provided last time, but not this time." in seen


async def test_hidden_characters_in_a_change_are_made_visible(node: Node, clock: ManualClock) -> None:
    _, _, page = await second(node, clock, asked("Go?", text("a", "x\n")), asked("Go\u202e?", text("a", "\u200bx\n")))
    seen = difference(page)
    assert "+Go⟦U+202E⟧?" in seen
    assert "+⟦U+200B⟧x" in seen


async def test_files_with_the_same_name_are_matched_by_order(node: Node, clock: ManualClock) -> None:
    _, _, page = await second(
        node, clock, asked("Go?", text("a", "1\n"), text("a", "2\n")), asked("Go?", text("a", "1\n"), text("a", "3\n"))
    )
    assert "1-21+3" in difference(page)
    assert "-11" not in difference(page)


async def test_a_truncated_diff_says_that_lines_are_omitted(node: Node, clock: ManualClock) -> None:
    before = "".join(f"{n}\n" for n in range(3000))
    _, _, page = await second(
        node, clock, asked("Go?", text("a", before)), asked("Go?", text("a", before.replace("\n", "!\n")))
    )
    assert "more lines are not shown" in difference(page)
