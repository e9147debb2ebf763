"""What the GPU form demands, and the reason that is given for each thing that does not hold."""

from __future__ import annotations

import pytest

from tests.support.every_op import TILE
from tests.support.gpu_code.every_gpu_op import GPU
from tiledsl.ir.core import Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.verifier import Form, verify
from tiledsl.support.errors import TileError

PROGRAM = """func @f(%x: tensor<f32, [M], unit=0>, %s: f32, %i: i64, %flag: bool, %half: bf16) {
  %M = tile.size() {value = M}
  OUTSIDE
  gpu.launch([%M]) {blocks = [64], threads = 64, shared_bytes = 1024} body(%m: i64) {
    %t = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], register, spatial(64)>
    %u = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], register, spatial(32) * replicate(2) * local(2)>
    %b = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 0}
    INSIDE
  }
  tile.return([])
}"""
ROW = "tile<f32, [64], register, spatial(64)>"
PAIRS = "tile<f32, [64], register, spatial(32) * replicate(2) * local(2)>"
SQUARE = "tile<f32, [16, 8], register, spatial(8, 4) * replicate(2) * local(2, 2)>"


def program(inside: str = "", outside: str = "") -> Module:
    return parse_module(PROGRAM.replace("INSIDE", inside).replace("OUTSIDE", outside))


def reason(module: Module) -> str:
    """Why the module is rejected."""
    with pytest.raises(TileError) as caught:
        verify(module, Form.GPU)
    error = caught.value
    assert error.code in ("ir-invalid", "ir-layouts")
    assert error.fix
    prefix = "not legal in form `gpu`: "
    assert error.message.startswith(prefix)
    return error.message[len(prefix) :]


def test_the_examples_are_legal() -> None:
    verify(parse_module(GPU), Form.GPU)
    verify(program(), Form.GPU)
    verify(Module([]), Form.GPU)


def test_a_tile_module_is_none_of_gpu_form() -> None:
    assert "is no op of GPU form" in reason(parse_module(TILE))
    with pytest.raises(TileError, match="is no op of the TILE vocabulary"):
        verify(program(), Form.TILE)


LEGAL = [
    f"%v = tile.map([%t, %s]) {{fn = add}} : {ROW}",
    "%r = gpu.reduce([%t], %b) {axes = [0], fn = add}",
    "%c = gpu.read(%b, [%i]) {places = [], shape = []}",
    "%w = gpu.load(%x, [%i], []) {axes = [-1], shape = []}",
    f"%q = tile.broadcast(%s) {{shape = [16, 8]}} : {SQUARE} "
    "%r = gpu.reduce([%q]) {axes = [1], fn = add, keepdims = true} "
    f"%back = tile.broadcast(%r) {{shape = [16, 8]}} : {SQUARE} "
    "%flat = tile.reshape(%r) {shape = [16]} : tile<f32, [16], register, spatial(8) * replicate(8) * local(2)> "
    "%turned = tile.transpose(%q) {permutation = [1, 0]} : "
    "tile<f32, [8, 16], register, spatial(1, 8) * spatial(4, 1) * replicate(2) * local(1, 2) * local(2, 1)>",
    "%one = tile.reshape(%s) {shape = [1]} : tile<f32, [1], register, replicate(64) * local(1)> "
    "%again = tile.reshape(%one) {shape = []} : f32",
    "%w = tile.while([%i]) condition(%a: i64) { %r = gpu.reduce([%t], %b) {axes = [0], fn = max} "
    "%go = tile.map([%r, %s]) {fn = lt} tile.yield([%go]) } body(%a: i64) { tile.yield([%a]) }",
]


@pytest.mark.parametrize("inside", LEGAL)
def test_what_is_legal(inside: str) -> None:
    verify(program(inside), Form.GPU)


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        # vocabulary and places
        ("%r = tile.reduce([%t]) {axes = [0], fn = add} : f32", "`tile.reduce`: is no op of GPU form"),
        ("gpu.launch([]) {blocks = [], threads = 32} body() { }", "`gpu.launch`: stands inside of another op"),
        ("%n = tile.empty() {shape = [4], dtype = f32}", "`tile.empty`: makes a tensor inside of a launch"),
        # types
        ("%v = tile.cast(%t) {dtype = f16}", "`tile.cast`: %v has no level"),
        ("%v = tile.cast(%t) {dtype = f16} : tile<f16, [64], register>", "`tile.cast`: %v has no layout of registers"),
        (
            "%v = tile.cast(%t) {dtype = f16} : tile<f16, [64], shared, spatial(64)>",
            "`tile.cast`: %v has no layout of shared memory",
        ),
        (
            "%v = tile.broadcast(%s) {shape = [64]} : tile<f32, [64], shared, rows(0, 1)>",
            "`tile.broadcast`: %v has the rank 1, but its layout orders 2 axes",
        ),
        (
            "%v = tile.broadcast(%s) {shape = [M]} : tile<f32, [M], register, spatial(64)>",
            "`tile.broadcast`: %v has the shape [M], which is not known",
        ),
        (
            "%v = tile.cast(%t) {dtype = f16} : tile<f16, [64], register, spatial(32) * local(4)>",
            "`tile.cast`: %v has the shape [64], but its layout places [128]",
        ),
        (
            "%v = tile.cast(%t) {dtype = f16} : tile<f16, [64], register, spatial(32) * local(2)>",
            "`tile.cast`: %v is laid out for 32 threads, but its launch has 64",
        ),
        ("%v = tile.cast(%s) {dtype = f16} : tile<f16, [], register>", "`tile.cast`: the scalar %v has a level or a"),
        (
            "%v = tile.for(%i, %i, %i, [%t]) : tile<f32, [64], register, spatial(64)> "
            "body(%n: i64, %c: tile<f32, [64]>) { tile.yield([%c]) }",
            "`tile.for`: %c has no level",
        ),
        # tile ops
        (f"%v = tile.map([%t, %u]) {{fn = add}} : {ROW}", "`tile.map`: %t is laid out as spatial(64), but %u as spat"),
        (f"%v = tile.map([%t, %t]) {{fn = add}} : {PAIRS}", "`tile.map`: %t is laid out as spatial(64), but %v as"),
        (f"%v = tile.cast(%t) {{dtype = f32}} : {PAIRS}", "`tile.cast`: %t is laid out as spatial(64), but %v as"),
        (f"%v = tile.cast(%b) {{dtype = f32}} : {ROW}", "`tile.cast`: %b is in shared memory"),
        (
            "%v = tile.broadcast(%t) {shape = [2, 64]} : tile<f32, [2, 64], register, spatial(2, 32) * local(1, 2)>",
            "`tile.broadcast`: %t is laid out as spatial(64), but %v as spatial(2, 32) * local(1, 2)",
        ),
        (
            "%v = tile.reshape(%t) {shape = [8, 8]} : tile<f32, [8, 8], register, spatial(8, 8)>",
            "`tile.reshape`: reshapes more than axes of size 1",
        ),
        (
            "%v = tile.reshape(%t) {shape = [64, 1]} : tile<f32, [64, 1], register, spatial(32, 1) * replicate(2) * "
            "local(2, 1)>",
            "`tile.reshape`: %t is laid out as spatial(64), but %v as",
        ),
        (
            f"%q = tile.broadcast(%s) {{shape = [16, 8]}} : {SQUARE} "
            "%v = tile.transpose(%q) {permutation = [1, 0]} : "
            "tile<f32, [8, 16], register, spatial(4, 8) * replicate(2) * local(2, 2)>",
            "`tile.transpose`: %v is laid out as spatial(4, 8)",
        ),
        (
            f"%v = tile.for(%i, %i, %i, [%t]) : {ROW} body(%n: i64, %c: {PAIRS}) {{ tile.yield([%c]) }}",
            "`tile.for`: %t is tile<f32, [64], register, spatial(64)>, but %c, which takes its place, tile<f32, [64], "
            "register, spatial(32)",
        ),
        (
            f"%v = tile.for(%i, %i, %i, [%t]) : {ROW} body(%n: i64, %c: {ROW}) {{ tile.yield([%u]) }}",
            "`tile.for`: %t is tile<f32, [64], register, spatial(64)>, but %u, which takes",
        ),
        (
            f"%v = tile.if(%flag) : {ROW} then() {{ tile.yield([%t]) }} otherwise() {{ tile.yield([%u]) }}",
            "`tile.if`: %t is tile<f32, [64], register, spatial(64)>, but %u, which takes",
        ),
        (
            f"%v = tile.while([%t]) : {ROW} condition(%p: {PAIRS}) {{ tile.yield([%flag]) }} "
            f"body(%c: {ROW}) {{ tile.yield([%c]) }}",
            "`tile.while`: %t is tile<f32, [64], register, spatial(64)>, but %p, which takes",
        ),
        # memory
        (
            "%v = gpu.load(%x, [%m], []) {axes = [0], shape = [64], layout = spatial(64)} : tile<f32, [64], register, "
            "spatial(32) * replicate(2) * local(2)>",
            "`gpu.load`: %v is tile<f32, [64], register, spatial(32) * replicate(2) * local(2)>, but the op gives",
        ),
        (
            "%v = gpu.load(%x, [%m], []) {axes = [0], vector = 2, shape = [64], layout = spatial(64)}",
            "`gpu.load`: takes 2 elements at once, but a thread has 1 neighbours in consecutive slots",
        ),
        (
            "%v = gpu.load(%x, [%m], []) {axes = [0], vector = 8, shape = [512], layout = spatial(64) * local(8)}",
            "`gpu.load`: takes 32 bytes at once",
        ),
        (
            "%v = gpu.load(%x, [%m], []) {axes = [0], vector = 3, shape = [192], layout = spatial(64) * local(3)}",
            "`gpu.load`: takes 12 bytes at once",
        ),
        (
            "gpu.copy(%x, [%m], [], %b, [%i]) {axes = [0], places = [0], vector = 1, shape = [32], "
            "layout = spatial(32)}",
            "`gpu.copy`: copies by 32 threads of 64",
        ),
        (
            "gpu.copy(%x, [%m], [], %b, [%i]) {axes = [0], places = [0], vector = 1, shape = [64], "
            "layout = spatial(32)}",
            "`gpu.copy`: copies [64] by the layout spatial(32)",
        ),
        (
            "gpu.copy(%x, [%m], [], %b, [%i]) {axes = [0], places = [0], vector = 8, shape = [512], "
            "layout = spatial(64) * local(8)}",
            "`gpu.copy`: copies 32 bytes at a time",
        ),
        (
            "%j = gpu.arange() {layout = spatial(64)} %v = gpu.load(%x, [%j], []) {axes = [-1], shape = [64], "
            "layout = spatial(32) * replicate(2) * local(2)}",
            "`gpu.load`: the subscript %j is laid out as spatial(64)",
        ),
        ("gpu.store(%x, [%m], %b, []) {axes = [0]}", "`gpu.store`: %b is in shared memory"),
        ("gpu.write(%b, %b, [%i]) {places = [0]}", "`gpu.write`: %b is in shared memory"),
        ("gpu.write(%b, %t, [%i]) {places = [0], vector = 2}", "`gpu.write`: takes 2 elements at once"),
        ("gpu.write(%b, %t, [%i]) {places = [0], block = 1}", "`gpu.write`: writes to block 1 of 1"),
        (
            "%o = tile.constant() {value = 1, dtype = f32} gpu.write(%b, %o, [%i]) {places = [], block = 0}",
            "`gpu.write`: writes a scalar or matrices to another block",
        ),
        (
            "%c = gpu.buffer() {shape = [32, 4], dtype = f32, layout = rows(0, 1, padding=1)} "
            "%v = gpu.read(%c, [%i, %i]) {places = [0, 1], vector = 4, shape = [32, 4], "
            "layout = replicate(2) * spatial(32, 1) * local(1, 4)}",
            "`gpu.read`: takes 4 elements at once, of which 1 are side by side and aligned in tile<f32, [32, 4], sha",
        ),
        (
            "%c = gpu.buffer() {shape = [8, 32], dtype = f32, layout = rows(0, 1)} "
            "%v = gpu.read(%c, [%i, %i]) {places = [0, 1], method = matrix, shape = [8, 32], "
            "layout = replicate(2) * spatial(8, 4) * local(1, 8)}",
            "`gpu.read`: lanes do not hold rows of 16 bytes of tile<f32, [8, 32], shared, rows(0, 1)> in",
        ),
        ("%v = gpu.atomic(%x, [%i], %s, []) {axes = [-1], fn = add}", "`gpu.atomic`: combines a scalar"),
        (
            "%c = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0)} gpu.combine(%c, %i, %s) {fn = add}",
            "`gpu.combine`: combines a scalar",
        ),
        (
            "%c = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 8}",
            "`gpu.buffer`: stands at byte 8",
        ),
        (
            "%c = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0), offset = 784}",
            "`gpu.buffer`: ends at byte 1040 of the 1024 that the launch has",
        ),
        (
            "%c = gpu.buffer() {shape = [64], dtype = f64, layout = rows(0, swizzle=(1, 2, 3))}",
            "`gpu.buffer`: cuts elements of 8 bytes by its swizzle",
        ),
        (
            "%c = gpu.buffer() {shape = [64], dtype = f32, layout = rows(0, padding=8)} "
            "%v = gpu.view(%c) {shape = [8, 8], layout = rows(0, 1)}",
            "`gpu.view`: views a buffer that is padded, swizzled or cut",
        ),
        (
            "%c = gpu.buffer() {shape = [8, 64], dtype = f32, layout = rows(0, 1, panel=32)} "
            "%v = gpu.view(%c) {shape = [512], layout = rows(0)}",
            "`gpu.view`: views a buffer that is padded, swizzled or cut",
        ),
        (
            "%c = gpu.buffer() {shape = [8, 64], dtype = f32, layout = rows(0, 1, panel=48)}",
            "`gpu.buffer`: cuts 64 elements into panels of 48",
        ),
        ("gpu.wait() {groups = -1}", "`gpu.wait`: leaves -1 groups"),
        # folds and products
        ("%r = gpu.reduce([%t]) {axes = [0], fn = add}", "`gpu.reduce`: crosses warps without a buffer"),
        ("%r = gpu.scan([%t]) {axis = 0, fn = add}", "`gpu.scan`: crosses warps without a buffer"),
        ("%r = gpu.reduce([%t], %t) {axes = [0], fn = add}", "`gpu.reduce`: %t is no buffer"),
        (
            "%r, %q = gpu.reduce([%t, %u], %b) {axes = [0], fn = custom} combiner(%a: f32, %c: f32, %d: f32, %e: f32) "
            "{ tile.yield([%a, %c]) }",
            "`gpu.reduce`: %t is laid out as spatial(64), but %u as",
        ),
        (
            "%r = gpu.reduce([%t], %b) {axes = [0], fn = custom} combiner(%a: f32, %c: f32) { tile.yield([%i]) }",
            "`gpu.reduce`: the body `combiner` yields i64, but f32 is expected",
        ),
        ("MMA {instruction = m16n8k4}", "`gpu.mma`: there is no instruction `m16n8k4`"),
        ("MMA {instruction = m16n8k16_f16_f32}", "`gpu.mma`: m16n8k16_f16_f32 of bf16 and bf16 onto f32"),
        ("TURNED {instruction = m16n8k16_bf16_f32}", "`gpu.mma`: %b8 is laid out as"),
        ("APART {instruction = m16n8k16_bf16_f32}", "`gpu.mma`: a warp does not have the rows of %a32 and columns of"),
    ],
)
def test_what_a_launch_may_not_hold(inside: str, expected: str) -> None:
    assert reason(program(with_operands(inside))).startswith(expected)


ACC = "local(2, 1) * spatial(8, 4) * local(1, 2)"
A = "local(1, 2) * local(2, 1) * spatial(8, 4) * local(1, 2)"
B = "local(2, 1) * spatial(1, 8) * spatial(4, 1) * local(2, 1)"


def with_operands(text: str) -> str:
    """Products by two warps, each on 16 rows: right but for the instruction, with B not for it, with rows elsewhere."""
    layouts = {
        "MMA": (f"spatial(2, 1) * {A}", f"replicate(2) * {B}", f"spatial(2, 1) * {ACC}"),
        "TURNED": (f"spatial(2, 1) * {A}", "replicate(2) * local(4, 1) * spatial(4, 8)", f"spatial(2, 1) * {ACC}"),
        "APART": (f"replicate(2) * local(2, 1) * {A}", f"replicate(2) * {B}", f"spatial(2, 1) * {ACC}"),
    }
    for word, (a, b, acc) in layouts.items():
        if text.startswith(word):
            operands = [("a32", "half", "32, 16", a), ("b8", "half", "16, 8", b), ("c", "s", "32, 8", acc)]
            made = [
                f"%{name} = tile.broadcast(%{of}) {{shape = [{shape}]}} : "
                f"tile<{'bf16' if of == 'half' else 'f32'}, [{shape}], register, {layout}>"
                for name, of, shape, layout in operands
            ]
            return " ".join(made) + text.replace(word, " %d = gpu.mma(%a32, %b8, %c)")
    return text


def test_a_product_by_two_warps_is_legal() -> None:
    verify(program(with_operands("MMA {instruction = m16n8k16_bf16_f32}")), Form.GPU)


@pytest.mark.parametrize(
    ("outside", "expected"),
    [
        ("gpu.barrier()", "`gpu.barrier`: stands outside of a launch"),
        (
            f"%o = tile.broadcast(%s) {{shape = [64]}} : {ROW}",
            "`tile.broadcast`: makes the tile %o outside of a launch",
        ),
        (
            "tile.for(%i, %i, %i, []) body(%n: i64) { gpu.launch([]) {blocks = [], threads = 32} body() { } }",
            "`gpu.launch`: stands inside of another op",
        ),
        ("gpu.launch([]) {blocks = [], threads = 48} body() { }", "`gpu.launch`: has 48 threads"),
        ("gpu.launch([]) {blocks = [], threads = 2048} body() { }", "`gpu.launch`: has 2048 threads"),
        ("gpu.launch([]) {blocks = [], threads = 32, cluster = 32} body() { }", "`gpu.launch`: has clusters of 32"),
        ("gpu.launch([]) {blocks = [], threads = 32, raster = 0} body() { }", "`gpu.launch`: walks 0 rows together"),
        (
            "gpu.launch([]) {blocks = [], threads = 32, resident = 0} body() { }",
            "`gpu.launch`: shares a multiprocessor among 0 blocks",
        ),
        ("gpu.launch([%M]) {blocks = [0], threads = 32} body(%n: i64) { }", "`gpu.launch`: has the blocks [0]"),
        ("gpu.launch([%M]) {blocks = [8], threads = 32} body(%n: i64) { tile.yield([%n]) }", "`gpu.launch`: the body"),
    ],
)
def test_what_a_function_may_not_hold(outside: str, expected: str) -> None:
    assert reason(program(outside=outside)).startswith(expected)
