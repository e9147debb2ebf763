"""Messages of modules: their arguments, weights, saved files."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError, TileShapeError, TileTypeError, TileUnsupportedError

ENTRIES: dict[str, ErrorSpec] = {
    "module-dtype": ErrorSpec(
        TileTypeError,
        "`{parameter}` has dtype {actual}, but `{module}` was built for {expected}",
        "convert it to {expected}, or trace the graph for {actual}",
    ),
    "module-shape": ErrorSpec(
        TileShapeError,
        "`{parameter}` has shape {actual}, but `{module}` was built for {expected}",
        "pass an array of shape {expected}, or trace the graph for {actual}",
    ),
    "weight-missing": ErrorSpec(
        TileTypeError,
        "`{module}` reads the weight `{parameter}`, {expected}, and was given none",
        "give an array for `{parameter}` where the module is built",
    ),
    "weight-dtype": ErrorSpec(
        TileTypeError,
        "the weight `{parameter}` has dtype {actual}, but `{module}` reads it as {expected}",
        "convert it to {expected}, or trace the graph with the array that is to be used",
    ),
    "weight-shape": ErrorSpec(
        TileShapeError,
        "the weight `{parameter}` has shape {actual}, but `{module}` reads it as {expected}",
        "give an array of shape {expected}, or trace the graph with the array that is to be used",
    ),
    "module-place": ErrorSpec(
        TileTypeError,
        "`{module}` was built for `{arch}`, but its arrays are {place}",
        'build it with `arch="{fitting}"`, or with `arch=None`, for wherever its arrays are',
    ),
    "module-strided": ErrorSpec(
        TileTypeError,
        "`{parameter}` of `{module}` is not row-major (strides {strides}), and its library cannot be asked for a copy",
        "pass a row-major array, at an address that is a multiple of 16",
    ),
    "module-number": ErrorSpec(
        TileUnsupportedError,
        "`{kernel}` takes a number, and in `{module}` gets `{value}`, which is known on the device alone",
        "have the kernel take a tensor of rank 0, or pass a Python number",
    ),
    "module-not-built": ErrorSpec(
        TileUnsupportedError,
        "`{module}` is built for wherever the arrays of its first call are, and was not called yet",
        'build it with an architecture, for example `arch="sm_90"`, or call it first',
    ),
    "saved-damaged": ErrorSpec(
        TileRuntimeError,
        "`{file}` is no saved module, or a damaged one: {reason}",
        "save the module again with `module.save(...)`",
    ),
    "saved-version": ErrorSpec(
        TileRuntimeError,
        "`{file}` was saved by tiledsl {actual}, and this is {expected}",
        "save the module again with this version, or load it with the one that saved it",
    ),
    "saved-machine": ErrorSpec(
        TileRuntimeError,
        "`{file}` was saved for another machine: {actual}; this one is {expected}",
        "save the module again on this machine, or on one like it",
    ),
}
