"""Imports rules from a file: all of them or none."""

from dataclasses import dataclass
from typing import Any

from assent.domain import rule_changes
from assent.domain.access import Permission, Principal
from assent.domain.errors import InvalidRequest
from assent.domain.rulebook import Rule
from assent.domain.rules_file import Entry, Plan, plan
from assent.services.rules import MAX_RULES
from assent.store.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The entries to import, and how."""

    entries: tuple[Entry, ...]
    replacing: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import, or of a dry run, for which `added` is empty."""

    plan: Plan
    added: tuple[Rule, ...]
    total: int


def forecast(tx: Transaction, wanted: Import, *, by: Principal) -> Imported:
    """Return what an import would do, without changing anything."""
    by.require(Permission.RULES)
    tx.acting(by)
    standing = tx.rules.standing(by.project)
    found = plan(wanted.entries, standing, replacing=wanted.replacing)
    return Imported(found, (), _total(found, standing))


def import_rules(tx: Transaction, wanted: Import, *, by: Principal) -> Imported:
    by.require(Permission.RULES)
    tx.acting(by)
    tx.rules.turn_page(by.project)  # first: locks the rules until the commit
    standing = tx.rules.standing(by.project)
    found = plan(wanted.entries, standing, replacing=wanted.replacing)
    total, now = _total(found, standing), tx.now()
    for rule in found.removed:
        tx.rules.save(*rule_changes.removed(rule, actor=by.actor, at=now, why=wanted.why))
    for _, rule in found.changed:
        tx.rules.save(*rule_changes.changed(rule, actor=by.actor, at=now, why=wanted.why))
    return Imported(found, _added(tx, found, wanted, by=by, now=now), total)


def _added(tx: Transaction, found: Plan, wanted: Import, *, by: Principal, now: int) -> tuple[Rule, ...]:
    # Sorted, because ids of the same instant differ only randomly, and rules with the same order are sorted by id.
    ids = sorted(tx.new_id("rule").replace("_", "-", 1) for _ in found.added)
    rules: list[Rule] = []
    _, place = tx.rules.room(by.project)
    for entry, new_id in zip(found.added, ids, strict=True):
        says: dict[str, Any] = {"order": place, **entry.says}
        rule = Rule(id=new_id, project=by.project, source=entry.source, **says)
        place = max(place, rule.order + 1)
        rule, event = rule_changes.created(rule, actor=by.actor, at=now, why=wanted.why, imported=entry.origin)
        tx.rules.add(rule, event)
        rules.append(rule)
    return tuple(rules)


def _total(found: Plan, standing: list[Rule]) -> int:
    total = len(standing) - len(found.removed) + len(found.added)
    if total > MAX_RULES:
        raise InvalidRequest.at("/rules", f"this would make {total} rules; a project can have at most {MAX_RULES}")
    return total
