"""Endpoints for people, groups, tokens, projects, policies and operators."""

from typing import Any

from assent.core.secrets import secret_hash
from assent.db.transaction import Transaction
from assent.people.store.people import People
from tests.support.nodes import ManualClock, Node


async def admin(node: Node, method: str, path: str, body: Any = None) -> Any:
    return await node.call(method, path, await node.token("admin"), json=body)


async def test_a_person_can_be_created_shown_and_changed(node: Node) -> None:
    body = {"name": "rosa", "displayName": "Rosa L.", "email": "rosa@example.org", "roles": ["reviewer", "viewer"]}
    made = await admin(node, "POST", "/api/people", body | {"password": "correct horse battery"})
    assert made.status_code == 201
    person = made.json()
    assert {name: person[name] for name in body} == body
    assert person["active"] is True
    assert "password" not in person
    assert (await admin(node, "GET", "/api/people/rosa")).json() == person
    assert person in (await admin(node, "GET", "/api/people")).json()["items"]
    changed = await admin(node, "PATCH", "/api/people/rosa", {"displayName": "Rosa", "roles": ["auditor"]})
    assert changed.json() == person | {"displayName": "Rosa", "roles": ["auditor"]}
    closed = await admin(node, "PATCH", "/api/people/rosa", {"active": False})
    assert closed.json()["active"] is False


async def test_a_person_is_a_viewer_by_default(node: Node) -> None:
    assert (await admin(node, "POST", "/api/people", {"name": "sam"})).json()["roles"] == ["viewer"]


async def test_a_name_can_be_used_only_once(node: Node) -> None:
    await admin(node, "POST", "/api/people", {"name": "tess"})
    again = await admin(node, "POST", "/api/people", {"name": "tess"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")


async def test_passwords_are_stored_hashed_and_never_shown(node: Node) -> None:
    await admin(node, "POST", "/api/people", {"name": "uma", "password": "correct horse battery"})

    def stored(tx: Transaction) -> str:
        return str(tx[People].get_by_name("uma").password_hash)

    assert (await node.assent.database.read(stored)).startswith("$argon2id$")
    assert "argon2" not in (await admin(node, "GET", "/api/people")).text


async def test_an_admin_cannot_deactivate_themselves(node: Node) -> None:
    answer = await admin(node, "PATCH", "/api/people/owner", {"active": False})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_a_group_can_be_created_changed_listed_and_removed(node: Node) -> None:
    for name in ("vera", "will"):
        await node.person(name, "reviewer")
    assert (await admin(node, "PUT", "/api/groups/ops", {"members": ["will", "vera", "will"]})).json() == {
        "name": "ops",
        "members": ["vera", "will"],
    }
    assert (await admin(node, "PUT", "/api/groups/ops", {"members": ["vera"]})).json()["members"] == ["vera"]
    assert (await admin(node, "PUT", "/api/groups/empty", {"members": []})).json()["members"] == []
    assert (await admin(node, "GET", "/api/groups")).json() == {
        "items": [{"name": "empty", "members": []}, {"name": "ops", "members": ["vera"]}]
    }
    assert (await admin(node, "DELETE", "/api/groups/ops")).status_code == 204
    assert (await admin(node, "DELETE", "/api/groups/ops")).status_code == 404


async def test_a_group_and_a_person_cannot_have_the_same_name(node: Node) -> None:
    await node.person("xena", "reviewer")
    await admin(node, "PUT", "/api/groups/yaks", {"members": []})
    assert (await admin(node, "PUT", "/api/groups/xena", {"members": []})).status_code == 422
    assert (await admin(node, "PUT", "/api/groups/owner", {"members": []})).status_code == 422
    assert (await admin(node, "POST", "/api/people", {"name": "yaks"})).status_code == 422


async def test_a_token_is_shown_once_and_stored_as_a_hash(node: Node) -> None:
    body = {"kind": "agent", "name": "ci", "gates": ["ci.*"], "agentIds": ["bot-*"], "createsPerMinute": 5}
    made = (await admin(node, "POST", "/api/tokens", body | {"expiresInSeconds": 60})).json()
    assert made["token"].startswith("asta_")
    assert {name: made[name] for name in body} == body
    assert made["createdBy"] == "person:owner"
    listed = await admin(node, "GET", "/api/tokens")
    assert made["token"] not in listed.text
    (found,) = [each for each in listed.json()["items"] if each["id"] == made["id"]]
    assert found == {name: value for name, value in made.items() if name != "token"}

    def hashes(tx: Transaction) -> set[str]:
        return {row[0] for row in tx.session.all("SELECT secret_hash FROM assent_tokens", {})}

    stored = await node.assent.database.read(hashes)
    assert secret_hash(made["token"]) in stored
    assert made["token"] not in stored


async def test_a_tokens_prefix_shows_its_kind(node: Node) -> None:
    for kind, prefix in (("agent", "asta_"), ("reviewer", "astp_"), ("admin", "astp_"), ("metrics", "asts_")):
        made = (await admin(node, "POST", "/api/tokens", {"kind": kind, "name": "x"})).json()
        assert made["token"].startswith(prefix)


async def test_a_token_expires_exactly_on_time(node: Node, clock: ManualClock) -> None:
    made = (await admin(node, "POST", "/api/tokens", {"kind": "viewer", "name": "x", "expiresInSeconds": 60})).json()
    clock.advance(59)
    assert (await node.call("GET", "/api/breakpoints", made["token"])).status_code == 200
    clock.advance(1)
    answer = await node.call("GET", "/api/breakpoints", made["token"])
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_a_token_expires_after_90_days_by_default(node: Node, clock: ManualClock) -> None:
    made = (await admin(node, "POST", "/api/tokens", {"kind": "viewer", "name": "x"})).json()
    assert made["createdAt"][:10] == "2027-01-15"
    assert made["expiresAt"][:10] == "2027-04-15"
    clock.advance(1)


async def test_a_revoked_token_is_rejected_immediately(node: Node) -> None:
    made = (await admin(node, "POST", "/api/tokens", {"kind": "viewer", "name": "x"})).json()
    assert (await node.call("GET", "/api/breakpoints", made["token"])).status_code == 200
    assert (await admin(node, "DELETE", f"/api/tokens/{made['id']}")).status_code == 204
    assert (await node.call("GET", "/api/breakpoints", made["token"])).status_code == 401
    assert (await admin(node, "DELETE", f"/api/tokens/{made['id']}")).status_code == 404
    listed = (await admin(node, "GET", "/api/tokens")).json()["items"]
    assert next(each for each in listed if each["id"] == made["id"])["revokedAt"] is not None


async def test_a_token_for_an_unknown_person_is_not_created(node: Node) -> None:
    answer = await admin(node, "POST", "/api/tokens", {"kind": "viewer", "name": "x", "person": "nobody"})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_project_can_be_created_renamed_and_transferred(node: Node) -> None:
    await node.person("zoe", "reviewer")
    made = await admin(node, "POST", "/api/projects", {"id": "shop", "name": "The shop"})
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["owner"]) == ("The shop", "owner")
    changed = await admin(node, "PATCH", "/api/projects/shop", {"name": "Shop", "owner": "zoe"})
    assert (changed.json()["name"], changed.json()["owner"]) == ("Shop", "zoe")
    listed = (await admin(node, "GET", "/api/projects")).json()["items"]
    assert [each["id"] for each in listed] == ["default", "shop"]
    again = await admin(node, "POST", "/api/projects", {"id": "shop"})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert (await admin(node, "PATCH", "/api/projects/nowhere", {"name": "x"})).status_code == 404


async def test_a_policy_is_replaced_in_full(node: Node) -> None:
    assert (await admin(node, "GET", "/api/policy")).json() == {}
    whole = {"maxTtlSeconds": 60, "unknownExperts": "refuse"}
    assert (await admin(node, "PUT", "/api/policy", whole)).json() == whole
    assert (await admin(node, "PUT", "/api/policy", {"unknownExperts": "warn"})).json() == {"unknownExperts": "warn"}
    assert (await admin(node, "GET", "/api/policy")).json() == {"unknownExperts": "warn"}


async def test_health_readiness_and_metrics_are_available(node: Node) -> None:
    assert (await node.call("GET", "/healthz")).text == "ok\n"
    assert (await node.call("GET", "/readyz")).text == "ready\n"
    created = await node.create()
    await node.create()
    await node.feedback(created["id"], await node.token("reviewer"), release=True)
    await node.assent.measure()
    text = (await node.call("GET", "/metrics")).text
    for line in (
        "assent_pending_breakpoints 1.0",
        "assent_breakpoints_created_total 2.0",
        'assent_decisions_total{status="released"} 1.0',
        "assent_waiters 0.0",
        "assent_streams 0.0",
    ):
        assert line in text.splitlines()
    assert 'assent_http_requests_total{method="POST",route="/api/breakpoints",status="201"} 2.0' in text


async def test_metrics_contain_routes_and_never_ids(node: Node) -> None:
    created = await node.create()
    agent = await node.token("agent")
    for path in (created["id"], f"{created['id']}/status", "bp_nonsense", "%F0%9F%A6%80"):
        await node.call("GET", f"/api/breakpoints/{path}", agent)
    for n in range(5):
        await node.call("GET", f"/made-up-{n}")
    text = (await node.call("GET", "/metrics")).text
    assert created["id"] not in text
    assert "made-up" not in text
    assert 'route="/api/breakpoints/{breakpoint_id}"' in text


async def test_every_response_has_security_headers(node: Node) -> None:
    for path in ("/api/breakpoints", "/healthz", "/api/nothing", "/metrics"):
        headers = (await node.call("GET", path, await node.token("admin"))).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


async def test_only_an_admin_of_all_projects_can_create_tokens_for_another_project(node: Node) -> None:
    owner = await node.token("admin")
    await node.call("POST", "/api/projects", owner, json={"id": "second"})
    made = await node.call("POST", "/api/tokens", owner, json={"kind": "agent", "name": "x", "project": "second"})
    there = await node.create(made.json()["token"])
    local_admin = await node.person("lena", "admin")
    refused = await node.call(
        "POST", "/api/tokens", local_admin, json={"kind": "agent", "name": "x", "project": "second"}
    )

    assert made.status_code == 201
    assert (await node.call("GET", f"/api/breakpoints/{there['id']}", owner)).status_code == 404
    assert refused.status_code == 404


async def test_a_head_request_for_a_stream_does_not_block(node: Node) -> None:
    created = await node.create()
    for path in (f"/api/breakpoints/{created['id']}/stream", "/api/stream"):
        answer = await node.call("HEAD", path, await node.token("reviewer"))
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
