"""Tracing: a formula of whole tensors is run once, on objects that write down what is done to them as a GRAPH function.

What each word and operator records is in the modules `trace_*`, which register themselves in `WORDS` and `OPERATIONS`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeAlias, TypeVar

from tiledsl.frontend.language.active_trace import ACTIVE
from tiledsl.frontend.language.word_advice import argument_advice, function_advice, method_advice
from tiledsl.frontend.trace.array_types import array_dtype, array_shape, identity
from tiledsl.frontend.trace.trace_places import Places, is_internal, source_text, span
from tiledsl.frontend.trace.trace_weights import WeightNames
from tiledsl.frontend.trace.traced import NOT_IN_FORMULAS, TracedSize, TracedTensor
from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Block, Function, Number, Op, Value, free_names
from tiledsl.ir.dtypes import ALL, DType
from tiledsl.ir.graph_ops import Cast, Constant, Size
from tiledsl.ir.symbolic import Dim, symbol
from tiledsl.ir.types import TensorType, format_shape
from tiledsl.support.errors import Label, fail, make_error
from tiledsl.support.location import Location

OpT = TypeVar("OpT", bound=Op)
Handler: TypeAlias = Callable[..., Any]

WORDS: dict[Callable[..., Any], Handler] = {}
"""What records each word of the language: called with the trace and the word's arguments by name."""
OPERATIONS: dict[str, Handler] = {}
"""What records each operator and method that is no word: called with the trace and the operands."""


def records(*stubs: Callable[..., Any]) -> Callable[[Handler], Handler]:
    """Marks the handler of some words."""

    def register(handler: Handler) -> Handler:
        for stub in stubs:
            assert stub not in WORDS, f"tile.{stub.__name__} is recorded twice"
            WORDS[stub] = handler
        return handler

    return register


def performs(*names: str) -> Callable[[Handler], Handler]:
    """Marks the handler of some operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            assert name not in OPERATIONS, f"the operation {name} is recorded twice"
            OPERATIONS[name] = handler
        return handler

    return register


@cache
def _signature(stub: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(stub)


class Trace:
    """The function under construction. `constants` are the arrays from outside, by the parameter that each became."""

    def __init__(self, name: str, location: Location) -> None:
        self.name = name
        self.start = location
        self.body = Block()
        self.builder = Builder(self.body, location)
        self.places = Places(Trace.run.__code__)
        self.constants: dict[str, object] = {}
        self.functions: list[Function] = []
        """The tile programs that are called."""
        self.programs: dict[object, Function] = {}
        """The same by kernel and kinds of arguments."""
        self.inlined: list[tuple[str, object]] = []
        """The kernels in tensor form that run now, with what they were called with."""
        self._weights: dict[object, TracedTensor] = {}
        self.declared: dict[str, Location] = {}
        """Where each parameter stands in the user's source."""
        self.sizes: set[str] = set()
        """The names of sizes that are taken."""
        self._weight_names = WeightNames()
        self._taken: set[str] = set()

    def run(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Runs the formula with this trace as the one under way."""
        token = ACTIVE.set(self)
        try:
            return fn(*args, **kwargs)
        except RecursionError:
            self.fail("graph-recursion", name=self.name)
        except ValueError as error:
            self._explain_unpacking(error)
            raise
        finally:
            ACTIVE.reset(token)

    def _explain_unpacking(self, error: ValueError) -> None:
        """Says of `M, N = x.shape` what shapes there are, if that is what Python complains of."""
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is None or is_internal(last.tb_frame) or "values to unpack" not in str(error):
            return
        self.builder.location = span(last.tb_frame)
        self.fail("graph-unpack", *(TracedTensor(value, self) for value in self.body.arguments), error=error)

    # What formulas do

    def word(self, stub: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        self.arrive()
        name = f"tile.{stub.__name__}"
        try:
            bound = _signature(stub).bind(*args, **kwargs)
        except TypeError as error:
            problem, hint = argument_advice(error, _signature(stub).parameters, kwargs)
            self.fail("call-arguments", name=name, error=problem, hint=hint)
        bound.apply_defaults()
        handler = WORDS.get(stub)
        if handler is None:
            self.fail("graph-word", name=name, formula=self.name)
        return handler(self, *bound.args, **bound.kwargs)

    def operation(self, fn: str, *operands: Any) -> Any:
        self.arrive()
        return OPERATIONS[fn](self, *operands)

    def subscript(self, source: TracedTensor, key: Any) -> Any:
        self.arrive()
        return OPERATIONS["subscript"](self, source, key)

    def refuse(self, code: str, value: Any, operation: str) -> NoReturn:
        self.arrive()
        hint = function_advice(operation.rpartition(".")[2]) or "use the word of `tile` for it"
        self.fail(code, operation=operation, text=self.text_of(value), what=describe(value), hint=hint)

    def lacks(self, value: Any, name: str) -> NoReturn:
        if ACTIVE.get() is not self:
            raise AttributeError(name)
        self.arrive()
        known = [n for n in dir(TracedTensor) if not n.startswith("_") and n not in NOT_IN_FORMULAS]
        text = self.text_of(value)
        hint = method_advice(text, name, known) or f"it has: {', '.join(known)}"
        self.fail("graph-attribute", value, text=text, what=describe(value), name=name, hint=hint)

    def arrive(self) -> None:
        """Notes where the user's code is, and what it calls its tensors."""
        if ACTIVE.get() is not self:
            fail("graph-trace-over", self.places.here(), name=self.name)
        self.builder.location = self.places.here() or self.start
        for frame in self.places.frames():
            for name, value in list(frame.f_locals.items()):
                if isinstance(value, TracedTensor) and not value.value.name:
                    value.value.name = name
            break

    # What handlers do

    def emit(self, kind: type[OpT], **fields: Any) -> Value:
        """Records an op, and gives its only result."""
        return self.builder.emit(kind, **fields).result

    def tensor(self, value: Value, weak: bool = False) -> TracedTensor:
        """A value of the graph as formulas see it."""
        return TracedTensor(value, self, weak)

    def parameter(self, wanted: str, type_: TensorType) -> TracedTensor:
        """A new parameter of the function, of a name like `wanted`."""
        name = free_names(self._taken, identifier(wanted))
        self._taken.add(name)
        return TracedTensor(self.body.add_argument(type_, name), self)

    def new_size(self, wanted: str) -> Dim:
        """A symbol for a size that has no name."""
        name = free_names(self.sizes, identifier(wanted))
        self.sizes.add(name)
        return symbol(name)

    def function_name(self, wanted: str) -> str:
        """A name that no function of the module has."""
        return free_names({self.name, *(f.name for f in self.functions)}, identifier(wanted))

    def weight(self, array: Any, wanted: str = "") -> TracedTensor:
        """The parameter that stands for an array from outside, one for each array: of a name like `wanted`, or of what
        the user calls it."""
        key = identity(array)
        if key not in self._weights:
            name = wanted or self._weight_names.name(array, list(self.places.frames()))
            made = self.parameter(name, self.array_type(name, array))
            self._weights[key] = made
            self.constants[made.value.name] = array
        return self._weights[key]

    def array_type(self, name: str, array: Any) -> TensorType:
        """The type of a parameter for an array. Raises TileTypeError for a dtype that kernels do not have."""
        dtype = array_dtype(array)
        if dtype is None:
            known = ", ".join(d.name for d in ALL if d.bits >= 8)
            self.fail("array-dtype", parameter=name, dtype=array.dtype, known=known)
        shape = array_shape(array)
        return TensorType(dtype, shape, len(shape) - 1 if shape else None)

    def constant(self, number: Number, dtype: DType) -> Value:
        """A number as a tensor of rank 0."""
        return self.emit(Constant, value=number, dtype=dtype)

    def size(self, dim: Dim) -> Value:
        """A size as an i64 tensor of rank 0."""
        return self.emit(Size, value=dim)

    def cast(self, value: Value, dtype: DType) -> Value:
        """`value` as `dtype`; itself if it is that already."""
        return value if type_of(value).dtype == dtype else self.emit(Cast, source=value, dtype=dtype)

    # Messages

    def fail(self, code: str, *operands: Any, **names: object) -> NoReturn:
        """Raises an error at the user's line; each tensor of `operands` is shown with where it came from."""
        here = self.builder.location
        found = dict.fromkeys(map(self._label, operands))
        labels = [label for label in found if label is not None and label.location != here]
        error = make_error(code, here, labels=labels, notes=(), **names)
        raise error

    def _label(self, operand: Any) -> Label | None:
        if not isinstance(operand, TracedTensor):
            return None
        op = operand.value.op
        type_ = f"{operand.dtype} of shape {format_shape(operand.type.shape)}"
        if op is None:
            what = "a weight" if operand.value.name in self.constants else "a parameter"
            place = self.declared.get(operand.value.name, self.start)
            return Label(place, f"`{operand.value.name}` is {what} of `{self.name}`: {type_}")
        return Label(op.location, f"`{self.text_of(operand)}` is made here: {type_}")

    def text_of(self, value: Any) -> str:
        """How the user writes an operand, as far as that can be told."""
        if not isinstance(value, TracedTensor):
            return repr(value) if isinstance(value, (int, float, TracedSize)) else f"<{type(value).__name__}>"
        op = value.value.op
        return value.value.name or (source_text(op.location) if op is not None else "") or "the operand"


def describe(value: Any) -> str:
    """What a value is, in the words of an error message."""
    if isinstance(value, TracedTensor):
        return str(value.type)
    if isinstance(value, TracedSize):
        return f"the size {value}"
    if value is None:
        return "None"
    if isinstance(value, (bool, int, float, str)):
        return f"the {type(value).__name__} {value!r}"
    return f"a {type(value).__name__}"


def type_of(value: Value) -> TensorType:
    """The type of a value of a graph."""
    assert isinstance(value.type, TensorType)
    return value.type


def identifier(text: str) -> str:
    """`text` as a name that IR text can hold."""
    name = re.sub(r"\W", "_", text)
    return name if name and not name[0].isdigit() else f"_{name}"
