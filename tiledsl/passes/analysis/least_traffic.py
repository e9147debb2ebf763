"""How many bytes a function must move at least: each tensor once from memory if it is read, once to it if written.

    y[m, :] = softmax(x[m, :])      reads 4*M*N bytes, writes 4*M*N bytes

It is what a kernel is measured against: no code can do with less, unless the arrays are in a cache already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.facts import facts_of
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import TensorType, Whole
from tiledsl.passes.analysis.sizes import BlockDefinition, blocks_in, size_of


@dataclass(frozen=True)
class LeastTraffic:
    """`read`, `written`: bytes, over the sizes of the function. `partly`: tensors that do not count, since which of
    their elements are read or written is known only when the program runs, or less than all are.
    """

    read: Dim
    written: Dim
    partly: tuple[str, ...]


def least_traffic(function: Function) -> LeastTraffic:
    """What a function must move. Tensors in the caches of earlier kernels are not thought of."""
    read, written = _accesses(function, ops.Load), _accesses(function, ops.Store)
    partly = [t for t, covered in (*read.items(), *written.items()) if not covered]
    partly += [op.tensor for op in function.walk() if isinstance(op, ops.Atomic)]
    return LeastTraffic(
        _bytes([tensor for tensor, covered in read.items() if covered]),
        _bytes([tensor for tensor, covered in written.items() if covered]),
        tuple(dict.fromkeys(tensor.name for tensor in partly)),
    )


def _accesses(function: Function, kind: type[ops.Load] | type[ops.Store]) -> dict[Value, bool]:
    """The tensors that ops of a kind access, and whether one of the ops goes over all of each."""
    blocks = blocks_in(function)
    found: dict[Value, bool] = {}
    for op in function.walk():
        if isinstance(op, kind):
            assert isinstance(op.tensor.type, TensorType)
            covers = _always_runs(op) and all(
                _covers(function, blocks, index, size) for index, size in zip(op.indices, op.tensor.type.shape)
            )
            found[op.tensor] = found.get(op.tensor, False) or (covers and _distinct(op.indices))
    return found


def _always_runs(op: Op) -> bool:
    """Whether an op runs for every block of the grids and ranges around it, and stands in no branch or other loop."""
    block = op.parent
    while block is not None and block.parent is not None:
        if not isinstance(block.parent, (ops.Grid, ops.Range)):
            return False
        block = block.parent.parent
    return True


def _covers(function: Function, blocks: dict[Value, BlockDefinition], index: object, size: Dim) -> bool:
    if isinstance(index, Whole):
        return True
    if not isinstance(index, Value) or index not in blocks:
        return size == 1
    block = blocks[index]
    start, stop = 0 if block.start is None else size_of(block.start), size_of(block.stop)
    return start == 0 and stop is not None and facts_of(function).less_equal(size, stop)


def _distinct(indices: Sequence[object]) -> bool:
    """Whether no block stands for two axes: `x[m, m]` is a diagonal."""
    blocks = [index for index in indices if isinstance(index, Value)]
    return len(blocks) == len(set(blocks))


def _bytes(tensors: Sequence[Value]) -> Dim:
    total: Dim = 0
    for tensor in tensors:
        assert isinstance(tensor.type, TensorType)
        elements: Dim = 1
        for size in tensor.type.shape:
            elements = elements * size
        total = total + elements * tensor.type.dtype.bytes
    return total
