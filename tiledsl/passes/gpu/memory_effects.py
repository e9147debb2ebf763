"""Which memory the ops of a GPU program touch: for passes about shared memory and about barriers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tiledsl.ir import gpu_ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.layouts import RegisterLayout, SharedLayout
from tiledsl.ir.tile_ops import Constant
from tiledsl.ir.types import TileType

Kind = Literal["read", "write", "atomic", "copy"]
Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Access:
    """What one op does with one buffer or tensor.

    `place`: the result of the `gpu.buffer`, or the tensor; None is any buffer. `box`: from where to where on each axis
    of the buffer, None if it may be all of it. `mine`: two accesses in which this is equal, and not None, touch each
    element from the same thread. `remote`: threads of other blocks of the cluster are concerned.
    """

    kind: Kind
    place: Value | None
    at: Op
    box: Box | None = None
    mine: tuple[Hashable, ...] | None = None
    remote: bool = False

    def after_iteration(self, loop: Op) -> Access:
        """The access as it is seen from the next iteration: what the loop computes may be different there."""
        if self.mine is None or not any(isinstance(v, Value) and is_inside(v, loop) for v in _leaves(self.mine)):
            return self
        return replace(self, mine=None)


def _leaves(items: tuple[Hashable, ...]) -> Iterator[Hashable]:
    for item in items:
        if isinstance(item, tuple):
            yield from _leaves(item)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield item


def is_inside(value: Value, around: Op) -> bool:
    """Whether a value is defined in one of the bodies of an op."""
    owner = value.owner
    block = owner.parent if isinstance(owner, Op) else owner
    return block is not None and around in ops_around(block)


def ops_around(block: Block) -> list[Op]:
    """The ops that a block is in, from the innermost outwards."""
    found: list[Op] = []
    here: Block | None = block
    while here is not None and here.parent is not None:
        found.append(here.parent)
        here = here.parent.parent
    return found


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
            return (_of_tensor("read", op, op.layout, cluster),)
        case gpu_ops.Store():
            return (_of_tensor("write", op, op.value.tile.layout, cluster),)
        case gpu_ops.Atomic():
            return (Access("atomic", op.tensor, op, remote=cluster),)
        case gpu_ops.Copy():
            return (Access("read", op.tensor, op, remote=cluster), _of_buffer("copy", op, None))
        case gpu_ops.Read():
            return (_of_buffer("read", op, op.layout if op.method == "plain" else None),)
        case gpu_ops.Write():
            return (_of_buffer("write", op, op.value.tile.layout if op.method == "plain" else None),)
        case _:
            return ()


def scratch_of(op: Op) -> Value | None:
    """The buffer through which a fold passes values between warps: written, then read after a barrier of its own."""
    return op.buffer if isinstance(op, (gpu_ops.Reduce, gpu_ops.Scan)) else None


def _of_tensor(kind: Kind, op: gpu_ops.Load | gpu_ops.Store, layout: object, cluster: bool) -> Access:
    mine = None
    if isinstance(layout, RegisterLayout) and layout.replicas == 1:
        covered = all(size == 1 or axis in op.axes for axis, size in enumerate(layout.shape))
        if covered and all(not index.shape for index in op.indices):
            mine = (op.indices, op.axes, layout)
    return Access(kind, op.tensor, op, mine=mine, remote=cluster)


def _of_buffer(kind: Kind, op: gpu_ops.Copy | gpu_ops.Read | gpu_ops.Write, layout: object) -> Access:
    place = buffer_of(op.buffer)
    mine = None
    if isinstance(layout, RegisterLayout) and layout.replicas == 1:
        mine = (op.buffer, op.offsets, op.places, layout)
    box = None
    if place is not None and place is op.buffer:
        shape = op.value.tile.shape if isinstance(op, gpu_ops.Write) else op.shape
        box = _box(place, op.offsets, dict(zip(op.places, shape)))
    return Access(kind, place, op, box, mine)


def _box(buffer: Value, offsets: Sequence[Value], sizes: dict[int, object]) -> Box:
    """What part of a buffer is touched, as far as offsets are constants; `sizes` by axis of the buffer."""
    box: list[tuple[int, int]] = []
    for axis, (offset, whole) in enumerate(zip(offsets, buffer.tile.shape)):
        assert isinstance(whole, int)
        size = sizes.get(axis, 1)
        if isinstance(offset.op, Constant) and isinstance(size, int):
            start = int(offset.op.value)
            box.append((start, start + size))
        else:
            box.append((0, whole))
    return tuple(box)


def overlap(first: Access, second: Access) -> bool:
    """Whether two accesses may touch the same bytes from different threads."""
    if first.mine is not None and first.mine == second.mine:
        return False
    if first.kind == second.kind == "atomic":
        return False
    if first.place is second.place:
        if first.box is None or second.box is None:
            return True
        return all(a < d and c < b for (a, b), (c, d) in zip(first.box, second.box))
    if first.place is None or second.place is None:
        return is_of_buffer(first) and is_of_buffer(second)
    return _share_bytes(first.place, second.place)


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
