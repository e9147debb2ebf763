"""What folds two partial results into one: a scalar function, a comparison with positions, or the user's own block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.functions.scalars import c_type, register_dtype
from tiledsl.backend_cuda.functions.storage import Scalar
from tiledsl.ir.core import Block
from tiledsl.ir.dtypes import DType, i32, u32
from tiledsl.ir.gpu.gpu_ops import Reduce, Scan

_FUNCTIONS = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
_WARP_INSTRUCTIONS = {"add": "__reduce_add_sync", "max": "__reduce_max_sync", "min": "__reduce_min_sync"}


@dataclass(frozen=True)
class Combiner:
    """`function` is the row of SCALAR_FUNCTIONS, or `call` the C function that combines in place."""

    preamble: Preamble
    function: str = ""
    dtype: DType = i32
    call: str = ""

    @property
    def is_builtin(self) -> bool:
        return bool(self.function)

    @property
    def warp_instruction(self) -> str:
        """What folds over the lanes of a warp at once; empty if there is nothing."""
        return _WARP_INSTRUCTIONS.get(self.function, "") if self.dtype in (i32, u32) else ""

    def combined(self, left: str, right: str) -> str:
        """Two partial results as one, of a builtin."""
        return scalar_function(self.function, self.dtype, [left, right], self.preamble)

    def into(self, targets: Sequence[str], others: Sequence[str]) -> str:
        """The statement that folds the others into the targets; targets come first in order."""
        if self.is_builtin:
            return f"{targets[0]} = {self.combined(targets[0], others[0])};"
        return f"{self.call}({', '.join([*targets, *others])});"


def folded_dtypes(fn: str, dtypes: Sequence[DType]) -> list[DType]:
    """The types that are folded in: f32, i32 and u32 for narrow numbers, and an index beside an extremum.

    The values of a custom combiner have its own types, which stand in registers of those."""
    if fn == "custom":
        return list(dtypes)
    wide = [register_dtype(dtype) for dtype in dtypes]
    return [*wide, i32] if fn in ("argmax", "argmin") else wide


def combiner_of(frame: KernelFrame, op: Reduce | Scan, body: Callable[[KernelFrame, Block], None]) -> Combiner:
    """The combiner of an op; a custom one is written down as a function that takes the place of the left operands."""
    dtype = register_dtype(op.sources[0].dtype)
    if op.fn == "custom":
        return Combiner(frame.preamble, call=_custom(frame, op, body))
    if op.fn in ("argmax", "argmin"):
        stem = "larger" if op.fn == "argmax" else "smaller"
        return Combiner(frame.preamble, call=frame.use(f"take_{stem}_{dtype}"))
    return _builtin(frame, op.fn, dtype)


def extreme_of(frame: KernelFrame, op: Reduce) -> Combiner:
    """What folds the values alone of an argmax or argmin."""
    return _builtin(frame, op.fn.removeprefix("arg"), register_dtype(op.sources[0].dtype))


def _builtin(frame: KernelFrame, fn: str, dtype: DType) -> Combiner:
    row = _FUNCTIONS[fn]
    if dtype.name == "bool" and fn in ("max", "min"):
        row = "or" if fn == "max" else "and"
    return Combiner(frame.preamble, function=row, dtype=dtype)


def _custom(frame: KernelFrame, op: Reduce | Scan, body: Callable[[KernelFrame, Block], None]) -> str:
    name = frame.names.fresh("combine")
    block = op.combiner
    count = len(op.sources)
    parameters: list[str] = []
    targets: list[str] = []
    for number, argument in enumerate(block.arguments):
        text = frame.names.fresh(of_program(argument.name or "operand"))
        frame.values[argument] = Scalar(text, argument.dtype)
        if number < count:
            targets.append(text)
        parameters.append(f"{c_type(argument.dtype)}{'&' if number < count else ''} {text}")
    with frame.block(f"const auto {name} = [&]({', '.join(parameters)})", "};"):
        body(frame, block)
        terminator = block.terminator
        assert terminator is not None
        results = [frame.scalar(v) for v in terminator.operands]
        if count > 1:
            results = [
                frame.define(c_type(v.dtype), of_program("new", target), text)
                for v, target, text in zip(terminator.operands, targets, results)
            ]
        for target, text in zip(targets, results):
            frame.line(f"{target} = {text};")
    return name
