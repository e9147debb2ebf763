"""Appends ops at a point, with the location that is current there."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tiledsl.ir import tile_ops
from tiledsl.ir.core import Block, Number, Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape
from tiledsl.support.location import Location

OpT = TypeVar("OpT", bound=Op)


class Builder:
    """Emits into `block`. `location` is given to every op that is built."""

    def __init__(self, block: Block, location: Location) -> None:
        self.block = block
        self.location = location

    @contextmanager
    def inside(self, block: Block) -> Generator[Block]:
        """Emits into another block for a while."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    @contextmanager
    def at(self, location: Location) -> Generator[None]:
        """Gives another location for a while."""
        outer, self.location = self.location, location
        try:
            yield
        finally:
            self.location = outer

    def emit(self, kind: type[OpT], *, result_names: Sequence[str] = (), **fields: Any) -> OpT:
        """Builds an op of that kind at the end of the block. Raises InvalidIRError where its fields do not fit."""
        op = kind(self.location, result_names=result_names, **fields)
        self.block.append(op)
        return op

    def constant(self, value: Number, dtype: DType) -> Value:
        """A scalar constant."""
        return self.emit(tile_ops.Constant, value=value, dtype=dtype).result

    def size(self, value: Dim) -> Value:
        """A size as an i64 scalar."""
        return self.emit(tile_ops.Size, value=value).result

    def map(self, fn: str, *inputs: Value) -> Value:
        """An elementwise function of operands that have one shape already."""
        return self.emit(tile_ops.Map, fn=fn, inputs=inputs).result

    def cast(self, source: Value, dtype: DType) -> Value:
        """`source` as `dtype`; itself if it is that already."""
        return source if source.dtype == dtype else self.emit(tile_ops.Cast, source=source, dtype=dtype).result

    def broadcast(self, source: Value, shape: Shape) -> Value:
        """`source` under a larger shape; itself if it has that shape already."""
        return source if source.shape == shape else self.emit(tile_ops.Broadcast, source=source, shape=shape).result
