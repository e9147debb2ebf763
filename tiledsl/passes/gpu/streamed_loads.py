"""Grids in which some threads only load, by TMA, while warpgroups multiply: the loads that can be made that way.

    for k in tile.range(K):                        feed of the loop: a[m, k] and b[k, n], which one product takes
        acc = tile.dot(a[m, k], b[k, n], acc)

A *feed* is the loads of one block of the program that the same product is the first to take. What is loaded ahead must
be known ahead: subscripts and bounds of loops come from blocks, sizes and scalars that no loop carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Index, Op, Value
from tiledsl.ir.dtypes import DType, f32
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tensor_maps import MOST_AXES, UNIT_BYTES
from tiledsl.ir.types import AxisType, TileType, Whole
from tiledsl.ir.warpgroup_instructions import DEPTH_BYTES, warpgroup_instruction
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.gpu.infer_layouts import access_order, tensor_of, tile_axes
from tiledsl.passes.gpu.parallel_products import are_alike, products_of

COPIED_BYTES = (4, 8)
"""Rows of tensors that start at multiples of so many bytes are copied by threads, so many at a time."""
SINCE = 90
"""The capability from which on there is TMA and `wgmma`."""


@dataclass(frozen=True)
class Feed:
    """Loads that a product takes, in the block of a loop or of the grid itself. Products side by side in a loop that
    does nothing else have one feed; `dot` is the first of them."""

    block: Block
    loads: tuple[ops.Load, ...]
    dot: ops.Dot

    def dot_of(self, load: ops.Load) -> ops.Dot:
        """The first product that takes a load."""
        return next(_dots_of(load.result), self.dot)


class DeclinedError(Exception):
    """Why a grid cannot be shared out among threads that load and threads that multiply."""


def feeds_of(
    grid: ops.Grid, capability: int, alignment: Callable[[Value], int], copied_bytes: tuple[int, ...] = ()
) -> tuple[Feed, ...]:
    """What is to be loaded ahead in a grid. `alignment`: the bytes that every row of a tensor starts at a multiple of.
    `copied_bytes`: where that may be less than TMA needs, as threads copy so much at a time.

    Raises DeclinedError, with a reason that follows "because", for grids that are better left to all threads alike.
    """
    if capability != SINCE:
        raise DeclinedError(f"sm_{capability} has no `wgmma`")
    dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
    if not dots:
        raise DeclinedError("it multiplies no matrices")
    written = tensors_written([grid])
    feeds: dict[tuple[Block, ops.Dot], list[ops.Load]] = {}
    seen: set[ops.Load] = set()
    for dot in dots:
        _check_product(dot)
        for value, is_left in ((dot.a, True), (dot.b, False)):
            load = source_load(value)
            if load is None:
                if not is_left:
                    raise DeclinedError("a right operand is computed, and `wgmma` takes it from memory")
                continue
            _check_load(load, grid, alignment, copied_bytes, written)
            _check_depth(load, value, dot, is_left=is_left)
            if load not in seen:
                seen.add(load)
                assert load.parent is not None
                feeds.setdefault((load.parent, dot), []).append(load)
    for op in grid.body.walk():
        _check_beside(op)
    if len(feeds) > 1 and any(alignment(load.tensor) % UNIT_BYTES for loads in feeds.values() for load in loads):
        raise DeclinedError("threads that copy rows fill one ring only")
    return _joined([Feed(block, tuple(loads), dot) for (block, dot), loads in feeds.items()])


def _joined(feeds: list[Feed]) -> tuple[Feed, ...]:
    """With one feed for the products that make up a loop."""
    found: dict[Block, Feed] = {}
    rest: list[Feed] = []
    for feed in feeds:
        loop = feed.block.parent
        dots = products_of(loop) if isinstance(loop, ops.Range) else ()
        if len(dots) < 2 or not are_alike(dots):
            rest.append(feed)
            continue
        before = found.get(feed.block)
        loads = (*before.loads, *feed.loads) if before is not None else feed.loads
        joined = Feed(feed.block, loads, dots[0])
        if before is not None:
            rest[rest.index(before)] = joined
        else:
            rest.append(joined)
        found[feed.block] = joined
    return tuple(rest)


def _dots_of(value: Value) -> Iterator[ops.Dot]:
    """The products that take a value, perhaps transposed."""
    for user in value.users:
        if isinstance(user, ops.Dot):
            yield user
        elif isinstance(user, ops.Transpose):
            yield from _dots_of(user.result)


def source_load(value: Value) -> ops.Load | None:
    """The load that an operand is, perhaps transposed; None if it is computed, or stays in registers."""
    while isinstance(value.op, ops.Transpose):
        value = value.op.source
    load = value.op
    if not isinstance(load, ops.Load) or load.result.tile.level != "shared":
        return None
    return load if all(_goes_to_product(user) for user in load.result.users) else None


def load_axis(operand: Value, axis: int) -> int:
    """Which axis of its load runs along an axis of an operand; -1 is the last one."""
    axis += len(operand.shape)
    while isinstance(operand.op, ops.Transpose):
        axis = operand.op.permutation[axis]
        operand = operand.op.source
    return axis


def _goes_to_product(user: Op) -> bool:
    if isinstance(user, ops.Transpose):
        return all(_goes_to_product(after) for after in user.result.users)
    return isinstance(user, ops.Dot)


def instruction_dtypes(a: DType, b: DType, accumulator: DType, precision: str) -> str | None:
    """The end of the name of the `wgmma` for these dtypes, such as `bf16_f32`; None where there is none."""
    if a != b or (a == f32 and precision != "tf32"):
        return None
    operand = "tf32" if a == f32 else str(a)
    name = f"{operand}_{accumulator}"
    return name if warpgroup_instruction(f"m64n64k{DEPTH_BYTES // a.bytes}_{name}") is not None else None


def _check_product(dot: ops.Dot) -> None:
    if dot.a.dtype.bits < 8 or instruction_dtypes(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision) is None:
        raise DeclinedError(f"`wgmma` does not multiply {dot.a.dtype} and {dot.b.dtype} into {dot.dtype}")


def _check_load(
    load: ops.Load,
    grid: ops.Grid,
    alignment: Callable[[Value], int],
    copied_bytes: tuple[int, ...],
    written: frozenset[Value],
) -> None:
    name = load.tensor.name
    tensor = tensor_of(load)
    if load.other is not None:
        raise DeclinedError(f"what lies outside of `{name}` is not to be 0")
    if load.tensor in written:
        raise DeclinedError(f"`{name}` is written by the same grid")
    if tensor.unit is None or tile_axes(load)[tensor.unit] < len(load.result.shape) - 2:
        raise DeclinedError(f"no row of `{name}` is known to lie in one piece")
    if len(tensor.shape) > MOST_AXES or tensor.dtype.bits < 8:
        raise DeclinedError(f"TMA does not copy tensors like `{name}`")
    if alignment(load.tensor) % UNIT_BYTES and alignment(load.tensor) not in copied_bytes:
        least = min(UNIT_BYTES, *copied_bytes) if copied_bytes else UNIT_BYTES
        raise DeclinedError(f"rows of `{name}` do not start at multiples of {least} bytes")
    loop = _loop_of(load, grid)
    for index in load.indices:
        check_index(index, grid, loop)


def _loop_of(load: ops.Load, grid: ops.Grid) -> ops.Range | None:
    """The loop around a load: at most one, of the grid itself."""
    if load.parent is grid.body:
        return None
    loop = None if load.parent is None else load.parent.parent
    if not isinstance(loop, ops.Range) or loop.parent is not grid.body:
        raise DeclinedError("an operand is loaded in a branch, or in a loop within another")
    for bound in (loop.start, loop.stop):
        _check_known(bound, grid)
    return loop


def check_index(index: Index, grid: ops.Grid, loop: ops.Range | None) -> None:
    """Raises DeclinedError where threads that only load do not know a subscript in that loop."""
    match index:
        case Whole():
            return
        case Value(type=AxisType()) if isinstance(index.op, ops.Shift):
            _check_known(index.op.offset, grid)
            check_index(index.op.axis, grid, loop)
        case Value(type=AxisType()):
            if index not in grid.body.arguments and (loop is None or index is not loop.body.arguments[0]):
                raise DeclinedError("an operand is subscripted by a block of another loop")
        case Value(type=TileType()) if not index.shape:
            if loop is None or index is not loop.body.arguments[0]:
                _check_known(index, grid)
        case _:
            raise DeclinedError("an operand is gathered, or a part of a row")


def _check_known(value: Value, grid: ops.Grid) -> None:
    """A scalar that a thread which only loads can compute by itself."""
    seen, work = {value}, [value]
    while work:
        here = work.pop()
        op = here.op
        if op is None:
            owner = here.owner.parent if isinstance(here.owner, Block) else None
            if isinstance(owner, Op) and owner is not grid:
                raise DeclinedError("where an operand is depends on what a loop computes")
            continue
        scalars = [operand for operand in op.operands if isinstance(operand.type, TileType)]
        if op.bodies or op.effect not in ("pure", "read") or any(v.shape for v in scalars):
            raise DeclinedError("where an operand is depends on tiles, or on what a loop computes")
        work += [operand for operand in scalars if operand not in seen]
        seen.update(scalars)


def _check_depth(load: ops.Load, value: Value, dot: ops.Dot, *, is_left: bool) -> None:
    """What is beyond the end of K reads as 0, and the axis that counts fastest is one that `wgmma` can take."""
    axis = load_axis(value, -1 if is_left else -2)
    if load.result.dtype.bits != 16 and access_order(load)[-1] != axis:
        raise DeclinedError(f"`wgmma` takes {load.result.dtype} only from rows along the axis that is added up")
    along = tile_axes(load).index(axis)
    index = load.indices[along]
    if isinstance(index, Value) and isinstance(index.type, AxisType):
        both = source_load(dot.a) is not None
        if isinstance(index.op, ops.Shift) or (both and not _ends_with_tensor(index, load, along)):
            raise DeclinedError(f"the loop does not end where `{load.tensor.name}` does")


def _ends_with_tensor(index: Value, load: ops.Load, axis: int) -> bool:
    owner = index.owner
    loop = owner.parent if isinstance(owner, Block) else None
    return isinstance(loop, ops.Range) and ends_at(loop.stop, tensor_of(load).shape[axis])


def ends_at(stop: Value, size: Dim) -> bool:
    """Whether the end of a grid or loop is the size of a tensor."""
    match stop.op:
        case ops.Size(value=value) | ops.Constant(value=value):
            return bool(value == size)
        case _:
            return False


def _check_beside(op: Op) -> None:
    """What else the grid does can be done by the threads of a role."""
    if isinstance(op, (ops.Scan, ops.Atomic, ops.Print)):
        raise DeclinedError(f"`{op.name}` wants all threads of a block")


def blocks_of_feeds(feeds: tuple[Feed, ...]) -> Iterator[Block]:
    """The blocks that have feeds, each once."""
    yield from dict.fromkeys(feed.block for feed in feeds)
