"""The client's decisions about retries and waits, without sockets and with a simulated clock."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.contracts.breakpoints import BreakpointPage
from assent.sdk import errors, protocol
from assent.sdk.files import ContextFile
from assent.sdk.protocol import (
    LONGEST_PAUSE,
    Cancellation,
    Flow,
    Lost,
    Outcome,
    Pace,
    Pause,
    Reply,
    Request,
    Said,
    Tell,
)
from assent.sdk.waits import SLICE_SECONDS, waiting

ID = "bp_01m7gkk3aysqtzggwp8csw9t60"
GONE = Lost("no connection", sent=False)
BROKEN = Lost("the connection broke", sent=True)


def status(name: str = "waiting", *, updated: str = "t1", **headers: str) -> Reply:
    body: dict[str, Any] = {"status": name, "updatedAt": updated}
    if name == "released":
        body |= {"decision": "approved", "result": {"approved": True, "status": name, "auto": False}}
    return Reply(200, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode())


def refusal(code: int, problem: str | None = None, **headers: str) -> Reply:
    body = json.dumps({"code": problem, "detail": "No."}) if problem else "<html>nginx</html>"
    return Reply(code, {name.replace("_", "-"): value for name, value in headers.items()}, body.encode())


@dataclass
class World:
    """Performs a flow with scripted outcomes, each with its simulated duration in seconds."""

    outcomes: Iterable[tuple[float, Outcome]]
    clock: float = 1000.0
    chance: float = 0.5
    requests: list[Request] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)

    def pace(self) -> Pace:
        return Pace(lambda: self.clock, lambda: self.chance)

    def run(self, flow: Callable[[Pace], Flow[Any]]) -> Any:
        running, outcomes = flow(self.pace()), iter(self.outcomes)
        outcome: Outcome = None
        while True:
            try:
                step = running.send(outcome)
            except StopIteration as done:
                return done.value
            if isinstance(step, Pause):
                self.pauses.append(step)
                self.clock += step.seconds
                outcome = None
            elif isinstance(step, Tell):
                outcome = Said(step.listener(step.news))
            elif isinstance(step, Cancellation):
                outcome = None
            else:
                self.requests.append(step)
                seconds, outcome = next(outcomes)
                self.clock += seconds

    def wait(self, *, patience: float = 60.0, timeout: float | None = None) -> Any:
        return self.run(lambda pace: waiting(ID, pace=pace, patience=patience, timeout=timeout))

    def read(self, *, patience: float = 60.0) -> Any:
        request = protocol.reading("/api/breakpoints")
        return self.run(lambda pace: protocol.performed(request, BreakpointPage, pace=pace, patience=patience))


def test_a_wait_polls_again_immediately_after_each_slice() -> None:
    world = World([(SLICE_SECONDS, status())] * 3 + [(3.0, status("released"))])

    assert world.wait().approved
    assert [dict(request.query)["wait"] for request in world.requests] == ["25.000"] * 4
    assert world.pauses == []


@pytest.mark.parametrize(
    "trouble", [GONE, BROKEN, refusal(503, "unavailable"), refusal(502), status(retry_after="0"), status()]
)
def test_failed_polls_back_off_between_attempts(trouble: Outcome) -> None:
    world = World([(0.0, trouble)] * 8 + [(0.0, status("released"))])

    assert world.wait().approved
    assert len(world.pauses) == 8
    assert all(0.1 <= pause.seconds <= LONGEST_PAUSE for pause in world.pauses)
    assert world.pauses[-1].seconds > world.pauses[0].seconds


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1), floor=st.floats(0, 100))
def test_a_pause_is_positive_and_bounded(failures: int, chance: float, floor: float) -> None:
    pause = Pace(lambda: 0.0, lambda: chance).pause(failures, at_least=floor)

    assert 0 < pause <= max(floor, LONGEST_PAUSE)
    assert pause >= floor


def test_pauses_are_jittered_across_clients() -> None:
    assert len({Pace(lambda: 0.0, lambda c=each / 10: c).pause(3) for each in range(10)}) == 10  # type: ignore[misc]


def test_updates_such_as_comments_do_not_slow_down_polling() -> None:
    news = [(SLICE_SECONDS, status(updated="t0")), *((0.0, status(updated=f"t{n}")) for n in range(1, 6))]
    world = World([*news, (0.0, status("released"))])

    world.wait()

    assert world.pauses == []


def test_a_long_drain_does_not_use_up_the_patience() -> None:
    world = World([(0.0, status(retry_after="0"))] * 50 + [(0.0, status("released"))])

    assert world.wait(patience=10).approved


def test_a_wait_gives_up_if_the_server_is_unreachable_for_longer_than_the_patience() -> None:
    world = World([(0.0, GONE)] * 1000)

    with pytest.raises(errors.Unreachable, match="no connection"):
        world.wait(patience=30)
    assert 20 < world.clock - 1000.0 <= 30


def test_a_successful_response_resets_the_patience() -> None:
    rough = [(0.0, GONE)] * 4 + [(SLICE_SECONDS, status())]
    world = World(rough * 20 + [(0.0, status("released"))])

    assert world.wait(patience=10).approved


def test_a_wait_ends_at_its_timeout_and_shortens_the_last_poll() -> None:
    world = World([(SLICE_SECONDS, status()), (5.0, status())])

    with pytest.raises(errors.StillWaiting):
        world.wait(timeout=30)
    assert dict(world.requests[-1].query)["wait"] == "5.000"


def test_a_zero_timeout_polls_once() -> None:
    world = World([(0.0, status())])

    with pytest.raises(errors.StillWaiting):
        world.wait(timeout=0)
    assert len(world.requests) == 1


def test_an_existing_decision_is_returned_even_with_a_zero_timeout() -> None:
    assert World([(0.0, status("released"))]).wait(timeout=0).approved


@pytest.mark.parametrize("name", ["expired", "cancelled"])
def test_an_expired_or_cancelled_breakpoint_does_not_count_as_approved(name: str) -> None:
    found = World([(0.0, status(name))]).wait()

    assert found.ended
    assert not found.approved


def test_an_unknown_status_raises_an_error() -> None:
    with pytest.raises(errors.UnexpectedAnswer):
        World([(0.0, status("teleported"))]).wait()


@pytest.mark.parametrize(("code", "problem"), [(401, "unauthenticated"), (404, "not_found")])
def test_a_wait_raises_immediately_on_permanent_errors(code: int, problem: str) -> None:
    with pytest.raises(errors.BY_CODE[problem]):
        World([(0.0, refusal(code, problem))]).wait()


def test_the_retry_after_header_is_honored() -> None:
    page = Reply(200, {}, b'{"items": []}')
    world = World([(0.0, refusal(429, "rate_limited", retry_after="7")), (0.0, page)])

    assert world.read().items == []
    assert world.pauses[0].seconds == 7


def test_a_non_idempotent_request_is_retried_only_if_it_was_never_sent() -> None:
    request = protocol.ending(ID)
    lost = World([(0.0, BROKEN)])
    with pytest.raises(errors.Unreachable):
        lost.run(lambda pace: protocol.performed(request, BreakpointPage, pace=pace, patience=60))

    refused = World([(0.0, GONE), (0.0, Reply(200, {}, b'{"items": []}'))])
    refused.run(lambda pace: protocol.performed(request, BreakpointPage, pace=pace, patience=60))
    assert len(refused.requests) == 2


def test_zero_patience_means_a_single_attempt() -> None:
    world = World([(0.0, GONE)])

    with pytest.raises(errors.Unreachable):
        world.read(patience=0)
    assert len(world.requests) == 1


def test_small_files_are_sent_inline_and_large_files_are_uploaded_first() -> None:
    small = ContextFile("a.md", "markdown", b"# hi")
    binary = ContextFile("b.png", "image", b"\x89PNG\x00")
    big = ContextFile("c.txt", "text", b"x" * (protocol.INLINE_BYTES + 1))
    uploaded = Reply(201, {}, json.dumps({"sha256": "f" * 64, "size": 1}).encode())
    world = World([(0.0, uploaded), (0.0, refusal(422, "invalid_request"))])

    with pytest.raises(errors.InvalidRequest):
        world.run(lambda pace: protocol.creating({"payload": {}}, [small, binary, big], key="k", pace=pace, patience=0))

    assert [request.path for request in world.requests] == ["/api/files", "/api/breakpoints"]
    sent = json.loads(world.requests[1].body or b"")["payload"]["context"]["files"]
    assert [sorted(set(entry) - {"path", "format"}) for entry in sent] == [["content"], ["contentBase64"], ["sha256"]]


def test_conflicting_questions_are_rejected() -> None:
    with pytest.raises(errors.InvalidRequest, match="twice"):
        protocol.creation("Shall I?", {"agent_id": "a", "payload": {"question": "Shall I not?"}})


def test_the_request_body_uses_the_api_field_names() -> None:
    body = protocol.creation(
        "Shall I?", {"agent_id": "a", "run_id": "r", "ttl_seconds": 5, "breakpoint_id": "g", "title": None}
    )

    assert body == {
        "agentId": "a",
        "runId": "r",
        "ttlSeconds": 5,
        "payload": {"question": "Shall I?", "breakpointId": "g"},
    }


@pytest.mark.parametrize("text", ["..", "../tokens", "a/b", "", "a?b", "ä"])
def test_an_id_cannot_change_the_request_path(text: str) -> None:
    with pytest.raises(errors.NotFound):
        protocol.address(text, "status")
