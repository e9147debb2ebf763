"""`gpu.convert` by shuffles within warps (in threads it is a view: see `emit_elementwise`), and `gpu.interleave`."""

from __future__ import annotations

import math

from tiledsl.backend_cuda.emit.emit_access import set_bits
from tiledsl.backend_cuda.emit.emit_elementwise import as_registers
from tiledsl.backend_cuda.emit.emit_fold import FULL
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.frame.shared_address import is_sum_of_digits
from tiledsl.backend_cuda.functions.casts import pack
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.storage import Registers, Slot, element_text
from tiledsl.ir.gpu.gpu_ops import Convert, Interleave
from tiledsl.ir.layouts.conversions import ConversionPlan, convert_plan
from tiledsl.ir.layouts.layout import RegisterLayout


def emit_convert(frame: KernelFrame, op: Convert) -> None:
    assert isinstance(op.layout, RegisterLayout)
    plan = convert_plan(op.source.layout, op.layout)
    assert plan.kind == "shuffle", f"{op.source.layout} to {op.layout} is a matter of shared memory"
    source = as_registers(frame, op.source)
    target = frame.new_registers(of_program(op.result.name or "moved"), op.result.dtype, op.layout.slots)
    frame.values[op.result] = target
    own = _own_lane(frame, plan)
    words = _word_plan(plan, source.per_word)
    if words is not None:
        _move_words(frame, source, target, own, *words)
        return
    per, width = source.per_word, source.dtype.bits
    for slot, (origin, lane) in enumerate(zip(plan.slots, plan.lane_of_slot)):
        word, position = divmod(origin, per)
        moved = f"__shfl_sync({FULL}, {source.name}[{word}], {sum_text(own, str(lane))})"
        set_bits(frame, target, str(slot), f"({moved} >> {position * width} & {(1 << width) - 1:#x}u)")


def emit_interleave(frame: KernelFrame, op: Interleave) -> None:
    """Slots of the sources in turns; so many of them at a time that they fill whole words."""
    count, slots = len(op.sources), op.result.layout.slots
    target = frame.new_registers(of_program(op.result.name or "joined"), op.result.dtype, slots)
    frame.values[op.result] = target
    sources, per = [frame.storage(source) for source in op.sources], target.per_word
    each = math.lcm(count, per)
    turns = slots // each if slots % each == 0 else 0

    def element(number: int, turn: str) -> str:
        at, source = divmod(number, count)
        slot = str(at) if not turn else sum_text(turn if each == count else f"{each // count} * {turn}", str(at))
        return element_text(sources[source], Slot(slot), frame.preamble)

    def word(name: str, first: int, turn: str) -> None:
        elements = [element(min(number, slots - 1), turn) for number in range(first, first + per)]
        text = elements[0] if per == 1 else pack(elements, op.result.dtype, frame.preamble)
        frame.line(f"{target.name}[{name}] = {text};")

    if not turns:
        for number in range(target.words):
            word(str(number), number * per, "")
        return
    with frame.unrolled("s", turns) as turn:
        for number in range(each // per):
            word(sum_text("0" if turn == "0" else f"{each // per} * {turn}", str(number)), number * per, turn)


def _own_lane(frame: KernelFrame, plan: ConversionPlan) -> str:
    """What a lane's own number adds to the number of the lane that it gets things from."""
    lane = f"{frame.thread} % 32"
    terms = [
        ("" if divisor == 1 else f" / {divisor}", f" % {size}", "" if factor == 1 else f" * {factor}")
        for divisor, size, factor in plan.lane_digits
    ]
    text = " + ".join(lane + "".join(term) for term in terms) or "0"
    return text if text == "0" else frame.once_in_head("int", "from_lane", text)


def _word_plan(plan: ConversionPlan, per: int) -> tuple[list[int], list[int]] | None:
    """The source words and the lanes' constant parts, if whole words move; else None."""
    words: list[int] = []
    lanes: list[int] = []
    if len(plan.slots) % per:
        return None
    for first in range(0, len(plan.slots), per):
        origin = plan.slots[first]
        alike = all(
            plan.slots[first + i] == origin + i and plan.lane_of_slot[first + i] == plan.lane_of_slot[first]
            for i in range(per)
        )
        if origin % per or not alike:
            return None
        words.append(origin // per)
        lanes.append(plan.lane_of_slot[first])
    return words, lanes


def _move_words(
    frame: KernelFrame, source: Registers, target: Registers, own: str, words: list[int], lanes: list[int]
) -> None:
    def move(number: str) -> None:
        lane = sum_text(own, table_text(lanes, number))
        moved = f"__shfl_sync({FULL}, {source.name}[{table_text(words, number)}], {lane})"
        frame.line(f"{target.name}[{number}] = {moved};")

    if is_sum_of_digits([words, lanes]):
        with frame.unrolled("s", len(words)) as s:
            move(s)
    else:
        for number in range(len(words)):
            move(str(number))
