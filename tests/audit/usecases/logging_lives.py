"""An audit log with events of every kind, covered by several checkpoints and published to an external file."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assent.audit.usecases.checkpoints import CheckpointService
from assent.audit.usecases.export import export
from assent.audit.usecases.publish_checkpoint import Anchoring
from assent.audit.usecases.verify import AuditService
from assent.core.chain import Finding
from assent.kernel.settings import Settings
from tests.audit.usecases.living import live, live_by_rules
from tests.db.making import create
from tests.support.nodes import ManualClock, Node, running_node
from tests.support.tampering import resting

VERIFIER = Path(__file__).parents[3] / "tools" / "verify_export.py"


@dataclass(frozen=True)
class Logged:
    """An audit log, its checkpoint file, and the ids of its breakpoints and rules."""

    settings: Settings
    anchors: Path
    ids: dict[str, str]

    def found(self, *, anchors: bool = True, **options: object) -> list[Finding]:
        """Verify the log, with or without the external file."""
        told = {} if anchors else {"checkpoint_file": None}

        async def run() -> list[Finding]:
            async with resting(self.settings.model_copy(update=told)) as node:
                return (await node[AuditService].verify(**options)).findings  # type: ignore[arg-type]

        return asyncio.run(run())

    def exported(self, *, project: str | None = None) -> Path:
        path = self.anchors.with_name("export.jsonl")

        async def run() -> None:
            async with resting(self.settings) as node:
                with path.open("wb") as file:
                    await node.database.read(lambda tx: export(tx, file.write, project=project))

        asyncio.run(run())
        return path

    def second_opinion(self, *, project: str | None = None, anchors: bool = True) -> list[str]:
        return second_opinion(self.exported(project=project), anchors=self.anchors if anchors else None)


def second_opinion(export: Path, *, keys: Sequence[str] = (), anchors: Path | None = None) -> list[str]:
    """Run the verifier like an auditor who has only the export, and return its findings."""
    options = [option for key in keys for option in ("--key", key)]
    options += ["--anchors", str(anchors)] if anchors else []
    command = [sys.executable, "-I", str(VERIFIER), str(export), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *found, told = done.stdout.splitlines()
    assert done.returncode == (1 if found else 0), done.stderr
    assert told.endswith(f"{len(found) or 'no'} finding{'s' * (len(found) != 1)}.")
    return found


async def sign(node: Node) -> int:
    return await node.assent.database.write(node.assent[CheckpointService].make)


def with_anchors(settings: Settings, folder: Path) -> Settings:
    """Return settings that create checkpoints only on demand and publish them to a file."""
    return settings.model_copy(update={"checkpoint_seconds": 0, "checkpoint_file": folder / "anchors.jsonl"})


def lived(settings: Settings, folder: Path) -> Logged:
    settings, clock = with_anchors(settings, folder), ManualClock()

    async def run() -> dict[str, str]:
        async with running_node(settings, clock=clock) as node:
            ids = dict((await live(node, clock)).ids)
            await sign(node)
            clock.advance(1)
            ids |= (await live_by_rules(node, clock)).rules
            await sign(node)
            clock.advance(1)
            ids["last signed"] = await create(node)
            await sign(node)
            ids["unsigned"] = await create(node)
            await node.assent[Anchoring].write_file()
            return ids

    assert settings.checkpoint_file is not None
    return Logged(settings, settings.checkpoint_file, asyncio.run(run()))
