"""Conversion of register values between dtypes, and between registers and the bits that memory and packed words hold.

Floats round to nearest even and once only, whatever the widths. Floats are cut off towards zero to become integers:
out of range they give the nearest integer, and NaN gives 0. Integers wrap, and become narrow floats through f32.
Anything but zero is true, NaN too.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cuda.functions import narrow_floats
from tiledsl.backend_cuda.functions.preamble import FLOATS, SIGNED, UNSIGNED, Preamble, Variant, define
from tiledsl.backend_cuda.functions.scalars import c_type, constant, enclosed, is_subset, register_dtype, wrapped
from tiledsl.ir.dtypes import DType, bool_, f64, is_narrow_float

DEFINED_BY = (narrow_floats,)
"""The modules whose device functions are called."""


def _define_cut_off(source: Variant, target: Variant, function: str) -> None:
    name = f"{source.suffix}_to_{target.suffix}"
    # The instructions saturate. Of NaN they make 0 from f32 to 32 bits, and the least integer otherwise.
    value = f"{function}(x)" if source.bits == target.bits == 32 else f"x == x ? {function}(x) : 0"
    define(
        name,
        f"x cut off to {target.suffix}; the nearest if it is out of range, 0 if it is NaN",
        f"{target.type} {name}({source.type} x) {{\n    return {value};\n}}",
    )


for _source in FLOATS:
    for _target, _word in zip((*SIGNED, *UNSIGNED), ("int", "ll", "uint", "ull")):
        _define_cut_off(_source, _target, f"__{_source.type}2{_word}_rz")


# Conversions have a slow unit. With 2**23 added, an integer of 8 bits stands in the low bits of a float.
for _name, _type, _flip, _bias in (("i8", "int", 0x80, 128), ("u8", "unsigned", 0, 0)):
    define(
        f"float_of_{_name}",
        f"an integer of 8 bits ({_name}) as a float: exact, and without the unit for conversions",
        f"float float_of_{_name}({_type} x) {{\n    return __uint_as_float(((unsigned)x & 0xffu) ^ "
        f"{0x4B000000 | _flip:#x}u) - {2**23 + _bias}.0f;\n}}",
    )
    _word = f"word ^ {_flip * 0x01010101:#x}u" if _flip else "word"
    define(
        f"float_of_byte_{_name}",
        f"byte `position` of a word, an integer ({_name}), as a float: one permutation puts it among the digits",
        f"float float_of_byte_{_name}(unsigned word, unsigned position) {{\n    return __uint_as_float("
        f"__byte_perm({_word}, 0x4B000000u, 0x7540u + position)) - {2**23 + _bias}.0f;\n}}",
    )


# As an asm, since one of its constants has to be in a register, which assemblers would rather spend two operations on.
define(
    "among_digits",
    "2**23 as a float, with the masked bits of a word among its digits",
    """float among_digits(unsigned word, unsigned mask) {
    unsigned bits;
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(bits) : "r"(word), "r"(mask), "r"(0x4B000000u));
    return __uint_as_float(bits);
}""",
)
for _name, _flip, _bias in (("i8", 0x88888888, 8), ("u8", 0, 0)):
    _word = f"(word ^ {_flip:#x}u)" if _flip else "word"
    _less = f" - {_bias}.0f" if _bias else ""
    define(
        f"float_of_nibble_{_name}",
        f"nibble `position` of a word as a float, signed in i8 ({_name}): masked where it stands among the digits",
        f"""float float_of_nibble_{_name}(unsigned word, unsigned position) {{
    unsigned down = position < 5u ? 0u : 16u, at = 4u * position - down;
    float unit = 1.0f / (float)(1u << at);
    return fmaf(among_digits({_word} >> down, 15u << at), unit, -8388608.0f * unit{_less});
}}""",
    )


def cast(expression: str, from_dtype: DType, to_dtype: DType, preamble: Preamble) -> str:
    """The C expression, of the register type of `from_dtype`, as one of that of `to_dtype`."""
    if from_dtype == to_dtype:
        return expression
    if to_dtype == bool_:
        return f"({enclosed(expression)} != {constant(0, register_dtype(from_dtype))})"
    if to_dtype.is_float:
        return _to_float(expression, from_dtype, to_dtype, preamble)
    if from_dtype.is_float:
        return _cut_off(expression, from_dtype, to_dtype, preamble)
    return wrapped(expression, to_dtype)


def _to_float(expression: str, source: DType, target: DType, preamble: Preamble) -> str:
    if source.name in ("i8", "u8") and target != f64:
        expression = f"{preamble.use(f'float_of_{source.name}')}({expression})"
        return f"{preamble.use(f'round_{target}')}({expression})" if target.bits == 8 else expression
    if not is_narrow_float(target):
        same = register_dtype(source) == target
        return expression if same else f"({c_type(target)}){enclosed(expression)}"
    if is_narrow_float(source) and is_subset(source, target):
        return expression
    if source == f64:
        expression = f"{preamble.use('round_to_odd')}({expression})"
    elif not source.is_float:
        expression = f"(float){enclosed(expression)}"
    return f"{preamble.use(f'round_{target}')}({expression})"


def _cut_off(expression: str, source: DType, target: DType, preamble: Preamble) -> str:
    integer = register_dtype(target)
    value = f"{preamble.use(f'{register_dtype(source)}_to_{integer}')}({expression})"
    if integer == target:
        return value
    magnitude = target.bits - (1 if target.is_signed else 0)
    value = f"min({value}, {constant((1 << magnitude) - 1, integer)})"
    return f"max({value}, {constant(-(1 << magnitude), integer)})" if target.is_signed else value


def bits(value: str, dtype: DType, preamble: Preamble) -> str:
    """An `unsigned` whose low 8 or 16 bits are those of a register value (rounded to nearest even, wrapped)."""
    if dtype.is_float:
        return f"{preamble.use(f'bits_{dtype}')}({value})"
    return f"(unsigned){enclosed(value)}" if dtype == bool_ else wrapped(value, _unsigned(dtype))


def from_bits(word: str, dtype: DType, preamble: Preamble) -> str:
    """The register value of the low 8 or 16 bits of an `unsigned`; its other bits do not matter."""
    return _low(word, dtype, preamble)


def per_word(dtype: DType) -> int:
    """Elements of an 8-bit or 16-bit dtype in a word of 32 bits."""
    assert dtype.bits in (8, 16), f"{dtype} is not packed"
    return 32 // dtype.bits


def unpack(word: str, position: int | str, dtype: DType, preamble: Preamble) -> str:
    """Element `position` (a number, or a C expression) of a 32-bit word, as a register value."""
    word = enclosed(word)
    if isinstance(position, str):
        return _low(f"{word} >> {dtype.bits} * {enclosed(position)}", dtype, preamble)
    assert 0 <= position < per_word(dtype)
    if position == 1 and dtype.is_float and dtype.bits == 16:
        return f"{preamble.use(f'high_{dtype}')}({word})"
    if dtype.name == "f8e5m2" or (dtype.name == "f8e4m3" and preamble.capability >= 89):
        # one conversion serves both elements of a half
        half = f"{preamble.use(f'pair_{dtype}')}({word if position < 2 else f'{word} >> 16'})"
        return f"{preamble.use(('low_f16', 'high_f16')[position % 2])}({half})"
    return _low(f"{word} >> {dtype.bits * position}" if position else word, dtype, preamble)


def _low(word: str, dtype: DType, preamble: Preamble) -> str:
    if dtype.is_float:
        return f"{preamble.use(f'low_{dtype}')}({word})"
    if dtype == bool_:
        return f"(({enclosed(word)} & 0xffu) != 0u)"
    return wrapped(word, dtype)


def pack(elements: Sequence[str], dtype: DType, preamble: Preamble) -> str:
    """An `unsigned` of 2 or 4 register values, the first in the lowest bits.

    Floats are rounded to nearest even, so that a value that was computed for this word alone need not be representable.
    """
    assert len(elements) == per_word(dtype)
    if dtype.is_float:
        function = f"pack_{dtype}"
    else:
        function = "pack_halves" if dtype.bits == 16 else "pack_bytes"
    return f"{preamble.use(function)}({', '.join(elements)})"


def _unsigned(dtype: DType) -> DType:
    return DType(f"u{dtype.bits}", "uint", dtype.bits)
