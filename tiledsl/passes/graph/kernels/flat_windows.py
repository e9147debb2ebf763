"""Makes one axis of all positions of windows, where a product with them can read it by TMA.

    y[n, p, q, k] = sum of x[n, p + r - 1, q + s - 1, c] * w[k, r, s, c]
 =>
    y[i, k]       = sum of x[i // PQ, i // Q % P + r - 1, i % Q + s - 1, c] * w[k, r, s, c]         over rsc, one loop

So a tile of the result is of whole rows, however small an image is, and the loop is one: that of the window's places
with blocks of channels inside. TMA counts positions in just that way ("im2col"); elsewhere the axes stay apart, since
threads would have to divide for each row that they load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu.async_ops import MOST_PIXEL_AXES
from tiledsl.ir.gpu.tensor_maps import CORNERS, MOST_AXES, MOST_STRIDE, PLACES, UNIT_BYTES, last_corner
from tiledsl.ir.strided_views import StridedView, whole
from tiledsl.ir.tile_ops import tensor_type
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.analysis.axes import Axis, GroupAxes
from tiledsl.passes.graph.analysis.joins import part_of
from tiledsl.passes.graph.analysis.views import can_reshape, place_of
from tiledsl.passes.graph.kernels.kernel_plan import FlatWindows, KernelPlan
from tiledsl.passes.graph.kernels.treatments import contracts_of
from tiledsl.support.location import BUILTIN

ROW_BYTES = (128, 64, 32)
"""Of a block of channels: rows of a swizzle that tensor cores read."""


def flat_windows(plan: KernelPlan, arch: str) -> KernelPlan:
    """The plan with all positions as one axis, where that can be; else the plan as it is."""
    if not arch.startswith("sm_") or not plan.axes.windows or not gpu_machine(arch, BUILTIN).has_warpgroups:
        return plan
    found = _found(plan)
    return plan if found is None else _flattened(plan, found)


@dataclass(frozen=True)
class _Product:
    """A product with windows: the image, what is multiplied with the windows, and the axes of positions."""

    windows: ops.Window
    image: Value
    weights: Value
    flat: FlatWindows


def _found(plan: KernelPlan) -> _Product | None:
    axes, function = plan.axes, plan.outlined.function
    contracts = contracts_of(function)
    if len(axes.windows) != 1 or len(contracts) != 1:
        return None
    ((windows, slid),), (contract,) = axes.windows.items(), contracts
    pad = windows.source.op
    weights = contract.b if contract.a is windows.result else contract.a
    while isinstance(weights.op, ops.Transpose):
        weights = weights.op.source
    both = windows.result in (contract.a, contract.b)
    if not both or weights.op is not None or not isinstance(pad, ops.Pad) or pad.value or None in slid.positions:
        return None
    image, dtype = pad.source, tensor_type(windows.result).dtype
    kept = axes.kept[image]
    order = [axis for axis in kept if axis in slid.slid]
    others = [axis for axis in kept if axis not in slid.slid]
    summed, reduced = axes.kept[weights], axes.reduced[contract]
    channels = next((axis for axis in others if axis in reduced), None)
    if channels is None or len(others) != 2 or not 1 <= len(order) <= MOST_PIXEL_AXES or len(summed) > MOST_AXES:
        return None
    (images,) = (axis for axis in others if axis is not channels)
    positions = [position for axis in order for position in [slid.positions[slid.slid.index(axis)]] if position]
    inner = [axis for axis in slid.inner if axis is not None]
    columns = [axis for axis in summed if axis not in reduced]
    rows = [images, *positions]
    is_product = len(columns) == 1 and set(reduced) == {channels, *inner} and set(reduced) <= set(summed)
    is_product = is_product and set(axes.kept[contract.result]) == {*rows, *columns}
    is_product = is_product and set(plan.treatments.streamed) == set(reduced) and not plan.treatments.whole
    if not is_product or dtype.bits != 16 or not dtype.is_float:
        return None
    depth = _depth(channels.size, dtype.bytes)
    flat = FlatWindows(Axis(math.prod(axis.size for axis in rows), "i"), tuple(rows), tuple(inner), channels, depth)
    product = _Product(windows, image, weights, flat)
    return product if _fits_memory(plan, product) and _fits_maps(plan, product) else None


def _depth(channels: int, width: int) -> int:
    """Channels of a block: the most of which the least is beyond the last one."""
    sizes = [row // width for row in ROW_BYTES]
    return min(sizes, key=lambda size: (-(-channels // size) * size, -size))


def _fits_memory(plan: KernelPlan, product: _Product) -> bool:
    """Whether strides can tell the rows of whatever has them, and TMA finds the operands."""
    rows = product.flat.rows
    for value, place in _held(plan):
        kept = plan.axes.kept[value]
        if value is product.image or value is product.weights:
            wide = tensor_type(value).dtype.bytes
            if place is None or place.unit is None or any(
                step * wide % UNIT_BYTES for step, size in zip(place.strides, place.shape) if step != 1 and size != 1
            ):  # fmt: skip
                return False
            if value is product.image and kept[place.unit] is not product.flat.channels:
                return False
            continue
        if not any(axis in kept for axis in rows):
            continue
        at = kept.index(rows[0]) if rows[0] in kept else 0
        if kept[at : at + len(rows)] != rows:
            return False
        shape = tuple(axis.size for axis in (*kept[:at], product.flat.joined, *kept[at + len(rows) :]))
        if place is None or not can_reshape(place, shape):
            return False
    return True


def _held(plan: KernelPlan) -> Iterator[tuple[Value, StridedView | None]]:
    """The tensors of a group, and where their elements are."""
    outlined = plan.outlined
    for value, given in zip(outlined.function.parameters, outlined.inputs):
        yield value, place_of(given, tuple(axis.size for axis in plan.axes.kept[value]))
    last = outlined.function.body.terminator
    assert last is not None
    for value, output in zip(last.operands, outlined.outputs):
        part = part_of(output)
        shape = tuple(axis.size for axis in plan.axes.kept[value])
        yield value, whole(shape) if part is None else part.place


def _fits_maps(plan: KernelPlan, product: _Product) -> bool:
    """Whether TMA knows windows that begin there, lie so far apart, and have places so far within them."""
    windows, slid = product.windows, plan.axes.windows[product.windows]
    pad = windows.source.op
    assert isinstance(pad, ops.Pad)
    rank = len(plan.axes.kept[product.image])
    for number, axis in enumerate(slid.slid):
        position, inner = slid.positions[number], slid.inner[number]
        if axis is None or position is None:
            return False
        before, stride = pad.low[windows.axes[number]], windows.strides[number]
        if not isinstance(before, int):
            return False
        low = -before
        last = last_corner(axis.size, position.size, stride, low)
        within = (inner.size - 1) * windows.dilations[number] if inner is not None else 0
        corners = all(-CORNERS[rank] <= corner < CORNERS[rank] for corner in (low, last))
        if not corners or within >= PLACES[rank] or stride > MOST_STRIDE:
            return False
    return True


def _flattened(plan: KernelPlan, product: _Product) -> KernelPlan:
    flat, axes, treatments = product.flat, plan.axes, plan.treatments

    def of(kept: tuple[Axis, ...]) -> tuple[Axis, ...]:
        first = next((axis for axis in kept if axis in flat.rows), None)
        return tuple(
            flat.joined if axis is first else axis for axis in kept if axis is first or axis not in flat.rows
        )  # fmt: skip

    kept = {value: here if value is product.image else of(here) for value, here in axes.kept.items()}
    grid = of(treatments.grid)
    single = treatments.single - set(flat.rows)
    grid = (*(axis for axis in grid if axis in single), *(axis for axis in grid if axis not in single))
    return replace(
        plan,
        axes=GroupAxes(kept, axes.reduced, axes.indexed, axes.windows),
        treatments=replace(treatments, grid=grid, single=single),
        flat=flat,
    )
