"""Conversion of register values between dtypes, and between registers and memory.

Floats round to nearest even and once only, whatever the widths. What overflows becomes an infinity, and NaN in f8e4m3,
which has no infinity. Floats are cut off towards zero to become integers; those out of range give the nearest end of
the range, NaN gives 0. Integers wrap. Anything but zero is true, NaN too.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiledsl.backend_cpu.functions.lanes import Lanes
from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType
from tiledsl.ir.dtypes import DType, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i16, i32, is_narrow_float, u8


def convert(writer: FunctionWriter, value: str, source: VectorType, target: VectorType) -> str:
    """`value`, whose type is `source`, as `target`, which has as many lanes."""
    assert source.lanes == target.lanes
    if source.dtype == target.dtype:
        return value
    lanes = Lanes(writer, source)
    if target.dtype == bool_:
        return _to_bool(lanes, value)
    if is_narrow_float(source.dtype):
        return convert(writer, _widen(lanes, value), source.of(f32), target)
    if is_narrow_float(target.dtype):
        # An integer too large to be exact in f32 is also too large for f16 and f8; to bf16 it goes as ml_dtypes does.
        single = _round_to_odd(lanes, value) if source.dtype == f64 else convert(writer, value, source, source.of(f32))
        return _narrow(lanes.of(f32), single, target.dtype)
    return _between_wide(lanes, value, lanes.of(target.dtype))


def memory_type(type_: VectorType) -> VectorType:
    """What is loaded and stored for a register type: itself, but bytes for bool."""
    return type_.of(u8) if type_.dtype == bool_ else type_


def to_memory(writer: FunctionWriter, value: str, type_: VectorType) -> str:
    """A register value as `memory_type(type_)`; bool as 0 and 1."""
    return (
        Lanes(writer, type_).change("zext", value, Lanes(writer, memory_type(type_))) if type_.dtype == bool_ else value
    )


def from_memory(writer: FunctionWriter, value: str, type_: VectorType) -> str:
    """A loaded value of `memory_type(type_)` as the register type `type_`."""
    return convert(writer, value, memory_type(type_), type_)


def _to_bool(lanes: Lanes, value: str) -> str:
    if not is_narrow_float(lanes.type.dtype):
        return lanes.compare("une" if lanes.type.dtype.is_float else "ne", value, lanes.constant(0))
    bits = lanes.integers
    magnitude = bits.binary("and", lanes.bits(value), bits.constant((1 << lanes.type.dtype.bits - 1) - 1))
    return bits.compare("ne", magnitude, bits.constant(0))


def _between_wide(lanes: Lanes, value: str, target: Lanes) -> str:
    """Between f64, f32, the integers and (as source) bool."""
    source_dtype, target_dtype = lanes.type.dtype, target.type.dtype
    signed = source_dtype.is_signed  # bool counts as unsigned
    if source_dtype.is_float and target_dtype.is_float:
        return lanes.change("fpext" if target_dtype == f64 else "fptrunc", value, target)
    if source_dtype.is_float:
        return _saturated(lanes, value, target)
    if target_dtype.is_float:
        return lanes.change("sitofp" if signed else "uitofp", value, target)
    width = 1 if source_dtype == bool_ else source_dtype.bits
    if width == target_dtype.bits:
        return value  # LLVM's integers have no sign
    if width > target_dtype.bits:
        return lanes.change("trunc", value, target)
    return lanes.change("sext" if signed else "zext", value, target)


def _saturated(lanes: Lanes, value: str, target: Lanes) -> str:
    """Floats as integers: the nearest end of the range for what is out of it, 0 for NaN.

    They are clamped first, since LLVM's conversion is defined within the range alone. A select each is one instruction;
    LLVM's own saturating conversion would go lane by lane.
    """
    dtype = target.type.dtype
    digits = 53 if lanes.type.dtype == f64 else 24
    magnitude = dtype.bits - 1 if dtype.is_signed else dtype.bits
    low = lanes.constant(-(2.0**magnitude) if dtype.is_signed else 0.0)
    # the largest float that is not above the largest integer
    high = lanes.constant(2.0**magnitude - 2.0 ** max(0, magnitude - digits))
    within = lanes.select(lanes.compare("ogt", value, low), value, low)
    within = lanes.select(lanes.compare("olt", within, high), within, high)
    converted = lanes.change("fptosi" if dtype.is_signed else "fptoui", within, target)
    if magnitude > digits:  # the largest integer is no float
        above = lanes.compare("oge", value, lanes.constant(2.0**magnitude))
        converted = target.select(above, target.constant(2**magnitude - 1), converted)
    if dtype.is_signed:
        converted = target.select(lanes.compare("uno", value, value), target.constant(0), converted)
    return converted


# Narrow floats


@dataclass(frozen=True)
class _Format:
    """How a float of at most 16 bits is laid out, beside f32 with its 8 bits of exponent and 23 of mantissa."""

    mantissa: int
    """Bits of mantissa."""
    bias: int
    """What is added to exponents."""
    too_large: int
    """The bits that stand for whatever is too large: the infinity, or NaN for a type that has none."""
    nan: int


_FORMATS = {
    bf16: _Format(mantissa=7, bias=127, too_large=0x7F80, nan=0x7FC0),
    f8e5m2: _Format(mantissa=2, bias=15, too_large=0x7C, nan=0x7E),
    f8e4m3: _Format(mantissa=3, bias=7, too_large=0x7F, nan=0x7F),
}


def _widen(lanes: Lanes, value: str) -> str:
    """A narrow float as f32; exact."""
    single, half, short = lanes.of(f32), lanes.of(f16), lanes.of(i16)
    match lanes.type.dtype.name:
        case "f16":
            return lanes.change("fpext", value, single)
        case "bf16":
            bits = short.change("zext", value, lanes.of(i32))
            return single.from_bits(lanes.of(i32).binary("shl", bits, lanes.of(i32).constant(16)))
        case "f8e5m2":
            # f8e5m2 is the upper byte of an f16
            bits = lanes.of(i8).change("zext", value, short)
            return half.change("fpext", half.from_bits(short.binary("shl", bits, short.constant(8))), single)
        case _:
            return _widen_e4m3(lanes, value)


def _widen_e4m3(lanes: Lanes, value: str) -> str:
    # Moved to the place of an f16's exponent and mantissa, the bits are those of a number 2**8 times too small
    # (the biases are 15 and 7), subnormal numbers included.
    single, half, short = lanes.of(f32), lanes.of(f16), lanes.of(i16)
    bits = lanes.of(i8).change("sext", value, short)
    moved = short.binary("and", short.binary("shl", bits, short.constant(7)), short.constant(0x3F80))
    sign = short.binary("and", bits, short.constant(-0x8000))
    small = half.change("fpext", half.from_bits(short.binary("or", moved, sign)), single)
    is_nan = short.compare("eq", moved, short.constant(0x3F80))
    nan = single.constant(float("nan"))
    return single.select(is_nan, nan, single.mul(small, single.constant(256.0)))


def _narrow(single: Lanes, value: str, target: DType) -> str:
    """f32 rounded to a narrow float."""
    if target == f16:
        return single.change("fptrunc", value, single.of(f16))
    form, word = _FORMATS[target], single.integers
    bits = single.bits(value)
    magnitude = word.binary("and", bits, word.constant(0x7FFF_FFFF))
    rounded = _round_bits(word, magnitude, form)
    if form.bias != 127:
        rounded = _with_subnormal(single, magnitude, rounded, form)
        rounded = word.intrinsic("umin", rounded, word.constant(form.too_large))
    if form.nan != form.too_large:
        is_nan = single.compare("uno", value, value)
        rounded = word.select(is_nan, word.constant(form.nan), rounded)
    sign = word.binary("lshr", bits, word.constant(32 - target.bits))
    sign = word.binary("and", sign, word.constant(1 << target.bits - 1))
    return word.change("trunc", word.binary("or", rounded, sign), single.of(target))


def _round_bits(word: Lanes, magnitude: str, form: _Format) -> str:
    """The bits of |x| with the mantissa rounded to even and the exponent rebiased. A carry goes into the exponent."""
    dropped = 23 - form.mantissa
    last = word.binary("and", word.binary("lshr", magnitude, word.constant(dropped)), word.constant(1))
    half = word.constant((1 << dropped - 1) - 1)
    raised = word.add(magnitude, word.add(last, half))
    shifted = word.binary("lshr", raised, word.constant(dropped))
    if form.bias == 127:
        return shifted
    return word.sub(shifted, word.constant((127 - form.bias) << form.mantissa))


def _with_subnormal(single: Lanes, magnitude: str, rounded: str, form: _Format) -> str:
    """`rounded`, or where |x| is below the least normal number, |x| in units of the least subnormal one."""
    word = single.integers
    # The addition rounds |x| to the unit 2**(1 - bias - mantissa), which is the last place of this number.
    magic = 1 - form.bias - form.mantissa + 23
    shifted = single.bits(single.add(single.from_bits(magnitude), single.constant(2.0**magic)))
    units = word.sub(shifted, word.constant(_exponent_bits(magic)))
    least_normal = word.constant(_exponent_bits(1 - form.bias))
    return word.select(word.compare("ult", magnitude, least_normal), units, rounded)


def _exponent_bits(exponent: int) -> int:
    """The bits of the f32 2**exponent."""
    return (exponent + 127) << 23


def _round_to_odd(double: Lanes, value: str) -> str:
    """f64 as f32; of the two f32 around an inexact one, the one with an odd last bit.

    Rounding that to fewer bits gives what rounding the f64 gives: an odd last bit is never taken for a tie.
    """
    single = double.of(f32)
    word = single.integers
    nearest = double.change("fptrunc", value, single)
    back = single.change("fpext", nearest, double)
    inexact = double.compare("one", back, value)
    too_far = double.compare("ogt", double.intrinsic("fabs", back), double.intrinsic("fabs", value))
    bits = single.bits(nearest)
    towards_zero = word.select(too_far, word.sub(bits, word.constant(1)), bits)
    odd = word.binary("or", towards_zero, word.constant(1))
    return single.from_bits(word.select(inexact, odd, bits))
