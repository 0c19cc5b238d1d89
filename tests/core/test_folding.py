"""Rules that stop agents cannot be bypassed with a different type, case or spelling."""

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assent.core.patterns.expressions import MAX_ELEMENTS, Subject, Truth
from assent.core.patterns.folding import readings
from assent.core.patterns.pattern import explain, match, parse
from assent.core.protected_paths import MOST_VALUES
from assent.core.rulebook import Rule, RuleAction, Rulebook
from assent.core.rules import Source, recommend
from assent.policy.backtest import Effect, Past, Trial
from tests.core.pattern_language import Node, Style, predicates, subjects, trees, written

ORDER = {False: 0, None: 1, True: 2}
ZERO_WIDTH = ("\u200b", "\u2060", "\u00ad", "\u034f", "\ufe01", "\U000e0061", "\U00016fe4", "\U0001d159")
BLANKS = ("\t", "\n", "\r", "\u00a0", "\u1680", "\u2003", "\u202f", "\u3000", "\u2028", "\u3164", "\u2800")


def asked(
    command: Any,
    pattern: str = "shell.*(payload.command contains 'rm -rf')",
    gate: str = "shell.run",
) -> tuple[Source, Truth]:
    """Return the source that decides on a command that an auto-approve rule would approve."""
    rules = [
        Rule(id="rule-never", pattern=pattern, action="never-auto-approve"),
        Rule(id="rule-auto", pattern="*", action="auto-approve", order=1),
    ]
    found = recommend(
        Rulebook.of(rules),
        Subject(gate, {"payload": {"command": command}, "tags": []}),
        hard_stop=False,
        after_n=None,
        consecutive=0,
        now=0,
    )
    return found.source, found.trace[0].held if found.trace[0].source is Source.NEVER else False


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /", "RM -RF /", "rm\u00a0-rf /", "rm\t-rf", "rm\n-rf", "rm  -rf", "r\u200bm -r\u00adf", "ｒｍ -rf",
        "rm\u3164-rf", "rm\u2800-rf", "𝐫𝐦 -rf", ["rm -rf /"], ["bash", "-c", "rm -rf /"], ["rm", "-rf", "/"],
        [["rm"], [["-rf"], "/"]], ["RM", "-RF"], ["ls", "rm\u200b -rf"],
    ],
)  # fmt: skip
def test_a_never_rule_cannot_be_bypassed_with_another_type_or_spelling(command: Any) -> None:
    assert asked(command) == (Source.NEVER, True)


@pytest.mark.parametrize("command", [[], {}, {"line": "ls"}, 5, True, None, ["ls", {}], ["ls", 5], ["ls", []], [[]]])
def test_a_never_rule_evaluates_to_unknown_for_a_non_string_value(command: Any) -> None:
    assert asked(command) == (Source.NEVER, None)


@pytest.mark.parametrize("command", ["ls", "rm file", ["ls", "-la"], ["rm", "file", "-rf"], "ŗm -rf", ""])
def test_an_unrelated_command_is_not_stopped(command: Any) -> None:
    assert asked(command) == (Source.AUTO, False)


def test_a_never_rule_evaluates_to_unknown_for_an_oversized_list() -> None:
    assert asked(["ls"] * (MAX_ELEMENTS + 1)) == (Source.NEVER, None)
    longest = Subject("shell.run", {"payload": {"command": ["ls"] * MAX_ELEMENTS}})
    assert match(parse("shell.*(payload.command contains 'rm -rf')"), longest, loose=True) is False


def test_a_list_too_long_to_check_for_protected_files_is_not_approved() -> None:
    values = MOST_VALUES - 1  # the name of the field also counts as a value
    assert asked(["ls"] * values) == (Source.AUTO, False)
    assert asked(["ls"] * (values + 1)) == (Source.PROTECTED, False)
    assert asked(["ls"] * MAX_ELEMENTS) == (Source.PROTECTED, False)


@pytest.mark.parametrize("gate", ["Shell.run", "SHELL.RUN", "shell\u200b.run", "ｓhell.run", "she\u00adll.x"])
def test_only_the_globs_of_never_rules_ignore_case_and_spelling(gate: str) -> None:
    assert asked("rm -rf", gate=gate) == (Source.NEVER, True)
    exact = Rulebook.of([Rule(id="rule-auto", pattern="shell.*", action="auto-approve")])
    assert exact.fitting(gate, 0) == []


@pytest.mark.parametrize(
    ("pattern", "value", "held"),
    [
        ("*(payload.env = 'prod')", "PROD", True),
        ("*(payload.env = 'prod')", ["Prod"], True),
        ("*(payload.env = 'prod')", " prod ", True),
        ("*(payload.env in ('prod', 'live'))", "Live", True),
        ("*(payload.env startswith 'pro')", [["PROD"]], True),
        ("*(payload.env endswith 'duction')", "produ\u200bction", True),
        ("*(payload.env matches 'p*d')", "PROD", True),
        ("*(payload.env matches 'p*d')", ["x", "PROD"], True),
        ("*(payload.env >= 'p')", "PROD", True),
        ("*(payload.env != 'prod')", "PROD", True),
        ("*(payload.env != 'prod')", "prod", False),
        ("*(NOT payload.env = 'prod')", "PROD", True),
        ("*(NOT payload.env = 'prod')", "prod", False),
        ("*(NOT payload.env != 'prod')", "PROD", True),
        ("*(NOT (NOT payload.env = 'prod'))", "PROD", True),
        ("*(NOT (payload.env != 'prod' AND payload.env contains 'x'))", "PROD", True),
        ("*(payload.env = 5)", "5", None),
        ("*(payload.env contains 5)", [], None),
        ("*(payload.env contains 5)", [4], False),
        ("*(payload.env contains 'café')", "CAFE\u0301", True),
    ],
)
def test_loose_matching_applies_only_to_conditions_that_are_not_negated(pattern: str, value: Any, held: Truth) -> None:
    subject = Subject("gate", {"payload": {"env": value}})
    assert match(parse(pattern), subject, loose=True) is held
    assert explain(parse(pattern), subject, loose=True)[0].held


@pytest.mark.parametrize("tags", [["Critical"], ["critical "], ["cri\u200btical"], ["ＣRITICAL"]])
def test_always_break_on_ignores_case_and_spelling(tags: list[str]) -> None:
    book = Rulebook.of([Rule(id="rule-auto", pattern="*", action="auto-approve")], ["critical"])
    found = recommend(book, Subject("gate", {"tags": tags}), hard_stop=False, after_n=None, consecutive=0, now=0)
    assert found.source is Source.ALWAYS_BREAK_ON


def test_missing_tags_match_as_an_empty_list_and_tags_match_only_in_full() -> None:
    pattern = parse("*(tags contains 'prod' OR expert = 'ann')")
    for tags, held in (([], False), (["non-prod"], False), (["PROD"], True)):
        assert match(pattern, Subject("gate", {"tags": tags}), loose=True) is held
    assert match(pattern, Subject("gate", {"expert": "Ann"}), loose=True) is True


def test_back_tests_of_never_rules_use_loose_matching() -> None:
    past = Past(subject=Subject("Shell.run", {"payload": {"command": ["RM", "-rf"]}}))
    pattern = parse("shell.*(payload.command contains 'rm -rf')")
    for action, effect in ((RuleAction.NEVER, Effect.ACTS), (RuleAction.AUTO, Effect.NONE)):
        assert Trial(pattern, action, Rulebook.of(()), 0).effect(past) is effect


@given(trees(predicates()), subjects())
def test_loose_matching_covers_everything_that_exact_matching_matches(tree: Node, subject: Subject) -> None:
    pattern = parse(f"*({written(tree, Style())})")
    assert ORDER[match(pattern, subject, loose=True)] >= ORDER[match(pattern, subject)]


def spelled(draw: st.DrawFn, text: str) -> str:
    """Spell the same text differently."""
    text = unicodedata.normalize(draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"])), text)
    text = "".join(draw(st.sampled_from([char, char.upper(), char.lower()])) for char in text)
    text = "".join(draw(st.sampled_from(BLANKS)) if char == " " and draw(st.booleans()) else char for char in text)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(ZERO_WIDTH)) + text[at:]
    return text


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[str, str, Any]:
    """Draw an operator, its operand, and a respelled text that must match."""
    words = st.text(st.sampled_from("abz é-/ßÅ1"), min_size=1, max_size=8).filter(lambda each: each == each.strip())
    wanted, before, after = draw(words), draw(words), draw(words)
    verb = draw(st.sampled_from(["=", "contains", "startswith", "endswith", "matches"]))
    text = {
        "=": wanted,
        "contains": f"{before} {wanted} {after}",
        "startswith": f"{wanted}{after}",
        "endswith": f"{before}{wanted}",
        "matches": wanted,
    }[verb]
    value: Any = spelled(draw, text)
    if draw(st.booleans()):
        value = value.split(" ")
    for _ in range(draw(st.integers(0, 3))):
        value = [value]
    return verb, wanted, value


@given(rewritten())
@example(("contains", "rm -rf", ["rm", "-rf"]))
def test_respelling_a_matching_value_does_not_bypass_a_never_rule(case: tuple[str, str, Any]) -> None:
    verb, wanted, value = case
    pattern = parse(f"*(payload.value {verb} '{wanted}')")
    assert match(pattern, Subject("gate", {"payload": {"value": value}}), loose=True) is True


@pytest.mark.parametrize("value", ["r\U00016fe4m\u3164-rf", ["r\U00016fe4m\u3164-rf"], "r\u3164m\u2800-\u3164r\u2800f"])
@pytest.mark.parametrize("test", ["= 'rm -rf'", "contains 'rm -r'", "matches 'rm -*'", "endswith 'm -rf'"])
def test_multiple_filler_characters_cannot_hide_a_match(test: str, value: Any) -> None:
    pattern = parse(f"*(payload.value {test})")
    assert match(pattern, Subject("gate", {"payload": {"value": value}}), loose=True) is True


@pytest.mark.parametrize("test", ["= 'rm -rf'", "contains 'rm'", "matches 'rm *'", ">= 'rm'"])
def test_matching_unrelated_text_with_multiple_fillers_yields_unknown(test: str) -> None:
    pattern = parse(f"*(payload.value {test})")
    assert match(pattern, Subject("gate", {"payload": {"value": "l\u3164s\u3164"}}), loose=True) is None


def test_fillers_in_a_tag_do_not_bypass_always_break_on() -> None:
    book = Rulebook.of([Rule(id="rule-auto", pattern="*", action="auto-approve")], ["needs review"])
    assert book.breaks_on("needs\u3164rev\u3164iew")
    assert not book.breaks_on("needs\u3164rev\u3164iews")


@given(st.text(max_size=40))
def test_normalized_text_shares_a_reading_with_the_original(text: str) -> None:
    assert set(readings(text)) & set(readings(readings(text)[0]))


@pytest.mark.parametrize("arguments", [{"force": True}, [{"force": True}], '{"force": true}', 5])
def test_an_exists_condition_in_a_never_rule_cannot_be_bypassed_with_a_parent_of_another_type(arguments: Any) -> None:
    source, _ = asked(arguments, "shell.*(payload.command.force exists)")
    assert source is Source.NEVER


@pytest.mark.parametrize("arguments", [{}, {"other": 1}, None])
def test_exists_is_false_if_the_parent_has_no_such_member(arguments: Any) -> None:
    source, _ = asked(arguments, "shell.*(payload.command.force exists)")
    assert source is not Source.NEVER
