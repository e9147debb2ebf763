"""Messages of the CPU and GPU back ends."""

from tiledsl.support.errors import ErrorSpec

ENTRIES: dict[str, ErrorSpec] = {}
