"""The kernels of a module as a drawing: an SVG with a box for each launch, and an edge for each buffer between them.

Launches stand in rows: each one below all that it reads from, and within its row near the middle of those.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tiledsl.api.explain_module import buffer_text, operand_text, ops_text
from tiledsl.api.text_tables import size
from tiledsl.runtime.schedule import Schedule

LINE = 16
LETTER = 6.6
PAD = 10
GAP = 36
ROW_GAP = 64
WRAP = 44
"""Letters of a line in a box."""


@dataclass(frozen=True)
class Node:
    """A box. `kind`: `kernel`, `input` or `output`. `row` counts from the top."""

    kind: str
    title: str
    lines: tuple[str, ...]
    row: int

    @property
    def width(self) -> float:
        return max(len(line) for line in (self.title, *self.lines)) * LETTER + 2 * PAD

    @property
    def height(self) -> float:
        return (1 + len(self.lines)) * LINE + 2 * PAD


@dataclass(frozen=True)
class Edge:
    """A buffer that one node hands to another, by their numbers."""

    source: int
    target: int
    label: str


def draw_module(schedule: Schedule) -> str:
    """The SVG element."""
    nodes, edges = nodes_and_edges(schedule)
    places, width, height = arranged(nodes, edges)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="kernels of {escape(schedule.name)}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>',
    ]
    parts += [_edge(edge, nodes, places) for edge in edges]
    parts += [_node(node, *places[number]) for number, node in enumerate(nodes)]
    return "\n".join([*parts, "</svg>"])


def nodes_and_edges(schedule: Schedule) -> tuple[list[Node], list[Edge]]:
    """Arguments, launches, results; weights are named in the boxes of the launches that read them."""
    nodes: list[Node] = []
    maker: dict[int, int] = {}
    for buffer in schedule.inputs:
        maker[buffer] = len(nodes)
        shown = schedule.buffers[buffer]
        nodes.append(Node("input", shown.name, (buffer_text(shown), size(shown.bytes)), 0))
    edges: list[Edge] = []
    for number, step in enumerate(schedule.steps):
        here = len(nodes)
        lines = textwrap.wrap(ops_text(step), WRAP)
        lines.append(f"reads {size(step.read_bytes)}, writes {size(step.written_bytes)}")
        row = 1
        read = [tensor for place, tensor in enumerate(step.tensors) if place not in step.written]
        for tensor in dict.fromkeys(read):
            buffer = schedule.buffers[tensor.buffer]
            if tensor.buffer in maker:
                row = max(row, nodes[maker[tensor.buffer]].row + 1)
                label = f"{operand_text(schedule, tensor)}, {size(buffer.bytes)}, global"
                edges.append(Edge(maker[tensor.buffer], here, label))
            elif buffer.role == "constant":
                lines.append(f"{operand_text(schedule, tensor)}, {size(buffer.bytes)}")
        nodes.append(Node("kernel", f"{number + 1}. {step.name}", tuple(lines), row))
        maker.update((step.tensors[place].buffer, here) for place in step.written)
    last = max((node.row for node in nodes), default=0) + 1
    for buffer in schedule.outputs:
        shown = schedule.buffers[buffer]
        nodes.append(Node("output", shown.name, (buffer_text(shown), size(shown.bytes)), last))
        if buffer in maker:
            edges.append(Edge(maker[buffer], len(nodes) - 1, f"{buffer_text(shown)}, {size(shown.bytes)}, global"))
    return nodes, edges


def arranged(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[Mapping[int, tuple[float, float]], float, float]:
    """The upper left corner of each node, and the width and height of all."""
    sources: dict[int, list[int]] = {}
    for edge in edges:
        sources.setdefault(edge.target, []).append(edge.source)
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        rows.setdefault(node.row, []).append(number)
    widths = {row: sum(nodes[n].width for n in numbers) + GAP * (len(numbers) - 1) for row, numbers in rows.items()}
    width = max(widths.values(), default=0) + 2 * GAP
    places: dict[int, tuple[float, float]] = {}
    top: float = GAP
    for row in sorted(rows):

        def middle(number: int) -> float:
            above = [places[s][0] + nodes[s].width / 2 for s in sources.get(number, ()) if s in places]
            return sum(above) / len(above) if above else width / 2

        left = (width - widths[row]) / 2
        for number in sorted(rows[row], key=lambda n: (middle(n), n)):
            places[number] = left, top
            left += nodes[number].width + GAP
        top += max(nodes[number].height for number in rows[row]) + ROW_GAP
    return places, width, top - ROW_GAP + GAP


def _node(node: Node, x: float, y: float) -> str:
    lines = [f'<text x="{x + PAD:.1f}" y="{y + PAD + 12:.1f}" class="title">{escape(node.title)}</text>']
    for number, line in enumerate(node.lines):
        place = y + PAD + 12 + (number + 1) * LINE
        lines.append(f'<text x="{x + PAD:.1f}" y="{place:.1f}">{escape(line)}</text>')
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="6"/>'
    return f'<g class="{node.kind}">{box}{"".join(lines)}</g>'


def _edge(edge: Edge, nodes: Sequence[Node], places: Mapping[int, tuple[float, float]]) -> str:
    (x, y), (to_x, to_y) = places[edge.source], places[edge.target]
    source, target = nodes[edge.source], nodes[edge.target]
    x, y, to_x = x + source.width / 2, y + source.height, to_x + target.width / 2
    bend = (to_y - y) / 2
    path = f"M{x:.1f} {y:.1f}C{x:.1f} {y + bend:.1f} {to_x:.1f} {to_y - bend:.1f} {to_x:.1f} {to_y:.1f}"
    label = f'<text x="{(x + to_x) / 2 + 4:.1f}" y="{(y + to_y) / 2:.1f}">{escape(edge.label)}</text>'
    return f'<g class="edge"><path d="{path}" marker-end="url(#tip)"/>{label}</g>'
