"""Where masks end and begin loops: limits against every coordinate, and streams with masks against two passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tiledsl import tile
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir import graph_ops
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Module, Op, Value
from tiledsl.ir.types import BlockSize
from tiledsl.passes.graph.analysis.axes import group_axes
from tiledsl.passes.graph.analysis.limits import CPU_LIMITS
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.index_limits import Combined, Edge, IndexLimits, Limits, Term
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, Refusal, plan_kernel
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.derive_online import DeriveOnline
from tiledsl.passes.manager import PassContext, PassManager

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = Callable[[Any, Any, Any], Any]
ROWS, COLUMNS = 11, 14
LENGTHS = np.array(9, np.int32)
STREAM = replace(CPU_LIMITS, row=1)
"""Every row is too long."""

# What j may be for rows a to b - 1, and the mask of (i, j, n) with n = 9, on arrays and on tensors alike.
TIGHT: dict[str, tuple[Mask, Callable[[int, int], tuple[int, int]]]] = {
    "causal": (lambda i, j, n: j <= i, lambda a, b: (0, b)),
    "strictly": (lambda i, j, n: i > j, lambda a, b: (0, b - 1)),
    "window": (lambda i, j, n: abs(i - j) < 3, lambda a, b: (a - 2, b + 2)),
    "window of j - i": (lambda i, j, n: abs(j - i) <= 3, lambda a, b: (a - 3, b + 3)),
    "causal window": (lambda i, j, n: (i >= j) & (i - j < 3), lambda a, b: (a - 2, b)),
    "hidden": (lambda i, j, n: ~((j > i) | (i - j >= 3)), lambda a, b: (a - 2, b)),
    "prefix": (lambda i, j, n: (j < 4) | (j <= i), lambda a, b: (0, max(4, b))),
    "blocks": (lambda i, j, n: j // 4 == i // 4, lambda a, b: (a // 4 * 4, (b - 1) // 4 * 4 + 4)),
    "twice as far": (lambda i, j, n: 2 * j <= i + 1, lambda a, b: (0, b // 2 + 1)),
    "every second": (lambda i, j, n: i <= j * 2, lambda a, b: ((a + 1) // 2, COLUMNS)),
    "from the end": (lambda i, j, n: -j >= -i, lambda a, b: (0, b)),
    "anti-diagonal": (lambda i, j, n: i + j < 10, lambda a, b: (0, 10 - a)),
    "length": (lambda i, j, n: j < n, lambda a, b: (0, 9)),
    "length and window": (lambda i, j, n: (j < n) & (j - n >= -3), lambda a, b: (6, 9)),
    "one": (lambda i, j, n: j == i + 1, lambda a, b: (a + 1, b + 1)),
    "not another": (lambda i, j, n: ~(j != i), lambda a, b: (a, b)),
    "nothing known": (lambda i, j, n: (j + i) % 3 == 0, lambda a, b: (0, COLUMNS)),
    "i32": (lambda i, j, n: j.astype(np.int32) <= i.astype(np.int32) + 1, lambda a, b: (0, b + 1)),
}


def tensors_of(mask: Mask) -> Callable[..., Any]:
    """The mask as a formula of a length."""

    def formula(n: Any) -> Any:
        i, j = (Index(tile.arange(size)) for size in (ROWS, COLUMNS))
        return mask(Index(i.of[:, None]), Index(j.of[None, :]), Index(n)).of, n + 1  # which reads it in any case

    return formula


class Index:
    """A tensor that is written as an array of NumPy is."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def astype(self, dtype: Any) -> Index:
        assert dtype is np.int32
        return Index(self.of.to(tile.i32))

    def __abs__(self) -> Index:
        return Index(tile.abs(self.of))

    def __neg__(self) -> Index:
        return Index(-self.of)

    def __invert__(self) -> Index:
        return Index(~self.of)


def _forward(name: str) -> Any:
    def method(self: Index, other: Any) -> Index:
        return Index(getattr(self.of, name)(other.of if isinstance(other, Index) else other))

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "mod", "and", "or", *("lt", "le", "gt", "ge")):
    setattr(Index, f"__{_name}__", _forward(f"__{_name}__"))
for _name in ("eq", "ne"):
    setattr(Index, f"__{_name}__", _forward(f"__{_name}__"))


def limits_of(mask: Mask) -> Limits:
    """The limits of the second coordinate."""
    module = tiledsl.trace(tensors_of(mask), tile.spec((), tile.i32)).module
    function = PassManager([CanonicaliseGraph()]).run(module, PassContext()).entry
    axes = group_axes(function)
    last = function.body.terminator
    assert isinstance(last, graph_ops.Return)
    columns = axes.kept[last.values[0]][-1]
    return IndexLimits(columns, axes, lambda value: value.op is None).where(last.values[0])


def number_of(term: Term | None, start: int, stop: int, otherwise: int) -> int:
    match term:
        case None:
            return otherwise
        case int():
            return term
        case Edge(past=past):
            return stop if past else start
        case Combined(fn=fn, left=left, right=right):
            a, b = (number_of(t, start, stop, otherwise) for t in (left, right))
            return {"add": a + b, "sub": a - b, "mul": a * b, "minimum": min(a, b), "maximum": max(a, b)}.get(
                fn, a // (b or 1)
            )
        case Value():
            return int(LENGTHS)


@pytest.mark.parametrize("name", TIGHT)
def test_limits_are_where_a_mask_begins_and_ends(name: str) -> None:
    mask, expected = TIGHT[name]
    limits = limits_of(mask)
    i, j = np.ogrid[:ROWS, :COLUMNS]
    holds = np.broadcast_to(mask(i, j, LENGTHS), (ROWS, COLUMNS))
    for start, stop in ((0, 1), (0, 5), (3, 4), (3, 9), (10, 11), (0, 11)):
        low, high = number_of(limits.start, start, stop, 0), number_of(limits.end, start, stop, COLUMNS)
        assert (low, high) == expected(start, stop)
        seen = np.flatnonzero(holds[start:stop].any(axis=0))
        assert all(low <= column < high for column in seen)


numbers = st.integers(-6, 12)
expressions = st.recursive(
    st.sampled_from(("i", "j", "n")) | numbers.map(str),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
        st.builds("({} // {})".format, inner, st.integers(1, 5)),
        st.builds("abs({})".format, inner),
        st.builds("(-{})".format, inner),
    ),
    max_leaves=4,
)
comparisons = st.builds(
    "({} + {} {} {})".format,
    st.sampled_from("ij"),
    expressions,
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
    expressions,
)
masks = st.recursive(
    comparisons,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("&|"), inner) | st.builds("(~{})".format, inner)
    ),
    max_leaves=3,
)


@given(masks.filter(lambda text: "j" in text and "i" in text), st.integers(0, ROWS - 1), st.integers(1, ROWS))
@settings(max_examples=80, deadline=None)
def test_no_coordinate_is_left_out(text: str, start: int, length: int) -> None:
    i, j = np.ogrid[:ROWS, :COLUMNS]
    source = f"lambda i, j, n: {text} & (i == i) & (j == j)"
    mask: Mask = eval(source)
    holds = np.broadcast_to(mask(i, j, np.int64(LENGTHS)), (ROWS, COLUMNS))
    limits = limits_of(mask)
    stop = min(start + length, ROWS)
    low, high = number_of(limits.start, start, stop, 0), number_of(limits.end, start, stop, COLUMNS)
    seen = np.flatnonzero(holds[start:stop].any(axis=0))
    assert all(low <= column < high for column in seen), (limits, low, high, seen)


def test_narrow_integers_that_wrap_limit_nothing() -> None:
    i8 = limits_of(lambda i, j, n: Index(j.of.to(tile.i8) + tile.full((), 120, tile.i8)) <= i)
    assert i8 == Limits()


def test_long_chains_limit_nothing() -> None:
    def mask(i: Any, j: Any, n: Any) -> Any:
        far, twice = j, j
        for _ in range(300):
            far = far + n
        for _ in range(40):
            twice = twice + twice
        return (far <= i) & (twice <= i)

    assert limits_of(mask) == Limits()


def planned(function: Callable[..., Any], *arrays: Array) -> KernelPlan | Refusal:
    specs = (tile.spec(array.shape, tile.f32) for array in arrays)
    module: Module = tiledsl.trace(function, *specs).module
    module = PassManager([CanonicaliseGraph(), DeriveOnline()]).run(module, PassContext())
    order = [op for op in module.entry.body.ops if op.effect != "terminator"]
    return plan_kernel([op for op in order if not is_repeated(op)], STREAM)


def streamed(function: Callable[..., Any], block: int, *arrays: Array) -> tuple[Array, list[str]]:
    """The result of the one kernel that a formula becomes, in f32, and how the bounds of its loop are made."""
    plan = planned(function, *arrays)
    assert isinstance(plan, KernelPlan), plan
    parameters = plan.outlined.function.parameters
    program = GroupProgram(plan.outlined.function, plan.axes, plan.treatments, [None] * len(parameters)).build("f")
    by_name = dict(zip(function.__code__.co_varnames, arrays))

    def blocks(op: Op, axis: int, size: BlockSize) -> int:
        del op, axis, size
        return block

    (result,) = execute(program, [by_name[value.name] for value in plan.outlined.inputs], blocks=blocks)
    (loop,) = (op for op in program.body.walk() if isinstance(op, ops.Range))
    return result, [op.fn if isinstance(op, ops.Map) else "" for op in (loop.start.op, loop.stop.op)]


def coordinates(x: Any) -> tuple[Any, Any]:
    return tile.arange(x.shape[0])[:, None], tile.arange(x.shape[1])[None, :]


def window(i: Any, j: Any) -> Any:
    return (abs(i - j) if isinstance(i, np.ndarray) else tile.abs(i - j)) < 3


def softmax_sums(x: Any) -> Any:
    i, j = coordinates(x)
    s = tile.where(window(i, j), x, -np.inf)
    return tile.sum(tile.exp(s - tile.max(s, 1, keepdims=True)), axis=1)


def sums_with_sinks(x: Any) -> Any:
    i, j = coordinates(x)
    s = tile.where(window(i, j), x, -np.inf)
    top = tile.maximum(tile.max(s, 1, keepdims=True), 0.25)
    return tile.sum(tile.exp(s - top), axis=1)


def hidden_sums(x: Any) -> Any:
    i, j = coordinates(x)
    s = tile.where(tile.abs(i - j) >= 3, -np.inf, x * 0.5)
    return tile.sum(tile.exp(s - tile.max(s, 1, keepdims=True)), axis=1)


def added_masks(x: Any) -> Any:
    i, j = coordinates(x)
    s = x + tile.where(window(i, j), 0.0, -np.inf)
    return tile.sum(tile.exp(s - tile.max(s, 1, keepdims=True)), axis=1)


def far_scales(x: Any) -> Any:
    i, j = coordinates(x)
    s = tile.where(window(i, j), x * 50.0, -np.inf)
    return tile.sum(tile.exp(s - tile.max(s, 1, keepdims=True)), axis=1)


def plain_sums(x: Any) -> Any:
    return tile.sum(tile.where(window(*coordinates(x)), x, 0.0), axis=1)


def least(x: Any) -> Any:
    return tile.min(tile.where(window(*coordinates(x)), x, np.inf), axis=1)


def masked_product(x: Any, y: Any) -> Any:
    return tile.where(window(*coordinates(x)), x, 0.0) @ y


def stable_sums(s: Any) -> Array:
    return np.sum(np.exp(s - np.max(s, axis=1, keepdims=True)), axis=1)


def shown(x: Any, otherwise: float) -> Array:
    return np.where(window(*np.ogrid[: x.shape[0], : x.shape[1]]), x, otherwise)


STREAMS: dict[Callable[..., Any], Callable[[Any, Any], Any]] = {
    softmax_sums: lambda x, y: stable_sums(shown(x, -np.inf)),
    sums_with_sinks: lambda x, y: np.sum(
        np.exp(shown(x, -np.inf) - np.maximum(np.max(shown(x, -np.inf), axis=1, keepdims=True), 0.25)), axis=1
    ),
    hidden_sums: lambda x, y: stable_sums(shown(x * 0.5, -np.inf)),
    added_masks: lambda x, y: stable_sums(shown(x, -np.inf)),
    far_scales: lambda x, y: stable_sums(shown(x * 50, -np.inf)),
    plain_sums: lambda x, y: np.sum(shown(x, 0), axis=1),
    least: lambda x, y: np.min(shown(x, np.inf), axis=1),
    masked_product: lambda x, y: shown(x, 0) @ y,
}


@pytest.mark.parametrize("block", [1, 4, 32])
@pytest.mark.parametrize("function", STREAMS)
def test_streams_go_where_masks_leave_something(function: Callable[..., Any], block: int) -> None:
    generator = np.random.default_rng(block)
    arrays: list[Array] = [generator.standard_normal((19, 18)).astype(np.float32)]
    if function.__code__.co_argcount == 2:
        arrays.append(generator.standard_normal((18, 5)).astype(np.float32))
    actual, bounds = streamed(function, block, *arrays)
    np.testing.assert_allclose(actual, STREAMS[function](arrays[0], arrays[-1]), rtol=2e-5, atol=1e-5)
    assert bounds == ["maximum", "minimum"]


@pytest.mark.parametrize("scale", [1.0, 2.0, 1e3])
def test_blocks_that_show_nothing_come_first(scale: float) -> None:
    def last_only(x: Any) -> Any:
        j = tile.arange(x.shape[1])[None, :]
        s = tile.where(j % 16 == 15, x * scale, -np.inf)
        return tile.sum(tile.exp(s - tile.max(s, 1, keepdims=True)), axis=1)

    x = np.random.default_rng(2).standard_normal((3, 32)).astype(np.float32)
    actual, _ = streamed(last_only, 4, x)
    s = np.where(np.arange(32) % 16 == 15, x * np.float32(scale), -np.inf)
    np.testing.assert_allclose(actual, stable_sums(s), rtol=1e-4)


def unmasked_sums(x: Any) -> Any:
    """The maximum is masked, what is summed is not: it may be infinite before the maximum is known."""
    s = tile.where(window(*coordinates(x)), x, -np.inf)
    return tile.sum(tile.exp(x - tile.max(s, 1, keepdims=True)), axis=1)


def least_first(x: Any) -> Any:
    return tile.sum(tile.exp(x - tile.min(x, 1, keepdims=True)), axis=1)


@pytest.mark.parametrize("function", [unmasked_sums, least_first])
def test_only_what_a_maximum_is_of_follows_it(function: Callable[..., Any]) -> None:
    plan = planned(function, np.zeros((19, 18), np.float32))
    assert isinstance(plan, Refusal)
    assert "may be far above" in plan.reason


def kept_maxima(x: Any) -> Any:
    """What is at least the maximum may stand for it."""
    top = tile.maximum(tile.max(x, 1, keepdims=True), 0.25) + 1.0
    return tile.sum(tile.exp(x - top), axis=1)


def test_more_than_a_maximum_is_followed() -> None:
    x = np.random.default_rng(1).standard_normal((3, 18)).astype(np.float32)
    actual, _ = streamed(kept_maxima, 4, x)
    top = np.maximum(x.max(1, keepdims=True), 0.25) + 1
    np.testing.assert_allclose(actual, np.exp(x - top).sum(1), rtol=1e-5)


def test_lengths_that_are_loaded() -> None:
    @tile.kernel
    def sums(q: Any, k: Any, lengths: Any) -> Any:
        s = tile.where(tile.arange(k.shape[1]) < lengths[:, None, None], tile.dot(q, k.mT), -np.inf)
        return tile.dot(tile.softmax(s, axis=-1), k)

    generator = np.random.default_rng(5)
    q: Array = generator.standard_normal((3, 40, 8)).astype(np.float32)
    k: Array = generator.standard_normal((3, 40, 8)).astype(np.float32)
    lengths = np.array([1, 40, 17], np.int32)
    s = np.where(np.arange(40) < lengths[:, None, None], q @ np.swapaxes(k, 1, 2), -np.inf)
    shares = np.exp(s - s.max(-1, keepdims=True))
    expected = shares / shares.sum(-1, keepdims=True) @ k
    np.testing.assert_allclose(sums(q, k, lengths), expected, rtol=1e-4, atol=1e-5)
    text = sums.compile(q, k, lengths).ir("tile")
    assert "fn = minimum" in text
