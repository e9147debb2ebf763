"""What a formula of whole tensors works with while it is traced: tensors and sizes that write down what is done.

They are the objects that Python runs the formula on. Whatever is done to them goes to the trace, which records it as
ops of the GRAPH vocabulary; nothing is computed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn, cast

import numpy as np

from tiledsl.frontend.language import math as language
from tiledsl.frontend.language.active_trace import Recorder
from tiledsl.frontend.trace.traced_operators import TORCH_FUNCTIONS, UFUNCS, NumberOperators, TensorOperators
from tiledsl.ir import symbolic
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim, Expr
from tiledsl.ir.types import TensorType

_operator: Any = operator  # its functions are declared with parts left open


class TracedSize(NumberOperators):
    """A size that is known only at the call. It stands in shapes, and computes as an int does.

    `==` compares what is written: `x.shape[0] == y.shape[0]` holds if both are the same named size. Other comparisons
    are not known while a formula is traced.
    """

    __slots__ = ("dim", "recorder")

    def __init__(self, dim: Expr, recorder: Recorder) -> None:
        self.dim = dim
        self.recorder = recorder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedSize) and self.dim == other.dim

    def __hash__(self) -> int:
        return hash(self.dim)

    def __bool__(self) -> NoReturn:
        self._refuse("bool()")

    def __index__(self) -> NoReturn:
        self._refuse("use as an index")

    def __int__(self) -> NoReturn:
        self._refuse("int()")

    def __float__(self) -> NoReturn:
        self._refuse("float()")

    def _refuse(self, operation: str) -> NoReturn:
        self.recorder.refuse("graph-size-unknown", self, operation)
        raise AssertionError

    def __call__(self, *args: Any) -> NoReturn:
        self.recorder.refuse("graph-size-called", self, "call")
        raise AssertionError

    def __repr__(self) -> str:
        return str(self.dim)


class Count(int):
    """A number of elements that is known, and says what to write where it is called: `size` is a method in PyTorch."""

    recorder: Recorder

    def __call__(self, *args: Any) -> NoReturn:
        self.recorder.refuse("graph-size-called", self, "call")
        raise AssertionError


class TracedTensor(TensorOperators):
    """A whole tensor of a formula that is being traced, in NumPy's and PyTorch's manners.

    Operators, comparisons, `@`, subscripts (ints, slices, `None`, `...`, one tensor of ints) and
    the methods here are recorded. A `weak` one is a scalar made of sizes or Python numbers, which gives way to others.
    """

    __slots__ = ("recorder", "value", "weak")
    __hash__ = object.__hash__

    def __init__(self, value: Value, recorder: Recorder, weak: bool = False) -> None:
        self.value = value
        self.recorder = recorder
        self.weak = weak

    @property
    def type(self) -> TensorType:
        """The type in the IR."""
        assert isinstance(self.value.type, TensorType)
        return self.value.type

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes: ints, and `TracedSize`s where they are known only at the call."""
        return tuple(size_value(dim, self.recorder) for dim in self.type.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        count: Dim = 1
        for dim in self.type.shape:
            count = count * dim
        if not isinstance(count, int):
            return TracedSize(count, self.recorder)
        known = Count(count)
        known.recorder = self.recorder
        return known

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """All axes reversed."""
        return self._word(language.transpose)

    @property
    def mT(self) -> Any:  # noqa: N802 - NumPy's name
        """The last two axes swapped."""
        return self.recorder.operation("mT", self)

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Converted to a dtype: floats round to nearest even, floats to ints truncate."""
        return self._word(language.cast, *args, **kwargs)

    astype = to

    def reshape(self, *shape: Any) -> Any:
        """The same elements in row-major order. Takes a tuple or ints; one of them may be -1."""
        return self._word(language.reshape, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Any:
        """Axis i of the result is axis `axes[i]` of this tensor; none reverse all. Takes a tuple or ints."""
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self._word(language.transpose, given)

    permute = transpose

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        """The two axes swapped."""
        return self.recorder.operation("swapaxes", self, axis1, axis2)

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """See `tile.sum`; so for the other folds and scans."""
        return self._word(language.sum, *args, **kwargs)

    def prod(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.prod, *args, **kwargs)

    def max(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.max, *args, **kwargs)

    def min(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.min, *args, **kwargs)

    def any(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.any, *args, **kwargs)

    def all(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.all, *args, **kwargs)

    def mean(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.mean, *args, **kwargs)

    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.argmax, *args, **kwargs)

    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.argmin, *args, **kwargs)

    def cumsum(self, *args: Any, **kwargs: Any) -> Any:
        return self._word(language.cumsum, *args, **kwargs)

    def flatten(self) -> Any:
        """All elements along one axis."""
        return self.reshape(-1)

    ravel = flatten

    def squeeze(self, axis: Any = None) -> Any:
        """Without axes of size 1: all of them, or the one given."""
        return self.recorder.operation("squeeze", self, axis)

    def _word(self, stub: Any, *args: Any, **kwargs: Any) -> Any:
        return self.recorder.word(stub, (self, *args), kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        """What there is not. Names with an underscore are asked for by other libraries, which go without."""
        if name.startswith("_") or name in TracedTensor.__slots__:
            raise AttributeError(name)
        self.recorder.lacks(self, name)
        raise AssertionError

    def __getitem__(self, key: Any) -> Any:
        return self.recorder.subscript(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.recorder.refuse("graph-assignment", self, "assignment")

    def __len__(self) -> int:
        size = self.type.shape[0] if self.type.shape else 0
        return size if isinstance(size, int) and self.type.shape else self._refuse("len()")

    def __iter__(self) -> NoReturn:
        self._refuse("iteration")

    def __contains__(self, item: object) -> NoReturn:
        self._refuse("in")

    def __bool__(self) -> NoReturn:
        self._refuse("bool()")

    def __int__(self) -> NoReturn:
        self._refuse("int()")

    def __float__(self) -> NoReturn:
        self._refuse("float()")

    def __index__(self) -> NoReturn:
        self._refuse("use as a Python int")

    def item(self) -> NoReturn:
        self._refuse("item()")

    def tolist(self) -> NoReturn:
        self._refuse("tolist()")

    def nonzero(self) -> NoReturn:
        self.recorder.refuse("graph-data-shape", self, "nonzero()")
        raise AssertionError

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse("np.asarray()")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy's functions on traced tensors, and its operators with an array on the left."""
        fn = UFUNCS.get(ufunc.__name__)
        if method != "__call__" or kwargs or fn is None:
            self.recorder.refuse("graph-numpy", self, f"np.{ufunc.__name__}")
        return self.recorder.operation(str(fn), *inputs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        self.recorder.refuse("graph-numpy", self, f"np.{func.__name__}")
        raise AssertionError

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """PyTorch's functions on traced tensors, and its operators with a tensor of PyTorch's on the left."""
        traced = next(a for a in args if isinstance(a, TracedTensor))
        name = func.__name__.strip("_")
        fn = UFUNCS.get(name) or TORCH_FUNCTIONS.get(name)
        if kwargs or fn is None:
            traced.recorder.refuse("graph-numpy", traced, f"torch.{name}")
        return traced.recorder.operation(str(fn), *args)

    def _refuse(self, operation: str) -> NoReturn:
        self.recorder.refuse("graph-data", self, operation)
        raise AssertionError

    def __repr__(self) -> str:
        return f"<traced {self.type}>"


NOT_IN_FORMULAS = (*TracedTensor.__slots__, "type", "item", "tolist", "nonzero")
"""Attributes that are the compiler's, or there to be refused."""


def size_value(dim: Dim, recorder: Recorder) -> Any:
    """A size as formulas see it: an int where it is known."""
    return dim if isinstance(dim, int) else TracedSize(dim, recorder)


def dim_of(value: object) -> Dim | None:
    """The size that a value is, if it is one."""
    if isinstance(value, TracedSize):
        return value.dim
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(cast("int", value))
    return None


SIZE_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": _operator.add, "sub": _operator.sub, "mul": _operator.mul, "floordiv": symbolic.floordiv,
    "mod": symbolic.mod, "minimum": symbolic.minimum, "maximum": symbolic.maximum,
}  # fmt: skip
"""What sizes compute with each other, giving sizes."""
