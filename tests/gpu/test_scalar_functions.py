"""Every device function on the device: each scalar function, cast, packed word, atomic and random number.

Results are compared with the reference within the bounds that `device_cases` states. At the end a table shows how far
from the true value each function was at most, in units of the last place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.support.gpu_cases.device_cases import (
    atomic_cases,
    bound,
    cast_cases,
    errors,
    packed_cases,
    random_cases,
    scalar_cases,
    takes,
)
from tests.support.gpu_cases.scalar_operands import (
    DTYPES,
    RANGES,
    Array,
    assert_same,
    every_value,
    in_range,
    operands_of,
    reinterpreted,
    samples,
)
from tests.support.gpu_code.device_functions import Case, device_program
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_ref import philox
from tiledsl.backend_ref.scalar_functions import FUNCTIONS, apply, cast
from tiledsl.ir.dtypes import DType, f32, f64, is_narrow_float, to_numpy
from tiledsl.ir.scalar_functions import ATOMICS, SCALAR_FUNCTIONS

_THREADS = 256


class Device:
    """The first device, through the driver alone."""

    def __init__(self) -> None:
        self.driver: Any = import_module("cuda.bindings.driver")
        self.call("cuInit", 0)
        device = self.call("cuDeviceGet", 0)
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", device))
        attributes = self.driver.CUdevice_attribute
        major = self.call("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
        minor = self.call("cuDeviceGetAttribute", attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
        self.capability = int(major) * 10 + int(minor)

    def call(self, name: str, *arguments: Any) -> Any:
        """A call of the driver; gives its result."""
        status, *results = getattr(self.driver, name)(*arguments)
        assert status == self.driver.CUresult.CUDA_SUCCESS, f"{name}: {status}"
        return results[0] if results else None

    def load(self, cases: list[Case]) -> Loaded:
        """Compiles cases as one program."""
        text = device_program(cases, Preamble(self.capability))
        cubin = compile_cubin(text, f"sm_{self.capability}", "cases")
        return Loaded(self, self.call("cuModuleLoadData", cubin.code), {case.name: case for case in cases})

    def copy_in(self, array: Array) -> Any:
        """Memory with the bytes of an array, and a few more."""
        address = self.call("cuMemAlloc", array.nbytes + 16)
        self.call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        return address

    def copy_out(self, address: Any, array: Array) -> None:
        """The other way; the memory is free afterwards."""
        self.call("cuMemcpyDtoH", array.ctypes.data, address, array.nbytes)
        self.call("cuMemFree", address)


class Loaded:
    """Cases on the device."""

    def __init__(self, device: Device, module: Any, cases: dict[str, Case]) -> None:
        self.device, self.module, self.cases = device, module, cases

    def apply(self, name: str, *arrays: Array) -> Array:
        """The case of that name on arrays of its dtypes and one length; they are written back, for atomics."""
        case, device = self.cases[name], self.device
        assert [array.dtype for array in arrays] == [to_numpy(dtype) for dtype in case.inputs]
        inputs = [np.ascontiguousarray(array) for array in arrays]
        out = np.zeros(len(inputs[0]), to_numpy(case.result))
        addresses = [device.copy_in(array) for array in (*inputs, out)]
        words = [int(address) for address in addresses]
        words = [len(out), *words[:-1], *[0] * (3 - len(inputs)), words[-1]]
        function = device.call("cuModuleGetFunction", self.module, name.encode())
        blocks = -(-len(out) // _THREADS)
        types = (ctypes.c_int64, *[ctypes.c_void_p] * 4)
        device.call("cuLaunchKernel", function, blocks, 1, 1, _THREADS, 1, 1, 0, 0, (tuple(words), types), 0)
        device.call("cuCtxSynchronize")
        for address, array in zip(addresses, (*inputs, out)):
            device.copy_out(address, array)
        for mine, theirs in zip(inputs, arrays):
            if theirs.flags.writeable:
                theirs[...] = mine
        return out


@pytest.fixture(scope="module")
def device() -> Device:
    return Device()


@pytest.fixture(scope="module")
def worst(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, float]]]:
    """The largest error of each function by dtype; printed when all tests of this file have run."""
    table: dict[str, dict[str, float]] = {}
    yield table
    floats = [dtype.name for dtype in DTYPES if dtype.is_float]
    lines = [f"{'units in the last place':<24}" + "".join(f"{name:>9}" for name in floats)]
    for fn, row in table.items():
        cells = (f"{row[name]:9.3f}" if name in row else f"{'':9}" for name in floats)
        lines.append(f"{fn:<24}" + "".join(cells))
    capture: Any = request.config.pluginmanager.get_plugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("", *lines, sep="\n")


def all_operands(fn: str, dtype: DType) -> list[Array]:
    """Awkward and random operands; for functions of one operand all there are (16 bits), or all over their range."""
    operands = operands_of(fn, dtype)
    if fn == "pow" and dtype.is_float:
        random = np.random.default_rng(8)
        more = [cast(random.uniform(0.1, 10, 20_000), dtype), cast(random.uniform(-20, 20, 20_000), dtype)]
        return [np.concatenate(pair) for pair in zip(operands, more)]
    if SCALAR_FUNCTIONS[fn].arity > 1 or not dtype.is_float:
        return operands
    if dtype.bits <= 16:
        return [every_value(dtype)]
    inside = in_range(fn) if fn in RANGES else in_range("exp")
    return [np.concatenate([operands[0], cast(inside, dtype)])]


def true_values(fn: str, operands: list[Array], dtype: DType) -> Array:
    """What the function gives, in f64 where it is not exact in f32; of integers and comparisons the results."""
    if not SCALAR_FUNCTIONS[fn].result(dtype).is_float:
        return apply(fn, *operands)
    wide = [x.astype(np.float32) if is_narrow_float(dtype) and x.dtype != np.bool_ else x for x in operands]
    with np.errstate(all="ignore"):
        values = np.asarray(FUNCTIONS[fn](*wide))
    return cast(apply(fn, *operands), f64) if values.dtype != np.float64 else values


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalar_functions(device: Device, worst: dict[str, dict[str, float]], dtype: DType) -> None:
    cases = scalar_cases(dtype)
    loaded = device.load(cases)
    wrong: list[str] = []
    for case in cases:
        fn = case.name.removesuffix(f"_of_{dtype}")
        operands = all_operands(fn, dtype)
        got, want = loaded.apply(case.name, *operands), true_values(fn, operands, dtype)
        apart = errors(fn, dtype, got, want)
        at = int(apart.argmax())
        if SCALAR_FUNCTIONS[fn].result(dtype).is_float:
            worst.setdefault(fn, {})[dtype.name] = float(apart[at])
        if apart[at] > bound(fn, dtype):
            arguments = tuple(operand[at] for operand in operands)
            wrong.append(f"{fn}{arguments} gives {got[at]!r} instead of {want[at]!r}: {apart[at]} units off")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_casts(device: Device, source: DType) -> None:
    loaded = device.load(cast_cases(source))
    values = samples(source)
    if source.is_float:
        awkward = [np.nan, np.inf, -np.inf, -0.5, -1, -129, 300, 464, 465, 40000, 61440, -70000, 3e9, -3e9, 1e19, -1e19]
        with np.errstate(over="ignore"):
            values = np.concatenate([values, np.array([*awkward, 2e19, 1e30, 1e200, 1e-40]).astype(to_numpy(source))])
    for target in DTYPES:
        assert_same(loaded.apply(f"cast_{source}_{target}", values), cast(values, target))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.bits < 32], ids=str)
def test_packed_words(device: Device, dtype: DType) -> None:
    loaded = device.load(list(packed_cases(dtype)))
    count = 32 // dtype.bits
    values = np.resize(every_value(dtype), max(count, len(every_value(dtype))))
    words = np.frombuffer(values.tobytes(), np.uint32)
    for position in range(count):
        assert_same(loaded.apply(f"unpack_{dtype}_{position}", words), values[position::count])
        positions = np.full(len(words), position)
        assert_same(loaded.apply(f"unpack_{dtype}_any", words, positions), values[position::count])
    first: Array = values
    if dtype.is_float:
        upper = np.arange(2**16, dtype=np.uint32) << 16
        patterns = np.concatenate([upper | np.uint32(low) for low in (0, 0x0FFF, 0x7FFF, 0x8000, 0x8001)])
        first = reinterpreted(patterns, f32)
    other: Array = np.array(first[::-1])
    a, b = cast(first, dtype), cast(other, dtype)
    packed = loaded.apply(f"pack_{dtype}_case", first, other)
    want = np.stack([a, *[b] * (count - 2), a], axis=1).ravel()
    assert_same(np.frombuffer(packed.tobytes(), to_numpy(dtype)), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_atomics(device: Device, dtype: DType) -> None:
    loaded = device.load(atomic_cases(dtype))
    for fn in ATOMICS:
        if takes(fn, dtype):
            value, before = operands_of("maximum", dtype)
            memory: Array = np.array(before)
            scalar = {"max": "maximum", "min": "minimum"}.get(fn, fn)
            want = value if fn == "exchange" else apply(scalar, before, value)
            # neighbours share a word, and are written by neighbouring threads at the same time
            assert_same(loaded.apply(f"case_atomic_{fn}_{dtype}", value, memory), before)
            if fn in ("max", "min") and dtype.is_float:  # of two zeros either is as large as the other
                memory, want = without_sign_of_zero(memory), without_sign_of_zero(want)
            assert_same(memory, want)


def without_sign_of_zero(values: Array) -> Array:
    """The same values, but 0.0 for -0.0."""
    return np.where(values == 0, np.zeros_like(values), values)


def test_random_numbers(device: Device) -> None:
    loaded = device.load(random_cases())
    random = np.random.default_rng(0)
    offsets = np.concatenate(
        [np.arange(1001), np.array([2**32, 2**63 - 1, -1]), random.integers(-(2**63), 2**63, 5000)]
    )
    for seed in (0, -5, 2**40 + 17):
        key, seeds = np.asarray(seed, np.int64), np.full(len(offsets), seed)
        np.testing.assert_array_equal(loaded.apply("case_random_bits", seeds, offsets), philox.bits(key, offsets))
        np.testing.assert_array_equal(loaded.apply("case_random_uniform", seeds, offsets), philox.uniform(key, offsets))
        normal = loaded.apply("case_random_normal", seeds, offsets)
        np.testing.assert_allclose(normal, philox.normal(key, offsets), rtol=2e-6, atol=2e-6)
    assert normal.dtype == to_numpy(f32)
