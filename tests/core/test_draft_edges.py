"""Limits, defaults and the exact digest of drafts."""

import hashlib
import json
from typing import Any

import pytest

from assent.core import draft as drafts
from assent.core.canonical import sha256
from assent.core.draft import FileDraft, draft
from assent.core.errors import InvalidRequest, TooLarge
from tests.core.test_draft import body, with_file

MEBIBYTE = 1024 * 1024


def test_the_limits_are_10_mib_per_file_and_50_mib_in_total() -> None:
    assert draft(with_file(content="x" * (10 * MEBIBYTE))).files[0].sha256 is not None
    with pytest.raises(TooLarge, match=r"^/payload/context/files/0 is larger than 10485760 bytes\.$"):
        draft(with_file(content="x" * (10 * MEBIBYTE + 1)))
    assert drafts.MAX_FILES == 50 * MEBIBYTE


def test_omitted_fields_of_a_request_get_their_defaults() -> None:
    made = draft(body())
    assert (made.strategy, made.priority, made.experts, made.tags, made.files) == ("single", "normal", (), (), ())
    assert (made.title, made.run_id, made.risk, made.on_timeout) == (None, None, None, None)
    assert (made.ttl_seconds, made.callback_url, made.payload) == (None, None, {})


def test_every_field_of_a_request_is_parsed() -> None:
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


def test_a_single_expert_can_be_a_string() -> None:
    assert draft(body({"expert": "ann"})).experts == ("ann",)
    assert draft(body({"expert": "ann", "strategy": "quorum"})).experts == ("ann",)


@pytest.mark.parametrize(("top", "inner"), [("r", None), (None, "r"), ("r", "r")])
def test_the_title_and_run_id_are_accepted_in_either_place_or_both(top: str | None, inner: str | None) -> None:
    sent = body({"title": inner, "context": {"runId": inner}}, title=top, runId=top)
    assert (draft(sent).title, draft(sent).run_id) == ("r", "r")


def test_an_empty_title_conflicts_with_another_title() -> None:
    with pytest.raises(InvalidRequest):
        draft(body({"title": "A"}, title=""))
    with pytest.raises(InvalidRequest):
        draft(body({"title": ""}, title="A"))


def test_files_can_be_sent_as_content_a_digest_or_only_a_path() -> None:
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


def test_the_error_for_a_file_with_two_sources_names_both() -> None:
    entry = {"path": "a", "format": "text"}
    sent = body({"context": {"files": [entry, entry | {"contentBase64": "eA==", "sha256": "0"}]}})
    with pytest.raises(InvalidRequest, match=r"^/payload/context/files/1: has contentBase64 and sha256; send only one"):
        draft(sent)


@pytest.mark.parametrize("encoded", ["e A==", "eA==\n", "e-_="])
def test_invalid_base64_file_content_is_rejected(encoded: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^/payload/context/files/0/contentBase64: is not valid base64$"):
        draft(with_file(contentBase64=encoded))


def test_the_draft_digest_format_is_stable() -> None:
    """If the format changed, an audit would report every stored breakpoint as forged."""
    content = {
        "project": "p", "agentId": "agent-1", "runId": "r", "title": "T", "gate": "t", "tags": ["x"],
        "payload": {"question": "Q?"},
    }  # fmt: skip
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    expected = hashlib.sha256(f"assent-content/1\n{text}".encode()).hexdigest()
    assert draft(body({"question": "Q?"}, title="T", runId="r", tags=["x"])).digest("p") == expected


def test_a_gate_is_derived_from_the_title_question_or_agent_id() -> None:
    sents: list[tuple[dict[str, Any], str]] = [
        (body({"question": "Q"}, title="T"), "t"),
        (body({"question": "Q"}, title=""), "q"),
        (body({"question": ""}), "agent-1"),
        (body({"question": "Q", "breakpointId": ""}), "q"),
    ]
    assert [draft(sent).gate for sent, _ in sents] == [gate for _, gate in sents]
