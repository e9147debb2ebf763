"""Whether code by a plan does what the program means.

It is run twice on each case, with outputs full of poison: results are those of the reference as far as rounding
explains, both runs agree in every bit (but where atomic updates round as they come), and what is only read is as it
was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tiledsl.autotune.measuring.cases import Case
from tiledsl.autotune.measuring.runner import Checked
from tiledsl.autotune.measuring.tensors import Tensor
from tiledsl.autotune.measuring.wanted import Wanted, same_bits
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.support.errors import TileError

Execute = Callable[[Case, "list[Array]"], object]
"""Runs a case on arrays that lie as its tensors do. A reference gives False where it has not run all of it."""


@dataclass
class Oracle:
    """What cases come to by the reference, each of which is run once."""

    execute: Execute
    _known: dict[str, list[Wanted]] = field(default_factory=dict[str, "list[Wanted]"])
    _starts: dict[str, list[Array]] = field(default_factory=dict[str, "list[Array]"])

    def expected(self, case: Case) -> list[Wanted]:
        """What is compared of a case, as the reference leaves it."""
        found = self._known.get(case.key)
        if found is None:
            arrays = arrays_of(case)
            partial = self.execute(case, arrays) is False
            pairs = zip(case.tensors, arrays)
            found = self._known[case.key] = [Wanted(array, partial) for tensor, array in pairs if tensor.is_compared]
        return found

    def start(self, case: Case) -> list[Array]:
        """The arrays of a case before anything is run. Nobody changes them."""
        found = self._starts.get(case.key)
        if found is None:
            found = self._starts[case.key] = arrays_of(case)
        return found


def arrays_of(case: Case) -> list[Array]:
    """New memory for a case: what is given, and poison elsewhere."""
    contents = iter(case.contents)
    return [tensor.allocated(next(contents) if tensor.is_given else None) for tensor in case.tensors]


def is_run(case: Case, oracle: Oracle) -> bool:
    """Whether the reference runs a case."""
    try:
        oracle.expected(case)
    except TileError:
        return False
    return True


def adds_in_any_order(text: str) -> bool:
    """Whether results of a program may differ from run to run, by its TILE text: atomic updates round as they come."""
    return "tile.atomic" in text


def complete(cases: Sequence[Case], by_pick: Execute, oracle: Oracle) -> Checked | None:
    """Has the model's pick give what the reference did not come to; what is wrong with it, where it is."""
    for case in cases:
        if not any(wanted.partial for wanted in oracle.expected(case)):
            continue
        arrays = arrays_of(case)
        by_pick(case, arrays)
        compared = [(tensor, array) for tensor, array in zip(case.tensors, arrays) if tensor.is_compared]
        for (tensor, array), wanted in zip(compared, oracle.expected(case)):
            found = wanted.complete(array)
            if not isinstance(found, float):
                reason = f"`{tensor.name}` of the model's pick differs from the reference {found}"
                return Checked("wrong", f"{reason} ({_words(case, tensor)})", None, (case.name,))
    return None


def verify(cases: Sequence[Case], execute: Execute, oracle: Oracle, code: str = "", *, repeats: bool = True) -> Checked:
    """What became of a plan by which `execute` runs. `code`: the digest of its code; `repeats`: whether two runs have
    to agree in every bit."""
    worst = 0.0
    for case in cases:
        first = arrays_of(case)
        execute(case, first)
        found = _difference(case, oracle.start(case), first, oracle.expected(case))
        if isinstance(found, str):
            return Checked("wrong", found, None, (case.name,), code)
        worst = max(worst, found)
        if not repeats:
            continue
        second = arrays_of(case)
        execute(case, second)
        for tensor, one, other in zip(case.tensors, first, second):
            if tensor.is_compared and not same_bits(one, other):
                reason = f"`{tensor.name}` is not the same after two runs on the same arguments ({case.name})"
                return Checked("wrong", reason, worst, (case.name,), code)
    names = [case.name for case in cases] + (["repeated"] if repeats else [])
    return Checked("ok", "", worst, tuple(names), code)


def _difference(case: Case, before: Sequence[Array], arrays: Sequence[Array], wanted: Sequence[Wanted]) -> float | str:
    """The worst relative difference, or what is wrong. `before`: the arrays as they were, which is not what was given
    where elements of a window lie in one place."""
    expected, worst = iter(wanted), 0.0
    for tensor, old, array in zip(case.tensors, before, arrays):
        if tensor.use == "input" and not same_bits(old, array):
            return f"`{tensor.name}`, which is only read, was changed ({case.name})"
        if tensor.is_compared:
            found = next(expected).difference(array)
            if not isinstance(found, float):
                return f"`{tensor.name}` differs from the reference {found} ({_words(case, tensor)})"
            worst = max(worst, found)
    return worst


def _words(case: Case, tensor: Tensor) -> str:
    return f"{case.name} arguments, shape {list(tensor.shape)}"
