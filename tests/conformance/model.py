"""What the specification says a breakpoint does, in plain dictionaries; shares no code with the product.

Every command answers "ok" or the code of the error. Loops over permutations stand where the product is clever.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
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
"""Who may lose the reviewer's role on the way; none of them has two ways into one breakpoint."""


@dataclass
class World:
    """Everything the model knows; `now` is the shared clock."""

    now: int = 0
    roles: dict[str, set[str]] = field(default_factory=lambda: {name: set(held) for name, held in PEOPLE.items()})
    breakpoints: list[dict[str, Any]] = field(default_factory=list)
    keys: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    # ── who is who ──

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

    # ── commands ──

    def create(self, actor: str, spec: dict[str, Any], key: str | None) -> tuple[str, int | None]:
        """Return the outcome and the number of the breakpoint."""
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
        self.breakpoints.append(
            {
                "creator": actor,
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
        return "ok", number

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
        """Return why an actor may not answer, or whether they answer as an override."""
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
        """A voice once given is kept, and one seat holds one voice."""
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
        """Whoever looks at an overdue one ends it."""
        bp = self.breakpoints[number]
        self.time_out(bp)
        return "not_found" if actor in AGENTS and bp["creator"] != actor else "ok"

    def sweep(self) -> int:
        return sum(self.time_out(bp) for bp in self.breakpoints)

    # ── what happens ──

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

    def name(self, actor: str) -> str:
        return f"agent:{actor}" if actor in AGENTS else f"person:{actor}"


def distinct(options: list[set[str]]) -> bool:
    """Can every set give somebody of its own? Found by trying every way."""
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
