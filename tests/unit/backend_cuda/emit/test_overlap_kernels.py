"""Where kernels of a program wait for those before them, and where they do not need to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.gpu_code.sass import disassemble
from tiledsl.backend_cuda.build.nvrtc import compile_cubin
from tiledsl.backend_cuda.emit.emit_program import emit_program
from tiledsl.backend_cuda.frame.kernel_code import CudaSource
from tiledsl.ir.text.parser import parse_module

TOTAL = Path(__file__).parents[3] / "golden" / "cuda" / "total.tir"
MARKS = ("LDG", "BAR", "ACQBULK", "REDG")
WAIT, RELEASE = "wait_for_earlier();", "let_next_begin();"


def program(*ops: str, capability: int = 90, chained: bool = False) -> CudaSource:
    """A function of two parameters and one new tensor that is not filled."""
    body = "\n".join(ops)
    return emit_program(
        parse_module(f"""
func @f(%x: tensor<f32, [M], unit=0>, %y: tensor<f32, [M], unit=0>, %n: i64) {{
  %M = tile.size() {{value = M}}
  %nought = tile.constant() {{value = 0, dtype = i64}}
  %half = tile.constant() {{value = 0.5, dtype = f32}}
  %z = tile.empty() {{shape = [M], dtype = f32}}
{body}
  tile.return([])
}}
"""),
        capability,
        chained=chained,
    )


def grid(*ops: str, stop: str = "M") -> str:
    body = "\n".join(ops)
    return f"gpu.launch([%{stop}]) {{blocks = [32], threads = 32}} body(%m: i64) {{\n{body}\n}}"


def load(tensor: str) -> str:
    return f"%of_{tensor} = gpu.load(%{tensor}, [%m], []) {{axes = [0], shape = [32], layout = spatial(32)}}"


def store(tensor: str, value: str) -> str:
    return f"gpu.store(%{tensor}, [%m], %{value}, []) {{axes = [0]}}"


def copy(source: str, target: str) -> str:
    return grid(load(source), store(target, f"of_{source}"))


FILL = "%w = tile.empty(%half) {shape = [M], dtype = f32}"
SCALAR_STORE = "gpu.store(%y, [%nought], %half, []) {axes = [-1]}"


def bodies(source: CudaSource) -> list[list[str]]:
    """The lines of each kernel, without comments."""
    kernels = re.split(r'^extern "C"', source.text, flags=re.MULTILINE)[1:]
    return [
        [line.strip() for line in kernel.splitlines()[1:] if line.strip() and not line.strip().startswith("//")]
        for kernel in kernels
    ]


def place(lines: list[str], part: str) -> int:
    return next(number for number, line in enumerate(lines) if part in line)


def test_inputs_are_loaded_before_the_wait() -> None:
    both = "%both = tile.map([%of_x, %of_w]) {fn = add} : tile<f32, [32], register, spatial(32)>"
    source = program(FILL, grid(load("x"), load("w"), both, store("w", "both")))
    fill, lines = bodies(source)
    assert [kernel.overlaps for kernel in source.kernels] == [False, True]
    assert fill[0] == RELEASE
    assert WAIT not in fill
    assert lines.count(WAIT) == 1
    assert place(lines, "read_float(of_x") < lines.index(WAIT) < place(lines, "load_float(of_w")
    assert RELEASE not in lines
    code = disassemble(compile_cubin(source.text, "sm_90", "f"))
    assert "PREEXIT" in code["f"].counts
    after = code["f_1"].opcodes[code["f_1"].opcodes.index("ACQBULK") :]
    assert {"LDG.E", "STG.E"} <= set(after)  # the assembler does not move these, unlike the load of `x`


def test_a_sum_is_ready_when_it_waits() -> None:
    source = emit_program(parse_module(TOTAL.read_text(encoding="utf-8")), 90)
    code = disassemble(compile_cubin(source.text, "sm_90", "total"))
    order = [name for name in (opcode.partition(".")[0] for opcode in code["total_1"].opcodes) if name in MARKS]
    assert order == ["LDG", "BAR", "ACQBULK", "REDG"]


@pytest.mark.parametrize("touched", ["x", "y"])
def test_what_was_read_is_not_written_too_early(touched: str) -> None:
    """The second grid overwrites what the first one reads or writes."""
    _, lines = bodies(program(copy("x", "y"), grid(load("z"), store(touched, "of_z"))))
    assert place(lines, "read_float(of_z") < lines.index(WAIT) < place(lines, "store_float")


def test_all_earlier_kernels_count() -> None:
    _, _, lines = bodies(program(copy("x", "z"), copy("x", "y"), copy("z", "x")))
    assert lines.index(WAIT) < place(lines, "load_float(of_z")  # not through the cache of what never changes


def test_a_kernel_that_needs_nothing_waits_at_its_end() -> None:
    """So that the end of the last kernel is the end of all."""
    source = program(copy("x", "z"), copy("x", "y"), FILL)
    _, second, fill = bodies(source)
    assert second[-2:] == [WAIT, "}"]
    assert fill[-2:] == [WAIT, "}"]
    assert all(kernel.overlaps for kernel in source.kernels[1:])


def test_the_wait_is_outside_of_loops() -> None:
    loop = f"""
    tile.for(%nought, %M, %M, []) body(%i: i64) {{
      {load("x")}
      {load("z")}
      {store("z", "of_z")}
      tile.yield([])
    }}"""
    _, lines = bodies(program(copy("x", "z"), grid(loop)))
    assert lines.index(WAIT) < place(lines, "for (long long i")
    _, lines = bodies(program(copy("x", "z"), grid(load("x"), load("z"), stop="n")))
    assert lines.index(WAIT) < place(lines, "for (unsigned program")


@pytest.mark.parametrize("read", ["x", "z"])
def test_scalars_of_the_function_wait_where_they_are_computed(read: str) -> None:
    """They are computed at the start of the kernel, even if they are used after the wait."""
    level = f"%first = gpu.load(%{read}, [%nought], []) {{axes = [-1], shape = []}}"
    used = """%v = tile.broadcast(%first) {shape = [32]} : tile<f32, [32], register, spatial(32)>"""
    _, lines = bodies(program(copy("x", "z"), level, grid(load("z"), used, store("z", "v"))))
    at = place(lines, f"_float(&first_, {read}_)")
    if read == "z":
        assert WAIT in lines[:at]
    else:
        assert WAIT not in lines[:at]
    assert WAIT in lines[: place(lines, "load_float(of_z")]


def test_what_the_function_reads_in_each_kernel_is_not_overwritten() -> None:
    level = "%first = gpu.load(%x, [%nought], []) {axes = [-1], shape = []}"
    used = """%v = tile.broadcast(%first) {shape = [32]} : tile<f32, [32], register, spatial(32)>"""
    _, lines = bodies(program(level, grid(used, store("y", "v")), grid(load("z"), store("x", "of_z"))))
    assert lines.index(WAIT) < place(lines, "store_float")


def test_small_kernels_let_the_next_one_begin() -> None:
    source = program(copy("x", "z"), SCALAR_STORE, copy("x", "y"))
    first, small, last = bodies(source)
    assert RELEASE not in first  # the next would take room from its programs
    assert small[0] == RELEASE
    assert WAIT in small
    assert RELEASE not in last


@pytest.mark.parametrize("effect", ['tile.print([%half]) {text = "half"}', "tile.assert(%yes) {text = 'yes'}"])
def test_what_people_see_stays_in_order(effect: str) -> None:
    yes = "%yes = tile.map([%half, %half]) {fn = eq}"
    source = program(FILL, yes, effect.replace("'", '"'), copy("w", "y"))
    assert [kernel.overlaps for kernel in source.kernels] == [False, False, True]
    fill, seen, lines = bodies(source)
    assert RELEASE not in [*fill, *seen]
    assert WAIT not in seen
    assert place(lines, "read_float(of_w") < lines.index(WAIT)  # the fill was done before the second began


def test_older_devices_have_nothing_of_it() -> None:
    source = program(FILL, copy("x", "w"), capability=80)
    assert WAIT not in source.text
    assert RELEASE not in source.text
    assert not any(kernel.overlaps for kernel in source.kernels)
    compile_cubin(source.text, "sm_80", "f")


def roles(*ops: str) -> str:
    """A launch in which one role does all of that."""
    body = "\n".join(ops)
    role = f"gpu.role() {{first = 0, threads = 32}} body() {{\n{body}\n}}"
    barriers = "%ready = gpu.mbarriers() {count = 1, arrivals = 1, offset = 0}\ngpu.barrier()"
    arrive = "gpu.mbarrier_arrive(%ready, %nought) {by = role}"
    role = role.replace("body() {", f"body() {{\n{arrive}")
    return (
        f"gpu.launch([%M]) {{blocks = [32], threads = 64, shared_bytes = 8}} body(%m: i64) {{\n{barriers}\n{role}\n}}"
    )


def test_a_first_kernel_with_roles_waits_before_them() -> None:
    """Whatever stands on the stream before it may still be working on its tensors."""
    source = program(roles(load("x"), store("y", "of_x")), copy("y", "x"))
    assert [(kernel.overlaps, kernel.waits_first) for kernel in source.kernels] == [(True, True), (True, False)]
    first, second = bodies(source)
    assert first.count(WAIT) == 1
    assert (
        place(first, "begin_mbarriers") < place(first, "__syncthreads") < first.index(WAIT) < place(first, "if (warp")
    )
    assert place(first, "load_float(of_x") > first.index(WAIT)  # not through the cache of what never changes
    assert RELEASE not in first
    assert second.index(WAIT) < place(second, "load_float(of_y")
    assert "ACQBULK" in disassemble(compile_cubin(source.text, "sm_90", "f"))["f"].opcodes


def test_a_first_kernel_that_is_seen_comes_after_all_others() -> None:
    source = program(roles(load("x"), store("y", "of_x"), 'tile.print([%half]) {text = "half"}'))
    assert [(kernel.overlaps, kernel.waits_first) for kernel in source.kernels] == [(False, False)]
    assert WAIT not in source.text


def test_in_a_chain_a_program_waits_before_it_touches_a_tensor_and_lets_the_next_one_begin() -> None:
    source = program(copy("x", "y"), chained=True)
    assert [(kernel.overlaps, kernel.waits_first) for kernel in source.kernels] == [(True, True)]
    (body,) = bodies(source)
    assert body.count(WAIT) == body.count(RELEASE) == 1
    assert body.index(RELEASE) < body.index(WAIT) < place(body, "load_float(of_x")


def test_in_a_chain_the_next_kernel_of_a_program_begins_when_programs_before_are_done() -> None:
    """It waits before it loads what they wrote, too: only who has waited is promised to see it."""
    both = "%both = tile.map([%of_x, %of_z]) {fn = add} : tile<f32, [32], register, spatial(32)>"
    source = program(copy("x", "z"), grid(load("x"), load("z"), both, store("y", "both")), chained=True)
    assert [(kernel.overlaps, kernel.waits_first) for kernel in source.kernels] == [(True, True), (True, False)]
    first, second = bodies(source)
    assert first.count(WAIT) == first.count(RELEASE) == 1
    assert first.index(WAIT) < first.index(RELEASE) < place(first, "load_float(of_x")
    assert second.index(RELEASE) < second.index(WAIT) < place(second, "load_float(of_x")
    assert second.index(WAIT) < place(second, "load_float(of_z")


def test_in_a_chain_a_kernel_with_roles_lets_no_other_of_its_program_begin() -> None:
    first, second = bodies(program(roles(load("x"), store("z", "of_x")), copy("z", "y"), chained=True))
    assert RELEASE not in first
    assert second.index(RELEASE) < second.index(WAIT)
    (alone,) = bodies(program(roles(load("x"), store("y", "of_x")), chained=True))
    assert alone.index(RELEASE) < alone.index(WAIT)


def test_in_a_chain_what_is_seen_comes_after_all_others() -> None:
    seen = grid(load("x"), store("y", "of_x"), 'tile.print([%half]) {text = "half"}')
    source = program(seen, copy("y", "z"), chained=True)
    assert not source.kernels[0].overlaps
    assert RELEASE not in bodies(source)[0]


def test_before_sm_90_a_chain_is_nothing() -> None:
    source = program(copy("x", "y"), capability=80, chained=True)
    assert WAIT not in source.text
    assert RELEASE not in source.text
