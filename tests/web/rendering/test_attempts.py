"""The attempt before: what was said about it, and what changed since."""

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
    """Ask, reject with a reason, ask again; return the page of the second and the id of the first."""
    browser = await signed_in(node)
    one = await node.create(**first)
    await node.feedback(one["id"], await node.token("reviewer"), approved=False, comment="Smaller steps, please.")
    clock.advance(1)
    two = await node.create(**then)
    return browser, one["id"], await browser.page(f"/breakpoints/{two['id']}")


def difference(page: Page) -> str:
    return " ".join(page.text.split("Changed since the previous attempt")[1].split("Files from the agent")[0].split())


async def test_what_people_said_stands_before_what_changed(node: Node, clock: ManualClock) -> None:
    _, one, page = await second(node, clock, asked("Go?"), asked("Go slowly?"))
    assert f"/breakpoints/{one}" in page.links()
    assert page.text.index("Smaller steps, please.") < page.text.index("Changed since the previous attempt")
    assert "rejected" in page.text


async def test_question_payload_and_files_are_compared(node: Node, clock: ManualClock) -> None:
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


async def test_an_attempt_like_the_last_one_is_called_that(node: Node, clock: ManualClock) -> None:
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
async def test_another_run_or_gate_is_no_attempt_before(node: Node, clock: ManualClock, then: dict[str, Any]) -> None:
    _, _, page = await second(node, clock, asked("Go?"), then)
    assert "previous attempt" not in page.text
    assert "Smaller steps" not in page.text


async def test_the_first_attempt_has_none_before(node: Node, clock: ManualClock) -> None:
    browser, one, _ = await second(node, clock, asked("Go?"), asked("Go?"))
    assert "previous attempt" not in (await browser.page(f"/breakpoints/{one}")).text


async def test_what_cannot_be_compared_says_so(node: Node, clock: ManualClock) -> None:
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


async def test_a_spoof_in_a_change_is_seen_through(node: Node, clock: ManualClock) -> None:
    _, _, page = await second(node, clock, asked("Go?", text("a", "x\n")), asked("Go\u202e?", text("a", "\u200bx\n")))
    seen = difference(page)
    assert "+Go⟦U+202E⟧?" in seen
    assert "+⟦U+200B⟧x" in seen


async def test_two_files_of_one_name_are_told_apart_by_their_order(node: Node, clock: ManualClock) -> None:
    _, _, page = await second(
        node, clock, asked("Go?", text("a", "1\n"), text("a", "2\n")), asked("Go?", text("a", "1\n"), text("a", "3\n"))
    )
    assert "1-21+3" in difference(page)
    assert "-11" not in difference(page)


async def test_a_long_difference_says_what_is_left_out(node: Node, clock: ManualClock) -> None:
    before = "".join(f"{n}\n" for n in range(3000))
    _, _, page = await second(
        node, clock, asked("Go?", text("a", before)), asked("Go?", text("a", before.replace("\n", "!\n")))
    )
    assert "more lines are not shown" in difference(page)
