"""What a module computes from its weights alone, once for each place where it runs: layouts that a kernel wants, planes
of floats, products of two weights.

That is only done with weights that do not change unseen: those that were copied to the place anyway, those that cannot
be written to, and tensors of PyTorch, which count how often they were changed. `freeze` says it of all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from tiledsl.api.schedules.built_module import Built
from tiledsl.runtime.arrays.cuda_arrays import is_on_cuda
from tiledsl.runtime.arrays.frameworks import torch_of
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.short_calls import Quick
from tiledsl.runtime.programs.constant_steps import Split, split_constant_steps
from tiledsl.runtime.programs.schedule import Operand, Schedule

Memory: TypeAlias = Any
"""Of results: arrays of NumPy, or an address on a device with what keeps it there."""

_version = attrgetter("_version")


class PreparedWeights:
    """Results of steps that read weights alone. Modules of one graph share them where these steps are the same.

    Safe to use from several threads at once.
    """

    def __init__(self, watched: Sequence[Any], results: Sequence[Memory], fill: Callable[[int], None]) -> None:
        """`watched`: the tensors of PyTorch that they depend on. `fill` computes `results`, after what is on a stream,
        and waits until they are there."""
        self.results = tuple(results)
        self._watched = tuple(watched)
        self._fill = fill
        self._lock = threading.Lock()
        self._versions: list[int] | None = None

    @property
    def is_current(self) -> bool:
        """Whether no weight was changed since the results were computed."""
        return self._seen() == self._versions

    def refresh(self, stream: int) -> None:
        """Computes the results, if they are not current, after what is on the stream."""
        with self._lock:
            versions = self._seen()
            if versions != self._versions:
                self._fill(stream)
                self._versions = versions

    def _seen(self) -> list[int]:
        """The versions that the watched tensors have now."""
        return list(map(_version, self._watched))

    def guarded(self, quick: Quick | None) -> Quick | None:
        """The same calls; `MISSED` where weights were changed."""
        if quick is None or not self._watched:
            return quick

        def call(args: tuple[Any, ...], out: Any) -> object:
            return quick(args, out) if self.is_current else MISSED

        return call


def split_for(built: Built, weights: Mapping[str, object], *, on_device: bool, freeze: bool) -> Split | None:
    """What a built module computes from weights that cannot change unseen, and the rest of it; None for nothing."""
    schedule = built.schedule
    named = ((number, weights[schedule.buffers[number].name]) for number in schedule.constants)
    fixed = {number for number, weight in named if freeze or is_fixed(weight, on_device=on_device)}
    return split_constant_steps(schedule, fixed)


def is_fixed(weight: Any, *, on_device: bool) -> bool:
    """Whether a weight cannot change unseen. `on_device`: where it is used; else in CPU memory."""
    if on_device and not is_on_cuda(weight):
        return True  # what runs there is a copy
    if torch_of(weight) is not None:
        return _counts_changes(weight)
    return isinstance(weight, np.ndarray) and _is_read_only(weight)


def watched_of(schedule: Schedule, weights: Mapping[str, object], *, on_device: bool) -> list[Any]:
    """The weights of a schedule that may change, and count how often."""
    named = [weights[schedule.buffers[number].name] for number in schedule.constants]
    return [
        weight
        for weight in named
        if torch_of(weight) is not None and _counts_changes(weight) and is_on_cuda(weight) == on_device
    ]


def _counts_changes(tensor: Any) -> bool:
    try:
        return tensor._version >= 0
    except RuntimeError:  # one that was made in inference mode
        return False


def _is_read_only(array: Any) -> bool:
    """Neither through this array nor through one that it is a view of can the memory be written."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, bytes)


def identity_of(built: Built, first: Schedule) -> object:
    """Equal for steps that compute the same of the same weights; unlike all others where that is not known."""
    if not built.compiled:
        return object()
    seen: dict[int, object] = {}

    def buffer(number: int) -> object:
        if number in first.constants:
            return first.buffers[number].name
        return seen.setdefault(number, len(seen))

    def operand(one: Operand) -> object:
        return buffer(one.buffer), one.view, one.unit

    steps = tuple(
        (
            next(iter(built.compiled[built.functions[step.program]].artifact.stages.values())),
            tuple(step.sizes.items()), tuple(operand(tensor) for tensor in step.tensors), step.written,
            tuple(operand(n) if isinstance(n, Operand) else n for n in step.numbers),
        )
        for step in first.steps
    )  # fmt: skip
    return steps, tuple((buffer(n), first.buffers[n].dtype, first.buffers[n].shape) for n in first.outputs)
