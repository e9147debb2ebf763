"""How a kind of op is declared: its operands, attributes and bodies as fields, which are typed where they are read.

class Reduce(Op):
    name = "tile.reduce"
    source = operand()
    axes = ints_attribute()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, Union, overload

from typing_extensions import Self

from tiledsl.ir.dtypes import DType
from tiledsl.ir.symbolic import Dim
from tiledsl.ir.types import BlockSize, Shape

if TYPE_CHECKING:
    from tiledsl.ir.core import Block, Index, Number, Op, Value  # noqa: F401 - some are named in quotes
    from tiledsl.ir.layouts.buffer_layout import Layout

T = TypeVar("T")


class FieldOfOperands(Generic[T]):
    """Operands under one name; `T` is what they are read as."""

    name: str

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[Op]) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> T: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> Self | T:
        return self if op is None else op.fields[self.name]  # pyright: ignore[reportReturnType]


class OperandField(FieldOfOperands["Value"]):
    """Exactly one operand."""


class OptionalField(FieldOfOperands["Value | None"]):
    """One operand, or None."""


class VariadicField(FieldOfOperands["tuple[Value, ...]"]):
    """Any number of operands."""


class IndicesField(FieldOfOperands["tuple[Index, ...]"]):
    """A list of subscripts, one per axis of a tensor."""


AnyOperandField: TypeAlias = Union[OperandField, OptionalField, VariadicField, IndicesField]

AttributeKind = Literal["int", "number", "flag", "name", "text", "dtype", "dim", "shape", "ints", "blocks", "layout"]
"""How an attribute is written: see `printer.format_attribute`."""


class AttributeField(Generic[T]):
    """A compile-time property. With a default it may be left out, of text too."""

    def __init__(self, kind: AttributeKind, default: T | None, optional: bool, choices: Sequence[str] = ()) -> None:
        self.kind: AttributeKind = kind
        self.default = default
        self.optional = optional
        self.choices = tuple(choices)

    name: str

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[Op]) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> T: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> Self | T:
        return self if op is None else op.attributes[self.name]


class BodyField:
    """A nested block; None only if declared optional."""

    def __init__(self, optional: bool = False) -> None:
        self.optional = optional

    name: str

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type[Op]) -> Self: ...
    @overload
    def __get__(self, op: Op, owner: type[Op]) -> Block: ...
    def __get__(self, op: Op | None, owner: type[Op]) -> Self | Block:
        return self if op is None else op.bodies[self.name]


def operand() -> OperandField:
    return OperandField()


def optional_operand() -> OptionalField:
    return OptionalField()


def operands() -> VariadicField:
    return VariadicField()


def indices_field() -> IndicesField:
    return IndicesField()


def body_field() -> BodyField:
    return BodyField()


def optional_body_field() -> BodyField:
    """A body that may be absent; ask `op.has_body(name)` before reading it."""
    return BodyField(optional=True)


def int_attribute(default: int | None = None) -> AttributeField[int]:
    return AttributeField("int", default, default is not None)


def number_attribute() -> AttributeField[Number]:
    return AttributeField("number", None, False)


def flag_attribute() -> AttributeField[bool]:
    """A bool that is False, and not printed, unless set."""
    return AttributeField("flag", False, True)


def name_attribute(choices: Sequence[str] = (), default: str | None = None) -> AttributeField[str]:
    """A bare word, one of `choices` if any are given."""
    return AttributeField("name", default, default is not None, choices)


def text_attribute(default: str | None = None) -> AttributeField[str]:
    return AttributeField("text", default, default is not None)


def dtype_attribute() -> AttributeField[DType]:
    return AttributeField("dtype", None, False)


def dim_attribute() -> AttributeField[Dim]:
    return AttributeField("dim", None, False)


def shape_attribute() -> AttributeField[Shape]:
    return AttributeField("shape", None, False)


def ints_attribute(default: tuple[int, ...] | None = None) -> AttributeField[tuple[int, ...]]:
    return AttributeField("ints", default, default is not None)


def blocks_attribute() -> AttributeField[tuple[BlockSize, ...]]:
    return AttributeField("blocks", None, False)


def layout_attribute() -> AttributeField[Layout]:
    """A register or shared layout; its text says which."""
    return AttributeField("layout", None, False)


def optional_layout_attribute() -> AttributeField[Layout | None]:
    """A layout, or None: of a scalar."""
    return AttributeField("layout", None, True)
