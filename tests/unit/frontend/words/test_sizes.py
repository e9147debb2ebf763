"""Symbols of sizes: how kernels name them, and which ones they say are equal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower, tensor
from tiledsl import TileShapeError
from tiledsl.frontend.kernel.arguments import Argument, ScalarArgument, TensorArgument
from tiledsl.frontend.words.sizes import Sizes
from tiledsl.frontend.words.values import TensorAxis
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import f32
from tiledsl.ir.symbolic import symbol
from tiledsl.support.location import BUILTIN


def lowered(body: str, **arguments: Argument | int) -> Module:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return lower(kernel_from_text(f"def kernel({', '.join(arguments)}):\n{lines}"), **arguments)


def shapes(body: str, **arguments: Argument | int) -> list[str]:
    """The shapes of the tensor parameters."""
    types = [str(p.type) for p in lowered(body, **arguments).entry.parameters]
    return [text.split("[")[1].split("]")[0] for text in types if "[" in text]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for m in tile.grid(4): pass", ["x_0, x_1", "y_0"]),
        ("M, K = x.shape\nfor m in tile.grid(M): pass", ["M, K", "y_0"]),
        ("M, K = x.shape\nK = y.shape[0]\nfor m in tile.grid(M): pass", ["M, K", "K"]),
        ("K = y.shape[0]\nM, K = x.shape\nfor m in tile.grid(M): pass", ["M, K", "K"]),
        # what is not `.shape` is no naming
        ("K = 3\nK = y.shape[0]\nK = K // 2\nM, K = x.shape\nfor m in tile.grid(M): pass", ["M, K_1", "K"]),
        ("_, N = x.shape\n_ = y.shape[0]\nfor m in tile.grid(N): pass", ["x_0, N", "y_0"]),
        # a name for one size, twice
        ("M = x.shape[0]\nN = x.shape[0]\nfor m in tile.grid(M): pass", ["M, x_1", "y_0"]),
        # a block over one axis subscripts another whose size nobody named
        ("M, N = x.shape\nfor m in tile.grid(N):\n    v = y[m]", ["M, N", "N"]),
        ("for m in tile.grid(x.shape[1]):\n    v = y[m]", ["x_0, x_1", "x_1"]),
        ("M, N = x.shape\nfor m in tile.grid(2 * M):\n    v = y[m]", ["M, N", "2 * M"]),
        ("M, N = x.shape\nfor m in tile.grid(M, block=1):\n    v = y[m]", ["M, N", "M"]),
        ("M, N = x.shape\nK = y.shape[0]\nfor m in tile.grid(N):\n    v = y[m]", ["M, N", "K"]),
        ("M, N = x.shape\nfor m in tile.grid(N):\n    v = y[m + 1]", ["M, N", "y_0"]),
        ("M, N = x.shape\nfor m in tile.grid(M):\n    for k in tile.range(2, N):\n        v = y[k]", ["M, N", "N"]),
        # whole axes that are used as equal
        ("for m in tile.grid(1):\n    v = x[:, :] + y[:]", ["x_0, x_1", "x_1"]),
        ("M, N = x.shape\nfor m in tile.grid(1):\n    v = y[:] + x[:, :]", ["M, N", "N"]),
        ("M, N = x.shape\nfor m in tile.grid(M):\n    v = x[m, :] @ y[:][:, None]", ["M, N", "N"]),
        ("M, N = x.shape\nfor m in tile.grid(M):\n    y[:] = tile.sum(x[:, :], axis=0)", ["M, N", "N"]),
    ],
)
def test_names_and_equal_sizes(body: str, expected: list[str]) -> None:
    assert shapes(body, x=2, y=1) == expected


def test_the_first_axis_says_what_a_run_time_bound_belongs_to() -> None:
    s = ScalarArgument("int")
    loop = "for m in tile.grid(1):\n    for k in tile.range(2, s):\n        v = x[0, k] + y[k]"
    assert shapes(loop, x=2, y=1, s=s) == ["x_0, x_1", "x_1"]
    assert shapes(f"K = y.shape[0]\n{loop}", x=2, y=1, s=s) == ["x_0, x_1", "K"]
    assert shapes(loop.replace("y[k]", "y[k + 1]"), x=2, y=1, s=s) == ["x_0, x_1", "y_0"]


def test_sizes_that_the_caller_knows() -> None:
    x, y = tensor(2, shape=(None, 64)), tensor(1)
    assert shapes("M, N = x.shape\nN = y.shape[0]\nfor m in tile.grid(M): pass", x=x, y=y) == ["M, 64", "64"]
    assert shapes("for m in tile.grid(1):\n    v = x[:, :] + y[:]", x=x, y=y) == ["x_0, 64", "64"]
    assert shapes("M, N = x.shape\nfor m in tile.grid(N):\n    v = y[m]", x=x, y=y) == ["M, 64", "64"]
    named = tensor(2, shape=("B", "B"))
    assert shapes("for m in tile.grid(1): pass", x=named, y=tensor(1, shape=("B",))) == ["B, B", "B"]
    assert shapes("M, N = x.shape\nfor m in tile.grid(1): pass", x=named) == ["M, M"]


@pytest.mark.parametrize(
    "body",
    [
        "M, N = x.shape\nK = y.shape[0]\nfor m in tile.grid(1):\n    v = x[:, :] + y[:]",
        "for m in tile.grid(x.shape[0]):\n    v = x[m, :] + y[m]",
        "M, N = x.shape\nfor m, n in tile.grid(M, N):\n    v = y[m]\n    v = y[n]",
        "N = x.shape[1]\nfor n in tile.grid(N):\n    v = x[:, n] + y[:][:, None] + x[:, :]",
    ],
)
def test_sizes_that_cannot_be_equal(body: str) -> None:
    with pytest.raises(TileShapeError):
        lowered(body, x=2, y=1)


def test_known_sizes_that_differ() -> None:
    x, y = tensor(1, shape=(4,)), tensor(1, shape=(5,))
    with pytest.raises(TileShapeError, match="4 is not 5"):
        lowered("for m in tile.grid(1):\n    v = x[:] + y[:]", x=x, y=y)
    with pytest.raises(TileShapeError, match=r"block `m` runs to 4, but axis 0 of `y` has size 5"):
        lowered("for m in tile.grid(x.shape[0]):\n    v = y[m]", x=x, y=y)


def test_sizes_are_replaced_in_the_ir_that_exists() -> None:
    body = "for m in tile.grid(x.shape[0]):\n    v = x[m, 0:2] * y[:].shape[0]\nK = y.shape[0]\nK = x.shape[1]"
    module = lowered(body, x=2, y=1)
    assert "K" in str(module.entry.parameters[0].type)
    assert all("y_0" not in str(value.type) for op in module.walk() for value in op.results)


def test_origins_say_where_a_size_comes_from() -> None:
    module = lowered("M, K = x.shape\nfor m in tile.grid(M):\n    v = y[m]", x=2, y=1)
    found = [(o.parameter, o.axis, str(o.size), o.location.line) for o in module.entry.size_origins]
    assert found == [("x", 0, "M", 2), ("x", 1, "K", 2), ("y", 0, "M", 4)]


def test_divisibility_becomes_facts() -> None:
    x = TensorArgument(f32, (None, None), 1, (False, True))
    y = TensorArgument(f32, (32, None), 1, (True, True))
    module = lowered("M, K = x.shape\nK = y.shape[1]\nfor m in tile.grid(M): pass", x=x, y=y)
    assert [str(fact) for fact in module.entry.facts] == ["K % 16 == 0"]


def test_equating_expressions() -> None:
    sizes = Sizes()
    a, b = sizes.declare("a"), sizes.declare("b")
    extent = sizes.declare_extent("m")
    assert not sizes.equate(a, a + 1)
    assert not sizes.equate(a, extent)
    assert not sizes.unify(extent, 2 * a)
    sizes.name_axis(TensorAxis("x", 0), b, "B", BUILTIN)
    assert sizes.unify(a, 2 * b)
    assert str(sizes.resolve(a)) == "2 * B"
    assert not sizes.unify(b, 4)
    assert sizes.equate(b, 4)
    assert (sizes.resolve(a), sizes.resolve(b)) == (8, 4)


@pytest.mark.parametrize("word", ["min", "auto"])
def test_words_of_the_ir_are_not_taken(word: str) -> None:
    sizes: Any = Sizes()
    assert sizes.declare(word) == symbol(f"{word}_1")
