"""A set of ops of a graph as a function of its own.

Sources (constants, sizes, coordinates), what integers are computed of them (masks), plain reindexing (transposes,
broadcasts, axes of one element) and the widening of narrow floats are not of any set: they are repeated in every
function that reads them, which costs nothing there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, Union

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Op, Value
from tiledsl.ir.type_rules import tensor_type
from tiledsl.passes.graph.analysis.shapes import sizes_of
from tiledsl.passes.graph.analysis.views import is_stored_so

MapOp: TypeAlias = "Union[ops.Map, ops.Cast]"
SOURCES = (ops.Constant, ops.Size, ops.Iota)


def is_repeated(op: Op | None) -> bool:
    """Whether an op is written again in every function that reads its result."""
    return isinstance(op, SOURCES) or is_soft(op) or is_arithmetic_of_coordinates(op) or is_widened(op)


def computed_of(value: Value) -> Op | None:
    """The op that a value comes from, by nothing but ops that are written again in every function; None for inputs."""
    while value.op is not None and is_repeated(value.op) and value.op.operands:
        value = value.op.operands[0]
    return value.op


def read_by(value: Value) -> Value | None:
    """The tensor that is read where a function reads a value; None for numbers and what is made of coordinates."""
    while value.op is not None and is_repeated(value.op):
        if not value.op.operands or is_arithmetic_of_coordinates(value.op):
            return None
        value = value.op.operands[0]
    return value if sizes_of(value) else None


def is_arithmetic_of_coordinates(op: Op | None) -> bool:
    """Whether an op only computes with coordinates and numbers, in integers: masks are made where they are read."""
    if not isinstance(op, (ops.Map, ops.Cast)):
        return False
    seen: set[Op] = set()
    pending: list[Op] = [op]
    while pending:
        current = pending.pop()
        if current in seen or isinstance(current, SOURCES):
            continue
        seen.add(current)
        if not is_soft(current):
            if not isinstance(current, (ops.Map, ops.Cast)) or tensor_type(current.result).dtype.is_float:
                return False
            sources = current.operands
        else:
            sources = current.operands[:1]
        for value in sources:
            if value.op is None:
                return False
            pending.append(value.op)
    return True


def is_soft(op: Op | None) -> bool:
    """Whether an op only says which axis stands where: a transpose, a broadcast, a reshape by axes of one element."""
    if isinstance(op, ops.Reshape):
        return [n for n in sizes_of(op.source) if n != 1] == [n for n in sizes_of(op.result) if n != 1]
    return isinstance(op, (ops.Transpose, ops.Broadcast))


def is_read_by_element(user: Op) -> bool:
    """Whether an op is elementwise or a fold, or leads there by plain reindexing."""
    if isinstance(user, (ops.Map, ops.Cast, ops.Reduce)):
        return True
    return is_soft(user) and bool(user.results[0].users) and all(map(is_read_by_element, user.results[0].users))


def is_widened(op: Op | None) -> bool:
    """Whether an op widens narrow floats for nothing but maps and folds, which may as well read the narrow ones."""
    if not isinstance(op, ops.Cast) or not 8 <= tensor_type(op.source).dtype.bits < op.dtype.bits:
        return False
    if isinstance(op.source.op, ops.Window):
        return False  # groups look for windows right before what they compute
    return op.dtype.is_float and tensor_type(op.source).dtype.is_float and _is_mapped(op.result)


def _is_mapped(value: Value) -> bool:
    """Whether only maps, folds and casts read a value, by plain reindexing too."""
    return all(
        isinstance(user, (ops.Map, ops.Reduce, ops.Cast)) or (is_soft(user) and _is_mapped(user.result))
        for user in value.users
    )


@dataclass(frozen=True)
class Outlined:
    """A set of ops as a function: what to call it with, and which values of the graph its results are."""

    function: Function
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


Apart = Literal["together", "products", "all"]
"""Which operands from outside are a parameter each, even where two are one value: those of no op, of products, of all.
A value that is read along different axes has to be."""


def outline(
    name: str, members: Sequence[Op], results: Sequence[Value], apart: Apart = "together", *, slide: bool = False
) -> Outlined:
    """The function of `members`, in order, that gives `results`.

    `slide`: windows of padded tensors are of the function too, which reads what is not padded; else they are in memory.
    """
    return _Outliner(members, apart, slide).outline(name, results)


def padding_of(op: Op | None) -> ops.Pad | None:
    """What pads the tensor in memory that an op takes windows of, where a group can do both; None elsewhere."""
    pad = op.source.op if isinstance(op, ops.Window) else None
    if not isinstance(op, ops.Window) or not isinstance(pad, ops.Pad):
        return None
    sizes = sizes_of(pad.source)
    others = [n for axis, pair in enumerate(zip(pad.low, pad.high)) if axis not in op.axes for n in pair]
    # an axis of one element has no place in tile programs, so nothing can be outside of it
    return pad if not any(others) and all(sizes[axis] > 1 for axis in op.axes) else None


def reads_padded_windows(op: Op) -> bool:
    """Whether an op reads windows that a group can take of what is not padded, maybe by ops that are repeated."""
    sources = [value.op for value in op.operands]
    return any(
        padding_of(source) or (is_repeated(source) and reads_padded_windows(source)) for source in sources if source
    )


def results_of(members: Sequence[Op]) -> tuple[Value, ...]:
    """The values of ops, in order, that ops outside of them read, by plain reindexing too.

    A transpose that is all that others see of a value stands for it: then the result is stored in that order.
    """
    inside = set(members)
    found = [_as_read(v, inside) for op in members for v in op.results if _read_outside(v, inside)]
    return tuple(dict.fromkeys(found))


def _read_outside(value: Value, members: Collection[Op]) -> bool:
    for user in value.users:
        if user in members:
            continue
        if not (is_soft(user) or is_widened(user)) or _read_outside(user.result, members):
            return True
    return False


def _as_read(value: Value, members: Collection[Op]) -> Value:
    apart = [user for user in value.users if user not in members]
    outside = [u for u in apart if not (is_soft(u) or is_widened(u)) or _read_outside(u.result, members)]
    if len(outside) == 1 and isinstance(outside[0], ops.Transpose):
        turned = outside[0]
        stays = _ends_with_batches(value.op, turned) or _is_operand_of_whole_rows(value, turned, members)
        return value if stays else turned.result
    # calls want it in memory in an order; elementwise ops read any
    wanted = [
        u for u in outside if isinstance(u, ops.Transpose) and all(isinstance(r, ops.Call) for r in u.result.users)
    ]
    others = [user for user in outside if user not in wanted]
    if len(wanted) == 1 and all(isinstance(user, (ops.Map, ops.Cast)) for user in others):
        return wanted[0].result
    return value


def _ends_with_batches(op: Op | None, turned: ops.Transpose) -> bool:
    """Whether neighbours of the transposed product are of different batches, which different programs would store."""
    if not isinstance(op, ops.Contract):
        return False
    a, b, out = op.axis_names()
    last = out[turned.permutation[-1]]
    return last in a and last in b and turned.permutation[-1] != len(out) - 1


def _is_operand_of_whole_rows(value: Value, turned: ops.Transpose, members: Collection[Op]) -> bool:
    """Whether rows that are folded, and so lie along threads, would be stored across them, for products alone. These
    read operands of two bytes in either order, others best with what is summed last."""
    last = len(turned.permutation) - 1
    if turned.permutation[-1] == last:
        return False
    folded = any(
        isinstance(op, ops.Reduce) and op.axes == (last,) and sizes_of(op.source) == sizes_of(value) for op in members
    )
    if not folded or any(isinstance(op, ops.Contract) for op in members):
        return False
    return all(
        isinstance(user, ops.Contract) and (user.a is turned.result) != (user.b is turned.result)
        and (tensor_type(value).dtype.bits == 16 or _is_summed(user, turned, last))
        for user in turned.result.users
    )  # fmt: skip


def _is_summed(op: ops.Contract, turned: ops.Transpose, axis: int) -> bool:
    """Whether a product sums over an axis of what was turned."""
    a, b, result = op.axis_names()
    names = a if op.a is turned.result else b
    return names[turned.permutation.index(axis)] not in result


def _base(value: Value) -> Value:
    """What a value reindexes."""
    while value.op is not None and is_soft(value.op):
        value = value.op.operands[0]
    return value


class _Outliner:
    def __init__(self, members: Sequence[Op], apart: Apart, slide: bool) -> None:
        self.members = members
        self.apart = apart
        self.slide = slide
        self.block = Block()
        self.inside: dict[Value, Value] = {}
        self.inputs: list[Value] = []
        self.parameters: dict[object, Value] = {}

    def outline(self, name: str, results: Sequence[Value]) -> Outlined:
        for op in self.members:
            match op:
                case ops.Contract() if self.apart != "together":
                    given = {"a": op.a, "b": op.b, "exact_a": op.exact_a, "exact_b": op.exact_b}
                    named = {name: value for name, value in given.items() if value is not None}
                    copy: Op = self._again(op, **{name: self.read(v, (op, name)) for name, v in named.items()})
                case ops.Map() if self.apart == "all":
                    copy = self._again(op, inputs=[self.read(v, (op, i)) for i, v in enumerate(op.inputs)])
                case ops.Gather():
                    # what is read at computed coordinates is a parameter of its own, as it is in memory
                    computed = _base(op.source) in self.inside
                    source = self.read(op.source, None) if computed else self.parameter(op.source, op)
                    copy = self._again(op, source=source, indices=self.read(op.indices, None))
                case _:
                    place = op if self.apart == "all" else None
                    copy = op.clone({value: self.read(value, place) for value in op.operands})
            self._append(copy, op)
        returned = [self.read(value, None) for value in results]
        location = self.members[0].location if self.members else results[0].op.location  # pyright: ignore[reportOptionalMemberAccess]
        self.block.append(ops.Return(location, values=returned))
        self._drop_unused()
        function = Function(name, self.block, (), location)
        return Outlined(function, tuple(self.inputs), tuple(results))

    def _again(self, op: Op, **operands: Value | list[Value]) -> Op:
        """The op with other operands; those that were one value may be two."""
        return type(op)(op.location, result_names=[op.results[0].name], **operands, **op.attributes)

    def _append(self, copy: Op, op: Op) -> None:
        self.block.append(copy)
        self.inside.update(zip(op.results, copy.results))

    def read(self, value: Value, place: object) -> Value:
        """What stands for a value of the graph; `place`: the operand that wants a parameter of its own."""
        if value in self.inside:
            return self.inside[value]
        op = value.op
        pad = padding_of(op) if self.slide else None
        if isinstance(op, ops.Window) and pad is not None:
            return self.window(op, pad)
        if op is not None and is_repeated(op) and not (is_stored_so(op) and _base(value) not in self.inside):
            # each reader has its own: it may stand along another axis there
            copy = op.clone({v: self.read(v, place) for v in op.operands})
            self.block.append(copy)
            return copy.result
        return self.parameter(value, value if place is None else (value, place))

    def window(self, op: ops.Window, pad: ops.Pad) -> Value:
        """The windows of a padded tensor, which is a parameter of its own."""
        # windows of one element of one tensor are parts of it, side by side
        alone = any(n != 1 for n in (*op.sizes, *op.strides))
        padded = self._again(pad, source=self.parameter(pad.source, op if alone else (pad.source, op.axes)))
        self.block.append(padded)
        copy = self._again(op, source=padded.results[0])
        self._append(copy, op)
        return copy.results[0]

    def parameter(self, value: Value, key: object) -> Value:
        """The parameter for a value, as it is in memory; one for each key."""
        if key not in self.parameters:
            self.parameters[key] = self.block.add_argument(value.type, value.name)
            self.inputs.append(value)
        return self.parameters[key]

    def _drop_unused(self) -> None:
        for op in reversed(list(self.block.ops)):
            if op.effect == "pure" and not any(v.users for v in op.results):
                op.erase()
        kept = [i for i, argument in enumerate(self.block.arguments) if argument.users]
        self.inputs = [self.inputs[i] for i in kept]
        self.block.arguments = [self.block.arguments[i] for i in kept]
