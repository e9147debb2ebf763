"""Messages of the reference executors: arguments that do not fit, and faults found while a program runs."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError, TileShapeError, TileTypeError

ENTRIES: dict[str, ErrorSpec] = {
    "reference-argument-count": ErrorSpec(
        TileTypeError,
        "@{function} takes {expected} arguments, {actual} are given",
        "pass one argument for each of {parameters}",
    ),
    "reference-argument-type": ErrorSpec(
        TileTypeError,
        "%{parameter} of @{function} is {expected}, the argument is {actual}",
        "pass {wanted}",
    ),
    "reference-argument-rank": ErrorSpec(
        TileShapeError,
        "%{parameter} of @{function} is {expected}, the argument has shape {actual}",
        "pass an array of {rank} axes",
    ),
    "reference-size": ErrorSpec(
        TileShapeError,
        "axis {axis} of %{parameter} has size {actual}, but {dim} is {expected}{by}",
        "pass arrays whose sizes agree",
    ),
    "reference-size-unknown": ErrorSpec(
        TileShapeError,
        "axis {axis} of %{parameter} has size {dim}, and no parameter tells what {symbol} is",
        "give some parameter an axis whose size is just {symbol}",
    ),
    "reference-fact": ErrorSpec(
        TileShapeError,
        "@{function} was specialised for {fact}, but {dim} is {actual}",
        "compile it again without that fact, or pass sizes that keep it",
    ),
    "reference-read-only": ErrorSpec(
        TileTypeError,
        "%{tensor} is stored to, but its array is read-only",
        "pass a copy: `array.copy()`",
    ),
    "reference-promise": ErrorSpec(
        TileRuntimeError,
        "{op} promises that {promise}, but {actual}",
        "mend the pass, or the IR text, that made the promise",
    ),
    "reference-step": ErrorSpec(
        TileRuntimeError,
        "the step of this loop is 0",
        "give a step other than 0",
    ),
    "assertion-failed": ErrorSpec(
        TileRuntimeError,
        "assertion failed: {text} ({program})",
        "pass arguments for which the condition holds",
    ),
}
