"""What is said of one kernel: what it must move, what it moves, its predicted time, the least that it could take.

    softmax 8192x4096 f16    must 128 MiB, moves 128 MiB, memory; predicted 34.9 us, floor 31.8 us: 1.1

Bytes and multiply-adds are counted from loop nests, for every target alike; times are those of its plan's cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.core import Function, Value
from tiledsl.ir.types import AxisType
from tiledsl.passes.analysis.sizes import UNKNOWN_SIZE, symbols_in
from tiledsl.passes.nest.access_places import places_of
from tiledsl.passes.nest.count_work import WorkCounts
from tiledsl.passes.nest.loop_nest import LoopNest
from tiledsl.support.location import Location


@dataclass(frozen=True)
class KernelAudit:
    """One program, in one run. Bytes are those of tensors in global memory; times are seconds.

    `must_bytes`: each element that is read or written once. `moved_bytes`: as often as the program asks for them, from
    memory or L2. `memory_bytes`: those that memory moves, by the model. `multiply_adds`: of products;
    `tensor_core_share` of them by matrix instructions. `exact`: whether nothing was guessed (trip counts that are data,
    sampled blocks).
    """

    name: str
    location: Location
    plan: str
    must_bytes: float
    moved_bytes: float
    memory_bytes: float
    multiply_adds: float
    tensor_core_share: float | None
    predicted: float
    floor: float
    products_floor: float
    """The part of the floor that products take."""
    bound: str
    exact: bool
    by_warpgroups: bool
    """Whether its products go by `wgmma`."""

    @property
    def ratio(self) -> float:
        """Predicted time over the floor."""
        return self.predicted / self.floor


def must_bytes(function: Function, grids: Sequence[tuple[LoopNest, WorkCounts]]) -> float:
    """Each element that is read or written once; what the function makes for itself does not count. `grids`: those of
    the function, in order."""
    returned = {value for op in function.body.ops if op.effect == "terminator" for value in op.operands}
    outside = {*function.parameters, *returned}
    once: dict[tuple[Value, bool], dict[tuple[float, ...], float]] = {}
    whole: dict[Value, float] = {}
    made: set[Value] = set()
    for nest, counts in grids:
        for access in nest.accesses:
            tensor = access.op.tensor
            if tensor in outside and not (access.is_read and tensor in made):
                touched = min(counts.moved(access).number, counts.distinct(access)) * access.tensor.dtype.bytes
                parts, part = once.setdefault((tensor, access.is_read), {}), places_of(access, counts.number).offsets
                parts[part] = max(parts.get(part, 0.0), touched)
                size = math.prod(counts.number(dim) for dim in access.tensor.shape) * access.tensor.dtype.bytes
                whole[tensor] = max(size, whole.get(tensor, 0.0))
        made.update(access.op.tensor for access in nest.accesses if not access.is_read)
    # accesses at other offsets are of other elements, as far as there are others
    return sum(
        max(*parts.values(), min(sum(parts.values()), whole[tensor]), 0.0) for (tensor, _), parts in once.items()
    )


def guessed_sizes(function: Function) -> dict[str, int]:
    """A size for every symbol that is not a block."""
    blocks = {
        str(argument.type.extent)
        for op in function.walk()
        for body in op.bodies.values()
        for argument in body.arguments
        if isinstance(argument.type, AxisType)
    }
    names = frozenset[str]().union(*(symbols_in(op) for op in function.walk()))
    return dict.fromkeys(sorted(names - blocks), UNKNOWN_SIZE)
