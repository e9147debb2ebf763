"""`gpu.wgmma`: products by warpgroups, which go on while other things are done.

The registers of an accumulator are taken over from op to op and never copied: `gpu.wgmma`, `gpu.wgmma_wait` and loops
give them on. What has to be written to registers first is written before the fence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from tiledsl.backend_cuda.emit.emit_control import can_take_over
from tiledsl.backend_cuda.emit.emit_elementwise import as_registers, copied, used_by
from tiledsl.backend_cuda.emit.emit_mma import slot_numbers
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.frame.shared_address import linear_text
from tiledsl.backend_cuda.functions import warpgroup_functions
from tiledsl.backend_cuda.functions.index_text import sum_text, table_text
from tiledsl.backend_cuda.functions.matrix_functions import words_of
from tiledsl.backend_cuda.functions.storage import Registers
from tiledsl.backend_cuda.functions.warpgroup_functions import Onto, product_function, settle, wgmma_wait
from tiledsl.ir.core import Op, Value
from tiledsl.ir.gpu.access_rules import layout_in_buffer
from tiledsl.ir.gpu.async_ops import Wgmma, WgmmaCommit, WgmmaFence, WgmmaWait
from tiledsl.ir.gpu.gpu_ops import Pad, Reduce
from tiledsl.ir.gpu.matrix_descriptors import shared_operand
from tiledsl.ir.gpu.warpgroup_instructions import WARPGROUP, WarpgroupInstruction, warpgroup_instruction
from tiledsl.ir.layouts.layout import WARP, RegisterLayout
from tiledsl.ir.tile_ops import Cast, Constant, For, If, Map, While

assert warpgroup_functions  # it defines device functions

_UNIT = 16
"""Bytes that addresses in descriptors count."""
WORTH_A_BRANCH = 16
"""Registers of a thread that are written beside products, from which on they are kept there."""


# Registers


def emit_fence(frame: KernelFrame, op: WgmmaFence) -> None:
    """Before it, all that the products behind it take from registers is written, and stays before it."""
    settled: set[str] = set()
    for product in _products_behind(op):
        operands = [product.acc] if product.a.tile.level == "shared" else [product.acc, product.a]
        for value in operands:
            if value not in frame.values:
                continue
            is_acc = value is product.acc
            if is_acc and _onto(product) == "nothing":
                continue
            registers = _accumulator(frame, product) if is_acc else as_registers(frame, value)
            if not is_acc:
                frame.values[value] = registers
            if _is_written(value) and registers.name not in settled:
                settled.add(registers.name)
                frame.line(f"{frame.preamble.use(settle(registers, 'written'))}({registers.name});")
    frame.line(f"{frame.use('wgmma_fence')}();")


def _products_behind(op: WgmmaFence) -> Iterator[Wgmma]:
    """The products between a fence and the next one, in its block."""
    assert op.parent is not None
    ops = op.parent.ops
    for later in ops[ops.index(op) + 1 :]:
        if isinstance(later, WgmmaFence):
            return
        if isinstance(later, Wgmma):
            yield later


def _is_written(value: Value) -> bool:
    """Whether other ops than products, and loops around them, have written to the registers of a value."""
    return value.op is not None and not isinstance(value.op, (Wgmma, WgmmaWait, For, While, If))


def _accumulator(frame: KernelFrame, op: Wgmma) -> Registers:
    """The registers that a product works in: those of `acc`, or a copy where these are still needed."""
    if op in frame.accumulators:
        return frame.accumulators[op]
    stored = frame.storage(op.acc)
    if isinstance(stored, Registers) and can_take_over(op.acc):
        found = stored
    elif _onto(op) == "nothing":
        found = frame.new_registers(of_program(op.result.name or "acc"), op.acc.dtype, op.acc.layout.slots)
    else:
        assert not isinstance(op.acc.op, Wgmma), "registers in flight cannot be copied"
        found = copied(frame, op.acc, stored, of_program(op.result.name))
    frame.accumulators[op] = found
    return found


def emit_commit(frame: KernelFrame, op: WgmmaCommit) -> None:
    frame.line(f"{frame.use('wgmma_commit')}();")


def made_beside(op: WgmmaWait) -> list[Value]:
    """The tiles that are computed between a wait for products and one for those that were begun last, and read behind
    it. Without the wait before, as where the next left operand is computed, others of the block multiply meanwhile."""
    assert op.parent is not None
    ops = op.parent.ops
    place = ops.index(op)
    begun = max((n for n, other in enumerate(ops[:place]) if isinstance(other, (Wgmma, WgmmaCommit))), default=place)
    if not any(isinstance(other, WgmmaWait) for other in ops[begun + 1 : place]):
        return []
    behind = {inner for later in ops[place + 1 :] for inner in later.walk()}
    made = [v for other in ops[begun + 1 : place] if _computes(other) for v in other.results if v.shape]
    return [value for value in made if any(user in behind for user in used_by(value))]


def _computes(op: Op) -> bool:
    return isinstance(op, (Map, Cast, Pad, Reduce))


def emit_wait(frame: KernelFrame, op: WgmmaWait) -> None:
    """What is computed beside products stays before the wait for them.

    Assemblers move waits up, to the first place where all that is waited for has been begun, and compute afterwards:
    then products and threads wait for each other in turns. They move nothing across a branch.
    """
    stored = [frame.values.get(value) for value in made_beside(op)]
    beside = list(dict.fromkeys(one for one in stored if isinstance(one, Registers)))
    if sum(registers.words for registers in beside) >= WORTH_A_BRANCH:
        for registers in beside:
            frame.line(f"{frame.preamble.use(settle(registers, 'written'))}({registers.name});")
        frame.line(f"{frame.use('computed_first')}();")
        frame.kept_behind.add(op)
    frame.line(f"{frame.preamble.use(wgmma_wait(op.groups))}();")
    for value, result in zip(op.values, op.results):
        registers = frame.storage(value)
        assert isinstance(registers, Registers), f"%{value.name} was in no product"
        frame.line(f"{frame.preamble.use(settle(registers, 'landed'))}({registers.name});")
        frame.values[result] = registers


# Products


def emit_wgmma(frame: KernelFrame, op: Wgmma) -> None:
    instruction = warpgroup_instruction(op.instruction)
    assert instruction is not None, f"{op.instruction} is no instruction"
    acc = _accumulator(frame, op)
    frame.values[op.result] = acc
    tiles = op.acc.layout.divided(instruction.accumulator_fragment)
    assert tiles is not None, f"{op.acc.layout} is none of {instruction}"
    slots = slot_numbers(tiles) * words_of(acc.dtype, instruction.accumulator_fragment.slots)
    rows, columns = slots.shape
    left = (
        _Registers(frame, op, instruction) if op.a.tile.level == "register" else _Operand(frame, op, instruction, "a")
    )
    right = _Operand(frame, op, instruction, "b")
    condition = frame.scalar(op.accumulate) if op.accumulate is not None else ""
    for step in range(op.depth // instruction.k):
        onto = _onto(op) if step == 0 else "sum"
        name = frame.preamble.use(
            product_function(
                instruction, onto=onto, a_in_registers=isinstance(left, _Registers),
                a_mn_major=left.mn_major, b_mn_major=right.mn_major,
            )
        )  # fmt: skip
        with frame.unrolled("i", rows) as i, frame.unrolled("j", columns) as j:
            at = sum_text(table_text([int(n) for n in slots[:, 0]], i), table_text([int(n) for n in slots[0, :]], j))
            arguments = [acc.name if at == "0" else f"&{acc.name}[{at}]", left.text(i, step), right.text(j, step)]
            if onto == "either":
                arguments.append(condition)
            frame.line(f"{name}({', '.join(arguments)});")


def _onto(op: Wgmma) -> Onto:
    if op.accumulate is None:
        return "sum"
    condition = op.accumulate.op
    if not isinstance(condition, Constant):
        return "either"
    return "sum" if condition.value else "nothing"


class _Registers:
    """`a` in registers."""

    mn_major = False

    def __init__(self, frame: KernelFrame, op: Wgmma, instruction: WarpgroupInstruction) -> None:
        self.registers = as_registers(frame, op.a)
        frame.values[op.a] = self.registers
        tiles = op.a.layout.divided(instruction.a_fragment)
        assert tiles is not None, f"{op.a.layout} is none of {instruction}"
        self.numbers = slot_numbers(tiles) * words_of(op.a.dtype, instruction.a_fragment.slots)

    def text(self, row: str, step: int) -> str:
        at = table_text([int(n) for n in self.numbers[:, step]], row)
        return self.registers.name if at == "0" else f"&{self.registers.name}[{at}]"


class _Operand:
    """An operand in shared memory: its descriptors, which are at constant distances from that of the first one."""

    def __init__(
        self, frame: KernelFrame, op: Wgmma, instruction: WarpgroupInstruction, which: Literal["a", "b"]
    ) -> None:
        left = which == "a"
        buffer, offsets = (op.a, op.a_offsets) if left else (op.b, op.b_offsets)
        self._k = instruction.k
        unit = instruction.m if left else instruction.n
        outer_axis, k_axis = op.a_axes if left else op.b_axes[::-1]
        self._operand = shared_operand(buffer.tile, outer_axis, k_axis, instruction, which)
        self.mn_major = not self._operand.k_major
        axis = 0 if left else 1
        along = op.acc.layout.reduced([1 - axis])  # what of M or N each thread has
        shared = frame.shared(buffer)
        tiles = layout_in_buffer(along, (outer_axis,), buffer.tile, frame.cluster)
        self._outers = _beginnings(tiles, unit)
        terms = [frame.shared_base, linear_text(frame, shared, offsets)]
        terms += [str(shared.offset), self._of_warpgroup(frame, tiles, unit)]
        address = frame.once_here("unsigned", f"{which}_at", sum_text(*terms))
        fixed = self._operand.descriptor(0).encode()
        text = f"{frame.use('matrix_descriptor')}({address}, {fixed:#x}ull)"
        self._first = frame.once_here("unsigned long long", f"{which}_descriptor", text)

    def _of_warpgroup(self, frame: KernelFrame, tiles: RegisterLayout, unit: int) -> str:
        """How far the warpgroup's part is from the first one, in bytes."""
        assert frame.threads % WARPGROUP == 0, "products are made by whole warpgroups"
        groups = frame.threads // WARPGROUP
        parts = np.asarray(tiles.thread_coordinates(np.arange(groups * frame.cluster) * WARPGROUP)[0])
        steps = [self._operand.step(int(part), 0) for part in np.broadcast_to(parts, (groups * frame.cluster,))]
        in_block = steps[:groups]
        of_blocks = [steps[block * groups] for block in range(frame.cluster)]
        assert steps == [block + group for block in of_blocks for group in in_block], f"{tiles} is no sum"
        number = "0" if groups == 1 else f"({frame.warp} / {WARPGROUP // WARP})"
        terms = [_table(in_block, number), _table(of_blocks, frame.rank if any(of_blocks) else "0")]
        return sum_text(*terms)

    def text(self, number: str, step: int) -> str:
        """The descriptor of instruction `number` along M or N, at a step of the depth."""
        steps = [self._operand.step(outer, step * self._k) // _UNIT for outer in self._outers]
        return sum_text(self._first, table_text(steps, number))


def _table(values: Sequence[int], number: str) -> str:
    return table_text(values, number) if any(values) else "0"


def _beginnings(tiles: RegisterLayout, unit: int) -> list[int]:
    """Where the instructions of one warpgroup begin along an axis, in elements."""
    found = np.unique(np.broadcast_to(tiles.slot_coordinates(np.arange(tiles.slots))[0], (tiles.slots,)) // unit)
    return [int(number) * unit for number in found]
