"""At which memory level the ops of a group meet, in words for `explain()`.

Values of a group are tiles in registers. Operands of products come from memory by way of shared memory, where all
threads of a block share them; everything else is loaded to registers. Results are in global memory.
"""

from __future__ import annotations

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Function, Value
from tiledsl.passes.graph.analysis.outline import computed_of, is_repeated


def edges_of(function: Function) -> str:
    """The edges of a group: `4 edges in registers; through shared memory: x, w; from global memory: b; to ...: y`."""
    last = function.body.terminator
    assert last is not None
    members = {op for op in function.body.ops if not is_repeated(op) and op is not last}
    between = sum(1 for op in members for operand in op.operands if computed_of(operand) in members)
    shared = [p.name or "a value" for p in function.parameters if _is_multiplied(p)]
    others = [p.name or "a value" for p in function.parameters if not _is_multiplied(p)]
    parts = [f"{between} edges in registers"]
    if shared:
        parts.append(f"through shared memory: {', '.join(shared)}")
    if others:
        parts.append(f"from global memory: {', '.join(others)}")
    results = ", ".join(value.name or "a result" for value in last.operands)
    return "; ".join([*parts, f"to global memory: {results}"])


def _is_multiplied(value: Value) -> bool:
    """Whether a product reads a value as it is in memory."""
    for user in value.users:
        if isinstance(user, ops.Contract) or (is_repeated(user) and _is_multiplied(user.results[0])):
            return True
    return False
