"""Matrix products for Hopper: roles that load and multiply, stages between them. Their texts are GPU IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.support.hopper.hopper_text import (
    BYTES,
    Array,
    HopperProgram,
    Random,
    Shared,
    accumulator,
    add,
    function,
    integers,
    launch,
    left_operand,
    loop,
    mul,
    returns,
    role,
    row_major,
    sub,
    tile,
    turn,
)

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f8e4m3": ml_dtypes.float8_e4m3fn, "i8": np.int8}


def gemm_programs() -> Iterator[HopperProgram]:
    for stages, steps in [(2, 1), (2, 2), (2, 3), (2, 5), (3, 3), (3, 4), (3, 7), (4, 9)]:
        yield gemm(Gemm(stages, steps))
    yield gemm(Gemm(2, 5, warpgroups=2, columns=128, by="thread"))
    yield gemm(Gemm(2, 5, warpgroups=2, columns=128, by="role", registers=True))
    yield gemm(Gemm(2, 5, sizes=(100, 72), cut=24))
    yield gemm(Gemm(2, 3, wide=2))
    for dtype in ("f16", "f8e4m3", "i8"):
        yield gemm(Gemm(2, 3, dtype=dtype))
    for stages, steps in [(2, 1), (2, 2), (2, 3), (2, 5), (3, 7)]:
        yield gemm_pipelined(Gemm(stages, steps))
    yield gemm_pipelined(Gemm(2, 5, warpgroups=2, columns=128, registers=True))
    yield gemm_epilogue(Gemm(2, 5))
    yield gemm_epilogue(Gemm(2, 5, columns=128, sizes=(100, 136)))
    yield gemm_epilogue(Gemm(2, 5), reuse=True)
    yield gemm(Gemm(2, 5, n_major=True))
    yield gemm(Gemm(2, 5, n_major=True, columns=128))
    yield gemm_from_registers(Gemm(2, 5, by="thread"))
    yield gemm_from_registers(Gemm(2, 5, by="thread", n_major=True, columns=128))
    yield gemm(Gemm(2, 5, cluster=2))
    yield gemm(Gemm(3, 7, cluster=2, warpgroups=2, columns=128, by="thread"))
    for stages, steps in [(2, 1), (2, 3), (3, 4)]:
        yield gemm_persistent(Gemm(stages, steps))
    yield gemm_by_all(steps=3)


@dataclass(frozen=True)
class Gemm:
    """A[M, K] @ B[N, K].T in blocks of 64 rows for each warpgroup. K is cut into `steps`; the last one lacks `cut`.

    A step is as wide as the swizzle of 128 bytes, or `wide` of them. `n_major`: B is [K, N]. `end`: whether blocks of a
    cluster stay until their barriers are no longer used, or all leave together. `sizes`: M and N (None: one program).
    """

    stages: int
    steps: int
    warpgroups: int = 1
    columns: int = 64
    dtype: str = "bf16"
    wide: int = 1
    n_major: bool = False
    by: str = "warp"
    registers: bool = False
    cluster: int = 1
    end: str = "drain"
    sizes: tuple[int, int] | None = None
    cut: int = 0

    def __str__(self) -> str:
        words = [f"{self.stages} stages, {self.steps} steps, {self.rows}x{self.columns} {self.dtype} by {self.by}"]
        words += [f"cluster of {self.cluster}, {self.end}"] if self.cluster > 1 else []
        words += [f"{self.wide} spans"] if self.wide > 1 else []
        words += ["n-major"] if self.n_major else []
        words += ["registers"] if self.registers else []
        words += [f"of {self.sizes[0]}x{self.sizes[1]}"] if self.sizes else []
        return ", ".join(words)

    @property
    def rows(self) -> int:
        """Of one block."""
        return 64 * self.warpgroups

    @property
    def depth(self) -> int:
        return 128 // BYTES[self.dtype] * self.wide

    @property
    def threads(self) -> int:
        """Those that multiply; the others of a block load."""
        return 128 * self.warpgroups

    @property
    def loaders(self) -> int:
        return 128 if self.registers else 32

    @property
    def total(self) -> str:
        return "i32" if self.dtype == "i8" else "f32"

    @property
    def tile(self) -> str:
        """The type of the accumulator."""
        rows = self.rows * self.cluster
        return tile(self.total, rows, self.columns, accumulator(rows, self.columns))

    @property
    def wraps(self) -> bool:
        return self.steps > 2 * self.stages

    # Text

    @property
    def parameters(self) -> str:
        b = "[K, N]" if self.n_major else "[N, K]"
        return f"%a: tensor<{self.dtype}, [M, K], unit=1>, %b: tensor<{self.dtype}, {b}, unit=1>"

    @property
    def facts(self) -> str:
        whole = 16 // BYTES[self.dtype]
        return f"K % {whole} == 0" + (f", N % {whole} == 0" if self.n_major else "")

    def shared(self) -> Shared:
        shared = Shared()
        b = (self.depth, self.columns) if self.n_major else (self.columns, self.depth)
        shared.buffer("as", (self.stages, self.rows, self.depth), self.dtype, 128)
        shared.buffer("bs", (self.stages, *b), self.dtype, 128)
        shared.barriers("full", self.stages, 1)
        arrivals = {"thread": self.threads, "warp": self.threads // 32, "role": 1}[self.by]
        shared.barriers("empty", self.stages, arrivals * self.cluster)
        return shared

    @property
    def count(self) -> str:
        return f"%steps = tile.size() {{value = (K + {self.depth - 1}) // {self.depth}}}"

    def load(self, step: str = "%i", n: str = "%n") -> str:
        """Fills the stage of a step, when it is empty."""
        rows = self.rows * self.cluster
        b = f"[%k, {n}]" if self.n_major else f"[{n}, %k]"
        box = (self.depth, self.columns) if self.n_major else (self.columns, self.depth)
        multicast = ", multicast = true" if self.cluster > 1 else ""
        # one thread loads; a warp that came late to its wait would find that the phase after next is on
        meet = f"gpu.named_barrier() {{id = 3, threads = {self.loaders}}}" if self.loaders > 32 else ""
        return f"""{turn(self.stages, step)}
        gpu.mbarrier_wait(%empty, %stage, %other)
        {meet}
        gpu.mbarrier_expect(%full, %stage) {{bytes = {(self.rows + self.columns) * self.depth * BYTES[self.dtype]}}}
        {mul("k", "%i", f"%{self.depth}")}
        gpu.tma_load(%a, [%m, %k], %as, [%stage, %0, %0], %full, %stage)
            {{axes = [0, 1], places = [1, 2], shape = [{rows}, {self.depth}]}}
        gpu.tma_load(%b, {b}, %bs, [%stage, %0, %0], %full, %stage)
            {{axes = [0, 1], places = [1, 2], shape = {list(box)}{multicast}}}"""

    def product(self, result: str, acc: str, accumulate: str = "", left: str = "") -> str:
        """Multiplies what is in `%stage`, or `left` by it."""
        a = f"{left}, []" if left else "%as, [%stage, %0, %0]"
        a_axes = "" if left else "a_axes = [1, 2], "
        b_axes = "[1, 2]" if self.n_major else "[2, 1]"
        name = f"m64n{self.columns}k{32 // BYTES[self.dtype]}_{self.dtype}_{self.total}"
        more = f", {accumulate}" if accumulate else ""
        return f"""%{result} = gpu.wgmma({a}, %bs, [%stage, %0, %0], %{acc}{more})
            {{depth = {self.depth}, {a_axes}b_axes = {b_axes}, instruction = {name}}}"""

    def release(self, stage: str = "%stage") -> str:
        """Gives the stage back. Where one thread speaks for all, they meet before."""
        scope = ", scope = cluster" if self.cluster > 1 else ""
        meet = f"gpu.named_barrier() {{id = 2, threads = {self.threads}}}\n" if self.by == "role" else ""
        return f"{meet}gpu.mbarrier_arrive(%empty, {stage}) {{by = {self.by}{scope}}}"

    @property
    def start(self) -> str:
        """An accumulator that the first product is not to be added to."""
        value = "1000" if self.total == "i32" else "1000.0"
        return f"""%junk = tile.constant() {{value = {value}, dtype = {self.total}}}
        %start = tile.broadcast(%junk) {{shape = [{self.rows * self.cluster}, {self.columns}]}} : {self.tile}"""

    def store(self, value: str, n: str = "%n") -> str:
        if self.sizes is None:  # whole blocks
            return f"gpu.store(%out, [%m, {n}], %{value}, []) {{axes = [0, 1], vector = 2}}"
        return f"""{sub("rows", "%M", "%m")}
        {sub("columns", "%N", n)}
        gpu.store(%out, [%m, {n}], %{value}, [%rows, %columns]) {{axes = [0, 1], masked = [0, 1], vector = 2}}"""

    def roles(self, consumer: str, producer: str) -> str:
        last = self.leave()
        registers = (232, 40) if self.registers else (0, 0)
        return "\n".join([
            self.count,
            role(0, self.threads, consumer + (last if self.end == "barrier" else ""), registers[0]),
            role(self.threads, self.loaders, producer + last, registers[1]),
        ])  # fmt: skip

    def leave(self) -> str:
        """What keeps a block until no other one arrives at its barriers."""
        if self.cluster == 1:
            return ""
        if self.end == "barrier":
            return "\ngpu.barrier() {scope = cluster}"
        lines = [""]
        for stage in range(min(self.stages, self.steps)):
            uses = (self.steps - stage + self.stages - 1) // self.stages
            lines.append(f"gpu.mbarrier_wait(%empty, %{stage}, %{(uses - 1) % 2})")
        return "\n".join(lines)

    def text(self, body: str, shared: Shared, out: str = "", columns: int = 0) -> str:
        threads = self.threads + self.loaders
        blocks = (self.rows * self.cluster, columns or self.columns)
        dtype = out or self.total
        return function(
            self.parameters,
            f"{dtype}, [M, N]",
            launch("M, N", blocks, threads, shared, body, cluster=self.cluster),
            facts=f"{self.facts}, N % {16 // BYTES[dtype]} == 0",
        )

    # Arguments and results

    def arguments(self, random: Random, columns: int = 0) -> list[Any]:
        M, N = self.sizes or (self.rows * self.cluster, columns or self.columns)
        K = self.steps * self.depth - self.cut
        dtype = DTYPES[self.dtype]
        return [integers(random, (M, K), dtype), integers(random, (K, N) if self.n_major else (N, K), dtype)]

    def result(self, a: Array, b: Array) -> Array:
        wide: Any = np.int32 if self.total == "i32" else np.float32
        right: Array = b.astype(wide)
        product: Array = np.matmul(a.astype(wide), right if self.n_major else np.transpose(right))
        return product

    def program(self, kind: str, text: str, *, columns: int = 0, narrow: Any = None) -> HopperProgram:
        def compute(operands: list[Array]) -> Array:
            result = self.result(*operands)
            return result if narrow is None else result.astype(narrow)

        return HopperProgram(
            f"{kind}: {self}", text, lambda random: self.arguments(random, columns), returns(compute), self.wraps
        )


# Programs


def accumulate(spec: Gemm, start: str = "%start", step: str = "%i") -> str:
    """The loop that multiplies and waits for each product: %total. Its stages go on from `step`, %before + %i or %i."""
    return f"""%total = tile.for(%0, %steps, %1, [{start}]) body(%i: i64, %acc: {spec.tile}) {{
    {add("step", "%before", "%i") if step == "%step" else ""}
    {turn(spec.stages, step)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    gpu.wgmma_fence()
    %more = tile.map([%i, %0]) {{fn = ne}}
    {spec.product("next", "acc", "%more")}
    gpu.wgmma_commit()
    %landed = gpu.wgmma_wait([%next]) {{groups = 0}}
    {spec.release()}
    tile.yield([%landed])
    }}"""


def gemm(spec: Gemm) -> HopperProgram:
    """One role loads, one multiplies and stores."""
    consumer = "\n".join([spec.start, accumulate(spec), spec.store("total")])
    body = spec.roles(consumer, loop("%steps", spec.load()))
    return spec.program("gemm", spec.text(body, spec.shared()))


def gemm_pipelined(spec: Gemm) -> HopperProgram:
    """The first product apart; from then on one is under way while the next one begins, and its stage is given back."""
    consumer = f"""{spec.start}
    gpu.mbarrier_wait(%full, %0, %0)
    gpu.wgmma_fence()
    {spec.product("first", "start", "%no").replace("%stage", "%0")}
    gpu.wgmma_commit()
    %sum = tile.for(%1, %steps, %1, [%first]) body(%i: i64, %acc: {spec.tile}) {{
    {turn(spec.stages)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    {spec.product("next", "acc")}
    gpu.wgmma_commit()
    gpu.wgmma_wait([]) {{groups = 1}}
    {sub("before", "%i", "%1")}
    %done = tile.map([%before, %{spec.stages}]) {{fn = mod}}
    {spec.release("%done")}
    tile.yield([%next])
    }}
    %total = gpu.wgmma_wait([%sum]) {{groups = 0}}
    {spec.store("total")}"""
    body = spec.roles(consumer, loop("%steps", spec.load()))
    return spec.program("gemm_pipelined", spec.text(body, spec.shared()))


def gemm_epilogue(spec: Gemm, *, reuse: bool = False) -> HopperProgram:
    """The result goes out narrow, by TMA, through a buffer of its own or, with `reuse`, through that of A."""
    shared = spec.shared()
    shared.buffer("cs", (spec.rows, spec.columns), "bf16", 128, at=0 if reuse else None)
    meet = f"gpu.named_barrier() {{id = 1, threads = {spec.threads}}}"
    narrow = tile("bf16", spec.rows, spec.columns, accumulator(spec.rows, spec.columns))
    consumer = f"""{spec.start}
    {accumulate(spec)}
    {meet if reuse else ""}
    %narrow = tile.cast(%total) {{dtype = bf16}} : {narrow}
    gpu.write(%cs, %narrow, [%0, %0]) {{places = [0, 1], method = matrix}}
    gpu.proxy_fence()
    {meet}
    gpu.tma_store(%out, [%m, %n], %cs, [%0, %0])
        {{axes = [0, 1], places = [0, 1], shape = [{spec.rows}, {spec.columns}]}}
    gpu.bulk_commit()
    gpu.bulk_wait() {{groups = 0}}"""
    body = spec.roles(consumer, loop("%steps", spec.load()))
    kind = "gemm_epilogue" + (", reuse" if reuse else "")
    return spec.program(kind, spec.text(body, shared, "bf16"), narrow=ml_dtypes.bfloat16)


def gemm_from_registers(spec: Gemm) -> HopperProgram:
    """Each step of A is read into registers, and multiplied from there."""
    layout = left_operand(spec.rows, spec.depth)
    consumer = f"""{spec.start}
    %total = tile.for(%0, %steps, %1, [%start]) body(%i: i64, %acc: {spec.tile}) {{
    {turn(spec.stages)}
    gpu.mbarrier_wait(%full, %stage, %parity)
    %left = gpu.read(%as, [%stage, %0, %0])
        {{places = [1, 2], method = matrix, shape = [{spec.rows}, {spec.depth}], layout = {layout}}}
    gpu.wgmma_fence()
    %more = tile.map([%i, %0]) {{fn = ne}}
    {spec.product("next", "acc", "%more", "%left")}
    gpu.wgmma_commit()
    %landed, %kept = gpu.wgmma_wait([%next, %left]) {{groups = 0}}
    gpu.proxy_fence()
    {spec.release()}
    tile.yield([%landed])
    }}
    {spec.store("total")}"""
    body = spec.roles(consumer, loop("%steps", spec.load()))
    return spec.program("gemm_from_registers", spec.text(body, spec.shared()))


def gemm_persistent(spec: Gemm) -> HopperProgram:
    """Each program makes two blocks of the result, one after the other; stages and phases go on across them."""
    tiles = 2
    both = f"""{mul("before", "%t", "%steps")}
    {mul("across", "%t", f"%{spec.columns}")}
    {add("to", "%n", "%across")}"""
    producer = f"""tile.for(%0, %{tiles}, %1, []) body(%t: i64) {{
    {both}
    {loop("%steps", add("step", "%before", "%i") + spec.load("%step", "%to"))}
    tile.yield([])
    }}"""
    consumer = f"""{spec.start}
    %end = tile.for(%0, %{tiles}, %1, [%start]) body(%t: i64, %old: {spec.tile}) {{
    {both}
    {accumulate(spec, "%old", "%step")}
    {spec.store("total", "%to")}
    tile.yield([%total])
    }}"""
    columns = tiles * spec.columns
    text = spec.text(spec.roles(consumer, producer), spec.shared(), columns=columns)
    found = spec.program("gemm_persistent", text, columns=columns)
    return HopperProgram(found.name, text, found.arguments, found.expected, tiles * spec.steps > 2 * spec.stages)


def gemm_by_all(steps: int) -> HopperProgram:
    """No roles, no TMA: all threads write A, begin copies of B, and multiply when both have come."""
    spec = Gemm(1, steps)
    layout = row_major(64, 64, 128, 8)
    shared = Shared()
    shared.buffer("as", (1, 64, 64), "bf16", 128)
    shared.buffer("bs", (1, 64, 64), "bf16", 128)
    body = f"""{spec.count}
    {spec.start}
    %total = tile.for(%0, %steps, %1, [%start]) body(%i: i64, %acc: {spec.tile}) {{
    {mul("k", "%i", "%64")}
    gpu.copy(%b, [%n, %k], [], %bs, [%0, %0, %0])
        {{axes = [0, 1], places = [1, 2], vector = 8, shape = [64, 64], layout = {layout}}}
    gpu.commit()
    %left = gpu.load(%a, [%m, %k], []) {{axes = [0, 1], vector = 8, shape = [64, 64], layout = {layout}}}
    gpu.write(%as, %left, [%0, %0, %0]) {{places = [1, 2], vector = 8}}
    gpu.wait() {{groups = 0}}
    gpu.proxy_fence()
    gpu.barrier()
    gpu.wgmma_fence()
    %more = tile.map([%i, %0]) {{fn = ne}}
    {spec.product("next", "acc", "%more").replace("%stage", "%0")}
    gpu.wgmma_commit()
    %landed = gpu.wgmma_wait([%next]) {{groups = 0}}
    gpu.barrier()
    tile.yield([%landed])
    }}
    {spec.store("total")}"""
    text = function(
        spec.parameters,
        "f32, [M, N]",
        launch("M, N", (64, 64), 128, shared, body),
        facts="K % 8 == 0, N % 4 == 0",
    )
    return spec.program("gemm_by_all", text)
