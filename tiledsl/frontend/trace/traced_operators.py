"""Operators of what a formula works with while it is traced: each is recorded by the trace."""

from __future__ import annotations

from typing import Any

from tiledsl.frontend.language.active_trace import Recorder

UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "matmul": "matmul", "negative": "neg",
    "absolute": "abs", "minimum": "minimum", "maximum": "maximum", "exp": "exp", "exp2": "exp2", "log": "log",
    "log2": "log2", "sqrt": "sqrt", "tanh": "tanh", "sin": "sin", "cos": "cos", "equal": "eq", "not_equal": "ne",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "bitwise_and": "and",
    "bitwise_or": "or", "bitwise_xor": "xor", "left_shift": "shl", "right_shift": "shr", "invert": "not",
}  # fmt: skip
"""NumPy's functions that mean an operation here, where NumPy is called with a traced tensor."""
TORCH_FUNCTIONS = {
    "sub": "sub", "mul": "mul", "div": "div", "truediv": "div", "floordiv": "floordiv", "mod": "mod", "pow": "pow",
    "neg": "neg", "abs": "abs", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "and": "and",
    "or": "or", "xor": "xor", "rsqrt": "rsqrt", "sigmoid": "sigmoid", "erf": "erf",
}  # fmt: skip
"""The same for PyTorch's, where they are called otherwise."""


class NumberOperators:
    """Operators of tensors and of sizes: each is recorded."""

    recorder: Recorder
    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return self.recorder.operation("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.recorder.operation("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.recorder.operation("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.recorder.operation("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.recorder.operation("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.recorder.operation("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.recorder.operation("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recorder.operation("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.recorder.operation("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.recorder.operation("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self.recorder.operation("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self.recorder.operation("mod", other, self)

    def __pow__(self, other: Any) -> Any:
        return self.recorder.operation("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self.recorder.operation("pow", other, self)

    def __neg__(self) -> Any:
        return self.recorder.operation("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.recorder.operation("abs", self)

    def __lt__(self, other: Any) -> Any:
        return self.recorder.operation("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return self.recorder.operation("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return self.recorder.operation("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return self.recorder.operation("ge", self, other)


class TensorOperators(NumberOperators):
    """Those that only tensors have: products, logic and bits, equality elementwise."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Any:
        return self.recorder.operation("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self.recorder.operation("matmul", other, self)

    def __and__(self, other: Any) -> Any:
        return self.recorder.operation("and", self, other)

    def __rand__(self, other: Any) -> Any:
        return self.recorder.operation("and", other, self)

    def __or__(self, other: Any) -> Any:
        return self.recorder.operation("or", self, other)

    def __ror__(self, other: Any) -> Any:
        return self.recorder.operation("or", other, self)

    def __xor__(self, other: Any) -> Any:
        return self.recorder.operation("xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self.recorder.operation("xor", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self.recorder.operation("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self.recorder.operation("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self.recorder.operation("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self.recorder.operation("shr", other, self)

    def __invert__(self) -> Any:
        return self.recorder.operation("not", self)

    def __eq__(self, other: Any) -> Any:
        return self.recorder.operation("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return self.recorder.operation("ne", self, other)
