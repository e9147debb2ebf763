"""Messages of models in ONNX's format. `{node}` is a node with its operator; `{model}` a file."""

from tiledsl.support.errors import (
    ErrorSpec,
    TileRuntimeError,
    TileShapeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
)

ENTRIES = {
    "onnx-absent": ErrorSpec(
        TileUnsupportedError, "models of ONNX need the package `onnx`", 'install it: `pip install "tiledsl[onnx]"`'
    ),
    "onnx-file": ErrorSpec(TileRuntimeError, "{file} cannot be read: {problem}", "give the path of an ONNX model"),
    "onnx-no-model": ErrorSpec(
        TileTypeError, "a {kind} is no ONNX model", "give a path, the bytes of a file, or an onnx.ModelProto"
    ),
    "onnx-invalid": ErrorSpec(TileSyntaxError, "{model} is malformed: {problem}", "export the model again"),
    "onnx-opset": ErrorSpec(
        TileUnsupportedError,
        "{model} is of opset {version}; supported are {oldest} to {newest}",
        "convert it with onnx.version_converter.convert_version",
    ),
    "onnx-operator": ErrorSpec(TileUnsupportedError, "{node}: the operator {operator} is not supported", "{advice}"),
    "onnx-version": ErrorSpec(
        TileUnsupportedError,
        "{node}: {operator} of opset {version} is not supported; it is from opset {first} on",
        "convert the model with onnx.version_converter.convert_version",
    ),
    "onnx-attribute": ErrorSpec(
        TileUnsupportedError, "{node}: `{attribute}` is {value}; supported is {expected}", "export it in another way"
    ),
    "onnx-formula": ErrorSpec(
        TileShapeError,
        "{node} has inputs or attributes that its operator does not take ({problem})",
        "look at what makes its inputs, and at its attributes; if they are as ONNX has them, please report this node",
    ),
    "onnx-node": ErrorSpec(
        TileShapeError, "{node}: {problem}", "look at what makes its inputs, or export the model again"
    ),
    "onnx-dtype": ErrorSpec(
        TileTypeError,
        "{node} reads `{value}`, of dtype {dtype}; supported are {known}",
        "cast it to one of these",
    ),
    "onnx-data-shape": ErrorSpec(
        TileUnsupportedError,
        "{node}: {what} depends on the values of `{value}`, and so would sizes of the graph",
        "if it comes from an input, give that in `values`; tiledsl.importers.onnx.backend runs such models in parts",
    ),
    "onnx-host-part": ErrorSpec(
        TileUnsupportedError,
        "{node} runs on the host, and so cannot be in a graph",
        "tiledsl.importers.onnx.backend runs such models in parts",
    ),
    "onnx-call": ErrorSpec(TileTypeError, "{model} is called with {count} inputs", "give it arrays for ({names})"),
    "onnx-no-input": ErrorSpec(TileTypeError, "{model} has no input `{name}`", "its inputs are: {names}"),
    "onnx-input": ErrorSpec(
        TileUnsupportedError,
        "the input `{name}` of {model} is {what}, which a graph cannot take",
        "tiledsl.importers.onnx.backend runs such models",
    ),
    "onnx-output": ErrorSpec(
        TileUnsupportedError,
        "the output `{name}` of {model} is no tensor, which a graph cannot give",
        "tiledsl.importers.onnx.backend runs such models",
    ),
    "onnx-shape": ErrorSpec(
        TileShapeError,
        "the shape {given} is given for the input `{name}` of {model}, which has {shape}",
        "give one size for each axis",
    ),
    "onnx-open-sizes": ErrorSpec(
        TileShapeError, "{model} leaves sizes open: {missing}", "say what to compile for: {example}"
    ),
    "onnx-option": ErrorSpec(TileTypeError, "{option} {text} is not NAME=VALUE", "write `--size B=8`, `--shape x=8,3`"),
    "onnx-array": ErrorSpec(TileRuntimeError, "{file} cannot be read: {problem}", "give a file that numpy.save wrote"),
    "onnx-device": ErrorSpec(TileUnsupportedError, "the back end does not run on the device {device}", 'use "CPU"'),
}
