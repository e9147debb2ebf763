"""The line of the user's code that called into the package: where errors of a call are located."""

from __future__ import annotations

import inspect
import sys
from itertools import islice
from types import FrameType

from tiledsl.support.location import Location


def caller_location() -> Location | None:
    """The innermost frame outside of this package, with columns where Python tells them (3.11 and later)."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return None
    code = frame.f_code
    if sys.version_info >= (3, 11):
        line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
        if line is not None and column is not None:
            return Location(code.co_filename, line, column + 1, end_line or line, (end_column or column) + 1)
    return Location(code.co_filename, frame.f_lineno)


def _is_ours(frame: FrameType) -> bool:
    module: object = frame.f_globals.get("__name__", "")
    return isinstance(module, str) and (module == "tiledsl" or module.startswith("tiledsl."))
