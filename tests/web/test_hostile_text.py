"""Content from agents is always shown as text, and hidden characters in it are always visible."""

import re
from typing import Any

import pytest

from tests.support.nodes import ManualClock, Node
from tests.web.corpus import SPOOFS, XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, person, signed_in

HARMLESS = "harmless"


def hostile(text: str) -> dict[str, Any]:
    """Return a breakpoint with the text in every field that an agent can set."""
    word = "".join(text.split()) or HARMLESS
    return {
        "agentId": text,
        "title": text,
        "runId": text,
        "tags": [text[:100]],
        "ttlSeconds": 300,
        "payload": {
            "question": text,
            "breakpointId": word,
            "previousFeedback": text,
            "attempt": 2,
            "expert": ["ann", text],
            "options": [text, f"{text} too"],
            text: text,
            "nested": {text: [text, {text: text}]},
            "form": {
                "title": text,
                "description": text,
                "properties": {
                    text: {"type": "string", "title": text, "description": text, "default": text},
                    f"{text}2": {"type": "string", "enum": [text, "b"], "title": text, "description": text},
                    f"{text}3": {"type": "boolean", "title": text, "description": text},
                    f"{text}4": {"type": "string", "maxLength": 200, "default": text},
                },
            },
            "context": {
                "runId": text,
                "files": [
                    {"path": text, "format": "html", "content": text, "language": text[:50]},
                    {"path": text, "format": "image", "contentBase64": "iVBORw0KGgo="},
                    {"path": text, "format": "text"},
                ],
            },
        },
    }


async def pages_about(node: Node, browser: Visitor, clock: ManualClock, text: str) -> list[Page]:
    """Create the breakpoint, comment on it, and return every page that shows any of its content."""
    created = await node.create(**hostile(text))
    one = f"/breakpoints/{created['id']}"
    await node.feedback(created["id"], await node.token("agent"), comment=text)
    key = (await browser.page(one)).form("/confirm").fields
    filled_in = {
        "comment": text,
        "option": "0",
        "field-0": text,
        "field-1": "0",
        "field-2": "yes",
        "field-3": text[:200],
    }
    confirm = await browser.post(f"{one}/confirm", key | filled_in | {"decision": "approve"})
    assert confirm.status_code == 200, confirm.text
    refused = await browser.post(f"{one}/confirm", key | filled_in | {"decision": "approve", "option": text})
    query = {"agent": text, "gate": created["gate"], "tag": text[:100], "status": "all"}
    pages = [
        await browser.page(one),
        Page(confirm.text),
        Page(refused.text),
        Page((await browser.get("/", params=query)).text),
        Page((await browser.get("/", params={"q": text, "agent": "nobody of this name"})).text),
        Page((await browser.get("/sign-in", params={"next": text})).text or "<p></p>"),
    ]
    clock.advance(1)  # comments with equal timestamps have no defined order
    await node.feedback(created["id"], await node.token("reviewer"), approved=False, comment=text)
    return [*pages, await browser.page(one)]


def test_the_corpus_contains_at_least_200_attacks() -> None:
    assert len(set(XSS)) >= 200


async def test_hostile_text_never_changes_the_structure_of_a_page(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node)
    expected = [page.structure for page in await pages_about(node, browser, clock, HARMLESS)]
    for text in XSS:
        found = await pages_about(node, browser, clock, text)
        assert [page.structure for page in found] == expected, text
        assert text in found[0].text, "it is there to be read"
        for page in found:
            for _, attributes in page.elements:
                for name in ("href", "src", "action"):
                    assert attributes.get(name, "/").startswith(("/", "#")), (text, attributes)
                    assert not attributes.get(name, "/").startswith("//"), (text, attributes)


@pytest.mark.parametrize("text", XSS[:10])
async def test_a_hostile_username_on_the_sign_in_page_is_displayed_as_text(node: Node, text: str) -> None:
    browser = await signed_in(node)
    answer = await browser.sign_in(text, "wrong")
    harmless = await browser.sign_in(HARMLESS, "wrong")
    assert Page(answer.text).structure == Page(harmless.text).structure


# Texts that the API accepts: it rejects lone surrogates everywhere, and control characters in names and paths.
WRITTEN = {name: each for name, each in SPOOFS.items() if name != "a lone surrogate"}
NAMEABLE = {
    name: each for name, each in WRITTEN.items() if not any(mark < " " or "\x7f" <= mark < "\xa0" for mark in each[0])
}


@pytest.mark.parametrize(("text", "shown"), WRITTEN.values(), ids=WRITTEN.keys())
async def test_spoofing_characters_are_made_visible_everywhere_on_a_page(node: Node, text: str, shown: str) -> None:
    browser = await signed_in(node)
    in_names = (text, shown) in NAMEABLE.values()
    body = hostile(text if in_names else HARMLESS)
    body["title"] = body["payload"]["question"] = text
    body["payload"]["context"]["files"][0]["content"] = text
    body["payload"]["options"][0] = body["payload"]["previousFeedback"] = text
    created = await node.create(**body)
    await node.feedback(created["id"], await node.token("agent"), comment=text)
    one = f"/breakpoints/{created['id']}"
    key = (await browser.page(one)).form("/confirm").fields
    confirm = await browser.post(f"{one}/confirm", key | {"decision": "approve", "option": "0", "comment": "x"})
    for page in (await browser.page(one), Page(confirm.text), await browser.page("/")):
        assert text not in page.text
        assert shown in page.text or " ".join(shown.split()) in page.text
        for tag, attributes in page.elements:
            if tag not in {"input", "textarea"}:
                assert not any(text in value for value in attributes.values()), (tag, attributes)


async def test_agent_text_cannot_change_the_direction_of_surrounding_text(node: Node) -> None:
    """Right-to-left and left-to-right text from agents is always inside an element that isolates its direction."""
    await person(node, "bea", "reviewer", password=None)
    browser = await signed_in(node)
    text = "لا تحذف"
    created = await node.create(agentId=text, title=text, tags=[text], payload={"question": text, "options": [text]})
    answer = await browser.get(f"/breakpoints/{created['id']}")
    body = answer.text[answer.text.index("<main") :]
    places = [found.start() for found in re.finditer(text, body)]
    assert len(places) > 5
    for place in places:
        opened = max(body.rfind(mark, 0, place) for mark in ("<bdi", 'dir="auto"', "<pre"))
        closed = max(body.rfind(mark, 0, place) for mark in ("</bdi>", "</div>", "</pre>"))
        assert opened > closed, body[place - 200 : place]
