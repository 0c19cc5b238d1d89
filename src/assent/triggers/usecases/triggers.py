"""Creates, changes, suspends, resumes and removes triggers, and validates them against the processes they start."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assent.core.access import Permission, Principal
from assent.core.canonical import Json
from assent.core.errors import Conflict, InvalidRequest, PatternError
from assent.core.patterns.pattern import predicates
from assent.db.transaction import Transaction
from assent.delivery.usecases.channels import FROM_FILE, in_file
from assent.people.store.projects import Projects
from assent.runs.ports import ProcessRegistry
from assent.triggers.file_format import checked, written
from assent.triggers.model import Trigger, TriggerState, read
from assent.triggers.store.triggers import LONGEST_REASON, StoredTrigger, Triggers

MOST = 1_000
LIKE_IDS = ("src_", "trg_")


class TriggerService:
    def __init__(self, processes: ProcessRegistry) -> None:
        self._processes = processes

    def listed(self, tx: Transaction, *, by: Principal) -> list[StoredTrigger]:
        by.require(Permission.READ_PEOPLE)
        return tx[Triggers].in_project(by.project)

    def known(self, tx: Transaction, trigger: str, *, by: Principal) -> StoredTrigger:
        """Return an existing trigger by its name or ID."""
        by.require(Permission.READ_PEOPLE)
        return tx[Triggers].get(trigger, project=by.project)

    def create(self, tx: Transaction, body: Mapping[str, Json], *, by: Principal) -> StoredTrigger:
        by.require(Permission.RULES)
        tx.acting(by)
        trigger = self.check(body)
        refuse_id("/id", trigger.name)
        tx[Triggers].wait_for_others(by.project)
        tx[Projects].get_open(by.project)
        if len(tx[Triggers].in_project(by.project)) >= MOST:
            raise InvalidRequest.at("/", f"a project can have at most {MOST:,} triggers")
        now = tx.now()
        actor = str(by.actor)
        made = StoredTrigger(
            id=tx.new_id("trg"),
            project=by.project,
            trigger=trigger,
            because=_suspended_by(by) if trigger.state is TriggerState.SUSPENDED else None,
            created_by=actor,
            created_at=now,
            updated_by=actor,
            updated_at=now,
        )
        tx[Triggers].add(made)
        return made

    def change(self, tx: Transaction, trigger_id: str, changes: Mapping[str, Json], *, by: Principal) -> StoredTrigger:
        """Change the given fields and keep the others, including the state. A null value removes a field."""
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Triggers].wait_for_others(by.project)
        current = self.known(tx, trigger_id, by=by)
        if current.origin == FROM_FILE:
            raise in_file("trigger", current.name)
        if changes.get("id", current.name) != current.name:
            raise InvalidRequest.at("/id", "cannot be changed; create another trigger and remove this one")
        merged = {**written(current.trigger), **changes}
        trigger = self.check({name: value for name, value in merged.items() if value is not None})
        if trigger == current.trigger:
            return current
        because = current.because
        if trigger.state is not current.state:
            because = _suspended_by(by) if trigger.state is TriggerState.SUSPENDED else None
        wanted = replace(current, trigger=trigger, because=because, updated_by=str(by.actor))
        return tx[Triggers].save(wanted, now=tx.now())

    def remove(self, tx: Transaction, trigger_id: str, *, by: Principal) -> None:
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Triggers].wait_for_others(by.project)
        current = self.known(tx, trigger_id, by=by)
        if current.origin == FROM_FILE:
            raise in_file("trigger", current.name)
        tx[Triggers].remove(current.id, now=tx.now(), by=str(by.actor))

    def suspend(self, tx: Transaction, trigger_id: str, *, by: Principal, because: str | None = None) -> StoredTrigger:
        """Queue the trigger's events without starting runs. This also works for triggers from assent.yaml."""
        said = (because or "").strip()
        if len(said) > LONGEST_REASON:
            raise InvalidRequest.at("/because", f"must be at most {LONGEST_REASON} characters")
        return self._switch(tx, trigger_id, TriggerState.SUSPENDED, by=by, because=said or _suspended_by(by))

    def resume(self, tx: Transaction, trigger_id: str, *, by: Principal) -> StoredTrigger:
        """Resume the trigger and process its queued events."""
        return self._switch(tx, trigger_id, TriggerState.ENABLED, by=by, because=None)

    def check(self, body: Mapping[str, Json]) -> Trigger:
        """Parse a trigger and validate it against its process, or raise InvalidRequest."""
        trigger = checked(body)
        refuse_unfit(self._processes, trigger)
        return trigger

    def _switch(
        self, tx: Transaction, trigger_id: str, state: TriggerState, *, by: Principal, because: str | None
    ) -> StoredTrigger:
        by.require(Permission.RULES)
        tx.acting(by)
        tx[Triggers].wait_for_others(by.project)
        current = self.known(tx, trigger_id, by=by)
        if current.state is TriggerState.DISABLED:
            msg = f"The trigger {current.name} is disabled and ignores its events. Enable it first."
            raise Conflict(msg)
        tx[Triggers].set_state(current.id, state, because=because, alarm_id=None, now=tx.now(), by=str(by.actor))
        return self.known(tx, current.id, by=by)


def refuse_id(pointer: str, name: str) -> None:
    """Reject a name that could be mistaken for the ID of another source or trigger."""
    if name.startswith(LIKE_IDS):
        raise InvalidRequest.at(pointer, f"must not start with {' or '.join(LIKE_IDS)}, which are reserved for IDs")


def refuse_unfit(processes: ProcessRegistry, trigger: Trigger) -> None:
    """Reject a trigger whose process does not exist or could never accept its inputs."""
    problem = processes.problem(trigger.run, dict(trigger.inputs), complete=False)
    if problem is not None:
        raise InvalidRequest.at("/run" if processes.find(trigger.run) is None else "/inputs", problem)


def naming(triggers: Sequence[StoredTrigger], source: str) -> list[StoredTrigger]:
    """Return the triggers whose pattern references a source."""
    return [each for each in triggers if _names(each.trigger, source)]


def _names(trigger: Trigger, source: str) -> bool:
    try:
        pattern = read(trigger.on)
    except PatternError:
        return False
    named = [each.value for one in predicates(pattern) if one.path == ("source",) for each in one.literals]
    return source in named or pattern.glob.text == f"webhook.{source}"


def _suspended_by(by: Principal) -> str:
    return f"Suspended by {by.name}."
