"""Types that several shapes share, such as names, lengths and choices."""

from typing import Annotated, Literal

from assent.contracts.shape import Limits

MAX_TTL = 366 * 24 * 3600
MAX_RETENTION = 36_500
Name = Annotated[str, Limits(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Handle = Annotated[str, Limits(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Tag = Annotated[str, Limits(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]
Gate = Annotated[str, Limits(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f]+$")]
Title = Annotated[str, Limits(min_length=1, max_length=300)]
Text = Annotated[str, Limits(max_length=20_000)]
Sha256 = Annotated[str, Limits(pattern=r"^[0-9a-f]{64}$")]
Format = Literal["markdown", "html", "code", "text", "diff", "image", "json"]
StatusName = Literal["waiting", "released", "expired", "cancelled"]
DecisionName = Literal["approved", "rejected"]
StrategyName = Literal["single", "first-response-wins", "collect-all", "quorum"]
RuleActionName = Literal["auto-approve", "never-auto-approve"]
RoleName = Literal["viewer", "reviewer", "rule-admin", "auditor", "admin"]
Pattern = Annotated[str, Limits(min_length=1, max_length=2000)]
Note = Annotated[str, Limits(max_length=1000)]
Moment = Annotated[str, Limits(max_length=40)]
Experts = Annotated[list[Name], Limits(min_length=1, max_length=50)]
