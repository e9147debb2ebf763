"""Kernels and formulas as operators of PyTorch: within `torch.compile`, `torch.export` and CUDA graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tiledsl.frontend.language.values import TensorSpec
from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.frontend.trace.trace_function import trace_function
from tiledsl.frontend.trace.trace_shapes import entries_of
from tiledsl.frontend.trace.traced_graph import TracedGraph
from tiledsl.importers.torch.layouts import to_numpy_array, to_tensor
from tiledsl.importers.torch.run_nodes import CUSTOM
from tiledsl.ir.dtypes import to_numpy
from tiledsl.ir.symbolic import evaluate
from tiledsl.ir.types import TensorType
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail

_SCALARS = {"int": "int", "float": "float", "bool": "bool", "str": "str"}


def custom_op(kernel: Any, name: str | None = None, *, results: int = 1, schema: str | None = None) -> Any:
    """The operator `name` ("library::operator"; default: `tiledsl::` and the kernel's name) that runs a kernel.

    It takes tensors and scalars as the kernel does, gives `results` new tensors (one, or a tuple), and tells PyTorch
    their shapes without running. Models that are compiled for tiledsl, or imported, have the kernel in their graphs.
    Parameters are tensors unless they are annotated as `int`, `float`, `bool` or `str`, or have a default of such a
    class; else give the `schema` as `torch.library` wants it: "(Tensor x, float factor) -> Tensor". Gives what
    `torch.library.custom_op` does, so that gradients can be added by `register_autograd`.

    >>> scaled = tiledsl.torch.custom_op(scale)
    >>> torch.compile(lambda x: scaled(x, 2.0) + 1)

    Raises TileTypeError for what is neither a kernel nor a function.
    """
    if not callable(kernel):
        fail("torch-custom-op", caller_location(), what=type(kernel).__name__)
    signature = inspect.signature(getattr(kernel, "__wrapped__", kernel))
    own = getattr(kernel, "__name__", "operator").strip("<>")
    name = name or f"tiledsl::{own}"
    given = schema or f"({', '.join(map(_declared, signature.parameters.values()))}) -> {_returned(results)}"

    def run(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        passed = _passed(tensors)
        result: Any = kernel(*map(passed, args), **{key: passed(value) for key, value in kwargs.items()})
        many = entries_of(result)
        made = tuple(v if isinstance(v, torch.Tensor) else to_tensor(v, _torch_dtype(v.dtype)) for v in many)
        return made if results > 1 else made[0]

    def fake(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        device = next(v.device for v in bound.arguments.values() if isinstance(v, torch.Tensor))
        sizes: dict[str, Any] = {}
        try:
            made = _made(_traced(kernel, signature, bound.arguments, sizes), sizes, device)
        except TileError:  # it asks for a size that is open: known, it is one that the model is compiled for
            if not sizes:
                raise
            made = _made(_traced(kernel, signature, bound.arguments, None), {}, device)
        return made if results > 1 else made[0]

    made = torch.library.custom_op(name, run, mutates_args=(), schema=given)
    made.register_fake(fake)
    CUSTOM[made._opoverload] = kernel
    return made


def _declared(parameter: inspect.Parameter) -> str:
    """A parameter as a schema has it: `float factor=1.0`."""
    default = parameter.default
    has_default = default is not inspect.Parameter.empty and isinstance(default, (int, float, str))
    annotation: Any = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    kind = _SCALARS.get(text) or (type(default).__name__ if has_default else "Tensor")
    written = f'"{default}"' if isinstance(default, str) else default
    return f"{kind} {parameter.name}" + (f"={written}" if has_default else "")


def _returned(results: int) -> str:
    return "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"


def _passed(tensors: Sequence[Any]) -> Callable[[Any], Any]:
    """How arguments are passed: tensors on a device as they are, those in CPU memory as arrays over it."""
    on_cuda = any(tensor.is_cuda for tensor in tensors)

    def passed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach() if on_cuda else to_numpy_array(value)

    return passed


def _spec(value: Any, sizes: dict[str, Any] | None) -> Any:
    """A tensor as its dtype and shape; sizes that are open have names, which `sizes` gets, or are made known."""
    if not isinstance(value, torch.Tensor):
        return value
    dtype = array_dtype(value)
    if dtype is None:
        fail("torch-custom-dtype", caller_location(), dtype=value.dtype)
    shape: list[int | str] = []
    for size in value.shape:
        if isinstance(size, int) or sizes is None:
            shape.append(int(size))
        else:
            known = next((name for name, one in sizes.items() if str(one) == str(size)), f"size_{len(sizes)}")
            sizes[known] = size
            shape.append(known)
    return TensorSpec(tuple(shape), dtype)


def _traced(
    kernel: Any, signature: inspect.Signature, arguments: Mapping[str, Any], sizes: dict[str, Any] | None
) -> TracedGraph:
    """The graph of a call of the kernel, of which only what it returns is looked at."""
    specs = {key: _spec(value, sizes) for key, value in arguments.items()}

    def formula(*args: Any, **kwargs: Any) -> Any:
        return kernel(*args, **kwargs)

    formula.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] - what `inspect` looks for
    return trace_function(formula, (), specs)


def _made(graph: TracedGraph, sizes: Mapping[str, Any], device: Any) -> tuple[Any, ...]:
    """Tensors without data of what a graph returns."""
    last = graph.module.entry.body.terminator
    assert last is not None
    made: list[Any] = []
    for value in last.operands:
        type_ = value.type
        assert isinstance(type_, TensorType)
        shape = [evaluate(dim, sizes) for dim in type_.shape]
        made.append(torch.empty(shape, dtype=_torch_dtype(to_numpy(type_.dtype)), device=device))
    return tuple(made)


def _torch_dtype(dtype: Any) -> Any:
    """PyTorch's dtype of the name that NumPy's has."""
    return getattr(torch, dtype.name)
