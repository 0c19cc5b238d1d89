"""All pages of a list together equal the result of filtering and sorting in Python."""

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from assent.breakpoints.search_words import sought_words
from assent.breakpoints.store.reading import (
    SEARCH_SAMPLE_ROWS,
    Plan,
    Query,
    Summary,
    count_statement,
    decode_cursor,
    encode_cursor,
    page_statement,
)
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import BreakpointService
from assent.core.breakpoint import NEVER
from assent.core.errors import InvalidRequest
from tests.db.making import AGENT, create, person, respond, rows
from tests.support.nodes import ManualClock, Node

WORDS = ("alpha", "beta", "本番環境", "delta")
SOUGHT = (*WORDS, "ALPHA", "al", "alp", "d", "番環", "環", "本環", "agent-1", "depl", "red", "nosuch")
TAGS = ("red", "green", "blue")
STATUSES = ("waiting", "released", "expired", "cancelled")
OTHER_AGENT = replace(AGENT, id="tok_other", name="other")
SIZE = 90

queries = st.fixed_dictionaries(
    {
        "statuses": st.lists(st.sampled_from(STATUSES), min_size=1, max_size=4, unique=True).map(tuple),
        "sort": st.sampled_from(["created", "-created", "deadline", "updated"]),
        "limit": st.sampled_from([1, 2, 7, 50, 200]),
    },
    optional={
        "tags": st.lists(st.sampled_from([*TAGS, "nosuch"]), max_size=4).map(tuple),
        "experts_any": st.lists(st.sampled_from(["ann", "owner", "ghost", "nosuch"]), max_size=2, unique=True).map(
            tuple
        ),
        "agent_id": st.sampled_from(["agent-1", "agent-2", "nosuch"]),
        "run_id": st.sampled_from(["run1", "run2"]),
        "gate": st.sampled_from(["deploy", "review"]),
        "created_by_id": st.sampled_from([AGENT.id, OTHER_AGENT.id]),
        "q": st.lists(st.sampled_from(SOUGHT), min_size=1, max_size=2).map(" ".join),
        "after": st.integers(0, SIZE),
        "before": st.integers(0, SIZE),
    },
)


async def populate(node: Node, clock: ManualClock) -> None:
    """Create the same ninety breakpoints of every kind each time, many of them with equal timestamps."""
    ann = await person(node, "ann", "reviewer")
    for n in range(SIZE):
        payload: dict[str, Any] = {"question": f"{WORDS[n % 4]} {WORDS[n * 3 % 4]}", "breakpointId": "deploy"}
        if n % 3 == 0:
            payload["breakpointId"] = "review"
        if n % 4:
            payload["expert"] = [["ann"], ["ghost"], ["owner", "ann"]][n % 3]
        options: dict[str, Any] = {
            "agentId": f"agent-{n % 2 + 1}",
            "tags": [t for i, t in enumerate(TAGS) if n >> i & 1],
        }
        if n % 5 == 0:
            options["runId"] = f"run{n % 2 + 1}"
        if n % 2:
            options["ttlSeconds"] = 3600 + 60 * (n % 7)
        breakpoint_id = await create(node, payload, by=AGENT if n % 3 else OTHER_AGENT, **options)
        if n % 4 == 0:
            clock.advance(1)
        await _settle(node, n, breakpoint_id, ann)


async def _settle(node: Node, n: int, breakpoint_id: str, ann: Any) -> None:
    admin = replace(ann, id="per_admin", roles=frozenset({"admin"}))
    if n % 7 == 1 and (n % 4 == 0 or n % 3 in {0, 2}):
        await respond(node, breakpoint_id, ann, approved=bool(n % 2))
    elif n % 7 == 2:
        await node.assent.database.write(
            partial(node.assent[BreakpointService].cancel, breakpoint_id=breakpoint_id, by=admin)
        )
    elif n % 7 == 3:
        await node.assent.database.write(
            partial(node.assent[BreakpointService].expire, breakpoint_id=breakpoint_id, by=admin)
        )


async def everything(node: Node) -> list[dict[str, Any]]:
    columns = (
        "id", "status", "agent_id", "run_id", "gate", "tags", "seats", "created_at", "updated_at", "due_at",
        "created_by_id", "question",
    )  # fmt: skip
    found = await rows(node, f"SELECT {', '.join(columns)} FROM assent_breakpoints")
    return [dict(zip(columns, row, strict=True)) for row in found]


def wanted(found: list[dict[str, Any]], query: Query) -> list[str]:
    """Compute the expected list in Python."""

    def fits(row: dict[str, Any]) -> bool:
        names = {name for seat in json.loads(row["seats"]) for name in [seat[0], *seat[1]]}
        tests = [
            row["status"] in query.statuses,
            set(query.tags) <= set(json.loads(row["tags"])),
            not query.experts_any or bool(names & set(query.experts_any)),
            *(getattr(query, name) in {None, row[name]} for name in ("agent_id", "run_id", "gate", "created_by_id")),
            query.created_after is None or row["created_at"] > query.created_after,
            query.created_before is None or row["created_at"] < query.created_before,
            query.q is None or all(_is_found(word, row) for word in query.q.lower().split()),
        ]
        return all(tests)

    column = {"created": "created_at", "-created": "created_at", "deadline": "due_at", "updated": "updated_at"}
    backwards = query.sort in {"-created", "updated"}
    chosen = [row for row in found if fits(row)]
    return [
        row["id"] for row in sorted(chosen, key=lambda row: (row[column[query.sort]], row["id"]), reverse=backwards)
    ]


def _is_found(word: str, row: dict[str, Any]) -> bool:
    texts = [row["question"], row["agent_id"], row["gate"], row["run_id"] or "", *json.loads(row["tags"])]
    if not word.isascii():
        return any(word in text for text in texts)
    written = [part for text in texts for part in re.split(r"[^0-9a-z]+", text.lower())]
    return all(
        any(each == part or (len(part) > 1 and each.startswith(part)) for each in written)
        for part in re.split(r"\W", word)
    )


async def walked(node: Node, query: Query) -> list[str]:
    """Follow the cursors like a client, and return the ids on all pages."""
    ids: list[str] = []
    while True:
        page: list[Summary] = await node.assent[InboxService].page(query)
        ids += [row.id for row in page[: query.limit]]
        if len(page) <= query.limit:
            return ids
        cursor = encode_cursor(query, page[query.limit - 1])
        query = replace(query, cursor=decode_cursor(cursor, sort=query.sort))


@pytest.mark.timeout(300)
@examples(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=queries)
async def test_all_pages_together_equal_the_filtered_and_sorted_list(
    node: Node, clock: ManualClock, asked: dict[str, Any]
) -> None:
    found = await everything(node)
    if not found:
        await populate(node, clock)
        found = await everything(node)
    start = min(row["created_at"] for row in found)
    after, before = asked.pop("after", None), asked.pop("before", None)
    query = Query(
        project="default",
        created_after=None if after is None else start + after * 250_000,
        created_before=None if before is None else start + before * 250_000,
        **asked,
    )
    expected = wanted(found, query)
    assert await walked(node, query) == expected
    counts = await node.assent[InboxService].reader.counts(query)
    assert sum(counts.values()) == len(expected)


@pytest.mark.timeout(300)
@examples(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=queries, rare=st.sets(st.sampled_from(STATUSES)), sampled=st.none() | st.integers(-1, SIZE))
async def test_the_word_index_returns_the_same_results_as_a_scan(
    node: Node, clock: ManualClock, asked: dict[str, Any], rare: set[str], sampled: int | None
) -> None:
    if not await everything(node):
        await populate(node, clock)
    start = min(row["created_at"] for row in await everything(node))
    query = Query(
        project="default", **{"q": "alpha"} | {k: v for k, v in asked.items() if k not in {"after", "before"}}
    )
    database = node.assent.database
    sought = sought_words(query.q or "")
    walk = Plan(labels=tuple(f"t:{tag}" for tag in dict.fromkeys(query.tags)), sought=sought)
    sampled_to = None if sampled is None else start + sampled * 250_000
    index = replace(walk, rare=frozenset(rare), asked=sought[-1:] if len(rare) % 2 else sought, sampled_to=sampled_to)
    plans = [walk, index]
    walking, indexed = [await database.fetch_page(*page_statement(query, plan, database.dialect)) for plan in plans]
    assert [tuple(row) for row in walking] == [tuple(row) for row in indexed]
    for status in query.statuses:
        counted = [
            [tuple(row) for row in await database.fetch_page(*count_statement(query, plan, status, database.dialect))]
            for plan in plans
        ]
        assert counted[0] == counted[1]


@pytest.mark.timeout(120)
async def test_rare_and_frequent_words_are_found_among_many_breakpoints(node: Node, clock: ManualClock) -> None:
    many = SEARCH_SAMPLE_ROWS + 50
    old = await create(node, {"question": "An old unicorn, 緊急停止"})
    for n in range(many):
        clock.advance(1)
        await create(node, {"question": f"build {n}, 環境"}, tags=["often"])
    for q in ("unicorn", "uni old", "急停", old, old[:20]):
        assert await walked(node, Query(project="default", q=q)) == [old], q
    query = Query(project="default", q="build", limit=200)
    assert len(await walked(node, query)) == many
    assert len(await walked(node, replace(query, tags=("often",), sort="deadline", q="環境 buil"))) == many
    assert sum((await node.assent[InboxService].reader.counts(query)).values()) == many
    assert await walked(node, replace(query, q="unicorn", tags=("often",))) == []
    assert await walked(node, replace(query, q="境環")) == []


@pytest.mark.timeout(120)
async def test_a_full_page_of_frequent_hits_does_not_hide_rare_ones(node: Node, clock: ManualClock) -> None:
    """Pending breakpoints are scanned separately; here, there are many of them with few hits."""
    reviewer = await person(node, "ann", "reviewer")
    hits: list[str] = []
    for n in range(SEARCH_SAMPLE_ROWS + 10):
        clock.advance(1)
        pending = await create(node, {"question": "unicorn" if n in {0, SEARCH_SAMPLE_ROWS} else "horse"})
        if n in {0, SEARCH_SAMPLE_ROWS}:
            hits.append(pending)
        if n % 100 == 0:
            clock.advance(1)
            hits.append(await create(node, {"question": "unicorn"}))
            await respond(node, hits[-1], reviewer, approved=True)
    for limit in (1, 2, 5, 50):
        query = Query(project="default", q="unicorn", limit=limit)
        assert await walked(node, query) == hits[::-1]
        assert await walked(node, replace(query, sort="created")) == hits
        assert await walked(node, replace(query, statuses=("waiting",))) == [hits[-2], hits[0]]


async def test_a_name_is_found_by_searching_for_its_words_in_order(node: Node, clock: ManualClock) -> None:
    one = await create(node, {"question": "build 77", "breakpointId": "deploy.77"}, agentId="agent-49")
    clock.advance(1)
    other = await create(node, {"question": "deploy build 77001 by agent 49", "breakpointId": "deploy.7"})
    for q, found in (
        ("deploy.77", [one]),
        ("deploy-77", [one]),
        ("agent-49", [one]),
        ("deploy.7", [other]),
        ("deploy", [other, one]),
        ("77", [other, one]),
        ("deploy 77", [other, one]),
        ("agent-49 deploy.7", []),
    ):
        assert await walked(node, Query(project="default", q=q)) == found, q


async def test_the_sample_contains_every_kind_of_breakpoint(node: Node, clock: ManualClock) -> None:
    await populate(node, clock)
    found = await everything(node)
    assert {row["status"] for row in found} == set(STATUSES)
    assert len({row["created_at"] for row in found}) < len(found) / 2, "many breakpoints must share a moment"
    assert {row["due_at"] == NEVER for row in found} == {True, False}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("sort", ["-created", "updated"])
async def test_the_maximum_number_of_tags_can_be_combined(node: Node, sort: str) -> None:
    """With a join for each tag, PostgreSQL would take minutes to plan the query."""
    tags = tuple(f"tag {n}" for n in range(50))
    one = await create(node, tags=list(tags))
    await create(node, tags=list(tags[1:]))
    for asked, expected in ((tags, [one]), (tags * 2, [one]), ((*tags, "another"), [])):
        query = Query(project="default", tags=asked, statuses=STATUSES, sort=sort)
        assert await walked(node, query) == expected
        assert sum((await node.assent[InboxService].reader.counts(query)).values()) == len(expected)


async def test_breakpoints_in_another_project_are_never_listed(node: Node, clock: ManualClock) -> None:
    await populate(node, clock)
    for query in (Query(project="other"), Query(project="other", tags=("red",)), Query(project="other", q="alpha")):
        assert await walked(node, query) == []
        assert sum((await node.assent[InboxService].reader.counts(query)).values()) == 0


HOSTILE_SEARCHES = [
    '"',
    "'",
    "alpha OR beta",
    "alpha*",
    "NEAR(a b)",
    "-",
    "alpha AND",
    "(",
    "a:b",
    "*",
    "\\",
    "%",
    "&|!",
    "🚀",
]


@pytest.mark.parametrize("q", HOSTILE_SEARCHES)
async def test_a_search_is_never_parsed_as_a_query_language(node: Node, q: str) -> None:
    await create(node, {"question": "alpha"})
    found = await walked(node, Query(project="default", q=q))
    assert len(found) == (1 if q == "alpha*" else 0)


SEARCHES = [
    ("confirm.star-repo", "star"),
    ("confirm.star-repo", "confirm"),
    ("confirm.star-repo", "repo"),
    ("confirm.star-repo", "star-repo"),
    ("confirm.star-repo", "confirm.star-repo"),
    ("deploy_production", "production"),
    ("release-v1.2.3", "v1.2.3"),
    ("src/assent/app.py", "app"),
    ("ann@example.com", "ann"),
    ("https://example.com/a/b", "example"),
    ("10.0.0.1", "10.0.0.1"),
    ("Überweisung", "überweisung"),
    ("DEPLOY", "deploy"),
    ("deploy.production", "prod"),
    ("本番環境への配備", "環境"),
]


@pytest.mark.parametrize(("text", "q"), SEARCHES)
async def test_search_finds_words_as_displayed(node: Node, text: str, q: str) -> None:
    breakpoint_id = await create(node, {"question": f"Is {text} fine?"})
    await create(node, {"question": "something else"})
    assert await walked(node, Query(project="default", q=q)) == [breakpoint_id]


async def test_an_overdue_breakpoint_is_never_listed_as_waiting(node: Node, clock: ManualClock) -> None:
    for _ in range(12):
        await create(node, ttlSeconds=5)
    clock.advance(5)
    assert await walked(node, Query(project="default", statuses=("waiting",), limit=5)) == []
    assert len(await walked(node, Query(project="default", statuses=("expired",), limit=5))) == 12


@pytest.mark.parametrize(
    "cursor", ["", "x", "!!!!", "bnVsbA", "W10", "WyItY3JlYXRlZCIsMSwiYSIsMV0", "WyItY3JlYXRlZCIsIngiLCJhIl0", "é"]
)
def test_an_invalid_or_mismatched_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        decode_cursor(cursor, sort="-created")


@given(st.text(max_size=40))
def test_any_cursor_text_is_either_parsed_or_rejected(text: str) -> None:
    try:
        decode_cursor(text, sort="created")
    except InvalidRequest:
        return
