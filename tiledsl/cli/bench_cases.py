"""What `tiledsl bench` times: a model with arguments of one batch and one dtype, on one device."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.api import Kernel
from tiledsl.api.graphs.fused import FusedGraph
from tiledsl.api.graphs.graph import Graph
from tiledsl.api.modules.module import Module
from tiledsl.cli.draw import Draw, below, draw_for_specs
from tiledsl.cli.load_model import TorchModel, graph_arguments, graph_of_torch, need, torch_arguments
from tiledsl.ir.dtypes import DType, from_array_name
from tiledsl.runtime.arrays.arrays import Array, is_numpy
from tiledsl.runtime.arrays.frameworks import numpy_name
from tiledsl.support.errors import fail

BATCH = "B"
"""The size that `--batch` sets."""
_FLOAT = re.compile(r"^\s*(f64|f32|f16|bf16|f8e4m3|f8e5m2)(?=\s*\[)")


@dataclass(frozen=True)
class Case:
    """`call` is what tiledsl made of the model, for `arguments`; `graph` what it was made of, with `sizes`;
    `torch_model` a model of PyTorch that means the same; `onnx` the file of the model."""

    name: str
    batch: int | None
    dtype: str | None
    device: str
    arguments: Sequence[Any]
    call: Any
    graph: Graph | None = None
    sizes: Mapping[str, int] | None = None
    torch_model: Any = None
    onnx: str = ""


def cases_of(
    target: str,
    model: Kernel[Any] | Graph | Module | TorchModel,
    specs: Sequence[str],
    sizes: Mapping[str, int],
    batch: int | None,
    dtype: str | None,
    device: str,
) -> Case:
    """The case for one batch and one dtype. Raises TileError for what does not fit the model."""
    random = np.random.default_rng(0)
    if isinstance(model, (Graph, Module)) and dtype is not None:
        fail("command-dtype", None, dtype=dtype, what=f"`{target}`")
    texts = specs if dtype is None else [_FLOAT.sub(dtype, text) for text in specs]
    named = dict.fromkeys(name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text.partition("[")[2]))
    match model:
        case Kernel():
            sizes = with_batch(target, list(named), sizes, batch)
            drawn = placed(list(draw_for_specs(texts, sizes, random)), device)
            if not model.is_tensor_form:
                return Case(target, batch, dtype, device, drawn, model)
            compiled: Any = model.compile(*drawn)
            return Case(target, batch, dtype, device, drawn, compiled.built, compiled.graph, {})
        case TorchModel():
            return _torch_case(
                target, model, texts, with_batch(target, list(named), sizes, batch), batch, dtype, device
            )
        case Graph():
            sizes = with_batch(target, list(FusedGraph(model).symbols), sizes, batch)
            given: list[Any] = list(graph_arguments(model, sizes, random))
            fused = FusedGraph(model)
            built = fused.build(
                "cpu" if device == "cpu" else None, tuning=None, device=None, freeze=False, **dict(sizes)
            )
            onnx = target if target.endswith(".onnx") else ""
            return Case(target, batch, dtype, device, placed(given, device), built, model, sizes, None, onnx)
        case Module():
            if batch is not None:
                advice = "leave `--batch` out; a saved module is for the sizes that it was built with"
                fail("command-batch", None, size=BATCH, what=f"`{target}` is a saved module", advice=advice)
            return Case(target, None, None, device, placed(arguments_of_saved(model, random), device), model)


def _torch_case(
    target: str, model: TorchModel, texts: Sequence[str], sizes: Mapping[str, int], batch: int | None,
    dtype: str | None, device: str,
) -> Case:  # fmt: skip
    torch = need("torch", "torch", f"`{target}`")
    need_device(torch, device)
    module = model.module.eval().to(device)
    if dtype is not None:
        module = module.to(getattr(torch, _torch_name(dtype)))
    examples = [
        example.to(device) if hasattr(example, "data_ptr") else example
        for example in torch_arguments(model, texts, sizes, np.random.default_rng(0))
    ]
    graph = graph_of_torch(TorchModel(model.name, module), examples)
    built = FusedGraph(graph).build("cpu" if device == "cpu" else None)
    return Case(target, batch, dtype, device, examples, built, graph, {}, module)


def _torch_name(dtype: str) -> str:
    names = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
    return next(name for name in names if _is(from_array_name(name), dtype))


def _is(found: DType | None, name: str) -> bool:
    return found is not None and found.name == name


def with_batch(what: str, names: Sequence[str], sizes: Mapping[str, int], batch: int | None) -> dict[str, int]:
    """The sizes with that of the batch: `B`, or the only one that nobody said."""
    if batch is None:
        return dict(sizes)
    left = [name for name in names if name not in sizes]
    size = BATCH if BATCH in left else left[0] if len(left) == 1 else None
    if size is None:
        known = f"the sizes of `{what}` are {', '.join(left)}" if left else f"`{what}` leaves no size open"
        advice = f"call one `{BATCH}`, or set all others by `--size NAME=NUMBER`"
        fail("command-batch", None, size=BATCH, what=known, advice=advice)
    return {**sizes, size: batch}


def arguments_of_saved(module: Module, random: np.random.Generator) -> list[Any]:
    """Random arrays for the inputs of a saved module."""
    schedule = module.built.schedule
    buffers = [schedule.buffers[number] for number in schedule.inputs]
    draw = Draw(random, below(buffer.shape for buffer in buffers))
    return [draw.array(buffer.shape, buffer.dtype) for buffer in buffers]


def placed(values: Sequence[Any], device: str) -> list[Any]:
    """Arrays where they are wanted: on a device as tensors of PyTorch."""
    if device == "cpu":
        return list(values)
    torch = need("torch", "torch", "`--device cuda`")
    need_device(torch, device)
    return [_on_device(torch, value) if is_numpy(value) else value for value in values]


def _on_device(torch: Any, value: Array) -> Any:
    name = numpy_name(value.dtype)
    if name.startswith(("bfloat", "float8")):  # NumPy hands over no others
        return torch.from_numpy(value.astype(np.float32)).to(getattr(torch, name)).cuda()
    return torch.from_numpy(value).cuda()


def need_device(torch: Any, device: str) -> None:
    """Raises TileRuntimeError where PyTorch has no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        fail("command-device", None)
