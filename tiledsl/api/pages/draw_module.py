"""The kernels of a module as a drawing: an SVG with a box for each launch, and an edge for what one hands to another.

Launches stand in rows: each one below all that it reads from, and within its row near the middle of those. An edge that
passes rows has a place of its own in each of them, so that it runs beside the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tiledsl.api.pages.module_nodes import LETTER, LINE, PAD, Edge, Node, nodes_and_edges
from tiledsl.api.pages.repeated_launches import Part
from tiledsl.runtime.programs.schedule import Schedule

DRAWING_STYLE = """
.launches text { font: 11px ui-monospace, monospace; fill: #1b1f24; white-space: pre; }
.launches .title { font-weight: 700; }
.launches rect { stroke: #57606a; }
.launches .kernel rect { fill: #ddf4ff; }
.launches .repeat rect { fill: #e6f4ea; stroke-width: 3; }
.launches a:hover rect { fill: #ccebd5; }
.launches .input rect, .launches .output rect { fill: #fff8c5; }
.launches .edge path { fill: none; stroke: #8c959f; }
.launches .label text { fill: #57606a; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.launches .edge:hover path { stroke: #cf222e; stroke-width: 2; }
.launches .tip { fill: #8c959f; }
"""
"""Of the class that a drawing has, so that it leaves other drawings of its page alone."""
GAP = 30
ROW_GAP = 40
BESIDE = 8
"""How far beside an edge its labels stand."""


@dataclass(frozen=True)
class Arrangement:
    """The upper left corner of each node, where each row ends, and the width and height of all."""

    places: Mapping[int, tuple[float, float]]
    bottoms: Mapping[int, float]
    width: float
    height: float


def draw_module(schedule: Schedule, parts: Sequence[Part], style: str = "") -> str:
    """The SVG element of these parts of a schedule, which follow each other; `style` for one that stands alone."""
    nodes, edges = nodes_and_edges(schedule, parts)
    found = arranged(nodes, edges)
    width, height = f"{found.width:.0f}", f"{found.height:.0f}"
    texts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'class="launches" role="img" aria-label="kernels of {escape(schedule.name)}">',
        *([f"<style>{style}</style>"] if style else []),
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>',
    ]
    texts += [_path(edge, nodes, found) for edge in edges]
    texts += [_labels(edge, nodes, found) for edge in edges]  # above all paths, so that none crosses them out
    texts += [_node(node, *found.places[number]) for number, node in enumerate(nodes) if node.kind != "way"]
    return "\n".join([*texts, "</svg>"])


def arranged(nodes: Sequence[Node], edges: Sequence[Edge]) -> Arrangement:
    """Where everything stands."""
    above: dict[int, list[int]] = {}
    room: dict[int, float] = {}
    wide = [node.width for node in nodes]  # with the labels that stand above the right half of a box
    for edge in edges:
        target = edge.nodes[-1]
        label = max(map(len, edge.labels), default=0) * LETTER
        wide[target] = max(wide[target], nodes[target].width / 2 + BESIDE + label)
        for source, target in zip(edge.nodes, edge.nodes[1:]):
            above.setdefault(target, []).append(source)
        row = nodes[edge.nodes[-1]].row
        room[row] = max(room.get(row, 0), (edge.line + len(edge.labels)) * LINE)
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        rows.setdefault(node.row, []).append(number)
    widths = {row: sum(wide[n] for n in numbers) + GAP * (len(numbers) - 1) for row, numbers in rows.items()}
    width = max(widths.values(), default=0) + 2 * GAP
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
            left += wide[number] + GAP
        bottoms[row] = top + max(nodes[number].height for number in rows[row])
        top = bottoms[row] + ROW_GAP
    return Arrangement(places, bottoms, width, max(bottoms.values(), default=0) + GAP)


def _node(node: Node, x: float, y: float) -> str:
    lines = [f'<text x="{x + PAD:.1f}" y="{y + PAD + 11:.1f}" class="title">{escape(node.title)}</text>']
    for number, line in enumerate(node.lines):
        place = y + PAD + 11 + (number + 1) * LINE
        lines.append(f'<text x="{x + PAD:.1f}" y="{place:.1f}">{escape(line)}</text>')
    box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{node.width:.1f}" height="{node.height:.1f}" rx="6"/>'
    group = f'<g class="{node.kind}">{box}{"".join(lines)}</g>'
    return f'<a href="#{node.link}">{group}</a>' if node.link else group


def _path(edge: Edge, nodes: Sequence[Node], found: Arrangement) -> str:
    first = edge.nodes[0]
    x, y = found.places[first][0] + nodes[first].width / 2, found.places[first][1] + nodes[first].height
    path = f"M{x:.1f} {y:.1f}"
    for number in edge.nodes[1:]:
        to_x, to_y = found.places[number][0] + nodes[number].width / 2, found.places[number][1]
        middle = (y + to_y) / 2
        path += f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, found.bottoms[nodes[number].row]
        if nodes[number].kind == "way":
            path += f"V{y:.1f}"
    told = f"<title>{escape(', '.join(edge.labels))}</title>" if edge.labels else ""
    return f'<g class="edge">{told}<path d="{path}" marker-end="url(#tip)"/></g>'


def _labels(edge: Edge, nodes: Sequence[Node], found: Arrangement) -> str:
    last = edge.nodes[-1]
    left = found.places[last][0] + nodes[last].width / 2 + BESIDE
    bottom = found.places[last][1] - BESIDE
    lines = "".join(
        f'<text x="{left:.1f}" y="{bottom - (edge.line + place) * LINE:.1f}">{escape(label)}</text>'
        for place, label in enumerate(edge.labels)
    )
    return f'<g class="label">{lines}</g>' if lines else ""
