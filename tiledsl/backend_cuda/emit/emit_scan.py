"""`gpu.scan`: each thread its own run of the axis, then lanes by shuffles, then warps through shared memory.

Threads stand along the axis in order, each with neighbours in its slots. What a thread adds to its own running fold is
the fold of all threads before it: of its warp's lanes, and of the warps before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.backend_cuda.emit.combine import Combiner, combiner_of, folded_dtypes
from tiledsl.backend_cuda.emit.emit_fold import FULL, are_zero, pieces_text, scratch_pointer, slot_tables
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.casts import cast, pack
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.backend_cuda.functions.storage import Registers, Slot, Storage, element_text
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.gpu_ops import Scan
from tiledsl.ir.layouts.fold_plans import FoldPlan, Piece, partial_bytes, plan_fold


@dataclass
class _Run:
    """The scan of one op: the running folds in arrays with one element per slot, and how to combine."""

    frame: KernelFrame
    op: Scan
    plan: FoldPlan
    combiner: Combiner
    dtypes: list[DType]
    names: list[str]
    rows: list[int]
    """The slots of the first element of each row that the thread has."""
    along: list[int]
    """The distances from there along the axis, in the order of the scan."""

    def at(self, r: str, j: str) -> list[str]:
        """The elements of all sources at place `j` of row `r`."""
        slot = sum_text(table_text(self.rows, r), table_text(self.along, j))
        return [f"{name}[{slot}]" for name in self.names]

    def put_before(self, targets: Sequence[str], lefts: Sequence[str]) -> None:
        """The targets become the folds of the lefts and of themselves, in that order."""
        frame = self.frame
        if self.combiner.is_builtin:
            frame.line(f"{targets[0]} = {self.combiner.combined(lefts[0], targets[0])};")
            return
        with frame.block(""):
            names = [frame.names.fresh("left") for _ in lefts]
            for name, dtype, left in zip(names, self.dtypes, lefts):
                frame.line(f"{c_type(dtype)} {name} = {left};")
            frame.line(self.combiner.into(names, targets))
            for target, name in zip(targets, names):
                frame.line(f"{target} = {name};")


def emit_scan(frame: KernelFrame, op: Scan, body: Callable[[KernelFrame, Block], None]) -> None:
    layout = op.sources[0].layout
    plan = plan_fold(layout, (op.axis,), frame.threads)
    assert len(plan.lanes) <= 1, f"a scan along {layout}"
    assert len(plan.warps) <= 1, f"a scan along {layout}"
    assert not plan.blocks, "a scan across a cluster"
    dtypes = folded_dtypes(op.fn, [v.dtype for v in op.sources])
    rows, along = slot_tables(layout, (op.axis,))
    names = [frame.names.fresh(of_program(v.name or "running")) for v in op.results]
    run = _Run(
        frame,
        op,
        plan,
        combiner_of(frame, op, body),
        dtypes,
        names,
        rows,
        along[::-1] if op.reverse else along,
    )
    _scan_slots(run)
    if plan.lanes or plan.warps:
        _scan_threads(run)
    for result, name, dtype in zip(op.results, names, dtypes):
        frame.values[result] = _result(frame, result, name, dtype)


def _scan_slots(run: _Run) -> None:
    frame, op = run.frame, run.op
    slots = op.sources[0].layout.slots
    for source, name, dtype in zip(op.sources, run.names, run.dtypes):
        frame.line(f"{c_type(dtype)} {name}[{slots}];")
        stored = frame.storage(source)
        with frame.unrolled("s", slots) as s:
            element = element_text(stored, Slot(s), frame.preamble)
            frame.line(f"{name}[{s}] = {cast(element, source.dtype, dtype, frame.preamble)};")
    if len(run.along) == 1:
        return
    with frame.unrolled("r", len(run.rows)) as r:
        frame.line("#pragma unroll")
        with frame.block(f"for (int j = 1; j < {len(run.along)}; ++j)"):
            run.put_before(run.at(r, "j"), run.at(r, "(j - 1)"))


def _scan_threads(run: _Run) -> None:
    """Adds to each element what stands in the threads before."""
    frame, plan = run.frame, run.plan
    lanes = plan.lanes[0] if plan.lanes else None
    lane = _position(run, lanes, "lane_position") if lanes else "0"
    warps = plan.warps[0] if plan.warps else None
    totals = [frame.names.fresh(of_program(name, "total")) for name in run.names]
    for total, dtype in zip(totals, run.dtypes):
        frame.line(f"{c_type(dtype)} {total}[{plan.results}];")
    with frame.unrolled("r", plan.results) as r:
        of_row = [f"{total}[{r}]" for total in totals]
        for target, last in zip(of_row, run.at(r, str(len(run.along) - 1))):
            frame.line(f"{target} = {last};")
        if lanes:
            _scan_lanes(run, lanes, lane, of_row)
    places: list[str] = []
    position = "0"
    if warps:
        position = _position(run, warps, "warp_position")
        places = _share_totals(run, lanes, lane, totals, position)
    with frame.unrolled("r", plan.results) as r:
        _add_before(run, r, lane, [f"{total}[{r}]" for total in totals], places, position)


def _position(run: _Run, piece: Piece, wanted: str) -> str:
    """Where the thread stands among those of a piece, counted in the direction of the scan."""
    text = pieces_text((piece,), run.frame.local_thread)
    return run.frame.define("int", wanted, f"{piece.size - 1} - {text}" if run.op.reverse else text)


def _shuffled(run: _Run, targets: Sequence[str], distance: str) -> list[str]:
    """The values of the lane that stands so far before."""
    verb = "down" if run.op.reverse else "up"
    found: list[str] = []
    for target, dtype in zip(targets, run.dtypes):
        found.append(run.frame.define(c_type(dtype), "before", f"__shfl_{verb}_sync({FULL}, {target}, {distance})"))
    return found


def _scan_lanes(run: _Run, piece: Piece, lane: str, totals: Sequence[str]) -> None:
    frame = run.frame
    frame.line("#pragma unroll")
    with frame.block(f"for (int d = 1; d < {piece.size}; d *= 2)"):
        before = _shuffled(run, totals, "d" if piece.step == 1 else f"d * {piece.step}")
        with frame.block(f"if ({lane} >= d)"):
            run.put_before(totals, before)


def _share_totals(run: _Run, lanes: Piece | None, lane: str, totals: Sequence[str], position: str) -> list[str]:
    """The last lane of each warp writes down what its warp comes to; the pointers to where."""
    frame, op, plan = run.frame, run.op, run.plan
    assert op.buffer is not None, "a scan across warps needs a buffer"
    buffer = frame.shared(op.buffer)
    offset = 0
    places: list[str] = []
    for name, dtype in zip(run.names, run.dtypes):
        places.append(scratch_pointer(frame, buffer.text(offset), of_program(name, "of_warps"), dtype))
        offset += plan.block_bytes(partial_bytes(dtype))
    writers = [are_zero(plan.copies, frame.local_thread), f"{lane} == {lanes.size - 1}" if lanes else ""]
    condition = " && ".join(test for test in writers if test)
    with frame.block(f"if ({condition})" if condition else ""), frame.unrolled("r", plan.results) as r:
        for place, total in zip(places, totals):
            frame.line(f"{place}[{_index(run, r)} + {position}] = {total}[{r}];")
    frame.line(frame.barrier())
    return places


def _index(run: _Run, r: str) -> str:
    """The first scratch element of a row."""
    plan = run.plan
    owner = f"({pieces_text(plan.kept, run.frame.local_thread)})" if plan.kept else "0"
    row = "0" if r == "0" else f"{r} * {plan.owners}"
    return f"({sum_text(row, owner)}) * {plan.positions}"


def _add_before(run: _Run, r: str, lane: str, totals: Sequence[str], places: Sequence[str], position: str) -> None:
    """Folds all that stands before this thread, and puts it before each of its elements."""
    frame, plan = run.frame, run.plan
    prefixes = [frame.names.fresh("prefix") for _ in totals]
    for prefix, total, dtype in zip(prefixes, totals, run.dtypes):
        frame.line(f"{c_type(dtype)} {prefix} = {total};")
    tests: list[str] = []
    if plan.lanes:
        before = _shuffled(run, totals, str(plan.lanes[0].step))
        for prefix, text in zip(prefixes, before):
            frame.line(f"{prefix} = {text};")
        tests.append(f"{lane} > 0")
    has = frame.names.fresh("has_prefix")
    frame.line(f"bool {has} = {tests[0] if tests else 'false'};")
    if plan.warps:
        # from the nearest warp outwards, so that each comes before what is folded already
        frame.line("#pragma unroll")
        head = f"for (int p = {plan.positions - 1}; p >= 0; --p)"
        with frame.block(head), frame.block(f"if (p < {position})"):
            found = [f"{place}[{_index(run, r)} + p]" for place in places]
            with frame.block(f"if ({has})"):
                run.put_before(prefixes, found)
            with frame.block("else"):
                for prefix, text in zip(prefixes, found):
                    frame.line(f"{prefix} = {text};")
            frame.line(f"{has} = true;")
    with frame.block(f"if ({has})"), frame.unrolled("j", len(run.along)) as j:
        run.put_before(run.at(r, j), prefixes)


def _result(frame: KernelFrame, result: Value, name: str, dtype: DType) -> Storage:
    """The running folds in the dtype of the result."""
    slots = result.layout.slots
    wide = Registers(name, dtype, slots)
    if dtype == result.dtype and wide.per_word == 1:
        return wide
    registers = frame.new_registers(of_program(name, str(result.dtype)), result.dtype, slots)
    per = registers.per_word
    if per == 1 or wide.per_word > 1:
        with frame.unrolled("s", slots) as s:
            frame.line(f"{registers.name}[{s}] = {cast(f'{name}[{s}]', dtype, result.dtype, frame.preamble)};")
        return registers
    with frame.unrolled("w", registers.words) as w:
        elements: list[str] = []
        for i in range(per):
            slot = str(int(w) * per + i) if w.isdigit() else f"{per} * {w} + {i}"
            elements.append(f"{name}[{slot if slots % per == 0 else f'min({slot}, {slots - 1})'}]")
        frame.line(f"{registers.name}[{w}] = {pack(elements, result.dtype, frame.preamble)};")
    return registers
