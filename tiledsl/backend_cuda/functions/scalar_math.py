"""The scalar functions of the IR as C expressions: one table, with a row for each function.

A row has a text for each kind of dtype, in which {0}, {1} and {2} are the operands and SUFFIX the type that is computed
in (f32 or f64; i32, i64, u32 or u64). Narrow types are computed in 32 bits and then rounded or cut to their width.

Largest errors in units of the last place (all else is exact or rounded once):

| function | f32 | f16, bf16 |
| --- | --- | --- |
| exp, exp2, rsqrt, erf, tanh, sin, cos | 2 | 1 |
| log, log2 | 1 | 1 |
| sigmoid | 4 | 1 |
| sigmoid2 | 4 | |
| pow | 4 | 1 |
| div, sqrt | 0.5; 4 where an f32 below 2**-100 is divided | 1 |

An f32 of which nothing is made but narrower floats is computed as precisely as those are (see `coarse_values.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cuda.functions import float_math, integer_math, narrow_floats
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalars import enclosed, register_dtype, wrapped
from tiledsl.ir.dtypes import DType, bool_, f32, is_narrow_float
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS

DEFINED_BY = (float_math, integer_math, narrow_floats)
"""The modules whose device functions the table calls."""


def _row(any: str = "", **texts: str) -> dict[str, str]:
    return {"any": any, **texts} if any else texts


def _operator(sign: str, stem: str) -> dict[str, str]:
    """An operator of C, which signed integers of full width must not use as it is: their overflow is undefined."""
    return _row(f"({{0}} {sign} {{1}})", wide=f"{stem}_SUFFIX({{0}}, {{1}})")


ROWS: dict[str, dict[str, str]] = {
    "add": _operator("+", "add"),
    "sub": _operator("-", "sub"),
    "mul": _operator("*", "mul"),
    "div": _row(
        float="div_f32({0}, {1})",
        f64="({0} / {1})",
        f16="__fdividef({0}, {1})",
        bf16="div_approx({0}, {1})",
        coarse="div_approx({0}, {1})",
    ),
    "floordiv": _row("floordiv_SUFFIX({0}, {1})"),
    "mod": _row("mod_SUFFIX({0}, {1})"),
    "pow": _row("pow_SUFFIX({0}, {1})", float="powf({0}, {1})", f64="pow({0}, {1})"),
    "neg": _row("(-{0})", wide="neg_SUFFIX({0})"),
    "abs": _row(float="fabsf({0})", f64="fabs({0})", int="abs_SUFFIX({0})", uint="{0}"),
    "minimum": _row(float="min_SUFFIX({0}, {1})", int="min({0}, {1})", uint="min({0}, {1})", bool="({0} && {1})"),
    "maximum": _row(float="max_SUFFIX({0}, {1})", int="max({0}, {1})", uint="max({0}, {1})", bool="({0} || {1})"),
    "fma": _row(float="fmaf({0}, {1}, {2})", f64="fma({0}, {1}, {2})"),
    "exp": _row(float="expf({0})", f64="exp({0})", short="exp_approx({0})", coarse="exp_approx({0})"),
    "exp2": _row(float="exp2_approx({0})", f64="exp2({0})"),
    "log": _row(float="logf({0})", f64="log({0})", short="__logf({0})"),
    "log2": _row(float="log2f({0})", f64="log2({0})", short="__log2f({0})"),
    "sqrt": _row(float="sqrt_f32({0})", f64="sqrt({0})", short="sqrt_approx({0})", coarse="sqrt_approx({0})"),
    "rsqrt": _row(float="rsqrtf({0})", f64="rsqrt({0})"),
    "tanh": _row(float="tanhf({0})", f64="tanh({0})", bf16="tanh_approx({0})", coarse_bf16="tanh_approx({0})"),
    "sigmoid": _row(float="sigmoid_SUFFIX({0})", short="sigmoid_approx({0})", coarse="sigmoid_approx({0})"),
    "sigmoid2": _row(float="sigmoid2({0})"),
    "erf": _row(float="erff({0})", f64="erf({0})"),
    "sin": _row(float="sin_f32({0})", f64="sin({0})"),
    "cos": _row(float="cos_f32({0})", f64="cos({0})"),
    "floor": _row(float="floorf({0})", f64="floor({0})"),
    "ceil": _row(float="ceilf({0})", f64="ceil({0})"),
    "round": _row(float="rintf({0})", f64="rint({0})"),
    "eq": _row("({0} == {1})"),
    "ne": _row("({0} != {1})"),
    "lt": _row("({0} < {1})"),
    "le": _row("({0} <= {1})"),
    "gt": _row("({0} > {1})"),
    "ge": _row("({0} >= {1})"),
    "and": _row("({0} & {1})", bool="({0} && {1})"),
    "or": _row("({0} | {1})", bool="({0} || {1})"),
    "xor": _row("({0} ^ {1})", bool="({0} != {1})"),
    "not": _row("(~{0})", bool="(!{0})"),
    "shl": _row("shl_SUFFIX({0}, {1})"),
    "shr": _row("shr_SUFFIX({0}, {1})"),
    "nibble": _row("nibble_SUFFIX({0}, {1})"),
    "float_bits": _row(float="float_bits({0})"),
    "where": _row("({0} ? {1} : {2})"),
    "plane_1": _row(float="plane_1({0})"),
    "plane_2": _row(float="plane_2({0})"),
    "plane_3": _row(float="plane_3({0})"),
}

# Functions whose result is a value of the narrow type whenever the operands are
_KEEPS_FLOATS = frozenset({"neg", "abs", "minimum", "maximum", "floor", "ceil", "round", "where"})
_KEEPS_INTEGERS = frozenset({"minimum", "maximum", "mod", "and", "or", "xor", "shr", "nibble", "where"})


def scalar_function(
    fn: str,
    dtype: DType,
    operands: Sequence[str],
    preamble: Preamble,
    *,
    rounded: bool = True,
    coarse: DType | None = None,
) -> str:
    """A C expression for row `fn` of SCALAR_FUNCTIONS, of operands of the register type of `dtype`.

    The result has that type too, and holds a value of `dtype`; comparisons give a `bool`. The first operand of `where`
    is a `bool`. Without `rounded` a narrow float is left as it was computed, for `pack` to round. `coarse`: f16 or bf16
    where an f32 result need only be good enough to be rounded to that (see `coarse_values`). An operand may be
    evaluated more than once only if it is written more than once, which no row does.
    """
    template = _template(ROWS[fn], dtype, coarse).replace("SUFFIX", str(register_dtype(dtype)))
    if template.startswith("("):
        operands = [enclosed(operand) for operand in operands]
    preamble.use_called(template)
    result = template.format(*operands)
    if SCALAR_FUNCTIONS[fn].result(dtype) != dtype or dtype == bool_ or register_dtype(dtype) == dtype:
        return result
    if is_narrow_float(dtype):
        return result if fn in _KEEPS_FLOATS or not rounded else f"{preamble.use(f'round_{dtype}')}({result})"
    return result if fn in _KEEPS_INTEGERS else wrapped(result, dtype)


def _template(row: dict[str, str], dtype: DType, coarse: DType | None) -> str:
    """The text of a row for a dtype: that of the smallest kind that it belongs to."""
    kinds = [f"coarse_{coarse}", "coarse"] if coarse is not None and dtype == f32 else []
    kinds.append(str(dtype))
    if dtype.is_float and dtype.bits == 16:
        kinds.append("short")
    if dtype.kind == "int" and dtype.bits >= 32:
        kinds.append("wide")
    return next(row[kind] for kind in (*kinds, dtype.kind, "any") if kind in row)
