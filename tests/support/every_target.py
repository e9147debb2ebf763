"""A call of a kernel on every target: the CPU, the reference, and the emulated code for GPUs of two generations."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.compare import assert_close
from tests.support.gpu_cases.gpu_cases import named
from tiledsl import Kernel
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.support.errors import TilePerformanceWarning, TileUnsupportedError

ARCHITECTURES = ("sm_80", "sm_90")
"""Without bulk copies and instructions of warpgroups, and with them."""
Array = npt.NDArray[Any]


def on_every_target(kernel: Kernel, *arguments: object, plans: int = 1, **constants: object) -> dict[str, list[Array]]:
    """The results of a call, by what it ran on. `plans`: how many of the plans for each GPU are emulated, at most.

    Arguments are copied, so that a kernel may write to them.
    """
    results = {
        "reference": _listed(kernel.compile(*arguments, arch="reference", **constants)(*_copies(arguments))),
        "cpu": _listed(kernel(*_copies(arguments), **constants)),
    }
    for arch in ARCHITECTURES:
        for plan, made in enumerate(emulated_plans(kernel, arch, *arguments, most=plans, **constants)):
            results[f"{arch}, plan {plan}"] = made
    return results


def emulated_plans(
    kernel: Kernel, arch: str, *arguments: object, most: int | None = None, **constants: object
) -> list[list[Array]]:
    """What the code of each plan for a call gives, the best first, or of so many. Arguments are copied."""
    results: list[list[Array]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        while most is None or len(results) < most:
            plan = len(results)
            try:
                made = kernel.emulate(*_copies(arguments), arch=arch, plan=plan, seed=plan or None, **constants)
            except TileUnsupportedError as error:
                if error.code != "emulate-plan" or not results:
                    raise
                break
            results.append(_listed(made))
    return results


def assert_alike(
    kernel: Kernel, *arguments: object, plans: int = 1, tolerance: float = 0.0, **constants: object
) -> list[Array]:
    """That a call gives the same everywhere, in whatever wider type: what it gives. `tolerance` is absolute."""
    results = on_every_target(kernel, *arguments, plans=plans, **constants)
    wanted = results["reference"]
    for target, found in results.items():
        assert_same(target, found, wanted, tolerance)
    return wanted


def assert_same(
    target: str, found: Sequence[Array], wanted: Sequence[Array], tolerance: float = 0.0, names: Sequence[str] = ()
) -> None:
    """That a target gave what was wanted, types included; a failure says which result is another."""
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        name = names[number] if names else f"result {number}"
        with named(f"{target}, {name}"):
            assert_close(got, want, relative=0, absolute=tolerance)


def _copies(arguments: Sequence[object]) -> list[object]:
    return [copy(argument) for argument in arguments]


def _listed(returned: object) -> list[Array]:
    return [np.asarray(value) for value in as_tuple(returned)]
