"""The elementwise functions that `tile.map` and `graph.map` apply: names, arities and dtype rules, as data.

What each one computes is written once per back end, in one table; a test walks this one and fails
where a row is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiledsl.ir.dtypes import DType, bool_, f32, u32

Domain = Literal["any", "number", "float", "integer", "bits"]
"""Accepted dtypes. `number`: floats and integers. `bits`: integers and bool."""


@dataclass(frozen=True)
class ScalarFunction:
    """One function. All operands have one dtype, which is also the result's, but for what the flags name."""

    name: str
    arity: int
    domain: Domain
    gives_bool: bool = False
    """Comparisons: the result is bool whatever the operands are."""
    gives_bits: bool = False
    """The result is u32, whatever the operand is."""
    only: DType | None = None
    """The one dtype that operands may have."""
    cost: int = 1
    """Rough cost in simple vector operations, for the cost model and for choosing what to recompute."""

    def result(self, dtype: DType) -> DType:
        """The dtype of the result, of operands of `dtype`."""
        return bool_ if self.gives_bool else u32 if self.gives_bits else dtype

    def accepts(self, dtype: DType) -> bool:
        """Whether operands may have this dtype."""
        if self.only is not None:
            return dtype == self.only
        match self.domain:
            case "any":
                return True
            case "number":
                return dtype.is_float or dtype.is_integer
            case "float":
                return dtype.is_float
            case "integer":
                return dtype.is_integer
            case "bits":
                return dtype.is_integer or dtype == bool_


def _table(*rows: ScalarFunction) -> dict[str, ScalarFunction]:
    return {row.name: row for row in rows}


SCALAR_FUNCTIONS: dict[str, ScalarFunction] = _table(
    ScalarFunction("add", 2, "number"),
    ScalarFunction("sub", 2, "number"),
    ScalarFunction("mul", 2, "number"),
    ScalarFunction("div", 2, "float", cost=4),
    # Python's: the quotient is rounded down, the remainder has the divisor's sign; integer x // 0 and x % 0 give 0
    ScalarFunction("floordiv", 2, "number", cost=8),
    ScalarFunction("mod", 2, "number", cost=8),
    ScalarFunction("pow", 2, "number", cost=30),
    ScalarFunction("neg", 1, "number"),
    ScalarFunction("abs", 1, "number"),
    # NaN if either operand is NaN, as NumPy's
    ScalarFunction("minimum", 2, "any"),
    ScalarFunction("maximum", 2, "any"),
    ScalarFunction("fma", 3, "float"),
    ScalarFunction("exp", 1, "float", cost=12),
    ScalarFunction("exp2", 1, "float", cost=10),
    ScalarFunction("log", 1, "float", cost=14),
    ScalarFunction("log2", 1, "float", cost=14),
    ScalarFunction("sqrt", 1, "float", cost=6),
    ScalarFunction("rsqrt", 1, "float", cost=8),
    ScalarFunction("tanh", 1, "float", cost=16),
    ScalarFunction("sigmoid", 1, "float", cost=16),
    # 1 / (1 + 2**-x), with an absolute error of at most 2**-22
    ScalarFunction("sigmoid2", 1, "float", only=f32, cost=14),
    ScalarFunction("erf", 1, "float", cost=20),
    ScalarFunction("sin", 1, "float", cost=24),
    ScalarFunction("cos", 1, "float", cost=24),
    ScalarFunction("floor", 1, "float"),
    ScalarFunction("ceil", 1, "float"),
    # half to even
    ScalarFunction("round", 1, "float"),
    ScalarFunction("eq", 2, "any", gives_bool=True),
    ScalarFunction("ne", 2, "any", gives_bool=True),
    ScalarFunction("lt", 2, "any", gives_bool=True),
    ScalarFunction("le", 2, "any", gives_bool=True),
    ScalarFunction("gt", 2, "any", gives_bool=True),
    ScalarFunction("ge", 2, "any", gives_bool=True),
    ScalarFunction("and", 2, "bits"),
    ScalarFunction("or", 2, "bits"),
    ScalarFunction("xor", 2, "bits"),
    ScalarFunction("not", 1, "bits"),
    # shifts by at least the width give 0 (-1 for a negative number shifted right), as NumPy's
    ScalarFunction("shl", 2, "integer"),
    ScalarFunction("shr", 2, "integer"),
    # nibble(x, i): the low 4 bits of x where i is even, else the next 4: 0 to 15, and -8 to 7 of a signed dtype
    ScalarFunction("nibble", 2, "integer", cost=2),
    # the 32 bits of a float, as a number; of NaN those of some NaN
    ScalarFunction("float_bits", 1, "float", only=f32, gives_bits=True),
    # where(condition: bool, yes, no): yes and no share the dtype of the result
    ScalarFunction("where", 3, "any"),
    # what bf16 keeps of x * 2**16; of what that leaves out; of what both leave out: their sum is x * 2**16, exactly
    ScalarFunction("plane_1", 1, "float", only=f32, cost=2),
    ScalarFunction("plane_2", 1, "float", only=f32, cost=4),
    ScalarFunction("plane_3", 1, "float", only=f32, cost=6),
)

REDUCTIONS: tuple[str, ...] = ("add", "mul", "max", "min", "and", "or", "argmax", "argmin", "custom")
"""What `tile.reduce` can fold with. `argmax`/`argmin` give the first index of the extremum, as i64."""
SCANS: tuple[str, ...] = ("add", "mul", "max", "min", "custom")
ATOMICS: tuple[str, ...] = ("add", "max", "min", "and", "or", "xor", "exchange")
