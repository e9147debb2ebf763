"""Operands of `wgmma` that threads compute: left ones stay in registers, right ones go to shared memory.

    %b = tile.cast(%codes)                      %b_registers = tile.cast(...)
    %acc = tile.dot(%a, %b, %acc)       =>      gpu.write(%b, %b_registers, ...)
                                                gpu.wgmma(%a, ..., %b, ...)

Barriers and proxy fences between these are put there by `insert-proxy-fences` and `insert-barriers`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.gpu.tensor_maps import UNIT_BYTES
from tiledsl.ir.layouts.layout import RegisterLayout, replicate, spatial
from tiledsl.ir.layouts.shared_layouts import MATRICES, Access, Method, access_turns
from tiledsl.passes.gpu.layouts.access_layouts import access_layout
from tiledsl.passes.gpu.layouts.capacities import Capacities
from tiledsl.passes.gpu.layouts.infer_layouts import access_order
from tiledsl.passes.gpu.layouts.operand_sources import sources_of
from tiledsl.passes.gpu.layouts.select_wgmma import WarpgroupProduct, multiplied_dtype, plan_product
from tiledsl.passes.gpu.layouts.shared_accesses import shared_layout, staged_layout, static_shape, whole_vector
from tiledsl.passes.gpu.lower.lower_dot import batched, matrix_of, planes_of
from tiledsl.passes.gpu.lower.lowering import Lowering, Staged
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.products.load_parts import operand_load
from tiledsl.passes.gpu.products.streamed_loads import computed_sources, is_read_beside, source_load
from tiledsl.passes.gpu.roles.rings import operand_layout

LEAST_TOGETHER = 2
"""Neighbours that a thread computes of a right operand at least: they are written together."""


def computed_layouts(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> dict[Value, RegisterLayout]:
    """In which layouts threads compute the operands of a product of what its loop loads. A left operand that something
    else reads too lies as it would in registers: rows are then folded as the result's are."""
    found: dict[Value, RegisterLayout] = {}
    if computed_sources(dot, is_left=True) or is_read_beside(dot.a):
        found[dot.a] = batched(plan_product(dot, capacities, grid).left, len(dot.a.shape))
    if computed_sources(dot, is_left=False) or is_read_beside(dot.b):
        found[dot.b] = batched(_right_layout(dot, capacities, grid), len(dot.b.shape))
    return found


def _right_layout(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> RegisterLayout:
    """As the narrowest of the tiles that it is computed of is read best, but for what threads would compute several
    times over: of 64 x 112 bytes, 16 at a time are work for 64 threads. Blocks of a cluster have all rows of it, and
    each its own columns where they lie side by side."""
    k, n = capacities.of(dot.b.shape[-2]), capacities.of(dot.b.shape[-1])
    sources = computed_sources(dot, is_left=False)
    bytes_ = [source.load.result.dtype.bytes for source in sources] or [dot.b.dtype.bytes]
    order = (0, 1) if _fast_axis(dot) == 1 else (1, 0)
    vector = UNIT_BYTES // min(bytes_)
    across = grid.across
    inner = access_layout((k, n // across), order, grid.threads, vector, min(bytes_))
    while vector > LEAST_TOGETHER and inner.replicas > 1:
        vector //= 2
        inner = access_layout((k, n // across), order, grid.threads, vector, min(bytes_))
    if across > 1:
        return spatial(1, across) * inner
    return replicate(grid.cluster, 2) * inner if grid.cluster > 1 else inner


def _fast_axis(dot: ops.Dot) -> int:
    """The axis of a computed right operand that counts fastest in shared memory: as in the tensor that it is computed
    of; where there is none, that of the columns. Elements of other than 16 bits have to count along K."""
    if multiplied_dtype(dot).bits != 16:
        return 0
    for source in sources_of(dot.b):
        axes = source.axes[-2:]
        if min(axes) >= 0:
            return axes.index(access_order(source.load)[-1]) if access_order(source.load)[-1] in axes else 1
    return 1


def stage_right_operand(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct) -> None:
    """Writes a right operand that is in registers to a buffer, from which the product takes it. Nothing where it stands
    in a stage."""
    if source_load(dot.b) is None:
        buffer = right_buffer(state, dot, plan)
        write_right_operand(state, dot, buffer)
        define_right_operand(state, dot, buffer)


def right_buffer(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct, slots: int = 0) -> Value:
    """A buffer for a right operand that is computed, or for so many of it."""
    _, columns, depth = plan.shape
    sizes = (depth, columns // state.grid.across)
    fast = _fast_axis(dot)
    dtype, run = multiplied_dtype(dot), plan.instruction.n if fast == 1 else 0
    name = dot.b.name or "right"
    state.remark(dot, "its right operand is computed, and written to shared memory")
    if dot.precision == "split":
        shared = operand_layout((ops.PLANES, *sizes), 1 + fast, dtype.bytes, run)
        return state.buffer((max(1, slots), ops.PLANES, *sizes), dtype, staged_layout(shared), name)
    shared = operand_layout(sizes, fast, dtype.bytes, run)
    if not slots:
        return state.buffer(sizes, dot.b.dtype, shared, name)
    return state.buffer((slots, *sizes), dot.b.dtype, staged_layout(shared), name)


def write_right_operand(state: Lowering, dot: ops.Dot, buffer: Value, slot: Value | None = None) -> None:
    """Writes it as it is now, with 0 for what is beyond the end of K: by matrices where it lies as they take it."""
    if dot.precision == "split":
        for number, plane in enumerate(right_planes(state, dot)):
            write_plane(state, buffer, plane, slot or state.constant(0), number)
        return
    state.staged.pop(dot.b, None)  # of the turn before: it is computed anew
    _write(state, buffer, matrix_of(state, dot.b, 0), [] if slot is None else [slot])


def right_planes(state: Lowering, dot: ops.Dot) -> list[Value]:
    """Of a right operand, as it is now, with 0 for what is beyond the end of K."""
    if operand_load(dot.b) is None:
        state.staged.pop(dot.b, None)  # of the turn before: it is computed anew
    return planes_of(state, matrix_of(state, dot.b, 0))


def write_plane(state: Lowering, buffer: Value, plane: Value, slot: Value, number: int) -> None:
    """Writes a plane of a right operand to a slot of its buffer."""
    _write(state, buffer, plane, [slot, state.constant(number)])


def _write(state: Lowering, buffer: Value, value: Value, at: Sequence[Value]) -> None:
    """Writes a matrix to a buffer, or to that one of several in it that lies at these coordinates."""
    shared, shape = shared_layout(buffer), static_shape(buffer)
    part = value.layout if state.grid.cluster == 1 else value.layout.part_of_block(state.grid.cluster)
    places = (len(at), len(at) + 1)
    method: Method = "plain"
    for one in MATRICES if value.dtype.bits == 16 else ():
        if method == "plain" and access_turns(Access(part, places, method=one), shared, shape, value.dtype) is not None:
            method = one
    vector = whole_vector(part, shared, shape, value.dtype, places) if method == "plain" else 1
    zero = state.constant(0)
    offsets = [*at, zero, zero]
    state.emit(gpu.Write, buffer=buffer, value=value, offsets=offsets, places=places, vector=vector, method=method)


def define_right_operand(state: Lowering, dot: ops.Dot, buffer: Value, slot: Value | None = None) -> None:
    """Says that it stands in a buffer, or in one of its slots."""
    rank = len(static_shape(buffer))
    state.staged[dot.b] = Staged(buffer, tuple(range(slot is not None, rank)), slot)
