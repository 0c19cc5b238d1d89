"""Sources and triggers over the API: they can be created, changed and suspended, and secrets must be references."""

from typing import Any

import pytest

from assent.db.transaction import Transaction
from tests.api.outside import PROCESS, SECRET, admin, code, good, pointer, rows, source, trigger, write_process
from tests.support.nodes import ManualClock, Node

NEW_YORK = {"cron": "30 2 * * *", "timezone": "America/New_York"}


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
    monkeypatch.setenv("HUB_SECRET", SECRET)
    write_process(node)


async def test_a_source_can_be_created_shown_changed_and_removed(node: Node) -> None:
    made = await source(node)
    assert (made["kind"], made["origin"], made["enabled"], made["createdBy"]) == ("github", "api", True, "person:owner")
    assert made["address"] == f"{node.assent.settings.base_url}/hooks/shop"
    assert (made["refused"], made["silent"], "heardAt" in made) == (0, False, False)
    assert await good(node, "GET", "/api/sources") == {"items": [made]}
    for name in ("shop", made["id"]):
        assert await good(node, "GET", f"/api/sources/{name}") == made
    changed = await good(node, "PATCH", "/api/sources/shop", {"settings": {"expect_every": "1d"}, "enabled": False})
    assert (changed["settings"]["expect_every"], changed["enabled"]) == ("1d", False)
    taken = await good(node, "PATCH", f"/api/sources/{made['id']}", {"settings": {"expect_every": None}})
    assert taken["settings"] == made["settings"]
    assert (await admin(node, "DELETE", "/api/sources/shop")).status_code == 204
    assert code(await admin(node, "GET", "/api/sources/shop")) == (404, "not_found")
    assert await good(node, "GET", "/api/sources") == {"items": []}


async def test_source_secrets_must_be_references_and_are_never_displayed(node: Node) -> None:
    body = {"name": "shop", "kind": "github", "settings": {"secrets": [SECRET]}}
    refused = await admin(node, "POST", "/api/sources", body)
    assert pointer(refused) == "/settings/secrets/0"
    assert SECRET not in refused.text
    await source(node)
    shown = await admin(node, "GET", "/api/sources/shop")
    assert shown.json()["settings"] == {"secrets": ["env:HUB_SECRET"]}
    assert SECRET not in shown.text

    def stored(tx: Transaction) -> str:
        return str(tx.session.all("SELECT settings FROM assent_sources", {}))

    assert SECRET not in await node.assent.database.read(stored)


async def test_only_admins_see_the_settings_of_a_source(node: Node) -> None:
    await source(node)
    viewer = await node.person("val", "viewer")
    [shown] = (await node.call("GET", "/api/sources", viewer)).json()["items"]
    assert "settings" not in shown
    assert "env:HUB_SECRET" not in str(shown)
    for method, path, body in (
        ("POST", "/api/sources", {"name": "x", "kind": "github"}),
        ("PATCH", "/api/sources/shop", {"enabled": False}),
        ("DELETE", "/api/sources/shop", None),
    ):
        assert code(await node.call(method, path, viewer, json=body)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"name": "Shop"}, "/name"),
        ({"kind": "pigeon"}, "/kind"),
        ({"settings": {}}, "/settings/secrets"),
        ({"settings": {"secrets": ["env:NO_SUCH"]}}, "/settings/secrets/0"),
        ({"settings": {"secrets": ["env:HUB_SECRET"], "colour": "red"}}, "/settings/colour"),
        ({"settings": {"secrets": ["env:HUB_SECRET"], "expect_every": "soon"}}, "/settings/expect_every"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_the_error_for_an_invalid_source_points_to_the_field(
    node: Node, body: dict[str, Any], where: str
) -> None:
    whole = {"name": "shop", "kind": "github", "settings": {"secrets": ["env:HUB_SECRET"]}} | body
    assert pointer(await admin(node, "POST", "/api/sources", whole)) == where
    assert await good(node, "GET", "/api/sources") == {"items": []}


async def test_a_source_that_misses_its_expected_interval_is_reported_as_silent(node: Node, clock: ManualClock) -> None:
    await source(node)
    await good(node, "PATCH", "/api/sources/shop", {"settings": {"expect_every": "1h"}})
    shown = await good(node, "GET", "/api/sources/shop")
    assert (shown["silent"], shown["silentAt"]) == (False, "2027-01-15T09:00:00.000000Z")
    clock.advance(3_700)
    assert (await good(node, "GET", "/api/sources/shop"))["silent"] is True


async def test_the_upcoming_times_of_a_schedule_account_for_daylight_saving_time(node: Node) -> None:
    await good(node, "POST", "/api/sources", {"name": "nightly", "kind": "schedule", "settings": NEW_YORK})
    [shown] = (await good(node, "GET", "/api/schedules?count=100"))["items"]
    assert (shown["source"], shown["cron"], shown["timezone"]) == ("nightly", "30 2 * * *", "America/New_York")
    assert len(shown["next"]) == 100
    march = [each for each in shown["next"] if each.startswith(("2027-03-13", "2027-03-14", "2027-03-15"))]
    assert march == ["2027-03-13T02:30:00-05:00", "2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"]
    assert len((await good(node, "GET", "/api/schedules"))["items"][0]["next"]) == 5
    await good(node, "PATCH", "/api/sources/nightly", {"enabled": False})
    assert (await good(node, "GET", "/api/schedules"))["items"][0]["next"] == []
    for wrong in ("count=0", "count=101", "count=x", "colour=red"):
        assert code(await admin(node, "GET", f"/api/schedules?{wrong}")) == (422, "invalid_request")


async def test_a_trigger_can_be_created_shown_changed_and_removed(node: Node) -> None:
    made = await trigger(
        node,
        inputs={"sha": "{{ event.sha }}"},
        once="{{ event.repo }}@{{ event.sha }}",
        debounce="30s",
        concurrency={"limit": 2, "whenFull": "replace", "key": "{{ event.repo }}"},
        hold={"gate": "gate.ci", "expert": ["owner"]},
        breaker={"limit": 5, "within": "10m"},
        maxDepth=1,
        agentId="fixer",
        note="Repairs main.",
    )
    assert (made["name"], made["run"], made["enabled"], made["version"]) == ("fix-red-main", "fix-ci", True, 1)
    assert made["debounce"] == {"quiet": "30s", "max": "5m"}
    assert made["concurrency"] == {"limit": 2, "whenFull": "replace", "key": "{{ event.repo }}"}
    assert made["hold"] == {"gate": "gate.ci", "expert": ["owner"]}
    assert (made["maxDepth"], made["agentId"], made["breaker"]) == (1, "fixer", {"limit": 5, "within": "10m"})
    assert "problem" not in made
    assert await good(node, "GET", "/api/triggers") == {"items": [made]}
    for name in ("fix-red-main", made["id"]):
        assert await good(node, "GET", f"/api/triggers/{name}") == made
    changes = {"once": None, "maxDepth": 2, "concurrency": 1, "hold": True, "enabled": False}
    changed = await good(node, "PATCH", "/api/triggers/fix-red-main", changes)
    assert ("once" in changed, changed["maxDepth"], changed["hold"], changed["enabled"]) == (False, 2, True, False)
    assert changed["concurrency"] == {"limit": 1, "whenFull": "queue"}
    assert changed["version"] == 2
    assert (await admin(node, "DELETE", f"/api/triggers/{made['id']}")).status_code == 204
    assert code(await admin(node, "GET", "/api/triggers/fix-red-main")) == (404, "not_found")


async def test_a_trigger_can_be_suspended_with_a_reason_and_resumed(node: Node) -> None:
    await trigger(node)
    held = await good(node, "POST", "/api/triggers/fix-red-main/suspend", {"because": "Too loud."})
    assert (held["enabled"], held["because"]) == ("suspended", "Too loud.")
    gone_on = await good(node, "POST", "/api/triggers/fix-red-main/resume")
    assert (gone_on["enabled"], "because" in gone_on) == (True, False)
    await good(node, "PATCH", "/api/triggers/fix-red-main", {"enabled": False})
    assert code(await admin(node, "POST", "/api/triggers/fix-red-main/resume")) == (409, "conflict")
    assert code(await admin(node, "POST", "/api/triggers/fix-red-main/suspend", {"why": "x"})) == (
        422,
        "invalid_request",
    )


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"name": "Fix"}, "/name"),
        ({"on": "github.push(branch ="}, "/on"),
        ({"on": "github.push(colour = 'red')"}, "/on"),
        ({"run": "no-such"}, "/run"),
        ({"run": "no such"}, "/run"),
        ({"inputs": {"event": 1}}, "/inputs/event"),
        ({"inputs": {"x": "{{ event.colour }}"}}, "/inputs/x"),
        ({"once": "{{ event.colour }}"}, "/once"),
        ({"debounce": {"quiet": "10m", "max": "1m"}}, "/debounce/max"),
        ({"debounce": {"quiet": "0s"}}, "/debounce/quiet"),
        ({"concurrency": {"key": "{{ event.colour }}"}}, "/concurrency/key"),
        ({"hold": {"when": "*(colour = 'red')"}}, "/hold/when"),
        ({"maxDepth": 21}, "/maxDepth"),
        ({"agentId": " "}, "/agentId"),
        ({"colour": "red"}, "/colour"),
    ],
)
async def test_the_error_for_an_invalid_trigger_points_to_the_field(
    node: Node, body: dict[str, Any], where: str
) -> None:
    whole = {"name": "fix-red-main", "on": "github.push", "run": "fix-ci"} | body
    assert pointer(await admin(node, "POST", "/api/triggers", whole)) == where
    assert pointer(await admin(node, "POST", "/api/triggers/check", whole)) == where
    assert await good(node, "GET", "/api/triggers") == {"items": []}


async def test_checking_a_trigger_stores_nothing(node: Node) -> None:
    await node.token("admin")
    before = await rows(node)
    body = {"name": "fix", "on": "github.push", "run": "processes/fix_ci.py", "debounce": "1m"}
    found = await good(node, "POST", "/api/triggers/check", body)
    assert found == {
        "name": "fix", "on": "github.push", "run": "fix-ci", "debounce": {"quiet": "1m", "max": "10m"}, "enabled": True,
    }  # fmt: skip
    assert await rows(node) == before


async def test_a_trigger_reports_a_problem_with_its_process(node: Node) -> None:
    await trigger(node)
    write_process(node, PROCESS.replace("fix-ci", "other"))
    shown = await good(node, "GET", "/api/triggers/fix-red-main")
    assert "fix-ci" in shown["problem"]


async def test_only_people_who_can_write_rules_can_write_triggers(node: Node) -> None:
    await trigger(node)
    body = {"name": "x", "on": "*", "run": "fix-ci"}
    for roles, status in ((("viewer",), 403), (("reviewer",), 403), (("rule-admin",), 201)):
        token = await node.person(roles[0], *roles)
        assert (await node.call("POST", "/api/triggers", token, json=body)).status_code == status
        assert (await node.call("GET", "/api/triggers", token)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/sources"),
        ("GET", "/api/sources/shop"),
        ("GET", "/api/schedules"),
        ("GET", "/api/triggers"),
        ("GET", "/api/triggers/fix-red-main"),
        ("POST", "/api/triggers/fix-red-main/resume"),
        ("GET", "/api/trigger-events"),
        ("GET", "/api/trigger-events/evt_x"),
        ("GET", "/api/trigger-events/evt_x/sketch"),
        ("GET", "/api/firings"),
        ("POST", "/api/firings/fir_x/retry"),
        ("POST", "/api/firings/fir_x/discard"),
    ],
)
async def test_agents_cannot_see_sources_and_triggers(node: Node, method: str, path: str) -> None:
    agent = await node.token("agent")
    assert code(await node.call(method, path, agent)) == (403, "forbidden")
    assert code(await node.call(method, path)) == (401, "unauthenticated")


async def test_sources_and_triggers_are_isolated_by_project(node: Node) -> None:
    made, held = await source(node), await trigger(node)
    await good(node, "POST", "/api/projects", {"id": "other"})
    stranger = await node.person("stranger", "admin", project="other")
    for path in (f"/api/sources/{made['id']}", f"/api/triggers/{held['id']}", "/api/triggers/fix-red-main"):
        assert code(await node.call("GET", path, stranger)) == (404, "not_found")
        assert code(await node.call("DELETE", path, stranger)) == (404, "not_found")
    assert (await node.call("GET", "/api/sources", stranger)).json() == {"items": []}


async def test_a_trigger_named_check_can_be_reached_by_its_id(node: Node) -> None:
    made = await trigger(node, "check")
    assert (await admin(node, "GET", "/api/triggers/check")).status_code == 405
    assert (await good(node, "GET", f"/api/triggers/{made['id']}"))["name"] == "check"
