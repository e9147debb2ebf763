"""Messages of IR text and the verifier."""

from tiledsl.support.errors import ErrorSpec, TileLayoutError, TileSyntaxError, TileTypeError

ENTRIES: dict[str, ErrorSpec] = {
    "text-unexpected": ErrorSpec(TileSyntaxError, "expected {expected}, found {found}", "docs/ir.md shows the grammar"),
    "text-too-deep": ErrorSpec(
        TileSyntaxError, "the text is nested too deeply to be read", "split the expression or the bodies up"
    ),
    "text-function-twice": ErrorSpec(TileSyntaxError, "there are two functions `@{name}`", "rename one of them"),
    "text-op-unknown": ErrorSpec(TileSyntaxError, "there is no op `{name}`", "{hint}"),
    "text-value-undefined": ErrorSpec(TileSyntaxError, "`%{name}` is not defined here", "{hint}"),
    "text-value-twice": ErrorSpec(
        TileSyntaxError, "`%{name}` is defined already", "give one of the two another name: a name is defined once"
    ),
    "text-operand-count": ErrorSpec(
        TileSyntaxError, "`{op}` takes {expected}, but {count} given", "write `{signature}`"
    ),
    "text-operand-kind": ErrorSpec(
        TileSyntaxError, "operand `{field}` of `{op}` must be {expected}, not {found}", "write `{signature}`"
    ),
    "text-attribute-unknown": ErrorSpec(TileSyntaxError, "`{op}` has no attribute `{name}`", "{hint}"),
    "text-attribute-twice": ErrorSpec(
        TileSyntaxError, "attribute `{name}` of `{op}` is given twice", "leave one of the two out"
    ),
    "text-attribute-missing": ErrorSpec(
        TileSyntaxError, "`{op}` needs the attribute `{name}`", "add `{{{name} = ...}}` after the operands, {expected}"
    ),
    "text-attribute-kind": ErrorSpec(
        TileSyntaxError, "attribute `{name}` of `{op}` must be {expected}, not {found}", "{hint}"
    ),
    "text-body-unknown": ErrorSpec(TileSyntaxError, "`{op}` has no body `{name}`", "{hint}"),
    "text-body-twice": ErrorSpec(TileSyntaxError, "body `{name}` of `{op}` is given twice", "leave one of the two out"),
    "text-body-missing": ErrorSpec(
        TileSyntaxError, "`{op}` needs the body `{name}`", "add `{name}(...) {{ ... }}` after the result types"
    ),
    "text-size": ErrorSpec(
        TileSyntaxError, "a size is an integer expression over symbols, not {found}", "write such as `2 * M + 1`"
    ),
    "text-quotes": ErrorSpec(
        TileSyntaxError, "{text} is no text: {reason}", 'escape as JSON does: \\n, \\t, \\", \\\\, \\u00e9'
    ),
    "text-fact": ErrorSpec(TileSyntaxError, "a fact reads `SIZE % DIVISOR == 0`", "write such as `K % 16 == 0`"),
    "text-type-unknown": ErrorSpec(TileTypeError, "there is no type `{name}`", "{hint}"),
    "text-level-unknown": ErrorSpec(TileTypeError, "a tile has no level `{name}`", "write `register` or `shared`"),
    "text-unit": ErrorSpec(
        TileTypeError, "a tensor of rank {rank} has no `{text}`", "write `unit=AXIS` with an axis from 0 to rank - 1"
    ),
    "text-layout": ErrorSpec(TileTypeError, "this is no layout: {problem}", "{fix}"),
    "text-result-count": ErrorSpec(
        TileTypeError, "`{op}` gives {results}, but {count} {what} written", "write as many as the op gives"
    ),
    "text-result-type": ErrorSpec(
        TileTypeError, "`%{name}` is declared as `{declared}`, but `{op}` gives `{inferred}`", "write `{inferred}`"
    ),
    "text-op-types": ErrorSpec(TileTypeError, "`{op}`: {problem}", "correct the operands, which are: {operands}"),
    "ir-invalid": ErrorSpec(TileSyntaxError, "not legal in form `{form}`: `{op}`: {problem}", "{fix}"),
    "ir-layouts": ErrorSpec(TileLayoutError, "not legal in form `{form}`: `{op}`: {problem}", "{fix}"),
}
