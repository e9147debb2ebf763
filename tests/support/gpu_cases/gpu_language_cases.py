"""Every feature of the language as GPU cases: the kernels of the language tests, at odd and even sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tests.support.gpu_cases.gpu_cases import Case
from tests.support.kernels import kernels_access as access
from tests.support.kernels import kernels_computing as computing
from tests.support.kernels import kernels_control as control
from tests.support.kernels import kernels_field as field_kernels
from tests.support.kernels import kernels_whole as whole
from tiledsl import Kernel, tile
from tiledsl.ir.dtypes import BY_NAME, from_numpy

Random: TypeAlias = np.random.Generator
Make: TypeAlias = Callable[[Random], list[Any]]

_kernels: dict[Callable[..., Any], Kernel] = {}


def kernel(function: Callable[..., Any]) -> Kernel:
    """The one kernel that is made of a plain function."""
    return _kernels.setdefault(function, Kernel(function))


def case(name: str, function: Callable[..., Any], make: Make, **more: Any) -> Case:
    """A case of a plain function; `constants` and what else a case has are in `more`."""
    return Case(name, kernel(function), make, **more)


@cache
def of_function(fn: Callable[[Any], Any]) -> Kernel:
    """A kernel that applies a function of the language to a vector."""

    def apply(x: tile.Tensor, result: tile.constexpr) -> tile.Tensor:
        N = x.shape[0]
        out = tile.empty(N, result)
        for n in tile.grid(N):
            out[n] = fn(x[n])
        return out

    return Kernel(apply)


@tile.kernel
def softmax_by_name(x: tile.Tensor) -> tile.Tensor:
    M, N = x.shape
    out = tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        out[m, :] = tile.softmax(x[m, :], axis=1)
    return out


@cache
def of_reduction(fn: Callable[..., Any], axis: int | None, keep: bool) -> Kernel:
    """A kernel that reduces a whole matrix."""

    def fold(x: tile.Tensor, out: tile.Tensor) -> tile.Tensor:
        for _ in tile.grid(1, block=1):
            out[...] = fn(x[:, :], axis=axis, keepdims=keep)
        return out

    return Kernel(fold)


def floats(random: Random, *shape: int, dtype: Any = np.float32) -> Any:
    return random.standard_normal(shape).astype(dtype)


def small(random: Random, dtype: Any, *shape: int) -> Any:
    """Small values that all operations take."""
    kind = np.dtype(dtype).kind
    return random.integers(0 if kind in "ub" else -3, 4, shape).astype(dtype)


def access_cases() -> list[Case]:
    cases: list[Case] = []
    for n in (1, 11, 16, 301):
        cases.append(case(f"neighbours of {n}", access.neighbours, lambda r, n=n: [floats(r, n)]))
        cases.append(case(f"update of {n}", access.update, lambda r, n=n: [floats(r, n), floats(r, n)]))
    for m, n in [(12, 9), (200, 64)]:
        cases += [
            case(f"gather of {m}x{n}", access.gather,
                 lambda r, m=m, n=n: [floats(r, m, n), r.integers(0, m, 23).astype(np.int32)]),
            case(f"gather outside of {m}x{n}", access.gather,
                 lambda r, m=m, n=n: [floats(r, m, n), np.array([0, -1, m, 3, 2**40])]),
            case(f"gather of elements of {m}x{n}", access.gather_elements,
                 lambda r, m=m, n=n: [floats(r, m, n), r.integers(0, m, 9), r.integers(0, n, 5)]),
            case(f"views of 3x{m}x{n}", access.views, lambda r, m=m, n=n: [floats(r, 3, m, n)]),
            case(f"open reshapes of 3x{m}x{n}", access.open_reshapes, lambda r, m=m, n=n: [floats(r, 3, m, n)]),
            case(f"slices with steps of {m}x{n}", access.stepped, lambda r, m=m, n=n: [floats(r, m, n)]),
            case(f"axes of {m}x{n}", access.axes, lambda r, m=m, n=n: [floats(r, m, n)]),
            case(f"shapes of {m}x{n}", access.tile_shapes, lambda r, m=m, n=n: [floats(r, m, n)], terms=m),
            case(f"a block of one of {m}x{n}", access.coordinates,
                 lambda r, m=m, n=n: [floats(r, m, n), np.zeros((m, n), np.float32)], constants={"B": 1}),
            case(f"slices of {m}x{n}", access.slices,
                 lambda r, m=m, n=n: [floats(r, m, n)], constants={"half": 4}),
            case(f"computed coordinates of {m}x{n}", access.computed,
                 lambda r, m=m, n=n: [floats(r, m, n), n], constants={"known": -1}),
        ]  # fmt: skip
    cases += [
        case("scatter", access.scatter,
             lambda r: [floats(r, 5, 3), np.array([7, 0, 100, 2, -1]), np.zeros((9, 3), np.float32)]),
        case("histogram", access.histogram,
             lambda r: [r.integers(0, 6, 400), np.zeros(6, np.int32), np.array([-9, 99, 0, 0])]),
        case("filled tensors and tiles", access.filling, lambda r: [], constants={"n": 9}),
        case("ranges", access.ranges, lambda r: [], constants={"n": 7}),
        case("levels and stages", access.levels, lambda r: [floats(r, 19)]),
        *(case(f"scalar parameters, {flag}", access.scalars, lambda r, flag=flag: [floats(r, 9), flag, 3, 0.5])
          for flag in (True, False)),
    ]  # fmt: skip
    return cases


PAIRS = [
    ("float16", "float32"), ("int8", "uint8"), ("int32", "float32"), ("bool", "int32"), ("int64", "float64"),
    ("uint32", "int32"), ("float16", "float16"), ("int16", "int16"), ("bfloat16", "float32"), ("float64", "float64"),
]  # fmt: skip


def dtype_of(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, name))


def operator_cases() -> list[Case]:
    cases: list[Case] = []
    for op, numpys in computing.BINARY.items():
        for first, second in PAIRS:
            a, b = dtype_of(first), dtype_of(second)
            with np.errstate(all="ignore"):
                result = from_numpy(numpys(np.ones(1, a), np.ones(1, b)).dtype)

            def make(random: Random, a: Any = a, b: Any = b, op: str = op) -> list[Any]:
                x, y = small(random, a, 97), small(random, b, 97)
                if op == "div":
                    y[y == 0] = 1
                return [x, y]

            constants = {"op": op, "result": result}
            cases.append(case(f"{op} of {first} and {second}", computing.binary, make, constants=constants))
    for name in ("int8", "int32", "float16", "float32", "float64"):
        constants = {"result": BY_NAME[{"i": "i", "f": "f"}[name[0]] + name.strip("intfloa")]}
        cases.append(
            case(f"weak numbers with {name}", computing.with_weak_numbers,
                 lambda r, name=name: [small(r, name, 5), 1.5, 4], constants=constants)
        )  # fmt: skip
    cases.append(
        case("integer operators", computing.integer_operators, lambda r: [
            r.integers(-100, 100, 123).astype(np.int32), r.choice(np.array([-7, 5], np.int32), 123)])
    )  # fmt: skip
    return cases


def function_cases() -> list[Case]:
    cases: list[Case] = []
    for name, (ours, _) in computing.UNARY.items():
        if name == "softmax":
            continue  # of a whole axis
        for dtype in (np.float32, np.float64, np.float16, np.int32):
            kind = np.dtype(dtype)
            keeps = kind.kind == "f" or name in ("floor", "ceil", "round", "abs", "relu")
            result = from_numpy(kind if keeps else np.exp(np.ones(1, kind)).dtype)
            cases.append(
                Case(f"{name} of {kind}", of_function(ours),
                     lambda r, dtype=dtype: [(r.random(97) * 3 + 0.5).astype(dtype) + np.dtype(dtype).type(1)],
                     {"result": result}, relative=4e-3 if dtype is np.float16 else None)
            )  # fmt: skip
    cases.append(
        case("functions of several operands", computing.more_functions, lambda r: [floats(r, 213), floats(r, 213)])
    )
    for target in ("f64", "f16", "bf16", "i8", "u32", "bool", "f8e5m2", "f8e4m3"):
        values = np.array([0, 0.5, 1, 2.75, 3, -0.0, 100, 1.0625, 0.3], np.float32)
        cases.append(
            case(f"cast to {target}", computing.casts, lambda r, values=values: [values],
                 constants={"target": BY_NAME[target]})
        )  # fmt: skip
    cases.append(Case("softmax by its name", softmax_by_name, lambda r: [floats(r, 31, 45)]))
    cases.append(case("random numbers", computing.random_numbers, lambda r: [np.zeros((9, 10), np.float32), 7]))
    return cases


def fold_cases() -> list[Case]:
    cases: list[Case] = []
    for name, (ours, numpys) in computing.REDUCTIONS.items():
        for dtype in (np.float32, np.int32, np.uint8, np.bool_):
            for axis, keep in [(0, False), (1, True), (None, False)]:
                out: Any = np.zeros_like(numpys(np.ones((37, 45), dtype), axis=axis, keepdims=keep))
                cases.append(
                    Case(f"{name} of {np.dtype(dtype)} over {axis}", of_reduction(ours, axis, keep),
                         lambda r, dtype=dtype, out=out: [small(r, dtype, 37, 45), np.copy(out)], terms=4)
                )  # fmt: skip
    for m, n in [(9, 6), (64, 130)]:
        cases += [
            case(f"folds of the user of {m}x{n}", computing.folds, lambda r, m=m, n=n: [small(r, np.float32, m, n)]),
            case(f"running sums of {m}x{n}", computing.sums, lambda r, m=m, n=n: [small(r, np.float32, m, n)]),
        ]
    for dtype in (np.float32, np.int32, np.float16):
        cases.append(
            Case(f"extremes of {np.dtype(dtype)}", field_kernels.extremes,
                 lambda r, dtype=dtype: [r.integers(0, 3, (37, 53)).astype(dtype)])
        )  # fmt: skip
    for axis in (0, 1, 2):
        constants = {"axis": axis, "reverse": axis == 1, "result": tile.f32}
        cases.append(
            Case(f"cumsum along {axis}", field_kernels.running_sums,
                 lambda r: [r.integers(-9, 9, (5, 19, 33)).astype(np.float32)], constants)
        )  # fmt: skip
    return cases


def product_cases() -> list[Case]:
    cases: list[Case] = []
    for name, result in [("float16", "f32"), ("bfloat16", "f32"), ("float8_e4m3fn", "f32"), ("float32", "f32"),
                         ("float64", "f64"), ("int8", "i32"), ("uint8", "i32")]:  # fmt: skip
        cases.append(
            case(f"batched product of {name}", computing.product,
                 lambda r, name=name: [r.integers(0, 5, (2, 9, 6)).astype(dtype_of(name)),
                                       r.integers(0, 5, (2, 6, 8)).astype(dtype_of(name))],
                 constants={"result": BY_NAME[result]})
        )  # fmt: skip
    return cases


def memory_cases() -> list[Case]:
    """Gathers, scatters and atomics of more dtypes."""
    cases: list[Case] = []
    for index in (np.int32, np.int64, np.uint8):
        cases.append(
            Case(f"gather of rows by {np.dtype(index)}", field_kernels.gather_rows,
                 lambda r, index=index: [floats(r, 128, 64), r.integers(0, 128, 256).astype(index)])
        )  # fmt: skip
    cases += [
        Case("gather along an axis", field_kernels.gather_along,
             lambda r: [floats(r, 128, 64), r.integers(0, 128, (256, 64))]),
        Case("scatter of rows", field_kernels.scatter_rows,
             lambda r: [floats(r, 130, 67), r.permutation(200)[:130] - 5, np.zeros((200, 67), np.float32)]),
        Case("without axes", field_kernels.axpy,
             lambda r: [np.array(2, np.float32), r.integers(0, 9, 100).astype(np.float32), np.array(1, np.float32)]),
    ]  # fmt: skip
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        cases.append(
            Case(f"atomics of {np.dtype(dtype)}", field_kernels.tally,
                 lambda r, dtype=dtype: [r.integers(0, 10, 5000), r.integers(1, 100, 5000).astype(dtype),
                                         np.zeros(10, dtype), np.zeros(10, dtype)])
        )  # fmt: skip
    return cases


def control_cases() -> list[Case]:
    cases = [case(f"branches, {limit}", control.branches, lambda r, limit=limit: [np.arange(-6, 7), limit])
             for limit in (1, 2)]  # fmt: skip
    cases += [
        case("while and integer loops", control.collatz, lambda r: [np.array([1, 2, 7, 9, 10, 27])]),
        case("jumps in ranges", control.jumps_in_ranges, lambda r: [floats(r, 3, 8), 6]),
        case("unrolled loops", control.unrolled, lambda r: [floats(r, 105)], constants={"depth": 3}),
        case("bounds at run time", control.bounds_at_run_time, lambda r: [floats(r, 40, 100), 3, 99], terms=100),
        case("an empty range", control.bounds_at_run_time, lambda r: [floats(r, 40, 100), 5, 5]),
        case("helpers", control.layer_norm, lambda r: [floats(r, 5, 80), floats(r, 80)], terms=4),
        case("sizes as integers", control.size_arithmetic, lambda r: [np.zeros((4, 9), np.float32)]),
        case("two grids", control.two_grids, lambda r: [r.random((14, 70), np.float32) + 1], terms=8),
        case("a carried tuple", control.carried_tuple, lambda r: [floats(r, 200)], terms=200),
    ]
    return cases


def whole_cases() -> list[Case]:
    cases = [case(f"softmax in three passes of {n}", whole.softmax, lambda r, n=n: [floats(r, 3, n)], terms=4)
             for n in (17, 256)]  # fmt: skip
    for m, k, n in [(4, 8, 4), (5, 7, 3), (1, 1, 1), (3, 0, 2)]:
        cases.append(
            case(f"gemm of {m}x{k}x{n}", whole.gemm, lambda r, m=m, k=k, n=n: [floats(r, m, k), floats(r, k, n)],
                 terms=k + 1)
        )  # fmt: skip
    for queries, keys in [(1, 9), (8, 8), (5, 11)]:
        cases.append(
            case(f"attention of {queries} and {keys}", whole.attention,
                 lambda r, q=queries, k=keys: [floats(r, 2, q, 4), floats(r, 2, k, 4), floats(r, 2, k, 4)],
                 constants={"causal": queries != 8}, terms=keys)
        )  # fmt: skip
    return cases


LANGUAGE_CASES: list[Case] = [
    *access_cases(), *operator_cases(), *function_cases(), *fold_cases(), *product_cases(), *memory_cases(),
    *control_cases(), *whole_cases(),
]  # fmt: skip
