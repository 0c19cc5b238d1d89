"""Trigger events over the API: why each trigger did or did not match, replays, and dry runs."""

from typing import Any

import pytest

from assent.db.transaction import Transaction
from tests.api.outside import SECRET, admin, code, good, looked, pointer, pushed, rows, source, trigger, write_process
from tests.support.nodes import ManualClock, Node

SHA = "a" * 40
ENVELOPE: dict[str, Any] = {
    "specversion": "1.0",
    "id": "x",
    "source": "/sources/shop",
    "type": "github.push",
    "data": {"ref": "refs/heads/main"},
    "view": {"repo": "acme/shop", "branch": "main", "sha": SHA},
}


@pytest.fixture(autouse=True)
async def _outside(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setenv("HUB_SECRET", SECRET)
    write_process(node)
    await source(node)


async def test_a_secret_in_a_payload_is_redacted_before_it_is_stored_matched_or_shown(node: Node) -> None:
    token = "ghp_" + "a1B2" * 9
    await trigger(node, on=f"github.push(data.note contains '{token[4:20]}')")
    event_id = await pushed(node, note=f"deploy with {token}")
    shown = await admin(node, "GET", f"/api/trigger-events/{event_id}")
    assert "deploy with ghp_[redacted]" in shown.text
    assert not shown.json()["trace"][0]["matched"]
    page = await admin(node, "GET", "/api/trigger-events")
    stored = await node.assent.database.read(lambda tx: str(tx.session.all("SELECT * FROM assent_trigger_events", {})))
    assert token not in shown.text + page.text + stored


async def dead(node: Node, firing_id: str) -> None:
    """Mark a firing as failed permanently, as if its run could not be started."""

    def use_case(tx: Transaction) -> None:
        statement = (
            "UPDATE assent_firings SET state = 'dead', because = NULL, run_id = NULL, next_at = NULL WHERE id = :id"
        )
        tx.session.write(statement, [{"id": firing_id}])

    await node.assent.database.write(use_case)


async def test_an_event_shows_its_matches_its_runs_and_its_payload(node: Node) -> None:
    await trigger(node, inputs={"sha": "{{ event.sha }}"})
    await trigger(node, "other", on="github.push(branch = 'dev')")
    event_id = await pushed(node)
    [listed] = (await good(node, "GET", "/api/trigger-events"))["items"]
    assert (listed["id"], listed["type"], listed["source"]) == (event_id, "github.push", "shop")
    assert (listed["state"], listed["duplicates"], listed["trust"]) == ("matched", 0, "untrusted")
    assert (listed["verified"], listed["depth"]) == ("hmac-sha256", 0)
    assert (listed["view"]["branch"], listed["view"]["sha"]) == ("main", SHA)
    shown = await good(node, "GET", f"/api/trigger-events/{event_id}")
    assert {name: shown[name] for name in listed} == listed
    assert shown["envelope"]["specversion"] == "1.0"
    assert shown["envelope"]["data"]["nothing"] is None, "null values of the body are shown"
    assert not [name for name in shown["headers"] if "signature" in name.lower()]
    traces = {each["trigger"]: each for each in shown["trace"]}
    assert (traces["fix-red-main"]["matched"], traces["other"]["matched"]) == (True, False)
    [wrong] = [each for each in traces["other"]["findings"] if each["held"] is False]
    assert ("branch" in wrong["part"], wrong["actual"]) == (True, "main")
    [firing] = shown["firings"]
    [run] = shown["runs"]
    assert (firing["trigger"], firing["state"], firing["runId"]) == ("fix-red-main", "started", run["id"])
    assert [each["id"] for each in shown["chain"]] == [event_id]


async def test_runs_show_their_cause_and_can_be_filtered_by_it(node: Node) -> None:
    await trigger(node)
    event_id = await pushed(node)
    await good(node, "POST", "/api/runs", {"process": "fix-ci"})
    await looked(node)
    for query in (f"eventId={event_id}", "trigger=fix-red-main", f"trigger=fix-red-main&eventId={event_id}"):
        [run] = (await good(node, "GET", f"/api/runs?{query}"))["items"]
        assert run["cause"] == {"eventId": event_id, "trigger": "fix-red-main", "depth": 0}
        assert run["startedBy"] == "trigger:fix-red-main"
    assert (await good(node, "GET", f"/api/runs/{run['id']}"))["cause"]["eventId"] == event_id
    assert (await good(node, "GET", "/api/runs?trigger=other"))["items"] == []
    assert len((await good(node, "GET", "/api/runs"))["items"]) == 2
    assert code(await admin(node, "GET", "/api/runs?eventId=x")) == (422, "invalid_request")


async def test_a_repeated_delivery_is_counted_but_starts_no_run(node: Node) -> None:
    await trigger(node)
    first = await pushed(node)
    assert await pushed(node) == first
    shown = await good(node, "GET", f"/api/trigger-events/{first}")
    assert (shown["duplicates"], len(shown["firings"]), len(shown["runs"])) == (1, 1, 1)


async def test_events_can_be_filtered_by_source_type_and_state_and_paginated(node: Node) -> None:
    await trigger(node)
    other = await source(node, "lib")
    ours = [await pushed(node, delivery=f"d-{n}") for n in range(3)]
    theirs = await pushed(node, "lib", ref="refs/heads/dev")

    async def found(query: str) -> list[str]:
        return [each["id"] for each in (await good(node, "GET", f"/api/trigger-events?{query}"))["items"]]

    assert await found("source=shop") == ours[::-1]
    assert await found(f"source={other['id']}") == [theirs]
    assert await found("state=unmatched") == [theirs]
    assert await found("type=github.push&state=matched") == ours[::-1]
    assert await found("type=github.ping") == []
    first = await good(node, "GET", "/api/trigger-events?limit=3")
    assert [each["id"] for each in first["items"]] == [theirs, ours[2], ours[1]]
    assert await found(f"limit=3&cursor={first['nextCursor']}") == [ours[0]]
    await admin(node, "DELETE", "/api/sources/lib")
    assert await found(f"source={other['id']}") == [theirs]
    assert code(await admin(node, "GET", "/api/trigger-events?source=lib")) == (404, "not_found")
    for wrong in ("state=odd", "cursor=odd", "limit=0", "colour=red"):
        assert code(await admin(node, "GET", f"/api/trigger-events?{wrong}")) == (422, "invalid_request")


async def test_a_replayed_event_is_a_new_event_for_the_selected_trigger(node: Node, clock: ManualClock) -> None:
    await trigger(node, once="{{ event.sha }}")
    await trigger(node, "second", on="github.push")
    first = await pushed(node)
    clock.advance(1)
    again = await good(node, "POST", f"/api/trigger-events/{first}/replay", {"trigger": "fix-red-main"})
    assert (again["replayOf"], again["state"], again["id"] != first) == (first, "received", True)
    await looked(node)
    shown = await good(node, "GET", f"/api/trigger-events/{again['id']}")
    assert [each["trigger"] for each in shown["firings"]] == ["fix-red-main"]
    assert [each["id"] for each in shown["chain"]] == [first, again["id"]]
    path = f"/api/trigger-events/{first}/replay"
    assert code(await admin(node, "POST", path, {"trigger": "none"})) == (404, "not_found")
    viewer = await node.person("val", "viewer")
    assert code(await node.call("POST", path, viewer, json={})) == (403, "forbidden")


@pytest.mark.parametrize(
    ("against", "expected"),
    [
        (None, {"fix-red-main": True, "other": False}),
        ("other", {"other": False}),
        ({"name": "draft", "on": "github.*(repo = 'acme/shop')", "run": "fix-ci"}, {"draft": True}),
    ],
)
async def test_a_trigger_dry_run_changes_nothing(node: Node, against: Any, expected: dict[str, bool]) -> None:
    await trigger(node, inputs={"sha": "{{ event.sha }}"}, hold=True)
    await trigger(node, "other", on="github.push(branch = 'dev')")
    event_id = await pushed(node)
    before = await rows(node)
    for event in ({"eventId": event_id}, {"event": ENVELOPE}):
        body = event | ({"trigger": against} if against is not None else {})
        found = (await good(node, "POST", "/api/trigger-events/test", body))["items"]
        assert {each["trigger"]: each["matched"] for each in found} == expected
        for each in found:
            assert each["would"]
            assert each["findings"]
        matched = [each for each in found if each["matched"]]
        assert all(each["inputs"]["event"]["sha"] == SHA for each in matched)
    assert await rows(node) == before
    await looked(node)
    assert await rows(node) == before


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/"),
        ({"eventId": "evt_x", "event": ENVELOPE}, "/"),
        ({"event": {"view": {}}}, "/event/type"),
        ({"event": ENVELOPE, "trigger": {"name": "d", "on": "github.push", "run": "none"}}, "/run"),
        ({"event": ENVELOPE, "trigger": {"name": "d", "on": "(", "run": "fix-ci"}}, "/on"),
    ],
)
async def test_the_error_for_an_invalid_dry_run_points_to_the_field(
    node: Node, body: dict[str, Any], where: str
) -> None:
    assert pointer(await admin(node, "POST", "/api/trigger-events/test", body)) == where


async def test_a_dry_run_with_an_unknown_event_or_trigger_returns_404(node: Node) -> None:
    for body in ({"eventId": "evt_none"}, {"eventId": "none"}, {"event": ENVELOPE, "trigger": "none"}):
        assert code(await admin(node, "POST", "/api/trigger-events/test", body)) == (404, "not_found")


async def test_a_trigger_sketched_from_an_event_matches_it(node: Node) -> None:
    event_id = await pushed(node)
    sketch = await good(node, "GET", f"/api/trigger-events/{event_id}/sketch")
    assert sketch["run"] == "fix-ci"
    body = {"eventId": event_id, "trigger": sketch}
    [found] = (await good(node, "POST", "/api/trigger-events/test", body))["items"]
    assert found["matched"] is True
    assert await good(node, "GET", "/api/triggers") == {"items": []}


async def test_firings_can_be_listed_counted_retried_and_discarded(node: Node) -> None:
    made = await trigger(node)
    await good(node, "POST", "/api/triggers/fix-red-main/suspend", {})
    first, second = [await pushed(node, delivery=f"d-{n}") for n in range(2)]
    page = await good(node, "GET", "/api/firings")
    assert [each["eventId"] for each in page["items"]] == [second, first]
    assert {(each["state"], each["because"]) for each in page["items"]} == {("held", "suspended")}
    assert page["counts"] == [{"state": "held", "because": "suspended", "count": 2}]
    for query in (f"eventId={first}", f"trigger={made['id']}&eventId={first}", "trigger=fix-red-main&limit=1"):
        assert len((await good(node, "GET", f"/api/firings?{query}"))["items"]) == 1
    held, lost = (each["id"] for each in page["items"])
    await dead(node, lost)
    [listed] = (await good(node, "GET", "/api/firings?state=dead"))["items"]
    assert listed["id"] == lost
    assert (await good(node, "POST", f"/api/firings/{lost}/retry"))["state"] == "held"
    assert code(await admin(node, "POST", f"/api/firings/{lost}/retry")) == (409, "conflict")
    let_go = await good(node, "POST", f"/api/firings/{held}/discard")
    assert (let_go["state"], let_go["because"]) == ("skipped", "discarded")
    assert code(await admin(node, "POST", f"/api/firings/{held}/discard")) == (409, "conflict")
    for path in ("/api/firings/fir_none/retry", "/api/firings/none/discard", "/api/firings?trigger=none"):
        assert code(await admin(node, "GET" if "?" in path else "POST", path)) == (404, "not_found")
    for wrong in ("state=odd", "cursor=odd", "eventId=odd", "colour=red"):
        assert code(await admin(node, "GET", f"/api/firings?{wrong}")) == (422, "invalid_request")


async def test_events_and_firings_in_another_project_are_hidden(node: Node) -> None:
    await trigger(node)
    event_id = await pushed(node)
    [firing] = (await good(node, "GET", "/api/firings"))["items"]
    await good(node, "POST", "/api/projects", {"id": "other"})
    stranger = await node.person("stranger", "admin", project="other")
    for path in ("/api/trigger-events", "/api/firings"):
        assert (await node.call("GET", path, stranger)).json()["items"] == []
    for method, path in (
        ("GET", f"/api/trigger-events/{event_id}"),
        ("POST", f"/api/trigger-events/{event_id}/replay"),
        ("GET", f"/api/trigger-events/{event_id}/sketch"),
        ("POST", f"/api/firings/{firing['id']}/retry"),
        ("POST", f"/api/firings/{firing['id']}/discard"),
    ):
        body: dict[str, Any] | None = {} if method == "POST" else None
        assert code(await node.call(method, path, stranger, json=body)) == (404, "not_found")
