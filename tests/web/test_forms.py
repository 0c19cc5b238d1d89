"""Submitted form values are converted to the types that the form requires."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.terms import check_answers, check_form
from assent.web import forms

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 100},
        "count": {"type": "integer", "minimum": 0},
        "ratio": {"type": "number"},
        "sure": {"type": "boolean"},
        "region": {"type": "string", "enum": ["eu", "us"]},
        "level": {"type": "integer", "enum": [1, 2, 3]},
    },
    "required": ["name"],
}


def test_inputs_are_converted_to_their_json_types() -> None:
    typed = {"field-0": "x", "field-1": "3", "field-2": "0.5", "field-3": "no", "field-4": "1", "field-5": "2"}
    found = forms.answers(FORM, typed)
    assert found == {"name": "x", "count": 3, "ratio": 0.5, "sure": False, "region": "us", "level": 3}
    assert [type(value) for value in found.values()] == [str, int, float, bool, str, int]


def test_empty_inputs_are_omitted_from_the_answers() -> None:
    assert forms.answers(FORM, {"field-0": "", "field-3": ""}) == {}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("field-1", "1.5"), ("field-1", "one"), ("field-1", "1_000"), ("field-1", "9" * 400), ("field-1", "٣"),
        ("field-2", "NaN"), ("field-2", "inf"), ("field-2", "1e400"), ("field-2", "9007199254740993"),
        ("field-3", "on"), ("field-3", "true"), ("field-4", "eu"), ("field-4", "2"), ("field-4", "-1"),
        ("field-5", "²"),
    ],
)  # fmt: skip
def test_values_of_the_wrong_type_are_rejected(field: str, text: str) -> None:
    with pytest.raises(InvalidRequest):
        forms.answers(FORM, {field: text})


@pytest.mark.parametrize(
    ("schema", "control"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 50}, "line"),
        ({"type": "string", "enum": ["a"]}, "choice"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "boolean", "enum": [True]}, "choice"),
    ],
)
def test_each_field_type_maps_to_a_control(schema: dict[str, Any], control: str) -> None:
    check_form({"type": "object", "properties": {"x": schema}})
    assert forms.inputs({"properties": {"x": schema}}, {})[0].control == control


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "default": "hello"}, "hello"),
        ({"type": "boolean", "default": False}, "no"),
        ({"type": "string", "enum": ["a", "b"], "default": "b"}, "1"),
        ({"type": "integer", "default": 0}, "0"),
        ({"type": "string", "default": {"not": "text"}}, ""),
        ({"type": "string", "default": "hidden\u200b"}, ""),
    ],
)
def test_a_default_is_prefilled_unless_the_user_typed_a_value(schema: dict[str, Any], value: str) -> None:
    form = {"properties": {"x": schema}}
    assert forms.inputs(form, {})[0].value == value
    assert forms.inputs(form, {"field-0": "typed"})[0].value == "typed"


@given(st.dictionaries(st.sampled_from([f"field-{n}" for n in range(6)]), st.text()))
def test_any_input_is_converted_to_valid_answers_or_rejected(typed: dict[str, str]) -> None:
    try:
        found = forms.answers(FORM, typed)
        check_answers(FORM, found)
    except InvalidRequest:
        return
    assert set(found) <= set(FORM["properties"])
