"""Ops of GRAPH that run other functions of the module: once, step by step, or where a target would rather."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiledsl.ir.core import Function, InvalidIRError, Op, Value
from tiledsl.ir.op_fields import dim_attribute, flag_attribute, name_attribute, operands
from tiledsl.ir.substitute import substitute_in_shape
from tiledsl.ir.symbolic import Dim, symbol_name
from tiledsl.ir.type_rules import require
from tiledsl.ir.types import AxisType, TensorType, Type


class Call(Op):
    """Runs another function of the module, of the TILE or the GRAPH vocabulary, on copies of the inputs.

    The result types have to be given, since an op does not see its module: `call_types` computes them.
    """

    name = "graph.call"
    inputs = operands()
    callee = name_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return _written_types(self)


class Serial(Op):
    """Gives `values`, which the tile program `callee` gives for `inputs` too, by fewer steps that cannot be shared.

    `values` are computed such that many threads share the work, as a sort by halving is; on a CPU a thread has rows of
    its own. `choose-serial` leaves one of the two. `on_gpus`: the program is for GPUs, `values` for CPUs.
    """

    name = "graph.serial"
    values = operands()
    inputs = operands()
    callee = name_attribute()
    on_gpus = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return tuple(_plain(v) for v in self.values)


class Loop(Op):
    """Runs a GRAPH function of the module `count` times, one step after the other.

    A step takes the carried values, which are `initial` at first, then element t along axis 0 of each of `sequences`,
    then `shared`, which are the same in every step. It returns the next carried values, then what is stacked: element t
    of a result with a new axis 0. The loop gives the last carried values, and then the stacked ones. `reverse`: from
    the last element to the first, in both. The result types have to be given: `loop_types` computes them.
    """

    name = "graph.loop"
    initial = operands()
    sequences = operands()
    shared = operands()
    callee = name_attribute()
    count = dim_attribute()
    reverse = flag_attribute()

    def infer_types(self) -> tuple[Type, ...]:
        return _written_types(self)


def _written_types(op: Op) -> tuple[Type, ...]:
    if not hasattr(op, "results"):  # while the op is being built
        raise InvalidIRError(f"the result types of a {op.name.removeprefix('graph.')} must be written")
    return tuple(v.type for v in op.results)


def called_by(functions: Iterable[Function]) -> set[str]:
    """The names of all functions that some functions run."""
    return {op.callee for function in functions for op in function.walk() if isinstance(op, (Serial, Call, Loop))}


def call_types(function: Function, inputs: Sequence[Value]) -> tuple[TensorType, ...]:
    """The types of what `function` returns for these inputs. Raises InvalidIRError for inputs that do not fit."""
    return _returned_types(function, [(f"%{v.name}", _plain(v)) for v in inputs])


def loop_types(step: Function, loop: Loop) -> tuple[TensorType, ...]:
    """The types of what a loop gives, whose callee is `step`. Raises InvalidIRError where they do not fit."""
    carried = [_plain(v) for v in loop.initial]
    sequences = [_plain(v) for v in loop.sequences]
    for value, type_ in zip(loop.sequences, sequences):
        length = type_.shape[0] if type_.shape else "no elements"
        require(length == loop.count, f"%{value.name} has {length} along axis 0, and there are {loop.count} steps")
    elements = [TensorType(type_.dtype, type_.shape[1:]) for type_ in sequences]
    values, types = (*loop.initial, *loop.sequences, *loop.shared), (*carried, *elements, *map(_plain, loop.shared))
    returned = _returned_types(step, [(f"%{value.name}", type_) for value, type_ in zip(values, types)])
    require(len(returned) >= len(carried), f"@{step.name} returns fewer values than are carried")
    for value, before, after in zip(loop.initial, carried, returned):
        require(before == after, f"%{value.name} is carried as {before}, but @{step.name} returns {after} for it")
    stacked = [TensorType(type_.dtype, (loop.count, *type_.shape)) for type_ in returned[len(carried) :]]
    return (*carried, *stacked)


def _returned_types(function: Function, given: Sequence[tuple[str, TensorType]]) -> tuple[TensorType, ...]:
    """What a function returns for inputs of these names and types."""
    parameters = function.parameters
    require(len(given) == len(parameters), f"@{function.name} takes {len(parameters)} inputs, not {len(given)}")
    expected = [_plain(p) for p in parameters]
    sizes: dict[str, Dim] = {}
    for (_, mine), theirs in zip(given, expected):
        for dim, actual in zip(theirs.shape, mine.shape):
            name = symbol_name(dim)
            if name is not None:
                sizes.setdefault(name, actual)
    for (what, mine), parameter, theirs in zip(given, parameters, expected):
        here = TensorType(theirs.dtype, substitute_in_shape(theirs.shape, sizes))
        require(mine == here, f"{what} is {mine}, but %{parameter.name} of @{function.name} is {here} here")
    last = function.body.terminator
    returned = [_plain(v) for v in last.operands] if last is not None else []
    return tuple(TensorType(t.dtype, substitute_in_shape(t.shape, sizes)) for t in returned)


def _plain(value: Value) -> TensorType:
    """The type as a tensor: of rank 0 for a scalar, and without its unit axis."""
    if isinstance(value.type, AxisType):
        raise InvalidIRError(f"%{value.name} is a block of an axis")
    return TensorType(value.type.dtype, value.type.shape)
