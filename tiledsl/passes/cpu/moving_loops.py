"""How often loops turn whose bounds move with the blocks around them, as a function of block sizes.

    for n in tile.grid(N):                                length of the loop of k: min(begin_0 + min(n, N - begin_0), K)
        for k in tile.range(0, min(n.start + n.size, K)): begin_0: 0, n, 2 * n, ... below N

A block of n queries goes as far as its last one sees, so with K = N a loop has (N + n) / 2 coordinates on average: long
blocks pay for what the mask hides of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.symbolic import Dim, evaluate, maximum, minimum, symbol
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import BlockDefinition, size_of
from tiledsl.passes.nest.evaluate_scalars import limits_of
from tiledsl.passes.nest.loop_nest import LoopNest, NestLoop

LOOKED_AT = 16
"""Blocks of an axis whose loops are counted; of more an even sample."""


@dataclass(frozen=True)
class Begins:
    """Where the blocks of an axis begin: at multiples of `step` below `total`; a length calls that `symbol`."""

    symbol: str
    step: Dim
    total: Dim


@dataclass(frozen=True)
class MovingLoop:
    """A loop that is longer for some blocks than for others. `name`: of its block; a name that no size has if that is
    given. `block`: its size."""

    name: str
    length: Dim
    block: Dim
    begins: tuple[Begins, ...]


def moving_loops(nest: LoopNest) -> dict[NestLoop, MovingLoop]:
    """The loops of a nest whose lengths are known where the blocks around them are."""
    places = _Places(nest)
    found: dict[NestLoop, MovingLoop] = {}
    for number, loop in enumerate(nest.loops):
        one = loop.definition
        if one is None or one.total is not None:
            continue
        start, stop = 0 if one.start is None else places.dim(one.start), places.dim(one.stop)
        begins = tuple(places.begins[axis] for axis in places.begins if axis in loop.depends)
        if start is None or stop is None or not begins:
            continue
        name = one.extent or f"loop {number}"
        found[loop] = MovingLoop(name, stop - start, _block(one), begins)
    return found


def mean_length(loop: MovingLoop, sizes: Mapping[str, int], blocks: Mapping[str, int]) -> float:
    """Coordinates that a loop goes through, of all blocks around it on average."""
    values = {**sizes, **blocks}
    firsts = [_firsts(evaluate(one.total, values), max(1, evaluate(one.step, values))) for one in loop.begins]
    names, total, count = [one.symbol for one in loop.begins], 0, 0
    for places in product(*firsts):
        total += max(0, evaluate(loop.length, {**values, **dict(zip(names, places))}))
        count += 1
    return total / count if count else 0.0


def _firsts(total: int, step: int) -> list[int]:
    """The coordinates where blocks begin, or an even sample of them."""
    count = -(-total // step)
    looked_at = min(count, LOOKED_AT)
    return [(2 * number + 1) * count // (2 * looked_at) * step for number in range(looked_at)]


def _block(one: BlockDefinition) -> Dim:
    return one.argument.type.extent if isinstance(one.argument.type, AxisType) else 1


class _Places:
    """Integer scalars of a nest, by where its blocks begin and how long they are."""

    def __init__(self, nest: LoopNest) -> None:
        self.begins: dict[Value, Begins] = {}
        ranges = [loop.definition for loop in nest.loops]
        for one in (*nest.axes, *(r for r in ranges if r is not None)):
            if one.total is not None and (one.start is None or size_of(one.start) == 0):
                self.begins[one.argument] = Begins(f"begin_{len(self.begins)}", _block(one), one.total)

    def dim(self, value: Value) -> Dim | None:
        """What a scalar is; what data say is as large as the program lets it be."""
        known = size_of(value)
        if known is not None:
            return known
        match value.op:
            case ops.Start() as op if op.axis in self.begins:
                return symbol(self.begins[op.axis].symbol)
            case ops.Extent() as op if op.axis in self.begins:
                axis = self.begins[op.axis]
                return minimum(axis.step, axis.total - symbol(axis.symbol))
            case ops.Cast() as op:
                return self.dim(op.source)
            case ops.Map() as op:
                inputs = [self.dim(one) for one in op.inputs]
                known_inputs = [one for one in inputs if one is not None]
                return _mapped(op.fn, known_inputs) if len(known_inputs) == len(inputs) else None
            case None if value in self.begins:
                return symbol(self.begins[value].symbol)
            case _:
                return next((size for one in limits_of(value) if (size := size_of(one)) is not None), None)


def _mapped(fn: str, inputs: Sequence[Dim]) -> Dim | None:
    match fn, inputs:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b]:
            return a * b
        case "floordiv", [a, b]:
            return a // b
        case "mod", [a, b]:
            return a % b
        case "minimum", [a, b]:
            return minimum(a, b)
        case "maximum", [a, b]:
            return maximum(a, b)
        case _:
            return None
