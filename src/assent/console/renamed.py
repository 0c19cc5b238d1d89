"""Deprecated option names: still accepted, hidden from help, with a warning on standard error."""

from collections.abc import Callable
from typing import Annotated

import typer

from assent.console import output


def _deprecated(old: str, new: str) -> Callable[[str | None], str | None]:
    def told(value: str | None) -> str | None:
        if value is not None:
            output.remark(f"{old} is deprecated. Use {new}.", style="yellow")
        return value

    return told


OldAgent = Annotated[str | None, typer.Option("--agent", hidden=True, callback=_deprecated("--agent", "--agent-id"))]
OldTags = Annotated[str | None, typer.Option("--tags", hidden=True, callback=_deprecated("--tags", "--tag"))]
