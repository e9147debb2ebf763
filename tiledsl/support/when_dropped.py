"""What is done when an object goes: but not at the end of the process, which frees everything itself.

`__del__` is called then too, at a time when modules have lost their names, and drivers may have ended.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any


def when_dropped(owner: object, release: Callable[..., object], *arguments: Any) -> None:
    """Calls `release(*arguments)`, which must not refer to the owner, once nobody has the owner any more.

    What it raises is nobody's to see. Nothing is called once the interpreter ends, whoever still has the owner.
    """
    weakref.finalize(owner, _quietly, release, arguments).atexit = False


def _quietly(release: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    with contextlib.suppress(Exception):
        release(*arguments)
