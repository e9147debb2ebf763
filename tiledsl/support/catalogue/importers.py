"""Messages of importing models. `{names}` are operators with the modules that they are in."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError, TileShapeError, TileTypeError, TileUnsupportedError

ENTRIES: dict[str, ErrorSpec] = {
    "torch-absent": ErrorSpec(
        TileUnsupportedError, "`tiledsl.{name}` needs PyTorch, which is not installed", "pip install 'tiledsl[torch]'"
    ),
    "torch-operators": ErrorSpec(
        TileUnsupportedError,
        "`{model}` has operators for which there is no formula: {names}",
        'use `torch.compile(model, backend="tiledsl")`, where PyTorch runs these',
    ),
    "torch-random": ErrorSpec(
        TileUnsupportedError,
        "{operator} draws random numbers in `{model}`, and a graph draws none: it computes of its arguments alone",
        "draw them outside and pass them to `{model}` as an argument, or use "
        '`torch.compile(model, backend="tiledsl")`, where PyTorch draws them',
    ),
    "torch-training": ErrorSpec(
        TileUnsupportedError,
        "`{name}` is in training, where it draws random numbers ({detail}); graphs draw none: they are for evaluation",
        "call `model.eval()`; a function that is told so, as `F.dropout`, is given `training=self.training`",
    ),
    "torch-complex": ErrorSpec(
        TileUnsupportedError,
        "`{model}` has complex elements: {what} is of {dtype}; kernels have floats, integers and bool",
        'use `torch.compile(model, backend="tiledsl")`, where PyTorch runs these, or compute real and imaginary parts '
        "as tensors of their own",
    ),
    "torch-data-sizes": ErrorSpec(
        TileUnsupportedError,
        "in `{model}` the size of what {operator} gives depends on values; graphs have sizes that follow from shapes",
        "{fix}",
    ),
    "torch-branch": ErrorSpec(
        TileUnsupportedError,
        "`{model}` decides by the values of a tensor, `{text}`; a graph is written down without them: it can decide by "
        "shapes, dtypes and Python numbers",
        "compute both and choose: `torch.where(condition, a, b)`",
    ),
    "torch-number": ErrorSpec(
        TileUnsupportedError,
        "`{model}` makes a Python number of the values of a tensor, `{text}`; a graph is written down without them: "
        "its sizes and loops follow from shapes and Python numbers",
        "leave it a tensor, which PyTorch's functions take as well; a size or a count is passed to `{model}` as an int",
    ),
    "torch-dynamic": ErrorSpec(
        TileShapeError,
        "`{model}` does not hold for all sizes that `dynamic_shapes` leaves open: {reason}",
        "say {fixes}",
    ),
    "torch-dynamic-form": ErrorSpec(
        TileTypeError,
        "`dynamic_shapes` does not fit the arguments of `{model}`: {reason}",
        'a dict has the names of the arguments, `{{"x": {{0: torch.export.Dim("batch")}}}}`; a tuple has their order',
    ),
    "torch-argument": ErrorSpec(
        TileTypeError,
        "`{model}` is given a {kind}; graphs take tensors, numbers, strings, None, and tuples, lists and dicts of them",
        "pass its tensors and numbers, in a tuple, list or dict if there are several",
    ),
    "torch-result": ErrorSpec(
        TileTypeError,
        "`{model}` returns a {kind}; graphs return tensors, and tuples, lists and dicts of them",
        "return its tensors, in a tuple, list or dict if there are several",
    ),
    "torch-raises": ErrorSpec(
        TileRuntimeError,
        "`{model}` raises while it is written down: {kind}: {reason}",
        "call it with these arguments in PyTorch; where it does not fail there, use "
        '`torch.compile(model, backend="tiledsl")`',
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
        '{fix}, or use `torch.compile(model, backend="tiledsl")`',
    ),
    "torch-example": ErrorSpec(
        TileTypeError,
        "`{model}` cannot be called with one argument that is a {kind} of {count}: {reason}",
        "pass its parts one by one, `from_torch(model, *example)`: unlike `torch.export.export`, it takes no tuple",
    ),
}
