"""Exports and imports rules as `rules.json`, with a preview of the import."""

import asyncio
import json
from functools import partial

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from assent.contracts import rules_file as wire
from assent.contracts.models import read as read_shape
from assent.contracts.shape import json_of
from assent.core.access import Permission
from assent.core.canonical import strict_loads
from assent.core.errors import AssentError, InvalidRequest, MalformedJson
from assent.core.rules_file import Entry, read, written
from assent.http.problems import STATUS, from_validation
from assent.policy.pages.rules import limited
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules_file import Import, Imported, forecast, import_rules
from assent.web.site import HEADERS, Site, Visit, page, redirect, route

LISTED = 200


def routes(site: Site) -> list[Route]:
    return [
        route("/rules/rules.json", export, site),
        route("/rules/import", import_form, site),
        route("/rules/import", import_file, site, method="POST", draft=draft),
    ]


async def export(visit: Visit) -> Response:
    """Export the rules as stored, including any whose pattern is no longer valid."""
    visit.who.require(Permission.READ_PEOPLE)
    found = await visit.site.database.read(lambda tx: tx[Rules].standing(visit.who.project))
    headers = HEADERS | {"Content-Disposition": 'attachment; filename="rules.json"'}
    return Response(json.dumps(written(found), indent=2, ensure_ascii=False), 200, headers, "application/json")


async def import_form(visit: Visit) -> Response:
    visit.who.require(Permission.RULES)
    return _page(visit)


async def import_file(visit: Visit) -> Response:
    """Preview an import, or import the entire file in one transaction."""
    visit.who.require(Permission.RULES)
    form = visit.form
    replacing, doing = form.get("replace") == "yes", form.get("do") == "import"
    try:
        # Parsing thousands of patterns takes seconds, during which the event loop must handle other requests.
        entries = await asyncio.to_thread(_entries, form.get("file", ""))
        why = limited("reason", form.get("why", ""), needed=doing)
        wanted = Import(entries=tuple(entries), replacing=replacing, why=why or None)
        if doing:
            await visit.site.database.write(partial(import_rules, wanted=wanted, by=visit.who))
            return redirect("/rules")
        plan = await visit.site.database.read(partial(forecast, wanted=wanted, by=visit.who))
    except (InvalidRequest, MalformedJson) as error:
        return _page(visit, error=error)
    return _page(visit, plan)


async def draft(visit: Visit, error: AssentError) -> Response:
    visit.who.require(Permission.RULES)
    return _page(visit, error=error)


def _entries(text: str) -> list[Entry]:
    try:
        document = read_shape(wire.RulesFile, strict_loads(text.encode()))
    except ValidationError as error:
        raise from_validation(error) from error
    return read(json_of(document))


def _page(visit: Visit, plan: Imported | None = None, *, error: AssentError | None = None) -> Response:
    return page(
        "rules_import.html",
        visit=visit,
        status=STATUS[type(error)] if error else 200,
        file=visit.form.get("file", ""),
        replacing=visit.form.get("replace") == "yes",
        why=visit.form.get("why", ""),
        found=plan,
        listed=LISTED,
        trouble=error,
    )
