"""A seeded random walk: the model, SQLite and PostgreSQL run the same commands and must agree after each one.

Many walkers run concurrently on separate breakpoints, so that the databases process mixed batches. A divergence is
reported with the seed, the round and all commands on the breakpoint.
"""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio

from assent.audit.usecases.verify import AuditService
from assent.breakpoints.usecases.inbox import InboxService
from assent.breakpoints.usecases.lifecycle import SWEEP, BreakpointService, Once
from assent.core.access import EVERY_ROLE, Kind, Permission, Principal, Role
from assent.core.canonical import canonical, sha256
from assent.core.draft import Draft, draft
from assent.core.errors import AssentError
from assent.core.terms import Answer
from assent.db.transaction import Transaction
from assent.kernel.settings import Settings
from assent.node import Node as ServerNode
from assent.people.store.people import People
from assent.people.usecases.people import PeopleService
from assent.policy.store.rules import Rules
from assent.policy.usecases.rules import NewRule, RuleService
from tests.conformance.model import AGENTS, GROUPS, PATTERNS, PEOPLE, REVOCABLE, World
from tests.support.nodes import ManualClock

WALKERS = 48
SECOND = 1_000_000
BROKEN = "*(tags contains"
EXPERTS = [
    ["ann"], ["owner"], ["ops"], ["solo"], ["ghost"], ["empty"], ["ann", "bob"], ["ops", "legal"], ["ann", "ops"],
    ["ann", "bob", "cid"], ["ops", "legal", "dee"], ["owner", "ghost"], ["ann", "ghost", "tpyo"], ["owner", "ann"],
    ["dee", "eve", "boss"], ["eve", "ghost"], ["ann", "ann"], ["dee", "solo"], ["ops", "ann", "bob"], ["boss", "owner"],
    ["ann", "bob", "cid", "dee"], ["legal", "solo", "empty"], ["owner", "ghost", "eve"], ["owner", "heads", "ghost"],
    ["ops", "legal", "ann", "bob", "cid"], ["heads", "ghost", "ann"],
]  # fmt: skip


PAYLOAD = {
    "expert": "expert", "strategy": "strategy", "options": "options", "risk": "risk", "hardStop": "hard_stop",
    "autoApproveAfterN": "after_n", "size": "size",
}  # fmt: skip
_RULE = re.compile(r"rule-[0-9a-z]{10,}")


class Diverged(AssertionError):
    """Raised if the model and a database disagree."""


@dataclass
class Side:
    """A node with its own database. People have the same names in every database, but different IDs."""

    assent: ServerNode
    cast: dict[str, Principal] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)

    async def prepare(self) -> None:
        await self.assent.database.start()

        def use_case(tx: Transaction) -> dict[str, str]:
            people = self.assent[PeopleService]
            ids = {"owner": people.bootstrap(tx).id}
            for name, roles in PEOPLE.items():
                if name != "owner":
                    held = frozenset(map(Role, roles))
                    ids[name] = people.create_person(tx, name, project="default", roles=held).id
            for name, members in GROUPS.items():
                tx[People].put_group("default", name, [ids[member] for member in sorted(members)], at=tx.now())
            return ids

        ids = await self.assent.database.write(use_case)
        for name, roles in PEOPLE.items():
            held = EVERY_ROLE if name == "owner" else frozenset(map(Role, roles))
            self.cast[name] = Principal(kind=Kind.PERSON, id=ids[name], name=name, project="default", roles=held)
        for name in AGENTS:
            self.cast[name] = Principal(kind=Kind.AGENT, id=f"tok_{name}", name=name, project="default")

    async def outcome(self, use_case: Callable[[Transaction], Any]) -> tuple[str, Any]:
        try:
            return "ok", await self.assent.database.write(use_case)
        except AssentError as error:
            return error.code, None

    async def read(self, actor: str, number: int) -> tuple[str, Any]:
        try:
            await self.assent[InboxService].whole(self.ids[number], self.cast[actor])
        except AssentError as error:
            return error.code, None
        return "ok", None

    async def sweep(self) -> int:
        total = 0
        while (found := await self.assent.database.write(self.assent[BreakpointService].time_out_due)) == SWEEP:
            total += found
        return total + found

    async def set_roles(self, name: str, roles: set[str]) -> None:
        def use_case(tx: Transaction) -> None:
            tx[People].grant(self.cast[name].id, "default", map(Role, roles))

        await self.assent.database.write(use_case)

    async def set_policy(self, policy: dict[str, Any]) -> None:
        await self.assent.database.write(
            partial(self.assent[PeopleService].put_policy, policy=policy, by=self.cast["owner"])
        )

    async def rule(self, number: int) -> dict[str, Any]:
        """Return the stored state of a rule."""

        def use_case(tx: Transaction) -> dict[str, Any]:
            rule = tx[Rules].get(self.rules[number], project="default")
            return {
                "pattern": rule.pattern,
                "action": rule.action,
                "mode": rule.mode,
                "enabled": rule.enabled,
                "expires": rule.expires_at,
                "order": rule.order,
                "created": rule.created_at,
                "updated": rule.updated_at,
                "removed": rule.removed_at,
                "version": rule.version,
                "events": [event.type for event in tx[Rules].events(rule.id)],
            }

        return await self.assent.database.read(use_case)

    def renamed(self, text: str | None) -> str | None:
        """Replace rule IDs with the numbers that the model uses, because IDs differ between databases."""
        return text and _RULE.sub(lambda found: f"#{self.rules.index(found.group())}", text)

    async def states(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Return the stored state of these breakpoints."""
        number_of = {self.ids[number]: number for number in numbers}
        names = ", ".join(f":id_{n}" for n in range(len(number_of)))
        params = {f"id_{n}": each for n, each in enumerate(number_of)}

        def use_case(tx: Transaction) -> dict[int, dict[str, Any]]:
            events: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
            rows = tx.session.all(
                f"SELECT breakpoint_id, seq, type, actor FROM assent_events WHERE breakpoint_id IN ({names})"
                " ORDER BY breakpoint_id, seq",
                params,
            )
            for breakpoint_id, seq, kind, actor in rows:
                events[breakpoint_id].append((seq, kind, self.renamed(actor) or ""))
            votes: dict[str, dict[str, tuple[bool, bool]]] = defaultdict(dict)
            rows = tx.session.all(
                "SELECT breakpoint_id, person, approved, override FROM assent_responses"
                f" WHERE breakpoint_id IN ({names})",
                params,
            )
            for breakpoint_id, person, approved, override in rows:
                votes[breakpoint_id][person] = (bool(approved), bool(override))
            rows = tx.session.all(
                "SELECT id, status, decision, ended_by, version, comments, votes, due_at, result,"
                " (SELECT count(*) FROM assent_comments c WHERE c.breakpoint_id = b.id), auto_approval,"
                " (SELECT metadata FROM assent_events e WHERE e.breakpoint_id = b.id AND e.seq = 1)"
                f" FROM assent_breakpoints b WHERE id IN ({names})",
                params,
            )
            return {number_of[row[0]]: _state(self, row, events[row[0]], votes[row[0]]) for row in rows}

        return await self.assent.database.read(use_case)


def _state(
    side: Side, row: Sequence[Any], events: list[tuple[int, str, str]], votes: dict[str, tuple[bool, bool]]
) -> dict[str, Any]:
    _, status, decision, ended_by, version, comments, counted, due, result, comment_rows, auto, creation = row
    return {
        "status": status,
        "decision": decision,
        "ended_by": side.renamed(ended_by),
        "auto": _auto(json.loads(side.renamed(auto) or ""), json.loads(side.renamed(creation) or "")),
        "version": version,
        "seqs": [seq for seq, _, _ in events],
        "events": [kind for _, kind, _ in events],
        "ender": [actor for _, kind, actor in events if kind in {"released", "expired", "cancelled"}],
        "comments": comments,
        "comment rows": comment_rows,
        "votes": votes,
        "counted": counted,
        "due": due,
        "approved": json.loads(result)["approved"] if result else None,
    }


def _auto(said: dict[str, Any], creation: dict[str, Any]) -> dict[str, Any]:
    """Return the recommendation without the explanation of unknown values, which the model does not produce."""
    reason = said["reason"].partition("; ")[0].rstrip(".") + "." if "matchedRule" in said else said["reason"]
    auto = {"recommended": said["recommended"], "consecutive": said["consecutiveApprovals"], "reason": reason}
    if "matchedRule" in said:
        auto["matched"] = said["matchedRule"]
    shadow = [[each["rule"], each["version"], each["recommended"]] for each in creation.get("shadow", [])]
    return auto | {"shadow": shadow}


def expected(bp: dict[str, Any]) -> dict[str, Any]:
    ended = bp["status"] != "waiting"
    return {
        "auto": bp["auto"],
        "status": bp["status"],
        "decision": bp["decision"],
        "ended_by": bp["ended_by"],
        "version": len(bp["events"]),
        "seqs": list(range(1, len(bp["events"]) + 1)),
        "events": bp["events"],
        "ender": [bp["ended_by"]] if ended else [],
        "comments": bp["comments"],
        "comment rows": bp["comments"],
        "votes": bp["votes"],
        "counted": len(bp["votes"]),
        "due": bp["due"],
        "approved": bp["decision"] == "approved" if ended else None,
    }


@dataclass
class Walk:
    """The state of a random walk on two databases."""

    world: World
    clock: ManualClock
    sides: Sequence[Side]
    seed: int
    chance: random.Random
    steps: int = 0
    rounds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    open: list[list[int]] = field(default_factory=lambda: [[] for _ in range(WALKERS)])
    done_to: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    digests: list[str] = field(default_factory=list)

    def told(self) -> str:
        made, per_kind = (
            len(self.world.breakpoints),
            ", ".join(f"{kind} {n}" for kind, n in sorted(self.outcomes.items())),
        )
        by_rule = sum((bp["ended_by"] or "").startswith("rule:") for bp in self.world.breakpoints)
        raised = f"{made} breakpoints ({by_rule} approved by rules)"
        return f"model: seed {self.seed}, {self.steps} steps, {raised}, 0 divergences; {per_kind}"

    async def go(self, enough: Callable[["Walk"], bool]) -> None:
        while not enough(self):
            await self._between()
            await self._round()
            self.rounds += 1

    async def _between(self) -> None:
        """Advance the clock, sometimes exactly to a deadline, and randomly end overdue breakpoints or change roles."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.25:
            dues = [self.world.breakpoints[n]["due"] for group in self.open for n in group]
            near = [due for due in dues if self.clock.at < due < self.clock.at + 200 * SECOND]
            if near:
                self._set_clock(chance.choice(near) - chance.choice([0, 0, 1]))
        elif kind < 0.7:
            self._set_clock(self.clock.at + chance.randrange(15 * SECOND))
        if chance.random() < 0.2:
            swept = self.world.sweep()
            await self._everywhere("sweep", swept, lambda side: side.sweep())
            self.steps += 1
        if chance.random() < 0.1:
            name = chance.choice(REVOCABLE)
            roles = self.world.roles[name]
            roles ^= {"reviewer"}
            for side in self.sides:
                await side.set_roles(name, roles)
            self.steps += 1
        await self._rules_between()

    async def _rules_between(self) -> None:
        if self.chance.random() < 0.5:
            await self._rule_step()
        if self.chance.random() < 0.05:
            await self._policy_step()

    async def _policy_step(self) -> None:
        world = self.world
        world.always_break_on = self.chance.choice([[], ["prod"], ["docs", "prod"], ["nothing"]])
        world.agents_may_count = self.chance.random() < 0.8
        policy: dict[str, Any] = {"alwaysBreakOn": world.always_break_on}
        if not world.agents_may_count:
            policy["autoApproveAfterN"] = "ignore"
        for side in self.sides:
            await side.set_policy(policy)
        self.steps += 1

    async def _rule_step(self) -> None:
        """Create, change or remove a rule while no breakpoints are being created, so that the model knows the order."""
        chance, world = self.chance, self.world
        self._set_clock(self.clock.at + 1)  # the order of rules with equal times depends on random IDs
        actor = chance.choice(["owner"] * 5 + ["boss", "adm", "ann", "agent-1"])
        standing = [n for n, rule in enumerate(world.rules) if rule["removed"] is None]
        if len(standing) < 2 or (len(standing) < 6 and chance.random() < 0.4):
            kind, number, said = "write", None, self._rule()
            outcome, number = world.write_rule(actor, said)
            use_case = partial(_write_rule, actor, said)
        else:
            number = chance.choice(standing * 9 + list(range(len(world.rules))))
            if_match = world.rules[number]["version"] - chance.choice([0, 0, 1]) if chance.random() < 0.3 else None
            said = self._rule_change()
            if chance.random() < 0.7:
                kind, outcome = "change", world.change_rule(actor, number, said, if_match)
                use_case = partial(_change_rule, actor, number, said, if_match)
            else:
                kind, outcome = "remove", world.remove_rule(actor, number, if_match)
                use_case = partial(_remove_rule, actor, number, if_match)
        await self._everywhere(f"{kind} rule {number} by {actor} {said}", outcome, use_case)
        self.outcomes[f"{kind} rule {outcome}"] += 1
        if number is not None:
            want = {name: value for name, value in world.rules[number].items() if name != "name"}
            await self._everywhere(f"rule {number} after {kind}", want, lambda side: side.rule(number))
        self.steps += 1

    def _rule(self) -> dict[str, Any]:
        chance = self.chance
        said: dict[str, Any] = {
            "pattern": chance.choice([*PATTERNS, *PATTERNS, BROKEN]),
            "action": chance.choice(["auto-approve"] * 3 + ["never-auto-approve"]),
        }
        return said | {name: value for name, value in self._rule_change().items() if chance.random() < 0.3}

    def _rule_change(self) -> dict[str, Any]:
        chance = self.chance
        some: dict[str, Any] = {
            "pattern": chance.choice([*PATTERNS, BROKEN]),
            "action": chance.choice(["auto-approve", "auto-approve", "never-auto-approve"]),
            "mode": chance.choice(["live", "live", "shadow"]),
            "enabled": chance.random() < 0.7,
            "expires": chance.choice([None, self.clock.at + chance.randrange(-5, 100) * SECOND]),
            "order": chance.randrange(10),
        }
        names = chance.sample(sorted(some), chance.choice([1, 1, 2, 3]))
        return {name: some[name] for name in names}

    def _set_clock(self, at: int) -> None:
        self.clock.at = self.world.now = max(at, self.clock.at)

    async def _everywhere(self, what: str, wanted: object, run: Callable[[Side], Awaitable[object]]) -> None:
        for side in self.sides:
            got = await run(side)
            if got != wanted:
                raise Diverged(f"seed {self.seed}, round {self.rounds}: {what} on {_name(side)}: {got} != {wanted}")

    async def _round(self) -> None:
        jobs = [self._command(walker) for walker in range(WALKERS)]
        got: dict[tuple[int, int], tuple[str, Any]] = {}

        async def run(index: int, walker: int, job: "Job") -> None:
            got[index, walker] = await job.run(self.sides[index])

        async with anyio.create_task_group() as group:
            for index in range(len(self.sides)):
                for walker, job in enumerate(jobs):
                    group.start_soon(run, index, walker, job)
        for walker, job in enumerate(jobs):
            self._check_outcome(walker, job, [got[index, walker] for index in range(len(self.sides))])
        await self._check_states(sorted({job.number for job in jobs if job.number is not None}))
        self.steps += len(jobs)

    def _check_outcome(self, walker: int, job: "Job", got: list[tuple[str, Any]]) -> None:
        self.outcomes[f"{job.kind} {job.outcome}"] += 1
        if job.number is not None:
            self.done_to[job.number].append(f"{job.text} → {job.outcome}")
        for side, (code, value) in zip(self.sides, got, strict=True):
            if code != job.outcome:
                raise Diverged(
                    self._story(job.number, f"{_name(side)} says {code}, the model {job.outcome}: {job.text}")
                )
            if job.kind == "create" and code == "ok" and job.number is not None:
                if job.number == len(side.ids):
                    side.ids.append(value)
                elif side.ids[job.number] != value:
                    raise Diverged(self._story(job.number, f"{_name(side)} gave another breakpoint for the same key"))
        if job.kind == "create" and job.number is not None and job.number not in self.open[walker]:
            self.open[walker].append(job.number)

    async def _check_states(self, numbers: list[int]) -> None:
        for side in self.sides:
            states = await side.states(numbers) if numbers else {}
            for number in numbers:
                want = expected(self.world.breakpoints[number])
                if states.get(number) != want:
                    raise Diverged(self._story(number, f"{_name(side)} holds {states.get(number)}\nthe model {want}"))

    def _story(self, number: int | None, what: str) -> str:
        told = "\n  ".join(self.done_to.get(number, [])) if number is not None else ""
        subject = self.world.breakpoints[number] if number is not None else ""
        return f"seed {self.seed}, round {self.rounds}, step {self.steps}: {what}\n  {told}\n  {subject}"

    def _command(self, walker: int) -> "Job":
        chance, numbers = self.chance, self.open[walker]
        for number in list(numbers):
            # Commands on ended breakpoints must fail, so use these breakpoints a few more times before abandoning them.
            if self.world.breakpoints[number]["status"] != "waiting" and chance.random() < 0.3:
                numbers.remove(number)
        if not numbers or (len(numbers) < 3 and chance.random() < 0.15):
            return self._create(walker)
        number = chance.choice(numbers)
        kind = chance.choices(["respond", "comment", "cancel", "expire", "read"], [70, 10, 5, 3, 12])[0]
        if kind == "respond":
            return self._respond(number)
        actor = self._actor(number)
        outcome = getattr(self.world, kind)(actor, number)
        return Job(kind, f"{self._at()} {kind} by {actor}", outcome, number, partial(_simple, kind, actor, number))

    def _at(self) -> str:
        return f"[{self.clock.at}]"

    def _actor(self, number: int) -> str:
        creator: str = self.world.breakpoints[number]["creator"]
        return self.chance.choice([*PEOPLE, *AGENTS, creator, creator, "owner", "boss"])

    def _create(self, walker: int) -> "Job":
        chance = self.chance
        actor = chance.choice([*AGENTS, *AGENTS, *AGENTS, "ann", "owner", "vic"])
        spec = self._rules_see(walker) | self._people_see()
        key = f"{walker}-{chance.randrange(6)}-{self.rounds // 20}" if chance.random() < 0.3 else None
        outcome, number = self.world.create(actor, spec, key)
        wanted, digest = _draft(spec)
        if number is not None and number == len(self.digests):
            self.digests.append(digest)
        text = f"{self._at()} create by {actor} {spec} key {key}"
        ready = chance.random() < 0.5
        return Job("create", text, outcome, number, partial(_create, actor, wanted, digest, spec, key, ready=ready))

    def _rules_see(self, walker: int) -> dict[str, Any]:
        """Draw the attributes that rules use."""
        chance = self.chance
        # Walkers use separate gates, because counting consecutive approvals requires a known order of decisions.
        spec: dict[str, Any] = {
            "gate": f"{chance.choice(['under-test', 'under-test', 'deploy', 'read'])}.{walker}",
            "agent": chance.choice(["agent", "agent", "agent", "other"]),
            "tags": chance.sample(["walk", "prod", "docs"], chance.choice([1, 1, 2])),
        }
        if chance.random() < 0.3:
            spec["after_n"] = chance.choice([0, 1, 1, 2, 3])
        if chance.random() < 0.1:
            spec["hard_stop"] = chance.random() < 0.7
        if chance.random() < 0.3:
            spec["size"] = chance.choice([1, 11, "11"])
        return spec

    def _people_see(self) -> dict[str, Any]:
        chance = self.chance
        spec: dict[str, Any] = {}
        if chance.random() < 0.7:
            spec["expert"] = chance.choice(EXPERTS)
        if chance.random() < 0.6:
            spec["strategy"] = chance.choice(["single", "first-response-wins", "collect-all", "quorum", "quorum"])
        if chance.random() < 0.4:
            spec["ttl"] = chance.choice([1, 5, 30, 60, 120])
            spec["on_timeout"] = chance.choice(["expire", "reject"])
        if chance.random() < 0.15:
            spec["options"] = ["blue", "green"]
        if chance.random() < 0.2:
            spec["risk"] = chance.choice(["high", "high", "medium", "low"])
        return spec

    def _respond(self, number: int) -> "Job":
        chance, bp = self.chance, self.world.breakpoints[number]
        asked = [name for seat in bp["seats"] for name in self.world.eligible(seat)]
        actor = chance.choice([*sorted(asked) * 6, *PEOPLE, *PEOPLE, bp["creator"]])
        answer: dict[str, Any] = {"approved": chance.random() < 0.6}
        if chance.random() < 0.3:
            answer["comment"] = chance.choice(["Fine.", ""])
        if chance.random() < (0.8 if bp["options"] else 0.03):
            answer["option"] = chance.choice(["blue", "green", "green", "pink"])
        if chance.random() < (0.7 if bp["risk"] == "high" else 0.05):
            answer["confirm"] = True
        if chance.random() < 0.3:
            answer["digest"] = chance.choice(["right", "right", "stale"])
        outcome = self.world.respond(actor, number, answer)
        text = f"{self._at()} respond by {actor} {answer}"
        run = partial(_respond, actor, number, answer, self.digests[number], bp["gate"])
        return Job("respond", text, outcome, number, run)


@dataclass(frozen=True)
class Job:
    """A command to run on each database, with its outcome in the model."""

    kind: str
    text: str
    outcome: str
    number: int | None
    run: Callable[[Side], Awaitable[tuple[str, Any]]]


def _name(side: Side) -> str:
    return side.assent.database.dialect


def _draft(spec: dict[str, Any]) -> tuple[Draft | None, str]:
    payload = {"question": "Go?", "breakpointId": spec["gate"]} | {
        name: spec[own] for name, own in PAYLOAD.items() if own in spec
    }
    body: dict[str, Any] = {"agentId": spec["agent"], "payload": payload, "tags": spec["tags"]}
    if "ttl" in spec:
        body |= {"ttlSeconds": spec["ttl"], "onTimeout": spec["on_timeout"]}
    try:
        made = draft(body)
    except AssentError:
        return None, ""
    return made, made.digest("default")


async def _create(
    actor: str, wanted: Draft | None, digest: str, spec: dict[str, Any], key: str | None, side: Side, *, ready: bool
) -> tuple[str, Any]:
    by, service = side.cast[actor], side.assent[BreakpointService]
    if wanted is None:
        return ("invalid_request" if by.may(Permission.CREATE) else "forbidden"), None
    once = Once(key, sha256(canonical(spec))) if key is not None else None
    prepared = None
    if ready:
        now = side.assent.clock.now()
        prepared = service.prepare(wanted, by=by, digest=digest, new_id=side.assent.ids.new("bp", now), now=now)
    code, made = await side.outcome(
        partial(service.create, draft=wanted, by=by, digest=digest, once=once, ready=prepared)
    )
    return code, made if made is None or isinstance(made, str) else made.id


async def _write_rule(actor: str, said: dict[str, Any], side: Side) -> str:
    new = NewRule(**_named(said))
    code, made = await side.outcome(partial(side.assent[RuleService].add, new=new, by=side.cast[actor], source="api"))
    if made is not None:
        side.rules.append(made.id)
    return code


async def _change_rule(actor: str, number: int, said: dict[str, Any], if_match: int | None, side: Side) -> str:
    use_case = partial(
        side.assent[RuleService].change,
        rule_id=side.rules[number],
        changes=_named(said),
        by=side.cast[actor],
        if_match=if_match,
    )
    return (await side.outcome(use_case))[0]


async def _remove_rule(actor: str, number: int, if_match: int | None, side: Side) -> str:
    use_case = partial(
        side.assent[RuleService].remove, rule_id=side.rules[number], by=side.cast[actor], if_match=if_match
    )
    return (await side.outcome(use_case))[0]


def _named(said: dict[str, Any]) -> dict[str, Any]:
    return {"expires_at" if name == "expires" else name: value for name, value in said.items()}


async def _respond(
    actor: str, number: int, answer: dict[str, Any], digest: str, gate: str, side: Side
) -> tuple[str, Any]:
    given = Answer(
        approved=answer["approved"],
        comment=answer.get("comment"),
        option=answer.get("option"),
        confirm=gate if answer.get("confirm") else None,
        digest={"right": digest, "stale": "0" * 64, None: None}[answer.get("digest")],
    )
    use_case = partial(
        side.assent[BreakpointService].respond,
        breakpoint_id=side.ids[number],
        answer=given,
        by=side.cast[actor],
        via="api",
    )
    return await side.outcome(use_case)


async def _simple(kind: str, actor: str, number: int, side: Side) -> tuple[str, Any]:
    if kind == "read":
        return await side.read(actor, number)
    by, breakpoint_id = side.cast[actor], side.ids[number]
    service = side.assent[BreakpointService]
    if kind == "comment":
        return await side.outcome(
            partial(service.comment, breakpoint_id=breakpoint_id, comment="Why?", by=by, once=None)
        )
    return await side.outcome(partial(getattr(service, kind), breakpoint_id=breakpoint_id, by=by))


async def walk(
    settings: Sequence[Settings], *, seed: int, enough: Callable[["Walk"], bool], world: type[World] = World
) -> Walk:
    """Walk on newly migrated databases until `enough` returns true. Raise Diverged at the first disagreement."""
    clock = ManualClock()
    # Start only the databases, because background jobs would end breakpoints at times that the model cannot predict.
    sides = [Side(ServerNode(each, clock=clock)) for each in settings]
    try:
        for side in sides:
            await side.prepare()
        run = Walk(world(now=clock.at), clock, sides, seed, random.Random(seed))
        await run.go(enough)
        for side in sides:
            audited = await side.assent[AuditService].verify()
            if audited.findings:
                raise Diverged(f"seed {seed}, the audit of {_name(side)}: {audited.findings[:3]}")
        return run
    finally:
        for side in sides:
            await side.assent.database.stop()
