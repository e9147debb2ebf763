"""Device functions of matrices: reads and writes of fragments, asynchronous copies, and products.

Addresses in shared memory are 32-bit numbers (see `shared_address`). A fragment is an array of registers in the order
that the instruction takes them in.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define
from tiledsl.ir.dtypes import DType, f16, f32, f64, i32
from tiledsl.ir.gpu.matrix_instructions import INSTRUCTIONS, MatrixInstruction, single_of

COPIES: dict[str, tuple[int, str]] = {
    "16": (16, "cp.async.cg.shared.global.L2::128B"),
    "16_alone": (16, "cp.async.cg.shared.global"),
    "8": (8, "cp.async.ca.shared.global"),
    "4": (4, "cp.async.ca.shared.global"),
}
"""How many bytes are copied, and by which instruction; `alone`: without the rest of their line."""

for _name, (_bytes, _instruction) in COPIES.items():
    define(
        f"copy_{_name}",
        f"begins to copy {_bytes} bytes from global to shared memory",
        f"""void copy_{_name}(unsigned to, const void* from) {{
    asm volatile("{_instruction} [%0], [%1], {_bytes};" :: "r"(to), "l"(from) : "memory");
}}""",
    )
    define(
        f"copy_{_name}_if",
        f"begins to copy {_bytes} bytes from global to shared memory, or zeros where they are not inside",
        f"""void copy_{_name}_if(unsigned to, const void* from, bool inside) {{
    const int bytes = inside ? {_bytes} : 0;
    asm volatile("{_instruction} [%0], [%1], {_bytes}, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}}""",
    )
define("commit_copies", "makes a group of the copies so far", 'void commit_copies() {\n    asm volatile("cp.async.commit_group;" ::: "memory");\n}')  # fmt: skip # noqa: E501


def wait_function(groups: int) -> str:
    """The name of the function that waits until at most `groups` groups are not done."""
    return f"wait_for_copies_but_{groups}" if groups else "wait_for_copies"


for _groups in range(16):
    define(
        wait_function(_groups),
        "waits for this thread's copies" + (f", but for the last {_groups} groups" if _groups else ""),
        f'void {wait_function(_groups)}() {{\n    asm volatile("cp.async.wait_group {_groups};" ::: "memory");\n}}',
    )

for _count in (1, 2, 4):
    for _suffix, _transposed in (("", ""), ("_transposed", ".trans")):
        _outputs = ", ".join(f"%{i}" for i in range(_count))
        define(
            f"read_matrices_{_count}{_suffix}",
            f"{_count} 8 x 8 matrices of 16 bits; lane 8i + r gives the address of row r of matrix i",
            f"""void read_matrices_{_count}{_suffix}(unsigned* to, unsigned row) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{_count}{_transposed}.shared.b16 {{{_outputs}}}, [%{_count}];"
                 : {", ".join(f'"=r"(to[{i}])' for i in range(_count))} : "r"(row) : "memory");
}}""",
        )
        _inputs = ", ".join(f"%{i + 1}" for i in range(_count))
        define(
            f"write_matrices_{_count}{_suffix}",
            f"{_count} 8 x 8 matrices of 16 bits; lane 8i + r gives the address of row r of matrix i",
            f"""void write_matrices_{_count}{_suffix}(unsigned row, const unsigned* from) {{
    asm volatile("stmatrix.sync.aligned.m8n8.x{_count}{_transposed}.shared.b16 [%0], {{{_inputs}}};"
                 :: "r"(row), {", ".join(f'"r"(from[{i}])' for i in range(_count))} : "memory");
}}""",
            since=90,
        )

_LETTERS: dict[DType, tuple[str, str]] = {f32: ("float", "f"), f16: ("unsigned", "r"), i32: ("int", "r"), f64: ("double", "d")}  # fmt: skip # noqa: E501
"""For each accumulator: the type of its registers, and their letter in asm."""


def product_function(instruction: MatrixInstruction) -> str:
    """The name of the function of a matrix instruction."""
    return f"mma_{instruction.name}"


def words_of(dtype: DType, slots: int) -> int:
    """How many registers of the C text a fragment of so many elements takes."""
    return slots if dtype.bits >= 32 else slots * dtype.bits // 32


def _define_products_of_runs(instruction: MatrixInstruction) -> None:
    """One instruction after the other, of the next words of each row and of each column."""
    a, b, accumulator = instruction.a, instruction.b, instruction.accumulator
    assert a is not None
    assert b is not None
    assert accumulator is not None
    single = single_of(instruction)
    computed, read = ("b", "a") if instruction.turned else ("a", "b")
    words = words_of(b, single.b_fragment.slots)
    row = words * instruction.parts
    operand = "float" if a == f32 else "unsigned"
    type_, _ = _LETTERS[accumulator]
    lines: list[str] = []
    for first in range(0, row, words):
        taken = ", ".join(f"{computed}[{first + word}], {computed}[{first + word + row}]" for word in range(words))
        call = f"{product_function(single)}(acc, words, {read} + {first});"
        lines.append(f"    {{ const {operand} words[] = {{{taken}}}; {call} }}")
    define(
        product_function(instruction),
        f"acc += a b: {instruction.m} x {instruction.n} x {instruction.k}, by a warp whose lanes have runs along K",
        f"void {product_function(instruction)}({type_}* acc, const {operand}* a, const {operand}* b) {{\n"
        + "\n".join(lines)
        + "\n}",
        since=instruction.capability,
    )


def _define_product(instruction: MatrixInstruction) -> None:
    a, b, accumulator = instruction.a, instruction.b, instruction.accumulator
    assert a is not None
    assert b is not None
    assert accumulator is not None
    counts = (
        words_of(accumulator, instruction.accumulator_fragment.slots),
        words_of(a, instruction.a_fragment.slots),
        words_of(b, instruction.b_fragment.slots),
    )
    type_, letter = _LETTERS[accumulator]
    operand, operand_letter = {32: ("float", "r"), 64: ("double", "d")}.get(a.bits, ("unsigned", "r"))
    first = [0, counts[0], counts[0] + counts[1]]
    lists = ["{" + ", ".join(f"%{start + i}" for i in range(n)) + "}" for start, n in zip(first, counts)]
    value = "round_to_tf32({}[{}])" if a == f32 else "{}[{}]"
    inputs = [f'"{operand_letter}"({value.format(name, i)})' for name, n in zip("ab", counts[1:]) for i in range(n)]
    outputs = [f'"+{letter}"(acc[{i}])' for i in range(counts[0])]
    define(
        product_function(instruction),
        f"acc += a b: {instruction.m} x {instruction.n} x {instruction.k}, by a warp",
        f"""void {product_function(instruction)}({type_}* acc, const {operand}* a, const {operand}* b) {{
    asm("{instruction.ptx} {lists[0]}, {lists[1]}, {lists[2]}, {lists[0]};"
        : {", ".join(outputs)}
        : {", ".join(inputs)});
}}""",
        since=instruction.capability,
    )


define(
    "round_to_tf32",
    "the bits of a float rounded to 10 bits of fraction",
    """unsigned round_to_tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}""",
)
for _instruction_row in INSTRUCTIONS.values():
    if _instruction_row.parts > 1:
        _define_products_of_runs(_instruction_row)
    elif not _instruction_row.is_fma:
        _define_product(_instruction_row)
