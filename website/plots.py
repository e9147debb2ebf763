"""Plots of benchmarks/results: for each case, how many times as fast as a peer it is, on a logarithmic axis.

A page has `<!-- plot: products-bf16 -->` where the plot goes. A plot is SVG within the page, in the colours of its
theme, dark or light.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from website import ROOT

RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Wanted:
    """What a plot shows of a file: rows whose name `rows` matches, named without what `drop` matches, and columns."""

    file: str
    title: str
    peers: tuple[tuple[str, int], ...]
    """Each peer with the column that holds its time over ours; of files about CPUs the only one is NumPy's."""
    rows: str = ""
    drop: str = "$^"


PLOTS = {
    "products-bf16": Wanted(
        "gpu-gemm", "Products of bf16 matrices", (("cuBLAS", 3), ("Triton", 10)), "GEMM bf16 NT", "GEMM bf16 NT "
    ),
    "products-narrow": Wanted(
        "gpu-gemm", "Products of 8-bit matrices", (("cuBLAS", 3),), "GEMM (fp8|int8)", "GEMM |NT "
    ),
    "products-wide": Wanted(
        "gpu-gemm", "Products of f16, tf32 and f32 matrices", (("cuBLAS", 3),), "GEMM (f16|tf32|f32) ", "GEMM "
    ),
    "memory": Wanted("gpu-memory", "Kernels bound by memory, bf16", (("torch.compile", 10), ("Triton", 12))),
    "attention": Wanted("gpu-graphs", "Attention in tensor form, f16", (("PyTorch", 8),), "(causal )?attention"),
    "formulas": Wanted("gpu-graphs", "Fused formulas, f16", (("PyTorch", 8),), "(?!(causal )?attention)"),
    "cpu": Wanted("cpu-*", "f32 kernels on a CPU", (("NumPy", 0),)),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One case: for each peer its time over ours, None where it was not measured."""

    name: str
    ratios: tuple[float | None, ...]

    @property
    def values(self) -> str:
        return " / ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in self.ratios)


@dataclass(frozen=True)
class Plot:
    title: str
    measured: str
    """On what, when, and at which commit."""
    peers: tuple[str, ...]
    rows: tuple[Row, ...]


def with_plots(text: str) -> str:
    """A page with the plots that it asks for. Raises KeyError for one that there is not."""
    return re.sub(r"<!-- plot: ([\w-]+) -->.*", lambda found: "\n\n".join(map(svg, plots(PLOTS[found[1]]))), text)


def plots(wanted: Wanted, folder: Path = RESULTS) -> list[Plot]:
    """A plot for each file that the pattern matches."""
    stored = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(f"{wanted.file}.json"))]
    return [_plot(wanted, results) for results in stored]


def _plot(wanted: Wanted, results: dict[str, Any]) -> Plot:
    run: dict[str, str] = results.get("run", results)
    cores = f", {run['cores']} cores" if "cores" in run else ""
    measured = f"{run['device']}{cores}; {run['date']}, commit {run['commit']}"
    rows = [
        Row(re.sub(wanted.drop, "", name), ratios)
        for name, ratios in _cases(wanted, results)
        if re.match(wanted.rows, name) and any(ratio is not None for ratio in ratios)
    ]
    return Plot(wanted.title, measured, tuple(peer for peer, _ in wanted.peers), tuple(rows))


def _cases(wanted: Wanted, results: dict[str, Any]) -> list[tuple[str, tuple[float | None, ...]]]:
    if "figures" in results:
        return [(figure["what"], (figure["value"],)) for figure in results["figures"] if figure["unit"] == "x"]
    table: list[list[str]] = results["table"]
    cases = [row for row in table if not row[0].startswith("geomean")]
    return [(row[0], tuple(_ratio(row[at]) for _, at in wanted.peers)) for row in cases]


def _ratio(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


SCALE, LETTER, LINE, TOP = 340, 6.6, 22, 34
"""In units of the drawing: the length of the axis, the width of a letter, the height of a row and of the head."""
TICKS = (0.25, 0.5, 0.7, 1, 1.5, 2, 3, 5, 8, 12)


def svg(plot: Plot) -> str:
    """The drawing, its text as text: names to the left, a mark for each peer to the right or left of the line at 1."""
    ratios = [ratio for row in plot.rows for ratio in row.ratios if ratio is not None]
    low = max(tick for tick in TICKS if tick <= min(*ratios, 0.7))
    high = min((tick for tick in TICKS if tick >= max(*ratios, 1.5)), default=max(ratios))

    labels = 16 + LETTER * max(len(row.name) for row in plot.rows)
    width = labels + SCALE + 18 + LETTER * max(len(row.values) for row in plot.rows)

    def x(ratio: float) -> float:
        return round(labels + SCALE * math.log(ratio / low) / math.log(high / low), 1)

    height = TOP + LINE * len(plot.rows) + 10
    lines = [
        f'<figure class="ratios"><figcaption><b>{escape(plot.title)}</b><br>{escape(plot.measured)}. '
        f"{_legend(plot.peers)}</figcaption>",
        f'<svg viewBox="0 0 {width:.0f} {height}" style="max-width: {1.2 * width:.0f}px" role="img" '
        f'aria-label="{escape(plot.title)}, beside peers">',
    ]
    for tick in (tick for tick in TICKS if low <= tick <= high):
        kind = "one" if tick == 1 else "tick"
        lines.append(f'<line class="{kind}" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 8}" y2="{height - 8}"/>')
        lines.append(f'<text class="scale" x="{x(tick)}" y="{TOP - 14}">{tick:g}</text>')
    for number, row in enumerate(plot.rows):
        y, places = TOP + LINE * number + LINE / 2, [None if r is None else x(r) for r in row.ratios]
        lines.append(f'<text class="name" x="{labels - 14:.1f}" y="{y + 4}">{escape(row.name)}</text>')
        lines += _marks(row, y, x(1), places)
        lines.append(f'<text class="value" x="{width:.0f}" y="{y + 4}">{row.values}</text>')
    return "".join([*lines, "</svg></figure>"])


def _legend(peers: Sequence[str]) -> str:
    marks = [f'<span class="peer-{number}">{"●◆"[number]}</span> {escape(peer)}' for number, peer in enumerate(peers)]
    return f"How many times as fast as {', '.join(marks)}; to the right of 1 is faster."


def _marks(row: Row, y: float, one: float, places: Sequence[float | None]) -> Iterator[str]:
    """A line from 1 to each ratio with a mark at its end, those of several peers above each other."""
    known = [(peer, at) for peer, at in enumerate(places) if at is not None]
    for number, (peer, at) in enumerate(known):
        level = y + (number - (len(known) - 1) / 2) * 7
        yield f'<line class="stem peer-{peer}" x1="{one}" x2="{at}" y1="{level}" y2="{level}"/>'
        if peer == 0:
            yield f'<circle class="peer-0" cx="{at}" cy="{level}" r="3.6"/>'
        else:
            turned = f'transform="rotate(45 {at} {level})"'
            yield f'<rect class="peer-{peer}" x="{at - 3}" y="{level - 3}" width="6" height="6" {turned}/>'
