"""Device functions that read and write global memory: up to 16 bytes at once, under a condition or not.

`load_uint4(to, from)` reads four words into registers; `load_uint4_if(to, from, inside, fill)` gives `fill` where it is
not `inside`. `read_...` is the same for what nobody writes while the kernel runs. The accesses are asm, so that they
are issued where they stand: all reads of a tile are under way before the first is waited for.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.preamble import define

READS: dict[str, str] = {
    "load": "ld.global", "read": "ld.global.nc",
    "load_along": "ld.global.L2::256B", "read_along": "ld.global.nc.L2::256B",
}  # fmt: skip
"""The instruction by what is read: what may be written meanwhile (`load`), or is only read (`read`). `..._along`: of
rows that later turns of a loop read further, so that more than a sector is to come to L2."""
WRITE = "st.global"

REGISTER_TYPES: dict[str, tuple[str, str, int]] = {
    "unsigned": ("uint", "r", 32),
    "int": ("int", "r", 32),
    "float": ("float", "f", 32),
    "double": ("double", "d", 64),
    "long long": ("longlong", "l", 64),
    "unsigned long long": ("ulonglong", "l", 64),
}
"""For each type of register: its name in functions, its letter in asm, its bits."""


def vector_name(c_type: str, count: int) -> str:
    """`uint4`, or `float` for a count of 1."""
    return REGISTER_TYPES[c_type][0] + (str(count) if count > 1 else "")


def _registers(count: int, first: int = 0) -> str:
    listed = ", ".join(f"%{first + i}" for i in range(count))
    return f"{{{listed}}}" if count > 1 else listed


def _width(count: int, bits: int) -> str:
    return f".v{count}.b{bits}" if count > 1 else f".b{bits}"


def _define_reads() -> None:
    for verb, instruction in READS.items():
        memory = ' : "memory"' if verb.startswith("load") else ""
        for c_type, (_, letter, bits) in REGISTER_TYPES.items():
            for count in (1, 2, 4):
                if count * bits <= 128:
                    _define_read(verb, instruction, c_type, letter, bits, count, memory)
        for bits, outputs in ((16, "h"), (8, "r")):
            _define_narrow_read(verb, instruction, bits, outputs, memory)


def _define_read(verb: str, instruction: str, c_type: str, letter: str, bits: int, count: int, memory: str) -> None:
    name = f"{verb}_{vector_name(c_type, count)}"
    outputs = ", ".join(f'"={letter}"(to[{i}])' for i in range(count))
    read = f"{instruction}{_width(count, bits)} {_registers(count)}, [%{count}];"
    define(
        name,
        f"{count * bits // 8} bytes of global memory",
        f"void {name}({c_type}* to, const void* from) {{\n"
        f'    asm volatile("{read}" : {outputs} : "l"(from){memory});\n}}',
    )
    moves = " ".join(f"mov.b{bits} %{i}, %{count + 2};" for i in range(count))
    define(
        f"{name}_if",
        f"{count * bits // 8} bytes of global memory, or `fill` where they are not inside",
        f"void {name}_if({c_type}* to, const void* from, bool inside, {c_type} fill) {{\n"
        f'    asm volatile("{{ .reg .pred p; setp.ne.s32 p, %{count + 1}, 0; {moves} @p {read} }}"\n'
        f'                 : {outputs} : "l"(from), "r"((int)inside), "{letter}"(fill){memory});\n}}',
    )


def _define_narrow_read(verb: str, instruction: str, bits: int, letter: str, memory: str) -> None:
    """One element of 16 or 8 bits, in the low bits of a word. (A register of 8 bits does not exist.)"""
    name = f"{verb}_bits{bits}"
    word = "unsigned short" if letter == "h" else "unsigned"
    type_ = f"b{bits}" if bits == 16 else "u8"
    read = f"{instruction}.{type_} %0, [%1];"
    define(
        name,
        f"{bits} bits of global memory",
        f"unsigned {name}(const void* from) {{\n    {word} bits;\n"
        f'    asm volatile("{read}" : "={letter}"(bits) : "l"(from){memory});\n    return bits;\n}}',
    )
    move = f"mov.b{16 if letter == 'h' else 32} %0, %3;"
    define(
        f"{name}_if",
        f"{bits} bits of global memory, or `fill` where they are not inside",
        f"unsigned {name}_if(const void* from, bool inside, unsigned fill) {{\n    {word} bits;\n"
        f'    asm volatile("{{ .reg .pred p; setp.ne.s32 p, %2, 0; {move} @p {read} }}"\n'
        f'                 : "={letter}"(bits) : "l"(from), "r"((int)inside), "{letter}"(({word})fill){memory});\n'
        "    return bits;\n}",
    )


def _define_writes() -> None:
    for c_type, (_, letter, bits) in REGISTER_TYPES.items():
        for count in (1, 2, 4):
            if count * bits <= 128:
                name = f"store_{vector_name(c_type, count)}"
                inputs = ", ".join(f'"{letter}"(from[{i}])' for i in range(count))
                write = f"{WRITE}{_width(count, bits)} [%0], {_registers(count, 1)};"
                _define_write(name, count * bits // 8, f"const {c_type}* from", inputs, write, count + 1)
    for bits, letter, cast in ((16, "h", "(unsigned short)"), (8, "r", "")):
        type_ = f"b{bits}" if bits == 16 else "u8"
        write = f"{WRITE}.{type_} [%0], %1;"
        _define_write(f"store_bits{bits}", bits // 8, "unsigned bits", f'"{letter}"({cast}bits)', write, 2)


def _define_write(name: str, size: int, parameter: str, inputs: str, write: str, next_operand: int) -> None:
    size_text = "1 byte" if size == 1 else f"{size} bytes"
    define(
        name,
        f"{size_text} to global memory",
        f'void {name}(void* to, {parameter}) {{\n    asm volatile("{write}" :: "l"(to), {inputs} : "memory");\n}}',
    )
    define(
        f"{name}_if",
        f"{size_text} to global memory, where they are inside",
        f"void {name}_if(void* to, {parameter}, bool inside) {{\n"
        f'    asm volatile("{{ .reg .pred p; setp.ne.s32 p, %{next_operand}, 0; @p {write} }}"\n'
        f'                 :: "l"(to), {inputs}, "r"((int)inside) : "memory");\n}}',
    )


_define_reads()
_define_writes()

define(
    "is_within",
    "Whether 0 <= at < size",
    "bool is_within(long long at, long long size) {\n    return (unsigned long long)at < (unsigned long long)size;\n}",
)
define(
    "limited",
    "An extent as an int of at most `most`",
    "int limited(long long extent, int most) {\n    return extent < 0 ? 0 : extent > most ? most : (int)extent;\n}",
)
define(
    "floor_div",
    "Rounded down; 0 if the divisor is 0",
    "long long floor_div(long long a, long long b) {\n    if (b == 0) return 0;\n    const long long q = a / b;\n"
    "    return q - (a % b != 0 && (a < 0) != (b < 0));\n}",
)
define(
    "floor_mod",
    "What floor_div leaves",
    "long long floor_mod(long long a, long long b) {\n    return b == 0 ? 0 : a - floor_div(a, b) * b;\n}",
)
define("smaller", "The smaller size", "long long smaller(long long a, long long b) {\n    return a < b ? a : b;\n}")
define("larger", "The larger size", "long long larger(long long a, long long b) {\n    return a > b ? a : b;\n}")
