"""The nest that is being gathered: what it has so far, and whether another sink may join."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiledsl.backend_cpu.nests.element_loops import LoopTile
from tiledsl.backend_cpu.nests.fold_sinks import FindTile, FoldCustom
from tiledsl.backend_cpu.nests.scans import ScanTile
from tiledsl.backend_cpu.nests.sinks import AtomicTile, KeepForLater, Sink, StoreTile
from tiledsl.backend_cpu.values.context import Context
from tiledsl.backend_cpu.values.expressions import expression_ops, leaves
from tiledsl.backend_cpu.values.storage import Storage
from tiledsl.ir import tile_ops as ops
from tiledsl.ir.core import Op, Value


class Pending:
    """Sinks over one domain. `written` are the tensors that the program stores to."""

    def __init__(self, context: Context, written: frozenset[Value]) -> None:
        self.context = context
        self.written = written
        self.sinks: list[Sink] = []
        self.homes: dict[Value, Storage] = {}
        """Where the values that the nest makes will be found once it is written."""
        self.made: set[Value] = set()
        """All values that the nest makes: tiles in passing, and what is finished only behind it."""
        self._finished: set[Value] = set()
        self._folded: set[tuple[int, ...]] = set()
        self._in_order = False
        """Whether a combiner is among the folds, which then go in order and leave no room for anything else."""
        self._looks_back = False
        """Whether any sink folds in a way that scans do not go with."""
        self.scans: list[ScanTile] = []
        self._visits = False
        """Whether any sink does not fold."""
        self._reads: set[Value] = set()
        self._writes: set[Value] = set()

    def add(self, sink: Sink, homes: Mapping[Value, Storage]) -> None:
        """Takes a sink that fits."""
        reads, writes = self._touched(sink)
        self._reads |= reads
        self._writes |= writes
        self.sinks.append(sink)
        self.homes.update(homes)
        self._finished.update(sink.produces)
        self.made.update(sink.produces, sink.passes, homes)
        if sink.folded:
            self._folded.add(sink.folded)
        else:
            self._visits = True
        self._in_order = self._in_order or isinstance(sink, FoldCustom)
        self._looks_back = self._looks_back or isinstance(sink, (FoldCustom, FindTile))
        if isinstance(sink, ScanTile):
            self.scans.append(sink)

    def fits(self, sink: Sink) -> bool:
        """Whether the sink can run in the same loops as those that are here."""
        if not self.sinks:
            return True
        first = self.sinks[0]
        if first.domain != sink.domain or first.vectorises != sink.vectorises:
            return False
        if sink.folded and self._folded - {sink.folded}:
            return False
        if (self._in_order or isinstance(sink, FoldCustom)) and (self._visits or not sink.folded):
            return False
        return self._scans_fit(sink) and not self._depends(sink) and not self._conflicts(sink)

    def _scans_fit(self, sink: Sink) -> bool:
        if not isinstance(sink, ScanTile):
            return not self.scans or not isinstance(sink, (FoldCustom, FindTile))
        return not self._looks_back and all(scan.op.reverse == sink.op.reverse for scan in self.scans)

    def depends(self, value: Value) -> bool:
        """Whether a value needs anything that the nest makes."""
        return any(leaf.value in self.made for leaf in leaves(self.context, value, self.made))

    def _depends(self, sink: Sink) -> bool:
        """Whether the sink needs more of what the nest makes than the element at hand."""
        for value in sink.reads:
            for leaf in leaves(self.context, value, self.made):
                if leaf.value in self._finished or (leaf.value in self.made and not leaf.aligned):
                    return True
        return False

    def _conflicts(self, sink: Sink) -> bool:
        """Whether the order of reads and writes of a tensor would change by joining."""
        reads, writes = self._touched(sink)
        return bool(writes & (self._reads | self._writes) or reads & self._writes)

    def _touched(self, sink: Sink) -> tuple[set[Value], set[Value]]:
        """The written tensors that a sink reads and writes, but for what it reads through tiles in passing."""
        reads = {
            op.tensor
            for op in expression_ops(self.context, *sink.reads, stop=self.made)
            if isinstance(op, ops.Load) and op.tensor in self.written
        }
        writes = {sink.op.tensor} if isinstance(sink, (StoreTile, AtomicTile)) else set[Value]()
        return reads, writes

    def settle(self, readers: Mapping[Value, set[Op]], allocate: Callable[[Value], Storage]) -> tuple[Sink, ...]:
        """The sinks that are to be written: a tile whose readers are all among them needs no place in scratch.

        `readers`: the ops that end up looping over a value.
        """
        served = {sink.reader for sink in self.sinks}
        settled: list[Sink] = []
        for sink in self.sinks:
            if isinstance(sink, KeepForLater):
                if readers[sink.value] <= served:
                    continue
                self.homes[sink.value] = allocate(sink.value)
                sink.targets = (self.homes[sink.value],)
            elif isinstance(sink, (ScanTile, LoopTile)):
                for number, result in enumerate(sink.passes):
                    if not readers[result] <= served:
                        self.homes[result] = sink.targets[number] = allocate(result)
            settled.append(sink)
        return tuple(settled)
