"""Names in generated C: those that come from the program can meet no others, whatever they are.

A name that comes from the program, of a variable, a parameter, a size or a kernel, ends in an underscore: `x_`,
`x_at_`, `x_1_`. Nothing else does: no word of C++ or CUDA, no macro, no device function, and none of the emitters' own
names, which are `VARIABLES` (`row`, `row_1`) and `LOOPS` (`s`).
"""

from __future__ import annotations

import re

_VARIABLES = """
    a_at a_descriptor arrivals at b_at b_descriptor band band_rows batch before block box column combine count
    counted done element extreme failures fill first first_peer from from_lane has_prefix holds inner is_first
    issues lane_position left old other own_part owner part passed peer piece position prefix program programs rank
    room row row_thread run sender shared_base shared_memory slot start step thread to total turn warp warp_position
    warp_total within
"""
VARIABLES = frozenset(_VARIABLES.split())
"""What emitters call variables of their own. A number may follow, as in `batch0`."""

LOOPS = frozenset("bdeijkprsvw")
"""The variables of loops that emitters write; of one within another the letter may be doubled."""


def of_program(*parts: str) -> str:
    """The C name of something that comes from the program, of the words of it that are not empty.

    >>> of_program("x"), of_program("x_", "at"), of_program("größe"), of_program("__shared__"), of_program("λ")
    ('x_', 'x_at_', 'gr__e_', 'shared_', 'value_')
    """
    cleaned = (re.sub(r"\W", "_", part, flags=re.ASCII).strip("_") for part in parts)
    joined = "_".join(part for part in cleaned if part) or "value"
    return f"{'v' if joined[0].isdigit() else ''}{joined}_"


def is_of_program(name: str) -> bool:
    return name.endswith("_")


def function_of(kernel: str) -> str:
    """The C function of a kernel of that name.

    >>> function_of("softmax_1")
    'softmax_1_'
    """
    return f"{kernel}_"


def kernel_of(function: str) -> str:
    """The kernel that a C function is: `softmax_1` for `softmax_1_`."""
    return function.removesuffix("_")


class Names:
    """Gives each thing of one function a name of its own.

    >>> names = Names()
    >>> [names.fresh(wanted) for wanted in ("row", of_program("row"), "row", of_program("row"))]
    ['row', 'row_', 'row_1', 'row_1_']
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """`wanted`, or with a number where it is taken: a name by `of_program`, or one of `VARIABLES`."""
        tail = "_" if is_of_program(wanted) else ""
        assert tail or wanted.rstrip("0123456789") in VARIABLES, f"{wanted} is no name of the program or of an emitter"
        name, count = wanted, self._counts.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted.removesuffix('_')}_{count}{tail}"
        self._counts[wanted] = count
        self._taken.add(name)
        return name
