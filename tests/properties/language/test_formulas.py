"""Random formulas of whole tensors: traced and executed as a graph, they give what NumPy gives for them."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import tiledsl
from tiledsl import TilePerformanceWarning, TileShapeError, tile
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify

Formula: TypeAlias = Callable[..., Any]
DTYPES = (np.float32, np.float16, np.float64, np.int32, np.int8, np.bool_)


@dataclass(frozen=True)
class Step:
    """One operation on earlier values, as Python runs it on NumPy's arrays and on traced tensors."""

    text: str
    run: Formula
    operands: tuple[int, ...]


def unary(random: Random, x: Any) -> tuple[str, Formula]:
    """An operation on one array that NumPy has for it."""
    rank = x.ndim
    choices: list[tuple[str, Formula]] = [
        ("abs", lambda a: abs(a)),
        ("T", lambda a: a.T),
        ("flat", lambda a: a.reshape(-1)),
        ("new axis", lambda a: a[..., None]),
    ]
    if x.dtype != np.bool_:
        choices += [("+1", lambda a: a + 1), ("neg", lambda a: -a), ("*0.5", lambda a: a * 0.5), ("sq", lambda a: a**2)]
    axis, keep = random.randrange(-rank, max(rank, 1)), random.random() < 0.5
    if rank:
        part = slice(
            random.randint(-3, 3), random.choice([None, -2, -1, 1, 2, 3, 5]), random.choice([-3, -2, -1, 1, 2, 3])
        )
        choices += [
            (f"sum {axis}", lambda a: a.sum(axis=axis, keepdims=keep)),
            (str(part), lambda a: a[part]),
            (f"..., {part}", lambda a: a[..., part]),
            (f"any {axis}", lambda a: a.any(axis)),
            (f"swap {axis}", lambda a: a.swapaxes(0, axis)),
        ]
    if rank and 0 not in x.shape:
        index = random.randrange(-x.shape[0], x.shape[0])
        wanted = np.array([random.randrange(x.shape[axis]) for _ in range(random.randrange(4))], np.int64)
        before = (slice(None),) * (axis % rank)
        choices += [
            (f"max {axis}", lambda a: a.max(axis, keepdims=keep)),
            (f"argmin {axis}", lambda a: a.argmin(axis)),
            (f"[{index}]", lambda a: a[index]),
            (f"{axis}: {wanted}", lambda a: a[(*before, wanted)]),
        ]
    return random.choice(choices)


def binary(random: Random, x: Any, y: Any) -> tuple[str, Formula] | None:
    """An operation on two arrays; None if their shapes do not fit."""
    choices: list[tuple[str, Formula]] = []
    if fits(np.broadcast_shapes, x.shape, y.shape):
        choices += [
            ("==", lambda a, b: a == b),
            ("<", lambda a, b: a < b),
            ("+", lambda a, b: a + b),
            ("*", lambda a, b: a * b),
            ("maximum", lambda a, b: np.maximum(a, b)),
        ]
        if x.dtype != np.bool_ or y.dtype != np.bool_:
            choices.append(("-", lambda a, b: a - b))
    if x.dtype.kind == "f" and y.dtype.kind == "f" and x.ndim and y.ndim and fits(np.matmul, x, y):
        choices += [("@", lambda a, b: a @ b)] * 4
    return random.choice(choices) if choices else None


def fits(function: Formula, *arguments: Any) -> bool:
    """Whether NumPy takes these."""
    try:
        function(*arguments)
    except ValueError:
        return False
    return True


def formula(seed: int, count: int) -> tuple[list[Any], list[Step]]:
    """Arrays, and steps that NumPy can take from them: uniformly random, which finds more here than shrinking does."""
    random = Random(seed)
    arrays: list[Any] = []
    for _ in range(random.randint(1, 3)):
        shape = random.choices((1, 2, 3, 4), (1, 3, 3, 1), k=random.randrange(4))
        numbers: Any = np.array([random.randint(-3, 3) for _ in range(math.prod(shape))])
        arrays.append(numbers.reshape(shape).astype(random.choice(DTYPES)))
    values, steps = list(arrays), list[Step]()
    for _ in range(count):
        operands = tuple(random.randrange(len(values)) for _ in range(random.randint(1, 2)))
        given = [values[i] for i in operands]
        found = unary(random, *given) if len(given) == 1 else binary(random, *given)
        if found is not None:
            with np.errstate(all="ignore"):
                result = np.asarray(found[1](*given))
            if result.size < 1000 and result.ndim < 6:
                values.append(result)
                steps.append(Step(found[0], found[1], operands))
    return arrays, steps


def run(steps: Sequence[Step], arrays: Sequence[Any], finish: Formula) -> tuple[Any, ...]:
    """The values of all steps, and of the arrays."""
    values = list(arrays)
    for step in steps:
        values.append(finish(step.run(*(values[i] for i in step.operands))))
    return tuple(values)


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_formula_is_what_numpy_computes(seed: int, count: int) -> None:
    arrays, steps = formula(seed, count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        graph = tiledsl.trace(lambda *given: run(steps, given, lambda x: x), *arrays)
    verify(graph.module, Form.GRAPH)
    assert parse_module(graph.ir(locations=True)) == graph.module
    compare(graph, arrays, steps)


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_formula_means_the_same_for_sizes_that_are_not_known(seed: int, count: int) -> None:
    arrays, steps = formula(seed, count)
    specs = [tile.spec([n if n == 1 else f"S{n}" for n in a.shape], a.dtype) for a in arrays]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TilePerformanceWarning)
            graph = tiledsl.trace(lambda *given: run(steps, given, lambda x: x), *specs)
    except TileShapeError:  # sizes that only happen to be equal
        reject()
    verify(graph.module, Form.GRAPH)
    assert parse_module(graph.ir(locations=True)) == graph.module
    compare(graph, arrays, steps)


def compare(graph: Any, arrays: Sequence[Any], steps: Sequence[Step]) -> None:
    """Whether a graph gives what NumPy gives."""
    with np.errstate(all="ignore"):
        expected = run(steps, arrays, np.asarray)
    for step, actual, wanted in zip([*arrays, *steps], graph(*arrays), expected):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape), step
        close = {"float16": 2e-2, "float32": 1e-5}.get(wanted.dtype.name, 1e-12)
        np.testing.assert_allclose(actual, wanted, rtol=close, atol=close, err_msg=str(step))
