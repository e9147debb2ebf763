"""Models in ONNX's format with a fault or two: nodes, attributes, weights, types and bytes of valid ones, changed."""

# the objects of ONNX are generated, and have no types
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import onnx
import onnx.backend.test.loader as loader

from tiledsl.importers.onnx.register import OPERATORS

MOST_BYTES = 4000
"""Models that are larger have large weights; they are left out."""
INTS = (-1, 0, 1, 2, 3, 7, -2, -9, 64, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 63), (1 << 63) - 1)
FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"))
NAMES = ("", "x", "nothing", "1", "a b", "\N{SNOWMAN}")

Mutation = Callable[[Any, Random], None]
"""Changes a model in place. Raises IndexError where there is nothing of the kind."""


@cache
def valid_models() -> tuple[bytes, ...]:
    """The models of ONNX's own tests of operators, small ones."""
    found: list[bytes] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the expected results of some are infinite
        cases = loader.load_model_tests(kind="node")
    for case in cases:
        if case.model is not None:
            found.append(case.model.SerializeToString())
        elif case.model_dir is not None:
            found.append((Path(case.model_dir) / "model.onnx").read_bytes())
    return tuple(sorted({data for data in found if len(data) < MOST_BYTES}))


def mutant(random: Random) -> bytes:
    """The bytes of a model that is no longer quite what it was."""
    data = random.choice(valid_models())
    if random.random() < 0.15:
        return _bytes(data, random)
    model = onnx.load_model_from_string(data)
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        with suppress(LookupError, ValueError, TypeError, OverflowError):  # nothing of the kind, or protobuf refuses it
            random.choice(MUTATIONS)(model, random)
    return model.SerializeToString()


def _bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(changed))
        match random.randrange(3):
            case 0:
                changed[at] ^= 1 << random.randrange(8)
            case 1:
                del changed[at : at + random.randrange(1, 9)]
            case _:
                changed[at:at] = random.randbytes(random.randrange(1, 9))
        if not changed:
            break
    return bytes(changed)


def _node(model: Any, random: Random) -> Any:
    return random.choice(model.graph.node)


def drop_node(model: Any, random: Random) -> None:
    del model.graph.node[random.randrange(len(model.graph.node))]


def repeat_node(model: Any, random: Random) -> None:
    model.graph.node.append(copy.deepcopy(_node(model, random)))


def other_operator(model: Any, random: Random) -> None:
    domain, name = random.choice(sorted(OPERATORS))
    node = _node(model, random)
    node.op_type = random.choice((name, name, "Nothing"))
    node.domain = random.choice((domain, node.domain))


def other_input(model: Any, random: Random) -> None:
    node = _node(model, random)
    known = [value.name for value in (*model.graph.input, *model.graph.initializer)]
    node.input[random.randrange(len(node.input))] = random.choice((*known, *NAMES))


def more_inputs(model: Any, random: Random) -> None:
    node = _node(model, random)
    known = [value.name for value in (*model.graph.input, *model.graph.initializer)]
    node.input.append(random.choice((*known, "")))


def fewer_inputs(model: Any, random: Random) -> None:
    node = _node(model, random)
    del node.input[random.randrange(len(node.input))]


def other_outputs(model: Any, random: Random) -> None:
    node = _node(model, random)
    match random.randrange(3):
        case 0:
            del node.output[random.randrange(len(node.output))]
        case 1:
            node.output.append(random.choice(NAMES))
        case _:
            node.output[random.randrange(len(node.output))] = random.choice(NAMES)


def other_attribute(model: Any, random: Random) -> None:
    attribute = random.choice(_node(model, random).attribute)
    match random.randrange(6):
        case 0:
            attribute.i = random.choice(INTS)
        case 1:
            attribute.f = random.choice(FLOATS)
        case 2:
            attribute.s = random.choice((b"", b"nothing", b"\xff", b"SAME_UPPER", b"linear"))
        case 3:
            attribute.ints[random.randrange(len(attribute.ints))] = random.choice(INTS)
        case 4:
            attribute.ints.append(random.choice(INTS))
        case _:
            del attribute.ints[random.randrange(len(attribute.ints))]


def other_kind_of_attribute(model: Any, random: Random) -> None:
    attribute = random.choice(_node(model, random).attribute)
    attribute.type = random.choice(onnx.AttributeProto.AttributeType.values())


def drop_attribute(model: Any, random: Random) -> None:
    node = _node(model, random)
    del node.attribute[random.randrange(len(node.attribute))]


def new_attribute(model: Any, random: Random) -> None:
    names = [entry for entries in OPERATORS.values() for one in entries for entry in one.attributes]
    value = random.choice((random.choice(INTS), random.choice(FLOATS), "text", [1, 2], [0.5]))
    _node(model, random).attribute.append(onnx.helper.make_attribute(random.choice(sorted({*names, "nothing"})), value))


def _weight(model: Any, random: Random) -> Any:
    inside = [a.t for node in model.graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
    return random.choice([*model.graph.initializer, *inside])


def other_weight(model: Any, random: Random) -> None:
    weight = _weight(model, random)
    match random.randrange(5):
        case 0:
            weight.dims[random.randrange(len(weight.dims))] = random.choice(INTS[:9])
        case 1:
            weight.dims.append(random.choice((-1, 0, 1, 2)))
        case 2:
            weight.data_type = random.choice(onnx.TensorProto.DataType.values())
        case 3:
            weight.raw_data = weight.raw_data[: random.randrange(1 + len(weight.raw_data))]
        case _:
            del weight.dims[random.randrange(len(weight.dims))]


def input_as_weight(model: Any, random: Random) -> None:
    """An input gets a value, so that what depends on it is computed when the model is read."""
    value = random.choice(model.graph.input)
    kind = value.type.tensor_type
    shape = [dim.dim_value or 2 for dim in kind.shape.dim][:4]
    count = 1
    for size in shape:
        count *= size
    if count > 4096:
        raise IndexError
    numbers = [random.choice((0, 1, 2, -1, 3, 5)) for _ in range(count)]
    model.graph.initializer.append(onnx.helper.make_tensor(value.name, kind.elem_type, shape, numbers))


def other_type(model: Any, random: Random) -> None:
    tensor = random.choice(model.graph.input).type.tensor_type
    match random.randrange(5):
        case 0:
            tensor.elem_type = random.choice(onnx.TensorProto.DataType.values())
        case 1:
            random.choice(tensor.shape.dim).dim_value = random.choice((-1, 0, 1, 2, 3, 5, 64))
        case 2:
            random.choice(tensor.shape.dim).dim_param = random.choice(NAMES)
        case 3:
            del tensor.shape.dim[random.randrange(len(tensor.shape.dim))]
        case _:
            tensor.shape.dim.add().dim_value = random.choice((0, 1, 2, 3))


def no_shape(model: Any, random: Random) -> None:
    random.choice(model.graph.input).type.tensor_type.ClearField("shape")


def other_result(model: Any, random: Random) -> None:
    random.choice(model.graph.output).name = random.choice((*NAMES, model.graph.input[0].name))


def other_opset(model: Any, random: Random) -> None:
    random.choice(model.opset_import).version = random.choice((-1, 0, 1, 6, 7, 9, 11, 13, 18, 22, 28, 99))


MUTATIONS: tuple[Mutation, ...] = (
    drop_node, repeat_node, other_operator, other_input, other_input, more_inputs, fewer_inputs, other_outputs,
    other_attribute, other_attribute, other_attribute, other_kind_of_attribute, drop_attribute, new_attribute,
    new_attribute, other_weight, other_weight, input_as_weight, input_as_weight, other_type, other_type, no_shape,
    other_result, other_opset,
)  # fmt: skip
