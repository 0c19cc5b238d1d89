"""The integrations' former names still work, with a warning that names their replacements."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["langgraph", "openai_agents", "pydantic_ai"])
def test_importing_a_former_name_warns_and_provides_the_same_objects(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"assent.agents.{name}"):
        former = import_module(f"assent.integrations.{name}")
    current = import_module(f"assent.agents.{name}")
    assert {each: getattr(current, each) for each in former.__all__} == {
        each: getattr(former, each) for each in former.__all__
    }
