"""Exports a run: run.json, journal.jsonl, the files that it saved, and a folder with task.json for each step."""

import json
from pathlib import Path
from typing import Any

import typer

from assent.contracts.runs import Run, RunStep
from assent.contracts.shape import plain
from assent.sdk.client import Assent
from assent.sdk.files import relative_path


def export(assent: Assent, run_id: str, folder: Path) -> list[str]:
    """Write a run with its journal and files to a folder, and return the names of the written files."""
    if folder.exists() and any(folder.iterdir()):
        msg = f"{folder} is not empty. Choose another directory."
        raise typer.BadParameter(msg, param_hint="--output")
    run = assent.run(run_id)
    written: dict[str, bytes] = {"run.json": _json(plain(run)), "journal.jsonl": _journal(assent, run_id)}
    for step in run.steps:
        place = f"tasks/{step.path}-{_word(step.name)}"
        written[f"{place}/task.json"] = _json(_task(assent, run, step))
        if step.outcome is not None:
            written[f"{place}/result.json"] = _json(step.outcome)
    for file in run.files:
        # The author of the process chose these names, so make sure that they stay inside the folder.
        written[f"files/{relative_path(file.path).as_posix()}"] = assent.run_file(run_id, file.path)
    # Everything has been fetched by now, so a failed request does not leave a partial export.
    for name, content in written.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return sorted(written)


def _journal(assent: Assent, run_id: str) -> bytes:
    lines: list[str] = []
    after = 0
    while page := assent.journal(run_id, after=after):
        lines += [json.dumps(plain(each), ensure_ascii=False) for each in page]
        after = page[-1].seq
    return ("\n".join(lines) + "\n").encode()


def _task(assent: Assent, run: Run, step: RunStep) -> dict[str, Any]:
    task: dict[str, Any] = {"kind": step.kind, "title": step.name, "runId": run.id, "step": step.path}
    task |= {"state": step.state, "startedAt": step.started_at, "endedAt": step.ended_at, "attempts": step.attempts}
    if step.error is not None:
        task["error"] = step.error
    if step.breakpoint_id is None:
        return task
    asked = assent.get(step.breakpoint_id)
    return task | {
        "title": asked.title or asked.question or asked.gate,
        "metadata": {"breakpointId": asked.gate, "tags": asked.tags, "id": asked.id, "digest": asked.digest},
        "question": asked.payload.get("question"),
        "autoApproval": asked.auto_approval,
        "status": asked.status,
        "decision": asked.decision,
    }


def _json(value: Any) -> bytes:  # noqa: ANN401  # any JSON
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def _word(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "-" for each in name)[:60].strip(".-") or "step"
