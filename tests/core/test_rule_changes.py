"""Rule changes are linked to the previous change and record the actor, time, content and reason."""

import pytest

from assent.core.access import Actor, Kind
from assent.core.canonical import GENESIS, link
from assent.core.rule_changes import body, changed, content, created, removed
from assent.core.rulebook import Rule

ANN = Actor(Kind.PERSON, "ann")
NOW = 1_800_000_000_000_000
RULE = Rule(
    id="rule_1", pattern="ci.*", action="auto-approve", note="Tests.", source="file", project="shop", order=3,
    mode="shadow", enabled=False, expires_at=NOW, version=7, head="x",
)  # fmt: skip
SAID = {
    "pattern": "ci.*", "action": "auto-approve", "mode": "shadow", "enabled": False,
    "expiresAt": "2027-01-15T08:00:00.000000Z", "note": "Tests.", "order": 3,
}  # fmt: skip


def test_the_recorded_content_of_a_rule_has_a_fixed_format() -> None:
    assert content(RULE) == SAID
    assert content(Rule(id="rule_2", pattern="*", action="never-auto-approve")) == {
        "pattern": "*", "action": "never-auto-approve", "mode": "live", "enabled": True, "expiresAt": None,
        "note": None, "order": 0,
    }  # fmt: skip
    assert content(Rule(id="rule_2", pattern="*", action="auto-approve", expires_at=0))["expiresAt"] is not None


def test_a_new_rule_starts_a_new_chain() -> None:
    rule, event = created(RULE, actor=ANN, at=NOW, why="Asked for.")
    assert (event.rule_id, event.seq, event.type, event.actor, event.at) == ("rule_1", 1, "rule-created", ANN, NOW)
    assert event.metadata == {"project": "shop", "source": "file", "rule": SAID, "why": "Asked for."}
    assert (event.previous, rule.version, rule.head) == (GENESIS, 1, event.hash)
    assert (rule.created_at, rule.created_by, rule.updated_at, rule.removed_at) == (NOW, "person:ann", NOW, None)


def test_the_origin_stated_in_a_file_is_recorded_in_addition_to_the_importer() -> None:
    rule, event = created(RULE, actor=ANN, at=NOW, imported={"createdBy": "eve"})
    assert event.metadata == {"project": "shop", "source": "file", "imported": {"createdBy": "eve"}, "rule": SAID}
    assert (rule.created_by, event.actor) == ("person:ann", ANN)


def test_a_change_without_a_reason_omits_the_reason() -> None:
    _, event = changed(RULE, actor=ANN, at=NOW)
    assert event.metadata == {"rule": SAID}
    assert changed(RULE, actor=ANN, at=NOW, why="")[1].metadata == {"rule": SAID, "why": ""}


def test_each_change_is_linked_to_the_previous_one() -> None:
    first, one = created(RULE, actor=ANN, at=NOW)
    second, two = changed(first, actor=ANN, at=NOW + 1, why="Better.")
    third, three = removed(second, actor=ANN, at=NOW + 2)
    assert [each.type for each in (one, two, three)] == ["rule-created", "rule-changed", "rule-removed"]
    assert [each.seq for each in (one, two, three)] == [1, 2, 3] == [each.version for each in (first, second, third)]
    assert [each.previous for each in (one, two, three)] == [GENESIS, one.hash, two.hash]
    assert (third.removed_at, second.removed_at, third.updated_at) == (NOW + 2, None, NOW + 2)
    assert (third.created_at, third.created_by) == (NOW, "person:ann")


@pytest.mark.parametrize("make", [created, changed, removed])
def test_the_event_hash_covers_the_event_and_the_previous_hash(make: object) -> None:
    assert callable(make)
    _, event = make(RULE, actor=ANN, at=NOW, why="So.")
    said = {
        "ruleId": "rule_1", "seq": event.seq, "type": event.type, "actor": "person:ann", "at": NOW,
        "metadata": event.metadata,
    }  # fmt: skip
    assert body(event) == said
    assert event.hash == link(event.previous, said)
    assert event.previous == (GENESIS if make is created else "x")
