"""Which memory the ops of a GPU program touch: for passes about shared memory and about barriers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tiledsl.ir import gpu_ops
from tiledsl.ir.core import Op, Value
from tiledsl.ir.layouts import RegisterLayout, SharedLayout
from tiledsl.ir.types import Shape, TileType
from tiledsl.passes.gpu.linear_indices import LinearIndex, linear_index, ops_around

Kind = Literal["read", "write", "atomic", "copy"]


@dataclass(frozen=True)
class Span:
    """From where on, and how far, an access goes along one axis of a buffer or tensor."""

    start: LinearIndex
    size: int


@dataclass(frozen=True)
class Threads:
    """Which thread touches what: equal for accesses that touch each element from the same threads.

    Elements start at `starts` on each axis of `memory`; `axes` says what runs along what.
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
    """

    kind: Kind
    place: Value | None
    at: Op
    spans: tuple[Span | None, ...] | None = None
    threads: Threads | None = None
    remote: bool = False
    crossed: tuple[Op, ...] = ()

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
    while isinstance(value.op, gpu_ops.View):
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
            return (_of_tensor("read", op, op.shape, None, cluster), _of_buffer("copy", op, op.shape, None))
        case gpu_ops.Read():
            return (_of_buffer("read", op, op.shape, op.layout if op.method == "plain" else None),)
        case gpu_ops.Write():
            layout = op.value.tile.layout if op.method == "plain" else None
            return (_of_buffer("write", op, op.value.shape, layout),)
        case _:
            return ()


def scratch_of(op: Op) -> Value | None:
    """The buffer through which a fold passes values between warps: written, then read after a barrier of its own."""
    return op.buffer if isinstance(op, (gpu_ops.Reduce, gpu_ops.Scan)) else None


def _of_tensor(
    kind: Kind,
    op: gpu_ops.Load | gpu_ops.Store | gpu_ops.Atomic | gpu_ops.Copy,
    shape: Shape,
    layout: object,
    cluster: bool,
) -> Access:
    plain = all(not index.shape for index in op.indices)
    spans = tuple(
        None if index.shape else _span(index, 1 if axis < 0 else shape[axis])
        for index, axis in zip(op.indices, op.axes)
    )
    # along an axis that is none of the tensor's, several threads would touch the same element
    covered = all(size == 1 or axis in op.axes for axis, size in enumerate(shape))
    threads = None
    if plain and covered and isinstance(layout, RegisterLayout):
        threads = Threads(op.tensor, tuple(map(linear_index, op.indices)), op.axes, layout)
    return Access(kind, op.tensor, op, spans, threads, cluster)


def _of_buffer(kind: Kind, op: gpu_ops.Copy | gpu_ops.Read | gpu_ops.Write, shape: Shape, layout: object) -> Access:
    place = buffer_of(op.buffer)
    threads = None
    if isinstance(layout, RegisterLayout):
        threads = Threads(op.buffer, tuple(map(linear_index, op.offsets)), op.places, layout)
    spans = None
    if place is not None and place is op.buffer:
        sizes = dict(zip(op.places, shape))
        spans = tuple(_span(offset, sizes.get(axis, 1)) for axis, offset in enumerate(op.offsets))
    return Access(kind, place, op, spans, threads)


def _span(start: Value, size: object) -> Span | None:
    return Span(linear_index(start), size) if isinstance(size, int) else None


def overlap(later: Access, earlier: Access) -> bool:
    """Whether two accesses may touch the same bytes from different threads. `later` is one of this iteration."""
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
    if later.place is None or earlier.place is None:
        return is_of_buffer(later) and is_of_buffer(earlier)
    return _share_bytes(later.place, earlier.place)


def _apart(later: Span | None, earlier: Span | None, crossed: Sequence[Op]) -> bool:
    """Whether two spans have nothing in common, the earlier one as it was some iterations of `crossed` ago.

    The outermost of these loops is at least one iteration further. How the others stand is not known, so the spans must
    not depend on them.
    """
    if later is None or earlier is None or later.start.terms != earlier.start.terms:
        return False
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
