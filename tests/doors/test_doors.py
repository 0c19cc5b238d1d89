"""The same tests for every integration: with the real package, an agent in its own process, and a live server."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from assent.kernel.settings import Settings
from assent.sdk.client import Assent
from tests.doors.doors import DOORS
from tests.doors.kit import ARGUMENTS, Desk, Door
from tests.support.nodes import free_port, prepared, server

pytestmark = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Assent, str]]:
    """A live server, and the token of an admin who is also a reviewer."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("office") / "data")
    (administrator,) = prepared(settings, "admin")
    with server(settings) as process, Assent(process.url, administrator) as client:
        yield client, administrator


@pytest.fixture
def desk(office: tuple[Assent, str], door: Door, tmp_path: Path) -> Desk:
    """A desk with a separate agent token and agent ID for each test."""
    reviewer, administrator = office
    name = f"door-{door.name}-{next(_numbers)}"
    state = tmp_path / "agent"
    state.mkdir()
    made = httpx2.post(
        f"{reviewer.url}/api/tokens",
        headers={"Authorization": f"Bearer {administrator}"},
        json={"kind": "agent", "name": name},
    )
    return Desk(reviewer.url, made.raise_for_status().json()["token"], reviewer, state, name)


def test_an_approved_call_runs_with_its_arguments(door: Door, desk: Desk) -> None:
    with desk.agent(door) as agent:
        asked = desk.asked(agent)
        desk.answer(asked, approved=True)

        assert agent.ended() == 0, agent.lines
        assert agent.ran == [ARGUMENTS]
        assert asked.payload["arguments"] == ARGUMENTS


def test_a_rejection_blocks_the_call_and_gives_the_model_the_reason(door: Door, desk: Desk) -> None:
    with desk.agent(door) as agent:
        desk.answer(desk.asked(agent), approved=False, comment="Not on a Friday, ask Olga.")

        assert agent.ended() == 0, agent.lines
        assert agent.ran == []
        assert "Not on a Friday, ask Olga." in agent.heard


def test_reviewers_edits_are_applied_or_editing_is_not_offered(door: Door, desk: Desk) -> None:
    with desk.agent(door) as agent:
        asked = desk.asked(agent)
        if not door.edits:
            assert asked.payload.get("editable") is None
            return
        desk.answer(asked, approved=True, edits={"version": "1.5"})

        assert agent.ended() == 0, agent.lines
        assert agent.ran == [ARGUMENTS | {"version": "1.5"}]


def test_a_missed_deadline_does_not_count_as_approval(door: Door, desk: Desk) -> None:
    with desk.agent(door, "--ttl", "1") as agent:
        assert agent.ended() == 0, agent.lines
        assert agent.ran == []
        assert "No one answered in time" in agent.heard


def test_a_cancelled_question_does_not_count_as_approval(door: Door, desk: Desk) -> None:
    with desk.agent(door) as agent:
        desk.reviewer.cancel(desk.asked(agent).id)

        assert agent.ended() == 0, agent.lines
        assert agent.ran == []
        assert "was cancelled" in agent.heard


def test_an_unreachable_server_blocks_the_call(door: Door, desk: Desk) -> None:
    with desk.agent(door, url=f"http://127.0.0.1:{free_port()}") as agent:
        agent.ended()

        assert agent.ran == []
        assert desk.questions() == 0


def test_an_unknown_token_blocks_the_call(door: Door, desk: Desk) -> None:
    stranger = replace(desk, token=desk.token[:-8] + "00000000")
    with stranger.agent(door) as agent:
        agent.ended()

        assert agent.ran == []


def test_an_agent_killed_while_waiting_resumes_with_the_same_question(door: Door, desk: Desk) -> None:
    with desk.agent(door) as first:
        asked = desk.asked(first)
        first.kill()
        assert first.ran == []
    with desk.agent(door) as second:
        if not door.resumes:
            assert desk.asked(second, number=2).id != asked.id
            return
        desk.answer(asked, approved=True)

        assert second.ended() == 0, second.lines
        assert second.ran == [ARGUMENTS]
        assert desk.questions() == 1


def test_an_answer_given_while_the_agent_was_down_is_kept(door: Door, desk: Desk) -> None:
    with desk.agent(door) as first:
        asked = desk.asked(first)
        first.kill()
    desk.answer(asked, approved=True)
    with desk.agent(door) as second:
        if not door.resumes:
            assert desk.asked(second).id != asked.id
            return
        assert second.ended() == 0, second.lines
        assert second.ran == [ARGUMENTS]
        assert desk.questions() == 1
