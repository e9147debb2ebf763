"""What a command is given to work on: a kernel, a formula, a graph, a saved module, a model of PyTorch or of ONNX."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

import tiledsl
from tiledsl.api import Kernel
from tiledsl.api.graphs.fused import BuiltGraph, FusedGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.modules.module import Module, load
from tiledsl.cli.draw import Draw, below, draw_for_specs, shape_of
from tiledsl.cli.python_files import load_names, split_target
from tiledsl.ir.dtypes import DType, from_array_name
from tiledsl.ir.types import TensorType
from tiledsl.runtime.arrays.arrays import Array, is_numpy, numpy_array
from tiledsl.runtime.arrays.frameworks import numpy_name
from tiledsl.support.errors import fail

TARGET = "FILE.py:NAME, a saved module, or FILE.onnx"


@dataclass(frozen=True)
class TorchModel:
    """A module of PyTorch."""

    name: str
    module: Any


def load_target(target: str) -> Kernel[Any] | Graph | Module | TorchModel:
    """What `FILE.py:NAME`, the path of a saved module, or `FILE.onnx` stands for. TileError if there is nothing."""
    if target.endswith(".onnx"):
        need("onnx", "onnx", f"reading `{target}`")
        return tiledsl.from_onnx(target)
    if ":" not in target and Path(target).is_file() and not target.endswith(".py"):
        return load(target)
    file, name = split_target(target)
    names = load_names(file)
    found = _model(name, names.get(name))
    if found is None:
        known = [f"`{other}`" for other, value in names.items() if _model(other, value) is not None]
        fail("command-model", None, file=file, name=name, known=", ".join(known) or "it has none")
    return found


def _model(name: str, value: Any) -> Kernel[Any] | Graph | Module | TorchModel | None:
    if isinstance(value, Kernel):
        return cast("Kernel[Any]", value)
    if isinstance(value, (Graph, Module)):
        return value
    if isinstance(value, FusedGraph):
        return value.graph
    if isinstance(value, BuiltGraph):
        return value.fused.graph
    torch: Any = sys.modules.get("torch")  # who has a model of PyTorch, has imported it
    if torch is not None and isinstance(value, torch.nn.Module):
        return TorchModel(name, value)
    return None


def need(module: str, extra: str, what: str) -> Any:
    """A package that an extra of this one brings. TileRuntimeError if it is not installed."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        install = f"pip install 'tiledsl[{extra}]'" if extra else f"pip install {module}"
        fail("command-package", None, what=what, package=module, install=install)


def graph_arguments(graph: Graph, sizes: Mapping[str, int], random: np.random.Generator) -> list[Array]:
    """Random arrays for the inputs of a graph. Raises TileShapeError for sizes that nobody tells."""
    types = {parameter.name: parameter.type for parameter in graph.module.entry.parameters}
    shapes: list[tuple[tuple[int, ...], DType]] = []
    for name in graph.inputs:
        type_ = types[name]
        assert isinstance(type_, TensorType)
        shapes.append((shape_of(f"{name} {type_}", type_.shape, sizes), type_.dtype))
    draw = Draw(random, below(shape for shape, _ in shapes))
    return [draw.array(shape, dtype) for shape, dtype in shapes]


def torch_arguments(
    model: TorchModel, specs: Sequence[str], sizes: Mapping[str, int], random: np.random.Generator
) -> list[Any]:
    """Random tensors of PyTorch, one for each specification. Raises TileTypeError if there are none."""
    if not specs:
        fail("command-examples", None, model=model.name)
    torch = need("torch", "torch", f"`{model.name}`")
    return [_as_tensor(torch, value) for value in draw_for_specs(specs, sizes, random)]


def _as_tensor(torch: Any, value: Any) -> Any:
    if not is_numpy(value):
        return value
    array = numpy_array(value)
    name = numpy_name(array.dtype)
    dtype = from_array_name(name)
    if dtype is not None and dtype.is_float and dtype.name not in ("f16", "f32", "f64"):  # NumPy hands over no others
        return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, name))
    return torch.from_numpy(array)


def graph_of_torch(model: TorchModel, examples: Sequence[Any]) -> Graph:
    """The graph of a model, in eval mode, for arguments like these."""
    return tiledsl.from_torch(model.module.eval(), *examples)
