"""Messages of passes: contracts that cannot be kept."""

from tiledsl.support.errors import ErrorSpec

ENTRIES: dict[str, ErrorSpec] = {}
