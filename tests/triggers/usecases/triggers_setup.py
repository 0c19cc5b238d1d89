"""Setup for trigger tests: processes, people, and settings in the format of assent.yaml."""

from pathlib import Path
from typing import Any

from assent.core.access import Kind, Principal, Role
from assent.kernel.settings import Settings

FIX_CI = '''
from typing import TypedDict


class Inputs(TypedDict):
    repo: str
    sha: str


async def process(inputs: Inputs, ctx):
    """Make it green again."""
'''
TAKES_ANYTHING = """
async def process(inputs, ctx):
    return inputs
"""
SCHEDULE: dict[str, Any] = {"cron": "30 2 * * *", "timezone": "UTC"}
BODY: dict[str, Any] = {
    "id": "fix-red-main",
    "on": "github.workflow-run.completed(branch = 'main')",
    "run": "fix-ci",
    "inputs": {"repo": "{{ event.repo }}", "sha": "{{ event.sha }}"},
}
TICK: dict[str, Any] = {"id": "audit", "on": "schedule.tick(source = 'nightly')", "run": "anything"}


def processes(settings: Settings) -> Path:
    """Write two processes to the node's process folder."""
    folder = settings.process_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fix_ci.py").write_text(FIX_CI)
    (folder / "anything.py").write_text(TAKES_ANYTHING)
    return folder


def person(*roles: Role, name: str = "ann", project: str = "default", everywhere: bool = False) -> Principal:
    given = frozenset(roles or (Role.ADMIN,))
    return Principal(kind=Kind.PERSON, id=f"usr_{name}", name=name, project=project, roles=given, everywhere=everywhere)
