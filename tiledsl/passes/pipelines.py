"""The pipelines of the back ends: each one list that reads like a contents page."""

from __future__ import annotations

from tiledsl.ir.symbolic import Dim
from tiledsl.passes.gpu.lower.tidy import Tidy
from tiledsl.passes.gpu.lower_to_gpu import LowerToGpu
from tiledsl.passes.gpu.plan import Plan, split_grids, swapped_grids
from tiledsl.passes.gpu.plans.apply_plan import ApplyPlan
from tiledsl.passes.gpu.sync.allocate_shared import AllocateShared
from tiledsl.passes.gpu.sync.insert_barriers import InsertBarriers
from tiledsl.passes.gpu.sync.insert_proxy_fences import InsertProxyFences
from tiledsl.passes.gpu.transforms.delay_folds import DelayFolds
from tiledsl.passes.gpu.transforms.fill_loads import FillLoads
from tiledsl.passes.gpu.transforms.hoist_loads import HoistLoads
from tiledsl.passes.gpu.transforms.join_fields import JoinFields
from tiledsl.passes.gpu.transforms.join_turns import JoinTurns
from tiledsl.passes.gpu.transforms.peel_masks import PeelMasks
from tiledsl.passes.gpu.transforms.rotate_loops import RotateLoops
from tiledsl.passes.gpu.transforms.share_loads import ShareLoads
from tiledsl.passes.gpu.transforms.sink_tiles import SinkTiles
from tiledsl.passes.manager import Pass
from tiledsl.passes.tile.bounds import Bounds
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.clip_rows import ClipRows
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.passes.tile.infer_tiling import InferTiling
from tiledsl.passes.tile.loops.accumulate import AccumulateProducts
from tiledsl.passes.tile.loops.forward_stores import ForwardStores
from tiledsl.passes.tile.loops.licm import HoistLoopInvariants
from tiledsl.passes.tile.loops.load_ahead import LoadAhead
from tiledsl.passes.tile.loops.merge_loops import MergeLoops
from tiledsl.passes.tile.loops.sink import SinkBehindLoops
from tiledsl.passes.tile.loops.split_sums import SplitSums
from tiledsl.passes.tile.loops.unroll_loops import UnrollLoops
from tiledsl.passes.tile.near_functions import NearFunctions
from tiledsl.passes.tile.place_levels import PlaceLevels
from tiledsl.passes.tile.split_products import SplitProducts
from tiledsl.passes.tile.swap_sides import SwapSides
from tiledsl.passes.tile.turn_operands import TurnOperands


def cpu_pipeline(*, arch: str = "cpu", sizes: tuple[tuple[str, Dim], ...] = ()) -> list[Pass]:
    """From what the front end gives to what the CPU back end takes, form `tile-tiled`.

    `arch` names a machine table (`cpu`: that of the context); `sizes` is what is known of symbols, as for InferShapes.
    """
    return [
        InferShapes(sizes=sizes),
        Canonicalise(),
        EliminateCommonSubexpressions(),
        HoistLoopInvariants(),
        ClipRows(),
        AccumulateProducts(),
        EliminateDeadCode(),
        PlaceLevels(),
        Bounds(),
        ForwardStores(),
        InferTiling(arch=arch),
        # known extents have made more sizes constants
        Canonicalise(),
        EliminateCommonSubexpressions(),
        EliminateDeadCode(),
    ]


def gpu_front_pipeline() -> list[Pass]:
    """What is done once for a specialisation, before plans are chosen: form `tile-placed`, blocks open."""
    return [
        InferShapes(),
        MergeLoops(),
        Canonicalise(),
        EliminateCommonSubexpressions(),
        HoistLoopInvariants(),
        SinkBehindLoops(),
        AccumulateProducts(),
        EliminateDeadCode(),
        NearFunctions(),
        PlaceLevels(),
        Bounds(early=True),
        ForwardStores(),
        LoadAhead(),
        EliminateDeadCode(),
    ]


def gpu_pipeline(plan: Plan, arch: str) -> list[Pass]:
    """From what `gpu_front_pipeline` gives to what the CUDA back end takes, for one plan."""
    return [
        *([TurnOperands(plan.turned)] if plan.turned else []),
        *([SplitSums(plan.parts)] if plan.parts else []),
        *([SwapSides(swapped_grids(plan))] if swapped_grids(plan) else []),
        *([SplitProducts(split_grids(plan))] if split_grids(plan) else []),
        ApplyPlan(plan),
        *([UnrollLoops(), Bounds(), ForwardStores(), LoadAhead()] if plan.forwarded else []),
        Bounds(),
        # sizes and extents that are known now
        Canonicalise(),
        NearFunctions(),
        EliminateCommonSubexpressions(),
        EliminateDeadCode(),
        LowerToGpu(plan, arch),
        DelayFolds(),
        RotateLoops(),
        PeelMasks(),
        *([JoinFields(plan.packed)] if any(plan.packed) else []),
        ShareLoads(plan.alignment),
        Tidy(),
        FillLoads(),
        SinkTiles(),
        JoinTurns(),
        HoistLoads(),
        AllocateShared(arch=arch),
        InsertBarriers(),
        InsertProxyFences(),
    ]
