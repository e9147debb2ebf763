"""The boxes of a drawing of a module, and what they hand to each other."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tiledsl.api.pages.explain_module import buffer_text, operand_text, ops_text
from tiledsl.api.pages.repeated_launches import Part
from tiledsl.api.reports.text_tables import size
from tiledsl.runtime.programs.schedule import Operand, Schedule, Step

LINE = 15
LETTER = 6.7
PAD = 10
WRAP = 46
"""Letters of a line in a box."""
MOST_WEIGHTS = 6
"""Weights that a box names one by one."""
MOST_EDGES = 6
"""Boxes that an argument may be read by for edges to lead to them."""


@dataclass(frozen=True)
class Node:
    """A box. `kind`: `kernel`, `repeat`, `input` or `output`; or `way`, the place of an edge in row number `row`.
    `link`: the name of the part of the page that tells more."""

    kind: str
    title: str
    lines: tuple[str, ...]
    row: int
    link: str = ""

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


@dataclass
class _Drawn:
    """What there is so far. `links`: the labels between two nodes; `maker`: the node where each buffer comes from."""

    nodes: list[Node] = field(default_factory=list[Node])
    links: dict[tuple[int, int], list[str]] = field(default_factory=dict[tuple[int, int], "list[str]"])
    maker: dict[int, int] = field(default_factory=dict[int, int])


def nodes_and_edges(schedule: Schedule, parts: Sequence[Part]) -> tuple[list[Node], list[Edge]]:
    """What comes from before, launches, what is read later on. Weights, and what many launches read, are named in the
    boxes that read them.

    `parts` follow each other: all of the schedule, or a piece of it.
    """
    drawn = _Drawn()
    pieces = [step for part in parts for step in schedule.steps[part.launches.start : part.launches.stop]]
    is_all = len(pieces) == len(schedule.steps)
    readers = Counter(buffer for part in parts for buffer in _read_in(schedule, part))
    for buffer in schedule.inputs if is_all else _from_before(schedule, pieces):
        node = _buffer_node(schedule, "input", buffer, 0)
        if readers[buffer] > MOST_EDGES:
            node = replace(node, lines=(*node.lines, f"read by {readers[buffer]} boxes"))
        else:
            drawn.maker[buffer] = len(drawn.nodes)
        drawn.nodes.append(node)
    for part in parts:
        _add_part(schedule, part, drawn)
    last = max((node.row for node in drawn.nodes), default=0) + 1
    for buffer in schedule.outputs if is_all else _read_later(schedule, parts, pieces):
        if buffer in drawn.maker:
            drawn.links[drawn.maker[buffer], len(drawn.nodes)] = []
        drawn.nodes.append(_buffer_node(schedule, "output", buffer, last))
    edges: list[Edge] = []
    taken: dict[int, int] = {}
    for (source, target), labels in drawn.links.items():
        edges.append(Edge(_route(drawn.nodes, source, target), tuple(labels), taken.get(target, 0)))
        taken[target] = taken.get(target, 0) + len(labels)
    return drawn.nodes, edges


def title_of(part: Part) -> str:
    """`12 times launches 5-7`, or the number of a single launch."""
    if not part.inside:
        return f"{part.first + 1}."
    first, last = part.first + 1, part.first + part.period
    which = f"launch {first}" if part.period == 1 else f"launches {first}-{last}"
    return f"{part.count} times {which}"


def _buffer_node(schedule: Schedule, kind: str, number: int, row: int) -> Node:
    buffer = schedule.buffers[number]
    return Node(kind, buffer.name, (f"{buffer_text(buffer)}, {size(buffer.bytes)}",), row)


def _from_before(schedule: Schedule, steps: Sequence[Step]) -> list[int]:
    """Buffers that are read before any of these steps makes them, weights left out."""
    made: set[int] = set()
    found: dict[int, None] = {}
    for step in steps:
        for tensor in read_by(step):
            if tensor.buffer not in made and schedule.buffers[tensor.buffer].role != "constant":
                found[tensor.buffer] = None
        made.update(step.tensors[place].buffer for place in step.written)
    return list(found)


def _read_later(schedule: Schedule, parts: Sequence[Part], steps: Sequence[Step]) -> list[int]:
    """Buffers that these steps make and that are results, or read by a later one."""
    made = dict.fromkeys(step.tensors[place].buffer for step in steps for place in step.written)
    later = {t.buffer for step in schedule.steps[parts[-1].launches.stop :] for t in read_by(step)}
    return [buffer for buffer in made if buffer in later or buffer in schedule.outputs]


def read_by(step: Step) -> list[Operand]:
    """What a step reads, each once."""
    return list(dict.fromkeys(tensor for place, tensor in enumerate(step.tensors) if place not in step.written))


def _read_in(schedule: Schedule, part: Part) -> set[int]:
    return {t.buffer for step in schedule.steps[part.launches.start : part.launches.stop] for t in read_by(step)}


def _add_part(schedule: Schedule, part: Part, drawn: _Drawn) -> None:
    here, row = len(drawn.nodes), 1
    steps = schedule.steps[part.launches.start : part.launches.stop]
    within: set[int] = set()
    reads: dict[int, list[Operand]] = {}
    weights: dict[int, Operand] = {}
    for step in steps:
        for tensor in read_by(step):
            if tensor.buffer in drawn.maker:
                reads.setdefault(tensor.buffer, []).append(tensor)
            elif tensor.buffer not in within:
                weights.setdefault(tensor.buffer, tensor)
        within.update(step.tensors[place].buffer for place in step.written)
    for buffer, operands in reads.items():
        row = max(row, drawn.nodes[drawn.maker[buffer]].row + 1)
        labels = drawn.links.setdefault((drawn.maker[buffer], here), [])
        bytes_ = size(schedule.buffers[buffer].bytes)
        if part.inside:  # which part of it each of the launches reads, is said where these are drawn
            labels.append(f"{schedule.buffers[buffer].name} {buffer_text(schedule.buffers[buffer])}, {bytes_}")
        else:
            labels += [f"{operand_text(schedule, operand)}, {bytes_}" for operand in operands]
    drawn.nodes.append(_part_node(schedule, part, steps, list(weights.values()), row))
    drawn.maker.update((buffer, here) for buffer in within)


def _part_node(schedule: Schedule, part: Part, steps: Sequence[Step], weights: Sequence[Operand], row: int) -> Node:
    read, written = (sum(getattr(step, field) for step in steps) for field in ("read_bytes", "written_bytes"))
    lines = [f"reads {size(read)}, writes {size(written)}"]
    if len(weights) > MOST_WEIGHTS:
        lines.append(f"{len(weights)} others, {size(sum(schedule.buffers[w.buffer].bytes for w in weights))}")
    else:
        lines += [f"{operand_text(schedule, w)}, {size(schedule.buffers[w.buffer].bytes)}" for w in weights]
    if part.inside:
        inside = [line for one in part.inside for line in _line_of(schedule, one)]
        return Node("repeat", title_of(part), (*inside, *lines), row, part_name(part))
    step = steps[0]
    source = textwrap.wrap(step.source, WRAP) if step.source else []
    computed = textwrap.wrap(ops_text(step), WRAP)
    return Node("kernel", f"{title_of(part)} {step.name}", (*source, *computed, *lines), row)


def _line_of(schedule: Schedule, part: Part) -> Iterator[str]:
    """What the box of a part that repeats says of one of the parts in it."""
    if part.inside:
        yield title_of(part)
    else:
        step = schedule.steps[part.first]
        yield f"{step.name}  {step.source}".rstrip()
        yield from (f"  {line}" for line in textwrap.wrap(ops_text(step), WRAP))


def part_name(part: Part) -> str:
    """What a page calls the piece of it that a part is drawn in."""
    return f"launches-{part.first + 1}-{part.launches.stop}-{part.count}"


def _route(nodes: list[Node], source: int, target: int) -> tuple[int, ...]:
    """The nodes of an edge: its ends, and between them a place in each row, which is added."""
    way: list[int] = []
    for row in range(nodes[source].row + 1, nodes[target].row):
        way.append(len(nodes))
        nodes.append(Node("way", "", (), row))
    return (source, *way, target)
