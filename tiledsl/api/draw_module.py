"""The kernels of a module as a drawing: an SVG with a box for each launch, and an edge for what one hands to another.

Launches stand in rows: each one below all that it reads from, and within its row near the middle of those. An edge that
passes rows has a place of its own in each of them, so that it runs beside the boxes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tiledsl.api.explain_module import buffer_text, operand_text, ops_text
from tiledsl.api.text_tables import size
from tiledsl.runtime.schedule import Operand, Schedule, Step

LINE = 15
LETTER = 6.7
PAD = 10
GAP = 30
ROW_GAP = 40
WRAP = 46
"""Letters of a line in a box."""


@dataclass(frozen=True)
class Node:
    """A box. `kind`: `kernel`, `input` or `output`; or `way`, the place of an edge in row number `row`."""

    kind: str
    title: str
    lines: tuple[str, ...]
    row: int

    @property
    def width(self) -> float:
        if self.kind == "way":
            return 1
        return max(len(line) for line in (self.title, *self.lines)) * LETTER + 2 * PAD

    @property
    def height(self) -> float:
        return 0 if self.kind == "way" else (1 + len(self.lines)) * LINE + 2 * PAD


@dataclass(frozen=True)
class Edge:
    """What one node hands to another: the nodes that it goes through, by their numbers, and a line for each buffer.

    The lines stand above the last node, each edge's above those of the edges before it, of which there are `line`.
    """

    nodes: tuple[int, ...]
    labels: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Arrangement:
    """The upper left corner of each node, where each row ends, and the width and height of all."""

    places: Mapping[int, tuple[float, float]]
    bottoms: Mapping[int, float]
    width: float
    height: float


def draw_module(schedule: Schedule) -> str:
    """The SVG element."""
    nodes, edges = nodes_and_edges(schedule)
    found = arranged(nodes, edges)
    width, height = f"{found.width:.0f}", f"{found.height:.0f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="kernels of {escape(schedule.name)}">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>',
    ]
    parts += [_edge(edge, nodes, found) for edge in edges]
    parts += [_node(node, *found.places[number]) for number, node in enumerate(nodes) if node.kind != "way"]
    return "\n".join([*parts, "</svg>"])


def nodes_and_edges(schedule: Schedule) -> tuple[list[Node], list[Edge]]:
    """Arguments, launches, results; weights are named in the boxes of the launches that read them."""
    nodes: list[Node] = []
    links: dict[tuple[int, int], list[str]] = {}
    maker: dict[int, int] = {}

    def add_buffer(kind: str, number: int, row: int) -> None:
        buffer = schedule.buffers[number]
        nodes.append(Node(kind, buffer.name, (f"{buffer_text(buffer)}, {size(buffer.bytes)}",), row))

    for buffer in schedule.inputs:
        maker[buffer] = len(nodes)
        add_buffer("input", buffer, 0)
    for number, step in enumerate(schedule.steps):
        here = len(nodes)
        row, weights = 1, list[str]()
        for tensor in _read(step):
            buffer = schedule.buffers[tensor.buffer]
            label = f"{operand_text(schedule, tensor)}, {size(buffer.bytes)}"
            if tensor.buffer in maker:
                row = max(row, nodes[maker[tensor.buffer]].row + 1)
                links.setdefault((maker[tensor.buffer], here), []).append(label)
            else:
                weights.append(label)
        lines = textwrap.wrap(ops_text(step), WRAP)
        lines.append(f"reads {size(step.read_bytes)}, writes {size(step.written_bytes)}")
        nodes.append(Node("kernel", f"{number + 1}. {step.name}", (*lines, *weights), row))
        maker.update((step.tensors[place].buffer, here) for place in step.written)
    last = max((node.row for node in nodes), default=0) + 1
    for buffer in schedule.outputs:
        if buffer in maker:
            links[maker[buffer], len(nodes)] = []
        add_buffer("output", buffer, last)
    edges: list[Edge] = []
    taken: dict[int, int] = {}
    for (source, target), labels in links.items():
        edges.append(Edge(_route(nodes, source, target), tuple(labels), taken.get(target, 0)))
        taken[target] = taken.get(target, 0) + len(labels)
    return nodes, edges


def _read(step: Step) -> list[Operand]:
    return list(dict.fromkeys(tensor for place, tensor in enumerate(step.tensors) if place not in step.written))


def _route(nodes: list[Node], source: int, target: int) -> tuple[int, ...]:
    """The nodes of an edge: its ends, and between them a place in each row, which is added."""
    way: list[int] = []
    for row in range(nodes[source].row + 1, nodes[target].row):
        way.append(len(nodes))
        nodes.append(Node("way", "", (), row))
    return (source, *way, target)


def arranged(nodes: Sequence[Node], edges: Sequence[Edge]) -> Arrangement:
    """Where everything stands."""
    above: dict[int, list[int]] = {}
    room: dict[int, float] = {}
    for edge in edges:
        for source, target in zip(edge.nodes, edge.nodes[1:]):
            above.setdefault(target, []).append(source)
        row = nodes[edge.nodes[-1]].row
        room[row] = max(room.get(row, 0), (edge.line + len(edge.labels)) * LINE)
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        rows.setdefault(node.row, []).append(number)
    widths = {row: sum(nodes[n].width for n in numbers) + GAP * (len(numbers) - 1) for row, numbers in rows.items()}
    labels = max((len(label) for edge in edges for label in edge.labels), default=0) * LETTER
    width = max(max(widths.values(), default=0), 2 * labels) + 2 * GAP
    places: dict[int, tuple[float, float]] = {}
    bottoms: dict[int, float] = {}
    top: float = GAP
    for row in sorted(rows):

        def middle(number: int) -> float:
            centres = [places[s][0] + nodes[s].width / 2 for s in above.get(number, ()) if s in places]
            return sum(centres) / len(centres) if centres else width / 2

        top += room.get(row, 0)
        left = (width - widths[row]) / 2
        for number in sorted(rows[row], key=lambda n: (middle(n), n)):
            places[number] = left, top
            left += nodes[number].width + GAP
        bottoms[row] = top + max(nodes[number].height for number in rows[row])
        top = bottoms[row] + ROW_GAP
    return Arrangement(places, bottoms, width, max(bottoms.values(), default=0) + GAP)


def _node(node: Node, x: float, y: float) -> str:
    lines = [f'<text x="{x + PAD:.1f}" y="{y + PAD + 11:.1f}" class="title">{escape(node.title)}</text>']
    for number, line in enumerate(node.lines):
        place = y + PAD + 11 + (number + 1) * LINE
        lines.append(f'<text x="{x + PAD:.1f}" y="{place:.1f}">{escape(line)}</text>')
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="6"/>'
    return f'<g class="{node.kind}">{box}{"".join(lines)}</g>'


def _edge(edge: Edge, nodes: Sequence[Node], found: Arrangement) -> str:
    first, last = edge.nodes[0], edge.nodes[-1]
    x, y = found.places[first][0] + nodes[first].width / 2, found.places[first][1] + nodes[first].height
    path = f"M{x:.1f} {y:.1f}"
    for number in edge.nodes[1:]:
        to_x, to_y = found.places[number][0] + nodes[number].width / 2, found.places[number][1]
        middle = (y + to_y) / 2
        path += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, found.bottoms[nodes[number].row]
        if nodes[number].kind == "way":
            path += f"V{y:.1f}"
    left, bottom = x + 8, found.places[last][1] - 8
    labels = "".join(
        f'<text x="{left:.1f}" y="{bottom - (edge.line + place) * LINE:.1f}">{escape(label)}</text>'
        for place, label in enumerate(edge.labels)
    )
    return f'<g class="edge"><path d="{path}" marker-end="url(#tip)"/>{labels}</g>'
