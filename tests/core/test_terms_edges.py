"""Limits of forms and answers, with a value on each side of every limit."""

from collections.abc import Callable
from typing import Any

import pytest

from assent.core.errors import ConfirmationRequired, InvalidRequest
from assent.core.terms import Answer, Terms, check_answers, check_form
from tests.core.test_terms import field, pointer, terms


def test_a_form_has_at_most_fifty_fields() -> None:
    fields = {f"f{n}": {"type": "string"} for n in range(51)}
    check_form({"properties": dict(list(fields.items())[:50])})
    with pytest.raises(InvalidRequest) as refused:
        check_form({"properties": fields})
    assert pointer(refused) == "/payload/form/properties"


def test_text_is_limited_to_20000_characters_unless_the_form_allows_more() -> None:
    check_answers(field(type="string"), {"a": "x" * 20_000})
    check_answers(field(type="string", maxLength=20_001), {"a": "x" * 20_001})
    with pytest.raises(InvalidRequest):
        check_answers(field(type="string"), {"a": "x" * 20_001})


@pytest.mark.parametrize(
    "keywords",
    [
        {"title": "A", "description": "B", "default": "c", "format": "date", "minLength": 0, "maxLength": 3},
        {"examples": ["a"]},
        {"enum": ["a", "b"]},
    ],
)
def test_every_valid_keyword_of_a_field_is_accepted(keywords: dict[str, Any]) -> None:
    check_form(field(type="string", **keywords))


@pytest.mark.parametrize("kind", ["string", "boolean", "integer", "number"])
def test_every_valid_type_of_a_field_is_accepted(kind: str) -> None:
    check_form(field(type=kind))


def test_number_fields_can_have_a_minimum_and_a_maximum() -> None:
    check_form(field(type="integer", minimum=1, maximum=2))
    check_form(field(type="number", minimum=0.5, maximum=1.5, enum=[1, 1.5]))


def test_every_valid_keyword_of_a_form_is_accepted() -> None:
    extras = {"title": "A", "description": "B", "required": [], "additionalProperties": False, "$schema": "x"}
    check_form(field(type="string") | {"type": "object"} | extras)


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ({"properties": {"a": {"type": "string"}}, "oneOf": []}, "/payload/form"),
        ({"type": "object"}, "/payload/form"),
        ({"type": "object", "properties": None}, "/payload/form"),
        ({"type": "string", "properties": {"a": {"type": "string"}}}, "/payload/form"),
        (field(type="list"), "/payload/form/properties/a"),
        (field(type="string", pattern="a"), "/payload/form/properties/a"),
        (field(type="string", minLength="1"), "/payload/form/properties/a/minLength"),
        (field(type="string", maxLength=None), "/payload/form/properties/a/maxLength"),
        (field(type="integer", minimum="1"), "/payload/form/properties/a/minimum"),
        (field(type="integer", maximum=[]), "/payload/form/properties/a/maximum"),
        (field(type="string", enum=[]), "/payload/form/properties/a/enum"),
        (field(type="string", enum=["a", 1]), "/payload/form/properties/a/enum"),
        (field(type="string", enum={"a": 1}), "/payload/form/properties/a/enum"),
        (field(type="string") | {"required": ["a", "b"]}, "/payload/form/required"),
        (field(type="string") | {"required": None}, "/payload/form/required"),
        (field(type="string") | {"required": {"a": 1}}, "/payload/form/required"),
    ],
)
def test_the_error_for_an_invalid_form_points_to_the_problem(form: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_form(form)
    assert pointer(refused) == where


@pytest.mark.parametrize(
    ("keywords", "value", "fits"),
    [
        ({"type": "string", "minLength": 2}, "ab", True),
        ({"type": "string", "minLength": 2}, "a", False),
        ({"type": "string", "maxLength": 2}, "ab", True),
        ({"type": "string", "maxLength": 2}, "abc", False),
        ({"type": "string", "minimum": 5}, "ab", True),
        ({"type": "integer", "minLength": 5, "maxLength": 1}, 3, True),
        ({"type": "integer", "minimum": 0}, 0, True),
        ({"type": "integer", "minimum": 0}, -1, False),
        ({"type": "integer", "maximum": 0}, 0, True),
        ({"type": "integer", "maximum": 0}, 1, False),
        ({"type": "integer"}, 30_000, True),
        ({"type": "boolean"}, True, True),
        ({"type": "boolean"}, 0, False),
        ({"type": "number"}, 1, True),
        ({"type": "number"}, False, False),
        ({"type": "string", "enum": ["a"]}, "a", True),
        ({"type": "string", "enum": ["a"]}, "b", False),
    ],
)
def test_values_are_checked_against_their_field_schemas(keywords: dict[str, Any], value: object, fits: bool) -> None:  # noqa: FBT001
    if fits:
        check_answers(field(**keywords), {"a": value})
    else:
        with pytest.raises(InvalidRequest) as refused:
            check_answers(field(**keywords), {"a": value})
        assert pointer(refused) == "/answers/a"


def test_errors_about_values_include_the_limit() -> None:
    with pytest.raises(InvalidRequest, match=r"must be at most 2 characters$"):
        check_answers(field(type="string", maxLength=2), {"a": "abc"})
    with pytest.raises(InvalidRequest, match=r"must be at least 2$"):
        check_answers(field(type="integer", minimum=2), {"a": 1})


@pytest.mark.parametrize(
    ("payload", "plain"),
    [
        ({}, True),
        ({"options": []}, True),
        ({"options": ["a"]}, False),
        ({"form": {"properties": {"a": {"type": "string"}}}}, True),
        ({"form": {"properties": {"a": {"type": "string"}}, "required": []}}, True),
        ({"form": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}, False),
        ({"options": ["a"], "form": {"properties": {}, "required": ["a"]}}, False),
        ({"editable": ["a"], "risk": "high"}, True),
    ],
)
def test_a_plain_approval_is_complete_unless_an_option_or_answers_are_required(
    payload: dict[str, Any],
    plain: bool,  # noqa: FBT001
) -> None:
    assert terms(**payload).plain is plain


def test_terms_are_read_from_the_payload() -> None:
    payload = {"risk": "low", "options": ["a"], "form": {"properties": {}}, "editable": ["b"]}
    assert Terms.of("go", payload) == Terms(
        gate="go", risk="low", options=("a",), form={"properties": {}}, editable=("b",)
    )
    assert Terms.of("go", {}) == Terms(gate="go", risk=None, options=(), form=None, editable=())


def test_the_error_for_a_missing_confirmation_includes_the_text_to_send() -> None:
    with pytest.raises(ConfirmationRequired) as refused:
        terms(risk="high").check(Answer(approved=True))
    assert refused.value.details["confirm"] == "deploy.production"


def test_an_answer_has_no_optional_fields_by_default() -> None:
    bare = Answer(approved=True)
    assert (bare.comment, bare.option, bare.answers, bare.edits, bare.confirm, bare.digest) == (None,) * 6


def test_empty_edits_do_not_require_an_editable_field() -> None:
    terms().check(Answer(approved=True, edits={}))


def test_a_form_without_required_fields_can_be_approved_without_answers() -> None:
    terms(form=field(type="string")).check(Answer(approved=True))


ODD, ODD_STEP = "a/b~c", "a~1b~0c"
"""A field name with special characters, and its escaped form in a JSON pointer."""


@pytest.mark.parametrize(
    ("refuse", "where"),
    [
        (lambda: check_form({"properties": {ODD: {}}}), f"/payload/form/properties/{ODD_STEP}"),
        (lambda: check_answers({"properties": {ODD: {}}, "required": [ODD]}, {}), f"/answers/{ODD_STEP}"),
        (lambda: check_answers({"properties": {}}, {ODD: 1}), f"/answers/{ODD_STEP}"),
        (lambda: check_answers({"properties": {ODD: {"type": "string"}}}, {ODD: 1}), f"/answers/{ODD_STEP}"),
        (lambda: terms().check(Answer(approved=False, edits={ODD: 1})), f"/edits/{ODD_STEP}"),
    ],
)
def test_special_characters_in_field_names_are_escaped_in_pointers(refuse: Callable[[], None], where: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        refuse()
    assert pointer(refused) == where
