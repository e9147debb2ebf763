"""`tiledsl.from_onnx`: a model as one graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tiledsl.api.graphs.graph import Graph
from tiledsl.frontend.trace.trace import identifier
from tiledsl.importers.onnx.model import Model, ValueInfo
from tiledsl.importers.onnx.read import read_model
from tiledsl.importers.onnx.session import GraphSession
from tiledsl.importers.onnx.values import Value
from tiledsl.importers.onnx.walk import Walk
from tiledsl.ir.dtypes import DType, from_array_name
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import Location


def from_onnx(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    values: Mapping[str, object] | None = None,
) -> Graph:
    """A model as a graph, whose arguments are the inputs of the model in order: for `tiledsl.fuse(graph).build(arch)`.

    `model` is a path (external data is read from beside it), the bytes of a file, or an `onnx.ModelProto`; opsets 7 to
    28. A size that the model names stays open under that name, and one that it says nothing of under a name like
    `x_0`; `shapes` fixes them by input. An input that sizes depend on, as the shape of a Reshape, is given in `values`:
    the graph is for that value, and no longer has the input. Weights are the graph's constants. Gives one tensor, or a
    tuple of the outputs.

    Raises TileRuntimeError for what is no model, TileSyntaxError for a malformed one, TileUnsupportedError for
    operators that are not there and sizes that depend on data; each with the node.
    """
    try:
        return graph_of(read_model(model), shapes or {}, values or {})
    except TileError as error:
        raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's


def graph_of(model: Model, shapes: Mapping[str, Sequence[int | str]], values: Mapping[str, object]) -> Graph:
    """The graph of a model that was read."""
    known = [value.name for value in model.graph.inputs]
    for name in (*shapes, *values):
        if name not in known:
            names = ", ".join(known)
            fail("onnx-no-input", caller_location(), model=model.file, name=name, names=names)
    place = Location(model.file, 1)
    session = GraphSession(identifier(model.name or "model"), place)
    items: list[Any] = []
    for info in model.graph.inputs:
        if info.name in values:
            items.append(Value(info.name, array=np.asarray(values[info.name])))
            continue
        dtype, shape = _input_type(model, info, shapes.get(info.name))
        tensor = session.recording.parameter(info.name, dtype, shape)
        items.append(Value(info.name, tensor=tensor, recording=session.recording))
    outputs = Walk(model, session).run_body(model.graph, items, None)
    results: list[Value] = []
    for info, item in zip(model.graph.outputs, outputs):
        if not isinstance(item, Value):
            fail("onnx-output", place, model=model.file, name=info.name)
        results.append(item)
    last = model.graph.nodes[-1] if model.graph.nodes else None
    if last is None:
        fail("onnx-invalid", place, model=model.file, problem="its graph has no nodes")
    return session.recording.finish([session.tensor(value, last) for value in results])


def _input_type(model: Model, info: ValueInfo, given: Sequence[int | str] | None) -> tuple[DType, list[int | str]]:
    if info.kind in ("sequence", "optional", "map", "sparse_tensor", ""):
        fail("onnx-input", caller_location(), model=model.file, name=info.name, what=f"a {info.kind or 'value'}")
    if info.kind == "UNDEFINED":
        fail("onnx-input", caller_location(), model=model.file, name=info.name, what="a tensor of no dtype")
    numpy_dtype = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(info.kind))
    dtype = from_array_name(str(numpy_dtype))
    if dtype is None:
        fail("onnx-input", caller_location(), model=model.file, name=info.name, what=f"a tensor of {info.kind}")
    shape = info.shape if given is None else tuple(given)
    assert shape is not None, "the checker asks for it"
    if info.shape is not None and len(shape) != len(info.shape):
        text = list(info.shape)
        fail("onnx-shape", caller_location(), model=model.file, name=info.name, given=list(shape), shape=text)
    base = identifier(info.name)
    return dtype, [
        size if isinstance(size, int) else identifier(size) if size else f"{base}_{axis}"
        for axis, size in enumerate(shape)
    ]
