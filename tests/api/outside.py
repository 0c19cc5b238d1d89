"""Fixtures for trigger tests: a source that signs its requests, a process, and the processing of events."""

import json
import textwrap
from typing import Any

import httpx2

from assent.db.transaction import Transaction
from assent.sdk import signing
from assent.triggers.usecases.dispatch import TriggeringService
from tests.support.nodes import ManualClock, Node

SECRET = "It's a Secret to Everybody"
PUSH: dict[str, Any] = {
    "ref": "refs/heads/main",
    "before": "0" * 40,
    "after": "a" * 40,
    "repository": {"full_name": "acme/shop"},
    "sender": {"login": "octocat", "type": "User"},
    "commits": [],
    "nothing": None,
}
PROCESS = '''
from assent import process


@process(name="fix-ci")
async def fix_ci(inputs, ctx):
    """Repairs what is broken."""
    return inputs["event"]["sha"]
'''


async def admin(node: Node, method: str, path: str, body: Any = None) -> httpx2.Response:
    return await node.call(method, path, await node.token("admin"), json=body)


async def good(node: Node, method: str, path: str, body: Any = None) -> Any:
    answer = await admin(node, method, path, body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def pointer(answer: httpx2.Response) -> str:
    assert answer.status_code == 422, answer.text
    found: str = answer.json()["errors"][0]["pointer"]
    return found


def write_process(node: Node, source: str = PROCESS, name: str = "fix_ci") -> None:
    folder = node.assent.settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(textwrap.dedent(source))


async def source(node: Node, name: str = "shop") -> dict[str, Any]:
    """Create a source for a GitHub repository, with HUB_SECRET as its secret."""
    body = {"name": name, "kind": "github", "settings": {"secrets": ["env:HUB_SECRET"]}}
    made: dict[str, Any] = await good(node, "POST", "/api/sources", body)
    return made


async def trigger(node: Node, name: str = "fix-red-main", **more: Any) -> dict[str, Any]:
    body = {"name": name, "on": "github.push(branch = 'main')", "run": "fix-ci"} | more
    made: dict[str, Any] = await good(node, "POST", "/api/triggers", body)
    return made


async def pushed(node: Node, name: str = "shop", delivery: str = "d-1", **changes: Any) -> str:
    """Send a push event, one second after the previous one, and wait until it is processed."""
    if isinstance(node.assent.clock, ManualClock):
        node.assent.clock.advance(1)
    body = json.dumps(PUSH | changes).encode()
    headers = signing.signed("github", SECRET, signing.Call(body, "push", delivery))
    answer = await node.client.post(
        f"/hooks/{name}", content=body, headers={"content-type": "application/json"} | headers
    )
    assert answer.status_code in {200, 202}, answer.text
    await looked(node)
    event_id: str = answer.json()["eventId"]
    return event_id


async def looked(node: Node) -> None:
    """Process everything that is due; the node's scheduler may do so at the same time."""
    while await node.assent.database.write(node.assent[TriggeringService].advance_due) or await _waiting(node):
        pass


async def _waiting(node: Node) -> int:
    statement = "SELECT count(*) FROM assent_trigger_events WHERE state = 'received'"
    return await node.assent.database.read(lambda tx: int(tx.session.all(statement, {})[0][0]))


async def rows(node: Node) -> dict[str, int]:
    """Return the number of stored rows per table."""

    def use_case(tx: Transaction) -> dict[str, int]:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'assent_%'"
        if tx.session.dialect == "postgresql":
            names = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'assent_%'"
        return {
            name: int(tx.session.all(f"SELECT count(*) FROM {name}", {})[0][0]) for (name,) in tx.session.all(names, {})
        }

    return await node.assent.database.read(use_case)
