"""Global memory in the GPU executor: loads, stores and atomics, thread by thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.gpu_execution import GpuExecution, GpuExecutionError, poison
from tiledsl.backend_ref.gpu_registers import check_replicas, check_same_layout
from tiledsl.backend_ref.scalar_functions import Array, apply
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu_ops import Atomic, Copy, Load, Store
from tiledsl.ir.layouts import Integers, RegisterLayout
from tiledsl.support.errors import fail

ONE_THREAD = RegisterLayout((), (), ())
"""How a scalar that one thread loads or stores lies."""
AnyAccess: TypeAlias = Union[Load, Store, Atomic, Copy]


@dataclass(frozen=True)
class Access:
    """The elements of a tensor that an access is about; all arrays are [threads, slots]."""

    coordinates: tuple[Integers, ...]
    """For each axis of the tensor."""
    active: Array
    """Which elements are accessed."""

    def selected(self, where: Array) -> tuple[Integers, ...]:
        """The subscript of some of the elements."""
        return tuple(c[where] for c in self.coordinates)


def resolve(execution: GpuExecution, op: AnyAccess, layout: RegisterLayout, vector: int = 1) -> Access:
    """Where each thread accesses the tensor. Checks that nothing active is outside, and that vectors are whole."""
    tensor = execution.array(op.tensor)
    shape = (layout.threads, layout.slots)
    active = np.ones(shape, np.bool_)
    for axis, extent in zip(op.masked, op.extents):
        active &= layout.table[axis] < execution.integer(extent)
    coordinates: list[Integers] = []
    for axis, (index, along) in enumerate(zip(op.indices, op.axes)):
        start = execution.array(index).astype(np.int64)
        place = np.broadcast_to(start if along < 0 else start + layout.table[along], shape)
        inside = (place >= 0) & (place < tensor.shape[axis])
        if axis in op.checked:
            active &= inside
        coordinates.append(place)
    for axis, place in enumerate(coordinates):
        outside = active & ((place < 0) | (place >= tensor.shape[axis]))
        if outside.any():
            thread, slot = (int(i) for i in np.argwhere(outside)[0])
            size = tensor.shape[axis]
            text = f"slot {slot} of thread {thread} is at {place[thread, slot]} on axis {axis} of size {size}"
            raise GpuExecutionError(op, f"{text} of %{op.tensor.name}, where no check is made")
    access = Access(tuple(coordinates), active)
    if vector > 1:
        _check_tensor_vectors(execution, op, tensor, access, vector)
    return access


def _check_tensor_vectors(execution: GpuExecution, op: AnyAccess, tensor: Array, access: Access, vector: int) -> None:
    offsets = np.full(access.active.shape, execution.addresses.get(op.tensor, 0), np.int64)
    for place, stride in zip(access.coordinates, tensor.strides):
        offsets += place * stride
    check_vectors(op, offsets, access.active, tensor.itemsize, vector, f"%{op.tensor.name}")


def check_vectors(op: Op, offsets: Integers, active: Array, width: int, vector: int, of: str) -> None:
    """The elements of each vector lie side by side, it is aligned to its size, and all of it is active or nothing.

    `offsets` are byte addresses, [threads, slots]; elements are `width` bytes wide.
    """
    threads, slots = offsets.shape
    if slots % vector:
        raise GpuExecutionError(op, f"vectors of {vector} elements do not fill {slots} slots")
    shape = (threads, slots // vector, vector)
    offsets, accessed = np.reshape(offsets, shape), np.reshape(active, shape)
    first = offsets[:, :, :1]
    apart = accessed & (offsets != first + width * np.arange(vector))
    askew = accessed[:, :, :1] & (first % (width * vector) != 0)
    torn = accessed != accessed[:, :, :1]
    reasons: dict[str, Array] = {
        "does not lie side by side": apart,
        f"is not aligned to {width * vector} bytes": np.broadcast_to(askew, shape),
        "is accessed in part": torn,
    }
    for reason, wrong in reasons.items():
        if wrong.any():
            thread, number, _ = (int(i) for i in np.argwhere(wrong)[0])
            places = offsets[thread, number].tolist()
            text = f"the vector of {vector} at slot {number * vector} of thread {thread} {reason}"
            raise GpuExecutionError(op, f"{text}: {of} at bytes {places}")


def _layout_of(value: Value) -> RegisterLayout:
    return value.layout if value.shape else ONE_THREAD


def load(execution: GpuExecution, op: Load) -> tuple[Array, ...]:
    layout = _layout_of(op.result)
    check_same_layout(op, op.indices, op.result)
    registers = read_tensor(execution, op, layout, op.other, op.vector)
    return (registers if op.shape else np.reshape(registers, ()),)


def read_tensor(
    execution: GpuExecution, op: Load | Copy, layout: RegisterLayout, other: Value | None, vector: int
) -> Array:
    """The registers that a load fills."""
    tensor = execution.array(op.tensor)
    access = resolve(execution, op, layout, vector)
    if access.active.all():
        return np.broadcast_to(tensor[access.coordinates], access.active.shape)
    registers = np.empty(access.active.shape, tensor.dtype)
    registers[...] = 0 if other is None else execution.array(other)
    registers[access.active] = tensor[access.selected(access.active)]
    return registers


def store(execution: GpuExecution, op: Store) -> tuple[Array, ...]:
    tensor, layout, value = _written(execution, op)
    access = resolve(execution, op, layout, op.vector)
    if op.value not in execution.first_only:
        check_replicas(op, layout, value, access.active)
    writes = access.active & layout.is_first(np.arange(layout.threads))[:, None]
    if tensor.ndim:
        tensor[access.selected(writes)] = value[writes]
    elif writes.any():
        tensor[()] = value[writes][-1]
    return ()


def _written(execution: GpuExecution, op: Store | Atomic) -> tuple[Array, RegisterLayout, Array]:
    """The tensor, and the layout and registers of the value; a scalar is a tile that one thread holds."""
    tensor = execution.array(op.tensor)
    if not tensor.flags.writeable:
        fail("reference-read-only", op.location, tensor=op.tensor.name)
    layout = _layout_of(op.value)
    for index in op.indices:
        if index.shape:
            check_same_layout(op, [index], op.value)
    return tensor, layout, np.broadcast_to(execution.array(op.value), (layout.threads, layout.slots))


def atomic(execution: GpuExecution, op: Atomic) -> tuple[Array, ...]:
    """One thread after the other. Other than first replicas are left undefined."""
    tensor, layout, value = _written(execution, op)
    access = resolve(execution, op, layout)
    if op.value not in execution.first_only:
        check_replicas(op, layout, value, access.active)
    before = poison(op.value.dtype, value.shape)
    function = {"max": "maximum", "min": "minimum"}.get(op.fn, op.fn)
    for thread, slot in np.argwhere(access.active & layout.is_first(np.arange(layout.threads))[:, None]):
        at = tuple(int(c[thread, slot]) for c in access.coordinates)
        old, new = np.asarray(tensor[at]), np.asarray(value[thread, slot])
        before[thread, slot] = old
        tensor[at] = new if function == "exchange" else apply(function, old, new)
    if layout.replicas > 1:
        execution.first_only.add(op.result)
    return (before if op.value.shape else np.reshape(before, ()),)
