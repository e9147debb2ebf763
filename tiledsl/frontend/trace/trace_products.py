"""Matrix products of whole tensors: one `graph.contract`, whose axes are named."""

from __future__ import annotations

from typing import Any

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language import tensors as language_tensors
from tiledsl.frontend.language.product_dtypes import ACCUMULATORS, operands_of_product
from tiledsl.frontend.trace.trace import Trace, describe, performs, records
from tiledsl.frontend.trace.trace_elementwise import apply, coerce, dtype_of, operand, tensor
from tiledsl.frontend.trace.trace_shapes import broadcast_exactly, reshaped
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.ir.core import InvalidIRError, Value
from tiledsl.ir.dtypes import DType, f8e4m3, f8e5m2, promote
from tiledsl.ir.graph_ops import Contract
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import ASKED
from tiledsl.ir.types import Shape, format_shape


@records(language.dot)
def dot(trace: Trace, a: Any, b: Any, acc: Any = None, *, dtype: Any = None, precision: str = "ieee") -> TracedTensor:
    if precision not in ASKED:
        trace.fail("dot-precision", text=repr(precision))
    left, right = tensor(trace, a), tensor(trace, b)
    if precision == "fast" and left.dtype not in (f8e4m3, f8e5m2):
        trace.fail("dot-fast", text=repr(precision), a=trace.text_of(left), of=left.dtype)
    of = _common_dtype(trace, left, right)
    allowed = ACCUMULATORS[of]
    start = None if acc is None else operand(trace, acc)
    result = allowed[0] if dtype is None else dtype_of(trace, "tile.dot", dtype)
    if isinstance(start, TracedTensor) and not start.weak:
        if dtype is None and start.dtype in allowed:
            result = start.dtype
        if start.dtype != result:
            names = operands_of_product(trace.text_of(left), left.dtype, trace.text_of(right), right.dtype)
            trace.fail("dot-accumulator", start, text=trace.text_of(start), dtype=start.dtype, result=result, **names)
    if result not in allowed:
        choices = " or ".join(map(str, allowed))
        trace.fail("dot-result", left, a=trace.text_of(left), operand=of, dtype=result, choices=choices)
    product = trace.tensor(contract(trace, left, right, of, result, precision))
    if start is None:
        return product
    total = trace.tensor(coerce(trace, start, result))
    if total.ndim:
        total = trace.tensor(broadcast_exactly(trace, total, product.type.shape))
    return tensor(trace, apply(trace, "add", total, product))


@performs("matmul")
def matmul(trace: Trace, a: Any, b: Any) -> TracedTensor:
    """`a @ b`: accumulated as `tile.dot` does, and rounded to the common dtype of the operands, as NumPy's."""
    left, right = tensor(trace, a), tensor(trace, b)
    of = _common_dtype(trace, left, right)
    return trace.tensor(trace.cast(contract(trace, left, right, of, ACCUMULATORS[of][0], "ieee"), of))


def _common_dtype(trace: Trace, a: TracedTensor, b: TracedTensor) -> DType:
    dtype = promote(a.dtype, b.dtype)
    if dtype not in ACCUMULATORS:
        texts = {"a": trace.text_of(a), "b": trace.text_of(b)}
        trace.fail("dot-dtypes", a, b, left=a.dtype, right=b.dtype, **texts)
    return dtype


def contract(trace: Trace, a: TracedTensor, b: TracedTensor, of: DType, result: DType, precision: str) -> Value:
    """The product over the last axis of `a` and the one before the last of `b` (the only one of a vector).

    Leading axes are batches, which broadcast: an operand just does not have the axes along which it is repeated.
    """
    for value in (a, b):
        if value.ndim == 0:
            trace.fail("graph-dot-rank", value, text=trace.text_of(value), what=describe(value))
    first: Shape = a.type.shape
    second: Shape = b.type.shape
    left_axes = ["m", "k"] if len(first) > 1 else ["k"]
    right_axes = ["k", "n"] if len(second) > 1 else ["k"]
    shapes = {"first": format_shape(first), "second": format_shape(second)}
    texts = {"a": trace.text_of(a), "b": trace.text_of(b), **shapes}
    depths = [dims[-at] for dims, at in ((first, 1), (second, len(right_axes)))]
    if depths[0] != depths[1]:
        trace.fail("dot-sizes", a, b, left=depths[0], right=depths[1], **texts)
    batches = (list(first[: -len(left_axes)]), list(second[: -len(right_axes)]))
    rank = max(map(len, batches))
    names = ["b", "h"][:rank] if rank <= 2 else [f"b{i}" for i in range(rank)]
    kept: list[dict[str, Dim]] = [{}, {}]
    for i, name in enumerate(names):
        sizes = [batch[i - rank + len(batch)] if i - rank + len(batch) >= 0 else None for batch in batches]
        real = [size for size in sizes if size not in (None, 1)]
        if len(real) == 2 and real[0] != real[1]:
            trace.fail("dot-batches", a, b, left=real[0], right=real[1], **texts)
        for side, size in enumerate(sizes):
            # an axis of size 1 beside a longer one is left out, as one that is not there
            if size is not None and (size != 1 or not real):
                kept[side][name] = size
    left, right = (
        reshaped(trace, coerce(trace, value, of), (*sizes.values(), *value.type.shape[-len(axes) :]))
        for value, sizes, axes in ((a, kept[0], left_axes), (b, kept[1], right_axes))
    )
    outer = [axis for axis in (*left_axes, *right_axes) if axis != "k"]
    axes = f"{' '.join([*kept[0], *left_axes])}, {' '.join([*kept[1], *right_axes])} -> {' '.join([*names, *outer])}"
    return trace.emit(Contract, a=left, b=right, axes=axes, dtype=result, precision=precision)


@records(language_tensors.einsum)
def einsum(trace: Trace, formula: str, a: Any, b: Any, *, dtype: Any = None, precision: str = "ieee") -> TracedTensor:
    left, right = tensor(trace, a), tensor(trace, b)
    of = _common_dtype(trace, left, right)
    allowed = ACCUMULATORS[of]
    result = allowed[0] if dtype is None else dtype_of(trace, "tile.einsum", dtype)
    if result not in allowed:
        choices = " or ".join(map(str, allowed))
        trace.fail("dot-result", left, a=trace.text_of(left), operand=of, dtype=result, choices=choices)
    if precision not in ASKED:
        trace.fail("dot-precision", text=repr(precision))
    values = [coerce(trace, value, of) for value in (left, right)]
    try:
        axes = _named_axes(formula)
        product = trace.emit(Contract, a=values[0], b=values[1], axes=axes, dtype=result, precision=precision)
    except InvalidIRError as error:
        shapes = {"first": format_shape(left.type.shape), "second": format_shape(right.type.shape)}
        texts = {"a": trace.text_of(left), "b": trace.text_of(right), **shapes}
        trace.fail("graph-einsum", left, right, formula=formula, reason=error, **texts)
    return trace.tensor(product)


def _named_axes(formula: str) -> str:
    """The axes as `graph.contract` writes them: "bik,bkj->bij" becomes "b i k, b k j -> b i j"."""
    inputs, arrow, result = formula.partition("->")
    parts = [*inputs.split(","), result]
    if not arrow or len(parts) != 3:
        raise InvalidIRError("there are not two operands and a result")
    by_words = any(" " in part.strip() for part in parts)
    first, second, third = (" ".join(part.split() if by_words else part.strip()) for part in parts)
    return f"{first}, {second} -> {third}"
