"""Whole TILE programs on the CPU back end against the reference executor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.support.compare import assert_close
from tests.support.cpu_programs import Array, run_on_cpu
from tests.support.tile_programs import ATTENTION, GEMM, LAYER_NORM, RANDOM, SOFTMAX, run
from tiledsl.backend_ref.arguments import Argument
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.machine import MACHINES, CpuMachine

BLOCKS = [1, 8, 48]


def numbers(*shape: int, dtype: str = "f32", seed: int = 0) -> Array:
    kind = BY_NAME[dtype]
    generator = np.random.default_rng(seed)
    drawn: Array = generator.standard_normal(shape) if kind.is_float else generator.integers(-9, 9, shape)
    return np.asarray(drawn, to_numpy(kind))


def check(
    text: str,
    *arguments: Argument,
    block: int = 8,
    terms: int = 1,
    threads: int = 1,
    machine: CpuMachine | None = None,
) -> None:
    """Both run the text on copies of the arguments; results and arguments must agree afterwards."""
    there, here = ([_copy(a) for a in arguments] for _ in range(2))
    expected = run(text, *there, block=block)
    actual = run_on_cpu(text, *here, block=block, threads=threads, machine=machine)
    for got, want in zip([*actual, *_arrays(here)], [*expected, *_arrays(there)]):
        assert_close(got, want, terms=terms)


def _copy(argument: Argument) -> Argument:
    return np.array(argument) if isinstance(argument, np.ndarray) else argument


def _arrays(arguments: Sequence[Argument]) -> list[Array]:
    return [a for a in arguments if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (9, 50, 17), (24, 16, 48), (5, 600, 3)])
def test_gemm(sizes: tuple[int, int, int], block: int) -> None:
    m, k, n = sizes
    check(GEMM, numbers(m, k), numbers(k, n, seed=1), block=block, terms=k)


@pytest.mark.parametrize("name", ["avx2", "avx512", "generic"])
def test_gemm_for_other_register_files(name: str) -> None:
    check(GEMM, numbers(13, 40), numbers(40, 70, seed=1), block=32, terms=40, machine=MACHINES[name])


@pytest.mark.parametrize("name", ["avx2", "avx512", "generic"])
@pytest.mark.parametrize("columns", [24, 40, 56])
def test_gemm_f64_of_several_panels(columns: int, name: str) -> None:
    a, b = numbers(13, 40, dtype="f64"), numbers(40, columns, dtype="f64", seed=1)
    check(GEMM.replace("f32", "f64"), a, b, block=64, terms=40, machine=MACHINES[name])


def test_gemm_on_threads() -> None:
    check(GEMM, numbers(200, 150), numbers(150, 130, seed=1), block=16, terms=150, threads=3)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (18, 78), (7, 256)])
def test_softmax(shape: tuple[int, int], block: int) -> None:
    check(SOFTMAX, numbers(*shape), block=block)


@pytest.mark.parametrize("block", BLOCKS)
def test_layer_norm(block: int) -> None:
    x = numbers(11, 130, dtype="f16")
    check(LAYER_NORM, x, numbers(130, seed=1), numbers(130, seed=2), 1e-5, block=block)


@pytest.mark.parametrize("block", BLOCKS)
def test_random(block: int) -> None:
    check(RANDOM, 7, numbers(5, 37), block=block)


def one_tile(dtype: str, body: str, result: str = "f32", shape: str = "[M, N]", extra: str = "") -> str:
    """A function that loads `%t` whole, computes `%r`, and stores that."""
    index = ", ".join(":" for _ in shape.split(","))
    return f"""
    func @f(%x: tensor<{dtype}, [M, N]>{extra}) {{
      %y = tile.empty() {{shape = {shape}, dtype = {result}}}
      %one = tile.constant() {{value = 1, dtype = i64}}
      tile.grid([%one]) {{blocks = [1]}} body(%g: i64) {{
        %t = tile.load(%x, [:, :])
        {body}
        tile.store(%y, [{index}], %r)
      }}
      tile.return([%y])
    }}
    """


@pytest.mark.parametrize("fn", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("axes", ["[0]", "[1]", "[0, 1]"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "i64"])
def test_reductions(dtype: str, axes: str, fn: str) -> None:
    shape = {"[0]": "[1, N]", "[1]": "[M, 1]", "[0, 1]": "[1, 1]"}[axes]
    body = f"%r = tile.reduce([%t]) {{axes = {axes}, fn = {fn}, keepdims = true}}"
    check(one_tile(dtype, body, dtype, shape), numbers(5, 37, dtype=dtype), terms=185)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fn", ["argmax", "argmin"])
def test_argmax_with_ties_and_nan(fn: str, axis: int) -> None:
    body = f"%r = tile.reduce([%t]) {{axes = [{axis}], fn = {fn}}}"
    text = one_tile("f32", body, "i64", "[N]" if axis == 0 else "[M]")
    x = np.round(numbers(20, 100))
    check(text, x)
    x[3, 41] = x[3, 77] = x[9, 0] = np.nan
    check(text, x)
    check(text, np.full((4, 50), -np.inf, np.float32))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", ["", ", reverse = true"])
@pytest.mark.parametrize("fn", ["add", "max"])
def test_scans(fn: str, reverse: str, axis: int) -> None:
    body = f"%r = tile.scan([%t]) {{axis = {axis}, fn = {fn}{reverse}}}"
    check(one_tile("f32", body), numbers(19, 37), terms=37)


def test_transpose_reshape_and_extract() -> None:
    check(one_tile("f32", "%r = tile.transpose(%t) {permutation = [1, 0]}", shape="[N, M]"), numbers(19, 37))
    check(one_tile("f32", "%r = tile.reshape(%t) {shape = [N, M]}", shape="[N, M]"), numbers(19, 37))
    check(one_tile("f32", "%r = tile.extract(%t, [0:1, :])", shape="[1, N]"), numbers(19, 37))


def test_reshape_inside_an_expression() -> None:
    body = """
        %a = tile.map([%t, %t]) {fn = add}
        %b = tile.reshape(%a) {shape = [M * N]}
        %c = tile.map([%b]) {fn = neg}
        %r = tile.reshape(%c) {shape = [N, M]}
    """
    check(one_tile("f32", body, shape="[N, M]"), numbers(7, 33))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "f8e4m3"])
def test_dot_of_other_dtypes(dtype: str) -> None:
    result = "f64" if dtype == "f64" else "f32"
    body = f"""
        %u = tile.transpose(%t) {{permutation = [1, 0]}}
        %r = tile.dot(%t, %u, none) {{dtype = {result}}}
    """
    check(one_tile(dtype, body, result, "[M, M]"), numbers(21, 300, dtype=dtype), terms=300)


def test_dot_of_bytes() -> None:
    body = """
        %u = tile.transpose(%t) {permutation = [1, 0]}
        %r = tile.dot(%t, %u, none) {dtype = i32}
    """
    check(one_tile("i8", body, "i32", "[M, M]"), numbers(21, 300, dtype="i8"))


def test_batched_dot() -> None:
    text = """
    func @f(%x: tensor<f32, [B, M, K]>, %y: tensor<f32, [B, K, N]>) {
      %z = tile.empty() {shape = [B, M, N], dtype = f32}
      %size = tile.size() {value = B}
      tile.grid([%size]) {blocks = [auto]} body(%b: axis<b>) {
        %s = tile.load(%x, [%b, :, :])
        %t = tile.load(%y, [%b, :, :])
        %r = tile.dot(%s, %t, none) {dtype = f32}
        tile.store(%z, [%b, :, :], %r)
      }
      tile.return([%z])
    }
    """
    check(text, numbers(5, 9, 300), numbers(5, 300, 50), block=2, terms=300)


def test_accumulator_that_is_rescaled_and_read_afterwards() -> None:
    text = """
    func @f(%x: tensor<f32, [M, K]>, %y: tensor<f32, [K, N]>) {
      %z = tile.empty() {shape = [M, N], dtype = f32}
      %w = tile.empty() {shape = [M, N], dtype = f32}
      %M = tile.size() {value = M}
      tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
        %half = tile.constant() {value = 0.5, dtype = f32}
        %start = tile.constant() {value = 0, dtype = i64}
        %K = tile.size() {value = K}
        %init = tile.broadcast(%half) {shape = [m, N]}
        %r, %q = tile.range(%start, %K, [%init, %init]) {blocks = [auto]}
            body(%k: axis<k>, %acc: tile<f32, [m, N]>, %last: tile<f32, [m, N]>) {
          %s = tile.load(%x, [%m, %k])
          %t = tile.load(%y, [%k, :])
          %scaled = tile.map([%acc, %half]) {fn = mul}
          %next = tile.dot(%s, %t, %scaled) {dtype = f32}
          %both = tile.map([%next, %acc]) {fn = sub}
          tile.yield([%next, %both])
        }
        tile.store(%z, [%m, :], %r)
        tile.store(%w, [%m, :], %q)
      }
      tile.return([%z, %w])
    }
    """
    check(text, numbers(21, 40), numbers(40, 33, seed=1), block=8, terms=40)


def test_carried_values_that_swap() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>, %y: tensor<f32, [N]>) {
      %z = tile.empty() {shape = [N], dtype = f32}
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %zero = tile.constant() {value = 0, dtype = i64}
        %five = tile.constant() {value = 5, dtype = i64}
        %one = tile.constant() {value = 1, dtype = i64}
        %a = tile.load(%x, [%n])
        %b = tile.load(%y, [%n])
        %p, %q = tile.for(%zero, %five, %one, [%a, %b]) body(%i: i64, %u: tile<f32, [n]>, %v: tile<f32, [n]>) {
          %sum = tile.map([%u, %v]) {fn = add}
          tile.yield([%v, %sum])
        }
        %r = tile.map([%p, %q]) {fn = sub}
        tile.store(%z, [%n], %r)
      }
      tile.return([%z])
    }
    """
    check(text, numbers(50), numbers(50, seed=1), block=16)


def test_gather_scatter_and_shift() -> None:
    gather = """
    func @f(%x: tensor<f32, [M, N]>, %i: tensor<i32, [K]>) {
      %y = tile.empty() {shape = [K, N], dtype = f32}
      %K = tile.size() {value = K}
      tile.grid([%K]) {blocks = [auto]} body(%k: axis<k>) {
        %at = tile.load(%i, [%k])
        %seven = tile.constant() {value = 7.0, dtype = f32}
        %r = tile.load(%x, [%at, :], %seven)
        tile.store(%y, [%k, :], %r)
      }
      tile.return([%y])
    }
    """
    check(gather, numbers(9, 33), np.array([3, -1, 8, 9, 0, 3], np.int32), block=4)
    scatter = """
    func @f(%x: tensor<f32, [K]>, %i: tensor<i64, [K]>, %y: tensor<f32, [M]>) {
      %K = tile.size() {value = K}
      tile.grid([%K]) {blocks = [auto]} body(%k: axis<k>) {
        %at = tile.load(%i, [%k])
        %t = tile.load(%x, [%k])
        tile.store(%y, [%at], %t)
      }
      tile.return([%y])
    }
    """
    check(scatter, numbers(6), np.array([5, 3, -2, 99, 0, 7]), numbers(8), block=4)
    stencil = """
    func @f(%x: tensor<f32, [N]>) {
      %y = tile.empty() {shape = [N], dtype = f32}
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %one = tile.constant() {value = 1, dtype = i64}
        %minus = tile.constant() {value = -1, dtype = i64}
        %right = tile.shift(%n, %one)
        %left = tile.shift(%n, %minus)
        %a = tile.load(%x, [%left])
        %b = tile.load(%x, [%right])
        %r = tile.map([%a, %b]) {fn = sub}
        tile.store(%y, [%n], %r)
      }
      tile.return([%y])
    }
    """
    for block in BLOCKS:
        check(stencil, numbers(50), block=block)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "u8"])
def test_atomics(dtype: str) -> None:
    text = f"""
    func @f(%x: tensor<{dtype}, [K]>, %i: tensor<i64, [K]>, %y: tensor<{dtype}, [M]>) {{
      %K = tile.size() {{value = K}}
      tile.grid([%K]) {{blocks = [auto]}} body(%k: axis<k>) {{
        %at = tile.load(%i, [%k])
        %t = tile.load(%x, [%k])
        %old = tile.atomic(%y, [%at], %t) {{fn = add}}
      }}
      tile.return([%y])
    }}
    """
    x: Array = np.asarray(np.arange(40), to_numpy(BY_NAME[dtype]))
    i = np.random.default_rng(0).integers(-1, 6, 40)
    check(text, x, i, np.zeros(5, x.dtype), block=16, threads=2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dtype", "fn"), [("f32", "add"), ("f16", "max"), ("i64", "min"), ("bool", "exchange")])
def test_rows_are_updated_by_one_thread_and_by_several(dtype: str, fn: str, threads: int) -> None:
    text = f"""
    func @f(%x: tensor<{dtype}, [K, R], unit=1>, %i: tensor<i64, [K]>, %y: tensor<{dtype}, [M, R], unit=1>) {{
      %old = tile.empty() {{shape = [K, R], dtype = {dtype}}}
      %K = tile.size() {{value = K}}
      %R = tile.size() {{value = R}}
      tile.grid([%K, %R]) {{blocks = [auto, auto]}} body(%k: axis<k>, %r: axis<r>) {{
        %at = tile.load(%i, [%k])
        %t = tile.load(%x, [%k, %r])
        %before = tile.atomic(%y, [%at, %r], %t) {{fn = {fn}}}
        tile.store(%old, [%k, %r], %before)
      }}
      tile.return([%old])
    }}
    """
    generator = np.random.default_rng(0)
    x, y = (np.asarray(generator.integers(0, 2, (n, 21)), to_numpy(BY_NAME[dtype])) for n in (12, 5))
    rows = np.array([0, 4, -1, 1, 5, 2, 3]) if threads > 1 else generator.integers(-1, 6, 12)
    check(text, x[: len(rows)], rows, y, block=8, threads=threads)


def test_what_rows_have_in_common_is_computed_once() -> None:
    text = """
    func @f(%x: tensor<f32, [M, N]>, %a: f32) {
      %y = tile.empty() {shape = [M, N], dtype = f32}
      %z = tile.empty() {shape = [M, N], dtype = f32}
      %M = tile.size() {value = M}
      %N = tile.size() {value = N}
      tile.grid([%M, %N]) {blocks = [auto, auto]} body(%m: axis<m>, %n: axis<n>) {
        %t = tile.load(%x, [%m, %n])
        %at = tile.index(%n)
        %number = tile.cast(%at) {dtype = f32}
        %power = tile.map([%a, %number]) {fn = pow}
        %each = tile.broadcast(%power) {shape = [m, n]}
        %product = tile.map([%t, %each]) {fn = mul}
        tile.store(%y, [%m, %n], %product)
        %three = tile.constant() {value = 3, dtype = i64}
        %turned = tile.map([%at, %three]) {fn = mod}
        %read = tile.load(%x, [%m, %turned])
        tile.store(%z, [%m, %n], %read)
      }
      tile.return([%y, %z])
    }
    """
    for block in BLOCKS:
        check(text, numbers(11, 37), 0.75, block=block)


@pytest.mark.parametrize("columns", [1, 8, 21])
def test_loops_that_halve_stay_in_registers(columns: int) -> None:
    """An element of a loop reads a tensor where it says itself."""
    text = """
    func @f(%edges: tensor<f32, [E]>, %x: tensor<f32, [N]>, %steps: i64) {
      %y = tile.empty() {shape = [N], dtype = i64}
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %t = tile.load(%x, [%n])
        %none = tile.constant() {value = 0, dtype = i64}
        %one = tile.constant() {value = 1, dtype = i64}
        %two = tile.constant() {value = 2, dtype = i64}
        %E = tile.size() {value = E}
        %low = tile.broadcast(%none) {shape = [n]}
        %high = tile.broadcast(%E) {shape = [n]}
        %l, %h = tile.for(%none, %steps, %one, [%low, %high]) body(%i: i64, %a: tile<i64, [n]>, %b: tile<i64, [n]>) {
          %sum = tile.map([%a, %b]) {fn = add}
          %middle = tile.map([%sum, %two]) {fn = floordiv}
          %edge = tile.load(%edges, [%middle])
          %open = tile.map([%a, %b]) {fn = lt}
          %below = tile.map([%edge, %t]) {fn = lt}
          %up = tile.map([%open, %below]) {fn = and}
          %next = tile.map([%middle, %one]) {fn = add}
          %c = tile.map([%up, %next, %a]) {fn = where}
          %d = tile.map([%up, %b, %middle]) {fn = where}
          tile.yield([%c, %d])
        }
        tile.store(%y, [%n], %l)
      }
      tile.return([%y])
    }
    """
    edges = np.sort(numbers(13))
    found = run_on_cpu(text, edges, numbers(columns, seed=1), 4, block=16)[0]
    assert np.array_equal(found, np.searchsorted(edges, numbers(columns, seed=1)))
    check(text, edges, numbers(columns, seed=1), 4, block=16)


def test_while_if_and_scalars() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>, %limit: f64, %count: i64, %flag: bool) {
      %y = tile.empty() {shape = [N], dtype = f32}
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [auto]} body(%n: axis<n>) {
        %t = tile.load(%x, [%n])
        %low = tile.cast(%limit) {dtype = f32}
        %zero = tile.constant() {value = 0, dtype = i64}
        %i, %v = tile.while([%zero, %t]) condition(%j: i64, %u: tile<f32, [n]>) {
          %again = tile.map([%j, %count]) {fn = lt}
          tile.yield([%again])
        } body(%j: i64, %u: tile<f32, [n]>) {
          %one = tile.constant() {value = 1, dtype = i64}
          %next = tile.map([%j, %one]) {fn = add}
          %w = tile.map([%u, %low]) {fn = mul}
          tile.yield([%next, %w])
        }
        %r = tile.if(%flag) then() {
          %a = tile.map([%v]) {fn = neg}
          tile.yield([%a])
        } otherwise() {
          tile.yield([%v])
        }
        tile.store(%y, [%n], %r)
      }
      tile.return([%y])
    }
    """
    for flag in (False, True):
        check(text, numbers(50), 1.5, 3, flag, block=16)


def test_a_tensor_read_and_written_in_place() -> None:
    text = """
    func @f(%x: tensor<f32, [M, N]>) {
      %M = tile.size() {value = M}
      tile.grid([%M]) {blocks = [auto]} body(%m: axis<m>) {
        %a = tile.load(%x, [%m, :])
        %s = tile.reduce([%a]) {axes = [1], fn = add, keepdims = true}
        %b = tile.broadcast(%s) {shape = [m, N]}
        %c = tile.map([%a, %b]) {fn = sub}
        tile.store(%x, [%m, :], %c)
        %d = tile.map([%a, %c]) {fn = mul}
        tile.store(%x, [%m, :], %d)
      }
      tile.return([%x])
    }
    """
    check(text, numbers(11, 50), terms=50)


def test_prints(capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %t = tile.load(%x, [0:2])
      %n = tile.size() {value = N}
      tile.print([%t, %n]) {text = "x is"}
      tile.print([]) {text = "done"}
      tile.return([])
    }
    """
    run_on_cpu(text, np.array([1.5, 2, 3], np.float32))
    assert capfd.readouterr().out.splitlines() == ["x is [1.5 2. ] 3", "done"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 32), (15, 63), (63, 63)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = (numbers(2, n, 20, seed=seed) for seed, n in enumerate((queries, keys, keys)))
    for block in (8, 48):
        check(ATTENTION, q, k, v, 0.25, causal, block=block, terms=63)
