"""autoApproveAfterN: which approvals are counted together, how many are required, and how their payloads differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from assent.core.call_digests import call_parts, hides, shows_call
from assent.core.canonical import Json, canonical, sha256
from assent.core.protected_paths import DIRECTORY

DEFAULT_FLOOR = 3
MAX_FLOOR = 1000
GATE = "gate"
_WHERE = ("programSha256", DIRECTORY)
# Fields that do not affect what the call does, and are therefore not reported as differences.
_ASIDE = frozenset({"attempt", "previousFeedback", "autoApproveAfterN", "presentAlwaysApprove", "callId", "callDigest"})


@dataclass(frozen=True, slots=True)
class Counting:
    """A project's settings for counting consecutive approvals."""

    allowed: bool = True
    floor: int = DEFAULT_FLOOR
    by_question: bool = False

    @classmethod
    def of(cls, policy: Mapping[str, Any]) -> "Counting":
        return cls(
            allowed=policy.get("autoApproveAfterN", "allow") == "allow",
            floor=policy.get("autoApproveFloor") or DEFAULT_FLOOR,
            by_question=policy.get("autoApproveCounts", GATE) == "question",
        )

    def threshold(self, after_n: int | None, payload: Mapping[str, Json]) -> int | None:
        """Return how many approvals are required: the number that the agent requests, but at least the floor.

        Returns None if counting is not allowed or not requested, or if part of the call is hidden, because the next
        call could then do something different.
        """
        if not self.allowed or after_n is None or after_n < 1 or hides(payload):
            return None
        return max(after_n, self.floor)

    def key(self, payload: Mapping[str, Json]) -> str:
        """Return the key that approvals of a gate must share to be counted together.

        The approval of a call counts only toward calls with the same arguments or command in the same directory.
        """
        if shows_call(payload):
            where = {name: payload[name] for name in _WHERE if name in payload}
            return "arguments:" + _hash(call_parts(payload) | where)
        if self.by_question:
            return "question:" + _hash([payload.get("question"), payload.get("title")])
        return GATE


def differences(payload: Mapping[str, Json], approved: Iterable[Mapping[str, Json]]) -> tuple[str, ...]:
    """Return the fields in which a payload differs from at least one of the approved ones."""
    found: set[str] = set()
    for each in approved:
        names = (payload.keys() | each.keys()) - _ASIDE
        found.update(name for name in names if _differs(payload, each, name))
    return tuple(sorted(found))


def _differs(one: Mapping[str, Json], other: Mapping[str, Json], name: str) -> bool:
    return (name in one) != (name in other) or canonical(one.get(name)) != canonical(other.get(name))


def _hash(value: Json) -> str:
    return sha256(canonical(value))
