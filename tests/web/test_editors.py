"""Editable arguments have an editor of their type, and come back with it."""

from typing import Any

import pytest

from assent.domain.errors import InvalidRequest
from assent.domain.terms import Answer
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


def test_each_value_has_the_editor_of_its_type() -> None:
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
def test_what_is_typed_is_an_edit_of_the_same_type(name: str, typed: str, value: object) -> None:
    field = next(each.id for each in forms.edits(PAYLOAD, {}) if each.name == name)
    found = forms.edited(PAYLOAD, {field: typed})
    assert found == {name: value}
    assert type(found[name]) is type(value)
    again = forms.typed_again(PAYLOAD, Answer(approved=True, edits=found))
    assert forms.edited(PAYLOAD, again) == found


def test_what_a_browser_sends_back_unchanged_is_no_edit() -> None:
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
def test_what_does_not_fit_is_refused_in_plain_words(name: str, typed: str, said: str) -> None:
    field = next(each.id for each in forms.edits(PAYLOAD, {}) if each.name == name)
    with pytest.raises(InvalidRequest) as refused:
        forms.edited(PAYLOAD, {field: typed})
    assert refused.value.message == f"/edits/{name}: {said}"


def test_a_change_is_shown_beside_the_original() -> None:
    answer = Answer(approved=True, edits={"count": 7, "force": True})
    assert forms.changes(PAYLOAD, answer) == [("count", "5", "7"), ("force", "no", "yes")]
