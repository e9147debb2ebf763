"""`gpu.reduce`: slots first, then lanes by shuffles, then warps and blocks of a cluster through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from tiledsl.backend_cuda.emit.combine import Combiner, combiner_of, extreme_of, folded_dtypes
from tiledsl.backend_cuda.emit.element_texts import slot_table
from tiledsl.backend_cuda.emit.exchange_partials import Exchange, begin_exchange
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions import lane_functions
from tiledsl.backend_cuda.functions.casts import cast, pack
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, Slot, Storage, element_text
from tiledsl.backend_cuda.values.stored_results import is_only_stored
from tiledsl.ir.core import Block, Value
from tiledsl.ir.dtypes import DType, bool_, i32, i64
from tiledsl.ir.gpu.gpu_ops import Reduce
from tiledsl.ir.layouts.fold_plans import FoldPlan, Piece, partial_bytes, plan_fold
from tiledsl.ir.layouts.layout import WARP, Digit, RegisterLayout

assert lane_functions  # it defines device functions

_ACCUMULATORS = 4
"""Independent sums of one thread, so that an addition need not wait for the one before."""
MOST_UNROLLED = 256
"""So many partial results of other threads are fetched by code of their own each. NVRTC takes seconds for thousands."""
FULL = "0xffffffffu"


@dataclass(frozen=True)
class Partials:
    """The values that are folded together, each an array with one element per result."""

    names: tuple[str, ...]
    dtypes: tuple[DType, ...]

    def at(self, index: str) -> list[str]:
        return [f"{name}[{index}]" for name in self.names]


def emit_reduce(frame: KernelFrame, op: Reduce, body: Callable[[KernelFrame, Block], None]) -> None:
    layout = op.sources[0].layout
    plan = plan_fold(layout, op.axes, frame.threads)
    combiner = combiner_of(frame, op, body)
    dtypes = folded_dtypes(op.fn, [v.dtype for v in op.sources])
    names = [frame.names.fresh(_partial_name(op, number)) for number in range(len(dtypes))]
    partials = Partials(tuple(names), tuple(dtypes))
    for name, dtype in zip(names, dtypes):
        frame.line(f"{c_type(dtype)} {name}[{plan.results}];")
    _fold_slots(frame, op, layout, combiner, partials)
    _fold_lanes(frame, plan.lanes, plan.results, combiner, partials)
    if plan.warps or plan.blocks:
        _fold_through_memory(frame, op, plan, combiner, partials)
    for number, result in enumerate(op.results):
        frame.values[result] = _result(frame, op, result, partials, number, plan.results)


def is_exchanged(frame: KernelFrame, op: Reduce) -> bool:
    """Whether warps tell each other of their elements, and wait."""
    plan = plan_fold(op.sources[0].layout, op.axes, frame.threads)
    return bool(plan.warps or plan.blocks)


def _partial_name(op: Reduce, number: int) -> str:
    result = op.results[min(number, len(op.results) - 1)]
    name = result.name or op.fn
    if op.fn in ("argmax", "argmin"):
        return ("extreme", of_program(name))[number]
    return of_program(name, "" if result.dtype.bits >= 32 or op.fn == "custom" else "wide")


# In one thread


def slot_tables(layout: RegisterLayout, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """The slots of the first elements of each result, and the distances from there of what is folded."""
    kept: list[tuple[int, Digit]] = []
    folded: list[tuple[int, Digit]] = []
    factor = 1
    for digit in reversed(layout.slot_digits):
        (folded if digit.axis in axes else kept).append((factor, digit))
        factor *= digit.size
    return _enumerated(kept), _enumerated(folded)


def _enumerated(digits: Sequence[tuple[int, Digit]]) -> list[int]:
    """All sums of digits, given innermost first with the slots that each is worth."""
    found = [0]
    for factor, digit in digits:
        found = [factor * value + low for value in range(digit.size) for low in found]
    return found


def _fold_slots(frame: KernelFrame, op: Reduce, layout: RegisterLayout, combiner: Combiner, partials: Partials) -> None:
    results, distances = slot_tables(layout, op.axes)
    sources = [frame.storage(v) for v in op.sources]
    places: list[int] = []
    if op.fn in ("argmax", "argmin"):
        along = slot_table(layout, op.axes[0])
        distances.sort(key=along.__getitem__)
        places = [along[distance] for distance in distances]
    with frame.unrolled("r", len(results)) as r:

        def elements(j: str, order: Sequence[int] = distances) -> list[str]:
            slot = Slot(_add(table_text(results, r), table_text(order, j)))
            return [_widened(frame, s, slot, v.dtype, d) for s, v, d in zip(sources, op.sources, partials.dtypes)]

        targets = partials.at(r)
        if places:
            extreme = extreme_of(frame, op)
            _fold_elements(frame, extreme, targets[:1], partials.dtypes[0], elements, len(distances), len(results))
            _find(frame, op, targets, partials.dtypes[0], lambda j: elements(j, distances[::-1])[0], places[::-1])
        else:
            _fold_elements(frame, combiner, targets, partials.dtypes[0], elements, len(distances), len(results))


def _fold_elements(
    frame: KernelFrame,
    combiner: Combiner,
    targets: Sequence[str],
    dtype: DType,
    elements: Callable[[str], list[str]],
    count: int,
    results: int,
) -> None:
    """Folds the elements of one result, of as many as a thread has."""
    if combiner.is_builtin and count >= 2 * _ACCUMULATORS and count % _ACCUMULATORS == 0 and results < 4:
        _fold_in_several(frame, combiner, targets[0], dtype, elements, count)
        return
    for target, text in zip(targets, elements("0")):
        frame.line(f"{target} = {text};")
    if count > 1:
        frame.line("#pragma unroll")
        with frame.block(f"for (int j = 1; j < {count}; ++j)"):
            frame.line(combiner.into(targets, elements("j")))


def _find(
    frame: KernelFrame,
    op: Reduce,
    targets: Sequence[str],
    dtype: DType,
    element: Callable[[str], str],
    places: Sequence[int],
) -> None:
    """Where the first of a thread's elements stands that is its extreme. `places` go from the last to the first."""
    value, index = targets
    frame.line(f"{index} = {places[0]};")
    if len(places) > 1:

        def take_where(condition: str) -> None:
            frame.line("#pragma unroll")
            with frame.block(f"for (int j = 1; j < {len(places)}; ++j)"):
                frame.line(f"{index} = {condition} ? {table_text(places, 'j')} : {index};")

        # none is beyond the extreme; NaN is neither before nor beyond anything
        take_where(f"!({element('j')} {'<' if op.fn == 'argmax' else '>'} {value})")
        if dtype.is_float:
            with frame.block(f"if ({value} != {value})"):
                frame.line(f"{index} = {places[0]};")
                take_where(f"{element('j')} != {element('j')}")
    thread = frame.thread_coordinate(op.sources[0].layout, op.axes[0])
    if thread != "0":
        frame.line(f"{index} += {thread};")


def _add(left: str, right: str) -> str:
    if left.isdigit() and right.isdigit():
        return str(int(left) + int(right))
    return sum_text(left, right)


def _widened(frame: KernelFrame, source: Storage, slot: Slot, dtype: DType, wide: DType) -> str:
    return cast(element_text(source, slot, frame.preamble), dtype, wide, frame.preamble)


def _fold_in_several(
    frame: KernelFrame, combiner: Combiner, target: str, dtype: DType, elements: Callable[[str], list[str]], count: int
) -> None:
    """Several running totals, which are folded at the end."""
    part = frame.names.fresh("part")
    first = ", ".join(elements(str(i))[0] for i in range(_ACCUMULATORS))
    frame.line(f"{c_type(dtype)} {part}[{_ACCUMULATORS}] = {{{first}}};")
    frame.line("#pragma unroll")
    with frame.block(f"for (int j = {_ACCUMULATORS}; j < {count}; ++j)"):
        frame.line(combiner.into([f"{part}[j % {_ACCUMULATORS}]"], elements("j")))
    pairs = [combiner.combined(f"{part}[{i}]", f"{part}[{i + 1}]") for i in range(0, _ACCUMULATORS, 2)]
    frame.line(f"{target} = {combiner.combined(*pairs)};")


# Between the lanes of a warp


def _fold_lanes(
    frame: KernelFrame, lanes: Sequence[Piece], results: int, combiner: Combiner, partials: Partials
) -> None:
    if not lanes:
        return
    with frame.unrolled("r", results) as r:
        whole = len(lanes) == 1 and lanes[0].step == 1 and lanes[0].size == WARP
        if whole and combiner.warp_instruction:
            target = partials.at(r)[0]
            frame.line(f"{target} = {combiner.warp_instruction}({FULL}, {target});")
            return
        for piece in lanes:
            fold_distances(frame, piece.step, piece.size, combiner, partials.at(r))


def fold_distances(frame: KernelFrame, step: int, size: int, combiner: Combiner, targets: Sequence[str]) -> None:
    """Folds over lanes that are `step`, 2 * `step` ... apart; all of them have the result."""

    def line(distance: str) -> None:
        others = [f"__shfl_xor_sync({FULL}, {target}, {distance})" for target in targets]
        if combiner.dtype == bool_:
            # `&&` may leave its right side out, but every lane must come to the shuffle
            others = [frame.define("bool", "other", other) for other in others]
        frame.line(combiner.into(targets, others))

    if size == 2:
        line(str(step))
        return
    frame.line("#pragma unroll")
    with frame.block(f"for (int d = {step * size // 2}; d >= {step}; d /= 2)"):
        line("d")


# Through shared memory


def _fold_through_memory(
    frame: KernelFrame, op: Reduce, plan: FoldPlan, combiner: Combiner, partials: Partials
) -> None:
    assert op.buffer is not None, "a fold across warps needs a buffer"
    memory = frame.shared(op.buffer)
    sizes = [partial_bytes(dtype) for dtype in partials.dtypes]
    exchange = begin_exchange(frame, op.buffer) if plan.blocks else None
    offset, turn = plan.barrier_bytes, ""
    if exchange is not None:
        arriving = sum(plan.arriving_bytes(size) for size in sizes)
        frame.line(f"if ({frame.local_thread} == 0) {frame.use('expect_bytes')}({exchange.barrier}, {arriving}u);")
        each = (plan.scratch_bytes(sizes) - offset) // plan.buffers
        turn = "" if exchange.turn == "0" else f" + {exchange.turn} * {each}"
    if plan.warps:
        places: list[str] = []
        for name, dtype, size in zip(partials.names, partials.dtypes, sizes):
            places.append(scratch_pointer(frame, memory.text(offset) + turn, of_program(name, "of_warps"), dtype))
            offset += plan.block_bytes(size)
        _fold_warps(frame, plan, combiner, partials, places, exchange is None and is_only_stored(op))
    elif exchange is not None and exchange.run:
        frame.line(f"{frame.barrier()}  // all have read what they were told in the run before")
    if exchange is not None:
        places = []
        for name, dtype, size in zip(partials.names, partials.dtypes, sizes):
            sent = i32 if dtype == bool_ else dtype
            places.append(scratch_pointer(frame, memory.text(offset) + turn, of_program(name, "of_blocks"), sent))
            offset += plan.cluster_bytes(size)
        _fold_blocks(frame, plan, combiner, partials, places, exchange)


def scratch_pointer(frame: KernelFrame, text: str, wanted: str, dtype: DType) -> str:
    """A pointer to scratch memory for register values of a dtype."""
    type_ = c_type(dtype)
    return frame.define(f"{type_}*", wanted, f"reinterpret_cast<{type_}*>({text})")


def pieces_text(pieces: Sequence[Piece], thread: str) -> str:
    """The number that the pieces of a thread number make, the first of them counting fastest."""
    terms: list[str] = []
    factor = 1
    for piece in pieces:
        at = thread if piece.step == 1 else f"{thread} / {piece.step}"
        text = f"{at} % {piece.size}"
        terms.append(text if factor == 1 else f"{text} * {factor}")
        factor *= piece.size
    return " + ".join(reversed(terms)) or "0"


def are_zero(pieces: Sequence[Piece], thread: str) -> str:
    """Whether all of the pieces of a thread number are 0; empty if there are none."""
    tests = [f"{thread if p.step == 1 else f'{thread} / {p.step}'} % {p.size} == 0" for p in pieces]
    return " && ".join(tests)


def _fold_warps(
    frame: KernelFrame, plan: FoldPlan, combiner: Combiner, partials: Partials, places: Sequence[str], by_first: bool
) -> None:
    """`by_first`: only the threads of the first warps need the results."""
    owner = frame.define("int", "owner", pieces_text(plan.kept, frame.local_thread)) if plan.kept else "0"
    position = frame.define("int", "position", pieces_text(plan.warps, frame.local_thread))

    count = plan.positions
    # lanes side by side may fetch a partial each only where they hold the same element
    alike = all(piece.step >= count for piece in plan.kept)
    by_lanes = alike and 4 < count <= WARP and count & (count - 1) == 0 and frame.threads % WARP == 0

    def index(r: str, at: str) -> str:
        """Side by side lies what lanes access together: the partials of an element, or one of each element."""
        terms = ("0" if r == "0" else f"{r} * {plan.owners}", owner)
        if not by_lanes:
            each = plan.results * plan.owners
            return sum_text(at if at == "0" or each == 1 else f"{at} * {each}", *terms)
        place = sum_text(*terms)
        return sum_text("0" if place == "0" else f"({place}) * {count}", at)

    writers = are_zero((*plan.lanes, *plan.copies), frame.local_thread)
    with frame.block(f"if ({writers})" if writers else ""), frame.unrolled("r", plan.results) as r:
        for place, target in zip(places, partials.at(r)):
            frame.line(f"{place}[{index(r, position)}] = {target};")
    frame.line(frame.barrier())
    if not by_lanes:
        first = are_zero(plan.warps, frame.local_thread)
        with frame.block(f"if ({first})") if by_first else nullcontext():
            _fold_parts(frame, plan.results, count, combiner, partials, places, index)
        return
    with frame.unrolled("r", plan.results) as r:
        at = f"{frame.local_thread} % {count}"
        for place, target in zip(places, partials.at(r)):
            frame.line(f"{target} = {place}[{index(r, at)}];")
        fold_distances(frame, 1, count, combiner, partials.at(r))


def _fold_parts(
    frame: KernelFrame,
    results: int,
    count: int,
    combiner: Combiner,
    partials: Partials,
    places: Sequence[str],
    index: Callable[[str, str], str],
) -> None:
    """Folds `count` parts of each result, in order; a part lies at an `index` of `places`.

    Where that is much to write, the parts are a loop, in which all results of a part are fetched at a time.
    """
    few = results * count <= MOST_UNROLLED
    with frame.unrolled("r", results) as r:
        for place, target in zip(places, partials.at(r)):
            frame.line(f"{target} = {place}[{index(r, '0')}];")
        if few:
            frame.line("#pragma unroll")
            with frame.block(f"for (int p = 1; p < {count}; ++p)"):
                frame.line(combiner.into(partials.at(r), [f"{place}[{index(r, 'p')}]" for place in places]))
    if few:
        return
    frame.line("#pragma unroll 1")
    with frame.block(f"for (int p = 1; p < {count}; ++p)"), frame.unrolled("r", results) as r:
        frame.line(combiner.into(partials.at(r), [f"{place}[{index(r, 'p')}]" for place in places]))


def _fold_blocks(
    frame: KernelFrame,
    plan: FoldPlan,
    combiner: Combiner,
    partials: Partials,
    places: Sequence[str],
    exchange: Exchange,
) -> None:
    """Every block tells all others what it has; then each folds what it was told, in the same order."""
    owner = frame.define("int", "owner", pieces_text(plan.kept, frame.local_thread)) if plan.kept else "0"
    ranks = [Piece(p.step // frame.threads, p.size, p.axis, p.stride) for p in plan.blocks]
    own = frame.define("int", "own_part", pieces_text(ranks, frame.rank))
    offsets = [0]
    for piece in ranks:
        offsets = [value * piece.step + low for value in range(piece.size) for low in offsets]
    removed = " + ".join(f"{frame.rank} / {p.step} % {p.size} * {p.step}" for p in ranks)
    others = frame.define("unsigned", "first_peer", f"{frame.rank} - ({removed})")

    def index(r: str, at: str) -> str:
        place = owner if r == "0" else f"({sum_text(f'{r} * {plan.owners}', owner)})"
        return sum_text("0" if place == "0" else f"{place} * {plan.peers}", at)

    def send(r: str, p: str) -> None:
        peer = sum_text(others, table_text(offsets, p))
        for place, target, dtype in zip(places, partials.at(r), partials.dtypes):
            function = frame.use(f"send_to_peer_{i32 if dtype == bool_ else dtype}")
            frame.line(f"{function}(&{place}[{index(r, own)}], {exchange.barrier}, {peer}, {target});")

    if exchange.begins:
        frame.line(f"{frame.use('cluster_wait')}();  // all blocks have made their barriers")
    local = frame.local_thread
    if not plan.kept and plan.peers <= frame.threads:
        # all threads have the same: each sends it to one block
        with frame.block(f"if ({local} < {plan.peers})"), frame.unrolled("r", plan.results) as r:
            send(r, local)
    elif plan.alike >= plan.peers:
        # so have the threads of an owner: each sends some of the results to one block
        turns = min(plan.results, plan.alike // plan.peers)
        number = pieces_text((*plan.lanes, *plan.warps, *plan.copies), local)
        number = frame.define("int", "sender", number)
        to = frame.define("int", "to", f"{number} % {plan.peers}")
        with frame.unrolled("r", plan.results) as r:
            mine = f"{number} / {plan.peers} == {r} % {turns}" if turns > 1 else f"{number} < {plan.peers}"
            with frame.block(f"if ({mine})"):
                send(r, to)
    else:
        writers = are_zero((*plan.lanes, *plan.warps, *plan.copies), local)
        with (
            frame.block(f"if ({writers})" if writers else ""),
            frame.unrolled("r", plan.results) as r,
            frame.unrolled("p", plan.peers) as p,
        ):
            send(r, p)
    frame.line(f"{frame.use('wait_for_bytes')}({exchange.barrier}, {exchange.parity});")
    if exchange.run:
        frame.line(f"++{exchange.run};")
    _fold_parts(frame, plan.results, plan.peers, combiner, partials, places, index)


def _result(frame: KernelFrame, op: Reduce, result: Value, partials: Partials, number: int, count: int) -> Storage:
    """The folded values as a value of the program: in its dtype, as a scalar or as registers."""
    index = op.fn in ("argmax", "argmin")
    number = 1 if index else number
    name, dtype = partials.names[number], (i32 if index else partials.dtypes[number])
    target = i64 if index else result.dtype

    def text(slot: str) -> str:
        return cast(f"{name}[{slot}]", dtype, target, frame.preamble)

    if not result.shape:
        return Scalar(frame.define(c_type(target), of_program(result.name or op.fn, "value"), text("0")), target)
    if dtype == target and Registers(name, target, count).per_word == 1:
        return Registers(name, target, count)
    registers = frame.new_registers(of_program(result.name or op.fn), target, count)
    with frame.unrolled("r", registers.words) as r:
        per = registers.per_word
        if per == 1:
            frame.line(f"{registers.name}[{r}] = {text(r)};")
        else:
            slots = [_packed_slot(r, per, i, count) for i in range(per)]
            words = pack([f"{name}[{slot}]" for slot in slots], target, frame.preamble)
            frame.line(f"{registers.name}[{r}] = {words};")
    return registers


def _packed_slot(word: str, per: int, position: int, count: int) -> str:
    """The slot of a word's element; the last one again beyond the end."""
    if word.isdigit():
        return str(min(int(word) * per + position, count - 1))
    slot = f"{per} * {word} + {position}"
    return slot if count % per == 0 else f"min({slot}, {count - 1})"
