"""Whole programs in the reference executor, against plain NumPy; effects; what the executor finds out by itself."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.tile_programs import ATTENTION, GEMM, LAYER_NORM, RANDOM, SOFTMAX, run
from tiledsl.backend_ref.execute_tile import EXECUTORS, execute
from tiledsl.backend_ref.philox import normal
from tiledsl.backend_ref.scalar_functions import cast
from tiledsl.ir import dtypes, tile_ops
from tiledsl.ir.core import OPS, Op
from tiledsl.ir.dtypes import DType
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.types import BlockSize
from tiledsl.support.errors import TileRuntimeError

F32 = npt.NDArray[np.float32]
BLOCKS = [1, 3, 7, 100]


def numbers(*shape: int, seed: int = 0) -> F32:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_every_op_runs() -> None:
    tile_level = {op for name, op in OPS.items() if name.startswith("tile.")}
    assert set(EXECUTORS) == tile_level - {tile_ops.Yield, tile_ops.Return}


@pytest.mark.parametrize("block", BLOCKS)
def test_gemm(block: int) -> None:
    a, b = numbers(11, 19), numbers(19, 8, seed=1)
    (c,) = run(GEMM, a, b, block=block, order=random.Random(block))
    assert_close(c, a @ b, terms=19)


def test_gemm_of_empty_arrays() -> None:
    (c,) = run(GEMM, numbers(0, 4), numbers(4, 3))
    assert c.shape == (0, 3)
    (c,) = run(GEMM, numbers(2, 0), numbers(0, 3))
    assert c.tolist() == [[0.0] * 3] * 2


def test_arrays_may_have_any_strides() -> None:
    a, b = np.transpose(numbers(9, 8)), numbers(18, 10, seed=1)[::2, ::-1]
    (c,) = run(GEMM, a, b)
    assert_close(c, a @ b, terms=9)


@pytest.mark.parametrize("block", BLOCKS)
def test_softmax(block: int) -> None:
    x = numbers(18, 78)
    e = np.exp(x - x.max(1, keepdims=True))
    (y,) = run(SOFTMAX, x, block=block)
    assert_close(y, e / e.sum(1, keepdims=True))


@pytest.mark.parametrize("block", BLOCKS)
def test_layer_norm(block: int) -> None:
    x, weight, bias = numbers(5, 83).astype(np.float16), numbers(83, seed=1), numbers(83, seed=2)
    wide = x.astype(np.float32)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias
    (y,) = run(LAYER_NORM, x, weight, bias, 1e-5, block=block)
    assert_close(y, expected.astype(np.float16))


@pytest.mark.parametrize(("queries", "keys"), [(1, 32), (15, 32), (32, 32), (1, 63), (15, 63), (32, 63)])
@pytest.mark.parametrize("causal", [False, True])
def test_streaming_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = numbers(2, queries, 8), numbers(2, keys, 8, seed=1), numbers(2, keys, 8, seed=2)
    s = np.einsum("hqd,hsd->hqs", q, k) * np.float32(8**-0.5)
    if causal:
        s = np.where(np.arange(keys) <= np.arange(queries)[:, None], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    expected = (p / p.sum(-1, keepdims=True)) @ v
    for block in (5, 64):
        (o,) = run(ATTENTION, q, k, v, 8**-0.5, causal, block=block)
        assert_close(o, expected.astype(np.float32), terms=keys)


def test_random_numbers_do_not_depend_on_blocks() -> None:
    like = numbers(9, 11)
    expected = np.reshape(normal(np.asarray(42, np.int64), np.arange(99)), (9, 11))
    for block in BLOCKS:
        np.testing.assert_array_equal(run(RANDOM, 42, like, block=block)[0], expected)


def test_shuffled_programs_show_a_race() -> None:
    race = """
    func @race(%out: tensor<i64, [1]>, %n: i64) {
      %zero = tile.constant() {value = 0, dtype = i64}
      tile.grid([%n]) {blocks = [1]} body(%i: i64) { tile.store(%out, [%zero], %i) }
      tile.return([%out])
    }
    """
    last = {int(run(race, np.zeros(1, np.int64), 20, order=random.Random(seed))[0][0]) for seed in range(5)}
    assert len(last) > 1


def test_blocks_are_asked_for_only_where_they_are_free() -> None:
    text = """
    func @f(%x: tensor<i64, [A, B, C]>) {
      %A = tile.size() {value = A}
      %B = tile.size() {value = B}
      %C = tile.size() {value = C}
      tile.grid([%A, %B, %C]) {blocks = [auto, 4, upto(12, 5)]} body(%a: axis<a>, %b: axis<b>, %c: axis<c>) {
        %e = tile.extent(%a)
        %g = tile.extent(%b)
        %h = tile.extent(%c)
        tile.print([%e, %g, %h])
      }
      tile.return([])
    }
    """
    asked: list[tuple[str, int, str]] = []

    def choose(op: Op, axis: int, size: BlockSize) -> int:
        asked.append((op.name, axis, str(size)))
        return 10

    lines: list[str] = []
    function = parse_module(text).entry
    arguments = [np.zeros((12, 6, 10), np.int64)]
    assert execute(function, arguments, blocks=choose, output=lines.append) == ()
    assert asked == [("tile.grid", 0, "auto"), ("tile.grid", 2, "upto(12, 5)")]
    assert lines == ["10 4 10", "10 2 10", "2 4 10", "2 2 10"]
    lines.clear()
    execute(function, arguments, output=lines.append)
    assert lines[0] == "7 4 5"  # the default


@pytest.mark.parametrize("chosen", [0, 7, 20])
def test_an_illegal_block_is_a_fault_of_the_chooser(chosen: int) -> None:
    text = """
    func @f(%n: i64) {
      tile.grid([%n]) {blocks = [upto(12, 5)]} body(%a: axis<a>) { }
      tile.return([])
    }
    """
    with pytest.raises(AssertionError, match="was chosen for upto"):
        run(text, 3, block=chosen)


def test_print_joins_the_text_and_the_values() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %t = tile.load(%x, [0:2])
      %n = tile.size() {value = N}
      tile.print([%t, %n]) {text = "x is"}
      tile.print([%n])
      tile.print([]) {text = "done"}
      tile.return([])
    }
    """
    lines: list[str] = []
    run(text, np.array([1.5, 2, 3], np.float32), output=lines.append)
    assert lines == ["x is [1.5 2. ] 3", "3", "done"]


ASSERT = """
func @f(%x: tensor<i64, [M, N]>) {
  %M = tile.size() {value = M}
  %N = tile.size() {value = N}
  tile.grid([%M, %N]) {blocks = [1, 4]} body(%i: i64, %n: axis<n>) {
    %t = tile.load(%x, [%i, %n])
    %limit = tile.constant() {value = 10, dtype = i64}
    %small = tile.map([%t, %limit]) {fn = lt}
    tile.assert(%small) {text = "too large"}
  }
  tile.return([])
}
"""


def test_a_failed_assertion_names_the_program_and_the_element() -> None:
    x = np.zeros((3, 6), np.int64)
    run(ASSERT, x)
    x[2, 5] = 10
    with pytest.raises(TileRuntimeError) as caught:
        run(ASSERT, x)
    assert caught.value.message == "assertion failed: too large (in program i = 2, n = 4:6)"
    assert "1 of 2 elements are false, the first at [1]" in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == 9


def test_known_extents_are_checked() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [4]} body(%n: axis<4>) {
        %t = tile.load(%x, [%n]) {in_bounds = [0]}
        tile.store(%x, [%n], %t) {in_bounds = [0]}
      }
      tile.return([%x])
    }
    """
    run(text, np.zeros(8, np.float32))
    with pytest.raises(TileRuntimeError, match=r"promises that the extent of %n is 4, but it is 2"):
        run(text, np.zeros(6, np.float32))


def test_a_block_may_be_a_whole_axis() -> None:
    text = """
    func @f(%x: tensor<f32, [N]>) {
      %N = tile.size() {value = N}
      tile.grid([%N]) {blocks = [16]} body(%n: axis<N>) { }
      tile.return([%x])
    }
    """
    run(text, np.zeros(16, np.float32))
    with pytest.raises(TileRuntimeError, match=r"promises that the extent of %n is N, but it is 16"):
        run(text, np.zeros(20, np.float32))


def test_a_wrong_result_type_is_found_out() -> None:
    function = parse_module(GEMM).entry
    dot = next(op for op in function.walk() if isinstance(op, tile_ops.Dot))
    load = next(op for op in function.walk() if isinstance(op, tile_ops.Load))
    load.result.type = dot.result.type
    with pytest.raises(AssertionError, match=r"tile\.load"):
        execute(function, [numbers(4, 5), numbers(5, 6)])


@pytest.mark.parametrize("dtype", [dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.i8], ids=str)
def test_shape_ops(dtype: DType) -> None:
    text = f"""
    func @f(%x: tensor<{dtype}, [M, N]>) {{
      %y = tile.empty() {{shape = [N, M, 2], dtype = {dtype}}}
      %t = tile.load(%x, [:, :])
      %turned = tile.transpose(%t) {{permutation = [1, 0]}}
      %columns = tile.reshape(%turned) {{shape = [N, M, 1]}}
      %twice = tile.broadcast(%columns) {{shape = [N, M, 2]}}
      %i = tile.arange() {{extent = 2}}
      %j = tile.cast(%i) {{dtype = {dtype}}}
      %all = tile.broadcast(%j) {{shape = [N, M, 2]}}
      %sum = tile.map([%twice, %all]) {{fn = add}}
      tile.store(%y, [:, :, :], %sum)
      tile.return([%y])
    }}
    """
    x = np.array([[0, 1, 2], [3, 4, 5]])
    (y,) = run(text, cast(x, dtype))
    expected = np.transpose(x)[:, :, None] + np.arange(2)
    np.testing.assert_array_equal(y, cast(expected, dtype), strict=True)
