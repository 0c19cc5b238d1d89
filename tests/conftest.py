"""Fixtures for all tests: databases, settings and nodes on SQLite and PostgreSQL."""

import gc
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from assent.installation import migrate
from assent.kernel.settings import Settings
from tests.support import lanes
from tests.support.durations import Durations
from tests.support.keys import key_reference
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.postgres import Databases, postgres, with_database

pytest_plugins = ["tests.support.fixtures"]

gc.disable()  # imported modules are never freed; see pytest_collection_finish
hypothesis_settings.register_profile("assent", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("assent")

# Under nohup or in a background job, processes that tests start would inherit ignored stop signals.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

# The arguments of `make test ARGS=…` must not reach a `make` that a test runs.
for _name in ("MAKEFLAGS", "MFLAGS", "ARGS"):
    os.environ.pop(_name, None)

DIALECTS = ("sqlite", "postgresql")
TEMPLATE = "assent_template"
BY_HAND = 0.0
"""No checkpoint is signed on a timer, so a slow machine does not change what a test sees."""
MEMORY, PLENTY = Path("/dev/shm"), 4 * 1024**3
SLOW = (
    "tests/api/test_openapi.py", "tests/docs/test_readme.py", "tests/doors/", "tests/faults/", "tests/conformance/",
    "tests/browser/", "tests/deploy/", "tests/agents/hooks/test_claude_code", "tests/runs/",
)  # fmt: skip
"""Tests that take minutes start first, so that they do not delay the end of the run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    lanes.export(config)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lanes.select(config, items)
    items.sort(key=lambda item: next((n for n, name in enumerate(SLOW) if item.nodeid.startswith(name)), len(SLOW)))


def pytest_collection_finish() -> None:
    """Exempt the tests and imported modules from garbage collection, which would traverse them repeatedly."""
    gc.freeze()
    gc.enable()


# Temporary files can be in memory: a killed process loses nothing, and tests/faults simulates power failures itself.
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > PLENTY:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres(settings="fsync = off;full_page_writes = off") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> str:
    """Return the name of a migrated template database that can be copied in milliseconds."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f'DROP DATABASE IF EXISTS "{TEMPLATE}" WITH (FORCE)')
        admin.execute(f'CREATE DATABASE "{TEMPLATE}"')
    migrate(Settings(database_url=with_database(postgres_url, TEMPLATE)))
    return TEMPLATE


@pytest.fixture(scope="session")
def postgres_databases(postgres_url: str, postgres_template: str) -> Iterator[Databases]:
    databases = Databases(postgres_url, postgres_template)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    migrate(Settings(data_dir=folder))
    return folder / "assent.db"


@pytest.fixture
def sqlite_settings(tmp_path: Path, sqlite_template: Path) -> Settings:
    settings = Settings(data_dir=tmp_path / "data", checkpoint_seconds=BY_HAND)
    settings.data_dir.mkdir(mode=0o700)
    shutil.copy(sqlite_template, settings.sqlite_path)
    return settings


@pytest.fixture
def postgres_settings(tmp_path: Path, postgres_databases: Databases) -> Iterator[Settings]:
    with postgres_databases.lend() as url:
        keys = (key_reference(tmp_path),)
        yield Settings(data_dir=tmp_path, database_url=url, secret_keys=keys, checkpoint_seconds=BY_HAND)


@pytest.fixture(params=DIALECTS)
def settings(request: pytest.FixtureRequest) -> Settings:
    """Return settings with a fresh, migrated database, once per database type."""
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


@pytest.fixture(scope="module", params=DIALECTS)
def module_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Yield settings with a fresh, migrated database shared by a test module, once per database type."""
    folder = tmp_path_factory.mktemp("module")
    if request.param == "sqlite":
        template: Path = request.getfixturevalue("sqlite_template")
        settings = Settings(data_dir=folder, checkpoint_seconds=BY_HAND)
        shutil.copy(template, settings.sqlite_path)
        yield settings
        return
    databases: Databases = request.getfixturevalue("postgres_databases")
    with databases.lend() as fresh:
        keys = (key_reference(folder),)
        yield Settings(data_dir=folder, database_url=fresh, secret_keys=keys, checkpoint_seconds=BY_HAND)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    async with running_node(settings, clock=clock) as running:
        yield running


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
