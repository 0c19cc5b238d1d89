"""A model of breakpoints that follows the specification and shares no code with the product.

Every command returns "ok" or an error code. Where the product is optimized, the model tries all permutations.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import permutations, takewhile
from typing import Any

NEVER = 2**62

PEOPLE: dict[str, set[str]] = {
    "owner": {"viewer", "reviewer", "rule-admin", "auditor", "admin"},
    "ann": {"reviewer"},
    "bob": {"reviewer"},
    "cid": {"reviewer"},
    "dee": {"reviewer"},
    "eve": {"reviewer"},
    "boss": {"reviewer", "admin"},
    "adm": {"admin"},
    "vic": {"viewer"},
}
GROUPS: dict[str, set[str]] = {
    "ops": {"ann", "bob"},
    "legal": {"bob", "cid"},
    "solo": {"dee"},
    "heads": {"owner"},
    "empty": set(),
}
AGENTS = ("agent-1", "agent-2")
REVOCABLE = ("dee", "eve", "boss")
"""People who can lose the reviewer role during a walk. Each of them is eligible for a breakpoint in only one way."""
RULE_WRITERS = {"rule-admin", "admin"}
LOOK_BACK = 25
"""Number of recent decisions that are considered when counting approvals, unless more are requested."""

Truth = bool | None
Spec = dict[str, Any]
FLOOR = 3


def at_most(limit: str) -> Callable[[Spec], Truth]:
    ranks = ["low", "medium", "high"]
    return lambda spec: ranks.index(spec["risk"]) <= ranks.index(limit) if "risk" in spec else None


def larger(spec: Spec) -> Truth:
    return spec["size"] > 10 if isinstance(spec.get("size"), int) else None


def opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


def both(one: Truth, two: Truth) -> Truth:
    return False if one is False or two is False else None if None in (one, two) else True


PATTERNS: dict[str, tuple[Callable[[str], bool], Callable[[Spec], Truth]]] = {
    # For each pattern, the meaning of its glob and of its expression, where None means unknown.
    "deploy.*": (lambda gate: gate.startswith("deploy."), lambda _: True),
    "read.*": (lambda gate: gate.startswith("read."), lambda _: True),
    "*.1*": (lambda gate: ".1" in gate, lambda _: True),
    "deploy.7": (lambda gate: gate == "deploy.7", lambda _: True),
    "*(tags contains 'docs')": (lambda _: True, lambda spec: "docs" in spec["tags"]),
    "read.*(NOT tags contains 'prod')": (
        lambda gate: gate.startswith("read."), lambda spec: "prod" not in spec["tags"],
    ),
    "*(risk <= 'medium')": (lambda _: True, at_most("medium")),
    "deploy.*(payload.size > 10)": (lambda gate: gate.startswith("deploy."), larger),
    "*e*.*(NOT payload.size > 10)": (lambda gate: "e" in gate.partition(".")[0], lambda spec: opposite(larger(spec))),
    "*(expert = 'owner')": (lambda _: True, lambda spec: "owner" in spec.get("expert", [])),
    "*(agentId = 'other' AND payload.size > 10)": (
        lambda _: True, lambda spec: both(spec["agent"] == "other", larger(spec)),
    ),
    "*(strategy in ('single', 'quorum') AND tags contains 'prod')": (
        lambda _: True,
        lambda spec: spec.get("strategy", "single") in ("single", "quorum") and "prod" in spec["tags"],
    ),
}  # fmt: skip


@dataclass
class World:
    """The state of the model. `now` is the shared clock."""

    now: int = 0
    roles: dict[str, set[str]] = field(default_factory=lambda: {name: set(held) for name, held in PEOPLE.items()})
    breakpoints: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    decided: dict[tuple[str, str, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    always_break_on: list[str] = field(default_factory=list)
    agents_may_count: bool = True

    def carriers(self, expert: str) -> set[str]:
        name = "owner" if expert == "owner" else expert
        people = GROUPS.get(name, {name})
        return {each for each in people if "reviewer" in self.roles.get(each, set())}

    def eligible(self, seat: Iterable[str]) -> set[str]:
        return set().union(*(self.carriers(name) for name in seat))

    def seats(self, experts: list[str]) -> tuple[list[list[str]], list[str]]:
        names = list(dict.fromkeys(experts))
        missing = [name for name in names if not self.carriers(name)]
        seats = [[name] for name in names if name not in missing]
        if not missing:
            return seats, []
        shared = ["owner", *missing]
        if distinct([self.eligible(seat) for seat in seats] + [{"owner"}]):
            return [*seats, shared], missing
        for seat in seats:
            if "owner" in self.eligible(seat):
                seat.extend(missing)
                return seats, missing
        return [*seats, shared], missing

    def create(self, actor: str, spec: dict[str, Any], key: str | None) -> tuple[str, int | None]:
        """Create a breakpoint; return the outcome and the breakpoint's number."""
        if actor not in AGENTS and not {"reviewer", "admin"} & PEOPLE[actor]:
            return "forbidden", None
        experts = spec.get("expert", [])
        counting = spec.get("strategy") in ("quorum", "collect-all")
        if counting and not experts:
            return "invalid_request", None
        if key is not None and (actor, key) in self.keys:
            body, number = self.keys[actor, key]
            return ("ok", number) if body == repr(spec) else ("idempotency_mismatch", None)
        seats, missing = self.seats(experts) if experts else ([], [])
        if counting and not distinct([self.carriers(name) for name in dict.fromkeys(experts) if self.carriers(name)]):
            return "experts_not_distinct", None
        number = len(self.breakpoints)
        if key is not None:
            self.keys[actor, key] = (repr(spec), number)
        auto = self.recommend(spec, actor)
        self.breakpoints.append(
            {
                "creator": actor,
                "gate": spec["gate"],
                "agent": spec["agent"],
                "auto": auto,
                "seats": seats,
                "strategy": spec.get("strategy", "single"),
                "options": spec.get("options", []),
                "risk": spec.get("risk"),
                "due": self.now + spec["ttl"] * 1_000_000 if "ttl" in spec else NEVER,
                "on_timeout": spec.get("on_timeout", "expire"),
                "status": "waiting",
                "decision": None,
                "ended_by": None,
                "votes": {},
                "voiced": {},
                "comments": 0,
                "events": ["created", *("warned" for _ in missing)],
            }
        )
        if auto["recommended"]:
            self.end(
                self.breakpoints[number], "released", f"rule:{auto.get('matched', 'autoApproveAfterN')}", "approved"
            )
        return "ok", number

    def recommend(self, spec: Spec, actor: str) -> dict[str, Any]:
        """Return the recommendation. Rules are identified by their numbers."""
        fitting = [(rule, self.holds(rule, spec)) for rule in self.in_force() if self.fits_gate(rule, spec["gate"])]
        live = [(rule, held) for rule, held in fitting if rule["mode"] == "live"]
        never = [rule for rule, held in live if rule["action"] == "never-auto-approve" and held is not False]
        auto = [rule for rule, held in live if rule["action"] == "auto-approve" and held is True]
        asked = spec.get("after_n") or 0
        wanted = max(asked, FLOOR) if self.agents_may_count and asked > 0 else None
        count = min(self.in_a_row(spec["gate"], spec["agent"], actor), max(LOOK_BACK, wanted or 0))
        stop = self.stop(spec)
        answer: dict[str, Any] = {"recommended": False, "consecutive": count}
        if never:
            answer |= {"matched": never[0]["name"], "reason": _matched("never-auto-approve", never[0])}
        elif stop:
            answer["reason"] = stop
        elif auto:
            answer |= {"matched": auto[0]["name"], "reason": _matched("auto-approve", auto[0]), "recommended": True}
        elif wanted and count >= wanted:
            times = "time" if count == 1 else "times"
            answer["reason"] = f"Approved by people {count} {times} in a row; autoApproveAfterN is {wanted}."
            answer["recommended"] = True
        elif wanted:
            answer["reason"] = f"No rule matches {spec['gate']}; {count} of {wanted} approvals in a row."
        else:
            answer["reason"] = f"No rule matches {spec['gate']}."
        answer["shadow"] = [
            [rule["name"], rule["version"], rule["action"] == "auto-approve" and not never and not stop]
            for rule, held in fitting
            if rule["mode"] == "shadow" and (held or (held is None and rule["action"] == "never-auto-approve"))
        ]
        return answer

    def stop(self, spec: Spec) -> str | None:
        """Return the reason for requiring human approval regardless of rules, if any."""
        for tag in spec["tags"]:
            if tag in self.always_break_on:
                return f"The tag {tag!r} always requires human approval (alwaysBreakOn)."
        if spec.get("hard_stop"):
            return "The agent requires human approval (hardStop)."
        if spec.get("risk") == "high":
            return "High risk: requires human approval."
        return "It requires an option or form answers, which only a person can give." if spec.get("options") else None

    def in_force(self) -> list[dict[str, Any]]:
        standing = [rule for rule in self.rules if rule["enabled"] and rule["removed"] is None]
        lasting = [rule for rule in standing if rule["expires"] is None or self.now < rule["expires"]]
        return sorted(lasting, key=lambda rule: (rule["order"], rule["created"]))

    def fits_gate(self, rule: dict[str, Any], gate: str) -> bool:
        return PATTERNS[rule["pattern"]][0](gate)

    def holds(self, rule: dict[str, Any], spec: Spec) -> Truth:
        """Rules on the agent ID never approve, because the tokens in this test can claim any ID."""
        if rule["action"] == "auto-approve" and "agentId" in rule["pattern"]:
            return None
        return PATTERNS[rule["pattern"]][1](spec)

    def in_a_row(self, gate: str, agent: str, creator: str) -> int:
        """Count consecutive approvals. Of two simultaneous decisions, a rejection counts as the later one."""
        latest = sorted(self.decided[gate, agent, creator], reverse=True)
        return sum(1 for _ in takewhile(lambda each: each[1] == "approved", latest))

    def write_rule(self, actor: str, new: dict[str, Any]) -> tuple[str, int | None]:
        if actor in AGENTS or not RULE_WRITERS & PEOPLE[actor]:
            return "forbidden", None
        refusal = self.unacceptable(new)
        if refusal:
            return refusal, None
        last = max((rule["order"] for rule in self.rules), default=0)
        made = {"enabled": True, "mode": "live", "expires": None, "order": last + 1, "removed": None} | new
        made |= {"name": f"#{len(self.rules)}", "version": 1, "created": self.now, "updated": self.now}
        self.rules.append(made | {"events": ["rule-created"]})
        return "ok", len(self.rules) - 1

    def change_rule(self, actor: str, number: int, changes: dict[str, Any], if_match: int | None) -> str:
        rule = self.rules[number]
        refusal = self.untouchable(actor, rule, if_match)
        if refusal:
            return refusal
        is_new = "expires" in changes and changes["expires"] != rule["expires"]
        refusal = self.unacceptable(changes if is_new else {**changes, "expires": None})
        if refusal:
            return refusal
        if {**rule, **changes} != rule:
            rule |= changes
            self.changed(rule, "rule-changed")
        return "ok"

    def remove_rule(self, actor: str, number: int, if_match: int | None) -> str:
        rule = self.rules[number]
        refusal = self.untouchable(actor, rule, if_match)
        if not refusal:
            rule["removed"] = self.now
            self.changed(rule, "rule-removed")
        return refusal or "ok"

    def changed(self, rule: dict[str, Any], event: str) -> None:
        rule["version"] += 1
        rule["updated"] = self.now
        rule["events"].append(event)

    def untouchable(self, actor: str, rule: dict[str, Any], if_match: int | None) -> str | None:
        if actor in AGENTS or not RULE_WRITERS & PEOPLE[actor]:
            return "forbidden"
        if rule["removed"] is not None:
            return "not_found"
        return "precondition_failed" if if_match is not None and if_match != rule["version"] else None

    def unacceptable(self, said: dict[str, Any]) -> str | None:
        if said.get("pattern", "*.1*") not in PATTERNS:
            return "invalid_pattern"
        return "invalid_request" if said.get("expires") is not None and said["expires"] <= self.now else None

    def comment(self, actor: str, number: int) -> str:
        bp = self.breakpoints[number]
        if actor not in AGENTS and not {"reviewer", "admin"} & PEOPLE[actor]:
            return "forbidden"
        if actor in AGENTS and bp["creator"] != actor:
            return "not_found"
        if self.over(bp):
            return "already_ended"
        bp["comments"] += 1
        bp["events"].append("commented")
        return "ok"

    def respond(self, actor: str, number: int, answer: dict[str, Any]) -> str:
        bp = self.breakpoints[number]
        refusal, override = self.standing(actor, bp)
        refusal = refusal or self.fits(bp, answer)
        if refusal:
            return refusal
        bp["events"].append("responded")
        bp["comments"] += bool(answer.get("comment"))
        bp["votes"][actor] = (answer["approved"], override)
        outcome = answer["approved"] if override else verdict(bp)
        if outcome is not None:
            self.end(bp, "released", f"person:{actor}", "approved" if outcome else "rejected")
        return "ok"

    def standing(self, actor: str, bp: dict[str, Any]) -> tuple[str | None, bool]:
        """Return the error if the actor cannot answer, and whether the answer would be an override."""
        if (
            actor in AGENTS
            or not {"reviewer", "admin"} & PEOPLE[actor]
            or not {"reviewer", "admin"} & self.roles[actor]
        ):
            return "forbidden", False
        if bp["creator"] == actor:
            return "own_breakpoint", False
        if "reviewer" in self.roles[actor]:
            if not bp["seats"]:
                return self.late(bp), False
            if any(actor in self.eligible(seat) for seat in bp["seats"]):
                return self.late(bp) or self.seated(actor, bp), False
        if "admin" in self.roles[actor]:
            return self.late(bp), True
        return "not_eligible", False

    def late(self, bp: dict[str, Any]) -> str | None:
        return "already_ended" if self.over(bp) else None

    def seated(self, actor: str, bp: dict[str, Any]) -> str | None:
        """Return an error if no seat is free. Recorded votes are kept, and each seat holds one vote."""
        voices = [person for person, (_, override) in bp["votes"].items() if not override and person != actor]
        allowed = [self.eligible(seat) for seat in bp["seats"]]
        everybody = [*voices, actor]
        may = {person: {n for n, people in enumerate(allowed) if person in people} for person in everybody}
        for person in voices:
            may[person] |= bp["voiced"][person]
        fits = any(
            all(n in may[person] for person, n in zip(everybody, chosen, strict=True))
            for chosen in permutations(range(len(allowed)), len(everybody))
        )
        if not fits:
            return "seat_taken"
        bp["voiced"].setdefault(actor, may[actor])
        return None

    def fits(self, bp: dict[str, Any], answer: dict[str, Any]) -> str | None:
        if answer.get("digest") == "stale":
            return "digest_mismatch"
        option = answer.get("option")
        if option is not None and option not in bp["options"]:
            return "invalid_request"
        if answer["approved"] and bp["options"] and option is None:
            return "invalid_request"
        if answer["approved"] and bp["risk"] == "high" and not answer.get("confirm"):
            return "confirmation_required"
        return None

    def cancel(self, actor: str, number: int) -> str:
        bp = self.breakpoints[number]
        if actor in AGENTS:
            if bp["creator"] != actor:
                return "not_found"
        elif "admin" not in PEOPLE[actor] and not ("reviewer" in PEOPLE[actor] and bp["creator"] == actor):
            return "forbidden"
        if self.over(bp):
            return "already_ended"
        self.end(bp, "cancelled", self.name(actor))
        return "ok"

    def expire(self, actor: str, number: int) -> str:
        bp = self.breakpoints[number]
        if actor in AGENTS or "admin" not in PEOPLE[actor]:
            return "forbidden"
        if bp["status"] != "waiting":
            return "already_ended"
        self.end(bp, "expired", self.name(actor))
        return "ok"

    def read(self, actor: str, number: int) -> str:
        """Read a breakpoint, ending it if it is overdue."""
        bp = self.breakpoints[number]
        self.time_out(bp)
        return "not_found" if actor in AGENTS and bp["creator"] != actor else "ok"

    def sweep(self) -> int:
        return sum(self.time_out(bp) for bp in self.breakpoints)

    def over(self, bp: dict[str, Any]) -> bool:
        return bool(bp["status"] != "waiting" or self.now >= bp["due"])

    def time_out(self, bp: dict[str, Any]) -> bool:
        if bp["status"] != "waiting" or self.now < bp["due"]:
            return False
        if bp["on_timeout"] == "reject":
            self.end(bp, "released", "system:timeout", "rejected")
        else:
            self.end(bp, "expired", "system:timeout")
        return True

    def end(self, bp: dict[str, Any], status: str, by: str, decision: str | None = None) -> None:
        bp["events"].append(status)
        bp["status"], bp["ended_by"], bp["decision"] = status, by, decision
        if decision is not None and not by.startswith("rule:"):
            self.decided[bp["gate"], bp["agent"], bp["creator"]].append((self.now, decision))

    def name(self, actor: str) -> str:
        return f"agent:{actor}" if actor in AGENTS else f"person:{actor}"


def _matched(action: str, rule: dict[str, Any]) -> str:
    return f"Matched {action} rule: {rule['name']} ({rule['pattern']})."


def distinct(options: list[set[str]]) -> bool:
    """Return whether a different person can be chosen from each set, by trying every assignment."""
    people = sorted(set().union(*options))
    return any(
        all(person in allowed for person, allowed in zip(chosen, options, strict=True))
        for chosen in permutations(people, len(options))
    )


def verdict(bp: dict[str, Any]) -> bool | None:
    votes: list[bool] = [approved for approved, override in bp["votes"].values() if not override]
    seats = len(bp["seats"])
    if bp["strategy"] == "collect-all":
        return all(votes) if len(votes) == seats else None
    if bp["strategy"] == "quorum":
        yes, no = sum(votes), len(votes) - sum(votes)
        if 2 * yes > seats:
            return True
        return False if 2 * no >= seats else None
    return votes[0]
