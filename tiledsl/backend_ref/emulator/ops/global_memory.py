"""Global memory: loads, stores and atomics, thread by thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias, Union

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, fault, poison
from tiledsl.backend_ref.emulator.agents.conflicts import fail_conflict
from tiledsl.backend_ref.emulator.agents.shadow import NOBODYS, Accessor, Conflict
from tiledsl.backend_ref.emulator.ops.registers import check_replicas, check_same_layout
from tiledsl.backend_ref.scalar_functions import Array, apply
from tiledsl.ir.core import Op, Value
from tiledsl.ir.fold_identities import PAIRWISE
from tiledsl.ir.gpu.gpu_ops import Atomic, Copy, Load, Store
from tiledsl.ir.layouts.layout import Integers, RegisterLayout
from tiledsl.ir.type_rules import tensor_type
from tiledsl.support.errors import fail

ONE_THREAD = RegisterLayout((), (), ())
"""How a scalar that one thread loads or stores lies."""
AnyAccess: TypeAlias = Union[Load, Store, Atomic, Copy]
Kind: TypeAlias = 'Literal["read", "write", "combine"]'


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


def resolve(agent: Agent, op: AnyAccess, layout: RegisterLayout, vector: int = 1) -> Access:
    """Where each thread accesses the tensor. Checks that nothing active is outside, and that vectors are whole, or
    ragged where they may be."""
    tensor = agent.array(op.tensor)
    table = _table(agent, layout)
    shape = table[0].shape if table else (_threads(agent, layout), layout.slots)
    active = np.ones(shape, np.bool_)
    for axis, extent in zip(op.masked, op.extents):
        active &= table[axis] < agent.integer(extent)
    if isinstance(op, (Load, Store)) and op.flat:
        return _resolve_flat(agent, op, tensor, table, active, vector)
    coordinates: list[Integers] = []
    for axis, (index, along) in enumerate(zip(op.indices, op.axes)):
        start = agent.array(index).astype(np.int64)
        place = np.broadcast_to(start if along < 0 else start + table[along] // _repeat(op, axis), shape)
        inside = (place >= 0) & (place < tensor.shape[axis])
        if axis in op.checked:
            active &= inside
        coordinates.append(place)
    for axis, place in enumerate(coordinates):
        outside = active & ((place < 0) | (place >= tensor.shape[axis]))
        if outside.any():
            thread, slot = (int(i) for i in np.argwhere(outside)[0])
            fail(
                "emulator-global-bounds", op.location, program=agent.program.name, op=op.name, tensor=op.tensor.name,
                who=f"slot {slot} of {agent.program.thread_name(int(_marks(agent, layout)[thread]))}",
                place=int(place[thread, slot]), axis=axis, size=tensor.shape[axis],
            )  # fmt: skip
    access = Access(tuple(coordinates), active)
    if vector > 1:
        _check_tensor_vectors(agent, op, tensor, access, vector)
    return access


def _repeat(op: AnyAccess, axis: int) -> int:
    """How many neighbours of the tile are one element along an axis of the tensor."""
    return op.repeat if isinstance(op, Load) and axis == tensor_type(op.tensor).unit else 1


def _resolve_flat(
    agent: Agent, op: Load | Store, tensor: Array, table: tuple[Integers, ...], active: Array, vector: int
) -> Access:
    """The same of runs that go on from row to row: they begin where the subscripts say."""
    if not tensor.flags.c_contiguous:
        fault(op, f"%{op.tensor.name} does not lie row by row without gaps")
    numbers: Any = 0
    for size, index, along in zip(tensor.shape, op.indices, op.axes):
        numbers = numbers * size + agent.integer(index) + (table[along] if along >= 0 else 0)
    outside = active & ((numbers < 0) | (numbers >= tensor.size))
    if outside.any():
        thread, slot = (int(i) for i in np.argwhere(outside)[0])
        fail(
            "emulator-global-bounds", op.location, program=agent.program.name, op=op.name, tensor=op.tensor.name,
            who=f"slot {slot} of {agent.program.thread_name(int(agent.marks()[thread]))}",
            place=int(numbers[thread, slot]), axis=0, size=tensor.size,
        )  # fmt: skip
    inside = np.where(active, numbers, 0)
    coordinates = np.unravel_index(inside, tensor.shape) if tensor.size else tuple(inside for _ in tensor.shape)
    access = Access(tuple(coordinates), active)
    if vector > 1:
        _check_tensor_vectors(agent, op, tensor, access, vector)
    return access


def _threads(agent: Agent, layout: RegisterLayout) -> int:
    """Of the agent, as far as they hold something in a layout: a scalar is one thread's, or everybody's."""
    if layout is ONE_THREAD:
        return 1
    return agent.size


def _table(agent: Agent, layout: RegisterLayout) -> tuple[Integers, ...]:
    return layout.table if layout is ONE_THREAD else agent.table(layout)


def _marks(agent: Agent, layout: RegisterLayout) -> Integers:
    marks = agent.marks()
    return marks[:1] if layout is ONE_THREAD else marks


def _check_tensor_vectors(agent: Agent, op: AnyAccess, tensor: Array, access: Access, vector: int) -> None:
    offsets = np.full(access.active.shape, agent.common.addresses.get(id(tensor), 0), np.int64)
    for place, stride in zip(access.coordinates, tensor.strides):
        offsets += place * stride
    active = access.active
    if isinstance(op, (Load, Store)) and op.ragged:  # whole vectors are accessed at once, and they alone
        grouped = np.reshape(active, (*active.shape[:-1], -1, vector))
        active = np.reshape(grouped & grouped.all(axis=-1, keepdims=True), active.shape)
    if isinstance(op, Load) and op.step > 1:
        offsets = _without_steps(op, offsets, tensor.itemsize)
    if isinstance(op, Load) and op.repeat > 1:  # of what slots share, one for all
        apart = min(op.repeat, vector)
        shared = np.repeat(offsets[:, ::apart], apart, axis=1), np.repeat(active[:, ::apart], apart, axis=1)
        if (active & (offsets != shared[0])).any() or (active != shared[1]).any():
            fault(op, f"{apart} slots that share an element of %{op.tensor.name} do not have the same one")
        offsets, active, vector = offsets[:, ::apart], active[:, ::apart], vector // apart
    check_vectors(agent, op, offsets, active, tensor.itemsize, vector, f"%{op.tensor.name}")


def _without_steps(op: Load, offsets: Integers, width: int) -> Integers:
    """Where elements would lie if the runs that are read had them side by side."""
    first = np.repeat(offsets[:, :: op.vector], op.vector, axis=1)
    apart, off = np.divmod(offsets - first, op.step)
    return first - op.phase * width + apart + off


def check_vectors(agent: Agent, op: Op, offsets: Integers, active: Array, width: int, vector: int, of: str) -> None:
    """The elements of each vector lie side by side, it is aligned to its size, and all of it is active or nothing.

    `offsets` are byte addresses, [threads, slots]; elements are `width` bytes wide.
    """
    threads, slots = offsets.shape
    if slots % vector:
        fault(op, f"vectors of {vector} elements do not fill {slots} slots")
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
            fail(
                "emulator-vector", op.location, program=agent.program.name, op=op.name, vector=vector,
                slot=number * vector, who=agent.program.thread_name(int(agent.marks()[thread])), reason=reason, of=of,
                places=offsets[thread, number].tolist(),
            )  # fmt: skip


def use_elements(
    agent: Agent,
    op: Op,
    tensor: Value,
    who: Accessor,
    units: Integers,
    threads: Integers,
    *,
    writes: bool,
    alike: Array | None = None,
) -> None:
    """Marks accesses of elements (by their row-major numbers) of a tensor that the launch writes to. `alike`: what is
    written, where other programs may write the same."""
    shadow = agent.program.tensors.get(id(agent.array(tensor)))
    if shadow is None or not len(units):
        return
    number = agent.program.number
    if writes:
        conflict = shadow.write(who, number, units, threads, None if alike is None else bytes_of(alike))
    else:
        conflict = shadow.read(who, number, units, threads)
    if conflict is not None:
        _fail_elements(agent, op, tensor, conflict)


def bytes_of(elements: Array) -> Array:
    """The bytes of each of some elements."""
    raw = np.frombuffer(elements.tobytes(), np.uint8)
    return np.reshape(raw, (elements.size, elements.itemsize))


def _fail_elements(agent: Agent, op: Op, tensor: Value, conflict: Conflict) -> NoReturn:
    array = agent.array(tensor)
    at = [int(i) for i in np.unravel_index(conflict.unit, array.shape)] if array.ndim else []
    fail_conflict(agent, op, conflict, f"%{tensor.name}{at}")


def _use(
    agent: Agent,
    op: AnyAccess,
    layout: RegisterLayout,
    access: Access,
    where: Array,
    kind: Kind,
    alike: Array | None = None,
) -> None:
    tensor = agent.array(op.tensor)
    _count(agent, op, layout, where, kind)
    if id(tensor) not in agent.program.tensors:
        return
    used = where
    if kind != "read":
        agent.stored.add(op)
    elif layout is ONE_THREAD:
        _check_copies(agent, op, _units(access, where, tensor), np.array([NOBODYS]))
    else:
        used = where & layout.is_first(agent.rows)[:, None]
        copies = where & ~used
        threads = np.broadcast_to(agent.marks()[:, None], where.shape)[copies]
        _check_copies(agent, op, _units(access, copies, tensor), threads)
    threads = np.broadcast_to(_marks(agent, layout)[:, None], where.shape)[used]
    who = agent.accessor(op, threads, atomic=kind == "combine")
    units = _units(access, used, tensor)
    use_elements(agent, op, op.tensor, who, units, threads, writes=kind != "read", alike=alike)


def _count(agent: Agent, op: AnyAccess, layout: RegisterLayout, where: Array, kind: Kind) -> None:
    """Adds the bytes of an access to those of the emulation."""
    writers = _writers(agent, layout)
    if len(writers) not in (1, len(where)):
        return  # a layout of other threads than the program has, which is an error when its registers are filled
    counted = where & writers
    if isinstance(op, Load) and op.repeat > 1:
        counted = counted[:, :: min(op.repeat, op.vector)]
    once = int(np.count_nonzero(counted)) * agent.array(op.tensor).itemsize
    agent.common.read_bytes += 0 if kind == "write" else once
    agent.common.written_bytes += 0 if kind == "read" else once


def _units(access: Access, where: Array, tensor: Array) -> Integers:
    """The row-major numbers of some of the elements."""
    if not tensor.ndim:
        return np.zeros(np.count_nonzero(where), np.int64)
    return np.ravel_multi_index(access.selected(where), tensor.shape)


def _check_copies(agent: Agent, op: AnyAccess, units: Integers, threads: Integers) -> None:
    """What threads read that hold copies: of stores that they have passed themselves, they must see the results.

    Of stores that only others have come to they may see them or not: the first copy alone is stored, and it is right.
    """
    shadow = agent.program.tensors[id(agent.array(op.tensor))]
    if not len(units):
        return
    who = agent.accessor(op, threads)
    conflict = shadow.check_read(who, agent.program.number, units, np.broadcast_to(threads, units.shape))
    if conflict is not None and conflict.by in agent.stored:
        _fail_elements(agent, op, op.tensor, conflict)


def _layout_of(value: Value) -> RegisterLayout:
    return value.layout if value.shape else ONE_THREAD


def load(agent: Agent, op: Load) -> tuple[Array, ...]:
    layout = _layout_of(op.result)
    check_same_layout(op, op.indices, op.result)
    registers = read_tensor(agent, op, layout, op.other, op.vector)
    return (registers if op.shape else np.reshape(registers, ()),)


def read_tensor(agent: Agent, op: Load | Copy, layout: RegisterLayout, other: Value | None, vector: int) -> Array:
    """The registers that a load fills."""
    tensor = agent.array(op.tensor)
    access = resolve(agent, op, layout, vector)
    _use(agent, op, layout, access, access.active, "read")
    if access.active.all():
        return np.broadcast_to(tensor[access.coordinates], access.active.shape)
    registers = np.empty(access.active.shape, tensor.dtype)
    registers[...] = 0 if other is None else agent.array(other)
    registers[access.active] = tensor[access.selected(access.active)]
    return registers


def store(agent: Agent, op: Store) -> tuple[Array, ...]:
    tensor, layout, value = _written(agent, op)
    access = resolve(agent, op, layout, op.vector)
    if op.value not in agent.first_only:
        check_replicas_of(agent, op, layout, value, access.active)
    writes = access.active & _writers(agent, layout)
    _use(agent, op, layout, access, writes, "write", value[writes] if op.alike else None)
    if tensor.ndim:
        tensor[access.selected(writes)] = value[writes]
    elif writes.any():
        tensor[()] = value[writes][-1]
    return ()


def check_replicas_of(agent: Agent, op: Op, layout: RegisterLayout, value: Array, where: Array) -> None:
    """As `check_replicas`; a scalar has none."""
    if layout is not ONE_THREAD:
        check_replicas(agent, op, layout, value, where)


def _writers(agent: Agent, layout: RegisterLayout) -> Array:
    """Which of the agent's threads write: first replicas; of a scalar, the first thread of the team."""
    if layout is ONE_THREAD:
        return np.full((1, 1), agent.start == 0)
    return layout.is_first(agent.rows)[:, None]


def _written(agent: Agent, op: Store | Atomic) -> tuple[Array, RegisterLayout, Array]:
    """The tensor, and the layout and registers of the value; a scalar is a tile that one thread holds."""
    tensor = agent.array(op.tensor)
    if not tensor.flags.writeable:
        fail("reference-read-only", op.location, tensor=op.tensor.name)
    layout = _layout_of(op.value)
    for index in op.indices:
        if index.shape:
            check_same_layout(op, [index], op.value)
    return tensor, layout, np.broadcast_to(agent.array(op.value), (_threads(agent, layout), layout.slots))


def atomic(agent: Agent, op: Atomic) -> tuple[Array, ...]:
    """One thread after the other. What lies outside was 0. Other than first replicas are left undefined."""
    tensor, layout, value = _written(agent, op)
    access = resolve(agent, op, layout)
    if op.value not in agent.first_only:
        check_replicas_of(agent, op, layout, value, access.active)
    before = poison(op.value.dtype, value.shape)
    function = PAIRWISE.get(op.fn, op.fn)
    writers = _writers(agent, layout)
    writes = access.active & writers
    before[np.broadcast_to(writers, before.shape) & ~access.active] = 0
    _use(agent, op, layout, access, writes, "combine")
    for thread, slot in np.argwhere(writes):
        at = tuple(int(c[thread, slot]) for c in access.coordinates)
        old, new = np.asarray(tensor[at]), np.asarray(value[thread, slot])
        before[thread, slot] = old
        tensor[at] = new if function == "exchange" else apply(function, old, new)
    if layout.replicas > 1:
        agent.first_only.add(op.result)
    return (before if op.value.shape else np.reshape(before, ()),)
