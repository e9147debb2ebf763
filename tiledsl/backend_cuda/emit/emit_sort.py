"""`gpu.sort`: each thread its own run of a row, then pairs of runs become one in order, twice as long each time.

Of two runs in order, the first is compared with the second from its end on, each element with one, and the lesser goes
to the first: then no element of the first is behind one of the second, and the same goes on within either of them, at
half of the distance. Distances within a run are registers; between lanes shuffles; between warps shared memory.
"""

from __future__ import annotations

from tiledsl.backend_cuda.emit.emit_fold import FULL, scratch_pointer
from tiledsl.backend_cuda.emit.emit_scan import registers_of_scan
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.casts import cast
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.scalars import c_type, register_dtype
from tiledsl.backend_cuda.functions.storage import Slot, element_text
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.gpu_ops import Sort
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.layouts.sort_plans import SortPlan, plan_sort


def emit_sort(frame: KernelFrame, op: Sort) -> None:
    layout, stored_as = op.source.layout, op.source.dtype
    dtype = register_dtype(stored_as)
    plan = plan_sort(layout, op.axis, frame.threads)
    assert plan is not None, f"a sort along {layout}"
    type_, name = c_type(dtype), frame.names.fresh(of_program(op.result.name or "sorted"))
    frame.line(f"{type_} {name}[{layout.slots}];")
    stored = frame.storage(op.source)
    with frame.unrolled("s", layout.slots) as s:
        element = element_text(stored, Slot(s), frame.preamble)
        frame.line(f"{name}[{s}] = {cast(element, stored_as, dtype, frame.preamble)};")
    row = _Row(frame, op, plan, dtype, name)
    with frame.unrolled("r", len(plan.rows)) as r:
        row.sort(r)
    frame.values[op.result] = registers_of_scan(frame, op.result, name, dtype)


class _Row:
    """Sorts the rows of a thread, one after the other, in `run`."""

    def __init__(self, frame: KernelFrame, op: Sort, plan: SortPlan, dtype: DType, name: str) -> None:
        self.frame, self.plan, self.type, self.name = frame, plan, c_type(dtype), name
        self.count = len(plan.run)
        self.place = ""
        if op.buffer is not None:
            self.place = scratch_pointer(frame, frame.shared(op.buffer).text(0), "room", dtype)
        self.lane = ""
        if plan.along > 1:
            self.lane = frame.define("int", "position", f"{frame.local_thread} % {plan.along}")

    def sort(self, r: str) -> None:
        frame, along = self.frame, self.plan.along
        with frame.block(""):
            frame.line(f"{self.type} run[{self.count}];")
            self._moved(r, "run[{e}] = {slot};")
            if self.count > 1:
                frame.line("#pragma unroll")
                with frame.block(f"for (int k = 2; k <= {self.count}; k *= 2)"):
                    self._compare("k - 1")
                    frame.line("#pragma unroll")
                    with frame.block("for (int j = k / 4; j > 0; j /= 2)"):
                        self._compare("j")
            if along > 1:
                frame.line("#pragma unroll 1")
                with frame.block(f"for (int k = 2; k <= {along}; k *= 2)"):
                    self._exchange("k - 1", "k / 2", turned=True)
                    if along > 2:
                        frame.line("#pragma unroll 1")
                        with frame.block("for (int d = k / 4; d > 0; d /= 2)"):
                            self._exchange("d", "d", turned=False)
                    if self.count > 1:
                        frame.line("#pragma unroll")
                        with frame.block(f"for (int j = {self.count // 2}; j > 0; j /= 2)"):
                            self._compare("j")
            self._moved(r, "{slot} = run[{e}];")

    def _moved(self, r: str, line: str) -> None:
        with self.frame.unrolled("e", self.count) as e:
            slot = sum_text(table_text(self.plan.rows, r), table_text(self.plan.run, e))
            self.frame.line(line.format(e=e, slot=f"{self.name}[{slot}]"))

    def _compare(self, mask: str) -> None:
        """Orders the elements of a run, each with that whose number differs in the bits of a mask."""
        frame = self.frame
        frame.line("#pragma unroll")
        with frame.block(f"for (int e = 0; e < {self.count}; ++e)"):
            frame.line(f"const int other = e ^ ({mask});")
            with frame.block("if (other > e)"):
                frame.line(f"const {self.type} least = run[e] < run[other] ? run[e] : run[other];")
                frame.line("run[other] = run[e] < run[other] ? run[other] : run[e];")
                frame.line("run[e] = least;")

    def _exchange(self, mask: str, bit: str, *, turned: bool) -> None:
        """The same with the thread whose place differs in the bits of a mask; `turned`: with its run from the end."""
        frame, crosses = self.frame, bool(self.place)
        with frame.block(""):
            frame.line(f"const bool first = ({self.lane} & ({bit})) == 0;")
            if not crosses:
                self._by_shuffles(mask, turned)
                return
            with frame.block(f"if (({mask}) < {WARP})"):
                self._by_shuffles(mask, turned)
            with frame.block("else"):
                threads = frame.threads
                with frame.unrolled("e", self.count) as e:
                    frame.line(f"{self.place}[{e} * {threads} + {frame.local_thread}] = run[{e}];")
                frame.line(frame.barrier())
                with frame.unrolled("e", self.count) as e:
                    at = f"({self.count - 1} - {e})" if turned else e
                    other = f"{self.place}[{at} * {threads} + ({frame.local_thread} ^ ({mask}))]"
                    frame.line(f"const {self.type} other = {other};")
                    frame.line(f"run[{e}] = (other < run[{e}]) == first ? other : run[{e}];")
                frame.line(frame.barrier())

    def _by_shuffles(self, mask: str, turned: bool) -> None:
        frame = self.frame
        pairs = turned and self.count > 1
        with frame.unrolled("e", self.count // 2 if pairs else self.count) as e:
            places = [e, f"{self.count - 1} - {e}"] if pairs else [e]
            for number, place in enumerate(reversed(places)):
                frame.line(f"const {self.type} other_{number} = __shfl_xor_sync({FULL}, run[{place}], {mask});")
            for number, place in enumerate(places):
                chosen = f"(other_{number} < run[{place}]) == first ? other_{number} : run[{place}]"
                frame.line(f"run[{place}] = {chosen};")
