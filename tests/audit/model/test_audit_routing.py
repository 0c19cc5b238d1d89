"""Audits of deputies and routes: what is accepted and what is reported."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assent.audit.chain_checks import Stored, StoredRouting
from assent.audit.routing_checks import CLOCK_SKEW, RouteLog, deputies, routing_findings
from assent.core.access import ROUTE
from assent.core.breakpoint import Event
from assent.core.seats import Deputy
from assent.core.timestamps import SECOND, iso
from assent.platform.admin_events import SYSTEM, AdminEvent
from tests.audit.model.test_audit_edges import raised, row

KEPT: dict[str, Any] = {"pattern": "*", "channels": ["mail"], "to": ["experts"]}
TO_BOB = KEPT | {"escalate": [{"after": "1h", "to": ["person:bob"]}]}
MINE = "route:rte_1"


def event(kind: str, at: int = 1, **metadata: Any) -> Event:
    return Event("bp_1", 2, kind, ROUTE, at, metadata, "", "")


def recorded(at: int, content: Mapping[str, Any] | None, act: str = "route-changed", *, enabled: int = 1) -> AdminEvent:
    after = None if content is None else {"content": content, "enabled": enabled}
    return AdminEvent("adm_shop", 1, "shop", act, SYSTEM, at, {"subject": MINE, "after": after}, "")


def follows(route: Mapping[str, Any], *versions: AdminEvent, began_at: int | None = 0, **more: Any) -> list[str]:
    """Return the findings about a breakpoint with this route."""
    routing = StoredRouting(more.get("route_id", "rte_1"), route, ())
    made, events = raised()
    stored = row(made, events, routing=routing, purged_at=more.get("purged_at"))
    return said(stored, RouteLog.of(versions, began_at=began_at))


def said(stored: Stored, log: RouteLog) -> list[str]:
    return [each.what for each in routing_findings(stored, log)]


CREATED_AT = raised()[0].created_at


@pytest.mark.parametrize(
    ("events", "admitted"),
    [
        ([event("delegated", 1, **{"from": "ann", "to": "bob"})], {Deputy("bob", "ann")}),
        ([event("escalated", level=1, to=["cid", "dan"])], {Deputy("cid"), Deputy("dan")}),
        (
            [event("delegated", 5, **{"from": "cid", "to": "bob"}), event("escalated", 5, level=1, to=["cid"])],
            {Deputy("bob", "cid"), Deputy("cid"), Deputy("bob")},
        ),
        (
            [event("delegated", 4, **{"from": "cid", "to": "bob"}), event("escalated", 5, level=1, to=["cid"])],
            {Deputy("bob", "cid"), Deputy("cid")},
        ),
        ([event("reminded", to=["person:ann"])], set[Deputy]()),
    ],
)
def test_delegations_and_escalations_add_exactly_the_expected_deputies(
    events: Sequence[Event], admitted: set[Deputy]
) -> None:
    assert deputies(events) == admitted


def test_a_breakpoint_with_a_recorded_route_is_accepted() -> None:
    assert follows(TO_BOB, recorded(1, TO_BOB, "route-created")) == []


def test_the_timeout_and_ticket_channel_can_differ_from_the_recorded_route() -> None:
    written = TO_BOB | {"timeout": {"after": "2h", "then": "expire"}}
    assert follows(TO_BOB | {"channels": ["mail", "jira"]}, recorded(1, written, "route-created")) == []


@pytest.mark.parametrize(
    "kept",
    [KEPT, TO_BOB | {"escalate": [{"after": "1m", "to": ["person:bob"]}]}, TO_BOB | {"to": ["person:eve"]}],
    ids=["no escalation", "earlier", "other recipients"],
)
def test_a_route_that_differs_from_every_recorded_version_is_reported(kept: Mapping[str, Any]) -> None:
    assert follows(kept, recorded(1, TO_BOB, "route-created")) == ["no admin event records its route"]


@pytest.mark.parametrize(("ended", "is_found"), [(CREATED_AT - CLOCK_SKEW, False), (CREATED_AT - CLOCK_SKEW - 1, True)])
def test_a_route_version_replaced_before_the_breakpoint_was_created_is_reported(ended: int, *, is_found: bool) -> None:
    versions = recorded(1, TO_BOB, "route-created"), recorded(ended, KEPT)
    assert bool(follows(TO_BOB, *versions)) is is_found


def test_a_route_that_does_not_match_the_breakpoint_is_reported() -> None:
    other = TO_BOB | {"pattern": "play.*"}
    assert len(follows(other, recorded(1, other, "route-created"))) == 1
    assert follows(other, recorded(1, other, "route-created"), purged_at=CREATED_AT + 9) == []


def test_only_an_enabled_version_of_a_route_is_accepted() -> None:
    off = recorded(1, TO_BOB, "route-created", enabled=0)
    assert len(follows(TO_BOB, off)) == 1
    assert follows(TO_BOB, recorded(1, TO_BOB, "route-created"), recorded(CREATED_AT + 1, TO_BOB, enabled=0)) == []


def test_a_removed_route_is_accepted_for_earlier_breakpoints() -> None:
    versions = recorded(1, TO_BOB, "route-created"), recorded(CREATED_AT + 1, None, "route-removed")
    assert follows(TO_BOB, *versions) == []


@pytest.mark.parametrize("began_at", [None, CREATED_AT + 1])
def test_breakpoints_created_before_the_admin_log_are_accepted(began_at: int | None) -> None:
    assert follows(TO_BOB, began_at=began_at) == []
    assert follows(TO_BOB, recorded(CREATED_AT + 1, KEPT, "baseline")) == []


def test_a_route_without_a_creation_event_is_reported() -> None:
    assert len(follows(TO_BOB)) == 1


def test_a_breakpoint_without_a_route_can_use_only_a_ticket_channel() -> None:
    assert follows({"pattern": "*", "channels": ["jira"], "to": ["experts"]}, route_id=None) == []
    assert len(follows(TO_BOB, recorded(1, TO_BOB), route_id=None)) == 1


def test_an_unreadable_route_is_reported() -> None:
    [what] = follows({"pattern": 7}, recorded(1, TO_BOB))
    assert what.startswith("its routing cannot be read")


def test_deputies_without_events_and_missing_deputies_are_reported() -> None:
    made, events = raised()
    stored = row(made, [*events, event("delegated", 1, **{"from": "ann", "to": "bob"})])
    routing = StoredRouting(None, None, (Deputy("eve"),))
    log = RouteLog({}, None)
    assert said(row(made, stored.events, routing=routing), log) == [
        "eve can answer this breakpoint, but no event gave them permission",
        "an event allowed bob as deputy of ann to answer this breakpoint, but they are no longer allowed to",
    ]
    assert said(stored, log) == [
        "an event allowed bob as deputy of ann to answer this breakpoint, but they are no longer allowed to"
    ]


AT = CREATED_AT + 1_000 * SECOND
"""When the delegation in these tests happened."""


def wishes(name: str, at: int, deputy: str | None, **away: Any) -> AdminEvent:
    """Return a recorded version of a person's preferences."""
    content: dict[str, Any] = {"channels": [], "quiet": None, "away": deputy and {"deputy": deputy} | away}
    metadata = {"subject": f"notification-preferences:{name}", "after": {"content": content}}
    return AdminEvent("adm_*", 1, "shop", "preferences-changed", SYSTEM, at, metadata, "")


def delegated(*versions: AdminEvent, began_at: int | None = 0, to: str = "bob") -> list[str]:
    """Return the findings about a breakpoint that was delegated from ann to another reviewer."""
    made, events = raised()
    routing = StoredRouting(None, None, (Deputy(to, "ann"),))
    stored = row(made, [*events, event("delegated", AT, **{"from": "ann", "to": to})], routing=routing)
    return said(stored, RouteLog.of(versions, began_at=0, preferences_began_at=began_at))


def test_a_delegation_must_match_recorded_preferences() -> None:
    assert delegated(wishes("ann", 1, "bob")) == []
    what = ["ann's recorded preferences do not include an absence with bob as deputy"]
    assert delegated() == delegated(wishes("ann", 1, None)) == delegated(wishes("ann", 1, "cid")) == what


def test_a_chain_of_deputies_must_match_recorded_preferences() -> None:
    chain = wishes("ann", 1, "cid"), wishes("cid", 1, "dan"), wishes("dan", 1, "bob")
    assert delegated(*chain) == []
    assert len(delegated(*chain, wishes("bob", 1, "eve"), to="eve")) == 1, "longer than the maximum chain of deputies"


@pytest.mark.parametrize(
    ("begun", "ended", "is_found"),
    [
        (AT + CLOCK_SKEW, None, False),
        (AT + CLOCK_SKEW + 1, None, True),
        (1, AT - CLOCK_SKEW, False),
        (1, AT - CLOCK_SKEW - 1, True),
    ],
)
def test_an_absence_counts_only_while_it_is_recorded(begun: int, ended: int | None, *, is_found: bool) -> None:
    back = [] if ended is None else [wishes("ann", ended, None)]
    assert bool(delegated(wishes("ann", begun, "bob"), *back)) is is_found


def test_an_absence_counts_only_between_its_start_and_end() -> None:
    assert delegated(wishes("ann", 1, "bob", **{"from": iso(AT), "until": iso(AT + SECOND)})) == []
    assert len(delegated(wishes("ann", 1, "bob", until=iso(AT)))) == 1


def test_unreadable_preferences_do_not_name_a_deputy() -> None:
    broken = replace(wishes("ann", 1, "bob"), metadata={"subject": "notification-preferences:ann", "after": {}})
    assert len(delegated(broken)) == len(delegated(wishes("ann", 1, "bob", until="never"))) == 1


@pytest.mark.parametrize("began_at", [None, AT + 1])
def test_delegations_from_before_preferences_were_recorded_are_accepted(began_at: int | None) -> None:
    assert delegated(began_at=began_at) == []
