"""Runs with their steps, journals and files. Only the worker with the latest claim can write to a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assent.core.access import Kind, Principal, Role
from assent.core.errors import NotFound
from assent.db.sql import among, insert
from assent.db.transaction import Store, Transaction
from assent.runs.model import Cause, Line, Run, RunFile, RunState, Step, StepKind, StepState, Superseded, Written

JOB = "advance"
HEAL = 300_000_000
"""Microseconds until work that should already be queued is checked again; a long interval keeps this cheap."""
COLUMNS = (
    "id", "project_id", "process", "version", "state", "inputs", "output", "error", "agent_id", "started_by",
    "started_by_id", "principal", "turn", "starts", "lines", "created_at", "updated_at", "ended_at",
    "due_at", "event_id", "trigger_name", "depth",
)  # fmt: skip
STEP_COLUMNS = (
    "run_id", "path", "kind", "name", "fingerprint", "state", "attempts", "breakpoint_id", "due_at", "heard", "outcome",
    "error", "started_at", "ended_at",
)  # fmt: skip
INSERT = insert("assent_runs", COLUMNS)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM assent_runs"
# Lists omit inputs and outputs, each of which can be up to 1 MiB.
_NOT_TOLD = {"inputs": "'null'", "output": "NULL"}
_SELECT_LISTED = f"SELECT {', '.join(_NOT_TOLD.get(name, name) for name in COLUMNS)} FROM assent_runs"
SELECT_STEPS = f"SELECT {', '.join(STEP_COLUMNS[1:])} FROM assent_run_steps WHERE run_id = :run_id"
SELECT_OPEN_STEPS = f"{SELECT_STEPS} AND state NOT IN ('done', 'failed')"
_OPEN = "state IN ('queued', 'running', 'suspended')"
TAKE = f"""
    UPDATE assent_runs SET state = 'running', turn = turn + 1, starts = starts + 1, due_at = :lease, updated_at = :now
    WHERE id = :id AND (state IN ('queued', 'suspended') OR (state = 'running' AND turn = :mine))
    RETURNING {", ".join(COLUMNS)}"""
# New journal lines are progress, so they reset the number of starts.
HOLD = """
    UPDATE assent_runs SET due_at = :lease, lines = lines + :count, updated_at = :now,
        starts = CASE WHEN :count > 0 THEN 0 ELSE starts END
    WHERE id = :id AND turn = :turn AND state = 'running' RETURNING lines"""
LEAVE = """
    UPDATE assent_runs SET state = :state, due_at = :due_at, output = :output, error = :error, version = :version,
        ended_at = :ended_at, lines = lines + :count, updated_at = :now, starts = 0
    WHERE id = :id AND turn = :turn AND state = 'running' RETURNING lines"""
# Incrementing the turn makes the worker that is executing the run lose its claim.
STOP = f"""
    UPDATE assent_runs SET state = 'cancelled', due_at = NULL, turn = turn + 1, ended_at = :now, lines = lines + 1,
        updated_at = :now
    WHERE id = :id AND {_OPEN} RETURNING lines"""
REVIVE = """
    UPDATE assent_runs SET state = 'queued', due_at = :due_at, error = NULL, ended_at = NULL, lines = lines + 1,
        starts = 0, updated_at = :now
    WHERE id = :id AND state = 'failed' RETURNING lines"""
UPSERT_STEP = insert(
    "assent_run_steps",
    STEP_COLUMNS,
    suffix="ON CONFLICT (run_id, path) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in STEP_COLUMNS[5:]),
)
FORGET_FAILURE = "DELETE FROM assent_run_steps WHERE run_id = :run_id AND path = :path AND state = 'failed'"
INSERT_LINE = insert("assent_run_journal", ("run_id", "seq", "at", "type", "path", "data"))
SELECT_LINES = """
    SELECT seq, at, type, path, data FROM assent_run_journal
    WHERE run_id = :run_id AND seq > :after ORDER BY seq LIMIT :limit"""
SELECT_OWN = """
    SELECT seq, at, type, path, data FROM assent_run_journal
    WHERE run_id = :run_id AND type IN ('log', 'now', 'unseen', 'writes')"""
# Mark the step instead of the run, so that an answer never waits for the worker that is executing the run.
ANSWERED = """
    UPDATE assent_run_steps SET state = 'answered', due_at = :due_at
    WHERE state = 'waiting' AND {these} RETURNING run_id, breakpoint_id"""
COMMENTED = """
    UPDATE assent_run_steps SET due_at = :due_at
    WHERE state = 'waiting' AND breakpoint_id = :breakpoint_id AND heard IS NOT NULL RETURNING run_id"""
# In this turn, the worker reads the comments that arrived before its claim; later comments mark the step again.
LISTENING = """
    UPDATE assent_run_steps SET due_at = NULL
    WHERE run_id = :run_id AND state = 'waiting' AND heard IS NOT NULL AND due_at IS NOT NULL"""
HEARD = "UPDATE assent_run_steps SET heard = :heard WHERE run_id = :run_id AND path = :path"
# Include the key of the job that may already be queued, so that no duplicate is queued while it waits.
SELECT_DUE = """
    SELECT r.id, r.due_at, '', 'turn:' || CAST(CASE WHEN r.state = 'running' THEN r.turn + 1 ELSE r.turn END AS text)
    FROM assent_runs r WHERE r.due_at <= :now ORDER BY r.due_at LIMIT :limit{of_runs}"""
SELECT_DUE_STEPS = """
    SELECT s.run_id, s.due_at, s.path,
        CASE WHEN s.state = 'answered' THEN s.breakpoint_id ELSE 'due:' || s.path || ':' || CAST(r.turn AS text) END
    FROM assent_run_steps s JOIN assent_runs r ON r.id = s.run_id
    WHERE s.due_at <= :now ORDER BY s.due_at LIMIT :limit{of_steps}"""
SELECT_NEXT_DUE = """
    SELECT due_at FROM (
        SELECT min(due_at) AS due_at FROM assent_runs WHERE due_at IS NOT NULL
        UNION ALL SELECT min(due_at) AS due_at FROM assent_run_steps WHERE due_at IS NOT NULL) AS due
    WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1"""
# A worker that did not renew its lease in time has lost the run, and the next turn belongs to another worker.
LOOK_AGAIN = """
    UPDATE assent_runs
    SET turn = CASE WHEN state = 'running' THEN turn + 1 ELSE turn END, state = 'queued', due_at = :again
    WHERE id = :id AND due_at = :due_at AND state IN ('queued', 'running')"""
SELECT_LEFT = f"""
    SELECT r.id FROM assent_projects p JOIN assent_runs r ON r.project_id = p.id
    WHERE p.removed_at IS NOT NULL AND r.{_OPEN} ORDER BY r.id LIMIT :limit"""
ABANDON = "UPDATE assent_runs SET due_at = :now WHERE state = 'running'"
# Steps of a run that has ended are not checked again.
LOOK_AGAIN_AT_STEP = f"""
    UPDATE assent_run_steps
    SET due_at = CASE WHEN EXISTS (SELECT 1 FROM assent_runs WHERE id = :id AND {_OPEN})
        THEN CAST(:again AS bigint) END
    WHERE run_id = :id AND path = :path AND due_at = :due_at"""
UPSERT_FILE = insert(
    "assent_run_files",
    ("run_id", "path", "sha256", "size", "at"),
    suffix="ON CONFLICT (run_id, path) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, at = excluded.at",
)
SELECT_FILES = "SELECT path, sha256, size FROM assent_run_files WHERE run_id = :run_id ORDER BY path"
SELECT_CONTENT = """
    SELECT f.content FROM assent_run_files r JOIN assent_files f ON f.sha256 = r.sha256
    WHERE r.run_id = :run_id AND r.path = :path AND f.project_id = :project_id"""
# The latest run to declare a path is considered its writer.
UPSERT_OUTPUT = insert(
    "assent_run_outputs",
    ("path", "run_id", "at"),
    suffix="ON CONFLICT (path) DO UPDATE SET run_id = excluded.run_id, at = excluded.at",
)
_FILTERS = ("state", "process", "started_by_id", "event_id", "trigger_name")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Runs(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._enqueue = tx.enqueue
        # Skip locked rows, because another node is already handling them.
        skip = " FOR UPDATE OF {} SKIP LOCKED" if tx.session.dialect == "postgresql" else ""
        self._skip = {"of_runs": skip.format("r"), "of_steps": skip.format("s")}

    def add(self, new: Run) -> None:
        self._session.write(INSERT, [_row(new)])

    def get(self, run_id: str, *, project: str) -> Run:
        params = {"id": run_id, "project": project}
        rows = self._session.all(f"{_SELECT} WHERE id = :id AND project_id = :project", params)
        if not rows:
            msg = f"Run {run_id} not found in this project."
            raise NotFound(msg)
        return _run(rows[0])

    def find(self, run_id: str, *, project: str) -> Run | None:
        rows = self._session.all(
            f"{_SELECT_LISTED} WHERE id = :id AND project_id = :project", {"id": run_id, "project": project}
        )
        return _run(rows[0]) if rows else None

    def these(self, run_ids: Sequence[str]) -> list[Run]:
        """Return the existing runs among these IDs, in any project, without inputs and outputs."""
        test, params = among("id", run_ids, self._session.dialect)
        return [_run(row) for row in self._session.all(f"{_SELECT_LISTED} WHERE {test} ORDER BY id", params)]

    def page(self, project: str, filters: Mapping[str, str], *, before: str | None, limit: int) -> list[Run]:
        """Return runs, newest first. The keys of `filters` are column names."""
        wheres = "".join(f" AND {name} = :{name}" for name in _FILTERS if name in filters)
        older = " AND id < :before" if before else ""
        params = {"project": project, "limit": limit, **filters, **({"before": before} if before else {})}
        rows = self._session.all(
            f"{_SELECT_LISTED} WHERE project_id = :project{wheres}{older} ORDER BY id DESC LIMIT :limit", params
        )
        return [_run(row) for row in rows]

    def take(self, run_id: str, *, mine: int, now: int, lease: int) -> Run | None:
        """Claim a run so that no other worker can write to it; return None if it has ended or another worker holds it.

        `mine` is a turn that the caller claimed and lost track of, so no other worker can be executing the run.
        """
        self._session.dirty = True
        rows = self._session.all(TAKE, {"id": run_id, "mine": mine, "now": now, "lease": lease})
        return _run(rows[0]) if rows else None

    def hold(self, run: Run, lines: Sequence[Line], *, now: int, lease: int) -> None:
        """Extend the lease and append lines to the journal. Raise Superseded if another worker has claimed the run."""
        params = {"id": run.id, "turn": run.turn, "lease": lease, "now": now, "count": len(lines)}
        self._write_lines(run.id, self._session.all(HOLD, params), lines, now)

    def leave(self, run: Run, lines: Sequence[Line], *, now: int) -> None:
        """Save the state of a run and release it."""
        params = {
            "id": run.id,
            "turn": run.turn,
            "state": run.state.value,
            "version": run.version,
            "due_at": run.due_at,
            "output": _json(run.output) if run.state is RunState.DONE else None,
            "error": _json(run.error) if run.error else None,
            "ended_at": run.ended_at,
            "now": now,
            "count": len(lines),
        }
        self._write_lines(run.id, self._session.all(LEAVE, params), lines, now)
        # A trigger may be waiting for this run's slot.
        self._session.news = self._session.news or (run.ended and run.cause is not None)

    def cancel(self, run_id: str, line: Line, *, now: int) -> bool:
        self._session.news = True
        return self._unless_ended(STOP, {"id": run_id, "now": now}, line)

    def left_open(self, *, limit: int) -> list[str]:
        """Return runs of removed projects that have not ended."""
        return [row[0] for row in self._session.all(SELECT_LEFT, {"limit": limit})]

    def revive(self, run_id: str, line: Line, *, now: int) -> bool:
        return self._unless_ended(REVIVE, {"id": run_id, "now": now, "due_at": now + HEAL}, line)

    def _unless_ended(self, statement: str, params: Mapping[str, Any], line: Line) -> bool:
        found = self._session.all(statement, params)
        if found:
            self._write_lines(params["id"], found, [line], params["now"])
        return bool(found)

    def _write_lines(self, run_id: str, found: Sequence[Sequence[Any]], lines: Sequence[Line], now: int) -> None:
        self._session.dirty = True
        if not found:
            msg = f"{run_id} was continued by another worker or cancelled."
            raise Superseded(msg)
        # The statement has already added these lines to the count.
        first = found[0][0] - len(lines) + 1
        rows = [
            {"run_id": run_id, "seq": seq, "at": now, "type": line.type, "path": line.path, "data": _json(line.data)}
            for seq, line in enumerate(lines, first)
        ]
        if rows:
            self._session.write(INSERT_LINE, rows)

    def first_line(self, run_id: str, line: Line, *, now: int) -> None:
        """Begin the journal of a new run, whose line count already includes this line."""
        self._write_lines(run_id, [[1]], [line], now)

    def steps(self, run_id: str) -> list[Step]:
        return [_step(row) for row in self._session.all(SELECT_STEPS, {"run_id": run_id})]

    def open_steps(self, run_id: str) -> list[Step]:
        """Return the steps that have not ended."""
        return [_step(row) for row in self._session.all(SELECT_OPEN_STEPS, {"run_id": run_id})]

    def put_step(self, run_id: str, step: Step) -> None:
        self._session.write(UPSERT_STEP, [_step_row(run_id, step)])

    def listening(self, run_id: str) -> None:
        """Clear the marks of steps with new comments, because the worker that claimed the run reads all comments."""
        self._session.write(LISTENING, [{"run_id": run_id}])

    def heard(self, run_id: str, step: Step) -> None:
        """Save only the number of comments read, because an answer may have arrived in the meantime."""
        self._session.write(HEARD, [{"run_id": run_id, "path": step.path, "heard": step.heard}])

    def forget_failure(self, run_id: str, path: str) -> None:
        self._session.write(FORGET_FAILURE, [{"run_id": run_id, "path": path}])

    def journal(self, run_id: str, *, after: int, limit: int) -> list[Written]:
        rows = self._session.all(SELECT_LINES, {"run_id": run_id, "after": after, "limit": limit})
        return [_written(row) for row in rows]

    def own_lines(self, run_id: str) -> list[Written]:
        """Return the lines that the process itself wrote, and would write again on every replay."""
        return [_written(row) for row in self._session.all(SELECT_OWN, {"run_id": run_id})]

    def enqueue(self, run_id: str, why: str) -> None:
        """Queue a job that continues this run. Each reason is queued only once."""
        self._enqueue(JOB, key=f"{run_id}:{why}", payload={"run_id": run_id})

    def answered(self, breakpoint_ids: Sequence[str], *, now: int) -> None:
        """Continue the runs that are waiting for these breakpoints, in the transaction that ends the breakpoints."""
        if not breakpoint_ids:
            return
        these, params = among("breakpoint_id", breakpoint_ids, self._session.dialect)
        found = self._session.all(ANSWERED.format(these=these), {**params, "due_at": now + HEAL})
        for run_id, breakpoint_id in found:
            self.enqueue(run_id, breakpoint_id)

    def commented(self, breakpoint_id: str, *, version: int, now: int) -> None:
        """Continue a run that handles comments after a new comment has arrived."""
        found = self._session.all(COMMENTED, {"breakpoint_id": breakpoint_id, "due_at": now + HEAL})
        for (run_id,) in found:
            self.enqueue(run_id, f"{breakpoint_id}:{version}")

    def wake_due(self, now: int, *, limit: int) -> int:
        """Queue runs that are due or abandoned, and return the number of rows checked."""
        params = {"now": now, "limit": limit}
        looks = [each.format(**self._skip) for each in (SELECT_DUE, SELECT_DUE_STEPS)]
        rows = [row for each in looks for row in self._session.all(each, params)]
        # The updates compare `due_at`, so they skip rows that have changed since they were read.
        for run_id, due_at, path, why in rows:
            params = {"id": run_id, "path": path, "due_at": due_at, "again": now + HEAL}
            self._session.write(LOOK_AGAIN_AT_STEP if path else LOOK_AGAIN, [params])
            self.enqueue(run_id, why)
        return len(rows)

    def abandon(self, *, now: int) -> int:
        """Expire the leases of all running runs, because the workers that executed them no longer exist."""
        return self._session.change(ABANDON, {"now": now})

    def keep_files(self, run_id: str, files: Sequence[RunFile], *, now: int) -> None:
        rows = [
            {"run_id": run_id, "path": each.path, "sha256": each.sha256, "size": each.size, "at": now} for each in files
        ]
        if rows:
            self._session.write(UPSERT_FILE, rows)

    def writes(self, run_id: str, paths: Sequence[str], *, now: int) -> None:
        """Record that a run writes these files outside its own folder."""
        # Sorted, so that concurrent runs lock rows in the same order and never deadlock.
        rows = [{"path": path, "run_id": run_id, "at": now} for path in sorted(set(paths))]
        if rows:
            self._session.write(UPSERT_OUTPUT, rows)

    def writers(self, paths: Sequence[str], *, project: str, since: int) -> dict[str, str]:
        """Return the latest run that declared each path, except runs that ended before `since`."""
        these, params = among("o.path", list(paths), self._session.dialect)
        statement = (
            "SELECT o.path, o.run_id FROM assent_run_outputs o JOIN assent_runs r ON r.id = o.run_id"
            f" WHERE r.project_id = :project_id AND (r.ended_at IS NULL OR r.ended_at >= :since) AND {these}"
        )
        params |= {"project_id": project}
        return {row[0]: row[1] for row in self._session.all(statement, {**params, "since": since})}

    def files(self, run_id: str) -> list[RunFile]:
        return [RunFile(*row) for row in self._session.all(SELECT_FILES, {"run_id": run_id})]

    def content(self, run_id: str, path: str, *, project: str) -> bytes:
        params = {"run_id": run_id, "path": path, "project_id": project}
        # File names cannot contain NUL, and PostgreSQL rejects parameters that do.
        rows: Sequence[Sequence[Any]] = self._session.all(SELECT_CONTENT, params) if "\x00" not in path else ()
        if not rows:
            msg = f"File {path!r} of run {run_id} not found."
            raise NotFound(msg)
        return bytes(rows[0][0])


def _written(row: Sequence[Any]) -> Written:
    seq, at, kind, path, data = row
    return Written(seq, at, kind, path, _decode(data))


def _json(value: object) -> str:
    return _encode(value).decode()


def _optional(text: str | None) -> Any:  # noqa: ANN401  # any JSON value
    return None if text is None else _decode(text)


def _row(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "project_id": run.project,
        "process": run.process,
        "version": run.version,
        "state": run.state.value,
        "inputs": _json(run.inputs),
        "output": None,
        "error": None,
        "agent_id": run.agent_id,
        "started_by": run.started_by,
        "started_by_id": run.principal.id,
        "principal": _principal_json(run.principal),
        "turn": run.turn,
        "starts": run.starts,
        "lines": run.lines,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "ended_at": run.ended_at,
        "due_at": run.due_at,
        "event_id": run.cause.event_id if run.cause else None,
        "trigger_name": run.cause.trigger if run.cause else None,
        "depth": run.depth,
    }


def _run(row: Sequence[Any]) -> Run:
    found = dict(zip(COLUMNS, row, strict=True))
    return Run(
        id=found["id"],
        project=found["project_id"],
        process=found["process"],
        version=found["version"],
        state=RunState(found["state"]),
        inputs=_decode(found["inputs"]),
        output=_optional(found["output"]),
        error=_optional(found["error"]),
        agent_id=found["agent_id"],
        started_by=found["started_by"],
        principal=_principal(found["principal"], found["started_by_id"], found["project_id"]),
        turn=found["turn"],
        starts=found["starts"],
        lines=found["lines"],
        created_at=found["created_at"],
        updated_at=found["updated_at"],
        ended_at=found["ended_at"],
        due_at=found["due_at"],
        cause=Cause(found["event_id"], found["trigger_name"], found["depth"]) if found["event_id"] else None,
    )


def _principal_json(principal: Principal) -> str:
    return _json(
        {
            "kind": principal.kind.value,
            "name": principal.name,
            "roles": sorted(role.value for role in principal.roles),
            "gates": principal.gates,
            "agentIds": principal.agent_ids,
            "tokenId": principal.token_id,
        }
    )


def _principal(text: str, principal_id: str, project: str) -> Principal:
    kept = _decode(text)
    return Principal(
        kind=Kind(kept["kind"]),
        id=principal_id,
        name=kept["name"],
        project=project,
        roles=frozenset(map(Role, kept["roles"])),
        gates=tuple(kept["gates"]),
        agent_ids=tuple(kept["agentIds"]),
        token_id=kept["tokenId"],
    )


def _step(row: Sequence[Any]) -> Step:
    found = dict(zip(STEP_COLUMNS[1:], row, strict=True))
    return Step(
        path=found["path"],
        kind=StepKind(found["kind"]),
        name=found["name"],
        fingerprint=found["fingerprint"],
        state=StepState(found["state"]),
        attempts=found["attempts"],
        breakpoint_id=found["breakpoint_id"],
        due_at=found["due_at"],
        heard=found["heard"],
        outcome=_optional(found["outcome"]),
        error=_optional(found["error"]),
        started_at=found["started_at"],
        ended_at=found["ended_at"],
    )


def _step_row(run_id: str, step: Step) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "path": step.path,
        "kind": step.kind.value,
        "name": step.name,
        "fingerprint": step.fingerprint,
        "state": step.state.value,
        "attempts": step.attempts,
        "breakpoint_id": step.breakpoint_id,
        "due_at": step.due_at,
        "heard": step.heard,
        "outcome": _json(step.outcome),
        "error": _json(step.error) if step.error is not None else None,
        "started_at": step.started_at,
        "ended_at": step.ended_at,
    }
