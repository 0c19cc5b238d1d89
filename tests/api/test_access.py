"""Permissions: every documented route is called by every kind of caller."""

import base64
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from assent.asgi import application
from assent.audit.usecases.checkpoints import CheckpointService
from assent.breakpoints.store.files import Files
from assent.core.access import AGENT_PERMISSIONS, Permission
from assent.core.canonical import sha256
from assent.core.rules_file import SCHEMA_VERSION
from assent.core.secrets import secret
from assent.db.transaction import Transaction
from assent.delivery.store.deliveries import Deliveries
from assent.runs.model import RunFile
from assent.runs.store import Runs
from assent.triggers.event import Arrived
from assent.triggers.model import FiringState
from assent.triggers.store.firings import Firing, Firings
from assent.triggers.store.sources import Sources
from assent.triggers.usecases.ingest import receive
from tests.api.streams import Stream
from tests.support.nodes import ManualClock, Node

_numbers = itertools.count(1)
AGENTS = ("agent", "other agent")
READERS = ("viewer", "reviewer", "rule-admin", "auditor", "admin", "owner")
KNOWN = (*AGENTS, *READERS, "admin elsewhere", "metrics")
STRANGERS = ("nobody", "malformed", "mistyped", "never issued", "revoked", "expired", "closed person")
MEMBERS = ("reviewer", "admin", "owner")
ADMINS = ("admin", "owner")
PEOPLE_WITHOUT = ("viewer", "reviewer", "rule-admin", "auditor")
"""Roles that can list only their own tokens."""
RULE_WRITERS = ("rule-admin", *ADMINS)
STREAMS = frozenset({"/api/stream", "/api/breakpoints/{breakpoint_id}/stream"})
FILE = {"path": "plan.md", "format": "markdown", "content": "# Plan"}


@dataclass(frozen=True)
class Case:
    """One call with its expected status: `good` for `allowed`, 404 for `absent`, 422 for `refused`, otherwise 403."""

    method: str
    path: str
    good: int
    allowed: tuple[str, ...]
    absent: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    body: Any = None
    content: bytes | None = None
    public: bool = False
    what: str = ""
    expected: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        answers = dict.fromkeys(KNOWN, 403) | dict.fromkeys(self.allowed, self.good) | dict.fromkeys(self.absent, 404)
        answers |= dict.fromkeys(self.refused, 422)
        answers |= dict.fromkeys(STRANGERS, self.good if self.public else 401)
        object.__setattr__(self, "expected", answers)

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}{' ' if self.what else ''}{self.what}"


ONE = "/api/breakpoints/{breakpoint_id}"
RUN = "/api/runs/{run_id}"
HIDDEN = ("other agent", "admin elsewhere")
NEW = {"agentId": "a", "payload": {"question": "?"}}
YES = {"approved": True}
CONSUME = "/api/receipts/consume"
PROOF = "/api/audit/proofs/{subject_id}"
CONSISTENCY = "/api/audit/consistency"
RULE = {"pattern": "matches-{number}", "action": "never-auto-approve"}
RULES_FILE = {"schemaVersion": SCHEMA_VERSION, "rules": [RULE]}
HOOK = {"url": "https://nowhere.invalid/hook", "secrets": ["env:ACCESS_HOOK_SECRET"]}
CHANNEL = {"name": "hook-{number}", "type": "webhook", "settings": HOOK}
ROUTE = {"pattern": "*", "channels": ["standing"]}
LINK = {"identity": "U{number}", "person": "a-reviewer"}
LINKS = "/api/channels/{channel_id}/links"
ORDER = "/api/routes/order"
SOURCE = {"name": "clock-{number}", "kind": "schedule", "settings": {"cron": "0 0 1 1 *"}}
TRIGGER = {"name": "trigger-{number}", "on": "nothing.ever", "run": "idle"}
TRY = {"event": {"type": "nothing.ever", "data": {}}}
ONE_SOURCE = "/api/sources/{source_id}"
ONE_TRIGGER = "/api/triggers/{trigger_id}"
EVENT = "/api/trigger-events/{event_id}"
FIRING = "/api/firings/{firing_id}"
CLAUDE = "/api/hooks/claude"
CLAUDE_CALL = {
    "hook_event_name": "PreToolUse",
    "session_id": "session-{number}",
    "cwd": "/srv",
    "tool_name": "Bash",
    "tool_input": {},
    "tool_use_id": "toolu_{number}",
}
NOBODYS = {
    "number": "0",
    "n": "0",
    "project_id": "default",
    "name": "nobody-here",
    "token_id": "tok_" + "0" * 26,
    "hold_id": "hold_" + "0" * 26,
    "delivery_id": "dlv_" + "0" * 26,
    "rule_id": "rule-" + "0" * 26,
    "channel_id": "ch_" + "0" * 26,
    "route_id": "rt_" + "0" * 26,
    "source_id": "src_" + "0" * 26,
    "trigger_id": "trg_" + "0" * 26,
    "event_id": "evt_" + "0" * 26,
    "firing_id": "fir_" + "0" * 26,
    "run_id": "run_" + "0" * 26,
    "path": "kept.txt",
}
MADE: dict[str, tuple[str, Any]] = {
    "source_id": ("/api/sources", SOURCE),
    "trigger_id": ("/api/triggers", TRIGGER),
    "channel_id": ("/api/channels", CHANNEL),
    "route_id": ("/api/routes", ROUTE),
    "rule_id": ("/api/rules", RULE),
    "hold_id": ("/api/holds", {"reason": "x"}),
    "token_id": ("/api/tokens", {"kind": "agent", "name": "target"}),
}
TABLE = (
    Case("POST", "/api/breakpoints", 201, (*AGENTS, *MEMBERS, "admin elsewhere"), body=NEW),
    Case("GET", "/api/breakpoints", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("GET", ONE, 200, ("agent", *READERS), HIDDEN),
    Case("GET", ONE + "/status", 200, ("agent", *READERS), HIDDEN),
    Case("GET", ONE + "/stream", 200, ("agent", *READERS), HIDDEN),
    Case("GET", ONE + "/events", 200, ("agent", *READERS), HIDDEN),
    Case("GET", ONE + "/files/{n}", 200, ("agent", *READERS), HIDDEN),
    Case("POST", ONE + "/feedback", 200, MEMBERS, ("admin elsewhere",), body={"release": True}, what="approve"),
    Case("POST", ONE + "/feedback", 200, MEMBERS, ("admin elsewhere",), body={"approved": False}, what="reject"),
    Case("POST", ONE + "/feedback", 200, ("agent", *MEMBERS), HIDDEN, body={"comment": "Why?"}, what="comment"),
    Case("POST", ONE + "/cancel", 200, ("agent", *ADMINS), HIDDEN),
    Case("POST", ONE + "/expire", 200, ADMINS, ("admin elsewhere",)),
    Case("POST", CLAUDE, 200, (*AGENTS, *MEMBERS, "admin elsewhere"), body=CLAUDE_CALL),
    Case("GET", "/api/deliveries", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("GET", "/api/deliveries/{delivery_id}", 200, ("agent", *READERS), HIDDEN),
    Case("POST", "/api/deliveries/{delivery_id}/retry", 200, ADMINS, ("admin elsewhere",)),
    Case("GET", "/api/channels", 200, (*READERS, "admin elsewhere")),
    # The channel's secret refers to a server environment variable, which admins of a single project may not do.
    Case("POST", "/api/channels", 201, ("owner",), body=CHANNEL),
    Case("GET", "/api/channels/{channel_id}", 200, READERS, ("admin elsewhere",)),
    Case("PATCH", "/api/channels/{channel_id}", 200, ADMINS, ("admin elsewhere",), body={"enabled": False}),
    Case("DELETE", "/api/channels/{channel_id}", 204, ADMINS, ("admin elsewhere",)),
    Case("POST", "/api/channels/{channel_id}/test", 200, ADMINS, ("admin elsewhere",), body={}),
    Case("GET", LINKS, 200, ADMINS, ("admin elsewhere",)),
    Case("PUT", LINKS, 200, ADMINS, ("admin elsewhere",), body=LINK),
    Case("DELETE", LINKS, 204, ADMINS, ("admin elsewhere",)),
    Case("GET", "/api/routes", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/routes", 201, RULE_WRITERS, refused=("admin elsewhere",), body=ROUTE),
    Case("PUT", ORDER, 200, RULE_WRITERS, refused=("admin elsewhere",)),
    Case("POST", "/api/routes/check", 200, (*READERS, "admin elsewhere"), body={"breakpoint": NEW}),
    Case("PATCH", "/api/routes/{route_id}", 200, RULE_WRITERS, ("admin elsewhere",), body={"note": "New"}),
    Case("DELETE", "/api/routes/{route_id}", 204, RULE_WRITERS, ("admin elsewhere",)),
    Case("GET", "/api/sources", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/sources", 201, (*ADMINS, "admin elsewhere"), body=SOURCE),
    Case("GET", ONE_SOURCE, 200, READERS, ("admin elsewhere",)),
    Case("PATCH", ONE_SOURCE, 200, ADMINS, ("admin elsewhere",), body={"enabled": False}),
    Case("DELETE", ONE_SOURCE, 204, ADMINS, ("admin elsewhere",)),
    Case("GET", "/api/schedules", 200, (*READERS, "admin elsewhere")),
    Case("GET", "/api/triggers", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/triggers", 201, (*RULE_WRITERS, "admin elsewhere"), body=TRIGGER),
    Case("POST", "/api/triggers/check", 200, (*READERS, "admin elsewhere"), body=TRIGGER),
    Case("GET", ONE_TRIGGER, 200, READERS, ("admin elsewhere",)),
    Case("PATCH", ONE_TRIGGER, 200, RULE_WRITERS, ("admin elsewhere",), body={"note": "New"}),
    Case("DELETE", ONE_TRIGGER, 204, RULE_WRITERS, ("admin elsewhere",)),
    Case("POST", ONE_TRIGGER + "/suspend", 200, RULE_WRITERS, ("admin elsewhere",), body={}),
    Case("POST", ONE_TRIGGER + "/resume", 200, RULE_WRITERS, ("admin elsewhere",)),
    Case("GET", "/api/trigger-events", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/trigger-events/test", 200, (*READERS, "admin elsewhere"), body=TRY),
    Case("GET", EVENT, 200, READERS, ("admin elsewhere",)),
    Case("GET", EVENT + "/sketch", 200, READERS, ("admin elsewhere",)),
    Case("POST", EVENT + "/replay", 201, RULE_WRITERS, ("admin elsewhere",), body={}),
    Case("GET", "/api/firings", 200, (*READERS, "admin elsewhere")),
    Case("POST", FIRING + "/retry", 200, RULE_WRITERS, ("admin elsewhere",)),
    Case("POST", FIRING + "/discard", 200, RULE_WRITERS, ("admin elsewhere",)),
    Case("GET", "/api/history", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("GET", "/api/rules", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/rules", 201, (*RULE_WRITERS, "admin elsewhere"), body=RULE),
    Case("POST", "/api/rules/check", 200, (*AGENTS, *READERS, "admin elsewhere"), body={"breakpointId": "x"}),
    Case("GET", "/api/rules/claimed", 200, (*READERS, "admin elsewhere")),
    Case("GET", "/api/rules/export", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/rules/import", 200, (*RULE_WRITERS, "admin elsewhere"), body=RULES_FILE),
    Case("GET", "/api/rules/{rule_id}", 200, READERS, ("admin elsewhere",)),
    Case("GET", "/api/rules/{rule_id}/events", 200, READERS, ("admin elsewhere",)),
    Case("PATCH", "/api/rules/{rule_id}", 200, RULE_WRITERS, ("admin elsewhere",), body={"note": "New"}),
    Case("DELETE", "/api/rules/{rule_id}", 204, RULE_WRITERS, ("admin elsewhere",)),
    Case("POST", "/api/rules/backtest", 200, (*READERS, "admin elsewhere"), body={"pattern": "a"}),
    Case("GET", "/api/rules/{rule_id}/shadow", 200, READERS, ("admin elsewhere",)),
    Case("POST", ONE + "/always-approve", 200, READERS, ("admin elsewhere",)),
    Case("GET", "/api/stream", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/files", 201, (*AGENTS, *MEMBERS, "admin elsewhere"), content=b"bytes"),
    Case("GET", "/api/people", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/people", 201, (*ADMINS, "admin elsewhere"), body={"name": "new-{number}"}),
    Case("GET", "/api/people/{name}", 200, READERS, ("admin elsewhere",)),
    Case("PATCH", "/api/people/{name}", 200, ADMINS, ("admin elsewhere",), body={"displayName": "New"}),
    Case("GET", "/api/people/{name}/preferences", 200, ADMINS, ("admin elsewhere",)),
    Case("PUT", "/api/people/{name}/preferences", 200, ADMINS, ("admin elsewhere",), body={}),
    Case("GET", "/api/groups", 200, (*READERS, "admin elsewhere")),
    Case("PUT", "/api/groups/{name}", 200, (*ADMINS, "admin elsewhere"), body={"members": []}),
    Case("DELETE", "/api/groups/{name}", 204, ADMINS, ("admin elsewhere",)),
    Case("POST", "/api/people/{name}/confirm", 409, ADMINS, ("admin elsewhere",), body={}, what="of nothing"),
    Case("GET", "/api/tokens", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/tokens", 201, (*ADMINS, "admin elsewhere"), body={"kind": "agent", "name": "bot"}),
    Case("DELETE", "/api/tokens/{token_id}", 204, ADMINS, (*PEOPLE_WITHOUT, "admin elsewhere")),
    Case("GET", "/api/projects", 200, (*READERS, "admin elsewhere")),
    Case("POST", "/api/projects", 201, ("owner",), body={"id": "project-{number}"}),
    Case("PATCH", "/api/projects/{project_id}", 200, ADMINS, ("admin elsewhere",), body={"name": "Renamed"}),
    Case("DELETE", "/api/projects/{project_id}", 409, ADMINS, ("admin elsewhere",), what="the default one"),
    Case("GET", "/api/projects/{project_id}/callback-secret", 200, ADMINS, ("admin elsewhere",)),
    Case("POST", "/api/projects/{project_id}/callback-secret/rotate", 200, ADMINS, ("admin elsewhere",)),
    Case("GET", "/api/policy", 200, (*READERS, "admin elsewhere")),
    Case("PUT", "/api/policy", 200, (*ADMINS, "admin elsewhere"), body={"unknownExperts": "warn"}),
    Case("GET", "/api/holds", 200, ("auditor", *ADMINS, "admin elsewhere")),
    Case("POST", "/api/holds", 201, (*ADMINS, "admin elsewhere"), body={"reason": "The court asked."}),
    Case("DELETE", "/api/holds/{hold_id}", 204, ADMINS, ("admin elsewhere",)),
    Case("GET", ONE + "/receipt", 200, ("agent", *READERS), HIDDEN),
    Case("POST", "/api/receipts/consume", 200, ("agent",), refused=("admin elsewhere",)),
    Case("GET", "/api/receipts/keys", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("POST", "/api/receipts/keys/rotate", 200, (*ADMINS, "admin elsewhere"), body={}),
    Case("GET", "/api/audit/events", 200, ("auditor", *ADMINS, "admin elsewhere")),
    Case("GET", "/api/audit/checkpoints", 200, ("auditor", *ADMINS, "admin elsewhere")),
    Case("GET", "/api/audit/keys", 200, ("auditor", *ADMINS, "admin elsewhere")),
    Case("GET", PROOF, 200, ("auditor", *ADMINS), ("admin elsewhere",)),
    Case("GET", CONSISTENCY, 200, ("auditor", *ADMINS, "admin elsewhere")),
    Case("GET", "/api/processes", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("POST", "/api/runs", 201, (*AGENTS, *MEMBERS, "admin elsewhere"), body={"process": "idle"}),
    Case("GET", "/api/runs", 200, (*AGENTS, *READERS, "admin elsewhere")),
    Case("GET", RUN, 200, ("agent", *READERS), HIDDEN),
    Case("GET", RUN + "/journal", 200, ("agent", *READERS), HIDDEN),
    Case("GET", RUN + "/files/{path}", 200, ("agent", *READERS), HIDDEN),
    Case("POST", RUN + "/cancel", 200, ("agent", *ADMINS), HIDDEN),
    Case("POST", RUN + "/retry", 200, ("agent", *ADMINS), HIDDEN),
    Case("GET", "/healthz", 200, KNOWN, public=True),
    Case("GET", "/readyz", 200, KNOWN, public=True),
    Case("GET", "/metrics", 200, (*ADMINS, "admin elsewhere", "metrics")),
)


def operations(schema: dict[str, Any]) -> set[tuple[str, str]]:
    return {(method.upper(), path) for path, methods in schema["paths"].items() for method in methods}


@dataclass
class World:
    """A node with callers of every kind, whose requests come from another machine's address."""

    node: Node
    secrets: dict[str, str | None]

    async def call(self, who: str, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self.node.call(method, path, self.secrets[who], **options)

    async def raised(self) -> str:
        created = await self.node.create(self.secrets["agent"], payload={"question": "?", "context": {"files": [FILE]}})
        breakpoint_id: str = created["id"]
        return breakpoint_id

    async def failed_delivery(self) -> str:
        """Return the id of a failed delivery."""
        created = await self.node.create(self.secrets["agent"], callbackUrl="https://example.org/hook")
        found = await self.call("owner", "GET", f"/api/deliveries?breakpointId={created['id']}")
        delivery_id: str = found.json()["items"][0]["id"]

        def use_case(tx: Transaction) -> None:
            tx[Deliveries].bury(tx[Deliveries].get(delivery_id, project="default"), error="Gone.", now=tx.now())

        await self.node.assent.database.write(use_case)
        return delivery_id

    async def happened(self, number: str) -> dict[str, str]:
        """Return the ids of an event and of a firing whose run could not start."""
        named = {path: json.loads(json.dumps(body).replace("{number}", f"e{number}")) for path, body in MADE.values()}
        ids = {
            path: (await self.call("owner", "POST", path, json=named[path])).json()["id"]
            for path in ("/api/sources", "/api/triggers")
        }

        def use_case(tx: Transaction) -> dict[str, str]:
            [kept] = receive(tx, tx[Sources].get(ids["/api/sources"]), [Arrived(type="x", key=number, data={})])
            now = tx.now()
            dead = Firing(
                id=tx.new_id("fir"),
                project="default",
                event_id=kept.id,
                trigger_id=ids["/api/triggers"],
                trigger_name=named["/api/triggers"]["name"],
                trigger_version=1,
                state=FiringState.DEAD,
                first_at=now,
                created_at=now,
                updated_at=now,
            )
            tx[Firings].add(dead)
            return {"event_id": kept.id, "firing_id": dead.id}

        return await self.node.assent.database.write(use_case)

    async def started(self, *, failed: bool) -> str:
        """Return the id of a run with a stored file."""
        run_id: str = (await self.call("agent", "POST", "/api/runs", json={"process": "idle"})).json()["id"]

        def use_case(tx: Transaction) -> None:
            tx[Files].put("default", sha256(b"kept"), b"kept", at=tx.now())
            tx[Runs].keep_files(run_id, [RunFile("kept.txt", sha256(b"kept"), 4)], now=tx.now())
            if failed:
                tx.session.change("UPDATE assent_runs SET state = 'failed' WHERE id = :id", {"id": run_id})

        await self.node.assent.database.write(use_case)
        return run_id

    async def _asked(self, case: Case) -> dict[str, str]:
        """Create the breakpoint if the case requires one, and approve it if the case requires a receipt."""
        if "{breakpoint_id}" not in case.path and case.path != CONSUME:
            return {}
        breakpoint_id = await self.raised()
        if case.path in {ONE + "/receipt", CONSUME}:
            await self.call("reviewer", "POST", f"/api/breakpoints/{breakpoint_id}/feedback", json=YES)
        return {"breakpoint_id": breakpoint_id}

    async def target(self, case: Case) -> dict[str, str]:
        """Create the objects that the case's path refers to."""
        number = str(next(_numbers))
        found = {"number": number, "n": "0", "project_id": "default", "name": f"name-{number}", "path": "kept.txt"}
        found |= await self._asked(case)
        if case.path.startswith("/api/audit/"):
            found["subject_id"] = await self.raised()
            await self.node.assent.database.write(self.node.assent[CheckpointService].make)
        if "{run_id}" in case.path:
            found["run_id"] = await self.started(failed=case.path.endswith("/retry"))
        if "{delivery_id}" in case.path:
            found["delivery_id"] = await self.failed_delivery()
        if case.path.startswith((EVENT, FIRING)):
            found |= await self.happened(number)
        found |= await self._made(case, number)
        if case.path.endswith("/stream"):
            await self.call("agent", "POST", f"/api/breakpoints/{found.get('breakpoint_id')}/cancel")
        if case.path.startswith("/api/people/{name}"):
            await self.call("owner", "POST", "/api/people", json={"name": found["name"]})
        if case.path == "/api/groups/{name}":
            await self.call("owner", "PUT", f"/api/groups/{found['name']}", json={"members": []})
        return found

    async def _made(self, case: Case, number: str) -> dict[str, str]:
        """Create the objects that need only a single API request."""
        found: dict[str, str] = {}
        for name, (path, body) in MADE.items():
            if f"{{{name}}}" in case.path:
                fresh = json.loads(json.dumps(body).replace("{number}", number))
                found[name] = (await self.call("owner", "POST", path, json=fresh)).json()["id"]
        if case.path == ONE_TRIGGER + "/resume":
            await self.call("owner", "POST", f"/api/triggers/{found['trigger_id']}/suspend", json={})
        if case.path == LINKS:
            linked = {"identity": number, "person": "a-viewer"}
            await self.call("owner", "PUT", LINKS.format(**found), json=linked)
        if case.path == ORDER:
            await self.call("owner", "POST", "/api/routes", json=ROUTE)
        return found

    async def answer(self, who: str, case: Case, target: dict[str, str]) -> int:
        path = case.path.format(**target)
        asked = {("DELETE", LINKS): f"?identity={target['number']}", ("GET", CONSISTENCY): "?from=1"}
        path += asked.get((case.method, case.path), "")
        if case.path == CLAUDE:
            path += "?defer=true"  # otherwise, the response would wait for an answer
        if case.path in STREAMS:
            async with Stream(self.node, path, self.secrets[who]) as stream:
                return stream.status
        options: dict[str, Any] = {}
        if case.body is not None:
            options["json"] = json.loads(json.dumps(case.body).replace("{number}", target["number"] + who[:1]))
        if case.content is not None:
            options["content"] = case.content
        if case.path == CONSUME:
            receipt = await self.call("agent", "GET", f"/api/breakpoints/{target['breakpoint_id']}/receipt")
            options["json"] = {"receipt": receipt.json()}
        if case.path == ORDER:
            standing = (await self.call("owner", "GET", "/api/routes")).json()["items"]
            options["json"] = {"ids": [each["id"] for each in standing]}
        return (await self.call(who, case.method, path, **options)).status_code

    async def snapshot(self, target: dict[str, str]) -> dict[str, Any]:
        paths = ["people", "groups", "projects", "policy", "tokens", "holds", "rules", "channels", "routes", "sources"]
        paths += ["triggers", "firings"]
        if "breakpoint_id" in target:
            paths += [f"breakpoints/{target['breakpoint_id']}", f"breakpoints/{target['breakpoint_id']}/events"]
        if "delivery_id" in target:
            paths.append(f"deliveries/{target['delivery_id']}")
        if "run_id" in target:
            paths += [f"runs/{target['run_id']}", f"runs/{target['run_id']}/journal"]
        found = {path: (await self.call("owner", "GET", f"/api/{path}")).json() for path in paths}
        for token in found["tokens"]["items"]:
            del token["lastUsedAt"]
        return found


@pytest.fixture(scope="module", autouse=True)
def _secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACCESS_HOOK_SECRET", "whsec_" + base64.b64encode(b"a secret of 24 bytes or so").decode())
        yield


@pytest.fixture(scope="module")
async def world(shared: Node, shared_clock: ManualClock) -> AsyncIterator[World]:
    folder = shared.assent.settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "idle.py").write_text("async def process(inputs, ctx): ...\n")
    transport = httpx2.ASGITransport(app=application(shared.assent), client=("203.0.113.9", 4321))
    async with httpx2.AsyncClient(transport=transport, base_url="http://assent.test", timeout=60) as client:
        node = Node(shared.assent, client)
        owner = await node.token("admin")
        await node.call("POST", "/api/projects", owner, json={"id": "elsewhere"})
        callers: dict[str, str | None] = {
            "owner": owner,
            "agent": await node.token("agent"),
            "other agent": await node.token("agent", name="other"),
            "metrics": await node.token("metrics"),
            "admin elsewhere": await node.person("a-foreign-admin", "admin", project="elsewhere"),
        }
        for role in ("viewer", "reviewer", "rule-admin", "auditor", "admin"):
            callers[role] = await node.person(f"a-{role}", role)
        await node.call("POST", "/api/channels", owner, json=CHANNEL | {"name": "standing"})
        yield World(node, callers | await _strangers(node, owner, shared_clock))


async def _strangers(node: Node, owner: str, clock: ManualClock) -> dict[str, str | None]:
    good = await node.token("agent")
    revoked = (await node.call("POST", "/api/tokens", owner, json={"kind": "admin", "name": "gone"})).json()
    await node.call("DELETE", f"/api/tokens/{revoked['id']}", owner)
    expired = await node.token("admin", expires_in=5)
    clock.advance(6)
    closed = await node.person("a-former-admin", "admin", "reviewer")
    await node.call("PATCH", "/api/people/a-former-admin", owner, json={"active": False})
    return {
        "nobody": None,
        "malformed": "let-me-in",
        "mistyped": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "never issued": secret("agent", b"\x07" * 32),
        "revoked": revoked["token"],
        "expired": expired,
        "closed person": closed,
    }


async def test_every_route_is_listed_in_the_access_table(shared: Node) -> None:
    schema = (await shared.call("GET", "/openapi.json")).json()
    assert operations(schema) == {(case.method, case.path) for case in TABLE}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
async def test_each_route_responds_to_each_caller_as_the_table_specifies(world: World, case: Case) -> None:
    answers: dict[str, int] = {}
    target = await world.target(case)
    before = await world.snapshot(target)
    for who in [who for who, expected in case.expected.items() if expected >= 400 or case.method == "GET"]:
        answers[who] = await world.answer(who, case, target)
    assert await world.snapshot(target) == before, f"a rejected call changed something: {answers}"
    for who in case.expected.keys() - answers.keys():
        answers[who] = await world.answer(who, case, await world.target(case))
    assert answers == case.expected


@pytest.mark.parametrize("who", ["agent", "other agent", "metrics", "viewer", "rule-admin", "auditor"])
async def test_no_route_lets_a_caller_without_permission_decide(world: World, who: str) -> None:
    stuffed = {"release": True, "approved": True, "decision": "approved", "status": "released", "comment": "Yes."}
    bodies = [stuffed, {"release": True}, {"approved": True}, {"approved": False}, {"option": "yes", "release": True}]
    writing = {(case.method, case.path) for case in TABLE if case.method != "GET"}
    for method, path in sorted(writing):
        target = NOBODYS | {"breakpoint_id": await world.raised()}
        for body in bodies:
            await world.call(who, method, path.format(**target), json=body)
        after = (await world.call("owner", "GET", f"/api/breakpoints/{target['breakpoint_id']}")).json()
        assert "decision" not in after, f"{method} {path}"
        assert after["responses"] == []


def test_agents_have_no_permission_to_decide() -> None:
    assert AGENT_PERMISSIONS.isdisjoint(
        {Permission.DECIDE, Permission.OVERRIDE, Permission.EXPIRE, Permission.MANAGE, Permission.METRICS}
    )


async def test_the_database_rejects_an_agent_token_with_roles(world: World) -> None:
    def use_case(tx: Transaction) -> None:
        tx.session.change("UPDATE assent_tokens SET roles = :roles WHERE kind = 'agent'", {"roles": '["reviewer"]'})

    with pytest.raises(Exception, match=r"(?i)check"):
        await world.node.assent.database.write(use_case)


FOREIGN = ("agent elsewhere", "everybody elsewhere", "other agent")


@pytest.fixture(scope="module")
async def foreigners(world: World) -> World:
    node = world.node
    return World(
        node,
        world.secrets
        | {
            "agent elsewhere": await node.token("agent", project="elsewhere", name="foreign"),
            "everybody elsewhere": await node.person(
                "a-foreigner", "viewer", "reviewer", "rule-admin", "auditor", "admin", project="elsewhere"
            ),
        },
    )


def _without(ids: Iterable[str], text: str) -> str:
    for each in ids:
        text = text.replace(each, "ID")
    return text


@pytest.mark.parametrize("who", FOREIGN)
async def test_inaccessible_objects_are_indistinguishable_from_nonexistent_ones(foreigners: World, who: str) -> None:
    """The response for an existing id must not reveal more than the response for a nonexistent id."""
    for case in TABLE:
        if "{breakpoint_id}" not in case.path or case.path in STREAMS:
            continue
        real = {"breakpoint_id": await foreigners.raised(), "n": "0"}
        invented = {"breakpoint_id": "bp_" + "0" * 26, "n": "0"}
        answers = [
            await foreigners.call(
                who, case.method, case.path.format(**ids), json=case.body, headers={"X-Request-Id": "same"}
            )
            for ids in (real, invented)
        ]
        ids = [real["breakpoint_id"], invented["breakpoint_id"]]
        seen = [(each.status_code, _without(ids, each.text), dict(each.headers)) for each in answers]
        for _, _, headers in seen:
            headers.pop("content-length")
        assert seen[0] == seen[1], case.name
        assert seen[0][0] in {403, 404}


async def test_lists_never_contain_objects_from_another_project(foreigners: World) -> None:
    breakpoint_id = await foreigners.raised()
    who = "everybody elsewhere"
    listed = (await foreigners.call(who, "GET", "/api/breakpoints?limit=200&counts=true")).json()
    assert breakpoint_id not in {each["id"] for each in listed["items"]}
    assert sum(listed["counts"].values()) == len(listed["items"])
    projects = (await foreigners.call(who, "GET", "/api/projects")).json()["items"]
    assert [each["id"] for each in projects] == ["elsewhere"]
    people = {each["name"] for each in (await foreigners.call(who, "GET", "/api/people")).json()["items"]}
    assert people.isdisjoint({"a-viewer", "a-reviewer", "a-admin"})
    assert {"a-foreigner", "a-foreign-admin"} <= people
    tokens = (await foreigners.call(who, "GET", "/api/tokens")).json()["items"]
    assert "agent-1" not in {each["name"] for each in tokens}
    assert "foreign" in {each["name"] for each in tokens}


async def test_an_agent_lists_only_its_own_breakpoints(world: World) -> None:
    mine = await world.raised()
    theirs = (await world.node.create(world.secrets["other agent"]))["id"]
    listed = (await world.call("other agent", "GET", "/api/breakpoints?limit=200&counts=true")).json()
    ids = {each["id"] for each in listed["items"]}
    assert theirs in ids
    assert mine not in ids
    assert listed["counts"]["waiting"] == sum(each["status"] == "waiting" for each in listed["items"])


@pytest.mark.parametrize(
    ("gate", "agent_id", "expected"),
    [
        ("ci.deploy", "bot-1", 201),
        ("ci.", "bot-", 201),
        ("cd.deploy", "bot-1", 403),
        ("xci.deploy", "bot-1", 403),
        ("CI.deploy", "bot-1", 403),
        ("ci.deploy", "robot-1", 403),
        ("ci.deploy", "BOT-1", 403),
    ],
)
async def test_a_token_creates_breakpoints_only_within_its_patterns(
    world: World, gate: str, agent_id: str, expected: int
) -> None:
    token = await world.node.token("agent", gates=("ci.*",), agent_ids=("bot-*",))
    body = {"agentId": agent_id, "payload": {"question": "?", "breakpointId": gate}}
    answer = await world.node.call("POST", "/api/breakpoints", token, json=body)
    assert answer.status_code == expected


async def test_a_tokens_gate_patterns_apply_to_a_gate_derived_from_the_title(world: World) -> None:
    token = await world.node.token("agent", gates=("ci.*",))
    body = {"agentId": "a", "title": "Deploy to production", "payload": {}}
    answer = await world.node.call("POST", "/api/breakpoints", token, json=body)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_project_admin_cannot_create_a_token_with_wider_access(world: World) -> None:
    """A token cannot create a token with more permissions than its own, even one for the owner of all projects."""
    for kind in ("admin", "reviewer", "viewer"):
        body = {"kind": kind, "name": "climb", "person": "owner"}
        answer = await world.call("admin elsewhere", "POST", "/api/tokens", json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "token" not in answer.json()
    own = await world.call("admin elsewhere", "POST", "/api/tokens", json={"kind": "admin", "name": "own"})
    assert (own.json()["person"], own.json()["roles"]) == ("a-foreign-admin", ["admin"])


async def test_a_token_cannot_have_roles_that_its_person_lacks(world: World) -> None:
    for kind in ("reviewer", "rule-admin", "auditor"):
        body = {"kind": kind, "name": "more"}
        answer = await world.call("viewer", "POST", "/api/tokens", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    body = {"kind": "admin", "name": "everything they have"}
    assert (await world.call("viewer", "POST", "/api/tokens", json=body)).json()["roles"] == ["viewer"]


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "reviewer", "person": "a-reviewer", "gates": ["ci.*"]},
        {"kind": "reviewer", "person": "a-reviewer", "agentIds": ["bot-*"]},
        {"kind": "metrics", "gates": ["ci.*"]},
        {"kind": "agent", "person": "a-reviewer"},
        {"kind": "metrics", "person": "a-reviewer"},
    ],
)
async def test_a_limit_that_would_have_no_effect_is_rejected(world: World, body: dict[str, Any]) -> None:
    answer = await world.call("owner", "POST", "/api/tokens", json={"name": "limited", **body})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_losing_a_role_takes_effect_on_the_next_request(world: World) -> None:
    token = await world.node.person("a-leaver", "reviewer")
    breakpoint_id = await world.raised()
    assert (await world.node.call("GET", f"/api/breakpoints/{breakpoint_id}", token)).status_code == 200
    await world.call("owner", "PATCH", "/api/people/a-leaver", json={"roles": []})
    answer = await world.node.feedback(breakpoint_id, token, release=True)
    assert answer.status_code == 403
    assert (await world.node.call("GET", f"/api/breakpoints/{breakpoint_id}", token)).status_code == 403


async def test_a_person_without_roles_can_be_granted_one_again(world: World) -> None:
    await world.node.person("a-returner", "reviewer")
    await world.call("admin", "PATCH", "/api/people/a-returner", json={"roles": []})
    answer = await world.call("admin", "PATCH", "/api/people/a-returner", json={"roles": ["viewer"]})
    assert answer.json()["roles"] == ["viewer"]


async def test_metrics_are_public_only_for_local_requests(shared: Node, world: World) -> None:
    assert (await shared.call("GET", "/metrics")).status_code == 200
    assert (await world.call("nobody", "GET", "/metrics")).status_code == 401
    assert (await shared.call("GET", "/metrics", world.secrets["viewer"])).status_code == 403


async def test_the_actor_comes_from_the_token_and_never_from_the_body(world: World) -> None:
    breakpoint_id = await world.raised()
    for extra in ({"actor": "person:owner"}, {"respondedBy": "owner"}, {"author": "owner"}, {"via": "slack"}):
        answer = await world.call(
            "reviewer", "POST", f"/api/breakpoints/{breakpoint_id}/feedback", json={"comment": "Hm.", **extra}
        )
        assert answer.status_code == 422
    await world.call("reviewer", "POST", f"/api/breakpoints/{breakpoint_id}/feedback", json={"comment": "Hm."})
    after = (await world.call("reviewer", "GET", f"/api/breakpoints/{breakpoint_id}")).json()
    assert [each["author"] for each in after["feedback"]] == ["person:a-reviewer"]


async def test_only_bearer_tokens_are_accepted(world: World) -> None:
    token = world.secrets["viewer"]
    for scheme, expected in (("Bearer", 200), ("bearer", 200), ("Basic", 401), ("Token", 401), ("", 401)):
        answer = await world.node.call(
            "GET", "/api/breakpoints", headers={"authorization": f"{scheme} {token}".strip()}
        )
        assert answer.status_code == expected, scheme


async def test_an_unauthenticated_response_names_the_bearer_scheme(world: World) -> None:
    answer = await world.call("nobody", "GET", "/api/breakpoints")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["code"] == "unauthenticated"
