"""Accesses of global memory: `gpu.load`, `gpu.store`, `gpu.atomic`.

The address of a thread's first element is computed once; the accesses of a tile are at constant distances from there,
or at multiples of a stride.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from tiledsl.backend_cuda.emit.element_texts import slot_table
from tiledsl.backend_cuda.emit.emit_elementwise import as_registers, used_by
from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.frame.names import of_program
from tiledsl.backend_cuda.functions.atomics import atomic
from tiledsl.backend_cuda.functions.casts import bits, cast, from_bits, pack
from tiledsl.backend_cuda.functions.index_text import operand_text, sum_text, table_text
from tiledsl.backend_cuda.functions.memory_functions import vector_name
from tiledsl.backend_cuda.functions.scalars import c_type, constant, memory_type
from tiledsl.backend_cuda.functions.storage import Pieces, Registers, Scalar, Slot, View, divided, element_text
from tiledsl.ir.core import Value
from tiledsl.ir.dtypes import DType, bool_, i64
from tiledsl.ir.gpu import gpu_ops as gpu
from tiledsl.ir.layouts.layout import RegisterLayout
from tiledsl.ir.tile_ops import Constant, For, Yield
from tiledsl.ir.types import TensorType
from tiledsl.passes.analysis.far_blocks import is_far
from tiledsl.passes.gpu.layouts.linear_indices import linear_index

_BYTES = 16
BOOLS_OF_WORD = 4
"""The widest access."""
_PAIR_BITS = 16
"""Of two neighbouring bytes."""


class Access:
    """Where one op's elements lie in its tensor."""

    def __init__(
        self,
        frame: KernelFrame,
        op: gpu.Load | gpu.Store | gpu.Atomic | gpu.Copy,
        layout: RegisterLayout | None,
        step: int,
    ) -> None:
        """`layout` is that of the tile, None for a scalar; one access is of `step` elements."""
        self.frame = frame
        self.op = op
        self.layout = layout
        self.step = step
        self.tensor: Value = op.tensor
        type_ = op.tensor.type
        assert isinstance(type_, TensorType)
        self.type = type_
        self.base = self._base()
        self.limits: dict[int, str] = {}
        for axis, extent in zip(op.masked, op.extents):
            assert layout is not None
            limit = frame.extent(extent, layout.shape[axis])
            if limit:
                self.limits[axis] = limit
        self.between = {axis: self._between(axis) for axis in op.checked if self._runs_along(axis)}
        """For checked axes along which the tile runs: the first of its coordinates that is inside of the tensor, and
        how many are. Two comparisons of 64 bits for each element become one of 32."""
        self.far = [count for axis, (_, count) in self.between.items() if self._is_far(axis)]
        """Of checked axes along which most blocks lie wholly outside, how many coordinates are inside."""

    def _runs_along(self, axis: int) -> bool:
        return self.op.axes[axis] >= 0 and not self.op.indices[axis].shape

    def _between(self, axis: int) -> tuple[str, str]:
        frame, tile_axis = self.frame, self.op.axes[axis]
        assert self.layout is not None
        start, size = operand_text(frame.scalar(self.op.indices[axis])), frame.dim(self.type.shape[axis])
        limit = self.limits.pop(tile_axis, str(self.layout.shape[tile_axis]))
        limited = frame.use("limited")
        first = frame.once_here("int", "first", f"{limited}(-{start}, {limit})")
        end = f"{limited}({operand_text(size)} - {start}, {limit})"
        return first, frame.once_here("unsigned", "count", f"(unsigned)({end} - {first})")

    def _is_far(self, axis: int) -> bool:
        assert self.layout is not None
        return is_far(linear_index(self.op.indices[axis]).constant, self.layout.shape[self.op.axes[axis]])

    def _table(self, axis: int) -> tuple[int, ...]:
        assert self.layout is not None
        return slot_table(self.layout, axis, self.step)

    def _thread(self, axis: int) -> str:
        return "0" if self.layout is None or axis < 0 else self.frame.thread_coordinate(self.layout, axis)

    def _base(self) -> str:
        """The pointer to the first element of this thread, but for axes that are gathered."""
        frame = self.frame
        terms: list[str] = []
        for axis, (index, tile_axis) in enumerate(zip(self.op.indices, self.op.axes)):
            if index.shape:
                continue
            at = sum_text(_plain(frame.scalar(index)), _divided(self._thread(tile_axis), self._repeat(axis)))
            stride = frame.stride(self.tensor, axis)
            if at != "0":
                terms.append(at if stride == "1" else f"{operand_text(at)} * {stride}")
        pointer = frame.tensor(self.tensor)
        if not terms:
            return pointer
        pointed = f"{'' if self.tensor in frame.written else 'const '}{memory_type(self.type.dtype)}*"
        offset = sum_text(*terms)
        text = f"{pointer} + {operand_text(offset)}"
        return frame.once(("pointer", text), lambda: frame.define(pointed, of_program(pointer, "at"), text))

    def address(self, number: str, slot: str) -> str:
        """The pointer of access `number`, whose first element is in `slot`."""
        return f"{self.base}{self._offset(number, slot)}"

    def _offset(self, number: str, slot: str) -> str:
        terms: list[str] = []
        for axis, (index, tile_axis) in enumerate(zip(self.op.indices, self.op.axes)):
            stride = self.frame.stride(self.tensor, axis)
            if index.shape:
                at = self._gathered(index, slot)
            elif tile_axis >= 0:
                at = table_text([place // self._repeat(axis) for place in self._table(tile_axis)], number)
            else:
                continue
            if at != "0":
                terms.append(at if stride == "1" else f"{operand_text(at)} * {stride}")
        offset = sum_text(*terms)
        return "" if offset == "0" else f" + ({offset})" if len(terms) > 1 or " " in offset else f" + {offset}"

    def _repeat(self, axis: int) -> int:
        """How many neighbours of the tile are one element along an axis of the tensor."""
        return self.op.repeat if isinstance(self.op, gpu.Load) and axis == self.type.unit else 1

    def _gathered(self, index: Value, slot: str) -> str:
        text = element_text(self.frame.storage(index), Slot(slot), self.frame.preamble)
        return cast(text, index.dtype, i64, self.frame.preamble)

    @property
    def run(self) -> int:
        """The tile axis along which elements lie side by side, or -1."""
        return -1 if self.type.unit is None else self.op.axes[self.type.unit]

    def inside(self, number: str, slot: str, ahead: str = "0") -> str:
        """The condition of access `number`, or of its element `ahead`; empty where all are inside."""
        tests: list[str] = []
        for axis, limit in self.limits.items():
            further = ahead if axis == self.run else "0"
            at = sum_text(self._thread(axis), table_text(self._table(axis), number), further)
            tests.append(f"{at} < {limit}")
        for axis in self.op.checked:
            index, tile_axis = self.op.indices[axis], self.op.axes[axis]
            if axis in self.between:
                first, count = self.between[axis]
                at = sum_text(
                    f"(unsigned)({self._thread(tile_axis)} - {first})", table_text(self._table(tile_axis), number)
                )
                tests.append(f"{at} < {count}")
                continue
            at = self._gathered(index, slot) if index.shape else self.frame.scalar(index)
            size = self.frame.dim(self.type.shape[axis])
            tests.append(f"{self.frame.use('is_within')}({at}, {size})")
        return " && ".join(tests)


def _divided(text: str, by: int) -> str:
    return text if by == 1 or text == "0" else f"{operand_text(text)} / {by}"


def _plain(text: str) -> str:
    """A literal without its suffix, so that it can be left out of sums where it is 0."""
    return text.removesuffix("ll") if text.removesuffix("ll").lstrip("-").isdigit() else text


def emit_load(frame: KernelFrame, op: gpu.Load) -> None:
    dtype = op.result.dtype
    if not op.shape:
        frame.values[op.result] = _load_scalar(frame, op)
        return
    layout = op.result.layout
    if op.step > 1:
        _load_steps(frame, op, layout)
        return
    if op.repeat > 1:
        _load_repeated(frame, op, layout)
        return
    step = op.vector
    access = Access(frame, op, layout, step)
    target = frame.new_registers(of_program(op.result.name or f"{op.tensor.name}_tile"), dtype, layout.slots)
    frame.values[op.result] = target
    _keep_in_pieces(frame, op, target, step)
    if not access.far:
        _load_slots(frame, op, access, target)
        return
    with frame.block(f"if ({' && '.join(f'{count} != 0' for count in access.far)})"):
        _load_slots(frame, op, access, target)
    with frame.block("else"):
        _load_slots(frame, op, access, target, nowhere="false")


def _load_slots(frame: KernelFrame, op: gpu.Load, access: Access, target: Registers, nowhere: str = "") -> None:
    """Reads what a thread has of a tile; `nowhere`: the condition of all its elements, if it is one."""
    verb, step, dtype = _verb_of_load(frame, op), op.vector, op.result.dtype
    fill = "0" if op.other is None else frame.scalar(op.other)
    with frame.unrolled("v", op.result.layout.slots // step) as number:
        slot = first_slot(number, step)
        inside = nowhere or access.inside(number, slot, str(step - 1 if op.ragged else 0))
        for offset in pieces_of_access(step, dtype):
            here, address = plus(slot, offset), plus(access.address(number, slot), offset)
            _read(frame, verb, target, here, min(step, _BYTES // dtype.bytes), address, inside, fill)
        if op.ragged and inside and not nowhere:
            with tail(frame, access, number, slot, inside) as (here, address, one):
                _read(frame, verb, target, here, 1, address, one, fill)


def _load_steps(frame: KernelFrame, op: gpu.Load, layout: RegisterLayout) -> None:
    """Reads whole runs; the tile's slots are every so many of theirs."""
    dtype, run = op.result.dtype, op.step * op.vector
    access = Access(frame, op, layout, op.vector)
    runs = frame.new_registers(of_program(op.result.name or f"{op.tensor.name}_runs"), dtype, op.step * layout.slots)
    frame.values[op.result] = View(runs, tuple(op.phase + op.step * slot for slot in range(layout.slots)))
    fill = "0" if op.other is None else frame.scalar(op.other)
    with frame.unrolled("v", layout.slots // op.vector) as number:
        slot = first_slot(number, op.vector)
        inside, address = access.inside(number, slot), access.address(number, slot)
        begin = f"{address} - {op.phase}" if op.phase else address
        for offset in pieces_of_access(run, dtype):
            here = plus(first_slot(number, run), offset)
            _read(frame, _verb(frame, op.tensor), runs, here, _BYTES // dtype.bytes, plus(begin, offset), inside, fill)


def _load_repeated(frame: KernelFrame, op: gpu.Load, layout: RegisterLayout) -> None:
    """Reads elements once that several slots of a thread share."""
    dtype, vector, shared = op.result.dtype, op.vector, min(op.repeat, op.vector)
    access, each = Access(frame, op, layout, vector), vector // shared
    name = of_program(op.result.name or f"{op.tensor.name}_shared")
    read = frame.new_registers(name, dtype, layout.slots // shared)
    frame.values[op.result] = View(read, tuple(slot // shared for slot in range(layout.slots)))
    _keep_in_pieces(frame, op, read, each)
    fill = "0" if op.other is None else frame.scalar(op.other)
    with frame.unrolled("v", layout.slots // vector) as number:
        inside, address = access.inside(number, first_slot(number, vector)), access.address(number, "0")
        for offset in pieces_of_access(each, dtype):
            here = plus(first_slot(number, each), offset)
            count = min(each, _BYTES // dtype.bytes)
            _read(frame, _verb_of_load(frame, op), read, here, count, plus(address, offset), inside, fill)


@contextmanager
def tail(frame: KernelFrame, access: Access, number: str, slot: str, inside: str) -> Generator[tuple[str, str, str]]:
    """The elements of an access that is not wholly `inside`, each by itself: its slot, where it lies, and whether it
    is there."""
    partly = access.inside(number, slot)
    with frame.block(f"if (!({inside}) && {partly})"), frame.unrolled("e", access.step) as element:
        at = f"{slot} + {element}"
        yield at, f"{access.address(number, slot)} + {element}", access.inside(number, slot, element)


def first_slot(number: str, step: int) -> str:
    """The slot of the first element of an access of `step` elements."""
    if number.isdigit():
        return str(int(number) * step)
    return number if step == 1 else f"{step} * {number}"


def pieces_of_access(step: int, dtype: DType) -> range:
    """Where the parts of an access begin, each at most as wide as an access can be."""
    return range(0, step, max(1, _BYTES // dtype.bytes))


def _verb(frame: KernelFrame, tensor: Value) -> str:
    """How functions are named that read a tensor (`memory_functions.READS`)."""
    return "load" if tensor in frame.coherent else "read"


def _verb_of_load(frame: KernelFrame, op: gpu.Load) -> str:
    """The same of a tile that is loaded for the next turn of a loop, which may go on along rows of the tensor."""
    unit = op.tensor.type.unit if isinstance(op.tensor.type, TensorType) else None
    along = _is_for_next_turn(op) and [axis for axis, index in enumerate(op.indices) if _is_made_in_turn(index, op)]
    return _verb(frame, op.tensor) + "_along" * (unit is not None and along == [unit])


def _is_for_next_turn(op: gpu.Load) -> bool:
    """Whether nothing of its turn of a loop looks at what a load reads."""
    loop = None if op.parent is None else op.parent.parent
    return isinstance(loop, For) and all(isinstance(user, Yield) for user in used_by(op.result))


def _is_made_in_turn(index: Value, op: gpu.Load) -> bool:
    if index.op is None:
        return index.owner is op.parent
    return index.op.parent is op.parent and not isinstance(index.op, Constant)


def _read(
    frame: KernelFrame, verb: str, target: Registers, slot: str, count: int, address: str, inside: str, fill: str
) -> None:
    """Reads `count` elements into registers from `slot` on."""
    dtype, per = target.dtype, target.per_word
    if dtype == bool_ or count * dtype.bits < 32:
        _read_elements(frame, verb, target, slot, count, address, inside, fill)
        return
    words = count // per
    name = f"{verb}_{vector_name(target.element_type, words)}"
    to = target.pointer(slot)
    if not inside:
        frame.line(f"{frame.use(name)}({to}, {address});")
        return
    filling = fill if per == 1 or fill == "0" else _packed_fill(frame, fill, dtype)
    frame.line(f"{frame.use(name + '_if')}({to}, {address}, {inside}, {filling});")


def _packed_fill(frame: KernelFrame, fill: str, dtype: DType) -> str:
    per = 32 // dtype.bits
    return frame.once(
        ("fill", fill, dtype), lambda: frame.define("unsigned", "fill", pack([fill] * per, dtype, frame.preamble))
    )


def _read_elements(
    frame: KernelFrame, verb: str, target: Registers, slot: str, count: int, address: str, inside: str, fill: str
) -> None:
    """Elements of less than a word, and bools, which are bytes in memory: each is put into its place by itself."""
    dtype = target.dtype
    width = count * dtype.bits
    if width >= 32:
        words = width // 32
        name = frame.names.fresh(of_program(target.name, "bits"))
        frame.line(f"unsigned {name}[{words}];")
        function, filling = f"{verb}_{vector_name('unsigned', words)}", _filled_bytes(fill)
        text = f"{frame.use(function)}({name}, {address});"
        if inside:
            text = f"{frame.use(function + '_if')}({name}, {address}, {inside}, {filling});"
        frame.line(text)
        take_bools(frame, target, slot, count, name)
        return
    if width == _PAIR_BITS and dtype.bits < width:
        _read_pair(frame, verb, target, slot, address, inside, fill)
        return
    for i in range(count):
        function = f"{verb}_bits{dtype.bits}"
        at = plus(address, i)
        filling = "0" if fill == "0" else bits(fill, dtype, frame.preamble)
        text = f"{frame.use(function)}({at})"
        if inside:
            text = f"{frame.use(function + '_if')}({at}, {inside}, {filling})"
        if dtype == bool_:
            frame.line(f"{target.name}[{plus(slot, i)}] = {text} != 0;")
        else:
            set_bits(frame, target, plus(slot, i), text)


def _read_pair(
    frame: KernelFrame, verb: str, target: Registers, slot: str, address: str, inside: str, fill: str
) -> None:
    """Two neighbouring bytes by one access: what a thread has of a mask beside a product's sums."""
    dtype, function = target.dtype, frame.use(f"{verb}_bits{_PAIR_BITS}{'_if' if inside else ''}")
    filling = "0" if fill == "0" else f"{bits(fill, dtype, frame.preamble)} * 0x0101u"
    text = f"{function}({address}, {inside}, {filling})" if inside else f"{function}({address})"
    if dtype != bool_:
        set_bits(frame, target, slot, text)
        return
    pair = frame.define("unsigned", of_program(target.name, "pair"), text)
    frame.line(f"{target.name}[{slot}] = ({pair} & 0xffu) != 0;")
    frame.line(f"{target.name}[{plus(slot, 1)}] = {pair} >> 8 != 0;")


def _keep_in_pieces(frame: KernelFrame, op: gpu.Load, target: Registers, each: int) -> None:
    """Where nothing of this turn of a loop looks at what a load reads, of less than a word by each access: puts it
    together at the end of the turn, since that waits for it."""
    one = target.dtype.bits * each <= _PAIR_BITS and target.dtype != bool_ and target.dtype.bits * each >= 8
    if _is_for_next_turn(op) and one and not op.ragged and target.slots > each:
        name = frame.names.fresh(of_program(target.name, "pieces"))
        frame.line(f"unsigned {name}[{target.slots // each}];")
        frame.pieces[target.name] = Pieces(name, each)


def put_together(frame: KernelFrame, target: Registers) -> None:
    """Puts together what loads for the next turn have read in pieces, if they have."""
    pieces = frame.pieces.pop(target.name, None)
    if pieces is not None:
        with frame.unrolled("v", target.slots // pieces.each) as number:
            set_bits(frame, target, first_slot(number, pieces.each), f"{pieces.name}[{number}]")


def set_bits(frame: KernelFrame, target: Registers, slot: str, text: str) -> None:
    """Puts one element of 8 or 16 bits, given as the low bits of a clean word, into its place among the slots; the
    slots of a word are set in order."""
    pieces = frame.pieces.get(target.name)
    if pieces is not None:
        frame.line(f"{pieces.name}[{slot if pieces.each == 1 else divided(slot, pieces.each)}] = {text};")
        return
    per = target.per_word
    if slot.isdigit():
        word, position = divmod(int(slot), per)
        place = f"{target.name}[{word}]"
        if position == 0:
            frame.line(f"{place} = {text};")
        else:
            frame.line(f"{place} |= {text} << {position * target.dtype.bits};")
        return
    slot = operand_text(slot)
    place = f"{target.name}[{slot} / {per}]"
    kept = f"{slot} % {per} == 0 ? 0u : {place}"
    frame.line(f"{place} = ({kept}) | {text} << {slot} % {per} * {target.dtype.bits};")


def _filled_bytes(fill: str) -> str:
    return "0" if fill == "0" else f"({fill} ? 0x01010101u : 0u)"


def plus(slot: str, offset: int) -> str:
    """A slot, or a pointer, and a number."""
    if offset == 0:
        return slot
    return str(int(slot) + offset) if slot.isdigit() else f"{slot} + {offset}"


def _load_scalar(frame: KernelFrame, op: gpu.Load) -> Scalar:
    """All threads read the same element."""
    access = Access(frame, op, None, 1)
    dtype = op.result.dtype
    inside = access.inside("0", "0")
    pointer = access.address("0", "0")
    verb = _verb(frame, op.tensor)
    fill = constant(0, dtype) if op.other is None else frame.scalar(op.other)
    name = of_program(op.result.name or f"{op.tensor.name}_element")
    if dtype.bits >= 32:
        type_ = c_type(dtype)
        target = frame.names.fresh(name)
        frame.line(f"{type_} {target};")
        function = f"{verb}_{vector_name(type_, 1)}"
        if inside:
            frame.line(f"{frame.use(function + '_if')}(&{target}, {pointer}, {inside}, {fill});")
        else:
            frame.line(f"{frame.use(function)}(&{target}, {pointer});")
        return Scalar(target, dtype)
    text = f"{frame.use(f'{verb}_bits{dtype.bits}')}({pointer})"
    if inside:
        word = bits(fill, dtype, frame.preamble)
        text = f"{frame.use(f'{verb}_bits{dtype.bits}_if')}({pointer}, {inside}, {word})"
    return Scalar(frame.define(c_type(dtype), name, from_bits(text, dtype, frame.preamble)), dtype)


def emit_store(frame: KernelFrame, op: gpu.Store) -> None:
    dtype = op.value.dtype
    if not op.value.shape:
        _store_scalar(frame, op)
        return
    layout = op.value.layout
    access = Access(frame, op, layout, op.vector)
    first = frame.is_first(layout)
    value = as_registers(frame, op.value)
    with frame.unrolled("v", layout.slots // op.vector) as number:
        slot = first_slot(number, op.vector)
        all_there = access.inside(number, slot, str(op.vector - 1 if op.ragged else 0))
        inside = joined(first, all_there)
        for offset in pieces_of_access(op.vector, dtype):
            here, address = plus(slot, offset), plus(access.address(number, slot), offset)
            _write(frame, value, here, min(op.vector, _BYTES // dtype.bytes), address, inside)
        if op.ragged and all_there:
            with tail(frame, access, number, slot, all_there) as (here, address, one):
                _write(frame, value, here, 1, address, joined(first, one))


def joined(*tests: str) -> str:
    """All of some conditions; empty ones hold."""
    return " && ".join(test for test in tests if test)


def _write(frame: KernelFrame, value: Registers, slot: str, count: int, address: str, inside: str) -> None:
    dtype, per = value.dtype, value.per_word
    if per > 1 and dtype.bits < count * dtype.bits == _PAIR_BITS:
        _call_write(frame, f"store_bits{_PAIR_BITS}", address, raw_bits(value, slot), inside)
        return
    if dtype == bool_ and count % BOOLS_OF_WORD == 0:
        words = words_of_bools(frame, value, slot, count)
        _call_write(frame, f"store_{vector_name('unsigned', count // BOOLS_OF_WORD)}", address, words, inside)
        return
    if dtype == bool_ or count * dtype.bits < 32:
        for i in range(count):
            word = bits(element_text(value, Slot(plus(slot, i)), frame.preamble), dtype, frame.preamble)
            if per > 1:
                word = raw_bits(value, plus(slot, i))
            _call_write(frame, f"store_bits{dtype.bits}", plus(address, i), word, inside)
        return
    source = value.pointer(slot)
    _call_write(frame, f"store_{vector_name(value.element_type, count // per)}", address, source, inside)


def take_bools(frame: KernelFrame, target: Registers, slot: str, count: int, words: str) -> None:
    """Puts the bytes of words into bools from a slot on."""
    for i in range(count):
        word, byte = divmod(i, BOOLS_OF_WORD)
        element = from_bits(f"{words}[{word}] >> {byte * 8}", target.dtype, frame.preamble)
        frame.line(f"{target.name}[{plus(slot, i)}] = {element};")


def words_of_bools(frame: KernelFrame, value: Registers, slot: str, count: int) -> str:
    """Words that have four bools each as bytes."""
    name = frame.names.fresh(of_program(value.name, "bits"))
    frame.line(f"unsigned {name}[{count // BOOLS_OF_WORD}];")
    for word in range(count // BOOLS_OF_WORD):
        ones = [
            f"({value.name}[{plus(slot, word * BOOLS_OF_WORD + i)}] ? {1 << 8 * i}u : 0u)" for i in range(BOOLS_OF_WORD)
        ]
        frame.line(f"{name}[{word}] = {' | '.join(ones)};")
    return name


def raw_bits(value: Registers, slot: str) -> str:
    """One packed element in the low bits of a word whose other bits do not matter."""
    per, width = value.per_word, value.dtype.bits
    if slot.isdigit():
        word, position = divmod(int(slot), per)
        return f"{value.name}[{word}]" + (f" >> {position * width}" if position else "")
    slot = operand_text(slot)
    return f"{value.name}[{slot} / {per}] >> {slot} % {per} * {width}"


def _call_write(frame: KernelFrame, function: str, address: str, source: str, inside: str) -> None:
    if inside:
        frame.line(f"{frame.use(function + '_if')}({address}, {source}, {inside});")
    else:
        frame.line(f"{frame.use(function)}({address}, {source});")


def _store_scalar(frame: KernelFrame, op: gpu.Store) -> None:
    """One thread of the program writes it."""
    dtype = op.value.dtype
    access = Access(frame, op, None, 1)
    inside = joined(f"{frame.thread} == 0", access.inside("0", "0"))
    value = frame.scalar(op.value)
    pointer = access.address("0", "0")
    with frame.block(f"if ({inside})"):
        stored = bits(value, dtype, frame.preamble) if dtype.bits < 32 else value
        frame.line(f"*({pointer}) = {stored};")


def emit_atomic(frame: KernelFrame, op: gpu.Atomic) -> None:
    dtype = op.value.dtype
    layout = op.value.layout
    access = Access(frame, op, layout, 1)
    first = frame.is_first(layout)
    source = frame.storage(op.value)
    before = (
        frame.new_registers(of_program(op.result.name or "before"), dtype, layout.slots) if op.result.users else None
    )
    with frame.unrolled("s", layout.slots) as slot:
        inside = joined(first, access.inside(slot, slot))
        value = element_text(source, Slot(slot), frame.preamble)
        call = atomic(op.fn, dtype, access.address(slot, slot), value, frame.preamble)
        if before is None:
            frame.line(f"if ({inside}) {call};" if inside else f"{call};")
        else:
            old = frame.define(c_type(dtype), "old", f"{operand_text(inside)} ? {call} : 0" if inside else call)
            if before.per_word > 1:
                set_bits(frame, before, slot, bits(old, dtype, frame.preamble))
            else:
                frame.line(f"{before.name}[{slot}] = {old};")
    if before is not None:
        frame.values[op.result] = before
