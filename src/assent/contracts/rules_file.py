"""JSON models of rules.json."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from assent.contracts.rules import Place, RuleModeName
from assent.contracts.words import Moment, Note, Pattern, RuleActionName, Strict

Origin = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class FileRule(Strict):
    """A rule in rules.json. IDs, people and times refer to the exporting server."""

    pattern: Pattern
    """Pattern that determines which breakpoints the rule matches."""
    action: RuleActionName
    """What the rule does with the breakpoints that it matches."""
    id: Origin | None = None
    """ID of the rule on the exporting server."""
    created_at: Moment | None = None
    """Time at which the rule was created on the exporting server."""
    created_by: Origin | None = None
    """Person who created the rule on the exporting server."""
    source: Origin | None = None
    """Origin of the rule on the exporting server."""
    note: Note | None = None
    """Note about the rule."""
    mode: RuleModeName | None = None
    """Whether the rule is enforced (`live`) or only logged (`shadow`)."""
    enabled: bool | None = None
    """Whether the rule is enabled."""
    expires_at: Moment | None = None
    """Time at which the rule expires."""
    order: Place | None = None
    """Position of the rule in the evaluation order."""


class RulesFile(Strict):
    schema_version: Annotated[str, StringConstraints(max_length=100)]
    """Version of the file format."""
    rules: list[FileRule]
    """Rules in evaluation order."""


class ImportedRule(Strict):
    outcome: Literal["added", "changed", "unchanged", "removed"]
    """What the import did with the rule."""
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
