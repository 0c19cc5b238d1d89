"""The arguments that reviewers see, and those that the call runs with."""

import dataclasses
import decimal
import enum
import inspect
import json
from collections import OrderedDict, deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.contracts.breakpoints import BreakpointResult
from assent.core.canonical import canonical, strict_loads
from assent.sdk.arguments import DEEPEST, HIDDEN, LONGEST_WORD, Call, Template, described, digest
from assent.sdk.errors import ArgumentsRefused, InvalidRequest

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
ANY = (
    JSON
    | st.binary()
    | st.complex_numbers()
    | st.decimals()
    | st.text()
    | st.integers()
    | st.floats()
    | st.sets(st.integers())
)


@dataclasses.dataclass
class Login:
    user: str
    password: str


class Opaque:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"Opaque({self.__dict__})"


class Colour(enum.IntEnum):
    RED = 1


def call(*, hide: tuple[str, ...] = (), editable: tuple[str, ...] = (), **values: Any) -> Call:
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in values]
    return Call.of(inspect.Signature(parameters).bind(**values), hide=hide, editable=editable)


def answer(edits: dict[str, Any] | None = None, *others: dict[str, Any] | None) -> BreakpointResult:
    said = [{"approved": True} | ({"edits": each} if each is not None else {}) for each in (edits, *others)]
    return BreakpointResult(
        approved=True, status="released", decision="approved", auto=False, edits=edits, all_responses=said
    )


@given(JSON)
def test_json_arguments_are_shown_unchanged(value: Any) -> None:
    assert canonical(described(value)) == canonical(value)


@given(ANY)
def test_displayed_json_is_accepted_by_the_server(value: Any) -> None:
    shown = described(value)

    assert canonical(strict_loads(json.dumps(shown, allow_nan=False).encode())) == canonical(shown)


@pytest.mark.parametrize(
    "value",
    [
        decimal.Decimal("1.50"),
        b"x",
        Colour.RED,
        float("nan"),
        2**60,
        "half \ud800",
        "nul \x00",
        object,
        {1, 2},
        {1: "a"},
    ],
)
def test_values_that_are_not_json_are_shown_with_their_type(value: Any) -> None:
    shown = described(value)

    assert shown["type"] == f"{type(value).__module__}.{type(value).__qualname__}"
    assert len(shown) == 2


@pytest.mark.parametrize(
    "value",
    [
        {"password": "s3cret"},
        [{"user": "ann", "password": ["s3cret"]}],
        OrderedDict(password="s3cret"),
        {1: {"password": "s3cret"}},
        {"password": "s3cret", 1: 2},
        Login("ann", "s3cret"),
        [Login("ann", "s3cret")],
        Opaque(password="s3cret"),
        deque([{"password": "s3cret"}]),
        (Opaque(password="s3cret"),),
    ],
)
def test_hidden_arguments_are_also_hidden_in_nested_values(value: Any) -> None:
    found = call(hide=("password",), options=value)

    assert "s3cret" not in json.dumps(found.shown)
    assert HIDDEN in json.dumps(found.shown)


def test_a_hidden_argument_shows_its_name_but_not_its_value() -> None:
    assert call(hide=("password",), user="ann", password="s3cret").shown == {"user": "ann", "password": HIDDEN}


def test_the_digest_distinguishes_calls_but_ignores_hidden_values() -> None:
    one, other = call(hide=("pin",), to="ann", pin=1), call(hide=("pin",), to="ann", pin=2)

    assert digest("f", one.shown) == digest("f", other.shown)
    assert digest("f", one.shown) != digest("g", one.shown)
    assert digest("f", one.shown) != digest("f", call(hide=("pin",), to="bob", pin=1).shown)


def test_deeply_nested_or_circular_values_are_rejected() -> None:
    within: list[Any] = []
    within.append(within)
    deep: Any = 1
    for _ in range(DEEPEST + 1):
        deep = [deep]

    for value in (within, deep):
        with pytest.raises(InvalidRequest, match="nested"):
            call(value=value)


def test_a_failing_repr_stops_the_call() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        call(value=Broken())


@given(values=st.dictionaries(st.sampled_from("abc"), ANY), edits=st.none() | st.just({}))
def test_without_edits_a_call_runs_with_its_original_argument_objects(
    values: dict[str, Any], edits: dict[str, Any] | None
) -> None:
    found = call(**values).released(answer(edits)).arguments

    assert list(found) == list(values)
    assert all(found[name] is values[name] for name in values)


@given(before=JSON, after=JSON)
def test_an_edit_is_accepted_only_if_it_has_the_original_type(before: Any, after: Any) -> None:
    asked = call(editable=("value",), value=before, other=1)
    fits = type(after) is type(before) or (type(before) is float and type(after) is int)

    if fits:
        found = asked.released(answer({"value": after})).arguments
        assert (found["value"], type(found["value"]), found["other"]) == (after, type(before), 1)
    else:
        with pytest.raises(ArgumentsRefused):
            asked.released(answer({"value": after}))


@given(edits=st.dictionaries(st.sampled_from(["amount", "to", "note", "self", ""]), JSON, min_size=1))
def test_only_editable_arguments_can_be_edited(edits: dict[str, Any]) -> None:
    asked = call(editable=("amount",), amount=5, to="ann")
    allowed = set(edits) == {"amount"} and type(edits["amount"]) is int

    if allowed:
        assert asked.released(answer(edits)).arguments == {"amount": edits["amount"], "to": "ann"}
    else:
        with pytest.raises(ArgumentsRefused):
            asked.released(answer(edits))


@pytest.mark.parametrize(("before", "after"), [(True, 1), (1, True), (1, 1.0), ("1", 1), (None, "x"), ([], {})])
def test_equal_values_of_different_types_are_rejected(before: Any, after: Any) -> None:
    with pytest.raises(ArgumentsRefused, match="type"):
        call(editable=("value",), value=before).released(answer({"value": after}))


@pytest.mark.parametrize("value", [decimal.Decimal(5), (1, 2), Colour.RED, {"password": "x"}, Login("a", "b"), {1: 2}])
def test_values_that_a_reviewer_cannot_enter_are_not_editable(value: Any) -> None:
    assert call(editable=("value",), hide=("password",), value=value).editable == ()


@pytest.mark.parametrize("others", [[None], [{}], [{"amount": 4}]])
def test_edits_that_differ_between_approvers_are_rejected(others: list[dict[str, Any] | None]) -> None:
    asked = call(editable=("amount",), amount=5)

    assert asked.released(answer({"amount": 3}, {"amount": 3})).arguments == {"amount": 3}
    with pytest.raises(ArgumentsRefused, match="different changes"):
        asked.released(answer({"amount": 3}, *others))


@pytest.mark.parametrize("hide", [(), ("items",)])
def test_a_call_does_not_run_if_its_arguments_changed_during_the_review(hide: tuple[str, ...]) -> None:
    items = ["a.txt"]
    asked = call(hide=hide, items=items)
    items.append("b.txt")

    with pytest.raises(ArgumentsRefused, match="changed during the review"):
        asked.released(answer())


def test_changing_true_to_one_counts_as_a_change() -> None:
    flags: list[Any] = [True]
    asked = call(flags=flags)
    flags[0] = 1

    with pytest.raises(ArgumentsRefused):
        asked.released(answer())


def filled(text: str, /, *, hide: tuple[str, ...] = (), **values: Any) -> str:
    return Template(text, names=list(values), hide=hide).filled(call(hide=hide, **values))


def test_a_question_template_is_filled_with_the_arguments() -> None:
    assert filled("Pay {amount:.2f} to {to!r}? {{}}", amount=decimal.Decimal(5), to="ann") == "Pay 5.00 to 'ann'? {}"
    assert filled("Sign in {who.user} with {options[level]}?", who=Login("ann", "x"), options={"level": 3}) == (
        "Sign in ann with 3?"
    )


@pytest.mark.parametrize("text", ["{amout}", "{}", "{0}", "{amount:{width}}", "{amount.real.x[", "{"])
def test_a_template_with_unknown_placeholders_is_rejected_when_it_is_defined(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Template(text, names=["amount"], hide=())


@pytest.mark.parametrize("text", ["{password}", "{login.password}", "{login[password]}", "{login.x[password]}"])
def test_a_template_cannot_refer_to_hidden_arguments(text: str) -> None:
    with pytest.raises(ValueError, match="hidden"):
        Template(text, names=["password", "login"], hide=("password",))


def test_a_question_does_not_reveal_nested_hidden_values() -> None:
    said = filled(
        "{a} {b} {c}", hide=("password",), a={"password": "s3cret"}, b=Login("x", "s3cret"), c=[{"password": 1}]
    )

    assert "s3cret" not in said
    assert "{'password': 1}" not in said


@given(st.text())
def test_arguments_cannot_add_lines_fields_or_unlimited_text_to_a_question(value: str) -> None:
    said = filled("Send {text}?", text=value)

    assert said.isprintable() or all(char.isprintable() or char == "\xa0" or char.isspace() for char in said)
    assert "\n" not in said
    assert len(said) <= LONGEST_WORD + len("Send ?")
