"""Transposed convolutions: each element of an image adds the weights, times itself, to the result.

With a stride of s, element q * s + r of the result sees the weights r, r + s, r + 2 * s ... alone. So it is a
convolution without a stride for each residue r, whose results take turns: nothing is multiplied with zeros between
elements, and there is no condition.

    y[2 q]     = w[0] x[q] + w[2] x[q - 1]        two weights: a convolution
    y[2 q + 1] = w[1] x[q]                        one weight: another

Where there would be many of them, an axis has one convolution with s times the channels, which are put beside each
other afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_option, refuse_rank, refuse_shapes, require_float
from tiledsl.ops.images.axes import image_axes, is_channels_first, padded, padding_of, per_axis
from tiledsl.ops.images.convolution import checked_groups, in_groups, out_of_groups, with_bias

MOST_APART = 8
"""So many convolutions at most: each is a kernel. Other residues are columns of one."""


@tile.kernel
def conv_transpose1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """`conv_transpose2d` of one axis: `x` is [N, C, W], `weight` [C, K / groups, R]; of `layout="NWC"` [N, W, C] and
    [C, R, K / groups]."""
    name = "ops.conv_transpose1d"
    return _transposed(name, 1, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


@tile.kernel
def conv_transpose2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """y[n, k, h * stride + r * dilation - padding, ...] += x[n, c, h, w] * weight[c, k, r, s], and bias[k].

    `x` is [N, C, H, W], `weight` [C, K / groups, R, S], the result [N, K, P, Q] with P = (H - 1) * stride + dilation *
    (R - 1) + 1 - padding + output_padding. `layout="NHWC"`: [N, H, W, C], [C, R, S, K / groups] and [N, P, Q, K].
    `bias` is [K]. `padding` is taken away from the result (a negative one adds zeros): an int, a pair, or two pairs
    (before, after); `output_padding` is more of the result at its end. All floats of one dtype; summed in f32 for
    narrow floats and rounded once. Raises TileShapeError if sizes do not fit.
    """
    name = "ops.conv_transpose2d"
    return _transposed(name, 2, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


@tile.kernel
def conv_transpose3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Any = 1,
    dilation: Any = 1, *, layout: Any = None,
) -> Any:  # fmt: skip
    """`conv_transpose2d` of three axes: `x` is [N, C, D, H, W], `weight` [C, K / groups, T, R, S]; of
    `layout="NDHWC"` [N, D, H, W, C] and [C, T, R, S, K / groups]."""
    name = "ops.conv_transpose3d"
    return _transposed(name, 3, x, weight, bias, stride, padding, output_padding, groups, dilation, layout)


def _transposed(
    name: str, rank: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: Any,
    dilation: Any, layout: Any,
) -> Any:  # fmt: skip
    x, weight = as_tensor(x), as_tensor(weight)
    first = is_channels_first(name, layout, rank)
    lies = not first
    axes = image_axes(name, x, layout, rank)
    require_float(name, x)
    if weight.ndim != rank + 2:
        sizes = {1: "R", 2: "R, S", 3: "T, R, S"}[rank]
        expected = f"[C, K / groups, {sizes}]" if first else f"[C, {sizes}, K / groups]"
        refuse_rank(name, weight, expected, f"give a weight of rank {rank + 2}")
    if first:
        weight = weight.transpose((0, *range(2, rank + 2), 1))
    channels = x.shape[1 if first else -1]
    groups = checked_groups(name, groups, channels, "input")
    if channels != weight.shape[0]:
        reason = f"{channels} channels are not the {weight.shape[0]} of the weight"
        refuse_shapes(name, x, weight, reason, "the weight has the channels of `x` on its first axis")
    steps = per_axis(name, "stride", stride, 1, rank)
    dilations = per_axis(name, "dilation", dilation, 1, rank)
    extra = per_axis(name, "output_padding", output_padding, 0, rank)
    image = [x.shape[axis] for axis in axes]
    sizes = weight.shape[1:-1]
    cuts = padding_of(name, padding, image, sizes, steps, dilations, least=None)
    places = [_Axis(*each) for each in zip(image, sizes, steps, dilations, cuts, extra)]
    if any(isinstance(place.length, int) and place.length < 1 for place in places):
        refuse_option(name, "padding", padding, "less than the whole result", "take less of it away")
    turned = first and math.prod(steps) != 1  # so that what takes turns lies side by side
    if turned:
        x, first, axes = x.transpose((0, *axes, 1)), False, tuple(range(1, rank + 1))
    if groups > 1:
        x = in_groups(x, groups, first)
        weight = weight.reshape((groups, channels // groups, *weight.shape[1:]))
        axes = tuple(axis + first for axis in axes)
    weight = weight.transpose((*range(weight.ndim - rank - 2), *range(weight.ndim - rank - 1, weight.ndim - 1),
                               weight.ndim - rank - 2, weight.ndim - 1))  # fmt: skip
    y = _whole(_Product(name, x, weight, bias, places, axes, groups, first, tuple(_axes_apart(places)), lies))
    y = out_of_groups(y, groups, first)
    return y.transpose((0, rank + 1, *range(1, rank + 1))) if turned else y


@dataclass(frozen=True)
class _Taps:
    """The weights that some elements of the result see, which lie at so many `positions`: every `step`-th from `first`
    on. At position 0 the last of them meets element -`back` of the image, each other one `spread` behind the next.
    """

    first: int
    step: int
    count: int
    back: int
    spread: int
    positions: Any


@dataclass(frozen=True)
class _Axis:
    """One axis of a transposed convolution."""

    image: Any
    size: int
    stride: int
    dilation: int
    cut: tuple[Any, Any]
    extra: int

    @property
    def extent(self) -> int:
        """Of the weights, with the holes of a dilation."""
        return self.dilation * (self.size - 1) + 1

    @property
    def length(self) -> Any:
        """Of the result."""
        return (self.image - 1) * self.stride + self.extent - sum(self.cut) + self.extra

    @property
    def begins(self) -> Any:
        """The position, of `stride` elements each, in which the result begins."""
        return self.cut[0] // self.stride

    @property
    def positions(self) -> Any:
        """In how many it lies."""
        return (self.cut[0] + self.length - 1) // self.stride - self.begins + 1

    def of_residue(self, residue: int) -> _Taps | None:
        """The weights of every `stride`-th element of the result from `residue` on; None if there are none."""
        common = math.gcd(self.stride, self.dilation)
        step = self.stride // common
        place = self.cut[0] + residue
        found = [tap for tap in range(min(step, self.size)) if (place - tap * self.dilation) % self.stride == 0]
        if not found:
            return None
        count, spread = -(-(self.size - found[0]) // step), self.dilation // common
        back = (found[0] * self.dilation - place) // self.stride + (count - 1) * spread
        return _Taps(found[0], step, count, back, spread, self.elements(residue))

    def elements(self, residue: int) -> Any:
        """Every `stride`-th of the result from `residue` on."""
        return (self.length - 1 - residue) // self.stride + 1

    def of_all(self) -> _Taps:
        """Those of all residues, with zeros where one has fewer. Without a stride holes stay: the window has them."""
        if self.stride == 1:
            return _Taps(0, 1, self.size, (self.size - 1) * self.dilation - self.begins, self.dilation, self.positions)
        count = -(-self.extent // self.stride)
        return _Taps(0, 1, count, count - 1 - self.begins, 1, self.positions)


def _axes_apart(places: Sequence[_Axis]) -> list[int]:
    """The axes of which each residue has a convolution of its own."""
    found: list[int] = []
    for n in sorted(range(len(places)), key=lambda n: places[n].stride):
        if 1 < places[n].stride <= MOST_APART // math.prod(places[a].stride for a in found):
            found.append(n)
    return sorted(found)


@dataclass(frozen=True)
class _Product:
    """Of an image with weights [groups, R, S, C, K]; `axes` are the image's, `apart` those of which each residue has a
    convolution of its own."""

    name: str
    image: Any
    weight: Any
    bias: Any
    places: Sequence[_Axis]
    axes: tuple[int, ...]
    groups: int
    first: bool
    apart: tuple[int, ...]
    lies: bool = False
    """Whether the columns of the weights lie side by side, as products want them."""

    @property
    def taps_at(self) -> int:
        """The first axis of taps in the weights."""
        return 1 if self.groups > 1 else 0

    @property
    def together(self) -> list[int]:
        """The axes whose residues are columns of one convolution."""
        return [n for n, place in enumerate(self.places) if place.stride > 1 and n not in self.apart]

    @property
    def residues(self) -> int:
        """How many of them are columns."""
        return math.prod(self.places[n].stride for n in self.together)

    @property
    def turned(self) -> bool:
        """Whether the order of the weights is turned: not where each element of the result sees one of them. Those that
        have to be copied anyway are turned on the way."""
        return (
            not self.lies
            or bool(self.together)
            or any(place.size > place.stride // math.gcd(place.stride, place.dilation) for place in self.places)
        )

    def windows(self, taps: Sequence[_Taps]) -> Any:
        widths: list[tuple[Any, Any]] = []
        for place, tap in zip(self.places, taps):
            widths.append((tap.back, tap.positions + (tap.count - 1) * tap.spread - place.image - tap.back))
        image = padded(self.image, self.axes, tuple(widths), 0)
        return tile.window(image, tuple(t.count for t in taps), self.axes, 1, tuple(t.spread for t in taps))

    def form(self) -> str:
        """The product, by axes: "n c p q r s, r s c k -> n k p q" of images with channels first."""
        rank, group = len(self.axes), "g " if self.groups > 1 else ""
        positions, within = " ".join("pqo"[:rank]), " ".join("rst"[:rank])
        if self.first:
            return f"n {group}c {positions} {within}, {group}{within} c k -> n {group}k {positions}"
        return f"n {positions} {group}c {within}, {group}{within} c k -> n {positions} {group}k"


def _whole(made: _Product) -> Any:
    """The result, with channels in groups."""
    weight = _laid(made)
    return _in_order(made, _in_turns(made, weight, [None] * len(made.places), list(made.apart)))


def _in_turns(made: _Product, weight: Any, residues: Sequence[int | None], left: list[int]) -> Any:
    """What some residues of some axes give, and all of those that are left."""
    if not left:
        return _part(made, weight, residues)
    axis, place = left[0], made.places[left[0]]
    count = min(place.stride, place.length) if isinstance(place.length, int) else place.stride
    parts = [
        _in_turns(made, weight, [residue if n == axis else old for n, old in enumerate(residues)], left[1:])
        for residue in range(count)
    ]
    return tile.interleave(parts, made.axes[axis])


def _part(made: _Product, weight: Any, residues: Sequence[int | None]) -> Any:
    """The product for some residues, with the bias, in the dtype of the image."""
    pairs = list(zip(made.places, residues))
    taps = [place.of_all() if residue is None else place.of_residue(residue) for place, residue in pairs]
    found = [tap for tap in taps if tap is not None]
    if len(found) == len(taps):
        kept: list[Any] = [slice(None)] * weight.ndim
        for n, tap in enumerate(found):
            if n in made.apart:  # the last tap is the first
                start = made.places[n].size - 1 - tap.first - (tap.count - 1) * tap.step if made.turned else tap.first
                kept[made.taps_at + n] = slice(start, start + (tap.count - 1) * tap.step + 1, tap.step)
        y = tile.einsum(made.form(), made.windows(found), weight[tuple(kept)])
    else:
        sizes = [place.positions if residue is None else place.elements(residue) for place, residue in pairs]
        groups = (made.groups,) if made.groups > 1 else ()
        dtype = made.image.dtype if made.bias is None or made.image.dtype == tile.f64 else tile.f32
        y = tile.zeros((made.image.shape[0], *sizes, *groups, weight.shape[-1]), dtype)
    bias = made.bias
    if bias is not None and made.residues > 1:
        bias = as_tensor(bias)
        parts = (made.groups, 1, bias.shape[0] // made.groups)
        bias = tile.broadcast_to(bias.reshape(parts), (parts[0], made.residues, parts[2])).reshape((-1,))
    return with_bias(made.name, y, bias, made.weight, made.groups, made.first).to(made.image.dtype)


def _laid(made: _Product) -> Any:
    """The weights with the last tap first, or as they are if that is no other order. Residues that have one convolution
    are in front of the columns, a part of them."""
    weight, at = made.weight, made.taps_at
    if not made.turned:
        return weight
    rank = len(made.places)
    if not made.together:  # all taps backwards are those of each axis backwards
        shape = weight.shape
        merged = weight.reshape((*shape[:at], math.prod(shape[at : at + rank]), *shape[-2:]))
        return merged[(*(slice(None),) * at, slice(None, None, -1))].reshape(shape)
    taps: list[int] = []
    residues: list[int] = []
    for n, place in enumerate(made.places):
        taps.append(at)
        if n in made.together:
            weight = _with_holes(weight, at, place.dilation)
            shape = weight.shape
            count = -(-place.extent // place.stride)
            weight = tile.pad(weight, _at_end(weight.ndim, at, count * place.stride - place.extent))
            weight = weight.reshape((*shape[:at], count, place.stride, *shape[at + 1 :]))
            at += 1
            residues.append(at)
        at += 1
    weight = weight[tuple(slice(None, None, -1) if axis in taps else slice(None) for axis in range(weight.ndim))]
    weight = weight.transpose((*range(made.taps_at), *taps, weight.ndim - 2, *residues, weight.ndim - 1))
    kept = made.taps_at + rank + 1
    return weight.reshape((*weight.shape[:kept], math.prod(weight.shape[kept:])))


def _in_order(made: _Product, y: Any) -> Any:
    """Each residue that is a part of a column beside its position, and of all these the result's."""
    if not made.together:
        return y
    strides = tuple(made.places[n].stride for n in made.together)
    at = y.ndim - 1
    y = y.reshape((*y.shape[:at], *strides, y.shape[at] // math.prod(strides)))
    permutation: list[int] = []
    merged: list[Any] = []
    kept: list[Any] = []
    for axis in (*range(at), y.ndim - 1):
        n = made.axes.index(axis) if axis in made.axes else None
        permutation.append(axis)
        merged.append(y.shape[axis])
        kept.append(slice(None))
        if n in made.together:
            place = made.places[n]
            permutation.append(at + made.together.index(n))
            merged[-1] *= place.stride
            begin = place.cut[0] % place.stride
            kept[-1] = slice(begin, begin + place.length)
    return y.transpose(tuple(permutation)).reshape(tuple(merged))[tuple(kept)]


def _at_end(rank: int, axis: int, width: Any) -> tuple[tuple[int, Any], ...]:
    """Widths of a pad: that many elements behind those of one axis."""
    return tuple((0, width if n == axis else 0) for n in range(rank))


def _with_holes(x: Any, axis: int, step: int) -> Any:
    """`x` with `step - 1` zeros between the elements of an axis."""
    if step == 1:
        return x
    size = x.shape[axis]
    apart = tile.pad(x[..., None], _at_end(x.ndim + 1, x.ndim, step - 1))
    order = (*range(axis + 1), x.ndim, *range(axis + 1, x.ndim))
    joined = apart.transpose(order).reshape((*x.shape[:axis], size * step, *x.shape[axis + 1 :]))
    return joined[tuple(slice(0, (size - 1) * step + 1) if i == axis else slice(None) for i in range(x.ndim))]
