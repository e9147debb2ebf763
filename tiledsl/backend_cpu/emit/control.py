"""Emits structured control flow: programs of a grid, loops that carry values, branches, scans.

A carried scalar lives in a stack slot (which becomes a register); a carried tile has a buffer of its own, and each
iteration leaves the next value there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu.emit.blocks import BlockEmitter
from tiledsl.backend_cpu.llvm import operands as o
from tiledsl.backend_cpu.llvm.writer import VectorType
from tiledsl.backend_cpu.nests.sinks import Keep
from tiledsl.backend_cpu.products.dots import is_of_this_turn
from tiledsl.backend_cpu.values.evaluate import evaluate
from tiledsl.backend_cpu.values.expressions import leaves
from tiledsl.backend_cpu.values.storage import Buffer, Point, Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Block, Op, Value
from tiledsl.ir.symbolic import symbol_name
from tiledsl.ir.types import AxisType, BlockSize
from tiledsl.passes.analysis.few import FEW, rows_that_may_be_few


class FunctionEmitter(BlockEmitter):
    """Writes whole functions: blocks and what nests them."""

    def control(self, op: Op) -> None:
        match op:
            case ops.Range():
                self.range(op)
            case ops.For():
                self.for_(op)
            case ops.While():
                self.while_(op)
            case ops.If():
                self.if_(op)
            case _:
                raise NotImplementedError(op.name)

    # Blocks that carry values

    def body(self, block: Block, targets: Sequence[Storage | str]) -> None:
        """A nested block: its ops, then its yielded values into `targets` (buffers, or slots of scalars)."""
        packed = dict(self.packed)
        with self.context.scope():
            self.block_ops(block)
            terminator = block.terminator
            assert isinstance(terminator, ops.Yield)
            self.deliver(terminator.values, targets)
        self.packed = packed

    def deliver(self, values: Sequence[Value], targets: Sequence[Storage | str]) -> None:
        """Moves values into their targets as if all at once: a value may still read the old content of any target."""
        context, writer = self.context, self.context.writer
        tiles = [(v, t) for v, t in zip(values, targets) if not isinstance(t, str) and context.storage.get(v) is not t]
        scalars = [(v, t) for v, t in zip(values, targets) if isinstance(t, str)]
        direct: list[tuple[Value, Storage]] = []
        late: list[tuple[Value, Storage, Storage]] = []
        for value, target in tiles:
            if self._reads_target(value, target, [t for _, t in tiles]):
                buffer = self.allocate(value)
                self.add(Keep(value, [buffer]))
                late.append((value, buffer, target))
            else:
                direct.append((value, target))
        for value, target in direct:
            self.add(Keep(value, [target]))
        self.flush()
        for value, buffer, target in late:
            context.storage[value] = buffer
            self.add(Keep(value, [target]))
        self.flush()
        operands = [evaluate(context, v, Point(())).operand for v, _ in scalars]
        for (value, slot), operand in zip(scalars, operands):
            writer.line(f"store {VectorType(value.dtype)} {operand}, ptr {slot}")

    def _reads_target(self, value: Value, own: Storage, targets: Sequence[Storage]) -> bool:
        """Whether writing the targets in some order could spoil what the value reads."""
        for leaf in leaves(self.context, value):
            storage = self.context.storage.get(leaf.value)
            if storage is None:
                continue
            if any(storage is t for t in targets if t is not own) or (storage is own and not leaf.aligned):
                return True
        return False

    def enter(self, initial: Sequence[Value], block: Block, arguments: Sequence[Value]) -> list[Storage | str]:
        """Slots and buffers for carried values, holding their initial values, with the arguments standing for them.

        What a loop around carries, and nobody else reads, goes on in its buffer: nothing is copied.
        """
        targets: list[Storage | str] = []
        filled: list[tuple[Value, Storage | str]] = []
        for start, argument in zip(initial, arguments):
            if not argument.shape:
                slot = self.context.writer.alloca(str(VectorType(argument.dtype)))
                targets.append(slot)
                filled.append((start, slot))
                continue
            owned = self._carried_on(start, block)
            buffer = owned or self.allocate(argument)
            targets.append(buffer)
            self.context.owned.add(argument)
            if owned is not None:
                if start in self.context.fresh:
                    self.context.fresh[argument] = self.context.fresh[start]
            elif self._starts_fresh(start, argument, block):
                slot = self.context.writer.alloca("i1")
                self.context.writer.line(f"store i1 true, ptr {slot}")
                self.context.fresh[argument] = slot
            else:
                filled.append((start, buffer))
        self.deliver([v for v, _ in filled], [t for _, t in filled])
        return targets

    def _carried_on(self, start: Value, block: Block) -> Buffer | None:
        """The buffer of a tile that a loop around carries, if that of `block` alone reads it."""
        stored, loop = self.context.storage.get(start), block.parent
        if not isinstance(stored, Buffer) or not isinstance(loop, (ops.Range, ops.For)):
            return None
        once = set(start.users) == {loop} and loop.initial.count(start) == 1 and is_of_this_turn(loop, start)
        return stored if once and start in self.context.owned else None

    def _starts_fresh(self, start: Value, argument: Value, block: Block) -> bool:
        """Whether the tile starts as zeros and is only ever added to by one dot, whose result is the next value."""
        zeros = start.op
        if not isinstance(zeros, ops.Broadcast) or not isinstance(zeros.source.op, ops.Constant):
            return False
        return zeros.source.op.value == 0 and self._is_added_to(argument, block)

    def _is_added_to(self, argument: Value, block: Block) -> bool:
        """Whether one dot adds to a tile that a loop carries, maybe in loops within, and does nothing else with it."""
        if len(argument.users) != 1 or block.terminator is None:
            return False
        (user,) = argument.users
        place = block.arguments.index(argument) - len(block.arguments)  # from the end: a block comes before
        after = block.terminator.operands[place]
        match user:
            case ops.Dot():
                adds = user.acc is argument and argument not in (user.a, user.b)
                return adds and user.parent is block and after is user.result
            case ops.Range() if user.parent is block and user.initial.count(argument) == 1:
                number = user.initial.index(argument)
                return after is user.results[number] and self._is_added_to(user.body.arguments[1 + number], user.body)
            case _:
                return False

    def open_iteration(self, arguments: Sequence[Value], targets: Sequence[Storage | str]) -> None:
        """Makes the carried arguments readable in this iteration."""
        for argument, target in zip(arguments, targets):
            if isinstance(target, str):
                type_ = VectorType(argument.dtype)
                self.context.scalars[argument] = self.context.writer.emit(f"load {type_}, ptr {target}")
            else:
                self.context.storage[argument] = target

    def leave(
        self,
        initial: Sequence[Value],
        arguments: Sequence[Value],
        results: Sequence[Value],
        targets: Sequence[Storage | str],
    ) -> None:
        """The loop's results are what its slots and buffers hold now."""
        writer = self.context.writer
        for start, argument, target in zip(initial, arguments, targets):
            slot = self.context.fresh.pop(argument, None)
            if slot is not None and start not in self.context.fresh and not isinstance(target, str):
                untouched, done = writer.new_label("untouched"), writer.new_label("touched")
                writer.branch_if(writer.emit(f"load i1, ptr {slot}"), untouched, done)
                writer.start(untouched)
                self.deliver([start], [target])
                writer.branch(done)
                writer.start(done)
        self.open_iteration(results, targets)

    # Loops and branches

    def axis_block(self, argument: Value, block: BlockSize, start: str, stop: str) -> None:
        """Makes one block of an axis known: its start, and an extent that the end of the axis cuts short."""
        context = self.context
        if not isinstance(argument.type, AxisType):
            context.scalars[argument] = start
            return
        name = symbol_name(argument.type.extent)
        if name is None:  # every block is whole
            extent = str(block.size)
        else:
            left = o.subtract(context.writer, stop, start)
            extent = o.smaller(context.writer, context.block_limits[name], left)
            context.symbols[name] = extent
        context.axes[argument] = (start, extent)

    def block_size(self, argument: Value, block: BlockSize) -> str:
        """The block size of an axis as an operand."""
        if block.kind == "fixed":
            return str(block.size)
        assert isinstance(argument.type, AxisType)
        name = symbol_name(argument.type.extent)
        assert name is not None
        assert block.kind == "upto"
        return self.context.block_limits[name]

    def range(self, op: ops.Range) -> None:
        context, carried = self.context, op.body.arguments[1:]
        axis, (block,) = op.body.arguments[0], op.blocks
        start, stop = (self.index(v) for v in (op.start, op.stop))
        targets = self.enter(op.initial, op.body, carried)
        with context.writer.loop(start, stop, self.block_size(axis, block)) as at, context.scope():
            self.axis_block(axis, block, at, stop)
            self.open_iteration(carried, targets)
            self._turn(op, targets)
        self.leave(op.initial, carried, op.results, targets)

    def _turn(self, op: ops.Range, targets: Sequence[Storage | str]) -> None:
        """One turn of a loop: where data says how many rows dots have, once for few of them and once for many."""
        context, writer = self.context, self.context.writer
        name = rows_that_may_be_few(op, context.facts)
        if name is None or name in context.few:
            self.body(op.body, targets)
            return
        few, many, done = (writer.new_label(hint) for hint in ("few", "many", "done"))
        writer.branch_if(writer.emit(f"icmp sle i64 {context.symbols[name]}, {FEW}"), few, many)
        for label, known in ((few, context.few | {name}), (many, context.few)):
            writer.start(label)
            with context.version(known):
                self.body(op.body, targets)
            writer.branch(done)
        writer.start(done)

    def for_(self, op: ops.For) -> None:
        context, writer, carried = self.context, self.context.writer, op.body.arguments[1:]
        start, stop, step = (self.index(v) for v in (op.start, op.stop, op.step))
        targets = self.enter(op.initial, op.body, carried)
        # counted, since the step may be negative
        up = writer.emit(f"icmp sgt i64 {step}, 0")
        span = writer.emit(
            f"select i1 {up}, i64 {o.subtract(writer, stop, start)}, i64 {o.subtract(writer, start, stop)}"
        )
        stride = writer.call("llvm.abs.i64", "i64", [("i64", step), ("i1", "false")])
        trips = o.ceil_divide(writer, span, o.larger(writer, stride, "1"))
        with writer.loop("0", trips) as trip, context.scope():
            context.scalars[op.body.arguments[0]] = o.add(writer, start, o.multiply(writer, trip, step))
            self.open_iteration(carried, targets)
            self.body(op.body, targets)
        self.leave(op.initial, carried, op.results, targets)

    def while_(self, op: ops.While) -> None:
        context, writer = self.context, self.context.writer
        targets = self.enter(op.initial, op.body, op.body.arguments)
        head, inside, done = writer.new_label("while"), writer.new_label("do"), writer.new_label("done")
        verdict = writer.alloca("i1")
        writer.branch(head)
        writer.start(head)
        with context.scope():
            self.open_iteration(op.condition.arguments, targets)
            self.body(op.condition, [verdict])
        writer.branch_if(writer.emit(f"load i1, ptr {verdict}"), inside, done)
        writer.start(inside)
        with context.scope():
            self.open_iteration(op.body.arguments, targets)
            self.body(op.body, targets)
        writer.branch(head)
        writer.start(done)
        self.leave(op.initial, op.body.arguments, op.results, targets)

    def if_(self, op: ops.If) -> None:
        context, writer = self.context, self.context.writer
        targets: list[Storage | str] = [
            self.allocate(v) if v.shape else writer.alloca(str(VectorType(v.dtype))) for v in op.results
        ]
        labels = [writer.new_label(hint) for hint in ("then", "else", "join")]
        writer.branch_if(evaluate(context, op.condition, Point(())).operand, labels[0], labels[1])
        for label, block in zip(labels, (op.then, op.otherwise)):
            writer.start(label)
            self.body(block, targets)
            writer.branch(labels[2])
        writer.start(labels[2])
        self.open_iteration(op.results, targets)
