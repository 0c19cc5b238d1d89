"""Limits and exact forms of drafts."""

import hashlib
import json
from typing import Any

import pytest

from assent.domain import draft as drafts
from assent.domain.canonical import sha256
from assent.domain.draft import FileDraft, draft
from assent.domain.errors import InvalidRequest, TooLarge
from tests.domain.test_draft import body, with_file

MEBIBYTE = 1024 * 1024


def test_a_file_may_have_10_mib_and_all_files_together_50_mib() -> None:
    assert draft(with_file(content="x" * (10 * MEBIBYTE))).files[0].sha256 is not None
    with pytest.raises(TooLarge, match=r"^/payload/context/files/0 is larger than 10485760 bytes\.$"):
        draft(with_file(content="x" * (10 * MEBIBYTE + 1)))
    assert drafts.MAX_FILES == 50 * MEBIBYTE


def test_a_minimal_request_gets_the_defaults() -> None:
    made = draft(body())
    assert (made.strategy, made.priority, made.experts, made.tags, made.files) == ("single", "normal", (), (), ())
    assert (made.title, made.run_id, made.risk, made.on_timeout) == (None, None, None, None)
    assert (made.ttl_seconds, made.callback_url, made.payload) == (None, None, {})


def test_all_fields_of_a_request_are_read() -> None:
    sent = body(
        {"expert": ["ann", "bob", "ann"], "strategy": "quorum", "risk": "low", "title": "T", "options": ["a", "b"]},
        priority="high",
        onTimeout="reject",
        ttlSeconds=60,
        callbackUrl="https://example.com/",
        runId="r",
    )
    made = draft(sent)
    assert (made.agent_id, made.title, made.run_id, made.gate) == ("agent-1", "T", "r", "t")
    assert (made.experts, made.strategy, made.risk, made.priority) == (("ann", "bob"), "quorum", "low", "high")
    assert (made.on_timeout, made.ttl_seconds, made.callback_url) == ("reject", 60, "https://example.com/")
    assert made.payload == sent["payload"]


def test_a_single_expert_may_be_given_as_text() -> None:
    assert draft(body({"expert": "ann"})).experts == ("ann",)
    assert draft(body({"expert": "ann", "strategy": "quorum"})).experts == ("ann",)


@pytest.mark.parametrize(("top", "inner"), [("r", None), (None, "r"), ("r", "r")])
def test_the_title_and_run_id_may_be_given_in_either_place_or_both(top: str | None, inner: str | None) -> None:
    sent = body({"title": inner, "context": {"runId": inner}}, title=top, runId=top)
    assert (draft(sent).title, draft(sent).run_id) == ("r", "r")


def test_an_empty_title_contradicts_another_title() -> None:
    with pytest.raises(InvalidRequest):
        draft(body({"title": "A"}, title=""))
    with pytest.raises(InvalidRequest):
        draft(body({"title": ""}, title="A"))


def test_a_file_is_given_by_content_or_digest_or_only_by_path() -> None:
    files = draft(
        body(
            {
                "context": {
                    "more": 1,
                    "files": [
                        {"path": "a", "format": "text", "content": "x"},
                        {"path": "b", "format": "code", "language": "python", "sha256": "0" * 64},
                        {"path": "c", "format": "text"},
                        {"path": "d", "format": "text", "content": ""},
                    ],
                }
            }
        )
    )
    assert files.files == (
        FileDraft("a", "text", None, sha256(b"x"), b"x"),
        FileDraft("b", "code", "python", "0" * 64, None),
        FileDraft("c", "text", None, None, None),
        FileDraft("d", "text", None, sha256(b""), b""),
    )
    assert files.payload["context"] == {
        "more": 1,
        "files": [
            {"path": "a", "format": "text", "sha256": sha256(b"x")},
            {"path": "b", "format": "code", "language": "python", "sha256": "0" * 64},
            {"path": "c", "format": "text"},
            {"path": "d", "format": "text", "sha256": sha256(b"")},
        ],
    }


def test_the_error_for_a_file_given_in_two_ways_names_both() -> None:
    entry = {"path": "a", "format": "text"}
    sent = body({"context": {"files": [entry, entry | {"contentBase64": "eA==", "sha256": "0"}]}})
    with pytest.raises(InvalidRequest, match=r"^/payload/context/files/1: has contentBase64 and sha256; send only one"):
        draft(sent)


@pytest.mark.parametrize("encoded", ["e A==", "eA==\n", "e-_="])
def test_base64_is_parsed_strictly(encoded: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^/payload/context/files/0/contentBase64: is not valid base64$"):
        draft(with_file(contentBase64=encoded))


def test_the_digest_of_a_draft_has_this_exact_form() -> None:
    """With any other form, every stored breakpoint would be reported as forged."""
    content = {
        "project": "p", "agentId": "agent-1", "runId": "r", "title": "T", "gate": "t", "tags": ["x"],
        "payload": {"question": "Q?"},
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(f"assent-content/1\n{text}".encode()).hexdigest()
    assert draft(body({"question": "Q?"}, title="T", runId="r", tags=["x"])).digest("p") == expected


def test_a_gate_is_derived_from_the_title_the_question_or_the_agent() -> None:
    sents: list[tuple[dict[str, Any], str]] = [
        (body({"question": "Q"}, title="T"), "t"),
        (body({"question": "Q"}, title=""), "q"),
        (body({"question": ""}), "agent-1"),
        (body({"question": "Q", "breakpointId": ""}), "q"),
    ]
    assert [draft(sent).gate for sent, _ in sents] == [gate for _, gate in sents]
