"""Folds across a cluster: the protocol in all orders of its steps, and programs that run it in loops and branches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.gpu_code.cuda_on_host import aligned, host_compiler, run_on_host
from tests.support.gpu_code.gpu_programs import program
from tests.support.gpu_code.sass import disassemble
from tests.support.hopper.exchange_model import Protocol
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_ref.execute_gpu import execute_gpu
from tiledsl.ir.core import Module
from tiledsl.ir.dtypes import f32
from tiledsl.ir.layouts.fold_plans import fold_scratch_bytes
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.layouts.text import parse_layout
from tiledsl.ir.text.parser import parse_module

ROWS, COLUMNS, CLUSTER = 7, 512, 4
THREADS = 64
LAYOUTS = {
    "lanes, warps and blocks": "local(1, 2) * spatial(1, 256)",
    "copies in other warps": "spatial(1, 4) * replicate(2) * spatial(1, 32) * local(1, 4)",
    "results in slots": "local(2, 1) * spatial(1, 256) * local(1, 2)",
    "results in warps": "spatial(1, 4) * spatial(2, 32) * local(1, 4)",
    "results in lanes and slots": "local(2, 1) * spatial(1, 4) * spatial(4, 16) * local(1, 8)",
    "a fold over half of the cluster": "spatial(2, 2) * spatial(1, 64) * local(1, 4)",
    "results in every second block": "spatial(1, 2) * spatial(2, 1) * spatial(1, 64) * local(1, 4)",
}
WRONG = "a thread reads what a block told in another run"


@pytest.mark.parametrize("protocol", [Protocol(2, 1, 6), Protocol(2, 2, 5), Protocol(3, 1, 4)], ids=str)
def test_it_is_right_in_any_order(protocol: Protocol) -> None:
    assert set(protocol.failures()) == set()


@pytest.mark.parametrize(
    "protocol", [Protocol(2, 1, 3, places=1), Protocol(2, 1, 3, barriers=1), Protocol(2, 2, 3, meets=False)], ids=str
)
def test_what_it_does_is_needed(protocol: Protocol) -> None:
    assert set(protocol.failures()) == {WRONG}


def folds(layout: str) -> Module:
    """Rows in turns: the first greatest of all columns, the sum in every turn but the third, and the sum of the last
    rows again after the loop."""
    tile = parse_layout(layout)
    assert isinstance(tile, RegisterLayout)
    assert (tile.shape[1], tile.threads) == (COLUMNS, CLUSTER * THREADS)
    size = fold_scratch_bytes(tile, (1,), (f32,), THREADS)
    load = f"gpu.load(%x, [%{{}}, %zero], []) {{{{axes = [0, 1], shape = {list(tile.shape)}, layout = {layout}}}}}"
    buffers = [f"%{n} = gpu.buffer() {{shape = [{size}], dtype = u8, layout = rows(0), offset = {i * size}}}"
               for i, n in enumerate("abc")]  # fmt: skip
    body = f"""
    {" ".join(buffers)}
    %R = tile.size() {{value = R}}
    %step = tile.constant() {{value = {tile.shape[0]}, dtype = i64}}
    %third = tile.map([%step, %step]) {{fn = add}}
    tile.for(%zero, %R, %step, []) body(%i: i64) {{
      %row = {load.format("i")}
      %at = gpu.reduce([%row], %a) {{axes = [1], fn = argmax}}
      gpu.store(%where, [%i], %at, []) {{axes = [0]}}
      %other = tile.map([%i, %third]) {{fn = ne}}
      tile.if(%other) then() {{
        %sum = gpu.reduce([%row], %b) {{axes = [1], fn = add}}
        gpu.store(%sums, [%i], %sum, []) {{axes = [0]}}
        tile.yield([])
      }} otherwise() {{
        tile.yield([])
      }}
      tile.yield([])
    }}
    %end = tile.map([%R, %step]) {{fn = sub}}
    %tail = {load.format("end")}
    %again = gpu.reduce([%tail], %c) {{axes = [1], fn = add}}
    gpu.store(%last, [%zero], %again, []) {{axes = [0]}}
    tile.yield([])"""
    parameters = (
        f"%x: tensor<f32, [R, {COLUMNS}], unit=1>, %where: tensor<i64, [R], unit=0>, "
        "%sums: tensor<f32, [R], unit=0>, %last: tensor<f32, [S], unit=0>"
    )
    return parse_module(program(body, parameters, threads=THREADS, cluster=CLUSTER, shared=3 * size))


@pytest.fixture(params=LAYOUTS, name="module")
def _module(request: pytest.FixtureRequest) -> Module:
    return folds(LAYOUTS[request.param])


@pytest.mark.skipif(host_compiler() is None, reason="there is no C++ compiler")
def test_folds_in_loops_and_branches(module: Module, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x = aligned(generator.integers(-99, 99, (ROWS * 8, COLUMNS)).astype(np.float32))
    found: list[tuple[np.ndarray, ...]] = []
    for host in (True, False):
        results = [aligned(np.full(ROWS * 8, -1, dtype)) for dtype in (np.int64, np.float32, np.float32)]
        if host:
            run_on_host(emit_program(module, 90), module.entry, [x, *results], tmp_path)
        else:
            execute_gpu(module.entry, [x, *results])
        found.append(tuple(results))
    for actual, expected in zip(*found):
        np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(found[0][0], x.argmax(axis=1))
    assert np.count_nonzero(found[0][1] != x.sum(axis=1)) in (1, 2, 4, 8), "the sums of one turn are left out"


def test_nothing_waits_for_global_memory(module: Module) -> None:
    """One barrier of the cluster, before the loop, of threads that have written nothing."""
    cubin = compile_cubin(emit_program(module, 90).text, "sm_90", "f")
    (code,) = disassemble(cubin).values()
    assert code.counts["MEMBAR"] == code.counts["ERRBAR"] == 0
    assert code.counts["UCGABAR_ARV"] == code.counts["UCGABAR_WAIT"] == code.counts["CCTL"] == 1
    assert code.counts["STAS"] >= 3
    assert not code.local
