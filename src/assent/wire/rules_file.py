"""Rules as a file."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from assent.wire.rules import Place, RuleModeName
from assent.wire.words import Moment, Note, Pattern, RuleActionName, Strict

Origin = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class FileRule(Strict):
    """A rule in rules.json; ids, people and times are those of the exporting server."""

    pattern: Pattern
    action: RuleActionName
    id: Origin | None = None
    created_at: Moment | None = None
    created_by: Origin | None = None
    source: Origin | None = None
    note: Note | None = None
    mode: RuleModeName | None = None
    enabled: bool | None = None
    expires_at: Moment | None = None
    order: Place | None = None


class RulesFile(Strict):
    schema_version: Annotated[str, StringConstraints(max_length=100)]
    rules: list[FileRule]


class ImportedRule(Strict):
    outcome: Literal["added", "changed", "unchanged", "removed"]
    index: int | None = None
    file_id: str | None = None
    id: str | None = None
    pattern: str
    action: str
    warnings: list[str] | None = None


class RulesImported(Strict):
    dry_run: bool
    added: int
    changed: int
    unchanged: int
    removed: int
    total_rules: int
    items: list[ImportedRule]
