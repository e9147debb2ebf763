"""Messages of races and of other mistakes with memory, found when compiling. `{tensor}` is a tensor by its name."""

from tiledsl.support.errors import ErrorSpec, TileRaceError

ENTRIES: dict[str, ErrorSpec] = {
    "race-store": ErrorSpec(
        TileRaceError,
        "race: programs along `{axis}` store different values to the same elements of `{tensor}`",
        "take `{axis}` out of the grid, and loop over it in each program: `for {axis} in tile.range({stop}):`",
    ),
    "race-update": ErrorSpec(
        TileRaceError,
        "race: programs along `{axis}` read and store the same elements of `{tensor}`",
        "{fix}",
    ),
    "race-neighbour": ErrorSpec(
        TileRaceError,
        "race: this reads elements of `{tensor}` that other programs along `{axis}` store to",
        "store to another tensor than the one that is read, or in a grid after this one",
    ),
    "race-stores": ErrorSpec(
        TileRaceError,
        "race: programs along `{axis}` store to elements of `{tensor}` that others store to as well",
        "let one program alone store to each element, or make one of the two stores in a grid of its own",
    ),
    "race-atomic": ErrorSpec(
        TileRaceError,
        "race: this {verb} elements of `{tensor}` that other programs along `{axis}` update by atomics",
        "do it in a grid of its own, before or after this one",
    ),
    "uninitialised": ErrorSpec(
        TileRaceError,
        "`{tensor}` is read here, and nothing was stored to it before",
        "make it with `tile.zeros`, or store to it first",
    ),
}
