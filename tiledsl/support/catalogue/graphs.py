"""Messages of tracing: formulas of whole tensors. `{text}` is an operand as written, `{what}` says what it is."""

from tiledsl.support.errors import (
    ErrorSpec,
    TileAttributeError,
    TileError,
    TileShapeError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedError,
)


def _entry(kind: type[TileError], message: str, fix: str) -> ErrorSpec:
    return ErrorSpec(kind, message, fix)


def _syntax(message: str, fix: str) -> ErrorSpec:
    return _entry(TileSyntaxError, message, fix)


def _type(message: str, fix: str) -> ErrorSpec:
    return _entry(TileTypeError, message, fix)


def _shape(message: str, fix: str) -> ErrorSpec:
    return _entry(TileShapeError, message, fix)


def _unsupported(message: str, fix: str) -> ErrorSpec:
    return _entry(TileUnsupportedError, message, fix)


_FUNCTIONS = {
    "graph-not-callable": _type("tiledsl.trace takes a function, not {what}", "pass the function, and then specs"),
    "graph-result": _type("`{name}` returns {what}, and no tensor", "return the tensors that it computes"),
    "graph-arguments": _type("the graph `{name}` {problem}", "call it with arrays for ({known})"),
    "graph-word": _syntax(
        "{name} goes with a loop over `tile.grid`; `{formula}` has none, and so is a formula of whole tensors",
        "loop over blocks, `for m in tile.grid(M):`; or return what is computed, without {name}",
    ),
    "graph-cycle": _entry(TileError, "{path}, with the same arguments: that never ends", "break the cycle"),
    "graph-call": _shape("`{name}` cannot be called with these tensors: {reason}", "give it tensors that fit"),
    "graph-call-out": _type(
        "`out` of `{name}` stands in a formula, where tensors never change", "use what `{name}` returns"
    ),
    "graph-call-writes": _type(
        "`{name}` writes to its parameter `{parameter}` and does not return it: in a formula that would be lost",
        "return `{parameter}` from the kernel",
    ),
    "graph-recursion": _entry(
        TileError, "`{name}` calls itself without end: a formula is written down call by call", "let it end"
    ),
    "graph-trace-over": _syntax(
        "a tensor of the formula `{name}` is used after the formula was traced",
        "return it, instead of keeping it in a variable from outside",
    ),
}

_VALUES = {
    "graph-operand": _type("{what} meets a tensor", "use tensors, arrays and numbers"),
    "graph-data": _type(
        "{operation} of `{text}` ({what}) needs its values, which are not there while a formula is traced",
        "choose by `tile.where`, or pass the value as a static argument of `trace`",
    ),
    "graph-data-shape": _unsupported(
        "{operation} by `{text}` ({what}) would give a shape that depends on data",
        "keep the shape and choose by `tile.where`, or do this step outside of the formula",
    ),
    "graph-size-unknown": _type(
        "{operation} of the size `{text}` is not known while a formula is traced",
        "trace with a number for that axis, or compute with the size: `tile.minimum(a, b)`",
    ),
    "graph-assignment": _type(
        "`{text}` cannot be assigned to: tensors of a formula never change",
        "make a new tensor, by `tile.where` or `tile.concat`",
    ),
    "graph-size-called": _type("a size is a number, which cannot be called", "write `x.shape[axis]`, or `x.size`"),
    "graph-attribute": _entry(TileAttributeError, "`{text}` is {what} and has no `{name}`", "{hint}"),
    "graph-numpy": _type("{operation} does not work on `{text}` ({what})", "{hint}"),
}

_SHAPES = {
    "graph-sizes-differ": _shape(
        "`{a}` of shape {first} and `{b}` of shape {second} do not broadcast: {left} may not be {right}",
        'give both axes one name in their specs, `tile.spec(("N", 4), dtype)`, or trace with numbers',
    ),
    "graph-unpack": _shape("{error}", "name as many sizes as the tensor has axes, or pass one of that rank"),
    "graph-axis": _shape("{name}: there is no axis {axis} in a tensor of rank {rank}", "{choices}"),
    "graph-squeeze": _shape("axis {axis} of `{text}` has the size {size}, not 1", "leave it out"),
    "graph-combiner": _unsupported(
        "{name} of whole tensors folds one tensor by `tile.maximum`, `tile.minimum`, `tile.sum` or `tile.prod`",
        "fold by a function of your own in a kernel in tile form, and call it",
    ),
    "graph-list": _type("{name} takes a tuple or list of tensors, not {what}", "write `{name}((a, b))`"),
    "graph-concat": _shape(
        "{name}: `{a}` of shape {first} and `{b}` of shape {second} differ beside axis {axis}",
        "give tensors whose other axes are equal",
    ),
    "graph-interleave": _shape(
        "tile.interleave: tensors of {lengths} elements along axis {axis} have none in turns",
        "give tensors as long as `{text}`, or the last ones shorter by one",
    ),
    "graph-split": _shape(
        "axis {axis} of `{text}`, of size {size}, cannot be split into {parts}", "give sizes that add up to {size}"
    ),
    "graph-pad": _type(
        "tile.pad: the widths {widths} do not say how much goes around {rank} axes",
        "give an int, a pair (before, after), or a pair for each axis",
    ),
    "graph-window": _shape(
        "tile.window of `{text}`: {reason}", "give a size that fits, and an int or one for each axis"
    ),
    "graph-einsum": _shape(
        'tile.einsum: "{formula}" does not fit `{a}` of shape {first} and `{b}` of shape {second}: {reason}',
        'write it as "bik,bkj->bij"',
    ),
    "graph-dot-rank": _shape("a product of `{text}`, which is {what} and has no axis", "multiply with `*`"),
    "graph-subscript": _type("{what} cannot subscript `{text}`", "use ints, slices, `None`, `...` or a tensor of ints"),
    "graph-slice-step": _unsupported("a slice of `{text}` has as its step {step}", "use an int other than 0"),
    "graph-slice-bound": _type(
        "the slice bound `{text}` of `{name}` is {what}, not a size", "gather instead: `x[start + tile.arange(n)]`"
    ),
    "graph-gather-axes": _unsupported(
        "two tensors of ints subscript `{text}`", "gather along one axis, then along the other"
    ),
    "graph-gather-apart": _unsupported(
        "a coordinate and a tensor of ints subscript `{text}` with other axes between them",
        "take the coordinate first: `x[0][..., index]`",
    ),
}

_LOOPS = {
    "scan-carry": _type(
        "a step of tiledsl.scan takes {before} as `{name}` and gives {now} (`{text}`) for the next step",
        "start with what the step gives: the same shape, and `.to(tile.{dtype})`",
    ),
    "scan-structure": _type(
        "a step of tiledsl.scan gives another structure than it takes as its carry: {problem}",
        "return the carry as it comes: a tuple for a tuple, a dict with the same keys for a dict",
    ),
    "scan-result": _type("a step of tiledsl.scan gives {what}", "return a pair, `(carry, y)`; y may be None"),
    "scan-rank": _shape(
        "tiledsl.scan steps along axis 0 of `{text}`, which is {what}", "let the step read what has no such axis"
    ),
    "scan-lengths": _shape(
        "tiledsl.scan: `{text}` has {count} elements along axis 0, and {other} says {first}",
        "cut all sequences to one length",
    ),
    "scan-count": _type(
        "the number of steps of tiledsl.scan is not known: {what}",
        "give `length=`, an int or a size, or sequences to step along",
    ),
}

_FUSION = {
    "fuse-no-graph": _type(
        "`fuse` takes a graph, not a value of type `{kind}`", "`tiledsl.fuse(tiledsl.trace(fn, *specs))`"
    ),
    "graph-sizes": _shape(
        "`{graph}` cannot have the sizes {sizes}: {problem}",
        "give it sizes that this line can have, or change the line",
    ),
    "fuse-sizes": _shape(
        "the graph `{graph}` leaves sizes open that are needed here: {missing}", "say them: `build(arch, {example})`"
    ),
    "fuse-one-module": _type(
        "`{what}` of `{graph}`, for which {count} modules have been made, not one",
        "build it for one architecture and for all open sizes: `build(arch, N=128)`",
    ),
}

ENTRIES = {**_FUNCTIONS, **_VALUES, **_SHAPES, **_LOOPS, **_FUSION}
