"""Shared memory in the GPU executor: transfers, matrix loads, asynchronous copies, and the races that it finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_programs import GEMM, program, run_gpu
from tiledsl.ir.dtypes import bf16, to_numpy
from tiledsl.support.errors import TileError

Array = npt.NDArray[Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def bf16s(*shape: int, seed: int = 0) -> Array:
    return numbers(*shape, seed=seed).astype(to_numpy(bf16))


# Through a buffer, from one layout to another

THROUGH = """
    %v = gpu.load(%x, [%zero, %zero], []) {axes = [0, 1], shape = [16, 32], layout = spatial(16, 4) * local(1, 8)}
    %b = gpu.buffer() {shape = [16, 32], dtype = f32, layout = LAYOUT}
    gpu.write(%b, %v, [%zero, %zero]) {places = [0, 1], vector = 4}
    gpu.barrier()
    %w = gpu.read(%b, [%zero, %zero]) {places = [0, 1], shape = [16, 32], layout = local(8, 1) * spatial(2, 32)}
    gpu.store(%y, [%zero, %zero], %w, []) {axes = [0, 1]}"""
BOTH = "%x: tensor<f32, [16, 32], unit=1>, %y: tensor<f32, [16, 32], unit=1>"


def through(body: str = THROUGH, layout: str = "rows(0, 1)", **options: Any) -> Array:
    y = np.full((16, 32), -7, np.float32)
    run_gpu(program(body.replace("LAYOUT", layout), BOTH, threads=64, **options), numbers(16, 32), y)
    return y


@pytest.mark.parametrize("layout", ["rows(0, 1)", "rows(0, 1, padding=4)", "rows(0, 1, swizzle=(3, 4, 3))"])
def test_through_a_buffer(layout: str) -> None:
    assert through(layout=layout).tolist() == numbers(16, 32).tolist()


def test_vectors_lie_side_by_side_in_the_buffer() -> None:
    with pytest.raises(TileError, match=r"does not lie side by side: %b at bytes \[0, 64, 128, 192\]"):
        through(layout="rows(1, 0)")
    with pytest.raises(TileError, match="is not aligned to 16 bytes"):
        through(layout="rows(0, 1, padding=1)")


def test_a_missing_barrier_before_a_read() -> None:
    with pytest.raises(TileError, match=r"thread \d+ read byte \d+ .* which thread \d+ wrote in `gpu.write`"):
        through(THROUGH.replace("gpu.barrier()", ""))


def test_a_missing_barrier_before_a_write() -> None:
    again = THROUGH + "\ngpu.write(%b, %v, [%zero, %zero]) {places = [0, 1], vector = 4}"
    with pytest.raises(TileError, match=r"thread 0 write byte 4 .* which thread 1 read in `gpu.read`"):
        through(again)
    through(again.replace("gpu.store", "gpu.barrier()\ngpu.store"))


def test_what_a_thread_wrote_it_may_read() -> None:
    body = THROUGH.replace("gpu.barrier()", "").replace("local(8, 1) * spatial(2, 32)", "spatial(16, 4) * local(1, 8)")
    assert through(body).tolist() == numbers(16, 32).tolist()


def test_two_threads_that_write_one_byte() -> None:
    body = """
    %v = gpu.load(%x, [%zero, %zero], []) {axes = [0, 1], shape = [2, 32], layout = spatial(2, 32)}
    %b = gpu.buffer() {shape = [2, 32], dtype = f32, layout = rows(0, 1)}
    %c = gpu.buffer() {shape = [32], dtype = f32, layout = rows(0), offset = 0}
    gpu.write(%c, %s, [%zero]) {places = [0]}
    """
    reduced = body.replace("gpu.write", "%s = gpu.reduce([%v]) {axes = [0], fn = add}\ngpu.write")
    through(reduced, shared=128)  # of replicas, one writes
    shifted = reduced.replace("[%zero]) {places = [0]}", "[%one]) {places = [0]}")
    through(shifted + "\ngpu.barrier()\ngpu.write(%c, %s, [%zero]) {places = [0]}", shared=128)
    with pytest.raises(TileError, match=r"thread 1 write byte 4 .* which thread 0 wrote in `gpu.write`"):
        through(shifted + "\ngpu.write(%c, %s, [%zero]) {places = [0]}", shared=128)


def test_elements_that_the_buffer_does_not_have() -> None:
    body = THROUGH.replace("[16, 32], dtype", "[12, 32], dtype")
    y = through(body)
    assert y[:12].tolist() == numbers(16, 32)[:12].tolist()
    assert np.isnan(y[12:]).all()


def test_what_was_not_written() -> None:
    with pytest.raises(TileError, match="reads byte 0 of %b, which nothing was written to yet"):
        through(THROUGH.replace("gpu.write(%b, %v, [%zero, %zero]) {places = [0, 1], vector = 4}", ""))


def test_buffers_that_share_memory() -> None:
    body = (
        THROUGH.replace("layout = LAYOUT}", "layout = LAYOUT, offset = 0}")
        + """
    %flags = gpu.buffer() {shape = [4], dtype = i32, layout = rows(0), offset = 0}
    %n = gpu.read(%flags, [%zero]) {places = [0], shape = [4], layout = replicate(16) * spatial(4)}
    %f = tile.cast(%n) {dtype = f32} : tile<f32, [4], register, replicate(16) * spatial(4)>
    gpu.store(%y, [%zero, %zero], %f, []) {axes = [-1, 0]}"""
    )
    y = through(body, shared=2048)
    bits: Any = numbers(16, 32)[0, :4]
    assert y[0, :4].tolist() == bits.view(np.int32).astype(np.float32).tolist()
    with pytest.raises(TileError, match="2048 bytes at 0 of the 1024"):
        through(body, shared=1024)
    with pytest.raises(TileError, match="needs multiples of 1024 bytes, which byte 512 is not"):
        through(body.replace("offset = 0}", "offset = 512}"), layout="rows(0, 1, swizzle=(3, 4, 3))", shared=4096)


def test_views_and_scalars() -> None:
    body = (
        THROUGH
        + """
    %flat = gpu.view(%b) {shape = [512], layout = rows(0)}
    %at = tile.constant() {value = 37, dtype = i64}
    %s = gpu.read(%flat, [%at]) {places = [], shape = []} : f32
    gpu.store(%y, [%zero, %zero], %s, []) {axes = [-1, -1]}"""
    )
    assert through(body)[0, 0] == numbers(16, 32)[1, 5]
    with pytest.raises(TileError, match="a view is of plain rows"):
        through(body, layout="rows(0, 1, padding=4)")
    with pytest.raises(TileError, match="%flat at 512 on axis 0, whose size is 512"):
        through(body.replace("value = 37", "value = 512"))


def test_a_cluster_has_a_buffer_in_each_block() -> None:
    body = """
    %v = gpu.load(%x, [%zero, %zero], []) {axes = [0, 1], shape = [16, 32], layout = spatial(16, 4) * local(1, 8)}
    %b = gpu.buffer() {shape = [16, 32], dtype = f32, layout = rows(0, 1)}
    gpu.write(%b, %v, [%zero, %zero]) {places = [0, 1], vector = 4}
    gpu.barrier() {scope = cluster}
    %w = gpu.read(%b, [%zero, %zero]) {places = [0, 1], shape = [16, 32], layout = LAYOUT}
    gpu.store(%y, [%zero, %zero], %w, []) {axes = [0, 1]}"""
    x, y = numbers(16, 32), np.zeros((16, 32), np.float32)
    run_gpu(program(body.replace("LAYOUT", "spatial(16, 4) * local(1, 8)"), BOTH, threads=32, cluster=2), x, y)
    assert y.tolist() == x.tolist()
    # the rows that the other block wrote into its own memory are missing
    with pytest.raises(TileError, match="byte 128 of %b of block 1, which nothing was written to yet"):
        run_gpu(program(body.replace("LAYOUT", "local(8, 1) * spatial(2, 32)"), BOTH, threads=32, cluster=2), x, y)


# Asynchronous copies

COPY = """
    %b = gpu.buffer() {shape = [2, 16, 32], dtype = f32, layout = rows(0, 1, 2)}
    %rows = tile.constant() {value = 13, dtype = i64}
    gpu.copy(%x, [%zero, %zero], [%rows], %b, [%one, %zero, %zero])
      {axes = [0, 1], masked = [0], places = [1, 2], vector = 4, shape = [16, 32], layout = local(2, 1) * spatial(8, 8) * local(1, 4)}
    gpu.commit()
    gpu.wait() {groups = 0}
    gpu.barrier()
    %w = gpu.read(%b, [%one, %zero, %zero]) {places = [1, 2], shape = [16, 32], layout = local(8, 1) * spatial(2, 32)}
    gpu.store(%y, [%zero, %zero], %w, []) {axes = [0, 1]}"""  # noqa: E501


def test_copy() -> None:
    expected = numbers(16, 32)
    expected[13:] = 0
    assert through(COPY).tolist() == expected.tolist()


@pytest.mark.parametrize("missing", ["gpu.commit()", "gpu.wait() {groups = 0}"])
def test_a_copy_that_is_not_waited_for(missing: str) -> None:
    with pytest.raises(TileError, match=r"which `gpu.copy` copies to .* no wait for its group by `gpu.wait`"):
        through(COPY.replace(missing, ""))


def test_groups_are_waited_for_in_order() -> None:
    with pytest.raises(TileError, match=r"no wait for its group"):
        through(COPY.replace("groups = 0", "groups = 1"))
    through(COPY.replace("groups = 0", "groups = 1").replace("gpu.commit()", "gpu.commit()\ngpu.commit()"))


def test_a_copy_is_seen_by_other_threads_after_a_barrier() -> None:
    with pytest.raises(TileError, match=r"wrote in `gpu.copy` with no barrier between"):
        through(COPY.replace("gpu.barrier()", ""))
    with pytest.raises(TileError, match=r"wrote in `gpu.copy` with no barrier between"):
        through(COPY.replace("gpu.barrier()", "").replace("gpu.wait()", "gpu.barrier()\ngpu.wait()"))


def test_copies_of_odd_sizes() -> None:
    with pytest.raises(TileError, match="copies 32 bytes at a time, not 4, 8 or 16"):
        through(COPY.replace("vector = 4", "vector = 8"))


# Matrices

MATRIX = """
    %b = gpu.buffer() {shape = [16, 16], dtype = bf16, layout = SHARED}
    gpu.copy(%x, [%zero, %zero], [], %b, [%zero, %zero])
      {axes = [0, 1], places = [0, 1], vector = 8, shape = [16, 16], layout = spatial(16, 2) * local(1, 8)}
    gpu.commit()
    gpu.wait() {groups = 0}
    gpu.barrier()
    %w = gpu.read(%b, [%zero, %zero]) {places = PLACES, method = METHOD, shape = [16, 16], layout = LAYOUT}
    gpu.store(%y, [%zero, %zero], %w, []) {axes = [0, 1]}"""
A_FRAGMENT = "local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)"
B_FRAGMENT = "local(2, 2) * spatial(1, 8) * spatial(4, 1) * local(2, 1)"


def by_matrix(method: str, layout: str, shared: str = "rows(0, 1)", places: str = "[0, 1]") -> Array:
    body = MATRIX.replace("METHOD", method).replace("LAYOUT", layout).replace("SHARED", shared)
    y = bf16s(16, 16, seed=1)
    parameters = "%x: tensor<bf16, [16, 16], unit=1>, %y: tensor<bf16, [16, 16], unit=1>"
    run_gpu(program(body.replace("PLACES", places), parameters), bf16s(16, 16), y)
    return y


@pytest.mark.parametrize("shared", ["rows(0, 1)", "rows(0, 1, padding=8)", "rows(0, 1, swizzle=(1, 4, 3))"])
def test_matrix_loads(shared: str) -> None:
    x = bf16s(16, 16)
    assert by_matrix("matrix", A_FRAGMENT, shared).tolist() == x.tolist()
    assert by_matrix("matrix-transposed", B_FRAGMENT, shared).tolist() == x.tolist()
    turned = by_matrix("matrix-transposed", A_FRAGMENT, shared, "[1, 0]")
    assert turned.tolist() == np.transpose(x).tolist()
    assert by_matrix("matrix", B_FRAGMENT, shared, "[1, 0]").tolist() == np.transpose(x).tolist()


def test_matrix_loads_of_what_the_instruction_does_not_give() -> None:
    with pytest.raises(TileError, match="element 1 of matrix 0 in lane 0 of warp 0 is not where"):
        by_matrix("matrix", B_FRAGMENT)
    with pytest.raises(TileError, match="is not where the instruction puts it"):
        by_matrix("matrix-transposed", A_FRAGMENT)
    with pytest.raises(TileError, match="is not where the instruction puts it"):
        by_matrix("matrix", "local(2, 1) * spatial(8, 4) * local(1, 4)")


def test_rows_of_matrices_are_aligned() -> None:
    body = MATRIX.replace("[%zero, %zero]) {places = PLACES", "[%zero, %one]) {places = PLACES").replace(
        "SHARED", "rows(0, 1)"
    )
    body = body.replace("PLACES", "[0, 1]").replace("METHOD", "matrix").replace("LAYOUT", A_FRAGMENT)
    parameters = "%x: tensor<bf16, [16, 16], unit=1>, %y: tensor<bf16, [16, 16], unit=1>"
    with pytest.raises(TileError, match="is in a row that is not aligned to 16 bytes"):
        run_gpu(program(body, parameters), bf16s(16, 16), bf16s(16, 16))


# All together


@pytest.mark.parametrize("shape", [(64, 64, 64), (70, 72, 40), (1, 8, 8), (64, 64, 0)])
def test_gemm(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = bf16s(m, k), bf16s(k, n, seed=1)
    (c,) = run_gpu(GEMM, a, b)
    assert_close(c, a.astype(np.float32) @ b.astype(np.float32), terms=max(k, 1))


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("gpu.barrier()  # copied", r"`gpu.read` lets thread 0 read byte 512 .* which thread 32 wrote in `gpu.copy`"),
        ("gpu.barrier()  # read", r"`gpu.copy` lets thread 0 write byte 0 .* which several threads read in `gpu.read`"),
        ("gpu.wait() {groups = 1}", r"`gpu.read` lets thread 0 read byte 0 .* no wait for its group"),
    ],
)
def test_gemm_that_lacks_something(missing: str, message: str) -> None:
    assert missing in GEMM
    with pytest.raises(TileError, match=message):
        run_gpu(GEMM.replace(missing, ""), bf16s(64, 128), bf16s(128, 64))
