"""The client's rule calls, with a scripted server."""

import json
from typing import Any

import pytest

from assent.sdk.client import Assent
from assent.sdk.errors import NotFound, PatternError, Unavailable, UnexpectedAnswer
from tests.sdk.scripted import RESET, Heard, Say, scripted

RULE = "rule-01m7gkk3aysqtzggwp8csw9t60"
WHOLE: dict[str, Any] = {
    "id": RULE, "pattern": "a.*", "action": "auto-approve", "createdAt": "t", "createdBy": "person:ann",
    "source": "api", "mode": "live", "enabled": True, "order": 1, "updatedAt": "t", "version": 1,
}  # fmt: skip
COUNTS = dict.fromkeys(
    ("days", "scanned", "matched", "unknown", "stopped", "purged", "wouldApprove", "wouldStop", "approved", "rejected",
     "timedOut", "auto", "expired", "cancelled", "waiting"), 1
)  # fmt: skip
TESTED = {
    "pattern": "a.*", "action": "auto-approve", "since": "t", "until": "t", **COUNTS,
    "rejections": [], "waitingItems": [], "autoItems": [], "more": {},
}  # fmt: skip
UNAVAILABLE = Say(503, {"code": "unavailable", "detail": "Stopping."}, {"Retry-After": "0"})


def lines(*each: bytes) -> Say:
    return Say(200, b"".join(line + b"\n" for line in each), {"Content-Type": "application/x-ndjson"})


def progress(scanned: int) -> bytes:
    return b'{"progress":{"scanned":%d,"total":9}}' % scanned


def result() -> bytes:
    return json.dumps({"result": TESTED}).encode()


def test_omitted_fields_are_not_sent_but_cleared_fields_are() -> None:
    with scripted([Say(200, WHOLE)]) as fake, Assent(fake.url, "t") as assent:
        assent.add_rule("a.*", note="n", why="w")
        assent.change_rule(RULE, note=None, expires_at=None)
    assert [heard.body for heard in fake.heard] == [
        b'{"pattern": "a.*", "action": "auto-approve", "note": "n", "why": "w"}',
        b'{"note": null, "expiresAt": null}',
    ]


@pytest.mark.parametrize("rule_id", ["", "nonsense", "rule-A", "../people", "rule-a/b", "rule-a?x"])
def test_an_invalid_rule_id_is_rejected_without_a_request(rule_id: str) -> None:
    with scripted([Say(200, WHOLE)]) as fake, Assent(fake.url, "t") as assent, pytest.raises(NotFound):
        assent.rule(rule_id)
    assert fake.heard == []


def test_adding_a_rule_is_not_retried_after_a_503() -> None:
    with scripted([UNAVAILABLE, Say(201, WHOLE)]) as fake, Assent(fake.url, "t") as assent, pytest.raises(Unavailable):
        assent.add_rule("a.*")
    assert len(fake.heard) == 1


def test_import_options_are_sent_as_query_parameters() -> None:
    done = {"dryRun": True, "added": 0, "changed": 0, "unchanged": 0, "removed": 0, "totalRules": 0, "items": []}
    with scripted([Say(200, done)]) as fake, Assent(fake.url, "t") as assent:
        assent.import_rules({"rules": []}, dry_run=True, why="a b")
    assert fake.heard[0].path == "/api/rules/import?dryRun=true&replace=false&why=a+b"


def test_a_backtest_reports_progress_and_restarts_after_a_disconnect() -> None:
    told: list[tuple[int, int]] = []
    with (
        scripted([RESET, lines(progress(4), progress(9), result())]) as fake,
        Assent(fake.url, "t") as assent,
    ):
        found = assent.backtest("a.*", on_progress=lambda scanned, total: told.append((scanned, total)))
    assert (found.matched, told) == (1, [(4, 9), (9, 9)])
    assert [_accepts(heard) for heard in fake.heard] == ["application/x-ndjson"] * 2


def _accepts(heard: Heard) -> str:
    return heard.headers["accept"]


def test_a_backtest_without_a_progress_callback_requests_a_single_response() -> None:
    with scripted([Say(200, TESTED)]) as fake, Assent(fake.url, "t") as assent:
        assert assent.backtest("a.*").scanned == 1
    assert "ndjson" not in _accepts(fake.heard[0])


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lines(progress(1)), UnexpectedAnswer),
        (lines(), UnexpectedAnswer),
        (lines(progress(1), b'{"problem":{"code":"unavailable","detail":"Busy."}}'), Unavailable),
        (Say(422, {"code": "invalid_pattern", "detail": "x", "line": 1, "column": 2}), PatternError),
    ],
)
def test_a_backtest_without_a_result_raises(answer: Say, error: type[Exception]) -> None:
    with scripted([answer]) as fake, Assent(fake.url, "t", patience=0) as assent, pytest.raises(error):
        assent.backtest("a.*", on_progress=lambda *_: None)
