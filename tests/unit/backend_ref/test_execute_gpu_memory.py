"""Loads, stores and atomics in the GPU executor, and what it finds out about addresses and copies of elements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.gpu_code.gpu_programs import program, run_gpu
from tiledsl.backend_ref.emulator.ops.registers import check_replicas
from tiledsl.ir.layouts.layout import replicate, spatial
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileError

Array = npt.NDArray[Any]
TWO = "%x: tensor<f32, [M, N], unit=1>, %y: tensor<f32, [P, Q], unit=1>"
LAYOUT = "spatial(8, 4) * local(1, 4)"
"""8 x 16 elements on 32 threads."""


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def constants(*values: int) -> str:
    """`%c0`, `%c1` ..."""
    return "\n".join(f"%c{i} = tile.constant() {{value = {v}, dtype = i64}}" for i, v in enumerate(values)) + "\n"


def copied(
    attributes: str, x: Array, extents: str = "", other: str = "", at: str = "%zero, %zero", before: str = ""
) -> Array:
    """What a load of 8 x 16 elements of `x` gives."""
    y = np.full((8, 16), -7, np.float32)
    load = f"%v = gpu.load(%x, [{at}], [{extents}]{other}) {{shape = [8, 16], layout = {LAYOUT}, {attributes}}}"
    store = "gpu.store(%y, [%zero, %zero], %v, []) {axes = [0, 1]}"
    run_gpu(program(constants(5, 2, -1) + before + "\n" + load + "\n" + store, TWO), x, y)
    return y


def test_extents_mask_tile_coordinates() -> None:
    x = numbers(8, 16)
    expected = np.zeros_like(x)
    expected[:5, :2] = x[:5, :2]
    assert copied("axes = [0, 1], masked = [0, 1]", x, "%c0, %c1").tolist() == expected.tolist()
    expected[5:] = 1
    expected[:, 2:] = 1
    assert copied("axes = [0, 1], masked = [0, 1]", x, "%c0, %c1", ", %f1").tolist() == expected.tolist()


def test_extents_that_end_within_vectors() -> None:
    x = numbers(8, 16)
    expected = np.zeros_like(x)
    expected[:, :6] = x[:, :6]
    masked = "axes = [0, 1], masked = [1], vector = 4"
    extent = "%c6 = tile.constant() {value = 6, dtype = i64}"
    assert copied(f"{masked}, ragged = true", x, "%c6", before=extent).tolist() == expected.tolist()
    with pytest.raises(TileError, match="is accessed in part"):
        copied(masked, x, "%c6", before=extent)


def test_checked_axes() -> None:
    x = numbers(3, 20)
    expected = np.zeros((8, 16), np.float32)
    expected[1:4, :14] = x[:, 2:16]
    expected[1:4, 14:] = x[:, 16:18]
    assert copied("axes = [0, 1], checked = [0]", x, at="%c2, %c1").tolist() == expected.tolist()


def test_an_access_out_of_bounds_that_is_not_checked() -> None:
    with pytest.raises(TileError, match=r"access %x at -1 on axis 0, whose size is 8"):
        copied("axes = [0, 1]", numbers(8, 16), at="%c2, %zero")
    with pytest.raises(TileError, match=r"at 16 on axis 1, whose size is 16"):
        copied("axes = [0, 1]", numbers(8, 16), at="%zero, %c1")


def test_axes_of_the_tensor_that_the_tile_does_not_have() -> None:
    body = (
        constants(3)
        + """
    %v = gpu.load(%x, [%c0, %zero], []) {axes = [-1, 0], shape = [32], layout = spatial(32)}
    gpu.store(%y, [%c0, %zero], %v, []) {axes = [-1, 0]}"""
    )
    x, y = numbers(4, 32), np.zeros((5, 32), np.float32)
    run_gpu(program(body, TWO), x, y)
    assert y[3].tolist() == x[3].tolist()
    assert not y[:3].any()


def test_gather_and_scatter() -> None:
    body = """
    %i = gpu.load(%at, [%zero], []) {axes = [0], shape = [32], layout = spatial(32)}
    %v = gpu.load(%x, [%i], []) {axes = [-1], checked = [0], shape = [32], layout = spatial(32)}
    gpu.store(%y, [%i], %v, []) {axes = [-1], checked = [0]}"""
    at = np.random.default_rng(0).permutation(64)[:32] - 8
    x, y = numbers(40), np.zeros(40, np.float32)
    run_gpu(program(body, "%at: tensor<i64, [K]>, %x: tensor<f32, [M]>, %y: tensor<f32, [M]>"), at, x, y)
    inside = at[(at >= 0) & (at < 40)]
    expected = np.zeros(40, np.float32)
    expected[inside] = x[inside]
    assert y.tolist() == expected.tolist()


def test_scalars() -> None:
    body = (
        constants(3)
        + """
    %v = gpu.load(%x, [%zero, %c0], []) {axes = [-1, -1], shape = []} : f32
    %w = tile.map([%v, %f1]) {fn = add}
    gpu.store(%y, [%zero, %zero], %w, []) {axes = [-1, -1]}"""
    )
    x, y = numbers(1, 4), np.zeros((1, 1), np.float32)
    run_gpu(program(body, TWO), x, y)
    assert y[0, 0] == x[0, 3] + 1


VECTORS = "axes = [0, 1], vector = 4"


def test_vectors() -> None:
    x = numbers(8, 16)
    assert copied(VECTORS, x).tolist() == x.tolist()
    with pytest.raises(TileError, match=r"vector of 4 at slot 0 of thread 4 is not aligned to 16 bytes"):
        copied(VECTORS, numbers(8, 17))
    with pytest.raises(TileError, match=r"slot 0 of thread 0 is not aligned to 16 bytes: %x at bytes \[4,"):
        copied(VECTORS, numbers(8, 20), at="%zero, %one")
    with pytest.raises(TileError, match=r"slot 0 of thread 0 is accessed in part"):
        copied(VECTORS + ", masked = [1]", x, "%c1")
    with pytest.raises(TileError, match=r"does not lie side by side: %x at bytes \[0, 128, 256, 384\]"):
        copied(VECTORS, np.transpose(numbers(16, 32))[:8])
    with pytest.raises(TileError, match=r"vectors of 8 elements do not fill 4 slots"):
        copied("axes = [0, 1], vector = 8", x)


def test_the_address_of_a_tensor_counts() -> None:
    body = f"%v = gpu.load(%x, [%zero, %zero], []) {{shape = [8, 16], layout = {LAYOUT}, {VECTORS}}}"
    run_gpu(program(body, "%x: tensor<f32, [M, N], unit=1>"), numbers(8, 16), addresses={"x": 0})
    with pytest.raises(TileError, match="not aligned to 16 bytes"):
        run_gpu(program(body, "%x: tensor<f32, [M, N], unit=1>"), numbers(8, 16), addresses={"x": 8})


PAIR = "%x: tensor<f32, [16]>, %y: tensor<f32, [16]>"
REPLICAS = "%v = gpu.load(%x, [%zero], []) {axes = [0], shape = [16], layout = replicate(2) * spatial(16)}\n"


def test_replicas_write_once() -> None:
    body = (
        REPLICAS
        + """
    gpu.store(%y, [%zero], %v, []) {axes = [0]}
    %before = gpu.atomic(%y, [%zero], %v, []) {fn = add, axes = [0]}"""
    )
    x, y = numbers(16), np.zeros(16, np.float32)
    run_gpu(program(body, PAIR), x, y)
    assert y.tolist() == (2 * x).tolist()


def test_what_an_atomic_gives_is_in_first_replicas() -> None:
    body = (
        REPLICAS
        + """
    %before = gpu.atomic(%y, [%zero], %v, []) {fn = exchange, axes = [0]}
    %twice = tile.map([%before, %before]) {fn = add} : tile<f32, [16], register, replicate(2) * spatial(16)>
    gpu.store(%x, [%zero], %twice, []) {axes = [0]}"""
    )
    x, y = numbers(16), numbers(16, seed=1)
    old_x, old_y = numbers(16), numbers(16, seed=1)
    run_gpu(program(body, PAIR), x, y)
    assert y.tolist() == old_x.tolist()
    assert x.tolist() == (old_y + old_y).tolist()
    reduced = body + "\n%sum = gpu.reduce([%before]) {axes = [0], fn = add}"
    with pytest.raises(TileError, match="threads 16 and 0 hold copies of element"):
        run_gpu(program(reduced, PAIR), x, y)


def test_replicas_that_differ() -> None:
    layout = replicate(2, 1) * spatial(2)
    op = parse_module(program(REPLICAS, PAIR)).entry.body.ops[-2].bodies["body"].ops[0]
    registers = np.asarray([[1.0], [2.0], [1.0], [np.nan]])
    agent: Any = SimpleNamespace(start=0, stop=4, program=SimpleNamespace(name="the program"))
    check_replicas(agent, op, layout, registers, np.asarray([[True], [True], [True], [False]]))
    with pytest.raises(TileError, match=r"threads 3 and 1 hold copies of element \[1\], but nan and 2.0"):
        check_replicas(agent, op, layout, registers)
    registers[1] = np.nan
    check_replicas(agent, op, layout, registers)


@pytest.mark.parametrize(("fn", "ufunc"), [("add", np.add), ("max", np.maximum), ("min", np.minimum)])
def test_atomics_on_one_element(fn: str, ufunc: Any) -> None:
    body = f"""
    %i = gpu.arange() {{layout = spatial(32)}}
    %w = tile.map([%i, %zero]) {{fn = mul}} : tile<i64, [32], register, spatial(32)>
    %before = gpu.atomic(%y, [%w], %i, []) {{fn = {fn}, axes = [-1], checked = [0]}}"""
    y = np.asarray([7, 3])
    run_gpu(program(body, "%y: tensor<i64, [M]>"), y)
    assert y.tolist() == [ufunc.reduce([7, *range(32)]), 3]
