"""Types that several models share, such as names, lengths and choices, and base classes for models."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

MAX_TTL = 366 * 24 * 3600
MAX_RETENTION = 36_500
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Handle = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Gate = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Text = Annotated[str, StringConstraints(max_length=20_000)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Format = Literal["markdown", "html", "code", "text", "diff", "image", "json"]
StatusName = Literal["waiting", "released", "expired", "cancelled"]
DecisionName = Literal["approved", "rejected"]
StrategyName = Literal["single", "first-response-wins", "collect-all", "quorum"]
RuleActionName = Literal["auto-approve", "never-auto-approve"]
RoleName = Literal["viewer", "reviewer", "rule-admin", "auditor", "admin"]
Pattern = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Note = Annotated[str, StringConstraints(max_length=1000)]
Moment = Annotated[str, StringConstraints(max_length=40)]
Experts = Annotated[list[Name], Field(min_length=1, max_length=50)]


class Strict(BaseModel):
    """A model with strict types that rejects unknown fields."""

    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Open(BaseModel):
    """A model that validates known fields and keeps unknown fields unchanged."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)
