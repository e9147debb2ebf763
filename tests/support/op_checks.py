"""Ops of the library against formulas of NumPy in f64, by every way in which a graph is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

import tiledsl
from tests.support.compare import assert_close

Array = np.ndarray[Any, Any]
F16, F32, F64 = np.float16, np.float32, np.float64
FLOATS = (F32, F16)


def normal(*shape: int, dtype: Any = F32, scale: float = 1.0, seed: int = 0) -> Array:
    """Random numbers of that dtype, the same for the same seed."""
    return (scale * np.random.default_rng((seed, *shape)).standard_normal(shape)).astype(dtype)


def wide(*arrays: Array) -> list[Array]:
    """The arrays in f64."""
    return [array.astype(F64) for array in arrays]


def results_of(formula: Callable[..., Any], arrays: Sequence[Array]) -> dict[str, Any]:
    """What a formula gives: its graph, fused on the CPU, and with a kernel for each op."""
    graph = tiledsl.trace(formula, *arrays)
    unfused = tiledsl.fuse(graph, fusion=False).build("reference")(*arrays)
    return {"graph": graph(*arrays), "fused": tiledsl.fuse(graph).build("cpu")(*arrays), "unfused": unfused}


def agree(
    formula: Callable[..., Any], arrays: Sequence[Array], expected: Any, *, terms: int = 1, dtype: Any = None
) -> None:
    """Fails unless all ways give `expected` (one array, or several), rounded to `dtype` (default: that of the first
    array)."""
    for result in results_of(formula, arrays).values():
        _compare(result, expected, arrays[0].dtype if dtype is None else dtype, terms)


def meant(
    formula: Callable[..., Any], arrays: Sequence[Array], expected: Any, *, terms: int = 1, dtype: Any = None
) -> None:
    """Fails unless the graph of a formula means `expected` (one array, or several): it is run op by op in NumPy, and
    not compiled. `dtype`: of the results, default that of the first array."""
    results = tiledsl.trace(formula, *arrays)(*arrays)
    _compare(results, expected, arrays[0].dtype if dtype is None else dtype, terms)


def _compare(results: Any, expected: Any, dtype: Any, terms: int) -> None:
    """One result, or several: those that the formula gives in a dtype of integers or bools keep it."""
    several = isinstance(results, (tuple, list))
    pairs: Any = zip(cast("Any", results), expected) if several else ((results, expected),)
    for result, wanted in pairs:
        got: Any = np.asarray(result)
        with np.errstate(over="ignore"):
            rounded: Any = np.asarray(wanted)
            rounded = rounded.astype(got.dtype if several and got.dtype.kind in "iub" else dtype)
        assert_close(got, rounded, terms=terms)


def kernels_of(formula: Callable[..., Any], *specs: Any, arch: str = "sm_90") -> int:
    """How many kernels a formula is fused to."""
    return tiledsl.fuse(tiledsl.trace(formula, *specs)).ir(arch).count("graph.call(")
