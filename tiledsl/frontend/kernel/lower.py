"""Python function in, TILE module out: the front end's entry."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tiledsl.frontend.kernel.arguments import Argument, ConstantArgument, ScalarArgument, TensorArgument
from tiledsl.frontend.kernel.calls import call
from tiledsl.frontend.kernel.frame import Frame
from tiledsl.frontend.kernel.statements import run
from tiledsl.frontend.language import program as language
from tiledsl.frontend.language.promotion import WEAK_DTYPES
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.frontend.words.access import tensor_type
from tiledsl.frontend.words.lowering import Lowering
from tiledsl.frontend.words.values import FrontValue, Static, Tensor, Tile, Tuple, describe
from tiledsl.ir.core import Block, Fact, Function, Module, Value
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.tile_ops import Empty, Return
from tiledsl.ir.types import TensorType, scalar
from tiledsl.support.location import Location


def lower_kernel(source: KernelSource, arguments: Mapping[str, Argument]) -> Module:
    """The TILE module (form `tile`) of a kernel, specialised on its arguments.

    The entry has a parameter for each tensor and scalar argument, in the order of the signature, and returns the
    kernel's outputs. A parameter that `arguments` leaves out takes its default as a compile-time value. Raises
    TileErrors located in the user's source for everything that the language does not have.
    """
    location = source.location(source.tree)
    body = Block()
    low = Lowering(body, location, call)
    low.inlining.append(source)
    frame = Frame(low, source, None, {})
    declared = _declare_parameters(frame, arguments)
    if not _has_grid(source, source.tree):
        frame.fail(source.tree, "tensor-form", name=source.name)
    returned = run(frame, source.tree.body)
    at = location if returned is None else returned.location
    with low.builder.at(at):
        outputs = [] if returned is None else list(_outputs(frame, returned.value, returned.location))
        low.builder.emit(Return, values=outputs)
    _drop_unused(body)
    facts = [Fact(low.sizes.resolve(dim), 16) for dim in declared]
    facts = [fact for fact in dict.fromkeys(facts) if not isinstance(fact.dim, int)]
    origins = [replace(o, size=low.sizes.resolve(o.size)) for o in low.sizes.origins]
    return Module([Function(source.name, body, facts, location, list(dict.fromkeys(origins)))])


def _drop_unused(body: Block) -> None:
    """Takes out new tensors that nobody writes, reads or returns: a call would have to make them."""
    for op in list(body.ops):
        if isinstance(op, Empty) and not op.result.users:
            op.erase()


def _declare_parameters(frame: Frame, arguments: Mapping[str, Argument]) -> list[Dim]:
    """Binds the parameters; gives the sizes that are promised to be multiples of 16."""
    low, source = frame.low, frame.source
    shared: dict[str, Dim] = {}
    divisible: list[Dim] = []
    body = low.builder.block
    for name, parameter in source.signature.parameters.items():
        argument = arguments.get(name)
        frame.assigned[name] = source.location(source.tree)
        match argument:
            case TensorArgument():
                dims = tuple(_axis_size(frame, name, i, given, shared) for i, given in enumerate(argument.shape))
                divisible += [dim for dim, promised in zip(dims, argument.divisible) if promised]
                low.require_supported(argument.dtype)
                value = body.add_argument(TensorType(argument.dtype, dims, argument.unit), name)
                frame.scope[name] = Tensor(value, name, tuple(range(len(dims))), is_parameter=True)
            case ScalarArgument():
                dtype = WEAK_DTYPES[argument.kind] if argument.dtype is None else argument.dtype
                weak = argument.dtype is None
                frame.scope[name] = Tile(body.add_argument(scalar(dtype), name), weak)
            case ConstantArgument():
                frame.scope[name] = frame.constant(source.tree, argument.value)
            case None:
                assert parameter.default is not parameter.empty, f"no argument for {name}"
                frame.scope[name] = frame.constant(source.tree, parameter.default)
    return divisible


def _axis_size(frame: Frame, name: str, axis: int, given: int | str | None, shared: dict[str, Dim]) -> Dim:
    """The size of one axis of a parameter; axes that the caller gave one name share a symbol."""
    if isinstance(given, int):
        return given
    if given is None:
        return frame.low.sizes.declare(f"{name}_{axis}")
    if given not in shared:
        shared[given] = frame.low.sizes.declare(given)
    return shared[given]


def _has_grid(source: KernelSource, tree: ast.FunctionDef) -> bool:
    """Whether the body has a `tile.grid`, so that it is in tile form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call):
            match node.iter.func:
                case ast.Attribute(value=ast.Name(id=module), attr=word):
                    _, owner = source.lookup(module)
                    found: object = getattr(owner, word, None)
                case ast.Name(id=word):
                    _, found = source.lookup(word)
                case _:
                    found = None
            if found is language.grid:
                return True
    return False


def _outputs(frame: Frame, value: FrontValue, location: Location) -> Iterator[Value]:
    """The tensors that a kernel returns."""
    match value:
        case Static(value=None):
            return
        case Tuple(items=items):
            for item in items:
                yield from _outputs(frame, item, location)
        case Tensor() as tensor:
            if tensor.permutation != tuple(range(len(tensor.permutation))):
                frame.low.fail("return-view", name=tensor.name, type=tensor_type(tensor))
            yield tensor.value
        case _:
            frame.low.fail("return-kind", what=describe(value))
