"""What a value is computed from, each after what it reads itself: how passes follow long chains without recursion."""

from __future__ import annotations

from collections.abc import Callable

from tiledsl.ir.core import Op, Value


def operands_first(value: Value, followed: Callable[[Value], bool]) -> list[Value]:
    """The values that `value` is computed from, up to those that are not `followed`, and itself last.

    Each comes once, in the order in which a recursion would finish it.
    """
    found: list[Value] = []
    seen: set[Value] = set()
    pending: list[tuple[Value, Op | None]] = [(value, None)]
    while pending:
        current, read = pending.pop()
        if read is not None:  # all that it reads has been
            found.append(current)
        elif current not in seen:
            seen.add(current)
            if current.op is None or not followed(current):
                found.append(current)
                continue
            pending.append((current, current.op))
            pending += [(operand, None) for operand in reversed(current.op.operands)]
    return found
