"""Imported breakpoints pass an audit, and importing them again produces the same IDs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.audit.chain_checks import Answer, Stored, findings
from assent.breakpoints.search_words import words_of
from assent.core.access import Kind
from assent.core.breakpoint import NEVER, Comment, Response, Status
from assent.core.draft import draft
from assent.core.importing import Past, Retold, Said, id_of, name_of, retell
from assent.core.strategies import Decision

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND
BODY = {
    "agentId": "bot",
    "runId": "run-7",
    "title": "Deploy",
    "tags": ["prod"],
    "priority": "high",
    "callbackUrl": "https://bot.example/done",
    "payload": {"question": "Go?", "risk": "high", "expert": ["ann", "bob"], "strategy": "all"},
}
DRAFT = draft(BODY)
EXPIRED = Past(
    origin="orig-1", draft=DRAFT, status=Status.EXPIRED, created_at=NOW, ended_at=NOW + 90 * SECOND,
    ended_by="worker", ttl_seconds=60,
)  # fmt: skip
CANCELLED = replace(EXPIRED, status=Status.CANCELLED, ended_by="bot", ended_at=NOW + 30 * SECOND)
RELEASED = replace(
    EXPIRED, status=Status.RELEASED, ended_at=NOW + 30 * SECOND, release=Said("Ann", "Yes.", NOW + 30 * SECOND)
)


def stored(told: Retold) -> Stored:
    """Return the rows that are stored for an imported breakpoint."""
    said = [(f"fb_{n}", name_of(each.author), each.comment or "", each.at) for n, each in enumerate(told.comments)]
    response = told.response
    return Stored(
        breakpoint=told.ended,
        question=told.ended.payload["question"],
        attempt=None,
        search=words_of(told.ended),
        purged_at=None,
        events=told.events,
        answers=[Answer(response, "per_1", response.person, response.at)] if response else [],
        comments=[Comment(name, f"person:{author}", comment, at) for name, author, comment, at in said],
        files=[],
    )


def metadata(told: Retold, kind: str) -> list[Any]:
    return [dict(event.metadata) for event in told.events if event.type == kind]


@given(
    st.sampled_from([EXPIRED, CANCELLED, RELEASED]),
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8), st.integers(0, 30 * SECOND)), max_size=5),
    st.none() | st.integers(1, 120),
    st.none() | st.text(max_size=8),
)
def test_an_imported_breakpoint_yields_no_audit_findings(
    past: Past, said: list[tuple[str, str, int]], ttl: int | None, last: str | None
) -> None:
    release = replace(past.release, comment=last) if past.release else None
    spoken = [Said(author, comment, NOW + after) for author, comment, after in said]
    told = retell(replace(past, said=spoken, ttl_seconds=ttl, release=release), project="default")
    assert findings(stored(told)) == []
    assert told.ended.status is past.status
    assert told.ended.decision == (Decision.APPROVED if past.status is Status.RELEASED else None)


@pytest.mark.parametrize(
    ("project", "origin", "created_at", "same"),
    [
        ("default", "orig-1", NOW, True),
        ("default", "orig-1", NOW + 999, True),
        ("default", "orig-1", NOW + 1_000, False),
        ("other", "orig-1", NOW, False),
        ("default", "orig-2", NOW, False),
    ],
)
def test_importing_a_breakpoint_again_produces_the_same_id(
    project: str, origin: str, created_at: int, *, same: bool
) -> None:
    """A later version must recognize breakpoints that an earlier version imported."""
    known = "bp_01kcc5ok0000q2pdj1p012nh9n"
    assert (id_of(project, origin, created_at=created_at) == known) is same


def test_ids_of_imported_breakpoints_sort_by_creation_time() -> None:
    moments = [0, 1_000, NOW - 1_000, NOW, NOW + 1_000, NOW + 86_400 * SECOND, 253_402_300_799 * SECOND]
    ids = [id_of("default", f"orig-{n}", created_at=moment) for n, moment in enumerate(moments)]
    assert ids == sorted(ids)
    assert {len(each) for each in ids} == {29}


@pytest.mark.parametrize(
    ("author", "name"),
    [
        ("Ann", "import/Ann"),
        ("ann b. @ home", "import/ann b. @ home"),
        ("Zoë 🔥", "import/Zoë 🔥"),
        ("", "import/"),
        ("n" * 100, "import/" + "n" * 100),
    ],
)
def test_printable_author_names_are_kept(author: str, name: str) -> None:
    assert name_of(author) == name


@pytest.mark.parametrize(
    ("author", "begins"),
    [
        ("n" * 101, "import/" + "n" * 100 + "-"),
        ("a\x00b", "import/ab-"),
        ("a\nb", "import/ab-"),
        ("\u202e", "import/-"),
        ("a\ud800", "import/a-"),
    ],
)
def test_author_names_with_removed_characters_get_a_distinct_suffix(author: str, begins: str) -> None:
    name = name_of(author)
    assert name.startswith(begins)
    assert name.isprintable()
    assert len(name) == len(begins) + 8
    assert name not in {name_of(begins.removeprefix("import/").removesuffix("-")), name_of(f"{author}\x00")}


def test_imported_author_names_are_stable_across_versions() -> None:
    assert name_of("a\nb") == "import/ab-7e18f737"


def test_content_is_imported_unchanged_except_for_experts() -> None:
    raised = retell(EXPIRED, project="sales").raised
    assert (raised.project, raised.agent_id, raised.run_id, raised.title) == ("sales", "bot", "run-7", "Deploy")
    assert (raised.gate, raised.payload, raised.tags) == ("deploy", BODY["payload"], ("prod",))
    assert (raised.risk, raised.priority, raised.created_at) == ("high", "high", NOW)
    assert raised.digest == DRAFT.digest("sales")
    assert (raised.id, raised.status, raised.version) == (
        id_of("sales", "orig-1", created_at=NOW),
        Status.WAITING,
        1,
    )
    assert (raised.seats, raised.strategy, raised.on_timeout, raised.warnings) == ((), "single", "expire", ())
    assert raised.callback_url is None, "no callback for a breakpoint that ended long ago"
    assert (str(raised.created_by), raised.created_by_id) == ("system:import", "system:import")
    assert raised.auto_approval == {
        "recommended": False,
        "reason": "Imported: rules were not evaluated.",
        "consecutiveApprovals": 0,
    }


def test_the_creation_event_records_the_origin() -> None:
    told = retell(EXPIRED, project="sales")
    (created,) = metadata(told, "created")
    assert {key: created[key] for key in ("agentId", "gate", "via", "imported", "digest", "autoApproval")} == {
        "agentId": "bot",
        "gate": "deploy",
        "via": "import",
        "imported": {"id": "orig-1", "ttlSeconds": 60},
        "digest": told.raised.digest,
        "autoApproval": told.raised.auto_approval,
    }
    first = told.events[0]
    assert (str(first.actor), first.at, first.seq) == ("system:import", NOW, 1)


@pytest.mark.parametrize(
    ("past", "ttl", "kept"),
    [
        (EXPIRED, None, None),
        (EXPIRED, 60, 60),
        (CANCELLED, 10, 10),
        (CANCELLED, None, None),
        (RELEASED, None, None),
        (RELEASED, 31, 31),
        (RELEASED, 30, None),
        (RELEASED, 29, None),
    ],
)
def test_a_deadline_is_dropped_if_the_answer_came_after_it(past: Past, ttl: int | None, kept: int | None) -> None:
    told = retell(replace(past, ttl_seconds=ttl), project="default")
    assert told.raised.ttl_seconds == kept
    assert told.raised.due_at == (NEVER if kept is None else NOW + kept * SECOND)
    assert metadata(told, "created")[0]["imported"] == {"id": "orig-1", "ttlSeconds": ttl}


SPOKEN = (Said("Bob", "Second.", NOW + 2), Said("Ann", "First.", NOW + 1), Said("Bob", "Third.", NOW + 2))


@pytest.mark.parametrize(("past", "end"), [(EXPIRED, "expired"), (CANCELLED, "cancelled")])
def test_an_unanswered_breakpoint_keeps_its_status_end_time_and_comments(past: Past, end: str) -> None:
    told = retell(replace(past, said=SPOKEN), project="default")
    assert [(event.type, str(event.actor), event.at) for event in told.events[1:]] == [
        ("commented", "person:import/Ann", NOW + 1),
        ("commented", "person:import/Bob", NOW + 2),
        ("commented", "person:import/Bob", NOW + 2),
        (end, "system:import", past.ended_at),
    ]
    assert metadata(told, "commented") == [
        {"comment": comment, "via": "import"} for comment in ("First.", "Second.", "Third.")
    ]
    assert metadata(told, end) == [{"via": "import", "by": past.ended_by}]
    ended = told.ended
    assert (ended.status, ended.decision, ended.ended_at, str(ended.ended_by)) == (
        end,
        None,
        past.ended_at,
        "system:import",
    )
    assert ended.result == {"approved": False, "status": end, "auto": False}
    assert (ended.comments, ended.votes, ended.version) == (3, 0, 5)
    assert (list(told.comments), told.response) == (list(SPOKEN), None)


def test_the_person_who_released_a_breakpoint_is_imported_as_its_approver() -> None:
    told = retell(replace(RELEASED, said=SPOKEN), project="default")
    ended, at = told.ended, RELEASED.ended_at
    assert [(event.type, str(event.actor), event.at) for event in told.events[-2:]] == [
        ("responded", "person:import/Ann", at),
        ("released", "person:import/Ann", at),
    ]
    assert metadata(told, "responded") == [
        {"approved": True, "via": "import", "digest": told.raised.digest, "comment": "Yes."}
    ]
    assert metadata(told, "released") == [{"decision": "approved", "digest": told.raised.digest}]
    assert told.response == Response("import/Ann", approved=True, at=at, via="import", comment="Yes.")
    assert (ended.status, ended.decision, ended.ended_at) == ("released", "approved", at)
    assert (ended.ended_by and ended.ended_by.kind, ended.comments, ended.votes) == (Kind.PERSON, 4, 1)
    assert ended.result is not None
    assert {key: ended.result[key] for key in ("approved", "respondedBy", "via", "auto", "feedback")} == {
        "approved": True,
        "respondedBy": "import/Ann",
        "via": "import",
        "auto": False,
        "feedback": "Yes.",
    }
    assert list(told.comments) == [*SPOKEN, Said("Ann", "Yes.", at)]


def test_a_release_without_text_does_not_add_a_comment() -> None:
    told = retell(replace(RELEASED, release=Said("Ann", None, NOW)), project="default")
    assert metadata(told, "responded") == [{"approved": True, "via": "import", "digest": told.raised.digest}]
    assert (told.ended.comments, told.ended.votes, list(told.comments)) == (0, 1, [])
    assert told.response is not None
    assert told.response.comment is None
    assert told.response.at == RELEASED.ended_at


def test_a_release_comment_is_dated_to_the_release() -> None:
    told = retell(replace(RELEASED, release=Said("Ann", "Yes.", NOW + 1)), project="default")
    assert list(told.comments) == [Said("Ann", "Yes.", RELEASED.ended_at)]
