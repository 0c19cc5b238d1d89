"""rules.json: round trips, errors, and imports that change only the fields in the file."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.errors import InvalidRequest
from assent.core.rule_changes import content
from assent.core.rulebook import Rule
from assent.core.rules_file import SCHEMA_VERSION, Plan, plan, read, written

PATTERNS = ("a.*", "b", "*.c(tags contains 'x')", "d(attempt < 3)")
rules = st.lists(
    st.builds(
        Rule,
        id=st.just(""),
        pattern=st.sampled_from(PATTERNS),
        action=st.sampled_from(["auto-approve", "never-auto-approve"]),
        note=st.none() | st.text(max_size=5),
        mode=st.sampled_from(["live", "shadow"]),
        enabled=st.booleans(),
        expires_at=st.none() | st.integers(0, 4_000_000_000_000_000),
        order=st.integers(0, 6),
    ),
    max_size=8,
).map(lambda found: [replace(rule, id=f"rule-{n}") for n, rule in enumerate(sorted(found, key=lambda r: r.order))])


def file_of(*bodies: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": SCHEMA_VERSION, "rules": [{"action": "auto-approve", **body} for body in bodies]}


def planned(document: dict[str, Any], standing: list[Rule], *, replacing: bool = False) -> Plan:
    return plan(read(document), standing, replacing=replacing)


@given(standing=rules)
def test_importing_an_unmodified_export_changes_nothing(standing: list[Rule]) -> None:
    found = planned(written(standing), standing, replacing=True)
    assert (found.added, found.changed, found.removed) == ((), (), ())
    assert [rule.id for _, rule in found.unchanged] == [rule.id for rule in standing]


@given(standing=rules)
def test_an_export_contains_all_fields_of_a_rule(standing: list[Rule]) -> None:
    """Importing it into an empty project creates the same rules in the same order."""
    found = planned(written(standing), [])
    defaults = Rule(id="", pattern="", action="")
    made = [replace(defaults, **{"order": n + 1, **entry.says}) for n, entry in enumerate(found.added)]
    assert [content(rule) for rule in made] == [content(rule) for rule in standing]


@given(standing=rules, imported=rules, replacing=st.booleans())
def test_importing_a_rules_file_is_idempotent(standing: list[Rule], imported: list[Rule], *, replacing: bool) -> None:
    document = written([replace(rule, id=f"other-{rule.id}") for rule in imported])
    first = planned(document, standing, replacing=replacing)
    gone = {rule.id for rule in first.removed}
    changed = {rule.id: rule for _, rule in first.changed}
    after = [changed.get(rule.id, rule) for rule in standing if rule.id not in gone]
    after += [Rule(id=f"new-{entry.index}", **{"order": 1, **entry.says}) for entry in first.added]
    again = planned(document, after, replacing=replacing)
    assert (again.added, again.removed) == ((), ())


@given(standing=rules, imported=rules)
def test_each_rule_matches_at_most_one_entry(standing: list[Rule], imported: list[Rule]) -> None:
    found = planned(written(imported), standing, replacing=True)
    matched = [rule.id for _, rule in (*found.changed, *found.unchanged)]
    assert len(matched) == len(set(matched))
    assert {rule.id for rule in standing} == {*matched, *(rule.id for rule in found.removed)}


def test_fields_that_a_file_omits_are_unchanged() -> None:
    standing = Rule(
        id="rule-1", pattern="a.*", action="auto-approve", note="n", enabled=False, mode="shadow", order=9, expires_at=1
    )
    found = planned(file_of({"id": "elsewhere", "pattern": " a.* "}), [standing])
    assert [rule for _, rule in found.unchanged] == [standing]
    (changed,) = planned(file_of({"pattern": "a.*", "note": "m"}), [standing]).changed
    assert changed[1] == replace(standing, note="m")


def test_a_rule_matches_by_its_own_id_but_never_by_its_imported_id() -> None:
    standing = Rule(id="rule-1", pattern="a.*", action="never-auto-approve", source="import:rule-2")
    (changed,) = planned(
        file_of({"id": "rule-1", "pattern": "a.b", "action": "never-auto-approve"}), [standing]
    ).changed
    assert changed[1].pattern == "a.b"
    found = planned(file_of({"id": "rule-2", "pattern": "z.*"}), [standing])
    assert (len(found.added), found.changed) == (1, ())


def test_an_entry_never_matches_a_rule_that_another_entry_identifies_by_id() -> None:
    first, second = (Rule(id=f"rule-{n}", pattern="a.*", action="auto-approve") for n in (1, 2))
    found = planned(file_of({"pattern": "a.*"}, {"id": "rule-1", "pattern": "a.*"}), [first, second])
    assert [(entry.index, rule.id) for entry, rule in found.unchanged] == [(0, "rule-2"), (1, "rule-1")]


def test_rule_orders_are_exported_only_if_they_differ_from_the_positions() -> None:
    plain = [Rule(id=f"rule-{n}", pattern="a", action="auto-approve", order=n) for n in (1, 2, 3)]
    assert [each.keys() & {"order", "mode", "enabled", "expiresAt", "note"} for each in written(plain)["rules"]] == [
        set()
    ] * 3
    moved = [replace(plain[0], order=2), *plain[1:]]
    assert [each["order"] for each in written(moved)["rules"]] == [2, 2, 3]


def test_every_invalid_rule_is_reported_with_its_position() -> None:
    document = file_of(
        {"id": "1", "pattern": "fine"},
        {"id": "2", "pattern": "a(tags = 'x')"},
        {"id": "1", "pattern": "fine"},
        {"pattern": "fine", "expiresAt": "tomorrow"},
        {"pattern": "fine", "action": "sometimes"},
        {"pattern": "("},
    )
    with pytest.raises(InvalidRequest) as refused:
        read(document)
    errors: Any = refused.value.details["errors"]
    assert [(each["index"], each["pointer"]) for each in errors] == [
        (1, "/rules/1/pattern"),
        (2, "/rules/2/id"),
        (3, "/rules/3/expiresAt"),
        (4, "/rules/4/action"),
        (5, "/rules/5/pattern"),
    ]
    assert (errors[0]["line"], errors[0]["column"], errors[0]["hint"]) == (1, 8, "Use tags contains 'x'.")
    assert "(and 4 more)" in refused.value.message


def test_all_invalid_rules_are_counted_but_at_most_200_are_listed() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(file_of(*[{"pattern": "("}] * 300))
    errors: Any = refused.value.details["errors"]
    assert (len(errors), refused.value.details["wrong"]) == (200, 300)


@pytest.mark.parametrize("version", ["", "2", "2026.01.breakpoint-rules-v2", "2026.01.breakpoint-rules-v1 "])
def test_an_unknown_schema_version_is_rejected(version: str) -> None:
    with pytest.raises(InvalidRequest, match="schemaVersion"):
        read({"schemaVersion": version, "rules": []})
