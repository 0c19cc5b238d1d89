"""A database full of lives, shared by the tests that look at it and put back what they touch."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from assent.settings import Settings
from tests.conftest import DIALECTS
from tests.services.living import Lives, live
from tests.support.keys import key_reference
from tests.support.nodes import ManualClock, running_node
from tests.support.postgres import new_database


@pytest.fixture(scope="module", params=DIALECTS)
def lived_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("lived")
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        settings = Settings(data_dir=folder)
        shutil.copy(template, settings.sqlite_path)
        yield settings
        return
    url: str = request.getfixturevalue("postgres_url")
    with new_database(url, template=request.getfixturevalue("postgres_template")) as fresh:
        yield Settings(data_dir=folder, database_url=fresh, secret_keys=(key_reference(folder),))


@pytest.fixture(scope="module")
def lives(lived_settings: Settings) -> Lives:
    async def run() -> Lives:
        clock = ManualClock()
        async with running_node(lived_settings, clock=clock) as node:
            return await live(node, clock)

    return asyncio.run(run())
