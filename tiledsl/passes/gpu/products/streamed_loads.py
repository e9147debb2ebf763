"""Grids in which some threads only load, by TMA, while warpgroups multiply: the loads that can be made that way.

    for k in tile.range(K):                        feed of the loop: a[m, k] and b[k, n], which one product takes
        acc = tile.dot(a[m, k], b[k, n], acc)

    for k in tile.range(K):                        feed of the loop: x[m, k], g[k] and b[k, n]
        acc = tile.dot(x[m, k] * g[k], b[k, n], acc)

A *feed* is the loads of one block of the program that the same product is the first to take, as they are or in what
an operand is computed of. Products of a loop that do not feed on each other have one feed. What is loaded ahead must be
known ahead: subscripts and bounds of loops come from blocks, sizes and scalars that no loop carries. What an operand is
computed of and TMA cannot bring is loaded by the threads that multiply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Index, Op, Value
from tiledsl.ir.dtypes import f32
from tiledsl.ir.gpu.tensor_maps import MOST_AXES, UNIT_BYTES
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import AxisType, TileType, Whole
from tiledsl.passes.analysis.effects import tensors_written
from tiledsl.passes.analysis.sizes import SIZES, size_of
from tiledsl.passes.gpu.layouts.infer_layouts import access_order, tensor_of, tile_axes
from tiledsl.passes.gpu.layouts.operand_sources import Source, are_independent, elementwise_inputs, sources_of
from tiledsl.passes.gpu.layouts.select_wgmma import instruction_dtypes
from tiledsl.passes.gpu.products.divisors import divisor
from tiledsl.passes.gpu.products.load_parts import is_whole_part, operand_load, parts_of_load, whole_of
from tiledsl.passes.gpu.products.parallel_products import are_alike, products_of
from tiledsl.passes.gpu.products.row_runs import leaves_of, row_runs
from tiledsl.passes.gpu.products.row_starts import row_start
from tiledsl.passes.gpu.products.window_rows import window_rows

COPIED_BYTES = (4, 8)
"""Rows of tensors that start at multiples of so many bytes are copied by threads, so many at a time."""
DEEPEST_TURN = 256
"""What every block divides that a plan gives a loop whose turns add up products."""
SINCE = 90
"""The capability from which on there is TMA and `wgmma`."""


@dataclass(frozen=True)
class Use:
    """How a product takes a load: as its left or right operand, or in what that is computed of (`computed`). `axes`:
    see `Source`."""

    dot: ops.Dot
    is_left: bool
    axes: tuple[int, ...]
    computed: bool


@dataclass(frozen=True)
class Feed:
    """Loads that a product takes, in the block of a loop or of the grid itself. Products of a loop that do not feed on
    each other have one feed; `dot` is the first of them.

    `uses`: how each of the loads is taken first; none where no product takes them. `left_out`: loads of a computed
    operand that the threads which multiply make themselves, and why.
    """

    block: Block
    loads: tuple[ops.Load, ...]
    dot: ops.Dot
    uses: tuple[Use, ...] = ()
    left_out: tuple[tuple[ops.Load, str], ...] = ()


class DeclinedError(Exception):
    """Why a grid cannot be shared out among threads that load and threads that multiply."""


def feeds_of(
    grid: ops.Grid, capability: int, alignment: Callable[[ops.Load], int], copied_bytes: tuple[int, ...] = ()
) -> tuple[Feed, ...]:
    """What is to be loaded ahead in a grid. `alignment`: the bytes that what a load reads of rows starts at a multiple
    of (`row_start`). `copied_bytes`: where that may be less than TMA needs, as threads copy so much at a time.

    Raises DeclinedError, with a reason that follows "because", for grids that are better left to all threads alike.
    """
    if capability != SINCE:
        raise DeclinedError(f"sm_{capability} has no `wgmma`")
    dots = [op for op in grid.body.walk() if isinstance(op, ops.Dot)]
    if not dots:
        raise DeclinedError("it multiplies no matrices")
    written = tensors_written([grid])
    found: dict[tuple[Block, ops.Dot], Feed] = {}
    seen: set[ops.Load] = set()

    def add(load: ops.Load, use: Use, reason: str = "") -> None:
        if load in seen:
            return
        seen.add(load)
        block = load.parent
        assert block is not None
        feed = found.setdefault((block, use.dot), Feed(block, (), use.dot))
        if reason:
            feed = replace(feed, left_out=(*feed.left_out, (load, reason)))
        else:
            feed = replace(feed, loads=(*feed.loads, load), uses=(*feed.uses, use))
        found[block, use.dot] = feed

    for dot in dots:
        _check_product(dot)
        for value, is_left in ((dot.a, True), (dot.b, False)):
            load = source_load(value)
            if load is not None:
                _check_load(load, grid, alignment, copied_bytes, written)
                _check_depth(load, value, dot, is_left=is_left)
                axes = tuple(load_axis(value, axis) for axis in range(-len(value.shape), 0))
                add(load, Use(dot, is_left, axes, False))
                continue
            for source in computed_sources(dot, is_left=is_left):
                try:
                    _check_load(source.load, grid, alignment, (), written)
                    reason = ""
                except DeclinedError as declined:
                    reason = str(declined)
                add(source.load, Use(dot, is_left, source.axes, True), reason)
    for op in grid.body.walk():
        _check_beside(op)
    feeds = _joined(found.values())
    if not feeds:
        raise DeclinedError(
            next(iter(found.values())).left_out[0][1] if found else "TMA brings nothing that it multiplies"
        )
    if len(feeds) > 1 and any(alignment(load) % UNIT_BYTES for feed in feeds for load in feed.loads):
        raise DeclinedError("threads that copy rows fill one ring only")
    for load in (load for feed in feeds for load in feed.loads if axis_to_clear(load) is not None):
        if any(alignment(other) % UNIT_BYTES for feed in feeds for other in feed.loads):
            reason = "threads copy some of what the loop loads"
            raise DeclinedError(f"rows of `{load.tensor.name}` behind the end of the loop have to be 0, and {reason}")
    return feeds


def axis_to_clear(load: ops.Load) -> int | None:
    """The axis of a load whose rows behind the end of its loop have to be made 0: where a product takes them as right
    operand they meet padding of a left one that is computed, which is 0, but what the tensor has there may be infinite.
    None where there are none, or nothing but zeros: the loop ends with the tensor, or with a whole turn.
    """
    loop = None if load.parent is None else load.parent.parent
    if not isinstance(loop, ops.Range):
        return None
    (block,) = loop.body.arguments[:1]
    if not isinstance(block.type, AxisType):
        return None
    for dot in (op for op in loop.body.ops if isinstance(op, ops.Dot) and source_load(op.b) is load):
        axis = load_axis(dot.b, -2)
        if axis in tile_axes(load):
            along = tile_axes(load).index(axis)
            index = load.indices[along]
            ends = index is block and ends_with_tensor(block, load, along)
        else:
            runs = row_runs(load)
            index, ends = None if runs is None else runs.axis, False
        if _unshifted(index) is block and not ends and not has_whole_turns(block):
            return axis
    return None


def _unshifted(index: Index | None) -> Index | None:
    while isinstance(index, Value) and isinstance(index.op, ops.Shift):
        index = index.op.axis
    return index


def computed_sources(dot: ops.Dot, *, is_left: bool) -> list[Source]:
    """The loads that an operand is computed of: of the product's own loop, and whole tiles of the grid around it. None
    where whole tiles that a product, a loop or a branch gives are among what it is computed of."""
    operand = dot.a if is_left else dot.b
    if source_load(operand) is not None:
        return []
    every = list(range(len(operand.shape)))
    whole = [value for value, axes in elementwise_inputs(operand) if sorted(axes) == every]
    if any(value.op is None or isinstance(value.op, ops.Dot) or value.op.bodies for value in whole):
        return []
    in_loop = dot.parent is not None and isinstance(dot.parent.parent, ops.Range)
    return [
        source
        for source in sources_of(operand)
        if source.load.result in whole or (in_loop and source.load.parent is dot.parent and source.load.result.shape)
    ]


def _joined(feeds: Iterable[Feed]) -> tuple[Feed, ...]:
    """With one feed for a loop whose products do not feed on each other."""
    found: dict[tuple[Block, ops.Dot | None], Feed] = {}
    for feed in feeds:
        key = feed.block, None if _has_one_feed(feed.block) else feed.dot
        before = found.get(key)
        if before is not None:
            loads, uses = (*before.loads, *feed.loads), (*before.uses, *feed.uses)
            feed = replace(before, loads=loads, uses=uses, left_out=(*before.left_out, *feed.left_out))
        found[key] = feed
    return tuple(_in_order(feed) for feed in found.values() if feed.loads)


def _in_order(feed: Feed) -> Feed:
    """With its loads as they come in the program."""
    place = {op: number for number, op in enumerate(feed.block.ops)}
    pairs = sorted(zip(feed.loads, feed.uses), key=lambda pair: place[pair[0]])
    return replace(feed, loads=tuple(load for load, _ in pairs), uses=tuple(use for _, use in pairs))


def _has_one_feed(body: Block) -> bool:
    """Whether products of a loop that feed on nothing of each other get what they take together: those that make up
    a loop only if they are alike."""
    loop = body.parent
    if not isinstance(loop, ops.Range):
        return False
    alone = products_of(loop)
    if alone:
        return are_alike(alone)
    return are_independent([op for op in body.ops if isinstance(op, ops.Dot)], body)


def source_load(value: Value) -> ops.Load | None:
    """The load that brings an operand, perhaps transposed, or as a part of what it brings (`whole_of`); None if it is
    computed, stays in registers, or is to be made planes of. Others may read it too (`goes_to_products_alone`)."""
    load = operand_load(value)
    return None if load is None or is_split(value) else whole_of(load)


def is_split(operand: Value) -> bool:
    """Whether threads make planes of an operand for a product."""
    return any(isinstance(user, ops.Dot) and user.precision == "split" for user in operand.users)


def goes_to_products_alone(load: ops.Load) -> bool:
    """Whether a load, with its parts, is read by nothing but products, perhaps transposed."""
    return all(_goes_to_product(user) for one in (load, *parts_of_load(load)) for user in one.result.users)


def is_read_beside(operand: Value) -> bool:
    """Whether an operand is a load that something else than products reads too."""
    load = source_load(operand)
    return load is not None and not goes_to_products_alone(load)


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


def _check_product(dot: ops.Dot) -> None:
    if dot.a.dtype == dot.b.dtype == f32 and dot.precision not in ("tf32", "split"):
        raise DeclinedError('`wgmma` multiplies f32 only with precision="tf32"')
    if dot.a.dtype.bits < 8 or instruction_dtypes(dot.a.dtype, dot.b.dtype, dot.dtype, dot.precision) is None:
        raise DeclinedError(f"`wgmma` does not multiply {dot.a.dtype} and {dot.b.dtype} into {dot.dtype}")


def _check_load(
    load: ops.Load,
    grid: ops.Grid,
    alignment: Callable[[ops.Load], int],
    copied_bytes: tuple[int, ...],
    written: frozenset[Value],
) -> None:
    name = load.tensor.name
    tensor = tensor_of(load)
    if load.other is not None:
        raise DeclinedError(f"what lies outside of `{name}` is not to be 0")
    if load.tensor in written:
        raise DeclinedError(f"`{name}` is written by the same grid")
    if tensor.unit is None or tile_axes(load)[tensor.unit] < max(0, len(load.result.shape) - 2):
        raise DeclinedError(f"no row of `{name}` is known to lie in one piece")
    if len(tensor.shape) > MOST_AXES or tensor.dtype.bits < 8:
        raise DeclinedError(f"TMA does not copy tensors like `{name}`")
    if alignment(load) % UNIT_BYTES and alignment(load) not in copied_bytes:
        least = min(UNIT_BYTES, *copied_bytes) if copied_bytes else UNIT_BYTES
        within = row_start(load, UNIT_BYTES, lambda size: 1) % UNIT_BYTES
        what = "are read from elements on that are no" if within else "do not start at"
        raise DeclinedError(f"rows of `{name}` {what} multiples of {least} bytes")
    loop = _loop_of(load, grid)
    rows = window_rows(load)
    if rows is not None:
        if rows.axis not in grid.body.arguments:
            raise DeclinedError("positions of windows are none of the grid")
        if rows.image is not None:
            check_index(rows.image, grid, loop)
        for slide in rows.slides:
            if slide.place is not None:
                _check_known(slide.place, grid)
        check_index(load.indices[rows.channels], grid, loop)
        return
    runs = row_runs(load)
    if runs is not None:
        if alignment(load) % UNIT_BYTES:
            raise DeclinedError(f"runs of rows of `{name}` do not start at multiples of {UNIT_BYTES} bytes")
        check_index(runs.axis, grid, loop)
        for leaf in leaves_of(load, runs):
            if isinstance(leaf, Value):
                _check_known(leaf, grid)
            elif leaf.tensor in written:
                raise DeclinedError(f"`{leaf.tensor.name}` is written by the same grid")
    for number, index in enumerate(load.indices):
        if (runs is None or number not in (runs.rows, *runs.jumps)) and not is_whole_part(index, load.result.dtype):
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
            owner = here.op_around
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
    both, runs = source_load(dot.a) is not None, row_runs(load)
    if runs is not None and axis not in tile_axes(load):
        if both and not has_whole_turns(runs.axis):
            raise DeclinedError(f"the loop may end within a run of `{load.tensor.name}`")
        return
    along = tile_axes(load).index(axis)
    index = load.indices[along]
    if isinstance(index, Value) and isinstance(index.type, AxisType):
        if has_whole_turns(index):
            return
        if isinstance(index.op, ops.Shift) or (both and not ends_with_tensor(index, load, along)):
            raise DeclinedError(f"the loop does not end where `{load.tensor.name}` does")


def has_whole_turns(index: Value) -> bool:
    """Whether a subscript, maybe shifted, follows a loop of which every turn is of a whole block that the program says:
    then both operands of its products are there to the end of each."""
    block = _unshifted(index)
    loop = block.op_around if isinstance(block, Value) else None
    return isinstance(loop, ops.Range) and loop.blocks[0].kind == "fixed" and _is_whole_turns_on(loop.stop, loop)


def ends_with_tensor(index: Value, load: ops.Load, axis: int) -> bool:
    """Whether what the last turn of a loop reads beyond the loop's end lies beyond the tensor: it ends where the tensor
    does, or its turns are whole, or whichever of these comes first."""
    loop = index.op_around
    if not isinstance(loop, ops.Range):
        return False
    stop = loop.stop.op
    ends = stop.inputs if isinstance(stop, ops.Map) and stop.fn == "minimum" else (loop.stop,)
    size = tensor_of(load).shape[axis]
    return all(ends_at(end, size) or _is_whole_turns_on(end, loop) or _ends_with_block(end, size, loop) for end in ends)


def _is_whole_turns_on(end: Value, loop: ops.Range) -> bool:
    """Whether a scalar is the start of a loop and whole turns of it."""
    (block,) = loop.blocks
    turn = block.size if block.kind == "fixed" else DEEPEST_TURN
    length = _beyond(end, loop.start)
    if length is not None and SIZES.divisible(length, turn):
        return True
    return math.gcd(divisor(end), divisor(loop.start)) % turn == 0


def _ends_with_block(end: Value, size: Dim, loop: ops.Range) -> bool:
    """Whether a scalar is the end of a block that is whole turns, or else ends at `size`, being the last one: so loops
    that see what stands before themselves end."""
    added = end.op
    if not (isinstance(added, ops.Map) and added.fn == "add"):
        return False
    starts = [one.op for one in added.inputs if isinstance(one.op, ops.Start)]
    extents = [one.op for one in added.inputs if isinstance(one.op, ops.Extent)]
    if len(starts) != 1 or len(extents) != 1 or starts[0].axis is not extents[0].axis:
        return False
    axis = starts[0].axis
    grid = axis.op_around
    if not isinstance(grid, ops.Grid) or not ends_at(grid.stops[grid.body.arguments.index(axis)], size):
        return False
    return _is_whole_turns_on(starts[0].result, loop)


def _beyond(end: Value, start: Value) -> Dim | None:
    """How far a scalar is from another one, where that is a size."""
    first, last = size_of(start), size_of(end)
    if first is not None and last is not None:
        return last - first
    added = end.op
    if not (isinstance(added, ops.Map) and added.fn == "add" and start in added.inputs):
        return None
    left, right = added.inputs
    return size_of(right if left is start else left)


def ends_at(stop: Value, size: Dim) -> bool:
    """Whether the end of a grid or loop is the size of a tensor."""
    match stop.op:
        case ops.Size(value=value) | ops.Constant(value=value):
            return bool(value == size)
        case _:
            return False


def _check_beside(op: Op) -> None:
    """What else the grid does can be done by the threads of a role."""
    if isinstance(op, (ops.Scan, ops.Sort, ops.Atomic, ops.Print)):
        raise DeclinedError(f"`{op.name}` wants all threads of a block")


def blocks_of_feeds(feeds: tuple[Feed, ...]) -> Iterator[Block]:
    """The blocks that have feeds, each once."""
    yield from dict.fromkeys(feed.block for feed in feeds)
