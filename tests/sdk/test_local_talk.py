"""The terminal dialog: only an explicit yes with all required input is an approval."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.terms import Terms
from assent.sdk.local_talk import YES, Said, talk
from tests.sdk.desks import Speaker

PLAIN = Terms.of("a.gate", {})
EXACT = {f"{before}{word}{after}" for word in YES for before in ("", " ") for after in ("", "\r", "\t")}
FORM = {
    "properties": {
        "amount": {"type": "integer", "minimum": 1, "maximum": 9},
        "who": {"type": "string", "minLength": 2},
        "fast": {"type": "boolean"},
        "size": {"type": "string", "enum": ["small", "big"]},
        "rate": {"type": "number"},
    },
    "required": ["amount", "fast"],
}


def said(*lines: str, terms: Terms = PLAIN, pattern: str | None = None, **values: Any) -> Said:
    return talk(Speaker(*lines), terms, values, pattern=pattern)


@given(st.text(st.characters(blacklist_characters="\n"), max_size=12), st.lists(st.text(max_size=5), max_size=8))
def test_only_an_explicit_yes_approves(word: str, more: list[str]) -> None:
    if word.strip(" \t\r") not in YES:
        assert not said(word, *more, pattern=None).answer.approved
        assert not said(word, *more, terms=Terms.of("a.gate", {"risk": "high"})).answer.approved


@pytest.mark.parametrize("word", sorted(EXACT))
def test_every_accepted_form_of_yes_approves(word: str) -> None:
    assert said(word, "").answer.approved


@pytest.mark.parametrize(
    "word", ["", " ", "yes please", "yess", "yeſ", "ｙｅｓ", "у", "ok", "1", "true", "approve", "yes\x00"]
)
def test_words_that_resemble_yes_do_not_approve(word: str) -> None:
    assert not said(word, "").answer.approved


@given(
    st.sampled_from(
        [
            {"options": ["red", "blue"]},
            {"form": FORM},
            {"risk": "high"},
            {"editable": ["n"]},
            {"options": ["red"], "form": FORM, "risk": "high", "editable": ["n"]},
        ]
    ),
    st.lists(st.sampled_from(["yes", "1", "2", "no", "", "always", "a.gat", "word", "9"]), max_size=20),
)
def test_an_approval_always_satisfies_its_terms(payload: dict[str, Any], lines: list[str]) -> None:
    terms = Terms.of("a.gate", payload)
    answer = said(*lines, terms=terms, n=1).answer
    if answer.approved:
        assert lines[0] == "yes"
        terms.check(answer)
    if terms.risk == "high":
        assert not answer.approved


@pytest.mark.parametrize("heard", range(4))
def test_an_incomplete_approval_is_a_rejection(heard: int) -> None:
    lines = ["yes", "2", "Fine.", "a.gate"]
    terms = Terms.of("a.gate", {"options": ["red", "blue"], "risk": "high"})
    assert said(*lines, terms=terms).answer.approved
    assert not said(*lines[:heard], terms=terms).answer.approved


def test_options_are_selected_by_number_even_if_their_names_are_numbers() -> None:
    terms = Terms.of("a.gate", {"options": ["2", "1"]})
    assert said("yes", "1", "", terms=terms).answer.option == "2"
    assert not said("yes", "three", "0", "3", terms=terms).answer.approved


def test_form_fields_are_prompted_and_validated_one_by_one() -> None:
    assert not said("yes", "", "ten", "10", "3", terms=Terms.of("a.gate", {"form": FORM})).answer.approved
    lines = ("yes", "ten", "3", "x", "ann", "maybe", "yes", "big", "2", "1.5", "Done.")
    answer = said(*lines, terms=Terms.of("a.gate", {"form": FORM})).answer
    assert answer.approved
    assert answer.answers == {"amount": 3, "who": "ann", "fast": True, "size": "big", "rate": 1.5}
    assert answer.comment == "Done."


def test_optional_form_fields_can_be_left_empty() -> None:
    answer = said("yes", "3", "", "no", "", "", "", terms=Terms.of("a.gate", {"form": FORM})).answer
    assert answer.answers == {"amount": 3, "fast": False}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "9007199254740993", "1_0", "x"])
def test_only_json_numbers_are_accepted_in_forms(text: str) -> None:
    form = {"properties": {"n": {"type": "number"}}, "required": ["n"]}
    answer = said("yes", text, "2", "", terms=Terms.of("a.gate", {"form": form})).answer
    assert answer.answers in ({"n": 2}, {"n": 10.0})


def test_an_edit_keeps_the_type_of_the_value() -> None:
    terms = Terms.of("a.gate", {"editable": ["amount", "to", "list"]})
    values: dict[str, Any] = {"amount": 5, "to": "bob", "list": [1]}
    answer = said("yes", "seven", "true", "7", "7", "", "", terms=terms, **values).answer
    assert answer.edits == {"amount": 7, "to": "7"}
    assert said("yes", "", "", "", "", terms=terms, **values).answer.edits is None


def test_high_risk_approvals_require_typing_the_exact_gate() -> None:
    terms = Terms.of("a.gate", {"risk": "high"})
    assert said("yes", "", "a.gate", terms=terms).answer.confirm == "a.gate"
    for typed in ("", "A.GATE", "a.gate.", "yes"):
        assert not said("yes", "", typed, terms=terms).answer.approved


def test_a_rejection_includes_its_reason() -> None:
    assert said("no", "Too dear.").answer.comment == "Too dear."
    assert said("no").answer.approved is False


def test_answering_always_shows_the_rule_and_asks_for_confirmation() -> None:
    person = Speaker("always", "yes", "")
    said_always = talk(person, PLAIN, {}, pattern="a.gate(agentId = 'x')")
    assert (said_always.always, said_always.answer.approved) == (True, True)
    assert "a.gate(agentId = 'x')" in person.shown
    assert not said("always", "no", "", pattern="a.gate").answer.approved
    assert not said("always", "yes", "", pattern=None).answer.approved
