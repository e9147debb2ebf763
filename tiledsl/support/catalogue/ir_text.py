"""Messages of IR text and the verifier."""

from tiledsl.support.errors import ErrorSpec

ENTRIES: dict[str, ErrorSpec] = {}
