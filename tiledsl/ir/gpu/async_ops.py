"""The asynchronous part of the GPU vocabulary: roles, mbarriers, copies by TMA, matrix products by warpgroups.

A *role* is a run of the threads of each block that does something of its own. Its body is like the body of a launch:
scalars are the same in all of its threads, tiles are laid out for its threads (those of the first block of a cluster
first). Roles run at the same time, and meet by mbarriers and named barriers.

An *mbarrier* goes through phases 0, 1, 2, ... A phase is over when `arrivals` arrivals were made and all bytes that it
was told to expect have come. Waiting is for the parity of a phase: `gpu.mbarrier_wait ... parity 0` goes on once phase
0 (or 2, 4, ...) is over and the next one is not; parity 1 goes on at once while phase 0 is not over.

Memory is accessed through two proxies: TMA and warpgroup products go through the async one, all else through the
generic one. What was written through one is seen through the other after a `gpu.proxy_fence` of those who wrote it.
"""

from __future__ import annotations

from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import bool_, u64
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.op_fields import (
    body_field,
    flag_attribute,
    int_attribute,
    ints_attribute,
    name_attribute,
    operand,
    operands,
    optional_operand,
)
from tiledsl.ir.type_rules import require, require_scalar_integer, tensor_type, tile_type
from tiledsl.ir.types import TileType, Type, scalar

MOST_PIXEL_AXES = 3
"""Over which windows slide that TMA knows."""

# Roles


class Role(Op):
    """What threads `first` to `first + threads` of each block do, while other roles do other things.

    It stands in the body of a launch itself. `registers` of each thread from here on (setmaxnreg; 0: as many as
    before), also of those warps of its warpgroups that have no role. Values from outside that are scalars, tensors or
    buffers may be read. After a role, only roles may follow.
    """

    name = "gpu.role"
    effect = "control"
    first = int_attribute()
    threads = int_attribute()
    registers = int_attribute(default=0)
    body = body_field()

    def infer_types(self) -> tuple[Type, ...]:
        require(not self.body.arguments, "the body takes nothing")
        return ()


class NamedBarrier(Op):
    """Barrier `id` (1 to 15) of the block, for `threads` threads: the role's waits there, or only arrives."""

    name = "gpu.named_barrier"
    effect = "write"
    id = int_attribute()
    threads = int_attribute()
    action = name_attribute(("sync", "arrive"), default="sync")

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Turn(Op):
    """The warpgroups of a role take turns: each waits for its own (`take`), and hands on to the next one (`pass`), by
    the named barriers `id`, `id + 1` ... of which each warpgroup has one.

    First the last one hands on (`begin`), and in the end the first one takes what is left (`end`): others do nothing
    there.
    """

    name = "gpu.turn"
    effect = "write"
    id = int_attribute()
    action = name_attribute(("begin", "take", "pass", "end"))

    def infer_types(self) -> tuple[Type, ...]:
        return ()


# Mbarriers


class Mbarriers(Op):
    """`count` mbarriers side by side in the shared memory of each block, ready for phase 0 after a barrier.

    `arrivals`: how many arrivals end a phase. `offset`: the first one's place in bytes (-1: not allocated yet). The
    barrier after it is one of the cluster if other blocks arrive at them.
    """

    name = "gpu.mbarriers"
    effect = "write"
    count = int_attribute()
    arrivals = int_attribute()
    offset = int_attribute(default=-1)

    def infer_types(self) -> tuple[Type, ...]:
        return (TileType(u64, (self.count,), "shared", SharedLayout((0,))),)


def _check_mbarrier(barriers: Value, index: Value) -> None:
    type_ = tile_type(barriers)
    fits = type_.level == "shared" and type_.dtype == u64 and len(type_.shape) == 1
    require(fits, "`barriers` must be of `gpu.mbarriers`")
    require_scalar_integer(index)


class MbarrierExpect(Op):
    """The first thread of the role in each block arrives at its block's mbarrier, and has it expect `bytes` more."""

    name = "gpu.mbarrier_expect"
    effect = "write"
    barriers = operand()
    index = operand()
    bytes = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        _check_mbarrier(self.barriers, self.index)
        return ()


class MbarrierArrive(Op):
    """Threads arrive: each one, the first of each warp, or the first of the role in each block.

    They do so at the mbarrier of their own block, or at those of all blocks of the cluster. What they did before is
    done before for those who wait for the phase.
    """

    name = "gpu.mbarrier_arrive"
    effect = "write"
    barriers = operand()
    index = operand()
    by = name_attribute(("thread", "warp", "role"), default="thread")
    scope = name_attribute(("block", "cluster"), default="block")

    def infer_types(self) -> tuple[Type, ...]:
        _check_mbarrier(self.barriers, self.index)
        return ()


class MbarrierWait(Op):
    """All threads of the role wait until the phase of that parity is over at their block's mbarrier."""

    name = "gpu.mbarrier_wait"
    effect = "write"
    barriers = operand()
    index = operand()
    parity = operand()

    def infer_types(self) -> tuple[Type, ...]:
        _check_mbarrier(self.barriers, self.index)
        require_scalar_integer(self.parity)
        return ()


class ProxyFence(Op):
    """What these threads did through the generic proxy is done before what follows in the async one.

    It speaks of shared memory, or of global memory too. Whoever goes on to the async access meets them afterwards.
    """

    name = "gpu.proxy_fence"
    effect = "write"
    scope = name_attribute(("shared", "global"), default="shared")

    def infer_types(self) -> tuple[Type, ...]:
        return ()


# Copies by TMA


def _check_box(op: TmaLoad | TmaStore) -> None:
    """Subscripts, axes and places fit the tensor, the buffer and the box."""
    tensor = tensor_type(op.tensor)
    require(len(op.indices) == len(op.axes) == len(tensor.shape), "one subscript and one box axis per tensor axis")
    rank = len(op.shape)
    named_axes = sorted(axis for axis in op.axes if axis >= 0)
    require(named_axes == list(range(rank)), "every axis of the box runs along one axis of the tensor")
    buffer = tile_type(op.buffer)
    require(buffer.level == "shared" and isinstance(buffer.layout, SharedLayout), "`buffer` is not in shared memory")
    require(buffer.dtype == tensor.dtype, "the dtypes differ")
    require(len(op.offsets) == len(buffer.shape), "one offset per axis of the buffer")
    require(len(op.places) == rank == len(set(op.places)), "one buffer axis per axis of the box")
    require(all(0 <= place < len(buffer.shape) for place in op.places), "an axis that the buffer does not have")
    for value in (*op.indices, *op.offsets):
        require_scalar_integer(value)


class TmaLoad(Op):
    """Begins to copy a box of a tensor into a buffer; zeros come where the tensor ends. One thread of the role does it.

    `indices`: where the box begins along each axis of the tensor (scalars). `axes`: which axis of the box runs along
    each axis of the tensor, or -1. `offsets`, `places`: as for `gpu.copy`. The buffer's layout is that of the box: its
    swizzle is none, or one of 32, 64, 128 bytes.

    In each block the bytes of the box are counted by its mbarrier when they have come, all of them, those outside of
    the tensor too. In a cluster every block loads its own part of a box that is longer than the buffer (see
    `layout_in_buffer`), or else all of it; with `multicast`, where all blocks get all of it, each block loads a part of
    the first axis of the box and sends it to every block, whose mbarriers count it.
    """

    name = "gpu.tma_load"
    effect = "write"
    tensor = operand()
    indices = operands()
    buffer = operand()
    offsets = operands()
    barriers = operand()
    index = operand()
    axes = ints_attribute()
    places = ints_attribute()
    shape = ints_attribute()
    multicast = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        _check_box(self)
        _check_mbarrier(self.barriers, self.index)
        return ()


class TmaWindows(TmaLoad):
    """Begins to copy pixels of an image into a buffer, as `gpu.tma_load` copies a box: those that windows see in one of
    their places (TMA in its mode "im2col"). The box has two axes, of positions and of channels.

    `pixels`: the tensor's axis of images, then one to three axes of pixels; the other axis, of unit stride, is that of
    channels. Positions are counted along the last axis of pixels, then along the one before, then from image to image:
    along each axis of pixels there are `positions` of them, `strides` apart, from pixel `lows` on (less than 0 where
    there is padding). `indices`: the image, the pixel and the channel at which the first window of the box begins.
    `within`: how far from there the place is that is read, in pixels. Pixels outside of the image are zeros, and so are
    images beyond the end.
    """

    name = "gpu.tma_windows"
    within = operands()
    pixels = ints_attribute()
    positions = ints_attribute()
    strides = ints_attribute()
    lows = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        super().infer_types()
        rank = len(tensor_type(self.tensor).shape)
        slid = rank - 2
        require(1 <= slid <= MOST_PIXEL_AXES, f"windows over {slid} axes of an image of rank {rank}")
        described = (self.within, self.positions, self.strides, self.lows)
        require(all(len(one) == slid for one in described), f"windows over {slid} axes of pixels need {slid} of each")
        known = len({*self.pixels}) == len(self.pixels) == rank - 1 and {*self.pixels} < {*range(rank)}
        require(known, f"pixels of a tensor of rank {rank} have {rank - 1} axes")
        boxed = tuple(0 if axis == self.pixels[-1] else -1 if axis in self.pixels else 1 for axis in range(rank))
        require(self.axes == boxed, "a box of windows has positions, then channels")
        for value in self.within:
            require_scalar_integer(value)
        return ()


class TmaStore(Op):
    """Begins to copy a box from a buffer to a tensor; what lies outside of the tensor is dropped. One thread does it.

    Fields as for `gpu.tma_load`. It is part of the next group that `gpu.bulk_commit` makes. In a cluster, blocks that
    all have all of the box store it once (the first one). `alike`: other programs may store to some of its elements,
    and then the same values.
    """

    name = "gpu.tma_store"
    effect = "write"
    tensor = operand()
    indices = operands()
    buffer = operand()
    offsets = operands()
    axes = ints_attribute()
    places = ints_attribute()
    shape = ints_attribute()
    alike = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        _check_box(self)
        return ()


class BulkCommit(Op):
    """Makes one group of the `gpu.tma_store`s since the last one."""

    name = "gpu.bulk_commit"
    effect = "write"

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class BulkWait(Op):
    """The thread that stores waits until at most the last `groups` groups are not done.

    With `read`, until they have read their buffers. The others of the role do not wait.
    """

    name = "gpu.bulk_wait"
    effect = "write"
    groups = int_attribute()
    read = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Exchange(Op):
    """Begins to send each block of the cluster its part of a buffer. One thread of the role in each block does it.

    Part p along the first axis of `source` goes to block p, itself too, where it becomes part r of `target`, r being
    the number of the block that it comes from: as many rows of it as parts of `target` have. The mbarrier of the block
    that gets it counts the bytes. So a block knows when others' parts have come; what it sends itself has been read
    when those who got it say so.
    """

    name = "gpu.exchange"
    effect = "write"
    source = operand()
    target = operand()
    barriers = operand()
    index = operand()

    def infer_types(self) -> tuple[Type, ...]:
        source, target = tile_type(self.source), tile_type(self.target)
        for type_ in (source, target):
            require(type_.level == "shared" and isinstance(type_.layout, SharedLayout), "buffers are in shared memory")
        require(source.dtype == target.dtype, "the dtypes differ")
        require(len(source.shape) == len(target.shape) >= 2, "buffers have parts, and rows")
        require(source.shape[0] == target.shape[0], "as many parts go out as come in")
        require(source.shape[2:] == target.shape[2:], "rows are alike")
        _check_mbarrier(self.barriers, self.index)
        return ()


# Products by warpgroups


class Wgmma(Op):
    """acc + a @ b, begun by warpgroups: `a` [M, K] in shared memory or registers, `b` [K, N] in shared memory.

    The result is in flight until a `gpu.wgmma_wait` gives it back; till then it may only be added to by further
    products. So may be the registers of `a`, which must not be written to. M and N are those of `acc`, K is `depth`.
    Operands in shared memory begin at `a_offsets` or `b_offsets` in a buffer, one per axis, and run along `a_axes` (of
    M, of K) or `b_axes` (of K, of N). In a cluster, blocks have their own part of M or N (see `layout_in_buffer`).
    `accumulate`: where it is given and false, the result is a @ b alone. `instruction`: such as m64n128k16_bf16_f32;
    see `ir/gpu/warpgroup_instructions.py`.
    """

    name = "gpu.wgmma"
    effect = "write"
    a = operand()
    a_offsets = operands()
    b = operand()
    b_offsets = operands()
    acc = operand()
    accumulate = optional_operand()
    depth = int_attribute()
    a_axes = ints_attribute(default=())
    b_axes = ints_attribute()
    instruction = name_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        a, b, acc = tile_type(self.a), tile_type(self.b), tile_type(self.acc)
        require(b.level == "shared", "`b` must be a buffer in shared memory")
        require(len(acc.shape) == 2, "`acc` is a matrix")
        require(len(self.b_offsets) == len(b.shape) and len(self.b_axes) == 2, "one offset per axis of `b`, two axes")
        if a.level == "shared":
            require(
                len(self.a_offsets) == len(a.shape) and len(self.a_axes) == 2, "one offset per axis of `a`, two axes"
            )
        else:
            require(not self.a_offsets and not self.a_axes, "`a` is in registers: it has no offsets")
            require(a.shape == (acc.shape[0], self.depth), "`a` in registers is [M, depth]")
        for axis, rank in [*((x, len(a.shape)) for x in self.a_axes), *((x, len(b.shape)) for x in self.b_axes)]:
            require(0 <= axis < rank, "an axis that the buffer does not have")
        for value in (*self.a_offsets, *self.b_offsets):
            require_scalar_integer(value)
        if self.accumulate is not None:
            require(tile_type(self.accumulate) == scalar(bool_), "`accumulate` must be a bool")
        return (acc,)


class WgmmaFence(Op):
    """Registers that were written are seen by the products that follow: before the first one, and after each change."""

    name = "gpu.wgmma_fence"
    effect = "write"

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class WgmmaCommit(Op):
    """Makes one group of the products since the last one."""

    name = "gpu.wgmma_commit"
    effect = "write"

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class WgmmaWait(Op):
    """Waits until at most the last `groups` groups of products are not done; gives `values` back, landed.

    `values`: accumulators whose products are done then, and those operands `a` in registers that must be kept till
    then. A product whose `a` is in registers needs them to be named in the wait that ends it.
    """

    name = "gpu.wgmma_wait"
    effect = "write"
    values = operands()
    groups = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.values)
