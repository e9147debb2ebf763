"""What the GPU form demands of roles, mbarriers, copies by TMA and products by warpgroups: each reason by its words."""

from __future__ import annotations

import pytest

from tests.support.gpu_code.every_gpu_op import ASYNC
from tests.unit.ir.test_gpu_form import reason
from tiledsl.ir.core import Module
from tiledsl.ir.gpu.warpgroup_instructions import warpgroup_instruction, warpgroup_layouts
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.errors import TileError

PROGRAM = """func @f(%x: tensor<bf16, [M, K], unit=1>, %s: f32, %h: bf16, %i: i64, %flag: bool) {
  %M = tile.size() {value = M}
  gpu.launch([%M]) {blocks = [64], threads = 384, shared_bytes = 65536} body(%m: i64) {
    %t = tile.broadcast(%s) {shape = [384]} : tile<f32, [384], register, spatial(384)>
    %b = gpu.buffer() {shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3)), offset = 0}
    %plain = gpu.buffer() {shape = [64, 64], dtype = bf16, layout = rows(0, 1), offset = 8192}
    %words = gpu.buffer() {shape = [4], dtype = u64, layout = rows(0), offset = 32000}
    %bar = gpu.mbarriers() {count = 2, arrivals = 1, offset = 32768}
    BEFORE
    ROLES
  }
  tile.return([])
}"""


def program(roles: str = "", before: str = "") -> Module:
    return parse_module(PROGRAM.replace("BEFORE", before).replace("ROLES", roles))


def in_role(body: str, fields: str = "first = 128, threads = 256") -> Module:
    return program(f"gpu.role() {{{fields}}} body() {{ {body} }}")


def in_cluster(body: str, cluster: int = 2) -> Module:
    text = PROGRAM.replace("threads = 384", f"threads = 384, cluster = {cluster}").replace("spatial(384)", "SPREAD")
    text = text.replace("SPREAD", f"replicate({cluster}) * spatial(384)")
    return parse_module(
        text.replace("BEFORE", "").replace("ROLES", f"gpu.role() {{first = 128, threads = 128}} body() {{ {body} }}")
    )


def test_the_example_is_legal() -> None:
    verify(parse_module(ASYNC), Form.GPU)
    verify(program(), Form.GPU)


ROLE = "gpu.role() {first = 0, threads = 32} body() { }"


@pytest.mark.parametrize(
    "roles",
    [
        ROLE,
        f"{ROLE} gpu.role() {{first = 32, threads = 32}} body() {{ }} tile.yield([])",
        "gpu.role() {first = 128, threads = 256} body() { } " + ROLE,
        "gpu.role() {first = 0, threads = 128, registers = 24} body() { } "
        "gpu.role() {first = 128, threads = 256, registers = 240} body() { }",
        # one warp, whose warpgroup has the registers
        "gpu.role() {first = 32, threads = 32, registers = 24} body() { } "
        "gpu.role() {first = 128, threads = 256, registers = 240} body() { }",
        "gpu.role() {first = 0, threads = 128, registers = 168} body() { }",
        # a fold within warps, tiles of the role's own, a barrier of the cluster, which all have
        "gpu.role() {first = 0, threads = 32} body() { "
        "%u = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], register, spatial(32) * local(2)> "
        "%r = gpu.reduce([%u]) {axes = [0], fn = add} gpu.barrier() {scope = cluster} }",
    ],
)
def test_legal_roles(roles: str) -> None:
    verify(program(roles), Form.GPU)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (f"tile.for(%i, %i, %i, []) body(%n: i64) {{ {ROLE} }}", "`gpu.role`: stands inside of another op"),
        (f"gpu.role() {{first = 32, threads = 32}} body() {{ {ROLE} }}", "`gpu.role`: stands inside of another op"),
        (f"{ROLE} gpu.barrier()", "`gpu.role`: is followed by `gpu.barrier`"),
        ("gpu.role() {first = 16, threads = 32} body() { }", "`gpu.role`: is of the threads 16 to 48"),
        ("gpu.role() {first = 0, threads = 48} body() { }", "`gpu.role`: is of the threads 0 to 48"),
        ("gpu.role() {first = 0, threads = 0} body() { }", "`gpu.role`: is of the threads 0 to 0"),
        (
            "gpu.role() {first = 256, threads = 256} body() { }",
            "`gpu.role`: is of the threads 256 to 512, but its launch has 384",
        ),
        (
            "gpu.role() {first = 0, threads = 128} body() { } gpu.role() {first = 96, threads = 64} body() { }",
            "`gpu.role`: is of the threads 96 to 160, but those from 0 to 128 have a role already",
        ),
        ("gpu.role() {first = 0, threads = 128, registers = 16} body() { }", "`gpu.role`: has 16 registers"),
        ("gpu.role() {first = 0, threads = 128, registers = 100} body() { }", "`gpu.role`: has 100 registers"),
        ("gpu.role() {first = 0, threads = 128, registers = 264} body() { }", "`gpu.role`: has 264 registers"),
        (
            "gpu.role() {first = 64, threads = 128, registers = 40} body() { } "
            "gpu.role() {first = 0, threads = 32} body() { }",
            "`gpu.role`: has registers of its own, but shares a warpgroup with the threads from 0 on",
        ),
        (
            "gpu.role() {first = 0, threads = 32, registers = 40} body() { } "
            "gpu.role() {first = 32, threads = 32, registers = 40} body() { }",
            "`gpu.role`: has registers of its own, but shares a warpgroup with the threads from 32 on",
        ),
        (
            "gpu.role() {first = 0, threads = 32, registers = 176} body() { } ",
            "`gpu.role`: and those before it have 65536 registers, of 64512 that a block begins with",
        ),
        (
            "gpu.role() {first = 0, threads = 128, registers = 40} body() { } "
            "gpu.role() {first = 128, threads = 256, registers = 240} body() { }",
            "`gpu.role`: and those before it have 66560 registers, of 64512 that a block begins with",
        ),
        (
            "gpu.role() {first = 0, threads = 128, registers = 176} body() { }",
            "`gpu.role`: and those before it have 65536 registers, of 64512 that a block begins with",
        ),
    ],
)
def test_illegal_roles(roles: str, expected: str) -> None:
    assert reason(program(roles)).startswith(expected)


def test_registers_are_those_of_whole_warpgroups() -> None:
    text = PROGRAM.replace("384", "192").replace("BEFORE", "")
    roles = "gpu.role() {first = 128, threads = 64, registers = 40} body() { }"
    problem = "`gpu.role`: has registers of its own, but its launch has 192 threads"
    assert reason(parse_module(text.replace("ROLES", roles))).startswith(problem)


def test_four_warpgroups_share_what_three_cannot() -> None:
    text = PROGRAM.replace("384", "512").replace("BEFORE", "")
    roles = "gpu.role() {first = 0, threads = 128, registers = 32} body() { } "
    fits = roles + "gpu.role() {first = 128, threads = 384, registers = 160} body() { }"
    verify(parse_module(text.replace("ROLES", fits)), Form.GPU)
    over = fits.replace("160", "168")
    assert "and those before it have 68608 registers, of 65536" in reason(parse_module(text.replace("ROLES", over)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("gpu.barrier()", "`gpu.barrier`: waits for all threads of the block, but stands in a role"),
        (
            "%u = tile.cast(%t) {dtype = f16} : tile<f16, [384], register, spatial(384)>",
            "`tile.cast`: %u is laid out for 384 threads, but its role has 256",
        ),
        ("%r = gpu.reduce([%t]) {axes = [0], fn = add}", "`gpu.reduce`: reads %t from outside of its role"),
        ('tile.print([%t]) {text = ""}', "`tile.print`: reads %t from outside of its role"),
        (
            "%u = tile.broadcast(%s) {shape = [256]} : tile<f32, [256], register, spatial(256)> "
            "%r = gpu.reduce([%u]) {axes = [0], fn = add}",
            "`gpu.reduce`: crosses warps without a buffer",
        ),
        (
            "%u = tile.broadcast(%s) {shape = [8]} : tile<f32, [8], register, replicate(256) * local(8)> "
            "%r = gpu.scan([%u], %words) {axis = 0, fn = add}",
            "`gpu.scan`: scans across warps, for which all threads of the block meet, but stands in a role",
        ),
        (
            "gpu.copy(%x, [%m, %i], [], %plain, [%i, %i]) {axes = [0, 1], places = [0, 1], vector = 8, "
            "shape = [64, 64], layout = local(2, 1) * spatial(48, 8) * local(1, 8)}",
            "`gpu.copy`: copies [64, 64] by the layout",
        ),
        (
            "gpu.copy(%x, [%m, %i], [], %plain, [%i, %i]) {axes = [0, 1], places = [0, 1], vector = 8, "
            "shape = [64, 64], layout = local(4, 1) * spatial(16, 8) * local(1, 8)}",
            "`gpu.copy`: copies by 128 threads of 256",
        ),
        # barriers
        ("gpu.named_barrier() {id = 0, threads = 256}", "`gpu.named_barrier`: is the barrier 0"),
        ("gpu.named_barrier() {id = 16, threads = 256}", "`gpu.named_barrier`: is the barrier 16"),
        ("gpu.named_barrier() {id = 1, threads = 128}", "`gpu.named_barrier`: is for 128 threads, but 256 come to it"),
        ("gpu.named_barrier() {id = 1, threads = 270}", "`gpu.named_barrier`: is for 270 threads"),
        ("gpu.named_barrier() {id = 1, threads = 512}", "`gpu.named_barrier`: is for 512 threads"),
        ("gpu.turn() {id = 0, action = take}", "`gpu.turn`: takes the barriers 0 to 1"),
        ("gpu.turn() {id = 15, action = pass}", "`gpu.turn`: takes the barriers 15 to 16"),
        ("%c = gpu.mbarriers() {count = 1, arrivals = 1}", "`gpu.mbarriers`: stands inside of another op"),
        ("gpu.mbarrier_arrive(%words, %i)", "`gpu.mbarrier_arrive`: %words is no mbarrier"),
        ("gpu.mbarrier_wait(%words, %i, %i)", "`gpu.mbarrier_wait`: %words is no mbarrier"),
        ("gpu.mbarrier_expect(%words, %i) {bytes = 16}", "`gpu.mbarrier_expect`: %words is no mbarrier"),
        ("gpu.mbarrier_expect(%bar, %i) {bytes = 0}", "`gpu.mbarrier_expect`: expects 0 bytes"),
        ("gpu.mbarrier_expect(%bar, %i) {bytes = 24}", "`gpu.mbarrier_expect`: expects 24 bytes"),
        ("gpu.mbarrier_expect(%bar, %i) {bytes = 1048576}", "`gpu.mbarrier_expect`: expects 1048576 bytes"),
        # copies
        (
            "gpu.tma_load(%x, [%m, %i], %b, [%i, %i], %words, %i) {axes = [0, 1], places = [0, 1], shape = [64, 64]}",
            "`gpu.tma_load`: %words is no mbarrier",
        ),
        (
            "gpu.tma_load(%x, [%m, %i], %b, [%i, %i], %bar, %i) {axes = [0, 1], places = [0, 1], shape = [128, 64]}",
            "`gpu.tma_load`: copies [128, 64] to a buffer of [64, 64]",
        ),
        (
            "gpu.tma_store(%x, [%m, %i], %b, [%i, %i]) {axes = [1, 0], places = [0, 1], shape = [64, 64]}",
            "`gpu.tma_store`: does not run along the fastest axis of its buffer",
        ),
        (
            "%3 = tile.constant() {value = 3, dtype = i64} "
            "gpu.tma_load(%x, [%m, %3], %b, [%i, %i], %bar, %i) {axes = [0, 1], places = [0, 1], shape = [64, 64]}",
            "`gpu.tma_load`: begins 3 elements of bf16 past a multiple of 8 along axis 1 of %x",
        ),
        (
            "%4 = tile.constant() {value = 4, dtype = i64} %at = tile.map([%m, %4]) {fn = add} "
            "gpu.tma_store(%x, [%i, %at], %b, [%i, %i]) {axes = [0, 1], places = [0, 1], shape = [64, 64]}",
            "`gpu.tma_store`: begins 4 elements of bf16 past a multiple of 8 along axis 1 of %x",
        ),
        ("gpu.bulk_wait() {groups = -1}", "`gpu.bulk_wait`: leaves -1 groups"),
        (
            "%n = tile.while([%i]) condition(%p: i64) { "
            "gpu.tma_store(%x, [%m, %i], %b, [%i, %i]) {axes = [0, 1], places = [0, 1], shape = [64, 64]} "
            "tile.yield([%flag]) } body(%q: i64) { tile.yield([%q]) }",
            "`gpu.tma_store`: writes in a condition",
        ),
    ],
)
def test_what_a_role_may_not_hold(body: str, expected: str) -> None:
    assert reason(in_role(body)).startswith(expected)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("%c = gpu.mbarriers() {count = 0, arrivals = 1}", "`gpu.mbarriers`: makes 0 mbarriers"),
        ("%c = gpu.mbarriers() {count = 1, arrivals = 0}", "`gpu.mbarriers`: ends phases after 0 arrivals"),
        ("%c = gpu.mbarriers() {count = 1, arrivals = 1048576}", "`gpu.mbarriers`: ends phases after 1048576 arrivals"),
        ("%c = gpu.mbarriers() {count = 1, arrivals = 1, offset = 12}", "`gpu.mbarriers`: stands at byte 12"),
        (
            "%c = gpu.mbarriers() {count = 2, arrivals = 1, offset = 65528}",
            "`gpu.mbarriers`: ends at byte 65544 of the 65536 that the launch has",
        ),
        (
            "%w = gpu.read(%bar, [%i]) {places = [], shape = []}",
            "`gpu.mbarriers`: %bar is read by `gpu.read`",
        ),
        (
            "%c = gpu.buffer() {shape = [8, 64], dtype = bf16, layout = rows(0, 1), offset = 48} "
            "gpu.tma_store(%x, [%m, %i], %c, [%i, %i]) {axes = [0, 1], places = [0, 1], shape = [8, 64]}",
            "`gpu.tma_store`: %c stands at byte 48",
        ),
        (
            "%c = gpu.buffer() {shape = [512], dtype = bf16, layout = rows(0), offset = 48} "
            "%v = gpu.view(%c) {shape = [8, 64], layout = rows(0, 1)} "
            "gpu.tma_store(%x, [%m, %i], %v, [%i, %i]) {axes = [0, 1], places = [0, 1], shape = [8, 64]}",
            "`gpu.tma_store`: %v stands at byte 48",
        ),
        (
            "%c = gpu.buffer() {shape = [64, 64], dtype = bf16, layout = rows(0, 1), offset = 16512} "
            "%r = gpu.reuse(%c) {shape = [64, 64], dtype = bf16, layout = rows(0, 1, swizzle=(3, 4, 3))} "
            "gpu.tma_store(%x, [%m, %i], %r, [%i, %i]) {axes = [0, 1], places = [0, 1], shape = [64, 64]}",
            "`gpu.tma_store`: %r stands at byte 16512",
        ),
    ],
)
def test_what_else_a_launch_may_not_hold(before: str, expected: str) -> None:
    assert reason(program(before=before)).startswith(expected)


# Products


def made(name: str, dtype: str, value: str, shape: str, layout: object) -> str:
    return f"%{name} = tile.broadcast({value}) {{shape = [{shape}]}} : tile<{dtype}, [{shape}], register, {layout}> "


INSTRUCTION = warpgroup_instruction("m64n64k16_bf16_f32")
assert INSTRUCTION is not None
SUM = warpgroup_layouts(INSTRUCTION, (1, 1), (64, 64, 64))[1]
LEFT = SUM
"""An accumulator is laid out as what is 64 deep on the left of a product."""
START = made("acc", "f32", "%s", "64, 64", SUM)
FIELDS = "depth = 64, a_axes = [0, 1], b_axes = [0, 1], instruction = m64n64k16_bf16_f32"
PRODUCT = f"{START} %d = gpu.wgmma(%b, [%i, %i], %b, [%i, %i], %acc) {{{FIELDS}}} "
FROM_REGISTERS = f"{START} {made('a', 'bf16', '%h', '64, 64', LEFT)} " + (
    "%d = gpu.wgmma(%a, [], %b, [%i, %i], %acc, %flag) {depth = 64, b_axes = [0, 1], instruction = m64n64k16_bf16_f32}"
)
BOX = "gpu.tma_store(%x, [%m, %i], %b, [%i, %i]) {{{}}}"
GROUP = "first = 128, threads = 128"


@pytest.mark.parametrize(
    "body",
    [
        PRODUCT,
        FROM_REGISTERS,
        PRODUCT + f"%e = gpu.wgmma(%b, [%i, %i], %b, [%i, %i], %d) {{{FIELDS}}} gpu.wgmma_commit() "
        "%f = gpu.wgmma_wait([%e]) {groups = 0} %g = tile.cast(%f) {dtype = f32} : "
        f"tile<f32, [64, 64], register, {SUM}>",
        PRODUCT + f"%e = tile.for(%i, %i, %i, [%d]) : tile<f32, [64, 64], register, {SUM}> body(%n: i64, "
        f"%c: tile<f32, [64, 64], register, {SUM}>) {{ %p = gpu.wgmma(%b, [%i, %i], %b, [%i, %i], %c) {{{FIELDS}}} "
        "tile.yield([%p]) } %f = gpu.wgmma_wait([%e]) {groups = 0}",
    ],
)  # fmt: skip
def test_legal_products(body: str) -> None:
    verify(in_role(body, GROUP), Form.GPU)


def test_all_threads_of_a_launch_make_a_product() -> None:
    text = PROGRAM.replace("384", "128").replace("BEFORE", PRODUCT).replace("ROLES", "")
    verify(parse_module(text), Form.GPU)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (PRODUCT.replace("m64n64k16", "m64n64k12"), "`gpu.wgmma`: there is no instruction `m64n64k12_bf16_f32`"),
        (PRODUCT.replace("_bf16_f32", "_f16_f32"), "`gpu.wgmma`: m64n64k16_f16_f32 of bf16 and bf16 onto f32"),
        (PRODUCT.replace("depth = 64", "depth = 24"), "`gpu.wgmma`: is 24 deep"),
        (PRODUCT.replace("depth = 64", "depth = 0"), "`gpu.wgmma`: is 0 deep"),
        (PRODUCT.replace("depth = 64", "depth = 128"), "`gpu.wgmma`: %b is 64 deep, but 128 are taken"),
        (PRODUCT.replace("m64n64", "m64n128"), "`gpu.wgmma`: %acc is laid out as local(1, 8)"),
        (PRODUCT.replace("(%b, [%i, %i], %b", "(%b, [%i, %i], %plain"), "`gpu.wgmma`: %plain has rows of 64 elements"),
        (PRODUCT.replace("(%b,", "(%plain,"), "`gpu.wgmma`: %plain has rows of 64 elements in rows(0, 1), but no"),
        (
            START
            + made("a", "bf16", "%h", "64, 64", "local(1, 16) * spatial(32, 1) * local(2, 1) * spatial(1, 4)")
            + FROM_REGISTERS[FROM_REGISTERS.index("%d =") :],
            "`gpu.wgmma`: %a is laid out as",
        ),
        (PRODUCT + "%e = tile.map([%d, %d]) {fn = add} : " + f"tile<f32, [64, 64], register, {SUM}>",
         "`gpu.wgmma`: %d is in flight, but is read by `tile.map`"),
        ("gpu.wgmma_wait([]) {groups = -1}", "`gpu.wgmma_wait`: leaves -1 groups"),
    ],
)  # fmt: skip
def test_illegal_products(body: str, expected: str) -> None:
    assert reason(in_role(body, GROUP)).startswith(expected)


@pytest.mark.parametrize(
    ("op", "fields", "where"),
    [
        ("gpu.wgmma_fence()", "first = 64, threads = 128", "64 to 192"),
        ("gpu.wgmma_commit()", "first = 0, threads = 64", "0 to 64"),
        ("gpu.wgmma_wait([]) {groups = 0}", "first = 0, threads = 32", "0 to 32"),
    ],
)
def test_products_are_made_by_whole_warpgroups(op: str, fields: str, where: str) -> None:
    expected = f"`{op.split('(')[0]}`: is of the threads {where}, which are no whole warpgroups"
    assert reason(in_role(op, fields)).startswith(expected)


@pytest.mark.parametrize(
    ("acc", "shape", "fits"),
    [
        ("spatial(2, 1)", "128, 64", True),  # each block has its own 64 rows, and all columns
        ("spatial(1, 2)", "64, 128", True),
        ("replicate(2)", "64, 64", True),
        ("local(2, 1) * spatial(1, 2)", "128, 128", False),  # all 128 rows in both blocks, of 64 in the buffer
        ("replicate(2) * local(1, 2)", "64, 128", False),
    ],
)
def test_blocks_of_a_cluster_have_parts(acc: str, shape: str, fits: bool) -> None:
    body = PRODUCT.replace(START, made("acc", "f32", "%s", shape, f"{acc} * {SUM}"))
    if fits:
        verify(in_cluster(body), Form.GPU)
        return
    assert "`gpu.wgmma`: %b has 64" in reason(in_cluster(body))


def test_a_warpgroup_has_its_rows_of_the_left_operand() -> None:
    body = FROM_REGISTERS.replace("[64, 64]", "[128, 64]").replace(str(SUM), f"spatial(2, 1) * {SUM}")
    fits = body.replace(f"register, {LEFT}> %d", f"register, spatial(2, 1) * {LEFT}> %d")
    verify(in_role(fits), Form.GPU)
    other = body[: body.index("%a =")] + made("a", "bf16", "%h", "128, 64", f"replicate(2) * local(2, 1) * {LEFT}")
    problem = "`gpu.wgmma`: a warpgroup does not have the rows of %a for its part of %acc"
    assert reason(in_role(other + body[body.index("%d =") :])).startswith(problem)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("gpu.mbarrier_wait(%b, %i, %i)", "`gpu.mbarrier_wait`: `barriers` must be of `gpu.mbarriers`"),
        ("gpu.mbarrier_wait(%bar, %i, %flag)", "%flag must be an integer scalar, not bool"),
        ("gpu.role() {first = 0, threads = 32} body(%n: i64) { }", "`gpu.role`: the body takes nothing"),
        (BOX.format("axes = [0, 1], places = [0], shape = [64, 64]"), "one buffer axis per axis of the box"),
        (BOX.format("axes = [0, 0], places = [0, 1], shape = [64, 64]"), "every axis of the box runs along one axis"),
        (BOX.format("axes = [0], places = [0], shape = [64]"), "one subscript and one box axis per tensor axis"),
        (BOX.format("axes = [0, 1], places = [0, 2], shape = [64, 64]"), "an axis that the buffer does not have"),
        (BOX.format("axes = [0, 1], places = [0, 1], shape = [64, 64]").replace("%b, [%i, %i]", "%b, [%i]"),
         "one offset per axis of the buffer"),
        (BOX.format("axes = [0, 1], places = [0, 1], shape = [64, 64]").replace("%b, [%i, %i]", "%words, [%i]"),
         "the dtypes differ"),
        (PRODUCT.replace("a_axes = [0, 1], ", ""), "one offset per axis of `a`, two axes"),
        (PRODUCT.replace("b_axes = [0, 1]", "b_axes = [0, 2]"), "an axis that the buffer does not have"),
        (FROM_REGISTERS.replace("%a, []", "%a, [%i]"), "`a` is in registers: it has no offsets"),
        (FROM_REGISTERS.replace("depth = 64", "depth = 32"), "`a` in registers is [M, depth]"),
        (FROM_REGISTERS.replace("%b, [%i, %i]", "%a, []"), "`b` must be a buffer in shared memory"),
        (FROM_REGISTERS.replace("%flag", "%i"), "`accumulate` must be a bool"),
        (PRODUCT.replace("%acc)", "%bar)"), "`acc` is a matrix"),
    ],
)  # fmt: skip
def test_what_does_not_fit_its_operands(body: str, problem: str) -> None:
    with pytest.raises(TileError) as caught:
        in_role(body, GROUP)
    assert problem in caught.value.message


PARTS = """%mine = gpu.reuse(%plain) {shape = [2, 8, 32], dtype = f32, layout = LAYOUT}
%theirs = gpu.reuse(%b) {shape = [2, 4, 32], dtype = f32, layout = rows(0, 1, 2, swizzle=(3, 4, 3))}
gpu.exchange(%mine, %theirs, %bar, %i)"""


@pytest.mark.parametrize(
    ("layout", "cluster", "expected"),
    [
        ("rows(0, 1, 2)", 2, "sends to a buffer in another layout"),
        ("rows(0, 1, 2, swizzle=(3, 4, 3))", 4, "sends 2 parts in a cluster of 4"),
        ("rows(0, 1, 2, swizzle=(3, 4, 3))", 2, "sends 512 bytes of parts of 1024"),
    ],
)
def test_exchanges(layout: str, cluster: int, expected: str) -> None:
    assert expected in reason(in_cluster(PARTS.replace("LAYOUT", layout), cluster))


def test_memory_is_reused_as_far_as_it_goes() -> None:
    with pytest.raises(TileError, match="the buffer has 8192 bytes"):
        in_role("%far = gpu.reuse(%b) {shape = [64, 65], dtype = bf16, layout = rows(0, 1)}")
