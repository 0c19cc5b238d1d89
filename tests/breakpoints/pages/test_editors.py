"""Editable arguments get an editor for their type, and keep the type when edited."""

from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.core.terms import Answer
from assent.web import forms

ARGUMENTS: dict[str, Any] = {
    "note": "Ship it.\nSoon.",
    "count": 5,
    "share": 0.5,
    "force": False,
    "hosts": ["a", "b"],
    "hidden": "a\u202eb",
    "nothing": None,
}
PAYLOAD = {"arguments": ARGUMENTS, "editable": [*ARGUMENTS, "unknown"]}


def test_each_argument_gets_an_editor_for_its_type() -> None:
    found = {each.name: (each.control, each.value) for each in forms.edits(PAYLOAD, {})}
    assert found == {
        "note": ("text", "Ship it.\nSoon."),
        "count": ("integer", "5"),
        "share": ("number", "0.5"),
        "force": ("boolean", "no"),
        "hosts": ("json", '["a", "b"]'),
        "hidden": ("json", '"a\\u202eb"'),
        "nothing": ("json", "null"),
        "unknown": ("json", ""),
    }


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("note", "Wait.", "Wait."),
        ("note", "5", "5"),
        ("note", "", ""),
        ("note", "a\r\nb", "a\nb"),
        ("count", "7", 7),
        ("share", "1", 1),
        ("force", "yes", True),
        ("hosts", '["c"]', ["c"]),
        ("nothing", '"x"', "x"),
        ("unknown", "3", 3),
    ],
)
def test_typed_text_is_converted_to_the_type_of_its_editor(name: str, typed: str, value: object) -> None:
    field = next(each.id for each in forms.edits(PAYLOAD, {}) if each.name == name)
    found = forms.edited(PAYLOAD, {field: typed})
    assert found == {name: value}
    assert type(found[name]) is type(value)
    again = forms.typed_again(PAYLOAD, Answer(approved=True, edits=found))
    assert forms.edited(PAYLOAD, again) == found


def test_unchanged_form_values_are_not_edits() -> None:
    sent = {each.id: each.value.replace("\n", "\r\n") for each in forms.edits(PAYLOAD, {})}
    assert forms.edited(PAYLOAD, sent) is None


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("count", "many", "must be a whole number"),
        ("count", "1.5", "must be a whole number"),
        ("share", "nan", "must be a number"),
        ("force", "perhaps", "choose yes or no"),
        ("hosts", "a, b", "is not valid JSON. Put text in double quotes"),
    ],
)
def test_values_of_the_wrong_type_are_refused_with_a_clear_message(name: str, typed: str, said: str) -> None:
    field = next(each.id for each in forms.edits(PAYLOAD, {}) if each.name == name)
    with pytest.raises(InvalidRequest) as refused:
        forms.edited(PAYLOAD, {field: typed})
    assert refused.value.message == f"/edits/{name}: {said}"


def test_changed_arguments_are_listed_with_their_original_values() -> None:
    answer = Answer(approved=True, edits={"count": 7, "force": True})
    assert forms.changes(PAYLOAD, answer) == [("count", "5", "7"), ("force", "no", "yes")]
