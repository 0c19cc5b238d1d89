"""Creating a breakpoint and reading it back."""

import hashlib
from typing import Any

import pytest
import rfc8785

from tests.support.nodes import ManualClock, Node

EVERYTHING = {
    "agentId": "deployer",
    "runId": "run-7",
    "title": "Deploy to production",
    "tags": ["prod", "deploy"],
    "ttlSeconds": 600,
    "onTimeout": "reject",
    "callbackUrl": "https://example.org/hook",
    "priority": "urgent",
    "payload": {
        "question": "Deploy version 7?",
        "title": "Deploy to production",
        "tags": ["deploy", "night"],
        "context": {"runId": "run-7", "ticket": "OPS-1", "files": [{"path": "a/plan.md", "format": "markdown"}]},
        "strategy": "first-response-wins",
        "expert": "owner",
        "previousFeedback": "Not at noon.",
        "attempt": 2,
        "breakpointId": "deploy.production",
        "autoApproveAfterN": -1,
        "presentAlwaysApprove": False,
        "options": ["now", "tonight"],
        "form": {"type": "object", "properties": {"reason": {"type": "string"}}},
        "hardStop": True,
        "risk": "medium",
        "editable": ["version"],
        "version": 7,
        "anything": {"else": [1, 2.5, None, "x"]},
    },
}


async def post(node: Node, body: dict[str, Any], **options: Any) -> Any:
    return await node.call("POST", "/api/breakpoints", await node.token("agent"), json=body, **options)


async def test_all_fields_sent_by_an_agent_are_returned(shared: Node) -> None:
    answer = await post(shared, EVERYTHING)
    created = answer.json()
    assert answer.status_code == 201
    for name in ("agentId", "runId", "title", "ttlSeconds", "onTimeout", "callbackUrl", "priority", "payload"):
        assert created[name] == EVERYTHING[name], name
    assert created["id"] == created["breakpointId"]
    assert created["status"] == "waiting"
    assert created["tags"] == ["prod", "deploy", "night"]
    assert created["gate"] == "deploy.production"
    assert created["experts"] == ["owner"]
    assert (created["strategy"], created["risk"], created["attempt"]) == ("first-response-wins", "medium", 2)
    assert created["question"] == "Deploy version 7?"
    assert created["createdBy"].startswith("agent:")
    assert created["createdAt"] == created["updatedAt"]
    assert created["warnings"] == []
    assert created["feedback"] == []
    assert created["responses"] == []
    assert "decision" not in created
    assert "result" not in created
    assert created["autoApproval"]["recommended"] is False
    assert created["version"] == 1


async def test_a_created_breakpoint_can_be_read_back(shared: Node) -> None:
    answer = await post(shared, EVERYTHING)
    got = await shared.call("GET", f"/api/breakpoints/{answer.json()['id']}", await shared.token("reviewer"))
    assert got.json() == answer.json()
    assert got.headers["etag"] == answer.headers["etag"] == '"v1"'
    assert got.headers["cache-control"] == "no-store"


async def test_only_an_agent_id_and_a_payload_are_required(shared: Node) -> None:
    created = (await post(shared, {"agentId": "a", "payload": {}})).json()
    assert (created["status"], created["priority"], created["strategy"]) == ("waiting", "normal", "single")
    assert (created["onTimeout"], created["tags"], created["experts"]) == ("expire", [], [])
    assert "deadline" not in created
    assert "ttlSeconds" not in created


async def test_the_etag_changes_with_the_breakpoint(shared: Node) -> None:
    created = await shared.create()
    answer = await shared.feedback(created["id"], await shared.token("reviewer"), comment="Hm.")
    assert answer.headers["etag"] == '"v2"'


async def test_the_status_omits_fields_without_a_value(shared: Node) -> None:
    created = await shared.create()
    agent = await shared.token("agent")
    first = (await shared.call("GET", f"/api/breakpoints/{created['id']}/status", agent)).json()
    assert first == {"status": "waiting", "updatedAt": created["updatedAt"]}
    await shared.feedback(created["id"], await shared.token("reviewer"), release=True, comment="Go.")
    second = (await shared.call("GET", f"/api/breakpoints/{created['id']}/status", agent)).json()
    assert (second["status"], second["decision"], second["result"]["approved"]) == ("released", "approved", True)
    assert [each["comment"] for each in second["feedback"]] == ["Go."]


@pytest.mark.parametrize(
    ("body", "gate"),
    [
        ({"title": "Deploy to Production!"}, "deploy-to-production"),
        ({"title": "v1.2 -- Ship__it?"}, "v1.2-ship-it"),
        ({"title": "Größe ändern"}, "grosse-andern"),
        ({"title": "Delete it", "payload": {"breakpointId": "data.delete"}}, "data.delete"),
        ({"payload": {"title": "From the payload"}}, "from-the-payload"),
        ({"payload": {"question": "May I?"}}, "may-i"),
        ({}, "my-agent"),
    ],
)
async def test_the_gate_is_explicit_or_derived_from_the_title(shared: Node, body: dict[str, Any], gate: str) -> None:
    answer = await post(shared, {"agentId": "my agent", "payload": {}} | body)
    assert answer.json()["gate"] == gate


async def test_titles_without_letters_never_share_a_gate(shared: Node) -> None:
    gates = {(await post(shared, {"agentId": "a", "title": title, "payload": {}})).json()["gate"] for title in "?!…"}
    assert len(gates) == 3
    assert all(gate.startswith("breakpoint-") for gate in gates)


async def test_the_title_and_run_id_can_be_repeated_in_the_payload(shared: Node) -> None:
    payload = {"title": "T", "context": {"runId": "R"}}
    created = (await post(shared, {"agentId": "a", "title": "T", "runId": "R", "payload": payload})).json()
    assert (created["title"], created["runId"]) == ("T", "R")


async def test_the_title_and_run_id_can_be_set_in_the_payload_alone(shared: Node) -> None:
    payload = {"title": "T", "tags": ["x"], "context": {"runId": "R"}}
    created = (await post(shared, {"agentId": "a", "payload": payload})).json()
    assert (created["title"], created["runId"], created["tags"]) == ("T", "R", ["x"])


async def test_the_digest_can_be_recomputed_from_the_response(shared: Node) -> None:
    created = (await post(shared, EVERYTHING)).json()
    shown = {name: created[name] for name in ("agentId", "runId", "title", "gate", "tags", "payload")}
    content = rfc8785.dumps(shown | {"project": "default"})
    assert created["digest"] == hashlib.sha256(b"assent-content/1\n" + content).hexdigest()


async def test_different_content_has_a_different_digest(shared: Node) -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"title": "Other"},
        {"tags": ["x"]},
        {"runId": "r"},
        {"payload": {"question": "Deploy!"}},
        {"payload": {"question": "Deploy?", "n": 1}},
        {"payload": {"question": "Deploy?", "n": "1"}},
        {"payload": {"question": "Deploy?", "context": {"files": [{"path": "a", "format": "text", "content": "1"}]}}},
        {"payload": {"question": "Deploy?", "context": {"files": [{"path": "a", "format": "text", "content": "2"}]}}},
    ]
    digests = [(await shared.create(**variant))["digest"] for variant in variants]
    assert len(set(digests)) == len(variants)


async def test_an_unknown_expert_causes_a_warning_instead_of_an_error(shared: Node) -> None:
    created = await shared.create(payload={"question": "?", "expert": "ghost"})
    assert created["status"] == "waiting"
    assert len(created["warnings"]) == 1
    assert "ghost" in created["warnings"][0]
    assert created["experts"] == ["ghost"]
    events = await shared.call("GET", f"/api/breakpoints/{created['id']}/events", await shared.token("agent"))
    assert [each["type"] for each in events.json()["items"]] == ["created", "warned"]
    assert events.json()["items"][1]["metadata"] == {"warning": created["warnings"][0]}


async def test_the_response_shows_the_experts_as_requested(shared: Node) -> None:
    await shared.person("carla", "reviewer")
    for asked in (["carla"], ["ghost"], ["carla", "ghost"], ["owner"], ["owner", "carla"], ["ghost", "spook", "carla"]):
        created = await shared.create(payload={"question": "?", "expert": asked})
        assert sorted(created["experts"]) == sorted(asked)


async def test_an_owner_who_is_also_an_expert_is_listed_by_name(node: Node) -> None:
    await node.person("carla", "reviewer")
    await node.call("PATCH", "/api/projects/default", await node.token("admin"), json={"owner": "carla"})
    created = await node.create(payload={"question": "?", "expert": ["carla", "ghost"]})
    assert created["experts"] == ["carla", "ghost"]


async def test_the_owner_answers_for_an_unknown_expert(shared: Node) -> None:
    created = await shared.create(payload={"question": "?", "expert": "ghost"})
    stranger = await shared.person("stranger", "reviewer")
    refused = await shared.feedback(created["id"], stranger, release=True)
    assert (refused.status_code, refused.json()["code"]) == (403, "not_eligible")
    answer = (await shared.feedback(created["id"], await shared.token("reviewer"), release=True)).json()
    assert answer["responses"][0]["inPlaceOf"] == ["ghost"]
    assert answer["decision"] == "approved"


async def test_a_project_can_reject_unknown_experts(node: Node) -> None:
    admin = await node.token("admin")
    await node.call("PUT", "/api/policy", admin, json={"unknownExperts": "refuse"})
    body = {"agentId": "a", "payload": {"question": "?", "expert": ["owner", "ghost"]}}
    answer = await post(node, body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["pointer"] == "/payload/expert"
    assert (await node.call("GET", "/api/breakpoints", admin)).json()["items"] == []
    body["payload"]["expert"] = "owner"  # type: ignore[index]
    assert (await post(node, body)).status_code == 201


async def test_the_project_policy_caps_the_ttl(node: Node) -> None:
    admin = await node.token("admin")
    answer = await node.call("PUT", "/api/policy", admin, json={"maxTtlSeconds": 60})
    assert answer.json() == {"maxTtlSeconds": 60}
    assert (await node.call("GET", "/api/policy", admin)).json() == {"maxTtlSeconds": 60}
    assert (await node.create(ttlSeconds=3600))["ttlSeconds"] == 60
    assert (await node.create())["ttlSeconds"] == 60
    assert (await node.create(ttlSeconds=30))["ttlSeconds"] == 30


async def test_the_deadline_equals_the_creation_time_plus_the_ttl(node: Node, clock: ManualClock) -> None:
    created = await node.create(ttlSeconds=90)
    clock.advance(89.999999)
    agent = await node.token("agent")
    path = f"/api/breakpoints/{created['id']}/status"
    assert (await node.call("GET", path, agent)).json()["status"] == "waiting"
    clock.advance(0.000001)
    assert (await node.call("GET", path, agent)).json()["status"] == "expired"
    assert created["createdAt"] == "2027-01-15T08:00:00Z"
    assert created["deadline"] == "2027-01-15T08:01:30Z"


async def test_quorum_experts_must_be_different_people(node: Node) -> None:
    await node.person("dora", "reviewer")
    admin = await node.token("admin")
    await node.call("PUT", "/api/groups/left", admin, json={"members": ["dora"]})
    await node.call("PUT", "/api/groups/right", admin, json={"members": ["dora"]})
    for strategy in ("quorum", "collect-all"):
        body = {"agentId": "a", "payload": {"expert": ["left", "right"], "strategy": strategy}}
        answer = await post(node, body)
        assert (answer.status_code, answer.json()["code"]) == (422, "experts_not_distinct")
    await node.person("emil", "reviewer")
    await node.call("PUT", "/api/groups/right", admin, json={"members": ["dora", "emil"]})
    assert (await post(node, body)).status_code == 201


async def test_ids_sort_by_creation_time(node: Node, clock: ManualClock) -> None:
    ids: list[str] = []
    for _ in range(5):
        clock.advance(0.01)
        ids.append((await node.create())["id"])
    assert ids == sorted(ids)


async def test_a_person_cannot_decide_a_breakpoint_they_created(shared: Node) -> None:
    raiser = await shared.person("raiser", "reviewer", "admin")
    created = await shared.create(raiser)
    assert created["createdBy"] == "person:raiser"
    for body in ({"release": True}, {"approved": False}):
        answer = await shared.feedback(created["id"], raiser, **body)
        assert (answer.status_code, answer.json()["code"]) == (403, "own_breakpoint")
    assert (await shared.feedback(created["id"], raiser, comment="Anyone?")).status_code == 200


async def test_exceeding_the_creation_rate_limit_returns_429_with_a_retry_after_header(shared: Node) -> None:
    token = await shared.token("agent", creates_per_minute=2)
    body = {"agentId": "a", "payload": {}}
    answers = [await shared.call("POST", "/api/breakpoints", token, json=body) for _ in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 429]
    assert answers[2].json()["code"] == "rate_limited"
    assert int(answers[2].headers["retry-after"]) >= 1
    other = await shared.token("agent", creates_per_minute=2)
    assert (await shared.call("POST", "/api/breakpoints", other, json=body)).status_code == 201


async def test_a_request_id_is_echoed_or_generated(shared: Node) -> None:
    agent = await shared.token("agent")
    for path, expected in (("/api/breakpoints", 200), ("/api/breakpoints/bp_x", 404), ("/healthz", 200)):
        given = await shared.call("GET", path, agent, headers={"X-Request-Id": "my-request-1"})
        made = await shared.call("GET", path, agent)
        assert given.status_code == expected
        assert given.headers["x-request-id"] == "my-request-1"
        assert made.headers["x-request-id"] not in {"", "my-request-1"}


@pytest.mark.parametrize(
    ("key", "meant"), [("Risk", "risk"), ("hardstop", "hardStop"), ("experts", "expert"), ("ttl_seconds", "ttlSeconds")]
)
async def test_a_misspelled_field_is_rejected_with_a_suggestion(shared: Node, key: str, meant: str) -> None:
    body = {"agentId": "agent-1", "payload": {"question": "?", key: "high"}}
    answer = await shared.call("POST", "/api/breakpoints", await shared.token("agent"), json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["pointer"] == f"/payload/{key}"
    assert f"'{meant}'" in answer.json()["detail"]


async def test_a_misplaced_field_is_rejected_with_a_hint_about_where_it_belongs(shared: Node) -> None:
    hints = {
        "risk": "Set 'risk' in the payload",
        "ttl": "Did you mean 'ttlSeconds'",
        "gate": "set 'breakpointId' in the payload",
    }
    for key, said in hints.items():
        body = {"agentId": "agent-1", "payload": {"question": "?"}, key: "high"}
        answer = await shared.call("POST", "/api/breakpoints", await shared.token("agent"), json=body)
        assert answer.status_code == 422
        assert said in answer.json()["detail"]


async def test_other_suspicious_fields_cause_a_warning(shared: Node) -> None:
    created = await shared.create(payload={"question": "?", "tag": ["a"], "from": "b"})
    assert created["payload"]["tag"] == ["a"]
    assert len(created["warnings"]) == 1
    assert "Did you mean 'tags'?" in created["warnings"][0]
