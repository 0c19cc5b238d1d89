"""A realistic project after a month of use, with people, agents, gates, rules, answers and pending breakpoints."""

import base64
import random
import struct
import textwrap
import zlib
from dataclasses import dataclass, replace
from typing import Any

from assent.core.access import Role
from assent.db.transaction import Transaction
from assent.delivery.routes_file import checked
from assent.delivery.store.channels import Channels, StoredChannel
from assent.delivery.store.deliveries import Attempt, Deliveries, Delivery
from assent.delivery.store.links import Links
from assent.delivery.store.routes import Routes, StoredRoute
from assent.delivery.usecases.links import LinkService
from assent.kernel.clock import SystemClock
from assent.kernel.settings import Settings
from assent.people.preferences import read as read_preferences
from assent.people.store.people import People
from assent.people.store.preferences import PreferenceStore
from assent.people.usecases.people import PeopleService
from tests.browser.lifelike_triggers import triggered
from tests.support.nodes import ManualClock, Node, running_node

MINUTE, HOUR, DAY = 60, 3600, 86400
PEOPLE: dict[str, tuple[str, set[Role]]] = {
    "mia": ("Mia Lindqvist", set(Role)),
    "jonas": ("Jonas Weber", {Role.REVIEWER}),
    "priya": ("Priya Raman", {Role.REVIEWER, Role.RULE_ADMIN}),
    "tom": ("Tom Okafor", {Role.VIEWER, Role.AUDITOR}),
}
RELEASE = """
    from assent import process

    def build(version):
        return {"image": f"registry/shop:{version}", "tests": 412}

    @process
    async def release(inputs, ctx):
        "Builds a version, asks people, and rolls it out."
        built = await ctx.task(build, inputs["version"])
        ctx.log("built the image", built)
        await ctx.save_file("plan.md", "# Roll out\\n\\nOne region after the other.")
        ctx.log("all tests passed", {"tests": built["tests"]})
        review = await ctx.breakpoint(
            f"Roll out shop {inputs['version']} to all regions?",
            title=f"Roll out shop {inputs['version']}",
        )
        return {"rolledOut": review.approved}
"""
NIGHTLY = """
    from assent import process

    def tidy(days):
        return {"removed": days * 31}

    @process
    async def nightly_tidy(inputs, ctx):
        "Removes what nobody has needed for a while."
        removed = await ctx.task(tidy, inputs.get("days", 30))
        ctx.log("removed old previews", removed)
        return removed
"""
PLAN = """\
# Move billing to the v2 ledger

**Goal:** move 41,000 accounts without downtime. The old ledger stays readable for 30 days.

| Step | Risk | Can be taken back |
|---|---|---|
| Write to both ledgers | low | yes |
| Copy the history | medium | yes |
| Read from `ledger_v2` | **high** | within 24 hours |

- [x] Schema reviewed
- [x] Copied to staging, sums agree
- [ ] Load test at three times the usual traffic

To go back, set `BILLING_READ_V2=0`.
"""
DIFF = """\
--- a/billing/ledger.py
+++ b/billing/ledger.py
@@ -10,5 +10,8 @@ class Ledger:
     def charge(self, account, cents):
         if cents <= 0:
             raise ValueError(cents)
-        self.v1.insert(account, cents)
-        return self.v1.balance(account)
+        with self.transaction():
+            self.v1.insert(account, cents)
+            self.v2.append(account, cents, at=self.clock.now())
+        reader = self.v2 if self.settings.read_v2 else self.v1
+        return reader.balance(account)
"""
CODE = '''\
def backfill(ledger: Ledger, batch: int = 500) -> int:
    """Copy one batch; safe to run again."""
    rows = ledger.v1.fetch(batch)
    return sum(ledger.v2.upsert(row) for row in rows)
'''
REPORT = """\
<style>body {font: 14px sans-serif; margin: 16px} td, th {padding: 4px 12px; text-align: left}</style>
<h3>Load test</h3>
<table><tr><th>Requests per second<th>p50<th>p99<tr><td>1,000<td>12 ms<td>48 ms<tr><td>3,000<td>19 ms<td>92 ms</table>
"""
FIGURES = (
    '{"accounts": 41022, "batches": 83, "differences": [], "checked": {"sum": true, "count": true}, "region": "eu-1"}'
)


def _drawing() -> str:
    """Return a small bar chart as a PNG."""
    width, height, bars = 480, 160, (40, 62, 55, 90, 120, 84, 132, 110)
    lines = b"".join(
        b"\0"
        + b"".join(
            b"\x3a\x4a\xb8" if x % 60 > 14 and height - y < bars[x // 60] else b"\xf7\xf7\xf8" for x in range(width)
        )
        for y in range(height)
    )

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return base64.b64encode(whole).decode()


def _ledger(plan: str, **more: Any) -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {"path": "plan.md", "format": "markdown", "content": plan},
        {"path": "changes.diff", "format": "diff", "content": DIFF},
        {"path": "billing/backfill.py", "format": "code", "language": "python", "content": CODE},
        {"path": "rehearsal.json", "format": "json", "content": FIGURES},
        {"path": "accounts-per-batch.png", "format": "image", "contentBase64": _drawing()},
        {"path": "load-test.html", "format": "html", "content": REPORT},
        {"path": "rehearsal.log", "format": "text"},
    ]
    payload = {
        "question": "Move billing to the v2 ledger tonight?",
        "breakpointId": "billing.migrate",
        "expert": ["mia", "priya"],
        "context": {"files": files},
    }
    return {"agentId": "billing-agent", "title": "Move billing to the v2 ledger", "runId": "run-ledger-v2"} | {
        "tags": ["billing", "database"], "payload": payload | more
    }  # fmt: skip


def _asked(agent: str, gate: str, title: str, question: str, **more: Any) -> dict[str, Any]:
    outer = {name: more.pop(name) for name in ("tags", "ttlSeconds", "runId", "priority") if name in more}
    return {"agentId": agent, "title": title, "payload": {"question": question, "breakpointId": gate} | more} | outer


PAST = (
    (
        "deploy-bot",
        "deploy.staging",
        "Deploy shop {n} to staging",
        "Deploy shop {n} to staging?",
        ["deploy", "staging"],
    ),
    (
        "deploy-bot",
        "deploy.production",
        "Deploy shop {n} to production",
        "All tests passed. Deploy?",
        ["deploy", "prod"],
    ),
    ("docs-writer", "docs.publish", "Publish the release notes of {n}", "Publish them?", ["docs"]),
    ("sec-auditor", "deps.update", "Update httpx to 0.{n}", "No known weakness. Update?", ["security"]),
    ("support-agent", "refund.send", "Refund order 7{n}1", "The parcel was lost. Refund 49 €?", ["money"]),
)
FORM = {
    "properties": {
        "percent": {"type": "integer", "title": "Traffic in the first hour (%)", "minimum": 1, "maximum": 100},
        "region": {"type": "string", "title": "First region", "enum": ["eu-1", "us-1", "ap-1"]},
        "notify": {"type": "boolean", "title": "Tell the support team"},
    },
    "required": ["percent", "region"],
}
NOTES = """\
## What is new in 4.12

Orders are charged **once**, also when a customer presses twice. Staging has run it since Friday.

| Check | Before | Now |
|---|---|---|
| Double charges in staging | 7 | **0** |
| p99 of `POST /orders` | 92 ms | 88 ms |
"""
SHOP = [
    {"path": "notes.md", "format": "markdown", "content": NOTES},
    {"path": "orders.diff", "format": "diff", "content": DIFF.replace("billing/ledger", "shop/orders")},
]
WAITING = (
    (190, _asked("sec-auditor", "deps.update", "Update openssl to 3.5.2",
                 "Two weaknesses are fixed. Update all services?", tags=["security"], ttlSeconds=6 * HOUR)),
    (140, _asked("db-keeper", "db.drop-index", "Drop the index ix_orders_legacy",
                 "It takes 14 GB and was not used for 90 days. Drop it?",
                 risk="high", tags=["database", "irreversible"])),
    (110, _asked("claude-code", "tool.bash", "pg_dump --format=custom --jobs=4 shop > /backup/shop-4.12.dump",
                 "pg_dump --format=custom --jobs=4 shop > /backup/shop-4.12.dump", tags=["shop"],
                 tool="Bash", directory="/srv/shop",
                 arguments={"command": "pg_dump --format=custom --jobs=4 shop > /backup/shop-4.12.dump"})),
    (108, _asked("claude-code", "tool.edit", "Raise the limit for uploads", "May I raise it to 20 MB?", tags=["shop"],
                 tool="Edit", directory="/srv/shop",
                 arguments={"file_path": "/srv/shop/settings/uploads.py", "old_string": "10", "new_string": "20"})),
    (95, _asked("docs-writer", "docs.publish", "Publish the release notes of 4.12",
                "Publish them on the blog?", tags=["docs"])),
    (64, _asked("support-agent", "refund.send", "Refund order 88213", "The parcel was lost. Refund 129 €?",
                tags=["money"], ttlSeconds=75 * MINUTE)),
    (48, _asked("deploy-bot", "deploy.rollout", "Choose how to roll out shop 4.12", "Which way should I take?",
                options=["Canary", "Blue and green", "All at once"], tags=["deploy", "prod"], ttlSeconds=3 * HOUR)),
    (33, _asked("deploy-bot", "deploy.plan", "Set up the first hour of shop 4.12", "How much traffic, and where first?",
                form=FORM, tags=["deploy"], ttlSeconds=DAY)),
    (22, _asked("star-bot", "github.star", "Star tokio-rs/tokio", "We depend on it. Star it?", tags=["routine"])),
    (21, _asked("star-bot", "github.star", "Star encode/uvicorn", "We depend on it. Star it?", tags=["routine"])),
    (20, _asked("star-bot", "github.star", "Star pallets/jinja", "We depend on it. Star it?", tags=["routine"])),
    (12, _asked("deploy-bot", "deploy.production", "Deploy shop 4.12 to production", "All 412 tests passed. Deploy?",
                tags=["deploy", "prod"], ttlSeconds=20 * MINUTE, priority="urgent",
                context={"files": SHOP})),
)  # fmt: skip
RULES = (
    {"pattern": "deploy.staging(tags contains 'staging')", "action": "auto-approve",
     "note": "Staging is ours to break."},
    {"pattern": "refund.*", "action": "never-auto-approve", "note": "Money is always looked at."},
    {"pattern": "docs.publish(tags contains 'docs')", "action": "auto-approve", "mode": "shadow",
     "note": "On trial until the end of the month."},
)  # fmt: skip


@dataclass
class Lifelike:
    """IDs that the screenshots refer to."""

    agent: str
    admin: str
    ledger: str = ""
    ended: str = ""
    dead: str = ""
    """A dead delivery."""
    chat: str = ""
    """The ID of the Slack channel."""
    offer: str = ""
    """The secret in a URL that links a Slack user's account."""
    event: str = ""
    """The event of a failed build that started a run."""
    trigger: str = ""
    github: str = ""
    """The ID of the GitHub source."""


async def seed(settings: Settings) -> Lifelike:
    """Simulate a month until now, mostly over the HTTP API."""
    folder = settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "release.py").write_text(textwrap.dedent(RELEASE))
    (folder / "tidy.py").write_text(textwrap.dedent(NIGHTLY))
    now = SystemClock().now()
    clock = ManualClock(now - 29 * DAY * 1_000_000)
    async with running_node(settings, clock=clock) as node:
        tokens = await _people(node)
        node.tokens["agent"] = await node.token("agent", name="shop agents")
        story = Lifelike(node.tokens["agent"], tokens["mia"])
        await _month(node, clock, tokens, until=now - 7 * HOUR * 1_000_000)
        await _add_pending(node, clock, tokens, story, now)
        await node.assent.database.write(lambda tx: _add_channels(tx, node, clock, story, now))
        await triggered(node, clock, story, now)
    return story


async def _done(node: Node, method: str, path: str, token: str, body: Any) -> None:
    answer = await node.call(method, path, token, json=body)
    assert answer.is_success, answer.text


async def _people(node: Node) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for name, (full, roles) in PEOPLE.items():
        tokens[name] = await node.person(name, *(role.value for role in roles))
        await _done(node, "PATCH", f"/api/people/{name}", tokens["mia"], {"displayName": full})
    await _done(node, "PUT", "/api/groups/release-team", tokens["mia"], {"members": ["mia", "jonas"]})
    await _done(node, "PUT", "/api/groups/billing", tokens["mia"], {"members": ["mia", "priya"]})
    await node.token("agent", name="nightly build", gates=("deps.*",), creates_per_minute=60)
    playground = {"id": "playground", "name": "Playground"}
    await _done(node, "POST", "/api/projects", await node.token("admin", name="set-up"), playground)

    def newcomer(tx: Transaction) -> None:
        node.assent[PeopleService].create_person(tx, "nils", project="playground", roles=frozenset({Role.REVIEWER}))

    await node.assent.database.write(newcomer)
    return tokens


async def _month(node: Node, clock: ManualClock, tokens: dict[str, str], *, until: int) -> None:
    """Create breakpoints at random intervals; most are approved within the hour, some are rejected and some expire."""
    chance = random.Random(6)  # a fixed seed, so that every run creates the same month
    number = 100
    pause = 0.0
    while clock.now() + round((pause + 2 * HOUR) * 1_000_000) < until:
        clock.advance(pause)
        if number == 220:
            for rule in RULES:
                await _done(node, "POST", "/api/rules", tokens["priya"], rule)
        agent, gate, title, question, tags = PAST[chance.choice((0, 0, 1, 1, 2, 3, 4))]
        named = {"n": f"{number // 30}.{number % 30}"} if agent == "deploy-bot" else {"n": str(number)}
        more = {"ttlSeconds": 2 * HOUR} if chance.random() < 0.1 else {}
        asked = _asked(agent, gate, title.format(**named), question.format(**named), tags=tags, **more)
        raised = await node.create(**asked)
        clock.advance(chance.expovariate(1 / 900) + 20)
        if raised["status"] == "waiting" and not more:
            approved = chance.random() < (0.97 if gate == "docs.publish" else 0.85)
            comment = (
                "" if approved else chance.choice(("Wait until Monday.", "The numbers do not add up.", "Not now."))
            )
            who = tokens[chance.choice(("mia", "jonas", "jonas", "priya"))]
            answer = {"approved": approved, "comment": comment}
            await _done(node, "POST", f"/api/breakpoints/{raised['id']}/feedback", who, answer)
        pause = chance.expovariate(1 / (2.2 * HOUR))
        number += 1


async def _add_pending(node: Node, clock: ManualClock, tokens: dict[str, str], story: Lifelike, now: int) -> None:
    def at(minutes: float) -> None:
        clock.at = max(clock.at, now - round(minutes * MINUTE * 1_000_000))

    at(400)
    first = await node.create(
        **_ledger(PLAN.replace("Load test at three", "Load test at twice").replace(" within 24 hours", " no"))
    )
    at(380)
    reason = "How do we go back after the reads moved? Please rehearse it, and test with three times the traffic."
    answer = {"approved": False, "comment": reason}
    await _done(node, "POST", f"/api/breakpoints/{first['id']}/feedback", tokens["mia"], answer)
    story.ended = first["id"]
    for minutes, body in WAITING:
        at(minutes)
        raised = await node.create(**body)
        if body["agentId"] == "db-keeper":
            at(minutes - 9)
            said = {"comment": "I looked at the slow queries: nobody needs it."}
            await _done(node, "POST", f"/api/breakpoints/{raised['id']}/feedback", tokens["jonas"], said)
    at(3)
    again = _ledger(PLAN, attempt=2, previousFeedback=reason) | {"ttlSeconds": 11 * MINUTE}
    story.ledger = (await node.create(**again))["id"]


SECRETS = {
    "SLACK_TOKEN": "xoxb-1",
    "SLACK_SIGNING": "shh",
    "SMTP_PASSWORD": "shh",
    "PAGER_HOOK": "whsec_YSBzZWNyZXQgb2YgMjQgYnl0ZXMgb3Igc28=",
    "JIRA_TOKEN": "shh",
    "GITHUB_HOOK": "shh",
    "CI_HOOK": "whsec_YSBzZWNyZXQgb2YgMjQgYnl0ZXMgb3Igc28=",
}
"""The server's environment variables, which contain the channels' secrets."""
CHANNELS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("chat", "slack", {"token": "env:SLACK_TOKEN", "signingSecret": "env:SLACK_SIGNING", "room": "#releases"}),
    ("mail", "email", {"host": "smtp.shop.example", "from": "Assent <assent@shop.example>", "user": "assent",
                       "password": "env:SMTP_PASSWORD"}),
    ("pager", "webhook", {"url": "https://pager.shop.example/hooks/assent", "secrets": ["env:PAGER_HOOK"]}),
    ("audit", "jira", {"url": "https://shop.atlassian.example", "project": "OPS", "user": "assent@shop.example",
                       "token": "env:JIRA_TOKEN", "approve": ["Approved"], "reject": ["Declined"], "pollSeconds": 0}),
)  # fmt: skip
ROUTES: tuple[dict[str, Any], ...] = (
    {"pattern": "billing.*", "channels": ["chat", "mail"], "to": ["experts"], "fallback": ["pager"],
     "remind": ["30m", "2h"], "escalate": [{"after": "4h", "to": ["group:billing"], "channels": ["pager"]}],
     "timeout": {"after": "1d", "then": "reject"}, "note": "Money moves: never silent."},
    {"pattern": "deploy.production(tags contains 'prod')", "channels": ["chat"], "to": ["group:release-team"],
     "remind": ["15m"], "quiet": False},
    {"pattern": "db.*", "channels": ["mail"], "to": ["person:jonas", "owner"]},
)  # fmt: skip


def _add_channels(tx: Transaction, node: Node, clock: ManualClock, story: Lifelike, now: int) -> None:
    """Create channels and routes, and deliveries in various states, including answered and dead."""
    ids = {name: tx.new_id("ch") for name, _, _ in CHANNELS}
    for name, kind, settings in CHANNELS:
        tx[Channels].add(StoredChannel(
            id=ids[name], project="default", name=name, type=kind, settings=settings, created_by="person:mia",
            created_at=now - 20 * DAY * 1_000_000, updated_at=now - 20 * DAY * 1_000_000,
        ))  # fmt: skip
    for position, body in enumerate(ROUTES, start=1):
        made = checked(body, route_id=tx.new_id("rt"))
        tx[Routes].add(StoredRoute(id=made.id, project="default", position=position, route=made))
    story.chat = ids["chat"]
    _add_deliveries(tx, clock, story, ids, now)
    mia, jonas = tx[People].get_by_name("mia"), tx[People].get_by_name("jonas")
    for identity, person in (("T0SHOP:U0MIA7", mia), ("T0SHOP:U0JONAS", jonas)):
        tx[Links].link(ids["chat"], identity, person_id=person.id, by="person:mia", now=now - 9 * DAY * 1_000_000)
    quiet = {"from": "21:30", "to": "07:00", "timezone": "Europe/Stockholm"}
    tx[PreferenceStore].put(mia.id, read_preferences({"channels": ["mail"], "quiet": quiet}), now=now)
    tx[Channels].note_heard(ids["chat"], now - 12_000_000)
    tx[Channels].note_ok(ids["chat"], now - 3 * MINUTE * 1_000_000)
    tx[Channels].note_ok(ids["mail"], now - 40 * MINUTE * 1_000_000)
    tx[Channels].note_failed(ids["pager"], "pager.shop.example said 503.", now - 4 * MINUTE * 1_000_000)
    clock.at = now
    story.offer = node.assent[LinkService].offer(tx, ids["chat"], "T0SHOP:U0TOM", shown_as="Tom Okafor (@tom)")


def _add_deliveries(tx: Transaction, clock: ManualClock, story: Lifelike, ids: dict[str, str], now: int) -> None:
    sent = (
        (story.ended, "chat", "place", 1, "ask", "answered", 400),
        (story.ended, "mail", "person:mia", 1, "ask", "superseded", 400),
        (story.ledger, "chat", "place", 1, "ask", "sent", 3),
        (story.ledger, "mail", "person:mia", 1, "ask", "sent", 3),
        (story.ledger, "mail", "person:priya", 1, "ask", "pending", 2.9),
        (story.ledger, "pager", "place", 1, "escalate", "dead", 2),
    )
    for breakpoint_id, channel, recipient, seq, purpose, state, minutes in sent:
        clock.at = now - round(minutes * MINUTE * 1_000_000)
        new = Delivery(
            id=tx.new_id("dlv"), project="default", breakpoint_id=breakpoint_id, channel=ids[channel],
            recipient=recipient, seq=seq, type="created", state="pending", attempts=0, next_at=clock.at,
            last_error=None, created_at=clock.at, updated_at=clock.at, purpose=purpose,
        )  # fmt: skip
        tx[Deliveries].add(new, now=clock.at)
        errors = {"dead": ["pager.shop.example said 503."] * 3, "pending": ["smtp.shop.example took too long."]}
        for n, error in enumerate([*errors.get(state, []), None][: 3 if state == "dead" else 1], start=1):
            tx[Deliveries].claim(replace(new, attempts=n - 1), worker="shop-1:4711", now=clock.at, lease=clock.at)
            status = 503 if state == "dead" else None
            tx[Deliveries].finish_attempt(new.id, Attempt(n, clock.at, "", 86 + 211 * n, status, error))
            later = now + 25 * MINUTE * 1_000_000 if state == "pending" else clock.at
            failed = replace(new, attempts=n, state="pending", last_error=error, next_at=later)
            tx[Deliveries].record(failed, now=clock.at)
            clock.at += 9_000_000
        if state != "pending":
            _end(tx, replace(new, state=state), clock.at)
        if state == "dead":
            story.dead = new.id


def _end(tx: Transaction, ended: Delivery, at: int) -> None:
    (current,) = [
        each
        for each in tx[Deliveries].page("default", {"breakpoint_id": ended.breakpoint_id}, after="", limit=50)
        if each.id == ended.id
    ]
    if ended.state == "dead":
        tx[Deliveries].give_up(current, error=current.last_error or "", now=at)
    elif ended.state == "superseded":
        tx[Deliveries].supersede(current, now=at)
    else:
        tx[Deliveries].claim(current, worker="shop-1:4711", now=at, lease=at)
        tx[Deliveries].record(replace(current, attempts=current.attempts + 1, state="sent"), now=at)
        if ended.state == "answered":
            tx[Deliveries].answered(ended.id, now=at)
