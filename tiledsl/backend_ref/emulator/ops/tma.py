"""Copies by TMA: boxes of tensors to and from addresses in shared memory, swizzled as the hardware does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiledsl.backend_ref.emulator.agents.agent import Agent, fault, static
from tiledsl.backend_ref.emulator.agents.async_groups import UnderWay, groups_of
from tiledsl.backend_ref.emulator.agents.clocks import READS, STORES
from tiledsl.backend_ref.emulator.agents.mbarriers import Mbarrier, mbarrier_at
from tiledsl.backend_ref.emulator.agents.shadow import Accessor
from tiledsl.backend_ref.emulator.ops.global_memory import use_elements
from tiledsl.backend_ref.emulator.ops.shared_buffers import claim_bytes, read_bytes, shared_layout
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir.gpu.async_ops import BulkCommit, BulkWait, TmaLoad, TmaStore, TmaWindows
from tiledsl.ir.gpu.matrix_descriptors import swizzle_of
from tiledsl.ir.gpu.tensor_maps import (
    LEAST_PLACE,
    MOST_PLACE,
    PLACES,
    UNIT_BYTES,
    Box,
    TensorMap,
    box_alignment,
    boxes_of,
    elements_of_unit,
    part_of,
    tensor_map_of,
)
from tiledsl.ir.layouts.layout import Integers
from tiledsl.support.errors import fail


class _Piece:
    """What one instruction copies: elements of a tensor, and the bytes of a block's memory."""

    def __init__(self, agent: Agent, op: TmaLoad | TmaStore, tensor_map: TensorMap, box: Box) -> None:
        tensor = agent.array(op.tensor)
        if isinstance(op, TmaWindows):
            self.coordinates = _pixels(agent, op, tensor_map, box)
        else:
            self.coordinates = _box(agent, op, tensor_map, box)
        self.inside = np.ones(self.coordinates[0].shape, np.bool_)
        for line, size in zip(self.coordinates, tensor.shape):
            self.inside &= (line >= 0) & (line < size)
        start = _start_of(agent, op) + box.offset
        linear = np.arange(start, start + self.inside.size * tensor.itemsize, dtype=np.int64)
        swizzle = swizzle_of(tensor_map.swizzle)
        self.addresses: Integers = linear if swizzle is None else swizzle.apply(linear)
        """In the memory of one block."""
        self.start = start

    def where(self) -> tuple[Integers, ...]:
        """The subscript of the elements that are inside of the tensor."""
        return tuple(line[self.inside] for line in self.coordinates)

    def units(self, tensor: Array) -> Integers:
        """Their row-major numbers."""
        return np.ravel_multi_index(self.where(), tensor.shape)


def _box(agent: Agent, op: TmaLoad | TmaStore, tensor_map: TensorMap, box: Box) -> list[Integers]:
    """The coordinates of each element along each axis of the tensor."""
    sizes = dict(zip(tensor_map.axes, tensor_map.box))
    lines: list[Integers] = []
    for axis, (index, along) in enumerate(zip(op.indices, op.axes)):
        start = agent.integer(index) + (box.start[along] if along >= 0 else 0)
        lines.append(np.arange(start, start + sizes[axis], dtype=np.int64))
    # the slowest axis of the map first, so that elements stand as their bytes do
    order = tensor_map.axes[::-1]
    grid = np.meshgrid(*(lines[axis] for axis in order), indexing="ij")
    found = dict(zip(order, grid))
    return [np.reshape(found[axis], -1) for axis in range(len(lines))]


def _pixels(agent: Agent, op: TmaWindows, tensor_map: TensorMap, box: Box) -> list[Integers]:
    """The same where they are pixels of windows, one position after the other."""
    channels, count = tensor_map.box[:2]
    rank = len(op.indices)
    image, *pixel = (agent.integer(op.indices[axis]) for axis in op.pixels)
    (fast,) = {*range(rank)} - {*op.pixels}
    number = image
    for at, size, stride, low in zip(pixel, op.positions, op.strides, op.lows):
        where, rest = divmod(at - low, stride)
        if rest or not 0 <= where < size:
            fault(op, f"begins at pixel {at}, where no window does")
        number = number * size + where
    numbers = np.repeat(np.arange(number, number + count, dtype=np.int64), channels)
    found = [numbers] * rank
    described = list(zip(op.positions, op.strides, op.lows, map(agent.integer, op.within)))
    for axis, (size, stride, low, within) in reversed(list(zip(op.pixels[1:], described))):
        if not 0 <= within < PLACES[rank]:
            fault(op, f"reads {within} pixels into windows, of which TMA knows {PLACES[rank]}")
        found[axis] = numbers % size * stride + low + within
        numbers = numbers // size
    found[op.pixels[0]] = numbers
    first = agent.integer(op.indices[fast]) + box.start[1]
    found[fast] = np.tile(np.arange(first, first + channels, dtype=np.int64), count)
    return found


def _start_of(agent: Agent, op: TmaLoad | TmaStore) -> int:
    """Where the tile begins in a block's memory, before the swizzle."""
    layout, shape = shared_layout(op.buffer), static(op.buffer.shape)
    starts = [agent.integer(offset) for offset in op.offsets]
    for axis, (start, size) in enumerate(zip(starts, shape)):
        length = min(op.shape[op.places.index(axis)], size) if axis in op.places else 1
        if not 0 <= start <= size - length:
            fail(
                "emulator-shared-bounds", op.location, program=agent.program.name, op=op.name,
                buffer=op.buffer.name, place=start, axis=axis, size=size,
            )  # fmt: skip
    return int(layout.linear(shape, starts)) * op.buffer.dtype.bytes + agent.integer(op.buffer)


def _check_start(agent: Agent, op: TmaLoad | TmaStore, tensor_map: TensorMap, box: Box) -> None:
    """A box begins where TMA can begin: at multiples of 16 bytes along rows, anywhere along other axes."""
    for axis, (index, along) in enumerate(zip(op.indices, op.axes)):
        start = agent.integer(index) + (box.start[along] if along >= 0 else 0)
        at: dict[str, Any] = {
            "program": agent.program.name, "op": op.name, "tensor": op.tensor.name, "axis": axis, "start": start,
        }  # fmt: skip
        if not LEAST_PLACE <= start <= MOST_PLACE:
            fail("emulator-box-place", op.location, least=LEAST_PLACE, most=MOST_PLACE, **at)
        dtype = tensor_map.dtype
        if axis == tensor_map.axes[0] and start % elements_of_unit(dtype):
            fail(
                "emulator-box-start", op.location, bytes=start * dtype.bytes, width=UNIT_BYTES, dtype=dtype,
                elements=elements_of_unit(dtype), **at,
            )  # fmt: skip


def _check_aligned(agent: Agent, op: TmaLoad | TmaStore, fast: int, piece: _Piece) -> None:
    """Addresses and strides are multiples of what TMA takes. `fast`: the axis along which elements lie side by side."""
    tensor = agent.array(op.tensor)
    places = {f"the start of %{op.tensor.name}": (agent.common.addresses.get(id(tensor), 0), UNIT_BYTES)}
    for axis, stride in enumerate(tensor.strides):
        if tensor.shape[axis] > 1 and stride < 0:
            fault(op, f"copies %{op.tensor.name}, whose axis {axis} runs backwards")
        if tensor.shape[axis] > 1 and axis != fast:
            places[f"axis {axis} of %{op.tensor.name}, whose stride in bytes is {stride}"] = (stride, UNIT_BYTES)
    places[f"byte {piece.start} of shared memory"] = (piece.start, box_alignment(op.buffer.tile))
    for place, (number, width) in places.items():
        if number % width:
            fail("emulator-misaligned", op.location, program=agent.program.name, op=op.name, width=width, place=place)


def _map_of(agent: Agent, op: TmaLoad | TmaStore) -> TensorMap:
    try:
        return tensor_map_of(op, agent.program.blocks)
    except ValueError as error:
        return fault(op, str(error))


def load(agent: Agent, op: TmaLoad) -> tuple[Array, ...]:
    """The first thread of the team in each block begins to copy its boxes."""
    program = agent.program
    tensor_map = _map_of(agent, op)
    if not agent.leads:
        return ()
    targets = range(program.blocks) if op.multicast else (agent.block,)
    for box in boxes_of(op, program.blocks, agent.block):
        _check_start(agent, op, tensor_map, box)
        piece = _Piece(agent, op, tensor_map, box)
        _check_aligned(agent, op, tensor_map.axes[0], piece)
        for target in targets:
            barrier = mbarrier_at(agent, op, op.barriers, op.index, target)
            _begin_load(agent, op, piece, barrier, target)
    return ()


def _begin_load(agent: Agent, op: TmaLoad, piece: _Piece, barrier: Mbarrier, target: int) -> None:
    program, tensor, thread = agent.program, agent.array(op.tensor), agent.first_thread
    who = agent.under_way(op, barrier.component, barrier.phase + 1, is_async=True)
    addresses = piece.addresses + target * program.stride
    claim_bytes(agent, op, who, addresses, np.full(addresses.shape, thread))
    units = piece.units(tensor)
    use_elements(agent, op, op.tensor, who, units, np.full(units.shape, thread), writes=False)
    agent.common.read_bytes += units.size * tensor.itemsize
    phase, clock = barrier.phase, agent.clock.copy()
    program.expect_from_afar(op, target, barrier, None)
    program.memory[addresses] = 0xFF
    early = _elements(tensor, piece) if program.chance() else None

    def land() -> None:
        elements: Any = _elements(tensor, piece) if early is None else early
        program.memory[addresses] = elements.view(np.uint8)
        barrier.count(op, program.name, phase, addresses.size, clock)

    program.take_off(UnderWay(op, land))


def _elements(tensor: Array, piece: _Piece) -> Array:
    """Those of the box, zeros where the tensor ends."""
    found = np.zeros(piece.inside.shape, tensor.dtype)
    found[piece.inside] = tensor[piece.where()]
    return found


def store(agent: Agent, op: TmaStore) -> tuple[Array, ...]:
    """The first thread of the team in each block begins to copy its boxes; blocks that have all of it do so once."""
    program, tensor = agent.program, agent.array(op.tensor)
    if not tensor.flags.writeable:
        fail("reference-read-only", op.location, tensor=op.tensor.name)
    tensor_map = _map_of(agent, op)
    groups = groups_of(agent, READS)
    reads, stores = (
        agent.under_way(op, program.component(agent.number, kind), groups.next, is_async=True)
        for kind in (READS, STORES)
    )
    if not agent.leads or (agent.block and part_of(op, program.blocks) is None):
        return ()
    for box in boxes_of(op, program.blocks, agent.block):
        _check_start(agent, op, tensor_map, box)
        piece = _Piece(agent, op, tensor_map, box)
        _check_aligned(agent, op, tensor_map.axes[0], piece)
        _begin_store(agent, op, piece, reads, stores)
    return ()


def _begin_store(agent: Agent, op: TmaStore, piece: _Piece, reads: Accessor, stores: Accessor) -> None:
    program, tensor, thread = agent.program, agent.array(op.tensor), agent.first_thread
    addresses = piece.addresses + agent.block * program.stride
    found = read_bytes(agent, op, reads, addresses, np.full(addresses.shape, thread))
    units = piece.units(tensor)
    alike = np.frombuffer(found.tobytes(), tensor.dtype)[piece.inside.ravel()] if op.alike else None
    use_elements(agent, op, op.tensor, stores, units, np.full(units.shape, thread), writes=True, alike=alike)
    agent.common.written_bytes += units.size * tensor.itemsize
    early = found if program.chance() else None

    def land() -> None:
        read: Any = program.memory[addresses] if early is None else early
        elements = read.view(tensor.dtype)
        tensor[piece.where()] = elements[piece.inside]

    groups_of(agent, READS).begin(op, land)


def commit(agent: Agent, op: BulkCommit) -> tuple[Array, ...]:
    del op
    if agent.leads:
        groups_of(agent, READS).commit()
    return ()


def wait(agent: Agent, op: BulkWait) -> tuple[Array, ...]:
    """Of its stores, the first thread has nothing under way any more but the last groups; the others do not know."""
    if agent.leads:
        done = groups_of(agent, READS).wait(op.groups)
        kinds: Sequence[int] = (READS,) if op.read else (READS, STORES)
        for kind in kinds:
            agent.landed[agent.program.component(agent.number, kind)] = done
    return ()
