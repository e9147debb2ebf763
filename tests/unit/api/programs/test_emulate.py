"""`kernel.emulate`: what it takes and gives, the plans and seeds, what is warned of and refused."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

import tiledsl
from tests.support.kernels import call_kernels
from tiledsl import tile
from tiledsl.api.programs import emulate as api_emulate
from tiledsl.api.programs.emulate import Code, Request
from tiledsl.backend_ref.emulator.emulate import Emulation, EmulatorWarning
from tiledsl.support.errors import (
    TileError,
    TilePerformanceWarning,
    TileResourceError,
    TileRuntimeError,
    TileShapeError,
    TileTypeError,
    TileUnsupportedError,
    make_error,
)
from tiledsl.support.location import Location
from tiledsl.support.progress import Progress

# not the kernels themselves: other tests compile these for devices that are none
accumulate, add, both, column_totals, gemm, power, relay, scale, sum_and_difference = (
    tile.kernel(kernel.__wrapped__)
    for kernel in (
        call_kernels.accumulate,
        call_kernels.add,
        call_kernels.both,
        call_kernels.column_totals,
        call_kernels.gemm,
        call_kernels.power,
        call_kernels.relay,
        call_kernels.scale,
        call_kernels.sum_and_difference,
    )
)

F32 = np.float32

pytestmark = pytest.mark.filterwarnings("ignore::tiledsl.TilePerformanceWarning")  # that one test asks for


def ramp(size: int = 10, dtype: Any = F32) -> Any:
    return np.arange(size).astype(dtype)


def normal(*shape: int, dtype: Any = F32) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(dtype)


def codes(kernel: tiledsl.Kernel, *args: Any, out: Any = None, plan: int = 0, arch: str = "sm_90") -> Code:
    """What a call runs."""
    found: list[Code] = []
    kernel.emulated(args, {}, out, Request(arch, plan, watch=found.append))
    (code,) = found
    return code


@tile.kernel
def noise(x: tile.Tensor, seed: int) -> Any:
    """x + seed."""
    (N,) = x.shape
    z = tile.empty((N,), x.dtype)
    for n in tile.grid(N):
        z[n] = x[n] + seed
    return z


@tile.kernel
def doubled(x: tile.Tensor, out: tile.Tensor) -> None:
    """out = 2 x."""
    (N,) = x.shape
    (N,) = out.shape
    for n in tile.grid(N):
        out[n] = x[n] * 2


@tile.kernel
def checked(x: tile.Tensor) -> Any:
    """x, whose elements must not be negative."""
    (N,) = x.shape
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N):
        tile.assert_(tile.all(x[n] >= 0), "negative")
        y[n] = x[n]
    return y


@tile.kernel
def too_large(a: tile.Tensor, b: tile.Tensor) -> Any:
    """A product in blocks that no shared memory has room for."""
    M, K = a.shape
    K, N = b.shape
    c = tile.empty((M, N), a.dtype)
    for m, n in tile.grid(M, N, block=(256, 256)):
        acc = tile.zeros((m, n), tile.f32)
        for k in tile.range(K, block=128, num_stages=4):
            acc = tile.dot(a[m, k], b[k, n], acc)
        c[m, n] = acc
    return c


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("seed", [0, 3, None])
def test_what_a_kernel_gives(arch: str, seed: int | None) -> None:
    a, b = normal(20, 33), normal(33, 17)
    np.testing.assert_allclose(gemm.emulate(a, b, arch=arch, seed=seed), a @ b, rtol=1e-5, atol=1e-5)


def test_strides_and_alignment() -> None:
    x, long = normal(6, 40), normal(81)
    np.testing.assert_array_equal(add.emulate(x[2, ::-2], long[1::4]), x[2, ::-2] + long[1::4])
    np.testing.assert_allclose(gemm.emulate(x.T, x[:, 1:]), x.T @ x[:, 1:], rtol=1e-5, atol=1e-5)
    unaligned = np.frombuffer(bytearray(41), F32, 10, 1)
    np.testing.assert_array_equal(add.emulate(unaligned, unaligned), np.zeros(10, F32))


def test_the_plan_follows_from_sizes_and_addresses() -> None:
    whole = normal(65)
    assert codes(add, whole[:64], whole[:64]).plan.alignment == (16, 16, 16)
    assert codes(add, whole[1:], whole[:64]).plan.alignment == (4, 16, 16)
    assert codes(gemm, normal(8, 6), normal(6, 8)).plan.alignment == (8, 16, 16)
    assert codes(gemm, normal(8, 6).T, normal(8, 8)).plan.alignment == (8, 16, 16)
    assert codes(add, whole[:64], whole[:64], out=np.empty(65, F32)[1:]).plan.alignment == (16, 16, 4)
    padded = np.empty((8, 8), F32)[:, :6]
    assert codes(gemm, normal(8, 8), normal(8, 6), out=padded).plan.alignment == (16, 8, 8)
    assert codes(gemm, normal(64, 64), normal(64, 64)).programs == codes(gemm, *(normal(64, 64),) * 2).programs


def test_narrow_dtypes_and_zeros() -> None:
    x = ramp(40, ml_dtypes.bfloat16)
    result = add.emulate(x, x)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result, x + x)
    assert add.emulate(ramp(0), ramp(0)).shape == (0,)


class Foreign:
    """An array of another library, in CPU memory."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries() -> None:
    x = ramp()
    np.testing.assert_array_equal(add.emulate(Foreign(x), ramp()), x * 2)
    target = Foreign(ramp())
    assert add.emulate(x, x, out=target) is target
    np.testing.assert_array_equal(target.array, x * 2)


def test_several_grids_and_results() -> None:
    x = ramp()
    twice, reverse = relay.emulate(x)
    np.testing.assert_array_equal(twice, ramp() * 4)
    np.testing.assert_array_equal(reverse, ramp()[::-1] * 4)
    np.testing.assert_array_equal(x, ramp() + 1)
    np.testing.assert_array_equal(column_totals.emulate(np.ones((5, 9), F32)), np.full(9, 5))


def test_parameters_that_are_written() -> None:
    x, y = ramp(), ramp()
    assert both.emulate(x, y) is None
    np.testing.assert_array_equal(y, ramp() + 2)
    total = ramp()
    assert accumulate.emulate(total, total) is total  # as on the CPU: it reads what was there before
    np.testing.assert_array_equal(total, np.full(10, 9))


def test_out() -> None:
    target = np.zeros((10, 2), F32)
    assert add.emulate(ramp(), ramp(), out=target[:, 1]).base is target
    np.testing.assert_array_equal(target[:, 1], ramp() * 2)
    assert not target[:, 0].any()
    plus, minus = np.empty(10, F32), np.empty(10, F32)
    sum_and_difference.emulate(ramp(), ramp(), out=(plus, minus))
    np.testing.assert_array_equal(plus, ramp() * 2)
    x = ramp()
    assert add.emulate(x, x, out=x) is x
    np.testing.assert_array_equal(x, ramp() * 2)


def test_numbers_constants_and_names() -> None:
    np.testing.assert_array_equal(scale.emulate(ramp(), 2.0, offset=3), ramp() * 2 + 3)
    np.testing.assert_array_equal(power.emulate(ramp(), exponent=3), ramp() ** 3)
    np.testing.assert_array_equal(power.emulate(x=ramp()), ramp() ** 2)


def test_parameters_called_seed_and_out() -> None:
    np.testing.assert_array_equal(noise.emulate(ramp(), seed=4), ramp() + 4)
    np.testing.assert_array_equal(noise.emulate(ramp(), 4, seed=9), ramp() + 4)
    with pytest.raises(TileTypeError, match="without `seed`"):
        noise.emulate(ramp())
    target = ramp()
    assert doubled.emulate(ramp(), out=target) is None
    np.testing.assert_array_equal(target, ramp() * 2)


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ((ramp(), ramp(11)), TileShapeError, "size `N` is 10 in `x` (axis 0) but 11 in `y`"),
        ((ramp(), [1.0]), TileTypeError, "`y` is a list"),
        ((ramp(), ramp(dtype=np.complex64)), TileTypeError, "`y` has dtype complex64"),
        ((ramp(),), TileTypeError, "was called without `y`"),
    ],
)
def test_arguments_are_checked_as_in_a_call(args: tuple[Any, ...], kind: type[TileError], text: str) -> None:
    messages: list[str] = []
    for run in (add.emulate, add):
        with pytest.raises(kind) as caught:
            run(*args)
        assert text in caught.value.message
        assert caught.value.location is not None
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


def test_out_is_checked_as_in_a_call() -> None:
    with pytest.raises(TileShapeError, match=r"`out` has shape \(11,\)"):
        add.emulate(ramp(), ramp(), out=ramp(11))


@pytest.mark.parametrize("arch", ["cpu", "reference", "vax"])
def test_architectures_without_gpu_ir(arch: str) -> None:
    with pytest.raises(TileUnsupportedError, match=f"there is none for `{arch}`"):
        add.emulate(ramp(), ramp(), arch=arch)


def test_architecture_that_is_too_old() -> None:
    with pytest.raises(TileUnsupportedError, match="sm_61"):
        add.emulate(ramp(), ramp(), arch="sm_61")


def test_every_plan_can_be_tried() -> None:
    a, b = normal(64, 64, dtype=np.float16), normal(64, 64, dtype=np.float16)
    first = codes(gemm, a, b)
    assert str(first.plan) != str(codes(gemm, a, b, plan=1).plan)
    for plan in (0, 1, 2):
        np.testing.assert_allclose(gemm.emulate(a, b, plan=plan, seed=None), a @ b, rtol=0.05, atol=0.05)
    with pytest.raises(TileUnsupportedError, match=r"no plan 99 for this call of `gemm`: there are \d+"):
        gemm.emulate(a, b, plan=99)
    with pytest.raises(TileUnsupportedError, match="no plan -1"):
        gemm.emulate(a, b, plan=-1)


def test_plans_without_room_are_left() -> None:
    a, b = normal(256, 128, dtype=np.float16), normal(128, 256, dtype=np.float16)
    with pytest.raises(TileResourceError) as caught:
        too_large.emulate(a, b)
    assert "shared" in str(caught.value)

    large = normal(128, 512)
    placed: Any = gemm.compile(large, large.T, arch="sm_90").program
    alignment = [16, 16, 16]
    every = api_emulate.choose_plans(placed.module.entry, api_emulate.gpu_machine("sm_90"), {}, alignment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_emulate, "_lowered", refusing(every[0]))
        fitting = [plan for plan, _ in api_emulate.fitting_plans(every, placed.module, "sm_90")]
    assert fitting == every[1:]


def test_the_last_plan_with_room_is_found_from_the_end() -> None:
    large, sizes, aligned = normal(128, 512), {"M": 128, "K": 512, "N": 128}, (16, 16, 16)
    placed: Any = gemm.compile(large, large.T, arch="sm_90").program
    every = api_emulate.choose_plans(placed.module.entry, api_emulate.gpu_machine("sm_90"), sizes, aligned)
    request = Request(arch="sm_90", plan=len(every))
    program = api_emulate.EmulatedProgram(placed.module, "sm_90", request, [], clamped=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_emulate, "_lowered", refusing(every[-1]))
        code = program.bind(sizes, [], 1)._code(aligned, ())  # pyright: ignore[reportPrivateUsage]
    assert code.plan == every[-2]


def refusing(refused: object) -> Any:
    """The lowering, but that one plan has no room."""
    lowered: Any = api_emulate._lowered  # pyright: ignore[reportPrivateUsage]

    def maybe(module: Any, plan: object, arch: str) -> Any:
        return TileResourceError("no room") if plan == refused else lowered(module, plan, arch)

    return maybe


def test_assertions_fail() -> None:
    np.testing.assert_array_equal(checked.emulate(ramp()), ramp())
    with pytest.raises(TileRuntimeError, match="assertion failed: negative") as caught:
        checked.emulate(-ramp())
    assert "tile.assert_" in str(caught.value)


def test_what_is_wrong_is_said_with_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def emulate(*args: object, **named: object) -> Emulation:
        error = make_error("assertion-failed", Location("k.py", 3), text="race", program="in program n = 0:32")
        error.code = "emulator-race"
        raise error

    monkeypatch.setattr(api_emulate, "emulate", emulate)
    with pytest.raises(TileRuntimeError) as caught:
        add.emulate(ramp(), ramp())
    first, note, fix = str(caught.value).strip().splitlines()
    assert first.startswith("k.py:3:1: TileRuntimeError: assertion failed: race")
    assert note.startswith("  note: so it is in the code for sm_90 with plan (n=")
    assert fix.startswith("  fix: ")


def test_bank_conflicts_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = EmulatorWarning("emulator-bank-conflicts", "slow", Location("k.py", 3), 4, "k.py:3: slow")

    def emulate(*args: object, **named: object) -> Emulation:
        return Emulation((ramp(),), (warning,), 0, 0)

    monkeypatch.setattr(api_emulate, "emulate", emulate)
    with pytest.warns(TilePerformanceWarning, match="k.py:3: slow") as caught:
        add.emulate(ramp(), ramp())
    assert [found.filename for found in caught] == [__file__]
    assert issubclass(tiledsl.TilePerformanceWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TilePerformanceWarning):
            add.emulate(ramp(), ramp())


def test_compilations_are_noted_and_shared() -> None:
    kernel = tile.kernel(add.__wrapped__)
    for seed in range(3):
        kernel.emulate(ramp(), ramp(), arch="sm_80", seed=seed)
    assert [made.arch for made in kernel.recompiles] == ["sm_80"]


def test_import_does_not_load_the_emulator() -> None:
    program = "import sys, tiledsl; print([name for name in sys.modules if 'emulat' in name])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "tiledsl.api.programs.emulate" not in run.stdout
    assert "backend_ref" not in run.stdout


@tile.kernel
def normalised(x: tile.Tensor, w: tile.Tensor, bias: tile.Tensor) -> Any:
    y = tile.gelu(x @ w + bias)
    return y, y.mT @ y


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_formulas_run_kernel_by_kernel(arch: str) -> None:
    x, w, bias = normal(24, 32), normal(32, 16), normal(16)
    ran: list[Code] = []
    request = Request(arch, watch=ran.append)
    given = normalised.emulated((x, w), {"bias": bias}, None, request).result
    for result, expected in zip(cast("Any", given), normalised(x, w, bias)):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    assert len({code.function.name for code in ran}) == len(ran) >= 2
    out = tuple(np.zeros_like(result) for result in cast("Any", given))
    assert normalised.emulate(x, w, bias, arch=arch, seed=None, plan=1, out=out)[0] is out[0]
    np.testing.assert_allclose(out[1], out[0].T @ out[0], rtol=1e-4, atol=1e-5)


def test_formulas_are_emulated_as_they_are_called() -> None:
    x, w, bias = normal(8, 16), normal(16, 8), normal(8)
    with pytest.raises(TileUnsupportedError, match="none for `cpu`"):
        normalised.emulate(x, w, bias, arch="cpu")
    with pytest.raises(TileShapeError):
        normalised.emulate(x, w, bias, out=(np.zeros((3, 8), F32), np.zeros((8, 8), F32)))


def test_what_takes_long_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve seconds for each program, by a clock that runs ahead."""
    now = itertools.count(step=12.0)
    defaults = Progress.__init__.__defaults__
    assert defaults is not None
    monkeypatch.setattr(Progress.__init__, "__defaults__", (defaults[0], lambda: next(now)))
    x = ramp(10_000)
    add.emulate(x, x, seed=None)
    assert "emulating `add`: 1 of " in capsys.readouterr().err
    add.compile(x, x, arch="reference")(x, x)
    assert "running `add` op by op: 1 of " in capsys.readouterr().err
