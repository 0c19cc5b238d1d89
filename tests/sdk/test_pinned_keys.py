"""With a pinned receipt key, no SDK call returns an approval that was not signed with that key."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx2
import pytest

from assent import Assent, AsyncAssent, abreakpoint, approve, breakpoint  # noqa: A004  # the product's term
from assent.core.receipts import public_key, spelt
from assent.kernel.settings import Settings
from assent.sdk.errors import InvalidReceipt, ReceiptMismatch
from tests.support.nodes import prepared, server

STRANGER = spelt(public_key(b"x" * 32))


@dataclass(frozen=True)
class Office:
    """A server on which a rule approves everything at one gate."""

    url: str
    token: str
    key: str


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    settings = Settings(data_dir=folder)
    settings.sqlite_path.write_bytes(sqlite_template.read_bytes())
    agent, admin = prepared(settings, "agent", "admin")
    with server(settings) as process, Assent(process.url, admin) as reviewer:
        rule = {"pattern": "auto.*", "action": "auto-approve"}
        headers = {"authorization": f"Bearer {admin}"}
        assert httpx2.post(f"{process.url}/api/rules", json=rule, headers=headers).status_code == 201
        (key,) = [each for each in reviewer.receipt_keys().items if each.state == "current"]
        yield Office(process.url, agent, key.public_key)


@pytest.fixture(autouse=True)
def _environment(office: Office, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSENT_URL", office.url)
    monkeypatch.setenv("ASSENT_TOKEN", office.token)
    monkeypatch.setenv("ASSENT_LOCAL_DIR", str(tmp_path))


def by_breakpoint() -> bool:
    return breakpoint("Go?", breakpoint_id="auto.go", agent_id="a").approved


def by_abreakpoint() -> bool:
    async def ask() -> bool:
        return (await abreakpoint("Go?", breakpoint_id="auto.go", agent_id="a")).approved

    return asyncio.run(ask())


def by_wait() -> bool:
    with Assent() as assent:
        return assent.wait(assent.create("Go?", breakpoint_id="auto.go", agent_id="a").id).approved


def by_async_wait() -> bool:
    async def ask() -> bool:
        async with AsyncAssent() as assent:
            asked = await assent.create("Go?", breakpoint_id="auto.go", agent_id="a")
            return (await assent.wait(asked.id)).approved

    return asyncio.run(ask())


def by_decorator() -> bool:
    @approve("Go?", breakpoint_id="auto.go", agent_id="a")
    def go() -> bool:
        return True

    return go()


CALLS: list[Callable[[], bool]] = [by_breakpoint, by_abreakpoint, by_wait, by_async_wait, by_decorator]


@pytest.mark.parametrize("call", CALLS)
def test_an_approval_signed_with_the_pinned_key_is_returned(
    office: Office, monkeypatch: pytest.MonkeyPatch, call: Callable[[], bool]
) -> None:
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", office.key)
    assert call()


@pytest.mark.parametrize("call", CALLS)
def test_an_approval_signed_with_another_key_raises(monkeypatch: pytest.MonkeyPatch, call: Callable[[], bool]) -> None:
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", STRANGER)
    with pytest.raises(InvalidReceipt):
        call()


@pytest.mark.parametrize("call", [by_breakpoint, by_abreakpoint, by_decorator])
def test_a_local_answer_raises_when_a_key_is_pinned(
    office: Office, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: Callable[[], bool]
) -> None:
    monkeypatch.delenv("ASSENT_URL")
    monkeypatch.delenv("ASSENT_TOKEN")
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", office.key)
    rules = {"rules": [{"pattern": "auto.*", "action": "auto-approve"}]}
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    with pytest.raises(InvalidReceipt, match="Set ASSENT_URL"):
        call()


class Replay(BaseHTTPRequestHandler):
    """A malicious server that answers every request with a genuine approval of a different question."""

    answers: ClassVar[dict[str, bytes]] = {}

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # signature of the base class
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer(201, "whole")

    def do_GET(self) -> None:
        last = self.path.partition("?")[0].rsplit("/", 1)[-1]
        self._answer(200, last if last in self.answers else "whole")

    def _answer(self, status: int, name: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(self.answers[name])))
        self.end_headers()
        self.wfile.write(self.answers[name])


@pytest.fixture
def rogue(office: Office) -> Iterator[str]:
    """Return the URL of a server that replays a genuine approval."""
    with Assent(office.url, office.token) as assent:
        harmless = assent.create("May I read the README?", breakpoint_id="auto.read", agent_id="a").id
    headers = {"authorization": f"Bearer {office.token}"}
    addresses = {"whole": "", "status": "/status", "receipt": "/receipt"}
    Replay.answers = {
        name: httpx2.get(f"{office.url}/api/breakpoints/{harmless}{path}", headers=headers).content
        for name, path in addresses.items()
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), Replay) as server_:
        threading.Thread(target=server_.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server_.server_port}"
        server_.shutdown()


@pytest.mark.parametrize("call", CALLS)
def test_a_replayed_approval_of_a_different_question_raises(
    office: Office, rogue: str, monkeypatch: pytest.MonkeyPatch, call: Callable[[], bool]
) -> None:
    monkeypatch.setenv("ASSENT_URL", rogue)
    monkeypatch.setenv("ASSENT_RECEIPT_KEY", office.key)
    with pytest.raises(ReceiptMismatch):
        call()
