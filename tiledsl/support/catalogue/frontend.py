"""Messages of the front end: what a kernel may say."""

from tiledsl.support.errors import ErrorSpec

ENTRIES: dict[str, ErrorSpec] = {}
