"""Kernels written in Python: lowered for given arrays, and run in the reference executor."""

from __future__ import annotations

import itertools
import linecache
import math
import textwrap
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tiledsl import tile
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, ScalarArgument, TensorArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module, Op
from tiledsl.ir.dtypes import DType, f32, from_numpy
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.types import BlockSize
from tiledsl.ir.verifier import Form, verify

Array = npt.NDArray[Any]


def tensor(rank: int, dtype: DType = f32, shape: Sequence[int | str | None] | None = None) -> TensorArgument:
    """A tensor argument, row by row, of unknown sizes unless `shape` tells them."""
    sizes = (None,) * rank if shape is None else tuple(shape)
    return TensorArgument(dtype, sizes, rank - 1 if rank else None, (False,) * rank)


def lower(function: Callable[..., Any], **arguments: Argument | int) -> Module:
    """The verified TILE module of a kernel. An int stands for a tensor of that rank, of f32."""
    given = {name: tensor(a) if isinstance(a, int) else a for name, a in arguments.items()}
    module = lower_kernel(KernelSource(function), given)
    verify(module, Form.TILE)
    return module


def lower_text(function: Callable[..., Any], **arguments: Argument | int) -> str:
    """The text of `lower`."""
    return print_module(lower(function, **arguments))


_counter = itertools.count()


def kernel_from_text(text: str, **names: object) -> Callable[..., Any]:
    """The last function of some Python source that can be read as if it stood in a file; `names` are its globals."""
    file = f"<kernel {next(_counter)}>"
    source = textwrap.dedent(text)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tile": tile, "math": math, "np": np, **names}
    exec(compile(source, file, "exec"), scope)
    functions = [value for value in scope.values() if isinstance(value, FunctionType)]
    return functions[-1]


def argument_for(value: object) -> Argument:
    """What a kernel is specialised on for an array or a number; other values are compile-time."""
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        dtype = from_numpy(array.dtype)
        assert dtype is not None
        return tensor(array.ndim, dtype)
    if isinstance(value, (bool, int, float)):
        return ScalarArgument("bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float")
    return ConstantArgument(value)


def run_kernel(
    function: Callable[..., Any],
    *arguments: Any,
    constants: dict[str, object] | None = None,
    block: int = 7,
    output: Callable[[str], None] = print,
) -> tuple[Array, ...]:
    """Runs a kernel on arrays and numbers in the reference executor; blocks that are not given are of `block`.

    The module passes through its text first, so that every kernel also tests the printer and the parser.
    """
    source = KernelSource(function)
    names = [name for name in source.signature.parameters if name not in (constants or {})]
    given: dict[str, Argument] = {name: argument_for(value) for name, value in zip(names, arguments)}
    given |= {name: ConstantArgument(value) for name, value in (constants or {}).items()}
    module = lower_kernel(source, given)
    verify(module, Form.TILE)
    again = parse_module(print_module(module, locations=True))

    def choose(op: Op, axis: int, size: BlockSize) -> int:
        del op, axis, size
        return block

    return execute(again.entry, arguments, blocks=choose, output=output)
