"""Charts: the same values as JSON for the script that draws them and as a table that works without scripts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assent.breakpoints.usecases.metrics import DAY
from assent.core.timestamps import SECOND, iso

MINUTE, HOUR, DAY_SECONDS = 60, 3600, 24 * 3600
_SMALL = 10


def duration(seconds: float | None) -> str:
    """Format a duration in a single unit."""
    if seconds is None:
        return "–"
    for size, limit, unit in ((1, MINUTE, "s"), (MINUTE, HOUR, "min"), (HOUR, 2 * DAY_SECONDS, "h")):
        if seconds < limit:
            return _rounded(seconds / size, unit)
    return _rounded(seconds / DAY_SECONDS, "days")


def _rounded(value: float, unit: str) -> str:
    text = f"{value:.1f}".removesuffix(".0") if value < _SMALL else f"{value:.0f}"
    return f"{text} {unit}"


def percent(share: float) -> str:
    return f"{share * 100:.0f}%"


def outcome_label(outcome: str) -> str:
    return {"auto": "auto-approved", "waiting": "pending"}.get(outcome, outcome)


def day(at: int) -> str:
    return iso(at)[:10]


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    token: str
    """The name of the color in the style sheet."""
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    at: int
    label: str
    texts: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Values over time, in steps of equal length; `at` contains the start of each step. Times are in microseconds."""

    id: str
    title: str
    summary: str
    kind: Literal["lines", "bars"]
    unit: Literal["count", "seconds", "percent"]
    step: int
    at: Sequence[int]
    series: Sequence[Series]

    @property
    def values(self) -> str:
        """The chart as JSON for the script, with times in seconds."""
        return json.dumps(
            {
                "kind": self.kind,
                "unit": self.unit,
                "step": self.step // SECOND,
                "at": [each // SECOND for each in self.at],
                "series": [
                    {"label": each.label, "token": each.token, "values": list(each.values)} for each in self.series
                ],
            }
        )

    @property
    def lines(self) -> list[Line]:
        """The values as rows of a table, newest first."""
        return [
            Line(at, self._label(at), [self._text(each.values[n]) for each in self.series])
            for n, at in reversed(list(enumerate(self.at)))
        ]

    def _label(self, at: int) -> str:
        return day(at) if self.step >= DAY else f"{iso(at)[:10]} {iso(at)[11:16]}"

    def _text(self, value: float | None) -> str:
        if value is None:
            return "–"
        if self.unit == "seconds":
            return duration(value)
        return percent(value) if self.unit == "percent" else f"{value:,.0f}"
