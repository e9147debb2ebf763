"""Whole kernels as TILE text, locations, parameters. The texts are in tests/golden/frontend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels.lowered_kernels import kernel_from_text, lower, lower_text, tensor
from tiledsl import tile
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, ScalarArgument
from tiledsl.frontend.kernel.lower import lower_kernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir import dtypes, tile_ops
from tiledsl.ir.text.printer import print_module
from tiledsl.support.location import Location

GOLDEN = Path(__file__).parents[3] / "golden" / "frontend"


def add(x: tile.Tensor, y: tile.Tensor) -> tile.Tensor:
    N = x.shape[0]
    out = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        out[n] = x[n] + y[n]
    return out


def softmax(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        out[m, :] = tile.softmax(x[m, :])
    return out


def gemm(a: tile.Tensor, b: tile.Tensor, BM: tile.constexpr = tile.auto) -> tile.Tensor:
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N, block=(BM, 256)):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K, block=64, num_stages=4):
            left = tile.load(a[m, k], level=tile.shared)
            acc = tile.dot(left, b[k, n], acc)
        c[m, n] = acc
    return c


def attention(q: tile.Tensor, k: tile.Tensor, v: tile.Tensor, scale: float) -> tile.Tensor:
    H, Q, D = q.shape
    H, K, D = k.shape
    out = tile.empty((H, Q, D), q.dtype)
    for h, i in tile.grid(H, Q, block=(1, tile.auto)):
        top, total, acc = tile.full(i, float("-inf")), tile.zeros(i), tile.zeros((i, D))
        for j in tile.range(0, min(i.start + i.size, K)):
            s = q[h, i, :] @ k[h, j, :].mT * scale
            s = tile.where(j.index <= i.index[:, None], s, float("-inf"))
            new_top = tile.maximum(top, s.max(axis=1))
            p, old = tile.exp(s - new_top[:, None]), tile.exp(top - new_top)
            total, top = total * old + p.sum(axis=1), new_top
            acc = tile.dot(p, v[h, j, :], acc * old[:, None])
        out[h, i, :] = acc / total[:, None]
    return out


@tile.func
def square(x: Any) -> Any:
    return x * x


def control(x: tile.Tensor, n: int) -> None:
    for m in tile.grid(x.shape[0], block=1):
        value, count = x[m], 0
        while value > 1:
            if count % 2 == 0:
                value = square(value) - n
            else:
                value = value / 2
            count += 1
            if count > n:
                break
        for i in range(n):
            value = value + i
        x[m] = value


def access(x: tile.Tensor, idx: tile.Tensor, flags: tile.Tensor) -> Any:
    M, N = x.shape
    for m, n in tile.grid(M, N):
        x.T[n, m] = (x[idx[m], n + 1] + x[-1, 2:4].sum()).T
        old = tile.atomic_add(x[m, 0], tile.load(x[m, N - 1], other=1.5))
        tile.assert_(old > 0, "positive")
        if flags[()]:
            tile.print("old", old)


ARGUMENTS: dict[Callable[..., Any], dict[str, Argument | int]] = {
    add: {"x": 1, "y": 1},
    softmax: {"x": tensor(2, dtypes.f16)},
    gemm: {"a": tensor(2, dtypes.f16), "b": tensor(2, dtypes.f16)},
    attention: {"q": 3, "k": 3, "v": 3, "scale": ScalarArgument("float")},
    control: {"x": 1, "n": ScalarArgument("int")},
    access: {"x": 2, "idx": tensor(1, dtypes.i32), "flags": tensor(0, dtypes.bool_)},
}


@pytest.mark.parametrize("kernel", ARGUMENTS, ids=lambda kernel: kernel.__name__)
def test_text(kernel: Callable[..., Any], update_golden: bool) -> None:
    file = GOLDEN / f"{kernel.__name__}.tir"
    text = lower_text(kernel, **ARGUMENTS[kernel])
    if update_golden:
        file.write_text(text)
    assert text == file.read_text()


def test_lowering_twice_gives_the_same_text() -> None:
    source = KernelSource(attention)
    given = {name: tensor(a) if isinstance(a, int) else a for name, a in ARGUMENTS[attention].items()}
    assert print_module(lower_kernel(source, given)) == print_module(lower_kernel(source, given))


def test_ops_know_their_place_and_their_call_sites() -> None:
    text = """
        @tile.func
        def inner(x):
            return tile.exp(x)

        @tile.func
        def outer(x):
            return inner(x) + 1

        def kernel(x):
            for n in tile.grid(4):
                x[n] = outer(x[n])
    """
    module = lower(kernel_from_text(text), x=1)
    (exp,) = (op for op in module.walk() if isinstance(op, tile_ops.Map) and op.fn == "exp")
    spans = [(place.line, place.column, place.end_column) for place in exp.location.chain()]
    assert spans == [(4, 12, 23), (8, 12, 20), (12, 16, 27)]
    (store,) = (op for op in module.walk() if isinstance(op, tile_ops.Store))
    assert list(store.location.chain()) == [store.location]
    assert isinstance(module.entry.location, Location)
    assert module.entry.location.line == 10


def test_parameters_in_the_order_of_the_signature() -> None:
    kernel = kernel_from_text("def f(a, n, b, c, d=3):\n    for m in tile.grid(n + d): pass")
    given = {"b": tensor(2, dtypes.i8), "n": ScalarArgument("int"), "c": ConstantArgument("text")}
    module = lower(kernel, a=ScalarArgument("bool"), **given)
    shown = [f"{p.name}: {p.type}" for p in module.entry.parameters]
    assert shown == ["a: bool", "n: i64", "b: tensor<i8, [b_0, b_1], unit=1>"]


@pytest.mark.parametrize(
    ("result", "names"),
    [("return", []), ("return x", ["x"]), ("return (x, out), x", ["x", "out", "x"]), ("return None", []), ("pass", [])],
)
def test_outputs(result: str, names: list[str]) -> None:
    text = f"def f(x):\n    out = tile.empty(3)\n    for m in tile.grid(3): pass\n    {result}"
    terminator = lower(kernel_from_text(text), x=1).entry.body.terminator
    assert terminator is not None
    assert [value.name for value in terminator.operands] == names


def test_a_grid_by_another_name() -> None:
    text = "from tiledsl.tile import grid\ndef f(x):\n    for m in grid(3):\n        x[m] = 1"
    assert "tile.grid" in lower_text(kernel_from_text(text), x=1)


def test_early_returns_that_are_known() -> None:
    text = """
        @tile.func
        def pick(a, which):
            if which == 0:
                return a
            for i in (1, 2):
                if i == which:
                    return a * i
            return a * 100

        def kernel(x):
            for n in tile.grid(4):
                x[n] = pick(x[n], 0) + pick(x[n], 2) + pick(x[n], 7)
    """
    shown = lower_text(kernel_from_text(text), x=1)
    assert shown.count("fn = mul") == 2
    assert "value = 2.0" in shown
    assert "value = 100.0" in shown
