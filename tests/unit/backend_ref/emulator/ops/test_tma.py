"""Copies by TMA: where elements end up, what comes where tensors end, what is counted; and bulk stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.gpu_code.emulated import FILE, fault, numbers, outcomes, run, shared, small
from tests.support.hopper.hopper_copies import tma_copy
from tests.support.hopper.hopper_text import BYTES, SPAN_BITS, Shared, role
from tiledsl.backend_ref.emulator.emulate import emulate
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.layouts.buffer_layout import SharedLayout, Swizzle
from tiledsl.ir.text.parser import parse_module
from tiledsl.support.errors import TileError

# Loads


@pytest.mark.parametrize("panels", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_elements_are_where_the_layout_says(span: int, dtype: str, panels: int) -> None:
    """The bytes of a box that came by TMA, read as plain bytes, against `SharedLayout.offset`."""
    rows, width = 16, BYTES[dtype]
    columns = (span or 64) // width * panels
    memory = Shared()
    memory.buffer("box", (rows, columns), dtype, span)
    memory.lines.append(memory.lines[0].replace("%box", "%raw").replace(str([rows, columns]), f"[{rows * columns}]"))
    head, _ = memory.lines[1].split("layout = ")
    memory.lines[1] = f"{head}layout = rows(0), offset = 0}}"
    memory.barriers("full", 1, 1)
    total = rows * columns
    body = f"""gpu.mbarrier_expect(%full, %0) {{bytes = {total * width}}}
    gpu.tma_load(%x, [%m, %0], %box, [%0, %0], %full, %0)
    {{axes = [0, 1], places = [0, 1], shape = [{rows}, {columns}]}}
    gpu.mbarrier_wait(%full, %0, %0)
    %t = gpu.read(%raw, [%0]) {{places = [0], shape = [{total}], layout = local({total // 64}) * spatial(64)}}
    gpu.store(%out, [%0], %t, []) {{axes = [0]}}"""
    text = small(
        body,
        memory,
        block=rows,
        parameters=f"%x: tensor<{dtype}, [M, {columns}], unit=1>",
        result=f"{dtype}, [{total}]",
    )
    kind = to_numpy(BY_NAME[dtype])
    x = np.reshape(np.arange(total), (rows, columns)).astype(kind)
    (raw,) = run(text, x)
    swizzle = Swizzle(SPAN_BITS[span], 4, 3) if span else None
    layout = SharedLayout((0, 1), swizzle=swizzle, panel=columns // panels if span and panels > 1 else 0)
    row, column = np.indices((rows, columns))
    places = layout.offset((rows, columns), BY_NAME[dtype], (row, column))
    assert sorted(np.reshape(places, -1).tolist()) == list(range(0, total * width, width))
    np.testing.assert_array_equal(raw[places // width], x)


def line(
    body: str, *more: str, block: int = 64, parameters: str = "%x: tensor<f32, [M], unit=0>", **options: Any
) -> str:
    buffer = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
    full = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}"
    return small(body, shared(buffer, full, *more), block=block, parameters=parameters, **options)


EXPECT = "gpu.mbarrier_expect(%full, %0) {bytes = 256}\n"
FETCH = "gpu.tma_load(%x, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}\n"
WAIT = "gpu.mbarrier_wait(%full, %0, %0)\n"
READ = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}\n"
KEEP = "gpu.store(%out, [%m], %u, []) {axes = [0]}\n"


@pytest.mark.parametrize("size", [64, 65, 100, 127, 128])
def test_zeros_come_where_the_tensor_ends(size: int) -> None:
    """And all bytes of the box are counted: the wait goes on."""
    whole = -(-size // 64) * 64
    text = line(EXPECT + FETCH + WAIT + READ + KEEP, result="f32, [64 * ((M + 63) // 64)]")
    for seed in (None, 0, 1):
        (result,) = run(text, numbers(size) + 1, seed=seed)
        assert result.tolist() == [*(numbers(size) + 1), *[0.0] * (whole - size)]


@pytest.mark.parametrize("start", [-32, 32])
def test_zeros_come_before_the_tensor_too(start: int) -> None:
    begin = f"%by = tile.constant() {{value = {start}, dtype = i64}}\n%at = tile.map([%m, %by]) {{fn = add}}\n"
    text = line(begin + EXPECT + FETCH.replace("[%m]", "[%at]") + WAIT + READ + KEEP)
    (result,) = run(text, numbers() + 1)
    kept = (numbers() + 1).tolist()
    assert result.tolist() == ([0.0] * 32 + kept[:32] if start < 0 else kept[32:] + [0.0] * 32)


@pytest.mark.parametrize(
    ("addresses", "width", "words"),
    [({"x": 0}, 40, "axis 0 of %x, whose stride in bytes is 40"), ({"x": 8}, 48, "the start of %x")],
)
def test_tensors_are_aligned(addresses: dict[str, int], width: int, words: str) -> None:
    columns = width // 4
    body = f"""gpu.mbarrier_expect(%full, %0) {{bytes = {16 * 8 * 4}}}
    gpu.tma_load(%x, [%m, %0], %s, [%0, %0], %full, %0) {{axes = [0, 1], places = [0, 1], shape = [16, 8]}}
    {WAIT}"""
    memory = shared("%s = gpu.buffer() {shape = [16, 8], dtype = f32, layout = rows(0, 1), offset = 0}",
                    "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}")  # fmt: skip
    text = small(body, memory, block=16, parameters=f"%x: tensor<f32, [M, {columns}], unit=1>", result="f32, [M]")
    with pytest.raises(TileError) as caught:
        run(text, np.zeros((16, columns), np.float32), addresses=addresses)
    assert caught.value.code == "emulator-misaligned"
    assert f"needs multiples of 16 bytes, which {words} is not" in caught.value.message


@pytest.mark.parametrize("span", [32, 64, 128])
def test_swizzled_buffers_are_aligned_to_what_the_swizzle_looks_at(span: int) -> None:
    program = tma_copy(span, "bf16", (64, 64))
    moved = replace(program, text=program.text.replace("offset = 0}", "offset = 128}"))
    enough = moved.text.replace("shared_bytes = ", "shared_bytes = 2")
    with pytest.raises(TileError) as caught:
        emulate(parse_module(enough, FILE).entry, [np.zeros((64, 64), ml_dtypes.bfloat16)])
    assert caught.value.code == "emulator-misaligned"
    assert f"needs multiples of {span * 8} bytes" in caught.value.message


@pytest.mark.parametrize("seed", range(4))
def test_who_waits_sees_all_of_it(seed: int) -> None:
    (result,) = run(line(EXPECT + FETCH + WAIT + READ + KEEP), numbers(256), seed=seed)
    assert result.tolist() == numbers(256).tolist()


def test_who_does_not_wait_is_told_which_phase() -> None:
    found = fault(line(EXPECT + FETCH + READ + KEEP))
    assert found.code == "emulator-race-under-way"
    assert "no wait for phase 0 of %full[0] comes before" in found.message


def test_others_must_wait_too() -> None:
    """One role waits, the other one reads: that somebody waited is not enough."""
    half = READ.replace("64", "32") + KEEP
    both = role(0, 32, EXPECT + FETCH + WAIT) + "\n" + role(32, 32, half)
    assert "" not in outcomes(line(both))
    assert outcomes(line(both.replace("%u = ", WAIT + "%u = "))) == {""}


def test_the_program_waits_for_its_copies_before_it_ends() -> None:
    assert outcomes(line(EXPECT + FETCH)) == {"emulator-exit"}


# Multicast


def through(size: int = 64, *, multicast: bool, count: int = 256) -> str:
    """Two blocks fill a buffer each with the same numbers, and store them one below the other."""
    word = ", multicast = true" if multicast else ""
    body = f"""gpu.mbarrier_expect(%full, %0) {{bytes = {count}}}
    gpu.tma_load(%x, [%0], %s, [%0], %full, %0) {{axes = [0], places = [0], shape = [64]{word}}}
    {WAIT}
    %u = gpu.read(%s, [%0]) {{places = [0], shape = [64], layout = replicate(2) * spatial(64)}}
    %two = tile.reshape(%u) {{shape = [1, 64]}} : tile<f32, [1, 64], register, replicate(2) * spatial(1, 64)>
    %all = tile.broadcast(%two) {{shape = [2, 64]}} : tile<f32, [2, 64], register, spatial(2, 1) * spatial(1, 64)>
    gpu.store(%out, [%0, %0], %all, []) {{axes = [0, 1]}}
    gpu.barrier() {{scope = cluster}}"""
    return line(body, cluster=2, block=size, result="f32, [2, 64]")


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_all_blocks_get_it(multicast: bool, seed: int | None) -> None:
    (result,) = run(through(multicast=multicast), numbers(), seed=seed)
    assert result.tolist() == [numbers().tolist()] * 2


def test_every_block_counts_what_all_blocks_send() -> None:
    found = fault(through(multicast=True, count=128), seed=0)
    assert found.code in {"emulator-bytes", "emulator-exit", "emulator-race-under-way"}
    found = fault(through(multicast=True, count=512), seed=0)
    assert found.code == "emulator-deadlock"
    for block in (0, 1):
        assert f"%full[0] of block {block}: phase 0 is on, with 1 of 1 arrivals, 256 expected bytes" in str(found)


# Stores

LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
WRITE = "gpu.write(%s, %t, [%0]) {places = [0]}\n"
FENCE = "gpu.proxy_fence()\n"
BARRIER = "gpu.barrier()\n"
SEND = "gpu.tma_store(%out, [%m], %s, [%0]) {axes = [0], places = [0], shape = [64]}\ngpu.bulk_commit()\n"
DONE, GONE = "gpu.bulk_wait() {groups = 0}\n", "gpu.bulk_wait() {groups = 0, read = true}\n"
SENT = LOAD + WRITE + FENCE + BARRIER + SEND


@pytest.mark.parametrize("wait", [DONE, GONE])
def test_a_store_is_there_at_the_end(wait: str) -> None:
    for seed in (None, 0, 1, 2):
        (result,) = run(line(SENT + wait), numbers(128), seed=seed)
        assert result.tolist() == numbers(128).tolist()


def test_what_lies_outside_is_dropped() -> None:
    body = SENT.replace("[]) {axes = [0], shape", "[%M]) {axes = [0], masked = [0], shape")
    (result,) = run(line(body + DONE), numbers(50) + 1)
    assert result.tolist() == (numbers(50) + 1).tolist()


def test_no_wait_at_the_end() -> None:
    assert outcomes(line(SENT)) == {"emulator-exit"}
    assert outcomes(line(SENT + DONE.replace("= 0", "= 1"))) == {"emulator-exit"}


@pytest.mark.parametrize("wait", [DONE, GONE])
def test_the_buffer_is_free_after_a_wait_and_a_barrier(wait: str) -> None:
    assert outcomes(line(SENT + wait + BARRIER + WRITE)) == {""}


def test_only_the_storing_thread_waits() -> None:
    found = fault(line(SENT + DONE + WRITE), seed=None)
    assert found.code == "emulator-race"
    assert "thread 1 write byte 4 of %s, which thread 0 read in `gpu.tma_store`" in found.message


def test_the_buffer_is_not_free_before() -> None:
    found = fault(line(SENT + BARRIER + WRITE + DONE), seed=None)
    assert found.code == "emulator-race-under-way"
    assert "`gpu.tma_store` reads and may not be done with" in found.message
    assert found.fix == "let the storing thread `gpu.bulk_wait`, then put a barrier"


def test_a_wait_for_reads_says_nothing_of_what_is_written() -> None:
    again = "%u = gpu.load(%out, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
    again += "gpu.store(%y, [%m], %u, []) {axes = [0]}\n"
    both = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>"
    assert outcomes(line(SENT + GONE + BARRIER + again, parameters=both), numbers(), numbers()) == {
        "emulator-race-under-way"
    }
    assert outcomes(line(SENT + DONE + BARRIER + again, parameters=both), numbers(), numbers()) == {""}


def test_groups_are_waited_for_in_their_order() -> None:
    """Two stores from two buffers: that all but one are done frees the first one."""
    second = "%r = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 256}"
    more = WRITE.replace("%s", "%r") + FENCE + BARRIER + SEND.replace("%s", "%r").replace("%out", "%y")
    both = "%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>"
    one_left = GONE.replace("= 0", "= 1")
    for reused, code in (("%s", ""), ("%r", "emulator-race-under-way")):
        body = SENT + more + one_left + BARRIER + WRITE.replace("%s", reused) + DONE
        assert outcomes(line(body, second, parameters=both), numbers(), numbers()) == {code}
