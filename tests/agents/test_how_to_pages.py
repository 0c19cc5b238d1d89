"""The how-to pages about agent frameworks match the code."""

from dataclasses import fields

import pytest

from assent.agents import openai_agents, pydantic_ai
from tests.docs.pages import fences, read

PAGES = {"how-to/openai-agents.md": openai_agents.Approvals, "how-to/pydantic-ai.md": pydantic_ai.Approvals}


@pytest.mark.parametrize("page", PAGES)
def test_every_python_snippet_on_the_page_compiles(page: str) -> None:
    for code in fences(read(page), "python"):
        compile(code, page, "exec")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_mentions_every_option_and_call(page: str) -> None:
    kind = PAGES[page]
    options = {each.name for each in fields(kind)}
    calls = {name for name in vars(kind) if not name.startswith("_")}
    text = read(page)

    assert {name for name in options | calls if name not in text} == set()
    assert "`AssentError`" in text
