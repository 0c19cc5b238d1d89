"""The one call: where it asks, and what it makes of its arguments."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from assent.sdk import breakpoints
from assent.sdk.breakpoints import abreakpoint, local_body, server_is_set
from assent.sdk.context import Context, current
from assent.sdk.errors import BadAddress, CannotAsk, FileRefused, InvalidRequest
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Asking
from assent.sdk.values import BreakpointResult

APPROVED = BreakpointResult(approved=True, status="released", auto=False, decision="approved")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server, a folder of its own; pytest takes the terminal away."""
    for name in ("ASSENT_URL", "ASSENT_TOKEN", "ASSENT_AGENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSENT_LOCAL_DIR", str(tmp_path / "local"))
    monkeypatch.chdir(tmp_path)


class Run:
    """A run that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def breakpoint(self, question: str | None = None, **more: Any) -> BreakpointResult:
        self.asked.append({"question": question, **more})
        return APPROVED


@pytest.fixture
def inside() -> Iterator[Run]:
    run = Run()
    token = current.set(cast("Context", run))
    yield run
    current.reset(token)


@pytest.mark.parametrize("name", ["ASSENT_URL", "ASSENT_TOKEN"])
def test_a_server_is_asked_as_soon_as_one_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert not server_is_set()
    monkeypatch.setenv(name, "nonsense nonsense")
    assert server_is_set()
    with pytest.raises(BadAddress):
        breakpoints.breakpoint("Go?")


async def test_inside_a_run_it_is_the_breakpoint_of_the_run(inside: Run) -> None:
    assert await abreakpoint("Go?", tags=["a"], require=True) == APPROVED
    assert inside.asked[0]["question"] == "Go?"
    assert inside.asked[0]["tags"] == ["a"]
    assert inside.asked[0]["require"] is True
    with pytest.raises(InvalidRequest, match="ttl_seconds"):
        await abreakpoint("Go?", timeout=1)


def test_inside_a_run_nothing_waits_without_the_run_knowing(inside: Run) -> None:
    with pytest.raises(RuntimeError, match="await"):
        breakpoints.breakpoint("Go?")
    assert inside.asked == []


@pytest.mark.parametrize("require", [True, False])
async def test_without_a_terminal_both_raise_cannot_ask(*, require: bool) -> None:
    with pytest.raises(CannotAsk, match="no terminal"):
        breakpoints.breakpoint("Go?", require=require)
    with pytest.raises(CannotAsk, match="no terminal"):
        await abreakpoint("Go?", require=require)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "missing.md"])
def test_a_file_outside_or_missing_stops_before_anything_is_asked(path: str, tmp_path: Path) -> None:
    for files in ({"files": [path]}, {"context": {"files": [{"path": path, "format": "text"}]}}):
        with pytest.raises(FileRefused):
            breakpoints.breakpoint("Go?", **cast("Any", files))
    assert not (tmp_path / "local").exists()


def test_what_is_named_is_read_and_what_is_provided_stays(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    given = {
        "runId": "r1",
        "files": [{"path": "a.py", "format": "code"}, {"path": "b", "format": "text", "content": "y"}],
    }
    asking: Asking = {"agent_id": "bot", "payload": {"cost": 1}, "context": given}
    _, read, said = breakpoints._prepared("Go?", ["a.py"], asking)
    assert read == [ContextFile("a.py", "code", b"x = 1", "python")] * 2
    assert said.get("payload") == {"cost": 1, "context": {"runId": "r1", "files": [given["files"][1]]}}


def test_a_context_that_is_said_twice_must_be_the_same() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        breakpoints.breakpoint("Go?", context={"runId": "a"}, payload={"context": {"runId": "b"}})


@pytest.mark.parametrize(
    ("timeout", "ttl", "seconds"), [(None, None, None), (0.2, None, 1), (90, 60, 60), (30, 60, 30)]
)
def test_who_stops_waiting_at_a_terminal_ends_the_question(
    timeout: float | None, ttl: int | None, seconds: int | None
) -> None:
    body: dict[str, Any] = {"payload": {}}
    if ttl is not None:
        body["ttlSeconds"] = ttl
    assert local_body(body, (), timeout=timeout).get("ttlSeconds") == seconds
