"""Details of rules.json: every field and error, and which of several rules an entry matches."""

from dataclasses import replace
from typing import Any

import pytest

from assent.core.errors import InvalidRequest
from assent.core.rulebook import Rule
from assent.core.rules_file import Entry, plan, read, written
from tests.core.test_rules_file import file_of, planned

VERSION = "2026.01.breakpoint-rules-v1"
SECOND = 1_000_000
RULE = Rule(
    id="rule-1", pattern="a.*", action="auto-approve", note="Fine.", source="wizard", created_by="person:rita",
    created_at=86_400 * SECOND, expires_at=2 * 86_400 * SECOND, enabled=False, mode="shadow", order=4, project="shop",
    updated_at=7, version=3, head="x",
)  # fmt: skip
BODY: dict[str, Any] = {
    "id": "rule-1",
    "pattern": "a.*",
    "action": "auto-approve",
    "createdAt": "1970-01-02T00:00:00.000000Z",
    "createdBy": "person:rita",
    "source": "wizard",
    "note": "Fine.",
    "mode": "shadow",
    "enabled": False,
    "expiresAt": "1970-01-03T00:00:00.000000Z",
    "order": 4,
}
SAYS: dict[str, Any] = {
    "pattern": "a.*", "action": "auto-approve", "note": "Fine.", "mode": "shadow", "enabled": False,
    "expires_at": 2 * 86_400 * SECOND, "order": 4,
}  # fmt: skip


def refusal(*bodies: dict[str, Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read(file_of(*bodies))
    return refused.value


def test_an_export_has_exactly_the_expected_format() -> None:
    assert written([RULE]) == {"schemaVersion": VERSION, "rules": [BODY]}
    assert written([]) == {"schemaVersion": VERSION, "rules": []}


def test_defaults_are_omitted_from_an_export() -> None:
    rule = Rule(id="rule-1", pattern="a", action="never-auto-approve", order=1)
    assert written([rule])["rules"] == [
        {
            "id": "rule-1", "pattern": "a", "action": "never-auto-approve", "createdAt": "1970-01-01T00:00:00.000000Z",
            "createdBy": "system", "source": "api",
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"note": ""}, {"note": ""}),
        ({"expires_at": 0}, {"expiresAt": "1970-01-01T00:00:00.000000Z"}),
        ({"mode": "shadow"}, {"mode": "shadow"}),
        ({"enabled": False}, {"enabled": False}),
        ({"order": 0}, {"order": 0}),
        ({"order": 2}, {"order": 2}),
    ],
    ids=str,
)
def test_non_default_values_are_included_in_an_export(change: dict[str, Any], told: dict[str, Any]) -> None:
    plain = Rule(id="rule-1", pattern="a", action="auto-approve", order=1)
    (before,), (after,) = written([plain])["rules"], written([replace(plain, **change)])["rules"]
    assert after == before | told


def test_every_field_of_a_rules_file_is_parsed() -> None:
    (entry,) = read({"schemaVersion": VERSION, "rules": [BODY]})
    origin = {
        "id": "rule-1",
        "createdBy": "person:rita",
        "createdAt": "1970-01-02T00:00:00.000000Z",
        "source": "wizard",
    }
    assert entry == Entry(index=0, id="rule-1", says=SAYS, origin=origin)


def test_omitted_fields_of_an_entry_stay_unset() -> None:
    (entry,) = read(file_of({"pattern": "\t a.* \n"}))
    assert (entry.id, entry.says, entry.origin) == (None, {"action": "auto-approve", "pattern": "a.*"}, {})
    assert Entry(index=0, id=None, says={}) == Entry(index=0, id=None, says={}, origin={})


def test_an_imported_rule_records_its_source() -> None:
    named, bare = read(file_of({"id": "rule-7", "pattern": "a"}, {"pattern": "b"}))
    assert (named.source, bare.source) == ("import:rule-7", "import")
    assert (named.index, bare.index) == (0, 1)
    assert (named.key, bare.key) == (("a", "auto-approve"), ("b", "auto-approve"))


def test_the_error_for_an_unsupported_version_names_the_field() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({"schemaVersion": "2", "rules": [{"pattern": "(", "action": "?"}]})
    detail = f"is not supported; this version supports only {VERSION}"
    assert refused.value.message == f"/schemaVersion: {detail}"
    assert refused.value.details["errors"] == [{"pointer": "/schemaVersion", "detail": detail}]


def test_the_error_for_a_single_invalid_rule_omits_the_count() -> None:
    error = refusal({"pattern": "a"}, {"pattern": "a", "mode": "dark"})
    detail = "must be live or shadow"
    assert error.message == f"/rules/1/mode: {detail}"
    assert error.details == {"errors": [{"pointer": "/rules/1/mode", "detail": detail, "index": 1}], "wrong": 1}


def test_the_error_for_two_invalid_rules_shows_the_first_and_lists_both_in_its_details() -> None:
    error = refusal({"pattern": "a", "expiresAt": "soon"}, {"pattern": "a", "action": "?"})
    moment = "must be a time, for example 2027-01-31T18:00:00Z"
    assert error.message == f"/rules/0/expiresAt: {moment} (and 1 more)"
    assert error.details["wrong"] == 2
    assert error.details["errors"] == [
        {"pointer": "/rules/0/expiresAt", "detail": moment, "index": 0},
        {"pointer": "/rules/1/action", "detail": "must be auto-approve or never-auto-approve", "index": 1},
    ]


def test_the_error_for_an_invalid_pattern_includes_its_line_and_column() -> None:
    error = refusal({"pattern": "a(tags = 'x')"})
    errors: Any = error.details["errors"]
    (told,) = errors
    assert told.keys() >= {"pointer", "detail", "index", "line", "column", "hint"}
    assert (told["pointer"], told["index"], told["line"], told["column"]) == ("/rules/0/pattern", 0, 1, 8)
    assert error.message == f"/rules/0/pattern: {told['detail']}"


def test_the_error_for_a_duplicate_id_names_its_first_use() -> None:
    one: dict[str, Any] = {"id": "x", "pattern": "a"}
    error = refusal({"pattern": "a"}, one, {"pattern": "a"}, one, one)
    errors: Any = error.details["errors"]
    assert [(each["pointer"], each["detail"]) for each in errors] == [
        ("/rules/3/id", "is already used by /rules/1"),
        ("/rules/4/id", "is already used by /rules/1"),
    ]
    assert len(read(file_of({"pattern": "a"}, {"pattern": "a"}))) == 2, "missing ids are not duplicates"


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-23:59", "", "tomorrow", "2027-02-30T00:00:00Z", "10000-01-01"])
def test_an_invalid_expiry_time_is_rejected(moment: str) -> None:
    assert refusal({"pattern": "a", "expiresAt": moment}).message.startswith("/rules/0/expiresAt: ")


def same(*ids: str) -> list[Rule]:
    return [Rule(id=name, pattern="a", action="auto-approve", note=name) for name in ids]


def test_entries_match_identical_rules_in_order_and_each_rule_once() -> None:
    found = planned(file_of({"pattern": "a"}, {"pattern": "a"}), same("rule-1", "rule-2", "rule-3"), replacing=True)
    assert [(entry.index, rule.id) for entry, rule in found.unchanged] == [(0, "rule-1"), (1, "rule-2")]
    assert [rule.id for rule in found.removed] == ["rule-3"]
    more = planned(file_of(*[{"pattern": "a"}] * 3), same("rule-1"))
    assert [entry.index for entry in more.added] == [1, 2]


def test_an_entry_does_not_match_a_rule_with_the_opposite_action() -> None:
    opposite = [replace(rule, action="never-auto-approve") for rule in same("rule-1")]
    found = planned(file_of({"id": "x", "pattern": "a"}), opposite)
    assert ([entry.id for entry in found.added], found.changed, found.unchanged) == (["x"], (), ())


def test_rules_missing_from_the_file_are_removed_only_when_replacing() -> None:
    standing = [*same("rule-1"), Rule(id="rule-2", pattern="b", action="auto-approve")]
    entries = read(file_of({"pattern": "b", "note": "New."}))
    kept, replaced = (plan(entries, standing, replacing=replacing) for replacing in (False, True))
    assert kept.removed == ()
    assert replaced.removed == (standing[0],)
    changed = ((entries[0], replace(standing[1], note="New.")),)
    assert kept.changed == replaced.changed == changed
    assert kept.added == replaced.added == ()
    assert kept.unchanged == replaced.unchanged == ()


def test_an_unchanged_rule_is_returned_unmodified() -> None:
    standing = replace(RULE, pattern="a")
    (entry,) = read(file_of({"pattern": "a", "enabled": False}))
    assert plan([entry], [standing], replacing=False).unchanged == ((entry, standing),)
