"""tiledsl: a tile compiler in Python.

    from tiledsl import tile

    @tile.kernel
    def gemm(a, b): ...

`tile` is the language. The errors that kernels raise are here, all of them kinds of `TileError`, and the
warning that they give.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tiledsl.support import catalogue as catalogue  # fills the table of messages
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import (
    TileError,
    TileLayoutError,
    TilePerformanceWarning,
    TileRaceError,
    TileResourceError,
    TileRuntimeError,
    TileShapeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
    fail,
)
from tiledsl.support.options import configure_log
from tiledsl.support.version import VERSION

# The rest stands on the table of messages.
from tiledsl import tile  # isort: skip
from tiledsl.api import CompiledKernel, Kernel  # isort: skip
from tiledsl.api.graphs.trace_and_fuse import fuse, trace  # isort: skip
from tiledsl.api.modules.module import Module, load  # isort: skip
from tiledsl.api.calls.plan_sources import tuned  # isort: skip
from tiledsl.api.kernels.tune import tune  # isort: skip
from tiledsl.api.calls.synchronise import synchronize  # isort: skip

if TYPE_CHECKING:
    from tiledsl import ops
    from tiledsl.importers import torch as torch
    from tiledsl.importers.onnx.from_onnx import from_onnx as from_onnx
    from tiledsl.importers.torch import from_torch as from_torch
    from tiledsl.ops.loops import scan as scan

__version__ = VERSION
__all__ = [
    "tile", "ops", "Kernel", "CompiledKernel", "trace", "fuse", "scan", "Module", "load", "synchronize",
    "tune", "tuned", "__version__",
    "TileError", "TileSyntaxError", "TileTypeError", "TileShapeError", "TileLayoutError", "TileResourceError",
    "TileUnsupportedError", "TileRuntimeError", "TileRaceError", "TilePerformanceWarning",
]  # fmt: skip

configure_log()


def __getattr__(name: str) -> Any:
    """What is loaded at first use: it costs start-up time, or asks for other packages."""
    if name == "ops":
        return import_module("tiledsl.ops")
    if name == "scan":
        return import_module("tiledsl.ops.loops").scan
    if name in ("torch", "from_torch"):
        if find_spec("torch") is None:
            fail("torch-absent", caller_location(), name=name)
        found = import_module("tiledsl.importers.torch")
        return found if name == "torch" else found.from_torch
    if name == "from_onnx":
        if find_spec("onnx") is None:
            fail("onnx-absent", caller_location())
        return import_module("tiledsl.importers.onnx.from_onnx").from_onnx
    raise AttributeError(f"module 'tiledsl' has no attribute {name!r}")
