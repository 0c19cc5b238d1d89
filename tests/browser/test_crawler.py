"""Scanners that open the links in messages, run scripts and submit forms never decide anything."""

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

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from tests.browser.conftest import Opener, World
from tests.delivery.usecases.delegating import channel, route
from tests.support.jira import TOKEN, USER, Jira, jira_server
from tests.support.mail import MailServer, mail_server
from tests.support.nodes import prepared, running_node, server
from tests.support.receiver import Receiver, receiving

SECRET = "whsec_" + "c2VjcmV0" * 5
LINK = re.compile(r"https?://127\.0\.0\.1:[0-9]+[^\s\"'<>)\\\]]*")
DEEPEST, MOST_PAGES = 3, 40
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")


@dataclass
class Notified:
    """A server that has sent a breakpoint to three channels, and the links in those messages."""

    world: World
    receiver: Receiver
    mail: MailServer
    jira: Jira
    breakpoint_id: str = ""
    links: set[str] = field(default_factory=set[str])


async def _set_up(settings: Settings, notified: Notified) -> None:
    async with running_node(settings) as node:

        def use_case(tx: Transaction) -> None:
            made = node.assent[PeopleService].create_person(
                tx, "ann", project="default", roles=frozenset({Role.REVIEWER})
            )
            tx[People].save(replace(made, email="ann@example.test"))

        await node.assent.database.write(use_case)
        hook = {"url": notified.receiver.url("/hook"), "secrets": ["env:HOOK_SECRET"], "answersAs": "ann"}
        await channel(node, "hook", "webhook", **hook)
        letters: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": notified.mail.port,
            "tls": "none",
            "from": "a@example.test",
        }
        await channel(node, "mail", "email", **letters)
        tickets: dict[str, Any] = {"url": notified.jira.url, "project": "OPS", "user": USER, "token": "env:JIRA_TOKEN"}
        await channel(node, "jira", **tickets, issueType="Task", pollSeconds=0)
        await route(node, "hook", "mail", "jira", to=["person:ann"])


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[Notified]:
    settings = Settings(data_dir=tmp_path / "data", undo_seconds=0)
    environment = {"HOOK_SECRET": SECRET, "JIRA_TOKEN": TOKEN, "outbound_allow": "127.0.0.0/8"}
    with receiving() as receiver, mail_server() as mail, jira_server() as jira:
        found = Notified(World("", settings, ""), receiver, mail, jira)
        # In another thread, because Playwright's event loop occupies this one.
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


def test_a_crawler_that_follows_every_link_decides_nothing(notified: Notified, opened: Opener) -> None:
    assert any("/breakpoints/" in each for each in notified.links)
    assert any("/callbacks/" in each for each in notified.links)
    page = opened(scripts=True).new_page()
    seen: set[str] = set()
    waiting = [(each, 0) for each in sorted(notified.links)]
    while waiting and len(seen) < MOST_PAGES:
        url, depth = waiting.pop(0)
        if url in seen or not url.startswith(notified.world.url):
            continue
        seen.add(url)
        waiting += [(each, depth + 1) for each in _visit(page, url) if depth < DEEPEST]
        for method in METHODS:
            body = {"approved": True, "release": True, "breakpointId": notified.breakpoint_id}
            httpx2.request(method, url, json=body if method not in {"GET", "HEAD"} else None, timeout=60)
    assert len(seen) > 2
    status = notified.world.status(notified.breakpoint_id)
    assert (status["status"], status.get("feedback", [])) == ("waiting", [])


def _visit(page: Page, url: str) -> list[str]:
    """Open a page, run its scripts, submit each of its forms, and return the targets of its links."""
    found: list[str] = []
    try:
        page.goto(url, wait_until="networkidle")
        found = [str(each) for each in page.eval_on_selector_all("a[href]", "all => all.map(one => one.href)")]
        for index in range(page.locator("form").count()):
            page.goto(url, wait_until="networkidle")
            page.locator("form").nth(index).evaluate(_SUBMIT)
            page.wait_for_load_state("networkidle")
    except Error:
        pass  # a download, or a response that browsers do not display
    return found


_SUBMIT = """(form) => {
  for (const each of form.querySelectorAll("input, textarea")) {
    if (each.type !== "hidden" && each.type !== "submit") each.value = "approve";
  }
  form.submit();
}"""
