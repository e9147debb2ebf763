"""Loops and branches. What they carry is in variables that are declared before them and assigned in their bodies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, Union

from tiledsl.backend_cuda.emit.emit_access import put_together
from tiledsl.backend_cuda.emit.emit_elementwise import copied, used_by
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, SharedMemory, Storage, View
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.gpu.async_ops import MbarrierWait, Wgmma
from tiledsl.ir.gpu.gpu_ops import Copy, Load
from tiledsl.ir.scalar_functions import SCALAR_FUNCTIONS
from tiledsl.ir.tile_ops import For, If, Map, While
from tiledsl.passes.analysis.early_loads import depends_on
from tiledsl.passes.analysis.sizes import constant_of
from tiledsl.passes.gpu.plan import WRITTEN_OUT, WRITTEN_OUT_WORDS

STREAMED = 4
"""Rounds that a loop over memory makes at a time."""
STREAMED_WORDS = 64
"""Registers that the reads of all these rounds may fill."""
STREAMED_COST = 8
"""What may be computed in such a round, for each element: with more of it, memory is not what the loop waits for."""
COMPUTED = 4
"""Rounds that a loop makes at a time which computes alone."""
COMPUTED_COST = 64
"""What is computed in all these rounds: the 7 instructions of a round that count it and move what it carries are no
more than that of a tenth."""
BodyEmitter = Callable[[KernelFrame, Block], None]
Variable: TypeAlias = Union[Scalar, Registers, View]
"""Of what a loop or branch carries; a view of what loads read once for several slots."""

_WRITTEN_OUT_TOGETHER = 16
"""Rounds of short loops within each other that are written out, all of them together."""


def emit_for(frame: KernelFrame, op: For, body: BodyEmitter) -> None:
    """`for (long long i = start; i < stop; i += step)`, counting down where the step is negative."""
    _, *carried = op.body.arguments
    variables = [_variable(frame, *one) for one in zip(op.initial, carried, _yielded(op.body))]
    index = op.body.arguments[0]
    name = frame.names.fresh(of_program(index.name or "index"))
    type_ = c_type(index.dtype)
    start, stop, step = (frame.scalar(v) for v in (op.start, op.stop, op.step))
    known = constant_of(op.step)
    if known is None:
        test = f"{step} > 0 ? {name} < {stop} : {name} > {stop}"
    else:
        test = f"{name} < {stop}" if known > 0 else f"{name} > {stop}"
    rounds = 1 if is_rare(op) else None if _is_short(op) else _together(op)
    frame.line(f"#pragma unroll{'' if rounds is None else f' {rounds}'}")
    frame.values[index] = Scalar(name, index.dtype)
    frame.nesting += 1
    with frame.block(f"for ({type_} {name} = {start}; {test}; {name} += {step})"):
        _bind(frame, carried, variables)
        body(frame, op.body)
        yielded = _yielded(op.body)
        late = [_is_multiplied(a) and not _is_made_behind(frame, v) for a, v in zip(carried, yielded)]
        _assign(frame, variables, yielded, late)
    frame.nesting -= 1
    _bind(frame, op.results, variables)


def is_rare(op: Op) -> bool:
    """Whether an op is in a branch that hardly ever runs: it had better take few registers than little time."""
    block = op.parent
    while block is not None and block.parent is not None:
        if isinstance(block.parent, If) and block.parent.rare and block is block.parent.then:
            return True
        block = block.parent.parent
    return False


def _is_multiplied(argument: Value) -> bool:
    """Whether products take a tile from registers."""
    return any(isinstance(user, Wgmma) and user.a is argument for user in argument.users)


def _is_made_behind(frame: KernelFrame, value: Value) -> bool:
    """Whether a value is made behind the wait for the products that read the registers it goes to, and stays there."""
    op = value.op
    if op is None or op.parent is None:
        return False
    return any(before in frame.kept_behind for before in op.parent.ops[: op.parent.ops.index(op)])


def _together(op: For) -> int:
    """How many rounds of a long loop are written out: more than one where all they do is to read memory and compute, so
    that the reads of all of them are under way at once; or where they compute so little that counting them, and moving
    what they carry, takes as long."""
    plain = all(inner.effect in ("pure", "read", "terminator") and not inner.bodies for inner in op.body.ops)
    words = _words(op.body.ops)
    maps = [inner for inner in op.body.ops if isinstance(inner, Map) and inner.result.shape]
    cost = sum(SCALAR_FUNCTIONS[inner.fn].cost for inner in maps)
    if plain and maps and not any(inner.effect == "read" and _moves(op, inner) for inner in op.body.ops):
        computed = sum(SCALAR_FUNCTIONS[inner.fn].cost * inner.result.layout.slots for inner in maps)
        return max(1, min(COMPUTED, COMPUTED_COST // computed))
    cheap = cost <= STREAMED_COST
    return max(1, min(STREAMED, STREAMED_WORDS // words)) if words and plain and cheap else 1


def _moves(loop: For, op: Op) -> bool:
    """Whether an op of the loop's body depends on the turn. What does not is done before the loop."""
    return any(depends_on(op, argument) for argument in loop.body.arguments)


def _words(some: Iterable[Op]) -> int:
    """Registers that a round reads from memory."""
    reads = [op for op in some if isinstance(op, Load) and op.shape]
    return sum(-(-op.result.layout.slots * op.result.dtype.bytes // 4) for op in reads)


def _is_short(op: For) -> bool:
    if any(isinstance(inner, (Wgmma, MbarrierWait, Copy)) for inner in op.body.ops):
        return False  # rounds wait anyway, and written out they ask for more registers
    rounds = _rounds(op)
    if rounds is None:
        return False
    inner = [_rounds(inside) or 1 for inside in op.body.walk() if isinstance(inside, For)]
    every = rounds * math.prod(inner)
    if inner and every > _WRITTEN_OUT_TOGETHER:
        return False
    return rounds <= WRITTEN_OUT and every * _words(op.body.walk()) <= WRITTEN_OUT_WORDS


def _rounds(op: For) -> int | None:
    """How often a loop is gone through, if that is known."""
    start, stop, step = (constant_of(v) for v in (op.start, op.stop, op.step))
    return None if start is None or stop is None or not step else len(range(start, stop, step))


def emit_while(frame: KernelFrame, op: While, condition: BodyEmitter, body: BodyEmitter) -> None:
    """`while (true)`, left where the condition, which may take several lines, is false."""
    variables = [_variable(frame, *one) for one in zip(op.initial, op.body.arguments, _yielded(op.body))]
    frame.line("#pragma unroll 1")
    frame.nesting += 1
    with frame.block("while (true)"):
        _bind(frame, op.condition.arguments, variables)
        condition(frame, op.condition)
        (goes_on,) = _yielded(op.condition)
        frame.line(f"if (!{_enclosed(frame.scalar(goes_on))}) break;")
        _bind(frame, op.body.arguments, variables)
        body(frame, op.body)
        _assign(frame, variables, _yielded(op.body))
    frame.nesting -= 1
    _bind(frame, op.results, variables)


def emit_if(frame: KernelFrame, op: If, body: BodyEmitter) -> None:
    variables: list[Variable] = []
    for result, yes in zip(op.results, _yielded(op.then)):
        wanted = of_program(result.name or yes.name or "chosen")
        if result.shape:
            variables.append(frame.new_registers(wanted, result.dtype, yes.layout.slots))
        else:
            name = frame.names.fresh(wanted)
            frame.line(f"{c_type(result.dtype)} {name};")
            variables.append(Scalar(name, result.dtype))
    frame.nesting += 1
    with frame.block(f"if ({frame.scalar(op.condition)})"):
        body(frame, op.then)
        _assign(frame, variables, _yielded(op.then))
    if variables or len(op.otherwise.ops) > 1:
        with frame.block("else"):
            body(frame, op.otherwise)
            _assign(frame, variables, _yielded(op.otherwise))
    frame.nesting -= 1
    _bind(frame, op.results, variables)


def _enclosed(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _yielded(block: Block) -> tuple[Value, ...]:
    terminator = block.terminator
    return terminator.operands if terminator is not None else ()


def _variable(frame: KernelFrame, initial: Value, argument: Value, following: Value) -> Variable:
    """The variable of a carried value, with what it starts from. Registers that nothing else reads are taken over. What
    was read once for several slots stays so, if the `following` turn reads it alike."""
    wanted = of_program(argument.name or initial.name or "carried")
    stored = frame.storage(initial)
    if not initial.shape:
        assert isinstance(stored, Scalar)
        name = frame.names.fresh(wanted)
        frame.line(f"{c_type(initial.dtype)} {name} = {stored.text};")
        return Scalar(name, initial.dtype)
    if isinstance(stored, View) and _are_read_alike(initial, following) and can_take_over(initial):
        return stored
    if isinstance(stored, Registers) and can_take_over(initial):
        return stored
    assert not isinstance(initial.op, Wgmma), "registers in flight cannot be copied"
    return copied(frame, initial, stored, wanted)


def _are_read_alike(one: Value, other: Value) -> bool:
    """Whether two loads have the same slots share what they read."""
    if not (isinstance(one.op, Load) and isinstance(other.op, Load) and one.layout == other.layout):
        return False
    ways = [(load.repeat, load.vector, load.step, load.phase) for load in (one.op, other.op)]
    return ways[0] == ways[1]


_RENAMING = ("tile.reshape", "tile.transpose", "tile.broadcast", "gpu.wgmma_wait")
"""Ops whose results are in the registers of their operands."""


def can_take_over(value: Value) -> bool:
    """Whether the registers of a tile may be written to by its one reader: nothing reads them afterwards."""
    users = used_by(value)
    if len(users) != 1:
        return False
    origin = value.op
    while origin is not None and origin.name in _RENAMING:
        value = origin.operands[origin.results.index(value)]
        if len(used_by(value)) != 1:
            return False
        origin = value.op
    return origin is None or origin.parent is users[0].parent


def _bind(frame: KernelFrame, values: Sequence[Value], variables: Sequence[Variable]) -> None:
    for value, variable in zip(values, variables):
        frame.values[value] = variable


def _assign(
    frame: KernelFrame,
    variables: Sequence[Variable],
    values: Sequence[Value],
    multiplied: Sequence[bool] = (),
) -> None:
    """The variables take the values, all at once: one that is another's next value is read before it is written.

    Those that products take (`multiplied`) take theirs here and no earlier: assemblers would else compute the next
    value where the products at hand still read, and wait for these first.
    """
    for value in values:
        stored = frame.storage(value)
        whole = stored.source if isinstance(stored, View) else stored
        if isinstance(whole, Registers):
            put_together(frame, whole)
    late = {_array_name(variable) for variable, is_late in zip(variables, multiplied) if is_late}
    pairs = [(variable, frame.storage(value), value) for variable, value in zip(variables, values)]
    pairs = [(variable, stored, value) for variable, stored, value in pairs if variable != stored]
    assert not any(isinstance(value.op, Wgmma) for _, _, value in pairs), "registers in flight cannot be copied"
    targets = {_array_name(variable) for variable, _, _ in pairs}
    settled: list[tuple[Variable, Storage, Value]] = []
    for variable, stored, value in pairs:
        if _array_name(stored) in targets and len(pairs) > 1:
            settled.append((variable, _saved(frame, stored, value), value))
        else:
            settled.append((variable, stored, value))
    for variable, stored, value in settled:
        if isinstance(variable, Scalar):
            assert isinstance(stored, Scalar)
            frame.line(f"{variable.text} = {stored.text};")
            continue
        if isinstance(variable, View):
            assert isinstance(stored, View)
            assert stored.table == variable.table
            variable, stored = variable.source, stored.source
        source = (
            stored if isinstance(stored, Registers) else copied(frame, value, stored, of_program("next", variable.name))
        )
        with frame.unrolled("s", variable.words) as s:
            text = f"{source.name}[{s}]"
            if variable.name in late:
                moved = frame.use("moved_here")
                is_word = variable.element_type == "unsigned"
                text = f"{moved}({text})" if is_word else f"__uint_as_float({moved}(__float_as_uint({text})))"
            frame.line(f"{variable.name}[{s}] = {text};")


def _array_name(storage: Storage) -> str:
    match storage:
        case Registers():
            return storage.name
        case Scalar():
            return storage.text
        case View():
            return storage.source.name
        case SharedMemory():
            return storage.memory


def _saved(frame: KernelFrame, stored: Storage, value: Value) -> Storage:
    if isinstance(stored, Scalar):
        return Scalar(frame.define(c_type(stored.dtype), of_program("next", stored.text), stored.text), stored.dtype)
    return copied(frame, value, stored, of_program("next", value.name))
