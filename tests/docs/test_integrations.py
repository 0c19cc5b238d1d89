"""The integrations table matches the features that the tests check."""

import pytest

from tests.docs.pages import DOCS, read
from tests.doors.doors import DOORS
from tests.doors.kit import Door
from tests.doors.table import table

PAGE = read("reference/integrations.md")


def test_the_table_matches_the_tested_integrations() -> None:
    assert table() in PAGE


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_each_missing_feature_of_an_integration_has_a_reason(door: Door) -> None:
    missing = {name for name, there in (("edits", door.edits), ("resumes", door.resumes)) if not there}

    assert set(door.lacks) == missing
    assert all(door.lacks.values())


def test_every_integration_has_a_page() -> None:
    pages = {page.stem for page in (DOCS / "how-to").glob("*.md")}

    assert {"mcp", "claude-code", "langgraph", "openai-agents", "pydantic-ai"} <= pages
