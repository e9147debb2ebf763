"""One case for each message of `support/catalogue/emulator.py`: a program in GPU form with one mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.gpu_code.emulated import FILE, bank_warnings, fault, numbers, shared, small
from tests.support.hopper.hopper_text import Shared, accumulator, left_operand, role
from tiledsl.support.catalogue.emulator import ENTRIES
from tiledsl.support.errors import TileError

# Pieces of programs: a line of 64 numbers on 64 threads, and a product of 64 x 64 x 64 on 128

LOAD = "%t = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)}\n"
STORE = "gpu.store(%out, [%m], %u, []) {axes = [0]}\n"
S = "%s = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}"
WRITE = "gpu.write(%s, %t, [%0]) {places = [0]}\n"
READ = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = spatial(64)}\n"
READ_OTHERS = "%u = gpu.read(%s, [%0]) {places = [0], shape = [64], layout = local(2) * replicate(2) * spatial(32)}\n"
FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 1024}"
EXPECT = "gpu.mbarrier_expect(%full, %0) {bytes = 256}\n"
FETCH = "gpu.tma_load(%x, [%m], %s, [%0], %full, %0) {axes = [0], places = [0], shape = [64]}\n"
SEND = "gpu.tma_store(%out, [%m], %s, [%0]) {axes = [0], places = [0], shape = [64]}\n"
COMMIT = "gpu.bulk_commit()\n"
BARRIER = "gpu.barrier()\n"
ARRIVE_AT_1 = "gpu.named_barrier() {id = 1, threads = 64, action = arrive}\n"

TOTAL = f"tile<f32, [64, 64], register, {accumulator(64, 64)}>"
OPERANDS = "%a: tensor<bf16, [M, 64], unit=1>, %b: tensor<bf16, [64, 64], unit=1>"
AS = "%as = gpu.buffer() {shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3)), offset = 0}"
BS = "%bs = gpu.buffer() {shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3)), offset = 8192}"
BOTH_FULL = "%full = gpu.mbarriers() {count = 1, arrivals = 1, offset = 16384}"
START = f"%acc = tile.broadcast(%f0) {{shape = [64, 64]}} : {TOTAL}\n"
FETCH_BOTH = """gpu.mbarrier_expect(%full, %0) {bytes = 16384}
gpu.tma_load(%a, [%m, %0], %as, [%0, %0], %full, %0) {axes = [0, 1], places = [0, 1], shape = [64, 64]}
gpu.tma_load(%b, [%0, %0], %bs, [%0, %0], %full, %0) {axes = [0, 1], places = [0, 1], shape = [64, 64]}
gpu.mbarrier_wait(%full, %0, %0)
"""
FENCE = "gpu.wgmma_fence()\n"
PRODUCT = """%sum = gpu.wgmma(%as, [%0, %0], %bs, [%0, %0], %acc)
{depth = 64, a_axes = [0, 1], b_axes = [1, 0], instruction = m64n64k16_bf16_f32}
gpu.wgmma_commit()
"""
LAND = "%total = gpu.wgmma_wait([%sum]) {groups = 0}\n"
KEEP = "gpu.store(%out, [%m, %0], %total, []) {axes = [0, 1], vector = 2}\n"
LEFT = f"""%left = gpu.read(%as, [%0, %0]) {{places = [0, 1], shape = [64, 64], layout = {left_operand(64, 64)}}}
"""
PRODUCT_OF_LEFT = """%sum = gpu.wgmma(%left, [], %bs, [%0, %0], %acc)
{depth = 64, b_axes = [1, 0], instruction = m64n64k16_bf16_f32}
gpu.wgmma_commit()
"""


HALVES = "tile<f32, [16, 8], register, replicate(2) * local(2, 1) * spatial(8, 4) * local(1, 2)>"


def product(body: str) -> str:
    """One program of 64 x 64, on one warpgroup. Operands are there when `body` begins."""
    return small(
        START + FETCH_BOTH + body, shared(AS, BS, BOTH_FULL, bytes=16392), threads=128,
        parameters=OPERANDS, result="f32, [M, 64]",
    )  # fmt: skip


def operands() -> tuple[Any, Any]:
    return tuple(np.ones((64, 64), ml_dtypes.bfloat16) for _ in range(2))  # pyright: ignore[reportReturnType]


@dataclass(frozen=True)
class Case:
    """A program with a mistake, and what is said of it.

    `at`: a part of the line that the error points at. `other`: of the line of the other party, if there is one, with
    what is said of it.
    """

    text: str
    message: str
    at: str
    fix: str
    other: tuple[str, str] | None = None
    arguments: Callable[[], tuple[Any, ...]] = lambda: (numbers(),)
    sometimes: bool = False
    """Whether it takes some orders to find it, or it is another mistake in others."""


def line(body: str, *memory: str, **options: Any) -> str:
    return small(body, Shared(list(memory), 4096), **options)


def two_roles(first: str, second: str) -> str:
    return role(0, 32, first) + "\n" + role(32, 32, second)


def whole(number: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (numbers(number),)


PROGRAM = "program m = 0:64"
MISTAKES: dict[str, Case] = {
    "emulator-race": Case(
        line(LOAD + WRITE + READ_OTHERS, S),
        f"race in {PROGRAM}: `gpu.read` lets thread 0 read byte 128 of %s, which thread 32 wrote in `gpu.write` "
        "with no barrier between",
        "gpu.read",
        "put a barrier between the two",
        ("gpu.write", "the other: `gpu.write`"),
    ),
    "emulator-race-under-way": Case(
        line(EXPECT + FETCH + READ, S, FULL),
        f"race in {PROGRAM}: `gpu.read` lets thread 0 read byte 0 of %s, which `gpu.tma_load` writes and may not be "
        "done with: no wait for phase 0 of %full[0] comes before",
        "gpu.read",
        "put a `gpu.mbarrier_wait` for that phase (parity 0) before it",
        ("gpu.tma_load", "the other: `gpu.tma_load`"),
    ),
    "emulator-race-programs": Case(
        line(LOAD + "gpu.store(%out, [%0], %t, []) {axes = [0]}"),
        "race in program m = 64:128: `gpu.store` lets thread 0 write %out[0], which program m = 0:64 wrote in "
        "`gpu.store`",
        "gpu.store",
        "let one program alone write an element, or use `tile.atomic_add` and the like",
        ("gpu.store", "the other: `gpu.store`"),
        arguments=whole(128),
    ),
    "emulator-race-within": Case(
        line(
            LOAD + "%i = gpu.arange() {layout = spatial(64)}\n"
            "%half = tile.map([%i, %2]) {fn = floordiv} : tile<i64, [64], register, spatial(64)>\n"
            "gpu.store(%out, [%half], %t, []) {axes = [-1]}"
        ),
        f"race in {PROGRAM}: `gpu.store` lets thread 0 and thread 1 write %out[0] at the same time",
        "gpu.store",
        "let one thread alone write each element",
    ),
    "emulator-proxy-fence": Case(
        line(LOAD + WRITE + BARRIER + SEND + COMMIT, S),
        f"missing proxy fence in {PROGRAM}: `gpu.tma_store` reads byte 0 of %s through the async proxy, which thread 0 "
        "wrote through the generic one in `gpu.write`",
        "gpu.tma_store",
        "put a `gpu.proxy_fence` after `gpu.write`, before the barrier that the two meet at",
        ("gpu.write", "the other: `gpu.write`"),
    ),
    "emulator-uninitialised": Case(
        line(READ + STORE, S),
        f"`gpu.read` in {PROGRAM} reads byte 0 of %s, which nothing was written to yet",
        "gpu.read",
        "write it first, or wait for the copy that does",
        ("gpu.store", "used here: `gpu.store`"),
    ),
    "emulator-mbarrier-overwritten": Case(
        line(LOAD + WRITE, S, "%full = gpu.mbarriers() {count = 2, arrivals = 1, offset = 248}"),
        f"`gpu.write` in {PROGRAM} writes byte 248 of %s, where the mbarrier %full[0] is",
        "gpu.write",
        "give the buffer or the mbarriers another offset",
    ),
    "emulator-mbarrier-uninitialised": Case(
        line(f"{FULL}\n{EXPECT}{FETCH}gpu.mbarrier_wait(%full, %0, %0)", S).replace("gpu.barrier()", ""),
        f"`gpu.mbarrier_expect` in {PROGRAM} uses %full[0], whose initialisation it may come before",
        "gpu.mbarrier_expect",
        "put a `gpu.barrier` after `gpu.mbarriers`: with `scope = cluster` if other blocks use them",
    ),
    "emulator-accumulator": Case(
        product(FENCE + PRODUCT + KEEP.replace("%total", "%sum")),
        f"`gpu.store` in {PROGRAM} reads %sum, an accumulator in flight: `gpu.wgmma` adds to it",
        "gpu.store",
        "take what a `gpu.wgmma_wait` for that product gives back",
        ("gpu.wgmma(", "the product"),
        arguments=operands,
    ),
    "emulator-accumulator-unwaited": Case(
        product(FENCE + PRODUCT + LAND.replace("groups = 0", "groups = 1") + KEEP),
        f"`gpu.wgmma_wait` in {PROGRAM} gives %sum back, but it leaves the product `gpu.wgmma` in flight: it waits "
        "for all but the last 1 groups",
        "gpu.wgmma_wait",
        "let fewer groups be under way after it, `groups`: 0",
        ("gpu.wgmma(", "the product"),
        arguments=operands,
    ),
    "emulator-operand-registers": Case(
        product(LEFT + FENCE + PRODUCT_OF_LEFT + LAND + KEEP),
        f"`gpu.wgmma_wait` in {PROGRAM} ends a product of `gpu.wgmma` without keeping its operand %left: its registers "
        "may be written to while it is in flight",
        "gpu.wgmma_wait",
        "name %left among the values of the wait",
        ("gpu.wgmma(", "the product"),
        arguments=operands,
    ),
    "emulator-wgmma-fence": Case(
        product(PRODUCT + LAND + KEEP),
        f"`gpu.wgmma` in {PROGRAM} takes %acc, whose registers were touched after the last `gpu.wgmma_fence`",
        "gpu.wgmma(",
        "put a `gpu.wgmma_fence` before the first product, and after each change of registers",
        arguments=operands,
    ),
    "emulator-exit": Case(
        line(LOAD + WRITE + "gpu.proxy_fence()\n" + BARRIER + SEND + COMMIT, S),
        f"{PROGRAM} ends while bulk stores of `gpu.tma_store` are under way",
        "gpu.tma_store",
        "let the thread that stores `gpu.bulk_wait` before the end",
    ),
    "emulator-arrivals": Case(
        line(
            "gpu.mbarrier_arrive(%full, %0)\ngpu.mbarrier_wait(%full, %0, %0)",
            "%full = gpu.mbarriers() {count = 1, arrivals = 32, offset = 1024}",
        ),
        f"too many arrivals in {PROGRAM}: `gpu.mbarrier_arrive` arrives 64 times at %full[0], whose phase 0 lacks "
        "32 of 32 arrivals",
        "gpu.mbarrier_arrive",
        "make the `arrivals` of `gpu.mbarriers` the number of those who arrive in a phase",
    ),
    "emulator-bytes": Case(
        line(
            EXPECT + FETCH + FETCH.replace("%s", "%r") + "gpu.mbarrier_wait(%full, %0, %0)\n"
            "gpu.mbarrier_wait(%full, %0, %1)",
            S,
            S.replace("%s", "%r").replace("= 0}", "= 256}"),
            FULL,
        ),
        f"wrong number of bytes in {PROGRAM}: what `gpu.tma_load` copied for phase 0 of %full[0] came when phase 1 "
        "was on",
        "gpu.tma_load",
        "expect just the bytes of all boxes: `bytes` of `gpu.mbarrier_expect`",
        sometimes=True,
    ),
    "emulator-phase": Case(
        line(two_roles("gpu.mbarrier_arrive(%full, %0) {by = role}\n" * 3, "gpu.mbarrier_wait(%full, %0, %0)"), FULL),
        f"wrong phase in {PROGRAM}: threads 32 to 63 mean phase 0 of %full[0] when they wait for parity 0 in "
        "`gpu.mbarrier_wait`, but phase 2 is over too",
        "gpu.mbarrier_wait",
        "let nobody end a phase before those who wait for the one before have gone on, and wait for every phase",
    ),
    "emulator-overtaken": Case(
        line(two_roles("gpu.mbarrier_arrive(%full, %0) {by = role}\n" * 2, "gpu.mbarrier_wait(%full, %0, %0)"), FULL),
        f"wrong phase in {PROGRAM}: `gpu.mbarrier_arrive` ends phase 1 of %full[0], but nothing says that threads "
        "32 to 63 had found phase 0 over by then: slower, they would wait for ever",
        "gpu.mbarrier_arrive",
        "let those who wait meet those who arrive, by a barrier or an arrival, before the next phase can end",
        ("gpu.mbarrier_wait", "the wait"),
        sometimes=True,
    ),
    "emulator-scratch": Case(
        line(
            "%v = gpu.load(%x, [%m], []) {axes = [0], shape = [128], layout = spatial(128)}\n"
            "%total = gpu.reduce([%v], %scratch) {axes = [0], fn = add}\n"
            "%t = tile.broadcast(%total) {shape = [64]} : tile<f32, [64], register, replicate(2) * spatial(64)>\n"
            + WRITE,
            S,
            "%scratch = gpu.buffer() {shape = [256], dtype = u8, layout = rows(0), offset = 128}",
            cluster=2,
            block=128,
        ),
        "race in program m = 0:128: `gpu.write` uses byte 128 of %s of block 1, which the blocks of the cluster fold "
        "through as %scratch: they may write there at any time",
        "gpu.write",
        "give the buffers memory of their own",
        ("gpu.buffer", "that buffer"),
        arguments=whole(128),
    ),
    "emulator-parity": Case(
        line(EXPECT + FETCH + "gpu.mbarrier_wait(%full, %0, %2)", S, FULL),
        f"`gpu.mbarrier_wait` in {PROGRAM} waits for parity 2 of %full, which is neither 0 nor 1",
        "gpu.mbarrier_wait",
        "take the number of the phase modulo 2",
    ),
    "emulator-block-gone": Case(
        line(
            role(0, 32, "gpu.mbarrier_arrive(%empty, %0) {by = role, scope = cluster}"),
            "%empty = gpu.mbarriers() {count = 1, arrivals = 2, offset = 1024}",
            cluster=2,
        ),
        f"{PROGRAM} lets block 0 end before `gpu.mbarrier_arrive` of another block arrives for phase 0 of %empty[0] of "
        "block 0",
        "gpu.mbarrier_arrive",
        "let the block wait for that phase, or put a barrier of the cluster before the end",
        sometimes=True,
    ),
    "emulator-deadlock": Case(
        line("gpu.mbarrier_expect(%full, %0) {bytes = 512}\n" + FETCH + "gpu.mbarrier_wait(%full, %0, %0)", S, FULL),
        f"deadlock in {PROGRAM}: threads 0 to 63: `gpu.mbarrier_wait` waits for parity 0 of %full[0]: phase 0 is on, "
        "with 1 of 1 arrivals, 256 expected bytes have not come",
        "gpu.mbarrier_wait",
        "count who arrives at what is waited for, how often, and for which parity each one waits",
        (
            "gpu.mbarrier_wait",
            "threads 0 to 63: `gpu.mbarrier_wait` waits for parity 0 of %full[0]: phase 0 is on, with 1 of 1 arrivals, "
            "256 expected bytes have not come",
        ),
    ),
    "emulator-endless": Case(
        line(
            "%w = tile.while([%0])\ncondition(%i: i64) {\n%on = tile.map([%i, %0]) {fn = eq}\ntile.yield([%on])\n} "
            "body(%j: i64) {\ntile.yield([%j])\n}\n"
        ),
        f"threads 0 to 63 in {PROGRAM} went round `tile.while` 100000 times: it may wait for what never comes",
        "tile.while",
        "let no program wait for another one: the emulator runs them one after the other",
    ),
    "emulator-barrier-threads": Case(
        line(role(0, 64, "gpu.named_barrier() {id = 1, threads = 32}")),
        f"`gpu.named_barrier` in {PROGRAM} brings 64 threads to named barrier 1, where 0 are already, of 32",
        "gpu.named_barrier",
        "make `threads` the number of all who arrive or wait there",
    ),
    "emulator-barrier-turn": Case(
        line(two_roles(ARRIVE_AT_1 * 2, ARRIVE_AT_1.replace("arrive", "sync") * 2)),
        f"wrong turn in {PROGRAM}: `gpu.named_barrier` brings threads 32 to 63 to named barrier 1 for another turn, "
        "but nothing says that threads 0 to 31 had come for the last one: in another order they would be counted for "
        "that one",
        "gpu.named_barrier",
        "let those who come next learn from those who came before, or take another `id`",
        ("gpu.named_barrier", "threads 0 to 31 came here"),
    ),
    "emulator-divergence": Case(
        line(two_roles("gpu.barrier()", "gpu.barrier()")),
        f"divergence in {PROGRAM}: threads 32 to 63 came to `gpu.barrier`, but threads 0 to 31 to another op, "
        "`gpu.barrier`; all must come to the same one",
        "gpu.barrier",
        "let nothing but what is the same in all threads decide what is run",
        ("gpu.barrier", "threads 0 to 31 came here"),
    ),
    "emulator-global-bounds": Case(
        line(LOAD),
        "out of bounds in program m = 64:100: `gpu.load` lets slot 0 of thread 36 access %x at 100 on axis 0, whose "
        "size is 100",
        "gpu.load",
        "mask the access by extents, or have the axis checked",
        arguments=whole(100),
    ),
    "emulator-shared-bounds": Case(
        line(LOAD + WRITE.replace("[%0]", "[%64]"), S),
        f"out of bounds in {PROGRAM}: `gpu.write` accesses %s at 64 on axis 0, whose size is 64",
        "gpu.write",
        "check the offsets, and the number of stages",
    ),
    "emulator-shared-end": Case(
        line(LOAD + WRITE, S.replace("= 0}", "= 4000}")),
        "out of bounds: `gpu.buffer` needs 256 bytes at 4000 of the 4096 bytes of shared memory",
        "gpu.buffer",
        "correct the offset, or `shared_bytes` of the launch",
    ),
    "emulator-misaligned": Case(
        line(EXPECT + FETCH, S.replace("= 0}", "= 64}"), FULL),
        f"misaligned access in {PROGRAM}: `gpu.tma_load` needs multiples of 128 bytes, which byte 64 of shared memory "
        "is not",
        "gpu.tma_load",
        "give it an offset or a stride that is one",
    ),
    "emulator-box-start": Case(
        line(
            EXPECT + FETCH.replace("%m", "%first"),
            S,
            FULL,
            parameters="%x: tensor<f32, [M], unit=0>, %first: i64",
        ),
        f"illegal box in {PROGRAM}: `gpu.tma_load` copies from element 6 along axis 0 of %x on, 24 bytes into a row, "
        "and TMA takes multiples of 16 there",
        "gpu.tma_load",
        "let boxes begin at multiples of 4 elements of f32 along axis 0, or copy by `gpu.copy`, `gpu.store`",
        arguments=lambda: (numbers(), 6),
    ),
    "emulator-box-place": Case(
        line(
            "%far = tile.constant() {value = 4294967296, dtype = i64}\n" + EXPECT + FETCH.replace("%m", "%far"), S, FULL
        ),
        f"illegal box in {PROGRAM}: `gpu.tma_load` begins at 4294967296 along axis 0 of %x, and TMA takes coordinates "
        "of 32 bits, from -2147483648 to 2147483647",
        "gpu.tma_load",
        "bring what is outside of the tensor to -1, as zeros come from there",
    ),
    "emulator-vector": Case(
        line(
            "%at = tile.map([%m, %1]) {fn = add}\n"
            + LOAD.replace("[%m]", "[%at]").replace("spatial(64)", "replicate(2) * spatial(32) * local(2), vector = 2")
        ),
        f"`gpu.load` in {PROGRAM}: the vector of 2 at slot 0 of thread 0 is not aligned to 8 bytes: %x at bytes [4, 8]",
        "gpu.load",
        "take fewer elements at once (`vector`)",
        arguments=whole(65),
    ),
    "emulator-replicas": Case(
        small(
            "%h = gpu.load(%a, [%m, %0], []) {axes = [0, 1], shape = [16, 32], layout = spatial(1, 2) * local(1, 2) * "
            "local(2, 1) * spatial(8, 4) * local(1, 2)}\n"
            "%g = gpu.load(%b, [%0, %0], []) {axes = [0, 1], shape = [32, 8], layout = spatial(2, 1) * local(2, 1) * "
            "spatial(1, 8) * spatial(4, 1) * local(2, 1)}\n"
            f"%acc = tile.broadcast(%f0) {{shape = [16, 8]}} : {HALVES}\n"
            "%sum = gpu.mma(%h, %g, %acc) {instruction = m16n8k16_f16_f32}\n"
            "gpu.store(%out, [%m, %0], %sum, []) {axes = [0, 1]}",
            block=16,
            parameters="%a: tensor<f16, [M, 32], unit=1>, %b: tensor<f16, [32, 8], unit=1>",
            result="f32, [M, 8]",
        ),
        "`gpu.store` in program m = 0:16: threads 32 and 0 hold copies of element [0, 0], but 0.0 and 16.0",
        "gpu.store",
        "copies of an element must be the same in all threads that have one",
        arguments=lambda: (np.eye(16, 32, dtype=np.float16) * 16, np.ones((32, 8), np.float16)),
    ),
    "emulator-layout": Case(
        line(LOAD.replace("spatial(64)", "spatial(32) * local(2)")),
        "`gpu.load`: spatial(32) * local(2) is of 32 threads, the program has 64",
        "gpu.load",
        "the layouts do not fit what the instruction does; see docs/layouts.md",
    ),
}


def error_of(code: str) -> TileError:
    """What is wrong with the program of a case."""
    case = MISTAKES[code]
    found = None
    for seed in range(60) if case.sometimes else (None,):
        found = fault(case.text, *case.arguments(), seed=seed)
        if found.code == code:
            break
    assert found is not None
    return found


def bank_conflicts() -> list[str]:
    """A warning, not an error."""
    column = "%t = gpu.read(%s, [%0, %0]) {places = [0, 1], shape = [32, 1], layout = spatial(32, 1)}"
    fill = "%z = tile.broadcast(%f0) {shape = [32, 32]} : tile<f32, [32, 32], register, local(32, 1) * spatial(1, 32)>"
    body = f"{fill}\ngpu.write(%s, %z, [%0, %0]) {{places = [0, 1]}}\ngpu.barrier()\n{column}"
    buffer = "%s = gpu.buffer() {shape = [32, 32], dtype = f32, layout = rows(0, 1), offset = 0}"
    return bank_warnings(line(body, buffer, threads=32), numbers())


CASES: dict[str, Callable[[], object]] = {
    **{code: partial(error_of, code) for code in MISTAKES},
    "emulator-bank-conflicts": bank_conflicts,
}


def test_every_message_has_a_case() -> None:
    assert set(CASES) == set(ENTRIES)


@pytest.mark.parametrize("code", MISTAKES)
def test_message(code: str) -> None:
    case, error = MISTAKES[code], error_of(code)
    assert error.code == code, error
    assert type(error) is ENTRIES[code].kind
    assert error.message == case.message
    assert error.fix == case.fix


@pytest.mark.parametrize("code", MISTAKES)
def test_places(code: str) -> None:
    """The lines of both parties, with carets under what they do."""
    case, error = MISTAKES[code], error_of(code)
    shown = str(error).splitlines()
    assert error.location is not None
    assert error.location.file == FILE
    first = shown.index(next(one for one in shown if one.startswith(f"{FILE}:")))
    assert_points_at(shown[first:], case.at)
    others = [number for number, one in enumerate(shown) if one.startswith(f"  {FILE}:")]
    assert bool(others) == (case.other is not None), error
    if case.other is not None:
        at, text = case.other
        assert shown[others[0]].endswith(f": {text}")
        assert_points_at(shown[others[0] :], at)
    assert shown[-1] == f"  fix: {case.fix}"


def assert_points_at(shown: list[str], part: str) -> None:
    """Of three lines the second is one of the program, the third one has carets below all of it."""
    _, source, carets = shown[:3]
    assert part in source
    assert len(carets) == len(source)
    assert carets.strip(" |") == "^" * len(source.split("|", 1)[1].strip())


def test_bank_conflicts() -> None:
    [text] = bank_conflicts()
    shown = text.splitlines()
    assert shown[0].endswith(
        "`gpu.read` has bank conflicts: 32 turns of shared memory for what 1 would do, in each of 1 accesses by a warp"
    )
    assert_points_at(shown, "gpu.read(%s")
    assert shown[-1] == "  fix: give %s a swizzle or padding"
