"""Where errors of a call are located."""

from __future__ import annotations

import sys

from tiledsl.support.caller import caller_location


def test_line_and_columns_of_the_call() -> None:
    location = caller_location()
    assert location is not None
    assert location.file == __file__
    assert location.line == test_line_and_columns_of_the_call.__code__.co_firstlineno + 1
    if sys.version_info >= (3, 11):
        assert (location.column, location.end_column) == (16, 33)
