"""Settings for page tests: most tests run on SQLite, and the main flows on both databases (web/test_both_databases).

Answers take effect immediately, except in test_undo.
"""

import pytest

from assent.kernel.settings import Settings


@pytest.fixture
def settings(sqlite_settings: Settings) -> Settings:
    return sqlite_settings.model_copy(update={"undo_seconds": 0})
