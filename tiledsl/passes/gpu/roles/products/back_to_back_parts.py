"""Which loops with products that feed on each other are lowered as those of attention are (see
`back_to_back_loops.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.passes.gpu.products.back_to_back_products import Parts, parts_of_loop
from tiledsl.passes.gpu.products.streamed_loads import source_load
from tiledsl.passes.gpu.roles.rings import Ring


def parts_of(loop: ops.Range, rings: Sequence[Ring]) -> Parts | None:
    """The parts of a loop of a role; None if it is not of that kind."""
    found = parts_of_loop(loop, {load for ring in rings for load in ring.feed.loads})
    if found is None or not _rings_are_apart(rings, found.scores, [one.dot for one in found.sums]):
        return None
    return found


def _rings_are_apart(rings: Sequence[Ring], scores: Sequence[ops.Dot], sums: Sequence[ops.Dot]) -> bool:
    """Whether no stage is read by products of both kinds, which belong to different turns."""
    kind = {**dict.fromkeys(scores, 0), **dict.fromkeys(sums, 1)}
    for ring in rings:
        for load in ring.feed.loads:
            readers = {kind[dot] for dot in kind for operand in (dot.a, dot.b) if source_load(operand) is load}
            if ring.feed.dot not in kind or readers != {kind[ring.feed.dot]}:
                return False
    return {kind[ring.feed.dot] for ring in rings} == {0, 1}
