"""f32 products by planes of bf16: operands, what they come to in f64, and whether a result has the digits of f32."""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tiledsl
from tiledsl import tile
from tiledsl.backend_ref.execute_graph import execute_graph
from tiledsl.passes.manager import Pass, PassContext, PassManager

Formula = Callable[..., Any]


def normals_of(*shapes: tuple[int, ...]) -> list[Any]:
    """Random f32 arrays."""
    random = np.random.default_rng(0)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def exact_of(formula: Formula, arrays: list[Any]) -> tuple[Any, Any]:
    """The result in f64, and the sums of magnitudes."""

    def run(given: list[Any]) -> Any:
        graph = tiledsl.trace(formula, *given)
        return execute_graph(graph.module.entry, given, graph.module)[0]

    wide = [array.astype(np.float64) for array in arrays]
    with np.errstate(all="ignore"):
        return run(wide), run([np.abs(array) for array in wide])


def assert_digits(actual: Any, exact: Any, size: Any, digits: float, tiny: float = 0.0) -> None:
    """Off by at most a share of the sum of magnitudes (`digits`) and `tiny`; infinities and NaN are those of f32."""
    actual = np.asarray(actual)
    with np.errstate(all="ignore"):
        wanted = exact.astype(np.float32)
        special = ~np.isfinite(wanted)
        np.testing.assert_array_equal(actual[special], wanted[special])
        assert np.isfinite(actual[~special]).all()
        off = np.abs(actual.astype(np.float64) - exact)[~special]
        assert (off <= digits * size[~special] + tiny).all(), float((off / size[~special]).max())


def remarks_of(kind: Pass, formula: Formula, *shapes: tuple[int, ...]) -> list[Any]:
    """What a pass says of a formula of f32 tensors."""
    graph = tiledsl.trace(formula, *(tile.spec(shape, tile.f32) for shape in shapes))
    context = PassContext()
    PassManager([kind]).run(graph.module.clone(), context)
    return list(context.remarks)
