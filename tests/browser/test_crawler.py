"""Scanners open what people are sent: whatever they follow, run or submit, nothing is decided by it."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Error, Page

from assent.domain.access import Role
from assent.settings import Settings
from assent.store.transaction import Transaction
from tests.browser.conftest import Opener, World
from tests.services.delegating import channel, route
from tests.support.jira import TOKEN, USER, Jira, jira_server
from tests.support.mail import MailServer, mail_server
from tests.support.nodes import prepared, running_node, server
from tests.support.receiver import Receiver, receiving

SECRET = "whsec_" + "c2VjcmV0" * 5
LINK = re.compile(r"https?://127\.0\.0\.1:[0-9]+[^\s\"'<>)\\\]]*")
DEEPEST, MOST_PAGES = 3, 40
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


@dataclass
class Told:
    """A server that has told three channels of a question, and what they were sent."""

    world: World
    receiver: Receiver
    mail: MailServer
    jira: Jira
    breakpoint_id: str = ""
    links: set[str] = field(default_factory=set[str])


async def _set_up(settings: Settings, told: Told) -> None:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> None:
            made = node.assent.people.create_person(tx, "ann", project="default", roles=frozenset({Role.REVIEWER}))
            tx.people.save(replace(made, email="ann@example.test"))

        await node.assent.database.write(use_case)
        hook = {"url": told.receiver.url("/hook"), "secrets": ["env:HOOK_SECRET"], "answersAs": "ann"}
        await channel(node, "hook", "webhook", **hook)
        letters: dict[str, Any] = {"host": "127.0.0.1", "port": told.mail.port, "tls": "none", "from": "a@example.test"}
        await channel(node, "mail", "email", **letters)
        tickets: dict[str, Any] = {"url": told.jira.url, "project": "OPS", "user": USER, "token": "env:JIRA_TOKEN"}
        await channel(node, "jira", **tickets, issueType="Task", pollSeconds=0)
        await route(node, "hook", "mail", "jira", to=["person:ann"])


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    settings = Settings(data_dir=tmp_path / "data", undo_seconds=0)
    environment = {"HOOK_SECRET": SECRET, "JIRA_TOKEN": TOKEN, "outbound_allow": "127.0.0.0/8"}
    with receiving() as receiver, mail_server() as mail, jira_server() as jira:
        found = Told(World("", settings, ""), receiver, mail, jira)
        # On a thread of its own: Playwright's loop runs in this one.
        with ThreadPoolExecutor(1) as thread:
            (agent,) = thread.submit(prepared, settings, "agent").result()
            thread.submit(asyncio.run, _set_up(settings, found)).result()
        with server(settings, undo_seconds="0", **environment) as process:
            found.world = World(process.url, settings, agent)
            found.breakpoint_id = found.world.create()["id"]
            assert receiver.wait(lambda calls: len(calls) == 1)
            assert mail.wait(lambda letters: len(letters) == 1)
            assert jira.wait(lambda issues: len(issues) == 1)
            [letter], [issue] = mail.letters, jira.issues.values()
            sent = [receiver.calls[0].body.decode(), letter.text, letter.html, str(issue.fields)]
            found.links = {each.rstrip(".,") for text in sent for each in LINK.findall(text)}
            yield found


def test_whoever_follows_every_link_decides_nothing(told: Told, opened: Opener) -> None:
    assert any("/breakpoints/" in each for each in told.links)
    assert any("/callbacks/" in each for each in told.links)
    page = opened(scripts=True).new_page()
    seen: set[str] = set()
    waiting = [(each, 0) for each in sorted(told.links)]
    while waiting and len(seen) < MOST_PAGES:
        url, depth = waiting.pop(0)
        if url in seen or not url.startswith(told.world.url):
            continue
        seen.add(url)
        waiting += [(each, depth + 1) for each in _visit(page, url) if depth < DEEPEST]
        for method in METHODS:
            body = {"approved": True, "release": True, "breakpointId": told.breakpoint_id}
            httpx2.request(method, url, json=body if method not in {"GET", "HEAD"} else None, timeout=60)
    assert len(seen) > 2
    status = told.world.status(told.breakpoint_id)
    assert (status["status"], status.get("feedback", [])) == ("waiting", [])


def _visit(page: Page, url: str) -> list[str]:
    """Open a page, let its scripts run, submit every form of it, and return where its links lead."""
    found: list[str] = []
    try:
        page.goto(url, wait_until="networkidle")
        found = [str(each) for each in page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)")]
        for index in range(page.locator("form").count()):
            page.goto(url, wait_until="networkidle")
            page.locator("form").nth(index).evaluate(_SUBMIT)
            page.wait_for_load_state("networkidle")
    except Error:
        pass  # a download, or nothing a browser shows
    return found


_SUBMIT = """(form) => {
  for (const each of form.querySelectorAll("input, textarea")) {
    if (each.type !== "hidden" && each.type !== "submit") each.value = "approve";
  }
  form.submit();
}"""
