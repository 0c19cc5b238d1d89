"""The admin pages (people, groups, tokens, projects, retention and audit log), on both databases."""

import csv
import io
import json
from functools import partial

import pytest

from assent.audit.usecases.event_log import cell
from assent.core.access import EVERY_ROLE, Kind, Principal, Role
from assent.core.safe_text import visible
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.identities import Identities
from assent.people.store.people import People
from assent.people.store.projects import Projects
from assent.people.usecases.people import PeopleService
from tests.support.nodes import ManualClock, Node
from tests.support.tampering import unlocked
from tests.support.until import until
from tests.web.corpus import SPOOFS, XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, person, signed_in, visitor

MANAGED = ("/admin", "/admin/people", "/admin/groups", "/admin/tokens", "/admin/projects", "/admin/people/owner")
AUDITED = ("/admin/audit", "/admin/retention", "/admin/audit/export.csv", "/admin/audit/export.json")
EVERYWHERE = Principal(kind=Kind.PERSON, id="x", name="x", project="default", roles=EVERY_ROLE, everywhere=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found


async def owner(node: Node) -> Visitor:
    """Return a browser in which the owner, who has every role in all projects, is signed in."""
    browser = visitor(node)
    assert (await browser.post(f"/sign-in/{await link(node, 'owner')}", {})).status_code == 303
    return browser


async def key(browser: Visitor) -> str:
    return (await browser.page("/account")).form("/sign-out").fields["csrf"]


async def test_an_invitation_link_is_shown_once_and_works_once(node: Node) -> None:
    ada = await signed_in(node, "ada", "admin")
    answer = await ada.send(
        "/admin/people", "/admin/people", **{"name": "bea", "email": "bea@example.org", "role-reviewer": "1"}
    )
    assert answer.status_code == 200, answer.text
    address = Page(answer.text).text.split("http://assent.test")[1].split()[0]
    assert answer.headers["cache-control"] == "no-store"
    assert address not in (await ada.page("/admin/people/bea")).text
    bea = visitor(node)
    assert (await bea.post(address, {})).status_code == 303
    assert (await bea.get("/")).headers["location"].startswith("/account/new-password"), "asked for a password first"
    assert (await visitor(node).post(address, {})).status_code == 401, "once"
    again = await ada.send("/admin/people", "/admin/people", **{"name": "bea", "role-viewer": "1"})
    assert again.status_code == 409
    assert "is not available" in again.text


async def test_role_changes_take_effect_within_a_second(node: Node) -> None:
    ada, bea = await signed_in(node, "ada", "admin"), await signed_in(node, "bea")
    form = next(form for form in (await ada.page("/admin/people/bea")).forms if form.action.endswith("/roles"))
    assert (await ada.post(form.action, form.fields | {"role-auditor": "1"})).status_code == 303
    await until(partial(bea.get, "/admin/audit"), lambda answer: answer.status_code == 200)
    held = await node.assent.database.read(lambda tx: tx[People].grants(tx[People].get_by_name("bea").id))
    assert held == {"default": frozenset({Role.AUDITOR})}
    mine = next(form for form in (await ada.page("/admin/people/ada")).forms if form.action.endswith("/roles"))
    refused = await ada.post(mine.action, mine.fields | {"role-viewer": "1"})
    assert refused.status_code == 422
    assert "you cannot remove your own admin role" in refused.text


async def test_closing_an_account_requires_confirmation_and_ends_its_sessions(node: Node) -> None:
    ada, bea = await signed_in(node, "ada", "admin"), await signed_in(node, "bea")
    assert "/admin/people/bea/close" in (await ada.page("/admin/people/bea")).links()
    assert "signed out everywhere" in (await ada.page("/admin/people/bea/close")).text
    assert (await bea.get("/")).status_code == 200, "asking closes nothing"
    assert (await ada.send("/admin/people/bea/close", "/close")).status_code == 303
    await until(partial(bea.get, "/"), lambda answer: answer.status_code == 303)
    assert (await ada.send("/admin/people/bea", "/open")).status_code == 303
    assert "Account reopened." in (await ada.page("/admin/people/bea?done=opened")).text
    himself = await ada.post("/admin/people/ada/close", {"csrf": await key(ada)})
    assert himself.status_code == 422


async def test_a_project_admin_cannot_access_other_projects(node: Node) -> None:
    def use_case(tx: Transaction) -> None:
        node.assent[PeopleService].create_project(tx, "elsewhere", "Elsewhere", "owner", by=EVERYWHERE)
        node.assent[PeopleService].create_person(tx, "stranger", project="elsewhere", roles=frozenset({Role.REVIEWER}))

    await node.assent.database.write(use_case)
    ada = await signed_in(node, "ada", "admin")
    assert "stranger" not in (await ada.page("/admin/people")).text
    assert (await ada.get("/admin/people/stranger")).status_code == 404
    sent = {"csrf": await key(ada)}
    for path in ("link", "close", "open", "roles", "details", "identities"):
        answer = await ada.post(f"/admin/people/stranger/{path}", sent)
        assert answer.status_code == 404, path
    for path, status in (("link", 403), ("close", 403), ("details", 403)):
        typed = sent | {"displayName": "Changed"}
        assert (await ada.post(f"/admin/people/owner/{path}", typed)).status_code == status, path
    assert "elsewhere" not in (await ada.page("/admin/projects")).text
    assert (await ada.post("/admin/projects", sent | {"id": "mine"})).status_code == 403
    assert (await ada.post("/admin/projects/elsewhere", sent | {"name": "X"})).status_code == 404
    roles = await ada.post("/admin/people/ada/roles", sent | {"project": "elsewhere", "role-admin": "1"})
    assert roles.status_code == 403
    token = await ada.post("/admin/tokens", sent | {"kind": "admin", "name": "x", "person": "owner"})
    assert token.status_code == 422
    assert "people can create their own tokens" in token.text


async def test_an_admin_can_create_change_and_remove_groups(node: Node) -> None:
    ada = await signed_in(node, "ada", "admin")
    await person(node, "bea", "reviewer")
    assert (await ada.send("/admin/groups", "/admin/groups", name="security", members="ada, bea")).status_code == 303
    assert "ada, bea" in (await ada.page("/admin/groups")).text
    taken = await ada.send("/admin/groups", "/admin/groups", name="security", members="ada")
    assert taken.status_code == 422
    assert (await ada.send("/admin/groups?edit=security", "/admin/groups", members="bea")).status_code == 303
    groups = await node.assent.database.read(lambda tx: tx[People].groups("default"))
    assert groups == {"security": ["bea"]}
    unknown = await ada.send("/admin/groups", "/admin/groups", name="other", members="nobody-here")
    assert "person nobody-here not found" in unknown.text
    assert "nobody-here" in Page(unknown.text).text, "what was typed is kept"
    assert (await ada.send("/admin/groups/security/remove", "/remove")).status_code == 303
    assert (await ada.get("/admin/groups/security/remove")).status_code == 404


async def test_a_token_is_shown_once_and_works_until_it_is_revoked(node: Node) -> None:
    ada = await signed_in(node, "ada", "admin")
    made = await ada.send(
        "/admin/tokens", "/admin/tokens", kind="agent", name="ci", gates="deploy.*", expiresInDays="3"
    )
    assert made.status_code == 200, made.text
    secret = next(word for word in Page(made.text).text.split() if word.startswith("asta_"))
    listed = await ada.page("/admin/tokens")
    assert secret not in listed.text
    assert "deploy.*" in listed.text
    body = {"agentId": "a", "payload": {"question": "?", "breakpointId": "deploy.prod"}}
    assert (await node.call("POST", "/api/breakpoints", secret, json=body)).status_code == 201
    revoke = next(each for each in listed.links() if each.endswith("/revoke"))
    assert "lose access within seconds" in (await ada.page(revoke)).text
    assert (await ada.send(revoke, "/revoke")).status_code == 303
    assert (await node.call("POST", "/api/breakpoints", secret, json=body)).status_code == 401
    assert (await ada.get(revoke)).status_code == 404
    for typed, said in (
        ({"kind": "metrics", "gates": "x"}, "applies only to agent tokens"),
        ({"kind": "reviewer"}, "people can create their own tokens"),
        ({"kind": "agent", "expiresInDays": "many"}, "whole number"),
        ({"kind": "odd"}, "Kind"),
    ):
        refused = await ada.send("/admin/tokens", "/admin/tokens", name="ci", **typed)
        assert refused.status_code == 422, typed
        assert said in refused.text


async def test_a_policy_change_requires_confirmation_and_detects_concurrent_changes(node: Node) -> None:
    root = await owner(node)
    typed = {"alwaysBreakOn": "prod, billing", "ticketTags": "audit", "maxTtlHours": "24", "unknownExperts": "refuse"}
    asked = await root.send("/admin/projects", "/admin/policy", **typed)
    assert "prod, billing" in Page(asked.text).text
    assert "require a Jira ticket for approval: audit." in Page(asked.text).text
    confirm = Page(asked.text).form("/admin/policy/confirmed")
    late = Page((await root.send("/admin/projects", "/admin/policy", alwaysBreakOn="dev")).text).form("/confirmed")
    assert (await root.post(confirm.action, confirm.fields)).status_code == 303
    policy = await node.assent.database.read(lambda tx: dict(tx[Projects].get("default").policy))
    assert policy == {
        "alwaysBreakOn": ["prod", "billing"],
        "ticketTags": ["audit"],
        "maxTtlSeconds": 86400,
        "unknownExperts": "refuse",
    }
    refused = await root.post(late.action, late.fields)
    assert refused.status_code == 409
    assert "The policy has been changed" in refused.text


async def test_admins_manage_retention_and_holds_and_auditors_only_read_them(node: Node) -> None:
    root, auditor = await owner(node), await signed_in(node, "aud", "auditor")
    asked = Page((await root.send("/admin/retention", "/admin/retention", retentionDays="30")).text)
    assert "cannot be restored" in asked.text
    form = asked.form("/confirmed")
    assert (await root.post(form.action, form.fields)).status_code == 303
    assert "30 days after" in (await auditor.page("/admin/retention")).text
    created = await node.create()
    hold = {"reason": "A case.", "breakpointId": created["id"]}
    assert (await root.send("/admin/retention", "/holds", **hold)).status_code == 303
    shown = await auditor.page("/admin/retention")
    assert "A case." in shown.text
    assert not [form for form in shown.forms if form.action.startswith("/admin/retention")], "auditors only read"
    lift = next(each for each in (await root.page("/admin/retention")).links() if each.endswith("/lift"))
    assert (await auditor.get(lift)).status_code == 403
    assert (await root.send(lift, "/lift")).status_code == 303
    assert (await root.get(lift)).status_code == 404
    wrong = await root.send("/admin/retention", "/holds", reason="x", breakpointId="odd")
    assert wrong.status_code == 404


async def test_switching_projects_hides_breakpoints_in_the_previous_project(node: Node) -> None:
    root = await owner(node)
    created = await node.create(title="Only in the default project")
    assert (await root.send("/admin/projects", "/admin/projects", id="second", name="Second")).status_code == 303
    assert (await root.send("/account", "/account/project", project="second")).status_code == 303
    assert created["id"] not in (await root.page("/")).text
    assert (await root.get(f"/breakpoints/{created['id']}")).status_code == 404
    assert (await root.send("/account", "/account/project", project="nowhere")).status_code == 404
    ann = await signed_in(node, "ann")
    assert (await ann.post("/account/project", {"csrf": await key(ann), "project": "second"})).status_code == 404


async def test_removing_a_project_requires_typing_its_id(node: Node) -> None:
    root = await owner(node)
    assert "/admin/projects/default/remove" not in (await root.page("/admin/projects")).text
    assert (await root.send("/admin/projects", "/admin/projects", id="shop", name="Shop")).status_code == 303
    agent = await node.token("agent", project="shop")
    asked = (await node.create(agent))["id"]
    await node.person("aud", "auditor", project="shop")
    aud = visitor(node)
    assert (await aud.post(f"/sign-in/{await link(node, 'aud')}", {})).status_code == 303
    mistyped = await root.send("/admin/projects", "/admin/projects/shop/remove", confirmation="Shop")
    assert (mistyped.status_code, "type shop to confirm" in mistyped.text) == (422, True)
    assert (await node.call("GET", f"/api/breakpoints/{asked}", agent)).json()["status"] == "waiting"
    done = await root.send("/admin/projects", "/admin/projects/shop/remove", confirmation="shop")
    assert (done.status_code, done.headers["location"]) == (303, "/admin/projects?done=removed")
    assert (await node.call("GET", f"/api/breakpoints/{asked}", agent)).json()["status"] == "cancelled"
    assert "/admin/projects/shop/remove" not in (await root.page("/admin/projects")).text
    history = await aud.page(f"/breakpoints/{asked}")
    assert "Assent (project removed)" in history.text
    assert "project-removed" in (await aud.page("/admin/audit")).text


async def test_the_admin_of_a_removed_project_can_still_read_it(node: Node) -> None:
    root = await owner(node)
    assert (await root.send("/admin/projects", "/admin/projects", id="shop", name="Shop")).status_code == 303
    await node.person("ada", "admin", project="shop")
    ada = visitor(node)
    assert (await ada.post(f"/sign-in/{await link(node, 'ada')}", {})).status_code == 303
    done = await ada.send("/admin/projects", "/admin/projects/shop/remove", confirmation="shop")
    assert (done.status_code, done.headers["location"]) == (303, "/")
    assert "shop (removed)" in (await ada.page("/")).text
    assert (await ada.get("/admin/projects")).status_code == 409
    assert (await ada.get("/admin/audit")).status_code == 200


async def test_the_audit_log_can_be_filtered_and_paged(node: Node, clock: ManualClock) -> None:
    auditor, reviewer = await signed_in(node, "aud", "auditor"), await node.person("rev", "reviewer")
    first = await node.create(payload={"question": "?", "breakpointId": "deploy.prod"})
    await node.feedback(first["id"], reviewer, approved=True, comment="Fine by me.")
    clock.advance(1)
    for _ in range(55):
        await node.create()
    page = await auditor.page("/admin/audit")
    assert page.text.count("event 1 ·") == 50
    older = next(each for each in page.links() if "cursor=" in each)
    assert "Fine by me." in (await auditor.page(older)).text
    for query, there in (
        ("actor=rev", True), ("actor=person:rev", True), ("actor=ann", False), ("gate=deploy.prod", True),
        ("type=released", True), ("type=expired", False), ("until=2001-01-01", False),
        ("since=2001-01-01&until=2999-01-01&type=released", True),
    ):  # fmt: skip
        found = await auditor.page(f"/admin/audit?{query}")
        assert (first["id"] in str(found.links())) is there, query
    for bad in ("since=odd", "cursor=odd", "cursor=00", "gate=" + "x" * 300):
        assert (await auditor.get(f"/admin/audit?{bad}")).status_code == 422


async def test_the_export_contains_every_event_and_no_formulas(node: Node, clock: ManualClock) -> None:
    auditor, reviewer = await signed_in(node, "aud", "auditor"), await node.person("rev", "reviewer")
    hostile = await node.create(
        title='=HYPERLINK("http://evil.example")', payload={"question": "?", "breakpointId": "@x"}
    )
    await node.feedback(hostile["id"], reviewer, approved=False, comment="=1+1")
    clock.advance(1)
    for _ in range(3):
        await node.create()
    table = await auditor.get("/admin/audit/export.csv?kind=breakpoint")
    assert table.headers["content-disposition"] == 'attachment; filename="assent-events.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    whole = json.loads((await auditor.get("/admin/audit/export.json?kind=breakpoint")).text)
    assert len(rows) == len(whole) == 6
    assert [row["hash"] for row in rows] == [each["hash"] for each in whole]
    assert not [value for row in rows for value in row.values() if value.startswith(("=", "+", "-", "@"))]
    assert whole[-1]["title"] == '=HYPERLINK("http://evil.example")', "JSON tells it as it is"
    assert len(json.loads((await auditor.get("/admin/audit/export.json?type=released")).text)) == 1
    assert json.loads((await auditor.get("/admin/audit/export.json?type=expired")).text) == []


async def test_admin_events_can_be_listed_filtered_and_exported(node: Node) -> None:
    auditor, admin = await signed_in(node, "aud", "auditor"), await node.person("adm", "admin")
    changed = await node.call("PUT", "/api/policy", admin, json={"alwaysBreakOn": ["prod"]})
    assert changed.status_code in {200, 204}, changed.text

    shown = await auditor.page("/admin/audit?kind=admin&type=policy-changed")
    assert "policy:default" in shown.text
    assert "alwaysBreakOn" in shown.text
    assert "person:adm" in shown.text
    assert "policy:default" not in (await auditor.page("/admin/audit?kind=breakpoint")).text

    table = await auditor.get("/admin/audit/export.csv?kind=admin&type=policy-changed")
    (row,) = csv.DictReader(io.StringIO(table.text))
    assert (row["subject"], row["adminChain"], row["breakpointId"]) == ("policy:default", "adm_default", "")

    token = await node.person("aud2", "auditor")
    listed = (await node.call("GET", "/api/audit/events?kind=admin&type=policy-changed", token)).json()
    (item,) = listed["items"]
    assert item["metadata"]["after"] == {"alwaysBreakOn": ["prod"]}
    assert item["metadata"]["before"] is None
    assert item["metadata"]["via"].startswith("token:tok_")


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1"])
def test_no_csv_cell_starts_a_formula(text: str) -> None:
    assert cell(text) == f"'{text}"


async def verified(browser: Visitor) -> Page:
    answer = await browser.send("/admin/audit", "/verify")
    assert answer.status_code == 303
    return await until(partial(browser.page, answer.headers["location"]), lambda page: "in progress" not in page.text)


async def test_a_verification_reports_tampered_breakpoints(node: Node, settings: Settings) -> None:
    auditor = await signed_in(node, "aud", "auditor")
    created = await node.create()
    page = await verified(auditor)
    assert "No problems found." in page.text
    with unlocked(settings) as raw:
        raw.run("UPDATE assent_breakpoints SET gate = 'other' WHERE id = :id", id=created["id"])
    found = await verified(auditor)
    assert "changed after it was recorded" in found.text
    assert f"/breakpoints/{created['id']}" in found.links()
    assert (await auditor.get("/admin/audit/checks/odd")).status_code == 404


@pytest.mark.parametrize("roles", [("viewer",), ("reviewer",), ("rule-admin",), ("auditor",)])
async def test_only_admins_can_manage_and_only_auditors_can_read_the_audit_log(
    node: Node, roles: tuple[str, ...]
) -> None:
    browser = await signed_in(node, "ann", *roles)
    expected = {"/admin": 303 if {"auditor", "rule-admin"} & set(roles) else 403}
    for path in MANAGED:
        assert (await browser.get(path)).status_code == expected.get(path, 403), path
    for path in AUDITED:
        assert (await browser.get(path)).status_code == (200 if "auditor" in roles else 403), path
    sent = {"csrf": await key(browser)}
    for path in ("people", "people/owner/link", "people/owner/close", "people/owner/roles", "people/owner/details",
                 "people/owner/open", "people/owner/identities", "people/owner/identities/remove", "groups",
                 "groups/x/remove", "tokens", "tokens/tok_" + "0" * 26 + "/revoke", "projects", "projects/default",
                 "policy", "policy/confirmed", "retention", "retention/confirmed", "retention/holds",
                 "retention/holds/hold_" + "0" * 26 + "/lift"):  # fmt: skip
        assert (await browser.post(f"/admin/{path}", sent)).status_code == 403, path
    assert (await browser.post("/admin/audit/verify", sent)).status_code == (303 if "auditor" in roles else 403)


async def test_a_form_without_a_csrf_token_changes_nothing(node: Node) -> None:
    root = await owner(node)
    for path in ("people", "groups", "tokens", "projects", "policy/confirmed", "retention/confirmed", "audit/verify"):
        assert (await root.post(f"/admin/{path}", {"name": "mallory", "kind": "agent", "id": "x"})).status_code == 403
    assert "mallory" not in (await root.page("/admin/people")).text


async def test_text_from_other_people_is_displayed_but_never_executed(node: Node) -> None:
    root = await owner(node)

    async def pages(name: str, text: str) -> list[Page]:
        def use_case(tx: Transaction) -> None:
            made = node.assent[PeopleService].create_person(
                tx, name, project="default", roles=frozenset(), display_name=text, email=text
            )
            tx[Identities].add(text, text, person_id=made.id, by=f"person:{text}", now=tx.now())

        await node.assent.database.write(use_case)
        return [Page((await root.get(f"/admin/people/{name}")).text)]

    (plain,) = await pages("plain", "plain")
    for n, text in enumerate((*XSS, *(each for each, _ in SPOOFS.values() if "\ud800" not in each))):
        (hostile,) = await pages(f"h{n}", text)
        assert hostile.structure == plain.structure, text
        assert visible(text) in hostile.text
    await node.create()
    plain = await root.page("/admin/audit")
    for text in XSS[:20]:
        await node.create(title=text[:300], payload={"question": text})
    assert len((await root.page("/admin/audit")).all("script")) == len(plain.all("script"))
