"""Messages of races and other mistakes with memory. `{tensor}` is a tensor by its name.

Those that begin with `check-` are found while a kernel runs with a shadow of its memory.
"""

from tiledsl.support.errors import ErrorSpec, TileRaceError, TileRuntimeError, TileUnsupportedError

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
    "check-race-read": ErrorSpec(
        TileRaceError,
        "race: program ({program}) {verb} element {element} of `{tensor}`, which program ({other}) {before}",
        "store to another tensor than the one that is read, or in a grid after this one",
    ),
    "check-race-store": ErrorSpec(
        TileRaceError,
        "race: program ({program}) {verb} element {element} of `{tensor}`, where program ({other}) "
        "{before} something else",
        "let one program alone store to each element, or use `tile.atomic_add` and the like",
    ),
    "check-race-atomic": ErrorSpec(
        TileRaceError,
        "race: program ({program}) {verb} element {element} of `{tensor}`, which program ({other}) {before}, "
        "one of the two by an atomic",
        "do what is no atomic in a grid of its own, before or after this one",
    ),
    "check-race-within": ErrorSpec(
        TileRaceError,
        "race: one store of program ({program}) has several values for element {element} of `{tensor}`",
        "give each element one value, or use `tile.atomic_add` and the like",
    ),
    "check-uninitialised": ErrorSpec(
        TileRaceError,
        "program ({program}) reads element {element} of `{tensor}`, and nothing was stored to it before",
        "make `{tensor}` with `tile.zeros`, or store to all of it first",
    ),
    "check-outside": ErrorSpec(
        TileRuntimeError,
        "program ({program}) {verb} `{name}` at {coordinate} along axis {axis}, whose size is {size}",
        "{fix}",
    ),
    "check-device": ErrorSpec(
        TileUnsupportedError,
        "`{parameter}` is a {kind} on a CUDA device; checks run on the CPU",
        "pass arrays in CPU memory",
    ),
    "check-blocks": ErrorSpec(
        TileRuntimeError,
        "element {element} of `{tensor}` depends on the sizes of blocks: it is {one} with some, {other} with others",
        "compute it from coordinates (`m.index`), not from where blocks begin or how long they are",
    ),
}
