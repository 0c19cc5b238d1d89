"""One SQLite server per module, without pending breakpoints from earlier tests."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.agents.mcp.seats import Place
from tests.support.nodes import running_node, server


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Place]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("mcp"))
    shutil.copy(sqlite_template, settings.sqlite_path)
    names = asyncio.run(_tokens(settings))
    with server(settings) as process:
        yield Place(url=process.url, **names)


async def _tokens(settings: Settings) -> dict[str, str]:
    async with running_node(settings) as node:
        return {
            "agent": await node.token("agent", name="robot"),
            "other_agent": await node.token("agent", name="other"),
            "person": await node.token("admin"),
            "person_again": await node.token("admin", name="again"),
            "olga": await node.person("olga", "reviewer"),
        }


@pytest.fixture
def place(served: Place) -> Iterator[Place]:
    yield served
    with Assent(served.url, served.person) as person:
        for each in person.list(status="waiting").items:
            person.cancel(each.id)
