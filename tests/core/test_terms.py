"""Validation of answers and forms."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import ConfirmationRequired, InvalidRequest
from assent.core.terms import MAX_FIELDS, MAX_TEXT, Answer, Terms, check_answers, check_form

FORM = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "minLength": 2, "maxLength": 10},
        "count": {"type": "integer", "minimum": 1, "maximum": 5},
        "share": {"type": "number", "minimum": 0.5},
        "sure": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "m"]},
    },
    "required": ["reason"],
}


def terms(**payload: Any) -> Terms:
    return Terms.of("deploy.production", payload)


def pointer(refused: pytest.ExceptionInfo[InvalidRequest]) -> object:
    errors = refused.value.details["errors"]
    assert isinstance(errors, list)
    return errors[0]["pointer"]


@pytest.mark.parametrize(
    ("payload", "answer", "where"),
    [
        ({"options": ["a", "b"]}, {"approved": True}, "/option"),
        ({"options": ["a", "b"]}, {"approved": True, "option": "c"}, "/option"),
        ({"options": ["a", "b"]}, {"approved": False, "option": "c"}, "/option"),
        ({"options": ["a", "b"]}, {"approved": True, "option": ""}, "/option"),
        ({}, {"approved": True, "option": "a"}, "/option"),
        ({}, {"approved": True, "answers": {}}, "/answers"),
        ({"form": FORM}, {"approved": True}, "/answers/reason"),
        ({"form": FORM}, {"approved": True, "answers": {}}, "/answers/reason"),
        ({"form": FORM}, {"approved": False, "answers": {"reason": "ok", "x": 1}}, "/answers/x"),
        ({}, {"approved": True, "edits": {"amount": 1}}, "/edits/amount"),
        ({"editable": ["amount"]}, {"approved": True, "edits": {"amount": 1, "to": "me"}}, "/edits/to"),
    ],
)
def test_the_error_for_an_invalid_answer_names_the_field(
    payload: dict[str, Any], answer: dict[str, Any], where: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        terms(**payload).check(Answer(**answer))
    assert pointer(refused) == where


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        ({}, {"approved": True}),
        ({}, {"approved": False, "comment": "No."}),
        ({"options": ["a", "b"]}, {"approved": True, "option": "b"}),
        ({"options": ["a", "b"]}, {"approved": False}),
        ({"form": FORM}, {"approved": True, "answers": {"reason": "good"}}),
        ({"form": FORM}, {"approved": False}),
        ({"editable": ["amount"]}, {"approved": True, "edits": {"amount": 1}}),
        ({"risk": "high"}, {"approved": True, "confirm": "deploy.production"}),
        ({"risk": "high"}, {"approved": False}),
        ({"risk": "medium"}, {"approved": True}),
    ],
)
def test_a_valid_answer_is_accepted(payload: dict[str, Any], answer: dict[str, Any]) -> None:
    terms(**payload).check(Answer(**answer))


@pytest.mark.parametrize("confirm", [None, "", "yes", "Deploy.production", "deploy.production "])
def test_high_risk_cannot_be_approved_without_typing_the_gate_name(confirm: str | None) -> None:
    with pytest.raises(ConfirmationRequired):
        terms(risk="high").check(Answer(approved=True, confirm=confirm))


@given(st.text(max_size=30))
def test_text_other_than_the_gate_name_does_not_confirm(confirm: str) -> None:
    if confirm == "deploy.production":
        return
    with pytest.raises(ConfirmationRequired):
        terms(risk="high").check(Answer(approved=True, confirm=confirm))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reason", "x"),
        ("reason", "x" * 11),
        ("reason", 5),
        ("reason", None),
        ("count", 0),
        ("count", 6),
        ("count", 2.5),
        ("count", True),
        ("count", "2"),
        ("share", 0.4),
        ("share", True),
        ("sure", 1),
        ("sure", "true"),
        ("size", "xl"),
        ("size", ["s"]),
    ],
)
def test_a_value_that_violates_its_field_schema_is_rejected(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_answers(FORM, {"reason": "fine"} | {field: value})
    assert pointer(refused) == f"/answers/{field}"


@pytest.mark.parametrize(
    "answers",
    [{"count": 1}, {"count": 5}, {"share": 1}, {"share": 0.5}, {"sure": False}, {"size": "m"}, {"reason": "ab"}],
)
def test_a_value_that_satisfies_its_field_schema_is_accepted(answers: dict[str, Any]) -> None:
    check_answers(FORM, {"reason": "fine"} | answers)


def test_text_is_limited_even_if_the_form_sets_no_maximum() -> None:
    form = {"properties": {"note": {"type": "string"}}}
    check_answers(form, {"note": "x" * MAX_TEXT})
    with pytest.raises(InvalidRequest):
        check_answers(form, {"note": "x" * (MAX_TEXT + 1)})


def field(**keywords: Any) -> dict[str, Any]:
    return {"properties": {"a": keywords}}


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"type": "array", "properties": {"a": {"type": "string"}}},
        {"properties": {}},
        {"properties": []},
        {"properties": {"a": "string"}},
        {"properties": {f"f{n}": {"type": "string"} for n in range(MAX_FIELDS + 1)}},
        {"properties": {"a": {"type": "string"}}, "required": ["b"]},
        {"properties": {"a": {"type": "string"}}, "required": "a"},
        {"properties": {"a": {"type": "string"}}, "required": [["a"]]},
        {"properties": {"a": {"type": "string"}}, "required": [{}]},
        {"properties": {"a": {"type": "string"}}, "oneOf": []},
        field(),
        field(type="object"),
        field(type="array"),
        field(type="null"),
        field(type=["string", "null"]),
        field(type={"a": 1}),
        field(type=None),
        field(type="string", pattern="(a+)+$"),
        field(type="string", minLength="3"),
        field(type="integer", maximum=True),
        field(type="string", enum=[]),
        field(type="string", enum="ab"),
        field(type="string", enum=["a", 1]),
        field(type="integer", enum=[True]),
    ],
)
def test_a_form_that_is_not_a_flat_schema_is_rejected(form: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        check_form(form)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["string", "object", "a", "integer"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "enum", "minLength", "a"]), inner, max_size=3
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "required", "title"]), json_values, max_size=4))
def test_every_accepted_form_can_be_checked_without_unexpected_errors(form: dict[str, Any]) -> None:
    try:
        check_form(form)
    except InvalidRequest:
        return
    try:
        check_answers(form, {"a": "text"})
    except InvalidRequest:
        return


def test_a_valid_form_is_accepted() -> None:
    check_form(FORM)
