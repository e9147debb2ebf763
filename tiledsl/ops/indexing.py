"""Elements at computed coordinates. Negative coordinates count from the end; outside of a tensor are zeros."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, cast

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, axis_of, refuse_option, refuse_rank, refuse_shapes, require_integers
from tiledsl.ops.masks import beside


@tile.kernel
def take(x: Any, indices: Any, axis: int = 0) -> Any:
    """The slices of `x` at `indices`, whose axes take the place of `axis`: NumPy's `take`, ONNX's `Gather`."""
    name = "ops.take"
    x, indices = as_tensor(x), as_tensor(indices)
    require_integers(name, indices)
    at = axis_of(name, x, axis)
    return tile.take(x, from_front(indices, x.shape[at]), axis=at)


@tile.kernel
def gather(x: Any, indices: Any, axis: int) -> Any:
    """y[i, j, k] = x[indices[i, j, k], j, k] for axis 0: PyTorch's `gather`, NumPy's `take_along_axis`.

    `indices` has as many axes as `x`, none of the others longer than in `x`; the result has its shape.
    Raises TileShapeError if it has not.
    """
    name = "ops.gather"
    x, indices = as_tensor(x), as_tensor(indices)
    at = axis_of(name, x, axis)
    require_alike(name, indices, x, at)
    places = [from_front(indices, x.shape[i]) if i == at else beside(indices, i) for i in range(x.ndim)]
    within = {i for i in range(x.ndim) if i != at and fits(indices.shape[i], x.shape[i])}
    return tile.take(x.reshape(-1), linear(places, x.shape, indices.shape, within), axis=0)


@tile.kernel
def gather_nd(x: Any, indices: Any, batch_axes: int = 0) -> Any:
    """x[indices[..., 0], indices[..., 1], ...]: the last axis of `indices` has a coordinate for each of some axes.

    The first `batch_axes` axes of both are the same ones; coordinates are of those that follow. The result has the
    shape of `indices` without the last axis, and then the axes of `x` that are left.
    Raises TileShapeError if there are more coordinates than axes.
    """
    name = "ops.gather_nd"
    x, indices = as_tensor(x), as_tensor(indices)
    require_integers(name, indices)
    count = indices.shape[-1] if indices.ndim else 0
    if not isinstance(count, int) or count + batch_axes > x.ndim or batch_axes >= indices.ndim:
        refuse_shapes(name, indices, x, "there are coordinates for the axes of `x`", "give at most one for each axis")
    places: list[Any] = [beside(indices[..., 0], i) for i in range(batch_axes)]
    places += [from_front(indices[..., i], x.shape[batch_axes + i]) for i in range(count)]
    within = {i for i in range(batch_axes) if fits(indices.shape[i], x.shape[i])}
    return _picked(x, places, indices.shape[:-1], within)


@tile.kernel
def index(x: Any, indices: Any) -> Any:
    """x[indices] as in NumPy and PyTorch: `indices` is a tuple with a tensor of integers or None (all of it) for each
    of the first axes. Tensors broadcast; their axes come where theirs were if these lie together, else first."""
    name = "ops.index"
    x = as_tensor(x)
    entries = cast("Sequence[Any]", indices if isinstance(indices, (tuple, list)) else (indices,))
    axes = [i for i, entry in enumerate(entries) if entry is not None]
    if len(entries) > x.ndim:
        refuse_rank(name, x, f"one with {len(entries)} axes or more", "give at most one index for each axis")
    if not axes:
        return x
    places, shape = broadcast_indices(name, x, [(i, entries[i]) for i in axes])
    rest = [i for i in range(x.ndim) if i not in axes]
    picked = _picked(x.transpose((*axes, *rest)), places, shape)
    before = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rank = len(shape)
    order = (*range(rank, rank + before), *range(rank), *range(rank + before, picked.ndim))
    return picked.transpose(order)


def broadcast_indices(
    name: str, x: Any, given: Sequence[tuple[int, Any]], *, wrapped: bool = True
) -> tuple[list[Any], Any]:
    """Coordinates of some axes of `x` under one shape, and that shape; `wrapped`: counted from the front."""
    tensors = [(axis, as_tensor(entry)) for axis, entry in given]
    for _, entry in tensors:
        require_integers(name, entry)
    places = [from_front(entry, x.shape[axis]) if wrapped else entry for axis, entry in tensors]
    total = places[0]
    for place in places[1:]:
        total = total + place
    return [tile.broadcast_to(place, total.shape) for place in places], total.shape


def _picked(x: Any, places: Sequence[Any], shape: Any, within: Collection[int] = ()) -> Any:
    """The slices of `x` at coordinates of its first axes, which broadcast to `shape`; `within` as in `linear`."""
    count = len(places)
    if not count:
        return tile.broadcast_to(x, (*shape, *x.shape))
    flat = x.reshape((math.prod(x.shape[:count]), *x.shape[count:]))
    return tile.take(flat, linear(places, x.shape[:count], shape, within), axis=0)


def linear(
    places: Sequence[Any], sizes: Sequence[Any], shape: Any, within: Collection[int] = (), outside: int = -1
) -> Any:
    """The place in row-major order of elements at these coordinates, `outside` where one of them lies there.

    `within`: the axes whose coordinates cannot lie outside.
    """
    total: Any = 0
    inside: Any = None
    for axis, (place, size) in enumerate(zip(places, sizes)):
        total = place if axis == 0 else total * size + place
        if axis not in within:
            here = (place >= 0) & (place < size)
            inside = here if inside is None else inside & here
    return tile.broadcast_to(total if inside is None else tile.where(inside, total, outside), shape)


def fits(mine: Any, theirs: Any) -> bool:
    """Whether a size is surely not above another one."""
    return mine == theirs or (isinstance(mine, int) and isinstance(theirs, int) and mine <= theirs)


def from_front(indices: Any, size: Any) -> Any:
    """Coordinates of an axis with the negative ones counted from its end."""
    given = indices.to(tile.i64)
    return tile.where(given < 0, given + size, given)


def require_alike(name: str, indices: Any, x: Any, axis: int) -> None:
    """Raises an error unless `indices` are integers with the axes of `x`, none longer but the one meant."""
    require_integers(name, indices)
    alike = indices.ndim == x.ndim
    for i, (mine, theirs) in enumerate(zip(indices.shape, x.shape)):
        longer = isinstance(mine, int) and isinstance(theirs, int) and mine > theirs
        alike = alike and not (longer and i != axis)
    if not alike:
        reason = f"but for axis {axis} no axis of the indices is longer than in the tensor"
        refuse_shapes(name, indices, x, reason, "give the indices as many axes as the tensor has")


def axis_option(name: str, parameter: str, value: Any, choices: Sequence[str]) -> None:
    """Raises TileTypeError unless a word is one of these."""
    if value not in choices:
        expected = ", ".join(f'"{choice}"' for choice in choices)
        refuse_option(name, parameter, value, expected, f'use "{choices[0]}"')
