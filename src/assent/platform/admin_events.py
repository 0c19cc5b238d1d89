"""Admin events: who changed people, access, policies or settings, in hash chains like those of breakpoints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assent.core.access import Actor, Kind, Principal
from assent.core.canonical import GENESIS, Json, is_object, link, sha256
from assent.core.chain import UNREADABLE, Finding, Part, broken_links

INSTALLATION = "*"
"""The project of admin events that do not belong to a single project."""
BASELINE = "baseline"
CHAIN, USE_CHAIN = "adm_", "use_"
RECEIPT_USED = "receipt-used"
MESSAGE_FAILED = "account-message-failed"
SYSTEM = Actor(Kind.SYSTEM, "assent")


ACTS = (
    *("person-created", "person-changed", "roles-changed", "group-created", "group-changed", "group-removed"),
    *("token-created", "token-changed", "token-revoked", "sign-in-link-created", MESSAGE_FAILED, "preferences-changed"),
    *("identity-linked", "identity-unlinked", "account-linked", "account-unlinked"),
    *("project-created", "project-changed", "project-removed", "policy-changed"),
    *("rule-created", "rule-changed", "rule-removed"),
    *("channel-created", "channel-changed", "channel-disabled", "channel-removed"),
    *("route-created", "route-changed", "route-moved", "route-removed"),
    *("source-created", "source-changed", "source-removed", "trigger-created", "trigger-changed", "trigger-removed"),
    *("hold-placed", "hold-lifted", "secret-created", "secret-changed"),
    *("receipt-key-created", "receipt-key-retired", "receipt-key-revoked", RECEIPT_USED),
    *("checkpoint-key-created", "checkpoint-key-retired"),
    *("delivery-retried", "deliveries-retried", "event-replayed", "firing-retried", "firing-discarded"),
    *("run-cancelled", "run-retried", "breakpoints-imported", "data-restored", BASELINE),
)
"""Every type of admin event, in the order in which pages and docs list them."""


@dataclass(frozen=True, slots=True)
class AdminEvent:
    """One administrative action; `seq` counts from 1 within its chain."""

    chain_id: str
    seq: int
    project: str
    """The project whose auditors can see the event; `*` for an action on the whole installation."""
    type: str
    actor: Actor
    at: int
    metadata: Mapping[str, Json]
    """The subject, the token or session (`via`), and the state before and after; secrets only as a fingerprint."""
    previous: str
    hash: str = ""

    @property
    def subject(self) -> str:
        return str(self.metadata.get("subject", ""))

    @property
    def states(self) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
        """The state before and after; empty if the subject did not exist."""
        before, after = self.metadata.get("before"), self.metadata.get("after")
        return before if is_object(before) else {}, after if is_object(after) else {}

    def differs(self, field: str) -> bool:
        """Whether the action changed this field."""
        before, after = self.states
        return before.get(field) != after.get(field)


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain."""

    version: int = 0
    hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class State:
    """The current state of one subject in the tables."""

    chain_id: str
    project: str
    subject: str
    value: Mapping[str, Json]


def chain_of(project: str) -> str:
    return f"{CHAIN}{project}"


def use_chain(breakpoint_id: str) -> str:
    """Return the chain for the single use of a receipt; with separate chains, uses do not block each other."""
    return f"{USE_CHAIN}{breakpoint_id}"


def is_admin_chain(subject_id: str) -> bool:
    return subject_id.startswith((CHAIN, USE_CHAIN))


def fingerprint(secret: str | bytes | None) -> str | None:
    """Return a short hash that identifies a stored hash or ciphertext without revealing it."""
    if secret is None:
        return None
    return sha256(secret if isinstance(secret, bytes) else secret.encode())[:16]


def via_of(by: Principal) -> str | None:
    """Return the token or session that a request used."""
    if by.token_id is not None:
        return f"token:{by.token_id}"
    return f"session:{by.session_id}" if by.session_id is not None else None


def chained(event: AdminEvent) -> AdminEvent:
    return replace(event, hash=link(event.previous, body(event)))


def body(event: AdminEvent) -> dict[str, Json]:
    """Return the fields that an event's hash covers; the metadata includes the project and the subject."""
    return {
        "adminChain": event.chain_id,
        "seq": event.seq,
        "type": event.type,
        "actor": str(event.actor),
        "at": event.at,
        "metadata": event.metadata,
    }


def chain_findings(chain_id: str, events: Sequence[AdminEvent], head: Head | None) -> Iterator[Finding]:
    """Yield the inconsistencies of a chain; a receipt's chain has one event and no stored head."""
    try:
        yield from _chain(chain_id, events, head)
    except UNREADABLE as error:
        yield _about(chain_id, None, f"its events cannot be read: {type(error).__name__}: {error}", Part.ROWS)


def _chain(chain_id: str, events: Sequence[AdminEvent], head: Head | None) -> Iterator[Finding]:
    # Chains of used receipts do not have a stored head.
    if head is None and not chain_id.startswith(CHAIN) and events:
        head = Head(1, events[0].hash)
    found = head or Head()
    for seq, what in broken_links(events, _hash, version=found.version, head=found.hash):
        yield _about(chain_id, seq, what, Part.CHAIN)
    for event in events:
        if event.metadata.get("project") != event.project:
            yield _about(
                chain_id, event.seq, "the project it is stored in differs from the one it specifies", Part.FOLD
            )


def _hash(event: AdminEvent) -> str:
    return link(event.previous, body(event))


def _about(chain_id: str, seq: int | None, what: str, part: Part) -> Finding:
    return Finding(part, None, seq, what, admin_chain=chain_id)


class Fold:
    """Compares the last recorded state of each subject with the tables.

    A subject is identified by its chain and name: the roles of one person in two projects are two subjects.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self._kinds = frozenset(kinds)
        self._last: dict[tuple[str, str], AdminEvent] = {}
        self.begun = False
        """Whether a baseline has been recorded; until then, there is nothing to compare against."""

    def take(self, event: AdminEvent) -> None:
        self.begun = self.begun or event.type == BASELINE
        kind = event.subject.partition(":")[0]
        if kind in self._kinds and "after" in event.metadata:
            self._last[event.chain_id, event.subject] = event

    def compare(self, states: Iterable[State]) -> Iterator[Finding]:
        """Yield every difference between the states and the log. Must be called once, with the states of all kinds."""
        if not self.begun:
            return
        left = dict(self._last)
        for state in states:
            yield from _compared(state, left.pop((state.chain_id, state.subject), None))
        for (chain_id, subject), event in sorted(left.items()):
            if event.metadata["after"] is not None:
                what = f"{subject} is missing, although its last admin event says that it exists"
                yield _about(chain_id, event.seq, what, Part.ADMIN)


def use_findings(event: AdminEvent, stored: State | None) -> Iterator[Finding]:
    """Compare the recorded use of a receipt with the stored one."""
    if stored is None:
        what = f"{event.subject} was used, but its use is not stored, so it could be used again"
        yield _about(event.chain_id, event.seq, what, Part.ADMIN)
    else:
        yield from _compared(stored, event)


def unrecorded_use(breakpoint_id: str) -> Finding:
    what = "its receipt is stored as used, but no event records the use"
    return Finding(Part.ADMIN, breakpoint_id, None, what)


def _compared(state: State, event: AdminEvent | None) -> Iterator[Finding]:
    recorded: Mapping[str, Json] | None = event.metadata["after"] if event is not None else None
    if event is None or recorded is None:
        what = f"{state.subject} exists, but no admin event created it"
        yield _about(state.chain_id, event.seq if event else None, what, Part.ADMIN)
        return
    # Fields that a later version of Assent added are compared only after a baseline has recorded them. A policy does
    # not have fixed fields, so an additional one is a change.
    names = recorded.keys() | state.value.keys() if state.subject.startswith("policy:") else recorded.keys()
    changed = sorted(name for name in names if state.value.get(name) != recorded.get(name))
    if changed:
        what = f"{state.subject} differs from its last admin event in {', '.join(changed)}"
        yield _about(state.chain_id, event.seq, what, Part.ADMIN)
