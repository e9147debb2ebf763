"""Merges equal ops and drops unused ones in GPU form: lowering makes constants wherever it needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Module
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode


@dataclass(frozen=True)
class Tidy:
    """What `cse` and `dce` do for TILE: types tell layouts apart, so ops that are merged are in the same layout."""

    name: ClassVar[str] = "tidy"
    requires: ClassVar[Form] = Form.GPU
    gives: ClassVar[Form] = Form.GPU

    def run(self, module: Module, context: PassContext) -> Module:
        module = EliminateCommonSubexpressions().run(module, context)
        return EliminateDeadCode().run(module, context)
