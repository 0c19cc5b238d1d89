"""Imports either all of the rules in a file or none of them."""

from dataclasses import dataclass
from typing import Any

from assent.core import rule_changes
from assent.core.access import Permission, Principal
from assent.core.errors import InvalidRequest
from assent.core.rulebook import Rule
from assent.core.rules_file import Entry, Plan, plan
from assent.db.transaction import Transaction
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import MAX_RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The entries to import, and the options of the import."""

    entries: tuple[Entry, ...]
    replacing: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import or a dry run. After a dry run, `added` is empty."""

    plan: Plan
    added: tuple[Rule, ...]
    total: int


def forecast(tx: Transaction, wanted: Import, *, by: Principal) -> Imported:
    """Return what an import would do, without changing anything."""
    by.require(Permission.RULES)
    tx.acting(by)
    standing = tx[Rules].standing(by.project)
    found = plan(wanted.entries, standing, replacing=wanted.replacing)
    return Imported(found, (), _total(found, standing))


def import_rules(tx: Transaction, wanted: Import, *, by: Principal) -> Imported:
    by.require(Permission.RULES)
    tx.acting(by)
    tx[Rules].turn_page(by.project)  # locks the rules until the commit, so it must come first
    standing = tx[Rules].standing(by.project)
    found = plan(wanted.entries, standing, replacing=wanted.replacing)
    total, now = _total(found, standing), tx.now()
    for rule in found.removed:
        tx[Rules].save(*rule_changes.removed(rule, actor=by.actor, at=now, why=wanted.why))
    for _, rule in found.changed:
        tx[Rules].save(*rule_changes.changed(rule, actor=by.actor, at=now, why=wanted.why))
    return Imported(found, _added(tx, found, wanted, by=by, now=now), total)


def _added(tx: Transaction, found: Plan, wanted: Import, *, by: Principal, now: int) -> tuple[Rule, ...]:
    # IDs created at the same time are in random order, but rules with the same position are evaluated in ID order.
    ids = sorted(tx.new_id("rule").replace("_", "-", 1) for _ in found.added)
    rules: list[Rule] = []
    _, place = tx[Rules].room(by.project)
    for entry, new_id in zip(found.added, ids, strict=True):
        says: dict[str, Any] = {"order": place, **entry.says}
        rule = Rule(id=new_id, project=by.project, source=entry.source, **says)
        place = max(place, rule.order + 1)
        rule, event = rule_changes.created(rule, actor=by.actor, at=now, why=wanted.why, imported=entry.origin)
        tx[Rules].add(rule, event)
        rules.append(rule)
    return tuple(rules)


def _total(found: Plan, standing: list[Rule]) -> int:
    total = len(standing) - len(found.removed) + len(found.added)
    if total > MAX_RULES:
        raise InvalidRequest.at("/rules", f"this would result in {total} rules; a project can have at most {MAX_RULES}")
    return total
