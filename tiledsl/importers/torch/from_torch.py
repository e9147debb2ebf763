"""A model of PyTorch as a graph, by `torch.export`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import export

from tiledsl.api.graphs.graph import Graph
from tiledsl.api.graphs.trace_and_fuse import trace
from tiledsl.frontend.language.values import TensorSpec
from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.frontend.trace.trace import identifier
from tiledsl.importers.torch.export_model import exported, taken_apart
from tiledsl.importers.torch.refusals import refuse_changes, refuse_missing, refuse_unknown_values
from tiledsl.importers.torch.run_nodes import Held, NodeRun, formula_of, key_of, missing
from tiledsl.support.caller import caller_location


def from_torch(model: Any, /, *example: Any, dynamic_shapes: Any = None, **named: Any) -> Graph:
    """The graph of a PyTorch module or function, for arguments like these; `tiledsl.fuse(graph).build()` compiles it.

    `example` and `named` are arguments of a call: tensors, of which only dtype and shape are read, in whatever nesting
    PyTorch knows, and other values, which become part of the graph. Parameters and buffers become weights of the graph,
    `Graph.constants`, without a copy. `dynamic_shapes` is that of `torch.export.export`: a size that it leaves open
    becomes a named one. The graph is called with the arguments that hold tensors, and gives what the model returns.

    >>> graph = tiledsl.from_torch(model.eval(), torch.zeros(1, 3, 224, 224))

    Raises TileUnsupportedError, at the model's line, for operators that have no formula, for what changes a buffer or
    an argument, and for what is decided by values of tensors; TileTypeError for arguments, results and dynamic shapes
    that no graph can have; TileRuntimeError for what the model itself raises.
    """
    module = model if isinstance(model, torch.nn.Module) else _Function(model)
    program = exported(_name(model), module, example, named, dynamic_shapes)
    refuse_unknown_values(_name(model), program)
    if not _is_written(program):
        program = taken_apart(_name(model), program, _decompositions())
    refuse_changes(_name(model), program)
    nodes = [node for node in program.graph.nodes if node.op in ("call_function", "get_attr")]
    refuse_missing(_name(model), nodes)
    names = _arguments(model, example, named)
    shapes: Any = dynamic_shapes or {}
    said = cast("Mapping[str, Any]", shapes if isinstance(shapes, Mapping) else dict(zip(names, shapes)))
    specs = _specs(program, (example, named), {name: said.get(name) for name in names})
    return trace(_formula(model, program, nodes, names, (example, named)), *specs)


class _Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        torch.nn.Module.__init__(self)

        def forward(*args: Any, **named: Any) -> Any:
            return function(*args, **named)

        self.forward: Callable[..., Any] = function if _tells_arguments(function) else forward


def _tells_arguments(function: Callable[..., Any]) -> bool:
    """Whether Python knows the arguments of a function: of some that PyTorch has in C++ it does not."""
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        return False
    return True


def _name(model: Any) -> str:
    name = getattr(model, "__name__", type(model).__name__)
    return "graph" if name == "<lambda>" else identifier(name)


def _is_written(program: Any) -> bool:
    """Whether each operator of a program has a formula already, and changes nothing: then it need not be taken apart,
    which takes as long as exporting it."""
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    changing = [n for n in nodes if isinstance(n.target, torch._ops.OpOverload) and _changes(n)]
    return not missing(nodes) and not changing


def _changes(node: Any) -> bool:
    """Whether an operator writes to what it is given; norms that train do, without declaring it."""
    trains = key_of(node.target) in ("batch_norm.default", "instance_norm.default") and bool(node.args[5])
    return trains or bool(node.target._schema.is_mutable)


def _decompositions() -> Any:
    """PyTorch's table of how operators are made of others, less those that have a formula."""
    table = export.default_decompositions()
    for operator in list(table):
        if formula_of(operator) is not None:
            del table[operator]
    return table


def _arguments(model: Any, example: Sequence[Any], named: Mapping[str, Any]) -> list[str]:
    """The names of the arguments that were given, in order."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    try:
        bound = inspect.signature(function).bind(*example, **named)
    except (TypeError, ValueError):
        return [*(f"arg_{i}" for i in range(len(example))), *named]
    names: list[str] = []
    for parameter, value in bound.arguments.items():
        kind = bound.signature.parameters[parameter].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter}_{i}" for i in range(len(value))]
        elif kind is not inspect.Parameter.VAR_KEYWORD and parameter not in named:
            names.append(parameter)
    return [*names, *named]


def _formula(
    model: Any,
    program: Any,
    nodes: Sequence[Any],
    names: Sequence[str],
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
) -> Callable[..., Any]:
    """A function of the arguments that were given, which runs the nodes."""
    example, named = arguments
    called = caller_location()
    returned = export.graph_signature.OutputKind.USER_OUTPUT

    def formula(*values: Any) -> Any:
        given = dict(zip(names, values))
        kwargs = {name: given[name] for name in named}
        leaves, _ = torch.utils._pytree.tree_flatten((tuple(values[: len(example)]), kwargs))
        run = NodeRun(called)
        run.values |= dict(zip(_placeholders(program), _inputs(program, leaves)))
        run.run(nodes)
        results = run.read(next(node for node in program.graph.nodes if node.op == "output").args[0])
        kept = [r for r, spec in zip(results, program.graph_signature.output_specs) if spec.kind == returned]
        return torch.utils._pytree.tree_unflatten(kept, program.call_spec.out_spec)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(identifier(name), kind) for name in names])
    formula.__name__ = _name(model)
    formula.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] - what `inspect` looks for
    formula.__wrapped__ = model.forward if isinstance(model, torch.nn.Module) else model  # pyright: ignore[reportFunctionMemberAccess]
    return formula


def _placeholders(program: Any) -> list[Any]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _inputs(program: Any, leaves: Sequence[Any]) -> list[Any]:
    """What the placeholders of a program stand for: parameters, buffers, constants, and the leaves of the arguments."""
    kinds = export.graph_signature.InputKind
    given = iter(leaves)
    found: list[Any] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == kinds.USER_INPUT:
            found.append(next(given))
            continue
        held = program.state_dict.get(spec.target)
        if held is None:
            held = program.constants[spec.target]
        found.append(Held(held, identifier(spec.target), spec.kind == kinds.CONSTANT_TENSOR))
    return found


def _specs(program: Any, arguments: tuple[Sequence[Any], Mapping[str, Any]], shapes: Mapping[str, Any]) -> list[Any]:
    """The arguments in order, tensors of which sizes are open as specs with names for these.

    `shapes`: what the user said of the shapes of each argument, by its name.
    """
    kinds = export.graph_signature.InputKind
    values = [
        node.meta["val"]
        for node, spec in zip(_placeholders(program), program.graph_signature.input_specs)
        if spec.kind == kinds.USER_INPUT
    ]
    leaves, structure = torch.utils._pytree.tree_flatten((tuple(arguments[0]), dict(arguments[1])))
    said: list[Any] = []
    for argument, value in zip(shapes.values(), (*arguments[0], *arguments[1].values())):
        _said_of(value, argument, said)
    names: dict[str, str] = {}
    for value, shape in zip(values, said):
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                dim = _entry(shape, axis)
                if not isinstance(size, int) and isinstance(dim, export.Dim):
                    names[str(size)] = identifier(dim.__name__)
    made = [_spec(leaf, value, names) for leaf, value in zip(leaves, values)]
    args, kwargs = torch.utils._pytree.tree_unflatten(made, structure)
    return [*args, *kwargs.values()]


def _entry(said: Any, key: Any) -> Any:
    """What is said of one axis or item; None if nothing is."""
    given: Any = said or {}
    if isinstance(given, Mapping):
        return cast("Mapping[Any, Any]", given).get(key)
    return given[key]


def _said_of(value: Any, shapes: Any, found: list[Any]) -> None:
    """Appends what is said of each leaf of an argument; None where nothing is."""
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        for part, said in zip(parts, shapes or [None] * len(parts)):
            _said_of(part, said, found)
    elif isinstance(value, dict):
        for key, part in cast("Mapping[Any, Any]", value).items():
            _said_of(part, _entry(shapes, key), found)
    else:
        found.append(shapes)


def _spec(leaf: Any, value: Any, names: Mapping[str, str]) -> Any:
    """A tensor by its dtype and shape, sizes that are open by name; anything else as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    dtype = array_dtype(leaf)
    if dtype is None or not isinstance(value, torch.Tensor):
        return leaf
    sizes = [int(s) if isinstance(s, int) else names.get(str(s)) or identifier(str(s)) for s in value.shape]
    return TensorSpec(tuple(sizes), dtype)
