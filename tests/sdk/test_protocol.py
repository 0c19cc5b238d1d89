"""What the client decides, without a socket and with time that moves only when told to."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from assent.sdk.values import Page
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
    """Performs a flow: each outcome comes after the seconds it is said to take."""

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
        return self.run(lambda pace: protocol.performed(request, Page, pace=pace, patience=patience))


def test_a_wait_goes_on_slice_after_slice_without_a_pause() -> None:
    world = World([(SLICE_SECONDS, status())] * 3 + [(3.0, status("released"))])

    assert world.wait().approved
    assert [dict(request.query)["wait"] for request in world.requests] == ["25.000"] * 4
    assert world.pauses == []


@pytest.mark.parametrize(
    "trouble", [GONE, BROKEN, refusal(503, "unavailable"), refusal(502), status(retry_after="0"), status()]
)
def test_trouble_never_makes_a_wait_spin(trouble: Outcome) -> None:
    world = World([(0.0, trouble)] * 8 + [(0.0, status("released"))])

    assert world.wait().approved
    assert len(world.pauses) == 8
    assert all(0.1 <= pause.seconds <= LONGEST_PAUSE for pause in world.pauses)
    assert world.pauses[-1].seconds > world.pauses[0].seconds


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1), floor=st.floats(0, 100))
def test_a_pause_is_never_zero_and_never_longer_than_asked_for(failures: int, chance: float, floor: float) -> None:
    pause = Pace(lambda: 0.0, lambda: chance).pause(failures, at_least=floor)

    assert 0 < pause <= max(floor, LONGEST_PAUSE)
    assert pause >= floor


def test_pauses_of_many_clients_are_not_in_step() -> None:
    assert len({Pace(lambda: 0.0, lambda c=each / 10: c).pause(3) for each in range(10)}) == 10  # type: ignore[misc]


def test_news_such_as_a_comment_is_no_reason_to_hold_back() -> None:
    news = [(SLICE_SECONDS, status(updated="t0")), *((0.0, status(updated=f"t{n}")) for n in range(1, 6))]
    world = World([*news, (0.0, status("released"))])

    world.wait()

    assert world.pauses == []


def test_a_server_that_drains_for_long_does_not_use_up_the_patience() -> None:
    world = World([(0.0, status(retry_after="0"))] * 50 + [(0.0, status("released"))])

    assert world.wait(patience=10).approved


def test_a_wait_gives_up_when_nobody_answers_for_as_long_as_it_is_patient() -> None:
    world = World([(0.0, GONE)] * 1000)

    with pytest.raises(errors.Unreachable, match="no connection"):
        world.wait(patience=30)
    assert 20 < world.clock - 1000.0 <= 30


def test_an_answer_in_between_renews_the_patience() -> None:
    rough = [(0.0, GONE)] * 4 + [(SLICE_SECONDS, status())]
    world = World(rough * 20 + [(0.0, status("released"))])

    assert world.wait(patience=10).approved


def test_a_wait_ends_at_its_timeout_and_asks_for_no_more_than_is_left() -> None:
    world = World([(SLICE_SECONDS, status()), (5.0, status())])

    with pytest.raises(errors.StillWaiting):
        world.wait(timeout=30)
    assert dict(world.requests[-1].query)["wait"] == "5.000"


def test_a_timeout_of_nothing_looks_once() -> None:
    world = World([(0.0, status())])

    with pytest.raises(errors.StillWaiting):
        world.wait(timeout=0)
    assert len(world.requests) == 1


def test_an_answer_that_is_there_counts_even_when_the_time_is_over() -> None:
    assert World([(0.0, status("released"))]).wait(timeout=0).approved


@pytest.mark.parametrize("name", ["expired", "cancelled"])
def test_only_an_approval_is_an_approval(name: str) -> None:
    found = World([(0.0, status(name))]).wait()

    assert found.ended
    assert not found.approved


def test_a_status_this_client_does_not_know_is_an_error_and_no_answer() -> None:
    with pytest.raises(errors.UnexpectedAnswer):
        World([(0.0, status("teleported"))]).wait()


@pytest.mark.parametrize(("code", "problem"), [(401, "unauthenticated"), (404, "not_found")])
def test_a_wait_ends_at_once_when_trying_again_cannot_help(code: int, problem: str) -> None:
    with pytest.raises(errors.BY_CODE[problem]):
        World([(0.0, refusal(code, problem))]).wait()


def test_retry_after_is_honoured() -> None:
    page = Reply(200, {}, b'{"items": []}')
    world = World([(0.0, refusal(429, "rate_limited", retry_after="7")), (0.0, page)])

    assert world.read().items == []
    assert world.pauses[0].seconds == 7


def test_a_request_that_would_count_twice_is_sent_again_only_if_it_never_left() -> None:
    request = protocol.ending(ID)
    lost = World([(0.0, BROKEN)])
    with pytest.raises(errors.Unreachable):
        lost.run(lambda pace: protocol.performed(request, Page, pace=pace, patience=60))

    refused = World([(0.0, GONE), (0.0, Reply(200, {}, b'{"items": []}'))])
    refused.run(lambda pace: protocol.performed(request, Page, pace=pace, patience=60))
    assert len(refused.requests) == 2


def test_without_patience_there_is_one_attempt() -> None:
    world = World([(0.0, GONE)])

    with pytest.raises(errors.Unreachable):
        world.read(patience=0)
    assert len(world.requests) == 1


def test_small_files_go_along_and_big_ones_go_ahead() -> None:
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


def test_what_is_said_twice_must_be_the_same() -> None:
    with pytest.raises(errors.InvalidRequest, match="twice"):
        protocol.creation("Shall I?", {"agent_id": "a", "payload": {"question": "Shall I not?"}})


def test_the_body_has_the_names_the_api_knows() -> None:
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
def test_an_id_cannot_lead_elsewhere(text: str) -> None:
    with pytest.raises(errors.NotFound):
        protocol.address(text, "status")
