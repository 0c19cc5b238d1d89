"""Reads past breakpoints for back-tests: counts groups of similar breakpoints, one time slice after another.

SQL excludes only breakpoints that a pattern cannot match; the domain decides which of the remaining ones match.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from assent.core.breakpoint import Status
from assent.core.patterns.expressions import And, Expression, Or, Predicate
from assent.core.patterns.globs import Glob
from assent.core.patterns.pattern import Pattern
from assent.core.rulebook import RuleAction
from assent.db.sql import Row, among, to_json
from assent.db.transaction import Store
from assent.policy.backtest import Outcome

COLUMN_OF: Mapping[str, str] = {
    "gate": "gate",
    "tags": "tags",
    "expert": "seats",
    "agentId": "agent_id",
    "runId": "run_id",
    "title": "title",
    "risk": "risk",
    "priority": "priority",
    "attempt": "attempt",
    "strategy": "strategy",
}
"""The column of each attribute that is stored outside the content."""
_FIND = {"sqlite": "instr", "postgresql": "strpos"}
_OUTCOME = f"""
    CASE WHEN status <> 'released' THEN status
         WHEN substr(ended_by, 1, 5) = 'rule:' THEN '{Outcome.AUTO}'
         WHEN decision = 'rejected' AND substr(ended_by, 1, 7) = 'system:' THEN '{Outcome.TIMED_OUT}'
         ELSE decision END"""
# Lists all statuses, because the index starts with project and status.
_WINDOW = f"""
    project_id = :project_id AND status IN ({", ".join(f"'{each}'" for each in Status)})
    AND created_at >= :since AND created_at < :until"""
# All content that requires a human decision contains one of these words; the domain makes the final determination.
_LOUD = ('"hardStop"', '"options"', '"form"', '"arguments"', '"command"')
_NAMES_ONE = {("tags", "contains"), ("expert", "contains"), ("expert", "="), ("expert", "in")}
_IS_ONE = {("agentId", "="), ("agentId", "in")}
_WHOLE = (
    "id", "created_at", "gate", "agent_id", "run_id", "title", "tags", "seats", "strategy", "risk", "priority",
    "attempt", "payload", "purged_at", "agent_id_claimed",
)  # fmt: skip
SELECT_STEP = """
    SELECT created_at FROM assent_breakpoints
    WHERE project_id = :project_id AND status = :status AND created_at >= :since AND created_at < :until
    ORDER BY created_at DESC LIMIT 1 OFFSET :size"""
SELECT_NAMED = """
    SELECT id, gate, title, agent_id, created_at, decision, ended_by, ended_at, result FROM assent_breakpoints
    WHERE {these} ORDER BY created_at DESC, id DESC"""
SELECT_SHADOWS = f"""
    SELECT s.breakpoint_id, s.rule_version, s.recommended, s.at, {_OUTCOME}
    FROM (
        SELECT breakpoint_id, rule_version, recommended, at FROM assent_shadows
        WHERE rule_id = :rule_id AND breakpoint_id < :before ORDER BY breakpoint_id DESC LIMIT :limit
    ) s JOIN assent_breakpoints b ON b.id = s.breakpoint_id
    ORDER BY s.breakpoint_id DESC"""


@dataclass(frozen=True, slots=True)
class Window:
    """A project's breakpoints created at or after `since` and before `until`."""

    project: str
    since: int
    until: int

    def params(self) -> dict[str, Any]:
        return {"project_id": self.project, "since": self.since, "until": self.until}


@dataclass(frozen=True, slots=True)
class Sieve:
    """The columns by which breakpoints are grouped, and conditions that exclude breakpoints that cannot match."""

    columns: tuple[str, ...]
    table: str
    tests: str
    params: Mapping[str, Any]
    stops: bool
    """True if each breakpoint whose content may require a human decision forms its own group."""


@dataclass(frozen=True, slots=True)
class Alike:
    """The values that all breakpoints in a group have in common."""

    values: tuple[Any, ...]
    purged: bool


@dataclass(frozen=True, slots=True)
class Group:
    alike: Alike
    outcome: Outcome
    count: int
    loud: str | None
    """The ID of a breakpoint that forms its own group because its content may require a human decision."""


@dataclass(frozen=True, slots=True)
class Member:
    outcome: Outcome
    id: str
    created_at: int


class Whole(msgspec.Struct, array_like=True):
    """A breakpoint with its content, unless the content was purged."""

    id: str
    created_at: int
    gate: str
    agent_id: str
    run_id: str | None
    title: str | None
    tags: str
    seats: str
    strategy: str
    risk: str | None
    priority: str
    attempt: int | None
    payload: str
    purged_at: int | None
    agent_id_claimed: int
    told: str

    @property
    def member(self) -> Member:
        return Member(Outcome(self.told), self.id, self.created_at)


@dataclass(frozen=True, slots=True)
class Named:
    """A breakpoint as shown in a list."""

    id: str
    gate: str
    title: str | None
    agent_id: str
    created_at: int
    decision: str | None
    ended_by: str | None
    ended_at: int | None
    result: str | None

    @property
    def feedback(self) -> str | None:
        said: str | None = msgspec.json.decode(self.result).get("feedback") if self.result else None
        return said


@dataclass(frozen=True, slots=True)
class Shadow:
    breakpoint_id: str
    rule_version: int
    recommended: bool
    at: int
    outcome: Outcome


class Backtests(Store):
    def sieve(self, pattern: Pattern, attributes: Collection[str], action: RuleAction) -> Sieve:
        """Group by these attributes, and exclude breakpoints that the pattern cannot match.

        A `never` rule also acts if it is unknown whether the pattern matches, so SQL cannot exclude any breakpoints.
        """
        dialect = self._session.dialect
        builder = _Tests(_FIND[dialect])
        exact = action is RuleAction.AUTO
        tests = [builder.gate(pattern.glob)] if exact else []
        if exact and pattern.expression is not None:
            tests.append(builder.possible(pattern.expression))
        index = "gate" if exact and pattern.glob.literal else "status_created"
        # Without this hint, SQLite scans an entire index in group order instead of only the window.
        hint = f" INDEXED BY ix_assent_breakpoints_{index}" if dialect == "sqlite" else ""
        columns = tuple(column for name, column in COLUMN_OF.items() if name in attributes)
        columns += ("agent_id_claimed",) if "agentId" in attributes else ()
        written = "".join(f" AND {each}" for each in tests if each)
        return Sieve(columns, f"assent_breakpoints{hint}", written, builder.params, exact)

    def count(self, window: Window) -> int:
        statement = f"SELECT count(*) FROM assent_breakpoints WHERE {_WINDOW}"
        return int(self._session.all(statement, window.params())[0][0])

    def start_of_slice(self, window: Window, size: int, steps: dict[Status, int]) -> int:
        """Return a start time from which each status has at most `size` breakpoints until the end of the window.

        `steps` stores the start time for each status, so that each breakpoint is scanned only once across slices.
        """
        for status in Status:
            if steps.get(status, window.until) >= window.until:
                found = self._session.all(SELECT_STEP, window.params() | {"status": status.value, "size": size})
                # Breakpoints created in the same microsecond stay in one slice, even if this exceeds `size`.
                steps[status] = min(found[0][0] + 1, window.until - 1) if found else window.since
        return max(steps.values())

    def groups(self, window: Window, sieve: Sieve) -> list[Group]:
        statement, params = groups_statement(window, sieve, self._session.dialect)
        rows = [tuple(each) for each in self._session.all(statement, params)]
        return [Group(_alike(row[:-1]), Outcome(row[0]), row[-1], row[2]) for row in rows]

    def members(
        self, window: Window, sieve: Sieve, wanted: Collection[Alike], *, outcomes: Collection[Outcome]
    ) -> list[Member]:
        """Return the groups' members with these outcomes, newest first, without those that form their own group."""
        dialect, params = self._session.dialect, window.params() | dict(sieve.params)
        listed = ", ".join(f"'{each.value}'" for each in sorted(outcomes))
        tests = f" AND {_OUTCOME} IN ({listed})"
        if "gate" in sieve.columns:
            gates = {each.values[sieve.columns.index("gate")] for each in wanted}
            test, given = among("gate", sorted(gates), dialect, name="gates")
            tests, params = f"{tests} AND {test}", params | given
        statement = f"""
            SELECT {", ".join(_told(sieve, dialect))}, id, created_at FROM {sieve.table}
            WHERE {_WINDOW}{sieve.tests}{tests} ORDER BY created_at DESC, id DESC"""
        rows = [tuple(each) for each in self._session.all(statement, params)]
        return [Member(Outcome(row[0]), *row[-2:]) for row in rows if row[2] is None and _alike(row[:-2]) in wanted]

    def whole(self, ids: Sequence[str]) -> list[Whole]:
        these, params = among("id", ids, self._session.dialect)
        columns = ", ".join((*_WHOLE, _OUTCOME))
        rows = self._session.all(f"SELECT {columns} FROM assent_breakpoints WHERE {these}", params)
        return [Whole(*row) for row in rows]

    def named(self, ids: Sequence[str]) -> list[Named]:
        """Return these breakpoints, newest first."""
        these, params = among("id", ids, self._session.dialect)
        rows = self._session.all(SELECT_NAMED.format(these=these), params) if ids else ()
        return [Named(*row) for row in rows]

    def shadows(self, rule_id: str, *, before: str, limit: int) -> list[Shadow]:
        """Return the recorded results of a shadow rule, newest breakpoint first."""
        rows = self._session.all(SELECT_SHADOWS, {"rule_id": rule_id, "before": before, "limit": limit})
        return [Shadow(each[0], each[1], bool(each[2]), each[3], Outcome(each[4])) for each in rows]


def groups_statement(window: Window, sieve: Sieve, dialect: str) -> tuple[str, dict[str, Any]]:
    columns = _told(sieve, dialect)
    numbers = ", ".join(str(n + 1) for n in range(len(columns)))
    statement = f"""
        SELECT {", ".join(columns)}, count(*) FROM {sieve.table}
        WHERE {_WINDOW}{sieve.tests} GROUP BY {numbers}"""
    return statement, window.params() | dict(sieve.params)


def _told(sieve: Sieve, dialect: str) -> tuple[str, ...]:
    """Return the SQL columns: outcome, purged, ID of a breakpoint that forms its own group, and grouped values."""
    loud = " OR ".join(f"{_FIND[dialect]}(payload, '{word}') > 0" for word in _LOUD)
    alone = f"CASE WHEN {loud} THEN id END" if sieve.stops else "CAST(NULL AS text)"
    return (_OUTCOME, "purged_at IS NOT NULL", alone, *sieve.columns)


def _alike(row: Row) -> Alike:
    return Alike(tuple(row[3:]), bool(row[1]))


class _Tests:
    """Builds SQL conditions that are true for every breakpoint that a pattern may match."""

    def __init__(self, find: str) -> None:
        self._find = find
        self.params: dict[str, Any] = {}

    def gate(self, glob: Glob) -> str:
        if glob.literal:
            return f"gate = {self._value(glob.text)}"
        head, *pieces = glob.pieces
        tests = [f"{self._find}(gate, {self._value(head)}) = 1"] if head else []
        tests += [self._within("gate", piece) for piece in pieces if piece]
        return " AND ".join(tests)

    def possible(self, expression: Expression) -> str:
        """Return a condition, or an empty string if SQL cannot exclude any breakpoints."""
        match expression:
            case And():
                return " AND ".join(each for each in map(self.possible, expression.operands) if each)
            case Or():
                tests = [self.possible(each) for each in expression.operands]
                return f"({' OR '.join(f'({each})' for each in tests)})" if all(tests) else ""
            case Predicate():
                return self._predicate(expression)
            case _:
                return ""

    def _predicate(self, predicate: Predicate) -> str:
        """Test only attributes that are always known, because an unknown attribute could still match."""
        asked = (predicate.path[0], predicate.operator)
        if asked in _NAMES_ONE:
            tests = [self._within(COLUMN_OF[asked[0]], to_json(each.value)) for each in predicate.literals]
            if asked[0] == "expert":
                # After a purge, it is unknown whether an added owner was also requested as an expert.
                tests.append(f"(purged_at IS NOT NULL AND {self._find}(seats, ',true]') > 0)")
        elif asked in _IS_ONE:
            # Rules treat a claimed agent ID as unknown.
            tests = ["agent_id_claimed = 1", *(f"agent_id = {self._value(each.value)}" for each in predicate.literals)]
        else:
            return ""
        return f"({' OR '.join(tests)})"

    def _within(self, column: str, text: str) -> str:
        return f"{self._find}({column}, {self._value(text)}) > 0"

    def _value(self, value: Any) -> str:  # noqa: ANN401  # any value in a pattern
        name = f"v{len(self.params)}"
        self.params[name] = value
        return f":{name}"
