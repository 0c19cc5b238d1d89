"""API endpoints for exporting and importing `rules.json`."""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from starlette.responses import JSONResponse, Response

from assent.breakpoints.api.listing import known_filters
from assent.contracts import rules_file as wire
from assent.contracts.shape import json_of
from assent.core.errors import InvalidRequest
from assent.core.rulebook import Rule
from assent.core.rules_file import Entry, read, written
from assent.http.endpoint import PeopleReader, RuleWriter, Sent, With, router
from assent.policy.rule_warnings import warnings
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules_file import Import, Imported, forecast, import_rules

rules_file = router("rules")
Flag = Literal["true", "false"]
DryRun = Annotated[Flag, Query(alias="dryRun", description="Whether to report the changes without making them.")]
Replace = Annotated[Flag, Query(description="Whether to remove rules that are not in the file.")]
Why = Annotated[
    str | None,
    Query(min_length=1, max_length=1000, description="Reason for the import, kept in the history of each rule."),
]


@rules_file.get("/rules/export", response_model=wire.RulesFile, summary="Exports this project's rules as rules.json")
async def export_rules(who: PeopleReader, services: With) -> Response:
    found = await services.database.read(lambda tx: tx[Rules].standing(who.project))
    # Exports the stored rules, including any whose pattern is no longer valid.
    return JSONResponse(written(found), headers={"Cache-Control": "no-store"})


@rules_file.post(
    "/rules/import", response_model_exclude_none=True, summary="Imports all rules in rules.json, or none of them"
)
async def import_file(  # noqa: PLR0913, PLR0917  # required by FastAPI
    body: Sent[wire.RulesFile],
    who: RuleWriter,
    services: With,
    request: Request,
    dry_run: DryRun = "false",
    replace: Replace = "false",
    why: Why = None,
) -> wire.RulesImported:
    _refuse_unknown(request)
    # Parsing thousands of patterns takes seconds, during which the event loop must handle other requests.
    entries = await asyncio.to_thread(read, json_of(body))
    wanted = Import(entries=tuple(entries), replacing=replace == "true", why=why)
    if dry_run == "true":
        done = await services.database.read(partial(forecast, wanted=wanted, by=who))
    else:
        done = await services.database.write(partial(import_rules, wanted=wanted, by=who))
    return _view(done, dry_run=dry_run == "true")


def _refuse_unknown(request: Request) -> None:
    """Reject unknown and repeated parameters, because a misspelled dryRun would import the file."""
    given = known_filters(request, frozenset({"dryRun", "replace", "why"}))
    for name in given:
        if len(given.getlist(name)) > 1:
            raise InvalidRequest.at(f"query {name}", "must be given only once")


def _view(done: Imported, *, dry_run: bool) -> wire.RulesImported:
    plan = done.plan
    added: tuple[Rule | None, ...] = done.added or (None,) * len(plan.added)
    items = [
        *(_entry_body("added", entry, rule) for entry, rule in zip(plan.added, added, strict=True)),
        *(_entry_body("changed", entry, rule) for entry, rule in plan.changed),
        *(_entry_body("unchanged", entry, rule) for entry, rule in plan.unchanged),
    ]
    items.sort(key=lambda item: item["index"])
    return wire.RulesImported.of(
        {
            "dryRun": dry_run,
            "added": len(plan.added),
            "changed": len(plan.changed),
            "unchanged": len(plan.unchanged),
            "removed": len(plan.removed),
            "totalRules": done.total,
            "items": [*items, *_removed_bodies(plan.removed)],
        }
    )


def _entry_body(outcome: str, entry: Entry, rule: Rule | None) -> dict[str, Any]:
    pattern, action = entry.key
    return {
        "outcome": outcome,
        "index": entry.index,
        "fileId": entry.id,
        "id": rule.id if rule else None,
        "pattern": pattern,
        "action": action,
        "warnings": warnings(pattern, action) or None,
    }


def _removed_bodies(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    return [{"outcome": "removed", "id": each.id, "pattern": each.pattern, "action": each.action} for each in rules]
