"""Messages of the front end: what a kernel may say. `{text}` is an operand as written, `{what}` says what it is."""

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


def _no_python(construct: str, fix: str) -> ErrorSpec:
    """An entry for a construct of Python that kernels do not have."""
    return _syntax(f"{construct} cannot stand in a kernel", fix)


_FUNCTIONS = {
    "outside-kernel": _syntax("tile.{name} works inside of a @tile.kernel", "use {instead} here"),
    "not-a-function": _type("@tile.kernel and @tile.func take a function, not {what}", "decorate a `def`"),
    "kernel-lambda": _syntax("a lambda can be a formula of whole tensors only", "give it a name: `def f(...):`"),
    "kernel-async": _syntax("`{name}` is async; kernels are plain functions", "write `def` instead of `async def`"),
    "kernel-generator": _syntax("`{name}` yields; a kernel returns its tensors", "use `return`"),
    "kernel-method": _syntax(
        "`{name}` is defined in `{scope}`; kernels are plain functions", "move it out of the class"
    ),
    "kernel-star-parameter": _syntax(
        "`{name}` has the parameter `{parameter}`; a kernel has a fixed number of them", "name each parameter"
    ),
    "source-unreadable": _syntax(
        "the source of `{name}` cannot be read ({file})", "put the kernel into a file or a notebook cell{typed}"
    ),
    "tensor-form": _syntax(
        "`{name}` has no loop over `tile.grid`", "write `for m in tile.grid(M):`, or a formula of whole tensors"
    ),
    "formula-word": _syntax("{name} works on whole tensors, in a kernel without `tile.grid`", "{instead}"),
    "early-return": _syntax(
        "`return` stands inside of a loop or branch that is decided at run time",
        "assign to a variable, and return at the end of the function",
    ),
    "return-kind": _type("a kernel returns tensors, not {what}", "store it into a tensor from `tile.empty`"),
    "return-view": _type(
        "a kernel cannot return the view `{name}` transposed ({type})", "return the tensor, and transpose the result"
    ),
    "recursion": _unsupported("`{name}` calls itself; helpers are inlined", "use a loop"),
    "constexpr-run-time": _type(
        "`{name}` of `{function}` must be known at compile time, but `{text}` is {what}",
        "give a constant, or drop `tile.constexpr`",
    ),
    "call-arguments": _type("{name}(): {error}", "{hint}"),
    "argument-kind": _type("`{parameter}` of {name} must be {expected}; `{text}` is {what}", "give {expected}"),
    "not-callable": _type("`{text}` is {what}, which cannot be called", "{hint}"),
    "dtype-called": _type("the dtype `{text}` cannot be called", "convert with `x.to(tile.{dtype})`"),
    "plain-call": _type("`{text}` is plain Python, and works on compile-time values at most", "{hint}"),
    "scalars-only": _type("`{fn}` takes scalars; `{text}` is {what}", "write `{word}`"),
}

_NAMES = {
    "name-unknown": _syntax("the name `{name}` is not defined", "{hint}"),
    "name-undefined-here": _syntax("`{name}` has no value here: {reason}", "assign `{name}` before"),
    "module-attribute": _syntax("`{module}` has no `{name}`", "{hint}"),
    "language-word": _entry(TileAttributeError, "`tile` has no `{name}`", "{hint}"),
    "attribute-unknown": _type("`{text}` is {what} and has no `{name}`", "{hint}"),
    "captured-object": _type(
        "`{text}` is a {kind} from outside of the kernel, which could change unseen",
        "pass it as an argument, or use a number, string, dtype or tuple",
    ),
    "kernel-called": _type("`{text}` is {which}, and kernels in tile form call helpers only", "{hint}"),
    "captured-callable": _type("`{text}` is nothing that a kernel can call", "{hint}"),
    "assign-attribute": _syntax("`{text}` cannot be assigned: kernels change no objects", "assign to a variable"),
    "unpack-kind": _type("`{text}` is {what} and cannot be unpacked", "unpack a tuple, as `a.shape`"),
    "unpack-rank": _shape(
        "`{name}` has the rank {count}, but `{text}` is unpacked into {expected}",
        "pass an array of rank {expected} as `{name}`, or name {count} on the left",
    ),
    "unpack-count": _shape(
        "`{text}` has {count} elements, but there are {expected} targets", "write {count} names on the left"
    ),
    "store-target": _type(
        "`{text}` cannot be assigned: only parts of tensors are stored to, tiles never change",
        "make a new tile, with `tile.where` say",
    ),
    "literal-kind": _type("`{text}` is of type {kind}", "use numbers, bools, strings, tuples"),
    "compile-time-error": _type("`{text}` fails at compile time: {error}", "correct the constants"),
    "not-a-value": _type("`{text}` is {what}, where a tile, scalar or number is needed", "{advice}"),
    "tuple-position": _type("a tuple is subscripted by compile-time ints; `{text}` is {what}", "use a constant"),
    "tuple-range": _shape("`{name}` has {count} elements; there is no element {text}", "use -{count} to {last}"),
    "tuple-subscript": _type("the tuple `{text}` takes one int or one slice without a step", "use one subscript"),
}

_SIZES = {
    "size-conflict": _shape(
        "`{name}` was named as the size {first}, but here it is {second}", "use another name, or pass fitting tensors"
    ),
    "shapes-differ": _shape(
        "`{a}` of shape {first} and `{b}` of shape {second} do not broadcast: {left} is not {right}",
        "make the axes agree, or add one: `x[:, None]`",
    ),
    "broadcast-to": _shape("`{name}` of shape {before} does not broadcast to {after}", "give a shape that fits"),
    "block-other-axis": _shape(
        "block `{block}` runs to {stop}, but axis {axis} of `{name}` has size {dim}",
        "use a block of that axis; or name the size first (`N = {name}.shape[{axis}]`) if parts of it are meant",
    ),
    "axis-used-twice": _shape(
        "block `{text}` subscripts two axes of `{name}`",
        "loop over both axes, or gather: `{name}[{text}.index[:, None], {text}.index]`",
    ),
    "axis-range": _shape("there is no axis {axis} in a tile of rank {rank}", "{choices}"),
    "axis-repeated": _shape("{name}: an axis is given twice in `{text}`", "give each axis once"),
    "sort-dtype": _type(
        "tile.sort orders integers of whole bytes, not {dtype}", "use ops.sort, which orders numbers of any dtype"
    ),
    "stack-dtypes": _type("tile.stack of {first} and {second}", "convert them to one dtype before"),
    "axis-needed": _shape("{name} needs an axis for a tile of shape {shape}", "write `axis=0`"),
    "shape-entry": _type("`{text}` holds {what}, which is no size", "use ints, sizes and blocks of axes in shapes"),
    "shape-run-time": _type(
        "`{text}` holds {what}; shapes are made of what is known before the kernel runs",
        "use sizes, constants and blocks; loop over the rest with `tile.range`",
    ),
    "shape-negative": _shape("`{text}` has a negative size, {dim}", "sizes are 0 or more"),
    "reshape-size": _shape(
        "`{name}` cannot be reshaped from {before} to {after}: {why}",
        "give sizes whose product is that of {before}; one may be -1, if the others divide it for all sizes",
    ),
    "reshape-holes": _shape("`{text}` has more than one -1", "leave one axis open at most"),
    "not-a-permutation": _shape("`{text}` is no permutation of {rank} axes", "name each axis once"),
    "transpose-rank": _shape("`.mT` needs two axes; `{text}` has {rank}", "add an axis: `{text}[None, :]`"),
    "fold-shapes": _shape("{name}: tiles of shape {first} and {second} are folded together", "give tiles of one shape"),
    "combiner-count": _type("{name} folds {expected} values, but `{text}` returns {count}", "return one for each tile"),
    "combiner-op": _type(
        "{name}: `{fn}` does more than compute with scalars", "compute only; choose by `tile.where` instead of `if`"
    ),
    "combiner-rank": _shape("{name}: `{text}` gives {what}; it works on scalars", "return scalars"),
}

_DTYPES = {
    "dtype-4-bit": _unsupported(
        "there are no values of {dtype}: integers of 4 bits are packed in memory, two to a byte",
        "unpack them: `tile.nibble` and `ops.unpack` give i8 or u8, `ops.dequantise` gives floats",
    ),
    "dtype-not-taken": _type("`{operation}` does not take {dtype}: {names}", "convert with `.to(dtype)`"),
    "constant-range": _type("`{text}` does not fit into {dtype}", "use a wider dtype, or a smaller constant"),
    "negative-power": _type(
        "`{text}` is of {dtype}, and integers have no power of {power}", "convert first: `{text}.to(tile.f32)`"
    ),
    "condition-tile": _type(
        "the condition `{text}` is {what}; a branch needs one bool", "use `tile.where`, or reduce: `tile.any(...)`"
    ),
    "logic-tile": _type("`{word}` takes scalars; `{text}` is {what}", "write `{sign}`: {example}"),
    "integer-needed": _type("`{text}` is {what}, where an integer scalar is needed", "convert with `int(...)`"),
    "is-run-time": _type("`is` compares compile-time values; `{left}` and `{right}` are not", "use `==`"),
    "in-run-time": _type("`in` looks for compile-time values in tuples", "compare with `==` and `|`"),
    "branches-differ": _type("`{yes}` and `{no}` are of different kinds: {why}", "make both sides alike"),
    "loop-carried-type": _type(
        "`{name}` is {before} before the loop but {after} after its body",
        "keep its type: convert with `.to(dtype)`, or use another name in the loop",
    ),
    "loop-carried-shape": _shape(
        "`{name}` has shape {first} before the loop ({before}) but {second} after its body ({after})",
        "start with a tile of the final shape, or use another name in the loop",
    ),
    "static-assert": _type("static assertion failed: {message}", "compile with other constants"),
    "static-assert-run-time": _type(
        "`{text}` is {what}, not known at compile time", "use `tile.assert_` for run-time conditions"
    ),
    "assert-message": _type("the message of an assertion is a compile-time string; `{text}` is {what}", "use a string"),
    "atomic-dtype": _type("{name} does not work on tensors of {dtype} (`{text}`)", "use a tensor of integers"),
}

_DOT = {
    "dot-rank": _shape(
        "`{text}` has shape {shape}; a matrix product takes at least two axes", "add one: `{text}[None, :]`"
    ),
    "dot-sizes": _shape(
        "`{a}` of shape {first} and `{b}` of shape {second}: contracts {left} with {right}",
        "the last axis of `{a}` must be the one before the last of `{b}`; transpose with `.mT`",
    ),
    "dot-batches": _shape(
        "`{a}` of shape {first} and `{b}` of shape {second}: batches of {left} and {right}", "make leading axes agree"
    ),
    "dot-dtypes": _type(
        "there is no matrix product of `{a}` ({left}) and `{b}` ({right})",
        "convert both to one of f64, f32, f16, bf16, f8e4m3, f8e5m2, i8, u8",
    ),
    "dot-accumulator": _type(
        "the accumulator `{text}` is of {dtype}, but {operands} accumulate in {result}",
        "start it with `tile.zeros(shape, tile.{result})`{way_out}",
    ),
    "dot-result": _type("`{a}` of {operand} cannot accumulate in {dtype}", "accumulate in {choices}"),
    "dot-precision": _type("`precision` cannot be {text}", 'write "ieee", "tf32" or "fast"'),
    "dot-fast": _type(
        "`precision` cannot be {text} for `{a}` of {of}: fast sums are those of f8 products",
        "leave `precision` out, or convert both operands to f8e4m3 or f8e5m2",
    ),
}

_MEMORY = {
    "load-outside-grid": _syntax("`{name}` is read outside of `tile.grid`", "read it inside of the loop over blocks"),
    "store-outside-grid": _syntax("`{name}` is written outside of `tile.grid`", "write it inside of the loop"),
    "tile-outside-grid": _syntax("{name} stands outside of `tile.grid`", "move it into the loop over blocks"),
    "empty-in-grid": _syntax(
        "tile.empty makes tensors and stands outside of `tile.grid`", "use `tile.zeros` for a tile, or move it up"
    ),
    "store-shape": _shape(
        "`{name}` of shape {shape} is stored to `{target}` of shape {selected}",
        "fold an axis of it, as in `tile.sum(..., axis=1)`; or subscript `{target}` by all blocks",
    ),
    "load-other": _shape("`other` must be a scalar; `{text}` is {what}", "give one number"),
    "not-an-access": _type(
        "{name} takes a subscripted tensor; `{text}` is {what}", "write the subscript in the call: `{name}(x[m], ...)`"
    ),
    "full-value": _shape("tile.full takes a scalar; `{text}` is {what}", "use `tile.broadcast_to`"),
    "arange-bound": _type("the bounds of tile.arange make a shape; `{text}` is {what}", "add a scalar afterwards"),
    "arange-step": _type(
        "the step of tile.arange must be above 0; it is {text}", "reverse by `n - 1 - tile.arange(n)`"
    ),
    "print-order": _type("tile.print: the string {text} comes after values", "write strings first"),
}

_SUBSCRIPTS = {
    "subscript-count": _shape("`{name}` has {rank} axes but {count} subscripts", "give at most {rank}"),
    "subscript-ellipsis": _syntax("a subscript has more than one `...`", "write `:` for the others"),
    "subscript-dtype": _type(
        "`{text}` subscripts `{name}` but is of {dtype}, not integers", "use integers; select with `tile.where`"
    ),
    "subscript-kind": _type(
        "`{text}` is {what} and cannot subscript `{name}`", "use blocks, ints, slices, `:` or int tiles"
    ),
    "subscript-range": _shape("`{text}` is outside of an axis of `{name}` of size {dim}", "stay below {dim}"),
    "slice-bound": _type(
        "the slice bound `{text}` of `{name}` is {what}, not a size", "gather instead: `x[start + tile.arange(n)]`"
    ),
    "slice-range": _shape("the slice {start}:{stop} does not fit `{name}`, of size {dim}", "stay within the axis"),
    "slice-step": _unsupported(
        "a slice of the tile `{name}` has a step", "give the step where the tensor is read: `x[m, ::2]`, `x[m, ::-1]`"
    ),
    "slice-step-kind": _type(
        "the step `{text}` of a slice is {what}, not an int other than 0 that is known when compiling", "use a constant"
    ),
    "slice-step-gather": _unsupported(
        "`{name}` is subscripted by a slice with a step and by another one, or by an int tile",
        "write both as int tiles: `x[rows[:, None], tile.arange(0, n, 2)]`",
    ),
    "gather-shapes": _shape(
        "the int tiles that subscript `{name}`, of shapes {first} and {second}, do not broadcast",
        "line them up: `x[i[:, None], j[None, :]]`",
    ),
    "not-subscriptable": _type("`{text}` is {what} and has no subscripts", "subscript tensors, tiles and tuples"),
    "tile-block-subscript": _type(
        "block `{text}` subscripts the tile `{name}`; blocks select from tensors", "use `:`, slices or ints"
    ),
    "tile-gather": _unsupported(
        "the tile `{name}` cannot be subscripted by `{text}`, {what}", "gather from a tensor, or use `tile.where`"
    ),
}

_LOOPS = {
    "grid-nested": _syntax("a `tile.grid` stands inside of another", "use `tile.range` for the inner loop"),
    "grid-place": _syntax(
        "`tile.grid` stands inside of a run-time loop or branch, or of a helper", "move it to the kernel's top level"
    ),
    "grid-break": _syntax("`break` in a `tile.grid`: its programs run in parallel", "use `continue`, or an `if`"),
    "grid-sizes": _syntax("tile.grid needs a size for each axis", "write `tile.grid(M, N)`"),
    "loop-word": _syntax("{name} stands in the head of a `for` only", "write `for m in {name}(...):`"),
    "loop-target": _syntax("the target of this loop is not a name for each axis", "write `for m, n in ...`"),
    "loop-target-count": _syntax(
        "the number of loop variables is {count}, of axes {expected}", "write a name for each axis"
    ),
    "loop-target-repeated": _syntax("a loop variable is used for two axes: {names}", "use different names"),
    "loop-else": _no_python("the `else` of a loop", "set a variable, and test it after the loop"),
    "block-count": _type(
        "{name}: the number of block sizes in `{text}` is {count}, of axes {expected}", "give one for each axis"
    ),
    "block-size": _type(
        "a block size is {what}, not a positive compile-time int", "use an int, a tile.constexpr, or tile.auto"
    ),
    "num-stages": _type("`num_stages` is {what}, not a positive compile-time int", "use an int or tile.auto"),
    "for-kind": _type("`{text}` is {what}, which a `for` cannot run over", "use range, tile.range or a tuple"),
    "range-arguments": _syntax("range takes one to three positional integers", "write `range(start, stop, step)`"),
    "range-step": _type("the step of a range is a compile-time int, not 0; `{text}` is {what}", "use a constant"),
    "unroll-limit": _unsupported(
        "this loop would be unrolled {count} times (at most {limit})", "pass the bound as a run-time argument"
    ),
    "condition-writes": _syntax("the condition of a `while` writes to memory", "write in the body of the loop"),
    "while-forever": _syntax("this `while` never ends", "use a condition that changes, or `break`"),
}

_PYTHON = {
    "python-async": _no_python("`async`", "define a helper outside, with `@tile.func`"),
    "python-class": _no_python("a class", "define it outside; use tuples for several values"),
    "python-comprehension": _no_python("a comprehension", "write a `for` loop, or list the elements in a tuple"),
    "python-del": _no_python("`del`", "leave it out: values that nobody reads cost nothing"),
    "python-dict": _no_python("a dict", "use variables or a tuple"),
    "python-f-string": _syntax(
        "the f-string holds `{text}`, not known at compile time", "use `tile.print` with values"
    ),
    "python-global": _no_python("`global`", "return the value; programs share nothing but tensors"),
    "python-import": _no_python("an import", "import at the top of the file"),
    "python-lambda": _no_python("a lambda", "define a helper with `@tile.func`"),
    "python-list": _no_python("a list", "use a tuple"),
    "python-match": _no_python("`match`", "use `if` and `elif`"),
    "python-nested-function": _no_python("a nested function", "define a helper outside, with `@tile.func`"),
    "python-nonlocal": _no_python("`nonlocal`", "return the value; kernels change no outer variables"),
    "python-raise": _no_python("`raise`", "use `tile.assert_` or `tile.static_assert`"),
    "python-set": _no_python("a set", "use a tuple"),
    "python-star": _no_python("unpacking with a star", "write each element"),
    "python-try": _no_python("`try`", "test the condition before; loads outside of a tensor read `other`"),
    "python-walrus": _no_python("`:=`", "assign on a line of its own"),
    "python-with": _no_python("`with`", "leave it out"),
    "python-chained-comparison": _no_python("a chained comparison", "write `{fix}`"),
    "python-other": _no_python("`{construct}`", "use plain assignments, loops, branches and calls"),
}

ENTRIES: dict[str, ErrorSpec] = {
    **_FUNCTIONS, **_NAMES, **_SIZES, **_DTYPES, **_DOT, **_MEMORY, **_SUBSCRIPTS, **_LOOPS, **_PYTHON,
}  # fmt: skip
