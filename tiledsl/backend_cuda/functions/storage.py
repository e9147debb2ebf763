"""Where the values of a kernel stand in its C text.

A tile is an array of registers, one element per slot of its layout; elements of 8 and 16 bits are packed into words in
the order of slots, so that accesses of memory and matrix instructions take the words as they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

from tiledsl.backend_cuda.functions.casts import unpack
from tiledsl.backend_cuda.functions.index_text import operand_text, table_text
from tiledsl.backend_cuda.functions.preamble import Preamble
from tiledsl.backend_cuda.functions.scalars import c_type
from tiledsl.ir.dtypes import DType, bool_
from tiledsl.ir.layouts.buffer_layout import SharedLayout


def elements_per_word(dtype: DType) -> int:
    """How many elements share a register: 1, 2 or 4."""
    return 32 // dtype.bits if dtype.bits in (8, 16) and dtype != bool_ else 1


@dataclass(frozen=True)
class Scalar:
    """A scalar, or a tile all of whose elements are one: a C expression that is one word or one call."""

    text: str
    dtype: DType


@dataclass(frozen=True)
class Registers:
    """An array of registers."""

    name: str
    dtype: DType
    slots: int

    @property
    def per_word(self) -> int:
        return elements_per_word(self.dtype)

    @property
    def words(self) -> int:
        """The length of the array."""
        return -(-self.slots // self.per_word)

    @property
    def element_type(self) -> str:
        return "unsigned" if self.per_word > 1 else c_type(self.dtype)

    def pointer(self, slot: str) -> str:
        """The address of the register of a slot that is the first of its register: `0`, `4 * v`, `4 * v + 8`."""
        at = slot if self.per_word == 1 else divided(slot, self.per_word)
        return self.name if at == "0" else f"&{self.name}[{at}]"

    @property
    def declaration(self) -> str:
        return f"{self.element_type} {self.name}[{self.words}]"


@dataclass(frozen=True)
class Pieces:
    """What accesses of less than a word have read for a tile, before it is put together: `each` elements in a word."""

    name: str
    each: int


def divided(slot: str, per: int) -> str:
    """slot / per, for a sum of products that are multiples of it."""
    if slot.isdigit():
        return str(int(slot) // per)
    found: list[str] = []
    for term in slot.split(" + "):
        factor, _, variable = term.partition(" * ")
        quotient = int(factor) // per
        found.append(str(quotient) if not variable else variable if quotient == 1 else f"{quotient} * {variable}")
    return " + ".join(found)


@dataclass(frozen=True)
class View:
    """A tile whose slots are slots of another: `table` says which."""

    source: Registers
    table: tuple[int, ...]

    @property
    def words(self) -> tuple[int, ...]:
        """Where the tile is whole words of the other, as they are, which ones; else none."""
        return whole_words(self.table, self.source.per_word)


def whole_words(table: Sequence[int], per: int) -> tuple[int, ...]:
    """Which words slots are that are whole ones of `per` slots each, as they are; none for others.

    >>> whole_words([4, 5, 0, 1], 2), whole_words([4, 4, 0, 1], 2)
    ((2, 0), ())
    """
    words = tuple(first // per for first in table[::per])
    return words if list(table) == [word * per + i for word in words for i in range(per)] else ()


@dataclass(frozen=True)
class SharedMemory:
    """A buffer: `memory` is the array of bytes that it is in, from byte `offset` on."""

    memory: str
    offset: int
    shape: tuple[int, ...]
    dtype: DType
    layout: SharedLayout

    def text(self, offset: int = 0) -> str:
        """A pointer to a byte of the buffer."""
        at = self.offset + offset
        return f"{self.memory} + {at}" if at else self.memory


Storage: TypeAlias = Union[Scalar, Registers, View, SharedMemory]


@dataclass(frozen=True)
class Slot:
    """A slot in C: its number, and where the loop goes by words of `per_word` elements also its word and position."""

    index: str
    per_word: int = 1
    word: str = ""
    position: str = ""


def element_text(storage: Storage, slot: Slot, preamble: Preamble) -> str:
    """The register value in a slot as a C expression."""
    if isinstance(storage, Scalar):
        return storage.text
    assert not isinstance(storage, SharedMemory)
    if isinstance(storage, View):
        index = table_text(storage.table, operand_text(slot.index))
        return _indexed(storage.source, Slot(index), preamble)
    return _indexed(storage, slot, preamble)


def float_of_byte(storage: Storage, slot: Slot, preamble: Preamble) -> str:
    """The packed integer of 8 bits in a slot as a float, straight from its word; empty where none is packed there."""
    if isinstance(storage, View):
        storage, slot = storage.source, Slot(table_text(storage.table, operand_text(slot.index)))
    if not isinstance(storage, Registers) or storage.dtype.name not in ("i8", "u8"):
        return ""
    word, position = _place(storage, slot)
    return f"{preamble.use(f'float_of_byte_{storage.dtype}')}({storage.name}[{word}], {position})"


def float_of_nibble(dtype: DType, words: str, places: Sequence[int], slot: Slot, preamble: Preamble) -> str:
    """The nibble in a slot as a float, straight from its word. `places`: for each slot the nibble's number."""
    at = operand_text(table_text(places, operand_text(slot.index)))
    word, position = (str(int(at) // 8), str(int(at) % 8)) if at.isdigit() else (f"{at} / 8", f"{at} % 8")
    return f"{preamble.use(f'float_of_nibble_{dtype}')}({words}[{word}], {position})"


def _indexed(registers: Registers, slot: Slot, preamble: Preamble) -> str:
    if registers.per_word == 1:
        return f"{registers.name}[{slot.index}]"
    word, position = _place(registers, slot)
    return unpack(f"{registers.name}[{word}]", position, registers.dtype, preamble)


def _place(registers: Registers, slot: Slot) -> tuple[str, int | str]:
    """The word of a slot among packed registers, and its position there."""
    per = registers.per_word
    if slot.index.isdigit():
        number = int(slot.index)
        return str(number // per), number % per
    if slot.per_word == per:
        return slot.word, slot.position
    return f"{operand_text(slot.index)} / {per}", f"{operand_text(slot.index)} % {per}"
