"""The TILE vocabulary: what a tile program is made of.

A program means the same whatever its block sizes: a block at the edge of its axis is short (its extent is what is
left), so no op ever sees padding. Reading outside a tensor, by a shifted block or by a gathered index, gives `other`
(0 unless told); writing outside is dropped.

Control flow is declared in `control_ops`, and is a part of this vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.ir.control_ops import For as For
from tiledsl.ir.control_ops import Grid as Grid
from tiledsl.ir.control_ops import If as If
from tiledsl.ir.control_ops import Range as Range
from tiledsl.ir.control_ops import Return as Return
from tiledsl.ir.control_ops import While as While
from tiledsl.ir.control_ops import Yield as Yield
from tiledsl.ir.core import InvalidIRError, Op, Value
from tiledsl.ir.dtypes import bf16, bool_, f8e4m3, f8e5m2, f32, i64, u32
from tiledsl.ir.op_fields import (
    dim_attribute,
    dtype_attribute,
    flag_attribute,
    indices_field,
    int_attribute,
    ints_attribute,
    name_attribute,
    number_attribute,
    operand,
    operands,
    optional_body_field,
    optional_operand,
    shape_attribute,
    text_attribute,
)
from tiledsl.ir.scalar_functions import ATOMICS, REDUCTIONS, SCALAR_FUNCTIONS, SCANS
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.type_rules import (
    broadcast_shapes,
    indexed_shape,
    mapped,
    reduced_shape,
    require,
    require_combinable,
    require_scalar_integer,
    tensor_type,
    tile_type,
)
from tiledsl.ir.types import (
    AxisType,
    Shape,
    TensorType,
    TileType,
    Type,
    format_shape,
    scalar,
)

# Sizes, constants, coordinates


class Constant(Op):
    """A scalar known at compile time."""

    name = "tile.constant"
    value = number_attribute()
    dtype = dtype_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (scalar(self.dtype),)


class Size(Op):
    """A size expression as an i64 scalar."""

    name = "tile.size"
    value = dim_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (scalar(i64),)


class Arange(Op):
    """0, 1, ... extent-1 as an i64 tile of rank 1."""

    name = "tile.arange"
    extent = dim_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TileType(i64, (self.extent,)),)


class Coordinates(Op):
    """The coordinates of a block: an i64 tile of shape (extent,)."""

    name = "tile.index"
    axis = operand()

    def infer_types(self) -> tuple[Type, ...]:
        return (TileType(i64, (_axis(self.axis).extent,)),)


class Start(Op):
    """The first coordinate of a block, as i64."""

    name = "tile.start"
    axis = operand()

    def infer_types(self) -> tuple[Type, ...]:
        _axis(self.axis)
        return (scalar(i64),)


class Extent(Op):
    """How many coordinates a block has (fewer at the edge), as i64."""

    name = "tile.extent"
    axis = operand()

    def infer_types(self) -> tuple[Type, ...]:
        _axis(self.axis)
        return (scalar(i64),)


class Shift(Op):
    """The block `axis` moved by `offset` coordinates; its extent stays."""

    name = "tile.shift"
    axis = operand()
    offset = operand()

    def infer_types(self) -> tuple[Type, ...]:
        require_scalar_integer(self.offset)
        return (_axis(self.axis),)


def _axis(value: Value) -> AxisType:
    if not isinstance(value.type, AxisType):
        raise InvalidIRError(f"%{value.name} must be a block of an axis, not {value.type}")
    return value.type


# Memory


class Empty(Op):
    """A new tensor in global memory, filled with `fill` if it is given. Stands outside of grids only.

    With `scratch` nobody but the program knows of it: it lasts for one run, and whoever launches has memory for it.
    """

    name = "tile.empty"
    effect = "write"
    fill = optional_operand()
    shape = shape_attribute()
    dtype = dtype_attribute()
    scratch = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TensorType(self.dtype, self.shape, len(self.shape) - 1 if self.shape else None),)


def _require_axes(axes: Sequence[int], shape: Shape) -> None:
    require(all(0 <= axis < len(shape) for axis in axes), f"in_bounds = {list(axes)} of rank {len(shape)}")


class Load(Op):
    """Reads a tile of a tensor. `in_bounds` lists the tensor's axes on which no access can fall outside."""

    name = "tile.load"
    effect = "read"
    tensor = operand()
    indices = indices_field()
    other = optional_operand()
    in_bounds = ints_attribute(default=())

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tensor_type(self.tensor)
        _require_axes(self.in_bounds, type_.shape)
        if self.other is not None:
            require(tile_type(self.other) == scalar(type_.dtype), f"`other` must be a scalar of {type_.dtype}")
        return (TileType(type_.dtype, indexed_shape(type_.shape, self.indices)),)


class Store(Op):
    """Writes a tile into a tensor."""

    name = "tile.store"
    effect = "write"
    tensor = operand()
    indices = indices_field()
    value = operand()
    in_bounds = ints_attribute(default=())

    def infer_types(self) -> tuple[Type, ...]:
        type_, value = tensor_type(self.tensor), tile_type(self.value)
        _require_axes(self.in_bounds, type_.shape)
        require(type_.dtype == value.dtype, f"stores {value.dtype} into a tensor of {type_.dtype}")
        selected = indexed_shape(type_.shape, self.indices)
        require(
            selected == value.shape, f"stores {format_shape(value.shape)} where {format_shape(selected)} is selected"
        )
        return ()


class Atomic(Op):
    """Combines a tile into a tensor, each element atomically; gives the values from before."""

    name = "tile.atomic"
    effect = "write"
    tensor = operand()
    indices = indices_field()
    value = operand()
    fn = name_attribute(ATOMICS)
    in_bounds = ints_attribute(default=())

    def infer_types(self) -> tuple[Type, ...]:
        type_, value = tensor_type(self.tensor), tile_type(self.value)
        _require_axes(self.in_bounds, type_.shape)
        require(type_.dtype == value.dtype, f"combines {value.dtype} into a tensor of {type_.dtype}")
        require_combinable(self.fn, value.dtype)
        selected = indexed_shape(type_.shape, self.indices)
        require(
            selected == value.shape, f"combines {format_shape(value.shape)} where {format_shape(selected)} is selected"
        )
        return (TileType(type_.dtype, selected),)


# Elementwise and shape


class Map(Op):
    """Applies a scalar function elementwise. Operands have one shape, but scalars go with any."""

    name = "tile.map"
    fn = name_attribute(tuple(SCALAR_FUNCTIONS))
    inputs = operands()

    def infer_types(self) -> tuple[Type, ...]:
        dtype, shape = mapped(self.fn, [tile_type(v) for v in self.inputs])
        return (TileType(dtype, shape),)


class Cast(Op):
    """Converts to another dtype: rounding to nearest even for floats, towards zero to integers."""

    name = "tile.cast"
    source = operand()
    dtype = dtype_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return (TileType(self.dtype, tile_type(self.source).shape),)


class Broadcast(Op):
    """Repeats along axes of size 1 and along new leading axes, as NumPy's broadcast_to."""

    name = "tile.broadcast"
    source = operand()
    shape = shape_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        fits = len(type_.shape) <= len(self.shape) and broadcast_shapes(type_.shape, self.shape) == self.shape
        require(fits, f"{format_shape(type_.shape)} does not broadcast to {format_shape(self.shape)}")
        return (TileType(type_.dtype, self.shape),)


class Reshape(Op):
    """The same elements in row-major order under another shape of equal size (adding axes of 1 is the common case)."""

    name = "tile.reshape"
    source = operand()
    shape = shape_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        before: Dim = 1
        after: Dim = 1
        for dim in type_.shape:
            before = before * dim
        for dim in self.shape:
            after = after * dim
        require(before == after, f"{format_shape(type_.shape)} and {format_shape(self.shape)} differ in size")
        return (TileType(type_.dtype, self.shape),)


class Transpose(Op):
    """Axis i of the result is axis permutation[i] of the source."""

    name = "tile.transpose"
    source = operand()
    permutation = ints_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        require(sorted(self.permutation) == list(range(len(type_.shape))), "not a permutation of the axes")
        return (TileType(type_.dtype, tuple(type_.shape[i] for i in self.permutation)),)


class Extract(Op):
    """A part of a tile: a slice, all, or one scalar coordinate of each axis (a coordinate outside is undefined)."""

    name = "tile.extract"
    source = operand()
    indices = indices_field()

    def infer_types(self) -> tuple[Type, ...]:
        type_ = tile_type(self.source)
        for subscript in self.indices:
            plain = not isinstance(subscript, Value) or subscript.type == scalar(i64)
            require(plain, "a tile is subscripted by slices and i64 scalars")
        return (TileType(type_.dtype, indexed_shape(type_.shape, self.indices)),)


class Stack(Op):
    """Tiles of one shape side by side along a new axis, which is `axis` of the result.

    Threads read parts of it that others made: `tile.extract` of what is stacked along one axis, cut along another one.
    """

    name = "tile.stack"
    sources = operands()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        types = {tile_type(source) for source in self.sources}
        require(len(types) == 1, "the tiles are of unlike types")
        type_ = tile_type(self.sources[0])
        require(0 <= self.axis <= len(type_.shape), f"axis {self.axis} of rank {len(type_.shape) + 1}")
        return (TileType(type_.dtype, (*type_.shape[: self.axis], len(self.sources), *type_.shape[self.axis :])),)


# Contractions, reductions, scans


ASKED = ("ieee", "tf32", "fast")
"""Of products, that a program may ask for."""
PRECISIONS = (*ASKED, "planes", "split")
"""Of products."""
PLANES = 3
"""Of bf16, that have all digits of f32."""
PLANE_PAIRS = ((2, 0), (0, 2), (1, 1), (1, 0), (0, 1), (0, 0))
"""Those of the left and of the right operand that are multiplied, the smallest products first."""
PLANES_SCALE = 2.0**-32
"""What a product of planes is multiplied with: each operand is 2**16 times what it stands for."""
SPLIT_INSTRUCTIONS = 7
"""Of a thread, for each element of an operand of which it makes planes: one to scale it, three to round it two at a
time, two to widen what it was rounded to, two to subtract that; counted in SASS."""


def is_by_planes(dot: Dot) -> bool:
    """Whether a product is made as several ones of planes of its operands."""
    return dot.precision in ("planes", "split")


def products_for_one(dot: Dot) -> int:
    """How many products of matrices it is made as."""
    return len(PLANE_PAIRS) if is_by_planes(dot) else 1


class Dot(Op):
    """acc + a @ b over the last two axes; leading axes are batches. `dtype` is the accumulator's and the result's.

    `precision`: "ieee" for all digits of the operands and of an f32 sum; "tf32" if f32 operands may be rounded to that;
    "fast" if sums of f8 products may be kept in as few digits as matrix instructions have; "planes" where operands are
    matrices that a leading axis of 3 adds up to, each 2**-8 or less of the one before: the products of two of them that
    come to 2**-24 or less are left out; "split" where f32 operands are to be made such planes of on the way (the maps
    `plane_1` to `plane_3`), so that what is added is 2**32 times the product.
    """

    name = "tile.dot"
    a = operand()
    b = operand()
    acc = optional_operand()
    dtype = dtype_attribute()
    precision = name_attribute(PRECISIONS, default="ieee")

    def infer_types(self) -> tuple[Type, ...]:
        a, b = tile_type(self.a), tile_type(self.b)
        rank = len(a.shape)
        require(rank >= 2 and rank == len(b.shape), f"dot of {a} and {b}: ranks must agree, at least 2")
        require(a.dtype == b.dtype, f"dot of {a.dtype} and {b.dtype}")
        require(self.precision != "fast" or a.dtype in (f8e4m3, f8e5m2), f"fast sums are of f8 products, not {a.dtype}")
        require(a.shape[:-2] == b.shape[:-2], f"batch axes {format_shape(a.shape[:-2])}, {format_shape(b.shape[:-2])}")
        require(a.shape[-1] == b.shape[-2], f"contracts {a.shape[-1]} with {b.shape[-2]}")
        planes = self.precision == "planes"
        fits = a.dtype == bf16 and self.dtype == f32 and a.shape[:-2] == (PLANES,)
        require(not planes or fits, f"{PLANES} planes of bf16 give f32, not {a} {self.dtype}")
        fits = a.dtype == f32 == self.dtype
        require(self.precision != "split" or fits, f"operands of f32 are split, not {a} {self.dtype}")
        result = TileType(self.dtype, (*a.shape[planes:-1], b.shape[-1]))
        if self.acc is not None:
            acc = tile_type(self.acc)
            fits = acc.shape == result.shape and acc.dtype == result.dtype
            require(fits, f"accumulator is {acc}, result is {result}")
        return (result,)


class Reduce(Op):
    """Folds over axes, in any order. `custom` folds with `combiner`, an associative block of scalars

    Several sources (custom only) are folded together. Narrow floats are folded in f32 and rounded once. An empty fold
    gives the identity of `fn`.
    """

    name = "tile.reduce"
    sources = operands()
    axes = ints_attribute()
    fn = name_attribute(REDUCTIONS)
    keepdims = flag_attribute()
    combiner = optional_body_field()

    def infer_types(self) -> tuple[Type, ...]:
        types = _folded(self)
        require(len(self.axes) == 1 or self.fn not in ("argmax", "argmin", "custom"), f"{self.fn} takes one axis")
        kept = reduced_shape(types[0].shape, self.axes, self.keepdims)
        gives_index = self.fn in ("argmax", "argmin")
        return tuple(TileType(i64 if gives_index else t.dtype, kept) for t in types)


class Scan(Op):
    """The running fold along an axis, inclusive; from the end if `reverse`."""

    name = "tile.scan"
    sources = operands()
    axis = int_attribute()
    fn = name_attribute(SCANS)
    reverse = flag_attribute()
    combiner = optional_body_field()

    def infer_types(self) -> tuple[Type, ...]:
        types = _folded(self)
        require(0 <= self.axis < len(types[0].shape), f"axis {self.axis} of rank {len(types[0].shape)}")
        return tuple(TileType(t.dtype, t.shape) for t in types)


class Sort(Op):
    """The elements along an axis in order, the smallest first."""

    name = "tile.sort"
    source = operand()
    axis = int_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        source = tile_type(self.source)
        require(0 <= self.axis < len(source.shape), f"axis {self.axis} of rank {len(source.shape)}")
        whole = source.dtype.is_integer and source.dtype.bits >= 8
        require(whole, f"sorts integers of whole bytes, not {source.dtype}")
        return (TileType(source.dtype, source.shape),)


def _folded(op: Reduce | Scan) -> list[TileType]:
    types = [tile_type(v) for v in op.sources]
    require(bool(types), "nothing to fold")
    require((op.fn == "custom") == op.has_body("combiner"), "a combiner goes with fn = custom, and only with it")
    require(len(types) == 1 or op.fn == "custom", f"{op.fn} takes one source")
    require(all(t.shape == types[0].shape for t in types), "sources differ in shape")
    require_combinable(op.fn, types[0].dtype)
    if op.has_body("combiner"):
        expected = [scalar(t.dtype) for t in types] * 2
        require([a.type for a in op.combiner.arguments] == expected, "the combiner takes two scalars for each source")
    return types


RANDOM_NUMBERS = ("uniform", "normal", "bits")


class Random(Op):
    """Philox4x32-10 at counters `offsets` under key `seed`: uniform in [0, 1) f32, standard normal f32, or u32 bits."""

    name = "tile.random"
    seed = operand()
    offsets = operand()
    fn = name_attribute(RANDOM_NUMBERS)

    def infer_types(self) -> tuple[Type, ...]:
        require_scalar_integer(self.seed)
        offsets = tile_type(self.offsets)
        require(offsets.dtype.is_integer, f"offsets must be integers, not {offsets.dtype}")
        return (TileType(u32 if self.fn == "bits" else f32, offsets.shape),)


# Effects for people


class Print(Op):
    """Prints the text, then each value."""

    name = "tile.print"
    effect = "write"
    values = operands()
    text = text_attribute(default="")

    def infer_types(self) -> tuple[Type, ...]:
        return ()


class Assert(Op):
    """Fails the launch with the text where any element of the bool condition is false."""

    name = "tile.assert"
    effect = "write"
    condition = operand()
    text = text_attribute(default="")

    def infer_types(self) -> tuple[Type, ...]:
        require(tile_type(self.condition).dtype == bool_, "the condition must be bool")
        return ()
