"""Shapes of rules.json."""

from typing import Annotated, Literal

from assent.contracts.rules import Place, RuleModeName
from assent.contracts.shape import DocumentedAs, Limits, Shape
from assent.contracts.words import Moment, Note, Pattern, RuleActionName

Origin = Annotated[str, Limits(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]


class FileRule(Shape, frozen=True, kw_only=True):
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


class RulesFile(Shape, frozen=True, kw_only=True):
    schema_version: Annotated[str, Limits(max_length=100)]
    """Version of the file format."""
    rules: list[FileRule]
    """Rules in evaluation order."""


class ImportedRule(Shape, frozen=True, kw_only=True):
    outcome: Annotated[str, DocumentedAs(Literal["added", "changed", "unchanged", "removed"])]
    """What the import did with the rule."""
    index: int | None = None
    file_id: str | None = None
    id: str | None = None
    pattern: str
    action: str
    warnings: list[str] | None = None


class RulesImported(Shape, frozen=True, kw_only=True):
    dry_run: bool
    added: int
    changed: int
    unchanged: int
    removed: int
    total_rules: int
    items: list[ImportedRule]
