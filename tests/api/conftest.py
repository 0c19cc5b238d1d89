"""One node for a whole module, for tests that leave nothing behind which others could trip over."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from assent.settings import Settings
from tests.conftest import DIALECTS
from tests.support.keys import key_reference
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.postgres import new_database


@pytest.fixture(scope="module", params=DIALECTS)
def shared_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("shared")
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
def shared_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="module")
async def shared(shared_settings: Settings, shared_clock: ManualClock) -> AsyncIterator[Node]:
    async with running_node(shared_settings, clock=shared_clock) as running:
        yield running
