"""Every fold and scan of every element type, on every target: rows that do not fill the registers, rows of extremes,
of NaN alone, of nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.cpu_programs import compiled_for_cpu
from tests.support.every_target import assert_same
from tests.support.gpu_code.gpu_lowering import lowered, plans_for, run_as_launched
from tiledsl.backend_ref.execute_tile import execute
from tiledsl.ir import dtypes
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import DType, bool_, to_numpy
from tiledsl.ir.fold_identities import least, most
from tiledsl.ir.scalar_functions import SCANS
from tiledsl.ir.text.parser import parse_module

Array = npt.NDArray[Any]
STORED = [dtype for dtype in dtypes.ALL if dtype.bits >= 8]
EXTREMES = ("max", "min", "argmax", "argmin")
ROWS = 6
FEW = (dtypes.f32, dtypes.f8e4m3, dtypes.i8, bool_)
"""Those of each kind that are compiled for CPUs in an ordinary run."""


def folds_of(dtype: DType) -> tuple[str, ...]:
    """All that elements can be folded by."""
    if dtype.is_float:
        return (*EXTREMES, "add", "mul")
    return (*EXTREMES, "and", "or") if dtype == bool_ else (*EXTREMES, "add", "mul", "and", "or")


def program(dtype: DType) -> str:
    """Folds and scans the rows of two tensors, `%x` for its extremes and bits, `%y` for sums and products."""
    top = [f"func @folds(%x: tensor<{dtype}, [M, N], unit=1>, %y: tensor<{dtype}, [M, N], unit=1>) {{"]
    rows = ["  tile.grid([%M]) {blocks = [4]} body(%m: axis<m>) {", *_loads("[%m, :]")]
    columns = ["  tile.grid([%N]) {blocks = [16]} body(%n: axis<n>) {", *_loads("[:, %n]")]
    results: list[str] = []

    def result(body: list[str], name: str, kind: DType | str, shape: str, subscripts: str) -> None:
        top.append(f"  %{name}_all = tile.empty() {{shape = {shape}, dtype = {kind}}}")
        body.append(f"    tile.store(%{name}_all, {subscripts}, %{name})")
        results.append(f"%{name}_all")

    for fn in folds_of(dtype):
        source = "%ys" if fn in ("add", "mul") else "%xs"
        for body, axis, kept, shape in ((rows, 1, "[%m]", "[M]"), (columns, 0, "[%n]", "[N]")):
            body.append(f"    %{fn}_{axis} = tile.reduce([{source}]) {{axes = [{axis}], fn = {fn}}}")
            result(body, f"{fn}_{axis}", "i64" if fn.startswith("arg") else dtype, shape, kept)
        if fn in SCANS:
            for name, reverse in ((f"{fn}_on", "false"), (f"{fn}_back", "true")):
                rows.append(f"    %{name} = tile.scan([{source}]) {{axis = 1, fn = {fn}, reverse = {reverse}}}")
                result(rows, name, dtype, "[M, N]", "[%m, :]")
    sizes = [f"  %{name} = tile.size() {{value = {name}}}" for name in "MN"]
    end = [f"  tile.return([{', '.join(results)}])", "}"]
    return "\n".join([*top, *sizes, *rows, "  }", *columns, "  }", *end])


def _loads(subscripts: str) -> list[str]:
    return [f"    %{name}s = tile.load(%{name}, {subscripts})" for name in "xy"]


def numbers(dtype: DType, columns: int) -> tuple[Array, Array]:
    """Rows of anything, of the least and of the largest value alone, of NaN alone, of some NaN, of ties."""
    generator = np.random.default_rng(columns)
    x = generator.integers(0 if dtype.kind == "uint" else -9, 10, (ROWS, columns)).astype(np.float64)
    x[5] = 3
    x[0, columns // 2 :] = 0
    stored: Array = (x > 0 if dtype == bool_ else x).astype(to_numpy(dtype))
    stored[1:2], stored[2:3] = np.asarray(least(dtype)), np.asarray(most(dtype))
    if dtype.is_float:
        stored[3:4], stored[4:5, ::4] = np.asarray(np.nan), np.asarray(np.nan)
    signs = generator.choice([1, -1], (ROWS, columns))
    return stored, (signs > 0 if dtype == bool_ else signs).astype(to_numpy(dtype))


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_gpus_fold_as_the_reference_does(dtype: DType) -> None:
    module = parse_module(program(dtype))
    for columns, arch in ((3, "sm_80"), (0, "sm_90"), (40, "sm_90")):
        arguments = numbers(dtype, columns)
        placed, plans = plans_for(module, arguments, arch)
        found = run_as_launched(lowered(placed, plans[0], arch).entry, arguments)
        assert_same(f"{arch}, {columns} columns", found, execute(module.entry, arguments), names=names_of(module))


@pytest.mark.parametrize(
    "dtype", [dtype if dtype in FEW else pytest.param(dtype, marks=pytest.mark.slow) for dtype in STORED], ids=str
)
def test_cpus_fold_as_the_reference_does(dtype: DType) -> None:
    module = parse_module(program(dtype))
    compiled = compiled_for_cpu(module.clone())
    for columns in (0, 1, 3, 40):
        arguments = numbers(dtype, columns)
        found = compiled.run(*arguments)
        assert_same(f"cpu, {columns} columns", found, execute(module.entry, arguments), names=names_of(module))


def names_of(module: Module) -> list[str]:
    """The names of what a function returns."""
    returned = module.entry.body.terminator
    assert returned is not None
    return [value.name for value in returned.operands]


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_the_reference_folds_as_numpy_does(dtype: DType) -> None:
    module = parse_module(program(dtype))
    arguments = numbers(dtype, 40)
    x, y = (np.asarray(a, np.float64) if dtype.is_float else a for a in arguments)
    found = dict(zip(names_of(module), execute(module.entry, arguments), strict=True))
    functions = {"max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}
    for fn, function in functions.items():
        for axis in (0, 1):
            wanted: Array = np.asarray(function(x, axis=axis))
            kept = wanted if fn.startswith("arg") else wanted.astype(to_numpy(dtype))
            np.testing.assert_array_equal(found[f"{fn}_{axis}_all"].astype(np.float64), kept.astype(np.float64))
    if dtype != bool_:
        total = np.sum(y, axis=1).astype(to_numpy(dtype))
        np.testing.assert_array_equal(found["add_1_all"].astype(np.float64), total.astype(np.float64))
