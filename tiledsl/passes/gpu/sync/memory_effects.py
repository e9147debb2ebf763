"""Which memory the ops of a GPU program touch: for passes about shared memory and about barriers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.gpu.async_ops import Exchange, MbarrierArrive, Mbarriers, TmaLoad, TmaStore, TmaWindows, Wgmma
from tiledsl.ir.layouts.buffer_layout import SharedLayout
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.types import Shape, TileType
from tiledsl.passes.gpu.layouts.linear_indices import LinearIndex, linear_index, ops_around

Kind = Literal["read", "write", "atomic", "copy"]


@dataclass(frozen=True)
class Span:
    """From where on, and how far, an access goes along one axis of a buffer or tensor."""

    start: LinearIndex
    size: int


@dataclass(frozen=True)
class Threads:
    """Which thread touches what: equal for accesses that touch each element from the same threads.

    Elements start at `starts` on those axes of `memory` along which the tile runs; `axes` says what runs along what.
    Where the tile lies on the other axes does not matter: at another place there it has other elements.
    """

    memory: Value
    starts: tuple[LinearIndex, ...]
    axes: tuple[int, ...]
    layout: RegisterLayout


@dataclass(frozen=True)
class Access:
    """What one op does with one buffer or tensor.

    `place`: the result of the `gpu.buffer`, or the tensor; None is any buffer. `spans`: for each axis, None where that
    is not known; None alone is all of it. `threads`: None where any may touch anything. `remote`: threads of other
    blocks of the cluster are concerned. `crossed`: the loops that have begun another iteration since, innermost first.
    `is_async`: made through the async proxy, by TMA or by products. `lone`: begun by the first thread of the role.
    `met`: the role's threads have met since; of a cluster, each block's among themselves. `block`: the block of the
    cluster whose memory it is; -1: that of each thread's own.
    """

    kind: Kind
    place: Value | None
    at: Op
    spans: tuple[Span | None, ...] | None = None
    threads: Threads | None = None
    remote: bool = False
    crossed: tuple[Op, ...] = ()
    is_async: bool = False
    lone: bool = False
    met: bool = False
    block: int = -1

    def after_iteration(self, loop: Op) -> Access:
        """The access as the next iteration sees it: what the loop computes is different there."""
        assert self.at.parent is not None
        if loop not in ops_around(self.at.parent):
            return self
        crossed = self.crossed if loop in self.crossed else (*self.crossed, loop)
        moves = self.threads is not None and any(start.step(loop) != 0 for start in self.threads.starts)
        return replace(self, threads=None if moves else self.threads, crossed=crossed)


def buffer_of(value: Value) -> Value | None:
    """The buffer that a view, or a view of a view, lies in; None if that cannot be told."""
    while isinstance(value.op, (gpu_ops.View, gpu_ops.Reuse)):
        value = value.op.buffer
    return value if isinstance(value.op, gpu_ops.Buffer) else None


def is_of_buffer(access: Access) -> bool:
    """Whether an access is one of shared memory, not of a tensor."""
    return access.place is None or isinstance(access.place.type, TileType)


def accesses(op: Op, *, cluster: bool = False) -> tuple[Access, ...]:
    """What an op does with memory, in order. A fold's scratch buffer is not among it: see `scratch_of`."""
    match op:
        case gpu_ops.Load():
            return (_of_tensor("read", op, op.shape, op.layout, cluster),)
        case gpu_ops.Store():
            return (_of_tensor("write", op, op.value.shape, op.value.tile.layout, cluster),)
        case gpu_ops.Atomic():
            return (_of_tensor("atomic", op, op.value.shape, None, cluster),)
        case gpu_ops.Copy():
            own = isinstance(op.layout, RegisterLayout) and op.layout.replicas == 1
            copied = _of_buffer("copy", op, op.shape, op.layout if own else None)
            return (_of_tensor("read", op, op.shape, None, cluster), copied)
        case gpu_ops.Read():
            return (_of_buffer("read", op, op.shape, op.layout if op.method == "plain" else None),)
        case gpu_ops.Write():
            elsewhere = cluster and op.block >= 0
            layout = op.value.tile.layout if op.method == "plain" and not elsewhere else None
            access = _of_buffer("write", op, op.value.shape, layout)
            return (replace(access, remote=True, block=op.block) if elsewhere else access,)
        case gpu_ops.Combine():
            return (Access("atomic", buffer_of(op.buffer), op),)
        case TmaLoad():
            return (_of_tensor_box("read", op, cluster), _of_box("write", op, cluster and op.multicast))
        case TmaStore():
            return (_of_box("read", op, False), _of_tensor_box("write", op, cluster))
        case Exchange():
            sent = Access("read", buffer_of(op.source), op, is_async=True, lone=True)
            return (sent, Access("write", buffer_of(op.target), op, remote=cluster, is_async=True, lone=True))
        case Wgmma():
            return _of_operands(op)
        case Mbarriers():
            return (Access("write", op.result, op, remote=cluster and any(map(_is_from_afar, op.result.users))),)
        case _:
            return ()


def _is_from_afar(op: Op) -> bool:
    """Whether an op has other blocks of the cluster count at their mbarriers."""
    from_one = isinstance(op, Exchange) or (isinstance(op, TmaLoad) and op.multicast)
    return from_one or (isinstance(op, MbarrierArrive) and op.scope == "cluster")


def scratch_of(op: Op) -> Value | None:
    """The buffer through which a fold passes values between warps: written, then read after a barrier of its own."""
    return op.buffer if isinstance(op, (gpu_ops.Reduce, gpu_ops.Scan, gpu_ops.Sort)) else None


def _of_tensor(
    kind: Kind,
    op: gpu_ops.Load | gpu_ops.Store | gpu_ops.Atomic | gpu_ops.Copy,
    shape: Shape,
    layout: object,
    cluster: bool,
) -> Access:
    if isinstance(op, (gpu_ops.Load, gpu_ops.Store)) and op.flat:
        return Access(kind, op.tensor, op, remote=cluster)  # of how many rows, no span tells
    plain = all(not index.shape for index in op.indices)
    spans = tuple(
        None if index.shape else _span(index, 1 if axis < 0 else shape[axis])
        for index, axis in zip(op.indices, op.axes)
    )
    # along an axis that is none of the tensor's, several threads would touch the same element
    covered = all(size == 1 or axis in op.axes for axis, size in enumerate(shape))
    threads = None
    if plain and covered and isinstance(layout, RegisterLayout):
        starts = tuple(linear_index(index) for index, axis in zip(op.indices, op.axes) if axis >= 0)
        threads = Threads(op.tensor, starts, op.axes, layout)
    return Access(kind, op.tensor, op, spans, threads, cluster)


def _of_buffer(kind: Kind, op: gpu_ops.Copy | gpu_ops.Read | gpu_ops.Write, shape: Shape, layout: object) -> Access:
    threads = None
    if isinstance(layout, RegisterLayout):  # tiles that are turned are the same to threads: axes as the buffer has them
        order = sorted(range(len(op.places)), key=op.places.__getitem__)
        places = tuple(op.places[axis] for axis in order)
        starts = tuple(linear_index(op.offsets[axis]) for axis in places)
        threads = Threads(op.buffer, starts, places, layout.permuted(order))
    spans = _spans_of(op.buffer, op.offsets, dict(zip(op.places, shape)))
    return Access(kind, buffer_of(op.buffer), op, spans, threads)


def _of_tensor_box(kind: Kind, op: TmaLoad | TmaStore, cluster: bool) -> Access:
    if isinstance(op, TmaWindows):
        return Access(kind, op.tensor, op, remote=cluster, is_async=True, lone=True)
    sizes = (1 if axis < 0 else op.shape[axis] for axis in op.axes)
    spans = tuple(_span(index, size) for index, size in zip(op.indices, sizes))
    return Access(kind, op.tensor, op, spans, remote=cluster, is_async=True, lone=True)


def _of_box(kind: Kind, op: TmaLoad | TmaStore, remote: bool) -> Access:
    spans = _spans_of(op.buffer, op.offsets, dict(zip(op.places, op.shape)))
    return Access(kind, buffer_of(op.buffer), op, spans, remote=remote, is_async=True, lone=True)


def _of_operands(op: Wgmma) -> tuple[Access, ...]:
    """What is read of those in shared memory: all of M and of N that there is, and `depth` of K."""
    found: list[Access] = []
    for value, offsets, axes in ((op.a, op.a_offsets, op.a_axes), (op.b, op.b_offsets, op.b_axes[::-1])):
        if value.tile.level == "shared":
            outer, inner = axes
            spans = _spans_of(value, offsets, {outer: None, inner: op.depth})
            found.append(Access("read", buffer_of(value), op, spans, is_async=True))
    return tuple(found)


def _spans_of(buffer: Value, offsets: Sequence[Value], sizes: Mapping[int, object]) -> tuple[Span | None, ...] | None:
    """Of an access with `sizes` along some axes, 1 along the others. Views have none: they count as all of a buffer."""
    if buffer_of(buffer) is not buffer:
        return None
    return tuple(_span(offset, sizes.get(axis, 1)) for axis, offset in enumerate(offsets))


def _span(start: Value, size: object) -> Span | None:
    return Span(linear_index(start), size) if isinstance(size, int) else None


def overlap(later: Access, earlier: Access) -> bool:
    """Whether two accesses may touch the same bytes from different threads. `later` is one of this iteration."""
    remote = later.remote or earlier.remote
    if later.lone and earlier.lone and (not remote or later.kind == earlier.kind):
        return False
    if later.block >= 0 and earlier.block >= 0 and later.block != earlier.block:
        return False
    # of replicas all read, but only the first writes
    alone = later.threads is not None and (
        later.threads.layout.replicas == 1 or "read" not in (later.kind, earlier.kind)
    )
    if alone and later.threads == earlier.threads:
        return False
    if later.kind == earlier.kind == "atomic":
        return False
    if later.place is earlier.place:
        if later.spans is None or earlier.spans is None:
            return True
        return not any(_apart(a, b, earlier.crossed) for a, b in zip(later.spans, earlier.spans))
    return may_share(later, earlier)


def may_share(first: Access, second: Access) -> bool:
    """Whether two accesses are of the same tensor, or of buffers that may have bytes in common."""
    if first.place is second.place:
        return True
    if first.place is None or second.place is None:
        return is_of_buffer(first) and is_of_buffer(second)
    return _share_bytes(first.place, second.place)


def _apart(later: Span | None, earlier: Span | None, crossed: Sequence[Op]) -> bool:
    """Whether two spans have nothing in common, the earlier one as it was some iterations of `crossed` ago.

    The outermost of these loops is at least one iteration further. How the others stand is not known, so the spans must
    not depend on them.
    """
    if later is None or earlier is None:
        return False
    if later.start.terms != earlier.start.terms:
        return not crossed and later.size == earlier.size == 1 and _differ_by_odd(later.start, earlier.start)
    distance = later.start.constant - earlier.start.constant
    if crossed:
        step = later.start.step(crossed[-1])
        if step is None or any(later.start.step(loop) != 0 for loop in crossed[:-1]):
            return False
        # each further iteration leads further away, if already the first one leads off to that side
        if step > 0:
            return distance + step >= earlier.size
        if step < 0:
            return -(distance + step) >= later.size
    return distance >= earlier.size or -distance >= later.size


def _differ_by_odd(first: LinearIndex, second: LinearIndex) -> bool:
    """Whether two sums differ by an odd number, whatever their terms are: as `slot` and `1 - slot` do, the two places
    that take turns."""
    factors = dict(first.terms)
    for value, factor in second.terms:
        factors[value] = factors.get(value, 0) - factor
    return (first.constant - second.constant) % 2 == 1 and all(factor % 2 == 0 for factor in factors.values())


def _share_bytes(first: Value, second: Value) -> bool:
    """Whether two buffers that have places lie over each other."""
    a, b = byte_range(first), byte_range(second)
    return a is not None and b is not None and a[0] < b[1] and b[0] < a[1]


def byte_range(buffer: Value) -> tuple[int, int] | None:
    """From where to where a buffer lies in shared memory; None before it is allocated, and for tensors."""
    op = buffer.op
    if not isinstance(op, gpu_ops.Buffer) or op.offset < 0:
        return None
    return (op.offset, op.offset + buffer_bytes(op))


def buffer_bytes(op: gpu_ops.Buffer) -> int:
    """How much memory a buffer takes."""
    assert isinstance(op.layout, SharedLayout)
    return op.layout.bytes(op.shape, op.dtype)
