"""Lists: filters, order, pages, counts, search."""

import asyncio
import itertools
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.nodes import ManualClock, Node

_numbers = itertools.count(1)


async def ids(node: Node, query: str, kind: str = "reviewer") -> list[str]:
    answer = await node.call("GET", f"/api/breakpoints?{query}", await node.token(kind))
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["items"]]


async def raise_three(node: Node, clock: ManualClock, *changes: dict[str, Any]) -> tuple[str, list[str]]:
    """Create breakpoints one second apart with a common tag; return the tag and the ids in order."""
    tag = f"list-{next(_numbers)}"
    made: list[str] = []
    for change in changes or ({}, {}, {}):
        clock.advance(1)
        made.append((await node.create(**({"tags": [tag]} | change | {"tags": [tag, *change.get("tags", [])]})))["id"])
    return tag, made


async def test_the_newest_breakpoints_come_first(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(shared, shared_clock)
    assert await ids(shared, f"tag={tag}") == made[::-1]
    assert await ids(shared, f"tag={tag}&sort=-created") == made[::-1]
    assert await ids(shared, f"tag={tag}&sort=created") == made


async def test_sorting_by_deadline_puts_the_earliest_first_and_missing_deadlines_last(
    shared: Node, shared_clock: ManualClock
) -> None:
    tag, made = await raise_three(shared, shared_clock, {}, {"ttlSeconds": 9000}, {"ttlSeconds": 3000})
    assert await ids(shared, f"tag={tag}&sort=deadline") == [made[2], made[1], made[0]]


async def test_sorting_by_update_time_puts_the_latest_change_first(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(shared, shared_clock)
    shared_clock.advance(1)
    await shared.feedback(made[0], await shared.token("reviewer"), comment="Hm.")
    assert await ids(shared, f"tag={tag}&sort=updated") == [made[0], made[2], made[1]]


async def test_repeated_tags_must_all_match(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(shared, shared_clock, {"tags": ["a"]}, {"tags": ["a", "b"]}, {"tags": ["b"]})
    assert await ids(shared, f"tag={tag}&tag=a&tag=b") == [made[1]]
    assert await ids(shared, f"tag={tag}&tag=a&sort=created") == [made[0], made[1]]
    assert await ids(shared, f"tag={tag}&tag=a&tag=b&sort=deadline") == [made[1]]
    assert await ids(shared, f"tag={tag}&tag=c") == []
    assert await ids(shared, f"tag={tag}&tag={tag}") == made[::-1]


@pytest.mark.parametrize(
    ("field", "value"), [("agentId", "agent ä/1"), ("runId", "run & 7"), ("gate", "ship.it"), ("expert", "frida")]
)
async def test_filters_match_only_exact_values(shared: Node, shared_clock: ManualClock, field: str, value: str) -> None:
    inside = {"gate": "breakpointId", "expert": "expert"}
    change = {"payload": {inside[field]: value}} if field in inside else {field: value}
    tag, made = await raise_three(shared, shared_clock, {}, change, {})
    assert await ids(shared, f"tag={tag}&{field}={quote(value)}") == [made[1]]
    assert await ids(shared, f"tag={tag}&{field}={quote(value[:-1])}") == []
    assert await ids(shared, f"tag={tag}&{field}={quote(value)}&sort=updated") == [made[1]]


async def test_multiple_status_filters_match_any_of_them(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(shared, shared_clock, {}, {}, {}, {})
    reviewer, admin, agent = await shared.token("reviewer"), await shared.token("admin"), await shared.token("agent")
    await shared.feedback(made[0], reviewer, release=True)
    await shared.call("POST", f"/api/breakpoints/{made[1]}/cancel", agent)
    await shared.call("POST", f"/api/breakpoints/{made[2]}/expire", admin)
    by_status = dict(zip(("released", "cancelled", "expired", "waiting"), made, strict=True))
    for status, expected in by_status.items():
        assert await ids(shared, f"tag={tag}&status={status}") == [expected]
    assert await ids(shared, f"tag={tag}&status=waiting&status=released&sort=created") == [made[0], made[3]]
    counted = await shared.call("GET", f"/api/breakpoints?tag={tag}&counts=true&limit=1", reviewer)
    assert counted.json()["counts"] == dict.fromkeys(by_status, 1)
    assert len(counted.json()["items"]) == 1


async def test_counts_are_included_only_on_request(shared: Node) -> None:
    for query in ("", "counts=false"):
        answer = await shared.call("GET", f"/api/breakpoints?{query}", await shared.token("reviewer"))
        assert "counts" not in answer.json()


async def test_the_created_after_and_created_before_filters_are_exclusive(
    shared: Node, shared_clock: ManualClock
) -> None:
    tag, made = await raise_three(shared, shared_clock)
    middle = (await shared.call("GET", f"/api/breakpoints/{made[1]}", await shared.token("reviewer"))).json()
    at = quote(middle["createdAt"])
    assert await ids(shared, f"tag={tag}&createdAfter={at}") == [made[2]]
    assert await ids(shared, f"tag={tag}&createdBefore={at}") == [made[0]]
    east = quote(middle["createdAt"].replace("Z", "+00:00"))
    assert await ids(shared, f"tag={tag}&createdAfter={east}&sort=deadline") == [made[2]]


async def test_the_assigned_to_me_filter_includes_my_groups_and_the_owner_role(
    shared: Node, shared_clock: ManualClock
) -> None:
    gustav = await shared.person("gustav", "reviewer")
    admin = await shared.token("admin")
    await shared.call("PUT", "/api/groups/gardeners", admin, json={"members": ["gustav"]})
    tag, made = await raise_three(
        shared,
        shared_clock,
        {"payload": {"expert": "gustav"}},
        {"payload": {"expert": ["owner", "gardeners"]}},
        {"payload": {"expert": "owner"}},
        {},
    )
    query = f"/api/breakpoints?tag={tag}&assignedTo=me&sort=created"
    mine = (await shared.call("GET", query, gustav)).json()["items"]
    assert [each["id"] for each in mine] == [made[0], made[1]]
    owners = (await shared.call("GET", query, admin)).json()["items"]
    assert [each["id"] for each in owners] == [made[1], made[2]]
    narrowed = (await shared.call("GET", f"{query}&expert=gardeners", gustav)).json()["items"]
    assert [each["id"] for each in narrowed] == [made[1]]
    assert (await shared.call("GET", f"{query}&expert=owner", gustav)).json()["items"] == []


async def test_an_agent_cannot_filter_by_assignment(shared: Node) -> None:
    answer = await shared.call("GET", "/api/breakpoints?assignedTo=me", await shared.token("agent"))
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_search_finds_all_words_in_any_field(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(
        shared,
        shared_clock,
        {"title": "Rotate the zebrafish key"},
        {"payload": {"question": "Delete every Zebrafish row?"}},
        {"tags": ["zebrafish"], "runId": "nightly-44"},
    )
    assert await ids(shared, f"q=zebrafish&tag={tag}&sort=created") == made
    assert await ids(shared, f"q=zebrafish&tag={tag}&sort=deadline") == sorted(made)
    assert await ids(shared, "q=zebrafish%20rotate") == [made[0]]
    assert await ids(shared, "q=ZEBRAFISH%20delete") == [made[1]]
    assert await ids(shared, f"q=nightly-44&tag={tag}") == [made[2]]
    assert await ids(shared, "q=zebrafish%20unicorn") == []
    counted = await shared.call("GET", "/api/breakpoints?q=zebrafish&counts=true", await shared.token("reviewer"))
    assert counted.json()["counts"]["waiting"] == 3


async def test_search_finds_prefixes_cjk_text_ids_agents_and_gates(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(
        shared,
        shared_clock,
        {"title": "Rotate keys", "payload": {"question": "Now?", "breakpointId": "vault.rotation"}, "tags": ["Größe"]},
        {"agentId": "ledger-bot", "runId": "nightly-2026", "payload": {"question": "本番環境に配備しますか？"}},
        {"title": "ไปกรุงเทพมหานคร 🚀"},
    )
    for q, expected in (
        ("rot", made[0]), ("vault.rot", made[0]), ("vault.rotation", made[0]), ("rotation", made[0]),
        ("grosse", made[0]), ("ledger", made[1]), ("ledger-bot", made[1]), ("night", made[1]), ("本番", made[1]),
        ("環境", made[1]), ("配備", made[1]), ("กรุงเทพ", made[2]), ("🚀", made[2]),
        *((each, each) for each in made), *((each[:-3], each) for each in made), (made[0].upper(), made[0]),
    ):  # fmt: skip
        for more in ("", "&sort=deadline", "&status=waiting"):
            assert await ids(shared, f"q={quote(q)}&tag={tag}{more}") == [expected], q
    for q in ("otation", "本境", "rota ledger", "v", f"{made[0]}0"):
        assert await ids(shared, f"q={quote(q)}&tag={tag}") == [], q
    assert await ids(shared, f"q=bp_&tag={tag}") == made[::-1]


@pytest.mark.parametrize("sort", ["created", "-created", "deadline", "updated"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 200])
async def test_pages_contain_the_whole_list_without_gaps_or_duplicates(node: Node, sort: str, limit: int) -> None:
    """All breakpoints have the same creation time, so the id has to break the ties."""
    for n in range(7):
        await node.create(ttlSeconds=(n % 3 + 1) * 100, tags=["even"] if n % 2 == 0 else [])
    for query in (f"sort={sort}", f"sort={sort}&tag=even", f"sort={sort}&status=waiting", f"sort={sort}&q=Deploy"):
        whole = await ids(node, query)
        walked: list[str] = []
        cursor = ""
        while True:
            answer = await node.call(
                "GET", f"/api/breakpoints?{query}&limit={limit}{cursor}", await node.token("viewer")
            )
            page = answer.json()
            walked += [each["id"] for each in page["items"]]
            assert len(page["items"]) <= limit
            if "nextCursor" not in page:
                break
            cursor = f"&cursor={quote(page['nextCursor'])}"
        assert walked == whole
        assert len(set(whole)) == len(whole) == (4 if "even" in query else 7)


async def test_new_breakpoints_do_not_affect_pagination_in_progress(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(shared, shared_clock)
    viewer = await shared.token("viewer")
    first = (await shared.call("GET", f"/api/breakpoints?tag={tag}&limit=2", viewer)).json()
    shared_clock.advance(1)
    await shared.create(tags=[tag])
    path = f"/api/breakpoints?tag={tag}&limit=2&cursor={first['nextCursor']}"
    second = (await shared.call("GET", path, viewer)).json()
    assert [each["id"] for each in first["items"] + second["items"]] == made[::-1]


async def test_a_cursor_is_valid_only_for_its_order(shared: Node, shared_clock: ManualClock) -> None:
    tag, _ = await raise_three(shared, shared_clock)
    viewer = await shared.token("viewer")
    page = (await shared.call("GET", f"/api/breakpoints?tag={tag}&limit=1", viewer)).json()
    path = f"/api/breakpoints?tag={tag}&sort=deadline&cursor={page['nextCursor']}"
    assert (await shared.call("GET", path, viewer)).status_code == 422


async def test_a_page_has_fifty_items_by_default(node: Node) -> None:
    for _ in range(51):
        await node.create()
    assert len(await ids(node, "")) == 50
    assert len(await ids(node, "limit=200")) == 51


async def test_no_list_shows_an_overdue_breakpoint_as_waiting(node: Node, clock: ManualClock) -> None:
    patient = (await node.create())["id"]
    clock.advance(1)
    for _ in range(5):
        await node.create(ttlSeconds=10)
    clock.advance(11)
    assert await ids(node, "status=waiting&limit=1") == [patient]
    answer = await node.call("GET", "/api/breakpoints?counts=true", await node.token("viewer"))
    assert answer.json()["counts"] == {"waiting": 1, "released": 0, "expired": 5, "cancelled": 0}
    assert sorted(each["status"] for each in answer.json()["items"]) == ["expired"] * 5 + ["waiting"]


async def test_a_summary_contains_what_the_inbox_shows(shared: Node, shared_clock: ManualClock) -> None:
    tag, made = await raise_three(
        shared, shared_clock, {"priority": "high", "payload": {"question": "?", "risk": "low", "attempt": 3}}
    )
    await shared.feedback(made[0], await shared.token("reviewer"), approved=False, comment="No.")
    answer = await shared.call("GET", f"/api/breakpoints?tag={tag}", await shared.token("viewer"))
    (item,) = answer.json()["items"]
    assert (item["id"], item["breakpointId"]) == (made[0], made[0])
    assert (item["status"], item["decision"], item["decidedBy"]) == ("released", "rejected", "person:owner")
    assert (item["priority"], item["risk"], item["attempt"], item["question"]) == ("high", "low", 3, "?")
    assert item["releasedAt"] == item["updatedAt"]
    assert "payload" not in item


async def test_a_created_breakpoint_appears_in_every_later_list_under_concurrent_reads(
    shared: Node, shared_clock: ManualClock
) -> None:
    shared_clock.advance(1)
    tag = f"list-{next(_numbers)}"
    agents, busy = 8, True

    async def look() -> None:
        while busy:
            await ids(shared, f"tag={tag}&limit=200")

    async def ask() -> None:
        for _ in range(10):
            made = (await shared.create(tags=[tag]))["id"]
            assert made in await ids(shared, f"tag={tag}&limit=200")

    looking = [asyncio.create_task(look()) for _ in range(agents)]
    try:
        await asyncio.gather(*(ask() for _ in range(agents)))
    finally:
        busy = False
        await asyncio.gather(*looking)
