"""Plots of a search as SVG, in the colours of the page: predicted beside measured times, and the best plan so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 44
"""Room around the plot."""
MOST_RATIO = 2.0
"""Ratios above this are drawn at the upper edge."""

Kind = Literal["plan", "pick", "winner"]


@dataclass(frozen=True)
class Point:
    """`text` is shown where somebody points at it."""

    x: float
    y: float
    text: str
    kind: Kind = "plan"


@dataclass(frozen=True)
class _Axis:
    """From values to places: `low` lies at `start`, `high` at `end`."""

    low: float
    high: float
    start: float
    end: float
    place: Callable[[float], float] = float

    def at(self, value: float) -> float:
        low, high = self.place(self.low), self.place(self.high)
        return self.start + (self.place(value) - low) / (high - low) * (self.end - self.start)


def scatter(points: Sequence[Point]) -> str:
    """Measured (y) beside predicted seconds (x), both by orders of magnitude, with the line where they are equal."""
    values = [value for point in points for value in (point.x, point.y)]
    low, high = min(values) / 1.3, max(values) * 1.3
    across = _Axis(low, high, LEFT, WIDTH - RIGHT, math.log10)
    up = _Axis(low, high, HEIGHT - BOTTOM, TOP, math.log10)
    marks = _times(low, high)
    parts = [
        _grid(across, up, [(mark, _seconds(mark)) for mark in marks], [(mark, _seconds(mark)) for mark in marks]),
        f'<line class="equal" x1="{across.start}" y1="{up.start}" x2="{across.end}" y2="{up.end}"/>',
        *_dots(points, across, up),
        _names("predicted", "measured"),
    ]
    return _svg("measured beside predicted times", parts)


def convergence(points: Sequence[Point]) -> str:
    """The best ratio so far (y) by plans tried (x, from 1 on), as steps, with each plan as a dot. There is a point."""
    ratios = [min(point.y, MOST_RATIO) for point in points]
    low, high = min(1.0, *ratios) - 0.05, max(1.05, *ratios) + 0.05
    across = _Axis(0, max(2.0, points[-1].x), LEFT, WIDTH - RIGHT)
    up = _Axis(low, high, HEIGHT - BOTTOM, TOP)
    step = 0.05 if high - low < 0.4 else 0.1 if high - low < 0.7 else 0.2
    heights = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    every = max(1, math.ceil(points[-1].x / 8))
    counts = range(0, int(points[-1].x) + 1, every)
    best, path = math.inf, ""
    for point in points:
        x = across.at(point.x)
        if point.y < best:
            before, best = best, point.y
            y = up.at(min(best, MOST_RATIO))
            path += f"M{x:.1f} {y:.1f}" if math.isinf(before) else f"H{x:.1f}V{y:.1f}"
    path += f"H{across.end:.1f}"
    drawn = [Point(point.x, min(point.y, MOST_RATIO), point.text, point.kind) for point in points]
    parts = [
        _grid(across, up, [(count, str(count)) for count in counts], [(mark, f"{mark:.2f}") for mark in heights]),
        f'<line class="equal" x1="{across.start}" y1="{up.at(1):.1f}" x2="{across.end}" y2="{up.at(1):.1f}"/>',
        f'<path class="best" d="{path}"/>',
        *_dots(drawn, across, up),
        _names("plans tried", "time, by that of the model's pick"),
    ]
    return _svg("the best plan so far", parts)


def interval(low: float, median: float, high: float, least: float, most: float) -> str:
    """Bounds as a bar between two ratios that all bars of a table share; the line is where the model's pick is."""
    across = _Axis(least, most, 3, 117)

    def at(ratio: float) -> float:
        return across.at(min(max(ratio, least), most))

    return (
        '<svg class="bar" viewBox="0 0 120 14" width="120" height="14" aria-hidden="true">'
        f'<line class="equal" x1="{at(1):.1f}" y1="0" x2="{at(1):.1f}" y2="14"/>'
        f'<line class="bounds" x1="{at(low):.1f}" y1="7" x2="{at(high):.1f}" y2="7"/>'
        f'<circle class="plan" cx="{at(median):.1f}" cy="7" r="3"/></svg>'
    )


def _dots(points: Sequence[Point], across: _Axis, up: _Axis) -> list[str]:
    """Those that matter are drawn last, above the others."""
    order: list[Kind] = ["plan", "pick", "winner"]
    return [
        f'<circle class="{point.kind}" cx="{across.at(point.x):.1f}" cy="{up.at(point.y):.1f}" '
        f'r="{4 if point.kind == "plan" else 6}"><title>{escape(point.text)}</title></circle>'
        for point in sorted(points, key=lambda point: order.index(point.kind))
    ]


def _grid(across: _Axis, up: _Axis, columns: Sequence[tuple[float, str]], rows: Sequence[tuple[float, str]]) -> str:
    lines: list[str] = []
    for value, text in columns:
        x = across.at(value)
        lines.append(f'<line class="grid" x1="{x:.1f}" y1="{up.start}" x2="{x:.1f}" y2="{up.end}"/>')
        lines.append(f'<text x="{x:.1f}" y="{up.start + 16}" text-anchor="middle">{text}</text>')
    for value, text in rows:
        y = up.at(value)
        lines.append(f'<line class="grid" x1="{across.start}" y1="{y:.1f}" x2="{across.end}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{across.start - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return "".join(lines)


def _names(across: str, up: str) -> str:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    return (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{across}</text>'
        f'<text transform="translate(12 {middle}) rotate(-90)" text-anchor="middle">{up}</text>'
    )


def _times(low: float, high: float) -> list[float]:
    """Round numbers of seconds between two: 1, 2 and 5 of each order of magnitude, or 1 alone where they are many."""
    orders = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    firsts = (1, 2, 5) if high / low < 200 else (1,)
    return [mark for order in orders for first in firsts if low <= (mark := first * 10.0**order) <= high]


def _seconds(value: float) -> str:
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if value * scale < 999.5:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s"


def _svg(label: str, parts: Sequence[str]) -> str:
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
