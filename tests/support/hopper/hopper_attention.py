"""Programs for Hopper with two products at once, and with two roles that multiply in turn. Their texts are GPU IR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.hopper.hopper_gemms import Gemm, accumulate
from tests.support.hopper.hopper_text import (
    Array,
    HopperProgram,
    Random,
    Shared,
    accumulator,
    add,
    function,
    integers,
    launch,
    loop,
    mul,
    returns,
    role,
    sub,
    tile,
    turn,
)


def attention_programs() -> Iterator[HopperProgram]:
    for stages, steps in [(1, 4), (2, 1), (2, 2), (2, 3), (2, 8), (3, 7)]:
        yield attention(stages, steps)
    yield attention(2, 5, loaders=2)
    yield pingpong(steps=2, rounds=2)
    yield pingpong(steps=3, rounds=2)


def attention(stages: int, steps: int, loaders: int = 1) -> HopperProgram:
    """(Q K.T) V without the softmax: each product with K begins before the last one with V is waited for.

    One role loads K and V in turn, or two roles one of them each: then nothing else holds back who loads too early.
    """
    layout = accumulator(64, 64)
    wide, narrow = tile("f32", 64, 64, layout), tile("bf16", 64, 64, layout)
    shared = Shared()
    shared.buffer("qs", (64, 64), "bf16", 128)
    shared.buffer("ks", (stages, 64, 64), "bf16", 128)
    shared.buffer("vs", (stages, 64, 64), "bf16", 128)
    shared.barriers("full_q", 1, 1)
    for name in ("full_k", "full_v"):
        shared.barriers(name, stages, 1)
    for name in ("empty_k", "empty_v"):
        shared.barriers(name, stages, 4)

    def load(name: str) -> str:
        return f"""
        gpu.mbarrier_wait(%empty_{name}, %stage, %other)
        gpu.mbarrier_expect(%full_{name}, %stage) {{bytes = 8192}}
        gpu.tma_load(%{name}, [%at, %0], %{name}s, [%stage, %0, %0], %full_{name}, %stage)
            {{axes = [0, 1], places = [1, 2], shape = [64, 64]}}"""

    def load_all(names: str) -> str:
        return loop("%steps", "\n".join([turn(stages), mul("at", "%i", "%64"), *map(load, names)]))

    load_q = """gpu.mbarrier_expect(%full_q, %0) {bytes = 8192}
    gpu.tma_load(%q, [%m, %0], %qs, [%0, %0], %full_q, %0) {axes = [0, 1], places = [0, 1], shape = [64, 64]}
    """
    both = [load_q + load_all("kv")] if loaders == 1 else [load_q + load_all("k"), load_all("v")]
    consumer = f"""
    %junk = tile.constant() {{value = 1000.0, dtype = f32}}
    %none = tile.broadcast(%f0) {{shape = [64, 64]}} : {wide}
    %any = tile.broadcast(%junk) {{shape = [64, 64]}} : {wide}
    gpu.mbarrier_wait(%full_q, %0, %0)
    gpu.mbarrier_wait(%full_k, %0, %0)
    gpu.wgmma_fence()
    %s0 = {_scores("%0", "%any")}
    gpu.wgmma_commit()
    %scores = gpu.wgmma_wait([%s0]) {{groups = 0}}
    gpu.mbarrier_arrive(%empty_k, %0) {{by = warp}}
    %p0 = tile.cast(%scores) {{dtype = bf16}} : {narrow}
    %before, %p = tile.for(%1, %steps, %1, [%none, %p0]) body(%i: i64, %o: {wide}, %p1: {narrow}) {{
    {turn(stages)}
    {sub("j", "%i", "%1")}
    %last = tile.map([%j, %{stages}]) {{fn = mod}}
    %turns = tile.map([%j, %{stages}]) {{fn = floordiv}}
    %phase = tile.map([%turns, %2]) {{fn = mod}}
    %any1 = tile.broadcast(%junk) {{shape = [64, 64]}} : {wide}
    gpu.wgmma_fence()
    gpu.mbarrier_wait(%full_k, %stage, %parity)
    %s1 = {_scores("%stage", "%any1")}
    gpu.wgmma_commit()
    gpu.mbarrier_wait(%full_v, %last, %phase)
    %o1 = {_values("%last", "%p1", "%o")}
    gpu.wgmma_commit()
    %s2 = gpu.wgmma_wait([%s1]) {{groups = 1}}
    gpu.mbarrier_arrive(%empty_k, %stage) {{by = warp}}
    %p2 = tile.cast(%s2) {{dtype = bf16}} : {narrow}
    %o2, %kept = gpu.wgmma_wait([%o1, %p1]) {{groups = 0}}
    gpu.mbarrier_arrive(%empty_v, %last) {{by = warp}}
    tile.yield([%o2, %p2])
    }}
    {sub("end", "%steps", "%1")}
    %stage = tile.map([%end, %{stages}]) {{fn = mod}}
    %turns = tile.map([%end, %{stages}]) {{fn = floordiv}}
    %parity = tile.map([%turns, %2]) {{fn = mod}}
    gpu.wgmma_fence()
    gpu.mbarrier_wait(%full_v, %stage, %parity)
    %o3 = {_values("%stage", "%p", "%before")}
    gpu.wgmma_commit()
    %total, %dead = gpu.wgmma_wait([%o3, %p]) {{groups = 0}}
    gpu.store(%out, [%m, %0], %total, []) {{axes = [0, 1], vector = 2}}"""
    body = "\n".join([
        "%steps = tile.size() {value = (N + 63) // 64}",
        role(0, 128, consumer),
        *(role(128 + 32 * number, 32, producer) for number, producer in enumerate(both)),
    ])  # fmt: skip
    text = function(
        ", ".join(f"%{name}: tensor<bf16, [{size}, 64], unit=1>" for name, size in zip("qkv", "MNN")),
        "f32, [M, 64]",
        launch("M", (64,), 128 + 32 * loaders, shared, body),
    )

    def make(random: Random) -> list[Any]:
        # whole numbers of less than 9 bits: narrow scores are exact
        return [integers(random, (64 if i == 0 else 64 * steps, 64), ml_dtypes.bfloat16, 1) for i in range(3)]

    def compute(operands: list[Array]) -> Array:
        wide: list[Array] = [x.astype(np.float32) for x in operands]
        product: Array = np.matmul(np.matmul(wide[0], np.transpose(wide[1])), wide[2])
        return product

    name = f"attention of {stages} stages, {steps} steps{', two loaders' * (loaders > 1)}"
    return HopperProgram(name, text, make, returns(compute), wraps=steps > 2 * stages)


def _scores(stage: str, acc: str) -> str:
    return f"""gpu.wgmma(%qs, [%0, %0], %ks, [{stage}, %0, %0], {acc}, %no)
        {{depth = 64, a_axes = [0, 1], b_axes = [2, 1], instruction = m64n64k16_bf16_f32}}"""


def _values(stage: str, p: str, acc: str) -> str:
    return f"""gpu.wgmma({p}, [], %vs, [{stage}, %0, %0], {acc})
        {{depth = 64, b_axes = [1, 2], instruction = m64n64k16_bf16_f32}}"""


def pingpong(steps: int, rounds: int) -> HopperProgram:
    """Two roles multiply in turn, one block of columns each; each adds to the sum of all blocks before, in a buffer.

    A role waits for its turn at barrier 1 or 2, and lets the other one know at that one's barrier.
    """
    spec = Gemm(2, steps)
    shared = spec.shared()
    shared.buffer("sum", (64, 64), "f32")
    layout = accumulator(64, 64)

    def section(own: int, tile_number: int, last: bool) -> str:
        """One block's product and what is added to it; the names of values end in its number."""
        text = f"""%before = tile.map([%steps, %{tile_number}]) {{fn = mul}}
        gpu.named_barrier() {{id = {own}, threads = 256}}
        {spec.start}
        {accumulate(spec, "%start", "%step")}
        %so_far = gpu.read(%sum, [%0, %0]) {{places = [0, 1], vector = 2, shape = [64, 64], layout = {layout}}}
        %sum_now = tile.map([%so_far, %total]) {{fn = add}} : {spec.tile}
        gpu.write(%sum, %sum_now, [%0, %0]) {{places = [0, 1], vector = 2}}
        {"" if last else f"gpu.named_barrier() {{id = {3 - own}, threads = 256, action = arrive}}"}
        %at = tile.map([%n, %{64 * tile_number}]) {{fn = add}}
        gpu.store(%out, [%m, %at], %sum_now, []) {{axes = [0, 1], vector = 2}}"""
        for name in ("before", "junk", "start", "total", "so_far", "sum_now", "at"):
            text = text.replace(f"%{name}", f"%{name}_{tile_number}")
        return text

    blocks = 2 * rounds
    first, second = (
        "\n".join(section(own, 2 * i + own - 1, 2 * i + own == blocks) for i in range(rounds)) for own in (1, 2)
    )
    clear = f"""
    %clear = tile.broadcast(%f0) {{shape = [64, 64]}} : {spec.tile}
    gpu.write(%sum, %clear, [%0, %0]) {{places = [0, 1], vector = 2}}
    """
    producer = f"""tile.for(%0, %{blocks}, %1, []) body(%t: i64) {{
    {mul("before", "%t", "%steps")}
    {mul("across", "%t", "%64")}
    {add("to", "%n", "%across")}
    {loop("%steps", add("step", "%before", "%i") + spec.load("%step", "%to"))}
    tile.yield([])
    }}"""
    body = "\n".join([
        spec.count,
        role(0, 128, clear + first),
        role(128, 128, "gpu.named_barrier() {id = 1, threads = 256, action = arrive}\n" + second),
        role(256, 32, producer),
    ])  # fmt: skip
    text = function(
        spec.parameters,
        "f32, [M, N]",
        launch("M, N", (64, 64 * blocks), 288, shared, body),
        facts="K % 8 == 0, N % 4 == 0",
    )

    def compute(operands: list[Array]) -> Array:
        products: Array = np.reshape(spec.result(*operands), (64, blocks, 64))
        sums: Array = np.cumsum(products, axis=1, dtype=np.float32)
        return np.reshape(sums, (64, 64 * blocks))

    return HopperProgram(
        f"pingpong, {rounds} rounds of {steps} steps",
        text,
        lambda random: spec.arguments(random, 64 * blocks),
        returns(compute),
        blocks * steps > 2 * spec.stages,
    )
