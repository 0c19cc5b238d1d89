"""Accounts: admins of the home project manage them but cannot act as another person, and resets are marked."""

import base64
import json
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from assent.audit.usecases.verify import AuditService
from assent.core.access import Kind, Principal, Role
from assent.core.errors import Unauthenticated
from assent.db.transaction import Transaction
from assent.delivery.store.links import Links
from assent.delivery.usecases.links import LinkService
from assent.people.authenticator import Authenticator
from assent.people.store.people import People, Person
from assent.people.usecases.people import NewToken, PeopleService
from tests.support.admin_events import Log
from tests.support.nodes import ManualClock, Node

PASSWORD = "correct horse battery"
SECRET = "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode()


async def project(node: Node, name: str) -> None:
    made = await node.call("POST", "/api/projects", await node.token("admin"), json={"id": name})
    assert made.status_code == 201, made.text


async def change(node: Node, name: str, token: str, **changes: Any) -> Any:
    return await node.call("PATCH", f"/api/people/{name}", token, json=changes)


async def events(node: Node, breakpoint_id: str, token: str) -> list[dict[str, Any]]:
    answer = await node.call("GET", f"/api/breakpoints/{breakpoint_id}/events", token)
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def own_token(node: Node, name: str) -> str:
    """Create a token directly in the database, as the operator does for a person who lost theirs."""
    return await node.token("admin", person=name, name=f"{name} again")


@pytest.mark.parametrize("kind", ["viewer", "reviewer", "rule-admin", "auditor", "admin"])
async def test_an_admin_cannot_create_a_token_that_acts_as_another_person(node: Node, kind: str) -> None:
    everything = ("viewer", "reviewer", "rule-admin", "auditor", "admin")
    await node.person("bob", *everything)
    admin = await node.person("ann", "admin")

    for caller in (admin, await node.token("admin")):
        refused = await node.call("POST", "/api/tokens", caller, json={"kind": kind, "name": "x", "person": "bob"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    listed = (await node.call("GET", "/api/tokens", admin)).json()["items"]
    assert [each["createdBy"] for each in listed if each["person"] == "bob"] == ["system:test"]


async def test_a_person_can_create_list_and_revoke_their_own_tokens(node: Node) -> None:
    bob, ann = await node.person("bob", "reviewer"), await node.person("ann", "reviewer")

    made = await node.call("POST", "/api/tokens", bob, json={"kind": "reviewer", "name": "phone"})
    assert made.status_code == 201, made.text
    assert (made.json()["person"], made.json()["createdBy"]) == ("bob", "person:bob")
    created = await node.create()
    assert (await node.feedback(created["id"], made.json()["token"], approved=True)).json()["decision"] == "approved"

    listed = (await node.call("GET", "/api/tokens", bob)).json()["items"]
    assert {each["person"] for each in listed} == {"bob"}
    path = f"/api/tokens/{made.json()['id']}"
    assert (await node.call("DELETE", path, ann)).status_code == 404
    assert (await node.call("DELETE", path, bob)).status_code == 204
    assert (await node.call("GET", "/api/people", made.json()["token"])).status_code == 401


async def test_a_token_cannot_create_a_more_powerful_token(node: Node) -> None:
    await node.person("ann", "admin", "reviewer")
    weak = await node.token("viewer", person="owner")
    refused = await node.call("POST", "/api/tokens", weak, json={"kind": "reviewer", "name": "more"})
    assert refused.status_code == 422, refused.text
    made = await node.call("POST", "/api/tokens", weak, json={"kind": "admin", "name": "all that I may"})
    assert made.json()["roles"] == ["viewer"]
    assert (await node.call("POST", "/api/tokens", weak, json={"kind": "agent", "name": "a"})).status_code == 403


async def test_an_admin_of_another_project_cannot_change_a_person_without_roles(node: Node) -> None:
    await project(node, "other")
    owner = await node.token("admin")
    await node.person("bob", "reviewer")
    assert (await change(node, "bob", owner, roles=[])).status_code == 200
    stranger = await node.person("eve", "admin", project="other")

    for changes in ({"password": PASSWORD}, {"roles": ["reviewer"]}, {"active": False}, {"email": "eve@evil.example"}):
        assert (await change(node, "bob", stranger, **changes)).status_code == 404
    assert (await change(node, "bob", owner, roles=["reviewer"])).status_code == 200
    assert (await node.call("GET", "/api/people/bob", owner)).json()["resetBy"] is None


async def test_admins_of_other_projects_can_only_grant_roles(node: Node) -> None:
    await project(node, "other")
    await node.person("bob", "reviewer", project="other")
    at_home = await node.person("hal", "admin", project="other")
    away = await node.person("ann", "admin")
    await node.assent.database.write(
        lambda tx: tx[People].grant(tx[People].get_by_name("bob").id, "default", {Role.VIEWER})
    )

    for changes in ({"password": PASSWORD}, {"active": False}, {"email": "a@b.example"}, {"displayName": "B"}):
        assert (await change(node, "bob", away, **changes)).status_code == 403
    granted = await change(node, "bob", away, roles=["reviewer"])
    assert (granted.status_code, granted.json()["roles"], granted.json()["home"]) == (200, ["reviewer"], None)
    assert (await change(node, "bob", at_home, displayName="Bob")).json()["home"] == "other"


async def test_granting_a_first_role_in_another_project_requires_confirmed_access(node: Node) -> None:
    await project(node, "other")
    eve = await node.person("eve", "admin", project="other")
    body = {"name": "bob", "roles": ["viewer"], "password": PASSWORD}
    assert (await node.call("POST", "/api/people", eve, json=body)).json()["resetBy"] == "eve"
    owner = await node.token("admin")

    refused = await change(node, "bob", owner, roles=["reviewer"])
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await node.call("POST", "/api/people/bob/confirm", owner)).json()["resetBy"] is None
    assert (await change(node, "bob", owner, roles=["reviewer"])).status_code == 200


async def test_a_reset_ends_sessions_and_marks_decisions_until_it_is_confirmed(node: Node) -> None:
    ann = await node.person("ann", "admin", "reviewer")
    other = await node.person("cem", "admin")
    before = await node.person("bob", "reviewer")
    assert (await change(node, "bob", ann, password=PASSWORD)).json()["resetBy"] == "ann"
    assert (await node.call("GET", "/api/people", before)).status_code == 401

    bob = await own_token(node, "bob")
    asked = {"question": "Both?", "expert": ["ann", "bob"], "strategy": "collect-all"}
    created = await node.create(payload=asked)
    assert (await node.feedback(created["id"], ann, approved=True)).json()["status"] == "waiting"
    assert (await node.feedback(created["id"], bob, approved=True)).json()["status"] == "waiting"
    told = [each["metadata"] for each in await events(node, created["id"], ann) if each["type"] == "responded"]
    assert [each.get("afterResetBy") for each in told] == [None, "ann"]

    for caller in (ann, bob):
        assert (await node.call("POST", "/api/people/bob/confirm", caller)).status_code == 403
    assert (await node.call("POST", "/api/people/bob/confirm", other)).status_code == 200
    assert (await node.feedback(created["id"], bob, approved=True)).json()["decision"] == "approved"
    assert (await node.assent[AuditService].verify()).findings == []
    alone = await node.create()
    assert (await node.feedback(alone["id"], bob, approved=True)).json()["decision"] == "approved"


async def test_a_decision_made_after_a_reset_is_marked_in_the_result(node: Node) -> None:
    ann = await node.person("ann", "admin")
    await node.person("bob", "reviewer")
    await change(node, "bob", ann, password=PASSWORD)
    created = await node.create()
    decided = (await node.feedback(created["id"], await own_token(node, "bob"), approved=True)).json()
    assert decided["result"]["allResponses"][0]["afterResetBy"] == "ann"


@pytest.mark.parametrize("way", ["email", "link"])
async def test_changes_that_let_an_admin_answer_as_a_person_are_treated_as_resets(node: Node, way: str) -> None:
    ann = await node.person("ann", "admin")
    await node.person("bob", "reviewer")
    if way == "email":
        assert (await change(node, "bob", ann, email="ann@second.example")).status_code == 200
    else:
        settings = {"token": "env:SLACK_TOKEN", "signingSecret": "env:SLACK_SECRET"}
        body = {"name": "chat", "type": "slack", "settings": settings}
        made = await node.call("POST", "/api/channels", await node.token("admin"), json=body)
        assert made.status_code == 201, made.text
        linked = {"identity": "T01:U0ANN", "person": "bob"}
        answer = await node.call("PUT", f"/api/channels/{made.json()['id']}/links", ann, json=linked)
        assert answer.status_code in {200, 201}, answer.text
    assert (await node.call("GET", "/api/people/bob", ann)).json()["resetBy"] == "ann"


async def test_a_password_reset_does_not_hide_an_earlier_change_by_another_admin(node: Node) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    await node.person("bob", "reviewer")
    await change(node, "bob", ann, email="ann@second.example")
    assert (await change(node, "bob", cem, password=PASSWORD)).json()["resetBy"] == "ann, cem"
    for caller in (ann, cem):
        assert (await node.call("POST", "/api/people/bob/confirm", caller)).status_code == 403


async def test_only_the_person_can_let_a_program_answer_as_them(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    await node.person("bob", "reviewer")
    settings = {"url": "https://example.com/hook", "secrets": ["env:HOOK_SECRET"]}
    for name, status in (("bob", 403), ("owner", 201)):
        body = {"name": f"hook-{name}", "type": "webhook", "settings": settings | {"answersAs": name}}
        made = await node.call("POST", "/api/channels", await node.token("admin"), json=body)
        assert made.status_code == status, made.text


async def test_an_admin_cannot_appoint_themselves_as_another_persons_deputy(node: Node) -> None:
    ann = await node.person("ann", "admin", "reviewer")
    await node.person("bob", "reviewer")
    path = "/api/people/bob/preferences"
    refused = await node.call("PUT", path, ann, json={"away": {"deputy": "ann"}})
    assert refused.status_code == 403, refused.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/api/groups/team", {"members": ["NAME"]}),
        ("PATCH", "/api/projects/default", {"owner": "NAME"}),
        ("POST", "/api/routes", {"to": ["person:NAME"], "channels": []}),
        ("PUT", "/api/people/ann/preferences", {"away": {"deputy": "NAME"}}),
        ("PATCH", "/api/people/NAME", {"displayName": "N"}),
        ("GET", "/api/people/NAME", None),
        ("POST", "/api/people/NAME/confirm", {}),
        ("PUT", "/api/people/NAME/preferences", {"channels": []}),
    ],
)
async def test_people_in_other_projects_are_indistinguishable_from_nonexistent_people(
    node: Node, method: str, path: str, body: dict[str, Any] | None
) -> None:
    await project(node, "other")
    await node.person("zoe", "reviewer", project="other")
    ann = await node.person("ann", "admin", "reviewer")

    async def asked(name: str) -> tuple[int, str]:
        sent = {} if body is None else {"content": json.dumps(body).replace("NAME", name)}
        headers = {"content-type": "application/json"} if body is not None else {}
        answer = await node.call(method, path.replace("NAME", name), ann, headers=headers, **sent)
        return answer.status_code, answer.text.replace(name, "NAME")

    known, unknown = await asked("zoe"), await asked("zia")
    assert known[0] >= 400
    assert known == unknown


async def test_a_group_can_have_the_same_name_as_a_person_in_another_project(node: Node) -> None:
    await project(node, "other")
    await node.person("zoe", "reviewer", project="other")
    ann = await node.person("ann", "admin")
    made = await node.call("PUT", "/api/groups/zoe", ann, json={"members": ["ann"]})
    assert made.status_code == 200, made.text
    # The person can no longer get a role in this project, because their name would be ambiguous as an expert.
    refused = await change(node, "zoe", await node.token("admin"), roles=["reviewer"])
    assert refused.status_code == 422


async def test_the_error_for_a_username_taken_in_another_project_does_not_reveal_its_owner(node: Node) -> None:
    await project(node, "other")
    await node.person("zoe", "reviewer", project="other")
    ann = await node.person("ann", "admin")
    refused = await node.call("POST", "/api/people", ann, json={"name": "zoe"})
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "The name zoe is not available. Choose another name.",
    )


async def stored(node: Node, name: str) -> Person:
    return await node.assent.database.read(lambda tx: tx[People].get_by_name(name))


async def principal(node: Node, token: str) -> Principal:
    return await node.assent[Authenticator].principal(f"Bearer {token}")


async def handed_over(node: Node, name: str, admin: str) -> str:
    """As an admin, reset a person's access without sending email, and return the link shown to the admin."""
    by = await principal(node, admin)
    link = await node.assent.database.write(
        lambda tx: node.assent[PeopleService].invite(tx, name, purpose="reset", by=by)
    )
    assert link is not None
    return link


async def used(node: Node, link: str) -> tuple[str, Principal]:
    """Sign in with a link, and return the session secret and the principal."""
    people = node.assent[PeopleService]
    secret, _ = await node.assent.database.write(lambda tx: people.use_link(tx, link))
    found = await node.assent.database.read(lambda tx: people.session_principal(tx, secret))
    assert found is not None
    return secret, found[0]


async def is_open(node: Node, session: str) -> bool:
    return (
        await node.assent.database.read(lambda tx: node.assent[PeopleService].session_principal(tx, session))
        is not None
    )


async def own_as(node: Node, who: Principal, name: str) -> str:
    """Create a token as a signed-in person."""
    new = NewToken(kind="reviewer", name=name)
    use_case = partial(node.assent[PeopleService].issue_token, new=new, project="default", by=who)
    return (await node.assent.database.write(use_case))[1]


async def slack(node: Node, **more: str) -> str:
    settings = {"token": "env:SLACK_TOKEN", "signingSecret": "env:SLACK_SECRET"} | more
    body = {"name": "chat", "type": "slack", "settings": settings}
    made = await node.call("POST", "/api/channels", await node.token("admin"), json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def linked_as(node: Node, who: Principal, channel_id: str, identity: str) -> None:
    """Link a person's own channel account by accepting the link that the channel offers."""
    links = node.assent[LinkService]
    offer = await node.assent.database.write(lambda tx: links.offer(tx, channel_id, identity, shown_as=identity))
    await node.assent.database.write(lambda tx: links.accept(tx, offer, by=who))


async def identities(node: Node, channel_id: str) -> list[str]:
    return await node.assent.database.read(lambda tx: [each.identity for each in tx[Links].of_channel(channel_id)])


async def test_setting_a_password_does_not_hide_an_email_change_in_the_same_request(node: Node) -> None:
    ann = await node.person("ann", "admin")
    await node.person("bob", "reviewer")
    answer = await change(node, "bob", ann, password=PASSWORD, email="ann@second.example")
    assert (answer.status_code, answer.json()["resetBy"]) == (200, "ann")
    assert (await stored(node, "bob")).reset_way == "email", "only another admin or the operator can confirm it"


async def test_confirming_a_reset_revokes_everything_created_for_the_person_since_the_reset(
    node: Node, clock: ManualClock
) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    await node.person("bob", "reviewer")
    chat = await slack(node)
    bob = Principal(kind=Kind.PERSON, id=(await stored(node, "bob")).id, name="bob", project="default")
    await linked_as(node, bob, chat, "T01:U0BOB")
    clock.advance(1)

    session, as_bob = await used(node, await handed_over(node, "bob", ann))
    planted = await own_as(node, as_bob, "planted")
    await linked_as(node, as_bob, chat, "T01:U0ANN")
    unused = await node.assent.database.write(
        lambda tx: node.assent[PeopleService].create_link(tx, as_bob.id, purpose="reset"),
    )
    assert (await node.call("GET", "/api/people", planted)).status_code == 200
    log = Log(node)
    await log.new()

    assert (await node.call("POST", "/api/people/bob/confirm", cem)).status_code == 200
    assert (await node.call("GET", "/api/people", planted)).status_code == 401
    assert not await is_open(node, session)
    with pytest.raises(Unauthenticated):
        await used(node, unused)
    assert await identities(node, chat) == ["T01:U0BOB"], "accounts linked before the reset are kept"
    recorded = [(each.type, str(each.actor)) for each in await log.new()]
    expected = {"token-revoked", "account-unlinked", "person-changed"}
    assert expected <= {act for act, _ in recorded}
    assert {actor for _, actor in recorded} == {"person:cem"}
    assert (await node.assent[AuditService].verify()).findings == []


async def test_confirming_access_revokes_everything_created_since_the_first_unconfirmed_change(node: Node) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    await node.person("bob", "reviewer")
    _, as_bob = await used(node, await handed_over(node, "bob", ann))
    planted = await own_as(node, as_bob, "planted")
    assert (await change(node, "bob", ann, email="ann@second.example")).status_code == 200
    assert (await node.call("GET", "/api/people", planted)).status_code == 200
    assert (await node.call("POST", "/api/people/bob/confirm", cem)).status_code == 200
    assert (await node.call("GET", "/api/people", planted)).status_code == 401


async def test_a_second_reset_revokes_everything_created_since_the_first(node: Node) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    await node.person("bob", "reviewer")
    chat = await slack(node)
    _, as_bob = await used(node, await handed_over(node, "bob", ann))
    await linked_as(node, as_bob, chat, "T01:U0ANN")
    await handed_over(node, "bob", cem)
    assert (await stored(node, "bob")).reset_by == "cem", "ann has no access left"
    assert await identities(node, chat) == []


async def test_confirming_a_reset_removes_only_a_password_set_by_an_admin(node: Node) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    for name in ("bob", "dan"):
        body = {"name": name, "roles": ["reviewer"], "password": PASSWORD}
        assert (await node.call("POST", "/api/people", ann, json=body)).status_code == 201
    people = node.assent[PeopleService]
    dan = await stored(node, "dan")
    as_dan = Principal(kind=Kind.PERSON, id=dan.id, name="dan", project="default")
    own = partial(people.set_password, person=dan, hashed=people.password_hash("a password of my own"), by=as_dan)
    await node.assent.database.write(own)

    for name in ("bob", "dan"):
        assert (await node.call("POST", f"/api/people/{name}/confirm", cem)).status_code == 200
    with pytest.raises(Unauthenticated):
        await node.assent.database.read(lambda tx: people.sign_in(tx, "bob", PASSWORD))
    signed_in = await node.assent.database.read(lambda tx: people.sign_in(tx, "dan", "a password of my own"))
    assert signed_in.name == "dan"


async def test_confirming_a_reset_keeps_an_account_linked_by_an_admin(node: Node) -> None:
    ann, cem = await node.person("ann", "admin"), await node.person("cem", "admin")
    await node.person("bob", "reviewer")
    chat = await slack(node)
    body = {"identity": "T01:U0BOB", "person": "bob"}
    assert (await node.call("PUT", f"/api/channels/{chat}/links", ann, json=body)).status_code == 200
    assert (await node.call("POST", "/api/people/bob/confirm", cem)).status_code == 200
    assert await identities(node, chat) == ["T01:U0BOB"]


@pytest.mark.parametrize("name", ["signingSecret", "appToken", "apiUrl"])
async def test_changing_click_verification_marks_the_access_of_people_with_linked_accounts_as_reset(
    node: Node, name: str
) -> None:
    await node.person("bob", "reviewer")
    await node.person("dan", "reviewer")
    chat, owner = await slack(node), await node.token("admin")
    for each in ("bob", "owner"):
        found = await stored(node, each)
        who = Principal(kind=Kind.PERSON, id=found.id, name=each, project="default")
        await linked_as(node, who, chat, f"T01:U0{each.upper()}")

    async def set_to(settings: dict[str, str]) -> None:
        answer = await node.call("PATCH", f"/api/channels/{chat}", owner, json={"settings": settings})
        assert answer.status_code == 200, answer.text

    await set_to({"room": "C0ROOM", "token": "env:OTHER_TOKEN"})
    assert (await stored(node, "bob")).reset_by is None, "this changes where messages go, not who can answer"
    await set_to({name: "https://slack.example.com/api" if name == "apiUrl" else "env:KNOWN_TO_ME"})
    marks = {each: (await stored(node, each)).reset_by for each in ("bob", "dan", "owner")}
    assert marks == {"bob": "owner", "dan": None, "owner": None}
    assert (await stored(node, "bob")).reset_way == "answers"


async def test_changing_email_reply_verification_marks_the_access_of_people_with_addresses_as_reset(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await project(node, "other")
    for name, value in {
        "REPLY": "a reply secret of some length",
        "INBOUND": "an inbound secret of some length",
    }.items():
        monkeypatch.setenv(name, value)
    for name, home in (("bob", "default"), ("dan", "default"), ("zoe", "other")):
        await node.person(name, "reviewer", project=home)

    def with_addresses(tx: Transaction) -> None:
        for name in ("bob", "zoe"):
            tx[People].save(replace(tx[People].get_by_name(name), email=f"{name}@example.org"))

    await node.assent.database.write(with_addresses)
    owner = await node.token("admin")
    plain = {"host": "mail.example.org", "from": "assent@example.org"}
    replies = {
        "replyDomain": "in.example.org",
        "replySecret": "env:REPLY",
        "inboundSecret": "env:INBOUND",
        "authserv": "mx.example.org",
    }
    made = await node.call("POST", "/api/channels", owner, json={"name": "mail", "type": "email", "settings": plain})
    assert made.status_code == 201, made.text
    assert (await stored(node, "bob")).reset_by is None, "the channel accepts no answers"
    path = f"/api/channels/{made.json()['id']}"
    changed = await node.call("PATCH", path, owner, json={"settings": replies})
    assert changed.status_code == 200, changed.text
    marks = {each: (await stored(node, each)).reset_by for each in ("bob", "dan", "zoe")}
    assert marks == {"bob": "owner", "dan": None, "zoe": None}
