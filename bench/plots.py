"""Bar charts as SVG, with colors for light and dark mode, and a title and a description for screen readers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

NAMESPACE = "http://www.w3.org/2000/svg"
WIDTH, LABELS, ROW, TOP, TEXT = 980, 520, 24, 44, 110
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328}.bar{fill:#2f6fdb}.ours{fill:#1a7f4b}"
    ".mark{stroke:#b35900;stroke-width:2;stroke-dasharray:4 3}.name{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6ea2f5}.ours{fill:#4cc38a}.mark{stroke:#f0a35e}}"
)


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    text: str
    ours: bool = False


@dataclass(frozen=True)
class Mark:
    """A line that marks the goal."""

    value: float
    label: str


def bars(title: str, description: str, shown: Sequence[Bar], *, mark: Mark | None = None) -> str:
    """Draw the bars, on a logarithmic scale if their values differ too much for a linear scale."""
    values = [bar.value for bar in shown] + ([mark.value] if mark else [])
    scale = _scale(values)
    height = TOP + ROW * len(shown) + (ROW if mark else 8)
    told = f"{description}{' The scale is logarithmic.' if _logarithmic(values) else ''}"
    parts = [
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title description">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(told)}</desc>',
        f"<style>{STYLE}</style>",
        f'<text class="name" x="8" y="22">{escape(title)}</text>',
    ]
    for number, bar in enumerate(shown):
        parts += _drawn(bar, TOP + ROW * number, scale(bar.value))
    if mark:
        parts += _marked(mark, scale(mark.value), height)
    return "\n".join([*parts, "</svg>", ""])


def _drawn(bar: Bar, y: int, width: float) -> list[str]:
    kind = "ours" if bar.ours else "bar"
    return [
        f'<text x="{LABELS - 8}" y="{y + 13}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect class="{kind}" x="{LABELS}" y="{y}" width="{width:.1f}" height="{ROW - 7}" rx="2"/>',
        f'<text x="{LABELS + width + 6:.1f}" y="{y + 13}">{escape(bar.text)}</text>',
    ]


def _marked(mark: Mark, width: float, height: int) -> list[str]:
    x = LABELS + width
    return [
        f'<line class="mark" x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 20}"/>',
        f'<text x="{x:.1f}" y="{height - 6}" text-anchor="middle">{escape(mark.label)}</text>',
    ]


def _logarithmic(values: Sequence[float]) -> bool:
    return max(values) > 20 * min(values)


def _scale(values: Sequence[float]) -> "_Scale":
    if not _logarithmic(values):
        return _Scale(0.0, max(values), logarithmic=False)
    return _Scale(math.log10(min(values)) - 0.3, math.log10(max(values)), logarithmic=True)


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    logarithmic: bool

    def __call__(self, value: float) -> float:
        at = math.log10(value) if self.logarithmic else value
        return (WIDTH - LABELS - TEXT) * (at - self.low) / (self.high - self.low)
