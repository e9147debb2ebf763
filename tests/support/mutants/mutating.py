"""What mutations are made of: changes of one op, and the small edits in which they consist."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tiledsl.ir.core import Op, Value
from tiledsl.ir.dtypes import DType
from tiledsl.ir.gpu.async_ops import Role
from tiledsl.ir.gpu.gpu_ops import Launch
from tiledsl.ir.tile_ops import Constant, Map


@dataclass(frozen=True)
class Change:
    """One change of an op. `apply` makes it, on a copy of the op; `words` say what it does, up to the op's name."""

    kind: str
    words: str
    apply: Callable[[Op], None]
    equivalent: str = ""


Mutator: TypeAlias = Callable[[Op], Iterator[Change]]
"""All changes of one kind that an op allows for."""


def set_attribute(kind: str, op: Op, name: str, value: object, equivalent: str = "") -> Change:
    """The change of one attribute."""

    def apply(copy: Op) -> None:
        copy.attributes[name] = value

    words = f"`{name}` {_text(op.attributes[name])} => {_text(value)} of {op.name}"
    return Change(kind, words, apply, equivalent)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def set_operand(op: Op, name: str, position: int, value: Value) -> None:
    """Puts `value` in place of one operand: the one at `position`, where the field has several."""
    field = op.fields[name]
    op.set_field(name, (*field[:position], value, *field[position + 1 :]) if isinstance(field, tuple) else value)


def operand_at(op: Op, name: str, position: int) -> Value:
    field = op.fields[name]
    value = field[position] if isinstance(field, tuple) else field
    assert isinstance(value, Value)
    return value


def before(anchor: Op, op: Op) -> Value:
    """Puts an op that computes something in front of another one."""
    assert anchor.parent is not None
    anchor.parent.insert_before(anchor, op)
    return op.result


def number(anchor: Op, value: int, dtype: DType) -> Value:
    return before(anchor, Constant(anchor.location, value=value, dtype=dtype))


def computed(anchor: Op, fn: str, a: Value, b: int) -> Value:
    """fn(a, b) of scalars, computed in front of `anchor`."""
    return before(anchor, Map(anchor.location, fn=fn, inputs=(a, number(anchor, b, a.dtype))))


def change_operand(
    kind: str, words: str, name: str, position: int, *steps: tuple[str, int], equivalent: str = ""
) -> Change:
    """The change of a scalar operand by functions and numbers, one after the other: `("add", 1), ("mod", 4)`."""

    def apply(copy: Op) -> None:
        value = operand_at(copy, name, position)
        for fn, other in steps:
            value = computed(copy, fn, value, other)
        set_operand(copy, name, position, value)

    return Change(kind, words, apply, equivalent)


# What stands around an op


def around(op: Op) -> Iterator[Op]:
    """The ops in whose bodies an op stands, the innermost first."""
    block = op.parent
    while block is not None and block.parent is not None:
        yield block.parent
        block = block.parent.parent


def launch_of(op: Op) -> Launch:
    return next(outer for outer in around(op) if isinstance(outer, Launch))


def threads_of(op: Op) -> int:
    """How many threads of a block run an op."""
    outer = next(outer for outer in around(op) if isinstance(outer, (Role, Launch)))
    return outer.threads
