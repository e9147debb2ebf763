"""Operands of `wgmma` that threads compute: left ones stay in registers, right ones go to shared memory.

    %b = tile.cast(%codes)                      %b_registers = tile.cast(...)
    %acc = tile.dot(%a, %b, %acc)       =>      gpu.write(%b, %b_registers, ...)
                                                gpu.wgmma(%a, ..., %b, ...)

Barriers and proxy fences between these are put there by `insert-proxy-fences` and `insert-barriers`.
"""

from __future__ import annotations

from tiledsl.ir import gpu_ops as gpu
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.layouts import RegisterLayout, replicate, spatial
from tiledsl.ir.shared_layouts import Access, access_turns
from tiledsl.ir.tensor_maps import UNIT_BYTES
from tiledsl.passes.gpu.access_layouts import access_layout
from tiledsl.passes.gpu.capacities import Capacities
from tiledsl.passes.gpu.infer_layouts import access_order
from tiledsl.passes.gpu.lower_dot import batched, matrix_of
from tiledsl.passes.gpu.lowering import Lowering, Staged
from tiledsl.passes.gpu.plan import GridPlan
from tiledsl.passes.gpu.rings import operand_layout
from tiledsl.passes.gpu.select_wgmma import WarpgroupProduct, plan_product
from tiledsl.passes.gpu.shared_accesses import shared_layout, static_shape, whole_vector
from tiledsl.passes.gpu.streamed_loads import is_read_beside, source_load, sources_in_loop


def computed_layouts(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> dict[Value, RegisterLayout]:
    """In which layouts threads compute the operands of a product of what its loop loads. A left operand that something
    else reads too lies as it would in registers: rows are then folded as the result's are."""
    found: dict[Value, RegisterLayout] = {}
    if sources_in_loop(dot, is_left=True) or is_read_beside(dot.a):
        found[dot.a] = batched(plan_product(dot, capacities, grid).left, len(dot.a.shape))
    if sources_in_loop(dot, is_left=False):
        found[dot.b] = batched(_right_layout(dot, capacities, grid), len(dot.b.shape))
    return found


def _right_layout(dot: ops.Dot, capacities: Capacities, grid: GridPlan) -> RegisterLayout:
    """As the narrowest of the tiles that it is computed of is read best. Blocks of a cluster have all rows of it, and
    each its own columns where they lie side by side."""
    k, n = capacities.of(dot.b.shape[-2]), capacities.of(dot.b.shape[-1])
    bytes_ = [source.load.result.dtype.bytes for source in sources_in_loop(dot, is_left=False)]
    order = (0, 1) if _fast_axis(dot) == 1 else (1, 0)
    vector = UNIT_BYTES // min(bytes_)
    across = grid.across
    inner = access_layout((k, n // across), order, grid.threads, vector, min(bytes_))
    if across > 1:
        return spatial(1, across) * inner
    return replicate(grid.cluster, 2) * inner if grid.cluster > 1 else inner


def _fast_axis(dot: ops.Dot) -> int:
    """The axis of a computed right operand that counts fastest in shared memory: as in the tensor that it is computed
    of; where there is none, that of the columns. Elements of other than 16 bits have to count along K."""
    if dot.b.dtype.bits != 16:
        return 0
    for source in sources_in_loop(dot, is_left=False):
        axes = source.axes[-2:]
        if min(axes) >= 0:
            return axes.index(access_order(source.load)[-1]) if access_order(source.load)[-1] in axes else 1
    return 1


def stage_right_operand(state: Lowering, dot: ops.Dot, plan: WarpgroupProduct) -> None:
    """Writes a right operand that is in registers to a buffer, from which the product takes it, with 0 for what is
    beyond the end of K. Nothing where it stands in a stage."""
    if source_load(dot.b) is not None:
        return
    value = matrix_of(state, dot.b, 0)
    layout = value.layout
    sizes = list(layout.shape)
    if state.grid.across > 1:
        sizes[1] //= state.grid.across
    fast = _fast_axis(dot)
    run = plan.instruction.n if fast == 1 else 0
    shared = operand_layout(tuple(sizes), fast, value.dtype.bytes, run)
    buffer = state.buffer(sizes, value.dtype, shared, dot.b.name or "right")
    write_operand(state, buffer, value)
    state.staged[dot.b] = Staged(buffer, (0, 1))
    state.remark(dot, "its right operand is computed, and written to shared memory")


def write_operand(state: Lowering, buffer: Value, value: Value) -> None:
    """Writes a tile to a buffer: by matrices where it lies as they take it."""
    shared, shape = shared_layout(buffer), static_shape(buffer)
    part = value.layout if state.grid.cluster == 1 else value.layout.part_of_block(state.grid.cluster)
    method = "plain"
    for one in ("matrix", "matrix-transposed") if value.dtype.bits == 16 else ():
        if method == "plain" and access_turns(Access(part, (0, 1), method=one), shared, shape, value.dtype) is not None:
            method = one
    vector = whole_vector(part, shared, shape, value.dtype, (0, 1)) if method == "plain" else 1
    zeros = [state.constant(0)] * len(shape)
    state.emit(
        gpu.Write, buffer=buffer, value=value, offsets=zeros, places=(0, 1), vector=vector, method=method
    )  # fmt: skip
