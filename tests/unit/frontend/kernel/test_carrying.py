"""Variables through loops and branches: what is carried, with which dtype, and what has no value afterwards."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower
from tiledsl import TileShapeError, TileSyntaxError, TileTypeError
from tiledsl.frontend.kernel.arguments import ScalarArgument
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Module, Op


def lowered(body: str) -> Module:
    """A kernel with these statements in its grid; x is [M, N] of f32, s an int, f a float."""
    head = "def kernel(x, s, f):\n    M, N = x.shape\n    for m in tile.grid(M):\n"
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return lower(kernel_from_text(head + lines), x=2, s=ScalarArgument("int"), f=ScalarArgument("float"))


def only(module: Module, kind: type[Op]) -> Op:
    (op,) = (op for op in module.walk() if isinstance(op, kind))
    return op


def results(module: Module, kind: type[Op]) -> list[str]:
    return [f"{value.name}: {value.type}" for value in only(module, kind).results]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # a tile keeps its type
        ("a = tile.zeros(m)\nfor k in tile.range(N):\n    a = a + x[m, k].sum(1)", ["a: tile<f32, [m]>"]),
        # Python numbers take the dtype of what they become
        ("a = 0.0\nfor k in tile.range(N):\n    a += tile.sum(x[:, k])", ["a: f32"]),
        ("a = 0\nfor k in tile.range(N):\n    a += 1", ["a: i64"]),
        ("a = 0\nfor k in tile.range(N):\n    a += 0.5", ["a: f64"]),
        ("a = 0\nfor k in tile.range(N):\n    a = tile.sum(x[:, k]) + a", ["a: f32"]),
        ("a, b = 0, 0.0\nfor k in tile.range(N):\n    a, b = b, tile.sum(x[:, k])", ["a: f32", "b: f32"]),
        # sizes and tuples
        ("a = N\nfor k in tile.range(N):\n    a = a - 1", ["a: i64"]),
        ("a = (0, (1.0, N))\nfor k in tile.range(N):\n    a = (a[0] + 1, a[1])", ["a: i64", "a: f64", "a: i64"]),
        # what the body only assigns, or only reads, is not carried
        ("a, c = 2, x\nfor k in tile.range(N):\n    b = a + k.start\n    d = c[m, k]", []),
        # what it assigns anew but leaves as it is, is not either
        ("c = x\nfor k in tile.range(N):\n    c = x", []),
    ],
)
def test_carried_variables(body: str, expected: list[str]) -> None:
    assert results(lowered(body), tile_ops.Range) == expected


def test_lowering_a_loop_again_leaves_no_traces() -> None:
    body = "a = 0\nfor i in tile.range(N):\n    for k in tile.range(N):\n        a += tile.sum(x[:, k])"
    module = lowered(body)
    blocks = [op.body.arguments[0].type for op in module.walk() if isinstance(op, tile_ops.Range)]
    assert [str(type_) for type_ in blocks] == ["axis<i>", "axis<k>"]
    assert sum(isinstance(op, tile_ops.Reduce) for op in module.walk()) == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if s > 0:\n    a = 1.0\nelse:\n    a = x[0, 0]", ["a: f32"]),
        ("a = 1\nif s > 0:\n    a = f", ["a: f64"]),
        ("a = x[m, :]\nif s > 0:\n    a = a * 2", ["a: tile<f32, [m, N]>"]),
        ("a = (1, x)\nif s > 0:\n    a = (s, x)", ["a: i64"]),
        ("a = s if s > 0 else -s", ["a: i64"]),
        # the same on both sides, or of one side only
        ("if s > 0:\n    a = 1\n    b = 2\nelse:\n    a = 1", []),
        ("a = N\nif s > 0:\n    a = x.shape[1]", []),
    ],
)
def test_variables_after_branches(body: str, expected: list[str]) -> None:
    assert results(lowered(body), tile_ops.If) == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for k in tile.range(N):\n    a = 1\nb = a", "only the body of a loop assigns it"),
        ("for k in tile.range(N): pass\nb = k", "only the body of a loop assigns it"),
        ("for i in range(s):\n    a = 1\nb = a", "only the body of a loop assigns it"),
        ("if s > 0:\n    a = 1\nb = a", "only one branch of a run-time `if` gives it a value"),
        ("if s > 0:\n    a = 1\nelse:\n    a = x\nb = a", "it is the int 1 in one and tensor<f32, .*> in the other"),
        ("if s > 0:\n    a = x[m, :]\nelse:\n    a = x[m, 0]\nb = a", r"shape \[m, N\] in one and \[m\] in the other"),
        ("a = 1\nwhile s > a:\n    if s > 3:\n        a = 'no'", "it is the str 'no' in one and a run-time Python int"),
    ],
)
def test_names_without_a_value(body: str, message: str) -> None:
    with pytest.raises(TileSyntaxError, match=message):
        lowered(body)


def test_a_grid_hands_nothing_on() -> None:
    text = "def kernel(x):\n    a = 0\n    for m in tile.grid(3):\n        a = a + 1\n    c = tile.full(3, a)"
    with pytest.raises(TileSyntaxError, match="`a` has no value here: a program of the grid assigned it"):
        lower(kernel_from_text(text), x=1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("a = x[m, 0]\nfor k in tile.range(N):\n    a = a.to(tile.f64)", r"`a` is tile<f32, \[m\]> before the loop"),
        (
            "a = x\nfor k in tile.range(N):\n    a = 1",
            r"`a` is tensor<.*> before the loop but the int 1 after its body",
        ),
        ("a = (1, 2)\nwhile s > 0:\n    a = (1, 2, 3)", "`a` is a tuple of 2 before the loop but a tuple of 3"),
        ("a = s\nfor i in range(s):\n    a = x[m, 0]", r"`a` has shape \[\] before the loop .* but \[m\] after"),
        ("a = tile.full((), 1, tile.i32)\nwhile s > 0:\n    a = a + 0.5", "`a` is a scalar of i32 before the loop"),
    ],
)
def test_variables_that_change_their_kind(body: str, message: str) -> None:
    with pytest.raises((TileTypeError, TileShapeError), match=message):
        lowered(body)
