"""One case for each message of `support/catalogue/graphs.py`."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tiledsl
from tests.support.kernels.call_kernels import add, gemm
from tiledsl import tile
from tiledsl.support.catalogue.graphs import ENTRIES
from tiledsl.support.errors import TileError

F32 = np.float32
X = np.ones((3, 4), F32)


def trace(formula: Callable[..., Any], *specs: Any) -> Callable[[], object]:
    return lambda: tiledsl.trace(formula, *(specs or (X,)))


@tile.kernel
def fill(x: Any) -> None:
    for m, n in tile.grid(x.shape[0], x.shape[1]):
        x[m, n] = tile.zeros((m, n))


@tile.kernel
def endless(x: Any) -> Any:
    return endless(x)


def recursive(x: Any) -> Any:
    return recursive(x)


@tile.kernel
def doubled(x: Any) -> Any:
    return x + x


def kept() -> object:
    box: list[Any] = []

    def keep(x: Any) -> Any:
        box.append(x)
        return x + 1

    tiledsl.trace(keep, X)
    return box[0] + 1


def unpacked(x: Any) -> Any:
    (n,) = x.shape
    return x / n


def if_positive(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def changed(x: Any) -> Any:
    x[0] = 1
    return x


def iterated(x: Any) -> Any:
    a, b, c = x
    return a + b + c


M, N = tile.spec(("M", 4), tile.f32), tile.spec(("N", 4), tile.f32)


def fused(spec: Any) -> Any:
    return tiledsl.fuse(tiledsl.trace(lambda x: x + 1, spec))


def looped(step: Callable[[Any, Any], Any], carry: Any = 0.0, **options: Any) -> Callable[[], object]:
    return trace(lambda x: tiledsl.scan(step, carry, **{"xs": x, **options}))


CASES: dict[str, tuple[Callable[[], object], str]] = {
    "graph-not-callable": (lambda: tiledsl.trace(3, X), "takes a function, not the int 3"),  # pyright: ignore[reportArgumentType]
    "graph-arguments": (lambda: tiledsl.trace(doubled, X)(), "the graph `doubled` was called without `x`"),
    "graph-result": (trace(lambda x: 3), "`graph` returns the int 3, and no tensor"),
    "graph-word": (trace(lambda x: tile.load(x)), "tile.load does not work on whole tensors"),
    "graph-cycle": (trace(endless), "`endless` calls `endless`, with the same arguments"),
    "graph-call": (trace(lambda x: gemm(x, x)), "`gemm` cannot be called with these tensors: %x is tensor<f32, [3, 4]"),
    "graph-call-out": (trace(lambda x: add(x, x, out=X)), "`out` of `add` stands in a formula"),
    "graph-call-writes": (trace(fill), "`fill` writes to its parameter `x` and does not return it"),
    "graph-recursion": (trace(recursive), "`recursive` calls itself without end"),
    "graph-trace-over": (kept, "a tensor of the formula `keep` is used after"),
    "graph-operand": (trace(lambda x: x + "a"), "the str 'a' meets a tensor"),
    "graph-data": (trace(if_positive), "bool() of `x.sum() > 0` (tensor<bool, []>) needs its values"),
    "graph-data-shape": (trace(lambda x: x[x > 0]), "selection by a bool mask by `x[x > 0]`"),
    "graph-size-unknown": (trace(lambda x: x[0] if x.shape[0] > 3 else x, M), "> of the size `M, 3` is not known"),
    "graph-assignment": (trace(changed), "`x` cannot be assigned to"),
    "graph-size-called": (trace(lambda x: x * x.size(0)), "a size is a number, which cannot be called"),
    "graph-attribute": (trace(lambda x: x.var()), "`x` is tensor<f32, [3, 4], unit=1> and has no `var`"),
    "graph-numpy": (trace(lambda x: np.concatenate([x, x])), "np.concatenate does not work on `x`"),
    "graph-sizes-differ": (trace(lambda x, y: x + y, M, N), "`y` of shape [N, 4] do not broadcast: M may not be N"),
    "graph-unpack": (trace(unpacked), "too many values to unpack (expected 1"),
    "graph-axis": (trace(lambda x: x.sum(2)), "tile.sum: there is no axis 2 in a tensor of rank 2"),
    "graph-dot-rank": (trace(lambda x: x @ x.sum()), "a product of `x.sum()`, which is tensor<f32, []>"),
    "graph-squeeze": (trace(lambda x: x.squeeze(0)), "axis 0 of `x` has the size 3, not 1"),
    "graph-combiner": (trace(lambda x: tile.reduce(x, 0, lambda a, b: a + b)), "tile.reduce of whole tensors folds"),
    "graph-list": (trace(lambda x: tile.concat(x)), "tile.concat takes a tuple or list of tensors"),
    "graph-concat": (trace(lambda x: tile.concat((x, x.T))), "`x.T` of shape [4, 3] differ beside axis 0"),
    "graph-interleave": (trace(lambda x: tile.interleave((x[:1], x))), "tensors of [1, 3] elements along axis 0"),
    "graph-split": (trace(lambda x: tile.split(x, 2)), "axis 0 of `x`, of size 3, cannot be split into 2"),
    "graph-pad": (trace(lambda x: tile.pad(x, (1, 2, 3))), "the widths (1, 2, 3) do not say"),
    "graph-window": (trace(lambda x: tile.window(x, 5, 1)), "tile.window of `x`: a window of 5 in an axis of 4"),
    "graph-einsum": (trace(lambda x: tile.einsum("ij,jk->ik", x, x)), "axis j has the sizes 4 and 3"),
    "graph-subscript": (trace(lambda x: x["a"]), "the str 'a' cannot subscript `x`"),
    "graph-slice-step": (trace(lambda x: x[::0]), "a slice of `x` has as its step the int 0"),
    "graph-slice-bound": (trace(lambda x: x[: x.argmax()]), "the slice bound `x.argmax()` of `x` is tensor<i64, []>"),
    "graph-gather-axes": (trace(lambda x: x[np.arange(2), np.arange(2)]), "two tensors of ints subscript `x`"),
    "scan-carry": (looped(lambda c, x: (c + x, x)), "takes tensor<f32, []> as `carry` and gives tensor<f32, [4]>"),
    "scan-structure": (looped(lambda c, x: (x, x), (X, X)), "a tuple of 2 is needed, not a TracedTensor"),
    "scan-result": (looped(lambda c, x: c), "a step of tiledsl.scan gives tensor<f64, []>"),
    "scan-rank": (looped(lambda c, x: (c, x), xs=3.0), "which is tensor<f64, []>"),
    "scan-lengths": (looped(lambda c, x: (c, None), length=5), "`x` has 3 elements along axis 0, and `length` says 5"),
    "scan-count": (looped(lambda c, x: (c, None), xs=None), "not known: there are no sequences"),
    "fuse-no-graph": (lambda: tiledsl.fuse(doubled), "`fuse` takes a graph, not a value of type `Kernel`"),
    "graph-sizes": (
        lambda: tiledsl.fuse(tiledsl.trace(lambda x: x[3] * 2, N)).ir("cpu", N=2),
        "cannot have the sizes N=2: 3:4 of an axis of 2",
    ),
    "fuse-sizes": (lambda: fused(M).ir("cpu"), "the graph `graph` leaves sizes open that are needed here: M"),
    "fuse-one-module": (lambda: fused(M).build("cpu").save("x"), "for which 0 modules have been made"),
    "graph-gather-apart": (trace(lambda x: x[0, None, np.arange(2)]), "a coordinate and a tensor of ints"),
}  # fmt: skip


@pytest.mark.parametrize("code", ENTRIES)
def test_each_message(code: str) -> None:
    provoke, words = CASES[code]
    with pytest.raises(TileError) as caught:
        provoke()
    assert caught.value.code == code
    assert words in str(caught.value)
    location = caught.value.location
    assert location is not None
    assert location.file == __file__


DATA: list[Callable[[Any], Any]] = [
    lambda x: int(x[0, 0]), lambda x: float(x[0, 0]), lambda x: [1, 2][x[0, 0].to(tile.i32)], lambda x: np.asarray(x),
    iterated, lambda x: 3 in x, lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: len(x.sum()),
]  # fmt: skip


@pytest.mark.parametrize("formula", DATA)
def test_values_are_not_there(formula: Callable[[Any], Any]) -> None:
    with pytest.raises(TileError) as caught:
        tiledsl.trace(formula, X)
    assert caught.value.code == "graph-data"


def inner(a: Any, b: Any) -> Any:
    return a * 2 + b


def outer(x: Any, y: Any) -> Any:
    return inner(x.sum(axis=0), y)


def test_shapes_that_do_not_fit_are_shown_with_where_they_come_from() -> None:
    with pytest.raises(TileError) as caught:
        tiledsl.trace(outer, X, np.ones((2, 5), F32))
    text = str(caught.value)
    assert "of shape [4]" in text
    assert "`y` is a parameter of `outer`: f32 of shape [2, 5]" in text
    assert "return inner(x.sum(axis=0), y)" in text
    assert "def outer(x: Any, y: Any) -> Any:\n      |                   ^\n" in text


SHARED: dict[str, Callable[[Any], Any]] = {
    "dtype-not-taken": lambda x: x & x,
    "dot-sizes": lambda x: x @ x,
    "dot-dtypes": lambda x: x.to(tile.i32) @ x.to(tile.i32).mT,
    "dot-result": lambda x: tile.dot(x, x.T, dtype=tile.f16),
    "dot-precision": lambda x: tile.dot(x, x.T, precision="high"),
    "dot-fast": lambda x: tile.dot(x, x.T, precision="fast"),
    "dot-batches": lambda x: x[None].reshape(3, 1, 4) @ x[:2].reshape(2, 4, 1),
    "dot-accumulator": lambda x: tile.dot(x, x.T, x.to(tile.f16)),
    "reshape-size": lambda x: x.reshape(5, -1),
    "reshape-holes": lambda x: x.reshape(-1, -1),
    "shape-entry": lambda x: x.reshape("a"),
    "shape-negative": lambda x: x.reshape(-2, -6),
    "not-a-permutation": lambda x: x.transpose(0, 0),
    "transpose-rank": lambda x: x[0].mT,
    "broadcast-to": lambda x: tile.broadcast_to(x, (4, 4)),
    "axis-repeated": lambda x: x.sum((0, -2)),
    "argument-kind": lambda x: x.to("f32"),
    "call-arguments": lambda x: tile.exp(x, 3),  # pyright: ignore[reportCallIssue]
    "constant-range": lambda x: x.to(tile.i8) + 1000,
    "negative-power": lambda x: x.to(tile.i32) ** -1,
    "subscript-count": lambda x: x[0, 0, 0],
    "subscript-ellipsis": lambda x: x[..., ...],
    "subscript-range": lambda x: x[3],
    "subscript-dtype": lambda x: x[x],
    "full-value": lambda x: tile.full((2,), x),
    "arange-step": lambda x: tile.arange(3, step=0),
    "arange-bound": lambda x: tile.arange(x),
    "dtype-4-bit": lambda x: x.to(tile.i4),
    "static-assert": lambda x: tile.static_assert(x.shape[0] == 4),
    "static-assert-run-time": lambda x: tile.static_assert(x.sum() == 4),
    "array-dtype": lambda x: x + np.ones(4, np.complex64),
}


@pytest.mark.parametrize("code", SHARED)
def test_messages_that_formulas_share_with_tiles(code: str) -> None:
    with pytest.raises(TileError) as caught:
        tiledsl.trace(SHARED[code], X)
    assert caught.value.code == code
