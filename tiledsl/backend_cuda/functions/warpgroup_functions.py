"""Device functions of products by warpgroups.

An operand in shared memory is told by a descriptor, 64 bits; see `ir/gpu/matrix_descriptors.py`. What a product writes
to and reads from registers is in flight until it was waited for: `written_...` and `landed_...` keep the compiler from
moving other uses of these registers to where they may not be.
"""

from __future__ import annotations

from typing import Literal

from tiledsl.backend_cuda.functions.matrix_functions import words_of
from tiledsl.backend_cuda.functions.memory_functions import REGISTER_TYPES
from tiledsl.backend_cuda.functions.preamble import DeviceFunction, define
from tiledsl.backend_cuda.functions.storage import Registers
from tiledsl.ir.dtypes import DType, f16, f32, i32
from tiledsl.ir.gpu.warpgroup_instructions import WarpgroupInstruction

Onto = Literal["sum", "nothing", "either"]
"""What a product is added to: what the accumulator holds, nothing, or as a condition says."""
_ACCUMULATORS: dict[DType, tuple[str, str]] = {f32: ("float", "f"), f16: ("unsigned", "r"), i32: ("int", "r")}
"""For each accumulator: the type of its registers, and their letter in asm."""

define(
    "wgmma_fence",
    "registers that were written are seen by the products that follow",
    'void wgmma_fence() {\n    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");\n}',
    since=90,
)
define(
    "wgmma_commit",
    "makes a group of the products so far",
    'void wgmma_commit() {\n    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");\n}',
    since=90,
)
define(
    "moved_here",
    "x, as a value that the assembler does not know to be x: it is moved here. Grids have one dimension",
    "unsigned moved_here(unsigned x) {\n    return x | blockIdx.z;\n}",
    since=90,
)
define(
    "computed_first",
    "what stands before it is computed before what stands behind it: assemblers move nothing across a loop, even one"
    " that never runs. Grids have one dimension",
    """void computed_first() {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0;\\n"
                 "again: @p nanosleep.u32 32;\\n"
                 "@p bra again; }" :: "r"(blockIdx.y) : "memory");
}""",
    since=90,
)
define(
    "matrix_descriptor",
    "the descriptor of an operand that begins at an address; `fixed` is all else of it. Addresses have the number of"
    " their block in the cluster too, which is no part of it",
    """unsigned long long matrix_descriptor(unsigned address, unsigned long long fixed) {
    unsigned long long descriptor;
    unsigned low = (unsigned)fixed | (address & 0x3ffff) >> 4;
    asm("mov.b64 %0, {%1, %2};" : "=l"(descriptor) : "r"(low), "r"((unsigned)(fixed >> 32)));
    return descriptor;
}""",
)


def wgmma_wait(groups: int) -> DeviceFunction:
    """Waits until at most the last `groups` groups of products are not done."""
    name = f"wgmma_wait_but_{groups}" if groups else "wgmma_wait"
    purpose = "waits for products" + (f", but for the last {groups} groups" if groups else "")
    text = f'void {name}() {{\n    asm volatile("wgmma.wait_group.sync.aligned {groups};" ::: "memory");\n}}'
    return DeviceFunction(name, purpose, text)


def settle(registers: Registers, state: Literal["written", "landed"]) -> DeviceFunction:
    """Nothing at run time: `written`, before what follows, or not to be read before what came before (`landed`)."""
    type_, count = registers.element_type, registers.words
    kind, letter, _ = REGISTER_TYPES[type_]
    name = f"{state}_{kind}_{count}"
    purpose = "what was written to these registers is there" if state == "written" else "these registers are there now"
    operands = _in_lines([f'"+{letter}"(x[{i}])' for i in range(count)], "\n        ")
    return DeviceFunction(
        name, purpose, f'void {name}({type_}* x) {{\n    asm volatile("" : {operands} :: "memory");\n}}'
    )


def _in_lines(items: list[str], break_: str) -> str:
    """A list, with a break after each eighth."""
    return f", {break_}".join(", ".join(items[first : first + 8]) for first in range(0, len(items), 8))


def product_function(
    instruction: WarpgroupInstruction, *, onto: Onto, a_in_registers: bool, a_mn_major: bool, b_mn_major: bool
) -> DeviceFunction:
    """`mn_major`: M or N, not K, counts fastest in shared memory."""
    type_, letter = _ACCUMULATORS[instruction.accumulator]
    count = words_of(instruction.accumulator, instruction.accumulator_fragment.slots)
    a_count = words_of(instruction.a, instruction.a_fragment.slots) if a_in_registers else 0
    name = f"wgmma_{instruction.name}"
    name += "_from_registers" if a_in_registers else "_mn_major" if a_mn_major else ""
    name += "_by_mn_major" if b_mn_major else ""
    name += {"sum": "", "nothing": "_anew", "either": "_if"}[onto]
    acc = "{" + _in_lines([f"%{i}" for i in range(count)], '"\n        "') + "}"
    a_registers = ", ".join(f"%{count + i}" for i in range(a_count))
    a_operand = f"{{{a_registers}}}" if a_in_registers else f"%{count}"
    after_a = count + max(a_count, 1)
    scale = {"sum": "1", "nothing": "0", "either": "p"}[onto]
    trailing = [scale]
    if instruction.accumulator != i32:
        trailing += ["1", "1"]
    if instruction.a.bits == 16:
        trailing += [str(int(b_mn_major))] if a_in_registers else [str(int(a_mn_major)), str(int(b_mn_major))]
    call = f"{instruction.ptx} {acc}, {a_operand}, %{after_a}, {', '.join(trailing)};"
    inputs = [f'"r"({_bits(instruction.a)}(a[{i}]))' for i in range(a_count)] or ['"l"(a)']
    inputs.append('"l"(b)')
    parameters = [f"{type_}* acc", _a_parameter(instruction.a) if a_in_registers else "unsigned long long a"]
    parameters.append("unsigned long long b")
    if onto == "either":
        call = f"{{ .reg .pred p; setp.ne.b32 p, %{after_a + 1}, 0; {call} }}"
        inputs.append('"r"((int)onto)')
        parameters.append("bool onto")
    mode = "=" if onto == "nothing" else "+"
    outputs = _in_lines([f'"{mode}{letter}"(acc[{i}])' for i in range(count)], "\n          ")
    text = f"""void {name}({", ".join(parameters)}) {{
    asm volatile("{call}"
        : {outputs}
        : {", ".join(inputs)});
}}"""
    purpose = {"sum": "acc += a b", "nothing": "acc = a b", "either": "acc = a b, added to acc where `onto`"}[onto]
    shape = f"{instruction.m} x {instruction.n} x {instruction.k}"
    return DeviceFunction(name, f"{purpose}: {shape}, by a warpgroup, in flight", text)


def _bits(dtype: DType) -> str:
    """What makes a register of A of the 32 bits that the instruction takes."""
    return "round_to_tf32" if dtype == f32 else ""


def _a_parameter(dtype: DType) -> str:
    return f"const {'float' if dtype == f32 else 'unsigned'}* a"
