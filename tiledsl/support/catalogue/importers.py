"""Messages of importing models. `{names}` are operators with the modules that they are in."""

from tiledsl.support.errors import ErrorSpec, TileUnsupportedError

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
    "torch-changes": ErrorSpec(
        TileUnsupportedError,
        "`{model}` changes {names}, and a graph changes nothing that it is given",
        'call `model.eval()`, or use `torch.compile(model, backend="tiledsl")`',
    ),
}
