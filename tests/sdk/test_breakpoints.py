"""`breakpoint` and `abreakpoint`: where they ask, and how they interpret their arguments."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from assent.contracts.breakpoints import BreakpointResult
from assent.sdk import breakpoints
from assent.sdk.breakpoints import abreakpoint, local_body, server_is_set
from assent.sdk.context import Context, current
from assent.sdk.errors import BadAddress, CannotAsk, FileRefused, InvalidRequest
from assent.sdk.files import ContextFile
from assent.sdk.protocol import Asking

APPROVED = BreakpointResult(approved=True, status="released", auto=False, decision="approved")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove the server, and use a separate folder; under pytest there is no terminal."""
    for name in ("ASSENT_URL", "ASSENT_TOKEN", "ASSENT_AGENT_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSENT_LOCAL_DIR", str(tmp_path / "local"))
    monkeypatch.chdir(tmp_path)


class Run:
    """A run that records its questions."""

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
def test_a_server_is_used_as_soon_as_one_is_configured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert not server_is_set()
    monkeypatch.setenv(name, "nonsense nonsense")
    assert server_is_set()
    with pytest.raises(BadAddress):
        breakpoints.breakpoint("Go?")


async def test_inside_a_run_abreakpoint_creates_a_breakpoint_that_belongs_to_the_run(inside: Run) -> None:
    assert await abreakpoint("Go?", tags=["a"], require=True) == APPROVED
    assert inside.asked[0]["question"] == "Go?"
    assert inside.asked[0]["tags"] == ["a"]
    assert inside.asked[0]["require"] is True
    with pytest.raises(InvalidRequest, match="ttl_seconds"):
        await abreakpoint("Go?", timeout=1)


def test_inside_a_run_the_blocking_breakpoint_call_is_rejected(inside: Run) -> None:
    with pytest.raises(RuntimeError, match="await"):
        breakpoints.breakpoint("Go?")
    assert inside.asked == []


@pytest.mark.parametrize("require", [True, False])
async def test_both_calls_raise_cannot_ask_without_a_terminal(*, require: bool) -> None:
    with pytest.raises(CannotAsk, match="no terminal"):
        breakpoints.breakpoint("Go?", require=require)
    with pytest.raises(CannotAsk, match="no terminal"):
        await abreakpoint("Go?", require=require)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "missing.md"])
def test_missing_files_and_files_outside_the_root_are_rejected_before_asking(path: str, tmp_path: Path) -> None:
    for files in ({"files": [path]}, {"context": {"files": [{"path": path, "format": "text"}]}}):
        with pytest.raises(FileRefused):
            breakpoints.breakpoint("Go?", **cast("Any", files))
    assert not (tmp_path / "local").exists()


def test_only_context_files_without_content_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    given = {
        "runId": "r1",
        "files": [{"path": "a.py", "format": "code"}, {"path": "b", "format": "text", "content": "y"}],
    }
    asking: Asking = {"agent_id": "bot", "payload": {"cost": 1}, "context": given}
    _, read, said = breakpoints._prepared("Go?", ["a.py"], asking)
    assert read == [ContextFile("a.py", "code", b"x = 1", "python")] * 2
    assert said.get("payload") == {"cost": 1, "context": {"runId": "r1", "files": [given["files"][1]]}}


def test_conflicting_contexts_are_rejected() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        breakpoints.breakpoint("Go?", context={"runId": "a"}, payload={"context": {"runId": "b"}})


@pytest.mark.parametrize(
    ("timeout", "ttl", "seconds"), [(None, None, None), (0.2, None, 1), (90, 60, 60), (30, 60, 30)]
)
def test_the_shorter_of_timeout_and_ttl_limits_a_terminal_question(
    timeout: float | None, ttl: int | None, seconds: int | None
) -> None:
    body: dict[str, Any] = {"payload": {}}
    if ttl is not None:
        body["ttlSeconds"] = ttl
    assert local_body(body, (), timeout=timeout).get("ttlSeconds") == seconds
