"""The rules of this machine: rules.json and policy.json in the local folder, followed by the server's own code."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from assent.domain.canonical import Json, strict_loads
from assent.domain.errors import AssentError, InvalidRequest
from assent.domain.instants import iso
from assent.domain.rulebook import Rule, RuleAction, Rulebook, checked
from assent.domain.rules_file import SCHEMA_VERSION, read
from assent.sdk.local_journal import sole, unusable
from assent.wire import rules_file as wire
from assent.wire.projects import Policy

RULES, POLICY = "rules.json", "policy.json"
_NO_RULES: Mapping[str, Json] = {"schemaVersion": SCHEMA_VERSION, "rules": []}


@dataclass(frozen=True, slots=True)
class LocalRules:
    """What to follow; with a problem, nothing is approved without asking."""

    book: Rulebook
    agents_may_count: bool
    problem: str | None = None


def read_rules(folder: Path) -> LocalRules:
    """Read both files; one that cannot be read never approves, and says so."""
    try:
        policy = _document(folder / POLICY, Policy) or {}
        document = _document(folder / RULES, wire.RulesFile) or _NO_RULES
        rules = _rules(document)
    except AssentError as error:
        return LocalRules(Rulebook.of(()), False, error.message)
    book = Rulebook.of(rules, policy.get("alwaysBreakOn") or ())
    return LocalRules(book, policy.get("autoApproveAfterN", "allow") == "allow")


def add_rule(folder: Path, rule: Rule) -> None:
    """Add a rule at the end of rules.json; the others stay as they are written."""
    checked(rule)
    path = folder / RULES
    with sole(folder):
        document = _document(path, wire.RulesFile) or _NO_RULES
        _rules(document)  # nothing is added to a file that is not followed
        _replace(path, {**document, "rules": [*document["rules"], _written(rule)]})


def _written(rule: Rule) -> dict[str, Json]:
    return {
        "id": rule.id,
        "pattern": rule.pattern,
        "action": RuleAction.AUTO.value,
        "createdAt": iso(rule.created_at),
        "createdBy": rule.created_by,
        "source": rule.source,
    }


def _replace(path: Path, document: Mapping[str, Json]) -> None:
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


def _document(path: Path, shape: type[BaseModel]) -> dict[str, Any] | None:
    """Return what stands in a file of ours, or None where there is none; refuse what others may have written."""
    try:
        with path.open("rb") as file:
            _refuse_foreign(path, os.fstat(file.fileno()))
            found = strict_loads(file.read())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from error
    except AssentError as error:
        raise InvalidRequest(f"{path.name} is not followed: {error.message}") from error
    try:
        shape.model_validate(found)
    except ValidationError as error:
        first = error.errors()[0]
        place = "/" + "/".join(map(str, first["loc"]))
        raise InvalidRequest(f"{path.name} is not followed: {place}: {first['msg']}.") from error
    return dict(found)


def _refuse_foreign(path: Path, found: os.stat_result) -> None:
    if found.st_mode & stat.S_IWOTH or found.st_uid not in {os.geteuid(), 0}:
        msg = f"others than you may write it. Make it yours: chmod 600 {path}."
        raise InvalidRequest(msg)


def _rules(document: Mapping[str, Json]) -> list[Rule]:
    try:
        entries = read(document)
    except InvalidRequest as error:
        raise InvalidRequest(f"{RULES} is not followed: {error.message}.") from error
    rules: list[Rule] = []
    place = 1
    for entry in entries:
        says: dict[str, Any] = {"order": place, **entry.says}
        rules.append(Rule(id=entry.id or f"rule-{entry.index}", source=entry.source, **says))
        place = max(place, rules[-1].order + 1)
    return rules
