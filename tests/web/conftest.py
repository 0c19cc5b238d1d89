"""Pages are the same on both databases: most claims are shown on SQLite, the flows on both (test_both_databases)."""

import pytest

from assent.settings import Settings


@pytest.fixture
def settings(sqlite_settings: Settings) -> Settings:
    return sqlite_settings
