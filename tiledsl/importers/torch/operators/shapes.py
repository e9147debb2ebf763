"""Views and copies: elements in another order, put together and taken apart."""

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.importers.torch.promotion import promoted
from tiledsl.importers.torch.register import aten
from tiledsl.ops.checks import as_tensor, refuse_option


@aten("view")
@aten("reshape")
@aten("_unsafe_view")
@aten("view_copy")
@aten("_reshape_copy")
@aten("_reshape_alias")
def view(x: Any, shape: Any, *_: Any) -> Any:
    return as_tensor(x).reshape(tuple(shape))


@aten("view_as")
@aten("reshape_as")
def view_as(x: Any, other: Any) -> Any:
    return as_tensor(x).reshape(as_tensor(other).shape)


@aten("flatten", "using_ints")
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return x.reshape((1,))
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape((*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@aten("unflatten", "int")
def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    x = as_tensor(x)
    at = dim % x.ndim
    parts = list(sizes)
    if -1 in parts:
        hole = parts.index(-1)
        parts[hole] = x.shape[at] // math.prod([p for i, p in enumerate(parts) if i != hole])
    return x.reshape((*x.shape[:at], *parts, *x.shape[at + 1 :]))


@aten("permute")
@aten("permute_copy")
def permute(x: Any, dims: Any) -> Any:
    x = as_tensor(x)
    return tile.transpose(x, tuple(d % x.ndim for d in dims)) if x.ndim else x


@aten("transpose", "int")
@aten("transpose_copy", "int")
@aten("swapaxes")
@aten("swapdims")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    x = as_tensor(x)
    return x.swapaxes(dim0, dim1) if x.ndim else x


@aten("t")
@aten("t_copy")
@aten("numpy_T")
def t(x: Any) -> Any:
    x = as_tensor(x)
    return x.T if x.ndim > 1 else x


@aten("mT")
@aten("adjoint")
@aten("matrix_H")
@aten("mH")
def matrix_transpose(x: Any) -> Any:
    return as_tensor(x).mT


@aten("movedim", "intlist", "int")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    x = as_tensor(x)
    sources = [s % x.ndim for s in entries_of(source)]
    places = [d % x.ndim for d in entries_of(destination)]
    rest = iter(i for i in range(x.ndim) if i not in sources)
    order = [sources[places.index(i)] if i in places else next(rest) for i in range(x.ndim)]
    return tile.transpose(x, tuple(order))


@aten("unsqueeze")
@aten("unsqueeze_copy")
def unsqueeze(x: Any, dim: int) -> Any:
    x = as_tensor(x)
    at = dim % (x.ndim + 1)
    return x.reshape((*x.shape[:at], 1, *x.shape[at:]))


@aten("squeeze", "default", "dim", "dims")
@aten("squeeze_copy", "default", "dim", "dims")
def squeeze(x: Any, dim: Any = None) -> Any:
    """Axes that are not of size 1 stay."""
    x = as_tensor(x)
    dims = range(x.ndim) if dim is None else entries_of(dim)
    dropped = {d % x.ndim for d in dims} if x.ndim else set[int]()
    return x.reshape(tuple(n for i, n in enumerate(x.shape) if i not in dropped or n != 1))


@aten("expand")
@aten("expand_copy")
def expand(x: Any, sizes: Any, *, implicit: bool = False) -> Any:
    x = as_tensor(x)
    new = len(sizes) - x.ndim
    shape = tuple(x.shape[i - new] if isinstance(n, int) and n == -1 else n for i, n in enumerate(sizes))
    return tile.broadcast_to(x, shape)


@aten("expand_as")
def expand_as(x: Any, other: Any) -> Any:
    return tile.broadcast_to(x, as_tensor(other).shape)


@aten("repeat")
@aten("tile")
def repeat(x: Any, repeats: Any) -> Any:
    """Each axis between a new one: [r, n] for the n elements r times over."""
    x = as_tensor(x)
    counts = (1,) * (x.ndim - len(repeats)) + tuple(repeats)
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    between = [n for size in shape for n in (1, size)]
    full = [n for count, size in zip(counts, shape) for n in (count, size)]
    spread = tile.broadcast_to(x.reshape(tuple(between)), tuple(full))
    return spread.reshape(tuple(count * size for count, size in zip(counts, shape)))


@aten("repeat_interleave", "self_int")
def repeat_interleave(x: Any, repeats: int, dim: Any = None, *, output_size: Any = None) -> Any:
    x = as_tensor(x)
    if dim is None:
        x, dim = x.flatten(), 0
    at = dim % x.ndim
    spread = tile.broadcast_to(
        x.reshape((*x.shape[: at + 1], 1, *x.shape[at + 1 :])), (*x.shape[: at + 1], repeats, *x.shape[at + 1 :])
    )
    return spread.reshape((*x.shape[:at], x.shape[at] * repeats, *x.shape[at + 1 :]))


@aten("slice", "Tensor")
@aten("slice_copy", "Tensor")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    x = as_tensor(x)
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@aten("narrow")
@aten("narrow_copy")
def narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    if isinstance(start, int) and start < 0:
        start = as_tensor(x).shape[dim] + start
    return slice_(x, dim, start, start + length)


@aten("select", "int")
@aten("select_copy", "int")
def select(x: Any, dim: int, index: Any) -> Any:
    x = as_tensor(x)
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@aten("unbind", "int")
@aten("unbind_copy", "int")
def unbind(x: Any, dim: int = 0) -> Any:
    return [select(x, dim, i) for i in range(as_tensor(x).shape[dim])]


@aten("cat")
@aten("concat")
@aten("concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Empty vectors among tensors of more axes are left out: that is of PyTorch's past."""
    given = promoted(*tensors)
    kept = [x for x in given if x.shape != (0,)] or given[:1]
    return tile.concat(kept, axis=dim)


@aten("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    return tile.stack(promoted(*tensors), axis=dim)


@aten("split_with_sizes")
@aten("split_with_sizes_copy")
@aten("split", "sizes")
@aten("unsafe_split_with_sizes")
def split_with_sizes(x: Any, sizes: Any, dim: int = 0) -> Any:
    return list(tile.split(x, tuple(sizes), axis=dim))


@aten("split", "Tensor")
@aten("split_copy", "Tensor")
@aten("unsafe_split", "Tensor")
def split(x: Any, size: int, dim: int = 0) -> Any:
    total = as_tensor(x).shape[dim]
    if not size:
        return [as_tensor(x)]
    parts = [size] * (total // size) + ([total % size] if total % size else [])
    return split_with_sizes(x, parts or [0], dim)


@aten("chunk")
def chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    total = as_tensor(x).shape[dim]
    return split(x, max(-(-total // chunks), 1), dim)


@aten("tensor_split", "sections")
def tensor_split(x: Any, sections: int, dim: int = 0) -> Any:
    total = as_tensor(x).shape[dim]
    return split_with_sizes(x, [total // sections + (i < total % sections) for i in range(sections)], dim)


@aten("flip")
def flip(x: Any, dims: Any) -> Any:
    x = as_tensor(x)
    for dim in dims:
        if x.ndim:
            x = x[(slice(None),) * (dim % x.ndim) + (slice(None, None, -1),)]
    return x


@aten("roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    x = as_tensor(x)
    steps, axes = entries_of(shifts), entries_of(dims)
    if not axes:
        return _rolled(x.flatten(), steps[0], 0).reshape(x.shape)
    for step, dim in zip(steps, axes):
        x = _rolled(x, step, dim % x.ndim)
    return x


def _rolled(x: Any, step: int, at: int) -> Any:
    size = x.shape[at]
    step = step % size if size else 0
    if not step:
        return x
    whole = (slice(None),) * at
    return tile.concat([x[(*whole, slice(size - step, None))], x[(*whole, slice(None, size - step))]], axis=at)


@aten("constant_pad_nd")
def constant_pad_nd(x: Any, pad: Any, value: Any = 0) -> Any:
    """`pad` has a pair for the last axis, then for the one before; negative widths take elements away."""
    x = as_tensor(x)
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    cut = tuple(slice(max(-low, 0), n - max(-high, 0)) for (low, high), n in zip(pairs, x.shape))
    if any(low < 0 or high < 0 for low, high in pairs):
        x = x[cut]
    filling = int(value) if not x.dtype.is_float else value
    return tile.pad(x, tuple((max(low, 0), max(high, 0)) for low, high in pairs), filling)


@aten("pad")
def pad(x: Any, widths: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode == "constant":
        return constant_pad_nd(x, widths, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        refuse_option("pad", "mode", mode, "constant, reflect, replicate or circular", "use one of these")
    return _padded_by(x, widths, mode)


@aten("reflection_pad1d")
@aten("reflection_pad2d")
@aten("reflection_pad3d")
def reflection_pad(x: Any, widths: Any) -> Any:
    return _padded_by(x, widths, "reflect")


@aten("replication_pad1d")
@aten("replication_pad2d")
@aten("replication_pad3d")
def replication_pad(x: Any, widths: Any) -> Any:
    return _padded_by(x, widths, "replicate")


def _padded_by(x: Any, widths: Any, mode: str) -> Any:
    """Padding with elements of the tensor itself: at coordinates that follow from those of the result."""
    x = as_tensor(x)
    for i in range(len(widths) // 2):
        at = x.ndim - 1 - i
        low, high = widths[2 * i : 2 * i + 2]
        size = x.shape[at]
        place = tile.arange(size + low + high) - low
        if mode == "reflect":
            place = tile.abs(place)
            place = tile.where(place >= size, 2 * (size - 1) - place, place)
        elif mode == "replicate":
            place = tile.clip(place, 0, size - 1)
        else:
            place = place % size
        x = tile.take(x, place, axis=at)
    return x


@aten("tril")
def tril(x: Any, diagonal: int = 0) -> Any:
    x = as_tensor(x)
    rows, columns = tile.arange(x.shape[-2])[:, None], tile.arange(x.shape[-1])
    return tile.where(columns - rows <= diagonal, x, tile.full((), 0, x.dtype))


@aten("triu")
def triu(x: Any, diagonal: int = 0) -> Any:
    x = as_tensor(x)
    rows, columns = tile.arange(x.shape[-2])[:, None], tile.arange(x.shape[-1])
    return tile.where(columns - rows >= diagonal, x, tile.full((), 0, x.dtype))


@aten("diagonal")
@aten("diagonal_copy")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    x = as_tensor(x)
    first, second = dim1 % x.ndim, dim2 % x.ndim
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    moved = tile.transpose(x, (*rest, first, second))
    rows, columns = moved.shape[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = max(offset, 0) + max(-offset, 0) * columns
    flat = moved.reshape((*moved.shape[:-2], rows * columns))
    return tile.take(flat, tile.arange(count) * (columns + 1) + start, axis=-1)


@aten("diag_embed")
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    x = as_tensor(x)
    size = x.shape[-1] + abs(offset)
    rows, columns = tile.arange(size)[:, None], tile.arange(size)
    wide = tile.pad(x, (*((0, 0),) * (x.ndim - 1), (max(-offset, 0), max(offset, 0))))
    square = tile.where(columns - rows == offset, wide[..., :, None], tile.full((), 0, x.dtype))
    first, second = dim1 % square.ndim, dim2 % square.ndim
    rest = iter(range(square.ndim - 2))
    places = {first: square.ndim - 2, second: square.ndim - 1}
    return tile.transpose(square, tuple(places[i] if i in places else next(rest) for i in range(square.ndim)))


@aten("im2col")
def im2col(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Columns of windows; an image may come without a batch."""
    x = as_tensor(x)
    whole = x if x.ndim == 4 else x[None]
    columns = ops.unfold(whole, tuple(kernel_size), tuple(dilation), _both_ends(padding), tuple(stride))
    return columns if x.ndim == 4 else columns[0]


@aten("col2im")
def col2im(x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    """Columns of windows added up; those of one image may come without a batch."""
    x = as_tensor(x)
    whole = x if x.ndim == 3 else x[None]
    sizes = tuple(output_size), tuple(kernel_size), tuple(dilation)
    image = ops.fold(whole, *sizes, _both_ends(padding), tuple(stride))
    return image if x.ndim == 3 else image[0]


def _both_ends(padding: Any) -> tuple[tuple[int, int], ...]:
    return tuple((n, n) for n in padding)


@aten("unfold")
@aten("unfold_copy")
def unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    x = as_tensor(x)
    if not x.ndim:
        return tile.broadcast_to(x[None], (size,))
    return tile.window(x, size, (dimension % x.ndim,), step)


@aten("pixel_shuffle")
def pixel_shuffle(x: Any, factor: int) -> Any:
    x = as_tensor(x)
    *lead, channels, height, width = x.shape
    parts = x.reshape((*lead, channels // factor**2, factor, factor, height, width))
    n = len(lead)
    moved = tile.transpose(parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return moved.reshape((*lead, channels // factor**2, height * factor, width * factor))


@aten("pixel_unshuffle")
def pixel_unshuffle(x: Any, factor: int) -> Any:
    x = as_tensor(x)
    *lead, channels, height, width = x.shape
    parts = x.reshape((*lead, channels, height // factor, factor, width // factor, factor))
    n = len(lead)
    moved = tile.transpose(parts, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return moved.reshape((*lead, channels * factor**2, height // factor, width // factor))


@aten("channel_shuffle")
@aten("native_channel_shuffle")
def channel_shuffle(x: Any, groups: int) -> Any:
    x = as_tensor(x)
    parts = x.reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    return parts.swapaxes(1, 2).reshape(x.shape)
