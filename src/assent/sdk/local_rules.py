"""The rules of this machine, from rules.json and policy.json, evaluated with the same code as on the server."""

import json
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assent.contracts import rules_file as wire
from assent.contracts.models import read as read_shape
from assent.contracts.projects import Policy
from assent.contracts.shape import Shape
from assent.core.canonical import Json, strict_loads
from assent.core.counting import Counting
from assent.core.errors import AssentError, InvalidRequest, NotFound
from assent.core.rulebook import Rule, Rulebook, RuleMode, checked
from assent.core.rules_file import SCHEMA_VERSION, read
from assent.core.timestamps import from_iso, iso
from assent.sdk.local_journal import sole, unusable

RULES, POLICY = "rules.json", "policy.json"
_NO_RULES: Mapping[str, Json] = {"schemaVersion": SCHEMA_VERSION, "rules": []}


@dataclass(frozen=True, slots=True)
class LocalRules:
    """The rules to apply; if there is a problem, nothing is auto-approved."""

    rules: Sequence[Rule]
    counting: Counting
    always_break_on: Sequence[str] = ()
    problem: str | None = None

    def book(self, *, without: Collection[str] = ()) -> Rulebook:
        return Rulebook.of([rule for rule in self.rules if rule.id not in without], self.always_break_on)


def read_rules(folder: Path) -> LocalRules:
    """Read both files; if one cannot be read, nothing is auto-approved and `problem` says why."""
    try:
        policy = _document(folder / POLICY, Policy) or {}
        document = _document(folder / RULES, wire.RulesFile) or _NO_RULES
        rules = _read(document)
    except AssentError as error:
        return LocalRules((), Counting(allowed=False), problem=error.message)
    return LocalRules(rules, Counting.of(policy), policy.get("alwaysBreakOn") or ())


def add_rule(folder: Path, rule: Rule, *, order: int | None = None, instead_of: Collection[str] = ()) -> Rule:
    """Append a rule to rules.json and return it as read from the file; the other rules stay as written."""
    checked(rule)
    placed = {} if order is None else {"order": order}

    def with_rule(bodies: list[Json], rules: Sequence[Rule]) -> list[Json]:
        kept = [body for body, each in zip(bodies, rules, strict=True) if each.id not in instead_of]
        return [*kept, _written(rule) | placed]

    return _changed(folder, with_rule)[-1]


def listed(folder: Path) -> list[Rule]:
    """Return the rules of rules.json in evaluation order; raise if the file would be ignored."""
    rules = _read(_document(folder / RULES, wire.RulesFile) or _NO_RULES)
    return sorted(rules, key=lambda rule: (rule.order, rule.created_at, rule.id))


def remove_rule(folder: Path, rule_id: str) -> None:
    """Remove a rule from rules.json; the other rules stay as written."""

    def without(bodies: list[Json], rules: Sequence[Rule]) -> list[Json]:
        place = _place(rules, rule_id)
        return bodies[:place] + bodies[place + 1 :]

    _changed(folder, without)


def change_rule(folder: Path, rule_id: str, changes: Mapping[str, Json]) -> Rule:
    """Change fields of a rule in rules.json, by their names in the file; None removes a field."""
    place = 0

    def with_changes(bodies: list[Json], rules: Sequence[Rule]) -> list[Json]:
        nonlocal place
        place = _place(rules, rule_id)
        body = {name: value for name, value in {**bodies[place], **changes}.items() if value is not None}
        return [*bodies[:place], body, *bodies[place + 1 :]]

    return _changed(folder, with_changes)[place]


def _changed(folder: Path, change: Callable[[list[Json], Sequence[Rule]], list[Json]]) -> list[Rule]:
    """Rewrite rules.json with a change; raise if the old or the new file contains an invalid rule."""
    path = folder / RULES
    with sole(folder):
        document = _document(path, wire.RulesFile) or _NO_RULES
        new = {**document, "rules": change(list(document["rules"]), _read(document))}
        _check_shape(path, new, wire.RulesFile)
        # Validate the whole new file before it replaces the old one.
        rules = _read(new)
        _replace(path, new)
    return rules


def _place(rules: Sequence[Rule], rule_id: str) -> int:
    found = [n for n, rule in enumerate(rules) if rule.id == rule_id]
    if not found:
        msg = f"Rule {rule_id} not found in {RULES}."
        raise NotFound(msg)
    # A file edited by hand can contain the same ID twice, and choosing one of them could change the wrong rule.
    if len(found) > 1:
        msg = f"{RULES} contains {len(found)} rules with the ID {rule_id}. Give each rule a unique ID."
        raise InvalidRequest(msg)
    return found[0]


def _read(document: Mapping[str, Json]) -> list[Rule]:
    """Return the rules and their origin as recorded in the file, in the order of the file."""
    return [_with_origin(rule, body) for rule, body in zip(_rules(document), document["rules"], strict=True)]


def _with_origin(rule: Rule, body: Mapping[str, Json]) -> Rule:
    return replace(
        rule,
        created_at=_moment(body.get("createdAt")),
        created_by=body.get("createdBy") or "",
        source=body.get("source") or "file",
    )


def _moment(text: str | None) -> int:
    try:
        return from_iso(text) if text else 0
    except (ValueError, OverflowError):  # the time is only displayed
        return 0


def _written(rule: Rule) -> dict[str, Json]:
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
        "expiresAt": (iso(rule.expires_at or 0), rule.expires_at is not None),
    }
    return body | {name: value for name, (value, told) in more.items() if told}


def _replace(path: Path, document: Mapping[str, Json]) -> None:
    # Write a new file and then rename it, so that a crash never leaves a partial rules.json.
    beside = path.with_suffix(".new")
    try:
        file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            json.dump(document, opened, ensure_ascii=False, indent=2)
            opened.write("\n")
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(path)
    except OSError as error:
        raise unusable(path, error) from error


def _document(path: Path, shape: type[Shape]) -> dict[str, Any] | None:
    """Return the content of a local file, or None if it does not exist; raise if other users could have written it."""
    try:
        with path.open("rb") as file:
            # Check the open file, because the path could be replaced between a check and the read.
            _refuse_foreign(path, os.fstat(file.fileno()))
            found = strict_loads(file.read())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from error
    except AssentError as error:
        raise InvalidRequest(f"{path.name} is ignored: {error.message}") from error
    _check_shape(path, found, shape)
    return dict(found)


def _check_shape(path: Path, document: Json, shape: type[Shape]) -> None:
    try:
        read_shape(shape, document)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/" + "/".join(map(str, first["loc"]))
        raise InvalidRequest(f"{path.name} is ignored: {place}: {first['msg']}.") from error


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if found.st_mode & stat.S_IWOTH or found.st_uid not in {os.geteuid(), 0}:
        msg = f"it is writable by other users. Run: chmod 600 {path}"
        raise InvalidRequest(msg)


def _rules(document: Mapping[str, Json]) -> list[Rule]:
    try:
        entries = read(document)
    except InvalidRequest as error:
        raise InvalidRequest(f"{RULES} is ignored: {error.message}.") from error
    rules: list[Rule] = []
    place = 1
    for entry in entries:
        says: dict[str, Any] = {"order": place, **entry.says}
        rules.append(Rule(id=entry.id or f"rule-{entry.index}", source=entry.source, **says))
        place = max(place, rules[-1].order + 1)
    return rules
