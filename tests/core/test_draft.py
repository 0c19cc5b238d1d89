"""Drafts contain everything in the request body, and contradictory bodies are rejected."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.core.canonical import sha256
from assent.core.draft import MAX_FILE, draft
from assent.core.errors import InvalidRequest, TooLarge
from assent.core.strategies import NEEDS_EXPERTS, STRATEGIES

FILE = {"path": "plan.md", "format": "markdown"}


def body(payload: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    return {"agentId": "agent-1", "payload": payload or {}} | top


def with_file(**entry: Any) -> dict[str, Any]:
    return body({"context": {"files": [FILE | entry]}})


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        (body({"title": "B"}, title="A"), "/payload/title"),
        (body({"context": {"runId": "r2"}}, runId="r1"), "/payload/context/runId"),
        (body({"options": ["a", "a"]}), "/payload/options"),
        (body({"strategy": "quorum"}), "/payload/expert"),
        (body({"strategy": "collect-all"}), "/payload/expert"),
        (body({"form": {"properties": {"a": {"type": ["string"]}}}}), "/payload/form/properties/a"),
        (with_file(content="x", sha256="0" * 64), "/payload/context/files/0"),
        (with_file(content="x", contentBase64="eA=="), "/payload/context/files/0"),
        (with_file(contentBase64="eA"), "/payload/context/files/0/contentBase64"),
        (with_file(contentBase64="a"), "/payload/context/files/0/contentBase64"),
    ],
)
def test_a_contradictory_body_is_rejected(sent: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        draft(sent)
    errors = refused.value.details["errors"]
    assert isinstance(errors, list)
    assert errors[0]["pointer"] == pointer


def test_values_sent_in_two_places_are_deduplicated() -> None:
    made = draft(body({"title": "A", "tags": ["x", "y"], "context": {"runId": "r"}}, title="A", runId="r", tags=["y"]))
    assert (made.title, made.run_id, made.tags) == ("A", "r", ("y", "x"))


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_tags_from_the_body_and_payload_are_merged(top: list[str], inner: list[str]) -> None:
    made = draft(body({"tags": inner}, tags=top))
    assert set(made.tags) == {*top, *inner}
    assert len(made.tags) == len(set(made.tags))


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_can_be_requested(name: str) -> None:
    assert draft(body({"strategy": name, "expert": ["ann"]})).strategy == name
    assert (name in NEEDS_EXPERTS) or draft(body({"strategy": name})).strategy == name


@pytest.mark.parametrize(
    ("sent", "gate"),
    [
        (body({"breakpointId": "confirm.star"}, title="Other"), "confirm.star"),
        (body({"question": "Really?"}, title="Star repo"), "star-repo"),
        (body({"question": "Star the repo?"}), "star-the-repo"),
        (body(), "agent-1"),
    ],
)
def test_an_explicit_gate_takes_precedence_over_a_derived_one(sent: dict[str, Any], gate: str) -> None:
    assert draft(sent).gate == gate


def test_the_payload_contains_file_digests_instead_of_file_content() -> None:
    inline = draft(with_file(content="hé"))
    encoded = draft(with_file(contentBase64=base64.b64encode("hé".encode()).decode()))
    named = draft(with_file(sha256=sha256("hé".encode())))
    assert inline.digest("p") == encoded.digest("p") == named.digest("p")
    assert inline.files[0].content == encoded.files[0].content == "hé".encode()
    assert "content" not in inline.payload["context"]["files"][0]
    assert inline.payload["context"]["files"][0]["sha256"] == sha256("hé".encode())


def test_a_file_over_the_limit_is_rejected() -> None:
    with pytest.raises(TooLarge):
        draft(with_file(content="x" * (MAX_FILE + 1)))


def test_creating_a_draft_does_not_modify_the_request_body() -> None:
    sent = with_file(content="x")
    draft(sent)
    assert sent == with_file(content="x")


FULL = {
    "agentId": "agent-1",
    "runId": "run-1",
    "title": "Deploy",
    "tags": ["prod"],
    "payload": {
        "question": "Deploy?",
        "breakpointId": "deploy",
        "expert": ["ann"],
        "strategy": "quorum",
        "risk": "high",
        "options": ["a", "b"],
        "context": {"files": [{"path": "a", "format": "text", "content": "x"}]},
        "anything": {"else": [1, 2.5, None]},
    },
}
CHANGES: dict[str, Any] = {
    "agentId": lambda b: b | {"agentId": "agent-2"},
    "runId": lambda b: b | {"runId": "run-2"},
    "title": lambda b: b | {"title": "Destroy"},
    "tags": lambda b: b | {"tags": ["prod", "eu"]},
    "question": lambda b: b | {"payload": b["payload"] | {"question": "Destroy?"}},
    "gate": lambda b: b | {"payload": b["payload"] | {"breakpointId": "other"}},
    "expert": lambda b: b | {"payload": b["payload"] | {"expert": ["bob"]}},
    "strategy": lambda b: b | {"payload": b["payload"] | {"strategy": "collect-all"}},
    "risk": lambda b: b | {"payload": b["payload"] | {"risk": "low"}},
    "options": lambda b: b | {"payload": b["payload"] | {"options": ["a", "c"]}},
    "file bytes": lambda b: (
        b | {"payload": b["payload"] | {"context": {"files": [{"path": "a", "format": "text", "content": "y"}]}}}
    ),
    "file name": lambda b: (
        b | {"payload": b["payload"] | {"context": {"files": [{"path": "b", "format": "text", "content": "x"}]}}}
    ),
    "anything else": lambda b: b | {"payload": b["payload"] | {"anything": {"else": [1, 2.5, False]}}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_changing_any_part_of_the_content_changes_the_digest(change: str) -> None:
    assert draft(CHANGES[change](FULL)).digest("p") != draft(FULL).digest("p")


def test_the_same_content_has_different_digests_in_different_projects() -> None:
    assert draft(FULL).digest("p") != draft(FULL).digest("q")
