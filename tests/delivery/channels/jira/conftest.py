"""Fixtures: fake Jira servers, both Cloud and Data Center, and channels connected to them."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from assent.delivery.channels.jira.channel import JiraChannel
from tests.delivery.channels.notes import lent_tools
from tests.support.jira import TOKEN, USER, Jira, jira_server

HOOK = "secret-of-the-webhook"
Make = Callable[..., JiraChannel]


@pytest.fixture
def jira_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIRA_TOKEN", TOKEN)
    monkeypatch.setenv("JIRA_HOOK", HOOK)


@pytest.fixture(params=["cloud", "data center"])
def jira(request: pytest.FixtureRequest) -> Iterator[Jira]:
    with jira_server(cloud=request.param == "cloud") as running:
        yield running


@pytest.fixture
def cloud() -> Iterator[Jira]:
    with jira_server() as running:
        yield running


@pytest.fixture
async def channel(jira_secrets: None) -> AsyncIterator[Make]:
    """Return a function that creates a channel for a server, with working settings unless overridden."""
    del jira_secrets
    async with lent_tools() as kit:

        def make(jira: Jira, *, patience: float = 20, **settings: Any) -> JiraChannel:
            proof = {"user": USER, "token": "env:JIRA_TOKEN"} if jira.cloud else {"bearer": "env:JIRA_TOKEN"}
            given = {"url": jira.url, "project": "OPS", "approve": ["Approved"], "reject": ["Declined"]}
            given |= {"webhookSecret": "env:JIRA_HOOK"}
            return JiraChannel(given | proof | settings, kit, patience=patience)

        yield make
