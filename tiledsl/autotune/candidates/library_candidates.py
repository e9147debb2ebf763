"""Calls of cuBLASLt as plans, where a program is one product: those that it would take itself, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.autotune.candidates.candidate import Candidate
from tiledsl.backend_cuda.driver.devices import current, device_of
from tiledsl.backend_cuda.library.library import Library, LibraryMissingError, library
from tiledsl.backend_cuda.program import CudaProgram
from tiledsl.passes.gpu.plan import Plan
from tiledsl.passes.library.find_product import find_product
from tiledsl.passes.library.library_product import NoLibraryCallError, call_of
from tiledsl.runtime.programs.plan_source import PlanQuestion
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail
from tiledsl.support.options import LOG

ALGORITHMS = 3
"""Of the library, that are tried: its first one is not always the fastest."""


def library_candidates(
    program: CudaProgram, question: PlanQuestion, strides: Sequence[Sequence[int]], device: int
) -> list[Candidate]:
    """The calls, none where the program is no product that the library computes. `strides`: in elements, of all
    tensors. Raises TileRuntimeError without the library, or the device."""
    own = checked_library()
    try:
        call = call_of(find_product(program.module.entry, dict(question.sizes)), strides)
        tensors = (*call.tensors, call.bias)
        alignment = [question.alignment[tensor] if tensor >= 0 else 0 for tensor in tensors]
        with current(device_of(device)):
            found = own.algorithms(call, alignment, ALGORITHMS, device)
    except NoLibraryCallError as error:
        LOG.info("no library is tried for %s: %s", program.name, error)
        return []
    return [
        Candidate(
            str(Plan((), sizes=question.sizes, alignment=question.alignment, library=plan)), None,
            f"cuBLASLt, its choice {number + 1}",
        )
        for number, plan in enumerate(found)
    ]  # fmt: skip


def checked_library() -> Library:
    """The library of this process. Raises TileRuntimeError where there is none."""
    try:
        return library()
    except LibraryMissingError as error:
        fail("library-missing", caller_location(), reason=error)
