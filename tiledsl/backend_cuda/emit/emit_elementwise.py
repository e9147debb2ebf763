"""Elementwise ops: runs of them become one loop over slots.

Ops wait in a group until something else needs one of their results. Then the group is written as one unrolled loop, in
which what is used within the loop only is a plain variable, and the rest goes into registers:

    float e[8];
    #pragma unroll
    for (int s = 0; s < 8; ++s) {
        const float shifted = x[s] - top[s / 8];
        e[s] = exp_f32(shifted);
    }
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from tiledsl.backend_cuda.emit.element_texts import (
    ELEMENTWISE,
    SHAPE_OPS,
    are_padded_in_pairs,
    inside_text,
    scalar_text,
)
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.casts import pack
from tiledsl.backend_cuda.functions.index_text import is_sum, operand_text, table_text
from tiledsl.backend_cuda.functions.scalars import bare
from tiledsl.backend_cuda.functions.storage import (
    Registers,
    Scalar,
    Slot,
    Storage,
    View,
    element_text,
    float_of_byte,
    float_of_nibble,
)
from tiledsl.backend_cuda.values.nibble_places import bytes_of, nibble_places, nibbles_of
from tiledsl.backend_cuda.values.one_plus import FUNCTIONS, log_of_one_plus, one_plus
from tiledsl.backend_cuda.values.pairs_of_halves import Pairs
from tiledsl.backend_cuda.values.rolled_groups import Places, Rounds, rounds_of
from tiledsl.backend_cuda.values.view_tables import view_table
from tiledsl.backend_cuda.values.written_again import held_words, light_values
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.dtypes import f16, is_narrow_float
from tiledsl.ir.gpu.gpu_ops import Convert, Pad, Slice
from tiledsl.ir.layouts.conversions import convert_plan
from tiledsl.ir.tile_ops import Broadcast, Cast, Map, Reshape, Transpose


@dataclass
class Group:
    """Elementwise ops on tiles of as many slots, waiting to be written."""

    slots: int
    ops: list[Op] = field(default_factory=list[Op])


class Groups:
    """The groups that wait in the block that is being written."""

    def __init__(self, frame: KernelFrame) -> None:
        self.frame = frame
        self._waiting: dict[int, Group] = {}
        self._group_of: dict[Value, Group] = {}
        self._alias: dict[Value, Value] = {}

    def add(self, op: Op) -> None:
        """Takes in an elementwise op on tiles."""
        if not used_by(op.result):
            return
        self._recall(op.operands)
        if is_renaming(op):
            self._rename(op)
            return
        if isinstance(op, (Broadcast, Slice, Convert)):
            self._view(op)
            return
        self._wait(op)

    def _wait(self, op: Op) -> None:
        slots = op.result.layout.slots
        for operand in op.operands:
            group = self._group_of.get(self.resolved(operand))
            if group is not None and group.slots != slots:
                self._write(group)
        group = self._waiting.setdefault(slots, Group(slots))
        group.ops.append(op)
        self._group_of[op.result] = group

    def release(self, fold: Op) -> None:
        """Behind a fold among warps: what is light is computed again from there on (see `written_again.py`)."""
        frame, block = self.frame, fold.parent
        if block is None or frame.nesting or frame.has_roles:
            return
        awaited = {self.resolved(v) for group in self._waiting.values() for op in group.ops for v in op.operands}
        found = {v: made_of for v, made_of in light_values(frame, block, self.resolved).items() if v not in awaited}
        later = set(block.ops[block.ops.index(fold) + 1 :])
        if not any(user in later for value in found for user in used_by(value)):
            found = {}
        frame.recomputes |= bool(found)
        released = [frame.values.pop(value) for value in found]
        bases = sorted(set[Registers]().union(*found.values()), key=lambda base: base.name)
        for base in bases:
            with frame.unrolled("w", base.words) as w:
                frame.line(f'asm volatile("" : "+r"({base.name}[{w}]));  // others are made of it anew')
        frame.held_words = max(frame.held_words, held_words(frame, block, fold, bases, released))

    def _recall(self, values: Sequence[Value]) -> None:
        """Has what was released, or was only a variable of a group then, computed again."""
        for value in map(self.resolved, values):
            op = value.op
            if isinstance(op, (Cast, Map)) and value.shape and not self._is_there(value):
                self._recall(op.operands)
                self._wait(op)

    def _is_there(self, value: Value) -> bool:
        return value in self.frame.values or value in self._group_of

    def recall_within(self, op: Op) -> None:
        """The same of all that the regions of an op read."""
        if self.frame.recomputes:
            outside = [value for inner in op.walk() for value in inner.operands if _parent(value) is op.parent]
            self._recall(outside)

    def resolved(self, value: Value) -> Value:
        """The value that this one is another name of."""
        while value in self._alias:
            value = self._alias[value]
        return value

    def _rename(self, op: Op) -> None:
        source = self.resolved(op.operands[0])
        if source in self._group_of:
            self._alias[op.result] = source
        else:
            self.frame.values[op.result] = self.frame.storage(source)

    def _view(self, op: Broadcast | Slice | Convert) -> None:
        source = self.resolved(op.source)
        if not op.source.shape:
            self.frame.values[op.result] = self.frame.storage(source)
            return
        table = view_table(op)
        if source in self._group_of:
            self._write(self._group_of[source])
        stored = self.frame.storage(source)
        match stored:
            case Registers():
                self.frame.values[op.result] = View(stored, table)
            case View():
                self.frame.values[op.result] = View(stored.source, tuple(stored.table[s] for s in table))
            case _:
                self.frame.values[op.result] = stored

    def need(self, values: Sequence[Value]) -> None:
        """Writes the groups that these values wait in."""
        self._recall(values)
        for value in values:
            group = self._group_of.get(self.resolved(value))
            if group is not None:
                self._write(group)
            self._settle(value)

    def _settle(self, value: Value) -> None:
        # what was used within its group only is nowhere now
        source = self.resolved(value)
        if value in self._alias and source in self.frame.values:
            self.frame.values[value] = self.frame.values[source]

    def flush(self) -> None:
        """Writes all that waits."""
        while self._waiting:
            self._write(next(iter(self._waiting.values())))
        for value in list(self._alias):
            self._settle(value)
        self._alias.clear()

    def _write(self, group: Group) -> None:
        del self._waiting[group.slots]
        for op in group.ops:
            del self._group_of[op.result]
        waiting = {op for other in self._waiting.values() for op in other.ops}
        _GroupWriter(self.frame, group, self.resolved, waiting).write()


def _parent(value: Value) -> Block | None:
    return value.op.parent if value.op is not None else None


def used_by(value: Value) -> list[Op]:
    """The ops that read a value, looked at through ops that only give it another name. One for each time it is read."""
    found: list[Op] = []
    work = [value]
    while work:
        for user, count in work.pop().users.items():
            if is_renaming(user):
                work.append(user.result)
            else:
                found += [user] * count
    return found


def is_renaming(op: Op) -> bool:
    """Whether an op leaves every element where it is, in the same thread and slot."""
    if isinstance(op, (Reshape, Transpose)) and op.result.shape:
        return True
    if not isinstance(op, Broadcast) or not op.source.shape:
        return False
    return op.source.shape == op.result.shape and op.source.layout == op.result.layout


@dataclass
class _Element:
    """What a value is within the loop: an expression."""

    text: str


class _GroupWriter:
    def __init__(
        self, frame: KernelFrame, group: Group, resolved: Callable[[Value], Value], waiting: Collection[Op]
    ) -> None:
        self.frame = frame
        self.group = group
        self.resolved = resolved
        self.waiting = waiting
        self.of_round: Mapping[Value, Storage] = {}
        inside = set(group.ops)
        self.kept: dict[Value, Registers] = {}
        self.read_inside: set[Value] = set()
        for op in group.ops:
            users = used_by(op.result)
            if any(user not in inside for user in users):
                self.kept[op.result] = Registers("", op.result.dtype, group.slots)
            if any(user in inside for user in users):
                self.read_inside.add(op.result)
        self.elements: dict[Value, _Element] = {}
        self.parts: dict[Value, str] = {}
        self.pairs: dict[Value, Callable[[str], str]] = {}
        """Tiles whose words are computed whole, by the number of a word."""
        # what 1 is added to: the sum is a function of its operand, so that it need not be written itself
        sums = {op: one_plus(op) for op in group.ops if op.result in frame.coarse}
        one_plus_of = {op: function for op, function in sums.items() if function is not None and function in inside}
        self.whole = {op: (FUNCTIONS[f.fn], f.inputs[0]) for op, f in one_plus_of.items()}
        """Ops that are a function of something else than their operand: its name, and of what."""
        parts = set[Op](one_plus_of.values())
        for op in group.ops:
            added = log_of_one_plus(op) if op.result in frame.coarse else None
            if added is not None and op.operands[0].op in inside:
                self.whole[op] = "log_one_plus", added
                parts.add(op.operands[0].op)
        self.left_out = {part for part in parts if all(user in self.whole for user in used_by(part.results[0]))}
        self.nibbles = {op: found for op in group.ops if (found := self._nibbles(op)) is not None}
        """Conversions that take nibbles out of their words: the array of these, and the nibble of each slot."""
        taken = {self.resolved(op.operands[0]).op for op in self.nibbles}
        self.left_out |= {op for op in taken if op and all(u in self.nibbles for u in used_by(op.results[0]))}
        signs = {self.resolved(op.operands[0]).op for op in taken if op in self.left_out}
        self.left_out |= {
            op for op in signs if op in inside and all(u in self.left_out for u in used_by(op.results[0]))
        }

    def write(self) -> None:
        frame = self.frame
        frame.comment(self.group.ops[0].location)
        for value, registers in self.kept.items():
            self.kept[value] = frame.new_registers(_name(value), registers.dtype, registers.slots)
        group, kept = self.group, dict(self.kept)
        rounds = rounds_of(frame, group.ops, group.slots, kept.values(), self.resolved, self.waiting)
        if rounds is None:
            self._find_pairs()
            self._write_slots(group.slots)
        else:
            self._write_rounds(rounds)
        frame.values.update(kept)

    def _find_pairs(self) -> None:
        """Tiles of f16 that are computed two elements at a time: then what only they are computed of is not written."""
        group, inside = self.group, set(self.group.ops)
        if group.slots % 2:
            return
        pairs = Pairs(self.frame, inside, group.slots, self.nibbles, self.resolved, self._pad_test)
        dropped = set[Op]()
        for op in group.ops:
            if op.result in self.kept and op.result not in self.read_inside and op.result.dtype == f16:
                pairs.seen.clear()
                text = pairs.of(op.result)
                if text is not None and len(pairs.seen) > 1:
                    self.pairs[op.result] = text
                    dropped |= pairs.seen
        for op in reversed(group.ops):
            unread = op.result not in self.kept or op.result in self.pairs
            if op in dropped and unread and all(user in self.left_out for user in used_by(op.result) if user in inside):
                self.left_out.add(op)

    def _pad_test(self, op: Pad) -> Callable[[str], str] | None:
        frame = self.frame
        if not are_padded_in_pairs(frame, op):
            return None
        return lambda word: inside_text(frame, op, Slot(f"2 * {word}" if not word.isdigit() else str(2 * int(word))))

    def _write_rounds(self, rounds: Rounds) -> None:
        """A loop that runs, in which registers move (see `rolled_groups.py`)."""
        frame, whole = self.frame, dict(self.kept)
        self.of_round, places = rounds.operands, Places(frame, rounds)
        self.kept = {value: places.add(value, registers) for value, registers in whole.items()}
        with frame.rolled("part", rounds.count) as number:
            places.declare()
            self._write_slots(rounds.slots)
            places.move(number)
        for value, registers in whole.items():
            places.take_out(value, registers)

    def _write_slots(self, slots: int) -> None:
        """All elements of so many slots, in a loop that is written out."""
        frame = self.frame
        per = max((r.per_word for r in self.kept.values()), default=1)
        if slots == 1:
            self._write_words(1, Slot("0", per, "0", "0")) if per > 1 else self._write_ops(Slot("0"))
        elif per == 1:
            with frame.unrolled("s", slots) as index:
                self._write_ops(Slot(index))
        else:
            with frame.unrolled("w", -(-slots // per)) as word:
                self._write_words(per, Slot("", per, word))

    def _write_words(self, count: int, slot: Slot) -> None:
        """The elements of one word, and then the word itself."""
        frame = self.frame
        packed = {value: registers for value, registers in self.kept.items() if registers.per_word > 1}
        for value, registers in packed.items():
            if value in self.pairs:
                continue
            name = frame.names.fresh(of_program(registers.name, "part"))
            frame.line(f"{frame.c_type(value.dtype)} {name}[{slot.per_word}]{' = {}' if self._ragged else ''};")
            self.parts[value] = name
        if count == 1:
            self._write_ops(Slot("0", slot.per_word, "0", "0"))
        elif any(op not in self.left_out for op in self.group.ops):
            with frame.unrolled("i", count) as position:
                index = frame.define("int", "slot", f"{slot.per_word} * {slot.word} + {position}")
                here = Slot(index, slot.per_word, slot.word, position)
                if self._ragged:
                    with frame.block(f"if ({index} < {self.group.slots})"):
                        self._write_ops(here)
                else:
                    self._write_ops(here)
        for value, registers in packed.items():
            self._pack(value, registers, slot)

    @property
    def _ragged(self) -> bool:
        return any(self.group.slots % r.per_word for r in self.kept.values())

    def _pack(self, value: Value, registers: Registers, slot: Slot) -> None:
        """The words of one kept value; an element may be narrower than the widest of the group."""
        per = registers.per_word
        for word in range(min(slot.per_word // per, registers.words)):
            index = slot.word if slot.per_word == per else f"{slot.per_word // per} * {slot.word} + {word}"
            if value in self.pairs:
                self.frame.line(f"{registers.name}[{index}] = {self.pairs[value](index)};")
                continue
            elements = [f"{self.parts[value]}[{word * per + i}]" for i in range(per)]
            text = pack(elements, value.dtype, self.frame.preamble)
            self.frame.line(f"{registers.name}[{index}] = {text};")

    def _write_ops(self, slot: Slot) -> None:
        self.elements.clear()
        for op in self.group.ops:
            self.frame.comment(op.location)
            self._write_op(op, slot)

    def _write_op(self, op: Op, slot: Slot) -> None:
        frame, result = self.frame, op.result
        if op in self.left_out:
            return
        only_packed = result in self.kept and result not in self.read_inside
        rounded = not (only_packed and is_narrow_float(result.dtype))  # packing rounds
        whole = self.whole.get(op)
        if whole is not None:
            name, operand = whole
            text = f"{frame.use(name)}({bare(self._operand(operand, slot))})"
        elif op in self.nibbles:
            words, places = self.nibbles[op]
            text = float_of_nibble(op.operands[0].dtype, words, places, slot, frame.preamble)
        elif byte := self._float_of_byte(op, slot):
            text = byte
        else:
            operands = [self._operand(v, slot) for v in op.operands]
            text = ELEMENTWISE[type(op)](frame, op, operands, slot, rounded)
        if result in self.parts:
            target = f"{self.parts[result]}[{slot.position}]"
            frame.line(f"{target} = {bare(text)};")
            self.elements[result] = _Element(target)
        elif result in self.kept:
            target = f"{self.kept[result].name}[{slot.index}]"
            frame.line(f"{target} = {bare(text)};")
            self.elements[result] = _Element(target)
        else:
            self.elements[result] = _Element(frame.define(frame.c_type(result.dtype), _name(result), text))

    def _operand(self, value: Value, slot: Slot) -> str:
        value = self.resolved(value)
        if value in self.elements:
            return self.elements[value].text
        return element_text(self._storage(value), slot, self.frame.preamble)

    def _storage(self, value: Value) -> Storage:
        return self.of_round[value] if value in self.of_round else self.frame.storage(value)

    def _nibbles(self, op: Op) -> tuple[str, tuple[int, ...]] | None:
        """Where a conversion finds nibbles: the words, and the nibble of each slot; None where it converts others."""
        source = self.resolved(op.source) if _gives_floats(op) else None
        nibbles = None if source is None else nibbles_of(source)
        bytes_ = None if nibbles is None else self.resolved(bytes_of(nibbles))
        if nibbles is None or bytes_ is None or bytes_ not in self.frame.values:
            return None
        storage = self.frame.storage(bytes_)
        return nibble_places(nibbles, storage, self.frame.program.multiples)

    def _float_of_byte(self, op: Op, slot: Slot) -> str:
        """What a conversion of packed bytes to floats gives, which takes them out of their words itself; or nothing."""
        if not _gives_floats(op):
            return ""
        source = self.resolved(op.source)
        if source in self.elements or source.dtype.name not in ("i8", "u8"):
            return ""
        return float_of_byte(self._storage(source), slot, self.frame.preamble)


def _gives_floats(op: Op) -> TypeGuard[Cast]:
    """Whether an op converts to floats that hold all integers of 8 bits, and are registers of 32."""
    return isinstance(op, Cast) and op.dtype.is_float and 16 <= op.dtype.bits <= 32


def _name(value: Value) -> str:
    op = value.op
    fallback = str(op.attributes.get("fn", "")) or type(op).__name__.lower() if op is not None else ""
    return of_program(value.name or fallback)


def is_elementwise(op: Op) -> bool:
    """Whether an op gives each element by itself, so that it can join a group."""
    if isinstance(op, Convert):
        return convert_plan(op.source.layout, op.result.layout).kind == "registers"
    return type(op) in ELEMENTWISE or isinstance(op, SHAPE_OPS)


def as_registers(frame: KernelFrame, value: Value) -> Registers:
    """The registers of a tile that is written already; a view or a uniform tile is copied into registers of its own."""
    found: Storage = frame.storage(value)
    if isinstance(found, Registers):
        return found
    return copied(frame, value, found)


def copied(frame: KernelFrame, value: Value, source: Storage, wanted: str = "") -> Registers:
    """A new array with the elements of a tile."""
    registers = frame.new_registers(wanted or _name(value), value.dtype, value.layout.slots)
    if isinstance(source, Registers):
        with frame.unrolled("s", registers.words) as s:
            frame.line(f"{registers.name}[{s}] = {source.name}[{s}];")
        return registers
    per = registers.per_word
    if per > 1 and isinstance(source, View) and source.words and is_sum(source.words):
        with frame.unrolled("s", registers.words) as s:
            word = table_text(source.words, operand_text(s))
            frame.line(f"{registers.name}[{s}] = {source.source.name}[{word}];")
        return registers
    with frame.unrolled("s", registers.words) as s:
        if per == 1:
            text = element_text(source, Slot(s), frame.preamble)
        else:
            slots = [
                str(min(i, registers.slots - 1)) if registers.words == 1 else f"{per} * {s} + {i}" for i in range(per)
            ]
            elements = [element_text(source, Slot(slot), frame.preamble) for slot in slots]
            text = pack(elements, value.dtype, frame.preamble)
        frame.line(f"{registers.name}[{s}] = {text};")
    return registers


def scalar_storage(frame: KernelFrame, op: Op) -> Scalar:
    """Writes an elementwise op on scalars; where its result is."""
    result = op.result
    if isinstance(op, SHAPE_OPS):
        found = frame.storage(op.operands[0])
        assert isinstance(found, Scalar)
        return found
    text = scalar_text(frame, op, [frame.scalar(v) for v in op.operands])
    return Scalar(frame.define(frame.c_type(result.dtype), _name(result), text), result.dtype)
