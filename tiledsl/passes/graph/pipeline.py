"""The passes of a graph, in order."""

from __future__ import annotations

from tiledsl.passes.graph.groups.fuse_into_calls import FuseIntoCalls
from tiledsl.passes.graph.groups.group import Group
from tiledsl.passes.graph.groups.split_folds import SplitFolds
from tiledsl.passes.graph.groups.split_scans import SplitScans
from tiledsl.passes.graph.kernels.graph_to_tile import GraphToTile
from tiledsl.passes.graph.kernels.join_calls import JoinCalls
from tiledsl.passes.graph.loops.loops_in_kernels import LoopsInKernels
from tiledsl.passes.graph.raising.raise_programs import RaisePrograms
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.copy_windows import CopyWindows
from tiledsl.passes.graph.rewrites.derive_online import DeriveOnline
from tiledsl.passes.graph.rewrites.lay_images import LayImages
from tiledsl.passes.graph.rewrites.materialise import Materialise
from tiledsl.passes.graph.rewrites.move_reindexing import MoveReindexing
from tiledsl.passes.graph.rewrites.repeat_maps import RepeatMaps
from tiledsl.passes.graph.rewrites.slide_windows import SlideWindows
from tiledsl.passes.graph.rewrites.split_floats import SplitFloats
from tiledsl.passes.graph.rewrites.split_windows import SplitWindows
from tiledsl.passes.graph.rewrites.widen_floats import DropRoundings, ReshapeNarrow, WidenFloats
from tiledsl.passes.manager import Pass


def graph_pipeline(arch: str, *, fuse: bool = True) -> list[Pass]:
    """From a traced graph whose sizes are numbers to calls of tile programs, for one target.

    `fuse=False`: a kernel for each op, to compare with.
    """
    return [
        CanonicaliseGraph(),
        *([LoopsInKernels(arch=arch)] if fuse else []),
        *([RaisePrograms(arch=arch), MoveReindexing()] if fuse else []),
        *([SplitWindows(arch=arch), CopyWindows(arch=arch), LayImages(arch=arch)] if fuse else []),
        *([SlideWindows(arch=arch), SplitFloats(arch=arch)] if fuse else []),
        WidenFloats(),
        *([FuseIntoCalls(arch=arch)] if fuse else []),
        SplitScans(arch=arch),
        SplitFolds(arch=arch),
        DeriveOnline(),
        *([RepeatMaps(arch=arch)] if fuse else []),
        ReshapeNarrow(),
        Group(arch=arch, fuse=fuse),
        DropRoundings(),
        Materialise(),
        GraphToTile(arch=arch),
        *([JoinCalls(arch=arch)] if fuse else []),
        CanonicaliseGraph(),
    ]
