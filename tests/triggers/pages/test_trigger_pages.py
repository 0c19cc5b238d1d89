"""Web pages for sources, triggers and events: forms, lists, traces and dry runs."""

import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from assent.core.access import Role
from assent.core.errors import InvalidRequest, PatternError
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.people.store.people import EVERYWHERE, People
from assent.runs.store import Runs
from assent.triggers import schedules
from assent.triggers.event import Arrived, TriggerEvent
from assent.triggers.file_format import checked, written
from assent.triggers.model import Because, FiringState
from assent.triggers.pages.forms import LABELS, Typed, fault, inputs
from assent.triggers.pages.schedule import instant, ticks
from assent.triggers.pages.source_forms import FORMS
from assent.triggers.pages.sources import health
from assent.triggers.sources.registry import KINDS
from assent.triggers.store.events import TriggerEvents
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources, StoredSource
from assent.triggers.store.triggers import StoredTrigger, Triggers
from assent.triggers.usecases.config_reload import Reloading
from assent.triggers.usecases.ingest import receive
from tests.support.nodes import ManualClock, Node, running_node
from tests.triggers.usecases.triggering import settle
from tests.web.corpus import SPOOFS, XSS
from tests.web.reading import Page
from tests.web.visitors import Visitor, link, person, signed_in, visitor

PROCESS = """
    from assent import process

    @process
    async def fix_ci(inputs, ctx):
        return await ctx.breakpoint("Fix it?")
"""
RED = "github.workflow-run.completed(branch = 'main' AND conclusion = 'failure')"
TRIGGER = {"id": "fix-red-main", "on": RED, "run": "fix-ci", "inputs": "repo = {{ event.repo }}"}
MINUTE = 60_000_000


@pytest.fixture(params=["sqlite", "postgresql"])
def settings(request: pytest.FixtureRequest) -> Settings:
    found: Settings = request.getfixturevalue("sqlite_settings" if request.param == "sqlite" else "postgres_settings")
    return found.model_copy(update={"undo_seconds": 0, "channel_secrets": ("env:*",)})


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a secret that nobody knows")


@pytest.fixture
async def node(settings: Settings, clock: ManualClock) -> AsyncIterator[Node]:
    """A node with one process."""
    settings.process_folder.mkdir(parents=True, exist_ok=True)
    (settings.process_folder / "fix_ci.py").write_text(textwrap.dedent(PROCESS))
    async with running_node(settings, clock=clock) as running:
        yield running


def red(n: int = 1, **more: Any) -> Arrived:
    """A failed build, as reported by GitHub."""
    view = {"repo": "acme/shop", "branch": "main", "conclusion": "failure", "title": "CI", "paths": ["a.py", "b.py"]}
    given: dict[str, Any] = {
        "type": "github.workflow-run.completed",
        "key": f"github:{n}",
        "subject": "acme/shop",
        "view": view,
        "data": {"workflow_run": {"id": n, "conclusion": "failure"}},
        "verified": "hmac-sha256",
        "headers": {"x-github-event": "workflow_run"},
    }
    return Arrived(**given | more)


async def source(node: Node, name: str = "github", kind: str = "github", **more: Any) -> StoredSource:
    settings = more.pop("settings", {"secrets": ["env:HOOK_SECRET"]})

    def use_case(tx: Transaction) -> StoredSource:
        made = StoredSource(
            id=tx.new_id("src"), project="default", name=name, kind=kind, settings=settings, created_by="person:mia",
            created_at=tx.now(), updated_at=tx.now(), **more,
        )  # fmt: skip
        tx[Sources].add(made)
        return made

    return await node.assent.database.write(use_case)


async def arrive(node: Node, where: StoredSource, *arrived: Arrived) -> list[str]:
    """Receive events, wait until they have been matched against the triggers, and return their IDs."""
    kept = await node.assent.database.write(lambda tx: receive(tx, where, arrived))
    await settle(node)
    return [each.id for each in kept]


async def ruler(node: Node) -> Visitor:
    return await signed_in(node, "rita", "rule-admin", "reviewer")


async def write(browser: Visitor, **typed: str) -> str:
    """Create a trigger with its form, and return the path of its page."""
    answer = await browser.send("/triggers/new", "/triggers", do="save", **(TRIGGER | typed))
    assert answer.status_code == 303, Page(answer.text).text
    address: str = answer.headers["location"]
    return address.partition("?")[0]


async def counted(node: Node) -> list[int]:
    """Count everything that a dry run must not change."""

    def use_case(tx: Transaction) -> list[int]:
        events = tx[TriggerEvents].page("default", {}, before=None, limit=100)
        firings = tx[Firings].page("default", {}, before=None, limit=100)
        runs = tx[Runs].page("default", {}, before=None, limit=100)
        return [len(events), len(firings), len(runs), len(tx[Triggers].in_project("default"))]

    return await node.assent.database.read(use_case)


async def test_a_trigger_can_be_created_suspended_resumed_edited_and_removed(node: Node) -> None:
    browser = await ruler(node)
    assert "No triggers yet" in (await browser.page("/triggers")).text
    one = await write(browser, note="Red main is everybody’s problem.", hold="yes", once="{{ event.sha }}")
    stored = await node.assent.database.read(lambda tx: tx[Triggers].get("fix-red-main", project="default"))
    assert stored.created_by == "person:rita"
    assert written(stored.trigger) == {
        "id": "fix-red-main", "on": stored.trigger.on, "run": "fix-ci", "inputs": {"repo": "{{ event.repo }}"},
        "once": "{{ event.sha }}", "hold": True, "note": "Red main is everybody’s problem.",
    }  # fmt: skip
    listed = (await browser.page("/triggers")).text
    assert "fix-red-main" in listed
    assert "after approval" in listed

    answer = await browser.send(one, "/suspend", because="A flood of red builds")
    assert answer.headers["location"] == f"{one}?done=suspended"
    assert "A flood of red builds" in (await browser.page("/triggers")).text
    assert (await browser.send("/triggers", "/resume", back="list")).headers["location"] == "/triggers?done=resumed"

    form = (await browser.page(one)).form(one)
    changed = form.fields | TRIGGER | {"inputs": 'days = 30\nwho = "7"', "do": "save", "concurrency-limit": "2"}
    answer = await browser.post(one, changed)
    assert answer.status_code == 303, Page(answer.text).text
    stored = await node.assent.database.read(lambda tx: tx[Triggers].get("fix-red-main", project="default"))
    assert stored.trigger.inputs == {"days": 30, "who": "7"}, "what reads as JSON is what it says"
    assert stored.trigger.hold is None, "what was taken away is gone"
    answer = await browser.post(one, changed)
    assert answer.status_code == 412
    assert "This trigger has changed since you opened the page" in Page(answer.text).text

    assert "no longer start fix-ci" in (await browser.page(f"{one}/remove")).text
    assert (await browser.send(f"{one}/remove", "/remove")).headers["location"] == "/triggers?done=removed"
    assert (await browser.get(one)).status_code == 404


@pytest.mark.parametrize(
    ("typed", "control", "said"),
    [
        ({"id": "Not A Name"}, "id", "Name: must start with a lowercase letter"),
        ({"on": "github.push(branch = "}, "on", "Events:"),
        ({"on": "github.push(brunch = 'main')"}, "on", "branch"),
        ({"run": "nothing-there"}, "run", "nothing-there"),
        ({"inputs": "repo"}, "inputs", "line 1 must have the form name = value"),
        ({"inputs": "repo = {{ event.rep }}"}, "inputs", "events do not have a field named rep"),
        ({"inputs": "a = 1\na = 2"}, "inputs", "a is already defined"),
        ({"debounce-quiet": "soon"}, "debounce-quiet", "Quiet period:"),
        ({"debounce-quiet": "5m", "debounce-max": "1m"}, "debounce-max", "must not be shorter"),
        ({"concurrency-limit": "many"}, "concurrency-limit", "must be a whole number"),
        ({"hold": "yes", "hold-when": "trust = 'nonsense'"}, "hold-when", "Only for events where:"),
        ({"breaker-limit": "0"}, "breaker-limit", "must be a whole number"),
        ({"max_depth": "99"}, "max_depth", "must be a whole number"),
    ],
)
async def test_errors_are_shown_next_to_their_fields_and_the_input_is_kept(
    node: Node, typed: dict[str, str], control: str, said: str
) -> None:
    browser = await ruler(node)
    sent = TRIGGER | {"note": "kept as it was typed"} | typed
    answer = await browser.send("/triggers/new", "/triggers", do="save", **sent)
    assert answer.status_code == 422, Page(answer.text).text
    page = Page(answer.text)
    assert said in page.text
    wrong = [each for _, each in page.elements if each.get("aria-invalid") == "true"]
    assert [each["id"] for each in wrong] == [control]
    assert any(each.get("value") == "kept as it was typed" for each in page.all("input"))
    assert await counted(node) == [0, 0, 0, 0]


BODIES: tuple[dict[str, Any], ...] = (
    {"id": "a", "on": "github.push", "run": "p"},
    {"id": "a", "on": "github.push", "run": "p", "inputs": {"n": 5, "t": "5", "x": ["a", {"b": None}], "e": ""}},
    {"id": "a", "on": "*", "run": "p", "inputs": {"text": "{{ event.repo }} and = {{ event.sha }}", "two": "a\nb"}},
    {"id": "a", "on": "*", "run": "p", "hold": True, "enabled": False},
    {
        "id": "a",
        "on": "*",
        "run": "p",
        "hold": {"gate": "g", "question": "q?", "expert": ["ann", "b c"], "when": "x"},
    },
    {"id": "a", "on": "*", "run": "p", "debounce": {"quiet": "30s", "max": "5m", "key": "{{ event.branch }}"}},
    {"id": "a", "on": "*", "run": "p", "concurrency": {"limit": 3, "when_full": "replace", "key": "{{ event.repo }}"}},
    {"id": "a", "on": "*", "run": "p", "breaker": {"limit": 5, "within": "1h"}, "max_depth": 7, "agent_id": "bot"},
    {"id": "a", "on": "*", "run": "p", "once": "{{ event.sha }}", "note": "why", "enabled": "suspended"},
)


@pytest.mark.parametrize("body", BODIES)
def test_submitting_an_unchanged_form_changes_nothing(body: dict[str, Any]) -> None:
    said = written(checked(body))
    assert written(checked(Typed.from_body(said).body())) == said


def test_inputs_that_look_like_templates_remain_text() -> None:
    assert inputs('a = {{ event.repo }}\n\nb={"c": 1}\nd = yes = no') == {
        "a": "{{ event.repo }}", "b": {"c": 1}, "d": "yes = no",
    }  # fmt: skip


def test_an_error_without_a_field_is_still_reported() -> None:
    assert fault(InvalidRequest.at("/", "a project can have at most 1,000 triggers")).control is None
    assert fault(InvalidRequest.at("/hold", "odd")).control == "hold-gate"
    assert fault(PatternError("Line 1, column 2: odd")).control == "on"
    assert set(LABELS) >= {"id", "on", "run", "inputs"}


async def test_a_dry_run_explains_the_result_and_saves_nothing(node: Node) -> None:
    browser = await ruler(node)
    where = await source(node)
    await arrive(node, where, red(1), red(2, view={"branch": "dev", "conclusion": "failure"}))
    before = await counted(node)
    answer = await browser.send("/triggers/new", "/triggers", do="try", **TRIGGER)
    assert answer.status_code == 200, Page(answer.text).text
    page = Page(answer.text)
    assert "Matches 1 of 2 events. Nothing was saved." in page.text
    assert "branch = 'main'" in page.text
    assert "did not match" in page.text
    assert '"repo": "acme/shop"' in page.text
    assert await counted(node) == before == [2, 0, 0, 0]
    broken = await browser.send("/triggers/new", "/triggers", do="try", **TRIGGER | {"on": "github.push("})
    assert broken.status_code == 422


async def test_a_trigger_can_be_created_from_an_event(node: Node) -> None:
    browser = await ruler(node)
    (event,) = await arrive(node, await source(node), red())
    page = await browser.page(f"/triggers/new?event={event}")
    assert page.form("/triggers").fields["event"] == event
    assert "github.workflow-run.completed" in page.text
    await browser.page(f"/triggers/new?try={event}")
    assert (await browser.get("/triggers/new?event=evt_nothing")).status_code == 404
    answer = await browser.send(f"/triggers/new?try={event}", "/triggers", do="try", **TRIGGER)
    assert "Matches 1 of 1 event." in Page(answer.text).text


async def test_an_event_page_shows_the_matches_and_links_to_the_run_which_links_back(node: Node) -> None:
    browser = await ruler(node)
    await write(browser)
    await write(browser, id="only-dev", on="github.workflow-run.completed(branch = 'dev' AND actor = 'ann')")
    where = await source(node)
    (event,) = await arrive(node, where, red())
    await arrive(node, where, red())
    page = await browser.page(f"/events/{event}")
    assert "1 trigger matched: 1 run started." in page.text
    assert "acme/shop" in page.text
    assert "received, counted once" in page.text, "it came twice"
    assert page.text.index("fix-red-main") < page.text.index("only-dev"), "what matched stands first"
    assert "branch = 'dev'" in page.text
    assert "not given" in page.text, "nobody said who the actor is"
    assert "x-github-event" in page.text
    assert "outsiders may have written parts of this payload" in page.text
    (run,) = await node.assent.database.read(lambda tx: tx[Runs].page("default", {}, before=None, limit=2))
    assert f"/runs/{run.id}" in page.links()
    for path in ("/runs", "/runs?trigger=fix-red-main", f"/runs/{run.id}"):
        back = await browser.page(path)
        assert f"/events/{event}" in back.links()
        assert "trigger fix-red-main" in back.text
    assert "No runs match these filters" in (await browser.page("/runs?trigger=other")).text
    listed = await browser.page("/events")
    assert f"/runs/{run.id}" in listed.links()


async def test_events_can_be_filtered_by_source_type_and_state_and_paginated(node: Node) -> None:
    browser = await ruler(node)
    assert "No events yet" in (await browser.page("/events")).text
    where, other = await source(node), await source(node, "other")
    ids = await arrive(node, where, *(red(n) for n in range(60)))
    await arrive(node, other, red(1, type="github.push", view={}, subject=None))
    page = await browser.page(f"/events?source={where.id}&type=github.workflow-run.completed&state=unmatched")
    newest = {link.removeprefix("/events/") for link in page.links() if link.startswith("/events/evt_")}
    (older,) = [link for link in page.links() if "cursor=" in link]
    oldest = {link.removeprefix("/events/") for link in (await browser.page(older)).links() if "/events/evt_" in link}
    assert (len(newest), len(oldest)) == (50, 10)
    assert newest | oldest == set(ids)
    assert "github.push" in (await browser.page("/events?source=other")).text
    assert "No events match" in (await browser.page("/events?type=nothing")).text
    for bad in ("state=odd", "cursor=odd", "type=" + "x" * 300, "source=%00"):
        assert (await browser.get(f"/events?{bad}")).status_code == 422


async def test_the_event_list_is_refreshed_only_when_it_has_changed(node: Node) -> None:
    browser = await ruler(node)
    where = await source(node)
    await arrive(node, where, red(1))
    (region,) = [each for _, each in (await browser.page("/events")).elements if each.get("id") == "events-live"]
    assert (await browser.get(region["hx-get"])).status_code == 204
    await arrive(node, where, red(1))
    answer = await browser.get(region["hx-get"])
    assert answer.status_code == 200
    assert "×2" in answer.text


async def test_an_event_can_be_replayed_for_a_single_trigger(node: Node) -> None:
    browser = await ruler(node)
    await write(browser)
    await write(browser, id="another")
    (event,) = await arrive(node, await source(node), red())
    answer = await browser.send(f"/events/{event}", "/replay", trigger="another")
    assert answer.status_code == 303
    again = answer.headers["location"].removeprefix("/events/").partition("?")[0]
    assert again != event
    await settle(node)
    firings = await node.assent.database.read(lambda tx: tx[Firings].of_event(again))
    assert [each.trigger_name for each in firings] == ["another"]
    page = await browser.page(f"/events/{again}")
    assert "Replay of an earlier event" in page.text
    assert "Event chain" in page.text
    assert f"/events/{event}" in page.links()
    wrong = await browser.send(f"/events/{event}", "/replay", trigger="gone")
    assert wrong.status_code in {404, 422}
    assert "gone" in Page(wrong.text).text


async def test_testing_an_event_shows_its_matches_without_side_effects(node: Node) -> None:
    browser = await ruler(node)
    (event,) = await arrive(node, await source(node), red())
    assert "No triggers yet" in (await browser.page(f"/events/{event}/test")).text
    await write(browser)
    before = await counted(node)
    page = await browser.page(f"/events/{event}/test")
    assert "matches" in page.text
    assert await counted(node) == before


async def test_a_chain_links_a_run_to_the_event_it_caused_and_back(node: Node) -> None:
    browser = await ruler(node)
    await write(browser)
    where = await source(node)
    (first,) = await arrive(node, where, red(1))
    (run,) = await node.assent.database.read(lambda tx: tx[Runs].page("default", {}, before=None, limit=2))
    (second,) = await arrive(node, where, red(2, type="github.push", marks=(run.id,)))
    for here, other in ((first, second), (second, first)):
        page = await browser.page(f"/events/{here}")
        assert {f"/events/{other}", f"/runs/{run.id}"} <= set(page.links())
    assert "depth 1" in (await browser.page(f"/events/{second}")).text


async def test_failed_firings_can_be_retried_or_discarded_and_held_ones_show_the_reason(node: Node) -> None:
    browser = await ruler(node)
    assert "No triggers have fired yet" in (await browser.page("/firings")).text
    assert "No failed firings" in (await browser.page("/firings?state=dead")).text
    one = await write(browser, hold="yes")
    (event,) = await arrive(node, await source(node), red())
    held = await browser.page("/firings?state=held")
    assert "waiting for approval" in held.text
    (firing,) = await node.assent.database.read(lambda tx: tx[Firings].of_event(event))
    assert f"/breakpoints/{firing.breakpoint_id}" in held.links()
    await node.assent.database.write(lambda tx: _die(tx, firing))
    dead = await browser.page("/firings?state=dead")
    assert "Process fix-ci not found" in dead.text
    assert "1 failed" in (await browser.page("/triggers")).text
    answer = await browser.post(f"/firings/{firing.id}/retry", dead.form(f"/{firing.id}/retry").fields)
    assert answer.headers["location"] == "/firings?state=dead&done=retried"
    (revived,) = await node.assent.database.read(lambda tx: tx[Firings].of_event(event))
    assert revived.state is not FiringState.DEAD
    await node.assent.database.write(lambda tx: _die(tx, revived))
    (again,) = await node.assent.database.read(lambda tx: tx[Firings].of_event(event))
    if again.state is FiringState.DEAD:
        answer = await browser.send(f"/events/{event}", f"/{firing.id}/discard")
        assert answer.headers["location"] == f"/events/{event}?done=discarded"
        (gone,) = await node.assent.database.read(lambda tx: tx[Firings].of_event(event))
        assert gone.because is Because.DISCARDED
    assert "Recent firings" in (await browser.page(one)).text
    for bad in ("state=odd", "because=odd", "cursor=odd"):
        assert (await browser.get(f"/firings?{bad}")).status_code == 422


def _die(tx: Transaction, firing: Firing) -> None:
    dead = replace(
        firing, state=FiringState.DEAD, because=None, error="Process fix-ci not found.", next_at=None, once_key=None
    )
    tx[Firings].save(dead)


async def test_a_source_can_be_created_changed_disabled_and_removed(node: Node) -> None:
    browser = await signed_in(node, "mia", "admin")
    assert "No sources yet" in (await browser.page("/sources")).text
    given = {"name": "gh", "set-secrets": "env:HOOK_SECRET", "set-expect_every": "1d"}
    answer = await browser.send("/sources/new?kind=github", "/sources", **given)
    assert answer.status_code == 303, Page(answer.text).text
    one = answer.headers["location"].partition("?")[0]
    (found,) = await node.assent.database.read(lambda tx: tx[Sources].every())
    assert (found.name, found.kind, found.settings) == (
        "gh", "github", {"secrets": ["env:HOOK_SECRET"], "expect_every": "1d"},
    )  # fmt: skip
    page = await browser.page(one)
    assert "/hooks/gh" in page.text
    form = page.form(one)
    answer = await browser.post(one, form.fields | {"set-secrets": "env:HOOK_SECRET", "set-trust": "trusted"})
    assert answer.status_code == 303, Page(answer.text).text
    (found,) = await node.assent.database.read(lambda tx: tx[Sources].every())
    assert found.settings == {"secrets": ["env:HOOK_SECRET"], "trust": "trusted"}, "what was left empty is gone"
    answer = await browser.post(one, form.fields | {"set-secrets": "env:HOOK_SECRET"})
    assert answer.status_code == 412
    assert (await browser.send(one, "/switch")).headers["location"].endswith("?done=off")
    assert "disabled" in (await browser.page("/sources")).text
    await browser.send(one, "/switch")
    assert "as if the source had never existed" in (await browser.page(f"{one}/remove")).text
    assert (await browser.send(f"{one}/remove", "/remove")).headers["location"] == "/sources?done=removed"
    assert (await browser.get(one)).status_code == 404


@pytest.mark.parametrize(
    ("typed", "control", "said"),
    [
        ({"name": "No Spaces"}, "name", "Name: must start with"),
        ({"set-secrets": "not a reference"}, "set-secrets", "not the secret itself"),
        ({"set-secrets": "env:NOT_THERE"}, "set-secrets", "NOT_THERE"),
        ({"set-expect_every": "often"}, "set-expect_every", "Alert if no events for:"),
        ({"others": '{"colour": "red"}'}, "others", "colour: is not one of"),
    ],
)
async def test_errors_in_a_source_are_shown_next_to_their_fields(
    node: Node, typed: dict[str, str], control: str, said: str
) -> None:
    browser = await signed_in(node, "mia", "admin")
    given = {"name": "gh", "set-secrets": "env:HOOK_SECRET"} | typed
    answer = await browser.send("/sources/new?kind=github", "/sources", **given)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert said in page.text
    assert [each["id"] for _, each in page.elements if each.get("aria-invalid") == "true"] == [control]
    assert await node.assent.database.read(lambda tx: tx[Sources].every()) == []


def test_every_kind_of_source_has_a_form() -> None:
    assert set(FORMS) >= set(KINDS)


def test_the_worst_health_state_of_a_source_takes_precedence() -> None:
    made = StoredSource(id="src_1", project="default", name="gh", kind="github", settings={"expect_every": "1h"})
    assert health(made, None, 0).state == "new"
    heard = replace(made, heard_at=1, silent_at=10)
    assert health(heard, None, 5).state == "heard"
    assert health(heard, None, 10).state == "silent"
    assert health(replace(made, alarm_id="bp_1"), None, 0).state == "silent"
    assert health(heard, "no secret", 10).state == "failing"
    assert health(replace(heard, enabled=False), "no secret", 10).state == "off"


async def test_rejections_and_silence_are_shown_on_the_sources_page(node: Node, clock: ManualClock) -> None:
    browser = await signed_in(node, "vera", "viewer")
    where = await source(node, settings={"secrets": ["env:HOOK_SECRET"], "expect_every": "1h"})
    await arrive(node, where, red())
    await node.assent.database.write(lambda tx: tx[Sources].note_refused(where.id, "the signature is wrong", tx.now()))
    page = (await browser.page("/sources")).text
    assert "1 time" in page
    assert "the signature is wrong" in page
    clock.advance(3 * 3600)
    assert "No events for longer than" in (await browser.page("/sources")).text


async def test_the_schedule_page_shows_upcoming_times_in_local_time_and_utc(node: Node) -> None:
    browser = await signed_in(node, "vera", "viewer")
    assert "No schedules yet" in (await browser.page("/schedule")).text
    await source(node, "nightly", "schedule", settings={"cron": "30 2 * * *", "timezone": "Europe/Paris"})
    await source(node, "broken", "schedule", settings={"cron": "nonsense"})
    page = (await browser.page("/schedule")).text
    assert page.count("02:30:00 CET") == 5
    assert page.count("01:30:00") == 5
    assert "Europe/Paris" in page
    assert "must have five fields" in page


def test_each_tick_shows_how_many_scheduled_times_were_missed_before_it() -> None:
    hourly = schedules.read({"cron": "0 * * * *"})
    hour = 3600 * 1_000_000

    def tick(at: int, late: int = 0) -> TriggerEvent:
        arrived = Arrived(type="schedule.tick", key=str(at), data=None, occurred_at=at)
        return TriggerEvent(
            id=f"evt_{at}", project="p", source_id="s", source="s", arrived=arrived, correlation_id="c",
            received_at=at + late,
        )  # fmt: skip

    told = ticks(hourly, [tick(9 * hour, 5 * MINUTE), tick(5 * hour), tick(4 * hour)], ZoneInfo("UTC"))
    assert [(each.missed, each.on_time) for each in told] == [(3, False), (0, True), (0, True)]
    assert instant(0, ZoneInfo("Europe/Paris")).local == "Thu 1970-01-01 01:00:00 CET"


async def test_a_trigger_from_assent_yaml_can_be_suspended_but_not_edited(node: Node) -> None:
    browser = await ruler(node)

    def from_file(tx: Transaction) -> None:
        body = {"id": "fixed", "on": "github.push", "run": "fix-ci", "inputs": {"who": "me"}}
        tx[Triggers].add(StoredTrigger(id=tx.new_id("trg"), project="default", trigger=checked(body), origin="file"))

    await node.assent.database.write(from_file)
    page = await browser.page("/triggers/fixed")
    assert "Edit the file to change it" in page.text
    assert "who = me" in page.text
    actions = [form.action.rpartition("/")[2] for form in page.forms if form.action.startswith("/triggers")]
    assert actions == ["suspend"]
    assert not [link for link in page.links() if link.endswith("/remove")]
    assert (await browser.send("/triggers/fixed", "/suspend")).status_code == 303
    assert (await browser.send("/triggers/fixed", "/resume")).status_code == 303
    assert (await browser.post("/triggers/fixed/remove", page.forms[0].fields)).status_code >= 400
    node.assent[Reloading].problems.append("assent.yaml line 14: triggers[0]/on: odd <b>text</b>")
    listed = await browser.page("/triggers")
    assert "the previous version is still in use" in listed.text
    assert "line 14" not in listed.text, "the file is about all projects"
    await person(node, "boss", "admin", password=None)
    await node.assent.database.write(
        lambda tx: tx[People].grant(tx[People].get_by_name("boss").id, EVERYWHERE, {Role.ADMIN})
    )
    boss = visitor(node)
    await boss.post(f"/sign-in/{await link(node, 'boss')}", {})
    assert "assent.yaml line 14: triggers[0]/on: odd <b>text</b>" in (await boss.page("/triggers")).text


async def test_viewers_can_read_every_page_but_see_no_actions(node: Node) -> None:
    rita = await ruler(node)
    one = await write(rita, hold="yes")
    where = await source(node)
    (event,) = await arrive(node, where, red())
    browser = await signed_in(node, "vera", "viewer")
    for path in ("/triggers", one, "/events", f"/events/{event}", f"/events/{event}/test", "/sources",
                 f"/sources/{where.id}", "/schedule", "/firings"):  # fmt: skip
        page = await browser.page(path)
        assert [form.action for form in page.forms if form.method == "post"] in ([], ["/sign-out"] * 2), path
        assert not [link for link in page.links() if link.endswith("/new") or "/new?" in link], path
    assert (await browser.get("/triggers/new")).status_code == 403
    assert (await browser.get("/sources/new?kind=github")).status_code == 403
    key = {"csrf": (await browser.page("/account")).forms[0].fields["csrf"]}
    for path in ("/triggers", one, f"{one}/suspend", f"{one}/remove", f"/events/{event}/replay", "/sources",
                 f"/sources/{where.id}/switch", "/firings/fir_1/retry"):  # fmt: skip
        assert (await browser.post(path, key)).status_code == 403, path


async def test_rule_admins_cannot_create_or_change_sources(node: Node) -> None:
    browser = await ruler(node)
    where = await source(node)
    assert "New source" not in (await browser.page("/sources")).text
    assert not [form for form in (await browser.page(f"/sources/{where.id}")).forms if "switch" in form.action]
    assert (await browser.get("/sources/new?kind=github")).status_code == 403


async def pages_about(node: Node, browser: Visitor, where: StoredSource, n: int, said: str) -> list[Page]:
    hostile = red(
        n,
        type=f"hostile.{n}",
        subject=said,
        view={"title": said, "actor": said, "branch": said, "labels": [said]},
        data={said: [said, {said: said}]},
        headers={"x-note": said},
    )
    (event,) = await arrive(node, where, hostile)
    paths = (f"/events/{event}", f"/events/{event}/test", f"/events?type=hostile.{n}", f"/triggers/new?event={event}")
    return [await browser.page(path) for path in paths]


async def test_hostile_event_content_is_displayed_as_plain_text(node: Node) -> None:
    """The pages have the same elements for any text that an attacker sends to a webhook."""
    browser = await ruler(node)
    attacks = XSS[::20]
    where = await source(node)
    harmless = await pages_about(node, browser, where, 0, "harmless")
    for n, text in enumerate(attacks, start=1):
        attacked = await pages_about(node, browser, where, n, text)
        for before, after in zip(harmless, attacked, strict=True):
            assert after.structure == before.structure, text


@pytest.mark.parametrize("name", ["bidi override", "zero-width space"])
async def test_invisible_characters_are_displayed_as_escapes(node: Node, name: str) -> None:
    text, seen = SPOOFS[name]
    browser = await ruler(node)
    for page in (await pages_about(node, browser, await source(node), 1, text))[:3]:
        assert seen in page.text
        assert text not in page.text


@pytest.mark.parametrize("path", ["/events/nothing", "/triggers/%2e%2e", "/sources/nothing", "/triggers/none"])
async def test_unknown_events_triggers_and_sources_return_404(node: Node, path: str) -> None:
    browser = await ruler(node)
    assert (await browser.get(path)).status_code == 404


async def test_only_admins_can_see_the_settings_of_a_source(node: Node) -> None:
    settings = {"secrets": ["file:/run/secrets/shop-hook"], "expect_every": "7h"}
    made = StoredSource(id="src_shop", project="default", name="shop", kind="github", settings=settings)
    await node.assent.database.write(lambda tx: tx[Sources].add(replace(made, silent_at=1)))
    seen = await node.call("GET", f"/api/sources/{made.id}", await node.token("viewer"))
    assert "shop-hook" not in seen.text
    vera, boss = await signed_in(node, "vera", "viewer"), await signed_in(node, "boss", "admin")
    for path in ("/sources", f"/sources/{made.id}"):
        shown = (await vera.page(path)).text
        assert "failing" in shown
        assert "shop-hook" not in shown, path
        assert "7h" not in shown, path
        assert "shop-hook" in (await boss.page(path)).text, path
