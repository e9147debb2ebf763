"""Calls of kernels within a formula that is being traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tiledsl.api.calls.specs import front_end_argument, spec_key
from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, ScalarArgument, TensorArgument
from tiledsl.frontend.language.promotion import WEAK_DTYPES
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.frontend.trace.array_types import is_array
from tiledsl.frontend.trace.trace import Trace, describe
from tiledsl.frontend.trace.trace_elementwise import coerce, tensor
from tiledsl.frontend.trace.traced import TracedSize, TracedTensor
from tiledsl.ir.core import Function, InvalidIRError, Value
from tiledsl.ir.dtypes import bool_
from tiledsl.ir.graph_ops import Call, call_types
from tiledsl.ir.types import TensorType
from tiledsl.runtime.calls.specialise import DIVISOR
from tiledsl.support.errors import TileError, add_note

if TYPE_CHECKING:
    from tiledsl.api.kernels.kernel import Kernel
    from tiledsl.frontend.language.active_trace import Recorder


def call_in_trace(
    kernel: Kernel, recorder: Recorder, args: tuple[object, ...], kwargs: Mapping[str, object], out: object
) -> Any:
    """Records what a kernel does with whole tensors: its ops if it is a formula, else a call of it."""
    trace = cast("Trace", recorder)
    trace.arrive()
    if out is not None:
        trace.fail("graph-call-out", name=kernel.__name__)
    values = dict(zip(kernel.parameters.names, kernel.parameters.arrange(args, kwargs)))
    if not kernel.is_tensor_form:
        return _call_program(kernel, trace, values)
    state = (kernel.__name__, tuple(map(_description, values.values())))
    if state in trace.inlined:
        path = " calls ".join(f"`{name}`" for name, _ in [*trace.inlined[trace.inlined.index(state) :], state])
        trace.fail("graph-cycle", path=path)
    trace.inlined.append(state)
    try:
        return kernel.__wrapped__(*args, **kwargs)
    finally:
        trace.inlined.pop()


def _description(value: object) -> str:
    """Equal for arguments with which a formula does the same again."""
    if isinstance(value, TracedTensor):
        return str(value.type)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_description, cast('tuple[object, ...]', value)))})"
    return repr(value) if isinstance(value, (bool, int, float, str, TracedSize)) else f"{type(value)} {id(value)}"


def _call_program(kernel: Kernel, trace: Trace, values: Mapping[str, object]) -> Any:
    """A `graph.call` of a kernel in tile form: its results as the kernel returns them."""
    arguments: dict[str, Argument] = {}
    inputs: list[Value] = []
    for name, value in values.items():
        argument, given = _argument(kernel, trace, name, value)
        arguments[name] = argument
        inputs += [] if given is None else [given]
    function = _program(kernel, trace, arguments)
    try:
        types = call_types(function, inputs)
    except InvalidIRError as error:
        trace.fail("graph-call", *map(trace.tensor, inputs), name=kernel.__name__, reason=error)
    call = Call(trace.builder.location, types=types, inputs=inputs, callee=function.name)
    trace.builder.block.append(call)
    results = tuple(trace.tensor(result) for result in call.results)
    return results[0] if len(results) == 1 else results or None


def _argument(kernel: Kernel, trace: Trace, name: str, value: Any) -> tuple[Argument, Value | None]:
    """What an argument is for the front end of kernels, and the value that goes into the call."""
    if name in kernel.parameters.constants:
        if isinstance(value, (TracedTensor, TracedSize)):
            trace.fail("constexpr-run-time", name=name, function=kernel.__name__, text=trace.text_of(value),
                       what=describe(value))  # fmt: skip
        return ConstantArgument(value), None
    if is_array(value):
        value = tensor(trace, value)
    if isinstance(value, TracedSize):
        return ScalarArgument("int"), trace.size(value.dim)
    if isinstance(value, TracedTensor):
        if value.ndim:
            divisible = tuple(isinstance(dim, int) and dim % DIVISOR == 0 for dim in value.type.shape)
            return TensorArgument(value.dtype, (None,) * value.ndim, value.ndim - 1, divisible), value.value
        kind = "float" if value.dtype.is_float else "bool" if value.dtype == bool_ else "int"
        return ScalarArgument(kind, None if value.weak else value.dtype), value.value
    argument = front_end_argument(spec_key(name, value, constant=False))
    if isinstance(argument, ScalarArgument):
        dtype = WEAK_DTYPES[argument.kind] if argument.dtype is None else argument.dtype
        return argument, coerce(trace, value, dtype)
    return argument, None


def _program(kernel: Kernel, trace: Trace, arguments: Mapping[str, Argument]) -> Function:
    """The tile program of a kernel for such arguments: one for all calls of it."""
    from tiledsl.frontend.kernel.lower import lower_kernel  # costs start-up time
    from tiledsl.passes.analysis.races import refuse_races

    key = (kernel.__wrapped__, tuple(arguments.items()))
    if key not in trace.programs:
        try:
            function = lower_kernel(KernelSource(kernel.__wrapped__), arguments).entry
            refuse_races(function)
        except TileError as error:
            add_note(error, f"called from {trace.builder.location}")
            raise
        function.name = trace.function_name(kernel.__name__)
        _refuse_writes(kernel, trace, function)
        trace.programs[key] = function
        trace.functions.append(function)
    return trace.programs[key]


def _refuse_writes(kernel: Kernel, trace: Trace, function: Function) -> None:
    """In a formula values never change: a kernel that writes to what it is given has to return that."""
    last = function.body.terminator
    returned = () if last is None else last.operands
    for op in function.walk():
        for value in op.operands if op.effect == "write" else ():
            written = isinstance(value.type, TensorType) and value in function.parameters
            if written and value not in returned:
                trace.fail("graph-call-writes", name=kernel.__name__, parameter=value.name)
