"""What a running program tells people: the device's side of `tile.print` and `tile.assert_`.

A print of scalars is one line, as on a CPU: the text, then each value, with blanks between them. A tile is printed
element by element, a line each, since its elements are in many threads: `text [3, 5] 0.25`. Lines of different threads
come in any order, but a line is never torn. Floats show 15 significant digits (f64), 7 (f32), 4 (f16) or 3 (bf16, f8);
bools are `True` and `False`.

A failed assertion is noted in the failure record and the program goes on, so that the device stays usable. The record
has 16 bytes of two 64-bit words, both 0 at the launch: the number of the assertion that failed first, counted from 1,
and the program that it failed in. While the two are being written the number is -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cuda.functions.preamble import Preamble, define
from tiledsl.ir.dtypes import DType, bool_

_FORMATS = {
    "f64": "%.15g", "f32": "%.7g", "f16": "%.4g", "bf16": "%.3g", "f8e4m3": "%.3g", "f8e5m2": "%.3g",
    "i64": "%lld", "u64": "%llu", "bool": "%s",
}  # fmt: skip

define(
    "tiledsl_fail",
    "notes which assertion failed first, and in which program",
    """void tiledsl_fail(void *record, unsigned long long number, long long program) {
    volatile unsigned long long *words = (volatile unsigned long long *)record;
    if (words[0] == 0 && atomicCAS((unsigned long long *)record, 0ull, ~0ull) == 0) {
        words[1] = (unsigned long long)program;
        __threadfence_system();
        words[0] = number;
    }
}""",
)


def assertion(condition: str, record: str, number: int, program: str, preamble: Preamble) -> str:
    """A C statement that fails assertion `number` (from 1) of program number `program` where the condition is false.

    `record` is a pointer to the failure record.
    """
    return f"if (!({condition})) {preamble.use('tiledsl_fail')}({record}, {number}, {program});"


def print_scalars(text: str, values: Sequence[tuple[str, DType]]) -> str:
    """A C statement that prints a line of register values; for one thread of a program."""
    parts = [_escaped(text)] if text else []
    return _printf([*parts, *(_format(dtype) for _, dtype in values)], [_argument(*value) for value in values])


def print_element(text: str, coordinates: Sequence[str], value: str, dtype: DType) -> str:
    """A C statement that prints a line for one element of a tile; `coordinates` are integers, one per axis."""
    place = "[" + ", ".join(["%lld"] * len(coordinates)) + "]"
    arguments = [f"(long long)({coordinate})" for coordinate in coordinates]
    parts = [_escaped(text)] if text else []
    return _printf([*parts, place, _format(dtype)], [*arguments, _argument(value, dtype)])


def _printf(parts: Sequence[str], arguments: Sequence[str]) -> str:
    form = '"' + " ".join(parts) + '\\n"'
    return f"printf({', '.join([form, *arguments])});"


def _format(dtype: DType) -> str:
    return _FORMATS.get(dtype.name, "%d" if dtype.is_signed else "%u")


def _argument(value: str, dtype: DType) -> str:
    if dtype == bool_:
        return f'({value}) ? "True" : "False"'
    return f"(double)({value})" if dtype.is_float else value


def _escaped(text: str) -> str:
    """The text within a C string that is a format."""
    plain = {'"': '\\"', "\\": "\\\\", "%": "%%", "?": "\\?"}  # two question marks begin a trigraph
    return "".join(
        plain[c] if c in plain else c if " " <= c <= "~" else "".join(f"\\{byte:03o}" for byte in c.encode())
        for c in text
    )
