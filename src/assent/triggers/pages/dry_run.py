"""Dry runs of triggers against past events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assent.core.canonical import Json, is_array, is_object
from assent.db.transaction import Transaction
from assent.triggers.event import TriggerEvent
from assent.triggers.model import Trace, Trigger, told
from assent.triggers.store.events import TriggerEvents
from assent.triggers.usecases.dispatch import Trial, TriggeringService
from assent.web import filters as render
from assent.web.site import Visit

MOST = 20
"""The number of recent events against which a draft is tested."""


@dataclass(frozen=True, slots=True)
class Part:
    """A condition, the actual value, and whether it matched."""

    part: str
    actual: str
    sign: str
    word: str
    note: str = ""


_SIGNS = {True: ("✓", "matched"), False: ("✗", "did not match"), None: ("?", "unknown")}


@dataclass(frozen=True, slots=True)
class Told:
    """Why a trigger did or did not match."""

    trigger: str
    matched: bool
    parts: Sequence[Part]
    problem: str = ""
    note: str = ""

    @property
    def missed(self) -> int:
        return sum(each.sign != "✓" for each in self.parts)


def parts_of(findings: Json) -> list[Part]:
    """Read the findings of a stored trace, skipping invalid ones."""
    found: list[Part] = []
    for each in findings if is_array(findings) else ():
        if not is_object(each):
            continue
        held = each.get("held")
        sign, word = _SIGNS[held if isinstance(held, bool) else None]
        note = str(each.get("note") or "")
        actual = "" if note == "not given" else _actual(each.get("actual"))
        found.append(Part(str(each.get("part", "")), actual, sign, word, note))
    return found


def _actual(value: Json) -> str:
    return value if isinstance(value, str) else render.pretty(value).replace("\n", " ")


def told_trace(kept: Mapping[str, Json]) -> Told:
    return Told(
        str(kept.get("trigger", "")),
        kept.get("matched") is True,
        parts_of(kept.get("findings")),
        str(kept.get("problem") or ""),
        str(kept.get("note") or ""),
    )


def told_of(found: Trace) -> Told:
    return told_trace(told(found))


@dataclass(frozen=True, slots=True)
class Tried:
    """An event, and what a trigger would do with it."""

    event: TriggerEvent
    trial: Trial
    told: Told
    inputs: str

    @property
    def starts(self) -> bool:
        return self.told.matched and not self.trial.problem


def shown(event: TriggerEvent, trial: Trial) -> Tried:
    # Omit the event: every run receives it, and it would hide the other inputs.
    given = {name: value for name, value in (trial.inputs or {}).items() if name not in {"event", "events"}}
    return Tried(event, trial, told_of(trial.trace), render.pretty(given) if given else "")


def against_newest(tx: Transaction, *, visit: Visit, draft: Trigger, first: str = "") -> list[Tried]:
    """Test a draft against the requested event, if any, and the newest ones."""
    newest = visit.site[TriggeringService].events(tx, {}, by=visit.who, before=None, limit=MOST)
    # The requested event comes first, even if it is not among the newest.
    ids = [*([first] if first else []), *(each.id for each in newest if each.id != first)]
    found: list[Tried] = []
    for event_id in ids:
        event = tx[TriggerEvents].get(event_id, project=visit.who.project)
        found += [
            shown(event, each)
            for each in visit.site[TriggeringService].try_out(tx, by=visit.who, event=event, drafts=[draft])
        ]
    return found
