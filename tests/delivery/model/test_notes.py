"""Default values of messages, and the values that are stored and sent."""

from assent.core.access import Actor, Kind
from assent.core.breakpoint import NEVER, Breakpoint, record
from assent.delivery.message import Addressee, Digest, Note, Purpose

BOT = Actor(Kind.AGENT, "bot")
ASKED, CREATION = record(
    Breakpoint(
        id="bp_1", project="default", agent_id="bot", run_id=None, title=None, gate="go", payload={"question": "Go?"},
        tags=(), seats=(), strategy="single", risk=None, priority="normal", on_timeout="expire", ttl_seconds=None,
        callback_url=None, digest="d" * 64, created_at=1, created_by=BOT, created_by_id="tok_1", due_at=NEVER,
        auto_approval={}, warnings=(),
    ),
    "created",
    actor=BOT,
    at=1,
)  # fmt: skip


def test_purpose_values_match_those_stored_with_deliveries() -> None:
    assert {each.name: str(each) for each in Purpose} == {
        "ASK": "ask",
        "REMIND": "remind",
        "ESCALATE": "escalate",
        "TELL": "tell",
        "CLOSE": "close",
    }
    assert Purpose("close") is Purpose.CLOSE


def test_an_addressee_is_empty_by_default() -> None:
    assert Addressee() == Addressee(name="", display_name="", email=None, identity=None)


def test_a_note_defaults_to_a_first_attempt_outside_a_thread() -> None:
    note = Note(
        id="dlv_1", purpose=Purpose.ASK, to=Addressee(), breakpoint=ASKED, event=CREATION, review_url="", answer_url=""
    )
    assert (note.attempt, note.thread, note.at) == (1, None, 0)


def test_a_digest_defaults_to_a_first_attempt() -> None:
    digest = Digest(id="dig_1", to=Addressee(), waiting=(ASKED,), total=1, ended=0, inbox_url="", urls={})
    assert (digest.attempt, digest.at) == (1, 0)
