"""Copies operands and results of products into the order in which a product is one of plain matrices, where that is
predicted to gain.

    %p = contract(%a, %b)                           i k c, j k c -> i j c: elements of a row belong to other matrices
 =>
    %ta = graph.call(%a) {callee = laid_0}          c i k
    %tb = graph.call(%b) {callee = laid_1}          c j k
    %q = contract(%ta, %tb)                         c i k, c j k -> c i j
    %p = graph.call(%q) {callee = laid_2}           i j c

So no product takes much longer than that of matrices in the usual order and copies of what it reads and makes. What may
be laid otherwise: operands whose elements side by side are of several matrices, or whose rows, or what is summed,
strides cannot tell as one axis; results that have rows and columns in turns. Prices are those of groups, and of
the programs that copy. What products make for one that is laid, they store in the order that it wants, if that costs
less than a copy. Maps behind a copy of a result are fused into it (`fuse-into-calls`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Module, Op, Value, free_names
from tiledsl.ir.strided_views import reshaped, strided_view
from tiledsl.ir.type_rules import tensor_type
from tiledsl.ir.types import TensorType
from tiledsl.ir.verifier import Form
from tiledsl.passes.gpu_machine import GpuMachine, gpu_machine
from tiledsl.passes.graph.analysis.limits import Limits, limits_of
from tiledsl.passes.graph.analysis.shapes import axis_sizes, bytes_of, sizes_of
from tiledsl.passes.graph.analysis.views import is_stored_so, view_of_value
from tiledsl.passes.graph.groups.group import LEAST_SIDE
from tiledsl.passes.graph.groups.price import Prices
from tiledsl.passes.graph.groups.turned_copies import turned_copy
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, plan_kernel
from tiledsl.passes.graph.rewrites.canonicalise_graph import tidy
from tiledsl.passes.graph.rewrites.split_floats import meets_a_product
from tiledsl.passes.manager import PassContext
from tiledsl.support.location import BUILTIN

GAIN = 0.8
"""Copies are made if the product takes no more of the time with them."""
MOST_PRODUCTS = 4
"""Of what is stored in another order than it is computed in."""
WELL = 1.5
"""With no more than that of the time in which memory brings it all, a product stays as it is."""


@dataclass(frozen=True)
class LayProducts:
    """Of the entry, for GPUs."""

    name: ClassVar[str] = "lay-products"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"

    def run(self, module: Module, context: PassContext) -> Module:
        products = [op for op in module.entry.body.ops if isinstance(op, ops.Contract)]
        if not self.arch.startswith("sm_") or not products:
            return module
        laying = Laying(self.arch, context, {function.name for function in module.functions})
        for op in products:
            names = ProductAxes.of(op)
            if names is None or not names.may_be_laid(op) or meets_a_product(op, laying.limits.head, least=LEAST_SIDE):
                continue
            found = laying.best(op, names)
            if found is not None:
                context.remark(self.name, op.location, found.described())
                laying.write(op, found)
        tidy(module.entry)
        return Module([*module.functions, *laying.functions])


class ProductAxes(NamedTuple):
    """The axes of a product: of operands and result, and by what they are."""

    a: tuple[str, ...]
    b: tuple[str, ...]
    result: tuple[str, ...]
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]

    @staticmethod
    def of(op: ops.Contract) -> ProductAxes | None:
        """Of a product of matrices; None for any other."""
        if op.precision == "planes" or isinstance(op.a.op, ops.Window) or isinstance(op.b.op, ops.Window):
            return None
        a, b, result = map(tuple, op.axis_names())
        if set(a) ^ set(b) != (set(a) ^ set(b)) & set(result):
            return None  # an operand is folded by itself
        batch, rows = (tuple(n for n in result if n in a and (n in b) is both) for both in (True, False))
        columns = tuple(n for n in result if n not in a)
        summed = tuple(n for n in a if n not in result)
        return ProductAxes(a, b, result, batch, rows, columns, summed) if rows and columns and summed else None

    def may_be_laid(self, op: ops.Contract) -> bool:
        """Whether there is another order that may be better than that of the operands and of the result."""
        plain = ((*self.batch, *self.rows, *self.columns), (*self.batch, *self.columns, *self.rows))
        turned = self.result not in plain and len(self.rows) + len(self.columns) > 2
        return (
            turned
            or self.are_summed_otherwise()
            or self.result[-1:] == self.batch[-1:]
            or self.is_scattered(op.a, self.a)
            or self.is_scattered(op.b, self.b)
        )

    def are_summed_otherwise(self) -> bool:
        """Whether what is summed lies in one order in the left operand, and in another one in the right."""
        return [name for name in self.b if name in self.summed] != list(self.summed)

    def is_scattered(self, value: Value, names: tuple[str, ...]) -> bool:
        """Whether an operand's elements side by side are of several matrices, or strides cannot tell its rows, or what
        is summed, as one axis."""
        view = view_of_value(value)
        if view is None:
            return False  # it will be copied
        place = view.place
        if place.unit is None or names[place.unit] in self.batch:
            return True
        wanted = self.matrix(names)
        order = [names.index(name) for name in wanted]
        sizes = [place.shape[axis] for axis in order]
        count, free = len(self.batch), len(names) - len(self.batch) - len(self.summed)
        shape = (*sizes[:count], math.prod(sizes[count : count + free]), math.prod(sizes[count + free :]))
        turned = strided_view(0, sizes, [place.strides[axis] for axis in order])
        return reshaped(turned, shape) is None

    def matrix(self, names: tuple[str, ...], like: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The axes of an operand: those of several matrices, its own, those that are summed in the order of `like`."""
        mine = [name for name in (*self.rows, *self.columns) if name in names]
        if not like:
            mine = [name for name in names if name in mine]
        return (*self.batch, *mine, *(name for name in like or names if name in self.summed))


class Laid(NamedTuple):
    """A way to lay a product: the axes of operands and result; what these are copied from stays as it is where they are
    the product's own."""

    names: ProductAxes
    a: tuple[str, ...]
    b: tuple[str, ...]
    result: tuple[str, ...]
    seconds: tuple[float, float] = (0.0, 0.0)
    """Without, and with the copies."""

    def described(self) -> str:
        own = (self.names.a, self.names.b, self.names.result)
        text = "{}, {} -> {}".format(*(" ".join(names) for names in (self.a, self.b, self.result)))
        what = [n for n, mine, laid in zip(("left", "right", "result"), own, self[1:4]) if mine != laid]
        before, after = self.seconds
        return f"laid as {text}, with copies ({', '.join(what)}): {after * 1e6:.1f} us, {before * 1e6:.1f} without"


class Laying:
    """Lays products, and has the programs that copy."""

    def __init__(self, arch: str, context: PassContext, taken: set[str]) -> None:
        self.machine: GpuMachine = gpu_machine(arch, BUILTIN)
        self.limits: Limits = limits_of(arch)
        self.prices = Prices(arch, context.machine)
        self.taken = taken
        self.functions: list[Function] = []
        self.known: dict[object, Value] = {}
        """Copies that there are, by what they are of and in what order."""

    def best(self, op: ops.Contract, names: ProductAxes) -> Laid | None:
        """The way that takes least time, if it takes clearly less than the product as it is."""
        before = self.price(op, Laid(names, names.a, names.b, names.result))
        moved = (bytes_of(op.a) + bytes_of(op.b) + bytes_of(op.result)) / self.machine.copied_bytes_per_second
        if before is None or before <= WELL * moved:
            return None
        priced = [(way, self.price(op, way)) for way in ways(op, names)]
        found = [(seconds, number) for number, (_, seconds) in enumerate(priced) if seconds is not None]
        least, number = min(found, default=(before, 0))
        return priced[number][0]._replace(seconds=(before, least)) if least <= GAIN * before else None

    def price(self, op: ops.Contract, way: Laid) -> float | None:
        """Seconds of a product and of the copies that it needs; None where it is no kernel."""
        block = Block()
        seconds = 0.0
        a, b = op.a, op.b
        if way.a != way.names.a:
            a = _called(block, op, a, "copy", way.names.a, way.a)
            seconds += self.copied(op, op.a, way.names.a, way.a)
        if way.b != way.names.b:
            b = _called(block, op, b, "copy", way.names.b, way.b)
            seconds += self.copied(op, op.b, way.names.b, way.b)
        product = _product(op, a, b, way)
        block.append(product)
        block.append(ops.Return(op.location, values=[product.result]))
        plan = plan_kernel([product], self.limits)
        price = self.prices.of(plan) if isinstance(plan, KernelPlan) else None
        for one in reversed(list(block.ops)):
            one.erase()
        if way.result != way.names.result:
            sizes = axis_sizes(op)
            narrow = _rounded(op)
            made = Block().add_argument(
                TensorType(tensor_type(narrow).dtype, tuple(sizes[name] for name in way.result)), "made"
            )
            seconds += self.copied(op, made, way.result, way.names.result)
        return None if price is None else price.seconds + seconds

    def copied(self, op: Op, value: Value, own: Sequence[str], wanted: Sequence[str]) -> float:
        """Seconds of a copy of a value with its axes in another order."""
        return self.prices.of_program(self.program("copy", op, value, own, wanted), {}).seconds

    def program(self, name: str, op: Op, value: Value, own: Sequence[str], wanted: Sequence[str]) -> Function:
        """The program that makes it."""
        view = view_of_value(value)
        unit = None if view is None else view.place.unit
        order = [list(own).index(name) for name in wanted]
        return turned_copy(name, tensor_type(value).dtype, sizes_of(value), unit, order, op.location)

    def write(self, op: ops.Contract, way: Laid) -> None:
        """Puts the product that is laid in the place of the one that there is."""
        a, b = (self.copy(op, v, own, new) for v, own, new in ((op.a, way.names.a, way.a), (op.b, way.names.b, way.b)))
        assert op.parent is not None
        product = _product(op, a, b, way)
        op.parent.insert_before(op, product)
        made, last = product.result, op.result
        narrow = _rounded(op)
        if way.result != way.names.result and narrow is not last:
            assert isinstance(narrow.op, ops.Cast)
            cast = ops.Cast(narrow.op.location, source=made, dtype=narrow.op.dtype)
            op.parent.insert_before(op, cast)
            made, last = cast.result, narrow
        last.replace_with(self.copy(op, made, way.result, way.names.result))

    def copy(self, before: Op, value: Value, own: Sequence[str], wanted: Sequence[str]) -> Value:
        """A value with its axes in another order, row by row in memory: once for all products that read it."""
        if tuple(own) == tuple(wanted):
            return value
        while isinstance(value.op, ops.Transpose) and is_stored_so(value.op):  # not in memory yet
            own = tuple(name for _, name in sorted(zip(value.op.permutation, own)))
            value = value.op.source
        order = tuple(list(own).index(name) for name in wanted)
        view = view_of_value(value)
        key = value if view is None else view, order
        if key not in self.known and self.is_stored_so(value, before, order):
            assert before.parent is not None
            turned = ops.Transpose(before.location, source=value, permutation=order, result_names=["laid"])
            before.parent.insert_before(before, turned)
            self.known[key] = turned.result
        if key not in self.known:
            name = free_names(self.taken, f"laid_{len(self.functions)}")
            self.taken.add(name)
            self.functions.append(self.program(name, before, value, own, wanted))
            made = Block()
            self.known[key] = _called(made, before, value, name, own, wanted)
            assert before.parent is not None
            for op in made.ops:
                before.parent.insert_before(before, op)
        return self.known[key]

    def is_stored_so(self, value: Value, reader: Op, order: Sequence[int]) -> bool:
        """Whether what products and maps make, for `reader` alone, had better be stored in another order by them than
        be copied."""
        products = _products_of(value, reader)
        more = 0.0
        for op in products:
            names = ProductAxes.of(op)
            if names is None:
                return False
            turned = tuple(names.result[axis] for axis in order)
            before = self.price(op, Laid(names, names.a, names.b, names.result))
            behind = self.price(op, Laid(names._replace(result=turned), names.a, names.b, turned))
            if before is None or behind is None:
                return False
            more += behind - before
        own = tuple(map(str, range(len(order))))
        return bool(products) and more < self.copied(reader, value, own, tuple(own[axis] for axis in order))


def _products_of(value: Value, reader: Op) -> list[ops.Contract]:
    """The products whose elements a value, which only `reader` reads, is computed of, each where it stands; none if it
    is computed of anything else as well."""
    found: list[ops.Contract] = []
    pending, shape = [(value, reader)], sizes_of(value)
    while pending:
        value, user = pending.pop()
        op = value.op
        if not sizes_of(value) or (isinstance(op, ops.Broadcast) and not sizes_of(op.source)):
            continue  # one number
        if sizes_of(value) != shape or any(one is not user for one in value.users) or len(found) == MOST_PRODUCTS:
            return []
        if isinstance(op, ops.Contract):
            found.append(op)
        elif isinstance(op, (ops.Map, ops.Cast)):
            pending += [(operand, op) for operand in op.operands]
        else:
            return []
    return found


def _rounded(op: ops.Contract) -> Value:
    """What there is to copy of a product: what is rounded of it, where nobody reads anything else."""
    users = list(op.result.users)
    narrow = users[0] if len(users) == 1 else None
    bits = tensor_type(op.result).dtype.bits
    return narrow.result if isinstance(narrow, ops.Cast) and narrow.dtype.bits < bits else op.result


def _called(block: Block, op: Op, value: Value, callee: str, own: Sequence[str], wanted: Sequence[str]) -> Value:
    """What a call in a block gives that copies a value with its axes in another order."""
    shape = tuple(sizes_of(value)[list(own).index(name)] for name in wanted)
    types = [TensorType(tensor_type(value).dtype, shape)]
    call = ops.Call(op.location, inputs=[value], callee=callee, types=types, result_names=["laid"])
    block.append(call)
    return call.result


def _product(op: ops.Contract, a: Value, b: Value, way: Laid) -> ops.Contract:
    axes = f"{' '.join(way.a)}, {' '.join(way.b)} -> {' '.join(way.result)}"
    return ops.Contract(
        op.location, a=a, b=b, axes=axes, dtype=op.dtype, precision=op.precision, result_names=[op.result.name]
    )  # fmt: skip


def ways(op: ops.Contract, names: ProductAxes) -> Iterator[Laid]:
    """Ways to lay a product: each operand that is scattered copied, or none; the result as it is, with rows and columns
    each as one, or with the other operand's axes in the place of those that are summed."""
    scattered = [names.is_scattered(value, mine) for value, mine in ((op.a, names.a), (op.b, names.b))]
    operands = [(names.a, names.b)]
    if not any(scattered) and names.are_summed_otherwise():
        scattered = [bytes_of(op.a) < bytes_of(op.b), bytes_of(op.a) >= bytes_of(op.b)]  # the smaller one is copied
    if any(scattered):
        like = names.a if scattered[1] and not scattered[0] else names.b if not scattered[1] else names.summed
        pairs = zip(scattered, (names.a, names.b))
        a, b = (names.matrix(mine, like) if copied else mine for copied, mine in pairs)
        operands.append((a, b))
    seen = {(names.a, names.b, names.result)}
    for a, b in operands:
        rows, columns = ([name for name in mine if name not in (*names.batch, *names.summed)] for mine in (a, b))
        results = (
            names.result,
            (*names.batch, *rows, *columns),
            (*names.batch, *columns, *rows),
            _with(a, names.summed, columns),
            _with(b, names.summed, rows),
        )
        for result in results:
            if (a, b, result) not in seen:
                seen.add((a, b, result))
                yield Laid(names, a, b, result)


def _with(mine: Sequence[str], summed: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """The axes of an operand with others in the place of the first of those that are summed."""
    first = next(name for name in mine if name in summed)
    found: list[str] = []
    for name in mine:
        found += others if name is first else [] if name in summed else [name]
    return tuple(found)
