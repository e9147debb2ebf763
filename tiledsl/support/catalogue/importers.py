"""Messages of importing models. `{names}` are operators with the modules that they are in."""

from tiledsl.support.errors import ErrorSpec, TileTypeError, TileUnsupportedError

ENTRIES: dict[str, ErrorSpec] = {
    "torch-absent": ErrorSpec(
        TileUnsupportedError, "`tiledsl.{name}` needs PyTorch, which is not installed", "pip install 'tiledsl[torch]'"
    ),
    "torch-operators": ErrorSpec(
        TileUnsupportedError,
        "`{model}` has operators for which there is no formula: {names}",
        'use `torch.compile(model, backend="tiledsl")`, where PyTorch runs these',
    ),
    "torch-fallback": ErrorSpec(
        TileUnsupportedError,
        "without a fallback every operator has to be compiled, and some cannot be: {why}",
        "leave out `fullgraph=True`: PyTorch runs these",
    ),
    "torch-custom-op": ErrorSpec(
        TileTypeError, "an operator is made of a kernel or a function, not of a {what}", "pass what is called"
    ),
    "torch-custom-dtype": ErrorSpec(
        TileTypeError, "kernels know no elements of {dtype}", "convert the tensor before the operator is called"
    ),
    "torch-changes": ErrorSpec(
        TileUnsupportedError,
        "`{model}` changes {names}, and a graph changes nothing that it is given",
        'call `model.eval()`, or use `torch.compile(model, backend="tiledsl")`',
    ),
    "torch-example": ErrorSpec(
        TileTypeError,
        "`{model}` cannot be called with one argument that is a {kind} of {count}: {reason}",
        "pass its parts one by one, `from_torch(model, *example)`: unlike `torch.export.export`, it takes no tuple",
    ),
}
