"""Matrix products: operand and accumulator dtypes, batches, shapes."""

from __future__ import annotations

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.product_dtypes import ACCUMULATORS, operands_of_product
from tiledsl.frontend.words.builtin_shapes import broadcast_exactly
from tiledsl.frontend.words.builtin_table import Arguments, lowers
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.operands import as_tile, coerce, shape_of
from tiledsl.frontend.words.values import FrontValue, Operand, Tile
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, f8e4m3, f8e5m2, promote
from tiledsl.ir.tile_ops import ASKED, Dot
from tiledsl.ir.types import Shape, format_shape


@lowers(language.dot)
def dot(low: Lowering, arguments: Arguments) -> FrontValue:
    acc = arguments.read("acc") if arguments.given("acc") else None
    dtype = arguments.dtype("dtype") if arguments.given("dtype") else None
    precision = arguments.text("precision")
    if precision not in ASKED:
        low.fail_at(arguments["precision"], "dot-precision")
    a, b = arguments.read("a"), arguments.read("b")
    of = as_tile(low, a).value.dtype
    if precision == "fast" and of not in (f8e4m3, f8e5m2):
        low.fail_at(arguments["precision"], "dot-fast", a=a.text, of=of)
    return product(low, a, b, acc, dtype, precision)


def product(
    low: Lowering,
    a: Operand,
    b: Operand,
    acc: Operand | None = None,
    dtype: DType | None = None,
    precision: str = "ieee",
) -> Tile:
    """acc + a @ b for operands that were read. Raises TileShapeError and TileTypeError where they do not fit."""
    for operand in (a, b):
        if len(shape_of(operand)) < 2:
            low.fail_at(operand, "dot-rank", shape=format_shape(shape_of(operand)))
    left, right = as_tile(low, a).value, as_tile(low, b).value
    given = left.dtype, right.dtype
    left, right = _same_dtype(low, a, b, left, right)
    result = _accumulator(low, a, left.dtype, acc, dtype)
    if not low.sizes.unify(left.shape[-1], right.shape[-2]):
        low.fail("dot-sizes", a=a.text, b=b.text, first=format_shape(left.shape), second=format_shape(right.shape),
                 left=left.shape[-1], right=right.shape[-2])  # fmt: skip
    left, right = _same_batches(low, a, b, left, right)
    shape = (*left.shape[:-1], right.shape[-1])
    total = None
    if acc is not None:
        value = as_tile(low, acc).value
        if isinstance(acc.value, Tile) and value.dtype != result:
            names = operands_of_product(a.text, given[0], b.text, given[1])
            low.fail_at(acc, "dot-accumulator", dtype=value.dtype, result=result, **names)
        total = broadcast_exactly(low, coerce(low, acc, result), shape, acc.text)
    op = low.builder.emit(Dot, a=left, b=right, acc=total, dtype=result, precision=precision)
    return Tile(op.result)


def _same_dtype(low: Lowering, a: Operand, b: Operand, left: Value, right: Value) -> tuple[Value, Value]:
    dtype = left.dtype if left.dtype == right.dtype else promote(left.dtype, right.dtype)
    if dtype not in ACCUMULATORS:
        low.fail("dot-dtypes", a=a.text, b=b.text, left=left.dtype, right=right.dtype)
    return low.builder.cast(left, dtype), low.builder.cast(right, dtype)


def _accumulator(low: Lowering, a: Operand, operand: DType, acc: Operand | None, dtype: DType | None) -> DType:
    allowed = ACCUMULATORS[operand]
    if dtype is None:
        given = acc.value.value.dtype if acc is not None and isinstance(acc.value, Tile) else allowed[0]
        dtype = given if given in allowed else allowed[0]
    if dtype not in allowed:
        choices = " or ".join(map(str, allowed))
        low.fail("dot-result", a=a.text, operand=operand, dtype=dtype, choices=choices)
    return dtype


def _same_batches(low: Lowering, a: Operand, b: Operand, left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands under their common leading axes."""
    first, second = left.shape[:-2], right.shape[:-2]
    rank = max(len(first), len(second))
    shape: Shape = ()
    for i in range(-rank, 0):
        p = first[i] if -i <= len(first) else 1
        q = second[i] if -i <= len(second) else 1
        if p != 1 and q != 1 and not low.sizes.unify(p, q):
            low.fail("dot-batches", a=a.text, b=b.text, first=format_shape(left.shape),
                     second=format_shape(right.shape), left=p, right=q)  # fmt: skip
        shape = (*shape, low.sizes.resolve(q if p == 1 else p))
    left = broadcast_exactly(low, left, (*shape, *left.shape[-2:]), a.text)
    return left, broadcast_exactly(low, right, (*shape, *right.shape[-2:]), b.text)
