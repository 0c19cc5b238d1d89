"""A server for the commands to talk to, shared by the tests of this folder."""

from collections.abc import Iterator

import pytest

from assent.settings import Settings
from tests.cli.commands import Desk
from tests.support.nodes import prepared, server


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("desk") / "data")
    agent, reviewer = prepared(settings, "agent", "reviewer")
    with server(settings) as process:
        yield Desk(process.url, settings.data_dir, agent, reviewer)
