"""Messages of the library of ops, `tiledsl.ops`. `{name}` is the op as it is called."""

from tiledsl.support.errors import ErrorSpec, TileShapeError, TileTypeError

ENTRIES = {
    "ops-shapes": ErrorSpec(
        TileShapeError, "{name}: `{a}` of shape {first} does not fit `{b}` of shape {second}: {reason}", "{fix}"
    ),
    "ops-rank": ErrorSpec(TileShapeError, "{name}: `{text}` has the shape {shape}, not {expected}", "{fix}"),
    "ops-option": ErrorSpec(TileTypeError, "{name}: `{parameter}` is {value}, not {expected}", "{fix}"),
    "ops-dtype": ErrorSpec(TileTypeError, "{name}: `{text}` holds {dtype}, not {expected}", "{fix}"),
}
