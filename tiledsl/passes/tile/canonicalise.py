"""Writes the program in its simplest form, by rules that each state their algebra.

    %one = tile.constant() {value = 1.0, dtype = f32}
    %ones = tile.broadcast(%one) {shape = [m, n]}          %y = tile.load(%a, [%m, %n])
    %x = tile.load(%a, [%m, %n])                      =>   tile.store(%b, [%m, %n], %y)
    %y = tile.map([%x, %ones]) {fn = mul}
    tile.store(%b, [%m, %n], %y)

Before: any TILE form. After: the same form, in which no rule of the tables applies; and the results are the same to the
last bit. Ops that nothing reads any more are left to dce, but for what the rules themselves make and leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Module
from tiledsl.ir.rewrite import Rules
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.passes.tile.control_rules import CONTROL_RULES
from tiledsl.passes.tile.map_rules import MAP_RULES
from tiledsl.passes.tile.shape_rules import SHAPE_RULES

RULES = Rules(MAP_RULES, SHAPE_RULES, CONTROL_RULES)


@dataclass(frozen=True)
class Canonicalise:
    """Applies the rules of `map_rules`, `shape_rules` and `control_rules` until none fits."""

    name: ClassVar[str] = "canonicalise"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE

    def run(self, module: Module, context: PassContext) -> Module:
        for function in module.functions:
            RULES.apply(function)
        return module
