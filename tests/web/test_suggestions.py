"""Search suggestions: matching gates, agents and tags, each with a link to a filtered list."""

from urllib.parse import parse_qs, urlsplit

import pytest

from assent.core.access import Kind, Principal
from tests.db.making import create
from tests.support.nodes import Node
from tests.web.reading import Page
from tests.web.visitors import Visitor, signed_in

FRAGMENT = {"HX-Request": "true", "HX-Target": "div#suggestions"}


async def suggested(browser: Visitor, **query: str) -> dict[str, str]:
    """Return the URLs of the suggestions by their text."""
    answer = await browser.client.get("/suggestions", params=query, headers=FRAGMENT)
    assert answer.status_code == 200, answer.text
    addresses = [each["href"] for each in Page(answer.text).all("a")]
    return dict(zip(filter(None, map(str.strip, Page(answer.text).text.split("\n"))), addresses, strict=True))


async def test_suggestions_match_gates_agents_and_tags_by_the_last_word(node: Node) -> None:
    browser = await signed_in(node)
    await node.create(agentId="depot-bot", payload={"question": "Go?", "breakpointId": "deploy.production"})
    await node.create(agentId="bot", title="Other", tags=["urgent", "depth first"], payload={"question": "Go?"})
    assert await suggested(browser, q="dep") == {
        "Agent depot-bot": "/?agent=depot-bot",
        "Gate deploy.production": "/?gate=deploy.production",
        "Tag depth first": "/?tag=depth+first",
    }
    assert list(await suggested(browser, q="prod")) == ["Gate deploy.production"]
    assert await suggested(browser, q="nosuch") == {}
    assert await suggested(browser, q="d") == {}
    assert await suggested(browser) == {}


async def test_a_suggestion_keeps_the_other_words_and_filters(node: Node) -> None:
    browser = await signed_in(node)
    await node.create(agentId="bot", tags=["red", "urgent"], payload={"question": "Go?", "breakpointId": "ship.it"})
    (gate,) = (await suggested(browser, q="go shi", tag="red", agent="bot")).values()
    assert parse_qs(urlsplit(gate).query) == {"q": ["go"], "tag": ["red"], "agent": ["bot"], "gate": ["ship.it"]}
    (tag,) = (await suggested(browser, q="urg", tag="red")).values()
    assert parse_qs(urlsplit(tag).query) == {"tag": ["red", "urgent"]}
    assert "Deploy to production" in (await browser.page(gate)).text
    assert await suggested(browser, q="shi", status="released") == {}


async def test_suggestions_never_come_from_another_project(node: Node) -> None:
    await node.call("POST", "/api/projects", await node.token("admin"), json={"id": "second"})
    await create(node, by=Principal(kind=Kind.AGENT, id="tok_there", name="there", project="second"), agentId="spy-bot")
    browser = await signed_in(node)
    assert await suggested(browser, q="spy") == {}
    await node.create(agentId="spy-catcher")
    assert list(await suggested(browser, q="spy")) == ["Agent spy-catcher"]


async def test_agent_text_is_escaped_in_suggestions(node: Node) -> None:
    browser = await signed_in(node)
    await node.create(tags=['<b onclick="x">zap</b>', "zap\u202egnp"])
    answer = await browser.client.get("/suggestions", params={"q": "zap"}, headers=FRAGMENT)
    assert "<b onclick" not in answer.text
    assert "\u202e" not in answer.text.replace("%E2%80%AE", "")


@pytest.mark.parametrize("q", ["'", '"', "*", "a AND", "NEAR(", "-", "%", "\\", "🚀", " ", "x" * 300])
async def test_special_characters_do_not_break_suggestions(node: Node, q: str) -> None:
    browser = await signed_in(node)
    assert (await browser.client.get("/suggestions", params={"q": q}, headers=FRAGMENT)).status_code == 200


async def test_without_scripts_suggestions_redirect_to_the_list(node: Node) -> None:
    answer = await (await signed_in(node)).get("/suggestions", params={"q": "dep"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?q=dep")
