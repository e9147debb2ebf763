"""The state of one kernel's lowering: where ops go, which sizes there are, what encloses the current statement."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.frontend.words.sizes import Sizes
from tiledsl.frontend.words.values import FrontValue, Operand, describe
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType, i64
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.tile_ops import Extent
from tiledsl.ir.types import Type
from tiledsl.support.errors import Label, fail
from tiledsl.support.location import Location

Call: TypeAlias = "Callable[[Lowering, Operand, Sequence[Operand], Mapping[str, Operand]], FrontValue]"
"""Calls a function value of the kernel with positional and keyword operands."""


class Lowering:
    """Shared by all parts of the front end while one kernel is lowered.

    `grid` is where the grid that encloses the current statement stands, if one does. `blocks` finds the block of an
    axis by the symbol of its extent; `sizes_of_blocks` has the size of the axis that a block with a run-time bound
    first subscripted. `inlining` lists the functions whose bodies are being run. `call` closes the circle from
    expressions, and builtins that take a function, back to the code that runs functions.
    """

    def __init__(self, body: Block, location: Location, call: Call) -> None:
        self.builder = Builder(body, location)
        self.sizes = Sizes()
        self.sizes.open_block(body)
        self.grid: Location | None = None
        self.grid_seen: bool = False
        self.blocks: dict[str, Value] = {}
        self.sizes_of_blocks: dict[Value, Dim] = {}
        self.inlining: list[KernelSource] = []
        self._call = call

    @property
    def location(self) -> Location:
        return self.builder.location

    def fail(self, code: str, *, labels: Sequence[Label] = (), notes: Sequence[str] = (), **names: object) -> NoReturn:
        """Raises a catalogued error at the current location."""
        fail(code, self.location, labels=labels, notes=notes, **names)

    def fail_at(self, operand: Operand, code: str, **names: Any) -> NoReturn:
        """Raises a catalogued error at an operand; its text and kind fill `{text}` and `{what}`."""
        fail(code, operand.location, text=operand.text, what=describe(operand.value), **names)

    def call(
        self, function: Operand, positional: Sequence[Operand], keywords: Mapping[str, Operand] | None = None
    ) -> FrontValue:
        """Calls a function value: a word of the language, a helper of the user's, a method."""
        return self._call(self, function, positional, keywords or {})

    @contextmanager
    def body(self, arguments: Sequence[tuple[Type, str]] = ()) -> Generator[Block]:
        """Emits into a new block for a while."""
        block = self.sizes.open_block(Block(arguments))
        with self.builder.inside(block):
            yield block

    def discard(self, block: Block) -> None:
        """Forgets a block that no op came to own."""
        for op in reversed(list(block.ops)):
            op.erase()
        self.sizes.blocks.remove(block)

    def integer(self, size: Dim) -> Value:
        """A size as an i64 scalar, in the plainest form."""
        size = self.sizes.resolve(size)
        if isinstance(size, int):
            return self.builder.constant(size, i64)
        block = self.blocks.get(symbol_name(size) or "")
        return self.builder.size(size) if block is None else self.builder.emit(Extent, axis=block).result

    def require_in_grid(self, name: str) -> None:
        """Raises TileSyntaxError outside of a grid, where there are no tiles."""
        if self.grid is None:
            self.fail("tile-outside-grid", name=name)

    def require_supported(self, dtype: DType) -> None:
        """Raises TileUnsupportedError for dtypes that arithmetic does not have yet."""
        if dtype.bits == 4:
            self.fail("dtype-4-bit", dtype=dtype)
