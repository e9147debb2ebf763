"""Operators that are made of others: functions that a model brings, and those that ONNX defines itself."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import defs, helper

from tiledsl.importers.onnx.model import Array, GraphBody, Node
from tiledsl.importers.onnx.read import GraphReader, read_function
from tiledsl.importers.onnx.session import Session
from tiledsl.importers.onnx.values import Item, Value
from tiledsl.ir.dtypes import DType, to_numpy


def function_body(node: Node, local: Any, items: Sequence[Item], session: Session) -> GraphBody | None:
    """The body of the function that a node calls; None if there is none."""
    if local is not None:
        return read_function(local, node.attributes, node.location, node.opsets)
    try:
        schema: Any = defs.get_schema(node.op, node.version, node.domain)
    except defs.SchemaError:
        return None
    attributes = {**_defaults(schema, node), **node.attributes}
    if schema.has_function:
        return read_function(schema.function_body, attributes, node.location, node.opsets)
    if not schema.has_context_dependent_function:
        return None
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.version]
    types = [_type_of(item, session).SerializeToString() for item in items]
    proto = helper.make_node(node.op, list(node.inputs), list(node.outputs), domain=node.domain)
    proto.attribute.extend(_attribute(name, value) for name, value in node.attributes.items())
    if not versions:
        return None
    made = schema.get_context_dependent_function_with_opset_version(versions[-1], proto.SerializeToString(), types)
    if not made:
        return None
    return read_function(onnx.FunctionProto.FromString(made), attributes, node.location, node.opsets)


def _defaults(schema: Any, node: Node) -> dict[str, Any]:
    reader = GraphReader({}, None, {}, node.location)
    found: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            found[str(name)] = reader.attribute(attribute.default_value)
    return found


def _attribute(name: str, value: Any) -> Any:
    if isinstance(value, GraphBody):
        return helper.make_attribute(name, _graph(value))
    if value.__class__.__name__ == "ndarray":
        array: Array = value
        return helper.make_attribute(name, onnx.numpy_helper.from_array(array))
    return helper.make_attribute(name, value)


def _graph(body: GraphBody) -> Any:
    """A graph as ONNX's own object: with as much as functions that are made for a node look at."""
    nodes: list[Any] = []
    for node in body.nodes:
        proto = helper.make_node(node.op, list(node.inputs), list(node.outputs), node.name, domain=node.domain)
        proto.attribute.extend(_attribute(name, value) for name, value in node.attributes.items())
        nodes.append(proto)
    ins, outs = (
        [helper.make_value_info(v.name, onnx.TypeProto()) for v in values] for values in (body.inputs, body.outputs)
    )
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in body.constants.items()]
    return helper.make_graph(nodes, body.name or "body", ins, outs, weights)


def _type_of(item: Item, session: Session) -> Any:
    """The type of a value as ONNX writes it."""
    if isinstance(item, Value):
        dtype = session.dtype(item)
        kind = helper.np_dtype_to_tensor_dtype(to_numpy(dtype) if isinstance(dtype, DType) else dtype)
        shape = [size if isinstance(size, int) else None for size in session.shape(item)]
        return helper.make_tensor_type_proto(kind, shape)
    if isinstance(item, list):
        inner = _type_of(item[0], session) if item else helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(inner)
    return onnx.TypeProto()
