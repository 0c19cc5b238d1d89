"""The “Always approve” form: proposes the narrowest rule for a breakpoint, back-tests it and saves it."""

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from assent.breakpoints.store.reading import Whole
from assent.breakpoints.usecases.inbox import InboxService
from assent.core.access import Permission
from assent.core.errors import AssentError, InvalidRequest
from assent.core.old_rules import ALWAYS_APPROVE
from assent.core.rulebook import RuleAction
from assent.http.problems import STATUS
from assent.http.query import known_id
from assent.policy.pages.rules import Typed, write_rule
from assent.policy.pages.trial import ACTIONS, DAYS, LISTED, tried
from assent.policy.usecases.backtest import BacktestService
from assent.web.site import Site, Visit, page, redirect, route


def routes(site: Site) -> list[Route]:
    address = "/breakpoints/{breakpoint_id}/always"
    return [route(address, always_form, site), route(address, always, site, method="POST", draft=draft)]


async def offered(visit: Visit) -> Whole:
    """Return the breakpoint; raise an error if the visitor may not write rules or the breakpoint is a hard stop."""
    visit.who.require(Permission.RULES)
    row = await visit.site[InboxService].whole(known_id(visit.request.path_params["breakpoint_id"]), visit.who)
    if msgspec.json.decode(row.payload).get("hardStop") is True:
        raise InvalidRequest(
            "The agent always requires human approval for this breakpoint (hardStop), so a rule cannot approve it."
        )
    return row


async def always_form(visit: Visit) -> Response:
    row = await offered(visit)
    saved = visit.request.query_params.get("saved", "")
    if saved:
        return page("always_saved.html", visit=visit, now=visit.site.clock.now(), row=row, rule=saved[:70])
    # Raises an error if no rule can be proposed, for example because the content has been purged in the meantime.
    found = await visit.site[BacktestService].propose(row.id, days=DAYS, limit=LISTED, by=visit.who)
    typed = Typed.of({"pattern": found.run.wanted.pattern} | dict(visit.request.query_params))
    return await _page(visit, row, typed)


async def _page(visit: Visit, row: Whole, typed: Typed, error: AssentError | None = None) -> Response:
    trial = await tried(visit, typed.pattern, RuleAction.AUTO.value)
    return page(
        "always_body.html" if visit.region == "dialog" else "always.html",
        visit=visit,
        status=STATUS[type(error)] if error else 200,
        now=visit.site.clock.now(),
        row=row,
        typed=typed,
        trial=trial,
        actions=ACTIONS,
        trouble=error,
    )


async def always(visit: Visit) -> Response:
    """Save the rule. The breakpoint itself stays pending, because rules apply only to later breakpoints."""
    row = await offered(visit)
    # Check again that a rule can be proposed, because a client can submit the form without opening it first.
    await visit.site[BacktestService].propose(row.id, days=1, limit=0, by=visit.who)
    given = Typed.of(visit.form)
    typed = Typed(
        pattern=given.pattern,
        action=RuleAction.AUTO.value,
        note=given.note,
        expires=given.expires,
        why=given.why or f"Created with “Always approve” on {row.id}",
    )
    if visit.form.get("do") == "test":
        return redirect(f"/breakpoints/{row.id}/always?" + typed.address().partition("?")[2])
    try:
        rule = await write_rule(visit, typed, source=ALWAYS_APPROVE)
    except InvalidRequest as error:
        return await _page(visit, row, typed, error)
    return redirect(f"/breakpoints/{row.id}/always?saved={rule.id}")


async def draft(visit: Visit, error: AssentError) -> Response:
    return await _page(visit, await offered(visit), Typed.of(visit.form), error)
