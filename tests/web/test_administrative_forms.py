"""Every form on the pages either records an admin event or is listed with the reason it does not."""

import json
import re
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx2
import pytest
from fastapi import FastAPI

from assent.audit.usecases.verify import AuditService
from assent.core.rules_file import SCHEMA_VERSION
from assent.db.transaction import Transaction
from assent.delivery.store.routes import Routes
from assent.kernel.settings import Settings
from assent.people.store.people import People
from assent.people.store.tokens import Tokens
from assent.people.usecases.people import MAILED, PeopleService
from assent.triggers.store.firings import Firings
from assent.triggers.store.sources import Sources
from tests.api.test_administrative_acts import documented
from tests.delivery.pages import test_deliveries
from tests.delivery.pages.test_links import SLACK, offered
from tests.delivery.usecases import delegating
from tests.people.pages.test_oidc import node_with, sign_in
from tests.people.pages.test_own_accounts import NEW, SET
from tests.policy.pages.test_always import raised
from tests.support.admin_events import Log, assert_recorded, failed_run, queued_run
from tests.support.nodes import Node, running_node
from tests.support.oidc import provider
from tests.triggers.pages import test_trigger_pages
from tests.triggers.pages.test_trigger_pages import PROCESS, TRIGGER, arrive, red, source
from tests.web.reading import Page
from tests.web.visitors import PASSWORD, Visitor, link, person, signed_in, visitor

OWN = "has its own chain: the events of the breakpoint"
NOTHING = "changes nothing"
ASKS = "shows what would change and asks for a confirmation; changes nothing"
SESSION = "begins, ends or changes a session of the visitor; grants nothing"
PERSONAL = "changes only what the visitor is shown"
PREFERENCES = "the visitor's own preferences; the chain of a breakpoint tells when their deputy is asked instead"
SHARING = "says who looks after a breakpoint; decides nothing"
OUTSIDE = "takes an event from outside, which is stored with its own verification"
READS = {"GET", "HEAD", "OPTIONS"}
ONE = "/breakpoints/{breakpoint_id}"
NOT_ADMINISTRATIVE = {
    "/account/display": PERSONAL,
    "/account/project": SESSION,
    "/account/reached": PREFERENCES,
    "/account/sign-out-everywhere": SESSION,
    "/admin/audit/verify": NOTHING,
    "/admin/channels/{channel_id}/test": NOTHING,
    "/admin/policy": ASKS,
    "/admin/retention": ASKS,
    f"{ONE}/claim": SHARING,
    f"{ONE}/comment": OWN,
    f"{ONE}/confirm": ASKS,
    f"{ONE}/decide": OWN,
    f"{ONE}/snooze": PERSONAL,
    f"{ONE}/undo": OWN,
    "/bulk/confirm": ASKS,
    "/bulk/decide": OWN,
    "/bulk/undo": OWN,
    "/callbacks/{channel_id}": OWN,
    "/hooks/{source}": OUTSIDE,
    "/hooks/{source}/{key}": OUTSIDE,
    "/runs/start": "a person's own run, whose journal says who started it",
    "/sign-in": SESSION,
    "/sign-out": SESSION,
    "/unsent/dismiss": PERSONAL,
    "/views": PERSONAL,
    "/views/remove": PERSONAL,
}


@dataclass
class Stage:
    """A node, its browsers, and the objects that earlier forms created.

    `kept` contains their IDs, keyed by the names of the placeholders in paths.
    """

    node: Node
    browsers: dict[str, Visitor]
    kept: dict[str, str] = field(default_factory=dict[str, str])
    arrived: int = 0
    """Number of received webhook events."""


Step: TypeAlias = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Act:
    """A form to submit, and the type of the admin event that it must record."""

    form: str
    page: str
    """The path of the page that contains the form."""
    type: str
    typed: Mapping[str, str] = field(default_factory=dict[str, str])
    first: str = ""
    """The action of a form on the page that must be submitted first, because its response contains this form."""
    keep: str = ""
    """The placeholder for the ID in the URL that the form redirects to."""
    prepare: Step | None = None
    by: str = "owner"
    via: str | None = "session:"


async def look_up_route(stage: Stage) -> None:
    found = await stage.node.assent.database.read(lambda tx: tx[Routes].in_project("default"))
    stage.kept["route_id"] = found[0].id


async def write_second_route(stage: Stage) -> None:
    await delegating.route(stage.node, "hook", pattern="b.*")


async def remove_second_route(stage: Stage) -> None:
    def use_case(tx: Transaction) -> None:
        for each in tx[Routes].in_project("default"):
            tx[Routes].remove(each.id, project="default")

    await stage.node.assent.database.write(use_case)


async def look_up_token(stage: Stage) -> None:
    found = await stage.node.assent.database.read(lambda tx: tx[Tokens].every("default"))
    stage.kept["token_id"] = next(each.id for each in found if each.name == "ci")


async def look_up_hold(stage: Stage) -> None:
    page = await stage.browsers["owner"].page("/admin/retention")
    stage.kept["hold_id"] = next(each for each in page.links() if each.endswith("/lift")).split("/")[-2]


async def offer_a_link(stage: Stage) -> None:
    await delegating.channel(stage.node, "chat", "slack", **SLACK)
    _, address = await offered(stage.node)
    stage.kept["secret"] = address.removeprefix("/link/")


async def invite_bob(stage: Stage) -> None:
    """Have an admin other than the owner invite a person, who follows the link."""
    ada = await signed_in(stage.node, "ada", "admin")
    made = await ada.send("/admin/people", "/admin/people", **{"name": "bob", "role-reviewer": "1"})
    address = "/sign-in/" + Page(made.text).text.split("/sign-in/")[1].split()[0]
    stage.browsers["bob"] = visitor(stage.node)
    assert (await stage.browsers["bob"].post(address, {})).status_code == 303


async def mail_a_link(stage: Stage) -> None:
    """Create the link that is emailed to a person whose access was set up by an admin."""

    def use_case(tx: Transaction) -> str:
        found = tx[People].get_by_name("zoe")
        assert found.reset_by == "owner"
        return stage.node.assent[PeopleService].create_link(tx, found.id, purpose=f"{MAILED}reset")

    stage.kept["link"] = await stage.node.assent.database.write(use_case)
    stage.browsers["zoe"] = visitor(stage.node)


async def ask(stage: Stage) -> None:
    stage.kept["breakpoint_id"] = (await raised(stage.node)).rpartition("/")[2]


async def hold_a_firing(stage: Stage) -> None:
    """Post an event that matches the suspended trigger."""
    found = await stage.node.assent.database.read(lambda tx: tx[Sources].every())
    where = found[0] if found else await source(stage.node)
    stage.arrived += 1
    (event,) = await arrive(stage.node, where, red(stage.arrived))
    (firing,) = await stage.node.assent.database.read(lambda tx: tx[Firings].of_event(event))
    stage.kept |= {"event_id": event, "firing_id": firing.id}


async def give_up_a_firing(stage: Stage) -> None:
    await hold_a_firing(stage)
    (firing,) = await stage.node.assent.database.read(lambda tx: tx[Firings].of_event(stage.kept["event_id"]))
    await stage.node.assent.database.write(lambda tx: test_trigger_pages._die(tx, firing))


async def start_a_run(stage: Stage) -> None:
    stage.kept["run_id"] = await queued_run(stage.node, "fix-ci")


async def fail_a_run(stage: Stage) -> None:
    stage.kept["run_id"] = await failed_run(stage.node, "fix-ci")


async def give_up_a_delivery(stage: Stage) -> None:
    stage.kept["delivery_id"] = await test_deliveries.dead(stage.node)


POLICY = {"alwaysBreakOn": "prod", "maxTtlHours": "24"}
RULE = {"pattern": "deploy.*", "action": "auto-approve", "mode": "live", "enabled": "yes", "why": "To test."}
IMPORTED = {"schemaVersion": SCHEMA_VERSION, "rules": [{"pattern": "c.*", "action": "auto-approve"}]}
HOOK = {"set-url": "https://example.org/hook", "set-secrets": "env:HOOK_SECRET"}
ROUTE = {"pattern": "a.*", "channels": "hook", "to": "owner", "enabled": "yes"}
CHANNEL, PERSON = "/admin/channels/{channel_id}", "/admin/people/{name}"
RULES, TRIGGERS, SOURCES = "/rules/{rule_id}", "/triggers/{trigger_id}", "/sources/{source_id}"
TOKENS, ROUTES, HOLDS = "/admin/tokens/{token_id}", "/admin/routes/{route_id}", "/admin/retention/holds/{hold_id}"
ACTS = [
    Act("/admin/people", "/admin/people", "person-created", {"name": "zoe", "role-reviewer": "1"}),
    Act("/sign-in/{link}", "/sign-in/{link}", "person-changed", prepare=mail_a_link, by="zoe", via=None),
    Act(f"{PERSON}/details", PERSON, "person-changed", {"displayName": "Zoe Z", "email": "zoe@example.org"}),
    Act(f"{PERSON}/roles", PERSON, "roles-changed", {"role-reviewer": "1", "role-auditor": "1"}),
    Act(f"{PERSON}/link", PERSON, "sign-in-link-created"),
    Act(f"{PERSON}/identities", PERSON, "identity-linked", {"subject": "248289761001"}),
    Act(f"{PERSON}/identities/remove", PERSON, "identity-unlinked"),
    Act(f"{PERSON}/close", f"{PERSON}/close", "person-changed"),
    Act(f"{PERSON}/open", PERSON, "person-changed"),
    Act("/admin/groups", "/admin/groups", "group-created", {"name": "ops", "members": "zoe"}),
    Act("/admin/groups/{group}/remove", "/admin/groups/{group}/remove", "group-removed"),
    Act("/admin/tokens", "/admin/tokens", "token-created", {"kind": "agent", "name": "ci"}),
    Act(f"{TOKENS}/revoke", f"{TOKENS}/revoke", "token-revoked", prepare=look_up_token),
    Act("/admin/projects", "/admin/projects", "project-created", {"id": "second", "name": "Second"}),
    Act("/admin/projects/{current}", "/admin/projects", "project-changed", {"name": "First", "owner": "owner"}),
    Act("/admin/projects/{project_id}/remove", "/admin/projects", "project-removed", {"confirmation": "second"}),
    Act("/admin/policy/confirmed", "/admin/projects", "policy-changed", POLICY, first="/admin/policy"),
    Act(
        "/admin/retention/confirmed",
        "/admin/retention",
        "policy-changed",
        {"retentionDays": "30"},
        first="/admin/retention",
    ),
    Act("/admin/retention/holds", "/admin/retention", "hold-placed", {"reason": "Court"}),
    Act(f"{HOLDS}/lift", f"{HOLDS}/lift", "hold-lifted", prepare=look_up_hold),
    Act("/rules", "/rules/new", "rule-created", RULE | {"do": "save"}, keep="rule_id"),
    Act(RULES, RULES, "rule-changed", RULE | {"pattern": "deploy.api"}),
    Act(f"{RULES}/remove", f"{RULES}/remove", "rule-removed", {"why": "Done with it."}),
    Act(
        "/rules/import",
        "/rules/import",
        "rule-created",
        {"file": json.dumps(IMPORTED), "do": "import", "why": "Moved over."},
    ),
    Act(
        f"{ONE}/always",
        f"{ONE}/always",
        "rule-created",
        {"pattern": "restart.api(tags contains 'staging')", "note": "Routine", "do": "save"},
        prepare=ask,
    ),
    Act(
        "/admin/channels",
        "/admin/channels/new?type=webhook",
        "channel-created",
        {"name": "hook"} | HOOK,
        keep="channel_id",
    ),
    Act(CHANNEL, CHANNEL, "channel-changed", {"name": "hook"} | HOOK | {"set-events": "created"}),
    Act(f"{CHANNEL}/switch", CHANNEL, "channel-changed"),
    Act("/admin/routes", "/admin/routes/new", "route-created", ROUTE),
    Act(ROUTES, ROUTES, "route-changed", ROUTE | {"pattern": "a.b"}, prepare=look_up_route),
    Act(f"{ROUTES}/move", "/admin/routes", "route-moved", {"direction": "down"}, prepare=write_second_route),
    Act(f"{ROUTES}/remove", f"{ROUTES}/remove", "route-removed"),
    Act(f"{CHANNEL}/remove", f"{CHANNEL}/remove", "channel-removed", prepare=remove_second_route),
    Act("/link/{secret}", "/link/{secret}", "account-linked", prepare=offer_a_link, by="ann"),
    Act("/account/unlink", "/account", "account-unlinked", by="ann"),
    Act("/account/tokens", "/account", "token-created", {"name": "laptop", "kind": "reviewer"}, by="ann"),
    Act("/account/tokens/revoke", "/account", "token-revoked", by="ann"),
    Act("/account/password", "/account", "person-changed", {"old": PASSWORD} | NEW, by="ann"),
    Act(SET, SET, "person-changed", NEW, prepare=invite_bob, by="bob"),
    Act("/admin/people/{invited}/confirm", "/admin/people/{invited}", "person-changed"),
    Act(
        "/admin/channels",
        "/admin/channels/new?type=slack",
        "channel-created",
        {"name": "talk", "set-token": "env:HOOK_SECRET"},
        keep="channel_id",
    ),
    Act(f"{CHANNEL}/links", CHANNEL, "account-linked", {"identity": "T1:U3", "person": "zoe"}),
    Act(f"{CHANNEL}/unlink", CHANNEL, "account-unlinked"),
    Act(
        "/sources",
        "/sources/new?kind=github",
        "source-created",
        {"name": "gh", "set-secrets": "env:HOOK_SECRET"},
        keep="source_id",
    ),
    Act(SOURCES, SOURCES, "source-changed", {"set-secrets": "env:HOOK_SECRET", "set-trust": "trusted"}),
    Act(f"{SOURCES}/switch", SOURCES, "source-changed"),
    Act(f"{SOURCES}/remove", f"{SOURCES}/remove", "source-removed"),
    Act("/triggers", "/triggers/new", "trigger-created", TRIGGER | {"do": "save"}, keep="trigger_id"),
    Act(TRIGGERS, TRIGGERS, "trigger-changed", TRIGGER | {"inputs": "days = 30", "do": "save"}),
    Act(f"{TRIGGERS}/suspend", TRIGGERS, "trigger-changed", {"because": "Too many."}),
    Act("/firings/{firing_id}/discard", "/events/{event_id}", "firing-discarded", prepare=hold_a_firing),
    Act("/firings/{firing_id}/retry", "/firings?state=dead", "firing-retried", prepare=give_up_a_firing),
    Act("/events/{event_id}/replay", "/events/{event_id}", "event-replayed", {"trigger": "fix-red-main"}),
    Act(f"{TRIGGERS}/resume", TRIGGERS, "trigger-changed"),
    Act("/runs/{run_id}/cancel", "/runs/{run_id}/cancel", "run-cancelled", prepare=start_a_run),
    Act("/runs/{run_id}/retry", "/runs/{run_id}/retry", "run-retried", prepare=fail_a_run),
    Act(f"{TRIGGERS}/remove", f"{TRIGGERS}/remove", "trigger-removed"),
    Act(
        "/deliveries/{delivery_id}/retry",
        "/deliveries/{delivery_id}",
        "delivery-retried",
        prepare=give_up_a_delivery,
    ),
    Act(
        "/deliveries/retry",
        "/deliveries?state=dead&channel=callback",
        "deliveries-retried",
        prepare=give_up_a_delivery,
    ),
]
NAMES = {"name": "zoe", "group": "ops", "project_id": "second", "current": "default", "invited": "bob"}
ROUTE_NAMES = {"group": "name", "invited": "name", "current": "project_id"}
"""Placeholders above that have different names in the route."""


def classified() -> set[str]:
    performed = {each.form for each in ACTS}
    for name, of_route in ROUTE_NAMES.items():
        performed = {each.replace(f"{{{name}}}", f"{{{of_route}}}") for each in performed}
    return performed | set(NOT_ADMINISTRATIVE)


async def forms(node: Node) -> set[str]:
    """Return the paths of all routes that accept writes and are not documented in the API."""
    app: Any = node.client._transport.app  # type: ignore[attr-defined]
    while not isinstance(app, FastAPI):
        app = app._app
    endpoints = {shape(each) for each in await documented(node)}
    return {
        each.path
        for each in routes_of(app.routes)
        for method in each.methods - READS
        if shape(f"{method} {each.path}") not in endpoints
    }


def shape(endpoint: str) -> str:
    """Return an endpoint without the names of its parameters, which may differ in the documentation."""
    return re.sub(r"\{[^}]*\}", "{}", endpoint)


def routes_of(found: Iterable[Any]) -> Iterator[Any]:
    """Yield the routes of an application, including those of its routers."""
    for each in found:
        included = getattr(each, "original_router", None)
        if included is None:
            yield each
        else:
            yield from routes_of(included.routes)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    identity_provider = {
        "oidc_issuer": "https://id.example.org",
        "oidc_client_id": "assent",
        "oidc_client_secret": "a secret of the provider",
    }
    return found.model_copy(update={"undo_seconds": 0, "channel_secrets": ("env:*",)} | identity_provider)


@pytest.fixture
async def stage(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3")
    settings.process_folder.mkdir(parents=True, exist_ok=True)
    (settings.process_folder / "fix_ci.py").write_text(textwrap.dedent(PROCESS))
    async with running_node(settings) as node:
        browsers = {"owner": visitor(node), "ann": visitor(node)}
        await browsers["owner"].post(f"/sign-in/{await link(node, 'owner')}", {})
        await person(node, "ann", "reviewer")
        await browsers["ann"].sign_in("ann")
        yield Stage(node, browsers, dict(NAMES))


async def test_every_form_is_classified(stage: Stage) -> None:
    found = await forms(stage.node)
    assert len(found) > len(NOT_ADMINISTRATIVE)
    assert sorted(found - classified()) == [], "list it with the act that it records, or why it records none"
    assert sorted(classified() - found) == []


def test_no_form_is_classified_in_both_lists() -> None:
    assert {each.form for each in ACTS} & set(NOT_ADMINISTRATIVE) == set()


async def test_every_admin_form_records_the_actor_session_and_values_before_and_after(stage: Stage) -> None:
    log = Log(stage.node)
    for act in ACTS:
        if act.prepare is not None:
            await act.prepare(stage)
        await log.new()
        answer = await submit(stage, act)
        assert answer.status_code in {200, 303}, (act.form, answer.status_code, Page(answer.text).text)
        if act.keep:
            stage.kept[act.keep] = answer.headers["location"].partition("?")[0].rpartition("/")[2]
        assert_recorded(await log.new(), act.type, act.form, actor=f"person:{act.by}", via=act.via)
    assert (await stage.node.assent[AuditService].verify()).findings == []


async def test_a_person_created_by_an_oidc_sign_in_is_recorded(sqlite_settings: Settings) -> None:
    """The provider redirects here without a form, so the actor is the system."""
    roles = {"assent-reviewers": "reviewer"}
    with provider() as idp:
        idp.claims |= {"preferred_username": "bea", "groups": ["assent-reviewers"]}
        async with node_with(sqlite_settings, idp.url, oidc_create_people=True, oidc_roles=roles) as node:
            log = Log(node)
            await log.new()
            assert (await sign_in(node)).status_code == 303
            new = await log.new()
            for act in ("person-created", "identity-linked", "roles-changed"):
                assert_recorded(new, act, "a sign-in at the provider", actor="system:oidc", via=None)
            assert (await node.assent[AuditService].verify()).findings == []


async def submit(stage: Stage, act: Act) -> httpx2.Response:
    browser, address = stage.browsers[act.by], act.form.format(**stage.kept)
    page = await browser.page(act.page.format(**stage.kept))
    typed = dict(act.typed)
    if act.first:
        asking = page.form(act.first)
        page = Page((await browser.post(asking.action, asking.fields | typed)).text)
        typed = {}
    form = page.form(address)
    return await browser.post(form.action, form.fields | typed)
