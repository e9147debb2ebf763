"""Whether a TILE function is one product, as a library computes it.

    func @f(%x: f16, %w: f16, %b: f16) { ... tile.dot ... }  =>  out[m, n] f16 = relu(x[m, k] * w[n, k] + b[n])

It is read as the formula that it comes to (`passes/graph/raising`), so that it does not matter how it is written.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tiledsl.ir import graph_ops as ops
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Module, Value
from tiledsl.ir.dtypes import DType, bf16, f16, f32
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType, TileType
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.raising.raise_body import raise_body
from tiledsl.passes.graph.raising.raised import NotPlainError
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph, tidy
from tiledsl.passes.library.activations import activation_of, samples
from tiledsl.passes.library.library_product import Axes, LibraryProduct, NoLibraryCallError
from tiledsl.passes.manager import Pass, PassContext
from tiledsl.passes.tile.canonicalise import Canonicalise
from tiledsl.passes.tile.cse import EliminateCommonSubexpressions
from tiledsl.passes.tile.dce import EliminateDeadCode
from tiledsl.passes.tile.infer_shapes import InferShapes
from tiledsl.support.errors import TileError

OPERANDS = (f16, bf16)
"""Dtypes whose products are made."""


def formula_of(function: Function, sizes: Mapping[str, int]) -> Function:
    """The GRAPH function that a TILE function comes to with these sizes. Raises NoLibraryCallError."""
    function = function.clone()
    for op in function.walk():
        for value in [*op.results, *(argument for body in op.bodies.values() for argument in body.arguments)]:
            if isinstance(value.type, TileType):  # where tiles lie says nothing of what they are
                value.type = TileType(value.type.dtype, value.type.shape)
    passes: list[Pass] = [
        InferShapes(sizes=tuple(sizes.items())), Canonicalise(), EliminateCommonSubexpressions(), Canonicalise(),
        EliminateDeadCode(),
    ]  # fmt: skip
    module = Module([function])
    try:
        for step in passes:
            module = step.run(module, PassContext())
        raised = raise_body(module.entry)
    except NotPlainError as error:
        raise NoLibraryCallError(f"it is no plain formula: {error.reason}") from error
    except TileError as error:
        raise NoLibraryCallError(error.message) from error
    tidy(raised)
    return CanonicaliseGraph().run(Module([raised]), PassContext()).entry


def find_product(function: Function, sizes: Mapping[str, int]) -> LibraryProduct:
    """The product that a TILE function is, with these sizes. Raises NoLibraryCallError where it is none."""
    formula = formula_of(function, sizes)
    products = [op for op in formula.walk() if isinstance(op, ops.Contract)]
    returned = formula.body.terminator
    if len(products) != 1 or returned is None or len(returned.operands) != 1:
        raise NoLibraryCallError("it is not one product with one result")
    product, (result,) = products[0], returned.operands
    dtypes = [tensor_type(one).dtype for one in (product.a, product.b, result)]
    if dtypes[0] not in OPERANDS or dtypes[0] != dtypes[1] or product.dtype != f32:
        raise NoLibraryCallError("it is no product of f16 or bf16 with sums of f32")
    if dtypes[2] not in (dtypes[0], f32):
        raise NoLibraryCallError(f"its result is {dtypes[2]}")
    (a, b), named = _names(product), product.axis_names()
    names = [a, b, tuple(named[2])]
    left, right = (_parameter(formula, v, n) for v, n in ((product.a, a), (product.b, b)))
    if names[2][-1] in names[0]:  # the right operand is the one that has the last axis
        left, right = right, left
    value, permutation = _turned(result)
    axes = left[1], right[1], tuple(names[2][axis] for axis in permutation)
    lengths = {name: size for v, n in ((product.a, a), (product.b, b)) for name, size in zip(n, sizes_of(v))}
    _check_axes(axes, lengths)
    number, activation = _epilogue(formula, value, product.result, dtypes[2])
    made = [op for op in function.body.ops if isinstance(op, tile_ops.Empty)]
    tensors = [p for p in function.parameters if isinstance(p.type, TensorType)]
    if len(made) != 1 or len(tensors) != len(function.parameters):
        raise NoLibraryCallError("it takes numbers, or makes more than its result")
    found = LibraryProduct(
        left[0], right[0], len(tensors), axes, tuple(lengths.items()), dtypes[0].name, dtypes[2].name, number,
        activation,
    )  # fmt: skip
    if number >= 0 and found.axis_of_bias != names[2][-1]:
        raise NoLibraryCallError("its bias is none for each column")
    return found


def _names(product: ops.Contract) -> tuple[Axes, Axes]:
    a, b, _ = product.axis_names()
    if product.exact_a is not None or product.precision not in ("ieee", "tf32"):
        raise NoLibraryCallError("it is made of planes")
    return tuple(a), tuple(b)


def _parameter(formula: Function, value: Value, names: Axes) -> tuple[int, Axes]:
    """The number of the parameter that an operand is, but for its order of axes; and the names of its axes."""
    value, permutation = _turned(value)
    if value not in formula.parameters:
        raise NoLibraryCallError("an operand is computed")
    own = [""] * len(names)
    for place, axis in enumerate(permutation):
        own[axis] = names[place]
    return formula.parameters.index(value), tuple(own)


def _turned(value: Value) -> tuple[Value, tuple[int, ...]]:
    """What a value is a transpose of, and which axis of that each axis is."""
    permutation = tuple(range(len(sizes_of(value))))
    while isinstance(value.op, ops.Transpose):
        permutation = tuple(value.op.permutation[axis] for axis in permutation)
        value = value.op.source
    return value, permutation


def _check_axes(axes: tuple[Axes, Axes, Axes], lengths: Mapping[str, int]) -> None:
    left, right, out = map(set, axes)
    if 0 in lengths.values() or not (left & right) - out or not left - right or not right - left:
        raise NoLibraryCallError("it is no product of matrices")
    if (left - right) - out or (right - left) - out:
        raise NoLibraryCallError("it sums an axis of one operand")


def _epilogue(formula: Function, value: Value, product: Value, dtype: DType) -> tuple[int, str]:
    """The number of the bias (-1: there is none), and the activation."""
    if sizes_of(value) != sizes_of(product):
        raise NoLibraryCallError("its result has another shape than its product")
    sums, biases = samples(value)
    operands = _operands(product)
    others = [parameter for parameter in formula.parameters if parameter not in operands]
    if not others:
        return -1, activation_of(value, {product: sums}, sums)
    bias, columns = others[0], sizes_of(product)[-1]
    if len(others) > 1 or sizes_of(bias)[-1:] != (columns,) or math.prod(sizes_of(bias)) != columns:
        raise NoLibraryCallError("beside its product it has more than a bias for each column")
    if tensor_type(bias).dtype != dtype:
        raise NoLibraryCallError(f"its bias is {tensor_type(bias).dtype}, and its result {dtype}")
    return formula.parameters.index(bias), activation_of(value, {product: sums, bias: biases}, sums + biases)


def _operands(product: Value) -> list[Value]:
    assert isinstance(product.op, ops.Contract)
    return [_turned(value)[0] for value in (product.op.a, product.op.b)]
