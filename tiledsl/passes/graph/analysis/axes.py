"""Which axes the tensors of a group have in common.

    s = contract(q, k)      axes = "h i d, h j d -> h i j"
    m = reduce(s)           over axis 2, keepdims
    p = map(sub, s, broadcast(m))

has the axes h, i, j, d; `m` has (h, i, -) and `p` (h, i, j). Reshapes that only add or take away axes of one element,
transposes and broadcasts only say which axis stands where: a program over blocks of axes needs no op for them. An axis
of one element is none (`None`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of

FOLDS = (ops.Reduce, ops.Scan, ops.Contract)
Fold: TypeAlias = Union[ops.Reduce, ops.Scan, ops.Contract]


class Axis:
    """One axis of a group. Equality is identity."""

    __slots__ = ("name", "size")

    def __init__(self, size: int, name: str = "") -> None:
        self.size = size
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name or 'axis'}:{self.size}"


Axes: TypeAlias = "tuple[Axis | None, ...]"
"""The axis of each dimension of a tensor; None for one of size 1."""


class AxesError(Exception):
    """An op that does not keep axes as they are, with the reason in words."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


class WindowAxes(NamedTuple):
    """Of each axis of memory that windows slide over: itself, the axis of positions, and the one within a window."""

    slid: Axes
    positions: Axes
    inner: Axes


@dataclass(frozen=True)
class GroupAxes:
    """The axes of a group: `kept` of every value, in order, without those of one element.

    `reduced`: what each reduction, scan or contraction folds over. `indexed`: the axis of its source that each
    `graph.gather` reads at computed coordinates. `windows`: those of each `graph.window` of a padded tensor in memory.
    `planes`: those of the planes of products, which nothing folds over.
    """

    kept: Mapping[Value, tuple[Axis, ...]]
    reduced: Mapping[Op, tuple[Axis, ...]]
    indexed: Mapping[Op, Axis | None]
    windows: Mapping[ops.Window, WindowAxes]
    planes: frozenset[Axis] = frozenset()

    @property
    def slid(self) -> set[Axis]:
        """The axes that windows slide over."""
        return {axis for window in self.windows.values() for axis in window.slid if axis is not None}

    @property
    def inner(self) -> set[Axis]:
        """The axes within windows."""
        return {axis for window in self.windows.values() for axis in window.inner if axis is not None}

    @property
    def positions(self) -> set[Axis]:
        """The axes of windows' positions."""
        return {axis for window in self.windows.values() for axis in window.positions if axis is not None}

    @property
    def all(self) -> list[Axis]:
        """Every axis, in the order in which the values have them."""
        return list(dict.fromkeys(axis for axes in self.kept.values() for axis in axes))


def group_axes(function: Function) -> GroupAxes:
    """The axes of a GRAPH function whose shapes are numbers.

    Raises AxesError for an op that cuts, joins or regroups axes: slice, pad, concat, window, and most reshapes.
    """
    return _Finder().find(function)


class _Finder:
    """Gives each dimension an axis of its own and unites those that must be the same."""

    def __init__(self) -> None:
        self.parents: dict[Axis, Axis] = {}
        self.of: dict[Value, Axes] = {}
        self.indexed: dict[Op, Axis | None] = {}
        self.windows: dict[ops.Window, WindowAxes] = {}
        self.planes_of: dict[ops.Contract, tuple[Axis, ...]] = {}

    def find(self, function: Function) -> GroupAxes:
        for parameter in function.parameters:
            self.of[parameter] = self.fresh(parameter)
        for op in function.body.ops:
            if isinstance(op, ops.Return):
                self.unite_results(function, op)
                continue
            self.of[op.result] = self.visit(op)
        kept = {value: tuple(self.root(a) for a in axes if a is not None) for value, axes in self.of.items()}
        for op in function.body.ops:
            for axes in (kept[v] for v in op.results):
                if len(set(axes)) != len(axes):
                    raise AxesError(op, "two dimensions of its result are one axis")
            if isinstance(op, ops.Contract):
                self.check_product(op)
        reduced: dict[Op, tuple[Axis, ...]] = {
            op: self.folded(op, kept) for op in function.body.ops if isinstance(op, FOLDS)
        }
        indexed = {op: None if axis is None else self.root(axis) for op, axis in self.indexed.items()}
        windows = {op: WindowAxes(*map(self.roots, axes)) for op, axes in self.windows.items()}
        planes = frozenset[Axis]().union(*(self.planes(op) for op in self.planes_of))
        return GroupAxes(kept, reduced, indexed, windows, planes)

    def unite_results(self, function: Function, op: ops.Return) -> None:
        """Results of one size that have nothing in common are made by the same programs, axis by axis. Sums of the rows
        and of the columns of one square have: the axes of the square."""
        of_size: dict[tuple[int, ...], Axes] = {}
        for value in op.values:
            first, axes = of_size.setdefault(sizes_of(value), self.of[value]), self.of[value]
            pairs = list(zip(self.roots(first), self.roots(axes)))
            if all(a is b for a, b in pairs):
                continue  # the same axes already
            ours, theirs = ({axis for axis in some if axis is not None} for some in zip(*pairs))
            shared = {a for a, b in pairs if a is b}
            if not any(found & ours and found & theirs for found in self.together(function, shared)):
                self.united([first, axes])

    def together(self, function: Function, shared: Collection[Axis | None]) -> list[set[Axis]]:
        """Axes that values or ops have in common, or that others lead to from one to the next, but for those that are
        `shared`: what has nothing else in common is not tied by these."""
        of: dict[Axis, set[Axis]] = {}  # an axis is in one set, which it shares with those that it is tied to
        for op in function.body.ops[:-1]:
            values = [*op.operands, *op.results]
            if isinstance(op, ops.Window) and op.source.op is not None:
                values += op.source.op.operands  # what is padded for them
            mine: set[Axis] | None = None
            for axis in dict.fromkeys(self.root(axis) for v in values for axis in self.of[v] if axis is not None):
                if axis in shared:
                    continue
                theirs = of.setdefault(axis, {axis})
                if mine is None or mine is theirs:
                    mine = theirs
                    continue
                mine, less = (mine, theirs) if len(mine) >= len(theirs) else (theirs, mine)
                mine |= less
                of.update(dict.fromkeys(less, mine))
        return list({id(one): one for one in of.values()}.values())

    def folded(self, op: Fold, kept: Mapping[Value, tuple[Axis, ...]]) -> tuple[Axis, ...]:
        if isinstance(op, ops.Reduce):
            axes = [self.of[op.source][i] for i in op.axes]
            return tuple(self.root(axis) for axis in axes if axis is not None)
        if isinstance(op, ops.Scan):
            axis = self.of[op.source][op.axis]
            return () if axis is None else (self.root(axis),)
        planes = self.planes(op)
        both = (*kept[op.a], *kept[op.b])
        return tuple(dict.fromkeys(axis for axis in both if axis not in kept[op.result] and axis not in planes))

    def planes(self, op: ops.Contract) -> set[Axis]:
        """The axes of a product's planes."""
        return {self.root(axis) for axis in self.planes_of.get(op, ())}

    def check_product(self, op: ops.Contract) -> None:
        """Raises AxesError where a product's axes of two names have become one: an operand is read in two ways."""
        a_names, b_names, _ = op.axis_names()
        pairs = zip((*a_names, *b_names), (*self.of[op.a], *self.of[op.b]))
        named = {name: self.root(axis) for name, axis in pairs if axis is not None}
        if len(set(named.values())) != len(named):
            raise AxesError(op, "an operand of the product is read along other axes elsewhere")

    def root(self, axis: Axis) -> Axis:
        while (parent := self.parents.get(axis)) is not None:
            axis = parent
        return axis

    def roots(self, axes: Axes) -> Axes:
        return tuple(axis if axis is None else self.root(axis) for axis in axes)

    def unite(self, a: Axis | None, b: Axis | None) -> Axis | None:
        if a is None or b is None:
            return a or b
        a, b = self.root(a), self.root(b)
        if a is not b:
            self.parents[b] = a
            a.name = a.name or b.name
        return a

    def fresh(self, value: Value) -> Axes:
        return tuple(Axis(size) if size != 1 else None for size in sizes_of(value))

    def visit(self, op: Op) -> Axes:
        match op:
            case ops.Constant() | ops.Size():
                return ()
            case ops.Iota():
                return self.fresh(op.result)
            case ops.Map():
                return self.united([self.of[v] for v in op.inputs if sizes_of(v)])
            case ops.Cast() | ops.Scan():
                return self.of[op.source]
            case ops.Random():
                return self.of[op.offsets]
            case ops.Reduce():
                axes = self.of[op.source]
                if op.keepdims:
                    return tuple(None if i in op.axes else a for i, a in enumerate(axes))
                return tuple(a for i, a in enumerate(axes) if i not in op.axes)
            case ops.Contract():
                return self.contract(op)
            case ops.Transpose():
                return tuple(self.of[op.source][i] for i in op.permutation)
            case ops.Broadcast():
                return self.broadcast(op)
            case ops.Reshape():
                return self.reshape(op)
            case ops.Pad() if all(isinstance(user, ops.Window) for user in op.result.users):
                return ()
            case ops.Window():
                return self.window(op)
            case ops.Gather():
                axes = self.of[op.source]
                self.indexed[op] = axes[op.axis]
                return (*axes[: op.axis], *self.of[op.indices], *axes[op.axis + 1 :])
            case _:
                raise AxesError(op, f"`{op.name}` has no blocks of its operands' axes")

    def window(self, op: ops.Window) -> Axes:
        pad = op.source.op
        if not isinstance(pad, ops.Pad) or pad.source.op is not None:
            raise AxesError(op, "what windows slide over has to be in memory")
        sizes = sizes_of(op.result)
        axes = list(self.of[pad.source])
        slid = tuple(axes[i] for i in op.axes)
        positions = tuple(Axis(sizes[i]) if sizes[i] != 1 else None for i in op.axes)
        inner = tuple(Axis(n) if n != 1 else None for n in sizes[len(axes) :])
        for i, position in zip(op.axes, positions):
            axes[i] = position
        self.windows[op] = WindowAxes(slid, positions, inner)
        return (*axes, *inner)

    def united(self, operands: Sequence[Axes]) -> Axes:
        result: Axes = operands[0] if operands else ()
        for axes in operands[1:]:
            result = tuple(self.unite(a, b) for a, b in zip(result, axes))
        return result

    def contract(self, op: ops.Contract) -> Axes:
        a_names, b_names, names = op.axis_names()
        by_name: dict[str, Axis | None] = {}
        for letters, operand in ((a_names, op.a), (b_names, op.b)):
            for letter, axis in zip(letters, self.of[operand]):
                by_name[letter] = self.unite(by_name[letter], axis) if letter in by_name else axis
        for letters, exact in ((a_names, op.exact_a), (b_names, op.exact_b)):
            for letter, axis in zip(letters[1:], self.of[exact] if exact is not None else ()):
                by_name[letter] = self.unite(by_name[letter], axis)
        self.planes_of[op] = tuple(axis for name in op.plane_axes() if (axis := by_name[name]) is not None)
        for letter, axis in by_name.items():
            if axis is not None and not axis.name:
                axis.name = letter
        return tuple(by_name[letter] for letter in names)

    def broadcast(self, op: ops.Broadcast) -> Axes:
        source = self.of[op.source]
        shape = sizes_of(op.result)
        source = (None,) * (len(shape) - len(source)) + source
        return tuple(a if a is not None or n == 1 else Axis(n) for a, n in zip(source, shape))

    def reshape(self, op: ops.Reshape) -> Axes:
        kept = [axis for axis in self.of[op.source] if axis is not None]
        shape = sizes_of(op.result)
        if [axis.size for axis in kept] != [n for n in shape if n != 1]:
            raise AxesError(op, f"`graph.reshape` of {tensor_type(op.source)} to {list(shape)} regroups axes")
        following = iter(kept)
        return tuple(None if n == 1 else next(following) for n in shape)
