"""The file `rules.json`: exports rules, and determines what an import would change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assent.core.canonical import Json
from assent.core.errors import Details, InvalidRequest, PatternError
from assent.core.rule_changes import content
from assent.core.rulebook import Rule, RuleMode, checked, expiry
from assent.core.timestamps import iso

SCHEMA_VERSION = "2026.01.breakpoint-rules-v1"
"""The only version so far."""
IMPORTED = "import:"
"""Prefix of an imported rule's source, followed by its ID in the file."""
MAX_NAMED = 200
_ORIGIN = ("id", "createdBy", "createdAt", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A rule in a file: its fields, with their names in `Rule`, and its origin."""

    index: int
    id: str | None
    says: Mapping[str, Any]
    origin: Mapping[str, Json] = field(default_factory=dict[str, Json])

    @property
    def source(self) -> str:
        return f"{IMPORTED}{self.id}" if self.id else IMPORTED.rstrip(":")

    @property
    def key(self) -> tuple[str, str]:
        return self.says["pattern"], self.says["action"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that an import will make."""

    added: tuple[Entry, ...]
    changed: tuple[tuple[Entry, Rule], ...]
    """Entries with the rules as they will be after the change."""
    unchanged: tuple[tuple[Entry, Rule], ...]
    removed: tuple[Rule, ...]


def written(rules: Sequence[Rule]) -> dict[str, Json]:
    """Return the content of a file with these rules, without fields that have their default value."""
    # Write the order of all rules or of none. Otherwise, the rules without an order would move during an import.
    ordered = [rule.order for rule in rules] == list(range(1, len(rules) + 1))
    return {"schemaVersion": SCHEMA_VERSION, "rules": [_written(each, ordered=ordered) for each in rules]}


def _written(rule: Rule, *, ordered: bool) -> dict[str, Json]:
    body: dict[str, Json] = {
        "id": rule.id,
        "pattern": rule.pattern,
        "action": rule.action,
        "createdAt": iso(rule.created_at),
        "createdBy": rule.created_by,
        "source": rule.source,
    }
    more: dict[str, tuple[Json, bool]] = {
        "note": (rule.note, rule.note is not None),
        "mode": (rule.mode, rule.mode != RuleMode.LIVE),
        "enabled": (rule.enabled, not rule.enabled),
        "expiresAt": (iso(rule.expires_at) if rule.expires_at is not None else None, rule.expires_at is not None),
        "order": (rule.order, not ordered),
    }
    return body | {name: value for name, (value, told) in more.items() if told}


def read(document: Mapping[str, Json]) -> list[Entry]:
    """Parse a file, or raise InvalidRequest with the index of every invalid rule and the position in it.

    The caller has validated the schema, so all fields are known and have the right types.
    """
    if document["schemaVersion"] != SCHEMA_VERSION:
        raise InvalidRequest.at("/schemaVersion", f"is not supported; this version supports only {SCHEMA_VERSION}")
    entries: list[Entry] = []
    wrong: list[Details] = []
    seen: dict[str, int] = {}
    for index, body in enumerate(document["rules"]):
        try:
            entries.append(_entry(index, body, seen))
        except InvalidRequest as error:
            wrong.append(_named(index, error))
    if wrong:
        raise _refusal(wrong)
    return entries


def _entry(index: int, body: Mapping[str, Json], seen: dict[str, int]) -> Entry:
    origin_id = body.get("id")
    if origin_id is not None and (first := seen.setdefault(origin_id, index)) != index:
        raise InvalidRequest.at("/id", f"is already used by /rules/{first}")
    says: dict[str, Any] = {name: body[name] for name in ("action", "note", "mode", "enabled", "order") if name in body}
    says["pattern"] = body["pattern"].strip()
    if "expiresAt" in body:
        says["expires_at"] = expiry(body["expiresAt"])
    checked(Rule(id="", **says))
    return Entry(index=index, id=origin_id, says=says, origin={name: body[name] for name in _ORIGIN if name in body})


def _named(index: int, error: InvalidRequest) -> Details:
    """Return the details of an error, with the index of the rule and the position in the rule or its pattern."""
    if isinstance(error, PatternError):
        return {"pointer": f"/rules/{index}/pattern", "detail": error.message, "index": index, **error.details}
    pointer, _, detail = error.message.partition(": ")  # the format of InvalidRequest.at
    return {"pointer": f"/rules/{index}{pointer}", "detail": detail, "index": index}


def _refusal(wrong: Sequence[Details]) -> InvalidRequest:
    first = wrong[0]
    others = len(wrong) - 1
    more = f" (and {others} more)" if others else ""
    return InvalidRequest(
        f"{first['pointer']}: {first['detail']}{more}",
        errors=wrong[:MAX_NAMED],
        wrong=len(wrong),
    )


def plan(entries: Sequence[Entry], standing: Sequence[Rule], *, replacing: bool) -> Plan:
    """Match each entry to an existing rule by ID, or else by pattern and action. Entries without a match are added.

    Fields that an entry omits are not changed: for example, a disabled rule stays disabled.
    """
    found = _found(entries, standing)
    pairs = [(entry, rule, replace(rule, **entry.says)) for entry in entries if (rule := found.get(entry.index))]
    kept = {rule.id for rule in found.values()}
    return Plan(
        added=tuple(entry for entry in entries if entry.index not in found),
        changed=tuple((entry, wanted) for entry, rule, wanted in pairs if content(wanted) != content(rule)),
        unchanged=tuple((entry, rule) for entry, rule, wanted in pairs if content(wanted) == content(rule)),
        removed=tuple(rule for rule in standing if replacing and rule.id not in kept),
    )


def _found(entries: Sequence[Entry], standing: Sequence[Rule]) -> dict[int, Rule]:
    """Match all entries by ID first, so that no entry takes a rule that another entry identifies by ID."""
    found: dict[int, Rule] = {}
    left = {rule.id: rule for rule in standing}
    for of_entry, of_rule in _SIGNS:
        having: dict[object, list[Rule]] = {}
        for rule in left.values():
            having.setdefault(of_rule(rule), []).append(rule)
        for entry in entries:
            candidates = [] if entry.index in found else having.get(of_entry(entry), [])
            if candidates:
                found[entry.index] = candidates.pop(0)
                del left[found[entry.index].id]
    return found


_SIGNS: tuple[tuple[Callable[[Entry], object], Callable[[Rule], object]], ...] = (
    (lambda entry: entry.id, lambda rule: rule.id),
    (lambda entry: entry.key, lambda rule: (rule.pattern, rule.action)),
)
