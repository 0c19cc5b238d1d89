"""Rule pages: a list, a page for each rule with its history and shadow results, and forms for managing rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import Route

from assent.core.access import Permission
from assent.core.errors import AssentError, InvalidRequest, NotFound, PatternError, PreconditionFailed
from assent.core.rule_changes import CREATED, REMOVED, RuleEvent
from assent.core.rulebook import Rule, RuleMode, expiry, problem_of
from assent.core.timestamps import iso
from assent.db.transaction import Transaction
from assent.http.problems import STATUS
from assent.policy.pages import trial
from assent.policy.pages.trial import ACTIONS, DAYS, LISTED, Trial, asked_action, tried
from assent.policy.store.rules import Rules
from assent.policy.usecases.backtest import BacktestService
from assent.policy.usecases.rules import NewRule, RuleService
from assent.web.site import Site, Visit, page, redirect, route

PAGE = 100
MAX_TEXT = 1000
MAX_PLACE = 1_000_000
MODES = {
    RuleMode.LIVE.value: "Live: enforced",
    RuleMode.SHADOW.value: "Shadow: logged only",
}
SOURCE = "web"
_RULE_ID = re.compile(r"rule-[0-9a-z]{1,60}")
_FIELDS = {"pattern": "pattern", "action": "action", "mode": "mode", "note": "note", "order": "place"}
_YES, _NO = "yes", "no"


def routes(site: Site) -> list[Route]:
    one = "/rules/{rule_id}"
    return [
        route("/rules", listing, site),
        route("/rules", create, site, method="POST", draft=new_draft),
        route("/rules/new", new_form, site),
        *trial.routes(site),
        route(one, rule_page, site),
        route(one, change, site, method="POST", draft=changed_draft),
        route(one + "/remove", remove_form, site),
        route(one + "/remove", remove, site, method="POST", draft=removal_draft),
    ]


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule in the list; `problem` is set if its pattern is invalid."""

    rule: Rule
    problem: str | None
    state: str


@dataclass(frozen=True, slots=True)
class Change:
    """An event in a rule's history, and what it changed."""

    event: RuleEvent
    verb: str
    why: str | None
    differences: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The values of the rule form."""

    pattern: str = ""
    action: str = ""
    mode: str = RuleMode.LIVE.value
    note: str = ""
    expires: str = ""
    place: str = ""
    enabled: str = _YES
    why: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Typed":
        """Read the values from a form or a URL without validating them; the domain validates them later."""
        known = {name: given.get(name, "") for name in cls.__slots__ if given.get(name)}
        return cls(**known)

    @classmethod
    def from_rule(cls, rule: Rule) -> "Typed":
        return cls(
            pattern=rule.pattern,
            action=rule.action,
            mode=rule.mode,
            note=rule.note or "",
            expires=local(rule.expires_at),
            place=str(rule.order),
            enabled=_YES if rule.enabled else _NO,
        )

    def address(self) -> str:
        given = {name: getattr(self, name) for name in ("pattern", "action", "mode", "note", "expires", "why")}
        return "/rules/new?" + urlencode({name: value for name, value in given.items() if value})

    @property
    def reason(self) -> str:
        """The reason for the change. A reason is required, and recorded in the history."""
        return limited("reason", self.why, needed=True)


def limited(name: str, text: str, *, needed: bool = False) -> str:
    text = text.strip()
    if needed and not text:
        raise InvalidRequest.at(name, "is required. It is recorded in the history")
    if len(text) > MAX_TEXT:
        raise InvalidRequest.at(name, f"must have at most {MAX_TEXT:,} characters")
    return text


def local(at: int | None) -> str:
    """Format a time as the value of a datetime-local input, in UTC."""
    return iso(at)[:16] if at is not None else ""


def moment(text: str) -> int | None:
    return expiry(text) if text.strip() else None


def known_rule(visit: Visit) -> str:
    rule_id: str = visit.request.path_params["rule_id"]
    if not _RULE_ID.fullmatch(rule_id):
        msg = f"Rule {rule_id[:60]!r} not found in this project."
        raise NotFound(msg)
    return rule_id


def state(rule: Rule, now: int) -> str:
    """Return the state of a rule in one word."""
    if rule.removed_at is not None:
        return "removed"
    if not rule.enabled:
        return "disabled"
    if not rule.in_force(now):
        return "expired"
    return rule.mode


async def listing(visit: Visit) -> Response:
    after = visit.request.query_params.get("after", "")
    found = await visit.site.database.read(partial(visit.site[RuleService].standing, project=visit.who.project))
    now = visit.site.clock.now()
    ids = [rule.id for rule, _ in found]
    start = ids.index(after) + 1 if after in ids else 0
    shown = found[start : start + PAGE]
    return page(
        "rules.html",
        visit=visit,
        now=now,
        entries=[Entry(rule, problem, state(rule, now)) for rule, problem in shown],
        actions=ACTIONS,
        start=start,
        total=len(found),
        next_page=f"/rules?after={shown[-1][0].id}" if start + PAGE < len(found) else None,
        gone=visit.request.query_params.get("removed") == "yes",
    )


async def new_form(visit: Visit) -> Response:
    visit.who.require(Permission.RULES)
    typed = Typed.of(visit.request.query_params)
    return await _new_page(visit, typed)


async def _new_page(visit: Visit, typed: Typed, error: AssentError | None = None) -> Response:
    found = await tried(visit, typed.pattern, asked_action({"action": typed.action}))
    return page(
        "rules_new.html",
        visit=visit,
        status=STATUS[type(error)] if error else 200,
        now=visit.site.clock.now(),
        typed=typed,
        trial=found,
        actions=ACTIONS,
        modes=MODES,
        trouble=error,
    )


async def new_draft(visit: Visit, error: AssentError) -> Response:
    visit.who.require(Permission.RULES)
    return await _new_page(visit, _harmless(Typed.of(visit.form)), error)


async def create(visit: Visit) -> Response:
    visit.who.require(Permission.RULES)
    typed = Typed.of(visit.form)
    if visit.form.get("do") == "test":
        return redirect(typed.address())
    try:
        rule = await write_rule(visit, typed)
    except InvalidRequest as error:
        return await _new_page(visit, _harmless(typed), error)
    return redirect(f"/rules/{rule.id}")


def _harmless(typed: Typed) -> Typed:
    """Reset an unknown action, because the form cannot show it."""
    return typed if typed.action in ACTIONS else replace(typed, action="")


async def write_rule(visit: Visit, typed: Typed, *, source: str = SOURCE) -> Rule:
    new = NewRule(
        pattern=typed.pattern,
        action=typed.action,
        note=limited("note", typed.note) or None,
        mode=typed.mode,
        expires_at=moment(typed.expires),
    )
    use_case = partial(visit.site[RuleService].add, new=new, by=visit.who, source=source, why=typed.reason)
    return await visit.site.database.write(use_case)


async def rule_page(visit: Visit) -> Response:
    return await _rule_page(visit, known_rule(visit))


def _whole(tx: Transaction, *, rule_id: str, project: str) -> tuple[Rule, list[RuleEvent]]:
    rule = tx[Rules].get(rule_id, project=project)
    return rule, tx[Rules].events(rule_id)


async def _rule_page(
    visit: Visit, rule_id: str, typed: Typed | None = None, error: AssentError | None = None
) -> Response:
    use_case = partial(_whole, rule_id=rule_id, project=visit.who.project)
    rule, events = await visit.site.database.read(use_case)
    if rule.removed_at is not None and error is not None:
        raise error  # a removed rule's page has no form, but the error page shows the submitted text
    now = visit.site.clock.now()
    shadow = None
    if rule.mode == RuleMode.SHADOW:
        shadow = await visit.site[BacktestService].shadow(rule_id, days=DAYS, limit=LISTED, by=visit.who)
    return page(
        "rules_one.html",
        visit=visit,
        status=STATUS[type(error)] if error else 200,
        now=now,
        rule=rule,
        state=state(rule, now),
        problem=problem_of(rule) if rule.removed_at is None else None,
        typed=typed or Typed.from_rule(rule),
        switch_why=visit.form.get("why", "") if typed is None else "",
        history=_history(events),
        shadow=shadow,
        days=DAYS,
        actions=ACTIONS,
        modes=MODES,
        trouble=error,
        trial=_bad_pattern(typed, error),
        test_address=Trial(pattern=rule.pattern, action=rule.action).later,
    )


def _bad_pattern(typed: Typed | None, error: AssentError | None) -> Trial:
    """Return a trial that shows where a submitted pattern is invalid."""
    if typed is None or not isinstance(error, PatternError):
        return Trial()
    return Trial(pattern=typed.pattern, problem=trial.problem_of(typed.pattern, error))


def _history(events: Sequence[RuleEvent]) -> list[Change]:
    verbs = {CREATED: "created the rule", REMOVED: "removed the rule"}
    told: list[Change] = []
    before: Mapping[str, Any] = {}
    for event in events:
        said: Mapping[str, Any] = event.metadata["rule"]
        differences = [(name, _told(before.get(name)), _told(value)) for name, value in said.items() if before]
        changed = [each for each in differences if each[1] != each[2]]
        why = event.metadata.get("why")
        told.append(Change(event, verbs.get(event.type, "changed the rule"), why, changed))
        before = said
    return told[::-1]


def _told(value: object) -> str:
    if value is None or value == "":
        return "none"
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


async def change(visit: Visit) -> Response:
    """Change the submitted fields if the rule has not changed since it was shown."""
    visit.who.require(Permission.RULES)
    rule_id = known_rule(visit)
    typed = Typed.of(visit.form)
    try:
        use_case = partial(_change, visit=visit, rule_id=rule_id, typed=typed)
        await visit.site.database.write(use_case)
    except (InvalidRequest, PreconditionFailed) as error:
        return await changed_draft(visit, error)
    return redirect(f"/rules/{rule_id}")


async def changed_draft(visit: Visit, error: AssentError) -> Response:
    """Show the rule again with the submitted values, in either the full form or the enable/disable form."""
    visit.who.require(Permission.RULES)
    whole = "pattern" in visit.form
    return await _rule_page(visit, known_rule(visit), Typed.of(visit.form) if whole else None, error)


def _change(tx: Transaction, *, visit: Visit, rule_id: str, typed: Typed) -> Rule:
    current = tx[Rules].get(rule_id, project=visit.who.project)
    changes: dict[str, Any] = {}
    # The form that enables or disables a rule does not have these fields.
    for field, name in _FIELDS.items():
        if name in visit.form:
            changes[field] = getattr(typed, name)
    if "enabled" in visit.form:
        changes["enabled"] = typed.enabled == _YES
    if "note" in changes:
        changes["note"] = limited("note", typed.note) or None
    if "order" in changes:
        changes["order"] = _place(typed.place)
    if "pattern" in changes:
        changes["pattern"] = typed.pattern.strip()
    # The input has no seconds, so an unchanged value must not overwrite the stored time.
    if "expires" in visit.form and typed.expires != local(current.expires_at):
        changes["expires_at"] = moment(typed.expires)
    return visit.site[RuleService].change(
        tx, rule_id, changes, by=visit.who, why=typed.reason, if_match=_version(visit.form.get("version", ""))
    )


def _place(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PLACE)) and int(text) <= MAX_PLACE):
        raise InvalidRequest.at("position", f"must be a whole number up to {MAX_PLACE:,}")
    return int(text)


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):  # noqa: PLR2004  # more versions than a rule can have
        raise InvalidRequest.at("version", "is missing or invalid. Reload the page and submit the form again")
    return int(text)


async def remove_form(visit: Visit) -> Response:
    visit.who.require(Permission.RULES)
    return await _remove_page(visit, known_rule(visit))


async def _remove_page(visit: Visit, rule_id: str, error: AssentError | None = None) -> Response:
    found = await visit.site.database.read(lambda tx: tx[Rules].get(rule_id, project=visit.who.project))
    if found.removed_at is not None and error is not None:
        raise error  # a removed rule's page has no form, but the error page shows the submitted text
    if found.removed_at is not None:
        return redirect(f"/rules/{rule_id}")
    return page(
        "rules_remove.html",
        visit=visit,
        status=STATUS[type(error)] if error else 200,
        now=visit.site.clock.now(),
        rule=found,
        actions=ACTIONS,
        why=visit.form.get("why", ""),
        trouble=error,
    )


async def remove(visit: Visit) -> Response:
    visit.who.require(Permission.RULES)
    rule_id = known_rule(visit)
    try:
        why = limited("reason", visit.form.get("why", ""), needed=True)
        version = _version(visit.form.get("version", ""))
        use_case = partial(visit.site[RuleService].remove, rule_id=rule_id, by=visit.who, why=why, if_match=version)
        await visit.site.database.write(use_case)
    except (InvalidRequest, PreconditionFailed) as error:
        return await removal_draft(visit, error)
    return redirect("/rules?removed=yes")


async def removal_draft(visit: Visit, error: AssentError) -> Response:
    visit.who.require(Permission.RULES)
    return await _remove_page(visit, known_rule(visit), error)
