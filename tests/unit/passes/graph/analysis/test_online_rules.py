"""Every rule of online_rules, proved in f64: folds that stream block by block give what two passes over a row give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tests.support.compare import assert_close
from tiledsl import ops, tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir.core import Op
from tiledsl.ir.types import BlockSize
from tiledsl.passes.graph.analysis.limits import CPU_LIMITS
from tiledsl.passes.graph.analysis.outline import is_repeated
from tiledsl.passes.graph.kernels.group_program import GroupProgram
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, Refusal, plan_kernel
from tiledsl.passes.graph.rewrites.canonicalise_graph import CanonicaliseGraph
from tiledsl.passes.graph.rewrites.derive_online import DeriveOnline
from tiledsl.passes.manager import PassContext, PassManager

Array = npt.NDArray[np.float64]
STREAM = replace(CPU_LIMITS, row=1)
"""Every row is too long."""


def planned(function: Callable[..., Any], *shapes: tuple[int, ...]) -> KernelPlan | Refusal:
    graph = tiledsl.trace(function, *(tile.spec(shape, tile.f64) for shape in shapes))
    module = PassManager([CanonicaliseGraph(), DeriveOnline()]).run(graph.module, PassContext())
    order = [op for op in module.entry.body.ops if op.effect != "terminator"]
    return plan_kernel([op for op in order if not is_repeated(op)], STREAM)


def streamed(function: Callable[..., Any], block: int, *arrays: Array) -> list[Array]:
    """The results of the one kernel that a formula becomes, which reads `block` columns at a time."""
    plan = planned(function, *(array.shape for array in arrays))
    assert isinstance(plan, KernelPlan), plan
    assert plan.treatments.streamed
    parameters = plan.outlined.function.parameters
    program = GroupProgram(plan.outlined.function, plan.axes, plan.treatments, [None] * len(parameters)).build("f")
    names = [value.name for value in plan.outlined.inputs]
    given = [array[tuple(0 if n == 1 else slice(None) for n in array.shape)] for array in arrays]
    by_name = dict(zip(function.__code__.co_varnames, given))

    def blocks(op: Op, axis: int, size: BlockSize) -> int:
        del op, axis, size
        return block

    return list(execute(program, [by_name[name] for name in names], blocks=blocks))


def top(x: Any) -> Any:
    return tile.max(x, axis=1, keepdims=True)


def log_sum(x: Any) -> Any:
    return tile.log(tile.sum(tile.exp(x - top(x)), axis=1)) + tile.max(x, axis=1)


def of_ops(x: Any) -> Any:
    return ops.logsumexp(x * 3, axis=1)


def base_two(x: Any) -> Any:
    return tile.sum(tile.exp2(x - top(x)), axis=1)


def weighted(x: Any, y: Any) -> Any:
    return tile.sum(-tile.exp(x - top(x)) * y, axis=1)


def both(x: Any, y: Any) -> Any:
    return tile.sum(tile.exp(x - top(x)) * tile.exp(y - top(y)), axis=1)


def divided(x: Any, y: Any) -> Any:
    return tile.sum(tile.exp(x - top(x)) / (y * y + 1), axis=1)


def masked(x: Any, y: Any) -> Any:
    return tile.sum(tile.where(y > 0, tile.exp(x - top(x)), 0.0), axis=1)


def squares(x: Any) -> Any:
    mean = tile.mean(x, 1, keepdims=True)
    return tile.mean((x - mean) * (x - mean), 1), tile.mean(x, 1)


def top_of(x: Array) -> Array:
    highest = np.max(x, axis=1, keepdims=True)
    return np.where(np.isfinite(highest), highest, 0)


def stable(x: Array) -> Array:
    return np.exp(x - top_of(x))


def numpy_log_sum(x: Array) -> Array:
    return np.log(np.sum(stable(x), axis=1)) + np.max(x, axis=1)


def numpy_of_ops(x: Array) -> Array:
    return numpy_log_sum(x * 3)


def numpy_base_two(x: Array) -> Array:
    return np.sum(np.exp2(x - top_of(x)), axis=1)


def numpy_weighted(x: Array, y: Array) -> Array:
    return np.sum(-stable(x) * y, axis=1)


def numpy_both(x: Array, y: Array) -> Array:
    return np.sum(stable(x) * stable(y), axis=1)


def numpy_divided(x: Array, y: Array) -> Array:
    return np.sum(stable(x) / (y * y + 1), axis=1)


def numpy_masked(x: Array, y: Array) -> Array:
    return np.sum(np.where(y > 0, stable(x), 0), axis=1)


def numpy_squares(x: Array) -> tuple[Array, Array]:
    return np.var(x, axis=1), np.mean(x, axis=1)


RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    log_sum: numpy_log_sum,
    of_ops: numpy_of_ops,
    base_two: numpy_base_two,
    weighted: numpy_weighted,
    both: numpy_both,
    divided: numpy_divided,
    masked: numpy_masked,
    squares: numpy_squares,
}
VALUES = st.sampled_from(("normal", "hidden", "some hidden", "huge", "offset", "equal"))


def array_of(kind: str, rows: int, columns: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((rows, columns))
    match kind:
        case "hidden":  # nothing is seen in the first row, in others only the last column
            values[0] = -np.inf
            values[1:, :-1] = -np.inf
        case "some hidden":
            values[generator.random((rows, columns)) < 0.6] = -np.inf
        case "huge":  # exp of it is infinite
            values *= 1e4
        case "offset":
            values += 1e8
        case "equal":
            values[:] = 7.25
        case _:
            pass
    return values


@pytest.mark.parametrize("function", RULES)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_streamed_folds_are_those_of_two_passes(function: Callable[..., Any], data: st.DataObject) -> None:
    rows, columns = data.draw(st.sampled_from((2, 3))), data.draw(st.sampled_from((2, 5, 16, 29)))
    kind = data.draw(VALUES.filter(lambda kind: "hidden" not in kind) if function is squares else VALUES)
    seed = data.draw(st.integers(0, 1000))
    arrays = [array_of(kind, rows, columns, seed)]
    if function.__code__.co_argcount == 2:
        arrays.append(
            array_of("hidden" if function is both and kind == "hidden" else "normal", rows, columns, seed + 1)
        )
    actual = streamed(function, data.draw(st.sampled_from((1, 4, 29))), *arrays)
    with np.errstate(divide="ignore"):
        expected: Any = RULES[function](*arrays)
    for got, want in zip(actual, expected if function is squares else (expected,), strict=True):
        # a number of 1e8 has its last digit at 1e-8
        np.testing.assert_allclose(got, want, rtol=1e-6 if kind == "offset" else 1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_log_sums_of_columns_take_one_pass(scale: float) -> None:
    """What is computed once more for each fold is the same, constants too."""

    def of_columns(x: Any) -> Any:
        return ops.logsumexp(x * scale, axis=0)

    graph = tiledsl.trace(of_columns, tile.spec((8192, 64), tile.f32))
    assert len(tiledsl.fuse(graph).audit("sm_90").kernels) == 1


def test_one_element() -> None:
    x = np.array([[3.5], [-np.inf]])
    total, middle = streamed(squares, 4, np.array([[3.5, 3.5], [1.0, 3.0]]))
    np.testing.assert_allclose(total, [0, 1])
    np.testing.assert_allclose(middle, [3.5, 2])
    plan = planned(log_sum, x.shape)
    assert isinstance(plan, KernelPlan)  # an axis of one element is none: nothing is folded
    assert not plan.treatments.streamed


def test_folds_of_two_axes_count_all_elements() -> None:
    def planes(x: Any) -> Any:
        mean = tile.mean(x, (0, 2), keepdims=True)
        return tile.sum((x - mean) * (x - mean), axis=(0, 2))

    x = np.random.default_rng(3).standard_normal((4, 3, 9)) + 100
    (actual,) = streamed(planes, 4, x)
    np.testing.assert_allclose(actual, x.var((0, 2)) * 36, rtol=1e-9)


def test_what_has_no_rule_is_refused() -> None:
    def cubes(x: Any) -> Any:
        centred = x - tile.mean(x, 1, keepdims=True)
        return tile.sum(centred * centred * centred, axis=1)

    def softmax(x: Any) -> Any:
        e = tile.exp(x - top(x))
        return e / tile.sum(e, axis=1, keepdims=True)

    def first(x: Any) -> Any:
        return tile.argmax(x + 1, axis=1)

    for function, reason in (
        (cubes, "`sub` of what depends on a fold of the same axis has no rule"),
        (softmax, "a row of 16 elements at once"),
        (first, "a row of 16"),
    ):
        plan = planned(function, (4, 16))
        assert isinstance(plan, Refusal)
        assert reason in plan.reason


def test_a_maximum_that_is_followed_and_returned_is_that_of_the_rows() -> None:
    """Also of rows that are hidden as a whole, and of numbers below those that f32 has."""

    def formula(x: Any, y: Any) -> Any:
        s = x @ y.mT
        top = tile.max(s, axis=-1, keepdims=True)
        return top, tile.exp(s - top) @ y

    x = np.array([[1.0, 2.0], [-np.inf, 0.5], [-3.0, 1.0]], np.float32)
    y = np.array([[1.0, 0.0], [2.0, 1.0]], np.float32)
    graph = tiledsl.trace(formula, x, y)
    fused = tiledsl.fuse(graph)
    assert fused.ir("cpu").count("graph.call") == 1
    lowered = fused.lowered("cpu")
    top = execute_graph(lowered.entry, [x, y], lowered)[0]
    assert_close(top, np.array([[4.0], [-np.inf], [-3.0]], np.float32))
