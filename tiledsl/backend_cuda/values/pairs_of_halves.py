"""Tiles of f16 whose elements are computed two at a time, where that gives the same bits.

    %a = cast(nibble(%w, ...)) : f32             halves_mul(halves_of_nibbles(w[..], ...), s[..])
    %b = cast(%s) : f32                    =>    for the two f16 of a word
    %c = cast(mul(%a, %b)) : f16

A sum, difference or product of two f16 is rounded to the same f16 whether it is rounded to f32 before or not: f32 has
more than twice as many digits and two more. Integers below 2048 are f16 as they are, and so are their sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tiledsl.backend_cuda.frame.kernel_frame import KernelFrame
from tiledsl.backend_cuda.functions import halves
from tiledsl.backend_cuda.functions.casts import pack
from tiledsl.backend_cuda.functions.index_text import is_sum, operand_text, table_text
from tiledsl.backend_cuda.functions.storage import Registers, Scalar, Storage, View, whole_words
from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import f16, f32
from tiledsl.ir.gpu.gpu_ops import Pad
from tiledsl.ir.tile_ops import Broadcast, Cast, Constant, Map, Reshape, Transpose
from tiledsl.passes.gpu.plans.facts.computed_in_pairs import DEEPEST, OF_BYTES, OF_NIBBLES, ROUNDED_ONCE, WHOLE

DEFINED_BY = (halves,)
"""The modules whose device functions are called."""
FUNCTIONS = {fn: f"halves_{fn}" for fn in ROUNDED_ONCE}
Text = Callable[[str], str]
"""The C expression of a word of two f16, by the number of the word."""


@dataclass
class Pairs:
    """The pairs of one group of elementwise ops. `nibbles`: conversions that take these out of words, the array and the
    nibble of each slot."""

    frame: KernelFrame
    inside: Collection[Op]
    slots: int
    nibbles: Mapping[Op, tuple[str, tuple[int, ...]]]
    resolved: Callable[[Value], Value]
    pads: Callable[[Pad], Text | None]
    """Whether the two elements of a word are no padding, which is empty where none is; None where they differ."""
    seen: set[Op] = field(default_factory=set[Op])
    """Ops that some pair is computed of by way of f32."""

    def of(self, value: Value) -> Text | None:
        """The words of a tile of f16; None where its elements are computed one by one."""
        value = self.resolved(value)
        op = value.op
        if op is None or op not in self.inside:
            return self._stored(value)
        if isinstance(op, Pad) and op.result.dtype == f16 and _is_zero(op.fill):
            return self._padded(op)
        if not isinstance(op, Cast) or op.dtype != f16:
            return None
        self.seen.add(op)
        if op.source.dtype != f32:
            found = self._converted(op)
            return None if found is None else found[0]
        source = self.resolved(op.source)
        computed = source.op
        if isinstance(computed, Map) and computed in self.inside and computed.fn in FUNCTIONS:
            self.seen.add(computed)
            return self._computed(computed)
        exact = self._exact(source)
        return None if exact is None else exact[0]

    def _padded(self, op: Pad) -> Text | None:
        self.seen.add(op)
        text, inside = self.of(op.source), self.pads(op)
        if text is None or inside is None:
            return None
        chosen = self.frame.use("halves_if")
        return lambda word: f"{chosen}({test}, {text(word)})" if (test := inside(word)) else text(word)

    def _computed(self, op: Map) -> Text | None:
        one, other = (self._exact(value) for value in op.inputs)
        if one is None or other is None:
            return None
        function, (first, _), (second, _) = self.frame.use(FUNCTIONS[op.fn]), one, other
        return lambda word: f"{function}({first(word)}, {second(word)})"

    def _exact(self, value: Value, deep: int = DEEPEST) -> tuple[Text, float | None] | None:
        """The words of a tile of f32 all of which are f16; and of integers, how large they may be."""
        value = self.resolved(value)
        op = value.op
        if op is None:
            return None
        if op not in self.inside:
            text = self._widened_before(value)
            return None if text is None else (text, None)
        match op:
            case Cast() if op.source.dtype == f16:
                self.seen.add(op)
                text = self.of(op.source)
                return None if text is None else (text, None)
            case Cast():
                self.seen.add(op)
                return self._converted(op)
            case Map(fn="add" | "sub") if deep:
                self.seen.add(op)
                parts = [self._exact(one, deep - 1) for one in op.inputs]
                bounds = [part[1] for part in parts if part is not None and part[1] is not None]
                if len(bounds) < len(parts) or sum(bounds) > WHOLE:
                    return None
                text = self._computed(op)
                return None if text is None else (text, sum(bounds))
            case _:
                return None

    def _converted(self, op: Cast) -> tuple[Text, float | None] | None:
        """Integers that a conversion takes out of packed bytes."""
        name = op.source.dtype.name
        if op in self.nibbles:
            words, places = self.nibbles[op]
            text = self._taken(f"halves_of_nibbles_{name}", words, places, 8)
            return None if text is None else (text, OF_NIBBLES[name])
        source = self.resolved(op.source)
        if name not in OF_BYTES or source not in self.frame.values:
            return None
        stored = self.frame.storage(source)
        places = stored.table if isinstance(stored, View) else range(self.slots)
        registers = stored.source if isinstance(stored, View) else stored
        if not isinstance(registers, Registers) or registers.dtype.name != name:
            return None
        text = self._taken(f"halves_of_bytes_{name}", registers.name, tuple(places), 4)
        return None if text is None else (text, OF_BYTES[name])

    def _widened_before(self, value: Value) -> Text | None:
        """What was widened before a loop, of the registers that it was widened from."""
        op = value.op
        while isinstance(op, (Broadcast, Reshape, Transpose)):
            op = op.source.op
        if not isinstance(op, Cast) or op.dtype != f32 or op.source.dtype != f16:
            return None
        if not {value, op.result, op.source} <= self.frame.values.keys():
            return None
        narrow, wide, stored = (self.frame.storage(one) for one in (op.source, op.result, value))
        if not isinstance(narrow, Registers) or not isinstance(wide, Registers):
            return None
        if isinstance(stored, View) and stored.source == wide:
            return self._taken("pick_halves", narrow.name, stored.table, 2)
        return self._taken("pick_halves", narrow.name, range(self.slots), 2) if stored == wide else None

    def _stored(self, value: Value) -> Text | None:
        """A tile of f16 that is there."""
        if value not in self.frame.values or value.dtype != f16:
            return None
        stored: Storage = self.frame.storage(value)
        match stored:
            case Scalar():
                text = pack([stored.text] * 2, f16, self.frame.preamble)
                return lambda word: text
            case Registers():
                name = stored.name
                return lambda word: f"{name}[{word}]"
            case View():
                return self._taken("pick_halves", stored.source.name, stored.table, 2)
            case _:
                return None

    def _taken(self, function: str, array: str, places: Collection[int], each: int) -> Text | None:
        """What a function makes of the elements of packed words that a pair needs, `each` to a word."""
        words = whole_words(list(places), 2) if function == "pick_halves" else ()
        if words:
            return None if not is_sum(words) else lambda word: f"{array}[{_at(words, word)}]"
        firsts, seconds = list(places)[::2], list(places)[1::2]
        tables = [[at // each for at in firsts], [at // each for at in seconds]]
        tables += [[at % each for at in firsts], [at % each for at in seconds]]
        if not all(map(is_sum, tables)):
            return None
        called = self.frame.use(function)

        def text(word: str) -> str:
            low, high, at, at_1 = (_at(table, word) for table in tables)
            return f"{called}({array}[{low}], {array}[{high}], {at}, {at_1})"

        return text


def _is_zero(value: Value) -> bool:
    return isinstance(value.op, Constant) and value.op.value == 0


def _at(table: Sequence[int], word: str) -> str:
    return table_text(table, operand_text(word))
