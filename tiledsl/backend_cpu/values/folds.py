"""How a reduction folds: its identity, how two partial results combine, how the lanes of one collapse."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu.functions.convert import convert
from tiledsl.backend_cpu.functions.vector_math import emit_map
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.backend_cpu.values.access import mask_type
from tiledsl.backend_cpu.values.context import Context
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType, compute_dtype
from tiledsl.ir.fold_identities import fold_identity

COMBINERS = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum", "and": "and", "or": "or"}
"""The scalar function that combines two partial results of a named fold."""


def identity(fn: str, dtype: DType) -> str:
    """What a fold of elements of `dtype` starts from, as a literal of the type that it is carried in."""
    return o.literal(fold_identity(fn, dtype), accumulator_dtype(dtype))


def accumulator_dtype(dtype: DType) -> DType:
    """What a fold of `dtype` is carried in: f32 for narrow floats."""
    return compute_dtype(dtype)


def combine(writer: FunctionWriter, fn: str, type_: VectorType, left: str, right: str) -> str:
    """Two partial results of a named fold as one."""
    return emit_map(writer, COMBINERS[fn], type_, [left, right])


def collapse(writer: FunctionWriter, fn: str, type_: VectorType, vector: str) -> str:
    """The lanes of a partial result as one scalar, by halves."""
    while type_.lanes > 1:
        parts = halves(writer, type_, vector)
        type_ = VectorType(type_.dtype, type_.lanes // 2)
        vector = combine(writer, fn, type_, *parts)
    return vector


def halves(writer: FunctionWriter, type_: VectorType, vector: str) -> tuple[str, str]:
    """The lower and the upper lanes of a vector; of two lanes, two scalars."""
    half = type_.lanes // 2
    if half == 1:
        low, high = (writer.emit(f"extractelement {type_} {vector}, i64 {start}") for start in (0, 1))
    else:
        low, high = (
            writer.emit(f"shufflevector {type_} {vector}, {type_} poison, {_lanes_mask(start, half)}")
            for start in (0, half)
        )
    return low, high


def _lanes_mask(start: int, count: int) -> str:
    return f"<{count} x i32> <" + ", ".join(f"i32 {start + i}" for i in range(count)) + ">"


def emit_combiner(context: Context, block: Block, arguments: Sequence[str], lanes: int) -> list[str]:
    """A user's combiner over vectors: its scalar ops, each lane on its own. Gives the yielded operands."""
    return _run(context, block, dict(zip(block.arguments, arguments)), lanes)


def _run(context: Context, block: Block, known: dict[Value, str], lanes: int) -> list[str]:
    writer = context.writer

    def operand(value: Value) -> str:
        if value in known:
            return known[value]
        return writer.splat(VectorType(value.dtype, lanes), context.scalars[value])

    for op in block.ops:
        match op:
            case ops.Map():
                type_ = VectorType(op.inputs[-1].dtype, lanes)
                known[op.result] = emit_map(writer, op.fn, type_, [operand(v) for v in op.inputs])
            case ops.Cast():
                type_ = VectorType(op.source.dtype, lanes)
                known[op.result] = convert(writer, operand(op.source), type_, type_.of(op.dtype))
            case ops.Constant():
                known[op.result] = writer.splat(VectorType(op.dtype, lanes), o.literal(op.value, op.dtype))
            case ops.If():  # both branches, lane by lane: nothing in a combiner has an effect
                yes, no = (_run(context, branch, known, lanes) for branch in (op.then, op.otherwise))
                for result, a, b in zip(op.results, yes, no):
                    type_, chosen = VectorType(result.dtype, lanes), operand(op.condition)
                    known[result] = writer.emit(f"select {mask_type(lanes)} {chosen}, {type_} {a}, {type_} {b}")
            case ops.Yield():
                return [operand(v) for v in op.values]
            case _:
                raise AssertionError(f"{op.name} in a combiner")
    raise AssertionError("a combiner ends in a yield")
