"""Programs for Hopper beyond those of `hopper_programs`: every kind of product and of tensor that code is made for.

A device runs them all; without one they are compiled, and what became of them is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.gpu_cases.gpu_cases import Outcome
from tests.support.hopper.hopper_gemms import (
    Gemm,
    gemm,
    gemm_epilogue,
    gemm_from_registers,
    gemm_persistent,
    gemm_pipelined,
)
from tests.support.hopper.hopper_text import (
    SPAN_BITS,
    Array,
    HopperProgram,
    Random,
    Shared,
    accumulator,
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
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.ir.gpu.warpgroup_instructions import warpgroup_instruction, warpgroup_layouts


@cache
def async_programs() -> tuple[HopperProgram, ...]:
    """All of them, in an order that stays."""
    return (*product_programs(), *gemm_programs(), *tensor_programs(), *other_programs())


def gemm_programs() -> Iterator[HopperProgram]:
    """As large as people would run them: several programs, tails on all sides."""
    large = Gemm(3, 9, warpgroups=2, columns=256, registers=True, sizes=(300, 520), cut=8)
    yield gemm_epilogue(large)
    yield gemm_pipelined(large)
    yield gemm_epilogue(Gemm(4, 9, warpgroups=2, columns=128, sizes=(300, 392), cut=24))
    yield gemm(Gemm(3, 7, warpgroups=2, columns=256, registers=True, cluster=2))
    yield gemm_from_registers(Gemm(3, 7, warpgroups=2, columns=256, registers=True, by="thread", n_major=True))
    yield gemm_persistent(Gemm(4, 9, warpgroups=2, columns=192, registers=True))
    yield gemm(Gemm(3, 7, warpgroups=2, columns=256, registers=True, dtype="f8e4m3"))


# Products


@dataclass(frozen=True)
class Product:
    """a [M, K] @ b [K, N], of one block. `spans`: of the swizzles of `a` and `b`, 0 for none.

    `across`: which of them have M or N, not K, as their fastest axis. `left`: `a` is read into registers.
    """

    instruction: str
    shape: tuple[int, int, int] = (64, 64, 64)
    warpgroups: tuple[int, int] = (1, 1)
    spans: tuple[int, int] = (128, 128)
    across: str = ""
    left: bool = False
    onto: int = 0

    def __str__(self) -> str:
        m, n, k = self.shape
        words = [f"{self.instruction} of {m}x{n}x{k}, {self.spans[0]} and {self.spans[1]} bytes"]
        words += [f"{self.warpgroups[0]}x{self.warpgroups[1]} warpgroups"] if self.warpgroups != (1, 1) else []
        words += [f"{' and '.join(self.across)} across"] if self.across else []
        words += ["from registers"] if self.left else []
        words += [f"onto {self.onto}"] if self.onto else []
        return ", ".join(words)


def product_programs() -> Iterator[HopperProgram]:
    plain = "m64n64k16_bf16_f32"
    for spans in ((128, 128), (64, 32), (32, 64), (0, 128), (128, 0)):
        yield product(Product(plain, spans=spans))
    yield product(Product(plain, onto=5))
    yield product(Product("m64n8k16_bf16_f32", (64, 8, 64)))
    yield product(Product("m64n24k16_bf16_f32", (64, 24, 128)))
    yield product(Product("m64n256k16_bf16_f32", (64, 256, 64)))
    yield product(Product(plain, (128, 128, 128)))
    yield product(Product(plain, (128, 128, 128), spans=(64, 32)))
    yield product(Product(plain, (128, 64, 64), (2, 1)))
    yield product(Product(plain, (64, 128, 64), (1, 2)))
    yield product(Product(plain, (256, 128, 32), (2, 2), spans=(64, 64)))
    for spans in ((128, 128), (64, 64), (32, 32)):
        yield product(Product(plain, across="b", spans=spans))
        yield product(Product(plain, across="ab", spans=spans))
    yield product(Product(plain, (128, 128, 32), (2, 1), across="ab"))
    yield product(Product("m64n128k16_f16_f32", (64, 128, 64), across="b"))
    yield product(Product("m64n128k16_f16_f16", (64, 128, 64)))
    yield product(Product("m64n64k8_tf32_f32", (64, 64, 64)))
    yield product(Product("m64n64k32_f8e4m3_f32", (64, 64, 256)))
    yield product(Product("m64n64k32_f8e5m2_f32", (64, 64, 128), spans=(128, 64)))
    yield product(Product("m64n64k32_f8e4m3_f16", (64, 64, 128)))
    yield product(Product("m64n96k32_i8_i32", (128, 96, 128)))
    yield product(Product("m64n64k32_u8_i32", (64, 64, 64), spans=(64, 64)))
    yield product(Product(plain, (128, 64, 128), left=True))
    yield product(Product(plain, (128, 128, 64), (2, 1), left=True, across="b"))
    yield product(Product(plain, (64, 128, 64), (1, 2), left=True, across="a"))
    yield product(Product("m64n64k16_f16_f16", left=True, onto=3))
    yield product(Product("m64n64k8_tf32_f32", left=True))
    yield product(Product("m64n64k32_f8e4m3_f32", (64, 64, 128), left=True))
    yield product(Product("m64n64k32_i8_i32", (64, 64, 128), left=True))


def product(spec: Product) -> HopperProgram:
    """All of both operands comes by TMA; then all is multiplied at once."""
    instruction = warpgroup_instruction(spec.instruction)
    assert instruction is not None
    (m, n, k), total = spec.shape, str(instruction.accumulator)
    dtype, width = str(instruction.a), instruction.a.bytes
    threads = 128 * spec.warpgroups[0] * spec.warpgroups[1]
    a_layout, acc_layout = warpgroup_layouts(instruction, spec.warpgroups, spec.shape)
    shapes = {"a": (k, m) if "a" in spec.across else (m, k), "b": (k, n) if "b" in spec.across else (n, k)}
    shared = Shared()
    for name, span in zip("ab", spec.spans):
        operand_buffer(shared, f"{name}s", shapes[name], dtype, width, span)
    shared.barriers("full", 1, 1)
    starts = {"a": "%0, %m" if "a" in spec.across else "%m, %0", "b": "%0, %n" if "b" in spec.across else "%n, %0"}
    loads = "\n".join(
        f"gpu.tma_load(%{name}, [{starts[name]}], %{name}s, [%0, %0], %full, %0) "
        f"{{axes = [0, 1], places = [0, 1], shape = {list(shape)}}}"
        for name, shape in shapes.items()
    )
    left, a_axes = "%as, [%0, %0]", f"a_axes = {[1, 0] if 'a' in spec.across else [0, 1]}, "
    read = ""
    if spec.left:
        places = [1, 0] if "a" in spec.across else [0, 1]
        read = f"%left = gpu.read(%as, [%0, %0]) {{places = {places}, shape = [{m}, {k}], layout = {a_layout}}}"
        left, a_axes = "%left, []", ""
    b_axes = [0, 1] if "b" in spec.across else [1, 0]
    values, results = ("%sum, %left", "%total, %kept") if spec.left else ("%sum", "%total")
    body = f"""
    %start = tile.constant() {{value = {spec.onto if total == "i32" else float(spec.onto)}, dtype = {total}}}
    %acc = tile.broadcast(%start) {{shape = [{m}, {n}]}} : {tile(total, m, n, str(acc_layout))}
    gpu.mbarrier_expect(%full, %0) {{bytes = {(m + n) * k * width}}}
    {loads}
    gpu.mbarrier_wait(%full, %0, %0)
    {read}
    gpu.wgmma_fence()
    %sum = gpu.wgmma({left}, %bs, [%0, %0], %acc{"" if spec.onto else ", %no"})
        {{depth = {k}, {a_axes}b_axes = {b_axes}, instruction = {spec.instruction}}}
    gpu.wgmma_commit()
    {results} = gpu.wgmma_wait([{values}]) {{groups = 0}}
    {sub("rows", "%M", "%m")}
    {sub("columns", "%N", "%n")}
    gpu.store(%out, [%m, %n], %total, [%rows, %columns]) {{axes = [0, 1], masked = [0, 1], vector = 2}}"""
    sizes = {"a": "K, M" if "a" in spec.across else "M, K", "b": "K, N" if "b" in spec.across else "N, K"}
    text = function(
        ", ".join(f"%{name}: tensor<{dtype}, [{dims}], unit=1>" for name, dims in sizes.items()),
        f"{total}, [M, N]",
        launch("M, N", (m, n), threads, shared, body),
        facts="N % 2 == 0",
    )
    low = 0 if dtype == "u8" else -3

    def make(random: Random) -> list[Any]:
        drawn = [random.integers(low, 3, shape, endpoint=True) for shape in shapes.values()]
        return [x.astype(to_numpy(instruction.a)) for x in drawn]

    def compute(operands: list[Array]) -> Array:
        wide = to_numpy(instruction.accumulator)
        a, b = (x.astype(np.float64) for x in operands)
        a, b = np.transpose(a) if "a" in spec.across else a, b if "b" in spec.across else np.transpose(b)
        return (np.matmul(a, b) + spec.onto).astype(wide)

    return HopperProgram(f"product: {spec}", text, make, returns(compute), wraps=False)


def operand_buffer(shared: Shared, name: str, shape: tuple[int, int], dtype: str, width: int, span: int) -> None:
    """A buffer of an operand, in panels as wide as its swizzle, or of 16 bytes without one."""
    panel = (span or 16) // width
    words = ["0, 1"]
    words += [f"swizzle=({SPAN_BITS[span]}, 4, 3)"] if span else []
    words += [f"panel={panel}"] if panel < shape[1] else []
    place = -(-shared.bytes // 1024) * 1024
    shared.bytes = place + shape[0] * shape[1] * width
    shared.lines.append(
        f"%{name} = gpu.buffer() {{shape = {list(shape)}, dtype = {dtype}, "
        f"layout = rows({', '.join(words)}), offset = {place}}}"
    )


# Tensors


@dataclass(frozen=True)
class Tensor:
    """A tensor through shared memory by TMA, to one of that shape: in boxes of some of its axes.

    `cut`: the arguments are cut of arrays that are so much longer along each axis. `unit`: which axis counts fastest.
    """

    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    """1 along axes that boxes do not run along."""
    span: int = 0
    panel: int = 0
    unit: int = -1
    cut: tuple[int, ...] = ()
    cluster: int = 1

    def __str__(self) -> str:
        words = [f"{self.dtype} {list(self.shape)} by {list(self.box)}, {self.span} bytes"]
        words += [f"panels of {self.panel}"] if self.panel else []
        words += [f"unit {self.unit}"] if self.unit >= 0 else []
        words += [f"cut by {list(self.cut)}"] if self.cut else []
        words += [f"cluster of {self.cluster}"] if self.cluster > 1 else []
        return ", ".join(words)


def tensor_programs() -> Iterator[HopperProgram]:
    yield through(Tensor("f32", (1000,), (256,)))
    yield through(Tensor("u8", (70, 96), (64, 32), 32))
    yield through(Tensor("f16", (70, 136), (64, 64), 128))
    yield through(Tensor("f16", (70, 264), (32, 128), 128, panel=64))
    yield through(Tensor("bf16", (72, 130), (64, 64), 128, unit=0))
    yield through(Tensor("bf16", (60, 72), (64, 64), 128, cut=(3, 24)))
    yield through(Tensor("i32", (3, 40, 36), (1, 32, 32), 128))
    yield through(Tensor("f64", (40, 3, 20), (32, 1, 8), 64))
    yield through(Tensor("bf16", (2, 3, 40, 72), (1, 2, 32, 64), 128))
    yield through(Tensor("i64", (2, 3, 2, 20, 8), (1, 1, 1, 16, 4), 32))
    yield through(Tensor("bf16", (512, 16), (512, 16), 32))
    yield through(Tensor("bf16", (100, 72), (64, 64), 128, cluster=2))


def through(spec: Tensor) -> HopperProgram:
    """In by TMA and out by TMA. In a cluster each block has its part of the first axis of the box."""
    rank = len(spec.shape)
    unit = rank - 1 if spec.unit < 0 else spec.unit
    inside = [axis for axis in range(rank) if spec.box[axis] > 1]
    inside = [*(axis for axis in inside if axis != unit), unit]  # as they lie in the buffer
    shape = [spec.box[axis] for axis in inside]
    own = [shape[0] // spec.cluster, *shape[1:]]
    width = BY_NAME[spec.dtype].bytes
    shared = Shared()
    words = [", ".join(map(str, range(len(own))))]
    words += [f"swizzle=({SPAN_BITS[spec.span]}, 4, 3)"] if spec.span else []
    words += [f"panel={spec.panel}"] if spec.panel else []
    size = int(np.prod(own)) * width
    shared.bytes = -(-size // 1024) * 1024
    shared.lines.append(
        f"%box = gpu.buffer() {{shape = {own}, dtype = {spec.dtype}, layout = rows({', '.join(words)}), offset = 0}}"
    )
    shared.barriers("full", 1, 1)
    names = "MNKPQ"[:rank]
    starts = ", ".join(f"%{name.lower()}" for name in names)
    zeros = ", ".join(["%0"] * len(own))
    axes = [inside.index(axis) if axis in inside else -1 for axis in range(rank)]
    how = f"{{axes = {axes}, places = {list(range(len(own)))}, shape = {shape}}}"
    body = f"""
    gpu.mbarrier_expect(%full, %0) {{bytes = {size}}}
    gpu.tma_load(%x, [{starts}], %box, [{zeros}], %full, %0) {how}
    gpu.mbarrier_wait(%full, %0, %0)
    gpu.tma_store(%out, [{starts}], %box, [{zeros}]) {how}
    gpu.bulk_commit()
    gpu.bulk_wait() {{groups = 0}}"""
    sizes = [f"%{name} = tile.size() {{value = {name}}}" for name in names]
    dims = ", ".join(names)
    text = function(
        f"%x: tensor<{spec.dtype}, [{dims}], unit={unit}>, %out: tensor<{spec.dtype}, [{dims}], unit={unit}>",
        f"{spec.dtype}, [1]",
        launch(", ".join(names), spec.box, 64, shared, body, spec.cluster),
    )
    head, *rest = [
        line for line in text.splitlines() if not line.strip().startswith(("%out =", "%M =", "%N =", "%K ="))
    ]
    text = "\n".join([head, *(f"  {line}" for line in sizes), *rest]).replace("tile.return([%out])", "tile.return([])")

    def make(random: Random) -> list[Any]:
        longer = [size + more for size, more in zip(spec.shape, spec.cut or [0] * rank)]
        dtype = to_numpy(BY_NAME[spec.dtype])
        made: list[Any] = []
        for fill in (True, False):
            order = [*(axis for axis in range(rank) if axis != unit), unit]
            base = random.integers(0 if spec.dtype == "u8" else -99, 99, [longer[axis] for axis in order])
            array = np.transpose(base.astype(dtype) * (1 if fill else 0), np.argsort(order))
            made.append(array[tuple(slice(size) for size in spec.shape)])
        return made

    def outcome(arguments: list[Any]) -> Outcome:
        return Outcome((), (arguments[0], arguments[0]))

    return HopperProgram(f"through: {spec}", text, make, outcome, wraps=False)


# Others


def other_programs() -> Iterator[HopperProgram]:
    yield again_and_again()
    yield one_after_the_other()
    yield shared_columns("plain")
    yield shared_columns("matrix")
    yield softmax_in_a_role()


def again_and_again(blocks: int = 1000) -> HopperProgram:
    """Blocks that go through several programs, as many as a number says: mbarriers begin anew in each of them."""
    stages, steps = 2, 5
    layout = row_major(32, 64, 64, 8)
    shared = Shared()
    shared.buffer("box", (stages, 32, 64), "bf16", 128)
    shared.barriers("full", stages, 1)
    shared.barriers("empty", stages, 2)
    short = "\n".join(
        f"%{name}_short = tile.cast(%{name}) {{dtype = i32}}" for name in ("stage", "parity", "other")
    )  # fmt: skip
    fill = f"""{turn(stages)}
    {short}
    gpu.mbarrier_wait(%empty, %stage_short, %other_short)
    gpu.mbarrier_expect(%full, %stage_short) {{bytes = 4096}}
    {mul("at", "%i", "%64")}
    gpu.tma_load(%x, [%m, %at], %box, [%stage_short, %0, %0], %full, %stage_short)
        {{axes = [0, 1], places = [1, 2], shape = [32, 64]}}"""
    use = f"""{turn(stages)}
    {short}
    gpu.mbarrier_wait(%full, %stage_short, %parity_short)
    %t = gpu.read(%box, [%stage_short, %0, %0]) {{places = [1, 2], vector = 8, shape = [32, 64], layout = {layout}}}
    gpu.proxy_fence()
    gpu.mbarrier_arrive(%empty, %stage_short) {{by = warp}}
    {mul("at", "%i", "%64")}
    {sub("rows", "%M", "%m")}
    gpu.store(%out, [%m, %at], %t, [%rows]) {{axes = [0, 1], masked = [0], vector = 8}}"""
    body = role(0, 64, loop(f"%{steps}", use), 40) + "\n" + role(128, 32, loop(f"%{steps}", fill), 24)
    text = function(
        "%x: tensor<bf16, [M, N], unit=1>, %count: i64",
        "bf16, [M, N]",
        launch("count", (32,), 256, shared, body).replace("body(%count: i64)", "body(%m: i64)"),
        facts="N % 8 == 0",
    )
    rows = 32 * blocks + 8

    def make(random: Random) -> list[Any]:
        return [integers(random, (rows, 64 * steps), ml_dtypes.bfloat16), rows]

    return HopperProgram("again and again", text, make, returns(lambda x: x[0]))


def one_after_the_other() -> HopperProgram:
    """Two kernels: the second one may begin before the first one is done, and reads by TMA what that wrote by TMA."""
    layout = row_major(32, 64, 64, 8)
    wide = tile("bf16", 32, 64, layout)

    def twice(source: str, target: str) -> str:
        shared = Shared()
        shared.buffer("box", (32, 64), "bf16", 128)
        shared.barriers("full", 1, 1)
        body = f"""
        gpu.mbarrier_expect(%full, %0) {{bytes = 4096}}
        gpu.tma_load({source}, [%m, %n], %box, [%0, %0], %full, %0)
            {{axes = [0, 1], places = [0, 1], shape = [32, 64]}}
        gpu.mbarrier_wait(%full, %0, %0)
        %t = gpu.read(%box, [%0, %0]) {{places = [0, 1], vector = 8, shape = [32, 64], layout = {layout}}}
        %u = tile.map([%t, %t]) {{fn = add}} : {wide}
        gpu.barrier()
        gpu.write(%box, %u, [%0, %0]) {{places = [0, 1], vector = 8}}
        gpu.proxy_fence()
        gpu.barrier()
        gpu.tma_store({target}, [%m, %n], %box, [%0, %0]) {{axes = [0, 1], places = [0, 1], shape = [32, 64]}}
        gpu.bulk_commit()
        gpu.bulk_wait() {{groups = 0}}"""
        return launch("M, N", (32, 64), 64, shared, body)

    text = function(
        "%x: tensor<bf16, [M, N], unit=1>",
        "bf16, [M, N]",
        "%between = tile.empty() {shape = [M, N], dtype = bf16}\n"
        + twice("%x", "%between")
        + twice("%between", "%out"),
        facts="N % 8 == 0",
    )
    return HopperProgram(
        "one after the other",
        text,
        lambda random: [integers(random, (1000, 1000), ml_dtypes.bfloat16)],
        returns(lambda x: x[0] * 4),
        wraps=False,
    )


def shared_columns(method: str) -> HopperProgram:
    """Two blocks have half of the columns of B each, and send each other halves of A; they store their parts by TMA."""
    layout = f"spatial(1, 2) * {accumulator(64, 64)}"
    wide, narrow = tile("f32", 64, 128, layout), tile("bf16", 64, 128, layout)
    stages = 2
    shared = Shared()
    shared.buffer("as", (stages, 64, 64), "bf16", 128)
    shared.buffer("bs", (stages, 64, 64), "bf16", 128)
    shared.buffer("cs", (64, 64), "bf16", 128)
    shared.barriers("full", stages, 1)
    shared.barriers("empty", stages, 8)
    producer = f"""{turn(stages)}
    gpu.mbarrier_wait(%empty, %stage, %other)
    gpu.mbarrier_expect(%full, %stage) {{bytes = 16384}}
    {mul("k", "%i", "%64")}
    gpu.tma_load(%a, [%m, %k], %as, [%stage, %0, %0], %full, %stage)
        {{axes = [0, 1], places = [1, 2], shape = [64, 64], multicast = true}}
    gpu.tma_load(%b, [%k, %n], %bs, [%stage, %0, %0], %full, %stage)
        {{axes = [0, 1], places = [1, 2], shape = [64, 128]}}"""
    consumer = f"""
    %none = tile.broadcast(%f0) {{shape = [64, 128]}} : {wide}
    %total = tile.for(%0, %steps, %1, [%none]) body(%i: i64, %acc: {wide}) {{
    {turn(stages)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    gpu.wgmma_fence()
    %next = gpu.wgmma(%as, [%stage, %0, %0], %bs, [%stage, %0, %0], %acc)
        {{depth = 64, a_axes = [1, 2], b_axes = [1, 2], instruction = m64n64k16_bf16_f32}}
    gpu.wgmma_commit()
    %landed = gpu.wgmma_wait([%next]) {{groups = 0}}
    gpu.mbarrier_arrive(%empty, %stage) {{by = warp, scope = cluster}}
    tile.yield([%landed])
    }}
    %narrow = tile.cast(%total) {{dtype = bf16}} : {narrow}
    gpu.write(%cs, %narrow, [%0, %0]) {{places = [0, 1], method = {method}, vector = 2}}
    gpu.proxy_fence()
    gpu.named_barrier() {{id = 1, threads = 128}}
    gpu.tma_store(%out, [%m, %n], %cs, [%0, %0]) {{axes = [0, 1], places = [0, 1], shape = [64, 128]}}
    gpu.bulk_commit()
    gpu.bulk_wait() {{groups = 0}}"""
    steps = 5  # each block stays until both have told it that they read the last ones
    drain = "\n".join(f"gpu.mbarrier_wait(%empty, %{(steps - n) % 2}, %{(steps - n) // 2 % 2})" for n in (2, 1))
    body = "\n".join([
        "%steps = tile.size() {value = (K + 63) // 64}",
        role(0, 128, consumer),
        role(128, 32, f"{loop('%steps', producer)}\n{drain}"),
    ])  # fmt: skip
    text = function(
        "%a: tensor<bf16, [M, K], unit=1>, %b: tensor<bf16, [K, N], unit=1>",
        "bf16, [M, N]",
        launch("M, N", (64, 128), 160, shared, body, cluster=2),
        facts="K % 8 == 0, N % 8 == 0",
    )

    def compute(operands: list[Array]) -> Array:
        a, b = (x.astype(np.float32) for x in operands)
        return np.matmul(a, b).astype(ml_dtypes.bfloat16)

    def make(random: Random) -> list[Any]:
        depth = 64 * steps - 24
        return [integers(random, shape, ml_dtypes.bfloat16, 1) for shape in ((100, depth), (depth, 200))]

    return HopperProgram(f"shared columns, {method}", text, make, returns(compute))


def softmax_in_a_role() -> HopperProgram:
    """The fragments of a product as they are folded in attention: over the columns, which are in four lanes."""
    layout = accumulator(64, 64)
    wide = tile("f32", 64, 64, layout)
    shared = Shared()
    shared.buffer("box", (64, 64), "f32")
    shared.barriers("full", 1, 1)
    fill = """
    gpu.mbarrier_expect(%full, %0) {bytes = 16384}
    gpu.tma_load(%x, [%m, %0], %box, [%0, %0], %full, %0) {axes = [0, 1], places = [0, 1], shape = [64, 64]}"""
    use = f"""
    gpu.mbarrier_wait(%full, %0, %0)
    %t = gpu.read(%box, [%0, %0]) {{places = [0, 1], vector = 2, shape = [64, 64], layout = {layout}}}
    %top = gpu.reduce([%t]) {{axes = [1], fn = max, keepdims = true}}
    %tops = tile.broadcast(%top) {{shape = [64, 64]}} : {wide}
    %below = tile.map([%t, %tops]) {{fn = sub}} : {wide}
    %e = tile.map([%below]) {{fn = exp}} : {wide}
    %sum = gpu.reduce([%e]) {{axes = [1], fn = add, keepdims = true}}
    %sums = tile.broadcast(%sum) {{shape = [64, 64]}} : {wide}
    %part = tile.map([%e, %sums]) {{fn = div}} : {wide}
    {sub("rows", "%M", "%m")}
    gpu.store(%out, [%m, %0], %part, [%rows]) {{axes = [0, 1], masked = [0], vector = 2}}"""
    text = function(
        "%x: tensor<f32, [M, 64], unit=1>",
        "f32, [M, 64]",
        launch("M", (64,), 160, shared, role(0, 32, fill) + "\n" + role(32, 128, use)),
    )

    def compute(operands: list[Array]) -> Array:
        e = np.exp(operands[0] - np.max(operands[0], axis=1, keepdims=True))
        return e / np.sum(e, axis=1, keepdims=True)

    return HopperProgram(
        "softmax in a role",
        text,
        lambda random: [random.standard_normal((100, 64)).astype(np.float32)],
        returns(compute),
        wraps=False,
        relative=None,
        terms=64,
    )
