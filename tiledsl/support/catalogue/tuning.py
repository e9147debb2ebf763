"""Messages of searches for plans, and of the databases that they keep."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError, TileTypeError, TileUnsupportedError

ENTRIES: dict[str, ErrorSpec] = {
    "tuning-unwritable": ErrorSpec(
        TileRuntimeError,
        "the database in `{folder}` cannot be written: {reason}",
        "name a folder that can be written, as `database=`, `--db` or TILEDSL_TUNING",
    ),
    "tuning-unreadable": ErrorSpec(
        TileRuntimeError,
        "the database in `{folder}` cannot be read: {reason}",
        "name a folder; a database is one with files that end in `.jsonl`",
    ),
    "tuning-absent": ErrorSpec(
        TileRuntimeError,
        "there is no database in `{folder}`",
        "make one with `kernel.tune(..., database=...)` or `tiledsl tune`, or name another folder",
    ),
    "tuning-nowhere": ErrorSpec(
        TileRuntimeError,
        "there is nowhere to keep what a search finds: TILEDSL_TUNING is `off`, or there is no cache directory",
        "pass `database=` with a folder, or set TILEDSL_TUNING to one",
    ),
    "library-missing": ErrorSpec(
        TileRuntimeError,
        "a search is to try calls of libraries, and there is none: {reason}",
        "install one with `pip install tiledsl[library]`, or search without `libraries=True`",
    ),
    "library-call": ErrorSpec(
        TileRuntimeError,
        "a call of cuBLASLt in the place of `{kernel}` failed: {reason}",
        "search for its plan again, or switch measured plans off with TILEDSL_TUNING=off",
    ),
    "tuning-device": ErrorSpec(
        TileRuntimeError,
        "nothing was measured on a device `{device}`, or on more than one whose name begins so",
        "name one of those that there are plans for: {known}; or none, for the model's plans and those of the device "
        "at hand",
    ),
    "tuning-budget": ErrorSpec(
        TileTypeError,
        "a search of {what} {value} cannot try anything",
        "give it at least {least}",
    ),
    "tuning-nothing": ErrorSpec(
        TileTypeError,
        "a {kind} cannot be tuned as it is given",
        "pass a kernel with the arguments of a call, or a graph with the sizes that it leaves open: "
        "`tiledsl.tune(gemm, a, b)`, `tiledsl.tune(graph, batch=8)`",
    ),
    "tuning-target": ErrorSpec(
        TileUnsupportedError,
        "`{kernel}` cannot be tuned for `{arch}`: {reason}",
        "{fix}",
    ),
    "tuning-pick-wrong": ErrorSpec(
        TileRuntimeError,
        "`{kernel}` gives other results than the reference with the plan that the model picks ({plan}): {reason}",
        "nothing can be measured against code that is wrong: `kernel.check(...)` may tell why; please report it if not",
    ),
    "tuning-pick-fails": ErrorSpec(
        TileRuntimeError,
        "`{kernel}` cannot be measured: with the plan that the model picks ({plan}) it ended in `{state}`: {reason}",
        "call the kernel with these arguments by itself; what it says there is what stops the search",
    ),
}
