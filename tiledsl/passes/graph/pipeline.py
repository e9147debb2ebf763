"""The passes of a graph, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, free_names
from tiledsl.ir.verifier import Form, is_tile_function
from tiledsl.passes.graph.groups.fuse_into_calls import FuseIntoCalls
from tiledsl.passes.graph.groups.group import Group
from tiledsl.passes.graph.groups.lay_products import LayProducts
from tiledsl.passes.graph.groups.split_folds import SplitFolds
from tiledsl.passes.graph.groups.split_scans import SplitScans
from tiledsl.passes.graph.kernels.graph_to_tile import GraphToTile
from tiledsl.passes.graph.kernels.join_calls import JoinCalls
from tiledsl.passes.graph.loops.hoist_products import HoistProducts
from tiledsl.passes.graph.loops.loops_in_kernels import LoopsInKernels
from tiledsl.passes.graph.loops.split_gates import SplitGates
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
from tiledsl.passes.manager import Pass, PassContext, PassManager


def graph_pipeline(arch: str, *, fuse: bool = True, of_step: bool = False) -> list[Pass]:
    """From a traced graph whose sizes are numbers to calls of tile programs, for one target.

    `fuse=False`: a kernel for each op, to compare with. `of_step`: of a loop, where launches are few and short.
    """
    groups: list[Pass] = [Group(arch=arch, fuse=fuse)]
    return [*before_groups(arch, fuse=fuse, of_step=of_step), *groups, *after_groups(arch, fuse=fuse)]


def before_groups(arch: str, *, fuse: bool = True, of_step: bool = False) -> list[Pass]:
    """The passes in front of the one that decides which ops are kernels together."""
    return [
        ChooseSerial(arch=arch),
        CanonicaliseGraph(),
        *([HoistProducts(), LoopsInKernels(arch=arch)] if fuse else []),
        *([RaisePrograms(arch=arch), TurnFields(arch=arch)] if fuse else []),
        *([ShiftJoins(arch=arch), SplitColumns(arch=arch)] if fuse else []),
        *([PaddedViews(arch=arch)] if fuse else []),
        *([LateMerges(), EarlyLookups(arch=arch), MoveReindexing(), EarlyLookups(arch=arch)] if fuse else []),
        *([NarrowIntegers(arch=arch)] if fuse else []),
        *([SmallProducts(arch=arch)] if fuse else []),
        *([SplitGates(arch=arch)] if fuse and of_step else []),
        *([JoinPatches(arch=arch)] if fuse else []),
        *([WidenGroups(arch=arch), JoinResidues(arch=arch), WidenColumns(arch=arch)] if fuse else []),
        *([SumPositions(arch=arch)] if fuse else []),
        *([SplitWindows(arch=arch), CopyWindows(arch=arch), LayImages(arch=arch)] if fuse else []),
        *([SlideWindows(arch=arch), ShiftSlices(arch=arch), SplitFloats(arch=arch)] if fuse else []),
        *([LayProducts(arch=arch)] if fuse else []),
        WidenFloats(),
        *([FuseIntoCalls(arch=arch)] if fuse else []),
        SplitScans(arch=arch),
        SplitFolds(arch=arch),
        DeriveOnline(),
        *([RepeatMaps(arch=arch)] if fuse else []),
        ReshapeNarrow(),
        *([ChannelsLast(arch=arch), CopyFields(arch=arch), CopyPadded(arch=arch)] if fuse else []),
    ]


def after_groups(arch: str, *, fuse: bool = True) -> list[Pass]:
    """The passes behind it."""
    return [
        DropRoundings(),
        Materialise(records=arch.startswith("sm_"), masked=arch.startswith("sm_")),
        GraphToTile(arch=arch),
        *([Materialise()] if arch.startswith("sm_") else []),  # joins of elements that are no records after all
        *([JoinCalls(arch=arch)] if fuse else []),
        LowerSteps(arch=arch, fuse=fuse),
        CanonicaliseGraph(),
    ]


@dataclass(frozen=True)
class LowerSteps:
    """Lowers the steps of the loops that are left, each by the whole pipeline: what is launched for a step is planned
    once.

    func @step(%c, %x, %w) {                               func @step(%c, %x, %w) {
      %p = graph.contract(%c, %w) ...             =>         %n = graph.call([%c, %w, %x]) {callee = step_0}
      %n = graph.map([%p, %x]) {fn = add}                    graph.return([%n])
      graph.return([%n])                                   }
    }
    """

    name: ClassVar[str] = "lower-steps"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"
    fuse: bool = True

    def run(self, module: Module, context: PassContext) -> Module:
        looped = dict.fromkeys(op.callee for op in module.entry.body.ops if isinstance(op, ops.Loop))
        if not looped:
            return module
        manager = PassManager(graph_pipeline(self.arch, fuse=self.fuse, of_step=True))
        functions = [f for f in module.functions if f is module.entry or is_tile_function(f)]
        for name in looped:
            within = [f for f in module.functions if f.name != name and f is not module.entry]
            lowered = manager.run(Module([module.function(name), *within]), context)
            _add(functions, lowered, {function.name for function in module.functions})
        return Module([*functions[:1], *sorted(functions[1:], key=is_tile_function)])


def _add(functions: list[Function], lowered: Module, names: set[str]) -> None:
    """Adds the functions of a lowered step; those that are new under names that neither they nor `names` have."""
    taken = names | {function.name for function in functions}
    known = {Module([f]).structure(locations=False): f.name for f in functions}
    renamed: dict[str, str] = {}
    for function in lowered.functions:
        key = Module([function]).structure(locations=False)
        if known.get(key) == function.name:
            continue
        name = function.name if function is lowered.entry else free_names(taken, function.name)
        renamed[function.name] = name
        taken.add(name)
        function.name = name
        functions.append(function)
    for op in lowered.walk():
        if isinstance(op, (ops.Call, ops.Loop)):
            op.attributes["callee"] = renamed.get(op.callee, op.callee)
