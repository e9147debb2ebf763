"""Other groups than those that the model chooses: what becomes of a graph if one near tie is decided the other way.

    the model's:   {contract, add}  {mul, reduce}          func @tie(%x, %w, ...) {...}
    the other:     {contract}  {add, mul, reduce}    =>    chosen = "0 1 | 2 3", other = "0 | 1 2 3"

A tie may decide on groups that grow further, or on none that are left in the end. So the whole graph is grouped again
with the other decision, and the ops whose groups are not the same then are a graph of their own, which can be measured
by itself: what goes in and out lies in memory, as it does in the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Block, Function, Module, Op, Value
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.graph.analysis.limits import limits_of
from tiledsl.passes.graph.groups.group import Groups
from tiledsl.passes.graph.groups.ties import Tie, numbered
from tiledsl.passes.graph.kernels.kernel_plan import KernelPlan
from tiledsl.passes.manager import PassContext

MOST_TIES = 24
"""Ties of a graph that are decided the other way, those first that most may be gained by."""


@dataclass(frozen=True)
class Alternative:
    """Two ways to make kernels of some ops. `text`: these as a graph; `chosen` and `other`: as `Group.kernels` has
    them, as they are and as they are with the other decision on `tie`; `seconds` of both by the model; `places`: where
    in the graph there are such ops."""

    tie: Tie
    text: str
    chosen: str
    other: str
    seconds: tuple[float, float]
    places: int = 1


def alternatives(module: Module, arch: str, context: PassContext, decided: Collection[str] = ()) -> list[Alternative]:
    """What else the groups of a graph may be, that has come to where they are made. `decided`: ties that need not be
    looked at. What differs in the same way in several places is one."""
    chosen = _grown(module, arch, context)
    assert chosen.ties is not None
    ties = [tie for key, tie in chosen.ties.items() if key not in decided and key not in context.groupings]
    found: dict[object, Alternative] = {}
    for tie in sorted(ties, key=lambda tie: -tie.doubt)[:MOST_TIES]:
        groupings = {**context.groupings, tie.key: not tie.joined}
        other = _grown(module, arch, PassContext(context.machine, groupings=groupings), chosen)
        one = _difference(tie, chosen, other)
        if one is not None:
            found.setdefault((one.text, one.chosen, one.other), one)
    return list(found.values())


def _grown(module: Module, arch: str, context: PassContext, like: Groups | None = None) -> Groups:
    groups = Groups(module.entry, limits_of(arch), arch, context)
    if like is None:
        groups.ties = {}
    else:  # what is known of kernels does not depend on which of them are made
        groups.plans, groups.known_prices, groups.prices = like.plans, like.known_prices, like.prices
    groups.grow()
    return groups


def _difference(tie: Tie, chosen: Groups, other: Groups) -> Alternative | None:
    """What is not the same in two groupings of a graph; of several places the way that most of them have."""
    ours, theirs = ({frozenset(members) for members in groups.members.values()} for groups in (chosen, other))
    made: list[Alternative] = []
    for apart in connected((*(ours - theirs), *(theirs - ours))):
        region = sorted(apart, key=chosen.position.__getitem__)
        function, places = subgraph(chosen, region)
        one, two = (_kernels(groups, region, places) for groups in (chosen, other))
        seconds = _seconds(chosen, region), _seconds(other, region)
        made.append(Alternative(tie, numbered(print_module(Module([function]))), one, two, seconds))
    counts = Counter((one.text, one.chosen, one.other) for one in made)
    if not counts:
        return None
    most = max(made, key=lambda one: counts[one.text, one.chosen, one.other] * max(one.seconds))
    return Alternative(
        tie, most.text, most.chosen, most.other, most.seconds, counts[most.text, most.chosen, most.other]
    )


def connected(groups: Iterable[frozenset[Op]]) -> list[set[Op]]:
    """The unions of groups that have ops in common, also by way of others."""
    found: list[set[Op]] = []
    for group in groups:
        joined = set(group)
        apart: list[set[Op]] = []
        for region in found:
            if region & joined:
                joined |= region
            else:
                apart.append(region)
        found = [*apart, joined]
    return found


def _kernels(groups: Groups, region: Sequence[Op], places: dict[Op, int]) -> str:
    """The groups of some ops, as `Group.kernels`."""
    parts: dict[int, list[int]] = {}
    for op in region:
        parts.setdefault(groups.of[op], []).append(places[op])
    return " | ".join(" ".join(map(str, part)) for part in sorted(parts.values()))


def _seconds(groups: Groups, region: Sequence[Op]) -> float:
    """What the kernels of some ops take by the model."""
    total = 0.0
    for number in dict.fromkeys(groups.of[op] for op in region):
        plan = groups.plan(groups.members[number])
        if isinstance(plan, KernelPlan):
            total += groups.price(groups.members[number], plan).seconds
    return total


def subgraph(groups: Groups, members: Sequence[Op]) -> tuple[Function, dict[Op, int]]:
    """Ops as a graph of their own, with the views between them; and where in it each of them is."""
    inside, block = dict[Value, Value](), Block()
    places: dict[Op, int] = {}

    def read(value: Value) -> Value:
        if value not in inside:
            op = value.op
            if op is None or op in groups.of or isinstance(op, (ops.Call, ops.Loop)):
                inside[value] = block.add_argument(value.type, value.name or "x")
            else:
                add(op)
        return inside[value]

    def add(op: Op) -> None:
        copy = op.clone({value: read(value) for value in op.operands})
        places[op] = len(block.ops)
        block.append(copy)
        inside.update(zip(op.results, copy.results))

    for op in members:
        add(op)
    own = set(members)
    results = [value for op in members for value in op.results if _is_read_outside(value, own, groups)]
    block.append(ops.Return(members[-1].location, values=[inside[value] for value in results]))
    return Function("tie", block, (), members[-1].location), places


def _is_read_outside(value: Value, members: Collection[Op], groups: Groups) -> bool:
    """Whether anything reads a value but some ops, by views too."""
    for user in value.users:
        if user in members:
            continue
        if user in groups.of or user.effect == "terminator" or isinstance(user, (ops.Call, ops.Loop)):
            return True
        if any(_is_read_outside(result, members, groups) for result in user.results):
            return True
    return False
