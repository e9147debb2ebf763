"""Ops on register tiles in the GPU executor: each on tiles that are spread over threads, against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.compare import assert_close
from tests.support.gpu_code.gpu_programs import program, run_gpu
from tiledsl.support.errors import TileError, TileRuntimeError

Array = npt.NDArray[Any]
MATRIX = "%x: tensor<f32, [16, 8], unit=1>, %y: tensor<f32, [P, Q], unit=1>"
ROWS = "spatial(8, 4) * local(2, 2)"
"""16 x 8 elements on 32 threads."""


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def transformed(body: str, shape: tuple[int, int], x: Array | None = None, **options: Any) -> Array:
    """Runs `body` on `%v`, the 16 x 8 tile `%x` in ROWS, and gives what it stores to `%y`, of that shape."""
    load = f"%v = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [16, 8], layout = {ROWS}}}\n"
    y = np.zeros(shape, np.float32)
    run_gpu(program(load + body, MATRIX, **options), numbers(16, 8) if x is None else x, y)
    return y


def stored(value: str) -> str:
    return f"\ngpu.store(%y, [%zero, %zero], {value}, []) {{axes = [0, 1]}}"


def test_map_with_scalars() -> None:
    body = f"%w = tile.map([%v, %f1, %v]) {{fn = fma}} : tile<f32, [16, 8], register, {ROWS}>" + stored("%w")
    x = numbers(16, 8)
    assert_close(transformed(body, (16, 8)), x * 1 + x)


def test_map_of_layouts_that_differ() -> None:
    body = f"""
    %u = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [16, 8], layout = local(4, 1) * spatial(4, 8)}}
    %w = tile.map([%v, %u]) {{fn = add}} : tile<f32, [16, 8], register, {ROWS}>"""
    with pytest.raises(TileError, match=r"`tile.map`: %u lies as local\(4, 1\) \* spatial\(4, 8\)"):
        transformed(body, (16, 8))


def test_cast() -> None:
    body = f"""
    %n = tile.cast(%v) {{dtype = f16}} : tile<f16, [16, 8], register, {ROWS}>
    %w = tile.cast(%n) {{dtype = f32}} : tile<f32, [16, 8], register, {ROWS}>""" + stored("%w")
    assert transformed(body, (16, 8)).tolist() == numbers(16, 8).astype(np.float16).astype(np.float32).tolist()


def test_reduce_leaves_replicas_that_broadcast() -> None:
    body = f"""
    %s = gpu.reduce([%v]) {{axes = [1], fn = add, keepdims = true}}
    %w = tile.broadcast(%s) {{shape = [16, 8]}} : tile<f32, [16, 8], register, {ROWS}>""" + stored("%w")
    assert_close(transformed(body, (16, 8)), np.broadcast_to(numbers(16, 8).sum(1, keepdims=True), (16, 8)), terms=8)


def test_broadcast_of_what_another_thread_has() -> None:
    body = """
    %s = gpu.reduce([%v]) {axes = [1], fn = add, keepdims = true}
    %w = tile.broadcast(%s) {shape = [16, 8]} : tile<f32, [16, 8], register, local(4, 1) * spatial(4, 8)>"""
    with pytest.raises(TileError, match=r"thread 0 does not have element \[4, 0\]"):
        transformed(body, (16, 8))


def test_broadcast_of_a_scalar() -> None:
    body = f"%w = tile.broadcast(%f1) {{shape = [16, 8]}} : tile<f32, [16, 8], register, {ROWS}>" + stored("%w")
    assert transformed(body, (16, 8)).tolist() == np.ones((16, 8)).tolist()


def test_broadcast_along_new_axes() -> None:
    body = f"""
    %s = gpu.reduce([%v]) {{axes = [0], fn = max}}
    %w = tile.broadcast(%s) {{shape = [16, 8]}} : tile<f32, [16, 8], register, {ROWS}>""" + stored("%w")
    assert_close(transformed(body, (16, 8)), np.broadcast_to(numbers(16, 8).max(0), (16, 8)))


def test_transpose() -> None:
    # thread (i, j) keeps what it has: rows 2j and 2j + 1 of columns 2i and 2i + 1
    kept = "spatial(1, 8) * spatial(4, 1) * local(1, 2) * local(2, 1)"
    body = f"%w = tile.transpose(%v) {{permutation = [1, 0]}} : tile<f32, [8, 16], register, {kept}>" + stored("%w")
    assert transformed(body, (8, 16)).tolist() == np.transpose(numbers(16, 8)).tolist()
    with pytest.raises(TileError, match="does not have element"):
        transformed(body.replace(kept, "spatial(8, 4) * local(1, 4)"), (8, 16))


def test_reshape() -> None:
    body = """
    %s = gpu.reduce([%v]) {axes = [1], fn = add}
    %t = tile.reshape(%s) {shape = [16, 1]} : tile<f32, [16, 1], register, spatial(8, 1) * replicate(4) * local(2, 1)>
    """ + stored("%t")
    assert_close(transformed(body, (16, 1)), numbers(16, 8).sum(1, keepdims=True), terms=8)


def test_slice() -> None:
    body = """
    %u = gpu.load(%x, [%zero, %zero], [])
      {axes = [0, 1], shape = [16, 8], layout = local(2, 1) * spatial(8, 4) * local(1, 2)}
    %w = gpu.slice(%u) {starts = [8, 0], layout = spatial(8, 4) * local(1, 2)}""" + stored("%w")
    assert transformed(body, (8, 8)).tolist() == numbers(16, 8)[8:].tolist()
    with pytest.raises(TileError, match=r"`gpu.slice`: thread 0 does not have element"):
        transformed(body.replace("spatial(8, 4) * local(1, 2)}" + stored("%w"), "spatial(4, 8) * local(2, 1)}"), (8, 8))


def test_pad() -> None:
    body = """
    %five = tile.constant() {value = 5, dtype = i64}
    %w = gpu.pad(%v, [%five], %f1) {axes = [1]}""" + stored("%w")
    expected = numbers(16, 8)
    expected[:, 5:] = 1
    assert transformed(body, (16, 8)).tolist() == expected.tolist()


@pytest.mark.parametrize("fn", ["add", "mul", "max", "min"])
def test_scan(fn: str) -> None:
    body = f"%w = gpu.scan([%v]) {{axis = 1, fn = {fn}}}" + stored("%w")
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[fn]
    assert_close(transformed(body, (16, 8)), ufunc.accumulate(numbers(16, 8), axis=1), terms=8)


def test_convert_within_warps() -> None:
    body = "%w = gpu.convert(%v) {layout = local(4, 1) * spatial(4, 8)}" + stored("%w")
    assert transformed(body, (16, 8)).tolist() == numbers(16, 8).tolist()


def test_convert_across_warps() -> None:
    body = """
    %u = gpu.load(%x, [%zero, %zero], []) {axes = [0, 1], shape = [16, 8], layout = spatial(16, 4) * local(1, 2)}
    %w = gpu.convert(%u) {layout = local(2, 1) * spatial(8, 8)}"""
    text = program(body, MATRIX, threads=64)
    with pytest.raises(TileError, match=r"`gpu.convert`: warp 0 needs elements of another one"):
        run_gpu(text, numbers(16, 8), np.zeros((1, 1), np.float32))


def test_a_layout_for_another_number_of_threads() -> None:
    with pytest.raises(TileError, match="is of 32 threads, the program has 64"):
        transformed("", (1, 1), threads=64)


def test_arange_and_random() -> None:
    body = """
    %i = gpu.arange() {layout = replicate(8) * spatial(4) * local(16)}
    %r = tile.random(%zero, %i) {fn = uniform} : tile<f32, [64], register, replicate(8) * spatial(4) * local(16)>
    gpu.store(%y, [%zero], %r, []) {axes = [0]}"""
    y = np.zeros(64, np.float32)
    run_gpu(program(body, "%y: tensor<f32, [64]>"), y)
    assert len(set(y.tolist())) > 60
    assert (y >= 0).all()
    assert (y < 1).all()


def test_scalars_of_reductions() -> None:
    body = f"""
    %s = gpu.reduce([%v]) {{axes = [0, 1], fn = add}}
    %big = tile.map([%s, %f0]) {{fn = gt}} : bool
    %w = tile.if(%big) : f32 then() {{
      tile.yield([%s])
    }} otherwise() {{
      tile.yield([%f0])
    }}
    %all = tile.broadcast(%w) {{shape = [16, 8]}} : tile<f32, [16, 8], register, {ROWS}>""" + stored("%all")
    x = np.abs(numbers(16, 8))
    assert_close(transformed(body, (16, 8), x), np.full((16, 8), x.sum()), terms=128)
    assert transformed(body, (16, 8), -x).tolist() == np.zeros((16, 8)).tolist()


def test_custom_reductions() -> None:
    body = f"""
    %s = gpu.reduce([%v]) {{axes = [1], fn = custom, keepdims = true}} combiner(%p1: f32, %q1: f32) {{
      %c = tile.map([%p1, %q1]) {{fn = maximum}} : f32
      tile.yield([%c])
    }}
    %w = tile.broadcast(%s) {{shape = [16, 8]}} : tile<f32, [16, 8], register, {ROWS}>""" + stored("%w")
    assert_close(transformed(body, (16, 8)), np.broadcast_to(numbers(16, 8).max(1, keepdims=True), (16, 8)))


def test_what_is_carried_keeps_its_layout() -> None:
    other = "tile<f32, [16, 8], register, local(4, 1) * spatial(4, 8)>"
    body = f"""
    %w = tile.for(%zero, %one, %one, [%v]) : tile<f32, [16, 8], register, {ROWS}> body(%i: i64, %a: {other}) {{
      tile.yield([%a])
    }}"""
    with pytest.raises(TileError, match=r"`tile.for`: %a is"):
        transformed(body, (1, 1))


def test_print_and_assert() -> None:
    lines: list[str] = []
    body = f"""
    %t = gpu.reduce([%v]) {{axes = [0, 1], fn = max}}
    tile.print([%t]) {{text = "top"}}
    %low = tile.map([%v, %t]) {{fn = lt}} : tile<bool, [16, 8], register, {ROWS}>
    tile.assert(%low) {{text = "one is the top"}}"""
    x = np.zeros((16, 8), np.float32)
    x[3, 5] = 2.0
    load = f"%v = gpu.load(%x, [%zero, %zero], []) {{axes = [0, 1], shape = [16, 8], layout = {ROWS}}}\n"
    text = program(load + body, "%x: tensor<f32, [16, 8]>")
    with pytest.raises(TileRuntimeError, match=r"one is the top(.|\n)*\[3, 5\]"):
        run_gpu(text, x, output=lines.append)
    assert lines == ["top 2.0"]
