"""Only an explicit yes, with everything that belongs to it, is an approval."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.domain.terms import Terms
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
def test_no_word_but_an_explicit_yes_approves(word: str, more: list[str]) -> None:
    if word.strip(" \t\r") not in YES:
        assert not said(word, *more, pattern=None).answer.approved
        assert not said(word, *more, terms=Terms.of("a.gate", {"risk": "high"})).answer.approved


@pytest.mark.parametrize("word", sorted(EXACT))
def test_an_explicit_yes_approves(word: str) -> None:
    assert said(word, "").answer.approved


@pytest.mark.parametrize(
    "word", ["", " ", "yes please", "yess", "yeſ", "ｙｅｓ", "у", "ok", "1", "true", "approve", "yes\x00"]
)
def test_what_only_looks_like_a_yes_does_not(word: str) -> None:
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
def test_what_is_approved_is_always_complete(payload: dict[str, Any], lines: list[str]) -> None:
    terms = Terms.of("a.gate", payload)
    answer = said(*lines, terms=terms, n=1).answer
    if answer.approved:
        assert lines[0] == "yes"
        terms.check(answer)
    if terms.risk == "high":
        assert not answer.approved


@pytest.mark.parametrize("heard", range(4))
def test_a_yes_that_is_not_finished_is_a_rejection(heard: int) -> None:
    lines = ["yes", "2", "Fine.", "a.gate"]
    terms = Terms.of("a.gate", {"options": ["red", "blue"], "risk": "high"})
    assert said(*lines, terms=terms).answer.approved
    assert not said(*lines[:heard], terms=terms).answer.approved


def test_an_option_is_picked_by_its_number_whatever_it_is_called() -> None:
    terms = Terms.of("a.gate", {"options": ["2", "1"]})
    assert said("yes", "1", "", terms=terms).answer.option == "2"
    assert not said("yes", "three", "0", "3", terms=terms).answer.approved


def test_a_form_is_filled_in_field_by_field_and_checked() -> None:
    assert not said("yes", "", "ten", "10", "3", terms=Terms.of("a.gate", {"form": FORM})).answer.approved
    lines = ("yes", "ten", "3", "x", "ann", "maybe", "yes", "big", "2", "1.5", "Done.")
    answer = said(*lines, terms=Terms.of("a.gate", {"form": FORM})).answer
    assert answer.approved
    assert answer.answers == {"amount": 3, "who": "ann", "fast": True, "size": "big", "rate": 1.5}
    assert answer.comment == "Done."


def test_what_is_not_needed_may_be_left_out_of_a_form() -> None:
    answer = said("yes", "3", "", "no", "", "", "", terms=Terms.of("a.gate", {"form": FORM})).answer
    assert answer.answers == {"amount": 3, "fast": False}


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "9007199254740993", "1_0", "x"])
def test_a_number_must_be_one_that_json_has(text: str) -> None:
    form = {"properties": {"n": {"type": "number"}}, "required": ["n"]}
    answer = said("yes", text, "2", "", terms=Terms.of("a.gate", {"form": form})).answer
    assert answer.answers in ({"n": 2}, {"n": 10.0})


def test_an_edit_keeps_the_kind_of_the_value() -> None:
    terms = Terms.of("a.gate", {"editable": ["amount", "to", "list"]})
    values: dict[str, Any] = {"amount": 5, "to": "bob", "list": [1]}
    answer = said("yes", "seven", "true", "7", "7", "", "", terms=terms, **values).answer
    assert answer.edits == {"amount": 7, "to": "7"}
    assert said("yes", "", "", "", "", terms=terms, **values).answer.edits is None


def test_the_gate_of_high_risk_is_typed_exactly() -> None:
    terms = Terms.of("a.gate", {"risk": "high"})
    assert said("yes", "", "a.gate", terms=terms).answer.confirm == "a.gate"
    for typed in ("", "A.GATE", "a.gate.", "yes"):
        assert not said("yes", "", typed, terms=terms).answer.approved


def test_a_rejection_carries_its_reason() -> None:
    assert said("no", "Too dear.").answer.comment == "Too dear."
    assert said("no").answer.approved is False


def test_always_asks_again_and_shows_the_rule() -> None:
    person = Speaker("always", "yes", "")
    said_always = talk(person, PLAIN, {}, pattern="a.gate(agentId = 'x')")
    assert (said_always.always, said_always.answer.approved) == (True, True)
    assert "a.gate(agentId = 'x')" in person.shown
    assert not said("always", "no", "", pattern="a.gate").answer.approved
    assert not said("always", "yes", "", pattern=None).answer.approved
