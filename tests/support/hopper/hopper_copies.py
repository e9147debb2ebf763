"""Programs for Hopper that copy: by TMA, through stages, between roles. Their texts are GPU IR."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from tests.support.hopper.hopper_text import (
    BYTES,
    Array,
    HopperProgram,
    Shared,
    add,
    function,
    integers,
    launch,
    loop,
    mul,
    returns,
    role,
    row_major,
    sub,
    tile,
    turn,
)

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8}


def copy_programs() -> Iterator[HopperProgram]:
    for span in (0, 32, 64, 128):
        yield tma_copy(span, "bf16", (64, 64))
        yield tma_copy(span, "f32", (70, 36))
    yield tma_copy(128, "bf16", (100, 136), columns=128)
    yield tma_copy(128, "i8", (64, 128), columns=128)
    yield tma_copy(128, "bf16", (64, 64), roles=False)
    yield batched_copy()
    yield store_again(rounds=3, roles=True)
    yield store_again(rounds=3, roles=False)
    yield store_in_turn(rounds=5)
    for stages, steps in [(1, 1), (1, 3), (2, 5), (3, 7)]:
        yield refill(stages, steps)
    yield refill(2, 5, by="warp")
    yield handover(2, 5, by="thread")
    yield handover(3, 7, by="warp")
    yield through_the_cluster(steps=5)


def _padded(x: Array, rows: int, columns: int) -> Array:
    """With zeros up to whole blocks."""
    return np.pad(x, [(0, -x.shape[0] % rows), (0, -x.shape[1] % columns)])


def tma_copy(span: int, dtype: str, shape: tuple[int, int], *, columns: int = 0, roles: bool = True) -> HopperProgram:
    """One box for each program, as wide as the swizzle unless told. All of it goes out: zeros where the tensor ends."""
    rows = 64
    columns = columns or (span or 64) // BYTES[dtype]
    vector = 16 // BYTES[dtype]
    shared = Shared()
    shared.buffer("box", (rows, columns), dtype, span)
    shared.barriers("full", 1, 1)
    fill = f"""
    gpu.mbarrier_expect(%full, %0) {{bytes = {rows * columns * BYTES[dtype]}}}
    gpu.tma_load(%x, [%m, %n], %box, [%0, %0], %full, %0)
        {{axes = [0, 1], places = [0, 1], shape = [{rows}, {columns}]}}"""
    use = f"""
    gpu.mbarrier_wait(%full, %0, %0)
    %t = gpu.read(%box, [%0, %0]) {{places = [0, 1], vector = {vector}, shape = [{rows}, {columns}],
        layout = {row_major(rows, columns, 64, vector)}}}
    gpu.store(%out, [%m, %n], %t, []) {{axes = [0, 1], vector = {vector}}}"""
    body = role(64, 32, fill) + "\n" + role(0, 64, use) if roles else fill + use
    text = function(
        f"%x: tensor<{dtype}, [M, N], unit=1>",
        f"{dtype}, [{rows} * ((M + {rows - 1}) // {rows}), {columns} * ((N + {columns - 1}) // {columns})]",
        launch("M, N", (rows, columns), 96 if roles else 64, shared, body),
        facts=f"N % {vector} == 0",
    )
    return HopperProgram(
        f"tma_copy of {shape[0]}x{shape[1]} {dtype}, {span} bytes, {columns} columns{'' if roles else ', no roles'}",
        text,
        lambda random: [integers(random, shape, DTYPES[dtype], 100)],
        returns(lambda x: _padded(x[0], rows, columns)),
        wraps=False,
    )


def batched_copy() -> HopperProgram:
    """Boxes of the middle axis and the last one of three, the columns of a tensor first; two stages of a buffer."""
    shared = Shared()
    shared.buffer("box", (2, 32, 64), "bf16", 128)
    shared.barriers("full", 2, 1)
    fill = """
    gpu.mbarrier_expect(%full, %i) {bytes = 4096}
    gpu.tma_load(%x, [%m, %i, %n], %box, [%i, %0, %0], %full, %i)
        {axes = [0, -1, 1], places = [1, 2], shape = [32, 64]}"""
    use = f"""
    gpu.mbarrier_wait(%full, %i, %0)
    %t = gpu.read(%box, [%i, %0, %0]) {{places = [1, 2], vector = 8, shape = [32, 64],
        layout = {row_major(32, 64, 64, 8)}}}
    gpu.store(%out, [%i, %m, %n], %t, []) {{axes = [-1, 0, 1], vector = 8}}"""
    body = role(0, 64, loop("%2", use)) + "\n" + role(64, 32, loop("%2", fill))
    text = function(
        "%x: tensor<bf16, [M, 2, N], unit=2>",
        "bf16, [2, M, N]",
        launch("M, N", (32, 64), 96, shared, body),
        facts="N % 8 == 0",
    )
    return HopperProgram(
        "batched_copy",
        text,
        lambda random: [integers(random, (64, 2, 128), ml_dtypes.bfloat16, 100)],
        returns(lambda x: np.ascontiguousarray(np.swapaxes(x[0], 0, 1))),
        wraps=False,
    )


def store_again(rounds: int, *, roles: bool) -> HopperProgram:
    """Tiles that were scaled go out through one buffer, one after the other: what the last store reads must be gone."""
    layout = row_major(32, 64, 64, 8)
    shared = Shared()
    shared.buffer("box", (32, 64), "bf16", 128)
    meet = "gpu.named_barrier() {id = 3, threads = 64}" if roles else "gpu.barrier()"
    body = f"""
    %at = tile.map([%i, %64]) {{fn = mul}}
    %t = gpu.load(%x, [%m, %at], []) {{axes = [0, 1], vector = 8, shape = [32, 64], layout = {layout}}}
    %twice = tile.map([%t, %t]) {{fn = add}} : {tile("bf16", 32, 64, layout)}
    gpu.write(%box, %twice, [%0, %0]) {{places = [0, 1], vector = 8}}
    gpu.proxy_fence()
    {meet}
    gpu.tma_store(%out, [%m, %at], %box, [%0, %0]) {{axes = [0, 1], places = [0, 1], shape = [32, 64]}}
    gpu.bulk_commit()
    gpu.bulk_wait() {{groups = 0, read = true}}
    {meet}"""
    whole = loop(f"%{rounds}", body)
    whole = role(32, 64, whole) if roles else whole
    text = function(
        "%x: tensor<bf16, [M, N], unit=1>",
        "bf16, [M, N]",
        launch("M", (32,), 96 if roles else 64, shared, whole),
        facts="N % 8 == 0",
    )
    return HopperProgram(
        f"store_again {rounds} times{' in a role' if roles else ''}",
        text,
        lambda random: [integers(random, (64, 64 * rounds), ml_dtypes.bfloat16)],
        returns(lambda x: x[0] + x[0]),
    )


def store_in_turn(rounds: int) -> HopperProgram:
    """As `store_again`, through two buffers in turn: one store may go on while the other buffer is written."""
    layout = row_major(32, 32, 64, 4)
    shared = Shared()
    shared.buffer("box", (2, 32, 32), "f32", 128)
    body = f"""
    %at = tile.map([%i, %32]) {{fn = mul}}
    %side = tile.map([%i, %2]) {{fn = mod}}
    %t = gpu.load(%x, [%m, %at], [%rows])
        {{axes = [0, 1], masked = [0], vector = 4, shape = [32, 32], layout = {layout}}}
    %twice = tile.map([%t, %t]) {{fn = add}} : {tile("f32", 32, 32, layout)}
    gpu.bulk_wait() {{groups = 1, read = true}}
    gpu.barrier()
    gpu.write(%box, %twice, [%side, %0, %0]) {{places = [1, 2], vector = 4}}
    gpu.proxy_fence()
    gpu.barrier()
    gpu.tma_store(%out, [%m, %at], %box, [%side, %0, %0]) {{axes = [0, 1], places = [1, 2], shape = [32, 32]}}
    gpu.bulk_commit()"""
    whole = f"{sub('rows', '%M', '%m')}\n{loop(f'%{rounds}', body)}\ngpu.bulk_wait() {{groups = 0}}"
    text = function(
        "%x: tensor<f32, [M, N], unit=1>", "f32, [M, N]", launch("M", (32,), 64, shared, whole), facts="N % 4 == 0"
    )
    return HopperProgram(
        f"store_in_turn {rounds} times",
        text,
        lambda random: [integers(random, (40, 32 * rounds), np.float32)],
        returns(lambda x: x[0] + x[0]),
    )


def refill(stages: int, steps: int, by: str = "thread") -> HopperProgram:
    """Stages that TMA fills are read into registers, and given back: reads come before what TMA writes next."""
    layout = row_major(32, 64, 64, 8)
    shared = Shared()
    shared.buffer("box", (stages, 32, 64), "bf16", 128)
    shared.barriers("full", stages, 1)
    shared.barriers("empty", stages, {"thread": 64, "warp": 2, "role": 1}[by])
    fill = f"""{turn(stages)}
    gpu.mbarrier_wait(%empty, %stage, %other)
    gpu.mbarrier_expect(%full, %stage) {{bytes = 4096}}
    {mul("at", "%i", "%64")}
    gpu.tma_load(%x, [%m, %at], %box, [%stage, %0, %0], %full, %stage)
        {{axes = [0, 1], places = [1, 2], shape = [32, 64]}}"""
    use = f"""{turn(stages)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    %t = gpu.read(%box, [%stage, %0, %0]) {{places = [1, 2], vector = 8, shape = [32, 64], layout = {layout}}}
    gpu.proxy_fence()
    gpu.mbarrier_arrive(%empty, %stage) {{by = {by}}}
    {mul("at", "%i", "%64")}
    %twice = tile.map([%t, %t]) {{fn = add}} : {tile("bf16", 32, 64, layout)}
    {sub("rows", "%M", "%m")}
    {sub("columns", "%N", "%at")}
    gpu.store(%out, [%m, %at], %twice, [%rows, %columns]) {{axes = [0, 1], masked = [0, 1], vector = 8}}"""
    body = role(0, 64, loop(f"%{steps}", use)) + "\n" + role(64, 32, loop(f"%{steps}", fill))
    text = function(
        "%x: tensor<bf16, [M, N], unit=1>",
        "bf16, [M, N]",
        launch("M", (32,), 96, shared, body),
        facts="N % 8 == 0",
    )
    return HopperProgram(
        f"refill of {stages} stages, {steps} steps, by {by}",
        text,
        lambda random: [integers(random, (40, 64 * steps - 24), ml_dtypes.bfloat16)],
        returns(lambda x: x[0] + x[0]),
        wraps=steps > 2 * stages,
    )


def handover(stages: int, steps: int, by: str) -> HopperProgram:
    """One role writes tiles that another one reads, transposed; nothing but mbarriers is between them."""
    there, back = row_major(32, 32, 64, 4), "local(4, 4) * spatial(8, 8) * local(1, 1)"
    arrivals = {"thread": 64, "warp": 2, "role": 1}[by]
    shared = Shared()
    shared.buffer("box", (stages, 32, 32), "f32")
    shared.barriers("full", stages, arrivals)
    shared.barriers("empty", stages, arrivals)
    give = f"""{turn(stages)}
    {mul("at", "%i", "%32")}
    %t = gpu.load(%x, [%m, %at], []) {{axes = [0, 1], vector = 4, shape = [32, 32], layout = {there}}}
    gpu.mbarrier_wait(%empty, %stage, %other)
    gpu.write(%box, %t, [%stage, %0, %0]) {{places = [1, 2], vector = 4}}
    gpu.mbarrier_arrive(%full, %stage) {{by = {by}}}"""
    take = f"""{turn(stages)}
    {mul("at", "%i", "%32")}
    gpu.mbarrier_wait(%full, %stage, %parity)
    %t = gpu.read(%box, [%stage, %0, %0]) {{places = [2, 1], shape = [32, 32], layout = {back}}}
    gpu.mbarrier_arrive(%empty, %stage) {{by = {by}}}
    gpu.store(%out, [%at, %m], %t, []) {{axes = [0, 1]}}"""
    body = role(0, 64, loop(f"%{steps}", give)) + "\n" + role(64, 64, loop(f"%{steps}", take))
    text = function("%x: tensor<f32, [M, N], unit=1>", "f32, [N, M]", launch("M", (32,), 128, shared, body))
    return HopperProgram(
        f"handover of {stages} stages, {steps} steps, by {by}",
        text,
        lambda random: [integers(random, (64, 32 * steps), np.float32, 100)],
        returns(lambda x: np.ascontiguousarray(np.transpose(x[0]))),
    )


def through_the_cluster(steps: int) -> HopperProgram:
    """Two blocks read what each of them sent half of to both, and let both know when they have."""
    layout = f"spatial(2, 1) * {row_major(32, 64, 64, 8)}"
    both = f"replicate(2) * {row_major(32, 64, 64, 8)}"
    shared = Shared()
    shared.buffer("own", (1, 32, 64), "bf16", 128)
    shared.buffer("common", (1, 32, 64), "bf16", 128)
    shared.barriers("full", 1, 1)
    shared.barriers("empty", 1, 128)
    fill = f"""{turn(1)}
    gpu.mbarrier_wait(%empty, %stage, %other)
    gpu.mbarrier_expect(%full, %stage) {{bytes = 8192}}
    {mul("at", "%i", "%64")}
    gpu.tma_load(%x, [%m, %at], %own, [%stage, %0, %0], %full, %stage)
        {{axes = [0, 1], places = [1, 2], shape = [64, 64]}}
    gpu.tma_load(%y, [%0, %at], %common, [%stage, %0, %0], %full, %stage)
        {{axes = [0, 1], places = [1, 2], shape = [32, 64], multicast = true}}"""
    use = f"""{turn(1)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    %t = gpu.read(%own, [%stage, %0, %0]) {{places = [1, 2], vector = 8, shape = [64, 64], layout = {layout}}}
    %u = gpu.read(%common, [%stage, %0, %0]) {{places = [1, 2], vector = 8, shape = [32, 64], layout = {both}}}
    gpu.proxy_fence()
    gpu.mbarrier_arrive(%empty, %stage) {{scope = cluster}}
    {mul("at", "%i", "%64")}
    {add("below", "%m", "%M")}
    gpu.store(%out, [%m, %at], %t, []) {{axes = [0, 1], vector = 8}}
    gpu.store(%out, [%below, %at], %u, []) {{axes = [0, 1], vector = 8}}"""
    # each block stays until both have told it that they read the last step
    drain = f"%last = tile.constant() {{value = {(steps - 1) % 2}, dtype = i64}}\ngpu.mbarrier_wait(%empty, %0, %last)"
    body = role(0, 64, loop(f"%{steps}", use)) + "\n" + role(64, 32, loop(f"%{steps}", fill) + "\n" + drain)
    text = function(
        "%x: tensor<bf16, [M, N], unit=1>, %y: tensor<bf16, [32, N], unit=1>",
        "bf16, [M + 32, N]",
        launch("M", (64,), 96, shared, body, cluster=2),
        facts="N % 8 == 0",
    )
    return HopperProgram(
        f"through_the_cluster, {steps} steps",
        text,
        lambda random: [
            integers(random, (64, 64 * steps), ml_dtypes.bfloat16, 100),
            integers(random, (32, 64 * steps), ml_dtypes.bfloat16, 100),
        ],
        returns(np.concatenate),
    )
