"""Puts the ops of a graph into groups, each of which becomes one kernel.

    %p = contract(%x, %w)
    %s = map(add, %p, broadcast(%b))      =>     %g = call(%x, %w, %b) {callee = linear_0}
    %g = map(erf, %s) ...

Groups grow along the edges of the graph: first the products that feed each other with what is between them (attention),
then, in order, each group takes in what reads its results, or what it reads, as long as the two are one kernel
(`kernel_plan`) and the price says that this is faster (`price`); then those that read one tensor, or make parts of one
join. What is between two ops of a group never goes to memory. A result that others read too is stored as well as passed
on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Module, Op, Value, free_names
from tiledsl.ir.verifier import Form
from tiledsl.passes.graph.analysis.joins import JOINS
from tiledsl.passes.graph.analysis.limits import Limits, busy_programs, limits_of
from tiledsl.passes.graph.analysis.outline import (
    Outlined,
    computed_of,
    is_arithmetic_of_coordinates,
    is_soft,
    is_widened,
    read_by,
)
from tiledsl.passes.graph.analysis.products_in_a_row import stay_matrices
from tiledsl.passes.graph.analysis.shapes import bytes_of, sizes_of
from tiledsl.passes.graph.analysis.step_traffic import graph_traffic
from tiledsl.passes.graph.groups.group_order import FAR, Between, GroupOrder
from tiledsl.passes.graph.groups.map_groups import MapGroups
from tiledsl.passes.graph.groups.price import Price, Prices
from tiledsl.passes.graph.groups.ties import Tie, is_near, tie_key
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan, Refusal, plan_kernel
from tiledsl.passes.graph.rewrites.canonicalise_graph import drop_unread
from tiledsl.passes.manager import PassContext

MOST_OPS = 96
"""At most so many ops are one kernel because that is faster: what compiling a kernel takes grows faster than it, and
so do the values that wait in registers.
"""
MOST_MAPS = 4 * MOST_OPS
"""The same of nothing but maps over one shape, on a GPU: what goes between kernels there is all that these wait for."""
READERS = 16
"""At most so many ops that read one tensor are tried to be put together with the first of them."""
NEAR = 4 * MOST_OPS
"""At most so many ops above a product are looked at for one that feeds it."""
CLEARLY = 0.7
"""The share of the time of kernels that go by warpgroups below which one that does not is taken in their place: costs
of others are less certain."""

ALIKE = 1.03
"""On a CPU, what one kernel may take of the time of several and still be taken for as fast: what is between them is in
its caches then, and costs are no closer than that."""

OF_ONE_WARPGROUP = 256
"""Columns of sums that a warpgroup has registers for, of products that feed on each other."""

LEAST_SIDE = 16
"""Elements of what a first product sums, and columns of the second one, with fewer of which blocks are so small that
products may well be faster apart."""

COMPUTED = (ops.Map, ops.Cast, ops.Random, ops.Reduce, ops.Scan, ops.Contract, ops.Gather)
"""Ops that groups are made of."""


@dataclass(frozen=True)
class Group:
    """Makes calls of an entry's ops. `arch`: for what the kernels will be compiled; its limits and prices count.
    `kernels`: which ops are one, by their numbers in the entry (`0 1 | 3 4`), where that is known already."""

    name: ClassVar[str] = "group"
    requires: ClassVar[Form] = Form.GRAPH
    gives: ClassVar[Form] = Form.GRAPH
    arch: str = "cpu"
    fuse: bool = True
    kernels: str = ""

    def run(self, module: Module, context: PassContext) -> Module:
        groups = Groups(module.entry, limits_of(self.arch), self.arch, context)
        if self.kernels:
            groups.become([[int(number) for number in part.split()] for part in self.kernels.split("|")])
        elif self.fuse:
            groups.grow()
            groups.remark_refusals()
        return Module([*_called(module, groups), *module.functions[1:]])


class Groups:
    """The groups of a function: sets of ops, each in the order of the graph. What measurements say of near ties
    (`context.groupings`) is done."""

    def __init__(self, function: Function, limits: Limits, arch: str, context: PassContext) -> None:
        self.function = function
        self.limits = limits
        self.prices = Prices(arch, context.machine)
        self.context = context
        self.order = [op for op in function.body.ops if op.effect != "terminator"]
        self.position = {op: i for i, op in enumerate(self.order)}
        self.of: dict[Op, int] = {op: i for i, op in enumerate(self.order) if self._is_computed(op)}
        self.members: dict[int, list[Op]] = {i: [op] for op, i in self.of.items()}
        self.producers = {op: self._producers(op) for op in self.of}
        self.groups = GroupOrder(self.order, self.of, self.members)
        self.maps = MapGroups(self.members)
        self.plans: dict[tuple[Op, ...], KernelPlan | Refusal] = {}
        self.known_prices: dict[tuple[Op, ...], Price] = {}
        self.refusals: dict[tuple[Op, Op], Refusal] = {}
        """Why a reader and what it reads are not in one group, as it was found last."""
        self.apart: set[tuple[int, int, int]] = set()
        """Groups that read one tensor, with as many ops as both have, that were found better apart."""
        self.ties: dict[str, Tie] | None = None
        """Near ties by what they are known by, if somebody wants to know of them."""

    def plan(self, members: Sequence[Op]) -> KernelPlan | Refusal:
        key = tuple(members)
        if key not in self.plans:
            self.plans[key] = plan_kernel(members, self.limits)
        return self.plans[key]

    def price(self, members: Sequence[Op], plan: KernelPlan) -> Price:
        """The price of `plan`, which is that of `members`."""
        key = tuple(members)
        if key not in self.known_prices:
            self.known_prices[key] = self.prices.of(plan)
        return self.known_prices[key]

    def _is_computed(self, op: Op) -> bool:
        """Whether an op has to be in a group: one that computes, or a source that has to be in memory."""
        if isinstance(op, (ops.Size, ops.Iota)) or is_arithmetic_of_coordinates(op):
            return _is_read_in_memory(op.results[0])
        return isinstance(op, COMPUTED) and not is_widened(op)

    def become(self, parts: Sequence[Sequence[int]]) -> None:
        """Makes these groups, given by the places of ops in the graph. What must be no part of a group is left out."""
        for part in parts:
            members = [op for place in part if (op := self.order[place]) in self.of]
            for number in {self.of[op] for op in members}:
                del self.members[number]
            self.of.update(dict.fromkeys(members, part[0]))
            if members:
                self.members[part[0]] = members

    # Growing

    def grow(self) -> None:
        for op in self.order:
            if isinstance(op, ops.Contract):
                self._chain(op)
        changed = True
        while changed:
            changed = False
            for op in self.order:
                if op in self.of and self._join(op):
                    changed = True
            if not changed:
                for op in reversed(self.order):
                    if op in self.of and self._hand_on(op):
                        changed = True
            if not changed:
                changed = self._read_together() or self._joined_together()

    def _chain(self, second: ops.Contract) -> None:
        """Puts a product that others feed into a group with them and with what lies between, and with other products
        that they feed."""
        above = self._above(second.a)
        products = [op for op in above if isinstance(op, ops.Contract)]  # the nearest first
        for firsts in ([products] if len(products) > 1 else []) + [[first] for first in products]:
            members = self._between(firsts, second, above)
            beside = self._beside(second, firsts, members)
            if (beside is not None and self._chained(firsts, second, beside)) or self._chained(firsts, second, members):
                return

    def _between(self, firsts: Sequence[Op], second: Op, above: Sequence[Op]) -> set[Op]:
        """Products, the one that they feed, and what lies between them."""
        below: set[Op] = {*firsts}
        for op in reversed(above):
            if any(value.op in below for value in op.operands):
                below.add(op)
        members: set[Op] = {second, *(op for op in below if op in self.of)}
        readers = [reader for op in members for reader in self.groups.readers(op)]
        return members | {op for op in readers if isinstance(op, ops.Reduce)}

    def _beside(self, second: Op, firsts: Sequence[Op], members: set[Op]) -> set[Op] | None:
        """The same with other products that the same ones feed, if there are any."""
        pending = [reader for op in members if op is not second for reader in self.groups.readers(op)]
        seen, found = {*members}, {*members}
        while pending and len(seen) < NEAR:
            op = pending.pop()
            if op in seen or op not in self.of:
                continue
            seen.add(op)
            if isinstance(op, ops.Contract):
                above = self._above(op.a)
                if {one for one in above if isinstance(one, ops.Contract)} == {*firsts}:
                    found |= self._between(firsts, op, above)
            elif isinstance(op, (ops.Map, ops.Cast)):
                pending += self.groups.readers(op)
        return found if found != members else None

    def _chained(self, firsts: Sequence[Op], second: Op, members: set[Op]) -> bool:
        """Makes one group of products that feed others and of these, if it can be; whether it did."""
        merged = sorted(members, key=self.position.__getitem__)
        groups = {self.of[op] for op in merged}
        if any(len(self.members[group]) > 1 for group in groups):
            return False
        between = self.groups.between(groups)
        if not isinstance(between, Between):
            return False
        plan = self.plan(merged)
        refusal = plan if isinstance(plan, Refusal) else self._slower(firsts, second, merged, plan, groups)
        if refusal is None:
            self._merge(merged, groups, between)
            return True
        for first in firsts:
            self.refusals[second, first] = refusal
        return False

    def _slower(
        self, firsts: Sequence[Op], second: Op, merged: Sequence[Op], plan: KernelPlan, groups: Collection[int]
    ) -> Refusal | None:
        """Why products in one kernel would be slower than apart, if they would. On CPUs one row is one program, which
        may leave cores without work. On GPUs a first product that is none of matrices is made by threads, for each
        block of the second one again; matrices are faster in one kernel, if they are not tiny and one warpgroup has
        room for their sums. Else they are held against the products, and one of the folds between them: maps may yet be
        parts of these."""
        apart = [self.members[group] for group in groups]
        if self.prices.on_gpu and all(is_of_matrices(first) and _stay_matrices(first, second) for first in firsts):
            sizes = [axis.size for axis in plan.treatments.whole]
            if max(sizes, default=0) <= OF_ONE_WARPGROUP and min(sizes, default=LEAST_SIDE) >= LEAST_SIDE:
                return None
            kinds = [{type(op) for op in members} for members in apart]
            products = [members for members, kind in zip(apart, kinds) if ops.Contract in kind]
            folds = [members for members, kind in zip(apart, kinds) if ops.Reduce in kind and ops.Contract not in kind]
            apart = [*products, *folds[:1]]
        if not self.prices.on_gpu:
            programs = math.prod(axis.size for axis in plan.treatments.grid)
            if programs >= busy_programs(self.prices.arch, self.prices.host):
                return None
        return self._dearer(merged, plan, apart)

    def _producers(self, op: Op) -> list[Op]:
        """The computed ops whose results an op reads, by plain reindexing too."""
        sources = [computed_of(value) for value in op.operands]
        return [source for source in sources if source is not None and source in self.of]

    def _above(self, value: Value) -> list[Op]:
        """The ops that a value is computed from and no other product between, the last in the graph first.

        Three products in a row are no kernel, so what is above a product that was found is of no interest.
        """
        found: list[Op] = []
        pending = [-self.position[value.op]] if value.op is not None else []
        near, far = set(pending), set[int]()
        while near and len(found) < NEAR:
            place = heappop(pending)
            op = self.order[-place]
            if place in near:
                near.remove(place)
                found.append(op)
            behind = place in far or isinstance(op, ops.Contract)
            for above in {-self.position[v.op] for v in op.operands if v.op is not None}:
                if above not in near and above not in far:
                    heappush(pending, above)
                if behind:
                    near.discard(above)
                    far.add(above)
                elif above not in far:
                    near.add(above)
        return found

    def _join(self, op: Op) -> bool:
        """Puts the group of `op` together with one whose result it reads, if that gains; whether it did."""
        for producer in self.producers[op]:
            mine, theirs = self.of[op], self.of[producer]
            if mine == theirs:
                continue
            groups = (mine, theirs)
            refusal = self._too_many(groups)
            if refusal is not None:
                self.refusals[op, producer] = refusal
                continue
            between = self.groups.between(groups)
            if not isinstance(between, Between):
                if between == "far":
                    self.refusals[op, producer] = Refusal(None, f"more than {FAR} kernels stand between them")
                continue
            merged = sorted([*self.members[mine], *self.members[theirs]], key=self.position.__getitem__)
            if not self.maps.are_one(mine, theirs):
                refusal = self._refused(merged, groups)
                if refusal is not None:
                    self.refusals[op, producer] = refusal
                    continue
            self._merge(merged, groups, between)
            return True
        return False

    def _read_together(self) -> bool:
        """Puts groups that read one tensor together, where none of them multiplies and that gains; whether any was."""
        readers: dict[Value, list[Op]] = {}
        for op in self.of:
            for value in dict.fromkeys(map(read_by, op.operands)):
                if value is not None:
                    readers.setdefault(value, []).append(op)
        changed = False
        for value, (first, *others) in readers.items():
            for op in others[:READERS]:
                groups = (self.of[first], self.of[op])
                made_here = value.op is not None and self.of.get(value.op) in groups
                changed |= groups[0] != groups[1] and not made_here and self._beside_each_other(groups)
        return changed

    def _joined_together(self) -> bool:
        """Puts groups together that make parts of one join, of one size, if one launch that makes all of them is
        faster: parts are written where the join has them, each by its programs. Whether any was. Not on CPUs, where a
        launch is a loop, and few streams are faster than many."""
        changed = False
        for join in self.order if self.prices.on_gpu else ():
            parts = join.sources[:READERS] if isinstance(join, JOINS) else ()
            if len({sizes_of(part) for part in parts}) != 1:
                continue
            first, *others = [op if op in self.of else None for op in map(computed_of, parts)]
            for op in others:
                if first is not None and op is not None and self.of[first] != self.of[op]:
                    changed |= self._beside_each_other((self.of[first], self.of[op]))
        return changed

    def _beside_each_other(self, groups: tuple[int, int]) -> bool:
        """Makes one group of two that do not read each other, if that gains; whether it did."""
        merged = sorted((op for group in groups for op in self.members[group]), key=self.position.__getitem__)
        pair = (*groups, len(merged))
        if pair in self.apart or any(isinstance(op, ops.Contract) for op in merged):
            return False
        between = self.groups.between(groups)
        if not isinstance(between, Between) or self._too_many(groups) or self._refused(merged, groups):
            self.apart.add(pair)
            return False
        self._merge(merged, groups, between)
        return True

    def _hand_on(self, op: Op) -> bool:
        """Gives an elementwise op that ends its group to the one group that reads it, alone or with all elementwise ops
        that nobody else reads, if both cost less; whether it did."""
        mine = self.of[op]
        readers = {self.of[reader] for reader in self.groups.readers(op) if reader in self.of}
        if not isinstance(op, (ops.Map, ops.Cast)) or len(self.members[mine]) < 2 or len(readers) != 1:
            return False
        (theirs,) = readers
        if theirs == mine or _is_read_in_memory(op.result):
            return False
        chain = self._leading_to(op)
        return self._hand(chain, mine, theirs) or (len(chain) > 1 and self._hand([op], mine, theirs))

    def _leading_to(self, op: Op) -> list[Op]:
        """An op and the elementwise ops of its group that are for it alone, in order."""
        mine, found = self.members[self.of[op]], {op}
        for member in reversed(mine[: mine.index(op)]):
            readers = self.groups.readers(member)
            if isinstance(member, (ops.Map, ops.Cast)) and readers and all(reader in found for reader in readers):
                found.add(member)
        return [member for member in mine if member in found]

    def _hand(self, chain: Sequence[Op], mine: int, theirs: int) -> bool:
        """Gives ops of one group to another one, if both cost less; whether it did."""
        handed = set(chain)
        given = [member for member in self.members[mine] if member not in handed]
        if not given or not self._moves_less(chain, mine, theirs):
            return False
        taken = sorted([*self.members[theirs], *chain], key=self.position.__getitem__)
        before, after = [self.members[mine], self.members[theirs]], [given, taken]
        plans = [self.plan(members) for members in (*before, *after)]
        if not all(isinstance(plan, KernelPlan) for plan in plans):
            return False
        costs = [
            self.price(members, plan) for members, plan in zip((*before, *after), plans) if isinstance(plan, KernelPlan)
        ]
        if costs[2].by_warpgroups != costs[0].by_warpgroups:
            return False
        if costs[2].seconds + costs[3].seconds >= costs[0].seconds + costs[1].seconds:
            return False
        self.members[mine], self.members[theirs] = given, taken
        for op in chain:
            self.of[op] = theirs
            self.maps.move(op, mine, theirs)
        return True

    def _moves_less(self, chain: Sequence[Op], mine: int, theirs: int) -> bool:
        """Whether fewer bytes go between a group and the one that reads its last ops, if that computes them itself."""
        more = 0
        sources = [source for op in chain for source in map(computed_of, op.operands)]
        for source in dict.fromkeys(sources):
            if source is None or source in chain or self.of.get(source) != mine:
                continue
            readers = [self.of.get(reader, mine) for reader in self.groups.readers(source) if reader not in chain]
            stored = any(reader != mine for reader in readers)
            more += bytes_of(source.results[0]) * ((not stored) + (theirs not in readers))
        return more < 2 * bytes_of(chain[-1].results[0])

    def _too_many(self, groups: Sequence[int]) -> Refusal | None:
        """Why groups that are kernels together have too many ops for one, if they have."""
        count = sum(len(self.members[group]) for group in groups)
        maps = self.prices.on_gpu and len(groups) == 2 and self.maps.are_one(groups[0], groups[1])
        most = MOST_MAPS if maps else MOST_OPS
        if count <= most or not all(isinstance(self.plan(self.members[g]), KernelPlan) for g in groups):
            return None
        return Refusal(None, f"{count} ops in one kernel, and {most} is the most")

    def _refused(self, merged: Sequence[Op], groups: Sequence[int]) -> Refusal | None:
        """Why groups that would be one are better not, or cannot be, if so."""
        plan = self.plan(merged)
        if isinstance(plan, Refusal):
            return plan
        return self._dearer(merged, plan, [self.members[group] for group in groups])

    def _dearer(self, merged: Sequence[Op], plan: KernelPlan, groups: Sequence[Sequence[Op]]) -> Refusal | None:
        """Why groups that would be one by a plan are better not, if they are. What is no kernel yet has no price."""
        together = self.price(merged, plan)
        plans = [(members, self.plan(members)) for members in groups]
        apart = [self.price(members, plan) for members, plan in plans if isinstance(plan, KernelPlan)]
        if len(apart) < len(groups):
            return None
        before = sum(price.seconds for price in apart)
        refusal = self._by_prices(together, apart, before)
        if not is_near(together.seconds, before) or (self.ties is None and not self.context.groupings):
            return refusal
        key = tie_key(plan.outlined.function, merged, groups)
        joined = self.context.groupings.get(key, refusal is None)
        if self.ties is not None:
            words = " with ".join("+".join(op.name.removeprefix("graph.") for op in group) for group in groups)
            self.ties.setdefault(key, Tie(key, joined, together.seconds, before, words))
        if joined and refusal is not None:
            self.context.remark("group", merged[-1].location, f"measured to be faster in one: {refusal.reason}")
        if joined:
            return None
        return refusal or Refusal(None, "that was measured, and is slower in one")

    def _by_prices(self, together: Price, apart: Sequence[Price], before: float) -> Refusal | None:
        """The same, by prices alone. `before`: seconds of those apart."""
        slower = any(price.by_warpgroups for price in apart) and not together.by_warpgroups
        if slower and together.seconds > CLEARLY * before:
            return Refusal(None, "no plan has warpgroups for its products then")
        if together.seconds <= before * (1.0 if self.prices.on_gpu else ALIKE):
            return None
        return Refusal(None, f"{together.seconds * 1e6:.1f} us in one, {before * 1e6:.1f} us in two")

    def _merge(self, members: Sequence[Op], groups: Collection[int], between: Between) -> None:
        number = min(groups)
        self.groups.join(groups, between, number)
        self.maps.join(groups, number)
        for group in groups:
            del self.members[group]
        for op in members:
            self.of[op] = number
        self.members[number] = list(members)

    def remark_refusals(self) -> None:
        """Says, once for each two groups of which one reads the other, why they are not one."""
        told: set[tuple[int, int]] = set()
        for (op, producer), refusal in self.refusals.items():
            pair = (self.of[producer], self.of[op])
            if pair[0] == pair[1] or pair in told:
                continue
            told.add(pair)
            at = f" ({refusal.op.location})" if refusal.op is not None else ""
            text = f"not one kernel with {_called_op(producer)} ({producer.location}): {refusal.reason}{at}"
            self.context.remark("group", op.location, f"{_called_op(op)} is {text}")


def _called_op(op: Op) -> str:
    name = op.name.removeprefix("graph.")
    return f"{name} `%{op.results[0].name}`" if op.results and op.results[0].name else name


def _is_read_in_memory(value: Value) -> bool:
    """Whether anything reads a value that no group repeats it for: a view, a call, the return, a gather."""
    for user in value.users:
        if isinstance(user, COMPUTED) and not (isinstance(user, ops.Gather) and user.source is value):
            continue
        if not is_soft(user) or _is_read_in_memory(user.result):
            return True
    return False


# Calls of groups


def _called(module: Module, groups: Groups) -> list[Function]:
    """The entry with a call for each group, and the functions of the groups, in order."""
    function = module.entry
    taken = {f.name for f in module.functions}
    made: list[Function] = []
    stands_for: dict[Value, Value] = {}
    for number in sorted(groups.members, key=lambda n: groups.position[groups.members[n][-1]]):
        members = groups.members[number]
        plan = groups.plan(members)
        assert isinstance(plan, KernelPlan), f"{members}: {plan.reason}"
        name = free_names(taken, f"{function.name}_{len(made)}")
        taken.add(name)
        plan.outlined.function.name = name
        made.append(plan.outlined.function)
        groups.context.remark(
            "group",
            members[-1].location,
            f"@{name}: {_described(plan, groups.price(members, plan))}",
        )
        _call(plan.outlined, members, stands_for)
    drop_unread(function.body)
    sort_by_use(function)
    return [function, *made]


def is_of_matrices(op: Op) -> bool:
    """Whether each operand of a product has an axis that the other has not, longer than one element."""
    if not isinstance(op, ops.Contract):
        return False
    named = zip(op.axis_names(), (sizes_of(op.a), sizes_of(op.b)))
    a, b = ({name for name, size in zip(names, sizes) if size != 1} for names, sizes in named)
    return bool(a - b) and bool(b - a)


def _stay_matrices(first: Op, second: Op) -> bool:
    return isinstance(first, ops.Contract) and isinstance(second, ops.Contract) and stay_matrices(first, second)


def _described(plan: KernelPlan, price: Price) -> str:
    """What a group has, its price, and what its ops would move as a kernel each."""
    body = plan.outlined.function.body.ops
    names = ", ".join(op.name.removeprefix("graph.") for op in body if isinstance(op, COMPUTED))
    return f"{names}; predicted: {price} (each op by itself: {graph_traffic(plan.outlined.function)} bytes)"


def _call(outlined: Outlined, members: Sequence[Op], stands_for: dict[Value, Value]) -> None:
    """Adds a call, whose results all others read from now on; the ops go when nobody reads them any more."""
    last = members[-1]
    assert last.parent is not None
    types = [value.type for value in outlined.outputs]
    names = [value.name for value in outlined.outputs]
    inputs = [stands_for.get(value, value) for value in outlined.inputs]
    call = ops.Call(last.location, inputs=inputs, callee=outlined.function.name, types=types, result_names=names)
    last.parent.insert_before(last, call)
    for old, new in zip(outlined.outputs, call.results):
        _replace(old, new, members, stands_for)
        op = old.op
        if op not in members and isinstance(op, ops.Transpose):
            # stored in that order; who reads through other reindexing wants it as it was computed
            back = tuple(op.permutation.index(axis) for axis in range(len(op.permutation)))
            transposed = ops.Transpose(op.location, source=new, permutation=back)
            last.parent.insert_before(last, transposed)
            _replace(op.source, transposed.result, members, stands_for)


def _replace(old: Value, new: Value, members: Sequence[Op], stands_for: dict[Value, Value]) -> None:
    stands_for[old] = new
    for user in list(old.users):
        if user not in members and user is not new.op:
            user.replace_operand(old, new)


def sort_by_use(function: Function) -> None:
    """Puts the ops of a graph in an order in which each comes after what it reads, and otherwise as they are."""
    body = function.body
    done: set[Op] = set()
    ordered: list[Op] = []
    pending = list(reversed(body.ops))
    opened: set[Op] = set()
    while pending:
        op = pending[-1]
        if op in done or op in opened:
            pending.pop()
            if op not in done:
                done.add(op)
                op.place = len(ordered)
                ordered.append(op)
            continue
        opened.add(op)
        pending += [value.op for value in reversed(op.operands) if value.op is not None and value.op not in opened]
    body.ops = ordered
