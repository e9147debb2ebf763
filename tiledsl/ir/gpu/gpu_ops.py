"""The GPU vocabulary: what of a program is about threads, layouts, shared memory and instructions.

In GPU form the rest is said by ops of the TILE vocabulary, on tiles whose shapes are known and which have layouts:
scalars, `tile.map`, `tile.cast`, `tile.broadcast`, `tile.reshape` (of axes of size 1), `tile.transpose`, `tile.for`,
`tile.while`, `tile.if`, `tile.random`, `tile.print`, `tile.assert`. A tile has room for the largest block; elements at
and beyond the true extent are padding, of no defined value: accesses of memory take extents, and `gpu.pad` gives
padding a value where it would otherwise be seen.

A program is run by the threads of one block, or of a cluster of blocks whose threads are numbered through. Scalars are
the same in all of its threads. Global memory is addressed by subscripts in elements; nothing here knows of bytes but
the layouts.
"""

from __future__ import annotations

from math import prod

from tiledsl.ir.core import Op
from tiledsl.ir.dtypes import i64
from tiledsl.ir.gpu.access_rules import (
    buffer_type,
    check_access,
    check_flat,
    check_places,
    check_repeats,
    check_steps,
    register_type,
    static_shape,
)
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout, local
from tiledsl.ir.op_fields import (
    body_field,
    dtype_attribute,
    flag_attribute,
    int_attribute,
    ints_attribute,
    layout_attribute,
    name_attribute,
    operand,
    operands,
    optional_body_field,
    optional_layout_attribute,
    optional_operand,
)
from tiledsl.ir.scalar_functions import ATOMICS, REDUCTIONS, SCANS
from tiledsl.ir.type_rules import (
    reduced_shape,
    require,
    require_combinable,
    require_scalar_integer,
    tensor_type,
    tile_type,
)
from tiledsl.ir.types import TileType, Type, format_shape, scalar

# Programs


class Launch(Op):
    """Parallel programs over the blocks of axes from 0 to `stops`. The body takes the first coordinate of each block.

    `threads` per block of threads, `cluster` blocks per program. Programs are numbered with the last axis fastest; with
    `raster` above 1, that many rows of blocks (along the first of the last two axes) are walked together.
    """

    name = "gpu.launch"
    effect = "control"
    stops = operands()
    blocks = ints_attribute()
    threads = int_attribute()
    cluster = int_attribute(default=1)
    raster = int_attribute(default=1)
    resident = int_attribute(default=1)
    """How many of its blocks a multiprocessor has registers and shared memory for at once, if they have roles."""
    shared_bytes = int_attribute(default=0)
    """Of each block; filled in when shared memory is allocated."""
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        require(
            len(self.stops) == len(self.blocks) == len(self.body.arguments), "one stop, block and argument per axis"
        )
        for stop, start in zip(self.stops, self.body.arguments):
            require_scalar_integer(stop)
            require_scalar_integer(start)
        return ()


# Global memory


class Load(Op):
    """Reads a tile of a tensor into registers.

    `indices`: for each axis of the tensor a scalar, or a tile of coordinates of the result's shape and layout (gather).
    `axes`: the tile axis that runs along each tensor axis (the scalar is then where it starts), or -1.
    An element is read if its tile coordinate is below the extent on every axis in `masked` (`extents` has one scalar
    for each), and if its tensor coordinate is inside of the tensor on every axis in `checked`; else it is `other`, 0 if
    there is none. `vector`: how many elements along the last slot digit are read at once (aligned to their size, and
    all read or none). `ragged`: extents may end within a vector, whose elements are then read one by one. Of rank 0 it
    is a scalar, and has no layout. `flat`: the tensor lies row by row without gaps, and the tile, of one axis, which
    runs along the tensor's last one, goes on from row to row. `step`: neighbours along the tensor's last axis lie so
    many elements apart, and whole runs are read for the sake of every `step`-th element, from the one that is `phase`
    elements in front of a vector's first: runs of whole pieces of 16 bytes, each of which has an element of the tile.
    `repeat`: so many neighbours along the tensor's last axis are one element: that of the tile's coordinate divided by
    it, from where the subscript says on. A vector then fills `vector` slots with a `repeat`-th as many elements, or
    with one.
    """

    name = "gpu.load"
    effect = "read"
    tensor = operand()
    indices = operands()
    extents = operands()
    other = optional_operand()
    axes = ints_attribute()
    masked = ints_attribute(default=())
    checked = ints_attribute(default=())
    vector = int_attribute(default=1)
    ragged = flag_attribute()
    flat = flag_attribute()
    step = int_attribute(default=1)
    phase = int_attribute(default=0)
    repeat = int_attribute(default=1)
    shape = ints_attribute()
    layout = optional_layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        check_access(self, self.shape, len(self.shape))
        check_flat(self, len(self.shape))
        check_steps(self)
        check_repeats(self)
        return (register_type(tensor_type(self.tensor), self.shape, self.layout),)


class Store(Op):
    """Writes a tile into a tensor: subscripts, extents, `vector`, `ragged`, `flat` as for `gpu.load`. One replica
    writes. `alike`: other programs may store to some of its elements, and then the same values."""

    name = "gpu.store"
    effect = "write"
    tensor = operand()
    indices = operands()
    value = operand()
    extents = operands()
    axes = ints_attribute()
    masked = ints_attribute(default=())
    checked = ints_attribute(default=())
    vector = int_attribute(default=1)
    ragged = flag_attribute()
    flat = flag_attribute()
    alike = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        shape = static_shape(tile_type(self.value))
        require(tile_type(self.value).dtype == tensor_type(self.tensor).dtype, "the dtypes differ")
        check_access(self, shape, len(shape))
        check_flat(self, len(shape))
        return ()


class Atomic(Op):
    """Combines a tile into a tensor, each element atomically, by the first of its replicas.

    Gives the values from before, in those first replicas; undefined for elements that are not written. The value has
    an axis (a scalar is combined as a tile of one element).
    """

    name = "gpu.atomic"
    effect = "write"
    tensor = operand()
    indices = operands()
    value = operand()
    extents = operands()
    fn = name_attribute(ATOMICS)
    axes = ints_attribute()
    masked = ints_attribute(default=())
    checked = ints_attribute(default=())

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.value)
        require(type_.dtype == tensor_type(self.tensor).dtype, "the dtypes differ")
        require_combinable(self.fn, type_.dtype)
        check_access(self, static_shape(type_), len(type_.shape))
        return (type_,)


# Shared memory


class Buffer(Op):
    """A buffer in shared memory. `offset` is its place in bytes (-1: not allocated yet)."""

    name = "gpu.buffer"
    effect = "write"  # two of them are two
    shape = ints_attribute()
    dtype = dtype_attribute()
    layout = layout_attribute()
    offset = int_attribute(default=-1)

    def infer_types(self) -> tuple[Type, ...]:
        require(isinstance(self.layout, SharedLayout), "a buffer has a shared layout")
        assert isinstance(self.layout, SharedLayout)
        require(sorted(self.layout.order) == list(range(len(self.shape))), "the layout is not one of this rank")
        return (TileType(self.dtype, self.shape, "shared", self.layout),)


class View(Op):
    """The same memory under another shape of as many elements; both unpadded and unswizzled."""

    name = "gpu.view"
    buffer = operand()
    shape = ints_attribute()
    layout = layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = buffer_type(self.buffer)
        require(prod(static_shape(type_)) == prod(self.shape), "the views differ in size")
        assert isinstance(self.layout, SharedLayout)
        return (TileType(type_.dtype, self.shape, "shared", self.layout),)


class Reuse(Op):
    """The memory of a buffer, from its start, as another buffer of another shape and dtype in another layout.

    What was there is gone for those who read it so: they find what was written by this name.
    """

    name = "gpu.reuse"
    buffer = operand()
    shape = ints_attribute()
    dtype = dtype_attribute()
    layout = layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = buffer_type(self.buffer)
        require(isinstance(self.layout, SharedLayout), "a buffer has a shared layout")
        assert isinstance(self.layout, SharedLayout)
        assert isinstance(type_.layout, SharedLayout)
        require(sorted(self.layout.order) == list(range(len(self.shape))), "the layout is not one of this rank")
        room = type_.layout.bytes(static_shape(type_), type_.dtype)
        require(self.layout.bytes(self.shape, self.dtype) <= room, f"the buffer has {room} bytes")
        return (TileType(self.dtype, self.shape, "shared", self.layout),)


class Copy(Op):
    """Begins to copy a tile of a tensor into a buffer, zeros where an element is not read (see `gpu.load`).

    `offsets`: where the tile starts in the buffer, one scalar per buffer axis; `places`: the buffer axis along which
    each tile axis runs. `layout` says which thread copies what, `vector` elements (4, 8 or 16 bytes) at a time. The
    copy is done when a `gpu.wait` says so, for the threads that made it; for others after a barrier.
    """

    name = "gpu.copy"
    effect = "write"
    tensor = operand()
    indices = operands()
    extents = operands()
    buffer = operand()
    offsets = operands()
    axes = ints_attribute()
    masked = ints_attribute(default=())
    checked = ints_attribute(default=())
    places = ints_attribute()
    vector = int_attribute()
    shape = ints_attribute()
    layout = layout_attribute()
    apart = flag_attribute()
    """Nobody reads what is overwritten after the barrier before the copy: it fills a stage that all have done with."""

    def infer_types(self) -> tuple[Type, ...]:
        check_access(self, self.shape, len(self.shape))
        check_places(self, self.buffer, len(self.shape))
        return ()


class Commit(Op):
    """Makes one group of this thread's copies since the last `gpu.commit` (it may be empty)."""

    name = "gpu.commit"
    effect = "write"

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Wait(Op):
    """Waits until at most the last `groups` groups of this thread's copies are not done."""

    name = "gpu.wait"
    effect = "write"
    groups = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Barrier(Op):
    """All threads of the block (or of the cluster) arrive before any goes on; what they wrote before is seen after."""

    name = "gpu.barrier"
    effect = "write"
    scope = name_attribute(("block", "cluster"), default="block")

    def infer_types(self) -> tuple[Type, ...]:
        return ()


METHODS = ("plain", "matrix", "matrix-transposed")


class Read(Op):
    """Reads a tile of a buffer into registers; `offsets` and `places` as for `gpu.copy`.

    With no axes it gives a scalar. `method`: by plain loads of `vector` elements along the last slot digit, or by
    ldmatrix (8 x 8 matrices of 16 bits; transposed: the tile's pairs run across the buffer's rows). Elements that the
    buffer does not have are undefined.
    """

    name = "gpu.read"
    effect = "read"
    buffer = operand()
    offsets = operands()
    places = ints_attribute()
    method = name_attribute(METHODS, default="plain")
    vector = int_attribute(default=1)
    shape = ints_attribute()
    layout = optional_layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        check_places(self, self.buffer, len(self.shape))
        dtype = buffer_type(self.buffer).dtype
        if not self.shape:
            return (scalar(dtype),)
        require(isinstance(self.layout, RegisterLayout) and self.layout.shape == self.shape, "the layout does not fit")
        return (TileType(dtype, self.shape, "register", self.layout),)


class Write(Op):
    """Writes a tile into a buffer; see `gpu.read`. Elements for which the buffer has no room are dropped.

    Of replicas the first one writes (see `RegisterLayout.is_first`). Each block writes to its own memory, or, where
    `block` is the number of a block of the cluster, all of them to the memory of that one (which must have begun: a
    barrier of the cluster lies before).
    """

    name = "gpu.write"
    effect = "write"
    buffer = operand()
    value = operand()
    offsets = operands()
    places = ints_attribute()
    method = name_attribute(METHODS, default="plain")
    vector = int_attribute(default=1)
    block = int_attribute(default=-1)

    def infer_types(self) -> tuple[Type, ...]:
        check_places(self, self.buffer, len(tile_type(self.value).shape))
        require(tile_type(self.value).dtype == buffer_type(self.buffer).dtype, "the dtypes differ")
        return ()


class Combine(Op):
    """Combines each element of a tile into the element of a buffer of one axis that `index` says, atomically, by the
    first of its replicas. What has its index outside of the buffer is dropped."""

    name = "gpu.combine"
    effect = "write"
    buffer = operand()
    index = operand()
    value = operand()
    fn = name_attribute(ATOMICS)

    def infer_types(self) -> tuple[Type, ...]:
        type_, index = tile_type(self.value), tile_type(self.index)
        require(type_.dtype == buffer_type(self.buffer).dtype, "the dtypes differ")
        require(len(buffer_type(self.buffer).shape) == 1, "the buffer has one axis")
        require(index.dtype.is_integer and index.shape == type_.shape, "each element has one index, an integer")
        require_combinable(self.fn, type_.dtype)
        return ()


# Registers


class Arange(Op):
    """0, 1, ... as an i64 tile of rank 1 in that layout."""

    name = "gpu.arange"
    layout = layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        require(isinstance(self.layout, RegisterLayout) and self.layout.rank == 1, "a register layout of rank 1")
        assert isinstance(self.layout, RegisterLayout)
        return (TileType(i64, self.layout.shape, "register", self.layout),)


class Pad(Op):
    """The tile with `fill` in place of every element at or beyond the extent of one of `axes`."""

    name = "gpu.pad"
    source = operand()
    extents = operands()
    fill = operand()
    axes = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        require(len(self.axes) == len(self.extents), "one extent per axis")
        require(tile_type(self.fill) == scalar(type_.dtype), f"`fill` must be a scalar of {type_.dtype}")
        return (type_,)


class Convert(Op):
    """The same tile in another layout, by moving registers within each thread, or within each warp by shuffles.

    Where elements cross warps, they go through a buffer instead: `gpu.write`, `gpu.barrier`, `gpu.read`.
    """

    name = "gpu.convert"
    source = operand()
    layout = layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        require(isinstance(self.layout, RegisterLayout) and self.layout.shape == type_.shape, "the shapes differ")
        assert isinstance(self.layout, RegisterLayout)
        return (TileType(type_.dtype, type_.shape, "register", self.layout),)


class Reduce(Op):
    """Folds over axes, as `tile.reduce`; the layout of the results is that of the sources, reduced.

    Slots are folded first, then lanes by shuffles, then warps through `buffer` (an array of bytes, large enough for
    `scratch_bytes`), then the blocks of a cluster.
    """

    name = "gpu.reduce"
    effect = "write"  # it holds barriers
    sources = operands()
    buffer = optional_operand()
    axes = ints_attribute()
    fn = name_attribute(REDUCTIONS)
    keepdims = flag_attribute()
    combiner = optional_body_field()

    def infer_types(self) -> tuple[Type, ...]:
        source = self.sources[0]
        kept = reduced_shape(source.shape, self.axes, self.keepdims)
        layout = source.layout.reduced(self.axes, self.keepdims)
        index = self.fn in ("argmax", "argmin")
        if not kept:
            return tuple(scalar(i64 if index else v.dtype) for v in self.sources)
        return tuple(TileType(i64 if index else v.dtype, kept, "register", layout) for v in self.sources)


class Scan(Op):
    """The running fold along an axis, as `tile.scan`; results have the layout of the sources."""

    name = "gpu.scan"
    effect = "write"  # it holds barriers
    sources = operands()
    buffer = optional_operand()
    axis = int_attribute()
    fn = name_attribute(SCANS)
    reverse = flag_attribute()
    combiner = optional_body_field()

    def infer_types(self) -> tuple[Type, ...]:
        return tuple(v.type for v in self.sources)


class Sort(Op):
    """The elements along an axis in order, as `tile.sort`; the result has the layout of the source, which is that of a
    scan, of a power of two of elements for each thread."""

    name = "gpu.sort"
    effect = "write"  # it holds barriers
    source = operand()
    buffer = optional_operand()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (self.source.type,)


class Slice(Op):
    """The part of a tile that begins at `starts` and has the shape of `layout`, taken out of each thread's slots: every
    element, or along each axis one of `steps`.

    Every thread holds all that it is to hold afterwards.
    """

    name = "gpu.slice"
    source = operand()
    starts = ints_attribute()
    steps = ints_attribute(default=())
    layout = layout_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        require(isinstance(self.layout, RegisterLayout), "a register layout")
        assert isinstance(self.layout, RegisterLayout)
        steps = self.steps or (1,) * len(self.starts)
        require(len(steps) == len(self.starts) and all(step > 0 for step in steps), "one step for each start")
        ends = [start + step * (size - 1) + 1 for start, size, step in zip(self.starts, self.layout.shape, steps)]
        inside = len(ends) == len(type_.shape) and all(e <= s for e, s in zip(ends, static_shape(type_)))
        require(inside, f"the slice is no part of {format_shape(type_.shape)}")
        return (TileType(type_.dtype, self.layout.shape, "register", self.layout),)


class Interleave(Op):
    """The elements of tiles of one shape and layout in turns along an axis: element `i` of tile `c`, of `count` tiles,
    is element `count * i + c`. Each thread has its elements side by side.

    x = [0, 1], y = [10, 11]     =>     [0, 10, 1, 11]
    """

    name = "gpu.interleave"
    sources = operands()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        types = [tile_type(source) for source in self.sources]
        require(len({*types}) == 1, "the tiles are of unlike types")
        type_ = types[0]
        require(0 <= self.axis < len(type_.shape), f"axis {self.axis} of rank {len(type_.shape)}")
        layout = type_.layout
        require(isinstance(layout, RegisterLayout), "a register layout")
        assert isinstance(layout, RegisterLayout)
        apart = layout * local(*(len(types) if axis == self.axis else 1 for axis in range(layout.rank)))
        return (TileType(type_.dtype, apart.shape, "register", apart),)


class Mma(Op):
    """acc + a @ b by matrix instructions; `a`, `b` and `acc` are in the layouts that `instruction` asks for.

    `a` is [M, K], `b` is [K, N], `acc` [M, N]. See `ir/gpu/matrix_instructions.py`; `fma` multiplies and adds elements.
    With `groups` of warps, each of which multiplies its own parts of K, `acc` is [groups * M, N]: the sums of each.
    """

    name = "gpu.mma"
    a = operand()
    b = operand()
    acc = operand()
    instruction = name_attribute()
    groups = int_attribute(default=1)

    def infer_types(self) -> tuple[Type, ...]:
        a, b, acc = tile_type(self.a), tile_type(self.b), tile_type(self.acc)
        require(len(a.shape) == len(b.shape) == len(acc.shape) == 2, "operands are matrices")
        fits = a.shape[1] == b.shape[0] and acc.shape == (self.groups * a.shape[0], b.shape[1])
        require(fits, f"{format_shape(a.shape)} times {format_shape(b.shape)} onto {format_shape(acc.shape)}")
        return (acc,)
