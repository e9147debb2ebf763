"""Puts numbers in the place of a graph's size symbols.

    %x: tensor<f32, [B, 384]>     with B = 8     =>     %x: tensor<f32, [8, 384]>

Tile programs that the graph calls keep theirs: a launch tells them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Module
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.verifier import Form, is_tile_function, verify
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import TileError, fail


@dataclass(frozen=True)
class SetSizes:
    """Every symbol of `sizes` becomes its number, in every GRAPH function.

    Raises TileShapeError for sizes with which the graph has no meaning: of `x[3]`, an `x` of two elements.
    """

    name: ClassVar[str] = "set-sizes"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    sizes: tuple[tuple[str, Dim], ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            if not is_tile_function(function):
                substitute_symbols(function, dict(self.sizes))
        if self.sizes:
            self._check(module)
        return module

    def _check(self, module: Module) -> None:
        try:
            verify(module, Form.GRAPH)
        except TileError as error:
            sizes = ", ".join(f"{name}={size}" for name, size in self.sizes)
            problem = error.message.rpartition("`: ")[2]
            fail("graph-sizes", error.location, graph=module.entry.name, sizes=sizes, problem=problem)
