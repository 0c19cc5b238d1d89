"""Gate pages and insights show correct figures to authorized people, for gates with any name."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from assent.breakpoints.pages.charts import duration
from assent.kernel.settings import Settings
from tests.support.nodes import ManualClock, Node
from tests.web.corpus import XSS
from tests.web.visitors import link, person, signed_in, visitor


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def asked(node: Node, gate: str, **body: Any) -> str:
    created = await node.create(**({"title": "Deploy"} | body), payload={"question": "?", "breakpointId": gate})
    found: str = created["id"]
    return found


async def some(node: Node, clock: ManualClock) -> None:
    reviewer = await node.token("reviewer", name="rev")
    for seconds, approved in ((60, True), (120, True), (180, False)):
        raised = await asked(node, "deploy.api")
        clock.advance(seconds)
        await node.feedback(raised, reviewer, approved=approved, comment="Because.")
    await asked(node, "deploy.api")


async def test_every_gate_is_listed_and_has_a_page(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    await asked(node, "other")
    browser = await signed_in(node, "val", "viewer")
    page = await browser.page("/gates")
    assert {"/gates/deploy.api", "/gates/other"} <= set(page.links())
    assert "50% approved" in page.text
    assert "2 min" in page.text
    one = await browser.page("/gates/deploy.api")
    text = " ".join(one.text.split())
    assert "Based on all 4 breakpoints at this gate" in text
    assert "Because." in text
    assert "3 min" in text
    assert (await browser.page("/gates?gate=other")).all("h1") == one.all("h1")
    for path in ("/gates/never.asked", "/gates?gate=never.asked", f"/gates/{'x' * 300}", "/gates/a%00b"):
        assert (await browser.get(path)).status_code == 404, path
    assert (await browser.get("/gates?after=a%00b")).status_code == 422


async def test_a_gate_page_lists_the_rules_that_may_apply(node: Node) -> None:
    await asked(node, "deploy.api")
    rule_admin = await node.token("rule-admin")
    for pattern in ("deploy.*(tags contains 'x')", "elsewhere.*"):
        body = {"pattern": pattern, "action": "auto-approve"}
        await node.call("POST", "/api/rules", rule_admin, json=body)
    viewer, writer = await signed_in(node, "val", "viewer"), await signed_in(node, "rita", "rule-admin")
    page = await viewer.page("/gates/deploy.api")
    assert "deploy.*(tags contains 'x')" in page.text
    assert "elsewhere" not in page.text
    assert "/rules/new?pattern=deploy.api" not in page.links()
    assert "/rules/new?pattern=deploy.api" in (await writer.page("/gates/deploy.api")).links()


async def test_a_long_gate_history_is_paginated(node: Node, clock: ManualClock) -> None:
    for _ in range(52):
        await asked(node, "busy")
        clock.advance(1)
    browser = await signed_in(node, "val", "viewer")
    first = await browser.page("/gates/busy")
    (following,) = [link for link in first.links() if "cursor=" in link]
    second = await browser.page(following)
    found = [link for page in (first, second) for link in page.links() if link.startswith("/breakpoints/")]
    assert len(set(found)) == 52
    assert (await browser.get("/gates/busy?cursor=nonsense")).status_code == 422


async def test_a_gate_with_any_name_has_its_own_page(node: Node) -> None:
    names = ["a/b", "a//b/", "..", ".", "a?b=c#d", "100%", "a%2Fb", "новые", "<script>alert(1)</script>", "a&b", "a+b"]
    names += ["".join(text.split())[:200] for text in XSS[::7]]
    browser = await signed_in(node, "val", "viewer")
    for name in dict.fromkeys(names):
        breakpoint_id = await asked(node, name, agentId=name[:100] or "a")
        listed = await browser.page("/gates")
        address = f"/gates?gate={quote(name, safe='')}" if name in {".", ".."} else f"/gates/{quote(name, safe='')}"
        assert address in listed.links(), name
        page = await browser.page(address)
        assert f"/breakpoints/{breakpoint_id}" in page.links(), name
        assert not page.all("iframe")
        assert all(each.get("src", "").startswith("/static/") for each in page.all("script"))


async def test_insights_are_shown_as_charts_tables_and_text(node: Node, clock: ManualClock) -> None:
    await some(node, clock)
    browser = await signed_in(node, "val", "viewer")
    for period in ("24h", "7d", "30d"):
        page = await browser.page(f"/insights?period={period}")
        text = " ".join(page.text.split())
        assert "4 breakpoints in this period." in text
        assert "Of 3 decisions, 50% took less than 2 min" in text
        assert "50% approved, 25% rejected, 25% pending" in text
        waiting, times, shares = [json.loads(each["data-chart"]) for each in page.all("figure")]
        assert waiting["series"][0]["values"][-1] == 1
        assert [each["label"] for each in times["series"]] == ["p50", "p90", "p99"]
        columns = zip(*(each["values"] for each in shares["series"]), strict=True)
        sums = [sum(value or 0 for value in each) for each in columns]
        assert all(each == 0 or abs(each - 1) < 1e-9 for each in sums)
        assert len(page.all("table")) == 5, "each plot, the reviewers and the gates"
    assert (await browser.get("/insights?period=1y")).status_code == 422
    assert "7 days" in (await browser.page("/insights")).text


async def test_pages_without_data_show_a_message(node: Node) -> None:
    browser = await signed_in(node, "val", "viewer")
    assert "No breakpoints yet" in (await browser.page("/gates")).text
    assert "No breakpoints in this period" in (await browser.page("/insights")).text


@pytest.mark.parametrize("path", ["/gates", "/gates/deploy.api", "/insights", "/rules", "/rules/test"])
async def test_visitors_without_a_session_or_role_see_nothing(node: Node, path: str) -> None:
    await asked(node, "deploy.api")
    stranger = visitor(node)
    assert (await stranger.get(path)).status_code == 303
    await person(node, "nobody", password=None)
    await stranger.post(f"/sign-in/{await link(node, 'nobody')}", {})
    assert (await stranger.get(path)).status_code == 403


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "–"), (0, "0 s"), (2.5, "2.5 s"), (59, "59 s"), (60, "1 min"), (5400, "1.5 h"), (200_000, "2.3 days")],
)
def test_a_duration_is_displayed_in_a_single_unit(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said
