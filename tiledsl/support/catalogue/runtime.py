"""Messages of the runtime: calls, arrays, devices, faults."""

from tiledsl.support.errors import ErrorSpec

ENTRIES: dict[str, ErrorSpec] = {}
