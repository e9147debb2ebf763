"""The sizes of a kernel's tensors: which symbols there are, what the kernel calls them, which ones are equal.

Every unknown axis of a parameter starts as a symbol of its own (`b_0`). Where the kernel says that two sizes are
equal, by naming one again or by how it uses them, one symbol is replaced by the other, in all IR that exists so far.
"""

from __future__ import annotations

from tiledsl.frontend.words.values import TensorAxis
from tiledsl.ir import symbolic
from tiledsl.ir.core import Block, Function, SizeOrigin, free_names
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import Shape
from tiledsl.support.location import BUILTIN, Location


class Sizes:
    """The symbols of one kernel. `blocks` are the bodies under construction that no op owns yet."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.origins: list[SizeOrigin] = []
        self._taken: set[str] = set(symbolic.RESERVED)
        self._unnamed: set[str] = set()
        self._extents: set[str] = set()
        self._replaced: dict[str, Dim] = {}
        self._named_axes: dict[TensorAxis, Location] = {}

    def resolve(self, dim: Dim) -> Dim:
        """`dim` as it reads after all replacements so far."""
        return symbolic.substitute(dim, self._replaced)

    def resolve_shape(self, shape: Shape) -> Shape:
        return tuple(self.resolve(dim) for dim in shape)

    def declare(self, wanted: str) -> Dim:
        """A new symbol for the size of a parameter's axis, of a name like `wanted`."""
        name = self._fresh(wanted)
        self._unnamed.add(name)
        return symbolic.symbol(name)

    def declare_extent(self, wanted: str) -> Dim:
        """A new symbol for the extent of a block; it is never replaced."""
        name = self._fresh(wanted)
        self._extents.add(name)
        return symbolic.symbol(name)

    def extents(self) -> set[str]:
        """The symbols of blocks that there are."""
        return set(self._extents)

    def forget_extents(self, kept: set[str]) -> None:
        """Frees the names of all blocks but these: the loops that declared the others will be lowered again."""
        self._taken -= self._extents - kept
        self._extents = kept

    def _fresh(self, wanted: str) -> str:
        name = free_names(self._taken, wanted)
        self._taken.add(name)
        return name

    def is_named(self, axis: TensorAxis) -> bool:
        """Whether the kernel has given the size of this axis a name (axes of its own tensors always have one)."""
        return axis.parameter is None or axis in self._named_axes

    def name_axis(self, axis: TensorAxis, dim: Dim, wanted: str, location: Location) -> None:
        """The kernel calls the size of an axis `wanted` (for the first time)."""
        self._named_axes.setdefault(axis, location)
        current = symbolic.symbol_name(self.resolve(dim))
        if current is not None and current in self._unnamed:
            self._unnamed.discard(current)
            if current != wanted:
                self._replace(current, symbolic.symbol(self._fresh(wanted)))
        self.record(axis, dim, location)

    def record(self, axis: TensorAxis, dim: Dim, location: Location, block: str = "") -> None:
        """Notes that the source at `location` says how long an axis is (by a subscript, if there is a block)."""
        if axis.parameter is not None:
            self.origins.append(SizeOrigin(axis.parameter, axis.axis, dim, location, block))

    def equate(self, a: Dim, b: Dim) -> bool:
        """Makes two sizes equal by replacing a symbol, rather in `b`; False if neither is one that can be replaced."""
        a, b = self.resolve(a), self.resolve(b)
        if a == b:
            return True
        # b_0 beside K becomes K: a symbol without a name of the user's goes first.
        for old, new in sorted(((b, a), (a, b)), key=lambda pair: not self._is_unnamed(pair[0])):
            name = symbolic.symbol_name(old)
            if name is not None and name not in self._extents and self._can_stand_for_size(name, new):
                self._replace(name, new)
                return True
        return False

    def unify(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes that are used as equal are: a size that the kernel never named takes the other's."""
        a, b = self.resolve(a), self.resolve(b)
        return a == b or ((self._is_unnamed(a) or self._is_unnamed(b)) and self.equate(a, b))

    def _is_unnamed(self, dim: Dim) -> bool:
        return symbolic.symbol_name(dim) in self._unnamed

    def _can_stand_for_size(self, name: str, new: Dim) -> bool:
        """A size of a parameter cannot be made of itself, nor of the extent of a block."""
        inside = symbolic.symbols_of(new)
        return name not in inside and inside.isdisjoint(self._extents)

    def _replace(self, old: str, new: Dim) -> None:
        self._unnamed.discard(old)
        change = {old: new}
        self._replaced = {name: symbolic.substitute(dim, change) for name, dim in self._replaced.items()} | change
        self.blocks = [block for block in self.blocks if block.parent is None]
        for block in self.blocks:
            # not yet a function: parts of one, whose sizes are replaced as they stand
            substitute_symbols(Function("", block, (), BUILTIN), change)

    def open_block(self, block: Block) -> Block:
        """Tells of a body whose op does not exist yet, so that replacements reach it."""
        self.blocks.append(block)
        return block
