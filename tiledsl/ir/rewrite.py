"""Pattern rewriting: small rules, each for one kind of op, applied until none fits any more.

A rule is a function of an op and the rewriter. It says True if it changed something, changes nothing if it says
False, and states its algebra in a comment:

    simplify = Rules()

    @simplify.on(tile_ops.Cast)
    def cast_to_itself(op: tile_ops.Cast, rewriter: Rewriter) -> bool:
        # cast(x: t, t) => x
        if op.source.dtype != op.dtype:
            return False
        rewriter.replace(op, op.source)
        return True

    @simplify.on(tile_ops.Map)
    def double(op: tile_ops.Map, rewriter: Rewriter) -> bool:
        # x + x => x * 2
        if op.fn != "add" or op.inputs[0] is not op.inputs[1]:
            return False
        two = rewriter.constant(2, op.result.dtype)
        rewriter.replace(op, rewriter.map("mul", op.inputs[0], two))
        return True

    changed = simplify.apply(function)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from typing_extensions import override

from tiledsl.ir.builder import Builder
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.types import Level, TensorType, TileType, Type, same_but_level

OpT = TypeVar("OpT", bound=Op)
Rule: TypeAlias = "Callable[[OpT, Rewriter], bool]"

LIMIT = 100
"""How often rules may fire per op of the function before we take it that two of them undo each other."""


class Rewriter(Builder):
    """What a rule changes the program with: a builder that emits before the op at hand, with its location.

    In a program whose tiles have levels, emitted tiles are in registers; `replace` then gives the new value the level
    of the old one.
    """

    def __init__(self, op: Op) -> None:
        assert op.parent is not None
        super().__init__(op.parent, op.location)
        self.anchor = op
        self.emitted: set[Op] = set()
        """What has been built for the op at hand."""
        self.pending: deque[Op] = deque()
        """Ops that rules should look at (again)."""

    def move_to(self, op: Op) -> None:
        """Makes `op` the one that is rewritten."""
        assert op.parent is not None
        self.anchor, self.block, self.location = op, op.parent, op.location
        self.emitted.clear()

    @override
    def emit(self, kind: type[OpT], *, result_names: Sequence[str] = (), **fields: Any) -> OpT:
        """Builds an op before the one that is rewritten, or at the end of another block when `inside` it."""
        op = kind(self.location, result_names=result_names, **fields)
        if self.block is self.anchor.parent:
            self.block.insert_before(self.anchor, op)
        else:
            self.block.append(op)
        if _is_placed(self.anchor):
            for value in op.results:
                _set_level(value, "register")
        self.emitted.add(op)
        self.pending.extend(op.walk())
        return op

    def replace(self, op: Op, *values: Value) -> None:
        """Makes all users of the op's results read `values` instead, and takes the op out."""
        assert len(values) == len(op.results), f"{op.name} has {len(op.results)} results, not {len(values)}"
        for old, new in zip(op.results, values):
            assert _stands_for(new.type, old.type), f"{new} in place of {old}"
            if isinstance(old.type, TileType) and new.op in self.emitted:
                _set_level(new, old.type.level)
            if old.name and not new.name:
                new.name = old.name
            self.pending.extend(old.users)
            old.replace_with(new)
        self.erase(op)

    def erase(self, op: Op) -> None:
        """Takes the op, whose results have no users, out. What it read may have become simpler."""
        read = op.operands
        op.erase()
        for value in read:
            if value.op is not None:
                self.pending.append(value.op)
            self.pending.extend(value.users)

    def revisit(self, op: Op) -> None:
        """Has the rules look at `op` again, which a rule changed in place; its users too."""
        self.pending.append(op)
        for value in op.results:
            self.pending.extend(value.users)


class Rules:
    """Rules by the kind of op that they apply to, tried in the order in which they were added."""

    def __init__(self, *others: Rules) -> None:
        self.by_kind: dict[type[Op], list[Rule[Any]]] = {}
        for rules in others:
            for kind, group in rules.by_kind.items():
                self.by_kind.setdefault(kind, []).extend(group)

    def on(self, *kinds: type[OpT]) -> Callable[[Rule[OpT]], Rule[OpT]]:
        """A decorator: adds the rule for ops of exactly these kinds."""

        def add(rule: Rule[OpT]) -> Rule[OpT]:
            for kind in kinds:
                self.by_kind.setdefault(kind, []).append(rule)
            return rule

        return add

    def apply(self, function: Function) -> bool:
        """Applies the rules wherever they fit until they fit nowhere; says whether anything changed."""
        pending = deque(function.walk())
        waiting = set(pending)
        budget = LIMIT * (len(pending) + 1)
        rewriter: Rewriter | None = None
        changed = False
        while pending:
            op = pending.popleft()
            waiting.discard(op)
            if op.parent is None:  # taken out meanwhile
                continue
            if rewriter is None:
                rewriter = Rewriter(op)
            rewriter.move_to(op)
            for rule in self.by_kind.get(type(op), ()):
                if rule(op, rewriter):
                    changed = True
                    budget -= 1
                    assert budget > 0, f"rules undo each other: {rule} at {op}"
                    rewriter.revisit(op)
                    break
            while rewriter.pending:
                again = rewriter.pending.popleft()
                if again not in waiting:
                    waiting.add(again)
                    pending.append(again)
        return changed


def _set_level(value: Value, level: Level | None) -> None:
    if isinstance(value.type, TileType) and value.type.shape:
        value.type = TileType(value.type.dtype, value.type.shape, level)


def _stands_for(new: Type, old: Type) -> bool:
    """Whether a value of type `new` can take the place of one of type `old`: where elements lie is another matter."""
    if isinstance(new, TensorType) and isinstance(old, TensorType):
        return new.dtype == old.dtype and new.shape == old.shape
    return same_but_level(old, new)


def _is_placed(op: Op) -> bool:
    """Whether the tiles around the op have levels already."""
    tiles = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, TileType)]
    return any(t.level is not None for t in tiles)
