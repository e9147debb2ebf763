"""Every pass by its name in text."""

from __future__ import annotations

from tiledsl.passes.gpu.lower.tidy import Tidy
from tiledsl.passes.gpu.lower_to_gpu import LowerToGpu
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
from tiledsl.passes.graph.groups.fuse_into_calls import FuseIntoCalls
from tiledsl.passes.graph.groups.group import Group
from tiledsl.passes.graph.groups.lay_products import LayProducts
from tiledsl.passes.graph.groups.split_folds import SplitFolds
from tiledsl.passes.graph.groups.split_scans import SplitScans
from tiledsl.passes.graph.kernels.graph_to_tile import GraphToTile
from tiledsl.passes.graph.kernels.join_calls import JoinCalls
from tiledsl.passes.graph.loops.elementwise_products import ElementwiseProducts
from tiledsl.passes.graph.loops.hoist_products import HoistProducts
from tiledsl.passes.graph.loops.loops_in_kernels import LoopsInKernels
from tiledsl.passes.graph.loops.split_gates import SplitGates
from tiledsl.passes.graph.pipeline import LowerSteps
from tiledsl.passes.graph.raising.raise_programs import RaisePrograms
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.channels_last import ChannelsLast
from tiledsl.passes.graph.rewrites.choose_serial import ChooseSerial
from tiledsl.passes.graph.rewrites.copy_fields import CopyFields
from tiledsl.passes.graph.rewrites.derive_online import DeriveOnline
from tiledsl.passes.graph.rewrites.early_lookups import EarlyLookups
from tiledsl.passes.graph.rewrites.late_merges import LateMerges
from tiledsl.passes.graph.rewrites.materialise import Materialise
from tiledsl.passes.graph.rewrites.move_reindexing import MoveReindexing
from tiledsl.passes.graph.rewrites.narrow_integers import NarrowIntegers
from tiledsl.passes.graph.rewrites.padded_views import PaddedViews
from tiledsl.passes.graph.rewrites.repeat_maps import RepeatMaps
from tiledsl.passes.graph.rewrites.set_sizes import SetSizes
from tiledsl.passes.graph.rewrites.shift_joins import ShiftJoins
from tiledsl.passes.graph.rewrites.shift_slices import ShiftSlices
from tiledsl.passes.graph.rewrites.small_products import SmallProducts
from tiledsl.passes.graph.rewrites.split_floats import SplitFloats
from tiledsl.passes.graph.rewrites.turn_fields import TurnFields
from tiledsl.passes.graph.rewrites.widen_floats import DropRoundings, ReshapeNarrow, WidenFloats
from tiledsl.passes.graph.rewrites.windows.copy_padded import CopyPadded
from tiledsl.passes.graph.rewrites.windows.copy_windows import CopyWindows
from tiledsl.passes.graph.rewrites.windows.join_patches import JoinPatches
from tiledsl.passes.graph.rewrites.windows.join_residues import JoinResidues
from tiledsl.passes.graph.rewrites.windows.lay_images import LayImages
from tiledsl.passes.graph.rewrites.windows.slide_windows import SlideWindows
from tiledsl.passes.graph.rewrites.windows.split_columns import SplitColumns
from tiledsl.passes.graph.rewrites.windows.split_windows import SplitWindows
from tiledsl.passes.graph.rewrites.windows.sum_positions import SumPositions
from tiledsl.passes.graph.rewrites.windows.widen_columns import WidenColumns
from tiledsl.passes.graph.rewrites.windows.widen_groups import WidenGroups
from tiledsl.passes.manager import Pass
from tiledsl.passes.nest.describe_nest import PrintLoopNests
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

_KINDS: tuple[type[Pass], ...] = (
    SetSizes,
    ChooseSerial,
    CanonicaliseGraph,
    ChannelsLast,
    WidenFloats,
    DeriveOnline,
    Group,
    DropRoundings,
    ReshapeNarrow,
    Materialise,
    GraphToTile,
    JoinCalls,
    ElementwiseProducts,
    HoistProducts,
    LoopsInKernels,
    LowerSteps,
    SplitGates,
    RaisePrograms,
    FuseIntoCalls,
    SplitFolds,
    SplitScans,
    CopyFields,
    CopyPadded,
    CopyWindows,
    LayImages,
    LayProducts,
    SlideWindows,
    ShiftJoins,
    ShiftSlices,
    SmallProducts,
    RepeatMaps,
    PaddedViews,
    LateMerges,
    EarlyLookups,
    MoveReindexing,
    SplitFloats,
    SplitColumns,
    SplitWindows,
    SumPositions,
    JoinPatches,
    JoinResidues,
    WidenColumns,
    WidenGroups,
    TurnFields,
    NarrowIntegers,
    InferShapes,
    Canonicalise,
    EliminateCommonSubexpressions,
    ClipRows,
    EliminateDeadCode,
    HoistLoopInvariants,
    SinkBehindLoops,
    MergeLoops,
    AccumulateProducts,
    NearFunctions,
    PlaceLevels,
    Bounds,
    InferTiling,
    PrintLoopNests,
    SplitSums,
    UnrollLoops,
    ForwardStores,
    LoadAhead,
    SplitProducts,
    SwapSides,
    TurnOperands,
    ApplyPlan,
    LowerToGpu,
    DelayFolds,
    RotateLoops,
    HoistLoads,
    JoinFields,
    JoinTurns,
    PeelMasks,
    ShareLoads,
    Tidy,
    FillLoads,
    SinkTiles,
    AllocateShared,
    InsertBarriers,
    InsertProxyFences,
)

PASSES: dict[str, type[Pass]] = {kind.name: kind for kind in _KINDS}
