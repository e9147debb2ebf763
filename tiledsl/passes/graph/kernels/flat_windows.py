"""Makes one axis of all positions of windows, where a product with them can read it by TMA, or packs it row by row.

    y[n, p, q, k] = sum of x[n, p + r - 1, q + s - 1, c] * w[k, r, s, c]
 =>
    y[i, k]       = sum of x[i // PQ, i // Q % P + r - 1, i % Q + s - 1, c] * w[k, r, s, c]         over rsc, one loop

So a tile of the result is of whole rows, however small an image is, and the loop is one: that of the window's places
with blocks of channels inside. TMA counts positions in just that way ("im2col"); elsewhere the axes stay apart, since
threads would have to divide for each row that they load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.gpu.async_ops import MOST_PIXEL_AXES
from tiledsl.ir.gpu.tensor_maps import CORNERS, MOST_AXES, MOST_STRIDE, PLACES, UNIT_BYTES, last_corner
from tiledsl.ir.strided_views import StridedView, reshaped, whole
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.analysis.swizzled_rows import depth_of_rows
from tiledsl.passes.gpu_machine import gpu_machine
from tiledsl.passes.graph.analysis.axes import Axis, WindowAxes
from tiledsl.passes.graph.analysis.joins import part_of
from tiledsl.passes.graph.analysis.views import can_reshape, place_of
from tiledsl.passes.graph.kernels.kernel_plan import FlatWindows, KernelPlan
from tiledsl.passes.graph.kernels.treatments import contracts_of
from tiledsl.support.location import BUILTIN

BLOCK = 64
"""Rows of an instruction: of axes that are cut up alone, so many at a time are multiplied."""
DEEP_ENOUGH, MOST_DEPTH = 128, 512
"""Of what a product sums at a time on a CPU: sums are read and written once for it; and a row of a packed operand."""
MOST_ROOM = 1.1
"""With less room than that for each row, axes may stay apart."""


def flat_windows(plan: KernelPlan, arch: str) -> KernelPlan:
    """The plan with all positions as one axis, where that can be; else the plan as it is."""
    if not arch.startswith("sm_"):
        found = _rows_on_cpu(plan)
        return plan if found is None else _flattened(plan, found)
    found = None
    if gpu_machine(arch, BUILTIN).has_warpgroups:
        found = _found(plan) if plan.axes.windows else _rows_apart(plan)
    found = found or _rows_together(plan)
    return plan if found is None else _flattened(plan, found)


def _found(plan: KernelPlan) -> FlatWindows | None:
    axes, function = plan.axes, plan.outlined.function
    contracts = contracts_of(function)
    if len(contracts) != 1:
        return None
    (contract,) = contracts
    exact = (contract.exact_a, contract.exact_b)  # of planes
    read = [windows for windows in axes.windows if windows.result not in exact]
    if len(read) != 1 or len(axes.windows) > 1 + (contract.precision == "planes"):
        return None
    (windows,), planes = read, axes.planes
    slid, pad = axes.windows[windows], windows.source.op
    weights = contract.b if contract.a is windows.result else contract.a
    while isinstance(weights.op, ops.Transpose):
        weights = weights.op.source
    both = windows.result in (contract.a, contract.b)
    if not both or weights.op is not None or not isinstance(pad, ops.Pad) or pad.value or None in slid.positions:
        return None
    image, dtype = pad.source, tensor_type(windows.result).dtype
    summed, reduced = axes.kept[weights], axes.reduced[contract]
    kept = tuple(axis for axis in axes.kept[image] if axis not in planes)
    beside = [axis for axis in kept if axis not in slid.slid and axis not in reduced]
    channels = [axis for axis in kept if axis in reduced]
    groups = [axis for axis in beside if axis in summed]
    pixels = [axis for axis in kept if axis not in reduced and axis not in groups]
    rows = [position for axis in pixels if (position := _position(slid, axis)) is not None]
    if max(len(channels), len(groups)) > 1 or not channels or dtype.bits != 16 or not dtype.is_float:
        return None
    images = bool(pixels) and pixels[0] not in slid.slid
    inner = tuple(axis for axis in slid.inner if axis is not None)
    together = planes and len(summed) > MOST_AXES
    if not 1 <= len(pixels) - images <= MOST_PIXEL_AXES or len(summed) - (len(inner) - 1) * bool(together) > MOST_AXES:
        return None
    if together and summed[2:] != (*inner, *channels):
        return None  # the weights' places do not lie behind each other
    columns = [axis for axis in summed if axis not in reduced and axis not in groups and axis not in planes]
    is_product = len(columns) == 1 and set(reduced) == {*channels, *inner} and set(reduced) <= set(summed)
    is_product = is_product and set(axes.kept[contract.result]) == {*rows, *groups, *columns}
    is_product = is_product and set(plan.treatments.streamed) == set(reduced) and plan.treatments.whole <= planes
    if not is_product:
        return None
    depth = depth_of_rows(channels[0].size, dtype.bytes)
    if groups and channels[0].size % depth:
        return None  # a block would see channels of the next group
    first = () if images else (Axis(1, "n"),)
    ways = [(*first, *rows)]
    if images and len(rows) > 1 and rows[0] in plan.treatments.single:
        ways.append(tuple(rows[1:]))  # images are not one behind the other in what is stored
    for way in ways:
        flat = FlatWindows(image, Axis(math.prod(axis.size for axis in way), "i"), way, inner, channels[0], depth)
        flat = replace(flat, counts_images=way is ways[0])
        if groups:
            every = Axis(groups[0].size * channels[0].size, "c")
            flat = replace(flat, group=groups[0], all_channels=every)
        if planes:
            mine = next(axis for axis in axes.kept[image] if axis in planes)
            every = Axis(mine.size * (pixels[0].size if images else 1), "n")
            places = Axis(math.prod(axis.size for axis in inner), "r") if together else None
            flat = replace(flat, planes=mine, images=pixels[0] if images else None, all_images=every, places=places)
            flat = replace(flat, weights=weights)
        apart = _apart(plan, flat, weights)
        if apart is not None and _fits_maps(plan, windows, len(pixels) + (not images) + 1):
            return replace(flat, apart=apart)
    return None


def _position(slid: WindowAxes, axis: Axis) -> Axis | None:
    """The axis of positions along an axis of pixels; of one over which no window slides, itself."""
    return slid.positions[slid.slid.index(axis)] if axis in slid.slid else axis


def _rows_apart(plan: KernelPlan) -> FlatWindows | None:
    """The same of a product whose left operand has rows along several axes that strides cannot tell as one, such as
    every other pixel of an image: windows of one pixel."""
    axes, contracts = plan.axes, contracts_of(plan.outlined.function)
    if len(contracts) != 1 or plan.treatments.whole:
        return None
    (contract,) = contracts
    reduced = axes.reduced[contract]
    for image, weights in ((contract.a, contract.b), (contract.b, contract.a)):
        rows, columns = ([a for a in axes.kept[value] if a not in reduced] for value in (image, weights))
        dtype = tensor_type(image).dtype
        several = 2 <= len(rows) <= 1 + MOST_PIXEL_AXES and len(columns) == len(reduced) == 1 and columns[0] not in rows
        operands = image.op is None and weights.op is None and len(image.users) == 1
        operands = operands and dtype.bits == 16 and dtype.is_float
        if not (several and operands and set(axes.kept[contract.result]) == {*rows, *columns}):
            continue
        if set(plan.treatments.streamed) != set(reduced) or _fills_blocks(rows):
            continue
        joined = Axis(math.prod(axis.size for axis in rows), "i")
        depth = depth_of_rows(reduced[0].size, dtype.bytes)
        flat = FlatWindows(image, joined, tuple(rows), (), reduced[0], depth)
        apart = _apart(plan, flat, weights)
        if apart is not None:
            return replace(flat, apart=apart)
    return None


def _rows_on_cpu(plan: KernelPlan) -> FlatWindows | None:
    """The same of a product on a CPU whose left operand has rows along several axes that strides cannot tell as one,
    such as a view of windows: its rows are packed, one by one, in any case."""
    axes, contracts = plan.axes, contracts_of(plan.outlined.function)
    if len(contracts) != 1 or plan.treatments.whole or axes.windows or axes.indexed:
        return None
    (contract,) = contracts
    reduced = axes.reduced[contract]
    if set(plan.treatments.streamed) != set(reduced) or len(reduced) < 2:  # of places and channels
        return None
    for image, weights in ((contract.a, contract.b), (contract.b, contract.a)):
        free, other = ([a for a in axes.kept[value] if a not in reduced] for value in (image, weights))
        rows, columns = ([a for a in some if a not in free or a not in other] for some in (free, other))
        while isinstance(image.op, ops.Transpose):
            image = image.op.source
        from_memory = image.op is None and len(image.users) == 1
        if not from_memory or len(columns) != 1 or set(axes.kept[contract.result]) != {*free, *other}:
            continue
        for way in (rows, rows[1:]):  # of all images, or of one where the result has something else between them
            if len(way) < 2 or (way is not rows and rows[0] not in plan.treatments.single):
                continue
            joined = Axis(math.prod(axis.size for axis in way), "i")
            flat = _of_onedepth_of_rows(
                plan, contract, weights, FlatWindows(None, joined, tuple(way), rows_are_numbers=True)
            )
            apart = _apart(plan, flat, weights)
            if apart is not None and set(apart) == {image}:
                return replace(flat, apart=apart)
    return None


def _of_onedepth_of_rows(plan: KernelPlan, contract: ops.Contract, weights: Value, flat: FlatWindows) -> FlatWindows:
    """The same with as many of the last axes that are summed as one as make a product deep enough, where the weights
    have them behind each other."""
    kept = plan.axes.kept[weights]
    reduced = [axis for axis in kept if axis in plan.axes.reduced[contract]]
    place = dict(_held(plan)).get(weights)
    count = len(reduced)
    while count and math.prod(axis.size for axis in reduced[-count:]) > MOST_DEPTH:
        count -= 1
    together = tuple(reduced[len(reduced) - count :])
    if count < 2 or reduced[-1].size >= DEEP_ENOUGH or place is None or kept[-count:] != together:
        return flat
    depth = Axis(math.prod(axis.size for axis in together), "k")
    if not can_reshape(place, tuple(axis.size for axis in (*kept[:-count], depth))):
        return flat
    return replace(flat, together=together, depth_axis=depth, weights=weights)


def _rows_together(plan: KernelPlan) -> FlatWindows | None:
    """The same of a matrix whose rows lie behind each other, of which several axes are apart in what is made of the
    product, such as pixels that take turns with others."""
    axes, contracts = plan.axes, contracts_of(plan.outlined.function)
    if len(contracts) != 1 or plan.treatments.whole or axes.windows or axes.indexed:
        return None
    (contract,) = contracts
    result = axes.kept[contract.result]
    places = dict(_held(plan))
    for matrix, other in ((contract.a, contract.b), (contract.b, contract.a)):
        while isinstance(matrix.op, (ops.Transpose, ops.Reshape)):  # by axes of one element, in a group
            matrix = matrix.op.source
        kept, place = axes.kept[matrix], places.get(matrix)
        rows = tuple(axis for axis in kept if axis in result and axis not in axes.kept[other])
        at = kept.index(rows[0]) if rows else 0
        if len(rows) < 2 or place is None or kept[at : at + len(rows)] != rows or _fills_blocks(rows):
            continue
        joined = Axis(math.prod(axis.size for axis in rows), "i")
        if not can_reshape(place, tuple(a.size for a in (*kept[:at], joined, *kept[at + len(rows) :]))):
            continue
        flat = FlatWindows(None, joined, rows)
        apart = _apart(plan, flat, other)
        if apart is not None and matrix not in apart:
            return replace(flat, apart=apart)
    return None


def _fills_blocks(rows: Sequence[Axis]) -> bool:
    """Whether the last of some axes may as well be cut up alone."""
    return -(-rows[-1].size // BLOCK) * BLOCK < MOST_ROOM * rows[-1].size


def _exact_image(plan: KernelPlan) -> Value | None:
    """What the planes are made of whose windows a product reads: it is read at the coordinates of each row."""
    for windows in plan.axes.windows:
        pad = windows.source.op
        users = [user for user in windows.result.users if isinstance(user, ops.Contract)]
        if isinstance(pad, ops.Pad) and any(windows.result in (op.exact_a, op.exact_b) for op in users):
            return pad.source
    return None


def _image_axes(plan: KernelPlan, flat: FlatWindows) -> tuple[Axis, ...]:
    """Those that the image is passed with: images, pixels and channels, each there and one."""
    assert flat.image is not None
    kept = list(plan.axes.kept[flat.image])
    if flat.group is not None and flat.all_channels is not None:
        kept[kept.index(flat.group)] = flat.all_channels
        assert flat.channels is not None
        kept.remove(flat.channels)
    if flat.all_images is not None:
        return (flat.all_images, *(axis for axis in kept if axis not in (flat.planes, flat.images)))
    return (flat.rows[0], *kept) if flat.rows[0].size == 1 else tuple(kept)


def _apart(plan: KernelPlan, flat: FlatWindows, weights: Value) -> frozenset[Value] | None:
    """The values whose rows strides cannot tell as one; None where TMA does not find the operands in memory, or rows
    are there in part."""
    rows = tuple(axis for axis in flat.rows if axis.size > 1)
    found: set[Value] = set()
    exact = _exact_image(plan)
    for value, place in _held(plan):
        kept = plan.axes.kept[value]
        if place is None:
            return None
        if value is flat.image:
            passed = _image_axes(plan, flat)
            seen = reshaped(place, tuple(axis.size for axis in passed))
            if seen is None or seen.unit is None or passed[seen.unit] not in (flat.channels, flat.all_channels):
                return None
        if flat.image is not None and value in (flat.image, weights):
            wide = tensor_type(value).dtype.bytes
            steps = [step * wide for step, size in zip(place.strides, place.shape) if step != 1 and size != 1]
            if place.unit is None or any(step % UNIT_BYTES for step in steps):
                return None
        elif value is not exact and any(axis in kept for axis in rows):
            at = kept.index(rows[0]) if rows[0] in kept else 0
            shape = tuple(axis.size for axis in (*kept[:at], flat.joined, *kept[at + len(rows) :]))
            if kept[at : at + len(rows)] != rows:
                return None
            if not can_reshape(place, shape):
                found.add(value)
    return frozenset(found)


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


def _fits_maps(plan: KernelPlan, windows: ops.Window, rank: int) -> bool:
    """Whether TMA knows windows that begin there, lie so far apart, and have places so far within them."""
    slid, pad = plan.axes.windows[windows], windows.source.op
    assert isinstance(pad, ops.Pad)
    for number, axis in enumerate(slid.slid):
        position, inner = slid.positions[number], slid.inner[number]
        if axis is None or position is None:
            return False
        before, stride = pad.low[windows.axes[number]], windows.strides[number]
        if not isinstance(before, int):
            return False
        low = -before
        last = last_corner(axis.size, position.size, stride, low)
        within = (inner.size - 1) * abs(windows.dilations[number]) if inner is not None else 0
        corners = all(-CORNERS[rank] <= corner < CORNERS[rank] for corner in (low, last))
        if not corners or within >= PLACES[rank] or stride > MOST_STRIDE:
            return False
    return True


def _flattened(plan: KernelPlan, flat: FlatWindows) -> KernelPlan:
    axes, treatments = plan.axes, plan.treatments

    def of(kept: tuple[Axis, ...]) -> tuple[Axis, ...]:
        first = next((axis for axis in kept if axis in flat.rows), None)
        return tuple(
            flat.joined if axis is first else axis for axis in kept if axis is first or axis not in flat.rows
        )  # fmt: skip

    as_they_are = {*flat.apart, _exact_image(plan)}
    kept = {value: here if value in as_they_are else of(here) for value, here in axes.kept.items()}
    if flat.image is not None:
        kept[flat.image] = _image_axes(plan, flat)
    if flat.places is not None and flat.weights is not None:
        of_weights = axes.kept[flat.weights]
        kept[flat.weights] = (*of_weights[:2], flat.places, *of_weights[-1:])
    if flat.depth_axis is not None and flat.weights is not None:
        of_weights = axes.kept[flat.weights]
        kept[flat.weights] = (*of_weights[: -len(flat.together)], flat.depth_axis)
    grid = of(treatments.grid)
    single = treatments.single - set(flat.rows)
    grid = (*(axis for axis in grid if axis in single), *(axis for axis in grid if axis not in single))
    return replace(
        plan,
        axes=replace(axes, kept=kept),
        treatments=replace(treatments, grid=grid, single=single),
        flat=flat,
    )
