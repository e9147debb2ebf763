"""Messages of searches for plans, and of the databases that they keep."""

from tiledsl.support.errors import ErrorSpec, TileRuntimeError

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
}
