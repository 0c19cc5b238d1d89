"""The former names of the integrations still work, and say which names replace them."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["langgraph", "openai_agents", "pydantic_ai"])
def test_a_former_name_warns_and_offers_the_same_objects(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"assent.agents.{name}"):
        former = import_module(f"assent.integrations.{name}")
    current = import_module(f"assent.agents.{name}")
    assert {each: getattr(current, each) for each in former.__all__} == {
        each: getattr(former, each) for each in former.__all__
    }
