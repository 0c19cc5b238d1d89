"""The inputs that a process accepts, as declared by its annotation, and the errors for inputs that do not match."""

import dataclasses
from typing import Any, NotRequired, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from assent.core.errors import InvalidRequest
from assent.runs.signatures import misfit, shape_of, shaped


class Typed(TypedDict):
    sha: str
    number: NotRequired[int]


@dataclasses.dataclass
class Data:
    sha: str
    number: int = 1


class Struct(msgspec.Struct, forbid_unknown_fields=True):
    sha: str
    number: int = 1


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sha: str
    number: int = 1


@dataclasses.dataclass
class WithEvent:
    event: dict[str, Any]
    sha: str = ""


@dataclasses.dataclass
class Nested:
    model: Model


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    sha: str


async def typed(inputs: Typed, ctx: object) -> None: ...
async def data(inputs: Data, ctx: object) -> None: ...
async def struct(inputs: Struct, ctx: object) -> None: ...
async def model(inputs: Model, ctx: object) -> None: ...
async def loose(inputs: Loose, ctx: object) -> None: ...
async def with_event(inputs: WithEvent, ctx: object) -> None: ...
async def nested(inputs: Nested, ctx: object) -> None: ...
async def plain(inputs: dict[str, Any], ctx: object) -> None: ...
async def anything(inputs: Any, ctx: object) -> None: ...
async def bare(inputs, ctx): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
async def unknown(inputs: "Nowhere", ctx: object) -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def nothing() -> None: ...


EVERY = [typed, data, struct, model]
SILENT: list[Any] = [plain, anything, bare, unknown, nothing]
EVENT = {"event": {"id": "evt_1"}}


@pytest.mark.parametrize("function", EVERY)
def test_matching_inputs_are_accepted(function: Any) -> None:
    assert misfit(function, {"sha": "1", "number": 2, **EVENT}, complete=True) is None
    assert misfit(function, {"sha": "1", **EVENT, "events": []}, complete=True) is None


@pytest.mark.parametrize("function", EVERY)
def test_the_error_for_a_missing_input_names_it(function: Any) -> None:
    assert misfit(function, {"number": 2}, complete=True) == "requires the input sha"
    assert misfit(function, {"number": 2}, complete=False) == "requires the input sha"


@pytest.mark.parametrize("function", EVERY)
def test_the_error_for_an_unknown_input_names_it(function: Any) -> None:
    assert misfit(function, {"sha": "1", "shah": "1"}, complete=False) == (
        "does not have an input named shah; its inputs are number, sha"
    )


@pytest.mark.parametrize("function", EVERY)
def test_a_value_of_the_wrong_type_is_reported(function: Any) -> None:
    for complete in (True, False):
        problem = misfit(function, {"sha": "1", "number": "many", **EVENT}, complete=complete)
        assert problem is not None
        assert "number" in problem


@pytest.mark.parametrize("function", EVERY)
def test_a_template_is_accepted_for_any_type_before_it_is_rendered(function: Any) -> None:
    inputs = {"sha": "{{ event.sha }}", "number": "{{ event.data.number }}"}
    assert misfit(function, inputs, complete=False) is None
    assert misfit(function, inputs, complete=True) is not None


@pytest.mark.parametrize("function", SILENT)
def test_an_untyped_process_accepts_any_input(function: Any) -> None:
    assert shape_of(function) is None
    assert misfit(function, {"whatever": [1]}, complete=True) is None
    assert shaped(function, {"whatever": [1]}) == {"whatever": [1]}


def test_a_model_that_allows_extra_fields_accepts_unknown_inputs() -> None:
    assert misfit(loose, {"sha": "1", "more": 2}, complete=True) is None


def test_a_declared_event_input_receives_the_event() -> None:
    assert misfit(with_event, {}, complete=False) is None, "a run started by an event always has this input"
    assert misfit(with_event, {}, complete=True) == "requires the input event"
    assert shaped(with_event, EVENT).event == {"id": "evt_1"}


def test_a_process_receives_an_instance_of_its_annotated_class() -> None:
    given = {"sha": "1", **EVENT}
    assert shaped(data, given) == Data("1")
    assert shaped(struct, given) == Struct("1")
    assert shaped(model, given) == Model(sha="1")
    assert shaped(typed, given) is given
    assert shaped(nested, {"model": {"sha": "1"}}) == Nested(Model(sha="1"))
    assert shaped(data, None) is None


def test_errors_about_mismatched_inputs_name_the_problem() -> None:
    with pytest.raises(InvalidRequest, match="Expected `str`"):
        shaped(data, {"sha": 1})
    with pytest.raises(InvalidRequest, match="sha: Input should be a valid string"):
        shaped(model, {"sha": 1})
