"""Atomic combination of a value into an element of memory: relaxed, and seen by the whole device.

Where the machine has no instruction for it, the function loops: it computes the new value from the one that it saw and
tries to put it in its place. Elements of 8 and 16 bits are exchanged with the aligned 32-bit word around them, whose
other bytes it writes back as they are. A new value that equals the old one need not be written.
"""

from __future__ import annotations

from tiledsl.backend_cuda.functions.casts import bits, from_bits
from tiledsl.backend_cuda.functions.preamble import DeviceFunction, Preamble, define
from tiledsl.backend_cuda.functions.scalar_math import scalar_function
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.ir.dtypes import DType

_BUILTINS = {
    "add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "and": "atomicAnd", "or": "atomicOr",
    "xor": "atomicXor", "exchange": "atomicExch",
}  # fmt: skip
_WORD = {32: "unsigned", 64: "unsigned long long"}
_SCALAR_FUNCTIONS = {"max": "maximum", "min": "minimum"}

for _name, _since in (("f16", 80), ("bf16", 90)):
    define(
        f"atomic_add_{_name}",
        f"adds to the {_name} at an address; gives the one from before",
        f"""float atomic_add_{_name}(void *address, float value) {{
    unsigned short before;
    asm volatile("atom.relaxed.gpu.add.noftz.{_name} %0, [%1], %2;"
                 : "=h"(before) : "l"(address), "h"((unsigned short)bits_{_name}(value)) : "memory");
    return low_{_name}(before);
}}""",
        since=_since,
    )


def atomic(fn: str, dtype: DType, address: str, value: str, preamble: Preamble) -> str:
    """A C expression that combines a register value into the element of `dtype` at `address`, and gives the old value.

    `fn` is one of ATOMICS; `address` is a pointer of any type, aligned to the element. NaN as in `scalar_function`:
    the result of `max` and `min` is NaN if either is.
    """
    if fn == "add" and (dtype.name == "f16" or (dtype.name == "bf16" and preamble.capability >= 90)):
        return f"{preamble.use(f'atomic_add_{dtype}')}({address}, {value})"
    if dtype.bits >= 32 and (not dtype.is_float or fn in ("add", "exchange")):
        return _builtin(fn, dtype, address, value)
    return f"{preamble.use(_loop(fn, dtype, preamble))}({address}, {value})"


def _builtin(fn: str, dtype: DType, address: str, value: str) -> str:
    """A call of CUDA's function, with the type that it knows: bits do not care, and i64 is added as u64 is."""
    type_ = c_type(dtype)
    if fn == "exchange" and dtype.name == "f64":
        exchanged = f"atomicExch((unsigned long long *)({address}), __double_as_longlong({value}))"
        return f"__longlong_as_double({exchanged})"
    if dtype.name == "i64" and fn not in ("max", "min"):
        word = _WORD[64]
        return f"({type_}){_BUILTINS[fn]}(({word} *)({address}), ({word})({value}))"
    return f"{_BUILTINS[fn]}(({type_} *)({address}), {value})"


def _loop(fn: str, dtype: DType, preamble: Preamble) -> DeviceFunction:
    """The function that computes the new value itself. What it calls is found when it is used."""
    name = f"atomic_{fn}_{dtype}"
    scalar = _SCALAR_FUNCTIONS.get(fn, fn)
    combined = "value" if fn == "exchange" else scalar_function(scalar, dtype, ["before", "value"], preamble)
    body = _narrow_loop(dtype, combined, preamble) if dtype.bits < 32 else _wide_loop(dtype, combined)
    purpose = f"{'replaces' if fn == 'exchange' else fn + ' into'} the {dtype} at an address; gives the one from before"
    return DeviceFunction(name, purpose, f"{c_type(dtype)} {name}(void *address, {c_type(dtype)} value) {{\n{body}\n}}")


def _wide_loop(dtype: DType, combined: str) -> str:
    word = _WORD[dtype.bits]
    if dtype.bits == 32:
        read, written = "__uint_as_float(expected)", "__float_as_uint"
    else:
        read, written = "__longlong_as_double(expected)", "__double_as_longlong"
    return f"""\
    {word} *place = ({word} *)address, seen = *(volatile {word} *)place, expected;
    {c_type(dtype)} before;
    do {{
        expected = seen;
        before = {read};
        {word} wanted = {written}({combined});
        if (wanted == expected)
            break;
        seen = atomicCAS(place, expected, wanted);
    }} while (seen != expected);
    return before;"""


def _narrow_loop(dtype: DType, combined: str, preamble: Preamble) -> str:
    mask = (1 << dtype.bits) - 1
    return f"""\
    unsigned *place = (unsigned *)((unsigned long long)address & ~3ull);
    unsigned shift = ((unsigned)(unsigned long long)address & 3u) * 8u;
    unsigned seen = *(volatile unsigned *)place, expected;
    {c_type(dtype)} before;
    do {{
        expected = seen;
        before = {from_bits("expected >> shift", dtype, preamble)};
        unsigned part = {bits(combined, dtype, preamble)};
        unsigned wanted = (expected & ~({mask:#x}u << shift)) | part << shift;
        if (wanted == expected)
            break;
        seen = atomicCAS(place, expected, wanted);
    }} while (seen != expected);
    return before;"""
