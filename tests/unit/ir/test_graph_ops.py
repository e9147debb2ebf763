"""Types that the GRAPH ops give, and what they do not take."""

from __future__ import annotations

import pytest

from tiledsl.ir import graph_ops
from tiledsl.ir.core import InvalidIRError
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileTypeError

HEADER = "func @f(%x: tensor<f32, [M, N]>, %y: tensor<f32, [N, K]>, %i: tensor<i32, [K, 2]>, %c: tensor<bool, [8]>) {"


def result_type(op: str) -> str:
    """The inferred type of the only result of an op, in text."""
    module = parse_module(f"{HEADER}\n%r = {op}\n}}")
    return str(module.entry.body.ops[0].result.type)


@pytest.mark.parametrize(
    ("op", "type_"),
    [
        ("graph.map([%x, %x]) {fn = lt}", "tensor<bool, [M, N]>"),
        ("graph.cast(%c) {dtype = i8}", "tensor<i8, [8]>"),
        ("graph.reduce(%x) {axes = [0, 1], fn = add}", "tensor<f32, []>"),
        ("graph.reduce(%x) {axes = [0], fn = argmax, keepdims = true}", "tensor<i64, [1, N]>"),
        ('graph.contract(%x, %y) {axes = "m n, n k -> m k", dtype = f64}', "tensor<f64, [M, K]>"),
        ('graph.contract(%x, %x) {axes = "m n, m n ->", dtype = f32}', "tensor<f32, []>"),
        ('graph.contract(%x, %y) {axes = "m n, n k -> k n m", dtype = f32}', "tensor<f32, [K, N, M]>"),
        ("graph.transpose(%i) {permutation = [1, 0]}", "tensor<i32, [2, K]>"),
        ("graph.reshape(%i) {shape = [2, 1, K]}", "tensor<i32, [2, 1, K]>"),
        ("graph.broadcast(%c) {shape = [M, 8]}", "tensor<bool, [M, 8]>"),
        ("graph.slice(%c) {starts = [1], stops = [8], steps = [2]}", "tensor<bool, [4]>"),
        ("graph.slice(%x) {starts = [0, 2], stops = [M, N], steps = [3, 1]}", "tensor<f32, [(M + 2) // 3, N - 2]>"),
        ("graph.pad(%c) {low = [1], high = [M], value = true}", "tensor<bool, [M + 9]>"),
        ("graph.pad(%c) {low = [1], high = [-3], value = true}", "tensor<bool, [6]>"),
        ("graph.concat([%x, %x, %x]) {axis = 1}", "tensor<f32, [M, 3 * N]>"),
        ("graph.interleave([%x, %x, %x]) {axis = 1}", "tensor<f32, [M, 3 * N]>"),
        ("graph.window(%c) {axes = [0], sizes = [3], strides = [2], dilations = [1]}", "tensor<bool, [3, 3]>"),
        ("graph.window(%c) {axes = [0], sizes = [3], strides = [1], dilations = [3]}", "tensor<bool, [2, 3]>"),
        ("graph.gather(%x, %i) {axis = 1}", "tensor<f32, [M, K, 2]>"),
        ("graph.iota() {shape = [M, 2], axis = 1}", "tensor<i64, [M, 2]>"),
    ],
)
def test_result_types(op: str, type_: str) -> None:
    assert result_type(op) == type_


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        ("graph.map([%x, %y]) {fn = add}", "add of tensor<f32, [N, K]> beside [M, N]"),
        ("graph.map([%x]) {fn = add}", "add takes 2 operands, not 1"),
        ("graph.map([%c, %c]) {fn = add}", "add does not take bool"),
        ("graph.reduce(%x) {axes = [2], fn = add}", "axes [2] of rank 2"),
        ("graph.reduce(%x) {axes = [0, 0], fn = add}", "an axis is reduced twice"),
        ("graph.reduce(%x) {axes = [0, 1], fn = argmin}", "argmin takes one axis"),
        ("graph.reduce(%x) {axes = [0], fn = or}", "or does not take f32"),
        ("graph.reduce(%c) {axes = [0], fn = mul}", "mul does not take bool"),
        ('graph.contract(%x, %y) {axes = "m n n k", dtype = f32}', 'axes = "m n n k" does not read as'),
        ('graph.contract(%x, %y) {axes = "m n, k n -> m k", dtype = f32}', "axis n has the sizes N and K"),
        ('graph.contract(%x, %y) {axes = "m n, n k -> m", dtype = f32}', "axis k is in only one of the three tensors"),
        ('graph.contract(%x, %y) {axes = "m n, n k -> m k j", dtype = f32}', "axis j is in only one of the three"),
        ('graph.contract(%x, %y) {axes = "m, n k -> m k", dtype = f32}', "m axes for tensor<f32, [M, N]>"),
        ('graph.contract(%x, %x) {axes = "m m, m n -> n", dtype = f32}', "name an axis twice in one tensor"),
        ('graph.contract(%x, %i) {axes = "m n, k j -> m k", dtype = f32}', "contracts f32 with i32"),
        ("graph.transpose(%x) {permutation = [0, 0]}", "not a permutation of the axes"),
        ("graph.reshape(%x) {shape = [M]}", "[M, N] and [M] differ in size"),
        ("graph.broadcast(%x) {shape = [N, M]}", "[M, N] does not broadcast to [N, M]"),
        ("graph.slice(%x) {starts = [0], stops = [M], steps = [1]}", "a start, a stop and a step for each axis"),
        ("graph.slice(%c) {starts = [0], stops = [9], steps = [1]}", "0:9 of an axis of 8"),
        ("graph.slice(%c) {starts = [0], stops = [8], steps = [-1]}", "steps are positive"),
        ("graph.pad(%c) {low = [1], high = [], value = true}", "a low and a high for each axis"),
        ("graph.pad(%c) {low = [-9], high = [1], value = true}", "more is taken away than there is"),
        ("graph.concat([]) {axis = 0}", "nothing to put together"),
        ("graph.concat([%x, %c]) {axis = 0}", "puts f32 and bool together"),
        ("graph.concat([%x, %y]) {axis = 0}", "[M, N] and [N, K] differ beside axis 0"),
        ("graph.concat([%x]) {axis = 2}", "axis 2 of tensor<f32, [M, N]>"),
        ("graph.interleave([]) {axis = 0}", "nothing to put together"),
        ("graph.interleave([%x, %y]) {axis = 0}", "[M, N] and [N, K] differ beside axis 0"),
        ("graph.window(%c) {axes = [0], sizes = [9], strides = [1], dilations = [1]}", "a window of 9 in an axis of 8"),
        ("graph.window(%c) {axes = [0], sizes = [1], strides = [0], dilations = [1]}", "strides are positive"),
        ("graph.window(%c) {axes = [0], sizes = [1], strides = [1], dilations = [0]}", "dilations not 0"),
        (
            "graph.window(%c) {axes = [0], sizes = [1], strides = [], dilations = [1]}",
            "a size, a stride and a dilation",
        ),
        (
            "graph.window(%x) {axes = [1, 1], sizes = [1, 1], strides = [1, 1], dilations = [1, 1]}",
            "an axis is windowed",
        ),
        ("graph.gather(%x, %y) {axis = 0}", "%y must hold integers, not f32"),
        ("graph.iota() {shape = [M], axis = 1}", "axis 1 of tensor<i64, [M]>"),
    ],
)
def test_what_does_not_fit(op: str, problem: str) -> None:
    with pytest.raises(TileTypeError) as caught:
        result_type(op)
    assert problem in caught.value.message


CALLEE = """
func @g(%a: tensor<f32, [A, B], unit=1>, %s: f32, %b: tensor<f32, [B + 1]>) {
  %c = tile.empty() {shape = [A + B], dtype = f32}
  tile.return([%c, %a])
}
func @h(%x: tensor<f32, [M, 4]>, %five: tensor<f32, [5]>, %scale: tensor<f32, []>) {
  graph.return([])
}
"""


def test_the_types_of_a_call() -> None:
    callee, caller = parse_module(CALLEE).functions
    x, five, scale = caller.parameters
    types = graph_ops.call_types(callee, [x, scale, five])
    assert [str(t) for t in types] == ["tensor<f32, [M + 4]>", "tensor<f32, [M, 4]>"]
    with pytest.raises(InvalidIRError, match="@g takes 3 inputs, not 2"):
        graph_ops.call_types(callee, [x, scale])
    with pytest.raises(InvalidIRError, match=r"%five is tensor<f32, \[5\]>, but %s of @g is tensor<f32, \[\]> here"):
        graph_ops.call_types(callee, [x, five, five])
    with pytest.raises(InvalidIRError, match=r"but %b of @g is tensor<f32, \[5\]> here"):
        graph_ops.call_types(callee, [x, scale, scale])
