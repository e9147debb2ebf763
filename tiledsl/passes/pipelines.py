"""The pipelines of the back ends: each one list that reads like a contents page."""

from __future__ import annotations

from tiledsl.ir.symbolic import Dim
from tiledsl.passes.manager import Pass
from tiledsl.passes.tile.bounds import Bounds
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.licm import HoistLoopInvariants
from tiledsl.passes.tile.place_levels import PlaceLevels


def cpu_pipeline(*, arch: str = "cpu", sizes: tuple[tuple[str, Dim], ...] = ()) -> list[Pass]:
    """From what the front end gives to what the CPU back end takes, form `tile-tiled`.

    `arch` names a machine table (`cpu`: that of the context); `sizes` is what is known of symbols, as for InferShapes.
    """
    return [
        InferShapes(sizes=sizes),
        Canonicalise(),
        EliminateCommonSubexpressions(),
        HoistLoopInvariants(),
        EliminateDeadCode(),
        PlaceLevels(),
        Bounds(),
        InferTiling(arch=arch),
        # known extents have made more sizes constants
        Canonicalise(),
        EliminateCommonSubexpressions(),
        EliminateDeadCode(),
    ]
