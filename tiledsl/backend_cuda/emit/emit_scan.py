"""`gpu.scan`: each thread its own runs of the axis, then lanes by shuffles, then warps through shared memory.

Threads stand along the axis in order, each with neighbours in its slots, in one chunk of the axis or several. What a
thread puts before its running folds is the fold of all that stands before the run: of the chunks before, of the warps
before in the chunk, and of its warp's lanes before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiledsl.backend_cuda.emit.combine import Combiner, combiner_of, folded_dtypes
from tiledsl.backend_cuda.emit.emit_fold import FULL, are_zero, pieces_text, scratch_pointer
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.casts import cast, pack
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.scalars import c_type, constant
from tiledsl.backend_cuda.functions.storage import Registers, Slot, Storage, element_text
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.fold_identities import fold_identity
from tiledsl.ir.gpu.gpu_ops import Scan
from tiledsl.ir.layouts.fold_plans import Piece, partial_bytes
from tiledsl.ir.layouts.layout import WARP
from tiledsl.ir.layouts.scan_plans import ScanPlan, plan_scan


@dataclass
class _Run:
    """The scan of one op: the running folds in arrays with one element per slot, and how to combine."""

    frame: KernelFrame
    op: Scan
    plan: ScanPlan
    combiner: Combiner
    dtypes: list[DType]
    names: list[str]
    starts: list[int]
    """The slots of the first elements of the runs: of each row its chunks, in the order of the scan."""
    along: list[int]
    """The distances from there along the run, in the order of the scan."""

    @property
    def chunks(self) -> int:
        """How many runs each row has."""
        return len(self.plan.chunks)

    def at(self, run: str, j: str) -> list[str]:
        """The elements of all sources at place `j` of a run."""
        slot = sum_text(table_text(self.starts, run), table_text(self.along, j))
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

    def assign(self, targets: Sequence[str], values: Sequence[str]) -> None:
        for target, value in zip(targets, values):
            self.frame.line(f"{target} = {value};")

    def declare(self, wanted: str, values: Sequence[str] = ()) -> list[str]:
        """Names for one scalar of each source, of these values if there are any."""
        names = [self.frame.names.fresh(wanted) for _ in self.names]
        for number, (name, dtype) in enumerate(zip(names, self.dtypes)):
            self.frame.line(f"{c_type(dtype)} {name}{f' = {values[number]}' if values else ''};")
        return names


def emit_scan(frame: KernelFrame, op: Scan, body: Callable[[KernelFrame, Block], None]) -> None:
    layout = op.sources[0].layout
    plan = plan_scan(layout, op.axis, frame.threads)
    assert plan is not None, f"a scan along {layout}"
    dtypes = folded_dtypes(op.fn, [v.dtype for v in op.sources])
    names = [frame.names.fresh(of_program(v.name or "running")) for v in op.results]
    chunks, along = (list(d[::-1] if op.reverse else d) for d in (plan.chunks, plan.run))
    starts = [row + chunk for row in plan.rows for chunk in chunks]
    run = _Run(frame, op, plan, combiner_of(frame, op, body), dtypes, names, starts, along)
    _scan_runs(run)
    if plan.lanes or plan.warps or len(chunks) > 1:
        _scan_threads(run)
    for result, name, dtype in zip(op.results, names, dtypes):
        frame.values[result] = registers_of_scan(frame, result, name, dtype)


def _scan_runs(run: _Run) -> None:
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
    with frame.unrolled("r", len(run.starts)) as r:
        frame.line("#pragma unroll")
        with frame.block(f"for (int j = 1; j < {len(run.along)}; ++j)"):
            run.put_before(run.at(r, "j"), run.at(r, "(j - 1)"))


def _scan_threads(run: _Run) -> None:
    """Adds to each element what stands before its run."""
    frame, plan, count = run.frame, run.plan, len(run.starts)
    lanes, warps = plan.lanes, plan.warps
    lane = _position(run, lanes, "lane_position") if lanes else "0"
    totals = [frame.names.fresh(of_program(name, "total")) for name in run.names]
    for total, dtype in zip(totals, run.dtypes):
        frame.line(f"{c_type(dtype)} {total}[{count}];")
    with frame.unrolled("r", count) as r:
        run.assign([f"{total}[{r}]" for total in totals], run.at(r, str(len(run.along) - 1)))
    if lanes:
        _scan_lanes(run, lanes, lane, totals)
    places: list[str] = []
    position = "0"
    if warps:
        position = _position(run, warps, "warp_position")
        places = _share_totals(run, lanes, lane, totals, position)
    with frame.unrolled("r", len(plan.rows)) as r:
        found = _scan_of_warps(run, r, places) if plan.is_shared_by_lanes else []
        _add_before(run, r, lane, totals, places, position, found)


def _position(run: _Run, piece: Piece, wanted: str) -> str:
    """Where the thread stands among those of a piece, counted in the direction of the scan."""
    text = pieces_text((piece,), run.frame.local_thread)
    return run.frame.define("int", wanted, f"{piece.size - 1} - {text}" if run.op.reverse else text)


def _shuffled(run: _Run, targets: Sequence[str], distance: str) -> list[str]:
    """The values of the lane that stands so far before."""
    verb = "down" if run.op.reverse else "up"
    return run.declare("before", [f"__shfl_{verb}_sync({FULL}, {target}, {distance})" for target in targets])


def _scan_lanes(run: _Run, piece: Piece, lane: str, totals: Sequence[str]) -> None:
    """All runs a step further, then the next step: what a step takes of other lanes is on its way for all of them."""
    frame = run.frame
    frame.line("#pragma unroll")
    with frame.block(f"for (int d = 1; d < {piece.size}; d *= 2)"), frame.unrolled("r", len(run.starts)) as r:
        of_run = [f"{total}[{r}]" for total in totals]
        before = _shuffled(run, of_run, "d" if piece.step == 1 else f"d * {piece.step}")
        with frame.block(f"if ({lane} >= d)"):
            run.put_before(of_run, before)


def _share_totals(run: _Run, lanes: Piece | None, lane: str, totals: Sequence[str], position: str) -> list[str]:
    """The last lane of each warp writes down what the runs of its warp come to; the pointers to where."""
    frame, op, plan = run.frame, run.op, run.plan
    assert op.buffer is not None, "a scan across warps needs a buffer"
    buffer = frame.shared(op.buffer)
    offset = 0
    places: list[str] = []
    for name, dtype in zip(run.names, run.dtypes):
        places.append(scratch_pointer(frame, buffer.text(offset), of_program(name, "of_warps"), dtype))
        offset += plan.block_bytes(partial_bytes(dtype))
    writers = [are_zero(plan.fold.copies, frame.local_thread), f"{lane} == {lanes.size - 1}" if lanes else ""]
    condition = " && ".join(test for test in writers if test)
    with frame.block(f"if ({condition})" if condition else ""), frame.unrolled("r", len(plan.rows)) as r:
        for chunk in range(run.chunks):
            for place, total in zip(places, totals):
                at = f"{_first_place(run, r)} + {chunk * plan.fold.positions} + {position}"
                frame.line(f"{place}[{at}] = {total}[{_run_number(run, r, chunk)}];")
    frame.line(frame.barrier())
    return places


def _first_place(run: _Run, r: str) -> str:
    """The first scratch element of a row."""
    plan = run.plan
    owner = f"({pieces_text(plan.fold.kept, run.frame.local_thread)})" if plan.fold.kept else "0"
    row = "0" if r == "0" else f"{r} * {plan.fold.owners}"
    return f"({sum_text(row, owner)}) * {plan.positions}"


def _run_number(run: _Run, r: str, chunk: int) -> str:
    """The number of the run of a row that is in a chunk."""
    if r == "0" or run.chunks == 1:
        return str(chunk) if r == "0" else r
    return f"({r} * {run.chunks} + {chunk})"


def _scan_of_warps(run: _Run, r: str, places: Sequence[str]) -> list[list[str]]:
    """The lanes of a warp scan what all warps wrote down: for each 32 of these, what stands before that of a lane."""
    frame, count = run.frame, run.plan.positions
    lane = frame.define("int", "lane_position", f"{frame.local_thread} % {WARP}")
    passed: list[str] = []
    found: list[list[str]] = []
    for first in range(0, count, WARP):
        here = min(WARP, count - first)
        at = f"{_first_place(run, r)} + {first} + {lane if here == WARP else f'min({lane}, {here - 1})'}"
        inclusive = run.declare("warp_total", [f"{place}[{at}]" for place in places])
        frame.line("#pragma unroll")
        with frame.block(f"for (int d = 1; d < {here}; d *= 2)"):
            before = run.declare("before", [f"__shfl_up_sync({FULL}, {name}, d)" for name in inclusive])
            with frame.block(f"if ({lane} >= d)"):
                run.put_before(inclusive, before)
        if passed:
            run.put_before(inclusive, passed)
        exclusive = run.declare("before", [f"__shfl_up_sync({FULL}, {name}, 1)" for name in inclusive])
        start = passed or _neutral(run)
        if start:
            with frame.block(f"if ({lane} == 0)"):
                run.assign(exclusive, start)
        passed = run.declare("passed", [f"__shfl_sync({FULL}, {name}, {WARP - 1})" for name in inclusive])
        found.append(exclusive)
    return found


def _add_before(
    run: _Run,
    r: str,
    lane: str,
    totals: Sequence[str],
    places: Sequence[str],
    position: str,
    found: Sequence[Sequence[str]],
) -> None:
    """Goes through the chunks of a row: what stands before a run is put before each of its elements. `found`: what
    stands before each warp of each chunk, where lanes have it."""
    passed: list[str] = []  # the fold of the chunks before
    for chunk in range(run.chunks):
        of_run = [f"{total}[{_run_number(run, r, chunk)}]" for total in totals]
        with run.frame.block(""):
            if found:
                number, first = divmod(chunk * run.plan.fold.positions, WARP)
                of_lane = [f"__shfl_sync({FULL}, {name}, {first} + {position})" for name in found[number]]
                has_any = "true" if chunk > 0 else f"{position} > 0"
                prefix = _Prefix(run, run.declare("before", of_lane), of_run, has_any)
            else:
                prefix = _Prefix(run, passed, of_run)
            if places and not found:
                _pass_warps(run, r, chunk, prefix, places, position)
            if run.plan.lanes:
                prefix.follow_if(f"{lane} > 0", _shuffled(run, of_run, str(run.plan.lanes.step)))
            prefix.put_before_run(_run_number(run, r, chunk))
        if chunk + 1 < run.chunks and not found:
            following = _passed(run, r, chunk, of_run, places)
            if passed:
                run.put_before(following, passed)
            passed = following


class _Prefix:
    """What stands before a run. Of builtin folds it is a value from the start, the neutral one; of others there may be
    none yet."""

    def __init__(self, run: _Run, passed: Sequence[str], anything: Sequence[str], has_passed: str = "true") -> None:
        self.run = run
        (self.neutral,) = _neutral(run) or ("",)
        self.names = run.declare("prefix", passed or ([self.neutral] if self.neutral else anything))
        self.has = "true" if self.neutral else run.frame.names.fresh("has_prefix")
        if not self.neutral:
            run.frame.line(f"bool {self.has} = {has_passed if passed else 'false'};")

    def follow_if(self, condition: str, values: Sequence[str]) -> None:
        """The values come behind all that is there already, in threads in which the condition holds."""
        run = self.run
        if self.neutral:
            found = f"{condition} ? {values[0]} : {self.neutral}"
            (chosen,) = run.declare("before", [found])
            run.put_before([chosen], self.names)
            run.assign(self.names, [chosen])
            return
        found = run.declare("before", values)
        with run.frame.block(f"if ({condition})"):
            with run.frame.block(f"if ({self.has})"):
                run.put_before(found, self.names)
            run.assign(self.names, found)
            run.frame.line(f"{self.has} = true;")

    def put_before_run(self, number: str) -> None:
        """Puts it before each element of the run."""
        run = self.run
        with run.frame.block("" if self.neutral else f"if ({self.has})"), run.frame.unrolled("j", len(run.along)) as j:
            run.put_before(run.at(number, j), self.names)


def _neutral(run: _Run) -> list[str]:
    """What changes no element that it is put before; nothing where nobody knows."""
    if not run.combiner.is_builtin:
        return []
    (dtype,) = run.dtypes
    is_sum = run.op.fn == "add" and dtype.is_float
    return [constant(-0.0 if is_sum else fold_identity(run.op.fn, dtype), dtype)]


def _pass_warps(run: _Run, r: str, chunk: int, prefix: _Prefix, places: Sequence[str], position: str) -> None:
    """Puts the warps before this one, in the same chunk, behind what stands before the chunk."""
    frame, plan = run.frame, run.plan
    frame.line("#pragma unroll")
    with frame.block(f"for (int p = 0; p < {plan.fold.positions - 1}; ++p)"):
        first = f"{_first_place(run, r)} + {chunk * plan.fold.positions}"
        prefix.follow_if(f"p < {position}", [f"{place}[{first} + p]" for place in places])


def _passed(run: _Run, r: str, chunk: int, totals: Sequence[str], places: Sequence[str]) -> list[str]:
    """What a chunk comes to, in all threads of the row."""
    frame, plan = run.frame, run.plan
    if places:
        first = f"{_first_place(run, r)} + {chunk * plan.fold.positions}"
        whole = run.declare("passed", [f"{place}[{first}]" for place in places])
        if plan.fold.positions > 1:
            frame.line("#pragma unroll")
            with frame.block(f"for (int p = 1; p < {plan.fold.positions}; ++p)"):
                found = run.declare("warp_total", [f"{place}[{first} + p]" for place in places])
                run.put_before(found, whole)
                run.assign(whole, found)
        return whole
    assert plan.lanes is not None, "chunks without threads between them are one run"
    ends = (plan.lanes.size - 1) * plan.lanes.step
    thread = f"{frame.local_thread} % {WARP}"
    last = f"({thread} & {(WARP - 1) & ~ends})" if run.op.reverse else f"({thread} | {ends})"
    return run.declare("passed", [f"__shfl_sync({FULL}, {total}, {last})" for total in totals])


def registers_of_scan(frame: KernelFrame, result: Value, name: str, dtype: DType) -> Storage:
    """What an array has for each slot, in the dtype of the result and as its values are stored."""
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
