"""Pages are the same on both databases: most claims are shown on SQLite, the flows on both (test_both_databases).

Answers count at once here; the time in which they can be taken back is tried in test_undo.
"""

import pytest

from assent.settings import Settings


@pytest.fixture
def settings(sqlite_settings: Settings) -> Settings:
    return sqlite_settings.model_copy(update={"undo_seconds": 0})
