"""Decisions of groups that the model of a machine cannot be sure of: the price of one kernel is near that of several.

What was measured may decide these (`PassContext.groupings`). A tie is known by the ops that would be one kernel and by
which of them are kernels already, wherever they stand in whatever graph.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.ir.core import Function, Module, Op
from tiledsl.ir.text.printer import print_module

MARGIN = 1.06
"""How many times the price of one kernel that of several may be, or the other way round, for neither to be certain.
Of the ties within 1.15 that were measured, the model was right about all, and nearly all of them were further apart
than by its prices (docs/search.md)."""
_NAME = re.compile(r"[%@][\w.]+")


@dataclass(frozen=True)
class Tie:
    """Whether some kernels are one. `key`: what it is known by; `joined`: what is done about it. Seconds by the model:
    `together` as one kernel, `apart` as several. `words`: the ops, for people."""

    key: str
    joined: bool
    together: float
    apart: float
    words: str

    @property
    def doubt(self) -> float:
        """Seconds that may be gained by the other decision, if the model is wrong by as much as `MARGIN`."""
        ratio = self.together / self.apart if self.joined else self.apart / self.together
        return self.apart * max(0.0, ratio * MARGIN - 1)


def is_near(together: float, apart: float) -> bool:
    """Whether two prices are too near for one to be certainly less."""
    return apart > 0 and 1 / MARGIN <= together / apart <= MARGIN


def tie_key(function: Function, members: Sequence[Op], parts: Sequence[Sequence[Op]]) -> str:
    """What a tie is known by. `function`: of all its ops, `members`, as one kernel; `parts`: kernels of them as yet."""
    place = {op: number for number, op in enumerate(members)}
    numbers = sorted(" ".join(str(place[op]) for op in part if op in place) for part in parts)
    text = numbered(print_module(Module([function])))
    return hashlib.blake2b(f"{text}{' | '.join(numbers)}".encode(), digest_size=16).hexdigest()


def numbered(text: str) -> str:
    """A text whose values and functions are called by numbers, in the order of their first places."""
    names: dict[str, str] = {}
    return _NAME.sub(lambda found: names.setdefault(found[0], f"{found[0][0]}v{len(names)}"), text)
