"""Every pass by its name in text."""

from __future__ import annotations

from tiledsl.passes.manager import Pass
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.licm import HoistLoopInvariants

_KINDS: tuple[type[Pass], ...] = (EliminateCommonSubexpressions, EliminateDeadCode, HoistLoopInvariants)

PASSES: dict[str, type[Pass]] = {kind.name: kind for kind in _KINDS}
