"""A Python function in, a GRAPH module out: the entry of tracing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiledsl.frontend.language.values import TensorSpec
from tiledsl.frontend.language.word_advice import argument_advice
from tiledsl.frontend.trace.array_types import is_array
from tiledsl.frontend.trace.structures import Keyed, Leaf, Sequenced, Structure, build, leaf_names, structure_of
from tiledsl.frontend.trace.trace import Trace, describe, identifier
from tiledsl.frontend.trace.trace_elementwise import dtype_of, tensor
from tiledsl.frontend.trace.trace_places import definition, parameter_place
from tiledsl.frontend.trace.trace_words import WORDS
from tiledsl.frontend.trace.traced import TracedTensor
from tiledsl.frontend.trace.traced_graph import TracedGraph
from tiledsl.ir.core import Function, Module, free_names
from tiledsl.ir.graph_ops import Return
from tiledsl.ir.symbolic import RESERVED, Dim, symbol
from tiledsl.ir.types import TensorType
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail

assert WORDS, "the words of the language are registered"


def trace_function(fn: Callable[..., Any], specs: Sequence[object], named: Mapping[str, object]) -> TracedGraph:
    """The graph of a function for arguments like these. Raises TileErrors located in the user's source."""
    name = _name_of(fn)
    arguments = _bound(fn, name, specs, named)
    place = definition(fn)
    trace = Trace(name, place)
    trace.builder.location = caller_location() or trace.start
    trace.sizes |= set(_named_sizes(arguments.values()))
    structures: dict[str, Structure] = {}
    values: dict[str, Any] = {}
    for argument, value in arguments.items():
        leaves: list[Any] = []
        structure = structure_of(value, argument, is_tensor_like, leaves)
        made = [_parameter(trace, wanted, leaf) for wanted, leaf in zip(leaf_names(structure), leaves)]
        for parameter in made:
            trace.declared[parameter.value.name] = parameter_place(place, argument)
        structures[argument] = structure
        values[argument] = build(structure, iter(made))
    inputs = tuple(parameter.name for parameter in trace.body.arguments)
    args, kwargs = _call_arguments(fn, values)
    returned = trace.run(fn, args, kwargs)
    results: list[Any] = []
    result = structure_of(returned, "result", lambda v: isinstance(v, TracedTensor) or is_array(v), results)
    trace.builder.location = trace.start
    _require_tensors(trace, returned, result, results)
    outputs = [tensor(trace, value).value for value in results]
    trace.builder.emit(Return, values=outputs)
    function = Function(name, trace.body, [], trace.start)
    called = _as_called(fn, structures)
    return TracedGraph(Module([function, *trace.functions]), inputs, trace.constants, called, result)


def unused_inputs(graph: TracedGraph) -> Iterator[str]:
    """The parameters that the formula does not read."""
    for parameter in graph.module.entry.parameters:
        if parameter.name in graph.inputs and not parameter.users:
            yield parameter.name


def _named_sizes(values: Iterable[object]) -> Iterator[str]:
    """The names that the user gave to sizes."""
    leaves: list[Any] = []
    for value in values:
        structure_of(value, "", lambda v: isinstance(v, TensorSpec), leaves)
    return (size for spec in leaves for size in spec.shape if isinstance(size, str))


def is_tensor_like(value: object) -> bool:
    """Whether an argument of `trace` stands for a tensor."""
    return isinstance(value, TensorSpec) or is_array(value)


def _name_of(fn: Callable[..., Any]) -> str:
    if not callable(fn):
        fail("graph-not-callable", caller_location(), what=describe(fn))
    name = getattr(fn, "__name__", type(fn).__name__)
    return "graph" if name == "<lambda>" else identifier(name)


def _bound(
    fn: Callable[..., Any], name: str, specs: Sequence[object], named: Mapping[str, object]
) -> dict[str, object]:
    """The arguments by parameter; those of `*args` and `**kwargs` by the names that their parameters will have."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a function that Python cannot look into
        return {**{f"arg_{i}": value for i, value in enumerate(specs)}, **named}
    try:
        bound = signature.bind(*specs, **named)
    except TypeError as error:
        problem, hint = argument_advice(error, signature.parameters, named)
        fail("call-arguments", caller_location(), name=name, error=problem, hint=hint)
    bound.apply_defaults()
    return dict(bound.arguments)


def _call_arguments(fn: Callable[..., Any], values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The values as positional and keyword arguments of `fn`."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return list(values.values()), {}
    bound = inspect.BoundArguments(signature, dict(values))  # pyright: ignore[reportArgumentType] - a dict will do
    return list(bound.args), dict(bound.kwargs)


def _as_called(fn: Callable[..., Any], structures: Mapping[str, Structure]) -> dict[str, Structure]:
    """The structures by the arguments of a call: those of `*args` and `**kwargs` are arguments of their own.

    formula(x, *rest, **named), traced with (x, y, scale=z)     =>     x, rest_0, scale
    """
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return dict(structures)
    taken = {name for name in structures if parameters[name].kind not in _SPREAD}
    called: dict[str, Structure] = {}
    for name, structure in structures.items():
        match structure:
            case Sequenced(_, items) if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
                parts = [(f"{name}_{i}", item) for i, item in enumerate(items)]
            case Keyed(items) if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                parts = [(str(key), item) for key, item in items]
            case _:
                called[name] = structure
                continue
        for wanted, item in parts:
            argument = free_names(taken, wanted)
            taken.add(argument)
            called[argument] = item
    return called


_SPREAD = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameter(trace: Trace, name: str, spec: Any) -> TracedTensor:
    """The parameter that stands for a spec or an array."""
    if not isinstance(spec, TensorSpec):
        return trace.parameter(name, trace.array_type(name, spec))
    shape: list[Dim] = []
    sizes: tuple[Any, ...] = spec.shape
    for axis, size in enumerate(sizes):
        if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
            shape.append(size)
        elif isinstance(size, str) and size.isidentifier():
            shape.append(symbol(f"{size}_" if size in RESERVED else size))
        elif size is None:
            shape.append(trace.new_size(f"{name}_{axis}"))
        else:
            trace.fail("spec-size", parameter=name, axis=axis, size=size)
    dtype = dtype_of(trace, "tile.spec", spec.dtype)
    return trace.parameter(name, TensorType(dtype, tuple(shape), len(shape) - 1 if shape else None))


def _require_tensors(trace: Trace, returned: Any, result: Structure, leaves: Sequence[Any]) -> None:
    """Raises TileTypeError if a formula returns nothing that it computes."""
    if not leaves or (not isinstance(result, Leaf) and not list(leaf_names(result))):
        trace.fail("graph-result", name=trace.name, what=describe(returned))
