"""Random reads and writes of tensors, for the bodies that `random_modules` writes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from tests.support.generators.known_values import Known, limit
from tests.support.generators.random_expressions import INTEGERS, Expressions
from tiledsl.ir import tile_ops
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Index, Value
from tiledsl.ir.dtypes import DType, bool_, f32, i64
from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.type_rules import indexed_shape
from tiledsl.ir.types import WHOLE, AxisType, Shape, Slice, TensorType, TileType
from tiledsl.support.location import Location

LOADED = 8
"""Elements of arguments are at most this large."""
LOCATIONS = (
    Location("kernel.py", 3, 5, 3, 20),
    Location("kernel.py", 7, 1, 9, 2),
    Location('a "quoted" name.py', 2, 9, 2, 11, Location("kernel.py", 8, 4, 8, 30, Location("kernel.py", 20, 1))),
)


@dataclass(frozen=True, eq=False)
class Axis:
    """A block in scope: of an axis from 0 to `stop`."""

    value: Value
    stop: Dim


class Memory(Expressions):
    """Emits loads and stores too. `top` is the function's body, `readable` are the tensors that may be loaded from,
    `axes` the blocks in scope.
    """

    def __init__(self, draw: st.DrawFn, sizes: dict[str, int]) -> None:
        self.top = Block()
        super().__init__(draw, Builder(self.top, LOCATIONS[0]), dict(sizes))
        self.symbols = [symbol(name) for name in sizes]
        self.readable: list[Value] = []
        self.written: list[Value] = []
        """Tensors that the grid at hand stores to: it may not read them."""
        self.contents: dict[Value, tuple[float, float]] = {}
        """The bound and the error of the elements of each tensor."""
        self.axes: list[Axis] = []
        self.covers = True
        """Whether every program passes here exactly once, so that plain stores fill a tensor."""

    def learn(self, value: Value, bound: float, error: float = 0.0) -> Known:
        value.name = self.pick(("", "x", "t", "acc"))
        self.builder.location = self.pick(LOCATIONS)
        return super().learn(value, bound, error)

    def blocks_in_scope(self) -> list[Axis]:
        return [axis for axis in self.axes if isinstance(axis.value.type, AxisType)]

    def coordinates(self) -> None:
        axes = self.blocks_in_scope()
        if not axes:
            return
        axis = self.pick(axes)
        assert isinstance(axis.value.type, AxisType)
        if self.chance():
            result = self.builder.emit(tile_ops.Coordinates, axis=self.shifted(axis.value)).result
        else:
            start = self.builder.emit(tile_ops.Start, axis=axis.value).result
            within = self.builder.emit(tile_ops.Arange, extent=axis.value.type.extent).result
            result = self.builder.map("add", within, start)
        self.learn(result, self.count(axis.stop) + 9)

    def shifted(self, axis: Value) -> Value:
        if not self.chance(3):
            return axis
        offset = self.constant(self.pick(INTEGERS)).value
        return self.builder.emit(tile_ops.Shift, axis=axis, offset=offset).result

    def load(self, *_: int) -> None:
        tensor = self.pick(self.readable)
        assert isinstance(tensor.type, TensorType)
        indices: list[Index] = []
        proved: list[int] = []
        for i, dim in enumerate(tensor.type.shape):
            gathered = [index.shape for index in indices if isinstance(index, Value) and is_tile(index)]
            index, inside = self.subscript(dim, gathered)
            indices.append(index)
            if inside and self.chance():
                proved.append(i)
        shape = indexed_shape(tensor.type.shape, indices)
        if self.is_fine(shape):
            dtype = tensor.type.dtype
            other = self.scalar(dtype) if self.chance(3) else None
            fields = None if other is None or other.bound > LOADED else other.value
            op = self.builder.emit(tile_ops.Load, tensor=tensor, indices=indices, other=fields, in_bounds=tuple(proved))
            self.learn(op.result, *self.contents[tensor])

    def subscript(self, dim: Dim, gathered: list[Shape]) -> tuple[Index, bool]:
        """A subscript for an axis of `dim` elements, and whether it is within bounds for certain.

        `gathered` are the shapes of int tiles that other axes are subscripted with.
        """
        axes = self.blocks_in_scope()
        gathers = [k for k in self.pool if k.dtype.is_integer and k.shape and k.shape in (gathered or [k.shape])]
        match self.draw(st.integers(0, 7)):
            case 0 | 1 | 2 if axes:
                same = [axis for axis in axes if axis.stop == dim]
                axis = self.pick(same or axes)
                index = self.shifted(axis.value)
                return index, axis.stop == dim and index is axis.value
            case 3:
                return self.scalar(self.pick((i64, *INTEGERS))).value, False
            case 4:
                return self.slice(dim), True
            case 5 if gathers:
                return self.pick(gathers).value, False
            case _:
                return WHOLE, True

    def complete(self, known: Known) -> Known | None:
        """`known` with an axis for every block in scope, or None if that is too much."""
        missing = [a.value.type.extent for a in self.axes if isinstance(a.value.type, AxisType)]
        missing = [extent for extent in missing if extent not in known.shape]
        shape = (*missing, *known.shape)
        if not self.is_fine(shape):
            return None
        return self.learn(self.builder.broadcast(known.value, shape), known.bound, known.error)

    def store(self, *_: int) -> None:
        """Stores a value into a tensor of its own, at coordinates that no other program writes."""
        chosen = self.pick_known(lambda k: True) or self.constant(f32)
        known = self.complete(chosen) or self.complete(self.constant(f32))
        if known is None:
            return
        plain = self.covers
        indices: list[Index] = []
        shape: list[Dim] = []
        by_extent = {a.value.type.extent: a for a in self.axes if isinstance(a.value.type, AxisType)}
        scattered = False
        for dim in known.shape:
            axis = by_extent.get(dim)
            index: Index = WHOLE
            if axis is not None:
                index, dim = axis.value, axis.stop
                if self.chance(4):
                    index, plain = self.shifted(axis.value), False
                elif not scattered and self.chance(5):
                    index, scattered, plain = self.mirrored(axis), True, False
                elif self.chance(5):
                    dim, plain = self.pick((*self.symbols, 2)), False
            elif self.chance(4):
                index, dim, plain = Slice(1, dim + 1), dim + 2, False
            indices.append(index)
            shape.append(dim)
        if scattered:  # an int tile takes the place of its axis, so the selected shape stays the same
            plain = False
        for axis in self.axes:
            if not isinstance(axis.value.type, AxisType):
                at = self.draw(st.integers(0, len(shape)))
                indices.insert(at, axis.value)
                shape.insert(at, axis.stop)
        proved = range(len(shape)) if plain and self.chance() else ()
        tensor = self.new_tensor(known.dtype, tuple(shape), filled=not plain or self.chance())
        self.contents[tensor] = (max(known.bound, LOADED), known.error)
        self.builder.emit(tile_ops.Store, tensor=tensor, indices=indices, value=known.value, in_bounds=tuple(proved))

    def mirrored(self, axis: Axis) -> Value:
        """The coordinates of the block, counted from the other end of the axis."""
        own = self.builder.emit(tile_ops.Coordinates, axis=axis.value).result
        return self.builder.map("sub", self.builder.size(axis.stop - 1), own)

    def new_tensor(self, dtype: DType, shape: Shape, filled: bool) -> Value:
        with self.builder.inside(self.top):
            number = True if dtype == bool_ else self.draw(st.integers(0, 3))
            fill = self.builder.constant(number, dtype) if filled else None
            tensor = self.builder.emit(tile_ops.Empty, fill=fill, shape=shape, dtype=dtype, result_names=["c"]).result
        self.written.append(tensor)
        return tensor

    def atomic(self, depth: int) -> None:
        """A histogram: integers are combined at any coordinates."""
        del depth
        value = self.pick_known(lambda k: k.dtype.is_integer)
        value = None if value is None else self.complete(value)
        if value is None:
            return
        where = self.pick_known(lambda k: k.dtype == i64 and k.shape in ((), value.shape))
        if where is None or not value.shape:
            return
        index = self.builder.broadcast(where.value, value.shape)
        fn = self.pick(("add", "max", "min", "and", "or", "xor"))
        tensor = self.new_tensor(value.dtype, (self.pick((4, *self.symbols)),), filled=True)
        self.contents[tensor] = (limit(value.dtype), 0.0)
        self.builder.emit(tile_ops.Atomic, tensor=tensor, indices=[index], value=value.value, fn=fn)


def is_tile(value: Value) -> bool:
    """Whether a subscript is an int tile."""
    return isinstance(value.type, TileType) and bool(value.type.shape)
