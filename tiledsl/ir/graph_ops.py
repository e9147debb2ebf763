"""The GRAPH vocabulary: whole tensors, before anything is said of grouping, tiling or memory levels.

Every value is a tensor; a scalar is a tensor of rank 0. Reads are regular (index maps) in all ops but `graph.gather`,
so that fusion can compose them: a convolution is a `graph.window`, which copies nothing in itself, that
`graph.contract` reads; a pooling is one that `graph.reduce` reads.
"""

from __future__ import annotations

from tiledsl.ir.core import Op
from tiledsl.ir.dtypes import bf16, f32, i64, u32
from tiledsl.ir.graph_calls import Call as Call
from tiledsl.ir.graph_calls import Loop as Loop
from tiledsl.ir.graph_calls import Serial as Serial
from tiledsl.ir.graph_calls import call_types as call_types
from tiledsl.ir.graph_calls import called_by as called_by
from tiledsl.ir.graph_calls import loop_types as loop_types
from tiledsl.ir.op_fields import (
    dim_attribute,
    dtype_attribute,
    flag_attribute,
    int_attribute,
    ints_attribute,
    name_attribute,
    number_attribute,
    operand,
    operands,
    optional_operand,
    shape_attribute,
    text_attribute,
)
from tiledsl.ir.scalar_functions import REDUCTIONS, SCALAR_FUNCTIONS, SCANS
from tiledsl.ir.symbolic import Dim, ceildiv
from tiledsl.ir.tile_ops import PLANES, PRECISIONS, RANDOM_NUMBERS
from tiledsl.ir.type_rules import broadcast_shapes, mapped, reduced_shape, require, require_combinable, tensor_type
from tiledsl.ir.types import Shape, TensorType, Type, format_shape


def require_axis(axis: int, type_: TensorType) -> None:
    """Raises InvalidIRError unless the tensor has that axis, counted from 0."""
    require(0 <= axis < len(type_.shape), f"axis {axis} of {type_}")


class Return(Op):
    """Ends a function with the tensors that it gives back."""

    name = "graph.return"
    effect = "terminator"
    values = operands()

    def infer_types(self) -> tuple[Type, ...]:
        for value in self.values:
            tensor_type(value)
        return ()


# Sources


class Constant(Op):
    """One number, as a tensor of rank 0."""

    name = "graph.constant"
    value = number_attribute()
    dtype = dtype_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TensorType(self.dtype, ()),)


class Size(Op):
    """A size expression, as an i64 tensor of rank 0."""

    name = "graph.size"
    value = dim_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TensorType(i64, ()),)


class Iota(Op):
    """The coordinate along `axis` of each element, as i64."""

    name = "graph.iota"
    shape = shape_attribute()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = TensorType(i64, self.shape)
        require_axis(self.axis, type_)
        return (type_,)


# Elementwise


class Map(Op):
    """Applies a scalar function elementwise. Operands have one shape, but those of rank 0 go with any."""

    name = "graph.map"
    fn = name_attribute(tuple(SCALAR_FUNCTIONS))
    inputs = operands()

    def infer_types(self) -> tuple[Type, ...]:
        dtype, shape = mapped(self.fn, [tensor_type(v) for v in self.inputs])
        return (TensorType(dtype, shape),)


class Cast(Op):
    """Converts to another dtype: rounding to nearest even for floats, towards zero to integers."""

    name = "graph.cast"
    source = operand()
    dtype = dtype_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TensorType(self.dtype, tensor_type(self.source).shape),)


class Random(Op):
    """Philox4x32-10 at counters `offsets` under key `seed`, which has rank 0; the numbers of `tile.random`."""

    name = "graph.random"
    seed = operand()
    offsets = operand()
    fn = name_attribute(RANDOM_NUMBERS)

    def infer_types(self) -> tuple[Type, ...]:
        seed, offsets = tensor_type(self.seed), tensor_type(self.offsets)
        require(not seed.shape and seed.dtype.is_integer, f"%{self.seed.name} must be an integer scalar, not {seed}")
        require(offsets.dtype.is_integer, f"offsets must be integers, not {offsets.dtype}")
        return (TensorType(u32 if self.fn == "bits" else f32, offsets.shape),)


# Reductions and contractions


class Reduce(Op):
    """Folds over axes, in any order. Narrow floats are folded in f32 and rounded once.

    `argmax` and `argmin` take one axis and give the first position of the extremum, as i64.
    """

    name = "graph.reduce"
    source = operand()
    axes = ints_attribute()
    fn = name_attribute(tuple(fn for fn in REDUCTIONS if fn != "custom"))
    keepdims = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        gives_index = self.fn in ("argmax", "argmin")
        require(not gives_index or len(self.axes) == 1, f"{self.fn} takes one axis")
        require_combinable(self.fn, type_.dtype)
        return (TensorType(i64 if gives_index else type_.dtype, reduced_shape(type_.shape, self.axes, self.keepdims)),)


class Contract(Op):
    """Multiplies two tensors and sums over the axes that the result does not have.

    `axes` names the axes of a, of b and of the result: "m k, k n -> m n" is a matrix product, "b m k, b n k -> b m n"
    one of batches with the second operand transposed. Each axis is in at least two of the three. `dtype` is the
    accumulator's and the result's.

    With `precision` "planes" the first axis of a and that of b are three planes, as those of `tile.dot`, that no other
    operand has, and the result is 2**-32 of what they come to; where that is not finite, it is the product of
    `exact_a` and `exact_b`, which are what the planes were made of.
    """

    name = "graph.contract"
    a = operand()
    b = operand()
    exact_a = optional_operand()
    exact_b = optional_operand()
    axes = text_attribute()
    dtype = dtype_attribute()
    precision = name_attribute(PRECISIONS, default="ieee")

    def axis_names(self) -> tuple[list[str], list[str], list[str]]:
        """The names of the axes of a, of b and of the result. Raises InvalidIRError where `axes` is not well formed."""
        inputs, arrow, result = self.axes.partition("->")
        a, comma, b = inputs.partition(",")
        require(bool(arrow and comma), f'axes = "{self.axes}" does not read as "m k, k n -> m n"')
        return a.split(), b.split(), result.split()

    def plane_axes(self) -> tuple[str, ...]:
        """The names of the axes of planes, of a and of b; none of other products."""
        names = self.axis_names()
        return (names[0][0], names[1][0]) if self.precision == "planes" and names[0] and names[1] else ()

    def infer_types(self) -> tuple[Type, ...]:
        a, b = tensor_type(self.a), tensor_type(self.b)
        require(a.dtype == b.dtype, f"contracts {a.dtype} with {b.dtype}")
        for planes, exact in ((a, self.exact_a), (b, self.exact_b)):
            require((exact is not None) == (self.precision == "planes"), "planes are of exact operands")
            fits = exact is None or (*planes.shape[:1], *tensor_type(exact).shape) == (PLANES, *planes.shape[1:])
            require(fits and (exact is None or planes.dtype == bf16), f"{planes} is no {PLANES} planes of bf16")
        names = self.axis_names()
        for axes in names:
            require(len(set(axes)) == len(axes), f'axes = "{self.axes}" name an axis twice in one tensor')
        planes = self.plane_axes()
        sizes: dict[str, Dim] = {}
        for axes, type_ in zip(names, (a, b)):
            require(len(axes) == len(type_.shape), f"{' '.join(axes) or 'no'} axes for {type_}")
            for axis, dim in zip(axes, type_.shape):
                require(sizes.setdefault(axis, dim) == dim, f"axis {axis} has the sizes {sizes[axis]} and {dim}")
        for axis in sorted({*names[0], *names[1], *names[2]}):
            require(
                sum(axis in axes for axes in names) > 1 or axis in planes,
                f"axis {axis} is in only one of the three tensors",
            )
        return (TensorType(self.dtype, tuple(sizes[axis] for axis in names[2])),)


class Scan(Op):
    """The running fold along an axis, inclusive; from the end if `reverse`. Narrow floats as in `graph.reduce`."""

    name = "graph.scan"
    source = operand()
    axis = int_attribute()
    fn = name_attribute(tuple(fn for fn in SCANS if fn != "custom"))
    reverse = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        require_axis(self.axis, type_)
        require_combinable(self.fn, type_.dtype)
        return (TensorType(type_.dtype, type_.shape),)


# Reindexing: the result's elements are elements of the source


class Transpose(Op):
    """Axis i of the result is axis permutation[i] of the source."""

    name = "graph.transpose"
    source = operand()
    permutation = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        require(sorted(self.permutation) == list(range(len(type_.shape))), "not a permutation of the axes")
        return (TensorType(type_.dtype, tuple(type_.shape[i] for i in self.permutation)),)


class Reshape(Op):
    """The same elements in row-major order under another shape of equal size."""

    name = "graph.reshape"
    source = operand()
    shape = shape_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        fits = _volume(type_.shape) == _volume(self.shape)
        require(fits, f"{format_shape(type_.shape)} and {format_shape(self.shape)} differ in size")
        return (TensorType(type_.dtype, self.shape),)


class Broadcast(Op):
    """Repeats along axes of size 1 and along new leading axes, as NumPy's broadcast_to."""

    name = "graph.broadcast"
    source = operand()
    shape = shape_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        fits = len(type_.shape) <= len(self.shape) and broadcast_shapes(type_.shape, self.shape) == self.shape
        require(fits, f"{format_shape(type_.shape)} does not broadcast to {format_shape(self.shape)}")
        return (TensorType(type_.dtype, self.shape),)


class Slice(Op):
    """Along each axis, the elements from `starts` up to (not including) `stops`, by positive `steps`."""

    name = "graph.slice"
    source = operand()
    starts = shape_attribute()
    stops = shape_attribute()
    steps = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        lengths = {len(self.starts), len(self.stops), len(self.steps)}
        require(lengths == {len(type_.shape)}, f"a start, a stop and a step for each axis of {type_}")
        require(all(step > 0 for step in self.steps), "steps are positive")
        for start, stop, dim in zip(self.starts, self.stops, type_.shape):
            if isinstance(start, int) and isinstance(stop, int):
                fits = 0 <= start <= stop and (not isinstance(dim, int) or stop <= dim)
                require(fits, f"{start}:{stop} of an axis of {dim}")
        return (TensorType(type_.dtype, tuple(map(_steps_between, self.starts, self.stops, self.steps))),)


class Pad(Op):
    """Adds `low` elements before and `high` after those of each axis, all of them `value`; takes them away where these
    are negative."""

    name = "graph.pad"
    source = operand()
    low = shape_attribute()
    high = shape_attribute()
    value = number_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        lengths = {len(self.low), len(self.high)}
        require(lengths == {len(type_.shape)}, f"a low and a high for each axis of {type_}")
        shape = tuple(low + dim + high for low, dim, high in zip(self.low, type_.shape, self.high))
        ends = [n for low, dim, high in zip(self.low, type_.shape, self.high) for n in (dim + low, dim + high)]
        known = [n for n in (*shape, *ends) if isinstance(n, int)]
        require(min(known, default=0) >= 0, "more is taken away than there is")
        return (TensorType(type_.dtype, shape),)


class Concat(Op):
    """The sources, one after the other along `axis`."""

    name = "graph.concat"
    sources = operands()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        require(bool(self.sources), "nothing to put together")
        types = [tensor_type(v) for v in self.sources]
        first = types[0]
        require_axis(self.axis, first)
        total: Dim = 0
        for type_ in types:
            require(type_.dtype == first.dtype, f"puts {first.dtype} and {type_.dtype} together")
            alike = _without(type_.shape, self.axis) == _without(first.shape, self.axis)
            require(
                alike, f"{format_shape(first.shape)} and {format_shape(type_.shape)} differ beside axis {self.axis}"
            )
            total = total + type_.shape[self.axis]
        return (TensorType(first.dtype, (*first.shape[: self.axis], total, *first.shape[self.axis + 1 :])),)


class Interleave(Op):
    """The sources' elements in turns along `axis`: element i * n + r is element i of source r of n.

    Sources differ along the axis by one element at most, the longer ones first.
    """

    name = "graph.interleave"
    sources = operands()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        require(bool(self.sources), "nothing to put together")
        first = tensor_type(self.sources[0])
        require_axis(self.axis, first)
        total: Dim = 0
        lengths = [tensor_type(v).shape[self.axis] for v in self.sources]
        for type_, length in zip(map(tensor_type, self.sources), lengths):
            require(type_.dtype == first.dtype, f"puts {first.dtype} and {type_.dtype} together")
            alike = _without(type_.shape, self.axis) == _without(first.shape, self.axis)
            require(
                alike, f"{format_shape(first.shape)} and {format_shape(type_.shape)} differ beside axis {self.axis}"
            )
            total = total + length
        known = [n for n in lengths if isinstance(n, int)]
        in_turns = len(known) < len(lengths) or known == [-(-(sum(known) - r) // len(known)) for r in range(len(known))]
        require(in_turns, f"{known} elements are none in turns")
        return (TensorType(first.dtype, (*first.shape[: self.axis], total, *first.shape[self.axis + 1 :])),)


class Window(Op):
    """Every window that slides over `axes`: each of them becomes the axis of window positions, and at the end come
    the axes within the window, of `sizes`.

    Element (.., p, .., k) is element p * stride + k * dilation of the source's axis. For an image [N, C, H, W] with
    axes = [2, 3], sizes = [3, 3]: [N, C, H - 2, W - 2, 3, 3]. With a dilation below zero a window is the same one with
    its last element first: k is (size - 1 - k) then, times -dilation.
    """

    name = "graph.window"
    source = operand()
    axes = ints_attribute()
    sizes = shape_attribute()
    strides = ints_attribute()
    dilations = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.source)
        lengths = {len(self.sizes), len(self.strides), len(self.dilations)}
        require(lengths == {len(self.axes)}, "a size, a stride and a dilation for each axis")
        require(len(set(self.axes)) == len(self.axes), "an axis is windowed twice")
        require(all(step > 0 for step in self.strides) and all(self.dilations), "strides are positive, dilations not 0")
        shape = list(type_.shape)
        for axis, size, stride, dilation in zip(self.axes, self.sizes, self.strides, self.dilations):
            require_axis(axis, type_)
            positions = _steps_between(0, shape[axis] - (size - 1) * abs(dilation), stride)
            require(not isinstance(positions, int) or positions > 0, f"a window of {size} in an axis of {shape[axis]}")
            shape[axis] = positions
        return (TensorType(type_.dtype, (*shape, *self.sizes)),)


class Gather(Op):
    """The slices of `source` at the coordinates `indices` of one axis, whose place their shape takes.

    A coordinate outside (negative ones are) reads 0.
    """

    name = "graph.gather"
    source = operand()
    indices = operand()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        source, indices = tensor_type(self.source), tensor_type(self.indices)
        require_axis(self.axis, source)
        require(indices.dtype.is_integer, f"%{self.indices.name} must hold integers, not {indices.dtype}")
        shape = (*source.shape[: self.axis], *indices.shape, *source.shape[self.axis + 1 :])
        return (TensorType(source.dtype, shape),)


def _volume(shape: Shape) -> Dim:
    volume: Dim = 1
    for dim in shape:
        volume = volume * dim
    return volume


def _steps_between(start: Dim, stop: Dim, step: int) -> Dim:
    return ceildiv(stop - start, step)


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]
