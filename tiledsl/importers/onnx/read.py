"""Reading of ONNX's own objects: files, graphs, attributes, tensors."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.checker
from onnx import numpy_helper

from tiledsl.importers.onnx.model import Array, GraphBody, Model, Node, SourceText, ValueInfo
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail, make_error
from tiledsl.support.location import Location

OLDEST, NEWEST = 1, 28
"""The opsets of ONNX's own domain that are read; below 7, operators that mean the same today."""
OWN_DOMAINS = ("", "ai.onnx")

_Proto = Any
"""An object of ONNX: they are generated, and have no types."""


def read_model(model: str | os.PathLike[str] | bytes | _Proto) -> Model:
    """A model from a file (with its external data), its bytes, or an `onnx.ModelProto`.

    Raises TileRuntimeError for a file that is none, TileTypeError for other things, TileUnsupportedError for an opset
    that is not read, and TileSyntaxError for a model that is malformed.
    """
    proto, file = _load(model)
    versions = [int(entry.version) for entry in proto.opset_import if _domain(entry.domain) == ""]
    version = max(versions, default=None)
    if version is None and any(_domain(node.domain) == "" for node in proto.graph.node):
        fail("onnx-invalid", caller_location(), model=file, problem="it does not say which opset of ONNX it uses")
    if version is not None and not OLDEST <= version <= NEWEST:
        fail("onnx-opset", caller_location(), model=file, version=version, oldest=OLDEST, newest=NEWEST)
    try:
        onnx.checker.check_model(model if isinstance(model, (str, os.PathLike)) else proto)
        return model_of(proto, file)
    except onnx.checker.ValidationError as error:
        problem = " ".join(str(error).split())
        fail("onnx-invalid", caller_location(), model=file, problem=problem)
    except TileError:
        raise
    except Exception as error:  # ONNX's own functions raise whatever comes of what they are given
        problem = f"{type(error).__name__}: {error}"
        raise make_error("onnx-invalid", caller_location(), model=file, problem=problem) from error


def model_of(proto: _Proto, file: str) -> Model:
    """A model that needs no checks."""
    opsets = {_domain(entry.domain): int(entry.version) for entry in proto.opset_import}
    functions = {(_domain(f.domain), str(f.name), str(f.overload)): f for f in proto.functions}
    text = SourceText(file)
    graph = GraphReader(opsets, text).graph(proto.graph)
    text.show()
    return Model(graph.name, graph, functions, file)


def _load(model: Any) -> tuple[_Proto, str]:
    if isinstance(model, onnx.ModelProto):
        return model, f"<{model.graph.name or 'model'}>"
    try:
        if isinstance(model, bytes):
            return onnx.load_model_from_string(model), "<model>"
        if isinstance(model, (str, os.PathLike)):
            return onnx.load(Path(model)), str(model)
    except OSError as error:
        fail("onnx-file", caller_location(), file=str(model), problem=error.strerror or str(error))
    except Exception as error:  # what protobuf raises for other files depends on how it is built
        name = "the bytes" if isinstance(model, bytes) else str(model)
        fail("onnx-file", caller_location(), file=name, problem=f"it is no ONNX model ({type(error).__name__})")
    fail("onnx-no-model", caller_location(), kind=type(model).__name__)


def _domain(name: str) -> str:
    return "" if name in OWN_DOMAINS else str(name)


class GraphReader:
    """Reads the graphs of a model, or the body of a function called with `attributes` at a place."""

    def __init__(
        self,
        opsets: Mapping[str, int],
        text: SourceText | None,
        attributes: Mapping[str, Any] | None = None,
        place: Location | None = None,
    ) -> None:
        self._opsets = opsets
        self._text = text
        self._attributes = attributes or {}
        self._place = place
        self._count = 0

    def graph(self, proto: _Proto) -> GraphBody:
        """A graph with its weights."""
        constants: dict[str, Array] = {str(t.name): to_array(t) for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            constants[str(sparse.values.name)] = _dense(sparse)
        inputs = tuple(value_info(v) for v in proto.input if v.name not in constants)
        outputs = tuple(value_info(v) for v in proto.output)
        return GraphBody(str(proto.name), inputs, outputs, constants, self.nodes(proto.node))

    def nodes(self, protos: Sequence[_Proto]) -> tuple[Node, ...]:
        """Nodes in the order of the graph."""
        return tuple(self._node(proto) for proto in protos)

    def _node(self, proto: _Proto) -> Node:
        domain = _domain(proto.domain)
        inputs, outputs = tuple(map(str, proto.input)), tuple(map(str, proto.output))
        self._count += 1
        number = self._count
        place = self._place
        if self._text is not None:
            place = self._text.add(str(proto.op_type), str(proto.name), inputs, outputs)
        assert place is not None
        attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in self._attributes:
                    attributes[str(attribute.name)] = self._attributes[attribute.ref_attr_name]
            else:
                attributes[str(attribute.name)] = self.attribute(attribute)
        version = self._opsets.get(domain, 1)
        return Node(
            str(proto.op_type), domain, str(proto.name), inputs, outputs, attributes, version, number, place,
            str(proto.overload), self._opsets,
        )  # fmt: skip

    def attribute(self, proto: _Proto) -> Any:
        """The value of an attribute: numbers, strings, arrays, graphs, or tuples of them."""
        kinds = onnx.AttributeProto
        match proto.type:
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.INT:
                return int(proto.i)
            case kinds.STRING:
                return proto.s.decode(errors="replace")
            case kinds.TENSOR:
                return to_array(proto.t)
            case kinds.SPARSE_TENSOR:
                return _dense(proto.sparse_tensor)
            case kinds.GRAPH:
                return self.graph(proto.g)
            case kinds.FLOATS:
                return tuple(map(float, proto.floats))
            case kinds.INTS:
                return tuple(map(int, proto.ints))
            case kinds.STRINGS:
                return tuple(text.decode(errors="replace") for text in proto.strings)
            case kinds.TENSORS:
                return tuple(map(to_array, proto.tensors))
            case kinds.GRAPHS:
                return tuple(map(self.graph, proto.graphs))
            case _:  # types, which only operators of other kinds of values have
                return proto


def read_function(
    proto: _Proto, attributes: Mapping[str, Any], place: Location, opsets: Mapping[str, int]
) -> GraphBody:
    """The body of a function as it is called with attributes; those that it has defaults for may be missing.

    `opsets` are those of the caller, for domains of which the function says nothing.
    """
    opsets = {**opsets, **{_domain(entry.domain): int(entry.version) for entry in proto.opset_import}}
    plain = GraphReader(opsets, None, {}, place)
    given = {**{str(a.name): plain.attribute(a) for a in proto.attribute_proto}, **attributes}
    nodes = GraphReader(opsets, None, given, place).nodes(proto.node)
    inputs, outputs = (tuple(ValueInfo(str(n), "", None) for n in names) for names in (proto.input, proto.output))
    return GraphBody(str(proto.name), inputs, outputs, {}, nodes)


def value_info(proto: _Proto) -> ValueInfo:
    """What is said of a value."""
    which = proto.type.WhichOneof("value")
    if which != "tensor_type":
        return ValueInfo(str(proto.name), str(which or "").removesuffix("_type"), None)
    tensor = proto.type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
    if not tensor.HasField("shape"):
        return ValueInfo(str(proto.name), kind, None)
    return ValueInfo(str(proto.name), kind, tuple(map(_size_of, tensor.shape.dim)))


def _size_of(dim: _Proto) -> int | str | None:
    """A size; exporters write one that is not known as a number below 0, or leave it out."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return str(dim.dim_param) or None


def to_array(proto: _Proto) -> Array:
    """A tensor of a model as an array, in row-major order."""
    try:
        array = numpy_helper.to_array(proto)
    except Exception as error:  # whatever comes of its dtype, its shape and its bytes
        raise ValueError(f"the tensor `{proto.name}` cannot be read: {error}") from error
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _dense(sparse: _Proto) -> Array:
    """A sparse tensor as an array: coordinates are places in row-major order, or a row for each element."""
    values, places = to_array(sparse.values), to_array(sparse.indices)
    shape = tuple(sparse.dims)
    array = np.zeros(shape, values.dtype)
    if places.ndim == 1:
        array.reshape(-1)[places] = values
    else:
        array[tuple(places.T)] = values
    return array
