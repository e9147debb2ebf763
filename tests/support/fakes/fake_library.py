"""A library for products of matrices that is not there: NumPy computes what a call says, in the host's memory.

It reads calls as the real one does: matrices lie column by column, `lines` and `steps` say where.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.fakes.fake_driver import FakeDriver, Node
from tiledsl.backend_cuda.library.library import replace_library
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.passes.gpu.plan import LibraryPlan
from tiledsl.passes.library.library_product import MatmulCall, NoLibraryCallError

DTYPES: dict[str, Any] = {name: to_numpy(BY_NAME[name]) for name in ("f16", "bf16", "f32")}
KERNEL_NODE = "CU_GRAPH_NODE_TYPE_KERNEL"


@dataclass
class FakeLibrary:
    """`count` algorithms for each call. `driver`: where calls are launched, if they may be captured there; `refusing`:
    why no call is taken; `failing`: why launches fail; `asked`, `launches`: what came."""

    version: int = 131000
    count: int = 2
    workspace: int = 1024
    driver: FakeDriver | None = None
    refusing: str = ""
    failing: str = ""
    wrong: bool = False
    asked: list[tuple[MatmulCall, tuple[int, ...]]] = field(default_factory=list["tuple[MatmulCall, tuple[int, ...]]"])
    launches: list[tuple[LibraryPlan, int]] = field(default_factory=list["tuple[LibraryPlan, int]"])

    def algorithms(self, call: MatmulCall, alignment: Sequence[int], count: int, device: int) -> list[LibraryPlan]:
        del device
        self.asked.append((call, tuple(alignment)))
        if self.refusing:
            raise NoLibraryCallError(self.refusing)
        words = [(66, number, 0, 0, 0, 0, 0, 0) for number in range(min(count, self.count))]
        return [LibraryPlan(self.version, one, self.workspace) for one in words]

    def ready(self, call: MatmulCall, plan: LibraryPlan, device: int) -> FakeCall:
        del device
        if self.refusing:
            raise NoLibraryCallError(self.refusing)
        return FakeCall(self, call, plan)


@dataclass
class FakeCall:
    library: FakeLibrary
    call: MatmulCall
    plan: LibraryPlan

    def __call__(self, addresses: Sequence[int], workspace: int, stream: int) -> None:
        assert workspace or not self.plan.workspace
        if self.library.failing:
            raise NoLibraryCallError(self.library.failing)
        places = tuple(addresses)
        driver = self.library.driver

        def node(places: tuple[int, ...]) -> Any:
            def run(stream: int) -> None:
                self.library.launches.append((self.plan, stream))
                compute(self.call, places, wrong=self.library.wrong)

            return run

        if driver is not None and driver.captured is not None:
            made = Node(node(places), lambda parameters: parameters.run)
            driver.captured.append(made)
        else:
            node(places)(stream)


def compute(call: MatmulCall, addresses: Sequence[int], *, wrong: bool = False) -> None:
    """Does what a call says, in f64."""
    first, second, out, bias = addresses
    a = _matrices(call, 0, first, (call.rows, call.sums)).astype(np.float64)
    b = _matrices(call, 1, second, (call.sums, call.columns)).astype(np.float64)
    total = a @ b
    if bias:
        total = total + _memory(bias, call.out_dtype, call.rows).astype(np.float64)[:, None]
    if call.activation == "relu":
        total = np.maximum(total, 0)
    elif call.activation == "gelu":
        total = total * (1 + np.tanh(math.sqrt(2 / math.pi) * (total + 0.044715 * total**3))) / 2
    if wrong:
        total = total + 1
    _matrices(call, 2, out, (call.rows, call.columns))[...] = total.astype(DTYPES[call.out_dtype])


def _matrices(call: MatmulCall, which: int, address: int, shape: tuple[int, int]) -> Any:
    """A view of matrices that lie column by column, or the other way round where they are turned."""
    turned = which < 2 and call.turned[which]
    dtype = call.dtype if which < 2 else call.out_dtype
    line, step, item = call.lines[which], call.steps[which], np.dtype(DTYPES[dtype]).itemsize
    rows, columns = shape[::-1] if turned else shape
    assert line >= rows, "the library refuses lines that are shorter than what is in them"
    span = step * (call.batches - 1) + line * (columns - 1) + rows
    memory = _memory(address, dtype, span)
    found: Any = np.lib.stride_tricks.as_strided(
        memory, (call.batches, rows, columns), (step * item, item, line * item)
    )  # fmt: skip
    return found.swapaxes(1, 2) if turned else found


def _memory(address: int, dtype: str, count: int) -> Any:
    """Elements in memory."""
    size = count * np.dtype(DTYPES[dtype]).itemsize
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, DTYPES[dtype])


@contextmanager
def fake_library(library: FakeLibrary | None) -> Generator[None]:
    """Puts it in the place of the real one; None: there is none."""
    replace_library("cuBLASLt is not installed (`pip install tiledsl[library]`)" if library is None else library)
    try:
        yield
    finally:
        replace_library(None)
